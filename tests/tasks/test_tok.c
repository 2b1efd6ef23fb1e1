/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_tok.c - the two tokenizers without a model. */
#include "tests/tasks/tasks_test.h"

static void ws_counts_runs_of_non_space_bytes(void **state)
{
    static const char text[] = "  a bc\td\x1c"
                               "e\n\nf \xc3\xa9.  ";
    static const int want[][2] = {{2, 3}, {4, 6}, {7, 8}, {9, 10}, {12, 13}, {14, 17}};
    struct kva_error err = {0};
    struct kva_arena arena;
    int32_t *begin, *end;
    size_t n, q, t;

    (void)state;
    kva_arena_init(&arena);
    assert_int_equal(
        kva_tok_ws.count(NULL, NULL, text, sizeof text - 1, "x y ", "z w", &n, &q, &err),
        KVA_OK);
    assert_int_equal(n, 6);
    assert_int_equal(q, 4);
    kva_tok_ws.count(NULL, NULL, text, 0, "x y", "z w", &n, &q,
                     &err); /* "yz" is one token */
    assert_int_equal(n, 0);
    assert_int_equal(q, 3);
    assert_int_equal(kva_tok_ws.ranges(NULL, NULL, text, sizeof text - 1, &arena, &begin,
                                       &end, &t, &err),
                     KVA_OK);
    assert_int_equal(t, 6);
    for (int i = 0; i < 6; i++)
        assert_range((size_t)begin[i], (size_t)end[i], (size_t)want[i][0],
                     (size_t)want[i][1]);
    kva_arena_release(&arena);
}

static void by_counts_bytes(void **state)
{
    struct kva_error err = {0};
    struct kva_arena arena;
    int32_t *begin, *end;
    size_t n, q, t;

    (void)state;
    kva_arena_init(&arena);
    assert_int_equal(kva_tok_by.count(NULL, NULL, "a b", 3, "x ", "yz", &n, &q, &err),
                     KVA_OK);
    assert_int_equal(n, 3);
    assert_int_equal(q, 4);
    assert_int_equal(
        kva_tok_by.ranges(NULL, NULL, "a b", 3, &arena, &begin, &end, &t, &err), KVA_OK);
    assert_int_equal(t, 3);
    assert_range((size_t)begin[2], (size_t)end[2], 2, 3);
    kva_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ws_counts_runs_of_non_space_bytes),
        TEST(by_counts_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
