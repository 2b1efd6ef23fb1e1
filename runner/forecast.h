/* SPDX-License-Identifier: GPL-3.0-or-later */
/* forecast.h - what a dry run says about work that was not done yet (reports.md 8.3). */
#ifndef KVA_FORECAST_H
#define KVA_FORECAST_H

#include "runner/misfit.h"

/* Least squares of t = a n_ctx + b n_ctx^2 + c n_gen with no negative coefficient; ns a
 * token. A term that would be negative, or that the rows cannot tell apart, is left out:
 * first b, then c. */
struct kva_time_fit {
    double a, b, c;
    int n; /* rows it stands on; 0: nothing is known */
};
void kva_time_fit(const struct kva_db_time *rows, size_t n, struct kva_time_fit *fit);
double kva_time_fit_ns(const struct kva_time_fit *fit, double n_ctx, double n_gen);

struct kva_forecast_cell {
    double peak_bytes; /* weights, the dense cache at prefill, scratch */
    double discordant; /* share of samples whose score differs from the full cache's; in
                        * earlier runs of the task on this model, 0.10 without any */
    int64_t pairs;     /* samples that share stands on, 0: assumed */
    int contexts;      /* that its samples ask about: the units of a comparison */
    double mde;        /* against the full cache; NaN: nothing can be shown */
};
struct kva_forecast {
    double seconds; /* of one worker; NaN: unknown */
    bool *probed;   /* [plan->n_models] the time of some of its units is by probes */
    double machine_bytes, disk_bytes;
    struct kva_forecast_cell *cell; /* [plan->n_cells] */
    struct kva_misfit *misfit;
    int n_misfit;
};
/* db: of earlier runs, NULL none. threads: as kva_plan_new. probe: where no earlier run
 * tells the time, two prompts are read and a few tokens answered; nothing of it is
 * stored. */
enum kva_status kva_forecast(const struct kva_plan *p, struct kva_db *db, int threads,
                             bool probe, struct kva_forecast *f, struct kva_error *err);
void kva_forecast_release(struct kva_forecast *f);

#endif
