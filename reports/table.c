/* SPDX-License-Identifier: GPL-3.0-or-later */
/* table.c - the table model that every renderer reads: typed columns, raw values, notes.
 */
#include "reports/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct kva_view kva_views[] = {
    {"leaderboard", "methods by budget: score, retention, interval, answer nats",
     KVA_VIEW_LEADERBOARD},
    {"tasks", "the same, task by task", KVA_VIEW_TASKS},
    {"retention", "score, retention and loss budget by budget; question known or not",
     KVA_VIEW_RETENTION},
    {"survival", "how much evidence, payload and distractors methods keep",
     KVA_VIEW_SURVIVAL},
    {"answers", "how answers end, other metrics, breakdowns by label and turn",
     KVA_VIEW_ANSWERS},
    {"grid", "niah/grid sample by sample", KVA_VIEW_GRID},
    {"audit", "verdicts of the audits, with the numbers behind them", KVA_VIEW_AUDIT},
    {"memory", "held, allocated and peak bytes against the nominal budget",
     KVA_VIEW_MEMORY},
    {"timing", "prefill, scoring, eviction, first token, decode", KVA_VIEW_TIMING},
    {"pairs", "method against method: win, tie, loss, mean difference", KVA_VIEW_PAIRS},
    {"noise", "what repeating the full cache changes by itself", KVA_VIEW_NOISE},
    {"coverage", "outcomes planned, done, failed, missing", KVA_VIEW_COVERAGE},
    {NULL, NULL, 0}};

int kva_view_of(const char *name)
{
    for (const struct kva_view *v = kva_views; v->name; v++)
        if (strcmp(v->name, name) == 0)
            return v->bit;
    return 0;
}

const char *kva_view_name(int view)
{
    for (const struct kva_view *v = kva_views; v->name; v++)
        if (v->bit == view)
            return v->name;
    return view == KVA_VIEW_PAPER    ? "paper"
           : view == KVA_VIEW_DEVICE ? "device"
                                     : "about";
}

void kva_view_names(const char *name[KVA_MAX_VIEWS])
{
    int n = 0;

    for (; kva_views[n].name && n < KVA_MAX_VIEWS - 1; n++)
        name[n] = kva_views[n].name;
    name[n] = NULL;
}

bool kva_tab_shown(const struct kva_report *r, const struct kva_tab *t)
{
    return t->view == r->view ||
           (r->view == KVA_VIEW_LEADERBOARD && t->view == KVA_VIEW_ABOUT);
}

/* Doubles an arena array when it is full. */
static void *grow(struct kva_report *r, void *old, int n, int *cap, size_t size)
{
    void *p;

    if (n < *cap)
        return old;
    p = kva_arena_alloc(&r->arena, (size_t)(*cap ? 2 * *cap : 8), size);
    if (!p) {
        r->nomem = true;
        return NULL;
    }
    if (n)
        memcpy(p, old, (size_t)n * size);
    *cap = *cap ? 2 * *cap : 8;
    return p;
}

struct kva_tab *kva_tab_add(struct kva_report *r, const char *id, int view,
                            const struct kva_col *col, int n_col)
{
    struct kva_tab *grown = grow(r, r->tab, r->n_tab, &r->cap_tab, sizeof *grown);
    struct kva_tab *t;

    if (!grown || !id) {
        r->nomem = true;
        return NULL;
    }
    r->tab = grown;
    t = &r->tab[r->n_tab++];
    memset(t, 0, sizeof *t);
    t->id = id;
    t->view = view;
    t->col = col;
    t->n_col = n_col;
    t->heading = t->caption = t->model = t->klass = t->suites = "";
    return t;
}

struct kva_tab *kva_board_tab(struct kva_report *r, const struct kva_board *b,
                              const char *suffix, int view, const struct kva_col *col,
                              int n)
{
    struct kva_tab *t = kva_tab_add(
        r, kva_arena_printf(&r->arena, "%s-%s", b->slug, suffix), view, col, n);

    if (t) {
        t->heading = t->caption = b->title;
        t->model = b->model;
        t->suites = kva_board_suites(r, b);
        t->klass = b->oracle ? "oracle" : b->enforce;
    }
    return t;
}

bool kva_tab_has(const struct kva_tab *t, int col)
{
    for (int k = 0; k < t->n_row; k++) {
        const struct kva_val *v = &t->row[k].cell[col];

        if (v->text ? v->text[0] && strcmp(v->text, "n/a") != 0 &&
                          strcmp(v->text, "not measured") != 0
                    : !isnan(v->v))
            return true;
    }
    return t->n_row == 0;
}

/* A label begins with the suite, "ruler/vt@4096"; tasks of a suite stand together. */
const char *kva_board_suites(struct kva_report *r, const struct kva_board *b)
{
    const char *all = "", *last = "";
    size_t n_last = 0;

    for (int t = 0; t < b->n_task; t++) {
        size_t n = strcspn(b->task_label[t], "/");

        if (n == n_last && strncmp(b->task_label[t], last, n) == 0)
            continue;
        last = b->task_label[t];
        n_last = n;
        all = kva_arena_printf(&r->arena, "%s%s%.*s", all, all[0] ? "\n" : "", (int)n,
                               last);
        if (!all) {
            r->nomem = true;
            return "";
        }
    }
    return all;
}

bool kva_same_budget(const struct kva_arm *x, const struct kva_arm *y)
{
    return x->role == y->role && x->budget == y->budget &&
           strcmp(x->budget_kind, y->budget_kind) == 0;
}

void kva_arm_names(const struct kva_arm *a, struct kva_val *method, struct kva_val *keep,
                   struct kva_val *spec)
{
    *method = kva_val_text(a->name);
    method->title = a->spec;
    *keep = kva_val_text(a->budget_text);
    *spec = kva_val_text(a->spec);
}

struct kva_row *kva_tab_row(struct kva_report *r, struct kva_tab *t)
{
    struct kva_row *grown =
        t ? grow(r, t->row, t->n_row, &t->cap_row, sizeof *grown) : NULL;
    struct kva_row *row;

    if (!grown)
        return NULL;
    t->row = grown;
    row = &t->row[t->n_row];
    memset(row, 0, sizeof *row);
    row->cell = kva_arena_alloc(&r->arena, (size_t)t->n_col, sizeof *row->cell);
    if (!row->cell) {
        r->nomem = true;
        return NULL;
    }
    for (int i = 0; i < t->n_col; i++)
        row->cell[i] = kva_val_number((double)NAN);
    t->n_row++;
    return row;
}

static void add_text(struct kva_report *r, const char ***list, int *n, int *cap,
                     const char *fmt, va_list ap)
{
    const char **grown = grow(r, *list, *n, cap, sizeof *grown);
    struct kva_buf b;

    kva_buf_init(&b, 0);
    kva_buf_vprintf(&b, fmt, ap);
    if (grown) {
        *list = grown;
        grown[*n] = b.failed ? NULL : kva_report_clean(&r->arena, b.data);
        if (grown[*n])
            (*n)++;
        else
            r->nomem = true;
    }
    kva_buf_release(&b);
}

void kva_tab_note(struct kva_report *r, struct kva_tab *t, const char *fmt, ...)
{
    va_list ap;

    if (!t)
        return;
    va_start(ap, fmt);
    add_text(r, &t->note, &t->n_note, &t->cap_note, fmt, ap);
    va_end(ap);
}

void kva_list_add(struct kva_report *r, const char ***list, int *n, int *cap,
                  const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_text(r, list, n, cap, fmt, ap);
    va_end(ap);
}

struct kva_val kva_val_number(double v)
{
    return (struct kva_val){.v = v, .lo = (double)NAN, .hi = (double)NAN};
}

struct kva_val kva_val_text(const char *s)
{
    struct kva_val v = kva_val_number((double)NAN);

    v.text = s;
    return v;
}

struct kva_val kva_val_interval(double x, struct kva_interval ci)
{
    struct kva_val v = kva_val_number(x);

    if (ci.ok && !isnan(x)) {
        v.lo = ci.lo;
        v.hi = ci.hi;
    }
    return v;
}

static void format_bytes(double v, struct kva_buf *out)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;

    while (fabs(v) >= 1023.95 && u < 4) {
        v /= 1024;
        u++;
    }
    kva_buf_printf(out,
                   u == 0       ? "%.0f %s"
                   : v >= 99.95 ? "%.0f %s"
                                : "%.1f %s",
                   v, unit[u]);
}

static double no_minus_zero(double v, int digits)
{
    return fabs(v) < 0.5 * pow(10, -digits) ? 0 : v;
}

void kva_val_format(const struct kva_col *c, const struct kva_val *v, struct kva_buf *out)
{
    double scale = c->kind == KVA_COL_PERCENT ? 100 : 1;

    if (v->text) {
        kva_buf_puts(out, v->text);
        return;
    }
    if (isnan(v->v)) {
        kva_buf_puts(out, c->kind == KVA_COL_TEXT ? "" : "n/a");
        return;
    }
    switch (c->kind) {
    case KVA_COL_BYTES:
        format_bytes(v->v, out);
        return;
    case KVA_COL_INT:
        kva_buf_printf(out, "%.0f", v->v);
        return;
    case KVA_COL_P:
        if (v->v < 0.001)
            kva_buf_puts(out, "<0.001");
        else
            kva_buf_printf(out, "%.3f", v->v);
        return;
    default:
        break;
    }
    kva_buf_printf(out, "%.*f", c->digits, no_minus_zero(v->v * scale, c->digits));
    if (c->interval && !isnan(v->lo)) {
        int digits = c->kind == KVA_COL_PERCENT ? 1 : c->digits;

        kva_buf_printf(out, " [%.*f, %.*f]", digits, no_minus_zero(v->lo * scale, digits),
                       digits, no_minus_zero(v->hi * scale, digits));
    }
}

void kva_report_escape(struct kva_buf *out, const char *s)
{
    for (; s && *s; s++)
        switch (*s) {
        case '&':
            kva_buf_puts(out, "&amp;");
            break;
        case '<':
            kva_buf_puts(out, "&lt;");
            break;
        case '>':
            kva_buf_puts(out, "&gt;");
            break;
        case '"':
            kva_buf_puts(out, "&quot;");
            break;
        case '\'':
            kva_buf_puts(out, "&#39;");
            break;
        default:
            kva_buf_putc(out, *s);
        }
}
