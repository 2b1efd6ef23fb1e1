/* SPDX-License-Identifier: GPL-3.0-or-later */
/* device.cpp - memory that the host cannot touch, and work that is done late.
 *
 * Every piece of memory has address space of its own, with nothing behind it, that is
 * never used again: what is freed faults for good. While queued work runs all that is
 * alive can be read and written; otherwise nothing can, except pinned memory, and managed
 * memory while no work is queued. A piece ends where its address space ends, so what runs
 * over faults (beyond a round 256 bytes; the address sanitizer sees the exact end). */
#include "tests/cudart/device.h"
#include "tests/simt/rt_host.h"

#include <algorithm>
#include <set>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

struct kva_cudart_machine kva_cudart_machine = {1, 9, false, true, true};

namespace dev
{

namespace
{

const size_t PAGE = 4096, FILL = (size_t)8 << 20;

struct piece {
    uint8_t *base, *room;
    size_t bytes, room_bytes;
    place where;
};
struct range {
    uint8_t *base;
    size_t bytes;
    struct chunk {
        size_t bytes;
        bool granted;
    };
    std::map<uint8_t *, chunk> chunks;
};
struct span {
    uint8_t *end;
    bool alive;
};

std::map<uint8_t *, piece> pieces; /* by the base */
std::map<uint8_t *, range> reserved;
std::map<uint8_t *, span> ever; /* address space, by where it begins */
size_t size_bytes = (size_t)64 << 30, used, peak, others;
std::vector<stream *> streams;
bool running, peeked;
const char *doing = "";

uint8_t *address_space(size_t bytes)
{
    void *p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);

    if (p == MAP_FAILED)
        stop("the stand-in", "no address space for %zu bytes", bytes);
    ever[(uint8_t *)p] = {(uint8_t *)p + bytes, true};
    return (uint8_t *)p;
}

/* Its pages go, its addresses stay taken. */
void bury(uint8_t *p, size_t bytes)
{
    (void)mmap(p, bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void protect(void *p, size_t bytes, bool open)
{
    if (mprotect(p, bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
        stop("the stand-in", "mprotect failed");
}

/* What should be open now. */
bool open_now(place where)
{
    return where == PINNED || running || peeked || (where == MANAGED && idle());
}

void protect_all()
{
    for (auto &p : pieces)
        if (p.second.where != PINNED)
            protect(p.second.room, p.second.room_bytes, open_now(p.second.where));
    for (auto &r : reserved)
        for (auto &c : r.second.chunks)
            if (c.second.granted)
                protect(c.first, c.second.bytes, open_now(MAPPED));
    if (running) /* the backend poisons scratch that queued work still uses */
        for (auto &p : pieces)
            ASAN_UNPOISON_MEMORY_REGION(p.second.base, p.second.bytes);
}

/* The one that holds p, or ends there. */
template <typename T> T *holder(std::map<uint8_t *, T> &all, const void *p)
{
    auto at = all.upper_bound((uint8_t *)(uintptr_t)p);

    if (at == all.begin())
        return nullptr;
    --at;
    return (const uint8_t *)p <= at->second.base + at->second.bytes ? &at->second
                                                                    : nullptr;
}

const piece *piece_of(const void *p)
{
    return holder(pieces, p);
}

range *range_of(const void *p)
{
    return holder(reserved, p);
}

/* ---- faults ---- */

void tell(const char *text)
{
    (void)!write(2, text, strlen(text));
}

void on_fault(int sig, siginfo_t *info, void *context)
{
    const void *p = info->si_addr;
    const range *r = range_of(p);
    char text[400];
    const char *what = "memory that is nobody's";

    (void)context;
    if (piece_of(p) != nullptr)
        what = running ? "what lies behind a piece of device memory"
                       : "memory of the device, touched by the host";
    else if (r != nullptr)
        what = r->chunks.empty() || !on_device(p, 1)
                   ? "a part of a range where nothing is mapped"
                   : "a range of the device, touched by the host";
    else if (ours(p))
        what = "memory of the device that was freed, or what lies behind a piece";
    snprintf(text, sizeof text, "cudart: fault at %p in %s: %s\n", p,
             running ? doing : "the host", what);
    tell(text);
    signal(sig, SIG_DFL);
    raise(sig);
}

struct watch {
    watch()
    {
        struct sigaction a = {};

        a.sa_sigaction = on_fault;
        a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
        sigaction(SIGSEGV, &a, nullptr);
        sigaction(SIGBUS, &a, nullptr);
    }
} watching;

std::map<std::string, std::set<const void *>> handles;

/* Whoever links the stand-in gives everything back. */
struct last_look {
    ~last_look()
    {
        puts(KVA_CUDART_LIMITS);
        fflush(stdout);
        if (kva_cudart_leaks() > 0)
            _exit(99);
    }
} looking;

} // namespace

void stop(const char *call, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "cudart: %s: %s\n", call, text);
    fflush(nullptr);
    signal(SIGABRT, SIG_DFL);
    abort();
}

/* ---- failures ---- */

namespace
{
kva_cudart_plan plan;
int fail_at, seen, after, accepted;
const char *failed;
} // namespace

int enter(const char *call, bool takes_memory)
{
    if (failed != nullptr && plan == KVA_CUDART_LOST)
        return 999;
    if (fail_at == 0 || failed != nullptr ||
        (plan == KVA_CUDART_NO_ROOM && !takes_memory) || ++seen != fail_at)
        return 0;
    failed = call;
    return plan == KVA_CUDART_NO_ROOM ? 2 : 999;
}

/* ---- memory ---- */

bool count(size_t bytes)
{
    if (bytes > free_bytes())
        return false;
    used += bytes;
    peak = std::max(peak, used);
    return true;
}

void uncount(size_t bytes)
{
    used -= bytes;
}

size_t free_bytes()
{
    return size_bytes > used + others ? size_bytes - used - others : 0;
}

size_t total_bytes()
{
    return size_bytes;
}

void *take(size_t bytes, place where)
{
    size_t ends = (bytes + 255) / 256 * 256, room = (ends + PAGE - 1) / PAGE * PAGE;
    piece p;

    if (where != PINNED && !count(bytes))
        return nullptr;
    p.room = address_space(room + PAGE);
    p.room_bytes = room;
    p.base = p.room + room - ends;
    p.bytes = bytes;
    p.where = where;
    protect(p.room, room, true);
    memset(p.room, 0xff, std::min(room, FILL));
    ASAN_POISON_MEMORY_REGION(p.base + bytes, ends - bytes);
    protect(p.room, room, open_now(where));
    pieces[p.base] = p;
    return p.base;
}

void give(const char *call, void *p, bool pinned)
{
    auto at = pieces.find((uint8_t *)p);

    if (at == pieces.end() || (at->second.where == PINNED) != pinned)
        stop(call, "%p is no piece of %s memory, or was freed before", p,
             pinned ? "pinned" : "device");
    if (!pinned)
        uncount(at->second.bytes);
    ASAN_UNPOISON_MEMORY_REGION(at->second.room, at->second.room_bytes);
    bury(at->second.room, at->second.room_bytes);
    ever[at->second.room].alive = false;
    pieces.erase(at);
}

place where(const void *p, size_t bytes)
{
    const piece *at = piece_of(p);
    const uint8_t *from = (const uint8_t *)p, *end = from + bytes;
    range *r = range_of(p);

    if (at != nullptr)
        return end <= at->base + at->bytes && end >= from ? at->where : HOST;
    while (r != nullptr && from < end) {
        auto c = r->chunks.upper_bound((uint8_t *)(uintptr_t)from);

        if (c == r->chunks.begin())
            return HOST;
        --c;
        if (!c->second.granted || from >= c->first + c->second.bytes)
            return HOST;
        from = c->first + c->second.bytes;
    }
    return r != nullptr ? MAPPED : HOST;
}

bool ours(const void *p)
{
    auto at = ever.upper_bound((uint8_t *)(uintptr_t)p);

    return at != ever.begin() && (const uint8_t *)p < std::prev(at)->second.end;
}

void *reserve(size_t bytes)
{
    uint8_t *p = address_space(bytes + GRANULE + PAGE);
    uint8_t *base = (uint8_t *)(((uintptr_t)p + GRANULE - 1) / GRANULE * GRANULE);

    reserved[base] = {base, bytes, {}};
    return base;
}

void unreserve(const char *call, void *p, size_t bytes)
{
    auto at = reserved.find((uint8_t *)p);

    if (at == reserved.end() || at->second.bytes != bytes)
        stop(call, "%zu bytes at %p are no reservation", bytes, p);
    if (!at->second.chunks.empty())
        stop(call, "%zu chunks are still mapped", at->second.chunks.size());
    reserved.erase(at);
}

void map(const char *call, void *p, size_t bytes)
{
    range *r = range_of(p);
    uint8_t *from = (uint8_t *)p;

    if (r == nullptr || from + bytes > r->base + r->bytes)
        stop(call, "%zu bytes at %p lie outside a reservation", bytes, p);
    for (auto &c : r->chunks)
        if (from < c.first + c.second.bytes && c.first < from + bytes)
            stop(call, "something is mapped at %p", p);
    r->chunks[from] = {bytes, false};
    protect(p, bytes, true);
    memset(p, 0xff, std::min(bytes, FILL));
    protect(p, bytes, false);
}

/* Chunks that are exactly the `bytes` at p, one after the other. */
static void each_chunk(const char *call, void *p, size_t bytes,
                       const std::function<void(range &, uint8_t *, size_t)> &f)
{
    range *r = range_of(p);
    uint8_t *from = (uint8_t *)p, *end = from + bytes;

    if (r == nullptr)
        stop(call, "%p is nowhere reserved", p);
    while (from < end) {
        auto c = r->chunks.find(from);

        if (c == r->chunks.end() || from + c->second.bytes > end)
            stop(call, "%zu bytes at %p are not whole mappings", bytes, p);
        size_t n = c->second.bytes;

        f(*r, from, n);
        from += n;
    }
}

void unmap(const char *call, void *p, size_t bytes)
{
    if (!idle())
        stop(call, "work is queued that may use the memory");
    each_chunk(call, p, bytes, [](range &r, uint8_t *at, size_t n) {
        bury(at, n);
        r.chunks.erase(at);
    });
}

void grant(const char *call, void *p, size_t bytes)
{
    each_chunk(call, p, bytes, [](range &r, uint8_t *at, size_t n) {
        r.chunks[at].granted = true;
        protect(at, n, open_now(MAPPED));
    });
}

/* ---- streams ---- */

namespace
{
stream the_first;
struct first_open {
    first_open()
    {
        streams.push_back(&the_first);
    }
} opened;
} // namespace
stream *first_stream = &the_first;

void stream_open(stream *s)
{
    streams.push_back(s);
}

void stream_close(stream *s)
{
    wait_for(s, s->given);
    streams.erase(std::find(streams.begin(), streams.end(), s));
}

bool idle()
{
    for (const stream *s : streams)
        if (!s->held.empty())
            return false;
    return true;
}

void give_work(stream *s, const char *name, std::function<void()> run, bool counts)
{
    bool first = idle();

    s->held.push_back({name, std::move(run)});
    s->given++;
    accepted += counts;
    after += counts && failed != nullptr;
    if (first && !running) /* managed memory is the device's from now on */
        protect_all();
}

void wait_for(stream *s, uint64_t until)
{
    if (s->done >= until)
        return;
    running = true;
    protect_all();
    while (s->done < until) {
        work w = std::move(s->held.front());

        s->held.pop_front();
        s->done++;
        doing = w.name;
        w.run();
    }
    running = false;
    protect_all();
}

void lose_work()
{
    for (stream *s : streams) {
        s->held.clear();
        s->done = s->given;
    }
    protect_all();
}

void wait_for_all()
{
    for (stream *s : streams)
        wait_for(s, s->given);
}

/* ---- arguments ---- */

/* Eight bytes that are an address of the host, or of device memory which is gone. What is
 * mapped is asked of the system. A small number beside four bytes that nobody set (the
 * end of a struct) may look like one: such words are let go. */
void check_arguments(const char *name, const void *bytes, size_t n)
{
    const uintptr_t page = PAGE;

    for (size_t i = 0; i + 8 <= n; i += 8) {
        uintptr_t v;

        memcpy(&v, (const uint8_t *)bytes + i, sizeof v);
        if (v < (uintptr_t)1 << 32 || v >= (uintptr_t)1 << 47 || (uint32_t)v < 1u << 20)
            continue;
        if (piece_of((void *)v) != nullptr || range_of((void *)v) != nullptr)
            continue;
        if (ours((void *)v))
            stop(name, "an argument is %p, memory of the device that was freed",
                 (void *)v);
        if (msync((void *)(v / page * page), page, MS_ASYNC) == 0)
            stop(name, "an argument is %p, an address of the host", (void *)v);
    }
}

/* ---- handles ---- */

void born(const char *kind, const void *p)
{
    handles[kind].insert(p);
}

void died(const char *call, const char *kind, const void *p)
{
    if (handles[kind].erase(p) == 0)
        stop(call, "%p is no %s, or was released before", p, kind);
}

bool alive(const char *kind, const void *p)
{
    return handles[kind].count(p) > 0;
}

} // namespace dev

/* ---- for tests ---- */

void kva_cudart_fail(enum kva_cudart_plan plan, int k)
{
    dev::plan = plan;
    dev::fail_at = k;
    dev::seen = dev::after = 0;
    dev::failed = nullptr;
}

const char *kva_cudart_failed(void)
{
    return dev::failed;
}

int kva_cudart_after(void)
{
    return dev::after;
}

int kva_cudart_work(void)
{
    return dev::accepted;
}

int kva_cudart_leaks(void)
{
    int n = 0;

    for (auto &p : dev::pieces)
        n++, fprintf(stderr, "cudart: %zu bytes of %s memory were never freed\n",
                     p.second.bytes,
                     p.second.where == dev::PINNED    ? "pinned"
                     : p.second.where == dev::MANAGED ? "managed"
                                                      : "device");
    for (auto &r : dev::reserved)
        n++, fprintf(stderr, "cudart: a reservation of %zu bytes was never freed\n",
                     r.second.bytes);
    for (auto &h : dev::handles)
        for (const void *p : h.second)
            n++, (void)p,
                fprintf(stderr, "cudart: a %s was never released\n", h.first.c_str());
    return n;
}

void kva_rt_host_size(size_t bytes)
{
    dev::size_bytes = bytes;
    kva_cudart_machine.devices = bytes > 0;
}

void kva_rt_host_others(size_t bytes)
{
    dev::others = bytes;
}

size_t kva_rt_host_used(void)
{
    return dev::used;
}

size_t kva_rt_host_peak(void)
{
    return dev::peak;
}

void kva_rt_host_ranges(bool available)
{
    kva_cudart_machine.ranges = available;
}

void kva_rt_host_look(bool on)
{
    dev::peeked = on;
    dev::protect_all();
}
