/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_official_items.c - items of the official dialects: worked examples of
 * tasks-ruler.md 12.2, layouts, spans, any order of access, refusals. */
#include "tests/tasks/official_test.h"

#include <pthread.h>

static const char *const names[] = {"niah_single_1",
                                    "niah_single_2",
                                    "niah_single_3",
                                    "niah_multikey_1",
                                    "niah_multikey_2",
                                    "niah_multikey_3",
                                    "niah_multivalue",
                                    "niah_multiquery",
                                    "vt",
                                    "cwe",
                                    "fwe",
                                    "qa_1",
                                    "qa_2"};
enum { N_NAMES = sizeof names / sizeof names[0] };
static const char *const dialects[] = {"r2024", "r2025"};

static void check_span(const struct kva_item *it, const char *id, const char *text,
                       size_t b0, int t0, int t1)
{
    const struct kva_span *s = span_named(it, id);

    assert_range(s->b0, s->b1, b0, b0 + strlen(text));
    assert_memory_equal(it->context + s->b0, text, strlen(text));
    assert_range((size_t)s->t0, (size_t)s->t1, (size_t)t0, (size_t)t1);
}

static void a_needle_in_noise_stands_where_the_reference_has_it(void **state)
{
    struct kva_task *task = open_dialect("niah_single_1", 512, "r2025", 42, NULL);
    const struct kva_official *o = task->state;
    struct kva_arena arena;
    struct kva_item it;
    int line = 0;

    (void)state;
    kva_arena_init(&arena);
    it = item_of(task, 0, &kva_tok_ws, &arena);
    assert_int_equal(o->runs->units, 17);
    assert_int_equal(length_of(task, &it), 509);
    assert_string_equal(it.answers[0], "8090293");
    assert_int_equal(it.context_len, 1725);
    assert_int_equal(it.n_context, 356);
    check_span(&it, "E0",
               "One of the special magic numbers for wandering-age is: 8090293.", 1031,
               213, 223);
    for (size_t i = 0; i < 1031; i++)
        line += it.context[i] == '\n';
    assert_int_equal(line, 11);
    check_span(&it, "P0", "8090293", 1031 + 55, 222, 223);
    check_span(&it, "K0", "wandering-age", 1031 + 37, 220, 221);
    assert_string_equal(it.gold, " 8090293");
    assert_string_equal(it.metric, "match_all");
    assert_int_equal(it.max_new_tokens, 128);
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void a_chain_stands_where_the_reference_has_it(void **state)
{
    struct kva_task *task = open_dialect("vt", 1024, "r2025", 42, NULL);
    const struct kva_official *o = task->state;
    const struct kva_span *x;
    struct kva_arena arena;
    struct kva_item it;

    (void)state;
    kva_arena_init(&arena);
    it = item_of(task, 0, &kva_tok_ws, &arena);
    assert_int_equal(o->runs->units, 22);
    assert_int_equal(length_of(task, &it), 1015);
    assert_int_equal(it.context_len, 4566);
    assert_int_equal(it.n_context, 950);
    check_span(&it, "E0", "VAR DKYRX = 54131", 2836, 584, 588);
    check_span(&it, "E1", "VAR QHOAH = VAR DKYRX", 3034, 626, 631);
    check_span(&it, "E2", "VAR LPRML = VAR QHOAH", 3147, 650, 655);
    check_span(&it, "E3", "VAR FMXUE = VAR LPRML", 3350, 693, 698);
    check_span(&it, "E4", "VAR CNQIV = VAR FMXUE", 4453, 926, 931);
    check_span(&it, "P1", "QHOAH", 3034 + 4, 627, 628);
    check_span(&it, "K1", "VAR DKYRX", 3034 + 12, 629, 631);
    assert_string_equal(it.gold, "DKYRX QHOAH LPRML FMXUE CNQIV");
    /* the example ends before the blank line, the main part follows it */
    x = span_named(&it, "X0");
    assert_range(x->b0, x->b1, 0, 2388);
    assert_memory_equal(it.context + 2388, "\n\nMemorize", 10);
    assert_int_equal(x->t1, 495);
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void word_lists_have_the_references_words(void **state)
{
    static const char *const common[] = {"stake",     "signet",  "assignment", "drum",
                                         "deodorant", "kumquat", "amuse",      "genre",
                                         "urn",       "ecology"};
    struct kva_task *fwe = open_dialect("fwe", 512, "r2025", 42, NULL);
    struct kva_task *cwe = open_dialect("cwe", 512, "r2025", 42, NULL);
    struct kva_arena arena;
    struct kva_item it;
    const char *body;
    int words = 0, first = 0;

    (void)state;
    kva_arena_init(&arena);
    it = item_of(fwe, 0, &kva_tok_ws, &arena);
    assert_int_equal(((struct kva_official *)fwe->state)->runs->units, 427);
    assert_int_equal(length_of(fwe, &it), 505);
    body = strstr(it.context, "coded words. ") + strlen("coded words. ");
    assert_memory_equal(body, "... znzwas ... ... wirkxl ", 26);
    for (const char *s = body; *s; s++)
        words += *s == ' ' || *s == '\n';
    assert_int_equal(words, 396);
    assert_string_equal(it.gold, " wirkxl, znzwas, qpesej");
    for (int i = 0; i < it.n_spans; i++)
        first += it.spans[i].kind == 'E' && strncmp(it.spans[i].id, "E0.", 3) == 0;
    assert_int_equal(first, 64); /* of rank 2 */

    it = item_of(cwe, 0, &kva_tok_ws, &arena);
    assert_int_equal(((struct kva_official *)cwe->state)->runs->units, 48);
    assert_int_equal(length_of(cwe, &it), 512);
    for (int i = 0; i < 10; i++)
        assert_string_equal(it.answers[i], common[i]);
    assert_memory_equal(it.gold, " 1. stake 2. signet 3. ", 23);
    assert_int_equal(span_named(&it, "X0")->b0, 0);
    assert_memory_equal(it.context + span_named(&it, "X0")->b1, "\nBelow is", 9);
    kva_arena_release(&arena);
    kva_task_close(fwe);
    kva_task_close(cwe);
}

static void the_gold_document_stands_at_one_index(void **state)
{
    struct kva_task *task = open_dialect("qa_1", 700, "r2025", 42, NULL);
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    for (int i = 0; i < 10; i++) {
        struct kva_item it = item_of(task, i, &kva_tok_ws, &arena);
        const struct kva_span *e = span_named(&it, "E0");
        const char *at = NULL, *next = it.context;

        if (i == 0)
            assert_int_equal(length_of(task, &it), 696);
        while ((next = strstr(next, "Document ")) != NULL &&
               (size_t)(next - it.context) < e->b0)
            at = next++;
        assert_memory_equal(at, "Document 19:\n", 13); /* numbered from 1 */
        assert_string_equal(it.metric, "match_part");
        kva_arena_reset(&arena);
    }
    assert_int_equal(((struct kva_official *)task->state)->runs->units, 21);
    kva_arena_release(&arena);
    kva_task_close(task);
}

/* Spans hold what they name; re-tokenizing gives the stored tokens. */
static void check_spans(const struct kva_item *it, const char *name)
{
    struct kva_arena arena;
    int32_t *begin, *end;
    size_t n;
    int evidence = 0;

    kva_arena_init(&arena);
    assert_int_equal(kva_tok_ws.ranges(NULL, &it->feed, it->context, it->context_len,
                                       &arena, &begin, &end, &n, NULL),
                     KVA_OK);
    assert_int_equal(n, it->n_context);
    for (int i = 0; i < it->n_spans; i++) {
        const struct kva_span *s = &it->spans[i];
        struct kva_span at = {.b0 = s->b0, .b1 = s->b1};
        const char *text = it->context + s->b0;
        int len = (int)(s->b1 - s->b0);

        assert_true(s->b0 < s->b1 && s->b1 <= it->context_len);
        kva_span_locate(&at, begin, end, n);
        assert_range((size_t)s->t0, (size_t)s->t1, (size_t)at.t0, (size_t)at.t1);
        evidence += s->kind == 'E' && s->queried;
        if (strcmp(name, "cwe") == 0 && s->kind == 'E') /* "37. twine" */
            assert_true(text[0] >= '1' && text[0] <= '9' &&
                        memchr(text, '.', (size_t)len));
        if (strncmp(name, "niah", 4) == 0 && s->kind == 'E')
            assert_memory_equal(text, "One of the special magic ", 25);
        if (strcmp(name, "vt") == 0 && s->kind == 'E')
            assert_memory_equal(text, "VAR ", 4);
        if (strncmp(name, "qa", 2) == 0 && s->kind == 'E')
            assert_int_equal(text[len - 1], '.');
        if (s->kind == 'P' && s->id[0] == 'P' && s->queried) {
            bool answer = false;

            for (int a = 0; a < it->n_answers; a++)
                answer = answer || (strlen(it->answers[a]) == (size_t)len &&
                                    memcmp(text, it->answers[a], (size_t)len) == 0);
            assert_true(answer);
        }
        for (int a = 0; s->kind == 'D' && a < it->n_answers; a++)
            if (strncmp(name, "qa", 2) != 0)
                assert_null(
                    memmem(text, (size_t)len, it->answers[a], strlen(it->answers[a])));
    }
    assert_true(evidence > 0);
    kva_arena_release(&arena);
}

static void every_task_has_evidence_and_answers_in_its_context(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++)
        for (int k = 0; k < N_NAMES; k++) {
            struct kva_task *task = open_dialect(names[k], 1536, dialects[d], 3, NULL);
            struct kva_arena arena;

            kva_arena_init(&arena);
            for (int i = 0; i < 4; i++) {
                struct kva_item it = item_of(task, i, &kva_tok_ws, &arena);
                bool all = true, any = false;

                check_spans(&it, names[k]);
                for (int a = 0; a < it.n_answers; a++) {
                    bool found = strstr(it.context, it.answers[a]) != NULL;

                    all = all && found;
                    any = any || found;
                }
                assert_true(strcmp(it.metric, "match_all") == 0 ? all : any);
                assert_false(it.no_haystack);
                for (int a = 0; a < it.n_decoys; a++)
                    assert_non_null(strstr(it.context, it.decoys[a]));
                kva_arena_reset(&arena);
            }
            kva_arena_release(&arena);
            kva_task_close(task);
        }
}

/* The supporting sentences stand in the order in which the seed puts their documents. */
static void a_sentence_keeps_its_payload_wherever_it_stands(void **state)
{
    int n = 0, n_payload = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct kva_task *task = open_dialect("qa_2", 1536, "r2025", seed, NULL);
        struct kva_arena arena;
        struct kva_item it;

        kva_arena_init(&arena);
        it = item_of(task, 0, &kva_tok_ws, &arena);
        check_spans(&it, "qa_2");
        for (int i = 0; i < it.n_spans; i++) {
            const struct kva_span *s = &it.spans[i], *e;

            n += s->kind == 'E' && s->queried && strcmp(s->role, "sentence") == 0;
            if (s->kind != 'P')
                continue;
            n_payload++;
            e = span_named(&it, s->match);
            assert_true(e->b0 <= s->b0 && s->b1 <= e->b1);
        }
        kva_arena_release(&arena);
        kva_task_close(task);
    }
    assert_true(n == 16 && n_payload >= 8);
}

static void three_layouts_are_one_text(void **state)
{
    static const char *const profiles[] = {"official", "kvpress", "criticalkv"};

    (void)state;
    for (int k = 0; k < N_NAMES; k++) {
        uint8_t digest[3][32];

        for (int p = 0; p < 3; p++) {
            struct kva_task *task =
                open_dialect(names[k], 1200, "r2025", 42, profiles[p]);
            struct kva_arena arena;
            struct kva_sha256 h;
            struct kva_item it;
            size_t q;

            kva_arena_init(&arena);
            kva_sha256_init(&h);
            it = item_of(task, 1, &kva_tok_ws, &arena);
            add_prompt(&h, &it);
            kva_sha256_end(&h, digest[p]);
            q = strlen(it.question);
            assert_int_equal(it.question[q - 1] == ' ', p > 0);
            assert_int_equal(it.answer_prefix[0] == ' ', p == 0);
            assert_int_equal(it.context[it.context_len - 1], '\n');
            assert_string_equal(task->layout, p ? "kvpress" : "official");
            assert_string_equal(kva_task_info(task)->dialect, "r2025");
            kva_arena_release(&arena);
            kva_task_close(task);
        }
        assert_memory_equal(digest[0], digest[1], 32);
        assert_memory_equal(digest[0], digest[2], 32);
    }
}

static void digest_item(const struct kva_task *task, int idx, uint8_t out[32])
{
    struct kva_arena arena;
    struct kva_sha256 h;
    struct kva_item it;

    kva_arena_init(&arena);
    kva_sha256_init(&h);
    it = item_of(task, idx, &kva_tok_ws, &arena);
    add_prompt(&h, &it);
    for (int i = 0; i < it.n_spans; i++)
        kva_sha256_add(&h, &it.spans[i].b0, sizeof it.spans[i].b0);
    kva_sha256_end(&h, out);
    kva_arena_release(&arena);
}

static void any_order_of_access_gives_the_same_samples(void **state)
{
    static const int order[] = {7, 0, 3, 7, 1};

    (void)state;
    for (int d = 0; d < 2; d++)
        for (int k = 0; k < N_NAMES; k++) {
            struct kva_task *a = open_dialect(names[k], 1100, dialects[d], 9, NULL);
            struct kva_task *b = open_dialect(names[k], 1100, dialects[d], 9, NULL);
            uint8_t want[8][32], got[32];

            for (int i = 0; i < 8; i++)
                digest_item(a, i, want[i]);
            for (int i = 0; i < 5; i++) {
                digest_item(b, order[i], got);
                assert_memory_equal(got, want[order[i]], 32);
            }
            kva_task_close(a);
            kva_task_close(b);
        }
}

/* Another tokenizer on the same task has its own search; the first one's stays. */
static void tokenizers_do_not_disturb_each_other(void **state)
{
    struct kva_task *task = open_dialect("niah_multiquery", 5000, "r2025", 42, NULL);
    struct kva_arena arena;
    struct kva_item by;
    uint8_t first[32], again[32];

    (void)state;
    kva_arena_init(&arena);
    digest_item(task, 2, first);
    by = item_of(task, 2, &kva_tok_by, &arena);
    assert_true(by.context_len < 5000);
    digest_item(task, 2, again);
    assert_memory_equal(first, again, 32);
    kva_arena_release(&arena);
    kva_task_close(task);
}

struct worker {
    const struct kva_task *task;
    int first;
    uint8_t digest[6][32];
};

static void *work(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < 6; i++)
        digest_item(w->task, (w->first + i) % 6, w->digest[(w->first + i) % 6]);
    return NULL;
}

static void workers_share_a_task(void **state)
{
    struct kva_task *task = open_dialect("vt", 900, "r2025", 1, NULL);
    struct worker w[3];
    pthread_t thread[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        w[i] = (struct worker){.task = task, .first = 5 - 2 * i};
        assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    for (int i = 1; i < 3; i++)
        assert_memory_equal(w[i].digest, w[0].digest, sizeof w[0].digest);
    kva_task_close(task);
}

static const char *item_refusal(const struct kva_task *task, int idx,
                                const struct kva_tok_api *tok)
{
    static char message[600];
    struct kva_error err = {0};
    struct kva_arena arena;
    struct kva_item it;
    enum kva_status rc;

    kva_arena_init(&arena);
    rc = kva_task_item(task, idx, tok, &arena, &it, &err);
    snprintf(message, sizeof message, "%s: %s", kva_status_name(rc), err.text);
    kva_arena_release(&arena);
    return message;
}

static void what_does_not_fit_is_refused_at_once(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++)
        for (int k = 0; k < N_NAMES; k++) {
            struct kva_task *task = open_dialect(names[k], 60, dialects[d], 42, NULL);
            char want[100];
            uint64_t start = kva_cpu_ns();

            snprintf(want, sizeof want,
                     "EINVALID: task %s does not fit in 60 with tokenizer ws (needs at "
                     "least ",
                     names[k]);
            for (int twice = 0; twice < 2; twice++) {
                const char *got = item_refusal(task, twice, &kva_tok_ws);

                if (strncmp(got, want, strlen(want)) != 0)
                    fail_msg("%s %s: %s", dialects[d], names[k], got);
            }
            assert_true(kva_cpu_ns() - start < 1000000000U);
            kva_task_close(task);
        }
}

/* The size a refusal names is larger than the one refused, and close to one that works.
 */
static void what_fwe_needs_is_said(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++)
        for (int limit = 250; limit < 500; limit += 50) {
            struct kva_task *task = open_dialect("fwe", limit, dialects[d], 7, NULL);
            const char *got = item_refusal(task, 0, &kva_tok_by);
            const char *at = strstr(got, "(needs at least ");
            long need;

            assert_non_null(at);
            need = strtol(at + strlen("(needs at least "), NULL, 10);
            assert_true(need > limit && need < 700);
            kva_task_close(task);
        }
}

static void the_example_of_vt_has_to_fit_in_500(void **state)
{
    struct kva_task *task = open_dialect("vt", 100000, "r2025", 42, NULL);
    const char *got;

    (void)state;
    got = item_refusal(task, 0, &kva_tok_by);
    assert_non_null(strstr(got, "task vt: its worked example does not fit in 500, what "
                                "it has at any length, with tokenizer by (needs at "
                                "least "));
    kva_task_close(task);
}

static void needles_alone_are_flagged(void **state)
{
    struct kva_task *task = open_dialect("niah_multiquery", 640, "r2024", 5, NULL);
    struct kva_arena arena;
    struct kva_item it;

    (void)state;
    kva_arena_init(&arena);
    it = item_of(task, 0, &kva_tok_ws, &arena);
    assert_true(it.no_haystack);
    assert_true(it.underfill);
    assert_non_null(strstr(it.context, "afterwards.\n One of the special"));
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void other_suites_and_parameters_are_refused(void **state)
{
    const struct kva_task_opts r2025 = {.dialect = "r2025"};

    (void)state;
    assert_string_equal(
        refusal("niah/needle", &r2025),
        "EINVALID: task \"niah/needle\": dialect r2025 is one of the suite ruler");
    assert_string_equal(refusal("ruler/vt:hops=3", &r2025),
                        "EINVALID: task \"ruler/vt:hops=3\": unknown parameter \"hops\"");
    assert_string_equal(refusal("ruler/niah_single_1:haystack=emerson", &r2025),
                        "EINVALID: task \"ruler/niah_single_1:haystack=emerson\": "
                        "RULER's niah_single_1 has "
                        "noise as haystack, not emerson");
    assert_string_equal(refusal("ruler/qa_1:data=big", &r2025),
                        "EINVALID: task \"ruler/qa_1:data=big\": data is mini, or left "
                        "out for the user's "
                        "file");
    assert_string_equal(
        refusal("ruler/cwe",
                &(struct kva_task_opts){.dialect = "r2024", .seed = (uint64_t)1 << 32}),
        "EINVALID: task \"ruler/cwe\": seed 4294967296 is above 2^32 - 1, the largest "
        "that "
        "RULER's generators take");
}

static void descriptions_name_dialect_and_data(void **state)
{
    struct kva_task *task = open_dialect("qa_1", 700, "r2024", 42, "official");
    struct kva_arena arena;
    const char *gen;

    (void)state;
    kva_arena_init(&arena);
    gen = kva_task_gen_json(task, &arena);
    assert_non_null(strstr(gen, "\"dialect\":\"r2024\""));
    assert_non_null(strstr(gen, "\"layout\":\"official\""));
    assert_non_null(strstr(gen, "\"name\":\"qa_1:data=mini\""));
    assert_non_null(strstr(gen, "\"squad\":\"2061b4fe"));
    assert_int_equal(kva_task_info(task)->n_available, 48);
    kva_arena_release(&arena);
    kva_task_close(task);
}

/* r2025's list of rare words: more than the vocabulary are drawn from it. */
static void without_english_words_cwe_ends_at_the_vocabulary(void **state)
{
    struct kva_task *task = open_dialect("cwe", 65535, "r2025", 2, NULL);
    struct kva_arena arena;
    struct kva_item it;

    (void)state;
    kva_arena_init(&arena);
    it = item_of(task, 0, &kva_tok_ws, &arena);
    assert_int_equal(((struct kva_official *)task->state)->runs->units, 8169);
    assert_true(it.underfill);
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void exhausted_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    for (int t = 0; t < 2 * N_NAMES; t++)
        for (long k = 1, done = 0; !done; k += 1 + k / 6) {
            struct kva_task_opts opts = {.dialect = dialects[t % 2], .seed = 42};
            struct kva_error err = {0};
            struct kva_task *task;
            struct kva_arena arena;
            struct kva_item it;
            enum kva_status rc;
            char text[64];

            snprintf(text, sizeof text, "ruler/%s%s@1100", names[t / 2],
                     strncmp(names[t / 2], "qa_", 3) == 0 ? ":data=mini" : "");
            kva_arena_init(&arena);
            kva_alloc_fail_at(k);
            rc = kva_task_open(text, &opts, &task, &err);
            if (rc == KVA_OK) {
                rc = kva_task_item(task, 1, &kva_tok_ws, &arena, &it, &err);
                kva_alloc_fail_at(0);
                if (rc != KVA_OK) { /* it works again once there is memory */
                    assert_int_equal(rc, KVA_ENOMEM);
                    assert_true(err.text[0]);
                    err = (struct kva_error){0};
                    if (kva_task_item(task, 1, &kva_tok_ws, &arena, &it, &err) != KVA_OK)
                        fail_msg("%s, %s, after failure %ld: %s", text, opts.dialect, k,
                                 err.text);
                    rc = KVA_ENOMEM;
                }
            }
            kva_alloc_fail_at(0);
            assert_true(rc == KVA_OK || rc == KVA_ENOMEM);
            done = rc == KVA_OK;
            kva_task_close(task);
            kva_arena_release(&arena);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_needle_in_noise_stands_where_the_reference_has_it),
        TEST(a_chain_stands_where_the_reference_has_it),
        TEST(word_lists_have_the_references_words),
        TEST(the_gold_document_stands_at_one_index),
        TEST(every_task_has_evidence_and_answers_in_its_context),
        TEST(a_sentence_keeps_its_payload_wherever_it_stands),
        TEST(three_layouts_are_one_text),
        TEST(any_order_of_access_gives_the_same_samples),
        TEST(tokenizers_do_not_disturb_each_other),
        TEST(workers_share_a_task),
        TEST(what_does_not_fit_is_refused_at_once),
        TEST(what_fwe_needs_is_said),
        TEST(the_example_of_vt_has_to_fit_in_500),
        TEST(needles_alone_are_flagged),
        TEST(other_suites_and_parameters_are_refused),
        TEST(descriptions_name_dialect_and_data),
        TEST(without_english_words_cwe_ends_at_the_vocabulary),
        TEST(exhausted_memory_is_reported_and_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
