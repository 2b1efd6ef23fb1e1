/* SPDX-License-Identifier: GPL-3.0-or-later */
/* shim.cuh - the few names in which device code differs between nvcc and the host.
 *
 * Every .cu file of this directory is compiled twice: by nvcc for a device, and as C++ with
 * KVA_HOST_SIMT against tests/simt, which runs the same kernels thread by thread and checks
 * what a device would not tell. So kernels use no `<<<>>>`, no `__shared__`, no inline
 * assembly and no library beyond what stands here. Both sides offer:
 *
 *   KVA_KERNEL(threads)       a __global__ function of at most `threads` threads a block
 *   KVA_KERNEL_OF(threads, blocks) one of which `blocks` are to fit a multiprocessor: its
 *                             registers are chosen for that
 *   KVA_DEVICE                a function of the device
 *   KVA_LAUNCH(k, grid, block, shared_bytes, stream, args...)
 *   KVA_SHARED(type, name, n) array in shared memory, of a block;   n a constant
 *   KVA_DYN_SHARED(type, name) the launch's dynamic shared memory
 *   threadIdx blockIdx blockDim gridDim, __syncthreads, __syncwarp, __shfl_sync,
 *   __shfl_xor_sync, __shfl_down_sync, __shfl_up_sync, __ballot_sync, __any_sync, __all_sync,
 *   atomicAdd, atomicMax, atomicOr, atomicExch on int and unsigned (never on floats)
 *   kva_async16, kva_async_commit, kva_async_wait<n>: 16 bytes global -> shared, seen by the
 *                             thread that copied after the wait, by others after a barrier
 *   kva_mma_f16               D += A B, m16n8k16, f16 in, f32 out, a warp together
 *   kva_load_matrix, kva_load_matrix_turned: four 8 x 8 tiles of 16-bit numbers, shared memory
 *                             to fragments, a warp together; turned: transposed
 *   KVA_SHARED_LIMIT(k, bytes) before a launch with more than 48 KiB of dynamic memory
 *   kva_half_float, kva_float_half, kva_bits, kva_bits_float
 *   kva_mul, kva_add, kva_sub  rounded by themselves, never contracted into an fma
 *
 * Numbers of the caches are f16 bit patterns in uint16_t. */
#ifndef KVA_CUDA_SHIM_CUH
#define KVA_CUDA_SHIM_CUH

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define KVA_WARP 32
#define KVA_FULL 0xffffffffu

#include "kernels/cuda/mutant.h"

#ifdef KVA_HOST_SIMT
#include "tests/simt/simt.h"
#else

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/rt.h"

#define KVA_KERNEL_OF(threads, blocks)                                                   \
    static __global__ void __launch_bounds__(threads, blocks)
#define KVA_KERNEL(threads)       static __global__ void __launch_bounds__(threads)
#define KVA_DEVICE                static __device__ __forceinline__
/* A launch goes through the runtime, which may hold it back (queue.h): the kernel, then
 * its arguments, converted to the types of its parameters. */
template <typename... P> struct kva_launch {
    dim3 grid, block;
    size_t shared;
    void *stream;
    void (*kernel)(P...);

    kva_launch(dim3 g, dim3 b, size_t s, void *st, void (*k)(P...))
        : grid(g), block(b), shared(s), stream(st), kernel(k)
    {
    }
    void operator()(P... p) const
    {
        const void *arg[] = {&p...};
        const size_t size[] = {sizeof p...};
        const unsigned g[3] = {grid.x, grid.y, grid.z}, b[3] = {block.x, block.y, block.z};

        kva_rt_launch(stream, (const void *)kernel, g, b, shared, arg, size, sizeof...(P));
    }
};
#define KVA_LAUNCH(k, grid, block, shared, stream, ...)                                  \
    kva_launch((grid), (block), (shared), (stream), k)(__VA_ARGS__)
#define KVA_SHARED(type, name, n) __shared__ type name[n]
#define KVA_DYN_SHARED(type, name)                                                       \
    extern __shared__ __align__(16) unsigned char kva_dynamic[];                         \
    type *name = reinterpret_cast<type *>(kva_dynamic)

KVA_DEVICE float kva_half_float(uint16_t h)
{
    return __half2float(__ushort_as_half(h));
}

KVA_DEVICE uint16_t kva_float_half(float f)
{
    return __half_as_ushort(__float2half_rn(f));
}

KVA_DEVICE uint32_t kva_bits(float f)
{
    return __float_as_uint(f);
}

KVA_DEVICE float kva_bits_float(uint32_t u)
{
    return __uint_as_float(u);
}

KVA_DEVICE float kva_mul(float a, float b)
{
    return __fmul_rn(a, b);
}

KVA_DEVICE float kva_add(float a, float b)
{
    return __fadd_rn(a, b);
}

KVA_DEVICE float kva_sub(float a, float b)
{
    return __fsub_rn(a, b);
}

KVA_DEVICE void kva_async16(void *shared, const void *global)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(
                     (unsigned)__cvta_generic_to_shared(shared)),
                 "l"(global)
                 : "memory");
#else
    *(uint4 *)shared = *(const uint4 *)global;
#endif
}

KVA_DEVICE void kva_async_commit(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

/* All groups but the newest n have arrived. */
template <int n> KVA_DEVICE void kva_async_wait(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;\n" ::"n"(n) : "memory");
#endif
}

/* The fragment layout is that of mma.m16n8k16 (PTX manual): lane = 4 * group + t; a: rows
 * group, group + 8 x columns 2t, 2t + 8; b: rows 2t, 2t + 8 of column group; d: rows group,
 * group + 8 x columns 2t. Two halves a word, the lower column (row of b) in the low half. */
KVA_DEVICE void kva_mma_f16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* Lanes 8i .. 8i + 7 give the addresses of the rows (16 bytes each) of tile i. r[i] is then
 * the pair of columns 2t, 2t + 1 of row `group`; turned: rows 2t, 2t + 1 of column `group`.
 */
KVA_DEVICE void kva_load_matrix(uint32_t r[4], const void *row)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
#endif
}

KVA_DEVICE void kva_load_matrix_turned(uint32_t r[4], const void *row)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
#endif
}

#define KVA_SHARED_LIMIT(k, bytes)                                                       \
    ((void)cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize,          \
                                (int)(bytes)))

#endif
#endif
