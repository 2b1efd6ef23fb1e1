/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math.h - answers of mathematical problems: found, read as typed values, compared
 * (tasks-longbench-math.md B.4, B.6). Internal to metrics.
 *
 * Four steps, one file each:
 *
 *   math_extract.c     generated text   -> the answer in it, and how it was found
 *   math_normalise.c   answer           -> one spelling of it
 *   math_value.c       spelling         -> a typed value: list, tuple, matrix, ...
 *   math_expr.c        what is no list, tuple, ... -> an expression and its numbers
 *   math_equal.c       two values       -> equal or not
 *
 * Everything is allocated from the reader's arena and dies with it. Nothing depends on
 * the clock, the locale or the order of calls. Limits, beyond which a text is unreadable
 * (and then compared as text): MATH_NESTING, MATH_ITEMS, MATH_EXPONENT, MATH_FACTORIAL
 * and the work of one comparison, MATH_WORK; a longer answer than MATH_LENGTH is cut. */
#ifndef KVA_METRICS_MATH_H
#define KVA_METRICS_MATH_H

#include "metrics/metric.h"

#include <complex.h>

enum {
    MATH_LENGTH = 4096,   /* code points of an answer that are read */
    MATH_NESTING = 64,    /* brackets, arguments, powers inside each other */
    MATH_ITEMS = 128,     /* elements of one list, tuple or matrix */
    MATH_EXPONENT = 512,  /* largest whole exponent, either sign */
    MATH_FACTORIAL = 50,  /* largest n of n! */
    MATH_WORK = 200000,   /* steps of the readers and comparisons of one pair */
    MATH_POINTS = 8,      /* places at which expressions with variables are compared */
    MATH_POINTS_LEAST = 3 /* of which so many must remain */
};

/* A piece of a text, not ended by a NUL. */
struct kva_math_span {
    const char *s;
    size_t n;
};
struct kva_math_span kva_math_span_of(const char *s);
struct kva_math_span kva_math_trim(struct kva_math_span t); /* ASCII white space */
bool kva_math_span_is(struct kva_math_span t, const char *s);

/* What reading and comparing share. */
struct kva_math {
    struct kva_arena *arena;
    long work;  /* steps left; below 0: everything else is unreadable, or not equal */
    bool nomem; /* an allocation failed; results are meaningless */
};
void kva_math_init(struct kva_math *m, struct kva_arena *arena);
void *kva_math_alloc(struct kva_math *m, size_t count, size_t size);
/* KVA_ENOMEM when an allocation failed since init. */
enum kva_status kva_math_status(const struct kva_math *m, struct kva_error *err);

/* ---- math_extract.c ---- */

enum kva_math_how { KVA_MATH_NONE, KVA_MATH_NUMBER, KVA_MATH_PHRASE, KVA_MATH_BOXED };
struct kva_math_answer {
    struct kva_math_span answer; /* empty when how is NONE */
    enum kva_math_how how;
    struct kva_math_span joined; /* boxes that form one list (B.4.3), joined by commas; n
                                    = 0 when there is nothing to join */
};
/* Any bytes, any length; linear time. */
struct kva_math_answer kva_math_extract(struct kva_math *m, const char *text, size_t n);
const char *kva_math_how_name(enum kva_math_how how); /* "boxed", ... */

/* ---- math_normalise.c ---- */

/* Step 1 of B.6. NUL-terminated; "" when memory ran out (m->nomem). */
struct kva_math_span kva_math_normalise(struct kva_math *m, struct kva_math_span text);
/* Equal but for blanks; blanks never join two digits (B.6.1.2). fold: letter case,
 * backslashes and dollars do not count either. */
bool kva_math_same_text(struct kva_math_span a, struct kva_math_span b, bool fold);

/* ---- math_rational.c ---- */

__extension__ typedef __int128 kva_math_int;

/* n / d in lowest terms, d > 0, |n| and d below 2^126. The functions return false when a
 * result does not fit (or is a division by zero); *out is then unchanged. */
struct kva_rational {
    kva_math_int n, d;
};
bool kva_rational_make(kva_math_int n, kva_math_int d, struct kva_rational *out);
bool kva_rational_add(struct kva_rational a, struct kva_rational b,
                      struct kva_rational *out);
bool kva_rational_mul(struct kva_rational a, struct kva_rational b,
                      struct kva_rational *out);
bool kva_rational_inverse(struct kva_rational a, struct kva_rational *out);
bool kva_rational_power(struct kva_rational a, int e, struct kva_rational *out);
bool kva_rational_same(struct kva_rational a, struct kva_rational b);
long double kva_rational_real(struct kva_rational a);

/* ---- math_expr.c ---- */

/* Value of an expression at one point. */
struct kva_math_num {
    bool ok;    /* false: division by zero, overflow, a limit */
    bool exact; /* r holds the value; z is always there */
    struct kva_rational r;
    long double complex z;
    long double noise; /* what rounding may have added, in absolute terms */
};
struct kva_math_expr {
    bool has_pm;        /* holds \pm or \mp; all of them flip together */
    bool has_variables; /* else only point 0 is evaluated */
    int decimals;       /* digits behind the point of a plain decimal; -1: not one */
    struct kva_math_span text; /* what was read, trimmed */
    /* [upper signs, lower signs][points]; the second row only when has_pm */
    struct kva_math_num at[2][MATH_POINTS];
};
/* NULL: not an expression, or no memory. */
const struct kva_math_expr *kva_math_expr_read(struct kva_math *m,
                                               struct kva_math_span text);
/* Length of a variable's name at the start of t: a letter or a Greek command with an
 * optional subscript; 0: none. */
size_t kva_math_name_len(struct kva_math_span t);

/* ---- math_value.c ---- */

enum kva_math_kind {
    KVA_MATH_UNREADABLE,
    KVA_MATH_EXPRESSION,
    KVA_MATH_INFINITY, /* sign */
    KVA_MATH_TEXT,     /* text: blanks collapsed, lower case */
    KVA_MATH_BASE,     /* text: digits, upper case; base */
    KVA_MATH_LIST,     /* items in any order, written without brackets */
    KVA_MATH_SET,      /* items in any order */
    KVA_MATH_UNION,    /* items in any order, intervals mostly */
    KVA_MATH_TUPLE,    /* items in order between open and close */
    KVA_MATH_MATRIX,   /* items row by row, n_items / rows columns */
    KVA_MATH_EQUATION  /* items: left, right */
};
struct kva_math_value {
    enum kva_math_kind kind;
    struct kva_math_span plain; /* the normalised text it was read from */
    const struct kva_math_expr *expr;
    bool percent; /* of an EXPRESSION: a percent sign was stripped */
    int sign;
    struct kva_math_span text, base;
    char open, close;
    bool assign; /* of an EQUATION: the left side is a name */
    int n_items, rows;
    const struct kva_math_value *const *items;
};
/* Step 1 and 2 of B.6. Never NULL but for lack of memory. */
const struct kva_math_value *kva_math_read(struct kva_math *m, struct kva_math_span text);

/* The letters of a text without wrappers, blanks collapsed, lower case. */
struct kva_math_span kva_math_unwrap(struct kva_math *m, struct kva_math_span text);

/* ---- math_equal.c ---- */

/* Step 3 of B.6; not symmetric: some forms are allowed in a prediction only. */
bool kva_math_equal(struct kva_math *m, const struct kva_math_value *prediction,
                    const struct kva_math_value *gold);
/* All of it for two strings. */
bool kva_math_equal_text(struct kva_math *m, struct kva_math_span prediction,
                         struct kva_math_span gold);
/* The exact rational that a text is, units and assignments stripped; false: none. */
bool kva_math_rational(struct kva_math *m, struct kva_math_span text,
                       struct kva_rational *out);

#endif
