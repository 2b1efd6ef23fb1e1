/* SPDX-License-Identifier: GPL-3.0-or-later */
/* vt.c - RULER's variable tracking: one chain of five variables, a worked example before
 * it.
 *
 * Dialect kva1. Draws from the item's stream: five names of five letters (one seen before
 * is drawn again), the value 10000 + below(90000), a place for each statement as in
 * niah.c; the places are sorted, so the chain is told in order. The example (names of
 * three letters, value, five places among 8 noise lines) comes from the stream "...|hay".
 * It stands, answer included, in the compressible context, joined as RULER does since
 * 2025: prompt, blank, names, blank line, prompt. With `uninstructed` example and
 * instruction, which tell what will be asked, stand before the question. */
#include "tasks/chain.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = KVA_CHAIN_NAMES };

struct plan {
    const char *example; /* with its answer and the blank line behind it */
    bool uninstructed;   /* example and instruction stand before the question */
    struct kva_chain chain;
};

static enum kva_status build(void *ctx, size_t n, struct kva_draft *d,
                             struct kva_error *err)
{
    struct plan *p = ctx;

    if (!p->uninstructed)
        kva_chain_open(d, p->example);
    return kva_chain_place(d, p->chain.plant, NAMES, n, err);
}

struct vt {
    bool uninstructed;
    char template_sha256[65];
};

static enum kva_status vt_open(struct kva_task *task, const struct kva_task_request *req,
                               struct kva_error *err)
{
    static const char *const params[] = {"uninstructed", NULL};
    const struct kva_task_opts *o = req->opts;
    struct vt *s = kva_calloc(1, sizeof *s);

    if (!s)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    task->state = s;
    for (int i = 0; i < req->n_params; i++) {
        if (strcmp(req->param[i].key, params[0]) != 0)
            return kva_task_bad_param(req, req->param[i].key, params, err);
        KVA_TRY(kva_task_flag(req, &req->param[i], &s->uninstructed, err));
    }
    KVA_TRY(kva_task_set_names(task, s->uninstructed ? "vt:uninstructed=1" : "vt", "vt",
                               err));
    if (o->haystack && strcmp(o->haystack, "noise") != 0)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": RULER's vt has noise as haystack, not %s",
                        req->text, o->haystack);
    kva_chain_hash(s->template_sha256);
    kva_task_use_layout(task, "kva1");
    task->haystack = "noise";
    task->info.domain = "tracking";
    /* neither question nor example names a variable of the chain */
    task->info.guess_floor = 0;
    return KVA_OK;
}

static void vt_close(void *state)
{
    free(state);
}

static enum kva_status vt_item(const struct kva_task *task, int idx,
                               const struct kva_tok_api *tok, struct kva_arena *arena,
                               struct kva_item *item, struct kva_error *err)
{
    struct plan *p = kva_arena_alloc(arena, 1, sizeof *p);
    const char **answers = kva_arena_alloc(arena, NAMES, sizeof *answers);
    const char **forbidden = kva_arena_alloc(arena, NAMES + 1, sizeof *forbidden);
    struct kva_rng rng = kva_task_stream(task, idx, "");
    const struct vt *s = task->state;
    struct kva_draft d;
    struct kva_fit fit;
    struct kva_span_job job;
    enum kva_status rc;

    if (!p || !answers || !forbidden)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
    kva_draft_init(&d);
    kva_chain_draw(&p->chain, &rng, 5, idx, NULL, 0);
    KVA_GO(kva_chain_example(task, idx, &p->chain, 1, arena, &p->example, err));
    for (int j = 0; j < NAMES; j++)
        answers[j] = forbidden[j] = p->chain.name[j];
    forbidden[NAMES] = kva_arena_printf(arena, "%d", p->chain.value);
    item->answers = answers;
    item->n_answers = NAMES;
    item->question = kva_chain_question(&p->chain, arena);
    p->uninstructed = s->uninstructed;
    if (s->uninstructed && item->question)
        item->question = kva_arena_printf(arena, "%s%s%s", p->example,
                                          kva_chain_instruction, item->question);
    item->more_metrics = kva_task_word_match;
    item->answer_prefix = kva_chain_prefix(&p->chain, arena);
    if (!forbidden[NAMES] || !item->question || !item->answer_prefix) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
        goto out;
    }
    KVA_GO(kva_task_lay_out(task, arena, item, err));
    item->gold = kva_task_gold(arena, item->answer_prefix, answers, NAMES, " ");
    fit = (struct kva_fit){.task = task->label,
                           .question = item->question,
                           .answer_prefix = item->answer_prefix,
                           .feed = &item->feed,
                           .limit = task->info.ctx,
                           .max_new_tokens = item->max_new_tokens,
                           .n_max = (size_t)task->info.ctx,
                           .build = build,
                           .ctx = p};
    KVA_GO(kva_fit_draft(&fit, tok, &d, err));
    job = (struct kva_span_job){.plants = p->chain.plant,
                                .n_plants = NAMES,
                                .forbidden = forbidden,
                                .n_forbidden = NAMES + 1,
                                .guard = KVA_SPAN_GUARD,
                                .tau = KVA_SPAN_TAU,
                                .n_distractors = KVA_SPAN_DISTRACTORS};
    rc = item->gold ? kva_task_finish(task, tok, &fit, &d, &job, arena, item, err)
                    : KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
out:
    kva_draft_release(&d);
    return rc;
}

static int vt_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct vt *s = task->state;
    int bad = 0;

    (void)source;
    bad |= json_object_set_new(gen, "dialect", json_string(task->info.dialect));
    bad |= json_object_set_new(gen, "L", json_integer(task->info.ctx));
    bad |=
        json_object_set_new(gen, "example_lines", json_integer(KVA_CHAIN_EXAMPLE_LINES));
    bad |= json_object_set_new(gen, "haystack", json_string("noise"));
    bad |= json_object_set_new(gen, "hops", json_integer(NAMES - 1));
    bad |= json_object_set_new(gen, "layout", json_string(task->layout));
    bad |= json_object_set_new(gen, "max_new_tokens",
                               json_integer(task->info.max_new_tokens));
    bad |= json_object_set_new(gen, "name", json_string(task->name));
    bad |= json_object_set_new(gen, "seed", json_integer((json_int_t)task->seed));
    bad |= json_object_set_new(gen, "template_sha256", json_string(s->template_sha256));
    if (s->uninstructed)
        bad |= json_object_set_new(gen, "uninstructed", json_true());
    return bad;
}

const struct kva_family kva_family_vt = {vt_open, vt_close, vt_item, vt_describe};
