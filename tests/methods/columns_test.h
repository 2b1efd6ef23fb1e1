/* SPDX-License-Identifier: GPL-3.0-or-later */
/* columns_test.h - a cache of n entries whose column sums are given by hand. */
#ifndef KVA_COLUMNS_TEST_H
#define KVA_COLUMNS_TEST_H

#include "tests/methods/methods_test.h"

struct columns {
    const float *sum; /* [kv_heads][n] */
    struct kva_collect want;
};

static const float *columns_side(void *ctx, const struct kva_collect *want, int layer)
{
    struct columns *c = ctx;

    (void)layer;
    c->want = *want;
    return c->sum;
}

/* Scores of n entries at positions 0 .. n-1 of `kv_heads` heads of `group` query heads,
 * after `seen` tokens. */
static struct kva_scores columns_scores(const char *text, struct kva_schedule schedule,
                                        int kv_heads, int group, int n, int seen,
                                        struct columns *c)
{
    struct fixture f = fixture_new(1, kv_heads, group, 8, n, 1, false, 3);
    struct kva_method m = parse(text, schedule);
    struct kva_decide_in in = fixture_in(&f, schedule);
    struct kva_scores sc;

    in.seen = seen;
    in.side = columns_side;
    in.side_ctx = c;
    assert_ok(kva_method_score(&m, &in, &sc, NULL, &test_error));
    fixture_release(&f);
    return sc;
}

#endif
