/* SPDX-License-Identifier: GPL-3.0-or-later */
/* regress.h - the nightly gate: is the new run worse than the base? (reports.md 7)
 *
 * Pure decisions over two loaded databases; nothing is read, run or printed. Cells are
 * partners when their digests are equal. Order of calls: init, add (once against the
 * base, once against the anchor with its thresholds doubled), confirm and quarantine
 * where there are any, decide, then exit code and renderers. The same data and options
 * give the same bytes.
 *
 *   score   one-sided paired test per cell ("task") and per suite, Holm over the score
 *           comparisons of the night in which any sample differs; a drop fails when
 *           adjusted p < alpha and it exceeds both the threshold and the noise floor
 *   time    ratio of medians r of repetitions on equal machines; fails when Mann-Whitney
 *           p < 0.01 with enough repetitions and the interval of r lies above 1 + tau
 *   memory  any growth of kv_alloc or kv_meta bytes of a sample, device peak beyond its
 *           tolerance, an audit verdict that got worse
 */
/* The family. Given how many samples differ, each p is valid by itself, and a comparison
 * without any has p = 1 whatever else happens: it cannot be a false alarm. Counting it
 * would protect nothing and hide real drops on the exact backend, where nearly all of a
 * thousand cells are unchanged on an ordinary night (12 of 12 answers lost in one cell,
 * p 0.0002, would pass). So it is no member. */
#ifndef KVA_REGRESS_H
#define KVA_REGRESS_H

#include "db/db.h"
#include "kva.h"

struct json_t;

enum kva_regress_gate {
    KVA_REGRESS_SCORE,
    KVA_REGRESS_TIME,
    KVA_REGRESS_MEMORY,
    KVA_REGRESS_GATES
};
extern const char *const kva_regress_gate_names[KVA_REGRESS_GATES + 1];

/* Worst first; the order in which rows are shown. */
enum kva_regress_verdict {
    KVA_REGRESS_FAIL,
    KVA_REGRESS_MISSING,      /* data that should be there is not */
    KVA_REGRESS_INCOMPARABLE, /* there, but nothing can be said */
    KVA_REGRESS_QUARANTINED,  /* would fail */
    KVA_REGRESS_WARN,
    KVA_REGRESS_BETTER,
    KVA_REGRESS_PASS,
    KVA_REGRESS_VERDICTS
};
extern const char *const kva_regress_verdict_names[KVA_REGRESS_VERDICTS + 1];

struct kva_regress_opts {
    bool gate[KVA_REGRESS_GATES]; /* which are wanted */
    double alpha, warn_p;         /* Holm-adjusted p that fails; raw p that warns */
    double task_drop, suite_drop; /* of scores 0..1: 0.01 is a point */
    bool exact;                   /* changed tokens on the CPU backend fail */
    bool allow_removed;
    double non_inferiority; /* > 0: pass only if the interval lies above minus this */
    double time_p;
    int min_reps;             /* per arm */
    double tau_cpu, tau_cuda; /* slow-down that is tolerated */
    double min_ms;            /* a smaller difference of medians never matters */
    int64_t peak_bytes;       /* device peak may grow by the larger of the two */
    double peak_share;
    int replicates; /* of intervals */
    uint64_t seed;
    const char *only; /* slug or digest (hex) of the one cell to judge; NULL: all */
};
void kva_regress_defaults(struct kva_regress_opts *o);

struct kva_regress_row {
    enum kva_regress_gate gate;
    enum kva_regress_verdict verdict;
    /* score: "task", "suite", "tokens", "cell" (added, removed); time: "ttft", "decode",
     * "evict", "total"; memory: "bytes" */
    const char *what;
    const char *against; /* name of the baseline */
    double scale;        /* of the thresholds: 1, anchor 2 */
    const char *slug, *model, *suite, *method, *task;
    uint8_t digest[32]; /* of a suite: SHA-256 of its sorted cell digests */
    bool same;          /* of a score: no sample differs */
    bool exact_cpu;     /* both sides ran on the CPU backend */
    int n;              /* samples, repetitions of the smaller arm */
    int units;          /* of a score: contexts that the samples ask about */
    double base, now;   /* score 0..1; ms (decode: ms a token), now scaled to the base's
                         * yardsticks; mean bytes */
    double delta;       /* now - base; time: ratio of medians r */
    double lo, hi;      /* 95 %, of delta; NaN: none */
    double now_lo, now_hi; /* 95 %, of a score alone; NaN: none */
    double p, p_adj;       /* one-sided "worse" of a score, two-sided of a time; NaN */
    double p_better, p_better_adj;
    double floor;        /* noise of the score; 0 where not measured or exact */
    double limit;        /* the drop, ratio or growth that is tolerated */
    bool floor_known;    /* measured, or the exact backend */
    const char *message; /* one sentence */
    const char *reason;  /* of the quarantine; NULL */
};
struct kva_regress {
    struct kva_arena arena;
    struct kva_regress_opts opts;
    struct kva_regress_row *row;
    int n_row, cap_row;
    int n_cells;                    /* pairs of cells that were compared */
    int n_comparisons;              /* of scores, with a difference: the family of Holm */
    int n_unchanged;                /* of scores: no sample differs */
    int n_family;                   /* while rows are made: at most so many comparisons */
    int n_tokens, n_tokens_changed; /* answers compared and changed on exact backends */
    int count[KVA_REGRESS_GATES][KVA_REGRESS_VERDICTS]; /* after decide */
};

void kva_regress_init(struct kva_regress *r, const struct kva_regress_opts *o);
void kva_regress_release(struct kva_regress *r);
/* Rows of all wanted gates for base against now. `against` is copied. scale >= 1
 * multiplies the thresholds. KVA_ENOMEM only. */
enum kva_status kva_regress_add(struct kva_regress *r, const struct kva_data *base,
                                const struct kva_data *now, const char *against,
                                double scale, struct kva_error *err);
/* Another measurement of the new program: a time that failed stays failed only if it
 * fails here too. Call after add and before decide. */
enum kva_status kva_regress_confirm(struct kva_regress *r, const struct kva_data *base,
                                    const struct kva_data *again, const char *against,
                                    double scale, struct kva_error *err);

struct kva_regress_quarantine {
    const char *cell; /* slug, or at least 12 hex digits of the digest */
    enum kva_regress_gate gate;
    int64_t expires_ms; /* from here on it gates again */
    const char *owner, *reason;
    bool matched; /* out: some cell is meant */
    bool refused; /* out: scores and bytes of exact cells cannot be quarantined */
    bool expired; /* out */
};
/* Adjusts the family, gives every row its verdict, applies the quarantine (q may be
 * NULL), sorts the rows: worst first, then gate, slug, what. */
enum kva_status kva_regress_decide(struct kva_regress *r,
                                   struct kva_regress_quarantine *q, int n_q,
                                   int64_t now_ms, struct kva_error *err);
/* 1 a row failed; 5 something could not be decided, or nothing was compared; else 0. */
int kva_regress_exit(const struct kva_regress *r);

/* Smallest drop that the score gate finds with probability 0.8 among `comparisons`
 * comparisons: n paired binary samples, `discordant` share that differ. Exact: power of
 * the one-sided McNemar test at alpha / comparisons. NaN: none does. */
double kva_regress_mde(int n, double discordant, double alpha, int comparisons);

/* ---- renderers (regress_out.c): appended to an initialised buffer ---- */
void kva_regress_text(const struct kva_regress *r, bool all, struct kva_buf *out);
/* kvaudit.gate/1, unrounded; the caller's. NULL: out of memory. */
struct json_t *kva_regress_json(const struct kva_regress *r);
/* JUnit XML: a testsuite per gate, counts that agree with the children. */
void kva_regress_junit(const struct kva_regress *r, struct kva_buf *out);
/* Markdown of at most `ceiling` bytes, worst rows first, saying how many were left out.
 */
void kva_regress_github(const struct kva_regress *r, size_t ceiling, struct kva_buf *out);
/* At most 10 ::error and ::warning commands, worst first. */
void kva_regress_annotations(const struct kva_regress *r, struct kva_buf *out);

#endif
