/* SPDX-License-Identifier: GPL-3.0-or-later */
/* caote_test.h - one KV head rescored by caote or fastcaote, and E3. */
#ifndef KVA_CAOTE_TEST_H
#define KVA_CAOTE_TEST_H

#include "tests/methods/wrap_test.h"

/* One KV head with values v[n][2] and base scores h, rescored by the wrapper. */
static void rescore(const char *text, const float *v, const float *h, int n, float *out)
{
    struct kva_method m = parse(text, ONESHOT);
    const size_t off[2] = {0, (size_t)n};
    float *copy = kva_calloc((size_t)(2 * n), sizeof *copy);
    struct kva_rows rows = {copy, off, 1, 2};
    struct kva_arena arena;
    struct kva_layer_view view = {
        .scratch = &arena, .kv_heads = 1, .heads = 1, .v_dim = 2, .v = &rows, .off = off};

    memcpy(copy, v, (size_t)(2 * n) * sizeof *v);
    memcpy(out, h, (size_t)n * sizeof *out);
    kva_arena_init(&arena);
    assert_ok(m.wrapper->rescore(&view, &m.wrapper_params, h, out, NULL, &test_error));
    kva_arena_release(&arena);
    free(copy);
}

/* E3 */
static const float H[] = {0.5f, 0.2f, 0.2f, 0.1f};

/* Entries go in the given order when one budget after another is selected. */
static void check_order(const char *text, const int order[4])
{
    float s[4];
    struct kva_scores sc;

    rescore(text, E2_V, H, 4, s);
    sc = scores_of(1, 1, 4, s);
    for (int b = 1; b < 4; b++) {
        struct kva_decision d = select_of(&sc, text, (uint64_t)b);

        for (int i = 0; i < b; i++)
            for (int gone = 0; gone < 4 - b; gone++)
                assert_int_not_equal(d.keep.rank[i], order[gone]);
        kva_decision_release(&d);
    }
    kva_scores_release(&sc);
}

/* All the weight on one entry, an entry alone, a score that is no number. */
static void check_ends(const char *text)
{
    const float all[] = {0, 0, 3, 0}, bad[] = {1, -INFINITY, 1, 1};
    float s[4];

    rescore(text, E2_V, all, 4, s);
    assert_true(isfinite(s[2]) && s[2] > 1e38f);
    assert_near(s[0], 0, 0);
    rescore(text, E2_V, H, 1, s); /* alone */
    assert_true(isfinite(s[0]) && s[0] > 1e38f);
    rescore(text, E2_V, bad, 4, s); /* no number: last, and no harm to the others */
    assert_true(s[1] < -1e38f && isfinite(s[0]) && isfinite(s[2]) && isfinite(s[3]));
}

#endif
