/* SPDX-License-Identifier: GPL-3.0-or-later */
/* prompt.c - turns a context and its questions into token ids (models.md 7.1, ruling
 * R27).
 *
 *     context ids  = [BOS] encode(prefix + context)       BOS only without a template
 *     question ids = encode(question + suffix + answer prefix)
 *     next in a conversation: encode(turn + question + suffix + answer prefix)
 *
 * The two are encoded apart, control tokens recognised, so no token straddles the border
 * and every question of a context shares its cache. Word maps grow with the context; each
 * question works on a copy of what the context left behind. */
#include "models/model.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of the white space a template's trim takes off: Unicode white space and the ASCII
 * separators 28..31, as Python's strip does. 0: none at s. */
static size_t space_bytes(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;
    if (n == 0)
        return 0;
    if (u[0] < 128)
        return u[0] == ' ' || (u[0] >= 9 && u[0] <= 13) || (u[0] >= 28 && u[0] <= 31);
    int k = kva_utf8_len(s, n);
    uint32_t c = 0;
    if (k == 2)
        c = (uint32_t)(u[0] & 31) << 6 | (u[1] & 63);
    else if (k == 3)
        c = (uint32_t)(u[0] & 15) << 12 | (uint32_t)(u[1] & 63) << 6 | (u[2] & 63);
    bool space = c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
                 c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
    return space ? (size_t)k : 0;
}

/* Puts BOS in front of raw text, unless the text already opens with it. */
static enum kva_status add_bos(const struct kva_tokenizer *tok, struct kva_tokens *t,
                               struct kva_error *err)
{
    int32_t bos = kva_tokenizer_bos(tok);
    if (!kva_tokenizer_add_bos(tok) || bos < 0)
        return KVA_OK;
    if (t->n > 0 && t->id[0] == bos) {
        kva_log(KVA_LOG_WARN,
                "the context already begins with the BOS token; none is added");
        return KVA_OK;
    }
    size_t cap = t->n + 1;
    struct kva_tokens more = {.n = cap, .cap = cap};
    more.id = kva_calloc(cap, sizeof *more.id);
    more.begin = kva_calloc(cap, sizeof *more.begin);
    more.end = kva_calloc(cap, sizeof *more.end);
    if (!more.id || !more.begin || !more.end) {
        kva_tokens_release(&more);
        return KVA_FAIL(err, KVA_ENOMEM, "no memory for %zu tokens", cap);
    }
    more.id[0] = bos; /* covers no byte */
    if (t->n > 0) {
        memcpy(more.id + 1, t->id, t->n * sizeof *t->id);
        memcpy(more.begin + 1, t->begin, t->n * sizeof *t->begin);
        memcpy(more.end + 1, t->end, t->n * sizeof *t->end);
    }
    kva_tokens_release(t);
    *t = more;
    return KVA_OK;
}

/* The family that applies, and the suffix that stands for it. */
static const struct kva_chat *feed_chat(const struct kva_model *m,
                                        const struct kva_feed *feed, const char **suffix)
{
    const struct kva_chat *chat =
        feed && feed->raw ? kva_chat_by_name("none") : kva_model_chat(m);

    *suffix = chat->suffix;
    if (feed && feed->suffix && chat->prefix[0] == '\0')
        *suffix = feed->suffix;
    return chat;
}

enum kva_status kva_prompt_context(const struct kva_model *m, const struct kva_feed *feed,
                                   const char *context, size_t n, struct kva_prompt *p,
                                   struct kva_error *err)
{
    enum kva_status rc;
    const char *suffix;
    const struct kva_chat *chat = feed_chat(m, feed, &suffix);
    memset(p, 0, sizeof *p);
    if (!context)
        n = 0;
    while (chat->trim && p->context_trimmed < n) {
        size_t k = space_bytes(context + p->context_trimmed, n - p->context_trimmed);
        if (k == 0)
            break;
        p->context_trimmed += k;
    }
    p->context_at = strlen(chat->prefix);
    p->context_len = p->context_at + n - p->context_trimmed;
    p->context_text = kva_calloc(p->context_len + 1, 1);
    if (!p->context_text) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "no memory for a context of %zu bytes", n);
        goto out;
    }
    memcpy(p->context_text, chat->prefix, p->context_at);
    if (n > p->context_trimmed)
        memcpy(p->context_text + p->context_at, context + p->context_trimmed,
               n - p->context_trimmed);
    KVA_GO(kva_tokenizer_clone(kva_model_tokenizer(m), &p->tok, err));
    KVA_GO(kva_tokenizer_encode(p->tok, p->context_text, p->context_len, true,
                                &p->context, err));
    /* a template brings its own BOS */
    if (p->context_at == 0 && !(feed && feed->raw && feed->no_bos))
        KVA_GO(add_bos(p->tok, &p->context, err));
out:
    if (rc != KVA_OK)
        kva_prompt_release(p);
    return rc;
}

/* lead + question + suffix + answer prefix, encoded on a copy of `state`. */
static enum kva_status encode_question(const struct kva_tokenizer *state,
                                       const char *lead, const char *question,
                                       const char *suffix, const char *answer_prefix,
                                       struct kva_question *q, struct kva_error *err)
{
    enum kva_status rc;
    struct kva_buf text;
    size_t asked;

    memset(q, 0, sizeof *q);
    kva_buf_init(&text, 0);
    kva_buf_puts(&text, lead);
    kva_buf_puts(&text, question ? question : "");
    asked = text.len;
    kva_buf_puts(&text, suffix);
    kva_buf_puts(&text, answer_prefix ? answer_prefix : "");
    KVA_GO(kva_buf_status(&text, err));
    KVA_GO(kva_tokenizer_clone(state, &q->tok, err));
    KVA_GO(kva_tokenizer_encode(q->tok, text.data ? text.data : "", text.len, true,
                                &q->ids, err));
    /* a token that reaches from the question into the suffix still belongs to the
     * question */
    while ((size_t)q->n_visible < q->ids.n && q->ids.begin[q->n_visible] < asked)
        q->n_visible++;
out:
    kva_buf_release(&text);
    if (rc != KVA_OK)
        kva_question_release(q);
    return rc;
}

enum kva_status kva_prompt_question(const struct kva_model *m,
                                    const struct kva_feed *feed,
                                    const struct kva_prompt *p, const char *question,
                                    const char *answer_prefix, struct kva_question *q,
                                    struct kva_error *err)
{
    const char *suffix;

    (void)feed_chat(m, feed, &suffix);
    return encode_question(p->tok, "", question, suffix, answer_prefix, q, err);
}

enum kva_status kva_prompt_next(const struct kva_model *m, const struct kva_feed *feed,
                                const struct kva_question *before, const char *question,
                                const char *answer_prefix, struct kva_question *q,
                                struct kva_error *err)
{
    const char *suffix, *turn = feed_chat(m, feed, &suffix)->turn;

    return encode_question(before->tok, turn, question, suffix, answer_prefix, q, err);
}

void kva_prompt_span(const struct kva_prompt *p, size_t b0, size_t b1, int *t0, int *t1)
{
    const struct kva_tokens *t = &p->context;
    size_t cut = p->context_trimmed;
    size_t lo = p->context_at + (b0 > cut ? b0 - cut : 0);
    size_t hi = p->context_at + (b1 > cut ? b1 - cut : 0);
    size_t a = 0, z = t->n;
    *t0 = *t1 = 0;
    if (lo >= hi)
        return;
    while (a < z) { /* first token that ends behind lo */
        size_t mid = a + (z - a) / 2;
        if (t->end[mid] <= lo)
            a = mid + 1;
        else
            z = mid;
    }
    size_t b = a;
    z = t->n;
    while (b < z) { /* first token that begins at hi or later */
        size_t mid = b + (z - b) / 2;
        if (t->begin[mid] < hi)
            b = mid + 1;
        else
            z = mid;
    }
    *t0 = (int)a;
    *t1 = (int)b;
}

void kva_prompt_release(struct kva_prompt *p)
{
    if (!p)
        return;
    kva_tokens_release(&p->context);
    free(p->context_text);
    kva_tokenizer_free(p->tok);
    memset(p, 0, sizeof *p);
}

void kva_question_release(struct kva_question *q)
{
    if (!q)
        return;
    kva_tokens_release(&q->ids);
    kva_tokenizer_free(q->tok);
    memset(q, 0, sizeof *q);
}
