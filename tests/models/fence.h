/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fence.h - the CPU's table as that of a device: memory of `alloc` lies behind a fence
 * that is open only while a function of the table runs. Whoever follows a pointer into it
 * is noticed and goes on. */
#ifndef KVA_TESTS_FENCE_H
#define KVA_TESTS_FENCE_H

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kernels/pages.h"

#define FENCE_BYTES ((size_t)32 << 20)

static struct {
    struct kva_ops real;
    struct kva_page_ops pages;
    uint8_t *base;
    struct {
        uint8_t *p, *end;
    } array[32];
    int held, inside; /* arrays, calls */
    int fail_at;      /* which request from now on finds no memory; 0: none */
    volatile sig_atomic_t touched;
} fence;

static void fence_set(int rights)
{
    (void)mprotect(fence.base, FENCE_BYTES, rights);
}

static void fence_enter(void)
{
    if (fence.inside++ == 0)
        fence_set(PROT_READ | PROT_WRITE);
}

static void fence_leave(void)
{
    if (--fence.inside == 0)
        fence_set(PROT_NONE);
}

static bool fence_owns(const void *p)
{
    return (uintptr_t)p - (uintptr_t)fence.base < FENCE_BYTES;
}

/* Open until the next call of the table ends. */
static void fence_fault(int sig, siginfo_t *info, void *context)
{
    (void)context;
    if (!fence_owns(info->si_addr)) {
        (void)signal(sig, SIG_DFL);
        return;
    }
    fence.touched++;
    fence_set(PROT_READ | PROT_WRITE);
}

/* Behind the last array there is. */
static void *fence_alloc(struct kva_ops *ops, size_t bytes, enum kva_mem where)
{
    uint8_t *p = fence.base;

    if (ops->host)
        return fence.real.alloc(ops, bytes, where);
    for (int i = 0; i < fence.held; i++)
        p = fence.array[i].end > p ? fence.array[i].end : p;
    if (fence.fail_at > 0 && --fence.fail_at == 0)
        return NULL;
    if (bytes > FENCE_BYTES - (size_t)(p - fence.base) || fence.held == 32)
        return NULL;
    fence_enter();
    memset(p, 0xff, bytes); /* NaN */
    fence_leave();
    fence.array[fence.held].p = p;
    fence.array[fence.held++].end = p + (bytes + 63) / 64 * 64;
    return p;
}

static void fence_release(struct kva_ops *ops, void *p, enum kva_mem where)
{
    int i = 0;

    if (!fence_owns(p)) {
        fence.real.release(ops, p, where);
        return;
    }
    while (i < fence.held && fence.array[i].p != p)
        i++;
    if (i == fence.held)
        abort();
    fence.array[i] = fence.array[--fence.held];
}

#define FENCED(name, params, args)                                                       \
    static void fence_##name params                                                      \
    {                                                                                    \
        fence_enter();                                                                   \
        fence.real.name args;                                                            \
        fence_leave();                                                                   \
    }
typedef struct kva_ops *T;
typedef const struct kva_rows *R;
FENCED(copy, (T o, void *to, const void *x, size_t n), (o, to, x, n))
FENCED(rows_get, (T o, const float *x, size_t w, const int32_t *row, int m, float *y),
       (o, x, w, row, m, y))
FENCED(rows_put, (T o, const float *x, size_t w, const int32_t *row, int m, float *y),
       (o, x, w, row, m, y))
FENCED(matmul, (T o, const struct kva_weight *w, const float *x, int n, float *y, int s),
       (o, w, x, n, y, s))
FENCED(rope_table,
       (T o, const int32_t *pos, int n, const float *f, int half, float scale, float *cs),
       (o, pos, n, f, half, scale, cs))
FENCED(rope,
       (T o, float *x, int stride, int n, int heads, int dim, const float *cs, int half),
       (o, x, stride, n, heads, dim, cs, half))
FENCED(row_norm, (T o, R x, float *s), (o, x, s))
FENCED(row_abs, (T o, R x, float *s), (o, x, s))
FENCED(row_mean, (T o, R x, int unit, float *m), (o, x, unit, m))
FENCED(row_distance, (T o, R x, const float *c, float *s), (o, x, c, s))
FENCED(row_cosine, (T o, R x, const float *c, float *s), (o, x, c, s))
FENCED(row_moments,
       (T o, const float *x, int stride, int n, int heads, int dim, double *sum,
        double *square),
       (o, x, stride, n, heads, dim, sum, square))
FENCED(window_mean,
       (T o, const float *q, const int32_t *q_pos, int nq, int heads, R k,
        const int32_t *k_pos, float scale, float *m, const size_t *a_off),
       (o, q, q_pos, nq, heads, k, k_pos, scale, m, a_off))
FENCED(window_max,
       (T o, const float *q, const int32_t *q_pos, int nq, int heads, R k,
        const int32_t *k_pos, float scale, const float *by, float *m,
        const size_t *a_off),
       (o, q, q_pos, nq, heads, k, k_pos, scale, by, m, a_off))
FENCED(attend_rows, (T o, const struct kva_attend_rows *r), (o, r))
FENCED(pool_heads, (T o, const struct kva_pool_heads *p, float *s), (o, p, s))

static void fence_read(const struct kva_pages *p, const struct kva_page_read *r,
                       int heads, float *k, float *v)
{
    fence_enter();
    fence.pages.read(p, r, heads, k, v);
    fence_leave();
}

static void fence_write_keys(struct kva_pages *p, const int32_t *table,
                             const int32_t *slot, int n, const float *k,
                             const int32_t *pos)
{
    fence_enter();
    fence.pages.write_keys(p, table, slot, n, k, pos);
    fence_leave();
}

static bool fence_fits(const struct kva_pages *p, const struct kva_page_write *w)
{
    bool fits;

    fence_enter();
    fits = fence.pages.fits(p, w);
    fence_leave();
    return fits;
}

/* In each test, which have handlers of their own. */
static void fence_watch(void)
{
    struct sigaction on = {.sa_sigaction = fence_fault, .sa_flags = SA_SIGINFO};

    (void)sigaction(SIGSEGV, &on, NULL);
    fence.touched = 0;
}

/* Before any store. Nothing changes until ops->host is set to false. */
static void fence_build(struct kva_ops *ops)
{
    static struct kva_page_ops pages;

    fence.real = *ops;
    fence.pages = pages = *ops->pages;
    fence.base = mmap(NULL, FENCE_BYTES, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fence.base == MAP_FAILED)
        abort();
    pages.read = fence_read;
    pages.write_keys = fence_write_keys;
    pages.fits = fence_fits;
    ops->pages = &pages;
    ops->alloc = fence_alloc;
    ops->release = fence_release;
#define SET(name) ops->name = fence_##name
    SET(copy);
    SET(rows_get);
    SET(rows_put);
    SET(matmul);
    SET(rope_table);
    SET(rope);
    SET(row_norm);
    SET(row_abs);
    SET(row_mean);
    SET(row_distance);
    SET(row_cosine);
    SET(row_moments);
    SET(window_mean);
    SET(window_max);
    SET(attend_rows);
    SET(pool_heads);
#undef SET
}

#endif
