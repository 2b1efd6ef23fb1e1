/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mt_vt.c - mt/vt: several chains of variables, each question asks for one of them.
 *
 * Context, templates and solved example of ruler/vt. Draws, from the context's stream:
 * the chains one after the other (no name or value twice; the places of chain k are
 * balanced as those of item idx + k of vt would be), then the order in which they are
 * asked for. The statements of the other chains stand between those of the one asked for;
 * their variables are decoys. */
#include "tasks/chain.h"
#include "tasks/mt.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { CHAINS_MAX = 8, NAMES = KVA_CHAIN_NAMES, PLANTS = CHAINS_MAX * NAMES };

static const char *const lines[] = {"noise", NULL};

struct state {
    struct kva_mt mt; /* as many turns as chains */
};

static enum kva_status vt_open(struct kva_task *task, const struct kva_task_request *req,
                               struct kva_error *err)
{
    struct state *s = kva_calloc(1, sizeof *s);

    if (!s)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    task->state = s;
    s->mt = (struct kva_mt){.param = {{"chains", &s->mt.turns, 1, CHAINS_MAX, 2}},
                            .n_params = 1,
                            .haystacks = lines};
    KVA_TRY(kva_mt_open(task, req, &s->mt, err));
    kva_chain_hash(s->mt.template_sha256);
    task->info.domain = "tracking";
    return KVA_OK;
}

struct plan {
    const char *example;
    struct kva_chain chain[CHAINS_MAX];
    struct kva_plant plant[PLANTS];
    size_t n_plants;
};

static enum kva_status build(void *ctx, size_t n, struct kva_draft *d,
                             struct kva_error *err)
{
    struct plan *p = ctx;

    kva_chain_open(d, p->example);
    return kva_chain_place(d, p->plant, p->n_plants, n, err);
}

static enum kva_status make_turn(const struct kva_task *task, const struct plan *p,
                                 int chain, int n_chains, struct kva_arena *arena,
                                 struct kva_item *turn, struct kva_error *err)
{
    const struct kva_chain *c = &p->chain[chain];
    const char **answers = kva_arena_alloc(arena, NAMES, sizeof *answers);
    const char **decoys = kva_arena_alloc(arena, PLANTS, sizeof *decoys);

    if (!answers || !decoys)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", turn->idx);
    for (int k = 0; k < n_chains; k++)
        for (int i = 0; i < NAMES; i++)
            if (k == chain)
                answers[i] = c->name[i];
            else
                decoys[turn->n_decoys++] = p->chain[k].name[i];
    turn->decoys = decoys;
    turn->more_metrics = kva_task_word_match;
    return kva_mt_ask(task, turn, kva_chain_question(c, arena),
                      kva_chain_prefix(c, arena), answers, NAMES, " ", arena, err);
}

static enum kva_status draw(const struct kva_task *task, const struct kva_mt *mt,
                            struct plan *p, const struct kva_item *item,
                            struct kva_item *turns, struct kva_arena *arena,
                            struct kva_error *err)
{
    int context = kva_mt_context(mt, item), n = mt->turns, asked[CHAINS_MAX];
    struct kva_rng rng = kva_task_stream(task, context, "");

    for (int k = 0; k < n; k++)
        kva_chain_draw(&p->chain[k], &rng, 5, context + k, p->chain, k);
    kva_order_draw(&rng, asked, n);
    for (int t = 0; t < n; t++)
        KVA_TRY(make_turn(task, p, asked[t], n, arena, &turns[t], err));
    for (int k = 0; k < n; k++)
        for (int i = 0; i < NAMES; i++) {
            p->plant[p->n_plants] = p->chain[k].plant[i];
            p->plant[p->n_plants++].queried = k == asked[kva_mt_turn(mt, item)];
        }
    return kva_chain_example(task, context, p->chain, n, arena, &p->example, err);
}

static enum kva_status vt_item(const struct kva_task *task, int idx,
                               const struct kva_tok_api *tok, struct kva_arena *arena,
                               struct kva_item *item, struct kva_error *err)
{
    const struct state *s = task->state;
    struct plan *p = kva_arena_alloc(arena, 1, sizeof *p);
    struct kva_item *turns = kva_mt_turns(&s->mt, item, arena);
    const char *forbidden[PLANTS + CHAINS_MAX];
    struct kva_span_job job = {.forbidden = forbidden};
    struct kva_fit fit = {.build = build, .ctx = p, .n_max = (size_t)task->info.ctx};
    struct kva_draft d;
    enum kva_status rc;

    if (!p || !turns)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
    kva_draft_init(&d);
    KVA_GO(draw(task, &s->mt, p, item, turns, arena, err));
    job.plants = p->plant;
    job.n_plants = p->n_plants;
    for (int k = 0; k < s->mt.turns; k++) {
        for (int i = 0; i < NAMES; i++)
            forbidden[job.n_forbidden++] = p->chain[k].name[i];
        forbidden[job.n_forbidden] = kva_arena_printf(arena, "%d", p->chain[k].value);
        if (!forbidden[job.n_forbidden++]) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", idx);
            goto out;
        }
    }
    rc = kva_mt_finish(task, &s->mt, turns, &fit, &d, &job, tok, arena, item, err);
out:
    kva_draft_release(&d);
    return rc;
}

static int vt_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct state *s = task->state;
    int bad = kva_mt_describe(task, &s->mt, gen);

    (void)source;
    bad |=
        json_object_set_new(gen, "example_lines", json_integer(KVA_CHAIN_EXAMPLE_LINES));
    bad |= json_object_set_new(gen, "hops", json_integer(NAMES - 1));
    return bad;
}

const struct kva_family kva_family_mt_vt = {vt_open, free, vt_item, vt_describe};
