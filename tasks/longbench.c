/* SPDX-License-Identifier: GPL-3.0-or-later */
/* longbench.c - LongBench and LongBench-E: `longbench/NAME[@L]`, `longbench/NAME_e[@L]`.
 *
 * A record's prompt is ctx + mid + q + pre. What is compressed, what is asked afterwards
 * and what the answer begins with, by profile (THUDM/LongBench pred.py; FFY0/DefensiveKV
 * and NVIDIA/kvpress create_huggingface_dataset.py):
 *
 *     profile     context    question                       answer prefix
 *     official    ctx        mid + q + pre                  none
 *     criticalkv  ctx        mid + q + pre, qasper's mid    none
 *                            without its leading blank
 *     kvpress     ctx + mid  q, trec's without "Type:"      pre, or the cue of trec,
 *                                                           triviaqa and samsum
 *
 * The official pipeline splits nothing: its context and question together are the
 * official prompt, byte for byte. triviaqa's input ends in "Answer:\n" and samsum's in
 * "Summary: ", so kvpress does not find the cue at their ends and gives it twice. Five
 * sets are fed without chat template, by kvpress with it. Without @L nothing is cut; with
 * it the middle is, in every profile (the other two would lose the tail). Answers end:
 * official (samsum) at the token of a line feed, which like EOS cannot be the first one;
 * criticalkv the same but for the first token; kvpress never, with 20 more tokens. */
#include "tasks/longbench.h"
#include "tasks/records.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum profile { OFFICIAL, CRITICALKV, KVPRESS };
enum { KVPRESS_MORE = 20 }; /* new tokens */

struct longbench {
    const struct kva_longbench_set *set;
    bool e;
    enum profile profile;
    struct kva_records records;
    char file[40];            /* "trec_e.jsonl" */
    char template_sha256[65]; /* of ctx, mid, q, pre, cue, a NUL behind each */
};

/* ---- the prompt ---- */

void kva_longbench_fill(struct kva_buf *out, const char *template, const char *mark,
                        const char *text, size_t n)
{
    const char *at = strstr(template, mark);

    kva_buf_add(out, template, at ? (size_t)(at - template) : strlen(template));
    if (!at)
        return;
    kva_buf_add(out, text, n);
    kva_buf_puts(out, at + strlen(mark));
}

enum kva_status kva_longbench_cut(const struct kva_tok_api *tok, const char *prompt,
                                  size_t n, int max_length, struct kva_arena *arena,
                                  size_t *head, size_t *tail, struct kva_error *err)
{
    static const struct kva_feed raw = {.raw = true, .suffix = ""};
    size_t half = (size_t)max_length / 2, n_tokens;
    int32_t *begin, *end;

    *head = *tail = n;
    KVA_TRY(tok->ranges(tok->ctx, &raw, prompt, n, arena, &begin, &end, &n_tokens, err));
    if (n_tokens <= (size_t)max_length)
        return KVA_OK;
    *head = half > 0 && end[half - 1] > 0 ? (size_t)end[half - 1] : 0;
    if (half > 0)
        *tail = begin[n_tokens - half] > 0 ? (size_t)begin[n_tokens - half] : 0;
    return KVA_OK;
}

/* Joins what the cut left of the context. */
static enum kva_status join_context(const struct kva_buf *prompt, size_t n_context,
                                    size_t head, size_t tail, struct kva_arena *arena,
                                    struct kva_item *item, struct kva_error *err)
{
    struct kva_buf joined;
    enum kva_status rc;

    kva_buf_init(&joined, 0);
    kva_utf8_clean(prompt->data, head, &joined);
    kva_utf8_clean(prompt->data + tail, n_context - tail, &joined);
    KVA_GO(kva_buf_status(&joined, err));
    item->context = kva_arena_strndup(arena, joined.len ? joined.data : "", joined.len);
    item->context_len = joined.len;
    item->was_cut = true;
    if (!item->context)
        rc = KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
out:
    kva_buf_release(&joined);
    return rc;
}

enum kva_status kva_longbench_finish(const struct kva_task *task,
                                     const struct kva_tok_api *tok,
                                     const struct kva_buf *prompt, size_t n_context,
                                     struct kva_arena *arena, struct kva_item *item,
                                     struct kva_error *err)
{
    size_t head = prompt->len, tail = prompt->len;

    if (task->info.ctx)
        KVA_TRY(kva_longbench_cut(tok, prompt->data, prompt->len, task->info.ctx, arena,
                                  &head, &tail, err));
    if (head < tail) {
        if (tail > n_context)
            return KVA_FAIL(err, KVA_EINVALID,
                            "task %s, item %d: question_longer_than_half_window (%zu "
                            "bytes do not fit in %d tokens)",
                            task->desc->name, item->idx, prompt->len - n_context,
                            task->info.ctx / 2);
        KVA_TRY(join_context(prompt, n_context, head, tail, arena, item, err));
    } else {
        item->context = kva_arena_strndup(arena, prompt->data, n_context);
        item->context_len = n_context;
        if (!item->context)
            return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
    }
    return tok->count(tok->ctx, &item->feed, item->context, item->context_len,
                      item->question, item->answer_prefix, &item->n_context,
                      &item->n_question, err);
}

/* kvpress: the cue off the end of the input, if it stands there. */
static size_t without_cue(const char *input, size_t n, const char *cue)
{
    size_t k = strlen(cue);

    return n >= k && memcmp(input + n - k, cue, k) == 0 ? n - k : n;
}

static enum kva_status make_prompt(const struct kva_task *task,
                                   const struct kva_record *rec,
                                   const struct kva_tok_api *tok, struct kva_arena *arena,
                                   struct kva_buf *prompt, struct kva_item *item,
                                   struct kva_error *err)
{
    const struct longbench *s = task->state;
    const struct kva_longbench_set *set = s->set;
    const char *context, *input;
    size_t n, n_input, n_context;
    bool kvpress = s->profile == KVPRESS;

    KVA_TRY(kva_record_text(rec, "context", true, arena, &context, &n, err));
    KVA_TRY(kva_record_text(rec, "input", true, arena, &input, NULL, err));
    n_input = strlen(input);
    kva_longbench_fill(prompt, set->ctx, "{context}", context, n);
    if (kvpress) {
        kva_buf_puts(prompt, set->mid);
        n_input = without_cue(input, n_input, set->cue);
        item->answer_prefix = set->cue[0] ? set->cue : set->pre;
    } else {
        item->answer_prefix = "";
    }
    n_context = prompt->len;
    if (!kvpress)
        kva_buf_puts(prompt, set->mid + (s->profile == CRITICALKV && set->mid[0] == ' '));
    kva_longbench_fill(prompt, set->q, "{input}", input, n_input);
    if (!kvpress)
        kva_buf_puts(prompt, set->pre);
    KVA_TRY(kva_buf_status(prompt, err));
    item->question =
        kva_arena_strndup(arena, prompt->data + n_context, prompt->len - n_context);
    if (!item->question)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
    kva_buf_puts(prompt, item->answer_prefix);
    KVA_TRY(kva_buf_status(prompt, err));
    return kva_longbench_finish(task, tok, prompt, n_context, arena, item, err);
}

/* ---- the rest of an item ---- */

/* LongBench-E reports three means by the record's length in words. */
static const char *bucket_of(int64_t length)
{
    return length < 4000 ? "0-4k" : length < 8000 ? "4-8k" : "8k+";
}

static enum kva_status get_labels(const struct longbench *s, const struct kva_record *rec,
                                  struct kva_arena *arena, struct kva_item *item,
                                  struct kva_error *err)
{
    static const char *const keys[] = {"_id", "length", "language", NULL};
    const char *bucket = NULL, *dataset;
    int64_t length;
    bool e;

    if (s->e) {
        KVA_TRY(kva_record_whole(rec, "length", &length, err));
        bucket = bucket_of(length);
    }
    KVA_TRY(kva_record_text(rec, "dataset", false, arena, &dataset, NULL, err));
    if (dataset && kva_longbench_find(dataset, &e) != s->set)
        return kva_record_fail(rec, err, "a record of \"%.40s\", not of %s", dataset,
                               s->set->name);
    return kva_record_labels(rec, keys, bucket, arena, &item->labels, err);
}

/* An answer may be empty (a code line can be), but not all of them. Gold is the first
 * that is not. */
static enum kva_status get_answers(const struct kva_record *rec, struct kva_arena *arena,
                                   struct kva_item *item, struct kva_error *err)
{
    const char *before = item->answer_prefix[0] ? item->answer_prefix : item->question;
    int first = 0;

    KVA_TRY(kva_record_texts(rec, "answers", true, arena, &item->answers,
                             &item->n_answers, err));
    while (first < item->n_answers && !item->answers[first][0])
        first++;
    if (first == item->n_answers)
        return kva_record_fail(rec, err, "\"answers\" holds no text");
    KVA_TRY(kva_record_texts(rec, "all_classes", false, arena, &item->classes,
                             &item->n_classes, err));
    if (strcmp(item->metric, "classification") == 0 && item->n_classes == 0)
        return kva_record_fail(rec, err, "no \"all_classes\"");
    item->gold = kva_task_gold(arena, before, &item->answers[first], 1, "");
    return item->gold ? KVA_OK
                      : KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
}

/* How it is fed, how the answer ends and what of it is scored. */
static void set_ways(const struct longbench *s, struct kva_item *item)
{
    static const char *const code_more[] = {"code_sim_indel", NULL};
    const struct kva_longbench_set *set = s->set;

    if (s->profile != KVPRESS) {
        item->feed.raw = set->plain;
        item->feed.no_bos = set->plain && s->profile == CRITICALKV;
        item->feed.suffix = "";
    }
    if (strcmp(set->name, "samsum") == 0 && s->profile != KVPRESS) {
        item->eos_text = "\n";
        item->min_one = s->profile == OFFICIAL;
    }
    if (strcmp(item->metric, "code_sim") == 0)
        item->more_metrics = code_more;
    /* kvpress scores LongBench-E as the official code does */
    if (s->profile == KVPRESS && !s->e)
        item->post = set->first_line ? KVA_POST_STRIP_FIRST_LINE : KVA_POST_STRIP;
    else
        item->post = set->first_line ? KVA_POST_FIRST_LINE : KVA_POST_NONE;
}

static enum kva_status longbench_item(const struct kva_task *task, int idx,
                                      const struct kva_tok_api *tok,
                                      struct kva_arena *arena, struct kva_item *item,
                                      struct kva_error *err)
{
    const struct longbench *s = task->state;
    struct kva_record rec;
    struct kva_buf prompt;
    enum kva_status rc;

    kva_buf_init(&prompt, 0);
    set_ways(s, item);
    KVA_GO(kva_record_read(&s->records, (size_t)idx, &rec, err));
    KVA_GO(make_prompt(task, &rec, tok, arena, &prompt, item, err));
    KVA_GO(get_answers(&rec, arena, item, err));
    KVA_GO(get_labels(s, &rec, arena, item, err));
out:
    kva_record_release(&rec);
    kva_buf_release(&prompt);
    return rc;
}

/* ---- the task ---- */

static void hash_templates(struct longbench *s)
{
    const char *const part[] = {s->set->ctx, s->set->mid, s->set->q, s->set->pre,
                                s->set->cue};
    struct kva_sha256 sha;
    uint8_t digest[32];

    kva_sha256_init(&sha);
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        kva_sha256_add(&sha, part[i], strlen(part[i]) + 1);
    kva_sha256_end(&sha, digest);
    kva_hex(digest, sizeof digest, s->template_sha256);
}

static enum kva_status longbench_open(struct kva_task *task,
                                      const struct kva_task_request *req,
                                      struct kva_error *err)
{
    static const char *const no_params[] = {NULL};
    const char *profile = task->info.profile;
    struct longbench *s;

    if (req->n_params > 0)
        return kva_task_bad_param(req, req->param[0].key, no_params, err);
    s = kva_calloc(1, sizeof *s);
    task->name = kva_calloc(strlen(req->desc->name) + 1, 1);
    if (!s || !task->name) {
        free(s);
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    }
    memcpy(task->name, req->desc->name, strlen(req->desc->name));
    s->records.fd = -1;
    task->state = s;
    s->set = kva_longbench_find(req->desc->name, &s->e);
    s->profile = strcmp(profile, "kvpress") == 0      ? KVPRESS
                 : strcmp(profile, "criticalkv") == 0 ? CRITICALKV
                                                      : OFFICIAL;
    hash_templates(s);
    snprintf(s->file, sizeof s->file, "%s.jsonl", req->desc->name);
    KVA_TRY(kva_records_open(&s->records, req->opts, "longbench", s->file, err));
    if (s->profile == KVPRESS && !req->opts->max_new_tokens)
        task->info.max_new_tokens += KVPRESS_MORE;
    task->info.domain = s->set->domain;
    task->info.guess_floor = s->set->guess_floor;
    task->info.n_available = (int64_t)s->records.n;
    return KVA_OK;
}

static void longbench_close(void *state)
{
    struct longbench *s = state;

    kva_records_release(&s->records);
    free(s);
}

static int longbench_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct longbench *s = task->state;
    size_t n = (size_t)(s->e ? s->set->n_e : s->set->n);
    int bad = 0;

    bad |= json_object_set_new(gen, "max_length", json_integer(task->info.ctx));
    bad |= json_object_set_new(gen, "max_new_tokens",
                               json_integer(task->info.max_new_tokens));
    bad |= json_object_set_new(gen, "name", json_string(task->name));
    bad |= json_object_set_new(gen, "template_sha256", json_string(s->template_sha256));
    bad |= kva_records_describe(&s->records, s->file, source);
    bad |= json_object_set_new(source, "complete", json_boolean(s->records.n == n));
    return bad;
}

const struct kva_family kva_family_longbench = {longbench_open, longbench_close,
                                                longbench_item, longbench_describe};
