/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cuda_attend.c - attention in the device backend's table.
 *
 * The rows of all sessions become items of as few launches as the scratch for their runs
 * allows (attend.h: how rows are cut changes no bit); items and positions travel in one
 * upload. Sums of weights that are the host's are gathered into one array and back. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/attend.h"
#include "kernels/cuda/cuda.h"

#define PART_BYTES ((size_t)64 << 20) /* for runs, unless one row takes more */

/* One session, its pointers on the device. */
struct session {
    const struct kva_attn *a;
    struct kva_dev_view view;
    const float *q;
    float *out;
    size_t row_bytes; /* of runs, for one row */
    float *sums;      /* copies of the host's; NULL: none, or the device's own */
};

/* What is uploaded for a launch, which has at most one item of a session. */
struct batch {
    struct kva_cuda_attend_item *item;
    int32_t *pos;
    float **sums;
    size_t n_pos, n_sums;
    int items;
};

static size_t live_entries(const struct kva_kv_view *kv, int head)
{
    size_t n = 0;

    if (!kv->live)
        return (size_t)kv->len[head];
    for (int i = 0; i * KVA_PAGE < kv->len[head]; i++)
        n += (size_t)__builtin_popcount(
            kv->live[kv->table[(size_t)head * (size_t)kv->table_cap + (size_t)i]]);
    return n;
}

static size_t sums_floats(const struct kva_attn *a)
{
    size_t n = 0;

    for (int h = 0; h < a->kv->kv_heads; h++)
        n += live_entries(a->kv, h);
    return n * (size_t)a->n_sums;
}

/* Sums between the arrays of the host and their copies in one, [n_sums][kv_heads][live].
 */
static void sums_move(const struct kva_attn *a, float *all, bool back)
{
    for (int i = 0; i < a->n_sums * a->kv->kv_heads; i++) {
        size_t n = live_entries(a->kv, i % a->kv->kv_heads);

        if (back)
            memcpy(a->sums[i], all, n * sizeof *all);
        else
            memcpy(all, a->sums[i], n * sizeof *all);
        all += n;
    }
}

static bool alike(const struct kva_attn *a, const struct kva_attn *b)
{
    return a->heads == b->heads && a->kv->kv_heads == b->kv->kv_heads &&
           a->kv->dim_k == b->kv->dim_k && a->kv->dim_v == b->kv->dim_v &&
           a->kv->type == b->kv->type;
}

static void no_memory(struct kva_cuda *cu, size_t bytes)
{
    struct kva_error why = {0};

    (void)KVA_FAIL(&why, KVA_ENOMEM, "attention: %zu bytes", bytes);
    kva_cuda_fail(cu, &why);
}

/* Rows [row0, row0 + rows) of a session as an item; its runs go to `part`. */
static void add_item(struct batch *b, const struct session *s, int row0, int rows,
                     int runs, float *part)
{
    const struct kva_attn *a = s->a;
    const struct kva_kv_view *kv = a->kv;
    size_t units = (size_t)runs * (size_t)rows * (size_t)a->heads;
    struct kva_cuda_attend_item *it = &b->item[b->items++];
    float *sums = s->sums;

    *it = (struct kva_cuda_attend_item){
        .view = s->view,
        .q = s->q + (size_t)row0 * (size_t)a->q_stride,
        .pos = NULL, /* `launch` knows where */
        .rows = rows,
        .heads = a->heads,
        .q_stride = a->q_stride,
        .scale = a->scale,
        .out = s->out + (size_t)row0 * (size_t)a->out_stride,
        .out_stride = a->out_stride,
        .acc = part,
        .ml = part + units * (size_t)kv->dim_v,
        .n_sums = a->n_sums,
    };
    if (a->n_sums > 0)
        it->lse = it->ml + 2 * units;
    memcpy(b->pos + b->n_pos, a->pos + row0, (size_t)rows * sizeof *b->pos);
    b->n_pos += (size_t)rows;
    for (int i = 0; i < a->n_sums * kv->kv_heads; i++) {
        b->sums[b->n_sums++] = sums ? sums : a->sums[i];
        if (sums)
            sums += live_entries(kv, i % kv->kv_heads);
    }
}

/* Sends the items, in the order of b->item, and runs them. */
static void launch(struct kva_cuda *cu, struct batch *b, struct kva_cuda_attend *l,
                   bool sums)
{
    size_t item_bytes = (size_t)b->items * sizeof *b->item;
    size_t sum_bytes = b->n_sums * sizeof *b->sums;
    size_t pos_bytes = b->n_pos * sizeof *b->pos,
           bytes = item_bytes + sum_bytes + pos_bytes;
    uint8_t *host = malloc(bytes), *device = kva_cuda_scratch(cu, bytes);
    size_t pos = 0, sum = 0;

    if (host == NULL)
        no_memory(cu, bytes);
    for (int i = 0; i < b->items && device != NULL; i++) {
        struct kva_cuda_attend_item *it = &b->item[i];

        it->pos = (const int32_t *)(const void *)(device + item_bytes + sum_bytes) + pos;
        it->sums = (float *const *)(const void *)(device + item_bytes) + sum;
        pos += (size_t)it->rows;
        sum += (size_t)it->n_sums * (size_t)l->kv_heads;
    }
    if (!cu->failed) {
        memcpy(host, b->item, item_bytes);
        memcpy(host + item_bytes, b->sums, sum_bytes);
        memcpy(host + item_bytes + sum_bytes, b->pos, pos_bytes);
        kva_rt_upload(cu->rt, device, host, bytes);
        l->item = (const struct kva_cuda_attend_item *)(const void *)device;
        l->items = b->items;
        kva_cuda_attend_launch(l, cu->ops.context, cu->stream);
        if (sums)
            kva_cuda_attend_sums(l, cu->stream);
    }
    free(host);
    b->items = 0;
    b->n_pos = b->n_sums = 0;
}

/* Sessions of one shape: rows one after the other into items, a launch whenever the
 * scratch is full. */
static void attend_alike(struct kva_cuda *cu, const struct session *s, int n,
                         struct batch *b)
{
    const struct kva_attn *a = s->a;
    struct kva_cuda_attend l = {.heads = a->heads,
                                .kv_heads = a->kv->kv_heads,
                                .dim_k = a->kv->dim_k,
                                .dim_v = a->kv->dim_v,
                                .f16 = a->kv->type == KVA_F16,
                                .halves = strcmp(cu->ops.numerics, "bf16") == 0 ? 1 : 2};
    struct kva_attend_cut cut = kva_cuda_attend_cut(&l, cu->ops.context);
    size_t all = 0, most = 0, room, used = 0;
    bool any = false;
    uint8_t *part;

    for (int i = 0; i < n; i++) {
        all += s[i].row_bytes * (size_t)s[i].a->rows;
        most = s[i].row_bytes > most ? s[i].row_bytes : most;
        any |= s[i].a->n_sums > 0;
    }
    room = all < PART_BYTES ? all : most > PART_BYTES ? most : PART_BYTES;
    part = kva_cuda_scratch(cu, room);
    for (int i = 0; i < n && part != NULL; i++) {
        int runs = kva_attend_runs(cut, (s[i].view.longest + KVA_PAGE - 1) / KVA_PAGE);

        for (int row = 0, rows; row < s[i].a->rows; row += rows) {
            size_t fit = (room - used) / s[i].row_bytes;

            if (fit == 0) { /* what is under way reads its part before the next writes */
                launch(cu, b, &l, any);
                l.rows = l.entries = 0;
                used = 0;
                fit = room / s[i].row_bytes;
            }
            rows = s[i].a->rows - row;
            rows = (size_t)rows < fit ? rows : (int)fit;
            add_item(b, &s[i], row, rows, runs, (float *)(void *)(part + used));
            used += (size_t)rows * s[i].row_bytes;
            l.rows = rows > l.rows ? rows : l.rows;
            l.entries = s[i].view.longest > l.entries ? s[i].view.longest : l.entries;
        }
    }
    if (b->items > 0)
        launch(cu, b, &l, any);
}

/* The session's pointers on the device. */
static void begin(struct kva_cuda *cu, const struct kva_attn *a, struct session *s)
{
    const struct kva_kv_view *kv = a->kv;
    struct kva_cuda_attend l = {.f16 = kv->type == KVA_F16};
    int runs;

    if (kv->dim_k > KVA_ATTEND_DIM || kv->dim_v > KVA_ATTEND_DIM) {
        struct kva_error why = {0};

        (void)KVA_FAIL(&why, KVA_EUNSUPPORTED,
                       "attention on the device: heads of %d and %d numbers, at most %d",
                       kv->dim_k, kv->dim_v, KVA_ATTEND_DIM);
        kva_cuda_fail(cu, &why);
    }
    *s = (struct session){.a = a, .view = kva_cuda_view(cu, kv)};
    s->q = kva_cuda_in(cu, a->q,
                       (size_t)(a->rows - 1) * (size_t)a->q_stride +
                           (size_t)a->heads * (size_t)kv->dim_k);
    s->out = kva_cuda_inout(cu, a->out,
                            (size_t)(a->rows - 1) * (size_t)a->out_stride +
                                (size_t)a->heads * (size_t)kv->dim_v);
    runs = kva_attend_runs(kva_cuda_attend_cut(&l, cu->ops.context),
                           (s->view.longest + KVA_PAGE - 1) / KVA_PAGE);
    s->row_bytes =
        sizeof(float) * (size_t)a->heads * ((size_t)runs * ((size_t)kv->dim_v + 2) + 1);
}

static bool copies_sums(const struct kva_cuda *cu, const struct kva_attn *a)
{
    return a->n_sums > 0 && !kva_cuda_owns(cu, a->sums[0]);
}

/* Copies of the host's sums, all in one array of `floats`. */
static void sums_in(struct kva_cuda *cu, struct session *s, int n, float *host,
                    size_t floats)
{
    float *device = kva_cuda_scratch(cu, floats * sizeof *device);
    size_t at = 0;

    for (int i = 0; i < n && device != NULL; i++)
        if (copies_sums(cu, s[i].a)) {
            s[i].sums = device + at;
            sums_move(s[i].a, host + at, false);
            at += sums_floats(s[i].a);
        }
    if (device != NULL)
        kva_rt_upload(cu->rt, device, host, floats * sizeof *device);
}

static void sums_out(struct kva_cuda *cu, const struct session *s, int n, float *host,
                     size_t floats)
{
    const float *device = NULL;

    for (int i = 0; i < n && device == NULL; i++)
        device = s[i].sums;
    kva_rt_download(cu->rt, host, device, floats * sizeof *host);
    for (int i = 0; i < n; i++)
        if (s[i].sums != NULL)
            sums_move(s[i].a, host + (s[i].sums - device), true);
}

static void attend(struct kva_ops *ops, const struct kva_attn *a, int n)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    struct session *s = calloc((size_t)n + 1, sizeof *s);
    struct batch b = {0};
    size_t rows = 0, addresses = 0, floats = 0;
    float *host = NULL;
    int m = 0;

    for (int i = 0; i < n && s != NULL; i++) {
        if (a[i].rows < 1)
            continue;
        begin(cu, &a[i], &s[m++]);
        rows += (size_t)a[i].rows;
        addresses += (size_t)a[i].n_sums * (size_t)a[i].kv->kv_heads;
        if (copies_sums(cu, &a[i]))
            floats += sums_floats(&a[i]);
    }
    b.item = calloc((size_t)n + 1, sizeof *b.item);
    b.pos = calloc(rows + 1, sizeof *b.pos);
    b.sums = calloc(addresses + 1, sizeof *b.sums);
    host = calloc(floats + 1, sizeof *host);
    if (!s || !b.item || !b.pos || !b.sums || !host)
        no_memory(cu, (floats + rows) * sizeof *host);
    if (!cu->failed && floats > 0)
        sums_in(cu, s, m, host, floats);
    for (int i = 0, j; i < m && !cu->failed; i = j) {
        for (j = i + 1; j < m && alike(s[i].a, s[j].a);)
            j++;
        attend_alike(cu, s + i, j - i, &b);
    }
    if (!cu->failed && floats > 0)
        sums_out(cu, s, m, host, floats);
    kva_cuda_done(cu);
    free(s);
    free(b.item);
    free(b.pos);
    free(b.sums);
    free(host);
}

void kva_cuda_attend_table(struct kva_ops *ops)
{
    ops->attend = attend;
}
