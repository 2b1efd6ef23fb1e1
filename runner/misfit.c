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

/* KVA_OK with m->why unset: the first sample fits. */
static enum kva_status try_first(const struct kva_plan *p, int task, struct kva_misfit *m,
                                 struct kva_error *err)
{
    const struct kva_plan_task *t = &p->tasks[task];
    const struct kva_model *model = kva_plan_any_model(&p->models[t->model]);
    struct kva_tok_model tm;
    struct kva_tok_api api;
    struct kva_arena arena;
    struct kva_item item = {0};
    enum kva_status rc;

    *m = (struct kva_misfit){.task = task, .all = kva_task_info(t->task)->ctx > 0};
    kva_arena_init(&arena);
    kva_tok_api_model(&tm, model, &api);
    rc = kva_task_item(t->task, 0, &api, &arena, &item, &m->why);
    if (rc == KVA_OK) {
        m->n_prompt = (int)(item.n_context + item.n_question);
        m->limit = kva_model_info(model)->ctx_train;
        (void)kva_item_room(&item, m->limit, m->n_prompt, &m->max_new, &m->why);
    } else if (rc == KVA_ENOMEM || rc == KVA_EINTERRUPTED) {
        rc = KVA_FAIL(err, rc, "%s", m->why.text);
    } else {
        rc = KVA_OK;
    }
    kva_arena_release(&arena);
    return rc;
}

static bool is_wanted(const struct kva_plan *p, int task)
{
    for (int i = 0; i < p->n_cells; i++)
        if (p->cells[i].task == task)
            return true;
    return false;
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
        if (!is_wanted(p, t))
            continue;
        rc = try_first(p, t, &v[*n], err);
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

    kva_buf_printf(out, "%s on %s: %s%s", t->suite->id, p->models[t->model].suite->id,
                   m->all ? "" : "sample 0: ", m->why.text);
    if (m->all && m->n_todo > 0)
        kva_buf_printf(out, "; %lld outcomes will be %s", (long long)m->n_todo,
                       m->why.code == KVA_ETRUNCATED ? "`truncated`" : "errors");
    kva_buf_putc(out, '\n');
}
