/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_vt.c - variable tracking: layout, chain, example, spans. */
#include "tests/tasks/tasks_test.h"

static const char noise[] =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. "
    "There and back again.\n";
static const char head[] =
    "Memorize and track the chain(s) of variable assignment hidden in the "
    "following text.\n\n";

/* Reads lines up to `stop`, or to the end when it is NULL, and returns what follows. The
 * statements must be a chain told in order. */
static const char *read_part(const char *s, const char *stop, size_t letters,
                             int *n_noise, char names[5][8], char value[8])
{
    int n = 0;

    *n_noise = 0;
    while (stop ? strncmp(s, stop, strlen(stop)) != 0 : *s != '\0') {
        char want[64];

        if (strncmp(s, noise, strlen(noise)) == 0) {
            ++*n_noise;
            s += strlen(noise);
            continue;
        }
        assert_true(n < 5);
        snprintf(names[n], 8, "%.*s", (int)letters, s + 4);
        for (size_t i = 0; i < letters; i++)
            assert_in_range(names[n][i], 'A', 'Z');
        if (n == 0) {
            snprintf(value, 8, "%.5s", s + 4 + letters + 3);
            snprintf(want, sizeof want, "VAR %s = %s\n", names[0], value);
        } else {
            snprintf(want, sizeof want, "VAR %s = VAR %s \n", names[n], names[n - 1]);
        }
        assert_int_equal(strncmp(s, want, strlen(want)), 0);
        s += strlen(want);
        n++;
    }
    assert_int_equal(n, 5);
    return s + (stop ? strlen(stop) : 0);
}

static void the_context_is_a_solved_example_and_the_main_part(void **state)
{
    struct kva_task *task = open_task("ruler/vt@1024");
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    for (int idx = 0; idx < 25; idx++) {
        struct kva_item it = item_of(task, idx, &kva_tok_ws, &arena);
        char shown[5][8], names[5][8], value[8], other[8], want[300];
        const char *s = it.context + strlen(head);
        int n;

        assert_int_equal(strncmp(it.context, head, strlen(head)), 0);
        s = read_part(s, "Question: Find all variables that are assigned the value ", 3,
                      &n, shown, other);
        assert_int_equal(n, 8);
        snprintf(
            want, sizeof want,
            "%s in the text above. Answer: According to the chain(s) of variable "
            "assignment in the text above, 5 variables are assigned the value %s, they "
            "are:  %s %s %s %s %s\n\n",
            other, other, shown[0], shown[1], shown[2], shown[3], shown[4]);
        assert_int_equal(strncmp(s, want, strlen(want)), 0);
        s += strlen(want);
        assert_int_equal(strncmp(s, head, strlen(head)), 0);
        read_part(s + strlen(head), NULL, 5, &n, names, value);
        assert_true(n > 30);
        assert_string_not_equal(value, other);
        snprintf(
            want, sizeof want,
            "Question: Find all variables that are assigned the value %s in the text "
            "above. ",
            value);
        assert_string_equal(it.question, want);
        snprintf(
            want, sizeof want,
            "Answer: According to the chain(s) of variable assignment in the text above, "
            "5 variables are assigned the value %s, they are: ",
            value);
        assert_string_equal(it.answer_prefix, want);
        assert_int_equal(it.n_answers, 5);
        for (int i = 0; i < 5; i++)
            assert_string_equal(it.answers[i], names[i]);
        /* the prefix ends with a blank, so the gold text has none */
        snprintf(want, sizeof want, "%s %s %s %s %s", names[0], names[1], names[2],
                 names[3], names[4]);
        assert_string_equal(it.gold, want);
        assert_int_equal(it.max_new_tokens, 30);
        assert_true(it.depth == -1);
        kva_arena_reset(&arena);
    }
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void evidence_is_the_statement_without_its_trailing_blank(void **state)
{
    struct kva_task *task = open_task("ruler/vt@2048");
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    for (int idx = 0; idx < 10; idx++) {
        struct kva_item it = item_of(task, idx, &kva_tok_ws, &arena);

        for (int i = 0; i < 5; i++) {
            char id[8], want[64];
            const struct kva_span *e, *p, *k;

            snprintf(id, sizeof id, "E%d", i);
            e = span_named(&it, id);
            snprintf(id, sizeof id, "P%d", i);
            p = span_named(&it, id);
            snprintf(id, sizeof id, "K%d", i);
            k = span_named(&it, id);
            assert_true(e->queried);
            assert_int_equal(p->b1 - p->b0, 5);
            assert_memory_equal(it.context + p->b0, it.answers[i], 5);
            if (i > 0)
                snprintf(want, sizeof want, "VAR %s = VAR %s", it.answers[i],
                         it.answers[i - 1]);
            else
                snprintf(want, sizeof want, "VAR %s = %.5s", it.answers[0],
                         it.context + k->b0);
            assert_int_equal(e->b1 - e->b0, strlen(want));
            assert_memory_equal(it.context + e->b0, want, strlen(want));
            assert_int_equal(k->b1, e->b1);
            assert_int_equal(k->b1 - k->b0, i ? 9 : 5);
            assert_int_equal(e->t1 - e->t0, i ? 5 : 4);
        }
        kva_arena_reset(&arena);
    }
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void the_official_profile_gives_the_blank_to_the_prefix(void **state)
{
    static const char *const text[] = {"ruler/vt@900", "ruler/niah_single_2@512",
                                       "niah/needle:keys=2,queries=2@512"};

    (void)state;
    for (size_t t = 0; t < 3; t++) {
        struct kva_task *a = open_task(text[t]),
                        *b = open_with(
                            text[t],
                            &(struct kva_task_opts){.seed = 42, .profile = "official"}),
                        *c = open_with(text[t], &(struct kva_task_opts){
                                                    .seed = 42, .profile = "criticalkv"});
        struct kva_arena arena;
        struct kva_item x, y, z;
        char both[2][1000];
        struct kva_buf line;
        struct kva_error err = {0};

        kva_arena_init(&arena);
        kva_buf_init(&line, 0);
        x = item_of(a, 0, &kva_tok_ws, &arena);
        y = item_of(b, 0, &kva_tok_ws, &arena);
        z = item_of(c, 0, &kva_tok_ws, &arena);
        assert_string_equal(x.context, y.context);
        snprintf(both[0], sizeof both[0], "%s%s", x.question, x.answer_prefix);
        snprintf(both[1], sizeof both[1], "%s%s", y.question, y.answer_prefix);
        assert_string_equal(both[0], both[1]);
        assert_int_equal(y.answer_prefix[0], ' ');
        assert_string_equal(y.answer_prefix + 1, x.answer_prefix);
        assert_string_equal(y.feed.suffix, "");
        assert_null(x.feed.suffix);
        assert_string_equal(x.gold, y.gold);
        assert_string_equal(x.question, z.question);
        assert_string_equal(x.answer_prefix, z.answer_prefix);
        assert_int_equal(kva_task_record(b, &y, &kva_tok_ws, &line, &err), KVA_OK);
        assert_non_null(strstr(line.data, "\"layout\":\"official\""));
        kva_buf_release(&line);
        kva_arena_release(&arena);
        kva_task_close(a);
        kva_task_close(b);
        kva_task_close(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_context_is_a_solved_example_and_the_main_part),
        TEST(the_official_profile_gives_the_blank_to_the_prefix),
        TEST(evidence_is_the_statement_without_its_trailing_blank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
