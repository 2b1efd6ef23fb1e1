/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tasks_test.h - opening tasks and items in tests, a token counter that behaves like byte
 * pairs. */
#ifndef KVA_TASKS_TEST_H
#define KVA_TASKS_TEST_H

#include "tasks/internal.h"

#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEST(name) cmocka_unit_test(name)

static inline struct kva_task *open_with(const char *text,
                                         const struct kva_task_opts *opts)
{
    struct kva_error err = {0};
    struct kva_task *task;

    if (kva_task_open(text, opts, &task, &err) != KVA_OK)
        fail_msg("%s: %s", text, err.text);
    return task;
}

static inline struct kva_task *open_task(const char *text)
{
    return open_with(text, &(struct kva_task_opts){.seed = 42});
}

static inline struct kva_item item_of(const struct kva_task *task, int idx,
                                      const struct kva_tok_api *tok,
                                      struct kva_arena *arena)
{
    struct kva_error err = {0};
    struct kva_item item;

    if (kva_task_item(task, idx, tok, arena, &item, &err) != KVA_OK)
        fail_msg("item %d: %s", idx, err.text);
    return item;
}

/* The message of a task text that is refused. */
static inline const char *refusal(const char *text, const struct kva_task_opts *opts)
{
    static char message[600];
    struct kva_error err = {0};
    struct kva_task *task;
    enum kva_status rc = kva_task_open(text, opts, &task, &err);

    assert_int_not_equal(rc, KVA_OK);
    assert_null(task);
    snprintf(message, sizeof message, "%s: %s", kva_status_name(rc), err.text);
    return message;
}

static inline const struct kva_span *span_named(const struct kva_item *item,
                                                const char *id)
{
    for (int i = 0; i < item->n_spans; i++)
        if (strcmp(item->spans[i].id, id) == 0)
            return &item->spans[i];
    fail_msg("item %d has no span %s", item->idx, id);
    return NULL;
}

static inline void assert_range(size_t a, size_t b, size_t want_a, size_t want_b)
{
    assert_int_equal(a, want_a);
    assert_int_equal(b, want_b);
}

/* Byte-pair-like: a blank belongs to the word behind it, words are cut every four bytes,
 * and the first `lead` tokens are a chat prefix. */
struct pairs {
    int lead, calls;
    size_t bytes; /* of contexts, over all calls */
};

static inline size_t pairs_scan(const char *s, size_t n, int32_t *begin, int32_t *end)
{
    size_t t = 0;

    for (size_t b = 0, e; b < n; b = e) {
        e = b + 1;
        while (e < n && s[e] != ' ' && s[e] != '\n' && e - b < 4)
            e++;
        if (begin) {
            begin[t] = (int32_t)b;
            end[t] = (int32_t)e;
        }
        t++;
    }
    return t;
}

static inline enum kva_status pairs_count(void *ctx, const struct kva_feed *feed,
                                          const char *context, size_t n,
                                          const char *question, const char *answer_prefix,
                                          size_t *n_context, size_t *n_question,
                                          struct kva_error *err)
{
    struct pairs *p = ctx;

    (void)err;
    (void)feed;
    p->calls++;
    p->bytes += n;
    *n_context = (size_t)p->lead + pairs_scan(context, n, NULL, NULL);
    *n_question = 5 + pairs_scan(question, strlen(question), NULL, NULL) +
                  pairs_scan(answer_prefix, strlen(answer_prefix), NULL, NULL);
    return KVA_OK;
}

static inline enum kva_status pairs_ranges(void *ctx, const struct kva_feed *feed,
                                           const char *context, size_t n,
                                           struct kva_arena *arena, int32_t **begin,
                                           int32_t **end, size_t *n_tokens,
                                           struct kva_error *err)
{
    struct pairs *p = ctx;
    size_t lead = (size_t)p->lead;

    (void)err;
    (void)feed;
    p->calls++;
    p->bytes += n;
    *begin = kva_arena_alloc(arena, n + lead, sizeof **begin);
    *end = kva_arena_alloc(arena, n + lead, sizeof **end);
    assert_non_null(*begin);
    assert_non_null(*end);
    for (size_t i = 0; i < lead; i++)
        (*begin)[i] = (*end)[i] = (int32_t)i - (int32_t)lead;
    *n_tokens = lead + pairs_scan(context, n, *begin + lead, *end + lead);
    return KVA_OK;
}

static inline struct kva_tok_api pairs_api(struct pairs *p)
{
    return (struct kva_tok_api){p, "pairs", pairs_count, pairs_ranges};
}

#endif
