/* SPDX-License-Identifier: GPL-3.0-or-later */
/* math.c - `math/math500`, `math/aime25`, `math/gsm8k`: short problems, long answers.
 *
 * Profiles, with {p} the problem:
 *
 *     boxed   {p}\nPlease reason step by step, and put your final answer within \boxed{}.
 *             one user turn (the directive of the DeepSeek-R1 model card)
 *     rkv     R-KV's run_math.py, raw with BOS
 *     plain   Problem:\n{p}\n\nSolution:      raw, ends at "\nProblem:" (base models)
 *
 * No pipeline splits these prompts. Here the context ends behind the problem and the line
 * feeds that follow it; the directive is the question. So eviction before the question
 * has the problem alone to work on, as with every other task, and the prompt is unchanged
 * byte for byte; only no token straddles the border.
 *
 * `max_total` bounds prompt and answer together (8192; aime25 has 32768 new tokens and no
 * such bound); `loop_guard=1` ends answers that repeat themselves. The text whose nats
 * are measured is what all three prompts ask for: \boxed{ANSWER}. */
#include "tasks/records.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { TOTAL_MAX = 1 << 24 };

/* {p} stands between head and mid. */
struct form {
    const char *profile, *head, *mid, *question;
    bool raw;
    const char *stop;
};
static const struct form forms[] = {
    {"boxed", "", "\n",
     "Please reason step by step, and put your final answer within \\boxed{}.", false,
     NULL},
    {"rkv", "You are given a math problem.\n\nProblem: ", "\n\n",
     " You need to solve the problem step by step. First, you need to provide the "
     "chain-of-thought, then provide the final answer.\n\n Provide the final answer in "
     "the format: Final answer:  \\boxed{}",
     true, NULL},
    {"plain", "Problem:\n", "\n\n", "Solution:", true, "\nProblem:"},
};
enum { N_FORMS = sizeof forms / sizeof forms[0] };

struct set {
    const char *name, *file, *problem, *domain; /* problem: the field that holds it */
    int n, max_total;
    const char *labels[4], *more[5];
    /* the reference out of the field "answer" */
    enum kva_status (*answer)(const struct kva_record *rec, struct kva_arena *arena,
                              const char **out, struct kva_error *err);
};

struct math {
    const struct set *set;
    const struct form *form;
    struct kva_records records;
    int max_total;
    bool loop_guard;
};

/* ---- references ---- */

static enum kva_status given_answer(const struct kva_record *rec, struct kva_arena *arena,
                                    const char **out, struct kva_error *err)
{
    KVA_TRY(kva_record_text(rec, "answer", true, arena, out, NULL, err));
    return (*out)[0] ? KVA_OK : kva_record_fail(rec, err, "\"answer\" is empty");
}

/* 0 to 999, as a text or a number. */
static enum kva_status aime_answer(const struct kva_record *rec, struct kva_arena *arena,
                                   const char **out, struct kva_error *err)
{
    int64_t value;

    if (json_is_integer(json_object_get(rec->json, "answer"))) {
        KVA_TRY(kva_record_whole(rec, "answer", &value, err));
    } else {
        KVA_TRY(kva_record_text(rec, "answer", true, arena, out, NULL, err));
        if (!kva_parse_i64(*out, &value))
            value = -1;
    }
    if (value < 0 || value > 999)
        return kva_record_fail(rec, err, "\"answer\" is not a whole number 0 to 999");
    *out = kva_arena_printf(arena, "%d", (int)value);
    return *out ? KVA_OK : KVA_FAIL(err, KVA_ENOMEM, "line %d: out of memory", rec->line);
}

/* What follows the last "####", without commas and outer blanks. */
static enum kva_status gsm8k_answer(const struct kva_record *rec, struct kva_arena *arena,
                                    const char **out, struct kva_error *err)
{
    const char *solution, *from = NULL;
    size_t n = 0, k = 0;
    char *answer;

    KVA_TRY(kva_record_text(rec, "answer", true, arena, &solution, NULL, err));
    for (const char *at = strstr(solution, "####"); at; at = strstr(from, "####"))
        from = at + 4;
    if (from) {
        from += strspn(from, " \t\r\n");
        n = strlen(from);
        while (n > 0 && strchr(" \t\r\n", from[n - 1]))
            n--;
    }
    if (n == 0)
        return kva_record_fail(rec, err, "\"answer\" has nothing behind ####");
    answer = kva_arena_strndup(arena, from, n);
    if (!answer)
        return KVA_FAIL(err, KVA_ENOMEM, "line %d: out of memory", rec->line);
    for (size_t i = 0; i < n; i++)
        if (answer[i] != ',')
            answer[k++] = answer[i];
    answer[k] = '\0';
    *out = answer;
    return KVA_OK;
}

static const struct set sets[] = {
    {.name = "math500",
     .file = "test.jsonl",
     .problem = "problem",
     .domain = "mathematics",
     .n = 500,
     .max_total = 8192,
     .labels = {"unique_id", "level", "subject"},
     .more = {"math500_boxed", "math500_kvpress", "math500_minerva", "math500_hendrycks"},
     .answer = given_answer},
    {.name = "aime25",
     .file = "aime25.jsonl",
     .problem = "problem",
     .domain = "mathematics",
     .n = 30,
     .labels = {"id"},
     .more = {"aime_kvpress"},
     .answer = aime_answer},
    {.name = "gsm8k",
     .file = "test.jsonl",
     .problem = "question",
     .domain = "mathematics",
     .n = 1319,
     .max_total = 8192,
     .answer = gsm8k_answer},
};

/* ---- items ---- */

static enum kva_status make_prompt(const struct math *s, const struct kva_record *rec,
                                   struct kva_arena *arena, struct kva_item *item,
                                   struct kva_error *err)
{
    const struct form *form = s->form;
    struct kva_buf context;
    const char *problem;
    enum kva_status rc;
    size_t n;

    kva_buf_init(&context, 0);
    KVA_GO(kva_record_text(rec, s->set->problem, true, arena, &problem, &n, err));
    if (n == 0) {
        rc = kva_record_fail(rec, err, "\"%s\" is empty", s->set->problem);
        goto out;
    }
    kva_buf_puts(&context, form->head);
    kva_buf_add(&context, problem, n);
    kva_buf_puts(&context, form->mid);
    KVA_GO(kva_buf_status(&context, err));
    item->context = kva_arena_strndup(arena, context.data, context.len);
    item->context_len = context.len;
    if (!item->context)
        rc = KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
out:
    kva_buf_release(&context);
    return rc;
}

static enum kva_status get_answer(const struct math *s, const struct kva_record *rec,
                                  struct kva_arena *arena, struct kva_item *item,
                                  struct kva_error *err)
{
    const char **answers = kva_arena_alloc(arena, 1, sizeof *answers), *boxed;

    if (!answers)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
    KVA_TRY(s->set->answer(rec, arena, &answers[0], err));
    item->answers = answers;
    item->n_answers = 1;
    boxed = kva_arena_printf(arena, "\\boxed{%s}", answers[0]);
    item->gold = boxed ? kva_task_gold(arena, "", &boxed, 1, "") : NULL;
    return item->gold ? KVA_OK
                      : KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", item->idx);
}

static enum kva_status math_item(const struct kva_task *task, int idx,
                                 const struct kva_tok_api *tok, struct kva_arena *arena,
                                 struct kva_item *item, struct kva_error *err)
{
    const struct math *s = task->state;
    const struct form *form = s->form;
    struct kva_record rec;
    enum kva_status rc;

    KVA_GO(kva_record_read(&s->records, (size_t)idx, &rec, err));
    KVA_GO(make_prompt(s, &rec, arena, item, err));
    KVA_GO(get_answer(s, &rec, arena, item, err));
    KVA_GO(kva_record_labels(&rec, s->set->labels, NULL, arena, &item->labels, err));
    item->question = form->question;
    item->answer_prefix = "";
    item->feed = (struct kva_feed){.raw = form->raw, .suffix = form->raw ? "" : NULL};
    item->stops = form->stop ? &form->stop : NULL;
    item->n_stops = form->stop != NULL;
    item->max_total = s->max_total;
    item->loop_guard = s->loop_guard;
    item->more_metrics = s->set->more[0] ? s->set->more : NULL;
    KVA_GO(tok->count(tok->ctx, &item->feed, item->context, item->context_len,
                      item->question, item->answer_prefix, &item->n_context,
                      &item->n_question, err));
out:
    kva_record_release(&rec);
    return rc;
}

/* ---- the task ---- */

static enum kva_status read_params(struct math *s, const struct kva_task_request *req,
                                   struct kva_error *err)
{
    static const char *const known[] = {"loop_guard", "max_total", NULL};

    for (int i = 0; i < req->n_params; i++) {
        const struct kva_task_param *p = &req->param[i];
        int64_t v;
        bool whole = kva_parse_i64(p->value, &v);

        if (strcmp(p->key, "max_total") == 0) {
            if (!whole || v < 1 || v > TOTAL_MAX)
                return KVA_FAIL(err, KVA_EINVALID,
                                "task \"%s\": max_total is 1 to %d tokens", req->text,
                                TOTAL_MAX);
            s->max_total = (int)v;
        } else if (strcmp(p->key, "loop_guard") == 0) {
            if (!whole || v < 0 || v > 1)
                return KVA_FAIL(err, KVA_EINVALID, "task \"%s\": loop_guard is 0 or 1",
                                req->text);
            s->loop_guard = v == 1;
        } else {
            return kva_task_bad_param(req, p->key, known, err);
        }
    }
    return KVA_OK;
}

/* "math500", "math500:loop_guard=1,max_total=2048". */
static enum kva_status make_name(struct kva_task *task, const struct math *s,
                                 struct kva_error *err)
{
    struct kva_buf name;
    enum kva_status rc;

    kva_buf_init(&name, 0);
    kva_buf_puts(&name, s->set->name);
    if (s->loop_guard)
        kva_buf_puts(&name, ":loop_guard=1");
    if (s->max_total != s->set->max_total)
        kva_buf_printf(&name, "%smax_total=%d", s->loop_guard ? "," : ":", s->max_total);
    KVA_GO(kva_buf_status(&name, err));
    task->name = kva_calloc(name.len + 1, 1);
    if (!task->name) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", s->set->name);
        goto out;
    }
    memcpy(task->name, name.data, name.len);
out:
    kva_buf_release(&name);
    return rc;
}

static enum kva_status math_open(struct kva_task *task,
                                 const struct kva_task_request *req,
                                 struct kva_error *err)
{
    struct math *s;

    if (req->limit)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": a math task has no length @%d; max_total=%d bounds "
                        "prompt and answer",
                        req->text, req->limit, req->limit);
    s = kva_calloc(1, sizeof *s);
    if (!s)
        return KVA_FAIL(err, KVA_ENOMEM, "task %s: out of memory", req->text);
    s->records.fd = -1;
    task->state = s;
    for (s->set = sets; strcmp(s->set->name, req->desc->name) != 0;)
        s->set++;
    for (s->form = forms; strcmp(s->form->profile, task->info.profile) != 0;)
        s->form++;
    s->max_total = s->set->max_total;
    KVA_TRY(read_params(s, req, err));
    KVA_TRY(make_name(task, s, err));
    KVA_TRY(kva_records_open(&s->records, req->opts, s->set->name, s->set->file, err));
    task->info.domain = s->set->domain;
    task->info.binary = true;
    task->info.n_available = (int64_t)s->records.n;
    return KVA_OK;
}

static void math_close(void *state)
{
    struct math *s = state;

    kva_records_release(&s->records);
    free(s);
}

static int math_describe(const struct kva_task *task, void *gen, void *source)
{
    const struct math *s = task->state;
    int bad = 0;

    bad |= json_object_set_new(gen, "loop_guard", json_boolean(s->loop_guard));
    bad |= json_object_set_new(gen, "max_new_tokens",
                               json_integer(task->info.max_new_tokens));
    bad |= json_object_set_new(gen, "max_total", json_integer(s->max_total));
    bad |= json_object_set_new(gen, "name", json_string(task->name));
    bad |= json_object_set_new(
        gen, "template",
        json_sprintf("%s{}%s|%s", s->form->head, s->form->mid, s->form->question));
    bad |= kva_records_describe(&s->records, s->set->file, source);
    bad |= json_object_set_new(source, "complete",
                               json_boolean(s->records.n == (size_t)s->set->n));
    return bad;
}

const struct kva_family kva_family_math = {math_open, math_close, math_item,
                                           math_describe};
