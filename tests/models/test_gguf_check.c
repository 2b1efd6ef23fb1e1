/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_gguf_check.c - the rows of models.md 1.3 about keys that no architecture can mean.
 */
#include "tests/models/gguf_test.h"

/* One llama file with a u32 key. */
static void u32_refused(const char *key, uint32_t v, const char *want)
{
    struct file f;
    file_begin(&f);
    kva_gguf_put_u32(f.w, key, v);
    file_refused(&f, KVA_EFORMAT, want);
}

static void f32_refused(const char *key, float v)
{
    struct file f;
    file_begin(&f);
    kva_gguf_put_f32(f.w, key, v);
    file_refused(&f, KVA_EFORMAT, key);
}

static void layer_counts_above_512_are_refused(void **state)
{
    (void)state;
    u32_refused("llama.block_count", 513, "513 is outside 1..512");
    u32_refused("llama.block_count", 0, "0 is outside");
    struct file f;
    file_begin(&f);
    kva_gguf_put_u32(f.w, "llama.block_count", 512);
    file_accepted(&f);
}

static void heads_kv(uint32_t h, uint32_t kv, const char *want)
{
    struct file f;
    file_begin(&f);
    kva_gguf_put_u32(f.w, "llama.attention.head_count", h);
    kva_gguf_put_u32(f.w, "llama.attention.head_count_kv", kv);
    if (want)
        file_refused(&f, KVA_EFORMAT, want);
    else
        file_accepted(&f);
}

static void impossible_heads_are_refused(void **state)
{
    (void)state;
    heads_kv(9, 3, NULL);
    heads_kv(0, 3, "0 heads");
    heads_kv(9, 0, "9 query heads cannot share 0 KV heads");
    heads_kv(9, 2, "9 query heads cannot share 2 KV heads");
    u32_refused("llama.attention.key_length", 63, "a head of 63 dimensions");
    u32_refused("llama.attention.key_length", 1026, "a head of 1026 dimensions");
    u32_refused("llama.attention.value_length", 0, "a head of 0 dimensions");
    u32_refused("llama.rope.dimension_count", 33, "33 rotated dimensions");
    struct file f;
    file_begin(&f);
    kva_gguf_put_u32(f.w, "llama.attention.key_length", 64);
    kva_gguf_put_u32(f.w, "llama.rope.dimension_count", 66);
    file_refused(&f, KVA_EFORMAT, "66 rotated dimensions in a head of 64");
    file_begin(&f);
    kva_gguf_put_u32(f.w, "llama.embedding_length", 10);
    kva_gguf_put_u32(f.w, "llama.attention.head_count", 2);
    file_refused(&f, KVA_EFORMAT, "a head of 5 dimensions");
    file_begin(&f);
    kva_gguf_put_u32(f.w, "llama.embedding_length", 128);
    kva_gguf_put_u32(f.w, "llama.attention.head_count", 2);
    kva_gguf_put_u32(f.w, "llama.rope.dimension_count", 66);
    file_refused(&f, KVA_EFORMAT, "66 rotated dimensions in a head of 64");
}

static void per_layer_arrays_match_the_layer_count(void **state)
{
    (void)state;
    static const int32_t three[3] = {8, 8, 8};
    static const char *const keys[] = {"llama.feed_forward_length",
                                       "llama.attention.head_count",
                                       "llama.attention.sliding_window_pattern"};
    for (int i = 0; i < 3; i++) {
        struct file f;
        file_begin(&f);
        kva_gguf_put_u32(f.w, "llama.block_count", 2);
        kva_gguf_put_i32s(f.w, keys[i], three, 3);
        file_refused(&f, KVA_EFORMAT, "3 values for 2 layers");
        file_begin(&f);
        kva_gguf_put_u32(f.w, "llama.block_count", 3);
        kva_gguf_put_i32s(f.w, keys[i], three, 3);
        file_accepted(&f);
    }
}

static void reals_must_be_finite_and_positive(void **state)
{
    (void)state;
    float inf = 1e30f * 1e30f;
    f32_refused("llama.attention.layer_norm_rms_epsilon", 0);
    f32_refused("llama.attention.layer_norm_rms_epsilon", -1e-5f);
    f32_refused("llama.rope.freq_base", inf);
    f32_refused("llama.rope.freq_base", inf - inf);
    f32_refused("llama.rope.freq_base_swa", 0);
    f32_refused("llama.rope.scaling.factor", 0);
    f32_refused("llama.attn_logit_softcapping", -1);
    f32_refused("llama.final_logit_softcapping", inf);
    struct file f;
    file_begin(&f);
    kva_gguf_put_f32(f.w, "llama.attn_logit_softcapping", 0);
    file_accepted(&f);
}

static void experts_are_bounded(void **state)
{
    (void)state;
    u32_refused("llama.expert_count", 1025, "1025 is outside");
    struct file f;
    file_begin(&f);
    kva_gguf_put_u32(f.w, "llama.expert_count", 4);
    kva_gguf_put_u32(f.w, "llama.expert_used_count", 5);
    file_refused(&f, KVA_EFORMAT, "5 of 4 experts used");
}

static void the_vocabulary_matches_the_embedding(void **state)
{
    (void)state;
    static const char *const words[] = {"a", "b", "c"};
    static const int32_t types[2] = {1, 1};
    const uint64_t ne[2] = {1, 2};
    const float x[2] = {0};
    struct file f;
    file_begin(&f);
    kva_gguf_put_strs(f.w, "tokenizer.ggml.tokens", words, NULL, 3);
    kva_gguf_put_tensor(f.w, "token_embd.weight", KVA_F32, ne, 2, x);
    file_refused(&f, KVA_EFORMAT, "3 tokens, token_embd.weight has 2 rows");
    file_begin(&f);
    kva_gguf_put_strs(f.w, "tokenizer.ggml.tokens", words, NULL, 3);
    kva_gguf_put_i32s(f.w, "tokenizer.ggml.token_type", types, 2);
    file_refused(&f, KVA_EFORMAT, "2 values for 3 tokens");
}

static void a_part_of_a_split_model_is_refused(void **state)
{
    (void)state;
    struct file f;
    file_begin(&f);
    kva_gguf_put_u32(f.w, "split.count", 2);
    file_refused(&f, KVA_EUNSUPPORTED, "merge them into one file first");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_counts_above_512_are_refused),
        cmocka_unit_test(impossible_heads_are_refused),
        cmocka_unit_test(per_layer_arrays_match_the_layer_count),
        cmocka_unit_test(reals_must_be_finite_and_positive),
        cmocka_unit_test(experts_are_bounded),
        cmocka_unit_test(the_vocabulary_matches_the_embedding),
        cmocka_unit_test(a_part_of_a_split_model_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
