/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_score_expected_attention.c - the expected attention of later queries, against its
 * definition with full rotation matrices in double; worked example E16. */
#include "tests/methods/methods_test.h"

enum { DIM = 8, HALF = 3, HEADS = 4, KV = 2, N = 60, LAYERS = 2 };

/* What a session and a model would give: statistics of each layer and mean rotations of
 * the first 2 * HALF dimensions. */
struct stage {
    double mean[LAYERS][HEADS * DIM], cov[LAYERS][HEADS * DIM * DIM];
    struct kva_query_stats stats;
    int32_t from;
    int count, start;
};
static struct stage stage;

static double frequency(int m)
{
    return 1 / pow(3, m + 1);
}

static int rope_mean(void *ctx, int layer, int32_t from, int count, double *c, double *s)
{
    (void)ctx;
    (void)layer;
    stage.from = from;
    stage.count = count;
    for (int m = 0; m < HALF; m++) {
        c[m] = s[m] = 0;
        for (int t = 0; t < count; t++) {
            c[m] += cos((from + t) * frequency(m)) / count;
            s[m] += sin((from + t) * frequency(m)) / count;
        }
    }
    return HALF;
}

static int no_rotation(void *ctx, int layer, int32_t from, int count, double *c,
                       double *s)
{
    (void)ctx;
    (void)layer;
    (void)from;
    (void)count;
    (void)c;
    (void)s;
    return 0;
}

static const struct kva_query_stats *
query_stats(void *ctx, const struct kva_collect *want, int layer)
{
    (void)ctx;
    assert_int_equal(want->kind, KVA_COLLECT_QUERIES);
    stage.start = want->start;
    stage.stats = (struct kva_query_stats){stage.mean[layer], stage.cov[layer], 100};
    return &stage.stats;
}

/* Random means, and covariances A A' / DIM. */
static void set_stage(uint64_t seed)
{
    struct kva_rng r = {seed};

    for (int l = 0; l < LAYERS; l++)
        for (int a = 0; a < HEADS; a++) {
            double x[DIM][DIM];

            for (int i = 0; i < DIM; i++) {
                stage.mean[l][a * DIM + i] = (double)normal(&r);
                for (int j = 0; j < DIM; j++)
                    x[i][j] = (double)normal(&r);
            }
            for (int i = 0; i < DIM; i++)
                for (int j = 0; j < DIM; j++) {
                    double sum = 0;

                    for (int k = 0; k < DIM; k++)
                        sum += x[i][k] * x[j][k] / DIM;
                    stage.cov[l][(a * DIM + i) * DIM + j] = sum;
                }
        }
}

static struct kva_decide_in decide_in(struct fixture *f, const struct kva_lend *lend)
{
    struct kva_decide_in in = fixture_in(f, ONESHOT);

    in.lend = lend;
    in.query_stats = query_stats;
    in.seen = f->tokens;
    return in;
}

/* R[i][j] of the mean rotation, as a matrix. */
static void rotation(int32_t from, int count, double r[DIM][DIM])
{
    double c[HALF], s[HALF];

    rope_mean(NULL, 0, from, count, c, s);
    memset(r, 0, DIM * sizeof *r);
    for (int m = 0; m < HALF; m++) {
        r[m][m] = r[m + HALF][m + HALF] = c[m];
        r[m][m + HALF] = -s[m];
        r[m + HALF][m] = s[m];
    }
    for (int i = 2 * HALF; i < DIM; i++)
        r[i][i] = 1;
}

/* mu' = R mu, Sigma' = R Sigma R', logit = mu'.k / sqrt d + k' Sigma' k / 2d. */
static double logit(const struct cell *c, int a, int j, double r[DIM][DIM], bool cov)
{
    const double *mu = stage.mean[c->layer] + a * DIM;
    const double *sigma = stage.cov[c->layer] + a * DIM * DIM;
    double linear = 0, square = 0;

    for (int x = 0; x < DIM; x++)
        for (int y = 0; y < DIM; y++) {
            double turned = 0;

            linear += r[x][y] * mu[y] * (double)c->k[j * DIM + x];
            for (int i = 0; i < DIM; i++)
                for (int k = 0; k < DIM; k++)
                    turned += r[x][i] * sigma[i * DIM + k] * r[y][k];
            square += (double)c->k[j * DIM + x] * turned * (double)c->k[j * DIM + y];
        }
    return linear / sqrt(DIM) + (cov ? square / (2 * DIM) : 0);
}

static void naive(const struct fixture *f, const struct cell *c, int sinks, int future,
                  bool cov, bool vnorm, double eps, double *s)
{
    const int group = f->heads / f->kv_heads;
    double r[DIM][DIM];

    rotation(f->tokens, future, r);
    memset(s, 0, (size_t)c->n * sizeof *s);
    for (int a = c->head * group; a < (c->head + 1) * group; a++) {
        double sum = 0, p[N];

        for (int j = 0; j < c->n; j++) {
            p[j] = c->pos[j] < sinks ? 0 : exp(logit(c, a, j, r, cov));
            sum += p[j];
        }
        for (int j = 0; j < c->n; j++)
            s[j] += p[j] / sum / group;
    }
    for (int j = 0; j < c->n; j++) {
        double v = 0;

        for (int x = 0; x < DIM; x++)
            v += (double)c->v[j * DIM + x] * (double)c->v[j * DIM + x];
        s[j] = c->pos[j] < sinks ? 0 : (s[j] + eps) * (vnorm ? sqrt(v) : 1);
    }
}

static void compare(const char *text, bool ragged, int sinks, int future, bool cov,
                    bool vnorm, double eps)
{
    const struct kva_lend lend = {.rope_mean = rope_mean};
    struct fixture f = fixture_new(LAYERS, KV, HEADS / KV, DIM, N, 1, ragged, 5);
    struct kva_method m = parse(text, ONESHOT);
    struct kva_decide_in in = decide_in(&f, &lend);
    struct kva_scores sc;
    double want[N];

    set_stage(9);
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_int_equal(sc.protect.sinks, sinks);
    assert_int_equal(stage.start, sinks);
    assert_int_equal(stage.from, N);
    assert_int_equal(stage.count, future);
    for (int i = 0; i < LAYERS * KV; i++) {
        struct cell c = cell_read(&f, i / KV, i % KV);

        naive(&f, &c, sinks, future, cov, vnorm, eps, want);
        for (int j = 0; j < c.n; j++)
            assert_near(sc.s[sc.off[i] + (size_t)j], want[j], 2e-5 * (1e-3 + want[j]));
        cell_release(&c);
    }
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void scores_follow_the_definition_with_full_matrices(void **state)
{
    (void)state;
    compare("expected_attention", false, 4, 512, true, true, 0.01);
    compare("expected_attention:eps=0", true, 4, 512, true, true, 0);
    compare("expected_attention:cov=0,future=7,sinks=0", false, 0, 7, false, true, 0.01);
    compare("expected_attention:eps=0.02,vnorm=0", true, 4, 512, true, false, 0.02);
}

/* E16: mu .5, var .25, k 1, d 1: logit .625; beside a zero key its share is
 * exp(.625) / (exp(.625) + 1). */
static void one_dimension_of_E16_has_the_logit_0_625(void **state)
{
    const struct kva_lend lend = {.rope_mean = no_rotation};
    const float k[] = {1, 0, 0, 0}, v[] = {1, 0, 1, 0};
    struct fixture f = fixture_of(k, v, 2);
    struct kva_method m =
        parse("expected_attention:eps=0,future=1,sinks=0,vnorm=0", ONESHOT);
    struct kva_decide_in in = decide_in(&f, &lend);
    struct kva_scores sc;

    (void)state;
    memset(&stage, 0, sizeof stage);
    stage.mean[0][0] = 0.5;
    stage.cov[0][0] = 0.25;
    in.scale = 1;
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_near(log((double)sc.s[0] / (double)sc.s[1]), 0.625, 1e-5);
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void equal_keys_and_values_keep_sinks_and_the_newest(void **state)
{
    const struct kva_lend lend = {.rope_mean = no_rotation};
    const float k[20] = {0},
                v[20] = {1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2};
    struct fixture f = fixture_of(k, v, 10);
    struct kva_method m = parse("expected_attention", ONESHOT);
    struct kva_decide_in in = decide_in(&f, &lend);
    struct kva_decision d;
    struct kva_scores sc;

    (void)state;
    set_stage(1);
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_ok(kva_method_select(&m, &sc, NULL, 6, &d, &test_error));
    assert_keeps(d, 0, 0, 1, 2, 3, 8, 9);
    kva_decision_release(&d);
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void a_prompt_of_sinks_alone_has_nothing_to_score(void **state)
{
    const struct kva_lend lend = {.rope_mean = no_rotation};
    struct fixture f = fixture_of(E2_K, E2_V, 1);
    struct kva_method m = parse("expected_attention", ONESHOT);
    struct kva_decide_in in = decide_in(&f, &lend);
    struct kva_scores sc;

    (void)state;
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_int_equal(sc.nonfinite, 0);
    assert_near(sc.s[0], 0, 0);
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void statistics_that_are_not_finite_are_counted(void **state)
{
    const struct kva_lend lend = {.rope_mean = no_rotation};
    struct fixture f = fixture_of(E2_K, E2_V, 4);
    struct kva_method m = parse("expected_attention:sinks=0", ONESHOT);
    struct kva_decide_in in = decide_in(&f, &lend);
    struct kva_scores sc;

    (void)state;
    memset(&stage, 0, sizeof stage);
    stage.mean[0][0] = NAN;
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    assert_int_equal(sc.nonfinite, 4);
    kva_scores_release(&sc);
    fixture_release(&f);
}

static void without_statistics_or_a_model_it_says_so(void **state)
{
    const struct kva_lend lend = {.rope_mean = no_rotation};
    struct fixture f = fixture_of(E2_K, E2_V, 4);
    struct kva_method m = parse("expected_attention", ONESHOT);
    struct kva_decide_in in = decide_in(&f, NULL);
    struct kva_error e = {0};
    struct kva_scores sc;

    (void)state;
    assert_int_equal(kva_method_score(&m, &in, &sc, NULL, &e), KVA_EINVALID);
    in = decide_in(&f, &lend);
    in.query_stats = NULL;
    assert_int_equal(kva_method_score(&m, &in, &sc, NULL, &e), KVA_EINVALID);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_follow_the_definition_with_full_matrices),
        cmocka_unit_test(one_dimension_of_E16_has_the_logit_0_625),
        cmocka_unit_test(equal_keys_and_values_keep_sinks_and_the_newest),
        cmocka_unit_test(a_prompt_of_sinks_alone_has_nothing_to_score),
        cmocka_unit_test(statistics_that_are_not_finite_are_counted),
        cmocka_unit_test(without_statistics_or_a_model_it_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
