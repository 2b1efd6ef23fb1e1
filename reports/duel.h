/* SPDX-License-Identifier: GPL-3.0-or-later */
/* duel.h - cells against cells: which meet, how each meeting ends, and the tally of all
 * (reports.md 4.4, 4.5).
 *
 * A duel is one cell of A against one cell of B on the samples both have. Everything is
 * "higher is better", A - B. Used by `compare` (two selections) and by the view `pairs`
 * (two methods of one database). */
#ifndef KVA_REPORTS_DUEL_H
#define KVA_REPORTS_DUEL_H

#include "reports/compare.h"
#include "reports/internal.h"

struct kva_duel {
    int a, b;                 /* cells; b = -1: none of B's holds as many bytes */
    double bytes_a, bytes_b;  /* mean cost, see kva_cell_cost; NaN: not known */
    int n;                    /* samples in common */
    int better, equal, worse; /* of them, where A is */
    double mean_a, mean_b;
    struct kva_boot boot; /* diff, diff_ci, mde */
    double p, p_adj;
    double noise;     /* floor of the task's score, 0 when not measured */
    bool noise_known; /* repetitions of the full cache measured it */
    bool valid;
    const char *why;             /* of an invalid one */
    enum kva_verdict verdict[3]; /* by enum kva_tie_mode */
};
struct kva_duels {
    struct kva_duel *v; /* sorted by task, budget, the rest of A's identity */
    int n;
    int *lone[2]; /* cells of each side without a partner */
    int n_lone[2];
};
/* What a comparison is made by. */
struct kva_duel_rules {
    unsigned free;            /* enum kva_compare_key: in these a pair may differ */
    enum kva_measure measure; /* SCORE or NATS */
    double epsilon, alpha;
    uint64_t seed;
    int replicates; /* of flips and bootstrap */
    bool quick;     /* no interval of single duels, no numbers in `why`: then judging does
                     * not touch the report, and threads may share it */
};

/* Mean bytes a cell costs: kv_alloc_bytes of its outcomes; the bytes of the full cache
 * for dense and for a cell that masks what it claims to evict. NaN: not stored. */
double kva_cell_cost(const struct kva_data *d, const struct kva_cells *c, int cell);

/* Pairs the cells of a with those of b. Nominal: they agree in every key that is not
 * free; dense and blind serve every budget, schedule, enforcement and visibility. A key
 * that is free prefers a partner that agrees in it. Bytes: as nominal but for the budget:
 * each cell of a meets the one of b that costs most, but not more than itself, and not
 * less than 98 % of it; b = -1 when there is none.
 * KVA_EINVALID when a cell would have several partners. Release in any case. */
enum kva_status kva_duels_pair(const struct kva_data *d, const struct kva_cells *c,
                               const int *a, int na, const int *b, int nb, unsigned free,
                               bool bytes, struct kva_duels *out, struct kva_error *err);
void kva_duels_release(struct kva_duels *u);
/* Fills what the samples say; the verdicts with p adjusted over all of u. */
enum kva_status kva_duels_judge(struct kva_report *r, const struct kva_data *d,
                                const struct kva_cells *c, struct kva_duels *u,
                                const struct kva_duel_rules *rules,
                                struct kva_error *err);

/* Counts of one tie mode, win + tie + loss + invalid = n. */
struct kva_tally {
    int n, win, tie, loss, invalid;
    double p_sign;        /* of win against loss */
    int strata, units;    /* tasks of models; samples in them */
    struct kva_boot boot; /* mean difference over the strata. A sample that takes part
                           * at several budgets is one unit */
    double p;             /* of the mean difference */
};
/* KVA_ENO when the parts do not add up, and then there is no tally. */
enum kva_status kva_tally_count(const struct kva_duels *u, enum kva_tie_mode mode,
                                struct kva_tally *t, struct kva_error *err);
/* Mean difference, its interval, p and smallest effect over the valid duels among
 * at[0..n) (NULL: all); counts stay untouched. */
enum kva_status kva_tally_mean(const struct kva_data *d, const struct kva_cells *c,
                               const struct kva_duels *u, const int *at, int n,
                               const struct kva_duel_rules *rules, struct kva_tally *t,
                               struct kva_error *err);

/* ---- wtl.c, figures_pairs.c: every method against a reference (T-WTL, F7) ---- */
struct kva_wtl { /* in the report's arena */
    const char *method, *reference;
    bool bytes;
    bool same;                 /* bytes: the same cells meet as at nominal budgets */
    struct kva_tally tally[3]; /* by enum kva_tie_mode */
};
enum kva_status kva_wtl_table(struct kva_report *r, const struct kva_data *d,
                              const struct kva_cells *c, struct kva_error *err);
extern const char *const kva_tie_names[4];     /* "exact", "epsilon", "stat", NULL */
extern const char *const kva_verdict_names[4]; /* "win", "tie", "loss", "invalid" */

#endif
