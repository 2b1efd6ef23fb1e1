/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_geometry_kvpress.c - scores of kvpress 0.5.5 on keys and values made here, too:
 * tests/oracle/geometry_scores.py wrote them. */
#include "tests/methods/methods_test.h"

#include <jansson.h>

enum { HEADS = 2, DIM = 8 };

/* Number c of entry t of head h, side 0 keys and 1 values. */
static float number(int side, int h, int t, int c)
{
    uint32_t u = (uint32_t)(((side * HEADS + h) * 300 + t) * DIM + c) * 2654435761u;

    u = (u ^ u >> 15) * 2246822519u;
    return (float)(u >> 20) / 1024 - 2;
}

static struct fixture fixture_of_numbers(int n)
{
    struct fixture f = {
        .layers = 1, .kv_heads = HEADS, .heads = HEADS, .dim = DIM, .tokens = n};
    struct kva_kvshape shape = {1, HEADS, DIM, DIM, KVA_F32};
    float *rows[2];
    int32_t *pos = calloc((size_t)n, sizeof *pos);

    for (int side = 0; side < 2; side++) {
        rows[side] = calloc((size_t)n * HEADS * DIM, sizeof(float));
        for (int i = 0; i < n * HEADS * DIM; i++)
            rows[side][i] = number(side, i / DIM % HEADS, i / DIM / HEADS, i % DIM);
    }
    for (int t = 0; t < n; t++)
        pos[t] = t;
    assert_ok(kva_ops_open("cpu", "f32", 1, &f.ops, &test_error));
    assert_ok(kva_kvstore_new(f.ops, &shape, 16, KVA_KV_PHYSICAL, &f.store, &test_error));
    assert_ok(kva_kvstore_append(f.store, 0, rows[0], HEADS * DIM, rows[1], HEADS * DIM,
                                 pos, n, &test_error));
    free(rows[0]);
    free(rows[1]);
    free(pos);
    return f;
}

/* Filters of qfilter: the last values of 300. */
static void lend_filters(struct kva_table *t, double data[HEADS * DIM])
{
    for (int i = 0; i < HEADS * DIM; i++)
        data[i] = (double)number(1, i / DIM, 299, i % DIM);
    *t = (struct kva_table){.layers = 1, .kv_heads = HEADS, .columns = DIM, .data = data};
}

/* Sinks carry the sentinel 1 of the reference and are left out. */
static void check_row(const json_t *row)
{
    const char *text = json_string_value(json_object_get(row, "method"));
    int n = (int)json_integer_value(json_object_get(row, "n"));
    struct fixture f = fixture_of_numbers(n);
    struct kva_method m = parse(text, ONESHOT);
    struct kva_decide_in in = fixture_in(&f, ONESHOT);
    double filters[HEADS * DIM];
    struct kva_table t;
    struct kva_scores sc;

    lend_filters(&t, filters);
    m.table = m.scorer->table_kind != NULL ? &t : NULL;
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    for (int h = 0; h < HEADS; h++) {
        const json_t *want = json_array_get(json_object_get(row, "scores"), (size_t)h);

        assert_int_equal(json_array_size(want), n);
        for (int j = sc.protect.sinks; j < n; j++) {
            double w = json_number_value(json_array_get(want, (size_t)j));

            if (!(fabs((double)sc.s[h * n + j] - w) <= 2e-6 * fmax(0.05, fabs(w))))
                fail_msg("%s of %d: head %d entry %d: %.9g instead of %.9g", text, n, h,
                         j, (double)sc.s[h * n + j], w);
        }
    }
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void scores_are_those_of_kvpress(void **state)
{
    FILE *f = fopen("tests/oracle/geometry_scores.jsonl", "r");
    char *line = NULL;
    size_t cap = 0;
    int rows = 0;

    (void)state;
    assert_non_null(f);
    while (getline(&line, &cap, f) > 0) {
        json_t *row = json_loads(line, 0, NULL);

        assert_non_null(row);
        if (json_object_get(row, "method") != NULL) {
            check_row(row);
            rows++;
        }
        json_decref(row);
    }
    assert_int_equal(rows, 15);
    free(line);
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_of_kvpress),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
