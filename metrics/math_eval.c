/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math_eval.c - values of expressions: exact rationals as long as they last, complex
 * long doubles always.
 *
 * noise bounds what rounding can have left of terms that cancel: a sum adds 2^-60 of its
 * largest term, a product passes it on by the other factors, a power by |e z / a|. So
 * sin^2 x + cos^2 x - 1 is as good as 0, and 1e-30 is not. */
#include "metrics/math_expr.h"

#include <math.h>

static const long double unit = 0x1p-60L;

struct kva_math_num kva_math_from_rational(struct kva_rational r)
{
    return (struct kva_math_num){
        .ok = true, .exact = true, .r = r, .z = kva_rational_real(r)};
}

struct kva_math_num kva_math_from_complex(long double complex z, long double noise)
{
    return (struct kva_math_num){.ok = isfinite(creall(z)) && isfinite(cimagl(z)),
                                 .z = z,
                                 .noise = isfinite(noise) ? noise : 0};
}

static const struct kva_math_num no_value = {.ok = false};

static bool is_zero(const struct kva_math_num *a)
{
    return a->exact ? a->r.n == 0 : cabsl(a->z) <= 16 * a->noise;
}

static bool is_real(const struct kva_math_num *a)
{
    return cimagl(a->z) == 0;
}

static int turned(const struct kva_math_node *n, int sign)
{
    return n->pm ? n->sign * sign : n->sign;
}

static struct kva_math_num negated(struct kva_math_num a)
{
    a.r.n = -a.r.n;
    a.z = -creall(a.z) - I * cimagl(a.z);
    return a;
}

static struct kva_math_num sum(const struct kva_math_node *n, int sign, int point)
{
    struct kva_math_num total = {.ok = true, .exact = true, .r = {0, 1}};
    long double largest = 0;

    for (const struct kva_math_node *c = n->first; c; c = c->next) {
        struct kva_math_num v = kva_math_eval(c, sign, point);

        if (!v.ok)
            return no_value;
        if (turned(c, sign) < 0)
            v = negated(v);
        total.exact = total.exact && v.exact && kva_rational_add(total.r, v.r, &total.r);
        total.z += v.z;
        total.noise += v.noise;
        largest = fmaxl(largest, cabsl(v.z));
    }
    if (total.exact)
        return kva_math_from_rational(total.r);
    if (n->first && n->first->next)
        total.noise += largest * unit;
    return kva_math_from_complex(total.z, total.noise);
}

static struct kva_math_num inverse(struct kva_math_num a)
{
    long double size = cabsl(a.z);

    if (is_zero(&a))
        return no_value;
    if (a.exact && kva_rational_inverse(a.r, &a.r))
        return kva_math_from_rational(a.r);
    return kva_math_from_complex(is_real(&a) ? 1 / creall(a.z) : 1 / a.z,
                                 a.noise / (size * size));
}

static struct kva_math_num times(struct kva_math_num a, struct kva_math_num b)
{
    struct kva_rational r;

    if (a.exact && b.exact && kva_rational_mul(a.r, b.r, &r))
        return kva_math_from_rational(r);
    return kva_math_from_complex(is_real(&a) && is_real(&b) ? creall(a.z) * creall(b.z)
                                                            : a.z * b.z,
                                 a.noise * cabsl(b.z) + b.noise * cabsl(a.z));
}

static struct kva_math_num product(const struct kva_math_node *n, int sign, int point)
{
    struct kva_math_num total = kva_math_from_rational((struct kva_rational){1, 1});

    for (const struct kva_math_node *c = n->first; c; c = c->next) {
        struct kva_math_num v = kva_math_eval(c, sign, point);

        if (v.ok && c->inverse)
            v = inverse(v);
        if (!v.ok)
            return no_value;
        if (turned(c, sign) < 0)
            v = negated(v);
        total = times(total, v);
        if (!total.ok)
            return no_value;
    }
    return total;
}

/* Integer exponents by squaring: exact where it fits, and no logarithm of a negative. */
static struct kva_math_num whole_power(struct kva_math_num a, int e)
{
    struct kva_math_num r = kva_math_from_rational((struct kva_rational){1, 1});
    struct kva_rational exact;

    if (is_zero(&a) && e <= 0)
        return no_value;
    if (a.exact && kva_rational_power(a.r, e, &exact))
        return kva_math_from_rational(exact);
    a.exact = false;
    for (int k = e < 0 ? -e : e; k; k >>= 1) {
        if (k & 1)
            r = times(r, a);
        if (k > 1)
            a = times(a, a);
        if (!r.ok || !a.ok)
            return no_value;
    }
    return e < 0 ? inverse(r) : r;
}

static struct kva_math_num raised(struct kva_math_num a, struct kva_math_num e)
{
    long double complex z;
    long double size = cabsl(a.z);

    if (!a.ok || !e.ok || cabsl(e.z) > MATH_EXPONENT)
        return no_value;
    if (e.exact && e.r.d == 1)
        return whole_power(a, (int)e.r.n);
    if (is_zero(&a))
        return is_real(&e) && creall(e.z) > 0 ? kva_math_from_complex(0, a.noise)
                                              : no_value;
    if (is_real(&a) && is_real(&e) && creall(a.z) > 0)
        z = powl(creall(a.z), creall(e.z));
    else
        z = cexpl(e.z * clogl(a.z));
    return kva_math_from_complex(
        z, cabsl(z) * (cabsl(e.z) * a.noise / size + e.noise * fabsl(logl(size)) + unit));
}

/* Odd roots of negative numbers are negative. */
static struct kva_math_num root(const struct kva_math_node *n, int sign, int point)
{
    struct kva_math_num a = kva_math_eval(n->first, sign, point);
    struct kva_math_num k = kva_math_from_rational((struct kva_rational){2, 1});
    bool odd;

    if (n->first->next)
        k = kva_math_eval(n->first->next, sign, point);
    if (!a.ok || !k.ok || is_zero(&k))
        return no_value;
    odd = k.exact && k.r.d == 1 && k.r.n % 2 != 0;
    if (is_real(&a) && creall(a.z) >= 0 && k.exact && k.r.n == 2 && k.r.d == 1)
        return kva_math_from_complex(
            sqrtl(creall(a.z)),
            a.noise > 0 ? a.noise / fmaxl(sqrtl(creall(a.z)), sqrtl(a.noise)) : 0);
    if (odd && is_real(&a) && creall(a.z) < 0)
        return negated(raised(negated(a), inverse(k)));
    return raised(a, inverse(k));
}

static long double complex real_function(enum kva_math_fn fn, long double x)
{
    switch (fn) {
    case SIN:
        return sinl(x);
    case COS:
        return cosl(x);
    case TAN:
        return tanl(x);
    case COT:
        return 1 / tanl(x);
    case SEC:
        return 1 / cosl(x);
    case CSC:
        return 1 / sinl(x);
    case ASIN:
        return fabsl(x) <= 1 ? asinl(x) : casinl(x);
    case ACOS:
        return fabsl(x) <= 1 ? acosl(x) : cacosl(x);
    case ATAN:
        return atanl(x);
    case SINH:
        return sinhl(x);
    case COSH:
        return coshl(x);
    case TANH:
        return tanhl(x);
    case LN:
    case LOG:
        return x > 0 ? logl(x) : clogl(x);
    case EXP:
        return expl(x);
    }
    return 0;
}

static long double complex complex_function(enum kva_math_fn fn, long double complex z)
{
    switch (fn) {
    case SIN:
        return csinl(z);
    case COS:
        return ccosl(z);
    case TAN:
        return ctanl(z);
    case COT:
        return 1 / ctanl(z);
    case SEC:
        return 1 / ccosl(z);
    case CSC:
        return 1 / csinl(z);
    case ASIN:
        return casinl(z);
    case ACOS:
        return cacosl(z);
    case ATAN:
        return catanl(z);
    case SINH:
        return csinhl(z);
    case COSH:
        return ccoshl(z);
    case TANH:
        return ctanhl(z);
    case LN:
    case LOG:
        return clogl(z);
    case EXP:
        return cexpl(z);
    }
    return 0;
}

static struct kva_math_num function(const struct kva_math_node *n, int sign, int point)
{
    enum { HUGE_ANGLE = 1000000 };
    const long double pole = 1e15L; /* tan(pi/2) and the like */
    struct kva_math_num x = kva_math_eval(n->first, sign, point);
    struct kva_math_num base = kva_math_from_rational((struct kva_rational){10, 1});
    long double complex z, b;

    if (n->first->next)
        base = kva_math_eval(n->first->next, sign, point);
    if (!x.ok || !base.ok || (n->fn <= CSC && cabsl(x.z) > HUGE_ANGLE) ||
        ((n->fn == LN || n->fn == LOG) && is_zero(&x)))
        return no_value;
    z = is_real(&x) ? real_function(n->fn, creall(x.z)) : complex_function(n->fn, x.z);
    if (n->fn <= CSC && cabsl(z) > pole)
        return no_value;
    if (n->fn == LOG) {
        if (is_zero(&base))
            return no_value;
        b = is_real(&base) ? real_function(LN, creall(base.z)) : clogl(base.z);
        if (cabsl(b) <= unit)
            return no_value;
        z /= b;
    }
    return kva_math_from_complex(z, (x.noise + unit * cabsl(x.z)) * (1 + cabsl(z)));
}

static struct kva_math_num factorial(struct kva_math_num a)
{
    struct kva_math_num r = kva_math_from_rational((struct kva_rational){1, 1});

    if (!a.ok || !a.exact || a.r.d != 1 || a.r.n < 0 || a.r.n > MATH_FACTORIAL)
        return no_value;
    for (int k = 2; k <= (int)a.r.n; k++)
        r = times(r, kva_math_from_rational((struct kva_rational){k, 1}));
    return r;
}

static struct kva_math_num binomial(struct kva_math_num n, struct kva_math_num k)
{
    struct kva_math_num r = kva_math_from_rational((struct kva_rational){1, 1});

    if (!n.ok || !k.ok || !n.exact || !k.exact || n.r.d != 1 || k.r.d != 1 || n.r.n < 0 ||
        n.r.n > MATH_EXPONENT || k.r.n < 0)
        return no_value;
    if (k.r.n > n.r.n)
        return kva_math_from_rational((struct kva_rational){0, 1});
    for (int i = 1; i <= (int)k.r.n; i++) {
        struct kva_rational step;

        if (!kva_rational_make(n.r.n - k.r.n + i, i, &step))
            return no_value;
        r = times(r, kva_math_from_rational(step));
    }
    return r;
}

/* Independent of everything but the name and the point; complex: in every direction. */
static struct kva_math_num variable(uint64_t name, int point, bool is_complex)
{
    const long double turn = 6.283185307179586477L;
    uint64_t h = kva_mix64(name + (uint64_t)point * 0x632be59bd9b4e019ULL);
    long double size = 0.3L + 2.4L * (long double)(h >> 11) * 0x1p-53L;
    long double angle = turn * (long double)(kva_mix64(h) >> 11) * 0x1p-53L;

    if (!is_complex)
        return kva_math_from_complex(size, 0);
    return kva_math_from_complex(size * (cosl(angle) + I * sinl(angle)), 0);
}

struct kva_math_num kva_math_eval(const struct kva_math_node *n, int sign, int point)
{
    struct kva_math_num a;

    switch (n->op) {
    case SUM:
        return sum(n, sign, point);
    case PRODUCT:
        return product(n, sign, point);
    case NUMBER:
        return n->value;
    case VARIABLE:
        return variable(n->name, point, n->literal);
    case POWER:
        return raised(kva_math_eval(n->first, sign, point),
                      kva_math_eval(n->last, sign, point));
    case ROOT:
        return root(n, sign, point);
    case FUNCTION:
        return function(n, sign, point);
    case ABS:
        a = kva_math_eval(n->first, sign, point);
        if (!a.ok || (a.exact && a.r.n >= 0))
            return a;
        return a.exact ? negated(a) : kva_math_from_complex(cabsl(a.z), a.noise);
    case FACTORIAL:
        return factorial(kva_math_eval(n->first, sign, point));
    case BINOMIAL:
        return binomial(kva_math_eval(n->first, sign, point),
                        kva_math_eval(n->last, sign, point));
    }
    return no_value;
}
