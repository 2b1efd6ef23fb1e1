/* SPDX-License-Identifier: GPL-3.0-or-later */
/* alloc_uniform.c - the same number of entries in every KV head.
 *
 *     b_c = total / C, the remainder one each to the lower KV heads
 *
 * A KV head that holds fewer keeps all of them and its overflow is handed on. */
#include "methods/method.h"

#include <string.h>

static enum kva_status allocate(const struct kva_alloc_in *in,
                                const struct kva_params *params, int *b,
                                struct kva_error *err)
{
    size_t c = (size_t)in->scores->layers * (size_t)in->scores->kv_heads;

    (void)params;
    (void)err;
    memcpy(b, in->base, c * sizeof *b);
    return KVA_OK;
}

const struct kva_allocator kva_alloc_uniform = {
    .name = "uniform",
    .summary = "the same number of entries in every KV head",
    .source = "common to published methods without an allocator",
    .storage = "uniform",
    .deviates = "kvpress rounds each budget in binary floating point and can "
                "lose an entry (int(1000 * (1 - 0.8)) is 199); here budgets "
                "are integers.",
    .version = 1,
    .even = true,
    .allocate = allocate,
};
