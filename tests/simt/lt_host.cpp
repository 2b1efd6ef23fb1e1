/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lt_host.cpp - stands in for cuBLASLt: plain loops, one accumulator, inputs ascending.
 * Its slab is small, so that tests unpack weights in several. */
#include "kernels/cuda/lt.h"
#include "tests/simt/simt.h"

#include <math.h>
#include <new>
#include <string.h>

struct kva_lt {
    size_t products;
};

static float bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

static bool zero(const uint8_t *p, size_t bytes)
{
    return p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0;
}

enum kva_status kva_lt_open(struct kva_lt **lt, struct kva_error *err)
{
    *lt = new (std::nothrow) kva_lt();
    return *lt ? KVA_OK : KVA_FAIL(err, KVA_ENOMEM, "products of the host");
}

void kva_lt_close(struct kva_lt *lt)
{
    delete lt;
}

size_t kva_lt_workspace(const struct kva_lt *)
{
    return 0;
}

size_t kva_lt_slab(const struct kva_lt *)
{
    return (size_t)64 << 10;
}

const char *kva_lt_choices(const struct kva_lt *)
{
    return "plain loops\n";
}

enum kva_status kva_lt_product(struct kva_lt *lt, const struct kva_lt_product *p, void *,
                               struct kva_error *err)
{
    KVA_TRY(kva_lt_check(p, err));
    lt->products++;
    kva_simt_around(true); /* the library is the device's */
    for (int j = 0; j < p->n; j++) {
        size_t each = p->bf16 ? sizeof(uint16_t) : sizeof(float);

        if (zero((const uint8_t *)p->x + (size_t)j * (size_t)p->x_stride * each,
                 (size_t)p->k * each)) { /* what fills a bucket up */
            memset(p->y + (size_t)j * (size_t)p->y_stride, 0,
                   (size_t)p->m * sizeof *p->y);
            continue;
        }
        for (int i = 0; i < p->m; i++) {
            size_t w = (size_t)i * (size_t)p->w_stride,
                   x = (size_t)j * (size_t)p->x_stride;
            float sum = 0;

            for (int l = 0; l < p->k; l++, w++, x++)
                sum = p->bf16
                          ? fmaf(bf16(((const uint16_t *)p->x)[x]),
                                 bf16(((const uint16_t *)p->w)[w]), sum)
                          : fmaf(((const float *)p->x)[x], ((const float *)p->w)[w], sum);
            p->y[(size_t)j * (size_t)p->y_stride + (size_t)i] = sum;
        }
    }
    kva_simt_around(false);
    return KVA_OK;
}
