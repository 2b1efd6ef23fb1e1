/* SPDX-License-Identifier: GPL-3.0-or-later */
/* duel_pair.c - which cell meets which (reports.md 4.5, style.md 12).
 *
 * Identities are compared as numbers: every cell gets one for its columns that are not
 * free, one for those a reference is found by, and one for the line of budgets it belongs
 * to. A pair is formed when each is among the other's best candidates, so that exchanging
 * A and B gives the same pairs. */
#include "reports/duel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAME_BYTES 0.98 /* reports.md 4.5 */
#define HELD_ALL   0.98 /* 5.2 */
#define REF_FREE                                                                         \
    (KVA_COMPARE_BUDGET | KVA_COMPARE_ENFORCE | KVA_COMPARE_SCHEDULE |                   \
     KVA_COMPARE_VISIBILITY)

static bool is_reference(const struct kva_data_cell *c)
{
    return strcmp(c->method, "dense") == 0 || strcmp(c->method, "blind") == 0;
}

/* ---- cost ---- */

double kva_cell_cost(const struct kva_data *d, const struct kva_cells *c, int cell)
{
    const struct kva_data_cell *x = &d->cells[cell];
    double alloc = 0, dense = 0;
    int n = 0, masked = 0;

    for (int o = c->first_outcome[cell]; o < c->first_outcome[cell + 1]; o++) {
        const struct kva_data_outcome *out = &d->outcomes[o];

        if (strcmp(out->status, "ok") != 0 || !out->has_memory)
            continue;
        n++;
        alloc += (double)out->memory.kv_alloc_bytes;
        dense += (double)out->memory.kv_dense_bytes;
        masked += out->memory.entries_masked > 0 &&
                  (double)out->memory.kv_alloc_bytes >=
                      HELD_ALL * (double)out->memory.kv_dense_bytes;
    }
    if (n == 0)
        return (double)NAN;
    return is_reference(x) || masked ? dense / n : alloc / n;
}

/* ---- identities ---- */

static const unsigned KEYS[] = {KVA_COMPARE_MODEL,      KVA_COMPARE_METHOD,
                                KVA_COMPARE_TASK,       KVA_COMPARE_BUDGET,
                                KVA_COMPARE_ENFORCE,    KVA_COMPARE_SCHEDULE,
                                KVA_COMPARE_VISIBILITY, KVA_COMPARE_NUMERICS,
                                KVA_COMPARE_KV,         KVA_COMPARE_SAMPLING};
enum { N_KEYS = sizeof KEYS / sizeof KEYS[0] };

static void put_key(const struct kva_data *d, int cell, unsigned key, struct kva_buf *out)
{
    const struct kva_data_cell *x = &d->cells[cell];

    switch (key) {
    case KVA_COMPARE_MODEL:
        kva_buf_add(out, d->models[x->model].digest, 32);
        break;
    case KVA_COMPARE_METHOD:
        kva_buf_puts(out, x->method);
        break;
    case KVA_COMPARE_TASK:
        kva_buf_add(out, d->tasks[x->task].digest, 32);
        break;
    case KVA_COMPARE_BUDGET:
        kva_buf_printf(out, "%s %.17g", x->budget_kind, x->budget);
        break;
    case KVA_COMPARE_ENFORCE:
        kva_buf_puts(out, x->enforce);
        break;
    case KVA_COMPARE_SCHEDULE:
        kva_buf_puts(out, x->schedule);
        break;
    case KVA_COMPARE_VISIBILITY:
        kva_buf_puts(out, x->visibility);
        break;
    case KVA_COMPARE_NUMERICS:
        kva_buf_puts(out, x->numerics);
        break;
    case KVA_COMPARE_KV:
        kva_buf_puts(out, x->kv);
        break;
    default:
        kva_buf_puts(out, kva_data_sampling(x));
    }
    kva_buf_putc(out, '\x1f');
}

struct names { /* texts as numbers */
    struct kva_map map;
    struct kva_buf buf;
    int n;
};

static enum kva_status number(struct names *t, int *out, struct kva_error *err)
{
    int64_t at;

    KVA_TRY(kva_buf_status(&t->buf, err));
    if (!kva_map_get(&t->map, t->buf.data, t->buf.len, &at)) {
        at = t->n++;
        KVA_TRY(kva_map_put(&t->map, t->buf.data, t->buf.len, at, NULL, err));
    }
    *out = (int)at;
    return KVA_OK;
}

/* The number of the cell's columns but those of `skip`. */
static enum kva_status identity(struct names *t, const struct kva_data *d,
                                const struct kva_cells *c, int cell, unsigned skip,
                                int *out, struct kva_error *err)
{
    t->buf.len = 0;
    kva_buf_printf(&t->buf, "%u ", skip);
    for (int k = 0; k < N_KEYS; k++)
        if (!(skip & KEYS[k]))
            put_key(d, cell, KEYS[k], &t->buf);
    kva_buf_puts(&t->buf, c->rest[cell]);
    return number(t, out, err);
}

struct side {
    const int *cell;
    int n;
    bool *ref;
    int *id;    /* columns that must agree */
    int *found; /* those by which a reference is found */
    int *line;  /* all but the budget: a method as a line of budgets */
    int (*key)[N_KEYS];
    double *cost;
};

static void side_release(struct side *s)
{
    free(s->ref);
    free(s->id);
    free(s->found);
    free(s->line);
    free(s->key);
    free(s->cost);
}

static enum kva_status side_make(struct names *t, const struct kva_data *d,
                                 const struct kva_cells *c, const int *cell, int n,
                                 unsigned skip, struct side *s, struct kva_error *err)
{
    size_t m = (size_t)n + 1;

    *s = (struct side){.cell = cell, .n = n};
    s->ref = kva_calloc(m, sizeof *s->ref);
    s->id = kva_calloc(m, sizeof *s->id);
    s->found = kva_calloc(m, sizeof *s->found);
    s->line = kva_calloc(m, sizeof *s->line);
    s->key = kva_calloc(m, sizeof *s->key);
    s->cost = kva_calloc(m, sizeof *s->cost);
    if (!s->ref || !s->id || !s->found || !s->line || !s->key || !s->cost)
        return KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
    for (int i = 0; i < n; i++) {
        s->ref[i] = is_reference(&d->cells[cell[i]]);
        s->cost[i] = kva_cell_cost(d, c, cell[i]);
        KVA_TRY(identity(t, d, c, cell[i], skip, &s->id[i], err));
        KVA_TRY(identity(t, d, c, cell[i], skip | REF_FREE, &s->found[i], err));
        KVA_TRY(identity(t, d, c, cell[i], KVA_COMPARE_BUDGET, &s->line[i], err));
        for (int k = 0; k < N_KEYS; k++) {
            t->buf.len = 0;
            put_key(d, cell[i], KEYS[k], &t->buf);
            KVA_TRY(number(t, &s->key[i][k], err));
        }
    }
    return KVA_OK;
}

/* ---- candidates ---- */

static bool may_meet(const struct side *a, int i, const struct side *b, int j)
{
    if (a->cell[i] == b->cell[j])
        return false;
    return a->ref[i] || b->ref[j] ? a->found[i] == b->found[j] : a->id[i] == b->id[j];
}

/* Of the candidates of x[i] those that agree in a free key, where any does; key after
 * key. A reference takes all. */
static void prefer(const struct side *x, int i, const struct side *y, unsigned free_keys,
                   bool *row)
{
    if (x->ref[i])
        return;
    for (int k = 0; k < N_KEYS; k++) {
        bool any = false;

        if (!(free_keys & KEYS[k]))
            continue;
        for (int j = 0; j < y->n; j++)
            any |= row[j] && x->key[i][k] == y->key[j][k];
        for (int j = 0; j < y->n && any; j++)
            row[j] &= x->key[i][k] == y->key[j][k];
    }
}

static void row_of(const struct side *x, int i, const struct side *y, unsigned free_keys,
                   bool *row)
{
    for (int j = 0; j < y->n; j++)
        row[j] = may_meet(x, i, y, j);
    prefer(x, i, y, free_keys, row);
}

static enum kva_status several(const struct kva_data *d, const struct kva_cells *c,
                               int cell, int one, int other, struct kva_error *err)
{
    static const char *const name[] = {"model",   "method",   "task",       "budget",
                                       "enforce", "schedule", "visibility", "numerics",
                                       "kv",      "sampling"};
    const struct kva_data_cell *x = &d->cells[one], *y = &d->cells[other];
    bool differs[N_KEYS] = {x->model != y->model,
                            strcmp(x->method, y->method) != 0,
                            x->task != y->task,
                            x->budget != y->budget ||
                                strcmp(x->budget_kind, y->budget_kind) != 0,
                            strcmp(x->enforce, y->enforce) != 0,
                            strcmp(x->schedule, y->schedule) != 0,
                            strcmp(x->visibility, y->visibility) != 0,
                            strcmp(x->numerics, y->numerics) != 0,
                            strcmp(x->kv, y->kv) != 0,
                            strcmp(kva_data_sampling(x), kva_data_sampling(y)) != 0};
    int k = 0;

    while (k < N_KEYS && !differs[k])
        k++;
    return KVA_FAIL(err, KVA_EINVALID,
                    "%s on %s has several partners, %s and %s: name %s so that one is "
                    "left",
                    c->name[cell], c->label[d->cells[cell].task], c->name[one],
                    c->name[other], k < N_KEYS ? name[k] : "one database");
}

/* ---- pairing ---- */

struct pairing {
    const struct kva_data *d;
    const struct kva_cells *c;
    struct side a, b;
    bool *meets; /* [a][b] */
    struct kva_duels *out;
    int cap;
};

static enum kva_status add(struct pairing *p, int i, int j, struct kva_error *err)
{
    struct kva_duels *u = p->out;

    if (u->n == p->cap) {
        int cap = p->cap ? 2 * p->cap : 64;
        struct kva_duel *grown = kva_realloc(u->v, (size_t)cap, sizeof *grown);

        if (!grown)
            return KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
        u->v = grown;
        p->cap = cap;
    }
    u->v[u->n++] = (struct kva_duel){.a = p->a.cell[i],
                                     .b = j < 0 ? -1 : p->b.cell[j],
                                     .bytes_a = p->a.cost[i],
                                     .bytes_b = j < 0 ? (double)NAN : p->b.cost[j]};
    return KVA_OK;
}

/* Pairs whose cells are each other's best candidates. */
static enum kva_status nominal(struct pairing *p, unsigned free_keys,
                               struct kva_error *err)
{
    size_t nb = (size_t)p->b.n;
    bool *row = kva_calloc((size_t)p->a.n + nb + 1, sizeof *row);
    enum kva_status rc = KVA_OK;

    if (!row)
        return KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
    for (int i = 0; i < p->a.n; i++)
        row_of(&p->a, i, &p->b, free_keys, p->meets + (size_t)i * nb);
    for (int j = 0; j < p->b.n; j++) {
        int last = -1;

        row_of(&p->b, j, &p->a, free_keys, row);
        for (int i = 0; i < p->a.n; i++) {
            bool *both = &p->meets[(size_t)i * nb + (size_t)j];

            *both &= row[i];
            if (*both && last >= 0 && !p->b.ref[j]) {
                rc =
                    several(p->d, p->c, p->b.cell[j], p->a.cell[last], p->a.cell[i], err);
                goto out;
            }
            last = *both ? i : last;
        }
    }
    for (int i = 0; i < p->a.n; i++) {
        int last = -1;

        for (int j = 0; j < p->b.n; j++) {
            if (!p->meets[(size_t)i * nb + (size_t)j])
                continue;
            if (last >= 0 && !p->a.ref[i]) {
                rc =
                    several(p->d, p->c, p->a.cell[i], p->b.cell[last], p->b.cell[j], err);
                goto out;
            }
            last = j;
            KVA_GO(add(p, i, j, err));
        }
    }
out:
    free(row);
    return rc;
}

/* Each cell of A meets the largest of B's that is not above it. */
static enum kva_status by_bytes(struct pairing *p, unsigned free_keys,
                                struct kva_error *err)
{
    for (int i = 0; i < p->a.n; i++) {
        bool *row = p->meets + (size_t)i * (size_t)p->b.n;
        int best = -1, first = -1;

        row_of(&p->a, i, &p->b, free_keys & ~(unsigned)KVA_COMPARE_BUDGET, row);
        for (int j = 0; j < p->b.n; j++) {
            if (!row[j])
                continue;
            if (first >= 0 && p->b.line[first] != p->b.line[j])
                return several(p->d, p->c, p->a.cell[i], p->b.cell[first], p->b.cell[j],
                               err);
            first = first < 0 ? j : first;
            if (p->b.cost[j] <= p->a.cost[i] &&
                (best < 0 || p->b.cost[j] > p->b.cost[best]))
                best = j;
        }
        if (first < 0)
            continue;
        if (best >= 0 && p->b.cost[best] < SAME_BYTES * p->a.cost[i])
            best = -1;
        /* the row now says whom the cell was measured against, for the lone ones */
        KVA_TRY(add(p, i, best, err));
    }
    return KVA_OK;
}

static enum kva_status lone_cells(struct pairing *p, struct kva_error *err)
{
    size_t nb = (size_t)p->b.n;
    struct kva_duels *u = p->out;

    for (int s = 0; s < 2; s++) {
        const struct side *x = s ? &p->b : &p->a;

        u->lone[s] = kva_calloc((size_t)x->n + 1, sizeof *u->lone[s]);
        if (!u->lone[s])
            return KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
        for (int k = 0; k < x->n; k++) {
            bool met = false;

            for (int m = 0; m < (s ? p->a.n : p->b.n) && !met; m++)
                met = p->meets[s ? (size_t)m * nb + (size_t)k : (size_t)k * nb + m];
            if (!met)
                u->lone[s][u->n_lone[s]++] = x->cell[k];
        }
    }
    return KVA_OK;
}

enum kva_status kva_duels_pair(const struct kva_data *d, const struct kva_cells *c,
                               const int *a, int na, const int *b, int nb,
                               unsigned free_keys, bool bytes, struct kva_duels *out,
                               struct kva_error *err)
{
    struct pairing p = {.d = d, .c = c, .out = out};
    unsigned skip = free_keys | (bytes ? KVA_COMPARE_BUDGET : 0u);
    struct names t = {.n = 0};
    enum kva_status rc;

    memset(out, 0, sizeof *out);
    kva_map_init(&t.map);
    kva_buf_init(&t.buf, 0);
    KVA_GO(side_make(&t, d, c, a, na, skip, &p.a, err));
    KVA_GO(side_make(&t, d, c, b, nb, skip, &p.b, err));
    p.meets = kva_calloc((size_t)na * (size_t)nb + 1, sizeof *p.meets);
    if (!p.meets) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "compare: %d x %d cells: out of memory", na, nb);
        goto out;
    }
    KVA_GO(bytes ? by_bytes(&p, free_keys, err) : nominal(&p, free_keys, err));
    KVA_GO(lone_cells(&p, err));
out:
    free(p.meets);
    side_release(&p.a);
    side_release(&p.b);
    kva_map_release(&t.map);
    kva_buf_release(&t.buf);
    return rc;
}

void kva_duels_release(struct kva_duels *u)
{
    free(u->v);
    free(u->lone[0]);
    free(u->lone[1]);
    memset(u, 0, sizeof *u);
}
