/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_rerotate.c - kept keys at contiguous positions (worked example E23, methods.md
 * 8.5). */
#include "tests/models/engine_test.h"

enum { N = 300, HELD = 100 };

static int32_t ids[N];

static struct kva_session *session(struct kva_model *m, enum kva_kv_mode mode, int window,
                                   enum kva_type kv)
{
    struct kva_session *s = NULL;

    for (int i = 0; i < N; i++)
        ids[i] = tiny_token(i);
    OK(kva_session_new(m,
                       &(struct kva_session_opts){
                           .kv = kv, .mode = mode, .page_cap = 16384, .q_window = window},
                       &s, err));
    return s;
}

/* Four sinks and the newest of n entries; `less` fewer in KV head 1. */
static struct kva_keep sinks_and_newest(const struct kva_model *m, int n, int held,
                                        int less)
{
    int c = m->arch.layers * m->arch.kv_heads;
    struct kva_keep keep = {.layers = m->arch.layers, .kv_heads = m->arch.kv_heads};

    keep.rank = calloc((size_t)(c * held), sizeof *keep.rank);
    keep.off = calloc((size_t)c + 1, sizeof *keep.off);
    for (int i = 0; i < c; i++) {
        int b = i % m->arch.kv_heads == 1 ? held - less : held;

        for (int j = 0; j < b; j++)
            keep.rank[keep.off[i] + (size_t)j] = j < 4 ? j : n - b + j;
        keep.off[i + 1] = keep.off[i] + (size_t)b;
    }
    return keep;
}

static float *keys_of(struct kva_session *s, int layer, int head)
{
    int n = kva_kvstore_live(s->store, layer, head);
    float *k = calloc((size_t)n * (size_t)s->m->arch.head_dim, sizeof *k);

    OK(kva_kvstore_gather(s->store, layer, head, k, NULL, err));
    return k;
}

static void evict(struct kva_model *m, struct kva_session *s, int less)
{
    struct kva_keep keep = sinks_and_newest(m, N, HELD, less);

    OK(kva_session_keep(s, &keep, err));
    kva_keep_release(&keep);
}

/* What sinks_and_newest leaves out, as victims whose holes the newest fill. */
static struct kva_keep middle(const struct kva_model *m)
{
    int c = m->arch.layers * m->arch.kv_heads;
    struct kva_keep v = {.layers = m->arch.layers, .kv_heads = m->arch.kv_heads};

    v.rank = calloc((size_t)(c * (N - HELD)), sizeof *v.rank);
    v.off = calloc((size_t)c + 1, sizeof *v.off);
    for (int i = 0; i < c; i++) {
        v.off[i + 1] = v.off[i] + (size_t)(N - HELD);
        for (int j = 0; j < N - HELD; j++)
            v.rank[v.off[i] + (size_t)j] = 4 + j;
    }
    return v;
}

/* Keys of the first layer depend on the token and its position alone: those of a session
 * that read nothing but the kept tokens. */
static void compare_with_fresh(bool holes)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *s = session(m, KVA_KV_PHYSICAL, 0, KVA_F32);
    struct kva_session *fresh = session(m, KVA_KV_PHYSICAL, 0, KVA_F32);
    struct kva_keep victims = holes ? middle(m) : (struct kva_keep){0};
    int32_t kept[HELD];

    for (int j = 0; j < HELD; j++)
        kept[j] = ids[j < 4 ? j : N - HELD + j];
    feed(m, s, ids, N, 64, NULL);
    if (holes)
        OK(kva_session_replace(s, &victims, err));
    else
        evict(m, s, 0);
    kva_keep_release(&victims);
    assert_int_equal(kva_session_seen(s), N);
    OK(kva_session_rerotate(s, err));
    feed(m, fresh, kept, HELD, 64, NULL);
    for (int h = 0; h < m->arch.kv_heads; h++) {
        float *a = keys_of(s, 0, h), *b = keys_of(fresh, 0, h);

        for (int i = 0; i < HELD * m->arch.head_dim; i++)
            assert_true(fabsf(a[i] - b[i]) < 1e-4f);
        free(a);
        free(b);
    }
    OK(kva_kvstore_check(s->store, err));
    kva_session_free(fresh);
    kva_session_free(s);
    kva_model_close(m);
}

static void kept_keys_are_those_of_a_prompt_of_the_kept_tokens(void **state)
{
    (void)state;
    compare_with_fresh(false);
}

static void the_order_of_slots_does_not_matter(void **state)
{
    (void)state;
    compare_with_fresh(true);
}

static void the_next_token_stands_at_the_held_length(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *s = session(m, KVA_KV_PHYSICAL, 0, KVA_F16);
    int32_t pos[HELD + 1];

    (void)state;
    feed(m, s, ids, N, 64, NULL);
    evict(m, s, 0);
    OK(kva_session_rerotate(s, err));
    assert_int_equal(kva_session_seen(s), 100);
    feed(m, s, ids, 1, 1, NULL);
    for (int l = 0; l < m->arch.layers; l++)
        for (int h = 0; h < m->arch.kv_heads; h++) {
            assert_int_equal(kva_kvstore_live(s->store, l, h), HELD + 1);
            kva_kvstore_positions(s->store, l, h, pos);
            for (int j = 0; j <= HELD; j++)
                assert_int_equal(pos[j], j);
        }
    OK(kva_session_rewind(s, 50, err));
    assert_int_equal(kva_kvstore_live(s->store, 1, 0), 50);
    kva_session_free(s);
    kva_model_close(m);
}

static void without_holes_nothing_changes(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *s = session(m, KVA_KV_PHYSICAL, 8, KVA_F32);
    uint64_t positions;
    float *before, *after;

    (void)state;
    feed(m, s, ids, N, 64, NULL);
    evict(m, s, 0);
    OK(kva_session_rerotate(s, err));
    positions = kva_kvstore_kept_fnv(s->store);
    before = keys_of(s, 1, 1);
    OK(kva_session_rerotate(s, err));
    after = keys_of(s, 1, 1);
    assert_true(kva_kvstore_kept_fnv(s->store) == positions);
    assert_memory_equal(before, after,
                        (size_t)(HELD * m->arch.head_dim) * sizeof *before);
    assert_int_equal(kva_session_seen(s), HELD);
    free(before);
    free(after);
    kva_session_free(s);
    kva_model_close(m);
}

/* The newest entries and the last queries move together: their products stay. */
static void the_query_window_turns_along(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *s = session(m, KVA_KV_PHYSICAL, 8, KVA_F32);
    const int d = m->arch.head_dim, width = m->arch.heads * d;
    double dots[2][64];

    (void)state;
    feed(m, s, ids, N, 64, NULL);
    evict(m, s, 0);
    for (int turn = 0; turn < 2; turn++) {
        struct kva_decide_in in = {0};
        const float *q;
        const int32_t *q_pos;
        float *k = keys_of(s, 1, 0);

        if (turn == 1) {
            OK(kva_session_rerotate(s, err));
            free(k);
            k = keys_of(s, 1, 0);
        }
        kva_session_decide_in(s, &in);
        assert_int_equal(in.queries(in.queries_ctx, 1, &q, &q_pos), 8);
        assert_int_equal(q_pos[7], turn ? HELD - 1 : N - 1);
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 8; j++) {
                dots[turn][8 * i + j] = 0;
                for (int x = 0; x < d; x++)
                    dots[turn][8 * i + j] +=
                        (double)q[i * width + x] * (double)k[(HELD - 8 + j) * d + x];
            }
        free(k);
    }
    for (int i = 0; i < 64; i++)
        assert_true(fabs(dots[0][i] - dots[1][i]) < 1e-3 * (1 + fabs(dots[0][i])));
    kva_session_free(s);
    kva_model_close(m);
}

static void of_ragged_heads_the_longest_counts(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *s = session(m, KVA_KV_PHYSICAL, 0, KVA_F32);
    int32_t pos[HELD];

    (void)state;
    feed(m, s, ids, N, 64, NULL);
    evict(m, s, 10);
    OK(kva_session_rerotate(s, err));
    assert_int_equal(kva_session_seen(s), HELD);
    kva_kvstore_positions(s->store, 1, 1, pos);
    assert_int_equal(kva_kvstore_live(s->store, 1, 1), HELD - 10);
    assert_int_equal(pos[HELD - 11], HELD - 11);
    kva_session_free(s);
    kva_model_close(m);
}

static void a_masked_cache_is_refused(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *s = session(m, KVA_KV_MASK, 0, KVA_F32);
    struct kva_error e = {0};

    (void)state;
    feed(m, s, ids, N, 64, NULL);
    evict(m, s, 0);
    assert_int_equal(kva_session_rerotate(s, &e), KVA_EINVALID);
    assert_int_equal(kva_session_seen(s), N);
    assert_int_equal(kva_session_error(s)->code, KVA_OK);
    kva_session_free(s);
    kva_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_keys_are_those_of_a_prompt_of_the_kept_tokens),
        cmocka_unit_test(the_order_of_slots_does_not_matter),
        cmocka_unit_test(the_next_token_stands_at_the_held_length),
        cmocka_unit_test(without_holes_nothing_changes),
        cmocka_unit_test(the_query_window_turns_along),
        cmocka_unit_test(of_ragged_heads_the_longest_counts),
        cmocka_unit_test(a_masked_cache_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
