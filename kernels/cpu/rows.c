/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rows.c - numerics f32: the attention of a few query rows, row by row.
 *
 * Two passes over tiles of 32 keys, as for the mean of a window (attend.c): first the
 * running maximum m and sum l of every row, then its weights exp(s - m) / l, kept, with
 * which values are added up. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

#define UNITS 24 /* rows at a time */

/* bits of the entries in `live` with pos <= limit */
static uint32_t sees(const int32_t *pos, uint32_t live, int32_t limit)
{
    uint32_t bits = 0;

    for (int i = 0; i < 32; i++)
        bits |= (uint32_t)(pos[i] <= limit) << i;
    return bits & live;
}

struct rows {
    const struct kva_cpu_kernels *k;
    const struct kva_attend_rows *r;
};

/* Scratch of one item: UNITS rows. */
struct row_tiles {
    float *kt, *v, *s, *p, *q, *o, *m, *l, *inv;
    const int32_t *pos;
    int units, dvp;
};

/* What a row sees of the tile of `held` keys from j on. */
static void row_masks(const struct kva_attend_rows *r, const struct row_tiles *tl,
                      size_t j, int held, uint32_t *mask)
{
    uint32_t live = held == 32 ? UINT32_MAX : (1u << held) - 1;
    int32_t pos[32] = {0};

    if (r->k_pos)
        memcpy(pos, r->k_pos + j, (size_t)held * sizeof *pos);
    for (int u = 0; u < tl->units; u++)
        mask[u] = r->k_pos ? sees(pos, live, tl->pos[u]) : live;
}

/* Logits, weights and values of one tile; row0 is the first row of the item. */
static void keep_tile(const struct rows *t, const struct row_tiles *tl, size_t j,
                      int held, const uint32_t *mask, int row0)
{
    const struct kva_attend_rows *r = t->r;

    for (int u = 0; u < tl->units; u++) {
        float *s = tl->s + 32 * u, *p = tl->p + 32 * u;
        size_t at = (size_t)(row0 + u) * r->n + j;

        for (int i = 0; r->z && i < held; i++)
            r->z[at + (size_t)i] = mask[u] >> i & 1 ? s[i] * r->scale : 0.0f;
        if (!r->w)
            continue;
        memset(p, 0, 32 * sizeof *p);
        t->k->weights_sum(s, 1, r->scale, mask + u, tl->m + u, tl->inv + u, p);
        memcpy(r->w + at, p, (size_t)held * sizeof *p);
    }
    if (!r->o)
        return;
    t->k->tile_v(r->v + j * (size_t)r->v_dim, KVA_F32, held, UINT32_MAX, r->v_dim,
                 tl->dvp, tl->v, r->v + (j + 32) * (size_t)r->v_dim);
    t->k->product(tl->p, 32, tl->units, held, tl->v, (size_t)tl->dvp, 16, tl->dvp / 16,
                  tl->o, (size_t)tl->dvp, 1, 16);
}

static void rows_pass(const struct rows *t, const struct row_tiles *tl, bool keep,
                      int row0)
{
    const struct kva_attend_rows *r = t->r;
    size_t dim = (size_t)r->dim;
    uint32_t mask[UNITS];

    for (size_t j = 0; j < r->n; j += 32) {
        int held = r->n - j < 32 ? (int)(r->n - j) : 32;

        row_masks(r, tl, j, held, mask);
        t->k->tile_k(r->k + j * dim, KVA_F32, held, r->dim, tl->kt,
                     r->k + (j + 32) * dim);
        t->k->product(tl->q, dim, tl->units, r->dim, tl->kt, 16, dim * 16, 2, tl->s, 32,
                      0, 16);
        if (keep)
            keep_tile(t, tl, j, held, mask, row0);
        else
            t->k->softmax_page(tl->s, tl->units, r->scale, mask, tl->m, tl->l, tl->o, 0);
    }
}

static void rows_item(void *ctx, int item, void *scratch)
{
    const struct rows *t = ctx;
    const struct kva_attend_rows *r = t->r;
    int row0 = item * UNITS;
    struct row_tiles tl = {.units = r->nq - row0 < UNITS ? r->nq - row0 : UNITS,
                           .dvp = r->o ? (r->v_dim + 15) / 16 * 16 : 0,
                           .pos = r->q_pos ? r->q_pos + row0 : NULL};

    tl.kt = scratch;
    tl.v = tl.kt + 32 * (size_t)r->dim;
    tl.s = tl.v + 32 * (size_t)tl.dvp;
    tl.p = tl.s + 32 * UNITS;
    tl.o = tl.p + 32 * UNITS;
    tl.m = tl.o + (size_t)UNITS * tl.dvp;
    tl.l = tl.m + UNITS;
    tl.inv = tl.l + UNITS;
    tl.q = tl.inv + UNITS;
    for (int u = 0; u < tl.units; u++) {
        memcpy(tl.q + (size_t)u * r->dim, r->q + (size_t)(row0 + u) * r->q_stride,
               (size_t)r->dim * sizeof *tl.q);
        tl.m[u] = -INFINITY;
        tl.l[u] = 0.0f;
    }
    memset(tl.o, 0, (size_t)UNITS * tl.dvp * sizeof *tl.o);
    if (r->w)
        rows_pass(t, &tl, false, row0);
    for (int u = 0; u < tl.units; u++)
        tl.inv[u] = tl.l[u] == 0.0f ? 0.0f : 1.0f / tl.l[u];
    rows_pass(t, &tl, true, row0);
    for (int u = 0; r->o && u < tl.units; u++)
        memcpy(r->o + (size_t)(row0 + u) * r->v_dim, tl.o + (size_t)u * tl.dvp,
               (size_t)r->v_dim * sizeof *tl.o);
}

void kva_cpu_attend_rows(struct kva_ops *ops, const struct kva_attend_rows *r)
{
    struct kva_cpu *cpu = ops->impl;
    struct rows t = {cpu->k, r};

    kva_cpu_pool_run(&cpu->pool, (r->nq + UNITS - 1) / UNITS,
                     (double)r->n * r->nq * r->dim < 2e5, rows_item, &t);
}
