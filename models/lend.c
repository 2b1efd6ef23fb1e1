/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lend.c - what a model lends to a decision: its output projection and its rotation.
 *
 *     project_norm  || W_O^a v_j ||_1 or _2,   W_O^a = columns a*dv .. a*dv+dv-1 of W_O
 *     rope_mean     1/n sum_t cos(t f_m), 1/n sum_t sin(t f_m)
 *     rotate        key j turned by delta_j positions
 *
 * The slices of W_O come from the backend's own products with unit vectors, so that they
 * are the numbers the engine computes with. They are made once for a model as long as
 * they take no more than KEEP_BYTES, else once for each call. */
#include "models/model_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KEEP_BYTES ((size_t)256 << 20)
#define TILE       256

struct kva_slices {
    struct kva_weight **w; /* [layers][heads], NULL where not made yet */
};

void kva_lend_release(struct kva_model *m)
{
    if (m->slices == NULL)
        return;
    for (int i = 0; i < m->arch.layers * m->arch.heads; i++)
        if (m->slices->w[i] != NULL)
            m->ops->weight_free(m->ops, m->slices->w[i]);
    free(m->slices->w);
    free(m->slices);
    m->slices = NULL;
}

static size_t slice_bytes(const struct kva_arch *a)
{
    return (size_t)a->layers * (size_t)a->heads * (size_t)a->dim * (size_t)a->v_dim *
           sizeof(float);
}

/* W_O^a of every query head of a layer as weights out[heads]. */
static enum kva_status make_slices(struct kva_model *m, int layer,
                                   struct kva_weight **out, struct kva_error *err)
{
    const struct kva_arch *a = &m->arch;
    const size_t d = (size_t)a->dim, dv = (size_t)a->v_dim, in = (size_t)a->heads * dv;
    float *unit = kva_calloc(dv * in, sizeof *unit);
    float *column = kva_calloc(dv * d, sizeof *column);
    float *slice = kva_calloc(d * dv, sizeof *slice);
    enum kva_status rc = KVA_OK;

    if (unit == NULL || column == NULL || slice == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "output projection of layer %d", layer);
        goto out;
    }
    for (int h = 0; h < a->heads; h++) {
        memset(unit, 0, dv * in * sizeof *unit);
        for (size_t x = 0; x < dv; x++)
            unit[x * in + (size_t)h * dv + x] = 1.0f;
        m->ops->matmul(m->ops, a->layer[layer].o, unit, a->v_dim, column, a->dim);
        for (size_t x = 0; x < dv; x++)
            for (size_t o = 0; o < d; o++)
                slice[o * dv + x] = column[x * d + o];
        KVA_GO(m->ops->weight_new(m->ops, KVA_F32, slice, a->dim, a->v_dim, NULL, &out[h],
                                  err));
    }
out:
    free(unit);
    free(column);
    free(slice);
    return rc;
}

/* The slices of a layer: the model's own, or made for this call (*mine). */
static enum kva_status get_slices(struct kva_model *m, int layer, struct kva_weight ***w,
                                  bool *mine, struct kva_error *err)
{
    const struct kva_arch *a = &m->arch;
    size_t n = (size_t)a->layers * (size_t)a->heads;

    *mine = slice_bytes(a) > KEEP_BYTES;
    if (*mine) {
        *w = kva_calloc((size_t)a->heads, sizeof(struct kva_weight *));
        if (*w == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "output projection of layer %d", layer);
        return make_slices(m, layer, *w, err);
    }
    if (m->slices == NULL) {
        struct kva_slices *s = kva_calloc(1, sizeof *s);

        if (s != NULL)
            s->w = kva_calloc(n, sizeof(struct kva_weight *));
        if (s == NULL || s->w == NULL) {
            free(s);
            return KVA_FAIL(err, KVA_ENOMEM, "output projections");
        }
        m->slices = s;
    }
    *w = m->slices->w + (size_t)layer * (size_t)a->heads;
    return (*w)[a->heads - 1] != NULL ? KVA_OK : make_slices(m, layer, *w, err);
}

static float norm_of(const float *y, size_t n, int norm)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += norm == 1 ? fabs((double)y[i]) : (double)y[i] * (double)y[i];
    return (float)(norm == 1 ? sum : sqrt(sum));
}

static enum kva_status project_norm(void *ctx, int layer, const struct kva_rows *v,
                                    int norm, const size_t *a_off, float *out,
                                    struct kva_error *err)
{
    struct kva_model *m = ctx;
    const struct kva_arch *a = &m->arch;
    const size_t d = (size_t)a->dim;
    const int group = a->heads / a->kv_heads;
    struct kva_weight **w = NULL;
    float *y = kva_calloc(TILE * d, sizeof *y);
    bool mine = false;
    enum kva_status rc;

    if (y == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "projected values");
    KVA_GO(get_slices(m, layer, &w, &mine, err));
    for (int h = 0; h < a->heads; h++) {
        size_t first = v->off[h / group], n = v->off[h / group + 1] - first;

        for (size_t j0 = 0; j0 < n; j0 += TILE) {
            size_t rows = n - j0 < TILE ? n - j0 : TILE;

            m->ops->matmul(m->ops, w[h], v->data + (first + j0) * (size_t)v->dim,
                           (int)rows, y, a->dim);
            for (size_t j = 0; j < rows; j++)
                out[a_off[h] + j0 + j] = norm_of(y + j * d, d, norm);
        }
    }
out:
    for (int h = 0; mine && w != NULL && h < a->heads; h++)
        if (w[h] != NULL)
            m->ops->weight_free(m->ops, w[h]);
    if (mine)
        free(w);
    free(y);
    return rc;
}

static int rope_mean(void *ctx, int layer, int32_t from, int count, double *c, double *s)
{
    const struct kva_model *m = ctx;
    const struct kva_layer *l = &m->arch.layer[layer];
    const int half = l->n_rot / 2;

    for (int i = 0; i < half; i++) {
        c[i] = s[i] = 0;
        for (int t = 0; t < count; t++) {
            double angle = (double)(from + t) * (double)l->inv_freq[i];

            c[i] += cos(angle);
            s[i] += sin(angle);
        }
        c[i] /= count;
        s[i] /= count;
    }
    return half;
}

static void rotate(void *ctx, int layer, struct kva_rows *rows, const int32_t *delta)
{
    struct kva_model *m = ctx;
    const struct kva_layer *l = &m->arch.layer[layer];
    const size_t n = rows->off[rows->heads];
    float cs[64 * 512];
    const int tile = l->n_rot > 0 ? (int)(sizeof cs / sizeof *cs) / l->n_rot : 1;

    for (size_t j = 0; l->n_rot > 0 && j < n; j += (size_t)tile) {
        int c = n - j < (size_t)tile ? (int)(n - j) : tile;

        m->ops->rope_table(m->ops, delta + j, c, l->inv_freq, l->n_rot / 2, 1.0f, cs);
        m->ops->rope(m->ops, rows->data + j * (size_t)rows->dim, rows->dim, c, 1,
                     rows->dim, cs, l->n_rot / 2);
    }
}

void kva_lend_init(struct kva_model *m)
{
    m->lend = (struct kva_lend){
        .ctx = m, .project_norm = project_norm, .rope_mean = rope_mean, .rotate = rotate};
}
