/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_parts.c - parts of a cell on a device that does later what it is asked for now. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runner/parts.h"

/* A device with a clock of its own: `work` asks for some and returns at once. */
struct late {
    struct kva_ops ops; /* first */
    int64_t busy_until, at[KVA_MARKS];
    int waited; /* calls of between */
};

static void mark(struct kva_ops *ops, int m)
{
    struct late *d = (struct late *)ops;

    assert_in_range(m, 0, KVA_MARKS - 1);
    d->at[m] = d->busy_until;
}

static int64_t between(struct kva_ops *ops, int from, int to)
{
    struct late *d = (struct late *)ops;

    d->waited++;
    return d->at[to] - d->at[from];
}

static void work(struct late *d, int64_t ns)
{
    d->busy_until += ns;
}

static struct late device(void)
{
    return (struct late){.ops = {.mark = mark, .between = between}};
}

static void a_part_takes_what_its_work_takes(void **state)
{
    struct late d = device();
    struct kva_parts p;

    (void)state;
    kva_parts_begin(&p, &d.ops, KVA_PART_PREFILL);
    work(&d, 1000);
    kva_parts_enter(&p, KVA_PART_SCORE);
    work(&d, 20);
    kva_parts_enter(&p, KVA_PART_EVICT);
    work(&d, 3);
    kva_parts_enter(&p, KVA_PART_NONE);
    work(&d, 7);
    kva_parts_enter(&p, KVA_PART_QUESTION);
    work(&d, 50);
    assert_int_equal(d.waited, 0); /* nobody has waited for anything */
    kva_parts_end(&p);
    assert_int_equal(p.ns[KVA_PART_PREFILL], 1000);
    assert_int_equal(p.ns[KVA_PART_SCORE], 20);
    assert_int_equal(p.ns[KVA_PART_EVICT], 3);
    assert_int_equal(p.ns[KVA_PART_QUESTION], 50);
    assert_int_equal(p.ns[KVA_PART_NONE], 7);
}

static void a_hundred_blocks_add_up_with_sixteen_marks(void **state)
{
    struct late d = device();
    struct kva_parts p;
    uint64_t sum = 0;

    (void)state;
    kva_parts_begin(&p, &d.ops, KVA_PART_PREFILL);
    for (int i = 1; i <= 100; i++) {
        work(&d, 1000 + i);
        kva_parts_enter(&p, KVA_PART_SCORE);
        work(&d, 10 * i);
        kva_parts_enter(&p, KVA_PART_EVICT);
        work(&d, 2);
        kva_parts_enter(&p, KVA_PART_PREFILL);
    }
    kva_parts_end(&p);
    assert_int_equal(p.ns[KVA_PART_PREFILL], 100 * 1000 + 5050);
    assert_int_equal(p.ns[KVA_PART_SCORE], 10 * 5050);
    assert_int_equal(p.ns[KVA_PART_EVICT], 200);
    for (int i = 0; i < KVA_PARTS; i++)
        sum += p.ns[i];
    assert_int_equal(sum, d.busy_until); /* every moment is somebody's */
}

static void without_a_clock_nothing_is_timed(void **state)
{
    struct kva_parts none = {0};

    (void)state;
    kva_parts_enter(NULL, KVA_PART_SCORE);
    kva_parts_enter(&none, KVA_PART_SCORE);
    kva_parts_end(&none);
    assert_int_equal(none.ns[KVA_PART_SCORE], 0);
}

static void the_clock_is_named(void **state)
{
    static const struct kva_device some = {.name = "some device"};
    struct kva_ops host = {.host = true}, other = {.device = &some};
    char copy[] = "events";

    (void)state;
    assert_string_equal(kva_parts_clock(&host), "monotonic");
    assert_string_equal(kva_parts_clock(&other), "events");
    assert_ptr_equal(kva_parts_clock_named(copy), kva_parts_clock(&other));
    assert_null(kva_parts_clock_named("sundial"));
    assert_null(kva_parts_clock_named(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_takes_what_its_work_takes),
        cmocka_unit_test(a_hundred_blocks_add_up_with_sixteen_marks),
        cmocka_unit_test(without_a_clock_nothing_is_timed),
        cmocka_unit_test(the_clock_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
