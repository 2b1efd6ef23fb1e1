/* SPDX-License-Identifier: GPL-3.0-or-later */
/* misfit.c - tasks that a model cannot take, said before anything runs.
 *
 * Prompt + answer <= the context the model was trained for, and prompt + 1 <= L of the
 * task (ruling R28: L bounds all that is fed plus what is generated). An outcome that
 * breaks either is `truncated`; one that cannot be made is an error. A plan of hundreds
 * of them is better known before the run than after. */
#include "runner/misfit.h"

#include <stdlib.h>
#include <string.h>

enum kva_status kva_item_room(const struct kva_item *item, int ctx_train, int n_prompt,
                              int *max_new, struct kva_error *err)
{
    int room = item->max_total - n_prompt;

    *max_new = item->max_new_tokens;
    if (item->max_total > 0 && room < 1)
        return KVA_FAIL(err, KVA_ETRUNCATED,
                        "prompt of %d tokens leaves no answer within the task's %d",
                        n_prompt, item->max_total);
    if (item->max_total > 0 && *max_new > room)
        *max_new = room;
    if (n_prompt + *max_new <= ctx_train)
        return KVA_OK;
    return KVA_FAIL(
        err, KVA_ETRUNCATED,
        "prompt of %d tokens and %d to generate exceed the model's context of %d",
        n_prompt, *max_new, ctx_train);
}

/* A failure is the sample's own, unless memory or time ran out. */
static enum kva_status told(enum kva_status rc, const struct kva_error *why,
                            struct kva_error *err)
{
    if (rc == KVA_ENOMEM || rc == KVA_EINTERRUPTED)
        return KVA_FAIL(err, rc, "%s", why->text);
    return KVA_OK;
}

/* Makes and counts m->sample as the model does. KVA_OK with m->why unset: it fits. */
static enum kva_status try_sample(const struct kva_plan *p, struct kva_misfit *m,
                                  struct kva_error *err)
{
    const struct kva_plan_task *t = &p->tasks[m->task];
    const struct kva_model *model = kva_plan_any_model(&p->models[t->model]);
    struct kva_tok_model tm;
    struct kva_tok_api api;
    struct kva_arena arena;
    struct kva_item item = {0};
    enum kva_status rc;

    kva_arena_init(&arena);
    kva_tok_api_model(&tm, model, &api);
    rc = kva_task_item(t->task, m->sample, &api, &arena, &item, &m->why);
    if (rc == KVA_OK) {
        m->n_prompt = (int)(item.n_context + item.n_question);
        m->limit = kva_model_info(model)->ctx_train;
        (void)kva_item_room(&item, m->limit, m->n_prompt, &m->max_new, &m->why);
    }
    kva_arena_release(&arena);
    return told(rc, &m->why, err);
}

/* Sets m->sample to the one of the first n that is the likeliest misfit, -1 when none of
 * them is of this shard. Words stand for tokens where a task cuts its samples to a
 * length: what is cut in words is cut in tokens. */
static enum kva_status pick(const struct kva_plan *p, int n, struct kva_misfit *m,
                            struct kva_error *err)
{
    const struct kva_plan_task *t = &p->tasks[m->task];
    int limit = kva_model_info(kva_plan_any_model(&p->models[t->model]))->ctx_train;
    struct kva_arena arena;
    size_t longest = 0;
    int texts = 0;
    enum kva_status rc = KVA_OK;

    kva_arena_init(&arena);
    m->sample = -1;
    for (int i = 0; i < n; i++) {
        struct kva_item item = {0};
        struct kva_error why = {0};
        size_t bytes;
        int max_new;

        if (t->mine != NULL && !t->mine[i])
            continue;
        if (m->sample < 0)
            m->sample = i;
        kva_arena_reset(&arena);
        rc = kva_task_item(t->task, i, &kva_tok_ws, &arena, &item, &why);
        if (rc == KVA_OK && item.context_ids != NULL)
            (void)kva_item_room(&item, limit,
                                (int)(item.n_context_ids + item.n_question_ids), &max_new,
                                &why);
        if (why.code != KVA_OK) {
            m->sample = i;
            m->longest_of = 0;
            rc = told(rc, &why, err);
            break;
        }
        if (item.context_ids != NULL)
            continue;
        bytes = item.context_len + strlen(item.question) + strlen(item.answer_prefix);
        m->longest_of = ++texts;
        if (texts == 1 || bytes > longest) {
            longest = bytes;
            m->sample = i;
        }
    }
    kva_arena_release(&arena);
    return rc;
}

/* Samples that the plan's cells ask for. */
static int wanted(const struct kva_plan *p, int task)
{
    int n = 0;

    for (int i = 0; i < p->n_cells; i++)
        if (p->cells[i].task == task && p->cells[i].n > n)
            n = p->cells[i].n;
    return n;
}

/* Outcomes to do. A blind run reads no context and may still fit. */
static int64_t shared_jobs(const struct kva_plan *p, int task, bool blind)
{
    int64_t n = 0;

    for (int u = 0; u < p->n_units; u++)
        for (int j = 0; p->units[u].task == task && j < p->units[u].n_jobs; j++)
            n += !p->units[u].jobs[j].perf &&
                 (blind || !p->cells[p->units[u].jobs[j].cell].method.blind);
    return n;
}

enum kva_status kva_misfits(const struct kva_plan *p, struct kva_misfit **out, int *n,
                            struct kva_error *err)
{
    struct kva_misfit *v = kva_calloc((size_t)p->n_tasks + 1, sizeof *v);
    enum kva_status rc = KVA_OK;

    *out = v;
    *n = 0;
    if (v == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%d tasks", p->n_tasks);
    for (int t = 0; t < p->n_tasks && rc == KVA_OK; t++) {
        const struct kva_task_info *info = kva_task_info(p->tasks[t].task);
        int samples = wanted(p, t);

        if (samples == 0)
            continue;
        v[*n] = (struct kva_misfit){.task = t, .all = info->ctx > 0 && info->dialect};
        if (!v[*n].all)
            rc = pick(p, samples, &v[*n], err);
        if (rc == KVA_OK && v[*n].sample >= 0)
            rc = try_sample(p, &v[*n], err);
        if (rc == KVA_OK && v[*n].why.code != KVA_OK) {
            v[*n].n_todo = shared_jobs(p, t, v[*n].why.code != KVA_ETRUNCATED);
            ++*n;
        }
    }
    return rc;
}

void kva_misfit_text(const struct kva_plan *p, const struct kva_misfit *m,
                     struct kva_buf *out)
{
    const struct kva_plan_task *t = &p->tasks[m->task];

    kva_buf_printf(out, "%s on %s: ", t->suite->id, p->models[t->model].suite->id);
    if (!m->all)
        kva_buf_printf(out, "sample %d", m->sample);
    if (m->longest_of > 1)
        kva_buf_printf(out, " (the longest of %d in bytes)", m->longest_of);
    kva_buf_printf(out, "%s%s", m->all ? "" : ": ", m->why.text);
    if (m->all && m->n_todo > 0)
        kva_buf_printf(out, "; %lld outcomes will be %s", (long long)m->n_todo,
                       m->why.code == KVA_ETRUNCATED ? "`truncated`" : "errors");
    kva_buf_putc(out, '\n');
}
