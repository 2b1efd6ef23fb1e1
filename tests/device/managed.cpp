/* SPDX-License-Identifier: GPL-3.0-or-later */
/* managed.cpp - lets the emulator's parity programs run on a device as they are.
 *
 * They hand ordinary arrays to launchers. Linked with this file (--wrap=main) their heap
 * is managed memory while `main` runs, which both sides may touch; launches on the
 * default stream wait (rt_cuda.c), so results are there when a launcher returns. A bump
 * allocator over one arena of bounded size: test programs are short. Before `main` and
 * behind it the runtime may not be called: what is allocated there is ordinary memory,
 * and nothing runs behind `main`. Without a device the program ends with status 3. */
#include <cuda_runtime_api.h>

#include <new>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

namespace
{

const size_t ARENA = (size_t)2 << 30, SMALL = 16;
uint8_t *arena;
size_t used;
/* freed pieces by the power of two of their size; each holds the next */
struct piece {
    piece *next;
} * freed[40];

int class_of(size_t bytes)
{
    int c = 4;

    while (((size_t)1 << c) < bytes)
        c++;
    return c;
}

void open_arena()
{
    int devices = 0, together = 0;
    cudaError_t rc = cudaGetDeviceCount(&devices);
    void *p = nullptr;

    if (rc == cudaSuccess && devices > 0)
        rc = cudaMallocManaged(&p, ARENA, cudaMemAttachGlobal);
    if (rc != cudaSuccess || devices < 1) {
        fprintf(stderr, "no CUDA device: %s\n",
                rc != cudaSuccess ? cudaGetErrorString(rc) : "none is visible");
        _exit(3);
    }
    rc = cudaDeviceGetAttribute(&together, cudaDevAttrConcurrentManagedAccess, 0);
    if (rc != cudaSuccess || !together) {
        fprintf(stderr, "no CUDA device whose managed memory the host may touch at any "
                        "time: these programs need that\n");
        _exit(3);
    }
    arena = static_cast<uint8_t *>(p);
}

/* Pieces are preceded by their class. */
void *take(size_t bytes)
{
    int c = class_of(bytes + SMALL);
    uint8_t *p;

    if (arena == nullptr) {
        p = static_cast<uint8_t *>(malloc(bytes > 0 ? bytes : 1));
        if (p == nullptr)
            abort();
        return p;
    }
    if (freed[c] != nullptr) {
        p = reinterpret_cast<uint8_t *>(freed[c]);
        freed[c] = freed[c]->next;
    } else {
        if (((size_t)1 << c) > ARENA - used) {
            fprintf(stderr, "the test's managed memory is used up\n");
            _exit(1);
        }
        p = arena + used;
        used += (size_t)1 << c;
    }
    *reinterpret_cast<int *>(p) = c;
    return p + SMALL;
}

void give(void *p)
{
    if (arena == nullptr || static_cast<uint8_t *>(p) < arena ||
        static_cast<uint8_t *>(p) >= arena + ARENA) {
        free(p);
        return;
    }
    uint8_t *at = static_cast<uint8_t *>(p) - SMALL;
    int c = *reinterpret_cast<int *>(at);
    piece *f = reinterpret_cast<piece *>(at);

    f->next = freed[c];
    freed[c] = f;
}

} // namespace

/* What the device said, if it said no; launches on the default stream are nobody's. */
static bool complain()
{
    cudaError_t rc = cudaDeviceSynchronize();

    if (rc == cudaSuccess)
        rc = cudaGetLastError();
    if (rc != cudaSuccess)
        fprintf(stderr, "CUDA: %s: %s\n", cudaGetErrorName(rc), cudaGetErrorString(rc));
    return rc != cudaSuccess;
}

/* Behind a kernel's fault managed memory may be gone for the host, too. */
static void died(int signal)
{
    fprintf(stderr, "signal %d\n", signal);
    (void)complain();
    (void)fflush(nullptr);
    _exit(1);
}

extern "C" int __real_main(int argc, char **argv);
extern "C" int __wrap_main(int argc, char **argv)
{
    int rc;

    open_arena();
    (void)signal(SIGSEGV, died);
    (void)signal(SIGBUS, died);
    rc = __real_main(argc, argv);
    rc = complain() && rc == 0 ? 1 : rc;
    (void)fflush(nullptr);
    _exit(rc);
}

/* tests/simt/parity.h */
void *parity_range(size_t bytes)
{
    void *p = nullptr;

    if (cudaMallocManaged(&p, bytes, cudaMemAttachGlobal) == cudaSuccess)
        return p;
    (void)cudaGetLastError();
    return nullptr;
}

void parity_range_free(void *p, size_t bytes)
{
    (void)bytes;
    (void)cudaFree(p);
}

void *operator new(size_t n)
{
    return take(n);
}
void *operator new[](size_t n)
{
    return take(n);
}
void operator delete(void *p) noexcept
{
    give(p);
}
void operator delete[](void *p) noexcept
{
    give(p);
}
void operator delete(void *p, size_t) noexcept
{
    give(p);
}
void operator delete[](void *p, size_t) noexcept
{
    give(p);
}
