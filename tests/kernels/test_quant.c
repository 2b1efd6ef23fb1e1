/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_quant.c - worked blocks of models.md 2, digests of an independent implementation,
 * halves. */
#include "kernels/kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 256 };

static float y[MOST];

/* A block of `head`, filled up with `fill`. */
static void dequant(enum kva_type type, const uint8_t *head, size_t n_head, uint8_t fill)
{
    const struct kva_type_info *info = kva_type_get(type);
    uint8_t block[256];
    memset(block, fill, sizeof block);
    memcpy(block, head, n_head);
    /* unaligned on purpose */
    uint8_t *copy = malloc((size_t)info->block_bytes + 1);
    memcpy(copy + 1, block, (size_t)info->block_bytes);
    kva_dequant(type, copy + 1, (size_t)info->block_elements, y);
    assert_true(kva_dequant_check(type, copy + 1, (size_t)info->block_elements));
    free(copy);
}

#define BLOCK(type, fill, ...)                                                           \
    do {                                                                                 \
        static const uint8_t head_[] = {__VA_ARGS__};                                    \
        dequant(type, head_, sizeof head_, fill);                                        \
    } while (0)

static void is(int i, float want)
{
    if (y[i] != want)
        fail_msg("y%d is %.9g instead of %.9g", i, (double)y[i], (double)want);
}

static double total(int n)
{
    double s = 0;
    for (int i = 0; i < n; i++)
        s += (double)y[i];
    return s;
}

static void plain_types_are_copied(void **state)
{
    (void)state;
    static const float x[3] = {1.5f, -0.0f, 3e38f};
    float out[3];
    kva_dequant(KVA_F32, x, 3, out);
    assert_memory_equal(out, x, sizeof x);
    BLOCK(KVA_F16, 0, 0x00, 0xc0);
    is(0, -2.0f);
    BLOCK(KVA_BF16, 0, 0xc0, 0x3f);
    is(0, 1.5f);
    kva_dequant(KVA_F16, NULL, 0, NULL);
}

static void q8_0_worked_block(void **state)
{
    (void)state;
    BLOCK(KVA_Q8_0, 0, 0x00, 0x38, 0x01, 0xff, 0x7f, 0x80);
    is(0, 0.5f), is(1, -0.5f), is(2, 63.5f), is(3, -64);
    for (int i = 4; i < 32; i++)
        is(i, 0);
}

static void q4_0_worked_block(void **state)
{
    (void)state;
    BLOCK(KVA_Q4_0, 0x88, 0x00, 0x38, 0xf0, 0x18);
    is(0, -4), is(1, 0), is(16, 3.5f), is(17, -3.5f), is(2, 0), is(18, 0);
}

static void q4_1_worked_block(void **state)
{
    (void)state;
    BLOCK(KVA_Q4_1, 0x22, 0x00, 0x38, 0x00, 0xbc, 0xf0, 0x18);
    is(0, -1), is(1, 3), is(2, 0), is(16, 6.5f), is(17, -0.5f);
}

static void q5_0_worked_block(void **state)
{
    (void)state;
    BLOCK(KVA_Q5_0, 0, 0x00, 0x38, 0x01, 0x00, 0x01, 0x00, 0xf0, 0x18);
    is(0, 0), is(1, -4), is(2, -8), is(16, 7.5f), is(17, -7.5f), is(18, -8);
}

static void q5_1_worked_block(void **state)
{
    (void)state;
    BLOCK(KVA_Q5_1, 0, 0x00, 0x38, 0x00, 0xbc, 0x02, 0x00, 0x00, 0x80, 0xf0, 0x18);
    is(0, -1), is(1, 11), is(2, -1), is(16, 6.5f), is(17, -0.5f), is(31, 7);
}

/* Scales and quants of the Q4_K and Q5_K examples. */
static void k_block(uint8_t *b, uint8_t *qs)
{
    static const uint8_t head[16] = {0x00, 0x38, 0x00, 0x34, 0x41, 0x82, 0xc3, 0x04,
                                     0x45, 0x06, 0x07, 0x08, 0x12, 0x34, 0x56, 0x78};
    memcpy(b, head, 16);
    for (int k = 0; k < 128; k++)
        qs[k] = (uint8_t)((k % 16) | (15 - k % 16) << 4);
}

static void q4_k_worked_block(void **state)
{
    (void)state;
    uint8_t b[144];
    k_block(b, b + 16);
    dequant(KVA_Q4_K, b, sizeof b, 0);
    is(0, -1.25f), is(1, -0.75f), is(31, 6.25f), is(32, 13.5f), is(64, -1.75f),
        is(96, 28);
    is(128, -4.25f), is(160, 269.25f), is(224, 58.25f), is(255, -1.75f);
    assert_true(total(256) == 14656);
}

static void q5_k_worked_block(void **state)
{
    (void)state;
    uint8_t b[176] = {0};
    k_block(b, b + 48);
    b[16] = 0x01, b[17] = 0x02, b[18] = 0x80;
    dequant(KVA_Q5_K, b, sizeof b, 0);
    is(0, 6.75f), is(1, -0.75f), is(33, 28.5f), is(226, 114.25f);
    assert_true(total(256) == 14744);
}

static void q6_k_worked_block(void **state)
{
    (void)state;
    static const int8_t sc[16] = {1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, 9, 10, 11, 12};
    uint8_t b[210];
    for (int k = 0; k < 128; k++)
        b[k] = (uint8_t)((k % 16) | (15 - k % 16) << 4);
    memset(b + 128, 0xe4, 64);
    memcpy(b + 192, sc, 16);
    b[208] = 0x00, b[209] = 0x38;
    dequant(KVA_Q6_K, b, sizeof b, 0);
    is(0, -16), is(16, -32), is(32, -24), is(64, 37.5f), is(96, 108.5f), is(128, 16);
    is(192, 67.5f), is(224, 170.5f), is(255, 96);
    assert_true(total(256) == 8944);
}

/* Halves have 11 significant bits, quants at most 6 and scales at most 8: of all types
 * only the second product of Q6_K (11 + 8 + 6 = 25 bits) can round, so its order shows.
 */
static void q6_k_rounds_scale_times_delta_first(void **state)
{
    (void)state;
    uint8_t b[210];
    memset(b, 0xff, 192);         /* every q is 31 */
    memset(b + 192, 0x7f, 16);    /* every scale is 127 */
    b[208] = 0xff, b[209] = 0x37; /* d = 2047/4096 */
    dequant(KVA_Q6_K, b, sizeof b, 0);
    volatile float ds = kva_f16_to_f32(0x37ff) * 127.0f;
    is(0, ds * 31.0f);
    assert_true(kva_f16_to_f32(0x37ff) == 2047.0f / 4096);
}

static void fill_random(struct kva_rng *r, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t z = kva_rng_next(r);
        for (size_t k = 0; k < 8 && i + k < n; k++)
            out[i + k] = (uint8_t)(z >> (8 * k));
    }
}

static void random_blocks_equal_the_reference_to_the_bit(void **state)
{
    (void)state;
    static const struct {
        enum kva_type type;
        int high[2]; /* high bytes of the scales; -1: none */
    } scales[] = {{KVA_F32, {3, -1}},  {KVA_F16, {1, -1}},   {KVA_BF16, {1, -1}},
                  {KVA_Q8_0, {1, -1}}, {KVA_Q4_0, {1, -1}},  {KVA_Q4_1, {1, 3}},
                  {KVA_Q5_0, {1, -1}}, {KVA_Q5_1, {1, 3}},   {KVA_Q4_K, {1, 3}},
                  {KVA_Q5_K, {1, 3}},  {KVA_Q6_K, {209, -1}}};
    enum { BLOCKS = 64, TYPES = sizeof scales / sizeof *scales };
    FILE *f = fopen("tests/golden/kernels/dequant.txt", "r");
    assert_non_null(f);
    unsigned type, elements;
    char name[16];
    unsigned long long want;
    int rows = 0;
    while (fscanf(f, "%u %15s %u %llx", &type, name, &elements, &want) == 4) {
        const struct kva_type_info *info = kva_type_get(type);
        assert_non_null(info);
        assert_string_equal(info->name, name);
        assert_int_equal(elements, BLOCKS * info->block_elements);
        size_t size = (size_t)info->block_bytes;
        uint8_t *raw = malloc(BLOCKS * size);
        float *out = malloc(elements * sizeof *out);
        struct kva_rng r = {type};
        fill_random(&r, raw, BLOCKS * size);
        for (int k = 0; k < TYPES; k++)
            for (int b = 0; scales[k].type == type && b < BLOCKS; b++)
                for (int j = 0; j < 2 && scales[k].high[j] >= 0; j++)
                    raw[(size_t)b * size + (size_t)scales[k].high[j]] &= 0xbf;
        assert_true(kva_dequant_check((enum kva_type)type, raw, elements));
        kva_dequant((enum kva_type)type, raw, elements, out);
        uint64_t got = kva_fnv1a64(out, elements * sizeof *out);
        if (got != want)
            fail_msg("%s: digest %016llx instead of %016llx", name,
                     (unsigned long long)got, want);
        free(raw);
        free(out);
        rows++;
    }
    fclose(f);
    assert_int_equal(rows, TYPES);
}

static void types_have_their_published_sizes(void **state)
{
    (void)state;
    static const struct {
        enum kva_type type;
        const char *name;
        int elements, bytes;
    } want[] = {{KVA_F32, "F32", 1, 4},       {KVA_F16, "F16", 1, 2},
                {KVA_BF16, "BF16", 1, 2},     {KVA_Q8_0, "Q8_0", 32, 34},
                {KVA_Q4_0, "Q4_0", 32, 18},   {KVA_Q4_1, "Q4_1", 32, 20},
                {KVA_Q5_0, "Q5_0", 32, 22},   {KVA_Q5_1, "Q5_1", 32, 24},
                {KVA_Q4_K, "Q4_K", 256, 144}, {KVA_Q5_K, "Q5_K", 256, 176},
                {KVA_Q6_K, "Q6_K", 256, 210}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const struct kva_type_info *info = kva_type_get(want[i].type);
        assert_string_equal(info->name, want[i].name);
        assert_int_equal(info->block_elements, want[i].elements);
        assert_int_equal(info->block_bytes, want[i].bytes);
        assert_string_equal(kva_type_name(want[i].type), want[i].name);
    }
}

static void unsupported_types_still_have_names(void **state)
{
    (void)state;
    static const struct {
        uint32_t id;
        const char *name;
    } want[] = {{9, "Q8_1"},     {10, "Q2_K"},   {11, "Q3_K"},    {15, "Q8_K"},
                {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
                {20, "IQ4_NL"},  {21, "IQ3_S"},  {22, "IQ2_S"},   {23, "IQ4_XS"},
                {24, "I8"},      {25, "I16"},    {26, "I32"},     {27, "I64"},
                {28, "F64"},     {29, "IQ1_M"},  {34, "TQ1_0"},   {35, "TQ2_0"},
                {39, "MXFP4"},   {40, "NVFP4"},  {41, "Q1_0"},    {42, "Q2_0"}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_string_equal(kva_type_name(want[i].id), want[i].name);
        assert_null(kva_type_get(want[i].id));
    }
    static const uint32_t withdrawn[] = {4,  5,  31, 32, 33,        36,
                                         37, 38, 43, 77, UINT32_MAX};
    for (size_t i = 0; i < sizeof withdrawn / sizeof *withdrawn; i++) {
        assert_string_equal(kva_type_name(withdrawn[i]), "unknown");
        assert_null(kva_type_get(withdrawn[i]));
    }
}

static void infinite_scales_are_found(void **state)
{
    (void)state;
    static const struct {
        enum kva_type type;
        int high;
        uint8_t bad;
    } cases[] = {{KVA_F32, 3, 0xff},   {KVA_F16, 1, 0x7c},  {KVA_BF16, 1, 0x7f},
                 {KVA_Q8_0, 1, 0xfc},  {KVA_Q4_0, 1, 0x7c}, {KVA_Q4_1, 1, 0x7c},
                 {KVA_Q4_1, 3, 0x7e},  {KVA_Q5_0, 1, 0x7c}, {KVA_Q5_1, 3, 0xff},
                 {KVA_Q4_K, 1, 0x7c},  {KVA_Q4_K, 3, 0x7c}, {KVA_Q5_K, 3, 0x7d},
                 {KVA_Q6_K, 209, 0x7c}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct kva_type_info *info = kva_type_get(cases[i].type);
        uint8_t two[2 * 256] = {0};
        size_t n = 2 * (size_t)info->block_elements;
        if (cases[i].type == KVA_BF16 || cases[i].type == KVA_F32)
            two[info->block_bytes + cases[i].high - 1] = 0x80;
        assert_true(kva_dequant_check(cases[i].type, two, n));
        two[info->block_bytes + cases[i].high] = cases[i].bad; /* in the second block */
        assert_false(kva_dequant_check(cases[i].type, two, n));
    }
}

static void every_half_survives_the_way_through_float(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = kva_f16_to_f32((uint16_t)h);
        if ((h & 0x7fff) > 0x7c00) {
            assert_true(isnan(f));
            assert_true(isnan(kva_f16_to_f32(kva_f32_to_f16(f))));
            continue;
        }
        if (kva_f32_to_f16(f) != h)
            fail_msg("%04x comes back as %04x", h, kva_f32_to_f16(f));
    }
    assert_true(kva_f16_to_f32(0x0001) == 0x1p-24f);
    assert_true(kva_f16_to_f32(0x03ff) == 1023 * 0x1p-24f);
    assert_true(kva_f16_to_f32(0x0400) == 0x1p-14f);
    assert_true(kva_f16_to_f32(0x3c00) == 1);
    assert_true(kva_f16_to_f32(0x7bff) == 65504);
    assert_true(isinf(kva_f16_to_f32(0xfc00)) && kva_f16_to_f32(0xfc00) < 0);
    assert_true(signbit(kva_f16_to_f32(0x8000)));
}

static void floats_round_to_the_nearest_half_and_ties_to_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float lo = kva_f16_to_f32((uint16_t)h), hi = kva_f16_to_f32((uint16_t)(h + 1));
        float middle = lo + (hi - lo) / 2; /* exact */
        uint16_t even = (uint16_t)(h & 1 ? h + 1 : h);
        if (kva_f32_to_f16(middle) != even || kva_f32_to_f16(-middle) != (even | 0x8000))
            fail_msg("tie above %04x", h);
        if (kva_f32_to_f16(nextafterf(middle, 0)) != h)
            fail_msg("below the tie above %04x", h);
        if (kva_f32_to_f16(nextafterf(middle, 1e9f)) != h + 1)
            fail_msg("above the tie above %04x", h);
    }
    assert_int_equal(kva_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(kva_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(kva_f32_to_f16(1e10f), 0x7c00);
    assert_int_equal(kva_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(kva_f32_to_f16(0x1p-26f), 0);
    assert_int_equal(kva_f32_to_f16(-0x1p-149f), 0x8000);
    assert_int_equal(kva_f32_to_f16(NAN) & 0x7e00, 0x7e00);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_types_are_copied),
        cmocka_unit_test(q8_0_worked_block),
        cmocka_unit_test(q4_0_worked_block),
        cmocka_unit_test(q4_1_worked_block),
        cmocka_unit_test(q5_0_worked_block),
        cmocka_unit_test(q5_1_worked_block),
        cmocka_unit_test(q4_k_worked_block),
        cmocka_unit_test(q5_k_worked_block),
        cmocka_unit_test(q6_k_worked_block),
        cmocka_unit_test(q6_k_rounds_scale_times_delta_first),
        cmocka_unit_test(random_blocks_equal_the_reference_to_the_bit),
        cmocka_unit_test(types_have_their_published_sizes),
        cmocka_unit_test(unsupported_types_still_have_names),
        cmocka_unit_test(infinite_scales_are_found),
        cmocka_unit_test(every_half_survives_the_way_through_float),
        cmocka_unit_test(floats_round_to_the_nearest_half_and_ties_to_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
