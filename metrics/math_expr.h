/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math_expr.h - the tree between math_expr.c, which reads it, and math_eval.c. */
#ifndef KVA_METRICS_MATH_EXPR_H
#define KVA_METRICS_MATH_EXPR_H

#include "metrics/math.h"

enum kva_math_op {
    SUM,
    PRODUCT,
    NUMBER,
    VARIABLE,
    POWER,    /* base, exponent */
    ROOT,     /* radicand, index when there is one */
    FUNCTION, /* argument, base of a logarithm when there is one */
    ABS,
    FACTORIAL,
    BINOMIAL
};
enum kva_math_fn {
    SIN,
    COS,
    TAN,
    COT,
    SEC,
    CSC, /* up to here the argument is an angle */
    ASIN,
    ACOS,
    ATAN,
    SINH,
    COSH,
    TANH,
    LN,
    LOG,
    EXP
};

/* Operands are a list. sign, pm and inverse say how a SUM or PRODUCT takes this node. */
struct kva_math_node {
    enum kva_math_op op;
    enum kva_math_fn fn;
    int sign;      /* +1, -1 */
    bool pm;       /* the sign turns where lower signs are read */
    bool inverse;  /* divided by */
    bool literal;  /* of a NUMBER: digits in the text; of a VARIABLE: complex */
    uint64_t name; /* hash of a VARIABLE */
    struct kva_math_node *first, *last, *next;
    struct kva_math_num value; /* of a NUMBER */
};

struct kva_math_num kva_math_from_rational(struct kva_rational r);
/* Not ok when z is not finite. */
struct kva_math_num kva_math_from_complex(long double complex z, long double noise);
/* sign: +1 upper, -1 lower signs; point < MATH_POINTS. */
struct kva_math_num kva_math_eval(const struct kva_math_node *n, int sign, int point);

#endif
