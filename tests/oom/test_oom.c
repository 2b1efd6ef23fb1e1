/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_oom.c - out of memory in models, methods, tasks, files that people write, metrics
 * and statistics (exhaust.h says how; test_oom_db.c has the databases). */
#include "tests/oom/exhaust.h"

#include "methods/lukv.h"
#include "methods/method.h"
#include "metrics/metric.h"
#include "models/calibrate.h"
#include "models/model.h"
#include "models/replay.h"
#include "reports/published.h"
#include "runner/gate_file.h"
#include "runner/score.h"
#include "tasks/task.h"

#include <math.h>

enum { PAGES = 4096, TOKENS = 40 };

/* ---- models ---- */

static enum kva_status parse_gguf(void *ctx, struct kva_error *err)
{
    const struct kva_buf *file = ctx;
    struct kva_gguf *g = NULL;
    struct kva_tokenizer *tok = NULL;
    enum kva_status rc;

    KVA_GO(kva_gguf_parse(file->data, file->len, "small", &g, err));
    assert_int_equal(kva_gguf_tensors(g), 1);
    KVA_GO(kva_tokenizer_from_gguf(g, &tok, err));
    assert_int_equal(kva_tokenizer_size(tok), 9);
out:
    kva_tokenizer_free(tok);
    kva_gguf_close(g);
    return rc;
}

static enum kva_status write_gguf(void *ctx, struct kva_error *err)
{
    static const char *const tokens[] = {"t",     "h",      "e",        "th", "the",
                                         "<|a|>", "<|a|>b", "\xc4\xa0", "a"};
    static const int32_t types[] = {1, 1, 1, 1, 1, 3, 3, 1, 1};
    static const char *const merges[] = {"t h", "th e"};
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    const uint64_t ne[2] = {3, 2};
    struct kva_buf *file = ctx;
    struct kva_gguf_writer *w = NULL;
    enum kva_status rc;

    kva_buf_release(file);
    KVA_GO(kva_gguf_writer_new(&w, err));
    kva_gguf_put_str(w, "general.architecture", "llama", 5);
    kva_gguf_put_str(w, "tokenizer.ggml.model", "gpt2", 4);
    kva_gguf_put_str(w, "tokenizer.ggml.pre", "smollm", 6);
    kva_gguf_put_strs(w, "tokenizer.ggml.tokens", tokens, NULL, 9);
    kva_gguf_put_i32s(w, "tokenizer.ggml.token_type", types, 9);
    kva_gguf_put_strs(w, "tokenizer.ggml.merges", merges, NULL, 2);
    kva_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 5);
    kva_gguf_put_tensor(w, "matrix", KVA_F32, ne, 2, x);
    KVA_GO(kva_gguf_finish(w, file, err));
out:
    kva_gguf_writer_free(w);
    if (rc != KVA_OK)
        kva_buf_release(file);
    return rc;
}

static enum kva_status write_and_drop(void *ctx, struct kva_error *err)
{
    enum kva_status rc = write_gguf(ctx, err);

    kva_buf_release(ctx);
    return rc;
}

static void writing_and_reading_a_model_file(void **state)
{
    struct kva_buf file;
    struct kva_error err = {0};

    (void)state;
    kva_buf_init(&file, 0);
    exhaust("gguf writer", write_and_drop, &file);
    assert_int_equal(write_gguf(&file, &err), KVA_OK);
    assert_true(exhaust("kva_gguf_parse, tokenizer", parse_gguf, &file) > 5);
    kva_buf_release(&file);
}

static enum kva_status open_model(void *ctx, struct kva_error *err)
{
    struct kva_model *m = NULL;
    enum kva_status rc = kva_model_open(ctx, &(struct kva_model_opts){0}, &m, err);

    if (rc == KVA_OK)
        assert_int_equal(kva_model_info(m)->head_dim > 0, 1);
    else
        assert_null(m);
    kva_model_close(m);
    return rc;
}

static void opening_a_model(void **state)
{
    static char tiny_llama[] = "builtin:tiny-llama", computed[] = "builtin:retrieval";

    (void)state;
    assert_true(exhaust("kva_model_open tiny-llama", open_model, tiny_llama) > 20);
    assert_true(exhaust("kva_model_open retrieval", open_model, computed) > 5);
}

static struct kva_model *tiny, *retrieval;

static int open_both(void **state)
{
    (void)state;
    return kva_model_open("builtin:tiny-llama", NULL, &tiny, NULL) ||
           kva_model_open("builtin:retrieval", NULL, &retrieval, NULL);
}

static int close_both(void **state)
{
    (void)state;
    kva_model_close(tiny);
    kva_model_close(retrieval);
    return 0;
}

static const struct kva_session_opts session_opts = {
    .kv = KVA_F16, .page_cap = PAGES, .q_window = 8};

static void some_ids(int32_t ids[TOKENS])
{
    for (int i = 0; i < TOKENS; i++)
        ids[i] = (37 * i + 11) % 251;
}

/* Keeps every other entry of each KV head. */
static struct kva_keep half(const struct kva_kvstore *store)
{
    const struct kva_kvshape *shape = kva_kvstore_shape(store);
    int heads = shape->layers * shape->kv_heads;
    struct kva_keep keep = {.layers = shape->layers, .kv_heads = shape->kv_heads};

    keep.off = calloc((size_t)heads + 1, sizeof *keep.off);
    keep.rank = calloc((size_t)heads * TOKENS, sizeof *keep.rank);
    for (int c = 0; c < heads; c++) {
        keep.off[c + 1] = keep.off[c] + TOKENS / 2;
        for (int i = 0; i < TOKENS / 2; i++)
            keep.rank[keep.off[c] + (size_t)i] = 2 * i;
    }
    return keep;
}

/* New session, prefill, fork of a half, eviction in place, one token more, rewind. After
 * a failed prefill that left the session whole, the same tokens give the same answer. */
static enum kva_status use_session(void *ctx, struct kva_error *err)
{
    struct kva_model *m = ctx;
    struct kva_session *s = NULL, *f = NULL;
    struct kva_row last = {.target = -1}, again = {.target = -1};
    struct kva_keep keep = {0};
    struct kva_error check = {0};
    int32_t ids[TOKENS];
    static int32_t expected = -1;
    enum kva_status rc;

    some_ids(ids);
    KVA_GO(kva_session_new(m, &session_opts, &s, err));
    rc = kva_prefill(m, s, ids, TOKENS, 16, &last, err);
    if (rc != KVA_OK) {
        if (kva_session_error(s)->code == KVA_OK) {
            kva_alloc_fail_at(0);
            assert_int_equal(kva_session_rewind(s, 0, &check), KVA_OK);
            assert_int_equal(kva_prefill(m, s, ids, TOKENS, 16, &again, &check), KVA_OK);
            assert_int_equal(again.argmax, expected);
            assert_int_equal(kva_kvstore_check(kva_session_store(s), &check), KVA_OK);
            rc = KVA_ENOMEM;
        }
        goto out;
    }
    if (expected < 0)
        expected = last.argmax;
    assert_int_equal(last.argmax, expected);
    keep = half(kva_session_store(s));
    KVA_GO(kva_session_fork(s, &keep, &session_opts, &f, err));
    KVA_GO(kva_kvstore_keep(kva_session_store(s), &keep, err));
    KVA_GO(kva_kvstore_trim(kva_session_store(s), err));
    assert_int_equal(kva_kvstore_kept_fnv(kva_session_store(s)),
                     kva_kvstore_kept_fnv(kva_session_store(f)));
    KVA_GO(kva_prefill(m, f, ids, 1, 0, &last, err));
    KVA_GO(kva_prefill(m, s, ids, 1, 0, &again, err));
    assert_int_equal(last.argmax, again.argmax);
    KVA_GO(kva_session_rewind(s, TOKENS, err));
    KVA_GO(kva_kvstore_check(kva_session_store(s), err));
out:
    kva_keep_release(&keep);
    kva_session_free(s);
    kva_session_free(f);
    return rc;
}

static enum kva_status use_prompt(void *ctx, struct kva_error *err)
{
    static const char context[] = "The grass is green. The sky is blue. Here we go.";
    struct kva_model *m = ctx;
    struct kva_prompt p = {0};
    struct kva_question q = {0};
    struct kva_buf text;
    enum kva_status rc;

    kva_buf_init(&text, 0);
    KVA_GO(kva_prompt_context(m, NULL, context, sizeof context - 1, &p, err));
    KVA_GO(kva_prompt_question(m, NULL, &p, "What is green? ", "Answer:", &q, err));
    assert_true(p.context.n > 5 && q.ids.n > 2);
    KVA_GO(kva_tokenizer_decode(q.tok, q.ids.id, q.ids.n, &text, err));
out:
    kva_buf_release(&text);
    kva_question_release(&q);
    kva_prompt_release(&p);
    return rc;
}

static void sessions_and_prompts(void **state)
{
    (void)state;
    assert_true(exhaust("session new, prefill, fork, keep", use_session, tiny) > 10);
    exhaust("prompt, byte-level tokenizer", use_prompt, tiny);
    exhaust("prompt, word tokenizer", use_prompt, retrieval);
}

/* ---- methods ---- */

struct decide {
    struct kva_method method;
    struct kva_session *session;
    uint64_t fnv; /* of what is kept when nothing fails */
};

static enum kva_status decide(void *ctx, struct kva_error *err)
{
    struct decide *d = ctx;
    struct kva_decide_in in = {.seed = 42};
    struct kva_scores scores = {0};
    struct kva_decision out = {0};
    const struct kva_kvshape *shape = kva_kvstore_shape(kva_session_store(d->session));
    uint64_t total = (uint64_t)(shape->layers * shape->kv_heads * TOKENS / 4), fnv;
    enum kva_status rc;

    kva_session_decide_in(d->session, &in);
    in.block_len = TOKENS;
    KVA_GO(kva_method_score(&d->method, &in, &scores, NULL, err));
    KVA_GO(kva_method_decide(&d->method, &in, &scores, total, &out, NULL, err));
    assert_int_equal(out.total, total);
    fnv = kva_fnv1a64(out.keep.rank, total * sizeof *out.keep.rank);
    if (!d->fnv)
        d->fnv = fnv;
    assert_true(d->fnv == fnv);
out:
    kva_decision_release(&out);
    kva_scores_release(&scores);
    return rc;
}

static void every_method_scores_and_selects(void **state)
{
    static const char *const specs[] = {"random",
                                        "streaming",
                                        "knorm",
                                        "keydiff+adakv:norm=z",
                                        "valuediff+global:norm=z",
                                        "tova",
                                        "snapkv:window=8,kernel=3+adakv",
                                        "snapkv:window=8+global:norm=cell_sum",
                                        "snapkv:group=before,window=8",
                                        "manifoldkv:centroid_window=7",
                                        "valuediff_attn:window=8",
                                        "lagkv:lag=4",
                                        "leverage",
                                        "cur",
                                        "random+pyramid:window=1",
                                        "random+pyramid:compat=1,window=1",
                                        "random+cake:window=4",
                                        "random+lava",
                                        "random+contour",
                                        "random+contour:rule=fixed",
                                        "random+contour:rule=propmass",
                                        "random+headkv:profile=x,window=1",
                                        "random+file:as=shares,profile=x"};
    const struct kva_model_info *info = kva_model_info(tiny);
    double shares[64];
    struct kva_table table = {.kind = "any",
                              .layers = info->layers,
                              .kv_heads = info->kv_heads,
                              .columns = 1,
                              .data = shares};
    const struct kva_schedule oneshot = {0};
    struct kva_error err = {0};
    struct decide d = {0};
    int32_t ids[TOKENS];

    (void)state;
    assert_true(info->layers * info->kv_heads <= 64);
    for (int i = 0; i < 64; i++)
        shares[i] = 1 + i % 3;
    some_ids(ids);
    assert_int_equal(kva_session_new(tiny, &session_opts, &d.session, &err), KVA_OK);
    assert_int_equal(kva_prefill(tiny, d.session, ids, TOKENS, 0, NULL, &err), KVA_OK);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        if (kva_method_parse(specs[i], &oneshot, &d.method, &err) != KVA_OK)
            fail_msg("%s", err.text);
        d.fnv = 0;
        d.method.table = &table; /* read by those that have a profile */
        assert_true(exhaust(specs[i], decide, &d) > 3);
    }
    kva_session_free(d.session);
}

/* A context repeated in chunks, and scored from what that left. */
struct repeat {
    struct kva_session *session;
    struct kva_prompt prompt;
    struct kva_collect want;
};

static enum kva_status repeat(void *ctx, struct kva_error *err)
{
    struct repeat *t = ctx;
    struct kva_replay r = {0};
    uint64_t scratch = 0;
    enum kva_status rc;

    KVA_GO(kva_replay_ids(tiny, NULL, &t->prompt, t->prompt.context.id,
                          (int)t->prompt.context.n, t->want.chunk, &r, err));
    assert_true(r.n > 1);
    KVA_GO(kva_replay(tiny, t->session, &t->want, &r, &scratch, err));
    assert_true(scratch > 0);
out:
    kva_replay_release(&r);
    return rc;
}

static void a_context_is_repeated(void **state)
{
    static const char text[] = "Nothing is at last sacred but the integrity of mind.";
    struct repeat t = {.want = {.kind = KVA_COLLECT_REPLAY, .chunk = 20, .plus = true}};
    struct kva_session_opts opts = session_opts;
    struct kva_error err = {0};

    (void)state;
    opts.collect = &t.want;
    opts.n_collect = 1;
    assert_int_equal(
        kva_prompt_context(tiny, NULL, text, sizeof text - 1, &t.prompt, &err), KVA_OK);
    assert_int_equal(kva_session_new(tiny, &opts, &t.session, &err), KVA_OK);
    assert_int_equal(kva_prefill(tiny, t.session, t.prompt.context.id,
                                 (int)t.prompt.context.n, 0, NULL, &err),
                     KVA_OK);
    assert_true(exhaust("kva_replay", repeat, &t) > 20);
    kva_session_free(t.session);
    kva_prompt_release(&t.prompt);
}

/* Statistics of queries are at hand when the scorer asks; it needs memory of its own. */
static void statistics_are_scored(void **state)
{
    const struct kva_schedule oneshot = {0};
    struct kva_session_opts opts = session_opts;
    struct kva_collect want;
    struct kva_error err = {0};
    struct decide d = {0};
    int32_t ids[TOKENS];

    (void)state;
    some_ids(ids);
    assert_int_equal(
        kva_method_parse("expected_attention+adakv", &oneshot, &d.method, &err), KVA_OK);
    want = kva_method_collect(&d.method);
    opts.collect = &want;
    opts.n_collect = 1;
    assert_int_equal(kva_session_new(tiny, &opts, &d.session, &err), KVA_OK);
    assert_int_equal(kva_prefill(tiny, d.session, ids, TOKENS, 0, NULL, &err), KVA_OK);
    assert_true(exhaust("expected_attention+adakv", decide, &d) > 10);
    kva_session_free(d.session);
}

/* GSL's own small allocations do not pass through the counter. */
static enum kva_status make_filters(void *ctx, struct kva_error *err)
{
    const char *text = ctx;
    const struct kva_qfilter_opts opts = {.sequences = 2, .tokens = 20, .rows = 10};
    struct kva_table t;
    enum kva_status rc = kva_qfilter_calibrate(tiny, text, strlen(text), &opts, &t, err);

    assert_true((rc == KVA_OK) == (t.data != NULL));
    kva_table_release(&t);
    return rc;
}

static void filters_are_calibrated(void **state)
{
    static char text[] =
        "Whoso would be a man must be a nonconformist. Nothing is sacred.";

    (void)state;
    assert_true(exhaust("kva_qfilter_calibrate", make_filters, text) > 10);
}

static enum kva_status make_profile(void *ctx, struct kva_error *err)
{
    const struct kva_lukv_question *q = ctx;
    struct kva_table t;
    enum kva_status rc = kva_lukv_profile(q, 2, &t, err);

    if (rc == KVA_OK)
        assert_true(t.data[50] > 0 && t.data[50] < 1);
    kva_table_release(&t);
    return rc;
}

static void a_profile_is_made(void **state)
{
    float x[3 * 60];
    struct kva_lukv_question q[2] = {{3, 1, 60, x, x, 4, 1}, {3, 1, 60, x, x, 4, 1}};

    (void)state;
    for (int i = 0; i < 3 * 60; i++)
        x[i] = (float)(i * 7 % 60);
    assert_true(exhaust("lukv profile", make_profile, q) > 6);
}

/* ---- tasks ---- */

struct task_case {
    const char *text, *dir;
    bool record;
    uint64_t fnv;
};

static enum kva_status make_item(void *ctx, struct kva_error *err)
{
    struct task_case *c = ctx;
    struct kva_task *task = NULL;
    const struct kva_task_data data[] = {{"longbench", c->dir}, {"math500", c->dir}};
    const struct kva_task_opts opts = {
        .seed = 42, .base_dir = c->dir, .data = data, .n_data = c->dir ? 2 : 0};
    struct kva_arena arena;
    struct kva_buf line;
    struct kva_item item;
    uint64_t fnv;
    enum kva_status rc;

    kva_arena_init(&arena);
    kva_buf_init(&line, 0);
    rc = kva_task_open(c->text, &opts, &task, err);
    if (rc != KVA_OK) {
        assert_null(task);
        goto out;
    }
    KVA_GO(kva_task_item(task, 0, &kva_tok_ws, &arena, &item, err));
    if (c->record)
        KVA_GO(kva_task_record(task, &item, &kva_tok_ws, &line, err));
    else
        kva_buf_puts(&line, item.context);
    KVA_GO(kva_buf_status(&line, err));
    if (!kva_task_gen_json(task, &arena) || !kva_task_source_json(task, &arena)) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "no description");
        goto out;
    }
    fnv = kva_fnv1a64(line.data, line.len);
    if (!c->fnv)
        c->fnv = fnv;
    assert_true(c->fnv == fnv);
out:
    kva_buf_release(&line);
    kva_arena_release(&arena);
    kva_task_close(task);
    return rc;
}

static void every_kind_of_task_makes_an_item(void **state)
{
    /* the record of an item is the same code for all: written once, it takes the longest
     */
    static const struct {
        const char *text;
        bool record;
    } cases[] = {{"ruler/niah_single_1@512", true},
                 {"ruler/niah_single_2@512", false},
                 {"ruler/niah_single_3@512", false},
                 {"ruler/niah_multikey_1@600", false},
                 {"ruler/vt@600", false},
                 {"ruler/niah_multikey_2@400", false},
                 {"ruler/cwe@600", false},
                 {"ruler/fwe@400", false},
                 {"niah/qa_synth:hops=2@400", false},
                 {"niah/needle:haystack=embedded,values=2@600", false},
                 {"niah/grid:haystack=embedded,needles=4@400", false},
                 {"mt/niah:haystack=embedded,turns=2@500", false},
                 {"mt/passkey:turns=2@300", false},
                 {"mt/kv:turns=2@150", false},
                 {"mt/find:turns=2@100", false},
                 {"mt/vt@500", false},
                 {"mt/many_shot:turns=2,words=6@150", false}};
    static const char record[] =
        "{\"context\":\"a b c\",\"question\":\"q? \",\"answers\":[\"x\",\"y\"],"
        "\"spans\":[{\"id\":\"E0\",\"kind\":\"E\",\"byte\":[2,3]}]}\n"
        "{\"context\":\"a b c\",\"turns\":[{\"question\":\"q\",\"answers\":[\"x\"]},"
        "{\"question\":\"r\",\"answers\":[\"y\"]}]}\n";
    struct task_case c = {0};
    char dir[64], path[96];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        c = (struct task_case){.text = cases[i].text, .record = cases[i].record};
        assert_true(exhaust(c.text, make_item, &c) > 5);
    }
    temp_dir(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/x.jsonl", dir);
    assert_int_equal(kva_write_file(path, record, sizeof record - 1, NULL), KVA_OK);
    c = (struct task_case){.text = "jsonl:x.jsonl", .dir = dir, .record = true};
    reads_json = true;
    assert_true(exhaust("jsonl", make_item, &c) > 5);
    reads_json = false;
    unlink(path);
    rmdir(dir);
}

static void records_of_benchmarks_make_items(void **state)
{
    static const char *const cases[][3] = {
        {"longbench/trec@9", "trec.jsonl",
         "{\"context\":\"a b c d e f "
         "g\",\"input\":\"q\",\"answers\":[\"x\"],\"_id\":\"1\","
         "\"all_classes\":[\"x\",\"y\"]}\n"},
        {"math/math500:loop_guard=1", "test.jsonl",
         "{\"problem\":\"p\",\"answer\":\"1\",\"level\":3}\n"},
    };
    char dir[64], path[96];

    (void)state;
    temp_dir(dir, sizeof dir);
    reads_json = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct task_case c = {.text = cases[i][0], .dir = dir, .record = true};

        snprintf(path, sizeof path, "%s/%s", dir, cases[i][1]);
        assert_int_equal(kva_write_file(path, cases[i][2], strlen(cases[i][2]), NULL),
                         KVA_OK);
        assert_true(exhaust(c.text, make_item, &c) > 5);
        unlink(path);
    }
    reads_json = false;
    rmdir(dir);
}

/* ---- files that people write ---- */

static enum kva_status read_gate(void *ctx, struct kva_error *err)
{
    struct kva_gate_file g;
    struct kva_buf report;
    enum kva_status rc;

    kva_buf_init(&report, 0);
    rc = kva_gate_file_parse(ctx, "g.json", "/nowhere", &g, &report, err);
    if (rc == KVA_OK)
        assert_true(g.n_baseline == 1 && g.n_entry == 1 && g.suite);
    if (rc == KVA_EINVALID && !g.root) /* see reads_json */
        rc = err->code = KVA_EFORMAT;
    kva_gate_file_release(&g);
    kva_buf_release(&report);
    return rc;
}

static enum kva_status read_published(void *ctx, struct kva_error *err)
{
    struct kva_published_set s;
    enum kva_status rc = kva_published_read(&s, err);

    (void)ctx;
    if (rc == KVA_OK)
        assert_non_null(kva_published_find(&s, "S-CK/1"));
    kva_published_release(&s);
    return rc;
}

static void gates_and_published_numbers_are_read(void **state)
{
    static char gate[] = "{\"schema\":1,\"base\":\"a\",\"baselines\":{\"a\":{\"db\":\"x."
                         "db\",\"run\":[\"ab\"]}},"
                         "\"bisect\":{\"suite\":\"s.json\",\"build\":\"make\"},"
                         "\"quarantine\":[{\"cell\":\"c\","
                         "\"gate\":\"time\",\"since\":\"2026-08-01\",\"expires\":\"2026-"
                         "08-14\",\"owner\":\"o\","
                         "\"reason\":\"r\"}]}";

    (void)state;
    reads_json = true;
    exhaust("kva_gate_file_parse", read_gate, gate);
    reads_json = false;
    exhaust("kva_published_read", read_published, NULL);
}

/* ---- text metrics ---- */

/* Jansson notices no failure inside a text of more than 14 bytes: there is none. */
static enum kva_status score_line(void *ctx, struct kva_error *err)
{
    static const char line[] = "{\"prediction\":\"The x = 1. x\",\"id\":[7],"
                               "\"answers\":[\"Paragraph 1\",\"the "
                               "x\"],\"all_classes\":[\"x\",\"Paragraph 1\"]}";
    const struct kva_score_opts opts = {.metric = ctx, .post = KVA_POST_STRIP};
    struct kva_scored scored;
    struct kva_buf out;
    enum kva_status rc;

    kva_buf_init(&out, 0);
    rc = kva_score_line(&opts, 1, line, sizeof line - 1, &out, &scored, err);
    if (rc == KVA_OK)
        assert_non_null(strstr(out.data, "\"id\":[7]"));
    kva_buf_release(&out);
    return rc;
}

static void every_metric_scores_a_line(void **state)
{
    (void)state;
    reads_json = true;
    for (const struct kva_metric *const *m = kva_metrics(); *m; m++) {
        struct kva_metric copy = **m; /* the context is not const */

        assert_true(exhaust(copy.name, score_line, &copy) > 10);
    }
    reads_json = false;
}

/* ---- statistics ---- */

static enum kva_status bootstrap(void *ctx, struct kva_error *err)
{
    const struct kva_stratum *s = ctx;
    struct kva_boot b = {0};

    KVA_TRY(kva_stat_bootstrap(s, 2, 7, 200, true, &b, err));
    assert_true(b.diff_ci.ok && b.diff_ci.lo <= b.diff && b.diff <= b.diff_ci.hi);
    return KVA_OK;
}

static void a_bootstrap_says_so(void **state)
{
    static double a[40], b[40];
    struct kva_stratum s[2] = {{"one", a, b, NULL, 40}, {"two", b, a, NULL, 40}};

    (void)state;
    for (int i = 0; i < 40; i++) {
        a[i] = i % 3 > 0;
        b[i] = i % 5 > 0;
    }
    exhaust("kva_stat_bootstrap", bootstrap, s);
}

/* ---- shared vocabulary ---- */

static enum kva_status vocabulary(void *ctx, struct kva_error *err)
{
    struct kva_arena arena;
    struct kva_map map;
    struct kva_buf buf;
    enum kva_status rc = KVA_OK;
    char key[16];

    (void)ctx;
    kva_arena_init(&arena);
    kva_map_init(&map);
    kva_buf_init(&buf, 0);
    for (int i = 0; i < 100; i++) {
        int n = snprintf(key, sizeof key, "key %d", i);
        char *copy = kva_arena_printf(&arena, "%s %0400d", key, i);

        if (!copy) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "arena");
            goto out;
        }
        KVA_GO(kva_map_put(&map, key, (size_t)n, i, NULL, err));
        kva_buf_puts(&buf, copy);
    }
    KVA_GO(kva_buf_status(&buf, err));
    assert_int_equal(map.count, 100);
out:
    /* what is there after a failure can still be read */
    for (size_t i = 0; i < map.count; i++) {
        int n = snprintf(key, sizeof key, "key %zu", i);
        int64_t v;

        assert_true(kva_map_get(&map, key, (size_t)n, &v) && v == (int64_t)i);
    }
    assert_int_equal(strlen(buf.data), buf.len);
    kva_buf_release(&buf);
    kva_map_release(&map);
    kva_arena_release(&arena);
    return rc;
}

static void arenas_maps_and_buffers(void **state)
{
    (void)state;
    assert_true(exhaust("arena, map, buffer", vocabulary, NULL) > 100);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arenas_maps_and_buffers),
        cmocka_unit_test(writing_and_reading_a_model_file),
        cmocka_unit_test(opening_a_model),
        cmocka_unit_test(sessions_and_prompts),
        cmocka_unit_test(every_method_scores_and_selects),
        cmocka_unit_test(a_context_is_repeated),
        cmocka_unit_test(statistics_are_scored),
        cmocka_unit_test(filters_are_calibrated),
        cmocka_unit_test(a_profile_is_made),
        cmocka_unit_test(every_kind_of_task_makes_an_item),
        cmocka_unit_test(records_of_benchmarks_make_items),
        cmocka_unit_test(gates_and_published_numbers_are_read),
        cmocka_unit_test(every_metric_scores_a_line),
        cmocka_unit_test(a_bootstrap_says_so),
    };

    (void)argc;
    without_cache(argv);
    json_set_alloc_funcs(json_bytes, free);
    kva_log_set(quiet, NULL, KVA_LOG_ERROR);
    return cmocka_run_group_tests(tests, open_both, close_both);
}
