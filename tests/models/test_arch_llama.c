/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_arch_llama.c - loading llama files: what is refused and how it is said
 * (models.md 1.3), un-permuted rows (3.5), rotary scaling (4.2), and what a file of
 * another layout must not change.
 *
 * Broken files are the tiny model's bytes with one value overwritten in place, or with
 * metadata and tensors added by the writer. */
#include "tests/models/engine_test.h"

/* A growable copy of the tiny model's file. */
static void tiny_file(struct kva_buf *b, const struct kva_tiny_opts *o)
{
    kva_buf_init(b, 0);
    OK(kva_tiny_build(o, b, err));
}

/* Where the value of a metadata key starts. */
static uint8_t *value_of(struct kva_buf *b, const char *key)
{
    uint8_t *at = memmem(b->data, b->len, key, strlen(key));

    assert_non_null(at);
    return at + strlen(key) + 4; /* the value's type is a u32 */
}

static void set_u32(struct kva_buf *b, const char *key, uint32_t v)
{
    memcpy(value_of(b, key), &v, 4);
}

static void set_f32(struct kva_buf *b, const char *key, float v)
{
    memcpy(value_of(b, key), &v, 4);
}

/* Makes a key or tensor unknown by changing its last letter. */
static void hide(struct kva_buf *b, const char *name)
{
    uint8_t *at = memmem(b->data, b->len, name, strlen(name));

    assert_non_null(at);
    at[strlen(name) - 1] = 'X';
}

/* ne[i] of a tensor */
static void set_ne(struct kva_buf *b, const char *tensor, int i, uint64_t v)
{
    uint8_t *at = memmem(b->data, b->len, tensor, strlen(tensor));

    assert_non_null(at);
    memcpy(at + strlen(tensor) + 4 + 8 * i, &v, 8);
}

static enum kva_status open_bytes(struct kva_buf *b, struct kva_model **m,
                                  struct kva_error *e)
{
    return kva_model_from_bytes(b, "tiny", &(struct kva_model_opts){.chat = "none"}, m,
                                e);
}

/* Loading must fail with `code` and the message must hold `text`. */
static void refused(struct kva_buf *b, enum kva_status code, const char *text)
{
    struct kva_model *m = NULL;
    struct kva_error e = {0};
    enum kva_status rc = open_bytes(b, &m, &e);

    if (rc != code || !strstr(e.text, text))
        fail_msg("%s: \"%s\", expected %s with \"%s\"", kva_status_name(rc), e.text,
                 kva_status_name(code), text);
    assert_null(m);
    kva_buf_release(b);
}

/* Error of the golden logits over the tolerance, for a model of these bytes (ref). */
static double golden_error(struct kva_buf *b)
{
    struct kva_model *m = NULL;
    struct kva_session *s;
    float *l;
    int32_t ids[TINY_TOKENS];
    double e;

    OK(kva_model_from_bytes(
        b, "tiny", &(struct kva_model_opts){.chat = "none", .numerics = "ref"}, &m, err));
    s = open_session(m, KVA_F32, 0);
    l = new_logits(m, TINY_TOKENS);
    tiny_ids(ids);
    feed(m, s, ids, TINY_TOKENS, 24, l);
    e = tiny_golden_error(l);
    free(l);
    kva_session_free(s);
    kva_model_close(m);
    return e;
}

/* ---- refused
 * ---------------------------------------------------------------------------------- */

static void unknown_architectures_are_refused_with_the_list(void **state)
{
    struct kva_buf b;

    (void)state;
    tiny_file(&b, NULL);
    memcpy(value_of(&b, "general.architecture") + 8, "llamb", 5);
    refused(&b, KVA_EUNSUPPORTED, "architecture \"llamb\" is not one of: llama");
}

static void missing_keys_are_named(void **state)
{
    static const char *const keys[] = {
        "llama.block_count",         "llama.embedding_length",
        "llama.context_length",      "llama.attention.head_count",
        "llama.feed_forward_length", "llama.attention.layer_norm_rms_epsilon",
    };
    struct kva_buf b;

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        tiny_file(&b, NULL);
        hide(&b, keys[i]);
        refused(&b, KVA_EFORMAT, keys[i]);
    }
}

static void counts_out_of_range_are_refused(void **state)
{
    static const struct {
        const char *key;
        uint32_t v;
        const char *text;
    } c[] = {
        {"llama.block_count", 0, "block_count"},
        {"llama.block_count", 513, "1..512"},
        {"llama.block_count", 4, "blk.3.attn_norm.weight"},
        {"llama.embedding_length", 0, "embedding_length"},
        {"llama.attention.head_count", 0, "head_count"},
        {"llama.attention.head_count", 0xFFFFFFFF, "head_count"},
        {"llama.attention.head_count_kv", 0, "head_count_kv"},
        {"llama.attention.head_count_kv", 3, "heads cannot share 3 KV heads"},
        {"llama.feed_forward_length", 0, "feed_forward_length"},
        {"llama.rope.dimension_count", 15, "15 rotated dimensions"},
        {"llama.rope.dimension_count", 18, "18 rotated dimensions"},
        {"llama.rope.dimension_count", 0, "dimension_count"},
    };
    struct kva_buf b;

    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        tiny_file(&b, NULL);
        if (strcmp(c[i].key, "llama.attention.head_count") == 0)
            memcpy((uint8_t *)memmem(b.data, b.len, "llama.attention.head_count\4", 27) +
                       30,
                   &c[i].v, 4);
        else
            set_u32(&b, c[i].key, c[i].v);
        refused(&b, KVA_EFORMAT, c[i].text);
    }
}

static void numbers_that_are_not_finite_and_positive_are_refused(void **state)
{
    static const char *const keys[] = {"llama.attention.layer_norm_rms_epsilon",
                                       "llama.rope.freq_base"};
    static const float bad[] = {0.0f, -1.0f, INFINITY, NAN};
    struct kva_buf b;

    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < 4; j++) {
            tiny_file(&b, NULL);
            set_f32(&b, keys[i], bad[j]);
            refused(&b, KVA_EFORMAT, keys[i]);
        }
}

static void shapes_are_compared_and_both_are_printed(void **state)
{
    struct kva_buf b;

    (void)state;
    tiny_file(&b, NULL);
    set_ne(&b, "blk.1.attn_k.weight", 1, 16);
    refused(&b, KVA_EFORMAT,
            "tensor \"blk.1.attn_k.weight\" has shape {64, 16}, expected {64, 32}");
    tiny_file(&b, NULL);
    set_ne(&b, "output_norm.weight", 0, 32);
    refused(&b, KVA_EFORMAT,
            "tensor \"output_norm.weight\" has shape {32}, expected {64}");
    tiny_file(&b, NULL);
    set_ne(&b, "token_embd.weight", 1, 259);
    refused(&b, KVA_EFORMAT, "259 rows");
    tiny_file(&b, NULL);
    set_u32(&b, "llama.embedding_length", 128);
    refused(&b, KVA_EFORMAT, "expected {128");
    tiny_file(&b, &(struct kva_tiny_opts){.skip = "blk.2.ffn_up.weight"});
    refused(&b, KVA_EFORMAT, "tensor \"blk.2.ffn_up.weight\" is missing");
}

struct extra {
    const char *key, *text; /* a string value, or */
    const int32_t *array;   /* an array, or */
    size_t n;
    uint32_t u32;
    float f32;
    const char *tensor; /* a tensor {ne0, ne1} filled with zeros */
    uint64_t ne0, ne1;
};

static void put_extra(struct kva_gguf_writer *w, void *ctx)
{
    static const float zero[260 * 64];
    const struct extra *e = ctx;

    if (e->tensor) {
        const uint64_t ne[2] = {e->ne0, e->ne1};

        kva_gguf_put_tensor(w, e->tensor, KVA_F32, ne, e->ne1 ? 2 : 1, zero);
    } else if (e->text) {
        kva_gguf_put_str(w, e->key, e->text, strlen(e->text));
    } else if (e->array) {
        kva_gguf_put_i32s(w, e->key, e->array, e->n);
    } else if (e->f32 != 0.0f) {
        kva_gguf_put_f32(w, e->key, e->f32);
    } else {
        kva_gguf_put_u32(w, e->key, e->u32);
    }
}

static void tiny_with(struct kva_buf *b, const struct extra *e)
{
    struct extra copy = *e;

    tiny_file(b, &(struct kva_tiny_opts){.extra = put_extra, .ctx = &copy});
}

static void what_would_not_be_executed_is_refused_by_name(void **state)
{
    static const struct {
        struct extra e;
        enum kva_status code;
        const char *text;
    } c[] = {
        {{.key = "llama.rope.scaling.type", .text = "yarn"},
         KVA_EUNSUPPORTED,
         "\"yarn\""},
        {{.key = "llama.rope.scaling.type", .text = "longrope"},
         KVA_EUNSUPPORTED,
         "\"longrope\""},
        {{.key = "llama.rope.scaling.type", .u32 = 1}, KVA_EFORMAT, "not a string"},
        {{.key = "llama.attention.key_length", .text = "16"},
         KVA_EFORMAT,
         "key_length is missing or not an integer"},
        {{.key = "llama.rope.scaling.attn_factor", .f32 = -1.0f},
         KVA_EFORMAT,
         "attn_factor"},
        {{.key = "llama.rope.scaling.factor", .f32 = -2.0f},
         KVA_EFORMAT,
         "scaling.factor"},
        {{.key = "llama.expert_count", .u32 = 8}, KVA_EUNSUPPORTED, "8 experts"},
        {{.key = "llama.expert_count", .u32 = 1025}, KVA_EFORMAT, "0..1024"},
        {{.key = "llama.expert_used_count", .u32 = 2}, KVA_EFORMAT, "2 of 0 experts"},
        {{.key = "split.count", .u32 = 3}, KVA_EUNSUPPORTED, "merge"},
        {{.key = "llama.attention.key_length", .u32 = 15}, KVA_EFORMAT, "key_length"},
        {{.key = "llama.attention.key_length", .u32 = 2048}, KVA_EFORMAT, "at most 1024"},
        {{.tensor = "blk.0.attn_q.bias", .ne0 = 64},
         KVA_EUNSUPPORTED,
         "blk.0.attn_q.bias"},
        {{.tensor = "blk.1.attn_sinks.weight", .ne0 = 4}, KVA_EUNSUPPORTED, "attn_sinks"},
        {{.tensor = "blk.7.attn_norm.weight", .ne0 = 64},
         KVA_EUNSUPPORTED,
         "blk.7.attn_norm"},
        {{.tensor = "rope_factors_long.weight", .ne0 = 8},
         KVA_EUNSUPPORTED,
         "rope_factors_long"},
        {{.tensor = "output.weight", .ne0 = 64, .ne1 = 100}, KVA_EFORMAT, "{64, 100}"},
    };
    struct kva_buf b;

    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        tiny_with(&b, &c[i].e);
        refused(&b, c[i].code, c[i].text);
    }
}

static void per_layer_arrays_must_have_one_value_a_layer(void **state)
{
    static const int32_t two[] = {4, 4}, four[] = {4, 4, 4}, mixed[] = {4, 2, 4};
    static const struct {
        struct extra e;
        enum kva_status code;
        const char *text;
    } c[] = {
        {{.key = "llama.attention.head_count", .array = two, .n = 2},
         KVA_EFORMAT,
         "2 values for 3 layers"},
        {{.key = "llama.attention.head_count", .array = mixed, .n = 3},
         KVA_EUNSUPPORTED,
         "differs between layers 0 and 1 (4, 2)"},
        {{.key = "llama.attention.head_count", .array = four, .n = 3}, KVA_OK, ""},
    };
    struct kva_buf b;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        tiny_with(&b, &c[i].e);
        /* the scalar comes first in the file; the array takes its place */
        memcpy((uint8_t *)memmem(b.data, b.len, "llama.attention.head_count\4", 27) + 25,
               "X", 1);
        if (c[i].code == KVA_OK) {
            assert_true(golden_error(&b) <= 1.0);
            kva_buf_release(&b);
        } else {
            refused(&b, c[i].code, c[i].text);
        }
    }
}

/* ---- accepted, and what it does to the numbers
 * ------------------------------------------------ */

static int warnings;
static char warned[256];

static void count_warning(enum kva_log_level level, const char *text, void *ctx)
{
    (void)ctx;
    if (level == KVA_LOG_WARN) {
        warnings++;
        snprintf(warned, sizeof warned, "%s", text);
    }
}

static void a_sliding_window_is_warned_about_and_ignored(void **state)
{
    struct kva_buf b;

    (void)state;
    tiny_with(&b, &(struct extra){.key = "llama.attention.sliding_window", .u32 = 4});
    warnings = 0;
    kva_log_set(count_warning, NULL, KVA_LOG_WARN);
    assert_true(golden_error(&b) <= 1.0);
    kva_log_set(NULL, NULL, KVA_LOG_WARN);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warned, "sliding_window 4 is ignored"));
    kva_buf_release(&b);
}

/* Mistakes the golden row must notice, each by far more than the tolerance. */
static void the_golden_row_notices_planted_mistakes(void **state)
{
    struct kva_buf b;

    (void)state;
    tiny_file(&b, NULL);
    assert_true(golden_error(&b) <= 1.0);
    kva_buf_release(&b);
    tiny_file(&b, NULL);
    set_f32(&b, "llama.rope.freq_base", 1e4f);
    assert_true(golden_error(&b) > 40);
    kva_buf_release(&b);
    tiny_file(&b, NULL);
    set_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-1f);
    assert_true(golden_error(&b) > 40);
    kva_buf_release(&b);
    tiny_file(&b, &(struct kva_tiny_opts){.skip = "rope_freqs.weight"});
    assert_true(golden_error(&b) > 40);
    kva_buf_release(&b);
    tiny_with(&b, &(struct extra){.key = "llama.rope.scaling.factor", .f32 = 2.0f});
    assert_true(golden_error(&b) > 40);
    kva_buf_release(&b);
    tiny_with(&b, &(struct extra){.key = "llama.attention.scale", .f32 = 0.2f});
    assert_true(golden_error(&b) > 40);
    kva_buf_release(&b);
    tiny_with(&b, &(struct extra){.tensor = "output.weight", .ne0 = 64, .ne1 = 260});
    assert_true(golden_error(&b) > 40); /* untied: the zeros are used */
    kva_buf_release(&b);
}

static void put_factor_and_type(struct kva_gguf_writer *w, void *ctx)
{
    const char *const *type = ctx;

    kva_gguf_put_f32(w, "llama.rope.scaling.factor", 4.0f);
    kva_gguf_put_str(w, "llama.rope.scaling.type", *type, strlen(*type));
}

static void scaling_type_none_switches_the_factor_off(void **state)
{
    const char *type[] = {"none", "linear"};
    struct kva_buf b;

    (void)state;
    for (int i = 0; i < 2; i++) {
        tiny_file(&b,
                  &(struct kva_tiny_opts){.extra = put_factor_and_type, .ctx = &type[i]});
        assert_true((golden_error(&b) <= 1.0) == (i == 0));
        kva_buf_release(&b);
        tiny_with(&b, &(struct extra){.key = "llama.rope.scaling.type", .text = type[i]});
        assert_true(golden_error(&b) <= 1.0); /* the factor's default is 1 */
        kva_buf_release(&b);
    }
}

/* Row i of a head is file row 2i, row i + 8 is file row 2i + 1; seen through one product.
 */
static void rows_of_q_and_k_are_unpermuted_and_v_is_not(void **state)
{
    static const int file_order[8] = {0, 4, 1, 5,
                                      2, 6, 3, 7}; /* head of 8, models.md 3.5 */
    static const int canonical[8] = {0, 2, 4, 6,
                                     1, 3, 5, 7}; /* its inverse, what we apply */
    struct kva_model *m = open_model("builtin:tiny-llama", "ref");
    float x[64] = {0}, y[64];

    (void)state;
    for (int i = 0; i < 8; i++)
        assert_int_equal(file_order[canonical[i]], i);
    x[5] = 1.0f; /* picks column 5 of every row */
    for (int which = 0; which < 3; which++) {
        static const char *const name[] = {"blk.1.attn_q.weight", "blk.1.attn_k.weight",
                                           "blk.1.attn_v.weight"};
        const struct kva_layer *l = &m->arch.layer[1];
        struct kva_weight *w = which == 0 ? l->q : which == 1 ? l->k : l->v;
        int rows = which == 0 ? 64 : 32;

        m->ops->matmul(m->ops, w, x, 1, y, rows);
        for (int r = 0; r < rows; r++) {
            int h = r / 16, i = r % 16;
            int file = which == 2 ? r : h * 16 + (i < 8 ? 2 * i : 2 * (i - 8) + 1);
            float want =
                (float)(2.4 / 8.0 * kva_tiny_unit(name[which], (uint64_t)file * 64 + 5));

            assert_true(y[r] == want);
        }
    }
    kva_model_close(m);
}

static void frequencies_follow_theta_scale_and_factors(void **state)
{
    static const float factors[4] = {1, 2, 4, 8};
    struct kva_arch a;
    const float *f;

    (void)state;
    kva_arch_init(&a, "test");
    /* models.md 4.2: hd 8, theta 10000, position 1: angles 1, 0.1, 0.01, 0.001 */
    OK(kva_arch_inv_freq(&a, 10000.0, 8, 1.0, NULL, &f, err));
    for (int i = 0; i < 4; i++)
        assert_true(fabs((double)f[i] - pow(10.0, -i)) < 1e-8);
    OK(kva_arch_inv_freq(&a, 10000.0, 8, 4.0, factors, &f, err));
    for (int i = 0; i < 4; i++)
        assert_true(fabs((double)f[i] - pow(10.0, -i) / 4.0 / (double)factors[i]) < 1e-8);
    /* retrieval-model.md 1: theta = 2^80 over 64 dims gives 2^(-2.5 i) */
    OK(kva_arch_inv_freq(&a, 0x1p80, 64, 1.0, NULL, &f, err));
    assert_true(f[0] == 1.0f && f[2] == 0.03125f);
    assert_true(fabs((double)f[1] - 0.176777) < 1e-6 &&
                fabs((double)f[3] - 0.00552427) < 1e-8);
    kva_arch_release(&a, NULL);
}

/* A fused attn_qkv tensor (Q rows, K rows, V rows) gives the model of three. */
static void put_fused(struct kva_gguf_writer *w, void *ctx)
{
    static float data[128 * 64];
    static const char *const part[] = {"attn_q", "attn_k", "attn_v"};
    static const int rows[] = {64, 32, 32};
    const uint64_t ne[2] = {64, 128};
    size_t n = 0;
    char name[64];

    (void)ctx;
    for (int p = 0; p < 3; p++) {
        snprintf(name, sizeof name, "blk.0.%s.weight", part[p]);
        for (int i = 0; i < rows[p] * 64; i++)
            data[n++] = (float)(2.4 / 8.0 * kva_tiny_unit(name, (uint64_t)i));
    }
    kva_gguf_put_tensor(w, "blk.0.attn_qkv.weight", KVA_F32, ne, 2, data);
}

static void a_fused_qkv_tensor_gives_the_same_model(void **state)
{
    struct kva_buf b;

    (void)state;
    /* the separate ones stay in the file, but blk.0.attn_k is broken: it must not be read
     */
    tiny_file(&b,
              &(struct kva_tiny_opts){.extra = put_fused, .skip = "blk.0.attn_k.weight"});
    assert_true(golden_error(&b) <= 1.0);
    kva_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_architectures_are_refused_with_the_list),
        cmocka_unit_test(missing_keys_are_named),
        cmocka_unit_test(counts_out_of_range_are_refused),
        cmocka_unit_test(numbers_that_are_not_finite_and_positive_are_refused),
        cmocka_unit_test(shapes_are_compared_and_both_are_printed),
        cmocka_unit_test(what_would_not_be_executed_is_refused_by_name),
        cmocka_unit_test(per_layer_arrays_must_have_one_value_a_layer),
        cmocka_unit_test(a_sliding_window_is_warned_about_and_ignored),
        cmocka_unit_test(the_golden_row_notices_planted_mistakes),
        cmocka_unit_test(scaling_type_none_switches_the_factor_off),
        cmocka_unit_test(rows_of_q_and_k_are_unpermuted_and_v_is_not),
        cmocka_unit_test(frequencies_follow_theta_scale_and_factors),
        cmocka_unit_test(a_fused_qkv_tensor_gives_the_same_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
