/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rows_test.h - second opinions of methods that read the window row by row, and a table
 * of operations whose rows are given by hand. */
#ifndef KVA_ROWS_TEST_H
#define KVA_ROWS_TEST_H

#include "tests/methods/methods_test.h"

/* Weights [rows][n] of query head a for the last `rows` queries, and how many entries of
 * the cell are older than those. */
static int naive_rows(const struct fixture *f, const struct cell *c, int rows, int a,
                      double *w)
{
    int older = 0;

    for (int i = 0; i < rows; i++)
        naive_row(f, c, f->nq - rows + i, a, w + (size_t)i * (size_t)c->n);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < c->n; j++)
            if (!isfinite(w[i * c->n + j]))
                w[i * c->n + j] = 0;
    while (older < c->n && c->pos[older] < f->q_pos[f->nq - rows])
        older++;
    return older;
}

/* Centred pooling of x[n]. */
static double naive_pool(const double *x, int n, int j, int kernel, bool max)
{
    double best = -INFINITY, sum = 0;

    for (int i = j - kernel / 2; i <= j + kernel / 2; i++) {
        if (i < 0 || i >= n)
            continue;
        best = x[i] > best ? x[i] : best;
        sum += x[i];
    }
    return max ? best : sum / kernel;
}

/* ---- rows by hand ---- */

static struct {
    const float *w, *z, *o; /* [heads][rows][n], [heads][rows][v_dim] */
    int rows, n, v_dim, call;
} script;

/* Weights, logits and outputs of query head 0, 1, ... in turn; products as they are. */
static void scripted_rows(struct kva_ops *ops, const struct kva_attend_rows *r)
{
    size_t cells = (size_t)script.rows * (size_t)script.n;

    (void)ops;
    if (r->w == NULL) { /* products with the outputs */
        for (int i = 0; i < r->nq; i++)
            for (size_t j = 0; j < r->n; j++) {
                float sum = 0;

                for (int x = 0; x < r->dim; x++)
                    sum += r->q[(size_t)i * r->q_stride + (size_t)x] *
                           r->k[j * (size_t)r->dim + (size_t)x];
                r->z[(size_t)i * r->n + j] = sum * r->scale;
            }
        return;
    }
    assert_int_equal(r->nq, script.rows);
    assert_int_equal(r->n, script.n);
    memcpy(r->w, script.w + (size_t)script.call * cells, cells * sizeof *r->w);
    if (r->z != NULL)
        memcpy(r->z, script.z + (size_t)script.call * cells, cells * sizeof *r->z);
    if (r->o != NULL)
        memcpy(r->o,
               script.o + (size_t)script.call * (size_t)(script.rows * script.v_dim),
               (size_t)(script.rows * script.v_dim) * sizeof *r->o);
    script.call++;
}

#endif
