/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nights.h - simulated nights: two runs of the same program that differ by noise alone,
 * or by noise and one drop, judged by the real gate. Shared by nights.c (the committed
 * table) and the small version among the tests.
 *
 * A night has TASKS x METHODS cells and their suites. Samples are binary; a share
 * `differs` of them comes out differently in the two runs, to either side with the same
 * chance, as on a backend that is not exact. Times of 10 repetitions scatter by 3 %;
 * bytes are equal. A drop d in one cell moves the sides to (differs + d) / 2 and (differs
 * - d) / 2. */
#ifndef KVA_TESTS_SIM_NIGHTS_H
#define KVA_TESTS_SIM_NIGHTS_H

#include "reports/regress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 3, METHODS = 4, CELLS = TASKS * METHODS, MAX_N = 500, REPS = 10 };

struct nights_side {
    struct kva_data d;
    struct kva_data_model model[1];
    struct kva_data_task task[TASKS];
    struct kva_data_cell cell[CELLS];
    struct kva_data_sample sample[TASKS * MAX_N];
    struct kva_data_outcome out[CELLS * MAX_N];
    struct kva_data_perf perf[CELLS * REPS];
    struct kva_data_run run[1];
};
struct nights {
    struct nights_side base, now;
    struct kva_rng rng;
};

#define TEXT(s) ((char *)(uintptr_t)(s))

static inline void nights_digest(const char *what, int i, uint8_t out[32])
{
    char text[32];

    (void)snprintf(text, sizeof text, "%s %d", what, i);
    kva_sha256_of(text, strlen(text), out);
}

static inline void nights_side_init(struct nights_side *s, int n)
{
    static const char *const task[TASKS] = {"t0", "t1", "t2"};
    static const char *const method[METHODS] = {"m0", "m1", "m2", "m3"};
    struct kva_data *d = &s->d;

    *d = (struct kva_data){.models = s->model,
                           .n_models = 1,
                           .tasks = s->task,
                           .n_tasks = TASKS,
                           .cells = s->cell,
                           .n_cells = CELLS,
                           .samples = s->sample,
                           .n_samples = TASKS * n,
                           .outcomes = s->out,
                           .n_outcomes = CELLS * n,
                           .perfs = s->perf,
                           .n_perfs = CELLS * REPS,
                           .runs = s->run,
                           .n_runs = 1};
    s->model[0] = (struct kva_data_model){.name = TEXT("model")};
    s->run[0] = (struct kva_data_run){.backend = TEXT("cuda")};
    for (int t = 0; t < TASKS; t++) {
        s->task[t] = (struct kva_data_task){
            .suite = TEXT("suite"), .name = TEXT(task[t]), .ctx = 512, .binary = true};
        for (int i = 0; i < n; i++) {
            s->sample[t * n + i] =
                (struct kva_data_sample){.task = t, .idx = i, .cluster = TEXT("")};
            nights_digest("sample", t * MAX_N + i, s->sample[t * n + i].digest);
        }
    }
    for (int c = 0; c < CELLS; c++) {
        int t = c / METHODS;

        s->cell[c] = (struct kva_data_cell){.slug = TEXT(method[c % METHODS]),
                                            .method = TEXT(method[c % METHODS]),
                                            .budget_kind = TEXT("keep"),
                                            .schedule = TEXT("oneshot"),
                                            .enforce = TEXT("physical"),
                                            .visibility = TEXT("agnostic"),
                                            .numerics = TEXT("f32"),
                                            .kv = TEXT("f16"),
                                            .spec_json = TEXT("{}"),
                                            .task = t,
                                            .budget = 0.5,
                                            .n_expected = n};
        nights_digest("cell", c, s->cell[c].digest);
        for (int i = 0; i < n; i++) {
            struct kva_data_outcome *o = &s->out[c * n + i];

            *o = (struct kva_data_outcome){
                .cell = c, .sample = t * n + i, .status = TEXT("ok"), .has_memory = true};
            o->memory.kv_dense_bytes = 1000;
            o->memory.kv_alloc_bytes = o->memory.kv_budget_bytes = 500;
        }
        for (int k = 0; k < REPS; k++)
            s->perf[c * REPS + k] = (struct kva_data_perf){
                .cell = c, .rep = k, .phase = TEXT("ttft"), .work = 1};
    }
}

static inline struct nights *nights_new(int n, uint64_t seed)
{
    struct nights *x = calloc(1, sizeof *x);

    if (x) {
        nights_side_init(&x->base, n);
        nights_side_init(&x->now, n);
        x->rng.x = seed;
    }
    return x;
}

static inline double nights_normal(struct kva_rng *r)
{
    double u = 1 - kva_rng_unit(r), v = kva_rng_unit(r);

    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* Draws a night; cell 0 loses `drop`. */
static inline void nights_draw(struct nights *x, double differs, double drop)
{
    int n = x->base.d.n_samples / TASKS;

    for (int c = 0; c < CELLS; c++) {
        double lost = (differs + (c == 0 ? drop : 0)) / 2;

        for (int i = 0; i < n; i++) {
            double u = kva_rng_unit(&x->rng);
            double both = kva_rng_unit(&x->rng) < 0.6;

            x->base.out[c * n + i].score = u < lost ? 1 : u < differs ? 0 : both;
            x->now.out[c * n + i].score = u < lost ? 0 : u < differs ? 1 : both;
        }
        for (int k = 0; k < 2 * REPS; k++) {
            struct kva_data_perf *p =
                &(k % 2 ? &x->now : &x->base)->perf[c * REPS + k / 2];

            p->ns = (int64_t)(1e8 * exp(0.03 * nights_normal(&x->rng)));
        }
    }
}

struct nights_count {
    int nights, failing, found, comparisons;
};

/* Judges `nights` nights; found: those in which cell 0's own comparison fails. */
static inline struct nights_count nights_run(int nights, int n, double differs,
                                             double drop, uint64_t seed)
{
    struct nights_count c = {.nights = nights};
    struct nights *x = nights_new(n, seed);
    struct kva_regress_opts o;

    kva_regress_defaults(&o);
    o.replicates = 200; /* intervals decide nothing about scores */
    for (int i = 0; x && i < nights; i++) {
        struct kva_error err = {0};
        struct kva_regress r;

        nights_draw(x, differs, drop);
        kva_regress_init(&r, &o);
        if (kva_regress_add(&r, &x->base.d, &x->now.d, "base", 1, &err) != KVA_OK ||
            kva_regress_decide(&r, NULL, 0, 0, &err) != KVA_OK) {
            fprintf(stderr, "%s\n", err.text);
            exit(3);
        }
        c.failing += kva_regress_exit(&r) == 1;
        c.comparisons = r.n_comparisons;
        for (int k = 0; k < r.n_row; k++)
            c.found += r.row[k].verdict == KVA_REGRESS_FAIL &&
                       strcmp(r.row[k].what, "task") == 0 &&
                       memcmp(r.row[k].digest, x->base.cell[0].digest, 32) == 0;
        kva_regress_release(&r);
    }
    free(x);
    return c;
}

#endif
