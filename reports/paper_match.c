/* SPDX-License-Identifier: GPL-3.0-or-later */
/* paper_match.c - finds what was measured for a printed number (reports.md 2.9).
 *
 * A measured row is comparable only if model family, method with its parameters, budget,
 * visibility, context length, number of samples (at least half of the published) and the
 * rule of the mean agree; otherwise it is shown with the fields that differ and without a
 * flag. Of several rows the one with the fewest differences stands. Masked rows are never
 * taken: published masks simulate what is freed here.
 *
 *   match  lo - e <= published <= hi + e, [lo, hi] the measured 95 % interval and e the
 *          published number's own standard error (published.h)
 *   loss   100 (1 - mean(method) / mean(dense)); retention 100 mean(method)/mean(dense),
 *          both from the means, interval by the paired bootstrap */
#include "reports/paper.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TASKS = 16, ENOUGH = 2 }; /* samples: published / ENOUGH */

/* ---- names ---- */

static char *lower_copy(const char *s)
{
    char *out = strdup(s);

    for (char *p = out; p && *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return out;
}

static bool alnum(char c)
{
    return isalnum((unsigned char)c) || c == '.';
}

static bool digit(char c)
{
    return isdigit((unsigned char)c) || c == '.';
}

/* Is the word there, and not as part of a longer number ("8b" in "18b")? */
static bool has_word(const char *text, const char *word, size_t n)
{
    for (const char *p = text; *p; p++) {
        if (strncmp(p, word, n) != 0)
            continue;
        if (digit(word[0]) && p > text && digit(p[-1]))
            continue;
        if (digit(word[n - 1]) && isdigit((unsigned char)p[n]))
            continue;
        return true;
    }
    return false;
}

bool kva_paper_same_model(const char *published, const char *measured)
{
    char *want = lower_copy(published), *have = lower_copy(measured);
    bool same = want && have && *want;

    for (const char *p = want; same && *p;) {
        size_t n = 0;

        while (alnum(p[n]))
            n++;
        same = n == 0 || has_word(have, p, n);
        p += n ? n : 1;
    }
    free(want);
    free(have);
    return same;
}

/* Names of the parts without their parameters: "snapkv+uniform". */
static void parts_of(const char *spec, struct kva_buf *out)
{
    bool name = true;

    kva_buf_puts(out, "");
    for (; *spec; spec++) {
        if (*spec == '+')
            name = true;
        else if (*spec == ':')
            name = false;
        if (name)
            kva_buf_putc(out, *spec);
    }
}

/* ---- measured rows ---- */

static bool same_arm(const struct kva_paper_match *m, int a, int b)
{
    const struct kva_data *d = m->d;
    const struct kva_data_cell *x = &d->cells[a], *y = &d->cells[b];
    const struct kva_protocol *p = &m->c.protocol[x->task], *q = &m->c.protocol[y->task];

    return x->model == y->model && x->budget == y->budget &&
           d->tasks[x->task].ctx == d->tasks[y->task].ctx &&
           strcmp(x->method, y->method) == 0 &&
           strcmp(x->budget_kind, y->budget_kind) == 0 &&
           strcmp(x->schedule, y->schedule) == 0 && strcmp(x->enforce, y->enforce) == 0 &&
           strcmp(x->visibility, y->visibility) == 0 &&
           strcmp(x->numerics, y->numerics) == 0 && strcmp(x->kv, y->kv) == 0 &&
           strcmp(m->c.variant[a], m->c.variant[b]) == 0 &&
           strcmp(p->dialect, q->dialect) == 0 && strcmp(p->profile, q->profile) == 0;
}

static enum kva_status add_cell(struct kva_paper_match *m, int cell,
                                struct kva_error *err)
{
    const struct kva_data *d = m->d;
    struct kva_paper_arm *a = NULL;
    int task = d->cells[cell].task;

    for (int i = 0; i < m->n_arm && !a; i++)
        if (m->arm[i].of[task] < 0 && same_arm(m, m->arm[i].cell, cell))
            a = &m->arm[i];
    if (!a) {
        a = &m->arm[m->n_arm];
        a->cell = cell;
        a->ctx = d->tasks[task].ctx;
        a->of = kva_arena_alloc(m->arena, (size_t)d->n_tasks, sizeof *a->of);
        if (!a->of)
            return KVA_FAIL(err, KVA_ENOMEM, "paper table: out of memory");
        for (int t = 0; t < d->n_tasks; t++)
            a->of[t] = -1;
        m->n_arm++;
    }
    a->of[task] = cell;
    return KVA_OK;
}

enum kva_status kva_paper_match_init(struct kva_paper_match *m, struct kva_report *r,
                                     const struct kva_published_set *set,
                                     const struct kva_data *d, kva_paper_canonical how,
                                     struct kva_error *err)
{
    memset(m, 0, sizeof *m);
    m->set = set;
    m->canonical = how;
    m->arena = &r->arena;
    if (!d || d->n_cells == 0)
        return KVA_OK;
    m->d = d;
    KVA_TRY(kva_cells_prepare(r, d, &m->c, err));
    m->arm = kva_calloc((size_t)d->n_cells, sizeof *m->arm);
    if (!m->arm)
        return KVA_FAIL(err, KVA_ENOMEM, "paper table: out of memory");
    for (int i = 0; i < d->n_cells; i++) {
        const struct kva_data_cell *c = &d->cells[i];

        if (!m->c.left_out[i] && strcmp(c->method, "blind") != 0 &&
            (strcmp(c->enforce, "physical") == 0 || strcmp(c->enforce, "dense") == 0))
            KVA_TRY(add_cell(m, i, err));
    }
    return KVA_OK;
}

void kva_paper_match_release(struct kva_paper_match *m)
{
    if (m->d)
        kva_cells_release(&m->c);
    free(m->arm);
    m->arm = NULL;
}

/* ---- the tasks of a number ---- */

static int data_task(const struct kva_paper_match *m, const struct kva_paper_arm *a,
                     const char *suite, size_t n_suite, const char *name)
{
    for (int t = 0; t < m->d->n_tasks; t++) {
        const struct kva_data_task *x = &m->d->tasks[t];
        size_t n = strlen(name);

        /* essays of the user's in place of the carried ones make no other task */
        if (a->of[t] >= 0 && strlen(x->suite) == n_suite &&
            strncmp(x->suite, suite, n_suite) == 0 && strncmp(x->name, name, n) == 0 &&
            (x->name[n] == 0 || strcmp(x->name + n, ":haystack=essays") == 0))
            return t;
    }
    return -1;
}

struct tasks {
    const struct kva_group *g; /* NULL: one task */
    int task[MAX_TASKS], n;
    bool domains; /* the mean of domain means */
};

/* False when the arm lacks one. */
static bool tasks_of(const struct kva_paper_match *m, const struct kva_published *p,
                     const struct kva_paper_arm *a, struct tasks *out)
{
    size_t n = (size_t)(kva_published_task(p) - p->task) - 1;
    bool ruler = strncmp(p->task, "ruler/", 6) == 0;

    memset(out, 0, sizeof *out);
    if (strcmp(p->aggregation, "task") == 0 ||
        (!ruler && strncmp(p->task, "longbench/", 10) != 0)) {
        out->task[0] = data_task(m, a, p->task, n, kva_published_task(p));
        out->n = 1;
        return out->task[0] >= 0;
    }
    out->domains = strcmp(p->aggregation, "avg6") == 0;
    out->g = kva_group_find(ruler ? "ruler13" : out->domains ? "avg6" : "avg16");
    for (int i = 0; i < out->g->n; i++) {
        int t;

        if (strcmp(p->aggregation, "domain") == 0 &&
            !kva_group_in_domain(kva_published_task(p), out->g->task[i]))
            continue;
        t = data_task(m, a, p->task, n, out->g->task[i]);
        if (t < 0)
            return false;
        out->task[out->n++] = t;
    }
    return true;
}

/* ---- its value ---- */

static const struct kva_paper_arm *dense_of(const struct kva_paper_match *m,
                                            const struct kva_paper_arm *a,
                                            const struct tasks *t)
{
    int dense = m->c.dense[a->of[t->task[0]]];

    for (int i = 0; i < m->n_arm && dense >= 0; i++)
        if (m->arm[i].of[t->task[0]] == dense)
            return &m->arm[i];
    return NULL;
}

static void from_mean(const struct kva_pairs *p, const struct tasks *t,
                      struct kva_measured *out)
{
    double score[MAX_TASKS], sum = 0;

    for (int i = 0; i < p->n_strata; i++) {
        score[i] = kva_stat_mean(p->s[i].a, p->s[i].n);
        sum += score[i];
    }
    if (t->domains) {
        out->value = 100 * kva_group_mean(t->g, score, false);
        return; /* no interval for a mean of domain means */
    }
    out->value = 100 * sum / p->n_strata;
    out->ci = kva_stat_arm(p->s, (size_t)p->n_strata);
    out->ci.lo *= 100;
    out->ci.hi *= 100;
}

static enum kva_status from_ratio(const struct kva_pairs *p, bool loss,
                                  struct kva_measured *out, struct kva_error *err)
{
    struct kva_boot boot;

    KVA_TRY(kva_stat_bootstrap(p->s, (size_t)p->n_strata, 1, 2000, false, &boot, err));
    if (isnan(boot.ratio))
        return KVA_OK;
    out->value = loss ? 100 * (1 - boot.ratio) : 100 * boot.ratio;
    out->ci.ok = boot.ratio_ci.ok;
    out->ci.lo = 100 * (loss ? 1 - boot.ratio_ci.hi : boot.ratio_ci.lo);
    out->ci.hi = 100 * (loss ? 1 - boot.ratio_ci.lo : boot.ratio_ci.hi);
    return KVA_OK;
}

enum kva_status kva_paper_value(const struct kva_paper_match *m,
                                const struct kva_published *p,
                                const struct kva_paper_arm *arm, struct kva_measured *out,
                                struct kva_error *err)
{
    bool loss = strcmp(p->aggregation, "loss") == 0;
    bool ratio = loss || strcmp(p->aggregation, "retention") == 0;
    const struct kva_paper_arm *other = arm;
    const char *label[MAX_TASKS];
    int x[MAX_TASKS], y[MAX_TASKS];
    bool used[MAX_TASKS];
    struct kva_pairs pairs;
    struct tasks t;
    enum kva_status rc = KVA_OK;

    *out = (struct kva_measured){.value = (double)NAN, .differs = ""};
    if (!tasks_of(m, p, arm, &t))
        return KVA_OK;
    if (ratio)
        other = dense_of(m, arm, &t);
    if (!other)
        return KVA_OK;
    for (int i = 0; i < t.n; i++) {
        x[i] = arm->of[t.task[i]];
        y[i] = other->of[t.task[i]];
        label[i] = m->c.label[t.task[i]];
        used[i] = true;
        if (y[i] < 0)
            return KVA_OK;
    }
    KVA_TRY(kva_pairs_of(m->d, &m->c,
                         &(struct kva_pair_cells){x, y, NULL, used, label, t.n},
                         KVA_MEASURE_SCORE, &pairs, err));
    out->cell = x[0];
    out->n = pairs.n_strata ? (int)pairs.s[0].n : 0;
    for (int i = 0; i < pairs.n_strata; i++)
        out->n = (int)pairs.s[i].n < out->n ? (int)pairs.s[i].n : out->n;
    if (pairs.valid && out->n > 0) {
        if (ratio)
            rc = from_ratio(&pairs, loss, out, err);
        else
            from_mean(&pairs, &t, out);
        out->model = m->d->models[m->d->cells[arm->cell].model].name;
    }
    kva_pairs_release(&pairs);
    return rc;
}

/* ---- which arm ---- */

bool kva_paper_same_parts(const struct kva_paper_match *m, const struct kva_published *p,
                          const struct kva_paper_arm *arm)
{
    const struct kva_data_cell *c = &m->d->cells[arm->cell];
    struct kva_buf want, a, b;
    bool same = false;

    if (!p->method[0])
        return false;
    kva_buf_init(&want, 0);
    kva_buf_init(&a, 0);
    kva_buf_init(&b, 0);
    if (m->canonical(p->method, c->schedule, &want) && !want.failed) {
        parts_of(want.data, &a);
        parts_of(c->method, &b);
        same = !a.failed && !b.failed && strcmp(a.data, b.data) == 0;
    }
    kva_buf_release(&want);
    kva_buf_release(&a);
    kva_buf_release(&b);
    return same;
}

static bool same_budget(const struct kva_published *p, const struct kva_data_cell *c)
{
    const char *eq = strchr(p->budget, '=');
    double v;

    if (!eq)
        return strcmp(p->budget, c->budget_kind) == 0;
    return strlen(c->budget_kind) == (size_t)(eq - p->budget) &&
           strncmp(c->budget_kind, p->budget, (size_t)(eq - p->budget)) == 0 &&
           kva_parse_f64(eq + 1, &v) && fabs(v - c->budget) < 5e-5;
}

static int differ(struct kva_buf *out, const char *what, const char *mine,
                  const char *theirs)
{
    kva_buf_printf(out, "%s%s %s (%s)", out->len ? ", " : "", what, mine, theirs);
    return 1;
}

static int differ_number(struct kva_buf *out, const char *what, int mine, int theirs)
{
    char a[16] = "uncut", b[16] = "not stated";

    if (mine)
        (void)snprintf(a, sizeof a, "%d", mine);
    if (theirs)
        (void)snprintf(b, sizeof b, "%d", theirs);
    return differ(out, what, a, b);
}

/* The same text, but where ours names no file ("profile=") any file will do: whose heads
 * a paper measured is not published. */
static bool same_spec(const char *want, const char *have)
{
    for (; *want && *want == *have; want++, have++)
        if (*want == '=' && (want[1] == 0 || want[1] == ',' || want[1] == '+'))
            have += strcspn(have + 1, ",+");
    return *want == *have;
}

int kva_paper_differences(const struct kva_paper_match *m, const struct kva_published *p,
                          const struct kva_paper_arm *a, int n, struct kva_buf *out)
{
    const struct kva_data_cell *c = &m->d->cells[a->cell];
    bool dense = strcmp(c->method, "dense") == 0;
    struct kva_buf want;
    int diff = 0;

    kva_buf_puts(out, "");
    if (!kva_paper_same_model(p->model, m->d->models[c->model].name))
        diff += differ(out, "model", m->d->models[c->model].name,
                       p->model[0] ? p->model : "not stated");
    kva_buf_init(&want, 0);
    if (!dense && m->canonical(p->method, c->schedule, &want) &&
        (want.failed || !same_spec(want.data, c->method)))
        diff += differ(out, "parameters", c->method, p->method);
    kva_buf_release(&want);
    if (!dense && strcmp(p->visibility, c->visibility) != 0)
        diff += differ(out, "visibility", c->visibility,
                       p->visibility[0] ? p->visibility : "not stated");
    if (p->ctx ? a->ctx != p->ctx : a->ctx != 0)
        diff += differ_number(out, "context", a->ctx, p->ctx);
    if (p->n && n && n * ENOUGH < p->n)
        diff += differ_number(out, "samples", n, p->n);
    return diff;
}

static void judge(const struct kva_paper_match *m, const struct kva_published *p,
                  struct kva_measured *x)
{
    double e = kva_published_error(m->set, p);

    if (x->differs[0] || !x->ci.ok || !isnan(p->hi))
        x->flag = KVA_PAPER_NA;
    else
        x->flag = p->value >= x->ci.lo - e && p->value <= x->ci.hi + e ? KVA_PAPER_MATCH
                                                                       : KVA_PAPER_OFF;
}

enum kva_status kva_paper_measure(const struct kva_paper_match *m,
                                  const struct kva_published *p, struct kva_measured *out,
                                  struct kva_error *err)
{
    int best = -1;

    *out = (struct kva_measured){.value = (double)NAN,
                                 .differs = "",
                                 .flag = kva_published_measurable(p) ? KVA_PAPER_MISSING
                                                                     : KVA_PAPER_OUTSIDE};
    if (!m->d || out->flag == KVA_PAPER_OUTSIDE || !p->model[0])
        return KVA_OK;
    for (int i = 0; i < m->n_arm; i++) {
        const struct kva_data_cell *c = &m->d->cells[m->arm[i].cell];
        struct kva_measured x;
        struct kva_buf why;
        int diff;

        if (!kva_paper_same_model(p->model, m->d->models[c->model].name) ||
            !same_budget(p, c) || !kva_paper_same_parts(m, p, &m->arm[i]))
            continue;
        KVA_TRY(kva_paper_value(m, p, &m->arm[i], &x, err));
        if (isnan(x.value))
            continue;
        kva_buf_init(&why, 0);
        diff = kva_paper_differences(m, p, &m->arm[i], x.n, &why);
        if (best < 0 || diff < best) {
            best = diff;
            *out = x;
            out->differs = why.failed ? NULL : kva_report_clean(m->arena, why.data);
        }
        kva_buf_release(&why);
        if (!out->differs)
            return KVA_FAIL(err, KVA_ENOMEM, "paper table: out of memory");
    }
    if (best >= 0)
        judge(m, p, out);
    return KVA_OK;
}
