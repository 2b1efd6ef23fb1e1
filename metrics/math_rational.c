/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math_rational.c - exact fractions of 128-bit integers; nothing overflows silently.
 *
 *   a/b + c/d = (a (d/g) + c (b/g)) / (b (d/g)),  g = gcd(b, d)
 *   a/b * c/d = (a/gcd(a,d)) (c/gcd(c,b)) / ...   crosswise reduced, so lowest terms
 *
 * Magnitudes stay below 2^126, so that negation and one addition are always defined. */
#include "metrics/math.h"

static const kva_math_int most = (kva_math_int)1 << 126;

static kva_math_int size_of(kva_math_int x)
{
    return x < 0 ? -x : x;
}

static int low_zeros(kva_math_int x)
{
    uint64_t low = (uint64_t)x;

    return low ? __builtin_ctzll(low) : 64 + __builtin_ctzll((uint64_t)(x >> 64));
}

/* Binary algorithm; a, b >= 0. */
static kva_math_int gcd(kva_math_int a, kva_math_int b)
{
    int shift;

    if (a == 0 || b == 0)
        return a + b;
    shift = low_zeros(a | b);
    a >>= low_zeros(a);
    while (b) {
        b >>= low_zeros(b);
        if (a > b) {
            kva_math_int t = a;

            a = b;
            b = t;
        }
        b -= a;
    }
    return a << shift;
}

static bool fits(kva_math_int x)
{
    return x < most && x > -most;
}

static bool times(kva_math_int a, kva_math_int b, kva_math_int *out)
{
    return !__builtin_mul_overflow(a, b, out) && fits(*out);
}

bool kva_rational_make(kva_math_int n, kva_math_int d, struct kva_rational *out)
{
    kva_math_int g;

    if (d == 0 || !fits(n) || !fits(d))
        return false;
    g = gcd(size_of(n), size_of(d));
    if (d < 0)
        g = -g;
    *out = (struct kva_rational){n / g, d / g};
    return true;
}

bool kva_rational_add(struct kva_rational a, struct kva_rational b,
                      struct kva_rational *out)
{
    kva_math_int g = gcd(a.d, b.d), x, y, d;

    return times(a.n, b.d / g, &x) && times(b.n, a.d / g, &y) &&
           times(a.d, b.d / g, &d) && kva_rational_make(x + y, d, out);
}

bool kva_rational_mul(struct kva_rational a, struct kva_rational b,
                      struct kva_rational *out)
{
    kva_math_int g = gcd(size_of(a.n), b.d), h = gcd(size_of(b.n), a.d), n, d;

    if (!times(a.n / g, b.n / h, &n) || !times(a.d / h, b.d / g, &d))
        return false;
    *out = (struct kva_rational){n, d};
    return true;
}

bool kva_rational_inverse(struct kva_rational a, struct kva_rational *out)
{
    return kva_rational_make(a.d, a.n, out);
}

bool kva_rational_power(struct kva_rational a, int e, struct kva_rational *out)
{
    struct kva_rational r = {1, 1};

    if (e < 0 && !kva_rational_inverse(a, &a))
        return false;
    /* a remaining square is needed only while bits of the exponent are left */
    for (unsigned k = (unsigned)(e < 0 ? -e : e); k; k >>= 1) {
        if ((k & 1) && !kva_rational_mul(r, a, &r))
            return false;
        if (k > 1 && !kva_rational_mul(a, a, &a))
            return false;
    }
    *out = r;
    return true;
}

bool kva_rational_same(struct kva_rational a, struct kva_rational b)
{
    return a.n == b.n && a.d == b.d;
}

long double kva_rational_real(struct kva_rational a)
{
    return (long double)a.n / (long double)a.d;
}
