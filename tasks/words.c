/* SPDX-License-Identifier: GPL-3.0-or-later */
/* words.c - sorted distinct adjectives and nouns, from which keys "adjective-noun" are
 * drawn.
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

static enum kva_status words_open(struct kva_words *w, const char *kind,
                                  const char *version, const char *data_dir,
                                  struct kva_error *err)
{
    struct kva_buf own, file;
    const char *bytes;
    size_t n, lines = 1, used = 0;
    enum kva_status rc;

    kva_buf_init(&own, 0);
    kva_buf_init(&file, 0);
    kva_buf_printf(&file, "%slist-%s.txt", kind, version);
    KVA_GO(kva_buf_status(&file, err));
    KVA_GO(kva_carried_load(data_dir, file.data, &own, &bytes, &n, w->sha256, err));
    for (size_t i = 0; i < n; i++)
        lines += bytes[i] == '\n';
    w->text = kva_calloc(n + 1, 1);
    w->word = kva_calloc(lines, sizeof *w->word);
    if (!w->text || !w->word) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "%s: out of memory", file.data);
        goto out;
    }
    memcpy(w->text, bytes, n);
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
        rc = KVA_FAIL(err, KVA_EFORMAT, "%s: no words", file.data);
        goto out;
    }
    qsort(w->word, used, sizeof *w->word, by_bytes);
    for (size_t i = 0; i < used; i++)
        if (i == 0 || strcmp(w->word[i], w->word[i - 1]) != 0)
            w->word[w->n++] = w->word[i];
out:
    kva_buf_release(&own);
    kva_buf_release(&file);
    return rc;
}

enum kva_status kva_lexicon_open(struct kva_lexicon *lex, const char *version,
                                 const char *data_dir, struct kva_error *err)
{
    enum kva_status rc;

    *lex = (struct kva_lexicon){0};
    if (!version || strcmp(version, "2.2.0") == 0)
        lex->version = "2.2.0";
    else if (strcmp(version, "3.0.0") == 0)
        lex->version = "3.0.0";
    else
        return KVA_FAIL(err, KVA_EINVALID, "word lists \"%s\": known are 2.2.0 and 3.0.0",
                        version);
    KVA_GO(words_open(&lex->adjectives, "adjective", lex->version, data_dir, err));
    KVA_GO(words_open(&lex->nouns, "noun", lex->version, data_dir, err));
out:
    if (rc != KVA_OK)
        kva_lexicon_release(lex);
    return rc;
}

void kva_lexicon_release(struct kva_lexicon *lex)
{
    free(lex->adjectives.text);
    free(lex->adjectives.word);
    free(lex->nouns.text);
    free(lex->nouns.word);
    *lex = (struct kva_lexicon){0};
}
