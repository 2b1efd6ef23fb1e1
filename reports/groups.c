/* SPDX-License-Identifier: GPL-3.0-or-later */
/* groups.c - the named means that papers print.
 *
 *   ruler13, ruler11 (without QA), niah8   unweighted mean of the task means
 *   avg16, avg14 (without code)            unweighted mean of the dataset means
 *   avg6                                   unweighted mean of the six domain means
 *   retention         mean(method) / mean(dense)                 ratio of means
 *   retention_macro   mean of method/dense over the tasks whose dense score is 5 or more
 *
 * (tasks-ruler.md 0.5 and 9, tasks-longbench-math.md A.8). A name stands for all of its
 * tasks, in one context length, dialect and profile: with one missing it is not printed,
 * and a mean of eleven tasks is never called RULER. Tasks below their floor count,
 * because the published means hold them; they are named. The paper's style rounds every
 * dataset score to two digits first. Ranks are those of the leaderboards, not of these
 * means. */
#include "reports/internal.h"

#include <math.h>
#include <string.h>

static const char *const RULER[13] = {"niah_single_1",
                                      "niah_single_2",
                                      "niah_single_3",
                                      "niah_multikey_1",
                                      "niah_multikey_2",
                                      "niah_multikey_3",
                                      "niah_multivalue",
                                      "niah_multiquery",
                                      "vt",
                                      "cwe",
                                      "fwe",
                                      "qa_1",
                                      "qa_2"};
static const char *const LONGBENCH[16] = {"narrativeqa",
                                          "qasper",
                                          "multifieldqa_en",
                                          "hotpotqa",
                                          "2wikimqa",
                                          "musique",
                                          "gov_report",
                                          "qmsum",
                                          "multi_news",
                                          "trec",
                                          "triviaqa",
                                          "samsum",
                                          "passage_count",
                                          "passage_retrieval_en",
                                          "lcc",
                                          "repobench-p"};
static const int DOMAIN[16] = {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 5};

const struct kva_group kva_groups[KVA_N_GROUPS] = {
    {"ruler13", "ruler", RULER, 13, NULL, "all tasks of RULER"},
    {"ruler11", "ruler", RULER, 11, NULL, "RULER without question answering"},
    {"niah8", "ruler", RULER, 8, NULL, "the eight needle tasks of RULER"},
    {"avg16", "longbench", LONGBENCH, 16, NULL, "mean of the 16 data sets"},
    {"avg14", "longbench", LONGBENCH, 14, NULL, "mean of the data sets without code"},
    {"avg6", "longbench", LONGBENCH, 16, DOMAIN, "mean of the six domain means"},
};

static double rounded(double score)
{
    return rint(score * 1e4) / 1e4;
}

double kva_group_mean(const struct kva_group *g, const double *score, bool paper)
{
    double sum[16] = {0}, all = 0;
    int n[16] = {0}, parts = 0;

    for (int i = 0; i < g->n; i++) {
        int at = g->domain ? g->domain[i] : 0;

        sum[at] += paper ? rounded(score[i]) : score[i];
        n[at]++;
    }
    for (int k = 0; k < 16; k++)
        if (n[k]) {
            all += sum[k] / n[k];
            parts++;
        }
    return all / parts;
}

const struct kva_group *kva_group_find(const char *name)
{
    for (int i = 0; i < KVA_N_GROUPS; i++)
        if (strcmp(kva_groups[i].name, name) == 0)
            return &kva_groups[i];
    return NULL;
}

bool kva_group_in_domain(const char *domain, const char *task)
{
    static const char *const name[6] = {"single_doc_qa", "multi_doc_qa", "summarization",
                                        "few_shot",      "synthetic",    "code"};

    for (int i = 0; i < 16; i++)
        if (strcmp(LONGBENCH[i], task) == 0)
            return strcmp(name[DOMAIN[i]], domain) == 0;
    return false;
}

int kva_group_samples(const struct kva_group *g, int i)
{
    if (g->task != LONGBENCH)
        return 0;
    return strcmp(g->task[i], "multifieldqa_en") == 0 ? 150 : DOMAIN[i] == 5 ? 500 : 200;
}

/* ---- which tasks of a board ---- */

/* Essays of the user's in place of the carried ones make no other task. */
static bool is_called(const char *stored, const char *name)
{
    size_t n = strlen(name);

    return strncmp(stored, name, n) == 0 &&
           (stored[n] == 0 || strcmp(stored + n, ":haystack=essays") == 0);
}

int kva_group_at(const struct kva_group *g, const struct kva_data_task *t)
{
    for (int i = 0; strcmp(t->suite, g->suite) == 0 && i < g->n; i++)
        if (is_called(t->name, g->task[i]))
            return i;
    return -1;
}

static int find(const struct kva_data *d, const struct kva_board *b,
                const struct kva_group *g, int i)
{
    for (int t = 0; t < b->n_task; t++) {
        const struct kva_data_task *task = &d->tasks[b->task[t]];

        if (strcmp(task->suite, g->suite) == 0 && is_called(task->name, g->task[i]))
            return t;
    }
    return -1;
}

/* at[i]: position of the group's task i in the board; returns how many are there. */
static int locate(const struct kva_data *d, const struct kva_board *b,
                  const struct kva_group *g, int at[16])
{
    int n = 0;

    for (int i = 0; i < g->n; i++) {
        at[i] = find(d, b, g, i);
        n += at[i] >= 0;
    }
    return n;
}

/* ---- one row ---- */

struct part { /* an arm on the tasks of a group */
    double score[16];
    int ok, expected;
    bool whole; /* every task has a score */
};

static void measure(const struct kva_data *d, const struct kva_cells *c,
                    const struct kva_group *g, const struct kva_arm *a, const int at[16],
                    struct part *p)
{
    memset(p, 0, sizeof *p);
    p->whole = true;
    for (int i = 0; i < g->n; i++) {
        int cell = a->cell[at[i]], n = 0, want;
        double sum = 0;

        p->score[i] = (double)NAN;
        if (cell < 0) {
            p->whole = false;
            continue;
        }
        for (int k = c->first[cell]; k < c->first[cell + 1]; k++)
            if (c->obs[k].n_ok) {
                sum += c->obs[k].score;
                n++;
            }
        for (int k = c->first_outcome[cell]; k < c->first_outcome[cell + 1]; k++)
            p->ok += strcmp(d->outcomes[k].status, "ok") == 0;
        want = c->first_outcome[cell + 1] - c->first_outcome[cell];
        p->expected +=
            d->cells[cell].n_expected > want ? d->cells[cell].n_expected : want;
        p->whole &= n > 0;
        if (n)
            p->score[i] = sum / n;
    }
}

/* Interval of an unweighted mean of tasks; the mean of domain means has none. */
static struct kva_interval interval_of(const struct kva_data *d,
                                       const struct kva_cells *c,
                                       const struct kva_board *b,
                                       const struct kva_group *g, const struct kva_arm *a,
                                       const int at[16])
{
    struct kva_interval ci = {0, 0, false};
    struct kva_board part = *b;
    struct kva_arm arm = *a;
    bool used[16];
    int task[16], cell[16];
    const char *label[16];
    struct kva_pairs p;

    if (g->domain)
        return ci;
    for (int i = 0; i < g->n; i++) {
        used[i] = true;
        task[i] = b->task[at[i]];
        label[i] = b->task_label[at[i]];
        cell[i] = a->cell[at[i]];
    }
    part.used = used;
    part.task = task;
    part.task_label = label;
    part.n_task = part.n_used = g->n;
    arm.cell = cell;
    if (kva_pairs_make(d, c, &part, &arm, &arm, KVA_MEASURE_SCORE, &p, NULL) != KVA_OK)
        return ci;
    ci = kva_stat_arm(p.s, (size_t)p.n_strata);
    kva_pairs_release(&p);
    return ci;
}

/* Mean of the ratios to dense, tasks with a dense score under 5 left out. */
static double macro(const struct kva_group *g, const struct part *mine,
                    const struct part *dense)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < g->n; i++)
        if (dense->score[i] >= 0.05) {
            sum += mine->score[i] / dense->score[i];
            n++;
        }
    return n ? sum / n : (double)NAN;
}

enum {
    G_GROUP,
    G_METHOD,
    G_KEEP,
    G_SCORE,
    G_RETENTION,
    G_MACRO,
    G_PAPER,
    G_TASKS,
    G_COVER,
    G_SPEC,
    G_BUDGET_KIND,
    G_BUDGET,
    G_OK,
    G_PLANNED,
    G_COLS
};
static const struct kva_col COLS[G_COLS] = {
    {"group", "mean", "", KVA_COL_TEXT, 0, false, 0, false, "its published name"},
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, true, "nominal budget"},
    {"score", "score", "", KVA_COL_PERCENT, 2, true, 0, false,
     "with its 95 % interval; no interval for a mean of domain means"},
    {"retention", "retention", "%", KVA_COL_PERCENT, 1, false, 1, false,
     "ratio of means: this mean over the dense one"},
    {"retention_macro", "mean of ratios", "%", KVA_COL_PERCENT, 1, false, 2, false,
     "mean over tasks of score over dense score, dense under 5 left out"},
    {"paper_style", "paper style", "", KVA_COL_PERCENT, 2, false, 3, false,
     "every task's score rounded to two digits first, as papers do"},
    {"n_task", "tasks", "", KVA_COL_INT, 0, false, 4, false, ""},
    {"coverage", "n", "", KVA_COL_TEXT, 0, false, 5, true, "finished / planned outcomes"},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
    {"budget_kind", "budget kind", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"budget", "budget", "", KVA_COL_REAL, 4, false, 99, false, ""},
    {"n_ok", "ok", "", KVA_COL_INT, 0, false, 99, false, ""},
    {"n_planned", "planned", "", KVA_COL_INT, 0, false, 99, false, ""},
};

static void fill(struct kva_report *r, const struct kva_data *d,
                 const struct kva_cells *c, const struct kva_board *b,
                 const struct kva_group *g, const struct kva_arm *a, const int at[16],
                 struct kva_row *row)
{
    struct kva_val *v = row->cell;
    struct part mine, dense;

    measure(d, c, g, a, at, &mine);
    v[G_GROUP] = kva_val_text(g->name);
    v[G_GROUP].title = g->what;
    kva_arm_names(a, &v[G_METHOD], &v[G_KEEP], &v[G_SPEC]);
    if (mine.whole) {
        double mean = kva_group_mean(g, mine.score, false);

        v[G_SCORE] = kva_val_interval(mean, interval_of(d, c, b, g, a, at));
        v[G_PAPER] = kva_val_number(kva_group_mean(g, mine.score, true));
        if (b->dense >= 0 && a->role == KVA_ARM_METHOD) {
            measure(d, c, g, &b->arm[b->dense], at, &dense);
            if (dense.whole && mine.ok >= 0.95 * mine.expected) {
                double full = kva_group_mean(g, dense.score, false);

                v[G_RETENTION] = kva_val_number(full >= 0.05 ? mean / full : (double)NAN);
                v[G_MACRO] = kva_val_number(macro(g, &mine, &dense));
            }
        }
    }
    if (a->role != KVA_ARM_METHOD)
        v[G_RETENTION] = v[G_MACRO] = kva_val_text("");
    v[G_TASKS] = kva_val_number(g->n);
    v[G_COVER] =
        kva_val_text(kva_arena_printf(&r->arena, "%d/%d", mine.ok, mine.expected));
    v[G_BUDGET_KIND] = kva_val_text(a->budget_kind);
    v[G_BUDGET] = kva_val_number(a->budget);
    v[G_OK] = kva_val_number(mine.ok);
    v[G_PLANNED] = kva_val_number(mine.expected);
    row->role = a->role != KVA_ARM_METHOD                ? KVA_ROW_REFERENCE
                : mine.ok < mine.expected || !mine.whole ? KVA_ROW_INCOMPLETE
                                                         : KVA_ROW_PLAIN;
}

/* ---- the table ---- */

static void missing_note(struct kva_report *r, struct kva_tab *t,
                         const struct kva_data *d, const struct kva_board *b,
                         const struct kva_group *g)
{
    struct kva_buf s;

    kva_buf_init(&s, 0);
    for (int i = 0; i < g->n; i++)
        if (find(d, b, g, i) < 0)
            kva_buf_printf(&s, "%s%s", s.len ? ", " : "", g->task[i]);
    r->nomem |= s.failed;
    if (!s.failed && s.len)
        kva_tab_note(r, t, "%s (%s) is not shown: missing %s.", g->name, g->what, s.data);
    kva_buf_release(&s);
}

static void below_note(struct kva_report *r, struct kva_tab *t, const struct kva_board *b)
{
    struct kva_buf s;

    kva_buf_init(&s, 0);
    for (int i = 0; i < b->n_task; i++)
        if (b->below[i] || b->weak[i])
            kva_buf_printf(&s, "%s%s (%s)", s.len ? ", " : "", b->task_label[i],
                           b->below[i] ? "below floor" : "weak");
    r->nomem |= s.failed;
    if (!s.failed && s.len)
        kva_tab_note(r, t,
                     "these means hold every task that their name promises, also %s.",
                     s.data);
    kva_buf_release(&s);
}

void kva_group_table(struct kva_report *r, const struct kva_data *d,
                     const struct kva_cells *c, const struct kva_board *b)
{
    struct kva_tab *t = NULL;
    int at[16];

    for (int k = 0; k < KVA_N_GROUPS; k++) {
        const struct kva_group *g = &kva_groups[k];
        bool first = true;

        if (locate(d, b, g, at) < g->n)
            continue;
        if (!t) {
            t = kva_board_tab(r, b, "means", KVA_VIEW_LEADERBOARD, COLS, G_COLS);
            if (!t)
                return;
            t->caption = kva_arena_printf(&r->arena, "Named means: %s", b->title);
        }
        for (int i = 0; i < b->n_arm; i++) {
            struct kva_row *row;

            if (b->arm[i].role == KVA_ARM_BLIND)
                continue;
            row = kva_tab_row(r, t);
            if (!row)
                return;
            fill(r, d, c, b, g, &b->arm[i], at, row);
            row->group = first && t->n_row > 1;
            first = false;
        }
    }
    if (!t)
        return;
    if (!t->caption)
        r->nomem = true;
    kva_tab_note(r, t, "protocol: %s.",
                 b->mark[0] ? b->mark : "the default dialect and profile");
    for (int k = 0; k < KVA_N_GROUPS; k++) {
        int there = locate(d, b, &kva_groups[k], at);

        if (there > 0 && there < kva_groups[k].n)
            missing_note(r, t, d, b, &kva_groups[k]);
    }
    below_note(r, t, b);
}
