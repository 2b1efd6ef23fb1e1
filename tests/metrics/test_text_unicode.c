/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_text_unicode.c - text.c against what Python says of every code point
 * (tests/golden/metrics/unicode.txt), and lower case of whole words. */
#include "metrics/text.h"

#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    POINTS = 0x110000,
    ALNUM = 1,
    DIGIT = 2,
    SPACE = 4,
    CASED = 8,
    IGNORABLE = 16,
    UNASSIGNED = 32
};

static struct {
    int delta[POINTS]; /* of the lower case */
    unsigned char class[POINTS];
} golden;

static void note(const char *name, unsigned first, unsigned last, unsigned step,
                 int delta)
{
    static const struct {
        const char *name;
        unsigned char bit;
    } classes[] = {{"alnum", ALNUM},         {"digit", DIGIT},
                   {"space", SPACE},         {"cased", CASED},
                   {"ignorable", IGNORABLE}, {"unassigned", UNASSIGNED}};
    unsigned char bit = 0;

    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        if (strcmp(name, classes[i].name) == 0)
            bit = classes[i].bit;
    assert_true(bit || strcmp(name, "lower") == 0);
    assert_true(first <= last && last < POINTS && step > 0);
    for (unsigned c = first; c <= last; c += step) {
        golden.class[c] |= bit;
        golden.delta[c] += delta;
    }
}

static int load(void **state)
{
    FILE *f = fopen("tests/golden/metrics/unicode.txt", "r");
    char line[128];
    int lines = 0;

    (void)state;
    if (!f)
        return -1;
    while (fgets(line, sizeof line, f)) {
        unsigned first, last, step = 1;
        char name[16];
        int delta = 0, n;

        if (line[0] == '#')
            continue;
        n = sscanf(line, "%15s %x %x %x %d", name, &first, &last, &step, &delta);
        if (n != 3 && n != 5)
            return -1;
        note(name, first, last, step, delta);
        lines++;
    }
    fclose(f);
    return lines > 1000 ? 0 : -1;
}

/* Lower case of the code points in `c`, as UTF-8 in between. */
static void lower(const uint32_t *c, size_t n, struct kva_text *out)
{
    struct kva_buf b;

    kva_buf_init(&b, 0);
    for (size_t i = 0; i < n; i++)
        kva_text_encode(c[i], &b);
    assert_false(b.failed);
    assert_int_equal(kva_text_read_lower(out, b.data, b.len, NULL), KVA_OK);
    kva_buf_release(&b);
}

/* No character, or one that the older Unicode of the golden file does not know. */
static bool left_out(uint32_t c)
{
    return (c >= 0xd800 && c < 0xe000) || golden.class[c] & UNASSIGNED;
}

static void every_code_point_is_lowered_as_in_python(void **state)
{
    struct kva_text t = {0};

    (void)state;
    for (uint32_t c = 1; c < POINTS; c++) {
        if (left_out(c))
            continue;
        lower(&c, 1, &t);
        if (c == 0x130) {
            assert_int_equal(t.n, 2);
            assert_int_equal(t.c[0], 'i');
            assert_int_equal(t.c[1], 0x307);
        } else if (t.n != 1 || t.c[0] != c + (uint32_t)golden.delta[c]) {
            fail_msg("U+%04X becomes U+%04X", c, t.c[0]);
        }
    }
    kva_text_release(&t);
}

static void every_code_point_is_classed_as_in_python(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < POINTS; c++) {
        if (left_out(c))
            continue;
        if (kva_text_is_alnum(c) != !!(golden.class[c] & ALNUM) ||
            kva_text_is_digit(c) != !!(golden.class[c] & DIGIT) ||
            kva_text_is_space(c) != !!(golden.class[c] & SPACE))
            fail_msg("U+%04X", c);
    }
}

/* Whether a sigma is final tells how the code point beside it is classed. */
static void every_code_point_beside_a_sigma_acts_as_in_python(void **state)
{
    struct kva_text t = {0};

    (void)state;
    for (uint32_t c = 1; c < POINTS; c++) {
        bool cased = golden.class[c] & CASED, ignorable = golden.class[c] & IGNORABLE;
        const uint32_t behind[] = {c, 0x3a3}, across[] = {'a', c, 0x3a3},
                       before[] = {'a', 0x3a3, c}, twice[] = {'a', 0x3a3, c, 'b'};

        if (left_out(c) || c == 0x130)
            continue;
        lower(behind, 2, &t);
        if (t.c[1] != (cased ? 0x3c2 : 0x3c3))
            fail_msg("U+%04X in front of a sigma", c);
        lower(across, 3, &t);
        if (t.c[2] != (cased || ignorable ? 0x3c2 : 0x3c3))
            fail_msg("U+%04X between a letter and a sigma", c);
        lower(before, 3, &t);
        if (t.c[1] != (cased ? 0x3c3 : 0x3c2))
            fail_msg("U+%04X behind a sigma", c);
        lower(twice, 4, &t);
        if (t.c[1] != (cased || ignorable ? 0x3c3 : 0x3c2))
            fail_msg("U+%04X between a sigma and a letter", c);
    }
    kva_text_release(&t);
}

static void invalid_bytes_and_nuls_are_code_points(void **state)
{
    static const char bytes[] = "A\0\xff\xc3\xe2\x82";
    static const uint32_t want[] = {'A', 0, 0xfffd, 0xfffd, 0xfffd, 0xfffd};
    struct kva_text t = {0};

    (void)state;
    assert_int_equal(kva_text_read(&t, bytes, sizeof bytes - 1, NULL), KVA_OK);
    assert_int_equal(t.n, 6);
    assert_memory_equal(t.c, want, sizeof want);
    assert_int_equal(kva_text_read_lower(&t, bytes, 1, NULL), KVA_OK);
    assert_int_equal(t.n, 1);
    assert_int_equal(t.c[0], 'a');
    assert_int_equal(kva_text_read(&t, NULL, 0, NULL), KVA_OK);
    assert_int_equal(t.n, 0);
    kva_text_release(&t);
}

/* 300,000 sigmas and as many accents behind one sigma: no time to speak of. */
static void long_runs_take_linear_time(void **state)
{
    enum { N = 300000 };
    struct kva_buf b;
    struct kva_text t = {0};
    uint64_t begin = kva_cpu_ns();

    (void)state;
    kva_buf_init(&b, 0);
    for (int i = 0; i < N; i++)
        kva_text_encode(0x3a3, &b);
    for (int i = 0; i < N; i++)
        kva_text_encode(0x301, &b);
    assert_int_equal(kva_text_read_lower(&t, b.data, b.len, NULL), KVA_OK);
    assert_int_equal(t.c[N - 1], 0x3c2);
    assert_int_equal(t.c[N - 2], 0x3c3);
    assert_true(kva_cpu_ns() - begin < 2000000000ULL);
    kva_text_release(&t);
    kva_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_is_lowered_as_in_python),
        cmocka_unit_test(every_code_point_is_classed_as_in_python),
        cmocka_unit_test(every_code_point_beside_a_sigma_acts_as_in_python),
        cmocka_unit_test(invalid_bytes_and_nuls_are_code_points),
        cmocka_unit_test(long_runs_take_linear_time),
    };

    return cmocka_run_group_tests(tests, load, NULL);
}
