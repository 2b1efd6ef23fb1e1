/* SPDX-License-Identifier: GPL-3.0-or-later */
/* internal.h - what the report files share: boards (numbers), tables (cells ready to be
 * rendered), figure data.
 *
 * Everything lives in the report's arena, strings already cleaned of control characters
 * and invalid UTF-8. After kva_report_build the loaded data is no longer needed. */
#ifndef KVA_REPORTS_INTERNAL_H
#define KVA_REPORTS_INTERNAL_H

#include "metrics/metric.h"
#include "reports/report.h"

/* ---- tables ---- */

enum kva_col_kind {
    KVA_COL_TEXT,
    KVA_COL_INT,
    KVA_COL_REAL,
    KVA_COL_PERCENT, /* stored 0..1, shown times 100 */
    KVA_COL_BYTES,   /* shown with the binary unit that fits */
    KVA_COL_P        /* probability */
};
enum { KVA_KEEP_DETAIL = 50 };
struct kva_col {
    const char *id, *label, *unit;
    enum kva_col_kind kind;
    int digits;     /* decimals when shown */
    bool interval;  /* cells carry lo and hi: exports add columns ID_lo and ID_hi */
    int keep;       /* narrow text output moves the largest below first; 0: never;
                     * from KVA_KEEP_DETAIL on text shows it when asked for details */
    bool text_only; /* left out of data exports: another column says it in raw form */
    const char *help;
};
struct kva_val {
    double v, lo, hi;  /* NaN: missing */
    const char *text;  /* shown instead of the number; TEXT: the value */
    const char *title; /* details: tooltip and `title` attribute; NULL: none */
    bool strong;
};
enum kva_row_role { KVA_ROW_PLAIN, KVA_ROW_REFERENCE, KVA_ROW_INCOMPLETE };
struct kva_row {
    struct kva_val *cell;
    enum kva_row_role role;
    bool group; /* first row of a group: a rule is drawn above it */
};
enum {
    KVA_VIEW_LEADERBOARD = 1,
    KVA_VIEW_TASKS = 2,
    KVA_VIEW_MEMORY = 4,
    KVA_VIEW_TIMING = 8,
    KVA_VIEW_COVERAGE = 16,
    KVA_VIEW_SURVIVAL = 64,
    KVA_VIEW_ANSWERS = 128,
    KVA_VIEW_GRID = 256, /* sample by sample: in exports, not on the page */
    KVA_VIEW_AUDIT = 512,
    KVA_VIEW_PAIRS = 2048, /* method against method */
    KVA_VIEW_NOISE = 1024,
    KVA_VIEW_PAPER = 4096,   /* published beside measured, a report of its own */
    KVA_VIEW_DEVICE = 16384, /* what a machine with a GPU measured, a report of its own */
    KVA_VIEW_RETENTION = 8192,
    KVA_VIEW_ABOUT = 32 /* methods and runs: under the leaderboard, in every page */
};
struct kva_tab {
    const char *id;      /* [a-z0-9-], unique */
    const char *heading; /* section the table belongs to */
    const char *caption;
    int view;
    const struct kva_col *col;
    int n_col;
    struct kva_row *row;
    int n_row, cap_row;
    const char **note;
    int n_note, cap_note;
    const char *model, *klass; /* filters of the page */
    const char *suites;        /* of its tasks, newlines between; "" */
};

/* ---- boards ---- */

enum kva_badge {
    KVA_BADGE_DENSE,
    KVA_BADGE_PHYSICAL,
    KVA_BADGE_UNVERIFIED,
    KVA_BADGE_MASKED,
    KVA_BADGE_OVER,
    KVA_BADGE_BROKEN,
    KVA_BADGE_NONE /* no outcome to judge */
};
enum kva_arm_role { KVA_ARM_METHOD, KVA_ARM_DENSE, KVA_ARM_BLIND };
enum kva_unranked {
    KVA_RANKED,
    KVA_UNRANKED_NO_DENSE,
    KVA_UNRANKED_AUDIT,
    KVA_UNRANKED_TRUNCATED,
    KVA_UNRANKED_FLOOR,
    KVA_UNRANKED_EMPTY,
    KVA_UNRANKED_SAMPLES,
    KVA_UNRANKED_N
};
extern const char *const kva_unranked_text[KVA_UNRANKED_N];

/* Mean scores of one cell's samples, ascending sample index. */
struct kva_obs {
    int sample;
    int n_ok;          /* reps that are ok */
    double score, nll; /* means over them; nll NaN: none */
};

/* One method at one budget on the tasks of a board. */
struct kva_arm {
    enum kva_arm_role role;
    const char *spec, *name; /* canonical, short */
    const char *budget_kind, *budget_text;
    double budget;
    int *cell; /* per task of the board: cell of the data, -1 none */

    int n_sample; /* with a score: several outcomes of a sample are one */
    int n_unit;   /* contexts of the samples behind the score, task by task */
    int n_scored; /* these samples */
    int expected, ok, truncated, failed;
    int fell_back; /* of ok: the allocator fell back to uniform shares */
    double score, effective, nll, length_stop;
    struct kva_interval score_ci;
    struct kva_boot boot; /* against dense */
    bool comparable;      /* with dense: 95 % of the planned samples */
    double p, p_adj;
    int n_pairs; /* samples compared with dense */
    /* Answer nats against dense on the scale of the blind run: ratio is the nats
     * retention (blind - arm)/(blind - dense), diff the nats gained over dense (negative:
     * lost). p of the paired sign flip of arm against dense. NaN: no blind run, a gap
     * blind - dense under 0.05, or under 95 % of the samples in common. */
    struct kva_boot nats;
    double nats_p, nats_p_adj;
    int nats_rank; /* as rank, by answer nats; 0: none */
    bool nats_tied;
    /* Pareto (reports.md 4.8): bytes held against score, complete rows and dense. front:
     * nobody holds as little and scores as much. dominated: some row that holds no more
     * scores significantly better; false for the others, front or not. */
    bool front, dominated;
    int rival;      /* the row that dominates this one, while computing; -1 none */
    double rival_p; /* of the difference to it */
    double alloc, meta, live, dense_bytes, peak, end, kept_share; /* means; NaN: none */
    double ttft_ms, prefill_ms, scoring_ms, evict_ms, question_ms, token_s, alone_peak;
    int n_alone;
    enum kva_badge badge;
    int audit; /* bits seen */
    int rank;  /* 0: none */
    bool tied;
    enum kva_unranked unranked;
};

struct kva_board {
    const char *model, *visibility, *schedule, *numerics, *kv, *enforce, *variant;
    const char *mark;     /* protocol of its tasks where it is not the default; "" */
    const char *sampling; /* how answers are drawn; "": greedy */
    bool oracle;
    bool ranks; /* physical and no oracle */
    int ctx;
    int model_index;
    int *task; /* indexes of data->tasks */
    int *lone; /* per task: the reference cell a board without methods was made from */
    const char **task_label;
    bool *below; /* below floor: out of the mean */
    bool *weak;  /* above the floor but dense scores under 60 */
    bool *used;  /* in the mean: not below, and not weak where others are not; all tasks
                  * when every one is below floor (n_used 0) */
    bool *no_dense;
    double *dense_score, *dense_lo, *floor, *blind_score;
    int n_task, n_used;
    struct kva_arm *arm; /* methods in display order, then dense and blind */
    int n_arm, n_method;
    int dense, blind; /* index in arm, -1 */
    bool single;      /* a view of one task of another board */
    double noise;     /* measured noise floor of the score (noise.c); 0: none */
    bool noise_known; /* the floor was measured */
    const char *title, *slug;
};

/* How a task's prompts are made; "" where its description says nothing. */
struct kva_protocol {
    const char *dialect, *profile, *haystack;
    const char *mark; /* what differs from the default, "r2025, official"; "": nothing */
    int max_new;      /* 0: not known */
};

struct kva_cells {                 /* per-cell observations, while building */
    struct kva_obs *obs;           /* all, cell after cell */
    int *first;                    /* n_cells + 1 */
    int *first_outcome;            /* n_cells + 1 */
    int *cluster;                  /* per sample: number of its source context */
    bool *task_clustered;          /* some context has several samples */
    const char **variant;          /* per cell: what else is in its identity */
    const char **rest;             /* the same but for its sampling */
    const char **label;            /* per task */
    struct kva_protocol *protocol; /* per task */
    const char **name;             /* per cell: short method name */
    bool *left_out;                /* by --only */
    int *dense, *blind;            /* per cell: reference cell or -1 */
    int n_left_out;
};

/* Numbers the source contexts of the samples, task by task, by their first sample; shared
 * [task]: some context has several (both preset to zero). */
enum kva_status kva_number_contexts(const struct kva_data *d, int *context, bool *shared,
                                    struct kva_error *err);

/* ---- figures ---- */

enum kva_figure_kind {
    KVA_FIG_RETENTION,
    KVA_FIG_DEPTH,
    KVA_FIG_MEMORY,
    KVA_FIG_SURVIVAL,
    KVA_FIG_HEADS,
    KVA_FIG_AUDIT,
    KVA_FIG_PARETO,
    KVA_FIG_TIME,
    KVA_FIG_LOSS,
    KVA_FIG_BUDGET,
    KVA_FIG_PAIRS,
    KVA_FIG_HISTORY
};
struct kva_figure {
    enum kva_figure_kind kind;
    const char *id, *title, *caption;
    const char *empty;      /* why there is nothing to draw; NULL: there is */
    const char *tsv, *gp;   /* contents of ID.tsv and ID.gp (without the terminal) */
    const char **series;    /* names that must appear */
    int n_series, n_points; /* drawn points, for the check against the TSV */
    int width, height;
};

struct kva_report {
    struct kva_arena arena;
    struct kva_report_opts opts; /* defaults filled in */
    int view;
    struct kva_board *board;
    int n_board;
    struct kva_tab *tab;
    int n_tab, cap_tab;
    struct kva_figure *figure;
    int n_figure;
    const char **absent; /* figures without data and what to run for them */
    int n_absent, cap_absent;
    const char *
        *summary; /* sentences; those that start with "At " belong to the one before */
    int n_summary, cap_summary;
    const char **footer;
    int n_footer, cap_footer;
    const char *title;
    const char *label; /* of the suites, "a, b" when runs differ; "" none */
    const char *limit; /* " (answers of at most 16 tokens)"; "" unknown */
    const char **labels;
    int n_label;
    char generated[32];        /* ISO 8601, UTC */
    const struct kva_wtl *wtl; /* duel.h: tallies of the view "pairs" */
    int n_wtl;
    const char *json_head; /* of a comparison: members before its tables */
    bool nomem;
};

/* ---- names.c ---- */
/* Valid UTF-8 without control characters (tab and newline become blanks), in the arena.
 */
const char *kva_report_clean(struct kva_arena *a, const char *s);
/* Short method names: parameters that all methods of the same parts share are left out,
 * as is the default allocator `uniform`. out[i] for spec[i]. */
enum kva_status kva_report_short_names(struct kva_arena *a, const char *const *spec,
                                       int n, const char **out, struct kva_error *err);
const char *kva_report_budget(struct kva_arena *a, const char *kind, double budget);
const char *kva_report_day(struct kva_arena *a, int64_t ms);     /* 2026-11-29, UTC */
const char *kva_report_slug(struct kva_arena *a, const char *s); /* [a-z0-9-] */
const char *kva_badge_text(enum kva_badge b);
/* The same of an arm; a blind one has a word of its own. */
const char *kva_arm_badge_text(const struct kva_arm *a, enum kva_badge b);

/* ---- cells.c: preparation ---- */
enum kva_status kva_cells_prepare(struct kva_report *r, const struct kva_data *d,
                                  struct kva_cells *c, struct kva_error *err);
void kva_cells_release(struct kva_cells *c);

/* ---- protocol.c ---- */
enum kva_status kva_protocols_read(struct kva_report *r, const struct kva_data *d,
                                   struct kva_cells *c, struct kva_error *err);
enum kva_status kva_task_labels(struct kva_report *r, const struct kva_data *d,
                                struct kva_cells *c, struct kva_error *err);
void kva_protocol_table(struct kva_report *r, const struct kva_data *d,
                        const struct kva_cells *c);
void kva_protocol_note(struct kva_report *r, struct kva_tab *t, const struct kva_cells *c,
                       int task);

/* ---- board.c, arm.c, rank.c ---- */
enum kva_status kva_boards_build(struct kva_report *r, const struct kva_data *d,
                                 const struct kva_cells *c, struct kva_error *err);
/* Audit verdict of one outcome (reports.md 5.2); *bits gathers the audit bits seen. */
enum kva_badge kva_badge_of(const struct kva_data_cell *c,
                            const struct kva_data_outcome *o, int *bits);
/* The worst of a cell's finished outcomes. */
enum kva_badge kva_badge_of_cell(const struct kva_data *d, const struct kva_cells *c,
                                 int cell);
/* Everything of one arm that needs no other method. `work` of kva_boards_compute. */
void kva_arm_measure(const struct kva_data *d, const struct kva_cells *c,
                     const struct kva_board *b, struct kva_arm *arm);
/* Bootstraps, tests and ranks of all boards, on all cores. */
enum kva_status kva_boards_compute(struct kva_report *r, const struct kva_data *d,
                                   const struct kva_cells *c, struct kva_error *err);

#define KVA_EPSILON 0.005 /* ties in mode epsilon, reports.md 4.5 */

/* ---- pairs.c: paired values of two rows, the measure of all tests ---- */
/* All "higher is better". */
enum kva_measure {
    KVA_MEASURE_SCORE, /* the task's metric, 0..1 */
    KVA_MEASURE_NATS,  /* -gold_nll */
    KVA_MEASURE_GAIN   /* gold_nll(blind) - gold_nll, over samples that blind has too */
};
/* Two rows as cells: x[t], y[t] and blind[t] are cells of task t, -1 none. blind is read
 * for GAIN only and may be NULL. Tasks with used[t] false are passed over. */
struct kva_pair_cells {
    const int *x, *y, *blind;
    const bool *used;
    const char *const *label;
    int n_task;
};
/* Strata = tasks, clusters = contexts; reps are averaged. Release what was made. */
struct kva_pairs {
    struct kva_stratum *s;
    double *values;
    int *clusters;
    int n_strata, n, n_discordant;
    enum kva_measure measure;
    bool valid;  /* 95 % of the planned samples of both are there */
    bool binary; /* one binary task, one sample a context, one rep */
    uint64_t only_a, only_b;
};
/* Samples planned for a cell: outcomes over repetitions or draws. first_outcome: per
 * cell of d. */
int kva_planned_samples(const struct kva_data *d, const int *first_outcome, int cell);
enum kva_status kva_pairs_of(const struct kva_data *d, const struct kva_cells *c,
                             const struct kva_pair_cells *in, enum kva_measure measure,
                             struct kva_pairs *out, struct kva_error *err);
/* Two arms of a board on its used tasks. */
enum kva_status kva_pairs_make(const struct kva_data *d, const struct kva_cells *c,
                               const struct kva_board *b, const struct kva_arm *x,
                               const struct kva_arm *y, enum kva_measure measure,
                               struct kva_pairs *out, struct kva_error *err);
void kva_pairs_release(struct kva_pairs *p);
/* Unweighted mean of the task means of a - b; NaN without a stratum. */
double kva_pairs_delta(const struct kva_pairs *p);
/* McNemar for one binary task of one rep, else the sign flip; NaN when not valid. */
double kva_pair_p(const struct kva_pairs *p, uint32_t seed, int flips);
uint32_t kva_pair_seed(const struct kva_data *d, const struct kva_board *b,
                       const struct kva_arm *x, const struct kva_arm *y, uint64_t seed);

/* ---- noise.c: noise floor (reports.md 4.6) ---- */
struct kva_noise {
    int reps, n; /* whole repetitions; samples of one */
    double flip, regen, s;
    double floor; /* 2 sqrt(2) s; 0 when not known */
    bool known;   /* at least 3 repetitions on one kind of machine */
};
/* Of the mean over the used tasks' dense cells (-1: none); of several kinds of machine
 * the one with the largest floor. first_outcome: per cell of d, as in kva_cells. */
enum kva_status kva_noise_of(const struct kva_data *d, const int *first_outcome,
                             const int *cell, const bool *used, int n_task,
                             struct kva_noise *out, struct kva_error *err);
enum kva_status kva_noise_table(struct kva_report *r, const struct kva_data *d,
                                const struct kva_cells *c, struct kva_error *err);

/* A report of tables that have no boards behind them (published numbers, a device). *out
 * may be set after a failure, too: free it. */
enum kva_status kva_report_start(const struct kva_report_opts *opts, const char *title,
                                 struct kva_report **out, struct kva_error *err);

/* ---- tables.c and views ---- */
enum kva_status kva_tables_build(struct kva_report *r, const struct kva_data *d,
                                 const struct kva_cells *c, struct kva_error *err);
struct kva_tab *kva_tab_add(struct kva_report *r, const char *id, int view,
                            const struct kva_col *col, int n_col);
struct kva_row *kva_tab_row(struct kva_report *r, struct kva_tab *t);
void kva_tab_note(struct kva_report *r, struct kva_tab *t, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void kva_list_add(struct kva_report *r, const char ***list, int *n, int *cap,
                  const char *fmt, ...) __attribute__((format(printf, 5, 6)));
struct kva_val kva_val_number(double v);
struct kva_val kva_val_text(const char *s);
struct kva_val kva_val_interval(double v, struct kva_interval ci);
/* The shown form of a cell, appended. */
void kva_val_format(const struct kva_col *c, const struct kva_val *v,
                    struct kva_buf *out);
int kva_view_of(const char *name); /* 0: unknown */
const char *kva_view_name(int view);
/* Has a row a value in this column? A column without any is left out of text and page. */
bool kva_tab_has(const struct kva_tab *t, int col);
/* Suites of a board's tasks, newlines between. */
const char *kva_board_suites(struct kva_report *r, const struct kva_board *b);
bool kva_tab_shown(const struct kva_report *r, const struct kva_tab *t);
enum kva_status kva_views_build(struct kva_report *r, const struct kva_data *d,
                                const struct kva_cells *c, struct kva_error *err);
void kva_report_time(struct kva_report *r, const struct kva_data *d); /* d NULL: none */
enum kva_status kva_about_build(struct kva_report *r, const struct kva_data *d,
                                const struct kva_cells *c, struct kva_error *err);

/* A table of a board: id SLUG-suffix, headed and captioned by the board's title. */
struct kva_tab *kva_board_tab(struct kva_report *r, const struct kva_board *b,
                              const char *suffix, int view, const struct kva_col *col,
                              int n);
/* What names an arm: short name with the specification as its details, budget, both. */
void kva_arm_names(const struct kva_arm *a, struct kva_val *method, struct kva_val *keep,
                   struct kva_val *spec);

/* summary.c: two numbers a method, and means over models. */
enum kva_status kva_summary_tables(struct kva_report *r, struct kva_error *err);

bool kva_same_budget(const struct kva_arm *x, const struct kva_arm *y);
/* Boards of one model that differ in nothing but tasks and context length. */
bool kva_same_but_length(const struct kva_board *a, const struct kva_board *b);

/* ---- groups.c: named means ---- */
struct kva_group {
    const char *name, *suite;
    const char *const *task; /* names, n of them (at most 16) */
    int n;
    const int *domain; /* per task; NULL: every task weighs the same */
    const char *what;
};
enum { KVA_N_GROUPS = 6 };
extern const struct kva_group kva_groups[KVA_N_GROUPS];
/* Of the scores (0..1) of the group's tasks in their order; paper: each rounded to two
 * digits of its percentage first. */
double kva_group_mean(const struct kva_group *g, const double *score, bool paper);
/* Place of a task in the group, -1: it is none of its tasks. */
int kva_group_at(const struct kva_group *g, const struct kva_data_task *t);
const struct kva_group *kva_group_find(const char *name); /* NULL: unknown */
/* Is the data set in LongBench's domain "single_doc_qa", ..., "code"? */
bool kva_group_in_domain(const char *domain, const char *task);
/* Samples of the group's task i in the published data: LongBench's sizes; 0: no fixed
 * size. */
int kva_group_samples(const struct kva_group *g, int i);
void kva_group_table(struct kva_report *r, const struct kva_data *d,
                     const struct kva_cells *c, const struct kva_board *b);

/* ---- survival.c: evidence and distractors (tasks-ruler.md 8.6) ---- */
/* One cell's outcomes that hold evidence; means over outcomes, NaN: none has any. */
struct kva_survival {
    int n, n_p, n_d, n_x; /* outcomes with E, payload, D, example */
    double e, p, d, x;    /* mean survival */
    double rho;           /* mean share of the entries kept */
    double e_beside_d;    /* E of the n_d outcomes that have a D */
    struct kva_interval e_ci, p_ci, d_ci;
    struct kva_interval gap_ci; /* of E - D over those outcomes, paired */
};
/* false: out of memory. */
bool kva_survival_of(const struct kva_data *d, const struct kva_cells *c, int cell,
                     struct kva_survival *s);
void kva_survival_table(struct kva_report *r, const struct kva_data *d,
                        const struct kva_cells *c, const struct kva_board *b);

/* ---- audit.c: verdicts of an audit, nothing without one ---- */
void kva_audit_tables(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c);

/* ---- retention.c: T-RET, T-VIS ---- */
void kva_retention_table(struct kva_report *r, const struct kva_board *b);
void kva_visibility_tables(struct kva_report *r, const struct kva_data *d,
                           const struct kva_cells *c);

/* ---- times.c: T-TIME, data of F3 ---- */
struct kva_quartiles {
    double mid, lo, hi; /* median, lower and upper quartile; NaN: none */
    int n;
};
/* A method at a budget and context, milliseconds. */
struct kva_time {
    const char *model, *name, *spec, *schedule, *budget_text;
    double budget;
    int ctx;
    int cell;                               /* the first of its cells */
    struct kva_quartiles ttft, step, evict; /* step: a token */
    double yardstick;                       /* NaN: none was timed */
    int reps;
};
/* All of them, in the arena, by model and context, dense first; how many (out of memory:
 * r->nomem). */
int kva_times_of(struct kva_report *r, const struct kva_data *d,
                 const struct kva_cells *c, struct kva_time **out);
void kva_time_table(struct kva_report *r, const struct kva_data *d,
                    const struct kva_cells *c);

/* ---- grid.c: niah/grid ---- */
bool kva_is_grid(const struct kva_data_task *t);
void kva_grid_table(struct kva_report *r, const struct kva_data *d,
                    const struct kva_cells *c);

/* ---- answers.c, breakdown.c: how answers end, other metrics, labels, turns ---- */
void kva_answer_table(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c, const struct kva_board *b);
void kva_second_table(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c, const struct kva_board *b);
/* ---- draws.c: avg@k, pass@j, maj@k of sampled answers; nothing without them ---- */
void kva_draw_table(struct kva_report *r, const struct kva_data *d,
                    const struct kva_cells *c, const struct kva_board *b);
void kva_label_table(struct kva_report *r, const struct kva_data *d,
                     const struct kva_cells *c, const struct kva_board *b);
void kva_turn_table(struct kva_report *r, const struct kva_data *d,
                    const struct kva_cells *c, const struct kva_board *b);

/* ---- layout.c: official dialect beside kva1 (tasks-ruler.md 11.1) ---- */
void kva_layout_table(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c);

/* ---- renderers of one table ---- */
/* report.json: the tables of the view, or all of them. */
enum kva_status kva_json_tables(const struct kva_report *r, bool all, struct kva_buf *out,
                                struct kva_error *err);
void kva_json_string(struct kva_buf *out, const char *s); /* NULL: null */
void kva_json_row(const struct kva_tab *t, const struct kva_row *row,
                  struct kva_buf *out);
void kva_json_strings(const char *key, const char *const *s, int n, struct kva_buf *out);
/* "kvaudit.table/1": one table of report.json by itself. */
void kva_json_table(const struct kva_tab *t, struct kva_buf *out);
void kva_json_number(struct kva_buf *out, double v);    /* NaN: null */
void kva_csv_field(struct kva_buf *out, const char *s); /* quoted where it must be */
void kva_csv_number(struct kva_buf *out, double v);     /* NaN: nothing */
void kva_latex_table(const struct kva_tab *t, struct kva_buf *out);
void kva_latex_escape(struct kva_buf *out, const char *s); /* clean UTF-8 */
void kva_csv_table(const struct kva_tab *t, bool with_header, struct kva_buf *out);
void kva_markdown_table(const struct kva_tab *t, struct kva_buf *out);

/* ---- figures ---- */
enum kva_status kva_figures_build(struct kva_report *r, const struct kva_data *d,
                                  const struct kva_cells *c, struct kva_error *err);
/* One SVG made fit for inlining: ids prefixed, black becomes currentColor, background,
 * prolog and fixed size removed. */
enum kva_status kva_svg_inline(const char *svg, size_t n, const char *prefix,
                               const char *title, struct kva_buf *out,
                               struct kva_error *err);
/* Runs gnuplot on a file inside dir; KVA_ETOOL when there is none or it is older than
 * 5.4, KVA_EIO with its words when it fails, is killed or takes more than 60 s (*hung).
 */
#define KVA_GNUPLOT_OLD "gnuplot 5.4 or newer is needed"
extern uint64_t kva_gnuplot_timeout_ns; /* 60 s; tests have less time */
enum kva_status kva_gnuplot_run(const char *dir, const char *file, bool *hung,
                                struct kva_error *err);

/* Text for HTML and SVG: & < > " ' escaped; s may be NULL. */
void kva_report_escape(struct kva_buf *out, const char *s);

#endif
