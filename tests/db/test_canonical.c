/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_canonical.c - one spelling for each JSON value. */
#include "tests/db/fixture.h"

static void expect(const char *json, const char *canonical)
{
    struct kva_error err = {0};
    struct kva_buf out;

    kva_buf_init(&out, 0);
    OK(kva_json_canonical(json, &out, &err));
    assert_string_equal(out.data, canonical);
    kva_buf_release(&out);
}

static void refuse(const char *json)
{
    struct kva_error err;
    struct kva_buf out;

    kva_buf_init(&out, 0);
    FAILS(KVA_EFORMAT, kva_json_canonical(json, &out, &err));
    assert_true(err.text[0] != '\0');
    kva_buf_release(&out);
}

static void keys_are_sorted_bytewise_at_every_level(void **state)
{
    (void)state;
    expect("{ \"b\" : 1, \"a\" : { \"z\" : null, \"B\" : true }, \"\\u00e9\" : [ ] }",
           "{\"a\":{\"B\":true,\"z\":null},\"b\":1,\"\xc3\xa9\":[]}");
    expect("{}", "{}");
}

static void whole_numbers_have_one_spelling(void **state)
{
    (void)state;
    expect("[1, 1.0, 1e0, 10e-1, -0, -0.0, 1e3]", "[1,1,1,1,0,0,1000]");
    expect("9007199254740991", "9007199254740991");
    expect("-9007199254740991.0", "-9007199254740991");
    expect("9007199254740992", "9007199254740992"); /* %.17g from here on */
    expect("100000000000000000000", "1e+20");
}

static void reals_keep_seventeen_digits(void **state)
{
    (void)state;
    expect("[0.2, 0.5, -1.25e-3, 1e300]",
           "[0.20000000000000001,0.5,-0.00125,1.0000000000000001e+300]");
}

static void strings_escape_only_what_json_requires(void **state)
{
    (void)state;
    expect("\"\\/ \\u0041 \\\" \\\\ \\n \\u0001 \\u001F \\u0008 \\u000c \\u000b \\u00fc "
           "\\ud83d\\ude00\"",
           "\"/ A \\\" \\\\ \\n \\u0001 \\u001f \\b \\f \\u000b \xc3\xbc "
           "\xf0\x9f\x98\x80\"");
}

static void duplicates_nan_infinity_and_bad_syntax_are_refused(void **state)
{
    (void)state;
    refuse("{\"a\":1,\"a\":1}");
    refuse("{\"x\":{\"a\":1,\"a\":2}}");
    refuse("[NaN]");
    refuse("[Infinity]");
    refuse("[1e999]");
    refuse("{\"a\":1,}");
    refuse("");
    refuse("1 2");
    refuse("\"\xff\"");
}

static void the_digest_does_not_depend_on_the_spelling(void **state)
{
    uint8_t a[32], b[32], c[32];
    char hex[65];
    struct kva_error err = {0};

    (void)state;
    OK(kva_json_digest("{\"keep\": 1.0, \"a\": [1, 2]}", a, &err));
    OK(kva_json_digest("{\"a\":[1,2.0],\"keep\":1}", b, &err));
    OK(kva_json_digest("{\"a\":[1,2],\"keep\":2}", c, &err));
    assert_memory_equal(a, b, 32);
    assert_memory_not_equal(a, c, 32);
    OK(kva_json_digest(" { } ", a, &err)); /* SHA-256 of the two bytes {} */
    kva_hex(a, 32, hex);
    assert_string_equal(
        hex, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_sorted_bytewise_at_every_level),
        cmocka_unit_test(whole_numbers_have_one_spelling),
        cmocka_unit_test(reals_keep_seventeen_digits),
        cmocka_unit_test(strings_escape_only_what_json_requires),
        cmocka_unit_test(duplicates_nan_infinity_and_bad_syntax_are_refused),
        cmocka_unit_test(the_digest_does_not_depend_on_the_spelling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
