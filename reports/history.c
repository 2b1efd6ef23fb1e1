/* SPDX-License-Identifier: GPL-3.0-or-later */
/* history.c - collects what the gate saw in each of many nights (history.h). */
#include "reports/history.h"

#include "reports/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void kva_history_init(struct kva_history *h)
{
    memset(h, 0, sizeof *h);
    kva_arena_init(&h->arena);
}

void kva_history_release(struct kva_history *h)
{
    for (int i = 0; i < h->n_series; i++)
        free(h->series[i].point);
    free(h->series);
    free(h->night);
    kva_arena_release(&h->arena);
    memset(h, 0, sizeof *h);
}

int64_t kva_data_when(const struct kva_data *d, const char **commit)
{
    int64_t ms = 0;

    *commit = "";
    for (int o = 0; o < d->n_outcomes; o++) {
        int i = d->outcomes[o].run;

        if (i < 0 || i >= d->n_runs || d->runs[i].started_ms <= ms)
            continue;
        ms = d->runs[i].started_ms;
        *commit = d->runs[i].git_commit ? d->runs[i].git_commit : "";
    }
    return ms;
}

static struct kva_history_series *series_of(struct kva_history *h, const char *name)
{
    struct kva_history_series *grown;

    for (int i = 0; i < h->n_series; i++)
        if (strcmp(h->series[i].name, name) == 0)
            return &h->series[i];
    grown = kva_realloc(h->series, (size_t)h->n_series + 1, sizeof *grown);
    if (!grown)
        return NULL;
    h->series = grown;
    grown += h->n_series;
    *grown = (struct kva_history_series){.name = kva_arena_strdup(&h->arena, name)};
    if (!grown->name)
        return NULL;
    h->n_series++;
    return grown;
}

static enum kva_status add_point(struct kva_history *h, const struct kva_regress_row *row,
                                 struct kva_error *err)
{
    struct kva_history_series *s = series_of(h, row->slug);
    struct kva_history_point *grown =
        s ? kva_realloc(s->point, (size_t)s->n + 1, sizeof *grown) : NULL;

    if (!grown)
        return KVA_FAIL(err, KVA_ENOMEM, "history: out of memory");
    s->point = grown;
    s->point[s->n++] =
        (struct kva_history_point){.night = h->n_night,
                                   .score = row->now,
                                   .lo = row->now_lo,
                                   .hi = row->now_hi,
                                   .fail = row->verdict == KVA_REGRESS_FAIL ||
                                           row->verdict == KVA_REGRESS_QUARANTINED};
    s->n_fail += s->point[s->n - 1].fail;
    return KVA_OK;
}

enum kva_status kva_history_add(struct kva_history *h, const struct kva_regress *r,
                                const struct kva_data *now, struct kva_error *err)
{
    struct kva_history_night *grown =
        kva_realloc(h->night, (size_t)h->n_night + 1, sizeof *grown);
    const char *commit;
    bool suites = h->suites;

    if (!grown)
        return KVA_FAIL(err, KVA_ENOMEM, "history: out of memory");
    h->night = grown;
    grown += h->n_night;
    grown->ms = kva_data_when(now, &commit);
    grown->commit = kva_report_clean(&h->arena, commit);
    if (!grown->commit)
        return KVA_FAIL(err, KVA_ENOMEM, "history: out of memory");
    for (int i = 0; i < r->n_row && h->n_night == 0; i++)
        suites |= strcmp(r->row[i].what, "suite") == 0;
    h->suites = suites;
    for (int i = 0; i < r->n_row; i++)
        if (strcmp(r->row[i].what, suites ? "suite" : "task") == 0 &&
            r->row[i].scale <= 1)
            KVA_TRY(add_point(h, &r->row[i], err));
    h->n_night++;
    return KVA_OK;
}

static int by_failures(const void *x, const void *y)
{
    const struct kva_history_series *a = x, *b = y;

    if (a->n_fail != b->n_fail)
        return a->n_fail > b->n_fail ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int by_night(const void *x, const void *y)
{
    const struct kva_history_point *a = x, *b = y;

    return a->night < b->night ? -1 : a->night > b->night;
}

enum kva_status kva_history_close(struct kva_history *h, struct kva_error *err)
{
    size_t n = (size_t)h->n_night;
    int *place = kva_calloc(n + 1, sizeof *place);
    struct kva_history_night *sorted = kva_calloc(n + 1, sizeof *sorted);

    if (!place || !sorted) {
        free(place);
        free(sorted);
        return KVA_FAIL(err, KVA_ENOMEM, "history: out of memory");
    }
    for (int i = 0; i < h->n_night; i++) {
        for (int k = 0; k < h->n_night; k++)
            place[i] += h->night[k].ms < h->night[i].ms ||
                        (h->night[k].ms == h->night[i].ms && k < i);
        sorted[place[i]] = h->night[i];
    }
    free(h->night);
    h->night = sorted;
    for (int s = 0; s < h->n_series; s++) {
        struct kva_history_series *x = &h->series[s];

        for (int i = 0; i < x->n; i++)
            x->point[i].night = place[x->point[i].night];
        qsort(x->point, (size_t)x->n, sizeof *x->point, by_night);
    }
    free(place);
    if (h->n_series)
        qsort(h->series, (size_t)h->n_series, sizeof *h->series, by_failures);
    return KVA_OK;
}
