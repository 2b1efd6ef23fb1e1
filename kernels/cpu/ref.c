/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ref.c - numerics ref: plain C, every sum one double accumulator in ascending order.
 *
 * Attention is the two-pass softmax over visible entries in ascending position order,
 * whatever the slots are, so that a masked and a physical cache give the same bits
 * (kernels.md 7). Products of two floats are exact in double, so no fused operation could
 * change them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

#define OUTS 8    /* outputs of a weight row block, kept side by side */
#define INS  1024 /* inputs dequantised at a time; a multiple of every block */

static struct kva_cpu *cpu_of(struct kva_ops *ops)
{
    return ops->impl;
}

struct product {
    const struct kva_weight *w;
    const float *x;
    float *y;
    int rows, y_stride;
};

/* outputs OUTS*item ..: sums of up to 32 rows at a time are carried over the input ranges
 */
static void product_item(void *ctx, int item, void *scratch)
{
    const struct product *p = ctx;
    const struct kva_weight *w = p->w;
    const struct kva_type_info *type = kva_type_get(w->type);
    int o0 = item * OUTS, n = w->out - o0 < OUTS ? w->out - o0 : OUTS;
    float *row = scratch, *wt = row + INS; /* [INS], [INS][OUTS] */
    double acc[32][OUTS];

    memset(wt, 0, INS * OUTS * sizeof *wt);
    for (int r0 = 0; r0 < p->rows; r0 += 32) {
        int rn = p->rows - r0 < 32 ? p->rows - r0 : 32;

        memset(acc, 0, sizeof acc);
        for (int k0 = 0; k0 < w->in; k0 += INS) {
            int kn = w->in - k0 < INS ? w->in - k0 : INS;
            size_t skip = (size_t)(k0 / type->block_elements) * (size_t)type->block_bytes;

            for (int o = 0; o < n; o++) {
                size_t at = (size_t)(w->row_of ? w->row_of[o0 + o] : o0 + o);

                kva_dequant(w->type, w->data + at * w->row_bytes + skip, (size_t)kn, row);
                for (int k = 0; k < kn; k++)
                    wt[k * OUTS + o] = row[k];
            }
            for (int r = 0; r < rn; r++) {
                const float *x = p->x + (size_t)(r0 + r) * w->in + k0;

                for (int k = 0; k < kn; k++)
                    for (int o = 0; o < OUTS; o++)
                        acc[r][o] += (double)x[k] * (double)wt[k * OUTS + o];
            }
        }
        for (int r = 0; r < rn; r++)
            for (int o = 0; o < n; o++)
                p->y[(size_t)(r0 + r) * p->y_stride + o0 + o] = (float)acc[r][o];
    }
}

static void matmul(struct kva_ops *ops, const struct kva_weight *w, const float *x,
                   int rows, float *y, int y_stride)
{
    struct product p = {w, x, y, rows, y_stride};

    kva_cpu_pool_run(&cpu_of(ops)->pool, (w->out + OUTS - 1) / OUTS, false, product_item,
                     &p);
}

static void rmsnorm(struct kva_ops *ops, const float *x, const float *w, float eps,
                    int rows, int dim, float *y)
{
    (void)ops;
    for (int r = 0; r < rows; r++, x += dim, y += dim) {
        double sum = 0, inv;

        for (int i = 0; i < dim; i++)
            sum += (double)x[i] * (double)x[i];
        inv = 1.0 / sqrt(sum / dim + (double)eps);
        for (int i = 0; i < dim; i++)
            y[i] = (float)((double)x[i] * inv * (double)w[i]);
    }
}

static void silu_mul(struct kva_ops *ops, const float *gate, const float *up, size_t n,
                     float *y)
{
    (void)ops;
    for (size_t i = 0; i < n; i++)
        y[i] = (float)((double)gate[i] / (1.0 + exp(-(double)gate[i])) * (double)up[i]);
}

static void add(struct kva_ops *ops, float *x, const float *y, size_t n)
{
    (void)ops;
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

/* ---- attention
 * --------------------------------------------------------------------------------- */

struct slot {
    int32_t pos, at;
    int index; /* of the live entry, in slot order */
};

static float element(const void *p, enum kva_type type, size_t i)
{
    return type == KVA_F16 ? kva_f16_to_f32(((const uint16_t *)p)[i])
                           : ((const float *)p)[i];
}

/* Slots of a head as (position, slot), ascending by position: bottom-up merge through
 * `tmp`. */
static void sort_slots(struct slot *s, struct slot *tmp, int n)
{
    for (int width = 1; width < n; width *= 2) {
        for (int lo = 0; lo < n; lo += 2 * width) {
            int mid = lo + width < n ? lo + width : n;
            int hi = lo + 2 * width < n ? lo + 2 * width : n;
            int i = lo, j = mid;

            for (int k = lo; k < hi; k++)
                tmp[k] = i < mid && (j >= hi || s[i].pos <= s[j].pos) ? s[i++] : s[j++];
        }
        memcpy(s, tmp, (size_t)n * sizeof *s);
    }
}

/* Entry of slot j; false when its bit says evicted. */
static bool slot_at(const struct kva_kv_view *kv, int head, int j, struct slot *s)
{
    int id = kv->table[(size_t)head * kv->table_cap + j / KVA_PAGE];

    s->pos = kv->pos[(size_t)id * KVA_PAGE + j % KVA_PAGE];
    s->at = j;
    return !kv->live || kv->live[id] >> j % KVA_PAGE & 1;
}

static const uint8_t *page_at(const struct kva_kv_view *kv, int head, int slot)
{
    int id = kv->table[(size_t)head * kv->table_cap + slot / KVA_PAGE];

    return kv->base + (size_t)id * kv->page_bytes;
}

/* Score of one entry: scale * q.k in double. */
static double score(const struct kva_attn *a, const float *q, int head, int slot)
{
    const struct kva_kv_view *kv = a->kv;
    const uint8_t *page = page_at(kv, head, slot);
    size_t at = (size_t)(slot % KVA_PAGE) * kv->dim_k;
    double s = 0;

    for (int d = 0; d < kv->dim_k; d++)
        s += (double)q[d] * (double)element(page, kv->type, at + d);
    return (double)a->scale * s;
}

static void weigh(const struct kva_kv_view *kv, int head, int slot, double p, double *o)
{
    size_t element_bytes = kv->type == KVA_F16 ? 2 : 4;
    const uint8_t *v =
        page_at(kv, head, slot) + (size_t)KVA_PAGE * kv->dim_k * element_bytes;
    size_t at = (size_t)(slot % KVA_PAGE) * kv->dim_v;

    for (int d = 0; d < kv->dim_v; d++)
        o[d] += p * (double)element(v, kv->type, at + d);
}

struct attend {
    const struct kva_attn *a;
    int head, group;
    const struct slot
        *order; /* live slots ascending by position; NULL: no memory for it */
    int n;
};

/* The i-th live entry in position order, given the one before it. Without an order array
 * the whole head is searched: slow, but the same entry. False at the end. */
static bool next_entry(const struct attend *t, int i, struct slot *e)
{
    const struct kva_kv_view *kv = t->a->kv;
    int32_t before = i ? e->pos : -1;
    bool found = false;

    if (t->order) {
        if (i < t->n)
            *e = t->order[i];
        return i < t->n;
    }
    for (int j = 0; j < kv->len[t->head]; j++) {
        struct slot s;

        if (slot_at(kv, t->head, j, &s) && s.pos > before && (!found || s.pos < e->pos)) {
            *e = s;
            found = true;
        }
    }
    return found;
}

/* Item: one (row, query head of the group). Scores beyond the scratch are computed twice.
 */
static void attend_item(void *ctx, int item, void *scratch)
{
    const struct attend *t = ctx;
    const struct kva_attn *a = t->a;
    const struct kva_kv_view *kv = a->kv;
    int row = item / t->group, head = t->head * t->group + item % t->group;
    const float *q = a->q + (size_t)row * a->q_stride + (size_t)head * kv->dim_k;
    float *out = a->out + (size_t)row * a->out_stride + (size_t)head * kv->dim_v;
    double *o = scratch, *s = o + KVA_CPU_DIM;
    double top = -INFINITY, sum = 0;
    int room = (int)(KVA_CPU_SCRATCH / sizeof(double)) - KVA_CPU_DIM, n = 0;
    struct slot e = {0};

    memset(o, 0, (size_t)kv->dim_v * sizeof *o);
    for (; next_entry(t, n, &e) && e.pos <= a->pos[row]; n++) {
        double x = score(a, q, t->head, e.at);

        if (n < room)
            s[n] = x;
        if (x > top)
            top = x;
    }
    for (int i = 0; i < n; i++) {
        double p;

        next_entry(t, i, &e);
        p = exp((i < room ? s[i] : score(a, q, t->head, e.at)) - top);
        sum += p;
        weigh(kv, t->head, e.at, p, o);
    }
    for (int d = 0; d < kv->dim_v; d++)
        out[d] = n ? (float)(o[d] / sum) : 0.0f;
}

/* Adds the weights of every row and query head of KV head t->head to the sums; w holds a
 * number for each entry, NULL as t->order: no memory, and nobody shall take them for
 * sums. */
static void add_weights(const struct attend *t, double *w)
{
    const struct kva_attn *a = t->a;
    const int heads = a->kv->kv_heads;

    for (int item = 0; item < a->rows * t->group && w && t->order; item++) {
        int row = item / t->group, head = t->head * t->group + item % t->group, n = 0;
        const float *q = a->q + (size_t)row * a->q_stride + (size_t)head * a->kv->dim_k;
        double top = -INFINITY, sum = 0;

        for (; n < t->n && t->order[n].pos <= a->pos[row]; n++) {
            w[n] = score(a, q, t->head, t->order[n].at);
            top = w[n] > top ? w[n] : top;
        }
        for (int i = 0; i < n; i++)
            sum += w[i] = exp(w[i] - top);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < a->n_sums; k++) {
                float *y = a->sums[k * heads + t->head] + t->order[i].index;

                *y = (float)((double)*y + w[i] / sum);
            }
    }
    for (int k = 0; (!w || !t->order) && k < a->n_sums; k++)
        a->sums[k * heads + t->head][0] = NAN;
}

static void attend_one(struct kva_ops *ops, const struct kva_attn *a)
{
    const struct kva_kv_view *kv = a->kv;
    struct attend t = {.a = a, .group = a->heads / kv->kv_heads};
    int longest = 1;
    struct slot *order;
    double *w = NULL;

    for (int h = 0; h < kv->kv_heads; h++)
        longest = kv->len[h] > longest ? kv->len[h] : longest;
    order = kva_calloc((size_t)longest * 2, sizeof *order);
    if (a->n_sums > 0)
        w = kva_calloc((size_t)longest, sizeof *w);
    t.order = order;
    for (t.head = 0; t.head < kv->kv_heads; t.head++) {
        t.n = 0;
        for (int j = 0; order && j < kv->len[t.head]; j++)
            if (slot_at(kv, t.head, j, &order[t.n])) {
                order[t.n].index = t.n;
                t.n++;
            }
        if (order && !kv->sorted[t.head])
            sort_slots(order, order + longest, t.n);
        kva_cpu_pool_run(&cpu_of(ops)->pool, a->rows * t.group, false, attend_item, &t);
        if (a->n_sums > 0)
            add_weights(&t, w);
    }
    free(order);
    free(w);
}

static void attend(struct kva_ops *ops, const struct kva_attn *a, int n)
{
    for (int i = 0; i < n; i++)
        attend_one(ops, &a[i]);
}

/* ---- scorers
 * ----------------------------------------------------------------------------------- */

static double dot(const float *x, const float *y, int n)
{
    double s = 0;

    for (int i = 0; i < n; i++)
        s += (double)x[i] * (double)y[i];
    return s;
}

static void row_norm(struct kva_ops *ops, const struct kva_rows *x, float *s)
{
    (void)ops;
    for (size_t j = x->off[0]; j < x->off[x->heads]; j++)
        s[j] = (float)sqrt(
            dot(x->data + j * (size_t)x->dim, x->data + j * (size_t)x->dim, x->dim));
}

static void row_abs(struct kva_ops *ops, const struct kva_rows *x, float *s)
{
    (void)ops;
    for (size_t j = x->off[0]; j < x->off[x->heads]; j++) {
        double sum = 0;

        for (int i = 0; i < x->dim; i++)
            sum += fabs((double)x->data[j * (size_t)x->dim + (size_t)i]);
        s[j] = (float)sum;
    }
}

static void row_mean(struct kva_ops *ops, const struct kva_rows *x, int unit, float *mean)
{
    (void)ops;
    for (int h = 0; h < x->heads; h++)
        for (int d = 0; d < x->dim; d++) {
            size_t a = x->off[h], b = x->off[h + 1];
            double sum = 0;

            for (size_t j = a; j < b; j++) {
                const float *row = x->data + j * (size_t)x->dim;
                double norm = unit ? sqrt(dot(row, row, x->dim)) : 1.0;

                if (norm > 0)
                    sum += (double)row[d] / norm;
            }
            mean[(size_t)h * x->dim + d] = b > a ? (float)(sum / (double)(b - a)) : 0.0f;
        }
}

static void row_distance(struct kva_ops *ops, const struct kva_rows *x, const float *c,
                         float *s)
{
    (void)ops;
    for (int h = 0; h < x->heads; h++, c += x->dim)
        for (size_t j = x->off[h]; j < x->off[h + 1]; j++) {
            const float *row = x->data + j * (size_t)x->dim;
            double sum = 0;

            for (int d = 0; d < x->dim; d++) {
                double e = (double)row[d] - (double)c[d];

                sum += e * e;
            }
            s[j] = (float)sqrt(sum);
        }
}

static void row_cosine(struct kva_ops *ops, const struct kva_rows *x, const float *c,
                       float *s)
{
    (void)ops;
    for (int h = 0; h < x->heads; h++, c += x->dim) {
        double cn = sqrt(dot(c, c, x->dim));

        for (size_t j = x->off[h]; j < x->off[h + 1]; j++) {
            const float *row = x->data + j * (size_t)x->dim;
            double n = sqrt(dot(row, row, x->dim));

            s[j] = n > 0 && cn > 0 ? (float)(dot(row, c, x->dim) / (n * cn)) : 0.0f;
        }
    }
}

struct window {
    const float *q;
    const int32_t *q_pos;
    int nq, heads;
    const struct kva_rows *keys;
    const int32_t *k_pos;
    double scale;
    float *out;
    const size_t *a_off;
    bool max;        /* the largest, no mean */
    const float *by; /* of `max`: factor of each row; NULL: 1 */
};

/* Item: one query head. Scores are computed three times (maximum, sum, share) so that
 * only two numbers per query row are kept: room for 131,072 rows. */
static void window_item(void *ctx, int a, void *scratch)
{
    const struct window *t = ctx;
    int h = a / (t->heads / t->keys->heads), dim = t->keys->dim;
    size_t first = t->keys->off[h], n = t->keys->off[h + 1] - first;
    double *top = scratch, *sum = top + t->nq;

    for (int i = 0; i < t->nq; i++) {
        const float *q = t->q + ((size_t)i * t->heads + (size_t)a) * dim;

        top[i] = -INFINITY;
        sum[i] = 0;
        for (int pass = 0; pass < 2; pass++)
            for (size_t j = 0; j < n; j++) {
                double s;

                if (t->k_pos[first + j] > t->q_pos[i])
                    continue;
                s = t->scale * dot(q, t->keys->data + (first + j) * (size_t)dim, dim);
                if (pass)
                    sum[i] += exp(s - top[i]);
                else if (s > top[i])
                    top[i] = s;
            }
    }
    for (size_t j = 0; j < n; j++) {
        double all = 0;

        for (int i = 0; i < t->nq; i++) {
            const float *q = t->q + ((size_t)i * t->heads + (size_t)a) * dim;
            double w = 0;

            if (t->k_pos[first + j] <= t->q_pos[i])
                w = exp(t->scale *
                            dot(q, t->keys->data + (first + j) * (size_t)dim, dim) -
                        top[i]) /
                    sum[i];
            if (t->max)
                all = fmax(all, w * (t->by ? (double)t->by[i] : 1));
            else
                all += w;
        }
        t->out[t->a_off[a] + j] = (float)(t->max ? all : all / t->nq);
    }
}

static void window_mean(struct kva_ops *ops, const float *q, const int32_t *q_pos, int nq,
                        int heads, const struct kva_rows *k, const int32_t *k_pos,
                        float scale, float *m, const size_t *a_off)
{
    struct window t = {q, q_pos, nq,    heads, k, k_pos, (double)scale,
                       m, a_off, false, NULL};

    kva_cpu_pool_run(&cpu_of(ops)->pool, heads, false, window_item, &t);
}

static void window_max(struct kva_ops *ops, const float *q, const int32_t *q_pos, int nq,
                       int heads, const struct kva_rows *k, const int32_t *k_pos,
                       float scale, const float *by, float *m, const size_t *a_off)
{
    struct window t = {q, q_pos, nq, heads, k, k_pos, (double)scale, m, a_off, true, by};

    kva_cpu_pool_run(&cpu_of(ops)->pool, heads, false, window_item, &t);
}

/* One row of struct kva_attend_rows. */
static void attend_row(void *ctx, int i, void *scratch)
{
    const struct kva_attend_rows *r = ctx;
    const float *q = r->q + (size_t)i * r->q_stride;
    float *z = r->z ? r->z + (size_t)i * r->n : NULL;
    float *w = r->w ? r->w + (size_t)i * r->n : NULL;
    float *o = r->o ? r->o + (size_t)i * (size_t)r->v_dim : NULL;
    double top = -INFINITY, sum = 0;

    (void)scratch;
    for (int pass = 0; pass < 3; pass++)
        for (size_t j = 0; j < r->n; j++) {
            bool seen = r->k_pos == NULL || r->k_pos[j] <= r->q_pos[i];
            double s;

            if (!seen) {
                if (z)
                    z[j] = 0;
                if (w)
                    w[j] = 0;
                continue;
            }
            s = (double)r->scale * dot(q, r->k + j * (size_t)r->dim, r->dim);
            if (pass == 0)
                top = s > top ? s : top;
            else if (pass == 1)
                sum += exp(s - top);
            if (pass < 2)
                continue;
            if (z)
                z[j] = (float)s;
            if (w)
                w[j] = (float)(exp(s - top) / sum);
        }
    for (int x = 0; o && x < r->v_dim; x++) {
        double y = 0;

        for (size_t j = 0; j < r->n; j++)
            y += (double)w[j] * (double)r->v[j * (size_t)r->v_dim + (size_t)x];
        o[x] = (float)y;
    }
}

static void attend_rows(struct kva_ops *ops, const struct kva_attend_rows *r)
{
    struct kva_attend_rows own = *r;

    kva_cpu_pool_run(&cpu_of(ops)->pool, r->nq, false, attend_row, &own);
}

void kva_cpu_ref_table(struct kva_ops *ops)
{
    ops->embed = kva_cpu_embed;
    ops->rmsnorm = rmsnorm;
    ops->matmul = matmul;
    ops->rope_table = kva_cpu_rope_table;
    ops->rope = kva_cpu_rope;
    ops->attend = attend;
    ops->silu_mul = silu_mul;
    ops->add = add;
    ops->logits_stats = kva_cpu_logits_stats;
    ops->draw = kva_cpu_draw;
    ops->row_norm = row_norm;
    ops->row_abs = row_abs;
    ops->row_mean = row_mean;
    ops->row_distance = row_distance;
    ops->row_cosine = row_cosine;
    ops->window_mean = window_mean;
    ops->window_max = window_max;
    ops->row_moments = kva_cpu_row_moments;
    ops->pool_heads = kva_cpu_pool_heads;
    ops->attend_rows = attend_rows;
}
