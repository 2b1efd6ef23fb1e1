/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_finch.c - the question's attention: a second opinion, and its refusals. */
#include "tests/methods/rows_test.h"

enum { QUESTION = 9 };

/* Scores in double; `flat`: without the factor. */
static void naive(const struct fixture *f, const struct cell *c, bool flat, double *s)
{
    int n = c->n, group = f->heads / f->kv_heads, older = 0;
    double *w = kva_calloc((size_t)(QUESTION * n), sizeof *w);

    memset(s, 0, (size_t)n * sizeof *s);
    for (int a = c->head * group; a < (c->head + 1) * group; a++) {
        older = naive_rows(f, c, QUESTION, a, w);
        for (int i = 0; i < QUESTION; i++) {
            int seen = 0;

            for (int j = 0; j < n; j++)
                seen += c->pos[j] <= f->q_pos[f->nq - QUESTION + i];
            for (int j = 0; j < older; j++)
                s[j] += w[i * n + j] * (flat ? 1 : seen) / QUESTION / group;
        }
    }
    free(w);
}

static void check(const char *text, bool flat)
{
    struct fixture f = fixture_new(2, 2, 2, 16, 90, 40, false, 21);
    struct kva_method m = parse(text, ONESHOT);
    struct kva_decide_in in = fixture_in(&f, ONESHOT);
    struct kva_scores sc;
    double s[90];

    in.question = QUESTION;
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_int_equal(sc.protect.recent, QUESTION);
    for (int i = 0; i < 4; i++) {
        struct cell c = cell_read(&f, i / 2, i % 2);

        naive(&f, &c, flat, s);
        for (int j = 0; j < 90; j++)
            assert_near(sc.s[sc.off[i] + (size_t)j], s[j], 2e-6 * (1 + s[j]));
        cell_release(&c);
    }
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void scores_are_the_mean_over_the_questions_rows(void **state)
{
    (void)state;
    check("finch", false);
    check("finch:normalise=0", true);
}

static void without_a_question_there_is_nothing_to_rank_by(void **state)
{
    struct fixture f = fixture_new(1, 1, 1, 8, 20, 10, false, 2);
    struct kva_method m = parse("finch", ONESHOT);
    struct kva_decide_in in = fixture_in(&f, ONESHOT);
    struct kva_scores sc;
    struct kva_error e = {0};

    (void)state;
    assert_int_equal(kva_method_score(&m, &in, &sc, NULL, &e), KVA_EINVALID);
    assert_non_null(strstr(e.text, "question"));
    fixture_release(&f);
}

static void a_long_question_votes_with_its_last_tokens(void **state)
{
    struct fixture f = fixture_new(1, 2, 1, 8, 60, 40, false, 2);
    struct kva_method a = parse("finch:window=5", ONESHOT), b = parse("finch", ONESHOT);
    struct kva_decide_in in = fixture_in(&f, ONESHOT);
    struct kva_scores x, y;

    (void)state;
    in.question = 30;
    assert_ok(kva_method_score(&a, &in, &x, NULL, &test_error));
    in.question = 5;
    assert_ok(kva_method_score(&b, &in, &y, NULL, &test_error));
    assert_memory_equal(x.s, y.s, 120 * sizeof *x.s);
    kva_scores_release(&x);
    kva_scores_release(&y);
    fixture_release(&f);
}

static void kept_keys_are_rotated_unless_told_otherwise(void **state)
{
    struct kva_method a = parse("finch", ONESHOT), b = parse("finch:rotate=0", ONESHOT);

    (void)state;
    assert_true(kva_method_rotates(&a));
    assert_false(kva_method_rotates(&b));
    assert_true(a.scorer->question_aware);
}

static void blocks_are_refused(void **state)
{
    struct kva_method m;
    struct kva_error e = {0};

    (void)state;
    assert_int_equal(kva_method_parse("finch", &BLOCK128, &m, &e), KVA_EINVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_the_mean_over_the_questions_rows),
        cmocka_unit_test(without_a_question_there_is_nothing_to_rank_by),
        cmocka_unit_test(a_long_question_votes_with_its_last_tokens),
        cmocka_unit_test(kept_keys_are_rotated_unless_told_otherwise),
        cmocka_unit_test(blocks_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
