/* SPDX-License-Identifier: GPL-3.0-or-later */
/* runtime.cpp - the calls of the CUDA runtime that rt_cuda.c makes, graphs excepted.
 *
 * Rules as in the CUDA 13 runtime's manual: an asynchronous copy from pageable memory has
 * read it when it returns, one to pageable memory has written it; pinned memory is read
 * and written when the copy runs; freeing device memory waits, freeing pinned memory does
 * not: queued work that uses it faults. */
#include "tests/cudart/inside.h"
#include "tests/simt/rt_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

using namespace dev;

namespace
{

cudaError_t last = cudaSuccess;
struct kva_rt_host_traffic asked;
std::map<const void *, kva_cudart_kernel> kernels;

int64_t now_ns()
{
    timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

} // namespace

cudaError_t said(cudaError_t rc)
{
    if (rc != cudaSuccess)
        last = rc;
    return rc;
}

cudaError_t entered(const char *call, bool takes_memory)
{
    return said((cudaError_t)enter(call, takes_memory));
}
#define WAIT()                                                                           \
    do {                                                                                 \
        cudaError_t e_ = entered(__func__);                                              \
        if (e_ != cudaSuccess) {                                                         \
            lose_work();                                                                 \
            return e_;                                                                   \
        }                                                                                \
    } while (0)

dev::stream *stream_of(const char *call, cudaStream_t s)
{
    if (s == nullptr)
        return first_stream;
    if (!alive("stream", s))
        stop(call, "no stream");
    return reinterpret_cast<dev::stream *>(s);
}

static dev::event *event_of(const char *call, cudaEvent_t e)
{
    if (!alive("event", e))
        stop(call, "no event");
    return reinterpret_cast<dev::event *>(e);
}

/* ---- the device ---- */

extern "C" {

cudaError_t cudaGetDeviceCount(int *count)
{
    CALL(false);
    *count = 0;
    if (kva_cudart_machine.old_driver)
        return said(cudaErrorInsufficientDriver);
    if (kva_cudart_machine.devices < 1)
        return said(cudaErrorNoDevice);
    *count = kva_cudart_machine.devices;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    CALL(false);
    return said(device < kva_cudart_machine.devices ? cudaSuccess
                                                    : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    CALL(false);
    (void)device;
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "stand-in");
    p->major = kva_cudart_machine.major;
    p->multiProcessorCount = 4;
    p->totalGlobalMem = total_bytes();
    p->l2CacheSize = 1 << 20;
    p->sharedMemPerBlockOptin = 227 << 10;
    p->sharedMemPerBlock = 48 << 10;
    p->managedMemory = p->concurrentManagedAccess = p->unifiedAddressing = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    CALL(false);
    (void)device;
    switch (attr) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = 227 << 10;
        return cudaSuccess;
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrUnifiedAddressing:
        *value = 1;
        return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
        *value = 4;
        return cudaSuccess;
    default:
        *value = 0;
        return said(cudaErrorInvalidValue);
    }
}

cudaError_t cudaDriverGetVersion(int *v)
{
    CALL(false);
    *v = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *v)
{
    CALL(false);
    *v = CUDART_VERSION;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t e)
{
    switch ((int)e) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorUnknown:
        return "unknown error";
    default:
        return "another error";
    }
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t e = last;

    last = cudaSuccess;
    return e;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total)
{
    CALL(false);
    *unused = free_bytes();
    *total = total_bytes();
    return cudaSuccess;
}

/* ---- memory ---- */

static cudaError_t taken(void **p, size_t bytes, place where)
{
    if (bytes == 0)
        return said(cudaErrorInvalidValue);
    *p = take(bytes, where);
    return said(*p ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    CALL(true);
    return taken(p, bytes, DEVICE);
}

cudaError_t cudaMallocManaged(void **p, size_t bytes, unsigned flags)
{
    CALL(true);
    if (flags != cudaMemAttachGlobal)
        stop(__func__, "flags %u", flags);
    return taken(p, bytes, MANAGED);
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    CALL(true);
    return taken(p, bytes, PINNED);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    CALL(true);
    (void)flags;
    return taken(p, bytes, PINNED);
}

/* A call that fails has freed, or the process would have nothing to say of it. */
cudaError_t cudaFree(void *p)
{
    cudaError_t rc = entered(__func__);

    if (rc == cudaSuccess)
        wait_for_all();
    else
        lose_work();
    if (p != nullptr)
        give(__func__, p, false);
    return rc;
}

cudaError_t cudaFreeHost(void *p)
{
    cudaError_t rc = entered(__func__);

    if (p != nullptr)
        give(__func__, p, true);
    return rc;
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    CALL(false);
    if (flags > cudaStreamNonBlocking)
        return said(cudaErrorInvalidValue);
    auto *s = new dev::stream();

    stream_open(s);
    born("stream", s);
    *out = reinterpret_cast<cudaStream_t>(s);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaError_t rc = entered(__func__);
    auto *s = reinterpret_cast<dev::stream *>(stream);

    died(__func__, "stream", s);
    if (rc != cudaSuccess)
        s->held.clear(), s->done = s->given;
    stream_close(s);
    delete s;
    return rc;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    dev::stream *s = stream_of(__func__, stream);

    WAIT();
    asked.waits++;
    wait_for(s, s->given);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    WAIT();
    wait_for_all();
    return cudaSuccess;
}

static cudaError_t new_event(cudaEvent_t *out, bool timing)
{
    auto *e = new dev::event();

    e->timing = timing;
    born("event", e);
    *out = reinterpret_cast<cudaEvent_t>(e);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    CALL(false);
    return new_event(out, (flags & cudaEventDisableTiming) == 0);
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    CALL(false);
    return new_event(out, true);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    cudaError_t rc = entered(__func__);
    auto *e = reinterpret_cast<dev::event *>(event);

    died(__func__, "event", e);
    if (e->recorded && e->of != nullptr && alive("stream", e->of))
        wait_for(e->of, e->at); /* its mark is queued by address */
    delete e;
    return rc;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    dev::event *e = event_of(__func__, event);
    dev::stream *s = stream_of(__func__, stream);

    CALL(false);
    e->recorded = true;
    e->passed = false;
    e->of = s;
    e->at = s->given + 1;
    uint64_t at = e->at;

    give_work(
        s, "an event",
        [e, at] {
            if (e->at == at) {
                e->passed = true;
                e->ns = now_ns();
            }
        },
        false);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    dev::event *e = event_of(__func__, event);

    WAIT();
    if (e->recorded)
        wait_for(e->of, e->at);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    dev::event *a = event_of(__func__, start), *b = event_of(__func__, end);

    CALL(false);
    if (!a->timing || !b->timing || !a->recorded || !b->recorded)
        return said(cudaErrorInvalidResourceHandle);
    if (!a->passed || !b->passed)
        return said(cudaErrorNotReady);
    *ms = (float)((double)(b->ns - a->ns) * 1e-6);
    return cudaSuccess;
}

/* ---- copies and fills ---- */

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    dev::stream *s = stream_of(__func__, stream);

    CALL(false);
    if (bytes == 0)
        return cudaSuccess;
    if (!copy_allowed(to, from, bytes, kind))
        return said(cudaErrorInvalidValue);
    if (kind == cudaMemcpyHostToDevice) {
        asked.uploads++;
        asked.up_bytes += bytes;
    } else if (kind == cudaMemcpyDeviceToHost) {
        asked.downloads++;
        asked.down_bytes += bytes;
    }
    if (kind == cudaMemcpyHostToDevice && where(from, bytes) == HOST) {
        auto staged = std::make_shared<std::vector<uint8_t>>(
            (const uint8_t *)from, (const uint8_t *)from + bytes);

        give_work(s, "a copy to the device",
                  [=] { memcpy(to, staged->data(), staged->size()); });
    } else {
        give_work(s, "a copy", [=] { memcpy(to, from, bytes); });
    }
    if (kind == cudaMemcpyDeviceToHost && where(to, bytes) == HOST)
        wait_for(s, s->given);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    dev::stream *s = stream_of(__func__, stream);

    CALL(false);
    if (bytes == 0)
        return cudaSuccess;
    if (!on_device(to, bytes))
        return said(cudaErrorInvalidValue);
    give_work(s, "a fill", [=] { memset(to, byte, bytes); });
    return cudaSuccess;
}

/* ---- kernels ---- */

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arg,
                             size_t shared, cudaStream_t stream)
{
    dev::stream *s = stream_of(__func__, stream);
    held_kernel k;

    CALL(false);
    cudaError_t rc = hold_kernel(kernel, grid, block, shared, arg, &k);

    if (rc != cudaSuccess)
        return said(rc);
    give_work(s, k.of->name, [k] { run_kernel(k); });
    return cudaSuccess;
}

} // extern "C"

/* ---- inside ---- */

bool copy_allowed(const void *to, const void *from, size_t bytes,
                  enum cudaMemcpyKind kind)
{
    bool to_device = on_device(to, bytes), from_device = on_device(from, bytes);
    const uint8_t *a = (const uint8_t *)to, *b = (const uint8_t *)from;

    if (kind == cudaMemcpyHostToDevice)
        return to_device && !from_device && (!ours(from) || where(from, bytes) == PINNED);
    if (kind == cudaMemcpyDeviceToHost)
        return from_device && !to_device && (!ours(to) || where(to, bytes) == PINNED);
    if (kind != cudaMemcpyDeviceToDevice || !to_device || !from_device)
        return false;
    if (a < b + bytes && b < a + bytes)
        stop("cudaMemcpyAsync", "source and destination overlap");
    return true;
}

cudaError_t hold_kernel(const void *kernel, dim3 grid, dim3 block, size_t shared,
                        void **arg, held_kernel *k)
{
    auto at = kernels.find(kernel);

    if (at == kernels.end())
        return cudaErrorInvalidDeviceFunction;
    if (grid.x < 1 || grid.y < 1 || grid.z < 1 || block.x < 1 || block.y < 1 ||
        block.z < 1 || grid.x > INT32_MAX || grid.y > 65535 || grid.z > 65535 ||
        block.x > 1024 || block.y > 1024 || block.z > 64 ||
        block.x * block.y * block.z > 1024)
        return cudaErrorInvalidConfiguration;
    k->of = &at->second;
    k->grid[0] = grid.x, k->grid[1] = grid.y, k->grid[2] = grid.z;
    k->block[0] = block.x, k->block[1] = block.y, k->block[2] = block.z;
    k->shared = shared;
    k->arg.clear();
    size_t all = 0;

    for (size_t i = 0; i < k->of->n; i++) {
        std::vector<uint64_t> bytes((k->of->size[i] + 15) / 16 * 2);

        memcpy(bytes.data(), arg[i], k->of->size[i]);
        check_arguments(k->of->name, bytes.data(), k->of->size[i]);
        all += (k->of->size[i] + 7) / 8 * 8;
        k->arg.push_back(std::move(bytes));
    }
    if (all > 4096)
        stop(k->of->name, "%zu bytes of arguments", all);
    return cudaSuccess;
}

void run_kernel(const held_kernel &k)
{
    std::vector<void *> arg;

    for (const auto &a : k.arg)
        arg.push_back((void *)(uintptr_t)a.data());
    k.of->run(k.of->with, k.grid, k.block, k.shared, arg.data());
}

void kva_cudart_register(const void *kernel, const struct kva_cudart_kernel *k)
{
    kernels[kernel] = *k;
}

size_t kva_rt_host_waits(void)
{
    return asked.waits;
}

struct kva_rt_host_traffic kva_rt_host_traffic(void)
{
    return asked;
}
