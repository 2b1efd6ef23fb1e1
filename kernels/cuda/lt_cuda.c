/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lt_cuda.c - large products by cuBLASLt (kernels.md 3.2).
 *
 * Row-major Y[n][m] = X[n][k] W[m][k]^T is the library's column-major Y = op(W) X with W
 * transposed: A = W (k x m, lda), B = X (k x n), C = Y (m x n). An algorithm is taken
 * from the library's own list for 512 rows: the first that works for one row too, needs
 * no more than our workspace and does not split k, so that an output is summed in one
 * piece and the same way for every n. */
#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/lt.h"

#define WORKSPACE   ((size_t)32 << 20)
#define SLAB        ((size_t)64 << 20)
#define CHOICE_ROWS 512
#define ASKED       16

struct choice {
    int m, k, w_stride, x_stride, y_stride;
    bool bf16;
    unsigned w_align, x_align, y_align;
    cublasLtMatmulAlgo_t algo;
};

struct kva_lt {
    cublasLtHandle_t handle;
    struct choice *choice;
    size_t n, cap;
    struct kva_buf text;
};

static enum kva_status checked(cublasStatus_t s, const char *what, struct kva_error *err)
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return KVA_OK;
    return KVA_FAIL(err, KVA_EUNSUPPORTED, "cuBLASLt, %s: %s", what,
                    cublasLtGetStatusString(s));
}

enum kva_status kva_lt_open(struct kva_lt **lt, struct kva_error *err)
{
    struct kva_lt *l = kva_calloc(1, sizeof *l);
    enum kva_status rc;

    *lt = NULL;
    if (!l)
        return KVA_FAIL(err, KVA_ENOMEM, "products of the device");
    kva_buf_init(&l->text, (size_t)1 << 20);
    rc = checked(cublasLtCreate(&l->handle), "start", err);
    if (rc != KVA_OK) {
        kva_buf_release(&l->text);
        free(l);
        return rc;
    }
    *lt = l;
    return KVA_OK;
}

void kva_lt_close(struct kva_lt *lt)
{
    if (!lt)
        return;
    cublasLtDestroy(lt->handle);
    kva_buf_release(&lt->text);
    free(lt->choice);
    free(lt);
}

size_t kva_lt_workspace(const struct kva_lt *lt)
{
    (void)lt;
    return WORKSPACE;
}

size_t kva_lt_slab(const struct kva_lt *lt)
{
    (void)lt;
    return SLAB;
}

const char *kva_lt_choices(const struct kva_lt *lt)
{
    return lt->text.data ? lt->text.data : "";
}

/* What the library calls one product. */
struct call {
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t w, x, y;
};

static void call_release(struct call *c)
{
    if (c->op)
        cublasLtMatmulDescDestroy(c->op);
    if (c->w)
        cublasLtMatrixLayoutDestroy(c->w);
    if (c->x)
        cublasLtMatrixLayoutDestroy(c->x);
    if (c->y)
        cublasLtMatrixLayoutDestroy(c->y);
}

static enum kva_status call_make(const struct kva_lt_product *p, int rows, struct call *c,
                                 struct kva_error *err)
{
    const cublasOperation_t transposed = CUBLAS_OP_T;
    cudaDataType_t type = p->bf16 ? CUDA_R_16BF : CUDA_R_32F;
    uint64_t m = (uint64_t)p->m, n = (uint64_t)rows, k = (uint64_t)p->k;

    KVA_TRY(checked(cublasLtMatmulDescCreate(&c->op, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                    "operation", err));
    KVA_TRY(checked(cublasLtMatmulDescSetAttribute(c->op, CUBLASLT_MATMUL_DESC_TRANSA,
                                                   &transposed, sizeof transposed),
                    "transposition", err));
    KVA_TRY(checked(cublasLtMatrixLayoutCreate(&c->w, type, k, m, p->w_stride), "layout",
                    err));
    KVA_TRY(checked(cublasLtMatrixLayoutCreate(&c->x, type, k, n, p->x_stride), "layout",
                    err));
    return checked(cublasLtMatrixLayoutCreate(&c->y, CUDA_R_32F, m, n, p->y_stride),
                   "layout", err);
}

/* Largest power of two, up to 16, that divides an address. */
static unsigned alignment(const void *p)
{
    uintptr_t a = (uintptr_t)p | 16;

    return (unsigned)(a & -a);
}

static enum kva_status prefer(const struct choice *c, cublasLtMatmulPreference_t pref,
                              struct kva_error *err)
{
    const size_t workspace = WORKSPACE;
    const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE,
                   align[4] = {c->w_align, c->x_align, c->y_align, c->y_align};
    static const cublasLtMatmulPreferenceAttributes_t which[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
    };

    KVA_TRY(checked(
        cublasLtMatmulPreferenceSetAttribute(
            pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace),
        "workspace", err));
    KVA_TRY(checked(cublasLtMatmulPreferenceSetAttribute(
                        pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction,
                        sizeof reduction),
                    "reduction", err));
    for (int i = 0; i < 4; i++)
        KVA_TRY(checked(cublasLtMatmulPreferenceSetAttribute(pref, which[i], &align[i],
                                                             sizeof align[i]),
                        "alignment", err));
    return KVA_OK;
}

static int setting(const cublasLtMatmulAlgo_t *algo,
                   cublasLtMatmulAlgoConfigAttributes_t which)
{
    int32_t v = -1;
    size_t written;

    if (cublasLtMatmulAlgoConfigGetAttribute(algo, which, &v, sizeof v, &written) !=
        CUBLAS_STATUS_SUCCESS)
        return -1;
    return v;
}

/* Unless the library says 0 or 1, an output may be summed in several pieces. */
static bool splits(const cublasLtMatmulAlgo_t *algo)
{
    int n = setting(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);

    return n != 0 && n != 1;
}

static bool fits_one_row(struct kva_lt *lt, const struct call *one,
                         const cublasLtMatmulAlgo_t *algo)
{
    cublasLtMatmulHeuristicResult_t r;

    return cublasLtMatmulAlgoCheck(lt->handle, one->op, one->w, one->x, one->y, one->y,
                                   algo, &r) == CUBLAS_STATUS_SUCCESS &&
           r.workspaceSize <= WORKSPACE;
}

static enum kva_status choose(struct kva_lt *lt, const struct kva_lt_product *p,
                              struct choice *c, struct kva_error *err)
{
    cublasLtMatmulHeuristicResult_t found[ASKED];
    cublasLtMatmulPreference_t pref = NULL;
    struct call many = {0}, one = {0};
    enum kva_status rc = KVA_OK;
    char what[80];
    int n = 0, at = 0;

    KVA_GO(call_make(p, CHOICE_ROWS, &many, err));
    KVA_GO(call_make(p, 1, &one, err));
    KVA_GO(checked(cublasLtMatmulPreferenceCreate(&pref), "preference", err));
    KVA_GO(prefer(c, pref, err));
    snprintf(what, sizeof what, "choice of an algorithm for m %d k %d of %s", p->m, p->k,
             p->bf16 ? "bf16" : "f32");
    KVA_GO(checked(cublasLtMatmulAlgoGetHeuristic(lt->handle, many.op, many.w, many.x,
                                                  many.y, many.y, pref, ASKED, found, &n),
                   what, err));
    while (at < n &&
           (found[at].state != CUBLAS_STATUS_SUCCESS || splits(&found[at].algo) ||
            !fits_one_row(lt, &one, &found[at].algo)))
        at++;
    if (at == n) {
        rc = KVA_FAIL(err, KVA_EUNSUPPORTED,
                      "cuBLASLt has no algorithm for m %d k %d of %s that sums in one "
                      "piece (%d tried)",
                      p->m, p->k, p->bf16 ? "bf16" : "f32", n);
        goto out;
    }
    c->algo = found[at].algo;
    kva_buf_printf(&lt->text, "m %d k %d %s: algorithm %d tile %d stages %d swizzle %d\n",
                   p->m, p->k, p->bf16 ? "bf16" : "f32",
                   setting(&c->algo, CUBLASLT_ALGO_CONFIG_ID),
                   setting(&c->algo, CUBLASLT_ALGO_CONFIG_TILE_ID),
                   setting(&c->algo, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                   setting(&c->algo, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING));
out:
    if (pref)
        cublasLtMatmulPreferenceDestroy(pref);
    call_release(&one);
    call_release(&many);
    return rc;
}

static bool same(const struct choice *a, const struct choice *b)
{
    return a->m == b->m && a->k == b->k && a->w_stride == b->w_stride &&
           a->x_stride == b->x_stride && a->y_stride == b->y_stride &&
           a->bf16 == b->bf16 && a->w_align == b->w_align && a->x_align == b->x_align &&
           a->y_align == b->y_align;
}

static enum kva_status choice_of(struct kva_lt *lt, const struct kva_lt_product *p,
                                 const struct choice **choice, struct kva_error *err)
{
    struct choice c = {.m = p->m,
                       .k = p->k,
                       .w_stride = p->w_stride,
                       .x_stride = p->x_stride,
                       .y_stride = p->y_stride,
                       .bf16 = p->bf16,
                       .w_align = alignment(p->w),
                       .x_align = alignment(p->x),
                       .y_align = alignment(p->y)};

    for (size_t i = 0; i < lt->n; i++)
        if (same(&lt->choice[i], &c)) {
            *choice = &lt->choice[i];
            return KVA_OK;
        }
    KVA_TRY(choose(lt, p, &c, err));
    if (lt->n == lt->cap) {
        size_t cap = lt->cap ? 2 * lt->cap : 32;
        struct choice *more = realloc(lt->choice, cap * sizeof *more);

        if (!more)
            return KVA_FAIL(err, KVA_ENOMEM, "choices of algorithms");
        lt->choice = more;
        lt->cap = cap;
    }
    lt->choice[lt->n] = c;
    *choice = &lt->choice[lt->n++];
    return KVA_OK;
}

enum kva_status kva_lt_product(struct kva_lt *lt, const struct kva_lt_product *p,
                               void *stream, struct kva_error *err)
{
    static const float one = 1.0f, zero = 0.0f;
    const struct choice *choice = NULL;
    struct call c = {0};
    enum kva_status rc = KVA_OK;

    KVA_TRY(choice_of(lt, p, &choice, err));
    KVA_GO(call_make(p, p->n, &c, err));
    rc = checked(cublasLtMatmul(lt->handle, c.op, &one, p->w, c.w, p->x, c.x, &zero, p->y,
                                c.y, p->y, c.y, &choice->algo, p->workspace, WORKSPACE,
                                (cudaStream_t)stream),
                 "product", err);
out:
    call_release(&c);
    return rc;
}
