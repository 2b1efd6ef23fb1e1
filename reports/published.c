/* SPDX-License-Identifier: GPL-3.0-or-later */
/* published.c - reads the published numbers (published.h) and checks them strictly: RFC
 * 4180, a fixed header, every number a number.
 *
 * Resolution: with n samples and k references a sample, a task's mean lies on the grid
 * 1/(n k), so printed means tell n (reports.md 2.1). */
#include "reports/internal.h"
#include "reports/published.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

__asm__(".section .rodata\n"
        ".global kva_published_csv, kva_published_tables_csv, kva_published_errata_csv\n"
        "kva_published_csv:\n"
        ".incbin \"configs/published.csv\"\n"
        ".byte 0\n"
        "kva_published_tables_csv:\n"
        ".incbin \"configs/published-tables.csv\"\n"
        ".byte 0\n"
        "kva_published_errata_csv:\n"
        ".incbin \"configs/published-errata.csv\"\n"
        ".byte 0\n"
        ".previous\n");

enum { MAX_FIELDS = 20, MAX_REFS = 1000, MAX_SAMPLES = 1000000 };

/* ---- RFC 4180 ---- */

struct reader {
    const char *file, *at;
    int line; /* of the record in hand */
    int next; /* of what follows */
    int n;    /* fields wanted */
    struct kva_arena *arena;
    const char *field[MAX_FIELDS];
};

static enum kva_status quoted(struct reader *r, struct kva_buf *out,
                              struct kva_error *err)
{
    for (r->at++;; r->at++) {
        if (*r->at == 0)
            return KVA_FAIL(err, KVA_EFORMAT, "%s:%d: a quoted field has no end", r->file,
                            r->line);
        if (*r->at == '"' && *++r->at != '"')
            break;
        r->next += *r->at == '\n';
        kva_buf_putc(out, *r->at);
    }
    if (*r->at && *r->at != ',' && *r->at != '\n')
        return KVA_FAIL(err, KVA_EFORMAT, "%s:%d: text after a closing quote", r->file,
                        r->line);
    return KVA_OK;
}

static enum kva_status field_of(struct reader *r, struct kva_buf *out,
                                struct kva_error *err)
{
    size_t n;

    out->len = 0;
    kva_buf_puts(out, "");
    if (*r->at == '"')
        return quoted(r, out, err);
    n = strcspn(r->at, ",\"\n\r");
    if (r->at[n] == '"' || r->at[n] == '\r')
        return KVA_FAIL(err, KVA_EFORMAT, "%s:%d: %s in a field without quotes", r->file,
                        r->line, r->at[n] == '"' ? "a quote" : "a carriage return");
    kva_buf_add(out, r->at, n);
    r->at += n;
    return KVA_OK;
}

/* The next record into r->field; *more false at the end. */
static enum kva_status record(struct reader *r, bool *more, struct kva_error *err)
{
    struct kva_buf b;
    enum kva_status rc = KVA_OK;

    *more = *r->at != 0;
    if (!*more)
        return KVA_OK;
    kva_buf_init(&b, 1u << 20);
    r->line = r->next;
    for (int i = 0;; i++) {
        KVA_GO(field_of(r, &b, err));
        KVA_GO(kva_buf_status(&b, err));
        r->field[i] = kva_arena_strdup(r->arena, b.data ? b.data : "");
        if (!r->field[i]) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "%s: out of memory", r->file);
            goto out;
        }
        if (i + 1 == r->n)
            break;
        if (*r->at != ',') {
            rc = KVA_FAIL(err, KVA_EFORMAT, "%s:%d: %d fields, not %d", r->file, r->line,
                          i + 1, r->n);
            goto out;
        }
        r->at++;
    }
    if (*r->at && *r->at != '\n') {
        rc = KVA_FAIL(err, KVA_EFORMAT, "%s:%d: more than %d fields", r->file, r->line,
                      r->n);
        goto out;
    }
    r->next += *r->at == '\n';
    r->at += *r->at == '\n';
out:
    kva_buf_release(&b);
    return rc;
}

static enum kva_status begin(struct reader *r, const char *file, const char *text,
                             const char *header, struct kva_arena *a,
                             struct kva_error *err)
{
    size_t n = strlen(header);

    *r = (struct reader){.file = file, .at = text, .next = 1, .n = 1, .arena = a};
    for (const char *p = header; *p; p++)
        r->n += *p == ',';
    if (strncmp(text, header, n) != 0 || text[n] != '\n')
        return KVA_FAIL(err, KVA_EFORMAT, "%s:1: the header is not \"%s\"", file, header);
    r->at += n + 1;
    r->next = 2;
    return KVA_OK;
}

static int lines_of(const char *text)
{
    int n = 1;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* ---- one number ---- */

static const char *const AGGREGATIONS[] = {
    "task", "domain",   "ruler13",  "avg16", "avg6",  "loss",  "retention", /* measured */
    "time", "memory",   "speedup",  "bound", "share", "tally", "claim",
    "card", "analysis", "loss_sum", NULL};
enum { N_MEASURABLE = 7 };

static int aggregation_of(const char *s)
{
    int i = 0;

    while (AGGREGATIONS[i] && strcmp(AGGREGATIONS[i], s) != 0)
        i++;
    return AGGREGATIONS[i] ? i : -1;
}

bool kva_published_measurable(const struct kva_published *p)
{
    int i = aggregation_of(p->aggregation);

    return i >= 0 && i < N_MEASURABLE;
}

const char *kva_published_task(const struct kva_published *p)
{
    const char *slash = strchr(p->task, '/');

    return slash ? slash + 1 : p->task;
}

static bool count(const char *s, int max, int *out)
{
    int64_t v = 0;

    if (*s && (!kva_parse_i64(s, &v) || v < 1 || v > max))
        return false;
    *out = (int)v;
    return true;
}

static bool good_budget(const char *s)
{
    double v;

    if (!*s || strcmp(s, "dense") == 0)
        return true;
    if (strncmp(s, "keep=", 5) == 0 || strncmp(s, "share=", 6) == 0)
        return kva_parse_f64(strchr(s, '=') + 1, &v) && v > 0 && v < 1;
    return strncmp(s, "tokens=", 7) == 0 && kva_parse_f64(s + 7, &v) && v >= 1 &&
           v == floor(v);
}

static bool good_visibility(const char *s)
{
    return !*s || strcmp(s, "agnostic") == 0 || strcmp(s, "aware") == 0 ||
           strcmp(s, "full") == 0;
}

#define NUMBERS                                                                          \
    "source,table,model,method,printed,budget,visibility,ctx,task,aggregation,value,hi," \
    "unit,n,refs,erratum,note"

static enum kva_status number_of(const struct reader *r, struct kva_published *p,
                                 struct kva_error *err)
{
    const char *const *f = r->field;
    const char *dot, *bad = NULL;

    *p = (struct kva_published){.source = f[0],
                                .table = f[1],
                                .model = f[2],
                                .method = f[3],
                                .printed = f[4],
                                .budget = f[5],
                                .visibility = f[6],
                                .task = f[8],
                                .aggregation = f[9],
                                .text = f[10],
                                .unit = f[12],
                                .erratum = f[15],
                                .note = f[16],
                                .hi = (double)NAN};
    if (!kva_parse_f64(p->text, &p->value))
        bad = "value";
    else if (f[11][0] && (!kva_parse_f64(f[11], &p->hi) || p->hi < p->value))
        bad = "hi";
    else if (!count(f[7], 1 << 24, &p->ctx))
        bad = "ctx";
    else if (!count(f[13], MAX_SAMPLES, &p->n))
        bad = "n";
    else if (!count(f[14], MAX_REFS, &p->refs))
        bad = "refs";
    else if (!good_budget(p->budget))
        bad = "budget";
    else if (!good_visibility(p->visibility))
        bad = "visibility";
    else if (aggregation_of(p->aggregation) < 0)
        bad = "aggregation";
    else if (!strchr(p->task, '/'))
        bad = "task";
    if (bad)
        return KVA_FAIL(err, KVA_EFORMAT, "%s:%d: bad %s", r->file, r->line, bad);
    dot = strchr(p->text, '.');
    p->digits = dot ? (int)strspn(dot + 1, "0123456789") : 0;
    return KVA_OK;
}

/* Lines of one table stand together and every table and erratum is known. */
static enum kva_status number_belongs(struct kva_published_set *s, const struct reader *r,
                                      int i, struct kva_error *err)
{
    const struct kva_published *p = &s->row[i];
    struct kva_published_table *t = NULL;

    for (int k = 0; k < s->n_table && !t; k++)
        if (strcmp(s->table[k].source, p->source) == 0 &&
            strcmp(s->table[k].table, p->table) == 0)
            t = &s->table[k];
    if (!t)
        return KVA_FAIL(err, KVA_EFORMAT, "%s:%d: no table %s/%s", r->file, r->line,
                        p->source, p->table);
    if (t->n_rows && t->first + t->n_rows != i)
        return KVA_FAIL(err, KVA_EFORMAT, "%s:%d: the lines of %s are not together",
                        r->file, r->line, t->id);
    if (!t->n_rows)
        t->first = i;
    t->n_rows++;
    if (p->erratum[0] && !kva_erratum_find(s, p->erratum))
        return KVA_FAIL(err, KVA_EFORMAT, "%s:%d: no erratum %s", r->file, r->line,
                        p->erratum);
    return KVA_OK;
}

/* ---- the files ---- */

static enum kva_status read_tables(struct kva_published_set *s, const char *text,
                                   struct kva_error *err)
{
    struct reader r;
    bool more;

    KVA_TRY(begin(&r, "published-tables.csv", text,
                  "source,table,title,n,shape,config,protocol", &s->arena, err));
    for (;;) {
        KVA_TRY(record(&r, &more, err));
        if (!more)
            return KVA_OK;
        struct kva_published_table *t = &s->table[s->n_table++];

        *t = (struct kva_published_table){.source = r.field[0],
                                          .table = r.field[1],
                                          .title = r.field[2],
                                          .wide = strcmp(r.field[4], "wide") == 0,
                                          .config = r.field[5],
                                          .protocol = r.field[6]};
        t->id = kva_arena_printf(&s->arena, "%s/%s", t->source, t->table);
        if (!t->id)
            return KVA_FAIL(err, KVA_ENOMEM, "published tables: out of memory");
        if (!count(r.field[3], MAX_SAMPLES, &t->n) ||
            (!t->wide && strcmp(r.field[4], "long") != 0))
            return KVA_FAIL(err, KVA_EFORMAT, "%s:%d: bad %s", r.file, r.line,
                            t->wide ? "n" : "shape");
    }
}

static enum kva_status read_errata(struct kva_published_set *s, const char *text,
                                   struct kva_error *err)
{
    struct reader r;
    bool more;

    KVA_TRY(
        begin(&r, "published-errata.csv", text, "id,source,where,text", &s->arena, err));
    for (;;) {
        KVA_TRY(record(&r, &more, err));
        if (!more)
            return KVA_OK;
        s->erratum[s->n_erratum++] =
            (struct kva_erratum){r.field[0], r.field[1], r.field[2], r.field[3]};
    }
}

static enum kva_status read_numbers(struct kva_published_set *s, const char *text,
                                    struct kva_error *err)
{
    struct reader r;
    bool more;

    KVA_TRY(begin(&r, "published.csv", text, NUMBERS, &s->arena, err));
    for (;;) {
        KVA_TRY(record(&r, &more, err));
        if (!more)
            return KVA_OK;
        KVA_TRY(number_of(&r, &s->row[s->n_row], err));
        KVA_TRY(number_belongs(s, &r, s->n_row, err));
        s->n_row++;
    }
}

enum kva_status kva_published_parse(const char *numbers, const char *tables,
                                    const char *errata, struct kva_published_set *s,
                                    struct kva_error *err)
{
    memset(s, 0, sizeof *s);
    kva_arena_init(&s->arena);
    s->row = kva_arena_alloc(&s->arena, (size_t)lines_of(numbers), sizeof *s->row);
    s->table = kva_arena_alloc(&s->arena, (size_t)lines_of(tables), sizeof *s->table);
    s->erratum = kva_arena_alloc(&s->arena, (size_t)lines_of(errata), sizeof *s->erratum);
    if (!s->row || !s->table || !s->erratum)
        return KVA_FAIL(err, KVA_ENOMEM, "published numbers: out of memory");
    KVA_TRY(read_tables(s, tables, err));
    KVA_TRY(read_errata(s, errata, err));
    KVA_TRY(read_numbers(s, numbers, err));
    for (int i = 0; i < s->n_table; i++)
        if (!s->table[i].n_rows)
            return KVA_FAIL(err, KVA_EFORMAT, "published-tables.csv: %s has no number",
                            s->table[i].id);
    return KVA_OK;
}

enum kva_status kva_published_read(struct kva_published_set *s, struct kva_error *err)
{
    return kva_published_parse(kva_published_csv, kva_published_tables_csv,
                               kva_published_errata_csv, s, err);
}

void kva_published_release(struct kva_published_set *s)
{
    kva_arena_release(&s->arena);
    memset(s, 0, sizeof *s);
}

const struct kva_published_table *kva_published_find(const struct kva_published_set *s,
                                                     const char *id)
{
    for (int i = 0; i < s->n_table; i++)
        if (strcasecmp(s->table[i].id, id) == 0)
            return &s->table[i];
    return NULL;
}

const struct kva_erratum *kva_erratum_find(const struct kva_published_set *s,
                                           const char *id)
{
    for (int i = 0; i < s->n_erratum; i++)
        if (strcmp(s->erratum[i].id, id) == 0)
            return &s->erratum[i];
    return NULL;
}

/* ---- resolution and sampling error ---- */

bool kva_published_on_grid(const struct kva_published *p, int n)
{
    double grid = 100.0 / ((double)n * (p->refs ? p->refs : 1));
    double off = fabs(p->value - grid * rint(p->value / grid));

    return off <= 0.5 * pow(10, -p->digits) + 1e-9;
}

int kva_published_fits(const struct kva_published_set *s,
                       const struct kva_published_table *t)
{
    bool any = false;

    for (int n = 1; n <= 1000; n++) {
        bool all = true;

        for (int i = t->first; i < t->first + t->n_rows && all; i++)
            if (s->row[i].refs && strcmp(s->row[i].aggregation, "task") == 0) {
                any = true;
                all = kva_published_on_grid(&s->row[i], n);
            }
        if (!any)
            return 0;
        if (all)
            return n;
    }
    return 0;
}

bool kva_published_same_row(const struct kva_published *a, const struct kva_published *b)
{
    return a->ctx == b->ctx && strcmp(a->model, b->model) == 0 &&
           strcmp(a->method, b->method) == 0 && strcmp(a->printed, b->printed) == 0 &&
           strcmp(a->budget, b->budget) == 0 && strcmp(a->visibility, b->visibility) == 0;
}

/* The number's row printed task `name` of `suite`, or the domain that holds it. */
static double printed_share(const struct kva_published_set *s,
                            const struct kva_published *p, const struct kva_group *g,
                            int i)
{
    for (int k = 0; k < s->n_row; k++) {
        const struct kva_published *q = &s->row[k];

        if (strcmp(q->source, p->source) == 0 && strcmp(q->table, p->table) == 0 &&
            kva_published_same_row(q, p) &&
            ((strcmp(q->aggregation, "task") == 0 &&
              strcmp(kva_published_task(q), g->task[i]) == 0) ||
             (strcmp(q->aggregation, "domain") == 0 &&
              kva_group_in_domain(kva_published_task(q), g->task[i]))))
            return q->value / 100;
    }
    return p->value / 100;
}

double kva_published_error(const struct kva_published_set *s,
                           const struct kva_published *p)
{
    const struct kva_group *g;
    double sum = 0;
    int n_task = 0;

    if (!kva_published_measurable(p) || strcmp(p->unit, "points") != 0 || p->value < 0 ||
        p->value > 100)
        return 0;
    if (strcmp(p->aggregation, "task") == 0) {
        double x = p->value / 100;

        return p->n ? 100 * sqrt(x * (1 - x) / p->n) : 0;
    }
    g = kva_group_find(strncmp(p->task, "ruler/", 6) == 0 ? "ruler13" : "avg16");
    for (int i = 0; i < g->n; i++) {
        int n = p->n ? p->n : kva_group_samples(g, i);
        double x;

        if (strcmp(p->aggregation, "domain") == 0 &&
            !kva_group_in_domain(kva_published_task(p), g->task[i]))
            continue;
        if (!n)
            return 0;
        x = printed_share(s, p, g, i);
        sum += x * (1 - x) / n;
        n_task++;
    }
    return n_task ? 100 * sqrt(sum) / n_task : 0;
}
