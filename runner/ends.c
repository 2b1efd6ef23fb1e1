/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ends.c - where an answer ends: end tokens, text stops, loops, length.
 *
 * A text stop is looked for in the decoded tail after every token, so it may lie across
 * tokens and begin or end inside one. The tail is long enough when it decodes to more
 * bytes than the longest stop and a cut character beside it. When one token brings
 * several reasons, the first of eos, stop, repeat, length is told. */
#include "runner/ends.h"

#include <string.h>

enum { LOOP_TOKENS = 256, LOOP_PERIOD = 32, TAIL_TOKENS = 8, CHARACTER = 4 };

/* Last token of the text that ends an answer; -1 when it has none. */
static enum kva_status end_token(const struct kva_tokenizer *tok, const char *text,
                                 int32_t *id, struct kva_error *err)
{
    struct kva_tokenizer *copy = NULL;
    struct kva_tokens t = {0};
    enum kva_status rc;

    KVA_GO(kva_tokenizer_clone(tok, &copy, err));
    KVA_GO(kva_tokenizer_encode(copy, text, strlen(text), true, &t, err));
    *id = t.n > 0 ? t.id[t.n - 1] : -1;
out:
    kva_tokens_release(&t);
    kva_tokenizer_free(copy);
    return rc;
}

static enum kva_status forbid_ends(const struct kva_tokenizer *tok,
                                   struct kva_arena *arena, struct kva_ends *ends,
                                   struct kva_error *err)
{
    int size = kva_tokenizer_size(tok), n = 0;

    for (int32_t id = 0; id < size; id++)
        n += kva_tokenizer_is_eog(tok, id);
    ends->forbid = kva_arena_alloc(arena, (size_t)n + 1, sizeof *ends->forbid);
    if (ends->forbid == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%d end tokens", n);
    for (int32_t id = 0; id < size; id++)
        if (kva_tokenizer_is_eog(tok, id))
            ends->forbid[ends->n_forbid++] = id;
    if (ends->eos_id >= 0)
        ends->forbid[ends->n_forbid++] = ends->eos_id;
    return KVA_OK;
}

enum kva_status kva_ends_open(const struct kva_item *item,
                              const struct kva_tokenizer *tok, struct kva_arena *arena,
                              struct kva_ends *ends, struct kva_error *err)
{
    *ends = (struct kva_ends){.stops = item->stops,
                              .n_stops = item->n_stops,
                              .eos_id = -1,
                              .loop_guard = item->loop_guard};
    for (int i = 0; i < item->n_stops; i++)
        if (strlen(item->stops[i]) > ends->longest_stop)
            ends->longest_stop = strlen(item->stops[i]);
    if (item->eos_text != NULL)
        KVA_TRY(end_token(tok, item->eos_text, &ends->eos_id, err));
    return item->min_one ? forbid_ends(tok, arena, ends, err) : KVA_OK;
}

/* Where the first stop begins in the text, or NULL. */
static const char *first_stop(const struct kva_ends *ends, const char *text, size_t n)
{
    const char *first = NULL;

    for (int i = 0; i < ends->n_stops; i++) {
        size_t len = strlen(ends->stops[i]);
        const char *at = len > 0 ? memmem(text, n, ends->stops[i], len) : NULL;

        if (at != NULL && (first == NULL || at < first))
            first = at;
    }
    return first;
}

static enum kva_status has_stop(const struct kva_ends *ends,
                                const struct kva_tokenizer *tok, const int32_t *gen,
                                int n, bool *found, struct kva_error *err)
{
    size_t enough = ends->longest_stop + CHARACTER;
    int tail = TAIL_TOKENS;
    struct kva_buf text;
    enum kva_status rc;

    kva_buf_init(&text, 0);
    for (;; tail *= 2) {
        int k = tail < n ? tail : n;

        text.len = 0;
        KVA_GO(kva_tokenizer_decode(tok, gen + n - k, (size_t)k, &text, err));
        KVA_GO(kva_buf_status(&text, err));
        if (k == n || text.len > enough)
            break;
    }
    *found = text.len > 0 && first_stop(ends, text.data, text.len) != NULL;
out:
    kva_buf_release(&text);
    return rc;
}

bool kva_ends_loops(const int32_t *gen, int n)
{
    const int32_t *last = gen + n - LOOP_TOKENS;

    for (int period = 1; n >= LOOP_TOKENS && period <= LOOP_PERIOD; period++) {
        int i = LOOP_TOKENS - 1;

        while (i >= period && last[i] == last[i - period])
            i--;
        if (i < period)
            return true;
    }
    return false;
}

enum kva_status kva_ends_check(const struct kva_ends *ends,
                               const struct kva_tokenizer *tok, const int32_t *gen, int n,
                               int max_new, const char **why, struct kva_error *err)
{
    bool stops = false;

    *why = NULL;
    if (kva_tokenizer_is_eog(tok, gen[n - 1]) ||
        (ends != NULL && ends->eos_id == gen[n - 1])) {
        *why = "eos";
        return KVA_OK;
    }
    if (ends != NULL && ends->n_stops > 0)
        KVA_TRY(has_stop(ends, tok, gen, n, &stops, err));
    if (stops)
        *why = "stop";
    else if (ends != NULL && ends->loop_guard && kva_ends_loops(gen, n))
        *why = "repeat";
    else if (n >= max_new)
        *why = "length";
    return KVA_OK;
}

void kva_ends_cut(const struct kva_ends *ends, struct kva_buf *text)
{
    const char *at = text->len > 0 ? first_stop(ends, text->data, text->len) : NULL;

    if (at == NULL)
        return;
    text->len = (size_t)(at - text->data);
    text->data[text->len] = '\0';
}
