/* SPDX-License-Identifier: GPL-3.0-or-later */
/* views.c - memory, timing and coverage tables, and the order of all others. */
#include "reports/duel.h"
#include "reports/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    M_METHOD,
    M_KEEP,
    M_DENSE,
    M_ALLOC,
    M_META,
    M_LIVE,
    M_EFFECTIVE,
    M_KEPT,
    M_END,
    M_PEAK,
    M_SOURCE,
    M_AUDIT,
    M_SPEC,
    M_COLS
};
static const struct kva_col MEMORY[M_COLS] = {
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, false, "nominal budget"},
    {"dense_bytes", "full cache", "", KVA_COL_BYTES, 0, false, 0, false,
     "bytes the same prompt takes unevicted, mean"},
    {"alloc_bytes", "allocated", "", KVA_COL_BYTES, 0, false, 0, false,
     "bytes of K and V after eviction, whole pages, mean"},
    {"meta_bytes", "meta", "", KVA_COL_BYTES, 0, false, 0, false,
     "indexes, positions, page tables, mean"},
    {"live_bytes", "live", "", KVA_COL_BYTES, 0, false, 4, false,
     "entries attention can read, mean"},
    {"effective_ratio", "held", "%", KVA_COL_PERCENT, 1, false, 0, false,
     "(allocated + meta) / full cache"},
    {"live_ratio", "live", "%", KVA_COL_PERCENT, 1, false, 3, false, "live / full cache"},
    {"end_bytes", "at the end", "", KVA_COL_BYTES, 0, false, 5, false,
     "allocated + meta after the answer, mean"},
    {"peak_bytes", "peak", "", KVA_COL_BYTES, 0, false, 1, false,
     "largest allocated + meta at any time"},
    {"peak_source", "peak from", "", KVA_COL_TEXT, 0, false, 6, false,
     "alone: a cell by itself; shared: what the cell would hold alone"},
    {"audit", "audit", "", KVA_COL_TEXT, 0, false, 0, false, "verdict of the held bytes"},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
};

static const char *audit_text(const struct kva_arm *a)
{
    return kva_arm_badge_text(a, a->badge);
}

static enum kva_row_role role_of(const struct kva_arm *a)
{
    return a->role != KVA_ARM_METHOD ? KVA_ROW_REFERENCE
           : a->ok < a->expected     ? KVA_ROW_INCOMPLETE
                                     : KVA_ROW_PLAIN;
}

static bool new_group(const struct kva_board *b, int k)
{
    const struct kva_arm *x = &b->arm[k ? k - 1 : 0], *y = &b->arm[k];

    return k > 0 && (x->role != y->role || x->budget != y->budget ||
                     strcmp(x->budget_kind, y->budget_kind) != 0);
}

static void memory_table(struct kva_report *r, const struct kva_board *b)
{
    struct kva_tab *t = kva_board_tab(r, b, "memory", KVA_VIEW_MEMORY, MEMORY, M_COLS);
    bool shared = false;

    for (int k = 0; t && k < b->n_arm; k++) {
        const struct kva_arm *a = &b->arm[k];
        struct kva_row *row;
        struct kva_val *v;

        if (a->role == KVA_ARM_BLIND) /* its prompt is another one */
            continue;
        row = kva_tab_row(r, t);
        if (!row)
            return;
        v = row->cell;
        v[M_METHOD] = kva_val_text(a->name);
        v[M_METHOD].title = a->spec;
        v[M_KEEP] = kva_val_text(a->budget_text);
        v[M_DENSE] = kva_val_number(a->dense_bytes);
        v[M_ALLOC] = kva_val_number(a->alloc);
        v[M_META] = kva_val_number(a->meta);
        v[M_LIVE] = kva_val_number(a->live);
        v[M_EFFECTIVE] = kva_val_number(a->effective);
        v[M_KEPT] = kva_val_number(a->kept_share);
        v[M_END] = kva_val_number(a->end);
        v[M_PEAK] = kva_val_number(isnan(a->alone_peak) ? a->peak : a->alone_peak);
        v[M_SOURCE] = kva_val_text(!isnan(a->alone_peak) ? "alone"
                                   : isnan(a->peak)      ? ""
                                                         : "shared");
        shared |= isnan(a->alone_peak) && !isnan(a->peak);
        v[M_AUDIT] = kva_val_text(audit_text(a));
        v[M_SPEC] = kva_val_text(a->spec);
        row->role = role_of(a);
        row->group = new_group(b, k);
    }
    kva_tab_note(
        r, t,
        "Held bytes are taken after the last prefill decision, before the next token. "
        "One-shot prefill needs the whole cache before the first eviction: the peak "
        "falls only with block schedules.");
    if (shared)
        kva_tab_note(r, t,
                     "peak from shared: not measured alone; it is what the cell would "
                     "hold by itself.");
}

enum {
    W_METHOD,
    W_KEEP,
    W_TTFT,
    W_PREFILL,
    W_SCORE,
    W_EVICT,
    W_QUESTION,
    W_DECODE,
    W_TTFT_RATIO,
    W_DECODE_RATIO,
    W_N,
    W_SPEC,
    W_COLS
};
static const struct kva_col TIMING[W_COLS] = {
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, false, "nominal budget"},
    {"ttft_ms", "TTFT", "ms", KVA_COL_REAL, 1, false, 0, false,
     "time to first token, scoring and eviction included"},
    {"prefill_ms", "prefill", "ms", KVA_COL_REAL, 1, false, 3, false, "context"},
    {"score_ms", "scoring", "ms", KVA_COL_REAL, 2, false, 2, false,
     "the method's scores"},
    {"evict_ms", "eviction", "ms", KVA_COL_REAL, 2, false, 2, false,
     "selection and copy"},
    {"question_ms", "question", "ms", KVA_COL_REAL, 1, false, 4, false,
     "question tokens"},
    {"decode_tok_s", "decode", "tok/s", KVA_COL_REAL, 1, false, 0, false,
     "1 / median decode step"},
    {"ttft_ratio", "TTFT / dense", "", KVA_COL_REAL, 2, false, 1, false, ""},
    {"decode_ratio", "decode / dense", "", KVA_COL_REAL, 2, false, 1, false, ""},
    {"n_alone", "n", "", KVA_COL_INT, 0, false, 0, false, "samples that ran alone"},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
};

static void timing_table(struct kva_report *r, const struct kva_board *b)
{
    struct kva_tab *t = kva_board_tab(r, b, "timing", KVA_VIEW_TIMING, TIMING, W_COLS);
    const struct kva_arm *dense = b->dense >= 0 ? &b->arm[b->dense] : NULL;
    int none = 0;

    for (int k = 0; t && k < b->n_arm; k++) {
        const struct kva_arm *a = &b->arm[k];
        struct kva_row *row;
        struct kva_val *v;

        if (a->role == KVA_ARM_BLIND)
            continue;
        if (a->n_alone == 0) {
            none++;
            continue;
        }
        row = kva_tab_row(r, t);
        if (!row)
            return;
        v = row->cell;
        v[W_METHOD] = kva_val_text(a->name);
        v[W_METHOD].title = a->spec;
        v[W_KEEP] = kva_val_text(a->budget_text);
        v[W_TTFT] = kva_val_number(a->ttft_ms);
        v[W_PREFILL] = kva_val_number(a->prefill_ms);
        v[W_SCORE] = kva_val_number(a->scoring_ms);
        v[W_EVICT] = kva_val_number(a->evict_ms);
        v[W_QUESTION] = kva_val_number(a->question_ms);
        v[W_DECODE] = kva_val_number(a->token_s);
        if (dense && dense->n_alone) {
            v[W_TTFT_RATIO] = kva_val_number(a->ttft_ms / dense->ttft_ms);
            v[W_DECODE_RATIO] = kva_val_number(a->token_s / dense->token_s);
        }
        v[W_N] = kva_val_number(a->n_alone);
        v[W_SPEC] = kva_val_text(a->spec);
        row->role = role_of(a);
        row->group = t->n_row > 1 && new_group(b, k);
    }
    if (none)
        kva_tab_note(r, t, "%d row%s not measured: no sample ran alone (suite key perf).",
                     none, none == 1 ? "" : "s");
    kva_tab_note(
        r, t,
        "Medians of monotonic wall time on the machine of the run; a few samples "
        "on a busy machine order methods, they do not rank them.");
}

/* ---- coverage ---- */

enum {
    V_MODEL,
    V_TASK,
    V_METHOD,
    V_KEEP,
    V_ENFORCE,
    V_VISIBILITY,
    V_SCHEDULE,
    V_PLANNED,
    V_OK,
    V_TRUNCATED,
    V_FAILED,
    V_MISSING,
    V_REASON,
    V_SPEC,
    V_COLS
};
static const struct kva_col COVER[V_COLS] = {
    {"model", "model", "", KVA_COL_TEXT, 0, false, 3, false, ""},
    {"task", "task", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, false, "nominal budget"},
    {"enforce", "enforce", "", KVA_COL_TEXT, 0, false, 2, false, ""},
    {"visibility", "visibility", "", KVA_COL_TEXT, 0, false, 5, false, ""},
    {"schedule", "schedule", "", KVA_COL_TEXT, 0, false, 4, false, ""},
    {"n_planned", "planned", "", KVA_COL_INT, 0, false, 0, false, "outcomes"},
    {"n_ok", "ok", "", KVA_COL_INT, 0, false, 0, false, ""},
    {"n_truncated", "cut", "", KVA_COL_INT, 0, false, 1, false, "prompt did not fit"},
    {"n_failed", "failed", "", KVA_COL_INT, 0, false, 0, false,
     "out of memory, timeout, error, not finite, skipped"},
    {"n_missing", "missing", "", KVA_COL_INT, 0, false, 0, false, "not run yet"},
    {"reason", "first error", "", KVA_COL_TEXT, 0, false, 6, false, ""},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 99, false, "canonical"},
};

static void coverage_table(struct kva_report *r, const struct kva_data *d,
                           const struct kva_cells *c)
{
    struct kva_tab *t = kva_tab_add(r, "coverage", KVA_VIEW_COVERAGE, COVER, V_COLS);
    int sum[4] = {0}, planned = 0;

    if (!t)
        return;
    t->heading = t->caption = "Coverage: outcomes of every cell";
    for (int i = 0; i < d->n_cells; i++) {
        const struct kva_data_cell *x = &d->cells[i];
        int n[4] = {0}, want = x->n_expected; /* ok, cut, failed, missing */
        const char *reason = "";
        struct kva_row *row;
        struct kva_val *v;

        if (c->left_out[i])
            continue;
        for (int o = c->first_outcome[i]; o < c->first_outcome[i + 1]; o++) {
            const char *s = d->outcomes[o].status;
            int k = strcmp(s, "ok") == 0 ? 0 : strcmp(s, "truncated") == 0 ? 1 : 2;

            n[k]++;
            if (k == 2 && !reason[0])
                reason = kva_report_clean(
                    &r->arena, d->outcomes[o].error ? d->outcomes[o].error : s);
        }
        if (n[0] + n[1] + n[2] > want)
            want = n[0] + n[1] + n[2];
        n[3] = want - n[0] - n[1] - n[2];
        row = kva_tab_row(r, t);
        if (!row)
            return;
        v = row->cell;
        v[V_MODEL] = kva_val_text(kva_report_clean(&r->arena, d->models[x->model].name));
        v[V_TASK] = kva_val_text(c->label[x->task]);
        v[V_METHOD] = kva_val_text(c->name[i]);
        v[V_SPEC] = kva_val_text(kva_report_clean(&r->arena, x->method));
        v[V_METHOD].title = v[V_SPEC].text;
        v[V_KEEP] =
            kva_val_text(strcmp(x->method, "blind") == 0
                             ? "none"
                             : kva_report_budget(&r->arena, x->budget_kind, x->budget));
        v[V_ENFORCE] = kva_val_text(kva_report_clean(&r->arena, x->enforce));
        v[V_VISIBILITY] = kva_val_text(kva_report_clean(&r->arena, x->visibility));
        v[V_SCHEDULE] = kva_val_text(kva_report_clean(&r->arena, x->schedule));
        v[V_PLANNED] = kva_val_number(want);
        for (int k = 0; k < 4; k++) {
            v[V_OK + k] = kva_val_number(n[k]);
            sum[k] += n[k];
        }
        v[V_REASON] = kva_val_text(reason);
        planned += want;
        row->role = n[0] < want ? KVA_ROW_INCOMPLETE : KVA_ROW_PLAIN;
        row->group = i > 0 && t->n_row > 1 && d->cells[i - 1].task != x->task;
    }
    kva_tab_note(r, t, "%d outcomes planned: %d ok, %d cut, %d failed, %d missing.",
                 planned, sum[0], sum[1], sum[2], sum[3]);
}

static bool wanted(const struct kva_report *r, int view)
{
    return !r->opts.one_view || r->view == view;
}

enum kva_status kva_views_build(struct kva_report *r, const struct kva_data *d,
                                const struct kva_cells *c, struct kva_error *err)
{
    for (int i = 0; i < r->n_board; i++)
        if (!r->board[i].single)
            memory_table(r, &r->board[i]);
    for (int i = 0; i < r->n_board; i++)
        if (!r->board[i].single) {
            timing_table(r, &r->board[i]);
            kva_timing_table(r, d, &r->board[i]);
        }
    kva_time_table(r, d, c);
    if (wanted(r, KVA_VIEW_RETENTION)) {
        for (int i = 0; i < r->n_board; i++)
            if ((!r->board[i].single || r->opts.by_task) && r->board[i].n_method &&
                r->board[i].dense >= 0)
                kva_retention_table(r, &r->board[i]);
        kva_visibility_tables(r, d, c);
    }
    if (wanted(r, KVA_VIEW_SURVIVAL)) {
        for (int i = 0; i < r->n_board; i++)
            if (!r->board[i].single)
                kva_survival_table(r, d, c, &r->board[i]);
        kva_layout_table(r, d, c);
    }
    for (int i = 0; wanted(r, KVA_VIEW_ANSWERS) && i < r->n_board; i++)
        if (!r->board[i].single) {
            kva_answer_table(r, d, c, &r->board[i]);
            kva_second_table(r, d, c, &r->board[i]);
            kva_draw_table(r, d, c, &r->board[i]);
            kva_label_table(r, d, c, &r->board[i]);
            kva_turn_table(r, d, c, &r->board[i]);
        }
    if (wanted(r, KVA_VIEW_AUDIT))
        kva_audit_tables(r, d, c);
    if (wanted(r, KVA_VIEW_GRID))
        kva_grid_table(r, d, c);
    if (wanted(r, KVA_VIEW_PAIRS))
        KVA_TRY(kva_wtl_table(r, d, c, err));
    if (wanted(r, KVA_VIEW_NOISE))
        KVA_TRY(kva_noise_table(r, d, c, err));
    coverage_table(r, d, c);
    if (r->nomem)
        return KVA_FAIL(err, KVA_ENOMEM, "report: tables: out of memory");
    return KVA_OK;
}
