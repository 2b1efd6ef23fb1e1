/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kvstore_check.c - the invariants of kvstore_impl.h, verified one by one for tests and
 * audits. */
#include "kernels/kvstore_impl.h"

#include <stdlib.h>

enum { P = KVA_PAGE };

/* Every id below top exactly once: in a table row or in the free list. */
static enum kva_status check_pages(const struct kva_kvstore *s, uint8_t *seen,
                                   struct kva_error *err)
{
    size_t used = 0;

    if (s->top > s->page_cap || s->n_free > s->top ||
        s->top * s->page_bytes > s->committed_bytes ||
        s->committed_bytes > s->reserved_bytes || s->committed_bytes % s->chunk_bytes)
        return KVA_FAIL(err, KVA_ECONFLICT,
                        "%zu pages handed out, %zu free, cap %zu, %zu bytes committed",
                        s->top, s->n_free, s->page_cap, s->committed_bytes);
    for (int c = 0; c < s->heads; c++) {
        const int32_t *row = s->table + (size_t)c * (size_t)s->table_cap;
        size_t held = s->len[c] < 0 ? SIZE_MAX : pages_of((size_t)s->len[c]);

        if (held > (size_t)s->table_cap)
            return KVA_FAIL(err, KVA_ECONFLICT, "KV head %d: length %d", c, s->len[c]);
        for (size_t i = 0; i < (size_t)s->table_cap; i++) {
            if (i >= held ? row[i] != -1 : row[i] < 0 || (size_t)row[i] >= s->top)
                return KVA_FAIL(err, KVA_ECONFLICT, "KV head %d: page %zu is %d", c, i,
                                row[i]);
            if (i < held && seen[row[i]]++)
                return KVA_FAIL(err, KVA_ECONFLICT, "page %d has two owners", row[i]);
        }
        used += held;
    }
    for (size_t i = 0; i < s->n_free; i++)
        if (s->free_ids[i] < 0 || (size_t)s->free_ids[i] >= s->top ||
            seen[s->free_ids[i]]++)
            return KVA_FAIL(err, KVA_ECONFLICT, "free page %d is in use or listed twice",
                            s->free_ids[i]);
    if (used + s->n_free != s->top)
        return KVA_FAIL(err, KVA_ECONFLICT, "%zu of %zu pages are lost",
                        s->top - used - s->n_free, s->top);
    return KVA_OK;
}

static int by_value(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

/* Positions, mask bits and the sorted flag of one KV head. `pos` is room for its
 * positions. */
static enum kva_status check_head(const struct kva_kvstore *s, int c, int32_t *pos,
                                  struct kva_error *err)
{
    int n = s->len[c], slots = (int)pages_of((size_t)n) * P, live = 0;

    for (int j = 0; j < slots; j++) {
        int32_t p = *pos_at(s, c, j);

        if (j >= n ? p != -1 : p < 0)
            return KVA_FAIL(err, KVA_ECONFLICT,
                            "KV head %d: slot %d of %d has position %d", c, j, n, p);
        if (j >= n && s->live && is_live(s, c, j))
            return KVA_FAIL(err, KVA_ECONFLICT, "KV head %d: free slot %d is readable", c,
                            j);
        if (j < n) {
            if (s->sorted[c] && j && p <= pos[j - 1])
                return KVA_FAIL(err, KVA_ECONFLICT, "KV head %d: slot %d is out of order",
                                c, j);
            live += is_live(s, c, j);
            pos[j] = p;
        }
    }
    if (live != s->n_live[c] || s->sorted[c] > 1 || (!s->sorted[c] && !s->keys))
        return KVA_FAIL(err, KVA_ECONFLICT, "KV head %d: %d entries are live, not %d", c,
                        live, s->n_live[c]);
    qsort(pos, (size_t)n, sizeof *pos, by_value);
    for (int j = 1; j < n; j++)
        if (pos[j] == pos[j - 1])
            return KVA_FAIL(err, KVA_ECONFLICT, "KV head %d: position %d twice", c,
                            pos[j]);
    return KVA_OK;
}

enum kva_status kva_kvstore_check(const struct kva_kvstore *s, struct kva_error *err)
{
    enum kva_status rc = KVA_OK;
    uint8_t *seen = kva_calloc(s->top + 1, 1);
    int32_t *pos = kva_calloc((size_t)s->table_cap * P, sizeof *pos);

    if (!seen || !pos) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "check of a KV store");
        goto out;
    }
    KVA_GO(check_pages(s, seen, err));
    for (int c = 0; c < s->heads; c++)
        KVA_GO(check_head(s, c, pos, err));
out:
    free(seen);
    free(pos);
    return rc;
}
