/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_figures.c - drawings against their data, SVG made fit for a page, the directory
 * that appears whole or not at all. */
#include "tests/reports/fixture.h"

#include "reports/figures.h"
#include "tests/reports/page.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char tmp[64];

static int make_tmp(void **state)
{
    (void)state;
    (void)snprintf(tmp, sizeof tmp, "/tmp/kva-report-XXXXXX");
    return mkdtemp(tmp) ? 0 : -1;
}

static void wipe(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    while (d && (e = readdir(d)) != NULL) {
        char path[1024];

        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (unlink(path) != 0)
            wipe(path);
    }
    if (d)
        closedir(d);
    (void)rmdir(dir);
}

static int drop_tmp(void **state)
{
    (void)state;
    wipe(tmp);
    return 0;
}

static bool have_gnuplot(void)
{
    struct kva_error err = {0};
    char path[128];
    bool hung;

    (void)snprintf(path, sizeof path, "%s/none.gp", tmp);
    assert_int_equal(kva_write_file(path, "a=1\n", 4, &err), KVA_OK);
    if (kva_gnuplot_run(tmp, "none.gp", &hung, &err) == KVA_OK)
        return true;
    print_message("SKIP: no gnuplot\n");
    return false;
}

static int count(const char *s, const char *what)
{
    int n = 0;

    for (; (s = strstr(s, what)) != NULL; s += strlen(what))
        n++;
    return n;
}

static struct world *three_budgets(void)
{
    struct world *w = world_new(1, 20);

    add_cell(w, 0, "dense", 1, "dense", A20);
    for (int k = 1; k <= 3; k++)
        add_cell(w, 0, "it's_%d 50%", k * 0.25, "physical", H20);
    for (int k = 1; k <= 3; k++)
        add_cell(w, 0, "other", k * 0.25, "physical", k == 3 ? A20 : H20);
    return w;
}

static char *read_text(const char *dir, const char *id, const char *ext)
{
    struct kva_error err = {0};
    struct kva_buf b;
    char path[512];

    (void)snprintf(path, sizeof path, "%s/%s.%s", dir, id, ext);
    kva_buf_init(&b, 0);
    if (kva_read_file(path, 0, &b, &err) != KVA_OK)
        print_error("%s\n", err.text);
    assert_non_null(b.data);
    return b.data;
}

static int data_lines(const char *tsv)
{
    int n = 0;

    for (const char *s = tsv; *s; s++)
        n += (s == tsv || s[-1] == '\n') && ((*s >= '0' && *s <= '9'));
    return n;
}

/* Win, tie, loss and invalid of every line, and each count is printed in its bar. */
static void bars_sum_to_their_pairs(const char *tsv, const char *svg)
{
    for (const char *s = strchr(tsv, '\n'); s && s[1]; s = strchr(s + 1, '\n')) {
        int row, n[5];

        assert_int_equal(sscanf(s + 1, "%d\t%d\t%d\t%d\t%d\t%d", &row, &n[0], &n[1],
                                &n[2], &n[3], &n[4]),
                         6);
        assert_int_equal(n[0] + n[1] + n[2] + n[3], n[4]);
        for (int k = 0; k < 4; k++) {
            char text[32];

            (void)snprintf(text, sizeof text, "<text>%d</text>", n[k]);
            assert_true(n[k] == 0 || strstr(svg, text) != NULL);
        }
    }
}

static void drawings_hold_every_point_of_the_data_and_every_name(void **state)
{
    struct world *w;
    struct kva_report *r;
    struct kva_error err = {0};

    (void)state;
    if (!have_gnuplot())
        skip();
    w = three_budgets();
    r = built(w, NULL);
    assert_int_equal(kva_report_figures(r, tmp, &err), KVA_OK);
    assert_int_equal(r->n_figure, 6);
    for (int i = 0; i < r->n_figure; i++) {
        const struct kva_figure *f = &r->figure[i];
        char *svg = read_text(tmp, f->id, "svg"), *tsv = read_text(tmp, f->id, "tsv");
        int points = 0;

        assert_null(f->empty);
        assert_int_equal(data_lines(tsv), f->n_points);
        if (f->kind == KVA_FIG_RETENTION || f->kind == KVA_FIG_PARETO) {
            /* marks: the points and one a name in the key */
            points = count(svg, "<use ") - count(svg, "\t<use xlink:href='#gpPt5' id") -
                     count(svg, "\t<use xlink:href='#gpPt7' id") -
                     count(svg, "\t<use xlink:href='#gpPt9' id") -
                     count(svg, "\t<use xlink:href='#gpPt3' id") -
                     count(svg, "\t<use xlink:href='#gpPt11' id") -
                     count(svg, "\t<use xlink:href='#gpPt13' id");
            assert_int_equal(points, f->n_points + f->n_series);
            for (int k = 0; k < f->n_series; k++)
                assert_non_null(strstr(svg, f->series[k]));
        }
        if (f->kind == KVA_FIG_RETENTION) {
            assert_int_equal(f->n_points, 6);
            assert_non_null(strstr(svg, "it's_%d 50%"));
            assert_non_null(strstr(svg, ">other<"));
            assert_null(strstr(svg, "subscript"));
        } else if (f->kind == KVA_FIG_DEPTH) {
            assert_int_equal(f->n_points,
                             3 * 3 * 10); /* budgets x (dense, two) x tenths */
            assert_int_equal(
                count(svg, "<text>100</text>") + count(svg, "<text>0</text>") +
                    count(svg, "<text>50</text>") + count(svg, "<text>n/a</text>"),
                f->n_points);
        } else if (f->kind == KVA_FIG_PAIRS) { /* both against dense, one against other */
            assert_int_equal(f->n_points, strcmp(f->id, "pairs-1") == 0 ? 2 : 1);
            bars_sum_to_their_pairs(tsv, svg);
        } else {
            assert_int_equal(f->n_points, 7);
        }
        free(svg);
        free(tsv);
    }
    kva_report_free(r);
    free(w);
}

static void
inlining_prefixes_ids_and_follows_the_theme_but_leaves_text_alone(void **state)
{
    static const char svg[] =
        "<?xml version=\"1.0\"?>\n<svg \n width=\"960\" height=\"540\"\n viewBox=\"0 0 "
        "960 540\"\n"
        " xmlns=\"http://www.w3.org/2000/svg\">\n<title>Gnuplot</title>\n"
        "<rect x=\"0\" y=\"0\" width=\"960\" height=\"540\" fill=\"none\"/>\n"
        "<defs><circle id='gpDot' r='0.5' stroke='currentColor'/></defs>"
        "<g id=\"gnuplot_plot_1\" ><title>gnuplot_plot_1</title>"
        "<g fill=\"none\" color=\"black\" stroke=\"black\"><path stroke='black' "
        "d='M0,0 h1'/>"
        "<use xlink:href='#gpDot' color='rgb(1,2,3)'/><polygon fill = 'url(#gpPat1)'/>"
        "<text>id='gpDot' fill=\"black\" &lt;b></text></g></g>\n</svg>\n";
    struct kva_buf b;
    struct kva_error err = {0};

    (void)state;
    kva_buf_init(&b, 0);
    assert_int_equal(kva_svg_inline(svg, sizeof svg - 1, "f1", "a <b> \"c\"", &b, &err),
                     KVA_OK);
    assert_string_equal(
        b.data, "<svg viewBox=\"0 0 960 540\" role=\"img\" aria-label=\"a &lt;b&gt; "
                "&quot;c&quot;\" fill=\"none\" stroke=\"currentColor\" "
                "stroke-width=\"0.96\" font-size=\"13\">"
                "<defs><circle id=\"f1-gpDot\" r=\"0.5\" stroke=\"currentColor\"/></defs>"
                "<path d=\"M0,0h1\"/>"
                "<use href=\"#f1-gpDot\" color=\"#010203\"/><polygon "
                "fill=\"url(#f1-gpPat1)\"/>"
                "<text>id='gpDot' fill=\"black\" &lt;b></text></svg>\n");
    b.len = 0;
    assert_int_equal(kva_svg_inline("no", 2, "f1", "", &b, &err), KVA_EFORMAT);
    kva_buf_release(&b);
}

/* What gnuplot says without need goes: groups without a drawing, moves without a line,
 * attributes of the group around, hundredths of a pixel. */
static void inlining_drops_what_says_nothing(void **state)
{
    static const char svg[] =
        "<svg viewBox=\"0 0 9 9\">"
        "<g fill=\"none\" stroke=\"black\" stroke-width=\"0.96\"></g>"
        "<g stroke=\"black\" stroke-width=\"0.48\"><path stroke='black' "
        "d='M84.50,471.75 L932.69,-471.75  '/><path d='M1,2 '/>"
        "<g transform=\"translate(69.55,134.48)\" stroke=\"none\" fill=\"black\" "
        "font-family=\"DejaVu Sans\" font-size=\"13.00\" text-anchor=\"end\">\n"
        "\t\t<text> 80</text>\n\t</g></g>"
        "<g stroke='none'><polygon fill = 'rgb( 42, 120, 142)' points = '60.45,65.50 "
        "120.73,65.50 120.73,58.50 60.45,58.50 '/>"
        "<polygon fill='none' points='0,0 1,1 2,0 0,0 '/></g></svg>";
    struct kva_buf b;
    struct kva_error err = {0};

    (void)state;
    kva_buf_init(&b, 0);
    assert_int_equal(kva_svg_inline(svg, sizeof svg - 1, "f1", "t", &b, &err), KVA_OK);
    assert_non_null(strstr(
        b.data,
        "font-size=\"13\"><g stroke-width=\"0.48\"><path "
        "d=\"M84.5,471.8L932.7,-471.8\"/><text transform=\"translate(69.5,134.5)\" "
        "fill=\"currentColor\" text-anchor=\"end\"> 80</text></g>"
        "<g stroke=\"none\"><path fill=\"#2a788e\" d=\"M60.5,65.5H120.7V58.5H60.5\"/>"
        "<polygon points=\"0,0 1,1 2,0 0,0\"/></g></svg>"));
    kva_buf_release(&b);
}

/* Two panels of five columns, 67 px each: twelve letters do not stand side by side. */
static void names_wider_than_their_column_are_turned(void **state)
{
    struct world *w = world_new(1, 20);
    const char *name[] = {"a-long-named", "b", "c", "dense", "e"};
    struct kva_report *r;
    int at;

    (void)state;
    for (int turned = 1; turned >= 0; turned--) {
        w->d.n_cells = w->d.n_outcomes = 0;
        if (!turned)
            name[0] = "a";
        for (int i = 0; i < 5; i++)
            for (int k = 1; k <= (i == 3 ? 1 : 2); k++)
                add_cell(w, 0, name[i], i == 3 ? 1 : k * 0.25,
                         i == 3 ? "dense" : "physical", A20);
        r = built(w, NULL);
        for (at = 0; at < r->n_figure && r->figure[at].kind != KVA_FIG_DEPTH; at++)
            ;
        assert_true(at < r->n_figure);
        assert_int_equal(strstr(r->figure[at].gp, "rotate by 40") != NULL, turned);
        kva_report_free(r);
    }
    free(w);
}

static void viridis_ends_where_it_should_and_ink_stands_out(void **state)
{
    (void)state;
    assert_int_equal(kva_viridis(0), 0x440154);
    assert_int_equal(kva_viridis(1), 0xfde725);
    assert_int_equal(kva_viridis(0.5), 0x21918c);
    assert_int_equal(kva_ink_on(0x440154), 0xffffff);
    assert_int_equal(kva_ink_on(0xfde725), 0x000000);
}

static bool exists(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/%s", tmp, name);
    return access(path, F_OK) == 0;
}

static void a_report_appears_whole_and_the_old_one_survives_failure(void **state)
{
    struct world *w = three_budgets();
    struct kva_report *r = built(w, NULL);
    struct kva_error err = {0};
    char dir[128], other[128], *html, *again;
    DIR *d;
    int n = 0;

    (void)state;
    (void)snprintf(dir, sizeof dir, "%s/out", tmp);
    assert_int_equal(kva_report_write(r, dir, false, &err), KVA_OK);
    assert_true(exists("out/index.html"));
    assert_true(exists("out/report.json"));
    assert_true(exists("out/tables/board1.csv"));
    assert_true(exists("out/figures/retention-board1.gp"));
    html = read_text(tmp, "out/index", "html");
    assert_int_equal(kva_report_write(r, dir, false, &err), KVA_EINVALID);
    memset(&err, 0, sizeof err);
    assert_int_equal(kva_report_write(r, dir, true, &err), KVA_OK);
    again = read_text(tmp, "out/index", "html");
    assert_string_equal(html, again); /* same bytes, drawings included */
    check_page(html); /* with three drawings inside: every id still once */
    assert_null(strstr(html, "gnuplot_plot_1</title>"));
    free(again);
    /* something that is no report is never deleted */
    (void)snprintf(other, sizeof other, "%s/mine", tmp);
    assert_int_equal(mkdir(other, 0777), 0);
    (void)snprintf(other, sizeof other, "%s/mine/thesis.txt", tmp);
    assert_int_equal(kva_write_file(other, "x", 1, &err), KVA_OK);
    (void)snprintf(other, sizeof other, "%s/mine", tmp);
    assert_int_equal(kva_report_write(r, other, true, &err), KVA_EINVALID);
    assert_true(exists("mine/thesis.txt"));
    /* a place that cannot be written */
    memset(&err, 0, sizeof err);
    assert_int_not_equal(kva_report_write(r, "/proc/nothing/out", true, &err), KVA_OK);
    /* nothing is left lying about */
    d = opendir(tmp);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += strstr(e->d_name, ".tmp-") != NULL || strstr(e->d_name, ".old-") != NULL;
    closedir(d);
    assert_int_equal(n, 0);
    free(html);
    kva_report_free(r);
    free(w);
}

static void without_gnuplot_the_report_is_complete_but_for_drawings(void **state)
{
    struct world *w = three_budgets();
    struct kva_report *r = built(w, NULL);
    struct kva_error err = {0};
    char dir[128], *html, *path = strdup(getenv("PATH"));

    (void)state;
    (void)snprintf(dir, sizeof dir, "%s/plain", tmp);
    assert_int_equal(setenv("PATH", "/nonexistent", 1), 0);
    assert_int_equal(kva_report_figures(r, tmp, &err), KVA_ETOOL);
    memset(&err, 0, sizeof err);
    kva_log_set(NULL, NULL, KVA_LOG_ERROR);
    assert_int_equal(kva_report_write(r, dir, false, &err), KVA_OK);
    html = read_text(tmp, "plain/index", "html");
    assert_non_null(strstr(html, "gnuplot was missing"));
    free(html);
    kva_report_free(r);
    {
        struct kva_report_opts o = {.require_figures = true, .replicates = 100};

        (void)snprintf(dir, sizeof dir, "%s/strict", tmp);
        assert_int_equal(kva_report_build(&w->d, &o, &r, &err), KVA_OK);
        assert_int_equal(kva_report_write(r, dir, false, &err), KVA_ETOOL);
        assert_false(exists("strict"));
    }
    assert_int_equal(setenv("PATH", path, 1), 0);
    free(path);
    kva_report_free(r);
    free(w);
}

/* A program of that name that does what the lines say. */
static void fake_gnuplot(const char *lines)
{
    char path[128], text[256], search[160];
    struct kva_error err = {0};

    (void)snprintf(path, sizeof path, "%s/bin", tmp);
    (void)mkdir(path, 0777);
    (void)snprintf(search, sizeof search, "%s:/usr/bin:/bin", path);
    (void)snprintf(path, sizeof path, "%s/bin/gnuplot", tmp);
    (void)snprintf(text, sizeof text, "#!/bin/sh\n%s\n", lines);
    assert_int_equal(kva_write_file(path, text, strlen(text), &err), KVA_OK);
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(setenv("PATH", search, 1), 0);
}

static void a_gnuplot_that_hangs_dies_or_is_old_costs_the_drawings_alone(void **state)
{
    static const struct {
        const char *lines, *said;
        enum kva_status rc;
    } CASE[] = {
        {"echo >>\"$0.runs\"; exec sleep 50", "more than 1 s", KVA_EIO},
        {"exec 2>&-; exec sleep 50", "more than 1 s", KVA_EIO},
        {"sleep 50 & sleep 50", "more than 1 s", KVA_EIO},
        {"kill -9 $$", "killed by signal 9", KVA_EIO},
        {"echo 'line 3: " KVA_GNUPLOT_OLD "' >&2; exit 2", KVA_GNUPLOT_OLD, KVA_ETOOL},
        {"echo 'no font' >&2; exit 1", "no font", KVA_EIO},
    };
    char *path = strdup(getenv("PATH")), dir[128], *html;
    struct world *w = three_budgets();
    struct kva_report *r = built(w, NULL);

    (void)state;
    kva_log_set(NULL, NULL, KVA_LOG_ERROR);
    for (size_t i = 0; i < sizeof CASE / sizeof CASE[0]; i++) {
        struct kva_error err = {0};
        bool hung;

        kva_gnuplot_timeout_ns = i < 3 ? 1000000000 : 60000000000;
        fake_gnuplot(CASE[i].lines);
        assert_int_equal(kva_gnuplot_run(tmp, "none.gp", &hung, &err), CASE[i].rc);
        assert_int_equal(hung, i < 3);
        assert_non_null(strstr(err.text, CASE[i].said));
        if (i == 1 || i == 2)
            continue;
        memset(&err, 0, sizeof err);
        (void)snprintf(dir, sizeof dir, "%s/case%zu", tmp, i);
        assert_int_equal(kva_report_write(r, dir, false, &err), KVA_OK);
        if (hung) { /* one figure waits for a second, the others are not tried */
            char *runs = read_text(tmp, "bin/gnuplot", "runs");

            assert_true(r->n_figure > 3);
            assert_string_equal(runs, "\n\n"); /* by hand, and by the report */
            free(runs);
        }
        html = read_text(dir, "index", "html");
        assert_non_null(strstr(html, "Not drawn: gnuplot"));
        free(html);
    }
    kva_gnuplot_timeout_ns = 60000000000;
    assert_int_equal(setenv("PATH", path, 1), 0);
    free(path);
    kva_report_free(r);
    free(w);
}

/* Files may not grow beyond a size that the page exceeds: as on a full disk. */
static void a_full_disk_leaves_the_old_report_as_it_was(void **state)
{
    struct world *w = three_budgets();
    struct kva_report *r = built(w, NULL);
    struct rlimit old, small;
    struct kva_error err = {0};
    char dir[128], *before, *after;
    DIR *d;
    int n = 0;

    (void)state;
    (void)snprintf(dir, sizeof dir, "%s/disk", tmp);
    assert_int_equal(kva_report_write(r, dir, false, &err), KVA_OK);
    before = read_text(dir, "index", "html");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 16384;
    assert_true(strlen(before) > small.rlim_cur);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_not_equal(kva_report_write(r, dir, true, &err), KVA_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, SIG_DFL);
    assert_non_null(strstr(err.text, "index.html"));
    after = read_text(dir, "index", "html");
    assert_string_equal(before, after);
    d = opendir(tmp);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += strstr(e->d_name, "disk.") != NULL;
    closedir(d);
    assert_int_equal(n, 0); /* nor is a half-written one left */
    free(before);
    free(after);
    kva_report_free(r);
    free(w);
}

static void a_figure_without_data_says_why(void **state)
{
    struct world *w = world_new(1, 20);
    struct kva_report *r;

    (void)state;
    add_cell(w, 0, "a", 0.5, "physical", H20);
    r = built(w, NULL);
    assert_int_equal(r->figure[0].kind, KVA_FIG_RETENTION);
    assert_non_null(strstr(r->figure[0].empty, "dense run is missing"));
    kva_report_free(r);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawings_hold_every_point_of_the_data_and_every_name),
        cmocka_unit_test(
            inlining_prefixes_ids_and_follows_the_theme_but_leaves_text_alone),
        cmocka_unit_test(inlining_drops_what_says_nothing),
        cmocka_unit_test(names_wider_than_their_column_are_turned),
        cmocka_unit_test(viridis_ends_where_it_should_and_ink_stands_out),
        cmocka_unit_test(a_report_appears_whole_and_the_old_one_survives_failure),
        cmocka_unit_test(without_gnuplot_the_report_is_complete_but_for_drawings),
        cmocka_unit_test(a_gnuplot_that_hangs_dies_or_is_old_costs_the_drawings_alone),
        cmocka_unit_test(a_full_disk_leaves_the_old_report_as_it_was),
        cmocka_unit_test(a_figure_without_data_says_why),
    };

    return cmocka_run_group_tests(tests, make_tmp, drop_tmp);
}
