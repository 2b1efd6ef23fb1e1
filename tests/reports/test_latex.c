/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_latex.c - LaTeX, CSV, Markdown and flat exports of hostile names (reports.md 6.5).
 */
#include "tests/reports/tables.h"

static char *escaped(const char *s)
{
    struct kva_buf b;

    kva_buf_init(&b, 0);
    kva_latex_escape(&b, s);
    return b.data ? b.data : calloc(1, 1);
}

#define LATEX(in, out)                                                                   \
    do {                                                                                 \
        char *e = escaped(in);                                                           \
        assert_string_equal(e, out);                                                     \
        free(e);                                                                         \
    } while (0)

static void every_special_character_is_escaped(void **state)
{
    (void)state;
    LATEX("# $ % & _ { }", "\\# \\$ \\% \\& \\_ \\{ \\}");
    LATEX("~", "\\textasciitilde{}");
    LATEX("^", "\\textasciicircum{}");
    LATEX("\\", "\\textbackslash{}");
    LATEX("a<b>c|d", "a$<$b$>$c$|$d");
    LATEX("[x]*", "{[}x{]}{*}");
    LATEX("\"q\"", "''q''");
    LATEX("snap_kv:window=32", "snap\\_kv:window=32");
}

static void other_scripts_compile_without_their_fonts(void **state)
{
    (void)state;
    LATEX("\xe2\x89\xa0 \xce\x94 \xe2\x89\xa5", "$\\neq$ $\\Delta$ $\\geq$");
    LATEX("\xe4\xb8\xad", "U+4E2D");
    LATEX("\xf0\x9f\x98\x80", "U+1F600");
    LATEX("\xff", "U+FFFD"); /* not clean: no byte is swallowed */
    LATEX("\xe4x", "U+FFFDx");
}

/* Outside of escapes, braces balance and never go negative; no bare special is left. */
static void check_brackets(const char *s)
{
    int depth = 0, dollars = 0;
    const char *start = s;

    for (; *s; s++) {
        if (*s == '%' && (s == start || s[-1] == '\n')) { /* our own comment */
            s += strcspn(s, "\n");
            continue;
        }
        if (*s == '\\') {
            s++;
            continue;
        }
        depth += *s == '{';
        depth -= *s == '}';
        dollars += *s == '$';
        assert_true(depth >= 0);
        assert_false(*s == '#' || *s == '%' || *s == '~' || *s == '^');
        if (*s == '\n')
            assert_int_equal(dollars % 2, 0);
        if ((unsigned char)*s >= 0x80)
            fail_msg("a byte above ASCII: %.20s", s);
    }
    assert_int_equal(depth, 0);
    assert_int_equal(dollars % 2, 0);
}

static struct world *hostile_world(void)
{
    struct world *w = world_new(1, 20);

    w->model[0].name = S("}\\input{/etc/passwd}%{$_^~#&\xe4\xb8\xad");
    w->task[0].name = S("t|x\\\\[2ex]`*_<b>\n\"q\"");
    add_cell(w, 0, "=cmd|' /C calc'!A0", 0.5, "physical", N20);
    add_cell(w, 0, "\"><script>alert(1)</script>", 0.5, "physical", A20);
    add_cell(w, 0, "dense", 1, "dense", A20);
    return w;
}

static void hostile_names_leave_balanced_latex(void **state)
{
    struct world *w = hostile_world();
    static const char *const views[] = {"leaderboard", "tasks", "coverage"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct kva_report *r = built(w, views[i]);
        char *s = rendered(r, kva_report_latex);

        check_brackets(s);
        assert_null(strstr(s, "\\input{/etc"));
        assert_non_null(strstr(s, "\\begin{tabular}"));
        free(s);
        kva_report_free(r);
    }
    free(w);
}

static void spreadsheets_do_not_run_names(void **state)
{
    struct world *w = hostile_world();
    struct kva_report *r = built(w, "leaderboard");
    char *s = rendered(r, kva_report_csv);

    (void)state;
    assert_non_null(strstr(s, "\"'=cmd|' /C calc'!A0"));
    assert_null(strstr(s, ",=cmd"));
    free(s);
    kva_report_free(r);
    free(w);
}

static void markdown_cells_keep_their_columns(void **state)
{
    struct world *w = hostile_world();
    struct kva_report *r = built(w, "leaderboard");
    char *s = rendered(r, kva_report_markdown), *line, *save = NULL;
    int want = 0;

    (void)state;
    assert_null(strstr(s, "<script>"));
    for (line = strtok_r(s, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        int bars = 0;

        if (line[0] != '|') {
            want = 0;
            continue;
        }
        for (char *p = line; *p; p++)
            bars += *p == '|' && (p == line || p[-1] != '\\');
        want = want ? want : bars;
        assert_int_equal(bars, want);
    }
    free(s);
    kva_report_free(r);
    free(w);
}

/* Bold means significantly best; ties are all bold. */
static void the_best_is_bold_only_when_it_is_significant(void **state)
{
    struct world *w = simple_world();
    struct kva_report *r = built(w, "leaderboard");
    char *s = rendered(r, kva_report_latex);

    (void)state;
    assert_non_null(strstr(s, "\\textbf{1=}"));
    free(s);
    kva_report_free(r);
    free(w);
}

static char *flat_of(const struct world *w, const char *what, bool csv)
{
    struct kva_report_opts o = {0};
    struct kva_error err = {0};
    struct kva_buf b;

    kva_buf_init(&b, 0);
    if (kva_report_flat(&w->d, &o, what, csv, &b, &err) != KVA_OK)
        fail_msg("%s: %s", what, err.text);
    kva_buf_puts(&b, "");
    return b.data;
}

static void flat_rows_hold_what_is_stored(void **state)
{
    struct world *w = simple_world();
    char *s = flat_of(w, "outcomes", false), *line, *save = NULL;
    int n = 0;

    (void)state;
    for (line = strtok_r(s, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        const struct kva_data_outcome *x = &w->d.outcomes[n++];

        assert_non_null(o);
        NEAR(json_number_value(json_object_get(o, "score")), x->score, 0);
        assert_string_equal(json_string_value(json_object_get(o, "method")),
                            w->d.cells[x->cell].method);
        assert_string_equal(json_string_value(json_object_get(o, "status")), x->status);
        json_decref(o);
    }
    assert_int_equal(n, w->d.n_outcomes);
    free(s);
    s = flat_of(w, "cells", false);
    n = 0;
    for (char *p = s; *p; p++)
        n += *p == '\n';
    assert_int_equal(n, w->d.n_cells);
    assert_non_null(strstr(s, "\"score\":0.5,"));
    free(s);
    free(w);
}

static void flat_csv_has_one_header_and_even_rows(void **state)
{
    struct world *w = simple_world();
    static const char *const what[] = {"outcomes", "cells", "memory"};

    (void)state;
    for (int k = 0; k < 3; k++) {
        char *s = flat_of(w, what[k], true), *line, *save = NULL;
        int want = 0, rows = 0;

        for (line = strtok_r(s, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            int commas = 0;
            bool quoted = false;

            for (char *p = line; *p; p++) {
                quoted ^= *p == '"';
                commas += *p == ',' && !quoted;
            }
            if (rows == 0)
                assert_int_equal(strncmp(line, "cell,model,task,", 16), 0);
            want = rows ? want : commas;
            assert_int_equal(commas, want);
            rows++;
        }
        assert_int_equal(rows - 1, k == 1 ? w->d.n_cells : w->d.n_outcomes);
        free(s);
    }
    free(w);
}

static void an_unknown_export_names_the_nearest(void **state)
{
    struct world *w = simple_world();
    struct kva_report_opts o = {0};
    struct kva_error err = {0};
    struct kva_buf b;

    (void)state;
    kva_buf_init(&b, 0);
    assert_int_equal(kva_report_flat(&w->d, &o, "outcome", false, &b, &err),
                     KVA_EINVALID);
    assert_non_null(strstr(err.text, "did you mean outcomes?"));
    kva_buf_release(&b);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_special_character_is_escaped),
        cmocka_unit_test(other_scripts_compile_without_their_fonts),
        cmocka_unit_test(hostile_names_leave_balanced_latex),
        cmocka_unit_test(spreadsheets_do_not_run_names),
        cmocka_unit_test(markdown_cells_keep_their_columns),
        cmocka_unit_test(the_best_is_bold_only_when_it_is_significant),
        cmocka_unit_test(flat_rows_hold_what_is_stored),
        cmocka_unit_test(flat_csv_has_one_header_and_even_rows),
        cmocka_unit_test(an_unknown_export_names_the_nearest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
