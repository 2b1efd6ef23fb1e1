/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_spec_corpus.c - methods and schedules as text: a stored corpus and seeded edits.
 *
 * Whatever is accepted has a canonical form that is a fixed point; every refusal says
 * why. In tests/fuzz/spec a file holds one text a line; files named *method* go to the
 * method parser, *schedule* to the schedule parser. */
#include "tests/fuzz/fuzz.h"

#include "methods/method.h"

static const char *const words[] = {"snapkv",
                                    "snapkv32",
                                    "adakv",
                                    "global",
                                    "uniform",
                                    "tova",
                                    "random",
                                    "keydiff",
                                    "knorm",
                                    "dense",
                                    "blind",
                                    "critical",
                                    "streaming",
                                    "valuediff",
                                    "window",
                                    "alpha",
                                    "norm",
                                    "z",
                                    "cell_sum",
                                    "kernel",
                                    "pool",
                                    "max",
                                    "group",
                                    "seed",
                                    "sinks",
                                    "recent",
                                    "protect_last",
                                    "floor",
                                    "+",
                                    ":",
                                    "=",
                                    ",",
                                    "1e+3",
                                    "oneshot",
                                    "block:128",
                                    "caote",
                                    "fastcaote",
                                    "chunk",
                                    "balance",
                                    "defensive",
                                    "+critical",
                                    "eps",
                                    "mass",
                                    "l2",
                                    "exact",
                                    "compat",
                                    "fix_bias",
                                    "candidates",
                                    "criticalkv",
                                    "ada_critical",
                                    "layer_defensivekv",
                                    "+decode:",
                                    "nan",
                                    "inf",
                                    "0x10",
                                    "+adakv",
                                    "\xff",
                                    NULL};

/* True when accepted. `s` ends with its block, so that a read past it is noticed. */
static bool try_schedule(const char *s)
{
    struct kva_schedule a, b;
    struct kva_error err = {0};
    enum kva_status rc = kva_schedule_parse(s, &a, &err);
    char text[48], again[48];

    if (rc != KVA_OK) {
        assert_int_equal(rc, KVA_EINVALID);
        fuzz_refusal(s, rc, &err);
        return false;
    }
    assert_true(a.kind == KVA_BLOCK || a.kind == KVA_CHUNKED ? a.block >= 1
                                                             : a.block == 0);
    assert_true(a.decode >= 0);
    kva_schedule_text(&a, text);
    assert_int_equal(kva_schedule_parse(text, &b, &err), KVA_OK);
    kva_schedule_text(&b, again);
    assert_string_equal(text, again);
    return true;
}

static bool try_method(const char *s)
{
    static const struct kva_schedule schedules[] = {
        {KVA_ONESHOT, 0, 0}, {KVA_BLOCK, 128, 0}, {KVA_BLOCK, 1, 1}};
    bool accepted = false;

    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        struct kva_method a, b;
        struct kva_error err = {0};
        enum kva_status rc = kva_method_parse(s, &schedules[i], &a, &err);
        int window;

        if (rc != KVA_OK) {
            assert_int_equal(rc, KVA_EINVALID);
            fuzz_refusal(s, rc, &err);
            continue;
        }
        accepted = true;
        if (kva_method_parse(a.spec, &schedules[i], &b, &err) != KVA_OK)
            fail_msg("\"%s\" gives \"%s\": %s", s, a.spec, err.text);
        assert_string_equal(a.spec, b.spec);
        assert_string_equal(a.scorer_spec, b.scorer_spec);
        assert_memory_equal(&a.scorer_params, &b.scorer_params, sizeof a.scorer_params);
        assert_memory_equal(&a.allocator_params, &b.allocator_params,
                            sizeof a.allocator_params);
        kva_method_needs(&a, &window);
        assert_true(window >= 0);
    }
    return accepted;
}

/* The bytes as a C text in a block of their own. */
static bool try_bytes(const void *bytes, size_t n, bool method)
{
    char *s = malloc(n + 1);
    bool ok;

    assert_non_null(s);
    memcpy(s, bytes, n);
    s[n] = '\0';
    ok = method ? try_method(s) : try_schedule(s);
    free(s);
    return ok;
}

static bool is_method(const struct fuzz_file *f)
{
    return strstr(f->name, "method") != NULL;
}

static void every_stored_line_is_accepted_or_refused_as_its_file_says(void **state)
{
    struct fuzz_corpus c;
    int lines = 0;

    (void)state;
    fuzz_load(&c, "tests/fuzz/spec");
    for (int i = 0; i < c.n; i++) {
        const char *p = c.file[i].bytes.data, *end = p + c.file[i].bytes.len;

        while (p < end) {
            const char *stop = memchr(p, '\n', (size_t)(end - p));
            size_t n = (size_t)((stop ? stop : end) - p);

            if (try_bytes(p, n, is_method(&c.file[i])) != c.file[i].ok)
                fail_msg("%s: \"%.*s\" is %s", c.file[i].name, (int)n, p,
                         c.file[i].ok ? "refused" : "accepted");
            p += n + 1;
            lines++;
        }
    }
    assert_true(lines >= 60);
    assert_false(try_method(""));
    assert_false(try_schedule(""));
    fuzz_free(&c);
}

static void edited_texts_are_handled(void **state)
{
    struct fuzz_corpus c;
    struct kva_rng r = {20240605};
    uint64_t begin = kva_now_ns();
    long tries = 0, accepted = 0;
    uint8_t *b = malloc(FUZZ_ROOM);

    (void)state;
    fuzz_load(&c, "tests/fuzz/spec");
    for (; fuzz_goes_on(tries, 100000, begin); tries++) {
        const struct fuzz_file *f = fuzz_pick(&c, &r);
        size_t from = (size_t)kva_rng_below(&r, f->bytes.len), n;
        const char *stop;

        while (from > 0 && f->bytes.data[from - 1] != '\n')
            from--;
        stop = memchr(f->bytes.data + from, '\n', f->bytes.len - from);
        n = stop ? (size_t)(stop - f->bytes.data) - from : f->bytes.len - from;
        memcpy(b, f->bytes.data + from, n);
        n = fuzz_edit(&r, b, n, words);
        accepted += try_bytes(b, n, is_method(f));
    }
    print_message("%ld texts, %ld accepted\n", tries, accepted);
    assert_true(accepted > 0 && accepted < tries);
    free(b);
    fuzz_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stored_line_is_accepted_or_refused_as_its_file_says),
        cmocka_unit_test(edited_texts_are_handled),
    };
    kva_log_set(fuzz_quiet, NULL, KVA_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
