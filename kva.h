/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kva.h - the shared vocabulary: status and error, memory, text, hashes, random numbers,
 * log.
 *
 * Knows nothing of models, caches or databases. Everything here is the caller's: a struct
 * is initialised and released by whoever declares it. Nothing is thread-safe unless said;
 * the only mutable globals of the program are the log sink and the interrupt flag. */
#ifndef KVA_H
#define KVA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVA_VERSION "0.1.0"

/* Bumped by hand when the meaning of a stored cell changes (a token, a score, a kept
 * set). It is part of every cell digest, so older outcomes stay what they were. */
#define KVA_SEMANTICS 1

/* ---- status and error ---- */

/* One row per failure class: suffix, process exit code, words for people. */
#define KVA_STATUS_MAP(X)                                                                \
    X(NOMEM, 3, "out of memory")                                                         \
    X(IO, 3, "input/output error")                                                       \
    X(FORMAT, 3, "malformed data")                                                       \
    X(UNSUPPORTED, 3, "not supported")                                                   \
    X(NETWORK, 3, "network error")                                                       \
    X(DB, 3, "database error")                                                           \
    X(DAMAGED, 4, "a damaged database")                                                  \
    X(INVALID, 2, "invalid argument")                                                    \
    X(BUDGET, 3, "memory budget exceeded")                                               \
    X(TRUNCATED, 5, "prompt does not fit the model's context")                           \
    X(NONFINITE, 5, "a score or logit is not a finite number")                           \
    X(NOEFFECT, 5,                                                                       \
      "the method kept everything although its budget is below the context")             \
    X(CONFLICT, 4, "conflicting results")                                                \
    X(MISSING, 5, "results are missing")                                                 \
    X(TOOL, 6, "a required program is missing")                                          \
    X(NO, 1, "the answer is no")                                                         \
    X(INTERRUPTED, 130, "interrupted")

enum kva_status {
    KVA_OK = 0,
#define KVA_X(name, code, text) KVA_E##name,
    KVA_STATUS_MAP(KVA_X)
#undef KVA_X
};

/* Caller-owned. The place that finds a failure writes it, the first one wins, callers add
 * context. Zero-initialised means "nothing failed". `err` may be NULL in every function.
 */
struct kva_error {
    enum kva_status code;
    int line;
    const char *file; /* where it was found; shown by --verbose */
    char text[512];   /* no newline, no program name */
};

/* Records the failure (unless one is already recorded) and yields `code`. */
#define KVA_FAIL(err, code, ...)                                                         \
    kva_error_set((err), (code), __FILE__, __LINE__, __VA_ARGS__)
/* Returns at once on failure: for functions that own nothing. */
#define KVA_TRY(expr)                                                                    \
    do {                                                                                 \
        enum kva_status kva_try_status_ = (expr);                                        \
        if (kva_try_status_ != KVA_OK)                                                   \
            return kva_try_status_;                                                      \
    } while (0)
/* Jumps to `out` on failure: for functions that clean up. Needs `enum kva_status rc`. */
#define KVA_GO(expr)                                                                     \
    do {                                                                                 \
        rc = (expr);                                                                     \
        if (rc != KVA_OK)                                                                \
            goto out;                                                                    \
    } while (0)

enum kva_status kva_error_set(struct kva_error *err, enum kva_status code,
                              const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Prepends "CONTEXT: " to a recorded failure; does nothing when none is recorded. */
void kva_context(struct kva_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
const char *kva_status_name(enum kva_status code); /* "ENOMEM", "OK" */
const char *kva_status_text(enum kva_status code);
int kva_status_exit(enum kva_status code); /* process exit code, ruling R21 */

/* ---- memory ---- */

/* calloc/realloc that can be told to fail: kva_alloc_fail_at(n) makes the n-th call from
 * now on fail once (tests/oom); 0 switches that off. Free with free(). */
void *kva_calloc(size_t count, size_t size);
void *kva_realloc(void *old, size_t count, size_t size);
void kva_alloc_fail_at(long n);
/* 64-byte aligned, zeroed; free with free(). */
void *kva_aligned(size_t bytes);

/* Scratch that dies together. Everything handed out is zeroed and 16-byte aligned. */
struct kva_arena {
    struct kva_arena_block *head;
    size_t used_bytes; /* handed out since init or reset */
    size_t peak_bytes; /* largest used_bytes ever */
};
void kva_arena_init(struct kva_arena *a);
void *kva_arena_alloc(struct kva_arena *a, size_t count,
                      size_t size); /* NULL: out of memory */
char *kva_arena_strdup(struct kva_arena *a, const char *s);
char *kva_arena_strndup(struct kva_arena *a, const char *s, size_t n);
char *kva_arena_printf(struct kva_arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void kva_arena_reset(struct kva_arena *a); /* keeps the largest block */
void kva_arena_release(struct kva_arena *a);

/* Growable bytes with a hard ceiling; always NUL-terminated behind `len`. After a failed
 * append `failed` stays true and further appends do nothing: check once at the end. */
struct kva_buf {
    char *data;
    size_t len, cap, ceiling;
    bool failed;
};
void kva_buf_init(struct kva_buf *b, size_t ceiling_bytes); /* 0: 1 GiB */
void kva_buf_add(struct kva_buf *b, const void *bytes, size_t n);
void kva_buf_puts(struct kva_buf *b, const char *s);
void kva_buf_putc(struct kva_buf *b, char c);
void kva_buf_printf(struct kva_buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void kva_buf_vprintf(struct kva_buf *b, const char *fmt, va_list ap);
void kva_buf_release(struct kva_buf *b);
/* KVA_ENOMEM when an append failed. */
enum kva_status kva_buf_status(const struct kva_buf *b, struct kva_error *err);

/* Bytes -> int64 hash map (open addressing, keys copied). */
struct kva_map {
    struct kva_map_slot *slots;
    size_t cap, count;
};
void kva_map_init(struct kva_map *m);
void kva_map_release(struct kva_map *m);
/* Sets the value; *was_new (may be NULL) tells whether the key is new. */
enum kva_status kva_map_put(struct kva_map *m, const void *key, size_t len, int64_t value,
                            bool *was_new, struct kva_error *err);
bool kva_map_get(const struct kva_map *m, const void *key, size_t len, int64_t *value);

/* ---- hashes and random numbers ---- */

#define KVA_FNV_OFFSET 0xcbf29ce484222325ULL
uint64_t kva_fnv1a64(const void *bytes, size_t n);
uint64_t kva_fnv1a64_str(const char *s);
uint64_t kva_fnv1a64_more(uint64_t h, const void *bytes, size_t n);
/* SplitMix64 finaliser of models.md 9.2: adds the golden gamma first. */
uint64_t kva_mix64(uint64_t z);

struct kva_sha256 {
    uint32_t state[8];
    uint64_t n_bytes;
    uint8_t block[64];
};
void kva_sha256_init(struct kva_sha256 *h);
void kva_sha256_add(struct kva_sha256 *h, const void *bytes, size_t n);
void kva_sha256_end(struct kva_sha256 *h, uint8_t out[32]);
void kva_sha256_of(const void *bytes, size_t n, uint8_t out[32]);
/* SHA-1, only to recognise git's blobs: their id is that of "blob SIZE\0" and the bytes.
 */
struct kva_sha1 {
    uint32_t state[5];
    uint64_t n_bytes;
    uint8_t block[64];
};
void kva_sha1_init(struct kva_sha1 *h);
void kva_sha1_add(struct kva_sha1 *h, const void *bytes, size_t n);
void kva_sha1_end(struct kva_sha1 *h, uint8_t out[20]);
void kva_hex(const uint8_t *bytes, size_t n, char *out /* 2n+1 */);

/* SplitMix64 stream (tasks-ruler.md 7). Seeded per item, never from the clock. */
struct kva_rng {
    uint64_t x;
};
uint64_t kva_rng_next(struct kva_rng *r);
uint64_t kva_rng_below(struct kva_rng *r, uint64_t n); /* uniform in [0, n), n > 0 */
double kva_rng_unit(struct kva_rng *r);                /* [0, 1), 53 bits */

/* ---- text and files ---- */

/* Length of the valid UTF-8 sequence at s (1..4), 0 when invalid. */
int kva_utf8_len(const char *s, size_t n);
/* Columns it takes on a terminal: its code points (wide letters are rare). NULL: 0. */
int kva_utf8_columns(const char *s);
/* Copies, replacing each maximal invalid subsequence by U+FFFD; returns how many there
 * were. */
size_t kva_utf8_clean(const char *s, size_t n, struct kva_buf *out);
/* Edit distance, for "did you mean"; stops counting above 9. */
int kva_edit_distance(const char *a, const char *b);
/* Nearest of a NULL-terminated list within distance 3 (and half the length), or NULL. */
const char *kva_nearest(const char *word, const char *const *words);
/* Whole number / real number of the entire string, nothing left over. */
bool kva_parse_i64(const char *s, int64_t *out);
bool kva_parse_f64(const char *s, double *out); /* C locale, finite */
enum kva_status kva_read_file(const char *path, size_t ceiling_bytes, struct kva_buf *out,
                              struct kva_error *err);
/* Writes beside `path`, syncs and renames: the old file survives every failure. */
enum kva_status kva_write_file(const char *path, const void *bytes, size_t n,
                               struct kva_error *err);
enum kva_status kva_mkdirs(const char *path, struct kva_error *err);
/* $KVAUDIT_CACHE, else $XDG_CACHE_HOME/kvaudit, else ~/.cache/kvaudit. */
enum kva_status kva_cache_dir(struct kva_buf *out, struct kva_error *err);

/* ---- how text becomes tokens (ruling R20: visibility never changes it) ---- */

/* NULL or all zero: the model's chat template, as kvpress splits it. What a task asks for
 * and a model follows; part of the task's digest. */
struct kva_feed {
    bool raw;           /* no template; BOS where the model adds one */
    bool no_bos;        /* with raw: not even BOS */
    const char *suffix; /* between question and answer prefix when no template is applied;
                         * NULL: a line feed, as kvpress */
};

/* ---- log, time, interrupt ---- */

enum kva_log_level { KVA_LOG_ERROR, KVA_LOG_WARN, KVA_LOG_INFO, KVA_LOG_DEBUG };
/* Default sink: stderr, level WARN. `fn` NULL restores it. */
typedef void (*kva_log_fn)(enum kva_log_level level, const char *text, void *ctx);
void kva_log_set(kva_log_fn fn, void *ctx, enum kva_log_level level);
void kva_log(enum kva_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

uint64_t kva_now_ns(void); /* CLOCK_MONOTONIC */
uint64_t kva_cpu_ns(void); /* CLOCK_PROCESS_CPUTIME_ID */
int64_t kva_wall_ms(void); /* since the epoch */
extern volatile int
    kva_interrupted; /* signal number, set by the runner's handler; 0 = none */

#ifdef __cplusplus
}
#endif
#endif
