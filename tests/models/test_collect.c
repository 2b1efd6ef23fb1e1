/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_collect.c - sums over the prompt and what a model lends, against sums made here
 * from the session's own keys and queries in double precision. */
#include "tests/models/engine_test.h"

enum { N = 300 };

static int32_t ids[N];

static void near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%.9g, wanted %.9g within %g", got, want, tolerance);
}

static const struct kva_collect COLUMNS = {.kind = KVA_COLLECT_COLUMNS},
                                RESTART = {.kind = KVA_COLLECT_COLUMNS, .restart = true},
                                CHUNKS = {.kind = KVA_COLLECT_CHUNKS,
                                          .chunk = 50,
                                          .start = 8},
                                QUERIES = {.kind = KVA_COLLECT_QUERIES, .start = 4};

static struct kva_session *collecting(struct kva_model *m, int window)
{
    const struct kva_collect wants[] = {COLUMNS, RESTART, CHUNKS, QUERIES};
    struct kva_session *s = NULL;

    for (int i = 0; i < N; i++)
        ids[i] = tiny_token(i);
    OK(kva_session_new(m,
                       &(struct kva_session_opts){.kv = KVA_F32,
                                                  .page_cap = 16384,
                                                  .q_window = window,
                                                  .collect = wants,
                                                  .n_collect = 4},
                       &s, err));
    return s;
}

struct state {
    const struct kva_arch *a;
    int n, layer;
    const float *q; /* [n][heads * head_dim] */
    const int32_t *q_pos;
    float *k; /* [kv_heads][n][head_dim] */
    int32_t *pos;
    struct kva_decide_in in;
};

/* All queries and the live keys of a layer of a session whose window holds everything. */
static struct state read_layer(struct kva_session *s, int layer)
{
    const struct kva_arch *a = &s->m->arch;
    struct state t = {.a = a, .layer = layer};

    memset(&t.in, 0, sizeof t.in);
    kva_session_decide_in(s, &t.in);
    t.n = kva_kvstore_live(s->store, layer, 0);
    assert_int_equal(t.in.queries(t.in.queries_ctx, layer, &t.q, &t.q_pos), s->seen);
    t.k = calloc((size_t)a->kv_heads * (size_t)t.n * (size_t)a->head_dim, sizeof *t.k);
    t.pos = calloc((size_t)t.n, sizeof *t.pos);
    for (int h = 0; h < a->kv_heads; h++)
        OK(kva_kvstore_gather(s->store, layer, h, t.k + (size_t)h * t.n * a->head_dim,
                              NULL, err));
    kva_kvstore_positions(s->store, layer, 0, t.pos);
    return t;
}

static void release(struct state *t)
{
    free(t->k);
    free(t->pos);
}

/* softmax weights of query row i, head h over the keys [lo, hi) with pos <= limit */
static void weights(const struct state *t, int i, int head, int lo, int hi, int32_t limit,
                    double scale, double *w)
{
    const int d = t->a->head_dim, g = head / (t->a->heads / t->a->kv_heads);
    const float *q = t->q + (size_t)i * (size_t)(t->a->heads * d) + head * d;
    double top = -1e300, sum = 0;

    for (int j = lo; j < hi; j++) {
        const float *k = t->k + ((size_t)g * t->n + j) * d;

        w[j] = -1e300;
        if (t->pos[j] > limit)
            continue;
        w[j] = 0;
        for (int x = 0; x < d; x++)
            w[j] += (double)q[x] * (double)k[x];
        w[j] *= scale;
        top = w[j] > top ? w[j] : top;
    }
    for (int j = lo; j < hi; j++)
        sum += w[j] = exp(w[j] - top);
    for (int j = lo; j < hi; j++)
        w[j] /= sum;
}

static void column_sums_equal_the_attention_of_all_queries(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *s = collecting(m, N);
    double *w = calloc(N, sizeof *w), *want = calloc(N, sizeof *want);

    (void)state;
    feed(m, s, ids, N, 64, NULL);
    for (int layer = 0; layer < m->arch.layers; layer++) {
        struct state t = read_layer(s, layer);
        const float *got = t.in.side(t.in.side_ctx, &COLUMNS, layer);

        assert_non_null(got);
        for (int h = 0; h < m->arch.kv_heads; h++) {
            int group = m->arch.heads / m->arch.kv_heads;

            memset(want, 0, N * sizeof *want);
            for (int i = 0; i < N; i++)
                for (int a = h * group; a < (h + 1) * group; a++) {
                    weights(&t, i, a, 0, N, t.q_pos[i], (double)m->arch.score_scale, w);
                    for (int j = 0; j < N; j++)
                        want[j] += w[j];
                }
            for (int j = 0; j < N; j++)
                near((double)got[h * N + j], want[j], 2e-4 * (1 + want[j]));
        }
        release(&t);
    }
    free(w);
    free(want);
    kva_session_free(s);
    kva_model_close(m);
}

static void chunk_sums_see_the_whole_chunk_and_nothing_else(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *s = collecting(m, N);
    double *w = calloc(N, sizeof *w), *want = calloc(N, sizeof *want);
    int group = m->arch.heads / m->arch.kv_heads;

    (void)state;
    feed(m, s, ids, N, 64, NULL);
    for (int layer = 0; layer < m->arch.layers; layer++) {
        struct state t = read_layer(s, layer);
        const float *got = t.in.side(t.in.side_ctx, &CHUNKS, layer);

        for (int h = 0; h < m->arch.kv_heads; h++) {
            memset(want, 0, N * sizeof *want);
            for (int lo = 8; lo < N; lo += 50) {
                int hi = lo + 50 < N ? lo + 50 : N;

                for (int i = lo; i < hi; i++)
                    for (int a = h * group; a < (h + 1) * group; a++) {
                        weights(&t, i, a, lo, hi, INT32_MAX, 1.0, w);
                        for (int j = lo; j < hi; j++)
                            want[j] += w[j] / group;
                    }
            }
            for (int j = 0; j < N; j++)
                near((double)got[h * N + j], want[j], 2e-4 * (1 + want[j]));
        }
        release(&t);
    }
    free(w);
    free(want);
    kva_session_free(s);
    kva_model_close(m);
}

/* A short last chunk with zeros filled up: every row has that many more weights of
 * exp(0), and every zero row gives each entry an even share. */
static void a_padded_chunk_counts_zero_keys_and_zero_queries(void **state)
{
    const struct kva_collect pad = {.kind = KVA_COLLECT_CHUNKS, .chunk = 50, .pad = true},
                             bare = {.kind = KVA_COLLECT_CHUNKS, .chunk = 50};
    const struct kva_collect wants[] = {pad, bare};
    enum { SHORT = 70, EXTRA = 30 };
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *s = NULL;
    int group = m->arch.heads / m->arch.kv_heads;
    double *want = calloc(SHORT, sizeof *want);

    (void)state;
    for (int i = 0; i < N; i++)
        ids[i] = tiny_token(i);
    OK(kva_session_new(m,
                       &(struct kva_session_opts){.kv = KVA_F32,
                                                  .page_cap = 16384,
                                                  .q_window = SHORT,
                                                  .collect = wants,
                                                  .n_collect = 2},
                       &s, err));
    feed(m, s, ids, SHORT, 64, NULL);
    for (int layer = 0; layer < m->arch.layers; layer++) {
        struct state t = read_layer(s, layer);
        const float *got = t.in.side(t.in.side_ctx, &pad, layer), *first;
        const int d = m->arch.head_dim;

        for (int h = 0; h < m->arch.kv_heads; h++) {
            for (int j = 50; j < SHORT; j++)
                want[j] = (double)EXTRA / 50;
            for (int i = 50; i < SHORT; i++)
                for (int a = h * group; a < (h + 1) * group; a++) {
                    double w[SHORT], sum = EXTRA;

                    for (int j = 50; j < SHORT; j++) {
                        w[j] = 0;
                        for (int x = 0; x < d; x++)
                            w[j] += (double)t.q[(i * m->arch.heads + a) * d + x] *
                                    (double)t.k[(h * SHORT + j) * d + x];
                        sum += w[j] = exp(w[j]);
                    }
                    for (int j = 50; j < SHORT; j++)
                        want[j] += w[j] / sum / group;
                }
            for (int j = 50; j < SHORT; j++)
                near((double)got[h * SHORT + j], want[j], 2e-4 * (1 + want[j]));
            for (int j = 0; j < 50; j++) /* whole chunks are as they are */
                want[j] = (double)got[h * SHORT + j];
            first = t.in.side(t.in.side_ctx, &bare, layer);
            for (int j = 0; j < 50; j++)
                near((double)first[h * SHORT + j], want[j], 0);
            got = t.in.side(t.in.side_ctx, &pad, layer);
        }
        release(&t);
    }
    free(want);
    kva_session_free(s);
    kva_model_close(m);
}

static void query_statistics_are_those_before_the_rotation(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *s = collecting(m, N);
    const struct kva_arch *a = &m->arch;
    const int d = a->head_dim;

    (void)state;
    feed(m, s, ids, N, 64, NULL);
    for (int layer = 0; layer < a->layers; layer++) {
        struct state t = read_layer(s, layer);
        const struct kva_query_stats *st =
            t.in.query_stats(t.in.side_ctx, &QUERIES, layer);
        size_t off[2] = {0, N};

        assert_non_null(st);
        assert_int_equal(st->n, N - 4);
        for (int h = 0; h < a->heads; h++) {
            float *rows = calloc((size_t)N * (size_t)d, sizeof *rows);
            int32_t *back = calloc(N, sizeof *back);
            struct kva_rows r = {rows, off, 1, d};

            for (int i = 0; i < N; i++) {
                memcpy(rows + i * d, t.q + (size_t)i * (size_t)(a->heads * d) + h * d,
                       (size_t)d * sizeof *rows);
                back[i] = -t.q_pos[i];
            }
            t.in.lend->rotate(t.in.lend->ctx, layer, &r, back);
            for (int x = 0; x < d; x++) {
                double mean = 0, square = 0;

                for (int i = 4; i < N; i++)
                    mean += (double)rows[i * d + x];
                mean /= N - 4;
                near(st->mean[h * d + x], mean, 1e-4);
                for (int i = 4; i < N; i++)
                    square += (double)rows[i * d + x] * (double)rows[i * d + (x + 1) % d];
                square /= N - 4;
                near(st->cov[(h * d + x) * d + (x + 1) % d] +
                         st->mean[h * d + x] * st->mean[h * d + (x + 1) % d],
                     square, 1e-3);
            }
            free(rows);
            free(back);
        }
        release(&t);
    }
    kva_session_free(s);
    kva_model_close(m);
}

static void the_cut_of_the_prompt_changes_no_bit(void **state)
{
    const int cuts[] = {64, 1, 7, 50};
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *first = collecting(m, 0);
    size_t n = (size_t)N * (size_t)m->arch.kv_heads;

    (void)state;
    feed(m, first, ids, N, cuts[0], NULL);
    for (int c = 1; c < 4; c++) {
        struct kva_session *s = collecting(m, 0);
        const struct kva_collect wants[] = {COLUMNS, RESTART, CHUNKS};
        struct kva_decide_in a = {0}, b = {0};

        feed(m, s, ids, N, cuts[c], NULL);
        kva_session_decide_in(first, &a);
        kva_session_decide_in(s, &b);
        for (int layer = 0; layer < m->arch.layers; layer++)
            for (int w = 0; w < 3; w++) {
                const float *x = a.side(a.side_ctx, &wants[w], layer);
                const float *y = b.side(b.side_ctx, &wants[w], layer);

                assert_memory_equal(x, y, n * sizeof *x);
            }
        kva_session_free(s);
    }
    kva_session_free(first);
    kva_model_close(m);
}

static void sessions_of_one_step_sum_over_their_own_rows(void **state)
{
    enum { PART = 120, CUT = 30 };
    const struct kva_collect wants[] = {COLUMNS, CHUNKS};
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    const size_t n = (size_t)PART * (size_t)m->arch.kv_heads,
                 d = (size_t)m->arch.head_dim, heads = (size_t)m->arch.heads;
    struct kva_session *alone[2], *both[2];
    struct kva_row rows[2 * CUT];

    (void)state;
    for (int i = 0; i < 2; i++) {
        alone[i] = collecting(m, 0);
        both[i] = collecting(m, 0);
        feed(m, alone[i], ids + i * PART, PART, CUT, NULL);
    }
    for (int at = 0; at < PART; at += CUT) {
        for (int i = 0; i < 2 * CUT; i++)
            rows[i] = (struct kva_row){.session = both[i / CUT],
                                       .token = ids[i / CUT * PART + at + i % CUT],
                                       .target = -1};
        OK(kva_step(m, rows, 2 * CUT, NULL, err));
    }
    for (int i = 0; i < 2; i++) {
        struct kva_decide_in a = {0}, b = {0};

        kva_session_decide_in(alone[i], &a);
        kva_session_decide_in(both[i], &b);
        for (int layer = 0; layer < m->arch.layers; layer++) {
            const struct kva_query_stats *x, *y;

            for (int w = 0; w < 2; w++)
                assert_memory_equal(b.side(b.side_ctx, &wants[w], layer),
                                    a.side(a.side_ctx, &wants[w], layer),
                                    n * sizeof(float));
            x = a.query_stats(a.side_ctx, &QUERIES, layer);
            y = b.query_stats(b.side_ctx, &QUERIES, layer);
            assert_int_equal(y->n, x->n);
            assert_memory_equal(y->mean, x->mean, heads * d * sizeof *x->mean);
            assert_memory_equal(y->cov, x->cov, heads * d * d * sizeof *x->cov);
        }
        kva_session_free(alone[i]);
        kva_session_free(both[i]);
    }
    kva_model_close(m);
}

/* Every third entry of every KV head. */
static struct kva_keep thirds(const struct kva_model *m, int n)
{
    int c = m->arch.layers * m->arch.kv_heads, k = (n + 2) / 3;
    struct kva_keep keep = {.layers = m->arch.layers, .kv_heads = m->arch.kv_heads};

    keep.rank = calloc((size_t)(c * k), sizeof *keep.rank);
    keep.off = calloc((size_t)c + 1, sizeof *keep.off);
    for (int i = 0; i < c; i++) {
        keep.off[i + 1] = keep.off[i] + (size_t)k;
        for (int j = 0; j < k; j++)
            keep.rank[keep.off[i] + (size_t)j] = 3 * j;
    }
    return keep;
}

static void sums_follow_their_entries_through_evictions_and_copies(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *s = collecting(m, 0), *copy = NULL;
    struct kva_keep keep = thirds(m, 200);
    const struct kva_collect wants[] = {COLUMNS, RESTART};
    struct kva_decide_in in = {0}, in2 = {0};
    float *before = calloc((size_t)N * (size_t)m->arch.kv_heads, sizeof *before);
    struct kva_session *again = NULL;
    struct kva_error why = {0};
    const float *after;
    int k = (200 + 2) / 3;

    (void)state;
    feed(m, s, ids, 200, 64, NULL);
    kva_session_decide_in(s, &in);
    memcpy(before, in.side(in.side_ctx, &COLUMNS, 1),
           (size_t)(200 * m->arch.kv_heads) * sizeof *before);
    OK(kva_session_fork(
        s, &keep,
        &(struct kva_session_opts){
            .kv = KVA_F32, .page_cap = 16384, .collect = wants, .n_collect = 2},
        &copy, err));
    OK(kva_session_keep(s, &keep, err));
    kva_session_decide_in(copy, &in2);
    after = in.side(in.side_ctx, &COLUMNS, 1);
    for (int h = 0; h < m->arch.kv_heads; h++)
        for (int j = 0; j < k; j++)
            assert_true(after[h * k + j] == before[h * 200 + 3 * j]);
    assert_memory_equal(after, in2.side(in2.side_ctx, &COLUMNS, 1),
                        (size_t)(k * m->arch.kv_heads) * sizeof *after);
    /* one that begins anew has nothing yet, and both go on alike */
    after = in.side(in.side_ctx, &RESTART, 1);
    assert_true(after[0] == 0.0f && after[k - 1] == 0.0f);
    feed(m, s, ids + 200, 40, 13, NULL);
    feed(m, copy, ids + 200, 40, 40, NULL);
    after = in.side(in.side_ctx, &COLUMNS, 1);
    assert_memory_equal(after, in2.side(in2.side_ctx, &COLUMNS, 1),
                        (size_t)((k + 40) * m->arch.kv_heads) * sizeof *after);
    assert_true(after[0] > before[0]);
    /* rows that are rewound leave nothing behind */
    memcpy(before, after, (size_t)((k + 40) * m->arch.kv_heads) * sizeof *before);
    kva_session_collecting(s, false);
    feed(m, s, ids + 240, 20, 20, NULL);
    OK(kva_session_rewind(s, 240, err));
    kva_session_collecting(s, true);
    assert_memory_equal(in.side(in.side_ctx, &COLUMNS, 1), before,
                        (size_t)((k + 40) * m->arch.kv_heads) * sizeof *before);
    /* rows that did count cannot go back, but for those of a chunk that is still open */
    OK(kva_session_fork(
        s, NULL,
        &(struct kva_session_opts){
            .kv = KVA_F32, .page_cap = 16384, .collect = wants, .n_collect = 1},
        &again, err));
    feed(m, again, ids + 240, 10, 10, NULL);
    assert_int_equal(kva_session_rewind(again, 249, &why), KVA_EINVALID);
    kva_session_free(again);
    OK(kva_session_fork(
        s, NULL,
        &(struct kva_session_opts){
            .kv = KVA_F32, .page_cap = 16384, .collect = &CHUNKS, .n_collect = 1},
        &again, err));
    memset(&in2, 0, sizeof in2);
    kva_session_decide_in(again, &in2);
    memcpy(before, in2.side(in2.side_ctx, &CHUNKS, 1),
           (size_t)((k + 40) * m->arch.kv_heads) * sizeof *before);
    feed(m, again, ids + 240, 9, 9, NULL);
    OK(kva_session_rewind(again, 240, err));
    assert_memory_equal(in2.side(in2.side_ctx, &CHUNKS, 1), before,
                        (size_t)((k + 40) * m->arch.kv_heads) * sizeof *before);
    feed(m, again, ids + 240, 30, 30, NULL);
    assert_int_equal(kva_session_rewind(again, 240, &why), KVA_EINVALID);
    kva_session_free(again);
    free(before);
    kva_keep_release(&keep);
    kva_session_free(copy);
    kva_session_free(s);
    kva_model_close(m);
}

/* A plain account beside the session: a list of (position, sum) a KV head, softmax in
 * double over what the list holds. */
struct account {
    int n;
    int32_t pos[N];
    double sum[N], fresh[N]; /* fresh: since the last decision */
};

static void add_rows(struct account *acc, const struct kva_arch *a, const float *q,
                     int32_t at, const struct state *t)
{
    const int d = a->head_dim, group = a->heads / a->kv_heads;

    for (int h = 0; h < a->heads; h++) {
        struct account *c = &acc[h / group];
        double w[N], all = 0;

        for (int j = 0; j < c->n; j++) {
            const float *k = t->k + ((size_t)(h / group) * N + c->pos[j]) * d;
            double s = 0;

            for (int x = 0; x < d; x++)
                s += (double)q[h * d + x] * (double)k[x];
            w[j] = c->pos[j] <= at ? exp(s * (double)a->score_scale) : 0;
            all += w[j];
        }
        for (int j = 0; j < c->n; j++) {
            c->sum[j] += w[j] / all;
            c->fresh[j] += w[j] / all;
        }
    }
}

/* One token of s, in a step whose first chunk of rows is another session's. */
static void feed_behind(struct kva_model *m, struct kva_session *wide,
                        struct kva_session *s, int32_t id)
{
    struct kva_row rows[KVA_CHUNK + 1];

    for (int i = 0; i < KVA_CHUNK; i++)
        rows[i] = (struct kva_row){.session = wide, .token = ids[i], .target = -1};
    rows[KVA_CHUNK] = (struct kva_row){.session = s, .token = id, .target = -1};
    OK(kva_step(m, rows, KVA_CHUNK + 1, NULL, err));
}

/* Queries and keys of layer 0 depend on token and position alone, so those of a session
 * that lost nothing are those of one that did. Blocks of 50, each third entry out after
 * a block, then single tokens of which each takes another's place: slots lose their
 * order. */
static void
column_sums_are_those_of_a_plain_account_through_blocks_and_answers(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    const struct kva_arch *a = &m->arch;
    struct kva_session *all = collecting(m, N), *s = collecting(m, 0);
    struct kva_session *wide = open_session(m, KVA_F32, 0);
    struct account *acc = calloc((size_t)a->kv_heads, sizeof *acc);
    struct kva_decide_in in = {0};
    struct state t;
    const int width = a->heads * a->head_dim;

    (void)state;
    feed(m, all, ids, N, 64, NULL);
    t = read_layer(all, 0);
    kva_session_decide_in(s, &in);
    for (int at = 0; at < 240;) {
        const int step = at < 200 ? 50 : 1;
        size_t *off = calloc((size_t)(a->layers * a->kv_heads) + 1, sizeof *off);
        int32_t *rank = calloc((size_t)(a->layers * a->kv_heads * N), sizeof *rank);
        struct kva_keep list = {a->layers, a->kv_heads, rank, off};
        const float *got;

        if (at < 237)
            feed(m, s, ids + at, step, step == 1 ? 1 : 17, NULL);
        else
            feed_behind(m, wide, s, ids[at]);
        for (int h = 0; h < a->kv_heads; h++)
            for (int i = 0; i < step; i++) {
                struct account *c = &acc[h];

                c->sum[c->n] = c->fresh[c->n] = 0;
                c->pos[c->n++] = at + i;
            }
        for (int i = 0; i < step; i++)
            add_rows(acc, a, t.q + (size_t)(at + i) * (size_t)width, at + i, &t);
        for (int restart = 0; restart < 2; restart++) {
            int base = 0;

            got = in.side(in.side_ctx, restart ? &RESTART : &COLUMNS, 0);
            for (int h = 0; h < a->kv_heads; base += acc[h++].n)
                for (int j = 0; j < acc[h].n; j++) {
                    double want = restart ? acc[h].fresh[j] : acc[h].sum[j];

                    near((double)got[base + j], want, 2e-4 * (1 + want));
                }
        }
        for (int c = 0; c < a->layers * a->kv_heads; c++) {
            int h = c % a->kv_heads, n = acc[h].n, out = (at * 7 + h) % n;

            off[c + 1] = off[c];
            for (int j = 0; j < n; j++)
                if (step == 1 ? j == out : (j + h) % 3 != 2)
                    rank[off[c + 1]++] = j;
        }
        for (int h = 0; h < a->kv_heads; h++) {
            struct account *c = &acc[h];
            int n = c->n;

            c->n = 0;
            for (int j = 0; j < n; j++)
                if (step == 1 ? j != (at * 7 + h) % n : (j + h) % 3 != 2) {
                    c->pos[c->n] = c->pos[j];
                    c->sum[c->n] = c->sum[j];
                    c->fresh[c->n++] = 0;
                }
        }
        if (step == 1)
            OK(kva_session_replace(s, &list, err));
        else
            OK(kva_session_keep(s, &list, err));
        free(off);
        free(rank);
        at += step;
    }
    {
        struct kva_kv_view view;

        kva_kvstore_view(s->store, 0, &view);
        assert_false(view.sorted[0]);
    }
    release(&t);
    free(acc);
    kva_session_free(all);
    kva_session_free(wide);
    kva_session_free(s);
    kva_model_close(m);
}

static void projected_norms_are_those_of_the_output_matrix(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    struct kva_session *s = collecting(m, 0);
    const struct kva_arch *a = &m->arch;
    const int in_w = a->heads * a->v_dim, group = a->heads / a->kv_heads;
    float *x = calloc((size_t)in_w, sizeof *x), *y = calloc((size_t)a->dim, sizeof *y);
    float *v = calloc((size_t)N * (size_t)(a->kv_heads * a->v_dim), sizeof *v);
    float *out = calloc((size_t)N * (size_t)a->heads, sizeof *out);
    size_t off[65] = {0}, a_off[65] = {0};
    struct kva_rows rows = {v, off, a->kv_heads, a->v_dim};

    (void)state;
    feed(m, s, ids, 40, 40, NULL);
    for (int h = 0; h < a->kv_heads; h++) {
        off[h + 1] = off[h] + 40;
        OK(kva_kvstore_gather(s->store, 1, h, NULL, v + off[h] * (size_t)a->v_dim, err));
    }
    for (int h = 0; h < a->heads; h++)
        a_off[h + 1] = a_off[h] + 40;
    for (int norm = 1; norm <= 2; norm++) {
        OK(m->lend.project_norm(m->lend.ctx, 1, &rows, norm, a_off, out, err));
        for (int h = 0; h < a->heads; h++)
            for (int j = 0; j < 40; j += 13) {
                double want = 0;

                memset(x, 0, (size_t)in_w * sizeof *x);
                memcpy(x + h * a->v_dim,
                       v + (off[h / group] + (size_t)j) * (size_t)a->v_dim,
                       (size_t)a->v_dim * sizeof *x);
                m->ops->matmul(m->ops, a->layer[1].o, x, 1, y, a->dim);
                for (int o = 0; o < a->dim; o++)
                    want += norm == 1 ? fabs((double)y[o]) : (double)y[o] * (double)y[o];
                want = norm == 1 ? want : sqrt(want);
                near((double)out[a_off[h] + (size_t)j], want, 1e-5 * (1 + want));
            }
    }
    free(x);
    free(y);
    free(v);
    free(out);
    kva_session_free(s);
    kva_model_close(m);
}

static void mean_rotations_are_means(void **state)
{
    struct kva_model *m = open_model("builtin:tiny-llama", "f32");
    double c[64], s[64];
    int half = m->lend.rope_mean(m->lend.ctx, 0, 10, 3, c, s);

    (void)state;
    assert_int_equal(half, m->arch.layer[0].n_rot / 2);
    for (int i = 0; i < half; i++) {
        double f = (double)m->arch.layer[0].inv_freq[i];

        near(c[i], (cos(10 * f) + cos(11 * f) + cos(12 * f)) / 3, 1e-12);
        near(s[i], (sin(10 * f) + sin(11 * f) + sin(12 * f)) / 3, 1e-12);
    }
    kva_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(column_sums_equal_the_attention_of_all_queries),
        cmocka_unit_test(chunk_sums_see_the_whole_chunk_and_nothing_else),
        cmocka_unit_test(a_padded_chunk_counts_zero_keys_and_zero_queries),
        cmocka_unit_test(query_statistics_are_those_before_the_rotation),
        cmocka_unit_test(the_cut_of_the_prompt_changes_no_bit),
        cmocka_unit_test(sessions_of_one_step_sum_over_their_own_rows),
        cmocka_unit_test(sums_follow_their_entries_through_evictions_and_copies),
        cmocka_unit_test(
            column_sums_are_those_of_a_plain_account_through_blocks_and_answers),
        cmocka_unit_test(projected_norms_are_those_of_the_output_matrix),
        cmocka_unit_test(mean_rotations_are_means),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
