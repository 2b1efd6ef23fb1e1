/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rt_host.cpp - rt.h in ordinary memory: what the backend asks of a device happens at
 * once.
 *
 * Held work (queue.h) runs when somebody waits, from the graph's own copies where there
 * is one: a patch that was forgotten shows.
 *
 * Allocations are pieces of their exact size, filled with NaN; ranges are
 * address space of which only the committed part can be touched. Every byte is counted as
 * a device would count it. Mistakes of the emulator (simt.h) are failures of the device
 * here. */
#include "kernels/cuda/queue.h"
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
#include <sys/mman.h>
#include <time.h>
#include <vector>

struct kva_rt {
    struct kva_rt_info info;
    std::map<void *, size_t> pieces;
    kva_error fault;
    bool failed;
    kva_queue queue; /* while this is `gatherer` */
    kva_replays replays;
};
struct kva_rt_event {
    int64_t ns;
};

namespace
{

size_t device_bytes = (size_t)64 << 30, used, peak;
struct kva_rt_host_traffic asked;
size_t others; /* of another program */
bool ranges = true;

/* Memory of the device is none of the host's: shared pages do not count as its anonymous
 * ones. With the address sanitizer pieces are the heap's, which it watches. */
#ifdef __SANITIZE_ADDRESS__
void *piece_new(size_t bytes)
{
    void *p = NULL;

    return posix_memalign(&p, 256, bytes) == 0 ? p : NULL;
}
void piece_free(void *p, size_t)
{
    free(p);
}
#else
void *piece_new(size_t bytes)
{
    void *p =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}
void piece_free(void *p, size_t bytes)
{
    (void)munmap(p, bytes);
}
#endif
uint8_t *range_new(size_t bytes)
{
    void *p =
        mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : (uint8_t *)p;
}
bool range_open(uint8_t *at, size_t bytes)
{
    return bytes == 0 || mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
}
void range_shut(uint8_t *at, size_t bytes)
{
    if (bytes == 0)
        return;
    (void)madvise(at, bytes, MADV_REMOVE);
    (void)mprotect(at, bytes, PROT_NONE);
}

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

/* ---- held work ---- */

kva_rt *gatherer;

/* An item with what it needs, for nobody else to change. */
struct copy {
    kva_queue_item item;
    std::vector<uint64_t> args; /* of the kernel, aligned */
    const char *name;
    const uint8_t *from; /* of an upload */
};

copy copy_of(const kva_queue &q, size_t i, const uint8_t *from)
{
    copy c = {q.item[i], {}, nullptr, from};

    if (c.item.kind == KVA_QUEUE_KERNEL) {
        size_t at = q.offset[c.item.arg], name = q.offset[c.item.arg + 1];

        c.args.resize((name - at + 7) / 8);
        memcpy(c.args.data(), q.data + at, name - at);
        memcpy(&c.name, q.data + name, sizeof c.name);
    }
    return c;
}

void run(copy &c)
{
    const kva_queue_item &it = c.item;

    if (it.kind == KVA_QUEUE_KERNEL) {
        kva_simt_held h = {};

        h.name = c.name;
        memcpy(&h.kernel, &it.kernel, sizeof h.kernel);
        memcpy(&h.run, &it.extra, sizeof h.run);
        h.grid = dim3(it.grid[0], it.grid[1], it.grid[2]);
        h.block = dim3(it.block[0], it.block[1], it.block[2]);
        h.shared = it.shared;
        h.run(&h, c.args.data());
    } else if (it.kind == KVA_QUEUE_UPLOAD) {
        memcpy(it.to, c.from, it.bytes);
    } else if (it.kind == KVA_QUEUE_MOVE) {
        memmove(it.to, it.from, it.bytes);
    } else {
        memset(it.to, it.byte, it.bytes);
    }
}

void *host_new(void *, size_t bytes)
{
    return malloc(bytes);
}
void host_free(void *, void *p)
{
    free(p);
}
void issue(void *, const kva_queue *q)
{
    for (size_t i = 0; i < q->n; i++) {
        copy c = copy_of(*q, i, q->data + q->item[i].at);

        run(c);
    }
}
void *graph_build(void *, const kva_replay *r)
{
    auto *g = new std::vector<copy>;

    for (size_t i = 0; i < r->made.n; i++)
        g->push_back(copy_of(r->made, i, r->host + r->slot[i]));
    return g;
}
bool graph_patch(void *, kva_replay *r, size_t i)
{
    (*static_cast<std::vector<copy> *>(r->graph))[i] =
        copy_of(r->made, i, r->host + r->slot[i]);
    return true;
}
void graph_launch(void *, kva_replay *r)
{
    for (copy &c : *static_cast<std::vector<copy> *>(r->graph))
        run(c);
}
void graph_wait(void *, kva_replay *)
{
}
void graph_destroy(void *, void *graph)
{
    delete static_cast<std::vector<copy> *>(graph);
}
const kva_replayer replayer = {nullptr,     host_new,      host_free,
                               graph_build, graph_patch,   graph_launch,
                               graph_wait,  graph_destroy, issue};

bool hold_launch(const kva_simt_held *h)
{
    const unsigned grid[3] = {h->grid.x, h->grid.y, h->grid.z},
                   block[3] = {h->block.x, h->block.y, h->block.z};
    const void *arg[2] = {h->args, &h->name}, *kernel, *extra;
    const size_t size[2] = {h->bytes, sizeof h->name};

    memcpy(&kernel, &h->kernel, sizeof kernel);
    memcpy(&extra, &h->run, sizeof extra);
    return kva_queue_kernel(&gatherer->queue, kernel, extra, grid, block, h->shared, arg,
                            size, 2);
}

void flush(kva_rt *rt)
{
    if (rt != gatherer)
        return;
    kva_simt_hold = nullptr;
    kva_replays_flush(&rt->replays, &replayer, &rt->queue);
    kva_simt_hold = hold_launch;
}

bool hold(kva_rt *rt, kva_queue_kind kind, void *to, const void *from, int byte,
          size_t bytes)
{
    return rt == gatherer && kva_queue_copy(&rt->queue, kind, to, from, byte, bytes);
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
void kva_rt_host_look(bool)
{
}
size_t kva_rt_host_waits(void)
{
    return asked.waits;
}
struct kva_rt_host_traffic kva_rt_host_traffic(void)
{
    return asked;
}

void kva_rt_host_others(size_t bytes)
{
    others = bytes;
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
    r->info.driver = r->info.runtime = 13000;
    r->info.processors = 4;
    r->info.total_bytes = device_bytes;
    r->info.shared_bytes = KVA_SHARED_MOST;
    r->info.l2_bytes = (size_t)1 << 20;
    *rt = r;
    return KVA_OK;
}

void kva_rt_close(struct kva_rt *rt)
{
    if (rt == NULL)
        return;
    kva_rt_gather(rt, false);
    kva_replays_release(&rt->replays, &replayer);
    kva_queue_release(&rt->queue);
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
    asked.waits++;
    flush(rt);
    return kva_rt_status(rt, err);
}

void kva_rt_mem_info(struct kva_rt *rt, size_t *free_bytes, size_t *total_bytes)
{
    (void)rt;
    *total_bytes = device_bytes;
    *free_bytes = device_bytes > used + others ? device_bytes - used - others : 0;
}

void *kva_rt_alloc(struct kva_rt *rt, size_t bytes, bool shared)
{
    void *p;

    (void)shared;
    if (!take(bytes))
        return NULL;
    p = piece_new(bytes);
    if (p == NULL) {
        used -= bytes;
        return NULL;
    }
    memset(p, 0xff, bytes);
    rt->pieces[p] = bytes;
    return p;
}

void kva_rt_free(struct kva_rt *rt, void *p)
{
    flush(rt);
    auto at = rt->pieces.find(p);

    if (at == rt->pieces.end())
        return;
    used -= at->second;
    piece_free(p, at->second);
    rt->pieces.erase(at);
}

int *kva_rt_flag_new(struct kva_rt *rt)
{
    (void)rt;
    return (int *)calloc(1, sizeof(int));
}

void kva_rt_flag_free(struct kva_rt *rt, int *flag)
{
    (void)rt;
    free(flag);
}

void kva_rt_upload(struct kva_rt *rt, void *to, const void *from, size_t bytes)
{
    asked.uploads++;
    asked.up_bytes += bytes;
    if (bytes > 0 && !hold(rt, KVA_QUEUE_UPLOAD, to, from, 0, bytes))
        memcpy(to, from, bytes);
}

void kva_rt_download(struct kva_rt *rt, void *to, const void *from, size_t bytes)
{
    asked.downloads++;
    asked.down_bytes += bytes;
    asked.waits++;
    flush(rt);
    if (bytes > 0)
        memcpy(to, from, bytes);
}

void kva_rt_move(struct kva_rt *rt, void *to, const void *from, size_t bytes)
{
    if (bytes > 0 && !hold(rt, KVA_QUEUE_MOVE, to, from, 0, bytes))
        memcpy(to, from, bytes);
}

void kva_rt_fill(struct kva_rt *rt, void *to, int byte, size_t bytes)
{
    if (bytes > 0 && !hold(rt, KVA_QUEUE_FILL, to, NULL, byte, bytes))
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
    r->base = range_new(bytes);
    if (r->base == NULL || (!ranges && !range_open(r->base, bytes)))
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
        if (!range_open(r->base + from, bytes)) {
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
    flush(rt);
    r->committed = from;
    if (!r->resident)
        return;
    range_shut(r->base + from, bytes);
    used -= bytes;
}

void kva_rt_release(struct kva_rt *rt, struct kva_rt_range *r)
{
    flush(rt);
    if (r->base == NULL)
        return;
    used -= r->resident ? r->committed : r->bytes;
    (void)munmap(r->base, r->bytes);
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
    flush(rt);
    e->ns = now_ns();
}

int64_t kva_rt_event_between(struct kva_rt *rt, struct kva_rt_event *a,
                             struct kva_rt_event *b)
{
    (void)rt;
    return b->ns - a->ns;
}

void kva_rt_gather(struct kva_rt *rt, bool on)
{
    if (on && gatherer == NULL) {
        gatherer = rt;
        kva_simt_hold = hold_launch;
    } else if (!on && gatherer == rt) {
        flush(rt);
        gatherer = NULL;
        kva_simt_hold = nullptr;
    }
}

bool kva_rt_gathering(const struct kva_rt *rt)
{
    return gatherer == rt;
}

const struct kva_replays *kva_rt_replays(const struct kva_rt *rt)
{
    return &rt->replays;
}
