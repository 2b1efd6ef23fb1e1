/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_gate_file.c - gate files: what is read, every error with its place, pinning. */
#include "runner/gate_file.h"
#include "runner/nightly.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char said[4096];

static enum kva_status parse(const char *text, struct kva_gate_file *g)
{
    struct kva_error err = {0};
    struct kva_buf report;
    enum kva_status rc;

    kva_buf_init(&report, 0);
    rc = kva_gate_file_parse(text, "g.json", "/etc/gates", g, &report, &err);
    (void)snprintf(said, sizeof said, "%s", report.data ? report.data : "");
    kva_buf_release(&report);
    return rc;
}

static void refused(const char *text, const char *why)
{
    struct kva_gate_file g;

    assert_int_equal(parse(text, &g), KVA_EINVALID);
    if (!strstr(said, why))
        print_error("wanted '%s' in: %s\n", why, said);
    assert_non_null(strstr(said, why));
    kva_gate_file_release(&g);
}

/* An older program, which a bisection may run, does not know the key `sampling`. */
static void a_cell_is_selected_by_its_sampling_where_it_has_one(void **state)
{
    struct kva_data_model model = {.name = (char[]){"toy"}};
    struct kva_data_task task = {
        .suite = (char[]){"ruler"}, .name = (char[]){"vt"}, .ctx = 512};
    struct kva_data_cell cell = {.method = (char[]){"snapkv:kernel=5,window=8+uniform"},
                                 .budget_kind = (char[]){"keep"},
                                 .budget = 0.25,
                                 .enforce = (char[]){"physical"},
                                 .visibility = (char[]){"agnostic"},
                                 .schedule = (char[]){"oneshot"}};
    struct kva_data d = {.models = &model, .tasks = &task, .cells = &cell};
    static const char plain[] =
        "model=*toy*,method=snapkv:kernel=5?window=8+uniform,task=ruler/vt*,ctx=512,"
        "budget=keep=0.25,enforce=physical,visibility=agnostic,schedule=oneshot";
    char drawn[] = "t0.6";

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct kva_buf out;

        kva_buf_init(&out, 0);
        cell.sampling = i ? drawn : NULL;
        kva_night_only(&d, 0, &out);
        assert_memory_equal(out.data, plain, strlen(plain));
        assert_string_equal(out.data + strlen(plain), i ? ",sampling=t0.6" : "");
        kva_buf_release(&out);
    }
}

static void a_whole_file_is_read(void **state)
{
    struct kva_gate_file g;
    const char *text =
        "{\"schema\": 1, \"//\": \"a word\", \"gates\": [\"score\", \"memory\"],\n"
        " \"base\": \"last-good\", \"anchor\": \"v1\",\n"
        " \"score\": {\"alpha\": 0.01, \"task_points\": 2, \"suite_points\": 0.25,\n"
        "   \"exact\": true, \"non_inferiority_points\": 1.5},\n"
        " \"time\": {\"tau_cpu\": 0.3, \"min_reps\": 8},\n"
        " \"memory\": {\"peak_bytes\": 100},\n"
        " \"baselines\": {\"v1\": {\"db\": \"v1.db\", \"run\": [\"ab\", \"cd\"]},\n"
        "   \"last-good\": {\"db\": \"/d/x.db\", \"run\": \"ef\", \"commit\": "
        "\"0123456\"}},\n"
        " \"bisect\": {\"suite\": \"n.json\", \"build\": \"make\", \"paths\": "
        "\"p.json\"},\n"
        " \"quarantine\": [{\"cell\": \"a/b\", \"gate\": \"time\", \"since\": "
        "\"2026-08-01\",\n"
        "   \"expires\": \"2026-08-14\", \"owner\": \"me\", \"reason\": \"driver\"}]}";

    (void)state;
    assert_int_equal(parse(text, &g), KVA_OK);
    assert_string_equal(said, "");
    assert_true(g.opts.gate[KVA_REGRESS_SCORE] && !g.opts.gate[KVA_REGRESS_TIME]);
    assert_true(fabs(g.opts.task_drop - 0.02) < 1e-15);
    assert_true(fabs(g.opts.suite_drop - 0.0025) < 1e-15);
    assert_true(fabs(g.opts.non_inferiority - 0.015) < 1e-15);
    assert_true(g.opts.exact && !g.opts.allow_removed);
    assert_int_equal(g.opts.min_reps, 8);
    assert_true(g.opts.tau_cuda > 0.049 && g.opts.tau_cuda < 0.051); /* default */
    assert_int_equal(g.opts.peak_bytes, 100);
    assert_int_equal(kva_gate_file_find(&g, "v1")->n_run, 2);
    assert_string_equal(kva_gate_file_find(&g, "v1")->db, "/etc/gates/v1.db");
    assert_string_equal(kva_gate_file_find(&g, "last-good")->db, "/d/x.db");
    assert_string_equal(g.suite, "/etc/gates/n.json");
    assert_string_equal(g.paths, "/etc/gates/p.json");
    assert_int_equal(g.n_entry, 1);
    /* the fifteenth of August, at midnight UTC */
    assert_int_equal(g.entry[0].q.expires_ms, 1786752000000LL);
    assert_string_equal(g.entry[0].at, "g.json:10:17: /quarantine/0");
    kva_gate_file_release(&g);
}

static void every_error_has_line_column_and_pointer(void **state)
{
    (void)state;
    refused("{\"schema\": 1,", "g.json:1:13: ");
    refused("[]", "g.json:1:1: must be an object");
    refused("{}", "g.json:1:1: 'schema' is missing");
    refused("{\"schema\": 2}", "g.json:1:12: /schema: is unknown");
    refused("{\"schema\": 1,\n  \"bse\": \"x\"}",
            "g.json:2:3: /bse: unknown key; did you mean 'base'?");
    refused("{\"schema\": 1, \"schema\": 1}", "g.json:1:15: /schema: is there twice");
    refused("{\"schema\": 1, \"gates\": [\"scores\"]}", "'scores' is no gate");
    refused("{\"schema\": 1, \"gates\": []}", "names no gate");
    refused("{\"schema\": 1, \"bisect\": {\"build\": []}}",
            "/bisect/build: names no program");
    refused("{\"schema\": 1, \"score\": {\"alpha\": 7}}",
            "g.json:1:34: /score/alpha: must be a number from 1e-06 to 0.5");
    refused("{\"schema\": 1, \"score\": {\"exact\": 1}}", "must be true or false");
    refused("{\"schema\": 1, \"time\": 3}", "/time: must be an object");
    refused("{\"schema\": 1, \"anchor\": \"v0\"}", "no baseline has the name 'v0'");
    refused("{\"schema\": 1, \"baselines\": {\"x\": {\"run\": \"a\"}}}",
            "/baselines/x: 'db' is missing");
    refused("{\"schema\": 1, \"baselines\": {\"a/b\": {\"db\": 1}}}",
            "/baselines/a~1b/db");
    refused("{\"schema\": 1, \"quarantine\": [{}]}", "/quarantine/0: 'cell' is missing");
    refused("{\"schema\": 1, \"quarantine\": [{\"cell\": \"c\", \"gate\": \"time\", "
            "\"owner\": "
            "\"o\", \"reason\": \"r\", \"since\": \"2026-02-30\", \"expires\": "
            "\"2026-03-01\"}]}",
            "/quarantine/0/since: must be a day, YYYY-MM-DD, not '2026-02-30'");
    refused("{\"schema\": 1, \"quarantine\": [{\"cell\": \"c\", \"gate\": \"time\", "
            "\"owner\": "
            "\"o\", \"reason\": \"r\", \"since\": \"2026-03-02\", \"expires\": "
            "\"2026-03-01\"}]}",
            "/quarantine/0/expires: lies before 'since'");
    /* a line stays a line */
    refused("{\"schema\": 1, \"gates\": [\"a\\nb\\u001b[0m\"]}", "'a b [0m' is no gate");
    /* several at once */
    refused("{\"schema\": 1, \"bse\": 1, \"time\": 3}", "/bse");
    assert_non_null(strstr(said, "/time"));
}

static void days_are_counted_with_leap_years(void **state)
{
    static const struct {
        const char *s;
        int64_t day;
    } good[] = {{"1970-01-01", 0},     {"1970-12-31", 364},   {"1972-02-29", 789},
                {"1972-03-01", 790},   {"2000-02-29", 11016}, {"2000-03-01", 11017},
                {"2026-11-29", 20786}, {"2100-03-01", 47541}};
    static const char *const bad[] = {
        "2026-13-01", "2026-00-01", "2026-01-00", "2026-01-32", "2100-02-29",
        "2026-1-01",  "2026/01/01", "1969-12-31", "",           "2026-01-01 "};
    int64_t day;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(kva_parse_day(good[i].s, &day));
        assert_int_equal(day, good[i].day);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(kva_parse_day(bad[i], &day));
}

static void pinning_keeps_the_rest_of_the_file(void **state)
{
    char dir[] = "/tmp/kvaudit-gate-XXXXXX", file[64], db[64];
    const char *const runs[] = {"run-1", "run-2"};
    const char *text = "{\"schema\": 1, \"//\": \"stays\", \"base\": \"last-good\",\n"
                       "\"score\": {\"alpha\": 0.04}}";
    struct kva_error err = {0};
    struct kva_gate_file g;
    struct kva_buf report;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(file, sizeof file, "%s/g.json", dir);
    (void)snprintf(db, sizeof db, "%s/n.db", dir);
    assert_int_equal(kva_write_file(file, text, strlen(text), &err), KVA_OK);
    assert_int_equal(kva_write_file(db, "x", 1, &err), KVA_OK);
    kva_buf_init(&report, 0);
    assert_int_equal(kva_gate_file_load(file, &g, &report, &err), KVA_OK);
    assert_int_equal(kva_gate_file_pin(&g, "last-good", db, runs, 2, "0123456", &err),
                     KVA_OK);
    kva_gate_file_release(&g);
    assert_int_equal(kva_gate_file_load(file, &g, &report, &err), KVA_OK);
    assert_string_equal(kva_gate_file_find(&g, "last-good")->db, db);
    assert_int_equal(kva_gate_file_find(&g, "last-good")->n_run, 2);
    assert_string_equal(kva_gate_file_find(&g, "last-good")->commit, "0123456");
    assert_string_equal(json_string_value(json_object_get(g.root, "//")), "stays");
    assert_true(fabs(g.opts.alpha - 0.04) < 1e-15);
    /* beside the file: by name alone, so that the folder can move */
    assert_string_equal(
        json_string_value(json_object_get(
            json_object_get(json_object_get(g.root, "baselines"), "last-good"), "db")),
        "n.db");
    assert_int_equal(kva_gate_file_pin(&g, "x", "/nonexistent/x.db", runs, 1, NULL, &err),
                     KVA_EIO);
    kva_gate_file_release(&g);
    kva_buf_release(&report);
    (void)unlink(file);
    (void)unlink(db);
    (void)rmdir(dir);
}

/* configs/gate.json is what people copy; configs/paths.json names files that exist. */
static void the_files_in_configs_are_valid(void **state)
{
    struct kva_error err = {0};
    struct kva_gate_file g;
    struct kva_buf report, text;
    json_t *paths, *list, *one;
    const char *key;
    size_t i;
    int files = 0;

    (void)state;
    kva_buf_init(&report, 0);
    kva_buf_init(&text, 0);
    assert_int_equal(kva_gate_file_load("configs/gate.json", &g, &report, &err), KVA_OK);
    assert_int_equal(access(g.suite, R_OK), 0);
    assert_int_equal(kva_read_file(g.paths, 1 << 20, &text, &err), KVA_OK);
    paths = json_loadb(text.data, text.len, 0, NULL);
    assert_non_null(paths);
    json_object_foreach(json_object_get(paths, "methods"), key, list)
        json_array_foreach(list, i, one)
    {
        if (access(json_string_value(one), R_OK) != 0)
            print_error("%s: no file %s\n", key, json_string_value(one));
        assert_int_equal(access(json_string_value(one), R_OK), 0);
        files++;
    }
    assert_true(files > 40);
    json_decref(paths);
    kva_gate_file_release(&g);
    kva_buf_release(&report);
    kva_buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_is_selected_by_its_sampling_where_it_has_one),
        cmocka_unit_test(a_whole_file_is_read),
        cmocka_unit_test(every_error_has_line_column_and_pointer),
        cmocka_unit_test(days_are_counted_with_leap_years),
        cmocka_unit_test(pinning_keeps_the_rest_of_the_file),
        cmocka_unit_test(the_files_in_configs_are_valid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
