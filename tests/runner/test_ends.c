/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_ends.c - where answers end: text stops, extra end tokens, loops, lengths; alone
 * and in a wave alike, under every visibility and schedule. */
#include "tests/runner/fake_task.h"

#include "runner/ends.h"

static struct kva_error test_error;
#define OK(expr)                                                                         \
    do {                                                                                 \
        struct kva_error *err = &test_error;                                             \
        *err = (struct kva_error){0};                                                    \
        if ((expr) != KVA_OK)                                                            \
            fail_msg("%s: %s", #expr, err->text);                                        \
    } while (0)

static void a_loop_is_one_period_of_at_most_32_in_the_last_256_tokens(void **state)
{
    int32_t gen[300];

    (void)state;
    for (int period = 1; period <= 40; period++) {
        for (int i = 0; i < 300; i++) /* 44 tokens of another text, then the loop */
            gen[i] = i < 44 ? 1000 + i : (i - 44) % period;
        assert_int_equal(kva_ends_loops(gen, 300), period <= 32);
        assert_false(kva_ends_loops(gen, 299)); /* one token of the text is among 256 */
        assert_false(kva_ends_loops(gen + 45, 255));
        gen[170] = -5;
        assert_false(kva_ends_loops(gen, 300));
    }
}

/* Feeds the bytes of `text` as tokens of the byte vocabulary one by one; returns how many
 * were taken when the answer ended. */
static int end_of(const struct kva_ends *ends, const struct kva_model *m,
                  const int32_t *gen, int n, const char **why)
{
    for (int i = 1; i <= n; i++) {
        OK(kva_ends_check(ends, kva_model_tokenizer(m), gen, i, 1 << 20, why, err));
        if (*why != NULL)
            return i;
    }
    return 0;
}

static struct kva_tokens tokens_of(const struct kva_model *m, const char *text)
{
    struct kva_tokens t = {0};
    struct kva_tokenizer *tok;

    OK(kva_tokenizer_clone(kva_model_tokenizer(m), &tok, err));
    OK(kva_tokenizer_encode(tok, text, strlen(text), false, &t, err));
    kva_tokenizer_free(tok);
    return t;
}

static struct kva_ends open_ends(const struct kva_model *m, struct kva_item *item,
                                 struct kva_arena *arena)
{
    struct kva_ends ends;

    OK(kva_ends_open(item, kva_model_tokenizer(m), arena, &ends, err));
    return ends;
}

static void a_text_stop_may_lie_across_tokens_and_is_cut_at_its_first_place(void **state)
{
    static const char *const stops[] = {"\nProblem:", "\xc3\xa9t\xc3\xa9", ""};
    static const struct {
        const char *text, *left;
        int n; /* bytes read when it ends */
    } cases[] = {
        {"4\nProblem: 5\nProblem:", "4", 10},
        {"\nProblem:", "", 9},
        {"en \xc3\xa9t\xc3\xa9, \nProblem:", "en ", 8},
        {"a long answer of many words before the stop comes\nProblem: x",
         "a long answer of many words before the stop comes", 58},
    };
    struct kva_item item = {.stops = stops, .n_stops = 3};
    struct kva_model *m;
    struct kva_arena arena;
    struct kva_ends ends;
    struct kva_tokens t;
    const char *why;

    (void)state;
    kva_arena_init(&arena);
    OK(kva_model_open("builtin:tiny-llama", &(struct kva_model_opts){.numerics = "f32"},
                      &m, err));
    ends = open_ends(m, &item, &arena);
    assert_int_equal(ends.n_forbid, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kva_buf text;
        int want = 1;

        t = tokens_of(m, cases[i].text);
        while ((int)t.end[want - 1] < cases[i].n) /* some tokens are two bytes */
            want++;
        assert_int_equal(end_of(&ends, m, t.id, (int)t.n, &why), want);
        assert_string_equal(why, "stop");
        kva_buf_init(&text, 0);
        kva_buf_puts(&text, cases[i].text);
        kva_ends_cut(&ends, &text);
        assert_string_equal(text.data, cases[i].left);
        kva_buf_release(&text);
        kva_tokens_release(&t);
    }
    t = tokens_of(m, "\nProblem without a colon");
    assert_int_equal(end_of(&ends, m, t.id, (int)t.n, &why), 0);
    kva_tokens_release(&t);
    kva_model_close(m);
    kva_arena_release(&arena);
}

static void the_last_token_of_a_text_ends_like_an_end_token(void **state)
{
    struct kva_item item = {.eos_text = "x\n", .min_one = true};
    struct kva_model *m;
    struct kva_arena arena;
    struct kva_ends ends;
    struct kva_tokens t;
    const char *why;
    int eogs = 0;

    (void)state;
    kva_arena_init(&arena);
    OK(kva_model_open("builtin:tiny-llama", &(struct kva_model_opts){.numerics = "f32"},
                      &m, err));
    ends = open_ends(m, &item, &arena);
    t = tokens_of(m, "first line\nsecond");
    assert_int_equal(end_of(&ends, m, t.id, (int)t.n, &why), 11);
    assert_string_equal(why, "eos");
    for (int32_t id = 0; id < kva_tokenizer_size(kva_model_tokenizer(m)); id++)
        eogs += kva_tokenizer_is_eog(kva_model_tokenizer(m), id);
    assert_true(eogs > 0);
    assert_int_equal(ends.n_forbid, eogs + 1);
    assert_int_equal(ends.forbid[eogs], t.id[10]);
    kva_tokens_release(&t);
    kva_model_close(m);
    kva_arena_release(&arena);
}

/* ---- units */

#define SUITE                                                                            \
    "{\"schema\":1,\"name\":\"t\",\"defaults\":{\"n\":1,\"perf\":1},\"models\":["        \
    "\"builtin:tiny-llama\"],\"methods\":[\"keydiff\",\"snapkv:window=4+adakv\"],"       \
    "\"tasks\":[\"ruler/niah_single_1@512\"],\"budgets\":[{\"keep\":0.5}],"              \
    "\"schedules\":[\"oneshot\",\"block:32\"],"                                          \
    "\"visibility\":[\"agnostic\",\"aware\",\"full\"]}"

static const int one[] = {0};

/* Alone and in the wave every cell says and keeps the same. */
static void alone_too(struct fake_plan *f, const struct fake_heard *shared)
{
    static struct fake_heard alone;

    fake_run(f, true, 0, &alone);
    assert_int_equal(alone.n, shared->n);
    for (int c = 0; c < f->plan.n_cells; c++) {
        const struct kva_result *a = fake_find(shared, c, 0),
                                *b = fake_find(&alone, c, 0);

        assert_string_equal(b->status, "ok");
        assert_string_equal(a->stop, b->stop);
        assert_int_equal(a->n_gen, b->n_gen);
        assert_memory_equal(a->ids, b->ids, (size_t)a->n_gen * sizeof *a->ids);
        assert_true(a->kept_fnv == b->kept_fnv && a->n_cut == b->n_cut);
    }
    fake_forget(&alone);
}

static void run_item(struct fake_plan *f, struct fake_heard *h)
{
    fake_info.turns = 1;
    fake_open(f, SUITE, one, 1, true);
    fake_run(f, false, 0, h);
    assert_int_equal(h->n, f->plan.n_cells);
    alone_too(f, h);
}

/* All six combinations of ruling R20 and both ways of running, for each end. */
static void ends_are_the_same_alone_and_in_waves_under_every_visibility(void **state)
{
    static struct fake_heard plain, stopped, ended, begun;
    const char *stops[1];
    struct fake_plan f;
    struct kva_item base;
    char stop[3] = "", eos[8] = "";
    int n_stopped = 0, n_begun = 0, n_cells, dense = -1;

    (void)state;
    fake_needles();
    fake_item[0].max_new_tokens = 24;
    base = fake_item[0];
    run_item(&f, &plain);
    n_cells = f.plan.n_cells;
    assert_true(n_cells >= 2 + 2 * 2 * 3);
    for (int c = 0; c < n_cells; c++)
        if (f.plan.cells[c].method.dense)
            dense = c;
    fake_close(&f);

    /* two characters from inside the dense answer end it */
    for (const char *t = fake_find(&plain, dense, 0)->text + 2; *t != '\0' && !stop[0];
         t++)
        if ((t[0] & 0x80) == 0 && (t[1] & 0x80) == 0 && t[1] != '\0')
            memcpy(stop, t, 2);
    assert_int_equal(strlen(stop), 2);
    stops[0] = stop;
    fake_item[0].stops = stops;
    fake_item[0].n_stops = 1;
    run_item(&f, &stopped);
    fake_close(&f);
    for (int c = 0; c < n_cells; c++) {
        const struct kva_result *a = fake_find(&plain, c, 0),
                                *b = fake_find(&stopped, c, 0);
        const char *at = strstr(a->text, stop);

        assert_memory_equal(a->ids, b->ids, (size_t)b->n_gen * sizeof *b->ids);
        assert_string_equal(b->stop, at != NULL ? "stop" : a->stop);
        assert_null(strstr(b->text, stop));
        if (at == NULL)
            continue;
        n_stopped++;
        assert_int_equal(strlen(b->text), at - a->text);
        assert_memory_equal(a->text, b->text, strlen(b->text));
        assert_true(b->n_gen <= a->n_gen);
    }
    assert_true(n_stopped > 0);

    /* the first character of the dense answer as an end token: it says nothing more */
    fake_item[0] = base;
    for (const char *t = fake_find(&plain, dense, 0)->text; (*t & 0x80) == 0 && !eos[0];)
        eos[0] = *t;
    assert_true(eos[0] != '\0');
    fake_item[0].eos_text = eos;
    run_item(&f, &ended);
    fake_close(&f);
    assert_string_equal(fake_find(&ended, dense, 0)->stop, "eos");
    assert_int_equal(fake_find(&ended, dense, 0)->n_gen, 1);

    /* unless the first token may not be one */
    fake_item[0].min_one = true;
    run_item(&f, &begun);
    fake_close(&f);
    for (int c = 0; c < n_cells; c++) {
        const struct kva_result *a = fake_find(&ended, c, 0),
                                *b = fake_find(&begun, c, 0);

        assert_true(b->n_gen > 1 || strcmp(b->stop, "length") == 0);
        if (a->n_gen == 1) {
            n_begun++;
            assert_true(a->ids[0] != b->ids[0]);
        } else {
            assert_int_equal(a->ids[0], b->ids[0]);
        }
    }
    assert_true(n_begun > 0);
    fake_forget(&plain);
    fake_forget(&stopped);
    fake_forget(&ended);
    fake_forget(&begun);
}

static void max_total_lowers_the_answer_of_each_prompt(void **state)
{
    static struct fake_heard h;
    struct fake_plan f;

    (void)state;
    fake_needles();
    fake_item[0].max_new_tokens = 24;
    fake_open(&f, SUITE, one, 1, true);
    fake_run(&f, false, 0, &h);
    fake_item[0].max_total = h.r[0].n_ctx + h.r[0].n_question + 5;
    for (int i = 0; i < h.n; i++)
        if (!f.plan.cells[h.r[i].cell].method.blind)
            fake_item[0].max_total = h.r[i].n_ctx + h.r[i].n_question + 5;
    fake_forget(&h);
    fake_run(&f, false, 0, &h);
    for (int i = 0; i < h.n; i++) {
        bool blind = f.plan.cells[h.r[i].cell].method.blind;

        assert_true(h.r[i].n_gen <= (blind ? 24 : 5));
        if (strcmp(h.r[i].stop, "length") == 0)
            assert_int_equal(h.r[i].n_gen, blind ? 24 : 5);
    }
    alone_too(&f, &h);
    fake_forget(&h);
    fake_item[0].max_total = 30;
    fake_run(&f, false, 0, &h);
    for (int i = 0; i < h.n; i++)
        if (!f.plan.cells[h.r[i].cell].method.blind)
            assert_string_equal(h.r[i].status, "truncated");
    fake_close(&f);
    fake_forget(&h);
}

/* A model that repeats itself: the tiny one does after some tokens, or never. */
static void a_loop_ends_an_answer_only_when_asked_for(void **state)
{
    static struct fake_heard on, off;
    struct fake_plan f;
    int loops = 0;

    (void)state;
    fake_needles();
    fake_item[0].max_new_tokens = 400;
    fake_open(&f, SUITE, one, 1, false);
    fake_run(&f, false, 0, &off);
    fake_item[0].loop_guard = true;
    fake_run(&f, false, 0, &on);
    for (int c = 0; c < f.plan.n_cells; c++) {
        const struct kva_result *a = fake_find(&off, c, 0), *b = fake_find(&on, c, 0);
        int n = 1;

        while (n < a->n_gen && !kva_ends_loops(a->ids, n))
            n++;
        assert_int_equal(b->n_gen, n);
        if (strcmp(b->stop, "repeat") == 0) {
            loops++;
            assert_true(n >= 256 && kva_ends_loops(a->ids, n));
        }
        assert_true(strcmp(a->stop, "repeat") != 0);
    }
    print_message("%d of %d answers loop\n", loops, f.plan.n_cells);
    fake_close(&f);
    fake_forget(&on);
    fake_forget(&off);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_is_one_period_of_at_most_32_in_the_last_256_tokens),
        cmocka_unit_test(a_text_stop_may_lie_across_tokens_and_is_cut_at_its_first_place),
        cmocka_unit_test(the_last_token_of_a_text_ends_like_an_end_token),
        cmocka_unit_test(ends_are_the_same_alone_and_in_waves_under_every_visibility),
        cmocka_unit_test(max_total_lowers_the_answer_of_each_prompt),
        cmocka_unit_test(a_loop_ends_an_answer_only_when_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
