/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exec_prefill.c - prefills that evict before the prompt is read (methods.md 4.2, 4.3).
 *
 *     block:B    after every B tokens down to the budget of the whole prompt
 *     chunked:B  the same down to the budget of the tokens read so far
 *     layerwise  the whole prompt in one layer, that layer cut, then the next: the sets
 *                of oneshot, at a peak of one full layer beside what stays
 *
 * All evictions of a block happen after the whole model has read it. */
#include "runner/cheats.h"
#include "runner/exec_internal.h"

#include <stdlib.h>

bool kva_prefills_own(const struct kva_cell *cell)
{
    return cell->method.scorer != NULL && cell->schedule.kind != KVA_ONESHOT &&
           !KVA_CHEATS(KVA_CHEAT_DENSE);
}

static enum kva_status cut_block(const struct kva_unit_run *u, struct kva_session *s,
                                 struct kva_own *own, struct kva_prefill_out *out,
                                 struct kva_error *err)
{
    struct kva_kvstore *store = kva_session_store(s);
    struct kva_decision d = {0};
    struct kva_kv_bytes b;
    enum kva_status rc;

    kva_kvstore_bytes(store, &b);
    if (b.entries_kept <= own->total)
        return KVA_OK;
    own->held = b.entries_kept;
    kva_parts_enter(u->parts, KVA_PART_SCORE);
    KVA_GO(kva_decide_own(s, own, &d, err));
    kva_parts_enter(u->parts, KVA_PART_EVICT);
    if (!d.nothing_to_do)
        KVA_GO(kva_session_keep(s, &d.keep, err));
    KVA_GO(kva_kvstore_trim(store, err));
    kva_parts_enter(u->parts, KVA_PART_PREFILL);
    out->protect = d.protect;
    out->decided = d.total;
out:
    kva_decision_release(&d);
    return rc;
}

static enum kva_status by_blocks(struct kva_unit_run *u, struct kva_session *s,
                                 const struct kva_stream *in, struct kva_prefill_out *out,
                                 struct kva_row *last, struct kva_error *err)
{
    const struct kva_cell *cell = in->cell;
    struct kva_own own = {.method = &cell->method,
                          .seed = kva_unit_seed(u, cell),
                          .is_block = true,
                          .united = cell->enforce == KVA_UNION};

    for (int at = 0; at < in->n; at += cell->schedule.block) {
        int len = in->n - at < cell->schedule.block ? in->n - at : cell->schedule.block;
        int read = at + len, asked = read - (in->n - in->n_question);

        KVA_TRY(kva_unit_feed(u, s, in->ids + at, len, read == in->n ? last : NULL, err));
        own.total = cell->schedule.kind == KVA_CHUNKED ? kva_cell_total(u, cell, read)
                                                       : in->total;
        own.prompt = cell->schedule.kind == KVA_CHUNKED ? read : in->n;
        own.block_len = len;
        own.question = asked > 0 ? asked : 0;
        KVA_TRY(cut_block(u, s, &own, out, err));
    }
    out->scratch = own.scratch;
    out->noted = own.noted;
    return KVA_OK;
}

/* What `d` keeps in one layer; those above it stay as they are, those below hold nothing
 * yet. */
static enum kva_status one_layer(const struct kva_decision *d, int layer,
                                 const struct kva_kvstore *store, struct kva_keep *keep,
                                 struct kva_error *err)
{
    const int heads = d->keep.kv_heads, c = d->keep.layers * heads;
    size_t n = 0;

    for (int i = 0; i < c; i++)
        n += (size_t)kva_kvstore_live(store, i / heads, i % heads);
    *keep = (struct kva_keep){.layers = d->keep.layers, .kv_heads = heads};
    keep->off = kva_calloc((size_t)c + 1, sizeof *keep->off);
    keep->rank = kva_calloc(n, sizeof *keep->rank);
    if (keep->off == NULL || keep->rank == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "list of %zu entries", n);
    n = 0;
    for (int i = 0; i < c; i++) {
        int live = kva_kvstore_live(store, i / heads, i % heads);

        if (i / heads == layer)
            for (size_t j = d->keep.off[i]; j < d->keep.off[i + 1]; j++)
                keep->rank[n++] = d->keep.rank[j];
        else
            for (int r = 0; r < live; r++)
                keep->rank[n++] = r;
        keep->off[i + 1] = n;
    }
    return KVA_OK;
}

static enum kva_status cut_layer(const struct kva_unit_run *u, struct kva_session *s,
                                 struct kva_own *own, int layer,
                                 struct kva_prefill_out *out, struct kva_error *err)
{
    struct kva_decision d = {0};
    struct kva_keep keep = {0};
    enum kva_status rc;

    own->layer0 = layer;
    own->layer1 = layer + 1;
    kva_parts_enter(u->parts, KVA_PART_SCORE);
    KVA_GO(kva_decide_own(s, own, &d, err));
    kva_parts_enter(u->parts, KVA_PART_EVICT);
    if (!d.nothing_to_do) {
        KVA_GO(one_layer(&d, layer, kva_session_store(s), &keep, err));
        KVA_GO(kva_session_keep(s, &keep, err));
    }
    kva_parts_enter(u->parts, KVA_PART_PREFILL);
    out->protect = d.protect;
    /* d.total counts the other layers as if they were this one */
    out->decided +=
        d.keep.off[(layer + 1) * d.keep.kv_heads] - d.keep.off[layer * d.keep.kv_heads];
out:
    kva_keep_release(&keep);
    kva_decision_release(&d);
    return rc;
}

static enum kva_status run_layers(struct kva_unit_run *u, struct kva_session *s,
                                  const struct kva_stream *in, struct kva_row *rows,
                                  struct kva_prefill_out *out, struct kva_error *err)
{
    const struct kva_cell *cell = in->cell;
    struct kva_own own = {.method = &cell->method,
                          .total = in->total,
                          .held = (uint64_t)in->n *
                                  (uint64_t)(u->info->layers * u->info->kv_heads),
                          .seed = kva_unit_seed(u, cell),
                          .block_len = in->n,
                          .question = in->n_question,
                          .prompt = in->n,
                          .seen = in->n,
                          .united = cell->enforce == KVA_UNION};
    struct kva_step_state *st = NULL;
    enum kva_status rc;

    out->decided = 0;
    KVA_TRY(kva_step_begin(u->model, rows, in->n, &st, err));
    kva_model_ops(u->model)->context = true;
    for (int l = 0; l < u->info->layers; l++) {
        const struct kva_error *why = kva_session_error(s);

        if (u->opts->stop != NULL && *u->opts->stop != 0) {
            rc = KVA_FAIL(err, KVA_EINTERRUPTED, "stopped while reading the prompt");
            goto out;
        }
        if (why->code == KVA_OK)
            KVA_GO(kva_step_layer(st, l, err));
        if (why->code != KVA_OK) {
            rc = KVA_FAIL(err, why->code, "%s", why->text);
            goto out;
        }
        KVA_GO(cut_layer(u, s, &own, l, out, err));
    }
    KVA_GO(kva_step_end(st, NULL, err));
    st = NULL;
    kva_model_ops(u->model)->context = false;
    *u->rows += in->n;
    out->scratch = own.scratch;
    out->noted = own.noted;
    if (kva_session_error(s)->code != KVA_OK)
        return KVA_FAIL(err, kva_session_error(s)->code, "%s",
                        kva_session_error(s)->text);
    return kva_kvstore_trim(kva_session_store(s), err);
out:
    kva_model_ops(u->model)->context = false;
    kva_step_cancel(st);
    return rc;
}

static enum kva_status by_layers(struct kva_unit_run *u, struct kva_session *s,
                                 const struct kva_stream *in, struct kva_prefill_out *out,
                                 struct kva_row *last, struct kva_error *err)
{
    struct kva_row *rows = kva_calloc((size_t)in->n, sizeof *rows);
    enum kva_status rc;

    if (rows == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "a step of %d rows", in->n);
    for (int i = 0; i < in->n; i++)
        rows[i] = (struct kva_row){.session = s, .token = in->ids[i], .target = -1};
    if (last != NULL) {
        last->session = s;
        last->token = in->ids[in->n - 1];
        rows[in->n - 1] = *last;
    }
    rc = run_layers(u, s, in, rows, out, err);
    if (last != NULL)
        *last = rows[in->n - 1];
    free(rows);
    return rc;
}

enum kva_status kva_prefill_own(struct kva_unit_run *u, struct kva_session *s,
                                const struct kva_stream *in, struct kva_prefill_out *out,
                                struct kva_row *last, struct kva_error *err)
{
    *out = (struct kva_prefill_out){.decided = in->total};
    if (in->n == 0)
        return KVA_OK;
    return in->cell->schedule.kind == KVA_LAYERWISE ? by_layers(u, s, in, out, last, err)
                                                    : by_blocks(u, s, in, out, last, err);
}
