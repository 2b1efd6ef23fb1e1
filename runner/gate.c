/* SPDX-License-Identifier: GPL-3.0-or-later */
/* gate.c - does a sweep measure anything? */
#include "runner/gate.h"

#include <string.h>

#include "metrics/metric.h"

double kva_gate_floor(const struct kva_gate_task *t)
{
    double blind = t->n_blind > 0 ? kva_stat_mean(t->blind, t->n_blind) : 0;

    return blind > t->guess_floor ? blind : t->guess_floor;
}

static struct kva_stratum stratum(const struct kva_gate_task *t)
{
    return (struct kva_stratum){
        .name = "", .a = t->dense, .n = t->n_dense, .cluster = t->context};
}

bool kva_gate_below(const struct kva_gate_task *t)
{
    struct kva_stratum s = stratum(t);
    struct kva_interval ci;

    if (t->n_dense == 0)
        return false;
    ci = kva_stat_arm(&s, 1);
    return ci.ok && ci.lo <= kva_gate_floor(t);
}

bool kva_gate_shut(const struct kva_gate_task *t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct kva_stratum s = stratum(&t[i]);

        if (kva_stat_units(&s, 1) < KVA_GATE_SAMPLES || !kva_gate_below(&t[i]))
            return false;
    }
    return n > 0;
}

static int order(const struct kva_gate_answer *a, const struct kva_gate_answer *b)
{
    if (a->idx != b->idx)
        return a->idx < b->idx ? -1 : 1;
    return (a->rep > b->rep) - (a->rep < b->rep);
}

void kva_gate_compare(const struct kva_gate_answer *a, size_t na,
                      const struct kva_gate_answer *b, size_t nb,
                      struct kva_gate_same *sum)
{
    int last = -1; /* index of the sample before */
    bool same = false;

    for (size_t i = 0, j = 0; i < na && j < nb;) {
        int d = order(&a[i], &b[j]);

        if (d == 0) {
            bool equal = a[i].evicted && b[j].evicted &&
                         memcmp(a[i].sha256, b[j].sha256, sizeof a[i].sha256) == 0;

            if (a[i].idx != last) {
                sum->both++;
                sum->same += same = equal;
            } else if (same && !equal) {
                sum->same--;
                same = false;
            }
            last = a[i].idx;
        }
        i += d <= 0;
        j += d >= 0;
    }
}

bool kva_gate_suspicious(const struct kva_gate_same *sum)
{
    return sum->both >= KVA_GATE_SAMPLES && sum->same == sum->both;
}
