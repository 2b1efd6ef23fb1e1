/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tok.c - two tokenizers without a model: `ws` (runs of non-space bytes) and `by`
 * (bytes).
 *
 * No chat template. Context and question are tokenized apart, so no token straddles their
 * border; question and answer prefix are one text. `ws` splits as Python's str.split()
 * does on ASCII. */
#include "tasks/task.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

/* Runs of non-space bytes; `in` carries over whether the byte before was inside a run. */
static size_t count_runs(const char *s, size_t n, bool *in)
{
    size_t runs = 0;

    for (size_t i = 0; i < n; i++) {
        bool now = !is_space(s[i]);

        runs += now && !*in;
        *in = now;
    }
    return runs;
}

static enum kva_status ws_count(void *ctx, const struct kva_feed *feed,
                                const char *context, size_t n, const char *question,
                                const char *answer_prefix, size_t *n_context,
                                size_t *n_question, struct kva_error *err)
{
    bool in = false;

    (void)ctx;
    (void)feed;
    (void)err;
    *n_context = count_runs(context, n, &in);
    in = false;
    *n_question = count_runs(question, strlen(question), &in);
    *n_question += count_runs(answer_prefix, strlen(answer_prefix), &in);
    return KVA_OK;
}

static enum kva_status ranges_alloc(struct kva_arena *arena, size_t n, int32_t **begin,
                                    int32_t **end, struct kva_error *err)
{
    *begin = kva_arena_alloc(arena, n, sizeof **begin);
    *end = kva_arena_alloc(arena, n, sizeof **end);
    if (!*begin || !*end)
        return KVA_FAIL(err, KVA_ENOMEM, "token ranges: out of memory");
    return KVA_OK;
}

static enum kva_status too_long(size_t n, struct kva_error *err)
{
    if (n > INT32_MAX)
        return KVA_FAIL(err, KVA_EINVALID, "a context of %zu bytes is too long", n);
    return KVA_OK;
}

static enum kva_status ws_ranges(void *ctx, const struct kva_feed *feed,
                                 const char *context, size_t n, struct kva_arena *arena,
                                 int32_t **begin, int32_t **end, size_t *n_tokens,
                                 struct kva_error *err)
{
    bool in = false;
    size_t t = 0;

    (void)ctx;
    (void)feed;
    KVA_TRY(too_long(n, err));
    *n_tokens = count_runs(context, n, &in);
    KVA_TRY(ranges_alloc(arena, *n_tokens, begin, end, err));
    for (size_t i = 0; i < n; i++) {
        if (is_space(context[i]))
            continue;
        (*begin)[t] = (int32_t)i;
        while (i < n && !is_space(context[i]))
            i++;
        (*end)[t++] = (int32_t)i;
    }
    return KVA_OK;
}

static enum kva_status by_count(void *ctx, const struct kva_feed *feed,
                                const char *context, size_t n, const char *question,
                                const char *answer_prefix, size_t *n_context,
                                size_t *n_question, struct kva_error *err)
{
    (void)ctx;
    (void)feed;
    (void)context;
    (void)err;
    *n_context = n;
    *n_question = strlen(question) + strlen(answer_prefix);
    return KVA_OK;
}

static enum kva_status by_ranges(void *ctx, const struct kva_feed *feed,
                                 const char *context, size_t n, struct kva_arena *arena,
                                 int32_t **begin, int32_t **end, size_t *n_tokens,
                                 struct kva_error *err)
{
    (void)ctx;
    (void)feed;
    (void)context;
    KVA_TRY(too_long(n, err));
    KVA_TRY(ranges_alloc(arena, n, begin, end, err));
    *n_tokens = n;
    for (size_t i = 0; i < n; i++) {
        (*begin)[i] = (int32_t)i;
        (*end)[i] = (int32_t)i + 1;
    }
    return KVA_OK;
}

const struct kva_tok_api kva_tok_ws = {
    .id = "ws", .count = ws_count, .ranges = ws_ranges};
const struct kva_tok_api kva_tok_by = {
    .id = "by", .count = by_count, .ranges = by_ranges};
