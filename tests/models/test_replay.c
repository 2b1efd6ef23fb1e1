/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_replay.c - a context repeated in chunks: what is fed, and the largest weights,
 * against softmax rows made here from a session that really read context and replay. */
#include "models/replay.h"

#include "tests/models/engine_test.h"

enum { N = 90, PREFIX = 7, START = 3 };

static const struct kva_collect PLAIN = {.kind = KVA_COLLECT_REPLAY,
                                         .chunk = 50,
                                         .start = START},
                                PLUS = {.kind = KVA_COLLECT_REPLAY,
                                        .chunk = 50,
                                        .start = START,
                                        .plus = true};

static struct kva_session *session(struct kva_model *m, int32_t *ids, int window)
{
    const struct kva_collect wants[] = {PLAIN, PLUS};
    struct kva_session *s = NULL;

    for (int i = 0; i < N; i++)
        ids[i] = tiny_token(i);
    OK(kva_session_new(m,
                       &(struct kva_session_opts){.kv = KVA_F32,
                                                  .page_cap = 16384,
                                                  .q_window = window,
                                                  .collect = wants,
                                                  .n_collect = 2},
                       &s, err));
    feed(m, s, ids, N, 32, NULL);
    return s;
}

/* Two chunks of a context whose first PREFIX tokens are in none. */
static struct kva_replay replay_of(const int32_t *ids)
{
    struct kva_replay r = {.chunk = calloc(2, sizeof *r.chunk), .n = 2};

    for (int i = 0; i < 2; i++) {
        struct kva_replay_chunk *c = &r.chunk[i];

        c->from = i == 0 ? PREFIX : PREFIX + 50;
        c->to = i == 0 ? PREFIX + 50 : N;
        c->n = 5 + c->to - c->from;
        c->ids = calloc((size_t)c->n, sizeof *c->ids);
        for (int j = 0; j < c->n; j++)
            c->ids[j] = j < 5 ? 200 + j : ids[c->from + j - 5];
    }
    return r;
}

/* || attention input || of each of n rows is not to be had from outside a step; a tap of
 * our own takes it down. */
struct inputs {
    int dim, layer, rows, n; /* rows seen in this layer, rows of a step */
    double *norm;            /* [layers][n] */
};

static void note(void *ctx, const float *h, const float *q, const int32_t *pos, int n)
{
    struct inputs *in = ctx;

    (void)q;
    (void)pos;
    for (int i = 0; i < n; i++) {
        double sum = 0;

        for (int x = 0; x < in->dim; x++)
            sum += (double)h[i * in->dim + x] * (double)h[i * in->dim + x];
        in->norm[in->layer * in->n + in->rows++] = sqrt(sum);
        if (in->rows == in->n) {
            in->rows = 0;
            in->layer++;
        }
    }
}

/* W_O^a v in double, its L2 norm. */
static double projected(struct kva_model *m, int layer, int a, const float *v)
{
    const struct kva_arch *arch = &m->arch;
    float *x = calloc((size_t)(arch->heads * arch->v_dim), sizeof *x);
    float *y = calloc((size_t)arch->dim, sizeof *y);
    double sum = 0;

    memcpy(x + a * arch->v_dim, v, (size_t)arch->v_dim * sizeof *x);
    m->ops->matmul(m->ops, arch->layer[layer].o, x, 1, y, arch->dim);
    for (int i = 0; i < arch->dim; i++)
        sum += (double)y[i] * (double)y[i];
    free(x);
    free(y);
    return sqrt(sum);
}

/* Reads the chunk behind the context in a second session and compares all its sums. */
static void compare(struct kva_model *m, const int32_t *ids,
                    const struct kva_replay_chunk *c, struct kva_session *scored,
                    const struct kva_collect *want)
{
    const struct kva_arch *a = &m->arch;
    const int all = N + c->n, d = a->head_dim, group = a->heads / a->kv_heads;
    struct kva_session *s = open_session(m, KVA_F32, c->n);
    struct inputs in = {.dim = a->dim,
                        .n = c->n,
                        .norm = calloc((size_t)(a->layers * c->n), sizeof *in.norm)};
    const struct kva_tap tap = {note, &in};
    struct kva_row *rows = calloc((size_t)c->n, sizeof *rows);
    float *k = calloc((size_t)(all * d), sizeof *k),
          *v = calloc((size_t)(all * a->v_dim), sizeof *v);
    double *w = calloc((size_t)all, sizeof *w), *best = calloc(N, sizeof *best);
    struct kva_decide_in q = {0}, side = {0};

    feed(m, s, ids, N, 64, NULL);
    s->tap = &tap;
    for (int i = 0; i < c->n; i++)
        rows[i] = (struct kva_row){.session = s, .token = c->ids[i], .target = -1};
    OK(kva_step(m, rows, c->n, NULL, err));
    s->tap = NULL;
    kva_session_decide_in(s, &q);
    kva_session_decide_in(scored, &side);
    for (int l = 0; l < a->layers; l++) {
        const float *qs, *got = side.side(side.side_ctx, want, l);
        const int32_t *q_pos;

        assert_non_null(got);
        assert_int_equal(q.queries(q.queries_ctx, l, &qs, &q_pos), c->n);
        for (int h = 0; h < a->kv_heads; h++) {
            OK(kva_kvstore_gather(s->store, l, h, k, v, err));
            memset(best, 0, N * sizeof *best);
            for (int i = 0; i < c->n; i++)
                for (int x = h * group; x < (h + 1) * group; x++) {
                    double sum = 0;

                    for (int j = 0; j < all; j++) {
                        double z = 0;

                        w[j] = 0;
                        if (!(j < START || (j >= c->from && j < c->to) ||
                              (j >= N && j <= N + i)))
                            continue;
                        for (int y = 0; y < d; y++)
                            z += (double)qs[(i * a->heads + x) * d + y] *
                                 (double)k[j * d + y];
                        sum += w[j] = exp(z * (double)a->score_scale);
                    }
                    for (int j = c->from; j < c->to; j++) {
                        double s_j = w[j] / sum;

                        if (want->plus)
                            s_j *= projected(m, l, x, v + j * a->v_dim) /
                                   in.norm[l * c->n + i];
                        best[j] = s_j > best[j] ? s_j : best[j];
                    }
                }
            for (int j = c->from; j < c->to; j++)
                if (!(fabs((double)got[h * N + j] - best[j]) <= 1e-4 * best[j] + 1e-9))
                    fail_msg("layer %d head %d entry %d: %.9g instead of %.9g", l, h, j,
                             (double)got[h * N + j], best[j]);
        }
    }
    kva_session_free(s);
    free(in.norm);
    free(rows);
    free(k);
    free(v);
    free(w);
    free(best);
}

static void check_want(const struct kva_collect *want)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    int32_t ids[N];
    struct kva_session *s = session(m, ids, 0);
    struct kva_replay r = replay_of(ids);
    struct kva_decide_in in = {0};
    uint64_t scratch = 0;

    kva_session_decide_in(s, &in);
    assert_null(in.side(in.side_ctx, want, 0)); /* nothing is set: nothing is read */
    OK(kva_replay(m, s, want, &r, &scratch, err));
    assert_true(scratch > (uint64_t)(N * m->arch.layers * m->arch.kv_heads) * 4);
    for (int i = 0; i < r.n; i++)
        compare(m, ids, &r.chunk[i], s, want);
    for (int l = 0; l < m->arch.layers; l++) {
        const float *got = in.side(in.side_ctx, want, l);

        for (int h = 0; h < m->arch.kv_heads; h++)
            for (int j = 0; j < PREFIX; j++)
                assert_true(got[h * N + j] < 0);
    }
    kva_replay_release(&r);
    kva_session_free(s);
    kva_model_close(m);
}

static void scores_are_the_largest_weights_of_the_replay(void **state)
{
    (void)state;
    check_want(&PLAIN);
}

static void plus_divides_by_the_input_and_multiplies_by_the_projected_value(void **state)
{
    (void)state;
    check_want(&PLUS);
}

static void the_session_goes_on_as_if_nothing_had_been_repeated(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    int32_t ids[N];
    struct kva_session *s = session(m, ids, 16), *other = session(m, ids, 16);
    struct kva_replay r = replay_of(ids);
    float *x = new_logits(m, 4), *y = new_logits(m, 4);

    (void)state;
    OK(kva_replay(m, s, &PLAIN, &r, NULL, err));
    assert_int_equal(kva_session_seen(s), N);
    assert_int_equal(s->n_collect, 2);
    assert_memory_equal(s->q, other->q,
                        (size_t)(m->arch.layers * 16 * m->arch.heads * m->arch.head_dim) *
                            sizeof *s->q);
    feed(m, s, ids, 4, 4, x);
    feed(m, other, ids, 4, 4, y);
    assert_memory_equal(x, y, 4 * TINY_VOCAB * sizeof *x);
    free(x);
    free(y);
    kva_replay_release(&r);
    kva_session_free(s);
    kva_session_free(other);
    kva_model_close(m);
}

static void what_cannot_be_repeated_is_refused(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    int32_t ids[N];
    struct kva_session *s = session(m, ids, 0);
    struct kva_replay r = replay_of(ids);
    const struct kva_collect other = {.kind = KVA_COLLECT_REPLAY, .chunk = 9};
    struct kva_error e = {0};
    int c = m->arch.layers * m->arch.kv_heads;
    struct kva_keep keep = {.layers = m->arch.layers, .kv_heads = m->arch.kv_heads};

    (void)state;
    assert_int_equal(kva_replay(m, s, &other, &r, NULL, &e), KVA_EINVALID);
    r.chunk[1].to = N + 1;
    e = (struct kva_error){0};
    assert_int_equal(kva_replay(m, s, &PLAIN, &r, NULL, &e), KVA_EINVALID);
    r.chunk[1].to = N;
    keep.off = calloc((size_t)c + 1, sizeof *keep.off);
    keep.rank = calloc((size_t)c, sizeof *keep.rank);
    for (int i = 0; i < c; i++)
        keep.off[i + 1] = keep.off[i] + 1;
    OK(kva_session_keep(s, &keep, err));
    e = (struct kva_error){0};
    assert_int_equal(kva_replay(m, s, &PLAIN, &r, NULL, &e), KVA_EINVALID);
    kva_keep_release(&keep);
    kva_replay_release(&r);
    kva_session_free(s);
    kva_model_close(m);
}

/* Every byte of tiny-llama's prompts is a token. */
static void a_context_is_fed_chunk_by_chunk(void **state)
{
    const char *text = "abcdefghijklmnopqrstuvwxyz";
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_prompt p;
    struct kva_question suffix;
    struct kva_tokens first = {0}, later = {0};
    struct kva_replay r;
    struct kva_tokenizer *tok = NULL;
    size_t tail;

    (void)state;
    OK(kva_prompt_context(m, NULL, text, strlen(text), &p, err));
    OK(kva_prompt_question(m, NULL, &p, "", "", &suffix, err));
    OK(kva_tokenizer_clone(p.tok, &tok, err));
#define TOKENS(t, out) OK(kva_tokenizer_encode(tok, t, strlen(t), false, out, err))
    TOKENS("\n\nRepeat the previous context exactly.", &first);
    TOKENS("\n\nRepeat the part of the previous context exactly, starting with", &later);
    OK(kva_replay_ids(m, NULL, &p, p.context.id, (int)p.context.n, 10, &r, err));
    assert_int_equal(r.n, ((int)p.context.n - r.chunk[0].from + 9) / 10);
    assert_int_equal(r.chunk[0].n, first.n + suffix.ids.n + 10);
    assert_memory_equal(r.chunk[0].ids, first.id, first.n * sizeof(int32_t));
    assert_memory_equal(r.chunk[0].ids + first.n + suffix.ids.n,
                        p.context.id + r.chunk[0].from, 10 * sizeof(int32_t));
    for (int i = 1; i < r.n; i++) {
        const struct kva_replay_chunk *c = &r.chunk[i];

        assert_int_equal(c->from, r.chunk[i - 1].to);
        assert_int_equal(c->n, (int)(later.n + 8 + suffix.ids.n) + c->to - c->from);
        assert_memory_equal(c->ids, later.id, later.n * sizeof(int32_t));
        assert_memory_equal(c->ids + later.n, p.context.id + c->from - 8,
                            8 * sizeof(int32_t));
        tail = later.n + 8 + suffix.ids.n;
        assert_memory_equal(c->ids + tail, p.context.id + c->from,
                            (size_t)(c->to - c->from) * sizeof(int32_t));
    }
    assert_int_equal(r.chunk[r.n - 1].to, p.context.n);
    kva_replay_release(&r);
    OK(kva_replay_ids(m, NULL, &p, p.context.id, 0, 10, &r, err));
    assert_int_equal(r.n, 0);
    kva_tokens_release(&first);
    kva_tokens_release(&later);
    kva_tokenizer_free(tok);
    kva_question_release(&suffix);
    kva_prompt_release(&p);
    kva_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_the_largest_weights_of_the_replay),
        cmocka_unit_test(plus_divides_by_the_input_and_multiplies_by_the_projected_value),
        cmocka_unit_test(the_session_goes_on_as_if_nothing_had_been_repeated),
        cmocka_unit_test(what_cannot_be_repeated_is_refused),
        cmocka_unit_test(a_context_is_fed_chunk_by_chunk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
