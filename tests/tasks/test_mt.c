/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_mt.c - several questions on one context: what all of suite mt keep to, and each
 * family's own rules. */
#include "tests/tasks/tasks_test.h"

static const char *const tasks[] = {
    "mt/niah@600", "mt/passkey@400",   "mt/kv@400",
    "mt/find@400", "mt/many_shot@500", "mt/vt@500",
};
enum { N_TASKS = sizeof tasks / sizeof tasks[0] };

static void the_turns_of_a_context_share_every_byte_and_ask_different_things(void **state)
{
    (void)state;
    for (int k = 0; k < N_TASKS; k++) {
        struct kva_task *task = open_task(tasks[k]);
        int turns = kva_task_info(task)->turns;
        struct kva_arena arena;
        struct kva_item it[12], other;

        kva_arena_init(&arena);
        assert_int_equal(turns, strstr(tasks[k], "find") ? 6
                                : strstr(tasks[k], "vt") ? 2
                                                         : 5);
        for (int c = 0; c < 2; c++) {
            for (int t = 0; t < turns; t++) {
                it[t] = item_of(task, c * turns + t, &kva_tok_ws, &arena);
                assert_int_equal(it[t].turn, t);
                assert_int_equal(it[t].context_len, it[0].context_len);
                assert_memory_equal(it[t].context, it[0].context, it[0].context_len);
                assert_int_equal(it[t].n_context, it[0].n_context);
                for (int u = 0; u < t; u++)
                    assert_string_not_equal(it[t].question, it[u].question);
            }
        }
        other = item_of(task, 0, &kva_tok_ws, &arena);
        assert_true(other.context_len != it[0].context_len ||
                    memcmp(other.context, it[0].context, other.context_len) != 0);
        kva_arena_release(&arena);
        kva_task_close(task);
    }
}

static void record_of(const struct kva_task *task, int idx, struct kva_buf *out)
{
    struct kva_arena arena;
    struct kva_error err = {0};
    struct kva_item it;

    kva_arena_init(&arena);
    it = item_of(task, idx, &kva_tok_ws, &arena);
    out->len = 0;
    assert_int_equal(kva_task_record(task, &it, &kva_tok_ws, out, &err), KVA_OK);
    kva_arena_release(&arena);
}

static void an_item_does_not_depend_on_which_were_made_before(void **state)
{
    (void)state;
    for (int k = 0; k < N_TASKS; k++) {
        struct kva_task *task = open_task(tasks[k]), *again = open_task(tasks[k]);
        struct kva_buf forward[12], backward;

        kva_buf_init(&backward, 0);
        for (int i = 0; i < 12; i++) {
            kva_buf_init(&forward[i], 0);
            record_of(task, i, &forward[i]);
        }
        for (int i = 11; i >= 0; i--) {
            record_of(again, i, &backward);
            assert_string_equal(backward.data, forward[i].data);
            kva_buf_release(&forward[i]);
        }
        kva_buf_release(&backward);
        kva_task_close(task);
        kva_task_close(again);
    }
}

static void each_turn_marks_its_own_evidence_and_holds_the_others_as_decoys(void **state)
{
    static const char *const keyed[] = {"mt/niah@900", "mt/passkey@500", "mt/kv@500"};

    (void)state;
    for (int k = 0; k < 3; k++) {
        struct kva_task *task = open_task(keyed[k]);
        struct kva_arena arena;
        size_t asked[5];

        kva_arena_init(&arena);
        for (int t = 0; t < 5; t++) {
            struct kva_item it = item_of(task, 5 + t, &kva_tok_ws, &arena);
            size_t n = strlen(it.answers[0]);
            int queried = 0, evidence = 0;

            for (int i = 0; i < it.n_spans; i++) {
                const struct kva_span *e = &it.spans[i], *p;
                char id[16];

                if (e->kind != 'E')
                    continue;
                evidence++;
                snprintf(id, sizeof id, "P%s", e->id + 1);
                p = span_named(&it, id);
                assert_true(p->b0 >= e->b0 && p->b1 <= e->b1);
                assert_int_equal(p->b1 - p->b0, n);
                assert_true(e->queried ==
                            (memcmp(it.context + p->b0, it.answers[0], n) == 0));
                if (!e->queried)
                    continue;
                queried++;
                asked[t] = e->b0;
                assert_true(it.depth == e->depth);
                snprintf(id, sizeof id, "K%s", e->id + 1);
                p = span_named(&it, id);
                assert_non_null(
                    strstr(it.question,
                           kva_arena_strndup(&arena, it.context + p->b0, p->b1 - p->b0)));
            }
            assert_int_equal(evidence, 5);
            assert_int_equal(queried, 1);
            for (int i = 0; i < it.n_decoys; i++) {
                assert_string_not_equal(it.decoys[i], it.answers[0]);
                assert_non_null(strstr(it.context, it.decoys[i]));
            }
            assert_int_equal(it.n_answers, 1);
            assert_int_equal(strncmp(it.gold, " ", 1), 0);
            assert_string_equal(it.gold + 1, it.answers[0]);
            for (int u = 0; u < t; u++)
                assert_true(asked[u] != asked[t]);
        }
        kva_arena_release(&arena);
        kva_task_close(task);
    }
}

static void texts_are_those_of_the_benchmarks(void **state)
{
    struct kva_task *niah = open_task("mt/niah@600"), *kv = open_task("mt/kv@300");
    struct kva_task *pass = open_task("mt/passkey@400"), *find = open_task("mt/find@200");
    struct kva_arena arena;
    struct kva_item it;
    char want[200], key[100];

    (void)state;
    kva_arena_init(&arena);
    it = item_of(niah, 3, &kva_tok_ws, &arena);
    assert_int_equal(
        strncmp(it.context,
                "A special magic number is hidden within the following text. "
                "Make sure to memorize it. I will quiz you about the number "
                "afterwards.\n",
                131),
        0);
    assert_int_equal(
        sscanf(
            it.question,
            "What is the special magic number for %99s mentioned in the provided text? ",
            key),
        1);
    snprintf(want, sizeof want, "One of the special magic numbers for %s is: %s.", key,
             it.answers[0]);
    assert_non_null(strstr(it.context, want));
    snprintf(want, sizeof want,
             "The special magic number for %s mentioned in the provided text is", key);
    assert_string_equal(it.answer_prefix, want);
    assert_string_equal(it.metric, "match_all");
    assert_int_equal(it.max_new_tokens, 128);

    it = item_of(kv, 3, &kva_tok_ws, &arena);
    assert_int_equal(
        strncmp(it.context,
                "Extract the value corresponding to the specified key in the "
                "JSON object below.\n\n{\"",
                82),
        0);
    assert_string_equal(it.context + it.context_len - 2, "\"}");
    assert_int_equal(sscanf(it.question, "Key: \"%36s", key), 1);
    snprintf(want, sizeof want,
             "Key: \"%s\"\nThe value associated with the specified key is: ", key);
    assert_string_equal(it.question, want);
    assert_string_equal(it.answer_prefix, "");
    snprintf(want, sizeof want, "\"%s\": \"%s\"", key, it.answers[0]);
    assert_non_null(strstr(it.context, want));
    assert_string_equal(it.metric, "substring");
    assert_int_equal(it.max_new_tokens, 64);

    it = item_of(pass, 3, &kva_tok_ws, &arena);
    assert_int_equal(sscanf(it.question, "What is the pass key of %99[^?]? ", key), 1);
    snprintf(want, sizeof want, "\nThe pass key of %s is %s. Remember it.\n", key,
             it.answers[0]);
    assert_non_null(strstr(it.context, want));
    assert_int_equal(strlen(it.answers[0]), 5);

    it = item_of(find, 4, &kva_tok_ws, &arena);
    assert_string_equal(it.question, "You should answer with only one number, no other "
                                     "words. The median number of the list is: ");
    assert_string_equal(it.metric, "find_number");
    assert_int_equal(it.max_new_tokens, 8);
    assert_int_equal(it.n_spans, 0);
    assert_true(it.depth == -1);
    kva_arena_release(&arena);
    kva_task_close(niah);
    kva_task_close(kv);
    kva_task_close(pass);
    kva_task_close(find);
}

static void pairs_are_a_json_object_of_different_keys(void **state)
{
    struct kva_task *task = open_task("mt/kv@2000");
    struct kva_arena arena;
    struct kva_item it;
    struct kva_error err = {0};
    struct kva_map seen;
    size_t pairs = 0;

    (void)state;
    kva_arena_init(&arena);
    kva_map_init(&seen);
    it = item_of(task, 0, &kva_tok_ws, &arena);
    for (const char *s = strchr(it.context, '{') + 1;; s += 80, pairs++) {
        char key[37], value[37];
        bool is_new;

        assert_int_equal(sscanf(s, "\"%36[0-9a-f-]\": \"%36[0-9a-f-]\"", key, value), 2);
        assert_int_equal(strlen(key) + strlen(value), 72);
        assert_int_equal(key[14], '4');
        assert_non_null(strchr("89ab", value[19]));
        assert_int_equal(kva_map_put(&seen, key, 36, 1, &is_new, &err), KVA_OK);
        assert_true(is_new);
        if (strcmp(s + 78, "}") == 0)
            break;
        assert_memory_equal(s + 78, ", ", 2);
    }
    pairs++;
    assert_int_equal(it.n_decoys, pairs - 1);
    assert_true(it.guess_floor == 1.0 / (double)pairs);
    assert_true(!it.underfill && pairs > 900);
    kva_map_release(&seen);
    kva_arena_release(&arena);
    kva_task_close(task);
}

static int compare_ints(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static long number_of(const char *s)
{
    return strtol(s, NULL, 10);
}

/* Answers of a list worked out again, and whether each is the only one. */
static void check_list(const struct kva_item *it, const char *const *answer)
{
    static int x[400000], count[10000];
    size_t n = 0;
    int most = 0, modes = 0;

    memset(count, 0, sizeof count);
    for (const char *s = it->context; *s && *s != ']'; n++) {
        char *end;

        x[n] = (int)strtol(s + (*s == '[' || *s == ',') + (s[1] == ' '), &end, 10);
        assert_in_range(x[n], 0, 9999);
        count[x[n]]++;
        s = end;
    }
    assert_int_equal(n % 2, 1);
    qsort(x, n, sizeof x[0], compare_ints);
    for (int v = 0; v < 10000; v++)
        most = count[v] > most ? count[v] : most;
    for (int v = 0; v < 10000; v++)
        modes += count[v] == most;
    assert_int_equal(modes, 1);
    assert_true(x[n - 1] > x[n - 2] && x[0] < x[1]);
    assert_int_equal(number_of(answer[0]), x[n - 1]);
    assert_int_equal(number_of(answer[1]), x[0]);
    assert_int_equal(number_of(answer[2]), x[n - 2]);
    assert_int_equal(number_of(answer[3]), x[1]);
    assert_int_equal(number_of(answer[4]), x[n / 2]);
    assert_int_equal(count[number_of(answer[5])], most);
}

static void every_question_about_a_list_has_one_answer_at_any_length(void **state)
{
    static const int length[] = {64, 100, 1000, 100000};

    (void)state;
    for (int l = 0; l < 4; l++) {
        char text[40];
        struct kva_task *task;
        struct kva_arena arena;

        snprintf(text, sizeof text, "mt/find@%d", length[l]);
        task = open_task(text);
        for (int c = 0; c < (length[l] > 10000 ? 1 : 20); c++) {
            const char *answer[6];
            struct kva_item it;

            kva_arena_init(&arena);
            for (int t = 0; t < 6; t++) {
                it = item_of(task, 6 * c + t, &kva_tok_ws, &arena);
                answer[t] = it.answers[0];
                assert_string_equal(it.gold + 1, it.answers[0]);
            }
            check_list(&it, answer);
            kva_arena_release(&arena);
        }
        kva_task_close(task);
    }
}

static void many_shot_evidence_is_every_example_of_the_word(void **state)
{
    struct kva_task *task = open_task("mt/many_shot:labels=3,words=9@400");
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    assert_true(kva_task_info(task)->guess_floor == 1.0 / 3);
    for (int t = 0; t < 5; t++) {
        struct kva_item it = item_of(task, t, &kva_tok_ws, &arena);
        char word[60], line[200];
        int parts = 0, examples = 0, distractors = 0;

        assert_int_equal(sscanf(it.question, "Word: %59[^.]. ", word), 1);
        assert_string_equal(it.answer_prefix, "Class:");
        snprintf(line, sizeof line, "Word: %s. Class: %s.\n", word, it.answers[0]);
        for (const char *s = it.context; (s = strstr(s, line)); s++)
            examples++;
        for (int i = 0; i < it.n_spans; i++) {
            const struct kva_span *e = &it.spans[i];

            distractors += e->kind == 'D';
            if (e->kind == 'P')
                assert_memory_equal(it.context + e->b0, it.answers[0], e->b1 - e->b0);
            if (e->kind != 'E')
                continue;
            assert_memory_equal(it.context + e->b0, line, e->b1 - e->b0);
            assert_true(e->queried);
            parts++;
        }
        assert_true(examples >= 5);
        assert_int_equal(parts, examples);
        assert_int_equal(distractors, examples);
        assert_int_equal(it.n_decoys, 2);
        assert_string_equal(it.stops[0], "\n");
    }
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void chains_share_no_name_and_each_question_marks_its_own(void **state)
{
    struct kva_task *task = open_task("mt/vt:chains=3@700");
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    assert_int_equal(kva_task_info(task)->turns, 3);
    for (int i = 0; i < 6; i++) {
        struct kva_item it = item_of(task, i, &kva_tok_ws, &arena);
        const struct kva_span *x = span_named(&it, "X0");
        const char *end = strstr(it.context, "\n\nMemorize"), *last = it.context;
        char value[8], line[64];
        int queried = 0;

        assert_int_equal(x->b0, 0);
        assert_ptr_equal(it.context + x->b1, end);
        assert_int_equal(sscanf(it.question,
                                "Question: Find all variables that are assigned the "
                                "value %5s in the text above. ",
                                value),
                         1);
        assert_int_equal(it.n_answers, 5);
        for (int k = 0; k < 5; k++) { /* told in order */
            if (k == 0)
                snprintf(line, sizeof line, "VAR %s = %s\n", it.answers[0], value);
            else
                snprintf(line, sizeof line, "VAR %s = VAR %s \n", it.answers[k],
                         it.answers[k - 1]);
            last = strstr(last, line);
            assert_non_null(last);
            for (int d = 0; d < it.n_decoys; d++)
                assert_string_not_equal(it.decoys[d], it.answers[k]);
        }
        assert_int_equal(it.n_decoys, 10);
        for (int e = 0; e < 15; e++) {
            char id[8], name[8];
            const struct kva_span *s;
            bool own = false;

            snprintf(id, sizeof id, "E%d", e);
            s = span_named(&it, id);
            snprintf(name, sizeof name, "%.5s", it.context + s->b0 + 4);
            for (int k = 0; k < 5; k++)
                own = own || strcmp(it.answers[k], name) == 0;
            assert_true(s->queried == own);
            queried += own;
        }
        assert_int_equal(queried, 5);
    }
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void names_list_what_differs_and_modes_change_no_draw(void **state)
{
    static const char *const pair[][2] = {
        {"mt/niah:turns=5,keys=5,mode=independent,haystack=emerson", "niah"},
        {"mt/niah:turns=3,mode=conversation,keys=8",
         "niah:keys=8,mode=conversation,turns=3"},
        {"mt/kv:history=golden,mode=conversation", "kv:history=golden,mode=conversation"},
        {"mt/niah:haystack=embedded,digits=4", "niah:digits=4,haystack=embedded"},
        {"mt/passkey:haystack=noise", "passkey"},
    };
    struct kva_task *a = open_task("mt/kv:turns=2@2000"),
                    *b = open_task("mt/kv:turns=2,mode=conversation,history=golden@2000");
    struct kva_arena arena;
    struct kva_item x, y;

    (void)state;
    for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++) {
        struct kva_task *task = open_task(pair[i][0]);

        assert_string_equal(kva_task_info(task)->name, pair[i][1]);
        kva_task_close(task);
    }
    kva_arena_init(&arena);
    assert_false(kva_task_info(a)->conversation || kva_task_info(a)->golden);
    assert_true(kva_task_info(b)->conversation && kva_task_info(b)->golden);
    x = item_of(a, 3, &kva_tok_ws, &arena);
    y = item_of(b, 3, &kva_tok_ws, &arena);
    assert_string_equal(x.question, y.question);
    assert_string_equal(x.answers[0], y.answers[0]);
    assert_true(y.context_len < x.context_len); /* room for both questions and answers */
    kva_arena_release(&arena);
    kva_task_close(a);
    kva_task_close(b);
}

static void a_conversation_leaves_room_for_all_its_turns(void **state)
{
    static const char *const text[] = {"mt/niah:mode=conversation@2000",
                                       "mt/find:mode=conversation@700",
                                       "mt/many_shot:mode=conversation@700"};
    struct pairs p = {.lead = 3};
    struct kva_tok_api tok = pairs_api(&p);

    (void)state;
    for (int k = 0; k < 3; k++) {
        struct kva_task *task = open_task(text[k]);
        const struct kva_task_info *info = kva_task_info(task);
        struct kva_arena arena;
        struct kva_item it;
        size_t total = 0;

        kva_arena_init(&arena);
        for (int t = 0; t < info->turns; t++) {
            it = item_of(task, t, &tok, &arena);
            total += it.n_question + (size_t)it.max_new_tokens;
        }
        total += it.n_context;
        assert_true(total <= (size_t)info->ctx);
        assert_true(it.fill == (double)total / info->ctx);
        assert_true(total + 60 > (size_t)info->ctx);
        kva_arena_release(&arena);
        kva_task_close(task);
    }
}

static void the_longest_question_fits_too(void **state)
{
    struct pairs p = {.lead = 2};
    struct kva_tok_api tok = pairs_api(&p);

    (void)state;
    for (int k = 0; k < N_TASKS; k++) {
        char text[60];
        struct kva_task *task;
        const struct kva_task_info *info;
        struct kva_arena arena;
        size_t most = 0;

        snprintf(text, sizeof text, "%.*s@900", (int)strcspn(tasks[k], "@"), tasks[k]);
        task = open_task(text);
        info = kva_task_info(task);
        kva_arena_init(&arena);
        for (int i = 0; i < 3 * info->turns; i++) {
            struct kva_item it = item_of(task, i, &tok, &arena);
            size_t total = it.n_context + it.n_question + (size_t)it.max_new_tokens;

            assert_true(total <= (size_t)info->ctx);
            most = total > most ? total : most;
        }
        assert_true(most + 60 > (size_t)info->ctx);
        kva_arena_release(&arena);
        kva_task_close(task);
    }
}

static void any_length_works_or_is_refused_at_once(void **state)
{
    static const char *const name[] = {"niah", "passkey",   "kv",
                                       "find", "many_shot", "vt"};
    static const int length[] = {1, 64, 128, 512, 1000000};

    (void)state;
    for (int k = 0; k < 6; k++)
        for (int l = 0; l < 5; l++) {
            char text[40];
            struct kva_task *task;
            struct kva_arena arena;
            struct kva_error err = {0};
            struct kva_item it;
            uint64_t begin = kva_cpu_ns();
            enum kva_status rc;

            snprintf(text, sizeof text, "mt/%s@%d", name[k], length[l]);
            task = open_task(text);
            kva_arena_init(&arena);
            rc = kva_task_item(task, 1, &kva_tok_ws, &arena, &it, &err);
            if (rc == KVA_OK) {
                assert_true(it.n_context + it.n_question + (size_t)it.max_new_tokens <=
                            (size_t)length[l]);
                assert_true(length[l] > 1);
            } else {
                assert_int_equal(rc, KVA_EINVALID);
                assert_non_null(strstr(err.text, "does not fit in"));
                assert_true(kva_cpu_ns() - begin < 1000000000);
                assert_true(length[l] < 512);
            }
            assert_true(kva_cpu_ns() - begin < 20000000000);
            kva_arena_release(&arena);
            kva_task_close(task);
        }
}

static void parameters_out_of_range_are_refused(void **state)
{
    static const char *const row[][2] = {
        {"mt/niah:turns=6", "6 turns ask for more than the 5 keys there are"},
        {"mt/niah:turns=0", "turns is a whole number from 1 to 64"},
        {"mt/niah:keys=x", "keys is a whole number from 1 to 64"},
        {"mt/niah:turn=3", "unknown parameter \"turn\"; did you mean turns?"},
        {"mt/niah:haystack=noise", "haystack is emerson, embedded or essays, not noise"},
        {"mt/niah:digits=1", "too few 1-digit numbers for 5 needles"},
        {"mt/find:turns=7", "turns is a whole number from 1 to 6"},
        {"mt/find:haystack=noise", "unknown parameter \"haystack\""},
        {"mt/kv:mode=both", "mode is independent or conversation, not both"},
        {"mt/kv:mode=conversation,history=mine", "history is own or golden, not mine"},
        {"mt/kv:history=golden", "history=golden needs mode=conversation"},
        {"mt/many_shot:words=3", "3 words are too few for 4 labels and 5 turns"},
        {"mt/nia", "did you mean mt/niah?"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        const char *got = refusal(row[i][0], NULL);

        if (strncmp(got, "EINVALID: ", 10) != 0 || !strstr(got, row[i][1]))
            fail_msg("%s: %s", row[i][0], got);
    }
    assert_non_null(
        strstr(refusal("mt/kv", &(struct kva_task_opts){.haystack = "emerson"}),
               "has no haystack"));
    assert_non_null(
        strstr(refusal("mt/passkey", &(struct kva_task_opts){.haystack = "emerson"}),
               "haystack is noise, not emerson"));
}

static void the_official_layout_gives_the_blank_to_the_prefix(void **state)
{
    struct kva_task *task = open_with(
        "mt/niah@600", &(struct kva_task_opts){.seed = 42, .profile = "official"});
    struct kva_arena arena;
    struct kva_item it;

    (void)state;
    kva_arena_init(&arena);
    it = item_of(task, 2, &kva_tok_ws, &arena);
    assert_int_equal(it.question[strlen(it.question) - 1], '?');
    assert_int_equal(strncmp(it.answer_prefix, " The special", 12), 0);
    kva_arena_release(&arena);
    kva_task_close(task);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_turns_of_a_context_share_every_byte_and_ask_different_things),
        TEST(an_item_does_not_depend_on_which_were_made_before),
        TEST(each_turn_marks_its_own_evidence_and_holds_the_others_as_decoys),
        TEST(texts_are_those_of_the_benchmarks),
        TEST(pairs_are_a_json_object_of_different_keys),
        TEST(every_question_about_a_list_has_one_answer_at_any_length),
        TEST(many_shot_evidence_is_every_example_of_the_word),
        TEST(chains_share_no_name_and_each_question_marks_its_own),
        TEST(names_list_what_differs_and_modes_change_no_draw),
        TEST(a_conversation_leaves_room_for_all_its_turns),
        TEST(the_longest_question_fits_too),
        TEST(any_length_works_or_is_refused_at_once),
        TEST(parameters_out_of_range_are_refused),
        TEST(the_official_layout_gives_the_blank_to_the_prefix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
