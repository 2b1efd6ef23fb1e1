/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_paper.c - published numbers: reading, checking, and what is compared with them
 * (reports.md 2.1 to 2.9, 6.6). */
#include "reports/paper.h"
#include "tests/reports/tables.h"

#define LLAMA "meta-llama_Llama-3.1-8B-Instruct-F16.gguf"

static struct kva_published_set set;

static int load(void **state)
{
    (void)state;
    return kva_published_read(&set, NULL) == KVA_OK ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    kva_published_release(&set);
    return 0;
}

static const struct kva_published *printed(const char *id, const char *model,
                                           const char *method, const char *budget,
                                           const char *task)
{
    const struct kva_published_table *t = kva_published_find(&set, id);

    assert_non_null(t);
    for (int i = t->first; i < t->first + t->n_rows; i++) {
        const struct kva_published *p = &set.row[i];

        if (strncmp(p->model, model, strlen(model)) == 0 &&
            strcmp(p->method, method) == 0 && strcmp(p->budget, budget) == 0 &&
            strcmp(p->task, task) == 0)
            return p;
    }
    fail_msg("%s has no %s %s %s %s", id, model, method, budget, task);
    return NULL;
}

/* ---- the data ---- */

static void printed_numbers_are_those_of_the_papers(void **state)
{
    (void)state;
    NEAR(printed("S-CK/1", "Llama", "snapkv32", "keep=0.4", "ruler/vt")->value, 96.6, 0);
    NEAR(
        printed("S-CK/1", "Qwen", "snapkv32+headkv+critical", "keep=0.4", "ruler/ruler13")
            ->value,
        90.69, 0);
    NEAR(printed("S-CK/2", "Mistral", "snapkv32+adakv", "keep=0.2", "longbench/code")
             ->value,
         62.55, 0);
    NEAR(printed("S-CK/14", "Llama", "snapkv32+adakv+critical", "keep=0.4",
                 "longbench/loss")
             ->value,
         -0.3, 0);
    assert_string_equal(
        printed("S-CK/14", "Llama", "snapkv32+adakv", "keep=0.05", "longbench/few_shot")
            ->visibility,
        "aware");
    NEAR(printed("RUL/README", "Qwen3-8B", "dense", "dense", "ruler/ruler13")->value,
         96.3, 0);
}

static void removed_shares_are_stored_as_kept(void **state)
{
    const struct kva_published *p;

    (void)state;
    /* S-LU prints 80 % and 90 % removed */
    p = printed("S-LU/1", "Mistral", "keydiff:recent=1,sinks=4+lukv", "keep=0.2",
                "longbench/avg16");
    NEAR(p->value, 46.21, 0);
    p = printed("S-LU/9", "Llama", "snapkv:sinks=4,window=32+lukv:window=32", "keep=0.1",
                "longbench/avg16");
    NEAR(p->value, 44.69, 0);
}

static void every_table_has_its_numbers_together(void **state)
{
    int n = 0;

    (void)state;
    for (int i = 0; i < set.n_table; i++) {
        assert_true(set.table[i].n_rows > 0);
        n += set.table[i].n_rows;
    }
    assert_int_equal(n, set.n_row);
    assert_int_equal(kva_published_find(&set, "s-ck/1")->n_rows, 21 * 15);
    assert_int_equal(kva_published_find(&set, "S-CK/2")->n_rows, 39 * 8);
    assert_int_equal(kva_published_find(&set, "S-CK/14")->n_rows, 9 * 8);
    assert_null(kva_published_find(&set, "S-CK/99"));
    assert_int_equal(set.n_erratum, 10);
}

/* The card of Table 15 is the table of sizes that sampling errors use. */
static void sizes_of_longbench_are_those_of_its_card(void **state)
{
    const struct kva_group *g = kva_group_find("avg16");

    (void)state;
    for (int i = 0; i < g->n; i++) {
        const struct kva_published_table *t = kva_published_find(&set, "S-CK/15");
        int n = 0;

        for (int k = t->first; k < t->first + t->n_rows; k++)
            if (strcmp(kva_published_task(&set.row[k]), g->task[i]) == 0 &&
                strcmp(set.row[k].unit, "samples") == 0)
                n = (int)set.row[k].value;
        assert_int_equal(kva_group_samples(g, i), n);
    }
}

static void the_grid_of_the_values_tells_the_number_of_samples(void **state)
{
    struct kva_published p = {.text = "4.5", .value = 4.5, .digits = 1, .refs = 1};

    (void)state;
    assert_int_equal(kva_published_fits(&set, kva_published_find(&set, "S-CK/1")), 100);
    assert_int_equal(kva_published_fits(&set, kva_published_find(&set, "DKV/README")),
                     50);
    assert_int_equal(kva_published_fits(&set, kva_published_find(&set, "S-CK/2")), 0);
    assert_false(kva_published_on_grid(&p, 100));
    assert_true(kva_published_on_grid(&p, 200));
    p.refs = 2;
    assert_true(kva_published_on_grid(&p, 100));
}

static void a_printed_number_has_a_sampling_error(void **state)
{
    const struct kva_published *p;
    double sum = 0;

    (void)state;
    p = printed("S-CK/1", "Llama", "snapkv32", "keep=0.4", "ruler/qa_1"); /* 41 of 100 */
    NEAR(kva_published_error(&set, p), 100 * sqrt(0.41 * 0.59 / 100), 1e-9);
    /* a mean: sqrt(sum p (1-p) / n) / T over the row's own tasks */
    for (int i = 0; i < set.n_row; i++)
        if (kva_published_same_row(&set.row[i], p) &&
            strcmp(set.row[i].table, "1") == 0 &&
            strcmp(set.row[i].aggregation, "task") == 0)
            sum += set.row[i].value / 100 * (1 - set.row[i].value / 100) / 100;
    p = printed("S-CK/1", "Llama", "snapkv32", "keep=0.4", "ruler/ruler13");
    NEAR(kva_published_error(&set, p), 100 * sqrt(sum) / 13, 1e-9);
    /* code: two sets of 500 */
    p = printed("S-CK/2", "Llama", "snapkv32", "keep=0.2", "longbench/code");
    NEAR(kva_published_error(&set, p), 100 * sqrt(2 * 0.6005 * 0.3995 / 500) / 2, 1e-9);
    p = printed("S-CK/1", "Llama", "snapkv32", "keep=0.4", "ruler/loss");
    NEAR(kva_published_error(&set, p), 0, 0);
}

/* ---- reading ---- */

#define HEAD                                                                             \
    "source,table,model,method,printed,budget,visibility,ctx,task,aggregation,value,hi," \
    "unit,n,refs,erratum,note\n"
#define TABLES "source,table,title,n,shape,config,protocol\nS,1,title,,wide,,\n"
#define ERRATA "id,source,where,text\nE1,S,there,wrong\n"
#define GOOD                                                                             \
    "S,1,M,snapkv,SnapKV,keep=0.4,agnostic,512,ruler/vt,task,50,,points,10,5,E1,\n"

static void refused(const char *numbers, const char *tables, const char *why)
{
    struct kva_published_set s;
    struct kva_error err = {0};

    if (kva_published_parse(numbers, tables, ERRATA, &s, &err) != KVA_EFORMAT)
        fail_msg("not refused: %s", why);
    if (!strstr(err.text, why))
        fail_msg("'%s' does not say '%s'", err.text, why);
    kva_published_release(&s);
}

static void bad_lines_are_refused_with_file_and_line(void **state)
{
    struct kva_published_set s;

    (void)state;
    assert_int_equal(kva_published_parse(HEAD GOOD, TABLES, ERRATA, &s, NULL), KVA_OK);
    assert_int_equal(s.n_row, 1);
    kva_published_release(&s);
    refused("source,table\n" GOOD, TABLES, "published.csv:1: the header");
    refused(HEAD GOOD "S,1,M\n", TABLES, "published.csv:3: 3 fields, not 17");
    refused(HEAD "S,1,M,m,p,keep=0.4,agnostic,1,r/vt,task,5,,points,1,1,E1,note,more\n",
            TABLES, "published.csv:2: more than 17 fields");
    refused(HEAD "S,1,M,m,p,keep=0.4,agnostic,1,r/vt,task,5x,,points,1,1,,\n", TABLES,
            "published.csv:2: bad value");
    refused(HEAD "S,1,M,m,p,keep=0.4,agnostic,1,r/vt,task,nan,,points,1,1,,\n", TABLES,
            "bad value");
    refused(HEAD "S,1,M,m,p,keep=1.4,agnostic,1,r/vt,task,5,,points,1,1,,\n", TABLES,
            "bad budget");
    refused(HEAD "S,1,M,m,p,ratio=0.4,agnostic,1,r/vt,task,5,,points,1,1,,\n", TABLES,
            "bad budget");
    refused(HEAD "S,1,M,m,p,keep=0.4,seen,1,r/vt,task,5,,points,1,1,,\n", TABLES,
            "bad visibility");
    refused(HEAD "S,1,M,m,p,keep=0.4,agnostic,-1,r/vt,task,5,,points,1,1,,\n", TABLES,
            "bad ctx");
    refused(HEAD "S,1,M,m,p,keep=0.4,agnostic,1,r/vt,mean,5,,points,1,1,,\n", TABLES,
            "bad aggregation");
    refused(HEAD "S,1,M,m,p,keep=0.4,agnostic,1,vt,task,5,,points,1,1,,\n", TABLES,
            "bad task");
    refused(HEAD "S,1,M,m,p,keep=0.4,agnostic,1,r/vt,task,5,4,points,1,1,,\n", TABLES,
            "bad hi");
    refused(HEAD "S,2,M,m,p,keep=0.4,agnostic,1,r/vt,task,5,,points,1,1,,\n", TABLES,
            "no table S/2");
    refused(HEAD "S,1,M,m,p,keep=0.4,agnostic,1,r/vt,task,5,,points,1,1,E7,\n", TABLES,
            "no erratum E7");
    refused(HEAD "S,1,M,\"m,p\n", TABLES, "has no end");
    refused(HEAD "S,1,M,m\"x,p\n", TABLES, "a quote in a field without quotes");
    refused(HEAD "S,1,\"M\"x,p\n", TABLES, "text after a closing quote");
    refused(HEAD, TABLES, "S/1 has no number");
    refused(HEAD GOOD, "source,table,title,n,shape,config,protocol\nS,1,t,,flat,,\n",
            "published-tables.csv:2: bad shape");
    refused(HEAD GOOD "S,2,M,m,p,,,,r/vt,task,5,,points,,,,\n" GOOD,
            TABLES "S,2,title,,wide,,\n", "published.csv:4: the lines of S/1 are not");
}

/* ---- what the numbers say about themselves ---- */

static int bad_of(const struct kva_published_set *s, struct kva_report **r)
{
    int n = -1;

    *r = NULL;
    assert_int_equal(kva_paper_check(s, NULL, &n, r, NULL), KVA_OK);
    return n;
}

static bool found(const struct kva_tab *t, const char *where, const char *what,
                  const char *number, const char *erratum)
{
    for (int i = 0; i < t->n_row; i++)
        if (strcmp(word(t, i, "table"), where) == 0 &&
            strcmp(word(t, i, "task"), what) == 0 &&
            strcmp(word(t, i, "printed"), number) == 0 &&
            strcmp(word(t, i, "erratum"), erratum) == 0)
            return true;
    return false;
}

static void printed_averages_and_tallies_are_reproduced(void **state)
{
    struct kva_report *r;
    const struct kva_tab *t;

    (void)state;
    assert_int_equal(bad_of(&set, &r), 0);
    t = tab(r, "figures");
    assert_string_equal(word(t, 0, "computed"), "21 of 21, off by 0.005 at most");
    assert_string_equal(word(t, 1, "computed"), "39 of 39, off by 0.006 at most");
    assert_string_equal(word(t, 2, "expected"), "20");
    assert_string_equal(word(t, 3, "expected"), "9");
    assert_string_equal(word(t, 4, "computed"), "14.17 of 9");
    assert_string_equal(word(t, 5, "computed"), "88 of 90");
    assert_string_equal(word(t, 6, "computed"), "102 / 12 / 3");
    assert_string_equal(word(t, 7, "computed"), "137 of 160");
    assert_string_equal(word(t, 8, "computed"), "83.9 %");
    kva_report_free(r);
}

static void numbers_that_do_not_follow_are_listed_with_their_erratum(void **state)
{
    struct kva_report *r;
    const struct kva_tab *t;

    (void)state;
    (void)bad_of(&set, &r);
    t = tab(r, "findings");
    assert_true(found(t, "S-CK/text", "claim/mean_gain", "14.6", "E2"));
    assert_true(found(t, "S-CK/10", "longbench/avg16", "47.79", "E3"));
    assert_true(found(t, "S-CK/10", "longbench/avg16", "48.00", "E3"));
    assert_true(found(t, "S-CK/7", "longbench/avg16", "41.39", "E4"));
    assert_true(found(t, "S-CK/text", "ttft/chunk_30k", "22.48", "E6"));
    assert_true(found(t, "S-CK/F2", "ruler/ruler13", "91.04", "E7"));
    assert_true(found(t, "S-CT/tally-kvzip", "tally/pairs", "160", "E8"));
    /* everything that is found is a known erratum */
    for (int i = 0; i < t->n_row; i++)
        assert_true(word(t, i, "erratum")[0] == 'E');
    kva_report_free(r);
}

/* One digit of the data changed: which figure notices? */
static void one_wrong_digit_is_noticed(void **state)
{
    static const struct {
        const char *from, *to;
    } edit[] = {
        {"snapkv32,SnapKV,keep=0.4,agnostic,32768,ruler/vt,task,96.60",
         "snapkv32,SnapKV,keep=0.4,agnostic,32768,ruler/vt,task,86.60"},
        {"longbench/summarization,domain,23.82", "longbench/summarization,domain,23.92"},
        {"longbench/avg16,avg16,36.14", "longbench/avg16,avg16,36.41"},
        {"longbench/avg16,avg16,49.33", "longbench/avg16,avg16,49.35"},
        {"tally/losses,tally,22", "tally/losses,tally,45"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof edit / sizeof edit[0]; i++) {
        char *copy = strdup(kva_published_csv), *at;
        struct kva_published_set s;
        struct kva_report *r;

        assert_non_null(copy);
        at = strstr(copy, edit[i].from);
        assert_non_null(at);
        assert_int_equal(strlen(edit[i].from), strlen(edit[i].to));
        memcpy(at, edit[i].to, strlen(edit[i].to));
        assert_int_equal(kva_published_parse(copy, kva_published_tables_csv,
                                             kva_published_errata_csv, &s, NULL),
                         KVA_OK);
        assert_true(bad_of(&s, &r) > 0);
        kva_report_free(r);
        kva_published_release(&s);
        free(copy);
    }
}

/* ---- published beside measured ---- */

static void model_names_match_by_their_words(void **state)
{
    (void)state;
    assert_true(kva_paper_same_model("Llama-3.1-8B-Instruct", LLAMA));
    assert_true(kva_paper_same_model("Qwen3-4B", "qwen3-4b-q4_k_m"));
    assert_false(kva_paper_same_model("Llama-3.1-8B-Instruct", "Llama-3.1-8B"));
    assert_false(kva_paper_same_model("Llama-3.1-8B-Instruct", "llama-3.1-18b-instruct"));
    assert_false(kva_paper_same_model("Llama-3.1-8B-Instruct", "llama-3.12-8b-instruct"));
    assert_false(kva_paper_same_model("Mistral-7B-Instruct-v0.3", "mistral-7b-instruct"));
    assert_false(kva_paper_same_model("", "anything"));
}

static bool as_written(const char *method, const char *schedule, struct kva_buf *out)
{
    (void)schedule;
    kva_buf_puts(out, method);
    return true;
}

static struct world *llama_world(const char *const *task, int n, int per_task)
{
    struct world *w = world_new(n, per_task);

    w->model[0].name = S(LLAMA);
    for (int i = 0; i < n; i++) {
        w->task[i].suite = S("ruler");
        w->task[i].name = S(task[i]);
        w->task[i].ctx = 32768;
    }
    return w;
}

static char *ones(int n, int of)
{
    char *s = calloc((size_t)of + 1, 1);

    assert_non_null(s);
    memset(s, '0', (size_t)of);
    memset(s, '1', (size_t)n);
    return s;
}

static struct kva_report *paper_of(const struct world *w, const char *id,
                                   struct kva_paper_result *res)
{
    struct kva_report_opts o = {.brief = false};
    struct kva_report *r = NULL;
    struct kva_error err = {0};

    memset(res, 0, sizeof *res);
    if (kva_paper_build(w ? &w->d : NULL, &o, id, as_written, res, &r, &err) != KVA_OK)
        fail_msg("%s: %s", id, err.text);
    assert_int_equal(res->n, res->n_match + res->n_off + res->n_na + res->n_missing +
                                 res->n_outside);
    return r;
}

static int number_of(const struct kva_tab *t, const char *model, const char *printed_as,
                     const char *task)
{
    for (int i = 0; i < t->n_row; i++)
        if (strncmp(word(t, i, "model"), model, strlen(model)) == 0 &&
            strcmp(word(t, i, "printed"), printed_as) == 0 &&
            strcmp(word(t, i, "task"), task) == 0)
            return i;
    fail_msg("no %s %s %s", model, printed_as, task);
    return -1;
}

static void without_results_nothing_is_measured(void **state)
{
    struct kva_paper_result res;
    struct kva_report *r;

    (void)state;
    for (int i = 0; i < set.n_table; i++) {
        r = paper_of(NULL, set.table[i].id, &res);
        assert_int_equal(res.n, set.table[i].n_rows);
        assert_int_equal(res.n_match + res.n_off + res.n_na, 0);
        kva_report_free(r);
    }
    r = paper_of(NULL, "S-CK/1", &res);
    assert_int_equal(res.n_missing, 315);
    assert_non_null(strstr(r->tab[0].caption, "(not measured)"));
    assert_true(noted(&r->tab[0], "fit n = 100, as claimed"));
    assert_true(noted(&r->tab[0], "E7"));
    kva_report_free(r);
}

/* vt 96.60, qa_1 41.00 are printed for SnapKV at 40 %. */
static void a_number_is_compared_under_one_protocol_only(void **state)
{
    static const char *const task[] = {"vt", "qa_1"};
    struct world *w = llama_world(task, 2, 100);
    char *good = ones(96, 100), *bad = ones(80, 100);
    struct kva_paper_result res;
    struct kva_report *r;
    const struct kva_tab *t;
    int i;

    (void)state;
    add_cell(w, 0, "snapkv32", 0.4, "physical", good);
    add_cell(w, 1, "snapkv32", 0.4, "physical", bad);
    r = paper_of(w, "S-CK/1", &res);
    assert_int_equal(res.n_match, 1);
    assert_int_equal(res.n_off, 1);
    assert_int_equal(res.n_missing, 313);
    t = tab(r, "numbers");
    i = number_of(t, "Llama", "SnapKV", "ruler/vt");
    assert_string_equal(word(t, i, "flag"), "match");
    NEAR(number(t, i, "measured"), 96, 1e-9);
    NEAR(number(t, i, "delta"), -0.6, 1e-9);
    NEAR(cell(t, i, "delta")->lo, cell(t, i, "measured")->lo - 96.6, 1e-9);
    i = number_of(t, "Llama", "SnapKV", "ruler/qa_1");
    assert_string_equal(word(t, i, "flag"), "off");
    NEAR(number(t, i, "delta"), 39, 1e-9);
    /* the same name under another model is not measured */
    i = number_of(t, "Mistral", "SnapKV", "ruler/vt");
    assert_string_equal(word(t, i, "flag"), "not measured");
    kva_report_free(r);

    w->task[0].ctx = 4096;
    r = paper_of(w, "S-CK/1", &res);
    assert_int_equal(res.n_match, 0);
    assert_int_equal(res.n_na, 1);
    t = tab(r, "numbers");
    i = number_of(t, "Llama", "SnapKV", "ruler/vt");
    assert_string_equal(word(t, i, "flag"), "n/a");
    assert_string_equal(word(t, i, "differs"), "context 4096 (32768)");
    NEAR(number(t, i, "measured"), 96, 1e-9);
    assert_true(isnan(number(t, i, "delta")));
    kva_report_free(r);

    w->task[0].ctx = 32768;
    w->cell[0].visibility = S("aware");
    r = paper_of(w, "S-CK/1", &res);
    t = tab(r, "numbers");
    i = number_of(t, "Llama", "SnapKV", "ruler/vt");
    assert_string_equal(word(t, i, "differs"), "visibility aware (agnostic)");
    kva_report_free(r);

    /* another budget, or only masked: nothing to show */
    w->cell[0].visibility = S("agnostic");
    w->cell[0].budget = 0.6;
    w->cell[1].enforce = S("mask");
    r = paper_of(w, "S-CK/1", &res);
    assert_int_equal(res.n_missing, 315);
    kva_report_free(r);
    free(good);
    free(bad);
    free(w);
}

static void too_few_samples_are_no_comparison(void **state)
{
    static const char *const task[] = {"vt"};
    struct world *w = llama_world(task, 1, 49);
    char *s = ones(48, 49);
    struct kva_paper_result res;
    struct kva_report *r;
    const struct kva_tab *t;

    (void)state;
    add_cell(w, 0, "snapkv32", 0.4, "physical", s);
    r = paper_of(w, "S-CK/1", &res);
    assert_int_equal(res.n_na, 1);
    t = tab(r, "numbers");
    assert_string_equal(word(t, number_of(t, "Llama", "SnapKV", "ruler/vt"), "differs"),
                        "samples 49 (100)");
    kva_report_free(r);
    free(s);
    free(w);
}

static void other_parameters_and_files_are_told_apart(void **state)
{
    static const char *const task[] = {"vt"};
    struct world *w = llama_world(task, 1, 100);
    char *s = ones(96, 100);
    struct kva_paper_result res;
    struct kva_report *r;
    const struct kva_tab *t;

    (void)state;
    add_cell(w, 0, "snapkv32:window=16", 0.4, "physical", s);
    r = paper_of(w, "S-CK/1", &res);
    assert_int_equal(res.n_na, 1);
    t = tab(r, "numbers");
    assert_string_equal(word(t, number_of(t, "Llama", "SnapKV", "ruler/vt"), "differs"),
                        "parameters snapkv32:window=16 (snapkv32)");
    kva_report_free(r);
    free(s);
    free(w);
}

/* 13 tasks of 100: the mean and the loss follow from the same cells. */
static void averages_and_losses_are_measured_by_the_rules_of_the_paper(void **state)
{
    const struct kva_group *g = kva_group_find("ruler13");
    struct world *w = llama_world(g->task, 13, 100);
    struct kva_paper_result res;
    struct kva_report *r;
    const struct kva_tab *t;
    double mean = 0;
    int i;

    (void)state;
    for (int k = 0; k < 13; k++) {
        char *s = ones(40 + 4 * k, 100), *full = ones(92, 100);

        mean += 40 + 4 * k;
        add_cell(w, k, "dense", 1, "dense", full);
        add_cell(w, k, "snapkv32", 0.4, "physical", s);
        free(s);
        free(full);
    }
    mean /= 13;
    r = paper_of(w, "S-CK/1", &res);
    t = tab(r, "numbers");
    i = number_of(t, "Llama", "SnapKV", "ruler/ruler13");
    NEAR(number(t, i, "measured"), mean, 1e-9);
    assert_int_equal((int)number(t, i, "n"), 100);
    i = number_of(t, "Llama", "SnapKV", "ruler/loss");
    NEAR(number(t, i, "measured"), 100 * (1 - mean / 92), 1e-9);
    assert_true(cell(t, i, "measured")->lo < number(t, i, "measured"));
    assert_true(cell(t, i, "measured")->hi > number(t, i, "measured"));
    i = number_of(t, "Llama", "Full Cache", "ruler/ruler13");
    NEAR(number(t, i, "measured"), 92, 1e-9);
    assert_string_equal(word(t, i, "flag"), "match");
    kva_report_free(r);

    /* one task short: no mean under its name */
    w->task[12].name = S("qa_3");
    r = paper_of(w, "S-CK/1", &res);
    t = tab(r, "numbers");
    i = number_of(t, "Llama", "SnapKV", "ruler/ruler13");
    assert_string_equal(word(t, i, "flag"), "not measured");
    kva_report_free(r);
    free(w);
}

/* avg16 weighs the domains 3,3,3,3,2,2; avg6 does not, and has another name. */
static void the_two_longbench_means_are_never_mixed(void **state)
{
    const struct kva_group *g = kva_group_find("avg16");
    struct world *w = llama_world(g->task, 16, 200);
    struct kva_paper_result res;
    struct kva_report *r;
    const struct kva_tab *t;
    int i;

    (void)state;
    for (int k = 0; k < 16; k++) {
        char *s = ones(k < 14 ? 100 : 200, 200); /* code 100, the others 50 */

        w->task[k].suite = S("longbench");
        w->task[k].ctx = 0;
        add_cell(w, k, "dense", 1, "dense", s);
        free(s);
    }
    r = paper_of(w, "S-CK/2", &res);
    t = tab(r, "numbers");
    i = number_of(t, "Llama", "Full Cache", "longbench/avg16");
    NEAR(number(t, i, "measured"), (14 * 50 + 2 * 100) / 16.0, 1e-9);
    i = number_of(t, "Llama", "Full Cache", "longbench/code");
    NEAR(number(t, i, "measured"), 100, 1e-9);
    kva_report_free(r);
    w->model[0].name = S("chatglm3-6b-32k");
    r = paper_of(w, "LB/README", &res);
    t = tab(r, "numbers");
    i = number_of(t, "ChatGLM3", "dense", "longbench/avg6");
    NEAR(number(t, i, "measured"), (5 * 50 + 100) / 6.0, 1e-9);
    assert_string_equal(word(t, i, "flag"), "n/a"); /* no interval for such a mean */
    kva_report_free(r);
    free(w);
}

/* Another model has a table of its own and no number in any comparison. */
static void another_model_is_never_mixed_in(void **state)
{
    static const char *const task[] = {"vt"};
    struct world *w = llama_world(task, 1, 100);
    char *s = ones(96, 100);
    struct kva_paper_result res;
    struct kva_report *r;
    const struct kva_tab *t;

    (void)state;
    w->model[0].name = S("smollm2-135m");
    add_cell(w, 0, "snapkv32", 0.4, "physical", s);
    r = paper_of(w, "S-CK/1", &res);
    assert_int_equal(res.n_missing, 315);
    t = tab(r, "other-1");
    assert_non_null(strstr(t->caption, "Another model: smollm2-135m"));
    assert_non_null(strstr(t->caption, "never compared"));
    assert_int_equal(t->n_row, 1);
    NEAR(number(t, 0, "vt"), 96, 1e-9);
    assert_true(noted(t, "model smollm2-135m (Llama-3.1-8B-Instruct)"));
    t = tab(r, "numbers");
    for (int i = 0; i < t->n_row; i++)
        assert_true(isnan(number(t, i, "measured")));
    kva_report_free(r);
    free(s);
    free(w);
}

static void an_unknown_table_names_the_nearest(void **state)
{
    struct kva_report *r = NULL;
    struct kva_error err = {0};

    (void)state;
    assert_int_equal(kva_paper_build(NULL, NULL, "S-CK/I", as_written, NULL, &r, &err),
                     KVA_EINVALID);
    assert_null(r);
    assert_non_null(strstr(err.text, "did you mean 'S-CK/1'?"));
}

static void the_list_shows_every_table(void **state)
{
    struct kva_report *r = NULL;

    (void)state;
    assert_int_equal(kva_paper_list(NULL, &r, NULL), KVA_OK);
    assert_int_equal(r->tab[0].n_row, set.n_table);
    for (int i = 0; i < set.n_table; i++)
        assert_string_equal(word(&r->tab[0], i, "id"), set.table[i].id);
    kva_report_free(r);
}

static void all_formats_show_a_paper(void **state)
{
    struct kva_paper_result res;
    struct kva_report *r = paper_of(NULL, "S-CK/10", &res);
    enum kva_status (*const f[])(const struct kva_report *, struct kva_buf *,
                                 struct kva_error *) = {
        kva_report_text, kva_report_json, kva_report_csv, kva_report_markdown,
        kva_report_latex};

    (void)state;
    for (size_t i = 0; i < sizeof f / sizeof f[0]; i++) {
        char *s = rendered(r, f[i]);

        assert_non_null(strstr(s, "47.79"));
        free(s);
    }
    kva_report_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printed_numbers_are_those_of_the_papers),
        cmocka_unit_test(removed_shares_are_stored_as_kept),
        cmocka_unit_test(every_table_has_its_numbers_together),
        cmocka_unit_test(sizes_of_longbench_are_those_of_its_card),
        cmocka_unit_test(the_grid_of_the_values_tells_the_number_of_samples),
        cmocka_unit_test(a_printed_number_has_a_sampling_error),
        cmocka_unit_test(bad_lines_are_refused_with_file_and_line),
        cmocka_unit_test(printed_averages_and_tallies_are_reproduced),
        cmocka_unit_test(numbers_that_do_not_follow_are_listed_with_their_erratum),
        cmocka_unit_test(one_wrong_digit_is_noticed),
        cmocka_unit_test(model_names_match_by_their_words),
        cmocka_unit_test(without_results_nothing_is_measured),
        cmocka_unit_test(a_number_is_compared_under_one_protocol_only),
        cmocka_unit_test(too_few_samples_are_no_comparison),
        cmocka_unit_test(other_parameters_and_files_are_told_apart),
        cmocka_unit_test(averages_and_losses_are_measured_by_the_rules_of_the_paper),
        cmocka_unit_test(the_two_longbench_means_are_never_mixed),
        cmocka_unit_test(another_model_is_never_mixed_in),
        cmocka_unit_test(an_unknown_table_names_the_nearest),
        cmocka_unit_test(the_list_shows_every_table),
        cmocka_unit_test(all_formats_show_a_paper),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
