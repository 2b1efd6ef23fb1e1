/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_grid.c - the needle at fixed depths: which sample is where, and what a column of
 * the map keeps equal. */
#include "tests/tasks/tasks_test.h"

static int depth_of(const struct kva_item *it)
{
    int depth, round;

    assert_int_equal(
        sscanf(it->labels, "{\"grid_depth\":%d,\"grid_round\":%d}", &depth, &round), 2);
    assert_true(it->depth == depth / 100.0); /* nominal, not measured */
    return depth;
}

static void the_depths_are_those_of_the_document(void **state)
{
    static const int ten[] = {0, 11, 22, 33, 44, 56, 67, 78, 89, 100};
    static const int five[] = {0, 25, 50, 75, 100};
    static const struct {
        const char *text;
        const int *depth;
        int n;
    } row[] = {{"niah/grid@300", ten, 10}, {"niah/grid:depths=5,rounds=2@300", five, 5}};

    (void)state;
    for (int r = 0; r < 2; r++) {
        struct kva_task *task = open_task(row[r].text);
        int n = (int)kva_task_info(task)->n_available, rounds = n / row[r].n;
        struct kva_arena arena;
        struct kva_error err = {0};
        struct kva_item it;

        assert_int_equal(rounds, r == 0 ? 3 : 2);
        assert_true(kva_task_info(task)->has_depth && kva_task_info(task)->binary);
        for (int round = 0; round < rounds; round++) {
            int seen[101] = {0};

            kva_arena_init(&arena);
            for (int i = 0; i < row[r].n; i++) {
                it = item_of(task, round * row[r].n + i, &kva_tok_ws, &arena);
                seen[depth_of(&it)]++;
            }
            for (int i = 0; i < row[r].n; i++)
                assert_int_equal(seen[row[r].depth[i]], 1);
            kva_arena_release(&arena);
        }
        kva_arena_init(&arena);
        assert_int_equal(kva_task_item(task, n, &kva_tok_ws, &arena, &it, &err),
                         KVA_EINVALID);
        kva_arena_release(&arena);
        kva_task_close(task);
    }
}

static int compare_ints(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* With k of d samples no gap between neighbouring depths (ends included) is wider than
 * about twice an even one. */
static void any_first_samples_are_spread_over_the_depths(void **state)
{
    static const int depths[] = {2, 3, 5, 6, 7, 10, 11, 12, 21, 35};

    (void)state;
    for (size_t t = 0; t < sizeof depths / sizeof depths[0]; t++) {
        char text[60];
        struct kva_task *task;
        struct kva_arena arena;
        int seen[40];

        snprintf(text, sizeof text, "niah/grid:depths=%d@300", depths[t]);
        task = open_task(text);
        kva_arena_init(&arena);
        for (int k = 0; k < depths[t]; k++) {
            struct kva_item it = item_of(task, k, &kva_tok_ws, &arena);
            int sorted[40], last = 0, widest = 0;

            seen[k] = depth_of(&it);
            memcpy(sorted, seen, sizeof seen);
            qsort(sorted, (size_t)k + 1, sizeof sorted[0], compare_ints);
            for (int i = 0; i <= k; i++) {
                widest = sorted[i] - last > widest ? sorted[i] - last : widest;
                last = sorted[i];
            }
            widest = 100 - last > widest ? 100 - last : widest;
            assert_true(widest * (k + 1) <= 250);
        }
        kva_arena_release(&arena);
        kva_task_close(task);
    }
}

static const struct kva_span *evidence(const struct kva_item *it)
{
    const struct kva_span *e = span_named(it, "E0");

    assert_true(e->queried);
    return e;
}

/* The context without its needle and one blank beside it. */
static const char *without(const struct kva_item *it, struct kva_arena *arena)
{
    const struct kva_span *e = evidence(it);
    size_t b0 = e->b0, b1 = e->b1;

    if (it->context[b1] == ' ')
        b1++;
    else
        b0--;
    return kva_arena_printf(arena, "%.*s%s", (int)b0, it->context, it->context + b1);
}

static void within_a_round_only_the_place_changes(void **state)
{
    struct kva_task *task = open_task("niah/grid@600");
    struct kva_arena arena;
    const char *rest[3], *value[3];

    (void)state;
    kva_arena_init(&arena);
    for (int round = 0; round < 3; round++) {
        size_t last[101] = {0}, at = 0;

        for (int i = 0; i < 10; i++) {
            struct kva_item it = item_of(task, 10 * round + i, &kva_tok_ws, &arena);

            if (i == 0) {
                rest[round] = without(&it, &arena);
                value[round] = it.answers[0];
            }
            assert_string_equal(without(&it, &arena), rest[round]);
            assert_string_equal(it.answers[0], value[round]);
            last[depth_of(&it)] = evidence(&it)->b0;
        }
        for (int d = 0; d <= 100; d++) {
            if (last[d] == 0)
                continue;
            assert_true(last[d] > at);
            at = last[d];
        }
        for (int r = 0; r < round; r++) {
            assert_string_not_equal(rest[r], rest[round]);
            assert_string_not_equal(value[r], value[round]);
        }
    }
    kva_arena_release(&arena);
    kva_task_close(task);
}

/* Twelve sentences of tasks-ruler.md 12.3: sentence trunc(12 depth / 100). */
static void the_needle_stands_before_the_sentence_of_its_depth(void **state)
{
    struct kva_task *task = open_task("niah/grid:haystack=embedded,rounds=1@290");
    struct kva_arena arena;
    bool first = false, last = false;

    (void)state;
    kva_arena_init(&arena);
    for (int i = 0; i < 10; i++) {
        struct kva_item it = item_of(task, i, &kva_tok_ws, &arena);
        const struct kva_span *e = evidence(&it);
        int depth = depth_of(&it), n = 0, before = 0;

        for (const char *s = it.context + 131; *s; s++)
            if (*s == '.') {
                bool needle = s == it.context + e->b1 - 1;

                n += !needle;
                before += !needle && s < it.context + e->b0;
            }
        assert_in_range(n, 11, 14);
        assert_int_equal(before, n * depth / 100);
        if (depth == 0) {
            first = true;
            assert_int_equal(e->b0, 131); /* right behind the instruction */
        }
        if (depth == 100) {
            last = true;
            assert_int_equal(e->b1 + 1, it.context_len);
        }
    }
    assert_true(first && last);
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void several_needles_follow_the_first_in_even_steps(void **state)
{
    struct kva_task *task = open_task("niah/grid:needles=4@4096");
    struct kva_arena arena;

    (void)state;
    assert_true(kva_task_info(task)->guess_floor == 0.25);
    assert_string_equal(kva_task_info(task)->name, "grid:needles=4");
    for (int i = 0; i < 10; i++) {
        struct kva_item it;
        int d;

        kva_arena_init(&arena);
        it = item_of(task, i, &kva_tok_ws, &arena);
        d = depth_of(&it);
        assert_int_equal(it.n_decoys, 3);
        for (int j = 0; j < 4; j++) {
            char id[8];
            const struct kva_span *e;

            snprintf(id, sizeof id, "E%d", j);
            e = span_named(&it, id);
            assert_true(e->queried == (j == 0));
            assert_true(e->depth > (d + j * (100 - d) / 4.0) / 100 - 0.06);
            assert_true(e->depth < (d + j * (100 - d) / 4.0) / 100 + 0.06);
        }
        kva_arena_release(&arena);
    }
    kva_task_close(task);
}

static void styles_are_the_needles_and_questions_of_their_sources(void **state)
{
    static const char sandwich[] = "\nThe best thing to do in San Francisco is eat a "
                                   "sandwich and sit in Dolores Park on a sunny day.\n";
    struct kva_task *a = open_task("niah/grid:style=sandwich@400"),
                    *b = open_task("niah/grid:style=city,depths=5@400");
    struct kva_arena arena;
    struct kva_item it;
    char city[40], want[100];

    (void)state;
    kva_arena_init(&arena);
    for (int i = 0; i < 10; i++) {
        const struct kva_span *e, *p;

        it = item_of(a, i, &kva_tok_ws, &arena);
        e = evidence(&it);
        assert_memory_equal(it.context + e->b0 - 1, sandwich, sizeof sandwich - 1);
        assert_int_equal(e->b1 - e->b0, sizeof sandwich - 3);
        p = span_named(&it, "P0");
        assert_memory_equal(it.context + p->b0, it.answers[0], p->b1 - p->b0);
        assert_string_equal(it.question, "The best thing to do in San Francisco is: ");
        assert_string_equal(it.answers[0],
                            "eat a sandwich and sit in Dolores Park on a sunny day.");
        assert_string_equal(it.metric, "needle_words");

        it = item_of(b, i, &kva_tok_ws, &arena);
        assert_int_equal(
            sscanf(it.question, "What is the special magic %39s number?", city), 1);
        snprintf(want, sizeof want, "\nThe special magic %s number is: %s\n", city,
                 it.answers[0]);
        e = evidence(&it);
        assert_memory_equal(it.context + e->b0 - 1, want, strlen(want));
        assert_int_equal(strlen(it.answers[0]), 7);
        p = span_named(&it, "P0");
        assert_memory_equal(it.context + p->b0, it.answers[0], 7);
        p = span_named(&it, "K0");
        assert_memory_equal(it.context + p->b0, city, strlen(city));
    }
    assert_false(kva_task_info(a)->binary);
    assert_true(kva_task_info(b)->binary);
    kva_arena_release(&arena);
    kva_task_close(a);
    kva_task_close(b);
}

static void any_length_works_or_is_refused_at_once(void **state)
{
    static const int length[] = {1, 64, 250, 1000000};

    (void)state;
    for (int l = 0; l < 4; l++) {
        char text[40];
        struct kva_task *task;
        struct kva_arena arena;
        struct kva_error err = {0};
        struct kva_item it;
        uint64_t begin = kva_cpu_ns();

        snprintf(text, sizeof text, "niah/grid@%d", length[l]);
        task = open_task(text);
        kva_arena_init(&arena);
        if (kva_task_item(task, 4, &kva_tok_ws, &arena, &it, &err) != KVA_OK) {
            assert_non_null(strstr(err.text, "does not fit in"));
            assert_true(kva_cpu_ns() - begin < 1000000000 && length[l] < 250);
        } else {
            assert_true(length[l] >= 250);
        }
        kva_arena_release(&arena);
        kva_task_close(task);
    }
}

static void parameters_out_of_range_are_refused(void **state)
{
    static const char *const row[][2] = {
        {"niah/grid:depths=1", "depths is a whole number from 2 to 101"},
        {"niah/grid:rounds=0", "rounds is a whole number from 1 to 10000"},
        {"niah/grid:needles=2", "needles is 1, 4 or 8"},
        {"niah/grid:style=passkey", "style is number, sandwich or city, not passkey"},
        {"niah/grid:style=city,needles=4", "style city has one needle"},
        {"niah/grid:haystack=noise", "unknown haystack \"noise\""},
        {"niah/grid:depth=5", "unknown parameter \"depth\"; did you mean depths?"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        const char *got = refusal(row[i][0], NULL);

        if (strncmp(got, "EINVALID: ", 10) != 0 || !strstr(got, row[i][1]))
            fail_msg("%s: %s", row[i][0], got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_depths_are_those_of_the_document),
        TEST(any_first_samples_are_spread_over_the_depths),
        TEST(within_a_round_only_the_place_changes),
        TEST(the_needle_stands_before_the_sentence_of_its_depth),
        TEST(several_needles_follow_the_first_in_even_steps),
        TEST(styles_are_the_needles_and_questions_of_their_sources),
        TEST(any_length_works_or_is_refused_at_once),
        TEST(parameters_out_of_range_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
