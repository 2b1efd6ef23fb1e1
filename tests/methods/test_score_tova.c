/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_tova.c - attention of the last token, one ranking for a layer. */
#include "tests/methods/methods_test.h"

/* Mean over the query heads of every KV head that holds the position, looked up one by
 * one. */
static void naive(const struct fixture *f, const struct cell *c, double *s)
{
    int group = f->heads / f->kv_heads;
    int *count = kva_calloc((size_t)c->n, sizeof *count);
    double *row = kva_calloc((size_t)f->tokens, sizeof *row);

    for (int j = 0; j < c->n; j++)
        s[j] = 0;
    for (int h = 0; h < f->kv_heads; h++) {
        struct cell other = cell_read(f, c->layer, h);

        for (int a = h * group; a < (h + 1) * group; a++) {
            naive_row(f, &other, f->nq - 1, a, row);
            for (int j = 0; j < c->n; j++) {
                for (int i = 0; i < other.n; i++) {
                    if (other.pos[i] == c->pos[j]) {
                        s[j] += row[i];
                        count[j]++;
                    }
                }
            }
        }
        cell_release(&other);
    }
    for (int j = 0; j < c->n; j++)
        s[j] /= count[j];
    free(count);
    free(row);
}

static void kept_sets_follow_a_plain_sort(void **state)
{
    (void)state;
    check_scorer("tova", "tova", naive, (struct kva_protect){0, 1},
                 (struct kva_protect){0, 0});
    check_scorer("tova:protect_last=0,sinks=3", "tova:recent=5", naive,
                 (struct kva_protect){3, 0}, (struct kva_protect){0, 5});
}

static void kv_heads_of_a_layer_agree(void **state)
{
    struct fixture f = fixture_new(2, 3, 2, 16, 90, 8, false, 5);
    struct kva_scores sc = score_of(&f, "tova", ONESHOT);

    (void)state;
    for (int l = 0; l < 2; l++) {
        for (int h = 1; h < 3; h++) {
            const float *first = sc.s + sc.off[l * 3], *s = sc.s + sc.off[l * 3 + h];

            assert_memory_equal(s, first, 90 * sizeof *s);
        }
    }
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void ragged_heads_agree_on_the_positions_they_share(void **state)
{
    struct fixture f = fixture_new(1, 2, 2, 16, 90, 8, true, 6);
    struct kva_scores sc = score_of(&f, "tova", BLOCK128);
    int shared = 0, alone = 0;

    (void)state;
    for (size_t i = sc.off[0]; i < sc.off[1]; i++) {
        bool found = false;

        for (size_t j = sc.off[1]; j < sc.off[2]; j++) {
            if (sc.pos[i] == sc.pos[j]) {
                assert_memory_equal(&sc.s[i], &sc.s[j], sizeof(float));
                found = true;
            }
        }
        shared += found;
        alone += !found;
    }
    assert_true(shared > 40 && alone > 0);
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void the_last_token_is_protected_in_one_shot_only(void **state)
{
    struct kva_method once = parse("tova", ONESHOT), block = parse("tova", BLOCK128);

    (void)state;
    assert_string_equal(once.scorer_spec, "tova:protect_last=1,recent=0,sinks=0");
    assert_string_equal(block.scorer_spec, "tova:protect_last=0,recent=0,sinks=0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_follow_a_plain_sort),
        cmocka_unit_test(kv_heads_of_a_layer_agree),
        cmocka_unit_test(ragged_heads_agree_on_the_positions_they_share),
        cmocka_unit_test(the_last_token_is_protected_in_one_shot_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
