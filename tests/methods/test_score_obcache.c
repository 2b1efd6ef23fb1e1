/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_obcache.c - worked example E4, and a second opinion in double. */
#include "tests/methods/rows_test.h"

static int form; /* 0 joint, 1 key, 2 value */

static void naive_terms(const struct fixture *f, const struct cell *c, int rows,
                        int kernel, double *s)
{
    int n = c->n, d = f->dim, group = f->heads / f->kv_heads, older = 0;
    double *w = kva_calloc((size_t)(rows * n), sizeof *w);
    double *x = kva_calloc((size_t)n, sizeof *x);
    double *o = kva_calloc((size_t)d, sizeof *o);

    for (int a = c->head * group; a < (c->head + 1) * group; a++) {
        older = naive_rows(f, c, rows, a, w);
        for (int i = 0; i < rows; i++) {
            const float *q =
                f->q + (((size_t)c->layer * (size_t)f->nq + (size_t)(f->nq - rows + i)) *
                            (size_t)f->heads +
                        (size_t)a) *
                           (size_t)d;

            memset(o, 0, (size_t)d * sizeof *o);
            for (int j = 0; j < n; j++)
                for (int y = 0; y < d; y++)
                    o[y] += w[i * n + j] * (double)c->v[j * d + y];
            for (int j = 0; j < older; j++) {
                double z = 0, sum = 0, weight = w[i * n + j];

                for (int y = 0; y < d; y++)
                    z += (double)q[y] * (double)c->k[j * d + y];
                z /= sqrt((double)d);
                for (int y = 0; y < d; y++) {
                    double v = (double)c->v[j * d + y];
                    double part = form == 0   ? weight * v + weight * z * (v - o[y])
                                  : form == 1 ? weight * z * (v - o[y])
                                              : weight * v;

                    sum += part * part;
                }
                x[j] += sum;
            }
        }
    }
    for (int j = 0; j < n; j++)
        s[j] = j < older ? naive_pool(x, older, j, kernel, true) : 0;
    free(w);
    free(x);
    free(o);
}

static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    naive_terms(f, c, 32, 7, s);
}

static void naive_last(const struct fixture *f, const struct cell *c, double *s)
{
    naive_terms(f, c, 1, 1, s);
}

/* Scores are skewed, so they are compared and not the cuts between them. */
static void check(const char *text, naive_fn opinion, int wanted, bool ragged)
{
    struct fixture f = fixture_new(2, 2, 3, 24, 150, 40, ragged, 1);
    struct kva_scores sc = score_of(&f, text, ragged ? BLOCK128 : ONESHOT);
    double s[150];

    form = wanted;
    assert_int_equal(sc.nonfinite, 0);
    for (int i = 0; i < 4; i++) {
        struct cell c = cell_read(&f, i / 2, i % 2);

        opinion(&f, &c, s);
        for (int j = 0; j < c.n; j++)
            assert_near(sc.s[sc.off[i] + (size_t)j], s[j], 2e-5 * fabs(s[j]) + 1e-12);
        cell_release(&c);
    }
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void scores_agree_with_a_second_opinion(void **state)
{
    (void)state;
    for (int ragged = 0; ragged < 2; ragged++) {
        check("obcache", naive, 0, ragged);
        check("obcache:form=key", naive, 1, ragged);
        check("obcache:form=value", naive, 2, ragged);
        check("obcache:base=tova", naive_last, 0, ragged);
        check("obcache:base=tova,form=key", naive_last, 1, ragged);
    }
}

/* E4 with one row behind its four entries. */
static void forms_of_E4_are_as_worked_out(void **state)
{
    static const char *const forms[] = {"obcache:base=tova,form=value",
                                        "obcache:base=tova,form=key",
                                        "obcache:base=tova,form=joint"};
    static const double want[3][4] = {{0.25, 0.04, 0.08, 0.2},
                                      {0.0925, 0.0137, 0.000425, 0},
                                      {0.2925, 0.0377, 0.086425, 0.2}};
    const float w[] = {0.5f, 0.2f, 0.2f, 0.1f, 0}, z[] = {1, -0.5f, 0.25f, 0, 0};
    const float o[] = {1.1f, 0.6f}, k[10] = {0}, q[2] = {0};
    const float v[] = {1, 0, 0, 1, 1, 1, 4, 2, 0, 0};
    const int32_t q_pos = 4;
    struct fixture f = fixture_of(k, v, 5);
    struct kva_ops ops = *f.ops;

    (void)state;
    ops.attend_rows = scripted_rows;
    f.nq = 1;
    for (int i = 0; i < 3; i++) {
        struct kva_method m = parse(forms[i], ONESHOT);
        struct kva_decide_in in;
        struct kva_scores sc;

        f.q = kva_calloc(2, sizeof *f.q);
        f.q_pos = kva_calloc(1, sizeof *f.q_pos);
        memcpy(f.q, q, sizeof q);
        f.q_pos[0] = q_pos;
        script.w = w;
        script.z = z;
        script.o = o;
        script.rows = 1;
        script.n = 5;
        script.v_dim = 2;
        script.call = 0;
        in = fixture_in(&f, ONESHOT);
        in.ops = &ops;
        assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
        for (int j = 0; j < 4; j++)
            assert_near(sc.s[j], want[i][j], 1e-6);
        kva_scores_release(&sc);
        free(f.q);
        free(f.q_pos);
    }
    f.q = NULL;
    f.q_pos = NULL;
    fixture_release(&f);
}

static void a_share_of_the_budget_may_go_to_the_newest(void **state)
{
    struct fixture f = fixture_new(1, 2, 2, 8, 200, 40, false, 5);
    struct kva_scores sc = score_of(&f, "obcache:recent_share=0.5,window=4", ONESHOT);
    struct kva_decision d = select_of(&sc, "obcache:recent_share=0.5,window=4", 100);

    (void)state;
    for (int h = 0; h < 2; h++)
        for (int j = 0; j < 25; j++)
            assert_int_equal(d.keep.rank[d.keep.off[h] + 25 + (size_t)j], 175 + j);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_agree_with_a_second_opinion),
        cmocka_unit_test(forms_of_E4_are_as_worked_out),
        cmocka_unit_test(a_share_of_the_budget_may_go_to_the_newest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
