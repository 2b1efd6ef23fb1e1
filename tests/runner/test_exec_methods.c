/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_exec_methods.c - every scorer, wrapper and allocator of the registry under every
 * schedule: masked and evicted caches give the same numbers, layerwise keeps the sets of
 * oneshot at a lower peak, every length and budget leaves 1 to n entries, and the store
 * holds what was claimed to the page. New methods are covered by being registered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runner/exec_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/replay.h"

#define OK(expr)                                                                         \
    do {                                                                                 \
        struct kva_error *err = &test_error;                                             \
        *err = (struct kva_error){0};                                                    \
        if ((expr) != KVA_OK)                                                            \
            fail_msg("%s: %s: %s", now, #expr, err->text);                               \
    } while (0)
static struct kva_error test_error;
static char now[700]; /* what is being tried */

enum { MAX_IDS = 160, ASKED = 5, QUESTION = 7, GOLD = 4, STEPS = 7 };

static struct kva_model *model;
static const struct kva_model_info *info;
static int32_t ids[MAX_IDS];
static const int32_t gold[GOLD] = {70, 71, 72, 73};

static int setup(void **state)
{
    (void)state;
    OK(kva_model_open("builtin:tiny-llama", &(struct kva_model_opts){.numerics = "ref"},
                      &model, err));
    info = kva_model_info(model);
    for (int i = 0; i < MAX_IDS; i++)
        ids[i] = (37 * i + i * i / 7 + 11) % 251;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kva_model_close(model);
    return 0;
}

/* ---- methods as texts ---- */

enum { MAX_TEXTS = 1200 };
static char *texts[MAX_TEXTS];
static int n_texts, n_refused;

/* Columns of a table of each kind; a new kind is added here. */
static int columns_of(const char *kind)
{
    static const struct {
        const char *kind;
        int columns;
    } known[] = {{"qfilter", 0}, {"duo", 1}, {"headkv", 1}, {"budgets", 1}, {"lukv", 99}};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].kind, kind) == 0)
            return known[i].columns > 0 ? known[i].columns : info->head_dim;
    fail_msg("a table of the kind %s is not known here", kind);
    return 0;
}

/* ":name=FILE" of a table made for the test; "" where none is read. */
static void table_text(const char *kind, const struct kva_param *p, char out[160])
{
    struct kva_table t = {.layers = info->layers, .kv_heads = info->kv_heads};
    char path[100];

    out[0] = '\0';
    if (kind == NULL)
        return;
    snprintf(path, sizeof path, "/tmp/kva-methods-%d-%s", (int)getpid(), kind);
    snprintf(t.kind, sizeof t.kind, "%s", kind);
    t.columns = columns_of(kind);
    t.data = calloc((size_t)(t.layers * t.kv_heads * t.columns), sizeof *t.data);
    assert_non_null(t.data);
    for (int i = 0; i < t.layers * t.kv_heads * t.columns; i++)
        t.data[i] =
            0.05 + 0.9 * (i % t.columns + 1) / (t.columns + 1) + 0.04 * (i % 7) / 7;
    OK(kva_table_write(path, &t, "any", "by a test", err));
    kva_table_release(&t);
    while (p->type != KVA_PARAM_FILE)
        p++;
    snprintf(out, 160, ":%s=%s%s", p->name, path,
             strcmp(kind, "budgets") == 0 ? ",as=shares" : "");
}

static void remove_tables(void)
{
    static const char *const kinds[] = {"qfilter", "duo", "headkv", "budgets", "lukv"};
    char path[100];

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(path, sizeof path, "/tmp/kva-methods-%d-%s", (int)getpid(), kinds[i]);
        (void)unlink(path);
    }
}

static bool parses(const char *text, const char *schedule, struct kva_cell *c)
{
    static char ref[] = "ref";
    struct kva_error why = {0};
    uint8_t sha256[32] = {0};

    snprintf(now, sizeof now, "%s, %s", text, schedule);
    *c = (struct kva_cell){
        .enforce = KVA_PHYSICAL, .numerics = ref, .kv = KVA_F32, .seed = 42};
    OK(kva_schedule_parse(schedule, &c->schedule, err));
    if (kva_method_parse(text, &c->schedule, &c->method, &why) != KVA_OK) {
        assert_true(why.text[0] != '\0'); /* a refusal says why */
        return false;
    }
    OK(kva_method_bind(&c->method, NULL, sha256, info->layers, info->kv_heads, err));
    if (c->method.scorer->question_aware)
        c->visibility = KVA_AWARE;
    return true;
}

static void add_text(const char *text)
{
    struct kva_cell c;

    if (!parses(text, "oneshot", &c)) {
        n_refused++;
        return;
    }
    kva_method_release(&c.method);
    assert_true(n_texts < MAX_TEXTS);
    texts[n_texts++] = strdup(text);
}

/* A scorer alone, then with each allocator, each wrapper, and some of both. */
static void list_methods(void)
{
    if (n_texts > 0)
        return;
    for (int i = 0; kva_scorers()[i] != NULL; i++) {
        const struct kva_scorer *s = kva_scorers()[i];
        const struct kva_wrapper *w = NULL;
        char at[160], to[160], text[700];
        int n_wrappers = 0;

        table_text(s->table_kind, s->params, at);
        add_text((snprintf(text, sizeof text, "%s%s", s->name, at), text));
        while (kva_wrappers()[n_wrappers] != NULL)
            n_wrappers++;
        for (int j = 0; kva_wrappers()[j] != NULL; j++) {
            w = kva_wrappers()[j];
            add_text(
                (snprintf(text, sizeof text, "%s%s+%s", s->name, at, w->name), text));
        }
        for (int j = 0; kva_allocators()[j] != NULL; j++) {
            const struct kva_allocator *a = kva_allocators()[j];

            if (at[0] != '\0' && a->table_kind != NULL)
                continue; /* a method reads one file */
            table_text(a->table_kind, a->params, to);
            add_text((snprintf(text, sizeof text, "%s%s+%s%s", s->name, at, a->name, to),
                      text));
            w = kva_wrappers()[(i + j) % n_wrappers];
            add_text((snprintf(text, sizeof text, "%s%s+%s%s+%s", s->name, at, a->name,
                               to, w->name),
                      text));
        }
    }
}

static bool plain(const char *text)
{
    return strchr(text, '+') == NULL;
}

/* ---- one cell, from the prompt to the answer ---- */

struct trace {
    uint64_t kept, end, held, peak, masked, alloc;
    int32_t said[STEPS];
    int n_said;
    double first_nll, gold_sum;
};

static enum kva_status ended(void *ctx, struct kva_run_cell **cells, int n,
                             struct kva_error *err)
{
    (void)ctx;
    (void)cells;
    (void)n;
    (void)err;
    return KVA_OK;
}

/* One chunk of all tokens behind the first four, for methods that repeat the prompt. */
static void replay(struct kva_session *s, const struct kva_collect *want, int n)
{
    int32_t fed[2 * MAX_IDS];
    struct kva_replay_chunk c = {.ids = fed, .n = 3 + n - 4, .from = 4, .to = n};
    const struct kva_replay r = {.chunk = &c, .n = n > 4};

    if (want->kind != KVA_COLLECT_REPLAY)
        return;
    for (int i = 0; i < c.n; i++)
        fed[i] = i < 3 ? 200 + i : ids[4 + i - 3];
    OK(kva_replay(model, s, want, &r, NULL, err));
}

static struct kva_unit_run unit(const struct kva_exec_opts *opts,
                                const struct kva_unit *un, int64_t *rows)
{
    return (struct kva_unit_run){.unit = un,
                                 .opts = opts,
                                 .model = model,
                                 .info = info,
                                 .chunk = 32,
                                 .context_fnv = 7,
                                 .rows = rows};
}

/* The first n ids are the prompt, `asked` of them the question where the method reads it.
 */
static struct trace run(struct kva_cell *cell, int n, uint64_t total)
{
    static const struct kva_exec_opts opts;
    struct kva_unit un = {.kv = KVA_F32};
    int64_t rows = 0;
    struct kva_unit_run u = unit(&opts, &un, &rows);
    struct kva_stream in = {.cell = cell, .ids = ids, .n = n, .total = total};
    struct kva_own own = {.method = &cell->method,
                          .total = total,
                          .held = (uint64_t)(n * info->layers * info->kv_heads),
                          .seed = kva_unit_seed(&u, cell),
                          .prompt = n,
                          .block_len = n};
    struct kva_run_cell rc = {.cell = cell,
                              .ids = ids + n,
                              .n_ids = QUESTION,
                              .gold = gold,
                              .n_gold = GOLD,
                              .max_new = STEPS,
                              .budget_total = total,
                              .prompt = n,
                              .tok = kva_model_tokenizer(model),
                              .seed = kva_unit_seed(&u, cell)};
    struct kva_run_cell *cells = &rc;
    struct kva_prefill_out out;
    struct kva_decision d = {0};
    struct kva_session_opts o;
    struct kva_collect want;
    struct kva_kv_bytes b;
    struct trace t = {0};
    int window = 0;

    in.n_question = own.question = cell->visibility == KVA_AWARE ? ASKED : 0;
    (void)kva_method_needs(&cell->method, &window);
    o = kva_cell_opts(&u, cell,
                      kva_prefills_own(cell)
                          ? kva_moving_cap(&u, cell, total, n, QUESTION + GOLD + STEPS)
                          : kva_page_cap(info, NULL, n, QUESTION + GOLD + STEPS),
                      window + GOLD, &want);
    own.united = cell->enforce == KVA_UNION;
    OK(kva_session_new(model, &o, &rc.session, err));
    OK(kva_cell_layout(&u, cell, rc.session, err));
    if (kva_prefills_own(cell)) {
        OK(kva_prefill_own(&u, rc.session, &in, &out, NULL, err));
    } else {
        OK(kva_unit_feed(&u, rc.session, ids, n, NULL, err));
        replay(rc.session, &want, n);
        OK(kva_decide_own(rc.session, &own, &d, err));
        OK(kva_session_keep(rc.session, &d.keep, err));
        OK(kva_kvstore_trim(kva_session_store(rc.session), err));
        kva_decision_release(&d);
    }
    OK(kva_kvstore_check(kva_session_store(rc.session), err));
    kva_kvstore_bytes(kva_session_store(rc.session), &b);
    t.held = b.entries_kept;
    t.masked = b.entries_masked;
    t.peak = b.peak_bytes;
    t.alloc = b.alloc_bytes;
    t.kept = kva_kvstore_kept_fnv(kva_session_store(rc.session));
    if (kva_method_rotates(&cell->method))
        OK(kva_session_rerotate(rc.session, err));
    rc.gen = t.said;
    OK(kva_wave_run(model, &cells, 1, 64, NULL, ended, NULL, &rows, err));
    if (rc.failed.code != KVA_OK)
        fail_msg("%s: %s", now, rc.failed.text);
    assert_true(rc.has_gold);
    t.end = kva_kvstore_kept_fnv(kva_session_store(rc.session));
    t.n_said = rc.n_gen;
    t.first_nll = rc.first_nll;
    t.gold_sum = rc.gold_sum;
    kva_session_free(rc.session);
    return t;
}

static void same(const struct trace *a, const struct trace *b)
{
    if (a->kept != b->kept || a->end != b->end)
        fail_msg("%s: kept sets differ", now);
    if (a->n_said != b->n_said || memcmp(a->said, b->said, sizeof a->said) != 0 ||
        memcmp(&a->first_nll, &b->first_nll, sizeof a->first_nll) != 0 ||
        memcmp(&a->gold_sum, &b->gold_sum, sizeof a->gold_sum) != 0)
        fail_msg("%s: answers differ", now);
}

static const char *const schedules[] = {"oneshot",
                                        "layerwise",
                                        "block:16",
                                        "chunked:24",
                                        "oneshot+decode:1",
                                        "block:23+decode:3",
                                        "chunked:32+decode:1",
                                        "layerwise+decode:2"};
enum { N_SCHEDULES = sizeof schedules / sizeof *schedules, PROMPT = 70 };
/* Under a sanitizer, which slows all this down, one of EVERY pairs and lengths. */
#ifdef __SANITIZE_ADDRESS__
enum { EVERY = 3 };
#else
enum { EVERY = 1 };
#endif

static void masked_and_evicted_caches_agree_for_all_methods_and_schedules(void **state)
{
    const uint64_t heads = (uint64_t)(info->layers * info->kv_heads);
    uint64_t seen = 0, first = 0;
    int pairs = 0;

    (void)state;
    list_methods();
    for (int i = 0; i < n_texts; i++)
        for (int j = 0; j < N_SCHEDULES; j++) {
            uint64_t total = (i + j) % 2 == 0 ? 35 * heads : 13 * heads + 3;
            struct kva_cell cell;
            struct trace p, q;

            if (!plain(texts[i]) && (i + j) % N_SCHEDULES != 0)
                continue;
            if ((i + j) % EVERY != 0 || !parses(texts[i], schedules[j], &cell))
                continue;
            cell.budget =
                (struct kva_budget){KVA_BUDGET_TOKENS, (int64_t)(total / heads)};
            p = run(&cell, PROMPT, total);
            if (kva_method_rotates(&cell.method)) {
                kva_method_release(&cell.method);
                continue; /* a masked cache cannot */
            }
            cell.enforce = KVA_MASK;
            q = run(&cell, PROMPT, total);
            same(&p, &q);
            if (cell.method.wrapper == NULL || cell.method.wrapper->resize == NULL)
                assert_true(p.held <= total);
            if (p.held < PROMPT * heads)
                assert_true(q.masked > 0);
            assert_int_equal(p.masked, 0);
            first = pairs == 0 ? p.end : first;
            seen |= p.end ^ first; /* not all of them keep the same */
            pairs++;
            kva_method_release(&cell.method);
        }
    print_message("%d methods, %d texts refused, %d pairs\n", n_texts, n_refused, pairs);
    assert_true(pairs * EVERY > 250 && seen != 0);
}

static void layerwise_keeps_the_sets_of_oneshot_at_a_lower_peak(void **state)
{
    const uint64_t heads = (uint64_t)(info->layers * info->kv_heads), n = 150;
    int pairs = 0;

    (void)state;
    list_methods();
    for (int i = 0; i < n_texts; i++) {
        struct kva_cell once, layers;
        struct trace p, q;

        if (!plain(texts[i]) && i % 7 != 0)
            continue;
        if (!parses(texts[i], "oneshot", &once))
            continue;
        if (!parses(texts[i], "layerwise", &layers)) {
            kva_method_release(&once.method);
            continue;
        }
        p = run(&once, (int)n, n / 4 * heads);
        q = run(&layers, (int)n, n / 4 * heads);
        same(&p, &q);
        if (p.held < n * heads / 2)
            assert_true(q.peak < p.peak);
        kva_method_release(&once.method);
        kva_method_release(&layers.method);
        pairs++;
    }
    assert_true(pairs > 50);
}

/* ---- layouts of published caches ---- */

static void padded_and_repeated_caches_answer_alike_and_hold_more(void **state)
{
    const uint64_t heads = (uint64_t)(info->layers * info->kv_heads),
                   total = 150 / 4 * heads;
    static const char *const some[] = {"knorm+adakv", "snapkv:window=8+adakv",
                                       "keydiff+uniform", "random+global"};

    (void)state;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < N_SCHEDULES; j++) {
            struct kva_cell cell;
            struct trace p, padded, qhead, all;

            if (!parses(some[i], schedules[j], &cell))
                continue;
            cell.budget = (struct kva_budget){KVA_BUDGET_TOKENS, 150 / 4};
            p = run(&cell, 150, total);
            cell.enforce = KVA_PADDED;
            padded = run(&cell, 150, total);
            same(&p, &padded);
            assert_true(padded.alloc >= p.alloc && padded.peak >= p.peak);
            cell.enforce = KVA_QHEAD;
            qhead = run(&cell, 150, total);
            same(&p, &qhead);
            assert_int_equal(qhead.alloc,
                             p.alloc * (uint64_t)(info->heads / info->kv_heads));
            cell.enforce = KVA_UNION;
            all = run(&cell, 150, total);
            assert_true(all.held >= p.held && all.alloc >= p.alloc);
            if (i < 2) /* heads differ */
                assert_true(all.held > p.held && all.masked == 0);
        }
}

static void overwritten_keys_say_and_hold_what_a_mask_does(void **state)
{
    const uint64_t heads = (uint64_t)(info->layers * info->kv_heads);
    static const char *const some[] = {"knorm+adakv", "snapkv:window=8", "random+global"};

    (void)state;
    assert_true(kva_model_attn_softcap(model) == 0); /* else it would be refused */
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < N_SCHEDULES; j++) {
            struct kva_cell cell;
            struct trace mask, fake;

            if (!parses(some[i], schedules[j], &cell))
                continue;
            cell.budget = (struct kva_budget){KVA_BUDGET_TOKENS, 20};
            cell.enforce = KVA_MASK;
            mask = run(&cell, PROMPT, 20 * heads);
            cell.enforce = KVA_FAKEKEY;
            fake = run(&cell, PROMPT, 20 * heads);
            same(&mask, &fake); /* tokens and every bit of the nats among it */
            assert_memory_equal(&mask.gold_sum, &fake.gold_sum, sizeof(double));
            assert_true(fake.masked > 0 && fake.masked == mask.masked);
            assert_int_equal(fake.held, mask.held);
            assert_int_equal(fake.alloc, mask.alloc);
            assert_int_equal(fake.peak, mask.peak);
            assert_true(fake.held + fake.masked >= PROMPT * heads); /* nothing freed */
            kva_method_release(&cell.method);
        }
}

/* ---- every length, every budget ---- */

static void check_decision(const struct kva_method *m, const struct kva_decision *d,
                           const struct kva_kvstore *store, uint64_t total)
{
    int h = info->kv_heads, c = info->layers * h;
    uint64_t sum = 0;

    for (int i = 0; i < c; i++) {
        size_t kept = d->keep.off[i + 1] - d->keep.off[i];
        int live = kva_kvstore_live(store, i / h, i % h);

        if (kept < 1 || kept > (size_t)live)
            fail_msg("%s: %zu of %d entries stay in KV head %d", now, kept, live, i);
        sum += kept;
    }
    assert_int_equal(sum, d->total);
    if (m->wrapper == NULL || m->wrapper->resize == NULL)
        assert_int_equal(sum, total);
}

/* A copy of what stays holds its pages and not one more; it fits no smaller cap. */
static void check_bytes(const struct kva_session *s, const struct kva_decision *d)
{
    struct kva_session_opts o = {.kv = KVA_F32,
                                 .page_cap = kva_page_cap(info, &d->keep, 0, 0)};
    struct kva_session *copy = NULL;
    struct kva_error why = {0};
    struct kva_kv_bytes b;

    OK(kva_session_fork(s, &d->keep, &o, &copy, err));
    kva_kvstore_bytes(kva_session_store(copy), &b);
    assert_int_equal(b.live_bytes, d->total * b.row_bytes);
    assert_int_equal(b.alloc_bytes, o.page_cap * KVA_PAGE * b.row_bytes);
    assert_int_equal(b.entries_masked, 0);
    kva_session_free(copy);
    o.page_cap--;
    assert_int_equal(o.page_cap == 0 ? KVA_EBUDGET
                                     : kva_session_fork(s, &d->keep, &o, &copy, &why),
                     KVA_EBUDGET);
}

/* What a cell of the schedule would be given, filled until it refuses: at the first entry
 * whose page the cap has not, and nothing is written then. With one page less the prompt
 * or what stays of it is refused already, unless the cap leaves room for an answer. */
static void check_cap(struct kva_cell *cell, int n, uint64_t total)
{
    static const struct kva_exec_opts opts;
    struct kva_unit un = {.kv = KVA_F32};
    int64_t rows = 0;
    struct kva_unit_run u = unit(&opts, &un, &rows);
    const struct kva_stream in = {.cell = cell, .ids = ids, .n = n, .total = total};
    size_t cap = kva_prefills_own(cell) ? kva_moving_cap(&u, cell, total, n, 0)
                                        : kva_page_cap(info, NULL, n, 0);
    int window = 0, refused = 0;

    (void)kva_method_needs(&cell->method, &window);
    for (int less = 0; less < 2; less++) {
        struct kva_own own = {.method = &cell->method,
                              .total = total,
                              .held = (uint64_t)(n * info->layers * info->kv_heads),
                              .prompt = n,
                              .block_len = n};
        struct kva_collect want;
        struct kva_session_opts o =
            kva_cell_opts(&u, cell, cap - (size_t)less, window, &want);
        struct kva_session *s = NULL;
        struct kva_kvstore *store;
        struct kva_prefill_out out;
        struct kva_decision d = {0};
        struct kva_error why = {0};
        struct kva_kv_bytes before, after;
        int seen;

        OK(kva_session_new(model, &o, &s, err));
        store = kva_session_store(s);
        if ((kva_prefills_own(cell)
                 ? kva_prefill_own(&u, s, &in, &out, NULL, &why)
                 : kva_unit_feed(&u, s, ids, n, NULL, &why)) != KVA_OK) {
            assert_int_equal(why.code, KVA_EBUDGET);
            refused++;
            kva_session_free(s);
            continue;
        }
        if (!kva_prefills_own(cell)) {
            OK(kva_decide_own(s, &own, &d, err));
            OK(kva_session_keep(s, &d.keep, err));
            OK(kva_kvstore_trim(store, err));
            kva_decision_release(&d);
        }
        do {
            seen = kva_session_seen(s);
            kva_kvstore_bytes(store, &before);
        } while (kva_prefill(model, s, ids, 1, 0, NULL, &why) == KVA_OK);
        assert_int_equal(why.code, KVA_EBUDGET);
        kva_kvstore_bytes(store, &after);
        assert_int_equal(before.live_bytes, after.live_bytes);
        assert_int_equal(before.alloc_bytes, after.alloc_bytes);
        assert_int_equal(kva_session_seen(s), seen);
        OK(kva_kvstore_check(store, err));
        /* the next entry of every KV head needs more pages than the cap has left */
        assert_true(after.alloc_bytes <= o.page_cap * KVA_PAGE * after.row_bytes);
        assert_true(after.alloc_bytes / (KVA_PAGE * after.row_bytes) +
                        kva_kvstore_pages_for(store, 1) >
                    o.page_cap);
        kva_session_free(s);
    }
    if (cell->schedule.kind == KVA_ONESHOT)
        assert_int_equal(refused, 1);
}

static void appending_past_the_page_cap_fails_under_every_schedule(void **state)
{
    static const char *const methods[] = {"keydiff", "knorm+global:norm=z", "h2o+adakv",
                                          "snapkv:window=8+pyramid"};
    const uint64_t heads = (uint64_t)(info->layers * info->kv_heads);

    (void)state;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        for (int k = 0; k < N_SCHEDULES; k++) {
            struct kva_cell cell;

            if (!parses(methods[i], schedules[k], &cell))
                continue;
            check_cap(&cell, PROMPT, heads * 24);
            check_cap(&cell, 64, heads * 32);
            kva_method_release(&cell.method);
        }
}

static void every_length_and_budget_leaves_one_to_n_entries(void **state)
{
    static const int64_t keeps[] = {1, 2500, 5000, 7500, 9999};
    const int heads = info->layers * info->kv_heads;
    int decisions = 0;

    (void)state;
    list_methods();
    for (int i = 0; i < n_texts; i++) {
        struct kva_cell cell;
        struct kva_session *s = NULL;
        struct kva_session_opts o = {.kv = KVA_F32, .page_cap = 1000};
        struct kva_collect want;

        if (!parses(texts[i], "oneshot", &cell))
            continue;
        want = kva_method_collect(&cell.method);
        o.collect = &want;
        o.n_collect = want.kind != KVA_COLLECT_NONE;
        (void)kva_method_needs(&cell.method, &o.q_window);
        for (int n = 1; n <= 64;
             n += plain(texts[i]) ? EVERY : EVERY + (n * 5 + i) % 23) {
            snprintf(now, sizeof now, "%s, %d entries", texts[i], n);
            OK(kva_session_new(model, &o, &s, err));
            OK(kva_prefill(model, s, ids, n, 0, NULL, err));
            replay(s, &want, n);
            for (size_t k = 0; k < sizeof keeps / sizeof *keeps; k++) {
                struct kva_own own = {
                    .method = &cell.method,
                    .total = (uint64_t)(heads * kva_budget_keep(n, keeps[k])),
                    .held = (uint64_t)(heads * n),
                    .seed = 42,
                    .prompt = n,
                    .block_len = n,
                    .question = cell.visibility == KVA_AWARE};
                struct kva_decision d;

                OK(kva_decide_own(s, &own, &d, err));
                check_decision(&cell.method, &d, kva_session_store(s), own.total);
                if ((n + (int)k + i) % 16 == 0)
                    check_bytes(s, &d);
                kva_decision_release(&d);
                decisions++;
            }
            kva_session_free(s);
        }
        kva_method_release(&cell.method);
    }
    print_message("%d decisions\n", decisions);
    for (int i = 0; i < n_texts; i++)
        free(texts[i]);
    remove_tables();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masked_and_evicted_caches_agree_for_all_methods_and_schedules),
        cmocka_unit_test(layerwise_keeps_the_sets_of_oneshot_at_a_lower_peak),
        cmocka_unit_test(padded_and_repeated_caches_answer_alike_and_hold_more),
        cmocka_unit_test(overwritten_keys_say_and_hold_what_a_mask_does),
        cmocka_unit_test(appending_past_the_page_cap_fails_under_every_schedule),
        cmocka_unit_test(every_length_and_budget_leaves_one_to_n_entries),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
