/* SPDX-License-Identifier: GPL-3.0-or-later */
/* simt.cpp - the emulator: fibers, barriers, warp operations, shared memory.
 *
 * One operating system thread. A fiber switch saves the callee-saved registers of x86-64 and
 * the stack pointer. A block's threads are swept in the chosen order; a sweep in which none
 * could run is a deadlock, and the block is abandoned. */
#include "tests/simt/simt.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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
    const void *from;
};

struct collective { /* one warp operation that lanes are arriving at */
    bool used;
    kva_simt_op op;
    unsigned mask, arrived, left;
    size_t bytes;
    const char *file;
    int line;
    alignas(16) uint8_t data[32][64];
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
    std::vector<copy> open;
    std::vector<std::vector<copy>> groups;
    void *fake; /* the sanitizer's */
};

struct shared_site {
    const char *file;
    int line;
    size_t bytes;
    uint8_t *data;
};

struct block {
    std::vector<fiber *> fibers;
    std::vector<collective> warps; /* 4 a warp: sub-warps may be apart */
    std::vector<shared_site> shared;
    uint8_t *dynamic;
    int alive, waiting;
    kva_simt_body body;
    void *closure;
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
bool quiet;
uint64_t switches;
const char *kernel = "";

uint64_t next_random()
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

__attribute__((format(printf, 3, 4))) void mistake(const char *file, int line, const char *fmt, ...)
{
    va_list ap;

    errors++;
    if (quiet || shown++ >= 8)
        return;
    fprintf(stderr, "simt: %s:%d: %s: ", file, line, kernel);
    if (now)
        fprintf(stderr, "block %u thread %u: ", now->ctx.block.x, now->ctx.thread.x);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
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

/* A lane that ends is missed by operations that name it. */
void lane_ended(const fiber *f)
{
    unsigned bit = 1u << (f->index % 32);
    collective *w = &now_block.warps[(size_t)(f->index / 32) * 4];

    for (int i = 0; i < 4; i++)
        if (w[i].used && (w[i].mask & bit) && !(w[i].arrived & bit))
            mistake(w[i].file, w[i].line, "the mask %08x names lane %d, which has ended",
                    w[i].mask, f->index % 32);
}

} // namespace

extern "C" void kva_simt_entry(void)
{
    fiber *f = now;

#if SIMT_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &main_bottom, &main_size);
#endif
    now_block.body(now_block.closure);
    size_t waiting = f->open.size();
    for (const auto &g : f->groups)
        waiting += g.size();
    if (waiting)
        mistake(kernel, 0, "%zu asynchronous copies were never waited for", waiting);
    f->open.clear();
    f->groups.clear();
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
    __asan_unpoison_memory_region(f->stack + GUARD, STACK);
#endif
    f->index = index;
    f->st = READY;
    f->at = nullptr;
    f->fake = nullptr;
    f->open.clear();
    f->groups.clear();
    /* the frame kva_simt_switch pops: six registers, then the address it returns to; after
     * that `ret` the stack pointer is 8 above a multiple of 16, as at a function's entry */
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

    for (const fiber *f : now_block.fibers)
        if (f->st != DONE && told++ < 4)
            mistake(f->file, f->line, "deadlock: thread %d waits here %s", f->index,
                    f->st == AT_BARRIER ? "at a barrier" : "in a warp operation");
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

void run_block(dim3 grid, dim3 dim, dim3 index, size_t shared)
{
    int n = (int)(dim.x * dim.y * dim.z);
    std::vector<int> at((size_t)n);

    now_block.fibers.clear();
    now_block.warps.assign((size_t)((n + 31) / 32) * 4, collective());
    now_block.alive = n;
    now_block.waiting = 0;
    now_block.dynamic = shared ? (uint8_t *)malloc(shared) : nullptr;
    if (now_block.dynamic)
        memset(now_block.dynamic, 0xff, shared);
    for (int i = 0; i < n; i++) {
        fiber *f = take_fiber(i);
        unsigned u = (unsigned)i;

        f->ctx = {dim3(u % dim.x, u / dim.x % dim.y, u / dim.x / dim.y), index, dim, grid};
        now_block.fibers.push_back(f);
        at[(size_t)i] = i;
    }
    for (bool moved = true, again = false; now_block.alive > 0 && moved; again = true) {
        moved = false;
        sweep_order(at, again);
        for (int i : at)
            if (now_block.fibers[(size_t)i]->st == READY) {
                resume(now_block.fibers[(size_t)i]);
                moved = true;
            }
        if (!moved && now_block.alive > 0)
            deadlock();
    }
    for (fiber *f : now_block.fibers)
        stock.free.push_back(f);
    now_block.fibers.clear();
    for (auto &s : now_block.shared)
        free(s.data);
    now_block.shared.clear();
    free(now_block.dynamic);
    now_block.dynamic = nullptr;
}

} // namespace

void kva_simt_run(const char *name, dim3 grid, dim3 dim, size_t shared, kva_simt_body body,
                  void *closure)
{
    size_t blocks = (size_t)grid.x * grid.y * grid.z, threads = (size_t)dim.x * dim.y * dim.z;
    std::vector<size_t> at(blocks);

    kernel = name;
    if (threads < 1 || threads > 1024 || grid.y > 65535 || grid.z > 65535 || blocks < 1) {
        mistake(name, 0, "a launch of %zu blocks of %zu threads", blocks, threads);
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
    for (size_t b : at)
        run_block(grid, dim,
                  dim3((unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                       (unsigned)(b / grid.x / grid.y)),
                  shared);
    kernel = "";
}

void *kva_simt_shared(const char *file, int line, size_t bytes)
{
    for (const auto &s : now_block.shared)
        if (s.line == line && s.bytes == bytes && strcmp(s.file, file) == 0)
            return s.data;
    uint8_t *data = (uint8_t *)malloc(bytes);
    memset(data, 0xff, bytes);
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
    for (const fiber *f : now_block.fibers)
        if (f->st == AT_BARRIER && (f->line != line || strcmp(f->file, file) != 0)) {
            mistake(file, line, "meets the barrier of %s:%d", f->file, f->line);
            break;
        }
    now->file = file;
    now->line = line;
    now->st = AT_BARRIER;
    now_block.waiting++;
    release_barrier();
    pause(false); /* the last one too gives the others a turn, so that orders differ */
}

void kva_simt_warp(enum kva_simt_op op, unsigned mask, const void *in, size_t bytes, void *all,
                   const char *file, int line)
{
    unsigned lane = kva_simt_lane(), bit = 1u << lane,
             exist = lanes_of(now, (int)now_block.fibers.size());
    collective *w = &now_block.warps[(size_t)(now->index / 32) * 4], *c = nullptr;

    if (!(mask & bit)) {
        mistake(file, line, "lane %u is not in its own mask %08x", lane, mask);
        mask |= bit;
    }
    if (mask & ~exist) {
        mistake(file, line, "the mask %08x names lanes that do not exist", mask);
        mask &= exist;
    }
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1 &&
            now_block.fibers[(size_t)(now->index / 32 * 32 + i)]->st == DONE) {
            mistake(file, line, "the mask %08x names lane %d, which has ended", mask, i);
            mask &= ~(1u << i);
        }
    for (int i = 0; i < 4 && !c; i++)
        if (w[i].used && !(w[i].arrived & bit) && (w[i].mask & bit))
            c = &w[i];
    if (c && (c->mask != mask || c->op != op || c->bytes != bytes || c->line != line)) {
        mistake(file, line, "operation %d, mask %08x meets that of %s:%d (%d, mask %08x)",
                (int)op, mask, c->file, c->line, (int)c->op, c->mask);
        return;
    }
    for (int i = 0; i < 4 && !c; i++)
        if (!w[i].used)
            c = &w[i];
    if (!c) {
        mistake(file, line, "too many warp operations at once");
        return;
    }
    if (!c->used) {
        c->used = true;
        c->op = op;
        c->mask = mask;
        c->arrived = c->left = 0;
        c->bytes = bytes;
        c->file = file;
        c->line = line;
    }
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
        for (int i = 0; i < 32; i++) {
            fiber *f = c->mask >> i & 1
                           ? now_block.fibers[(size_t)(now->index / 32 * 32 + i)]
                           : nullptr;

            if (f && f->at == c)
                f->st = READY;
        }
    }
    if (bytes && all)
        for (unsigned i = 0; i < 32; i++)
            if (c->mask >> i & 1)
                memcpy((uint8_t *)all + i * bytes, c->data[i], bytes);
    c->left |= bit;
    if (c->left == c->mask)
        c->used = false;
}

void kva_simt_bad_lane(int lane, unsigned mask, const char *file, int line)
{
    mistake(file, line, "reads lane %d, which is not in the mask %08x", lane, mask);
}

/* ---- asynchronous copies ---- */

void kva_async16(void *shared, const void *global)
{
    if (((uintptr_t)shared | (uintptr_t)global) % 16)
        mistake(kernel, 0, "an asynchronous copy that is not aligned to 16 bytes");
    now->open.push_back({shared, global});
}

void kva_async_commit(void)
{
    now->groups.push_back(now->open);
    now->open.clear();
}

void kva_simt_async_wait(int newest)
{
    while ((int)now->groups.size() > newest) {
        for (const copy &c : now->groups.front())
            memcpy(c.to, c.from, 16);
        now->groups.erase(now->groups.begin());
    }
}

/* ---- tensor operation: every lane computes its four outputs from the fragments ---- */

void kva_simt_mma(float d[4], const uint32_t a[4], const uint32_t b[2], const char *file,
                  int line)
{
    uint32_t in[6] = {a[0], a[1], a[2], a[3], b[0], b[1]}, all[32][6];
    unsigned lane = kva_simt_lane(), group = lane / 4, t = lane % 4;

    kva_simt_warp(SIMT_MMA, 0xffffffffu, in, sizeof in, all, file, line);
    for (int i = 0; i < 4; i++) {
        unsigned row = group + (i < 2 ? 0u : 8u), col = 2 * t + (unsigned)(i & 1);

        for (unsigned k = 0; k < 16; k++) {
            /* A[row][k] */
            uint32_t aw = all[row % 8 * 4 + k % 8 / 2][(row >= 8 ? 1 : 0) + (k >= 8 ? 2 : 0)];
            /* B[k][col] */
            uint32_t bw = all[col * 4 + k % 8 / 2][4 + (k >= 8 ? 1 : 0)];
            uint16_t x = (uint16_t)(k & 1 ? aw >> 16 : aw), y = (uint16_t)(k & 1 ? bw >> 16 : bw);

            d[i] += kva_half_float(x) * kva_half_float(y);
        }
    }
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

void kva_simt_quiet(bool q)
{
    quiet = q;
}

uint64_t kva_simt_switches(void)
{
    return switches;
}
