/* SPDX-License-Identifier: GPL-3.0-or-later */
/* duel.c - how duels end, and their tally (reports.md 4.4, 4.5).
 *
 *   delta = mean_i(a_i - b_i) over the samples in common, at least 95 % of those planned;
 *   p by McNemar (binary, one rep) or sign flip, Benjamini-Hochberg over the duels of one
 *   table; win, tie, loss by mode: exact |delta| <= 5e-13, epsilon, stat (p < alpha and
 *   |delta| above the noise floor).
 *
 * The mean difference of a tally has one stratum per (model, task). A sample that takes
 * part at several budgets is one unit there: its values are drawn and flipped together,
 * so that five budgets are no five times the evidence. */
#include "reports/duel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const kva_tie_names[4] = {"exact", "epsilon", "stat", NULL};
const char *const kva_verdict_names[4] = {"win", "tie", "loss", "invalid"};

/* ---- one duel ---- */

static enum kva_status paired(const struct kva_data *d, const struct kva_cells *c,
                              const struct kva_duel *x, enum kva_measure measure,
                              struct kva_pairs *p, struct kva_error *err)
{
    const bool used = true;
    const char *label = c->label[d->cells[x->a].task];
    struct kva_pair_cells in = {
        .x = &x->a, .y = &x->b, .used = &used, .label = &label, .n_task = 1};

    return kva_pairs_of(d, c, &in, measure, p, err);
}

static double mean_of(const struct kva_stratum *s, bool b)
{
    return s->n ? kva_stat_mean(b ? s->b : s->a, s->n) : (double)NAN;
}

static enum kva_status noise(const struct kva_data *d, const struct kva_cells *c,
                             struct kva_duel *x, enum kva_measure measure,
                             struct kva_error *err)
{
    const bool used = true;
    struct kva_noise n = {0};

    if (measure == KVA_MEASURE_SCORE && c->dense[x->a] >= 0)
        KVA_TRY(kva_noise_of(d, c->first_outcome, &c->dense[x->a], &used, 1, &n, err));
    x->noise = n.known ? n.floor : 0;
    x->noise_known = n.known;
    return KVA_OK;
}

static enum kva_status judge(struct kva_report *r, const struct kva_data *d,
                             const struct kva_cells *c, struct kva_duel *x,
                             const struct kva_duel_rules *rules, struct kva_error *err)
{
    struct kva_pairs p;
    uint32_t seed;
    enum kva_status rc = KVA_OK;

    x->p = x->p_adj = x->mean_a = x->mean_b = (double)NAN;
    x->boot.diff = x->boot.mde = (double)NAN;
    if (x->b < 0) {
        x->why = isnan(x->bytes_a) ? "bytes not known" : "no partner of equal bytes";
        return KVA_OK;
    }
    KVA_TRY(paired(d, c, x, rules->measure, &p, err));
    x->n = p.n;
    x->better = (int)p.only_a;
    x->worse = (int)p.only_b;
    x->equal = p.n - p.n_discordant;
    if (p.n) {
        x->mean_a = mean_of(&p.s[0], false);
        x->mean_b = mean_of(&p.s[0], true);
    }
    KVA_GO(noise(d, c, x, rules->measure, err));
    x->valid = p.valid && p.n > 0;
    if (!x->valid) {
        int want = d->cells[x->a].n_expected > d->cells[x->b].n_expected
                       ? d->cells[x->a].n_expected
                       : d->cells[x->b].n_expected;

        x->why =
            rules->measure == KVA_MEASURE_NATS && p.n == 0 ? "no answer nats in common"
            : p.n == 0                                     ? "no sample in common"
            : want > p.n ? kva_arena_printf(&r->arena, "only %d of %d samples", p.n, want)
                         : "too few samples in common";
        if (!x->why)
            r->nomem = true;
        goto out;
    }
    seed = kva_stat_boot_seed(d->cells[x->a].digest, d->cells[x->b].digest, rules->seed);
    x->boot.diff = kva_pairs_delta(&p);
    if (!rules->quick)
        KVA_GO(kva_stat_bootstrap(p.s, (size_t)p.n_strata, seed, rules->replicates, false,
                                  &x->boot, err));
    if (rules->measure != KVA_MEASURE_SCORE)
        x->boot.mde = (double)NAN; /* in points alone */
    x->p = kva_pair_p(&p, seed, rules->replicates);
    if (isnan(x->p)) { /* a test that had no memory is no missing test */
        rc = KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
        goto out;
    }
out:
    kva_pairs_release(&p);
    return rc;
}

enum kva_status kva_duels_judge(struct kva_report *r, const struct kva_data *d,
                                const struct kva_cells *c, struct kva_duels *u,
                                const struct kva_duel_rules *rules, struct kva_error *err)
{
    double *p = kva_calloc((size_t)u->n + 1, sizeof *p);
    enum kva_status rc = KVA_OK;

    if (!p)
        return KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
    for (int i = 0; i < u->n; i++) {
        KVA_GO(judge(r, d, c, &u->v[i], rules, err));
        p[i] = u->v[i].p;
    }
    kva_stat_bh(p, (size_t)u->n);
    for (int i = 0; i < u->n; i++) {
        struct kva_duel *x = &u->v[i];

        x->p_adj = p[i];
        if (x->valid && isnan(x->p_adj)) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
            goto out;
        }
        for (int m = 0; m < 3; m++)
            x->verdict[m] = kva_stat_verdict(
                (enum kva_tie_mode)m, x->boot.diff, x->p_adj,
                m == KVA_TIE_STAT ? x->noise : rules->epsilon, rules->alpha, x->valid);
    }
out:
    free(p);
    return rc;
}

/* ---- the tally ---- */

enum kva_status kva_tally_count(const struct kva_duels *u, enum kva_tie_mode mode,
                                struct kva_tally *t, struct kva_error *err)
{
    memset(t, 0, sizeof *t);
    t->n = u->n;
    t->boot.diff = t->boot.mde = t->p = (double)NAN;
    for (int i = 0; i < u->n; i++)
        switch (u->v[i].verdict[mode]) {
        case KVA_WIN:
            t->win++;
            break;
        case KVA_TIE:
            t->tie++;
            break;
        case KVA_LOSS:
            t->loss++;
            break;
        case KVA_INVALID:
            t->invalid++;
            break;
        }
    if (t->win + t->tie + t->loss + t->invalid != t->n)
        return KVA_FAIL(err, KVA_ENO,
                        "compare: %d wins, %d ties, %d losses and %d invalid do not add "
                        "up to %d pairs",
                        t->win, t->tie, t->loss, t->invalid, t->n);
    t->p_sign = t->invalid == t->n
                    ? (double)NAN
                    : kva_stat_signtest((uint64_t)t->win, (uint64_t)t->loss);
    return KVA_OK;
}

/* One stratum while it grows. */
struct grow {
    double *a, *b;
    int *cluster, n, cap;
    int model, task;
};

static bool grow_add(struct grow *g, const struct kva_pairs *p)
{
    int n = g->n + p->n;

    if (n > g->cap) {
        int cap = 2 * n;
        double *a = kva_realloc(g->a, (size_t)cap, sizeof *a), *b;
        int *cl;

        if (!a)
            return false;
        g->a = a;
        b = kva_realloc(g->b, (size_t)cap, sizeof *b);
        if (!b)
            return false;
        g->b = b;
        cl = kva_realloc(g->cluster, (size_t)cap, sizeof *cl);
        if (!cl)
            return false;
        g->cluster = cl;
        g->cap = cap;
    }
    memcpy(g->a + g->n, p->s[0].a, (size_t)p->n * sizeof *g->a);
    memcpy(g->b + g->n, p->s[0].b, (size_t)p->n * sizeof *g->b);
    memcpy(g->cluster + g->n, p->clusters, (size_t)p->n * sizeof *g->cluster);
    g->n = n;
    return true;
}

static int cmp_digest(const void *p, const void *q)
{
    return memcmp(p, q, 32);
}

/* SHA-256 of the sorted digests of one side's cells. */
static bool side_digest(const struct kva_data *d, const struct kva_duels *u,
                        const int *at, int n, bool b, uint8_t out[32])
{
    uint8_t(*all)[32] = kva_calloc((size_t)n + 1, sizeof *all);
    size_t m = 0;

    if (!all)
        return false;
    for (int i = 0; i < n; i++) {
        const struct kva_duel *x = &u->v[at ? at[i] : i];

        if (x->valid)
            memcpy(all[m++], d->cells[b ? x->b : x->a].digest, 32);
    }
    qsort(all, m, 32, cmp_digest);
    kva_sha256_of(all, 32 * m, out);
    free(all);
    return true;
}

static enum kva_status mean_of_strata(const struct kva_data *d, const struct kva_duels *u,
                                      const int *at, int n_at, struct grow *g, int n,
                                      const char **label,
                                      const struct kva_duel_rules *rules,
                                      struct kva_tally *t, struct kva_error *err)
{
    struct kva_stratum *s = kva_calloc((size_t)n + 1, sizeof *s);
    uint8_t da[32], db[32];
    uint32_t seed;
    enum kva_status rc;

    if (!s || !side_digest(d, u, at, n_at, false, da) ||
        !side_digest(d, u, at, n_at, true, db)) {
        free(s);
        return KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
    }
    seed = kva_stat_boot_seed(da, db, rules->seed);
    for (int k = 0; k < n; k++) {
        int units;

        s[k] = (struct kva_stratum){.name = label[k],
                                    .a = g[k].a,
                                    .b = g[k].b,
                                    .n = (size_t)g[k].n,
                                    .cluster = g[k].cluster};
        units = (int)kva_stat_units(&s[k], 1);
        if (units == 0 && g[k].n > 0) {
            free(s);
            return KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
        }
        if (units == g[k].n)
            s[k].cluster = NULL;
        t->units += units;
    }
    t->strata = n;
    rc = kva_stat_bootstrap(s, (size_t)n, seed, rules->replicates, false, &t->boot, err);
    if (rules->measure != KVA_MEASURE_SCORE)
        t->boot.mde = (double)NAN;
    t->p = kva_stat_signflip(s, (size_t)n, seed, rules->replicates);
    if (rc == KVA_OK && isnan(t->p))
        rc = KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
    free(s);
    return rc;
}

enum kva_status kva_tally_mean(const struct kva_data *d, const struct kva_cells *c,
                               const struct kva_duels *u, const int *at, int n_at,
                               const struct kva_duel_rules *rules, struct kva_tally *t,
                               struct kva_error *err)
{
    int most = at ? n_at : u->n, n = 0;
    struct grow *g = kva_calloc((size_t)most + 1, sizeof *g);
    const char **label = kva_calloc((size_t)most + 1, sizeof *label);
    enum kva_status rc = KVA_OK;

    t->boot =
        (struct kva_boot){.ratio = (double)NAN, .diff = (double)NAN, .mde = (double)NAN};
    t->p = (double)NAN;
    t->strata = t->units = 0;
    if (!g || !label) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
        goto out;
    }
    for (int i = 0; i < most; i++) {
        const struct kva_duel *x = &u->v[at ? at[i] : i];
        struct kva_pairs p;
        int k = 0;
        bool ok;

        if (!x->valid)
            continue;
        while (k < n &&
               (g[k].task != d->cells[x->a].task || g[k].model != d->cells[x->a].model))
            k++;
        if (k == n) {
            g[n].task = d->cells[x->a].task;
            g[n].model = d->cells[x->a].model;
            label[n++] = c->label[d->cells[x->a].task];
        }
        KVA_GO(paired(d, c, x, rules->measure, &p, err));
        ok = grow_add(&g[k], &p);
        kva_pairs_release(&p);
        if (!ok) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
            goto out;
        }
    }
    if (n)
        rc = mean_of_strata(d, u, at, most, g, n, label, rules, t, err);
out:
    for (int k = 0; g && k < n; k++) {
        free(g[k].a);
        free(g[k].b);
        free(g[k].cluster);
    }
    free(g);
    free(label);
    return rc;
}
