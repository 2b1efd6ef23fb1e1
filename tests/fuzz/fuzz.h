/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fuzz.h - what the corpus programs for texts share: the stored files, seeded edits of
 * them, and how many (FUZZ_SECONDS: for how long).
 *
 * A stored file whose name begins with "ok-" must be accepted, any other one refused. */
#ifndef KVA_TESTS_FUZZ_H
#define KVA_TESTS_FUZZ_H

#include "kva.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUZZ_FILES = 64, FUZZ_ROOM = 1 << 16 };

struct fuzz_file {
    char name[64];
    bool ok;
    struct kva_buf bytes;
};
struct fuzz_corpus {
    struct fuzz_file file[FUZZ_FILES];
    int n;
};

static inline void fuzz_quiet(enum kva_log_level level, const char *text, void *ctx)
{
    (void)level;
    (void)text;
    (void)ctx;
}

static inline int fuzz_by_name(const void *a, const void *b)
{
    return strcmp(((const struct fuzz_file *)a)->name,
                  ((const struct fuzz_file *)b)->name);
}

/* All files of the directory in the order of their names, so that a seed means the same
 * everywhere. */
static inline void fuzz_load(struct fuzz_corpus *c, const char *dir)
{
    DIR *d = opendir(dir);

    c->n = 0;
    if (!d)
        fail_msg("no directory %s", dir);
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        struct fuzz_file *f = &c->file[c->n];
        char path[512];

        if (e->d_name[0] == '.')
            continue;
        assert_true(c->n < FUZZ_FILES);
        assert_true(strlen(e->d_name) < sizeof f->name);
        memcpy(f->name, e->d_name, strlen(e->d_name) + 1);
        f->ok = strncmp(f->name, "ok-", 3) == 0;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        kva_buf_init(&f->bytes, 0);
        assert_int_equal(kva_read_file(path, 0, &f->bytes, NULL), KVA_OK);
        c->n++;
    }
    closedir(d);
    qsort(c->file, (size_t)c->n, sizeof c->file[0], fuzz_by_name);
}

static inline void fuzz_free(struct fuzz_corpus *c)
{
    for (int i = 0; i < c->n; i++)
        kva_buf_release(&c->file[i].bytes);
}

/* A file to edit: three times out of four one that is accepted as it is. */
static inline const struct fuzz_file *fuzz_pick(const struct fuzz_corpus *c,
                                                struct kva_rng *r)
{
    bool want_ok = kva_rng_below(r, 4) > 0;
    const struct fuzz_file *f;

    do
        f = &c->file[kva_rng_below(r, (uint64_t)c->n)];
    while ((want_ok && !f->ok) || f->bytes.len > FUZZ_ROOM / 2);
    return f;
}

/* Every refusal says why, in one line. */
static inline void fuzz_refusal(const char *what, enum kva_status rc,
                                const struct kva_error *err)
{
    if (err->code != rc || err->text[0] == '\0' || strchr(err->text, '\n'))
        fail_msg("%s: refused with %s and the message \"%s\"", what, kva_status_name(rc),
                 err->text);
}

/* True while the random part goes on: `n` tries, an eighth of them under sanitizers, the
 * same in each run; with FUZZ_SECONDS more, until that time has passed. */
static inline bool fuzz_goes_on(long tries, long n, uint64_t begin_ns)
{
    const char *seconds = getenv("FUZZ_SECONDS");
    double limit = 0;

#ifdef KVA_POISON
    n /= 8;
#endif
    if (seconds)
        kva_parse_f64(seconds, &limit);
    return tries < n || (double)(kva_now_ns() - begin_ns) < limit * 1e9;
}

static inline size_t fuzz_splice(uint8_t *b, size_t n, size_t at, size_t drop,
                                 const void *put, size_t len)
{
    if (at + drop > n || n - drop + len > FUZZ_ROOM)
        return n;
    memmove(b + at + len, b + at + drop, n - at - drop);
    memcpy(b + at, put, len);
    return n - drop + len;
}

/* One to four edits: bits, bytes, numbers, pieces of the text and words of the format
 * (NULL-terminated). `b` has room for FUZZ_ROOM bytes; returns the new length. */
static inline size_t fuzz_edit(struct kva_rng *r, uint8_t *b, size_t n,
                               const char *const *words)
{
    static const char *const numbers[] = {
        "0",          "-1",        "1",   "2",
        "1.5",        "1e308",     "-0",  "9223372036854775807",
        "4294967296", "1e9",       "0.1", "16777217",
        "1e-9",       "2147483648"};
    uint64_t n_words = 0;

    while (words[n_words])
        n_words++;
    for (uint64_t edits = 1 + kva_rng_below(r, 4); edits > 0 && n > 0; edits--) {
        size_t at = (size_t)kva_rng_below(r, n), len = (size_t)kva_rng_below(r, 24);
        const char *word;
        uint8_t piece[24];

        len = len < n - at ? len : n - at;
        memcpy(piece, b + at, len);
        switch (kva_rng_below(r, 8)) {
        case 0:
            b[at] ^= (uint8_t)(1u << kva_rng_below(r, 8));
            break;
        case 1:
            b[at] = (uint8_t)kva_rng_next(r);
            break;
        case 2: /* take out */
            n = fuzz_splice(b, n, at, len, "", 0);
            break;
        case 3: /* repeat elsewhere */
            n = fuzz_splice(b, n, (size_t)kva_rng_below(r, n), 0, piece, len);
            break;
        case 4: /* cut */
            n = kva_rng_below(r, 8) == 0 ? at : n;
            break;
        case 5: /* another number */
            while (at < n && (b[at] < '0' || b[at] > '9'))
                at++;
            for (len = 0; at + len < n && b[at + len] >= '0' && b[at + len] <= '9';)
                len++;
            word = numbers[kva_rng_below(r, sizeof numbers / sizeof *numbers)];
            n = fuzz_splice(b, n, at, len, word, strlen(word));
            break;
        case 6: /* a word of the format in place of another one */
            while (at > 0 && b[at - 1] != '"' && b[at - 1] != ',' && b[at - 1] != ':')
                at--;
            for (len = 0; at + len < n && !strchr("\",:+=@}]\n", b[at + len]);)
                len++;
            word = words[kva_rng_below(r, n_words)];
            n = fuzz_splice(b, n, at, len, word, strlen(word));
            break;
        default:
            word = words[kva_rng_below(r, n_words)];
            n = fuzz_splice(b, n, at, 0, word, strlen(word));
        }
    }
    return n;
}

#endif
