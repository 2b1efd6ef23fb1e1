/* SPDX-License-Identifier: GPL-3.0-or-later */
/* wave.c - question, gold and decode rows of all cells of one question, step by step.
 *
 * The order of cells inside a step is the order given; a row's result does not depend on
 * it. Gold rows are fed before decoding and rewound, so that every stored generation was
 * really decoded from the state after the answer prefix. With `+decode:E` the question is
 * appended whole, answered once, then the cache is cut to its budget (ruling R19); gold
 * rows see the cache before that cut. */
#include "runner/wave.h"

#include "runner/cheats.h"

#include <stdlib.h>
#include <string.h>

double kva_decide_keep(const struct kva_method *m, uint64_t total, uint64_t held)
{
    if (m->scorer == NULL || !m->scorer->budget_dependent || held == 0)
        return 0;
    return total < held ? (double)total / (double)held : 1;
}

enum kva_status kva_decide_unite(const struct kva_kvstore *store, int layer0, int layer1,
                                 struct kva_decision *d, struct kva_error *err)
{
    if (layer1 == 0)
        layer1 = d->keep.layers;
    if (d->nothing_to_do)
        return KVA_OK;
    KVA_TRY(kva_kvstore_unite(store, layer0, layer1, &d->keep, err));
    d->total = d->keep.off[d->keep.layers * d->keep.kv_heads];
    return KVA_OK;
}

void kva_note(struct kva_noted *n, const struct kva_decision *d)
{
    n->fell_back = n->fell_back || d->fallback;
    n->staged += d->staged;
    n->heavy += d->heavy;
}

enum kva_status kva_decide_own(struct kva_session *s, struct kva_own *own,
                               struct kva_decision *d, struct kva_error *err)
{
    struct kva_decide_in in;
    struct kva_scores scores = {0};
    uint64_t scratch = 0;
    enum kva_status rc;

    *d = (struct kva_decision){0};
    memset(&in, 0, sizeof in);
    kva_session_decide_in(s, &in);
    in.seed = own->seed;
    in.block_len = own->block_len;
    in.is_block = own->is_block;
    in.question = own->question;
    in.prompt = own->prompt;
    in.layer0 = own->layer0;
    in.layer1 = own->layer1;
    if (own->seen > 0)
        in.seen = own->seen;
    in.keep = kva_decide_keep(own->method, own->total, own->held);
    KVA_GO(kva_method_score(own->method, &in, &scores, &scratch, err));
    if (scores.nonfinite > 0) {
        rc = KVA_FAIL(err, KVA_ENONFINITE, "%llu scores of %s are not finite numbers",
                      (unsigned long long)scores.nonfinite, own->method->scorer_spec);
        goto out;
    }
    own->scratch = scratch > own->scratch ? scratch : own->scratch;
    scratch = 0;
    KVA_GO(kva_method_decide(own->method, &in, &scores, own->total, d, &scratch, err));
    own->scratch = scratch > own->scratch ? scratch : own->scratch;
    kva_note(&own->noted, d);
    if (own->united)
        KVA_GO(kva_decide_unite(in.store, own->layer0, own->layer1, d, err));
out:
    kva_scores_release(&scores);
    return rc;
}

struct stepper {
    struct kva_model *m;
    struct kva_row *rows;
    int *owner; /* cell of each row */
    int cap, n;
    int64_t *total;
    const volatile int *stop;
};

static bool alive(const struct kva_run_cell *c)
{
    return !c->done && c->failed.code == KVA_OK;
}

static void fail(struct kva_run_cell *c, const struct kva_error *why)
{
    if (c->failed.code == KVA_OK)
        c->failed = *why;
}

/* Results of the rows of one step, handed back per row. */
typedef void (*row_done)(struct kva_run_cell *c, const struct kva_row *row);

static enum kva_status flush(struct stepper *st, struct kva_run_cell **cells, row_done fn,
                             struct kva_error *err)
{
    if (st->n == 0)
        return KVA_OK;
    if (st->stop != NULL && *st->stop != 0)
        return KVA_FAIL(err, KVA_EINTERRUPTED, "stopped between two steps");
    KVA_TRY(kva_step(st->m, st->rows, st->n, NULL, err));
    *st->total += st->n;
    for (int i = 0; i < st->n; i++) {
        struct kva_run_cell *c = cells[st->owner[i]];
        const struct kva_error *why = kva_session_error(c->session);

        if (why->code != KVA_OK)
            fail(c, why);
        else if (st->rows[i].logits && !st->rows[i].finite && c->failed.code == KVA_OK)
            (void)KVA_FAIL(&c->failed, KVA_ENONFINITE, "a logit is not a finite number");
        else if (st->rows[i].logits)
            fn(c, &st->rows[i]);
    }
    st->n = 0;
    return KVA_OK;
}

static enum kva_status push(struct stepper *st, struct kva_run_cell **cells, int owner,
                            int32_t token, bool logits, int32_t target, row_done fn,
                            struct kva_error *err)
{
    if (st->n == st->cap)
        KVA_TRY(flush(st, cells, fn, err));
    st->rows[st->n] = (struct kva_row){.session = cells[owner]->session,
                                       .token = token,
                                       .logits = logits,
                                       .target = target};
    st->owner[st->n++] = owner;
    return KVA_OK;
}

static void question_row(struct kva_run_cell *c, const struct kva_row *row)
{
    c->next = row->argmax;
    c->first_nll = row->nll;
    c->first_ok = true;
}

static void gold_row(struct kva_run_cell *c, const struct kva_row *row)
{
    c->gold_sum += row->nll;
}

static void decode_row(struct kva_run_cell *c, const struct kva_row *row)
{
    c->next = row->sampling != NULL ? row->drawn : row->argmax;
}

static enum kva_status questions(struct stepper *st, struct kva_run_cell **cells, int n,
                                 struct kva_error *err)
{
    for (int i = 0; i < n; i++) {
        struct kva_run_cell *c = cells[i];

        kva_parts_enter(c->parts, KVA_PART_QUESTION);
        for (int j = 0; j < c->n_ids && c->leader == NULL && alive(c); j++) {
            bool last = j == c->n_ids - 1;
            int32_t target = last && c->n_gold > 0 ? c->gold[0] : -1;

            KVA_TRY(push(st, cells, i, c->ids[j], last, target, question_row, err));
            if (last)
                st->rows[st->n - 1].keep_logits = c->logits;
            if (last && c->ends != NULL) {
                st->rows[st->n - 1].forbid = c->ends->forbid;
                st->rows[st->n - 1].n_forbid = c->ends->n_forbid;
            }
        }
    }
    KVA_TRY(flush(st, cells, question_row, err));
    for (int i = 0; i < n; i++) {
        struct kva_run_cell *c = cells[i];

        c->first_ns = kva_now_ns();
        kva_parts_enter(c->parts, KVA_PART_NONE);
        if (alive(c) && c->leader == NULL && !c->first_ok)
            (void)KVA_FAIL(&c->failed, KVA_EINVALID,
                           "the prompt has no row to answer from");
    }
    return KVA_OK;
}

/* Teacher-forces the gold answer after the answer prefix, then rewinds (charter decision
 * 14). */
static enum kva_status gold(struct stepper *st, struct kva_run_cell **cells, int n,
                            struct kva_error *err)
{
    struct kva_kv_bytes bytes;

    for (int i = 0; i < n; i++) {
        struct kva_run_cell *c = cells[i];

        if (c->n_gold == 0 || c->leader != NULL || !alive(c))
            continue;
        c->gold_sum = c->first_nll;
        kva_kvstore_bytes(kva_session_store(c->session), &bytes);
        c->peak_bytes = bytes.peak_bytes;
        kva_session_collecting(c->session, false); /* nobody said these tokens */
        for (int j = 0; j + 1 < c->n_gold; j++)
            KVA_TRY(push(st, cells, i, c->gold[j], true, c->gold[j + 1], gold_row, err));
    }
    KVA_TRY(flush(st, cells, gold_row, err));
    for (int i = 0; i < n; i++) {
        struct kva_run_cell *c = cells[i];
        struct kva_error why = {0};

        if (c->n_gold == 0 || c->leader != NULL || !alive(c))
            continue;
        c->has_gold = true;
        kva_session_collecting(c->session, true);
        /* as it was before: entries, tables and the recorded peak */
        if (c->n_gold > 1 &&
            (kva_session_rewind(c->session,
                                kva_session_seen(c->session) - (c->n_gold - 1),
                                &why) != KVA_OK ||
             kva_kvstore_trim(kva_session_store(c->session), &why) != KVA_OK))
            fail(c, &why);
        kva_kvstore_forget_peak(kva_session_store(c->session), c->peak_bytes);
    }
    return KVA_OK;
}

/* The complement of what `d` keeps: victims by rank. */
static enum kva_status victims_of(const struct kva_decision *d,
                                  const struct kva_kvstore *store, struct kva_keep *v,
                                  struct kva_error *err)
{
    int kvheads = d->keep.layers * d->keep.kv_heads;
    size_t n = 0, at = 0;

    for (int c = 0; c < kvheads; c++)
        n += (size_t)kva_kvstore_live(store, c / d->keep.kv_heads, c % d->keep.kv_heads);
    v->layers = d->keep.layers;
    v->kv_heads = d->keep.kv_heads;
    v->rank = kva_calloc(n, sizeof *v->rank);
    v->off = kva_calloc((size_t)kvheads + 1, sizeof *v->off);
    if (v->rank == NULL || v->off == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "list of %zu evicted entries", n);
    for (int c = 0; c < kvheads; c++) {
        int live = kva_kvstore_live(store, c / d->keep.kv_heads, c % d->keep.kv_heads);
        size_t k = d->keep.off[c];

        v->off[c] = at;
        for (int r = 0; r < live; r++) {
            if (k < d->keep.off[c + 1] && d->keep.rank[k] == r)
                k++;
            else
                v->rank[at++] = r;
        }
    }
    v->off[kvheads] = at;
    return KVA_OK;
}

/* Entries held above the budget, per KV head on average rounded up: how far decoding has
 * grown. */
static uint64_t held_entries(struct kva_session *s)
{
    struct kva_kv_bytes b;

    kva_kvstore_bytes(kva_session_store(s), &b);
    return b.entries_kept;
}

/* Brings a decode-evicting cell back to its budget. bulk: the cut after the question. */
static enum kva_status cut_to_budget(struct kva_run_cell *c, bool bulk,
                                     struct kva_error *err)
{
    struct kva_kvstore *store = kva_session_store(c->session);
    struct kva_decision d = {0};
    struct kva_keep victims = {0};
    struct kva_own own = {.method = &c->cell->method,
                          .total = c->budget_total,
                          .held = held_entries(c->session),
                          .seed = c->seed,
                          .prompt = c->prompt,
                          .block_len = kva_session_seen(c->session),
                          .is_block = true,
                          .united = c->cell->enforce == KVA_UNION,
                          .noted = c->noted};
    enum kva_status rc;

    if (KVA_CHEATS(KVA_CHEAT_GROW))
        return KVA_OK;
    KVA_GO(kva_decide_own(c->session, &own, &d, err));
    c->noted = own.noted;
    if (d.nothing_to_do)
        goto out;
    if (bulk) {
        KVA_GO(kva_session_keep(c->session, &d.keep, err));
        KVA_GO(kva_kvstore_trim(store, err));
    } else {
        KVA_GO(victims_of(&d, store, &victims, err));
        KVA_GO(kva_session_replace(c->session, &victims, err));
    }
out:
    kva_keep_release(&victims);
    kva_decision_release(&d);
    return rc;
}

static void cut_after_question(struct kva_run_cell *c)
{
    struct kva_error why = {0};

    if (!alive(c) || c->leader != NULL || c->cell->schedule.decode == 0 ||
        c->cell->method.scorer == NULL)
        return;
    if (cut_to_budget(c, true, &why) != KVA_OK)
        fail(c, &why);
}

static void cut_while_decoding(struct kva_run_cell *c)
{
    const struct kva_kvshape *shape;
    uint64_t heads;
    struct kva_error why = {0};

    if (!alive(c) || c->cell->schedule.decode == 0 || c->cell->method.scorer == NULL)
        return;
    shape = kva_kvstore_shape(kva_session_store(c->session));
    heads = (uint64_t)(shape->layers * shape->kv_heads);
    if (held_entries(c->session) <
        c->budget_total + (uint64_t)c->cell->schedule.decode * heads)
        return;
    if (cut_to_budget(c, false, &why) != KVA_OK)
        fail(c, &why);
}

/* From here on the draws of a question part. Without memory for all of them the wave
 * fails as a whole, before it told anything: it can be tried in halves. */
static enum kva_status follow(struct kva_run_cell *c, struct kva_error *err)
{
    const struct kva_run_cell *from = c->leader;
    struct kva_error why = {0};

    if (from == NULL)
        return KVA_OK;
    if (from->failed.code != KVA_OK) {
        c->failed = from->failed;
        return KVA_OK;
    }
    if (kva_session_copy(from->session, &c->session, &why) == KVA_ENOMEM)
        return KVA_FAIL(err, KVA_ENOMEM, "%s", why.text);
    if (why.code != KVA_OK)
        fail(c, &why);
    c->noted = from->noted;
    c->first_nll = from->first_nll;
    c->first_ok = from->first_ok;
    c->gold_sum = from->gold_sum;
    c->has_gold = from->has_gold;
    c->peak_bytes = from->peak_bytes;
    return KVA_OK;
}

static const struct kva_sampling *sampling_of(const struct kva_run_cell *c)
{
    return kva_sampled(&c->cell->sampling) ? &c->cell->sampling : NULL;
}

static enum kva_status begin_answers(struct kva_model *m, struct kva_run_cell **cells,
                                     int n, struct kva_error *err)
{
    struct kva_ops *ops = kva_model_ops(m);
    int vocab = kva_model_info(m)->vocab;

    for (int i = 0; i < n; i++)
        KVA_TRY(follow(cells[i], err));
    for (int i = 0; i < n; i++) {
        struct kva_run_cell *c = cells[i];
        const struct kva_sampling *s = sampling_of(c);
        const float *logits = c->leader != NULL ? c->leader->logits : c->logits;
        double u = kva_draw_unit(c->draw_seed, 0);

        if (alive(c) && s != NULL)
            ops->draw(ops, logits, vocab, 1, (float)s->temperature, s->top_k,
                      (float)s->top_p, &u, &c->next);
    }
    return ops->sync(ops, err);
}

/* Takes the token the cell would say next, which may end its answer. */
static void take_token(struct kva_run_cell *c)
{
    struct kva_error why = {0};

    c->gen[c->n_gen++] = c->next;
    if (kva_ends_check(c->ends, c->tok, c->gen, c->n_gen, c->max_new, &c->stop, &why) !=
        KVA_OK)
        fail(c, &why);
    c->done = c->stop != NULL;
}

static enum kva_status report_ended(struct kva_run_cell **cells, int n, bool *told,
                                    struct kva_run_cell **group, kva_wave_ended ended,
                                    void *ctx, struct kva_error *err)
{
    int g = 0;

    for (int i = 0; i < n; i++)
        if (!told[i] && !alive(cells[i])) {
            told[i] = true;
            cells[i]->done = true;
            group[g++] = cells[i];
        }
    return g > 0 ? ended(ctx, group, g, err) : KVA_OK;
}

static enum kva_status decode(struct stepper *st, struct kva_run_cell **cells, int n,
                              bool *told, struct kva_run_cell **group,
                              kva_wave_ended ended, void *ctx, struct kva_error *err)
{
    for (;;) {
        bool any = false;
        uint64_t t0 = kva_now_ns();

        for (int i = 0; i < n; i++)
            if (alive(cells[i]))
                take_token(cells[i]);
        KVA_TRY(report_ended(cells, n, told, group, ended, ctx, err));
        for (int i = 0; i < n; i++) {
            if (!alive(cells[i]))
                continue;
            any = true;
            KVA_TRY(push(st, cells, i, cells[i]->next, true, -1, decode_row, err));
            st->rows[st->n - 1].sampling = sampling_of(cells[i]);
            st->rows[st->n - 1].u = kva_draw_unit(cells[i]->draw_seed, cells[i]->n_gen);
        }
        if (!any)
            return KVA_OK;
        KVA_TRY(flush(st, cells, decode_row, err));
        for (int i = 0; i < n; i++) {
            cut_while_decoding(cells[i]);
            if (cells[i]->timed && alive(cells[i]))
                cells[i]->step_ns[cells[i]->n_steps++] = kva_now_ns() - t0;
        }
    }
}

enum kva_status kva_wave_run(struct kva_model *m, struct kva_run_cell **cells, int n,
                             int chunk, const volatile int *stop, kva_wave_ended ended,
                             void *ctx, int64_t *rows, struct kva_error *err)
{
    struct stepper st = {
        .m = m, .cap = chunk > n ? chunk : n, .total = rows, .stop = stop};
    struct kva_run_cell **group = kva_calloc((size_t)n, sizeof(struct kva_run_cell *));
    bool *told = kva_calloc((size_t)n, sizeof *told);
    enum kva_status rc;

    st.rows = kva_calloc((size_t)st.cap, sizeof *st.rows);
    st.owner = kva_calloc((size_t)st.cap, sizeof *st.owner);
    if (group == NULL || told == NULL || st.rows == NULL || st.owner == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "a wave of %d sessions", n);
        goto out;
    }
    KVA_GO(questions(&st, cells, n, err));
    KVA_GO(gold(&st, cells, n, err));
    for (int i = 0; i < n; i++)
        cut_after_question(cells[i]);
    KVA_GO(begin_answers(m, cells, n, err));
    KVA_GO(report_ended(cells, n, told, group, ended, ctx, err));
    KVA_GO(decode(&st, cells, n, told, group, ended, ctx, err));
    KVA_GO(report_ended(cells, n, told, group, ended, ctx, err));
out:
    free(group);
    free(told);
    free(st.rows);
    free(st.owner);
    return rc;
}
