/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exec_score.c - what a cell said and kept, as numbers.
 *
 * Survival is counted per span group: the tokens of all parts that a KV head still holds.
 * A head's positions become running counts once, so that a part costs two look-ups. */
#include "runner/exec_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/metric.h"

/* ---- spans ---- */

static int group_named(struct kva_span_groups *g, const char *id)
{
    size_t stem = strcspn(id, ".");

    for (int i = 0; i < g->n; i++)
        if (strlen(g->id[i]) == stem && memcmp(g->id[i], id, stem) == 0)
            return i;
    memcpy(g->id[g->n], id, stem);
    return g->n++;
}

enum kva_status kva_unit_group_spans(struct kva_unit_run *u, int q, struct kva_error *err)
{
    const struct kva_item *it = &u->items[q];
    struct kva_span_groups *g = &u->groups[q];
    size_t most = (size_t)it->n_spans + 1;

    g->id = kva_arena_alloc(&u->arena, most, sizeof *g->id);
    g->n_tok = kva_arena_alloc(&u->arena, most, sizeof *g->n_tok);
    g->of = kva_arena_alloc(&u->arena, most, sizeof *g->of);
    if (g->id == NULL || g->n_tok == NULL || g->of == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%d spans", it->n_spans);
    for (int i = 0; i < it->n_spans; i++) {
        g->of[i] = group_named(g, it->spans[i].id);
        g->n_tok[g->of[i]] += it->spans[i].t1 - it->spans[i].t0;
    }
    for (int i = 0; i < g->n; i++)
        if (g->n_tok[i] > UINT16_MAX)
            return KVA_FAIL(err, KVA_EUNSUPPORTED,
                            "span %s of sample %d has %d tokens, more than the %d that "
                            "can be stored",
                            g->id[i], it->idx, g->n_tok[i], UINT16_MAX);
    return KVA_OK;
}

/* One result a group, its counts zero. */
static enum kva_status open_spans(const struct kva_span_groups *g, int heads,
                                  struct kva_result *r, struct kva_error *err)
{
    r->spans = kva_calloc((size_t)g->n + 1, sizeof *r->spans);
    if (r->spans == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "span survival");
    for (int i = 0; i < g->n; i++) {
        struct kva_result_span *rs = &r->spans[i];

        snprintf(rs->id, sizeof rs->id, "%s", g->id[i]);
        rs->n_tok = g->n_tok[i];
        rs->kept = kva_calloc((size_t)heads, sizeof *rs->kept);
        r->n_spans = i + 1;
        if (rs->kept == NULL)
            return KVA_FAIL(err, KVA_ENOMEM, "span survival");
    }
    return KVA_OK;
}

enum kva_status kva_unit_spans(const struct kva_unit_run *u, int q, struct kva_session *s,
                               struct kva_result *r, struct kva_error *err)
{
    const struct kva_item *it = &u->items[q];
    struct kva_kvstore *store = kva_session_store(s);
    int L = u->info->layers, H = u->info->kv_heads, seen = kva_session_seen(s);
    int32_t *pos = kva_calloc((size_t)seen + 1, sizeof *pos);
    int32_t *below = kva_calloc((size_t)seen + 1, sizeof *below); /* kept below p */
    enum kva_status rc;

    r->layers = L;
    r->kv_heads = H;
    if (pos == NULL || below == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "span survival");
        goto out;
    }
    KVA_GO(open_spans(&u->groups[q], L * H, r, err));
    for (int c = 0; c < L * H && it->n_spans > 0; c++) {
        int n = kva_kvstore_live(store, c / H, c % H);

        kva_kvstore_positions(store, c / H, c % H, pos);
        memset(below, 0, ((size_t)seen + 1) * sizeof *below);
        for (int i = 0; i < n; i++)
            below[pos[i] + 1] = 1;
        for (int p = 0; p < seen; p++)
            below[p + 1] += below[p];
        for (int i = 0; i < it->n_spans; i++) {
            int t0 = it->spans[i].t0 < seen ? it->spans[i].t0 : seen;
            int t1 = it->spans[i].t1 < seen ? it->spans[i].t1 : seen;

            r->spans[u->groups[q].of[i]].kept[c] += (uint16_t)(below[t1] - below[t0]);
        }
    }
out:
    free(pos);
    free(below);
    return rc;
}

enum kva_status kva_unit_bits(const struct kva_unit_run *u, struct kva_session *s,
                              int n_tok, struct kva_result *r, struct kva_error *err)
{
    struct kva_kvstore *store = kva_session_store(s);
    int L = u->info->layers, H = u->info->kv_heads;
    size_t row = (size_t)(n_tok + 7) / 8;
    int32_t *pos = kva_calloc((size_t)kva_session_seen(s) + 1, sizeof *pos);

    r->bits = kva_calloc((size_t)(L * H), row);
    if (pos == NULL || r->bits == NULL) {
        free(pos);
        return KVA_FAIL(err, KVA_ENOMEM, "kept bitmaps");
    }
    r->layers = L;
    r->kv_heads = H;
    r->bits_tok = n_tok;
    for (int c = 0; c < L * H; c++) {
        int n = kva_kvstore_live(store, c / H, c % H);

        kva_kvstore_positions(store, c / H, c % H, pos);
        for (int i = 0; i < n; i++)
            if (pos[i] < n_tok)
                r->bits[(size_t)c * row + (size_t)pos[i] / 8] |=
                    (uint8_t)(1u << (pos[i] % 8));
    }
    free(pos);
    return KVA_OK;
}

bool kva_unit_protected(const struct kva_unit_run *u, int q, const struct kva_cell *cell,
                        const struct kva_protect *protect, int n_cut)
{
    const struct kva_item *it = &u->items[q];
    int recent = cell->schedule.decode > 0 ? n_cut : n_cut - protect->recent;
    bool any = false;

    for (int i = 0; i < it->n_spans; i++) {
        const struct kva_span *s = &it->spans[i];

        if (s->kind != 'E' || !s->queried || s->t1 <= s->t0)
            continue;
        any = true;
        /* from the first token behind the sinks on, all must be recent ones */
        if (s->t1 > protect->sinks &&
            (s->t0 > protect->sinks ? s->t0 : protect->sinks) < recent)
            return false;
    }
    return any;
}

/* ---- scores ---- */

static enum kva_status add_score(struct kva_result *r, const char *name, int version,
                                 double value, const struct kva_buf *extracted,
                                 struct kva_error *err)
{
    struct kva_result_score *s = &r->scores[r->n_scores];

    if (r->n_scores == KVA_RESULT_SCORES)
        return KVA_FAIL(err, KVA_EUNSUPPORTED, "more than %d scores of one answer",
                        KVA_RESULT_SCORES);
    *s = (struct kva_result_score){.version = version, .value = value};
    snprintf(s->metric, sizeof s->metric, "%s", name);
    r->n_scores++;
    if (extracted == NULL || extracted->len == 0)
        return KVA_OK;
    s->extracted = strdup(extracted->data);
    return s->extracted != NULL ? KVA_OK
                                : KVA_FAIL(err, KVA_ENOMEM, "what %s extracted", name);
}

/* Scores the answer by one metric. */
static enum kva_status score_by(const struct kva_item *it, const char *name,
                                struct kva_result *r, struct kva_error *err)
{
    const struct kva_metric *metric = kva_metric_find(name);
    struct kva_metric_in in = {.prediction = r->text,
                               .n = strlen(r->text),
                               .answers = it->answers,
                               .n_answers = it->n_answers,
                               .classes = it->classes,
                               .n_classes = it->n_classes,
                               .post = it->post};
    struct kva_buf extracted;
    struct kva_metric_out out = {.extracted = &extracted};
    enum kva_status rc;

    if (metric == NULL)
        return KVA_FAIL(err, KVA_EINVALID, "unknown metric %s", name);
    kva_buf_init(&extracted, 0);
    KVA_GO(kva_metric_score(metric, &in, &out, err));
    KVA_GO(kva_buf_status(&extracted, err));
    rc = add_score(r, metric->name, metric->version, out.score, &extracted, err);
out:
    kva_buf_release(&extracted);
    return rc;
}

/* A failure that gives another needle's value lost the binding, one that invents a value
 * lost the content (charter decision 14). Decoys are matched as references are. */
static enum kva_status wrong_needle(const struct kva_item *it, struct kva_result *r,
                                    struct kva_error *err)
{
    struct kva_metric_in in = {.prediction = r->text,
                               .n = strlen(r->text),
                               .answers = it->decoys,
                               .n_answers = it->n_decoys,
                               .post = it->post};
    struct kva_metric_out out = {0};

    if (it->n_decoys == 0 || r->scores[0].value >= 1)
        return KVA_OK;
    KVA_TRY(kva_metric_score(kva_metric_find("match_part"), &in, &out, err));
    return add_score(r, "wrong_needle", 1, out.score > 0, NULL, err);
}

/* The answer without what ended it. It is a C string from here on, so that a zero byte,
 * which a byte token can be, becomes U+FFFD: it would end what is scored and stored. */
static enum kva_status take_text(const struct kva_run_cell *c, struct kva_result *r,
                                 struct kva_error *err)
{
    struct kva_buf said, text;
    enum kva_status rc;

    kva_buf_init(&said, 0);
    kva_buf_init(&text, 0);
    KVA_GO(kva_tokenizer_decode(c->tok, c->gen, (size_t)c->n_gen, &said, err));
    KVA_GO(kva_buf_status(&said, err));
    if (c->ends != NULL)
        kva_ends_cut(c->ends, &said);
    for (size_t i = 0; i < said.len; i++)
        if (said.data[i] == '\0')
            kva_buf_puts(&text, "\xef\xbf\xbd");
        else
            kva_buf_putc(&text, said.data[i]);
    KVA_GO(kva_buf_status(&text, err));
    r->text = strdup(text.data != NULL ? text.data : "");
    if (r->text == NULL)
        rc = KVA_FAIL(err, KVA_ENOMEM, "an answer of %zu bytes", text.len);
out:
    kva_buf_release(&said);
    kva_buf_release(&text);
    return rc;
}

enum kva_status kva_unit_score(const struct kva_unit_run *u, int q,
                               const struct kva_run_cell *c, struct kva_result *r,
                               struct kva_error *err)
{
    const struct kva_item *it = &u->items[q];

    r->n_gen = c->n_gen;
    r->ids = kva_calloc((size_t)c->n_gen + 1, sizeof *r->ids);
    if (r->ids == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "generation");
    memcpy(r->ids, c->gen, (size_t)c->n_gen * sizeof *r->ids);
    KVA_TRY(take_text(c, r, err));
    snprintf(r->status, sizeof r->status, "ok");
    snprintf(r->stop, sizeof r->stop, "%s", c->stop);
    KVA_TRY(score_by(it, it->metric, r, err));
    if (c->has_gold)
        KVA_TRY(add_score(r, "gold_nll", 1, c->gold_sum / c->n_gold, NULL, err));
    for (int i = 0; it->more_metrics != NULL && it->more_metrics[i] != NULL; i++)
        KVA_TRY(score_by(it, it->more_metrics[i], r, err));
    KVA_TRY(wrong_needle(it, r, err));
    if (c->cell->method.scorer != NULL &&
        kva_unit_protected(u, q, c->cell, &c->protect, r->n_cut))
        KVA_TRY(add_score(r, "protected", 1, 1, NULL, err));
    if (c->noted.staged > 0)
        KVA_TRY(add_score(r, "stage1", 1,
                          (double)c->noted.heavy / (double)c->noted.staged, NULL, err));
    return KVA_OK;
}

int kva_noted_flags(const struct kva_noted *n)
{
    return n->fell_back ? KVA_DB_FELL_BACK : 0;
}
