/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cuda.c - the device backend: its memory, staging of the host's, opening and closing. */
#include "kernels/cuda/cuda.h"

#include "kernels/cuda/attend.h"
#include "kernels/cuda/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(KVA_HOST_SIMT) && defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { ALIGN = 256 };
/* Rows that keep a large card's products busy; their activations of Llama-3.1-8B take
 * some 250 MB. */
enum { CONTEXT_ROWS = 1024 };
static const size_t LEAST_BLOCK = (size_t)1 << 20;

void kva_cuda_fail(struct kva_cuda *cu, const struct kva_error *why)
{
    if (!cu->failed)
        cu->fault = *why;
    cu->failed = true;
}

static void no_memory(struct kva_cuda *cu, size_t bytes)
{
    struct kva_error err = {0};

    (void)KVA_FAIL(&err, KVA_ENOMEM, "%zu bytes of scratch on the device", bytes);
    kva_cuda_fail(cu, &err);
}

/* ---- what is ours ---- */

/* The driver hands out whole granules; what is smaller shares some. */
static size_t in_granules(size_t bytes)
{
    const size_t granule = (size_t)2 << 20;

    return bytes < granule / 2 ? bytes : (bytes + granule - 1) / granule * granule;
}

void *kva_cuda_take(struct kva_cuda *cu, size_t bytes, bool shared)
{
    void *p = kva_rt_alloc(cu->rt, bytes, shared);

    if (p != NULL)
        cu->taken += in_granules(bytes);
    return p;
}

static void watch(struct kva_cuda *cu)
{
    size_t unused, total;

    kva_rt_mem_info(cu->rt, &unused, &total);
    if (total - unused > cu->most_bytes)
        cu->most_bytes = total - unused;
    cu->watched = cu->taken + cu->pages;
}

void kva_cuda_watch(struct kva_cuda *cu)
{
    if (cu->watching && cu->taken + cu->pages > cu->watched)
        watch(cu);
}

void kva_cuda_give(struct kva_cuda *cu, void *p, size_t bytes)
{
    if (p == NULL)
        return;
    kva_cuda_watch(cu);
    kva_rt_free(cu->rt, p);
    cu->taken -= in_granules(bytes);
}

/* The first span that begins behind p. */
static size_t span_behind(const struct kva_cuda *cu, const void *p)
{
    size_t low = 0, high = cu->n_spans;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if ((uintptr_t)cu->span[mid].base <= (uintptr_t)p)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

bool kva_cuda_owns(const struct kva_cuda *cu, const void *p)
{
    size_t i = span_behind(cu, p);

    return i > 0 &&
           (uintptr_t)p - (uintptr_t)cu->span[i - 1].base < cu->span[i - 1].bytes;
}

static void *span_new(struct kva_cuda *cu, size_t bytes, bool shared)
{
    struct kva_cuda_span *more;
    uint8_t *p;
    size_t i;

    if (cu->n_spans == cu->cap_spans) {
        size_t cap = 2 * cu->cap_spans + 16;

        more = kva_realloc(cu->span, cap, sizeof *more);
        if (more == NULL)
            return NULL;
        cu->span = more;
        cu->cap_spans = cap;
    }
    bytes = bytes > 0 ? bytes : 1;
    p = kva_cuda_take(cu, bytes, shared);
    if (p == NULL)
        return NULL;
    i = span_behind(cu, p);
    memmove(cu->span + i + 1, cu->span + i, (cu->n_spans - i) * sizeof *cu->span);
    cu->span[i] = (struct kva_cuda_span){p, bytes};
    cu->n_spans++;
    return p;
}

static void *cuda_alloc(struct kva_ops *ops, size_t bytes, enum kva_mem where)
{
    return span_new(kva_cuda_of(ops), bytes, where == KVA_MEM_SHARED);
}

static void cuda_release(struct kva_ops *ops, void *p, enum kva_mem where)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    size_t i = span_behind(cu, p);

    (void)where;
    if (p == NULL || i == 0 || cu->span[i - 1].base != p)
        return;
    kva_cuda_give(cu, p, cu->span[i - 1].bytes);
    memmove(cu->span + i - 1, cu->span + i, (cu->n_spans - i) * sizeof *cu->span);
    cu->n_spans--;
}

/* ---- scratch and staging ---- */

static bool block_new(struct kva_cuda *cu, size_t bytes)
{
    struct kva_cuda_span *b;

    if (cu->n_blocks == (int)(sizeof cu->block / sizeof *cu->block))
        return false;
    b = &cu->block[cu->n_blocks];
    b->base = kva_cuda_take(cu, bytes, false);
    if (b->base == NULL)
        return false;
    ASAN_POISON_MEMORY_REGION(b->base, bytes);
    b->bytes = bytes;
    cu->n_blocks++;
    cu->used = 0;
    return true;
}

static void blocks_free(struct kva_cuda *cu)
{
    for (int i = 0; i < cu->n_blocks; i++) {
        ASAN_UNPOISON_MEMORY_REGION(cu->block[i].base, cu->block[i].bytes);
        kva_cuda_give(cu, cu->block[i].base, cu->block[i].bytes);
    }
    cu->n_blocks = 0;
    cu->used = 0;
}

static size_t blocks_bytes(const struct kva_cuda *cu)
{
    size_t sum = 0;

    for (int i = 0; i < cu->n_blocks; i++)
        sum += cu->block[i].bytes;
    return sum;
}

void *kva_cuda_scratch(struct kva_cuda *cu, size_t bytes)
{
    /* a gap behind each piece, so that the address sanitizer sees what runs over */
    size_t need = (bytes + ALIGN) / ALIGN * ALIGN, block = blocks_bytes(cu);
    struct kva_cuda_span *b;
    uint8_t *p;

    if (cu->failed || bytes == 0)
        return NULL;
    if (cu->n_blocks == 0 || need > cu->block[cu->n_blocks - 1].bytes - cu->used) {
        block = block > LEAST_BLOCK ? block : LEAST_BLOCK;
        if (!block_new(cu, block > need ? block : need) && !block_new(cu, need)) {
            no_memory(cu, bytes);
            return NULL;
        }
        if (blocks_bytes(cu) > cu->scratch_peak_bytes)
            cu->scratch_peak_bytes = blocks_bytes(cu);
    }
    b = &cu->block[cu->n_blocks - 1];
    p = b->base + cu->used;
    cu->used += need;
    ASAN_UNPOISON_MEMORY_REGION(p, bytes);
    return p;
}

const void *kva_cuda_list(struct kva_cuda *cu, const void *host, size_t bytes)
{
    void *p = kva_cuda_scratch(cu, bytes);

    if (p != NULL)
        kva_rt_upload(cu->rt, p, host, bytes);
    return p;
}

static size_t piece(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

static bool room_to_pack(struct kva_cuda *cu, size_t bytes)
{
    uint8_t *more;

    if (bytes <= cu->cap_packed)
        return true;
    more = kva_realloc(cu->packed, 2 * bytes, 1);
    if (more == NULL)
        return false;
    cu->packed = more;
    cu->cap_packed = 2 * bytes;
    return true;
}

void kva_cuda_lists(struct kva_cuda *cu, struct kva_cuda_list *list, int n)
{
    size_t bytes = 0;
    uint8_t *p;

    for (int i = 0; i < n; i++) {
        list[i].device = NULL;
        if (list[i].host)
            bytes += piece(list[i].bytes);
    }
    p = kva_cuda_scratch(cu, bytes);
    if (p == NULL)
        return;
    if (!room_to_pack(cu, bytes)) {
        struct kva_error err = {0};

        (void)KVA_FAIL(&err, KVA_ENOMEM, "%zu bytes of lists for the device", bytes);
        kva_cuda_fail(cu, &err);
        return;
    }
    for (size_t i = 0, at = 0; i < (size_t)n; i++) {
        if (list[i].host == NULL)
            continue;
        memcpy(cu->packed + at, list[i].host, list[i].bytes);
        memset(cu->packed + at + list[i].bytes, 0, piece(list[i].bytes) - list[i].bytes);
        list[i].device = p + at;
        at += piece(list[i].bytes);
    }
    kva_rt_upload(cu->rt, p, cu->packed, bytes);
}

const float *kva_cuda_in(struct kva_cuda *cu, const float *x, size_t n)
{
    if (x == NULL || kva_cuda_owns(cu, x))
        return x;
    return kva_cuda_list(cu, x, n * sizeof *x);
}

void *kva_cuda_result(struct kva_cuda *cu, void *host, size_t bytes)
{
    void *p = host ? kva_cuda_scratch(cu, bytes) : NULL;

    if (p == NULL)
        return NULL;
    if (cu->n_out == (int)(sizeof cu->out / sizeof *cu->out)) {
        no_memory(cu, bytes);
        return NULL;
    }
    cu->out[cu->n_out++] = (struct kva_cuda_out){host, p, bytes};
    return p;
}

float *kva_cuda_out(struct kva_cuda *cu, float *y, size_t n)
{
    return kva_cuda_owns(cu, y) ? y : kva_cuda_result(cu, y, n * sizeof *y);
}

float *kva_cuda_inout(struct kva_cuda *cu, float *y, size_t n)
{
    float *p = kva_cuda_out(cu, y, n);

    if (p != NULL && p != y)
        kva_rt_upload(cu->rt, p, y, n * sizeof *y);
    return p;
}

void kva_cuda_done(struct kva_cuda *cu)
{
    size_t bytes = blocks_bytes(cu);

    for (int i = 0; i < cu->n_out; i++)
        kva_rt_download(cu->rt, cu->out[i].host, cu->out[i].device, cu->out[i].bytes);
    cu->n_out = 0;
    if (cu->n_blocks > 1) {
        blocks_free(cu);
        (void)block_new(cu, bytes); /* else the next call tries again */
    }
    if (cu->n_blocks > 0 && !kva_rt_gathering(cu->rt)) /* held work still uses it */
        ASAN_POISON_MEMORY_REGION(cu->block[0].base, cu->block[0].bytes);
    cu->used = 0;
}

/* ---- memory functions of the table ---- */

static void cuda_copy(struct kva_ops *ops, void *to, const void *from, size_t bytes)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    bool ours = kva_cuda_owns(cu, to);

    if (bytes == 0 || cu->failed)
        return;
    if (kva_cuda_owns(cu, from))
        (ours ? kva_rt_move : kva_rt_download)(cu->rt, to, from, bytes);
    else if (ours)
        kva_rt_upload(cu->rt, to, from, bytes);
    else
        memcpy(to, from, bytes);
}

/* Rows that a list of row numbers reaches. */
static size_t rows_reached(const int32_t *row, int m)
{
    int32_t most = -1;

    for (int j = 0; j < m; j++)
        most = row[j] > most ? row[j] : most;
    return (size_t)(most + 1);
}

static void cuda_rows_get(struct kva_ops *ops, const float *x, size_t width,
                          const int32_t *row, int m, float *y)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    const float *from = kva_cuda_in(cu, x, rows_reached(row, m) * width);
    const int32_t *list = kva_cuda_list(cu, row, (size_t)m * sizeof *row);
    float *to = kva_cuda_out(cu, y, (size_t)m * width);

    if (!cu->failed)
        kva_rows_gather(from, width, list, m, to, cu->stream);
    kva_cuda_done(cu);
}

static void cuda_rows_put(struct kva_ops *ops, const float *x, size_t width,
                          const int32_t *row, int m, float *y)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    const float *from = kva_cuda_in(cu, x, (size_t)m * width);
    const int32_t *list = kva_cuda_list(cu, row, (size_t)m * sizeof *row);
    float *to = kva_cuda_inout(cu, y, rows_reached(row, m) * width);

    if (!cu->failed)
        kva_rows_scatter(from, width, list, m, to, cu->stream);
    kva_cuda_done(cu);
}

static enum kva_status cuda_sync(struct kva_ops *ops, struct kva_error *err)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    struct kva_error late = {0};

    kva_cuda_moves_flush(cu);
    if (kva_rt_sync(cu->rt, &late) != KVA_OK)
        kva_cuda_fail(cu, &late);
    if (!cu->failed)
        return KVA_OK;
    return kva_error_set(err, cu->fault.code, cu->fault.file, cu->fault.line, "%s",
                         cu->fault.text);
}

/* A copy of ours for as long as the table lives; without memory for it the host's, which
 * is then copied at every use. */
static const float *cuda_constant(struct kva_ops *ops, const float *x, size_t n)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    float *p = x ? span_new(cu, n * sizeof *x, false) : NULL;

    if (p == NULL)
        return x;
    kva_rt_upload(cu->rt, p, x, n * sizeof *x);
    return p;
}

static uint64_t cuda_memory_used(struct kva_ops *ops, uint64_t *own)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    size_t unused, total;

    (void)kva_rt_sync(cu->rt, NULL);
    kva_rt_mem_info(cu->rt, &unused, &total);
    *own = cu->taken;
    return total - unused;
}

static uint64_t cuda_memory_most(struct kva_ops *ops, bool on)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    uint64_t most;

    watch(cu);
    most = cu->most_bytes;
    cu->watching = on;
    cu->most_bytes = 0;
    watch(cu);
    return most;
}

/* What is held goes out first, so a mark is never part of a graph. */
static void cuda_mark(struct kva_ops *ops, int mark)
{
    struct kva_cuda *cu = kva_cuda_of(ops);

    kva_cuda_moves_flush(cu);
    kva_rt_event_mark(cu->rt, cu->mark[mark]);
}

static int64_t cuda_between(struct kva_ops *ops, int from, int to)
{
    struct kva_cuda *cu = kva_cuda_of(ops);

    return kva_rt_event_between(cu->rt, cu->mark[from], cu->mark[to]);
}

static void cuda_gather(struct kva_ops *ops, bool on)
{
    kva_rt_gather(kva_cuda_of(ops)->rt, on);
}

void kva_cuda_memory_table(struct kva_ops *ops)
{
    const char *graphs = getenv("KVAUDIT_GRAPHS");

    if (graphs == NULL || strcmp(graphs, "0") != 0)
        ops->gather = cuda_gather;
    ops->pages = &kva_cuda_pages;
    ops->alloc = cuda_alloc;
    ops->release = cuda_release;
    ops->copy = cuda_copy;
    ops->rows_get = cuda_rows_get;
    ops->rows_put = cuda_rows_put;
    ops->sync = cuda_sync;
    ops->mark = cuda_mark;
    ops->between = cuda_between;
    ops->constant = cuda_constant;
    ops->memory_used = cuda_memory_used;
    ops->memory_most = cuda_memory_most;
}

/* ---- the backend ---- */

static void cuda_close(struct kva_ops *ops)
{
    struct kva_cuda *cu = kva_cuda_of(ops);

    (void)kva_rt_sync(cu->rt, NULL);
    kva_cuda_products_close(cu);
    kva_cuda_moves_free(cu);
    blocks_free(cu);
    for (size_t i = 0; i < cu->n_spans; i++)
        kva_cuda_give(cu, cu->span[i].base, cu->span[i].bytes);
    for (int i = 0; i < KVA_MARKS; i++)
        if (cu->mark[i] != NULL)
            kva_rt_event_free(cu->rt, cu->mark[i]);
    kva_rt_close(cu->rt);
    free(cu->span);
    free(cu->packed);
    free(cu);
}

static enum kva_status marks_new(struct kva_cuda *cu, struct kva_error *err)
{
    for (int i = 0; i < KVA_MARKS; i++) {
        cu->mark[i] = kva_rt_event_new(cu->rt);
        if (cu->mark[i] == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "events of the device");
    }
    return KVA_OK;
}

static void describe(struct kva_device *d, const struct kva_rt_info *info)
{
    snprintf(d->name, sizeof d->name, "%s", info->name);
    d->major = info->major;
    d->minor = info->minor;
    d->driver = info->driver;
    d->runtime = info->runtime;
    d->total_bytes = info->total_bytes;
}

enum kva_status kva_cuda_open(const char *numerics, struct kva_ops **ops,
                              struct kva_error *err)
{
    const bool bf16 = strcmp(numerics, "bf16") == 0;
    enum kva_status rc = KVA_OK;
    struct kva_cuda *cu;

    *ops = NULL;
    if (!bf16 && strcmp(numerics, "f32") != 0)
        return KVA_FAIL(err, KVA_EINVALID, "numerics %s: backend cuda has f32 and bf16",
                        numerics);
    cu = kva_calloc(1, sizeof *cu);
    if (cu == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "backend cuda");
    KVA_GO(kva_rt_open(&cu->rt, err));
    cu->ops.impl = cu;
    KVA_GO(marks_new(cu, err));
    describe(&cu->device, kva_rt_info(cu->rt));
    if (kva_rt_info(cu->rt)->shared_bytes < KVA_SHARED_MOST) {
        rc = KVA_FAIL(err, KVA_EUNSUPPORTED,
                      "device %s lends a block %zu bytes of shared memory, %d are needed",
                      kva_rt_info(cu->rt)->name, kva_rt_info(cu->rt)->shared_bytes,
                      KVA_SHARED_MOST);
        goto out;
    }
    cu->stream = kva_rt_stream(cu->rt);
    cu->ops.backend = "cuda";
    cu->ops.numerics = bf16 ? "bf16" : "f32";
    cu->ops.isa = cu->device.name;
    cu->ops.device = &cu->device;
    cu->ops.threads = 1;
    cu->ops.chunk = CONTEXT_ROWS;
    cu->ops.most_dim = KVA_ATTEND_DIM;
    cu->ops.close = cuda_close;
    kva_cuda_memory_table(&cu->ops);
    kva_cuda_products_table(&cu->ops);
    kva_cuda_rows_table(&cu->ops);
    kva_cuda_attend_table(&cu->ops);
    kva_cuda_scores_table(&cu->ops);
    kva_cuda_select_table(&cu->ops);
    *ops = &cu->ops;
    return KVA_OK;
out:
    if (cu->rt != NULL)
        cuda_close(&cu->ops);
    else
        free(cu);
    return rc;
}
