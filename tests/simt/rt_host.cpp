/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rt_host.cpp - rt.h in ordinary memory: what the backend asks of a device happens at
 * once.
 *
 * Allocations are pieces of the heap of their exact size, filled with NaN; ranges are
 * address space of which only the committed part can be touched. Every byte is counted as
 * a device would count it. Mistakes of the emulator (simt.h) are failures of the device
 * here. */
#include "kernels/cuda/rt.h"

extern "C" {
#include "kernels/cpu/mem.h"
}
#include "tests/simt/rt_host.h"
#include "tests/simt/simt.h"

#include <map>
#include <new>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct kva_rt {
    struct kva_rt_info info;
    std::map<void *, size_t> pieces;
    kva_error fault;
    bool failed;
};
struct kva_rt_event {
    int64_t ns;
};

namespace
{

size_t device_bytes = (size_t)64 << 30, used, peak, waits;
bool ranges = true;

bool take(size_t bytes)
{
    if (bytes > device_bytes - (used < device_bytes ? used : device_bytes))
        return false;
    used += bytes;
    peak = used > peak ? used : peak;
    return true;
}

int64_t now_ns()
{
    timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

} // namespace

void kva_rt_host_size(size_t bytes)
{
    device_bytes = bytes;
}
size_t kva_rt_host_used(void)
{
    return used;
}
size_t kva_rt_host_peak(void)
{
    return peak;
}
void kva_rt_host_ranges(bool available)
{
    ranges = available;
}
size_t kva_rt_host_waits(void)
{
    return waits;
}

enum kva_status kva_rt_open(struct kva_rt **rt, struct kva_error *err)
{
    kva_rt *r;

    *rt = NULL;
    if (device_bytes == 0)
        return KVA_FAIL(err, KVA_EUNSUPPORTED,
                        "no CUDA device: the emulator was told so");
    r = new (std::nothrow) kva_rt();
    if (r == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "emulated device");
    memcpy(r->info.name, "emulator", sizeof "emulator");
    r->info.major = 8;
    r->info.processors = 4;
    r->info.total_bytes = device_bytes;
    r->info.l2_bytes = (size_t)1 << 20;
    *rt = r;
    return KVA_OK;
}

void kva_rt_close(struct kva_rt *rt)
{
    if (rt == NULL)
        return;
    while (!rt->pieces.empty())
        kva_rt_free(rt, rt->pieces.begin()->first);
    delete rt;
}

void *kva_rt_stream(struct kva_rt *rt)
{
    (void)rt;
    return NULL;
}

const struct kva_rt_info *kva_rt_info(const struct kva_rt *rt)
{
    return &rt->info;
}

enum kva_status kva_rt_status(struct kva_rt *rt, struct kva_error *err)
{
    int mistakes = kva_simt_errors();

    if (mistakes > 0 && !rt->failed) {
        rt->failed = true;
        (void)KVA_FAIL(&rt->fault, KVA_EIO, "%d mistakes of emulated kernels", mistakes);
    }
    return rt->failed ? KVA_FAIL(err, rt->fault.code, "%s", rt->fault.text) : KVA_OK;
}

enum kva_status kva_rt_sync(struct kva_rt *rt, struct kva_error *err)
{
    waits++;
    return kva_rt_status(rt, err);
}

void kva_rt_mem_info(struct kva_rt *rt, size_t *free_bytes, size_t *total_bytes)
{
    (void)rt;
    *total_bytes = device_bytes;
    *free_bytes = device_bytes > used ? device_bytes - used : 0;
}

void *kva_rt_alloc(struct kva_rt *rt, size_t bytes, bool shared)
{
    void *p = NULL;

    (void)shared;
    if (!take(bytes))
        return NULL;
    if (posix_memalign(&p, 256, bytes) != 0) {
        used -= bytes;
        return NULL;
    }
    memset(p, 0xff, bytes);
    rt->pieces[p] = bytes;
    return p;
}

void kva_rt_free(struct kva_rt *rt, void *p)
{
    auto at = rt->pieces.find(p);

    if (at == rt->pieces.end())
        return;
    used -= at->second;
    rt->pieces.erase(at);
    free(p);
}

void kva_rt_upload(struct kva_rt *rt, void *to, const void *from, size_t bytes)
{
    (void)rt;
    if (bytes > 0)
        memcpy(to, from, bytes);
}

void kva_rt_download(struct kva_rt *rt, void *to, const void *from, size_t bytes)
{
    waits++;
    kva_rt_upload(rt, to, from, bytes);
}

void kva_rt_move(struct kva_rt *rt, void *to, const void *from, size_t bytes)
{
    kva_rt_upload(rt, to, from, bytes);
}

void kva_rt_fill(struct kva_rt *rt, void *to, int byte, size_t bytes)
{
    (void)rt;
    memset(to, byte, bytes);
}

size_t kva_rt_granule(struct kva_rt *rt)
{
    (void)rt;
    return kva_mem_granule();
}

enum kva_status kva_rt_reserve(struct kva_rt *rt, size_t bytes, size_t chunk,
                               struct kva_rt_range *r, struct kva_error *err)
{
    (void)rt;
    memset(r, 0, sizeof *r);
    r->bytes = bytes;
    r->chunk = chunk;
    r->resident = ranges;
    if (!ranges && !take(bytes))
        return KVA_FAIL(err, KVA_ENOMEM, "%zu bytes of the device", bytes);
    r->base = (uint8_t *)kva_mem_reserve(bytes);
    if (r->base == NULL || (!ranges && kva_mem_commit(r->base, bytes) != 0))
        return KVA_FAIL(err, KVA_ENOMEM, "%zu bytes cannot be reserved", bytes);
    return KVA_OK;
}

enum kva_status kva_rt_commit(struct kva_rt *rt, struct kva_rt_range *r, size_t from,
                              size_t bytes, struct kva_error *err)
{
    (void)rt;
    if (from != r->committed || from % r->chunk != 0 || bytes % r->chunk != 0 ||
        bytes > r->bytes - from)
        return KVA_FAIL(err, KVA_EIO, "commit of %zu bytes at %zu", bytes, from);
    if (r->resident) {
        if (!take(bytes))
            return KVA_FAIL(err, KVA_ENOMEM, "%zu bytes of the device", bytes);
        if (kva_mem_commit(r->base + from, bytes) != 0) {
            used -= bytes;
            return KVA_FAIL(err, KVA_ENOMEM, "%zu bytes cannot be committed", bytes);
        }
    }
    memset(r->base + from, 0xff, bytes);
    r->committed += bytes;
    return KVA_OK;
}

void kva_rt_decommit(struct kva_rt *rt, struct kva_rt_range *r, size_t from, size_t bytes)
{
    (void)rt;
    r->committed = from;
    if (!r->resident)
        return;
    kva_mem_decommit(r->base + from, bytes);
    used -= bytes;
}

void kva_rt_release(struct kva_rt *rt, struct kva_rt_range *r)
{
    (void)rt;
    if (r->base == NULL)
        return;
    used -= r->resident ? r->committed : r->bytes;
    kva_mem_release(r->base, r->bytes);
    memset(r, 0, sizeof *r);
}

struct kva_rt_event *kva_rt_event_new(struct kva_rt *rt)
{
    (void)rt;
    return new (std::nothrow) kva_rt_event();
}

void kva_rt_event_free(struct kva_rt *rt, struct kva_rt_event *e)
{
    (void)rt;
    delete e;
}

void kva_rt_event_mark(struct kva_rt *rt, struct kva_rt_event *e)
{
    (void)rt;
    e->ns = now_ns();
}

int64_t kva_rt_event_between(struct kva_rt *rt, struct kva_rt_event *a,
                             struct kva_rt_event *b)
{
    (void)rt;
    return b->ns - a->ns;
}

bool kva_rt_graphs_supported(const struct kva_rt *rt)
{
    (void)rt;
    return false;
}

void kva_rt_graph_begin(struct kva_rt *rt)
{
    (void)rt;
}

struct kva_rt_graph *kva_rt_graph_end(struct kva_rt *rt)
{
    (void)rt;
    return NULL;
}

void kva_rt_graph_launch(struct kva_rt *rt, struct kva_rt_graph *g)
{
    (void)rt;
    (void)g;
}

void kva_rt_graph_free(struct kva_rt *rt, struct kva_rt_graph *g)
{
    (void)rt;
    (void)g;
}
