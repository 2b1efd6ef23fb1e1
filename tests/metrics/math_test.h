/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math_test.h - answers compared and extracted in tests. */
#ifndef KVA_TESTS_MATH_TEST_H
#define KVA_TESTS_MATH_TEST_H

#include "metrics/math.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#define TEST(name) cmocka_unit_test(name)

static inline bool math_equal(const char *prediction, const char *gold)
{
    struct kva_arena arena;
    struct kva_math m;
    bool yes;

    kva_arena_init(&arena);
    kva_math_init(&m, &arena);
    yes = kva_math_equal_text(&m, kva_math_span_of(prediction), kva_math_span_of(gold));
    assert_false(m.nomem);
    kva_arena_release(&arena);
    return yes;
}

static inline void want_equal(const char *prediction, const char *gold, bool want,
                              const char *file, int line)
{
    if (math_equal(prediction, gold) != want) {
        print_error("\"%s\" against the gold \"%s\": %s\n", prediction, gold,
                    want ? "refused" : "accepted");
        _fail(file, line);
    }
}
#define SAME(prediction, gold) want_equal((prediction), (gold), true, __FILE__, __LINE__)
#define DIFFER(prediction, gold)                                                         \
    want_equal((prediction), (gold), false, __FILE__, __LINE__)

/* Score of a metric on one output and one reference. */
static inline double math_score(const char *metric, const char *output, const char *gold,
                                struct kva_metric_out *out)
{
    const struct kva_metric *m = kva_metric_find(metric);
    struct kva_metric_in in = {
        .prediction = output, .n = strlen(output), .answers = &gold, .n_answers = 1};
    struct kva_metric_out own = {0};
    struct kva_error err = {0};

    assert_non_null(m);
    if (!out)
        out = &own;
    if (kva_metric_score(m, &in, out, &err) != KVA_OK)
        fail_msg("%s: %s", metric, err.text);
    return out->score;
}

/* Calls f with each line of a JSON-lines file; skips the test, aloud, when it is not
 * there. */
static inline int math_lines(const char *path, void (*f)(const json_t *line, void *ctx),
                             void *ctx)
{
    static char text[1 << 17];
    FILE *file = fopen(path, "r");
    int n = 0;

    if (!file) {
        print_message("SKIP: no %s\n", path);
        skip();
        return 0;
    }
    while (fgets(text, sizeof text, file)) {
        json_t *line = json_loads(text, 0, NULL);

        assert_non_null(line);
        f(line, ctx);
        json_decref(line);
        n++;
    }
    fclose(file);
    return n;
}

static inline const char *math_field(const json_t *line, const char *key)
{
    const char *s = json_string_value(json_object_get(line, key));

    assert_non_null(s);
    return s;
}

static inline const char *math_shared(const char *name)
{
    static char path[1024];
    const char *dir = getenv("KVAUDIT_SHARED");

    snprintf(path, sizeof path, "%s/math500/%s", dir ? dir : "../shared/data", name);
    return path;
}

#endif
