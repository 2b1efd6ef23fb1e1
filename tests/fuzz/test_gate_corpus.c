/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_gate_corpus.c - gate files: a stored corpus and seeded edits.
 *
 * A file is refused with at least one line of report, each with its place, or what it
 * says lies in the ranges that gate_file.h and regress.h promise. */
#include "tests/fuzz/fuzz.h"

#include "runner/gate_file.h"

static const char *const words[] = {
    "schema",     "gates",      "score",      "time",       "memory",   "base",
    "anchor",     "alpha",      "exact",      "tau_cpu",    "min_reps", "peak_bytes",
    "baselines",  "quarantine", "bisect",     "db",         "run",      "commit",
    "cell",       "since",      "expires",    "owner",      "reason",   "build",
    "2026-02-29", "2028-02-29", "9999-12-31", "0000-00-00", "null",     "true",
    "1e308",      "-1",         "[]",         "{}",         "\"\"",     "//",
    "a/b~c",      "\\u0000",    "\\ud83d",    "\xff",       "[[[[",     "\"",
    "../../x",    NULL};

static void check(const struct kva_gate_file *g)
{
    assert_true(g->opts.alpha > 0 && g->opts.alpha < 1);
    assert_true(g->opts.task_drop >= 0 && g->opts.suite_drop >= 0);
    assert_true(g->opts.tau_cpu >= 0 && g->opts.tau_cuda >= 0);
    assert_true(g->opts.min_reps >= 1 && g->opts.peak_bytes >= 0);
    for (int i = 0; i < g->n_baseline; i++) {
        const struct kva_gate_baseline *b = &g->baseline[i];

        assert_non_null(b->name);
        assert_non_null(b->db);
        assert_non_null(kva_gate_file_find(g, b->name));
        for (int k = 0; k < b->n_run; k++)
            assert_non_null(b->run[k]);
    }
    assert_true(!g->anchor || kva_gate_file_find(g, g->anchor));
    for (int i = 0; i < g->n_entry; i++) {
        const struct kva_gate_entry *e = &g->entry[i];
        int64_t since, expires;

        assert_true(kva_parse_day(e->since, &since));
        assert_true(kva_parse_day(e->expires, &expires));
        assert_true(since <= expires);
        assert_true(e->q.expires_ms > 0);
        assert_int_equal(strncmp(e->at, "fuzz.json:", 10), 0);
    }
}

/* True when accepted. */
static bool try_text(const void *bytes, size_t n)
{
    char *text = malloc(n + 1);
    struct kva_error err = {0};
    struct kva_gate_file g;
    struct kva_buf report;
    enum kva_status rc;

    assert_non_null(text);
    memcpy(text, bytes, n);
    text[n] = '\0';
    kva_buf_init(&report, 0);
    rc = kva_gate_file_parse(text, "fuzz.json", "/nowhere", &g, &report, &err);
    if (rc == KVA_OK) {
        assert_int_equal(report.len, 0);
        check(&g);
    } else {
        assert_int_equal(rc, KVA_EINVALID);
        fuzz_refusal("gate file", rc, &err);
        for (const char *line = report.data; line && *line;) {
            const char *end = strchr(line, '\n');

            if (strncmp(line, "fuzz.json:", 10) != 0)
                fail_msg("a line without its place in: %s", report.data);
            assert_non_null(end);
            line = end + 1;
        }
        assert_true(report.len > 0);
    }
    kva_gate_file_release(&g);
    kva_buf_release(&report);
    free(text);
    return rc == KVA_OK;
}

static void every_stored_file_is_accepted_or_refused_as_its_name_says(void **state)
{
    struct fuzz_corpus c;

    (void)state;
    fuzz_load(&c, "tests/fuzz/gate");
    for (int i = 0; i < c.n; i++)
        if (try_text(c.file[i].bytes.data ? c.file[i].bytes.data : "",
                     c.file[i].bytes.len) != c.file[i].ok)
            fail_msg("%s is %s", c.file[i].name, c.file[i].ok ? "refused" : "accepted");
    fuzz_free(&c);
}

static void edited_files_are_handled(void **state)
{
    struct fuzz_corpus c;
    struct kva_rng r = {20261130};
    uint64_t begin = kva_now_ns();
    long tries = 0, accepted = 0;
    uint8_t *b = malloc(FUZZ_ROOM);

    (void)state;
    assert_non_null(b);
    fuzz_load(&c, "tests/fuzz/gate");
    for (; fuzz_goes_on(tries, 40000, begin); tries++) {
        const struct fuzz_file *f = fuzz_pick(&c, &r);
        size_t n = f->bytes.len;

        if (n)
            memcpy(b, f->bytes.data, n);
        n = fuzz_edit(&r, b, n, words);
        accepted += try_text(b, n);
    }
    print_message("%ld files, %ld accepted\n", tries, accepted);
    assert_true(accepted > 0 && accepted < tries);
    free(b);
    fuzz_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stored_file_is_accepted_or_refused_as_its_name_says),
        cmocka_unit_test(edited_files_are_handled),
    };
    kva_log_set(fuzz_quiet, NULL, KVA_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
