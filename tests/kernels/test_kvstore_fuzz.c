/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_kvstore_fuzz.c - 100,000 random operations on a physical and a mask store side by
 * side against a model of plain lists: positions in slot order, live flags, and the byte
 * account.
 *
 * KVAUDIT_FUZZ_SEED repeats a run. */
#include "kernels/kvstore.h"

#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    P = KVA_PAGE,
    HEADS = 6,
    MOST = 72 * P,
    WIDE = 2048,
    TOKENS = 40,
    OPS = 100000,
    EPISODE = 250
};

struct entry {
    int32_t pos;
    bool live;
};

struct list {
    struct entry e[MOST]; /* slot order */
    int n;
    bool sorted;
};

/* What a store should hold and say. */
struct model {
    struct list list[HEADS];
    size_t cap, top, table_cap;
    uint64_t committed, peak, copied;
};

struct twin {
    struct kva_kvstore *store;
    struct model m;
    enum kva_kv_mode mode;
};

static struct kva_rng rng;
static struct kva_kvshape shape;
static int heads;
static size_t page_bytes, row_bytes;
static const size_t chunk = 2 << 20; /* every cap here is far below 1 GiB */
static int32_t next_pos;
static unsigned long refusals, moved_pages, unsorted_heads; /* what the run has covered */

static int below(int n)
{
    return (int)kva_rng_below(&rng, (uint64_t)n);
}

/* Small whole numbers: exact in f16. */
static float value(int32_t pos, int c, int i, int kind)
{
    return (float)((pos * 13 + c * 5 + i * 3 + kind * 1000) % 2039);
}

/* ---- the model ---- */

static int live_of(const struct list *l)
{
    int n = 0;

    for (int j = 0; j < l->n; j++)
        n += l->e[j].live;
    return n;
}

static int by_pos(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    return (x->pos > y->pos) - (x->pos < y->pos);
}

/* Live positions ascending; returns how many. */
static int ranks_of(const struct list *l, int32_t *pos)
{
    struct entry e[MOST];
    int n = 0;

    memcpy(e, l->e, (size_t)l->n * sizeof *e);
    if (!l->sorted)
        qsort(e, (size_t)l->n, sizeof *e, by_pos);
    for (int j = 0; j < l->n; j++)
        if (e[j].live)
            pos[n++] = e[j].pos;
    return n;
}

static size_t pages(const struct model *m)
{
    size_t n = 0;

    for (int c = 0; c < heads; c++)
        n += (size_t)(m->list[c].n + P - 1) / P;
    return n;
}

static size_t tables(const struct model *m)
{
    size_t most = 8;

    for (int c = 0; c < heads; c++)
        if ((size_t)(m->list[c].n + 8 * P - 1) / (8 * P) * 8 > most)
            most = (size_t)(m->list[c].n + 8 * P - 1) / (8 * P) * 8;
    return most;
}

static uint64_t meta(const struct twin *t)
{
    size_t per_page = P * 4 + (t->mode == KVA_KV_MASK ? 4 : 0);

    return pages(&t->m) * per_page + (uint64_t)heads * (t->m.table_cap + 1) * 4;
}

/* After an operation that may have taken pages. */
static void grew(struct twin *t)
{
    struct model *m = &t->m;
    size_t used = pages(m);
    uint64_t now;

    if (used > m->top)
        m->top = used;
    if ((m->top * page_bytes + chunk - 1) / chunk * chunk > m->committed)
        m->committed = (m->top * page_bytes + chunk - 1) / chunk * chunk;
    if (tables(m) > m->table_cap)
        m->table_cap = tables(m);
    now = used * page_bytes + meta(t);
    if (now > m->peak)
        m->peak = now;
}

static int by_value(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

static bool is_listed(const int32_t *pos, int n, int32_t p)
{
    return bsearch(&p, pos, (size_t)n, sizeof p, by_value) != NULL;
}

/* Entries of l whose position is not in the list are masked or leave. */
static void model_keep(struct model *m, struct list *l, const int32_t *pos, int n,
                       enum kva_kv_mode mode)
{
    int to = 0;

    for (int j = 0; j < l->n; j++) {
        bool stays = l->e[j].live && is_listed(pos, n, l->e[j].pos);

        if (mode == KVA_KV_MASK)
            l->e[j].live = stays;
        else if (stays) {
            m->copied += to != j ? row_bytes : 0;
            l->e[to++] = l->e[j];
        }
    }
    if (mode != KVA_KV_MASK)
        l->n = to;
}

static void model_replace(struct model *m, struct list *l, const int32_t *pos, int n,
                          enum kva_kv_mode mode)
{
    int left = l->n - n;

    if (mode == KVA_KV_MASK) {
        for (int j = 0; j < l->n; j++)
            l->e[j].live = l->e[j].live && !is_listed(pos, n, l->e[j].pos);
        return;
    }
    for (int hole = 0; hole < left; hole++) {
        int newest = -1;

        if (!is_listed(pos, n, l->e[hole].pos))
            continue;
        for (int j = left; j < l->n; j++)
            if (!is_listed(pos, n, l->e[j].pos) && l->e[j].live &&
                (newest < 0 || l->e[j].pos > l->e[newest].pos))
                newest = j;
        assert_true(newest >= 0);
        l->e[hole] = l->e[newest];
        l->e[newest].live = false;
        l->sorted = false;
        m->copied += row_bytes;
    }
    l->n = left;
}

static void model_rewind(struct model *m, struct list *l, int32_t pos)
{
    int to = 0;

    for (int j = 0; j < l->n; j++)
        if (l->e[j].pos < pos) {
            m->copied += to != j ? row_bytes : 0;
            l->e[to++] = l->e[j];
        }
    l->n = to;
    if (to == 0)
        l->sorted = true;
}

/* ---- comparison ---- */

static void same_rows(const struct twin *t, int c, const int32_t *pos, int n)
{
    static float k[MOST * WIDE], v[MOST * WIDE];
    int dims[2] = {shape.dim_k, shape.dim_v};

    assert_int_equal(
        kva_kvstore_gather(t->store, c / shape.kv_heads, c % shape.kv_heads, k, v, NULL),
        KVA_OK);
    for (int kind = 0; kind < 2; kind++) {
        const float *x = kind ? v : k;
        int dim = dims[kind], step = dim > 16 ? dim - 1 : 1;

        for (int j = 0; j < n; j++)
            for (int i = 0; i < dim; i += step)
                assert_true(x[j * dim + i] == value(pos[j], c, i, kind));
    }
}

/* The keys of all heads of a layer at once, from the middle on. */
static void same_middle(const struct twin *t, int layer)
{
    static float k[HEADS * MOST * WIDE];
    static int32_t pos[MOST];
    int first[HEADS];
    size_t off[HEADS + 1] = {0};

    for (int h = 0; h < shape.kv_heads; h++) {
        int n = kva_kvstore_live(t->store, layer, h);

        first[h] = n / 3;
        off[h + 1] = off[h] + (size_t)(n - first[h] - n / 5);
    }
    assert_int_equal(kva_kvstore_gather_layer(t->store, layer, first, off, k, NULL, NULL),
                     KVA_OK);
    for (int h = 0; h < shape.kv_heads; h++) {
        int c = layer * shape.kv_heads + h;

        (void)ranks_of(&t->m.list[c], pos);
        for (size_t j = off[h]; j < off[h + 1]; j++)
            assert_true(k[j * (size_t)shape.dim_k] ==
                        value(pos[(size_t)first[h] + j - off[h]], c, 0, 0));
    }
}

static void same_head(const struct twin *t, int c, bool rows)
{
    const struct list *l = &t->m.list[c];
    int layer = c / shape.kv_heads, head = c % shape.kv_heads;
    int32_t want[MOST], got[MOST];
    struct kva_kv_view view;
    int n = ranks_of(l, want);

    kva_kvstore_view(t->store, layer, &view);
    assert_int_equal(view.len[head], l->n);
    assert_int_equal(view.sorted[head], l->sorted);
    for (int j = 0; j < l->n; j++) {
        int32_t page = view.table[head * view.table_cap + j / P];

        assert_int_equal(view.pos[page * P + j % P], l->e[j].pos);
        if (t->mode == KVA_KV_MASK)
            assert_int_equal(view.live[page] >> (j % P) & 1, l->e[j].live);
    }
    assert_int_equal(kva_kvstore_live(t->store, layer, head), n);
    kva_kvstore_positions(t->store, layer, head, got);
    assert_memory_equal(got, want, (size_t)n * sizeof *got);
    if (rows)
        same_rows(t, c, want, n);
}

static void same_bytes(const struct twin *t)
{
    struct kva_kv_bytes b;
    uint64_t live = 0, held = 0;

    for (int c = 0; c < heads; c++) {
        live += (uint64_t)live_of(&t->m.list[c]);
        held += (uint64_t)t->m.list[c].n;
    }
    kva_kvstore_bytes(t->store, &b);
    assert_int_equal(b.row_bytes, row_bytes);
    assert_int_equal(b.entries_kept, live);
    assert_int_equal(b.entries_masked, held - live);
    assert_int_equal(b.live_bytes, live * row_bytes);
    assert_int_equal(b.alloc_bytes, pages(&t->m) * page_bytes);
    assert_int_equal(b.meta_bytes, meta(t));
    assert_int_equal(b.committed_bytes, t->m.committed);
    assert_int_equal(b.peak_bytes, t->m.peak);
    assert_int_equal(b.copied_bytes, t->m.copied);
    assert_true(b.alloc_bytes <= t->m.cap * page_bytes);
}

static void same(const struct twin *t, bool thorough)
{
    struct kva_error err = {0};
    int one = below(heads);

    for (int c = 0; c < heads; c++)
        same_head(t, c, thorough || c == one);
    if (one % shape.kv_heads == 0)
        same_middle(t, one / shape.kv_heads);
    same_bytes(t);
    if (thorough && kva_kvstore_check(t->store, &err) != KVA_OK)
        fail_msg("%s", err.text);
}

/* ---- operations on both ---- */

static void op_append(struct twin *t)
{
    static float k[TOKENS * HEADS * WIDE], v[TOKENS * HEADS * WIDE];
    int32_t pos[TOKENS];
    int tokens = 1 + below(below(3) ? 6 : TOKENS), h = shape.kv_heads;
    int only =
        below(8) ? -1 : below(shape.layers); /* one layer ahead: ragged over layers */
    int dk = shape.dim_k, dv = shape.dim_v;

    for (int i = 0; i < tokens; i++)
        pos[i] = next_pos += 1 + (below(50) ? below(5) == 0 : below(1 << 20));
    for (int l = 0; l < shape.layers; l++) {
        bool fits = true;

        if (only >= 0 && l != only)
            continue;
        for (int w = 0; w < 2; w++) {
            size_t more = 0;

            for (int c = l * h; c < (l + 1) * h; c++)
                more += (size_t)((t[w].m.list[c].n + tokens + P - 1) / P -
                                 (t[w].m.list[c].n + P - 1) / P);
            fits = fits && pages(&t[w].m) + more <= t[w].m.cap;
        }
        for (int i = 0; i < tokens; i++)
            for (int c = 0; c < h; c++) {
                for (int d = 0; d < dk; d++)
                    k[(i * h + c) * dk + d] = value(pos[i], l * h + c, d, 0);
                for (int d = 0; d < dv; d++)
                    v[(i * h + c) * dv + d] = value(pos[i], l * h + c, d, 1);
            }
        for (int w = 0; w < 2; w++) {
            size_t more = 0;
            enum kva_status rc, want;

            for (int c = l * h; c < (l + 1) * h; c++)
                more += (size_t)((t[w].m.list[c].n + tokens + P - 1) / P -
                                 (t[w].m.list[c].n + P - 1) / P);
            want = pages(&t[w].m) + more <= t[w].m.cap ? KVA_OK : KVA_EBUDGET;
            if (want == KVA_OK && !fits)
                continue; /* the other one is full: this one stays beside it */
            rc = kva_kvstore_append(t[w].store, l, k, h * dk, v, h * dv, pos, tokens,
                                    NULL);
            assert_int_equal(rc, want);
            refusals += rc == KVA_EBUDGET;
            for (int c = l * h; rc == KVA_OK && c < (l + 1) * h; c++) {
                struct list *list = &t[w].m.list[c];

                assert_true(list->n + tokens <= MOST);
                for (int i = 0; i < tokens; i++)
                    list->e[list->n++] = (struct entry){pos[i], true};
            }
            grew(&t[w]);
        }
    }
}

/* Random ranks of every KV head, ascending. least: as in kva_kvstore_keep. */
static struct kva_keep random_lists(const struct twin *t, int most_of_20, bool victims)
{
    static int32_t rank[HEADS * MOST];
    static size_t off[HEADS + 1];
    struct kva_keep keep = {shape.layers, shape.kv_heads, rank, off};
    size_t n = 0;

    for (int c = 0; c < heads; c++) {
        int live = live_of(&t->m.list[c]);
        int odds = below(4) ? below(most_of_20 + 1) : victims ? 0 : 20;
        size_t first = n;

        off[c] = n;
        for (int j = 0; j < live; j++)
            if (below(20) < odds)
                rank[n++] = j;
        if (live && !victims && n == first)
            rank[n++] = below(live);
        if (live && victims && n - first == (size_t)live)
            n--;
    }
    off[heads] = n;
    return keep;
}

static int listed(const struct twin *t, const struct kva_keep *keep, int c, int32_t *pos)
{
    int32_t all[MOST];
    int n = (int)(keep->off[c + 1] - keep->off[c]);

    ranks_of(&t->m.list[c], all);
    for (int i = 0; i < n; i++)
        pos[i] = all[keep->rank[keep->off[c] + (size_t)i]];
    return n;
}

static void op_keep(struct twin *t)
{
    struct kva_keep keep = random_lists(t, 20, false);
    int32_t pos[MOST];

    for (int w = 0; w < 2; w++) {
        assert_int_equal(kva_kvstore_keep(t[w].store, &keep, NULL), KVA_OK);
        for (int c = 0; c < heads; c++) {
            int n = listed(&t[w], &keep, c, pos);

            model_keep(&t[w].m, &t[w].m.list[c], pos, n, t[w].mode);
        }
    }
}

static void op_replace(struct twin *t)
{
    struct kva_keep victims = random_lists(t, 3, true);
    int32_t pos[MOST];

    for (int w = 0; w < 2; w++) {
        assert_int_equal(kva_kvstore_replace(t[w].store, &victims, NULL), KVA_OK);
        for (int c = 0; c < heads; c++) {
            int n = listed(&t[w], &victims, c, pos);

            model_replace(&t[w].m, &t[w].m.list[c], pos, n, t[w].mode);
        }
    }
}

static void op_rewind(struct twin *t)
{
    int32_t pos = next_pos + 1 - below(below(10) ? 20 : next_pos + 2);

    for (int w = 0; w < 2; w++) {
        assert_int_equal(kva_kvstore_rewind(t[w].store, pos, NULL), KVA_OK);
        for (int c = 0; c < heads; c++)
            model_rewind(&t[w].m, &t[w].m.list[c], pos);
    }
    next_pos = pos > 0 ? pos - 1 : 0;
}

static void op_trim(struct twin *t)
{
    for (int w = 0; w < 2; w++) {
        struct model *m = &t[w].m;
        size_t need = (pages(m) * page_bytes + chunk - 1) / chunk * chunk;
        struct kva_kv_bytes b;

        assert_int_equal(kva_kvstore_trim(t[w].store, NULL), KVA_OK);
        if (need < m->committed) {
            m->committed = need;
            if (m->top > need / page_bytes)
                m->top = need / page_bytes;
        }
        m->table_cap = tables(m);
        /* how many pages moved depends on their ids, which the model does not know */
        kva_kvstore_bytes(t[w].store, &b);
        assert_int_equal((b.copied_bytes - m->copied) % page_bytes, 0);
        assert_true(b.copied_bytes - m->copied <= b.alloc_bytes);
        moved_pages += (b.copied_bytes - m->copied) / page_bytes;
        m->copied = b.copied_bytes;
    }
}

/* One store is replaced by a copy of itself or of the other. */
static void op_fork(struct twin *t)
{
    struct twin *to = &t[below(2)], *from = below(2) ? to : &t[to == t];
    struct kva_keep keep = random_lists(t, 20, false);
    bool all = below(4) == 0;
    struct kva_kvstore *copy = NULL;
    struct twin now = {NULL, {.cap = to->m.cap, .table_cap = 8}, to->mode};
    int32_t pos[MOST];
    size_t need = 0, cap;

    for (int c = 0; c < heads; c++) {
        struct list *l = &now.m.list[c];
        const struct list *old = &from->m.list[c];
        int n = all ? ranks_of(old, pos) : listed(from, &keep, c, pos);

        *l = *old;
        model_keep(&now.m, l, pos, n, now.mode);
        need += (size_t)(l->n + P - 1) / P;
        l->sorted = l->n == 0 || old->sorted;
    }
    now.m.copied = 0;
    for (int c = 0; c < heads; c++)
        now.m.copied += (uint64_t)now.m.list[c].n * row_bytes;
    cap = below(8) ? to->m.cap : need ? need - (size_t)below(2) : 1;
    if (cap < need || cap == 0) {
        assert_int_equal(
            kva_kvstore_fork(from->store, all ? NULL : &keep, cap, to->mode, &copy, NULL),
            cap < need ? KVA_EBUDGET : KVA_EINVALID);
        assert_null(copy);
        return;
    }
    assert_int_equal(kva_kvstore_fork(from->store, all ? NULL : &keep, cap, to->mode,
                                      &now.store, NULL),
                     KVA_OK);
    now.m.cap = cap;
    grew(&now);
    same(&now, true);
    same(from, false);
    /* the twins must go on with the same live sets: both follow the list */
    if (all && cap == to->m.cap) {
        kva_kvstore_free(to->store);
        *to = now;
    } else {
        kva_kvstore_free(now.store);
    }
}

/* ---- episodes ---- */

static void episode_new(struct twin *t)
{
    static const int dims[][2] = {{3, 2}, {8, 8}, {5, 1}, {WIDE, 1024}};
    int d = below(4), cap;

    shape.layers = 1 + below(2);
    shape.kv_heads = 1 + below(HEADS / 2);
    shape.dim_k = dims[d][0];
    shape.dim_v = dims[d][1];
    shape.type = below(2) ? KVA_F16 : KVA_F32;
    heads = shape.layers * shape.kv_heads;
    row_bytes = (size_t)(shape.dim_k + shape.dim_v) * (shape.type == KVA_F16 ? 2 : 4);
    page_bytes = row_bytes * P;
    next_pos = 0;
    cap = 6 + below(heads * 7);

    for (int w = 0; w < 2; w++) {
        struct twin fresh = {NULL, {.table_cap = 8}, w ? KVA_KV_MASK : KVA_KV_PHYSICAL};

        /* at most 67 pages, less than the model has room for in one KV head */
        fresh.m.cap = (size_t)(w ? cap + below(20) : cap);
        for (int c = 0; c < HEADS; c++)
            fresh.m.list[c].sorted = true;
        assert_int_equal(
            kva_kvstore_new(NULL, &shape, fresh.m.cap, fresh.mode, &fresh.store, NULL),
            KVA_OK);
        t[w] = fresh;
        grew(&t[w]);
        same(&t[w], true);
    }
}

static void random_operations_agree_with_plain_lists(void **state)
{
    static struct twin t[2];
    const char *given = getenv("KVAUDIT_FUZZ_SEED");
    int64_t seed = 20240607;
    uint64_t count[6] = {0};

    (void)state;
    if (given && !kva_parse_i64(given, &seed))
        fail_msg("KVAUDIT_FUZZ_SEED is not a number");
    rng.x = (uint64_t)seed;
    print_message("seed %lld\n", (long long)seed);
    for (int op = 0; op < OPS; op++) {
        int what = below(100);

        if (op % EPISODE == 0)
            episode_new(t);
        what = what < 45   ? 0
               : what < 57 ? 1
               : what < 65 ? 2
               : what < 85 ? 3
               : what < 93 ? 4
                           : 5;
        count[what]++;
        switch (what) {
        case 0:
            op_append(t);
            break;
        case 1:
            op_keep(t);
            break;
        case 2:
            if (page_bytes < 65536 || below(4) == 0) /* copies of wide stores are slow */
                op_fork(t);
            break;
        case 3:
            op_replace(t);
            break;
        case 4:
            op_rewind(t);
            break;
        default:
            op_trim(t);
        }
        for (int w = 0; w < 2; w++)
            same(&t[w], op % 16 == 0);
        for (int c = 0; c < heads; c++)
            unsorted_heads += !t[0].m.list[c].sorted;
        assert_true(kva_kvstore_kept_fnv(t[0].store) == kva_kvstore_kept_fnv(t[1].store));
        if (op % EPISODE == EPISODE - 1) {
            kva_kvstore_free(t[0].store);
            kva_kvstore_free(t[1].store);
        }
    }
    print_message(
        "append %llu, keep %llu, fork %llu, replace %llu, rewind %llu, trim %llu\n",
        (unsigned long long)count[0], (unsigned long long)count[1],
        (unsigned long long)count[2], (unsigned long long)count[3],
        (unsigned long long)count[4], (unsigned long long)count[5]);
    print_message(
        "%lu appends over the cap, %lu pages moved by trim, %lu unsorted heads seen\n",
        refusals, moved_pages, unsorted_heads);
    assert_true(refusals > 1000 && moved_pages > 100 && unsorted_heads > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_agree_with_plain_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
