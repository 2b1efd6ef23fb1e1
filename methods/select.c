/* SPDX-License-Identifier: GPL-3.0-or-later */
/* select.c - from a store to scores, and from scores to the entries that stay (methods.md
 * 3).
 *
 * Scoring is independent of the budget: one run serves every budget and allocator.
 * Selection keeps, in each KV head, the best b entries by (class, score, position); what
 * is kept comes out in ascending position order. */
#include "methods/method.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "methods/rank.h"
#include "methods/room.h"

/* ---- scores ---- */

void kva_scores_release(struct kva_scores *sc)
{
    free(sc->aux);
    free(sc->off);
    free(sc->s);
    free(sc->pos);
    *sc = (struct kva_scores){0};
}

static int seen_layer(const struct kva_decide_in *in, int layer)
{
    bool inside = in->layer1 == 0 || (layer >= in->layer0 && layer < in->layer1);

    return inside ? layer : in->layer0;
}

/* With a range of layers the others count as if they held what the first of the range
 * does: a layerwise schedule has cut the earlier ones and not read the later ones. */
static enum kva_status scores_new(const struct kva_decide_in *in, struct kva_scores *sc,
                                  struct kva_error *err)
{
    const struct kva_kvstore *store = in->store;
    const struct kva_kvshape *shape = kva_kvstore_shape(store);
    size_t c = (size_t)shape->layers * (size_t)shape->kv_heads;

    sc->ops = in->ops->host ? NULL : in->ops;
    sc->layer0 = in->layer0;
    sc->layer1 = in->layer1;
    sc->layers = shape->layers;
    sc->kv_heads = shape->kv_heads;
    sc->seen = in->seen;
    sc->prompt = in->prompt;
    sc->off = kva_calloc(c + 1, sizeof *sc->off);
    if (sc->off == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "scores of %zu KV heads", c);
    for (size_t i = 0; i < c; i++) {
        int layer = seen_layer(in, (int)i / shape->kv_heads),
            head = (int)i % shape->kv_heads;
        int n = kva_kvstore_live(store, layer, head);

        if (n < 1)
            return KVA_FAIL(err, KVA_EINVALID, "layer %d head %d holds no entry", layer,
                            head);
        sc->off[i + 1] = sc->off[i] + (size_t)n;
    }
    sc->s = kva_calloc(sc->off[c], sizeof *sc->s);
    sc->pos = kva_calloc(sc->off[c], sizeof *sc->pos);
    if (sc->s == NULL || sc->pos == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "scores of %zu entries", sc->off[c]);
    for (size_t i = 0; i < c; i++)
        kva_kvstore_positions(store, seen_layer(in, (int)i / shape->kv_heads),
                              (int)i % shape->kv_heads, sc->pos + sc->off[i]);
    return KVA_OK;
}

/* What a layer is looked at with; layers take turns. */
struct scratch {
    struct kva_arena arena;
    struct kva_room room;
    uint64_t far_bytes; /* scores of all layers in the backend's memory */
};

static void scratch_init(struct scratch *t, struct kva_ops *ops)
{
    kva_arena_init(&t->arena);
    t->room = (struct kva_room){.ops = ops};
    t->far_bytes = 0;
}

static void scratch_reset(struct scratch *t)
{
    kva_arena_reset(&t->arena);
    kva_room_reset(&t->room);
}

static uint64_t scratch_peak(const struct scratch *t)
{
    return t->arena.peak_bytes + t->room.most + t->far_bytes;
}

static void scratch_release(struct scratch *t)
{
    kva_arena_release(&t->arena);
    kva_room_release(&t->room);
}

/* Contiguous rows of the view's layer, K or V, in the backend's memory. */
static enum kva_status gather(const struct kva_kvstore *store,
                              const struct kva_layer_view *view, bool keys,
                              struct kva_rows *rows, struct kva_error *err)
{
    int heads = view->kv_heads;
    const size_t *off = view->off;

    *rows = (struct kva_rows){
        .off = off, .heads = heads, .dim = keys ? view->head_dim : view->v_dim};
    rows->data = kva_room_floats(view, off[heads] * (size_t)rows->dim);
    if (rows->data == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%zu rows of layer %d", off[heads], view->layer);
    return kva_kvstore_gather_layer(store, view->layer, NULL, off,
                                    keys ? rows->data : NULL, keys ? NULL : rows->data,
                                    err);
}

/* Rows that the method follows by itself. */
static enum kva_status follow(const struct kva_layer_view *view, struct kva_rows *rows,
                              struct kva_error *err)
{
    rows->data = (float *)(uintptr_t)kva_room_read(view, rows);
    if (rows->data == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%zu rows of layer %d", rows->off[rows->heads],
                        view->layer);
    return KVA_OK;
}

/* Protection by the parameters of these names, which most scorers have. */
static void protect_params(const struct kva_scorer *scorer,
                           const struct kva_params *params, struct kva_scores *sc)
{
    struct kva_protect *p = &sc->protect;

    *p = (struct kva_protect){0};
    for (int i = 0; scorer->params != NULL && scorer->params[i].name != NULL; i++) {
        if (strcmp(scorer->params[i].name, "sinks") == 0)
            p->sinks = (int)params->value[i];
        if (strcmp(scorer->params[i].name, "recent") == 0)
            p->recent = (int)params->value[i];
        if (strcmp(scorer->params[i].name, "recent_share") == 0)
            sc->recent_share = params->value[i];
    }
}

/* Everything `needs` asks for of one layer. */
static enum kva_status make_view(const struct kva_method *m,
                                 const struct kva_decide_in *in, unsigned needs,
                                 int layer, struct scratch *scratch,
                                 const struct kva_scores *sc, struct kva_layer_view *view,
                                 struct kva_error *err)
{
    struct kva_arena *arena = &scratch->arena;
    size_t first = (size_t)layer * (size_t)sc->kv_heads;
    struct kva_rows *k = kva_arena_alloc(arena, 3, sizeof *k);
    size_t *off = kva_arena_alloc(arena, (size_t)sc->kv_heads + 1, sizeof *off);
    int32_t *back;
    size_t n;

    if (off == NULL || k == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "view of layer %d", layer);
    *view = (struct kva_layer_view){
        .ops = in->ops,
        .scratch = arena,
        .room = in->ops->host ? NULL : &scratch->room,
        .layer = layer,
        .layers = sc->layers,
        .kv_heads = sc->kv_heads,
        .heads = in->heads,
        .head_dim = in->head_dim,
        .v_dim = in->v_dim,
        .pos = sc->pos + sc->off[first],
        .off = off,
        .scale = in->scale,
        .seed = in->seed,
        .block_len = in->block_len,
        .is_block = in->is_block,
        .seen = in->seen,
        .question = in->question,
        .keep = in->keep,
        .lend = in->lend,
        .table = m->table,
    };
    for (int h = 0; h <= sc->kv_heads; h++)
        off[h] = sc->off[first + (size_t)h] - sc->off[first];
    n = off[sc->kv_heads];
    if (needs & (KVA_NEEDS_LEND | KVA_NEEDS_RAW_KEYS) && in->lend == NULL)
        return KVA_FAIL(err, KVA_EINVALID, "%s needs a model to lend its projections",
                        m->spec);
    if (needs & KVA_NEEDS_KEYS) {
        KVA_TRY(gather(in->store, view, true, &k[0], err));
        view->k = &k[0];
    }
    if (needs & KVA_NEEDS_VALUES) {
        KVA_TRY(gather(in->store, view, false, &k[1], err));
        view->v = &k[1];
    }
    if (needs & KVA_NEEDS_RAW_KEYS) {
        KVA_TRY(gather(in->store, view, true, &k[2], err));
        back = kva_arena_alloc(arena, n, sizeof *back);
        if (back == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "view of layer %d", layer);
        for (size_t j = 0; j < n; j++)
            back[j] = -view->pos[j];
        in->lend->rotate(in->lend->ctx, layer, &k[2], back);
        view->k_raw = &k[2];
    }
    for (int i = 0; i < 3 && needs & KVA_NEEDS_HOST; i++)
        if (k[i].data != NULL)
            KVA_TRY(follow(view, &k[i], err));
    if (needs & KVA_NEEDS_QUERIES) {
        if (in->queries != NULL)
            view->nq = in->queries(in->queries_ctx, layer, &view->q, &view->q_pos);
        if (view->nq < 1)
            return KVA_FAIL(err, KVA_EINVALID,
                            "%s needs queries and the session keeps none",
                            m->scorer->name);
        if (needs & KVA_NEEDS_HOST)
            view->q = kva_room_queries(view, view->nq);
        if (view->q == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "%d queries of layer %d", view->nq, layer);
    }
    return KVA_OK;
}

/* What was collected for the scorer. */
static enum kva_status view_side(const struct kva_method *m,
                                 const struct kva_decide_in *in,
                                 struct kva_layer_view *view, struct kva_error *err)
{
    struct kva_collect want = kva_method_collect(m);

    if (want.kind == KVA_COLLECT_NONE)
        return KVA_OK;
    if (want.kind == KVA_COLLECT_QUERIES && in->query_stats != NULL)
        view->q_stats = in->query_stats(in->side_ctx, &want, view->layer);
    else if (want.kind != KVA_COLLECT_QUERIES && in->side != NULL)
        view->side = in->side(in->side_ctx, &want, view->layer);
    if (view->q_stats == NULL && view->side == NULL)
        return KVA_FAIL(err, KVA_EINVALID,
                        "%s needs sums over the prompt and the session collects none",
                        m->scorer->name);
    return KVA_OK;
}

static enum kva_status score_layer(const struct kva_method *m,
                                   const struct kva_decide_in *in, int layer,
                                   struct scratch *scratch, struct kva_scores *sc,
                                   float *s, struct kva_error *err)
{
    struct kva_layer_view view;

    KVA_TRY(make_view(m, in, m->scorer->needs, layer, scratch, sc, &view, err));
    KVA_TRY(view_side(m, in, &view, err));
    if (layer == in->layer0) {
        protect_params(m->scorer, &m->scorer_params, sc);
        if (m->scorer->protect != NULL)
            m->scorer->protect(&m->scorer_params, &view, &sc->protect);
    }
    return m->scorer->score(&view, &m->scorer_params, s, err);
}

/* Runs the scorer over layers from `first` to before `last`. Its scores come to the host
 * layer by layer, or all at once from the backend's memory. */
static enum kva_status score_layers(const struct kva_method *m,
                                    const struct kva_decide_in *in, int first, int last,
                                    struct scratch *scratch, struct kva_scores *sc,
                                    struct kva_error *err)
{
    const size_t from = sc->off[first * sc->kv_heads],
                 n = sc->off[last * sc->kv_heads] - from, bytes = n * sizeof *sc->s;
    float *s = sc->s + from, *to = s;
    enum kva_status rc = KVA_OK;

    if (m->scorer->by_ops && !in->ops->host) {
        to = in->ops->alloc(in->ops, bytes, KVA_MEM_DEVICE);
        if (to == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "scores of %zu entries", n);
        scratch->far_bytes = bytes;
    }
    for (int l = first; l < last; l++) {
        scratch_reset(scratch);
        KVA_GO(score_layer(m, in, l, scratch, sc, to + (sc->off[l * sc->kv_heads] - from),
                           err));
    }
    if (to != s)
        in->ops->copy(in->ops, s, to, bytes);
    for (size_t j = 0; m->scorer->each != NULL && j < n; j++)
        s[j] = m->scorer->each(s[j]);
out:
    if (to != s)
        in->ops->release(in->ops, to, KVA_MEM_DEVICE);
    return rc;
}

/* A backend that has failed leaves any numbers: then that is the error. */
static enum kva_status count_nonfinite(struct kva_ops *ops, struct kva_scores *sc,
                                       struct kva_error *err)
{
    size_t n = sc->off[sc->layers * sc->kv_heads];

    for (size_t j = 0; j < n; j++) {
        if (!isfinite(sc->s[j])) {
            sc->s[j] = -INFINITY;
            sc->nonfinite++;
        }
    }
    return sc->nonfinite > 0 ? ops->sync(ops, err) : KVA_OK;
}

enum kva_status kva_method_score(const struct kva_method *m,
                                 const struct kva_decide_in *in, struct kva_scores *out,
                                 uint64_t *scratch_bytes, struct kva_error *err)
{
    struct scratch scratch;
    int last;
    enum kva_status rc;

    *out = (struct kva_scores){0};
    if (m->scorer == NULL)
        return KVA_FAIL(err, KVA_EINVALID, "%s has no scorer", m->spec);
    scratch_init(&scratch, in->ops);
    KVA_GO(scores_new(in, out, err));
    last = in->layer1 > 0 ? in->layer1 : out->layers;
    KVA_GO(score_layers(m, in, in->layer0, last, &scratch, out, err));
    KVA_GO(count_nonfinite(in->ops, out, err));
    if (scratch_bytes != NULL)
        *scratch_bytes += scratch_peak(&scratch);
out:
    scratch_release(&scratch);
    if (rc != KVA_OK)
        kva_scores_release(out);
    return kva_ops_reason(in->ops, rc, err);
}

enum kva_status kva_method_wrap(const struct kva_method *m,
                                const struct kva_decide_in *in,
                                const struct kva_scores *base, struct kva_scores *out,
                                uint64_t *scratch_bytes, struct kva_error *err)
{
    const struct kva_wrapper *w = m->wrapper;
    struct kva_layer_view view;
    struct scratch scratch;
    size_t n;
    int last;
    enum kva_status rc;

    *out = (struct kva_scores){0};
    if (w == NULL || w->rescore == NULL)
        return KVA_OK;
    scratch_init(&scratch, in->ops);
    KVA_GO(scores_new(in, out, err));
    out->protect = base->protect;
    out->recent_share = base->recent_share;
    n = out->off[out->layers * out->kv_heads];
    memcpy(out->s, base->s, n * sizeof *out->s);
    last = in->layer1 > 0 ? in->layer1 : out->layers;
    for (int l = in->layer0; l < last; l++) {
        size_t at = out->off[l * out->kv_heads];

        scratch_reset(&scratch);
        KVA_GO(make_view(m, in, w->needs, l, &scratch, out, &view, err));
        if (w->wide != NULL && out->aux == NULL) {
            out->wide = w->wide(&m->wrapper_params, &view);
            out->aux = kva_calloc(n * (size_t)out->wide, sizeof *out->aux);
            if (out->aux == NULL) {
                rc = KVA_FAIL(err, KVA_ENOMEM, "%s over %zu entries", w->name, n);
                goto out;
            }
        }
        KVA_GO(w->rescore(&view, &m->wrapper_params, base->s + at, out->s + at,
                          out->aux != NULL ? out->aux + at * (size_t)out->wide : NULL,
                          err));
    }
    KVA_GO(count_nonfinite(in->ops, out, err));
    if (scratch_bytes != NULL)
        *scratch_bytes +=
            scratch_peak(&scratch) + n * (size_t)out->wide * sizeof *out->aux;
out:
    scratch_release(&scratch);
    if (rc != KVA_OK)
        kva_scores_release(out);
    return kva_ops_reason(in->ops, rc, err);
}

enum kva_status kva_method_observe(const struct kva_method *m,
                                   const struct kva_decide_in *in,
                                   const struct kva_scores *sc, struct kva_arena *arena,
                                   double **stat, struct kva_error *err)
{
    const struct kva_allocator *a = m->allocator;
    struct scratch scratch;
    enum kva_status rc = KVA_OK;

    *stat = NULL;
    if (a == NULL || a->observe == NULL)
        return KVA_OK;
    scratch_init(&scratch, in->ops);
    *stat = kva_arena_alloc(arena, (size_t)sc->layers * (size_t)a->n_stat, sizeof **stat);
    if (*stat == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "%s over %d layers", a->name, sc->layers);
        goto out;
    }
    for (int l = in->layer0; l < (in->layer1 > 0 ? in->layer1 : sc->layers); l++) {
        struct kva_layer_view view;

        scratch_reset(&scratch);
        KVA_GO(make_view(m, in, a->needs, l, &scratch, sc, &view, err));
        KVA_GO(
            a->observe(&view, &m->allocator_params, *stat + (size_t)l * a->n_stat, err));
    }
out:
    scratch_release(&scratch);
    return kva_ops_reason(in->ops, rc, err);
}

/* ---- selection ---- */

void kva_decision_release(struct kva_decision *d)
{
    kva_keep_release(&d->keep);
    free(d->budget);
    *d = (struct kva_decision){0};
}

static enum kva_status keep_new(const struct kva_scores *sc, const int *b,
                                struct kva_keep *keep, struct kva_error *err)
{
    size_t c = (size_t)sc->layers * (size_t)sc->kv_heads;

    keep->layers = sc->layers;
    keep->kv_heads = sc->kv_heads;
    keep->off = kva_calloc(c + 1, sizeof *keep->off);
    if (keep->off == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "kept lists of %zu KV heads", c);
    for (size_t i = 0; i < c; i++)
        keep->off[i + 1] = keep->off[i] + (size_t)b[i];
    keep->rank = kva_calloc(keep->off[c], sizeof *keep->rank);
    if (keep->rank == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "kept lists of %zu entries", keep->off[c]);
    return KVA_OK;
}

/* Budgets of every kvhead, checked: an allocator that misses its total is not believed.
 */
static enum kva_status budgets(const struct kva_method *m, const struct kva_scores *sc,
                               const double *stat, uint64_t total, const int *base,
                               const int *n, struct kva_decision *out,
                               struct kva_error *err)
{
    struct kva_alloc_in in = {.scores = sc,
                              .base = base,
                              .total = total,
                              .seen_stat = stat,
                              .table = m->table,
                              .fallback = &out->fallback};
    int *b = out->budget;
    int c = sc->layers * sc->kv_heads;
    uint64_t sum = 0;

    KVA_TRY(m->allocator->allocate(&in, &m->allocator_params, b, err));
    for (int i = 0; i < c; i++) {
        if (b[i] < 1 || b[i] > n[i])
            return KVA_FAIL(
                err, KVA_ECONFLICT, "%s gives layer %d head %d %d of %d entries",
                m->allocator->name, i / sc->kv_heads, i % sc->kv_heads, b[i], n[i]);
        sum += (uint64_t)b[i];
    }
    if (sum != total)
        return KVA_FAIL(err, KVA_ECONFLICT, "%s gives %llu entries instead of %llu",
                        m->allocator->name, (unsigned long long)sum,
                        (unsigned long long)total);
    return KVA_OK;
}

/* How the entries of the KV heads are chosen, once the budgets are known. */
struct picking {
    const struct kva_method *m;
    const struct kva_scores *sc;
    const int *b;
    int32_t newest;
    struct kva_decision *out;
    /* KV heads that scores alone decide: chosen all at once, behind the others */
    int *ask, *lead, *tail; /* [cells], one array */
};

static void pick_of(const struct picking *p, int c, struct kva_pick *in)
{
    const struct kva_scores *sc = p->sc;

    *in = (struct kva_pick){.s = sc->s + sc->off[c],
                            .pos = sc->pos + sc->off[c],
                            .n = (int)(sc->off[c + 1] - sc->off[c]),
                            .b = p->b[c],
                            .wide = sc->wide};
    if (sc->aux != NULL)
        in->aux = sc->aux + sc->off[c] * (size_t)sc->wide;
    kva_rank_protected(sc, c, p->newest, &in->lead, &in->tail);
}

/* Does the wrapper have a say in kvhead c? Not where everything stays, nor where what is
 * protected fills the budget. */
static bool open_choice(const struct kva_pick *in)
{
    return in->b < in->n && in->lead + in->tail < in->b;
}

static enum kva_status check_ranks(const struct kva_method *m, const int32_t *rank, int b,
                                   int n, int c, int kv_heads, struct kva_error *err)
{
    for (int i = 0; i < b; i++)
        if (rank[i] < 0 || rank[i] >= n || (i > 0 && rank[i] <= rank[i - 1]))
            return KVA_FAIL(err, KVA_ECONFLICT,
                            "%s picks no ascending list in KV head %d of layer %d",
                            m->wrapper->name, c % kv_heads, c / kv_heads);
    return KVA_OK;
}

/* Ranks that stay where no score has a say, ascending. Returns whether more entries are
 * protected than may stay. */
static bool take_sure(const struct kva_pick *in, int32_t *rank)
{
    bool over = in->b < in->n && in->lead + in->tail > in->b;
    int lead = over && in->lead > in->b ? in->b : in->lead, out = 0;
    int tail =
        over ? in->b - lead : in->tail; /* rule 3.4: oldest sinks, then the newest */

    for (int j = 0; j < in->n; j++) {
        if (in->b == in->n || j < lead || j >= in->n - tail)
            rank[out++] = j;
    }
    return over;
}

static enum kva_status pick_head(struct picking *p, int c, struct kva_error *err)
{
    struct kva_decision *out = p->out;
    int32_t *rank = out->keep.rank + out->keep.off[c];
    struct kva_pick in;
    double first = NAN;

    pick_of(p, c, &in);
    in.first = &first;
    if (!open_choice(&in)) {
        out->protect_overflow |= take_sure(&in, rank);
        return KVA_OK;
    }
    if (p->m->wrapper != NULL && p->m->wrapper->pick != NULL) {
        KVA_TRY(p->m->wrapper->pick(&p->m->wrapper_params, &in, rank, err));
        out->staged += !isnan(first);
        out->heavy += first > 0.5;
        return check_ranks(p->m, rank, in.b, in.n, c, p->sc->kv_heads, err);
    }
    p->ask[c] = in.b;
    p->lead[c] = in.lead;
    p->tail[c] = in.tail;
    return KVA_OK;
}

static enum kva_status pick_layer(struct picking *p, int layer, struct kva_error *err)
{
    struct kva_pick in[64] = {{0}};
    int32_t *rank[64] = {NULL};
    int h = p->sc->kv_heads;
    bool open = p->m->wrapper != NULL && p->m->wrapper->pick_layer != NULL;

    if (open && h > 64)
        return KVA_FAIL(err, KVA_EUNSUPPORTED, "%s over %d KV heads", p->m->wrapper->name,
                        h);
    for (int i = 0; open && i < h; i++) {
        pick_of(p, layer * h + i, &in[i]);
        rank[i] = p->out->keep.rank + p->out->keep.off[layer * h + i];
        open = open_choice(&in[i]);
    }
    if (!open) {
        for (int i = 0; i < h; i++)
            KVA_TRY(pick_head(p, layer * h + i, err));
        return KVA_OK;
    }
    KVA_TRY(p->m->wrapper->pick_layer(&p->m->wrapper_params, in, h, rank, err));
    for (int i = 0; i < h; i++)
        KVA_TRY(check_ranks(p->m, rank[i], in[i].b, in[i].n, layer * h + i, h, err));
    return KVA_OK;
}

/* Asks for the lists of the KV heads that wait for them, of which c0 is the first and
 * c1 - 1 the last. */
static enum kva_status choose(struct picking *p, int c0, int c1, struct kva_error *err)
{
    const struct kva_scores *sc = p->sc;
    struct kva_contest in = {.s = sc->s,
                             .pos = sc->pos,
                             .off = sc->off + c0,
                             .cells = c1 - c0,
                             .lead = p->lead + c0,
                             .tail = p->tail + c0};

    return kva_rank_choose(sc->ops, &in, p->ask + c0, p->out->keep.off + c0,
                           p->out->keep.rank, err);
}

static enum kva_status pick_all(struct picking *p, struct kva_error *err)
{
    const int heads = p->sc->kv_heads, cells = p->sc->layers * heads;
    int c0 = 0, c1 = cells;
    enum kva_status rc = KVA_OK;

    p->ask = kva_calloc(3 * (size_t)cells, sizeof *p->ask);
    if (p->ask == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "ranking in %d KV heads", cells);
    p->lead = p->ask + cells;
    p->tail = p->lead + cells;
    for (int c = 0; c < cells; c += heads)
        if (kva_rank_decided(p->sc, c))
            KVA_GO(pick_layer(p, c / heads, err));
    while (c0 < cells && p->ask[c0] == 0)
        c0++;
    while (c1 > c0 && p->ask[c1 - 1] == 0)
        c1--;
    if (c0 < c1)
        rc = choose(p, c0, c1, err);
out:
    free(p->ask);
    return rc;
}

/* What really stays where the wrapper's published form misses the budget. */
static enum kva_status resize(struct picking *p, int *b, uint64_t *total,
                              struct kva_error *err)
{
    struct kva_pick in[64] = {{0}};
    const struct kva_wrapper *w = p->m->wrapper;
    int h = p->sc->kv_heads;

    if (w == NULL || w->resize == NULL)
        return KVA_OK;
    if (h > 64)
        return KVA_FAIL(err, KVA_EUNSUPPORTED, "%s over %d KV heads", w->name, h);
    *total = 0;
    for (int l = 0; l < p->sc->layers; l++) {
        bool open = true;

        for (int i = 0; i < h; i++) {
            pick_of(p, l * h + i, &in[i]);
            open = open && open_choice(&in[i]);
        }
        if (open)
            KVA_TRY(w->resize(&p->m->wrapper_params, in, h, b + l * h, err));
        for (int i = 0; i < h; i++) {
            if (b[l * h + i] < 1 || b[l * h + i] > in[i].n)
                return KVA_FAIL(err, KVA_ECONFLICT,
                                "%s keeps %d of %d entries in KV head %d of layer %d",
                                w->name, b[l * h + i], in[i].n, i, l);
            *total += (uint64_t)b[l * h + i];
        }
    }
    return KVA_OK;
}

/* The scores as the wrapper wants them for this budget; *own is the caller's to free. */
static enum kva_status promote(const struct kva_method *m, struct kva_scores *sc,
                               const int *share, float **own, struct kva_error *err)
{
    size_t n = sc->off[sc->layers * sc->kv_heads];

    if (m->wrapper == NULL || m->wrapper->promote == NULL)
        return KVA_OK;
    *own = kva_calloc(n, sizeof **own);
    if (*own == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%s over %zu entries", m->wrapper->name, n);
    memcpy(*own, sc->s, n * sizeof **own);
    KVA_TRY(m->wrapper->promote(&m->wrapper_params, sc, share, *own, err));
    sc->s = *own;
    return KVA_OK;
}

enum kva_status kva_method_select(const struct kva_method *m,
                                  const struct kva_scores *scores, const double *stat,
                                  uint64_t total, struct kva_decision *out,
                                  struct kva_error *err)
{
    struct kva_scores sc = *scores; /* borrowed */
    int c = sc.layers * sc.kv_heads, *work = NULL, *n, *base;
    uint64_t held = sc.off[c];
    struct picking p = {.m = m, .sc = &sc, .newest = kva_rank_newest(&sc), .out = out};
    float *own = NULL;
    enum kva_status rc = KVA_OK;

    *out = (struct kva_decision){.protect = scores->protect};
    if (m->allocator == NULL)
        return KVA_FAIL(err, KVA_EINVALID, "%s has no allocator", m->spec);
    if (total < (uint64_t)c)
        return KVA_FAIL(err, KVA_EINVALID,
                        "a budget of %llu entries is below one for each of %d "
                        "KV heads",
                        (unsigned long long)total, c);
    work = kva_calloc((size_t)c * 2, sizeof *work);
    out->budget = kva_calloc((size_t)c, sizeof *out->budget);
    if (work == NULL || out->budget == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "budgets of %d KV heads", c);
        goto out;
    }
    n = work;
    base = n + c;
    p.b = out->budget;
    for (int i = 0; i < c; i++)
        n[i] = (int)(sc.off[i + 1] - sc.off[i]);
    if (total >= held) {
        total = held;
        out->nothing_to_do = true;
        memcpy(out->budget, n, (size_t)c * sizeof *n);
    } else {
        if (m->allocator->protect != NULL)
            m->allocator->protect(&m->allocator_params, total, c, &sc.protect);
        out->protect = sc.protect;
        kva_budget_uniform(total, n, c, base);
        sc.share = base;
        if ((int)(sc.recent_share * (double)(total / (uint64_t)c)) > out->protect.recent)
            out->protect.recent = (int)(sc.recent_share * (double)(total / (uint64_t)c));
        KVA_GO(promote(m, &sc, base, &own, err));
        KVA_GO(budgets(m, &sc, stat, total, base, n, out, err));
        KVA_GO(resize(&p, out->budget, &total, err));
    }
    KVA_GO(keep_new(&sc, out->budget, &out->keep, err));
    KVA_GO(pick_all(&p, err));
    out->total = total;
out:
    free(work);
    free(own);
    if (rc != KVA_OK)
        kva_decision_release(out);
    return rc;
}

enum kva_status kva_method_decide(const struct kva_method *m,
                                  const struct kva_decide_in *in,
                                  const struct kva_scores *base, uint64_t total,
                                  struct kva_decision *out, uint64_t *scratch_bytes,
                                  struct kva_error *err)
{
    struct kva_scores wrapped = {0};
    struct kva_arena arena;
    double *stat = NULL;
    enum kva_status rc;

    *out = (struct kva_decision){0};
    kva_arena_init(&arena);
    KVA_GO(kva_method_wrap(m, in, base, &wrapped, scratch_bytes, err));
    if (wrapped.nonfinite > 0) {
        rc = KVA_FAIL(err, KVA_ENONFINITE, "%llu scores of %s are not finite numbers",
                      (unsigned long long)wrapped.nonfinite, m->wrapped_spec);
        goto out;
    }
    KVA_GO(kva_method_observe(m, in, base, &arena, &stat, err));
    rc = kva_method_select(m, wrapped.off != NULL ? &wrapped : base, stat, total, out,
                           err);
out:
    kva_scores_release(&wrapped);
    kva_arena_release(&arena);
    return rc;
}
