/* SPDX-License-Identifier: GPL-3.0-or-later */
/* inside.h - what runtime.cpp and graph.cpp share, in the words of CUDA. */
#ifndef KVA_CUDART_INSIDE_H
#define KVA_CUDART_INSIDE_H

#include "tests/cudart/device.h"

#include <cuda_runtime_api.h>

/* A launch with its arguments, for nobody else to change. */
struct held_kernel {
    const kva_cudart_kernel *of;
    unsigned grid[3], block[3];
    size_t shared;
    std::vector<std::vector<uint64_t>> arg;
};
cudaError_t hold_kernel(const void *kernel, dim3 grid, dim3 block, size_t shared,
                        void **arg, held_kernel *k);
void run_kernel(const held_kernel &k);

/* Keeps the error for cudaGetLastError. */
cudaError_t said(cudaError_t rc);
cudaError_t entered(const char *call, bool takes_memory = false);
#define CALL(takes_memory)                                                               \
    do {                                                                                 \
        cudaError_t e_ = entered(__func__, takes_memory);                                \
        if (e_ != cudaSuccess)                                                           \
            return e_;                                                                   \
    } while (0)
dev::stream *stream_of(const char *call, cudaStream_t s);
bool copy_allowed(const void *to, const void *from, size_t bytes,
                  enum cudaMemcpyKind kind);

#endif
