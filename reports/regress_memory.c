/* SPDX-License-Identifier: GPL-3.0-or-later */
/* regress_memory.c - the memory gate (reports.md 7.4): one row per cell.
 *
 * Accounted bytes are deterministic: any growth of kv_alloc or kv_meta of a sample fails.
 * dev_peak_bytes, of cells that ran alone, may grow by the larger of a fixed amount and a
 * share. An audit verdict that got worse fails; but UNVERIFIED is a badge (ruling R13):
 * that the machine could not tell this night is a warning. Less is reported, never
 * failed. */
#include "reports/regress_internal.h"

#include <math.h>
#include <string.h>

struct sums {
    int n, grown, shrunk, n_peak, peak_grown;
    double base, now;                     /* alloc + meta */
    int64_t alloc, meta, peak, peak_base; /* largest growth of a sample */
    enum kva_badge was, is;
};

static void add(struct sums *s, const struct kva_regress_opts *o, double scale,
                const struct kva_data_outcome *x, const struct kva_data_outcome *y)
{
    const struct kva_db_memory *a = &x->memory, *b = &y->memory;
    int64_t alloc = b->kv_alloc_bytes - a->kv_alloc_bytes;
    int64_t meta = b->kv_meta_bytes - a->kv_meta_bytes;

    s->n++;
    s->base += (double)(a->kv_alloc_bytes + a->kv_meta_bytes);
    s->now += (double)(b->kv_alloc_bytes + b->kv_meta_bytes);
    s->grown += alloc > 0 || meta > 0;
    s->shrunk += alloc < 0 || meta < 0;
    s->alloc = alloc > s->alloc ? alloc : s->alloc;
    s->meta = meta > s->meta ? meta : s->meta;
    if (x->has_alone && y->has_alone && x->alone.dev_peak_bytes >= 0 &&
        y->alone.dev_peak_bytes >= 0) {
        int64_t peak = y->alone.dev_peak_bytes - x->alone.dev_peak_bytes;
        double room =
            fmax((double)o->peak_bytes, o->peak_share * (double)x->alone.dev_peak_bytes);

        s->n_peak++;
        s->peak_grown += (double)peak > scale * room;
        if (peak > s->peak) {
            s->peak = peak;
            s->peak_base = x->alone.dev_peak_bytes;
        }
    }
}

static bool is_worse(const struct sums *s)
{
    return s->is > s->was && s->was != KVA_BADGE_NONE && s->is != KVA_BADGE_UNVERIFIED;
}

static void judge(struct kva_regress *r, struct kva_regress_row *row,
                  const struct sums *s)
{
    struct kva_buf b;

    kva_buf_init(&b, 0);
    if (s->grown)
        kva_buf_printf(
            &b,
            "cache bytes grew in %d of %d samples, by up to %lld (entries) and "
            "%lld (bookkeeping); ",
            s->grown, s->n, (long long)s->alloc, (long long)s->meta);
    if (s->peak_grown)
        kva_buf_printf(&b,
                       "device peak grew beyond its tolerance in %d of %d samples, by up "
                       "to %lld on %lld; ",
                       s->peak_grown, s->n_peak, (long long)s->peak,
                       (long long)s->peak_base);
    if (is_worse(s))
        kva_buf_printf(&b, "audit verdict %s, was %s; ", kva_badge_text(s->is),
                       kva_badge_text(s->was));
    if (b.len)
        row->verdict = KVA_REGRESS_FAIL;
    else if (s->is == KVA_BADGE_UNVERIFIED && s->was < s->is)
        row->verdict = KVA_REGRESS_WARN;
    else if (s->shrunk || s->is < s->was)
        row->verdict = KVA_REGRESS_BETTER;
    kva_buf_printf(&b, "%.10g to %.10g bytes a sample%s, n %d", row->base, row->now,
                   s->shrunk ? ", less" : "", s->n);
    if (s->is == KVA_BADGE_UNVERIFIED)
        kva_buf_puts(&b, "; UNVERIFIED: the bytes could not be checked");
    row->message = b.failed ? NULL : kva_arena_strdup(&r->arena, b.data);
    kva_buf_release(&b);
}

enum kva_status kva_regress_memory(struct kva_regress_work *w, struct kva_error *err)
{
    const struct kva_data *d = w->base.d;

    for (int i = 0; i < d->n_cells; i++) {
        struct sums s = {.was = KVA_BADGE_DENSE, .is = KVA_BADGE_DENSE};
        struct kva_regress_row *row;
        int bits = 0;

        if (!kva_regress_wanted(w, i))
            continue;
        kva_regress_enter(w, i);
        for (int o = w->base.first[i]; o < w->base.first[i + 1]; o++) {
            const struct kva_data_outcome *x = &d->outcomes[o];
            const struct kva_data_outcome *y = kva_regress_twin(w, x);
            enum kva_badge was, is;

            if (!y || !kva_regress_ok(x) || !kva_regress_ok(y) || !x->has_memory ||
                !y->has_memory)
                continue;
            add(&s, &w->r->opts, w->scale, x, y);
            was = kva_badge_of(&d->cells[i], x, &bits);
            is = kva_badge_of(&w->now.d->cells[w->partner[i]], y, &bits);
            s.was = was > s.was ? was : s.was;
            s.is = is > s.is ? is : s.is;
        }
        kva_regress_leave(w, i);
        if (s.n == 0) /* nothing held: blind, or failed, which the score gate tells */
            continue;
        row = kva_regress_row(w, KVA_REGRESS_MEMORY, "bytes", i);
        if (!row)
            return KVA_FAIL(err, KVA_ENOMEM, "gate: out of memory");
        row->n = s.n;
        row->base = s.base / s.n;
        row->now = s.now / s.n;
        row->delta = row->now - row->base;
        row->limit = 0;
        judge(w->r, row, &s);
    }
    return KVA_OK;
}
