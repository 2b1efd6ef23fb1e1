/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_suite.c - suite files: expansion, the worked example of reports 8.1, every error
 * placed.
 *
 * tests/golden/suites/CASE/input with `expected` (one line a cell) or `error` (the whole
 * report). KVA_GOLDEN=write makes the files anew; read the difference before committing
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runner/jsonpos.h"
#include "runner/plan.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUITES "tests/golden/suites"

static void summary(const struct kva_suite *s, struct kva_buf *out)
{
    long outcomes = 0;

    for (int i = 0; i < s->n_cells; i++)
        outcomes += (long)s->cells[i].n * s->cells[i].reps;
    kva_buf_printf(out, "suite %s: %d cells, %ld outcomes, %d duplicates\n", s->name,
                   s->n_cells, outcomes, s->duplicates_dropped);
    for (int i = 0; i < s->n_excluded; i++)
        kva_buf_printf(out, "exclude %d: %d\n", i, s->excluded[i]);
    for (int i = 0; i < s->n_cells; i++) {
        const struct kva_suite_cell *c = &s->cells[i];
        char budget[32];

        kva_budget_text(&c->budget, budget);
        kva_buf_printf(out, "%s %s %s %s %s %s %s %s %s n=%d perf=%d",
                       s->models[c->model].id, c->method_id, s->tasks[c->task].id, budget,
                       c->schedule, kva_enforce_name(c->enforce),
                       kva_visibility_name(c->visibility), c->numerics, c->kv, c->n,
                       c->perf);
        if (kva_sampled(&c->sampling)) {
            char text[KVA_SAMPLING_TEXT];

            kva_sampling_text(&c->sampling, text);
            kva_buf_printf(out, " %s draws=%d", text, c->reps);
        }
        kva_buf_putc(out, '\n');
    }
}

static void check_case(const char *name)
{
    struct kva_buf text, want, report, got;
    struct kva_suite s;
    struct kva_error err = {0};
    char path[512];
    bool ok;

    kva_buf_init(&text, 0);
    kva_buf_init(&want, 0);
    kva_buf_init(&report, 0);
    kva_buf_init(&got, 0);
    snprintf(path, sizeof path, SUITES "/%s/input", name);
    assert_int_equal(kva_read_file(path, 1 << 20, &text, &err), KVA_OK);
    ok = kva_suite_parse(text.data, "suite.json", "/nowhere", NULL, &s, &report, &err) ==
         KVA_OK;
    if (ok)
        summary(&s, &got);
    else
        assert_int_equal(err.code, KVA_EINVALID);
    snprintf(path, sizeof path, SUITES "/%s/%s", name, ok ? "expected" : "error");
    if (getenv("KVA_GOLDEN"))
        assert_int_equal(kva_write_file(path, ok ? got.data : report.data,
                                        ok ? got.len : report.len, &err),
                         KVA_OK);
    if (kva_read_file(path, 1 << 20, &want, NULL) != KVA_OK)
        fail_msg("%s: no %s; report was:\n%s", name, path,
                 report.data ? report.data : "");
    if (strcmp(want.data, ok ? got.data : report.data) != 0)
        fail_msg("%s: got\n%s\nwanted\n%s", name, ok ? got.data : report.data, want.data);
    kva_suite_release(&s);
    kva_buf_release(&text);
    kva_buf_release(&want);
    kva_buf_release(&report);
    kva_buf_release(&got);
}

static void every_golden_suite_expands_or_fails_as_written(void **state)
{
    DIR *d = opendir(SUITES);
    struct dirent *e;
    int n = 0;

    (void)state;
    assert_non_null(d);
    while ((e = readdir(d)))
        if (e->d_name[0] != '.') {
            check_case(e->d_name);
            n++;
        }
    closedir(d);
    assert_true(n >= 18);
}

static enum kva_status parse(const char *text, const struct kva_suite_opts *o,
                             struct kva_suite *s, struct kva_buf *report)
{
    struct kva_error err = {0};

    kva_buf_init(report, 0);
    return kva_suite_parse(text, "s.json", ".", o, s, report, &err);
}

static void the_worked_example_gives_20_cells_and_670_outcomes(void **state)
{
    struct kva_suite s;
    struct kva_buf report;
    struct kva_error err = {0};
    long outcomes = 0, dense = 0, at_1024 = 0, at_4096 = 0, included = 0;

    (void)state;
    kva_buf_init(&report, 0);
    assert_int_equal(
        kva_suite_load(SUITES "/worked-example/input", NULL, &s, &report, &err), KVA_OK);
    assert_int_equal(s.n_cells, 20);
    assert_int_equal(s.n_excluded, 1);
    assert_int_equal(s.excluded[0], 2);
    for (int i = 0; i < s.n_cells; i++) {
        const struct kva_suite_cell *c = &s.cells[i];

        outcomes += c->n;
        if (c->enforce == KVA_DENSE)
            dense += c->n;
        else if (c->budget.value == 1000)
            included += c->n;
        else if (strstr(s.tasks[c->task].id, "@1024"))
            at_1024 += c->n;
        else
            at_4096 += c->n;
    }
    assert_int_equal(at_1024, 300);
    assert_int_equal(at_4096, 250);
    assert_int_equal(included, 20);
    assert_int_equal(dense, 100);
    assert_int_equal(outcomes, 670);
    /* relative to the suite's directory, and not there */
    assert_null(s.models[0].path);
    assert_non_null(strstr(s.models[0].why_missing, SUITES "/worked-example/SmolLM2"));
    kva_suite_release(&s);
    kva_buf_release(&report);
}

#define SMALL                                                                            \
    "{\"schema\":1,\"name\":\"small\",\"models\":[\"builtin:retrieval\"],"               \
    "\"methods\":[\"keydiff\",\"knorm\"],\"tasks\":[\"ruler/vt@512\",\"ruler/"           \
    "niah_single_1@256\"],"                                                              \
    "\"budgets\":[{\"keep\":0.5},{\"keep\":0.25}],\"defaults\":{\"n\":8}}"

static void set_changes_values_lists_and_makes_objects(void **state)
{
    const char *const set[] = {"defaults.n=3",
                               "methods=snapkv:window=16,kernel=3,tova",
                               "budgets=tokens=32,keep=0.1",
                               "defaults.max_new_tokens=9",
                               "tasks.0=ruler/vt@256",
                               "blind=false"};
    struct kva_suite_opts o = {.set = set, .n_set = 6};
    struct kva_suite s;
    struct kva_buf report;

    (void)state;
    assert_int_equal(parse(SMALL, &o, &s, &report), KVA_OK);
    assert_int_equal(s.n_cells, 2 * 2 * 2 + 2);
    assert_string_equal(s.cells[0].method_text, "snapkv:window=16,kernel=3");
    assert_string_equal(s.cells[4].method_text, "tova");
    assert_int_equal(s.cells[0].budget.kind, KVA_BUDGET_TOKENS);
    assert_int_equal(s.cells[1].budget.value, 1000);
    assert_int_equal(s.cells[0].n, 3);
    assert_int_equal(s.tasks[0].opts.max_new_tokens, 9);
    assert_string_equal(s.tasks[0].id, "ruler/vt@256");
    /* what ran is what is stored: canonical, with the values set */
    assert_non_null(strstr(s.text, "\"n\":3"));
    assert_non_null(strstr(s.text, "\"budgets\":[\"tokens=32\",\"keep=0.1\"]"));
    kva_suite_release(&s);
    kva_buf_release(&report);
}

static void errors_of_set_are_placed_at_the_argument(void **state)
{
    const char *const set[] = {"defaults.n=many", "budgets=keep=7", "nonsense",
                               "models.7=x"};
    struct kva_suite_opts o = {.set = set, .n_set = 4};
    struct kva_suite s;
    struct kva_buf report;

    (void)state;
    assert_int_equal(parse(SMALL, &o, &s, &report), KVA_EINVALID);
    assert_string_equal(
        report.data,
        "--set nonsense: is not KEY=VALUE\n"
        "--set models.7=x: the suite has no place 'models.7'\n"
        "--set defaults.n=many: /defaults/n: must be a whole number, not a string\n"
        "--set budgets=keep=7: /budgets: 7 is not in (0,1); did you mean 0.07?\n");
    kva_suite_release(&s);
    kva_buf_release(&report);
}

static void only_keeps_the_references_of_what_it_keeps(void **state)
{
    const char *const only[] = {"method=key*,task=ruler/vt",
                                "method=knorm,ctx=256,budget=keep=0.25"};
    struct kva_suite_opts o = {.only = only, .n_only = 1, .limit = 5};
    struct kva_suite s;
    struct kva_buf report;

    (void)state;
    assert_int_equal(parse(SMALL, &o, &s, &report), KVA_OK);
    assert_int_equal(s.n_cells, 2 + 2);
    assert_int_equal(s.limit, 5);
    for (int i = 0; i < s.n_cells; i++) {
        assert_string_equal(s.tasks[s.cells[i].task].id, "ruler/vt@512");
        assert_int_equal(s.cells[i].n, 5);
    }
    kva_suite_release(&s);
    kva_buf_release(&report);
    o.n_only = 2;
    assert_int_equal(parse(SMALL, &o, &s, &report), KVA_OK);
    assert_int_equal(s.n_cells, 2 + 2 + 1 + 2);
    kva_suite_release(&s);
    kva_buf_release(&report);
}

static void only_that_matches_nothing_is_an_error(void **state)
{
    const char *const only[] = {"method=snapkv", "metod=x", "budget=keep=0.77",
                                "sampling=greedi", "method=dens,kv=f16"};
    struct kva_suite_opts o = {.only = only, .n_only = 5};
    struct kva_suite s;
    struct kva_buf report;

    (void)state;
    assert_int_equal(parse(SMALL, &o, &s, &report), KVA_EINVALID);
    assert_string_equal(
        report.data,
        "--only method=snapkv: matches no cell of the suite\n"
        "--only metod=x: 'metod' is no key of a cell; did you mean 'method'?\n"
        "--only budget=keep=0.77: matches no cell of the suite\n"
        "--only sampling=greedi: matches no cell of the suite; did you mean "
        "'sampling=greedy'?\n"
        "--only method=dens,kv=f16: matches no cell of the suite; did you mean "
        "'method=dense'?\n");
    kva_suite_release(&s);
    kva_buf_release(&report);
}

static void seed_defaults_to_42_and_reaches_tasks_and_cells(void **state)
{
    const char *const set[] = {"defaults.seed=7"};
    struct kva_suite_opts o = {.set = set, .n_set = 1};
    struct kva_suite s;
    struct kva_buf report;

    (void)state;
    assert_int_equal(parse(SMALL, NULL, &s, &report), KVA_OK);
    assert_int_equal(s.cells[0].seed, 42);
    assert_int_equal(s.tasks[0].opts.seed, 42);
    assert_int_equal(s.cells[0].max_attempts, 2);
    assert_int_equal(s.cells[0].reps, 1);
    kva_suite_release(&s);
    kva_buf_release(&report);
    assert_int_equal(parse(SMALL, &o, &s, &report), KVA_OK);
    assert_int_equal(s.cells[0].seed, 7);
    assert_int_equal(s.tasks[1].opts.seed, 7);
    kva_suite_release(&s);
    kva_buf_release(&report);
}

static void one_name_may_stand_in_two_dialects_but_not_twice_in_one(void **state)
{
    static const char head[] =
        "{\"schema\":1,\"models\":\"builtin:retrieval\",\"methods\":\"dense\",\"tasks\":["
        "{\"id\":\"ruler/vt@1024\",\"dialect\":\"r2025\"},\"ruler/vt@1024\"";
    char text[512];
    struct kva_suite s;
    struct kva_buf report;

    (void)state;
    snprintf(text, sizeof text, "%s]}", head);
    assert_int_equal(parse(text, NULL, &s, &report), KVA_OK);
    assert_int_equal(s.n_tasks, 2);
    kva_suite_release(&s);
    kva_buf_release(&report);
    snprintf(text, sizeof text, "%s,\"ruler/vt@1024\"]}", head);
    assert_int_equal(parse(text, NULL, &s, &report), KVA_EINVALID);
    assert_non_null(strstr(report.data, "task 'ruler/vt@1024' is listed twice"));
    kva_suite_release(&s);
    kva_buf_release(&report);
}

static void shipped_suites_are_valid(void **state)
{
    static const char *const files[] = {
        "configs/quickstart.json", "configs/smoke.json",   "configs/ruler.json",
        "configs/longbench.json",  "configs/math500.json", "configs/niah-grid.json",
        "configs/multiturn.json",  "configs/nightly.json"};
    static const int cells[] = {6 * 3 * 3 + 6,    2 * 2 + 4,       11 * (4 * 2 + 2),
                                16 * (4 * 2 + 2), 5 * 2 + 2,       4 * (4 * 2 + 2),
                                8 * (4 * 2 + 2),  33 * (7 * 4 + 2)};

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct kva_suite s;
        struct kva_buf report;
        struct kva_error err = {0};

        kva_buf_init(&report, 0);
        if (kva_suite_load(files[i], NULL, &s, &report, &err) != KVA_OK)
            fail_msg("%s", report.data ? report.data : err.text);
        assert_int_equal(s.n_cells, cells[i]);
        if (i < 2)
            assert_string_equal(s.note, "short");
        kva_suite_release(&s);
        kva_buf_release(&report);
    }
}

static void known_models_resolve_to_the_cache_or_say_how_to_get_them(void **state)
{
    struct kva_arena a;
    struct kva_error err = {0};
    char *path, *chat = NULL;

    (void)state;
    kva_arena_init(&a);
    setenv("KVAUDIT_CACHE", "/nowhere/cache", 1);
    assert_int_equal(kva_models_resolve("smollm2-135m", ".", &path, &chat, &a, &err),
                     KVA_EIO);
    assert_null(path);
    assert_string_equal(chat, "smollm2");
    assert_string_equal(
        err.text,
        "model smollm2-135m is not at /nowhere/cache/models/"
        "SmolLM2-135M-Instruct.Q4_1.gguf; 'kvaudit fetch smollm2-135m' brings it");
    unsetenv("KVAUDIT_CACHE");
    memset(&err, 0, sizeof err);
    assert_int_equal(kva_models_resolve("x/y.gguf", "/suites", &path, &chat, &a, &err),
                     KVA_EIO);
    assert_string_equal(err.text,
                        "model file /suites/x/y.gguf is missing or not readable");
    memset(&err, 0, sizeof err);
    assert_int_equal(kva_models_resolve("builtin:retrieval", ".", &path, &chat, &a, &err),
                     KVA_OK);
    assert_string_equal(path, "builtin:retrieval");
    kva_arena_release(&a);
}

static void positions_count_lines_characters_and_escaped_keys(void **state)
{
    const char *text =
        "{\n  \"a/b\": [1, {\"~k\": \"\xc3\xa4\"}],\n \"\\u00e4\": 3, \"z\": \n  4 }";
    struct kva_jsonpos p;
    struct kva_jsonpos_at at;

    (void)state;
    assert_int_equal(kva_jsonpos_scan(text, strlen(text), &p, NULL), KVA_OK);
    at = kva_jsonpos_find(&p, "/a~1b/1/~0k");
    assert_int_equal(at.line, 2);
    assert_int_equal(at.col, 21);
    assert_int_equal(at.key_col, 15);
    at = kva_jsonpos_find(&p, "/\xc3\xa4");
    assert_int_equal(at.line, 3);
    assert_int_equal(at.key_col, 2);
    at = kva_jsonpos_find(&p, "/z");
    assert_int_equal(at.line, 4);
    assert_int_equal(at.col, 3);
    assert_int_equal(at.key_line, 3);
    /* what the text does not have stands where its nearest ancestor does */
    at = kva_jsonpos_find(&p, "/a~1b/7/x");
    assert_int_equal(at.line, 2);
    assert_int_equal(at.col, 10);
    assert_int_equal(p.n_dups, 0);
    kva_jsonpos_release(&p);
}

static void every_allocation_may_fail(void **state)
{
    const char *const set[] = {"defaults.n=3"}, *const only[] = {"method=keydiff"};
    struct kva_suite_opts o = {.set = set, .n_set = 1, .only = only, .n_only = 1};
    enum kva_status rc = KVA_ENOMEM;
    long at = 0;

    (void)state;
    while (rc == KVA_ENOMEM) {
        struct kva_suite s;
        struct kva_buf report;

        kva_alloc_fail_at(++at);
        rc = parse(SMALL, &o, &s, &report);
        kva_alloc_fail_at(0);
        kva_suite_release(&s);
        kva_buf_release(&report);
    }
    assert_int_equal(rc, KVA_OK);
    assert_true(at > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_golden_suite_expands_or_fails_as_written),
        cmocka_unit_test(the_worked_example_gives_20_cells_and_670_outcomes),
        cmocka_unit_test(set_changes_values_lists_and_makes_objects),
        cmocka_unit_test(errors_of_set_are_placed_at_the_argument),
        cmocka_unit_test(only_keeps_the_references_of_what_it_keeps),
        cmocka_unit_test(only_that_matches_nothing_is_an_error),
        cmocka_unit_test(seed_defaults_to_42_and_reaches_tasks_and_cells),
        cmocka_unit_test(one_name_may_stand_in_two_dialects_but_not_twice_in_one),
        cmocka_unit_test(shipped_suites_are_valid),
        cmocka_unit_test(known_models_resolve_to_the_cache_or_say_how_to_get_them),
        cmocka_unit_test(positions_count_lines_characters_and_escaped_keys),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
