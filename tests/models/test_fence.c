/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_fence.c - a decision in the memory of a backend that is not the host.
 *
 * Behind a fence (fence.h) the host may follow no pointer of `alloc`. Every method
 * decides there as in the open and touches nothing, unless its KVA_NEEDS_HOST is taken
 * away; and what a table chooses and shares by itself gives the same decisions. The last
 * queries of a session lie behind the fence from the moment it is made there. */
#include "tests/models/engine_test.h"

#include "methods/rank.h"
#include "models/replay.h"
#include "tests/models/fence.h"

enum { TOKENS = 90, WINDOW = 64 };

static struct kva_model *model;
static struct kva_ops *ops;
static double numbers[64 * 128];

static int setup(void **state)
{
    (void)state;
    OK(kva_model_open("builtin:tiny-llama",
                      &(struct kva_model_opts){.numerics = "f32", .threads = 1}, &model,
                      err));
    ops = model->ops;
    fence_build(ops);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        numbers[i] = 0.05 + (double)(i * 37 % 101) / 110;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kva_model_close(model);
    return fence.held == 0 ? 0 : -1;
}

/* ---- methods ---- */

static const char *const combined[] = {"snapkv:window=8+adakv",
                                       "snapkv:window=8+pyramid",
                                       "snapkv:window=8+headkv:profile=x",
                                       "cake:window=8+cake",
                                       "manifoldkv+adakv:norm=z",
                                       "valuediff+caote",
                                       "lagkv:lag=16",
                                       "snapkv:window=8+fastcaote",
                                       "snapkv:window=8+critical",
                                       "snapkv:window=8+adakv+critical",
                                       "snapkv:window=8+critical:norm=l2",
                                       "snapkv:window=8+adakv:alpha=0+defensive",
                                       "snapkv:window=8+global+defensive",
                                       "expected_attention+adakv",
                                       "expected_attention:vnorm=0",
                                       "kvzip+global",
                                       "compactor:sinks=2,recent=8,vnorm=1+adakv",
                                       "noncausal+adakv",
                                       "streaming:sinks=4+duo",
                                       "streaming:sinks=4+duo:profile=x",
                                       "snapkv:window=8+lukv:profile=x",
                                       "snapkv:window=8+contour",
                                       "snapkv:window=8+balance",
                                       "snapkv:window=8+chunk",
                                       "snapkv:group=before,pool=max,window=8",
                                       "lava:window=8+lava",
                                       "streaming+simlayerkv:recent=8",
                                       "random+global:norm=cell_sum",
                                       "random+file:as=shares,profile=x",
                                       "snapkv:sinks=30,window=8+global",
                                       "knorm+uniform"};

/* Method i: every scorer alone, then the combinations. */
static bool method_of(int i, struct kva_method *m, struct kva_table *table)
{
    const struct kva_schedule oneshot = {0};
    char text[200];
    int n = 0;

    while (kva_scorers()[n] != NULL)
        n++;
    if (i >= n + (int)(sizeof combined / sizeof *combined))
        return false;
    if (i >= n)
        snprintf(text, sizeof text, "%s", combined[i - n]);
    else if (kva_scorers()[i]->table_kind != NULL)
        snprintf(text, sizeof text, "%s:%s=x", kva_scorers()[i]->name,
                 kva_scorers()[i]->params[0].name);
    else
        snprintf(text, sizeof text, "%s", kva_scorers()[i]->name);
    OK(kva_method_parse(text, &oneshot, m, err));
    *table = (struct kva_table){.kind = "any",
                                .layers = model->arch.layers,
                                .kv_heads = model->arch.kv_heads,
                                .columns = strstr(text, "qfilter") ? model->arch.head_dim
                                           : strstr(text, "lukv")  ? 99
                                                                   : 1,
                                .data = numbers};
    m->table = strstr(text, "=x") != NULL ? table : NULL;
    return true;
}

/* ---- one decision ---- */

static struct kva_session *read_prompt(const struct kva_method *m)
{
    struct kva_collect want = kva_method_collect(m);
    struct kva_session_opts o = {.kv = KVA_F16, .page_cap = 4096, .q_window = WINDOW};
    struct kva_session *s;
    int32_t ids[2 * TOKENS], fed[2 * TOKENS];

    o.collect = &want;
    o.n_collect = want.kind != KVA_COLLECT_NONE;
    for (int i = 0; i < TOKENS; i++)
        ids[i] = fed[i + 3] = tiny_token(i);
    OK(kva_session_new(model, &o, &s, err));
    OK(kva_prefill(model, s, ids, TOKENS, 0, NULL, err));
    if (want.kind == KVA_COLLECT_REPLAY) {
        struct kva_replay_chunk c = {.ids = fed, .n = TOKENS + 3, .to = TOKENS};
        const struct kva_replay r = {.chunk = &c, .n = 1};

        fed[0] = fed[1] = fed[2] = 5;
        OK(kva_replay(model, s, &want, &r, NULL, err));
    }
    return s;
}

/* The session once more, its queries behind the fence. */
static struct kva_session *behind(const struct kva_session *s)
{
    struct kva_session *far;

    ops->host = false;
    OK(kva_session_copy(s, &far, err));
    ops->host = true;
    assert_true(s->q_window == 0 || fence_owns(far->q));
    return far;
}

static int layer0, layer1; /* that a decision is about; 0, 0: all */

static struct kva_decision decide(const struct kva_method *m, struct kva_session *s,
                                  uint64_t total, bool host, uint64_t *scratch)
{
    struct kva_decide_in in = {.seed = 42,
                               .block_len = TOKENS,
                               .question = 5,
                               .keep = 0.4,
                               .layer0 = layer0,
                               .layer1 = layer1};
    struct kva_scores scores = {0};
    struct kva_decision d = {0};

    *scratch = 0;
    kva_session_decide_in(s, &in);
    ops->host = host;
    OK(kva_method_score(m, &in, &scores, scratch, err));
    OK(kva_method_decide(m, &in, &scores, total, &d, scratch, err));
    ops->host = true;
    kva_scores_release(&scores);
    return d;
}

static void same(const char *spec, const struct kva_decision *a,
                 const struct kva_decision *b)
{
    int c = model->arch.layers * model->arch.kv_heads;

    if (a->total != b->total || a->protect_overflow != b->protect_overflow ||
        a->staged != b->staged || a->heavy != b->heavy || a->fallback != b->fallback ||
        memcmp(a->keep.off, b->keep.off, ((size_t)c + 1) * sizeof *a->keep.off) != 0 ||
        memcmp(a->keep.rank, b->keep.rank, a->keep.off[c] * sizeof *a->keep.rank) != 0)
        fail_msg("%s decides otherwise", spec);
}

/* A cache of two generations: what the first decision left has ragged lists. */
static uint64_t total_of(struct kva_session *s, int tenths)
{
    struct kva_kv_bytes b;

    kva_kvstore_bytes(kva_session_store(s), &b);
    return b.entries_kept * (uint64_t)tenths / 10;
}

/* ---- the fence ---- */

static void no_method_follows_what_is_the_backend_s(void **state)
{
    struct kva_method m;
    struct kva_table table;
    int methods = 0;

    (void)state;
    for (int i = 0; method_of(i, &m, &table); i++, methods++) {
        struct kva_session *s = read_prompt(&m);

        for (int round = 0; round < 3; round++) { /* the second and third are ragged */
            uint64_t total = total_of(s, 9 - round), scratch, far;
            struct kva_decision a = decide(&m, s, total, true, &scratch), b;
            struct kva_session *f;

            fence_watch();
            f = behind(s);
            b = decide(&m, f, total, false, &far);
            if (fence.touched != 0)
                fail_msg("%s follows memory of the backend", m.spec);
            same(m.spec, &a, &b);
            assert_true(scratch == 0 || far > 0);
            OK(kva_session_keep(s, &b.keep, err));
            kva_decision_release(&a);
            kva_decision_release(&b);
            kva_session_free(f);
        }
        kva_session_free(s);
        assert_true(fence.held <= 1); /* the angles of the model */
    }
    print_message("%d methods\n", methods);
    assert_true(methods > 50);
}

/* Decides without KVA_NEEDS_HOST; whether the fence saw somebody. */
static bool seen_without_flag(struct kva_method *m)
{
    struct kva_scorer scorer = *m->scorer;
    struct kva_wrapper wrapper = {0};
    struct kva_decision d;
    struct kva_session *s;
    uint64_t scratch;

    scorer.needs &= ~(unsigned)KVA_NEEDS_HOST;
    m->scorer = &scorer;
    if (m->wrapper != NULL) {
        wrapper = *m->wrapper;
        wrapper.needs &= ~(unsigned)KVA_NEEDS_HOST;
        m->wrapper = &wrapper;
    }
    s = read_prompt(m);
    fence_watch();
    d = decide(m, s, total_of(s, 5), false, &scratch);
    kva_decision_release(&d);
    kva_session_free(s);
    return fence.touched > 0;
}

static void check_seen(unsigned needs, const char *name, const char *seen)
{
    if (needs & KVA_NEEDS_HOST && strstr(seen, name) == NULL)
        fail_msg("%s: a flag that it does not need", name);
}

/* The flag is what keeps them away from it, and the fence sees it. */
static void without_the_flag_its_bearers_are_seen(void **state)
{
    char seen[2000] = "";
    struct kva_method m;
    struct kva_table table;

    (void)state;
    for (int i = 0; method_of(i, &m, &table); i++) {
        size_t at = strlen(seen);
        char spec[sizeof m.wrapped_spec];

        memcpy(spec, m.wrapped_spec, sizeof spec);
        if (kva_method_needs(&m, NULL) & KVA_NEEDS_HOST && seen_without_flag(&m))
            snprintf(seen + at, sizeof seen - at, " %s", spec);
    }
    for (int i = 0; kva_scorers()[i] != NULL; i++)
        check_seen(kva_scorers()[i]->needs, kva_scorers()[i]->name, seen);
    for (int i = 0; kva_wrappers()[i] != NULL; i++)
        check_seen(kva_wrappers()[i]->needs, kva_wrappers()[i]->name, seen);
    assert_non_null(strstr(seen, "fastcaote"));
}

/* ---- queries ---- */

/* A scorer that reads the queries itself: entry j gets the sum of query j's numbers. */
static enum kva_status sum_queries(const struct kva_layer_view *view,
                                   const struct kva_params *params, float *s,
                                   struct kva_error *e)
{
    const size_t width = (size_t)view->heads * (size_t)view->head_dim;

    (void)params;
    (void)e;
    for (size_t j = 0; j < view->off[view->kv_heads]; j++) {
        s[j] = 0;
        for (size_t x = 0; x < width; x++)
            s[j] += view->q[j % (size_t)view->nq * width + x];
    }
    return KVA_OK;
}

static void the_flag_brings_the_queries_too(void **state)
{
    struct kva_scorer scorer = {.name = "sums",
                                .needs = KVA_NEEDS_QUERIES | KVA_NEEDS_HOST,
                                .score = sum_queries};
    struct kva_method m;
    struct kva_table table;
    struct kva_session *s, *far;

    (void)state;
    assert_true(method_of(0, &m, &table));
    s = read_prompt(&m);
    m.scorer = &scorer;
    fence_watch();
    far = behind(s);
    for (int flag = 1; flag >= 0; flag--) {
        uint64_t total = total_of(s, 5), scratch;
        struct kva_decision a = decide(&m, s, total, true, &scratch),
                            b = decide(&m, far, total, false, &scratch);

        same("sums", &a, &b);
        assert_int_equal(fence.touched > 0, !flag);
        kva_decision_release(&a);
        kva_decision_release(&b);
        scorer.needs = KVA_NEEDS_QUERIES;
    }
    kva_session_free(far);
    kva_session_free(s);
}

/* The windows of two sessions, one of them behind the fence, hold the same. */
static void same_windows(struct kva_session *near, struct kva_session *far)
{
    struct kva_decide_in a = {0}, b = {0};
    const size_t width = (size_t)(model->arch.heads * model->arch.head_dim);

    kva_session_decide_in(near, &a);
    kva_session_decide_in(far, &b);
    for (int l = 0; l < model->arch.layers; l++) {
        const float *q[2];
        const int32_t *pos[2];
        int n = a.queries(a.queries_ctx, l, &q[0], &pos[0]);
        float *copy = calloc((size_t)n * width + 1, sizeof *copy);

        ops->host = false;
        assert_int_equal(b.queries(b.queries_ctx, l, &q[1], &pos[1]), n);
        assert_true(fence_owns(q[1]));
        ops->copy(ops, copy, q[1], (size_t)n * width * sizeof *copy);
        ops->host = true;
        assert_memory_equal(pos[0], pos[1], (size_t)n * sizeof **pos);
        assert_memory_equal(q[0], copy, (size_t)n * width * sizeof *copy);
        free(copy);
    }
}

static void push(struct kva_session *s, const float *q, int32_t from, int n)
{
    int32_t pos[WINDOW];

    for (int i = 0; i < n; i++)
        pos[i] = from + i;
    for (int l = 0; l < model->arch.layers; l++)
        kva_session_push_queries(s, l, pos, q + l, n);
}

/* Any cuts, looked at or not, and taken back. */
static void a_window_behind_the_fence_goes_round(void **state)
{
    static const int cut[] = {1, 5, WINDOW, 3, 30, 40, 1, 63, 2};
    const size_t width = (size_t)(model->arch.heads * model->arch.head_dim);
    float *q = calloc(WINDOW * width + 8, sizeof *q);
    struct kva_method m;
    struct kva_table table;

    (void)state;
    assert_true(method_of(0, &m, &table));
    for (int look = 1; look < 4; look++) {
        struct kva_session *s = read_prompt(&m), *far, *f[2];
        int32_t next = TOKENS;

        fence_watch();
        far = behind(s);
        for (int i = 0; i < (int)(sizeof cut / sizeof *cut); i++) {
            for (size_t x = 0; x < WINDOW * width + 8; x++)
                q[x] = (float)((x * 31 + (size_t)i * 7) % 113);
            push(s, q, next, cut[i]);
            push(far, q, next, cut[i]);
            next += cut[i];
            if (i % look == 0)
                same_windows(s, far);
            if (i == 3 || i == 6) { /* forks of a smaller and a larger window */
                struct kva_session_opts o = {
                    .kv = KVA_F16, .page_cap = 4096, .q_window = i == 3 ? 7 : 100};

                OK(kva_session_fork(s, NULL, &o, &f[0], err));
                ops->host = false;
                OK(kva_session_fork(far, NULL, &o, &f[1], err));
                ops->host = true;
                same_windows(f[0], f[1]);
                kva_session_free(f[0]);
                kva_session_free(f[1]);
            }
        }
        s->seen = far->seen = next;
        OK(kva_session_rewind(s, next - 20, err));
        OK(kva_session_rewind(far, next - 20, err));
        push(s, q, next - 20, 9);
        push(far, q, next - 20, 9);
        same_windows(s, far);
        OK(kva_session_rewind(s, 10, err));
        OK(kva_session_rewind(far, 10, err));
        same_windows(s, far);
        assert_int_equal(fence.touched, 0);
        kva_session_free(far);
        kva_session_free(s);
    }
    free(q);
}

static void a_window_without_memory_is_an_error(void **state)
{
    const struct kva_session_opts o = {.kv = KVA_F16, .page_cap = 64, .q_window = 8};
    struct kva_session *s;
    struct kva_error e = {0};
    int held = fence.held;

    (void)state;
    ops->host = false;
    fence.fail_at = 1;
    assert_int_equal(kva_session_new(model, &o, &s, &e), KVA_ENOMEM);
    ops->host = true;
    assert_non_null(strstr(e.text, "8 queries a layer"));
    assert_int_equal(fence.held, held);
    fence.fail_at = 0;
}

/* Each request of a decision for the backend's memory fails once. */
static void a_backend_without_memory_is_an_error(void **state)
{
    static const char *const specs[] = {
        "knorm",    "keydiff",       "snapkv:window=8+adakv+critical",
        "leverage", "lava:window=8", "lagkv:lag=16"};
    const struct kva_schedule oneshot = {0};

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct kva_decide_in in = {.seed = 42, .block_len = TOKENS};
        struct kva_method m;
        struct kva_session *s;
        int failures = 0;

        OK(kva_method_parse(specs[i], &oneshot, &m, err));
        s = read_prompt(&m);
        kva_session_decide_in(s, &in);
        fence_watch();
        ops->host = false;
        for (int at = 1, held = fence.held; at < 100; at++) {
            struct kva_scores scores = {0};
            struct kva_decision d = {0};
            struct kva_error err = {0};
            enum kva_status rc;

            fence.fail_at = at;
            rc = kva_method_score(&m, &in, &scores, NULL, &err);
            if (rc == KVA_OK)
                rc = kva_method_decide(&m, &in, &scores, total_of(s, 5), &d, NULL, &err);
            kva_decision_release(&d);
            kva_scores_release(&scores);
            assert_true(rc == KVA_OK || rc == KVA_ENOMEM);
            assert_true(fence.held <= held + 1); /* the model's angles stay */
            failures += rc == KVA_ENOMEM;
            if (fence.fail_at > 0)
                break;
        }
        ops->host = true;
        fence.fail_at = 0;
        assert_true(failures > 0);
        assert_int_equal(fence.touched, 0);
        kva_session_free(s);
    }
}

static enum kva_status lost(struct kva_ops *o, struct kva_error *err)
{
    (void)o;
    return KVA_FAIL(err, KVA_EIO, "the device is lost");
}

static void leave_nan(struct kva_ops *o, const struct kva_rows *x, float *s)
{
    (void)o;
    fence_enter();
    for (size_t i = 0; i < x->off[x->heads]; i++)
        s[i] = NAN;
    fence_leave();
}

/* Neither short of memory nor a method with odd scores. */
static void a_backend_that_failed_is_the_error_itself(void **state)
{
    const struct kva_schedule oneshot = {0};
    struct kva_decide_in in = {.seed = 42, .block_len = TOKENS};
    struct kva_method m;
    struct kva_session *s, *other = NULL;
    void (*row_norm)(struct kva_ops *, const struct kva_rows *, float *) = ops->row_norm;
    enum kva_status (*sync)(struct kva_ops *, struct kva_error *) = ops->sync;

    (void)state;
    OK(kva_method_parse("knorm", &oneshot, &m, err));
    s = read_prompt(&m);
    kva_session_decide_in(s, &in);
    fence_watch();
    ops->host = false;
    for (int works = 0; works < 2; works++) {
        struct kva_scores scores = {0};
        struct kva_error err = {0};

        ops->sync = works ? sync : lost;
        fence.fail_at = 1;
        assert_int_equal(kva_method_score(&m, &in, &scores, NULL, &err),
                         works ? KVA_ENOMEM : KVA_EIO);
        assert_true(works || strstr(err.text, "the device is lost") != NULL);
        fence.fail_at = 0;
        ops->row_norm = leave_nan;
        assert_int_equal(kva_method_score(&m, &in, &scores, NULL, &err),
                         works ? KVA_OK : KVA_EIO);
        assert_true(!works || scores.nonfinite > 0);
        ops->row_norm = row_norm;
        kva_scores_release(&scores);
    }
    ops->sync = lost;
    fence.fail_at = 1;
    assert_int_equal(kva_session_rerotate(s, &(struct kva_error){0}), KVA_EIO);
    fence.fail_at = 1;
    assert_int_equal(kva_session_new(model,
                                     &(struct kva_session_opts){
                                         .page_cap = 64, .kv = KVA_F16, .q_window = 8},
                                     &other, &(struct kva_error){0}),
                     KVA_EIO);
    assert_null(other);
    fence.fail_at = 0;
    ops->sync = sync;
    ops->host = true;
    assert_int_equal(fence.touched, 0);
    kva_session_free(s);
}

static void keys_are_turned_behind_the_fence(void **state)
{
    struct kva_method m;
    const struct kva_schedule oneshot = {0};
    struct kva_session *first = NULL;
    float *k[2];

    (void)state;
    OK(kva_method_parse("finch", &oneshot, &m, err));
    for (int far = 0; far < 2; far++) {
        struct kva_session *s = read_prompt(&m);
        uint64_t scratch, total = total_of(s, 5);
        struct kva_decision d = decide(&m, s, total, true, &scratch);
        int dim = model->arch.head_dim, n;

        OK(kva_session_keep(s, &d.keep, err));
        fence_watch();
        if (far) {
            struct kva_session *f = behind(s);

            kva_session_free(s);
            s = f;
        }
        ops->host = far == 0;
        OK(kva_session_rerotate(s, err));
        ops->host = true;
        assert_int_equal(fence.touched, 0);
        n = kva_kvstore_live(s->store, 0, 0);
        k[far] = calloc((size_t)(n * dim), sizeof **k);
        OK(kva_kvstore_gather(s->store, 0, 0, k[far], NULL, err));
        if (far) {
            assert_memory_equal(k[0], k[1], (size_t)(n * dim) * sizeof **k);
            same_windows(first, s);
            kva_session_free(s);
        } else {
            first = s;
        }
        kva_decision_release(&d);
    }
    kva_session_free(first);
    free(k[0]);
    free(k[1]);
}

/* ---- a table that chooses and shares ---- */

static int chosen, shared, cells_asked, cells_shared;

static void choose(struct kva_ops *o, const struct kva_contest *in, const int *b,
                   const size_t *to, int32_t *rank)
{
    (void)o;
    chosen++;
    for (int c = 0; c < in->cells; c++) {
        int n = (int)(in->off[c + 1] - in->off[c]);

        if (b[c] == 0)
            continue;
        assert_true(in->lead[c] + in->tail[c] <= b[c] && b[c] <= n);
        cells_asked++;
    }
    OK(kva_rank_choose(NULL, in, b, to, rank, err));
}

static void share(struct kva_ops *o, const struct kva_contest *in, const int *reserve,
                  int groups, const uint64_t *total, int *b)
{
    int each = in->cells / groups;

    (void)o;
    shared++;
    assert_int_equal(in->cells % groups, 0);
    assert_true(total[0] > 0 && total[groups - 1] > 0);
    for (int g = 0; g < groups; g++) {
        uint64_t ahead = 0, all = in->off[(g + 1) * each] - in->off[g * each];

        if (total[g] == 0)
            continue;
        cells_shared += each;
        for (int c = g * each; c < (g + 1) * each; c++) {
            assert_true(in->lead[c] + in->tail[c] + reserve[c] <=
                        (int)(in->off[c + 1] - in->off[c]));
            ahead += (uint64_t)(in->lead[c] + in->tail[c] + reserve[c]);
        }
        assert_true(ahead < total[g] && total[g] <= all);
    }
    OK(kva_rank_share(NULL, in, reserve, groups, total, b, err));
}

static void a_table_that_chooses_and_shares_is_asked(void **state)
{
    struct kva_method m;
    struct kva_table table;

    (void)state;
    for (int i = 0; method_of(i, &m, &table); i++) {
        struct kva_session *s = read_prompt(&m);
        const char *a_name = m.allocator != NULL ? m.allocator->name : "";
        bool flat = strcmp(a_name, "adakv") == 0 || strcmp(a_name, "global") == 0 ||
                    strcmp(a_name, "lava") == 0;
        bool picks = m.wrapper != NULL &&
                     (m.wrapper->pick != NULL || m.wrapper->pick_layer != NULL);

        for (int tenths = 3; tenths <= 10; tenths += 7) {
            uint64_t total = total_of(s, tenths), scratch;
            struct kva_decision a = decide(&m, s, total, true, &scratch), b;

            chosen = shared = cells_asked = 0;
            ops->choose = choose;
            ops->share = share;
            b = decide(&m, s, total, false, &scratch);
            ops->choose = NULL;
            ops->share = NULL;
            same(m.spec, &a, &b);
            if (chosen != (tenths < 10 && !picks && cells_asked > 0) ||
                shared > (tenths < 10))
                fail_msg("%s at %d/10: %d choices of %d cells, %d shares", m.spec, tenths,
                         chosen, cells_asked, shared);
            if (tenths < 10 && flat && !a.protect_overflow && shared == 0)
                fail_msg("%s shares nothing", m.spec);
            if (tenths < 10 && !picks && !a.protect_overflow && chosen == 0)
                fail_msg("%s chooses nothing", m.spec);
            kva_decision_release(&a);
            kva_decision_release(&b);
        }
        kva_session_free(s);
    }
}

/* As a layerwise schedule decides: other layers cost nothing, on either side. */
static void a_range_asks_for_its_own_layers(void **state)
{
    static const char *const specs[] = {"knorm", "snapkv:window=8+adakv",
                                        "snapkv:window=8+critical",
                                        "snapkv:sinks=30,window=8+adakv"};
    const struct kva_schedule oneshot = {0};
    const int heads = model->arch.kv_heads;

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct kva_method m;
        struct kva_session *s;
        struct kva_decision all;
        uint64_t total, scratch;

        OK(kva_method_parse(specs[i], &oneshot, &m, err));
        s = read_prompt(&m);
        total = total_of(s, 4);
        layer0 = layer1 = 0;
        all = decide(&m, s, total, true, &scratch);
        for (int host = 0; host < 2; host++)
            for (int l = 0; l < model->arch.layers; l++) {
                const size_t *to;
                struct kva_decision d;

                layer0 = l;
                layer1 = l + 1;
                chosen = shared = cells_asked = cells_shared = 0;
                ops->choose = choose;
                ops->share = share;
                d = decide(&m, s, total, host, &scratch);
                ops->choose = NULL;
                ops->share = NULL;
                assert_true(chosen <= !host && shared <= !host);
                assert_true(cells_asked <= heads && cells_shared <= heads);
                to = d.keep.off + l * heads;
                assert_memory_equal(d.budget + l * heads, all.budget + l * heads,
                                    (size_t)heads * sizeof *d.budget);
                assert_memory_equal(d.keep.rank + to[0],
                                    all.keep.rank + all.keep.off[l * heads],
                                    (to[heads] - to[0]) * sizeof *d.keep.rank);
                kva_decision_release(&d);
            }
        layer0 = layer1 = 0;
        kva_decision_release(&all);
        kva_session_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_method_follows_what_is_the_backend_s),
        cmocka_unit_test(without_the_flag_its_bearers_are_seen),
        cmocka_unit_test(the_flag_brings_the_queries_too),
        cmocka_unit_test(a_window_behind_the_fence_goes_round),
        cmocka_unit_test(a_window_without_memory_is_an_error),
        cmocka_unit_test(a_backend_without_memory_is_an_error),
        cmocka_unit_test(a_backend_that_failed_is_the_error_itself),
        cmocka_unit_test(keys_are_turned_behind_the_fence),
        cmocka_unit_test(a_table_that_chooses_and_shares_is_asked),
        cmocka_unit_test(a_range_asks_for_its_own_layers),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
