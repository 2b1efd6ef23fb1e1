/* SPDX-License-Identifier: GPL-3.0-or-later */
/* words.c - sorted distinct adjectives and nouns, from which keys "adjective-noun" are
 * drawn, and with the verbs the vocabulary of cwe.
 *
 * One word a line, blanks at its ends removed (three adjectives of wonderwords carry one,
 * which is why 912 lines give 910 adjectives), duplicates dropped, byte order of UTF-8.
 * The dialect kva1 draws adjective and noun apart, so the order of the 6 million joined
 * strings is not needed. */
#include "tasks/internal.h"

#include <stdlib.h>
#include <string.h>

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static enum kva_status read_lists(const char *const *kinds, const char *version,
                                  const char *data_dir, struct kva_buf *text,
                                  char sha256[65], struct kva_error *err)
{
    struct kva_sha256 h;
    uint8_t digest[32];
    enum kva_status rc = KVA_OK;

    kva_sha256_init(&h);
    for (; *kinds && rc == KVA_OK; kinds++) {
        struct kva_buf own, file;
        const char *bytes;
        size_t n;

        kva_buf_init(&own, 0);
        kva_buf_init(&file, 0);
        kva_buf_printf(&file, "%slist-%s.txt", *kinds, version);
        KVA_GO(kva_buf_status(&file, err));
        KVA_GO(kva_carried_load(data_dir, file.data, &own, &bytes, &n, sha256, err));
        kva_sha256_add(&h, bytes, n);
        kva_buf_add(text, bytes, n);
        kva_buf_putc(text, '\n');
        rc = kva_buf_status(text, err);
    out:
        kva_buf_release(&own);
        kva_buf_release(&file);
    }
    kva_sha256_end(&h, digest);
    kva_hex(digest, sizeof digest, sha256);
    return rc;
}

/* `kinds`: NULL-terminated. */
static enum kva_status words_open(struct kva_words *w, const char *const *kinds,
                                  const char *version, const char *data_dir,
                                  struct kva_error *err)
{
    struct kva_buf text;
    size_t n, lines = 0, used = 0;
    enum kva_status rc;

    kva_buf_init(&text, 0);
    KVA_GO(read_lists(kinds, version, data_dir, &text, w->sha256, err));
    n = text.len;
    w->text = text.data; /* now the list's */
    text.data = NULL;
    for (size_t i = 0; i < n; i++)
        lines += w->text[i] == '\n';
    w->word = kva_calloc(lines, sizeof *w->word);
    if (!w->word) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "%s list: out of memory", kinds[0]);
        goto out;
    }
    for (size_t b = 0, e; b < n; b = e + 1) {
        size_t first, last;

        for (e = b; e < n && w->text[e] != '\n'; e++)
            ;
        for (first = b; first < e && is_blank(w->text[first]); first++)
            ;
        for (last = e; last > first && is_blank(w->text[last - 1]); last--)
            ;
        w->text[last] = '\0';
        if (last > first)
            w->word[used++] = w->text + first;
    }
    if (used == 0) {
        rc = KVA_FAIL(err, KVA_EFORMAT, "%slist-%s.txt: no words", kinds[0], version);
        goto out;
    }
    qsort(w->word, used, sizeof *w->word, by_bytes);
    for (size_t i = 0; i < used; i++)
        if (i == 0 || strcmp(w->word[i], w->word[i - 1]) != 0)
            w->word[w->n++] = w->word[i];
out:
    kva_buf_release(&text);
    return rc;
}

static const char *version_of(const char *version, struct kva_error *err)
{
    if (!version || strcmp(version, "2.2.0") == 0)
        return "2.2.0";
    if (strcmp(version, "3.0.0") == 0)
        return "3.0.0";
    KVA_FAIL(err, KVA_EINVALID, "word lists \"%s\": known are 2.2.0 and 3.0.0", version);
    return NULL;
}

enum kva_status kva_lexicon_open(struct kva_lexicon *lex, const char *version,
                                 const char *data_dir, struct kva_error *err)
{
    static const char *const adjectives[] = {"adjective", NULL};
    static const char *const nouns[] = {"noun", NULL};
    enum kva_status rc;

    *lex = (struct kva_lexicon){.version = version_of(version, err)};
    if (!lex->version)
        return KVA_EINVALID;
    KVA_GO(words_open(&lex->adjectives, adjectives, lex->version, data_dir, err));
    KVA_GO(words_open(&lex->nouns, nouns, lex->version, data_dir, err));
out:
    if (rc != KVA_OK)
        kva_lexicon_release(lex);
    return rc;
}

void kva_words_release(struct kva_words *w)
{
    free(w->text);
    free(w->word);
    *w = (struct kva_words){0};
}

enum kva_status kva_vocabulary_open(struct kva_words *w, const char *version,
                                    const char *data_dir, struct kva_error *err)
{
    static const char *const kinds[] = {"noun", "adjective", "verb", NULL};
    enum kva_status rc;

    *w = (struct kva_words){0};
    version = version_of(version, err);
    if (!version)
        return KVA_EINVALID;
    rc = words_open(w, kinds, version, data_dir, err);
    if (rc != KVA_OK)
        kva_words_release(w);
    return rc;
}

void kva_lexicon_release(struct kva_lexicon *lex)
{
    kva_words_release(&lex->adjectives);
    kva_words_release(&lex->nouns);
    *lex = (struct kva_lexicon){0};
}
