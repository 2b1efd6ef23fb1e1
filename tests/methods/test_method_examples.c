/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_method_examples.c - whole decisions on a real store: worked examples E13 and E23,
 * and the property tests of methods.md 12 that concern one decision. */
#include "tests/methods/methods_test.h"

/* ---- block schedules
 * -------------------------------------------------------------------------- */

struct trace {
    int block[8], peak[8], held[8], n;
};

/* Feeds P tokens in blocks of B and cuts to N entries a KV head after each. */
static struct fixture run_block(const char *text, int prompt, int block, int budget,
                                struct trace *t)
{
    struct fixture f = fixture_new(2, 2, 1, 8, 1, 64, false, 77);
    struct kva_kvshape shape = {2, 2, 8, 8, KVA_F32};
    struct kva_method m = parse(text, BLOCK128);
    struct kva_rng r = {78};

    kva_kvstore_free(f.store);
    assert_ok(
        kva_kvstore_new(f.ops, &shape, 100, KVA_KV_PHYSICAL, &f.store, &test_error));
    *t = (struct trace){.n = 0};
    for (int seen = 0; seen < prompt;) {
        int len = prompt - seen < block ? prompt - seen : block;
        struct kva_decide_in in;

        fixture_append(&f, &r, seen, len);
        seen += len;
        f.tokens = seen;
        for (int i = 0; i < f.nq; i++)
            f.q_pos[i] = seen - f.nq + i;
        t->block[t->n] = len;
        t->peak[t->n] = kva_kvstore_live(f.store, 1, 1);
        in = fixture_in(&f, BLOCK128);
        in.block_len = len;
        if (t->peak[t->n] > budget) {
            struct kva_scores sc;
            struct kva_decision d;

            assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
            assert_ok(kva_method_select(&m, &sc, NULL, (uint64_t)(4 * budget), &d,
                                        &test_error));
            assert_ok(kva_kvstore_keep(f.store, &d.keep, &test_error));
            kva_decision_release(&d);
            kva_scores_release(&sc);
        }
        t->held[t->n++] = kva_kvstore_live(f.store, 1, 1);
    }
    return f;
}

static void check_trace(const char *text, int budget, const int want[3][3])
{
    struct trace t;
    struct fixture f = run_block(text, 300, 128, budget, &t);

    assert_int_equal(t.n, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(t.block[i], want[i][0]);
        assert_int_equal(t.peak[i], want[i][1]);
        assert_int_equal(t.held[i], want[i][2]);
    }
    /* E23: positions stay absolute and ascend; the next token is 300 whatever is held */
    assert_int_equal(f.tokens, 300);
    for (int c = 0; c < 4; c++) {
        struct cell cell = cell_read(&f, c / 2, c % 2);

        assert_int_equal(cell.n, budget);
        for (int j = 1; j < cell.n; j++)
            assert_true(cell.pos[j] > cell.pos[j - 1]);
        assert_true(cell.pos[cell.n - 1] < 300);
        cell_release(&cell);
    }
    fixture_release(&f);
}

static void blocks_of_E13_peak_and_hold_what_it_says(void **state)
{
    const int n200[3][3] = {{128, 128, 128}, {128, 256, 200}, {44, 244, 200}};
    const int n100[3][3] = {{128, 128, 100}, {128, 228, 100}, {44, 144, 100}};
    const char *const methods[] = {"streaming", "random", "keydiff",
                                   "valuediff", "tova",   "snapkv"};

    (void)state;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        check_trace(methods[i], 200, n200);
        check_trace(methods[i], 100, n100);
    }
}

static void streaming_in_blocks_ends_with_sinks_and_the_newest(void **state)
{
    struct trace t;
    struct fixture f = run_block("streaming", 300, 128, 100, &t);
    struct cell c = cell_read(&f, 0, 1);

    (void)state;
    for (int j = 0; j < 100; j++)
        assert_int_equal(c.pos[j], j < 4 ? j : 200 + j);
    cell_release(&c);
    fixture_release(&f);
}

/* With ragged KV heads every layer comes back to its own total at each boundary. */
static void adakv_in_blocks_keeps_layer_totals(void **state)
{
    struct trace t;
    struct fixture f = run_block("tova:recent=4+adakv", 300, 128, 100, &t);
    struct fixture g = run_block("random+adakv", 300, 128, 100, &t);

    (void)state;
    for (int l = 0; l < 2; l++) {
        assert_int_equal(
            kva_kvstore_live(f.store, l, 0) + kva_kvstore_live(f.store, l, 1), 200);
        assert_int_equal(
            kva_kvstore_live(g.store, l, 0) + kva_kvstore_live(g.store, l, 1), 200);
    }
    fixture_release(&f);
    fixture_release(&g);
}

/* ---- properties
 * ---------------------------------------------------------------------------------- */

static const char *const all_methods[] = {
    "streaming",
    "random",
    "knorm",
    "keydiff",
    "valuediff",
    "tova",
    "snapkv",
    "snapkv32",
    "snapkv+adakv",
    "snapkv+global",
    "tova+adakv",
    "valuediff+global:norm=z",
    "keydiff_raw",
    "manifoldkv:centroid_window=40",
    "valuediff_dir",
    "valuediff_norm",
    "valuediff_attn:window=20",
    "lagkv:lag=16,recursive=1",
    "cur",
    "cur:type=mean+adakv",
};
#define N_METHODS (sizeof all_methods / sizeof all_methods[0])

static void same_keep(const struct kva_decision *a, const struct kva_decision *b,
                      int cells)
{
    assert_memory_equal(a->keep.off, b->keep.off,
                        ((size_t)cells + 1) * sizeof *a->keep.off);
    assert_memory_equal(a->keep.rank, b->keep.rank,
                        a->keep.off[cells] * sizeof *a->keep.rank);
}

static struct kva_decision decide(struct fixture *f, const char *text,
                                  struct kva_schedule s, int block_len, uint64_t total)
{
    struct kva_method m = parse(text, s);
    struct kva_decide_in in = fixture_in(f, s);
    struct kva_scores sc;
    struct kva_decision d;

    in.block_len = block_len;
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_ok(kva_method_select(&m, &sc, NULL, total, &d, &test_error));
    kva_scores_release(&sc);
    return d;
}

/* tova differs by its default protection only, which is set here. */
static void one_block_that_holds_the_prompt_equals_one_shot(void **state)
{
    const int lengths[] = {150, 64, 20};

    (void)state;
    for (int i = 0; i < 3; i++) {
        int n = lengths[i];
        struct fixture f = fixture_new(2, 3, 2, 16, n, n < 64 ? n : 64, false, 12);

        for (size_t j = 0; j < N_METHODS; j++) {
            bool tova = strncmp(all_methods[j], "tova", 4) == 0;
            const char *text = tova ? "tova:protect_last=1+adakv" : all_methods[j];
            struct kva_decision a = decide(&f, text, ONESHOT, n, (uint64_t)n * 2);
            struct kva_decision b = decide(&f, text, BLOCK128, n, (uint64_t)n * 2);

            same_keep(&a, &b, 6);
            kva_decision_release(&a);
            kva_decision_release(&b);
        }
        fixture_release(&f);
    }
}

/* A decision reads the same arrays in both modes: a masked copy of a thinned cache
 * decides alike. */
static void mask_and_physical_decide_alike(void **state)
{
    struct fixture f = fixture_new(2, 3, 2, 16, 120, 40, false, 13), phys = f, mask = f;
    struct kva_decision first = decide(&f, "random+adakv", ONESHOT, 120, 400);
    size_t cap = 6 * 6;

    (void)state;
    assert_ok(kva_kvstore_fork(f.store, &first.keep, cap, KVA_KV_PHYSICAL, &phys.store,
                               &test_error));
    assert_ok(kva_kvstore_fork(f.store, &first.keep, cap, KVA_KV_MASK, &mask.store,
                               &test_error));
    for (size_t j = 0; j < N_METHODS; j++) {
        const char *text = strcmp(all_methods[j], "snapkv") == 0 ? "snapkv:window=40"
                           : strncmp(all_methods[j], "snapkv+", 7) == 0
                               ? "snapkv:window=20+global"
                               : all_methods[j];
        struct kva_decision a = decide(&phys, text, BLOCK128, 60, 200);
        struct kva_decision b = decide(&mask, text, BLOCK128, 60, 200);

        same_keep(&a, &b, 6);
        kva_decision_release(&a);
        kva_decision_release(&b);
    }
    kva_decision_release(&first);
    kva_kvstore_free(phys.store);
    kva_kvstore_free(mask.store);
    fixture_release(&f);
}

/* Swaps the KV heads 0 and 1 of a two-head, one-layer cache, with their queries. */
static struct fixture swapped(const struct fixture *f)
{
    struct fixture g = *f;
    struct kva_kvshape shape = {1, 2, f->dim, f->dim, KVA_F32};
    struct cell a = cell_read(f, 0, 0), b = cell_read(f, 0, 1);
    size_t dim = (size_t)f->dim, n = (size_t)f->tokens,
           half = (size_t)(f->heads / 2) * dim;
    float *k = kva_calloc(2 * n * dim, sizeof *k),
          *v = kva_calloc(2 * n * dim, sizeof *v);

    assert_ok(
        kva_kvstore_new(f->ops, &shape, 40, KVA_KV_PHYSICAL, &g.store, &test_error));
    for (size_t t = 0; t < n; t++) {
        memcpy(k + 2 * t * dim, b.k + t * dim, dim * sizeof *k);
        memcpy(k + (2 * t + 1) * dim, a.k + t * dim, dim * sizeof *k);
        memcpy(v + 2 * t * dim, b.v + t * dim, dim * sizeof *v);
        memcpy(v + (2 * t + 1) * dim, a.v + t * dim, dim * sizeof *v);
    }
    assert_ok(kva_kvstore_append(g.store, 0, k, 2 * f->dim, v, 2 * f->dim, a.pos,
                                 f->tokens, &test_error));
    g.q = kva_calloc((size_t)f->nq * 2 * half, sizeof *g.q);
    for (size_t i = 0; i < (size_t)f->nq; i++) {
        memcpy(g.q + 2 * i * half, f->q + (2 * i + 1) * half, half * sizeof *g.q);
        memcpy(g.q + (2 * i + 1) * half, f->q + 2 * i * half, half * sizeof *g.q);
    }
    free(k);
    free(v);
    cell_release(&a);
    cell_release(&b);
    return g;
}

static void permuting_kv_heads_permutes_decisions(void **state)
{
    struct fixture f = fixture_new(1, 2, 3, 16, 150, 64, false, 14), g = swapped(&f);

    (void)state;
    for (size_t j = 0; j < N_METHODS; j++) {
        struct kva_decision a, b;
        size_t n0, n1;

        /* random is keyed by the head on purpose; tova gives both heads the same scores,
         * so the tie between them goes to the lower head */
        if (strcmp(all_methods[j], "random") == 0 ||
            strcmp(all_methods[j], "tova+adakv") == 0)
            continue;
        a = decide(&f, all_methods[j], ONESHOT, 150, 150);
        b = decide(&g, all_methods[j], ONESHOT, 150, 150);
        n0 = a.keep.off[1];
        n1 = a.keep.off[2] - n0;
        assert_int_equal(b.keep.off[1], n1);
        assert_memory_equal(a.keep.rank, b.keep.rank + n1, n0 * sizeof *a.keep.rank);
        assert_memory_equal(a.keep.rank + n0, b.keep.rank, n1 * sizeof *a.keep.rank);
        kva_decision_release(&a);
        kva_decision_release(&b);
    }
    kva_kvstore_free(g.store);
    free(g.q);
    fixture_release(&f);
}

static void scoring_twice_gives_the_same_bits(void **state)
{
    struct fixture f = fixture_new(2, 3, 2, 16, 150, 64, true, 15);

    (void)state;
    for (size_t j = 0; j < N_METHODS; j++) {
        struct kva_scores a = score_of(&f, all_methods[j], BLOCK128);
        struct kva_scores b = score_of(&f, all_methods[j], BLOCK128);

        assert_memory_equal(a.s, b.s, a.off[6] * sizeof *a.s);
        kva_scores_release(&a);
        kva_scores_release(&b);
    }
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_E13_peak_and_hold_what_it_says),
        cmocka_unit_test(streaming_in_blocks_ends_with_sinks_and_the_newest),
        cmocka_unit_test(adakv_in_blocks_keeps_layer_totals),
        cmocka_unit_test(one_block_that_holds_the_prompt_equals_one_shot),
        cmocka_unit_test(mask_and_physical_decide_alike),
        cmocka_unit_test(permuting_kv_heads_permutes_decisions),
        cmocka_unit_test(scoring_twice_gives_the_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
