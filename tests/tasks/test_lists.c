/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_lists.c - cwe and fwe of dialect kva1: what stands in the lists and how often
 * (tasks-ruler.md 2, 6.3, 6.4, 7). */
#include "tests/tasks/tasks_test.h"

/* Reads "1. w 2. w ..." up to a line feed, in which a word may hold blanks; entry i is
 * word[i]. */
static size_t read_list(const char *s, char word[][32], size_t most)
{
    size_t n = 0;

    for (;;) {
        char head[24], next[24];
        const char *end, *line = strchr(s, '\n');

        snprintf(head, sizeof head, "%zu. ", n + 1);
        snprintf(next, sizeof next, " %zu. ", n + 2);
        assert_int_equal(strncmp(s, head, strlen(head)), 0);
        s += strlen(head);
        end = strstr(s, next);
        if (!end || end > line)
            end = line;
        assert_true(n < most && end - s < 32 && end > s);
        snprintf(word[n++], 32, "%.*s", (int)(end - s), s);
        if (end == line)
            return n;
        s = end + 1;
    }
}

static size_t count_of(const char *text, char word[][32], size_t n)
{
    size_t k = 0;

    for (size_t i = 0; i < n; i++)
        k += strcmp(word[i], text) == 0;
    return k;
}

static const char head[] =
    "Below is a numbered list of words. In these words, some appear more often than "
    "others. Memorize the ones that appear most often.\n";
static const char tail[] =
    "Question: What are the 10 most common words in the above list? Answer: The top 10 "
    "words that appear most often in the list are: 1. ";

static void cwe_lists_hold_ten_words_more_often_than_the_others(void **state)
{
    static const struct {
        int limit;
        size_t shot, shot_often, often, seldom;
    } row[] = {{1024, 40, 3, 6, 1}, {4095, 40, 3, 6, 1}, {4096, 190, 10, 30, 3}};
    static char word[8192][32];

    (void)state;
    for (size_t r = 0; r < 3; r++) {
        struct kva_task *task;
        struct kva_arena arena;
        char text[40];

        snprintf(text, sizeof text, "ruler/cwe@%d", row[r].limit);
        task = open_task(text);
        kva_arena_init(&arena);
        for (int idx = 0; idx < 3; idx++) {
            struct kva_item it = item_of(task, idx, &kva_tok_ws, &arena);
            const struct kva_span *x = span_named(&it, "X0");
            const char *s = it.context + strlen(head);
            char gold[400] = "";
            size_t n, often = 0;
            int evidence = 0;

            assert_int_equal(strncmp(it.context, head, strlen(head)), 0);
            n = read_list(s, word, 8192);
            assert_int_equal(n, row[r].shot);
            for (size_t i = 0; i < n; i++)
                often += count_of(word[i], word, n) == row[r].shot_often;
            assert_int_equal(often, 10 * row[r].shot_often);
            for (int a = 0; a < 10; a++) /* the example gives nothing away */
                assert_int_equal(count_of(it.answers[a], word, n), 0);
            s = strchr(s, '\n') + 1;
            assert_int_equal(strncmp(s, tail, strlen(tail)), 0);
            s = strchr(s, '\n') + 1;
            assert_range(x->b0, x->b1, 0, (size_t)(s - it.context) - 1);
            assert_int_equal(strncmp(s, head, strlen(head)), 0);
            n = read_list(s + strlen(head), word, 8192);
            assert_int_equal(s[strlen(s) - 1], '\n');
            for (int a = 0; a < 10; a++)
                assert_int_equal(count_of(it.answers[a], word, n), row[r].often);
            assert_int_equal((n - 10 * row[r].often) % row[r].seldom, 0);
            for (size_t i = 0; i < n; i += 37) {
                size_t k = count_of(word[i], word, n);

                assert_true(k == row[r].seldom || k == row[r].often);
            }
            for (int i = 0; i < it.n_spans; i++)
                evidence += it.spans[i].kind == 'E';
            assert_int_equal(evidence, 10 * row[r].often);
            for (int a = 0; a < 10; a++)
                snprintf(gold + strlen(gold), sizeof gold - strlen(gold), " %d. %s",
                         a + 1, it.answers[a]);
            assert_string_equal(it.gold, gold);
            assert_string_equal(it.answer_prefix,
                                "Answer: The top 10 words that appear most often in the "
                                "list are:");
            kva_arena_reset(&arena);
        }
        kva_arena_release(&arena);
        kva_task_close(task);
    }
}

static void a_list_has_another_order_in_every_sample(void **state)
{
    struct kva_task *task = open_task("ruler/cwe@1024");
    struct kva_arena arena;
    int first[12], equal = 0;

    (void)state;
    kva_arena_init(&arena);
    for (int idx = 0; idx < 12; idx++) {
        struct kva_item it = item_of(task, idx, &kva_tok_ws, &arena);

        first[idx] = span_named(&it, "E0.0")->t0;
        for (int k = 0; k < idx; k++)
            equal += first[k] == first[idx];
    }
    assert_true(equal < 6);
    kva_arena_release(&arena);
    kva_task_close(task);
}

/* Words of a text of size n with nine words. */
static size_t words_of(size_t n)
{
    size_t sum = 0;

    for (size_t i = 1; i <= 9; i++)
        sum += (size_t)((double)n * (1.0 / (double)(i * i)) / 1.6449340668482264);
    return sum;
}

/* One text has the counts of size 427: 259 64 28 16 10 7 5 4 3, 396 words. */
static void fwe_counts_follow_the_inverse_square_of_the_rank(void **state)
{
    static const size_t want[9] = {259, 64, 28, 16, 10, 7, 5, 4, 3};
    bool found = false;

    (void)state;
    for (int limit = 500; limit < 550; limit++) {
        char text[40], word[9][8];
        size_t count[9] = {0}, n = 0, total = 0, fixed, size = 100;
        struct kva_task *task;
        struct kva_arena arena;
        struct kva_item it;
        const char *s;

        snprintf(text, sizeof text, "ruler/fwe@%d", limit);
        task = open_task(text);
        kva_arena_init(&arena);
        it = item_of(task, 0, &kva_tok_ws, &arena);
        fixed = it.n_question + 50;
        s = strstr(it.context, "coded words. ") + 13;
        while (*s && *s != '\n') {
            size_t len = strcspn(s, " \n"), w = 0;

            while (w < n && (strlen(word[w]) != len || memcmp(word[w], s, len) != 0))
                w++;
            if (w == n) {
                assert_true(n < 9 && len < 8);
                snprintf(word[n++], 8, "%.*s", (int)len, s);
            }
            count[w]++;
            total++;
            s += len + (s[len] == ' ');
        }
        assert_int_equal(n, 9);
        for (size_t w = 0; w < n; w++) {
            size_t rank = 0;

            for (size_t v = 0; v < n; v++)
                rank += count[v] > count[w];
            if (rank == 0)
                assert_string_equal(word[w], "...");
            if (rank >= 1 && rank <= 3)
                assert_string_equal(word[w], it.answers[rank - 1]);
            if (total == 396)
                assert_int_equal(count[w], want[rank]);
        }
        /* no larger text fits */
        fixed += it.n_context - total;
        while (words_of(size) <= total)
            size++;
        assert_int_equal(words_of(size - 1), total);
        assert_true(fixed + total <= (size_t)limit &&
                    fixed + words_of(size) > (size_t)limit);
        found = found || total == 396;
        kva_arena_release(&arena);
        kva_task_close(task);
    }
    assert_true(found);
}

static void fwe_marks_every_occurrence_of_the_three_words(void **state)
{
    struct kva_task *task = open_task("ruler/fwe@2048");
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    for (int idx = 0; idx < 3; idx++) {
        struct kva_item it = item_of(task, idx, &kva_tok_ws, &arena);

        for (int a = 0; a < 3; a++) {
            int stands = 0, marked = 0;
            char id[8];

            snprintf(id, sizeof id, "E%d.", a);
            for (const char *s = it.context; (s = strstr(s, it.answers[a])); s++)
                stands++;
            for (int i = 0; i < it.n_spans; i++)
                marked += strncmp(it.spans[i].id, id, 3) == 0;
            assert_int_equal(stands, marked);
            assert_true(marked > 20);
        }
    }
    assert_true(kva_task_info(task)->guess_floor == 3.0 / 38);
    kva_arena_release(&arena);
    kva_task_close(task);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(cwe_lists_hold_ten_words_more_often_than_the_others),
        TEST(a_list_has_another_order_in_every_sample),
        TEST(fwe_counts_follow_the_inverse_square_of_the_rank),
        TEST(fwe_marks_every_occurrence_of_the_three_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
