/* SPDX-License-Identifier: GPL-3.0-or-later */
/* engine.c - the step over rows: linear layers once for all rows, attention per session.
 *
 * Rows of many sessions are stacked (ruling R4). In each layer the rows are processed in
 * chunks:
 *
 *     h = RMS(x);  k, v = W h;  rotate k;  append k, v to each session's store
 *     q = W h;  rotate q;  push to the query window
 *     attend, per session over its own pages
 *     x += Wo att;  x += down(silu(gate RMS(x)) * up RMS(x))
 *
 * Append first, attend second: new entries are read back from the pages, one code path.
 * In the last layer only rows whose logits are wanted go on behind the append; rows of
 * the query window still give their q. A row's result depends on its own session only, so
 * dropping rows changes no bit. A session that fails is marked, its entries of this step
 * are dropped and its rows leave the step at the end of the layer. */
#include "models/model_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows whose logits are held at once: enough to read the output matrix once for a wave.
 */
#define LOGIT_ROWS 64

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- workspace ---- */

struct slab {
    uint8_t *base; /* NULL: only measuring */
    size_t used;
};

static void *take(struct slab *s, size_t count, size_t size)
{
    size_t at = s->used;

    s->used += (count * size + 63) / 64 * 64;
    return s->base ? s->base + at : NULL;
}

/* What the host reads and writes; the copies only where the rest is not the host's. */
static void lay_out_books(struct kva_step_state *st, struct slab *s, size_t n,
                          size_t chunk)
{
    const struct kva_arch *a = &st->m->arch;
    const size_t f = sizeof(float), q = (size_t)a->heads * (size_t)a->head_dim,
                 copies = st->m->ops->host ? 0 : chunk;

    st->run = take(s, n, sizeof *st->run);
    st->attn = take(s, chunk, sizeof *st->attn);
    st->view = take(s, chunk, sizeof *st->view);
    st->row_of = take(s, n, sizeof *st->row_of);
    st->pos = take(s, n, sizeof *st->pos);
    st->ids = take(s, n, sizeof *st->ids);
    st->sel = take(s, chunk, sizeof *st->sel);
    st->at = take(s, chunk, sizeof *st->at);
    st->sel_pos = take(s, chunk, sizeof *st->sel_pos);
    st->host_h = take(s, copies * (size_t)a->dim, f);
    st->host_q = take(s, copies * q, f);
    st->host_logits = take(s, copies ? (size_t)a->vocab : 0, f);
}

/* Activations, in the backend's memory. */
static void lay_out(struct kva_step_state *st, struct slab *s, size_t n, size_t chunk,
                    size_t logits)
{
    const struct kva_arch *a = &st->m->arch;
    const size_t f = sizeof(float), d = (size_t)a->dim, heads = (size_t)a->heads,
                 kv = (size_t)a->kv_heads, hd = (size_t)a->head_dim,
                 vd = (size_t)a->v_dim;

    st->x = take(s, n * d, f);
    st->cs = take(s, n * hd, f);
    st->sel_cs = take(s, chunk * hd, f);
    st->xs = take(s, chunk * d, f);
    st->h = take(s, chunk * d, f);
    st->q = take(s, chunk * heads * hd, f);
    st->raw = take(s, chunk * heads * (hd > vd ? hd : vd), f);
    st->k = take(s, chunk * kv * hd, f);
    st->v = take(s, chunk * kv * vd, f);
    st->att = take(s, chunk * heads * vd, f);
    st->o = take(s, chunk * d, f);
    st->gate = take(s, chunk * (size_t)a->ffn, f);
    st->up = take(s, chunk * (size_t)a->ffn, f);
    st->logits = take(s, logits * (size_t)a->vocab, f);
}

void kva_step_release(struct kva_step_state *st)
{
    if (st->slab)
        st->m->ops->release(st->m->ops, st->slab, KVA_MEM_DEVICE);
    free(st->books);
    st->slab = st->books = NULL;
    st->slab_bytes = st->books_bytes = 0;
}

static enum kva_status reserve(struct kva_step_state *st, int n, int n_logits,
                               struct kva_error *err)
{
    size_t chunk = min_size((size_t)n, (size_t)st->m->ops->chunk),
           logits = min_size((size_t)n_logits, LOGIT_ROWS);
    struct kva_ops *ops = st->m->ops;
    struct slab s = {0}, b = {0};

    lay_out(st, &s, (size_t)n, chunk, logits);
    lay_out_books(st, &b, (size_t)n, chunk);
    if (s.used > st->slab_bytes || b.used > st->books_bytes) {
        uint8_t *slab = ops->alloc(ops, s.used, KVA_MEM_DEVICE),
                *books = kva_aligned(b.used);

        if (!slab || !books) {
            ops->release(ops, slab, KVA_MEM_DEVICE);
            free(books);
            return kva_ops_reason(ops,
                                  KVA_FAIL(err, KVA_ENOMEM,
                                           "out of memory for the activations of %d rows",
                                           n),
                                  err);
        }
        kva_step_release(st);
        st->slab = slab;
        st->slab_bytes = s.used;
        st->books = books;
        st->books_bytes = b.used;
    }
    s = (struct slab){.base = st->slab};
    lay_out(st, &s, (size_t)n, chunk, logits);
    b = (struct slab){.base = st->books};
    lay_out_books(st, &b, (size_t)n, chunk);
    st->chunk = (int)chunk;
    st->chunk_logits = (int)logits;
    return KVA_OK;
}

/* ---- begin ---- */

static enum kva_status check_row(const struct kva_model *m, const struct kva_row *row,
                                 int i, struct kva_error *err)
{
    if (!row->session || row->session->m != m)
        return KVA_FAIL(err, KVA_EINVALID, "row %d has no session of this model", i);
    if (row->token < 0 || row->token >= m->arch.vocab)
        return KVA_FAIL(err, KVA_EINVALID, "row %d: token %d, vocabulary %d", i,
                        row->token, m->arch.vocab);
    if (row->logits && row->target >= m->arch.vocab)
        return KVA_FAIL(err, KVA_EINVALID, "row %d: target %d, vocabulary %d", i,
                        row->target, m->arch.vocab);
    return KVA_OK;
}

/* Takes the rows [i, i + n) of one session, unless it has failed or would leave its
 * context. */
static void take_run(struct kva_step_state *st, int i, int n)
{
    struct kva_session *s = st->rows[i].session;
    struct kva_step_run *run;

    if (s->error.code != KVA_OK)
        return;
    if ((int64_t)s->seen + n > st->m->arch.ctx_train) {
        KVA_FAIL(&s->error, KVA_ETRUNCATED,
                 "%d tokens after %d do not fit the context of %d", n, s->seen,
                 st->m->arch.ctx_train);
        return;
    }
    run = &st->run[st->runs++];
    *run = (struct kva_step_run){.session = s, .row0 = st->live, .n = n, .pos0 = s->seen};
    for (int j = 0; j < n; j++, st->live++) {
        st->row_of[st->live] = i + j;
        st->pos[st->live] = s->seen + j;
        st->ids[st->live] = st->rows[i + j].token;
    }
}

static void clear_result(struct kva_row *row)
{
    row->argmax = -1;
    row->drawn = -1;
    row->nll = 0.0;
    row->finite = false;
}

enum kva_status kva_step_begin(struct kva_model *m, struct kva_row *rows, int n,
                               struct kva_step_state **out, struct kva_error *err)
{
    struct kva_step_state *st = &m->step;
    int n_logits = 0;
    enum kva_status rc = KVA_OK;

    if (st->active)
        return KVA_FAIL(err, KVA_EINVALID, "a step of this model is already in flight");
    if (n < 1)
        return KVA_FAIL(err, KVA_EINVALID, "a step of %d rows", n);
    for (int i = 0; i < n; i++) {
        KVA_TRY(check_row(m, &rows[i], i, err));
        n_logits += rows[i].logits;
        clear_result(&rows[i]);
    }
    st->m = m;
    KVA_TRY(reserve(st, n, n_logits, err));
    st->rows = rows;
    st->live = st->runs = st->next_layer = 0;
    st->cs_for = NULL;
    for (int i = 0, j; i < n && rc == KVA_OK; i = j) {
        for (j = i + 1; j < n && rows[j].session == rows[i].session;)
            j++;
        if (rows[i].session->in_step)
            rc = KVA_FAIL(err, KVA_EINVALID,
                          "row %d: rows of a session must stand together", i);
        rows[i].session->in_step = true;
        if (rc == KVA_OK)
            take_run(st, i, j - i);
    }
    /* from here on the mark belongs to the sessions that take part */
    for (int i = 0; i < n; i++)
        rows[i].session->in_step = false;
    if (rc != KVA_OK)
        return rc;
    for (int i = 0; i < st->runs; i++)
        st->run[i].session->in_step = true;
    if (st->live)
        m->ops->embed(m->ops, m->arch.tok_embd, st->ids, st->live, m->arch.embd_scale,
                      st->x);
    st->active = true;
    *out = st;
    return KVA_OK;
}

/* ---- one layer ---- */

/* The part of a run inside rows [r0, r0 + c): first row and count. */
static int overlap(const struct kva_step_run *run, int r0, int c, int *first)
{
    int lo = run->row0 > r0 ? run->row0 : r0;
    int hi = run->row0 + run->n < r0 + c ? run->row0 + run->n : r0 + c;

    *first = lo;
    return hi > lo ? hi - lo : 0;
}

static void append_rows(struct kva_step_state *st, int layer, int r0, int c)
{
    const struct kva_arch *a = &st->m->arch;
    const int kw = a->kv_heads * a->head_dim, vw = a->kv_heads * a->v_dim;

    for (int i = 0; i < st->runs; i++) {
        struct kva_session *s = st->run[i].session;
        struct kva_error why = {0};
        int first, n = overlap(&st->run[i], r0, c, &first);

        if (!n || s->error.code != KVA_OK)
            continue;
        size_t at = (size_t)(first - r0);
        if (kva_kvstore_append(s->store, layer, st->k + at * (size_t)kw, kw,
                               st->v + at * (size_t)vw, vw, st->pos + first, n,
                               &why) != KVA_OK)
            kva_session_fail(s, &why, st->run[i].pos0);
    }
}

/* Is row r (of `run`) one of the last q_window rows of its session's part of the step? */
static bool in_window(const struct kva_step_run *run, int r)
{
    return r >= run->row0 + run->n - run->session->q_window;
}

static bool collects(const struct kva_session *s)
{
    return (s->n_collect > 0 && s->collecting) || s->tap != NULL;
}

/* Lists the rows of [r0, r0 + c) that go on: all, or in the last layer those whose logits
 * or (when with_window) whose queries are wanted. */
static int select_rows(struct kva_step_state *st, int r0, int c, bool last,
                       bool with_window)
{
    int m = 0;

    for (int i = 0; i < st->runs; i++) {
        int first, n = overlap(&st->run[i], r0, c, &first);

        for (int r = first; r < first + n; r++)
            if (!last || st->rows[st->row_of[r]].logits ||
                (with_window &&
                 (in_window(&st->run[i], r) || collects(st->run[i].session))))
                st->sel[m++] = r;
    }
    return m;
}

/* m rows of activations for those that read them on the host. */
static const float *host_rows(struct kva_step_state *st, const float *x, size_t width,
                              int m, float *copy)
{
    if (st->m->ops->host)
        return x;
    st->m->ops->copy(st->m->ops, copy, x, (size_t)m * width * sizeof *x);
    return copy;
}

/* Of the m selected rows those in a window, which are the last of their run. */
static void push_queries(struct kva_step_state *st, int layer, int m)
{
    const size_t width = (size_t)st->m->arch.heads * (size_t)st->m->arch.head_dim;

    for (int i = 0, j = 0; i < st->runs; i++) {
        struct kva_step_run *run = &st->run[i];
        const int end = run->row0 + run->n;
        int first;

        while (j < m && st->sel[j] < end && !in_window(run, st->sel[j]))
            j++;
        for (first = j; j < m && st->sel[j] < end;)
            j++;
        if (j > first && run->session->error.code == KVA_OK)
            kva_session_push_queries(run->session, layer, st->pos + st->sel[first],
                                     st->q + (size_t)first * width, j - first);
    }
}

/* Queries before (raw) and after the rotation for whoever sums over them or taps them; h:
 * their attention inputs. Only what is followed comes to the host. */
static void collect(struct kva_step_state *st, int layer, int m, const float *h)
{
    const size_t width = (size_t)st->m->arch.heads * (size_t)st->m->arch.head_dim,
                 d = (size_t)st->m->arch.dim;
    const float *raw = st->raw, *q = st->q;
    bool tapped = false, followed = false;

    for (int i = 0; i < st->runs; i++) {
        tapped = tapped || st->run[i].session->tap != NULL;
        followed = followed || kva_session_follows(st->run[i].session);
    }
    if (tapped)
        h = host_rows(st, h, d, m, st->host_h);
    if (tapped || followed)
        q = host_rows(st, q, width, m, st->host_q);
    for (int i = 0, j = 0; i < st->runs; i++) {
        struct kva_step_run *run = &st->run[i];
        struct kva_error why = {0};
        int first = j;

        while (j < m && st->sel[j] < run->row0 + run->n)
            j++;
        if (j == first || run->session->error.code != KVA_OK || !collects(run->session))
            continue;
        if (kva_session_collected(run->session, layer, raw + (size_t)first * width,
                                  q + (size_t)first * width, st->pos + st->sel[first],
                                  j - first, &why) != KVA_OK)
            kva_session_fail(run->session, &why, run->pos0);
        else if (run->session->tap != NULL)
            run->session->tap->rows(run->session->tap->ctx, h + (size_t)first * d,
                                    q + (size_t)first * width, st->pos + st->sel[first],
                                    j - first);
    }
}

/* Does attention itself add up weights, of rows whose output nobody reads, too? */
static bool any_sums(const struct kva_step_state *st)
{
    for (int i = 0; i < st->runs; i++)
        if (kva_session_sums(st->run[i].session))
            return true;
    return false;
}

static bool any_collects(const struct kva_step_state *st)
{
    for (int i = 0; i < st->runs; i++)
        if (collects(st->run[i].session))
            return true;
    return false;
}

/* In the last layer: keeps only the rows whose logits are wanted. Returns how many;
 * *rows, of `width` floats, becomes theirs. */
static int keep_logit_rows(struct kva_step_state *st, int m, const float **rows,
                           size_t width)
{
    int to = 0;

    for (int j = 0; j < m; j++)
        if (st->rows[st->row_of[st->sel[j]]].logits) {
            st->at[to] = j;
            st->sel[to++] = st->sel[j];
        }
    if (to > 0 && to < m) {
        st->m->ops->rows_get(st->m->ops, *rows, width, st->at, to, st->raw);
        *rows = st->raw;
    }
    return to;
}

/* Attention of the m selected rows with queries q; sel_pos holds their positions. */
static void attend(struct kva_step_state *st, int layer, const float *q, int m)
{
    const struct kva_arch *a = &st->m->arch;
    const int qw = a->heads * a->head_dim, ow = a->heads * a->v_dim;
    int n = 0;

    for (int i = 0, j = 0; i < st->runs && j < m; i++) {
        struct kva_session *s = st->run[i].session;
        struct kva_attn attn = {.kv = &st->view[n],
                                .q = q + (size_t)j * (size_t)qw,
                                .pos = st->sel_pos + j,
                                .heads = a->heads,
                                .q_stride = qw,
                                .scale = a->score_scale,
                                .out = st->att + (size_t)j * (size_t)ow,
                                .out_stride = ow};

        for (; j < m && st->sel[j] < st->run[i].row0 + st->run[i].n; j++)
            attn.rows++;
        if (attn.rows == 0)
            continue;
        if (s->error.code !=
            KVA_OK) { /* its entries are gone; what comes out is not read */
            if (st->m->ops->host)
                memset(attn.out, 0, (size_t)attn.rows * (size_t)ow * sizeof *attn.out);
            continue;
        }
        kva_kvstore_view(s->store, layer, &st->view[n]);
        attn.n_sums = kva_session_sums_begin(s, layer, &attn.sums);
        st->attn[n++] = attn;
    }
    st->m->ops->attend(st->m->ops, st->attn, n);
    for (int i = 0; i < st->runs; i++)
        if (st->run[i].session->error.code == KVA_OK)
            kva_session_sums_end(st->run[i].session, layer);
}

static void norm_rows(struct kva_step_state *st, const float *x, const float *w, int rows)
{
    const struct kva_arch *a = &st->m->arch;

    if (w)
        st->m->ops->rmsnorm(st->m->ops, x, w, a->eps, rows, a->dim, st->h);
    else
        st->m->ops->copy(st->m->ops, st->h, x, (size_t)rows * (size_t)a->dim * sizeof *x);
}

/* x += (o, normed when the layer has a norm on the branch) */
static void add_branch(struct kva_step_state *st, float *x, const float *w, int rows)
{
    const struct kva_arch *a = &st->m->arch;

    if (w)
        st->m->ops->rmsnorm(st->m->ops, st->o, w, a->eps, rows, a->dim, st->o);
    st->m->ops->add(st->m->ops, x, st->o, (size_t)rows * (size_t)a->dim);
}

static void ffn(struct kva_step_state *st, const struct kva_layer *l, float *x, int rows)
{
    struct kva_ops *ops = st->m->ops;

    norm_rows(st, x, l->ffn_norm, rows);
    ops->matmul(ops, l->gate, st->h, rows, st->gate, l->ffn);
    ops->matmul(ops, l->up, st->h, rows, st->up, l->ffn);
    ops->silu_mul(ops, st->gate, st->up, (size_t)rows * (size_t)l->ffn, st->gate);
    ops->matmul(ops, l->down, st->gate, rows, st->o, st->m->arch.dim);
    add_branch(st, x, l->post_ffn_norm, rows);
}

static void layer_chunk(struct kva_step_state *st, int layer, int r0, int c)
{
    const struct kva_arch *a = &st->m->arch;
    const struct kva_layer *l = &a->layer[layer];
    struct kva_ops *ops = st->m->ops;
    const int kw = a->kv_heads * a->head_dim, vw = a->kv_heads * a->v_dim,
              qw = a->heads * a->head_dim, half = l->n_rot / 2;
    const bool last = layer == a->layers - 1;
    const size_t d = (size_t)a->dim, rot = (size_t)l->n_rot;
    float *x = st->x + (size_t)r0 * d, *cs = st->cs + (size_t)r0 * rot;
    const float *h = st->h, *q = st->q, *att = st->att;
    bool sums, whole;
    int m;

    norm_rows(st, x, l->attn_norm, c);
    ops->matmul(ops, l->k, st->h, c, st->k, kw);
    ops->matmul(ops, l->v, st->h, c, st->v, vw);
    ops->rope(ops, st->k, kw, c, a->kv_heads, a->head_dim, cs, half);
    append_rows(st, layer, r0, c);

    m = select_rows(st, r0, c, last, true);
    if (!m)
        return;
    if (m < c) {
        for (int j = 0; j < m; j++)
            st->at[j] = st->sel[j] - r0;
        ops->rows_get(ops, st->h, d, st->at, m, st->xs);
        ops->rows_get(ops, st->cs, rot, st->sel, m, st->sel_cs);
        h = st->xs;
        cs = st->sel_cs;
    }
    ops->matmul(ops, l->q, h, m, st->q, qw);
    sums = any_collects(st);
    if (sums)
        ops->copy(ops, st->raw, st->q, (size_t)m * (size_t)qw * sizeof *st->q);
    ops->rope(ops, st->q, qw, m, a->heads, a->head_dim, cs, half);
    push_queries(st, layer, m);
    if (sums)
        collect(st, layer, m, h);
    whole = last && any_sums(st);
    if (last && !whole)
        m = keep_logit_rows(st, m, &q, (size_t)qw);
    if (!m)
        return;
    for (int j = 0; j < m; j++)
        st->sel_pos[j] = st->pos[st->sel[j]];
    attend(st, layer, q, m);
    if (whole)
        m = keep_logit_rows(st, m, &att, (size_t)a->heads * (size_t)a->v_dim);
    if (!m)
        return;
    if (m < c) {
        ops->rows_get(ops, st->x, d, st->sel, m, st->xs);
        x = st->xs;
    }
    ops->matmul(ops, l->o, att, m, st->o, a->dim);
    add_branch(st, x, l->post_attn_norm, m);
    ffn(st, l, x, m);
    if (m < c)
        ops->rows_put(ops, st->xs, d, st->sel, m, st->x);
}

/* Rows of failed sessions leave; the others close up. */
static void remove_failed(struct kva_step_state *st)
{
    const size_t d = (size_t)st->m->arch.dim;
    int runs = 0, live = 0;

    for (int i = 0; i < st->runs; i++) {
        struct kva_step_run run = st->run[i];
        size_t n = (size_t)run.n;

        if (run.session->error.code != KVA_OK) {
            run.session->in_step = false;
            continue;
        }
        if (run.row0 != live) {
            for (size_t r = 0; r < n; r++) /* row by row: the ranges may overlap */
                st->m->ops->copy(st->m->ops, st->x + ((size_t)live + r) * d,
                                 st->x + ((size_t)run.row0 + r) * d, d * sizeof *st->x);
            memmove(st->pos + live, st->pos + run.row0, n * sizeof *st->pos);
            memmove(st->row_of + live, st->row_of + run.row0, n * sizeof *st->row_of);
            run.row0 = live;
            st->cs_for = NULL;
        }
        live += run.n;
        st->run[runs++] = run;
    }
    st->live = live;
    st->runs = runs;
}

enum kva_status kva_step_layer(struct kva_step_state *st, int layer,
                               struct kva_error *err)
{
    struct kva_ops *ops = st->m->ops;
    const struct kva_layer *l;

    if (!st->active || layer != st->next_layer || layer >= st->m->arch.layers)
        return KVA_FAIL(err, KVA_EINVALID, "layer %d of a step that is at layer %d",
                        layer, st->next_layer);
    l = &st->m->arch.layer[layer];
    if (st->live && (!st->cs_for || st->cs_for->inv_freq != l->inv_freq ||
                     st->cs_for->n_rot != l->n_rot || st->cs_for->mscale != l->mscale)) {
        ops->rope_table(ops, st->pos, st->live, l->inv_freq, l->n_rot / 2, l->mscale,
                        st->cs);
        st->cs_for = l;
    }
    for (int r0 = 0; r0 < st->live; r0 += st->chunk)
        layer_chunk(st, layer, r0, st->live - r0 < st->chunk ? st->live - r0 : st->chunk);
    remove_failed(st);
    st->next_layer++;
    return KVA_OK;
}

/* ---- head ---- */

static bool forbids(const struct kva_row *row, int32_t id)
{
    for (int i = 0; i < row->n_forbid; i++)
        if (row->forbid[i] == id)
            return true;
    return false;
}

/* The largest logit the row may take, the lower id when equal; an argmax beside which
 * everything is forbidden stays. */
static void heed_forbidden(struct kva_row *row, const float *logits, int vocab)
{
    int32_t best = -1;

    for (int32_t i = 0; i < vocab; i++)
        if ((best < 0 || logits[i] > logits[best]) && !forbids(row, i))
            best = i;
    if (best >= 0)
        row->argmax = best;
}

static void forbid_logits(struct kva_ops *ops, const struct kva_row *row, float *logits)
{
    const float never = -INFINITY;

    for (int i = 0; i < row->n_forbid; i++)
        ops->rows_put(ops, &never, 1, &row->forbid[i], 1, logits);
}

static bool drawn_alike(const struct kva_row *a, const struct kva_row *b)
{
    const struct kva_sampling *s = a->sampling, *t = b->sampling;

    return s && t && s->temperature >= t->temperature &&
           s->temperature <= t->temperature && s->top_p >= t->top_p &&
           s->top_p <= t->top_p && s->top_k == t->top_k;
}

/* Runs of rows that are drawn alike go out together. */
static void draw_rows(struct kva_step_state *st, struct kva_row *const *row, int m)
{
    struct kva_ops *ops = st->m->ops;
    int vocab = st->m->arch.vocab, n;
    double u[LOGIT_ROWS];
    int32_t id[LOGIT_ROWS];

    for (int j = 0; j < m; j += n) {
        const struct kva_sampling *s = row[j]->sampling;

        for (n = 0; j + n < m && drawn_alike(row[j], row[j + n]); n++)
            u[n] = row[j + n]->u;
        if (n == 0) {
            n = 1;
            continue;
        }
        ops->draw(ops, st->logits + (size_t)j * (size_t)vocab, vocab, n,
                  (float)s->temperature, s->top_k, (float)s->top_p, u, id);
        for (int i = 0; i < n; i++)
            row[j + i]->drawn = id[i];
    }
}

/* Logits of the m rows in sel; rank[j] says where row j's logits go. */
static void head_rows(struct kva_step_state *st, int m, const int *rank, float *raw)
{
    const struct kva_arch *a = &st->m->arch;
    struct kva_ops *ops = st->m->ops;
    const size_t v = (size_t)a->vocab;
    int32_t target[LOGIT_ROWS], argmax[LOGIT_ROWS];
    double nll[LOGIT_ROWS] = {0};
    bool finite[LOGIT_ROWS];
    struct kva_row *rows[LOGIT_ROWS];

    ops->rows_get(ops, st->x, (size_t)a->dim, st->sel, m, st->xs);
    norm_rows(st, st->xs, a->out_norm, m);
    ops->matmul(ops, a->lm_head, st->h, m, st->logits, a->vocab);
    for (int j = 0; j < m; j++)
        target[j] = st->rows[st->row_of[st->sel[j]]].target;
    ops->logits_stats(ops, st->logits, a->vocab, m, target, argmax, nll, finite);
    for (int j = 0; j < m; j++) {
        struct kva_row *row = rows[j] = &st->rows[st->row_of[st->sel[j]]];
        float *logits = st->logits + (size_t)j * v;

        row->argmax = argmax[j];
        row->nll = nll[j];
        row->finite = finite[j];
        if (row->finite && forbids(row, row->argmax))
            heed_forbidden(row, host_rows(st, logits, v, 1, st->host_logits), a->vocab);
        if (raw)
            ops->copy(ops, raw + (size_t)rank[j] * v, logits, v * sizeof *raw);
        if (row->sampling || row->keep_logits)
            forbid_logits(ops, row, logits);
        if (row->keep_logits)
            ops->copy(ops, row->keep_logits, logits, v * sizeof *raw);
    }
    draw_rows(st, rows, m);
}

static void run_head(struct kva_step_state *st, float *raw)
{
    int rank[LOGIT_ROWS]; /* of the row among all rows that want logits */
    int m = 0, next = 0, seen_rank = 0;

    for (int r = 0; r < st->live; r++) {
        if (!st->rows[st->row_of[r]].logits)
            continue;
        for (; next < st->row_of[r]; next++)
            seen_rank += st->rows[next].logits;
        st->sel[m] = r;
        rank[m++] = seen_rank;
        if (m == st->chunk_logits) {
            head_rows(st, m, rank, raw);
            m = 0;
        }
    }
    if (m)
        head_rows(st, m, rank, raw);
}

enum kva_status kva_step_end(struct kva_step_state *st, float *raw_logits,
                             struct kva_error *err)
{
    if (!st->active || st->next_layer != st->m->arch.layers)
        return KVA_FAIL(err, KVA_EINVALID, "the head of a step that is at layer %d of %d",
                        st->next_layer, st->m->arch.layers);
    run_head(st, raw_logits);
    KVA_TRY(st->m->ops->sync(st->m->ops, err));
    for (int i = 0; i < st->runs; i++) {
        struct kva_step_run *run = &st->run[i];
        struct kva_session *s = run->session;
        struct kva_error why = {0};

        s->in_step = false;
        if (!st->m->ops->host)
            (void)kva_kvstore_sound(s->store, &why);
        for (int r = run->row0; r < run->row0 + run->n; r++) {
            const struct kva_row *row = &st->rows[st->row_of[r]];

            if (row->logits && !row->finite)
                KVA_FAIL(&why, KVA_ENONFINITE, "a logit at position %d is not finite",
                         st->pos[r]);
        }
        if (why.code == KVA_OK) {
            s->seen = run->pos0 + run->n;
            continue;
        }
        kva_session_fail(s, &why, run->pos0);
        for (int r = run->row0; r < run->row0 + run->n; r++)
            clear_result(&st->rows[st->row_of[r]]);
    }
    st->active = false;
    return KVA_OK;
}

void kva_step_cancel(struct kva_step_state *st)
{
    if (!st || !st->active)
        return;
    for (int i = 0; i < st->runs; i++) {
        kva_session_undo(st->run[i].session, st->run[i].pos0);
        st->run[i].session->in_step = false;
    }
    st->active = false;
}

/* ---- whole steps ---- */

enum kva_status kva_step(struct kva_model *m, struct kva_row *rows, int n,
                         float *raw_logits, struct kva_error *err)
{
    /* steps of questions and answers resemble each other */
    const bool gather = m->ops->gather && !m->ops->context;
    struct kva_step_state *st = NULL;
    enum kva_status rc;

    if (gather)
        m->ops->gather(m->ops, true);
    KVA_GO(kva_step_begin(m, rows, n, &st, err));
    for (int l = 0; l < m->arch.layers; l++)
        KVA_GO(kva_step_layer(st, l, err));
    KVA_GO(kva_step_end(st, raw_logits, err));
out:
    if (gather)
        m->ops->gather(m->ops, false);
    if (rc != KVA_OK)
        kva_step_cancel(st);
    return rc;
}

enum kva_status kva_prefill(struct kva_model *m, struct kva_session *s,
                            const int32_t *ids, int n, int chunk, struct kva_row *last,
                            struct kva_error *err)
{
    struct kva_row *rows;
    enum kva_status rc = KVA_OK;

    if (chunk < 1)
        chunk = m->ops->chunk;
    rows = kva_calloc(min_size((size_t)chunk, n > 0 ? (size_t)n : 1), sizeof *rows);
    if (!rows)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory for %d rows", chunk);
    m->ops->context = true;
    for (int at = 0; at < n; at += chunk) {
        int c = n - at < chunk ? n - at : chunk;
        bool end = at + c == n;

        for (int i = 0; i < c; i++)
            rows[i] = (struct kva_row){.session = s,
                                       .token = ids[at + i],
                                       .logits = last && end && i == c - 1,
                                       .target = -1};
        KVA_GO(kva_step(m, rows, c, NULL, err));
        if (s->error.code != KVA_OK) {
            rc = s->error.code;
            if (err && err->code == KVA_OK)
                *err = s->error;
            goto out;
        }
        if (end && last)
            *last = rows[c - 1];
    }
out:
    m->ops->context = false;
    free(rows);
    return rc;
}
