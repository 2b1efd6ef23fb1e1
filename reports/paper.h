/* SPDX-License-Identifier: GPL-3.0-or-later */
/* paper.h - published numbers as data: what papers printed, where, and what is wrong with
 * it.
 *
 * Three files, carried inside the program:
 *   configs/published.csv         one printed number a line
 *   configs/published-tables.csv  what the tables are called and how they were made
 *   configs/published-errata.csv  what does not follow from the papers' own rows
 * Budgets are kept amounts, `keep=0.2` where a paper prints "80 % compression". Numbers
 * stay as printed, wrong or not; a line that is questioned names its erratum. */
#ifndef KVA_REPORTS_PAPER_H
#define KVA_REPORTS_PAPER_H

#include "reports/internal.h"

struct kva_published {
    const char *source, *table;
    const char *model;   /* "" not stated */
    const char *method;  /* of our grammar; "" when there is none or it is not known */
    const char *printed; /* the row's name in the paper */
    const char *budget;  /* dense, keep=0.2, tokens=2048, share=0.25; "" not stated */
    const char *visibility;
    const char *task; /* "ruler/vt", "longbench/few_shot", "ruler/ruler13", "ttft/..." */
    const char
        *aggregation; /* task, domain, ruler13, avg16, avg6, loss, retention: can be
                       * measured; time, memory, tally, claim, ...: cannot here */
    const char *text; /* the number as printed */
    const char *unit, *erratum, *note;
    double value, hi; /* hi: end of a printed range, else NaN */
    int digits;       /* decimals printed */
    int ctx, n, refs; /* context, samples a task, references a sample; 0 not known */
};
struct kva_published_table {
    const char *source, *table, *id; /* id: "S-CK/1" */
    const char *title, *config, *protocol;
    int n;     /* samples a task that the paper claims; 0 none */
    bool wide; /* rows x columns as in the paper; else one number a line */
    int first, n_rows;
};
struct kva_erratum {
    const char *id, *source, *where, *text;
};
struct kva_published_set {
    struct kva_published *row;
    struct kva_published_table *table;
    struct kva_erratum *erratum;
    int n_row, n_table, n_erratum;
    struct kva_arena arena;
};

/* What is carried. Release also after a failure. */
enum kva_status kva_published_read(struct kva_published_set *s, struct kva_error *err);
/* The same from three texts; KVA_EFORMAT with file and line: wrong header or count of
 * fields, no number, budget or context, unknown aggregation, table or erratum, lines of a
 * table apart. */
enum kva_status kva_published_parse(const char *numbers, const char *tables,
                                    const char *errata, struct kva_published_set *s,
                                    struct kva_error *err);
/* The three texts that are carried. */
extern const char kva_published_csv[], kva_published_tables_csv[],
    kva_published_errata_csv[];
void kva_published_release(struct kva_published_set *s);
/* "S-CK/1" in any case; NULL: none. */
const struct kva_published_table *kva_published_find(const struct kva_published_set *s,
                                                     const char *id);
const struct kva_erratum *kva_erratum_find(const struct kva_published_set *s,
                                           const char *id);
bool kva_published_measurable(const struct kva_published *p);
/* Where the name after the suite begins. */
const char *kva_published_task(const struct kva_published *p);

/* Smallest n up to 1,000 whose grid 1/(n refs) holds every per-task value of a table, to
 * its printed digits (reports.md 2.1); 0: none, or no value with known references. */
int kva_published_fits(const struct kva_published_set *s,
                       const struct kva_published_table *t);
/* Is the value on the grid of n samples? */
bool kva_published_on_grid(const struct kva_published *p, int n);

/* Standard error that the printed number has by itself, in its unit: sqrt(p(1-p)/n) of a
 * task, sqrt(sum p_t(1-p_t)/n_t)/T of a mean, with the p_t of the same row where they are
 * printed and the mean else (an upper bound, p(1-p) being concave). 0: not known. */
double kva_published_error(const struct kva_published_set *s,
                           const struct kva_published *p);
/* Same model, method, row name, budget, visibility and context. */
bool kva_published_same_row(const struct kva_published *a, const struct kva_published *b);

/* ---- paper.c ---- */
/* Frees *r, which may be NULL, unless rc is KVA_OK and memory sufficed. */
enum kva_status kva_paper_finish(struct kva_report **r, enum kva_status rc,
                                 struct kva_error *err);

/* kva_paper_selftest of other numbers. */
enum kva_status kva_paper_check(const struct kva_published_set *s,
                                const struct kva_report_opts *opts, int *n_bad,
                                struct kva_report **r, struct kva_error *err);

/* ---- paper_match.c: what was measured beside what was printed ---- */
enum kva_paper_flag {
    KVA_PAPER_MATCH,
    KVA_PAPER_OFF,
    KVA_PAPER_NA, /* measured, but not under the same protocol, or without interval */
    KVA_PAPER_MISSING, /* not measured */
    KVA_PAPER_OUTSIDE  /* no score: another command measures it */
};
struct kva_measured {
    double value; /* in the published unit, NaN: not measured */
    struct kva_interval ci;
    int n;               /* samples of the smallest task */
    const char *model;   /* NULL: not measured */
    const char *differs; /* "context 512 (32768), ..."; "": nothing */
    enum kva_paper_flag flag;
};
/* One measured row: cells of one model, method, budget and protocol. */
struct kva_paper_arm {
    int cell; /* the first; stands for all in everything but the task */
    int ctx;
    int *of; /* per task of the data: cell, -1 none */
};
struct kva_paper_match {
    const struct kva_published_set *set;
    const struct kva_data *d; /* NULL: nothing measured */
    struct kva_cells c;
    struct kva_paper_arm *arm;
    int n_arm;
    kva_paper_canonical canonical;
    struct kva_arena *arena;
};
enum kva_status kva_paper_match_init(struct kva_paper_match *m, struct kva_report *r,
                                     const struct kva_published_set *set,
                                     const struct kva_data *d, kva_paper_canonical how,
                                     struct kva_error *err);
void kva_paper_match_release(struct kva_paper_match *m);
/* The measured counterpart of one printed number, from the model it names. */
enum kva_status kva_paper_measure(const struct kva_paper_match *m,
                                  const struct kva_published *p, struct kva_measured *out,
                                  struct kva_error *err);
/* The column of `p` of any arm; value NaN when the arm lacks a task. */
enum kva_status kva_paper_value(const struct kva_paper_match *m,
                                const struct kva_published *p,
                                const struct kva_paper_arm *arm, struct kva_measured *out,
                                struct kva_error *err);
/* Do the parts of the arm's method have the names of the published one's? */
bool kva_paper_same_parts(const struct kva_paper_match *m, const struct kva_published *p,
                          const struct kva_paper_arm *arm);
/* Counts the fields in which the arm's protocol is not the published one and appends
 * them in words; n: samples of the smallest task. */
int kva_paper_differences(const struct kva_paper_match *m, const struct kva_published *p,
                          const struct kva_paper_arm *a, int n, struct kva_buf *out);
/* "Llama-3.1-8B-Instruct" and "meta-llama_Llama-3.1-8B-Instruct-Q4_K_M.gguf". */
bool kva_paper_same_model(const char *published, const char *measured);

#endif
