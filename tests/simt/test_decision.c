/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_decision.c - what a decision waits for on a device, its kernels emulated.
 *
 * The host waits where it needs numbers: the scores of a layer, the shares of a group,
 * the lists that stay. Keys and values come to it only for methods that follow them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "methods/method.h"
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

/* Waits of one decision, the most there may be: `layer` of each layer and `once`. */
static const struct {
    const char *text;
    int layer, once;
} expected[] = {
    {"knorm", 1, 2},
    {"keydiff", 1, 2},
    {"valuediff", 1, 2},
    {"manifoldkv:centroid_window=16", 1, 2},
    {"snapkv:window=8", 1, 2},
    {"tova", 1, 2},
    {"snapkv:window=8+adakv", 2, 2},
    {"snapkv:window=8+global", 1, 3},
    {"snapkv:window=8+pyramid", 1, 2},
    {"snapkv:window=8+critical", 2, 0},
    {"snapkv:window=8+adakv+critical", 3, 0},
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

/* What came to the host while it was fed, a chunk of all tokens. */
static size_t fed(struct kva_model *m, struct kva_session *s)
{
    size_t before = kva_rt_host_traffic().down_bytes;
    int32_t ids[TOKENS];

    for (int i = 0; i < TOKENS; i++)
        ids[i] = (37 * i + 11) % 251;
    OK(kva_prefill(m, s, ids, TOKENS, 0, NULL, err));
    return kva_rt_host_traffic().down_bytes - before;
}

static void of_a_chunk_only_the_queries_of_the_window_come_to_the_host(void **state)
{
    struct kva_session_opts o = {.kv = KVA_F16, .page_cap = 4096};
    struct kva_model *m = NULL;
    struct kva_session *s;
    size_t row;

    (void)state;
    OK(kva_model_open("builtin:tiny-llama",
                      &(struct kva_model_opts){.numerics = "f32", .backend = "cuda"}, &m,
                      err));
    row = (size_t)(m->arch.layers * m->arch.heads * m->arch.head_dim) * sizeof(float);
    for (o.q_window = 0; o.q_window <= TOKENS; o.q_window += 8) {
        OK(kva_session_new(m, &o, &s, err));
        assert_int_equal(fed(m, s), (size_t)o.q_window * row);
        kva_session_free(s);
    }
    kva_model_close(m);
}

static void a_decision_waits_for_numbers_alone(void **state)
{
    struct kva_session_opts o = {.kv = KVA_F16, .page_cap = 4096, .q_window = 64};
    struct kva_model *m = NULL;
    struct kva_session *s = NULL;
    int32_t ids[TOKENS];
    int layers;
    bool more = false;

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
        size_t most = (size_t)(expected[i].layer * layers + expected[i].once);
        size_t waits = waits_of(m, s, expected[i].text, 4);

        print_message("%-36s %zu waits\n", expected[i].text, waits);
        more = more || waits > most;
    }
    assert_false(more);
    kva_session_free(s);
    kva_model_close(m);
    assert_int_equal(kva_rt_host_used(), 0);
    assert_int_equal(kva_simt_errors(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decision_waits_for_numbers_alone),
        cmocka_unit_test(of_a_chunk_only_the_queries_of_the_window_come_to_the_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
