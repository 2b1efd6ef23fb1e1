/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_engine.c - steps over rows: golden logits, chunks, waves, failures, layer by
 * layer. */
#include "tests/models/engine_test.h"

static void golden(const char *numerics)
{
    struct kva_model *m = open_model("builtin:tiny-llama", numerics);
    struct kva_session *s = open_session(m, KVA_F32, 0);
    float *l = new_logits(m, TINY_TOKENS);
    int32_t ids[TINY_TOKENS];
    double e;

    tiny_ids(ids);
    feed(m, s, ids, TINY_TOKENS, TINY_TOKENS, l);
    e = tiny_golden_error(l);
    if (!(e <= 1.0))
        fail_msg("%s: %g times the tolerance", numerics, e);
    free(l);
    kva_session_free(s);
    kva_model_close(m);
}

static void tiny_llama_gives_the_golden_logits_in_ref(void **state)
{
    (void)state;
    golden("ref");
}

static void tiny_llama_gives_the_golden_logits_in_f32(void **state)
{
    (void)state;
    golden("f32");
}

static void chunk_length_changes_no_bit(void **state)
{
    static const char *const numerics[] = {"ref", "f32"};
    static const int chunk[] = {1, 7, 24};
    int32_t ids[TINY_TOKENS];

    (void)state;
    tiny_ids(ids);
    for (int k = 0; k < 2; k++)
        for (int kv = 0; kv < 2; kv++) {
            struct kva_model *m = open_model("builtin:tiny-llama", numerics[k]);
            float *want = new_logits(m, TINY_TOKENS), *l = new_logits(m, TINY_TOKENS);

            for (int c = 0; c < 3; c++) {
                struct kva_session *s = open_session(m, kv ? KVA_F16 : KVA_F32, 0);

                feed(m, s, ids, TINY_TOKENS, chunk[c], c ? l : want);
                if (c)
                    assert_memory_equal(l, want, sizeof *l * TINY_TOKENS * TINY_VOCAB);
                kva_session_free(s);
            }
            free(want);
            free(l);
            kva_model_close(m);
        }
}

static void rows_without_logits_change_no_bit_of_the_others(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *s = open_session(m, KVA_F16, 0);
    float *want = new_logits(m, TINY_TOKENS), *l = new_logits(m, 3);
    static const int wanted[] = {4, 5, 23};
    struct kva_row rows[TINY_TOKENS];
    int32_t ids[TINY_TOKENS];

    (void)state;
    tiny_ids(ids);
    feed(m, s, ids, TINY_TOKENS, TINY_TOKENS, want);
    kva_session_free(s);
    for (int window = 0; window < 3; window++) { /* queries kept or not */
        s = open_session(m, KVA_F16, window * 10);
        for (int i = 0; i < TINY_TOKENS; i++)
            rows[i] = (struct kva_row){.session = s, .token = ids[i], .target = -1};
        for (int i = 0; i < 3; i++)
            rows[wanted[i]].logits = true;
        OK(kva_step(m, rows, TINY_TOKENS, l, err));
        for (int i = 0; i < 3; i++) {
            assert_memory_equal(l + i * TINY_VOCAB, want + wanted[i] * TINY_VOCAB,
                                TINY_VOCAB * sizeof *l);
            assert_int_equal(rows[wanted[i]].argmax,
                             best(want + wanted[i] * TINY_VOCAB, TINY_VOCAB));
        }
        kva_session_free(s);
    }
    free(want);
    free(l);
    kva_model_close(m);
}

/* Decodes `n` greedy tokens alone after the first `start` tiny tokens; ids and logits. */
static void decode_alone(struct kva_model *m, int start, int n, int32_t *out,
                         float *logits)
{
    struct kva_session *s = open_session(m, KVA_F16, 0);
    int32_t ids[TINY_TOKENS];
    struct kva_row last;

    tiny_ids(ids);
    OK(kva_prefill(m, s, ids, start, 5, &last, err));
    for (int i = 0; i < n; i++) {
        out[i] = last.argmax;
        last =
            (struct kva_row){.session = s, .token = out[i], .logits = true, .target = -1};
        OK(kva_step(m, &last, 1, logits + (size_t)i * TINY_VOCAB, err));
        assert_int_equal(kva_session_error(s)->code, KVA_OK);
    }
    kva_session_free(s);
}

/* Five sessions of different lengths decode together; one dies at its cap, one leaves
 * early. */
static void a_row_alone_and_in_a_wave_has_the_same_bits(void **state)
{
    enum { N = 5, STEPS = 12 };
    static const int start[N] = {24, 21, 3, 17, 9};
    static const char *const numerics[] = {"f32", "ref"};

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct kva_model *m = open_model("builtin:tiny-llama", numerics[k]);
        struct kva_session *s[N];
        struct kva_row rows[N], last[N];
        int32_t ids[TINY_TOKENS], want[N][STEPS];
        float *alone = new_logits(m, N * STEPS), *l = new_logits(m, N);

        tiny_ids(ids);
        for (int i = 0; i < N; i++) {
            /* session 1 gets one page a KV head: 32 entries, 11 after its prompt */
            struct kva_session_opts o = {.kv = KVA_F16, .page_cap = i == 1 ? 6 : 100};

            decode_alone(m, start[i], STEPS, want[i],
                         alone + (size_t)i * STEPS * TINY_VOCAB);
            OK(kva_session_new(m, &o, &s[i], err));
            OK(kva_prefill(m, s[i], ids, start[i], 0, &last[i], err));
        }
        for (int t = 0; t < STEPS; t++) {
            int n = 0, who[N];

            for (int i = 0; i < N; i++) {
                if (i == 3 && t >= 6)
                    continue; /* ended early */
                assert_int_equal(last[i].argmax, want[i][t]);
                who[n] = i;
                rows[n++] = (struct kva_row){.session = s[i],
                                             .token = want[i][t],
                                             .logits = true,
                                             .target = want[i][t]};
            }
            OK(kva_step(m, rows, n, l, err));
            for (int j = 0; j < n; j++) {
                int i = who[j];

                if (i == 1 && t >= 11) {
                    assert_int_equal(kva_session_error(s[i])->code, KVA_EBUDGET);
                    assert_false(rows[j].finite);
                    assert_int_equal(kva_session_seen(s[i]), 32);
                    continue;
                }
                assert_int_equal(kva_session_error(s[i])->code, KVA_OK);
                assert_memory_equal(l + (size_t)j * TINY_VOCAB,
                                    alone + (size_t)(i * STEPS + t) * TINY_VOCAB,
                                    TINY_VOCAB * sizeof *l);
                last[i] = rows[j];
            }
        }
        for (int i = 0; i < N; i++) {
            OK(kva_kvstore_check(kva_session_store(s[i]), err));
            kva_session_free(s[i]);
        }
        free(alone);
        free(l);
        kva_model_close(m);
    }
}

static void a_failed_session_is_skipped_and_leaves_no_half_step(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *s = NULL;
    struct kva_kv_bytes before, after;
    int32_t ids[TINY_TOKENS];
    struct kva_row row;

    (void)state;
    tiny_ids(ids);
    OK(kva_session_new(m, &(struct kva_session_opts){.kv = KVA_F16, .page_cap = 8}, &s,
                       err));
    OK(kva_prefill(m, s, ids, 24, 0, NULL, err));
    OK(kva_prefill(m, s, ids, 8, 0, NULL, err));
    kva_kvstore_bytes(kva_session_store(s), &before);
    row = (struct kva_row){.session = s, .token = 1, .logits = true, .target = -1};
    OK(kva_step(m, &row, 1, NULL,
                err)); /* 6 pages used, 6 more wanted, 2 left: layer 1 fails */
    assert_int_equal(kva_session_error(s)->code, KVA_EBUDGET);
    assert_false(row.finite);
    assert_int_equal(row.argmax, -1);
    kva_kvstore_bytes(kva_session_store(s), &after);
    assert_int_equal(before.entries_kept, after.entries_kept);
    assert_int_equal(before.alloc_bytes, after.alloc_bytes);
    OK(kva_step(m, &row, 1, NULL, err));
    assert_false(row.finite);
    assert_int_equal(kva_session_seen(s), 32);
    assert_int_equal(kva_session_rewind(s, 3, NULL), KVA_EBUDGET);
    kva_session_free(s);
    kva_model_close(m);
}

static void the_context_limit_fails_the_session_only(void **state)
{
    struct kva_buf file;
    struct kva_model *m = NULL;
    struct kva_session *a, *b;
    struct kva_error e = {0};
    int32_t ids[TINY_TOKENS];
    struct kva_row rows[2], last;

    (void)state;
    tiny_ids(ids);
    kva_buf_init(&file, 0);
    OK(kva_tiny_build(&(struct kva_tiny_opts){.ctx_train = 20}, &file, err));
    OK(kva_model_from_bytes(&file, "tiny", &(struct kva_model_opts){.chat = "none"}, &m,
                            err));
    assert_int_equal(kva_model_info(m)->ctx_train, 20);
    a = open_session(m, KVA_F16, 0);
    b = open_session(m, KVA_F16, 0);
    OK(kva_prefill(m, a, ids, 20, 0, &last, err));
    assert_true(last.finite);
    OK(kva_prefill(m, b, ids, 4, 0, NULL, err));
    rows[0] = (struct kva_row){.session = a, .token = 1, .logits = true, .target = -1};
    rows[1] = (struct kva_row){.session = b, .token = 1, .logits = true, .target = -1};
    OK(kva_step(m, rows, 2, NULL, err));
    assert_int_equal(kva_session_error(a)->code, KVA_ETRUNCATED);
    assert_int_equal(kva_session_error(b)->code, KVA_OK);
    assert_false(rows[0].finite);
    assert_true(rows[1].finite);
    kva_session_free(a);
    a = open_session(m, KVA_F16, 0);
    assert_int_equal(kva_prefill(m, a, ids, 21, 0, NULL, &e), KVA_ETRUNCATED);
    assert_non_null(strstr(e.text, "20"));
    kva_session_free(a);
    kva_session_free(b);
    kva_model_close(m);
    kva_buf_release(&file);
}

/* Layer by layer over the whole prompt at once (more rows than a chunk) equals ordinary
 * steps. */
static void layer_by_layer_equals_the_step_and_can_be_given_up(void **state)
{
    enum { N = 300 };
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *a = open_session(m, KVA_F16, 8), *b = open_session(m, KVA_F16, 8);
    struct kva_row rows[N];
    struct kva_step_state *st = NULL;
    float want[TINY_VOCAB], have[TINY_VOCAB];
    struct kva_decide_in in = {0}, in2 = {0};
    int32_t ids[N];

    (void)state;
    for (int i = 0; i < N; i++)
        ids[i] = tiny_token(i);
    feed(m, a, ids, N - 1, 64, NULL);
    feed(m, a, ids + N - 1, 1, 1, want);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++)
            rows[i] = (struct kva_row){
                .session = b, .token = ids[i], .logits = i == N - 1, .target = ids[0]};
        OK(kva_step_begin(m, rows, N, &st, err));
        assert_int_equal(kva_step_begin(m, rows, N, &st, NULL), KVA_EINVALID);
        assert_int_equal(kva_step_layer(st, 1, NULL), KVA_EINVALID);
        OK(kva_step_layer(st, 0, err));
        if (!round) {
            kva_step_cancel(st);
            assert_int_equal(kva_session_seen(b), 0);
            assert_int_equal(kva_kvstore_live(kva_session_store(b), 0, 0), 0);
        }
    }
    assert_int_equal(kva_step_end(st, have, NULL), KVA_EINVALID);
    OK(kva_step_layer(st, 1, err));
    OK(kva_step_layer(st, 2, err));
    OK(kva_step_end(st, have, err));
    assert_memory_equal(want, have, sizeof want);
    assert_int_equal(kva_session_seen(b), N);
    assert_true(fabs(rows[N - 1].nll - (double)INFINITY) > 0 && rows[N - 1].nll > 0);
    kva_session_decide_in(a, &in);
    kva_session_decide_in(b, &in2);
    for (int l = 0; l < 3; l++) {
        const float *q, *q2;
        const int32_t *p, *p2;

        assert_int_equal(in.queries(in.queries_ctx, l, &q, &p), 8);
        assert_int_equal(in2.queries(in2.queries_ctx, l, &q2, &p2), 8);
        assert_memory_equal(q, q2, 8 * 64 * sizeof *q);
        assert_memory_equal(p, p2, 8 * sizeof *p);
        assert_int_equal(p[0], N - 8);
    }
    assert_true(kva_model_scratch_bytes(m) > (uint64_t)N * 64 * 4);
    kva_session_free(a);
    kva_session_free(b);
    kva_model_close(m);
}

/* An output matrix of its own, so that a poisoned embedding row reaches one session only.
 */
static void put_output(struct kva_gguf_writer *w, void *ctx)
{
    static float data[TINY_VOCAB * 64];
    const uint64_t ne[2] = {64, TINY_VOCAB};

    (void)ctx;
    for (int i = 0; i < TINY_VOCAB * 64; i++)
        data[i] = (float)(0.2 * kva_tiny_unit("output.weight", (uint64_t)i));
    kva_gguf_put_tensor(w, "output.weight", KVA_F32, ne, 2, data);
}

static void a_value_that_is_not_finite_fails_its_session_only(void **state)
{
    struct kva_model *m = NULL;
    struct kva_session *bad, *good, *alone;
    struct kva_gguf *g = NULL;
    struct kva_row rows[3];
    struct kva_buf file;
    float want[TINY_VOCAB], have[2 * TINY_VOCAB];
    int32_t ids[TINY_TOKENS];
    size_t at;

    (void)state;
    tiny_ids(ids);
    kva_buf_init(&file, 0);
    OK(kva_tiny_build(&(struct kva_tiny_opts){.extra = put_output}, &file, err));
    OK(kva_gguf_parse(file.data, file.len, "tiny", &g, err));
    at = (size_t)((const char *)kva_gguf_find(g, "token_embd.weight")->data - file.data);
    kva_gguf_close(g);
    memset(file.data + at + 259 * 64 * sizeof(float), 0xFF,
           4); /* a NaN in the row of id 259 */
    OK(kva_model_from_bytes(&file, "tiny", &(struct kva_model_opts){.chat = "none"}, &m,
                            err));
    alone = open_session(m, KVA_F16, 4);
    good = open_session(m, KVA_F16, 4);
    bad = open_session(m, KVA_F16, 4);
    feed(m, alone, ids, 9, 9, NULL);
    feed(m, good, ids, 9, 9, NULL);
    feed(m, bad, ids, 5, 5, NULL);
    feed(m, alone, ids + 9, 1, 1, want);
    rows[0] = (struct kva_row){.session = bad, .token = 4, .target = -1};
    rows[1] = (struct kva_row){.session = bad, .token = 259, .logits = true, .target = 3};
    rows[2] =
        (struct kva_row){.session = good, .token = ids[9], .logits = true, .target = -1};
    OK(kva_step(m, rows, 3, have, err));
    assert_int_equal(kva_session_error(bad)->code, KVA_ENONFINITE);
    assert_false(rows[1].finite);
    assert_int_equal(rows[1].argmax, -1);
    assert_int_equal(kva_session_seen(bad), 5);
    assert_int_equal(kva_kvstore_live(kva_session_store(bad), 0, 0), 5);
    assert_int_equal(kva_session_error(good)->code, KVA_OK);
    assert_true(rows[2].finite);
    assert_memory_equal(want, have + TINY_VOCAB,
                        sizeof want); /* second of the rows with logits */
    kva_session_free(alone);
    kva_session_free(good);
    kva_session_free(bad);
    kva_model_close(m);
    kva_buf_release(&file);
}

static void misuse_is_refused_and_changes_nothing(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *a = open_session(m, KVA_F16, 0), *b = open_session(m, KVA_F16, 0);
    struct kva_row rows[3] = {{.session = a, .token = 1},
                              {.session = b, .token = 1},
                              {.session = a, .token = 1}};

    (void)state;
    assert_int_equal(kva_step(m, rows, 3, NULL, NULL),
                     KVA_EINVALID); /* a stands in two places */
    assert_int_equal(kva_step(m, rows, 0, NULL, NULL), KVA_EINVALID);
    rows[1].token = TINY_VOCAB;
    assert_int_equal(kva_step(m, rows, 2, NULL, NULL), KVA_EINVALID);
    rows[1].token = 0;
    rows[1].logits = true;
    rows[1].target = TINY_VOCAB;
    assert_int_equal(kva_step(m, rows, 2, NULL, NULL), KVA_EINVALID);
    rows[1].target = -1;
    OK(kva_step(m, rows, 2, NULL, err));
    assert_int_equal(kva_session_seen(a), 1);
    kva_session_free(a);
    kva_session_free(b);
    kva_model_close(m);
}

static void nll_is_minus_log_softmax_of_the_target(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "ref");
    struct kva_session *s = open_session(m, KVA_F32, 0);
    struct kva_row row = {.session = s, .token = 11, .logits = true, .target = 7};
    float l[TINY_VOCAB];
    double sum = 0;

    (void)state;
    OK(kva_step(m, &row, 1, l, err));
    for (int i = 0; i < TINY_VOCAB; i++)
        sum += exp((double)l[i]);
    assert_true(fabs(row.nll - (log(sum) - (double)l[7])) < 1e-5);
    assert_int_equal(row.argmax, 59);
    assert_true(row.finite);
    kva_session_free(s);
    kva_model_close(m);
}

/* Forbidden ids are passed over in the order of the logits, in a wave, too; a row without
 * any is untouched by its neighbours. */
static void argmax_heeds_what_is_forbidden(void **state)
{
    static float logits[2 * TINY_VOCAB];
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    int32_t forbid[TINY_VOCAB], all[TINY_VOCAB];
    int n = 0;

    (void)state;
    for (int i = 0; i < TINY_VOCAB; i++)
        all[i] = i;
    for (; n < TINY_VOCAB; n++) {
        struct kva_session *s[2] = {open_session(m, KVA_F16, 0),
                                    open_session(m, KVA_F16, 0)};
        struct kva_row rows[2];
        int32_t best = -1;

        for (int i = 0; i < 2; i++)
            rows[i] = (struct kva_row){
                .session = s[i], .token = 11, .logits = true, .target = -1};
        rows[0].forbid = forbid;
        rows[0].n_forbid = n;
        OK(kva_step(m, rows, 2, logits, err));
        for (int i = 0; i < TINY_VOCAB; i++) {
            bool out = false;

            for (int k = 0; k < n; k++)
                out = out || forbid[k] == i;
            if (!out && (best < 0 || logits[i] > logits[best]))
                best = i;
        }
        assert_int_equal(rows[0].argmax, best);
        assert_true(n == 0 ? rows[1].argmax == best : rows[1].argmax == forbid[0]);
        forbid[n] = best; /* the next round does without it */
        /* with everything forbidden the largest logit stays */
        rows[0] = (struct kva_row){.session = s[0],
                                   .token = 12,
                                   .logits = true,
                                   .target = -1,
                                   .forbid = all,
                                   .n_forbid = TINY_VOCAB};
        rows[1].token = 12;
        OK(kva_step(m, rows, 2, NULL, err));
        assert_int_equal(rows[0].argmax, rows[1].argmax);
        kva_session_free(s[0]);
        kva_session_free(s[1]);
    }
    kva_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_llama_gives_the_golden_logits_in_ref),
        cmocka_unit_test(tiny_llama_gives_the_golden_logits_in_f32),
        cmocka_unit_test(chunk_length_changes_no_bit),
        cmocka_unit_test(rows_without_logits_change_no_bit_of_the_others),
        cmocka_unit_test(a_row_alone_and_in_a_wave_has_the_same_bits),
        cmocka_unit_test(a_failed_session_is_skipped_and_leaves_no_half_step),
        cmocka_unit_test(the_context_limit_fails_the_session_only),
        cmocka_unit_test(layer_by_layer_equals_the_step_and_can_be_given_up),
        cmocka_unit_test(a_value_that_is_not_finite_fails_its_session_only),
        cmocka_unit_test(misuse_is_refused_and_changes_nothing),
        cmocka_unit_test(argmax_heeds_what_is_forbidden),
        cmocka_unit_test(nll_is_minus_log_softmax_of_the_target),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
