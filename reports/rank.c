/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rank.c - bootstraps, tests and ranks of all boards (reports.md 4.3, 4.4, 6.2).
 *
 * Against dense: paired bootstrap of the ratio and the difference; p by McNemar (one
 * binary task) or sign flip, Benjamini-Hochberg over the rows of the board. Among
 * methods: the same tests for every pair of complete rows at one nominal budget, adjusted
 * over these pairs; rank = 1 + number of methods that are significantly better. A row
 * that is not comparable with the others of its budget has no rank. Answer nats are
 * compared the same way beside the score: retention as the ratio of gains over the blind
 * run, sign flips, a rank of their own. A difference within the noise floor of the
 * score is a tie. A row off the Pareto front is tested against the one that dominates it,
 * adjusted over the rows of the board. The work items are independent, seeded from the
 * pair, and shared by threads: neither their number nor their order changes a bit. */
#include "reports/internal.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS 16

/* What a pair of rows is compared by. */
enum { BY_SCORE, BY_NATS, N_MEASURES };

struct job {
    struct kva_board *b;
    int x, y;                                /* arms; y = -1: x against dense */
    double p[N_MEASURES], delta[N_MEASURES]; /* of a pair; delta: x - y, more is better */
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

static void score_against_dense(struct work *w, struct kva_board *b, struct kva_arm *arm,
                                uint32_t seed)
{
    struct kva_pairs p;

    if (kva_pairs_make(w->d, w->c, b, arm, &b->arm[b->dense], KVA_MEASURE_SCORE, &p,
                       NULL) != KVA_OK) {
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
    }
    kva_pairs_release(&p);
}

/* The same of the gains over the blind run: their ratio is the nats retention. */
static void nats_against_dense(struct work *w, struct kva_board *b, struct kva_arm *arm,
                               uint32_t seed)
{
    struct kva_pairs p;

    if (b->blind < 0)
        return;
    if (kva_pairs_make(w->d, w->c, b, arm, &b->arm[b->dense], KVA_MEASURE_GAIN, &p,
                       NULL) != KVA_OK) {
        atomic_store(&w->failed, 1);
        return;
    }
    if (p.valid && p.n_strata > 0) {
        if (kva_stat_bootstrap(p.s, (size_t)p.n_strata, seed, w->r->opts.replicates,
                               false, &arm->nats, NULL) != KVA_OK)
            atomic_store(&w->failed, 1);
        arm->nats_p = kva_pair_p(&p, seed, w->r->opts.replicates);
    }
    kva_pairs_release(&p);
}

/* The row that dominates this one, if any. */
static void against_rival(struct work *w, const struct kva_board *b, struct kva_arm *arm)
{
    const struct kva_arm *x = arm->rival < 0 ? NULL : &b->arm[arm->rival];
    struct kva_pairs p;

    arm->rival_p = (double)NAN;
    if (!x)
        return;
    if (kva_pairs_make(w->d, w->c, b, x, arm, KVA_MEASURE_SCORE, &p, NULL) != KVA_OK) {
        atomic_store(&w->failed, 1);
        return;
    }
    arm->rival_p = kva_pair_p(&p, kva_pair_seed(w->d, b, x, arm, w->r->opts.seed),
                              w->r->opts.replicates);
    kva_pairs_release(&p);
}

static void against_dense(struct work *w, struct kva_board *b, struct kva_arm *arm)
{
    uint32_t seed = kva_pair_seed(w->d, b, arm, &b->arm[b->dense], w->r->opts.seed);

    score_against_dense(w, b, arm, seed);
    nats_against_dense(w, b, arm, seed);
    against_rival(w, b, arm);
}

static void against_method(struct work *w, struct job *j)
{
    static const enum kva_measure measure[N_MEASURES] = {KVA_MEASURE_SCORE,
                                                         KVA_MEASURE_NATS};
    const struct kva_arm *x = &j->b->arm[j->x], *y = &j->b->arm[j->y];
    uint32_t seed = kva_pair_seed(w->d, j->b, x, y, w->r->opts.seed);

    for (int m = 0; m < N_MEASURES; m++) {
        struct kva_pairs p;

        j->p[m] = j->delta[m] = (double)NAN;
        if (m == BY_NATS && (isnan(x->nll) || isnan(y->nll)))
            continue;
        if (kva_pairs_make(w->d, w->c, j->b, x, y, measure[m], &p, NULL) != KVA_OK) {
            atomic_store(&w->failed, 1);
            return;
        }
        j->p[m] = kva_pair_p(&p, seed, w->r->opts.replicates);
        j->delta[m] = kva_pairs_delta(&p);
        kva_pairs_release(&p);
    }
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
    long cores =
        w->r->opts.threads > 0 ? w->r->opts.threads : sysconf(_SC_NPROCESSORS_ONLN);
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

/* Pairs at one budget, by one measure. */
struct group {
    struct kva_board *b;
    const struct job *job;
    int *index, n; /* jobs of the group */
    double *p;
    bool *out; /* per arm: may not be ranked here */
    int *rank;
    int measure;
};

/* Takes arms out that some other arm of the group cannot be compared with: p is NaN when
 * less than 95 % of the samples are common. Those with the most such pairs go first,
 * equals together, until every pair left has a p: no pair without a test is ever called a
 * tie. `bad` has room for all arms. */
static void drop_incomparable(struct group *g, int *bad)
{
    int most;

    do {
        most = 0;
        memset(bad, 0, (size_t)g->b->n_arm * sizeof *bad);
        for (int i = 0; i < g->n; i++) {
            const struct job *j = &g->job[g->index[i]];

            if (!isnan(j->p[g->measure]) || g->out[j->x] || g->out[j->y])
                continue;
            most = ++bad[j->x] > most ? bad[j->x] : most;
            most = ++bad[j->y] > most ? bad[j->y] : most;
        }
        for (int k = 0; most && k < g->b->n_method; k++)
            g->out[k] |= bad[k] == most;
    } while (most);
}

/* rank[k] = 1 + number of arms significantly better than k, 0 for those out. */
static void rank_by(const struct kva_report *r, struct group *g)
{
    double floor = g->measure == BY_SCORE ? g->b->noise : 0;
    int n = 0;

    for (int i = 0; i < g->n; i++) {
        const struct job *j = &g->job[g->index[i]];

        if (!g->out[j->x] && !g->out[j->y]) {
            g->p[n] = j->p[g->measure];
            g->index[n++] = g->index[i];
        }
    }
    kva_stat_bh(g->p, (size_t)n);
    for (int k = 0; k < g->b->n_method; k++)
        g->rank[k] = !g->out[k];
    for (int i = 0; i < n; i++) {
        const struct job *j = &g->job[g->index[i]];
        enum kva_verdict v = kva_stat_verdict(KVA_TIE_STAT, j->delta[g->measure], g->p[i],
                                              floor, r->opts.alpha, true);

        if (v == KVA_WIN)
            g->rank[j->y]++;
        else if (v == KVA_LOSS)
            g->rank[j->x]++;
    }
}

/* Writes the ranks of a group down; a rank that two arms share is a tie. */
static void take_ranks(const struct group *g)
{
    for (int k = 0; k < g->b->n_method; k++) {
        struct kva_arm *a = &g->b->arm[k];
        bool tied = false;

        for (int m = 0; m < g->b->n_method && g->rank[k]; m++)
            tied |= m != k && g->rank[m] == g->rank[k];
        if (g->rank[k] && g->measure == BY_SCORE) {
            a->rank = g->rank[k];
            a->tied = tied;
        } else if (g->rank[k]) {
            a->nats_rank = g->rank[k];
            a->nats_tied = tied;
        }
    }
}

/* Ranks of the arms at the budget of `first`; jobs [from, to) are the board's pairs. */
static enum kva_status rank_group(struct kva_report *r, struct kva_board *b, int first,
                                  const struct job *job, int from, int to,
                                  struct kva_error *err)
{
    size_t n_job = (size_t)(to - from) + 1, n_arm = (size_t)b->n_arm + 1;
    struct group g = {.b = b, .job = job};
    int *bad = kva_calloc(n_arm, sizeof *bad);
    enum kva_status rc = KVA_OK;

    g.index = kva_calloc(n_job, sizeof *g.index);
    g.p = kva_calloc(n_job, sizeof *g.p);
    g.out = kva_calloc(n_arm, sizeof *g.out);
    g.rank = kva_calloc(n_arm, sizeof *g.rank);
    if (!bad || !g.index || !g.p || !g.out || !g.rank) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "report: ranks: out of memory");
        goto out;
    }
    for (int k = 0; k < b->n_method; k++)
        g.out[k] = !may_rank(b, &b->arm[k]) || !same_budget(&b->arm[k], &b->arm[first]);
    for (g.measure = 0; g.measure < N_MEASURES; g.measure++) {
        g.n = 0;
        for (int i = from; i < to; i++)
            if (same_budget(&b->arm[job[i].x], &b->arm[first]))
                g.index[g.n++] = i;
        for (int k = 0; k < b->n_method && g.measure == BY_NATS; k++)
            g.out[k] |= isnan(b->arm[k].nll);
        drop_incomparable(&g, bad);
        for (int k = 0; k < b->n_method && g.measure == BY_SCORE; k++)
            if (g.out[k] && may_rank(b, &b->arm[k]) &&
                same_budget(&b->arm[k], &b->arm[first]))
                b->arm[k].unranked = KVA_UNRANKED_SAMPLES;
        rank_by(r, &g);
        take_ranks(&g);
    }
out:
    free(bad);
    free(g.index);
    free(g.p);
    free(g.out);
    free(g.rank);
    return rc;
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
    double *p = kva_calloc(3 * (size_t)b->n_arm + 1, sizeof *p);
    double *q = p ? p + b->n_method : NULL, *f = q ? q + b->n_method : NULL;

    if (!p)
        return KVA_FAIL(err, KVA_ENOMEM, "report: ranks: out of memory");
    for (int k = 0; k < b->n_method; k++) {
        p[k] = b->arm[k].p;
        q[k] = b->arm[k].nats_p;
        f[k] = b->arm[k].rival_p;
    }
    kva_stat_bh(p, (size_t)b->n_method);
    kva_stat_bh(q, (size_t)b->n_method);
    kva_stat_bh(f, (size_t)b->n_method);
    for (int k = 0; k < b->n_method; k++) {
        b->arm[k].p_adj = p[k];
        b->arm[k].nats_p_adj = q[k];
        if (b->arm[k].rival >= 0)
            b->arm[k].dominated =
                kva_stat_verdict(KVA_TIE_STAT,
                                 b->arm[b->arm[k].rival].score - b->arm[k].score, f[k],
                                 b->noise, r->opts.alpha, !isnan(f[k])) == KVA_WIN;
    }
    free(p);
    for (int k = 0; k < b->n_method; k++)
        if (may_rank(b, &b->arm[k]) && b->arm[k].rank == 0)
            KVA_TRY(rank_group(r, b, k, job, from, to, err));
    sort_board(b);
    return KVA_OK;
}

static enum kva_status noise(const struct kva_data *d, const struct kva_cells *c,
                             struct kva_board *b, struct kva_error *err)
{
    struct kva_noise n;

    if (b->dense < 0)
        return KVA_OK;
    KVA_TRY(kva_noise_of(d, c->first_outcome, b->arm[b->dense].cell, b->used, b->n_task,
                         &n, err));
    b->noise = n.floor;
    b->noise_known = n.known;
    return KVA_OK;
}

/* Marks the front and finds for every other row the best one of it that holds no more:
 * where any row scores significantly better at no more bytes, that one is the first to
 * show it. */
static enum kva_status front(struct kva_board *b, struct kva_error *err)
{
    double *x = kva_calloc(2 * (size_t)b->n_arm + 1, sizeof *x);
    double *y = x ? x + b->n_arm : NULL;
    uint8_t *on = kva_calloc((size_t)b->n_arm + 1, sizeof *on);

    if (!x || !on) {
        free(x);
        free(on);
        return KVA_FAIL(err, KVA_ENOMEM, "report: Pareto front: out of memory");
    }
    for (int k = 0; k < b->n_arm; k++) {
        const struct kva_arm *a = &b->arm[k];
        bool in = may_rank(b, a) || (b->ranks && a->role == KVA_ARM_DENSE && complete(a));

        x[k] = in ? a->alloc + a->meta : (double)NAN;
        y[k] = a->score;
    }
    kva_stat_pareto(x, y, (size_t)b->n_arm, on);
    for (int k = 0; k < b->n_arm; k++) {
        struct kva_arm *a = &b->arm[k];

        a->front = on[k];
        a->rival = -1;
        for (int m = 0; m < b->n_arm && !on[k] && !isnan(x[k]); m++)
            if (on[m] && x[m] <= x[k] &&
                (a->rival < 0 || b->arm[m].score > b->arm[a->rival].score))
                a->rival = m;
    }
    free(x);
    free(on);
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

/* Single tasks take as long as everything else: only where somebody will see them. A
 * leaderboard counts them won and lost against dense, which needs no ranks. */
static bool shown(const struct kva_report *r, const struct kva_board *b)
{
    return !b->single || !r->opts.one_view || r->view == KVA_VIEW_TASKS ||
           r->view == KVA_VIEW_LEADERBOARD || r->opts.by_task;
}

static bool ranked(const struct kva_report *r, const struct kva_board *b)
{
    return shown(r, b) && (!b->single || !r->opts.one_view || r->view == KVA_VIEW_TASKS ||
                           r->opts.by_task);
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
        KVA_GO(front(b, err));
        for (int k = 0; k < b->n_method && b->dense >= 0; k++)
            w.job[w.n++] = (struct job){.b = b, .x = k, .y = -1};
        from[i] = w.n;
        for (int x = 0; x < b->n_method && ranked(r, b); x++)
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
        KVA_GO(noise(d, c, &r->board[i], err));
        while (to < w.n && w.job[to].b == &r->board[i] && w.job[to].y >= 0)
            to++;
        KVA_GO(finish_board(r, &r->board[i], w.job, from[i], to, err));
    }
out:
    free(w.job);
    free(from);
    return rc;
}
