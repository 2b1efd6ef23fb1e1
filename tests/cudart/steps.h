/* SPDX-License-Identifier: GPL-3.0-or-later */
/* steps.h - two kernels and an RAII runtime for the tests of rt_cuda.c. */
#ifndef KVA_CUDART_STEPS_H
#define KVA_CUDART_STEPS_H

#include "kernels/cuda/queue.h"
#include "kernels/cuda/rt.h"
#include "kernels/cuda/shim.cuh"
#include "tests/cudart/cudart.h"
#include "tests/simt/parity.h"
#include "tests/simt/rt_host.h"

/* y[i] = a x[i] + b y[i], in wrapping integers */
KVA_KERNEL(64) axpy(int n, uint32_t a, const uint32_t *x, uint32_t b, uint32_t *y)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

    if (i < n)
        y[i] = a * x[i] + b * y[i];
}

/* y[i] += x[list[i]] */
struct picked {
    const uint32_t *x;
    const int32_t *list;
    int n;
};
KVA_KERNEL(64) pick(picked p, uint32_t *y)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

    if (i < p.n)
        y[i] += p.x[p.list[i]];
}

inline void run_axpy(kva_rt *rt, int n, uint32_t a, const uint32_t *x, uint32_t b,
                     uint32_t *y)
{
    KVA_LAUNCH(axpy, dim3((unsigned)(n + 63) / 64), dim3(64), 0, kva_rt_stream(rt), n, a,
               x, b, y);
}

inline void run_pick(kva_rt *rt, const uint32_t *x, const int32_t *list, int n,
                     uint32_t *y)
{
    KVA_LAUNCH(pick, dim3((unsigned)(n + 63) / 64), dim3(64), 0, kva_rt_stream(rt),
               picked{x, list, n}, y);
}

struct runtime {
    kva_rt *rt = nullptr;

    runtime()
    {
        CHECK_OK(kva_rt_open(&rt, err));
    }
    ~runtime()
    {
        kva_rt_close(rt);
    }
    runtime(const runtime &) = delete;
    runtime &operator=(const runtime &) = delete;
    operator kva_rt *() const
    {
        return rt;
    }
};

#endif
