/* SPDX-License-Identifier: GPL-3.0-or-later */
/* gate.h - does a sweep measure anything? (charter decision 14, small-models.md 5c)
 *
 * Plain arrays in, verdicts out; watch.c feeds it from a run. */
#ifndef KVA_GATE_H
#define KVA_GATE_H

#include "kva.h"

/* Dense contexts of a task before it is judged in a sweep. */
#define KVA_GATE_SAMPLES 10

/* Scores of one task on one model. */
struct kva_gate_task {
    const double *dense, *blind; /* full cache; question without context */
    size_t n_dense, n_blind;
    const int *context; /* [n_dense] what was read: questions of one context are one piece
                         * of evidence; NULL: each has its own */
    double guess_floor;
};
/* What can be had without reading the context: the guess floor or the mean of the blind
 * scores, whichever is more. */
double kva_gate_floor(const struct kva_gate_task *t);
/* The lower 95 % bound of the dense score is not above that floor. False without dense
 * samples. */
bool kva_gate_below(const struct kva_gate_task *t);
/* Every task has KVA_GATE_SAMPLES dense contexts and is below its floor: whatever the
 * methods do, this model shows nothing. False without tasks. */
bool kva_gate_shut(const struct kva_gate_task *t, size_t n);

/* One answer of a cell. */
struct kva_gate_answer {
    int idx, rep;
    uint8_t sha256[32]; /* of its tokens */
    bool evicted;       /* the cache held less than the prompt */
};
/* Answers of one method at two budgets, each ascending by (idx, rep): how many samples
 * both have, and on how many of them entries were evicted at both and the tokens are the
 * same, in all repetitions or draws. */
struct kva_gate_same {
    int both, same;
};
void kva_gate_compare(const struct kva_gate_answer *a, size_t na,
                      const struct kva_gate_answer *b, size_t nb,
                      struct kva_gate_same *sum /* added to */);
/* At least KVA_GATE_SAMPLES samples and all the same. */
bool kva_gate_suspicious(const struct kva_gate_same *sum);

#endif
