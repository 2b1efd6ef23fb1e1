/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mt.c - what the multi-turn tasks share (tasks-ruler.md 10, rulings R22 and R26). */
#include "tasks/mt.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parameters and names ---- */

/* Number of `word` in a NULL-terminated list, or -1. */
static int find_word(const char *const *list, const char *word)
{
    for (int i = 0; list && list[i]; i++)
        if (strcmp(list[i], word) == 0)
            return i;
    return -1;
}

static enum kva_status choose_word(const struct kva_task_request *req, const char *key,
                                   const char *value, const char *const *list, int *out,
                                   struct kva_error *err)
{
    struct kva_buf words;

    *out = find_word(list, value);
    if (*out >= 0)
        return KVA_OK;
    kva_buf_init(&words, 0);
    for (int i = 0; list[i]; i++)
        kva_buf_printf(&words, "%s%s",
                       i == 0        ? ""
                       : list[i + 1] ? ", "
                                     : " or ",
                       list[i]);
    KVA_FAIL(err, KVA_EINVALID, "task \"%s\": %s is %s, not %s", req->text, key,
             words.failed ? "something else" : words.data, value);
    kva_buf_release(&words);
    return KVA_EINVALID;
}

static enum kva_status bad_key(const struct kva_task_request *req,
                               const struct kva_mt *mt, const char *key,
                               struct kva_error *err)
{
    const char *known[KVA_MT_PARAMS_MAX + 4];
    size_t n = 0;

    for (size_t i = 0; i < mt->n_params; i++)
        known[n++] = mt->param[i].key;
    if (mt->haystacks)
        known[n++] = "haystack";
    known[n++] = "history";
    known[n++] = "mode";
    known[n] = NULL;
    return kva_task_bad_param(req, key, known, err);
}

static enum kva_status read_param(const struct kva_task_request *req, struct kva_mt *mt,
                                  const struct kva_task_param *p, struct kva_error *err)
{
    static const char *const modes[] = {"independent", "conversation", NULL};
    static const char *const histories[] = {"own", "golden", NULL};
    int at;

    for (size_t i = 0; i < mt->n_params; i++) {
        const struct kva_mt_param *m = &mt->param[i];
        int64_t x;

        if (strcmp(m->key, p->key) != 0)
            continue;
        if (!kva_parse_i64(p->value, &x) || x < m->lo || x > m->hi)
            return KVA_FAIL(err, KVA_EINVALID,
                            "task \"%s\": %s is a whole number from %d to %d", req->text,
                            p->key, m->lo, m->hi);
        *m->value = (int)x;
        return KVA_OK;
    }
    if (strcmp(p->key, "mode") == 0) {
        KVA_TRY(choose_word(req, p->key, p->value, modes, &at, err));
        mt->conversation = at == 1;
        return KVA_OK;
    }
    if (strcmp(p->key, "history") == 0) {
        KVA_TRY(choose_word(req, p->key, p->value, histories, &at, err));
        mt->golden = at == 1;
        return KVA_OK;
    }
    if (strcmp(p->key, "haystack") != 0 || !mt->haystacks)
        return bad_key(req, mt, p->key, err);
    KVA_TRY(choose_word(req, p->key, p->value, mt->haystacks, &at, err));
    mt->haystack = mt->haystacks[at];
    return KVA_OK;
}

struct part {
    const char *key;
    char value[24];
    bool draws; /* changes what is drawn */
};

static int compare_parts(const void *a, const void *b)
{
    return strcmp(((const struct part *)a)->key, ((const struct part *)b)->key);
}

static void join_parts(struct kva_buf *out, const char *head, const struct part *part,
                       size_t n, bool all)
{
    char gap = ':';

    kva_buf_puts(out, head);
    for (size_t i = 0; i < n; i++) {
        if (!all && !part[i].draws)
            continue;
        kva_buf_printf(out, "%c%s=%s", gap, part[i].key, part[i].value);
        gap = ',';
    }
}

static enum kva_status make_names(struct kva_task *task, const struct kva_mt *mt,
                                  struct kva_error *err)
{
    struct part part[KVA_MT_PARAMS_MAX + 3];
    struct kva_buf name, stream;
    size_t n = 0;
    enum kva_status rc;

    for (size_t i = 0; i < mt->n_params; i++) {
        const struct kva_mt_param *m = &mt->param[i];

        if (*m->value == m->standard)
            continue;
        part[n] = (struct part){.key = m->key, .draws = true};
        snprintf(part[n++].value, sizeof part[0].value, "%d", *m->value);
    }
    if (mt->haystacks && mt->haystack != mt->haystacks[0]) {
        part[n] = (struct part){.key = "haystack", .draws = true};
        snprintf(part[n++].value, sizeof part[0].value, "%s", mt->haystack);
    }
    if (mt->conversation)
        part[n++] = (struct part){.key = "mode", .value = "conversation"};
    if (mt->golden)
        part[n++] = (struct part){.key = "history", .value = "golden"};
    qsort(part, n, sizeof *part, compare_parts);
    kva_buf_init(&name, 0);
    kva_buf_init(&stream, 0);
    join_parts(&name, task->desc->name, part, n, true);
    kva_buf_puts(&stream, "mt_");
    join_parts(&stream, task->desc->name, part, n, false);
    KVA_GO(kva_buf_status(&name, err));
    KVA_GO(kva_buf_status(&stream, err));
    rc = kva_task_set_names(task, name.data, stream.data, err);
out:
    kva_buf_release(&name);
    kva_buf_release(&stream);
    return rc;
}

enum kva_status kva_mt_open(struct kva_task *task, const struct kva_task_request *req,
                            struct kva_mt *mt, struct kva_error *err)
{
    int at;

    for (size_t i = 0; i < mt->n_params; i++)
        *mt->param[i].value = mt->param[i].standard;
    mt->haystack = mt->haystacks ? mt->haystacks[0] : NULL;
    if (req->opts->haystack) {
        if (!mt->haystacks)
            return KVA_FAIL(err, KVA_EINVALID, "task \"%s\" has no haystack", req->text);
        KVA_TRY(
            choose_word(req, "haystack", req->opts->haystack, mt->haystacks, &at, err));
        mt->haystack = mt->haystacks[at];
    }
    for (int i = 0; i < req->n_params; i++)
        KVA_TRY(read_param(req, mt, &req->param[i], err));
    if (mt->golden && !mt->conversation)
        return KVA_FAIL(err, KVA_EINVALID,
                        "task \"%s\": history=golden needs mode=conversation; "
                        "independent questions have no history",
                        req->text);
    task->info.turns = mt->turns;
    task->info.conversation = mt->conversation;
    task->info.golden = mt->golden;
    task->haystack = mt->haystack;
    kva_task_use_layout(task, "kva1");
    return make_names(task, mt, err);
}

void kva_mt_hash(struct kva_mt *mt, const char *const *texts, size_t n)
{
    struct kva_sha256 h;
    uint8_t digest[32];

    kva_sha256_init(&h);
    for (size_t i = 0; i < n; i++)
        kva_sha256_add(&h, texts[i], strlen(texts[i]) + 1);
    kva_sha256_end(&h, digest);
    kva_hex(digest, sizeof digest, mt->template_sha256);
}

int kva_mt_describe(const struct kva_task *task, const struct kva_mt *mt, void *gen)
{
    int bad = 0;

    bad |= json_object_set_new(gen, "dialect", json_string(task->info.dialect));
    bad |= json_object_set_new(gen, "L", json_integer(task->info.ctx));
    bad |= json_object_set_new(gen, "layout", json_string(task->layout));
    bad |= json_object_set_new(gen, "max_new_tokens",
                               json_integer(task->info.max_new_tokens));
    bad |= json_object_set_new(
        gen, "mode", json_string(mt->conversation ? "conversation" : "independent"));
    if (mt->conversation)
        bad |= json_object_set_new(gen, "history",
                                   json_string(mt->golden ? "golden" : "own"));
    bad |= json_object_set_new(gen, "name", json_string(task->name));
    bad |= json_object_set_new(gen, "seed", json_integer((json_int_t)task->seed));
    bad |= json_object_set_new(gen, "template_sha256", json_string(mt->template_sha256));
    for (size_t i = 0; i < mt->n_params; i++)
        bad |=
            json_object_set_new(gen, mt->param[i].key, json_integer(*mt->param[i].value));
    if (mt->haystack)
        bad |= json_object_set_new(gen, "haystack", json_string(mt->haystack));
    if (task->splitter)
        bad |= json_object_set_new(gen, "splitter", json_string(task->splitter));
    if (task->words)
        bad |= json_object_set_new(gen, "words", json_string(task->words));
    return bad;
}

/* ---- an item ---- */

int kva_mt_context(const struct kva_mt *mt, const struct kva_item *item)
{
    return item->idx / mt->turns;
}

int kva_mt_turn(const struct kva_mt *mt, const struct kva_item *item)
{
    return item->idx % mt->turns;
}

struct kva_item *kva_mt_turns(const struct kva_mt *mt, const struct kva_item *item,
                              struct kva_arena *arena)
{
    struct kva_item *turn = kva_arena_alloc(arena, (size_t)mt->turns, sizeof *turn);

    for (int t = 0; turn && t < mt->turns; t++) {
        turn[t] = *item;
        turn[t].turn = t;
    }
    return turn;
}

enum kva_status kva_mt_ask(const struct kva_task *task, struct kva_item *turn,
                           const char *question, const char *answer_prefix,
                           const char *const *answers, int n_answers, const char *joint,
                           struct kva_arena *arena, struct kva_error *err)
{
    if (!question || !answer_prefix)
        return KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", turn->idx);
    turn->question = question;
    turn->answer_prefix = answer_prefix;
    turn->answers = answers;
    turn->n_answers = n_answers;
    KVA_TRY(kva_task_lay_out(task, arena, turn, err));
    turn->gold = kva_task_gold(arena, turn->answer_prefix, answers, n_answers, joint);
    return turn->gold ? KVA_OK
                      : KVA_FAIL(err, KVA_ENOMEM, "item %d: out of memory", turn->idx);
}

enum kva_status kva_mt_finish(const struct kva_task *task, const struct kva_mt *mt,
                              const struct kva_item *turns, struct kva_fit *fit,
                              struct kva_draft *d, struct kva_span_job *job,
                              const struct kva_tok_api *tok, struct kva_arena *arena,
                              struct kva_item *item, struct kva_error *err)
{
    int own = kva_mt_turn(mt, item), longest = 0;
    size_t n_question[KVA_TURNS_MAX], all = 0, n_context;

    for (int t = 0; t < mt->turns; t++) {
        KVA_TRY(tok->count(tok->ctx, &turns[t].feed, "", 0, turns[t].question,
                           turns[t].answer_prefix, &n_context, &n_question[t], err));
        all += n_question[t] + (size_t)turns[t].max_new_tokens;
        if (n_question[t] > n_question[longest])
            longest = t;
    }
    fit->task = task->label;
    fit->question = turns[longest].question;
    fit->answer_prefix = turns[longest].answer_prefix;
    fit->feed = &turns[longest].feed;
    fit->limit = task->info.ctx;
    fit->max_new_tokens = turns[longest].max_new_tokens;
    if (mt->conversation)
        fit->max_new_tokens = (int)(all - n_question[longest]);
    KVA_TRY(kva_fit_draft(fit, tok, d, err));
    *item = turns[own];
    fit->n_question = n_question[own];
    job->guard = KVA_SPAN_GUARD;
    job->tau = KVA_SPAN_TAU;
    job->n_distractors = KVA_SPAN_DISTRACTORS;
    KVA_TRY(kva_task_finish(task, tok, fit, d, job, arena, item, err));
    if (mt->conversation)
        item->fill = (double)(fit->n_context + all) / (double)task->info.ctx;
    else
        item->fill = (double)(fit->n_context + n_question[longest] +
                              (size_t)item->max_new_tokens) /
                     (double)task->info.ctx;
    item->underfill = item->fill < 0.97;
    return KVA_OK;
}
