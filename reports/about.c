/* SPDX-License-Identifier: GPL-3.0-or-later */
/* about.c - the words of a report: summary sentences, methods in full, runs, footer. */
#include "reports/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#define SAY(r, ...)                                                                      \
    kva_list_add((r), &(r)->summary, &(r)->n_summary, &(r)->cap_summary, __VA_ARGS__)
#define FOOT(r, ...)                                                                     \
    kva_list_add((r), &(r)->footer, &(r)->n_footer, &(r)->cap_footer, __VA_ARGS__)

static bool same_budget(const struct kva_arm *x, const struct kva_arm *y)
{
    return x->budget == y->budget && strcmp(x->budget_kind, y->budget_kind) == 0;
}

/* "keydiff leads (95.0)", or "keydiff and snapkv share the lead", or nothing to say. */
static void budget_sentence(const struct kva_board *b, int first, struct kva_buf *out)
{
    int leaders = 0, ranked = 0, no_rank = 0, listed = 0, samples = 0;
    double best = (double)NAN, worst = (double)NAN;

    for (int k = 0; k < b->n_arm; k++) {
        const struct kva_arm *a = &b->arm[k];

        if (a->role != KVA_ARM_METHOD || !same_budget(a, &b->arm[first]))
            continue;
        leaders += a->rank == 1;
        ranked += a->rank > 0;
        no_rank += a->rank == 0;
        samples += a->unranked == KVA_UNRANKED_SAMPLES;
        if (a->rank == 1) {
            best = isnan(best) || a->score > best ? a->score : best;
            worst = isnan(worst) || a->score < worst ? a->score : worst;
        }
    }
    kva_buf_printf(out, "At %s kept ", b->arm[first].budget_text);
    if (ranked == 0) {
        kva_buf_puts(out, samples ? "nothing is ranked: the samples differ"
                                  : "nothing is ranked");
        return;
    }
    if (ranked == 1) {
        for (int k = 0; k < b->n_arm; k++)
            if (b->arm[k].rank == 1 && same_budget(&b->arm[k], &b->arm[first]))
                kva_buf_printf(out, "only %s is ranked (score %.1f)", b->arm[k].name,
                               100 * b->arm[k].score);
    } else if (leaders == ranked) {
        kva_buf_printf(out, "all %d ranked methods are tied", ranked);
    } else {
        for (int k = 0; k < b->n_arm && listed < 5; k++)
            if (b->arm[k].rank == 1 && same_budget(&b->arm[k], &b->arm[first])) {
                kva_buf_printf(out, "%s%s",
                               listed == 0             ? ""
                               : listed == leaders - 1 ? " and "
                                                       : ", ",
                               b->arm[k].name);
                listed++;
            }
        if (leaders > 5)
            kva_buf_printf(out, " and %d more", leaders - 5);
        if (leaders == 1)
            kva_buf_printf(out, " leads (score %.1f)", 100 * best);
        else if (leaders == 2)
            kva_buf_printf(out, " are tied for the lead (scores %.1f and %.1f)",
                           100 * best, 100 * worst);
        else
            kva_buf_printf(out, " are tied for the lead (scores %.1f to %.1f)",
                           100 * worst, 100 * best);
    }
    if (no_rank)
        kva_buf_printf(out, ", %d without a rank", no_rank);
}

static void lead_sentence(struct kva_report *r, const struct kva_board *b)
{
    struct kva_buf s;

    kva_buf_init(&s, 0);
    kva_buf_puts(&s, b->model);
    if (b->n_task == 1)
        kva_buf_printf(&s, " on %s", b->task_label[0]);
    else if (b->n_used)
        kva_buf_printf(&s, ", mean of %d task%s", b->n_used, b->n_used == 1 ? "" : "s");
    if (b->ctx && b->n_task > 1)
        kva_buf_printf(&s, " at %d tokens", b->ctx);
    if (b->mark[0] && b->n_task > 1)
        kva_buf_printf(&s, ", %s", b->mark);
    if (strcmp(b->visibility, "agnostic") != 0)
        kva_buf_printf(&s, ", question %s", b->visibility);
    if (strcmp(b->schedule, "oneshot") != 0)
        kva_buf_printf(&s, ", %s", b->schedule);
    if (strcmp(b->numerics, "f32") != 0 || strcmp(b->kv, "f16") != 0)
        kva_buf_printf(&s, ", %s with %s cache", b->numerics, b->kv);
    if (b->sampling[0])
        kva_buf_printf(&s, ", answers drawn at %s", b->sampling);
    if (b->dense >= 0 && !isnan(b->arm[b->dense].score))
        kva_buf_printf(&s, ": the full cache scores %.1f (n\xc2\xa0=\xc2\xa0%d).",
                       100 * b->arm[b->dense].score, b->arm[b->dense].n_sample);
    else
        kva_buf_puts(&s, ": the full cache was not measured.");
    if (b->n_method == 0)
        kva_buf_puts(&s, " No method was measured.");
    if (s.failed)
        r->nomem = true;
    else
        SAY(r, "%s", s.data);
    kva_buf_release(&s);
}

static void board_sentence(struct kva_report *r, const struct kva_board *b)
{
    lead_sentence(r, b);
    for (int k = 0; k < b->n_arm; k++) {
        struct kva_buf s;

        if (b->arm[k].role != KVA_ARM_METHOD ||
            (k > 0 && b->arm[k - 1].role == KVA_ARM_METHOD &&
             same_budget(&b->arm[k - 1], &b->arm[k])))
            continue;
        kva_buf_init(&s, 0);
        budget_sentence(b, k, &s);
        if (s.failed)
            r->nomem = true;
        else
            SAY(r, "%s.", s.data);
        kva_buf_release(&s);
    }
}

static void summary(struct kva_report *r)
{
    int other = 0, shown = 0, missing = 0, rows = 0, untimed = 0, below = 0;
    int weak = 0;

    for (int i = 0; i < r->n_board; i++) {
        const struct kva_board *b = &r->board[i];

        if (b->single)
            continue;
        if (!b->ranks) {
            other++;
            continue;
        }
        if (shown++ < 6)
            board_sentence(r, b);
        for (int k = 0; k < b->n_arm; k++)
            if (b->arm[k].role == KVA_ARM_METHOD) {
                rows++;
                untimed += b->arm[k].n_alone == 0;
                missing += b->arm[k].expected - b->arm[k].ok;
            }
        for (int t = 0; t < b->n_task; t++) {
            below += b->below[t];
            weak += b->weak[t];
        }
    }
    if (shown > 6)
        SAY(r, "%d more leaderboards follow below.", shown - 6);
    if (other)
        SAY(r,
            "%d table%s of masked or oracle cells: simulations, never ranked beside "
            "physical eviction.",
            other, other == 1 ? "" : "s");
    if (below)
        SAY(r,
            "%d task%s below the guess floor even with the full cache: shown, not "
            "counted.",
            below, below == 1 ? "" : "s");
    if (weak)
        SAY(r,
            "%d task%s weak: the full cache is right in less than 60 of 100; not in a "
            "mean of stronger tasks.",
            weak, weak == 1 ? " is" : "s are");
    if (missing)
        SAY(r,
            "%d planned outcomes are missing or failed: rows that lack some have no "
            "rank.",
            missing);
    if (rows && untimed == rows)
        SAY(r, "Speed and peak memory were not measured.");
    else if (untimed)
        SAY(r, "Speed and peak memory were not measured for %d of %d rows.", untimed,
            rows);
}

/* ---- methods ---- */

enum { S_NAME, S_SPEC, S_COLS };
static const struct kva_col METHODS[S_COLS] = {
    {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "as in the tables"},
    {"method_spec", "specification", "", KVA_COL_TEXT, 0, false, 0, false,
     "every parameter; what --set and suites accept"},
};

static int cmp_text(const void *p, const void *q)
{
    return strcmp(*(const char *const *)p, *(const char *const *)q);
}

static void methods_table(struct kva_report *r, const struct kva_data *d,
                          const struct kva_cells *c)
{
    struct kva_tab *t = kva_tab_add(r, "methods", KVA_VIEW_ABOUT, METHODS, S_COLS);
    const char **pair = kva_calloc((size_t)d->n_cells + 1, sizeof *pair);
    int n = 0;

    if (!t || !pair) {
        r->nomem = true;
        free(pair);
        return;
    }
    t->heading = t->caption = "Methods in full";
    for (int i = 0; i < d->n_cells; i++)
        if (!c->left_out[i] && strcmp(d->cells[i].method, "dense") != 0 &&
            strcmp(d->cells[i].method, "blind") != 0)
            pair[n++] =
                kva_arena_printf(&r->arena, "%s\x1f%s", c->name[i], d->cells[i].method);
    for (int i = 0; i < n; i++)
        if (!pair[i]) {
            r->nomem = true;
            free(pair);
            return;
        }
    qsort(pair, (size_t)n, sizeof *pair, cmp_text);
    for (int i = 0; i < n; i++) {
        struct kva_row *row;
        const char *sep = strchr(pair[i], '\x1f');

        if (i && strcmp(pair[i], pair[i - 1]) == 0)
            continue;
        row = kva_tab_row(r, t);
        if (!row)
            break;
        row->cell[S_NAME] =
            kva_val_text(kva_arena_strndup(&r->arena, pair[i], (size_t)(sep - pair[i])));
        row->cell[S_SPEC] = kva_val_text(kva_report_clean(&r->arena, sep + 1));
    }
    free(pair);
}

/* ---- runs ---- */

enum { R_UUID, R_START, R_STATUS, R_LABEL, R_COMMIT, R_ENV, R_CONFIG, R_COLS };
static const struct kva_col RUNS[R_COLS] = {
    {"run", "run", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"started", "started", "UTC", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"status", "status", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"label", "label", "", KVA_COL_TEXT, 0, false, 3, false, ""},
    {"commit", "commit", "", KVA_COL_TEXT, 0, false, 1, false, "+ when modified"},
    {"environment", "environment", "", KVA_COL_TEXT, 0, false, 2, false,
     "as in the table of environments"},
    {"config_sha256", "suite SHA-256", "", KVA_COL_TEXT, 0, false, 4, false, ""},
};

static void utc(int64_t ms, char out[32])
{
    time_t s = (time_t)(ms / 1000);
    struct tm tm;

    out[0] = 0;
    if (ms > 0 && gmtime_r(&s, &tm))
        strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

/* The first digits of the digest of what may change speed. */
static const char *environment_name(struct kva_arena *a, const struct kva_data_run *x)
{
    char hex[65];

    kva_hex(x->perf_digest, 32, hex);
    return kva_arena_printf(a, "%.12s", hex);
}

static void runs_table(struct kva_report *r, const struct kva_data *d)
{
    struct kva_tab *t = kva_tab_add(r, "runs", KVA_VIEW_ABOUT, RUNS, R_COLS);
    struct kva_arena *a = &r->arena;

    if (!t)
        return;
    t->heading = t->caption = "Runs";
    for (int i = 0; i < d->n_runs; i++) {
        const struct kva_data_run *x = &d->runs[i];
        struct kva_row *row = kva_tab_row(r, t);
        char when[32], hex[65];

        if (!row)
            return;
        utc(x->started_ms, when);
        kva_hex(x->config_sha256, 32, hex);
        row->cell[R_UUID] = kva_val_text(kva_report_clean(a, x->uuid));
        row->cell[R_START] = kva_val_text(kva_arena_strdup(a, when));
        row->cell[R_STATUS] = kva_val_text(kva_report_clean(a, x->status));
        row->cell[R_LABEL] = kva_val_text(kva_report_clean(a, x->label));
        row->cell[R_COMMIT] = kva_val_text(kva_arena_printf(
            a, "%s%s", kva_report_clean(a, x->git_commit), x->git_dirty ? "+" : ""));
        row->cell[R_CONFIG] = kva_val_text(kva_arena_strdup(a, hex));
        row->cell[R_ENV] = kva_val_text(environment_name(a, x));
    }
}

/* ---- environments ---- */

enum {
    E_NAME,
    E_BACKEND,
    E_CPU,
    E_LOGICAL,
    E_RAM,
    E_GPU,
    E_GPU_BYTES,
    E_DRIVER,
    E_RUNTIME,
    E_ISA,
    E_THREADS,
    E_COMPILER,
    E_FLAGS,
    E_COLS
};
static const struct kva_col ENVIRONMENTS[E_COLS] = {
    {"environment", "environment", "", KVA_COL_TEXT, 0, false, 0, false,
     "all that may change speed; times compare inside one"},
    {"backend", "backend", "", KVA_COL_TEXT, 0, false, 0, false, ""},
    {"cpu", "processor", "", KVA_COL_TEXT, 0, false, 1, false, ""},
    {"cpu_logical", "logical CPUs", "", KVA_COL_INT, 0, false, 3, false, ""},
    {"ram_bytes", "memory", "", KVA_COL_BYTES, 0, false, 4, false, ""},
    {"gpu", "device", "", KVA_COL_TEXT, 0, false, 2, false, ""},
    {"gpu_bytes", "device memory", "", KVA_COL_BYTES, 0, false, 5, false, ""},
    {"driver", "driver", "", KVA_COL_TEXT, 0, false, 5, false,
     "the CUDA version that the driver of the device has"},
    {"cuda_runtime", "runtime", "", KVA_COL_TEXT, 0, false, 5, false,
     "the CUDA version that the program was linked with"},
    {"isa", "instructions", "", KVA_COL_TEXT, 0, false, 6, false, ""},
    {"threads", "threads", "", KVA_COL_INT, 0, false, 7, false, "of one worker"},
    {"compiler", "compiler", "", KVA_COL_TEXT, 0, false, 8, false, ""},
    {"cflags", "flags", "", KVA_COL_TEXT, 0, false, 9, false, ""},
};

static int cmp_environment(const void *p, const void *q)
{
    const struct kva_data_run *a = *(const struct kva_data_run *const *)p;
    const struct kva_data_run *b = *(const struct kva_data_run *const *)q;

    return memcmp(a->perf_digest, b->perf_digest, 32);
}

/* "isa" and "threads" stand in the description alone. */
static void described(struct kva_arena *a, const struct kva_data_run *x,
                      struct kva_val *v)
{
    json_t *doc = x->env_json ? json_loads(x->env_json, 0, NULL) : NULL;
    const char *isa = json_string_value(json_object_get(doc, "isa"));

    v[E_ISA] = kva_val_text(isa ? kva_report_clean(a, isa) : "");
    v[E_THREADS] =
        kva_val_number(json_is_integer(json_object_get(doc, "threads"))
                           ? (double)json_integer_value(json_object_get(doc, "threads"))
                           : (double)NAN);
    json_decref(doc);
}

static void environments_table(struct kva_report *r, const struct kva_data *d)
{
    struct kva_tab *t =
        kva_tab_add(r, "environments", KVA_VIEW_ABOUT, ENVIRONMENTS, E_COLS);
    const struct kva_data_run **run = kva_calloc((size_t)d->n_runs + 1, sizeof *run);
    struct kva_arena *a = &r->arena;

    if (!t || !run) {
        r->nomem = true;
        free(run);
        return;
    }
    t->heading = t->caption = "Environments";
    for (int i = 0; i < d->n_runs; i++)
        run[i] = &d->runs[i];
    qsort(run, (size_t)d->n_runs, sizeof *run, cmp_environment);
    for (int i = 0, n; i < d->n_runs; i += n) {
        const struct kva_data_run *x = run[i];
        struct kva_row *row = kva_tab_row(r, t);

        for (n = 1; i + n < d->n_runs && cmp_environment(&run[i], &run[i + n]) == 0; n++)
            continue;
        if (!row)
            break;
        row->cell[E_NAME] = kva_val_text(environment_name(a, x));
        row->cell[E_BACKEND] = kva_val_text(kva_report_clean(a, x->backend));
        row->cell[E_CPU] = kva_val_text(kva_report_clean(a, x->cpu_model));
        row->cell[E_LOGICAL] = kva_val_number(x->cpu_logical);
        row->cell[E_RAM] = kva_val_number((double)x->ram_bytes);
        row->cell[E_GPU] = kva_val_text(kva_report_clean(a, x->gpu_name));
        row->cell[E_GPU_BYTES] =
            kva_val_number(x->gpu_bytes > 0 ? (double)x->gpu_bytes : (double)NAN);
        row->cell[E_DRIVER] = kva_val_text(kva_report_clean(a, x->driver));
        row->cell[E_RUNTIME] = kva_val_text(kva_report_clean(a, x->cuda_runtime));
        described(a, x, row->cell);
        row->cell[E_COMPILER] = kva_val_text(kva_report_clean(a, x->compiler));
        row->cell[E_FLAGS] = kva_val_text(kva_report_clean(a, x->cflags));
    }
    free(run);
}

/* ---- footer ---- */

static void noise_line(struct kva_report *r)
{
    double most = 0;
    int known = 0, rank = 0;

    for (int i = 0; i < r->n_board; i++) {
        const struct kva_board *b = &r->board[i];

        rank += b->ranks && b->dense >= 0;
        known += b->ranks && b->dense >= 0 && b->noise_known;
        most = b->noise > most ? b->noise : most;
    }
    if (known)
        FOOT(r,
             "Noise floor: measured for %d of %d tables, at most %.2f points; a smaller "
             "difference is a tie.",
             known, rank, 100 * most);
    else
        FOOT(r, "Noise floor not measured: it takes 3 repetitions of the full cache "
                "(suite key reps); ties come from the tests alone.");
}

/* What stands behind the numbers, with every constant. */
static void statistics(struct kva_report *r)
{
    FOOT(r, "Scores are times 100, with 95 %% intervals: Wilson for one task that is "
            "right or wrong; Wilson at the effective size, from the observed spread, for "
            "fractions, suites and several questions on one context.");
    FOOT(r,
         "Retention: while fewer than 30 units (samples, or contexts that several share) "
         "differ from dense, or one task has fewer than 30, the t interval of the "
         "linearised ratio; else the paired bootstrap over units within tasks, 95 %% "
         "percentiles. B = %d, seed %llu.",
         r->opts.replicates, (unsigned long long)r->opts.seed);
    FOOT(r,
         "Ranks: 1 + number of methods significantly better at the same nominal budget; "
         "exact McNemar for one binary task, else paired sign flip (exact up to 20 "
         "differences, else %d flips, seed %llu); Benjamini-Hochberg over the pairs of "
         "one budget, alpha = %.3g. p of differences to dense: adjusted over the rows of "
         "one table.",
         r->opts.replicates, (unsigned long long)r->opts.seed, r->opts.alpha);
    FOOT(r,
         "Win, tie, loss: mode stat (significant and above the noise floor); beside "
         "it, where shown, exact and epsilon = %.3g.",
         KVA_EPSILON);
}

static void footer(struct kva_report *r, const struct kva_data *d,
                   const struct kva_cells *c, int shown)
{
    FOOT(r, "%d cells in the databases: %d in these tables, %d left out by --only.",
         d->n_cells, shown, c->n_left_out);
    statistics(r);
    noise_line(r);
    FOOT(r, "Held: (allocated + meta) / full cache. Smallest effect (MDE): power 0.8, "
            "alpha 0.05, 2.8 standard errors of the paired difference.");
    FOOT(r, "Pruned caches are not comparable with MLPerf closed-division results.");
    if (r->opts.command)
        FOOT(r, "Command: %s", r->opts.command);
    FOOT(r, "Database schema (user_version): %d.", KVA_DB_SCHEMA);
    FOOT(r, "Made by kvaudit %s from results up to %s.", KVA_VERSION, r->generated);
}

/* When the last run ended, or SOURCE_DATE_EPOCH. */
void kva_report_time(struct kva_report *r, const struct kva_data *d)
{
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    int64_t last = 0, fixed;

    for (int i = 0; d && i < d->n_runs; i++) {
        last = d->runs[i].started_ms > last ? d->runs[i].started_ms : last;
        last = d->runs[i].ended_ms > last ? d->runs[i].ended_ms : last;
    }
    if (epoch && kva_parse_i64(epoch, &fixed) && fixed >= 0)
        last = fixed * 1000;
    utc(last, r->generated);
    if (!r->generated[0])
        (void)snprintf(r->generated, sizeof r->generated, "an unknown time");
}

enum kva_status kva_about_build(struct kva_report *r, const struct kva_data *d,
                                const struct kva_cells *c, struct kva_error *err)
{
    bool *seen = kva_calloc((size_t)d->n_cells + 1, sizeof *seen);
    int shown = 0;

    if (!seen)
        return KVA_FAIL(err, KVA_ENOMEM, "report: out of memory");
    for (int i = 0; i < r->n_board; i++)
        for (int k = 0; k < r->board[i].n_arm; k++)
            for (int t = 0; t < r->board[i].n_task; t++)
                if (r->board[i].arm[k].cell[t] >= 0)
                    seen[r->board[i].arm[k].cell[t]] = true;
    for (int i = 0; i < d->n_cells; i++)
        shown += seen[i];
    free(seen);
    if (shown + c->n_left_out != d->n_cells)
        return KVA_FAIL(err, KVA_EINVALID,
                        "report: %d cells exist but %d are accounted for", d->n_cells,
                        shown + c->n_left_out);
    kva_report_time(r, d);
    summary(r);
    methods_table(r, d, c);
    runs_table(r, d);
    environments_table(r, d);
    footer(r, d, c, shown);
    if (r->nomem)
        return KVA_FAIL(err, KVA_ENOMEM, "report: out of memory");
    return KVA_OK;
}
