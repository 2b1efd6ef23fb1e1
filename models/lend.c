/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lend.c - what a model lends to a decision: its output projection and its rotation.
 *
 *     project_norm  || W_O^a v_j ||_1 or _2,   W_O^a = columns a*dv .. a*dv+dv-1 of W_O
 *     rope_mean     1/n sum_t mscale cos(t f_m), 1/n sum_t mscale sin(t f_m)
 *     rotate        key j turned by delta_j positions
 *
 * The slices of W_O come from the backend's own products with unit vectors, so that they
 * are the numbers the engine computes with. The Euclidean norm needs no slice: with the
 * Cholesky factor R of G = W_O^a' W_O^a (dv x dv, made in double) || W_O^a v || = || R v
 * ||, dim / dv times cheaper. Slices or factors are made once for a model as long as they
 * take no more than KEEP_BYTES, else once for each call. A backend may have a function of
 * its own for all of it.
 */
#include "models/model_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KEEP_BYTES ((size_t)256 << 20)
#define TILE       128

/* NULL where not made yet */
struct kva_slices {
    struct kva_weight **w[2]; /* [layers][heads]: W_O^a; R of it */
    float **data[2];          /* [layers] what they may point at */
};

void kva_lend_release(struct kva_model *m)
{
    if (m->angles != NULL)
        m->ops->release(m->ops, m->angles, KVA_MEM_DEVICE);
    m->angles = NULL;
    if (m->slices == NULL)
        return;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < m->arch.layers * m->arch.heads; i++)
            if (m->slices->w[k][i] != NULL)
                m->ops->weight_free(m->ops, m->slices->w[k][i]);
        for (int l = 0; l < m->arch.layers; l++)
            free(m->slices->data[k][l]);
        free(m->slices->w[k]);
        free(m->slices->data[k]);
    }
    free(m->slices);
    m->slices = NULL;
}

/* Rows of the matrix that gives the norm. */
static int rows_of(const struct kva_arch *a, int norm)
{
    return norm == 1 ? a->dim : a->v_dim;
}

/* Upper triangular R[n][n] with R'R = slice' slice, slice[d][n]; g is scratch of n * n. A
 * direction without length gives a row of zeros. */
static void factor(const float *slice, size_t d, size_t n, double *g, float *r)
{
    double most = 0;

    memset(g, 0, n * n * sizeof *g);
    for (size_t o = 0; o < d; o++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = i; j < n; j++)
                g[i * n + j] += (double)slice[o * n + i] * (double)slice[o * n + j];
    for (size_t i = 0; i < n; i++)
        most = g[i * n + i] > most ? g[i * n + i] : most;
    for (size_t i = 0; i < n; i++) {
        double pivot = g[i * n + i] > 1e-14 * most ? sqrt(g[i * n + i]) : 0;

        for (size_t j = 0; j < n; j++) {
            g[i * n + j] = j >= i && pivot > 0 ? g[i * n + j] / pivot : 0;
            r[i * n + j] = (float)g[i * n + j];
        }
        for (size_t k = i + 1; k < n; k++) /* what row i explains is taken away */
            for (size_t j = k; j < n; j++)
                g[k * n + j] -= g[i * n + k] * g[i * n + j];
    }
}

/* W_O^a or R of every query head of a layer as weights out[heads], over *data. */
static enum kva_status make_slices(struct kva_model *m, int layer, int norm,
                                   struct kva_weight **out, float **data,
                                   struct kva_error *err)
{
    const struct kva_arch *a = &m->arch;
    const size_t d = (size_t)a->dim, dv = (size_t)a->v_dim, in = (size_t)a->heads * dv,
                 size = (size_t)rows_of(a, norm) * dv;
    float *unit = kva_calloc(dv * in, sizeof *unit);
    float *column = kva_calloc(dv * d, sizeof *column);
    float *slice = kva_calloc(d * dv, sizeof *slice);
    double *gram = kva_calloc(dv * dv, sizeof *gram);
    enum kva_status rc = KVA_OK;

    *data = kva_calloc((size_t)a->heads * size, sizeof **data);
    if (*data == NULL || unit == NULL || column == NULL || slice == NULL ||
        gram == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "output projection of layer %d", layer);
        goto out;
    }
    for (int h = 0; h < a->heads; h++) {
        float *to = *data + (size_t)h * size;

        memset(unit, 0, dv * in * sizeof *unit);
        for (size_t x = 0; x < dv; x++)
            unit[x * in + (size_t)h * dv + x] = 1.0f;
        m->ops->matmul(m->ops, a->layer[layer].o, unit, a->v_dim, column, a->dim);
        for (size_t x = 0; x < dv; x++)
            for (size_t o = 0; o < d; o++)
                slice[o * dv + x] = column[x * d + o];
        if (norm == 2)
            factor(slice, d, dv, gram, to);
        else
            memcpy(to, slice, size * sizeof *to);
        KVA_GO(m->ops->weight_new(m->ops, KVA_F32, to, rows_of(a, norm), a->v_dim, NULL,
                                  &out[h], err));
    }
out:
    free(unit);
    free(column);
    free(slice);
    free(gram);
    for (int h = 0; rc != KVA_OK && h < a->heads; h++) {
        if (out[h] != NULL)
            m->ops->weight_free(m->ops, out[h]);
        out[h] = NULL;
    }
    if (rc != KVA_OK) {
        free(*data);
        *data = NULL;
    }
    return rc;
}

static struct kva_slices *new_slices(size_t layers, size_t heads)
{
    struct kva_slices *s = kva_calloc(1, sizeof *s);
    bool ok = s != NULL;

    for (int k = 0; s != NULL && k < 2; k++) {
        s->w[k] = kva_calloc(layers * heads, sizeof(struct kva_weight *));
        s->data[k] = kva_calloc(layers, sizeof(float *));
        ok = ok && s->w[k] != NULL && s->data[k] != NULL;
    }
    if (ok)
        return s;
    for (int k = 0; s != NULL && k < 2; k++) {
        free(s->w[k]);
        free(s->data[k]);
    }
    free(s);
    return NULL;
}

/* The matrices of a layer: the model's own, or made for this call over *mine. */
static enum kva_status get_slices(struct kva_model *m, int layer, int norm,
                                  struct kva_weight ***w, float **mine,
                                  struct kva_error *err)
{
    const struct kva_arch *a = &m->arch;
    size_t layers = (size_t)a->layers, heads = (size_t)a->heads;
    enum kva_status rc;

    if (layers * heads * (size_t)rows_of(a, norm) * (size_t)a->v_dim * sizeof(float) >
        KEEP_BYTES) {
        *w = kva_calloc(heads, sizeof(struct kva_weight *));
        if (*w == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "output projection of layer %d", layer);
        rc = make_slices(m, layer, norm, *w, mine, err);
        if (rc != KVA_OK)
            free(*w);
        return rc;
    }
    if (m->slices == NULL)
        m->slices = new_slices(layers, heads);
    if (m->slices == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "output projections");
    *w = m->slices->w[norm - 1] + (size_t)layer * heads;
    if ((*w)[0] != NULL)
        return KVA_OK;
    return make_slices(m, layer, norm, *w, &m->slices->data[norm - 1][layer], err);
}

static enum kva_status project_norm(void *ctx, int layer, const struct kva_rows *v,
                                    int norm, const size_t *a_off, float *out,
                                    struct kva_error *err)
{
    struct kva_model *m = ctx;
    const struct kva_arch *a = &m->arch;
    const int group = a->heads / a->kv_heads, d = rows_of(a, norm);
    struct kva_weight **w = NULL;
    float *y, *mine = NULL;
    enum kva_status rc;

    if (m->ops->project_norm != NULL) {
        m->ops->project_norm(m->ops, a->layer[layer].o, a->heads, v, norm, a_off, out);
        return KVA_OK;
    }
    y = kva_calloc(TILE * (size_t)d, sizeof *y);
    if (y == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "projected values");
    KVA_GO(get_slices(m, layer, norm, &w, &mine, err));
    for (int h = 0; h < a->heads; h++) {
        size_t first = v->off[h / group], n = v->off[h / group + 1] - first;

        for (size_t j0 = 0; j0 < n; j0 += TILE) {
            const size_t off[2] = {0, n - j0 < TILE ? n - j0 : TILE};
            const struct kva_rows tile = {y, off, 1, d};

            m->ops->matmul(m->ops, w[h], v->data + (first + j0) * (size_t)v->dim,
                           (int)off[1], y, d);
            if (norm == 1)
                m->ops->row_abs(m->ops, &tile, out + a_off[h] + j0);
            else
                m->ops->row_norm(m->ops, &tile, out + a_off[h] + j0);
        }
    }
out:
    for (int h = 0; mine != NULL && h < a->heads; h++)
        m->ops->weight_free(m->ops, w[h]);
    if (mine != NULL)
        free(w);
    free(mine);
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
        c[i] *= (double)l->mscale / count;
        s[i] *= (double)l->mscale / count;
    }
    return half;
}

/* Numbers of a tile's table: on the stack of the host, or in the backend's memory, where
 * a call costs more than its rows. */
enum { ANGLES_HOST = 64 * 512, ANGLES_FAR = 1 << 20 };

static float *angles(struct kva_model *m, float *host, size_t *n)
{
    *n = ANGLES_HOST;
    if (m->ops->host)
        return host;
    if (m->angles == NULL)
        m->angles = m->ops->alloc(m->ops, ANGLES_FAR * sizeof *host, KVA_MEM_DEVICE);
    if (m->angles == NULL)
        return host;
    *n = ANGLES_FAR;
    return m->angles;
}

/* Tile by tile over all KV heads: heads that hold the same positions share a table. */
static void rotate(void *ctx, int layer, struct kva_rows *rows, const int32_t *delta)
{
    struct kva_model *m = ctx;
    const struct kva_layer *l = &m->arch.layer[layer];
    float host[ANGLES_HOST], *cs;
    size_t most = 0, tile;

    if (l->n_rot == 0)
        return;
    cs = angles(m, host, &tile);
    tile /= (size_t)l->n_rot;
    for (int h = 0; h < rows->heads; h++)
        if (rows->off[h + 1] - rows->off[h] > most)
            most = rows->off[h + 1] - rows->off[h];
    for (size_t t = 0; t < most; t += tile) {
        const int32_t *have = NULL; /* the deltas of the table in cs */
        size_t n_have = 0;

        for (int h = 0; h < rows->heads; h++) {
            size_t at = rows->off[h] + t, n = rows->off[h + 1] - rows->off[h];

            if (n <= t)
                continue;
            n = n - t < tile ? n - t : tile;
            if (n > n_have || memcmp(have, delta + at, n * sizeof *delta) != 0) {
                m->ops->rope_table(m->ops, delta + at, (int)n, l->inv_freq, l->n_rot / 2,
                                   1.0f, cs);
                have = delta + at;
                n_have = n;
            }
            m->ops->rope(m->ops, rows->data + at * (size_t)rows->dim, rows->dim, (int)n,
                         1, rows->dim, cs, l->n_rot / 2);
        }
    }
}

void kva_lend_init(struct kva_model *m)
{
    m->lend = (struct kva_lend){
        .ctx = m, .project_norm = project_norm, .rope_mean = rope_mean, .rotate = rotate};
}
