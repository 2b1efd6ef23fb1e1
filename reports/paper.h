/* SPDX-License-Identifier: GPL-3.0-or-later */
/* paper.h - published numbers beside measured ones: matching and checks. */
#ifndef KVA_REPORTS_PAPER_H
#define KVA_REPORTS_PAPER_H

#include "reports/internal.h"
#include "reports/published.h"

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
    int cell;            /* the first of its cells */
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
