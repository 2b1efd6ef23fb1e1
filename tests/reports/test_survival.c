/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_survival.c - evidence and distractors (tasks-ruler.md 8.6, 12.5), the layout gap
 * (11.1), the needle grid (13), and their figures. */
#include "tests/reports/tables.h"

#include "reports/figures.h"

#include <dirent.h>

#define GEN_KVA1 "{\"dialect\":\"kva1\",\"haystack\":\"emerson\"}"

static void spans(struct kva_data_outcome *o, double e, double p, double d)
{
    o->span_e = e;
    o->span_payload = p;
    o->span_d = d;
}

/* Two heads of 12.5 as one layer: 23 and 24 of 129 entries kept; E 0.5, payload 0.5, D
 * 0.5. A second sample keeps all of E and has no D. */
static struct world *worked(void)
{
    static struct kva_data_heads heads;
    static uint64_t sum[KVA_HEAD_KINDS * 2];
    struct world *w = world_new(1, 2);
    const double unit = 4294967296.0;

    w->task[0].gen_json = S(GEN_KVA1);
    add_cell(w, 0, "dense", 1, "dense", "11");
    add_cell(w, 0, "m", 0.2, "physical", "01");
    for (int i = 2; i < 4; i++) {
        w->out[i].memory.kv_dense_bytes = 2 * 129;
        w->out[i].memory.kv_live_bytes = 23 + 24;
    }
    spans(&w->out[2], (0.7 + 0.3) / 2, 0.5, 0.5);
    spans(&w->out[3], 1, 1, (double)NAN);
    w->out[2].span_x = 0.25;
    memset(sum, 0, sizeof sum);
    heads = (struct kva_data_heads){
        .cell = 1, .n_layer = 1, .n_kv_head = 2, .n = {2, 2, 1, 0}, .sum = sum};
    sum[0] = (uint64_t)(1.7 * unit);
    sum[1] = (uint64_t)(1.3 * unit);
    sum[2] = (uint64_t)unit; /* payload: head 0 lost it once, head 1 never */
    sum[3] = (uint64_t)(2 * unit);
    sum[5] = (uint64_t)unit;
    w->d.heads = &heads;
    w->d.n_heads = 1;
    return w;
}

static void survival_lift_and_kept_share_as_in_section_12_5(void **state)
{
    struct world *w = worked();
    struct kva_report *r = built(w, "survival");
    const struct kva_tab *t = tab(r, "-survival");
    double rho = 47.0 / 258; /* (23/129 + 24/129) / 2 */

    (void)state;
    assert_int_equal(t->n_row, 1); /* the dense run evicts nothing */
    NEAR(number(t, 0, "rho"), rho, 1e-12);
    NEAR(number(t, 0, "surv_E"), 0.75, 1e-12);
    NEAR(number(t, 0, "surv_payload"), 0.75, 1e-12);
    NEAR(number(t, 0, "surv_D"), 0.5, 1e-12);
    NEAR(number(t, 0, "lift"), 1, 1e-12); /* of the sample that has a D alone */
    NEAR(number(t, 0, "surv_E_minus_D"), 0, 1e-12);
    NEAR(number(t, 0, "surv_E_minus_rho"), 0.75 - rho, 1e-12);
    NEAR(number(t, 0, "surv_X"), 0.25, 1e-12);
    NEAR(number(t, 0, "n"), 2, 0);
    NEAR(number(t, 0, "n_d"), 1, 0);
    assert_true(noted(t, "1 of 2 outcomes have no distractor"));
    assert_false(noted(t, "repeated text"));
    kva_report_free(r);
    w->task[0].gen_json = S("{\"haystack\":\"noise\"}");
    r = built(w, "survival");
    assert_true(
        noted(tab(r, "-survival"), "repeated text: the distractors of suite/t00"));
    kva_report_free(r);
    free(w);
}

/* Draws of a sample share its decision: they make no interval narrower. */
static void repetitions_and_draws_of_a_sample_count_once(void **state)
{
    struct world *w = worked();
    struct kva_report *r = built(w, "survival"), *again;
    const char *const id[] = {"surv_E", "surv_payload", "surv_D", "surv_E_minus_D"};

    (void)state;
    for (int i = 3; i >= 2; i--) /* four of each */
        for (int k = 3; k >= 0; k--) {
            w->out[2 + 4 * (i - 2) + k] = w->out[i];
            w->out[2 + 4 * (i - 2) + k].rep = k;
        }
    w->d.n_outcomes = 10;
    w->cell[1].n_expected = 8;
    again = built(w, "survival");
    for (int k = 0; k < 4; k++) {
        const struct kva_val *a = cell(tab(r, "-survival"), 0, id[k]);
        const struct kva_val *b = cell(tab(again, "-survival"), 0, id[k]);

        NEAR(a->v, b->v, 0);
        assert_memory_equal(&a->lo, &b->lo, sizeof a->lo);
        assert_memory_equal(&a->hi, &b->hi, sizeof a->hi);
    }
    NEAR(number(tab(again, "-survival"), 0, "n"), 2, 0);
    kva_report_free(r);
    kva_report_free(again);
    free(w);
}

/* Evidence of two questions on one text is kept or lost together. */
static void the_unit_of_survival_is_the_context(void **state)
{
    static const double e[] = {1, 1, 0.5, 0.25, 0, 0}, d[] = {0.5, 0.5, 0.5, 0.5, 0, 0.5};
    static const int context[] = {0, 0, 1, 1, 2, 2};
    const struct kva_stratum s = {"", e, d, context, 6};
    struct kva_interval ci = kva_stat_arm(&s, 1);
    struct world *w = world_new(1, 6);
    const struct kva_val *v;
    struct kva_report *r;
    struct kva_boot gap;

    (void)state;
    add_cell(w, 0, "dense", 1, "dense", "111111");
    add_cell(w, 0, "m", 0.2, "physical", "110000");
    for (int i = 0; i < 6; i++) {
        static char name[3][4];

        (void)snprintf(name[i / 2], sizeof name[0], "c%d", i / 2);
        w->sample[i].cluster = name[i / 2];
        spans(&w->out[6 + i], e[i], e[i], d[i]);
    }
    assert_int_equal(kva_stat_linearised(&s, 1, 0, &gap, NULL), KVA_OK);
    r = built(w, "survival");
    v = cell(tab(r, "-survival"), 0, "surv_E");
    NEAR(v->lo, ci.lo, 1e-12);
    NEAR(v->hi, ci.hi, 1e-12);
    v = cell(tab(r, "-survival"), 0, "surv_E_minus_D");
    NEAR(v->lo, gap.diff_ci.lo, 1e-12);
    NEAR(v->hi, gap.diff_ci.hi, 1e-12);
    kva_report_free(r);
    free(w);
}

static const struct kva_figure *figure(const struct kva_report *r, const char *id)
{
    for (int i = 0; i < r->n_figure; i++)
        if (strncmp(r->figure[i].id, id, strlen(id)) == 0)
            return &r->figure[i];
    return NULL;
}

static void the_figures_hold_every_point_and_each_head(void **state)
{
    struct world *w = worked();
    struct kva_report *r = built(w, NULL);
    const struct kva_figure *f = figure(r, "survival-");

    (void)state;
    assert_non_null(f);
    assert_int_equal(f->n_points, 4); /* one budget: E, payload, D, example */
    assert_non_null(strstr(f->tsv, "18.2171\t75.0000\tevidence\tm"));
    assert_non_null(strstr(f->tsv, "18.2171\t50.0000\tdistractor\tm"));
    assert_non_null(strstr(f->gp, "plot x with lines"));
    f = figure(r, "heads-");
    assert_non_null(f);
    assert_int_equal(f->n_points, 2);
    /* head 0: payload 1/2, E 1.7/2, D 0/1; head 1: 2/2, 1.3/2, 1/1 */
    assert_non_null(strstr(f->tsv, "\t0.5000\t0.8500\t0.5000\t0.0000\n"));
    assert_non_null(strstr(f->tsv, "\t1.0000\t0.6500\t1.0000\t1.0000\n"));
    assert_string_equal(f->series[0], "m (75.0 %)");
    assert_null(figure(r, "kept-")); /* nothing was traced */
    kva_report_free(r);
    w->d.heads[0].n[KVA_HEAD_ALL] = 1;
    w->d.heads[0].sum[2 * KVA_HEAD_ALL] = 1u << 30;
    w->d.heads[0].sum[2 * KVA_HEAD_ALL + 1] = 1u << 31;
    r = built(w, NULL);
    f = figure(r, "kept-");
    assert_non_null(f);
    assert_int_equal(f->n_points, 2);
    assert_string_equal(f->series[0], "m (37.5 %)");
    assert_non_null(strstr(f->tsv, "\t0.2500\n"));
    assert_non_null(strstr(f->tsv, "\t0.5000\n"));
    kva_report_free(r);
    free(w);
}

/* ---- grid ---- */

static struct world *grid_world(void)
{
    static const double depth[3] = {0, 0.5, 1};
    struct world *w = world_new(2, 6);

    for (int t = 0; t < 2; t++) {
        w->task[t].suite = S("niah");
        w->task[t].name = S("grid:depths=3,rounds=2");
        w->task[t].ctx = t ? 1024 : 512;
        w->task[t].gen_json = S(GEN_KVA1);
        for (int i = 0; i < 6; i++)
            w->sample[t * 6 + i].depth = depth[i % 3];
        add_cell(w, t, "dense", 1, "dense", "111111");
        add_cell(w, t, "m", 0.5, "physical", t ? "101100" : "011111");
    }
    for (int i = 0; i < w->d.n_outcomes; i++) {
        if (w->out[i].cell % 2 == 0)
            continue;
        spans(&w->out[i], 0.5, 0.25, 0.125);
        w->out[i].is_protected = w->sample[w->out[i].sample].depth == 1;
    }
    return w;
}

static void the_grid_has_nominal_depths_rounds_and_marks(void **state)
{
    struct world *w = grid_world();
    struct kva_report *r = built(w, NULL);
    const struct kva_figure *f = figure(r, "grid-");
    const struct kva_tab *t = tab(r, "grid");
    char *csv;

    (void)state;
    assert_non_null(f);
    assert_null(figure(r, "depth-")); /* not drawn twice */
    assert_int_equal(f->n_series, 2);
    assert_int_equal(f->n_points, 2 * 2 * 3); /* panels x lengths x depths */
    assert_non_null(strstr(f->gp, "set ytics ('0' 0, '50' 1, '100' 2)"));
    /* m at 512, depth 0: rounds 0 and 1 of 2 -> 50; depth 100: 100, marked */
    assert_non_null(strstr(f->tsv, "\t2\tm\t512\t0\t0\t0.5000\n"));
    assert_non_null(strstr(f->tsv, "\t2\tm\t512\t100\t1\t1.0000\n"));
    assert_non_null(strstr(f->caption, "2 to 2 samples a cell"));
    assert_int_equal(t->n_row, 24);
    kva_report_free(r);
    r = built(w, "grid");
    csv = rendered(r, kva_report_csv);
    assert_non_null(strstr(csv, "length,depth,round,acc,surv_payload,surv_E,surv_D,nll,"
                                "protected,"));
    /* arms that differ in what the eviction saw, or when, are told apart */
    assert_non_null(strstr(csv, ",enforce,visibility,schedule,"));
    assert_non_null(strstr(csv, ",physical,agnostic,oneshot,"));
    assert_non_null(strstr(csv, ",512,0.5,1,1,0.25,0.5,0.125,0.1,0,"));
    assert_non_null(strstr(csv, ",1024,1,1,0,0.25,0.5,0.125,2,1,"));
    free(csv);
    kva_report_free(r);
    free(w);
}

/* ---- layout gap ---- */

static void the_layout_gap_sets_two_dialects_side_by_side(void **state)
{
    static const char *const gen[3] = {
        "{\"dialect\":\"kva1\",\"profile\":\"kvpress\"}",
        "{\"dialect\":\"r2025\",\"profile\":\"kvpress\"}",
        "{\"dialect\":\"r2025\",\"profile\":\"official\"}"};
    static const double a[4] = {1, 1, 0.5, 1}, b[4] = {0.5, 0, 0.25, 0.25};
    struct world *w = world_new(3, 4);
    struct kva_report *r;
    const struct kva_tab *t;
    struct kva_interval ci;
    int n = 0;

    (void)state;
    for (int k = 0; k < 3; k++) {
        w->task[k].suite = S("ruler");
        w->task[k].name = S("qa_1");
        w->task[k].gen_json = S(gen[k]);
        add_cell(w, k, "blind", 1, "dense", "0000");
        add_cell(w, k, "m", 0.5, "physical", k ? "1111" : "1000");
        if (k == 0)
            add_cell(w, k, "n", 0.5, "physical", "1000"); /* no partner */
    }
    for (int i = 0; i < w->d.n_outcomes; i++)
        if (strcmp(w->cell[w->out[i].cell].method, "m") == 0) {
            int k = w->sample[w->out[i].sample].task;

            spans(&w->out[i], 0.5, k ? a[n % 4] : b[n % 4], 0.5);
            n++;
        }
    r = built(w, "survival");
    t = tab(r, "layout-gap");
    assert_int_equal(t->n_row, 1); /* same profile alone; blind holds no cache */
    assert_string_equal(word(t, 0, "task"), "ruler/qa_1@512");
    assert_string_equal(word(t, 0, "dialect"), "r2025");
    NEAR(number(t, 0, "surv_payload"), 0.875, 1e-12);
    NEAR(number(t, 0, "surv_payload_kva1"), 0.25, 1e-12);
    NEAR(number(t, 0, "surv_payload_gap"), 0.625, 1e-12);
    NEAR(number(t, 0, "score_gap"), 0.75, 1e-12);
    NEAR(number(t, 0, "nats_gap"), 0.1 - (0.1 + 6) / 4, 1e-12);
    ci = kva_stat_welch(a, 4, b, 4);
    NEAR(cell(t, 0, "surv_payload_gap")->lo, ci.lo, 1e-12);
    assert_true(noted(t, "Welch"));
    kva_report_free(r);
    free(w);
}

/* ---- drawings ---- */

static char tmp[64];

static int make_tmp(void **state)
{
    (void)state;
    (void)snprintf(tmp, sizeof tmp, "/tmp/kva-survival-XXXXXX");
    return mkdtemp(tmp) ? 0 : -1;
}

static int drop_tmp(void **state)
{
    DIR *d = opendir(tmp);
    struct dirent *e;

    (void)state;
    while (d && (e = readdir(d)) != NULL) {
        char path[512];

        (void)snprintf(path, sizeof path, "%s/%s", tmp, e->d_name);
        if (e->d_name[0] != '.')
            (void)unlink(path);
    }
    if (d)
        closedir(d);
    return rmdir(tmp);
}

static int count(const char *s, const char *what)
{
    int n = 0;

    for (; (s = strstr(s, what)) != NULL; s += strlen(what))
        n++;
    return n;
}

static void gnuplot_draws_them_without_a_complaint(void **state)
{
    struct world *w[2] = {worked(), grid_world()};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct kva_report *r = built(w[i], NULL);
        struct kva_error err = {0};
        enum kva_status rc = kva_report_figures(r, tmp, &err);

        if (rc == KVA_ETOOL) {
            print_message("SKIP: no gnuplot\n");
            skip();
        }
        if (rc != KVA_OK)
            print_error("%s\n", err.text);
        assert_int_equal(rc, KVA_OK);
        for (int k = 0; k < r->n_figure; k++) {
            const struct kva_figure *f = &r->figure[k];
            char path[256];
            struct kva_buf svg;

            (void)snprintf(path, sizeof path, "%s/%s.svg", tmp, f->id);
            kva_buf_init(&svg, 0);
            assert_int_equal(kva_read_file(path, 0, &svg, &err), KVA_OK);
            for (int s = 0; s < f->n_series && !f->empty; s++)
                assert_non_null(strstr(svg.data, f->series[s]));
            if (strncmp(f->id, "grid-", 5) == 0) { /* numbers, and a dot for marks */
                assert_int_equal(count(svg.data, "<text>100</text>"),
                                 6 + 2 + 2 + 1); /* dense, m, two axes' 100, m at 1024 */
                assert_int_equal(count(svg.data, "<use xlink:href='#gpPt6'"), 2);
            }
            kva_buf_release(&svg);
        }
        kva_report_free(r);
        free(w[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survival_lift_and_kept_share_as_in_section_12_5),
        cmocka_unit_test(repetitions_and_draws_of_a_sample_count_once),
        cmocka_unit_test(the_unit_of_survival_is_the_context),
        cmocka_unit_test(the_figures_hold_every_point_and_each_head),
        cmocka_unit_test(the_grid_has_nominal_depths_rounds_and_marks),
        cmocka_unit_test(the_layout_gap_sets_two_dialects_side_by_side),
        cmocka_unit_test_setup_teardown(gnuplot_draws_them_without_a_complaint, make_tmp,
                                        drop_tmp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
