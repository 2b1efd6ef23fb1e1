/* SPDX-License-Identifier: GPL-3.0-or-later */
/* figures.h - sizes, fonts and colours of all figures. */
#ifndef KVA_REPORTS_FIGURES_H
#define KVA_REPORTS_FIGURES_H

#include "reports/internal.h"

#define KVA_FIG_WIDTH  960
#define KVA_FIG_HEIGHT 540
#define KVA_FIG_FONT   "DejaVu Sans"
#define KVA_FIG_PANELS 24 /* one a method: more help nobody and make a heavy page */

/* After Okabe and Ito, told apart with every colour vision: orange, sky blue and purple
 * are darker than theirs, so that every colour has a contrast of 3 on the page's light
 * and dark surfaces alike; one SVG serves both. More series repeat them with other marks.
 */
#define KVA_FIG_ALLOC "#0072B2"
#define KVA_FIG_META  "#B57B00"
#define KVA_FIG_PEAK  "#D55E00"
#define KVA_FIG_LINE  "#888888" /* references: full cache, holes */
extern const char *const kva_fig_colour[8];
extern const int kva_fig_mark[7];

/* A string as gnuplot's single-quoted constant. */
void kva_gp_quote(struct kva_buf *out, const char *s);
/* The same for a tic label, which gnuplot reads as a format: % is doubled. */
void kva_gp_quote_tic(struct kva_buf *out, const char *s);
/* Both terminals around the same body: ID.svg and ID.png (twice the size). */
const char *kva_gp_script(struct kva_arena *a, const char *id, int width, int height,
                          const char *body);
struct kva_figure *kva_figure_add(struct kva_report *r, enum kva_figure_kind kind,
                                  const char *id, const char *title);
/* Both texts into the figure, buffers released; false: out of memory, said in r. */
bool kva_figure_close(struct kva_report *r, struct kva_figure *f, struct kva_buf *tsv,
                      struct kva_buf *body);

/* Method names of a board in order of name, each once, into `name` (n_arm of them); how
 * many. */
int kva_fig_methods(const struct kva_board *b, const char **name);
/* The same, but when there are more than KVA_FIG_PANELS only so many: those that stand
 * first in the leaderboard. *all (may be NULL): how many there are. */
int kva_fig_leaders(const struct kva_board *b, const char **name, int *all);
/* "24 of 46 methods ..." for the caption; "" when all are shown. */
const char *kva_fig_shown(struct kva_report *r, int shown, int all);
/* Starts a multiplot of n panels, at most `most` beside each other, each `height` high;
 * returns the height of the figure. */
int kva_gp_panels(struct kva_buf *out, int n, int most, int height);
/* The unit that suits `most` bytes, and how many bytes it has. */
const char *kva_fig_bytes(double most, double *div);
/* Axes that all plots of points and lines share. */
void kva_gp_axes(struct kva_buf *out);
/* A horizontal axis in powers of two, labelled with scale times the value. */
void kva_gp_log2_tics(struct kva_buf *out, double lo, double hi, double scale);

/* ---- heat.c: panels of coloured cells ---- */
struct kva_heat {
    const char *title;
    const char **x; /* labels of the n_x columns */
    int n_x, n_y;
    double *sum; /* [x * n_y + y]: the cell shows sum / n, from 0 to 1; n 0: a hole */
    int *n;
    bool *marked;
    const char **also; /* further fields of the data file, tabs between; NULL: none */
};
struct kva_heat_axes {
    const char *const *y; /* labels of the n_y rows, from the top */
    int n_y;
    const char *xlabel, *ylabel;
    bool numbers, marks; /* numbers in the cells, else a colour bar; dots where marked */
    bool beside;         /* all panels in one row that names y once, as high as y needs */
    const char *also;    /* names of the further fields; NULL: none */
};
bool kva_heat_init(struct kva_report *r, struct kva_heat *p, const char *title, int n_x,
                   int n_y);
/* Fewest and most values of a cell that has any. */
void kva_heat_counts(const struct kva_heat *p, int n, int *lo, int *hi);
void kva_heat_figure(struct kva_report *r, enum kva_figure_kind kind, const char *id,
                     const char *title, const struct kva_heat *p, int n,
                     const struct kva_heat_axes *axes, const char *caption);
/* Viridis at 0..1 as 0xRRGGBB, and black or white, whichever reads better on it. */
unsigned kva_viridis(double v);
unsigned kva_ink_on(unsigned rgb);

/* ---- figures_list.c: the list of all figures ---- */
enum kva_figure_of {
    KVA_FIG_OF_REPORT,
    KVA_FIG_OF_RANKED,
    KVA_FIG_OF_BOARD,
    KVA_FIG_OF_TASK
};
/* Adds its figures with kva_figure_add, none when there are no data; b is NULL for a
 * figure of the whole report. Out of memory: r->nomem. */
typedef void kva_figure_builder(struct kva_report *r, const struct kva_data *d,
                                const struct kva_cells *c, const struct kva_board *b);
struct kva_figure_source {
    const char *no, *what; /* "F1", in words */
    enum kva_figure_of of;
    kva_figure_builder *build;
    const char *wants; /* what to run to get its data; NULL: say nothing */
};
kva_figure_builder kva_figure_retention; /* _retention.c */
kva_figure_builder kva_figure_pareto;    /* _pareto.c */
kva_figure_builder kva_figure_time;      /* _time.c */
kva_figure_builder kva_figure_loss;      /* _loss.c */
kva_figure_builder kva_figure_memory;    /* _memory.c */
kva_figure_builder kva_figure_depth;     /* heatmap.c */
kva_figure_builder kva_figure_grid;      /* grid.c */
kva_figure_builder kva_figure_survival, kva_figure_heads,
    kva_figure_kept;                 /* _survival.c */
kva_figure_builder kva_figure_pairs; /* _pairs.c */
kva_figure_builder kva_figure_audit; /* _audit.c */

#endif
