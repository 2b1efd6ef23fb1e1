/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text_choice.c - the letter chosen among A to D (LongBench v2, THUDM/LongBench pred.py).
 *
 * Every '*' is deleted; then the first match of "The correct answer is (A)", a letter A
 * to D in round brackets, else of "The correct answer is A". No match is wrong. */
#include "metrics/text.h"

#include <string.h>

static const char PHRASE[] = "The correct answer is ";

/* The letter behind the first phrase that one follows; 0: none. */
static char find_letter(const char *s, size_t n, bool brackets)
{
    size_t k = sizeof PHRASE - 1, more = brackets ? 3 : 1;

    for (size_t i = 0; i + k + more <= n; i++) {
        const char *at = s + i + k;
        char letter = at[brackets];

        if (s[i] == PHRASE[0] && memcmp(s + i, PHRASE, k) == 0 && letter >= 'A' &&
            letter <= 'D' && (!brackets || (at[0] == '(' && at[2] == ')')))
            return letter;
    }
    return 0;
}

static enum kva_status score(const struct kva_metric_in *in, struct kva_metric_out *out,
                             struct kva_error *err)
{
    struct kva_buf text;
    enum kva_status rc;
    char letter;

    kva_buf_init(&text, 0);
    for (size_t i = 0; i < in->n; i++)
        if (in->prediction[i] != '*')
            kva_buf_putc(&text, in->prediction[i]);
    KVA_GO(kva_buf_status(&text, err));
    letter = find_letter(text.data, text.len, true);
    if (!letter)
        letter = find_letter(text.data, text.len, false);
    out->how = letter ? "phrase" : "none";
    if (letter && out->extracted)
        kva_buf_putc(out->extracted, letter);
    out->score = 0;
    for (int i = 0; i < in->n_answers; i++)
        if (letter && in->answers[i][0] == letter && in->answers[i][1] == '\0')
            out->score = 1;
out:
    kva_buf_release(&text);
    return rc;
}

const struct kva_metric kva_text_choice = {
    .name = "choice",
    .summary = "letter A to D behind \"The correct answer is\"",
    .source = "LongBench v2 (arXiv:2412.15204), pred.py extract_answer",
    .version = 1,
    .binary = true,
    .score = score,
};
