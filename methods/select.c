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

/* ---- scores ---- */

void kva_scores_release(struct kva_scores *sc)
{
    free(sc->off);
    free(sc->s);
    free(sc->pos);
    *sc = (struct kva_scores){0};
}

static enum kva_status scores_new(const struct kva_kvstore *store, struct kva_scores *sc,
                                  struct kva_error *err)
{
    const struct kva_kvshape *shape = kva_kvstore_shape(store);
    size_t c = (size_t)shape->layers * (size_t)shape->kv_heads;

    sc->layers = shape->layers;
    sc->kv_heads = shape->kv_heads;
    sc->off = kva_calloc(c + 1, sizeof *sc->off);
    if (sc->off == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "scores of %zu KV heads", c);
    for (size_t i = 0; i < c; i++) {
        int layer = (int)i / shape->kv_heads, head = (int)i % shape->kv_heads;
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
        kva_kvstore_positions(store, (int)i / shape->kv_heads, (int)i % shape->kv_heads,
                              sc->pos + sc->off[i]);
    return KVA_OK;
}

/* Contiguous rows of one layer, K or V, in the arena. */
static enum kva_status gather(const struct kva_kvstore *store, int layer, bool keys,
                              int dim, const size_t *off, struct kva_arena *arena,
                              struct kva_rows *rows, struct kva_error *err)
{
    int heads = kva_kvstore_shape(store)->kv_heads;

    *rows = (struct kva_rows){.off = off, .heads = heads, .dim = dim};
    rows->data = kva_arena_alloc(arena, off[heads] * (size_t)dim, sizeof *rows->data);
    if (rows->data == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%zu rows of layer %d", off[heads], layer);
    for (int h = 0; h < heads; h++) {
        float *at = rows->data + off[h] * (size_t)dim;

        kva_kvstore_gather(store, layer, h, keys ? at : NULL, keys ? NULL : at);
    }
    return KVA_OK;
}

/* Protection by the parameters of these names, which most scorers have. */
static void protect_params(const struct kva_scorer *scorer,
                           const struct kva_params *params, struct kva_protect *p)
{
    *p = (struct kva_protect){0};
    for (int i = 0; scorer->params != NULL && scorer->params[i].name != NULL; i++) {
        if (strcmp(scorer->params[i].name, "sinks") == 0)
            p->sinks = (int)params->value[i];
        if (strcmp(scorer->params[i].name, "recent") == 0)
            p->recent = (int)params->value[i];
    }
}

static enum kva_status score_layer(const struct kva_method *m,
                                   const struct kva_decide_in *in, int layer,
                                   struct kva_arena *arena, struct kva_scores *sc,
                                   struct kva_error *err)
{
    size_t first = (size_t)layer * (size_t)sc->kv_heads;
    struct kva_rows k, v;
    size_t *off = kva_arena_alloc(arena, (size_t)sc->kv_heads + 1, sizeof *off);
    struct kva_layer_view view = {
        .ops = in->ops,
        .scratch = arena,
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
    };

    if (off == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "view of layer %d", layer);
    for (int h = 0; h <= sc->kv_heads; h++)
        off[h] = sc->off[first + (size_t)h] - sc->off[first];
    if (m->scorer->needs & KVA_NEEDS_KEYS) {
        KVA_TRY(gather(in->store, layer, true, in->head_dim, off, arena, &k, err));
        view.k = &k;
    }
    if (m->scorer->needs & KVA_NEEDS_VALUES) {
        KVA_TRY(gather(in->store, layer, false, in->v_dim, off, arena, &v, err));
        view.v = &v;
    }
    if (m->scorer->needs & KVA_NEEDS_QUERIES) {
        if (in->queries == NULL)
            return KVA_FAIL(err, KVA_EINVALID,
                            "%s needs queries and the session keeps none",
                            m->scorer->name);
        view.nq = in->queries(in->queries_ctx, layer, &view.q, &view.q_pos);
    }
    if (layer == 0) {
        protect_params(m->scorer, &m->scorer_params, &sc->protect);
        if (m->scorer->protect != NULL)
            m->scorer->protect(&m->scorer_params, &view, &sc->protect);
    }
    return m->scorer->score(&view, &m->scorer_params, sc->s + sc->off[first], err);
}

enum kva_status kva_method_score(const struct kva_method *m,
                                 const struct kva_decide_in *in, struct kva_scores *out,
                                 uint64_t *scratch_bytes, struct kva_error *err)
{
    struct kva_arena arena;
    size_t n;
    enum kva_status rc;

    *out = (struct kva_scores){0};
    if (m->scorer == NULL)
        return KVA_FAIL(err, KVA_EINVALID, "%s has no scorer", m->spec);
    kva_arena_init(&arena);
    KVA_GO(scores_new(in->store, out, err));
    for (int l = 0; l < out->layers; l++) {
        kva_arena_reset(&arena);
        KVA_GO(score_layer(m, in, l, &arena, out, err));
    }
    n = out->off[out->layers * out->kv_heads];
    for (size_t j = 0; j < n; j++) {
        if (!isfinite(out->s[j])) {
            out->s[j] = -INFINITY;
            out->nonfinite++;
        }
    }
    if (scratch_bytes != NULL)
        *scratch_bytes += arena.peak_bytes;
out:
    kva_arena_release(&arena);
    if (rc != KVA_OK)
        kva_scores_release(out);
    return rc;
}

/* ---- selection ---- */

void kva_decision_release(struct kva_decision *d)
{
    kva_keep_release(&d->keep);
    *d = (struct kva_decision){0};
}

/* Ranks of kvhead c that stay, ascending, to rank[b]. `key` and `copy` are scratch of n.
 * Returns whether more entries are protected than may stay. */
static bool pick(const struct kva_scores *sc, int c, int32_t newest, int b, uint64_t *key,
                 uint64_t *copy, int32_t *rank)
{
    const float *s = sc->s + sc->off[c];
    const int32_t *pos = sc->pos + sc->off[c];
    int n = (int)(sc->off[c + 1] - sc->off[c]), lead, tail, rest, m, out = 0;
    uint64_t least = UINT64_MAX;

    kva_rank_protected(sc, c, newest, &lead, &tail);
    if (b < n && lead + tail > b) { /* rule 3.4: oldest sinks, then the newest */
        lead = lead > b ? b : lead;
        for (int j = 0; j < n; j++) {
            if (j < lead || j >= n - (b - lead))
                rank[out++] = j;
        }
        return true;
    }
    rest = n - lead - tail;
    m = b - lead - tail;
    if (m > 0 && m < rest) {
        for (int j = 0; j < rest; j++)
            key[j] = kva_rank_key(s[lead + j], pos[lead + j]);
        memcpy(copy, key, (size_t)rest * sizeof *key);
        least = kva_rank_cut(copy, (size_t)rest, (size_t)m).key;
    }
    for (int j = 0; j < n; j++) {
        bool sure = j < lead || j >= n - tail || m >= rest;

        if (sure || (m > 0 && key[j - lead] >= least))
            rank[out++] = j;
    }
    return false;
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
                               uint64_t total, const int *n, int *base, int *b,
                               struct kva_error *err)
{
    struct kva_alloc_in in = {.scores = sc, .base = base, .total = total};
    int c = sc->layers * sc->kv_heads;
    uint64_t sum = 0;

    kva_budget_uniform(total, n, c, base);
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

enum kva_status kva_method_select(const struct kva_method *m,
                                  const struct kva_scores *scores, uint64_t total,
                                  struct kva_decision *out, struct kva_error *err)
{
    int c = scores->layers * scores->kv_heads, *work = NULL, *n, *base, *b;
    int32_t newest = kva_rank_newest(scores);
    uint64_t held = scores->off[c], *key = NULL;
    size_t most = 0;
    enum kva_status rc = KVA_OK;

    *out = (struct kva_decision){0};
    if (m->allocator == NULL)
        return KVA_FAIL(err, KVA_EINVALID, "%s has no allocator", m->spec);
    if (total < (uint64_t)c)
        return KVA_FAIL(err, KVA_EINVALID,
                        "a budget of %llu entries is below one for each of %d "
                        "KV heads",
                        (unsigned long long)total, c);
    work = kva_calloc((size_t)c * 3, sizeof *work);
    if (work == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "budgets of %d KV heads", c);
    n = work;
    base = n + c;
    b = base + c;
    for (int i = 0; i < c; i++) {
        n[i] = (int)(scores->off[i + 1] - scores->off[i]);
        most = (size_t)n[i] > most ? (size_t)n[i] : most;
    }
    if (total >= held) {
        total = held;
        out->nothing_to_do = true;
        memcpy(b, n, (size_t)c * sizeof *b);
    } else {
        KVA_GO(budgets(m, scores, total, n, base, b, err));
    }
    KVA_GO(keep_new(scores, b, &out->keep, err));
    key = kva_calloc(2 * most, sizeof *key);
    if (key == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "ranking of %zu entries", most);
        goto out;
    }
    for (int i = 0; i < c; i++) {
        if (pick(scores, i, newest, b[i], key, key + most,
                 out->keep.rank + out->keep.off[i]))
            out->protect_overflow = true;
    }
    out->total = total;
out:
    free(work);
    free(key);
    if (rc != KVA_OK)
        kva_decision_release(out);
    return rc;
}
