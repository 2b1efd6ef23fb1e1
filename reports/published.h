/* SPDX-License-Identifier: GPL-3.0-or-later */
/* published.h - published numbers as data: what papers printed, where, and what is wrong
 * with it.
 *
 * Three files, carried inside the program:
 *   configs/published.csv         one printed number a line
 *   configs/published-tables.csv  what the tables are called and how they were made
 *   configs/published-errata.csv  what does not follow from the papers' own rows
 * Budgets are kept amounts, `keep=0.2` where a paper prints "80 % compression". Numbers
 * stay as printed, wrong or not; a line that is questioned names its erratum. */
#ifndef KVA_REPORTS_PUBLISHED_H
#define KVA_REPORTS_PUBLISHED_H

#include "kva.h"

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

#endif
