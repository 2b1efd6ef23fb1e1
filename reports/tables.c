/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tables.c - boards as leaderboards: one table each, rows that may not be ranked in a
 * second one with the reason, and a count of cells under it that adds up
 * (reports.md 6.2). */
#include "reports/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD_APART 0.10 /* held less live, share of the full cache, worth a note */

enum {
    C_RANK,
    C_METHOD,
    C_KEEP,
    C_EFFECTIVE,
    C_FRONT,
    C_AUDIT,
    C_SCORE,
    C_RETENTION,
    C_DELTA,
    C_P,
    C_WTL,
    C_NATS,
    C_NATS_RET,
    C_NATS_P,
    C_NATS_RANK,
    C_TTFT_RATIO,
    C_DECODE_RATIO,
    C_TTFT,
    C_DECODE,
    C_PEAK,
    C_LENGTH,
    C_COVER,
    C_MDE,
    C_DATE,
    C_COMMIT,
    C_SPEC,
    C_BUDGET_KIND,
    C_BUDGET,
    C_OK,
    C_PLANNED,
    C_WINS,
    C_TIES,
    C_LOSSES,
    C_INVALID,
    N_COLS
};
static const struct kva_col LEADER[N_COLS] = {
    {"rank", "rank", "", KVA_COL_INT, 0, false, 0, false,
     "1 + number of methods at the same budget that are significantly better; 1= is a "
     "tie"},
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false,
     "short name; the full specification is in the table of methods"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, true, "nominal budget: what is kept"},
    {"effective_ratio", "held", "%", KVA_COL_PERCENT, 1, false, 4, false,
     "effective ratio: bytes held after eviction over the bytes of the full cache"},
    {"pareto", "Pareto", "", KVA_COL_TEXT, 0, false, KVA_KEEP_DETAIL, false,
     "front: no row of the table holds as little and scores as much; dominated: a row "
     "that holds no more scores significantly better"},
    {"audit", "audit", "", KVA_COL_TEXT, 0, false, 3, false,
     "what the held bytes prove: PHYSICAL, MASKED, OVER, UNVERIFIED, BROKEN"},
    {"score", "score", "", KVA_COL_PERCENT, 2, true, 0, false,
     "mean of task means, 0 to 100, with its 95 % interval"},
    {"retention", "retention", "%", KVA_COL_PERCENT, 1, true, 1, false,
     "score over the dense score, paired bootstrap, 95 % interval"},
    {"delta", "\xce\x94 dense", "points", KVA_COL_PERCENT, 1, false, 6, false,
     "difference of the score to dense"},
    {"p", "p", "", KVA_COL_P, 3, false, 8, false,
     "of that difference, Benjamini-Hochberg adjusted over the rows of the table"},
    {"wtl", "W/T/L", "", KVA_COL_TEXT, 0, false, 9, true,
     "tasks on which the method is significantly above, not distinguishable from and "
     "below dense, as the tables task by task show it"},
    {"nats", "nats", "", KVA_COL_REAL, 2, false, 5, false,
     "answer nats: mean negative log-likelihood of a gold token; lower is better"},
    {"nats_retention", "nats ret.", "%", KVA_COL_PERCENT, 1, true, 7, false,
     "(blind - method) / (blind - dense): 100 is the full cache, 0 knows no context; "
     "paired bootstrap over the three, 95 % interval"},
    {"nats_p", "nats p", "", KVA_COL_P, 3, false, KVA_KEEP_DETAIL, false,
     "of the nats against dense, paired sign flip, Benjamini-Hochberg adjusted over the "
     "rows of the table"},
    {"nats_rank", "nats rank", "", KVA_COL_INT, 0, false, KVA_KEEP_DETAIL, false,
     "1 + number of methods at the same budget with significantly better answer nats"},
    {"ttft_ratio", "TTFT", "\xc3\x97", KVA_COL_REAL, 2, false, 9, false,
     "time to first token over that of dense, medians of the samples that ran alone"},
    {"decode_ratio", "decode", "\xc3\x97", KVA_COL_REAL, 2, false, 10, false,
     "tokens per second over those of dense, medians of the samples that ran alone"},
    {"ttft_ms", "TTFT", "ms", KVA_COL_REAL, 0, false, KVA_KEEP_DETAIL, false,
     "time to first token, median of the samples that ran alone"},
    {"decode_tok_s", "decode", "tok/s", KVA_COL_REAL, 1, false, KVA_KEEP_DETAIL, false,
     "1 / median decode step of the samples that ran alone"},
    {"peak_kv_bytes", "peak KV", "", KVA_COL_BYTES, 0, false, 11, false,
     "largest bytes of K, V and bookkeeping at any time, samples that ran alone"},
    {"length_stop", "cut", "%", KVA_COL_PERCENT, 0, false, 13, false,
     "answers that ended at the token limit"},
    {"coverage", "n", "", KVA_COL_TEXT, 0, false, 2, true, "finished / planned outcomes"},
    {"mde", "MDE", "points", KVA_COL_PERCENT, 1, false, 12, false,
     "smallest difference to dense these samples show with power 0.8"},
    {"date", "date", "", KVA_COL_TEXT, 0, false, KVA_KEEP_DETAIL + 1, false,
     "of the newest run with outcomes of this row, UTC"},
    {"commit", "commit", "", KVA_COL_TEXT, 0, false, KVA_KEEP_DETAIL + 1, false,
     "of that run; + when the tree was modified"},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
    {"budget_kind", "budget kind", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"budget", "budget", "", KVA_COL_REAL, 4, false, 99, false, ""},
    {"n_ok", "ok", "", KVA_COL_INT, 0, false, 99, false, ""},
    {"n_planned", "planned", "", KVA_COL_INT, 0, false, 99, false, ""},
    {"wins", "wins", "", KVA_COL_INT, 0, false, 99, false, ""},
    {"ties", "ties", "", KVA_COL_INT, 0, false, 99, false, ""},
    {"losses", "losses", "", KVA_COL_INT, 0, false, 99, false, ""},
    {"invalid", "not compared", "", KVA_COL_INT, 0, false, 99, false, ""},
};

/* Tasks of a row by their verdict against dense; the four add up to the tasks used. */
struct versus {
    int win, tie, loss, invalid;
};

/* The row of the same cell in the table of its one task. */
static const struct kva_arm *alone_on(const struct kva_report *r,
                                      const struct kva_board *b, const struct kva_arm *a,
                                      int t)
{
    if (b->n_task == 1)
        return a;
    for (int i = 0; i < r->n_board; i++) {
        const struct kva_board *s = &r->board[i];

        if (!s->single || s->task[0] != b->task[t])
            continue;
        for (int k = 0; k < s->n_arm; k++)
            if (s->arm[k].cell[0] == a->cell[t])
                return &s->arm[k];
    }
    return NULL;
}

static struct versus versus_dense(const struct kva_report *r, const struct kva_board *b,
                                  const struct kva_arm *a)
{
    struct versus n = {0};

    for (int t = 0; t < b->n_task; t++) {
        const struct kva_arm *one;

        if (!b->used[t])
            continue;
        one = a->cell[t] >= 0 ? alone_on(r, b, a, t) : NULL;
        if (!one || isnan(one->p_adj) || isnan(one->boot.diff))
            n.invalid++;
        else if (!(one->p_adj < r->opts.alpha) || fabs(one->boot.diff) <= b->noise)
            n.tie++;
        else if (one->boot.diff > 0)
            n.win++;
        else
            n.loss++;
    }
    return n;
}

static void fill_versus(struct kva_report *r, const struct kva_board *b,
                        const struct kva_arm *a, struct kva_val *v)
{
    struct versus n = versus_dense(r, b, a);

    if (n.win + n.tie + n.loss == 0) {
        v[C_WTL] = kva_val_text("n/a");
        return;
    }
    v[C_WTL] = kva_val_text(
        n.invalid ? kva_arena_printf(&r->arena, "%d/%d/%d (%d n/a)", n.win, n.tie, n.loss,
                                     n.invalid)
                  : kva_arena_printf(&r->arena, "%d/%d/%d", n.win, n.tie, n.loss));
    v[C_WINS] = kva_val_number(n.win);
    v[C_TIES] = kva_val_number(n.tie);
    v[C_LOSSES] = kva_val_number(n.loss);
    v[C_INVALID] = kva_val_number(n.invalid);
}

/* The newest run that has an outcome of the row; -1: none. */
static int newest_run(const struct kva_data *d, const struct kva_cells *c,
                      const struct kva_board *b, const struct kva_arm *a)
{
    int at = -1;

    for (int t = 0; t < b->n_task; t++)
        for (int o = a->cell[t] < 0 ? 0 : c->first_outcome[a->cell[t]];
             a->cell[t] >= 0 && o < c->first_outcome[a->cell[t] + 1]; o++) {
            int run = d->outcomes[o].run;

            if (run >= 0 && run < d->n_runs &&
                (at < 0 || d->runs[run].started_ms > d->runs[at].started_ms))
                at = run;
        }
    return at;
}

static void fill_run(struct kva_report *r, const struct kva_data *d,
                     const struct kva_cells *c, const struct kva_board *b,
                     const struct kva_arm *a, struct kva_val *v)
{
    int at = newest_run(d, c, b, a);
    const char *commit;

    if (at < 0)
        return;
    commit = kva_report_clean(&r->arena, d->runs[at].git_commit);
    v[C_DATE] = kva_val_text(kva_report_day(&r->arena, d->runs[at].started_ms));
    v[C_COMMIT] = kva_val_text(kva_arena_printf(
        &r->arena, "%.10s%s", commit ? commit : "", d->runs[at].git_dirty ? "+" : ""));
}

static double over(double x, double y)
{
    return y > 0 ? x / y : (double)NAN;
}

static struct kva_val measured(const struct kva_arm *a, double v)
{
    struct kva_val x = kva_val_number(v);

    if (a->role == KVA_ARM_BLIND && a->n_alone == 0)
        return kva_val_text(""); /* never timed: its prompt is another one */
    if (a->n_alone == 0 || isnan(v))
        x = kva_val_text(a->n_alone == 0 ? "not measured" : "n/a");
    return x;
}

static const char *coverage(struct kva_report *r, const struct kva_arm *a)
{
    if (a->truncated || a->failed)
        return kva_arena_printf(&r->arena, "%d/%d (%d failed)", a->ok, a->expected,
                                a->truncated + a->failed);
    return kva_arena_printf(&r->arena, "%d/%d", a->ok, a->expected);
}

static const char *details(struct kva_report *r, const struct kva_arm *a)
{
    if (a->role == KVA_ARM_DENSE)
        return "the full cache: reference, not ranked";
    if (a->role == KVA_ARM_BLIND)
        return "the question without its context: reference, not ranked";
    return kva_arena_printf(&r->arena, "%s", a->spec);
}

static const char *audit_help(struct kva_report *r, const struct kva_arm *a)
{
    char text[512];

    if (a->badge == KVA_BADGE_OVER || a->badge == KVA_BADGE_BROKEN) {
        kva_db_audit_text(a->audit, text, sizeof text);
        return kva_arena_printf(&r->arena, "failed audit: %s", text);
    }
    if (a->badge == KVA_BADGE_UNVERIFIED)
        return "the bytes could not be checked";
    return NULL;
}

/* First, and not merely because nothing can be told apart. */
static bool leads(const struct kva_board *b, const struct kva_arm *a)
{
    if (a->rank != 1)
        return false;
    for (int k = 0; k < b->n_arm; k++)
        if (b->arm[k].rank > 1 && b->arm[k].budget == a->budget &&
            strcmp(b->arm[k].budget_kind, a->budget_kind) == 0)
            return true;
    return !a->tied;
}

static void fill_row(struct kva_report *r, const struct kva_data *d,
                     const struct kva_cells *c, const struct kva_board *b,
                     const struct kva_arm *a, struct kva_row *row)
{
    const struct kva_arm *dense = b->dense >= 0 ? &b->arm[b->dense] : NULL;
    struct kva_val *v = row->cell;
    bool method = a->role == KVA_ARM_METHOD;

    if (a->rank) {
        v[C_RANK] = kva_val_number(a->rank);
        v[C_RANK].text = kva_arena_printf(&r->arena, "%d%s", a->rank, a->tied ? "=" : "");
        v[C_RANK].strong = leads(b, a);
    } else {
        v[C_RANK] = kva_val_text("\xe2\x80\x93"); /* en dash */
        v[C_RANK].title = !method               ? "reference"
                          : !b->ranks           ? "not ranked in this class"
                          : a->unranked         ? kva_unranked_text[a->unranked]
                          : a->ok < a->expected ? "incomplete: no rank"
                                                : "no rank";
    }
    v[C_METHOD] = kva_val_text(a->name);
    v[C_METHOD].title = details(r, a);
    v[C_METHOD].strong = leads(b, a);
    v[C_KEEP] = kva_val_text(a->budget_text);
    v[C_EFFECTIVE] =
        a->role == KVA_ARM_BLIND ? kva_val_text("") : kva_val_number(a->effective);
    v[C_SCORE] = kva_val_interval(a->score, a->score_ci);
    v[C_RETENTION] = kva_val_interval(a->boot.ratio, a->boot.ratio_ci);
    v[C_NATS] = kva_val_number(a->nll);
    v[C_NATS_RET] = kva_val_interval(a->nats.ratio, a->nats.ratio_ci);
    v[C_NATS_P] = kva_val_number(a->nats_p_adj);
    if (a->nats_rank) {
        v[C_NATS_RANK] = kva_val_number(a->nats_rank);
        v[C_NATS_RANK].text =
            kva_arena_printf(&r->arena, "%d%s", a->nats_rank, a->nats_tied ? "=" : "");
    }
    v[C_DELTA] = kva_val_number(a->boot.diff);
    v[C_P] = kva_val_number(a->p_adj);
    if (!method) {
        v[C_RETENTION] = v[C_DELTA] = v[C_P] = kva_val_text("");
        v[C_NATS_RET] = v[C_NATS_P] = v[C_NATS_RANK] = kva_val_text("");
        v[C_MDE] = kva_val_text("");
    } else {
        v[C_MDE] = kva_val_number(a->boot.mde);
    }
    if (method) {
        fill_versus(r, b, a, v);
        v[C_TTFT_RATIO] =
            measured(a, dense ? over(a->ttft_ms, dense->ttft_ms) : (double)NAN);
        v[C_DECODE_RATIO] =
            measured(a, dense ? over(a->token_s, dense->token_s) : (double)NAN);
    } else {
        v[C_WTL] = v[C_TTFT_RATIO] = v[C_DECODE_RATIO] = kva_val_text("");
    }
    fill_run(r, d, c, b, a, v);
    v[C_TTFT] = measured(a, a->ttft_ms);
    v[C_DECODE] = measured(a, a->token_s);
    v[C_PEAK] = measured(a, a->alone_peak);
    v[C_LENGTH] = kva_val_number(a->length_stop);
    v[C_COVER] = kva_val_text(coverage(r, a));
    v[C_FRONT] = kva_val_text(a->front ? "front" : a->dominated ? "dominated" : "");
    v[C_AUDIT] = kva_val_text(kva_arm_badge_text(a, a->badge));
    v[C_AUDIT].title = audit_help(r, a);
    v[C_SPEC] = kva_val_text(a->spec);
    v[C_BUDGET_KIND] = kva_val_text(a->budget_kind);
    v[C_BUDGET] = kva_val_number(a->budget);
    v[C_OK] = kva_val_number(a->ok);
    v[C_PLANNED] = kva_val_number(a->expected);
    row->role = !method                         ? KVA_ROW_REFERENCE
                : a->ok < a->expected || !a->ok ? KVA_ROW_INCOMPLETE
                                                : KVA_ROW_PLAIN;
}

/* ---- notes ---- */

static void used_tasks(const struct kva_board *b, struct kva_buf *out)
{
    bool any = false;

    for (int t = 0; t < b->n_task; t++)
        if (b->used[t]) {
            kva_buf_printf(out, "%s%s", any ? ", " : "", b->task_label[t]);
            any = true;
        }
}

static void floor_notes(struct kva_report *r, struct kva_tab *t,
                        const struct kva_board *b)
{
    for (int k = 0; k < b->n_task; k++) {
        if (b->below[k])
            kva_tab_note(
                r, t,
                "below floor: %s. Dense scores %.1f, its lower bound %.1f is not above "
                "the guess floor %.1f%s: the task says nothing about eviction and is "
                "in no mean and no rank.",
                b->task_label[k], 100 * b->dense_score[k], 100 * b->dense_lo[k],
                100 * b->floor[k],
                b->blind_score[k] >= b->floor[k] && b->floor[k] > 0
                    ? " (measured without context)"
                    : "");
        else if (b->weak[k])
            kva_tab_note(
                r, t,
                "weak: %s. Dense scores %.1f, under 60 but above the guess floor "
                "%.1f%s.",
                b->task_label[k], 100 * b->dense_score[k], 100 * b->floor[k],
                b->used[k] ? "" : ": not in the mean");
        else if (b->no_dense[k])
            kva_tab_note(r, t, "no dense outcome of %s: retention and ranks are n/a.",
                         b->task_label[k]);
    }
}

/* What exists, what is shown where, and what is not shown and why. Returns false when the
 * parts do not add up to the whole. */
struct tally {
    int exist, ranked, unranked[KVA_UNRANKED_N], plain, incomplete, reference, below,
        weak;
};

static void count_cells(const struct kva_board *b, struct tally *n)
{
    memset(n, 0, sizeof *n);
    for (int k = 0; k < b->n_arm; k++)
        for (int t = 0; t < b->n_task; t++) {
            const struct kva_arm *a = &b->arm[k];

            if (a->cell[t] < 0)
                continue;
            n->exist++;
            if (b->below[t] && b->n_used > 0)
                n->below++;
            else if (!b->used[t])
                n->weak++;
            else if (a->role != KVA_ARM_METHOD)
                n->reference++;
            else if (a->unranked != KVA_RANKED)
                n->unranked[a->unranked]++;
            else if (a->rank)
                n->ranked++;
            else if (b->ranks)
                n->incomplete++;
            else
                n->plain++;
        }
}

static enum kva_status count_note(struct kva_report *r, struct kva_tab *t,
                                  const struct kva_board *b, struct kva_error *err)
{
    struct tally n;
    struct kva_buf s;
    int sum, shown;

    count_cells(b, &n);
    shown = n.ranked + n.plain + n.incomplete + n.reference;
    sum = shown + n.below + n.weak;
    kva_buf_init(&s, 0);
    kva_buf_printf(&s, "%d cell%s, %d shown above", n.exist,
                   n.exist == 1 ? " exists" : "s exist", shown);
    if (n.ranked)
        kva_buf_printf(&s, ", %d ranked", n.ranked);
    if (n.incomplete)
        kva_buf_printf(&s, ", %d incomplete", n.incomplete);
    if (n.plain)
        kva_buf_printf(&s, ", %d not ranked in this class", n.plain);
    if (n.reference)
        kva_buf_printf(&s, ", %d reference", n.reference);
    kva_buf_printf(&s, "; %d not shown", n.exist - shown);
    if (n.below)
        kva_buf_printf(&s, ", %d below floor", n.below);
    if (n.weak)
        kva_buf_printf(&s, ", %d weak", n.weak);
    for (int u = 1; u < KVA_UNRANKED_N; u++) {
        sum += n.unranked[u];
        if (n.unranked[u])
            kva_buf_printf(&s, ", %d %s", n.unranked[u], kva_unranked_text[u]);
    }
    kva_buf_putc(&s, '.');
    if (sum != n.exist || s.failed) {
        kva_buf_release(&s);
        return KVA_FAIL(err, KVA_EINVALID, "%s: %d cells exist but %d are accounted for",
                        b->title, n.exist, sum);
    }
    kva_tab_note(r, t, "%s", s.data);
    kva_buf_release(&s);
    return KVA_OK;
}

static void sample_notes(struct kva_report *r, struct kva_tab *t,
                         const struct kva_board *b)
{
    const char *ties = b->ranks ? "; tied ranks are what the data allow." : ".";
    const struct kva_arm *shared = NULL;
    int n = 0;
    double worst = 0;

    for (int k = 0; k < b->n_arm; k++) {
        const struct kva_arm *a = &b->arm[k];

        if (a->role != KVA_ARM_METHOD)
            continue;
        n = n == 0 || (a->n_sample && a->n_sample < n) ? a->n_sample : n;
        if (!shared && a->n_unit > 0 && a->n_unit < a->n_scored)
            shared = a;
        /* of the rows whose difference to dense is not shown */
        if (!(a->p_adj < r->opts.alpha) && a->boot.mde > worst)
            worst = a->boot.mde;
    }
    if (shared)
        kva_tab_note(r, t,
                     "%d samples on %d contexts: samples that share a context are one "
                     "unit of intervals, tests and MDE.",
                     shared->n_scored, shared->n_unit);
    if (n > 0 && n < 100 && worst > 0)
        kva_tab_note(r, t,
                     "few samples: with n = %d, differences to dense below about %.0f "
                     "points may pass for chance%s",
                     n, ceil(100 * worst), ties);
    else if (n > 0 && n < 30)
        kva_tab_note(r, t, "few samples: n = %d%s", n, ties);
}

/* "Significantly better" is not transitive: a rank may be better than that of a row which
 * scores more. */
static void rank_note(struct kva_report *r, struct kva_tab *t, const struct kva_board *b)
{
    for (int k = 0; k < b->n_arm; k++)
        for (int m = 0; m < b->n_arm; m++) {
            const struct kva_arm *x = &b->arm[k], *y = &b->arm[m];

            if (x->rank == 0 || y->rank <= x->rank || !(y->score > x->score) ||
                !kva_same_budget(x, y))
                continue;
            kva_tab_note(r, t,
                         "ranks count the methods that are significantly better: at %s, "
                         "%s has %d of them and %s has %d, though it scores more.",
                         x->budget_text, x->name, x->rank - 1, y->name, y->rank - 1);
            return;
        }
}

/* Equal nominal budgets are not equal bytes: bookkeeping counts as held. */
static void held_note(struct kva_report *r, struct kva_tab *t, const struct kva_board *b)
{
    int n = 0;

    for (int k = 0; k < b->n_arm; k++)
        n += b->arm[k].role == KVA_ARM_METHOD &&
             b->arm[k].effective - b->arm[k].kept_share >= HELD_APART;
    if (n && b->ranks)
        kva_tab_note(r, t,
                     "%d row%s hold%s at least %.0f %% of the full cache more than "
                     "attention can read: pages and the method's bookkeeping count as "
                     "held. Ranks compare equal nominal budgets, not equal bytes.",
                     n, n == 1 ? "" : "s", n == 1 ? "s" : "", 100 * HELD_APART);
}

/* Rows that are not what their allocator's name says; five by name. */
static void fallback_note(struct kva_report *r, struct kva_tab *t,
                          const struct kva_board *b)
{
    struct kva_buf s;
    int n = 0;

    kva_buf_init(&s, 0);
    for (int k = 0; k < b->n_arm; k++) {
        const struct kva_arm *a = &b->arm[k];

        if (a->fell_back > 0 && n++ < 5)
            kva_buf_printf(&s, "%s%s at %s in %d of %d samples", n > 1 ? ", " : "",
                           a->name, a->budget_text, a->fell_back, a->ok);
    }
    if (n > 5)
        kva_buf_printf(&s, ", %d more row%s", n - 5, n == 6 ? "" : "s");
    if (n > 0 && !s.failed)
        kva_tab_note(r, t,
                     "fell back to uniform shares, where the rule of the allocator does "
                     "not fit the budget: %s.",
                     s.data);
    r->nomem |= s.failed;
    kva_buf_release(&s);
}

static void leader_notes(struct kva_report *r, struct kva_tab *t,
                         const struct kva_cells *c, const struct kva_board *b)
{
    struct kva_buf s;

    kva_buf_init(&s, 0);
    if (b->n_task > 1 && b->n_used > 0) {
        used_tasks(b, &s);
        if (!s.failed)
            kva_tab_note(r, t, "score: unweighted mean of %d task%s: %s.", b->n_used,
                         b->n_used == 1 ? "" : "s", s.data);
        r->nomem |= s.failed;
    }
    kva_buf_release(&s);
    if (b->n_task == 1)
        kva_protocol_note(r, t, c, b->task[0]);
    if (b->sampling[0])
        kva_tab_note(
            r, t,
            "answers are drawn (%s): a sample's score is the mean over its draws "
            "(avg@k); pass@k and maj@k stand in the view answers.",
            b->sampling);
    floor_notes(r, t, b);
    if (!b->ranks)
        kva_tab_note(
            r, t,
            b->oracle ? "oracle methods are never ranked beside others."
                      : "these rows are simulations, never ranked beside physical ones; "
                        "the column held has what they really hold.");
    for (int k = 0; k < b->n_arm; k++)
        if (b->arm[k].role == KVA_ARM_METHOD && b->arm[k].n_alone == 0) {
            kva_tab_note(r, t,
                         "not measured: TTFT, decode speed and peak come only from cells "
                         "that ran alone (suite key perf).");
            break;
        }
    held_note(r, t, b);
    fallback_note(r, t, b);
    sample_notes(r, t, b);
    rank_note(r, t, b);
}

/* ---- tables ---- */

static struct kva_tab *make_tab(struct kva_report *r, const struct kva_board *b,
                                const char *suffix, int view)
{
    struct kva_tab *t = kva_tab_add(
        r, kva_arena_printf(&r->arena, "%s%s", b->slug, suffix), view, LEADER, N_COLS);

    if (t) {
        t->heading = b->title;
        t->model = b->model;
        t->suites = kva_board_suites(r, b);
        t->klass = b->oracle ? "oracle" : b->enforce;
    }
    return t;
}

static enum kva_status leader_table(struct kva_report *r, const struct kva_data *d,
                                    const struct kva_cells *c, const struct kva_board *b,
                                    int view, struct kva_error *err)
{
    struct kva_tab *t = make_tab(r, b, "", view);
    const struct kva_arm *last = NULL;
    int unranked = 0;

    for (int k = 0; t && k < b->n_arm; k++) {
        const struct kva_arm *a = &b->arm[k];
        struct kva_row *row;

        if (a->unranked != KVA_RANKED) {
            unranked++;
            continue;
        }
        row = kva_tab_row(r, t);
        if (!row)
            break;
        fill_row(r, d, c, b, a, row);
        row->group = last && !kva_same_budget(last, a);
        last = a;
    }
    if (!t || r->nomem)
        return KVA_FAIL(err, KVA_ENOMEM, "report: tables: out of memory");
    t->caption = b->title;
    leader_notes(r, t, c, b);
    KVA_TRY(count_note(r, t, b, err));
    if (unranked == 0)
        return KVA_OK;
    t = make_tab(r, b, "-unranked", view);
    for (int k = 0; t && k < b->n_arm; k++) {
        struct kva_row *row;

        if (b->arm[k].unranked == KVA_RANKED)
            continue;
        row = kva_tab_row(r, t);
        if (!row)
            break;
        fill_row(r, d, c, b, &b->arm[k], row);
        row->role = KVA_ROW_PLAIN;
    }
    if (!t || r->nomem)
        return KVA_FAIL(err, KVA_ENOMEM, "report: tables: out of memory");
    t->caption = kva_arena_printf(&r->arena, "Not ranked: %s", b->title);
    for (int u = 1; u < KVA_UNRANKED_N; u++) {
        int n = 0;

        for (int k = 0; k < b->n_arm; k++)
            n += b->arm[k].unranked == (enum kva_unranked)u;
        if (n)
            kva_tab_note(r, t, "%d row%s not ranked: %s.", n, n == 1 ? "" : "s",
                         kva_unranked_text[u]);
    }
    return KVA_OK;
}

enum kva_status kva_tables_build(struct kva_report *r, const struct kva_data *d,
                                 const struct kva_cells *c, struct kva_error *err)
{
    for (int i = 0; i < r->n_board; i++)
        if (!r->board[i].single) {
            KVA_TRY(leader_table(r, d, c, &r->board[i], KVA_VIEW_LEADERBOARD, err));
            kva_group_table(r, d, c, &r->board[i]);
        }
    for (int i = 0; i < r->n_board; i++)
        if (r->board[i].single && (!r->opts.one_view || r->view == KVA_VIEW_TASKS))
            KVA_TRY(leader_table(r, d, c, &r->board[i], KVA_VIEW_TASKS, err));
    KVA_TRY(kva_summary_tables(r, err));
    kva_protocol_table(r, d, c);
    KVA_TRY(kva_views_build(r, d, c, err));
    KVA_TRY(kva_about_build(r, d, c, err));
    if (r->nomem)
        return KVA_FAIL(err, KVA_ENOMEM, "report: tables: out of memory");
    return KVA_OK;
}
