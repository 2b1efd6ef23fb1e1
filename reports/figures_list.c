/* SPDX-License-Identifier: GPL-3.0-or-later */
/* figures_list.c - every figure, one line each, in the order of the page. */
#include "reports/figures.h"

#define LATER " (a later version)"

/* A figure is drawn once for the report, or for each board that ranks, or for each board
 * that has methods, or on request for each task of several; build is NULL while nothing
 * stores its data. `wants`: the command that makes its data, shown when there are none;
 * NULL: the figure is left out without a word. */
static const struct kva_figure_source LIST[] = {
    {"F1", "retention against budget", KVA_FIG_OF_RANKED, kva_figure_retention, NULL},
    {"F1", "retention against budget, task by task", KVA_FIG_OF_TASK,
     kva_figure_retention, NULL},
    {"F12", "score against bytes", KVA_FIG_OF_RANKED, kva_figure_pareto, NULL},
    {"F8", "loss of base and variant", KVA_FIG_OF_RANKED, kva_figure_loss, NULL},
    {"F2", "score by needle depth", KVA_FIG_OF_REPORT, kva_figure_depth, NULL},
    {"F2", "score by depth and length", KVA_FIG_OF_REPORT, kva_figure_grid, NULL},
    {"F5", "survival of evidence", KVA_FIG_OF_RANKED, kva_figure_survival, NULL},
    {"F5", "survival per head", KVA_FIG_OF_RANKED, kva_figure_heads, NULL},
    {"F5", "entries kept per head", KVA_FIG_OF_RANKED, kva_figure_kept,
     "kvaudit run SUITE --trace-kept N"},
    {"F7", "win, tie and loss", KVA_FIG_OF_REPORT, kva_figure_pairs, NULL},
    {"F3", "times against context", KVA_FIG_OF_REPORT, kva_figure_time,
     "kvaudit run SUITE with the suite key perf"},
    {"F4", "memory", KVA_FIG_OF_BOARD, kva_figure_memory, NULL},
    {"F4", "bytes of an audit", KVA_FIG_OF_REPORT, kva_figure_audit, NULL},
    {"F6", "perturbation per layer", KVA_FIG_OF_REPORT, NULL,
     "kvaudit analyze perturb" LATER},
    {"F9", "quadrants of keys and values", KVA_FIG_OF_REPORT, NULL,
     "kvaudit analyze geometry" LATER},
    {"T-GEO", "geometry of each model", KVA_FIG_OF_REPORT, NULL,
     "kvaudit analyze geometry" LATER},
    {"F10", "recall and allocation", KVA_FIG_OF_REPORT, NULL,
     "kvaudit analyze oracle" LATER},
    {"F11", "selection ceiling", KVA_FIG_OF_REPORT, NULL,
     "kvaudit analyze ceiling" LATER},
    {"T-CEIL", "gap closed by model and rows examined", KVA_FIG_OF_REPORT, NULL,
     "kvaudit analyze ceiling" LATER},
    {"F13", "scores over nights", KVA_FIG_OF_REPORT, NULL,
     "kvaudit compare --gate with --history and --figures"},
};

enum kva_status kva_figures_build(struct kva_report *r, const struct kva_data *d,
                                  const struct kva_cells *c, struct kva_error *err)
{
    for (size_t i = 0; i < sizeof LIST / sizeof LIST[0]; i++) {
        const struct kva_figure_source *s = &LIST[i];
        int before = r->n_figure;

        if (s->build && s->of == KVA_FIG_OF_REPORT)
            s->build(r, d, c, NULL);
        for (int k = 0; s->build && s->of != KVA_FIG_OF_REPORT && k < r->n_board; k++) {
            const struct kva_board *b = &r->board[k];

            if (b->single == (s->of == KVA_FIG_OF_TASK) && b->n_method &&
                (b->ranks || s->of == KVA_FIG_OF_BOARD) &&
                (!b->single || r->opts.by_task))
                s->build(r, d, c, b);
        }
        if (r->n_figure == before && s->wants)
            kva_list_add(r, &r->absent, &r->n_absent, &r->cap_absent,
                         "%s, %s: made by %s", s->no, s->what, s->wants);
    }
    if (r->nomem)
        return KVA_FAIL(err, KVA_ENOMEM, "report: figures: out of memory");
    return KVA_OK;
}
