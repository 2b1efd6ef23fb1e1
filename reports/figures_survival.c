/* SPDX-License-Identifier: GPL-3.0-or-later */
/* figures_survival.c - evidence, payload, distractors and the worked example against the
 * share kept; survival of the payload per layer and KV head (F5).
 *
 * Both are means of task means. Tasks in repeated text are drawn apart from the others:
 * what their distractors say stands all around them (tasks-ruler.md 8.4). */
#include "reports/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const SERIES[KVA_SPAN_KINDS] = {"evidence", "payload", "distractor",
                                                   "example"};

/* Mean of task means of one arm over the tasks of one sort; n: tasks. */
struct point {
    double rho, y[KVA_SPAN_KINDS];
    int n_rho, n[KVA_SPAN_KINDS];
};

static bool is_noise(const struct kva_cells *c, const struct kva_board *b, int t)
{
    return strcmp(c->protocol[b->task[t]].haystack, "noise") == 0;
}

static void point_of(struct kva_report *r, const struct kva_data *d,
                     const struct kva_cells *c, const struct kva_board *b,
                     const struct kva_arm *a, bool noise, struct point *p)
{
    memset(p, 0, sizeof *p);
    for (int t = 0; t < b->n_task; t++) {
        struct kva_survival s;

        if (a->cell[t] < 0 || is_noise(c, b, t) != noise)
            continue;
        if (!kva_survival_of(d, c, a->cell[t], &s)) {
            r->nomem = true;
            return;
        }
        if (s.n == 0 || isnan(s.rho))
            continue;
        p->rho += s.rho;
        p->n_rho++;
        for (int k = 0; k < KVA_SPAN_KINDS; k++) {
            double v = k == KVA_SPAN_E   ? s.e
                       : k == KVA_SPAN_P ? s.p
                       : k == KVA_SPAN_D ? s.d
                                         : s.x;

            if (isnan(v))
                continue;
            p->y[k] += v;
            p->n[k]++;
        }
    }
}

/* The curves of one method: rows of data, and what plots them. */
static int method_curves(struct kva_report *r, const struct kva_data *d,
                         const struct kva_cells *c, const struct kva_board *b,
                         const char *name, bool noise, const char *id, int *index,
                         bool *seen, struct kva_buf *tsv, struct kva_buf *plot)
{
    struct point *pt = kva_calloc((size_t)b->n_arm + 1, sizeof *pt);
    int n = 0, drawn = 0;

    for (int k = 0; pt && k < b->n_arm; k++)
        if (b->arm[k].role == KVA_ARM_METHOD && strcmp(b->arm[k].name, name) == 0) {
            point_of(r, d, c, b, &b->arm[k], noise, &pt[n]);
            n += pt[n].n_rho > 0;
        }
    r->nomem |= !pt;
    for (int s = 0; s < KVA_SPAN_KINDS && n; s++) {
        int rows = 0;

        for (int i = 0; i < n; i++)
            rows += pt[i].n[s] > 0;
        if (rows == 0)
            continue;
        if (*index)
            kva_buf_puts(tsv, "\n\n");
        for (int i = 0; i < n; i++)
            if (pt[i].n[s])
                kva_buf_printf(tsv, "%.4f\t%.4f\t%s\t%s\n", 100 * pt[i].rho / pt[i].n_rho,
                               100 * pt[i].y[s] / pt[i].n[s], SERIES[s], name);
        kva_buf_printf(
            plot,
            ", \\\n  '%s.tsv' index %d using 1:2 with linespoints pt %d ps 0.8 "
            "lw 1.6 lc rgb '%s' notitle",
            id, (*index)++, kva_fig_mark[s], kva_fig_colour[s]);
        seen[s] = true;
        drawn += rows;
    }
    free(pt);
    return drawn;
}

/* What the curves mean has a panel of its own: no corner of the others is free. */
static void key_panel(const bool *seen, struct kva_buf *out)
{
    kva_buf_puts(out,
                 "set title ' '\nunset border\nunset tics\nunset xlabel\nunset ylabel\n"
                 "set key center center reverse Left samplen 2 spacing 1.4\n"
                 "plot NaN with lines lc rgb '" KVA_FIG_LINE
                 "' dt 2 lw 0.8 title 'all entries'");
    for (int k = 0; k < KVA_SPAN_KINDS; k++)
        if (seen[k])
            kva_buf_printf(out,
                           ", \\\n  NaN with linespoints pt %d ps 0.8 lw 1.6 lc rgb '%s' "
                           "title '%s'",
                           kva_fig_mark[k], kva_fig_colour[k], SERIES[k]);
    kva_buf_putc(out, '\n');
}

static void survival_body(int panels, const bool *seen, const struct kva_buf *each,
                          struct kva_buf *body, int *height)
{
    kva_gp_axes(body);
    kva_buf_puts(body, "set xrange [0:100]\nset yrange [0:102]\nset samples 2\n"
                       "set xtics 25\nset ytics 25\nunset key\n"
                       "set xlabel 'entries kept, %'\nset ylabel 'still held, %'\n");
    if (panels >= 8)
        kva_buf_puts(body, "set tics font ',10'\nset xlabel font ',10'\n"
                           "set ylabel font ',10'\nset title font ',11'\n");
    *height = kva_gp_panels(body, panels + 1, panels < 8 ? 3 : 4, panels < 8 ? 300 : 240);
    kva_buf_add(body, each->data ? each->data : "", each->len);
    key_panel(seen, body);
    kva_buf_puts(body, "unset multiplot\n");
    body->failed |= each->failed;
}

static void survival_figure(struct kva_report *r, const struct kva_data *d,
                            const struct kva_cells *c, const struct kva_board *b,
                            bool noise)
{
    const char *id =
        kva_arena_printf(&r->arena, "survival-%s%s", b->slug, noise ? "-noise" : "");
    const char **name = kva_arena_alloc(&r->arena, (size_t)b->n_arm + 1, sizeof *name);
    struct kva_buf tsv, each, body;
    struct kva_figure *f;
    int n, all = 0, index = 0, panels = 0, points = 0;
    bool seen[KVA_SPAN_KINDS] = {0};

    if (!id || !name) {
        r->nomem = true;
        return;
    }
    kva_buf_init(&tsv, 0);
    kva_buf_init(&each, 0);
    kva_buf_init(&body, 0);
    n = kva_fig_leaders(b, name, &all);
    kva_buf_puts(&tsv, "# kept_pct\tsurvival_pct\tspan\tmethod\n");
    for (int i = 0; i < n; i++) {
        struct kva_buf plot;
        int drawn;

        kva_buf_init(&plot, 0);
        drawn = method_curves(r, d, c, b, name[i], noise, id, &index, seen, &tsv, &plot);
        if (drawn) {
            kva_buf_puts(&each, "set title ");
            kva_gp_quote(&each, name[i]);
            kva_buf_putc(&each, '\n');
            kva_buf_puts(&each, "plot x with lines lc rgb '" KVA_FIG_LINE
                                "' dt 2 lw 0.8 notitle");
            kva_buf_add(&each, plot.data ? plot.data : "", plot.len);
            kva_buf_putc(&each, '\n');
            name[panels++] = name[i];
            points += drawn;
        }
        each.failed |= plot.failed;
        kva_buf_release(&plot);
    }
    if (panels && (f = kva_figure_add(r, KVA_FIG_SURVIVAL, id,
                                      kva_arena_printf(&r->arena, "E/D survival%s: %s",
                                                       noise ? " in repeated text" : "",
                                                       b->title)))) {
        f->series = name;
        f->n_series = panels;
        f->n_points = points;
        f->caption = kva_arena_printf(
            &r->arena,
            "Tokens still held of the evidence that is asked for, of its payload, of "
            "distractors matched in length and place, and of the worked example, mean "
            "over layers, KV heads, samples and tasks. On the dashed line a method keeps "
            "no more of them than of everything.%s",
            kva_fig_shown(r, n, all));
        survival_body(panels, seen, &each, &body, &f->height);
        kva_buf_release(&each);
        r->nomem |= !f->title || !f->caption;
        (void)kva_figure_close(r, f, &tsv, &body);
        return;
    }
    kva_buf_release(&tsv);
    kva_buf_release(&each);
    kva_buf_release(&body);
}

void kva_figure_survival(struct kva_report *r, const struct kva_data *d,
                         const struct kva_cells *c, const struct kva_board *b)
{
    survival_figure(r, d, c, b, false);
    survival_figure(r, d, c, b, true);
}

/* ---- per layer and head ---- */

static const struct kva_data_heads *heads_of(const struct kva_data *d, int cell)
{
    int lo = 0, hi = d->n_heads;

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;

        if (d->heads[mid].cell < cell)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < d->n_heads && d->heads[lo].cell == cell ? &d->heads[lo] : NULL;
}

static double head_mean(const struct kva_data_heads *h, int kind, int layer, int head)
{
    int at = (kind * h->n_layer + layer) * h->n_kv_head + head;

    return h->n[kind] ? (double)h->sum[at] / 4294967296.0 / h->n[kind] : (double)NAN;
}

/* Mean survival of the arm's payload (evidence where a task has none). */
static double arm_survival(const struct kva_data *d, const struct kva_cells *c,
                           const struct kva_board *b, const struct kva_arm *a,
                           bool *out_of_memory)
{
    double sum = 0;
    int n = 0;

    for (int t = 0; t < b->n_task; t++) {
        struct kva_survival s;

        if (a->cell[t] < 0)
            continue;
        if (!kva_survival_of(d, c, a->cell[t], &s)) {
            *out_of_memory = true;
            return (double)NAN;
        }
        if (s.n) {
            sum += s.n_p ? s.p : s.e;
            n++;
        }
    }
    return n ? sum / n : (double)NAN;
}

/* Mean share of all entries that the arm's heads hold, over traced samples. */
static double arm_kept(const struct kva_data *d, const struct kva_board *b,
                       const struct kva_arm *a)
{
    double sum = 0;
    int n = 0;

    for (int t = 0; t < b->n_task; t++) {
        const struct kva_data_heads *h = a->cell[t] < 0 ? NULL : heads_of(d, a->cell[t]);

        for (int l = 0; h && h->n[KVA_HEAD_ALL] && l < h->n_layer; l++)
            for (int i = 0; i < h->n_kv_head; i++) {
                sum += head_mean(h, KVA_HEAD_ALL, l, i);
                n++;
            }
    }
    return n ? sum / n : (double)NAN;
}

/* The budget whose methods differ most plainly: mean value nearest to one half. */
static int chosen_budget(struct kva_report *r, const struct kva_data *d,
                         const struct kva_cells *c, const struct kva_board *b, bool all)
{
    double best = 2;
    int at = -1;

    for (int k = 0; k < b->n_arm; k++) {
        double sum = 0;
        int n = 0;

        if (b->arm[k].role != KVA_ARM_METHOD ||
            (k > 0 && kva_same_budget(&b->arm[k - 1], &b->arm[k])))
            continue;
        for (int m = k; m < b->n_arm && kva_same_budget(&b->arm[m], &b->arm[k]); m++) {
            double v = all ? arm_kept(d, b, &b->arm[m])
                           : arm_survival(d, c, b, &b->arm[m], &r->nomem);

            if (!isnan(v)) {
                sum += v;
                n++;
            }
        }
        if (n && fabs(sum / n - 0.5) < best) {
            best = fabs(sum / n - 0.5);
            at = k;
        }
    }
    return at;
}

/* What a panel shows of a task: all entries, or payload, or evidence; -1: nothing. */
static int shown_kind(const struct kva_data_heads *h, bool all)
{
    int kind = all ? KVA_HEAD_ALL : h->n[KVA_SPAN_P] ? KVA_SPAN_P : KVA_SPAN_E;

    return h->n[kind] ? kind : -1;
}

static bool head_panel(struct kva_report *r, const struct kva_data *d,
                       const struct kva_board *b, const struct kva_arm *a, bool all,
                       int layers, int heads, struct kva_heat *p)
{
    double total = 0;
    int n = 0;

    if (!kva_heat_init(r, p, a->name, heads, layers))
        return false;
    for (int x = 0; x < heads; x++)
        for (int y = 0; y < layers; y++) {
            double part[3] = {0};
            int m[3] = {0}, at = x * layers + y;

            for (int t = 0; t < b->n_task; t++) {
                const struct kva_data_heads *h =
                    a->cell[t] < 0 ? NULL : heads_of(d, a->cell[t]);

                if (!h || h->n_layer != layers || h->n_kv_head != heads)
                    continue;
                for (int k = 0; k < 3; k++)
                    if (h->n[k]) {
                        part[k] += head_mean(h, k, y, x);
                        m[k]++;
                    }
                if (shown_kind(h, all) >= 0) {
                    p->sum[at] += head_mean(h, shown_kind(h, all), y, x);
                    p->n[at]++;
                }
            }
            if (!all)
                p->also[at] = kva_arena_printf(&r->arena, "%.4f\t%.4f\t%.4f",
                                               m[0] ? part[0] / m[0] : (double)NAN,
                                               m[1] ? part[1] / m[1] : (double)NAN,
                                               m[2] ? part[2] / m[2] : (double)NAN);
            if (p->n[at]) {
                total += p->sum[at] / p->n[at];
                n++;
            }
        }
    for (int x = 0; x < heads; x++)
        p->x[x] = kva_arena_printf(&r->arena, "%d", x);
    if (n)
        p->title = kva_arena_printf(&r->arena, "%s (%.1f %%)", a->name, 100 * total / n);
    r->nomem |= !p->title;
    return n > 0;
}

static void map_of_heads(struct kva_report *r, const struct kva_data *d,
                         const struct kva_cells *c, const struct kva_board *b, bool whole)
{
    int k = chosen_budget(r, d, c, b, whole), layers = 0, heads = 0, n = 0, all = 0;
    struct kva_heat_axes axes = {.xlabel = "KV head",
                                 .ylabel = "layer",
                                 .also = whole ? NULL : "surv_E\tsurv_payload\tsurv_D"};
    struct kva_heat *p;
    const char **y;

    if (k < 0 || r->nomem)
        return;
    for (int m = k; m < b->n_arm && !layers && kva_same_budget(&b->arm[m], &b->arm[k]);
         m++)
        for (int t = 0; t < b->n_task && !layers; t++) {
            const struct kva_data_heads *h =
                b->arm[m].cell[t] < 0 ? NULL : heads_of(d, b->arm[m].cell[t]);

            layers = h ? h->n_layer : 0;
            heads = h ? h->n_kv_head : 0;
        }
    p = kva_arena_alloc(&r->arena, (size_t)b->n_arm + 1, sizeof *p);
    y = kva_arena_alloc(&r->arena, (size_t)layers + 1, sizeof *y);
    if (!p || !y) {
        r->nomem = true;
        return;
    }
    for (int i = 0; i < layers; i++)
        if (!(y[i] = kva_arena_printf(&r->arena, "%d", i)))
            r->nomem = true;
    axes.y = y;
    axes.n_y = layers;
    axes.numbers = layers <= 12 && heads <= 8;
    for (int m = k;
         layers && m < b->n_arm && !r->nomem && kva_same_budget(&b->arm[m], &b->arm[k]);
         m++) {
        all += b->arm[m].ok > 0;
        if (n < KVA_FIG_PANELS)
            n += head_panel(r, d, b, &b->arm[m], whole, layers, heads, &p[n]);
    }
    if (n && !r->nomem)
        kva_heat_figure(
            r, KVA_FIG_HEADS,
            kva_arena_printf(&r->arena, "%s-%s", whole ? "kept" : "heads", b->slug),
            kva_arena_printf(&r->arena, "%s per head at keep %s: %s",
                             whole ? "Entries kept" : "Payload survival",
                             b->arm[k].budget_text, b->title),
            p, n, &axes,
            kva_arena_printf(
                &r->arena,
                "%s, one colour scale for all panels, the mean beside the name. The "
                "budget shown is the one whose mean is nearest to one half.%s",
                whole ? "Share of all entries that each KV head still holds after "
                        "eviction, mean of task means over the traced samples"
                      : "Share of the payload's tokens (of the evidence where a task "
                        "names no payload) that each KV head still holds, mean of task "
                        "means",
                n < KVA_FIG_PANELS ? "" : kva_fig_shown(r, n, all)));
}

void kva_figure_heads(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c, const struct kva_board *b)
{
    map_of_heads(r, d, c, b, false);
}

void kva_figure_kept(struct kva_report *r, const struct kva_data *d,
                     const struct kva_cells *c, const struct kva_board *b)
{
    map_of_heads(r, d, c, b, true);
}
