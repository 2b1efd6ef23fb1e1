/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_wrap_defensive.c - E17, the worst case written down again in double, stage 1, the
 * bias of the window (methods.md 11, trap 22), classes above real scores (trap 1). */
#include "tests/methods/wrap_test.h"

enum { KEYS = 3, ROWS = 2, DIM = 8 };

/* Keys are unit vectors, so that a query holds its own logits. Rows of weights over the
 * keys before the window; `left` is what the window gets in each. */
static struct fixture given_rows(const double rows[ROWS][2][KEYS], double left)
{
    struct fixture f = {.layers = 1,
                        .kv_heads = 1,
                        .heads = 2,
                        .dim = DIM,
                        .tokens = KEYS + ROWS,
                        .nq = ROWS};
    struct kva_kvshape shape = {1, 1, DIM, DIM, KVA_F32};
    float k[(KEYS + ROWS) * DIM] = {0}, v[(KEYS + ROWS) * DIM] = {0};
    int32_t pos[KEYS + ROWS];
    double scale = 1 / sqrt((double)DIM);

    for (int j = 0; j < KEYS + ROWS; j++) {
        pos[j] = j;
        k[j * DIM + j] = 1;
        v[j * DIM] = 1; /* one KV head: its norms are the whole */
    }
    assert_ok(kva_ops_open("cpu", "f32", 1, &f.ops, &test_error));
    assert_ok(kva_kvstore_new(f.ops, &shape, 4, KVA_KV_PHYSICAL, &f.store, &test_error));
    assert_ok(
        kva_kvstore_append(f.store, 0, k, DIM, v, DIM, pos, KEYS + ROWS, &test_error));
    f.q = kva_calloc(ROWS * 2 * DIM, sizeof *f.q);
    f.q_pos = kva_calloc(ROWS, sizeof *f.q_pos);
    for (int i = 0; i < ROWS; i++) {
        f.q_pos[i] = KEYS + i;
        for (int a = 0; a < 2; a++) {
            float *q = f.q + (i * 2 + a) * DIM;

            for (int j = 0; j < KEYS; j++)
                q[j] = (float)(log(rows[i][a][j] * (1 - left)) / scale);
            /* row 0 sees one window key, row 1 both */
            q[KEYS] = (float)(log(left > 0 ? left / (i + 1) : 1e-30) / scale);
            q[KEYS + 1] = q[KEYS];
        }
    }
    return f;
}

static const double E17[ROWS][2][KEYS] = {{{.6, .3, .1}, {.2, .5, .3}},
                                          {{.1, .1, .8}, {.3, .3, .4}}};

static void the_worst_case_gives_the_worked_example(void **state)
{
    struct fixture f = given_rows(E17, 0);
    struct projection p = projection_new(&f, 4, 1);
    struct wrapped w =
        wrap_of(&f, &p, "snapkv:window=2+defensive:kernel=1,window=2", ONESHOT);
    static const double worst[] = {.6, .5, .8}, mean[] = {.3, .3, .4};
    const double prior = (.6 + .5 + .8) / 3;

    (void)state;
    for (int j = 0; j < KEYS; j++) {
        assert_near(w.out.s[j], worst[j] > prior ? worst[j] : prior, 1e-5);
        assert_near(w.out.aux[2 * j] / 4, mean[j], 1e-5);
    }
    assert_near(w.out.aux[2 * KEYS], -1, 0);
    wrapped_release(&w);
    free(p.w);
    fixture_release(&f);
}

static void the_bias_is_the_mass_on_the_window(void **state)
{
    struct fixture f = given_rows(E17, 0.25);
    struct projection p = projection_new(&f, 4, 1);
    struct wrapped w =
        wrap_of(&f, &p, "snapkv:window=2+defensive:kernel=1,window=2", ONESHOT);

    (void)state;
    assert_near(w.out.aux[1], 0.25, 1e-5);
    wrapped_release(&w);
    w = wrap_of(&f, &p, "snapkv:window=2+defensive:fix_bias=0,kernel=1,window=2",
                ONESHOT);
    /* of the two keys before the window: 0.75 * mean of .4 .9 .8 .7 */
    assert_near(w.out.aux[1], 0.75 * (.4 + .9 + .8 + .7) / 4, 1e-5);
    wrapped_release(&w);
    free(p.w);
    fixture_release(&f);
}

/* The whole score of a KV head again, in double; share: w_j over the KV heads. */
static void naive(const struct fixture *f, const struct cell *c,
                  const struct projection *p, int rows, int kernel, double *worst,
                  double *mean, double *norm)
{
    int cut = 0, group = f->heads / f->kv_heads;
    double row[256], pooled[256];

    while (c->pos[cut] < f->q_pos[f->nq - rows])
        cut++;
    for (int j = 0; j < c->n; j++) {
        worst[j] = mean[j] = norm[j] = 0;
        for (int a = c->head * group; a < (c->head + 1) * group; a++)
            norm[j] += projected_norm(p, a, c->v + j * f->dim, 1) / group;
    }
    for (int i = f->nq - rows; i < f->nq; i++)
        for (int a = c->head * group; a < (c->head + 1) * group; a++) {
            double before = 0, after = 0;

            naive_row(f, c, i, a, row);
            for (int j = 0; j < cut; j++) {
                pooled[j] = 0;
                for (int k = j - kernel / 2; k <= j + kernel / 2; k++)
                    pooled[j] += k >= 0 && k < cut ? row[k] / kernel : 0;
                before += row[j];
                after += pooled[j];
                mean[j] += row[j];
            }
            for (int j = 0; j < cut; j++)
                worst[j] = fmax(worst[j], pooled[j] * before / after);
        }
    {
        double prior = 0;

        for (int j = 0; j < cut; j++)
            prior += worst[j] / cut;
        for (int j = 0; j < cut; j++)
            worst[j] = fmax(worst[j], prior);
    }
}

static void scores_are_the_definition(void **state)
{
    struct fixture f = fixture_new(2, 3, 2, 16, 140, 40, false, 51);
    struct projection p = projection_new(&f, 24, 52);
    struct wrapped w = wrap_of(&f, &p, "snapkv:window=32+adakv+defensive", ONESHOT);
    double worst[140], mean[140], norm[3][140];

    (void)state;
    for (int l = 0; l < 2; l++) {
        for (int h = 0; h < 3; h++) {
            struct cell c = cell_read(&f, l, h);

            naive(&f, &c, &p, 32, 5, worst, mean, norm[h]);
            cell_release(&c);
        }
        for (int h = 0; h < 3; h++) {
            struct cell c = cell_read(&f, l, h);
            const float *s = w.out.s + w.out.off[l * 3 + h];
            const float *aux = w.out.aux + 2 * w.out.off[l * 3 + h];

            naive(&f, &c, &p, 32, 5, worst, mean, norm[h]);
            for (int j = 0; j < 108; j++) {
                double share = norm[h][j] / (norm[0][j] + norm[1][j] + norm[2][j]);

                assert_near(s[j], worst[j] * share, 1e-5 * worst[j]);
                assert_near(aux[2 * j], mean[j], 1e-4 * mean[j]);
            }
            for (int j = 108; j < 140; j++)
                assert_true(aux[2 * j] < 0);
            cell_release(&c);
        }
    }
    wrapped_release(&w);
    free(p.w);
    fixture_release(&f);
}

/* Where some KV heads lost a position the others' share stays what it can be. */
static void a_ragged_cache_shares_among_those_that_hold(void **state)
{
    struct fixture f = fixture_new(1, 2, 1, 16, 90, 40, true, 53);
    struct projection p = projection_new(&f, 24, 54);
    struct wrapped w = wrap_of(&f, &p, "snapkv:window=8+defensive:window=8", BLOCK128);
    struct cell c[2] = {cell_read(&f, 0, 0), cell_read(&f, 0, 1)};
    double worst[90], mean[90], norm[2][90];
    int alone = 0;

    (void)state;
    naive(&f, &c[1], &p, 8, 5, worst, mean, norm[1]);
    naive(&f, &c[0], &p, 8, 5, worst, mean, norm[0]);
    for (int j = 0; j < c[0].n && c[0].pos[j] < 82; j++) {
        double share = 0.5;

        alone++;
        for (int k = 0; k < c[1].n; k++)
            if (c[1].pos[k] == c[0].pos[j]) {
                share = norm[0][j] / (norm[0][j] + norm[1][k]);
                alone--;
            }
        assert_near(w.out.s[j], worst[j] * share, 1e-5 * worst[j]);
    }
    assert_true(alone > 3);
    cell_release(&c[0]);
    cell_release(&c[1]);
    wrapped_release(&w);
    free(p.w);
    fixture_release(&f);
}

/* ---- stage 1 */

/* One KV head of 8 entries, the last 2 the window. */
static struct kva_scores by_hand(const float *s, const float *mean, float bias)
{
    struct kva_scores sc = scores_of(1, 1, 8, s);

    sc.wide = 2;
    sc.aux = kva_calloc(16, sizeof *sc.aux);
    for (int j = 0; j < 8; j++) {
        sc.aux[2 * j] = j < 6 ? mean[j] : -1;
        sc.aux[2 * j + 1] = bias;
    }
    return sc;
}

static const float S8[] = {.1f, .2f, .3f, .4f, .5f, .6f, 0, 0};
static const float MEAN8[] = {.5f, .3f, .1f, .05f, .03f, .02f};

static void promoted(const struct kva_scores *sc, const char *text, int share, float *s)
{
    struct kva_method m = parse(text, ONESHOT);

    memcpy(s, sc->s, 8 * sizeof *s);
    assert_ok(m.wrapper->promote(&m.wrapper_params, sc, &share, s, &test_error));
}

static void stage_one_ends_below_the_share(void **state)
{
    struct kva_scores sc = by_hand(S8, MEAN8, 0.2f);
    float s[8];

    (void)state;
    promoted(&sc, "tova+defensive", 8, s); /* 0.5 stays below 0.7, 0.8 does not */
    assert_true(s[0] > 0.6f && s[6] > s[0] && s[7] > s[0]);
    for (int j = 1; j < 6; j++)
        assert_near(s[j], S8[j], 0);
    promoted(&sc, "tova+defensive:mass=1", 8, s); /* of the full mass 0.8: one less */
    assert_true(s[0] > 0.6f);
    sc.aux[1] = sc.aux[3] = sc.aux[5] = sc.aux[7] = 0;
    promoted(&sc, "tova+defensive:mass=0.95", 8, s);
    assert_true(s[0] > 0.6f && s[1] > 0.6f && s[2] > 0.6f);
    promoted(&sc, "tova+defensive:mass=0.95", 4, s); /* at most N - W */
    assert_true(s[0] > 0.6f && s[1] > 0.6f);
    assert_near(s[2], S8[2], 0);
    promoted(&sc, "tova+defensive", 1, s); /* nothing but the window */
    assert_near(s[0], S8[0], 0);
    kva_scores_release(&sc);
}

static void stage_one_and_the_window_outrank_real_scores(void **state)
{
    struct kva_scores sc = by_hand(S8, MEAN8, 0);
    struct kva_decision d;

    (void)state;
    sc.protect.recent = 1; /* the scorer protects less than the window */
    d = select_of(&sc, "tova+defensive", 5);
    assert_keeps(d, 0, 0, 1, 5, 6, 7);
    kva_decision_release(&d);
    d = select_of(&sc, "tova+adakv:alpha=0+defensive", 3);
    assert_keeps(d, 0, 0, 6, 7);
    kva_decision_release(&d);
    kva_scores_release(&sc);
}

static void aliases_are_the_published_methods(void **state)
{
    (void)state;
    assert_string_equal(
        parse("defensivekv", ONESHOT).spec,
        parse("snapkv:window=32+defensive:fix_bias=1,kernel=5,mass=0.9,window=32"
              "+adakv:alpha=0",
              ONESHOT)
            .spec);
    assert_string_equal(parse("layer_defensivekv", ONESHOT).spec,
                        parse("snapkv:window=32+global+defensive", ONESHOT).spec);
    assert_string_equal(
        parse("criticalkv", ONESHOT).spec,
        parse("snapkv32+critical:alpha=0.5,compat=0,eps=0.0001,norm=l1", ONESHOT).spec);
    assert_string_equal(parse("ada_critical", ONESHOT).spec,
                        parse("snapkv32+critical+adakv:alpha=0.2", ONESHOT).spec);
    assert_string_equal(
        parse("defensivekv:fix_bias=0", ONESHOT).spec,
        parse("snapkv:window=32+adakv:alpha=0+defensive:fix_bias=0", ONESHOT).spec);
}

static void what_has_no_meaning_is_refused(void **state)
{
    struct kva_method m = parse("tova+defensive:window=16", ONESHOT);
    int window = 0;

    (void)state;
    refused("valuediff+defensive", "window attention");
    refused("random+defensive", "window attention");
    refused("snapkv+defensive+critical", "two wrappers");
    refused("snapkv+defensive:kernel=4", "odd");
    assert_true(kva_method_needs(&m, &window) & KVA_NEEDS_LEND);
    assert_int_equal(window, 16);
}

static void short_contexts_use_half_of_themselves(void **state)
{
    struct fixture f = fixture_new(1, 1, 2, 16, 6, 6, false, 60);
    struct projection p = projection_new(&f, 8, 61);
    struct wrapped w = wrap_of(&f, &p, "snapkv+defensive", ONESHOT);

    (void)state;
    for (int j = 0; j < 6; j++)
        assert_true((w.out.aux[2 * j] < 0) == (j >= 3));
    wrapped_release(&w);
    free(p.w);
    fixture_release(&f);
    f = fixture_new(1, 1, 2, 16, 1, 1, false, 60); /* one token is all window */
    w = wrap_of(&f, &(struct projection){0}, "tova+defensive", ONESHOT);
    assert_true(w.out.aux[0] < 0);
    wrapped_release(&w);
    fixture_release(&f);
}

static void counts_are_exact_whatever_the_scores(void **state)
{
    (void)state;
    check_counts("snapkv+defensive", 2);
    check_counts("snapkv+adakv:alpha=0+defensive", 2);
    check_counts("tova+global+defensive", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worst_case_gives_the_worked_example),
        cmocka_unit_test(the_bias_is_the_mass_on_the_window),
        cmocka_unit_test(scores_are_the_definition),
        cmocka_unit_test(a_ragged_cache_shares_among_those_that_hold),
        cmocka_unit_test(stage_one_ends_below_the_share),
        cmocka_unit_test(stage_one_and_the_window_outrank_real_scores),
        cmocka_unit_test(aliases_are_the_published_methods),
        cmocka_unit_test(what_has_no_meaning_is_refused),
        cmocka_unit_test(short_contexts_use_half_of_themselves),
        cmocka_unit_test(counts_are_exact_whatever_the_scores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
