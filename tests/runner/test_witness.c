/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_witness.c - what counters outside the engine say of a cell on a device, and when
 * they say nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runner/witness.h"

#define MIB ((int64_t)1 << 20)

/* The model's table with a driver of the test's. */
static struct kva_model *model;
static uint64_t used, own;

static uint64_t memory_used(struct kva_ops *ops, uint64_t *mine)
{
    (void)ops;
    *mine = own;
    return used;
}

static uint64_t memory_most(struct kva_ops *ops, bool on)
{
    (void)ops;
    return on ? 0 : 1000 * (uint64_t)MIB + 17;
}

static int setup(void **state)
{
    (void)state;
    if (kva_model_open("builtin:tiny-llama", &(struct kva_model_opts){.numerics = "f32"},
                       &model, NULL) != KVA_OK)
        return -1;
    kva_model_ops(model)->memory_used = memory_used;
    kva_model_ops(model)->memory_most = memory_most;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kva_model_close(model);
    return 0;
}

/* A cell of 10 MiB of pages and 5 MiB beside them; what else moves, and when. */
struct moves {
    int64_t held;    /* bytes it holds beyond its account, until it is gone */
    int64_t others;  /* of another program, from the middle of the cell on */
    int64_t on_host; /* bytes that the host holds of it */
    bool mask;       /* its entries are hidden, which is no claim */
};

static char *volatile kept; /* on the host */

/* One look; returns whether another one is asked for. */
static bool look(const struct moves *v, bool last, struct kva_db_memory *m)
{
    static char f32[] = "f32";
    struct kva_unit_run u = {.model = model};
    struct kva_cell cell = {.enforce = v->mask ? KVA_MASK : KVA_PHYSICAL,
                            .numerics = f32};
    struct kva_run_cell c = {.cell = &cell};
    struct kva_session_opts o = {.kv = KVA_F16, .page_cap = 8};
    struct kva_witness w;
    bool again;

    *m = (struct kva_db_memory){.kv_committed_bytes = 10 * MIB, .dev_delta_bytes = -1};
    used = 1000 * (uint64_t)MIB;
    own = 7 * (uint64_t)MIB;
    kva_witness_begin(&w, &u);
    assert_int_equal(kva_session_new(model, &o, &c.session, NULL), KVA_OK);
    used += (uint64_t)(15 * MIB + v->held + v->others);
    own += (uint64_t)(5 * MIB);
    if (v->on_host > 0) {
        kept = malloc((size_t)v->on_host);
        assert_non_null(kept);
        memset(kept, 1, (size_t)v->on_host);
    }
    kva_witness_look(&w, &u, &c, m);
    kva_session_free(c.session);
    used -= (uint64_t)(10 * MIB + v->held); /* 5 MiB of scratch stay, on the account */
    again = kva_witness_end(&w, last, m);
    free(kept);
    kept = NULL;
    return again;
}

static void a_counter_that_agrees_is_content(void **state)
{
    const struct moves exact = {0}, near = {.held = 2 * MIB}, off = {.others = -MIB};
    struct kva_db_memory m;

    (void)state;
    assert_false(look(&exact, false, &m));
    assert_int_equal(m.dev_delta_bytes, 15 * MIB);
    assert_int_equal(m.dev_peak_bytes, 17);
    assert_int_equal(m.audit, 0);
    assert_false(look(&near, false, &m));
    assert_int_equal(m.audit, 0);
    assert_false(look(&off, false, &m));
    assert_int_equal(m.audit, 0);
}

static void what_a_cell_holds_beyond_its_account_is_found(void **state)
{
    const struct moves more = {.held = 2 * MIB + 1},
                       dense = {.held = 20 * MIB, .mask = true};
    struct kva_db_memory m;

    (void)state;
    assert_false(look(&more, false, &m));
    assert_int_equal(m.audit, 16);
    assert_false(look(&dense, false, &m)); /* it does not say that it evicts */
    assert_int_equal(m.audit, 0);
}

static void another_program_leaves_it_unverified(void **state)
{
    static const int64_t by[] = {3 * MIB, -3 * MIB, 500 * MIB, -500 * MIB};
    struct kva_db_memory m;

    (void)state;
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        const struct moves v = {.others = by[i]},
                           both = {.others = by[i], .held = 20 * MIB};

        assert_true(look(&v, false, &m)); /* a first use, perhaps */
        assert_int_equal(m.audit, 0);
        assert_false(look(&v, true, &m));
        assert_int_equal(m.audit, -1);
        assert_true(look(&both, false, &m)); /* nobody knows whose it was */
        assert_false(look(&both, true, &m));
        assert_int_equal(m.audit, -1);
    }
}

static void a_bit_that_was_found_outlives_another_program(void **state)
{
    struct kva_db_memory m = {.audit = 2};
    struct kva_witness w = {
        .ops = kva_model_ops(model), .claims = true, .slack = 2 * MIB, .counted = 0};

    (void)state;
    used = 100 * (uint64_t)MIB;
    own = 0;
    assert_false(kva_witness_end(&w, true, &m));
    assert_int_equal(m.audit, 2);
}

static void evicted_rows_may_not_lie_on_the_host(void **state)
{
    const struct moves v = {.on_host = 8 * MIB};
    struct kva_db_memory m;

    (void)state;
#ifdef __SANITIZE_ADDRESS__
    print_message("SKIP: the sanitizer's memory is the process's\n");
    skip();
#endif
    assert_true(look(&v, false, &m));
    assert_int_equal(m.audit, 0);
    assert_false(look(&v, true, &m));
    assert_int_equal(m.audit, 16);
    assert_int_equal(m.dev_delta_bytes, 15 * MIB); /* of the device all is well */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counter_that_agrees_is_content),
        cmocka_unit_test(what_a_cell_holds_beyond_its_account_is_found),
        cmocka_unit_test(another_program_leaves_it_unverified),
        cmocka_unit_test(a_bit_that_was_found_outlives_another_program),
        cmocka_unit_test(evicted_rows_may_not_lie_on_the_host),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
