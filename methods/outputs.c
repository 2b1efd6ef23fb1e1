/* SPDX-License-Identifier: GPL-3.0-or-later */
/* outputs.c - what single entries do to the outputs of the window's rows.
 *
 *     o_i = sum_j A[i][j] v_j over all entries held
 *
 * v.o comes from the backend, ||v - o||^2 = ||v||^2 - 2 v.o + ||o||^2 from it. An entry
 * with most of a row's weight lies close to the row's output, where that form cancels: it
 * is then measured directly. A row has one such entry at most. */
#include "methods/outputs.h"

#include <float.h>
#include <math.h>

#include "methods/room.h"
#include "methods/window.h"

struct work {
    const float *v;    /* the layer's values */
    float *w, *z, *vo; /* [rows][n] */
    float *o;          /* [rows][v_dim] */
    double *vv;        /* [n] */
    double *x, *y;     /* [n] */
};

static double square(const float *v, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    return sum;
}

static double distance(const float *v, const float *o, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++) {
        double d = (double)v[i] - (double)o[i];

        sum += d * d;
    }
    return sum;
}

/* Adds the terms of query head a to x[older]. */
static void add_head(const struct kva_layer_view *view, int rows, int a, size_t older,
                     double (*term)(const struct kva_output *), struct work *t)
{
    struct kva_attend_rows r = kva_window_head(view, rows, a), dots;
    const float *v =
        t->v + view->off[a / (view->heads / view->kv_heads)] * (size_t)view->v_dim;

    r.v = v;
    r.v_dim = view->v_dim;
    r.w = t->w;
    r.z = t->z;
    r.o = t->o;
    view->ops->attend_rows(view->ops, &r);
    dots = (struct kva_attend_rows){.q = t->o,
                                    .q_stride = (size_t)view->v_dim,
                                    .nq = rows,
                                    .k = v,
                                    .n = r.n,
                                    .dim = view->v_dim,
                                    .scale = 1.0f,
                                    .z = t->vo};
    view->ops->attend_rows(view->ops, &dots);
    for (int i = 0; i < rows; i++) {
        const float *o = t->o + (size_t)i * (size_t)view->v_dim;
        double oo = square(o, view->v_dim);

        for (size_t j = 0; j < older; j++) {
            size_t at = (size_t)i * r.n + j;
            struct kva_output out = {.a = (double)t->w[at],
                                     .z = (double)t->z[at],
                                     .vv = t->vv[j],
                                     .vo = (double)t->vo[at]};

            out.dd = out.a > 0.5 ? distance(v + j * (size_t)view->v_dim, o, view->v_dim)
                                 : out.vv - 2 * out.vo + oo;
            out.dd = out.dd > 0 ? out.dd : 0;
            t->x[j] += term(&out);
        }
    }
}

enum kva_status kva_output_scores(const struct kva_layer_view *view, int rows, int kernel,
                                  double (*term)(const struct kva_output *), float *s,
                                  struct kva_error *err)
{
    size_t most = kva_window_most(view), cells = most * (size_t)rows;
    int group = view->heads / view->kv_heads;
    struct work t = {
        .v = kva_room_read(view, view->v),
        .w = kva_arena_alloc(view->scratch, 3 * cells, sizeof *t.w),
        .o = kva_arena_alloc(view->scratch, (size_t)rows * view->v_dim, sizeof *t.o),
        .vv = kva_arena_alloc(view->scratch, 3 * most, sizeof *t.vv)};

    if (t.v == NULL || t.w == NULL || t.o == NULL || t.vv == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "outputs of %d rows over %zu entries", rows,
                        most);
    t.z = t.w + cells;
    t.vo = t.z + cells;
    t.x = t.vv + most;
    t.y = t.x + most;
    for (int h = 0; h < view->kv_heads; h++) {
        size_t held = view->off[h + 1] - view->off[h];
        size_t older = kva_window_older(view, rows, h);

        for (size_t j = 0; j < older; j++) {
            t.vv[j] = square(t.v + (view->off[h] + j) * (size_t)view->v_dim, view->v_dim);
            t.x[j] = 0;
        }
        for (int a = h * group; a < (h + 1) * group; a++)
            add_head(view, rows, a, older, term, &t);
        kva_window_pool(t.x, older, kernel, true, t.y);
        for (size_t j = 0; j < held; j++)
            s[view->off[h] + j] = j < older ? (float)fmin(t.y[j], (double)FLT_MAX) : 0.0f;
    }
    return KVA_OK;
}
