/* SPDX-License-Identifier: GPL-3.0-or-later */
/* figures_history.c - F13: the score of suites over the nights, 95 % intervals, nights in
 * which the gate failed marked. */
#include "reports/figures.h"
#include "reports/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_SERIES 8
#define MAX_TICS   12

/* "08-01 0123456" */
static void label(struct kva_buf *out, const struct kva_history_night *n)
{
    time_t t = (time_t)(n->ms / 1000);
    char text[16] = "";
    struct tm tm;

    if (gmtime_r(&t, &tm))
        (void)strftime(text, sizeof text, "%m-%d", &tm);
    kva_buf_printf(out, "%s %.7s", text, n->commit);
}

static void data(const struct kva_history *h, int n, struct kva_figure *f,
                 struct kva_buf *tsv)
{
    kva_buf_puts(tsv, "# night\tscore\tlo\thi\tfail\tms\tcommit\tname\n");
    for (int s = 0; s < n; s++) {
        const struct kva_history_series *x = &h->series[s];

        for (int i = 0; i < x->n; i++) {
            const struct kva_history_point *p = &x->point[i];
            const struct kva_history_night *night = &h->night[p->night];

            if (isnan(p->score))
                continue;
            kva_buf_printf(tsv, "%d\t%.6g\t%.6g\t%.6g\t%d\t%lld\t%s\t%s\n", p->night,
                           100 * p->score, 100 * (isnan(p->lo) ? p->score : p->lo),
                           100 * (isnan(p->hi) ? p->score : p->hi), (int)p->fail,
                           (long long)night->ms, night->commit, x->name);
            f->n_points++;
        }
        kva_buf_puts(tsv, "\n\n"); /* the next index */
    }
}

static void tics(const struct kva_history *h, struct kva_buf *body)
{
    int step = (h->n_night + MAX_TICS - 1) / MAX_TICS;

    kva_buf_puts(body, "set xtics rotate by -40 nomirror out (");
    for (int i = 0; i < h->n_night; i += step ? step : 1) {
        struct kva_buf t;

        kva_buf_init(&t, 0);
        label(&t, &h->night[i]);
        kva_buf_puts(body, i ? ", " : "");
        kva_gp_quote_tic(body, t.data ? t.data : "");
        kva_buf_printf(body, " %d", i);
        body->failed |= t.failed;
        kva_buf_release(&t);
    }
    kva_buf_puts(body, ")\n");
}

void kva_figure_history(struct kva_report *r, const struct kva_history *h)
{
    int n = h->n_series < MAX_SERIES ? h->n_series : MAX_SERIES;
    struct kva_figure *f =
        kva_figure_add(r, KVA_FIG_HISTORY, "history", "Scores over the nights");
    struct kva_buf tsv, body;

    if (!f)
        return;
    kva_buf_init(&tsv, 0);
    kva_buf_init(&body, 0);
    f->series = kva_arena_alloc(&r->arena, (size_t)n + 1, sizeof *f->series);
    r->nomem |= !f->series;
    data(h, n, f, &tsv);
    if (f->n_points == 0)
        f->empty = "no night has a score that can be compared";
    kva_buf_puts(&body,
                 "set datafile separator \"\\t\"\nset border 3 lw 0.8\n"
                 "set ylabel 'score'\nset yrange [-4:104]\nset ytics nomirror out\n"
                 "set grid ytics lc rgb '#999999' lw 0.4 dt 3\n"
                 "set key outside below left reverse Left samplen 1.5 maxcols 1\n");
    kva_buf_printf(&body, "set xrange [-0.5:%.1f]\n", h->n_night - 0.5);
    tics(h, &body);
    kva_buf_puts(&body, "plot \\\n");
    for (int s = 0; s < n && f->series; s++) {
        const char *colour = kva_fig_colour[s % 8];

        f->series[f->n_series++] = h->series[s].name;
        kva_buf_printf(
            &body,
            "  '%s.tsv' index %d using 1:2:3:4 with yerrorlines lc rgb '%s' pt "
            "%d ps 0.7 title ",
            f->id, s, colour, kva_fig_mark[s % 7]);
        kva_gp_quote(&body, h->series[s].name);
        kva_buf_printf(&body,
                       ", \\\n  '' index %d using 1:($5 > 0 ? $2 : NaN) with points lc "
                       "rgb '" KVA_FIG_PEAK "' pt 6 ps 2 lw 2 notitle, \\\n",
                       s);
    }
    kva_buf_puts(&body, "  NaN with points lc rgb '" KVA_FIG_PEAK
                        "' pt 6 ps 2 lw 2 title 'the gate failed'\n");
    f->height += 18 * n;
    f->caption = h->n_series > n
                     ? "Suites with the most failures first; all are in the gate's JSON. "
                       "Bars: 95 % intervals of one night."
                     : "Bars: 95 % intervals of one night.";
    (void)kva_figure_close(r, f, &tsv, &body);
}

enum kva_status kva_history_write(const struct kva_history *h, const char *dir,
                                  struct kva_error *err)
{
    struct kva_report r;
    enum kva_status rc;

    memset(&r, 0, sizeof r);
    kva_arena_init(&r.arena);
    kva_figure_history(&r, h);
    rc = r.nomem ? KVA_FAIL(err, KVA_ENOMEM, "history: out of memory")
                 : kva_report_figures(&r, dir, err);
    kva_arena_release(&r.arena);
    return rc;
}
