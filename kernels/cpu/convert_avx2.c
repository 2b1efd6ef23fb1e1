/* SPDX-License-Identifier: GPL-3.0-or-later */
/* convert_avx2.c - rows between f32 and f16 by F16C, and a range check.
 *
 * AVX2 with F16C is the baseline of every supported machine, so there is no second
 * version. */
#include "kernels/cpu/convert.h"

#include <immintrin.h>

void kva_half_from_float(const float *x, size_t n, uint16_t *y)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128(
            (__m128i *)(void *)(y + i),
            _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        y[i] = (uint16_t)_cvtss_sh(x[i], _MM_FROUND_TO_NEAREST_INT);
}

void kva_half_to_float(const uint16_t *x, size_t n, float *y)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128(
                                    (const __m128i *)(const void *)(x + i))));
    for (; i < n; i++)
        y[i] = _cvtsh_ss(x[i]);
}

bool kva_all_below(const float *x, size_t n, float limit)
{
    const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    const __m256 bound = _mm256_set1_ps(limit);
    __m256 bad = _mm256_setzero_ps();
    size_t i = 0;

    /* "not less than" is true for NaN as well */
    for (; i + 8 <= n; i += 8)
        bad = _mm256_or_ps(bad,
                           _mm256_cmp_ps(_mm256_and_ps(_mm256_loadu_ps(x + i), magnitude),
                                         bound, _CMP_NLT_UQ));
    for (; i < n; i++)
        if (!(x[i] < limit && -x[i] < limit))
            return false;
    return _mm256_movemask_ps(bad) == 0;
}
