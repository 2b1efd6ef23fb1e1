/* SPDX-License-Identifier: GPL-3.0-or-later */
/* compare_words.c - what a comparison says in sentences, and the head of its JSON. */
#include "reports/compare_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAY(x, ...)                                                                      \
    kva_list_add((x)->r, &(x)->r->footer, &(x)->r->n_footer, &(x)->r->cap_footer,        \
                 __VA_ARGS__)

enum { NAMED = 4 }; /* tasks a sentence lists */

/* "a, b and 3 more" of the tasks whose verdict is v, each once. */
static void task_list(const struct kva_compare *x, const struct kva_duels *u,
                      enum kva_verdict v, struct kva_buf *out)
{
    int n = 0;

    for (int i = 0; i < u->n; i++) {
        const char *label = x->c->label[x->d->cells[u->v[i].a].task];
        bool again = false;

        if (u->v[i].verdict[x->opts->ties] != v)
            continue;
        for (int k = 0; k < i && !again; k++)
            again = u->v[k].verdict[x->opts->ties] == v &&
                    strcmp(x->c->label[x->d->cells[u->v[k].a].task], label) == 0;
        if (again)
            continue;
        if (n < NAMED)
            kva_buf_printf(out, "%s%s", n ? ", " : "", label);
        n++;
    }
    if (n > NAMED)
        kva_buf_printf(out, " and %d more", n - NAMED);
}

static const char *points(const struct kva_compare *x)
{
    return x->opts->nats ? "nats" : "points";
}

static void amount(const struct kva_compare *x, const struct kva_tally *t,
                   struct kva_buf *out)
{
    double k = x->opts->nats ? 1 : 100;
    int digits = x->opts->nats ? 3 : 1;

    kva_buf_printf(out, "%+.*f %s", digits, t->boot.diff * k + 0.0, points(x));
    if (t->boot.diff_ci.ok)
        kva_buf_printf(out, " [%+.*f, %+.*f]", digits, t->boot.diff_ci.lo * k + 0.0,
                       digits, t->boot.diff_ci.hi * k + 0.0);
}

/* Who is ahead, by how much, and how sure. */
static void verdict(struct kva_compare *x, int match)
{
    const struct kva_duels *u = &x->duels[match];
    const struct kva_tally *t = &x->tally[match];
    struct kva_interval ci = t->boot.diff_ci;
    struct kva_buf s;
    bool sure = t->p < x->opts->alpha && ci.ok && (ci.lo > 0 || ci.hi < 0);

    kva_buf_init(&s, 0);
    kva_buf_printf(&s, "At %s ", match ? "equal bytes" : "nominal budgets");
    if (t->n == t->invalid) {
        kva_buf_printf(&s, "none of %d pairs can be judged", t->n);
    } else if (sure) {
        kva_buf_printf(&s, "%s is ahead: mean difference ",
                       x->label[t->boot.diff > 0 ? 0 : 1]);
        amount(x, t, &s);
        kva_buf_printf(&s, ", p = %.2g", t->p);
    } else {
        kva_buf_puts(&s, "no difference is shown: mean ");
        amount(x, t, &s);
        if (!isnan(t->p))
            kva_buf_printf(&s, ", p = %.2g", t->p);
        if (!isnan(t->boot.mde))
            kva_buf_printf(&s,
                           "; less than %.1f points would not be seen with %d "
                           "independent samples",
                           100 * t->boot.mde, t->units);
    }
    if (t->n > t->invalid) {
        kva_buf_printf(&s, ". A wins %d, ties %d, loses %d of %d pairs", t->win, t->tie,
                       t->loss, t->n);
        if (t->invalid)
            kva_buf_printf(&s, ", %d invalid", t->invalid);
        kva_buf_printf(
            &s, " (sign test p = %.2g%s)", t->p_sign,
            t->win + t->loss < 6
                ? "; with fewer than six decided pairs it cannot be significant"
                : "");
    }
    kva_buf_putc(&s, '.');
    if (t->win) {
        kva_buf_puts(&s, " A is ahead on ");
        task_list(x, u, KVA_WIN, &s);
        kva_buf_putc(&s, '.');
    }
    if (t->loss) {
        kva_buf_puts(&s, " B is ahead on ");
        task_list(x, u, KVA_LOSS, &s);
        kva_buf_putc(&s, '.');
    }
    if (s.failed)
        x->r->nomem = true;
    else
        SAY(x, "%s", s.data);
    kva_buf_release(&s);
}

/* Why pairs are invalid: each reason once, with its count. */
static void reasons(struct kva_compare *x, int match)
{
    const struct kva_duels *u = &x->duels[match];

    for (int i = 0; i < u->n; i++) {
        int n = 0;
        bool again = false;

        if (u->v[i].valid || !u->v[i].why)
            continue;
        for (int k = 0; k < u->n; k++)
            if (!u->v[k].valid && u->v[k].why && strcmp(u->v[k].why, u->v[i].why) == 0) {
                again |= k < i;
                n++;
            }
        if (!again)
            SAY(x, "%d pair%s of %s invalid: %s.", n, n == 1 ? "" : "s",
                match ? "equal bytes" : "nominal budgets", u->v[i].why);
    }
}

static void lone(struct kva_compare *x)
{
    const struct kva_duels *u = &x->duels[x->done[0] ? 0 : 1];

    for (int s = 0; s < 2; s++)
        if (u->n_lone[s])
            SAY(x, "%d cell%s of %s ha%s no partner%s.", u->n_lone[s],
                u->n_lone[s] == 1 ? "" : "s", x->label[s], u->n_lone[s] == 1 ? "s" : "ve",
                x->opts->list_all ? "" : " (--verbose lists them)");
}

static bool same_pairs(const struct kva_compare *x)
{
    const struct kva_duels *p = &x->duels[0], *q = &x->duels[1];
    bool same = x->done[0] && p->n == q->n;

    for (int i = 0; i < p->n && same; i++)
        same = p->v[i].a == q->v[i].a && p->v[i].b == q->v[i].b;
    return same;
}

static bool any_masked(const struct kva_compare *x)
{
    for (int i = 0; i < x->duels[1].n; i++) {
        const struct kva_data_cell *a = &x->d->cells[x->duels[1].v[i].a];

        if (strcmp(a->enforce, "mask") == 0)
            return true;
    }
    return false;
}

static void rules(struct kva_compare *x)
{
    const struct kva_compare_opts *o = x->opts;
    bool known = false, unknown = false;

    for (int m = 0; m < 2; m++)
        for (int i = 0; i < x->duels[m].n; i++) {
            known |= x->duels[m].v[i].noise_known;
            unknown |= !x->duels[m].v[i].noise_known;
        }
    if (o->ties == KVA_TIE_STAT)
        SAY(x,
            "A win or loss has an adjusted p below %.10g (Benjamini-Hochberg over the "
            "pairs of a table)%s; everything else that can be judged is a tie.",
            o->alpha, known ? " and a difference above the noise floor" : "");
    else if (o->ties == KVA_TIE_EPSILON)
        SAY(x, "A difference of at most %.10g is a tie, whatever its p.", o->epsilon);
    else
        SAY(x, "Only equal means are ties; no test decides.");
    if (o->ties == KVA_TIE_STAT && unknown && x->other_backend)
        SAY(x, "Noise floor not measured: repeat the full cache (suite key reps).");
    SAY(x,
        "Pairs are compared on the samples both sides have; under 95 %% of those planned "
        "a "
        "pair is invalid. %d draws, seed %llu.",
        o->replicates, (unsigned long long)o->seed);
}

static void side_json(const struct kva_compare *x, int s, struct kva_buf *out)
{
    const struct kva_duels *u = &x->duels[x->done[0] ? 0 : 1];

    kva_buf_printf(out, "\"%c\":{\"selector\":", "ab"[s]);
    kva_json_string(out, x->label[s]);
    kva_buf_printf(out, ",\"cells\":%d,\"without_partner\":%d},\n", x->n_cells[s],
                   u->n_lone[s]);
}

static void head(struct kva_compare *x)
{
    const struct kva_compare_opts *o = x->opts;
    struct kva_buf s;

    kva_buf_init(&s, 0);
    side_json(x, 0, &s);
    side_json(x, 1, &s);
    kva_buf_printf(&s,
                   "\"rules\":{\"metric\":\"%s\",\"ties\":\"%s\",\"epsilon\":%.17g,"
                   "\"alpha\":%.17g,\"missing\":\"%s\",\"replicates\":%d,\"seed\":%llu}",
                   o->nats ? "gold_nll" : "score", kva_tie_names[o->ties], o->epsilon,
                   o->alpha, o->missing_zero ? "zero" : "leave", o->replicates,
                   (unsigned long long)o->seed);
    x->r->json_head = s.failed ? NULL : kva_arena_strdup(&x->r->arena, s.data);
    if (!x->r->json_head)
        x->r->nomem = true;
    kva_buf_release(&s);
}

enum kva_status kva_compare_words(struct kva_compare *x, struct kva_error *err)
{
    lone(x);
    for (int m = 0; m < 2; m++) {
        if (!x->done[m])
            continue;
        if (m && same_pairs(x)) {
            SAY(x, "At equal bytes the same cells meet.");
            continue;
        }
        if (x->duels[m].n)
            verdict(x, m);
        reasons(x, m);
    }
    if (any_masked(x))
        SAY(x, "Masked cells hold, and cost, the bytes of the full cache.");
    rules(x);
    head(x);
    x->r->title = kva_arena_printf(&x->r->arena, "kvaudit compare: %s against %s",
                                   x->label[0], x->label[1]);
    if (!x->r->title || x->r->nomem)
        return KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
    return KVA_OK;
}
