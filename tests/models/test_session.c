/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_session.c - forks, rewinds, query windows, and removed entries against masked
 * ones. */
#include "tests/models/engine_test.h"

enum { L = 3, H = 2, C = L * H };

static const char *const numerics[] = {"ref", "f32"};

/* A random set of `n` ranks per KV head: rank 0 (the sink) in some heads, out in others.
 */
struct keep_set {
    int32_t rank[C * 64];
    size_t off[C + 1];
    struct kva_keep keep;
};

static void random_keep(struct keep_set *k, uint64_t seed, int live)
{
    struct kva_rng r = {.x = seed};
    size_t n = 0;

    k->off[0] = 0;
    for (int c = 0; c < C; c++) {
        size_t from = n;

        for (int i = 0; i < live; i++)
            if (kva_rng_below(&r, 100) < 40)
                k->rank[n++] = i;
        if (n == from)
            k->rank[n++] = (int32_t)kva_rng_below(&r, (uint64_t)live);
        k->off[c + 1] = n;
    }
    k->keep =
        (struct kva_keep){.layers = L, .kv_heads = H, .rank = k->rank, .off = k->off};
}

static void keep_all(struct keep_set *k, int live)
{
    size_t n = 0;

    k->off[0] = 0;
    for (int c = 0; c < C; c++) {
        for (int i = 0; i < live; i++)
            k->rank[n++] = i;
        k->off[c + 1] = n;
    }
    k->keep =
        (struct kva_keep){.layers = L, .kv_heads = H, .rank = k->rank, .off = k->off};
}

static struct kva_session *fork_session(const struct kva_session *s,
                                        const struct kva_keep *keep,
                                        enum kva_kv_mode mode, int q_window)
{
    struct kva_session *f = NULL;

    OK(kva_session_fork(
        s, keep,
        &(struct kva_session_opts){
            .kv = KVA_F16, .page_cap = 256, .mode = mode, .q_window = q_window},
        &f, err));
    return f;
}

/* The audit's claim (kernels.md 7): removing entries equals masking them. */
static void removed_and_masked_entries_give_the_same_logits(void **state)
{
    enum { MORE = 12 };
    int32_t ids[TINY_TOKENS], more[MORE];

    (void)state;
    tiny_ids(ids);
    for (int i = 0; i < MORE; i++)
        more[i] = tiny_token(30 + i);
    for (int k = 0; k < 2; k++) {
        struct kva_model *m = open_model("builtin:tiny-llama", numerics[k]);
        struct kva_session *s = open_session(m, KVA_F16, 0);
        float *phys = new_logits(m, MORE), *mask = new_logits(m, MORE),
              *dense = new_logits(m, MORE);
        double changed = 0;

        feed(m, s, ids, TINY_TOKENS, 24, NULL);
        for (uint64_t seed = 1; seed <= 20; seed++) {
            struct kva_session *p, *q, *d;
            struct keep_set keep;

            random_keep(&keep, seed, TINY_TOKENS);
            p = fork_session(s, &keep.keep, KVA_KV_PHYSICAL, 0);
            q = fork_session(s, &keep.keep, KVA_KV_MASK, 0);
            d = fork_session(s, NULL, KVA_KV_PHYSICAL, 0);
            assert_true(kva_kvstore_kept_fnv(kva_session_store(p)) ==
                        kva_kvstore_kept_fnv(kva_session_store(q)));
            feed(m, p, more, MORE, 5, phys);
            feed(m, q, more, MORE, 5, mask);
            feed(m, d, more, MORE, 5, dense);
            if (k == 0)
                assert_memory_equal(phys, mask, sizeof *phys * MORE * TINY_VOCAB);
            else
                assert_true(gap(phys, mask, (size_t)MORE * TINY_VOCAB) <= 2e-4);
            changed += gap(phys, dense, (size_t)MORE * TINY_VOCAB);
            kva_session_free(p);
            kva_session_free(q);
            kva_session_free(d);
        }
        assert_true(changed / 20 > 0.01); /* the sets do matter */
        free(phys);
        free(mask);
        free(dense);
        kva_session_free(s);
        kva_model_close(m);
    }
}

static void in_place_eviction_equals_the_fork(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *s = open_session(m, KVA_F16, 0), *f;
    int32_t ids[TINY_TOKENS];
    struct keep_set keep;
    float a[4 * TINY_VOCAB], b[4 * TINY_VOCAB];

    (void)state;
    tiny_ids(ids);
    feed(m, s, ids, TINY_TOKENS, 24, NULL);
    random_keep(&keep, 99, TINY_TOKENS);
    f = fork_session(s, &keep.keep, KVA_KV_PHYSICAL, 0);
    OK(kva_kvstore_keep(kva_session_store(s), &keep.keep, err));
    feed(m, s, ids, 4, 2, a);
    feed(m, f, ids, 4, 2, b);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(kva_session_seen(s),
                     TINY_TOKENS + 4); /* positions go on, nothing restarts */
    kva_session_free(s);
    kva_session_free(f);
    kva_model_close(m);
}

static void keeping_everything_is_dense_bit_for_bit(void **state)
{
    int32_t ids[TINY_TOKENS];

    (void)state;
    tiny_ids(ids);
    for (int k = 0; k < 2; k++)
        for (int mode = 0; mode < 2; mode++) {
            struct kva_model *m = open_model("builtin:tiny-llama", numerics[k]);
            struct kva_session *s = open_session(m, KVA_F16, 0), *f;
            struct keep_set keep;
            float a[6 * TINY_VOCAB], b[6 * TINY_VOCAB];

            feed(m, s, ids, TINY_TOKENS, 7, NULL);
            keep_all(&keep, TINY_TOKENS);
            f = fork_session(s, &keep.keep, mode ? KVA_KV_MASK : KVA_KV_PHYSICAL, 0);
            feed(m, s, ids, 6, 4, a);
            feed(m, f, ids, 6, 4, b);
            assert_memory_equal(a, b, sizeof a);
            kva_session_free(s);
            kva_session_free(f);
            kva_model_close(m);
        }
}

/* Question A, back to the context, question B: as if A had never been asked. */
static void a_question_after_a_rewind_equals_a_fresh_one(void **state)
{
    int32_t ids[TINY_TOKENS], a[9], b[9];

    (void)state;
    tiny_ids(ids);
    for (int i = 0; i < 9; i++) {
        a[i] = tiny_token(50 + i);
        b[i] = tiny_token(80 + i);
    }
    for (int k = 0; k < 2; k++) {
        struct kva_model *m = open_model("builtin:tiny-llama", numerics[k]);
        struct kva_session *s = open_session(m, KVA_F16, 0), *fresh, *used;
        float want[9 * TINY_VOCAB], have[9 * TINY_VOCAB];
        struct keep_set keep;

        feed(m, s, ids, TINY_TOKENS, 24, NULL);
        random_keep(&keep, 7, TINY_TOKENS);
        fresh = fork_session(s, &keep.keep, KVA_KV_PHYSICAL, 0);
        used = fork_session(s, &keep.keep, KVA_KV_PHYSICAL, 0);
        feed(m, used, a, 9, 9, NULL);
        assert_int_equal(kva_session_seen(used), TINY_TOKENS + 9);
        OK(kva_session_rewind(used, TINY_TOKENS, err));
        assert_int_equal(kva_session_seen(used), TINY_TOKENS);
        feed(m, fresh, b, 9, 9, want);
        feed(m, used, b, 9, 9, have);
        assert_memory_equal(want, have, sizeof want);
        assert_int_equal(kva_session_rewind(used, TINY_TOKENS + 10, NULL), KVA_EINVALID);
        assert_int_equal(kva_session_rewind(used, -1, NULL), KVA_EINVALID);
        kva_session_free(s);
        kva_session_free(fresh);
        kva_session_free(used);
        kva_model_close(m);
    }
}

/* ---- the query window
 * ------------------------------------------------------------------------- */

static int window(struct kva_session *s, int layer, const float **q, const int32_t **pos)
{
    struct kva_decide_in in = {0};

    kva_session_decide_in(s, &in);
    assert_non_null(in.queries);
    assert_int_equal(in.heads, 4);
    assert_int_equal(in.head_dim, 16);
    assert_int_equal(in.v_dim, 16);
    assert_ptr_equal(in.store, kva_session_store(s));
    return in.queries(in.queries_ctx, layer, q, pos);
}

/* Window w after feeding n tokens in chunks equals the tail of a window that holds
 * everything. */
static void the_window_holds_the_last_queries_whatever_the_chunks(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *all = open_session(m, KVA_F16, 64);
    static const int chunk[] = {1, 4, 5, 24}, size[] = {1, 3, 5, 16, 24, 40};
    int32_t ids[TINY_TOKENS];
    const float *q, *want;
    const int32_t *p, *want_p;

    (void)state;
    tiny_ids(ids);
    feed(m, all, ids, TINY_TOKENS, 24, NULL);
    for (int c = 0; c < 4; c++)
        for (int w = 0; w < 6; w++) {
            struct kva_session *s = open_session(m, KVA_F16, size[w]);
            int expect = size[w] < TINY_TOKENS ? size[w] : TINY_TOKENS;

            feed(m, s, ids, TINY_TOKENS, chunk[c], NULL);
            for (int l = 0; l < L; l++) {
                assert_int_equal(window(all, l, &want, &want_p), TINY_TOKENS);
                assert_int_equal(window(s, l, &q, &p), expect);
                assert_memory_equal(q, want + (TINY_TOKENS - expect) * 64,
                                    (size_t)expect * 64 * sizeof *q);
                for (int i = 0; i < expect; i++)
                    assert_int_equal(p[i], TINY_TOKENS - expect + i);
            }
            assert_int_equal(kva_session_window_bytes(s), L * size[w] * (64 * 4 + 4));
            kva_session_free(s);
        }
    kva_session_free(all);
    kva_model_close(m);
}

static void a_rewind_drops_later_queries_and_overwritten_ones_stay_gone(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *s = open_session(m, KVA_F16, 8), *f;
    int32_t ids[TINY_TOKENS];
    const float *q;
    const int32_t *p;

    (void)state;
    tiny_ids(ids);
    feed(m, s, ids, 20, 7, NULL);
    OK(kva_session_rewind(s, 17, err)); /* 12..19 were there: 12..16 remain */
    for (int l = 0; l < L; l++) {
        assert_int_equal(window(s, l, &q, &p), 5);
        for (int i = 0; i < 5; i++)
            assert_int_equal(p[i], 12 + i);
    }
    feed(m, s, ids, 2, 1, NULL);
    assert_int_equal(window(s, 1, &q, &p), 7);
    assert_int_equal(p[6], 18);
    f = fork_session(s, NULL, KVA_KV_PHYSICAL,
                     3); /* a copy with a smaller window: the newest */
    assert_int_equal(kva_session_seen(f), 19);
    assert_int_equal(window(f, 2, &q, &p), 3);
    assert_int_equal(p[0], 16);
    assert_int_equal(p[2], 18);
    kva_session_free(f);
    f = fork_session(s, NULL, KVA_KV_PHYSICAL, 0);
    assert_int_equal(kva_session_window_bytes(f), 0);
    kva_session_free(f);
    OK(kva_session_rewind(s, 2, err));
    assert_int_equal(window(s, 0, &q, &p), 0);
    kva_session_free(s);
    kva_model_close(m);
}

/* Post-RoPE: the same token at positions 0 and 1 gives one vector, rotated by one radian
 * in pair 0. */
static void window_queries_are_rotated(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "ref");
    struct kva_session *s = open_session(m, KVA_F32, 2);
    static const int32_t same[2] = {42, 42};
    const float *q;
    const int32_t *p;
    double n0 = 0, n1 = 0, d = 0;

    (void)state;
    feed(m, s, same, 2, 2, NULL);
    assert_int_equal(window(s, 0, &q, &p), 2);
    for (int i = 0; i < 64; i++) {
        n0 += (double)q[i] * (double)q[i];
        n1 += (double)q[64 + i] * (double)q[64 + i];
        d += fabs((double)q[i] - (double)q[64 + i]);
    }
    assert_true(fabs(n0 - n1) < 1e-5 * n0);
    assert_true(d > 0.1);
    {
        double a = (double)q[0], b = (double)q[8], c = cos(1.0), e = sin(1.0);

        assert_true(fabs((double)q[64] - (a * c - b * e)) < 1e-5);
        assert_true(fabs((double)q[64 + 8] - (b * c + a * e)) < 1e-5);
    }
    kva_session_free(s);
    kva_model_close(m);
}

static void a_session_in_ref_stores_f32(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "ref");
    struct kva_session *s = open_session(m, KVA_F16, 0), *f;

    (void)state;
    assert_int_equal(kva_kvstore_shape(kva_session_store(s))->type, KVA_F32);
    f = fork_session(s, NULL, KVA_KV_PHYSICAL, 0);
    assert_int_equal(kva_kvstore_shape(kva_session_store(f))->type, KVA_F32);
    kva_session_free(f);
    kva_session_free(s);
    kva_model_close(m);
    m = open_model("builtin:tiny-llama", "f32");
    s = NULL;
    assert_int_equal(
        kva_session_new(m, &(struct kva_session_opts){.kv = KVA_Q8_0, .page_cap = 1}, &s,
                        NULL),
        KVA_EINVALID);
    assert_int_equal(
        kva_session_new(m, &(struct kva_session_opts){.page_cap = 1, .q_window = -1}, &s,
                        NULL),
        KVA_EINVALID);
    assert_null(s);
    kva_model_close(m);
}

/* Every allocation of a session, a fork and a step fails once: KVA_ENOMEM, nothing half
 * built. */
static void out_of_memory_is_a_result(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session_opts o = {.kv = KVA_F16, .page_cap = 64, .q_window = 4};
    int32_t ids[TINY_TOKENS];
    long n;

    (void)state;
    tiny_ids(ids);
    for (n = 1; n < 200; n++) {
        struct kva_session *s = NULL, *f = NULL;
        struct kva_error e = {0};
        enum kva_status rc;

        kva_alloc_fail_at(n);
        rc = kva_session_new(m, &o, &s, &e);
        if (rc == KVA_OK)
            rc = kva_prefill(m, s, ids, TINY_TOKENS, 0, NULL, &e);
        if (rc == KVA_OK)
            rc = kva_session_fork(s, NULL, &o, &f, &e);
        kva_alloc_fail_at(0);
        kva_session_free(s);
        kva_session_free(f);
        if (rc == KVA_OK)
            break;
        assert_int_equal(rc, KVA_ENOMEM);
    }
    assert_true(n > 5 && n < 200);
    kva_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(removed_and_masked_entries_give_the_same_logits),
        cmocka_unit_test(in_place_eviction_equals_the_fork),
        cmocka_unit_test(keeping_everything_is_dense_bit_for_bit),
        cmocka_unit_test(a_question_after_a_rewind_equals_a_fresh_one),
        cmocka_unit_test(the_window_holds_the_last_queries_whatever_the_chunks),
        cmocka_unit_test(a_rewind_drops_later_queries_and_overwritten_ones_stay_gone),
        cmocka_unit_test(window_queries_are_rotated),
        cmocka_unit_test(a_session_in_ref_stores_f32),
        cmocka_unit_test(out_of_memory_is_a_result),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
