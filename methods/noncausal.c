/* SPDX-License-Identifier: GPL-3.0-or-later */
/* noncausal.c - column sums of attention inside chunks, smoothed over neighbours. */
#include "methods/noncausal.h"

void kva_noncausal_rows(const float *side, const float *norm, size_t n, float *s)
{
    double before = 0, at = 0;

    for (size_t j = 0; j < n; j++) {
        double after = 0;

        if (j == 0)
            at = (double)side[0] * (norm != NULL ? (double)norm[0] : 1);
        if (j + 1 < n)
            after = (double)side[j + 1] * (norm != NULL ? (double)norm[j + 1] : 1);
        s[j] = (float)((before + at + after) / 3);
        before = at;
        at = after;
    }
}
