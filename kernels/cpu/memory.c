/* SPDX-License-Identifier: GPL-3.0-or-later */
/* memory.c - the functions of the table for memory and time where all memory is the
 * host's and nothing is late. */
#include "kernels/cpu/cpu.h"
#include "kernels/pages.h"

#include <stdlib.h>
#include <string.h>

static void *cpu_alloc(struct kva_ops *ops, size_t bytes, enum kva_mem where)
{
    (void)ops;
    (void)where;
    return kva_aligned(bytes);
}

static void cpu_release(struct kva_ops *ops, void *p, enum kva_mem where)
{
    (void)ops;
    (void)where;
    free(p);
}

static void cpu_copy(struct kva_ops *ops, void *to, const void *from, size_t bytes)
{
    (void)ops;
    if (bytes > 0)
        memcpy(to, from, bytes);
}

static void cpu_rows_get(struct kva_ops *ops, const float *x, size_t width,
                         const int32_t *row, int m, float *y)
{
    (void)ops;
    for (int j = 0; j < m; j++)
        memcpy(y + (size_t)j * width, x + (size_t)row[j] * width, width * sizeof *y);
}

static void cpu_rows_put(struct kva_ops *ops, const float *x, size_t width,
                         const int32_t *row, int m, float *y)
{
    (void)ops;
    for (int j = 0; j < m; j++)
        memcpy(y + (size_t)row[j] * width, x + (size_t)j * width, width * sizeof *y);
}

static enum kva_status cpu_sync(struct kva_ops *ops, struct kva_error *err)
{
    (void)ops;
    (void)err;
    return KVA_OK;
}

static void cpu_mark(struct kva_ops *ops, int mark)
{
    struct kva_cpu *cpu = ops->impl;

    cpu->mark_ns[mark] = kva_now_ns();
}

static int64_t cpu_between(struct kva_ops *ops, int from, int to)
{
    const struct kva_cpu *cpu = ops->impl;

    return (int64_t)(cpu->mark_ns[to] - cpu->mark_ns[from]);
}

static const float *cpu_constant(struct kva_ops *ops, const float *x, size_t n)
{
    (void)ops;
    (void)n;
    return x;
}

void kva_cpu_memory_table(struct kva_ops *ops)
{
    ops->host = true;
    ops->pages = &kva_cpu_pages;
    ops->alloc = cpu_alloc;
    ops->release = cpu_release;
    ops->copy = cpu_copy;
    ops->rows_get = cpu_rows_get;
    ops->rows_put = cpu_rows_put;
    ops->sync = cpu_sync;
    ops->mark = cpu_mark;
    ops->between = cpu_between;
    ops->constant = cpu_constant;
}
