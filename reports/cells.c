/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cells.c - from loaded outcomes to what boards need: scores per (cell, sample),
 * reference cells, source contexts, names, and which cells --only leaves out.
 *
 * The observation is (sample, rep); a cell's value for a sample is the mean over its reps
 * that are ok (reports.md 4.1). Dense and blind of a cell are the cells with the same
 * dense_key, which is everything but method, budget, enforcement, schedule and
 * visibility. */
#include "reports/internal.h"

#include <fnmatch.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- --only ---- */

struct only {
    char *text;
    const char *key[16], *glob[16];
    int n;
};

static enum kva_status only_parse(const char *s, struct only *o, struct kva_error *err)
{
    static const char *const keys[] = {"model",  "method",  "task",
                                       "budget", "enforce", NULL};
    char *save = NULL, *part;

    memset(o, 0, sizeof *o);
    if (!s || !*s)
        return KVA_OK;
    o->text = strdup(s);
    if (!o->text)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    for (part = strtok_r(o->text, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
        char *eq = strchr(part, '=');
        int k = 0;

        if (eq)
            *eq = 0;
        for (; keys[k] && strcmp(keys[k], part) != 0; k++)
            ;
        if (!eq || !keys[k]) {
            const char *near = kva_nearest(part, keys);
            enum kva_status rc = KVA_FAIL(
                err, KVA_EINVALID,
                "--only: unknown key '%s'%s%s%s; keys are model, "
                "method, task, budget, enforce",
                part, near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");

            free(o->text);
            o->text = NULL;
            return rc;
        }
        if (o->n == 16) {
            free(o->text);
            o->text = NULL;
            return KVA_FAIL(err, KVA_EINVALID, "--only: more than 16 conditions");
        }
        o->key[o->n] = keys[k];
        o->glob[o->n++] = eq + 1;
    }
    return KVA_OK;
}

static bool match(const char *glob, const char *s)
{
    return fnmatch(glob, s, 0) == 0;
}

static bool is_reference(const struct kva_data_cell *c)
{
    return strcmp(c->method, "dense") == 0 || strcmp(c->method, "blind") == 0;
}

static bool only_match(const struct only *o, const struct kva_data *d,
                       const struct kva_cells *cells, int i)
{
    const struct kva_data_cell *c = &d->cells[i];
    const struct kva_data_task *t = &d->tasks[c->task];
    char number[32], percent[40], full[48], name[512];

    (void)snprintf(number, sizeof number, "%.10g", c->budget);
    (void)snprintf(percent, sizeof percent, "%.10g%%", c->budget * 100);
    (void)snprintf(full, sizeof full, "%s%s", c->budget_kind, number);
    (void)snprintf(name, sizeof name, "%s/%s", t->suite, t->name);
    for (int k = 0; k < o->n; k++) {
        const char *g = o->glob[k];
        bool ok = true;

        if (strcmp(o->key[k], "model") == 0)
            ok = match(g, d->models[c->model].name);
        else if (strcmp(o->key[k], "task") == 0)
            ok = match(g, cells->label[c->task]) || match(g, name) || match(g, t->name);
        else if (is_reference(c)) /* dense and blind stay for every method */
            ok = true;
        else if (strcmp(o->key[k], "method") == 0)
            ok = match(g, c->method) || match(g, cells->name[i]);
        else if (strcmp(o->key[k], "budget") == 0)
            ok = match(g, number) || match(g, percent) || match(g, full);
        else
            ok = match(g, c->enforce);
        if (!ok)
            return false;
    }
    return true;
}

/* ---- names ---- */

static enum kva_status method_names(struct kva_report *r, const struct kva_data *d,
                                    struct kva_cells *c, struct kva_error *err)
{
    const char **spec = kva_calloc((size_t)d->n_cells + 1, sizeof *spec);
    const char **name = kva_calloc((size_t)d->n_cells + 1, sizeof *name);
    int *of = kva_calloc((size_t)d->n_cells + 1, sizeof *of), n = 0;
    struct kva_map seen;
    enum kva_status rc = KVA_OK;

    kva_map_init(&seen);
    if (!spec || !name || !of) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "method names: out of memory");
        goto out;
    }
    for (int i = 0; i < d->n_cells; i++) {
        const char *m = d->cells[i].method;
        int64_t at;

        if (!kva_map_get(&seen, m, strlen(m), &at)) {
            at = n;
            spec[n++] = m;
            KVA_GO(kva_map_put(&seen, m, strlen(m), at, NULL, err));
        }
        of[i] = (int)at;
    }
    KVA_GO(kva_report_short_names(&r->arena, spec, n, name, err));
    for (int i = 0; i < d->n_cells; i++)
        c->name[i] = name[of[i]];
out:
    kva_map_release(&seen);
    free(spec);
    free(name);
    free(of);
    return rc;
}

/* The rest of a cell's identity that has no column: two cells that differ in it never
 * share a board. */
static char *variant_of(struct kva_arena *a, const char *spec_json, bool sampling)
{
    static const char *const keys[] = {"budget_ref",    "chat",      "date",
                                       "harmony_final", "literal",   "sampling",
                                       "seed",          "semantics", "thinking"};
    json_t *spec = json_loads(spec_json ? spec_json : "{}", 0, NULL);
    char *out = kva_arena_strdup(a, "");

    for (size_t k = 0; k < sizeof keys / sizeof keys[0] && out; k++) {
        json_t *v = json_object_get(spec, keys[k]);
        char *text;

        if (!v || json_is_null(v) || (!sampling && strcmp(keys[k], "sampling") == 0))
            continue;
        text = json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
        if (!text)
            out = NULL;
        else
            out = kva_arena_printf(a, "%s%s%s=%s", out, *out ? ", " : "", keys[k], text);
        free(text);
    }
    json_decref(spec);
    return out ? (char *)(uintptr_t)kva_report_clean(a, out) : NULL;
}

/* ---- observations ---- */

static void observe(const struct kva_data *d, struct kva_cells *c)
{
    int n = 0, o = 0;

    for (int i = 0; i < d->n_cells; i++) {
        c->first[i] = n;
        c->first_outcome[i] = o;
        while (o < d->n_outcomes && d->outcomes[o].cell == i) {
            int sample = d->outcomes[o].sample, n_nll = 0;
            struct kva_obs *ob = &c->obs[n++];

            *ob = (struct kva_obs){.sample = sample, .score = 0, .nll = 0};
            for (; o < d->n_outcomes && d->outcomes[o].cell == i &&
                   d->outcomes[o].sample == sample;
                 o++) {
                const struct kva_data_outcome *x = &d->outcomes[o];

                if (strcmp(x->status, "ok") != 0 || isnan(x->score))
                    continue;
                ob->n_ok++;
                ob->score += x->score;
                if (!isnan(x->gold_nll)) {
                    ob->nll += x->gold_nll;
                    n_nll++;
                }
            }
            ob->score = ob->n_ok ? ob->score / ob->n_ok : (double)NAN;
            ob->nll = n_nll ? ob->nll / n_nll : (double)NAN;
        }
    }
    c->first[d->n_cells] = n;
    c->first_outcome[d->n_cells] = o;
}

enum kva_status kva_number_contexts(const struct kva_data *d, int *context, bool *shared,
                                    struct kva_error *err)
{
    struct kva_map seen;
    enum kva_status rc = KVA_OK;
    struct kva_buf key;

    kva_map_init(&seen);
    kva_buf_init(&key, 0);
    for (int i = 0; i < d->n_samples; i++) {
        const struct kva_data_sample *s = &d->samples[i];
        int64_t at;

        context[i] = i;
        if (!s->cluster || !s->cluster[0])
            continue;
        key.len = 0;
        kva_buf_add(&key, &s->task, sizeof s->task);
        kva_buf_puts(&key, s->cluster);
        KVA_GO(kva_buf_status(&key, err));
        if (kva_map_get(&seen, key.data, key.len, &at)) {
            context[i] = (int)at;
            shared[s->task] = true;
        } else {
            KVA_GO(kva_map_put(&seen, key.data, key.len, i, NULL, err));
        }
    }
out:
    kva_buf_release(&key);
    kva_map_release(&seen);
    return rc;
}

static enum kva_status references(const struct kva_data *d, struct kva_cells *c,
                                  struct kva_error *err)
{
    struct kva_map dense, blind;
    enum kva_status rc = KVA_OK;

    kva_map_init(&dense);
    kva_map_init(&blind);
    for (int i = 0; i < d->n_cells; i++) {
        const struct kva_data_cell *x = &d->cells[i];

        if (strcmp(x->method, "dense") == 0)
            KVA_GO(kva_map_put(&dense, x->dense_key, 32, i, NULL, err));
        else if (strcmp(x->method, "blind") == 0)
            KVA_GO(kva_map_put(&blind, x->dense_key, 32, i, NULL, err));
    }
    for (int i = 0; i < d->n_cells; i++) {
        int64_t at;

        c->dense[i] = kva_map_get(&dense, d->cells[i].dense_key, 32, &at) ? (int)at : -1;
        c->blind[i] = kva_map_get(&blind, d->cells[i].dense_key, 32, &at) ? (int)at : -1;
    }
out:
    kva_map_release(&dense);
    kva_map_release(&blind);
    return rc;
}

enum kva_status kva_cells_prepare(struct kva_report *r, const struct kva_data *d,
                                  struct kva_cells *c, struct kva_error *err)
{
    size_t nc = (size_t)d->n_cells + 1, nt = (size_t)d->n_tasks + 1;
    struct only only = {0};
    enum kva_status rc = KVA_OK;

    memset(c, 0, sizeof *c);
    c->obs = kva_calloc((size_t)d->n_outcomes + 1, sizeof *c->obs);
    c->first = kva_calloc(nc, sizeof *c->first);
    c->first_outcome = kva_calloc(nc, sizeof *c->first_outcome);
    c->cluster = kva_calloc((size_t)d->n_samples + 1, sizeof *c->cluster);
    c->task_clustered = kva_calloc(nt, sizeof *c->task_clustered);
    c->variant = kva_calloc(nc, sizeof *c->variant);
    c->rest = kva_calloc(nc, sizeof *c->rest);
    c->protocol = kva_calloc(nt, sizeof *c->protocol);
    c->label = kva_calloc(nt, sizeof *c->label);
    c->name = kva_calloc(nc, sizeof *c->name);
    c->left_out = kva_calloc(nc, sizeof *c->left_out);
    c->dense = kva_calloc(nc, sizeof *c->dense);
    c->blind = kva_calloc(nc, sizeof *c->blind);
    if (!c->obs || !c->first || !c->first_outcome || !c->cluster || !c->task_clustered ||
        !c->variant || !c->rest || !c->protocol || !c->label || !c->name ||
        !c->left_out || !c->dense || !c->blind)
        return KVA_FAIL(err, KVA_ENOMEM, "report: out of memory");
    KVA_GO(only_parse(r->opts.only, &only, err));
    KVA_GO(kva_protocols_read(r, d, c, err));
    KVA_GO(kva_task_labels(r, d, c, err));
    KVA_GO(method_names(r, d, c, err));
    KVA_GO(kva_number_contexts(d, c->cluster, c->task_clustered, err));
    KVA_GO(references(d, c, err));
    observe(d, c);
    for (int i = 0; i < d->n_cells; i++) {
        c->variant[i] = variant_of(&r->arena, d->cells[i].spec_json, true);
        c->rest[i] = variant_of(&r->arena, d->cells[i].spec_json, false);
        if (!c->variant[i] || !c->rest[i]) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "report: out of memory");
            goto out;
        }
        c->left_out[i] = !only_match(&only, d, c, i);
        c->n_left_out += c->left_out[i];
    }
out:
    free(only.text);
    return rc;
}

void kva_cells_release(struct kva_cells *c)
{
    free(c->obs);
    free(c->first);
    free(c->first_outcome);
    free(c->cluster);
    free(c->task_clustered);
    free(c->variant);
    free(c->rest);
    free(c->protocol);
    free(c->label);
    free(c->name);
    free(c->left_out);
    free(c->dense);
    free(c->blind);
    memset(c, 0, sizeof *c);
}
