/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rank.c - bootstraps, tests and ranks of all boards (reports.md 4.3, 4.4, 6.2).
 *
 * Against dense: paired bootstrap of the ratio and the difference; p by McNemar (one
 * binary task) or sign flip, Benjamini-Hochberg over the rows of the board. Among
 * methods: the same tests for every pair of complete rows at one nominal budget, adjusted
 * over these pairs; rank = 1 + number of methods that are significantly better. A row
 * that is not comparable with the others of its budget has no rank. The work
 * items are independent, seeded from the pair, and shared by threads: neither their
 * number nor their order changes a bit. */
#include "reports/internal.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAN_DISCORDANT 0.10 /* share assumed when no pair differs (reports.md 4.7) */
#define MAX_THREADS     16

struct job {
    struct kva_board *b;
    int x, y;     /* arms; y = -1: x against dense */
    double p;     /* of a pair */
    double delta; /* of a pair: mean x - mean y */
};
struct work {
    const struct kva_report *r;
    const struct kva_data *d;
    const struct kva_cells *c;
    struct job *job;
    int n;
    atomic_int next, failed;
    bool measure; /* first pass: what needs no partner */
};

static void against_dense(struct work *w, struct kva_board *b, struct kva_arm *arm)
{
    const struct kva_arm *dense = &b->arm[b->dense];
    struct kva_pairs p;
    uint32_t seed = kva_pair_seed(w->d, b, arm, dense, w->r->opts.seed);
    double share;

    if (kva_pairs_make(w->d, w->c, b, arm, dense, &p, NULL) != KVA_OK) {
        atomic_store(&w->failed, 1);
        return;
    }
    arm->n_pairs = p.n;
    arm->comparable = p.valid;
    if (p.valid && p.n_strata > 0) {
        if (kva_stat_bootstrap(p.s, (size_t)p.n_strata, seed, w->r->opts.replicates,
                               false, &arm->boot, NULL) != KVA_OK)
            atomic_store(&w->failed, 1);
        if (arm->boot.ratio_ci.ok && arm->boot.ratio_ci.lo < 0)
            arm->boot.ratio_ci.lo = 0; /* a ratio of scores is not negative */
        arm->p = kva_pair_p(&p, seed, w->r->opts.replicates);
        share = p.n ? (double)p.n_discordant / p.n : 0;
        arm->mde = kva_stat_mde(p.n, share > 0 ? share : PLAN_DISCORDANT);
    }
    kva_pairs_release(&p);
}

static void against_method(struct work *w, struct job *j)
{
    const struct kva_arm *x = &j->b->arm[j->x], *y = &j->b->arm[j->y];
    uint32_t seed = kva_pair_seed(w->d, j->b, x, y, w->r->opts.seed);
    struct kva_pairs p;

    j->p = j->delta = (double)NAN;
    if (kva_pairs_make(w->d, w->c, j->b, x, y, &p, NULL) != KVA_OK) {
        atomic_store(&w->failed, 1);
        return;
    }
    j->p = kva_pair_p(&p, seed, w->r->opts.replicates);
    j->delta = 0;
    for (int t = 0; t < p.n_strata; t++)
        j->delta +=
            (kva_stat_mean(p.s[t].a, p.s[t].n) - kva_stat_mean(p.s[t].b, p.s[t].n)) /
            p.n_strata;
    kva_pairs_release(&p);
}

static void *worker(void *arg)
{
    struct work *w = arg;

    for (;;) {
        int i = atomic_fetch_add(&w->next, 1);
        struct job *j;

        if (i >= w->n)
            return NULL;
        j = &w->job[i];
        if (w->measure)
            kva_arm_measure(w->d, w->c, j->b, &j->b->arm[j->x]);
        else if (j->y < 0)
            against_dense(w, j->b, &j->b->arm[j->x]);
        else
            against_method(w, j);
    }
}

static enum kva_status run(struct work *w, struct kva_error *err)
{
    pthread_t thread[MAX_THREADS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int started = 0, want = cores < 1             ? 1
                            : cores > MAX_THREADS ? MAX_THREADS
                                                  : (int)cores;

    atomic_store(&w->next, 0);
    while (started < want - 1 && started < w->n - 1 &&
           pthread_create(&thread[started], NULL, worker, w) == 0)
        started++;
    (void)worker(w);
    for (int i = 0; i < started; i++)
        (void)pthread_join(thread[i], NULL);
    if (atomic_load(&w->failed))
        return KVA_FAIL(err, KVA_ENOMEM, "report: statistics: out of memory");
    return KVA_OK;
}

static bool complete(const struct kva_arm *a)
{
    return a->ok >= a->expected && !isnan(a->score);
}

static bool may_rank(const struct kva_board *b, const struct kva_arm *a)
{
    return b->ranks && a->role == KVA_ARM_METHOD && a->unranked == KVA_RANKED &&
           complete(a);
}

static bool same_budget(const struct kva_arm *x, const struct kva_arm *y)
{
    return x->budget == y->budget && strcmp(x->budget_kind, y->budget_kind) == 0;
}

/* Takes the rank from arms that some other ranked arm of the group cannot be compared
 * with: p is NaN when less than 95 % of the samples are common. Those with the most such
 * pairs go first, equals together, until every pair left has a p: no pair without a test
 * is ever called a tie. */
static bool drop_incomparable(struct kva_board *b, const struct job *job,
                              const int *index, int n)
{
    int *bad = kva_calloc((size_t)b->n_arm + 1, sizeof *bad), most;

    if (!bad)
        return false;
    do {
        most = 0;
        memset(bad, 0, (size_t)b->n_arm * sizeof *bad);
        for (int i = 0; i < n; i++) {
            const struct job *j = &job[index[i]];

            if (!isnan(j->p) || !may_rank(b, &b->arm[j->x]) ||
                !may_rank(b, &b->arm[j->y]))
                continue;
            most = ++bad[j->x] > most ? bad[j->x] : most;
            most = ++bad[j->y] > most ? bad[j->y] : most;
        }
        for (int k = 0; most && k < b->n_method; k++)
            if (bad[k] == most)
                b->arm[k].unranked = KVA_UNRANKED_SAMPLES;
    } while (most);
    free(bad);
    return true;
}

/* Ranks of the arms at the budget of `first`; jobs [from, to) are the board's pairs. */
static enum kva_status rank_group(struct kva_report *r, struct kva_board *b, int first,
                                  const struct job *job, int from, int to,
                                  struct kva_error *err)
{
    double *p = kva_calloc((size_t)(to - from) + 1, sizeof *p);
    int *index = kva_calloc((size_t)(to - from) + 1, sizeof *index), n = 0, all = 0;

    if (!p || !index) {
        free(p);
        free(index);
        return KVA_FAIL(err, KVA_ENOMEM, "report: ranks: out of memory");
    }
    for (int i = from; i < to; i++)
        if (same_budget(&b->arm[job[i].x], &b->arm[first]))
            index[all++] = i;
    if (!drop_incomparable(b, job, index, all)) {
        free(p);
        free(index);
        return KVA_FAIL(err, KVA_ENOMEM, "report: ranks: out of memory");
    }
    for (int i = 0; i < all; i++)
        if (may_rank(b, &b->arm[job[index[i]].x]) &&
            may_rank(b, &b->arm[job[index[i]].y])) {
            p[n] = job[index[i]].p;
            index[n++] = index[i];
        }
    kva_stat_bh(p, (size_t)n);
    for (int k = 0; k < b->n_method; k++)
        if (may_rank(b, &b->arm[k]) && same_budget(&b->arm[k], &b->arm[first]))
            b->arm[k].rank = 1;
    for (int i = 0; i < n; i++) {
        const struct job *j = &job[index[i]];
        enum kva_verdict v =
            kva_stat_verdict(KVA_TIE_STAT, j->delta, p[i], 0, r->opts.alpha, true);

        if (v == KVA_WIN)
            b->arm[j->y].rank++;
        else if (v == KVA_LOSS)
            b->arm[j->x].rank++;
    }
    for (int k = 0; k < b->n_method; k++)
        for (int m = 0; m < b->n_method; m++)
            if (k != m && b->arm[k].rank && b->arm[k].rank == b->arm[m].rank &&
                same_budget(&b->arm[k], &b->arm[m]))
                b->arm[k].tied = true;
    free(p);
    free(index);
    return KVA_OK;
}

static int budget_class(const struct kva_arm *a)
{
    return strcmp(a->budget_kind, "keep") == 0     ? 0
           : strcmp(a->budget_kind, "tokens") == 0 ? 1
                                                   : 2;
}

/* Dense on top, blind at the bottom, between them by budget descending, then rank with
 * incomplete rows last, then score, then name. */
static int cmp_arm(const void *p, const void *q)
{
    const struct kva_arm *a = p, *b = q;
    int ra = a->role == KVA_ARM_DENSE ? 0 : a->role == KVA_ARM_BLIND ? 2 : 1;
    int rb = b->role == KVA_ARM_DENSE ? 0 : b->role == KVA_ARM_BLIND ? 2 : 1;
    int ka = a->rank ? a->rank : 1 << 20, kb = b->rank ? b->rank : 1 << 20;
    double sa = isnan(a->score) ? -1 : a->score, sb = isnan(b->score) ? -1 : b->score;

    if (ra != rb)
        return ra - rb;
    if (budget_class(a) != budget_class(b))
        return budget_class(a) - budget_class(b);
    if (a->budget != b->budget)
        return a->budget > b->budget ? -1 : 1;
    if (ka != kb)
        return ka - kb;
    if (sa != sb)
        return sa > sb ? -1 : 1;
    return strcmp(a->spec, b->spec);
}

static void sort_board(struct kva_board *b)
{
    if (b->n_arm)
        qsort(b->arm, (size_t)b->n_arm, sizeof *b->arm, cmp_arm);
    b->dense = b->blind = -1;
    for (int k = 0; k < b->n_arm; k++) {
        if (b->arm[k].role == KVA_ARM_DENSE)
            b->dense = k;
        if (b->arm[k].role == KVA_ARM_BLIND)
            b->blind = k;
    }
}

static enum kva_status finish_board(struct kva_report *r, struct kva_board *b,
                                    const struct job *job, int from, int to,
                                    struct kva_error *err)
{
    double *p = kva_calloc((size_t)b->n_arm + 1, sizeof *p);

    if (!p)
        return KVA_FAIL(err, KVA_ENOMEM, "report: ranks: out of memory");
    for (int k = 0; k < b->n_method; k++)
        p[k] = b->arm[k].p;
    kva_stat_bh(p, (size_t)b->n_method);
    for (int k = 0; k < b->n_method; k++)
        b->arm[k].p_adj = p[k];
    free(p);
    for (int k = 0; k < b->n_method; k++)
        if (may_rank(b, &b->arm[k]) && b->arm[k].rank == 0)
            KVA_TRY(rank_group(r, b, k, job, from, to, err));
    sort_board(b);
    return KVA_OK;
}

static int count_pairs(const struct kva_board *b)
{
    int n = 0;

    for (int x = 0; x < b->n_method; x++)
        for (int y = x + 1; y < b->n_method; y++)
            n += may_rank(b, &b->arm[x]) && may_rank(b, &b->arm[y]) &&
                 same_budget(&b->arm[x], &b->arm[y]);
    return n;
}

/* Single tasks take as long as everything else: only where somebody will see them. */
static bool shown(const struct kva_report *r, const struct kva_board *b)
{
    return !b->single || !r->opts.one_view || r->view == KVA_VIEW_TASKS;
}

enum kva_status kva_boards_compute(struct kva_report *r, const struct kva_data *d,
                                   const struct kva_cells *c, struct kva_error *err)
{
    struct work w = {.r = r, .d = d, .c = c, .measure = true};
    int *from = kva_calloc((size_t)r->n_board + 1, sizeof *from), n = 0;
    enum kva_status rc = KVA_OK;

    for (int i = 0; i < r->n_board; i++)
        n += r->board[i].n_arm;
    w.job = kva_calloc((size_t)n + 1, sizeof *w.job);
    if (!from || !w.job) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "report: statistics: out of memory");
        goto out;
    }
    for (int i = 0; i < r->n_board; i++)
        for (int k = 0; k < r->board[i].n_arm; k++)
            if (shown(r, &r->board[i]))
                w.job[w.n++] = (struct job){.b = &r->board[i], .x = k, .y = -1};
    KVA_GO(run(&w, err));
    free(w.job);
    n = 0;
    for (int i = 0; i < r->n_board; i++)
        n += r->board[i].n_arm + count_pairs(&r->board[i]);
    w.job = kva_calloc((size_t)n + 1, sizeof *w.job);
    if (!w.job) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "report: statistics: out of memory");
        goto out;
    }
    w.n = 0;
    w.measure = false;
    for (int i = 0; i < r->n_board; i++) {
        struct kva_board *b = &r->board[i];

        from[i] = w.n;
        if (!shown(r, b))
            continue;
        for (int k = 0; k < b->n_method && b->dense >= 0; k++)
            w.job[w.n++] = (struct job){.b = b, .x = k, .y = -1};
        from[i] = w.n;
        for (int x = 0; x < b->n_method; x++)
            for (int y = x + 1; y < b->n_method; y++)
                if (may_rank(b, &b->arm[x]) && may_rank(b, &b->arm[y]) &&
                    same_budget(&b->arm[x], &b->arm[y]))
                    w.job[w.n++] = (struct job){.b = b, .x = x, .y = y};
    }
    KVA_GO(run(&w, err));
    for (int i = 0; i < r->n_board; i++) {
        int to = from[i];

        if (!shown(r, &r->board[i]))
            continue;
        while (to < w.n && w.job[to].b == &r->board[i] && w.job[to].y >= 0)
            to++;
        KVA_GO(finish_board(r, &r->board[i], w.job, from[i], to, err));
    }
out:
    free(w.job);
    free(from);
    return rc;
}
