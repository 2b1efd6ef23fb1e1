/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kva.c - status and error, counted allocation, log, clocks.
 *
 * Buffers, arenas and maps are in kva_buf.c, hashes and random numbers in kva_hash.c,
 * text and files in kva_text.c. */
#include "kva.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct {
    const char *name, *text;
    int exit_code;
} STATUS[] = {{"OK", "success", 0},
#define KVA_X(name, code, text) {"E" #name, text, code},
              KVA_STATUS_MAP(KVA_X)
#undef KVA_X
};
#define N_STATUS (sizeof STATUS / sizeof STATUS[0])

const char *kva_status_name(enum kva_status code)
{
    return (size_t)code < N_STATUS ? STATUS[code].name : "E?";
}

const char *kva_status_text(enum kva_status code)
{
    return (size_t)code < N_STATUS ? STATUS[code].text : "unknown failure";
}

int kva_status_exit(enum kva_status code)
{
    return (size_t)code < N_STATUS ? STATUS[code].exit_code : 3;
}

/* An error text is one line: it is shown after "kvaudit: " and stored in a column. */
static void flatten(char *s)
{
    for (; *s; s++)
        if (*s == '\n' || *s == '\r')
            *s = ' ';
}

enum kva_status kva_error_set(struct kva_error *err, enum kva_status code,
                              const char *file, int line, const char *fmt, ...)
{
    if (err && err->code == KVA_OK) {
        va_list ap;

        err->code = code;
        err->file = file;
        err->line = line;
        va_start(ap, fmt);
        if (vsnprintf(err->text, sizeof err->text, fmt, ap) < 0)
            err->text[0] = '\0';
        va_end(ap);
        flatten(err->text);
    }
    return code;
}

void kva_context(struct kva_error *err, const char *fmt, ...)
{
    char text[sizeof err->text];
    size_t n, old;
    va_list ap;

    if (!err || err->code == KVA_OK)
        return;
    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0)
        text[0] = '\0';
    va_end(ap);
    flatten(text);
    n = strlen(text);
    if (n > sizeof text - 3)
        n = sizeof text - 3;
    text[n++] = ':';
    text[n++] = ' ';
    /* what does not fit is cut at the end: the outermost context names what the user
     * typed */
    old = strlen(err->text);
    if (old > sizeof text - 1 - n)
        old = sizeof text - 1 - n;
    memcpy(text + n, err->text, old);
    text[n + old] = '\0';
    memcpy(err->text, text, n + old + 1);
}

/* ---- memory: calls until the one that fails; 0 = none will ---- */
static atomic_long fail_at;

static bool told_to_fail(void)
{
    long n = atomic_load_explicit(&fail_at, memory_order_relaxed);

    while (n > 0)
        if (atomic_compare_exchange_weak(&fail_at, &n, n - 1))
            return n == 1;
    return false;
}

void kva_alloc_fail_at(long n)
{
    atomic_store(&fail_at, n > 0 ? n : 0);
}

void *kva_calloc(size_t count, size_t size)
{
    if (told_to_fail())
        return NULL;
    return count && size ? calloc(count, size) : calloc(1, 1);
}

void *kva_realloc(void *old, size_t count, size_t size)
{
    size_t bytes;

    if (told_to_fail() || __builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return realloc(old, bytes ? bytes : 1);
}

void *kva_aligned(size_t bytes)
{
    size_t rounded = (bytes + 63) & ~(size_t)63;
    void *p;

    if (told_to_fail() || rounded < bytes)
        return NULL;
    if (rounded == 0)
        rounded = 64;
    p = aligned_alloc(64, rounded);
    if (p)
        memset(p, 0, rounded);
    return p;
}

/* ---- log ---- */
static struct {
    kva_log_fn fn;
    void *ctx;
    enum kva_log_level level;
} sink = {NULL, NULL, KVA_LOG_WARN};

void kva_log_set(kva_log_fn fn, void *ctx, enum kva_log_level level)
{
    sink.fn = fn;
    sink.ctx = ctx;
    sink.level = level;
}

void kva_log(enum kva_log_level level, const char *fmt, ...)
{
    static const char *const words[] = {"error", "warning", "info", "debug"};
    char text[1024];
    va_list ap;

    if (level > sink.level)
        return;
    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0)
        text[0] = '\0';
    va_end(ap);
    if (sink.fn)
        sink.fn(level, text, sink.ctx);
    else
        fprintf(stderr, "kvaudit: %s: %s\n", words[level], text);
}

/* ---- time, interrupt ---- */
volatile int kva_interrupted;

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;

    if (clock_gettime(id, &t) != 0)
        return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t kva_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t kva_cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t kva_wall_ms(void)
{
    return (int64_t)(clock_ns(CLOCK_REALTIME) / 1000000u);
}
