/* SPDX-License-Identifier: GPL-3.0-or-later */
/* audit_claims.h - what a method claims, and how each claim is decided (analysis.md 6.3).
 *
 * Pure functions of measured numbers: nothing is read, run or stored here. Bytes are
 * those of the store's own counters (ruling R11), scores are 0..1. */
#ifndef KVA_AUDIT_CLAIMS_H
#define KVA_AUDIT_CLAIMS_H

#include "metrics/metric.h"

enum kva_claim {
    KVA_CLAIM_BYTES,       /* K1 held bytes are the nominal ones */
    KVA_CLAIM_RATIO,       /* K2 the share kept is the share named */
    KVA_CLAIM_EQUAL,       /* K3 physical and masked caches of one set say the same */
    KVA_CLAIM_SCORE,       /* K4 the published score stands at the nominal bytes */
    KVA_CLAIM_AGNOSTIC,    /* K5 the question was not seen */
    KVA_CLAIM_INCREMENTAL, /* K6 a block is read on the cache that was cut before it */
    KVA_CLAIM_PEAK,        /* K7 the largest cache is the one claimed */
    KVA_CLAIM_DECODE,      /* K8 the cache grows while answering as the policy says */
    KVA_CLAIMS
};
extern const char *const kva_claim_ids[KVA_CLAIMS];   /* "K1", ... */
extern const char *const kva_claim_names[KVA_CLAIMS]; /* "bytes", ... */

/* From worst to best; N/A does not count. */
enum kva_finding {
    KVA_REFUTED,
    KVA_UNDECIDED, /* the test ran, there is not enough evidence */
    KVA_UNTESTED,  /* not run; the note says why */
    KVA_UPHELD_C,  /* on the condition the note states */
    KVA_UPHELD,
    KVA_NOT_CLAIMED /* N/A */
};
const char *kva_finding_text(enum kva_finding f); /* "REFUTED", ..., "N/A" */

struct kva_claim_result {
    enum kva_finding verdict;
    const char *reason;              /* "MASK_ONLY", ...; NULL: none. Static */
    double value, threshold, lo, hi; /* NaN: does not apply */
    char note[200];
};
/* No number, a reason in words. */
struct kva_claim_result kva_claim_note(enum kva_finding f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds a remark to the note, behind a semicolon. */
void kva_claim_append(struct kva_claim_result *r, const char *text);
/* The worse of two results on the same claim; of equal verdicts the larger value. */
void kva_claim_worse(struct kva_claim_result *into, const struct kva_claim_result *r);
/* The worst verdict of K1..K8; N/A when nothing is claimed. */
enum kva_finding kva_claims_headline(const struct kva_claim_result r[KVA_CLAIMS]);

/* ---- K1, K2 ---- */
struct kva_claim_bytes {
    double nominal, dense; /* bytes claimed; of the full cache */
    double held, meta;     /* pages in use; positions, tables, state kept between steps */
    double kept, masked;   /* entries that can be read; stored but unreadable */
    double row;            /* bytes of an entry */
    double state;          /* of meta: what is kept between steps beside the entries */
    int kvheads;
};
#define KVA_BYTE_TOL 1.02
/* UPHELD up to KVA_BYTE_TOL x nominal. Where only page or padding slack exceeds it,
 * UPHELD-C PAD_WASTE: the same entries in pages of one entry, with a position each and a
 * table of offsets, would pass. REFUTED MASK_ONLY when nothing was freed, else
 * BYTES_OVER. value = (held + meta) / nominal. */
struct kva_claim_result kva_claim_bytes(const struct kva_claim_bytes *b);
/* Bytes of the entries held in pages of one entry: 4 bytes of position each, offsets of
 * the KV heads, their end and the count. */
double kva_claim_packed(const struct kva_claim_bytes *b);
/* value = |kept share - nominal share|, at most 0.01. */
struct kva_claim_result kva_claim_ratio(double kept_share, double nominal_share);

/* ---- K3 ---- */
struct kva_claim_equal {
    int n;              /* answers compared */
    int sets;           /* of them with other kept sets */
    int tokens;         /* with other greedy tokens */
    int nats;           /* whose answer nats differ in any bit */
    double max_nats;    /* largest difference */
    bool exact;         /* numerics `ref`: every bit must agree */
    int logits;         /* rows whose every logit was compared; 0: none */
    int logit_rows;     /* of them with any bit that differs */
    int flips;          /* of them with another argmax although the gap is clear */
    double dlogit, top; /* largest |difference|, largest |logit| */
    bool positions;     /* keys of the same entry differ: rotated to other positions */
};
/* Fast kernels: max |dlogit| <= 1e-3 * max |logit| (f16 entries) and the same argmax
 * where the two best are further apart than twice that. */
struct kva_claim_result kva_claim_equal(const struct kva_claim_equal *e);

/* What published masks by fake keys let through (kernels.md 7): attention over n scores
 * and scalar values, entry i evicted where gone[i] != 0. `cap` is the model's soft-cap:
 * the logit of a fake key is -cap, and the values it should hide keep a weight; cap 0: no
 * soft-cap, the logit is as good as -inf and the weight 0. Scores are those after the
 * soft-cap. Result: the output under fake keys minus the exact one, which goes to *exact
 * (NULL allowed). NaN when nothing stays. */
double kva_fakekey_leak(const double *score, const double *value, const uint8_t *gone,
                        int n, double cap, double *exact);

/* ---- K4 ---- */
/* Paired scores of one task's samples under the arms of analysis.md 6.3:
 *   a  masked, as published          c  uniform, at the nominal bytes
 *   b  the same sets, physical       d  the method within the nominal bytes, physical */
enum kva_split_part {
    KVA_SPLIT_TOTAL,      /* a - c */
    KVA_SPLIT_STORAGE,    /* a - b: 0 by K3 */
    KVA_SPLIT_OVERSHOOT,  /* b - d: what entries beyond the nominal bytes were worth */
    KVA_SPLIT_UNIFORMITY, /* d - c: what unequal KV heads were worth */
    KVA_SPLIT_CLAIM,      /* a - d: what K4 judges */
    KVA_SPLITS
};
extern const char *const kva_split_names[KVA_SPLITS];
struct kva_split_task {
    const char *name;
    const double *arm[4]; /* a, b, c, d; an arm that is missing everywhere: NULL */
    const int *cluster;   /* as in struct kva_stratum */
    size_t n;
};
struct kva_difference {
    double mean; /* NaN: an arm is missing */
    struct kva_interval ci;
    size_t n;
    bool same; /* every pair agrees in every bit */
};
/* Differences of the means with paired 95 % intervals: the bootstrap of reports.md 4 over
 * strata for scores, Student's t over all pairs for nats (`unbounded`). */
enum kva_status kva_claim_split(const struct kva_split_task *t, size_t n_tasks,
                                bool unbounded, uint32_t seed,
                                struct kva_difference out[KVA_SPLITS],
                                struct kva_error *err);
#define KVA_SCORE_TOL 0.01 /* one point of 100 */
/* UPHELD inside +-1 point, REFUTED SCORE_DROP wholly above, else UNDECIDED with the n
 * that would decide. `identical`: a and d hold the same sets and K3 stands: there is
 * nothing to estimate. */
struct kva_claim_result kva_claim_score(const struct kva_difference *d, bool identical);
/* Samples at which an interval of this mean and half width (found with n) would lie
 * inside +-tol, or outside of it; NaN: never. */
double kva_claim_needed(double mean, double half, double n, double tol);

/* ---- K5 .. K8 ---- */
struct kva_claim_leak {
    int variants;       /* questions tried beside the sample's own */
    int heads, changed; /* KV heads compared, with another kept set */
    double jaccard;     /* sum over the KV heads */
};
struct kva_claim_result kva_claim_leak(const struct kva_claim_leak *l);
/* |A and B| / |A or B| of ascending lists; 1 for two empty ones. */
double kva_claim_jaccard(const int32_t *a, int na, const int32_t *b, int nb);

/* rel: largest |difference| over the largest |value| of keys and values in a cache that
 * was cut before each block. */
struct kva_claim_result kva_claim_incremental(double rel, double tol);
/* packed: the same peak without page slack. */
struct kva_claim_result kva_claim_peak(double peak, double packed, double claimed);
/* Bytes: grown against expected, equal within `page` (one page of every KV head). */
struct kva_claim_result kva_claim_growth(double grown, double expected, double page,
                                         bool at_most);

#endif
