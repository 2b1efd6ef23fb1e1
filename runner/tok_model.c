/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tok_model.c - how a task counts with the evaluated model: its tokenizer, its chat
 * split.
 *
 * Counts are what the engine will be fed: chat prefix (or BOS) and context; question,
 * template suffix and answer prefix encoded together. */
#include "runner/plan.h"

#include <stdlib.h>
#include <string.h>

static enum kva_status count(void *ctx, const struct kva_feed *feed, const char *context,
                             size_t n, const char *question, const char *answer_prefix,
                             size_t *n_context, size_t *n_question, struct kva_error *err)
{
    const struct kva_tok_model *tm = ctx;
    struct kva_prompt p;
    struct kva_question q;
    enum kva_status rc;

    memset(&p, 0, sizeof p);
    memset(&q, 0, sizeof q);
    KVA_GO(kva_prompt_context(tm->model, feed, context, n, &p, err));
    KVA_GO(kva_prompt_question(tm->model, feed, &p, question ? question : "",
                               answer_prefix ? answer_prefix : "", &q, err));
    *n_context = p.context.n;
    *n_question = q.ids.n;
out:
    kva_question_release(&q);
    kva_prompt_release(&p);
    return rc;
}

/* Byte ranges relative to the task's text: the fed text is prefix + text without the
 * leading white space the template trims. Tokens of the prefix end at 0 or before it. */
static enum kva_status ranges(void *ctx, const struct kva_feed *feed, const char *context,
                              size_t n, struct kva_arena *arena, int32_t **begin,
                              int32_t **end, size_t *n_tokens, struct kva_error *err)
{
    const struct kva_tok_model *tm = ctx;
    struct kva_prompt p;
    enum kva_status rc;

    memset(&p, 0, sizeof p);
    KVA_GO(kva_prompt_context(tm->model, feed, context, n, &p, err));
    *begin = kva_arena_alloc(arena, p.context.n + 1, sizeof **begin);
    *end = kva_arena_alloc(arena, p.context.n + 1, sizeof **end);
    if (!*begin || !*end) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "out of memory");
        goto out;
    }
    for (size_t i = 0; i < p.context.n; i++) {
        int32_t at = (int32_t)p.context_at, cut = (int32_t)p.context_trimmed;
        int32_t b = (int32_t)p.context.begin[i] - at, e = (int32_t)p.context.end[i] - at;

        (*begin)[i] = b < 0 || e <= 0 ? b : b + cut;
        (*end)[i] = e <= 0 ? e : e + cut;
    }
    *n_tokens = p.context.n;
out:
    kva_prompt_release(&p);
    return rc;
}

void kva_tok_api_model(struct kva_tok_model *tm, const struct kva_model *m,
                       struct kva_tok_api *api)
{
    uint8_t sha[32];

    memset(tm, 0, sizeof *tm);
    tm->model = m;
    kva_tokenizer_sha256(kva_model_tokenizer(m), sha);
    kva_hex(sha, 32, tm->id);
    api->ctx = tm;
    api->id = tm->id;
    api->count = count;
    api->ranges = ranges;
}
