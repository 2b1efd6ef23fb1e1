/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_entries.c - evidence in many places of a list: spans, payloads, nearest
 * distractors (tasks-ruler.md 8.4); parts no distractor may touch; the worked example. */
#include "tests/tasks/tasks_test.h"

/* Entries "1. w" of words; capital letters are answers ("A" is word 0). */
static void write_list(struct kva_draft *d, const char *const *word, size_t n)
{
    struct kva_error err = {0};

    kva_draft_init(d);
    kva_buf_puts(&d->text, "List: ");
    for (size_t i = 0; i < n; i++) {
        struct kva_entry e = {.answer = -1};

        if (i > 0)
            kva_buf_putc(&d->text, ' ');
        e.at.b0 = d->text.len;
        kva_buf_printf(&d->text, "%zu. ", i + 1);
        e.word = kva_draft_add(d, word[i], strlen(word[i]));
        e.at.b1 = e.word.b1;
        if (word[i][0] >= 'A' && word[i][0] <= 'Z')
            e.answer = word[i][0] - 'A';
        assert_int_equal(kva_draft_add_entry(d, &e, &err), KVA_OK);
    }
}

static struct kva_item spans_of(const struct kva_draft *d, struct kva_arena *arena)
{
    struct kva_span_job job = {.draft = d, .stream = "x", .guard = 32, .tau = 1};
    struct kva_item item = {.context = d->text.data, .context_len = d->text.len};
    struct kva_error err = {0};
    struct kva_span *s;
    int32_t *begin, *end;
    size_t n;

    kva_tok_ws.ranges(NULL, NULL, d->text.data, d->text.len, arena, &begin, &end, &n,
                      &err);
    assert_int_equal(kva_spans_make(&job, begin, end, n, arena, &s, &item.n_spans, &err),
                     KVA_OK);
    item.spans = s;
    return item;
}

static void the_nearest_free_entry_of_equal_length_is_the_distractor(void **state)
{
    /* the position of the D of every answer entry, 0: none */
    static const struct {
        const char *word[8];
        const char *id[4];
        int at[4];
    } row[] = {
        /* ties go left; each is used once */
        {{"x", "A", "y", "z"}, {"D0.0"}, {1}},
        {{"x", "A", "A", "y"}, {"D0.0", "D0.1"}, {1, 4}},
        {{"x", "A", "A", "A", "y"}, {"D0.0", "D0.1", "D0.2"}, {1, 5, 0}},
        {{"A", "B", "x", "y", "A"}, {"D0.0", "D1.0", "D0.1"}, {3, 4, 0}},
        /* only as many tokens */
        {{"x", "A b", "y", "z", "w w"}, {"D0.0"}, {5}},
        {{"x x", "A", "y y"}, {"D0.0"}, {0}},
        {{"A", "A"}, {"D0.0"}, {0}},
    };

    (void)state;
    for (size_t r = 0; r < sizeof row / sizeof row[0]; r++) {
        struct kva_arena arena;
        struct kva_draft d;
        struct kva_item it;
        size_t n = 0;

        while (n < 8 && row[r].word[n])
            n++;
        kva_arena_init(&arena);
        write_list(&d, row[r].word, n);
        it = spans_of(&d, &arena);
        for (int i = 0; i < 4 && row[r].id[i]; i++) {
            const struct kva_span *found = NULL, *e;
            char id[16];

            for (int k = 0; k < it.n_spans; k++)
                if (strcmp(it.spans[k].id, row[r].id[i]) == 0)
                    found = &it.spans[k];
            snprintf(id, sizeof id, "E%s", row[r].id[i] + 1);
            e = span_named(&it, id);
            if (row[r].at[i] == 0) {
                assert_null(found);
                continue;
            }
            assert_non_null(found);
            assert_int_equal(found->b0, d.entry[row[r].at[i] - 1].at.b0);
            assert_int_equal(found->b1, d.entry[row[r].at[i] - 1].at.b1);
            assert_string_equal(found->match, e->id);
            assert_int_equal(found->dtok, 0);
            assert_int_equal(found->t1 - found->t0, e->t1 - e->t0);
        }
        kva_draft_release(&d);
        kva_arena_release(&arena);
    }
}

static void every_entry_of_an_answer_is_evidence_with_its_word(void **state)
{
    static const char *const word[] = {"x", "B", "A", "y", "B", "z"};
    struct kva_arena arena;
    struct kva_draft d;
    struct kva_item it;
    const struct kva_span *s;

    (void)state;
    kva_arena_init(&arena);
    write_list(&d, word, 6);
    it = spans_of(&d, &arena);
    assert_int_equal(it.n_spans, 9);
    s = span_named(&it, "E1.1");
    assert_true(s->kind == 'E' && s->queried);
    assert_string_equal(s->role, "entry");
    assert_int_equal(strncmp(it.context + s->b0, "5. B", 4), 0);
    assert_int_equal(s->b1 - s->b0, 4);
    assert_range(s->t0, s->t1, 9, 11);
    s = span_named(&it, "P1.1");
    assert_true(s->kind == 'P' && s->b1 - s->b0 == 1 && it.context[s->b0] == 'B');
    assert_string_equal(s->match, "E1.1");
    assert_string_equal(s->role, "value");
    kva_draft_release(&d);
    kva_arena_release(&arena);
}

/* The nearest free entry by plain search, over random lists of words of one or two
 * tokens. */
static void long_lists_agree_with_plain_search(void **state)
{
    static const char *const kinds[] = {"x", "y y", "A", "B b", "C"};
    struct kva_rng rng = {7};

    (void)state;
    for (int round = 0; round < 50; round++) {
        const char *word[200];
        bool used[200] = {false};
        struct kva_arena arena;
        struct kva_draft d;
        struct kva_item it;

        for (int i = 0; i < 200; i++)
            word[i] = kinds[kva_rng_below(&rng, round % 2 ? 5 : 3)];
        kva_arena_init(&arena);
        write_list(&d, word, 200);
        it = spans_of(&d, &arena);
        for (int i = 0, s = 0; i < 200; i++) {
            int best = -1;
            bool two = strchr(word[i], ' ') != NULL;

            if (d.entry[i].answer < 0)
                continue;
            for (int k = 0; k < 200; k++)
                if (d.entry[k].answer < 0 && !used[k] &&
                    (strchr(word[k], ' ') != NULL) == two &&
                    (best < 0 || abs(k - i) < abs(best - i)))
                    best = k;
            assert_int_equal(it.spans[s].b0, d.entry[i].at.b0);
            s += 2;
            if (best < 0)
                continue;
            used[best] = true;
            assert_true(it.spans[s].kind == 'D');
            assert_int_equal(it.spans[s].b0, d.entry[best].at.b0);
            s++;
        }
        kva_draft_release(&d);
        kva_arena_release(&arena);
    }
}

static void no_distractor_touches_a_part_that_is_kept_out(void **state)
{
    static const char text[] = "E e. a b c d e f g h";
    struct kva_plant plant = {.text = "E e.", .role = "sentence", .queried = true};
    struct kva_error err = {0};

    (void)state;
    for (int out = 0; out < 2; out++) {
        struct kva_arena arena;
        struct kva_draft d;
        struct kva_item it = {0};
        struct kva_span_job job = {.draft = &d,
                                   .plants = &plant,
                                   .n_plants = 1,
                                   .stream = "x",
                                   .guard = 2,
                                   .n_distractors = 4};
        struct kva_span *s;
        int32_t *begin, *end;
        size_t n;
        int made = 0;

        kva_arena_init(&arena);
        kva_draft_init(&d);
        d.hay = kva_draft_add(&d, text, strlen(text));
        assert_int_equal(kva_draft_add_planted(&d, (struct kva_slice){0, 4}, &err),
                         KVA_OK);
        if (out) /* "d e f" */
            assert_int_equal(kva_draft_add_keep_out(&d, (struct kva_slice){11, 16}, &err),
                             KVA_OK);
        kva_tok_ws.ranges(NULL, NULL, text, strlen(text), &arena, &begin, &end, &n, &err);
        assert_int_equal(
            kva_spans_make(&job, begin, end, n, &arena, &s, &it.n_spans, &err), KVA_OK);
        for (int i = 0; i < it.n_spans; i++) {
            if (s[i].kind != 'D')
                continue;
            made++;
            assert_true(!out || s[i].b0 >= 16 || s[i].b1 <= 11);
        }
        assert_true(made >= (out ? 1 : 2));
        kva_draft_release(&d);
        kva_arena_release(&arena);
    }
}

static void the_worked_example_is_a_span_of_its_own(void **state)
{
    struct kva_task *task = open_task("ruler/vt@1024");
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    for (int idx = 0; idx < 5; idx++) {
        struct kva_item it = item_of(task, idx, &kva_tok_ws, &arena);
        const struct kva_span *x = span_named(&it, "X0");

        assert_true(x->kind == 'X' && !x->queried && x->b0 == 0 && x->t0 == 0);
        assert_string_equal(x->role, "example");
        assert_int_equal(strncmp(it.context + x->b1, "\n\nMemorize", 10), 0);
        for (int i = 0; i < it.n_spans; i++)
            assert_true(&it.spans[i] == x || it.spans[i].b0 > x->b1);
    }
    kva_arena_release(&arena);
    kva_task_close(task);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_nearest_free_entry_of_equal_length_is_the_distractor),
        TEST(every_entry_of_an_answer_is_evidence_with_its_word),
        TEST(long_lists_agree_with_plain_search),
        TEST(no_distractor_touches_a_part_that_is_kept_out),
        TEST(the_worked_example_is_a_span_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
