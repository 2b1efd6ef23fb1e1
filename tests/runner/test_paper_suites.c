/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_paper_suites.c - configs/paper-*.json: valid, and each runs what its published
 * table printed. */
#include "reports/published.h"
#include "runner/plan.h"

#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void open_suite(const char *path, struct kva_suite *s)
{
    struct kva_error err = {0};
    struct kva_buf report;

    kva_buf_init(&report, 0);
    if (kva_suite_load(path, NULL, s, &report, &err) != KVA_OK)
        fail_msg("%s", report.data ? report.data : err.text);
    kva_buf_release(&report);
}

static void every_suite_of_a_paper_is_valid(void **state)
{
    glob_t g;

    (void)state;
    assert_int_equal(glob("configs/paper-*.json", 0, NULL, &g), 0);
    assert_true(g.gl_pathc >= 20);
    for (size_t i = 0; i < g.gl_pathc; i++) {
        struct kva_suite s;
        const char *slash = strrchr(g.gl_pathv[i], '/');

        open_suite(g.gl_pathv[i], &s);
        assert_true(s.n_cells > 0);
        assert_int_equal(s.duplicates_dropped, 0);
        /* its name is the file's: results are found by it */
        assert_int_equal(strncmp(slash + 1, s.name, strlen(s.name)), 0);
        assert_string_equal(slash + 1 + strlen(s.name), ".json");
        kva_suite_release(&s);
    }
    globfree(&g);
}

/* Canonical, without the file that importances or profiles come from. */
static void spec_of(const char *text, const char *schedule, char out[960])
{
    struct kva_method *m = calloc(1, sizeof *m);
    struct kva_schedule when;
    struct kva_error err = {0};
    char *at;

    assert_non_null(m);
    assert_int_equal(kva_schedule_parse(schedule, &when, NULL), KVA_OK);
    if (kva_method_parse(text, &when, m, &err) != KVA_OK)
        fail_msg("%s: %s", text, err.text);
    (void)snprintf(out, 960, "%s", m->spec);
    at = strstr(out, "profile=");
    if (at) {
        size_t n = strcspn(at, ",+");

        memmove(at + 8, at + n, strlen(at + n) + 1);
    }
    kva_method_release(m);
    free(m);
}

static bool same_budget(const char *published, const struct kva_suite_cell *c)
{
    char text[32];

    kva_budget_text(&c->budget, text);
    return strcmp(published, text) == 0;
}

static bool runs(const struct kva_suite *s, const struct kva_published *p)
{
    char want[960], have[960], task[160];
    bool dense = strcmp(p->method, "dense") == 0;

    if (strcmp(p->aggregation, "task") == 0)
        (void)snprintf(task, sizeof task, p->ctx ? "%s@%d" : "%s", p->task, p->ctx);
    else
        task[0] = 0; /* a mean: its tasks are checked where they are printed */
    for (int i = 0; i < s->n_cells; i++) {
        const struct kva_suite_cell *c = &s->cells[i];

        if ((p->model[0] && strcmp(s->models[c->model].id, p->model) != 0) ||
            (task[0] && strcmp(s->tasks[c->task].id, task) != 0) ||
            (!dense && !same_budget(p->budget, c)) ||
            (!dense && p->visibility[0] &&
             strcmp(kva_visibility_name(c->visibility), p->visibility) != 0))
            continue;
        if (dense) {
            if (strcmp(c->method_text, "dense") == 0)
                return true;
            continue;
        }
        spec_of(p->method, c->schedule, want);
        spec_of(c->method_text, c->schedule, have);
        if (strcmp(want, have) == 0)
            return true;
    }
    return false;
}

static void suites_run_the_models_methods_and_budgets_of_their_tables(void **state)
{
    struct kva_published_set set;
    int checked = 0;

    (void)state;
    assert_int_equal(kva_published_read(&set, NULL), KVA_OK);
    for (int i = 0; i < set.n_table; i++) {
        const struct kva_published_table *t = &set.table[i];
        struct kva_suite s;
        char path[256];

        if (!t->config[0])
            continue;
        (void)snprintf(path, sizeof path, "configs/%s", t->config);
        open_suite(path, &s);
        for (int k = t->first; k < t->first + t->n_rows; k++) {
            const struct kva_published *p = &set.row[k];

            /* of a length that follows from another run (MATH-500) the suite says so */
            if (!kva_published_measurable(p) || !p->method[0] ||
                strncmp(p->budget, "share", 5) == 0)
                continue;
            if (!runs(&s, p))
                fail_msg("%s does not run %s: %s, %s, %s, %s", path, t->id, p->model,
                         p->method, p->budget, p->task);
            checked++;
        }
        kva_suite_release(&s);
    }
    assert_true(checked > 900);
    kva_published_release(&set);
}

/* Methods of the published numbers are of our grammar. */
static void every_published_method_can_be_read(void **state)
{
    struct kva_published_set set;
    char spec[960];

    (void)state;
    assert_int_equal(kva_published_read(&set, NULL), KVA_OK);
    for (int i = 0; i < set.n_row; i++)
        if (set.row[i].method[0])
            spec_of(set.row[i].method, "oneshot", spec);
    kva_published_release(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_suite_of_a_paper_is_valid),
        cmocka_unit_test(suites_run_the_models_methods_and_budgets_of_their_tables),
        cmocka_unit_test(every_published_method_can_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
