/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_kept_wrap.c - critical and chunk in SmolLM2, against kvpress 0.5.5.
 *
 * critical:compat=1 and chunk:exact=0 are the reference's own forms. Its critical with
 * adakv keeps the safeguard's entries first: here they are lifted above all other scores,
 * the window 1 above the layer, and nothing is protected, which is what it does. Budgets
 * within the window are left out: the reference picks among equal sentinels there. */
#include "tests/oracle/kept_test.h"

struct wrap_run {
    struct kept_run *r;
    const char *text, *name;
    struct kva_method m;
    struct kva_scores sc; /* wrapped */
    struct kept_count count;
    int inside;
};

static void wrapped_scores(struct wrap_run *w)
{
    struct kva_scores base = kept_score(w->r, &w->m), out;
    struct kva_decide_in in = {0};

    kva_session_decide_in(w->r->session, &in);
    in.block_len = w->r->s;
    OK(kva_method_wrap(&w->m, &in, &base, &out, NULL, err));
    if (out.off == NULL) {
        w->sc = base;
        return;
    }
    kva_scores_release(&base);
    w->sc = out;
}

static int by_score(const void *a, const void *b)
{
    const float *const *x = a, *const *y = b;

    if (**x > **y || **x < **y)
        return **x > **y ? -1 : 1;
    return *x > *y ? -1 : 1; /* newest first */
}

/* The scores the reference's critical with adakv works on, for n entries a KV head. */
static void lift_safeguard(struct wrap_run *w, int n)
{
    struct kva_scores *sc = &w->sc;
    int safe = n / 5 > 1 ? n / 5 : 1, s = w->r->s;
    const float **order = calloc((size_t)s, sizeof *order);

    assert_non_null(order);
    sc->protect.recent = 0;
    for (int l = 0; l < w->r->layers; l++) {
        float top = 0;

        for (size_t j = sc->off[l * w->r->heads]; j < sc->off[(l + 1) * w->r->heads]; j++)
            top = sc->s[j] > top ? sc->s[j] : top;
        for (int c = l * w->r->heads; c < (l + 1) * w->r->heads; c++) {
            float *at = sc->s + sc->off[c];

            for (int j = s - KEPT_WINDOW; j < s; j++)
                at[j] = top + 1;
            for (int j = 0; j < s; j++)
                order[j] = at + j;
            qsort(order, (size_t)s, sizeof *order, by_score);
            for (int i = 0; i < safe; i++)
                at[order[i] - at] = 1e30f;
        }
    }
    free(order);
}

/* Smallest number anywhere in a margin that is not 0 (0: a cut inside equal sentinels).
 */
static double least(const json_t *v)
{
    double m = INFINITY;

    if (json_is_number(v) && json_number_value(v) > 0)
        return json_number_value(v);
    for (size_t i = 0; json_is_array(v) && i < json_array_size(v); i++) {
        double x = least(json_array_get(v, i));

        m = x < m ? x : m;
    }
    return m;
}

/* Do rounding errors decide a cut of this KV head? */
static bool narrow(const json_t *row, int layer, int head, int layers)
{
    const json_t *gap = json_object_get(row, "relgap"), *at;

    if (gap != NULL) /* of chunks one number a layer; 0 is a tie */
        return json_number_value(kept_at(gap, layer, head, layers)) < 1e-4;
    /* [cut of the budgets, [[stage 1, stage 2] of each KV head]] */
    at = json_array_get(json_object_get(row, "margin"), (size_t)layer);
    return least(json_array_get(at, 0)) < 1e-5 ||
           least(json_array_get(json_array_get(at, 1), (size_t)head)) < 1e-5;
}

static void compare_row(struct wrap_run *w, const json_t *row,
                        const struct kva_decision *d)
{
    bool *ours = calloc((size_t)w->r->s, sizeof *ours);

    assert_non_null(ours);
    for (int c = 0; c < w->r->layers * w->r->heads; c++) {
        int layer = c / w->r->heads, head = c % w->r->heads, apart = 0;
        bool close;
        const json_t *twin =
            kept_at(json_object_get(row, "twin_diff"), layer, head, w->r->layers);

        if (json_is_integer(twin) && json_integer_value(twin) != 0) {
            w->count.skipped++;
            continue;
        }
        close = narrow(row, layer, head, w->r->layers);
        if (close && w->m.wrapper->same_positions) { /* a whole chunk more or less */
            w->count.near++;
            continue;
        }
        assert_int_equal(d->keep.off[c + 1] - d->keep.off[c],
                         kept_n(row, layer, head, w->r->layers));
        kept_map(d, c, ours, w->r->s);
        for (int p = 0; p < w->r->s; p++)
            apart += kept_bit(row, "kept", layer, head, p, w->r->s) != ours[p];
        w->count.exact += !close;
        w->count.near += close;
        if (apart > (close ? 2 : 0) && w->count.wrong++ < 8)
            printf("%s keep %.2f: layer %d head %d: %d entries differ\n", w->text,
                   json_number_value(json_object_get(row, "keep")), layer, head, apart);
    }
    free(ours);
}

static void wrap_file(struct kept_run *r, const json_t *context, const char *text,
                      const char *file, bool safeguard)
{
    const char *name = json_string_value(json_object_get(context, "name"));
    struct wrap_run w = {.r = r, .text = text, .name = name, .m = kept_method(text)};
    json_t *rows = oracle_rows(file);
    int c = r->layers * r->heads;

    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        double ratio = json_number_value(json_object_get(row, "ratio"));
        int n = (int)(r->s * (1 - ratio));
        struct kva_decision d;

        if (strcmp(json_string_value(json_object_get(row, "ctx")), name) != 0)
            continue;
        if (n <= KEPT_WINDOW) {
            w.inside++;
            continue;
        }
        wrapped_scores(&w);
        if (safeguard)
            lift_safeguard(&w, n);
        OK(kva_method_select(&w.m, &w.sc, NULL, (uint64_t)(n * c), &d, err));
        compare_row(&w, row, &d);
        kva_decision_release(&d);
        kva_scores_release(&w.sc);
    }
    printf("%s %s: %d equal, %d near a cut, %d without a stable reference, %d "
           "budgets within the window\n",
           name, text, w.count.exact, w.count.near, w.count.skipped, w.inside);
    assert_int_equal(w.count.wrong, 0);
    assert_true(w.count.exact > 0);
    json_decref(rows);
}

static void check(const char *name)
{
    struct kva_model *m = kept_model();
    struct kept_run r;
    json_t *context;

    if (m == NULL)
        skip();
    context = kept_context_named(name);
    r = kept_prefill(m, context);
    wrap_file(&r, context, "snapkv+critical:compat=1", "kept/critical_snapkv.jsonl",
              false);
    wrap_file(&r, context, "snapkv+adakv+critical", "kept/criticalada_snapkv.jsonl",
              true);
    wrap_file(&r, context, "snapkv+chunk:exact=0", "kept/chunkkv_snapkv.jsonl", false);
    kva_session_free(r.session);
    json_decref(context);
    kva_model_close(m);
}

static void kept_sets_of_174_tokens_agree_with_kvpress(void **state)
{
    (void)state;
    check("c180");
}

static void kept_sets_of_724_tokens_agree_with_kvpress(void **state)
{
    (void)state;
    check("c700");
}

static void kept_sets_of_1538_tokens_agree_with_kvpress(void **state)
{
    (void)state;
    check("c1500");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_sets_of_174_tokens_agree_with_kvpress),
        cmocka_unit_test(kept_sets_of_724_tokens_agree_with_kvpress),
        cmocka_unit_test(kept_sets_of_1538_tokens_agree_with_kvpress),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
