/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fixture.h - hand-made results: one model, tasks, cells whose samples are given as
 * strings of 0 and 1 ('x': failed, '.': not run). */
#ifndef KVA_TESTS_REPORTS_FIXTURE_H
#define KVA_TESTS_REPORTS_FIXTURE_H

#include "reports/internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

enum { MAX_CELLS = 600, MAX_SAMPLES = 4000, MAX_OUT = 50000, MAX_TASKS = 32 };

struct world {
    struct kva_data d;
    struct kva_data_model model[2];
    struct kva_data_task task[MAX_TASKS];
    struct kva_data_cell cell[MAX_CELLS];
    struct kva_data_sample sample[MAX_SAMPLES];
    struct kva_data_outcome out[MAX_OUT];
    struct kva_data_run run[1];
    int per_task; /* samples of a task */
};

#define NEAR(a, b, eps) assert_true(fabs((a) - (b)) <= (eps))
#define S(x)            ((char *)(uintptr_t)(x))

static inline void digest(const char *what, int i, uint8_t out[32])
{
    char text[64];

    (void)snprintf(text, sizeof text, "%s %d", what, i);
    kva_sha256_of(text, strlen(text), out);
}

static inline struct world *world_new(int n_tasks, int per_task)
{
    static char hash[] = "aa", ok[] = "done", empty[] = "", conf[] = "{}", gen[] = "{}";
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    w->per_task = per_task;
    w->d.models = w->model;
    w->d.tasks = w->task;
    w->d.cells = w->cell;
    w->d.samples = w->sample;
    w->d.outcomes = w->out;
    w->d.runs = w->run;
    w->d.n_models = 1;
    w->model[0] = (struct kva_data_model){
        .name = S("toy"), .arch = S("llama"), .wtype = S("f16"), .n_layer = 2};
    digest("model", 0, w->model[0].digest);
    for (int t = 0; t < n_tasks; t++) {
        static char names[MAX_TASKS][16];

        (void)snprintf(names[t], sizeof names[t], "t%02d", t);
        w->task[t] = (struct kva_data_task){.suite = S("suite"),
                                            .name = names[t],
                                            .domain = empty,
                                            .metric = S("match_all"),
                                            .gen_json = gen,
                                            .ctx = 512,
                                            .binary = true};
        digest("task", t, w->task[t].digest);
        for (int i = 0; i < per_task; i++) {
            struct kva_data_sample *s = &w->sample[w->d.n_samples++];

            *s = (struct kva_data_sample){.task = t,
                                          .idx = i,
                                          .cluster = empty,
                                          .meta_json = conf,
                                          .refs_json = conf,
                                          .depth = (i + 0.5) / per_task};
            digest("sample", t * 1000 + i, s->digest);
        }
    }
    w->d.n_tasks = n_tasks;
    w->run[0] = (struct kva_data_run){.uuid = S("00000000-0000-4000-8000-000000000001"),
                                      .status = ok,
                                      .label = S("label"),
                                      .config_json = conf,
                                      .git_commit = hash,
                                      .cpu_model = S("cpu"),
                                      .cflags = S("-O2"),
                                      .compiler = S("gcc"),
                                      .started_ms = 1700000000000,
                                      .ended_ms = 1700000100000};
    w->d.n_runs = 1;
    return w;
}

/* Adds a cell; call in ascending (task, method) order as loading sorts them. */
static inline struct kva_data_cell *add_cell(struct world *w, int task,
                                             const char *method, double keep,
                                             const char *enforce, const char *scores)
{
    int i = w->d.n_cells++;
    bool ref = strcmp(method, "dense") == 0 || strcmp(method, "blind") == 0;
    struct kva_data_cell *c = &w->cell[i];

    *c = (struct kva_data_cell){.slug = S("slug"),
                                .method = S(method),
                                .budget_kind = S(ref ? "dense" : "keep"),
                                .schedule = S("oneshot"),
                                .enforce = S(ref ? "dense" : enforce),
                                .visibility = S("agnostic"),
                                .numerics = S("f32"),
                                .kv = S("f16"),
                                .spec_json = S("{\"seed\":1}"),
                                .task = task,
                                .budget = ref ? 1 : keep,
                                .n_expected = (int)strlen(scores)};
    digest("cell", i, c->digest);
    digest("key", task, c->dense_key);
    for (int k = 0; scores[k]; k++) {
        struct kva_data_outcome *o;
        bool ok = scores[k] == '0' || scores[k] == '1';
        double kept = ref ? 1 : strcmp(enforce, "physical") == 0 ? keep : 1;

        if (scores[k] == '.')
            continue;
        o = &w->out[w->d.n_outcomes++];
        *o = (struct kva_data_outcome){.cell = i,
                                       .sample = task * w->per_task + k,
                                       .status = S(ok ? "ok" : "oom"),
                                       .stop = ok ? S("eos") : NULL,
                                       .error = ok ? NULL : S("out of memory"),
                                       .score = ok ? scores[k] - '0' : (double)NAN,
                                       .gold_nll = (double)NAN,
                                       .span_e = (double)NAN,
                                       .span_payload = (double)NAN,
                                       .span_d = (double)NAN,
                                       .span_x = (double)NAN,
                                       .stage1 = (double)NAN,
                                       .wrong_needle = -1,
                                       .has_memory = ok};
        if (!ok)
            continue;
        o->gold_nll = strcmp(method, "blind") == 0 ? 3 : scores[k] == '1' ? 0.1 : 2;
        o->memory.kv_dense_bytes = 1000000;
        o->memory.kv_budget_bytes = (int64_t)(1000000 * keep);
        o->memory.kv_live_bytes = o->memory.kv_alloc_bytes = (int64_t)(1000000 * kept);
        o->memory.kv_meta_bytes = 1000;
        o->memory.kv_peak_bytes = 1100000;
        o->memory.entries_masked = kept > keep && !ref ? 10 : 0;
    }
    return c;
}

static inline struct kva_report *built(const struct world *w, const char *view)
{
    struct kva_report_opts o = {.view = view, .replicates = 500};
    struct kva_error err = {0};
    struct kva_report *r = NULL;
    enum kva_status rc = kva_report_build(&w->d, &o, &r, &err);

    if (rc != KVA_OK)
        print_error("build: %s\n", err.text);
    assert_int_equal(rc, KVA_OK);
    return r;
}

static inline char *rendered(const struct kva_report *r,
                             enum kva_status (*f)(const struct kva_report *,
                                                  struct kva_buf *, struct kva_error *))
{
    struct kva_error err = {0};
    struct kva_buf b;

    kva_buf_init(&b, 0);
    assert_int_equal(f(r, &b, &err), KVA_OK);
    return b.data;
}

static inline const struct kva_board *mean_board(const struct kva_report *r,
                                                 const char *enforce)
{
    for (int i = 0; i < r->n_board; i++)
        if (!r->board[i].single && strcmp(r->board[i].enforce, enforce) == 0)
            return &r->board[i];
    return NULL;
}

static inline const struct kva_arm *arm(const struct kva_board *b, const char *method,
                                        double keep)
{
    for (int k = 0; k < b->n_arm; k++)
        if (strcmp(b->arm[k].spec, method) == 0 && fabs(b->arm[k].budget - keep) < 1e-9)
            return &b->arm[k];
    return NULL;
}

#define A20 "11111111111111111111"
#define N20 "00000000000000000000"
#define H20 "11111111110000000000"

/* One task of 20: good = dense, half, bad at 50 %; dense and blind. */
static inline struct world *simple_world(void)
{
    struct world *w = world_new(1, 20);

    add_cell(w, 0, "bad+uniform", 0.5, "physical", N20);
    add_cell(w, 0, "blind", 1, "dense", N20);
    add_cell(w, 0, "dense", 1, "dense", A20);
    add_cell(w, 0, "good+uniform", 0.5, "physical", A20);
    add_cell(w, 0, "half+uniform", 0.5, "physical", H20);
    add_cell(w, 0, "same+uniform", 0.5, "physical", "11111111111111111110");
    return w;
}

#endif
