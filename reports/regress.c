/* SPDX-License-Identifier: GPL-3.0-or-later */
/* regress.c - the nightly gate: partners of two databases, verdicts of a night
 * (reports.md 7; regress.h). */
#include "reports/regress_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const kva_regress_gate_names[] = {"score", "time", "memory", NULL};
const char *const kva_regress_verdict_names[] = {
    "fail", "missing", "incomparable", "quarantined", "warn", "better", "pass", NULL};

void kva_regress_defaults(struct kva_regress_opts *o)
{
    *o = (struct kva_regress_opts){
        .gate = {true, true, true},
        .alpha = 0.05,
        .warn_p = 0.01,
        .task_drop = 0.01,
        .suite_drop = 0.005,
        .time_p = 0.01,
        .min_reps = 6,
        .tau_cpu = 0.15,
        .tau_cuda = 0.05,
        .min_ms = 0.01,
        .peak_bytes = 4 << 20,
        .peak_share = 0.01,
        .replicates = 10000,
    };
}

void kva_regress_init(struct kva_regress *r, const struct kva_regress_opts *o)
{
    memset(r, 0, sizeof *r);
    kva_arena_init(&r->arena);
    r->opts = *o;
}

void kva_regress_release(struct kva_regress *r)
{
    free(r->row);
    kva_arena_release(&r->arena);
    memset(r, 0, sizeof *r);
}

/* ---- partners ---- */

static enum kva_status side_init(struct kva_regress_side *s, const struct kva_data *d,
                                 struct kva_error *err)
{
    int o = 0, p = 0;

    s->d = d;
    s->first = kva_calloc((size_t)d->n_cells + 1, sizeof *s->first);
    s->perf = kva_calloc((size_t)d->n_cells + 1, sizeof *s->perf);
    if (!s->first || !s->perf)
        return KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
    for (int i = 0; i <= d->n_cells; i++) {
        while (o < d->n_outcomes && d->outcomes[o].cell < i)
            o++;
        while (p < d->n_perfs && d->perfs[p].cell < i)
            p++;
        s->first[i] = o;
        s->perf[i] = p;
    }
    return KVA_OK;
}

/* to[i]: where the digest of from's i-th row stands in `in`; -1. */
static enum kva_status match_digests(const uint8_t *in, size_t in_step, int n_in,
                                     const uint8_t *from, size_t from_step, int n_from,
                                     int *to, struct kva_error *err)
{
    struct kva_map seen;
    enum kva_status rc = KVA_OK;

    kva_map_init(&seen);
    for (int i = 0; i < n_in; i++)
        KVA_GO(kva_map_put(&seen, in + (size_t)i * in_step, 32, i, NULL, err));
    for (int i = 0; i < n_from; i++) {
        int64_t at;

        to[i] = kva_map_get(&seen, from + (size_t)i * from_step, 32, &at) ? (int)at : -1;
    }
out:
    kva_map_release(&seen);
    return rc;
}

static enum kva_status work_init(struct kva_regress_work *w, struct kva_regress *r,
                                 const struct kva_data *base, const struct kva_data *now,
                                 const char *against, double scale, struct kva_error *err)
{
    memset(w, 0, sizeof *w);
    kva_arena_init(&w->scratch);
    w->r = r;
    w->scale = scale;
    w->against = kva_report_clean(&r->arena, against);
    KVA_TRY(side_init(&w->base, base, err));
    KVA_TRY(side_init(&w->now, now, err));
    w->partner = kva_calloc((size_t)base->n_cells + 1, sizeof *w->partner);
    w->sample = kva_calloc((size_t)now->n_samples + 1, sizeof *w->sample);
    w->slot = kva_calloc((size_t)base->n_samples + 1, sizeof *w->slot);
    w->cluster = kva_calloc((size_t)base->n_samples + 1, sizeof *w->cluster);
    w->clustered = kva_calloc((size_t)base->n_tasks + 1, sizeof *w->clustered);
    if (!w->against || !w->partner || !w->sample || !w->slot || !w->cluster ||
        !w->clustered)
        return KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
    if (base->n_cells && now->n_cells)
        KVA_TRY(match_digests(now->cells[0].digest, sizeof now->cells[0], now->n_cells,
                              base->cells[0].digest, sizeof base->cells[0], base->n_cells,
                              w->partner, err));
    else
        memset(w->partner, -1, (size_t)base->n_cells * sizeof *w->partner);
    if (base->n_samples && now->n_samples)
        KVA_TRY(match_digests(base->samples[0].digest, sizeof base->samples[0],
                              base->n_samples, now->samples[0].digest,
                              sizeof now->samples[0], now->n_samples, w->sample, err));
    else
        memset(w->sample, -1, (size_t)now->n_samples * sizeof *w->sample);
    for (int i = 0; i < base->n_samples; i++)
        w->slot[i] = -1;
    return kva_number_contexts(base, w->cluster, w->clustered, err);
}

static void work_release(struct kva_regress_work *w)
{
    free(w->base.first);
    free(w->base.perf);
    free(w->now.first);
    free(w->now.perf);
    free(w->partner);
    free(w->sample);
    free(w->slot);
    free(w->cluster);
    free(w->clustered);
    kva_arena_release(&w->scratch);
}

static bool is_meant(const char *cell, const char *slug, const uint8_t digest[32])
{
    char hex[65];
    size_t n = strlen(cell);

    kva_hex(digest, 32, hex);
    return strcmp(cell, slug) == 0 || (n >= 12 && n <= 64 && memcmp(cell, hex, n) == 0);
}

static bool is_asked(const struct kva_regress *r, const struct kva_data_cell *c)
{
    return !r->opts.only || is_meant(r->opts.only, c->slug, c->digest);
}

bool kva_regress_wanted(const struct kva_regress_work *w, int i)
{
    return w->partner[i] >= 0 && w->base.first[i] < w->base.first[i + 1] &&
           is_asked(w->r, &w->base.d->cells[i]);
}

void kva_regress_enter(struct kva_regress_work *w, int base_cell)
{
    int cell = w->partner[base_cell];

    for (int o = w->now.first[cell + 1] - 1; o >= w->now.first[cell]; o--) {
        int s = w->sample[w->now.d->outcomes[o].sample];

        if (s >= 0)
            w->slot[s] = o; /* the first one stays */
    }
}

void kva_regress_leave(struct kva_regress_work *w, int base_cell)
{
    int cell = w->partner[base_cell];

    for (int o = w->now.first[cell]; o < w->now.first[cell + 1]; o++) {
        int s = w->sample[w->now.d->outcomes[o].sample];

        if (s >= 0)
            w->slot[s] = -1;
    }
}

const struct kva_data_outcome *kva_regress_twin(const struct kva_regress_work *w,
                                                const struct kva_data_outcome *o)
{
    const struct kva_data *d = w->now.d;
    int at = w->slot[o->sample];

    for (int i = at; at >= 0 && i < d->n_outcomes; i++) {
        if (d->outcomes[i].cell != d->outcomes[at].cell ||
            d->outcomes[i].sample != d->outcomes[at].sample)
            break;
        if (d->outcomes[i].rep == o->rep)
            return &d->outcomes[i];
    }
    return NULL;
}

/* ---- rows ---- */

static bool on_cpu(const struct kva_regress_side *s, int cell)
{
    int o = cell >= 0 ? s->first[cell] : 0, run;

    if (cell < 0 || o == s->first[cell + 1])
        return true; /* nothing that says otherwise */
    run = s->d->outcomes[o].run;
    return run < 0 || run >= s->d->n_runs || !s->d->runs[run].backend ||
           strcmp(s->d->runs[run].backend, "cpu") == 0;
}

bool kva_regress_exact(const struct kva_regress_work *w, int cell)
{
    return on_cpu(&w->base, cell) && on_cpu(&w->now, w->partner[cell]);
}

static struct kva_regress_row *row_of(struct kva_regress_work *w,
                                      enum kva_regress_gate gate, const char *what,
                                      const struct kva_data *d, int cell)
{
    struct kva_regress *r = w->r;
    const struct kva_data_cell *c = &d->cells[cell];
    const struct kva_data_task *t = &d->tasks[c->task];
    struct kva_regress_row *row;

    if (r->n_row == r->cap_row) {
        int cap = r->cap_row ? 2 * r->cap_row : 64;
        struct kva_regress_row *grown = kva_realloc(r->row, (size_t)cap, sizeof *grown);

        if (!grown)
            return NULL;
        r->row = grown;
        r->cap_row = cap;
    }
    row = &r->row[r->n_row];
    *row = (struct kva_regress_row){
        .gate = gate,
        .verdict = KVA_REGRESS_PASS,
        .what = what,
        .against = w->against,
        .scale = w->scale,
        .slug = kva_report_clean(&r->arena, c->slug),
        .model = kva_report_clean(&r->arena, d->models[c->model].name),
        .suite = kva_report_clean(&r->arena, t->suite),
        .method = kva_report_clean(&r->arena, c->method),
        .task = kva_report_clean(&r->arena, t->name),
        .message = "",
        .base = NAN,
        .now = NAN,
        .delta = NAN,
        .lo = NAN,
        .hi = NAN,
        .now_lo = NAN,
        .now_hi = NAN,
        .p = NAN,
        .p_adj = NAN,
        .p_better = NAN,
        .p_better_adj = NAN,
    };
    memcpy(row->digest, c->digest, 32);
    if (!row->slug || !row->model || !row->suite || !row->method || !row->task)
        return NULL;
    r->n_row++;
    return row;
}

struct kva_regress_row *kva_regress_row(struct kva_regress_work *w,
                                        enum kva_regress_gate gate, const char *what,
                                        int cell)
{
    struct kva_regress_row *row = row_of(w, gate, what, w->base.d, cell);

    if (row)
        row->exact_cpu = kva_regress_exact(w, cell);
    return row;
}

/* Cells of one database only. They belong to the first gate that is wanted. */
static enum kva_status members(struct kva_regress_work *w, struct kva_error *err)
{
    const struct kva_data *now = w->now.d, *base = w->base.d;
    struct kva_regress *r = w->r;
    enum kva_regress_gate gate = KVA_REGRESS_SCORE;
    bool *met = kva_calloc((size_t)now->n_cells + 1, sizeof *met);
    enum kva_status rc = KVA_OK;

    while (gate < KVA_REGRESS_MEMORY && !r->opts.gate[gate])
        gate++;
    for (int i = 0; met && i < base->n_cells; i++) {
        struct kva_regress_row *row;

        if (w->partner[i] >= 0)
            met[w->partner[i]] = true;
        r->n_cells += kva_regress_wanted(w, i);
        if (w->partner[i] >= 0 || w->base.first[i] == w->base.first[i + 1] ||
            !is_asked(r, &base->cells[i]))
            continue;
        row = kva_regress_row(w, gate, "cell", i);
        if (!row) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
            goto out;
        }
        row->n = w->base.first[i + 1] - w->base.first[i];
        if (!r->opts.allow_removed)
            row->verdict = KVA_REGRESS_FAIL;
        row->message = "removed: measured in the base, not in the new run";
    }
    for (int i = 0; met && i < now->n_cells; i++) {
        struct kva_regress_row *row;

        if (met[i] || w->now.first[i] == w->now.first[i + 1] ||
            !is_asked(r, &now->cells[i]))
            continue;
        row = row_of(w, gate, "cell", now, i);
        if (!row) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
            goto out;
        }
        row->exact_cpu = on_cpu(&w->now, i);
        row->n = w->now.first[i + 1] - w->now.first[i];
        row->message = "added: not in the base";
    }
    if (!met)
        rc = KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
out:
    free(met);
    return rc;
}

enum kva_status kva_regress_add(struct kva_regress *r, const struct kva_data *base,
                                const struct kva_data *now, const char *against,
                                double scale, struct kva_error *err)
{
    struct kva_regress_work w;
    enum kva_status rc;

    KVA_GO(work_init(&w, r, base, now, against, scale, err));
    KVA_GO(members(&w, err));
    if (r->opts.gate[KVA_REGRESS_SCORE])
        KVA_GO(kva_regress_score(&w, err));
    if (r->opts.gate[KVA_REGRESS_TIME])
        KVA_GO(kva_regress_time(&w, err));
    if (r->opts.gate[KVA_REGRESS_MEMORY])
        KVA_GO(kva_regress_memory(&w, err));
out:
    work_release(&w);
    return rc;
}

enum kva_status kva_regress_confirm(struct kva_regress *r, const struct kva_data *base,
                                    const struct kva_data *again, const char *against,
                                    double scale, struct kva_error *err)
{
    struct kva_regress_opts o = r->opts;
    struct kva_regress second;
    struct kva_regress_work w;
    enum kva_status rc;

    kva_regress_init(&second, &o);
    KVA_GO(work_init(&w, &second, base, again, against, scale, err));
    KVA_GO(kva_regress_time(&w, err));
    for (int i = 0; i < r->n_row; i++) {
        struct kva_regress_row *a = &r->row[i];

        if (a->gate != KVA_REGRESS_TIME || a->verdict != KVA_REGRESS_FAIL ||
            strcmp(a->against, against) != 0)
            continue;
        for (int k = 0; k < second.n_row; k++) {
            const struct kva_regress_row *b = &second.row[k];

            if (memcmp(a->digest, b->digest, 32) != 0 || strcmp(a->what, b->what) != 0 ||
                b->verdict == KVA_REGRESS_FAIL)
                continue;
            a->verdict = b->verdict <= KVA_REGRESS_INCOMPARABLE ? KVA_REGRESS_INCOMPARABLE
                                                                : KVA_REGRESS_WARN;
            a->message = kva_arena_printf(&r->arena, "not confirmed (r %.3f again); %s",
                                          b->delta, a->message);
            if (!a->message) {
                rc = KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
                goto out;
            }
        }
    }
out:
    work_release(&w);
    kva_regress_release(&second);
    return rc;
}

/* ---- verdicts ---- */

static bool is_tested(const struct kva_regress_row *row)
{
    return row->gate == KVA_REGRESS_SCORE && !isnan(row->p);
}

static enum kva_status adjust(struct kva_regress *r, struct kva_error *err)
{
    double *p = kva_calloc(2 * (size_t)r->n_row + 1, sizeof *p), *q = p + r->n_row;

    if (!p)
        return KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
    r->n_comparisons = r->n_unchanged = 0;
    for (int i = 0; i < r->n_row; i++) {
        bool in = is_tested(&r->row[i]) && !r->row[i].same;

        r->n_unchanged += is_tested(&r->row[i]) && r->row[i].same;
        p[i] = in ? r->row[i].p : (double)NAN;
        q[i] = in ? r->row[i].p_better : (double)NAN;
        r->n_comparisons += in;
    }
    kva_stat_holm(p, (size_t)r->n_row);
    kva_stat_holm(q, (size_t)r->n_row);
    for (int i = 0; i < r->n_row; i++)
        if (is_tested(&r->row[i])) {
            r->row[i].p_adj = r->row[i].same ? 1 : p[i];
            r->row[i].p_better_adj = r->row[i].same ? 1 : q[i];
            kva_regress_judge_score(r, &r->row[i]);
        }
    free(p);
    return KVA_OK;
}

static void quarantine(struct kva_regress *r, struct kva_regress_quarantine *q,
                       int64_t now_ms)
{
    q->expired = q->expires_ms <= now_ms;
    for (int i = 0; i < r->n_row; i++) {
        struct kva_regress_row *row = &r->row[i];

        if (row->gate != q->gate || !is_meant(q->cell, row->slug, row->digest))
            continue;
        q->matched = true;
        if (row->exact_cpu && q->gate != KVA_REGRESS_TIME) {
            q->refused = true;
            continue;
        }
        if (row->verdict != KVA_REGRESS_FAIL || q->expired)
            continue;
        row->verdict = KVA_REGRESS_QUARANTINED;
        row->reason = q->reason;
    }
}

static int by_verdict(const void *x, const void *y)
{
    const struct kva_regress_row *a = x, *b = y;
    int c;

    if (a->verdict != b->verdict)
        return a->verdict < b->verdict ? -1 : 1;
    if (a->gate != b->gate)
        return a->gate < b->gate ? -1 : 1;
    c = strcmp(a->slug, b->slug);
    if (c == 0)
        c = strcmp(a->what, b->what);
    if (c == 0)
        c = strcmp(a->against, b->against);
    return c ? c : memcmp(a->digest, b->digest, 32);
}

enum kva_status kva_regress_decide(struct kva_regress *r,
                                   struct kva_regress_quarantine *q, int n_q,
                                   int64_t now_ms, struct kva_error *err)
{
    KVA_TRY(adjust(r, err));
    for (int i = 0; i < n_q; i++) {
        q[i].reason = kva_report_clean(&r->arena, q[i].reason);
        if (!q[i].reason)
            return KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
        quarantine(r, &q[i], now_ms);
    }
    if (r->n_row)
        qsort(r->row, (size_t)r->n_row, sizeof *r->row, by_verdict);
    memset(r->count, 0, sizeof r->count);
    for (int i = 0; i < r->n_row; i++) {
        if (!r->row[i].message)
            return KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
        r->count[r->row[i].gate][r->row[i].verdict]++;
    }
    return KVA_OK;
}

int kva_regress_exit(const struct kva_regress *r)
{
    bool fail = false, open = r->n_cells == 0;

    for (int g = 0; g < KVA_REGRESS_GATES; g++) {
        fail |= r->count[g][KVA_REGRESS_FAIL] > 0;
        open |= r->count[g][KVA_REGRESS_MISSING] > 0 ||
                r->count[g][KVA_REGRESS_INCOMPARABLE] > 0;
    }
    return fail ? 1 : open ? 5 : 0;
}
