/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lt_cuda.c - large products by cuBLASLt (kernels.md 3.2).
 *
 * Row-major Y[n][m] = X[n][k] W[m][k]^T is the library's column-major Y = op(W) X with W
 * transposed: A = W (k x m, lda), B = X (k x n), C = Y (m x n). An algorithm is taken
 * from the library's own lists for 512 rows, for the most rows and for one bucket: the
 * first that takes one bucket as well as the most rows, needs no more than our workspace
 * and does not split k, so that an output is summed in one piece and the same way for
 * every n. */
#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/lt.h"

#define WORKSPACE ((size_t)32 << 20)
#define SLAB      ((size_t)64 << 20)
#define ASKED     32

struct choice {
    int m, k, w_stride, x_stride, y_stride;
    bool bf16;
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

static enum kva_status prefer(cublasLtMatmulPreference_t pref, struct kva_error *err)
{
    const size_t workspace = WORKSPACE;
    const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE, align = KVA_LT_ALIGN;
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
        KVA_TRY(checked(
            cublasLtMatmulPreferenceSetAttribute(pref, which[i], &align, sizeof align),
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

static bool takes(struct kva_lt *lt, const struct call *rows,
                  const cublasLtMatmulAlgo_t *algo)
{
    cublasLtMatmulHeuristicResult_t r;

    return cublasLtMatmulAlgoCheck(lt->handle, rows->op, rows->w, rows->x, rows->y,
                                   rows->y, algo, &r) == CUBLAS_STATUS_SUCCESS &&
           r.workspaceSize <= WORKSPACE;
}

/* A choice in the making. */
struct search {
    struct call few, most; /* one bucket of rows, and as many as a call may have */
    cublasLtMatmulPreference_t pref;
    int offered;
    char text[320]; /* what was offered and is not fit */
    size_t used;
};

/* Writes down why an algorithm is not fit; the first few of them. */
static void refuse(struct search *s, const cublasLtMatmulHeuristicResult_t *r, bool few,
                   bool most)
{
    int pieces = setting(&r->algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM), n;
    size_t room = sizeof s->text - s->used;
    char rows[16] = "";

    if (few != most)
        snprintf(rows, sizeof rows, " %d rows", few ? KVA_LT_MOST : KVA_LT_ROWS);
    n = snprintf(s->text + s->used, room, "%s%d of tile %d: ", s->used ? ", " : "",
                 setting(&r->algo, CUBLASLT_ALGO_CONFIG_ID),
                 setting(&r->algo, CUBLASLT_ALGO_CONFIG_TILE_ID));
    if (n < 0 || (size_t)n >= room) {
        s->text[s->used] = '\0';
        s->used = sizeof s->text - 1;
        return;
    }
    s->used += (size_t)n;
    room -= (size_t)n;
    if (r->state != CUBLAS_STATUS_SUCCESS)
        n = snprintf(s->text + s->used, room, "state %d", (int)r->state);
    else if (splits(&r->algo))
        n = snprintf(s->text + s->used, room, "%d pieces", pieces);
    else
        n = snprintf(s->text + s->used, room, "not for%s", rows[0] ? rows : " these");
    s->used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

/* The first fit one of the library's list for `rows`; found false: none there. */
static enum kva_status look(struct kva_lt *lt, const struct kva_lt_product *p, int rows,
                            struct search *s, struct choice *c, bool *found,
                            struct kva_error *err)
{
    cublasLtMatmulHeuristicResult_t list[ASKED];
    struct call call = {0};
    enum kva_status rc = KVA_OK;
    cublasStatus_t status;
    char what[80];
    int n = 0;

    KVA_GO(call_make(p, rows, &call, err));
    status = cublasLtMatmulAlgoGetHeuristic(lt->handle, call.op, call.w, call.x, call.y,
                                            call.y, s->pref, ASKED, list, &n);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED)
        goto out; /* nothing to offer for so many rows */
    snprintf(what, sizeof what, "choice of an algorithm for m %d k %d of %s", p->m, p->k,
             p->bf16 ? "bf16" : "f32");
    KVA_GO(checked(status, what, err));
    for (int i = 0; i < n && !*found; i++) {
        bool few = takes(lt, &s->few, &list[i].algo),
             most = takes(lt, &s->most, &list[i].algo);

        s->offered++;
        *found = list[i].state == CUBLAS_STATUS_SUCCESS && !splits(&list[i].algo) &&
                 few && most;
        if (*found)
            c->algo = list[i].algo;
        else
            refuse(s, &list[i], few, most);
    }
out:
    call_release(&call);
    return rc;
}

static enum kva_status choose(struct kva_lt *lt, const struct kva_lt_product *p,
                              struct choice *c, struct kva_error *err)
{
    static const int rows[] = {512, KVA_LT_MOST, KVA_LT_ROWS};
    const char *type = p->bf16 ? "bf16" : "f32";
    struct search s = {0};
    enum kva_status rc = KVA_OK;
    bool found = false;

    KVA_GO(call_make(p, KVA_LT_ROWS, &s.few, err));
    KVA_GO(call_make(p, KVA_LT_MOST, &s.most, err));
    KVA_GO(checked(cublasLtMatmulPreferenceCreate(&s.pref), "preference", err));
    KVA_GO(prefer(s.pref, err));
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !found; i++)
        KVA_GO(look(lt, p, rows[i], &s, c, &found, err));
    if (!found) {
        rc = KVA_FAIL(err, KVA_EUNSUPPORTED,
                      "cuBLASLt has no algorithm for m %d k %d of %s that sums in one "
                      "piece, %d to %d rows (%d offered%s%s)",
                      p->m, p->k, type, KVA_LT_ROWS, KVA_LT_MOST, s.offered,
                      s.offered ? ": " : "", s.text);
        goto out;
    }
    kva_buf_printf(&lt->text, "m %d k %d %s: algorithm %d tile %d stages %d swizzle %d\n",
                   p->m, p->k, type, setting(&c->algo, CUBLASLT_ALGO_CONFIG_ID),
                   setting(&c->algo, CUBLASLT_ALGO_CONFIG_TILE_ID),
                   setting(&c->algo, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                   setting(&c->algo, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING));
out:
    if (s.pref)
        cublasLtMatmulPreferenceDestroy(s.pref);
    call_release(&s.most);
    call_release(&s.few);
    return rc;
}

static bool same(const struct choice *a, const struct choice *b)
{
    return a->m == b->m && a->k == b->k && a->w_stride == b->w_stride &&
           a->x_stride == b->x_stride && a->y_stride == b->y_stride && a->bf16 == b->bf16;
}

static enum kva_status choice_of(struct kva_lt *lt, const struct kva_lt_product *p,
                                 const struct choice **choice, struct kva_error *err)
{
    struct choice c = {.m = p->m,
                       .k = p->k,
                       .w_stride = p->w_stride,
                       .x_stride = p->x_stride,
                       .y_stride = p->y_stride,
                       .bf16 = p->bf16};

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

    KVA_TRY(kva_lt_check(p, err));
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
