/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kvstore_evict.c - what leaves a store: keep, fork, replace, rewind (kernels.md 2.2).
 *
 * Bulk eviction is stable: survivor i of a KV head comes from slot[i] >= i, so copying in
 * ascending order never overwrites what is still to be read. Decode-time eviction would
 * move half a head per token that way; there the newest survivors fill the holes instead.
 */
#include "kernels/kvstore_impl.h"

#include <stdlib.h>
#include <string.h>

enum { P = KVA_PAGE, DIGIT = 11 };

void kva_keep_release(struct kva_keep *keep)
{
    free(keep->rank);
    free(keep->off);
    memset(keep, 0, sizeof *keep);
}

/* ---- order ---- */

/* Radix sort on the position, least digit first; positions are not negative. */
const uint64_t *kva_kvstore_rank_keys(const struct kva_kvstore *s, int c)
{
    uint64_t *a = s->keys, *b = a + (size_t)s->table_cap * P, *swap;
    uint32_t most = 0, count[(1 << DIGIT) + 1];
    int n = 0;

    for (int j = 0; j < s->len[c]; j++) {
        uint32_t pos = (uint32_t)*pos_at(s, c, j);

        if (is_live(s, c, j)) {
            a[n++] = (uint64_t)pos << 32 | (uint32_t)j;
            most |= pos;
        }
    }
    for (int shift = 32; shift < 64 && most >> (shift - 32); shift += DIGIT) {
        memset(count, 0, sizeof count);
        for (int i = 0; i < n; i++)
            count[(a[i] >> shift & ((1 << DIGIT) - 1)) + 1]++;
        for (int d = 0; d < 1 << DIGIT; d++)
            count[d + 1] += count[d];
        for (int i = 0; i < n; i++)
            b[count[a[i] >> shift & ((1 << DIGIT) - 1)]++] = a[i];
        swap = a;
        a = b;
        b = swap;
    }
    return a;
}

/* slot[i] = where the live entry of rank i sits. */
static void rank_slots(const struct kva_kvstore *s, int c, int32_t *slot)
{
    int n = 0;

    if (s->sorted[c]) {
        for (int j = 0; j < s->len[c]; j++)
            if (is_live(s, c, j))
                slot[n++] = j;
    } else {
        const uint64_t *keys = kva_kvstore_rank_keys(s, c);

        for (int i = 0; i < s->n_live[c]; i++)
            slot[i] = (int32_t)(uint32_t)keys[i];
    }
}

/* Room for one KV head of work: slots by rank, chosen slots, holes, a mark per slot. */
struct work {
    int32_t *by_rank, *chosen, *hole;
    uint8_t *mark;
};

static enum kva_status work_new(const struct kva_kvstore *s, struct work *w,
                                struct kva_error *err)
{
    size_t most = 1;

    for (int c = 0; c < s->heads; c++)
        if ((size_t)s->len[c] > most)
            most = (size_t)s->len[c];
    w->by_rank = kva_calloc(most, 3 * sizeof *w->by_rank + 1);
    if (!w->by_rank)
        return KVA_FAIL(err, KVA_ENOMEM, "eviction lists of %zu entries", most);
    w->chosen = w->by_rank + most;
    w->hole = w->chosen + most;
    w->mark = (uint8_t *)(w->hole + most);
    return KVA_OK;
}

/* The slots of the listed ranks, ascending: the list itself while rank and slot are the
 * same. */
static const int32_t *slots_of(const struct kva_kvstore *s, int c, const int32_t *rank,
                               int n, const struct work *w)
{
    int m = 0;

    if (s->sorted[c] && s->n_live[c] == s->len[c])
        return rank;
    rank_slots(s, c, w->by_rank);
    if (s->sorted[c]) {
        for (int i = 0; i < n; i++)
            w->chosen[i] = w->by_rank[rank[i]];
        return w->chosen;
    }
    memset(w->mark, 0, (size_t)s->len[c]);
    for (int i = 0; i < n; i++)
        w->mark[w->by_rank[rank[i]]] = 1;
    for (int j = 0; j < s->len[c]; j++)
        if (w->mark[j])
            w->chosen[m++] = j;
    return w->chosen;
}

/* Lists fit the store: shape, ascending, in range; `least` and `spare` bound the count of
 * a KV head that holds anything: at least `least`, at most live - spare. */
static enum kva_status check_lists(const struct kva_kvstore *s, const struct kva_keep *k,
                                   int least, int spare, struct kva_error *err)
{
    if (k->layers != s->shape.layers || k->kv_heads != s->shape.kv_heads)
        return KVA_FAIL(err, KVA_EINVALID,
                        "lists for %d x %d KV heads, the store has %d x %d", k->layers,
                        k->kv_heads, s->shape.layers, s->shape.kv_heads);
    for (int c = 0; c < s->heads; c++) {
        int layer = c / k->kv_heads, head = c % k->kv_heads, live = s->n_live[c];
        const int32_t *rank = k->rank + k->off[c];
        size_t n = k->off[c + 1] - k->off[c];

        if (k->off[c + 1] < k->off[c] || n > (size_t)live)
            return KVA_FAIL(err, KVA_EINVALID,
                            "layer %d head %d: more ranks than %d entries", layer, head,
                            live);
        if (live && (n < (size_t)least || n + (size_t)spare > (size_t)live))
            return KVA_FAIL(err, KVA_EINVALID, "layer %d head %d: nothing would stay",
                            layer, head);
        for (size_t i = 0; i < n; i++)
            if (rank[i] < 0 || rank[i] >= live || (i && rank[i] <= rank[i - 1]))
                return KVA_FAIL(err, KVA_EINVALID,
                                "layer %d head %d: rank %d is out of order or range",
                                layer, head, rank[i]);
    }
    return KVA_OK;
}

/* ---- moving ---- */

/* Slots from[0..n) of src's KV head c become slots to[0..n) of dst's, see struct
 * kva_page_move for what NULL means: rows by the backend, positions and mask bits here.
 */
static void move_slots(struct kva_kvstore *dst, const struct kva_kvstore *src, int c,
                       const int32_t *to, const int32_t *from, int n)
{
    struct kva_page_move m = {.to_table = dst->table + (size_t)c * (size_t)dst->table_cap,
                              .from_table =
                                  src->table + (size_t)c * (size_t)src->table_cap,
                              .to = to,
                              .from = from,
                              .n = n};

    dst->mem->move(dst->pages, src->pages, &m, 1);
    for (int i = 0; i < n; i++) {
        int a = from ? from[i] : i, b = to ? to[i] : i;
        int32_t pb = page_at(dst, c, b);
        uint32_t bit = 1u << b % P;

        if (dst == src && a == b)
            continue;
        *pos_at(dst, c, b) = *pos_at(src, c, a);
        dst->copied_bytes += src->row_bytes;
        if (dst->live)
            dst->live[pb] = (dst->live[pb] & ~bit) | (is_live(src, c, a) ? bit : 0);
    }
}

/* Mask mode: exactly the listed ranks stay readable. */
static void mask_others(struct kva_kvstore *s, int c, const int32_t *rank, int n,
                        const struct work *w)
{
    rank_slots(s, c, w->by_rank);
    for (int j = 0; j < s->len[c]; j += P)
        s->live[page_at(s, c, j)] = 0;
    for (int i = 0; i < n; i++) {
        int j = w->by_rank[rank[i]];

        s->live[page_at(s, c, j)] |= 1u << (j % P);
    }
    s->n_live[c] = n;
}

/* ---- operations ---- */

enum kva_status kva_kvstore_keep(struct kva_kvstore *s, const struct kva_keep *keep,
                                 struct kva_error *err)
{
    struct work w = {0};

    KVA_TRY(check_lists(s, keep, 1, 0, err));
    KVA_TRY(work_new(s, &w, err));
    for (int c = 0; c < s->heads; c++) {
        const int32_t *rank = keep->rank + keep->off[c];
        int n = (int)(keep->off[c + 1] - keep->off[c]);

        if (n == s->n_live[c])
            continue;
        if (s->mode == KVA_KV_MASK) {
            mask_others(s, c, rank, n, &w);
            continue;
        }
        move_slots(s, s, c, NULL, slots_of(s, c, rank, n, &w), n);
        kva_kvstore_truncate(s, c, n);
        s->n_live[c] = n;
    }
    free(w.by_rank);
    return KVA_OK;
}

/* Slots of c that a fork takes: all of them in mask mode, else the listed or the live
 * ones. */
static int fork_count(const struct kva_kvstore *src, const struct kva_keep *keep,
                      enum kva_kv_mode mode, int c)
{
    if (mode == KVA_KV_MASK)
        return src->len[c];
    return keep ? (int)(keep->off[c + 1] - keep->off[c]) : src->n_live[c];
}

static void fork_head(struct kva_kvstore *d, const struct kva_kvstore *src,
                      const struct kva_keep *keep, int c, struct work *w)
{
    const int32_t *rank = keep ? keep->rank + keep->off[c] : NULL, *slots = NULL;
    int listed = keep ? (int)(keep->off[c + 1] - keep->off[c]) : src->n_live[c];
    int n = fork_count(src, keep, d->mode, c), m = 0;

    if (d->mode == KVA_KV_PHYSICAL && n < src->len[c]) {
        if (rank && n < src->n_live[c])
            slots = slots_of(src, c, rank, n, w);
        else {
            for (int j = 0; j < src->len[c]; j++)
                if (is_live(src, c, j))
                    w->chosen[m++] = j;
            slots = w->chosen;
        }
    }
    kva_kvstore_take_pages(d, c, n);
    move_slots(d, src, c, NULL, slots, n);
    d->len[c] = n;
    d->n_live[c] = listed;
    if (n)
        d->sorted[c] = src->sorted[c];
    if (d->mode == KVA_KV_MASK && listed < src->n_live[c]) {
        d->n_live[c] = src->n_live[c];
        mask_others(d, c, rank, listed, w);
    }
}

enum kva_status kva_kvstore_fork(const struct kva_kvstore *src,
                                 const struct kva_keep *keep, size_t page_cap,
                                 enum kva_kv_mode mode, struct kva_kvstore **dst,
                                 struct kva_error *err)
{
    enum kva_status rc = KVA_OK;
    struct kva_kvstore *d = NULL;
    struct work w = {0};
    size_t need = 0, most = 1;

    if (keep)
        KVA_TRY(check_lists(src, keep, 1, 0, err));
    for (int c = 0; c < src->heads; c++) {
        size_t pages = pages_of((size_t)fork_count(src, keep, mode, c));

        need += pages;
        most = pages > most ? pages : most;
    }
    if (need > page_cap)
        return KVA_FAIL(err, KVA_EBUDGET, "the copy needs %zu KV pages, its cap is %zu",
                        need, page_cap);
    KVA_GO(kva_kvstore_new(src->ops, &src->shape, page_cap, mode, &d, err));
    KVA_GO(work_new(src, &w, err));
    KVA_GO(kva_kvstore_reserve_tables(d, most, src->keys != NULL, err));
    KVA_GO(kva_kvstore_commit_pages(d, need, err));
    for (int c = 0; c < src->heads; c++)
        fork_head(d, src, keep, c, &w);
    kva_kvstore_note_peak(d);
    *dst = d;
    d = NULL;
out:
    free(w.by_rank);
    kva_kvstore_free(d);
    return rc;
}

enum kva_status kva_kvstore_copy(const struct kva_kvstore *src, struct kva_kvstore **dst,
                                 struct kva_error *err)
{
    KVA_TRY(kva_kvstore_fork(src, NULL, src->page_cap, src->mode, dst, err));
    (*dst)->layout = src->layout;
    kva_kvstore_forget_peak(*dst, src->peak_bytes);
    return KVA_OK;
}

/* Entries behind the new length move into the holes before it: the newest into the
 * lowest. */
static void fill_holes(struct kva_kvstore *s, int c, const int32_t *victim, int n_victims,
                       struct work *w)
{
    int n = s->len[c], left = n - n_victims, hole = 0, moves = 0;

    memset(w->mark, 0, (size_t)n);
    for (int i = 0; i < n_victims; i++)
        w->mark[w->by_rank[victim[i]]] = 1;
    while (hole < left && !w->mark[hole])
        hole++;
    for (int r = n - 1; hole < left; r--) {
        int from = w->by_rank[r];

        if (from < left || w->mark[from])
            continue;
        w->chosen[moves] = from;
        w->hole[moves++] = hole;
        do
            hole++;
        while (hole < left && !w->mark[hole]);
    }
    if (moves > 0) {
        move_slots(s, s, c, w->hole, w->chosen, moves);
        s->sorted[c] = 0;
    }
    kva_kvstore_truncate(s, c, left);
    s->n_live[c] = left;
}

enum kva_status kva_kvstore_replace(struct kva_kvstore *s, const struct kva_keep *victims,
                                    struct kva_error *err)
{
    struct work w = {0};

    KVA_TRY(check_lists(s, victims, 0, 1, err));
    /* keys: positions and rows of an unsorted head are read by functions that cannot fail
     */
    if (s->mode == KVA_KV_PHYSICAL)
        KVA_TRY(kva_kvstore_reserve_tables(s, (size_t)s->table_cap, true, err));
    KVA_TRY(work_new(s, &w, err));
    for (int c = 0; c < s->heads; c++) {
        const int32_t *rank = victims->rank + victims->off[c];
        int n = (int)(victims->off[c + 1] - victims->off[c]);

        if (n == 0)
            continue;
        rank_slots(s, c, w.by_rank);
        if (s->mode == KVA_KV_PHYSICAL) {
            fill_holes(s, c, rank, n, &w);
            continue;
        }
        for (int i = 0; i < n; i++) {
            int j = w.by_rank[rank[i]];

            s->live[page_at(s, c, j)] &= ~(1u << (j % P));
        }
        s->n_live[c] -= n;
    }
    free(w.by_rank);
    return KVA_OK;
}

enum kva_status kva_kvstore_rewind(struct kva_kvstore *s, int32_t pos,
                                   struct kva_error *err)
{
    struct work w = {0};

    KVA_TRY(work_new(s, &w, err));
    for (int c = 0; c < s->heads; c++) {
        int n = s->len[c], left = 0;

        for (int j = 0; j < n; j++)
            if (*pos_at(s, c, j) < pos)
                w.chosen[left++] = j;
        if (left == n)
            continue;
        move_slots(s, s, c, NULL, w.chosen, left);
        kva_kvstore_truncate(s, c, left);
        s->n_live[c] = 0;
        for (int j = 0; j < left; j++)
            s->n_live[c] += is_live(s, c, j);
    }
    free(w.by_rank);
    return KVA_OK;
}
