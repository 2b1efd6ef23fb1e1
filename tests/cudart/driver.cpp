/* SPDX-License-Identifier: GPL-3.0-or-later */
/* driver.cpp - the driver's virtual memory calls, as cudaGetDriverEntryPointByVersion
 * hands them out. */
#include "tests/cudart/inside.h"

#include <cuda.h>
#include <string.h>

using namespace dev;

namespace
{

struct handle {
    size_t bytes;
    bool mapped, released;
};
std::map<CUmemGenericAllocationHandle, handle> handles;
std::map<CUdeviceptr, CUmemGenericAllocationHandle> mapped;
CUmemGenericAllocationHandle next_handle = 1000;

#define ENTER(takes_memory)                                                              \
    do {                                                                                 \
        int e_ = enter(__func__, takes_memory);                                          \
        if (e_ != 0)                                                                     \
            return (CUresult)e_;                                                         \
    } while (0)

void end(CUmemGenericAllocationHandle h)
{
    handle &at = handles[h];

    if (!at.released || at.mapped)
        return;
    uncount(at.bytes);
    died("cuMemRelease", "chunk of memory", (void *)(uintptr_t)h);
    handles.erase(h);
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *granularity,
                                               const CUmemAllocationProp *prop,
                                               CUmemAllocationGranularity_flags which)
{
    ENTER(false);
    (void)which;
    if (!kva_cudart_machine.granularity)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop->location.id != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = GRANULE;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *p, size_t bytes, size_t alignment,
                                     CUdeviceptr at, unsigned long long flags)
{
    ENTER(true);
    if (bytes == 0 || bytes % GRANULE != 0 || alignment != 0 || at != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *p = (CUdeviceptr)(uintptr_t)reserve(bytes);
    return CUDA_SUCCESS;
}

/* What fails has released all the same: nothing else could. */
CUresult CUDAAPI cuMemAddressFree(CUdeviceptr p, size_t bytes)
{
    int rc = enter(__func__);

    unreserve(__func__, (void *)(uintptr_t)p, bytes);
    return (CUresult)rc;
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *h, size_t bytes,
                             const CUmemAllocationProp *prop, unsigned long long flags)
{
    ENTER(true);
    if (bytes == 0 || bytes % GRANULE != 0 || flags != 0 ||
        prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->location.id != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!count(bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *h = next_handle++;
    handles[*h] = {bytes, false, false};
    born("chunk of memory", (void *)(uintptr_t)*h);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle h)
{
    int rc = enter(__func__);
    auto at = handles.find(h);

    if (at == handles.end() || at->second.released)
        stop(__func__, "%llu is no handle, or was released before", h);
    at->second.released = true;
    end(h);
    return (CUresult)rc;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr p, size_t bytes, size_t offset,
                          CUmemGenericAllocationHandle h, unsigned long long flags)
{
    ENTER(false);
    auto at = handles.find(h);

    if (at == handles.end() || at->second.released)
        stop(__func__, "%llu is no handle", h);
    if (offset != 0 || flags != 0 || bytes != at->second.bytes || p % GRANULE != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (at->second.mapped)
        stop(__func__, "%llu is mapped already", h);
    map(__func__, (void *)(uintptr_t)p, bytes);
    at->second.mapped = true;
    mapped[p] = h;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr p, size_t bytes)
{
    int rc = enter(__func__);

    if (rc != 0)
        lose_work();
    unmap(__func__, (void *)(uintptr_t)p, bytes);
    for (auto at = mapped.lower_bound(p); at != mapped.end() && at->first < p + bytes;) {
        handles[at->second].mapped = false;
        end(at->second);
        at = mapped.erase(at);
    }
    return (CUresult)rc;
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc *desc,
                                size_t n)
{
    ENTER(false);
    if (n != 1 || desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
        desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE || desc->location.id != 0)
        return CUDA_ERROR_INVALID_VALUE;
    grant(__func__, (void *)(uintptr_t)p, bytes);
    return CUDA_SUCCESS;
}

const struct {
    const char *name;
    void *fn;
} entries[] = {
#define ENTRY(f)                                                                         \
    {                                                                                    \
#f, (void *)f                                                                    \
    }
    ENTRY(cuMemGetAllocationGranularity),
    ENTRY(cuMemAddressReserve),
    ENTRY(cuMemAddressFree),
    ENTRY(cuMemCreate),
    ENTRY(cuMemRelease),
    ENTRY(cuMemMap),
    ENTRY(cuMemUnmap),
    ENTRY(cuMemSetAccess),
};

} // namespace

extern "C" cudaError_t
cudaGetDriverEntryPointByVersion(const char *symbol, void **fn, unsigned version,
                                 unsigned long long flags,
                                 enum cudaDriverEntryPointQueryResult *result)
{
    cudaError_t rc = entered(__func__);

    *fn = nullptr;
    if (rc != cudaSuccess)
        return rc;
    if (flags != cudaEnableDefault)
        return said(cudaErrorInvalidValue);
    *result = cudaDriverEntryPointSymbolNotFound;
    for (const auto &e : entries)
        if (strcmp(e.name, symbol) == 0 && kva_cudart_machine.ranges) {
            *result = version >= 10020 ? cudaDriverEntryPointSuccess
                                       : cudaDriverEntryPointVersionNotSufficent;
            *fn = version >= 10020 ? e.fn : nullptr;
        }
    return cudaSuccess;
}
