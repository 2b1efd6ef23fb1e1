/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_block_rules.c - what every scorer reads and decides under block schedules, beside
 * a plain account of lists (methods.md 4.2, 4.6).
 *
 * The account holds, for each KV head, a list of what stays: position, key, key before
 * its rotation, value, and what the scorer has summed up for the entry. Each is taken
 * down once, when the entry is new, and moves with it from then on; nothing is read back
 * from the store. Sums are made here from all queries of the block, in double precision,
 * over the lists as they stand. The scorer's formula (proved in tests/methods) on these
 * lists must give the scores of the run, and a plain sort the positions that stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runner/exec_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK(expr)                                                                         \
    do {                                                                                 \
        struct kva_error *err = &test_error;                                             \
        *err = (struct kva_error){0};                                                    \
        if ((expr) != KVA_OK)                                                            \
            fail_msg("%s: %s: %s", now, #expr, err->text);                               \
    } while (0)
static struct kva_error test_error;
static char now[200]; /* what is being tried */

enum { PROMPT = 110, MAX_DIM = 64, MAX_WIDTH = 256, MAX_LAYERS = 4, MAX_CELLS = 16 };

static struct kva_model *model;
static const struct kva_model_info *info;
static int32_t ids[PROMPT];

static int setup(void **state)
{
    (void)state;
    OK(kva_model_open("builtin:tiny-llama", &(struct kva_model_opts){.numerics = "ref"},
                      &model, err));
    info = kva_model_info(model);
    assert_true(info->layers <= MAX_LAYERS && info->head_dim <= MAX_DIM &&
                info->layers * info->kv_heads <= MAX_CELLS &&
                info->heads * info->head_dim <= MAX_WIDTH);
    for (int i = 0; i < PROMPT; i++)
        ids[i] = (37 * i + i * i / 7 + 11) % 251;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kva_model_close(model);
    return 0;
}

/* ---- the account ---- */

struct entry {
    int32_t pos;
    float k[MAX_DIM], raw[MAX_DIM], v[MAX_DIM];
    double sum;
};
struct list {
    int n;
    struct entry at[PROMPT];
};
struct account {
    struct kva_collect want;
    int decided; /* tokens read when a decision was last carried out */
    struct list list[MAX_CELLS];
    float q[MAX_LAYERS][PROMPT][MAX_WIDTH], q_raw[MAX_LAYERS][PROMPT][MAX_WIDTH];
};

/* x, heads of head_dim at position pos, as it was before the rotation. */
static void rotate_back(const struct kva_lend *lend, int layer, int32_t pos, float *x,
                        int heads)
{
    size_t off[2] = {0, 1};
    int32_t back = -pos;

    for (int h = 0; h < heads; h++) {
        struct kva_rows row = {x + h * info->head_dim, off, 1, info->head_dim};

        lend->rotate(lend->ctx, layer, &row, &back);
    }
}

/* Takes down the queries and entries of the tokens behind `from`. */
static void take_down(struct account *acc, const struct kva_decide_in *in, int from)
{
    static float k[PROMPT * MAX_DIM], v[PROMPT * MAX_DIM];
    const size_t width = (size_t)(info->heads * info->head_dim);
    int32_t pos[PROMPT];

    for (int layer = 0; layer < info->layers; layer++) {
        const float *q;
        const int32_t *q_pos;
        int nq = in->queries(in->queries_ctx, layer, &q, &q_pos);

        for (int i = 0; i < nq; i++) {
            float *to = acc->q[layer][q_pos[i]], *raw = acc->q_raw[layer][q_pos[i]];

            if (q_pos[i] < from)
                continue;
            memcpy(to, q + (size_t)i * width, width * sizeof *q);
            memcpy(raw, to, width * sizeof *q);
            rotate_back(in->lend, layer, q_pos[i], raw, info->heads);
        }
        for (int h = 0; h < info->kv_heads; h++) {
            struct list *l = &acc->list[layer * info->kv_heads + h];
            int n = kva_kvstore_live(in->store, layer, h), old = l->n;

            kva_kvstore_positions(in->store, layer, h, pos);
            OK(kva_kvstore_gather(in->store, layer, h, k, v, err));
            for (int j = 0; j < n; j++) {
                struct entry *e = &l->at[j];

                if (j < old) {
                    assert_int_equal(e->pos, pos[j]);
                    continue;
                }
                assert_true(pos[j] >= from);
                *e = (struct entry){.pos = pos[j]};
                memcpy(e->k, k + j * info->head_dim, (size_t)info->head_dim * sizeof *k);
                memcpy(e->v, v + j * in->v_dim, (size_t)in->v_dim * sizeof *v);
                memcpy(e->raw, e->k, sizeof e->k);
                rotate_back(in->lend, layer, e->pos, e->raw, 1);
                l->n++;
            }
            assert_int_equal(l->n, n);
        }
    }
}

/* Adds by * softmax(scale * q . k) over the entries at positions [lo, hi] to their sums.
 */
static void attend(struct list *l, const float *q, int32_t lo, int32_t hi, double scale,
                   double by)
{
    double w[PROMPT], top = -1e300, all = 0;

    for (int j = 0; j < l->n; j++) {
        const struct entry *e = &l->at[j];

        w[j] = -1e300;
        if (e->pos < lo || e->pos > hi)
            continue;
        w[j] = 0;
        for (int x = 0; x < info->head_dim; x++)
            w[j] += scale * (double)q[x] * (double)e->k[x];
        top = w[j] > top ? w[j] : top;
    }
    for (int j = 0; j < l->n; j++)
        all += w[j] = w[j] > -1e299 ? exp(w[j] - top) : 0;
    for (int j = 0; j < l->n; j++)
        l->at[j].sum += by * w[j] / all;
}

/* The attention of the tokens [from, to), each over what its list holds up to itself. */
static void add_columns(struct account *acc, const struct kva_decide_in *in, int from,
                        int to)
{
    const int group = info->heads / info->kv_heads;

    for (int c = 0; c < info->layers * info->kv_heads; c++)
        for (int i = from; i < to; i++)
            for (int a = 0; a < group; a++)
                attend(&acc->list[c],
                       acc->q[c / info->kv_heads][i] +
                           (c % info->kv_heads * group + a) * info->head_dim,
                       0, i, (double)in->scale, 1);
}

/* What the tokens since the last decision give each other inside their chunks. */
static void set_chunks(struct account *acc, int to)
{
    const int group = info->heads / info->kv_heads;
    int lo = acc->decided > acc->want.start ? acc->decided : acc->want.start;

    for (; lo < to; lo += acc->want.chunk) {
        int hi = lo + acc->want.chunk < to ? lo + acc->want.chunk : to;

        for (int c = 0; c < info->layers * info->kv_heads; c++)
            for (int i = lo; i < hi; i++)
                for (int a = 0; a < group; a++)
                    attend(&acc->list[c],
                           acc->q[c / info->kv_heads][i] +
                               (c % info->kv_heads * group + a) * info->head_dim,
                           lo, hi - 1, 1, 1.0 / group);
    }
}

/* Mean and covariance of the queries of [start, to), in two passes. */
static void query_stats(const struct account *acc, int layer, int to, double *mean,
                        double *cov, struct kva_query_stats *out)
{
    const int d = info->head_dim, start = acc->want.start;

    *out = (struct kva_query_stats){.mean = mean, .cov = cov, .n = to - start};
    for (int h = 0; h < info->heads; h++) {
        double *m = mean + h * d, *s = cov + h * d * d;

        for (int x = 0; x < d; x++) {
            m[x] = 0;
            for (int i = start; i < to; i++)
                m[x] += (double)acc->q_raw[layer][i][h * d + x] / (to - start);
        }
        for (int x = 0; x < d; x++)
            for (int y = 0; y < d; y++) {
                s[x * d + y] = 0;
                for (int i = start; i < to; i++)
                    s[x * d + y] += ((double)acc->q_raw[layer][i][h * d + x] - m[x]) *
                                    ((double)acc->q_raw[layer][i][h * d + y] - m[y]) /
                                    (to - start);
            }
    }
}

/* ---- scores and a decision from the account ---- */

/* Scores of one layer by the method's own formula on the lists, to s (ragged). */
static void score_layer(const struct account *acc, const struct kva_method *m,
                        const struct kva_decide_in *in, int layer, float *s,
                        struct kva_protect *p)
{
    enum { ALL = MAX_CELLS * PROMPT };
    static float k[ALL * MAX_DIM], raw[ALL * MAX_DIM], v[ALL * MAX_DIM], side[ALL],
        base[ALL], q[PROMPT * MAX_WIDTH];
    static double mean[MAX_WIDTH], cov[MAX_WIDTH * MAX_DIM];
    static int32_t pos[ALL], q_pos[PROMPT];
    const int d = info->head_dim, heads = info->kv_heads, width = info->heads * d;
    size_t off[MAX_CELLS + 1] = {0}, n = 0;
    struct kva_rows rk = {k, off, heads, d}, rr = {raw, off, heads, d},
                    rv = {v, off, heads, in->v_dim};
    struct kva_query_stats stats;
    struct kva_arena arena;
    struct kva_layer_view view = {.ops = in->ops,
                                  .scratch = &arena,
                                  .layer = layer,
                                  .layers = info->layers,
                                  .kv_heads = heads,
                                  .heads = info->heads,
                                  .head_dim = d,
                                  .v_dim = in->v_dim,
                                  .k = &rk,
                                  .k_raw = &rr,
                                  .v = &rv,
                                  .pos = pos,
                                  .off = off,
                                  .q = q,
                                  .q_pos = q_pos,
                                  .scale = in->scale,
                                  .seed = in->seed,
                                  .block_len = in->block_len,
                                  .is_block = true,
                                  .seen = in->seen,
                                  .keep = in->keep,
                                  .lend = in->lend,
                                  .table = m->table};

    for (int h = 0; h < heads; h++) {
        const struct list *l = &acc->list[layer * heads + h];

        for (int j = 0; j < l->n; j++, n++) {
            pos[n] = l->at[j].pos;
            side[n] = (float)l->at[j].sum;
            memcpy(k + n * (size_t)d, l->at[j].k, (size_t)d * sizeof *k);
            memcpy(raw + n * (size_t)d, l->at[j].raw, (size_t)d * sizeof *k);
            memcpy(v + n * (size_t)in->v_dim, l->at[j].v, (size_t)in->v_dim * sizeof *v);
        }
        off[h + 1] = n;
    }
    (void)kva_method_needs(m, &view.nq);
    view.nq = view.nq < in->seen ? view.nq : in->seen;
    for (int i = 0; i < view.nq; i++) {
        q_pos[i] = in->seen - view.nq + i;
        memcpy(q + i * width, acc->q[layer][q_pos[i]], (size_t)width * sizeof *q);
    }
    if (acc->want.kind == KVA_COLLECT_QUERIES) {
        query_stats(acc, layer, in->seen, mean, cov, &stats);
        view.q_stats = &stats;
    } else if (acc->want.kind != KVA_COLLECT_NONE) {
        view.side = side;
    }
    kva_arena_init(&arena);
    OK(m->scorer->score(&view, &m->scorer_params, s, err));
    for (size_t j = 0; m->scorer->each != NULL && j < n; j++)
        s[j] = m->scorer->each(s[j]);
    if (layer == 0 && m->scorer->protect != NULL)
        m->scorer->protect(&m->scorer_params, &view, p);
    if (m->wrapper != NULL) {
        memcpy(base, s, n * sizeof *s);
        OK(m->wrapper->rescore(&view, &m->wrapper_params, base, s, NULL, err));
    }
    kva_arena_release(&arena);
}

static double param(const struct kva_method *m, const char *name)
{
    const struct kva_param *p = m->scorer->params;

    for (int i = 0; p != NULL && p[i].name != NULL; i++)
        if (strcmp(p[i].name, name) == 0)
            return m->scorer_params.value[i];
    return 0;
}

/* Marks the b entries of the list that stay; returns the lowest score that stays by its
 * score, NAN when protection decides alone. */
static double choose(const struct list *l, const float *s, int b, int sinks, int recent,
                     int32_t seen, bool *stays)
{
    double cut = NAN;
    int left = b;

    memset(stays, 0, PROMPT * sizeof *stays);
    for (int j = 0; j < l->n && left > 0 && l->at[j].pos < sinks; j++, left--)
        stays[j] = true;
    for (int j = l->n - 1; j >= 0 && left > 0 && l->at[j].pos >= seen - recent; j--)
        if (!stays[j]) {
            stays[j] = true;
            left--;
        }
    for (; left > 0; left--) {
        int best = -1;

        for (int j = 0; j < l->n; j++)
            if (!stays[j] && (best < 0 || s[j] >= s[best]))
                best = j;
        assert_true(best >= 0);
        stays[best] = true;
        cut = (double)s[best];
    }
    return cut;
}

struct tally {
    int decisions, entries, other; /* other: kept sets that differ at a near-tie */
    double worst;                  /* error of a score over its tolerance */
};

/* The run's scores and what it keeps against the account's; the lists follow the run. */
static void compare(struct account *acc, const struct kva_method *m,
                    const struct kva_decide_in *in, const struct kva_own *own,
                    const struct kva_scores *got, const struct kva_decision *d,
                    struct tally *t)
{
    static float s[MAX_CELLS * PROMPT];
    struct kva_protect p = {(int)param(m, "sinks"), (int)param(m, "recent")};
    const int cells = info->layers * info->kv_heads;
    int n[MAX_CELLS], b[MAX_CELLS];
    double share = param(m, "recent_share");

    for (int c = 0; c < cells; c++)
        n[c] = acc->list[c].n;
    kva_budget_uniform(own->total, n, cells, b);
    for (int layer = 0; layer < info->layers; layer++)
        score_layer(acc, m, in, layer, s + got->off[layer * info->kv_heads], &p);
    for (int c = 0; c < cells; c++) {
        struct list *l = &acc->list[c];
        const float *mine = s + got->off[c];
        const int32_t *rank = d->keep.rank + d->keep.off[c];
        int recent = (int)(share * b[c]) > p.recent ? (int)(share * b[c]) : p.recent;
        int kept = (int)(d->keep.off[c + 1] - d->keep.off[c]), at = 0, differ = 0;
        double size = 0, cut, tolerance;
        bool stays[PROMPT];

        for (int j = 0; j < l->n; j++)
            size += fabs((double)mine[j]) / l->n;
        tolerance = 1e-5 * size + 1e-9;
        cut = choose(l, mine, b[c], p.sinks, recent, in->seen, stays);
        assert_int_equal(kept, b[c]);
        for (int j = 0; j < l->n; j++) {
            double off = fabs((double)got->s[got->off[c] + (size_t)j] - (double)mine[j]) /
                         (tolerance + 1e-5 * fabs((double)mine[j]));
            bool stayed = at < kept && rank[at] == j;

            if (!(off <= 1))
                fail_msg("%s: after %d tokens KV head %d gives position %d %.9g, the "
                         "account %.9g",
                         now, in->seen, c, l->at[j].pos,
                         (double)got->s[got->off[c] + (size_t)j], (double)mine[j]);
            t->worst = off > t->worst ? off : t->worst;
            if (stayed != stays[j]) {
                if (!(fabs((double)mine[j] - cut) <= tolerance))
                    fail_msg("%s: after %d tokens KV head %d and the account differ on "
                             "position %d",
                             now, in->seen, c, l->at[j].pos);
                differ = 1;
            }
            if (stayed)
                l->at[at++] = l->at[j];
        }
        assert_int_equal(at, kept);
        l->n = kept;
        t->other += differ;
        t->decisions++;
        t->entries += kept;
    }
    for (int c = 0; acc->want.restart && c < cells; c++)
        for (int j = 0; j < acc->list[c].n; j++)
            acc->list[c].at[j].sum = 0;
    acc->decided = in->seen;
}

/* ---- the run beside it ---- */

static struct kva_session *new_session(struct kva_unit_run *u, struct kva_cell *cell,
                                       uint64_t total, bool all_queries,
                                       struct kva_collect *want)
{
    struct kva_session *s = NULL;
    struct kva_session_opts o;
    int window = 0;

    (void)kva_method_needs(&cell->method, &window);
    o = kva_cell_opts(u, cell, kva_moving_cap(u, cell, total, PROMPT, 0),
                      all_queries ? PROMPT : window, want);
    OK(kva_session_new(model, &o, &s, err));
    return s;
}

/* One block: read, taken down, decided on both sides. */
static void block(struct kva_unit_run *u, struct kva_session *s, struct account *acc,
                  struct kva_own *own, int from, int len, struct tally *t)
{
    const struct kva_method *m = own->method;
    struct kva_decide_in in;
    struct kva_scores base = {0}, wrapped = {0};
    struct kva_decision d = {0};
    struct kva_kv_bytes bytes;

    memset(&in, 0, sizeof in);
    OK(kva_unit_feed(u, s, ids + from, len, NULL, err));
    kva_session_decide_in(s, &in);
    take_down(acc, &in, from);
    if (acc->want.kind == KVA_COLLECT_COLUMNS)
        add_columns(acc, &in, from, from + len);
    kva_kvstore_bytes(kva_session_store(s), &bytes);
    if (bytes.entries_kept <= own->total)
        return;
    if (acc->want.kind == KVA_COLLECT_CHUNKS)
        set_chunks(acc, from + len);
    own->held = bytes.entries_kept;
    own->block_len = len;
    in.seed = own->seed;
    in.block_len = len;
    in.is_block = true;
    in.prompt = own->prompt;
    in.keep = kva_decide_keep(m, own->total, own->held);
    OK(kva_method_score(m, &in, &base, NULL, err));
    OK(kva_method_wrap(m, &in, &base, &wrapped, NULL, err));
    OK(kva_decide_own(s, own, &d, err));
    compare(acc, m, &in, own, wrapped.s != NULL ? &wrapped : &base, &d, t);
    OK(kva_session_keep(s, &d.keep, err));
    kva_scores_release(&base);
    kva_scores_release(&wrapped);
    kva_decision_release(&d);
}

static void follow(const char *text, const char *schedule, int keep_bp, struct tally *t)
{
    static char ref[] = "ref";
    static const struct kva_exec_opts opts;
    static struct account acc;
    struct kva_cell cell = {
        .enforce = KVA_PHYSICAL,
        .numerics = ref,
        .kv = KVA_F32,
        .seed = 42,
        .budget = {KVA_BUDGET_KEEP, keep_bp},
    };
    struct kva_unit un = {.kv = KVA_F32};
    int64_t rows = 0;
    struct kva_unit_run u = {.unit = &un,
                             .opts = &opts,
                             .model = model,
                             .info = info,
                             .chunk = 32,
                             .context_fnv = 7,
                             .rows = &rows};
    struct kva_own own = {.method = &cell.method, .is_block = true};
    struct kva_stream in = {.cell = &cell, .ids = ids, .n = PROMPT};
    struct kva_prefill_out out;
    struct kva_session *s, *alone;
    struct kva_collect want;
    uint8_t sha256[32] = {0};

    snprintf(now, sizeof now, "%s, %s, keep %d", text, schedule, keep_bp);
    OK(kva_schedule_parse(schedule, &cell.schedule, err));
    OK(kva_method_parse(text, &cell.schedule, &cell.method, err));
    OK(kva_method_bind(&cell.method, NULL, sha256, info->layers, info->kv_heads, err));
    in.total = kva_cell_total(&u, &cell, PROMPT);
    own.seed = kva_unit_seed(&u, &cell);
    memset(&acc, 0, sizeof acc);
    acc.want = kva_method_collect(&cell.method);
    s = new_session(&u, &cell, in.total, true, &want);
    for (int at = 0; at < PROMPT; at += cell.schedule.block) {
        int len = PROMPT - at < cell.schedule.block ? PROMPT - at : cell.schedule.block;
        bool moving = cell.schedule.kind == KVA_CHUNKED;

        own.prompt = moving ? at + len : PROMPT;
        own.total = moving ? kva_cell_total(&u, &cell, at + len) : in.total;
        block(&u, s, &acc, &own, at, len, t);
    }
    /* and that is what a cell of the schedule does */
    alone = new_session(&u, &cell, in.total, false, &want);
    OK(kva_prefill_own(&u, alone, &in, &out, NULL, err));
    assert_int_equal(kva_kvstore_kept_fnv(kva_session_store(s)),
                     kva_kvstore_kept_fnv(kva_session_store(alone)));
    kva_session_free(s);
    kva_session_free(alone);
    kva_method_release(&cell.method);
}

static void follow_all(const char *text, struct tally *t)
{
    follow(text, "block:16", 5000, t);
    follow(text, "block:23", 3000, t);
    follow(text, "chunked:24", 4000, t);
}

/* Parameters for which a prompt of this length has something to decide; where none are
 * given the defaults do. */
static const char *short_form(const char *name)
{
    static const struct {
        const char *name, *text;
    } forms[] = {{"compactor", ":chunk=7,lev_chunk=20,recent=5,sinks=3"},
                 {"noncausal", ":chunk=7"},
                 {"lagkv", ":lag=6,sinks=2"},
                 {"snapkv", ":window=8"},
                 {"valuediff_attn", ":window=8"},
                 {"obcache", ":window=8"},
                 {"dropkv", ":window=8"},
                 {"cake", ":window=8"},
                 {"lava", ":window=8"}};

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].name, name) == 0)
            return forms[i].text;
    return "";
}

static void every_scorer_decides_by_the_lists_of_what_stays(void **state)
{
    struct tally t = {0};
    int scorers = 0;

    (void)state;
    for (int i = 0; kva_scorers()[i] != NULL; i++) {
        const struct kva_scorer *sc = kva_scorers()[i];
        char text[160], path[64] = "";

        if (sc->oneshot_only)
            continue;
        snprintf(text, sizeof text, "%s%s", sc->name, short_form(sc->name));
        if (sc->table_kind != NULL) {
            struct kva_table f = {.layers = info->layers,
                                  .kv_heads = info->kv_heads,
                                  .columns = info->head_dim};
            int n = f.layers * f.kv_heads * f.columns;

            assert_string_equal(sc->table_kind, "qfilter");
            snprintf(f.kind, sizeof f.kind, "%s", sc->table_kind);
            f.data = calloc((size_t)n, sizeof *f.data);
            assert_non_null(f.data);
            for (int x = 0; x < n; x++)
                f.data[x] = sin(1.7 * x);
            snprintf(path, sizeof path, "/tmp/kva-rules-%d", (int)getpid());
            OK(kva_table_write(path, &f, "any", "by a test", err));
            kva_table_release(&f);
            snprintf(text, sizeof text, "%s:filter=%s", sc->name, path);
        }
        follow_all(text, &t);
        if (path[0] != '\0')
            (void)unlink(path);
        scorers++;
    }
    print_message("%d scorers, %d decisions, %d of them differ at a near-tie; largest "
                  "error of a score %.2g of its tolerance\n",
                  scorers, t.decisions, t.other, t.worst);
    assert_true(scorers >= 26 && t.decisions > 1500 && t.other * 100 <= t.decisions);
}

/* Forms the defaults leave out: sums that are means, without protection, beside another
 * chunk, and values that move the scores of a base. */
static void other_forms_of_stateful_scorers_follow_too(void **state)
{
    static const char *const forms[] = {"h2o:recent_share=0",
                                        "h2o_block:recent_share=0,reduce=mean",
                                        "observed:viewers=0",
                                        "noncausal:chunk=16,vnorm=0",
                                        "compactor:chunk=256,recent=0,sinks=0,vnorm=1",
                                        "expected_attention:cov=0,future=3",
                                        "obcache:base=tova",
                                        "snapkv:kernel=7,pool=max,window=32"};
    static const char *const bases[] = {"tova", "snapkv:window=8", "h2o"};
    struct tally t = {0};
    int wrapped = 0;

    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        follow_all(forms[i], &t);
    for (int i = 0; kva_wrappers()[i] != NULL; i++) {
        const struct kva_wrapper *w = kva_wrappers()[i];
        char text[160];

        if (w->rescore == NULL || w->promote != NULL || w->pick != NULL ||
            w->resize != NULL || w->wide != NULL)
            continue; /* more than scores */
        for (int j = 0; j < 3; j++) {
            struct kva_method m;
            struct kva_error why = {0};
            struct kva_schedule block = {.kind = KVA_BLOCK, .block = 16};

            snprintf(text, sizeof text, "%s+%s", bases[j], w->name);
            if (kva_method_parse(text, &block, &m, &why) != KVA_OK)
                continue;
            kva_method_release(&m);
            follow_all(text, &t);
            wrapped++;
        }
    }
    print_message("%d wrapped, %d decisions, %d of them differ at a near-tie; largest "
                  "error of a score %.2g of its tolerance\n",
                  wrapped, t.decisions, t.other, t.worst);
    assert_true(wrapped >= 4 && t.other * 100 <= t.decisions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scorer_decides_by_the_lists_of_what_stays),
        cmocka_unit_test(other_forms_of_stateful_scorers_follow_too),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
