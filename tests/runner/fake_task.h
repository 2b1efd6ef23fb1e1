/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fake_task.h - a task whose items a test writes, in a plan made of a suite's text, and
 * what a unit of it says. */
#ifndef FAKE_TASK_H
#define FAKE_TASK_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runner/exec.h"
#include "tasks/internal.h"

#define FAKE_CONTEXT                                                                     \
    "The grass is green. One of the special magic numbers for amber-lantern is: "        \
    "4812907. The sky is blue. One of the special magic numbers for quiet-anvil is: "    \
    "7300215. Here we go. There and back again. One of the special magic numbers for "   \
    "brisk-meadow is: 1950448. The sun is yellow. One of the special magic numbers for " \
    "plain-thimble is: 6624083. The clerk counts barrels of salt. "

enum { FAKE_MOST = 8, FAKE_RESULTS = 400 };

static struct kva_item fake_item[FAKE_MOST];  /* by idx; context and question are set */
static enum kva_status fake_fails[FAKE_MOST]; /* by idx; why the item cannot be made */
static struct kva_task_info fake_info;

static enum kva_status fake_make(const struct kva_task *task, int idx,
                                 const struct kva_tok_api *tok, struct kva_arena *arena,
                                 struct kva_item *item, struct kva_error *err)
{
    (void)task;
    (void)tok;
    (void)arena;
    if (fake_fails[idx] != KVA_OK)
        return KVA_FAIL(err, fake_fails[idx], "fake.jsonl:%d: no question", idx + 1);
    *item = fake_item[idx];
    return KVA_OK;
}

static const struct kva_family fake_family = {.item = fake_make};
static char fake_name[] = "fake";
static struct kva_task fake_task = {.family = &fake_family, .name = fake_name};

/* Items 0..3 ask for one needle each. */
static void fake_needles(void)
{
    static const char *const question[] = {
        " What is the special magic number for amber-lantern mentioned in the provided "
        "text? ",
        " What is the special magic number for quiet-anvil mentioned in the provided "
        "text? ",
        " What is the special magic number for brisk-meadow mentioned in the provided "
        "text? ",
        " What is the special magic number for plain-thimble mentioned in the provided "
        "text? "};
    static const char *const prefix[] = {
        "The special magic number for amber-lantern mentioned in the provided text is",
        "The special magic number for quiet-anvil mentioned in the provided text is",
        "The special magic number for brisk-meadow mentioned in the provided text is",
        "The special magic number for plain-thimble mentioned in the provided text is"};
    static const char *const answer[][1] = {
        {"4812907"}, {"7300215"}, {"1950448"}, {"6624083"}};
    static const char *const gold[] = {" 4812907", " 7300215", " 1950448", " 6624083"};

    memset(fake_item, 0, sizeof fake_item);
    memset(fake_fails, 0, sizeof fake_fails);
    for (int i = 0; i < 4; i++)
        fake_item[i] = (struct kva_item){.idx = i,
                                         .turn = i,
                                         .context = FAKE_CONTEXT,
                                         .context_len = strlen(FAKE_CONTEXT),
                                         .question = question[i],
                                         .answer_prefix = prefix[i],
                                         .answers = answer[i],
                                         .n_answers = 1,
                                         .gold = gold[i],
                                         .metric = "match_all",
                                         .max_new_tokens = 3,
                                         .depth = -1};
    fake_info = (struct kva_task_info){.suite = "fake",
                                       .name = "fake",
                                       .domain = "test",
                                       .metric = "match_all",
                                       .metric_version = 1,
                                       .n_available = -1,
                                       .turns = 4};
}

struct fake_plan {
    struct kva_suite suite;
    struct kva_plan plan;
    struct kva_task *real;
};

/* A plan of `text` (one model, one task) with one unit that asks items idx[0..n). */
static void fake_open(struct fake_plan *f, const char *text, const int *idx, int n,
                      bool perf)
{
    struct kva_suite_opts none = {0};
    struct kva_error err = {0};
    struct kva_buf report;
    struct kva_unit *u;

    memset(f, 0, sizeof *f);
    kva_buf_init(&report, 0);
    if (kva_suite_parse(text, "t", ".", &none, &f->suite, &report, &err) != KVA_OK ||
        kva_plan_new(&f->suite, NULL, 1, &f->plan, &err) != KVA_OK)
        fail_msg("%s %s", err.text, report.len > 0 ? report.data : "");
    kva_buf_release(&report);
    assert_int_equal(f->plan.n_units, 1);
    f->real = f->plan.tasks[0].task;
    fake_task.info = fake_info;
    fake_task.desc = f->real->desc;
    f->plan.tasks[0].task = &fake_task;
    u = &f->plan.units[0];
    free(u->idx);
    free(u->jobs);
    u->n_idx = n;
    u->idx = calloc((size_t)n, sizeof *u->idx);
    u->jobs = calloc((size_t)(n * f->plan.n_cells * 2), sizeof *u->jobs);
    assert_true(u->idx && u->jobs);
    memcpy(u->idx, idx, (size_t)n * sizeof *idx);
    u->n_jobs = 0;
    for (int alone = 0; alone <= perf; alone++)
        for (int q = 0; q < n; q++)
            for (int c = 0; c < f->plan.n_cells; c++)
                u->jobs[u->n_jobs++] = (struct kva_job){c, q, 0, alone, false};
}

static void fake_close(struct fake_plan *f)
{
    f->plan.tasks[0].task = f->real;
    kva_plan_release(&f->plan);
    kva_suite_release(&f->suite);
}

/* ---- what was said */

struct fake_heard {
    struct kva_result r[FAKE_RESULTS]; /* texts and ids are the test's to release */
    int n;
    char *meta[FAKE_MOST]; /* by question */
};

static enum kva_status fake_sample(void *ctx, const struct kva_sample_row *s,
                                   struct kva_error *err)
{
    struct fake_heard *h = ctx;

    (void)err;
    free(h->meta[s->question]);
    h->meta[s->question] = strdup(s->meta_json);
    return KVA_OK;
}

static enum kva_status fake_results(void *ctx, const struct kva_result *r, int n,
                                    struct kva_error *err)
{
    struct fake_heard *h = ctx;

    (void)err;
    for (int i = 0; i < n; i++) {
        struct kva_result *to = &h->r[h->n++];

        assert_true(h->n < FAKE_RESULTS);
        *to = r[i];
        to->text = r[i].text != NULL ? strdup(r[i].text) : NULL;
        to->error = r[i].error != NULL ? strdup(r[i].error) : NULL;
        to->ids = calloc((size_t)r[i].n_gen + 1, sizeof *to->ids);
        if (r[i].n_gen > 0)
            memcpy(to->ids, r[i].ids, (size_t)r[i].n_gen * sizeof *to->ids);
        for (int k = 0; k < r[i].n_scores; k++)
            if (r[i].scores[k].extracted != NULL)
                to->scores[k].extracted = strdup(r[i].scores[k].extracted);
        to->bits = NULL;
        to->spans = calloc((size_t)r[i].n_spans + 1, sizeof *to->spans);
        for (int k = 0; k < r[i].n_spans; k++) {
            size_t heads = (size_t)(r[i].layers * r[i].kv_heads);

            to->spans[k] = r[i].spans[k];
            to->spans[k].kept = calloc(heads, sizeof(uint16_t));
            memcpy(to->spans[k].kept, r[i].spans[k].kept, heads * sizeof(uint16_t));
        }
    }
    return KVA_OK;
}

static void fake_run(struct fake_plan *f, bool perf, int wave, struct fake_heard *h)
{
    struct kva_exec_opts opts = {.wave = wave};
    struct kva_sink sink = {h, fake_sample, fake_results, NULL};
    struct kva_error err = {0};
    int64_t rows = 0;

    memset(h, 0, sizeof *h);
    if (kva_exec_unit(&f->plan, 0, perf, &opts, &sink, &rows, &err) != KVA_OK)
        fail_msg("%s", err.text);
}

static void fake_forget(struct fake_heard *h)
{
    for (int i = 0; i < h->n; i++)
        kva_result_release(&h->r[i]);
    for (int i = 0; i < FAKE_MOST; i++)
        free(h->meta[i]);
}

/* The result of (cell, idx), or NULL. */
static inline const struct kva_result *fake_find(const struct fake_heard *h, int cell,
                                                 int idx)
{
    for (int i = 0; i < h->n; i++)
        if (h->r[i].cell == cell && h->r[i].idx == idx)
            return &h->r[i];
    return NULL;
}

/* NaN when the result has no such score. */
static inline double fake_score(const struct kva_result *r, const char *metric)
{
    for (int i = 0; i < r->n_scores; i++)
        if (strcmp(r->scores[i].metric, metric) == 0)
            return r->scores[i].value;
    return (double)NAN;
}

#endif
