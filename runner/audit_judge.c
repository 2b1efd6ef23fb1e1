/* SPDX-License-Identifier: GPL-3.0-or-later */
/* audit_judge.c - reads the arms of each method from the database and decides K1 to K8.
 *
 * A claim on bytes is judged on every outcome and the worst one stands: a method that
 * holds too much on one sample holds too much. Scores are compared sample by sample. */
#include "runner/audit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct judge {
    const struct kva_plan *plan;
    const struct kva_data *data;
    const struct kva_probes *probes;
    struct kva_audit *a;
    int *cell_of; /* plan cell -> data cell, -1: nothing stored */
    int *first;   /* [data cells + 1] first outcome */
};
/* The audited cells of one row: the same method at the same budget on every task. */
struct group {
    int *cell; /* plan cells, one a task */
    int n;
};

/* ---- finding cells ---- */

static bool audited(const struct kva_cell *c)
{
    return c->arm == KVA_ARM_AUDITED && c->enforce == KVA_PHYSICAL &&
           c->budget.kind != KVA_BUDGET_DENSE;
}

static bool same_schedule(const struct kva_cell *a, const struct kva_cell *b)
{
    return a->schedule.kind == b->schedule.kind &&
           a->schedule.block == b->schedule.block &&
           a->schedule.decode == b->schedule.decode;
}

static bool same_but_method(const struct kva_cell *a, const struct kva_cell *b)
{
    return a->model == b->model && a->budget.kind == b->budget.kind &&
           a->budget.value == b->budget.value && same_schedule(a, b) && a->kv == b->kv &&
           kva_sampling_same(&a->sampling, &b->sampling);
}

static bool is_arm(const struct kva_cell *base, const struct kva_cell *c,
                   enum kva_arm_kind kind)
{
    bool same = strcmp(base->method.spec, c->method.spec) == 0;
    enum kva_enforce e;

    if (!kva_enforce_find(kva_arm_enforce(kind), &e) || c->enforce != e ||
        !same_but_method(base, c) ||
        c->visibility != (kind == KVA_ARM_AWARE ? KVA_AWARE : base->visibility))
        return false;
    if (kind == KVA_ARM_UNIFORM)
        return c->method.scorer != NULL &&
               strcmp(base->method.wrapped_spec, c->method.wrapped_spec) == 0 &&
               strcmp(c->method.allocator->name, "uniform") == 0;
    return same;
}

/* Plan cell of an arm of the audited cell `base`; -1: there is none. */
static int arm_of(const struct judge *j, int base, enum kva_arm_kind kind)
{
    const struct kva_cell *b = &j->plan->cells[base];

    if (kind == KVA_ARM_AUDITED)
        return base;
    for (int i = 0; i < j->plan->n_cells; i++) {
        const struct kva_cell *c = &j->plan->cells[i];

        if (c->task == b->task && strcmp(c->numerics, b->numerics) == 0 &&
            is_arm(b, c, kind))
            return i;
    }
    return -1;
}

static int dense_of(const struct judge *j, int base)
{
    const struct kva_cell *b = &j->plan->cells[base];

    for (int i = 0; i < j->plan->n_cells; i++) {
        const struct kva_cell *c = &j->plan->cells[i];

        if (c->enforce == KVA_DENSE && c->method.dense && c->model == b->model &&
            c->task == b->task && c->kv == b->kv &&
            strcmp(c->numerics, b->numerics) == 0 &&
            kva_sampling_same(&c->sampling, &b->sampling))
            return i;
    }
    return -1;
}

/* Outcomes of a plan cell as a range of data->outcomes. */
static int outcomes_of(const struct judge *j, int cell, int *at)
{
    int c = cell < 0 ? -1 : j->cell_of[cell];

    *at = c < 0 ? 0 : j->first[c];
    return c < 0 ? 0 : j->first[c + 1] - j->first[c];
}

static const struct kva_data_outcome *partner(const struct judge *j, int cell,
                                              const struct kva_data_outcome *o)
{
    int at, n = outcomes_of(j, cell, &at);

    for (int i = at; i < at + n; i++)
        if (j->data->outcomes[i].sample == o->sample &&
            j->data->outcomes[i].rep == o->rep &&
            strcmp(j->data->outcomes[i].status, "ok") == 0)
            return &j->data->outcomes[i];
    return NULL;
}

static const struct kva_probe_cell *probe_of(const struct judge *j, int base)
{
    const struct kva_cell *b = &j->plan->cells[base];

    for (int i = 0; j->probes != NULL && i < j->probes->plan.n_cells; i++) {
        const struct kva_cell *c = &j->probes->plan.cells[i];

        if (c->task == b->task && c->enforce == b->enforce &&
            c->visibility == b->visibility && same_but_method(b, c) &&
            strcmp(b->method.spec, c->method.spec) == 0)
            return &j->probes->cell[i];
    }
    return NULL;
}

/* ---- bytes: K1, K2, K7, K8 ---- */

static double row_bytes(const struct kva_db_memory *m)
{
    return m->entries_kept > 0 ? (double)m->kv_live_bytes / (double)m->entries_kept : 0;
}

/* Metadata that is neither positions nor tables nor mask bits of pages in use: query
 * rings and sums kept for later decisions. The store's tables are at most 12 bytes a page
 * and 64 a KV head. */
static double state_bytes(const struct kva_db_memory *m, int kvheads)
{
    double pages = (double)m->kv_alloc_bytes / row_bytes(m) / 32;
    double state = (double)m->kv_meta_bytes - pages * (32 * 4 + 12) - 64.0 * kvheads;

    return state > 0 ? state : 0;
}

/* Of one entry, however many copies of it a layout counts. */
static double entry_bytes(const struct kva_cell *c, const struct kva_data_model *m)
{
    bool wide = c->kv == KVA_F32 || strcmp(c->numerics, "ref") == 0;

    return (double)(m->d_k + m->d_v) * (wide ? 4 : 2);
}

static struct kva_claim_bytes bytes_of(const struct kva_db_memory *m, double entry,
                                       int kvheads)
{
    return (struct kva_claim_bytes){.nominal = (double)m->kv_budget_bytes,
                                    .dense = (double)m->kv_dense_bytes,
                                    .held = (double)m->kv_alloc_bytes,
                                    .meta = (double)m->kv_meta_bytes,
                                    .kept = (double)m->kv_live_bytes / entry,
                                    .masked = (double)m->entries_masked,
                                    .row = entry,
                                    .state = state_bytes(m, kvheads),
                                    .kvheads = kvheads};
}

static double nominal_share(const struct kva_cell *c, const struct kva_db_memory *m)
{
    if (c->budget.kind == KVA_BUDGET_KEEP)
        return (double)c->budget.value / 10000;
    return (double)m->kv_budget_bytes / (double)m->kv_dense_bytes;
}

/* The peak a cell claims: one-shot that of the full cache; layerwise one full layer
 * beside what stays; block what stays and a block, or the question and the answer. */
static struct kva_claim_result peak_of(const struct judge *j, const struct kva_cell *c,
                                       int dense, const struct kva_data_outcome *o,
                                       int kvheads, int layers)
{
    const struct kva_db_memory *m = &o->alone;
    double entry = row_bytes(m) + 4, slack = kvheads * 32.0 * entry, claimed;
    double peak = (double)m->kv_peak_bytes;
    int asked = o->n_ctx + o->n_question - o->n_cut + o->n_gen;
    const struct kva_data_outcome *full = partner(j, dense, o);
    const bool replays = kva_method_collect(&c->method).kind == KVA_COLLECT_REPLAY;
    struct kva_claim_result r;

    if (!o->has_alone)
        return kva_claim_note(KVA_UNTESTED, "no row that ran alone: set \"perf\"");
    if (c->schedule.kind == KVA_ONESHOT) {
        if (full == NULL || !full->has_alone)
            return kva_claim_note(KVA_UNTESTED, "no dense row that ran alone");
        /* a prompt that is read again to be scored is held again; what that took stands
         * in the scratch beside what every cell needs */
        if (replays)
            peak +=
                fmax(0, (double)(m->scratch_peak_bytes - full->alone.scratch_peak_bytes));
        /* its answer may be longer than the full cache's */
        claimed = (double)full->alone.kv_peak_bytes +
                  (o->n_gen > full->n_gen ? o->n_gen - full->n_gen : 0) * kvheads * entry;
        r = kva_claim_peak(peak, peak - slack, claimed);
        if (replays && r.verdict != KVA_UNTESTED)
            kva_claim_append(&r, "the replay that scores the prompt counts");
        return r;
    }
    claimed = (double)m->kv_budget_bytes / row_bytes(m) + state_bytes(m, kvheads) / entry;
    if (c->schedule.kind == KVA_LAYERWISE)
        claimed += (double)o->n_cut * kvheads / layers + (double)asked * kvheads;
    else
        claimed +=
            (double)(c->schedule.block > asked ? c->schedule.block : asked) * kvheads;
    return kva_claim_peak(peak, peak - slack, claimed * entry);
}

static struct kva_claim_result growth_of(const struct kva_cell *c,
                                         const struct kva_data_outcome *o, int kvheads)
{
    const struct kva_db_memory *m = &o->memory;
    double grown = (double)(m->kv_end_bytes - m->kv_alloc_bytes - m->kv_meta_bytes);
    double row = row_bytes(m), page = kvheads * (32 * (row + 4) + 8);
    int asked = o->n_ctx + o->n_question - o->n_cut + (o->n_gen > 0 ? o->n_gen - 1 : 0);

    if (c->schedule.decode > 0)
        return kva_claim_growth(
            grown, (double)(o->n_gen > 1 ? c->schedule.decode : asked) * kvheads * row,
            page, true);
    return kva_claim_growth(grown, (double)asked * kvheads * (row + 4), page, false);
}

struct sums {
    double nominal, dense, held, meta, live, kept, masked, packed, peak, score, nats;
    double stage1; /* over n_stage1 */
    int n, n_nats, n_stage1, fell_back;
};

static void judge_bytes(const struct judge *j, int base, int cell, struct sums *s,
                        struct kva_claim_result claim[KVA_CLAIMS])
{
    const struct kva_cell *c = &j->plan->cells[cell];
    int at, n = outcomes_of(j, cell, &at), dense = dense_of(j, base);

    for (int i = at; i < at + n; i++) {
        const struct kva_data_outcome *o = &j->data->outcomes[i];
        const struct kva_data_model *m = &j->data->models[j->data->cells[o->cell].model];
        int kvheads = m->n_layer * m->n_kv_head;
        double entry = entry_bytes(c, m);
        struct kva_claim_bytes b;
        struct kva_claim_result r;

        if (strcmp(o->status, "ok") != 0 || !o->has_memory)
            continue;
        b = bytes_of(&o->memory, entry, kvheads);
        r = kva_claim_bytes(&b);
        kva_claim_worse(&claim[KVA_CLAIM_BYTES], &r);
        r = kva_claim_ratio((double)o->memory.entries_kept * entry / b.dense,
                            nominal_share(c, &o->memory));
        kva_claim_worse(&claim[KVA_CLAIM_RATIO], &r);
        if (o->has_alone) {
            r = peak_of(j, c, dense, o, kvheads, m->n_layer);
            kva_claim_worse(&claim[KVA_CLAIM_PEAK], &r);
        }
        if (j->data->samples[o->sample].turn == 0) {
            r = growth_of(c, o, kvheads);
            kva_claim_worse(&claim[KVA_CLAIM_DECODE], &r);
        }
        s->n++;
        s->nominal += b.nominal;
        s->dense += b.dense;
        s->held += b.held;
        s->meta += b.meta;
        s->live += (double)o->memory.kv_live_bytes;
        s->kept += b.kept;
        s->masked += b.masked;
        s->packed += kva_claim_packed(&b);
        s->peak += (double)(o->has_alone ? o->alone : o->memory).kv_peak_bytes;
        s->score += o->score;
        s->fell_back += (o->flags & KVA_DB_FELL_BACK) != 0;
        if (!isnan(o->stage1)) {
            s->stage1 += o->stage1;
            s->n_stage1++;
        }
        if (!isnan(o->gold_nll)) {
            s->nats += o->gold_nll;
            s->n_nats++;
        }
    }
}

/* ---- K3: outcomes and probes ---- */

static void count_pairs(const struct judge *j, int x, int y, struct kva_claim_equal *e)
{
    int at, n = outcomes_of(j, x, &at);

    for (int i = at; i < at + n; i++) {
        const struct kva_data_outcome *a = &j->data->outcomes[i], *b = partner(j, y, a);

        if (strcmp(a->status, "ok") != 0 || b == NULL)
            continue;
        e->n++;
        e->sets += a->kept_fnv != b->kept_fnv;
        e->tokens += a->gen_key != b->gen_key;
        if (!isnan(a->gold_nll) && !isnan(b->gold_nll)) {
            double off = fabs(a->gold_nll - b->gold_nll);

            e->nats += memcmp(&a->gold_nll, &b->gold_nll, sizeof(double)) != 0;
            e->max_nats = off > e->max_nats ? off : e->max_nats;
        }
    }
}

static void add_probe(struct kva_claim_equal *into, const struct kva_claim_equal *e)
{
    into->n += e->n;
    into->sets += e->sets;
    into->logits += e->logits;
    into->logit_rows += e->logit_rows;
    into->flips += e->flips;
    into->dlogit = e->dlogit > into->dlogit ? e->dlogit : into->dlogit;
    into->top = e->top > into->top ? e->top : into->top;
    into->positions = into->positions || e->positions;
    into->exact = into->exact || e->exact;
}

static struct kva_claim_result equal_of(const struct judge *j, const struct group *g,
                                        enum kva_arm_kind kind, int *sets)
{
    bool exact = strcmp(j->plan->cells[g->cell[0]].numerics, "ref") == 0;
    struct kva_claim_equal stored = {.exact = exact}, probed = {.exact = exact};
    struct kva_claim_result r, p;
    const char *failed = "";

    for (int i = 0; i < g->n; i++) {
        const struct kva_probe_cell *c = probe_of(j, g->cell[i]);
        int other = arm_of(j, g->cell[i], kind);

        count_pairs(j, g->cell[i], other, &stored);
        /* fake keys are held by the masked store that was probed */
        if ((kind == KVA_ARM_MASK || kind == KVA_ARM_FAKEKEY) && c != NULL) {
            add_probe(&probed, &c->equal);
            failed = c->failed[0] != '\0' ? c->failed : failed;
        }
    }
    *sets = stored.sets;
    r = kva_claim_equal(&stored);
    if (probed.logits == 0) {
        if (failed[0] != '\0' && r.verdict == KVA_UPHELD)
            return kva_claim_note(KVA_UNTESTED, "%s", failed);
        return r;
    }
    p = kva_claim_equal(&probed);
    /* a probe of every bit settles what fast arithmetic leaves open */
    if (r.verdict == KVA_UPHELD || (r.verdict == KVA_UNDECIDED && probed.exact)) {
        r = p;
        if (p.verdict == KVA_UPHELD)
            snprintf(r.note, sizeof r.note, "%d answers; %d rows of logits, %s", stored.n,
                     probed.logits,
                     probed.logit_rows == 0 ? "every bit" : "within the tolerance");
    }
    return r;
}

/* ---- K4: arms a, b, c, d ---- */

static double value_of(const struct kva_data_outcome *o, bool nats)
{
    return nats ? o->gold_nll : o->score;
}

/* Pairs of one task that every present arm has. */
static enum kva_status make_pairs(const struct judge *j, const int arm[4], bool nats,
                                  struct kva_arena *arena, struct kva_split_task *t,
                                  struct kva_error *err)
{
    int at, n = outcomes_of(j, arm[1], &at);
    double *v[4] = {NULL};
    int *cluster = kva_arena_alloc(arena, (size_t)n + 1, sizeof *cluster);
    int *sample = kva_arena_alloc(arena, (size_t)n + 1, sizeof *sample);
    bool shared = false;

    for (int k = 0; k < 4; k++)
        if (arm[k] >= 0) {
            v[k] = kva_arena_alloc(arena, (size_t)n + 1, sizeof **v);
            if (v[k] == NULL)
                return KVA_FAIL(err, KVA_ENOMEM, "pairs of %d outcomes", n);
        }
    if (cluster == NULL || sample == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "pairs of %d outcomes", n);
    t->n = 0;
    for (int i = at; i < at + n; i++) {
        const struct kva_data_outcome *b = &j->data->outcomes[i], *o[4] = {NULL};
        bool all = strcmp(b->status, "ok") == 0;

        for (int k = 0; all && k < 4; k++) {
            o[k] = arm[k] < 0 ? NULL : partner(j, arm[k], b);
            all = arm[k] < 0 || (o[k] != NULL && !isnan(value_of(o[k], nats)));
        }
        if (!all)
            continue;
        for (int k = 0; k < 4; k++)
            if (o[k] != NULL)
                v[k][t->n] = value_of(o[k], nats);
        sample[t->n] = b->sample;
        cluster[t->n] = (int)t->n;
        for (size_t p = 0; p < t->n; p++)
            if (strcmp(j->data->samples[sample[p]].cluster,
                       j->data->samples[b->sample].cluster) == 0) {
                cluster[t->n] = cluster[p];
                shared = true;
                break;
            }
        t->n++;
    }
    for (int k = 0; k < 4; k++)
        t->arm[k] = v[k];
    t->cluster = shared ? cluster : NULL;
    return KVA_OK;
}

/* masked: the arm that holds as published, MASK or FAKEKEY. */
static enum kva_status split_of(const struct judge *j, const struct group *g,
                                enum kva_arm_kind masked, bool nats, bool within,
                                struct kva_difference out[KVA_SPLITS],
                                struct kva_error *err)
{
    struct kva_split_task *t = kva_calloc((size_t)g->n, sizeof *t);
    struct kva_arena arena;
    int used = 0;
    enum kva_status rc = KVA_OK;

    kva_arena_init(&arena);
    if (t == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "%d tasks", g->n);
        goto out;
    }
    for (int i = 0; i < g->n; i++) {
        const struct kva_cell *c = &j->plan->cells[g->cell[i]];
        int arm[4] = {arm_of(j, g->cell[i], masked), g->cell[i],
                      arm_of(j, g->cell[i], KVA_ARM_UNIFORM), within ? g->cell[i] : -1};

        t[used].name = j->plan->tasks[c->task].suite->id;
        KVA_GO(make_pairs(j, arm, nats, &arena, &t[used], err));
        used += t[used].n > 0;
    }
    rc = kva_claim_split(t, (size_t)used, nats,
                         kva_stat_boot_seed(j->plan->cells[g->cell[0]].digest,
                                            j->plan->cells[g->cell[0]].dense_key, 0),
                         out, err);
out:
    kva_arena_release(&arena);
    free(t);
    return rc;
}

/* What having seen the question is worth: A6 - A2. */
static enum kva_status margin_of(const struct judge *j, const struct group *g, bool nats,
                                 struct kva_difference *out, struct kva_error *err)
{
    struct kva_split_task *t = kva_calloc((size_t)g->n, sizeof *t);
    struct kva_difference d[KVA_SPLITS];
    struct kva_arena arena;
    int used = 0;
    enum kva_status rc = KVA_OK;

    kva_arena_init(&arena);
    if (t == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "%d tasks", g->n);
        goto out;
    }
    for (int i = 0; i < g->n; i++) {
        int aware = arm_of(j, g->cell[i], KVA_ARM_AWARE),
            arm[4] = {aware, g->cell[i], -1, -1};

        if (aware < 0)
            continue;
        t[used].name = j->plan->tasks[j->plan->cells[g->cell[i]].task].suite->id;
        KVA_GO(make_pairs(j, arm, nats, &arena, &t[used], err));
        used += t[used].n > 0;
    }
    KVA_GO(kva_claim_split(t, (size_t)used, nats,
                           kva_stat_boot_seed(j->plan->cells[g->cell[0]].digest,
                                              j->plan->cells[g->cell[0]].dense_key, 0),
                           d, err));
    *out = d[KVA_SPLIT_STORAGE]; /* first arm less second */
out:
    kva_arena_release(&arena);
    free(t);
    return rc;
}

/* ---- K5, K6 ---- */

static struct kva_claim_result leak_of(const struct judge *j, const struct group *g)
{
    struct kva_claim_leak sum = {0};
    const char *failed = "";

    if (j->plan->cells[g->cell[0]].visibility != KVA_AGNOSTIC)
        return kva_claim_note(KVA_NOT_CLAIMED, "declared to see the question");
    for (int i = 0; i < g->n; i++) {
        const struct kva_probe_cell *c = probe_of(j, g->cell[i]);

        if (c == NULL)
            continue;
        failed = c->failed[0] != '\0' ? c->failed : failed;
        sum.variants = c->leak.variants;
        sum.heads += c->leak.heads;
        sum.changed += c->leak.changed;
        sum.jaccard += c->leak.jaccard;
    }
    if (sum.heads == 0)
        return kva_claim_note(KVA_UNTESTED, "%s",
                              failed[0] != '\0' ? failed : "no probe ran");
    return kva_claim_leak(&sum);
}

static struct kva_claim_result incremental_of(const struct judge *j,
                                              const struct group *g)
{
    const struct kva_cell *first = &j->plan->cells[g->cell[0]];
    bool exact =
        strcmp(first->numerics, "ref") == 0 || (j->probes != NULL && j->probes->exact);
    double rel = NAN;

    if (first->schedule.kind != KVA_BLOCK && first->schedule.kind != KVA_CHUNKED)
        return kva_claim_note(KVA_NOT_CLAIMED, "the prompt is read before it is cut");
    for (int i = 0; i < g->n; i++) {
        const struct kva_probe_cell *c = probe_of(j, g->cell[i]);

        if (c != NULL && !isnan(c->incremental) && (isnan(rel) || c->incremental > rel))
            rel = c->incremental;
    }
    if (isnan(rel))
        return kva_claim_note(KVA_UNTESTED, "no probe ran");
    return kva_claim_incremental(rel, exact ? 0 : 1e-3);
}

/* ---- rows ---- */

static void fact(struct kva_audit_row *r, const char *name, double value,
                 const struct kva_interval *ci, const char *fmt, size_t n)
{
    struct kva_audit_fact *f = &r->fact[r->n_fact];

    if (r->n_fact == KVA_AUDIT_FACTS || isnan(value))
        return;
    r->n_fact++;
    *f = (struct kva_audit_fact){.name = name, .value = value, .lo = NAN, .hi = NAN};
    if (ci != NULL && ci->ok) {
        f->lo = ci->lo;
        f->hi = ci->hi;
    }
    if (fmt != NULL)
        snprintf(f->note, sizeof f->note, "%s%zu", fmt, n);
}

static void mean_facts(struct kva_audit_row *r, const struct sums *s)
{
    double n = s->n;

    if (s->n == 0)
        return;
    fact(r, "bytes.nominal", s->nominal / n, NULL, NULL, 0);
    fact(r, "bytes.dense", s->dense / n, NULL, NULL, 0);
    fact(r, "bytes.held", s->held / n, NULL, NULL, 0);
    fact(r, "bytes.meta", s->meta / n, NULL, NULL, 0);
    fact(r, "bytes.packed", s->packed / n, NULL, NULL, 0);
    fact(r, "bytes.peak", s->peak / n, NULL, NULL, 0);
    fact(r, "share.live", s->live / s->dense, NULL, NULL, 0);
    fact(r, "share.held", (s->held + s->meta) / s->dense, NULL, NULL, 0);
    fact(r, "entries.masked", s->masked / n, NULL, NULL, 0);
    fact(r, "score", s->score / n, NULL, "n = ", (size_t)s->n);
    if (s->fell_back > 0)
        fact(r, "fell_back", s->fell_back / n, NULL, "n = ", (size_t)s->n);
    if (s->n_stage1 > 0)
        fact(r, "stage1", s->stage1 / s->n_stage1, NULL, "n = ", (size_t)s->n_stage1);
    if (s->n_nats > 0)
        fact(r, "nats", s->nats / s->n_nats, NULL, "n = ", (size_t)s->n_nats);
}

static void split_facts(struct kva_audit_row *r, const struct kva_difference *d,
                        const char *const names[KVA_SPLITS])
{
    for (int k = 0; k < KVA_SPLITS; k++)
        fact(r, names[k], d[k].mean, &d[k].ci, "pairs = ", d[k].n);
}

static enum kva_status judge_scores(const struct judge *j, const struct group *g,
                                    struct kva_audit_row *r, bool within, bool identical,
                                    struct kva_error *err)
{
    static const char *const points[] = {"score.total", "score.storage",
                                         "score.overshoot", "score.uniformity",
                                         "score.claim"};
    static const char *const nats[] = {"nats.total", "nats.storage", "nats.overshoot",
                                       "nats.uniformity", "nats.claim"};
    struct kva_difference d[KVA_SPLITS], m;
    enum kva_arm_kind masked = r->arm == KVA_ARM_AUDITED ? KVA_ARM_MASK : r->arm;

    KVA_TRY(split_of(j, g, masked, false, within, d, err));
    r->claim[KVA_CLAIM_SCORE] = kva_claim_score(&d[KVA_SPLIT_CLAIM], identical);
    if (r->arm != KVA_ARM_AUDITED)
        return KVA_OK;
    if (identical) /* nothing that could have come out otherwise */
        d[KVA_SPLIT_STORAGE].ci.ok = d[KVA_SPLIT_CLAIM].ci.ok = false;
    d[KVA_SPLIT_OVERSHOOT].ci.ok = false;                       /* b is d */
    if (arm_of(j, g->cell[0], KVA_ARM_UNIFORM) == g->cell[0]) { /* c is d, too */
        d[KVA_SPLIT_UNIFORMITY].ci.ok = false;
        d[KVA_SPLIT_TOTAL].ci.ok = d[KVA_SPLIT_TOTAL].ci.ok && !identical;
    }
    split_facts(r, d, points);
    KVA_TRY(split_of(j, g, masked, true, within, d, err));
    split_facts(r, d, nats);
    KVA_TRY(margin_of(j, g, false, &m, err));
    fact(r, "margin_qa.score", m.mean, &m.ci, "pairs = ", m.n);
    KVA_TRY(margin_of(j, g, true, &m, err));
    fact(r, "margin_qa.nats", m.mean, &m.ci, "pairs = ", m.n);
    return KVA_OK;
}

/* Why nothing can be said; empty: something can. */
static void why_nothing(const struct judge *j, const struct group *g,
                        enum kva_arm_kind kind, char out[160])
{
    snprintf(out, 160, "no outcome is stored");
    if (arm_of(j, g->cell[0], kind) < 0)
        snprintf(out, 160, "the method cannot be held so");
    for (int i = 0; i < g->n; i++) {
        int at, n = outcomes_of(j, arm_of(j, g->cell[i], kind), &at);

        for (int k = at; k < at + n; k++)
            if (strcmp(j->data->outcomes[k].status, "ok") == 0) {
                out[0] = '\0';
                return;
            } else if (j->data->outcomes[k].error != NULL) {
                snprintf(out, 160, "%.150s", j->data->outcomes[k].error);
            }
    }
}

static enum kva_status judge_row(struct judge *j, const struct group *g,
                                 enum kva_arm_kind kind, struct kva_error *err)
{
    struct kva_audit_row *r = &j->a->row[j->a->n_row++];
    struct sums s = {0};
    char why[160];
    int sets = 0;
    bool within;

    r->cell = g->cell[0];
    r->arm = kind;
    why_nothing(j, g, kind, why);
    for (int k = 0; k < KVA_CLAIMS; k++)
        r->claim[k] =
            kva_claim_note(why[0] != '\0' ? KVA_UNTESTED : KVA_NOT_CLAIMED, "%s", why);
    r->headline = kva_claims_headline(r->claim);
    if (why[0] != '\0')
        return KVA_OK;
    for (int i = 0; i < g->n; i++) {
        int cell = arm_of(j, g->cell[i], kind);

        if (cell >= 0)
            judge_bytes(j, g->cell[i], cell, &s, r->claim);
    }
    if (kind != KVA_ARM_AUDITED && kind != KVA_ARM_MASK)
        r->claim[KVA_CLAIM_PEAK] =
            kva_claim_note(KVA_NOT_CLAIMED, "measured for its bytes, not timed");
    else if (r->claim[KVA_CLAIM_PEAK].verdict == KVA_NOT_CLAIMED)
        r->claim[KVA_CLAIM_PEAK] =
            kva_claim_note(KVA_UNTESTED, "no row that ran alone: set \"perf\"");
    within = s.live <= s.nominal * (1 + 1e-9);
    mean_facts(r, &s);
    r->claim[KVA_CLAIM_EQUAL] =
        equal_of(j, g, kind == KVA_ARM_AUDITED ? KVA_ARM_MASK : kind, &sets);
    if (kind == KVA_ARM_UNION && sets > 0)
        r->claim[KVA_CLAIM_EQUAL] =
            kva_claim_note(KVA_NOT_CLAIMED, "holds other sets on purpose");
    if (kind == KVA_ARM_AUDITED || kind == KVA_ARM_MASK || kind == KVA_ARM_FAKEKEY)
        KVA_TRY(judge_scores(
            j, g, r, within,
            within && sets == 0 && r->claim[KVA_CLAIM_EQUAL].verdict == KVA_UPHELD, err));
    r->claim[KVA_CLAIM_AGNOSTIC] = leak_of(j, g);
    r->claim[KVA_CLAIM_INCREMENTAL] = incremental_of(j, g);
    r->headline = kva_claims_headline(r->claim);
    return KVA_OK;
}

/* ---- all rows ---- */

static enum kva_status index_data(struct judge *j, struct kva_arena *arena,
                                  struct kva_error *err)
{
    const struct kva_data *d = j->data;

    j->cell_of = kva_arena_alloc(arena, (size_t)j->plan->n_cells + 1, sizeof(int));
    j->first = kva_arena_alloc(arena, (size_t)d->n_cells + 2, sizeof(int));
    if (j->cell_of == NULL || j->first == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "index of %d cells", d->n_cells);
    for (int i = 0; i < j->plan->n_cells; i++) {
        j->cell_of[i] = -1;
        for (int c = 0; c < d->n_cells && j->cell_of[i] < 0; c++)
            if (memcmp(d->cells[c].digest, j->plan->cells[i].digest, 32) == 0)
                j->cell_of[i] = c;
    }
    for (int c = 0, o = 0; c <= d->n_cells; c++) {
        while (o < d->n_outcomes && d->outcomes[o].cell < c)
            o++;
        j->first[c] = o;
    }
    return KVA_OK;
}

static bool same_row(const struct kva_cell *a, const struct kva_cell *b)
{
    return audited(a) && audited(b) && same_but_method(a, b) &&
           a->visibility == b->visibility && strcmp(a->numerics, b->numerics) == 0 &&
           strcmp(a->method.spec, b->method.spec) == 0;
}

enum kva_status kva_audit_judge(const struct kva_plan *plan, const struct kva_data *data,
                                const struct kva_probes *probes, struct kva_audit *a,
                                struct kva_error *err)
{
    static const enum kva_arm_kind shown[] = {KVA_ARM_AUDITED, KVA_ARM_MASK,
                                              KVA_ARM_FAKEKEY, KVA_ARM_PADDED,
                                              KVA_ARM_UNION,   KVA_ARM_QHEAD};
    enum { SHOWN = sizeof shown / sizeof *shown };
    struct judge j = {.plan = plan, .data = data, .probes = probes, .a = a};
    struct group g = {0};

    memset(a, 0, sizeof *a);
    kva_arena_init(&a->arena);
    KVA_TRY(index_data(&j, &a->arena, err));
    a->row =
        kva_arena_alloc(&a->arena, (size_t)plan->n_cells * SHOWN + 1, sizeof *a->row);
    g.cell = kva_arena_alloc(&a->arena, (size_t)plan->n_cells + 1, sizeof *g.cell);
    if (a->row == NULL || g.cell == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "rows of %d cells", plan->n_cells);
    for (int i = 0; i < plan->n_cells; i++) {
        bool seen = !audited(&plan->cells[i]);

        for (int k = 0; k < i && !seen; k++)
            seen = same_row(&plan->cells[k], &plan->cells[i]);
        if (seen)
            continue;
        g.n = 0;
        for (int k = i; k < plan->n_cells; k++)
            if (same_row(&plan->cells[i], &plan->cells[k]))
                g.cell[g.n++] = k;
        for (int k = 0; k < SHOWN; k++)
            KVA_TRY(judge_row(&j, &g, shown[k], err));
    }
    for (int i = 0; i < a->n_row; i++)
        if (a->row[i].arm == KVA_ARM_AUDITED) {
            a->refuted += a->row[i].headline == KVA_REFUTED;
            for (int k = 0; k < KVA_CLAIMS; k++)
                a->undecided += a->row[i].claim[k].verdict == KVA_UNDECIDED;
        }
    return KVA_OK;
}

void kva_audit_release(struct kva_audit *a)
{
    kva_arena_release(&a->arena);
    memset(a, 0, sizeof *a);
}
