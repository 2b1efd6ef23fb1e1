/* SPDX-License-Identifier: GPL-3.0-or-later */
/* paper_check.c - what the published numbers say about themselves (reports.md 2.1, 2.8).
 *
 * Every printed mean, loss, ratio and count is computed again from the printed numbers of
 * its own row by the rules that are used for measured ones, and numbers that are printed
 * twice are compared. A figure that is not reproduced means that our rule or our copy is
 * wrong; a printed number that does not follow from its row is a finding about the paper
 * and is listed with its erratum. */
#include "reports/paper.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEAN_TOLERANCE 0.01 /* of an average of numbers with two decimals */

struct check {
    struct kva_report *r;
    const struct kva_published_set *s;
    struct kva_tab *figures, *findings;
    int n_bad;
};

/* ---- looking up ---- */

static bool same_table(const struct kva_published *a, const struct kva_published *b)
{
    return strcmp(a->source, b->source) == 0 && strcmp(a->table, b->table) == 0;
}

static bool is(const struct kva_published *p, const char *source, const char *table)
{
    return strcmp(p->source, source) == 0 && strcmp(p->table, table) == 0;
}

/* Same table and row, another column. */
static const struct kva_published *beside(const struct check *c,
                                          const struct kva_published *p, const char *task,
                                          const char *aggregation)
{
    for (int i = 0; i < c->s->n_row; i++) {
        const struct kva_published *q = &c->s->row[i];

        if (same_table(p, q) && kva_published_same_row(p, q) &&
            (!task || strcmp(kva_published_task(q), task) == 0) &&
            strcmp(q->aggregation, aggregation) == 0)
            return q;
    }
    return NULL;
}

/* Same table, model, task and rule under another method; budget NULL: any. */
static const struct kva_published *below(const struct check *c,
                                         const struct kva_published *p,
                                         const char *method, const char *budget,
                                         const char *aggregation)
{
    for (int i = 0; i < c->s->n_row; i++) {
        const struct kva_published *q = &c->s->row[i];

        if (same_table(p, q) && strcmp(p->model, q->model) == 0 &&
            strcmp(p->task, q->task) == 0 && strcmp(q->aggregation, aggregation) == 0 &&
            strcmp(q->method, method) == 0 && (!budget || strcmp(q->budget, budget) == 0))
            return q;
    }
    return NULL;
}

/* The row of the same method with critical; NULL: none. */
static const struct kva_published *with_critical(const struct check *c,
                                                 const struct kva_published *p)
{
    char *name = kva_arena_printf(&c->r->arena, "%s+critical", p->method);

    c->r->nomem |= !name;
    return name ? below(c, p, name, p->budget, p->aggregation) : NULL;
}

/* ---- what a number should be, from its own row ---- */

static double mean_of_row(const struct check *c, const struct kva_published *p)
{
    bool ruler = strcmp(p->aggregation, "ruler13") == 0;
    const struct kva_group *g = kva_group_find(p->aggregation);
    double score[16];

    for (int i = 0; i < g->n; i++) {
        const struct kva_published *q = NULL;

        if (ruler) {
            q = beside(c, p, g->task[i], "task");
        } else {
            for (int k = 0; k < c->s->n_row && !q; k++) {
                const struct kva_published *x = &c->s->row[k];

                if (same_table(p, x) && kva_published_same_row(p, x) &&
                    strcmp(x->aggregation, "domain") == 0 &&
                    kva_group_in_domain(kva_published_task(x), g->task[i]))
                    q = x;
            }
        }
        if (!q)
            return (double)NAN;
        score[i] = q->value / 100;
    }
    return 100 * kva_group_mean(g, score, false);
}

static double loss_of_row(const struct check *c, const struct kva_published *p)
{
    const char *rule = strncmp(p->task, "ruler/", 6) == 0 ? "ruler13" : "avg16";
    const struct kva_published *mine = beside(c, p, NULL, rule), *dense;

    if (!mine)
        return (double)NAN;
    dense = below(c, mine, "dense", NULL, rule);
    return dense ? 100 * (1 - mine->value / dense->value) : (double)NAN;
}

static double speedup_of_row(const struct check *c, const struct kva_published *p)
{
    const struct kva_published *mine = beside(c, p, kva_published_task(p), "time"),
                               *dense;

    if (!mine || !mine->method[0])
        return (double)NAN;
    dense = below(c, mine, "dense", NULL, "time");
    return dense ? dense->value / mine->value : (double)NAN;
}

static double bound_of_row(const struct check *c, const struct kva_published *p)
{
    const struct kva_published *a = beside(c, p, "bound_ours", "bound");
    const struct kva_published *b = beside(c, p, "bound_prev", "bound");

    return a && b ? 100 * a->value / b->value : (double)NAN;
}

static double computed(const struct check *c, const struct kva_published *p)
{
    const char *rule = p->aggregation;

    if (strcmp(rule, "ruler13") == 0 || strcmp(rule, "avg16") == 0 ||
        strcmp(rule, "avg6") == 0)
        return mean_of_row(c, p);
    if (strcmp(rule, "loss") == 0)
        return loss_of_row(c, p);
    if (strcmp(rule, "speedup") == 0)
        return speedup_of_row(c, p);
    if (strcmp(p->task, "perturb/ratio") == 0)
        return bound_of_row(c, p);
    return (double)NAN;
}

/* Rounding of the number and of those it is made of, which print as many decimals (means)
 * or one more. */
static double tolerance(const struct kva_published *p)
{
    double half = 0.5 * pow(10, -p->digits);

    if (strcmp(p->aggregation, "loss") == 0 || strcmp(p->aggregation, "speedup") == 0)
        return half + 0.02;
    if (strcmp(p->task, "perturb/ratio") == 0)
        return half + 0.5;
    return 2 * half > MEAN_TOLERANCE ? 2 * half : MEAN_TOLERANCE;
}

/* ---- the two tables ---- */

enum { C_FIGURE, C_PRINTED, C_COMPUTED, C_STATE, C_COLS };
static const struct kva_col FIGURES[C_COLS] = {
    {"figure", "figure", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"expected", "expected", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"computed", "computed", "", KVA_COL_TEXT, 0, false, 0, false,
     "from the printed numbers"},
    {"state", "", "", KVA_COL_TEXT, 0, false, 0, false, ""}};
enum { F_WHERE, F_ROW, F_WHAT, F_PRINTED, F_COMPUTED, F_FROM, F_ERRATUM, F_COLS };
static const struct kva_col FINDINGS[F_COLS] = {
    {"table", "table", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"row", "row", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"task", "what", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"printed", "printed", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"follows", "follows", "", KVA_COL_REAL, 2, false, 0, false,
     "from its row, or printed elsewhere"},
    {"from", "from", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"erratum", "note", "", KVA_COL_TEXT, 0, false, 0, false, ""}};

static void figure(struct check *c, const char *what, const char *want, const char *got,
                   bool ok)
{
    struct kva_row *row = kva_tab_row(c->r, c->figures);

    if (!row || !want || !got) {
        c->r->nomem = true;
        return;
    }
    row->cell[C_FIGURE] = kva_val_text(what);
    row->cell[C_PRINTED] = kva_val_text(want);
    row->cell[C_COMPUTED] = kva_val_text(got);
    row->cell[C_STATE] = kva_val_text(ok ? "reproduced" : "NOT REPRODUCED");
    c->n_bad += !ok;
}

static void finding(struct check *c, const struct kva_published *p, double value,
                    const char *from)
{
    struct kva_row *row = kva_tab_row(c->r, c->findings);
    struct kva_arena *a = &c->r->arena;

    if (!row || !from) {
        c->r->nomem = true;
        return;
    }
    row->cell[F_WHERE] = kva_val_text(kva_arena_printf(a, "%s/%s", p->source, p->table));
    row->cell[F_ROW] =
        kva_val_text(kva_arena_printf(a, "%s%s%s%s%s", p->model, p->model[0] ? ", " : "",
                                      p->printed, p->budget[0] ? ", " : "", p->budget));
    row->cell[F_WHAT] = kva_val_text(kva_arena_strdup(a, p->task));
    row->cell[F_PRINTED] = kva_val_text(kva_arena_strdup(a, p->text));
    row->cell[F_COMPUTED] = kva_val_number(value);
    row->cell[F_FROM] = kva_val_text(from);
    row->cell[F_ERRATUM] = kva_val_text(kva_arena_strdup(a, p->erratum));
    for (int i = 0; i < F_COLS; i++)
        c->r->nomem |= !row->cell[i].text && i != F_COMPUTED;
}

/* ---- the checks ---- */

/* Averages of some tables: `want` of them, each within the tolerance. */
static void averages(struct check *c, const char *what, const char *const *tables,
                     const char *rule, int want)
{
    int n = 0, good = 0;
    double worst = 0;

    for (int i = 0; i < c->s->n_row; i++) {
        const struct kva_published *p = &c->s->row[i];
        bool in = false;
        double x;

        for (int k = 0; tables[k]; k++)
            in |= is(p, "S-CK", tables[k]);
        if (!in || strcmp(p->aggregation, rule) != 0)
            continue;
        x = fabs(computed(c, p) - p->value);
        n += !isnan(x);
        good += x <= MEAN_TOLERANCE;
        worst = x > worst ? x : worst;
    }
    figure(
        c, what, kva_arena_printf(&c->r->arena, "%d", want),
        kva_arena_printf(&c->r->arena, "%d of %d, off by %.3f at most", good, n, worst),
        n == want && good == want);
}

static const struct kva_published *claim(const struct check *c, const char *source,
                                         const char *table, const char *task)
{
    for (int i = 0; i < c->s->n_row; i++)
        if (is(&c->s->row[i], source, table) && strcmp(c->s->row[i].task, task) == 0)
            return &c->s->row[i];
    return NULL;
}

static void critical_against_base(struct check *c)
{
    int wins = 0, ties = 0, losses = 0, better = 0, cases = 0, rows = 0;
    double gain = 0;
    const struct kva_published *said = claim(c, "S-CK", "text", "claim/mean_gain");

    for (int i = 0; i < c->s->n_row; i++) {
        const struct kva_published *p = &c->s->row[i], *q;
        bool one = is(p, "S-CK", "1"), two = is(p, "S-CK", "2");

        if ((!one && !two) || !(q = with_critical(c, p)))
            continue;
        if (one && strcmp(p->aggregation, "task") == 0) {
            wins += q->value > p->value;
            ties += q->value == p->value;
            losses += q->value < p->value;
        } else if (one && strcmp(p->aggregation, "ruler13") == 0) {
            gain += q->value - p->value;
            rows++;
        } else if (two && strcmp(p->aggregation, "domain") == 0 &&
                   strcmp(p->task, "longbench/code") != 0) {
            better += q->value > p->value;
            cases++;
        }
    }
    gain = rows ? gain / rows : (double)NAN;
    figure(c, "mean gain of critical, RULER, nine rows", "14.17",
           kva_arena_printf(&c->r->arena, "%.2f of %d", gain, rows),
           rows == 9 && fabs(gain - 14.17) < 0.005);
    if (said && fabs(gain - said->value) > tolerance(said))
        finding(c, said, gain, "the nine differences of Table 1");
    figure(c, "LongBench domains without code that critical improves", "88 of 90",
           kva_arena_printf(&c->r->arena, "%d of %d", better, cases),
           better == 88 && cases == 90);
    figure(c, "RULER task pairs: wins, ties, losses of critical", "102 / 12 / 3",
           kva_arena_printf(&c->r->arena, "%d / %d / %d", wins, ties, losses),
           wins == 102 && ties == 12 && losses == 3);
}

static void tally_of_160(struct check *c)
{
    const struct kva_published *w = claim(c, "S-CT", "tally-kvzip", "tally/wins");
    const struct kva_published *t = claim(c, "S-CT", "tally-kvzip", "tally/ties");
    const struct kva_published *l = claim(c, "S-CT", "tally-kvzip", "tally/losses");
    const struct kva_published *n = claim(c, "S-CT", "tally-kvzip", "tally/pairs");
    double sum = w && t && l ? w->value + t->value + l->value : (double)NAN;

    figure(
        c, "93 + 22 + 22 of 160 pairs: 23 are missing", "137 of 160",
        kva_arena_printf(&c->r->arena, "%.0f of %.0f", sum, n ? n->value : (double)NAN),
        n && sum == 137 && n->value == 160);
    if (n && sum != n->value)
        finding(c, n, sum, "its wins, ties and losses");
}

static void gap_closed(struct check *c)
{
    const struct kva_published *said = claim(c, "S-LU", "text", "claim/gap_closed");
    double full = (double)NAN, base = full, mine = full, x;

    for (int i = 0; i < c->s->n_row; i++) {
        const struct kva_published *p = &c->s->row[i];

        if (!is(p, "S-LU", "1") || strncmp(p->model, "Mistral", 7) != 0)
            continue;
        if (strcmp(p->method, "dense") == 0)
            full = p->value;
        else if (strcmp(p->printed, "KeyDiff, AdaKV") == 0)
            base = p->value;
        else if (strcmp(p->printed, "KeyDiff, LU-KV") == 0)
            mine = p->value;
    }
    x = 100 * (mine - base) / (full - base);
    figure(c, "share of the gap to the full cache that LU-KV closes", "84 %",
           kva_arena_printf(&c->r->arena, "%.1f %%", x),
           said && fabs(x - said->value) <= 0.5);
}

/* Numbers that do not follow from their rows. */
static void own_rows(struct check *c)
{
    for (int i = 0; i < c->s->n_row; i++) {
        const struct kva_published *p = &c->s->row[i];
        double x = computed(c, p);

        if (!isnan(x) && fabs(x - p->value) > tolerance(p))
            finding(c, p, x, "its own row");
    }
}

/* The same quantity printed twice in one source with two values. */
static void printed_twice(struct check *c)
{
    for (int i = 0; i < c->s->n_row; i++) {
        const struct kva_published *p = &c->s->row[i];

        if (!p->method[0] || !p->budget[0] || !p->model[0])
            continue;
        for (int k = 0; k < i; k++) {
            const struct kva_published *q = &c->s->row[k];

            if (strcmp(p->source, q->source) != 0 || same_table(p, q) ||
                p->ctx != q->ctx || strcmp(p->model, q->model) != 0 ||
                strcmp(p->method, q->method) != 0 || strcmp(p->budget, q->budget) != 0 ||
                strcmp(p->visibility, q->visibility) != 0 ||
                strcmp(p->task, q->task) != 0 ||
                strcmp(p->aggregation, q->aggregation) != 0 ||
                strcmp(p->unit, q->unit) != 0)
                continue;
            if (p->value != q->value)
                finding(c, p, q->value,
                        kva_arena_printf(&c->r->arena, "%s/%s", q->source, q->table));
            break;
        }
    }
}

static void all_checks(struct check *c)
{
    static const char *const t1[] = {"1", NULL}, *const t2[] = {"2", NULL},
                             *const t47[] = {"4", "7", NULL}, *const t14[] = {"14", NULL};

    averages(c, "RULER averages of S-CK Table 1", t1, "ruler13", 21);
    averages(c, "LongBench averages of S-CK Table 2", t2, "avg16", 39);
    averages(c, "LongBench averages of S-CK Tables 4 and 7", t47, "avg16", 20);
    averages(c, "LongBench averages of S-CK Table 14", t14, "avg16", 9);
    critical_against_base(c);
    tally_of_160(c);
    gap_closed(c);
    own_rows(c);
    printed_twice(c);
    for (int i = 0; i < c->s->n_erratum; i++)
        kva_tab_note(c->r, c->findings, "%s, %s, %s: %s.", c->s->erratum[i].id,
                     c->s->erratum[i].source, c->s->erratum[i].where,
                     c->s->erratum[i].text);
}

enum kva_status kva_paper_check(const struct kva_published_set *s,
                                const struct kva_report_opts *opts, int *n_bad,
                                struct kva_report **r, struct kva_error *err)
{
    struct check c = {.s = s};
    enum kva_status rc;

    KVA_GO(kva_report_start(opts, "published numbers, computed again", r, err));
    c.r = *r;
    /* adding a table may move the others: both first, then pointers */
    if (!kva_tab_add(*r, "figures", KVA_VIEW_PAPER, FIGURES, C_COLS) ||
        !kva_tab_add(*r, "findings", KVA_VIEW_PAPER, FINDINGS, F_COLS)) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "paper table: out of memory");
        goto out;
    }
    c.figures = &(*r)->tab[0];
    c.findings = &(*r)->tab[1];
    c.figures->heading = c.figures->caption =
        "Figures computed again from printed numbers";
    c.findings->heading = c.findings->caption =
        "Printed numbers that do not follow from their own rows or are printed twice";
    all_checks(&c);
    *n_bad = c.n_bad;
out:
    return *r ? kva_paper_finish(r, rc, err) : rc;
}

enum kva_status kva_paper_selftest(const struct kva_report_opts *opts, int *n_bad,
                                   struct kva_report **r, struct kva_error *err)
{
    struct kva_published_set s;
    enum kva_status rc;

    *r = NULL;
    rc = kva_published_read(&s, err);
    if (rc == KVA_OK)
        rc = kva_paper_check(&s, opts, n_bad, r, err);
    kva_published_release(&s);
    return rc;
}
