/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_regress_time.c - the time gate and the memory gate. */
#include "fixture.h"

#include "reports/regress.h"

enum { MAX_PERF = 256 };
struct timed {
    struct world *w;
    struct kva_data_perf perf[MAX_PERF];
};

static void rep(struct timed *t, const char *phase, double ms, int64_t work)
{
    int n = t->w->d.n_perfs++;

    assert_true(n < MAX_PERF);
    t->perf[n] = (struct kva_data_perf){.rep = n,
                                        .ord = n,
                                        .phase = S(phase),
                                        .ns = (int64_t)llround(ms * 1e6),
                                        .work = work};
}

static struct timed *timed(const double *ms, int n)
{
    struct timed *t = calloc(1, sizeof *t);

    assert_non_null(t);
    t->w = world_new(1, 4);
    t->w->d.perfs = t->perf;
    t->w->run[0].backend = S("cpu");
    add_cell(t->w, 0, "snapkv+uniform", 0.5, "physical", "1111");
    for (int i = 0; i < n; i++)
        rep(t, "ttft", ms[i], 1);
    return t;
}

static void drop(struct timed *t)
{
    free(t->w);
    free(t);
}

static struct kva_regress_opts only(enum kva_regress_gate g)
{
    struct kva_regress_opts o;

    kva_regress_defaults(&o);
    for (int k = 0; k < KVA_REGRESS_GATES; k++)
        o.gate[k] = k == (int)g;
    return o;
}

static void decided(struct kva_regress *r, const struct kva_data *a,
                    const struct kva_data *b, const struct kva_regress_opts *o)
{
    struct kva_error err = {0};

    kva_regress_init(r, o);
    assert_int_equal(kva_regress_add(r, a, b, "last-good", 1, &err), KVA_OK);
    assert_int_equal(kva_regress_decide(r, NULL, 0, 0, &err), KVA_OK);
}

static const double BASE[6] = {100, 101, 99, 102, 98, 100};
static const double SLOW[6] = {110, 111, 109, 112, 108, 110};

/* The example of reports.md 7.3. */
static void the_example_fails_at_5_and_warns_at_15_percent(void **state)
{
    struct kva_regress_opts o = only(KVA_REGRESS_TIME);
    struct timed *a = timed(BASE, 6), *b = timed(SLOW, 6);
    struct kva_regress r;

    (void)state;
    o.tau_cpu = 0.05;
    decided(&r, &a->w->d, &b->w->d, &o);
    assert_int_equal(r.n_row, 1);
    NEAR(r.row[0].delta, 1.10, 1e-12);
    NEAR(r.row[0].p, 2.0 / 924, 1e-12);
    NEAR(r.row[0].base, 100, 1e-9);
    assert_true(r.row[0].lo > 1.05 && r.row[0].lo < 1.10 && r.row[0].hi < 1.15);
    assert_int_equal(kva_regress_exit(&r), 1);
    kva_regress_release(&r);
    o.tau_cpu = 0.15;
    decided(&r, &a->w->d, &b->w->d, &o);
    assert_int_equal(r.row[0].verdict, KVA_REGRESS_WARN);
    assert_int_equal(kva_regress_exit(&r), 0);
    kva_regress_release(&r);
    o.tau_cpu = 0.05;
    decided(&r, &b->w->d, &a->w->d, &o);
    assert_int_equal(r.row[0].verdict, KVA_REGRESS_BETTER);
    kva_regress_release(&r);
    a->w->run[0].backend = b->w->run[0].backend = S("cuda"); /* its own tolerance */
    o.tau_cuda = 0.2;
    decided(&r, &a->w->d, &b->w->d, &o);
    assert_int_equal(r.row[0].verdict, KVA_REGRESS_WARN);
    kva_regress_release(&r);
    drop(a);
    drop(b);
}

static void five_repetitions_and_other_machines_are_no_verdict(void **state)
{
    struct kva_regress_opts o = only(KVA_REGRESS_TIME);
    struct timed *a = timed(BASE, 6), *b = timed(SLOW, 5), *c = timed(SLOW, 6);
    struct timed *none = timed(SLOW, 0);
    struct kva_regress r;

    (void)state;
    o.tau_cpu = 0.05;
    decided(&r, &a->w->d, &b->w->d, &o);
    assert_int_equal(r.row[0].verdict, KVA_REGRESS_INCOMPARABLE);
    assert_int_equal(kva_regress_exit(&r), 5);
    kva_regress_release(&r);
    c->w->run[0].perf_digest[0] = 1;
    decided(&r, &a->w->d, &c->w->d, &o);
    assert_int_equal(r.row[0].verdict, KVA_REGRESS_INCOMPARABLE);
    assert_non_null(strstr(r.row[0].message, "different speed"));
    assert_int_equal(kva_regress_exit(&r), 5);
    kva_regress_release(&r);
    decided(&r, &a->w->d, &none->w->d, &o);
    assert_string_equal(r.row[0].message, "not timed in the new run");
    kva_regress_release(&r);
    decided(&r, &none->w->d, &none->w->d, &o);
    assert_int_equal(r.n_row, 1);
    assert_int_equal(kva_regress_exit(&r), 5);
    kva_regress_release(&r);
    drop(a);
    drop(b);
    drop(c);
    drop(none);
}

static void yardsticks_take_a_slow_night_out(void **state)
{
    struct kva_regress_opts o = only(KVA_REGRESS_TIME);
    struct timed *a = timed(BASE, 6), *b = timed(SLOW, 6);
    struct kva_regress r;

    (void)state;
    o.tau_cpu = 0.05;
    for (int i = 0; i < 3; i++) { /* geometric mean of 4 and 9: 6; the night's: 6.6 */
        rep(a, "calib_copy", 9, 64);
        rep(a, "calib_gemm", 4, 128);
        rep(b, "calib_copy", 9.9, 64);
        rep(b, "calib_gemm", 4.4, 128);
    }
    decided(&r, &a->w->d, &b->w->d, &o);
    assert_int_equal(r.n_row, 1);
    NEAR(r.row[0].delta, 1, 1e-9);
    NEAR(r.row[0].now, 100, 1e-6);
    assert_int_equal(r.row[0].verdict, KVA_REGRESS_PASS);
    kva_regress_release(&r);
    for (int i = 6; i < b->w->d.n_perfs; i++)
        b->perf[i].work++; /* another version of the yardstick */
    decided(&r, &a->w->d, &b->w->d, &o);
    assert_int_equal(r.row[0].verdict, KVA_REGRESS_INCOMPARABLE);
    kva_regress_release(&r);
    drop(a);
    drop(b);
}

static void a_slow_down_counts_only_if_every_confirmation_fails(void **state)
{
    struct kva_regress_opts o = only(KVA_REGRESS_TIME);
    struct timed *a = timed(BASE, 6), *b = timed(SLOW, 6);
    struct kva_error err = {0};
    struct kva_regress r;

    (void)state;
    o.tau_cpu = 0.05;
    for (int k = 0; k < 2; k++) {
        kva_regress_init(&r, &o);
        assert_int_equal(kva_regress_add(&r, &a->w->d, &b->w->d, "x", 1, &err), KVA_OK);
        assert_int_equal(kva_regress_confirm(&r, &a->w->d, &b->w->d, "x", 1, &err),
                         KVA_OK);
        if (k)
            assert_int_equal(kva_regress_confirm(&r, &a->w->d, &a->w->d, "x", 1, &err),
                             KVA_OK);
        assert_int_equal(kva_regress_decide(&r, NULL, 0, 0, &err), KVA_OK);
        assert_int_equal(kva_regress_exit(&r), k == 0);
        kva_regress_release(&r);
    }
    drop(a);
    drop(b);
}

static void samples_that_ran_alone_stand_in_for_repetitions(void **state)
{
    struct kva_regress_opts o = only(KVA_REGRESS_TIME);
    struct world *w[2];
    struct kva_regress r;

    (void)state;
    for (int k = 0; k < 2; k++) {
        w[k] = world_new(1, 20);
        add_cell(w[k], 0, "snapkv+uniform", 0.5, "physical", A20);
        for (int i = 0; i < 20; i++) {
            w[k]->out[i].has_timing = true;
            w[k]->out[i].timing = (struct kva_db_timing){
                .ttft_ns = 1000000 + i + 500000 * k, .decode_p50_ns = -1, .evict_ns = -1};
        }
    }
    decided(&r, &w[0]->d, &w[1]->d, &o);
    assert_int_equal(r.n_row, 1);
    assert_string_equal(r.row[0].what, "ttft");
    NEAR(r.row[0].delta, 1.5, 1e-4);
    assert_int_equal(kva_regress_exit(&r), 1);
    kva_regress_release(&r);
    free(w[0]);
    free(w[1]);
}

static void ten_microseconds_never_matter(void **state)
{
    static const double was[6] = {.004, .0041, .0039, .0042, .004, .0041};
    static const double is[6] = {.013, .0131, .0129, .0132, .013, .0131};
    struct kva_regress_opts o = only(KVA_REGRESS_TIME);
    struct timed *a = timed(was, 6), *b = timed(is, 6);
    struct kva_regress r;

    (void)state;
    decided(&r, &a->w->d, &b->w->d, &o);
    assert_int_equal(r.row[0].verdict, KVA_REGRESS_PASS);
    kva_regress_release(&r);
    o.min_ms = 0.005;
    decided(&r, &a->w->d, &b->w->d, &o);
    assert_int_equal(r.row[0].verdict, KVA_REGRESS_FAIL);
    kva_regress_release(&r);
    drop(a);
    drop(b);
}

static void outliers_are_told_and_stay(void **state)
{
    double x[8] = {100, 101, 99, 102, 98, 100, 100, 130};

    (void)state;
    assert_int_equal(kva_stat_outliers(x, 8), 1);
    x[7] = 103;
    assert_int_equal(kva_stat_outliers(x, 8), 0);
    NEAR(kva_stat_median(x, 8), 100, 0);
}

/* ---- memory ---- */

static struct world *held(int64_t alloc, int64_t meta)
{
    struct world *w = world_new(1, 4);

    add_cell(w, 0, "snapkv+uniform", 0.5, "physical", "1111");
    w->out[2].memory.kv_alloc_bytes += alloc;
    w->out[2].memory.kv_meta_bytes += meta;
    return w;
}

static void one_byte_more_fails_and_less_is_reported(void **state)
{
    static const int64_t grow[5][2] = {{0, 0}, {1, 0}, {0, 1}, {-1, 0}, {-8, 1}};
    static const enum kva_regress_verdict want[5] = {KVA_REGRESS_PASS, KVA_REGRESS_FAIL,
                                                     KVA_REGRESS_FAIL, KVA_REGRESS_BETTER,
                                                     KVA_REGRESS_FAIL};
    struct kva_regress_opts o = only(KVA_REGRESS_MEMORY);

    (void)state;
    for (int k = 0; k < 5; k++) {
        struct world *a = held(0, 0), *b = held(grow[k][0], grow[k][1]);
        struct kva_regress r;

        decided(&r, &a->d, &b->d, &o);
        assert_int_equal(r.n_row, 1);
        assert_int_equal(r.row[0].verdict, want[k]);
        assert_int_equal(kva_regress_exit(&r), want[k] == KVA_REGRESS_FAIL);
        kva_regress_release(&r);
        free(a);
        free(b);
    }
}

static void the_device_peak_has_room_of_4_mib_or_a_percent(void **state)
{
    struct kva_regress_opts o = only(KVA_REGRESS_MEMORY);
    const int64_t mib = 1 << 20;
    const struct {
        int64_t was, is;
        int fails;
    } row[] = {{100 * mib, 104 * mib, 0},
               {100 * mib, 104 * mib + 1, 1},
               {1000 * mib, 1010 * mib, 0},
               {1000 * mib, 1010 * mib + 1, 1},
               {1000 * mib, -1, 0}};

    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof row[0]; k++) {
        struct world *a = held(0, 0), *b = held(0, 0);
        struct kva_regress r;

        a->out[0].has_alone = b->out[0].has_alone = true;
        a->out[0].alone = b->out[0].alone = a->out[0].memory;
        a->out[0].alone.dev_peak_bytes = row[k].was;
        b->out[0].alone.dev_peak_bytes = row[k].is;
        decided(&r, &a->d, &b->d, &o);
        assert_int_equal(kva_regress_exit(&r), row[k].fails);
        kva_regress_release(&r);
        free(a);
        free(b);
    }
}

static void a_worse_audit_verdict_fails(void **state)
{
    struct kva_regress_opts o = only(KVA_REGRESS_MEMORY);
    struct world *a = held(0, 0), *b = held(0, 0);
    struct kva_regress r;

    (void)state;
    b->out[1].memory.audit = 8;
    decided(&r, &a->d, &b->d, &o);
    assert_int_equal(kva_regress_exit(&r), 1);
    assert_non_null(strstr(r.row[0].message, "audit verdict"));
    kva_regress_release(&r);
    decided(&r, &b->d, &a->d, &o);
    assert_int_equal(r.row[0].verdict, KVA_REGRESS_BETTER);
    kva_regress_release(&r);
    free(a);
    free(b);
}

/* Ruling R13: UNVERIFIED is a badge. */
static void bytes_that_could_not_be_checked_warn(void **state)
{
    struct kva_regress_opts o = only(KVA_REGRESS_MEMORY);
    struct world *a = held(0, 0), *b = held(0, 0);
    struct kva_regress r;

    (void)state;
    b->out[1].memory.audit = -1;
    decided(&r, &a->d, &b->d, &o);
    assert_int_equal(r.row[0].verdict, KVA_REGRESS_WARN);
    assert_int_equal(kva_regress_exit(&r), 0);
    assert_non_null(strstr(r.row[0].message, "UNVERIFIED"));
    kva_regress_release(&r);
    decided(&r, &b->d, &b->d, &o); /* as before: said, no warning */
    assert_int_equal(r.row[0].verdict, KVA_REGRESS_PASS);
    assert_non_null(strstr(r.row[0].message, "UNVERIFIED"));
    kva_regress_release(&r);
    b->out[1].memory.kv_alloc_bytes++; /* and never hides a growth */
    decided(&r, &a->d, &b->d, &o);
    assert_int_equal(r.row[0].verdict, KVA_REGRESS_FAIL);
    kva_regress_release(&r);
    free(a);
    free(b);
}

static void a_time_gate_survives_every_failed_allocation(void **state)
{
    const double ms[] = {10, 10.1, 9.9, 10, 10.1, 9.9, 10, 10.1};
    struct timed *a = timed(ms, 8), *b = timed(ms, 8);
    struct kva_regress_opts o = only(KVA_REGRESS_TIME);
    int refused = 0;

    (void)state;
    o.replicates = 100;
    for (int i = 0; i < 3; i++) {
        rep(a, "calib_copy", 9, 64);
        rep(a, "calib_gemm", 4, 128);
        rep(b, "calib_copy", 9.9, 64);
        rep(b, "calib_gemm", 4.4, 128);
    }
    for (int n = 1; n <= 100; n++) {
        struct kva_error err = {0};
        struct kva_regress r;
        enum kva_status rc;

        kva_regress_init(&r, &o);
        kva_alloc_fail_at(n);
        rc = kva_regress_add(&r, &a->w->d, &b->w->d, "base", 1, &err);
        kva_alloc_fail_at(0);
        assert_true(rc == KVA_OK || rc == KVA_ENOMEM);
        refused += rc == KVA_ENOMEM;
        if (rc == KVA_OK) /* not a night without yardsticks or without a test */
            assert_true(fabs(r.row[0].delta - 1 / 1.1) < 1e-9 && !isnan(r.row[0].p));
        kva_regress_release(&r);
    }
    assert_in_range(refused, 15, 90);
    drop(a);
    drop(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_fails_at_5_and_warns_at_15_percent),
        cmocka_unit_test(five_repetitions_and_other_machines_are_no_verdict),
        cmocka_unit_test(yardsticks_take_a_slow_night_out),
        cmocka_unit_test(a_time_gate_survives_every_failed_allocation),
        cmocka_unit_test(a_slow_down_counts_only_if_every_confirmation_fails),
        cmocka_unit_test(samples_that_ran_alone_stand_in_for_repetitions),
        cmocka_unit_test(ten_microseconds_never_matter),
        cmocka_unit_test(outliers_are_told_and_stay),
        cmocka_unit_test(one_byte_more_fails_and_less_is_reported),
        cmocka_unit_test(the_device_peak_has_room_of_4_mib_or_a_percent),
        cmocka_unit_test(a_worse_audit_verdict_fails),
        cmocka_unit_test(bytes_that_could_not_be_checked_warn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
