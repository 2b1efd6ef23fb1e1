/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_prompt.c - the context/question split on small vocabularies and on the real one.
 *
 * A prompt needs two accessors of the model, its tokenizer and its chat family. The test
 * provides them itself, so no weights are loaded. */
#include "tests/models/reference.h"

struct kva_model {
    struct kva_tokenizer *tok;
    const struct kva_chat *chat;
};

const struct kva_tokenizer *kva_model_tokenizer(const struct kva_model *m)
{
    return m->tok;
}

const struct kva_chat *kva_model_chat(const struct kva_model *m)
{
    return m->chat;
}

/* A byte-level model without merges that matter; BOS is the control token <|a|>. */
static struct kva_model byte_model(const char *pre, const char *family)
{
    return (struct kva_model){byte_tokenizer(pre), kva_chat_by_name(family)};
}

static struct kva_model word_model(void)
{
    struct kva_model m = {NULL, kva_chat_by_name("none")};
    assert_int_equal(kva_tokenizer_word_new(&m.tok, NULL), KVA_OK);
    return m;
}

static struct kva_prompt context(const struct kva_model *m, const char *text)
{
    struct kva_prompt p;
    struct kva_error err = {0};
    if (kva_prompt_context(m, NULL, text, text ? strlen(text) : 0, &p, &err) != KVA_OK)
        fail_msg("%s", err.text);
    return p;
}

static struct kva_question ask(const struct kva_model *m, const struct kva_prompt *p,
                               const char *question, const char *prefix)
{
    struct kva_question q;
    struct kva_error err = {0};
    if (kva_prompt_question(m, NULL, p, question, prefix, &q, &err) != KVA_OK)
        fail_msg("%s", err.text);
    return q;
}

static void raw_text_gets_bos_when_the_vocabulary_adds_it(void **state)
{
    (void)state;
    struct kva_model m = byte_model("llama-bpe", "none");
    struct kva_prompt p = context(&m, "ab");
    assert_ids(&p.context, (int32_t[]){BYTES_A, 'a', 'b', -1});
    assert_int_equal(p.context.begin[0], 0);
    assert_int_equal(p.context.end[0], 0); /* BOS covers nothing */
    assert_int_equal(p.context.begin[1], 0);
    assert_int_equal(p.context_at, 0);
    assert_int_equal(p.context_len, 2);
    assert_string_equal(p.context_text, "ab");
    kva_prompt_release(&p);
    kva_tokenizer_free(m.tok);

    m = byte_model("gpt-2", "none"); /* adds none */
    p = context(&m, "ab");
    assert_ids(&p.context, (int32_t[]){'a', 'b', -1});
    kva_prompt_release(&p);
    kva_tokenizer_free(m.tok);
}

static int warnings;

static void count_warnings(enum kva_log_level level, const char *text, void *ctx)
{
    (void)text;
    (void)ctx;
    warnings += level == KVA_LOG_WARN;
}

static void bos_is_never_added_twice(void **state)
{
    (void)state;
    struct kva_model m = byte_model("llama-bpe", "none");
    warnings = 0;
    kva_log_set(count_warnings, NULL, KVA_LOG_WARN);
    struct kva_prompt p = context(&m, "<|a|>x");
    kva_log_set(NULL, NULL, KVA_LOG_WARN);
    assert_ids(&p.context, (int32_t[]){BYTES_A, 'x', -1});
    assert_int_equal(warnings, 1);
    kva_prompt_release(&p);
    kva_tokenizer_free(m.tok);
}

static void a_template_brings_its_own_bos(void **state)
{
    (void)state;
    /* llama-bpe would add BOS to raw text; the template text is fed as it is */
    struct kva_model m = byte_model("llama-bpe", "mistral3");
    struct kva_prompt p = context(&m, "x");
    assert_string_equal(p.context_text, "<s>[INST] x");
    assert_int_equal(p.context.id[0], '<');
    assert_int_equal(p.context_at, 10);
    struct kva_question q = ask(&m, &p, "y", "z");
    assert_ids(&q.ids, (int32_t[]){'y', '[', '/', 'I', 'N', 'S', 'T', ']', 'z', -1});
    assert_int_equal(q.n_visible, 1);
    kva_question_release(&q);
    kva_prompt_release(&p);
    kva_tokenizer_free(m.tok);
}

static void only_trimming_families_trim_and_only_at_the_left(void **state)
{
    (void)state;
    struct kva_model m = byte_model("gpt-2", "gemma");
    const char *text = " \n\xc2\xa0\xe3\x80\x80x y ";
    struct kva_prompt p = context(&m, text);
    assert_int_equal(p.context_trimmed, 7);
    assert_string_equal(p.context_text + p.context_at, "x y ");
    int t0, t1;
    kva_prompt_span(&p, 7, 8, &t0, &t1); /* the x */
    assert_int_equal(t1 - t0, 1);
    assert_int_equal(p.context.id[t0], 'x');
    kva_prompt_span(&p, 0, 7, &t0, &t1); /* trimmed away */
    assert_int_equal(t0, t1);
    kva_prompt_span(&p, 0, 8, &t0, &t1);
    assert_int_equal(t1 - t0, 1);
    kva_prompt_release(&p);
    p = context(&m, " \n ");
    assert_int_equal(p.context_trimmed, 3);
    assert_int_equal(p.context_len, p.context_at);
    kva_prompt_release(&p);
    kva_tokenizer_free(m.tok);

    m = byte_model("gpt-2", "mistral3");
    p = context(&m, text);
    assert_int_equal(p.context_trimmed, 0);
    assert_string_equal(p.context_text + p.context_at, text);
    kva_prompt_release(&p);
    kva_tokenizer_free(m.tok);
}

static void the_question_is_not_trimmed_and_no_merge_crosses_the_border(void **state)
{
    (void)state;
    struct kva_model m = byte_model("gpt-2", "none");
    struct kva_prompt p = context(&m, "t");
    struct kva_question q = ask(&m, &p, "he ", " a");
    assert_ids(&p.context, (int32_t[]){'t', -1});
    assert_ids(&q.ids, (int32_t[]){'h', 'e', ' ', '\n', ' ', 'a', -1});
    assert_int_equal(q.n_visible, 3);
    kva_question_release(&q);
    /* but question, suffix and prefix are one text */
    m.chat = &(struct kva_chat){"test", "", "h", false, "\n"};
    q = ask(&m, &p, "t", "e");
    assert_ids(&q.ids, (int32_t[]){BYTES_THE, -1});
    assert_int_equal(q.n_visible, 1); /* begins inside the question */
    kva_question_release(&q);
    q = ask(&m, &p, "", "e");
    assert_int_equal(q.n_visible, 0);
    kva_question_release(&q);
    q = ask(&m, &p, NULL, NULL);
    assert_ids(&q.ids, (int32_t[]){'h', -1});
    assert_int_equal(q.n_visible, 0);
    kva_question_release(&q);
    kva_prompt_release(&p);
    kva_tokenizer_free(m.tok);
}

static void a_blind_run_has_the_prefix_or_bos_alone(void **state)
{
    (void)state;
    struct kva_model m = byte_model("llama-bpe", "none");
    struct kva_prompt p = context(&m, NULL);
    assert_ids(&p.context, (int32_t[]){BYTES_A, -1});
    assert_int_equal(p.context_len, 0);
    kva_prompt_release(&p);
    m.chat = kva_chat_by_name("mistral3");
    p = context(&m, NULL);
    assert_string_equal(p.context_text, "<s>[INST] ");
    assert_int_equal(p.context.n, 10);
    kva_prompt_release(&p);
    m.chat = kva_chat_by_name("none");
    p = context(&m, "");
    assert_ids(&p.context, (int32_t[]){BYTES_A, -1});
    kva_prompt_release(&p);
    kva_tokenizer_free(m.tok);
}

static void spans_name_the_tokens_that_overlap(void **state)
{
    (void)state;
    struct kva_model m = byte_model("llama-bpe", "none");
    /* BOS, t h e merged, blank, x, BOS text none: ids 0 | 1 | 2 | 3 */
    struct kva_prompt p = context(&m, "the x");
    assert_ids(&p.context, (int32_t[]){BYTES_A, BYTES_THE, ' ', 'x', -1});
    static const int want[][4] = {{0, 3, 1, 2}, {0, 1, 1, 2}, {1, 2, 1, 2},
                                  {2, 4, 1, 3}, {3, 4, 2, 3}, {0, 5, 1, 4},
                                  {4, 5, 3, 4}, {4, 99, 3, 4}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        int t0, t1;
        kva_prompt_span(&p, (size_t)want[i][0], (size_t)want[i][1], &t0, &t1);
        if (t0 != want[i][2] || t1 != want[i][3])
            fail_msg("bytes %d..%d: tokens %d..%d", want[i][0], want[i][1], t0, t1);
    }
    int t0, t1;
    kva_prompt_span(&p, 2, 2, &t0, &t1);
    assert_int_equal(t0, t1);
    kva_prompt_span(&p, 50, 60, &t0, &t1);
    assert_int_equal(t0, t1);
    kva_prompt_release(&p);
    kva_tokenizer_free(m.tok);
}

static void the_retrieval_prompt_has_its_golden_ids(void **state)
{
    (void)state;
    struct kva_model m = word_model();
    struct kva_prompt p =
        context(&m, "One of the special magic numbers for amber-lantern is: 4812907. "
                    "One of the special magic numbers for quiet-anvil is: 7300215.");
    assert_ids(&p.context,
               (int32_t[]){0,     24847, 20744, 28028, 24592, 18988, 15049, 17040, 25785,
                           2,     5,     7056,  8,     24847, 20744, 28028, 24592, 18988,
                           15049, 17040, 19296, 2,     5,     9165,  8,     -1});
    struct kva_question q = ask(
        &m, &p,
        "What is the special magic number for quiet-anvil mentioned in the provided "
        "text?",
        " The special magic number for quiet-anvil mentioned in the provided text is");
    assert_ids(&q.ids,
               (int32_t[]){32495, 2,     28028, 24592, 18988, 15328, 17040, 19296, 27196,
                           23486, 28028, 28230, 20606, 4,     31196, 24592, 18988, 15328,
                           17040, 19296, 27196, 23486, 28028, 28230, 20606, 2,     -1});
    assert_int_equal(q.n_visible, 14); /* the suffix "\n" is no token here */
    struct kva_buf answer;
    kva_buf_init(&answer, 0);
    assert_int_equal(kva_tokenizer_decode(q.tok, (int32_t[]){9165}, 1, &answer, NULL),
                     KVA_OK);
    assert_string_equal(answer.data, "7300215");
    kva_buf_release(&answer);
    /* the value's entry, as tasks ask for it */
    const char *at = strstr(p.context_text, "7300215");
    int t0, t1;
    kva_prompt_span(&p, (size_t)(at - p.context_text), (size_t)(at - p.context_text) + 7,
                    &t0, &t1);
    assert_int_equal(t0, 23);
    assert_int_equal(t1, 24);
    kva_question_release(&q);
    kva_prompt_release(&p);
    kva_tokenizer_free(m.tok);
}

static void questions_about_one_context_do_not_depend_on_each_other(void **state)
{
    (void)state;
    struct kva_model m = word_model();
    struct kva_prompt p = context(&m, "alpha beta");
    struct kva_question alone = ask(&m, &p, "gamma delta", "");
    struct kva_question other = ask(&m, &p, "epsilon zeta eta", "");
    struct kva_question again = ask(&m, &p, "gamma delta", "");
    assert_int_equal(alone.ids.n, again.ids.n);
    assert_memory_equal(alone.ids.id, again.ids.id, alone.ids.n * sizeof(int32_t));
    kva_question_release(&alone);
    kva_question_release(&other);
    kva_question_release(&again);
    kva_prompt_release(&p);
    kva_tokenizer_free(m.tok);
}

static void the_real_model_gets_its_system_text(void **state)
{
    (void)state;
    struct kva_model m = {smollm2_tokenizer(), kva_chat_by_name("smollm2")};
    struct kva_prompt p = context(&m, "What is ");
    struct kva_question q = ask(&m, &p, "2+2?", "");
    static const int32_t prefix[] = {1,     9690,  198,  2683, 359,   253, 5356, 5646,
                                     11173, 3365,  3511, 308,  34519, 28,  7018, 411,
                                     407,   19712, 8182, 2,    198,   1,   4093, 198};
    assert_true(p.context.n > 24);
    assert_memory_equal(p.context.id, prefix, sizeof prefix);
    /* the reference's ids of "2+2?" and the suffix */
    assert_ids(&q.ids, (int32_t[]){34, 27, 34, 47, 2, 198, 1, 520, 9531, 198, -1});
    assert_int_equal(q.n_visible, 4);
    assert_int_equal(p.context.end[p.context.n - 1], p.context_len);
    kva_question_release(&q);
    kva_prompt_release(&p);
    kva_tokenizer_free(m.tok);
}

/* What a task asks for beside the template: raw text, no BOS, its own suffix. */
static void a_feed_may_leave_out_template_bos_and_line_feed(void **state)
{
    (void)state;
    struct kva_model m = byte_model("llama-bpe", "mistral3");
    struct kva_feed raw = {.raw = true}, bare = {.raw = true, .no_bos = true},
                    own = {.raw = true, .suffix = "##"}, chat = {.suffix = "##"};
    struct kva_prompt p;
    struct kva_question q, next;
    assert_int_equal(kva_prompt_context(&m, &bare, "ab", 2, &p, NULL), KVA_OK);
    assert_ids(&p.context, (int32_t[]){'a', 'b', -1});
    kva_prompt_release(&p);
    assert_int_equal(kva_prompt_context(&m, &raw, "ab", 2, &p, NULL), KVA_OK);
    assert_ids(&p.context, (int32_t[]){BYTES_A, 'a', 'b', -1});
    assert_int_equal(kva_prompt_question(&m, &raw, &p, "y", "z", &q, NULL), KVA_OK);
    assert_ids(&q.ids, (int32_t[]){'y', '\n', 'z', -1});
    assert_int_equal(q.n_visible, 1);
    /* the next turn: a line feed, the question, and all of it is what can be seen */
    assert_int_equal(kva_prompt_next(&m, &raw, &q, "yy", "z", &next, NULL), KVA_OK);
    assert_ids(&next.ids, (int32_t[]){'\n', 'y', 'y', '\n', 'z', -1});
    assert_int_equal(next.n_visible, 3);
    kva_question_release(&next);
    kva_question_release(&q);
    assert_int_equal(kva_prompt_question(&m, &own, &p, "y", "z", &q, NULL), KVA_OK);
    assert_ids(&q.ids, (int32_t[]){'y', '#', '#', 'z', -1});
    kva_question_release(&q);
    kva_prompt_release(&p);
    /* a template keeps its own suffix */
    assert_int_equal(kva_prompt_context(&m, &chat, "x", 1, &p, NULL), KVA_OK);
    assert_string_equal(p.context_text, "<s>[INST] x");
    assert_int_equal(kva_prompt_question(&m, &chat, &p, "y", "z", &q, NULL), KVA_OK);
    assert_ids(&q.ids, (int32_t[]){'y', '[', '/', 'I', 'N', 'S', 'T', ']', 'z', -1});
    assert_int_equal(kva_prompt_next(&m, NULL, &q, "y", NULL, &next, NULL), KVA_OK);
    assert_ids(&next.ids, (int32_t[]){'<', '/', 's', '>', '[', 'I', 'N', 'S', 'T', ']',
                                      ' ', 'y', '[', '/', 'I', 'N', 'S', 'T', ']', -1});
    kva_question_release(&next);
    kva_question_release(&q);
    kva_prompt_release(&p);
    kva_tokenizer_free(m.tok);
}

static void the_real_model_is_fed_raw_when_a_task_says_so(void **state)
{
    (void)state;
    struct kva_model m = {smollm2_tokenizer(), kva_chat_by_name("smollm2")};
    struct kva_feed raw = {.raw = true, .suffix = ""};
    struct kva_prompt p;
    struct kva_question q;
    struct kva_tokens want = {0};
    struct kva_tokenizer *tok;
    const char *text = "Once upon a time", *question = " there was";
    assert_int_equal(kva_prompt_context(&m, &raw, text, strlen(text), &p, NULL), KVA_OK);
    assert_int_equal(p.context_at, 0);
    assert_int_equal(kva_tokenizer_clone(m.tok, &tok, NULL), KVA_OK);
    assert_int_equal(kva_tokenizer_encode(tok, text, strlen(text), true, &want, NULL),
                     KVA_OK);
    assert_int_equal(p.context.n, want.n); /* this vocabulary adds no BOS */
    assert_memory_equal(p.context.id, want.id, want.n * sizeof *want.id);
    want.n = 0;
    assert_int_equal(
        kva_tokenizer_encode(tok, question, strlen(question), true, &want, NULL), KVA_OK);
    assert_int_equal(kva_prompt_question(&m, &raw, &p, question, NULL, &q, NULL), KVA_OK);
    assert_int_equal(q.ids.n, want.n);
    assert_memory_equal(q.ids.id, want.id, want.n * sizeof *want.id);
    assert_int_equal(q.n_visible, want.n);
    kva_tokens_release(&want);
    kva_tokenizer_free(tok);
    kva_question_release(&q);
    kva_prompt_release(&p);
    kva_tokenizer_free(m.tok);
}

static void failures_leave_nothing_behind(void **state)
{
    (void)state;
    struct kva_model m = byte_model("llama-bpe", "none");
    struct kva_prompt p;
    struct kva_question q;
    struct kva_error err = {0};
    assert_int_equal(kva_prompt_context(&m, NULL, "\xff", 1, &p, &err), KVA_EINVALID);
    assert_null(p.context_text);
    assert_null(p.tok);
    for (long n = 1;; n++) {
        kva_alloc_fail_at(n);
        enum kva_status rc = kva_prompt_context(&m, NULL, "the x", 5, &p, NULL);
        memset(&q, 0, sizeof q);
        if (rc == KVA_OK)
            rc = kva_prompt_question(&m, NULL, &p, "why", "so", &q, NULL);
        kva_alloc_fail_at(0);
        kva_question_release(&q);
        kva_prompt_release(&p);
        if (rc == KVA_OK)
            break;
        assert_int_equal(rc, KVA_ENOMEM);
        assert_true(n < 200);
    }
    kva_prompt_release(NULL);
    kva_question_release(NULL);
    kva_tokenizer_free(m.tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raw_text_gets_bos_when_the_vocabulary_adds_it),
        cmocka_unit_test(bos_is_never_added_twice),
        cmocka_unit_test(a_template_brings_its_own_bos),
        cmocka_unit_test(only_trimming_families_trim_and_only_at_the_left),
        cmocka_unit_test(the_question_is_not_trimmed_and_no_merge_crosses_the_border),
        cmocka_unit_test(a_blind_run_has_the_prefix_or_bos_alone),
        cmocka_unit_test(spans_name_the_tokens_that_overlap),
        cmocka_unit_test(the_retrieval_prompt_has_its_golden_ids),
        cmocka_unit_test(questions_about_one_context_do_not_depend_on_each_other),
        cmocka_unit_test(the_real_model_gets_its_system_text),
        cmocka_unit_test(a_feed_may_leave_out_template_bos_and_line_feed),
        cmocka_unit_test(the_real_model_is_fed_raw_when_a_task_says_so),
        cmocka_unit_test(failures_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
