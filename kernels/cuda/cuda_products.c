/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cuda_products.c - weights of the device backend, and the functions that read them.
 *
 * Question and answer rows use the skinny product whatever their number, context rows the
 * library of lt.h whatever theirs (ruling R7). The library reads plain rows: f32 weights
 * as they are, or bf16 ones in numerics bf16; all others are unpacked a slab of outputs
 * at a time into scratch first, exactly in f32, rounded once in bf16. It takes rows in
 * whole buckets: the last, partial one goes through scratch, filled up with zeros. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/lt.h"
#include "kernels/cuda/products.h"

#define STAGE ((size_t)8 << 20) /* host bytes of weights laid out at a time */

struct kva_weight {
    struct kva_dev_weight d;
    void *memory; /* values, scales, super: one allocation */
    size_t bytes;
};

static void weight_free(struct kva_ops *ops, struct kva_weight *w)
{
    if (!w)
        return;
    kva_cuda_give(kva_cuda_of(ops), w->memory, w->bytes);
    free(w);
}

static size_t weight_bytes(const struct kva_weight *w)
{
    return sizeof *w + w->bytes;
}

const struct kva_dev_weight *kva_cuda_weight(const struct kva_weight *w)
{
    return &w->d;
}

static size_t rounded(size_t n)
{
    return (n + 255) / 256 * 256;
}

/* Lays rows out in pieces of host memory and sends each where it belongs. */
static enum kva_status send_rows(struct kva_cuda *cu, const struct kva_weight *w,
                                 enum kva_type type, const uint8_t *data,
                                 const int32_t *row_of, struct kva_error *err)
{
    const struct kva_type_info *t = kva_type_get((uint32_t)type);
    struct kva_dev_row_bytes n = kva_dev_row_size(w->d.kind, w->d.chunks);
    size_t row_bytes = (size_t)(w->d.in / t->block_elements) * (size_t)t->block_bytes;
    size_t one = n.values + n.scales + n.super, rows = STAGE / one ? STAGE / one : 1;
    uint8_t *values, *scales, *super;

    if (rows > (size_t)w->d.out)
        rows = (size_t)w->d.out;
    values = malloc(rows * one);
    if (!values)
        return KVA_FAIL(err, KVA_ENOMEM, "%zu bytes to lay weights out", rows * one);
    super = values + rows * n.values; /* whole words */
    scales = super + rows * n.super;
    for (size_t o = 0; o < (size_t)w->d.out; o += rows) {
        size_t held = (size_t)w->d.out - o < rows ? (size_t)w->d.out - o : rows;

        for (size_t r = 0; r < held; r++) {
            size_t from = row_of ? (size_t)row_of[o + r] : o + r;

            kva_dev_row_lay(type, data + from * row_bytes, w->d.in, values + r * n.values,
                            scales + r * n.scales,
                            (uint32_t *)(void *)(super + r * n.super));
        }
        kva_rt_upload(cu->rt, (uint8_t *)w->memory + o * n.values, values,
                      held * n.values);
        if (n.scales)
            kva_rt_upload(
                cu->rt, (uint8_t *)w->memory + (w->d.scales - w->d.values) + o * n.scales,
                scales, held * n.scales);
        if (n.super)
            kva_rt_upload(cu->rt,
                          (uint8_t *)w->memory +
                              ((const uint8_t *)w->d.super - w->d.values) + o * n.super,
                          super, held * n.super);
    }
    free(values);
    return kva_rt_status(cu->rt, err);
}

static enum kva_status check_shape(enum kva_type type, int out, int in,
                                   const int32_t *row_of, struct kva_error *err)
{
    const struct kva_type_info *t = kva_type_get((uint32_t)type);

    if (!t)
        return KVA_FAIL(err, KVA_EUNSUPPORTED, "weight type %s",
                        kva_type_name((uint32_t)type));
    if (out < 1 || in < 1 || out > INT32_MAX - 64 || in > INT32_MAX / 32 ||
        in % t->block_elements != 0)
        return KVA_FAIL(err, KVA_EINVALID, "weight of %d x %d in blocks of %d", out, in,
                        t->block_elements);
    for (int o = 0; row_of && o < out; o++)
        if (row_of[o] < 0 || row_of[o] >= out)
            return KVA_FAIL(err, KVA_EINVALID, "row %d of a weight of %d rows", row_of[o],
                            out);
    return KVA_OK;
}

static enum kva_status weight_new(struct kva_ops *ops, enum kva_type type,
                                  const void *data, int out, int in,
                                  const int32_t *row_of, struct kva_weight **weight,
                                  struct kva_error *err)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    struct kva_dev_row_bytes n;
    struct kva_weight *w;
    enum kva_status rc = KVA_OK;
    size_t scales_at, super_at;

    *weight = NULL;
    KVA_TRY(check_shape(type, out, in, row_of, err));
    w = kva_calloc(1, sizeof *w);
    if (!w)
        return KVA_FAIL(err, KVA_ENOMEM, "weight of %d x %d", out, in);
    w->d.kind = (int)kva_dev_kind_of(type);
    w->d.out = out;
    w->d.in = in;
    w->d.chunks = (in + KVA_CHUNK - 1) / KVA_CHUNK;
    n = kva_dev_row_size(w->d.kind, w->d.chunks);
    scales_at = rounded((size_t)out * n.values);
    super_at = scales_at + rounded((size_t)out * n.scales);
    w->bytes = super_at + (size_t)out * n.super;
    w->memory = kva_cuda_take(cu, w->bytes, false);
    if (!w->memory) {
        rc = KVA_FAIL(err, KVA_ENOMEM,
                      "%zu bytes of device memory for a weight of %d x "
                      "%d",
                      w->bytes, out, in);
        goto out;
    }
    w->d.values = w->memory;
    w->d.scales = w->d.values + scales_at;
    w->d.super = (const uint32_t *)(const void *)(w->d.values + super_at);
    KVA_GO(send_rows(cu, w, type, data, row_of, err));
    *weight = w;
    w = NULL;
out:
    weight_free(ops, w);
    return rc;
}

static void embed(struct kva_ops *ops, const struct kva_weight *w, const int32_t *ids,
                  int rows, float scale, float *x)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    const int32_t *list = kva_cuda_list(cu, ids, (size_t)rows * sizeof *ids);
    float *to = kva_cuda_out(cu, x, (size_t)rows * (size_t)w->d.in);

    if (!cu->failed)
        kva_dev_embed(&w->d, list, rows, scale, to, cu->stream);
    kva_cuda_done(cu);
}

/* Rows of one call of matmul: the first `whole`, full buckets, are read and written where
 * they are, the `rest` in scratch whose rows are as far apart, `filled` with zeros to
 * full buckets. Where an address is not aligned, all are the rest. */
struct context_rows {
    int whole, rest, filled;
    const void *x, *x_rest;
    float *y_rest;
};

static struct context_rows context_rows(struct kva_cuda *cu, bool bf16, const float *x,
                                        size_t in, int rows, float *y, int y_stride)
{
    bool aligned = ((uintptr_t)x | (uintptr_t)y) % KVA_LT_ALIGN == 0;
    struct context_rows c = {.whole = aligned ? rows / KVA_LT_ROWS * KVA_LT_ROWS : 0};
    size_t filled, whole = (size_t)c.whole * in, n = (size_t)rows * in;

    c.rest = rows - c.whole;
    c.filled = (c.rest + KVA_LT_ROWS - 1) / KVA_LT_ROWS * KVA_LT_ROWS;
    filled = (size_t)c.filled * in;
    if (bf16) {
        uint16_t *to = kva_cuda_scratch(cu, (whole + filled) * sizeof *to);

        if (!cu->failed)
            kva_dev_to_bf16(x, n, whole + filled, to, cu->stream);
        c.x = to;
        c.x_rest = to ? to + whole : NULL;
    } else {
        float *to = kva_cuda_scratch(cu, filled * sizeof *to);

        if (!cu->failed)
            kva_dev_pad(x + whole, n - whole, filled, to, cu->stream);
        c.x = x;
        c.x_rest = to;
    }
    c.y_rest = kva_cuda_scratch(cu, (size_t)c.filled * (size_t)y_stride * sizeof *y);
    return c;
}

static enum kva_status in_calls(struct kva_cuda *cu, struct kva_lt_product p,
                                const void *x, int rows, float *y, struct kva_error *err)
{
    size_t each = p.bf16 ? sizeof(uint16_t) : sizeof(float);

    for (int at = 0; at < rows; at += KVA_LT_MOST) {
        p.n = rows - at < KVA_LT_MOST ? rows - at : KVA_LT_MOST;
        p.x = (const uint8_t *)x + (size_t)at * (size_t)p.x_stride * each;
        p.y = y + (size_t)at * (size_t)p.y_stride;
        KVA_TRY(kva_lt_product(cu->lt, &p, cu->stream, err));
    }
    return KVA_OK;
}

/* The product of context rows: slabs of outputs, unpacked unless the library reads them
 * where they are. */
static enum kva_status context_product(struct kva_cuda *cu, const struct kva_weight *w,
                                       const float *x, int rows, float *y, int y_stride,
                                       struct kva_error *err)
{
    bool bf16 = strcmp(cu->ops.numerics, "bf16") == 0;
    bool in_place = w->d.kind == (bf16 ? KVA_DEV_BF16 : KVA_DEV_F32);
    size_t in = (size_t)w->d.in, each = bf16 ? sizeof(uint16_t) : sizeof(float);
    struct kva_lt_product p = {.k = w->d.in,
                               .bf16 = bf16,
                               .w_stride = in_place ? w->d.chunks * KVA_CHUNK : w->d.in,
                               .x_stride = w->d.in,
                               .y_stride = y_stride};
    struct context_rows c;
    int slab = w->d.out;
    void *unpacked = NULL;

    if (!cu->lt)
        KVA_TRY(kva_lt_open(&cu->lt, err));
    p.workspace = kva_cuda_scratch(cu, kva_lt_workspace(cu->lt));
    c = context_rows(cu, bf16, x, in, rows, y, y_stride);
    if (!in_place) {
        size_t fit = kva_lt_slab(cu->lt) / (in * each) / 64 * 64;

        fit = fit ? fit : 64;
        slab = fit < (size_t)slab ? (int)fit : slab;
        unpacked = kva_cuda_scratch(cu, (size_t)slab * in * each);
    }
    for (int o = 0; o < w->d.out && !cu->failed; o += slab) {
        p.m = w->d.out - o < slab ? w->d.out - o : slab;
        p.w = in_place ? (const void *)w->d.values : unpacked;
        if (!in_place && bf16)
            kva_dev_dequant_bf16(&w->d, o, p.m, unpacked, cu->stream);
        else if (!in_place)
            kva_dev_dequant(&w->d, o, p.m, unpacked, cu->stream);
        KVA_TRY(in_calls(cu, p, c.x, c.whole, y + o, err));
        KVA_TRY(in_calls(cu, p, c.x_rest, c.filled, c.y_rest, err));
        kva_dev_put_rows(c.y_rest, c.rest, p.m, y_stride,
                         y + (size_t)c.whole * (size_t)y_stride + o, cu->stream);
    }
    return KVA_OK;
}

static void matmul(struct kva_ops *ops, const struct kva_weight *w, const float *x,
                   int rows, float *y, int y_stride)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    struct kva_error why = {0};
    const float *from;
    float *to;
    size_t n;

    if (rows < 1)
        return;
    n = (size_t)(rows - 1) * (size_t)y_stride + (size_t)w->d.out;
    from = kva_cuda_in(cu, x, (size_t)rows * (size_t)w->d.in);
    /* what lies between the rows of y stays */
    to = y_stride > w->d.out ? kva_cuda_inout(cu, y, n) : kva_cuda_out(cu, y, n);
    if (!cu->failed && !ops->context)
        kva_dev_skinny(&w->d, from, rows, to, y_stride, cu->stream);
    else if (!cu->failed &&
             context_product(cu, w, from, rows, to, y_stride, &why) != KVA_OK)
        kva_cuda_fail(cu, &why);
    kva_cuda_done(cu);
}

static const char *choices(const struct kva_ops *ops)
{
    const struct kva_cuda *cu = kva_cuda_of(ops);

    return cu->lt ? kva_lt_choices(cu->lt) : "";
}

void kva_cuda_products_close(struct kva_cuda *cu)
{
    kva_lt_close(cu->lt);
    cu->lt = NULL;
}

void kva_cuda_products_table(struct kva_ops *ops)
{
    ops->choices = choices;
    ops->weight_new = weight_new;
    ops->weight_free = weight_free;
    ops->weight_bytes = weight_bytes;
    ops->embed = embed;
    ops->matmul = matmul;
}
