/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_model.c - opening by name and by path, facts, hashes, and the tiny model's recipe.
 */
#include "tests/models/engine_test.h"

#include <unistd.h>

static void the_recipe_of_tiny_weights_is_the_published_one(void **state)
{
    static const double u[4] = {0.6365312337875366, -0.44955432415008545,
                                0.898058295249939, -0.6448071002960205};
    const char *name = "blk.0.attn_q.weight";

    (void)state;
    assert_true(kva_fnv1a64_str(name) == 0xb2d88a5454e26c3bULL);
    assert_true(kva_mix64(kva_fnv1a64_str(name)) == 0xd179db19133e6a5dULL);
    for (uint64_t i = 0; i < 4; i++)
        assert_true(kva_tiny_unit(name, i) == u[i]);
}

static void the_tiny_model_says_what_it_is(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    const struct kva_model_info *i = kva_model_info(m);
    const struct kva_tokenizer *t = kva_model_tokenizer(m);

    (void)state;
    assert_string_equal(i->name, "builtin:tiny-llama");
    assert_string_equal(i->arch, "llama");
    assert_string_equal(i->wtype, "F32");
    assert_int_equal(i->layers, 3);
    assert_int_equal(i->dim, 64);
    assert_int_equal(i->heads, 4);
    assert_int_equal(i->kv_heads, 2);
    assert_int_equal(i->head_dim, 16);
    assert_int_equal(i->v_dim, 16);
    assert_int_equal(i->ffn, 96);
    assert_int_equal(i->vocab, 260);
    assert_int_equal(i->ctx_train, 8192);
    /* embedding, per layer q k v o and three of the FFN and two norms, output norm,
     * factors */
    assert_int_equal(i->params,
                     260 * 64 + 3 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 96 + 2 * 64) +
                         64 + 8);
    assert_true(i->weight_bytes >= i->params * 4 - 64);
    assert_true(i->file_bytes > i->params * 4);
    assert_true(kva_model_score_scale(m) == 0.25f);
    assert_string_equal(kva_model_ops(m)->numerics, "f32");
    assert_string_equal(kva_model_chat(m)->family, "none");
    assert_int_equal(kva_tokenizer_size(t), 260);
    assert_int_equal(kva_tokenizer_bos(t), 256);
    assert_true(kva_tokenizer_is_eog(t, 257));
    assert_false(kva_tokenizer_is_eog(t, 256));
    kva_model_close(m);
}

static void the_tiny_vocabulary_merges_th_and_the(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    static const int32_t want[] = {259, 32, 258, 105, 110, 103, 10};
    struct kva_tokenizer *t = NULL;
    struct kva_tokens out = {0};
    struct kva_buf text;

    (void)state;
    OK(kva_tokenizer_clone(kva_model_tokenizer(m), &t, err));
    OK(kva_tokenizer_encode(t, "the thing\n", 10, false, &out, err));
    assert_int_equal(out.n, 7);
    assert_memory_equal(out.id, want, sizeof want);
    kva_buf_init(&text, 0);
    OK(kva_tokenizer_decode(t, out.id, out.n, &text, err));
    assert_string_equal(text.data, "the thing\n");
    kva_buf_release(&text);
    kva_tokens_release(&out);
    kva_tokenizer_free(t);
    kva_model_close(m);
}

/* The same bytes from a file: same facts, same hash as sha256 of the bytes, same logits.
 */
static void a_file_and_the_builtin_are_the_same_model(void **state)
{
    char path[] = "/tmp/kva-test-model-XXXXXX";
    int fd = mkstemp(path);
    struct kva_model *a = open_model("builtin:tiny-llama", "f32"), *b;
    struct kva_session *sa, *sb;
    struct kva_buf file;
    uint8_t ha[32], hb[32], want[32];
    float la[TINY_VOCAB], lb[TINY_VOCAB];
    int32_t id = 11;

    (void)state;
    assert_true(fd >= 0);
    kva_buf_init(&file, 0);
    OK(kva_tiny_build(NULL, &file, err));
    OK(kva_write_file(path, file.data, file.len, err));
    b = open_model(path, "f32");
    kva_sha256_of(file.data, file.len, want);
    OK(kva_model_sha256(a, ha, err));
    OK(kva_model_sha256(b, hb, err));
    assert_memory_equal(ha, want, 32);
    assert_memory_equal(hb, want, 32);
    assert_int_equal(kva_model_info(b)->file_bytes, file.len);
    assert_string_equal(kva_model_info(b)->name, "tiny-llama");
    sa = open_session(a, KVA_F16, 0);
    sb = open_session(b, KVA_F16, 0);
    feed(a, sa, &id, 1, 1, la);
    feed(b, sb, &id, 1, 1, lb);
    assert_memory_equal(la, lb, sizeof la);
    kva_session_free(sa);
    kva_session_free(sb);
    kva_model_close(a);
    kva_model_close(b);
    kva_buf_release(&file);
    close(fd);
    unlink(path);
}

static void weights_that_are_not_finite_are_found_where_asked_for(void **state)
{
    char path[] = "/tmp/kva-test-model-XXXXXX";
    const float inf = INFINITY;
    const struct kva_gguf_tensor *t;
    struct kva_model *m = NULL;
    struct kva_error e = {0};
    struct kva_gguf *g;
    struct kva_buf file;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    kva_buf_init(&file, 0);
    OK(kva_tiny_build(NULL, &file, err));
    OK(kva_gguf_parse(file.data, file.len, "tiny", &g, err));
    t = kva_gguf_find(g, "output_norm.weight");
    memcpy(file.data + ((const char *)t->data - file.data), &inf, sizeof inf);
    kva_gguf_close(g);
    OK(kva_write_file(path, file.data, file.len, err));
    kva_model_close(open_model(path, "f32"));
    assert_int_equal(
        kva_model_open(path, &(struct kva_model_opts){.check_tensors = true}, &m, &e),
        KVA_EFORMAT);
    assert_non_null(strstr(e.text, "output_norm.weight"));
    kva_buf_release(&file);
    close(fd);
    unlink(path);
}

static void what_cannot_be_opened_is_said(void **state)
{
    struct kva_model *m = NULL;
    struct kva_error e = {0};

    (void)state;
    assert_int_equal(kva_model_open("builtin:retreival", NULL, &m, &e), KVA_EINVALID);
    assert_non_null(strstr(e.text, "builtin:retrieval"));
    e = (struct kva_error){0};
    assert_int_equal(kva_model_open("/nonexistent/x.gguf", NULL, &m, &e), KVA_EIO);
    assert_non_null(strstr(e.text, "/nonexistent/x.gguf"));
    e = (struct kva_error){0};
    assert_int_equal(kva_model_open("builtin:tiny-llama",
                                    &(struct kva_model_opts){.numerics = "bf16"}, &m, &e),
                     KVA_EUNSUPPORTED);
    assert_non_null(strstr(e.text, "bf16 products are those of a device"));
    e = (struct kva_error){0};
    assert_int_equal(kva_model_open("builtin:tiny-llama",
                                    &(struct kva_model_opts){.chat = "smollm3"}, &m, &e),
                     KVA_EINVALID);
    assert_non_null(strstr(e.text, "smollm2"));
    e = (struct kva_error){0};
    assert_int_equal(kva_model_open("builtin:retrieval",
                                    &(struct kva_model_opts){.chat = "nope"}, &m, &e),
                     KVA_EINVALID);
    assert_null(m);
}

/* Every allocation of opening fails once: KVA_ENOMEM, nothing leaked. */
static void out_of_memory_while_opening_is_a_result(void **state)
{
    static const char *const path[] = {"builtin:tiny-llama", "builtin:retrieval"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        long n, step = i ? 1 : 7;

        for (n = 1; n < 20000; n += step) {
            struct kva_model *m = NULL;
            struct kva_error e = {0};
            enum kva_status rc;

            kva_alloc_fail_at(n);
            rc = kva_model_open(path[i], NULL, &m, &e);
            kva_alloc_fail_at(0);
            kva_model_close(m);
            if (rc == KVA_OK)
                break;
            assert_int_equal(rc, KVA_ENOMEM);
        }
        assert_true(n > 5 && n < 20000);
    }
}

static void threads_change_no_bit(void **state)
{
    float want[TINY_TOKENS * TINY_VOCAB], have[TINY_TOKENS * TINY_VOCAB];
    int32_t ids[TINY_TOKENS];

    (void)state;
    tiny_ids(ids);
    for (int t = 1; t <= 3; t++) {
        struct kva_model *m = NULL;
        struct kva_session *s;

        OK(kva_model_open("builtin:tiny-llama",
                          &(struct kva_model_opts){.numerics = "f32", .threads = t}, &m,
                          err));
        s = open_session(m, KVA_F16, 0);
        feed(m, s, ids, TINY_TOKENS, 24, t == 1 ? want : have);
        if (t > 1)
            assert_memory_equal(want, have, sizeof want);
        kva_session_free(s);
        kva_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_recipe_of_tiny_weights_is_the_published_one),
        cmocka_unit_test(the_tiny_model_says_what_it_is),
        cmocka_unit_test(the_tiny_vocabulary_merges_th_and_the),
        cmocka_unit_test(a_file_and_the_builtin_are_the_same_model),
        cmocka_unit_test(weights_that_are_not_finite_are_found_where_asked_for),
        cmocka_unit_test(what_cannot_be_opened_is_said),
        cmocka_unit_test(out_of_memory_while_opening_is_a_result),
        cmocka_unit_test(threads_change_no_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
