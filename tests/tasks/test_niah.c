/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_niah.c - needles of dialect kva1: worked rows of tasks-ruler.md 12.3 (c),
 * templates, draws, depths, fill, and what a run on several machines relies on. */
#include "tests/tasks/tasks_test.h"

#include <unistd.h>

static void the_three_worked_rows_are_exact(void **state)
{
    static const struct {
        const char *key, *value, *first;
        size_t b0, b1, bytes;
        int t0, d0;
        uint64_t stream, d_stream;
    } row[] = {
        {"curious-chow", "1563915", "One of", 131, 193, 709, 23, 43, 0xea94124212754627,
         0x6b480f25ca265593},
        {"cheerful-string", "2768029", "The baker", 199, 264, 712, 37, 57,
         0xea94114212754474, 0xb73e80aec783c482},
        {"puzzled-examination", "2310482", "An old dog", 265, 334, 716, 48, 71,
         0xea9414421275498d, 0xb0fbdff272348249},
    };
    struct kva_task *task =
        open_with("ruler/niah_single_2@256",
                  &(struct kva_task_opts){.seed = 42, .haystack = "embedded"});
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    for (int idx = 0; idx < 3; idx++) {
        struct kva_error err = {0};
        struct kva_item it;
        const struct kva_span *e, *d;
        char text[128];

        assert_true(kva_task_stream(task, idx, "").x == row[idx].stream);
        snprintf(text, sizeof text, "kvaudit-D|kva1|niah_single_2|256|42|%d|E0|0", idx);
        assert_true(kva_fnv1a64_str(text) == row[idx].d_stream);
        assert_int_equal(
            kva_niah_item_fixed(task, idx, 12, 4, &kva_tok_ws, &arena, &it, &err),
            KVA_OK);
        assert_int_equal(it.context_len, row[idx].bytes);
        assert_int_equal(it.n_context, 129);
        assert_int_equal(
            strncmp(it.context + 131, row[idx].first, strlen(row[idx].first)), 0);
        e = span_named(&it, "E0");
        assert_range(e->b0, e->b1, row[idx].b0, row[idx].b1);
        assert_range(e->t0, e->t1, row[idx].t0, row[idx].t0 + 10);
        snprintf(text, sizeof text, "One of the special magic numbers for %s is: %s.",
                 row[idx].key, row[idx].value);
        assert_int_equal(strlen(text), e->b1 - e->b0);
        assert_memory_equal(text, it.context + e->b0, strlen(text));
        d = span_named(&it, "D0");
        assert_range(d->t0, d->t1, row[idx].d0, row[idx].d0 + 10);
        assert_int_equal(d->level, 3);
        assert_string_equal(it.answers[0], row[idx].value);
    }
    kva_arena_release(&arena);
    kva_task_close(task);
}

static const char *after(const char *text, const char *head)
{
    assert_int_equal(strncmp(text, head, strlen(head)), 0);
    return text + strlen(head);
}

static void one_answer_takes_the_singular_and_several_the_plural(void **state)
{
    struct kva_task *one = open_task("ruler/niah_single_3@700");
    struct kva_task *many = open_task("niah/needle:keys=3,queries=3@900");
    struct kva_task *two = open_task("niah/needle:queries=2@900");
    struct kva_arena arena;
    struct kva_item it;
    char want[400], query[256];
    const char *key;

    (void)state;
    kva_arena_init(&arena);
    it = item_of(one, 0, &kva_tok_ws, &arena);
    after(it.context,
          "A special magic uuid is hidden within the following text. Make sure to "
          "memorize it. I will quiz you about the uuid afterwards.\n");
    key = after(it.question, "What is the special magic uuid for ");
    snprintf(query, sizeof query, "%.*s", (int)(strchr(key, ' ') - key), key);
    snprintf(want, sizeof want, "%s mentioned in the provided text? ", query);
    assert_string_equal(key, want);
    snprintf(want, sizeof want,
             "The special magic uuid for %s mentioned in the provided text is", query);
    assert_string_equal(it.answer_prefix, want);
    snprintf(want, sizeof want, "One of the special magic uuids for %s is: %s.", query,
             it.answers[0]);
    assert_non_null(strstr(it.context, want));
    assert_int_equal(strlen(it.answers[0]), 36);
    assert_int_equal(it.answers[0][14], '4');
    assert_non_null(strchr("89ab", it.answers[0][19]));
    assert_int_equal(it.context[it.context_len - 1], '\n');

    it = item_of(many, 0, &kva_tok_ws, &arena);
    after(it.context,
          "Some special magic numbers are hidden within the following text. Make sure "
          "to memorize it. I will quiz you about the numbers afterwards.\n");
    after(it.question, "What are all the special magic numbers for ");
    assert_non_null(strstr(it.question, ", and "));
    snprintf(want, sizeof want, " %s, %s, %s", it.answers[0], it.answers[1],
             it.answers[2]);
    assert_string_equal(it.gold, want);
    after(it.answer_prefix, "The special magic numbers for ");
    assert_string_equal(it.answer_prefix + strlen(it.answer_prefix) - 4, " are");
    it = item_of(two, 0, &kva_tok_ws, &arena);
    assert_non_null(
        strstr(it.question, ", and ")); /* comma before "and" for two as well */
    kva_arena_release(&arena);
    kva_task_close(one);
    kva_task_close(many);
    kva_task_close(two);
}

static void
the_needle_prefix_replaces_the_official_one_and_keeps_the_question(void **state)
{
    struct kva_task *a = open_task("niah/needle:keys=4,prefix=needle,digits=4@700");
    struct kva_arena arena;
    struct kva_item it;

    (void)state;
    kva_arena_init(&arena);
    assert_string_equal(kva_task_info(a)->name, "needle:digits=4,keys=4,prefix=needle");
    for (int idx = 0; idx < 5; idx++) {
        const char *key;
        char want[200];

        it = item_of(a, idx, &kva_tok_ws, &arena);
        key = after(it.question, "What is the special magic number for ");
        snprintf(want, sizeof want, "One of the special magic numbers for %.*s is:",
                 (int)(strstr(key, " mentioned") - key), key);
        assert_string_equal(it.answer_prefix, want);
        assert_int_equal(strlen(it.answers[0]), 4);
        snprintf(want, sizeof want, "%s %s.", it.answer_prefix, it.answers[0]);
        assert_non_null(strstr(it.context, want));
        assert_string_equal(it.gold + 1, it.answers[0]);
        assert_int_equal(it.gold[0], ' ');
    }
    kva_arena_release(&arena);
    kva_task_close(a);
}

static void canonical_names_list_what_differs_sorted(void **state)
{
    static const char *const pair[][2] = {
        {"niah/needle", "needle"},
        {"niah/needle:keys=1,digits=7,prefix=official,haystack=emerson", "needle"},
        {"niah/needle:keys=2", "needle:keys=2"},
        {"niah/needle:values=2,keys=3,haystack=noise",
         "needle:haystack=noise,keys=3,values=2"},
        {"niah/needle:queries=4", "needle:keys=4,queries=4"},
        {"ruler/niah_single_2:haystack=embedded@512", "niah_single_2:haystack=embedded"},
        {"ruler/niah_single_1:haystack=noise", "niah_single_1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++) {
        struct kva_task *task = open_task(pair[i][0]);

        assert_string_equal(kva_task_info(task)->name, pair[i][1]);
        kva_task_close(task);
    }
}

static void the_guess_floor_is_the_share_a_random_value_earns(void **state)
{
    static const struct {
        const char *text;
        double floor;
    } row[] = {{"ruler/niah_single_2", 0},
               {"ruler/niah_multikey_1", 0.25},
               {"niah/needle:keys=8", 0.125},
               {"niah/needle:values=4", 0},
               {"niah/needle:queries=4", 0},
               {"niah/needle:keys=4,queries=2", 0.5},
               {"niah/needle:haystack=needle", 1.0 / 155},
               {"ruler/niah_multivalue", 0},
               {"ruler/niah_multiquery", 0},
               {"ruler/niah_multikey_3", 1.0 / 48},
               {"ruler/vt", 0}};

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct kva_task *task = open_task(row[i].text);

        assert_true(kva_task_info(task)->guess_floor == row[i].floor);
        kva_task_close(task);
    }
}

static void depth_deciles_are_balanced_over_idx(void **state)
{
    struct kva_task *task = open_task("ruler/niah_single_1@4096");
    struct kva_arena arena;
    int seen[10] = {0};

    (void)state;
    kva_arena_init(&arena);
    for (int idx = 0; idx < 40; idx++) {
        struct kva_item it = item_of(task, idx, &kva_tok_ws, &arena);
        double hay = 23.0 / (double)it.n_context; /* the instruction */
        int decile = (int)(10 * (it.depth - hay) / (1 - hay));

        /* the depth in tokens is within a line of the depth in lines */
        assert_true(abs(decile - idx % 10) <= 1);
        seen[idx % 10] += decile == idx % 10;
        kva_arena_reset(&arena);
    }
    for (int i = 0; i < 10; i++)
        assert_true(seen[i] >= 2);
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void an_item_alone_equals_the_item_of_a_run(void **state)
{
    struct kva_task *run = open_task("ruler/niah_multikey_1@600");
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    for (int idx = 0; idx < 8; idx++) {
        struct kva_item a = item_of(run, idx, &kva_tok_ws, &arena);
        struct kva_task *alone = open_task("ruler/niah_multikey_1@600");
        struct kva_item b = item_of(alone, idx, &kva_tok_ws, &arena);

        assert_string_equal(a.context, b.context);
        assert_string_equal(a.question, b.question);
        assert_int_equal(a.n_spans, b.n_spans);
        kva_task_close(alone);
    }
    kva_arena_release(&arena);
    kva_task_close(run);
}

static void seeds_lengths_and_items_differ(void **state)
{
    struct kva_task *a = open_task("ruler/niah_single_2@600");
    struct kva_task *b =
        open_with("ruler/niah_single_2@600", &(struct kva_task_opts){.seed = 43});
    struct kva_task *c = open_task("ruler/niah_single_2@601");
    struct kva_arena arena;
    const char *value[4];

    (void)state;
    kva_arena_init(&arena);
    value[0] = item_of(a, 0, &kva_tok_ws, &arena).answers[0];
    value[1] = item_of(a, 1, &kva_tok_ws, &arena).answers[0];
    value[2] = item_of(b, 0, &kva_tok_ws, &arena).answers[0];
    value[3] =
        item_of(c, 0, &kva_tok_ws, &arena).answers[0]; /* L is part of the stream */
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(value[i], value[j]);
    kva_arena_release(&arena);
    kva_task_close(a);
    kva_task_close(b);
    kva_task_close(c);
}

/* Check 3 of tasks-ruler.md 14, and keys and values told apart. */
static void spans_are_the_planted_text_and_every_answer_occurs(void **state)
{
    static const char *const tasks[] = {
        "niah/needle:keys=4,values=2,queries=2@1200", "ruler/niah_multikey_1@700",
        "ruler/niah_single_1@512", "niah/needle:digits=1,keys=4@700"};
    struct pairs pairs = {.lead = 3};
    const struct kva_tok_api api = pairs_api(&pairs);

    (void)state;
    for (size_t t = 0; t < sizeof tasks / sizeof tasks[0]; t++) {
        struct kva_task *task = open_task(tasks[t]);
        struct kva_arena arena;

        kva_arena_init(&arena);
        for (int idx = 0; idx < 20; idx++) {
            struct kva_item it = item_of(task, idx, idx % 2 ? &api : &kva_tok_ws, &arena);
            int queried = 0;

            for (int a = 0; a < it.n_answers; a++)
                for (int b = 0; b < a; b++)
                    assert_string_not_equal(it.answers[a], it.answers[b]);
            for (int i = 0; i < it.n_spans; i++) {
                const struct kva_span *e = &it.spans[i], *p, *k;
                char id[8], want[256];

                if (e->kind != 'E')
                    continue;
                snprintf(id, sizeof id, "P%s", e->id + 1);
                p = span_named(&it, id);
                snprintf(id, sizeof id, "K%s", e->id + 1);
                k = span_named(&it, id);
                snprintf(want, sizeof want,
                         "One of the special magic numbers for %.*s is: %.*s.",
                         (int)(k->b1 - k->b0), it.context + k->b0, (int)(p->b1 - p->b0),
                         it.context + p->b0);
                assert_int_equal(strlen(want), e->b1 - e->b0);
                assert_memory_equal(want, it.context + e->b0, strlen(want));
                assert_true(p->t0 >= e->t0 && p->t1 <= e->t1 && p->t0 < p->t1);
                for (int a = 0; a < it.n_answers && e->queried; a++)
                    queried +=
                        strlen(it.answers[a]) == p->b1 - p->b0 &&
                        strncmp(it.answers[a], it.context + p->b0, p->b1 - p->b0) == 0;
            }
            assert_int_equal(queried, it.n_answers);
            kva_arena_reset(&arena);
        }
        kva_arena_release(&arena);
        kva_task_close(task);
    }
}

/* Checks 4 and 8 of tasks-ruler.md 14. */
static void lengths_are_filled_or_flagged_and_never_passed(void **state)
{
    static const char *const names[] = {"ruler/niah_single_1", "ruler/niah_single_2",
                                        "ruler/niah_multikey_1", "ruler/vt",
                                        "niah/needle:haystack=embedded"};
    static const int lengths[] = {512, 900, 2048, 4096, 16384};
    int flagged = 0, made = 0;

    (void)state;
    for (size_t t = 0; t < sizeof names / sizeof names[0]; t++)
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            struct kva_arena arena;
            struct kva_task *task;
            char text[80];

            if (lengths[l] < 900 && strcmp(names[t], "ruler/vt") == 0)
                continue;
            snprintf(text, sizeof text, "%s@%d", names[t], lengths[l]);
            task = open_task(text);
            kva_arena_init(&arena);
            for (int idx = 0; idx < 4; idx++) {
                struct kva_item it = item_of(task, idx, &kva_tok_ws, &arena);
                size_t total = it.n_context + it.n_question + (size_t)it.max_new_tokens;

                assert_true(total <= (size_t)lengths[l]);
                assert_true(it.fill == (double)total / lengths[l]);
                assert_true(it.underfill == (it.fill < 0.97));
                flagged += it.underfill;
                made++;
                assert_true(!it.underfill || lengths[l] < 2048);
            }
            kva_arena_release(&arena);
            kva_task_close(task);
        }
    assert_true(flagged < made / 4);
}

static void a_length_too_small_is_refused_at_once(void **state)
{
    static const char *const text[] = {"ruler/niah_single_2@100", "ruler/vt@200",
                                       "ruler/niah_single_1@1"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct kva_task *task = open_task(text[i]);
        uint64_t begin = kva_cpu_ns();
        struct kva_error err = {0};
        struct kva_arena arena;
        struct kva_item it;
        int need, limit = kva_task_info(task)->ctx;
        const char *at;
        char again[120];

        kva_arena_init(&arena);
        assert_int_equal(kva_task_item(task, 0, &kva_tok_ws, &arena, &it, &err),
                         KVA_EINVALID);
        assert_true(kva_cpu_ns() - begin < 1000000000);
        snprintf(again, sizeof again,
                 "does not fit in %d with tokenizer ws (needs at least ", limit);
        at = strstr(err.text, again);
        assert_non_null(at);
        need = (int)strtol(at + strlen(again), NULL, 10);
        assert_true(need > limit && need < 2000);
        kva_arena_release(&arena);
        kva_task_close(task);
    }
}

static void the_option_for_new_tokens_makes_room(void **state)
{
    struct kva_task *task = open_with("ruler/niah_single_1@400",
                                      &(struct kva_task_opts){.max_new_tokens = 16});
    struct kva_arena arena;
    struct kva_item it;

    (void)state;
    kva_arena_init(&arena);
    it = item_of(task, 0, &kva_tok_ws, &arena);
    assert_int_equal(it.max_new_tokens, 16);
    assert_true(it.n_context + it.n_question > 350);
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void parameters_out_of_range_are_refused(void **state)
{
    static const char *const row[][2] = {
        {"niah/needle:kays=2", "unknown parameter \"kays\"; did you mean keys?"},
        {"niah/needle:keys=0", "keys is a whole number from 1 to 64"},
        {"niah/needle:keys=4x", "keys is a whole number from 1 to 64"},
        {"niah/needle:keys=64,values=3", "192 needles are more than 128"},
        {"niah/needle:digits=1,keys=5", "too few 1-digit numbers for 5 needles"},
        {"niah/needle:digits=16", "digits is a whole number from 1 to 15"},
        {"niah/needle:haystack=essay",
         "unknown haystack \"essay\" (emerson, embedded, essays, noise or needle)"},
        {"niah/needle:prefix=none", "prefix is official or needle"},
        {"ruler/niah_single_2:haystack=noise", "RULER's niah_single_2 has essays"},
        {"ruler/niah_single_1:haystack=emerson", "RULER's niah_single_1 has noise"},
        {"ruler/niah_single_1:keys=2", "unknown parameter \"keys\""},
        {"ruler/vt:hops=2", "unknown parameter \"hops\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        const char *got = refusal(row[i][0], NULL);

        if (strncmp(got, "EINVALID: ", 10) != 0 || !strstr(got, row[i][1]))
            fail_msg("%s: %s", row[i][0], got);
    }
}

static void needle_lines_do_not_depend_on_how_many_fit(void **state)
{
    struct kva_task *task = open_task("ruler/niah_multikey_2@2048");
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    for (int idx = 0; idx < 5; idx++) {
        struct kva_item many = item_of(task, idx, &kva_tok_ws, &arena);
        struct kva_item few = item_of(task, idx, &kva_tok_by, &arena);
        const struct kva_span *e = span_named(&many, "E0");
        int lines = 0;

        assert_true(few.n_decoys > 5 && many.n_decoys > 5 * few.n_decoys);
        for (int i = 0; i < few.n_decoys; i++)
            assert_string_equal(few.decoys[i], many.decoys[i]);
        assert_string_equal(few.answers[0], many.answers[0]);
        for (size_t i = 0; i < many.context_len; i++)
            lines += many.context[i] == '\n';
        lines--; /* the instruction */
        assert_int_equal(lines, many.n_decoys + 1);
        assert_true(many.guess_floor == 1.0 / lines);
        for (int i = 0; i < many.n_spans; i++) { /* whole lines */
            const struct kva_span *d = &many.spans[i];

            if (d->kind == 'P')
                continue;
            assert_int_equal(many.context[d->b0 - 1], '\n');
            assert_int_equal(many.context[d->b1], '\n');
            assert_int_equal(strncmp(many.context + d->b0, "One of the special", 18), 0);
            assert_true(d == e || d->kind == 'D');
        }
        kva_arena_reset(&arena);
    }
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void decoys_are_the_values_nobody_asked_for(void **state)
{
    static const struct {
        const char *text;
        int answers, decoys;
    } row[] = {{"ruler/niah_single_2@900", 1, 0},
               {"ruler/niah_multikey_1@900", 1, 3},
               {"ruler/niah_multivalue@900", 4, 0},
               {"ruler/niah_multiquery@900", 4, 0},
               {"niah/needle:keys=3,queries=2,values=2@900", 4, 2}};

    (void)state;
    for (size_t r = 0; r < sizeof row / sizeof row[0]; r++) {
        struct kva_task *task = open_task(row[r].text);
        struct kva_arena arena;
        struct kva_item it;

        kva_arena_init(&arena);
        it = item_of(task, 1, &kva_tok_ws, &arena);
        assert_int_equal(it.n_answers, row[r].answers);
        assert_int_equal(it.n_decoys, row[r].decoys);
        assert_string_equal(it.more_metrics[0], "word_match");
        assert_null(it.more_metrics[1]);
        kva_arena_release(&arena);
        kva_task_close(task);
    }
}

static void essays_are_the_users_file_plain_or_json(void **state)
{
    static const char plain[] = "One small fox.\n\nTwo grey hens ran off. Three men sat.",
                      json[] = "{\"text\": \"One small fox. Two grey hens ran off. Three "
                               "men sat.\"}";
    char path[] = "/tmp/kva_essays_XXXXXX";
    int fd = mkstemp(path);
    struct kva_task_data data = {"essays", path};
    struct kva_task_opts opts = {
        .seed = 3, .haystack = "essays", .data = &data, .n_data = 1};
    struct kva_error err = {0};
    char first[4000];

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    for (int j = 0; j < 2; j++) {
        struct kva_task *task;
        struct kva_arena arena;
        struct kva_item it;

        assert_int_equal(
            kva_write_file(path, j ? json : plain, strlen(j ? json : plain), &err),
            KVA_OK);
        task = open_with("ruler/niah_single_2@400", &opts);
        kva_arena_init(&arena);
        assert_string_equal(kva_task_info(task)->name, "niah_single_2:haystack=essays");
        it = item_of(task, 0, &kva_tok_ws, &arena);
        /* short texts go round and round */
        assert_true(it.fill > 0.97);
        assert_non_null(
            strstr(it.context, "Three men sat. One small fox. Two grey hens"));
        if (j == 0)
            snprintf(first, sizeof first, "%s", it.context);
        else
            assert_string_equal(first, it.context);
        kva_arena_release(&arena);
        kva_task_close(task);
    }
    unlink(path);
    assert_non_null(strstr(refusal("ruler/niah_single_2", &opts), "EIO"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_three_worked_rows_are_exact),
        TEST(one_answer_takes_the_singular_and_several_the_plural),
        TEST(the_needle_prefix_replaces_the_official_one_and_keeps_the_question),
        TEST(canonical_names_list_what_differs_sorted),
        TEST(the_guess_floor_is_the_share_a_random_value_earns),
        TEST(depth_deciles_are_balanced_over_idx),
        TEST(an_item_alone_equals_the_item_of_a_run),
        TEST(seeds_lengths_and_items_differ),
        TEST(spans_are_the_planted_text_and_every_answer_occurs),
        TEST(lengths_are_filled_or_flagged_and_never_passed),
        TEST(a_length_too_small_is_refused_at_once),
        TEST(the_option_for_new_tokens_makes_room),
        TEST(parameters_out_of_range_are_refused),
        TEST(needle_lines_do_not_depend_on_how_many_fit),
        TEST(decoys_are_the_values_nobody_asked_for),
        TEST(essays_are_the_users_file_plain_or_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
