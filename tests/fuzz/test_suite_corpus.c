/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_suite_corpus.c - suite files: a stored corpus and seeded edits, with --set, --only
 * and --limit.
 *
 * A suite is refused with at least one line of report, or its cells point into its own
 * lists, and its resolved text is a suite of the same cells. */
#include "tests/fuzz/fuzz.h"

#include "runner/plan.h"

static const char *const words[] = {
    "schema",      "name",     "label",     "defaults", "models",   "methods",
    "tasks",       "budgets",  "matrix",    "exclude",  "include",  "overrides",
    "dense",       "blind",    "schedules", "enforce",  "numerics", "visibility",
    "kv",          "perf",     "keep",      "tokens",   "bytes",    "when",
    "set",         "ctx",      "min",       "max",      "model",    "method",
    "task",        "budget",   "schedule",  "id",       "spec",     "path",
    "chat",        "seed",     "reps",      "n",        "snapkv",   "keydiff+adakv",
    "block:64",    "mask",     "aware",     "f32",      "ref",      "ruler/vt@600",
    "niah/needle", "*",        "?",         "null",     "true",     "[]",
    "{}",          "\"\"",     "//",        "a/b~c",    "\\u0000",  "\\ud83d",
    "\xff",        "\xc3\xa9", "[[[[",      "{\"a\":",  "\"",       NULL};

static const char *const sets[] = {"defaults.n=3",
                                   "methods=keydiff,snapkv:window=8,kernel=3",
                                   "budgets=[{\"keep\":0.5}]",
                                   "budgets.0.keep=0.125",
                                   "tasks.0=ruler/vt@600",
                                   "models",
                                   "=x",
                                   "a..b=1",
                                   "enforce=mask,physical",
                                   "methods.99=random",
                                   "matrix.method=key*",
                                   "name=\xff",
                                   "defaults=3"};
static const char *const onlys[] = {"method=key*",
                                    "model=builtin*,method=*",
                                    "ctx=512",
                                    "budget=keep*",
                                    "bogus=1",
                                    "method",
                                    "",
                                    "task=*vt*,kv=f16"};

static void check_cells(const struct kva_suite *s)
{
    assert_true(s->n_cells > 0);
    assert_non_null(s->name);
    assert_non_null(s->text);
    for (int i = 0; i < s->n_cells; i++) {
        const struct kva_suite_cell *c = &s->cells[i];

        assert_true(c->model >= 0 && c->model < s->n_models);
        assert_true(c->task >= 0 && c->task < s->n_tasks);
        assert_true(c->method_id[0] && c->method_text[0] && c->schedule[0]);
        assert_true(c->n >= 1 && c->reps >= 1 && c->max_attempts >= 1);
        assert_true(c->perf >= 0 && c->perf <= c->n);
        assert_string_not_equal(kva_enforce_name(c->enforce), "");
        assert_string_not_equal(kva_visibility_name(c->visibility), "");
    }
    for (int i = 0; i < s->n_models; i++)
        assert_true(s->models[i].id && (s->models[i].path || s->models[i].why_missing));
}

static bool try_text(const void *bytes, size_t n, const struct kva_suite_opts *opts)
{
    char *text = malloc(n + 1);
    struct kva_error err = {0};
    struct kva_suite s, again;
    struct kva_buf report;
    enum kva_status rc;

    assert_non_null(text);
    memcpy(text, bytes, n);
    text[n] = '\0';
    kva_buf_init(&report, 0);
    rc = kva_suite_parse(text, "fuzz.json", "/nowhere", opts, &s, &report, &err);
    if (rc == KVA_OK) {
        check_cells(&s);
        assert_int_equal(report.len, 0);
        if (!opts || (!opts->n_only && !opts->limit)) {
            rc = kva_suite_parse(s.text, "again.json", "/nowhere", NULL, &again, &report,
                                 &err);
            if (rc != KVA_OK)
                fail_msg("the resolved text is refused: %s%s", report.data, s.text);
            assert_int_equal(again.n_cells, s.n_cells);
            assert_string_equal(again.text, s.text);
            kva_suite_release(&again);
        }
    } else {
        fuzz_refusal("fuzz.json", rc, &err);
        if (rc != KVA_EINVALID && rc != KVA_EFORMAT)
            fail_msg("refused with %s: %s", kva_status_name(rc), err.text);
        if (report.len == 0 && rc == KVA_EINVALID)
            fail_msg("refused without a line of report: %s\n%s", err.text, text);
        if (report.len > 0)
            assert_int_equal(report.data[report.len - 1], '\n');
    }
    kva_suite_release(&s);
    kva_buf_release(&report);
    free(text);
    return rc == KVA_OK;
}

static void every_stored_suite_is_handled(void **state)
{
    struct fuzz_corpus c;
    int accepted = 0;

    (void)state;
    fuzz_load(&c, "tests/fuzz/suite");
    for (int i = 0; i < c.n; i++) {
        if (try_text(c.file[i].bytes.data, c.file[i].bytes.len, NULL) != c.file[i].ok)
            fail_msg("%s is %s", c.file[i].name, c.file[i].ok ? "refused" : "accepted");
        accepted += c.file[i].ok;
    }
    assert_true(accepted >= 4 && c.n - accepted >= 12);
    fuzz_free(&c);
}

static void edited_suites_are_handled(void **state)
{
    struct fuzz_corpus c;
    struct kva_rng r = {20240603};
    uint64_t begin = kva_now_ns();
    long tries = 0, accepted = 0;
    uint8_t *b = malloc(FUZZ_ROOM);

    (void)state;
    fuzz_load(&c, "tests/fuzz/suite");
    for (; fuzz_goes_on(tries, 2000, begin); tries++) {
        const struct fuzz_file *f = fuzz_pick(&c, &r);
        struct kva_suite_opts o = {0};
        const char *set[2], *only[1];
        size_t n = f->bytes.len;

        memcpy(b, f->bytes.data, n);
        if (kva_rng_below(&r, 4))
            n = fuzz_edit(&r, b, n, words);
        o.set = set;
        o.only = only;
        o.n_set = kva_rng_below(&r, 2) ? (int)kva_rng_below(&r, 3) : 0;
        for (int i = 0; i < o.n_set; i++)
            set[i] = sets[kva_rng_below(&r, sizeof sets / sizeof *sets)];
        o.n_only = kva_rng_below(&r, 4) == 0;
        only[0] = onlys[kva_rng_below(&r, sizeof onlys / sizeof *onlys)];
        o.limit = (int)kva_rng_below(&r, 3);
        accepted += try_text(b, n, &o);
    }
    print_message("%ld suites, %ld accepted\n", tries, accepted);
    assert_true(accepted > 0 && accepted < tries);
    free(b);
    fuzz_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stored_suite_is_handled),
        cmocka_unit_test(edited_suites_are_handled),
    };
    kva_log_set(fuzz_quiet, NULL, KVA_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
