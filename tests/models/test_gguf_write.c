/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_gguf_write.c - what is written reads back, whole and never in part. */
#include "tests/models/gguf_test.h"

static void what_the_writer_wrote_is_read_back(void **state)
{
    (void)state;
    struct file f;
    build_all_kinds(&f);
    struct kva_gguf *g;
    struct kva_error err = {0};
    assert_int_equal(kva_gguf_parse(f.bytes.data, f.bytes.len, "f", &g, &err), KVA_OK);
    int64_t i;
    double d;
    bool b;
    const char *s;
    size_t n;
    assert_true(kva_gguf_i64(g, "u", &i));
    assert_int_equal(i, 4000000000ll);
    assert_true(kva_gguf_i64(g, "i", &i));
    assert_int_equal(i, -7);
    assert_true(kva_gguf_f64(g, "f", &d));
    assert_true(d == (double)0.1f);
    assert_false(kva_gguf_i64(g, "f", &i));
    assert_true(kva_gguf_bool(g, "yes", &b) && b);
    assert_true(kva_gguf_bool(g, "no", &b) && !b);
    assert_true(kva_gguf_str(g, "s", &s, &n));
    assert_int_equal(n, 3);
    assert_memory_equal(s, "a\0b", 3);
    assert_int_equal(kva_gguf_array_len(g, "words"), 3);
    assert_true(kva_gguf_array_str(g, "words", 2, &s, &n));
    assert_int_equal(n, 5);
    assert_memory_equal(s, "three", 5);
    assert_true(kva_gguf_array_str(g, "words", 1, &s, &n));
    assert_int_equal(n, 0);
    assert_false(kva_gguf_array_str(g, "words", 3, &s, &n));
    assert_false(kva_gguf_array_str(g, "ints", 0, &s, &n));
    assert_true(kva_gguf_array_i64(g, "ints", 3, &i));
    assert_int_equal(i, INT32_MIN);
    assert_true(kva_gguf_array_f64(g, "ints", 1, &d));
    assert_true(d == -1);
    assert_false(kva_gguf_array_i64(g, "ints", -1, &i));
    float y[32];
    const struct kva_gguf_tensor *t = kva_gguf_find(g, "matrix");
    assert_int_equal(t->ne[0], 3);
    assert_int_equal(t->ne[1], 2);
    kva_dequant(t->type, t->data, 6, y);
    assert_true(y[0] == 1 && y[5] == 6);
    t = kva_gguf_find(g, "quant");
    kva_dequant(t->type, t->data, 32, y);
    assert_true(y[0] == 0.5f && y[1] == -0.5f && y[2] == 0);
    kva_gguf_close(g);
    kva_buf_release(&f.bytes);
}

static void a_written_file_cut_before_its_last_value_is_refused(void **state)
{
    (void)state;
    struct file f;
    build_all_kinds(&f);
    /* the padding behind the last tensor (34 bytes, padded to 64) may be missing */
    size_t needed = f.bytes.len - 30;
    for (size_t n = 0; n < needed; n++)
        refused(f.bytes.data, n, KVA_EFORMAT, "file.gguf: ");
    struct kva_gguf *g;
    assert_int_equal(kva_gguf_parse(f.bytes.data, needed, "f", &g, NULL), KVA_OK);
    kva_gguf_close(g);
    kva_buf_release(&f.bytes);
}

static void the_writer_reports_misuse(void **state)
{
    (void)state;
    struct kva_error err = {0};
    struct kva_gguf_writer *w;
    struct kva_buf out;
    kva_buf_init(&out, 0);
    assert_int_equal(kva_gguf_writer_new(&w, NULL), KVA_OK);
    const uint64_t ne[1] = {31};
    kva_gguf_put_tensor(w, "t", KVA_Q4_0, ne, 1, "");
    assert_int_equal(kva_gguf_finish(w, &out, &err), KVA_EINVALID);
    kva_gguf_writer_free(w);
    kva_gguf_writer_free(NULL);
    kva_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_writer_wrote_is_read_back),
        cmocka_unit_test(a_written_file_cut_before_its_last_value_is_refused),
        cmocka_unit_test(the_writer_reports_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
