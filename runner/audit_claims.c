/* SPDX-License-Identifier: GPL-3.0-or-later */
/* audit_claims.c - the decision rules of analysis.md 6.3, worked examples M1 and M2. */
#include "runner/audit_claims.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const kva_claim_ids[KVA_CLAIMS] = {"K1", "K2", "K3", "K4",
                                               "K5", "K6", "K7", "K8"};
const char *const kva_claim_names[KVA_CLAIMS] = {
    "bytes", "ratio", "equal", "score", "agnostic", "incremental", "peak", "decode"};
const char *const kva_split_names[KVA_SPLITS] = {"total", "storage", "overshoot",
                                                 "uniformity", "claim"};

const char *kva_finding_text(enum kva_finding f)
{
    static const char *const text[] = {"REFUTED",  "UNDECIDED", "UNTESTED",
                                       "UPHELD-C", "UPHELD",    "N/A"};

    return text[f];
}

static struct kva_claim_result result(enum kva_finding f, const char *reason,
                                      double value, double threshold)
{
    struct kva_claim_result r = {.verdict = f,
                                 .reason = reason,
                                 .value = value,
                                 .threshold = threshold,
                                 .lo = NAN,
                                 .hi = NAN};

    return r;
}

static void say(struct kva_claim_result *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void say(struct kva_claim_result *r, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(r->note, sizeof r->note, fmt, ap);
    va_end(ap);
}

struct kva_claim_result kva_claim_note(enum kva_finding f, const char *fmt, ...)
{
    struct kva_claim_result r = result(f, NULL, NAN, NAN);
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(r.note, sizeof r.note, fmt, ap);
    va_end(ap);
    return r;
}

void kva_claim_append(struct kva_claim_result *r, const char *text)
{
    size_t n = strlen(r->note);

    snprintf(r->note + n, sizeof r->note - n, "%s%s", n > 0 ? "; " : "", text);
}

void kva_claim_worse(struct kva_claim_result *into, const struct kva_claim_result *r)
{
    if (r->verdict < into->verdict ||
        (r->verdict == into->verdict && (isnan(into->value) || r->value > into->value)))
        *into = *r;
}

enum kva_finding kva_claims_headline(const struct kva_claim_result r[KVA_CLAIMS])
{
    enum kva_finding worst = KVA_NOT_CLAIMED;

    for (int k = 0; k < KVA_CLAIMS; k++)
        worst = r[k].verdict < worst ? r[k].verdict : worst;
    return worst;
}

/* ---- K1, K2 ---- */

double kva_claim_packed(const struct kva_claim_bytes *b)
{
    double entries = b->kept + b->masked;

    return entries * (b->row + 4) + 4.0 * (b->kvheads + 2) + b->state;
}

struct kva_claim_result kva_claim_bytes(const struct kva_claim_bytes *b)
{
    double ratio = (b->held + b->meta) / b->nominal;
    struct kva_claim_result r = result(KVA_UPHELD, NULL, ratio, KVA_BYTE_TOL);

    if (!(b->nominal > 0))
        return kva_claim_note(KVA_UNTESTED, "no nominal bytes are known");
    if (ratio <= KVA_BYTE_TOL)
        return r;
    r.verdict = KVA_REFUTED;
    if (b->masked > 0 && b->held >= b->dense) {
        r.reason = "MASK_ONLY";
        say(&r, "%.2fx nominal: nothing was freed, %.0f entries are only hidden", ratio,
            b->masked);
    } else if (kva_claim_packed(b) <= KVA_BYTE_TOL * b->nominal) {
        r.verdict = KVA_UPHELD_C;
        r.reason = "PAD_WASTE";
        say(&r, "%.2fx nominal in whole pages, %.3fx in pages of one entry", ratio,
            kva_claim_packed(b) / b->nominal);
    } else {
        r.reason = "BYTES_OVER";
        if (b->state > 0)
            say(&r, "%.2fx nominal, %.2fx of it state kept between steps", ratio,
                b->state / b->nominal);
        else
            say(&r, "%.2fx nominal: %.0f entries held, %.0f are the nominal ones", ratio,
                b->kept + b->masked, b->nominal / b->row);
    }
    return r;
}

struct kva_claim_result kva_claim_ratio(double kept_share, double nominal_share)
{
    double off = fabs(kept_share - nominal_share);
    struct kva_claim_result r = result(KVA_UPHELD, NULL, off, 0.01);

    if (isnan(off))
        return kva_claim_note(KVA_UNTESTED, "no kept entries are known");
    if (off <= 0.01 + 1e-12) /* the shares are decimal fractions */
        return r;
    r.verdict = KVA_REFUTED;
    r.reason = "RATIO_DRIFT";
    say(&r, "%.2f %% of the entries kept, %.2f %% claimed", 100 * kept_share,
        100 * nominal_share);
    return r;
}

/* ---- K3 ---- */

struct kva_claim_result kva_claim_equal(const struct kva_claim_equal *e)
{
    double tol = e->exact ? 0 : 1e-3 * e->top;
    struct kva_claim_result r =
        result(KVA_UPHELD, NULL, e->logits > 0 ? e->dlogit : e->max_nats,
               e->logits > 0 ? tol : (double)NAN);

    if (e->n == 0 && e->logits == 0)
        return kva_claim_note(KVA_UNTESTED, "no pair of masked and physical answers");
    say(&r, "%d answers%s", e->n, e->logits > 0 ? ", every logit of the probe" : "");
    if (e->sets > 0) {
        r.verdict = KVA_REFUTED;
        r.reason = "LOGIT_DRIFT";
        say(&r, "%d of %d kept sets differ", e->sets, e->n);
    } else if (e->positions) {
        r.verdict = KVA_REFUTED;
        r.reason = "POSITION_DRIFT";
        say(&r, "keys of the same entries are rotated to other positions");
    } else if ((e->exact && (e->nats > 0 || e->tokens > 0 || e->logit_rows > 0)) ||
               e->flips > 0 || (e->logits > 0 && e->dlogit > tol)) {
        r.verdict = KVA_REFUTED;
        r.reason = "LOGIT_DRIFT";
        say(&r, "%d of %d answers and %d of %d logit rows differ, by up to %.3g",
            e->tokens > e->nats ? e->tokens : e->nats, e->n, e->logit_rows, e->logits,
            e->dlogit);
    } else if (e->tokens > 0) {
        r.verdict = KVA_UNDECIDED;
        say(&r, "%d of %d answers differ in fast arithmetic; --exact decides", e->tokens,
            e->n);
    }
    return r;
}

double kva_fakekey_leak(const double *score, const double *value, const uint8_t *gone,
                        int n, double cap, double *exact)
{
    double most = cap > 0 ? -cap : (double)-INFINITY, live = 0, sum = 0, fake = 0,
           hidden = 0;

    for (int i = 0; i < n; i++)
        if (!gone[i])
            most = fmax(most, score[i]);
    for (int i = 0; i < n; i++) {
        double w = !gone[i] ? exp(score[i] - most) : cap > 0 ? exp(-cap - most) : 0;

        *(gone[i] ? &fake : &live) += w;
        *(gone[i] ? &hidden : &sum) += w * value[i];
    }
    if (exact != NULL)
        *exact = sum / live;
    return (sum + hidden) / (live + fake) - sum / live;
}

/* ---- K4 ---- */

static const uint8_t PARTS[KVA_SPLITS][2] = {{0, 2}, {0, 1}, {1, 3}, {3, 2}, {0, 3}};

static enum kva_status of_nats(const struct kva_split_task *t, size_t n_tasks,
                               const uint8_t part[2], struct kva_difference *d,
                               struct kva_error *err)
{
    double *x = kva_calloc(d->n, sizeof *x);
    size_t k = 0;

    if (x == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%zu differences", d->n);
    for (size_t i = 0; i < n_tasks; i++)
        for (size_t j = 0; j < t[i].n; j++)
            x[k++] = t[i].arm[part[0]][j] - t[i].arm[part[1]][j];
    d->mean = kva_stat_mean(x, k);
    d->ci = kva_stat_t(x, k);
    free(x);
    return KVA_OK;
}

static enum kva_status of_scores(const struct kva_split_task *t, size_t n_tasks,
                                 const uint8_t part[2], uint32_t seed,
                                 struct kva_difference *d, struct kva_error *err)
{
    struct kva_stratum *s = kva_calloc(n_tasks, sizeof *s);
    struct kva_boot boot = {0};
    enum kva_status rc;

    if (s == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "%zu tasks", n_tasks);
    for (size_t i = 0; i < n_tasks; i++)
        s[i] = (struct kva_stratum){.name = t[i].name,
                                    .a = t[i].arm[part[0]],
                                    .b = t[i].arm[part[1]],
                                    .cluster = t[i].cluster,
                                    .n = t[i].n};
    rc = kva_stat_bootstrap(s, n_tasks, seed, 10000, false, &boot, err);
    d->mean = boot.diff;
    d->ci = boot.diff_ci;
    free(s);
    return rc;
}

enum kva_status kva_claim_split(const struct kva_split_task *t, size_t n_tasks,
                                bool unbounded, uint32_t seed,
                                struct kva_difference out[KVA_SPLITS],
                                struct kva_error *err)
{
    for (int k = 0; k < KVA_SPLITS; k++) {
        struct kva_difference *d = &out[k];
        bool missing = n_tasks == 0;

        *d = (struct kva_difference){.mean = NAN, .same = true};
        for (size_t i = 0; i < n_tasks; i++) {
            const double *a = t[i].arm[PARTS[k][0]], *b = t[i].arm[PARTS[k][1]];

            missing = missing || a == NULL || b == NULL || t[i].n == 0;
            for (size_t j = 0; !missing && j < t[i].n; j++)
                d->same = d->same && a[j] == b[j];
            d->n += t[i].n;
        }
        if (missing) {
            d->n = 0;
            d->same = false;
            continue;
        }
        KVA_TRY(unbounded ? of_nats(t, n_tasks, PARTS[k], d, err)
                          : of_scores(t, n_tasks, PARTS[k], seed, d, err));
    }
    return KVA_OK;
}

double kva_claim_needed(double mean, double half, double n, double tol)
{
    double room = fabs(mean) < tol ? tol - fabs(mean) : mean - tol;

    if (!(room > 0) || !(half > 0) || !(n > 0))
        return NAN;
    return ceil(n * (half / room) * (half / room));
}

struct kva_claim_result kva_claim_score(const struct kva_difference *d, bool identical)
{
    struct kva_claim_result r = result(KVA_UPHELD, NULL, d->mean, KVA_SCORE_TOL);
    double needed;

    if (isnan(d->mean))
        return kva_claim_note(KVA_UNTESTED, "an arm has no outcomes");
    if (identical && d->same) {
        r.lo = r.hi = 0;
        say(&r, "the same sets at the nominal bytes: nothing to lose");
        return r;
    }
    if (d->ci.ok) {
        r.lo = d->ci.lo;
        r.hi = d->ci.hi;
    }
    if (d->ci.ok && d->ci.lo >= -KVA_SCORE_TOL && d->ci.hi <= KVA_SCORE_TOL)
        return r;
    if (d->ci.ok && d->ci.lo > KVA_SCORE_TOL) {
        r.verdict = KVA_REFUTED;
        r.reason = "SCORE_DROP";
        say(&r, "%.1f points are lost at the nominal bytes", 100 * d->mean);
        return r;
    }
    r.verdict = KVA_UNDECIDED;
    needed = d->ci.ok ? kva_claim_needed(d->mean, (d->ci.hi - d->ci.lo) / 2, (double)d->n,
                                         KVA_SCORE_TOL)
                      : (double)NAN;
    if (isnan(needed))
        say(&r, "%zu pairs do not decide, and no number would at this difference", d->n);
    else
        say(&r, "%zu pairs do not decide, about %.0f would", d->n, needed);
    return r;
}

/* ---- K5 .. K8 ---- */

double kva_claim_jaccard(const int32_t *a, int na, const int32_t *b, int nb)
{
    int i = 0, j = 0, both = 0;

    while (i < na && j < nb) {
        int32_t x = a[i], y = b[j];

        both += x == y;
        i += x <= y;
        j += y <= x;
    }
    return na + nb == 0 ? 1 : (double)both / (na + nb - both);
}

struct kva_claim_result kva_claim_leak(const struct kva_claim_leak *l)
{
    struct kva_claim_result r = result(
        KVA_UPHELD, NULL, l->heads > 0 ? (double)l->changed / l->heads : (double)NAN, 0);

    if (l->heads == 0)
        return kva_claim_note(KVA_UNTESTED, "no context was compressed with another "
                                            "question");
    say(&r, "%d other questions, none changed a kept set", l->variants);
    if (l->changed == 0)
        return r;
    r.verdict = KVA_REFUTED;
    r.reason = "QUERY_LEAK";
    say(&r,
        "%.1f %% of the KV heads keep other entries for another question, Jaccard "
        "%.3f",
        100 * r.value, l->jaccard / l->heads);
    return r;
}

struct kva_claim_result kva_claim_incremental(double rel, double tol)
{
    struct kva_claim_result r = result(KVA_UPHELD, NULL, rel, tol);

    if (rel <= tol)
        return r;
    r.verdict = KVA_REFUTED;
    r.reason = "DENSE_PREFILL";
    say(&r, "the cache is not that of a run that was cut before each block");
    return r;
}

struct kva_claim_result kva_claim_peak(double peak, double packed, double claimed)
{
    struct kva_claim_result r = result(
        KVA_UPHELD, NULL, claimed > 0 ? peak / claimed : (double)NAN, KVA_BYTE_TOL);

    if (!(claimed > 0) || !(peak > 0))
        return kva_claim_note(KVA_UNTESTED, "no row that ran alone");
    if (peak <= KVA_BYTE_TOL * claimed)
        return r;
    if (packed <= KVA_BYTE_TOL * claimed) {
        r.verdict = KVA_UPHELD_C;
        r.reason = "PAD_WASTE";
        say(&r, "%.2fx the claimed peak in whole pages", r.value);
        return r;
    }
    r.verdict = KVA_REFUTED;
    r.reason = "PEAK_OVER";
    say(&r, "%.2fx the claimed peak", r.value);
    return r;
}

struct kva_claim_result kva_claim_growth(double grown, double expected, double page,
                                         bool at_most)
{
    double off = at_most ? grown - expected : fabs(grown - expected);
    struct kva_claim_result r = result(KVA_UPHELD, NULL, grown - expected, page);

    if (off <= page)
        return r;
    r.verdict = KVA_REFUTED;
    r.reason = "BUDGET_GROWTH";
    say(&r, "grew by %.0f bytes while answering, the policy says %.0f", grown, expected);
    return r;
}
