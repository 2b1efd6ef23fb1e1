/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_sampling.c - sampled answers: the numbers behind a draw; draws that share a
 * prefill, a decision and a question are the draws of cells by themselves, and those of a
 * session that is stepped by hand. */
#include "tests/runner/fake_task.h"

#include "runner/digest.h"

static struct kva_error test_error;
#define OK(expr)                                                                         \
    do {                                                                                 \
        struct kva_error *err = &test_error;                                             \
        *err = (struct kva_error){0};                                                    \
        if ((expr) != KVA_OK)                                                            \
            fail_msg("%s: %s", #expr, err->text);                                        \
    } while (0)

#define SUITE(methods, more)                                                             \
    "{\"schema\":1,\"name\":\"t\",\"defaults\":{\"n\":1},"                               \
    "\"models\":[\"builtin:tiny-llama\"],\"methods\":[" methods "],"                     \
    "\"tasks\":[\"ruler/niah_single_1@512\"],\"budgets\":[{\"keep\":0.4}]," more         \
    "\"sampling\":[\"greedy\",{\"temperature\":0.9,\"top_p\":0.9,\"top_k\":50,"          \
    "\"samples\":3}]}"

enum { DRAWS = 3, NEW = 10 };

/* ---- words and numbers ---- */

static void a_sampling_has_one_text(void **state)
{
    static const struct {
        struct kva_sampling s;
        const char *text;
    } w[] = {{{0, 0, 0}, "greedy"},
             {{0.6, 0.95, 0}, "t0.6-p0.95"},
             {{1, 1, 20}, "t1-k20"},
             {{1.5, 0.5, 1 << 24}, "t1.5-p0.5-k16777216"},
             {{99.9999, 0.0001, 1 << 24}, "t99.9999-p0.0001-k16777216"}};
    char text[KVA_SAMPLING_TEXT];

    (void)state;
    for (size_t i = 0; i < sizeof w / sizeof *w; i++) {
        kva_sampling_text(&w[i].s, text);
        assert_string_equal(text, w[i].text);
    }
}

static void a_draw_is_a_function_of_seed_sample_number_and_step(void **state)
{
    uint8_t a[32] = {1, 2, 3}, b[32] = {1, 2, 4};
    uint64_t s = kva_draw_seed(42, a, 0);
    int low = 0;

    (void)state;
    /* fixed for good: stored answers depend on them */
    assert_true(s == UINT64_C(11458666058571941602));
    assert_true(kva_draw_unit(s, 0) == 0x1.7e2c56217bf40p-6);
    assert_true(kva_draw_unit(s, 7) == 0x1.af0435d0d4120p-1);
    assert_true(s != kva_draw_seed(43, a, 0));
    assert_true(s != kva_draw_seed(42, b, 0));
    assert_true(s != kva_draw_seed(42, a, 1));
    for (int draw = 0; draw < 100; draw++)
        for (int t = 0; t < 100; t++) {
            double u = kva_draw_unit(kva_draw_seed(42, a, draw), t);

            assert_true(u >= 0 && u < 1);
            low += u < 0.25;
        }
    assert_true(abs(low - 2500) < 6 * 44); /* sd 43.3 */
}

static void greedy_cells_keep_their_digest_and_draws_are_none_of_it(void **state)
{
    struct fake_plan f;
    const int one[] = {0};
    int greedy = 0, drawn = 0;

    (void)state;
    fake_needles();
    fake_open(&f, SUITE("\"keydiff\"", ""), one, 1, false);
    for (int c = 0; c < f.plan.n_cells; c++) {
        const struct kva_cell *cell = &f.plan.cells[c];
        bool is = kva_sampled(&cell->sampling);

        greedy += strstr(cell->spec_json, "\"sampling\":\"greedy\"") != NULL;
        drawn += strstr(cell->spec_json, "\"sampling\":\"t0.9-p0.9-k50\"") != NULL;
        assert_int_equal(cell->reps, is ? DRAWS : 1);
        assert_int_equal(strstr(cell->slug, "/t0.9-p0.9-k50") != NULL, is);
        for (int k = 0; k < c; k++) /* a reference of its own */
            if (kva_sampled(&f.plan.cells[k].sampling) != is)
                assert_memory_not_equal(cell->dense_key, f.plan.cells[k].dense_key, 32);
            else
                assert_memory_equal(cell->dense_key, f.plan.cells[k].dense_key, 32);
    }
    assert_int_equal(greedy, 3);
    assert_int_equal(drawn, 3);
    fake_close(&f);
}

/* ---- shared and alone ---- */

/* Jobs of every cell: all draws, or of a sampled one the draw `only` alone. */
static void set_jobs(struct fake_plan *f, int only)
{
    struct kva_unit *u = &f->plan.units[0];

    free(u->jobs);
    u->jobs = calloc((size_t)(u->n_idx * f->plan.n_cells * DRAWS), sizeof *u->jobs);
    assert_non_null(u->jobs);
    u->n_jobs = 0;
    for (int q = 0; q < u->n_idx; q++)
        for (int c = 0; c < f->plan.n_cells; c++)
            for (int r = 0; r < f->plan.cells[c].reps; r++)
                if (only < 0 || r == only)
                    u->jobs[u->n_jobs++] = (struct kva_job){c, q, r, false, false};
}

static const struct kva_result *find(const struct fake_heard *h, int cell, int idx,
                                     int rep)
{
    for (int i = 0; i < h->n; i++)
        if (h->r[i].cell == cell && h->r[i].idx == idx && h->r[i].rep == rep)
            return &h->r[i];
    return NULL;
}

static void same_result(const struct kva_result *a, const struct kva_result *b)
{
    size_t heads = (size_t)(a->layers * a->kv_heads);

    assert_non_null(b);
    assert_string_equal(a->status, "ok");
    assert_string_equal(b->status, "ok");
    assert_string_equal(a->stop, b->stop);
    assert_int_equal(a->n_gen, b->n_gen);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n_gen * sizeof *a->ids);
    assert_true(a->kept_fnv == b->kept_fnv);
    assert_true(fake_score(a, "gold_nll") == fake_score(b, "gold_nll"));
    assert_int_equal(a->n_cut, b->n_cut);
    assert_int_equal(a->n_spans, b->n_spans);
    for (int i = 0; i < a->n_spans; i++)
        assert_memory_equal(a->spans[i].kept, b->spans[i].kept, heads * 2);
    assert_true(a->has_memory && b->has_memory);
    assert_int_equal(a->memory.audit, b->memory.audit);
    assert_int_equal(a->memory.kv_alloc_bytes, b->memory.kv_alloc_bytes);
    assert_int_equal(a->memory.kv_peak_bytes, b->memory.kv_peak_bytes);
    assert_int_equal(a->memory.kv_end_bytes, b->memory.kv_end_bytes);
}

static void compare_shared(const char *suite)
{
    static struct fake_heard all, part, alone[DRAWS];
    static const int idx[] = {0, 1};
    struct fake_plan f;
    int differ = 0;

    fake_needles();
    for (int i = 0; i < 4; i++)
        fake_item[i].max_new_tokens = NEW;
    fake_open(&f, suite, idx, 2, false);
    set_jobs(&f, -1);
    fake_run(&f, false, 0, &all);
    fake_run(&f, false, 2, &part); /* groups that part the draws of a question */
    for (int r = 0; r < DRAWS; r++) {
        set_jobs(&f, r);
        fake_run(&f, false, 0, &alone[r]);
    }
    assert_int_equal(all.n, 2 * f.plan.n_cells / 2 * (1 + DRAWS));
    assert_int_equal(all.n, part.n);
    for (int i = 0; i < all.n; i++) {
        const struct kva_result *a = &all.r[i];

        same_result(a, find(&part, a->cell, a->idx, a->rep));
        same_result(a, find(&alone[a->rep], a->cell, a->idx, a->rep));
        if (a->rep > 0) {
            const struct kva_result *first = find(&all, a->cell, a->idx, 0);

            differ += a->n_gen != first->n_gen ||
                      memcmp(a->ids, first->ids, (size_t)a->n_gen * sizeof *a->ids) != 0;
            assert_true(fake_score(a, "gold_nll") == fake_score(first, "gold_nll"));
        }
    }
    assert_true(differ > all.n / 3);
    fake_close(&f);
    fake_forget(&all);
    fake_forget(&part);
    for (int r = 0; r < DRAWS; r++)
        fake_forget(&alone[r]);
}

static void draws_that_share_a_prefill_are_those_of_cells_alone(void **state)
{
    (void)state;
    compare_shared(SUITE("\"keydiff+adakv\",\"snapkv:window=4\"",
                         "\"visibility\":[\"agnostic\",\"aware\",\"full\"],"
                         "\"enforce\":[\"physical\",\"mask\",\"padded\"],"));
}

static void draws_part_after_what_the_schedule_evicts(void **state)
{
    (void)state;
    compare_shared(
        SUITE("\"keydiff+adakv\",\"snapkv:window=4\",\"h2o\"",
              "\"schedules\":[\"block:32\",\"layerwise\",\"oneshot+decode:2\","
              "\"block:32+decode:1\"],\"visibility\":[\"agnostic\",\"full\"],"));
}

static void in_a_conversation_every_draw_has_its_own(void **state)
{
    static struct fake_heard all, alone[DRAWS];
    static const int idx[] = {0, 1, 2};
    struct fake_plan f;

    (void)state;
    fake_needles();
    fake_info.conversation = true;
    fake_open(&f, SUITE("\"keydiff\"", ""), idx, 3, false);
    set_jobs(&f, -1);
    fake_run(&f, false, 0, &all);
    for (int r = 0; r < DRAWS; r++) {
        set_jobs(&f, r);
        fake_run(&f, false, 1, &alone[r]);
    }
    assert_int_equal(all.n, 3 * 3 * (1 + DRAWS));
    for (int i = 0; i < all.n; i++)
        same_result(&all.r[i], find(&alone[all.r[i].rep], all.r[i].cell, all.r[i].idx,
                                    all.r[i].rep));
    fake_close(&f);
    fake_forget(&all);
    for (int r = 0; r < DRAWS; r++)
        fake_forget(&alone[r]);
}

/* ---- by hand ---- */

struct samples {
    uint8_t digest[4][32];
    struct fake_heard *h;
};

static enum kva_status note_sample(void *ctx, const struct kva_sample_row *s,
                                   struct kva_error *err)
{
    struct samples *n = ctx;

    (void)err;
    memcpy(n->digest[s->question], s->digest, 32);
    return KVA_OK;
}

static enum kva_status note_results(void *ctx, const struct kva_result *r, int n,
                                    struct kva_error *err)
{
    return fake_results(((struct samples *)ctx)->h, r, n, err);
}

/* The dense cell says what a session says whose logits are drawn from outside the step.
 * min_one: the answer does not begin with an end token, though every token is as likely
 * here. */
static void by_hand(double temperature, bool min_one)
{
    static struct fake_heard h;
    static const int idx[] = {1};
    struct samples seen = {.h = &h};
    struct kva_sink sink = {&seen, note_sample, note_results, NULL};
    struct kva_exec_opts opts = {0};
    struct fake_plan f;
    struct kva_ops *cpu;
    struct kva_prompt p;
    struct kva_question q;
    int64_t rows = 0;
    int vocab, n_forbid = 0;

    memset(&h, 0, sizeof h);
    fake_needles();
    fake_item[1].max_new_tokens = NEW;
    fake_item[1].min_one = min_one;
    fake_open(&f, SUITE("\"keydiff\"", ""), idx, 1, false);
    for (int c = 0; c < f.plan.n_cells; c++)
        if (kva_sampled(&f.plan.cells[c].sampling))
            f.plan.cells[c].sampling.temperature = temperature;
    set_jobs(&f, -1);
    OK(kva_exec_unit(&f.plan, 0, false, &opts, &sink, &rows, err));
    OK(kva_ops_open("cpu", "f32", 1, &cpu, err));
    struct kva_model *m = f.plan.models[0].open[0];

    vocab = kva_model_info(m)->vocab;
    OK(kva_prompt_context(m, NULL, FAKE_CONTEXT, strlen(FAKE_CONTEXT), &p, err));
    OK(kva_prompt_question(m, NULL, &p, fake_item[1].question, fake_item[1].answer_prefix,
                           &q, err));
    float *logits = calloc((size_t)vocab, sizeof *logits);

    for (int i = 0; i < h.n; i++) {
        const struct kva_result *r = &h.r[i];
        const struct kva_cell *cell = &f.plan.cells[r->cell];
        struct kva_session *s;

        if (!cell->method.dense || !kva_sampled(&cell->sampling))
            continue;
        OK(kva_session_new(
            m, &(struct kva_session_opts){.kv = KVA_F16, .page_cap = 1 << 16}, &s, err));
        OK(kva_prefill(m, s, p.context.id, (int)p.context.n, 0, NULL, err));
        OK(kva_prefill(m, s, q.ids.id, (int)q.ids.n - 1, 0, NULL, err));
        struct kva_row row = {
            .session = s, .token = q.ids.id[q.ids.n - 1], .logits = true, .target = -1};

        for (int t = 0; t < r->n_gen; t++) {
            double u = kva_draw_unit(kva_draw_seed(42, seen.digest[0], r->rep), t);
            int32_t id;

            OK(kva_step(m, &row, 1, logits, err));
            for (int v = 0; v < vocab && t == 0 && min_one; v++)
                if (kva_tokenizer_is_eog(q.tok, v)) {
                    logits[v] = -INFINITY;
                    n_forbid++;
                }
            cpu->draw(cpu, logits, vocab, 1, (float)temperature, 50, 0.9f, &u, &id);
            assert_int_equal(r->ids[t], id);
            row.token = id;
        }
        kva_session_free(s);
    }
    assert_int_equal(n_forbid > 0, min_one);
    assert_int_equal(h.n, 3 * (1 + DRAWS));
    free(logits);
    kva_question_release(&q);
    kva_prompt_release(&p);
    kva_ops_close(cpu);
    fake_close(&f);
    fake_forget(&h);
}

static void a_draw_is_what_a_session_says_that_is_stepped_by_hand(void **state)
{
    (void)state;
    by_hand(0.9, false);
    by_hand(20, false);
    by_hand(20, true);
}

/* Every allocation of a unit may fail: it is run in halves, or fails as a whole, or an
 * answer of it does. */
static void a_unit_with_draws_may_run_out_of_memory(void **state)
{
    static struct fake_heard h;
    static const int idx[] = {0};
    struct kva_exec_opts opts = {0};
    struct kva_sink sink = {&h, fake_sample, fake_results, NULL};
    struct fake_plan f;
    int whole = 0, tried = 0;

    (void)state;
    fake_needles();
    fake_open(&f, SUITE("\"snapkv:window=4\"", "\"visibility\":\"full\","), idx, 1,
              false);
    set_jobs(&f, -1);
    for (long n = 1; n < 4000; n += 1 + n / 25) { /* the last is of no allocation */
        struct kva_error err = {0};
        enum kva_status rc;
        int64_t rows = 0;
        int failed = 0;

        memset(&h, 0, sizeof h);
        kva_alloc_fail_at(n);
        rc = kva_exec_unit(&f.plan, 0, false, &opts, &sink, &rows, &err);
        kva_alloc_fail_at(0);
        assert_true(rc == KVA_OK || rc == KVA_ENOMEM);
        for (int i = 0; i < h.n; i++)
            failed += strcmp(h.r[i].status, "ok") != 0;
        whole += rc == KVA_OK && failed == 0 && h.n == 3 * (1 + DRAWS);
        tried++;
        fake_forget(&h);
    }
    assert_true(whole > 0 && whole < tried);
    fake_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sampling_has_one_text),
        cmocka_unit_test(a_draw_is_a_function_of_seed_sample_number_and_step),
        cmocka_unit_test(greedy_cells_keep_their_digest_and_draws_are_none_of_it),
        cmocka_unit_test(draws_that_share_a_prefill_are_those_of_cells_alone),
        cmocka_unit_test(draws_part_after_what_the_schedule_evicts),
        cmocka_unit_test(in_a_conversation_every_draw_has_its_own),
        cmocka_unit_test(a_draw_is_what_a_session_says_that_is_stepped_by_hand),
        cmocka_unit_test(a_unit_with_draws_may_run_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
