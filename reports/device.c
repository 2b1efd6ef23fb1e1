/* SPDX-License-Identifier: GPL-3.0-or-later */
/* device.c - what a machine with a GPU measured: the targets of its first run, the card
 * and its ceilings, the parts of the script, times beside the roofline, memory given
 * back.
 *
 *     share = max(bytes / copy, FLOP / product) / seconds
 *
 * with the card's own measured ceilings, so that cards compare. Targets: stage K7 of
 * kernels.md 9; they are about Llama-3.1-8B with all its layers, and the seconds of the
 * prefill about one H200 (another card: the same share of its own ceilings). */
#include "reports/device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char NONE[] = "not measured";

/* What is looked for, measured or not. share: of the ceilings, 0 none; seconds: on an
 * H200. */
static const struct expected {
    const char *name, *numerics;
    int tokens, entries, sessions;
    double share, seconds;
} EXPECTED[] = {
    {"prefill", "bf16", 4096, 4096, 1, 0, 0},
    {"prefill", "bf16", 32768, 32768, 1, 0.25, 3.7},
    {"decode", "bf16", 4096, 4096, 1, 0.35, 0},
    {"decode", "bf16", 32768, 32768, 1, 0.35, 0},
    {"decode, evicted", "bf16", 4096, 2048, 1, 0.35, 0},
    {"decode, evicted", "bf16", 32768, 2048, 1, 0.35, 0},
    {"decode, wave", "bf16", 32768, 2048, 8, 0, 0},
    {"score, knorm", "bf16", 32768, 2048, 1, 0, 0},
    {"score, snapkv", "bf16", 32768, 2048, 1, 0, 0},
    {"select, knorm", "bf16", 32768, 2048, 1, 0, 0},
    {"keep and trim, knorm", "bf16", 32768, 2048, 1, 0, 0},
    {"prefill", "f32", 4096, 4096, 1, 0, 0},
    {"prefill", "f32", 32768, 32768, 1, 0, 0},
    {"decode", "f32", 32768, 32768, 1, 0, 0},
    {"decode, evicted", "f32", 32768, 2048, 1, 0, 0},
};
enum { N_EXPECTED = sizeof EXPECTED / sizeof EXPECTED[0] };

enum verdict { V_NONE, V_MET, V_MISSED, V_UNKNOWN, V_OTHER };
static const char *const VERDICT[] = {"", "met", "missed", NONE, "another model"};

struct build {
    struct kva_report *r;
    struct kva_device d;
};

/* Text in the arena; "" and nomem without memory. */
static const char *say(struct build *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static const char *say(struct build *b, const char *fmt, ...)
{
    struct kva_buf s;
    const char *c = NULL;
    va_list ap;

    kva_buf_init(&s, 0);
    va_start(ap, fmt);
    kva_buf_vprintf(&s, fmt, ap);
    va_end(ap);
    if (!s.failed)
        c = kva_arena_strdup(&b->r->arena, s.data ? s.data : "");
    kva_buf_release(&s);
    b->r->nomem |= c == NULL;
    return c ? c : "";
}

/* Seconds in the unit that fits. */
static const char *duration(struct build *b, double s)
{
    return s >= 1      ? say(b, "%.3f s", s)
           : s >= 1e-3 ? say(b, "%.2f ms", 1e3 * s)
                       : say(b, "%.1f us", 1e6 * s);
}

/* A number, or the words for none. */
static struct kva_val figure(double v)
{
    struct kva_val x = kva_val_number(v);

    if (isnan(v))
        x.text = NONE;
    return x;
}

static struct kva_val words(const char *s)
{
    return kva_val_text(s && s[0] ? s : NONE);
}

static struct kva_tab *tab(struct build *b, const char *id, const char *caption,
                           const struct kva_col *col, int n)
{
    struct kva_tab *t = kva_tab_add(b->r, id, KVA_VIEW_DEVICE, col, n);

    if (t)
        t->heading = t->caption = caption;
    return t;
}

/* ---- arithmetic ---- */

static bool on_device(const struct kva_device_time *t)
{
    return strcmp(t->model->backend, "cuda") == 0;
}

static double product_rate(const struct kva_device *d, const struct kva_device_time *t)
{
    return strcmp(t->model->numerics, "f32") == 0 ? d->f32 : d->bf16;
}

/* Seconds at the card's ceilings; NaN without them, and for work of the processor. */
static double floor_seconds(const struct kva_device *d, const struct kva_device_time *t)
{
    double memory = t->bytes / d->copy, product = t->flop / product_rate(d, t);

    if (!on_device(t) || isnan(memory) || isnan(product))
        return (double)NAN;
    return memory > product ? memory : product;
}

static double share_of(const struct kva_device *d, const struct kva_device_time *t)
{
    return t->seconds > 0 ? floor_seconds(d, t) / t->seconds : (double)NAN;
}

static const struct kva_device_time *find(const struct kva_device *d,
                                          const struct expected *e)
{
    for (int i = 0; i < d->n_time; i++) {
        const struct kva_device_time *t = &d->time[i];

        if (strcmp(t->name, e->name) == 0 &&
            strcmp(t->model->numerics, e->numerics) == 0 && t->tokens == e->tokens &&
            t->entries == e->entries && t->sessions == e->sessions)
            return t;
    }
    return NULL;
}

static bool in_seconds(const struct kva_device *d, const struct expected *e)
{
    return e->seconds > 0 && (!d->card || strstr(d->card, "H200"));
}

static enum verdict judge(const struct kva_device *d, const struct expected *e,
                          const struct kva_device_time *t)
{
    double share;

    if (!e || !(e->share > 0))
        return V_NONE;
    if (!t || isnan(t->seconds))
        return V_UNKNOWN;
    if (strcmp(t->model->shape, "llama-3.1-8b") != 0 || t->model->layers != 32)
        return V_OTHER;
    share = share_of(d, t);
    if (isnan(share))
        return V_UNKNOWN;
    if (in_seconds(d, e))
        return t->seconds <= e->seconds ? V_MET : V_MISSED;
    return share >= e->share ? V_MET : V_MISSED;
}

static const char *target_text(struct build *b, const struct expected *e)
{
    if (!e || !(e->share > 0))
        return "";
    return in_seconds(&b->d, e) ? say(b, "<= %g s", e->seconds)
                                : say(b, ">= %.0f %%", 100 * e->share);
}

/* ---- targets of the first run ---- */

enum { T_WHAT, T_TARGET, T_GOT, T_VERDICT, T_COLS };
static const struct kva_col TARGETS[T_COLS] = {
    {"criterion", "stage K7", "", KVA_COL_TEXT, 0, false, 0, false,
     "what a first run on a device has to show"},
    {"target", "target", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"measured", "measured", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"verdict", "verdict", "", KVA_COL_TEXT, 0, false, 0, false,
     "another model: the figure is not one of Llama-3.1-8B with 32 layers"}};

static void target(struct build *b, struct kva_tab *t, const char *what, const char *want,
                   const char *got, enum verdict v, struct kva_device_result *res)
{
    struct kva_row *row = kva_tab_row(b->r, t);

    res->n_met += v == V_MET;
    res->n_missed += v == V_MISSED;
    res->n_missing += v == V_UNKNOWN || v == V_OTHER;
    if (!row)
        return;
    row->role = v == V_MET || v == V_MISSED ? KVA_ROW_PLAIN : KVA_ROW_INCOMPLETE;
    row->cell[T_WHAT] = kva_val_text(what);
    row->cell[T_TARGET] = kva_val_text(want);
    row->cell[T_GOT] = words(got);
    row->cell[T_VERDICT] = kva_val_text(VERDICT[v]);
}

static enum verdict of_part(const struct kva_device_part *p)
{
    if (!p->status || !p->programs)
        return V_UNKNOWN;
    if (p->failing)
        return V_MISSED;
    return strcmp(p->status, "ok") == 0 ? V_MET : V_UNKNOWN;
}

/* Of the rows with that name the one furthest from its target. */
static void worst_time(struct build *b, struct kva_tab *t, const char *name,
                       const char *what, struct kva_device_result *res)
{
    const struct expected *worst = NULL;
    const struct kva_device_time *at = NULL;
    enum verdict v = V_MET;
    double least = (double)INFINITY;

    for (int i = 0; i < N_EXPECTED; i++) {
        const struct expected *e = &EXPECTED[i];
        const struct kva_device_time *x = find(&b->d, e);
        enum verdict one = judge(&b->d, e, x);
        double share = x ? share_of(&b->d, x) : (double)NAN;

        if (one == V_NONE || strncmp(e->name, name, strlen(name)) != 0)
            continue;
        /* one missed target is an answer, one missing figure is none */
        v = v == V_MISSED || one == V_MISSED ? V_MISSED : one == V_MET ? v : one;
        if (!worst || share < least) {
            worst = e;
            at = x;
            least = isnan(share) ? (double)INFINITY : share;
        }
    }
    target(b, t, what, target_text(b, worst),
           !at || isnan(share_of(&b->d, at))
               ? ""
               : say(b, "%s of %d tokens: %s, %.1f %% of the ceilings", at->name,
                     at->tokens, duration(b, at->seconds), 100 * share_of(&b->d, at)),
           v, res);
}

static void targets(struct build *b, struct kva_device_result *res)
{
    struct kva_tab *t =
        tab(b, "device-targets", "Targets of the first run", TARGETS, T_COLS);
    const struct kva_device_part *parity = &b->d.part[KVA_DEVICE_PARITY];
    const struct kva_device_part *check = &b->d.part[KVA_DEVICE_SANITIZER];
    const struct kva_device_eviction *worst = NULL;
    double most = -1;

    target(b, t, "parity of every kernel", "all tests pass", parity->says,
           of_part(parity), res);
    target(b, t, "memcheck, racecheck", "no finding",
           check->programs ? say(b, "%d of %d programs with findings", check->failing,
                                 check->programs)
                           : "",
           check->racecheck || check->failing ? of_part(check) : V_UNKNOWN, res);
    worst_time(b, t, "prefill", "dense prefill, 32k", res);
    worst_time(b, t, "decode", "decode, the slowest", res);
    for (int i = 0; i < b->d.n_eviction; i++) {
        const struct kva_device_eviction *e = &b->d.eviction[i];
        double off = fabs(e->seen - e->books) / e->allowed;

        if (strcmp(e->model->backend, "cuda") == 0 && off > most) {
            most = off;
            worst = e;
        }
    }
    target(b, t, "memory by the device's count", "within max(2 MiB, 2 %)",
           worst
               ? say(b, "%d tokens: off by %.1f MiB of %.1f", worst->tokens,
                     (worst->seen - worst->books) / (1 << 20), worst->allowed / (1 << 20))
               : "",
           !worst      ? V_UNKNOWN
           : most <= 1 ? V_MET
                       : V_MISSED,
           res);
}

/* ---- the card ---- */

enum { C_CARD, C_CAP, C_SM, C_MEM, C_L2, C_DRIVER, C_RUN, C_COPY, C_BF16, C_F32, C_COLS };
static const struct kva_col CARD[C_COLS] = {
    {"card", "card", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"capability", "capability", "", KVA_COL_TEXT, 0, false, 2, false, ""},
    {"processors", "SMs", "", KVA_COL_INT, 0, false, 2, false,
     "streaming multiprocessors"},
    {"memory", "memory", "", KVA_COL_BYTES, 0, false, 2, false, ""},
    {"l2", "L2", "", KVA_COL_BYTES, 0, false, 3, false, "second-level cache"},
    {"driver", "driver", "", KVA_COL_TEXT, 0, false, 4, false, "CUDA it supports"},
    {"runtime", "runtime", "", KVA_COL_TEXT, 0, false, 4, false, "CUDA linked"},
    {"copy", "copy", "TB/s", KVA_COL_REAL, 2, false, 1, false,
     "measured ceiling: bytes read and written a second within the device"},
    {"bf16", "bf16 product", "TFLOP/s", KVA_COL_REAL, 1, false, 1, false,
     "measured ceiling: a product of side 8,192"},
    {"f32", "f32 product", "TFLOP/s", KVA_COL_REAL, 1, false, 1, false,
     "measured ceiling: a product of side 8,192"}};

/* 13000 is 13.0 */
static struct kva_val version(struct build *b, double v)
{
    if (isnan(v))
        return words(NULL);
    return kva_val_text(
        say(b, "%d.%d", (int)fmin(v / 1000, 1e6), (int)fmod(v, 1000) / 10));
}

static void card(struct build *b)
{
    const struct kva_device *d = &b->d;
    struct kva_tab *t = tab(b, "device-card", "The card and its ceilings", CARD, C_COLS);
    struct kva_row *row = kva_tab_row(b->r, t);

    if (!row)
        return;
    row->role = d->card ? KVA_ROW_PLAIN : KVA_ROW_INCOMPLETE;
    row->cell[C_CARD] = words(d->card);
    row->cell[C_CAP] = words(d->capability);
    row->cell[C_SM] = figure(d->processors);
    row->cell[C_MEM] = figure(d->memory);
    row->cell[C_L2] = figure(d->l2);
    row->cell[C_DRIVER] = version(b, d->driver);
    row->cell[C_RUN] = version(b, d->runtime);
    row->cell[C_COPY] = figure(d->copy / 1e12);
    row->cell[C_BF16] = figure(d->bf16 / 1e12);
    row->cell[C_F32] = figure(d->f32 / 1e12);
    if (d->date)
        kva_tab_note(b->r, t, "%s, %s, %s in all.",
                     d->program[0] ? d->program : "unknown program",
                     d->date[0] ? d->date : "no date",
                     isnan(d->seconds) ? "no time" : say(b, "%.0f s", d->seconds));
}

/* ---- parts ---- */

enum { P_PART, P_RESULT, P_SECONDS, P_SAYS, P_COLS };
static const struct kva_col PARTS[P_COLS] = {
    {"part", "part", "", KVA_COL_TEXT, 0, false, 0, false, "tests/device/README.md"},
    {"result", "result", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"seconds", "seconds", "", KVA_COL_REAL, 1, false, 0, false, "of the whole part"},
    {"says", "what it says", "", KVA_COL_TEXT, 0, false, 0, false, ""}};

static void parts(struct build *b)
{
    struct kva_tab *t =
        tab(b, "device-parts", "Parts of tests/device/run.sh", PARTS, P_COLS);

    for (int i = 0; i < KVA_DEVICE_PARTS; i++) {
        const struct kva_device_part *p = &b->d.part[i];
        struct kva_row *row = kva_tab_row(b->r, t);

        if (!row)
            return;
        row->role = p->status && strcmp(p->status, "ok") == 0 ? KVA_ROW_PLAIN
                                                              : KVA_ROW_INCOMPLETE;
        row->cell[P_PART] = kva_val_text(kva_device_part[i]);
        row->cell[P_RESULT] = words(p->status);
        row->cell[P_SECONDS] = kva_val_number(p->seconds);
        if (isnan(p->seconds))
            row->cell[P_SECONDS].text = "";
        row->cell[P_SAYS] = kva_val_text(p->says ? p->says : "");
        if (p->why && p->why[0])
            kva_tab_note(b->r, t, "%s: %s", kva_device_part[i], p->why);
    }
}

/* ---- times ---- */

enum {
    M_NAME,
    M_NUMERICS,
    M_TOKENS,
    M_ENTRIES,
    M_SESSIONS,
    M_TIME,
    M_FLOOR,
    M_BOUND,
    M_SHARE,
    M_TARGET,
    M_VERDICT,
    M_COLS
};
static const struct kva_col TIMES[M_COLS] = {
    {"measure", "measure", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"numerics", "numerics", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"tokens", "tokens", "", KVA_COL_INT, 0, false, 0, false, "of the context"},
    {"entries", "entries", "", KVA_COL_INT, 0, false, 0, false, "kept of a KV head"},
    {"sessions", "wave", "", KVA_COL_INT, 0, false, 0, false, "sessions side by side"},
    {"time", "time", "ms", KVA_COL_REAL, 3, false, 0, false, "a prefill or a step"},
    {"floor", "ceilings", "ms", KVA_COL_REAL, 3, false, KVA_KEEP_DETAIL, false,
     "what its bytes or FLOP take at the card's measured ceilings, the larger"},
    {"bound", "bound by", "", KVA_COL_TEXT, 0, false, KVA_KEEP_DETAIL, false,
     "memory or product"},
    {"share", "share", "%", KVA_COL_PERCENT, 1, false, 1, false, "ceilings / time"},
    {"target", "target", "", KVA_COL_TEXT, 0, false, 1, false, ""},
    {"verdict", "verdict", "", KVA_COL_TEXT, 0, false, 1, false, ""}};

static void time_row(struct build *b, struct kva_tab *t, const struct expected *e,
                     const struct kva_device_time *x)
{
    const struct kva_device *d = &b->d;
    struct kva_row *row = kva_tab_row(b->r, t);

    if (!row)
        return;
    row->role = x ? KVA_ROW_PLAIN : KVA_ROW_INCOMPLETE;
    row->cell[M_NAME] = kva_val_text(x ? x->name : e->name);
    row->cell[M_NUMERICS] = kva_val_text(x ? x->model->numerics : e->numerics);
    row->cell[M_TOKENS] = kva_val_number(x ? x->tokens : e->tokens);
    row->cell[M_ENTRIES] = kva_val_number(x ? x->entries : e->entries);
    row->cell[M_SESSIONS] = kva_val_number(x ? x->sessions : e->sessions);
    row->cell[M_TIME] = figure(x ? 1e3 * x->seconds : (double)NAN);
    row->cell[M_FLOOR] = figure(x ? 1e3 * floor_seconds(d, x) : (double)NAN);
    row->cell[M_BOUND] =
        kva_val_text(!x || isnan(floor_seconds(d, x))                     ? ""
                     : x->bytes / d->copy >= x->flop / product_rate(d, x) ? "memory"
                                                                          : "product");
    row->cell[M_SHARE] = figure(x ? share_of(d, x) : (double)NAN);
    if (!x)
        row->cell[M_FLOOR].text = row->cell[M_SHARE].text = "";
    row->cell[M_TARGET] = kva_val_text(target_text(b, e));
    row->cell[M_VERDICT] = kva_val_text(VERDICT[judge(d, e, x)]);
}

static void times(struct build *b)
{
    const struct kva_device *d = &b->d;
    struct kva_tab *t =
        tab(b, "device-times", "Times and their share of the ceilings", TIMES, M_COLS);

    for (int i = 0; i < N_EXPECTED; i++)
        time_row(b, t, &EXPECTED[i], find(d, &EXPECTED[i]));
    for (int k = 0; k < d->n_time; k++) {
        bool named = false;

        for (int i = 0; i < N_EXPECTED && !named; i++)
            named = find(d, &EXPECTED[i]) == &d->time[k];
        if (!named)
            time_row(b, t, NULL, &d->time[k]);
    }
    for (int i = 0; i < d->n_model; i++)
        kva_tab_note(b->r, t,
                     "numerics %s: random weights of the shape %s, %d layers, %.2f GB "
                     "read a step, backend %s%s.",
                     d->model[i].numerics, d->model[i].shape, d->model[i].layers,
                     d->model[i].weight_bytes / 1e9, d->model[i].backend,
                     strcmp(d->model[i].backend, "cuda") == 0
                         ? ""
                         : ": not the card's, no share of its ceilings");
}

/* ---- memory ---- */

enum { W_TOKENS, W_NUMERICS, W_BOOKS, W_SEEN, W_OFF, W_ALLOWED, W_VERDICT, W_COLS };
static const struct kva_col WITNESS[W_COLS] = {
    {"tokens", "tokens", "", KVA_COL_INT, 0, false, 0, false, ""},
    {"numerics", "numerics", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"books", "given back", "", KVA_COL_BYTES, 0, false, 0, false,
     "by the store's books"},
    {"seen", "by the device", "", KVA_COL_BYTES, 0, false, 0, false,
     "by the device's own count of memory in use"},
    {"off", "difference", "", KVA_COL_BYTES, 0, false, 0, false, ""},
    {"allowed", "allowed", "", KVA_COL_BYTES, 0, false, 1, false,
     "2 MiB, or 2 % of what was committed before, the larger"},
    {"verdict", "verdict", "", KVA_COL_TEXT, 0, false, 0, false, ""}};

static void witness(struct build *b)
{
    struct kva_tab *t =
        tab(b, "device-memory", "Memory given back by an eviction", WITNESS, W_COLS);
    struct kva_row *row;

    for (int i = 0; i < b->d.n_eviction; i++) {
        const struct kva_device_eviction *e = &b->d.eviction[i];
        bool ours = strcmp(e->model->backend, "cuda") == 0;

        row = kva_tab_row(b->r, t);
        if (!row)
            return;
        row->cell[W_TOKENS] = kva_val_number(e->tokens);
        row->cell[W_NUMERICS] = kva_val_text(e->model->numerics);
        row->cell[W_BOOKS] = kva_val_number(e->books);
        row->cell[W_SEEN] = kva_val_number(e->seen);
        row->cell[W_OFF] = kva_val_number(e->seen - e->books);
        row->cell[W_ALLOWED] = kva_val_number(e->allowed);
        row->cell[W_VERDICT] =
            kva_val_text(!ours                                    ? "not the card's"
                         : fabs(e->seen - e->books) <= e->allowed ? "met"
                                                                  : "missed");
    }
    if (b->d.n_eviction || !(row = kva_tab_row(b->r, t)))
        return;
    row->role = KVA_ROW_INCOMPLETE;
    for (int c = 0; c < W_COLS; c++)
        row->cell[c].text = "";
    row->cell[W_TOKENS].text = row->cell[W_VERDICT].text = NONE;
}

enum kva_status kva_device_report(const char *json, size_t n, const char *name,
                                  const struct kva_report_opts *opts,
                                  struct kva_device_result *result, struct kva_report **r,
                                  struct kva_error *err)
{
    struct kva_device_result res = {0};
    struct build b;
    enum kva_status rc;

    *r = NULL;
    KVA_GO(kva_report_start(opts, "On a device", r, err));
    b.r = *r;
    (*r)->view = KVA_VIEW_DEVICE;
    KVA_GO(kva_device_read(*r, json, n, name, &b.d, err));
    (void)snprintf((*r)->generated, sizeof(*r)->generated, "%s",
                   b.d.date && b.d.date[0] ? b.d.date : NONE);
    targets(&b, &res);
    card(&b);
    parts(&b);
    times(&b);
    witness(&b);
    if ((*r)->nomem)
        rc = KVA_FAIL(err, KVA_ENOMEM, "report: out of memory");
    *result = res;
out:
    if (rc != KVA_OK) {
        kva_report_free(*r);
        *r = NULL;
    }
    return rc;
}
