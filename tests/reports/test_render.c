/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_render.c - JSON, CSV, Markdown and the page: valid, escaped, the same bytes twice.
 */
#include "tests/reports/fixture.h"

#include "reports/figures.h"
#include "tests/reports/page.h"
#include "tests/reports/tables.h"

#define HOSTILE "\"><script>alert(1)</script>"
#define FORMULA "=cmd|' /C calc'!A0"

static struct world *hostile_world(void)
{
    struct world *w = world_new(1, 20);

    w->model[0].name = S("m\x1b[31m&\xff'|`");
    add_cell(w, 0, HOSTILE, 0.5, "physical", H20);
    add_cell(w, 0, FORMULA, 0.5, "physical", N20);
    add_cell(w, 0, "blind", 1, "dense", N20);
    add_cell(w, 0, "dense", 1, "dense", A20);
    return w;
}

static char *page(const struct kva_report *r, const char *figures)
{
    struct kva_error err = {0};
    struct kva_buf b;

    kva_buf_init(&b, 0);
    assert_int_equal(kva_report_html(r, figures, &b, &err), KVA_OK);
    return b.data;
}

static void json_parses_and_holds_unrounded_values(void **state)
{
    struct world *w = simple_world();
    struct kva_report *r = built(w, NULL);
    char *text = rendered(r, kva_report_json);
    json_error_t bad;
    json_t *doc = json_loads(text, JSON_REJECT_DUPLICATES, &bad), *t, *row, *col;
    size_t i;
    bool found = false;

    (void)state;
    assert_non_null(doc);
    assert_string_equal(json_string_value(json_object_get(doc, "schema")),
                        "kvaudit.report/1");
    t = json_array_get(json_object_get(doc, "tables"), 0);
    json_array_foreach(json_object_get(t, "rows"), i, row)
    {
        size_t c;

        json_array_foreach(json_object_get(t, "columns"), c, col) assert_non_null(
            json_object_get(row, json_string_value(json_object_get(col, "id"))));
        if (strcmp(json_string_value(json_object_get(row, "method")), "half") != 0)
            continue;
        found = true;
        NEAR(json_number_value(json_object_get(row, "score")), 0.5, 0);
        NEAR(json_number_value(json_object_get(row, "score_lo")),
             kva_stat_wilson(10, 20).lo, 0);
        NEAR(json_number_value(json_object_get(row, "nats_retention")), 1.95 / 2.9,
             1e-15);
        assert_true(json_is_null(json_object_get(row, "ttft_ms")));
        assert_string_equal(json_string_value(json_object_get(row, "audit")), "PHYSICAL");
        assert_string_equal(json_string_value(json_object_get(row, "method_spec")),
                            "half+uniform");
    }
    assert_true(found);
    json_decref(doc);
    free(text);
    kva_report_free(r);
    free(w);
}

/* RFC 4180 reader: fields of each line; returns how many lines. */
static int csv_lines(const char *s, int *fields)
{
    int lines = 0, n = 1;

    for (; *s; s++) {
        if (*s == '"') {
            for (s++; !(s[0] == '"' && s[1] != '"'); s++) {
                assert_int_not_equal(*s, 0);
                s += s[0] == '"';
            }
        } else if (*s == ',') {
            n++;
        } else if (*s == '\n') {
            if (lines == 0)
                *fields = n;
            assert_int_equal(n, *fields);
            lines++;
            n = 1;
        }
    }
    return lines;
}

static void csv_has_equal_lines_and_runs_no_formula(void **state)
{
    struct world *w = hostile_world();
    struct kva_report *r = built(w, NULL);
    char *text = rendered(r, kva_report_csv);
    int fields = 0;

    (void)state;
    assert_int_equal(csv_lines(text, &fields), 5); /* header, dense, two methods, blind */
    assert_non_null(strstr(text, "\"'" FORMULA "\""));
    assert_null(strstr(text, ",=cmd"));
    assert_non_null(strstr(text, ",-0.5,")); /* a negative number is no formula */
    free(text);
    kva_report_free(r);
    free(w);
}

static void markdown_escapes_pipes_and_markup(void **state)
{
    struct world *w = hostile_world();
    struct kva_report *r = built(w, NULL);
    char *text = rendered(r, kva_report_markdown), *line;

    (void)state;
    assert_null(strstr(text, "<script>"));
    assert_non_null(strstr(text, "=cmd\\|'"));
    line = strstr(text, "| rank ");
    assert_non_null(line);
    free(text);
    kva_report_free(r);
    free(w);
}

static void text_carries_no_control_characters(void **state)
{
    struct world *w = hostile_world();
    struct kva_report *r = built(w, NULL);
    char *text = rendered(r, kva_report_text);

    (void)state;
    for (const char *s = text; *s; s++)
        assert_true((unsigned char)*s >= 0x20 || *s == '\n');
    assert_int_equal(strlen(text) > 0, 1);
    free(text);
    kva_report_free(r);
    free(w);
}

static void every_environment_stands_once_and_the_rules_are_in_words(void **state)
{
    static struct kva_data_run runs[3];
    struct world *w = simple_world();
    struct kva_report *r;
    const struct kva_tab *t;
    char *text;

    (void)state;
    for (int i = 0; i < 3; i++) {
        runs[i] = w->run[0];
        memset(runs[i].perf_digest, i == 1 ? 0xab : 0x12, 32);
        runs[i].env_json = S("{\"isa\":\"avx2\",\"threads\":3}");
        runs[i].git_dirty = i == 2;
        runs[i].cpu_logical = 8;
    }
    runs[1].env_json = S("no JSON");
    runs[1].gpu_name = S("H<200>");
    runs[1].gpu_bytes = 150754820096;
    runs[1].driver = S("13.1");
    runs[1].cuda_runtime = S("12.9");
    w->d.runs = runs;
    w->d.n_runs = 3;
    r = built(w, NULL);
    t = tab(r, "environments");
    assert_int_equal(t->n_row, 2);
    assert_string_equal(word(t, 0, "environment"), "121212121212");
    assert_string_equal(word(t, 0, "isa"), "avx2");
    NEAR(number(t, 0, "threads"), 3, 0);
    NEAR(number(t, 0, "cpu_logical"), 8, 0);
    assert_string_equal(word(t, 1, "gpu"), "H<200>");
    assert_string_equal(word(t, 1, "driver"), "13.1");
    assert_string_equal(word(t, 1, "cuda_runtime"), "12.9");
    NEAR(number(t, 1, "gpu_bytes"), 150754820096.0, 0);
    assert_true(isnan(number(t, 0, "gpu_bytes")));
    assert_true(isnan(number(t, 1, "threads")));
    t = tab(r, "runs");
    assert_string_equal(word(t, 1, "environment"), "abababababab");
    assert_string_equal(word(t, 2, "commit"), "aa+");
    text = page(r, NULL);
    check_page(text);
    assert_non_null(strstr(text, "H&lt;200&gt;"));
    for (int i = 0; i < 6; i++) {
        static const char *const said[6] = {
            "fewer than 30 units", "t interval of the linearised ratio",
            "B = 500, seed 0",     "epsilon = 0.005",
            "alpha = 0.05",        "Database schema (user_version): 2."};

        assert_non_null(strstr(text, said[i]));
    }
    free(text);
    kva_report_free(r);
    free(w);
}

/* Code points up to the line's end. */
static int columns_of(const char *s)
{
    int n = 0;

    for (; *s && *s != '\n'; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

/* The longest line of a table is as long as the rule below its head: columns stand below
 * each other. Returns how many tables there are. */
static int check_columns(const char *text, int width)
{
    static const char rule[] = "\xe2\x94\x80";
    const char *line[3] = {"", text, NULL};
    int n = 0;

    for (; (line[2] = strchr(line[1], '\n')) != NULL;
         line[0] = line[1], line[1] = line[2]) {
        int most = columns_of(line[0]), wide = columns_of(line[1]);

        ++line[2];
        if (strncmp(line[1], rule, 3) != 0)
            continue;
        for (; *line[2] && *line[2] != '\n'; line[2] = strchr(line[2], '\n') + 1)
            most = columns_of(line[2]) > most ? columns_of(line[2]) : most;
        assert_int_equal(most, wide);
        assert_true(wide <= width);
        n++;
    }
    return n;
}

static void a_terminal_of_any_width_gets_every_column_aligned(void **state)
{
    struct world *w = simple_world();
    struct kva_report *r = built(w, NULL);
    int tables[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct kva_tab *t;
        char *text;

        r->opts.width = i == 0 ? 400 : i == 1 ? 80 : 8;
        text = rendered(r, kva_report_text);
        tables[i] = check_columns(text, i < 2 ? r->opts.width : 400);
        for (int k = 0; k < r->n_tab; k++) {
            t = &r->tab[k];
            for (int c = 0; c < t->n_col && t->view == r->view && t->n_row; c++)
                if (kva_tab_shown(r, t) && t->col[c].keep < KVA_KEEP_DETAIL &&
                    kva_tab_has(t, c))
                    assert_non_null(strstr(text, t->col[c].label));
        }
        free(text);
    }
    assert_true(tables[0] > 1 && tables[0] <= tables[1] && tables[1] < tables[2]);
    kva_report_free(r);
    free(w);
}

static void text_keeps_rare_columns_for_those_who_ask(void **state)
{
    struct world *w = simple_world();
    struct kva_report_opts o = {.replicates = 200, .details = true};
    struct kva_report *r = built(w, NULL);
    struct kva_error err = {0};
    char *text = rendered(r, kva_report_text);

    (void)state;
    assert_non_null(strstr(text, "With -v also: "));
    assert_non_null(strstr(text, "date, commit.\n"));
    assert_null(strstr(text, "2023-11-14\n"));
    free(text);
    kva_report_free(r);
    assert_int_equal(kva_report_build(&w->d, &o, &r, &err), KVA_OK);
    text = rendered(r, kva_report_text);
    assert_null(strstr(text, "With -v"));
    assert_non_null(strstr(text, "2023-11-14\n"));
    free(text);
    text = rendered(r, kva_report_csv);
    assert_non_null(strstr(text, ",date,commit,"));
    free(text);
    kva_report_free(r);
    free(w);
}

static void the_label_of_the_suites_is_in_every_format(void **state)
{
    static struct kva_data_run runs[3];
    struct world *w = simple_world();
    struct kva_report *r;
    char *s;
    json_t *doc;

    (void)state;
    w->run[0].label = S("short");
    r = built(w, "memory");
    s = rendered(r, kva_report_text);
    assert_memory_equal(s, "Label of the suite: short\n", 26);
    free(s);
    s = page(r, NULL);
    check_page(s);
    assert_non_null(strstr(s, "results up to 2023-11-14T22:15:00Z, label <strong "
                              "class=\"label\">short</strong></p>"));
    free(s);
    kva_report_free(r);
    w->task[0].gen_json = S("{\"max_new_tokens\":16}");
    for (int i = 0; i < 3; i++) {
        runs[i] = w->run[0];
        runs[i].label = S(i == 0 ? "short" : i == 1 ? "" : "full <1>");
    }
    w->d.runs = runs;
    w->d.n_runs = 3;
    r = built(w, NULL);
    s = rendered(r, kva_report_text);
    assert_non_null(strstr(s, "Labels of the suite: full <1>, no label, short "
                              "(answers of at most 16 tokens)\n"));
    free(s);
    s = rendered(r, kva_report_markdown);
    assert_non_null(strstr(s, "**full &lt;1&gt;, no label, short** (answers"));
    free(s);
    s = rendered(r, kva_report_json);
    doc = json_loads(s, JSON_REJECT_DUPLICATES, NULL);
    assert_string_equal(json_string_value(json_object_get(doc, "label")),
                        "full <1>, no label, short");
    assert_int_equal(json_array_size(json_object_get(doc, "labels")), 3);
    json_decref(doc);
    free(s);
    kva_report_free(r);
    /* nothing to say: no line, an empty key */
    w->d.n_runs = 1;
    runs[0].label = S("");
    r = built(w, NULL);
    s = rendered(r, kva_report_text);
    assert_null(strstr(s, "abel"));
    free(s);
    s = rendered(r, kva_report_json);
    assert_non_null(strstr(s, "\"label\":\"\""));
    free(s);
    kva_report_free(r);
    free(w);
}

static void a_report_of_one_view_shows_the_same_and_makes_no_page(void **state)
{
    static const char *const view[] = {"leaderboard", "tasks", "memory", "timing",
                                       "coverage"};
    struct world *w = simple_world();

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        struct kva_report_opts o = {.view = view[i], .replicates = 500, .one_view = true};
        struct kva_report *all = built(w, view[i]), *one;
        struct kva_error err = {0};
        struct kva_buf b;
        char *x, *y;

        assert_int_equal(kva_report_build(&w->d, &o, &one, &err), KVA_OK);
        x = rendered(all, kva_report_json);
        y = rendered(one, kva_report_json);
        assert_string_equal(x, y);
        free(x);
        free(y);
        x = rendered(all, kva_report_text);
        y = rendered(one, kva_report_text);
        assert_string_equal(x, y);
        free(x);
        free(y);
        kva_buf_init(&b, 0);
        assert_int_equal(kva_report_html(one, NULL, &b, &err), KVA_EINVALID);
        kva_buf_release(&b);
        kva_report_free(all);
        kva_report_free(one);
    }
    free(w);
}

static void a_terminal_counts_tasks_lost_as_the_page_does(void **state)
{
    struct kva_report_opts o = {
        .view = "leaderboard", .replicates = 500, .one_view = true};
    struct world *w = world_new(2, 20);
    struct kva_report *one;
    struct kva_error err = {0};
    char *s;

    (void)state;
    for (int t = 0; t < 2; t++) {
        add_cell(w, t, "bad+uniform", 0.5, "physical", N20);
        add_cell(w, t, "dense", 1, "dense", A20);
        add_cell(w, t, "good+uniform", 0.5, "physical", A20);
    }
    assert_int_equal(kva_report_build(&w->d, &o, &one, &err), KVA_OK);
    s = rendered(one, kva_report_json);
    assert_non_null(strstr(s, "\"0/0/2\""));
    assert_non_null(strstr(s, "\"0/2/0\""));
    free(s);
    kva_report_free(one);
    free(w);
}

/* ---- the page ---- */

static void the_page_is_well_formed_with_unique_ids_and_local_links(void **state)
{
    struct world *w = simple_world();
    struct kva_report *r = built(w, NULL);
    char *html = page(r, NULL);

    (void)state;
    check_page(html);
    assert_null(strstr(html, "http://"));
    assert_null(strstr(html, "https://"));
    assert_null(strstr(html, "url(\"http"));
    assert_non_null(strstr(html, "<html lang=\"en\">"));
    assert_non_null(strstr(html, "At 50 % kept good and same are tied for the lead"));
    assert_true(r->n_figure > 0);
    for (int i = 0; i < r->n_figure; i++) { /* title and caption, up to what is escaped */
        const char *caption = r->figure[i].caption;
        struct kva_buf want;

        kva_buf_init(&want, 0);
        kva_buf_printf(&want, "<figcaption><strong>%s.</strong> %.*s", r->figure[i].title,
                       (int)strcspn(caption, "<>&'\""), caption);
        assert_non_null(strstr(html, want.data));
        kva_buf_release(&want);
    }
    free(html);
    kva_report_free(r);
    free(w);
}

static void hostile_names_stay_text_on_the_page(void **state)
{
    struct world *w = hostile_world();
    struct kva_report *r = built(w, NULL);
    char *html = page(r, NULL);

    (void)state;
    check_page(html);
    assert_null(strstr(html, "<script>alert"));
    assert_non_null(strstr(html, "&quot;&gt;&lt;script&gt;alert(1)"));
    assert_null(strchr(html, '\x1b'));
    free(html);
    kva_report_free(r);
    free(w);
}

static void the_policy_names_the_hash_of_the_one_script(void **state)
{
    static const char abc[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct world *w = simple_world();
    struct kva_report *r = built(w, NULL);
    char *html = page(r, NULL), *script = strstr(html, "<script>"), want[64] = "sha256-";
    char *end = strstr(html, "</script>");
    uint8_t d[33] = {0};
    size_t n = 7;

    (void)state;
    assert_non_null(script);
    assert_null(strstr(end + 1, "<script"));
    kva_sha256_of(script + 8, (size_t)(end - script) - 8, d);
    for (int i = 0; i < 33; i += 3) {
        unsigned v = (unsigned)d[i] << 16 | (unsigned)d[i + 1] << 8 | d[i + 2];

        for (int k = 18; k >= 0; k -= 6)
            want[n++] = abc[v >> k & 63];
    }
    want[n - 1] = '=';
    assert_non_null(strstr(html, want));
    assert_non_null(strstr(html, "default-src 'none'"));
    free(html);
    kva_report_free(r);
    free(w);
}

/* ---- contrast (WCAG 2.1) from the page's own variables ---- */

static double channel(unsigned v)
{
    double c = v / 255.0;

    return c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
}

static double luminance(const char *block, const char *name)
{
    const char *at = strstr(block, name);
    unsigned rgb;

    assert_non_null(at);
    at += strlen(name);
    at += strspn(at, ": ");
    assert_int_equal(*at, '#');
    rgb = (unsigned)strtoul(at + 1, NULL, 16);
    return 0.2126 * channel(rgb >> 16 & 255) + 0.7152 * channel(rgb >> 8 & 255) +
           0.0722 * channel(rgb & 255);
}

static double contrast(const char *block, const char *a, const char *b)
{
    double x = luminance(block, a), y = luminance(block, b);

    return x > y ? (x + 0.05) / (y + 0.05) : (y + 0.05) / (x + 0.05);
}

static void text_has_a_contrast_of_4_5_in_both_themes(void **state)
{
    static const char *const ink[] = {"--fg",   "--muted", "--accent",
                                      "--good", "--warn",  "--bad"};
    static const char *const paper[] = {"--bg", "--surface", "--soft"};
    struct world *w = simple_world();
    struct kva_report *r = built(w, NULL);
    char *html = page(r, NULL);
    const char *block[2] = {strstr(html, ":root {"),
                            strstr(html, ":root[data-theme=\"dark\"]")};

    (void)state;
    for (int t = 0; t < 2; t++) {
        assert_non_null(block[t]);
        for (size_t i = 0; i < sizeof ink / sizeof ink[0]; i++)
            for (size_t k = 0; k < sizeof paper / sizeof paper[0]; k++) {
                double c = contrast(block[t], ink[i], paper[k]);

                if (c < 4.5)
                    print_error("theme %d: %s on %s: %.2f\n", t, ink[i], paper[k], c);
                assert_true(c >= 4.5);
            }
        assert_true(contrast(block[t], "--dot", "--surface") >= 3);
        assert_true(contrast(block[t], "--bar", "--surface") >= 3);
        assert_true(contrast(block[t], "--bar", "--soft") >= 3);
    }
    /* the two dark blocks say the same */
    {
        const char *media = strstr(html, ":root:not([data-theme=\"light\"])");

        for (size_t i = 0; i < sizeof ink / sizeof ink[0]; i++)
            NEAR(luminance(media, ink[i]), luminance(block[1], ink[i]), 0);
    }
    free(html);
    kva_report_free(r);
    free(w);
}

/* One drawing serves both themes: each colour stands out from either surface. */
static void figure_colours_have_a_contrast_of_3_in_both_themes(void **state)
{
    static const char *const paper[] = {"--surface", "--bg"};
    const char *ink[12] = {KVA_FIG_ALLOC, KVA_FIG_META, KVA_FIG_PEAK, KVA_FIG_LINE};
    struct world *w = simple_world();
    struct kva_report *r = built(w, NULL);
    char *html = page(r, NULL);
    const char *block[2] = {strstr(html, ":root {"),
                            strstr(html, ":root[data-theme=\"dark\"]")};

    (void)state;
    for (int i = 0; i < 8; i++)
        ink[4 + i] = kva_fig_colour[i];
    for (int i = 0; i < 12; i++)
        for (int t = 0; t < 2; t++)
            for (int k = 0; k < 2; k++) {
                double x = luminance(ink[i], ""), y = luminance(block[t], paper[k]);
                double c = x > y ? (x + 0.05) / (y + 0.05) : (y + 0.05) / (x + 0.05);

                if (c < 3)
                    print_error("theme %d: %s on %s: %.2f\n", t, ink[i], paper[k], c);
                assert_true(c >= 3);
            }
    for (int i = 0; i < 8;
         i++) /* told apart: no colour twice, neighbours differ in mark */
        for (int k = 0; k < i; k++)
            assert_string_not_equal(kva_fig_colour[i], kva_fig_colour[k]);
    free(html);
    kva_report_free(r);
    free(w);
}

static void the_same_data_give_the_same_bytes_and_no_path_or_host(void **state)
{
    enum kva_status (*const f[])(const struct kva_report *, struct kva_buf *,
                                 struct kva_error *) = {
        kva_report_text, kva_report_json, kva_report_csv, kva_report_markdown};
    struct world *w = simple_world();
    struct kva_report *a = built(w, NULL), *b = built(w, NULL);
    char *x, *y, host[256] = "";

    (void)state;
    (void)gethostname(host, sizeof host - 1);
    for (size_t i = 0; i < sizeof f / sizeof f[0]; i++) {
        x = rendered(a, f[i]);
        y = rendered(b, f[i]);
        assert_string_equal(x, y);
        assert_null(strstr(x, "/home"));
        assert_null(strstr(x, "/tmp"));
        if (strlen(host) > 5)
            assert_null(strstr(x, host));
        free(x);
        free(y);
    }
    x = page(a, NULL);
    y = page(b, NULL);
    assert_string_equal(x, y);
    free(x);
    free(y);
    kva_report_free(a);
    kva_report_free(b);
    free(w);
}

static void source_date_epoch_replaces_the_time(void **state)
{
    struct world *w = simple_world();
    struct kva_report *r;
    char *text;

    (void)state;
    assert_int_equal(setenv("SOURCE_DATE_EPOCH", "86400", 1), 0);
    r = built(w, NULL);
    unsetenv("SOURCE_DATE_EPOCH");
    text = rendered(r, kva_report_json);
    assert_non_null(strstr(text, "\"generated\":\"1970-01-02T00:00:00Z\""));
    free(text);
    kva_report_free(r);
    r = built(w, NULL);
    text = rendered(r, kva_report_json);
    assert_non_null(strstr(text, "\"generated\":\"2023-11-14T22:15:00Z\""));
    free(text);
    kva_report_free(r);
    free(w);
}

static void every_view_renders_in_every_format(void **state)
{
    static const char *const view[] = {"leaderboard", "tasks", "memory", "timing",
                                       "coverage"};
    struct world *w = simple_world();
    struct kva_report_opts o = {.view = "leaderbord"};
    struct kva_error err = {0};
    struct kva_report *r;

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        char *s;

        r = built(w, view[i]);
        free(rendered(r, kva_report_text));
        free(rendered(r, kva_report_csv));
        free(rendered(r, kva_report_markdown));
        s = rendered(r, kva_report_json);
        assert_non_null(strstr(s, view[i]));
        free(s);
        kva_report_free(r);
    }
    assert_int_equal(kva_report_build(&w->d, &o, &r, &err), KVA_EINVALID);
    free(w);
}

/* Ruling R13: where bytes are shown it is shown whether they could be checked, and no
 * narrow terminal drops that before them. */
static void bytes_never_stand_without_their_verdict(void **state)
{
    struct world *w = simple_world();
    struct kva_report *r;
    char *text[4];
    int tables = 0, rows = 0;

    (void)state;
    for (int i = 0; i < w->d.n_samples; i++)
        w->sample[i].turn = i % 2; /* the table of turns has bytes, too */
    for (int o = 0; o < w->d.n_outcomes; o++)
        if (strcmp(w->cell[w->out[o].cell].method, "half+uniform") == 0)
            w->out[o].memory.audit = -1;
    r = built(w, NULL);
    for (int i = 0; i < r->n_tab; i++) {
        const struct kva_tab *t = &r->tab[i];
        int audit = -1, bytes = 1000;

        if (t->view == KVA_VIEW_ABOUT || t->view == KVA_VIEW_AUDIT)
            continue; /* of machines; claim by claim with verdicts of their own */
        for (int c = 0; c < t->n_col; c++) {
            if (strcmp(t->col[c].id, "audit") == 0)
                audit = c;
            if (t->col[c].kind == KVA_COL_BYTES && t->col[c].keep < bytes)
                bytes = t->col[c].keep;
        }
        if (bytes == 1000)
            continue;
        tables++;
        if (audit < 0 || t->col[audit].keep > bytes)
            fail_msg("%s shows bytes without their verdict", t->id);
        for (int k = 0; k < t->n_row; k++)
            rows += t->row[k].cell[audit].text &&
                    strcmp(t->row[k].cell[audit].text, "UNVERIFIED") == 0;
    }
    assert_true(tables >= 3);
    assert_true(rows >= 3);
    kva_report_free(r);
    r = built(w, "memory");
    text[0] = rendered(r, kva_report_text);
    text[1] = rendered(r, kva_report_json);
    text[2] = rendered(r, kva_report_csv);
    for (int i = 0; i < 3; i++) {
        assert_non_null(strstr(text[i], "UNVERIFIED"));
        free(text[i]);
    }
    kva_report_free(r);
    r = built(w, NULL);
    text[3] = page(r, NULL);
    assert_non_null(
        strstr(text[3], "<span class=\"badge b-unverified\">UNVERIFIED</span>"));
    free(text[3]);
    kva_report_free(r);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_parses_and_holds_unrounded_values),
        cmocka_unit_test(csv_has_equal_lines_and_runs_no_formula),
        cmocka_unit_test(markdown_escapes_pipes_and_markup),
        cmocka_unit_test(text_carries_no_control_characters),
        cmocka_unit_test(the_page_is_well_formed_with_unique_ids_and_local_links),
        cmocka_unit_test(hostile_names_stay_text_on_the_page),
        cmocka_unit_test(the_policy_names_the_hash_of_the_one_script),
        cmocka_unit_test(text_has_a_contrast_of_4_5_in_both_themes),
        cmocka_unit_test(every_environment_stands_once_and_the_rules_are_in_words),
        cmocka_unit_test(a_terminal_of_any_width_gets_every_column_aligned),
        cmocka_unit_test(text_keeps_rare_columns_for_those_who_ask),
        cmocka_unit_test(the_label_of_the_suites_is_in_every_format),
        cmocka_unit_test(a_report_of_one_view_shows_the_same_and_makes_no_page),
        cmocka_unit_test(a_terminal_counts_tasks_lost_as_the_page_does),
        cmocka_unit_test(figure_colours_have_a_contrast_of_3_in_both_themes),
        cmocka_unit_test(the_same_data_give_the_same_bytes_and_no_path_or_host),
        cmocka_unit_test(source_date_epoch_replaces_the_time),
        cmocka_unit_test(every_view_renders_in_every_format),
        cmocka_unit_test(bytes_never_stand_without_their_verdict),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
