/* SPDX-License-Identifier: GPL-3.0-or-later */
/* scbench.c - SCBench (arXiv:2412.10319) from the user's files: mt/scbench_kv,
 * mt/scbench_qa_eng, mt/scbench_mf (tasks-ruler.md 10.1; microsoft/MInference,
 * scbench/eval_utils.py, mode "same context, different query").
 *
 *     task            context                           question
 *     scbench_kv      instruction, blank line, context  input
 *     scbench_qa_eng  instruction, blank line, context  "Question: " input "\nAnswer:"
 *     scbench_mf      the list                          "What is TARGET?", blank line,
 * input
 *
 * TARGET is the first match of "The .+ is" in the input, in lower case (ASCII), without
 * its last three characters. scbench_mf officially has the first question in front of its
 * context, so that eviction sees it: done with profile `official` only. Every turn is a
 * sample; `turns=N` takes the first N of each record. Without @L nothing is cut; with it
 * the context keeps L - 1000 - turns * new tokens in two halves (turns: those of the
 * first record), as officially. A record that cannot be read is one sample, whose item
 * fails. */
#include "tasks/longbench.h"
#include "tasks/records.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS_MAX = 1000, CUT_SPARE = 1000 };

static const char kv_instruction[] =
    "Extract the value corresponding to the specified key in the JSON object below.";
static const char qa_instruction[] =
    "Read the book and answer the question. Be very concise in your answer.";

enum set { KV, QA, MF };

struct scbench {
    enum set set;
    int most; /* turns of a record; 0: all */
    bool official;
    char file[40];
    struct kva_records records;
    size_t *first; /* [records + 1]: sample number of each record's first turn */
};

/* ---- the file ---- */

static enum kva_status get_turns(const struct kva_record *rec, json_t **turns,
                                 struct kva_error *err)
{
    *turns = json_object_get(rec->json, "multi_turns");
    if (!json_is_array(*turns) || json_array_size(*turns) == 0 ||
        json_array_size(*turns) > TURNS_MAX)
        return kva_record_fail(rec, err, "\"multi_turns\" is not a list of 1 to %d turns",
                               TURNS_MAX);
    return KVA_OK;
}

/* A record that is none counts as one turn. */
static enum kva_status count_turns(struct scbench *s, int *uniform, struct kva_error *err)
{
    *uniform = 0;
    s->first = kva_calloc(s->records.n + 1, sizeof *s->first);
    if (!s->first)
        return KVA_FAIL(err, KVA_ENOMEM, "%s: out of memory", s->records.path.data);
    for (size_t i = 0; i < s->records.n; i++) {
        struct kva_record rec;
        struct kva_error why = {0};
        json_t *turns;
        int n = 1;

        if (kva_record_read(&s->records, i, &rec, &why) == KVA_OK &&
            get_turns(&rec, &turns, &why) == KVA_OK)
            n = (int)json_array_size(turns);
        kva_record_release(&rec);
        if (why.code == KVA_ENOMEM || why.code == KVA_EIO)
            return KVA_FAIL(err, why.code, "%s", why.text);
        if (s->most && n > s->most)
            n = s->most;
        s->first[i + 1] = s->first[i] + (size_t)n;
        *uniform = i == 0 || n == *uniform ? n : 1;
    }
    return KVA_OK;
}

static size_t record_of(const struct scbench *s, size_t sample)
{
    size_t lo = 0, hi = s->records.n;

    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;

        if (s->first[mid] <= sample)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static enum kva_status scbench_open(struct kva_task *task,
                                    const struct kva_task_request *req,
                                    struct kva_error *err)
{
    static const char *const known[] = {"turns", NULL};
    struct scbench *s = kva_calloc(1, sizeof *s);
    const char *name = req->desc->name;
    size_t room = strlen(name) + 32;
    int64_t x = 0;

    task->name = kva_calloc(room, 1);
    task->stream_name = kva_calloc(1, 1);
    if (!s || !task->name || !task->stream_name) {
        free(s);
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    }
    s->records.fd = -1;
    task->state = s; /* closed with the task, also on failure */
    s->set = strcmp(name, "scbench_kv") == 0   ? KV
             : strcmp(name, "scbench_mf") == 0 ? MF
                                               : QA;
    for (int i = 0; i < req->n_params; i++) {
        if (strcmp(req->param[i].key, "turns") != 0)
            return kva_task_bad_param(req, req->param[i].key, known, err);
        if (!kva_parse_i64(req->param[i].value, &x) || x < 1 || x > TURNS_MAX)
            return KVA_FAIL(err, KVA_EINVALID,
                            "task \"%s\": turns is a whole number from 1 to %d",
                            req->text, TURNS_MAX);
        s->most = (int)x;
    }
    if (s->most)
        snprintf(task->name, room, "%s:turns=%d", name, s->most);
    else
        snprintf(task->name, room, "%s", name);
    if (!strchr(req->text, '@')) /* the benchmark's length, not ours */
        task->info.ctx = 0;
    s->official = strcmp(task->info.profile, "official") == 0;
    snprintf(s->file, sizeof s->file, "%s.jsonl", name);
    KVA_TRY(kva_records_open(&s->records, req->opts, "scbench", s->file, err));
    KVA_TRY(count_turns(s, &task->info.turns, err));
    task->info.domain = s->set == MF ? "aggregation" : s->set == KV ? "retrieval" : "QA";
    task->info.binary = true;
    task->info.n_available = (int64_t)s->first[s->records.n];
    return KVA_OK;
}

static void scbench_close(void *state)
{
    struct scbench *s = state;

    kva_records_release(&s->records);
    free(s->first);
    free(s);
}

/* ---- values ---- */

/* A JSON number as Python prints it; false: it is none. */
static bool put_number(struct kva_buf *out, const json_t *x)
{
    char text[40];
    double back;

    if (json_is_integer(x)) {
        kva_buf_printf(out, "%lld", (long long)json_integer_value(x));
        return true;
    }
    if (!json_is_real(x))
        return false;
    for (int digits = 1; digits <= 17; digits++) { /* the shortest that reads back */
        snprintf(text, sizeof text, "%.*g", digits, json_real_value(x));
        if (kva_parse_f64(text, &back) && back == json_real_value(x))
            break;
    }
    if (strchr(text, 'e') && fabs(json_real_value(x)) >= 1 &&
        fabs(json_real_value(x)) < 1e16) /* a whole one */
        snprintf(text, sizeof text, "%.1f", json_real_value(x));
    kva_buf_puts(out, text);
    if (!strpbrk(text, ".e"))
        kva_buf_puts(out, ".0");
    return true;
}

static enum kva_status put_context(const struct scbench *s, const struct kva_record *rec,
                                   const char *first_input, struct kva_buf *out,
                                   struct kva_error *err)
{
    json_t *x = json_object_get(rec->json, "context"), *e;
    size_t i;

    if (s->set == KV)
        kva_buf_printf(out, "%s\n\n", kv_instruction);
    else if (s->set == QA)
        kva_buf_printf(out, "%s\n\n", qa_instruction);
    else if (s->official)
        kva_buf_printf(out, "%s\n\n", first_input);
    if (json_is_string(x)) {
        kva_buf_add(out, json_string_value(x), json_string_length(x));
        return kva_buf_status(out, err);
    }
    if (s->set != MF || !json_is_array(x))
        return kva_record_fail(rec, err, "\"context\" is not a text%s",
                               s->set == MF ? " or a list of numbers" : "");
    kva_buf_putc(out, '[');
    json_array_foreach(x, i, e)
    {
        if (i)
            kva_buf_puts(out, ", ");
        if (!put_number(out, e))
            return kva_record_fail(rec, err, "context[%zu] is not a number", i);
    }
    kva_buf_putc(out, ']');
    return kva_buf_status(out, err);
}

static enum kva_status get_input(const struct kva_record *rec, json_t *turns, size_t turn,
                                 const char **input, struct kva_error *err)
{
    json_t *x = json_object_get(json_array_get(turns, turn), "input");

    if (!json_is_string(x) || strlen(json_string_value(x)) != json_string_length(x))
        return kva_record_fail(rec, err, "multi_turns[%zu]: \"input\" is not a text",
                               turn);
    *input = json_string_value(x);
    return KVA_OK;
}

/* "the largest number of the list" out of "... The largest number of the list is: ". */
static const char *find_target(const char *input, struct kva_arena *arena)
{
    for (const char *s = input; (s = strstr(s, "The ")); s++) {
        size_t line = strcspn(s, "\n"), end = 0;
        char *target;

        for (size_t i = 5; i + 3 <= line; i++)
            if (memcmp(s + i, " is", 3) == 0)
                end = i;
        if (end == 0)
            continue;
        target = kva_arena_strndup(arena, s, end);
        for (char *c = target; c && *c; c++)
            *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
        return target;
    }
    return NULL;
}

static enum kva_status set_question(const struct scbench *s, const struct kva_record *rec,
                                    const char *input, struct kva_arena *arena,
                                    struct kva_item *item, struct kva_error *err)
{
    const char *target;

    item->answer_prefix = "";
    if (s->set == KV) {
        item->question = kva_arena_strdup(arena, input);
    } else if (s->set == QA) {
        item->question = kva_arena_printf(arena, "Question: %s\nAnswer:", input);
    } else {
        target = find_target(input, arena);
        if (!target)
            return kva_record_fail(rec, err,
                                   "multi_turns[%d]: no \"The ... is\" in the "
                                   "input",
                                   item->turn);
        item->question = kva_arena_printf(arena, "What is %s?\n\n%s", target, input);
    }
    return item->question
               ? KVA_OK
               : KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
}

/* A text or number, or a list of such; scbench_mf and scbench_kv score the first. */
static enum kva_status set_answers(const struct scbench *s, const struct kva_record *rec,
                                   json_t *turn, struct kva_arena *arena,
                                   struct kva_item *item, struct kva_error *err)
{
    json_t *x = json_object_get(turn, "answer");
    size_t n = json_is_array(x) ? json_array_size(x) : 1;
    const char **answers = kva_arena_alloc(arena, n + 1, sizeof *answers);

    if (!answers)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
    if (n > 1 && s->set != QA)
        n = 1;
    for (size_t i = 0; i < n; i++) {
        json_t *a = json_is_array(x) ? json_array_get(x, i) : x;
        struct kva_buf text;

        kva_buf_init(&text, 0);
        if (json_is_string(a) && json_string_length(a) == strlen(json_string_value(a)))
            kva_buf_puts(&text, json_string_value(a));
        else if (s->set != MF || !put_number(&text, a)) {
            kva_buf_release(&text);
            return kva_record_fail(rec, err, "multi_turns[%d]: \"answer\" is not %s",
                                   item->turn, s->set == MF ? "a number" : "a text");
        }
        answers[i] =
            text.failed ? NULL : kva_arena_strdup(arena, text.len ? text.data : "");
        kva_buf_release(&text);
        if (!answers[i])
            return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
    }
    if (n == 0 || !answers[0][0])
        return kva_record_fail(rec, err, "multi_turns[%d]: no answer", item->turn);
    item->answers = answers;
    item->n_answers = (int)n;
    item->gold = kva_task_gold(arena, "", answers, 1, "");
    return item->gold ? KVA_OK
                      : KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
}

/* ---- an item ---- */

static enum kva_status set_context(const struct kva_task *task,
                                   const struct kva_buf *text,
                                   const struct kva_tok_api *tok, struct kva_arena *arena,
                                   struct kva_item *item, struct kva_error *err)
{
    const struct scbench *s = task->state;
    int64_t room =
        task->info.ctx - CUT_SPARE - (int64_t)s->first[1] * task->info.max_new_tokens;
    size_t head = text->len, tail = text->len;
    struct kva_buf joined;
    enum kva_status rc;

    if (task->info.ctx && room < 2)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task %s does not fit in %d (needs at least %lld)", task->label,
                        task->info.ctx, (long long)(task->info.ctx - room + 2));
    kva_buf_init(&joined, 0);
    if (task->info.ctx)
        KVA_GO(kva_longbench_cut(tok, text->data, text->len, (int)room, arena, &head,
                                 &tail, err));
    item->was_cut = head < tail;
    if (item->was_cut) {
        kva_utf8_clean(text->data, head, &joined);
        kva_utf8_clean(text->data + tail, text->len - tail, &joined);
    } else {
        kva_buf_add(&joined, text->data, text->len);
    }
    KVA_GO(kva_buf_status(&joined, err));
    item->context = kva_arena_strndup(arena, joined.data, joined.len);
    item->context_len = joined.len;
    if (!item->context) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
        goto out;
    }
    rc = tok->count(tok->ctx, &item->feed, item->context, item->context_len,
                    item->question, item->answer_prefix, &item->n_context,
                    &item->n_question, err);
out:
    kva_buf_release(&joined);
    return rc;
}

static enum kva_status scbench_item(const struct kva_task *task, int idx,
                                    const struct kva_tok_api *tok,
                                    struct kva_arena *arena, struct kva_item *item,
                                    struct kva_error *err)
{
    static const char *const labels[] = {"id", NULL};
    const struct scbench *s = task->state;
    size_t r = record_of(s, (size_t)idx), turn = (size_t)idx - s->first[r];
    struct kva_record rec;
    struct kva_buf text;
    const char *input, *first_input;
    json_t *turns;
    enum kva_status rc;

    kva_buf_init(&text, 0);
    item->turn = (int)turn;
    KVA_GO(kva_record_read(&s->records, r, &rec, err));
    KVA_GO(get_turns(&rec, &turns, err));
    KVA_GO(get_input(&rec, turns, turn, &input, err));
    KVA_GO(get_input(&rec, turns, 0, &first_input, err));
    KVA_GO(put_context(s, &rec, first_input, &text, err));
    KVA_GO(set_question(s, &rec, input, arena, item, err));
    KVA_GO(set_answers(s, &rec, json_array_get(turns, turn), arena, item, err));
    KVA_GO(kva_record_labels(&rec, labels, NULL, arena, &item->labels, err));
    rc = set_context(task, &text, tok, arena, item, err);
out:
    kva_record_release(&rec);
    kva_buf_release(&text);
    return rc;
}

static int scbench_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct scbench *s = task->state;
    int bad = kva_records_describe(&s->records, s->file, source);

    bad |= json_object_set_new(gen, "max_length", json_integer(task->info.ctx));
    bad |= json_object_set_new(gen, "max_new_tokens",
                               json_integer(task->info.max_new_tokens));
    bad |= json_object_set_new(gen, "name", json_string(task->name));
    return bad;
}

const struct kva_family kva_family_scbench = {scbench_open, scbench_close, scbench_item,
                                              scbench_describe};
