/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_select.c - selectors of two sides: what they say alike, which stored method a text
 * means. The corpus of tests/fuzz/select holds the forms and the refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runner/select.h"

static bool same(const char *a, const char *b, enum kva_select_key key)
{
    struct kva_select x, y;
    bool one, other;

    assert_int_equal(kva_select_parse(a, &x, NULL), KVA_OK);
    assert_int_equal(kva_select_parse(b, &y, NULL), KVA_OK);
    one = kva_select_same(&x, &y, key);
    other = kva_select_same(&y, &x, key);
    assert_int_equal(one, other);
    kva_select_release(&x);
    kva_select_release(&y);
    return one;
}

static void a_key_is_the_same_when_both_sides_name_the_same_values(void **state)
{
    (void)state;
    assert_true(same("method=knorm", "method=keydiff", KVA_SELECT_MODEL));
    assert_true(same("model=a,kv=f16", "kv=f32,model=a", KVA_SELECT_MODEL));
    assert_true(same("model=a,model=b", "model=b,model=a", KVA_SELECT_MODEL));
    assert_false(same("model=a,kv=f16", "kv=f16", KVA_SELECT_MODEL));
    assert_false(same("model=a", "model=a,model=b", KVA_SELECT_MODEL));
    assert_false(same("model=a", "model=b", KVA_SELECT_MODEL));
    assert_false(same("method=knorm", "method=keydiff", KVA_SELECT_METHOD));
}

static void a_parameter_that_is_written_must_agree(void **state)
{
    static const char *const stored = "snapkv:kernel=5,pool=avg,window=64+uniform";

    (void)state;
    assert_true(kva_select_method("snapkv*", stored, "oneshot"));
    assert_true(kva_select_method("snapkv:window=64", stored, "oneshot"));
    assert_true(kva_select_method("snapkv:window=64,kernel=5", stored, "oneshot"));
    assert_false(kva_select_method("snapkv:window=32", stored, "oneshot"));
    assert_false(kva_select_method("snapkv:window=64,kernel=7", stored, "oneshot"));
    assert_false(kva_select_method("snapkv:window=64+adakv", stored, "oneshot"));
    assert_false(kva_select_method("knorm", stored, "oneshot"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_the_same_when_both_sides_name_the_same_values),
        cmocka_unit_test(a_parameter_that_is_written_must_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
