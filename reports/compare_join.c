/* SPDX-License-Identifier: GPL-3.0-or-later */
/* compare_join.c - two selections, perhaps of two databases, as one set of data.
 *
 * Tasks are sorted by name, samples by task, index and digest: the order does not depend
 * on which side is A, and so neither do the draws of a bootstrap. */
#include "reports/compare_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of digests: digest -> place in the joined arrays. */
static bool place(struct kva_map *m, const uint8_t digest[32], int *n, int *at,
                  bool *fresh)
{
    int64_t v;

    *fresh = !kva_map_get(m, digest, 32, &v);
    if (!*fresh) {
        *at = (int)v;
        return true;
    }
    *at = (*n)++;
    return kva_map_put(m, digest, 32, *at, NULL, NULL) == KVA_OK;
}

static int by_task(const void *p, const void *q)
{
    const struct kva_data_task *a = p, *b = q;
    int k = strcmp(a->suite, b->suite);

    k = k ? k : strcmp(a->name, b->name);
    k = k ? k : (a->ctx > b->ctx) - (a->ctx < b->ctx);
    return k ? k : memcmp(a->digest, b->digest, 32);
}

static int by_sample(const void *p, const void *q)
{
    const struct kva_data_sample *a = p, *b = q;

    if (a->task != b->task)
        return a->task < b->task ? -1 : 1;
    if (a->idx != b->idx)
        return a->idx < b->idx ? -1 : 1;
    return memcmp(a->digest, b->digest, 32);
}

static int by_cell(const void *p, const void *q)
{
    const struct kva_data_outcome *a = p, *b = q;

    if (a->cell != b->cell)
        return a->cell < b->cell ? -1 : 1;
    if (a->sample != b->sample)
        return a->sample < b->sample ? -1 : 1;
    return (a->rep > b->rep) - (a->rep < b->rep);
}

/* Models, tasks and samples of both, each once. */
static bool join_facts(const struct kva_compare_side side[2], struct kva_data *d,
                       struct kva_map map[3])
{
    int at;
    bool fresh, ok = true;

    for (int s = 0; s < 2 && ok; s++) {
        const struct kva_data *x = side[s].data;

        for (int i = 0; i < x->n_models && ok; i++) {
            ok = place(&map[0], x->models[i].digest, &d->n_models, &at, &fresh);
            if (ok && fresh)
                d->models[at] = x->models[i];
        }
        for (int i = 0; i < x->n_tasks && ok; i++) {
            ok = place(&map[1], x->tasks[i].digest, &d->n_tasks, &at, &fresh);
            if (ok && fresh)
                d->tasks[at] = x->tasks[i];
        }
    }
    if (ok)
        qsort(d->tasks, (size_t)d->n_tasks, sizeof *d->tasks, by_task);
    for (int i = 0; i < d->n_tasks && ok; i++)
        ok = kva_map_put(&map[1], d->tasks[i].digest, 32, i, NULL, NULL) == KVA_OK;
    for (int s = 0; s < 2 && ok; s++) {
        const struct kva_data *x = side[s].data;

        for (int i = 0; i < x->n_samples && ok; i++) {
            int64_t task = 0;

            ok = place(&map[2], x->samples[i].digest, &d->n_samples, &at, &fresh) &&
                 kva_map_get(&map[1], x->tasks[x->samples[i].task].digest, 32, &task);
            if (ok && fresh) {
                d->samples[at] = x->samples[i];
                d->samples[at].task = (int)task;
            }
        }
    }
    if (ok)
        qsort(d->samples, (size_t)d->n_samples, sizeof *d->samples, by_sample);
    for (int i = 0; i < d->n_samples && ok; i++)
        ok = kva_map_put(&map[2], d->samples[i].digest, 32, i, NULL, NULL) == KVA_OK;
    return ok;
}

static int index_of(const struct kva_map *m, const uint8_t digest[32])
{
    int64_t v = 0;

    (void)kva_map_get(m, digest, 32, &v);
    return (int)v;
}

/* A failure may count as 0; what did not fit or was not run is nobody's failure. */
static void as_zero(struct kva_data_outcome *o)
{
    static char ok[] = "ok";

    if (strcmp(o->status, "ok") == 0 || strcmp(o->status, "truncated") == 0 ||
        strcmp(o->status, "skipped") == 0)
        return;
    o->status = ok;
    o->score = 0;
    o->has_memory = false;
}

/* The cells `take` marks, with their outcomes. */
static void join_cells(const struct kva_compare_side *side, const bool *take,
                       const struct kva_map map[3], bool missing_zero, int first_run,
                       int *of, struct kva_data *d)
{
    const struct kva_data *x = side->data;

    for (int i = 0; i < x->n_cells; i++) {
        if (!take[i])
            continue;
        of[i] = d->n_cells++;
        d->cells[of[i]] = x->cells[i];
        d->cells[of[i]].model = index_of(&map[0], x->models[x->cells[i].model].digest);
        d->cells[of[i]].task = index_of(&map[1], x->tasks[x->cells[i].task].digest);
    }
    for (int o = 0; o < x->n_outcomes; o++) {
        const struct kva_data_outcome *from = &x->outcomes[o];
        struct kva_data_outcome *to = &d->outcomes[d->n_outcomes];

        if (!take[from->cell] ||
            (side->run &&
             !(from->run >= 0 && from->run < x->n_runs && side->run[from->run])))
            continue;
        *to = *from;
        to->cell = of[from->cell];
        to->sample = index_of(&map[2], x->samples[from->sample].digest);
        to->run = from->run + first_run;
        if (missing_zero)
            as_zero(to);
        d->n_outcomes++;
    }
}

/* What is selected, and the full cache: its repetitions say what the noise is. */
static bool wanted(const struct kva_compare_side *side, int i)
{
    return side->cell[i] || strcmp(side->data->cells[i].method, "dense") == 0;
}

static bool room(const struct kva_compare_side side[2], struct kva_sides *j, int *of[2])
{
    const struct kva_data *a = side[0].data, *b = side[1].data;
    struct kva_data *d = &j->d;
#define ROOM(what)                                                                       \
    kva_calloc((size_t)a->n_##what + (size_t)b->n_##what + 1, sizeof *d->what)
    d->models = ROOM(models);
    d->tasks = ROOM(tasks);
    d->samples = ROOM(samples);
    d->cells = ROOM(cells);
    d->outcomes = ROOM(outcomes);
    d->runs = ROOM(runs);
#undef ROOM
    for (int s = 0; s < 2; s++) {
        of[s] = kva_calloc((size_t)side[s].data->n_cells + 1, sizeof *of[s]);
        j->cell[s] = kva_calloc((size_t)side[s].data->n_cells + 1, sizeof *j->cell[s]);
    }
    return d->models && d->tasks && d->samples && d->cells && d->outcomes && d->runs &&
           of[0] && of[1] && j->cell[0] && j->cell[1];
}

static int ascending(const void *p, const void *q)
{
    return (*(const int *)p > *(const int *)q) - (*(const int *)p < *(const int *)q);
}

enum kva_status kva_sides_join(const struct kva_compare_side side[2], bool missing_zero,
                               struct kva_sides *out, struct kva_error *err)
{
    const struct kva_data *a = side[0].data, *b = side[1].data;
    bool one = a == b && !side[0].run && !side[1].run, *take;
    size_t most = (size_t)(a->n_cells > b->n_cells ? a->n_cells : b->n_cells);
    int *of[2] = {NULL, NULL};
    struct kva_map map[3];
    enum kva_status rc = KVA_OK;

    memset(out, 0, sizeof *out);
    for (int i = 0; i < 3; i++)
        kva_map_init(&map[i]);
    take = kva_calloc(most + 1, sizeof *take);
    if (!room(side, out, of) || !take || !join_facts(side, &out->d, map)) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
        goto out;
    }
    memcpy(out->d.runs, a->runs, (size_t)a->n_runs * sizeof *a->runs);
    memcpy(out->d.runs + a->n_runs, b->runs, (size_t)b->n_runs * sizeof *b->runs);
    out->d.n_runs = a->n_runs + b->n_runs;
    for (int i = 0; i < a->n_cells; i++)
        take[i] = wanted(&side[0], i);
    join_cells(&side[0], take, map, missing_zero, 0, of[0], &out->d);
    for (int i = 0; i < b->n_cells; i++) {
        bool shared = one && take[i];

        of[1][i] = shared ? of[0][i] : -1;
        take[i] = wanted(&side[1], i) && !shared;
    }
    join_cells(&side[1], take, map, missing_zero, a->n_runs, of[1], &out->d);
    qsort(out->d.outcomes, (size_t)out->d.n_outcomes, sizeof *out->d.outcomes, by_cell);
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < side[s].data->n_cells; i++)
            if (side[s].cell[i])
                out->cell[s][out->n[s]++] = of[s][i];
        qsort(out->cell[s], (size_t)out->n[s], sizeof *out->cell[s], ascending);
    }
out:
    free(take);
    free(of[0]);
    free(of[1]);
    for (int i = 0; i < 3; i++)
        kva_map_release(&map[i]);
    return rc;
}

void kva_sides_release(struct kva_sides *j)
{
    free(j->d.models);
    free(j->d.tasks);
    free(j->d.samples);
    free(j->d.cells);
    free(j->d.outcomes);
    free(j->d.runs);
    free(j->cell[0]);
    free(j->cell[1]);
    memset(j, 0, sizeof *j);
}
