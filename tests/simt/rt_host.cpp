/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rt_host.cpp - rt.h in ordinary memory: what the backend asks of a device happens at
 * once.
 *
 * Held work (queue.h) runs when somebody waits, from the graph's own copies where there
 * is one: a patch that was forgotten shows.
 *
 * Memory of the device lies in one arena that only kernels, copies and fills may touch:
 * between them its pages are protected, so host code that follows a pointer of the device
 * dies at once (ranges, when there are many: soon). Pieces have their exact size for the
 * address sanitizer, begin as NaN, and addresses are never used again. Ranges are address
 * space of which only the committed part can be touched, by kernels. Every byte is
 * counted as a device would count it. Mistakes of the emulator (simt.h) are failures of
 * the device here. */
#include "kernels/cuda/queue.h"
#include "kernels/cuda/rt.h"

#include "tests/simt/rt_host.h"
#include "tests/simt/simt.h"

#include <map>
#include <new>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

struct piece {
    size_t bytes;
    bool shared; /* a piece of the heap */
};

struct kva_rt {
    struct kva_rt_info info;
    std::map<void *, piece> pieces;
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

bool take(size_t bytes)
{
    if (bytes > device_bytes - (used < device_bytes ? used : device_bytes))
        return false;
    used += bytes;
    peak = used > peak ? used : peak;
    return true;
}

/* ---- what only the device may touch ---- */

const size_t ARENA = (size_t)1 << 40, PAGE = 4096, GAP = 256;
uint8_t *arena;
size_t top;                         /* of the arena, in bytes */
std::map<uint8_t *, size_t> mapped; /* committed bytes of ranges */
int open_depth;
/* A call of the system a range, twice a kernel, would take longer than the kernels: where
 * there are more than a few, ranges are closed every now and then only. */
const size_t FEW = 8, SELDOM = 16;
size_t closed;
bool ranges_closed;

void protect(uint8_t *p, size_t bytes)
{
    if (bytes > 0 &&
        mprotect(p, bytes, open_depth > 0 ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
        perror("emulated device: mprotect");
        abort();
    }
}

void open_device(bool on)
{
    int before = open_depth;

    open_depth += on ? 1 : -1;
    if (before > 0 && open_depth > 0)
        return;
    protect(arena, (top + PAGE - 1) / PAGE * PAGE);
    if (!on && mapped.size() > FEW && ++closed % SELDOM != 0)
        return;
    if (on && !ranges_closed)
        return;
    ranges_closed = !on;
    for (auto &r : mapped)
        protect(r.first, r.second);
}

/* Memory of the device is none of the host's: shared pages do not count as its anonymous
 * ones. */
uint8_t *address_space(size_t bytes)
{
    void *p = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);

    return p == MAP_FAILED ? nullptr : (uint8_t *)p;
}

struct device_opened {
    device_opened()
    {
        open_device(true);
    }
    ~device_opened()
    {
        open_device(false);
    }
};

struct guard {
    guard()
    {
        kva_simt_around = open_device;
    }
} guarded;

/* The device is open. */
void *arena_take(size_t bytes)
{
    size_t room = (bytes + GAP - 1) / GAP * GAP + GAP, old = top;
    uint8_t *p;

    if (arena == nullptr)
        arena = address_space(ARENA);
    if (arena == nullptr || room > ARENA - top)
        return nullptr;
    p = arena + top;
    top += room;
    old = (old + PAGE - 1) / PAGE * PAGE;
    if (top > old)
        protect(arena + old, (top - old + PAGE - 1) / PAGE * PAGE);
    ASAN_POISON_MEMORY_REGION(p + bytes, room - bytes);
    return p;
}

/* Its pages go, its addresses stay taken. */
void arena_give(uint8_t *p, size_t bytes)
{
    device_opened o; /* what cannot be written cannot be removed */
    size_t from = ((uintptr_t)p + PAGE - 1) / PAGE * PAGE,
           end = ((uintptr_t)p + bytes) / PAGE * PAGE;

    ASAN_POISON_MEMORY_REGION(p, bytes);
    if (end > from)
        (void)madvise((void *)from, end - from, MADV_REMOVE);
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
    device_opened o;

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
    device_opened o;

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
    device_opened o;

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
void kva_rt_host_others(size_t bytes)
{
    others = bytes;
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
void kva_rt_host_look(bool on)
{
    open_device(on);
}
size_t kva_rt_host_waits(void)
{
    return asked.waits;
}
struct kva_rt_host_traffic kva_rt_host_traffic(void)
{
    return asked;
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
    device_opened o;
    void *p = NULL;

    if (!take(bytes))
        return NULL;
    if (!shared)
        p = arena_take(bytes);
    else if (posix_memalign(&p, 256, bytes) != 0)
        p = NULL;
    if (p == NULL) {
        used -= bytes;
        return NULL;
    }
    memset(p, 0xff, bytes);
    rt->pieces[p] = {bytes, shared};
    return p;
}

void kva_rt_free(struct kva_rt *rt, void *p)
{
    flush(rt);
    auto at = rt->pieces.find(p);

    if (at == rt->pieces.end())
        return;
    used -= at->second.bytes;
    if (at->second.shared)
        free(p);
    else
        arena_give((uint8_t *)p, at->second.bytes);
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
    if (bytes == 0 || hold(rt, KVA_QUEUE_UPLOAD, to, from, 0, bytes))
        return;
    device_opened o;

    memcpy(to, from, bytes);
}

void kva_rt_download(struct kva_rt *rt, void *to, const void *from, size_t bytes)
{
    asked.downloads++;
    asked.down_bytes += bytes;
    asked.waits++;
    flush(rt);
    device_opened o;

    if (bytes > 0)
        memcpy(to, from, bytes);
}

void kva_rt_move(struct kva_rt *rt, void *to, const void *from, size_t bytes)
{
    if (bytes == 0 || hold(rt, KVA_QUEUE_MOVE, to, from, 0, bytes))
        return;
    device_opened o;

    memcpy(to, from, bytes);
}

void kva_rt_fill(struct kva_rt *rt, void *to, int byte, size_t bytes)
{
    if (bytes == 0 || hold(rt, KVA_QUEUE_FILL, to, NULL, byte, bytes))
        return;
    device_opened o;

    memset(to, byte, bytes);
}

size_t kva_rt_granule(struct kva_rt *rt)
{
    (void)rt;
    return PAGE;
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
    r->base = address_space(bytes);
    if (r->base == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%zu bytes cannot be reserved", bytes);
    mapped[r->base] = ranges ? 0 : bytes;
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
        mapped[r->base] = from + bytes;
    }
    device_opened o;

    protect(r->base, mapped[r->base]);
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
    device_opened o;

    mapped[r->base] = from;
    if (bytes > 0) {
        (void)madvise(r->base + from, bytes, MADV_REMOVE);
        (void)mprotect(r->base + from, bytes, PROT_NONE);
    }
    used -= bytes;
}

void kva_rt_release(struct kva_rt *rt, struct kva_rt_range *r)
{
    flush(rt);
    if (r->base == NULL)
        return;
    used -= r->resident ? r->committed : r->bytes;
    mapped.erase(r->base);
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
