/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_turns.c - several questions on one context: independent ones in any order, and
 * conversations, against sessions stepped by hand. */
#include <math.h>

#include "tests/runner/fake_task.h"

static struct kva_error test_error;
#define OK(expr)                                                                         \
    do {                                                                                 \
        struct kva_error *err = &test_error;                                             \
        *err = (struct kva_error){0};                                                    \
        if ((expr) != KVA_OK)                                                            \
            fail_msg("%s: %s", #expr, err->text);                                        \
    } while (0)

#define SUITE(model)                                                                     \
    "{\"schema\":1,\"name\":\"t\",\"defaults\":{\"n\":1},\"models\":[\"" model "\"],"    \
    "\"methods\":[\"keydiff+adakv\",\"snapkv:window=4+adakv\",\"random\"],"              \
    "\"tasks\":[\"ruler/niah_single_1@512\"],\"budgets\":[{\"keep\":0.5}],"              \
    "\"schedules\":[\"oneshot\",\"block:32\",\"oneshot+decode:1\"],"                     \
    "\"visibility\":[\"agnostic\",\"aware\",\"full\"]}"
#define SMALL(model)                                                                     \
    "{\"schema\":1,\"name\":\"t\",\"defaults\":{\"n\":1},\"models\":[\"" model "\"],"    \
    "\"methods\":[\"keydiff+adakv\"],\"tasks\":[\"ruler/niah_single_1@512\"],"           \
    "\"budgets\":[{\"keep\":0.5}],\"schedules\":[\"oneshot\",\"oneshot+decode:1\"]}"

static const int forward[] = {0, 1, 2, 3}, backward[] = {3, 2, 1, 0};

static void same_result(const struct kva_result *a, const struct kva_result *b)
{
    assert_non_null(a);
    assert_non_null(b);
    assert_string_equal(a->status, b->status);
    assert_string_equal(a->stop, b->stop);
    assert_int_equal(a->n_gen, b->n_gen);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n_gen * sizeof *a->ids);
    assert_true(a->kept_fnv == b->kept_fnv);
    assert_int_equal(a->n_question, b->n_question);
    assert_true(fake_score(a, "gold_nll") == fake_score(b, "gold_nll"));
}

/* tasks-ruler.md 10.3: restored to every head's own length. */
static void compare_orders(const char *suite)
{
    static struct fake_heard a, b;
    struct fake_plan f;
    int compared = 0;

    fake_needles();
    fake_open(&f, suite, forward, 4, false);
    fake_run(&f, false, 0, &a);
    fake_close(&f);
    fake_open(&f, suite, backward, 4, false);
    fake_run(&f, false, 3, &b);
    assert_int_equal(a.n, 4 * f.plan.n_cells);
    for (int c = 0; c < f.plan.n_cells; c++)
        for (int i = 0; i < 4; i++, compared++)
            same_result(fake_find(&a, c, i), fake_find(&b, c, i));
    assert_true(compared >= 4 * 20);
    fake_close(&f);
    fake_forget(&a);
    fake_forget(&b);
}

static void the_order_of_questions_does_not_matter_on_the_tiny_model(void **state)
{
    (void)state;
    compare_orders(SUITE("builtin:tiny-llama"));
}

static void the_order_of_questions_does_not_matter_on_the_retrieval_model(void **state)
{
    (void)state;
    compare_orders(SUITE("builtin:retrieval"));
}

/* Greedy answer of a plain session that has read `ids`. */
static int say(struct kva_model *m, struct kva_session *s, const int32_t *ids, int n,
               int max_new, int32_t *out)
{
    struct kva_row last = {0};
    int k = 0;

    OK(kva_prefill(m, s, ids, n, 0, &last, err));
    while (k < max_new) {
        out[k++] = last.argmax;
        if (k == max_new || kva_tokenizer_is_eog(kva_model_tokenizer(m), out[k - 1]))
            break;
        OK(kva_prefill(m, s, &out[k - 1], 1, 0, &last, err));
    }
    return k;
}

/* The dense cell says turn by turn what a session says that is fed by hand. */
static void follow_by_hand(const char *suite, bool golden)
{
    static struct fake_heard h;
    struct fake_plan f;
    struct kva_model *m;
    struct kva_session *s;
    struct kva_prompt p;
    struct kva_question q[4];
    int32_t said[8] = {0};
    int n_said = 0, dense = -1;

    fake_needles();
    fake_info.conversation = true;
    fake_info.golden = golden;
    fake_open(&f, suite, forward, 4, false);
    fake_run(&f, false, 0, &h);
    m = f.plan.models[0].open[0];
    for (int c = 0; c < f.plan.n_cells; c++)
        if (f.plan.cells[c].method.dense)
            dense = c;
    OK(kva_prompt_context(m, NULL, FAKE_CONTEXT, strlen(FAKE_CONTEXT), &p, err));
    OK(kva_session_new(m, &(struct kva_session_opts){.kv = KVA_F16, .page_cap = 1 << 16},
                       &s, err));
    OK(kva_prefill(m, s, p.context.id, (int)p.context.n, 0, NULL, err));
    for (int t = 0; t < 4; t++) {
        const struct kva_result *r = fake_find(&h, dense, t);
        int32_t ids[400];
        int n = 0;

        if (t == 0)
            OK(kva_prompt_question(m, NULL, &p, fake_item[t].question,
                                   fake_item[t].answer_prefix, &q[t], err));
        else
            OK(kva_prompt_next(m, NULL, &q[t - 1], fake_item[t].question,
                               fake_item[t].answer_prefix, &q[t], err));
        if (t > 0 && golden) {
            struct kva_tokenizer *tok;
            struct kva_tokens gold = {0};
            const char *text = fake_item[t - 1].gold;

            /* back to the question, then the reference */
            OK(kva_session_rewind(s, kva_session_seen(s) - (n_said - 1), err));
            OK(kva_tokenizer_clone(q[t - 1].tok, &tok, err));
            OK(kva_tokenizer_encode(tok, text, strlen(text), false, &gold, err));
            memcpy(ids, gold.id, gold.n * sizeof *ids);
            n = (int)gold.n;
            kva_tokens_release(&gold);
            kva_tokenizer_free(tok);
        } else if (t > 0 && !kva_tokenizer_is_eog(q[t - 1].tok, said[n_said - 1])) {
            ids[n++] = said[n_said - 1];
        }
        memcpy(ids + n, q[t].ids.id, q[t].ids.n * sizeof *ids);
        n += (int)q[t].ids.n;
        n_said = say(m, s, ids, n, 3, said);
        assert_non_null(r);
        assert_string_equal(r->status, "ok");
        assert_int_equal(r->n_gen, n_said);
        assert_memory_equal(r->ids, said, (size_t)n_said * sizeof *said);
        assert_int_equal(r->n_ctx, p.context.n);
        assert_int_equal(r->n_ctx + r->n_question + n_said - 1, kva_session_seen(s));
    }
    kva_session_free(s);
    for (int t = 0; t < 4; t++)
        kva_question_release(&q[t]);
    kva_prompt_release(&p);
    fake_close(&f);
    fake_forget(&h);
}

static void a_conversation_is_what_one_session_says_turn_by_turn(void **state)
{
    (void)state;
    follow_by_hand(SMALL("builtin:tiny-llama"), false);
    follow_by_hand(SMALL("builtin:retrieval"), false);
}

static void a_golden_conversation_has_the_references_in_its_history(void **state)
{
    (void)state;
    follow_by_hand(SMALL("builtin:tiny-llama"), true);
    follow_by_hand(SMALL("builtin:retrieval"), true);
}

static void a_resumed_conversation_stores_only_what_is_missing(void **state)
{
    static struct fake_heard whole, rest;
    struct fake_plan f;
    struct kva_unit *u;
    int k = 0;

    (void)state;
    fake_needles();
    fake_info.conversation = true;
    fake_open(&f, SUITE("builtin:tiny-llama"), forward, 4, false);
    fake_run(&f, false, 0, &whole);
    assert_int_equal(whole.n, 4 * f.plan.n_cells);
    fake_close(&f);
    fake_open(&f, SUITE("builtin:tiny-llama"), forward, 4, false);
    u = &f.plan.units[0];
    for (int i = 0; i < u->n_jobs; i++) /* of half of the cells the third turn only */
        if (u->jobs[i].question == 2 && u->jobs[i].cell % 2 == 0)
            u->jobs[k++] = u->jobs[i];
    u->n_jobs = k;
    fake_run(&f, false, 2, &rest);
    assert_int_equal(rest.n, k);
    for (int c = 0; c < f.plan.n_cells; c += 2)
        same_result(fake_find(&whole, c, 2), fake_find(&rest, c, 2));
    fake_close(&f);
    fake_forget(&whole);
    fake_forget(&rest);
}

static void the_cache_grows_by_turns_unless_decoding_evicts(void **state)
{
    static struct fake_heard h;
    struct fake_plan f;

    (void)state;
    fake_needles();
    fake_info.conversation = true;
    fake_open(&f, SUITE("builtin:tiny-llama"), forward, 4, false);
    fake_run(&f, false, 0, &h);
    for (int c = 0; c < f.plan.n_cells; c++) {
        const struct kva_cell *cell = &f.plan.cells[c];

        for (int t = 0; t < 4; t++) {
            const struct kva_result *r = fake_find(&h, c, t), *b;

            assert_string_equal(r->status, "ok");
            assert_int_equal(r->memory.audit, 0);
            assert_int_equal(r->has_memory, 1);
            if (t == 0)
                continue;
            b = fake_find(&h, c, t - 1);
            assert_int_equal(r->n_cut, b->n_cut); /* the context is cut once */
            assert_true(r->kept_fnv == b->kept_fnv);
            assert_true(r->memory.kv_live_bytes == b->memory.kv_live_bytes);
            assert_true(r->n_question > b->n_question);
            if (cell->schedule.decode == 0 || cell->method.scorer == NULL)
                assert_true(r->memory.kv_end_bytes > b->memory.kv_end_bytes);
            else
                assert_true(r->memory.kv_end_bytes <
                            r->memory.kv_dense_bytes + (1 << 16));
        }
    }
    fake_close(&f);
    fake_forget(&h);
}

static void turns_behind_one_that_fails_fail_with_its_reason(void **state)
{
    static struct fake_heard h;
    struct fake_plan f;

    (void)state;
    fake_needles();
    fake_info.conversation = true;
    fake_item[1].max_total = 20;
    fake_open(&f, SMALL("builtin:tiny-llama"), forward, 4, false);
    fake_run(&f, false, 0, &h);
    assert_int_equal(h.n, 4 * f.plan.n_cells);
    for (int c = 0; c < f.plan.n_cells; c++) {
        if (f.plan.cells[c].method.blind)
            continue;
        assert_string_equal(fake_find(&h, c, 0)->status, "ok");
        for (int t = 1; t < 4; t++) {
            const struct kva_result *r = fake_find(&h, c, t);

            assert_string_equal(r->status, "truncated");
            assert_non_null(strstr(r->error, "leaves no answer"));
            assert_int_equal(r->n_scores, 0);
        }
    }
    fake_close(&f);
    fake_forget(&h);
}

static void samples_of_one_context_are_one_unit(void **state)
{
    static struct fake_heard h;
    struct fake_plan f;

    (void)state;
    fake_needles();
    fake_open(&f, SMALL("builtin:retrieval"), forward, 4, false);
    fake_run(&f, false, 0, &h);
    for (int t = 0; t < 4; t++) {
        char turn[16];

        snprintf(turn, sizeof turn, "\"turn\":%d", t);
        assert_non_null(strstr(h.meta[t], turn));
        for (int c = 0; c < f.plan.n_cells; c++)
            if (f.plan.cells[c].method.dense)
                assert_true(fake_find(&h, c, t)->scores[0].value == 1);
    }
    fake_close(&f);
    fake_forget(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_questions_does_not_matter_on_the_tiny_model),
        cmocka_unit_test(the_order_of_questions_does_not_matter_on_the_retrieval_model),
        cmocka_unit_test(a_conversation_is_what_one_session_says_turn_by_turn),
        cmocka_unit_test(a_golden_conversation_has_the_references_in_its_history),
        cmocka_unit_test(a_resumed_conversation_stores_only_what_is_missing),
        cmocka_unit_test(the_cache_grows_by_turns_unless_decoding_evicts),
        cmocka_unit_test(turns_behind_one_that_fails_fail_with_its_reason),
        cmocka_unit_test(samples_of_one_context_are_one_unit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
