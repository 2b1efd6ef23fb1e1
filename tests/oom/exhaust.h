/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exhaust.h - out of memory everywhere: of an operation the first, second, third, ...
 * allocation fails until none is left to fail.
 *
 * Each time the answer is KVA_ENOMEM with a message, nothing is leaked (heap in use
 * before and after; under the address sanitizer its leak check every few tries), and what
 * succeeds is right. What a failure must leave usable is used afterwards. */
#ifndef KVA_TESTS_OOM_EXHAUST_H
#define KVA_TESTS_OOM_EXHAUST_H

#include "tests/db/fixture.h"

#include <jansson.h>
#include <malloc.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#define LEAKED(n) ((n) % 32 == 0 && __lsan_do_recoverable_leak_check() != 0)
#define IN_USE()  ((size_t)0)
#elif defined(__SANITIZE_THREAD__)
#define LEAKED(n) false
#define IN_USE()  ((size_t)0)
#else
#define LEAKED(n)   false
#define IN_USE()    (mallinfo2().uordblks + mallinfo2().hblkhd)
#define COUNTS_HEAP 1
#endif

enum { MOST = 100000 };

/* One operation from nothing to nothing: makes, checks and frees. */
typedef enum kva_status (*operation)(void *ctx, struct kva_error *err);

static void quiet(enum kva_log_level level, const char *text, void *ctx)
{
    (void)level;
    (void)text;
    (void)ctx;
}

/* True when the n-th allocation from kva_alloc_fail_at(n) on has happened. */
static bool has_failed(long n)
{
    for (long i = 0; i < n; i++) {
        void *p = kva_calloc(1, 1);

        if (!p)
            return false;
        free(p);
    }
    return true;
}

/* Jansson calls some of its own failures errors of the text: KVA_EFORMAT is as good an
 * answer while it reads one. */
static bool reads_json;

/* SQLite's allocations fail too: tens of thousands, of which `stride` allows every so
 * many after the first. Some it can do without: then the answer may be KVA_OK. */
static bool sqlite_fails;
static int stride = 1;

/* Runs `op` once for every allocation it makes; returns how many there are. */
static long exhaust(const char *name, operation op, void *ctx)
{
    struct kva_error err = {0};
    long n;

    kva_alloc_fail_at(0); /* of a test that was left early */
    /* what is made once and kept, inside and below the program, is made here */
    for (int i = 0; i < 2; i++)
        if (op(ctx, &err) != KVA_OK)
            fail_msg("%s, with all memory: %s", name, err.text);
    for (n = 1; n <= MOST; n += n < 200 ? 1 : stride) {
        size_t before = IN_USE(), after;
        enum kva_status rc;
        bool failed;

        memset(&err, 0, sizeof err);
        kva_alloc_fail_at(n);
        rc = op(ctx, &err);
        failed = has_failed(n);
        kva_alloc_fail_at(0);
        after = IN_USE();
        if (LEAKED(n) || after > before)
            fail_msg("%s: a failure of allocation %ld leaks %zu bytes (%s)", name, n,
                     after - before, err.text);
        if (!failed) {
            if (rc != KVA_OK)
                fail_msg("%s: %s", name, err.text);
            break;
        }
        if (rc == KVA_OK && sqlite_fails)
            continue;
        if (rc == KVA_OK)
            fail_msg("%s: nobody noticed that allocation %ld failed", name, n);
        if ((rc != KVA_ENOMEM && !(reads_json && rc == KVA_EFORMAT)) || err.code != rc ||
            !err.text[0] || strchr(err.text, '\n'))
            fail_msg("%s: allocation %ld failed and the answer is %s, \"%s\"", name, n,
                     kva_status_name(rc), err.text);
    }
    assert_true(n <= MOST);
    if (LEAKED(0))
        fail_msg("%s: a failing allocation leaks", name);
    print_message("%-44s %5ld allocations\n", name, n - 1);
    return n - 1;
}

/* What Jansson allocates is counted and fails like our own. */
static void *json_bytes(size_t n)
{
    return kva_calloc(1, n);
}

/* Freed blocks that the C library keeps in a cache of the thread count as in use: the
 * program starts itself again without that cache. */
static void without_cache(char **argv)
{
#ifdef COUNTS_HEAP
    mallopt(M_MXFAST, 0);
    if (getenv("GLIBC_TUNABLES"))
        return;
    setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
    execv("/proc/self/exe", argv);
#else
    (void)argv;
#endif
}

#endif
