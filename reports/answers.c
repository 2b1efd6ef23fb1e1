/* SPDX-License-Identifier: GPL-3.0-or-later */
/* answers.c - how answers end and what failures say, per task and method; other metrics
 * beside the score.
 *
 * An answer cut at its limit may be right later (tasks-ruler.md 11.3). A failure of a
 * task with several needles that gives another needle's value lost the binding; an
 * invented one lost the content (small-models.md 5c). A method that answers the same,
 * token for token, at two budgets may ignore its budget (tasks-ruler.md 11.4). */
#include "reports/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    A_TASK,
    A_METHOD,
    A_KEEP,
    A_N,
    A_LENGTH,
    A_REPEAT,
    A_FAILED,
    A_WRONG,
    A_INVENTED,
    A_SAME,
    A_WHOLE,
    A_SPEC,
    A_BUDGET_KIND,
    A_BUDGET,
    A_COLS
};
static const struct kva_col COLS[A_COLS] = {
    {"task", "task", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, true, "nominal budget"},
    {"n", "n", "", KVA_COL_INT, 0, false, 1, false, "finished answers"},
    {"length_stop", "cut", "%", KVA_COL_PERCENT, 0, false, 0, false,
     "answers that ended at the token limit"},
    {"repeat_stop", "loop", "%", KVA_COL_PERCENT, 0, false, 5, false,
     "answers ended because they repeated themselves"},
    {"n_failed", "failures", "", KVA_COL_INT, 0, false, 2, false,
     "answers below full score that were looked at for other needles"},
    {"wrong_needle", "wrong needle", "%", KVA_COL_PERCENT, 0, false, 3, false,
     "of these failures: another needle's value was given"},
    {"invented", "invented", "%", KVA_COL_PERCENT, 0, false, 4, false,
     "of these failures: no value of the context was given"},
    {"same_answer", "same as next", "%", KVA_COL_PERCENT, 0, false, 6, false,
     "answers equal, token for token, to those of the next larger budget"},
    {"not_evicted", "untouched", "%", KVA_COL_PERCENT, 0, false, 7, false,
     "prompts so short that nothing was evicted before the answer"},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
    {"budget_kind", "budget kind", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"budget", "budget", "", KVA_COL_REAL, 4, false, 99, false, ""},
};

struct ends {
    int n, length, repeat, failed, wrong, with_bytes, whole;
};

static struct ends ends_of(const struct kva_data *d, const struct kva_cells *c, int cell)
{
    struct ends e = {0};

    for (int i = c->first_outcome[cell]; i < c->first_outcome[cell + 1]; i++) {
        const struct kva_data_outcome *o = &d->outcomes[i];

        if (strcmp(o->status, "ok") != 0)
            continue;
        e.n++;
        e.length += o->stop && strcmp(o->stop, "length") == 0;
        e.repeat += o->stop && strcmp(o->stop, "repeat") == 0;
        e.failed += o->wrong_needle >= 0;
        e.wrong += o->wrong_needle == 1;
        e.with_bytes += o->has_memory;
        e.whole += o->has_memory && o->memory.kv_live_bytes >= o->memory.kv_dense_bytes;
    }
    return e;
}

/* Outcomes of two cells on the same (sample, rep): how many both answered, on how many
 * samples, how many answers are the same tokens, and whether the same entries were kept
 * in all of them. */
struct twins {
    int n, samples, same;
    bool same_kept;
};

static struct twins twins_of(const struct kva_data *d, const struct kva_cells *c, int x,
                             int y)
{
    struct twins t = {.same_kept = true};
    int i = c->first_outcome[x], j = c->first_outcome[y], last = -1;

    while (i < c->first_outcome[x + 1] && j < c->first_outcome[y + 1]) {
        const struct kva_data_outcome *a = &d->outcomes[i], *b = &d->outcomes[j];
        int order = a->sample != b->sample ? a->sample - b->sample : a->rep - b->rep;

        if (order == 0 && a->gen_key && b->gen_key) {
            t.n++;
            t.samples += a->sample != last;
            last = a->sample;
            t.same += a->gen_key == b->gen_key;
            t.same_kept &= a->kept_fnv == b->kept_fnv;
        }
        i += order <= 0;
        j += order >= 0;
    }
    return t;
}

/* The same method at the next larger budget of the same kind; NULL: none. */
static const struct kva_arm *next_larger(const struct kva_board *b,
                                         const struct kva_arm *a)
{
    const struct kva_arm *best = NULL;

    for (int k = 0; k < b->n_arm; k++) {
        const struct kva_arm *x = &b->arm[k];

        if (x->role == KVA_ARM_METHOD && strcmp(x->spec, a->spec) == 0 &&
            strcmp(x->budget_kind, a->budget_kind) == 0 && x->budget > a->budget &&
            (!best || x->budget < best->budget))
            best = x;
    }
    return best;
}

static void same_note(struct kva_report *r, struct kva_tab *t, const struct kva_arm *a,
                      const struct kva_arm *next, const char *task,
                      const struct twins *same, int *noted)
{
    if (same->samples < 2 || same->same < same->n)
        return;
    if ((*noted)++ < 5)
        kva_tab_note(r, t,
                     "%s on %s answers the same, token for token, at %s and %s in all %d "
                     "samples%s",
                     a->name, task, a->budget_text, next->budget_text, same->samples,
                     same->same_kept ? ", and keeps the same entries: its budget has no "
                                       "effect."
                                     : ".");
}

static void answer_row(struct kva_report *r, const struct kva_data *d,
                       const struct kva_cells *c, const struct kva_board *b,
                       const struct kva_arm *a, int task, struct kva_tab *t, int *noted)
{
    struct ends e = ends_of(d, c, a->cell[task]);
    const struct kva_arm *next = a->role == KVA_ARM_METHOD ? next_larger(b, a) : NULL;
    struct kva_row *row = kva_tab_row(r, t);
    struct kva_val *v;

    if (!row)
        return;
    v = row->cell;
    v[A_TASK] = kva_val_text(b->task_label[task]);
    kva_arm_names(a, &v[A_METHOD], &v[A_KEEP], &v[A_SPEC]);
    v[A_N] = kva_val_number(e.n);
    if (e.n) {
        v[A_LENGTH] = kva_val_number((double)e.length / e.n);
        v[A_REPEAT] = kva_val_number((double)e.repeat / e.n);
    }
    if (e.failed) {
        v[A_FAILED] = kva_val_number(e.failed);
        v[A_WRONG] = kva_val_number((double)e.wrong / e.failed);
        v[A_INVENTED] = kva_val_number(1 - (double)e.wrong / e.failed);
    }
    if (a->role == KVA_ARM_METHOD && e.with_bytes)
        v[A_WHOLE] = kva_val_number((double)e.whole / e.with_bytes);
    if (next && next->cell[task] >= 0) {
        struct twins same = twins_of(d, c, a->cell[task], next->cell[task]);

        if (same.n)
            v[A_SAME] = kva_val_number((double)same.same / same.n);
        same_note(r, t, a, next, b->task_label[task], &same, noted);
    }
    v[A_BUDGET_KIND] = kva_val_text(a->budget_kind);
    v[A_BUDGET] = kva_val_number(a->budget);
    row->role = a->role != KVA_ARM_METHOD ? KVA_ROW_REFERENCE
                : a->ok < a->expected     ? KVA_ROW_INCOMPLETE
                                          : KVA_ROW_PLAIN;
}

void kva_answer_table(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c, const struct kva_board *b)
{
    struct kva_tab *t = kva_board_tab(r, b, "answers", KVA_VIEW_ANSWERS, COLS, A_COLS);
    int noted = 0;

    if (!t)
        return;
    t->caption = kva_arena_printf(&r->arena, "How answers end: %s", b->title);
    r->nomem |= !t->caption;
    for (int i = 0; i < b->n_task; i++) {
        bool first = true;

        for (int k = 0; k < b->n_arm; k++)
            if (b->arm[k].cell[i] >= 0) {
                int n = t->n_row;

                answer_row(r, d, c, b, &b->arm[k], i, t, &noted);
                if (t->n_row > n && first && n > 0)
                    t->row[n].group = true;
                first = false;
            }
    }
    if (noted > 5)
        kva_tab_note(r, t, "%d more pairs of budgets with equal answers.", noted - 5);
}

/* ---- second metrics ---- */

enum {
    M_TASK,
    M_METHOD,
    M_KEEP,
    M_METRIC,
    M_SCORE,
    M_OTHER_NAME,
    M_OTHER,
    M_DIFF,
    M_N,
    M_SPEC,
    M_BUDGET_KIND,
    M_BUDGET,
    M_COLS
};
static const struct kva_col SECOND[M_COLS] = {
    {"task", "task", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, true, "nominal budget"},
    {"metric", "metric", "", KVA_COL_TEXT, 0, false, 3, false, "of the score"},
    {"score", "score", "", KVA_COL_PERCENT, 2, false, 0, false, "of the same answers"},
    {"other_metric", "other", "", KVA_COL_TEXT, 0, false, 0, false, "another metric"},
    {"other_score", "other score", "", KVA_COL_PERCENT, 2, false, 0, false, ""},
    {"difference", "difference", "points", KVA_COL_PERCENT, 2, false, 1, false,
     "other score - score"},
    {"n", "n", "", KVA_COL_INT, 0, false, 2, false, "answers with both"},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
    {"budget_kind", "budget kind", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"budget", "budget", "", KVA_COL_REAL, 4, false, 99, false, ""},
};

static int first_second(const struct kva_data *d, int cell)
{
    int lo = 0, hi = d->n_seconds;

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;

        if (d->seconds[mid].cell < cell)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void second_row(struct kva_report *r, const struct kva_data *d,
                       const struct kva_board *b, const struct kva_arm *a, int task,
                       const struct kva_data_second *s, struct kva_row *row)
{
    struct kva_val *v = row->cell;

    v[M_TASK] = kva_val_text(b->task_label[task]);
    kva_arm_names(a, &v[M_METHOD], &v[M_KEEP], &v[M_SPEC]);
    v[M_METRIC] =
        kva_val_text(kva_report_clean(&r->arena, d->tasks[b->task[task]].metric));
    v[M_SCORE] = kva_val_number(s->own);
    v[M_OTHER_NAME] = kva_val_text(kva_report_clean(&r->arena, s->metric));
    v[M_OTHER] = kva_val_number(s->mean);
    v[M_DIFF] = kva_val_number(s->mean - s->own);
    v[M_N] = kva_val_number(s->n);
    v[M_BUDGET_KIND] = kva_val_text(a->budget_kind);
    v[M_BUDGET] = kva_val_number(a->budget);
    row->role = a->role != KVA_ARM_METHOD ? KVA_ROW_REFERENCE : KVA_ROW_PLAIN;
}

void kva_second_table(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c, const struct kva_board *b)
{
    struct kva_tab *t = NULL;

    (void)c;
    for (int i = 0; i < b->n_task; i++)
        for (int k = 0; k < b->n_arm; k++) {
            const struct kva_arm *a = &b->arm[k];

            if (a->cell[i] < 0)
                continue;
            for (int s = first_second(d, a->cell[i]);
                 s < d->n_seconds && d->seconds[s].cell == a->cell[i]; s++) {
                struct kva_row *row;

                if (!t) {
                    t = kva_board_tab(r, b, "metrics", KVA_VIEW_ANSWERS, SECOND, M_COLS);
                    if (!t)
                        return;
                    t->caption =
                        kva_arena_printf(&r->arena, "Other metrics: %s", b->title);
                    r->nomem |= !t->caption;
                }
                row = kva_tab_row(r, t);
                if (!row)
                    return;
                second_row(r, d, b, a, i, &d->seconds[s], row);
                row->group = t->n_row > 1 && k == 0;
            }
        }
    if (t)
        kva_tab_note(r, t,
                     "The same answers scored by another rule; ranks use the task's own "
                     "metric.");
}
