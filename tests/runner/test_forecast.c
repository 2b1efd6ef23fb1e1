/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_forecast.c - the time model, and what a dry run says of memory and differences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runner/forecast.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * fabs(want) + 1e-12))
        fail_msg("%.17g, not %.17g", got, want);
}

static void the_fit_finds_the_coefficients_it_was_made_from(void **state)
{
    struct kva_db_time rows[24];
    struct kva_time_fit fit;

    (void)state;
    for (int i = 0; i < 24; i++) {
        double n = 512 << (i % 4), g = 8 * (1 + i / 4);

        rows[i] = (struct kva_db_time){n, g, 3e5 * n + 12 * n * n + 4e6 * g};
    }
    kva_time_fit(rows, 24, &fit);
    assert_int_equal(fit.n, 24);
    near(fit.a, 3e5);
    near(fit.b, 12);
    near(fit.c, 4e6);
    near(kva_time_fit_ns(&fit, 8192, 128), 3e5 * 8192 + 12.0 * 8192 * 8192 + 4e6 * 128);
}

static void terms_that_cannot_be_told_apart_are_left_out(void **state)
{
    struct kva_db_time rows[4];
    struct kva_time_fit fit;

    (void)state;
    for (int i = 0; i < 4; i++) /* one context length: n and n^2 are the same column */
        rows[i] =
            (struct kva_db_time){1024, 10 * (i + 1), 2e5 * 1024 + 5e6 * 10 * (i + 1)};
    kva_time_fit(rows, 4, &fit);
    assert_int_equal(fit.n, 4);
    near(fit.a, 2e5);
    assert_true(fit.b == 0);
    near(fit.c, 5e6);
    for (int i = 0; i < 4; i++) /* and one answer length */
        rows[i] = (struct kva_db_time){1024, 10, 1e9};
    kva_time_fit(rows, 4, &fit);
    near(fit.a, 1e9 / 1024);
    assert_true(fit.b == 0 && fit.c == 0);
    kva_time_fit(rows, 1, &fit);
    near(kva_time_fit_ns(&fit, 2048, 50), 2e9);
    kva_time_fit(rows, 0, &fit);
    assert_int_equal(fit.n, 0);
}

static void no_coefficient_is_negative(void **state)
{
    struct kva_db_time rows[6];
    struct kva_time_fit fit;

    (void)state;
    for (int i = 0; i < 6; i++) { /* grows slower than n: b would be negative */
        double n = 256 << i;

        rows[i] = (struct kva_db_time){n, 16 + (i * 7) % 5, 1e6 * sqrt(n)};
    }
    kva_time_fit(rows, 6, &fit);
    assert_int_equal(fit.n, 6);
    assert_true(fit.a >= 0 && fit.b >= 0 && fit.c >= 0);
    assert_true(kva_time_fit_ns(&fit, 1024, 16) > 0);
}

static void memory_and_differences_of_a_plan(void **state)
{
    static const char text[] =
        "{\"schema\":1,\"models\":[\"builtin:tiny-llama\"],\"methods\":[\"keydiff\"],"
        "\"tasks\":[\"ruler/vt@512\"],\"budgets\":[\"keep=0.5\"],"
        "\"kv\":[\"f16\",\"f32\"],\"defaults\":{\"n\":200,\"max_new_tokens\":10}}";
    struct kva_suite s;
    struct kva_plan p;
    struct kva_forecast f;
    struct kva_buf report;
    const struct kva_model_info *info;
    double token, fixed;

    (void)state;
    kva_buf_init(&report, 0);
    assert_int_equal(kva_suite_parse(text, "s", ".", NULL, &s, &report, NULL), KVA_OK);
    kva_buf_release(&report);
    assert_int_equal(kva_plan_new(&s, NULL, 1, &p, NULL), KVA_OK);
    assert_int_equal(kva_forecast(&p, NULL, 1, &f, NULL), KVA_OK);
    assert_true(isnan(f.seconds)); /* nothing was ever run */
    near(f.disk_bytes, (double)p.n_todo * 460);
    assert_true(f.machine_bytes > 1e8);
    info = kva_model_info(p.models[0].open[0]);
    token = 2.0 * info->layers * info->kv_heads * (info->head_dim + info->v_dim);
    fixed = (double)info->weight_bytes;
    for (int i = 0; i < p.n_cells; i++) {
        const struct kva_forecast_cell *x = &f.cell[i];
        double kv = token * 522 * (p.cells[i].kv == KVA_F32 ? 2 : 1);

        assert_true(x->peak_bytes > fixed + kv);
        assert_true(x->peak_bytes < fixed + kv + (4 << 20));
        assert_int_equal(x->pairs, 0);
        /* reports.md 4.7: sqrt(7.8489 * 0.1 / 207.8489) */
        assert_true(fabs(x->mde - 0.061451) < 1e-6);
    }
    kva_forecast_release(&f);
    kva_plan_release(&p);
    kva_suite_release(&s);
}

/* Two questions on each of three contexts: a comparison has three units. */
static void questions_of_one_context_are_one_unit_of_a_plan(void **state)
{
    char path[] = "/tmp/kva-forecast-XXXXXX.jsonl", text[400];
    int fd = mkstemps(path, 6);
    struct kva_suite s;
    struct kva_plan p;
    struct kva_forecast f;
    struct kva_buf report;

    (void)state;
    assert_true(fd >= 0);
    for (int i = 0; i < 6; i++)
        dprintf(fd,
                "{\"context\": \"The number of box %d is %d. \", \"question\": \"Which "
                "number, %d?\", \"answers\": [\"%d\"]}\n",
                i / 2, 70 + i / 2, i, 70 + i / 2);
    close(fd);
    snprintf(
        text, sizeof text,
        "{\"schema\":1,\"models\":[\"builtin:tiny-llama\"],\"methods\":[\"keydiff\"],"
        "\"tasks\":[\"jsonl:%s\"],\"budgets\":[\"keep=0.5\"],\"defaults\":{\"n\":6}}",
        path);
    kva_buf_init(&report, 0);
    assert_int_equal(kva_suite_parse(text, "s", ".", NULL, &s, &report, NULL), KVA_OK);
    kva_buf_release(&report);
    assert_int_equal(kva_plan_new(&s, NULL, 1, &p, NULL), KVA_OK);
    assert_int_equal(kva_forecast(&p, NULL, 1, &f, NULL), KVA_OK);
    for (int i = 0; i < p.n_cells; i++) {
        assert_int_equal(p.cells[i].n, 6);
        assert_int_equal(f.cell[i].contexts, 3);
        /* no difference is larger than the share that differs */
        assert_true(isnan(f.cell[i].mde));
    }
    kva_forecast_release(&f);
    kva_plan_release(&p);
    kva_suite_release(&s);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fit_finds_the_coefficients_it_was_made_from),
        cmocka_unit_test(terms_that_cannot_be_told_apart_are_left_out),
        cmocka_unit_test(no_coefficient_is_negative),
        cmocka_unit_test(memory_and_differences_of_a_plan),
        cmocka_unit_test(questions_of_one_context_are_one_unit_of_a_plan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
