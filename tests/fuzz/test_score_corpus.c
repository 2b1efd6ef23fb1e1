/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_corpus.c - lines of predictions: a stored corpus and seeded edits.
 *
 * A line is scored or refused with a reason, and either way answered by one JSON object
 * on one line. */
#include "tests/fuzz/fuzz.h"

#include "runner/score.h"

#include <jansson.h>

static const char *const words[] = {
    "prediction", "pred",     "answers", "outputs",     "dataset",
    "trec",       "samsum_e", "vcsum",   "all_classes", "classes",
    "id",         "_id",      "null",    "true",        "[]",
    "{}",         "\"\"",     "\\u0000", "\\ud800",     "\\ud83d\\ude00",
    "\xff",       "\xc3\xa9", "\xc3",    "\\n",         "[[[[[[[[",
    "\"",         ",",        "x",       "[\"x\"]",     "\\\\",
    "1e999",      "\x01",     NULL};

/* Refused or scored, and answered so. */
static bool try_line(const void *line, size_t n, const struct kva_score_opts *opts,
                     struct kva_buf *out)
{
    struct kva_error err = {0};
    struct kva_scored got;
    enum kva_status rc;
    json_t *o;

    out->len = 0;
    rc = kva_score_line(opts, 3, line, n, out, &got, &err);
    assert_true(rc == KVA_OK || rc == KVA_EFORMAT);
    assert_true(out->len > 0 &&
                memchr(out->data, '\n', out->len) == out->data + out->len - 1);
    o = json_loadb(out->data, out->len, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(o))
        fail_msg("no object: %s", out->data);
    assert_int_equal(json_integer_value(json_object_get(o, "line")), 3);
    if (rc == KVA_OK) {
        assert_true(json_real_value(json_object_get(o, "score")) == got.score);
        assert_true(got.score >= 0 && got.score <= 1);
        assert_null(json_object_get(o, "error"));
    } else {
        fuzz_refusal("the line", rc, &err);
        assert_null(json_object_get(o, "score"));
        assert_string_equal(json_string_value(json_object_get(o, "error")), err.text);
    }
    json_decref(o);
    return rc == KVA_OK;
}

static void every_stored_line_is_handled(void **state)
{
    const struct kva_score_opts opts = {kva_metric_find("classification"), false, -1,
                                        NULL},
                                plain = {kva_metric_find("match_all"), false, -1, NULL};
    struct fuzz_corpus c;
    struct kva_buf out;
    int accepted = 0;

    (void)state;
    kva_buf_init(&out, 0);
    fuzz_load(&c, "tests/fuzz/score");
    for (int i = 0; i < c.n; i++) {
        const struct kva_buf *b = &c.file[i].bytes;

        if (try_line(b->data, b->len, &plain, &out) != c.file[i].ok)
            fail_msg("%s is %s", c.file[i].name, c.file[i].ok ? "refused" : "accepted");
        try_line(b->data, b->len, &opts, &out);
        accepted += c.file[i].ok;
    }
    assert_true(accepted >= 4 && c.n - accepted >= 10);
    kva_buf_release(&out);
    fuzz_free(&c);
}

static void edited_lines_are_handled(void **state)
{
    const struct kva_metric *const *metrics = kva_metrics();
    struct fuzz_corpus c;
    struct kva_rng r = {20240605};
    uint64_t begin = kva_now_ns(), n_metrics = 0;
    uint8_t *b = malloc(FUZZ_ROOM);
    long tries = 0, accepted = 0;
    struct kva_buf out;

    (void)state;
    assert_non_null(b);
    while (metrics[n_metrics])
        n_metrics++;
    kva_buf_init(&out, 0);
    fuzz_load(&c, "tests/fuzz/score");
    for (; fuzz_goes_on(tries, 100000, begin); tries++) {
        const struct fuzz_file *f = fuzz_pick(&c, &r);
        const struct kva_score_opts opts = {.metric =
                                                metrics[kva_rng_below(&r, n_metrics)],
                                            .kvpress = kva_rng_below(&r, 4) == 0,
                                            .post = (int)kva_rng_below(&r, 6) - 1};

        memcpy(b, f->bytes.data, f->bytes.len);
        accepted += try_line(b, fuzz_edit(&r, b, f->bytes.len, words), &opts, &out);
    }
    print_message("%ld lines, %ld accepted\n", tries, accepted);
    assert_true(accepted > 0 && accepted < tries);
    kva_buf_release(&out);
    free(b);
    fuzz_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stored_line_is_handled),
        cmocka_unit_test(edited_lines_are_handled),
    };
    kva_log_set(fuzz_quiet, NULL, KVA_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
