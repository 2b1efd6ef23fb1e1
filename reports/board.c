/* SPDX-License-Identifier: GPL-3.0-or-later */
/* board.c - which cells stand in one table (reports.md 6.2, rulings R10, R13, R24).
 *
 * A row ("arm") is a method at a budget: all cells that share model, context length,
 * visibility, schedule, numerics, KV type, enforcement, the protocol of its tasks
 * (dialect and profile) and the rest of the identity. Arms with the same set of tasks
 * share a board; its score is the unweighted mean of the task means. Physical, mask and
 * oracle cells never share one. Each task also gets a board of its own. Dense and blind
 * are references of every board, found by dense_key.
 *
 * A task whose dense score does not clear its guess floor (lower Wilson bound <= the
 * larger of the stored floor and the blind score) says nothing about eviction: it stays
 * out of means and ranks, and is named. A task above its floor on which the full cache
 * answers under 60 of 100 right is weak: it is ranked in its own table and stays out of
 * the mean, unless nothing else is there. */
#include "reports/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const kva_unranked_text[KVA_UNRANKED_N] = {
    "",
    "the dense run is missing",
    "audit failed",
    "most prompts did not fit",
    "below the guess floor",
    "no finished outcome",
    "not comparable (samples differ)",
};

/* Growing arrays while the number is not known; copied into the arena at the end. */
struct draft_arm {
    int key_cell; /* a cell whose columns are the arm's */
    int *task, *cell, n, cap;
};
struct draft {
    struct kva_report *r;
    const struct kva_data *d;
    const struct kva_cells *c;
    struct draft_arm *arm;
    int n_arm, cap_arm;
    struct kva_board *board;
    int n_board, cap_board;
    struct kva_error *err;
};

static enum kva_status no_memory(struct kva_error *err)
{
    return KVA_FAIL(err, KVA_ENOMEM, "report: out of memory");
}

static bool is_named(const struct kva_data_cell *c, const char *name)
{
    return strcmp(c->method, name) == 0;
}

static bool is_reference(const struct kva_data_cell *c)
{
    return is_named(c, "dense") || is_named(c, "blind");
}

/* What all cells of a board share but the tasks. */
static void base_key(const struct draft *x, int cell, struct kva_buf *key)
{
    const struct kva_data_cell *c = &x->d->cells[cell];

    kva_buf_printf(key, "%d\x1f%d\x1f%s\x1f%s\x1f%s\x1f%s\x1f%s\x1f%s\x1f%s\x1f%d\x1f",
                   c->model, x->d->tasks[c->task].ctx, x->c->protocol[c->task].mark,
                   x->c->variant[cell], c->numerics, c->kv, c->visibility, c->schedule,
                   c->enforce, c->oracle);
}

static enum kva_status arm_push(struct draft_arm *a, int task, int cell,
                                struct kva_error *err)
{
    if (a->n == a->cap) {
        int cap = a->cap ? 2 * a->cap : 8;
        int *t = kva_realloc(a->task, (size_t)cap, sizeof *t);
        int *c;

        if (!t)
            return no_memory(err);
        a->task = t;
        c = kva_realloc(a->cell, (size_t)cap, sizeof *c);
        if (!c)
            return no_memory(err);
        a->cell = c;
        a->cap = cap;
    }
    a->task[a->n] = task;
    a->cell[a->n++] = cell;
    return KVA_OK;
}

static enum kva_status draft_arms(struct draft *x)
{
    struct kva_map of;
    struct kva_buf key;
    enum kva_status rc = KVA_OK;

    kva_map_init(&of);
    kva_buf_init(&key, 0);
    for (int i = 0; i < x->d->n_cells; i++) {
        const struct kva_data_cell *c = &x->d->cells[i];
        int64_t at;

        if (x->c->left_out[i] || is_reference(c))
            continue;
        key.len = 0;
        base_key(x, i, &key);
        kva_buf_printf(&key, "%s\x1f%s\x1f%.17g", c->method, c->budget_kind, c->budget);
        KVA_GO(kva_buf_status(&key, x->err));
        /* cells are sorted by task: a second cell of the same task is the last one's twin
         */
        while (kva_map_get(&of, key.data, key.len, &at) &&
               x->arm[at].task[x->arm[at].n - 1] == c->task) {
            kva_buf_puts(&key, "\x1f+");
            KVA_GO(kva_buf_status(&key, x->err));
        }
        if (!kva_map_get(&of, key.data, key.len, &at)) {
            if (x->n_arm == x->cap_arm) {
                int cap = x->cap_arm ? 2 * x->cap_arm : 64;
                struct draft_arm *grown = kva_realloc(x->arm, (size_t)cap, sizeof *grown);

                if (!grown) {
                    rc = no_memory(x->err);
                    goto out;
                }
                x->arm = grown;
                x->cap_arm = cap;
            }
            at = x->n_arm;
            x->arm[x->n_arm++] = (struct draft_arm){.key_cell = i};
            KVA_GO(kva_map_put(&of, key.data, key.len, at, NULL, x->err));
        }
        KVA_GO(arm_push(&x->arm[at], c->task, i, x->err));
    }
out:
    kva_map_release(&of);
    kva_buf_release(&key);
    return rc;
}

/* ---- boards ---- */

static struct kva_board *board_add(struct draft *x, int key_cell, const int *task, int n)
{
    const struct kva_data_cell *c = &x->d->cells[key_cell];
    struct kva_arena *a = &x->r->arena;
    struct kva_board *b;
    size_t m = (size_t)n;

    if (x->n_board == x->cap_board) {
        int cap = x->cap_board ? 2 * x->cap_board : 16;
        struct kva_board *grown = kva_realloc(x->board, (size_t)cap, sizeof *grown);

        if (!grown)
            return NULL;
        x->board = grown;
        x->cap_board = cap;
    }
    b = &x->board[x->n_board];
    memset(b, 0, sizeof *b);
    b->model = kva_report_clean(a, x->d->models[c->model].name);
    b->visibility = kva_report_clean(a, c->visibility);
    b->schedule = kva_report_clean(a, c->schedule);
    b->numerics = kva_report_clean(a, c->numerics);
    b->kv = kva_report_clean(a, c->kv);
    b->enforce = is_reference(c) ? "physical" : kva_report_clean(a, c->enforce);
    b->variant = x->c->variant[key_cell];
    b->sampling = kva_report_clean(a, c->sampling ? c->sampling : "");
    b->mark = x->c->protocol[c->task].mark;
    b->oracle = c->oracle;
    b->ranks = !c->oracle && b->enforce && strcmp(b->enforce, "physical") == 0;
    b->ctx = x->d->tasks[c->task].ctx;
    b->model_index = c->model;
    b->n_task = n;
    b->dense = b->blind = -1;
    b->task = kva_arena_alloc(a, m, sizeof *b->task);
    b->task_label = kva_arena_alloc(a, m, sizeof *b->task_label);
    b->below = kva_arena_alloc(a, m, sizeof *b->below);
    b->weak = kva_arena_alloc(a, m, sizeof *b->weak);
    b->used = kva_arena_alloc(a, m, sizeof *b->used);
    b->no_dense = kva_arena_alloc(a, m, sizeof *b->no_dense);
    b->dense_score = kva_arena_alloc(a, m, sizeof(double));
    b->dense_lo = kva_arena_alloc(a, m, sizeof(double));
    b->floor = kva_arena_alloc(a, m, sizeof(double));
    b->blind_score = kva_arena_alloc(a, m, sizeof(double));
    if (!b->model || !b->visibility || !b->schedule || !b->numerics || !b->kv ||
        !b->sampling || !b->enforce || !b->task || !b->task_label || !b->below ||
        !b->weak || !b->used || !b->no_dense || !b->dense_score || !b->dense_lo ||
        !b->floor || !b->blind_score)
        return NULL;
    for (int t = 0; t < n; t++) {
        b->task[t] = task[t];
        b->task_label[t] = x->c->label[task[t]];
    }
    x->n_board++;
    return b;
}

static struct kva_arm *arm_add(struct draft *x, struct kva_board *b,
                               enum kva_arm_role role, int key_cell)
{
    const struct kva_data_cell *c = &x->d->cells[key_cell];
    struct kva_arena *a = &x->r->arena;
    struct kva_arm *arm;

    if ((b->n_arm & (b->n_arm - 1)) == 0) { /* full at every power of two */
        struct kva_arm *grown =
            kva_arena_alloc(a, (size_t)(b->n_arm ? 2 * b->n_arm : 1), sizeof *grown);

        if (!grown)
            return NULL;
        if (b->n_arm)
            memcpy(grown, b->arm, (size_t)b->n_arm * sizeof *grown);
        b->arm = grown;
    }
    arm = &b->arm[b->n_arm];
    memset(arm, 0, sizeof *arm);
    arm->role = role;
    arm->spec = kva_report_clean(a, c->method);
    arm->name = x->c->name[key_cell];
    arm->budget_kind = kva_report_clean(a, c->budget_kind);
    arm->budget = c->budget;
    arm->budget_text =
        role == KVA_ARM_BLIND ? "none" : kva_report_budget(a, c->budget_kind, c->budget);
    arm->cell = kva_arena_alloc(a, (size_t)b->n_task, sizeof *arm->cell);
    if (!arm->spec || !arm->budget_kind || !arm->budget_text || !arm->cell)
        return NULL;
    for (int t = 0; t < b->n_task; t++)
        arm->cell[t] = -1;
    b->n_arm++;
    return arm;
}

/* The board of a key, made when new; *board is its position. */
static enum kva_status board_for(struct draft *x, struct kva_map *of, struct kva_buf *key,
                                 int key_cell, const int *task, int n, int64_t *board)
{
    KVA_TRY(kva_buf_status(key, x->err));
    if (kva_map_get(of, key->data, key->len, board))
        return KVA_OK;
    *board = x->n_board;
    if (!board_add(x, key_cell, task, n))
        return no_memory(x->err);
    return kva_map_put(of, key->data, key->len, *board, NULL, x->err);
}

static enum kva_status place_arms(struct draft *x)
{
    struct kva_map of;
    struct kva_buf key;
    enum kva_status rc = KVA_OK;

    kva_map_init(&of);
    kva_buf_init(&key, 0);
    for (int i = 0; i < x->n_arm; i++) {
        const struct draft_arm *a = &x->arm[i];
        struct kva_arm *arm;
        int64_t at;

        /* the mean over its tasks ... */
        key.len = 0;
        base_key(x, a->key_cell, &key);
        for (int t = 0; t < a->n; t++)
            kva_buf_printf(&key, "%d,", a->task[t]);
        KVA_GO(board_for(x, &of, &key, a->key_cell, a->task, a->n, &at));
        if (!(arm = arm_add(x, &x->board[at], KVA_ARM_METHOD, a->key_cell))) {
            rc = no_memory(x->err);
            goto out;
        }
        for (int t = 0; t < a->n; t++)
            arm->cell[t] = a->cell[t];
        /* ... and each task alone */
        for (int t = 0; t < a->n; t++) {
            key.len = 0;
            base_key(x, a->key_cell, &key);
            kva_buf_printf(&key, "alone %d", a->task[t]);
            KVA_GO(board_for(x, &of, &key, a->key_cell, &a->task[t], 1, &at));
            x->board[at].single = true;
            if (!(arm = arm_add(x, &x->board[at], KVA_ARM_METHOD, a->key_cell))) {
                rc = no_memory(x->err);
                goto out;
            }
            arm->cell[0] = a->cell[t];
        }
    }
out:
    kva_map_release(&of);
    kva_buf_release(&key);
    return rc;
}

/* The cell a board of references alone was made from: its dense or blind stands for
 * itself, the other one is its partner by dense_key. */
static int lone_partner(const struct draft *x, int cell, const char *name)
{
    return is_named(&x->d->cells[cell], name) ? cell
           : strcmp(name, "dense") == 0       ? x->c->dense[cell]
                                              : x->c->blind[cell];
}

static enum kva_status add_references(struct draft *x, struct kva_board *b)
{
    int dense = -1, blind = -1;

    for (int which = 0; which < 2; which++) {
        struct kva_arm *arm = NULL;

        for (int t = 0; t < b->n_task; t++) {
            int cell = b->n_method ? b->arm[0].cell[t] : b->lone[t], ref;

            ref = cell < 0       ? -1
                  : !b->n_method ? lone_partner(x, cell, which ? "blind" : "dense")
                  : which == 0   ? x->c->dense[cell]
                                 : x->c->blind[cell];
            if (ref < 0 || x->c->left_out[ref])
                continue;
            if (!arm) {
                arm = arm_add(x, b, which == 0 ? KVA_ARM_DENSE : KVA_ARM_BLIND, ref);
                if (!arm)
                    return no_memory(x->err);
                *(which == 0 ? &dense : &blind) = b->n_arm - 1;
            }
            arm->cell[t] = ref;
        }
    }
    b->dense = dense;
    b->blind = blind;
    return KVA_OK;
}

static void mark(const struct draft *x, int cell, bool *seen)
{
    if (cell >= 0 && x->c->dense[cell] >= 0)
        seen[x->c->dense[cell]] = true;
    if (cell >= 0 && x->c->blind[cell] >= 0)
        seen[x->c->blind[cell]] = true;
}

/* Dense and blind cells that no method's board shows get boards of their own. */
static enum kva_status lone_references(struct draft *x)
{
    bool *seen = kva_calloc((size_t)x->d->n_cells + 1, sizeof *seen);
    int *task = kva_calloc((size_t)x->d->n_cells + 1, sizeof *task);
    int *lone = kva_calloc((size_t)x->d->n_cells + 1, sizeof *lone);
    enum kva_status rc = KVA_OK;

    if (!seen || !task || !lone) {
        rc = no_memory(x->err);
        goto out;
    }
    for (int i = 0; i < x->n_board; i++) /* what add_references will take */
        for (int t = 0; t < x->board[i].n_task; t++)
            mark(x, x->board[i].arm[0].cell[t], seen);
    for (int i = 0; i < x->d->n_cells; i++) {
        struct kva_buf mine, other;
        int n = 0;

        if (seen[i] || x->c->left_out[i] || !is_reference(&x->d->cells[i]))
            continue;
        kva_buf_init(&mine, 0);
        kva_buf_init(&other, 0);
        base_key(x, i, &mine);
        for (int j = i; j < x->d->n_cells; j++) {
            if (seen[j] || x->c->left_out[j] || !is_reference(&x->d->cells[j]))
                continue;
            other.len = 0;
            base_key(x, j, &other);
            if (mine.failed || other.failed || mine.len != other.len ||
                memcmp(mine.data, other.data, mine.len) != 0)
                continue;
            /* the same identity with another partner: a board of its own, later */
            if (n && task[n - 1] == x->d->cells[j].task)
                continue;
            task[n] = x->d->cells[j].task;
            lone[n++] = j;
            seen[j] = true;
            for (int which = 0; which < 2; which++) {
                int ref = lone_partner(x, j, which ? "blind" : "dense");

                if (ref >= 0)
                    seen[ref] = true;
            }
        }
        kva_buf_release(&other);
        rc = kva_buf_status(&mine, x->err);
        kva_buf_release(&mine);
        if (rc == KVA_OK && n) {
            struct kva_board *b = board_add(x, i, task, n);

            if (b)
                b->lone = kva_arena_alloc(&x->r->arena, (size_t)n, sizeof *b->lone);
            if (b && b->lone)
                memcpy(b->lone, lone, (size_t)n * sizeof *lone);
            else
                rc = no_memory(x->err);
        }
        if (rc != KVA_OK)
            goto out;
    }
out:
    free(seen);
    free(task);
    free(lone);
    return rc;
}

/* ---- floors ---- */

/* The lower bound of a task's dense score; questions of one context are no independent
 * evidence. NaN without samples. */
static bool dense_bound(const struct draft *x, int cell, double *lo)
{
    const char *label = "";
    bool used = true, ok;
    struct kva_pair_cells in = {
        .x = &cell, .y = &cell, .used = &used, .label = &label, .n_task = 1};
    struct kva_interval ci;
    struct kva_pairs p;

    *lo = (double)NAN;
    if (cell < 0)
        return true;
    if (kva_pairs_of(x->d, x->c, &in, KVA_MEASURE_SCORE, &p, NULL) != KVA_OK)
        return false;
    ci = kva_stat_arm(p.s, 1);
    ok = ci.ok || p.n == 0;
    if (ci.ok)
        *lo = ci.lo;
    kva_pairs_release(&p);
    return ok;
}

static double cell_mean(const struct kva_cells *c, int cell, int *n)
{
    double sum = 0;

    *n = 0;
    for (int i = cell < 0 ? 0 : c->first[cell]; cell >= 0 && i < c->first[cell + 1]; i++)
        if (c->obs[i].n_ok) {
            sum += c->obs[i].score;
            (*n)++;
        }
    return *n ? sum / *n : (double)NAN;
}

#define WEAK 0.60 /* small-models.md 5c */

/* A dense score under 60 says that a model cannot do a task only where an answer is right
 * or wrong; an F1 or ROUGE of 30 is what good models have. */
static bool says_right_or_wrong(const struct kva_data_task *t)
{
    return t->binary || strncmp(t->metric, "match_", 6) == 0;
}

static void floors(const struct draft *x, struct kva_board *b)
{
    int strong = 0;

    for (int t = 0; t < b->n_task; t++) {
        int dense = b->dense < 0 ? -1 : b->arm[b->dense].cell[t], n, m;
        int blind = b->blind < 0 ? -1 : b->arm[b->blind].cell[t];
        double mean = cell_mean(x->c, dense, &n), guess = cell_mean(x->c, blind, &m);

        b->dense_score[t] = mean;
        b->blind_score[t] = guess;
        b->floor[t] = x->d->tasks[b->task[t]].guess_floor;
        if (!isnan(guess) && guess > b->floor[t])
            b->floor[t] = guess;
        b->no_dense[t] = n == 0;
        if (!dense_bound(x, dense, &b->dense_lo[t]))
            x->r->nomem = true;
        b->below[t] = n > 0 && b->dense_lo[t] <= b->floor[t];
        b->weak[t] = n > 0 && !b->below[t] && mean < WEAK &&
                     says_right_or_wrong(&x->d->tasks[b->task[t]]);
        strong += !b->below[t] && !b->weak[t];
    }
    for (int t = 0; t < b->n_task; t++) {
        b->used[t] = !b->below[t] && (!b->weak[t] || strong == 0);
        b->n_used += b->used[t];
    }
    for (int t = 0; t < b->n_task && b->n_used == 0; t++)
        b->used[t] = true;
}

/* ---- titles ---- */

static const char *class_words(const struct kva_board *b)
{
    if (b->oracle)
        return "oracle (uses information not available at inference)";
    if (strcmp(b->enforce, "physical") == 0)
        return "physical";
    if (strcmp(b->enforce, "mask") == 0)
        return "masked (simulation: memory not reduced)";
    if (strcmp(b->enforce, "fakekey") == 0)
        return "masked by fake keys (simulation: memory not reduced)";
    return NULL;
}

static enum kva_status title(struct draft *x, struct kva_board *b)
{
    struct kva_arena *a = &x->r->arena;
    const char *klass = class_words(b);
    int below = 0, weak = 0;
    struct kva_buf s;

    kva_buf_init(&s, 0);
    kva_buf_printf(&s, "%s, ", b->model);
    if (b->n_task == 1)
        kva_buf_puts(&s, b->task_label[0]);
    else
        kva_buf_printf(&s, "mean of %d task%s", b->n_used ? b->n_used : b->n_task,
                       b->n_used == 1 ? "" : "s");
    for (int t = 0; t < b->n_task; t++) {
        below += b->below[t];
        weak += b->weak[t] && !b->used[t];
    }
    if (b->n_task > 1 && b->n_used && below)
        kva_buf_printf(&s, " (%d more below floor)", below);
    if (b->n_task > 1 && b->n_used && weak)
        kva_buf_printf(&s, " (%d more weak)", weak);
    if (b->ctx > 0 && b->n_task > 1)
        kva_buf_printf(&s, " at %d tokens", b->ctx);
    if (b->mark[0] && b->n_task > 1)
        kva_buf_printf(&s, ", %s", b->mark);
    if (klass)
        kva_buf_printf(&s, ", %s", klass);
    else
        kva_buf_printf(&s, ", %s (simulation: not physical eviction)", b->enforce);
    if (b->oracle && strcmp(b->enforce, "physical") != 0)
        kva_buf_printf(&s, ", %s", b->enforce);
    if (strcmp(b->visibility, "agnostic") == 0)
        kva_buf_puts(&s, ", question-agnostic");
    else if (strcmp(b->visibility, "aware") == 0)
        kva_buf_puts(&s, ", question-aware");
    else
        kva_buf_printf(&s, ", visibility %s", b->visibility);
    kva_buf_printf(&s, ", %s", b->schedule);
    if (strcmp(b->numerics, "f32") != 0 || strcmp(b->kv, "f16") != 0)
        kva_buf_printf(&s, ", %s with %s cache", b->numerics, b->kv);
    if (b->sampling[0])
        kva_buf_printf(&s, ", answers drawn at %s", b->sampling);
    if (!s.failed)
        b->title = kva_arena_strdup(a, s.data);
    kva_buf_release(&s);
    if (!b->title)
        return no_memory(x->err);
    return KVA_OK;
}

/* Boards that would be called the same although their cells differ in the rest of their
 * identity say in what. */
static enum kva_status tell_variants(struct draft *x)
{
    bool *twin = kva_calloc((size_t)x->n_board + 1, sizeof *twin);

    if (!twin)
        return no_memory(x->err);
    for (int i = 0; i < x->n_board; i++)
        for (int j = 0; j < x->n_board; j++)
            twin[i] |= x->board[i].single == x->board[j].single &&
                       strcmp(x->board[i].title, x->board[j].title) == 0 &&
                       strcmp(x->board[i].variant, x->board[j].variant) != 0;
    for (int i = 0; i < x->n_board; i++)
        if (twin[i])
            x->board[i].title = kva_arena_printf(&x->r->arena, "%s (%s)",
                                                 x->board[i].title, x->board[i].variant);
    free(twin);
    for (int i = 0; i < x->n_board; i++)
        if (!x->board[i].title)
            return no_memory(x->err);
    return KVA_OK;
}

static int class_rank(const struct kva_board *b)
{
    return b->oracle ? 2 : strcmp(b->enforce, "physical") == 0 ? 0 : 1;
}

static int cmp_board(const void *p, const void *q)
{
    const struct kva_board *a = p, *b = q;
    int c = strcmp(a->model, b->model);

    if (a->single != b->single)
        return a->single ? 1 : -1;
    if (c)
        return c;
    if (a->model_index != b->model_index)
        return a->model_index < b->model_index ? -1 : 1;
    if (class_rank(a) != class_rank(b))
        return class_rank(a) - class_rank(b);
    if ((c = strcmp(a->enforce, b->enforce)) != 0)
        return c;
    if (a->ctx != b->ctx)
        return a->ctx < b->ctx ? -1 : 1;
    if ((c = strcmp(a->mark, b->mark)) != 0)
        return c;
    if ((c = strcmp(a->visibility, b->visibility)) != 0)
        return c;
    if ((c = strcmp(a->schedule, b->schedule)) != 0) /* the usual one first */
        return strcmp(a->schedule, "oneshot") == 0   ? -1
               : strcmp(b->schedule, "oneshot") == 0 ? 1
                                                     : c;
    if ((c = strcmp(a->numerics, b->numerics)) != 0)
        return c;
    if ((c = strcmp(a->kv, b->kv)) != 0)
        return c;
    if ((c = strcmp(a->variant, b->variant)) != 0)
        return c;
    if (a->n_task != b->n_task) /* the widest mean first */
        return a->n_task > b->n_task ? -1 : 1;
    for (int t = 0; t < a->n_task; t++)
        if (a->task[t] != b->task[t])
            return a->task[t] < b->task[t] ? -1 : 1;
    return 0;
}

bool kva_same_but_length(const struct kva_board *a, const struct kva_board *b)
{
    return a->model_index == b->model_index && a->ranks && b->ranks &&
           strcmp(a->mark, b->mark) == 0 && strcmp(a->visibility, b->visibility) == 0 &&
           strcmp(a->schedule, b->schedule) == 0 &&
           strcmp(a->numerics, b->numerics) == 0 && strcmp(a->kv, b->kv) == 0 &&
           strcmp(a->variant, b->variant) == 0 && a->ctx > 0 && b->ctx > 0;
}

enum kva_status kva_boards_build(struct kva_report *r, const struct kva_data *d,
                                 const struct kva_cells *c, struct kva_error *err)
{
    struct draft x = {.r = r, .d = d, .c = c, .err = err};
    enum kva_status rc;

    KVA_GO(draft_arms(&x));
    KVA_GO(place_arms(&x));
    KVA_GO(lone_references(&x));
    for (int i = 0; i < x.n_board; i++) {
        struct kva_board *b = &x.board[i];

        b->n_method = b->n_arm;
        KVA_GO(add_references(&x, b));
        floors(&x, b);
        KVA_GO(title(&x, b));
    }
    KVA_GO(tell_variants(&x));
    if (x.n_board)
        qsort(x.board, (size_t)x.n_board, sizeof *x.board, cmp_board);
    r->board = kva_arena_alloc(&r->arena, (size_t)x.n_board + 1, sizeof *r->board);
    if (!r->board) {
        rc = no_memory(err);
        goto out;
    }
    if (x.n_board)
        memcpy(r->board, x.board, (size_t)x.n_board * sizeof *r->board);
    r->n_board = x.n_board;
    for (int i = 0; i < r->n_board; i++)
        r->board[i].slug = kva_arena_printf(&r->arena, "%s%d",
                                            r->board[i].single ? "task" : "board", i + 1);
    for (int i = 0; i < r->n_board; i++)
        if (!r->board[i].slug)
            rc = no_memory(err);
out:
    for (int i = 0; i < x.n_arm; i++) {
        free(x.arm[i].task);
        free(x.arm[i].cell);
    }
    free(x.arm);
    free(x.board);
    return rc;
}
