/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_groups.c - named means, protocols that tell tasks apart, weak tasks. */
#include "tests/reports/tables.h"

static const struct kva_group *group(const char *name)
{
    for (int i = 0; i < KVA_N_GROUPS; i++)
        if (strcmp(kva_groups[i].name, name) == 0)
            return &kva_groups[i];
    fail_msg("no group %s", name);
    return NULL;
}

static double of_domains(const char *name, const double domain[6], bool paper)
{
    static const int at[16] = {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5};
    double score[16];

    for (int i = 0; i < 16; i++)
        score[i] = domain[at[i]] / 100;
    return 100 * kva_group_mean(group(name), score, paper);
}

/* tasks-longbench-math.md A.8 and reports.md 2.1: CriticalKV's dense Llama row, its
 * SnapKV 20 % row, ChatGLM3-6B-32k of the official page. */
static void the_published_longbench_means_come_out(void **state)
{
    static const double llama[6] = {43.10, 46.49, 28.97, 69.45, 53.73, 57.86};
    static const double snapkv[6] = {28.78, 33.51, 23.82, 61.95, 48.19, 60.05};
    static const double glm[6] = {40.3, 46.6, 29.5, 68.1, 56.2, 50.5};

    (void)state;
    NEAR(of_domains("avg16", llama, false), 49.20, 0.005);
    NEAR(of_domains("avg6", llama, false), 49.93, 0.005);
    NEAR(of_domains("avg16", snapkv, false), 41.29, 0.005);
    NEAR(of_domains("avg6", glm, false), 48.53, 0.005);
    NEAR(of_domains("avg16", glm, false), 47.93, 0.005);
    /* without code: (3 * (43.10 + 46.49 + 28.97 + 69.45) + 2 * 53.73) / 14 */
    NEAR(of_domains("avg14", llama, false), 47.9636, 0.0005);
}

static void the_papers_style_rounds_every_score_first(void **state)
{
    double score[16];

    (void)state;
    for (int i = 0; i < 16; i++)
        score[i] = 0.123449; /* 12.3449: printed 12.34 */
    NEAR(kva_group_mean(group("avg16"), score, false), 0.123449, 1e-12);
    NEAR(kva_group_mean(group("avg16"), score, true), 0.1234, 1e-12);
}

/* CriticalKV table 1, dense Llama at 32k: 91.05; without QA, needles alone. */
static void the_published_ruler_means_come_out(void **state)
{
    static const double s[13] = {1.0000, 1.0000, 1.0000, 1.0000, 1.0000, 1.0000, 0.9975,
                                 0.9825, 0.9940, 0.4490, 0.9533, 0.8400, 0.6200};

    (void)state;
    NEAR(100 * kva_group_mean(group("ruler13"), s, false), 91.05, 0.005);
    NEAR(100 * kva_group_mean(group("ruler11"), s, false), 94.3300, 0.005);
    NEAR(100 * kva_group_mean(group("niah8"), s, false), 99.75, 0.005);
}

/* A world with the first n tasks of a group: dense all right, "m" right in `half`. */
static struct world *group_world(const char *name, int n, const char *gen)
{
    const struct kva_group *g = group(name);
    struct world *w = world_new(n, 20);

    for (int t = 0; t < n; t++) {
        w->task[t].suite = S(g->suite);
        w->task[t].name = S(g->task[t]);
        w->task[t].gen_json = S(gen);
        add_cell(w, t, "dense", 1, "dense", A20);
        add_cell(w, t, "m", 0.5, "physical", t % 2 ? A20 : H20);
    }
    return w;
}

static const char *text_of(const struct kva_report *r)
{
    static char text[200000];
    char *t = rendered(r, kva_report_text);

    (void)snprintf(text, sizeof text, "%s", t);
    free(t);
    return text;
}

static void a_run_without_qa_is_ruler11_and_never_ruler13(void **state)
{
    struct world *w = group_world("ruler13", 11, "{\"dialect\":\"kva1\"}");
    struct kva_report *r = built(w, NULL);
    const struct kva_tab *t = tab(r, "-means");

    (void)state;
    assert_non_null(t);
    assert_int_equal(t->n_row, 4); /* ruler11 and niah8, dense and m */
    assert_string_equal(t->row[0].cell[0].text, "ruler11");
    assert_string_equal(t->row[2].cell[0].text, "niah8");
    NEAR(t->row[1].cell[3].v, (6 * 0.5 + 5) / 11, 1e-12);
    NEAR(t->row[1].cell[4].v, (6 * 0.5 + 5) / 11, 1e-12); /* over dense 1 */
    assert_true(t->row[1].cell[3].lo < t->row[1].cell[3].v);
    assert_non_null(strstr(text_of(r), "ruler13 (all tasks of RULER) is not shown: "
                                       "missing qa_1, qa_2."));
    kva_report_free(r);
    free(w);
    w = group_world("ruler13", 10, "{}");
    r = built(w, NULL);
    assert_string_equal(tab(r, "-means")->row[0].cell[0].text, "niah8");
    assert_null(strstr(text_of(r), "ruler10"));
    kva_report_free(r);
    free(w);
    w = group_world("ruler13", 7, "{}");
    r = built(w, NULL);
    assert_null(tab(r, "-means"));
    kva_report_free(r);
    free(w);
}

static void the_full_set_has_all_three_names_and_the_macro_mean_beside(void **state)
{
    struct world *w = group_world("ruler13", 13, "{}");
    struct kva_report *r;
    const struct kva_tab *t;

    (void)state;
    for (int o = 0; o < w->d.n_outcomes; o++) /* dense cannot do qa_2 */
        if (w->out[o].cell == 24)
            w->out[o].score = 0;
    r = built(w, NULL);
    t = tab(r, "-means");
    assert_int_equal(t->n_row, 6);
    assert_string_equal(t->row[0].cell[0].text, "ruler13");
    NEAR(t->row[0].cell[3].v, 12.0 / 13, 1e-12);
    NEAR(t->row[1].cell[4].v, ((7 * 0.5 + 6) / 13) / (12.0 / 13), 1e-12);
    NEAR(t->row[1].cell[5].v, (6 * 0.5 + 6) / 12, 1e-12); /* qa_2 left out */
    /* qa_2 is below its floor: out of the leaderboard's mean, not out of RULER's */
    assert_int_equal(mean_board(r, "physical")->n_used, 12);
    assert_non_null(strstr(text_of(r), "also ruler/qa_2@512 (below floor)"));
    kva_report_free(r);
    free(w);
}

static void dialects_and_profiles_have_names_and_boards_of_their_own(void **state)
{
    static const char *const gen[4] = {
        "{\"dialect\":\"kva1\",\"profile\":\"kvpress\",\"haystack\":\"emerson\"}",
        "{\"dialect\":\"r2025\",\"profile\":\"kvpress\"}",
        "{\"dialect\":\"r2025\",\"profile\":\"official\"}", "{\"profile\":\"official\"}"};
    struct world *w = world_new(4, 20);
    struct kva_report *r;
    const char *text;
    int boards = 0;

    (void)state;
    for (int t = 0; t < 4; t++) {
        w->task[t].suite = S(t == 3 ? "longbench" : "ruler");
        w->task[t].name = S(t == 3 ? "lcc" : "vt");
        w->task[t].gen_json = S(gen[t]);
        add_cell(w, t, "dense", 1, "dense", A20);
        add_cell(w, t, "m", 0.5, "physical", H20);
    }
    r = built(w, NULL);
    for (int i = 0; i < r->n_board; i++)
        boards += !r->board[i].single;
    assert_int_equal(boards, 3); /* the default of both suites is one */
    text = text_of(r);
    assert_non_null(strstr(text, "ruler/vt@512 [r2025]"));
    assert_non_null(strstr(text, "ruler/vt@512 [r2025, official]"));
    assert_non_null(strstr(text, "ruler/vt@512, longbench/lcc@512"));
    kva_report_free(r);
    r = built(w, "tasks");
    text = text_of(r);
    assert_non_null(strstr(text, "protocol: dialect r2025, profile official."));
    assert_non_null(strstr(text, "protocol: dialect kva1, profile kvpress, haystack "
                                 "emerson."));
    assert_non_null(strstr(text, "Protocol of every task"));
    kva_report_free(r);
    free(w);
}

static void a_weak_task_is_flagged_and_stays_out_of_a_mean_of_stronger_ones(void **state)
{
    struct world *w = world_new(2, 20);
    struct kva_report *r;
    const struct kva_board *b;

    (void)state;
    add_cell(w, 0, "a", 0.5, "physical", H20);
    add_cell(w, 0, "dense", 1, "dense", A20);
    add_cell(w, 1, "a", 0.5, "physical", A20);
    add_cell(w, 1, "dense", 1, "dense", H20); /* 50, lower bound 30, floor 0 */
    r = built(w, NULL);
    b = mean_board(r, "physical");
    assert_true(b->weak[1] && !b->below[1] && !b->used[1] && b->used[0]);
    NEAR(arm(b, "a", 0.5)->score, 0.5, 1e-12);
    assert_non_null(strstr(text_of(r), "weak: suite/t01@512. Dense scores 50.0"));
    assert_non_null(strstr(text_of(r), "4 cells exist, 2 shown above, 1 ranked, 1 "
                                       "reference; 2 not shown, 2 weak."));
    assert_non_null(strstr(b->title, "(1 more weak)"));
    assert_string_equal(kva_board_suites(r, b), "suite"); /* of both tasks */
    assert_non_null(strstr(text_of(r), "1 task is weak: the full cache"));
    kva_report_free(r);
    /* F1 and ROUGE of 30 are what good models have */
    w->task[1].binary = false;
    w->task[1].metric = S("rouge_l");
    r = built(w, NULL);
    assert_true(mean_board(r, "physical")->used[1]);
    assert_null(strstr(text_of(r), "weak"));
    kva_report_free(r);
    /* alone, it is ranked */
    w->task[1].binary = true;
    w->d.n_cells = w->d.n_outcomes = 0;
    add_cell(w, 1, "a", 0.5, "physical", H20);
    add_cell(w, 1, "dense", 1, "dense", H20);
    r = built(w, NULL);
    b = mean_board(r, "physical");
    assert_true(b->weak[0] && b->used[0]);
    assert_int_equal(arm(b, "a", 0.5)->rank, 1);
    kva_report_free(r);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_longbench_means_come_out),
        cmocka_unit_test(the_papers_style_rounds_every_score_first),
        cmocka_unit_test(the_published_ruler_means_come_out),
        cmocka_unit_test(a_run_without_qa_is_ruler11_and_never_ruler13),
        cmocka_unit_test(the_full_set_has_all_three_names_and_the_macro_mean_beside),
        cmocka_unit_test(dialects_and_profiles_have_names_and_boards_of_their_own),
        cmocka_unit_test(a_weak_task_is_flagged_and_stays_out_of_a_mean_of_stronger_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
