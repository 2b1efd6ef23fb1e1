/* SPDX-License-Identifier: GPL-3.0-or-later */
/* registry.c - from "suite/name[:k=v,...][@L]" or "jsonl:PATH" to an opened task.
 *
 * Random stream of item idx (dialect kva1): SplitMix64 from FNV-1a-64 of
 * "kva1|<task>|<L>|<seed>|<idx>". Item i needs no other item, so shards of a run agree.
 */
#include "tasks/internal.h"
#include "metrics/metric.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_LIMIT = 4096, LIMIT_MAX = 1 << 24 };

static const struct kva_task_desc descs[] = {
#define TASK(suite, name, family, summary, source, metric, version, max_new)             \
    {#suite, #name, summary, source, #metric, version, max_new},
#include "tasks/tasks.def"
#undef TASK
};
static const struct kva_family *const families[] = {
#define TASK(suite, name, family, summary, source, metric, version, max_new)             \
    &kva_family_##family,
#include "tasks/tasks.def"
#undef TASK
};
static const char *const known[] = {
#define TASK(suite, name, family, summary, source, metric, version, max_new)             \
#suite "/" #name,
#include "tasks/tasks.def"
#undef TASK
    NULL};
enum { N_DESCS = sizeof descs / sizeof descs[0] };

const struct kva_task_desc *kva_tasks(size_t *n)
{
    *n = N_DESCS;
    return descs;
}

/* Sets of LongBench that no English rule may score. */
static const char *const chinese[] = {"longbench/multifieldqa_zh",
                                      "longbench/dureader",
                                      "longbench/vcsum",
                                      "longbench/lsht",
                                      "longbench/passage_retrieval_zh",
                                      NULL};

/* ---- the text ---- */

/* Records have the length they have: without @L nothing is fitted or cut. */
static bool has_records(const char *suite)
{
    return strcmp(suite, "longbench") == 0 || strcmp(suite, "math") == 0;
}

static enum kva_status find_desc(const char *word, const char *text,
                                 struct kva_task_request *req, size_t *index,
                                 struct kva_error *err)
{
    const char *near;

    for (size_t i = 0; i < N_DESCS; i++) {
        size_t suite = strlen(descs[i].suite);

        if (strncmp(word, descs[i].suite, suite) != 0 || word[suite] != '/' ||
            strcmp(word + suite + 1, descs[i].name) != 0 ||
            strcmp(descs[i].suite, "jsonl") == 0)
            continue;
        req->desc = &descs[i];
        *index = i;
        return KVA_OK;
    }
    for (size_t i = 0; chinese[i]; i++)
        if (strcmp(chinese[i], word) == 0)
            return KVA_FAIL(err, KVA_EINVALID,
                            "task %s is Chinese: its official score cuts words with "
                            "jieba, which this program does not have",
                            word);
    near = kva_nearest(word, known);
    if (near)
        return KVA_FAIL(err, KVA_EINVALID, "unknown task \"%s\"; did you mean %s?", text,
                        near);
    return KVA_FAIL(err, KVA_EINVALID,
                    "unknown task \"%s\" (suite/name[:key=value,...][@L] or jsonl:PATH)",
                    text);
}

/* Cuts "a=1,b=2" in place. */
static enum kva_status parse_params(char *s, struct kva_task_request *req,
                                    struct kva_error *err)
{
    while (s) {
        char *comma = strchr(s, ','), *equals;

        if (comma)
            *comma++ = '\0';
        equals = strchr(s, '=');
        if (!equals || equals == s || !equals[1])
            return KVA_FAIL(err, KVA_EINVALID, "task \"%s\": \"%s\" is not key=value",
                            req->text, s);
        *equals = '\0';
        for (int i = 0; i < req->n_params; i++)
            if (strcmp(req->param[i].key, s) == 0)
                return KVA_FAIL(err, KVA_EINVALID, "task \"%s\": %s is given twice",
                                req->text, s);
        if (req->n_params == KVA_TASK_PARAMS_MAX)
            return KVA_FAIL(err, KVA_EINVALID, "task \"%s\": too many parameters",
                            req->text);
        req->param[req->n_params++] = (struct kva_task_param){s, equals + 1};
        s = comma;
    }
    return KVA_OK;
}

/* `copy` is cut in place; the request points into it. */
static enum kva_status parse(char *copy, struct kva_task_request *req, size_t *index,
                             struct kva_error *err)
{
    char *at, *colon;
    int64_t limit;

    if (strncmp(copy, "jsonl:", 6) == 0) {
        if (!copy[6])
            return KVA_FAIL(err, KVA_EINVALID, "task \"jsonl:\" names no file");
        req->path = copy + 6;
        for (*index = 0; strcmp(descs[*index].suite, "jsonl") != 0; ++*index)
            ;
        req->desc = &descs[*index];
        return KVA_OK;
    }
    req->limit = DEFAULT_LIMIT;
    at = strrchr(copy, '@');
    if (at) {
        *at = '\0';
        if (!kva_parse_i64(at + 1, &limit) || limit < 1 || limit > LIMIT_MAX)
            return KVA_FAIL(err, KVA_EINVALID,
                            "task \"%s\": \"%s\" is not a length in tokens (1 to %d)",
                            req->text, at + 1, LIMIT_MAX);
        req->limit = (int)limit;
    }
    colon = strchr(copy, ':');
    if (colon)
        *colon++ = '\0';
    KVA_TRY(find_desc(copy, req->text, req, index, err));
    if (!at && has_records(req->desc->suite))
        req->limit = 0;
    return colon ? parse_params(colon, req, err) : KVA_OK;
}

enum kva_status kva_task_bad_param(const struct kva_task_request *req, const char *key,
                                   const char *const *names, struct kva_error *err)
{
    const char *near = kva_nearest(key, names);

    if (near)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": unknown parameter \"%s\"; did you mean %s?",
                        req->text, key, near);
    return KVA_FAIL(err, KVA_EINVALID, "task \"%s\": unknown parameter \"%s\"", req->text,
                    key);
}

static enum kva_status check_opts(const struct kva_task_opts *o, struct kva_error *err)
{
    if (o->seed > INT64_MAX)
        return KVA_FAIL(err, KVA_EINVALID, "seed %llu is above 2^63 - 1",
                        (unsigned long long)o->seed);
    if (o->max_new_tokens < 0)
        return KVA_FAIL(err, KVA_EINVALID, "max_new_tokens %d is negative",
                        o->max_new_tokens);
    /* a task that draws no words does not take just any version either */
    if (o->words && strcmp(o->words, "2.2.0") != 0 && strcmp(o->words, "3.0.0") != 0)
        return KVA_FAIL(err, KVA_EINVALID, "word lists \"%s\": known are 2.2.0 and 3.0.0",
                        o->words);
    return KVA_OK;
}

/* The family of a task under a dialect: RULER's official ones have their own. */
static enum kva_status set_family(struct kva_task *task,
                                  const struct kva_task_request *req, size_t index,
                                  struct kva_error *err)
{
    static const char *const dialects[] = {"kva1", "r2024", "r2025", NULL};
    const char *want = req->opts->dialect;
    int i = 0;

    task->family = families[index];
    if (!want)
        return KVA_OK;
    while (dialects[i] && strcmp(dialects[i], want) != 0)
        i++;
    if (!dialects[i])
        return KVA_FAIL(err, KVA_EINVALID,
                        "unknown dialect \"%s\" (known: kva1, r2024, r2025)", want);
    if (i == 0)
        return KVA_OK;
    if (strcmp(req->desc->suite, "ruler") != 0)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": dialect %s is one of the suite ruler", req->text,
                        want);
    task->family = &kva_family_official;
    return KVA_OK;
}

static enum kva_status make_label(struct kva_task *task, struct kva_error *err)
{
    size_t n = strlen(task->desc->suite) + strlen(task->name) + 2;

    task->label = kva_calloc(n, 1);
    if (!task->label)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", task->name);
    snprintf(task->label, n, "%s/%s", task->desc->suite, task->name);
    return KVA_OK;
}

/* Which pipelines a suite knows; the first is the default. */
static const struct {
    const char *suite, *profile[4];
} profiles[] = {
    {"ruler", {"kvpress", "official", "criticalkv"}},
    {"niah", {"kvpress", "official", "criticalkv"}},
    {"mt", {"kvpress", "official", "criticalkv"}},
    {"longbench", {"official", "kvpress", "criticalkv"}},
    {"math", {"boxed", "rkv", "plain"}},
    {"jsonl", {"own"}},
};

static enum kva_status set_profile(struct kva_task *task,
                                   const struct kva_task_request *req,
                                   struct kva_error *err)
{
    const char *want = req->opts->profile;
    size_t s = 0;

    while (strcmp(profiles[s].suite, req->desc->suite) != 0)
        s++;
    task->info.profile = profiles[s].profile[0];
    if (!want || strcmp(req->desc->suite, "jsonl") == 0)
        return KVA_OK;
    for (int i = 0; i < 4 && profiles[s].profile[i]; i++)
        if (strcmp(profiles[s].profile[i], want) == 0) {
            task->info.profile = profiles[s].profile[i];
            return KVA_OK;
        }
    return KVA_FAIL(err, KVA_EINVALID, "task \"%s\": no profile \"%s\" (%s, %s or %s)",
                    req->text, want, profiles[s].profile[0], profiles[s].profile[1],
                    profiles[s].profile[2]);
}

enum kva_status kva_task_open(const char *text, const struct kva_task_opts *opts,
                              struct kva_task **out, struct kva_error *err)
{
    static const struct kva_task_opts none = {0};
    struct kva_task_request req = {.text = text, .opts = opts ? opts : &none};
    struct kva_task *task = NULL;
    const struct kva_metric *metric;
    size_t index = 0, n = strlen(text) + 1;
    enum kva_status rc;
    char *copy;

    *out = NULL;
    copy = kva_calloc(n, 1);
    if (!copy)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", text);
    memcpy(copy, text, n);
    KVA_GO(check_opts(req.opts, err));
    KVA_GO(parse(copy, &req, &index, err));
    task = kva_calloc(1, sizeof *task);
    if (!task) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", text);
        goto out;
    }
    task->desc = req.desc;
    task->seed = req.opts->seed;
    task->info = (struct kva_task_info){
        .suite = req.desc->suite,
        .turns = 1,
        .ctx = req.limit,
        .metric = req.desc->metric,
        .n_available = -1,
        .version = req.desc->version,
        .max_new_tokens = req.opts->max_new_tokens ? req.opts->max_new_tokens
                                                   : req.desc->max_new_tokens,
    };
    KVA_GO(set_family(task, &req, index, err));
    KVA_GO(set_profile(task, &req, err));
    KVA_GO(task->family->open(task, &req, err));
    KVA_GO(make_label(task, err));
    metric = kva_metric_find(task->info.metric);
    if (!metric) {
        rc = KVA_FAIL(err, KVA_EINVALID, "task %s: unknown metric %s", text,
                      task->info.metric);
        goto out;
    }
    task->info.name = task->name;
    task->info.metric_version = metric->version;
    task->info.binary = task->info.binary && metric->binary;
    *out = task;
    task = NULL;
out:
    kva_task_close(task);
    free(copy);
    return rc;
}

void kva_task_close(struct kva_task *task)
{
    if (!task)
        return;
    if (task->state)
        task->family->close(task->state);
    free(task->name);
    free(task->label);
    free(task->stream_name);
    free(task);
}

const struct kva_task_info *kva_task_info(const struct kva_task *task)
{
    return &task->info;
}

enum kva_status kva_task_item(const struct kva_task *task, int idx,
                              const struct kva_tok_api *tok, struct kva_arena *arena,
                              struct kva_item *item, struct kva_error *err)
{
    struct kva_item made = {.idx = idx, .depth = -1};

    if (idx < 0 || (task->info.n_available >= 0 && idx >= task->info.n_available))
        return KVA_FAIL(err, KVA_EINVALID, "task %s has no item %d", task->label, idx);
    made.metric = task->info.metric;
    made.max_new_tokens = task->info.max_new_tokens;
    made.guess_floor = task->info.guess_floor;
    KVA_TRY(task->family->item(task, idx, tok, arena, &made, err));
    *item = made;
    return KVA_OK;
}

/* ---- description ---- */

static const char *describe(const struct kva_task *task, struct kva_arena *arena,
                            bool source)
{
    json_t *gen = json_object(), *src = json_object();
    const char *out = NULL;
    struct kva_buf dump;
    int bad = 0;

    kva_buf_init(&dump, 0);
    bad |= json_object_set_new(gen, "family", json_string(task->desc->name));
    bad |= json_object_set_new(gen, "suite", json_string(task->info.suite));
    bad |= json_object_set_new(gen, "version", json_integer(task->info.version));
    bad |= json_object_set_new(gen, "profile", json_string(task->info.profile));
    bad |= task->family->describe(task, gen, src);
    if (!bad) {
        if (!source) { /* a file that moves stays the same task */
            json_object_del(src, "path");
            bad |= json_object_set(gen, "source", src);
        }
        kva_task_dump(source ? src : gen, JSON_COMPACT | JSON_SORT_KEYS, &dump);
    }
    if (!bad && !dump.failed)
        out = kva_arena_strdup(arena, dump.data);
    kva_buf_release(&dump);
    json_decref(gen);
    json_decref(src);
    return out;
}

const char *kva_task_gen_json(const struct kva_task *task, struct kva_arena *arena)
{
    return describe(task, arena, false);
}

const char *kva_task_source_json(const struct kva_task *task, struct kva_arena *arena)
{
    return describe(task, arena, true);
}

/* ---- shared by the families ---- */

struct kva_rng kva_task_stream(const struct kva_task *task, int idx, const char *suffix)
{
    char tail[96];
    uint64_t h = kva_fnv1a64_str("kva1|");

    h = kva_fnv1a64_more(h, task->stream_name, strlen(task->stream_name));
    snprintf(tail, sizeof tail, "|%d|%llu|%d%s", task->info.ctx,
             (unsigned long long)task->seed, idx, suffix);
    return (struct kva_rng){kva_fnv1a64_more(h, tail, strlen(tail))};
}

void kva_task_shuffle(struct kva_rng *rng, uint32_t *x, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)kva_rng_below(rng, i);
        uint32_t t = x[i - 1];

        x[i - 1] = x[j];
        x[j] = t;
    }
}

uint64_t kva_task_choose(struct kva_rng *rng, uint64_t n)
{
    return n > 1 ? kva_rng_below(rng, n) : 0;
}

const char *const kva_task_word_match[] = {"word_match", NULL};

enum kva_status kva_task_set_names(struct kva_task *task, const char *name,
                                   const char *stream_name, struct kva_error *err)
{
    task->name = kva_calloc(strlen(name) + 1, 1);
    task->stream_name = kva_calloc(strlen(stream_name) + 1, 1);
    if (!task->name || !task->stream_name)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", name);
    memcpy(task->name, name, strlen(name));
    memcpy(task->stream_name, stream_name, strlen(stream_name));
    return KVA_OK;
}

enum kva_status kva_task_flag(const struct kva_task_request *req,
                              const struct kva_task_param *param, bool *out,
                              struct kva_error *err)
{
    *out = strcmp(param->value, "1") == 0;
    if (!*out && strcmp(param->value, "0") != 0)
        return KVA_FAIL(err, KVA_EINVALID, "task \"%s\": %s is 0 or 1", req->text,
                        param->key);
    return KVA_OK;
}

void kva_task_use_layout(struct kva_task *task, const char *dialect)
{
    task->info.dialect = dialect;
    task->layout = strcmp(task->info.profile, "official") == 0 ? "official" : "kvpress";
}

enum kva_status kva_task_lay_out(const struct kva_task *task, struct kva_arena *arena,
                                 struct kva_item *item, struct kva_error *err)
{
    size_t n = strlen(item->question);

    if (strcmp(task->layout, "official") != 0)
        return KVA_OK;
    item->feed.suffix = "";
    if (n == 0 || item->question[n - 1] != ' ')
        return KVA_OK;
    item->question = kva_arena_strndup(arena, item->question, n - 1);
    item->answer_prefix = kva_arena_printf(arena, " %s", item->answer_prefix);
    if (!item->question || !item->answer_prefix)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
    return KVA_OK;
}

const char *kva_task_gold(struct kva_arena *arena, const char *answer_prefix,
                          const char *const *answers, int n, const char *joint)
{
    size_t len = strlen(answer_prefix);
    bool blank = len == 0 || !strchr(" \t\n", answer_prefix[len - 1]);
    const char *gold = blank ? " " : "";

    for (int i = 0; i < n && gold; i++)
        gold = kva_arena_printf(arena, "%s%s%s", gold, i ? joint : "", answers[i]);
    return gold;
}
