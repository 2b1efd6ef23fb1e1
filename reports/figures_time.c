/* SPDX-License-Identifier: GPL-3.0-or-later */
/* figures_time.c - time to the first token and time of a token against the context (F3):
 * median and quartiles of what times.c gathers, one figure a model. */
#include "reports/figures.h"

#include <math.h>
#include <string.h>

/* Rows of one (method, budget) of a model: a line. Returns its points. */
static int line(const struct kva_time *t, int n, int at, bool *done, struct kva_buf *tsv)
{
    int points = 0;

    for (int i = at; i < n; i++) {
        if (done[i] || strcmp(t[i].model, t[at].model) != 0 ||
            strcmp(t[i].spec, t[at].spec) != 0 || t[i].budget != t[at].budget ||
            strcmp(t[i].schedule, t[at].schedule) != 0)
            continue;
        done[i] = true;
        kva_buf_printf(tsv, "%d\t%.6g\t%.6g\t%.6g\t%.6g\t%.6g\t%.6g\t%s\t%s\n", t[i].ctx,
                       t[i].ttft.mid / 1e3, t[i].ttft.lo / 1e3, t[i].ttft.hi / 1e3,
                       t[i].step.mid / 1e3, t[i].step.lo / 1e3, t[i].step.hi / 1e3,
                       t[i].name, t[i].budget_text);
        points++;
    }
    return points;
}

static void panel(const struct kva_figure *f, const char *what, int col, bool key,
                  const double range[2], struct kva_buf *out)
{
    kva_buf_printf(out,
                   "set ylabel '%s, seconds (log scale)'\n"
                   "set yrange [%.6g:%.6g]\n",
                   what, range[0] / 1.5, range[1] * 1.5);
    kva_buf_puts(out, key ? "set key outside bottom center horizontal maxcols 2 reverse "
                            "Left samplen 1.5 font ',10'\n"
                          : "unset key\n");
    for (int i = 0; i < f->n_series; i++) {
        kva_buf_printf(out,
                       "%s'%s.tsv' index %d using 1:%d:%d:%d with yerrorlines pt %d ps "
                       "0.8 lw 1.4 dt %d lc rgb '%s' title ",
                       i ? ", \\\n  " : "plot ", f->id, i, col, col + 1, col + 2,
                       kva_fig_mark[i % 7], 1 + i / 8 % 4, kva_fig_colour[i % 8]);
        kva_gp_quote(out, f->series[i]);
    }
    kva_buf_putc(out, '\n');
}

/* fmin and fmax pass over what is not a number. */
static void widen(const struct kva_quartiles *q, double range[2])
{
    range[0] = fmin(range[0], q->lo / 1e3);
    range[1] = fmax(range[1], q->hi / 1e3);
}

static void model_figure(struct kva_report *r, const struct kva_time *t, int n,
                         bool *done, int at)
{
    const char *slug = kva_report_slug(&r->arena, t[at].model);
    struct kva_figure *f =
        kva_figure_add(r, KVA_FIG_TIME, kva_arena_printf(&r->arena, "time-%s", slug),
                       kva_arena_printf(&r->arena, "Times by context: %s", t[at].model));
    const char **series = kva_arena_alloc(&r->arena, (size_t)n + 1, sizeof *series);
    struct kva_buf tsv, body;
    double lo = t[at].ctx, hi = t[at].ctx, ttft[2] = {1e9, 1e-9}, step[2] = {1e9, 1e-9};

    if (!f || !series || !f->id || !f->title) {
        r->nomem = true;
        return;
    }
    f->series = series;
    kva_buf_init(&tsv, 0);
    kva_buf_init(&body, 0);
    kva_buf_puts(&tsv, "# ctx\tttft_s\tq1\tq3\tstep_s\tq1\tq3\tmethod\tkeep\n");
    for (int i = at; i < n; i++) {
        if (strcmp(t[i].model, t[at].model) != 0)
            continue;
        lo = fmin(lo, t[i].ctx);
        hi = fmax(hi, t[i].ctx);
        widen(&t[i].ttft, ttft);
        widen(&t[i].step, step);
        if (done[i])
            continue;
        kva_buf_puts(&tsv, f->n_series ? "\n\n" : "");
        f->n_points += line(t, n, i, done, &tsv);
        series[f->n_series++] =
            kva_arena_printf(&r->arena, "%s %s", t[i].name, t[i].budget_text);
        r->nomem |= !series[f->n_series - 1];
    }
    f->height = 440 + 9 * f->n_series;
    kva_gp_axes(&body);
    kva_gp_log2_tics(&body, fmax(lo, 1) / 1.2, fmax(hi, 1) * 1.2, 1);
    kva_buf_puts(&body, "set logscale y 10\nset xlabel 'context, tokens (log scale)'\n"
                        "set errorbars small\n");
    (void)kva_gp_panels(&body, 2, 2, 440);
    if (!r->nomem) {
        panel(f, "time to first token", 2, true, ttft, &body);
        panel(f, "time of a token", 5, true, step, &body);
    }
    kva_buf_puts(&body, "unset multiplot\n");
    f->caption =
        "Medians and quartiles of cells that ran alone and of repetitions in one "
        "sitting. The first token waits for scoring and eviction too.";
    (void)kva_figure_close(r, f, &tsv, &body);
}

void kva_figure_time(struct kva_report *r, const struct kva_data *d,
                     const struct kva_cells *c, const struct kva_board *none)
{
    struct kva_time *t;
    int n = kva_times_of(r, d, c, &t);
    bool *done = kva_arena_alloc(&r->arena, (size_t)n + 1, sizeof *done);

    (void)none;
    r->nomem |= !done;
    for (int i = 0; i < n && !r->nomem; i++)
        if (!done[i])
            model_figure(r, t, n, done, i);
}
