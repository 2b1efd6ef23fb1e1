/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_decision.c - what a decision waits for on a device, its kernels emulated.
 *
 * The host waits where it needs numbers: scores, once for all layers unless it makes them
 * itself, shares, the lists that stay. Keys and values come to it only for methods that
 * follow them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "methods/method.h"
#include "models/calibrate.h"
#include "models/model_impl.h"
#include "tests/simt/control.h"
#include "tests/simt/rt_host.h"

#define OK(expr)                                                                         \
    do {                                                                                 \
        struct kva_error *err = &test_error;                                             \
        *err = (struct kva_error){0};                                                    \
        if ((expr) != KVA_OK)                                                            \
            fail_msg("%s: %s", #expr, err->text);                                        \
    } while (0)
static struct kva_error test_error;

enum { TOKENS = 72 };

/* Waits of one decision: `layer` of each layer and `once`. */
static const struct {
    const char *text;
    int layer, once;
} expected[] = {
    {"knorm", 0, 3},
    {"keydiff", 0, 3},
    {"valuediff", 0, 3},
    {"valuediff_dir", 0, 3},
    {"manifoldkv:centroid_window=16", 0, 3},
    {"snapkv:window=8", 0, 3},
    {"tova", 0, 3},
    {"snapkv:window=8+adakv", 0, 4},
    {"snapkv:window=8+global", 0, 4},
    {"snapkv:window=8+pyramid", 0, 3},
    {"snapkv:window=8+critical", 1, 1},
    {"snapkv:window=8+adakv+critical", 1, 2},
    {"lagkv:lag=16", 2, 2}, /* reads keys and values itself */
};

static size_t waits_of(struct kva_model *m, struct kva_session *s, const char *text,
                       int tenths)
{
    const struct kva_schedule oneshot = {0};
    struct kva_decide_in in = {.seed = 1, .block_len = TOKENS};
    struct kva_method method;
    struct kva_scores scores;
    struct kva_decision d;
    struct kva_kv_bytes b;
    uint64_t scratch = 0;
    size_t before;

    OK(kva_method_parse(text, &oneshot, &method, err));
    kva_session_decide_in(s, &in);
    kva_kvstore_bytes(kva_session_store(s), &b);
    OK(m->ops->sync(m->ops, err));
    before = kva_rt_host_waits();
    OK(kva_method_score(&method, &in, &scores, &scratch, err));
    OK(kva_method_decide(&method, &in, &scores, b.entries_kept * (uint64_t)tenths / 10,
                         &d, &scratch, err));
    before = kva_rt_host_waits() - before;
    assert_true(scratch > 0);
    kva_scores_release(&scores);
    kva_decision_release(&d);
    return before;
}

/* What came to the host, and how often it waited, while a session was fed in chunks. */
static struct kva_rt_host_traffic fed(struct kva_model *m, struct kva_session_opts o,
                                      int chunk)
{
    struct kva_rt_host_traffic before, after;
    struct kva_session *s;
    int32_t ids[TOKENS];

    for (int i = 0; i < TOKENS; i++)
        ids[i] = (37 * i + 11) % 251;
    o.kv = KVA_F16;
    o.page_cap = 4096;
    OK(kva_session_new(m, &o, &s, err));
    OK(m->ops->sync(m->ops, err));
    before = kva_rt_host_traffic();
    OK(kva_prefill(m, s, ids, TOKENS, chunk, NULL, err));
    after = kva_rt_host_traffic();
    kva_session_free(s);
    after.waits -= before.waits;
    after.down_bytes -= before.down_bytes;
    return after;
}

static void who_reads_a_prompt_waits_at_the_end_of_a_chunk(void **state)
{
    struct kva_session_opts o = {0};
    struct kva_model *m = NULL;

    (void)state;
    OK(kva_model_open("builtin:tiny-llama",
                      &(struct kva_model_opts){.numerics = "f32", .backend = "cuda"}, &m,
                      err));
    for (int chunk = 5; chunk <= 2 * TOKENS; chunk *= 2)
        for (o.q_window = 0; o.q_window <= TOKENS; o.q_window += 12) {
            struct kva_rt_host_traffic t = fed(m, o, chunk);
            size_t chunks = (size_t)((TOKENS + chunk - 1) / chunk);

            assert_int_equal(t.waits, 2 * chunks); /* done? and are its pages sound? */
            assert_int_equal(t.down_bytes, 0);
        }
    kva_model_close(m);
}

/* An answer's step goes out as a whole, whether or not its queries are kept. */
static void a_window_adds_no_wait_to_a_step(void **state)
{
    struct kva_model *m = NULL;
    size_t waits[2];

    (void)state;
    OK(kva_model_open("builtin:tiny-llama",
                      &(struct kva_model_opts){.numerics = "f32", .backend = "cuda"}, &m,
                      err));
    for (int kept = 0; kept < 2; kept++) {
        struct kva_session_opts o = {
            .kv = KVA_F16, .page_cap = 4096, .q_window = 8 * kept};
        struct kva_session *s;
        size_t before = 0;

        OK(kva_session_new(m, &o, &s, err));
        for (int i = 0; i < 20; i++) {
            struct kva_row row = {
                .session = s, .token = 7 + i, .logits = true, .target = -1};

            before = i == 4 ? kva_rt_host_waits() : before;
            OK(kva_step(m, &row, 1, NULL, err));
        }
        waits[kept] = kva_rt_host_waits() - before;
        kva_session_free(s);
    }
    print_message("%zu waits in 16 steps\n", waits[0]);
    assert_int_equal(waits[0], waits[1]);
    kva_model_close(m);
}

/* What sums over the prompt bring to the host, by what they read. */
static void who_sums_over_a_prompt_reads_what_it_needs(void **state)
{
    static const enum kva_collect_kind kinds[] = {
        KVA_COLLECT_CHUNKS, KVA_COLLECT_COLUMNS, KVA_COLLECT_QUERIES, KVA_COLLECT_REPLAY};
    struct kva_model *m = NULL;
    size_t q, d, heads;

    (void)state;
    OK(kva_model_open("builtin:tiny-llama",
                      &(struct kva_model_opts){.numerics = "f32", .backend = "cuda"}, &m,
                      err));
    d = (size_t)m->arch.head_dim;
    heads = (size_t)m->arch.heads;
    q = heads * d * sizeof(float);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct kva_collect want = {.kind = kinds[i], .chunk = TOKENS};
        struct kva_session_opts o = {.q_window = 8, .collect = &want, .n_collect = 1};
        struct kva_rt_host_traffic t = fed(m, o, TOKENS);
        size_t layer = 0; /* bytes of one */

        if (want.kind == KVA_COLLECT_CHUNKS)
            layer = q * TOKENS;
        if (want.kind == KVA_COLLECT_COLUMNS)
            layer = (size_t)(m->arch.kv_heads * TOKENS) * sizeof(float);
        assert_int_equal(t.down_bytes, layer * (size_t)m->arch.layers);
    }
    kva_model_close(m);
}

/* All queries of all layers of a session, on the host; *n: of one layer. */
static float *window(struct kva_model *m, struct kva_session *s, int *n)
{
    const size_t width = (size_t)(m->arch.heads * m->arch.head_dim);
    struct kva_decide_in in = {0};
    float *all = NULL;

    kva_session_decide_in(s, &in);
    for (int l = 0; l < m->arch.layers; l++) {
        const float *q;
        const int32_t *pos;
        size_t held = (size_t)(*n = in.queries(in.queries_ctx, l, &q, &pos)) * width;

        for (int i = 1; i < *n; i++)
            assert_int_equal(pos[i], pos[0] + i);
        if (all == NULL)
            all = calloc((size_t)m->arch.layers * held, sizeof *all);
        m->ops->copy(m->ops, all + (size_t)l * held, q, held * sizeof *q);
    }
    return all;
}

static void feed(struct kva_model *m, struct kva_session *s, int from, int n, int chunk)
{
    int32_t ids[TOKENS];

    for (int i = 0; i < n; i++)
        ids[i] = (37 * (from + i) + 11) % 251;
    OK(kva_prefill(m, s, ids, n, chunk, NULL, err));
}

/* However it was fed, and whether a copy, a fork or a rewound session: the same window.
 */
static void windows_of_a_device_survive_copies_and_cuts(void **state)
{
    struct kva_session_opts o = {.kv = KVA_F16, .page_cap = 4096, .q_window = 20};
    struct kva_model *m = NULL;
    struct kva_session *s[4];
    float *q[4];
    size_t bytes;
    int n;

    (void)state;
    OK(kva_model_open("builtin:tiny-llama",
                      &(struct kva_model_opts){.numerics = "f32", .backend = "cuda"}, &m,
                      err));
    for (int i = 0; i < 2; i++)
        OK(kva_session_new(m, &o, &s[i], err));
    feed(m, s[0], 0, TOKENS, TOKENS);
    feed(m, s[1], 0, TOKENS - 9, 7); /* the ring has gone round, not looked at */
    OK(kva_session_copy(s[1], &s[2], err));
    OK(kva_session_fork(s[1], NULL, &o, &s[3], err));
    feed(m, s[1], TOKENS - 9, 9, 4);
    feed(m, s[2], TOKENS - 9, 9, 9);
    free(window(m, s[3], &n));
    feed(m, s[3], TOKENS - 9, 5, 1);
    OK(kva_session_rewind(s[3], TOKENS - 7, err));
    feed(m, s[3], TOKENS - 7, 7, 3);
    bytes = (size_t)(m->arch.layers * m->arch.heads * m->arch.head_dim) * sizeof(float);
    for (int i = 0; i < 4; i++) {
        q[i] = window(m, s[i], &n);
        assert_int_equal(n, 20);
        assert_memory_equal(q[0], q[i], bytes * 20);
    }
    for (int i = 0; i < 4; i++) {
        free(q[i]);
        kva_session_free(s[i]);
    }
    kva_model_close(m);
}

static void filters_calibrated_on_a_device_are_the_cpu_s(void **state)
{
    static const char *const backend[] = {"cpu", "cuda"};
    const struct kva_qfilter_opts opts = {.sequences = 2, .tokens = 40, .rows = 30};
    struct kva_table t[2];
    char text[400];

    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + (i * i + i / 3) % 26);
    for (int i = 0; i < 2; i++) {
        struct kva_model *m = NULL;

        OK(kva_model_open(
            "builtin:tiny-llama",
            &(struct kva_model_opts){.numerics = "f32", .backend = backend[i]}, &m, err));
        OK(kva_qfilter_calibrate(m, text, sizeof text, &opts, &t[i], err));
        kva_model_close(m);
    }
    for (int j = 0; j < t[0].layers * t[0].kv_heads * t[0].columns; j++)
        assert_true(fabs(t[0].data[j] - t[1].data[j]) < 1e-4);
    kva_table_release(&t[0]);
    kva_table_release(&t[1]);
}

static void a_decision_waits_for_numbers_alone(void **state)
{
    struct kva_session_opts o = {.kv = KVA_F16, .page_cap = 4096, .q_window = 64};
    struct kva_model *m = NULL;
    struct kva_session *s = NULL;
    int32_t ids[TOKENS];
    int layers;
    bool others = false;

    (void)state;
    for (int i = 0; i < TOKENS; i++)
        ids[i] = (37 * i + 11) % 251;
    OK(kva_model_open("builtin:tiny-llama",
                      &(struct kva_model_opts){.numerics = "f32", .backend = "cuda"}, &m,
                      err));
    OK(kva_session_new(m, &o, &s, err));
    OK(kva_prefill(m, s, ids, TOKENS, 0, NULL, err));
    layers = m->arch.layers;
    print_message("%d layers of %d KV heads\n", layers, m->arch.kv_heads);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        size_t want = (size_t)(expected[i].layer * layers + expected[i].once);
        size_t waits = waits_of(m, s, expected[i].text, 4);

        print_message("%-36s %zu waits\n", expected[i].text, waits);
        others = others || waits != want;
    }
    assert_false(others);
    kva_session_free(s);
    kva_model_close(m);
    assert_int_equal(kva_rt_host_used(), 0);
    assert_int_equal(kva_simt_errors(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decision_waits_for_numbers_alone),
        cmocka_unit_test(who_reads_a_prompt_waits_at_the_end_of_a_chunk),
        cmocka_unit_test(a_window_adds_no_wait_to_a_step),
        cmocka_unit_test(windows_of_a_device_survive_copies_and_cuts),
        cmocka_unit_test(filters_calibrated_on_a_device_are_the_cpu_s),
        cmocka_unit_test(who_sums_over_a_prompt_reads_what_it_needs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
