/* SPDX-License-Identifier: GPL-3.0-or-later */
/* draw.c - draws an id of a row of logits by the rule of kernels.h.
 *
 * "The first k" and "the shortest run with a share of the mass" are the same cut on
 * different amounts, 1 or the mass of an id. The cut goes down the bits of the logit's
 * ordered key eight at a time: a histogram of amounts, and the digit in which the sum
 * from above reaches what is asked. Of the ids equal to the key it ends at, the first few
 * by id stay. Masses are whole numbers: kernels/cuda/logits.cu, which adds them in
 * another order, draws the same. */
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

/* exp(-23) is less than half a unit of 2^-32 */
#define NO_MASS (-23.0f)

struct draw {
    const float *z;
    int n;
    float top, inverse;
    /* What stays: keys above `key`, and of the ids equal to it those before which less
     * than `rest` is held, `unit` by each. */
    uint32_t key;
    uint64_t rest, unit;
};

/* Orders as the logit does; a NaN as -inf, -0 as +0. */
static uint32_t key_of(float z)
{
    uint32_t u;

    z = isnan(z) ? -INFINITY : z + 0.0f;
    memcpy(&u, &z, sizeof u);
    return u >> 31 ? ~u : u | 0x80000000u;
}

static float logit_of(uint32_t key)
{
    uint32_t u = key >> 31 ? key & 0x7fffffffu : ~key;
    float z;

    memcpy(&z, &u, sizeof z);
    return z;
}

/* In units of 2^-32. */
static uint64_t mass_of(const struct draw *d, float z)
{
    float x = (z - d->top) * d->inverse;

    if (z >= d->top)
        return (uint64_t)1 << 32;
    if (!(x > NO_MASS))
        return 0;
    return (uint64_t)((double)kva_expf(x) * 4294967296.0 + 0.5);
}

/* Keeps the shortest run from above with `amount` of the masses, or of ones. */
static void cut(struct draw *d, bool masses, uint64_t amount)
{
    uint32_t key = 0, known = 0; /* digits found so far, and which bits those are */

    for (int shift = 24; shift >= 0; shift -= 8) {
        uint64_t held[256] = {0}, sum = 0;
        int digit = 255;

        for (int i = 0; i < d->n; i++) {
            uint32_t k = key_of(d->z[i]);

            if ((k & known) == key)
                held[k >> shift & 255u] += masses ? mass_of(d, d->z[i]) : 1;
        }
        while (digit > 0 && sum + held[digit] < amount)
            sum += held[digit--];
        key |= (uint32_t)digit << shift;
        known |= 255u << shift;
        amount -= sum;
    }
    d->key = key;
    d->rest = amount;
    d->unit = masses ? mass_of(d, logit_of(key)) : 1;
}

/* Mass of what stays, up to the id at which `point` is passed: that goes to *id. */
static uint64_t walk(const struct draw *d, uint64_t point, int32_t *id)
{
    uint64_t sum = 0, rank = 0;

    for (int i = 0; i < d->n; i++) {
        uint32_t k = key_of(d->z[i]);
        bool stays = k > d->key || (k == d->key && rank * d->unit < d->rest);

        rank += k == d->key;
        if (stays)
            sum += mass_of(d, d->z[i]);
        if (stays && sum > point) {
            *id = i;
            break;
        }
    }
    return sum;
}

static int32_t draw_row(struct draw *d, int top_k, float top_p, double u)
{
    uint64_t total, point;
    int32_t id = 0;

    d->top = -INFINITY;
    for (int i = 0; i < d->n; i++)
        d->top = d->z[i] > d->top ? d->z[i] : d->top;
    if (!(d->top > -INFINITY)) /* nothing to choose from */
        return 0;
    if (top_k > 0 && top_k < d->n)
        cut(d, false, (uint64_t)top_k);
    total = walk(d, UINT64_MAX, &id);
    if (top_p < 1) {
        uint64_t amount = (uint64_t)((double)top_p * (double)total);

        /* of the first k no run is longer than k: this cut replaces that */
        cut(d, true, amount > 0 ? amount : 1);
        total = walk(d, UINT64_MAX, &id);
    }
    point = (uint64_t)(u * (double)total);
    (void)walk(d, point < total ? point : total - 1, &id);
    return id;
}

struct draws {
    const float *logits;
    int n;
    float inverse, top_p;
    int top_k;
    const double *u;
    int32_t *id;
};

static void draw_item(void *ctx, int r, void *scratch)
{
    const struct draws *t = ctx;
    struct draw d = {.z = t->logits + (size_t)r * (size_t)t->n,
                     .n = t->n,
                     .inverse = t->inverse,
                     .rest = 1};

    (void)scratch;
    t->id[r] = draw_row(&d, t->top_k, t->top_p, t->u[r]);
}

void kva_cpu_draw(struct kva_ops *ops, const float *logits, int n, int rows,
                  float temperature, int top_k, float top_p, const double *u, int32_t *id)
{
    struct kva_cpu *cpu = ops->impl;
    struct draws t = {logits, n, 1.0f / temperature, top_p, top_k, u, id};

    kva_cpu_pool_run(&cpu->pool, rows, rows < 2, draw_item, &t);
}
