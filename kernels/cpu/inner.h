/* SPDX-License-Identifier: GPL-3.0-or-later */
/* inner.h - the inner kernels, once, in the lanes of simd.h; x_*.c compile it per
 * instruction set.
 *
 * Products keep one float accumulator per output and add inputs in ascending order with
 * fused multiply-add, so neither the lane count nor the blocking can change a bit. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

/* ---- dense product
 * ------------------------------------------------------------------------ */

/* mr <= KERNEL_ROWS rows by nv <= KERNEL_VECS vecs, both known at compile time */
INLINE void block(const int mr, const int nv, const float *x, size_t xs, int kn,
                  const float *w, size_t ws, size_t wv, float *y, size_t ys, int load,
                  int last)
{
    struct v16 acc[KERNEL_ROWS][KERNEL_VECS];
    /* three rows share a pointer: x0, x0 + xs, x0 + 2 xs */
    const float *x0 = x, *x1 = x + 3 * xs, *x2 = x + 6 * xs, *x3 = x + 9 * xs;
    const float *w1 = w + wv;

#pragma GCC unroll 12
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 2
        for (int c = 0; c < nv; c++) {
            acc[r][c] = v_zero();
            if (load)
                acc[r][c] = c + 1 < nv || last == 16
                                ? v_load(y + (size_t)r * ys + 16 * c)
                                : v_load_n(y + (size_t)r * ys + 16 * c, last);
        }
    for (int k = 0; k < kn; k++) {
        struct v16 b[KERNEL_VECS];

#pragma GCC unroll 2
        for (int c = 0; c < nv; c++)
            b[c] = v_load(c ? w1 : w);
#pragma GCC unroll 12
        for (int r = 0; r < mr; r++) {
            const float *xr = r < 3 ? x0 : r < 6 ? x1 : r < 9 ? x2 : x3;
            struct v16 a = v_set1(r % 3 == 0 ? xr[0] : r % 3 == 1 ? xr[xs] : xr[2 * xs]);

#pragma GCC unroll 2
            for (int c = 0; c < nv; c++)
                acc[r][c] = v_fma(a, b[c], acc[r][c]);
        }
        w += ws;
        w1 += ws;
        x0++;
        x1++;
        x2++;
        x3++;
    }
#pragma GCC unroll 12
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 2
        for (int c = 0; c < nv; c++) {
            if (c + 1 < nv || last == 16)
                v_store(y + (size_t)r * ys + 16 * c, acc[r][c]);
            else
                v_store_n(y + (size_t)r * ys + 16 * c, acc[r][c], last);
        }
}

#define BLOCK_CASE(n)                                                                    \
    case n:                                                                              \
        block(n, NV, x, xs, kn, w, ws, wv, y, ys, load, last);                           \
        break;
#if KERNEL_ROWS == 12
#define BLOCK_CASES                                                                      \
    BLOCK_CASE(1)                                                                        \
    BLOCK_CASE(2)                                                                        \
    BLOCK_CASE(3)                                                                        \
    BLOCK_CASE(4)                                                                        \
    BLOCK_CASE(5)                                                                        \
    BLOCK_CASE(6)                                                                        \
    BLOCK_CASE(7) BLOCK_CASE(8) BLOCK_CASE(9) BLOCK_CASE(10) BLOCK_CASE(11) BLOCK_CASE(12)
#elif KERNEL_ROWS == 6
#define BLOCK_CASES                                                                      \
    BLOCK_CASE(1)                                                                        \
    BLOCK_CASE(2) BLOCK_CASE(3) BLOCK_CASE(4) BLOCK_CASE(5) BLOCK_CASE(6)
#else
#define BLOCK_CASES BLOCK_CASE(1) BLOCK_CASE(2) BLOCK_CASE(3) BLOCK_CASE(4)
#endif

#define NV 1
static void block_1(int mr, const float *x, size_t xs, int kn, const float *w, size_t ws,
                    size_t wv, float *y, size_t ys, int load, int last)
{
    switch (mr) {
        BLOCK_CASES
    }
}
#undef NV
#if KERNEL_VECS == 2
#define NV 2
static void block_2(int mr, const float *x, size_t xs, int kn, const float *w, size_t ws,
                    size_t wv, float *y, size_t ys, int load, int last)
{
    switch (mr) {
        BLOCK_CASES
    }
}
#undef NV
#endif

static void product(const float *x, size_t xs, int rows, int kn, const float *w,
                    size_t ws, size_t wv, int vecs, float *y, size_t ys, int load,
                    int last)
{
    /* blocks as equal as can be: 13 rows are 7 + 6, not 12 + 1 */
    int blocks = (rows + KERNEL_ROWS - 1) / KERNEL_ROWS;

    for (int c = 0; c < vecs;) {
        int nv = vecs - c >= KERNEL_VECS ? KERNEL_VECS : 1;
        int lanes = c + nv == vecs ? last : 16, r = 0;

        for (int b = 0; b < blocks; b++) {
            int mr = (rows - r + blocks - b - 1) / (blocks - b);
            const float *xr = x + (size_t)r * xs;
            float *yr = y + (size_t)r * ys + 16 * c;

#if KERNEL_VECS == 2
            if (nv == 2)
                block_2(mr, xr, xs, kn, w + c * wv, ws, wv, yr, ys, load, lanes);
            else
#endif
                block_1(mr, xr, xs, kn, w + c * wv, ws, wv, yr, ys, load, lanes);
            r += mr;
        }
        c += nv;
    }
}

/* ---- packed weights
 * ------------------------------------------------------------------------ */

#define QUANTISED(bits) ((bits) == 4 || (bits) == 8)

INLINE struct v16 scales(const int wide, const uint8_t *p)
{
    return wide ? v_load((const float *)(const void *)p)
                : v_f16((const uint16_t *)(const void *)p);
}

INLINE struct v16 plain(const int bits, const uint8_t *p)
{
    return bits == 32   ? v_load((const float *)(const void *)p)
           : bits == 16 ? v_f16((const uint16_t *)(const void *)p)
                        : v_bf16((const uint16_t *)(const void *)p);
}

/* Multiply, round, add, round (ruling R2). Where there is a minimum the product is exact
 * (scales of 11 or 17 bits by values of 5), its rounding does nothing and one fused
 * operation gives the same bits; the tests compare with kva_dequant. */
INLINE struct v16 weight(const int min, struct v16 q, struct v16 d, struct v16 m)
{
    return min ? v_fma(d, q, m) : v_mul(d, q);
}

/* Fetches what lies `ahead` bytes further on, the next pair of panels: a pair is too
 * short for the hardware to notice the stream while the rows are computed. */
INLINE void unpack_kind(const int bits, const int min, const int wide, const int blk,
                        const uint8_t *p, size_t ahead, int k0, int kn, float *dst)
{
    const size_t bytes = KVA_PACK_BYTES(bits, min, wide, blk);
    const int values = bits * blk * 2;

    p += (size_t)(k0 / blk) * bytes;
    if (!QUANTISED(bits)) {
        for (int k = 0; k < kn; k++)
            v_store(dst + 16 * k, plain(bits, p + (size_t)k * bytes));
        return;
    }
    for (int k = 0; k < kn; k += blk, p += bytes, dst += 16 * blk) {
        struct v16 d = scales(wide, p + values), m = d;

        for (size_t a = 0; a < bytes; a += 64)
            _mm_prefetch((const char *)p + ahead + a, _MM_HINT_T1);
        if (min)
            m = scales(wide, p + values + (wide ? 64 : 32));
        if (bits == 4) {
            for (int g = 0; g < blk / 8; g++) {
                struct w16 w = w_load(p + 64 * g);

#pragma GCC unroll 8
                for (int i = 0; i < 8; i++)
                    v_store(dst + 16 * (8 * g + i),
                            weight(min, v_nibble(w, i, min ? 0 : 8), d, m));
            }
        } else {
            for (int i = 0; i < blk; i++)
                v_store(dst + 16 * i,
                        weight(min, v_i8((const int8_t *)p + 16 * i), d, m));
        }
    }
}

static void unpack(const struct kva_weight *w, int panel, int k0, int kn, float *dst)
{
    const uint8_t *p = w->packed + (size_t)panel * w->panel_bytes;

    switch (w->kind) {
#define KVA_X(kind, bits, min, wide, blk)                                                \
    case KVA_PACK_##kind:                                                                \
        unpack_kind(bits, min, wide, blk, p, 2 * w->panel_bytes, k0, kn, dst);           \
        break;
        KVA_PACK_MAP(KVA_X)
#undef KVA_X
    case KVA_PACK_KINDS:
        break;
    }
}

#if defined(KVA_SIMD_1) /* plain C always goes through unpack */
#define PRODUCT_FEW   NULL
#define FEW_ROWS_MOST 0
#else
#define PRODUCT_FEW product_few
/* FEW_MOST rows share the unpacked weights; beyond FEW_ROWS_MOST unpacking once into
 * scratch wins (measured on waves of the real model) */
#if defined(KVA_SIMD_512)
#define FEW_MOST      12
#define FEW_ROWS_MOST 48
#else
#define FEW_MOST      4
#define FEW_ROWS_MOST 8
#endif

/* np panels by mr rows, weights never leave registers. */
INLINE void few_kind(const int bits, const int min, const int wide, const int blk,
                     const int np, const int mr, const uint8_t *p, size_t pb,
                     size_t ahead, int in, const float *x, size_t xs, float *y, size_t ys,
                     int last)
{
    const size_t bytes = KVA_PACK_BYTES(bits, min, wide, blk);
    const int values = bits * blk * 2;
    /* three rows share a pointer, as in block() */
    const float *x0 = x, *x1 = x + 3 * xs, *x2 = x + 6 * xs, *x3 = x + 9 * xs;
    struct v16 acc[4][FEW_MOST], d[4], m[4];

#define FEW_X(r) (r < 3 ? x0 : r < 6 ? x1 : r < 9 ? x2 : x3)[(size_t)(r % 3) * xs]
#pragma GCC unroll 4
    for (int c = 0; c < np; c++)
#pragma GCC unroll 12
        for (int r = 0; r < mr; r++)
            acc[c][r] = v_zero();
    for (int k = 0; k < in; k += blk, p += bytes) {
        if (QUANTISED(bits)) {
#pragma GCC unroll 4
            for (int c = 0; c < np; c++) {
                d[c] = scales(wide, p + c * pb + values);
                m[c] = min ? scales(wide, p + c * pb + values + (wide ? 64 : 32)) : d[c];
                for (size_t a = 0; a < bytes; a += 64)
                    _mm_prefetch((const char *)p + c * pb + ahead + a, _MM_HINT_T0);
            }
        }
        if (bits == 4) {
            for (int g = 0; g < blk / 8; g++) {
                struct w16 w[4];

#pragma GCC unroll 4
                for (int c = 0; c < np; c++)
                    w[c] = w_load(p + c * pb + 64 * g);
#pragma GCC unroll 8
                for (int i = 0; i < 8; i++, x0++, x1++, x2++, x3++) {
                    struct v16 f[4];

#pragma GCC unroll 4
                    for (int c = 0; c < np; c++)
                        f[c] = weight(min, v_nibble(w[c], i, min ? 0 : 8), d[c], m[c]);
#pragma GCC unroll 12
                    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
                        for (int c = 0; c < np; c++)
                            acc[c][r] = v_fma(v_set1(FEW_X(r)), f[c], acc[c][r]);
                }
            }
        } else {
#pragma GCC unroll 4
            for (int i = 0; i < blk; i++, x0++, x1++, x2++, x3++) {
                struct v16 f[4];

#pragma GCC unroll 4
                for (int c = 0; c < np; c++)
                    f[c] = bits == 8
                               ? weight(min, v_i8((const int8_t *)p + c * pb + 16 * i),
                                        d[c], m[c])
                               : plain(bits, p + c * pb);
#pragma GCC unroll 12
                for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
                    for (int c = 0; c < np; c++)
                        acc[c][r] = v_fma(v_set1(FEW_X(r)), f[c], acc[c][r]);
            }
        }
    }
#pragma GCC unroll 4
    for (int c = 0; c < np; c++)
#pragma GCC unroll 12
        for (int r = 0; r < mr; r++) {
            if (c + 1 < np || last == 16)
                v_store(y + (size_t)r * ys + 16 * c, acc[c][r]);
            else
                v_store_n(y + (size_t)r * ys + 16 * c, acc[c][r], last);
        }
#undef FEW_X
}

/* panels side by side: as many as accumulators, scales and minima leave registers for */
#if defined(KVA_SIMD_512)
#define FEW_WIDE(mr) ((mr) <= 2 ? 4 : (mr) <= 8 ? 2 : 1)
#else
#define FEW_WIDE(mr) ((mr) == 1 ? 2 : 1)
#endif

#define FEW_ROWS(mr, bits, min, wide, blk)                                               \
    for (int c = panel0; c < panel1;) {                                                  \
        const uint8_t *p = w->packed + (size_t)c * w->panel_bytes;                       \
        int n = panel1 - c >= FEW_WIDE(mr) ? FEW_WIDE(mr) : 1;                           \
        int last = c + n == w->panels ? w->out - 16 * (w->panels - 1) : 16;              \
        if (n == FEW_WIDE(mr))                                                           \
            few_kind(bits, min, wide, blk, FEW_WIDE(mr), mr, p, w->panel_bytes,          \
                     (size_t)n * w->panel_bytes, w->in, x, xs, y + 16 * c, ys, last);    \
        else                                                                             \
            few_kind(bits, min, wide, blk, 1, mr, p, w->panel_bytes, w->panel_bytes,     \
                     w->in, x, xs, y + 16 * c, ys, last);                                \
        c += n;                                                                          \
    }                                                                                    \
    break;
#if FEW_MOST == 12
#define FEW_MORE(bits, min, wide, blk)                                                   \
    case 8:                                                                              \
        FEW_ROWS(8, bits, min, wide, blk)                                                \
    case 12:                                                                             \
        FEW_ROWS(12, bits, min, wide, blk)
#else
#define FEW_MORE(bits, min, wide, blk)
#endif

/* rows: 1, 2, 3, 4; 8 and 12 where registers allow */
static void few_rows(const struct kva_weight *w, int panel0, int panel1, const float *x,
                     size_t xs, int rows, float *y, size_t ys)
{
    switch (w->kind) {
#define KVA_X(kind, bits, min, wide, blk)                                                \
    case KVA_PACK_##kind:                                                                \
        switch (rows) {                                                                  \
        case 1:                                                                          \
            FEW_ROWS(1, bits, min, wide, blk)                                            \
        case 2:                                                                          \
            FEW_ROWS(2, bits, min, wide, blk)                                            \
        case 3:                                                                          \
            FEW_ROWS(3, bits, min, wide, blk)                                            \
        case 4:                                                                          \
            FEW_ROWS(4, bits, min, wide, blk)                                            \
            FEW_MORE(bits, min, wide, blk)                                               \
        }                                                                                \
        break;
        KVA_PACK_MAP(KVA_X)
#undef KVA_X
    case KVA_PACK_KINDS:
        break;
    }
}

/* Any number of rows in groups; where a group would be left with a remainder it overlaps
 * the one before it, and those rows are stored twice with the same bits. */
static void product_few(const struct kva_weight *w, int panel0, int panel1,
                        const float *x, size_t xs, int rows, float *y, size_t ys)
{
    int r = 0;

    while (r < rows) {
        int left = rows - r,
            n = left >= FEW_MOST ? FEW_MOST
                : left <= 4      ? left
                                 : 4,
            at = r;

        if (FEW_MOST == 12 && n < FEW_MOST && left > 4) {
            if (left > 8 && rows >= 12) {
                n = 12;
                at = rows - 12;
            } else if (left >= 8 || rows >= 8) {
                n = 8;
                at = left >= 8 ? r : rows - 8;
            }
        }
        few_rows(w, panel0, panel1, x + (size_t)at * xs, xs, n, y + (size_t)at * ys, ys);
        r = at + n;
    }
}

#endif

/* ---- attention
 * ------------------------------------------------------------------------------ */

INLINE float one_value(const void *src, enum kva_type type, size_t i)
{
    return type == KVA_F16 ? _cvtsh_ss(((const uint16_t *)src)[i])
                           : ((const float *)src)[i];
}

#if !defined(KVA_SIMD_1)
INLINE __m256 eight_values(const void *src, enum kva_type type, size_t i)
{
    if (type == KVA_F16)
        return _mm256_cvtph_ps(
            _mm_loadu_si128((const __m128i *)(const void *)((const uint16_t *)src + i)));
    return _mm256_loadu_ps((const float *)src + i);
}

/* rows r[0..7] of eight floats -> eight columns at dst, 16 floats apart */
INLINE void transpose8(const __m256 *r, float *dst)
{
    __m256 t[8], u[8];

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        u[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(dst + 16 * i, _mm256_permute2f128_ps(u[i], u[i + 4], 0x20));
        _mm256_storeu_ps(dst + 16 * (i + 4),
                         _mm256_permute2f128_ps(u[i], u[i + 4], 0x31));
    }
}
#endif

/* Pages lie anywhere, so the hardware cannot foresee the next one: the converters ask for
 * it, `n` bytes as they use as many of their own. */
INLINE const char *fetch(const char *next, size_t n)
{
    for (size_t i = 0; i < n; i += 64)
        _mm_prefetch(next + i, _MM_HINT_T0);
    return next + n;
}

INLINE void tile_k_of(enum kva_type type, const void *src, int n, int dim, float *kt,
                      const char *next)
{
    int d0 = 0;

    (void)next;
#if !defined(KVA_SIMD_1)
    d0 = dim & ~7;
    for (int e = 0; e < KVA_PAGE; e += 8)
        for (int d = 0; d < d0; d += 8) {
            __m256 r[8];

            next = fetch(next, type == KVA_F16 ? 128 : 256);
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++)
                r[i] = e + i < n ? eight_values(src, type, (size_t)(e + i) * dim + d)
                                 : _mm256_setzero_ps();
            transpose8(r, kt + ((size_t)(e / 16) * dim + d) * 16 + e % 16);
        }
#endif
    for (int e = 0; e < KVA_PAGE; e++)
        for (int d = d0; d < dim; d++)
            kt[((size_t)(e / 16) * dim + d) * 16 + e % 16] =
                e < n ? one_value(src, type, (size_t)e * dim + d) : 0.0f;
}

static void tile_k(const void *src, enum kva_type type, int n, int dim, float *kt,
                   const void *next)
{
    if (type == KVA_F16)
        tile_k_of(KVA_F16, src, n, dim, kt, next);
    else
        tile_k_of(KVA_F32, src, n, dim, kt, next);
}

INLINE bool tile_v_of(enum kva_type type, const void *src, int n, uint32_t live, int dim,
                      int stride, float *v, const char *next)
{
    struct v16 bad = v_zero();

    for (int e = 0; e < n; e++, v += stride) {
        int d = 0;

        next = fetch(next, (size_t)dim * (type == KVA_F16 ? 2 : 4));
        if (!(live >> e & 1)) {
            memset(v, 0, (size_t)stride * sizeof *v);
            continue;
        }
        for (; d + 16 <= dim; d += 16) {
            size_t at = (size_t)e * dim + d;
            struct v16 a = type == KVA_F16 ? v_f16((const uint16_t *)src + at)
                                           : v_load((const float *)src + at);

            v_store(v + d, a);
            bad = v_fma(a, v_zero(), bad); /* infinity and NaN times 0 is NaN */
        }
        if (d < dim) {
            for (int i = d; i < stride; i++)
                v[i] = i < dim ? one_value(src, type, (size_t)e * dim + i) : 0.0f;
            bad = v_fma(v_load(v + d), v_zero(), bad);
        }
    }
    return v_sum(bad) == 0.0f;
}

static bool tile_v(const void *src, enum kva_type type, int n, uint32_t live, int dim,
                   int stride, float *v, const void *next)
{
    if (type == KVA_F16)
        return tile_v_of(KVA_F16, src, n, live, dim, stride, v, next);
    return tile_v_of(KVA_F32, src, n, live, dim, stride, v, next);
}

/* l adds each page as tree(p[0..15] + p[16..31]): entries that are not visible are zeros
 * in it, so their presence changes nothing. */
static void softmax_page(float *s, int units, float scale, const uint32_t *mask, float *m,
                         float *l, float *o, int stride)
{
    const struct v16 c = v_set1(scale), none = v_set1(-INFINITY);

    for (int u = 0; u < units; u++, s += 32, o += stride) {
        uint32_t bits = mask[u];
        struct v16 s0, s1, mu;
        float top;

        if (!bits) {
            v_store(s, v_zero());
            v_store(s + 16, v_zero());
            continue;
        }
        s0 = v_mul(v_load(s), c);
        s1 = v_mul(v_load(s + 16), c);
        if (bits != UINT32_MAX) {
            s0 = v_select(bits, s0, none);
            s1 = v_select(bits >> 16, s1, none);
        }
        top = v_top(v_max(s0, s1));
        if (top > m[u]) {
            /* exp(-inf) = 0 starts the first page */
            float alpha = exp_one(m[u] - top);

            m[u] = top;
            l[u] *= alpha;
            for (int d = 0; d < stride; d += 16)
                v_store(o + d, v_mul(v_load(o + d), v_set1(alpha)));
        }
        mu = v_set1(m[u]);
        s0 = v_exp(v_sub(s0, mu));
        s1 = v_exp(v_sub(s1, mu));
        if (bits != UINT32_MAX) {
            s0 = v_select(bits, s0, v_zero());
            s1 = v_select(bits >> 16, s1, v_zero());
        }
        l[u] += v_sum(v_add(s0, s1));
        v_store(s, s0);
        v_store(s + 16, s1);
    }
}

static void weights_sum(const float *s, int units, float scale, const uint32_t *mask,
                        const float *m, const float *w, float *y)
{
    struct v16 y0 = v_load(y), y1 = v_load(y + 16);
    const struct v16 c = v_set1(scale);

    for (int u = 0; u < units; u++, s += 32) {
        struct v16 mu = v_set1(m[u]), wu = v_set1(w[u]), p0, p1;

        if (!mask[u])
            continue;
        p0 = v_mul(v_exp(v_sub(v_mul(v_load(s), c), mu)), wu);
        p1 = v_mul(v_exp(v_sub(v_mul(v_load(s + 16), c), mu)), wu);
        y0 = v_add(y0, v_select(mask[u], p0, v_zero()));
        y1 = v_add(y1, v_select(mask[u] >> 16, p1, v_zero()));
    }
    v_store(y, y0);
    v_store(y + 16, y1);
}

static void weights_max(const float *s, int units, float scale, const uint32_t *mask,
                        const float *m, const float *w, float *y)
{
    struct v16 y0 = v_load(y), y1 = v_load(y + 16);
    const struct v16 c = v_set1(scale);

    for (int u = 0; u < units; u++, s += 32) {
        struct v16 mu = v_set1(m[u]), wu = v_set1(w[u]), p0, p1;

        if (!mask[u])
            continue;
        p0 = v_mul(v_exp(v_sub(v_mul(v_load(s), c), mu)), wu);
        p1 = v_mul(v_exp(v_sub(v_mul(v_load(s + 16), c), mu)), wu);
        y0 = v_max(y0, v_select(mask[u], p0, v_zero()));
        y1 = v_max(y1, v_select(mask[u] >> 16, p1, v_zero()));
    }
    v_store(y, y0);
    v_store(y + 16, y1);
}

/* square[x][y] += sum over rows of v[x] v[y] for y <= x and a few beside; v [rows][dim],
 * dim a multiple of eight. Tiles of DOUBLE_ROWS x 8 sums stay in registers, rows
 * ascending. */
static void products(const double *v, int rows, int dim, double *square, int out_dim)
{
    for (int x = 0; x < dim; x += DOUBLE_ROWS)
        for (int y = 0; y < x + DOUBLE_ROWS; y += 8) {
            double tile[DOUBLE_ROWS][8] = {{0}};
            int across = out_dim - y < 8 ? out_dim - y : 8;
            struct d8 acc[DOUBLE_ROWS];

            for (int i = 0; i < DOUBLE_ROWS && x + i < out_dim; i++)
                memcpy(tile[i], square + (size_t)(x + i) * out_dim + y,
                       (size_t)across * sizeof **tile);
            for (int i = 0; i < DOUBLE_ROWS; i++)
                acc[i] = d_load(tile[i]);
            for (int r = 0; r < rows; r++) {
                const double *row = v + (size_t)r * dim;
                const struct d8 b = d_load(row + y);

#pragma GCC unroll 8
                for (int i = 0; i < DOUBLE_ROWS; i++)
                    acc[i] = d_add_scaled(acc[i], row[x + i], b);
            }
            for (int i = 0; i < DOUBLE_ROWS; i++)
                d_store(tile[i], acc[i]);
            for (int i = 0; i < DOUBLE_ROWS && x + i < out_dim; i++)
                memcpy(square + (size_t)(x + i) * out_dim + y, tile[i],
                       (size_t)across * sizeof **tile);
        }
}

/* ---- rows
 * ------------------------------------------------------------------------------------ */

static float dot(const float *x, const float *y, int n)
{
    struct v16 acc = v_zero();
    int i = 0;

    for (; i + 16 <= n; i += 16)
        acc = v_fma(v_load(x + i), v_load(y + i), acc);
    if (i < n)
        acc = v_fma(v_load_n(x + i, n - i), v_load_n(y + i, n - i), acc);
    return v_sum(acc);
}

static float absolute(const float *x, int n)
{
    struct v16 acc = v_zero(), v;
    int i = 0;

    for (; i + 16 <= n; i += 16) {
        v = v_load(x + i);
        acc = v_add(acc, v_max(v, v_sub(v_zero(), v)));
    }
    if (i < n) {
        v = v_load_n(x + i, n - i);
        acc = v_add(acc, v_max(v, v_sub(v_zero(), v)));
    }
    return v_sum(acc);
}

static float distance2(const float *x, const float *y, int n)
{
    struct v16 acc = v_zero(), d;
    int i = 0;

    for (; i + 16 <= n; i += 16) {
        d = v_sub(v_load(x + i), v_load(y + i));
        acc = v_fma(d, d, acc);
    }
    if (i < n) {
        d = v_sub(v_load_n(x + i, n - i), v_load_n(y + i, n - i));
        acc = v_fma(d, d, acc);
    }
    return v_sum(acc);
}

static void rmsnorm(const float *x, const float *w, float eps, int dim, float *y)
{
    float r = 1.0f / sqrtf(dot(x, x, dim) / (float)dim + eps);

    for (int i = 0; i < dim; i++)
        y[i] = x[i] * r * w[i];
}

static void silu_mul(const float *gate, const float *up, size_t n, float *y)
{
    const struct v16 one = v_set1(1.0f), zero = v_zero();

    for (size_t i = 0; i < n; i += 16) {
        int k = n - i < 16 ? (int)(n - i) : 16;
        struct v16 g = k == 16 ? v_load(gate + i) : v_load_n(gate + i, k);
        struct v16 u = k == 16 ? v_load(up + i) : v_load_n(up + i, k);
        struct v16 e = v_exp(v_sub(zero, g));
        struct v16 r = v_mul(v_div(g, v_add(one, e)), u);

        if (k == 16)
            v_store(y + i, r);
        else
            v_store_n(y + i, r, k);
    }
}

static void add(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

/* 24 (AVX-512) or 12 (AVX2) independent chains: what the machine can do at best. Lanes
 * start apart, or the compiler merges equal chains. */
static double peak(long loops)
{
    struct v16 acc[KERNEL_ROWS][KERNEL_VECS], a, b;
    float start[16 * KERNEL_ROWS * KERNEL_VECS];
    double sum = 0;

    for (int i = 0; i < 16 * KERNEL_ROWS * KERNEL_VECS; i++)
        start[i] = 1.0f / (float)(i + 3);
    a = v_load(start);
    b = v_load(start + 16);
#pragma GCC unroll 12
    for (int r = 0; r < KERNEL_ROWS; r++)
#pragma GCC unroll 2
        for (int c = 0; c < KERNEL_VECS; c++)
            acc[r][c] = v_load(start + 16 * (r * KERNEL_VECS + c));
    for (long i = 0; i < loops; i++) {
#pragma GCC unroll 12
        for (int r = 0; r < KERNEL_ROWS; r++)
#pragma GCC unroll 2
            for (int c = 0; c < KERNEL_VECS; c++)
                acc[r][c] = v_fma(acc[r][c], a, b);
    }
    for (int r = 0; r < KERNEL_ROWS; r++)
        for (int c = 0; c < KERNEL_VECS; c++)
            sum += (double)v_sum(acc[r][c]);
    return sum;
}

#define KERNELS(isa)                                                                     \
    const struct kva_cpu_kernels kva_cpu_##isa = {                                       \
        .name = #isa,                                                                    \
        .product = product,                                                              \
        .product_few = PRODUCT_FEW,                                                      \
        .few_rows = FEW_ROWS_MOST,                                                       \
        .unpack = unpack,                                                                \
        .tile_k = tile_k,                                                                \
        .tile_v = tile_v,                                                                \
        .softmax_page = softmax_page,                                                    \
        .weights_sum = weights_sum,                                                      \
        .weights_max = weights_max,                                                      \
        .products = products,                                                            \
        .rmsnorm = rmsnorm,                                                              \
        .silu_mul = silu_mul,                                                            \
        .add = add,                                                                      \
        .dot = dot,                                                                      \
        .absolute = absolute,                                                            \
        .distance2 = distance2,                                                          \
        .peak = peak,                                                                    \
        .peak_flops = KERNEL_ROWS * KERNEL_VECS * 32,                                    \
    }
