/* SPDX-License-Identifier: GPL-3.0-or-later */
/* simd.h - sixteen float lanes, and eight double ones, written three times: plain C,
 * AVX2, AVX-512.
 *
 * Included by the x_*.c files only, each compiled for one instruction set. Everything
 * above this header is written once, in these operations (inner.h). Every operation
 * rounds like its scalar namesake, so the same program gives the same bits in all three;
 * a sum over lanes is always the tree 16 -> 8 -> 4 -> 2 -> 1, lane i with lane i + half.
 * All three need FMA and F16C. */
#ifndef KVA_CPU_SIMD_H
#define KVA_CPU_SIMD_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* In sanitised builds every operation stays a function: the checks inside a hundred
 * unrolled variants would take minutes to compile. */
#if defined(KVA_POISON)
#define INLINE static __attribute__((noinline, unused))
#else
#define INLINE static inline __attribute__((always_inline))
#endif

/* ---- AVX-512
 * ---------------------------------------------------------------------------- */
#if defined(__AVX512F__)

#define KVA_SIMD_512 1
#define KERNEL_ROWS  12 /* 12 x 2 accumulators of 32 registers */
#define KERNEL_VECS  2

struct v16 {
    __m512 v;
};
struct w16 {
    __m512i v;
};
#define V1(e) ((struct v16){(e)})

INLINE struct v16 v_zero(void)
{
    return V1(_mm512_setzero_ps());
}
INLINE struct v16 v_set1(float x)
{
    return V1(_mm512_set1_ps(x));
}
INLINE struct v16 v_load(const float *p)
{
    return V1(_mm512_loadu_ps(p));
}
INLINE void v_store(float *p, struct v16 a)
{
    _mm512_storeu_ps(p, a.v);
}
INLINE struct v16 v_load_n(const float *p, int n)
{
    return V1(_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p));
}
INLINE void v_store_n(float *p, struct v16 a, int n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), a.v);
}
INLINE struct v16 v_add(struct v16 a, struct v16 b)
{
    return V1(_mm512_add_ps(a.v, b.v));
}
INLINE struct v16 v_sub(struct v16 a, struct v16 b)
{
    return V1(_mm512_sub_ps(a.v, b.v));
}
INLINE struct v16 v_mul(struct v16 a, struct v16 b)
{
    return V1(_mm512_mul_ps(a.v, b.v));
}
INLINE struct v16 v_div(struct v16 a, struct v16 b)
{
    return V1(_mm512_div_ps(a.v, b.v));
}
INLINE struct v16 v_fma(struct v16 a, struct v16 b, struct v16 c)
{
    return V1(_mm512_fmadd_ps(a.v, b.v, c.v));
}
/* a > b ? a : b, so a NaN in b survives; likewise v_min */
INLINE struct v16 v_max(struct v16 a, struct v16 b)
{
    return V1(_mm512_max_ps(a.v, b.v));
}
INLINE struct v16 v_min(struct v16 a, struct v16 b)
{
    return V1(_mm512_min_ps(a.v, b.v));
}
/* lane i of a where bit i of bits is set, else of b */
INLINE struct v16 v_select(uint32_t bits, struct v16 a, struct v16 b)
{
    return V1(_mm512_mask_blend_ps((__mmask16)bits, b.v, a.v));
}
INLINE struct v16 v_f16(const uint16_t *p)
{
    return V1(_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p)));
}
INLINE struct v16 v_bf16(const uint16_t *p)
{
    __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)p);

    return V1(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16)));
}
INLINE struct v16 v_i8(const int8_t *p)
{
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)p);

    return V1(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(b)));
}
INLINE struct w16 w_load(const void *p)
{
    return (struct w16){_mm512_loadu_si512(p)};
}
/* nibble i (0..7) of each word, minus bias, as float: a 16-entry table looks at 4 bits
 * only */
INLINE struct v16 v_nibble(struct w16 w, int i, int bias)
{
    const __m512 t0 =
        _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512 t8 =
        _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);

    return V1(
        _mm512_permutexvar_ps(_mm512_srli_epi32(w.v, (unsigned)(4 * i)), bias ? t8 : t0));
}
/* p * 2^n, one rounding; n a whole number in float */
INLINE struct v16 v_scale(struct v16 p, struct v16 n)
{
    return V1(_mm512_scalef_ps(p.v, n.v));
}
/* bit i: pos[i] <= limit */
INLINE uint32_t v_mask_le(const int32_t *pos, int32_t limit)
{
    return _mm512_cmple_epi32_mask(_mm512_loadu_si512(pos), _mm512_set1_epi32(limit));
}
INLINE __m256 v_half(struct v16 a, int hi)
{
    return hi ? _mm512_extractf32x8_ps(a.v, 1) : _mm512_castps512_ps256(a.v);
}

#define DOUBLE_ROWS 8 /* 8 accumulators hide the latency of a sum */
struct d8 {
    __m512d v;
};
INLINE struct d8 d_load(const double *p)
{
    return (struct d8){_mm512_loadu_pd(p)};
}
INLINE void d_store(double *p, struct d8 a)
{
    _mm512_storeu_pd(p, a.v);
}
/* a + x b */
INLINE struct d8 d_add_scaled(struct d8 a, double x, struct d8 b)
{
    return (struct d8){_mm512_fmadd_pd(_mm512_set1_pd(x), b.v, a.v)};
}

/* ---- AVX2
 * ------------------------------------------------------------------------------- */
#elif defined(__AVX2__)

#define KVA_SIMD_256 1
#define KERNEL_ROWS  6 /* 6 x 2 accumulators of 16 registers */
#define KERNEL_VECS  1

struct v16 {
    __m256 a, b;
};
struct w16 {
    __m256i a, b;
};
#define V2(x, y)     ((struct v16){(x), (y)})

INLINE struct v16 v_zero(void)
{
    return V2(_mm256_setzero_ps(), _mm256_setzero_ps());
}
INLINE struct v16 v_set1(float x)
{
    return V2(_mm256_set1_ps(x), _mm256_set1_ps(x));
}
INLINE struct v16 v_load(const float *p)
{
    return V2(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
}
INLINE void v_store(float *p, struct v16 a)
{
    _mm256_storeu_ps(p, a.a);
    _mm256_storeu_ps(p + 8, a.b);
}
INLINE __m256i lanes_below(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE struct v16 v_load_n(const float *p, int n)
{
    return V2(_mm256_maskload_ps(p, lanes_below(n)),
              _mm256_maskload_ps(p + 8, lanes_below(n - 8)));
}
INLINE void v_store_n(float *p, struct v16 a, int n)
{
    _mm256_maskstore_ps(p, lanes_below(n), a.a);
    _mm256_maskstore_ps(p + 8, lanes_below(n - 8), a.b);
}
INLINE struct v16 v_add(struct v16 a, struct v16 b)
{
    return V2(_mm256_add_ps(a.a, b.a), _mm256_add_ps(a.b, b.b));
}
INLINE struct v16 v_sub(struct v16 a, struct v16 b)
{
    return V2(_mm256_sub_ps(a.a, b.a), _mm256_sub_ps(a.b, b.b));
}
INLINE struct v16 v_mul(struct v16 a, struct v16 b)
{
    return V2(_mm256_mul_ps(a.a, b.a), _mm256_mul_ps(a.b, b.b));
}
INLINE struct v16 v_div(struct v16 a, struct v16 b)
{
    return V2(_mm256_div_ps(a.a, b.a), _mm256_div_ps(a.b, b.b));
}
INLINE struct v16 v_fma(struct v16 a, struct v16 b, struct v16 c)
{
    return V2(_mm256_fmadd_ps(a.a, b.a, c.a), _mm256_fmadd_ps(a.b, b.b, c.b));
}
/* a > b ? a : b, so a NaN in b survives; likewise v_min */
INLINE struct v16 v_max(struct v16 a, struct v16 b)
{
    return V2(_mm256_max_ps(a.a, b.a), _mm256_max_ps(a.b, b.b));
}
INLINE struct v16 v_min(struct v16 a, struct v16 b)
{
    return V2(_mm256_min_ps(a.a, b.a), _mm256_min_ps(a.b, b.b));
}
INLINE __m256 lanes_of(uint32_t bits)
{
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);

    return _mm256_castsi256_ps(
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)bits), bit), bit));
}
/* lane i of a where bit i of bits is set, else of b */
INLINE struct v16 v_select(uint32_t bits, struct v16 a, struct v16 b)
{
    return V2(_mm256_blendv_ps(b.a, a.a, lanes_of(bits)),
              _mm256_blendv_ps(b.b, a.b, lanes_of(bits >> 8)));
}
INLINE struct v16 v_f16(const uint16_t *p)
{
    const __m128i *q = (const __m128i *)(const void *)p;

    return V2(_mm256_cvtph_ps(_mm_loadu_si128(q)),
              _mm256_cvtph_ps(_mm_loadu_si128(q + 1)));
}
INLINE struct v16 v_bf16(const uint16_t *p)
{
    const __m128i *q = (const __m128i *)(const void *)p;
    __m256i a = _mm256_cvtepu16_epi32(_mm_loadu_si128(q));
    __m256i b = _mm256_cvtepu16_epi32(_mm_loadu_si128(q + 1));

    return V2(_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)),
              _mm256_castsi256_ps(_mm256_slli_epi32(b, 16)));
}
INLINE struct v16 v_i8(const int8_t *p)
{
    __m256i a = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    __m256i b =
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(p + 8)));

    return V2(_mm256_cvtepi32_ps(a), _mm256_cvtepi32_ps(b));
}
INLINE struct w16 w_load(const void *p)
{
    const __m256i *q = (const __m256i *)p;

    return (struct w16){_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
/* nibble i (0..7) of each word, minus bias, as float */
INLINE struct v16 v_nibble(struct w16 w, int i, int bias)
{
    const __m256i low = _mm256_set1_epi32(15), off = _mm256_set1_epi32(bias);
    __m256i a = _mm256_and_si256(_mm256_srli_epi32(w.a, 4 * i), low);
    __m256i b = _mm256_and_si256(_mm256_srli_epi32(w.b, 4 * i), low);

    if (bias) {
        a = _mm256_sub_epi32(a, off);
        b = _mm256_sub_epi32(b, off);
    }
    return V2(_mm256_cvtepi32_ps(a), _mm256_cvtepi32_ps(b));
}
/* 2^(n>>1) and 2^(n - (n>>1)) are normal numbers for |n| <= 252: the first product is
 * exact */
INLINE __m256 scale8(__m256 p, __m256 n)
{
    __m256i i = _mm256_cvtps_epi32(n), one = _mm256_set1_epi32(127);
    __m256i h = _mm256_srai_epi32(i, 1);
    __m256i a = _mm256_slli_epi32(_mm256_add_epi32(h, one), 23);
    __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(i, h), one), 23);

    return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(a)),
                         _mm256_castsi256_ps(b));
}
/* p * 2^n, one rounding; n a whole number in float */
INLINE struct v16 v_scale(struct v16 p, struct v16 n)
{
    return V2(scale8(p.a, n.a), scale8(p.b, n.b));
}
/* bit i: pos[i] <= limit */
INLINE uint32_t v_mask_le(const int32_t *pos, int32_t limit)
{
    const __m256i *q = (const __m256i *)(const void *)pos;
    __m256i m = _mm256_set1_epi32(limit);
    __m256i a = _mm256_cmpgt_epi32(_mm256_loadu_si256(q), m);
    __m256i b = _mm256_cmpgt_epi32(_mm256_loadu_si256(q + 1), m);
    uint32_t gt = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(a)) |
                  (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(b)) << 8;

    return ~gt & 0xffffu;
}
INLINE __m256 v_half(struct v16 a, int hi)
{
    return hi ? a.b : a.a;
}

#define DOUBLE_ROWS 4 /* 4 x 2 accumulators of 16 registers */
struct d8 {
    __m256d a, b;
};
INLINE struct d8 d_load(const double *p)
{
    return (struct d8){_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)};
}
INLINE void d_store(double *p, struct d8 a)
{
    _mm256_storeu_pd(p, a.a);
    _mm256_storeu_pd(p + 4, a.b);
}
INLINE struct d8 d_add_scaled(struct d8 a, double x, struct d8 b)
{
    const __m256d s = _mm256_set1_pd(x);

    return (struct d8){_mm256_fmadd_pd(s, b.a, a.a), _mm256_fmadd_pd(s, b.b, a.b)};
}

/* ---- plain C
 * ---------------------------------------------------------------------------- */
#else

#define KVA_SIMD_1  1
#define KERNEL_ROWS 4
#define KERNEL_VECS 1

struct v16 {
    float f[16];
};
struct w16 {
    uint32_t u[16];
};
#define LANES(expr)                                                                      \
    do {                                                                                 \
        struct v16 y_;                                                                   \
        for (int i_ = 0; i_ < 16; i_++)                                                  \
            y_.f[i_] = (expr);                                                           \
        return y_;                                                                       \
    } while (0)

INLINE struct v16 v_zero(void)
{
    LANES(0.0f);
}
INLINE struct v16 v_set1(float x)
{
    LANES(x);
}
INLINE struct v16 v_load(const float *p)
{
    LANES(p[i_]);
}
INLINE void v_store(float *p, struct v16 a)
{
    memcpy(p, a.f, sizeof a.f);
}
INLINE struct v16 v_load_n(const float *p, int n)
{
    LANES(i_ < n ? p[i_] : 0.0f);
}
INLINE void v_store_n(float *p, struct v16 a, int n)
{
    memcpy(p, a.f, (size_t)n * sizeof *p);
}
INLINE struct v16 v_add(struct v16 a, struct v16 b)
{
    LANES(a.f[i_] + b.f[i_]);
}
INLINE struct v16 v_sub(struct v16 a, struct v16 b)
{
    LANES(a.f[i_] - b.f[i_]);
}
INLINE struct v16 v_mul(struct v16 a, struct v16 b)
{
    LANES(a.f[i_] * b.f[i_]);
}
INLINE struct v16 v_div(struct v16 a, struct v16 b)
{
    LANES(a.f[i_] / b.f[i_]);
}
INLINE struct v16 v_fma(struct v16 a, struct v16 b, struct v16 c)
{
    LANES(fmaf(a.f[i_], b.f[i_], c.f[i_]));
}
/* a > b ? a : b, so a NaN in b survives; likewise v_min */
INLINE struct v16 v_max(struct v16 a, struct v16 b)
{
    LANES(a.f[i_] > b.f[i_] ? a.f[i_] : b.f[i_]);
}
INLINE struct v16 v_min(struct v16 a, struct v16 b)
{
    LANES(a.f[i_] < b.f[i_] ? a.f[i_] : b.f[i_]);
}
/* lane i of a where bit i of bits is set, else of b */
INLINE struct v16 v_select(uint32_t bits, struct v16 a, struct v16 b)
{
    LANES(bits >> i_ & 1 ? a.f[i_] : b.f[i_]);
}
INLINE struct v16 v_f16(const uint16_t *p)
{
    LANES(_cvtsh_ss(p[i_]));
}
INLINE float bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}
INLINE struct v16 v_bf16(const uint16_t *p)
{
    LANES(bf16_to_f32(p[i_]));
}
INLINE struct v16 v_i8(const int8_t *p)
{
    LANES((float)p[i_]);
}
INLINE struct w16 w_load(const void *p)
{
    struct w16 w;

    memcpy(w.u, p, sizeof w.u);
    return w;
}
/* nibble i (0..7) of each word, minus bias, as float */
INLINE struct v16 v_nibble(struct w16 w, int i, int bias)
{
    LANES((float)((int)(w.u[i_] >> 4 * i & 15) - bias));
}
/* 2^(n>>1) and 2^(n - (n>>1)) are normal numbers for |n| <= 252: the first product is
 * exact */
INLINE float scale1(float p, float n)
{
    int32_t i = n == n ? (int32_t)n : 0, h = i >> 1;
    uint32_t a = (uint32_t)(h + 127) << 23, b = (uint32_t)(i - h + 127) << 23;
    float fa, fb;

    memcpy(&fa, &a, sizeof fa);
    memcpy(&fb, &b, sizeof fb);
    return p * fa * fb;
}
/* p * 2^n, one rounding; n a whole number in float */
INLINE struct v16 v_scale(struct v16 p, struct v16 n)
{
    LANES(scale1(p.f[i_], n.f[i_]));
}
/* bit i: pos[i] <= limit */
INLINE uint32_t v_mask_le(const int32_t *pos, int32_t limit)
{
    uint32_t m = 0;

    for (int i = 0; i < 16; i++)
        m |= (uint32_t)(pos[i] <= limit) << i;
    return m;
}

#define DOUBLE_ROWS 4
struct d8 {
    double f[8];
};
INLINE struct d8 d_load(const double *p)
{
    struct d8 a;

    memcpy(a.f, p, sizeof a.f);
    return a;
}
INLINE void d_store(double *p, struct d8 a)
{
    memcpy(p, a.f, sizeof a.f);
}
INLINE struct d8 d_add_scaled(struct d8 a, double x, struct d8 b)
{
    for (int i = 0; i < 8; i++)
        a.f[i] = fma(x, b.f[i], a.f[i]);
    return a;
}
#endif

/* ---- the same in all three
 * --------------------------------------------------------------- */

#if defined(KVA_SIMD_1)
INLINE float v_sum(struct v16 a)
{
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            a.f[i] = a.f[i] + a.f[i + half];
    return a.f[0];
}
INLINE float v_top(struct v16 a)
{
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            a.f[i] = a.f[i] > a.f[i + half] ? a.f[i] : a.f[i + half];
    return a.f[0];
}
#else
INLINE float v_sum(struct v16 a)
{
    __m256 e = _mm256_add_ps(v_half(a, 0), v_half(a, 1));
    __m128 f = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    __m128 g = _mm_add_ps(f, _mm_movehl_ps(f, f));

    return _mm_cvtss_f32(_mm_add_ss(g, _mm_shuffle_ps(g, g, 1)));
}
INLINE float v_top(struct v16 a)
{
    __m256 e = _mm256_max_ps(v_half(a, 0), v_half(a, 1));
    __m128 f = _mm_max_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    __m128 g = _mm_max_ps(f, _mm_movehl_ps(f, f));

    return _mm_cvtss_f32(_mm_max_ss(g, _mm_shuffle_ps(g, g, 1)));
}
#endif

/* exp(x) = 2^n e^r, n = rint(x log2 e), r = x - n ln 2 with ln 2 in two parts, e^r by its
 * series to degree 7: the truncation is 0.35^8/8! = 5e-9, a twelfth of half an ulp. Below
 * -104 the result rounds to 0, above 89 to infinity; the clamps keep n small and let a
 * NaN pass. */
#define EXP_LO     (-110.0f)
#define EXP_HI     90.0f
#define EXP_LOG2E  1.44269504f
#define EXP_MAGIC  12582912.0f /* 1.5 * 2^23: adding it rounds to a whole number */
#define EXP_LN2_HI 0.693145751953125f
#define EXP_LN2_LO 1.42860682e-6f
#define EXP_SERIES(FMA, K, r)                                                            \
    FMA(FMA(FMA(FMA(FMA(FMA(FMA(K(1.0f / 5040), r, K(1.0f / 720)), r, K(1.0f / 120)), r, \
                        K(1.0f / 24)),                                                   \
                    r, K(1.0f / 6)),                                                     \
                r, K(0.5f)),                                                             \
            r, K(1.0f)),                                                                 \
        r, K(1.0f))

INLINE struct v16 v_exp(struct v16 x)
{
    struct v16 magic = v_set1(EXP_MAGIC), n, r;

    x = v_min(v_set1(EXP_HI), v_max(v_set1(EXP_LO), x));
    n = v_sub(v_fma(x, v_set1(EXP_LOG2E), magic), magic);
    r = v_fma(n, v_set1(-EXP_LN2_HI), x);
    r = v_fma(n, v_set1(-EXP_LN2_LO), r);
    return v_scale(EXP_SERIES(v_fma, v_set1, r), n);
}

/* the same on one number */
INLINE float exp_one(float x)
{
    float n, r, fa, fb;
    int32_t i, h;
    uint32_t a, b;

    x = EXP_LO > x ? EXP_LO : x;
    x = EXP_HI < x ? EXP_HI : x;
    n = fmaf(x, EXP_LOG2E, EXP_MAGIC) - EXP_MAGIC;
    r = fmaf(n, -EXP_LN2_HI, x);
    r = fmaf(n, -EXP_LN2_LO, r);
    i = n == n ? (int32_t)n : 0;
    h = i >> 1;
    a = (uint32_t)(h + 127) << 23;
    b = (uint32_t)(i - h + 127) << 23;
    memcpy(&fa, &a, sizeof fa);
    memcpy(&fb, &b, sizeof fb);
    return EXP_SERIES(fmaf, , r) * fa * fb;
}

#endif
