/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kept_test.h - which entries stay in SmolLM2, against kvpress 0.5.5: what the programs
 * that compare kept sets share.
 *
 * A context is prefilled once (f32, f32 cache); every method scores that cache and
 * selects at the numbers of entries the reference kept. A (layer, KV head) is compared
 * exactly when the reference agrees with its own twin of other rounding, nothing ties at
 * the cut and the cut is wide enough; tied entries are the reference's free choice;
 * elsewhere two entries may differ. */
#ifndef KVA_KEPT_TEST_H
#define KVA_KEPT_TEST_H

#include "tests/oracle/oracle_test.h"

#pragma GCC diagnostic ignored "-Wunused-function"

enum { KEPT_WINDOW = 64 };

struct kept_count {
    int exact, tied, near, skipped, wrong;
};

/* A per-cell value of the file: a scalar, or a list over layers, heads or both. */
static const json_t *kept_at(const json_t *v, int layer, int head, int layers)
{
    if (json_is_array(v) && (int)json_array_size(v) == layers)
        v = json_array_get(v, (size_t)layer);
    if (json_is_array(v))
        v = json_array_get(v, (size_t)head);
    return v;
}

/* Bit `pos` of the bitmap of (layer, head) in field `key`; false when there is none. */
static bool kept_bit(const json_t *row, const char *key, int layer, int head, int pos,
                     int s)
{
    const json_t *v = json_object_get(row, key);
    size_t bytes = ((size_t)s + 7) / 8, at;
    const char *hex;
    char two[3];

    if (json_is_array(v))
        v = json_array_get(v, (size_t)layer);
    hex = json_string_value(v);
    if (hex == NULL || hex[0] == '\0') /* no ties in this layer */
        return false;
    at = (strlen(hex) > 2 * bytes ? (size_t)head * bytes : 0) + (size_t)pos / 8;
    assert_true(2 * at + 1 < strlen(hex));
    two[0] = hex[2 * at];
    two[1] = hex[2 * at + 1];
    two[2] = '\0';
    return strtol(two, NULL, 16) >> pos % 8 & 1;
}

static int kept_n(const json_t *row, int layer, int head, int layers)
{
    return (int)json_integer_value(
        kept_at(json_object_get(row, "n_kept"), layer, head, layers));
}

/* One (layer, head): our bitmap against the row's, by the rule at the top. `score` are
 * our scores of the head: where the reference has exact ties, what differs beyond them
 * must lie within rounding of our own cut (equal tokens have equal key norms in layer 0,
 * but for the last bit that the rotation leaves). */
static void kept_compare(const json_t *row, const char *method, bool geometry, int layer,
                         int head, int layers, const bool *ours, const float *score,
                         int s, struct kept_count *count)
{
    const json_t *twin = kept_at(json_object_get(row, "twin_diff"), layer, head, layers);
    const json_t *gap = kept_at(json_object_get(row, geometry ? "margin" : "relgap"),
                                layer, head, layers);
    bool tied = false, wide = !json_is_number(gap) ||
                              json_number_value(gap) >= (geometry ? 1e-5 : 1e-4);
    int apart = 0, forbidden = 0;
    float cut = INFINITY;

    if (json_is_integer(twin) && json_integer_value(twin) != 0) {
        count->skipped++;
        return;
    }
    for (int p = 0; p < s; p++)
        cut = ours[p] && score[p] < cut ? score[p] : cut;
    for (int p = 0; p < s; p++) {
        bool theirs = kept_bit(row, "kept", layer, head, p, s);
        bool loose = kept_bit(row, "tied", layer, head, p, s);

        tied = tied || loose;
        apart += theirs != ours[p];
        forbidden +=
            theirs != ours[p] && !loose && fabsf(score[p] - cut) > 2e-6f * fabsf(cut);
    }
    if (tied)
        count->tied++;
    else if (wide)
        count->exact++;
    else
        count->near++;
    if (tied ? forbidden > 0 : apart > (wide ? 0 : 2)) {
        if (count->wrong++ < 5)
            printf("%s keep %.2f: layer %d head %d: %d entries differ, %d of them not "
                   "tied\n",
                   method, json_number_value(json_object_get(row, "keep")), layer, head,
                   apart, forbidden);
    }
}

struct kept_run {
    struct kva_model *model;
    struct kva_session *session;
    int s, layers, heads;
};

static struct kept_run kept_prefill(struct kva_model *m, const json_t *context)
{
    struct kept_run r = {.model = m, .session = open_session(m, KVA_F32, KEPT_WINDOW)};
    int32_t *ids = json_ids(json_object_get(context, "context_ids"), &r.s);
    struct kva_row last;

    r.layers = kva_model_info(m)->layers;
    r.heads = kva_model_info(m)->kv_heads;
    OK(kva_prefill(m, r.session, ids, r.s, KVA_CHUNK, &last, err));
    free(ids);
    return r;
}

static struct kva_scores kept_score(struct kept_run *r, const struct kva_method *m)
{
    struct kva_decide_in in = {0};
    struct kva_scores sc;

    kva_session_decide_in(r->session, &in);
    in.block_len = r->s;
    in.is_block = false;
    OK(kva_method_score(m, &in, &sc, NULL, err));
    assert_int_equal(sc.nonfinite, 0);
    return sc;
}

static struct kva_method kept_method(const char *text)
{
    const struct kva_schedule oneshot = {KVA_ONESHOT, 0, 0};
    struct kva_method m;

    OK(kva_method_parse(text, &oneshot, &m, err));
    return m;
}

static void kept_map(const struct kva_decision *d, int c, bool *ours, int s)
{
    memset(ours, 0, (size_t)s * sizeof *ours);
    for (size_t j = d->keep.off[c]; j < d->keep.off[c + 1]; j++)
        ours[d->keep.rank[j]] = true; /* nothing was evicted before: rank is position */
}

/* All rows of one file for one context with given scores. shared: KV heads compete, so
 * counts differ where the sets do by rounding; rows whose total is not above `least` are
 * left out: the reference cuts inside a tie of what it protects. */
static void kept_rows(struct kept_run *r, const json_t *context, const char *text,
                      const char *file, bool geometry, const struct kva_scores *sc,
                      bool shared, uint64_t least)
{
    const char *name = json_string_value(json_object_get(context, "name"));
    struct kva_method m = kept_method(text);
    json_t *rows = oracle_rows(file);
    struct kept_count count = {0};
    bool *ours = calloc((size_t)r->s, sizeof *ours);
    int inside = 0;

    assert_non_null(ours);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        uint64_t total = (uint64_t)json_integer_value(json_object_get(row, "total"));
        struct kva_decision d;

        if (strcmp(json_string_value(json_object_get(row, "ctx")), name) != 0)
            continue;
        if (total <= least) {
            inside++;
            continue;
        }
        OK(kva_method_select(&m, sc, NULL, total, &d, err));
        for (int c = 0; c < r->layers * r->heads; c++) {
            kept_map(&d, c, ours, r->s);
            if (json_is_integer(kept_at(json_object_get(row, "twin_diff"), c / r->heads,
                                        c % r->heads, r->layers)) &&
                !shared)
                assert_int_equal(d.keep.off[c + 1] - d.keep.off[c],
                                 kept_n(row, c / r->heads, c % r->heads, r->layers));
            kept_compare(row, text, geometry, c / r->heads, c % r->heads, r->layers, ours,
                         sc->s + sc->off[c], r->s, &count);
        }
        kva_decision_release(&d);
    }
    printf("%s %s: %d equal, %d equal but for ties, %d within two, %d without a stable "
           "reference",
           name, text, count.exact, count.tied, count.near, count.skipped);
    printf(inside > 0 ? ", %d budgets cut inside the window\n" : "\n", inside);
    assert_int_equal(count.wrong, 0);
    assert_true(count.exact + count.tied > 0);
    json_decref(rows);
    free(ours);
}

/* All rows of one file for one context. shared_window: KV heads of a layer compete, so
 * that budgets near the size of their windows are decided by ties in the reference, and
 * counts differ where the sets do by rounding. */
static void kept_file(struct kept_run *r, const json_t *context, const char *text,
                      const char *file, bool geometry, bool shared_window)
{
    struct kva_method m = kept_method(text);
    struct kva_scores sc = kept_score(r, &m);

    kept_rows(r, context, text, file, geometry, &sc, shared_window,
              shared_window ? (uint64_t)(r->layers * r->heads * sc.protect.recent) : 0);
    kva_scores_release(&sc);
}

/* Opens the model when it and the data are there. */
static struct kva_model *kept_model(void)
{
    const char *path = smollm2_path();
    json_t *contexts = path ? oracle_rows("kept/contexts.jsonl") : NULL;

    if (contexts == NULL)
        return NULL;
    json_decref(contexts);
    return open_model(path, "f32");
}

/* The row of contexts.jsonl with this name; the caller drops the reference. */
static json_t *kept_context_named(const char *name)
{
    json_t *contexts = oracle_rows("kept/contexts.jsonl"), *found = NULL;

    for (size_t i = 0; found == NULL && i < json_array_size(contexts); i++) {
        json_t *context = json_array_get(contexts, i);

        if (strcmp(json_string_value(json_object_get(context, "name")), name) == 0)
            found = json_incref(context);
    }
    json_decref(contexts);
    if (found == NULL)
        fail_msg("no context %s", name);
    return found;
}

#endif
