/* SPDX-License-Identifier: GPL-3.0-or-later */
/* simt.h - runs CUDA kernels on the host, thread by thread, and reports their mistakes.
 *
 * Test code only. A kernel is an ordinary function; each CUDA thread is a fiber with a
 * stack of its own. The threads of a block run until they wait (barrier, warp operation),
 * in an order the test chooses; blocks run one after another, in an order too. What holds
 * on a device must hold in every order, bit for bit.
 *
 * Reported, with file and line: a lane outside its own mask, a mask that names a lane
 * which has ended, two different warp operations or masks that meet, a shuffle from a
 * lane outside the mask, barriers of two places that meet, a deadlock, asynchronous
 * copies nobody waited for, a launch a device would refuse, an argument that points to
 * the stack or into the program, a launch from within a kernel. Shared memory is refilled
 * with 0xFF (NaN) for each block and has its exact size, so that the address sanitizer
 * sees overruns; an asynchronous copy happens at its wait, in one of the orders when it
 * is started.
 *
 * Not modelled: KVA_SIMT_LIMITS. */
#ifndef KVA_SIMT_H
#define KVA_SIMT_H

#include "tests/simt/control.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tuple>
#include <type_traits>
#include <utility>

struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
    {
    }
};

/* Shared memory of a block: what every device has, and the most that every one of 8.0 or
 * later lends to a kernel that asked, with the static. */
constexpr size_t KVA_SIMT_SHARED_STATIC = 48 << 10, KVA_SIMT_SHARED_MOST = 99 << 10;

/* ---- what the shim expands to ---- */

struct kva_simt_thread {
    dim3 thread, block, block_dim, grid_dim;
};
extern kva_simt_thread *kva_simt_now;

#define threadIdx (kva_simt_now->thread)
#define blockIdx  (kva_simt_now->block)
#define blockDim  (kva_simt_now->block_dim)
#define gridDim   (kva_simt_now->grid_dim)

#define KVA_KERNEL(threads)            static void
#define KVA_KERNEL_OF(threads, blocks) static void
#define KVA_DEVICE                     static inline
#define KVA_SHARED(type, name, n)                                                        \
    type *name = (type *)kva_simt_shared(__FILE__, __LINE__, sizeof(type) * (n))
#define KVA_DYN_SHARED(type, name) type *name = (type *)kva_simt_dynamic()

void *kva_simt_shared(const char *file, int line, size_t bytes);
void *kva_simt_dynamic(void);

typedef void (*kva_simt_body)(void *closure);
/* Runs the grid to its end, or to a deadlock. `kernel` tells kernels apart. */
void kva_simt_run(const char *name, void (*kernel)(void), dim3 grid, dim3 block,
                  size_t shared, kva_simt_body body, void *closure);
/* The most dynamic shared memory a launch of the kernel may ask for. */
void kva_simt_shared_limit(void (*kernel)(void), size_t bytes);
#define KVA_SHARED_LIMIT(k, bytes) kva_simt_shared_limit((void (*)(void))(k), (bytes))

/* A launch held back: whoever holds it copies `args` and calls run later. Or it copies
 * the arguments one by one, as a runtime of a device takes them, and calls run_each. */
struct kva_simt_held {
    const char *name;
    void (*kernel)(void);
    dim3 grid, block;
    size_t shared;
    void (*run)(const kva_simt_held *h, void *args);
    const void *args;
    size_t bytes;
    void *stream;
    void (*run_each)(const kva_simt_held *h, void *const *arg);
    const void *const *arg; /* n pointers, of `size` bytes each */
    const size_t *size;
    size_t n;
};
/* Tells of an argument that points, or holds words that point, to the stack of this
 * thread or into the program: memory no device reaches. */
void kva_simt_argument(const char *name, const void *arg, size_t bytes);
template <typename T> inline void kva_simt_argument(const char *name, T arg)
{
    if constexpr (!std::is_arithmetic_v<T> && !std::is_enum_v<T>) {
        __builtin_clear_padding(&arg); /* which may hold half of an old pointer */
        kva_simt_argument(name, &arg, sizeof arg);
    }
}
/* Told before a grid runs and after; NULL: nobody wants to know. */
extern void (*kva_simt_around)(bool runs);
/* NULL: launches run at once. False: not this one. */
extern bool (*kva_simt_hold)(const kva_simt_held *h);

/* A launch: the kernel, and its arguments, which live as long as the grid runs. */
template <typename... P> struct kva_simt_launch {
    const char *name;
    dim3 grid, block;
    size_t shared;
    void *stream;
    void (*kernel)(P...);
    std::tuple<P...> *args;

    kva_simt_launch(const char *n, dim3 g, dim3 b, size_t s, void *st, void (*k)(P...))
        : name(n), grid(g), block(b), shared(s), stream(st), kernel(k), args(nullptr)
    {
    }
    static void call(void *self)
    {
        kva_simt_launch *l = static_cast<kva_simt_launch *>(self);

        std::apply(l->kernel, *l->args);
    }
    static void run(const kva_simt_held *h, void *args)
    {
        kva_simt_launch l(h->name, h->grid, h->block, h->shared, h->stream,
                          (void (*)(P...))h->kernel);

        l.args = static_cast<std::tuple<P...> *>(args);
        kva_simt_run(l.name, h->kernel, l.grid, l.block, l.shared, call, &l);
    }
    template <size_t... I>
    static void gather(const kva_simt_held *h, void *const *arg,
                       std::index_sequence<I...>)
    {
        std::tuple<P...> all(*static_cast<P *>(arg[I])...);

        run(h, &all);
    }
    static void run_each(const kva_simt_held *h, void *const *arg)
    {
        gather(h, arg, std::index_sequence_for<P...>());
    }
    template <size_t... I>
    static bool held(kva_simt_held *h, const std::tuple<P...> &all,
                     std::index_sequence<I...>)
    {
        const void *const arg[] = {&std::get<I>(all)...};
        const size_t size[] = {sizeof(P)...};

        h->arg = arg;
        h->size = size;
        h->n = sizeof...(P);
        return kva_simt_hold(h);
    }
    template <typename... A> void operator()(A... a)
    {
        std::tuple<P...> all(a...);
        kva_simt_held h = {name,    (void (*)(void))kernel,
                           grid,    block,
                           shared,  run,
                           &all,    sizeof all,
                           stream,  run_each,
                           nullptr, nullptr,
                           0};

        std::apply([this](const P &...x) { (kva_simt_argument(name, x), ...); }, all);
        if (kva_simt_hold && held(&h, all, std::index_sequence_for<P...>()))
            return;
        args = &all;
        kva_simt_run(name, (void (*)(void))kernel, grid, block, shared, call, this);
    }
};
/* A template with several parameters is launched through a variable: auto k = f<64,
 * true>; */
#define KVA_LAUNCH(k, grid, block, shared, stream, ...)                                  \
    kva_simt_launch(#k, (grid), (block), (shared), (stream), k)(__VA_ARGS__)

/* ---- barriers and warp operations ---- */

void kva_simt_barrier(const char *file, int line);
enum kva_simt_op { SIMT_SYNC, SIMT_SHUFFLE, SIMT_BALLOT, SIMT_MMA, SIMT_LOAD };
enum { KVA_SIMT_LANE = 64 }; /* the most bytes a lane gives */
/* One lane's part of a warp operation: gives `in` (bytes), gets what all lanes of the
 * mask gave, lane i at KVA_SIMT_LANE * i; valid until this thread's next call of the
 * emulator. After a mistake: 0xFF. */
const uint8_t *kva_simt_warp(enum kva_simt_op op, unsigned mask, const void *in,
                             size_t bytes, const char *file, int line);
void kva_simt_bad_lane(int lane, unsigned mask, const char *file, int line);
unsigned kva_simt_lane(void);

#define __syncthreads() kva_simt_barrier(__FILE__, __LINE__)
#define __syncwarp(...) kva_simt_syncwarp(__FILE__, __LINE__)(__VA_ARGS__)
struct kva_simt_syncwarp {
    const char *file;
    int line;
    kva_simt_syncwarp(const char *f, int l) : file(f), line(l)
    {
    }
    void operator()(unsigned mask = 0xffffffffu) const
    {
        kva_simt_warp(SIMT_SYNC, mask, NULL, 0, file, line);
    }
};

template <typename T>
static inline T kva_simt_shuffle(unsigned mask, T v, int from, bool own, const char *file,
                                 int line)
{
    static_assert(sizeof v == 4 || sizeof v == 8, "a shuffle moves 4 or 8 bytes");
    const uint8_t *all = kva_simt_warp(SIMT_SHUFFLE, mask, &v, sizeof v, file, line);

    if (own)
        return v;
    if (from < 0 || from > 31 || !(mask >> from & 1)) {
        kva_simt_bad_lane(from, mask, file, line);
        from = 0; /* any value: NaN when nothing was given */
    }
    memcpy(&v, all + KVA_SIMT_LANE * from, sizeof v);
    return v;
}
#define __shfl_sync(mask, v, lane)                                                       \
    kva_simt_shuffle((mask), (v), (int)(lane)&31, false, __FILE__, __LINE__)
#define __shfl_xor_sync(mask, v, x)                                                      \
    kva_simt_shuffle((mask), (v), (int)kva_simt_lane() ^ (int)(x), false, __FILE__,      \
                     __LINE__)
/* beyond the warp a lane keeps its own value */
#define __shfl_down_sync(mask, v, d)                                                     \
    kva_simt_shuffle((mask), (v), (int)kva_simt_lane() + (int)(d),                       \
                     (int)kva_simt_lane() + (int)(d) > 31, __FILE__, __LINE__)
#define __shfl_up_sync(mask, v, d)                                                       \
    kva_simt_shuffle((mask), (v), (int)kva_simt_lane() - (int)(d),                       \
                     (int)kva_simt_lane() - (int)(d) < 0, __FILE__, __LINE__)
static inline unsigned kva_simt_ballot(unsigned mask, bool p, const char *file, int line)
{
    uint8_t in = p;
    unsigned bits = 0;
    const uint8_t *all = kva_simt_warp(SIMT_BALLOT, mask, &in, 1, file, line);

    for (int i = 0; i < 32; i++)
        if (mask >> i & 1 && all[KVA_SIMT_LANE * i] == 1)
            bits |= 1u << i;
    return bits;
}
#define __ballot_sync(mask, p) kva_simt_ballot((mask), (p) != 0, __FILE__, __LINE__)
#define __any_sync(mask, p)    (__ballot_sync(mask, p) != 0)
#define __all_sync(mask, p)    (__ballot_sync(mask, p) == (unsigned)(mask))

/* Never on floats: their sum would depend on the order. */
template <typename T> static inline T atomicAdd(T *at, T v)
{
    static_assert(std::is_integral<T>::value, "atomics are on integers");
    T old = *at;

    *at = (T)(old + v);
    return old;
}
template <typename T> static inline T atomicMax(T *at, T v)
{
    static_assert(std::is_integral<T>::value, "atomics are on integers");
    T old = *at;

    *at = v > old ? v : old;
    return old;
}
template <typename T> static inline T atomicOr(T *at, T v)
{
    static_assert(std::is_integral<T>::value, "atomics are on integers");
    T old = *at;

    *at = (T)(old | v);
    return old;
}
template <typename T> static inline T atomicExch(T *at, T v)
{
    static_assert(std::is_integral<T>::value, "atomics are on integers");
    T old = *at;

    *at = v;
    return old;
}

/* ---- numbers ---- */

static inline uint32_t kva_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return u;
}
static inline float kva_bits_float(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}
/* the host does not contract (-ffp-contract=off) */
static inline float kva_mul(float a, float b)
{
    return a * b;
}
static inline float kva_add(float a, float b)
{
    return a + b;
}
static inline float kva_sub(float a, float b)
{
    return a - b;
}
float kva_half_float(uint16_t h);
uint16_t kva_float_half(float f);
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
template <typename T> static inline T __ldg(const T *p)
{
    return *p;
}

/* ---- asynchronous copies and tensor operation ---- */

void kva_async16(void *shared, const void *global);
void kva_async_commit(void);
void kva_simt_async_wait(int newest);
template <int n> static inline void kva_async_wait(void)
{
    kva_simt_async_wait(n);
}
void kva_simt_mma(float d[4], const uint32_t a[4], const uint32_t b[2], const char *file,
                  int line);
#define kva_mma_f16(d, a, b) kva_simt_mma((d), (a), (b), __FILE__, __LINE__)
void kva_simt_load_matrix(uint32_t r[4], const void *row, bool turned, const char *file,
                          int line);
#define kva_load_matrix(r, row)                                                          \
    kva_simt_load_matrix((r), (row), false, __FILE__, __LINE__)
#define kva_load_matrix_turned(r, row)                                                   \
    kva_simt_load_matrix((r), (row), true, __FILE__, __LINE__)

#endif
