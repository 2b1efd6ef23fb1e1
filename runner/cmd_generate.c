/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_generate.c - `kvaudit generate TASK`: samples as JSON lines, with or without a
 * model. */
#include "runner/commands.h"
#include "runner/data_args.h"
#include "runner/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    int n, ctx, first, max_new;
    const char *seed, *tokenizer, *tokens, *words, *haystack, *dialect, *profile, *out;
    struct kva_opt_list data;
} opt = {.n = 1};

const struct kva_opt *kva_cmd_generate_options(void)
{
    static const struct kva_opt table[] = {
        {"number", 'n', KVA_OPT_INT, &opt.n, "N", "how many samples (default 1)", 1,
         1 << 24},
        {"ctx", 0, KVA_OPT_INT, &opt.ctx, "L", "length in tokens, as TASK@L", 1, 1 << 24},
        {"seed", 0, KVA_OPT_STR, &opt.seed, "S", "seed (default 42)", 0, 0},
        {"first", 0, KVA_OPT_INT, &opt.first, "I",
         "index of the first sample (default 0)", 0, 1 << 24},
        {"tokenizer", 0, KVA_OPT_STR, &opt.tokenizer, "MODEL|ws|by",
         "what counts the length: a model, words (ws, the default) or bytes (by)", 0, 0},
        {"tokens", 0, KVA_OPT_STR, &opt.tokens, "MODEL",
         "add context_ids and question_ids as fed to MODEL; also counts the length "
         "unless "
         "--tokenizer does",
         0, 0},
        {"words", 0, KVA_OPT_STR, &opt.words, "VERSION",
         "word lists: 2.2.0 (default) or 3.0.0", 0, 0},
        {"haystack", 0, KVA_OPT_STR, &opt.haystack, "NAME",
         "filler text instead of the task's own", 0, 0},
        {"dialect", 0, KVA_OPT_STR, &opt.dialect, "NAME",
         "generator dialect (default kva1)", 0, 0},
        {"profile", 0, KVA_OPT_STR, &opt.profile, "NAME",
         "whose prompt: kvpress, official, criticalkv, ... (default the task's own)", 0,
         0},
        {"data", 0, KVA_OPT_LIST, &opt.data, "NAME=PATH",
         "where a data set of yours is (squad, longbench, math500, ...); repeatable", 0,
         0},
        {"max-new-tokens", 0, KVA_OPT_INT, &opt.max_new, "N",
         "answer length instead of the task's own", 1, 1 << 20},
        {"out", 'o', KVA_OPT_STR, &opt.out, "FILE",
         "write there instead of standard output", 0, 0},
        {0},
    };

    return table;
}

static enum kva_status open_model(const char *id, struct kva_model **m,
                                  struct kva_error *err)
{
    struct kva_arena arena;
    struct kva_model_opts opts = {.numerics = "f32", .threads = 1};
    char *path, *chat = NULL;
    enum kva_status rc;

    kva_arena_init(&arena);
    rc = kva_models_resolve(id, NULL, &path, &chat, &arena, err);
    opts.chat = chat;
    if (rc == KVA_OK)
        rc = kva_model_open(path, &opts, m, err);
    kva_arena_release(&arena);
    return rc;
}

static void put_ids(struct kva_buf *out, const char *key, const struct kva_tokens *t)
{
    kva_buf_printf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < t->n; i++)
        kva_buf_printf(out, "%s%d", i ? "," : "", t->id[i]);
    kva_buf_putc(out, ']');
}

/* Behind the record's last member: what the model is fed. A record that has ids already
 * keeps its own. */
static enum kva_status add_ids(const struct kva_model *m, const struct kva_item *item,
                               struct kva_buf *line, struct kva_error *err)
{
    struct kva_prompt p;
    struct kva_question q;
    enum kva_status rc;

    if (item->context_ids)
        return KVA_OK;
    memset(&p, 0, sizeof p);
    memset(&q, 0, sizeof q);
    KVA_GO(kva_prompt_context(m, &item->feed, item->context, item->context_len, &p, err));
    KVA_GO(kva_prompt_question(m, &item->feed, &p, item->question, item->answer_prefix,
                               &q, err));
    line->data[--line->len] = '\0'; /* the closing brace */
    put_ids(line, "context_ids", &p.context);
    put_ids(line, "question_ids", &q.ids);
    kva_buf_putc(line, '}');
    rc = kva_buf_status(line, err);
out:
    kva_question_release(&q);
    kva_prompt_release(&p);
    return rc;
}

static enum kva_status write_samples(const struct kva_task *task,
                                     const struct kva_tok_api *tok,
                                     const struct kva_model *ids, FILE *to,
                                     struct kva_error *err)
{
    int64_t have = kva_task_info(task)->n_available;
    struct kva_arena arena;
    struct kva_buf line;
    enum kva_status rc = KVA_OK;

    kva_arena_init(&arena);
    kva_buf_init(&line, 0);
    if (have >= 0 && opt.first + (int64_t)opt.n > have)
        kva_log(KVA_LOG_WARN, "the task has %lld samples", (long long)have);
    for (int i = opt.first; i < opt.first + opt.n && (have < 0 || i < have); i++) {
        struct kva_item item;

        memset(&item, 0, sizeof item);
        kva_arena_reset(&arena);
        line.len = 0;
        KVA_GO(kva_task_item(task, i, tok, &arena, &item, err));
        KVA_GO(kva_task_record(task, &item, tok, &line, err));
        if (ids)
            KVA_GO(add_ids(ids, &item, &line, err));
        kva_buf_putc(&line, '\n');
        KVA_GO(kva_buf_status(&line, err));
        if (fwrite(line.data, 1, line.len, to) != line.len) {
            rc = KVA_FAIL(err, KVA_EIO, "cannot write samples: %s", strerror(errno));
            goto out;
        }
    }
out:
    kva_buf_release(&line);
    kva_arena_release(&arena);
    return rc;
}

static enum kva_status generate(const char *name, uint64_t seed, struct kva_error *err)
{
    struct kva_task_opts topts = {.seed = seed,
                                  .words = opt.words,
                                  .haystack = opt.haystack,
                                  .dialect = opt.dialect,
                                  .profile = opt.profile,
                                  .max_new_tokens = opt.max_new,
                                  .base_dir = "."};
    const char *by = opt.tokenizer ? opt.tokenizer : opt.tokens ? opt.tokens : "ws";
    struct kva_tok_api api = strcmp(by, "by") == 0 ? kva_tok_by : kva_tok_ws;
    bool by_model = strcmp(by, "by") != 0 && strcmp(by, "ws") != 0;
    struct kva_model *counter = NULL, *feeder = NULL;
    struct kva_task *task = NULL;
    struct kva_tok_model tm;
    FILE *to = stdout;
    char text[512];
    struct kva_arena arena;
    enum kva_status rc;

    kva_arena_init(&arena);
    if (snprintf(text, sizeof text, opt.ctx ? "%s@%d" : "%s", name, opt.ctx) >=
        (int)sizeof text)
        return KVA_FAIL(err, KVA_EINVALID, "the task's name is too long");
    KVA_GO(kva_data_args(&opt.data, &arena, &topts.data, &topts.n_data, err));
    KVA_GO(kva_task_open(text, &topts, &task, err));
    if (by_model) {
        KVA_GO(open_model(by, &counter, err));
        kva_tok_api_model(&tm, counter, &api);
    }
    if (opt.tokens && (!by_model || strcmp(by, opt.tokens) != 0))
        KVA_GO(open_model(opt.tokens, &feeder, err));
    if (opt.out) {
        to = fopen(opt.out, "wb");
        if (!to) {
            rc = KVA_FAIL(err, KVA_EIO, "cannot write %s: %s", opt.out, strerror(errno));
            goto out;
        }
    }
    rc = write_samples(task, &api,
                       !opt.tokens ? NULL
                       : feeder    ? feeder
                                   : counter,
                       to, err);
    if (opt.out && fclose(to) != 0 && rc == KVA_OK)
        rc = KVA_FAIL(err, KVA_EIO, "cannot write %s: %s", opt.out, strerror(errno));
out:
    kva_task_close(task);
    if (counter)
        kva_model_close(counter);
    if (feeder)
        kva_model_close(feeder);
    kva_arena_release(&arena);
    return rc;
}

int kva_cmd_generate(int argc, char **argv)
{
    struct kva_error err = {0};
    int64_t seed = 42;

    if (argc != 1)
        return kva_command_usage("generate",
                                 argc ? "one task at a time, not '%s'"
                                      : "which task? see 'kvaudit list tasks'",
                                 argc ? argv[1] : "");
    if (opt.ctx && strchr(argv[0], '@'))
        return kva_command_usage("generate", "'%s' already names a length", argv[0]);
    if (opt.seed && (!kva_parse_i64(opt.seed, &seed) || seed < 0 || seed > KVA_SEED_MAX))
        return kva_command_usage("generate",
                                 "--seed wants a whole number in 0..%lld, not '%s'",
                                 (long long)KVA_SEED_MAX, opt.seed);
    return generate(argv[0], (uint64_t)seed, &err) == KVA_OK ? 0 : kva_command_fail(&err);
}
