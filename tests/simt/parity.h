/* SPDX-License-Identifier: GPL-3.0-or-later */
/* parity.h - the tests of device code: cases, comparisons, orders. C++17, one program a
 * file.
 *
 * A test is TEST(what_holds) { ... CHECK(...); ... }; a failed check ends it.
 * parity_main() runs all of them, or those whose names contain the first argument, and
 * prints what tests/run.sh counts. Random numbers are the same in each run, so that a
 * failure speaks of the change; KVA_SEED=n takes others, KVA_SEED=fresh new ones, and the
 * seed is printed (`make soak` runs many).
 *
 * What a kernel gives must not depend on the order of threads and blocks: in_orders(f)
 * calls f once in each order, compares the bytes that it returns, and fails on any
 * mistake that the emulator tells. Without the emulator (on a device) f is called twice;
 * with KVAUDIT_SMALL in the environment (sanitizers) once.
 */
#ifndef KVA_PARITY_H
#define KVA_PARITY_H

#include <chrono>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#ifdef KVA_HOST_SIMT
#include "tests/simt/simt.h"
#else /* what the tests themselves use of it */
inline uint32_t kva_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return u;
}
inline float kva_bits_float(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}
#endif

struct parity_failure {
};

struct parity_test {
    const char *name;
    void (*run)(void);
    parity_test *next;
};
inline parity_test *parity_first, **parity_last = &parity_first;
inline uint64_t parity_seed, parity_state;

struct parity_register {
    parity_test test;
    parity_register(const char *name, void (*run)(void)) : test{name, run, nullptr}
    {
        *parity_last = &test;
        parity_last = &test.next;
    }
};
#define TEST(name)                                                                       \
    static void test_##name(void);                                                       \
    static parity_register register_##name(#name, test_##name);                          \
    static void test_##name(void)

[[noreturn]] __attribute__((format(printf, 3, 4))) inline void
parity_fail(const char *file, int line, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "%s:%d: error: ", file, line);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    throw parity_failure();
}
#define FAIL(...) parity_fail(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(cond)                                                                      \
    do {                                                                                 \
        if (!(cond))                                                                     \
            FAIL("%s", #cond);                                                           \
    } while (0)
#define CHECK_INT(got, want)                                                             \
    do {                                                                                 \
        long long got_ = (long long)(got), want_ = (long long)(want);                    \
        if (got_ != want_)                                                               \
            FAIL("%s: %lld, should be %lld", #got, got_, want_);                         \
    } while (0)
#define CHECK_NEAR(got, want, tolerance)                                                 \
    do {                                                                                 \
        double got_ = (double)(got), want_ = (double)(want);                             \
        if (!(fabs(got_ - want_) <= (tolerance)))                                        \
            FAIL("%s: %.9g, should be %.9g", #got, got_, want_);                         \
    } while (0)
/* A call of the product: enum kva_status f(..., err), with `err` a struct kva_error. */
#define CHECK_OK(expr)                                                                   \
    do {                                                                                 \
        struct kva_error error_ = {}, *err = &error_;                                    \
        if ((expr) != KVA_OK)                                                            \
            FAIL("%s: %s", #expr, err->text);                                            \
    } while (0)

/* ---- random numbers: xorshift64*, the same on every machine ---- */

inline uint64_t random_bits(void)
{
    parity_state ^= parity_state >> 12;
    parity_state ^= parity_state << 25;
    parity_state ^= parity_state >> 27;
    return parity_state * 0x2545f4914f6cdd1dull;
}
inline int random_below(int n)
{
    return (int)(random_bits() >> 33) % n;
}
/* Uniform in [-1, 1), no subnormals. */
inline float random_float(void)
{
    return (float)((double)(random_bits() >> 40) * 0x1p-23 - 1);
}
inline std::vector<float> random_floats(size_t n, float scale = 1)
{
    std::vector<float> v(n);

    for (float &x : v)
        x = scale * random_float();
    return v;
}

/* ---- memory of the device ---- */

/* A copy that a kernel may read: what lies on the stack or in the program it may not. */
template <typename T, size_t n> inline std::vector<T> on_heap(const T (&x)[n])
{
    return std::vector<T>(x, x + n);
}
template <typename T> inline std::vector<T> on_heap(const T &x)
{
    return std::vector<T>(1, x);
}
/* An address range of which only what is touched takes memory; NULL: refused. */
#ifdef KVA_HOST_SIMT
inline void *parity_range(size_t bytes)
{
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? nullptr : p;
}
inline void parity_range_free(void *p, size_t bytes)
{
    munmap(p, bytes);
}
#else /* tests/device/managed.cpp */
void *parity_range(size_t bytes);
void parity_range_free(void *p, size_t bytes);
#endif

/* ---- comparisons ---- */

/* Largest |got - want|, relative to the largest |want|; a NaN or infinity in `got` counts
 * as infinitely wrong. */
template <typename A, typename B>
inline double worst_error(const A *got, const B *want, size_t n, size_t *where = nullptr)
{
    double top = 0, worst = 0;
    size_t at = 0;

    for (size_t i = 0; i < n; i++)
        top = fmax(top, fabs((double)want[i]));
    for (size_t i = 0; i < n; i++) {
        double e = fabs((double)got[i] - (double)want[i]);

        if (!isfinite((double)got[i]))
            e = HUGE_VAL;
        if (e > worst) {
            worst = e;
            at = i;
        }
    }
    if (where)
        *where = at;
    return top > 0 ? worst / top : worst;
}
/* Sum of squares of the differences over that of `want`: the figure of kernels.md K7. */
template <typename A, typename B>
inline double square_error(const A *got, const B *want, size_t n)
{
    double d = 0, w = 0;

    for (size_t i = 0; i < n; i++) {
        d += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        w += (double)want[i] * (double)want[i];
    }
    return w > 0 ? d / w : d;
}
#define CHECK_CLOSE(got, want, n, tolerance)                                             \
    do {                                                                                 \
        size_t at_ = 0;                                                                  \
        double e_ = worst_error((got), (want), (n), &at_);                               \
        if (!(e_ <= (tolerance)))                                                        \
            FAIL("%s[%zu]: %.9g, should be %.9g (error %.3g)", #got, at_,                \
                 (double)(got)[at_], (double)(want)[at_], e_);                           \
    } while (0)

/* ---- orders ---- */

#ifdef KVA_HOST_SIMT
enum { PARITY_ORDERS = SIMT_ORDERS };
inline void parity_order(int o)
{
    kva_simt_set_order((kva_simt_order)o);
}
inline int parity_mistakes(void)
{
    return kva_simt_errors();
}
#else
enum { PARITY_ORDERS = 2 };
inline void parity_order(int)
{
}
inline int parity_mistakes(void)
{
    return 0;
}
#endif

/* f: std::vector<T> f(void). Its result, the same in every order. */
#define in_orders(...) parity_in_orders(__FILE__, __LINE__, (__VA_ARGS__))
template <typename F> inline auto parity_in_orders(const char *file, int line, F f)
{
    auto first = (parity_order(0), f());

    const int orders = getenv("KVAUDIT_SMALL") ? 1 : PARITY_ORDERS;
    for (int o = 0; o < orders; o++) {
        parity_order(o);
        auto v = o == 0 ? first : f();

        parity_order(0);
        if (int n = parity_mistakes())
            parity_fail(file, line, "order %d: %d mistakes told by the emulator", o, n);
        if (v.size() != first.size())
            parity_fail(file, line, "order %d: another number of results", o);
        for (size_t i = 0; i < v.size(); i++)
            if (memcmp(&v[i], &first[i], sizeof v[i]) != 0)
                parity_fail(file, line, "order %d: result %zu is %.9g, first it was %.9g",
                            o, i, (double)v[i], (double)first[i]);
    }
    return first;
}

/* ---- the program ---- */

inline int parity_main(int argc, char **argv)
{
    const char *seed = getenv("KVA_SEED");
    std::vector<const char *> failed;
    int ran = 0;

    parity_seed = seed == nullptr ? 1 : strtoull(seed, nullptr, 0);
    if (seed != nullptr && strcmp(seed, "fresh") == 0)
        parity_seed =
            (uint64_t)std::chrono::system_clock::now().time_since_epoch().count() ^
            (uint64_t)getpid() << 40;
    printf("seed %llu\n", (unsigned long long)parity_seed);
    for (const parity_test *t = parity_first; t; t = t->next) {
        if (argc > 1 && strstr(t->name, argv[1]) == nullptr)
            continue;
        printf("[ RUN      ] %s\n", t->name);
        fflush(stdout);
        /* each test its own stream, so that a test alone repeats it */
        parity_state = parity_seed * 2 + 1;
        for (const char *c = t->name; *c; c++)
            parity_state =
                (parity_state ^ (uint64_t)(unsigned char)*c) * 0x100000001b3ull;
        parity_state |= 1;
        (void)random_bits();
        ran++;
        bool good = true;
        try {
            t->run();
            if (int n = parity_mistakes())
                parity_fail(t->name, 0, "%d mistakes told by the emulator", n);
        } catch (const parity_failure &) {
            good = false;
            parity_order(0);
            (void)parity_mistakes();
            failed.push_back(t->name);
        }
        printf(good ? "[       OK ] %s\n" : "[  FAILED  ] %s\n", t->name);
        fflush(stdout);
    }
#ifdef KVA_HOST_SIMT
    printf("%s\n", KVA_SIMT_LIMITS);
    printf("%.1f million switches\n", (double)kva_simt_switches() * 1e-6);
#endif
    printf("[  PASSED  ] %zu test(s).\n", (size_t)ran - failed.size());
    if (!failed.empty()) {
        printf("[  FAILED  ] %zu test(s), seed %llu:\n", failed.size(),
               (unsigned long long)parity_seed);
        for (const char *f : failed)
            printf("[  FAILED  ] %s\n", f);
        printf("\n %zu FAILED TEST(S)\n", failed.size());
    }
    return failed.empty() && ran > 0 ? 0 : 1;
}
#define PARITY_MAIN                                                                      \
    int main(int argc, char **argv)                                                      \
    {                                                                                    \
        return parity_main(argc, argv);                                                  \
    }

#endif
