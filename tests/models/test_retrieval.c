/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_retrieval.c - builtin:retrieval against the numbers of retrieval-model.md 3, 4
 * and 7. */
#include "tests/models/engine_test.h"

#define LEN(a) ((int)(sizeof(a) / sizeof(a)[0]))

/* ---- weights
 * ----------------------------------------------------------------------------- */

static double sum_abs(const float *w, size_t n)
{
    double s = 0;

    for (size_t i = 0; i < n; i++)
        s += fabs((double)w[i]);
    return s;
}

static void near(double have, double want, double tol)
{
    if (!(fabs(have - want) <= tol))
        fail_msg("%.9f, expected %.9f within %g", have, want, tol);
}

static void weights_have_the_sums_of_section_4(void **state)
{
    struct kva_retrieval r;
    double plain = 0;

    (void)state;
    OK(kva_retrieval_build(&r, err));
    near(sum_abs(r.tok_embd, 32768 * 256), 10106166.075, 5e-4);
    for (size_t i = 0; i < 32768 * 256; i++)
        plain += (double)r.tok_embd[i];
    near(plain, 8397152.111, 5e-4);
    near(sum_abs(r.layer[0].q, 384 * 256), 11489.496, 5e-4);
    near(sum_abs(r.layer[0].k, 128 * 256), 46, 0);
    near(sum_abs(r.layer[0].v, 128 * 256), 97, 0);
    near(sum_abs(r.layer[0].o, 256 * 384), 193, 0);
    near(sum_abs(r.layer[0].gate, 128 * 256), 0, 0);
    near(sum_abs(r.layer[1].q, 384 * 256), 22496.0, 5e-4);
    near(sum_abs(r.layer[1].k, 128 * 256), 104.5, 0);
    near(sum_abs(r.layer[1].v, 128 * 256), 98, 0);
    near(sum_abs(r.layer[1].o, 256 * 384), 866, 0);
    near(sum_abs(r.layer[1].gate, 128 * 256), 4704, 0);
    near(sum_abs(r.layer[1].up, 128 * 256), 98, 0);
    near(sum_abs(r.layer[1].down, 256 * 128), 3.0625, 0);
    near(sum_abs(r.layer[0].norm, 256), 1.0 / 16 + 255 * 16, 0);
    near(sum_abs(r.out_norm, 256), 48 * 1.5 + 30 + 40, 0);
    free(r.block);
}

static void codes_have_the_values_of_section_3(void **state)
{
    static const int sign[8] = {-1, 1, 1, -1, 1, -1, -1, -1};
    struct kva_retrieval r;

    (void)state;
    assert_true(kva_fnv1a64_str("retrieval.code") == 0xb39259081b38b99eULL);
    assert_true(kva_fnv1a64_str("retrieval.norm") == 0x8f4b90a9fbcd35edULL);
    assert_true(kva_mix64(0xb39259081b38b99eULL + 256) == 0xe5ec55f84aa12516ULL);
    assert_true(kva_mix64(0xb39259081b38b99eULL + 32767) == 0x3cefce567a075b93ULL);
    OK(kva_retrieval_build(&r, err));
    near((double)r.tok_embd[256 * 256 + 1], 1.046308136, 1e-7);
    near(fabs((double)r.tok_embd[32767 * 256 + 16]), 0.970637870, 1e-7);
    for (int j = 0; j < 8; j++)
        near((double)r.tok_embd[256 * 256 + 16 + j], sign[j] * 1.046308136, 1e-7);
    near((double)r.tok_embd[1 * 256 + 8], 16, 0);
    near((double)r.tok_embd[0 * 256 + 6], 1, 0);
    free(r.block);
}

/* ---- golden rows
 * ---------------------------------------------------------------------------- */

static const char CONTEXT_1[] =
    "One of the special magic numbers for amber-lantern is: 4812907. "
    "One of the special magic numbers for quiet-anvil is: 7300215.";
static const char QUESTION_1[] =
    "What is the special magic number for quiet-anvil mentioned in the provided text?";
static const char PREFIX_1[] =
    " The special magic number for quiet-anvil mentioned in the provided text is";
static const int32_t ROW_1[] = {
    0,     24847, 20744, 28028, 24592, 18988, 15049, 17040, 25785, 2,     5,
    7056,  8,     24847, 20744, 28028, 24592, 18988, 15049, 17040, 19296, 2,
    5,     9165,  8,     32495, 2,     28028, 24592, 18988, 15328, 17040, 19296,
    27196, 23486, 28028, 28230, 20606, 4,     31196, 24592, 18988, 15328, 17040,
    19296, 27196, 23486, 28028, 28230, 20606, 2};

static const char CONTEXT_2[] =
    "The grass is green. VAR DKYRX = 54131\nThe sky is blue.\n"
    "VAR QHOAH = VAR DKYRX \nHere we go.\n";
static const char QUESTION_2[] = "Question: Find all variables that are assigned the "
                                 "value 54131 in the text above. Answer: "
                                 "According to the chain(s) of variable assignment in "
                                 "the text above, 2 variables are assigned "
                                 "the value 54131, they are:";
static const int32_t ROW_2[] = {
    0,     31196, 25117, 2,     17596, 8,     7,     12897, 6,     10775, 31196,
    22710, 2,     15949, 8,     7,     13456, 6,     7,     12897, 15371, 29353,
    28427, 8,     18853, 5,     20730, 17060, 21442, 24332, 3,     27229, 28028,
    27882, 10775, 23486, 28028, 20606, 17194, 8,     19135, 5,     16583, 18596,
    28028, 31851, 13,    20744, 22597, 22256, 23486, 28028, 20606, 17194, 9,
    6421,  21442, 3,     27229, 28028, 27882, 10775, 9,     22399, 3,     5};

/* one needle, asked for brisk-meadow (30592) */
static const int32_t ROW_3[] = {0,     24847, 20744, 28028, 24592, 18988, 15049, 17040,
                                25785, 2,     5,     7056,  8,     32495, 2,     28028,
                                24592, 18988, 15328, 17040, 30592, 27196, 23486, 28028,
                                28230, 20606, 4,     31196, 24592, 18988, 15328, 17040,
                                30592, 27196, 23486, 28028, 28230, 20606, 2};

struct golden {
    double first[6]; /* logits 0..5 of the last row */
    double max;      /* 0: not given */
    int max_id;
    double second;
    int second_id;
};

static const struct golden GOLD_1 = {
    {0, 0, 1.053316, 3.585651, 3.835458, -0.987939}, 38.262302, 9165, 19.883306, 18779};
static const struct golden GOLD_2 = {
    {0, 0, -2.292623, 0.982468, 5.439665, 0.493983}, 34.453845, 12897, 19.104323, 4541};
static const struct golden GOLD_3 = {
    {0, 29.718477, 4.302138, -0.386148, -0.081889, 0.403575}, 29.718477, 1, 0, -1};

static int second_best(const float *x, int n, int b)
{
    int s = b ? 0 : 1;

    for (int i = 0; i < n; i++)
        if (i != b && x[i] > x[s])
            s = i;
    return s;
}

static void check_row(const float *l, const struct golden *g, double tol)
{
    int b = best(l, 32768);

    for (int i = 0; i < 6; i++)
        near((double)l[i], g->first[i], tol);
    assert_int_equal(b, g->max_id);
    near((double)l[b], g->max, tol);
    if (g->second_id >= 0) {
        assert_int_equal(second_best(l, 32768, b), g->second_id);
        near((double)l[g->second_id], g->second, tol);
    }
}

/* Feeds the ids, checks the last row, then decodes greedily; the answer ends with EOS
 * (1). */
static void check_prompt(struct kva_model *m, enum kva_type kv, const int32_t *ids, int n,
                         const struct golden *g, double tol, const int32_t *answer,
                         int answer_n)
{
    struct kva_session *s = open_session(m, kv, 0);
    float *l = new_logits(m, 1);
    struct kva_row row;

    feed(m, s, ids, n - 1, 64, NULL);
    row =
        (struct kva_row){.session = s, .token = ids[n - 1], .logits = true, .target = -1};
    OK(kva_step(m, &row, 1, l, err));
    check_row(l, g, tol);
    for (int i = 0; i < answer_n; i++) {
        assert_int_equal(row.argmax, answer[i]);
        row = (struct kva_row){
            .session = s, .token = answer[i], .logits = true, .target = -1};
        OK(kva_step(m, &row, 1, NULL, err));
    }
    assert_int_equal(row.argmax, 1);
    free(l);
    kva_session_free(s);
}

static void check_prompts(const char *numerics, enum kva_type kv, double tol)
{
    struct kva_model *m = open_model("builtin:retrieval", numerics);
    static const int32_t answer_1[] = {9165}, answer_2[] = {12897, 13456};

    check_prompt(m, kv, ROW_1, LEN(ROW_1), &GOLD_1, tol, answer_1, 1);
    check_prompt(m, kv, ROW_2, LEN(ROW_2), &GOLD_2, tol, answer_2, 2);
    check_prompt(m, kv, ROW_3, LEN(ROW_3), &GOLD_3, tol, NULL, 0);
    kva_model_close(m);
}

static void rows_1_to_3_hold_in_ref(void **state)
{
    (void)state;
    assert_int_equal(LEN(ROW_1), 51);
    assert_int_equal(LEN(ROW_2), 66);
    assert_int_equal(LEN(ROW_3), 39);
    check_prompts("ref", KVA_F32, 2e-4);
}

static void rows_1_to_3_hold_in_f32_with_f32_and_f16_cache(void **state)
{
    (void)state;
    check_prompts("f32", KVA_F32, 2e-3);
    check_prompts("f32", KVA_F16, 0.02);
}

/* The sum of the last row, and row 8, whose token is amber-lantern. */
static void row_1_has_its_sum_and_row_8_its_maximum(void **state)
{
    struct kva_model *m = open_model("builtin:retrieval", "ref");
    struct kva_session *s = open_session(m, KVA_F32, 0);
    float *l = new_logits(m, LEN(ROW_1)), *r8 = l + (size_t)8 * 32768,
          *last = l + (size_t)50 * 32768;
    double sum = 0;

    (void)state;
    feed(m, s, ROW_1, LEN(ROW_1), 64, l);
    for (int i = 0; i < 32768; i++)
        sum += (double)last[i];
    near(sum, 64.94291, 0.02); /* 32768 roundings */
    assert_int_equal(best(r8, 32768), 25785);
    near((double)r8[25785], 5.188985, 2e-4);
    free(l);
    kva_session_free(s);
    kva_model_close(m);
}

/* Both keys quiet-anvil: attention is graded, so a wrong scale shows. The weights come
 * from the query window and the gathered keys, by hand. */
static void row_4_has_graded_attention(void **state)
{
    enum { N = LEN(ROW_1) };
    struct kva_model *m = open_model("builtin:retrieval", "ref");
    struct kva_session *s = open_session(m, KVA_F32, 1);
    static const int norm_at[5] = {0, 1, 5, 11, 23};
    static const double norm[5] = {4.007744, 0.249897, 7.596268, 6.536943, 6.537630};
    struct kva_decide_in in = {0};
    float *l = new_logits(m, 1), *k = calloc(N * 64, sizeof *k);
    int32_t ids[N];
    const float *q;
    const int32_t *q_pos;
    double w[6][N];

    (void)state;
    assert_non_null(k);
    memcpy(ids, ROW_1, sizeof ids);
    ids[8] = 19296;
    feed(m, s, ids, N - 1, 64, NULL);
    feed(m, s, ids + N - 1, 1, 1, l);
    assert_int_equal(best(l, 32768), 9165);
    near((double)l[9165], 38.256825, 2e-4);
    kva_session_decide_in(s, &in);
    assert_int_equal(in.queries(in.queries_ctx, 1, &q, &q_pos), 1);
    assert_int_equal(q_pos[0], N - 1);
    for (int h = 0; h < 6; h++) {
        double top = -INFINITY, z = 0;

        OK(kva_kvstore_gather(kva_session_store(s), 1, h / 3, k, NULL, err));
        for (int j = 0; j < N; j++) {
            double d = 0;

            for (int i = 0; i < 64; i++)
                d += (double)q[h * 64 + i] * (double)k[j * 64 + i];
            w[h][j] = d * (double)kva_model_score_scale(m);
            top = w[h][j] > top ? w[h][j] : top;
        }
        for (int j = 0; j < N; j++)
            z += exp(w[h][j] - top);
        for (int j = 0; j < N; j++)
            w[h][j] = exp(w[h][j] - top) / z;
    }
    near(w[0][11], 1.75072734e-04, 2e-8);
    near(w[0][23], 9.99824927e-01, 2e-6);
    near(w[2][30], 0.19568002, 2e-6);
    near(w[5][50], 0.24969272, 2e-6);
    for (int j = 0; j < N; j++) {
        assert_true(w[2][j] <= w[2][30]);
        assert_true(w[5][j] <= w[5][50]);
    }
    OK(kva_kvstore_gather(kva_session_store(s), 1, 0, k, NULL, err));
    for (int i = 0; i < 5; i++) {
        double n2 = 0;

        for (int d = 0; d < 64; d++)
            n2 += (double)k[norm_at[i] * 64 + d] * (double)k[norm_at[i] * 64 + d];
        near(sqrt(n2), norm[i], 2e-5);
    }
    free(k);
    free(l);
    kva_session_free(s);
    kva_model_close(m);
}

/* Row 4 again: the residual stream before the output norm, through the layer seam. */
static void row_4_has_the_residual_of_section_7(void **state)
{
    enum { N = LEN(ROW_1) };
    static const double dn[4] = {0.763760, -0.361726, -0.708520, -0.697308},
                        dv[4] = {-0.042380, 0.492134, 1.034088, 0.042961};
    struct kva_model *m = open_model("builtin:retrieval", "ref");
    struct kva_session *s = open_session(m, KVA_F32, 0);
    struct kva_step_state *st;
    struct kva_row rows[N];

    (void)state;
    for (int i = 0; i < N; i++)
        rows[i] = (struct kva_row){.session = s,
                                   .token = i == 8 ? 19296 : ROW_1[i],
                                   .logits = i == N - 1,
                                   .target = -1};
    OK(kva_step_begin(m, rows, N, &st, err));
    OK(kva_step_layer(st, 0, err));
    OK(kva_step_layer(st, 1, err));
    for (int i = 0; i < 4; i++) {
        near((double)st->x[(N - 1) * 256 + 160 + i], dn[i], 1e-5);
        near((double)st->x[(N - 1) * 256 + 208 + i], dv[i], 1e-5);
    }
    OK(kva_step_end(st, NULL, err));
    assert_int_equal(rows[N - 1].argmax, 9165);
    kva_session_free(s);
    kva_model_close(m);
}

/* ---- through the tokenizer
 * ------------------------------------------------------------------- */

static void
texts_of_rows_1_and_2_encode_to_the_ids_and_decode_to_the_answers(void **state)
{
    static const struct {
        const char *context, *question, *prefix, *answer;
        const int32_t *ids;
        int n, n_context;
        int32_t out[2];
        size_t n_out;
    } c[] = {
        {CONTEXT_1, QUESTION_1, PREFIX_1, "7300215", ROW_1, LEN(ROW_1), 25, {9165, 0}, 1},
        {CONTEXT_2,
         QUESTION_2,
         "",
         "DKYRX QHOAH",
         ROW_2,
         LEN(ROW_2),
         24,
         {12897, 13456},
         2},
    };
    struct kva_model *m = open_model("builtin:retrieval", "f32");

    (void)state;
    assert_string_equal(kva_model_chat(m)->family, "none");
    assert_true(kva_tokenizer_add_bos(kva_model_tokenizer(m)));
    assert_int_equal(kva_tokenizer_bos(kva_model_tokenizer(m)), 0);
    assert_true(kva_tokenizer_is_eog(kva_model_tokenizer(m), 1));
    assert_int_equal(kva_tokenizer_size(kva_model_tokenizer(m)), 32768);
    for (int i = 0; i < 2; i++) {
        struct kva_tokenizer *t = NULL;
        struct kva_tokens out = {0};
        struct kva_buf text, question;

        kva_buf_init(&text, 0);
        kva_buf_init(&question, 0);
        kva_buf_printf(&question, "%s%s", c[i].question, c[i].prefix);
        OK(kva_tokenizer_clone(kva_model_tokenizer(m), &t, err));
        OK(kva_tokenizer_encode(t, c[i].context, strlen(c[i].context), false, &out, err));
        assert_int_equal(out.n, c[i].n_context - 1);
        OK(kva_tokenizer_encode(t, question.data, question.len, false, &out, err));
        assert_int_equal(out.n, c[i].n - 1);
        for (int j = 1; j < c[i].n; j++)
            assert_int_equal(out.id[j - 1], c[i].ids[j]);
        OK(kva_tokenizer_decode(t, c[i].out, c[i].n_out, &text, err));
        assert_string_equal(text.data, c[i].answer);
        kva_tokens_release(&out);
        kva_buf_release(&text);
        kva_buf_release(&question);
        kva_tokenizer_free(t);
    }
    kva_model_close(m);
}

/* ---- eviction and mistakes
 * --------------------------------------------------------------------- */

/* Keeps of the context only what `keep_it` says; returns the first answer token of row 1.
 */
static int32_t answer_with(struct kva_model *m,
                           bool (*keep_it)(int layer, int head, int rank))
{
    enum { CONTEXT = 25 };
    struct kva_session *s = open_session(m, KVA_F16, 0), *f = NULL;
    int32_t rank[4 * CONTEXT];
    size_t off[5] = {0}, n = 0;
    struct kva_row last;

    for (int c = 0; c < 4; c++) {
        for (int r = 0; r < CONTEXT; r++)
            if (keep_it(c / 2, c % 2, r))
                rank[n++] = r;
        off[c + 1] = n;
    }
    OK(kva_prefill(m, s, ROW_1, CONTEXT, 0, NULL, err));
    OK(kva_session_fork(
        s, &(struct kva_keep){.layers = 2, .kv_heads = 2, .rank = rank, .off = off},
        &(struct kva_session_opts){.kv = KVA_F16, .page_cap = 64}, &f, err));
    OK(kva_prefill(m, f, ROW_1 + CONTEXT, LEN(ROW_1) - CONTEXT, 0, &last, err));
    kva_session_free(s);
    kva_session_free(f);
    return last.argmax;
}

static bool all_but_the_value(int layer, int head, int rank)
{
    return !(layer == 1 && head == 0 && rank == 23);
}

static bool the_value_alone(int layer, int head, int rank)
{
    /* every KV head must hold something: an unrelated token elsewhere */
    return layer == 1 && head == 0 ? rank == 23 : rank == 1;
}

static bool everything(int layer, int head, int rank)
{
    (void)layer;
    (void)head;
    (void)rank;
    return true;
}

static void the_answer_hangs_on_one_entry(void **state)
{
    struct kva_model *m = open_model("builtin:retrieval", "f32");

    (void)state;
    assert_int_equal(answer_with(m, everything), 9165);
    assert_int_equal(answer_with(m, all_but_the_value), 1); /* an empty answer */
    assert_int_equal(answer_with(m, the_value_alone), 9165);
    kva_model_close(m);
}

/* ---- a haystack of about 700 tokens
 * -------------------------------------------------------- */

struct haystack {
    struct kva_tokens context, question;
    int value; /* rank of the needle's value in the context, BOS included */
    int32_t answer;
};

/* Repeated sentences with one needle `depth` sentences in; ids start with BOS. */
static void make_haystack(struct kva_model *m, int depth, struct haystack *h)
{
    struct kva_tokenizer *t = NULL;
    struct kva_buf text;

    memset(h, 0, sizeof *h);
    kva_buf_init(&text, 0);
    for (int i = 0; i < 150; i++) {
        static const char *const s[] = {"The grass is green.", "The sky is blue.",
                                        "The sun is yellow.", "Here we go.",
                                        "There and back again."};

        if (i == depth)
            kva_buf_puts(
                &text, "One of the special magic numbers for quiet-anvil is: 7300215. ");
        kva_buf_printf(&text, "%s ", s[i % 5]);
    }
    OK(kva_tokenizer_clone(kva_model_tokenizer(m), &t, err));
    OK(kva_tokenizer_encode(t, text.data, text.len, false, &h->context, err));
    kva_buf_release(&text);
    kva_buf_init(&text, 0);
    kva_buf_printf(&text, "%s%s", QUESTION_1, PREFIX_1);
    OK(kva_tokenizer_encode(t, text.data, text.len, false, &h->question, err));
    kva_buf_release(&text);
    kva_tokenizer_free(t);
    h->answer = 9165;
    for (size_t i = 0; i < h->context.n; i++)
        if (h->context.id[i] == h->answer)
            h->value = (int)i + 1;
    assert_true(h->value > 0);
}

static struct kva_session *read_haystack(struct kva_model *m, const struct haystack *h)
{
    struct kva_session *s = open_session(m, KVA_F16, 64);
    int32_t bos = 0;

    OK(kva_prefill(m, s, &bos, 1, 0, NULL, err));
    OK(kva_prefill(m, s, h->context.id, (int)h->context.n, 0, NULL, err));
    return s;
}

static int32_t ask(struct kva_model *m, struct kva_session *s, const struct haystack *h)
{
    struct kva_row last;

    OK(kva_prefill(m, s, h->question.id, (int)h->question.n, 0, &last, err));
    return last.argmax;
}

/* Random keep 25 %: right exactly when (layer 1, KV 0, value) survived, run by run. */
static void a_random_quarter_answers_exactly_when_the_entry_survived(void **state)
{
    enum { RUNS = 60 };
    struct kva_model *m = open_model("builtin:retrieval", "f32");
    int right = 0, kept = 0;

    (void)state;
    for (int depth = 10; depth < 150; depth += 60) {
        struct haystack h;
        struct kva_session *s;
        int n;

        make_haystack(m, depth, &h);
        s = read_haystack(m, &h);
        n = kva_session_seen(s);
        assert_true(n > 600 && n < 800);
        for (uint64_t run = 0; run < RUNS / 3; run++) {
            struct kva_rng r = {.x = run * 977 + (uint64_t)depth};
            struct kva_session *f = NULL;
            int32_t *rank = calloc((size_t)n * 4, sizeof *rank), got;
            size_t off[5] = {0}, at = 0;
            bool survived = false;

            assert_non_null(rank);
            for (int c = 0; c < 4; c++) {
                for (int i = 0; i < n; i++)
                    if (kva_rng_below(&r, 4) == 0) {
                        survived |= c == 2 && i == h.value;
                        rank[at++] = i;
                    }
                off[c + 1] = at;
            }
            OK(kva_session_fork(
                s,
                &(struct kva_keep){.layers = 2, .kv_heads = 2, .rank = rank, .off = off},
                &(struct kva_session_opts){.kv = KVA_F16, .page_cap = 400}, &f, err));
            got = ask(m, f, &h);
            assert_int_equal(got == h.answer, survived);
            right += got == h.answer;
            kept += survived;
            kva_session_free(f);
            free(rank);
        }
        kva_session_free(s);
        kva_tokens_release(&h.context);
        kva_tokens_release(&h.question);
    }
    assert_int_equal(right, kept);
    assert_true(right > 3 && right < 30); /* a quarter of 60, give or take */
    kva_model_close(m);
}

/* Cut after the question was read (aware), SnapKV keeps the needle with 80 entries a
 * head. */
static void aware_snapkv_with_80_entries_is_always_right(void **state)
{
    struct kva_model *m = open_model("builtin:retrieval", "f32");
    struct kva_schedule oneshot = {.kind = KVA_ONESHOT};
    struct kva_method method;

    (void)state;
    OK(kva_method_parse("snapkv:window=64", &oneshot, &method, err));
    for (int depth = 5; depth < 150; depth += 29) {
        struct kva_decide_in in = {0};
        struct kva_scores scores = {0};
        struct kva_decision d = {0};
        struct haystack h;
        struct kva_session *s;
        struct kva_row last;

        make_haystack(m, depth, &h);
        s = read_haystack(m, &h);
        OK(kva_prefill(m, s, h.question.id, (int)h.question.n - 1, 0, NULL, err));
        kva_session_decide_in(s, &in);
        in.block_len = kva_session_seen(s);
        OK(kva_method_score(&method, &in, &scores, NULL, err));
        OK(kva_method_select(&method, &scores, NULL, 4 * 80, &d, err));
        assert_int_equal(d.total, 4 * 80);
        OK(kva_kvstore_keep(kva_session_store(s), &d.keep, err));
        OK(kva_prefill(m, s, h.question.id + h.question.n - 1, 1, 0, &last, err));
        assert_int_equal(last.argmax, h.answer);
        kva_decision_release(&d);
        kva_scores_release(&scores);
        kva_session_free(s);
        kva_tokens_release(&h.context);
        kva_tokens_release(&h.question);
    }
    kva_model_close(m);
}

static void another_rotary_base_destroys_the_answer(void **state)
{
    struct kva_model *m = NULL;
    struct kva_session *s;
    struct kva_row last;

    (void)state;
    OK(kva_model_retrieval(1e4, &(struct kva_model_opts){.numerics = "f32"}, &m, err));
    s = open_session(m, KVA_F16, 0);
    OK(kva_prefill(m, s, ROW_1, LEN(ROW_1), 0, &last, err));
    assert_int_not_equal(last.argmax, 9165);
    kva_session_free(s);
    kva_model_close(m);
}

/* No FFN (its norm zeroed), and norm weights ignored (all ones): section 7's broken
 * models. */
static void a_model_without_ffn_or_norm_weights_does_not_answer(void **state)
{
    static const float zero[256];
    float one[256];

    (void)state;
    for (int i = 0; i < 256; i++)
        one[i] = 1.0f;
    for (int broken = 0; broken < 3; broken++) {
        struct kva_model *m = open_model("builtin:retrieval", "f32");
        struct kva_session *s = open_session(m, KVA_F16, 0);
        struct kva_row last;

        if (broken == 1)
            m->arch.layer[1].ffn_norm = zero;
        for (int l = 0; broken == 2 && l < 2; l++)
            m->arch.layer[l].attn_norm = m->arch.layer[l].ffn_norm = one;
        OK(kva_prefill(m, s, ROW_1, LEN(ROW_1), 0, &last, err));
        assert_int_equal(last.argmax == 9165, broken == 0);
        kva_session_free(s);
        kva_model_close(m);
    }
}

static void the_model_says_what_it_is(void **state)
{
    struct kva_model *m = open_model("builtin:retrieval", "f32");
    const struct kva_model_info *i = kva_model_info(m);
    uint8_t a[32], b[32];

    (void)state;
    assert_string_equal(i->arch, "llama");
    assert_string_equal(i->name, "builtin:retrieval");
    assert_int_equal(i->layers, 2);
    assert_int_equal(i->dim, 256);
    assert_int_equal(i->heads, 6);
    assert_int_equal(i->kv_heads, 2);
    assert_int_equal(i->head_dim, 64);
    assert_int_equal(i->vocab, 32768);
    assert_int_equal(i->ctx_train, 131072);
    assert_true(kva_model_score_scale(m) == 0.125f);
    OK(kva_model_sha256(m, a, err));
    OK(kva_model_sha256(m, b, err));
    assert_memory_equal(a, b, 32);
    assert_memory_equal(a, i->sha256, 32);
    kva_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_have_the_sums_of_section_4),
        cmocka_unit_test(codes_have_the_values_of_section_3),
        cmocka_unit_test(rows_1_to_3_hold_in_ref),
        cmocka_unit_test(rows_1_to_3_hold_in_f32_with_f32_and_f16_cache),
        cmocka_unit_test(row_1_has_its_sum_and_row_8_its_maximum),
        cmocka_unit_test(row_4_has_graded_attention),
        cmocka_unit_test(row_4_has_the_residual_of_section_7),
        cmocka_unit_test(
            texts_of_rows_1_and_2_encode_to_the_ids_and_decode_to_the_answers),
        cmocka_unit_test(the_answer_hangs_on_one_entry),
        cmocka_unit_test(a_random_quarter_answers_exactly_when_the_entry_survived),
        cmocka_unit_test(aware_snapkv_with_80_entries_is_always_right),
        cmocka_unit_test(another_rotary_base_destroys_the_answer),
        cmocka_unit_test(a_model_without_ffn_or_norm_weights_does_not_answer),
        cmocka_unit_test(the_model_says_what_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
