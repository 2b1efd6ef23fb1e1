/* SPDX-License-Identifier: GPL-3.0-or-later */
/* simt.cpp - the emulator: fibers, barriers, warp operations, shared memory.
 *
 * One operating system thread. A fiber switch saves the callee-saved registers of x86-64
 * and the stack pointer. A block's threads are swept in the chosen order; a sweep in
 * which none could run is a deadlock, and the block is abandoned. */
#include "tests/simt/simt.h"

#include <map>
#include <memory>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <sys/mman.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define SIMT_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMT_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#endif
#ifndef SIMT_ASAN
#define SIMT_ASAN 0
#endif

namespace
{

constexpr size_t STACK = SIMT_ASAN ? 256 << 10 : 64 << 10;
constexpr size_t GUARD = 4096;

enum state { READY, AT_BARRIER, IN_WARP, DONE };

struct copy {
    void *to;
    const void *from; /* NULL: it has landed */
};

struct collective { /* one warp operation that lanes are arriving at */
    bool used;
    kva_simt_op op;
    unsigned mask, arrived, left;
    size_t bytes;
    const char *file;
    int line;
    alignas(16) uint8_t data[32][KVA_SIMT_LANE];
};

/* A warp's operations under way: as many as it has lanes when each is alone, and the one
 * before that not all lanes have left. The table grows to what a kernel needs. */
struct warp {
    std::vector<std::unique_ptr<collective>> ops;
    unsigned ended; /* lanes */
};

struct fiber {
    kva_simt_thread ctx; /* first: kva_simt_now points here */
    void *sp;
    uint8_t *stack;
    state st;
    int index; /* in the block */
    const char *file;
    int line; /* where it waits */
    collective *at;
    std::vector<copy> copies;    /* started, in order */
    std::vector<size_t> commits; /* how many had been started at each commit */
    void *fake;                  /* the sanitizer's */
};

/* Shared memory, with a fence behind it where no sanitizer looks. */
constexpr size_t FENCE = SIMT_ASAN ? 0 : 64;

struct shared_site {
    const char *file;
    int line;
    size_t bytes;
    uint8_t *data;
};

struct block {
    std::vector<fiber *> fibers;
    std::vector<warp> warps;
    std::vector<shared_site> shared;
    size_t shared_bytes, dynamic_bytes, shared_limit;
    uint8_t *dynamic;
    int alive, waiting;
    const char *file; /* of the barrier threads wait at */
    int line;
    kva_simt_body body;
    void *closure;
};

struct poison {
    alignas(16) uint8_t data[32 * KVA_SIMT_LANE];
    poison()
    {
        memset(data, 0xff, sizeof data);
    }
};

block now_block;
fiber *now;
void *main_sp;
#if SIMT_ASAN
void *main_fake;
const void *main_bottom;
size_t main_size;
#endif

struct fiber_stock { /* stacks are kept for the next block */
    std::vector<fiber *> free;
    ~fiber_stock()
    {
        for (fiber *f : free) {
            munmap(f->stack, STACK + GUARD);
            delete f;
        }
    }
} stock;

kva_simt_order order = SIMT_FORWARD;
uint64_t random_state = 1;
int errors, shown;
bool quiet, any_memory;
uint64_t switches;
const char *kernel = "";
std::map<void (*)(void), size_t> limits; /* of dynamic shared memory */

/* KVA_SIMT_PROFILE=1: switches by kernel, told at the end. */
struct profile_costs : std::map<std::string, uint64_t> {
    ~profile_costs()
    {
        for (const auto &c : *this)
            fprintf(stderr, "simt: %12llu switches in %s\n", (unsigned long long)c.second,
                    c.first.c_str());
    }
} costs;
const bool profile = getenv("KVA_SIMT_PROFILE") != nullptr;

uint64_t next_random()
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

char first[512]; /* mistake */

__attribute__((format(printf, 3, 4))) void mistake(const char *file, int line,
                                                   const char *fmt, ...)
{
    char text[512];
    va_list ap;
    size_t n = (size_t)snprintf(text, sizeof text, "%s:%d: %s: ", file, line, kernel);

    if (now && n < sizeof text)
        n +=
            (size_t)snprintf(text + n, sizeof text - n,
                             "block %u thread %u: ", now->ctx.block.x, now->ctx.thread.x);
    va_start(ap, fmt);
    if (n < sizeof text)
        (void)vsnprintf(text + n, sizeof text - n, fmt, ap);
    va_end(ap);
    if (errors++ == 0)
        memcpy(first, text, sizeof first);
    if (!quiet && shown++ < 8)
        fprintf(stderr, "simt: %s\n", text);
}

} // namespace

extern "C" void kva_simt_switch(void **save, void *load);
extern "C" void kva_simt_entry(void);
asm(".text\n"
    ".globl kva_simt_switch\n"
    "kva_simt_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n");

kva_simt_thread *kva_simt_now;

namespace
{

/* From a fiber back to the sweep. */
void pause(bool ends)
{
    fiber *f = now;

    (void)ends;
#if SIMT_ASAN
    __sanitizer_start_switch_fiber(ends ? nullptr : &f->fake, main_bottom, main_size);
#endif
    kva_simt_switch(&f->sp, main_sp);
#if SIMT_ASAN
    __sanitizer_finish_switch_fiber(f->fake, &main_bottom, &main_size);
#endif
}

void resume(fiber *f)
{
    now = f;
    kva_simt_now = &f->ctx;
    switches++;
#if SIMT_ASAN
    __sanitizer_start_switch_fiber(&main_fake, f->stack + GUARD, STACK);
#endif
    kva_simt_switch(&main_sp, f->sp);
#if SIMT_ASAN
    __sanitizer_finish_switch_fiber(main_fake, nullptr, nullptr);
#endif
    now = nullptr;
    kva_simt_now = nullptr;
}

void release_barrier()
{
    if (now_block.waiting == 0 || now_block.waiting < now_block.alive)
        return;
    for (fiber *f : now_block.fibers)
        if (f->st == AT_BARRIER)
            f->st = READY;
    now_block.waiting = 0;
}

/* All lanes have come: those that wait go on. */
void complete(const collective *c, int warp)
{
    for (unsigned rest = c->mask; rest; rest &= rest - 1) {
        fiber *f = now_block.fibers[(size_t)(warp * 32 + __builtin_ctz(rest))];

        if (f->at == c)
            f->st = READY;
    }
}

/* A lane that ends is missed by operations that name it; they go on without it. */
void lane_ended(const fiber *f)
{
    unsigned bit = 1u << (f->index % 32);
    warp &w = now_block.warps[(size_t)(f->index / 32)];

    w.ended |= bit;
    for (auto &c : w.ops)
        if (c->used && (c->mask & bit) && !(c->arrived & bit)) {
            mistake(c->file, c->line, "the mask %08x names lane %d, which has ended",
                    c->mask, f->index % 32);
            c->mask &= ~bit;
            if (c->arrived == c->mask)
                complete(c.get(), f->index / 32);
        }
}

} // namespace

extern "C" void kva_simt_entry(void)
{
    fiber *f = now;

#if SIMT_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &main_bottom, &main_size);
#endif
    now_block.body(now_block.closure);
    if (!f->copies.empty())
        mistake(kernel, 0, "%zu asynchronous copies were never waited for",
                f->copies.size());
    f->st = DONE;
    now_block.alive--;
    lane_ended(f);
    release_barrier();
    pause(true);
    abort();
}

namespace
{

fiber *take_fiber(int index)
{
    fiber *f;

    if (!stock.free.empty()) {
        f = stock.free.back();
        stock.free.pop_back();
    } else {
        f = new fiber();
        f->stack = (uint8_t *)mmap(nullptr, STACK + GUARD, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (f->stack == MAP_FAILED || mprotect(f->stack, GUARD, PROT_NONE) != 0) {
            perror("simt: stack");
            abort();
        }
    }
#if SIMT_ASAN
    /* frames left by the last user: two when its kernel returned, all when it did not */
    size_t frames = f->st == DONE ? 4096 : STACK;
    __asan_unpoison_memory_region(f->stack + GUARD + STACK - frames, frames);
#endif
    f->index = index;
    f->st = READY;
    f->at = nullptr;
    f->fake = nullptr;
    f->copies.clear();
    f->commits.clear();
    /* the frame kva_simt_switch pops: six registers, then the address it returns to;
     * after that `ret` the stack pointer is 8 above a multiple of 16, as at a function's
     * entry */
    void **sp = (void **)(void *)(f->stack + GUARD + STACK - 64);
    sp[6] = (void *)kva_simt_entry;
    for (int i = 0; i < 6; i++)
        sp[i] = nullptr;
    sp[7] = nullptr;
    f->sp = sp;
    return f;
}

unsigned lanes_of(const fiber *f, int threads)
{
    int first = f->index / 32 * 32, n = threads - first;

    return n >= 32 ? 0xffffffffu : (1u << n) - 1u;
}

void deadlock()
{
    int told = 0;

    for (const fiber *f : now_block.fibers) {
        if (f->st == DONE || told++ >= 4)
            continue;
        if (f->st == AT_BARRIER)
            mistake(f->file, f->line, "deadlock: thread %d waits at this barrier",
                    f->index);
        else
            mistake(
                f->file, f->line,
                "deadlock: thread %d waits in this operation, mask %08x, for lanes %08x",
                f->index, f->at->mask, f->at->mask & ~f->at->arrived);
    }
}

void sweep_order(std::vector<int> &at, bool again)
{
    size_t n = at.size();

    if (order == SIMT_BACKWARD && !again)
        for (size_t i = 0; i < n; i++)
            at[i] = (int)(n - 1 - i);
    if (order == SIMT_SHUFFLE_A || order == SIMT_SHUFFLE_B)
        for (size_t i = n; i > 1; i--) {
            size_t j = (size_t)(next_random() % i);
            int t = at[i - 1];

            at[i - 1] = at[j];
            at[j] = t;
        }
}

/* One warp as far as it comes without the others: what a missing barrier lets happen. */
void run_ahead(int warp, int threads)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = warp * 32; i < warp * 32 + 32 && i < threads; i++)
            if (now_block.fibers[(size_t)i]->st == READY) {
                resume(now_block.fibers[(size_t)i]);
                moved = true;
            }
    }
}

uint8_t *take_shared(size_t bytes)
{
    uint8_t *data = (uint8_t *)malloc(bytes + FENCE);

    if (!data) {
        perror("simt: shared memory");
        abort();
    }
    memset(data, 0xff, bytes);
    memset(data + bytes, 0xa5, FENCE);
    return data;
}

void give_shared(uint8_t *data, size_t bytes, const char *file, int line)
{
    for (size_t i = 0; i < FENCE; i++)
        if (data[bytes + i] != 0xa5) {
            mistake(file, line, "wrote byte %zu of %zu bytes of shared memory", bytes + i,
                    bytes);
            break;
        }
    free(data);
}

void run_block(dim3 grid, dim3 dim, dim3 index, size_t shared)
{
    int n = (int)(dim.x * dim.y * dim.z);
    std::vector<int> at((size_t)n);

    now_block.fibers.clear();
    if (now_block.warps.size() < (size_t)(n + 31) / 32)
        now_block.warps.resize((size_t)(n + 31) / 32);
    for (warp &w : now_block.warps) {
        w.ended = 0;
        for (auto &c : w.ops)
            c->used = false;
    }
    now_block.alive = n;
    now_block.waiting = 0;
    now_block.shared_bytes = 0;
    now_block.dynamic_bytes = shared;
    now_block.dynamic = shared ? take_shared(shared) : nullptr;
    for (int i = 0; i < n; i++) {
        fiber *f = take_fiber(i);
        unsigned u = (unsigned)i;

        f->ctx = {dim3(u % dim.x, u / dim.x % dim.y, u / dim.x / dim.y), index, dim,
                  grid};
        now_block.fibers.push_back(f);
        at[(size_t)i] = i;
    }
    for (bool moved = true, again = false; now_block.alive > 0 && moved; again = true) {
        moved = false;
        sweep_order(at, again);
        for (int i : at) {
            if (now_block.fibers[(size_t)i]->st == READY) {
                resume(now_block.fibers[(size_t)i]);
                moved = true;
            }
            if (order == SIMT_SHUFFLE_B)
                run_ahead(i / 32, n);
        }
        if (!moved && now_block.alive > 0)
            deadlock();
    }
    for (fiber *f : now_block.fibers)
        stock.free.push_back(f);
    now_block.fibers.clear();
    for (auto &s : now_block.shared)
        give_shared(s.data, s.bytes, s.file, s.line);
    now_block.shared.clear();
    if (now_block.dynamic)
        give_shared(now_block.dynamic, shared, kernel, 0);
    now_block.dynamic = nullptr;
}

} // namespace

void (*kva_simt_around)(bool runs);
bool (*kva_simt_hold)(const kva_simt_held *h);

extern "C" char __executable_start, end; /* the linker's: where the program lies */

namespace
{

struct stack_range {
    uintptr_t low = 0, high = 0;
    stack_range()
    {
        pthread_attr_t a;
        void *base;
        size_t size;

        if (pthread_getattr_np(pthread_self(), &a) != 0)
            return;
        if (pthread_attr_getstack(&a, &base, &size) == 0) {
            low = (uintptr_t)base;
            high = low + size;
        }
        (void)pthread_attr_destroy(&a);
    }
};

} // namespace

void kva_simt_argument(const char *name, const void *arg, size_t bytes)
{
    if (any_memory)
        return;
    static thread_local const stack_range stack;
    const uintptr_t low = (uintptr_t)&__executable_start, high = (uintptr_t)&end;

    for (size_t at = 0; at + sizeof(uintptr_t) <= bytes; at += sizeof(uintptr_t)) {
        uintptr_t p;

        memcpy(&p, (const uint8_t *)arg + at, sizeof p);
        if ((p >= stack.low && p < stack.high) || (p >= low && p < high))
            mistake(name, 0, "an argument points to %s",
                    p >= low && p < high ? "the program's own memory" : "the stack");
    }
}

void kva_simt_run(const char *name, void (*of)(void), dim3 grid, dim3 dim, size_t shared,
                  kva_simt_body body, void *closure)
{
    size_t blocks = (size_t)grid.x * grid.y * grid.z,
           threads = (size_t)dim.x * dim.y * dim.z;
    std::vector<size_t> at(blocks);

    if (now) {
        mistake(name, 0, "a launch from within a kernel");
        return;
    }
    uint64_t before = switches;
    kernel = name;
    now_block.shared_limit = limits.count(of) ? limits[of] : KVA_SIMT_SHARED_STATIC;
    if (threads < 1 || threads > 1024 || dim.z > 64 || blocks < 1 || grid.x > INT32_MAX ||
        grid.y > 65535 || grid.z > 65535 || shared > now_block.shared_limit) {
        mistake(name, 0,
                "a launch of %u x %u x %u blocks of %zu threads, %zu bytes shared",
                grid.x, grid.y, grid.z, threads, shared);
        return;
    }
    now_block.body = body;
    now_block.closure = closure;
    random_state = 0x9e3779b97f4a7c15u + (uint64_t)order * 77 + switches;
    for (size_t i = 0; i < blocks; i++)
        at[i] = order == SIMT_BACKWARD ? blocks - 1 - i : i;
    if (order >= SIMT_SHUFFLE_A)
        for (size_t i = blocks; i > 1; i--) {
            size_t j = (size_t)(next_random() % i), t = at[i - 1];

            at[i - 1] = at[j];
            at[j] = t;
        }
    if (kva_simt_around)
        kva_simt_around(true);
    for (size_t b : at)
        run_block(grid, dim,
                  dim3((unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                       (unsigned)(b / grid.x / grid.y)),
                  shared);
    if (kva_simt_around)
        kva_simt_around(false);
    kernel = "";
    if (profile)
        costs[name] += switches - before;
}

void kva_simt_shared_limit(void (*of)(void), size_t bytes)
{
    if (bytes > KVA_SIMT_SHARED_MOST)
        mistake("KVA_SHARED_LIMIT", 0, "%zu bytes", bytes);
    else
        limits[of] = bytes > KVA_SIMT_SHARED_STATIC ? bytes : KVA_SIMT_SHARED_STATIC;
}

void *kva_simt_shared(const char *file, int line, size_t bytes)
{
    for (const auto &s : now_block.shared)
        if (s.line == line && s.bytes == bytes && strcmp(s.file, file) == 0)
            return s.data;
    now_block.shared_bytes += bytes;
    if (now_block.shared_bytes > KVA_SIMT_SHARED_STATIC ||
        now_block.shared_bytes + now_block.dynamic_bytes > KVA_SIMT_SHARED_MOST)
        mistake(file, line, "%zu bytes of static shared memory beside %zu of the launch",
                now_block.shared_bytes, now_block.dynamic_bytes);
    uint8_t *data = take_shared(bytes);
    now_block.shared.push_back({file, line, bytes, data});
    return data;
}

void *kva_simt_dynamic(void)
{
    return now_block.dynamic;
}

unsigned kva_simt_lane(void)
{
    return (unsigned)now->index % 32;
}

void kva_simt_barrier(const char *file, int line)
{
    if (now_block.waiting == 0) {
        now_block.file = file;
        now_block.line = line;
    } else if (now_block.line != line || strcmp(now_block.file, file) != 0) {
        mistake(file, line, "meets the barrier of %s:%d", now_block.file, now_block.line);
    }
    now->file = file;
    now->line = line;
    now->st = AT_BARRIER;
    now_block.waiting++;
    release_barrier();
    pause(false); /* the last one too gives the others a turn, so that orders differ */
}

namespace
{

/* The mask without what it may not name, each told. */
unsigned checked_mask(unsigned mask, const warp &w, const char *file, int line)
{
    unsigned lane = kva_simt_lane(), exist = lanes_of(now, (int)now_block.fibers.size());

    if (!(mask >> lane & 1))
        mistake(file, line, "lane %u is not in its own mask %08x", lane, mask);
    if (mask & ~exist)
        mistake(file, line, "the mask %08x names lanes that do not exist", mask);
    if (mask & exist & w.ended)
        mistake(file, line, "the mask %08x names lane %d, which has ended", mask,
                __builtin_ctz(mask & exist & w.ended));
    return ((mask & exist) | 1u << lane) & ~w.ended;
}

/* The operation this lane takes part in: one that waits for it, or a new one. NULL when
 * the one that waits is another. */
collective *join(warp &w, enum kva_simt_op op, unsigned mask, size_t bytes,
                 const char *file, int line)
{
    unsigned bit = 1u << kva_simt_lane();
    collective *empty = nullptr;

    for (auto &c : w.ops) {
        if (!c->used) {
            empty = c.get();
            continue;
        }
        if (!(c->mask & bit) || c->arrived & bit)
            continue;
        /* with another mask it may be a later one of lanes that are ahead */
        if (c->mask != mask)
            continue;
        if (c->op == op && c->bytes == bytes && c->line == line &&
            strcmp(c->file, file) == 0)
            return c.get();
        mistake(file, line, "operation %d, mask %08x meets operation %d of %s:%d",
                (int)op, mask, (int)c->op, c->file, c->line);
        return nullptr;
    }
    if (!empty) {
        w.ops.push_back(std::make_unique<collective>());
        empty = w.ops.back().get();
    }
    empty->used = true;
    empty->op = op;
    empty->mask = mask;
    empty->arrived = empty->left = 0;
    empty->bytes = bytes;
    empty->file = file;
    empty->line = line;
    return empty;
}

} // namespace

const uint8_t *kva_simt_warp(enum kva_simt_op op, unsigned mask, const void *in,
                             size_t bytes, const char *file, int line)
{
    static const poison nothing;
    warp &w = now_block.warps[(size_t)(now->index / 32)];
    unsigned lane = kva_simt_lane(), bit = 1u << lane;

    mask = checked_mask(mask, w, file, line);
    collective *c = join(w, op, mask, bytes, file, line);
    if (!c)
        return nothing.data;
    if (c->arrived == 0 && mask != 0xffffffffu)
        memset(c->data, 0xff, sizeof c->data);
    if (bytes)
        memcpy(c->data[lane], in, bytes);
    c->arrived |= bit;
    now->file = file;
    now->line = line;
    if (c->arrived != c->mask) {
        now->st = IN_WARP;
        now->at = c;
        pause(false);
        now->at = nullptr;
    } else {
        complete(c, now->index / 32);
    }
    c->left |= bit;
    if (c->left == c->mask)
        c->used = false; /* what it holds stays until the next operation starts */
    return c->data[0];
}

void kva_simt_bad_lane(int lane, unsigned mask, const char *file, int line)
{
    mistake(file, line, "reads lane %d, which is not in the mask %08x", lane, mask);
}

/* ---- asynchronous copies ---- */

void kva_async16(void *shared, const void *global)
{
    uint8_t touch[16];

    if (((uintptr_t)shared | (uintptr_t)global) % 16)
        mistake(kernel, 0, "an asynchronous copy that is not aligned to 16 bytes");
    /* a sanitizer tells of either end here, where the kernel's line is on the stack */
    memcpy(touch, global, sizeof touch);
    asm volatile("" : : "r"(touch) : "memory");
    memcpy(touch, shared, sizeof touch);
    asm volatile("" : : "r"(touch) : "memory");
    /* a device may do it at any time from here to the wait: the ends of that are tried */
    if (order == SIMT_SHUFFLE_B)
        memcpy(shared, global, sizeof touch);
    now->copies.push_back({shared, order == SIMT_SHUFFLE_B ? nullptr : global});
}

void kva_async_commit(void)
{
    now->commits.push_back(now->copies.size());
}

void kva_simt_async_wait(int newest)
{
    size_t groups = now->commits.size(), n;

    if (groups <= (size_t)newest)
        return;
    groups -= (size_t)newest;
    n = now->commits[groups - 1];
    for (size_t i = 0; i < n; i++)
        if (now->copies[i].from != nullptr)
            memcpy(now->copies[i].to, now->copies[i].from, 16);
    now->copies.erase(now->copies.begin(), now->copies.begin() + (ptrdiff_t)n);
    now->commits.erase(now->commits.begin(), now->commits.begin() + (ptrdiff_t)groups);
    for (size_t &c : now->commits)
        c -= n;
}

/* ---- tensor operation: every lane computes its four outputs from the fragments ---- */

void kva_simt_mma(float d[4], const uint32_t a[4], const uint32_t b[2], const char *file,
                  int line)
{
    float in[12];
    unsigned lane = kva_simt_lane(), group = lane / 4, t = lane % 4;

    /* in: word w of a, then of b, as its low and its high half */
    for (int w = 0; w < 6; w++) {
        uint32_t u = w < 4 ? a[w] : b[w - 4];

        in[2 * w] = kva_half_float((uint16_t)u);
        in[2 * w + 1] = kva_half_float((uint16_t)(u >> 16));
    }
    const uint8_t *all = kva_simt_warp(SIMT_MMA, 0xffffffffu, in, sizeof in, file, line);
    auto of = [all](unsigned from) {
        return (const float *)(const void *)(all + KVA_SIMT_LANE * from);
    };
    for (unsigned i = 0; i < 4; i++) {
        unsigned col = 2 * t + (i & 1), low = i < 2 ? 0 : 2; /* rows group, group + 8 */

        for (unsigned k = 0; k < 16; k++) {
            unsigned from = k % 8 / 2, odd = k & 1, high = k >= 8;
            float x = of(group * 4 + from)[low + 4 * high + odd]; /* A[row][k] */
            float y = of(col * 4 + from)[8 + 2 * high + odd];     /* B[k][col] */

            d[i] += x * y;
        }
    }
}

void kva_simt_load_matrix(uint32_t r[4], const void *row, bool turned, const char *file,
                          int line)
{
    unsigned lane = kva_simt_lane(), group = lane / 4, t = lane % 4;
    uint16_t in[8];

    if ((uintptr_t)row % 16)
        mistake(file, line, "a row of a matrix that is not aligned to 16 bytes");
    memcpy(in, row, sizeof in);
    const uint8_t *all = kva_simt_warp(SIMT_LOAD, 0xffffffffu, in, sizeof in, file, line);
    auto at = [all](unsigned tile, unsigned i, unsigned j) {
        return (uint32_t)((const uint16_t *)(const void *)(all + KVA_SIMT_LANE *
                                                                     (8 * tile + i)))[j];
    };
    for (unsigned i = 0; i < 4; i++)
        r[i] = turned ? at(i, 2 * t, group) | at(i, 2 * t + 1, group) << 16
                      : at(i, group, 2 * t) | at(i, group, 2 * t + 1) << 16;
}

/* ---- f16 ---- */

float kva_half_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;

    if (e == 31)
        return kva_bits_float(sign | 0x7f800000u | m << 13);
    if (e == 0) {
        float f = (float)m * 0x1p-24f;

        return sign ? -f : f;
    }
    return kva_bits_float(sign | (e + 112) << 23 | m << 13);
}

uint16_t kva_float_half(float f)
{
    uint32_t u = kva_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffffu;

    if (a > 0x7f800000u)
        return (uint16_t)(sign | 0x7fff);
    if (a >= 0x477ff000u) /* rounds to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (a < 0x38800000u) { /* subnormal or zero: the addition rounds to even */
        float m = kva_bits_float(a) + 0.5f;

        return (uint16_t)(sign | (kva_bits(m) - 0x3f000000u));
    }
    a += 0xc8000fffu + (a >> 13 & 1);
    return (uint16_t)(sign | a >> 13);
}

/* ---- control ---- */

void kva_simt_set_order(enum kva_simt_order o)
{
    order = o;
}

int kva_simt_errors(void)
{
    int n = errors;

    errors = shown = 0;
    return n;
}

int kva_simt_mutant(void)
{
    static const char *const text = getenv("KVA_MUTANT");
    static const int n = text ? (int)strtol(text, nullptr, 10) : 0;

    return n;
}

const char *kva_simt_first(void)
{
    return first;
}

void kva_simt_quiet(bool q)
{
    quiet = q;
}

void kva_simt_any_memory(bool any)
{
    any_memory = any;
}

uint64_t kva_simt_switches(void)
{
    return switches;
}
