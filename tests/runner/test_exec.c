/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_exec.c - masked and physically evicted sessions give the same logits bit for bit
 * in numerics ref; sessions that share a wave do not feel each other, a failing and a
 * short one included. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runner/wave.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(expr)                                                                         \
    do {                                                                                 \
        struct kva_error *err = &test_error;                                             \
        *err = (struct kva_error){0};                                                    \
        if ((expr) != KVA_OK)                                                            \
            fail_msg("%s: %s", #expr, err->text);                                        \
    } while (0)
static struct kva_error test_error;

enum { MAX_IDS = 160, QUESTION = 7, STEPS = 9 };

struct setup {
    struct kva_model *m;
    int n; /* context tokens; QUESTION more follow */
    int32_t ids[MAX_IDS];
    float *logits; /* of one step */
};

static struct setup open_setup(const char *path, const char *numerics, int n)
{
    struct setup s = {.n = n};
    int vocab;

    OK(kva_model_open(path, &(struct kva_model_opts){.numerics = numerics}, &s.m, err));
    vocab = kva_model_info(s.m)->vocab;
    /* far from periodic, values of the retrieval model among them; never an end token */
    for (int i = 0; i < n + QUESTION; i++)
        s.ids[i] = vocab == 260 ? (37 * i + i * i / 7 + 11) % 251
                                : 256 + (7919 * i + i * i) % 32000;
    s.logits = calloc((size_t)QUESTION * (size_t)vocab, sizeof *s.logits);
    assert_non_null(s.logits);
    return s;
}

static void close_setup(struct setup *s)
{
    free(s->logits);
    kva_model_close(s->m);
}

/* What one run leaves: hashes over all logits and over the kept sets of all decisions. */
struct trace {
    uint64_t logits, kept;
    int decisions;
    uint64_t masked;
    int32_t said[STEPS];
};

static uint64_t add_hash(uint64_t h, const void *p, size_t n)
{
    const unsigned char *b = p;

    for (size_t i = 0; i < n; i++)
        h = (h ^ b[i]) * 0x100000001b3ULL;
    return h;
}

/* Brings the session to `total` entries. hole: decode-time, the newest survivors fill the
 * holes. */
static void decide(struct kva_session *s, const struct kva_method *method, uint64_t total,
                   int block_len, bool is_block, bool hole, struct trace *t)
{
    struct kva_kvstore *store = kva_session_store(s);
    struct kva_decision d = {0};
    struct kva_kv_bytes b;
    struct kva_own own = {.method = method,
                          .total = total,
                          .seed = 42,
                          .block_len = block_len,
                          .is_block = is_block};
    uint64_t fnv;

    kva_kvstore_bytes(store, &b);
    if (b.entries_kept <= total)
        return;
    own.held = b.entries_kept;
    OK(kva_decide_own(s, &own, &d, err));
    assert_false(d.nothing_to_do);
    if (hole) {
        struct kva_keep v = {.layers = d.keep.layers, .kv_heads = d.keep.kv_heads};
        int heads = v.layers * v.kv_heads;
        size_t at = 0;

        v.off = calloc((size_t)heads + 1, sizeof *v.off);
        v.rank = calloc((size_t)b.entries_kept, sizeof *v.rank);
        for (int c = 0; c < heads; c++) {
            size_t k = d.keep.off[c];
            int live = kva_kvstore_live(store, c / v.kv_heads, c % v.kv_heads);

            for (int r = 0; r < live; r++)
                if (k < d.keep.off[c + 1] && d.keep.rank[k] == r)
                    k++;
                else
                    v.rank[at++] = r;
            v.off[c + 1] = at;
        }
        OK(kva_session_replace(s, &v, err));
        kva_keep_release(&v);
    } else {
        OK(kva_session_keep(s, &d.keep, err));
        OK(kva_kvstore_trim(store, err));
    }
    kva_decision_release(&d);
    OK(kva_kvstore_check(store, err));
    kva_kvstore_bytes(store, &b);
    assert_true(b.entries_kept <= total);
    t->masked = b.entries_masked;
    fnv = kva_kvstore_kept_fnv(store);
    t->kept = add_hash(t->kept, &fnv, sizeof fnv);
    t->decisions++;
}

static struct trace run(struct setup *x, const struct kva_method *method,
                        const struct kva_schedule *schedule, uint64_t total,
                        enum kva_kv_mode mode)
{
    struct trace t = {.logits = 0xcbf29ce484222325ULL, .kept = 0xcbf29ce484222325ULL};
    const struct kva_model_info *info = kva_model_info(x->m);
    size_t vocab = (size_t)info->vocab;
    uint64_t heads = (uint64_t)(info->layers * info->kv_heads);
    struct kva_session_opts o = {.kv = KVA_F32, .mode = mode, .page_cap = 4096};
    struct kva_row rows[QUESTION];
    struct kva_session *s = NULL;
    int block = schedule->kind == KVA_BLOCK ? schedule->block : x->n;
    int32_t next;

    (void)kva_method_needs(method, &o.q_window);
    OK(kva_session_new(x->m, &o, &s, err));
    for (int at = 0; at < x->n; at += block) {
        int len = x->n - at < block ? x->n - at : block;

        OK(kva_prefill(x->m, s, x->ids + at, len, 0, NULL, err));
        decide(s, method, total, len, schedule->kind == KVA_BLOCK, false, &t);
    }
    for (int i = 0; i < QUESTION; i++)
        rows[i] = (struct kva_row){.session = s,
                                   .token = x->ids[x->n + i],
                                   .logits = vocab < 1000 || i == QUESTION - 1,
                                   .target = -1};
    OK(kva_step(x->m, rows, QUESTION, x->logits, err));
    t.logits = add_hash(t.logits, x->logits,
                        (vocab < 1000 ? QUESTION : 1) * vocab * sizeof *x->logits);
    next = rows[QUESTION - 1].argmax;
    if (schedule->decode > 0)
        decide(s, method, total, kva_session_seen(s), true, false, &t);
    for (int i = 0; i < STEPS; i++) {
        struct kva_row r = {.session = s, .token = next, .logits = true, .target = -1};
        struct kva_kv_bytes b;

        OK(kva_step(x->m, &r, 1, x->logits, err));
        assert_int_equal(kva_session_error(s)->code, KVA_OK);
        t.logits = add_hash(t.logits, x->logits, vocab * sizeof *x->logits);
        t.said[i] = next = r.argmax;
        kva_kvstore_bytes(kva_session_store(s), &b);
        if (schedule->decode > 0 &&
            b.entries_kept >= total + (uint64_t)schedule->decode * heads)
            decide(s, method, total, kva_session_seen(s), true, true, &t);
    }
    kva_session_free(s);
    return t;
}

static const char *const methods[] = {"random",
                                      "random+adakv",
                                      "random+global",
                                      "streaming",
                                      "knorm",
                                      "knorm+adakv",
                                      "keydiff",
                                      "keydiff+global:norm=z",
                                      "valuediff",
                                      "valuediff+adakv",
                                      "tova",
                                      "tova+adakv",
                                      "tova+global",
                                      "snapkv:window=6",
                                      "snapkv:window=6+adakv",
                                      "snapkv:window=6+global"};
static const char *const schedules[] = {"oneshot",           "oneshot+decode:1",
                                        "oneshot+decode:4",  "block:16",
                                        "block:16+decode:1", "block:23+decode:4"};

/* Every method x schedule x budget on one model; `some`: fewer pairs where a head costs
 * milliseconds. */
static void compare_modes(const char *path, int n, bool some)
{
    struct setup x = open_setup(path, "ref", n);
    uint64_t heads =
        (uint64_t)(kva_model_info(x.m)->layers * kva_model_info(x.m)->kv_heads);
    const uint64_t budgets[] = {(uint64_t)n / 2 * heads, 13 * heads + 3, 33 * heads};
    uint64_t seen[3] = {0};
    int pairs = 0;

    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        for (size_t j = 0; j < sizeof schedules / sizeof schedules[0]; j++)
            for (size_t k = 0; k < sizeof budgets / sizeof budgets[0]; k++) {
                struct kva_schedule schedule;
                struct kva_method method;
                struct trace p, q;

                if (some && (i + 5 * j + 7 * k) % 12 != 0)
                    continue;
                OK(kva_schedule_parse(schedules[j], &schedule, err));
                OK(kva_method_parse(methods[i], &schedule, &method, err));
                p = run(&x, &method, &schedule, budgets[k], KVA_KV_PHYSICAL);
                q = run(&x, &method, &schedule, budgets[k], KVA_KV_MASK);
                if (p.kept != q.kept || p.logits != q.logits ||
                    p.decisions != q.decisions)
                    fail_msg("%s, %s, %llu entries: %s differ", methods[i], schedules[j],
                             (unsigned long long)budgets[k],
                             p.kept != q.kept ? "kept sets" : "logits");
                assert_memory_equal(p.said, q.said, sizeof p.said);
                assert_true(p.decisions > (schedule.decode == 1 ? STEPS : 0));
                assert_true(q.masked > 0 && p.masked == 0);
                pairs++;
                seen[k] ^= p.logits; /* budgets and methods do change what comes out */
            }
    assert_true(pairs >= (some ? 20 : 250));
    assert_true(seen[0] != seen[1] && seen[1] != seen[2]);
    close_setup(&x);
}

static void masked_and_evicted_caches_give_the_same_logits_on_the_tiny_model(void **state)
{
    (void)state;
    compare_modes("builtin:tiny-llama", 70, false);
}

static void
masked_and_evicted_caches_give_the_same_logits_on_the_retrieval_model(void **state)
{
    (void)state;
    compare_modes("builtin:retrieval", 80, true);
}

static void the_comparison_of_modes_can_fail(void **state)
{
    struct setup x = open_setup("builtin:tiny-llama", "ref", 70);
    struct kva_schedule schedule;
    struct kva_method method;
    struct trace p, q;

    (void)state;
    OK(kva_schedule_parse("oneshot", &schedule, err));
    OK(kva_method_parse("keydiff", &schedule, &method, err));
    p = run(&x, &method, &schedule, 6 * 35, KVA_KV_PHYSICAL);
    q = run(&x, &method, &schedule, 6 * 34, KVA_KV_MASK);
    assert_true(p.logits != q.logits && p.kept != q.kept);
    close_setup(&x);
}

/* ---- waves */

enum { CELLS = 6 };

struct told {
    int calls, cells;
    int group_of[CELLS]; /* which call told of the cell */
    struct kva_run_cell *first;
};

static enum kva_status ended(void *ctx, struct kva_run_cell **cells, int n,
                             struct kva_error *err)
{
    struct told *t = ctx;

    (void)err;
    t->calls++;
    for (int i = 0; i < n; i++, t->cells++)
        t->group_of[cells[i] - t->first] = t->calls;
    return KVA_OK;
}

static struct kva_cell make_cell(const char *method, const char *schedule)
{
    struct kva_cell c = {.enforce = KVA_PHYSICAL, .seed = 42};

    OK(kva_schedule_parse(schedule, &c.schedule, err));
    OK(kva_method_parse(method, &c.schedule, &c.method, err));
    return c;
}

static const int32_t gold_ids[4] = {70, 71, 72, 73};

/* Six sessions of one context: dense, one that may say one token only, one whose pages
 * end inside the question, one whose pages end while it decodes, two that evict while
 * they decode. */
static void fill(struct setup *x, struct kva_cell *cells, struct kva_run_cell *rc)
{
    static const int max_new[CELLS] = {STEPS, 1, STEPS, STEPS, STEPS, 5};
    const struct kva_model_info *info = kva_model_info(x->m);
    size_t heads = (size_t)(info->layers * info->kv_heads);

    cells[0] = cells[1] = cells[2] = cells[3] = make_cell("dense", "oneshot");
    cells[4] = make_cell("keydiff", "oneshot+decode:1");
    cells[5] = make_cell("snapkv:window=4", "oneshot+decode:2");
    for (int i = 0; i < CELLS; i++) {
        struct kva_session_opts o = {
            .kv = KVA_F16, .page_cap = 4096, .q_window = i == 5 ? 8 : 0};

        rc[i] = (struct kva_run_cell){.cell = &cells[i],
                                      .ids = x->ids + x->n,
                                      .n_ids = QUESTION,
                                      .gold = gold_ids,
                                      .n_gold = i == 3 ? 0 : 4,
                                      .max_new = max_new[i],
                                      .budget_total = 40 * heads,
                                      .tok = kva_model_tokenizer(x->m),
                                      .seed = 42};
        rc[i].gen = calloc(STEPS + 1, sizeof *rc[i].gen);
        rc[i].step_ns = calloc(STEPS + 1, sizeof *rc[i].step_ns);
        if (i == 2) /* 60 tokens are two pages a head; the question's fifth token needs a
                       third */
            o.page_cap = heads * 2;
        if (i == 3) /* three pages: room for 96 - 67 more */
            o.page_cap = heads * 2 + heads / 2;
        OK(kva_session_new(x->m, &o, &rc[i].session, err));
        OK(kva_prefill(x->m, rc[i].session, x->ids, x->n, 0, NULL, err));
    }
}

static void empty(struct kva_run_cell *rc)
{
    for (int i = 0; i < CELLS; i++) {
        kva_session_free(rc[i].session);
        free(rc[i].gen);
        free(rc[i].step_ns);
    }
}

static void sessions_of_a_wave_do_not_feel_each_other(void **state)
{
    struct setup x = open_setup("builtin:tiny-llama", "f32", 60);
    struct kva_cell cells[2][CELLS];
    struct kva_run_cell alone[CELLS], wave[CELLS], *all[CELLS];
    struct told told = {.first = wave}, one = {0};
    int64_t rows = 0;

    (void)state;
    x.n = 56; /* the question ends at 63, inside the second page; decoding enters the
                 third */
    fill(&x, cells[0], alone);
    for (int i = 0; i < CELLS; i++) {
        struct kva_run_cell *c = &alone[i];

        one.first = c;
        OK(kva_wave_run(x.m, &c, 1, 64, NULL, ended, &one, &rows, err));
    }
    assert_int_equal(one.cells, CELLS);
    for (int chunk = 3; chunk <= 300; chunk *= 10) {
        memset(told.group_of, 0, sizeof told.group_of);
        told.calls = told.cells = 0;
        fill(&x, cells[1], wave);
        for (int i = 0; i < CELLS; i++)
            all[i] = &wave[(i * 5 + 2) % CELLS]; /* another order */
        OK(kva_wave_run(x.m, all, CELLS, chunk, NULL, ended, &told, &rows, err));
        assert_int_equal(told.cells, CELLS);
        for (int i = 0; i < CELLS; i++) {
            assert_int_equal(wave[i].failed.code, alone[i].failed.code);
            assert_int_equal(wave[i].n_gen, alone[i].n_gen);
            assert_memory_equal(wave[i].gen, alone[i].gen,
                                (size_t)alone[i].n_gen * sizeof(int32_t));
            assert_memory_equal(&wave[i].gold_sum, &alone[i].gold_sum, sizeof(double));
            assert_true(kva_kvstore_kept_fnv(kva_session_store(wave[i].session)) ==
                        kva_kvstore_kept_fnv(kva_session_store(alone[i].session)));
        }
        /* the failing two are told of as failed, the short one ends before the long ones
         */
        assert_int_equal(wave[2].failed.code, KVA_EBUDGET);
        assert_int_equal(wave[3].failed.code, KVA_EBUDGET);
        assert_null(wave[2].stop);
        assert_true(wave[3].n_gen < STEPS);
        assert_int_equal(wave[1].n_gen, 1);
        assert_int_equal(wave[0].n_gen, STEPS);
        assert_string_equal(wave[0].stop, "length");
        assert_true(told.group_of[1] < told.group_of[0]);
        assert_int_equal(told.group_of[0], told.group_of[4]); /* one group, one commit */
        assert_true(told.group_of[2] <= told.group_of[1]);
        empty(wave);
    }
    empty(alone);
    close_setup(&x);
}

static void gold_rows_leave_no_trace_in_what_is_said_later(void **state)
{
    struct setup x = open_setup("builtin:tiny-llama", "f32", 60);
    struct kva_cell cells[2][CELLS];
    struct kva_run_cell with[CELLS], without[CELLS];
    struct told told = {0};
    int64_t rows = 0;

    (void)state;
    fill(&x, cells[0], with);
    fill(&x, cells[1], without);
    for (int i = 0; i < CELLS; i++) {
        struct kva_run_cell *a = &with[i], *b = &without[i];

        if (i == 2 || i == 3)
            continue;
        b->n_gold = 0;
        told.first = a;
        OK(kva_wave_run(x.m, &a, 1, 64, NULL, ended, &told, &rows, err));
        told.first = b;
        OK(kva_wave_run(x.m, &b, 1, 64, NULL, ended, &told, &rows, err));
        assert_true(a->has_gold && !b->has_gold && a->gold_sum > 0);
        assert_int_equal(a->n_gen, b->n_gen);
        assert_memory_equal(a->gen, b->gen, (size_t)a->n_gen * sizeof(int32_t));
        assert_true(kva_kvstore_kept_fnv(kva_session_store(a->session)) ==
                    kva_kvstore_kept_fnv(kva_session_store(b->session)));
    }
    empty(with);
    empty(without);
    close_setup(&x);
}

static void a_stop_request_ends_a_wave_between_two_steps(void **state)
{
    struct setup x = open_setup("builtin:tiny-llama", "f32", 60);
    struct kva_cell cells[CELLS];
    struct kva_run_cell rc[CELLS], *c = &rc[0];
    struct told told = {.first = rc};
    struct kva_error err = {0};
    volatile int stop = 1;
    int64_t rows = 0;

    (void)state;
    fill(&x, cells, rc);
    assert_int_equal(kva_wave_run(x.m, &c, 1, 64, &stop, ended, &told, &rows, &err),
                     KVA_EINTERRUPTED);
    assert_int_equal(told.cells, 0);
    assert_int_equal(rows, 0);
    empty(rc);
    close_setup(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            masked_and_evicted_caches_give_the_same_logits_on_the_tiny_model),
        cmocka_unit_test(
            masked_and_evicted_caches_give_the_same_logits_on_the_retrieval_model),
        cmocka_unit_test(the_comparison_of_modes_can_fail),
        cmocka_unit_test(sessions_of_a_wave_do_not_feel_each_other),
        cmocka_unit_test(gold_rows_leave_no_trace_in_what_is_said_later),
        cmocka_unit_test(a_stop_request_ends_a_wave_between_two_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
