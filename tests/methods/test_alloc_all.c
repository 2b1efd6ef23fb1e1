/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_alloc_all.c - what every allocator must satisfy: exact totals for any number of
 * layers, 1 <= kept <= held, no preference for the order of KV heads, and sense on
 * degenerate scores (methods.md 12). */
#include "tests/methods/alloc_test.h"

enum { MOST_LAYERS = 80, MOST_HEADS = 4, COLUMNS = 99 };

/* Every allocator in every form, over a scorer it takes. */
static const char *const FORMS[] = {
    "random+uniform",
    "random+adakv",
    "random+adakv:compat=1,norm=z",
    "random+global",
    "random+global:floor=7,norm=cell_sum",
    "random+pyramid:window=2",
    "random+pyramid:beta=3,compat=1,window=0",
    "random+headkv:profile=x,window=2",
    "random+cake",
    "random+lava",
    "random+lava:alpha=0.6,norm=z",
    "random+lukv:profile=x",
    "random+lukv:compat=1,profile=x,sinks=0,window=0",
    "random+contour",
    "random+contour:rule=fixed",
    "random+contour:rule=fixed,theta=0.9",
    "random+contour:rule=sum,floor=3",
    "random+contour:rule=propmass",
    "random+file:as=shares,profile=x",
    "streaming+duo:profile=x,recent=3",
    "streaming+duo:profile=x,recent=0",
    "streaming+simlayerkv:recent=3",
};
enum { N_FORMS = sizeof FORMS / sizeof FORMS[0] };

/* What an allocator wants beside the scores. */
struct extras {
    double *row; /* [layers * heads][COLUMNS] */
    double stat[2 * MOST_LAYERS];
};

/* heads given in the order `of` when not NULL */
static struct kva_table table_for(const char *form, const struct extras *x, int layers,
                                  int heads, const int *of)
{
    const char *kind = strstr(form, "+lukv") != NULL     ? "lukv"
                       : strstr(form, "+headkv") != NULL ? "headkv"
                       : strstr(form, "+duo") != NULL    ? "duo"
                                                         : "budgets";
    int columns = strcmp(kind, "lukv") == 0 ? COLUMNS : 1;
    double *data = kva_calloc((size_t)(layers * heads * columns), sizeof *data);
    struct kva_table t;

    for (int c = 0; c < layers * heads; c++) {
        int from = c / heads * heads + (of != NULL ? of[c % heads] : c % heads);

        memcpy(data + c * columns, x->row + from * COLUMNS,
               (size_t)columns * sizeof *data);
    }
    t = table_of(kind, layers, heads, columns, data);
    free(data);
    return t;
}

static struct extras extras_new(struct kva_rng *r, int layers, int heads)
{
    struct extras x = {.row = NULL};
    int n = layers * heads * COLUMNS;

    x.row = kva_calloc((size_t)n, sizeof *x.row);
    for (int i = 0; i < n; i++)
        x.row[i] = kva_rng_unit(r);
    for (int l = 0; l < layers; l++) {
        x.stat[2 * l] = 1 + 99 * kva_rng_unit(r);
        x.stat[2 * l + 1] = kva_rng_unit(r);
    }
    return x;
}

static void check_division(const struct kva_scores *sc, const char *form,
                           const struct extras *x, uint64_t total)
{
    struct kva_table t = table_for(form, x, sc->layers, sc->kv_heads, NULL);
    struct kva_decision d;
    uint64_t sum = 0;
    int c = sc->layers * sc->kv_heads;

    if (try_divide(sc, form, &t, x->stat, total, &d, &test_error) != KVA_OK)
        fail_msg("%s, %d layers of %d, %d entries of %d: %s", form, sc->layers,
                 sc->kv_heads, (int)total, (int)sc->off[c], test_error.text);
    for (int i = 0; i < c; i++) {
        int n = (int)(sc->off[i + 1] - sc->off[i]);

        assert_in_range(d.budget[i], 1, n);
        assert_int_equal(d.keep.off[i + 1] - d.keep.off[i], d.budget[i]);
        sum += (uint64_t)d.budget[i];
    }
    assert_int_equal(sum, total);
    assert_int_equal(d.total, total);
    kva_decision_release(&d);
    kva_table_release(&t);
}

static void every_allocator_stands_in_the_list(void **state)
{
    (void)state;
    for (const struct kva_allocator *const *a = kva_allocators(); *a != NULL; a++) {
        bool found = false;

        for (int i = 0; i < N_FORMS; i++) {
            const char *name = strchr(FORMS[i], '+') + 1;

            found = found || (strncmp(name, (*a)->name, strlen((*a)->name)) == 0 &&
                              strcspn(name, ":") == strlen((*a)->name));
        }
        if (!found)
            fail_msg("%s is not in the list of this test", (*a)->name);
    }
}

static void totals_are_exact_for_one_to_eighty_layers(void **state)
{
    struct kva_rng r = {2024};

    (void)state;
    for (int layers = 1; layers <= MOST_LAYERS; layers++) {
        int heads = 1 + layers % MOST_HEADS, c = layers * heads;
        struct extras x = extras_new(&r, layers, heads);
        struct kva_scores sc = ragged_scores(&r, layers, heads, 24);

        for (int trial = 0; trial < 4; trial++) {
            uint64_t room = sc.off[c] - (uint64_t)c,
                     total = (uint64_t)c + kva_rng_below(&r, room + 1);

            sc.protect = (struct kva_protect){trial % 3, trial / 2 * 5};
            sc.prompt = trial == 3 ? 200 : 0;
            for (int i = 0; i < N_FORMS; i++)
                check_division(&sc, FORMS[i], &x, total);
        }
        kva_scores_release(&sc);
        free(x.row);
    }
}

static void one_entry_a_head_and_all_but_one_are_exact_too(void **state)
{
    struct kva_rng r = {7};

    (void)state;
    for (int layers = 1; layers <= 9; layers++) {
        int c = 3 * layers;
        struct extras x = extras_new(&r, layers, 3);
        struct kva_scores sc = ragged_scores(&r, layers, 3, 12);

        sc.protect.recent = layers;
        for (int i = 0; i < N_FORMS; i++) {
            check_division(&sc, FORMS[i], &x, (uint64_t)c);
            if (sc.off[c] > (uint64_t)c)
                check_division(&sc, FORMS[i], &x, sc.off[c] - 1);
        }
        kva_scores_release(&sc);
        free(x.row);
    }
}

/* The same scores with the heads of every layer in the order `of`. */
static struct kva_scores permuted(const struct kva_scores *sc, const int *of)
{
    int heads = sc->kv_heads, c = sc->layers * heads;
    size_t n = sc->off[1];
    struct kva_scores out = scores_of(sc->layers, heads, (int)n, sc->s);

    for (int i = 0; i < c; i++)
        memcpy(out.s + out.off[i], sc->s + sc->off[i / heads * heads + of[i % heads]],
               n * sizeof *out.s);
    out.protect = sc->protect;
    return out;
}

static void permuting_heads_permutes_decisions(void **state)
{
    enum { LAYERS = 4, HEADS = 3, N = 60 };
    const int of[HEADS] = {2, 0, 1};
    struct kva_rng r = {99};
    float s[LAYERS * HEADS * N];

    (void)state;
    for (int i = 0; i < LAYERS * HEADS * N; i++)
        s[i] = (float)pow(kva_rng_unit(&r), 1 + i / N % 5);
    for (int each = 8; each < N; each += 9) {
        struct extras x = extras_new(&r, LAYERS, HEADS);
        struct kva_scores a = scores_of(LAYERS, HEADS, N, s), b;

        a.protect = (struct kva_protect){1, 2};
        b = permuted(&a, of);
        for (int i = 0; i < N_FORMS; i++) {
            struct kva_table ta = table_for(FORMS[i], &x, LAYERS, HEADS, NULL),
                             tb = table_for(FORMS[i], &x, LAYERS, HEADS, of);
            uint64_t total = (uint64_t)(each * LAYERS * HEADS);
            struct kva_decision da = divide(&a, FORMS[i], &ta, x.stat, total),
                                db = divide(&b, FORMS[i], &tb, x.stat, total);

            for (int c = 0; c < LAYERS * HEADS; c++) {
                int from = c / HEADS * HEADS + of[c % HEADS];

                /* what is shared equally leaves a remainder to the lower ones */
                if (strstr(FORMS[i], "pyramid") || strstr(FORMS[i], "cake") ||
                    strstr(FORMS[i], "lukv:compat=1") || strstr(FORMS[i], "rule=fixed")) {
                    assert_in_range(db.budget[c] + 1 - da.budget[from], 0, 2);
                    continue;
                }
                if (db.budget[c] != da.budget[from])
                    fail_msg("%s at %d: KV head %d gets %d, before it got %d", FORMS[i],
                             each, c, db.budget[c], da.budget[from]);
                assert_memory_equal(db.keep.rank + db.keep.off[c],
                                    da.keep.rank + da.keep.off[from],
                                    (size_t)db.budget[c] * sizeof *db.keep.rank);
            }
            kva_decision_release(&da);
            kva_decision_release(&db);
            kva_table_release(&ta);
            kva_table_release(&tb);
        }
        kva_scores_release(&a);
        kva_scores_release(&b);
        free(x.row);
    }
}

/* Constant, zero of both signs, not finite, one number that is not; one entry a head. */
static void degenerate_scores_are_divided_exactly(void **state)
{
    enum { LAYERS = 3, HEADS = 2, N = 40 };
    struct kva_rng r = {5};
    struct extras x = extras_new(&r, LAYERS, HEADS);

    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        struct kva_scores sc = flat_scores(LAYERS, HEADS, N);

        for (int i = 0; i < LAYERS * HEADS * N; i++)
            sc.s[i] = kind == 0   ? 0.25f
                      : kind == 1 ? (i % 3 ? 0.0f : -0.0f)
                      : kind == 2 ? -INFINITY
                      : kind == 3 ? (i % 7 ? 1.0f : -INFINITY)
                                  : (i == 50 ? 1.0f : 0.0f);
        for (int i = 0; i < N_FORMS; i++)
            for (int total = LAYERS * HEADS; total < LAYERS * HEADS * N; total += 37)
                check_division(&sc, FORMS[i], &x, (uint64_t)total);
        kva_scores_release(&sc);
    }
    {
        struct kva_scores sc = flat_scores(LAYERS, HEADS, 1);

        for (int i = 0; i < N_FORMS; i++)
            check_division(&sc, FORMS[i], &x, LAYERS * HEADS);
        kva_scores_release(&sc);
    }
    free(x.row);
}

/* -0 and +0 are one score: the sets do not depend on the sign of nothing. */
static void the_sign_of_zero_does_not_matter(void **state)
{
    enum { LAYERS = 2, HEADS = 2, N = 30 };
    struct kva_rng r = {6};
    struct extras x = extras_new(&r, LAYERS, HEADS);
    struct kva_scores plus = flat_scores(LAYERS, HEADS, N),
                      minus = flat_scores(LAYERS, HEADS, N);

    (void)state;
    for (int i = 0; i < LAYERS * HEADS * N; i++) {
        plus.s[i] = i % 5 == 0 ? 1.0f : 0.0f;
        minus.s[i] = i % 5 == 0 ? 1.0f : -0.0f;
    }
    for (int i = 0; i < N_FORMS; i++) {
        struct kva_table t = table_for(FORMS[i], &x, LAYERS, HEADS, NULL);
        struct kva_decision a = divide(&plus, FORMS[i], &t, x.stat, 61),
                            b = divide(&minus, FORMS[i], &t, x.stat, 61);

        assert_memory_equal(a.keep.off, b.keep.off,
                            (LAYERS * HEADS + 1) * sizeof *a.keep.off);
        assert_memory_equal(a.keep.rank, b.keep.rank, 61 * sizeof *a.keep.rank);
        kva_decision_release(&a);
        kva_decision_release(&b);
        kva_table_release(&t);
    }
    kva_scores_release(&plus);
    kva_scores_release(&minus);
    free(x.row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocator_stands_in_the_list),
        cmocka_unit_test(totals_are_exact_for_one_to_eighty_layers),
        cmocka_unit_test(one_entry_a_head_and_all_but_one_are_exact_too),
        cmocka_unit_test(permuting_heads_permutes_decisions),
        cmocka_unit_test(degenerate_scores_are_divided_exactly),
        cmocka_unit_test(the_sign_of_zero_does_not_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
