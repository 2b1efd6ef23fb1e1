/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_gguf.c - the worked file of models.md 1.2, the container's rows of 1.3,
 * truncation. */
#include "tests/models/gguf_test.h"

static const uint8_t worked[136] = {
    0x47, 0x47, 0x55, 0x46, 0x03, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x67, 0x65, 0x6e, 0x65, 0x72, 0x61, 0x6c, 0x2e, 0x61, 0x72,
    0x63, 0x68, 0x69, 0x74, 0x65, 0x63, 0x74, 0x75, 0x72, 0x65, 0x08, 0x00, 0x00, 0x00,
    0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x6c, 0x6c, 0x61, 0x6d, 0x61, 0x01,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x74, 0x01, 0x00, 0x00, 0x00, 0x02, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0xc0};

/* Where the fields of the worked file lie. */
enum {
    AT_VERSION = 4,
    AT_TENSORS = 8,
    AT_KVS = 16,
    AT_KEY_LEN = 24,
    AT_VALUE_TYPE = 52,
    AT_VALUE_LEN = 56,
    AT_NAME_LEN = 69,
    AT_NAME = 77,
    AT_DIMS = 78,
    AT_NE = 82,
    AT_TYPE = 90,
    AT_OFFSET = 94,
};

static void patched(int at, uint64_t v, int bytes, enum kva_status code, const char *want)
{
    uint8_t copy[sizeof worked];
    memcpy(copy, worked, sizeof copy);
    put(copy + at, v, bytes);
    refused(copy, sizeof copy, code, want);
}

static void the_worked_file_reads_as_written(void **state)
{
    (void)state;
    struct kva_error err = {0};
    struct kva_gguf *g;
    assert_int_equal(kva_gguf_parse(worked, sizeof worked, "w", &g, &err), KVA_OK);
    const char *s;
    size_t n;
    assert_true(kva_gguf_str(g, "general.architecture", &s, &n));
    assert_int_equal(n, 5);
    assert_memory_equal(s, "llama", 5);
    assert_int_equal(kva_gguf_tensors(g), 1);
    const struct kva_gguf_tensor *t = kva_gguf_tensor_at(g, 0);
    assert_string_equal(t->name, "t");
    assert_int_equal(t->n_dims, 1);
    assert_int_equal(t->ne[0], 2);
    assert_int_equal(t->ne[1], 1);
    assert_int_equal(t->ne[3], 1);
    assert_int_equal(t->type, KVA_F32);
    assert_int_equal(t->n_elements, 2);
    assert_int_equal(t->n_bytes, 8);
    float y[2];
    kva_dequant(t->type, t->data, 2, y);
    assert_true(y[0] == 1.0f && y[1] == -2.0f);
    assert_ptr_equal(kva_gguf_find(g, "t"), t);
    assert_null(kva_gguf_find(g, "u"));
    assert_null(kva_gguf_tensor_at(g, 1));
    assert_null(kva_gguf_tensor_at(g, -1));
    assert_int_equal(kva_gguf_file_bytes(g), 136);
    int64_t i;
    assert_false(kva_gguf_i64(g, "general.architecture", &i));
    assert_false(kva_gguf_i64(g, "absent", &i));
    assert_int_equal(kva_gguf_array_len(g, "general.architecture"), -1);
    kva_gguf_close(g);
    kva_gguf_close(NULL);
}

static void the_worked_file_opens_from_disk(void **state)
{
    (void)state;
    char path[] = "/tmp/kva-gguf-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, worked, sizeof worked), sizeof worked);
    struct kva_error err = {0};
    struct kva_gguf *g;
    assert_int_equal(kva_gguf_open(path, &g, &err), KVA_OK);
    assert_int_equal(kva_gguf_tensors(g), 1);
    kva_gguf_close(g);
    assert_int_equal(ftruncate(fd, 10), 0);
    assert_int_equal(kva_gguf_open(path, &g, &err), KVA_EFORMAT);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(kva_gguf_open(path, &g, NULL), KVA_EFORMAT);
    close(fd);
    unlink(path);
    err = (struct kva_error){0};
    assert_int_equal(kva_gguf_open(path, &g, &err), KVA_EIO);
    assert_non_null(strstr(err.text, "No such file"));
    assert_int_equal(kva_gguf_open("/tmp", &g, NULL), KVA_EIO);
}

static void truncation_at_every_byte_is_an_error(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof worked; n++)
        refused(worked, n, KVA_EFORMAT, "file.gguf: ");
}

static void a_bad_header_is_refused(void **state)
{
    (void)state;
    refused("GGUF", 4, KVA_EFORMAT, "4 bytes are too few");
    patched(0, 'X', 1, KVA_EFORMAT, "not a GGUF file");
    patched(AT_VERSION, 1, 4, KVA_EUNSUPPORTED, "version 1 ");
    patched(AT_VERSION, 4, 4, KVA_EUNSUPPORTED, "version 4 ");
    patched(AT_VERSION, 3u << 24, 4, KVA_EUNSUPPORTED, "big-endian");
    uint8_t copy[sizeof worked];
    memcpy(copy, worked, sizeof copy);
    put(copy + AT_VERSION, 2, 4);
    struct kva_gguf *g;
    assert_int_equal(kva_gguf_parse(copy, sizeof copy, "v2", &g, NULL), KVA_OK);
    kva_gguf_close(g);
}

static void counts_beyond_the_file_are_refused_before_allocating(void **state)
{
    (void)state;
    patched(AT_KVS, 9, 8, KVA_EFORMAT, "header: 9 keys");
    patched(AT_KVS, UINT64_MAX, 8, KVA_EFORMAT, "keys do not fit");
    patched(AT_TENSORS, 5, 8, KVA_EFORMAT, "header: 5 tensors");
    patched(AT_TENSORS, 1ull << 63, 8, KVA_EFORMAT, "tensors do not fit");
}

static void strings_and_keys_are_bounded(void **state)
{
    (void)state;
    patched(AT_KEY_LEN, 0, 8, KVA_EFORMAT, "key 0: the name is empty");
    patched(AT_KEY_LEN, 105, 8, KVA_EFORMAT, "key 0: the name runs past");
    patched(AT_KEY_LEN, UINT64_MAX, 8, KVA_EFORMAT, "key 0: the name runs past");
    patched(AT_VALUE_LEN, 73, 8, KVA_EFORMAT,
            "key 0 'general.architecture': the string runs past");
    patched(AT_VALUE_LEN, UINT64_MAX - 3, 8, KVA_EFORMAT, "the string runs past");
    patched(AT_VALUE_TYPE, 13, 4, KVA_EFORMAT, "unknown value type 13");
    patched(AT_NAME_LEN, 64, 8, KVA_EFORMAT, "tensor 0: the name runs past");
}

static void tensor_shapes_and_types_are_checked(void **state)
{
    (void)state;
    patched(AT_NAME, 0, 1, KVA_EFORMAT, "zero byte");
    patched(AT_DIMS, 0, 4, KVA_EFORMAT, "tensor 0 't': 0 dimensions");
    patched(AT_DIMS, 5, 4, KVA_EFORMAT, "tensor 0 't': 5 dimensions");
    patched(AT_NE, UINT64_MAX, 8, KVA_EFORMAT, "dimension 0 is -1");
    patched(AT_NE, 0, 8, KVA_EFORMAT, "dimension 0 is 0");
    patched(AT_NE, 3, 8, KVA_EFORMAT, "the data (12 bytes at offset 0) runs past");
    patched(AT_NE, 1ull << 62, 8, KVA_EFORMAT, "the size overflows");
    patched(AT_TYPE, KVA_Q4_1, 4, KVA_EFORMAT, "no whole number of Q4_1 blocks");
    patched(AT_TYPE, 10, 4, KVA_EUNSUPPORTED,
            "tensor 0 't': type Q2_K (id 10) is not supported");
    patched(AT_TYPE, 26, 4, KVA_EUNSUPPORTED, "type I32");
    patched(AT_TYPE, 4, 4, KVA_EUNSUPPORTED, "type unknown (id 4)");
    patched(AT_OFFSET, 4, 8, KVA_EFORMAT, "offset 4 is no multiple of the alignment 32");
    patched(AT_OFFSET, 32, 8, KVA_EFORMAT, "runs past the end");
    patched(AT_OFFSET, UINT64_MAX - 31, 8, KVA_EFORMAT, "runs past the end");
}

static void duplicate_names_are_refused(void **state)
{
    (void)state;
    struct file f;
    file_begin(&f);
    kva_gguf_put_u32(f.w, "x", 1);
    kva_gguf_put_u32(f.w, "x", 2);
    file_refused(&f, KVA_EFORMAT, "key 2 'x': the name occurs twice");
    file_begin(&f);
    const uint64_t ne[1] = {1};
    const float one = 1;
    kva_gguf_put_tensor(f.w, "t", KVA_F32, ne, 1, &one);
    kva_gguf_put_tensor(f.w, "t", KVA_F32, ne, 1, &one);
    file_refused(&f, KVA_EFORMAT, "tensor 1 't': the name occurs twice");
}

static void long_names_are_refused(void **state)
{
    (void)state;
    char name[70000];
    memset(name, 'k', sizeof name);
    name[65536] = '\0';
    struct file f;
    file_begin(&f);
    kva_gguf_put_u32(f.w, name, 1);
    file_refused(&f, KVA_EFORMAT, "key 1: the name has 65536 bytes");
    name[65535] = '\0';
    file_begin(&f);
    kva_gguf_put_u32(f.w, name, 1);
    file_accepted(&f);

    /* 64 bytes: the worked file with a longer tensor name */
    uint8_t copy[sizeof worked + 63 + 32];
    memset(copy, 0, sizeof copy);
    memcpy(copy, worked, AT_NAME);
    put(copy + AT_NAME_LEN, 64, 8);
    memset(copy + AT_NAME, 'n', 64);
    memcpy(copy + AT_NAME + 64, worked + AT_DIMS, 24);
    refused(copy, sizeof copy, KVA_EFORMAT, "the name has 64 bytes");
}

/* A file whose only key is an array written by hand. */
static void array_refused(uint32_t elem_type, uint64_t count, const void *data, size_t n,
                          const char *want)
{
    uint8_t b[256] = "GGUF";
    put(b + 4, 3, 4);
    put(b + 16, 1, 8);
    put(b + 24, 1, 8);
    b[32] = 'a';
    put(b + 33, 9, 4);
    put(b + 37, elem_type, 4);
    put(b + 41, count, 8);
    memcpy(b + 49, data, n);
    refused(b, 49 + n, KVA_EFORMAT, want);
}

static void arrays_are_bounded(void **state)
{
    (void)state;
    static const uint8_t zeros[64];
    array_refused(9, 1, zeros, 40, "arrays of arrays");
    array_refused(13, 1, zeros, 40, "unknown element type");
    array_refused(4, 11, zeros, 40, "longer than the file");
    array_refused(10, 1ull << 61, zeros, 40, "longer than the file");
    array_refused(8, 6, zeros, 40, "longer than the file");
    array_refused(7, 2, "\0\2", 2, "neither 0 nor 1");
    uint8_t strings[24] = {4};
    array_refused(8, 2, strings, 16, "a string of the array runs past");
    array_refused(4, 1, zeros, 3, "longer than the file");
    array_refused(4, UINT64_MAX, zeros, 3, "longer than the file");
}

static void a_bool_must_be_zero_or_one(void **state)
{
    (void)state;
    uint8_t b[64] = "GGUF";
    put(b + 4, 3, 4);
    put(b + 16, 1, 8);
    put(b + 24, 1, 8);
    b[32] = 'a';
    put(b + 33, 7, 4);
    b[37] = 2;
    refused(b, 38, KVA_EFORMAT, "key 0 'a': a bool is neither 0 nor 1");
    refused(b, 37, KVA_EFORMAT, "the value runs past");
    refused(b, 36, KVA_EFORMAT, "header: 1 keys");
    b[37] = 1;
    struct kva_gguf *g;
    assert_int_equal(kva_gguf_parse(b, 38, "b", &g, NULL), KVA_OK);
    bool v = false;
    assert_true(kva_gguf_bool(g, "a", &v));
    assert_true(v);
    kva_gguf_close(g);
}

/* Files differ in the width they give the same key. */
static void numbers_of_every_width_are_read(void **state)
{
    static const struct {
        uint32_t type;
        int bytes;
        uint64_t bits;
        bool integer;
        int64_t want;
    } c[] = {
        {0, 1, 0xff, true, 255},
        {1, 1, 0xff, true, -1},
        {2, 2, 0xfffe, true, 65534},
        {3, 2, 0xfffe, true, -2},
        {4, 4, 0xfffffffd, true, 4294967293},
        {5, 4, 0xfffffffd, true, -3},
        {10, 8, INT64_MAX, true, INT64_MAX},
        {10, 8, (uint64_t)INT64_MAX + 1, false, 0}, /* no int64 */
        {11, 8, (uint64_t)-4, true, -4},
        {6, 4, 0xc0a00000, false, -5}, /* f32 */
        {7, 1, 1, false, 0},           /* bool */
        {12, 8, 0xc018000000000000, false, -6},
    };

    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        uint8_t file[24 + 8 + 1 + 4 + 8] = "GGUF";
        struct kva_gguf *g;
        int64_t v = 0;
        double x = 0;

        put(file + 4, 3, 4);
        put(file + 16, 1, 8);
        put(file + 24, 1, 8);
        file[32] = 'n';
        put(file + 33, c[i].type, 4);
        put(file + 37, c[i].bits, c[i].bytes);
        assert_int_equal(kva_gguf_parse(file, 37 + (size_t)c[i].bytes, "w", &g, NULL),
                         KVA_OK);
        assert_true(kva_gguf_has(g, "n") && !kva_gguf_has(g, "m"));
        assert_int_equal(kva_gguf_i64(g, "n", &v), c[i].integer);
        assert_int_equal(kva_gguf_f64(g, "n", &x), c[i].integer || c[i].want != 0);
        assert_true(!c[i].integer || v == c[i].want);
        assert_true(x == (double)c[i].want);
        kva_gguf_close(g);
    }
}

static void the_alignment_must_be_a_sane_power_of_two(void **state)
{
    (void)state;
    const char *key = "general.alignment";
    struct file f;
    static const uint32_t bad[] = {0, 24, 1u << 21};
    for (int i = 0; i < 3; i++) {
        uint8_t b[64] = "GGUF";
        put(b + 4, 3, 4);
        put(b + 16, 1, 8);
        put(b + 24, 17, 8);
        memcpy(b + 32, key, 17);
        put(b + 49, 4, 4);
        put(b + 53, bad[i], 4);
        refused(b, 57, KVA_EFORMAT, "key 'general.alignment'");
    }
    file_begin(&f);
    kva_gguf_put_i32(f.w, key, 32);
    file_refused(&f, KVA_EFORMAT, "the type must be u32");
    file_begin(&f);
    kva_gguf_put_u32(f.w, key, 256);
    const uint64_t ne[1] = {1};
    const float one = 1;
    kva_gguf_put_tensor(f.w, "a", KVA_F32, ne, 1, &one);
    kva_gguf_put_tensor(f.w, "b", KVA_F32, ne, 1, &one);
    file_end(&f);
    struct kva_gguf *g;
    assert_int_equal(kva_gguf_parse(f.bytes.data, f.bytes.len, "a", &g, NULL), KVA_OK);
    const char *a = kva_gguf_find(g, "a")->data, *b = kva_gguf_find(g, "b")->data;
    assert_int_equal(b - a, 256);
    assert_int_equal((a - f.bytes.data) % 256, 0);
    kva_gguf_close(g);
    kva_buf_release(&f.bytes);
}

static void overlapping_tensors_are_refused(void **state)
{
    (void)state;
    struct file f;
    file_begin(&f);
    const uint64_t ne[1] = {16};
    const float x[16] = {0};
    kva_gguf_put_tensor(f.w, "first", KVA_F32, ne, 1, x);
    kva_gguf_put_tensor(f.w, "second", KVA_F32, ne, 1, x);
    file_end(&f);
    /* the offset of `second` is the last field of the table: 64 -> 32 */
    uint8_t *p = (uint8_t *)f.bytes.data;
    size_t at = 0;
    for (size_t i = 0; i + 6 < f.bytes.len; i++)
        if (memcmp(p + i, "second", 6) == 0)
            at = i + 6 + 4 + 8 + 4;
    assert_int_equal(p[at], 64);
    put(p + at, 32, 8);
    refused(p, f.bytes.len, KVA_EFORMAT,
            "tensor 1 'second': the data overlaps tensor 0 'first'");
    /* swapped places are fine: only ggml demands table order */
    put(p + at, 0, 8);
    put(p + at - 6 - 4 - 8 - 4 - 8 - 8, 64, 8);
    struct kva_gguf *g;
    assert_int_equal(kva_gguf_parse(p, f.bytes.len, "swapped", &g, NULL), KVA_OK);
    kva_gguf_close(g);
    kva_buf_release(&f.bytes);
}

static void the_number_of_elements_must_not_overflow(void **state)
{
    (void)state;
    struct file f;
    file_begin(&f);
    const uint64_t ne[4] = {1, 1, 1, 1};
    const float one = 1;
    kva_gguf_put_tensor(f.w, "tensor", KVA_F32, ne, 4, &one);
    file_end(&f);
    uint8_t *p = (uint8_t *)f.bytes.data;
    size_t at = 0;
    for (size_t i = 0; i + 6 < f.bytes.len; i++)
        if (memcmp(p + i, "tensor", 6) == 0)
            at = i + 10;
    put(p + at, 1ull << 32, 8);
    put(p + at + 8, 1ull << 31, 8);
    refused(p, f.bytes.len, KVA_EFORMAT, "the number of elements overflows");
    kva_buf_release(&f.bytes);
}

static void scales_that_are_not_finite_fail_the_tensor_check(void **state)
{
    (void)state;
    uint8_t block[40] = {0x00, 0x38};
    const uint64_t ne[2] = {32, 2};
    for (int bad = 0; bad < 2; bad++) {
        struct file f;
        file_begin(&f);
        block[20] = 0x00;
        block[21] = bad ? 0x7c : 0x38; /* second block: d = inf */
        kva_gguf_put_tensor(f.w, "blk.0.w", KVA_Q4_1, ne, 2, block);
        file_end(&f);
        struct kva_gguf *g;
        struct kva_error err = {0};
        assert_int_equal(kva_gguf_parse(f.bytes.data, f.bytes.len, "f", &g, NULL),
                         KVA_OK);
        assert_int_equal(kva_gguf_check_tensors(g, &err), bad ? KVA_EFORMAT : KVA_OK);
        if (bad)
            assert_non_null(strstr(err.text, "blk.0.w"));
        kva_gguf_close(g);
        kva_buf_release(&f.bytes);
    }
}

static void names_in_messages_are_printable(void **state)
{
    (void)state;
    uint8_t copy[sizeof worked];
    memcpy(copy, worked, sizeof copy);
    copy[32] = '\n';
    copy[33] = 0x1b;
    put(copy + AT_VALUE_TYPE, 99, 4);
    refused(copy, sizeof copy, KVA_EFORMAT, "'??neral.architecture'");
}

static void running_out_of_memory_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    struct file f;
    build_all_kinds(&f);
    for (long n = 1; n < 200; n++) {
        struct kva_gguf *g = NULL;
        struct kva_error err = {0};
        kva_alloc_fail_at(n);
        enum kva_status rc = kva_gguf_parse(f.bytes.data, f.bytes.len, "f", &g, &err);
        kva_alloc_fail_at(0);
        kva_gguf_close(g);
        if (rc == KVA_OK)
            break;
        assert_int_equal(rc, KVA_ENOMEM);
        assert_null(g);
        assert_true(n < 199);
    }
    kva_buf_release(&f.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_file_reads_as_written),
        cmocka_unit_test(the_worked_file_opens_from_disk),
        cmocka_unit_test(truncation_at_every_byte_is_an_error),
        cmocka_unit_test(a_bad_header_is_refused),
        cmocka_unit_test(counts_beyond_the_file_are_refused_before_allocating),
        cmocka_unit_test(strings_and_keys_are_bounded),
        cmocka_unit_test(tensor_shapes_and_types_are_checked),
        cmocka_unit_test(duplicate_names_are_refused),
        cmocka_unit_test(long_names_are_refused),
        cmocka_unit_test(arrays_are_bounded),
        cmocka_unit_test(a_bool_must_be_zero_or_one),
        cmocka_unit_test(numbers_of_every_width_are_read),
        cmocka_unit_test(the_alignment_must_be_a_sane_power_of_two),
        cmocka_unit_test(overlapping_tensors_are_refused),
        cmocka_unit_test(the_number_of_elements_must_not_overflow),
        cmocka_unit_test(scales_that_are_not_finite_fail_the_tensor_check),
        cmocka_unit_test(names_in_messages_are_printable),
        cmocka_unit_test(running_out_of_memory_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
