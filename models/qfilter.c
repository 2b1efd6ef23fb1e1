/* SPDX-License-Identifier: GPL-3.0-or-later */
/* qfilter.c - the direction the queries of each KV head look to (methods.md 6.3).
 *
 *     Q_a = queries of query head a after RoPE, rows [n][head_dim]
 *     u_a = first right singular vector of Q_a, turned so that most rows have q.u > 0
 *     f_h = - mean of u_a over the group of KV head h
 *
 * u_a is the first singular vector of Q_a'Q_a, which is summed in double: d x d numbers
 * instead of n x d, and nothing is lost for the largest singular value. The rows are
 * evenly spaced over the sequences, not drawn, so that the same text gives the same
 * filters. Filters are means of unit vectors, not rescaled, as in the published code. */
#include "models/calibrate.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <stdlib.h>
#include <string.h>

struct gathering {
    const struct kva_model_info *info;
    const struct kva_qfilter_opts *opts;
    float *rows; /* [layers][heads][opts->rows][head_dim] */
    float *row;  /* [heads][head_dim] a copy where the session's are not the host's */
};

/* Copies row `r` of all layers and heads from query `i` of the session's window. */
static void take(const struct gathering *g, const struct kva_decide_in *in, int i, int r)
{
    size_t dim = (size_t)g->info->head_dim, heads = (size_t)g->info->heads;

    for (int l = 0; l < g->info->layers; l++) {
        const float *q;
        const int32_t *pos;

        (void)in->queries(in->queries_ctx, l, &q, &pos);
        q += (size_t)i * heads * dim;
        if (!in->ops->host) {
            in->ops->copy(in->ops, g->row, q, heads * dim * sizeof *q);
            q = g->row;
        }
        for (size_t a = 0; a < heads; a++)
            memcpy(g->rows +
                       (((size_t)l * heads + a) * (size_t)g->opts->rows + (size_t)r) *
                           dim,
                   q + a * dim, dim * sizeof *q);
    }
}

/* Reads one sequence; row i of its share is the query at i * tokens / share. */
static enum kva_status gather(struct kva_model *m, const struct gathering *g,
                              const int32_t *ids, int sequence, struct kva_error *err)
{
    int tokens = g->opts->tokens, share = g->opts->rows / g->opts->sequences, next = 0;
    int pages = (tokens + KVA_PAGE - 1) / KVA_PAGE;
    bool ref = strcmp(kva_model_ops(m)->numerics, "ref") == 0;
    struct kva_session_opts so = {.kv = ref ? KVA_F32 : KVA_F16,
                                  .page_cap = (size_t)g->info->layers *
                                              (size_t)g->info->kv_heads * (size_t)pages,
                                  .q_window = KVA_CHUNK};
    struct kva_session *s = NULL;
    struct kva_decide_in in = {0};
    enum kva_status rc;

    KVA_GO(kva_session_new(m, &so, &s, err));
    for (int at = 0; at < tokens; at += KVA_CHUNK) {
        int n = tokens - at < KVA_CHUNK ? tokens - at : KVA_CHUNK, first;
        const float *q;
        const int32_t *pos;

        KVA_GO(kva_prefill(m, s, ids + at, n, KVA_CHUNK, NULL, err));
        kva_session_decide_in(s, &in);
        first = at + n - in.queries(in.queries_ctx, 0, &q, &pos);
        for (; next < share; next++) {
            int here = (int)((int64_t)next * tokens / share);

            if (here >= at + n)
                break;
            take(g, &in, here - first, sequence * share + next);
        }
    }
    rc = KVA_OK;
out:
    kva_session_free(s);
    return rc;
}

struct factor {
    gsl_matrix *gram, *v;
    gsl_vector *s, *work;
};

/* Adds u_a, with its sign, to sum[dim]; rows [n][dim]. */
static enum kva_status add_direction(const float *rows, int n, int dim, struct factor *f,
                                     double *sum, struct kva_error *err)
{
    int above = 0;
    size_t d = (size_t)dim;

    gsl_matrix_set_zero(f->gram);
    for (int r = 0; r < n; r++) {
        const float *q = rows + (size_t)r * d;

        for (size_t i = 0; i < d; i++)
            for (size_t j = 0; j <= i; j++)
                f->gram->data[i * f->gram->tda + j] += (double)q[i] * (double)q[j];
    }
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < i; j++)
            gsl_matrix_set(f->gram, j, i, gsl_matrix_get(f->gram, i, j));
    if (gsl_linalg_SV_decomp(f->gram, f->v, f->s, f->work) != GSL_SUCCESS)
        return KVA_FAIL(err, KVA_ENONFINITE, "the queries have no singular vectors");
    for (int r = 0; r < n; r++) {
        double dot = 0;

        for (size_t i = 0; i < d; i++)
            dot += (double)rows[(size_t)r * d + i] * gsl_matrix_get(f->v, i, 0);
        above += dot > 0 ? 1 : dot < 0 ? -1 : 0;
    }
    for (size_t i = 0; i < d; i++)
        sum[i] += above < 0 ? -gsl_matrix_get(f->v, i, 0) : gsl_matrix_get(f->v, i, 0);
    return KVA_OK;
}

static enum kva_status filters(const struct gathering *g, struct kva_table *out,
                               struct kva_error *err)
{
    int dim = g->info->head_dim, n = g->opts->rows;
    int group = g->info->heads / g->info->kv_heads;
    size_t d = (size_t)dim;
    struct factor f = {gsl_matrix_alloc(d, d), gsl_matrix_alloc(d, d),
                       gsl_vector_alloc(d), gsl_vector_alloc(d)};
    enum kva_status rc = KVA_OK;

    if (f.gram == NULL || f.v == NULL || f.s == NULL || f.work == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "directions of %d numbers", dim);
        goto out;
    }
    for (int a = 0; a < g->info->layers * g->info->heads; a++)
        KVA_GO(add_direction(g->rows + (size_t)a * (size_t)n * d, n, dim, &f,
                             out->data + (size_t)(a / group) * d, err));
    for (size_t i = 0; i < (size_t)(out->layers * out->kv_heads) * d; i++)
        out->data[i] /= -group;
out:
    gsl_matrix_free(f.gram);
    gsl_matrix_free(f.v);
    gsl_vector_free(f.s);
    gsl_vector_free(f.work);
    return rc;
}

enum kva_status kva_qfilter_calibrate(struct kva_model *m, const char *text, size_t n,
                                      const struct kva_qfilter_opts *opts,
                                      struct kva_table *out, struct kva_error *err)
{
    const struct kva_model_info *info = kva_model_info(m);
    struct gathering g = {.info = info, .opts = opts};
    int32_t *ids = NULL;
    size_t floats;
    enum kva_status rc;

    *out = (struct kva_table){.kind = "qfilter",
                              .layers = info->layers,
                              .kv_heads = info->kv_heads,
                              .columns = info->head_dim};
    if (opts->sequences < 1 || opts->rows < opts->sequences ||
        opts->rows % opts->sequences != 0 || opts->rows / opts->sequences > opts->tokens)
        return KVA_FAIL(err, KVA_EINVALID,
                        "%d queries are no equal share of %d sequences of %d tokens",
                        opts->rows, opts->sequences, opts->tokens);
    KVA_TRY(kva_calibrate_ids(m, text, n, opts->sequences, opts->tokens, &ids, err));
    floats = (size_t)info->layers * (size_t)info->heads * (size_t)opts->rows *
             (size_t)info->head_dim;
    g.rows = kva_calloc(floats, sizeof *g.rows);
    g.row = kva_calloc((size_t)info->heads * (size_t)info->head_dim, sizeof *g.row);
    out->data =
        kva_calloc((size_t)info->layers * (size_t)info->kv_heads * (size_t)info->head_dim,
                   sizeof *out->data);
    if (g.rows == NULL || g.row == NULL || out->data == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "%d queries of every head", opts->rows);
        goto out;
    }
    (void)gsl_set_error_handler_off();
    for (int i = 0; i < opts->sequences; i++) {
        if (kva_interrupted) {
            rc = KVA_FAIL(err, KVA_EINTERRUPTED, "interrupted");
            goto out;
        }
        KVA_GO(gather(m, &g, ids + (size_t)i * (size_t)opts->tokens, i, err));
        if (opts->progress != NULL)
            opts->progress(opts->ctx, i + 1, opts->sequences);
    }
    rc = filters(&g, out, err);
out:
    free(ids);
    free(g.rows);
    free(g.row);
    if (rc != KVA_OK)
        kva_table_release(out);
    return rc;
}
