/* SPDX-License-Identifier: GPL-3.0-or-later */
/* paper.c - a published table, what was measured beside it, and the difference
 * (reports.md 6.6).
 *
 * Three kinds of tables come out: the table in the paper's own rows and columns with
 * published, measured and difference one below the other; every number by itself with
 * intervals, flag and the reason when it is not compared; and, for each model of the
 * database that the paper does not name, its rows alone: they are never compared. */
#include "reports/paper.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 24 };

static const char *const FLAG[] = {"match", "off", "n/a", "not measured", "not measured"};

/* What measures a number that is no score. */
static const char *elsewhere(const struct kva_published *p)
{
    static const char *const where[][2] = {{"time", "see kvaudit report timing"},
                                           {"speedup", "see kvaudit report timing"},
                                           {"memory", "see kvaudit report memory"},
                                           {"tally", "see kvaudit compare"},
                                           {"claim", "a statement of the text"},
                                           {"card", "of the data, not of a method"}};

    for (size_t i = 0; i < sizeof where / sizeof where[0]; i++)
        if (strcmp(where[i][0], p->aggregation) == 0)
            return where[i][1];
    return "see kvaudit analyze";
}

enum kva_status kva_paper_finish(struct kva_report **r, enum kva_status rc,
                                 struct kva_error *err)
{
    if (rc == KVA_OK && (*r)->nomem)
        rc = KVA_FAIL(err, KVA_ENOMEM, "paper table: out of memory");
    if (rc != KVA_OK) {
        kva_report_free(*r);
        *r = NULL;
    }
    return rc;
}

/* ---- the list ---- */

enum kva_status kva_paper_list(const struct kva_report_opts *opts, struct kva_report **r,
                               struct kva_error *err)
{
    enum { ID, TITLE, NUMBERS, SCORES, N, FITS, SUITE, N_COLS };
    static const struct kva_col col[N_COLS] = {
        {"id", "table", "", KVA_COL_TEXT, 0, false, 0, false, "for report --paper"},
        {"title", "what", "", KVA_COL_TEXT, 0, false, 0, false, ""},
        {"numbers", "numbers", "", KVA_COL_INT, 0, false, 0, false, "printed in it"},
        {"scores", "scores", "", KVA_COL_INT, 0, false, 0, false,
         "of them can be measured by a run"},
        {"n", "n", "", KVA_COL_TEXT, 0, false, 1, false, "samples a task, as claimed"},
        {"fits", "fits", "", KVA_COL_TEXT, 0, false, 1, false,
         "smallest n whose grid holds the printed values"},
        {"suite", "suite", "", KVA_COL_TEXT, 0, false, 2, false, "in configs/"}};
    struct kva_published_set s;
    enum kva_status rc;
    struct kva_tab *t;

    *r = NULL;
    KVA_GO(kva_published_read(&s, err));
    KVA_GO(kva_report_start(opts, "published tables", r, err));
    t = kva_tab_add(*r, "papers", KVA_VIEW_PAPER, col, N_COLS);
    for (int i = 0; t && i < s.n_table; i++) {
        const struct kva_published_table *p = &s.table[i];
        int scores = 0, fits = kva_published_fits(&s, p);
        struct kva_row *row = kva_tab_row(*r, t);

        for (int k = p->first; k < p->first + p->n_rows; k++)
            scores += kva_published_measurable(&s.row[k]);
        if (!row)
            break;
        row->group = i > 0 && strcmp(p->source, s.table[i - 1].source) != 0;
        row->cell[ID] = kva_val_text(kva_arena_strdup(&(*r)->arena, p->id));
        row->cell[TITLE] = kva_val_text(kva_arena_strdup(&(*r)->arena, p->title));
        row->cell[NUMBERS] = kva_val_number(p->n_rows);
        row->cell[SCORES] = kva_val_number(scores);
        row->cell[N] =
            kva_val_text(p->n ? kva_arena_printf(&(*r)->arena, "%d", p->n) : "");
        row->cell[FITS] =
            kva_val_text(fits ? kva_arena_printf(&(*r)->arena, "%d", fits) : "");
        row->cell[SUITE] = kva_val_text(kva_arena_strdup(&(*r)->arena, p->config));
        for (int c = 0; c < N_COLS; c++)
            (*r)->nomem |= !row->cell[c].text && isnan(row->cell[c].v);
    }
    if (t) {
        t->heading = t->caption = "Published tables";
        kva_tab_note(*r, t,
                     "sources: S-CK CriticalKV (arXiv 2502.03805v2); S-LU LU-KV "
                     "(arXiv 2602.08585), S-VD ValueDiff and S-CT ContourKV read "
                     "in reviews; RUL, LB, KVP, DKV, ADA: READMEs and pull "
                     "requests of RULER, LongBench, kvpress, DefensiveKV, AdaKV.");
    }
out:
    kva_published_release(&s);
    return *r ? kva_paper_finish(r, rc, err) : rc;
}

/* ---- building one ---- */

struct build {
    struct kva_report *r;
    const struct kva_published_set *set;
    const struct kva_published_table *t;
    struct kva_paper_match m;
    struct kva_measured *got; /* per number of the table */
    const struct kva_published *column[MAX_COLUMNS];
    int n_column;
    bool any; /* something was measured */
    bool two_models, two_lengths;
};

static bool same_column(const struct kva_published *a, const struct kva_published *b)
{
    return strcmp(a->task, b->task) == 0 && strcmp(a->aggregation, b->aggregation) == 0 &&
           strcmp(a->unit, b->unit) == 0;
}

static int column_of(const struct build *b, const struct kva_published *p)
{
    for (int i = 0; i < b->n_column; i++)
        if (same_column(b->column[i], p))
            return i;
    return -1;
}

static enum kva_status survey(struct build *b, struct kva_paper_result *res,
                              struct kva_error *err)
{
    const struct kva_published *first = &b->set->row[b->t->first];

    b->got = kva_calloc((size_t)b->t->n_rows, sizeof *b->got);
    if (!b->got)
        return KVA_FAIL(err, KVA_ENOMEM, "paper table: out of memory");
    for (int i = 0; i < b->t->n_rows; i++) {
        const struct kva_published *p = first + i;
        int *const count[] = {&res->n_match, &res->n_off, &res->n_na, &res->n_missing,
                              &res->n_outside};

        KVA_TRY(kva_paper_measure(&b->m, p, &b->got[i], err));
        ++*count[b->got[i].flag];
        res->n++;
        b->two_models |= strcmp(p->model, first->model) != 0;
        b->two_lengths |= p->ctx != first->ctx;
        b->any |= !isnan(b->got[i].value);
        if (column_of(b, p) >= 0 || (!b->t->wide && !kva_published_measurable(p)))
            continue;
        if (b->n_column == MAX_COLUMNS)
            return KVA_FAIL(err, KVA_EFORMAT, "%s has more than %d columns: not wide",
                            b->t->id, MAX_COLUMNS);
        b->column[b->n_column++] = p;
    }
    return KVA_OK;
}

static const char *keep(struct kva_arena *a, const char *budget)
{
    double v;

    if (strncmp(budget, "keep=", 5) == 0 && kva_parse_f64(budget + 5, &v))
        return kva_arena_printf(a, "%.10g%%", 100 * v);
    if (strncmp(budget, "tokens=", 7) == 0)
        return kva_arena_printf(a, "%s tokens", budget + 7);
    if (strncmp(budget, "share=", 6) == 0 && kva_parse_f64(budget + 6, &v))
        return kva_arena_printf(a, "%.10g%% of length", 100 * v);
    return strcmp(budget, "dense") == 0 ? "full" : kva_arena_strdup(a, budget);
}

/* ---- the paper's own shape ---- */

enum { W_MODEL, W_METHOD, W_KEEP, W_CTX, W_BLOCK, W_FIRST };

/* Names of the columns: the task without its suite, with the unit where it is no score.
 */
static struct kva_col *shape(struct build *b, bool interval)
{
    static const struct kva_col lead[W_FIRST] = {
        {"model", "model", "", KVA_COL_TEXT, 0, false, 0, false, "as the paper says"},
        {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "as printed"},
        {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, false, "kept, not removed"},
        {"context", "context", "", KVA_COL_INT, 0, false, 1, false, ""},
        {"block", "", "", KVA_COL_TEXT, 0, false, 0, false,
         "published, measured, difference"}};
    struct kva_arena *a = &b->r->arena;
    struct kva_col *col =
        kva_arena_alloc(a, (size_t)(W_FIRST + b->n_column), sizeof *col);

    if (!col)
        return NULL;
    memcpy(col, lead, sizeof lead);
    if (!b->two_models)
        col[W_MODEL].keep = 99;
    if (!b->two_lengths)
        col[W_CTX].keep = 99;
    for (int i = 0; i < b->n_column; i++) {
        const struct kva_published *p = b->column[i];
        const char *name = kva_published_task(p);
        bool points = strcmp(p->unit, "points") == 0, twice = false;

        for (int k = 0; k < b->n_column; k++)
            twice |= k != i && strcmp(b->column[k]->task, p->task) == 0;
        col[W_FIRST + i] = (struct kva_col){
            .id = twice ? kva_arena_printf(a, "%s_%s", name, p->aggregation)
                        : kva_arena_strdup(a, name),
            .label =
                kva_arena_strdup(a, strncmp(name, "niah_", 5) == 0 ? name + 5 : name),
            .unit = points ? "" : kva_arena_strdup(a, p->unit),
            .kind = KVA_COL_REAL,
            .digits = p->digits,
            .interval = interval,
            .keep = 10 + i,
            .help = ""};
        if (!col[W_FIRST + i].id || !col[W_FIRST + i].label || !col[W_FIRST + i].unit)
            return NULL;
    }
    return col;
}

static void lead(struct build *b, struct kva_row *row, const struct kva_published *p,
                 const char *block)
{
    struct kva_arena *a = &b->r->arena;

    row->cell[W_MODEL] = kva_val_text(kva_arena_strdup(a, p->model));
    row->cell[W_METHOD] = kva_val_text(kva_arena_strdup(a, p->printed));
    row->cell[W_METHOD].title = kva_arena_strdup(a, p->method);
    row->cell[W_KEEP] = kva_val_text(keep(a, p->budget));
    row->cell[W_CTX] = p->ctx ? kva_val_number(p->ctx) : kva_val_text("");
    row->cell[W_BLOCK] = kva_val_text(block);
    for (int i = 0; i < b->n_column; i++)
        row->cell[W_FIRST + i] = kva_val_text("");
}

static void put_published(struct build *b, struct kva_row *row,
                          const struct kva_published *p)
{
    struct kva_val *v = &row->cell[W_FIRST + column_of(b, p)];
    struct kva_arena *a = &b->r->arena;

    *v = kva_val_number(p->value);
    v->text = isnan(p->hi)
                  ? kva_arena_printf(a, "%s%s", p->text, p->erratum[0] ? "*" : "")
                  : kva_arena_printf(a, "%s to %.*f%s", p->text, p->digits, p->hi,
                                     p->erratum[0] ? "*" : "");
    b->r->nomem |= !v->text;
}

static void put_measured(struct build *b, struct kva_row *mine, struct kva_row *delta,
                         const struct kva_published *p, const struct kva_measured *x)
{
    static const char *const sign[] = {" \xe2\x9c\x93", " \xe2\x9c\x97", " \xe2\x89\xa0"};
    int at = W_FIRST + column_of(b, p);

    mine->cell[at] = kva_val_interval(x->value, x->ci);
    delta->cell[at] = kva_val_number(x->value - p->value);
    if (x->differs[0])
        delta->cell[at] = kva_val_text("\xe2\x89\xa0");
    else
        delta->cell[at].text = kva_arena_printf(&b->r->arena, "%+.*f%s", p->digits,
                                                x->value - p->value, sign[x->flag]);
    delta->cell[at].title = x->differs;
    b->r->nomem |= !delta->cell[at].text;
}

/* One row of the paper: two or three rows here. */
static bool paper_row(struct build *b, struct kva_tab *t, int first)
{
    const struct kva_published *p = &b->set->row[b->t->first + first];
    bool any = false, score = false;
    int at = t->n_row;

    for (int i = first; i < b->t->n_rows; i++)
        if (kva_published_same_row(p, &b->set->row[b->t->first + i])) {
            any |= !isnan(b->got[i].value);
            score |= b->got[i].flag != KVA_PAPER_OUTSIDE;
        }
    score &= b->any; /* of a table without any result the caption says so */
    for (int k = 0; k < (any ? 3 : score ? 2 : 1); k++)
        if (!kva_tab_row(b->r, t))
            return false;
    t->row[at].group = at > 0;
    t->row[at].role = KVA_ROW_REFERENCE;
    lead(b, &t->row[at], p, "published");
    if (score)
        lead(b, &t->row[at + 1], p, any ? "measured" : "not measured");
    if (any)
        lead(b, &t->row[at + 2], p, "difference");
    for (int i = first; i < b->t->n_rows; i++) {
        const struct kva_published *q = &b->set->row[b->t->first + i];

        if (!kva_published_same_row(p, q))
            continue;
        put_published(b, &t->row[at], q);
        if (!isnan(b->got[i].value))
            put_measured(b, &t->row[at + 1], &t->row[at + 2], q, &b->got[i]);
    }
    return true;
}

static bool seen_before(const struct build *b, int i)
{
    const struct kva_published *row = &b->set->row[b->t->first];

    for (int k = 0; k < i; k++)
        if (kva_published_same_row(&row[k], &row[i]))
            return true;
    return false;
}

/* "S-CK/1" as an id of tables and files: "paper-s-ck-1". */
static const char *tab_id(struct build *b, const char *suffix)
{
    const char *id = kva_arena_printf(&b->r->arena, "paper %s%s", b->t->id, suffix);

    return id ? kva_report_slug(&b->r->arena, id) : NULL;
}

static void notes(struct build *b, struct kva_tab *t, const struct kva_paper_result *res)
{
    int fits = kva_published_fits(b->set, b->t), off = 0;

    if (b->t->protocol[0])
        kva_tab_note(b->r, t, "published protocol: %s.", b->t->protocol);
    kva_tab_note(b->r, t,
                 "%d printed numbers: %d match, %d off, %d not comparable, %d not "
                 "measured, %d are no scores.",
                 res->n, res->n_match, res->n_off, res->n_na, res->n_missing,
                 res->n_outside);
    for (int i = 0; i < b->t->n_rows; i++)
        if (!isnan(b->got[i].value)) {
            const struct kva_protocol *p =
                &b->m.c.protocol[b->m.d->cells[b->got[i].cell].task];

            kva_tab_note(b->r, t, "prompts of what was measured: dialect %s, profile %s.",
                         p->dialect[0] ? p->dialect : "not stated",
                         p->profile[0] ? p->profile : "not stated");
            break;
        }
    for (int i = b->t->first; b->t->n && i < b->t->first + b->t->n_rows; i++)
        off += b->set->row[i].refs && !kva_published_on_grid(&b->set->row[i], b->t->n);
    if (fits)
        kva_tab_note(b->r, t, "resolution: the task values fit n = %d%s.", fits,
                     b->t->n == 0      ? ""
                     : b->t->n == fits ? ", as claimed"
                                       : ", not the claimed one");
    if (off)
        kva_tab_note(b->r, t, "%d values are off the grid of the claimed n = %d.", off,
                     b->t->n);
    for (int e = 0; e < b->set->n_erratum; e++) {
        bool used = false;

        for (int i = b->t->first; i < b->t->first + b->t->n_rows; i++)
            used |= strcmp(b->set->row[i].erratum, b->set->erratum[e].id) == 0;
        if (used)
            kva_tab_note(b->r, t, "* %s, %s: %s.", b->set->erratum[e].id,
                         b->set->erratum[e].where, b->set->erratum[e].text);
    }
    if (b->t->config[0])
        kva_tab_note(b->r, t, "suite: configs/%s.", b->t->config);
}

static bool wide_table(struct build *b, const struct kva_paper_result *res)
{
    struct kva_col *col = shape(b, true);
    struct kva_tab *t =
        col ? kva_tab_add(b->r, tab_id(b, ""), KVA_VIEW_PAPER, col, W_FIRST + b->n_column)
            : NULL;

    if (!t)
        return false;
    t->heading = t->caption = kva_arena_printf(
        &b->r->arena, "%s: %s%s", b->t->id, b->t->title, b->any ? "" : " (not measured)");
    for (int i = 0; i < b->t->n_rows; i++)
        if (!seen_before(b, i) && !paper_row(b, t, i))
            return false;
    notes(b, t, res);
    return t->caption != NULL;
}

/* ---- every number by itself ---- */

enum {
    N_MODEL,
    N_METHOD,
    N_KEEP,
    N_TASK,
    N_PUBLISHED,
    N_MEASURED,
    N_DELTA,
    N_FLAG,
    N_UNIT,
    N_WHY,
    N_NOTE,
    N_SPEC,
    N_AGG,
    N_VIS,
    N_CTX,
    N_N_PUB,
    N_N,
    N_ERROR,
    N_HI,
    N_ERRATUM,
    N_COLS
};
static const struct kva_col NUMBER[N_COLS] = {
    {"model", "model", "", KVA_COL_TEXT, 0, false, 0, false, "as the paper says"},
    {"printed", "method", "", KVA_COL_TEXT, 0, false, 0, false, "as printed"},
    {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, false, "kept, not removed"},
    {"task", "what", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"published", "published", "", KVA_COL_REAL, 2, false, 0, false, ""},
    {"measured", "measured", "", KVA_COL_REAL, 2, true, 1, false, "with 95 % interval"},
    {"delta", "difference", "", KVA_COL_REAL, 2, true, 2, false, "measured - published"},
    {"flag", "flag", "", KVA_COL_TEXT, 0, false, 3, false,
     "match: the published value lies in the measured interval, widened by its own "
     "sampling error"},
    {"unit", "unit", "", KVA_COL_TEXT, 0, false, 3, false, ""},
    {"differs", "why not", "", KVA_COL_TEXT, 0, false, 4, false,
     "fields in which the protocols differ, measured (published), or what measures it"},
    {"note", "note", "", KVA_COL_TEXT, 0, false, 5, false, ""},
    {"method", "specification", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"aggregation", "rule", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"visibility", "visibility", "", KVA_COL_TEXT, 0, false, 99, false, ""},
    {"context", "context", "", KVA_COL_INT, 0, false, 99, false, ""},
    {"n_published", "n published", "", KVA_COL_INT, 0, false, 99, false, ""},
    {"n", "n", "", KVA_COL_INT, 0, false, 99, false, ""},
    {"error", "published error", "", KVA_COL_REAL, 2, false, 99, false,
     "standard error of the printed number"},
    {"published_hi", "to", "", KVA_COL_REAL, 2, false, 99, false, "end of a range"},
    {"erratum", "erratum", "", KVA_COL_TEXT, 0, false, 99, false, ""}};

static void number_row(struct build *b, struct kva_row *row,
                       const struct kva_published *p, const struct kva_measured *x)
{
    struct kva_arena *a = &b->r->arena;
    struct kva_val *v = row->cell;
    struct kva_interval d = x->ci;
    double e = kva_published_error(b->set, p);

    v[N_MODEL] = kva_val_text(kva_arena_strdup(a, p->model));
    v[N_METHOD] = kva_val_text(kva_arena_strdup(a, p->printed));
    v[N_SPEC] = kva_val_text(kva_arena_strdup(a, p->method));
    v[N_KEEP] = kva_val_text(keep(a, p->budget));
    v[N_TASK] = kva_val_text(kva_arena_strdup(a, p->task));
    v[N_AGG] = kva_val_text(kva_arena_strdup(a, p->aggregation));
    v[N_VIS] = kva_val_text(kva_arena_strdup(a, p->visibility));
    v[N_UNIT] = kva_val_text(kva_arena_strdup(a, p->unit));
    v[N_NOTE] = kva_val_text(kva_arena_strdup(a, p->note));
    v[N_ERRATUM] = kva_val_text(kva_arena_strdup(a, p->erratum));
    v[N_PUBLISHED] = kva_val_number(p->value);
    v[N_PUBLISHED].text =
        isnan(p->hi) ? kva_arena_strdup(a, p->text)
                     : kva_arena_printf(a, "%s to %.*f", p->text, p->digits, p->hi);
    v[N_HI] = kva_val_number(p->hi);
    if (p->ctx)
        v[N_CTX] = kva_val_number(p->ctx);
    if (p->n)
        v[N_N_PUB] = kva_val_number(p->n);
    if (e > 0)
        v[N_ERROR] = kva_val_number(e);
    v[N_FLAG] = kva_val_text(FLAG[x->flag]);
    v[N_WHY] = kva_val_text(x->flag == KVA_PAPER_OUTSIDE ? elsewhere(p) : x->differs);
    if (isnan(x->value))
        return;
    v[N_MEASURED] = kva_val_interval(x->value, x->ci);
    v[N_N] = kva_val_number(x->n);
    if (x->flag == KVA_PAPER_NA && x->differs[0])
        return; /* another protocol: the difference means nothing */
    d.lo -= p->value;
    d.hi -= p->value;
    v[N_DELTA] = kva_val_interval(x->value - p->value, d);
}

static bool number_table(struct build *b, const struct kva_paper_result *res)
{
    struct kva_col *col = kva_arena_alloc(&b->r->arena, N_COLS, sizeof *col);
    struct kva_tab *t;

    if (!col)
        return false;
    memcpy(col, NUMBER, sizeof NUMBER);
    for (int i = N_MODEL; i <= N_KEEP; i++)
        col[i].keep = 99; /* names that no number has stay away */
    for (int i = b->t->first; i < b->t->first + b->t->n_rows; i++) {
        const struct kva_published *p = &b->set->row[i];

        col[N_MODEL].keep = p->model[0] ? 0 : col[N_MODEL].keep;
        col[N_METHOD].keep = p->printed[0] ? 0 : col[N_METHOD].keep;
        col[N_KEEP].keep = p->budget[0] ? 0 : col[N_KEEP].keep;
    }
    t = kva_tab_add(b->r, tab_id(b, " numbers"), KVA_VIEW_PAPER, col, N_COLS);
    if (!t)
        return false;
    t->heading = t->caption =
        b->t->wide ? kva_arena_printf(&b->r->arena, "%s, number by number", b->t->id)
                   : kva_arena_printf(&b->r->arena, "%s: %s%s", b->t->id, b->t->title,
                                      b->any ? "" : " (not measured)");
    for (int i = 0; i < b->t->n_rows; i++) {
        struct kva_row *row;

        if (b->t->wide && b->r->opts.brief && isnan(b->got[i].value))
            continue;
        row = kva_tab_row(b->r, t);
        if (!row)
            return false;
        number_row(b, row, &b->set->row[b->t->first + i], &b->got[i]);
    }
    if (!b->t->wide)
        notes(b, t, res);
    return t->caption != NULL;
}

/* ---- other models ---- */

static bool is_named(const struct build *b, const char *model)
{
    for (int i = b->t->first; i < b->t->first + b->t->n_rows; i++)
        if (kva_paper_same_model(b->set->row[i].model, model))
            return true;
    return false;
}

/* A number of the table that stands for the arm's method, of any budget. */
static const struct kva_published *like(const struct build *b,
                                        const struct kva_paper_arm *a)
{
    for (int i = b->t->first; i < b->t->first + b->t->n_rows; i++)
        if (kva_paper_same_parts(&b->m, &b->set->row[i], a))
            return &b->set->row[i];
    return NULL;
}

static enum kva_status other_row(struct build *b, struct kva_tab *t,
                                 const struct kva_paper_arm *arm, struct kva_error *err)
{
    const struct kva_published *p = like(b, arm);
    const struct kva_data_cell *c = &b->m.d->cells[arm->cell];
    const char *budget =
        strcmp(c->budget_kind, "dense") == 0
            ? "dense"
            : kva_arena_printf(&b->r->arena, "%s=%.10g", c->budget_kind, c->budget);
    struct kva_row *row = NULL;

    if (!p)
        return KVA_OK;
    if (!budget)
        return KVA_FAIL(err, KVA_ENOMEM, "paper table: out of memory");
    for (int i = 0; i < b->n_column; i++) {
        struct kva_measured x;

        if (!kva_published_measurable(b->column[i]))
            continue;
        KVA_TRY(kva_paper_value(&b->m, b->column[i], arm, &x, err));
        if (isnan(x.value))
            continue;
        if (!row) {
            row = kva_tab_row(b->r, t);
            if (!row)
                return KVA_FAIL(err, KVA_ENOMEM, "paper table: out of memory");
            lead(b, row, p, "measured");
            row->cell[W_MODEL] = kva_val_text(
                kva_report_clean(&b->r->arena, b->m.d->models[c->model].name));
            row->cell[W_METHOD] = kva_val_text(b->m.c.name[arm->cell]);
            row->cell[W_METHOD].title = kva_report_clean(&b->r->arena, c->method);
            row->cell[W_KEEP] = kva_val_text(keep(&b->r->arena, budget));
            row->cell[W_CTX] = arm->ctx ? kva_val_number(arm->ctx) : kva_val_text("");
        }
        row->cell[W_FIRST + i] = kva_val_interval(x.value, x.ci);
        if (t->n_row == 1 && t->n_note == 0) {
            struct kva_buf why;

            kva_buf_init(&why, 0);
            (void)kva_paper_differences(&b->m, p, arm, x.n, &why);
            kva_tab_note(b->r, t, "\xe2\x89\xa0 protocol, first row: %s.",
                         why.failed ? "" : why.data);
            kva_buf_release(&why);
        }
    }
    return KVA_OK;
}

static enum kva_status other_model(struct build *b, int model, struct kva_error *err)
{
    const char *name = kva_report_clean(&b->r->arena, b->m.d->models[model].name);
    struct kva_col *col = shape(b, true);
    struct kva_tab *t;

    if (!name || !col)
        return KVA_FAIL(err, KVA_ENOMEM, "paper table: out of memory");
    col[W_MODEL].keep = col[W_BLOCK].keep = 99;
    col[W_CTX].keep = 1;
    t = kva_tab_add(b->r,
                    tab_id(b, kva_arena_printf(&b->r->arena, " other %d", model + 1)),
                    KVA_VIEW_PAPER, col, W_FIRST + b->n_column);
    if (!t)
        return KVA_FAIL(err, KVA_ENOMEM, "paper table: out of memory");
    t->heading = t->caption = kva_arena_printf(
        &b->r->arena, "Another model: %s in the columns of %s, never compared", name,
        b->t->id);
    for (int i = 0; i < b->m.n_arm; i++)
        if (b->m.d->cells[b->m.arm[i].cell].model == model)
            KVA_TRY(other_row(b, t, &b->m.arm[i], err));
    for (int c = W_FIRST; c < t->n_col; c++)
        if (!kva_tab_has(t, c))
            col[c].keep = 99; /* nothing of it was measured */
    if (t->n_row == 0)
        b->r->n_tab--; /* nothing of this table was measured on it */
    return t->caption ? KVA_OK : KVA_FAIL(err, KVA_ENOMEM, "paper table: out of memory");
}

static enum kva_status all_tables(struct build *b, struct kva_paper_result *res,
                                  struct kva_error *err)
{
    bool ok = true;

    KVA_TRY(survey(b, res, err));
    if (b->t->wide)
        ok = wide_table(b, res);
    if (ok && (b->any || !b->t->wide || !b->r->opts.brief))
        ok = number_table(b, res);
    if (!ok)
        return KVA_FAIL(err, KVA_ENOMEM, "paper table: out of memory");
    for (int i = 0; b->m.d && i < b->m.d->n_models; i++)
        if (!is_named(b, b->m.d->models[i].name))
            KVA_TRY(other_model(b, i, err));
    return KVA_OK;
}

static enum kva_status unknown(const struct kva_published_set *s, const char *id,
                               struct kva_error *err)
{
    const char **words = kva_calloc((size_t)s->n_table + 1, sizeof *words);
    const char *near;
    enum kva_status rc;

    for (int i = 0; words && i < s->n_table; i++)
        words[i] = s->table[i].id;
    near = words ? kva_nearest(id, words) : NULL;
    rc = KVA_FAIL(err, KVA_EINVALID, "no published table '%s'; %s%s%s", id,
                  near ? "did you mean '" : "'kvaudit report --paper", near ? near : "",
                  near ? "'?" : "' lists them");
    free(words);
    return rc;
}

enum kva_status kva_paper_build(const struct kva_data *data,
                                const struct kva_report_opts *opts, const char *id,
                                kva_paper_canonical canonical,
                                struct kva_paper_result *result, struct kva_report **r,
                                struct kva_error *err)
{
    struct kva_published_set s;
    struct kva_paper_result res = {0};
    struct build b = {0};
    enum kva_status rc;

    *r = NULL;
    KVA_GO(kva_published_read(&s, err));
    b.set = &s;
    b.t = kva_published_find(&s, id);
    if (!b.t) {
        rc = unknown(&s, id, err);
        goto out;
    }
    KVA_GO(kva_report_start(opts, "published beside measured", r, err));
    b.r = *r;
    kva_report_time(*r, data);
    KVA_GO(kva_paper_match_init(&b.m, *r, &s, data, canonical, err));
    KVA_GO(all_tables(&b, &res, err));
    if (result)
        *result = res;
out:
    kva_paper_match_release(&b.m);
    free(b.got);
    kva_published_release(&s);
    return *r ? kva_paper_finish(r, rc, err) : rc;
}
