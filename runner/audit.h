/* SPDX-License-Identifier: GPL-3.0-or-later */
/* audit.h - `kvaudit audit`: arms, probes and judgement (analysis.md 6, methods.md 5).
 *
 * audit_arms.c adds the arms of every method to the suite, as ordinary cells. sweep.c
 * measures them. audit_probe.c runs what no stored outcome can tell: every logit of
 * masked and physical twins, kept sets under other questions, block prefills beside a run
 * that was cut before each block. audit_judge.c reads the database and decides the
 * claims; audit_store.c writes them as rows of an_claim and an_leak, which `report audit`
 * shows. */
#ifndef KVA_AUDIT_H
#define KVA_AUDIT_H

#include "runner/audit_claims.h"
#include "runner/plan.h"

/* Arms beside the audited cell itself (A2, physical). */
enum kva_arm_kind {
    KVA_ARM_AUDITED,
    KVA_ARM_MASK,    /* A1 the same method, nothing freed */
    KVA_ARM_UNIFORM, /* A3 the same scorer, every KV head its equal share */
    KVA_ARM_PADDED,  /* A4 a tensor as wide as the longest KV head of a layer */
    KVA_ARM_UNION,   /* A5 every KV head of a layer holds what any of them holds */
    KVA_ARM_QHEAD,   /* A5 too: every query head has a copy */
    KVA_ARM_FAKEKEY, /* A1 too: nothing freed, evicted keys overwritten */
    KVA_ARM_AWARE,   /* A6 the same method, having seen the question */
    KVA_ARM_KINDS
};
/* Enforcement of an arm; UNIFORM and AWARE are physical. */
const char *kva_arm_enforce(enum kva_arm_kind kind);

/* Adds the arms of every physical, compressing cell; what is not built stays out. The
 * dense cells (A0) are the suite's. *audited: cells that have arms. */
enum kva_status kva_audit_arms(struct kva_suite *s, int *audited, struct kva_error *err);
/* Leaves the audited cells and their masked twins, `n` samples each, to be opened again
 * by the probes; `exact`: in numerics `ref`. */
void kva_audit_probes(struct kva_suite *s, int n, bool exact);

/* ---- probes ---- */

/* What the probes saw of one cell of their plan. */
struct kva_probe_cell {
    struct kva_claim_leak leak;
    struct kva_claim_equal equal; /* of a masked cell against its physical twin */
    double incremental;           /* K6: largest relative difference; NaN: not tried */
    char failed[160];             /* why a probe could not run; empty: it did */
};
struct kva_probe_leak { /* one row of an_leak */
    int cell;           /* of the plan */
    uint8_t sample[32];
    const char *variant; /* "next", "empty", "none" */
    int heads, changed;
    double jaccard; /* mean */
};
struct kva_probes {
    struct kva_suite suite;
    struct kva_plan plan;
    struct kva_probe_cell *cell; /* [plan.n_cells] */
    struct kva_probe_leak *leak;
    int n_leak, cap_leak;
    bool exact;
};
/* Runs the probes of an open plan. */
enum kva_status kva_probes_run(struct kva_probes *p, const volatile int *stop,
                               struct kva_error *err);
void kva_probes_release(struct kva_probes *p);

/* ---- judgement ---- */

struct kva_audit_fact { /* a number beside the verdicts; NaN: not measured */
    const char *name;   /* "x.kept", "score.uniformity", ... */
    double value, lo, hi;
    char note[64];
};
#define KVA_AUDIT_FACTS 40
/* One implementation of one method at one budget on one model, over all tasks. */
struct kva_audit_row {
    int cell; /* of the plan: the audited cell of its first task */
    enum kva_arm_kind arm;
    struct kva_claim_result claim[KVA_CLAIMS];
    enum kva_finding headline;
    struct kva_audit_fact fact[KVA_AUDIT_FACTS];
    int n_fact;
};
struct kva_audit {
    struct kva_audit_row *row;
    int n_row;
    /* over the rows of the physical arm */
    int refuted, undecided;
    struct kva_arena arena;
};
/* Judges what `data` holds of the plan. probes NULL: none ran. */
enum kva_status kva_audit_judge(const struct kva_plan *plan, const struct kva_data *data,
                                const struct kva_probes *probes, struct kva_audit *a,
                                struct kva_error *err);
void kva_audit_release(struct kva_audit *a);
/* Rows of an_claim and an_leak under the run. */
enum kva_status kva_audit_store(const struct kva_audit *a, const struct kva_plan *plan,
                                const struct kva_probes *probes, struct kva_db *db,
                                int64_t run_id, struct kva_error *err);

#endif
