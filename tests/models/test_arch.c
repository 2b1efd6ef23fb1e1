/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_arch.c - a description may carry more than the engine runs: it is refused, never
 * ignored. */
#include "tests/models/engine_test.h"

/* A description that passes. */
static void describe(struct kva_arch *a, struct kva_layer *l)
{
    memset(l, 0, sizeof *l);
    kva_arch_init(a, "test");
    a->layers = 1;
    a->layer = l;
    a->heads = 4;
    a->kv_heads = 2;
    a->head_dim = a->v_dim = 16;
    l->n_rot = 16;
}

static void heads_wider_than_a_backend_has_attention_for_are_refused(void **state)
{
    const struct kva_ops narrow = {.backend = "cuda", .most_dim = 256}, any = {0};
    struct kva_error e = {0};
    struct kva_arch a;
    struct kva_layer l;

    (void)state;
    describe(&a, &l);
    a.head_dim = a.v_dim = 256;
    OK(kva_arch_suits(&a, &narrow, err));
    a.v_dim = 258;
    OK(kva_arch_suits(&a, &any, err));
    assert_int_equal(kva_arch_suits(&a, &narrow, &e), KVA_EUNSUPPORTED);
    assert_non_null(
        strstr(e.text, "256 and 258 dimensions; backend cuda has attention up to 256"));
}

static void seams_that_are_not_executed_are_refused_by_name(void **state)
{
    static const float some[16];
    struct kva_arch a;
    struct kva_layer l;
    struct kva_error e = {0};

    (void)state;
    describe(&a, &l);
    OK(kva_arch_check(&a, err));
#define REFUSES(set, code_, text_)                                                       \
    do {                                                                                 \
        describe(&a, &l);                                                                \
        e = (struct kva_error){0};                                                       \
        set;                                                                             \
        assert_int_equal(kva_arch_check(&a, &e), code_);                                 \
        assert_non_null(strstr(e.text, text_));                                          \
    } while (0)
    REFUSES(l.window = 8, KVA_EUNSUPPORTED, "a sliding window");
    REFUSES(l.attn_softcap = 50, KVA_EUNSUPPORTED, "an attention softcap");
    REFUSES(a.final_softcap = 30, KVA_EUNSUPPORTED, "a final softcap");
    REFUSES(l.q_norm = some, KVA_EUNSUPPORTED, "query and key norms");
    REFUSES(l.k_norm = some, KVA_EUNSUPPORTED, "query and key norms");
    REFUSES(l.q_bias = some, KVA_EUNSUPPORTED, "attention biases");
    REFUSES(l.o_bias = some, KVA_EUNSUPPORTED, "attention biases");
    REFUSES(l.sinks = some, KVA_EUNSUPPORTED, "attention sinks");
    REFUSES(a.heads = 3, KVA_EFORMAT, "3 heads cannot share 2 KV heads");
    REFUSES(a.kv_heads = 0, KVA_EFORMAT, "0 KV heads");
    REFUSES(a.head_dim = 15, KVA_EFORMAT, "head dimensions 15 and 16");
    REFUSES(a.head_dim = 1026, KVA_EFORMAT, "1026");
    REFUSES(l.n_rot = 18, KVA_EFORMAT, "18 rotated dimensions");
    REFUSES(l.n_rot = 7, KVA_EFORMAT, "7 rotated dimensions");
    REFUSES(l.n_rot = 0, KVA_EFORMAT, "0 rotated dimensions");
#undef REFUSES
}

/* Integers and numbers of a file: defaults, ranges, presence. */
static void numbers_of_a_file_are_ranged(void **state)
{
    struct kva_gguf_writer *w = NULL;
    struct kva_gguf *g = NULL;
    struct kva_error e = {0};
    static const int32_t per_layer[] = {1, 2, 300};
    struct kva_buf b;
    double x = 7;
    int v = 5, a[3] = {9, 0, 0};

    (void)state;
    kva_buf_init(&b, 0);
    OK(kva_gguf_writer_new(&w, err));
    kva_gguf_put_str(w, "general.architecture", "zz", 2);
    kva_gguf_put_u32(w, "zz.n", 12);
    kva_gguf_put_f32(w, "zz.nan", NAN);
    kva_gguf_put_i32s(w, "zz.list", per_layer, 3);
    OK(kva_gguf_finish(w, &b, err));
    kva_gguf_writer_free(w);
    OK(kva_gguf_parse(b.data, b.len, "numbers", &g, err));
    OK(kva_arch_int(g, "zz", "absent", false, 0, 9, &v, err));
    assert_int_equal(v, 5);
    assert_int_equal(kva_arch_int(g, "zz", "absent", true, 0, 9, &v, &e), KVA_EFORMAT);
    assert_string_equal(e.text, "zz.absent is missing or not an integer");
    /* what is there in another form is no default */
    assert_int_equal(kva_arch_int(g, "zz", "list", false, 0, 9, &v, NULL), KVA_EFORMAT);
    assert_int_equal(kva_arch_int(g, "zz", "nan", false, 0, 9, &v, NULL), KVA_EFORMAT);
    assert_int_equal(kva_arch_real(g, "zz", "list", false, &x, NULL), KVA_EFORMAT);
    assert_int_equal(kva_arch_ints(g, "zz", "nan", false, 0, 9, 3, a, NULL), KVA_EFORMAT);
    assert_int_equal(v, 5);
    OK(kva_arch_int(g, "zz", "n", true, 0, 12, &v, err));
    assert_int_equal(v, 12);
    e = (struct kva_error){0};
    assert_int_equal(kva_arch_int(g, "zz", "n", true, 0, 11, &v, &e), KVA_EFORMAT);
    assert_string_equal(e.text, "zz.n is 12, must be in 0..11");
    assert_int_equal(kva_arch_real(g, "zz", "nan", false, &x, NULL), KVA_EFORMAT);
    OK(kva_arch_real(g, "zz", "absent", false, &x, err));
    assert_true(x == 7.0);
    OK(kva_arch_ints(g, "zz", "absent", false, 0, 9, 3, a, err));
    assert_true(a[0] == 9 && a[1] == 9 && a[2] == 9);
    OK(kva_arch_ints(g, "zz", "list", true, 0, 300, 3, a, err));
    assert_memory_equal(a, per_layer, sizeof a);
    assert_int_equal(kva_arch_ints(g, "zz", "list", true, 0, 299, 3, a, NULL),
                     KVA_EFORMAT);
    assert_int_equal(kva_arch_ints(g, "zz", "list", true, 0, 300, 2, a, NULL),
                     KVA_EFORMAT);
    kva_gguf_close(g);
    kva_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_wider_than_a_backend_has_attention_for_are_refused),
        cmocka_unit_test(seams_that_are_not_executed_are_refused_by_name),
        cmocka_unit_test(numbers_of_a_file_are_ranged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
