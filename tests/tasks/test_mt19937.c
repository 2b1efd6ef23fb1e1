/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_mt19937.c - vectors of CPython's random and NumPy's legacy generator
 * (tasks-ruler.md section 4). */
#include "tasks/mt19937.h"
#include "tests/tasks/tasks_test.h"

static struct kva_mt seeded(uint64_t seed)
{
    struct kva_mt m;

    kva_py_seed(&m, seed);
    return m;
}

static void words_follow_the_seed(void **state)
{
    const uint32_t want[] = {2746317213, 478163327, 107420369, 3184935163};
    struct kva_mt m = seeded(42);

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(kva_mt_next(&m), want[i]);
    m = seeded(0);
    assert_int_equal(kva_mt_next(&m), 3626764237U);
    assert_int_equal(kva_mt_next(&m), 1654615998U);
    m = seeded(((uint64_t)1 << 40) + 5);
    assert_int_equal(kva_mt_next(&m), 2166296868U);
    assert_int_equal(kva_mt_next(&m), 2220160828U);
}

static void random_has_53_bits(void **state)
{
    const double want[] = {0.6394267984578837, 0.025010755222666936, 0.27502931836911926};
    struct kva_mt m = seeded(42);

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(kva_py_random(&m) == want[i]);
}

static void bounded_numbers_are_redrawn_not_scaled(void **state)
{
    const int64_t numbers[] = {2867825, 1419610, 5614226, 5108603};
    const uint64_t words[] = {5363900, 933912, 209805, 2307113};
    struct kva_mt m = seeded(42);

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(kva_py_randint(&m, 1000000, 9999999), numbers[i]);
    m = seeded(42);
    for (int i = 0; i < 4; i++)
        assert_int_equal(kva_py_below(&m, 6175260), words[i]);
    m = seeded(42);
    for (int i = 0; i < 3; i++)
        assert_int_equal(kva_py_below(&m, 1), 0);
    assert_int_equal(kva_mt_next(&m), 1051802512);
}

static void check_sample(size_t n, size_t k, const uint32_t *want, size_t shown)
{
    struct kva_mt m = seeded(42);
    uint32_t got[64];

    assert_int_equal(kva_py_sample(&m, n, k, got, NULL), KVA_OK);
    for (size_t i = 0; i < shown; i++)
        assert_int_equal(got[i], want[i]);
}

static void samples_use_a_list_or_a_set_as_python_does(void **state)
{
    (void)state;
    check_sample(40, 4, (const uint32_t[]){7, 1, 17, 15}, 4);
    check_sample(1000, 5, (const uint32_t[]){654, 114, 25, 759, 281}, 5);
    check_sample(12, 10, (const uint32_t[]){10, 1, 0, 4, 3, 11, 6, 9, 8, 2}, 10);
    check_sample(100, 30, (const uint32_t[]){81, 14, 3, 94, 35, 31, 28, 17}, 8);
}

/* A list up to n = 85 for k = 6, 10, 21, up to 277 for 22 and 85, 1045 for 86. */
static void the_set_takes_over_at_the_sizes_of_the_source(void **state)
{
    const size_t border[][2] = {{6, 85},   {10, 85},  {21, 85},
                                {22, 277}, {85, 277}, {86, 1045}};

    (void)state;
    for (size_t b = 0; b < sizeof border / sizeof border[0]; b++)
        for (size_t over = 0; over < 2; over++) {
            size_t k = border[b][0], n = border[b][1] + over;
            uint32_t got[128], pool[1100];
            bool seen[1100] = {false};
            struct kva_mt m = seeded(42), own = seeded(42);

            assert_int_equal(kva_py_sample(&m, n, k, got, NULL), KVA_OK);
            for (size_t i = 0; i < n; i++)
                pool[i] = (uint32_t)i;
            for (size_t i = 0; i < k; i++) {
                size_t j = kva_py_below(&own, over ? n : n - i);

                while (over && seen[j])
                    j = kva_py_below(&own, n);
                seen[j] = true;
                assert_int_equal(got[i], over ? j : pool[j]);
                pool[j] = pool[n - i - 1];
            }
            assert_memory_equal(&m, &own, sizeof m);
        }
}

static void shuffles_run_from_the_end(void **state)
{
    const uint32_t ten[] = {7, 3, 2, 8, 5, 6, 9, 4, 0, 1}, four[] = {2, 1, 3, 0};
    uint32_t x[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, y[] = {0, 1, 2, 3}, one = 7;
    struct kva_mt m = seeded(42), before;

    (void)state;
    kva_py_shuffle(&m, x, 10);
    assert_memory_equal(x, ten, sizeof ten);
    m = seeded(42);
    kva_py_shuffle(&m, y, 4);
    assert_memory_equal(y, four, sizeof four);
    before = m;
    kva_py_shuffle(&m, &one, 1);
    kva_py_shuffle(&m, &one, 0);
    assert_memory_equal(&m, &before, sizeof m);
}

static void letters_and_uuids(void **state)
{
    struct kva_mt m = seeded(42);
    char text[37];

    (void)state;
    kva_py_choices(&m, 'A', 26, 5, text);
    assert_memory_equal(text, "QAHFT", 5);
    kva_py_choices(&m, 'a', 26, 6, text);
    assert_memory_equal(text, "rxckaf", 6);
    m = seeded(42);
    kva_py_uuid4(&m, text);
    assert_string_equal(text, "bdd640fb-0667-4ad1-9c80-317fa3b1799d");
    kva_py_uuid4(&m, text);
    assert_string_equal(text, "23b8c1e9-3924-46de-beb1-3b9046685257");
}

static void numpy_masks_and_redraws(void **state)
{
    const int64_t want[] = {25795, 10860, 86820, 64886, 16265, 92386};
    struct kva_mt m, before;

    (void)state;
    kva_np_seed(&m, 42);
    for (int i = 0; i < 6; i++)
        assert_int_equal(kva_np_randint(&m, 10000, 99999), want[i]);
    before = m;
    assert_int_equal(kva_np_randint(&m, 3, 4), 3);
    assert_memory_equal(&m, &before, sizeof m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(words_follow_the_seed),
        TEST(random_has_53_bits),
        TEST(bounded_numbers_are_redrawn_not_scaled),
        TEST(samples_use_a_list_or_a_set_as_python_does),
        TEST(the_set_takes_over_at_the_sizes_of_the_source),
        TEST(shuffles_run_from_the_end),
        TEST(letters_and_uuids),
        TEST(numpy_masks_and_redraws),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
