/* SPDX-License-Identifier: GPL-3.0-or-later */
/* convert.h - rows between f32 and f16, in bulk. Internal to kernels/.
 *
 * Same bits as kva_f32_to_f16 (round to nearest even) and kva_f16_to_f32. */
#ifndef KVA_CPU_CONVERT_H
#define KVA_CPU_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void kva_half_from_float(const float *x, size_t n, uint16_t *y);
void kva_half_to_float(const uint16_t *x, size_t n, float *y);
/* Every |x[i]| < limit; false when one is NaN. */
bool kva_all_below(const float *x, size_t n, float limit);

#endif
