/* SPDX-License-Identifier: GPL-3.0-or-later */
/* stats_internal.h - what the statistics files share. */
#ifndef KVA_STATS_INTERNAL_H
#define KVA_STATS_INTERNAL_H

#include "metrics/metric.h"

void kva_stat_init(void); /* GSL reports errors instead of aborting */
double kva_stat_z975(void);
double kva_stat_t975(double df);
double kva_stat_power(void); /* K = (z_0.975 + z_0.8)^2 = 7.8489 */

/* Units of observation of a stratum: samples, or clusters of them in ascending cluster
 * number. Unit c holds member[first[c]] .. member[first[c + 1] - 1]. */
struct kva_stat_units {
    size_t n, *first, *member;
};
bool kva_stat_units_init(struct kva_stat_units *u, size_t n); /* room for n samples */
void kva_stat_units_release(struct kva_stat_units *u);
void kva_stat_group(const struct kva_stratum *s, struct kva_stat_units *u);

#endif
