/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kvstore_layout.c - what published caches hold for the entries they keep (methods.md 5,
 * analysis.md 6.2).
 *
 *     padded      a tensor per layer: every KV head takes the pages of the longest one
 *     query head  K and V repeated before the cut: G copies of every page
 *     union       one list of positions per layer: every KV head holds what any of them
 *                 keeps
 *
 * The first two move nothing and change no answer: the store counts what such a layout
 * would take. The third really holds its entries, and attention reads them. */
#include "kernels/kvstore_impl.h"

#include <stdlib.h>
#include <string.h>

uint64_t kva_kvstore_pages_held(const struct kva_kvstore *s)
{
    uint64_t pages = 0;

    if (!s->layout.padded)
        return (uint64_t)(s->top - s->n_free) * (uint64_t)s->layout.copies;
    for (int l = 0; l < s->shape.layers; l++) {
        size_t most = 0;

        for (int h = 0; h < s->shape.kv_heads; h++) {
            size_t n = pages_of((size_t)s->len[l * s->shape.kv_heads + h]);

            most = n > most ? n : most;
        }
        pages += (uint64_t)most * (uint64_t)s->shape.kv_heads;
    }
    return pages * (uint64_t)s->layout.copies;
}

enum kva_status kva_kvstore_set_layout(struct kva_kvstore *s,
                                       const struct kva_kv_layout *layout,
                                       struct kva_error *err)
{
    if (layout->copies < 1)
        return KVA_FAIL(err, KVA_EINVALID, "%d copies of a page", layout->copies);
    s->layout = *layout;
    kva_kvstore_note_peak(s);
    return KVA_OK;
}

/* Marks the positions that any KV head of the layer keeps; mark[most + 1]. */
static void mark_layer(const struct kva_kvstore *s, int layer, const struct kva_keep *k,
                       int32_t *pos, uint8_t *mark)
{
    for (int h = 0; h < k->kv_heads; h++) {
        int c = layer * k->kv_heads + h;

        kva_kvstore_positions(s, layer, h, pos);
        for (size_t i = k->off[c]; i < k->off[c + 1]; i++)
            mark[pos[k->rank[i]]] = 1;
    }
}

static int32_t newest(const struct kva_kvstore *s)
{
    int32_t most = 0;

    for (int c = 0; c < s->heads; c++)
        for (int j = 0; j < s->len[c]; j++)
            most = *pos_at(s, c, j) > most ? *pos_at(s, c, j) : most;
    return most;
}

enum kva_status kva_kvstore_unite(const struct kva_kvstore *s, int layer0, int layer1,
                                  struct kva_keep *keep, struct kva_error *err)
{
    const int heads = keep->kv_heads, all = keep->layers * heads;
    size_t most = (size_t)newest(s) + 1, room = keep->off[all], n = 0;
    struct kva_keep out = {.layers = keep->layers, .kv_heads = heads};
    uint8_t *mark = kva_calloc(most, 1);
    int32_t *pos = kva_calloc(most, sizeof *pos);
    enum kva_status rc = KVA_OK;

    for (int c = layer0 * heads; c < layer1 * heads; c++)
        room += (size_t)s->n_live[c];
    out.rank = kva_calloc(room + 1, sizeof *out.rank);
    out.off = kva_calloc((size_t)all + 1, sizeof *out.off);
    if (mark == NULL || pos == NULL || out.rank == NULL || out.off == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "union of %zu entries", room);
        goto out;
    }
    for (int l = 0; l < keep->layers; l++) {
        const bool inside = l >= layer0 && l < layer1;

        memset(mark, 0, most);
        if (inside)
            mark_layer(s, l, keep, pos, mark);
        for (int h = 0; h < heads; h++) {
            int c = l * heads + h, live = inside ? s->n_live[c] : 0;

            if (inside)
                kva_kvstore_positions(s, l, h, pos);
            for (int r = 0; r < live; r++)
                if (mark[pos[r]])
                    out.rank[n++] = r;
            for (size_t i = keep->off[c]; !inside && i < keep->off[c + 1]; i++)
                out.rank[n++] = keep->rank[i];
            out.off[c + 1] = n;
        }
    }
    kva_keep_release(keep);
    *keep = out;
    out = (struct kva_keep){0};
out:
    kva_keep_release(&out);
    free(mark);
    free(pos);
    return rc;
}
