/* SPDX-License-Identifier: GPL-3.0-or-later */
/* yardstick.c - what this card does at best, measured: a copy and two matrix products.
 *
 * No kernel of the program is involved: the runtime's copy within the device and the
 * vendor's library on random numbers (zeros draw less power and run faster). Medians over
 * repetitions between events, buffers far larger than the last-level cache.
 *
 * Standard output has one JSON object a line:
 *   {"device": NAME, "capability", "processors", "memory", "free", "l2", "driver",
 *    "runtime"}
 *   {"yardstick": "copy", "rate", "bytes"}        bytes read and written a second
 *   {"yardstick": "bf16", "rate", "side"}         floating-point operations a second
 *   {"yardstick": "f32", "rate", "side"}          the same without tensor formats
 * Exit 0, 1 when something failed, 3 without a device. */
#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/rt.h"

enum { RUNS = 9 };

static struct kva_rt *rt;

static void stop(const char *what)
{
    struct kva_error err = {0};

    if (rt)
        (void)kva_rt_status(rt, &err);
    fprintf(stderr, "yardstick: %s: %s\n", what, err.text[0] ? err.text : "refused");
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void *memory(size_t bytes)
{
    void *p = kva_rt_alloc(rt, bytes, false);

    if (!p)
        stop("device memory");
    return p;
}

/* Median nanoseconds of RUNS calls behind two others. */
static double median_ns(void (*work)(void *ctx), void *ctx)
{
    struct kva_rt_event *a = kva_rt_event_new(rt), *b = kva_rt_event_new(rt);
    int64_t t[RUNS];

    if (!a || !b)
        stop("events");
    for (int i = -2; i < RUNS; i++) {
        int64_t ns;

        kva_rt_event_mark(rt, a);
        work(ctx);
        kva_rt_event_mark(rt, b);
        ns = kva_rt_event_between(rt, a, b);
        if (i >= 0)
            t[i] = ns;
    }
    kva_rt_event_free(rt, a);
    kva_rt_event_free(rt, b);
    if (kva_rt_sync(rt, NULL) != KVA_OK)
        stop("a measurement");
    qsort(t, RUNS, sizeof t[0], by_value);
    return (double)t[RUNS / 2];
}

/* ---- copy ---- */

struct copy {
    void *from, *to;
    size_t bytes;
};

static void run_copy(void *ctx)
{
    const struct copy *c = ctx;

    kva_rt_move(rt, c->to, c->from, c->bytes);
}

static void measure_copy(void)
{
    struct copy c = {.bytes = (size_t)2 << 30};
    double ns;

    c.from = memory(c.bytes);
    c.to = memory(c.bytes);
    kva_rt_fill(rt, c.from, 0x5a, c.bytes);
    ns = median_ns(run_copy, &c);
    printf("{\"yardstick\": \"copy\", \"rate\": %.4g, \"bytes\": %zu}\n",
           2e9 * (double)c.bytes / ns, c.bytes);
    (void)fflush(stdout);
    kva_rt_free(rt, c.from);
    kva_rt_free(rt, c.to);
}

/* ---- products: Y = X W^T, square, row-major as in the program ---- */

struct product {
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t shape;
    cublasLtMatmulAlgo_t algo;
    void *w, *x, *y, *workspace;
    size_t workspace_bytes;
};

static void lt(cublasStatus_t s)
{
    if (s != CUBLAS_STATUS_SUCCESS) {
        fprintf(stderr, "yardstick: cublasLt: %s\n", cublasLtGetStatusString(s));
        exit(1);
    }
}

static void run_product(void *ctx)
{
    const struct product *p = ctx;
    const float one = 1.0f, zero = 0.0f;

    lt(cublasLtMatmul(p->lt, p->op, &one, p->w, p->shape, p->x, p->shape, &zero, p->y,
                      p->shape, p->y, p->shape, &p->algo, p->workspace,
                      p->workspace_bytes, kva_rt_stream(rt)));
}

/* Random numbers in [-1, 1), of one block repeated. */
static void fill(void *to, size_t n, bool f32)
{
    enum { BLOCK = 1 << 20 };
    size_t e = f32 ? 4 : 2;
    float *x = kva_calloc(BLOCK, sizeof *x);
    uint16_t *h = kva_calloc(BLOCK, sizeof *h);
    struct kva_rng r = {11};

    if (!x || !h)
        stop("memory");
    for (size_t i = 0; i < BLOCK; i++) {
        union {
            float f;
            uint32_t u;
        } v = {.f = (float)(2 * kva_rng_unit(&r) - 1)};

        x[i] = v.f;
        h[i] = (uint16_t)(v.u >> 16);
    }
    for (size_t i = 0; i < n; i += BLOCK)
        kva_rt_upload(rt, (char *)to + i * e, f32 ? (void *)x : (void *)h,
                      (n - i < BLOCK ? n - i : BLOCK) * e);
    free(x);
    free(h);
}

static void measure_product(const char *name, bool f32, int side)
{
    const cudaDataType_t type = f32 ? CUDA_R_32F : CUDA_R_16BF;
    const cublasOperation_t turn = CUBLAS_OP_T;
    const size_t n = (size_t)side * (size_t)side, e = f32 ? 4 : 2;
    struct product p = {.workspace_bytes = (size_t)32 << 20};
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    double ns;

    lt(cublasLtCreate(&p.lt));
    lt(cublasLtMatmulDescCreate(&p.op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    lt(cublasLtMatmulDescSetAttribute(p.op, CUBLASLT_MATMUL_DESC_TRANSA, &turn,
                                      sizeof turn));
    lt(cublasLtMatrixLayoutCreate(&p.shape, type, (uint64_t)side, (uint64_t)side, side));
    lt(cublasLtMatmulPreferenceCreate(&wish));
    lt(cublasLtMatmulPreferenceSetAttribute(
        wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &p.workspace_bytes,
        sizeof p.workspace_bytes));
    lt(cublasLtMatmulAlgoGetHeuristic(p.lt, p.op, p.shape, p.shape, p.shape, p.shape,
                                      wish, 1, &found, &count));
    if (count < 1)
        stop("no algorithm for the product");
    p.algo = found.algo;
    p.w = memory(n * e);
    p.x = memory(n * e);
    p.y = memory(n * e);
    p.workspace = memory(p.workspace_bytes);
    fill(p.w, n, f32);
    fill(p.x, n, f32);
    ns = median_ns(run_product, &p);
    printf("{\"yardstick\": \"%s\", \"rate\": %.4g, \"side\": %d}\n", name,
           2e9 * (double)n * side / ns, side);
    (void)fflush(stdout);
    kva_rt_free(rt, p.w);
    kva_rt_free(rt, p.x);
    kva_rt_free(rt, p.y);
    kva_rt_free(rt, p.workspace);
    cublasLtMatmulPreferenceDestroy(wish);
    cublasLtMatrixLayoutDestroy(p.shape);
    cublasLtMatmulDescDestroy(p.op);
    cublasLtDestroy(p.lt);
}

int main(void)
{
    const struct kva_rt_info *info;
    struct kva_error err = {0};
    size_t free_bytes = 0, total = 0;

    if (kva_rt_open(&rt, &err) != KVA_OK) {
        fprintf(stderr, "yardstick: %s\n", err.text);
        return err.code == KVA_EUNSUPPORTED ? 3 : 1;
    }
    info = kva_rt_info(rt);
    kva_rt_mem_info(rt, &free_bytes, &total);
    printf("{\"device\": \"%s\", \"capability\": \"%d.%d\", \"processors\": %d, "
           "\"memory\": %zu, \"free\": %zu, \"l2\": %zu, \"driver\": %d, "
           "\"runtime\": %d}\n",
           info->name, info->major, info->minor, info->processors, total, free_bytes,
           info->l2_bytes, info->driver, info->runtime);
    (void)fflush(stdout);
    measure_copy();
    measure_product("bf16", false, 8192);
    measure_product("f32", true, 8192);
    kva_rt_close(rt);
    return 0;
}
