/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_progress.c - plain lines, events, the ETA, durations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runner/progress.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Units of cost 10 with one shared job each. */
static struct kva_job shared = {0, 0, 0, false, false};
static struct kva_unit unit = {.jobs = &shared, .n_jobs = 1, .cost = 10};

struct screen {
    char *text;
    size_t n;
    FILE *to;
    struct kva_progress *p;
};

/* A plan of 20 units that cost 10 each, on `jobs` workers. */
static void start(struct screen *s, const char *mode, int64_t total, int jobs)
{
    struct kva_unit units[20];
    struct kva_plan plan = {.units = units, .n_units = 20};

    for (int i = 0; i < 20; i++)
        units[i] = unit;
    assert_int_equal(kva_progress_new(mode, total, &plan, jobs, &s->p, NULL), KVA_OK);
    s->text = NULL;
    s->to = open_memstream(&s->text, &s->n);
    kva_progress_stream(s->p, s->to);
}

static void stop(struct screen *s)
{
    kva_progress_free(s->p);
    fclose(s->to);
}

static void plain_prints_a_line_at_each_step_of_5_percent(void **state)
{
    struct screen s;
    int lines = 0;
    uint64_t begin = kva_now_ns();
    double least, rate;
    const char *last;

    (void)state;
    start(&s, "plain", 100, 1);
    for (int i = 0; i < 37; i++)
        kva_progress_outcome(s.p,
                             i % 10 == 0   ? "oom"
                             : i % 10 == 1 ? "truncated"
                                           : "ok",
                             "a/b/c", i);
    fflush(s.to);
    least = 35e9 / (double)(kva_now_ns() - begin); /* the clock went on since #34 */
    for (const char *p = s.text; *p; p++)
        lines += *p == '\n';
    assert_int_equal(lines, 7);
    assert_non_null(strstr(s.text, "[ 35%] 35/100 ok 27 err 4 skip 4 | "));
    assert_non_null(strstr(s.text, " outcomes/s | ETA - | a/b/c #34\n"));
    last = strstr(s.text, "err 4 skip 4 | ");
    assert_non_null(last);
    assert_int_equal(sscanf(last, "err 4 skip 4 | %lf outcomes/s", &rate), 1);
    assert_true(rate > least - 0.1);
    stop(&s);
    free(s.text);
}

static void eta_is_left_cost_times_observed_ratio_over_jobs(void **state)
{
    struct screen s;

    (void)state;
    start(&s, "plain", 20, 2);
    for (int i = 0; i < 5; i++) {
        kva_progress_outcome(s.p, "ok", "x", i);
        kva_progress_unit(s.p, &unit, false, 20000000000); /* 2 s per unit of cost */
    }
    kva_progress_outcome(s.p, "ok", "x", 5);
    fflush(s.to);
    /* 15 units of cost 10 are left: 300 s of work on 2 workers */
    assert_non_null(strstr(s.text, "| ETA 2m30s | x #5\n"));
    /* alpha 0.1: one slow unit moves the ratio from 2 to 0.9 * 2 + 0.1 * 12 = 3 */
    kva_progress_unit(s.p, &unit, false, 120000000000);
    kva_progress_outcome(s.p, "ok", "x", 6);
    fflush(s.to);
    assert_non_null(strstr(s.text, "| ETA 3m30s | x #6\n"));
    stop(&s);
    free(s.text);
}

static void cells_alone_have_one_worker_and_a_ratio_of_their_own(void **state)
{
    struct kva_job jobs[4] = {{0, 0, 0, false, false},
                              {1, 0, 0, false, false},
                              {0, 0, 0, true, false},
                              {1, 0, 0, true, false}};
    struct kva_unit units[2] = {{.jobs = jobs, .n_jobs = 4, .cost = 40},
                                {.jobs = jobs, .n_jobs = 4, .cost = 40}};
    struct kva_plan plan = {.units = units, .n_units = 2};
    struct screen s = {0};

    (void)state;
    assert_int_equal(kva_progress_new("plain", 8, &plan, 2, &s.p, NULL), KVA_OK);
    s.to = open_memstream(&s.text, &s.n);
    kva_progress_stream(s.p, s.to);
    for (int u = 0; u < 2; u++) /* cost 20 in 20 s each */
        kva_progress_unit(s.p, &units[u], false, 20000000000);
    for (int i = 0; i < 5; i++)
        kva_progress_outcome(s.p, "ok", "x", i);
    fflush(s.to);
    /* cost 40 is left, all of it alone: 40 s of one worker at the others' ratio */
    assert_non_null(strstr(s.text, "| ETA 40s | x #4\n"));
    kva_progress_unit(s.p, &units[0], true, 60000000000); /* three times as slow */
    kva_progress_outcome(s.p, "ok", "x", 5);
    fflush(s.to);
    assert_non_null(strstr(s.text, "| ETA 1m00s | x #5\n"));
    stop(&s);
    free(s.text);
}

static void events_are_json_objects(void **state)
{
    struct screen s;
    char *line, *save = NULL;
    int n = 0;

    (void)state;
    start(&s, "json", 2, 1);
    kva_progress_outcome(s.p, "ok", "odd \"name\"\\", 0);
    kva_progress_log(s.p, "a\tline with \"quotes\"");
    kva_progress_end(s.p);
    for (line = strtok_r(s.text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);

        assert_non_null(o);
        assert_true(json_is_string(json_object_get(o, "event")));
        json_decref(o);
        n++;
    }
    assert_int_equal(n, 3);
    stop(&s);
    free(s.text);
}

static void none_prints_nothing_but_logs(void **state)
{
    struct screen s;

    (void)state;
    start(&s, "none", 1, 1);
    kva_progress_outcome(s.p, "ok", "x", 0);
    kva_progress_tick(s.p);
    kva_progress_end(s.p);
    fflush(s.to);
    assert_int_equal(s.n, 0);
    kva_progress_log(s.p, "it broke");
    fflush(s.to);
    assert_string_equal(s.text, "kvaudit: it broke\n");
    stop(&s);
    free(s.text);
}

static void bar_is_cleared_before_a_log_line(void **state)
{
    struct screen s;

    (void)state;
    start(&s, "bar", 3, 1);
    usleep(210000); /* at most five redraws a second */
    kva_progress_outcome(s.p, "ok", "x", 0);
    kva_progress_outcome(s.p, "ok", "x", 1);
    kva_progress_log(s.p, "hello");
    kva_progress_end(s.p);
    fflush(s.to);
    assert_int_equal(strncmp(s.text, "[ 33%] 1/3 ok 1", 15), 0);
    assert_non_null(strstr(s.text, "\r\033[Kkvaudit: hello\n[ 66%]"));
    assert_int_equal(s.text[s.n - 1], '\n');
    stop(&s);
    free(s.text);
}

static void unknown_mode_is_refused(void **state)
{
    struct kva_progress *p;
    struct kva_error err = {0};

    (void)state;
    assert_int_equal(kva_progress_new("plian", 1, NULL, 1, &p, &err), KVA_EINVALID);
    assert_string_equal(err.text, "unknown progress mode 'plian'; did you mean 'plain'?");
}

static void nothing_done_names_no_cell_and_all_done_has_no_time_left(void **state)
{
    struct screen s;

    (void)state;
    start(&s, "plain", 6, 1);
    kva_progress_end(s.p);
    assert_non_null(
        strstr(s.text, "[  0%] 0/6 ok 0 err 0 skip 0 | 0.0 outcomes/s | ETA -\n"));
    kva_progress_unit(s.p, &unit, false, 20000000000);
    for (int i = 0; i < 6; i++)
        kva_progress_outcome(s.p, "ok", "x", i);
    fflush(s.to);
    assert_non_null(strstr(s.text, "| ETA 6m20s | x #4\n"));
    assert_non_null(strstr(s.text, "| ETA 0s | x #5\n"));
    stop(&s);
    free(s.text);
}

/* Where no terminal is asked the bar has 79 columns. */
static void a_bar_is_cut_between_letters(void **state)
{
    struct screen s;
    const char *line;

    (void)state;
    start(&s, "bar", 3, 1);
    kva_progress_outcome(
        s.p, "ok",
        "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
        "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
        "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9",
        1);
    kva_progress_end(s.p);
    line = strrchr(s.text, '[');
    line = line > s.text && line[-1] == '\033' ? line + 2 : line;
    assert_int_equal(kva_utf8_columns(line) - 1, 79); /* the line feed apart */
    for (const char *p = line; *p; p += kva_utf8_len(p, strlen(p)))
        assert_true(kva_utf8_len(p, strlen(p)) > 0);
    stop(&s);
    free(s.text);
}

static void durations_read_like_durations(void **state)
{
    char t[24];

    (void)state;
    kva_duration_text(45.4, t);
    assert_string_equal(t, "45s");
    kva_duration_text(136, t);
    assert_string_equal(t, "2m16s");
    kva_duration_text(3599.6, t);
    assert_string_equal(t, "1h00m");
    kva_duration_text(3860, t);
    assert_string_equal(t, "1h04m");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_prints_a_line_at_each_step_of_5_percent),
        cmocka_unit_test(eta_is_left_cost_times_observed_ratio_over_jobs),
        cmocka_unit_test(cells_alone_have_one_worker_and_a_ratio_of_their_own),
        cmocka_unit_test(events_are_json_objects),
        cmocka_unit_test(none_prints_nothing_but_logs),
        cmocka_unit_test(bar_is_cleared_before_a_log_line),
        cmocka_unit_test(unknown_mode_is_refused),
        cmocka_unit_test(nothing_done_names_no_cell_and_all_done_has_no_time_left),
        cmocka_unit_test(a_bar_is_cut_between_letters),
        cmocka_unit_test(durations_read_like_durations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
