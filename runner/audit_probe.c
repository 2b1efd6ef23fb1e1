/* SPDX-License-Identifier: GPL-3.0-or-later */
/* audit_probe.c - what no stored outcome can tell, from a few samples.
 *
 *   K3  the masked and the physical cache of one decision read the question and the gold
 *       answer; every logit is compared
 *   K5  the context is compressed with its own question, with that of the next sample,
 *       with an empty one and with none; kept sets must agree (analysis.md 6.4)
 *   K6  a block prefill beside one written out here, in which nothing but the cut cache
 *       exists when a block is read; keys and values must agree
 *
 * Sessions come from the same functions as those of a run; the caches that cells share
 * are made anew for every question, so that nothing a question left in one is missed. */
#include "runner/audit.h"
#include "runner/exec_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kept positions of every KV head. Where kept keys move to contiguous positions, these
 * say nothing, and the hash taken before is all there is. */
struct kept {
    uint64_t fnv;
    size_t *off;
    int32_t *pos;
};

struct probe {
    struct kva_probes *p;
    struct kva_unit_state *st;
    struct kept *own; /* [jobs] under the sample's own question */
};

static void kept_release(struct kept *k)
{
    free(k->off);
    free(k->pos);
    memset(k, 0, sizeof *k);
}

static enum kva_status kept_of(const struct kva_live *live, struct kept *k,
                               struct kva_error *err)
{
    const struct kva_kvstore *store = kva_session_store(live->rc.session);
    const struct kva_kvshape *shape = kva_kvstore_shape(store);
    int n = shape->layers * shape->kv_heads;

    k->fnv = live->result.kept_fnv;
    k->off = kva_calloc((size_t)n + 1, sizeof *k->off);
    if (k->off == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "kept sets");
    for (int c = 0; c < n; c++)
        k->off[c + 1] = k->off[c] + (size_t)kva_kvstore_live(store, c / shape->kv_heads,
                                                             c % shape->kv_heads);
    k->pos = kva_calloc(k->off[n] + 1, sizeof *k->pos);
    if (k->pos == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "kept sets");
    for (int c = 0; c < n; c++)
        kva_kvstore_positions(store, c / shape->kv_heads, c % shape->kv_heads,
                              k->pos + k->off[c]);
    return KVA_OK;
}

static enum kva_status open_job(struct probe *pr, const struct kva_job *job,
                                struct kva_live *l, struct kva_error *err)
{
    if (pr->st->u.opts->stop != NULL && *pr->st->u.opts->stop != 0)
        return KVA_FAIL(err, KVA_EINTERRUPTED, "stopped between two probes");
    KVA_TRY(kva_live_begin(pr->st, job, l, err));
    return kva_live_open(pr->st, l, err);
}

static void forget_bases(struct kva_unit_state *st)
{
    kva_base_release(&st->base);
    kva_base_release(&st->aware);
    kva_base_release(&st->full);
}

/* A probe that cannot run leaves its claim untested and the others alone. */
static enum kva_status note(struct kva_probe_cell *c, enum kva_status rc,
                            struct kva_error *why, struct kva_error *err)
{
    if (rc == KVA_EINTERRUPTED || rc == KVA_ENOMEM)
        return KVA_FAIL(err, rc, "%s", why->text);
    if (rc != KVA_OK)
        snprintf(c->failed, sizeof c->failed, "%.150s", why->text);
    return KVA_OK;
}

/* ---- K3 ---- */

/* The logits that follow the question and each token of the gold answer but the last. */
static enum kva_status teacher_force(const struct kva_unit_run *u, struct kva_live *l,
                                     float **out, int *n_out, struct kva_error *err)
{
    int n_gold = l->rc.n_gold > 0 ? l->rc.n_gold - 1 : 0, n = l->rc.n_ids + n_gold;
    int wanted = n_gold + (l->rc.n_ids > 0), done = 0;
    struct kva_row *rows = kva_calloc((size_t)u->chunk, sizeof *rows);
    float *raw = kva_calloc((size_t)wanted * (size_t)u->info->vocab + 1, sizeof *raw);
    enum kva_status rc = KVA_OK;

    if (rows == NULL || raw == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "logits of %d rows", wanted);
        goto out;
    }
    for (int at = 0; at < n; at += u->chunk) {
        int c = n - at < u->chunk ? n - at : u->chunk, here = 0;

        for (int i = 0; i < c; i++) {
            int t = at + i;

            rows[i] = (struct kva_row){
                .session = l->rc.session,
                .token = t < l->rc.n_ids ? l->rc.ids[t] : l->rc.gold[t - l->rc.n_ids],
                .logits = t + 1 >= l->rc.n_ids,
                .target = -1};
            here += rows[i].logits;
        }
        KVA_GO(kva_step(u->model, rows, c, raw + (size_t)done * (size_t)u->info->vocab,
                        err));
        if (kva_session_error(l->rc.session)->code != KVA_OK) {
            rc = KVA_FAIL(err, kva_session_error(l->rc.session)->code, "%s",
                          kva_session_error(l->rc.session)->text);
            goto out;
        }
        done += here;
    }
    *out = raw;
    *n_out = done;
    raw = NULL;
out:
    free(rows);
    free(raw);
    return rc;
}

static int best(const float *x, int n, double *gap)
{
    int a = 0, b = -1;

    for (int i = 1; i < n; i++) {
        if (x[i] > x[a]) {
            b = a;
            a = i;
        } else if (b < 0 || x[i] > x[b]) {
            b = i;
        }
    }
    *gap = b < 0 ? 0 : (double)x[a] - (double)x[b];
    return a;
}

static void compare_rows(const float *a, const float *b, int rows, int vocab,
                         struct kva_claim_equal *e)
{
    for (int r = 0; r < rows; r++, a += vocab, b += vocab) {
        double off = 0, gap;

        for (int i = 0; i < vocab; i++) {
            double x = (double)a[i], d = fabs(x - (double)b[i]);

            off = d > off ? d : off;
            e->top = fabs(x) > e->top ? fabs(x) : e->top;
        }
        e->logits++;
        e->logit_rows += memcmp(a, b, (size_t)vocab * sizeof *a) != 0;
        e->dlogit = off > e->dlogit ? off : e->dlogit;
        if (best(a, vocab, &gap) != best(b, vocab, &(double){0}) && gap > 2e-3 * e->top)
            e->flips++;
    }
}

/* Largest relative difference of the live keys and values of two stores; *sets: they
 * hold other positions; *keys: keys of the same entries differ. */
static enum kva_status compare_stores(struct kva_session *x, struct kva_session *y,
                                      bool *sets, bool *keys, double *rel,
                                      struct kva_error *err)
{
    const struct kva_kvstore *a = kva_session_store(x), *b = kva_session_store(y);
    const struct kva_kvshape *s = kva_kvstore_shape(a);
    double top = 0, off = 0;
    enum kva_status rc = KVA_OK;

    *sets = kva_kvstore_kept_fnv(a) != kva_kvstore_kept_fnv(b);
    *keys = false;
    *rel = 0;
    if (*sets)
        return KVA_OK;
    for (int c = 0; rc == KVA_OK && c < s->layers * s->kv_heads; c++) {
        int l = c / s->kv_heads, h = c % s->kv_heads;
        size_t n = (size_t)kva_kvstore_live(a, l, h), nk = n * (size_t)s->dim_k,
               nv = n * (size_t)s->dim_v;
        float *v = kva_calloc(2 * (nk + nv) + 1, sizeof *v), *w = v + nk + nv;

        if (v == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "entries of a KV head");
        rc = kva_kvstore_gather(a, l, h, v, v + nk, err);
        if (rc == KVA_OK)
            rc = kva_kvstore_gather(b, l, h, w, w + nk, err);
        *keys = *keys || (rc == KVA_OK && memcmp(v, w, nk * sizeof *v) != 0);
        for (size_t i = 0; rc == KVA_OK && i < nk + nv; i++) {
            double d = fabs((double)v[i] - (double)w[i]);

            off = d > off ? d : off;
            top = fabs((double)v[i]) > top ? fabs((double)v[i]) : top;
        }
        free(v);
    }
    *rel = top > 0 ? off / top : 0;
    return rc;
}

static bool twins(const struct kva_cell *a, const struct kva_cell *b)
{
    char x[48], y[48];

    kva_schedule_text(&a->schedule, x);
    kva_schedule_text(&b->schedule, y);
    return a->budget.kind == b->budget.kind && a->budget.value == b->budget.value &&
           a->visibility == b->visibility && strcmp(x, y) == 0 &&
           strcmp(a->method.spec, b->method.spec) == 0;
}

/* Both twins are open; reads question and answer into each. */
static enum kva_status compare_twins(struct probe *pr, struct kva_live *physical,
                                     struct kva_live *masked, struct kva_claim_equal *e,
                                     struct kva_error *err)
{
    const struct kva_unit_run *u = &pr->st->u;
    bool sets, keys,
        once = physical->rc.cell->schedule.kind == KVA_ONESHOT ||
               physical->rc.cell->schedule.kind == KVA_LAYERWISE;
    double rel;
    float *a = NULL, *b = NULL;
    int na = 0, nb = 0;
    enum kva_status rc = KVA_OK;

    KVA_GO(compare_stores(physical->rc.session, masked->rc.session, &sets, &keys, &rel,
                          err));
    e->n++;
    e->sets += physical->result.kept_fnv != masked->result.kept_fnv;
    /* caches cut while they were read hold keys of states that differ in last bits */
    e->positions = e->positions || (once && keys);
    KVA_GO(teacher_force(u, physical, &a, &na, err));
    KVA_GO(teacher_force(u, masked, &b, &nb, err));
    compare_rows(a, b, na < nb ? na : nb, u->info->vocab, e);
out:
    free(a);
    free(b);
    return rc;
}

/* ---- K6 ---- */

/* A block prefill in the plainest form: read, decide, cut, over and over. */
static enum kva_status read_in_blocks(struct kva_unit_run *u, const struct kva_cell *cell,
                                      const int32_t *ids, int n, struct kva_session *s,
                                      struct kva_error *err)
{
    uint64_t whole = kva_cell_total(u, cell, n);

    for (int at = 0; at < n; at += cell->schedule.block) {
        int len = n - at < cell->schedule.block ? n - at : cell->schedule.block;
        uint64_t total = cell->schedule.kind == KVA_CHUNKED
                             ? kva_cell_total(u, cell, at + len)
                             : whole;
        struct kva_scores scores = {0};
        struct kva_decision d = {0};
        struct kva_decide_in in;
        struct kva_kv_bytes held;
        enum kva_status rc;

        KVA_TRY(kva_unit_feed(u, s, ids + at, len, NULL, err));
        kva_kvstore_bytes(kva_session_store(s), &held);
        if (held.entries_kept <= total)
            continue;
        memset(&in, 0, sizeof in);
        kva_session_decide_in(s, &in);
        in.seed = kva_unit_seed(u, cell);
        in.block_len = len;
        in.is_block = true;
        in.prompt = cell->schedule.kind == KVA_CHUNKED ? at + len : n;
        if (cell->method.scorer->budget_dependent)
            in.keep = (double)total / (double)held.entries_kept;
        rc = kva_method_score(&cell->method, &in, &scores, NULL, err);
        if (rc == KVA_OK)
            rc = kva_method_decide(&cell->method, &in, &scores, total, &d, NULL, err);
        if (rc == KVA_OK && !d.nothing_to_do)
            rc = kva_session_keep(s, &d.keep, err);
        kva_decision_release(&d);
        kva_scores_release(&scores);
        KVA_TRY(rc);
    }
    return KVA_OK;
}

static enum kva_status compare_blocks(struct probe *pr, struct kva_live *l,
                                      struct kva_probe_cell *out, struct kva_error *err)
{
    struct kva_unit_run *u = &pr->st->u;
    const struct kva_cell *cell = l->rc.cell;
    struct kva_collect want = kva_method_collect(&cell->method);
    int window = 0, n = (int)u->prompt.context.n;
    struct kva_session *s = NULL;
    struct kva_session_opts o = {.kv = u->unit->kv,
                                 .mode = KVA_KV_PHYSICAL,
                                 .page_cap = kva_page_cap(u->info, NULL, n, 0),
                                 .collect = &want,
                                 .n_collect = want.kind != KVA_COLLECT_NONE};
    bool sets, keys;
    double rel;
    enum kva_status rc = KVA_OK;

    (void)kva_method_needs(&cell->method, &window);
    o.q_window = window;
    KVA_GO(kva_session_new(u->model, &o, &s, err));
    KVA_GO(read_in_blocks(u, cell, u->prompt.context.id, n, s, err));
    KVA_GO(compare_stores(l->rc.session, s, &sets, &keys, &rel, err));
    if (sets)
        rel = INFINITY;
    if (isnan(out->incremental) || rel > out->incremental)
        out->incremental = rel;
out:
    kva_session_free(s);
    return rc;
}

/* ---- K5 ---- */

static enum kva_status add_leak(struct kva_probes *p, const struct kva_probe_leak *row,
                                struct kva_error *err)
{
    if (p->n_leak == p->cap_leak) {
        int cap = p->cap_leak > 0 ? 2 * p->cap_leak : 64;
        struct kva_probe_leak *more = kva_realloc(p->leak, (size_t)cap, sizeof *more);

        if (more == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "%d leak rows", cap);
        p->leak = more;
        p->cap_leak = cap;
    }
    p->leak[p->n_leak++] = *row;
    return KVA_OK;
}

static enum kva_status compare_kept(struct probe *pr, int job, int question,
                                    const struct kept *other, const char *variant,
                                    struct kva_error *err)
{
    const struct kva_unit_run *u = &pr->st->u;
    const struct kept *own = &pr->own[job];
    int cell = u->unit->jobs[job].cell;
    struct kva_probe_leak row = {
        .cell = cell, .variant = variant, .heads = u->info->layers * u->info->kv_heads};
    struct kva_claim_leak *sum = &pr->p->cell[cell].leak;
    double jaccard = 0;

    for (int c = 0; c < row.heads; c++) {
        int na = (int)(own->off[c + 1] - own->off[c]),
            nb = (int)(other->off[c + 1] - other->off[c]);
        double j =
            kva_claim_jaccard(own->pos + own->off[c], na, other->pos + other->off[c], nb);

        row.changed += j < 1;
        jaccard += j;
    }
    if (row.changed == 0 && own->fnv != other->fnv)
        row.changed = row.heads;
    row.jaccard = jaccard / row.heads;
    memcpy(row.sample, u->samples[question].digest, 32);
    sum->heads += row.heads;
    sum->changed += row.changed;
    sum->jaccard += jaccard;
    return add_leak(pr->p, &row, err);
}

enum { NEXT, EMPTY, NONE, VARIANTS };
static const char *const VARIANT[] = {"next", "empty", "none"};

/* Another question in place of the sample's own; false: there is none of this kind. */
static enum kva_status other_question(struct kva_unit_run *u, int q, int variant,
                                      struct kva_question *out, bool *made,
                                      struct kva_error *err)
{
    const struct kva_item *it = &u->items[q];
    struct kva_item next;
    struct kva_tok_model tm;
    struct kva_tok_api api;

    memset(out, 0, sizeof *out);
    *made = variant == NONE || it->question_ids == NULL;
    if (!*made)
        return KVA_OK;
    if (variant == NONE)
        return kva_tokenizer_clone(u->prompt.tok, &out->tok, err);
    if (variant == EMPTY)
        return kva_prompt_question(u->model, &it->feed, &u->prompt, "", "", out, err);
    memset(&next, 0, sizeof next);
    kva_tok_api_model(&tm, u->model, &api);
    KVA_TRY(kva_task_item(u->task->task, it->idx > 0 ? it->idx - 1 : it->idx + 1, &api,
                          &u->arena, &next, err));
    return kva_prompt_question(u->model, &it->feed, &u->prompt, next.question,
                               next.answer_prefix, out, err);
}

static bool leak_tested(const struct kva_cell *c)
{
    return c->visibility == KVA_AGNOSTIC && c->enforce == KVA_PHYSICAL;
}

static enum kva_status try_question(struct probe *pr, int q, int variant,
                                    struct kva_error *err)
{
    struct kva_unit_run *u = &pr->st->u;
    struct kva_question own = u->questions[q], other;
    bool made = false;
    enum kva_status rc = KVA_OK;

    KVA_GO(other_question(u, q, variant, &other, &made, err));
    if (!made)
        return KVA_OK;
    u->questions[q] = other;
    forget_bases(pr->st);
    for (int i = 0; i < u->unit->n_jobs; i++) {
        const struct kva_job *job = &u->unit->jobs[i];
        struct kva_live l = {0};
        struct kept kept = {0};
        struct kva_error why = {0};

        if (job->question != q || pr->own[i].off == NULL)
            continue;
        rc = open_job(pr, job, &l, &why);
        if (rc == KVA_OK)
            rc = kept_of(&l, &kept, &why);
        if (rc == KVA_OK)
            rc = compare_kept(pr, i, q, &kept, VARIANT[variant], &why);
        kept_release(&kept);
        kva_live_release(&l);
        KVA_GO(note(&pr->p->cell[job->cell], rc, &why, err));
    }
out:
    u->questions[q] = own;
    forget_bases(pr->st);
    kva_question_release(&other);
    return rc;
}

/* ---- one question of a unit ---- */

static const struct kva_job *masked_twin(const struct probe *pr,
                                         const struct kva_job *job)
{
    const struct kva_unit_run *u = &pr->st->u;

    for (int i = 0; i < u->unit->n_jobs; i++) {
        const struct kva_job *other = &u->unit->jobs[i];
        const struct kva_cell *c = &u->plan->cells[other->cell];

        if (other->question == job->question && c->enforce == KVA_MASK &&
            twins(c, &u->plan->cells[job->cell]))
            return other;
    }
    return NULL;
}

static enum kva_status probe_job(struct probe *pr, int i, struct kva_error *err)
{
    const struct kva_unit_run *u = &pr->st->u;
    const struct kva_job *job = &u->unit->jobs[i], *twin = masked_twin(pr, job);
    const struct kva_cell *cell = &u->plan->cells[job->cell];
    struct kva_probe_cell *out = &pr->p->cell[job->cell];
    struct kva_live l = {0}, m = {0};
    struct kva_error why = {0};
    enum kva_status rc = open_job(pr, job, &l, &why);

    if (rc == KVA_OK && leak_tested(cell))
        rc = kept_of(&l, &pr->own[i], &why);
    if (rc == KVA_OK && cell->visibility == KVA_AGNOSTIC &&
        (cell->schedule.kind == KVA_BLOCK || cell->schedule.kind == KVA_CHUNKED))
        rc = compare_blocks(pr, &l, out, &why);
    if (rc == KVA_OK && twin != NULL) {
        rc = open_job(pr, twin, &m, &why);
        if (rc == KVA_OK)
            rc = compare_twins(pr, &l, &m, &out->equal, &why);
    }
    kva_live_release(&l);
    kva_live_release(&m);
    return note(out, rc, &why, err);
}

static enum kva_status probe_unit(void *ctx, struct kva_unit_state *st,
                                  struct kva_error *err)
{
    struct kva_probes *p = ctx;
    const struct kva_unit *un = st->u.unit;
    struct probe pr = {.p = p, .st = st};
    enum kva_status rc = KVA_OK;

    pr.own = kva_calloc((size_t)un->n_jobs + 1, sizeof *pr.own);
    if (pr.own == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "kept sets of %d cells", un->n_jobs);
    for (int q = 0; q < un->n_idx; q++) {
        if (kva_unit_talks(&st->u) && q > 0)
            break; /* a conversation is cut with its first question */
        for (int i = 0; i < un->n_jobs; i++)
            if (un->jobs[i].question == q &&
                st->u.plan->cells[un->jobs[i].cell].enforce == KVA_PHYSICAL)
                KVA_GO(probe_job(&pr, i, err));
        for (int v = 0; v < VARIANTS; v++)
            KVA_GO(try_question(&pr, q, v, err));
    }
out:
    for (int i = 0; i < un->n_jobs; i++)
        kept_release(&pr.own[i]);
    free(pr.own);
    return rc;
}

enum kva_status kva_probes_run(struct kva_probes *p, const volatile int *stop,
                               struct kva_error *err)
{
    struct kva_exec_opts opts = {.stop = stop, .probe = probe_unit, .probe_ctx = p};
    struct kva_sink sink = {0};
    int64_t rows = 0;

    p->cell = kva_calloc((size_t)p->plan.n_cells + 1, sizeof *p->cell);
    if (p->cell == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "probes of %d cells", p->plan.n_cells);
    for (int i = 0; i < p->plan.n_cells; i++) {
        p->cell[i].incremental = NAN;
        p->cell[i].equal.exact = p->exact;
        p->cell[i].leak.variants = VARIANTS;
    }
    for (int u = 0; u < p->plan.n_units; u++)
        KVA_TRY(kva_exec_unit(&p->plan, u, false, &opts, &sink, &rows, err));
    return KVA_OK;
}

void kva_probes_release(struct kva_probes *p)
{
    kva_plan_release(&p->plan);
    kva_suite_release(&p->suite);
    free(p->cell);
    free(p->leak);
    memset(p, 0, sizeof *p);
}
