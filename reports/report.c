/* SPDX-License-Identifier: GPL-3.0-or-later */
/* report.c - building a report: defaults, boards, tables, figures. */
#include "reports/internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static enum kva_status defaults(struct kva_report *r, const struct kva_report_opts *opts,
                                struct kva_error *err)
{
    if (opts)
        r->opts = *opts;
    if (!r->opts.view)
        r->opts.view = "leaderboard";
    if (r->opts.replicates == 0)
        r->opts.replicates = 10000;
    if (!(r->opts.alpha > 0))
        r->opts.alpha = 0.05;
    if (r->opts.width <= 0)
        r->opts.width = 100;
    r->view = kva_view_of(r->opts.view);
    if (r->view == 0) {
        const char *names[KVA_MAX_VIEWS], *near;

        kva_view_names(names);
        near = kva_nearest(r->opts.view, names);
        return KVA_FAIL(err, KVA_EINVALID, "unknown view '%s'%s%s%s", r->opts.view,
                        near ? ", did you mean '" : "", near ? near : "",
                        near ? "'?" : "");
    }
    if (r->opts.replicates < 0)
        return KVA_FAIL(err, KVA_EINVALID, "a bootstrap needs at least one replicate");
    if (r->opts.command &&
        !(r->opts.command = kva_report_clean(&r->arena, r->opts.command)))
        return KVA_FAIL(err, KVA_ENOMEM, "report: out of memory");
    return KVA_OK;
}

static int cmp_label(const void *p, const void *q)
{
    return strcmp(*(const char *const *)p, *(const char *const *)q);
}

/* Longest answers the tasks allow, as words that follow the label. */
static const char *answer_limit(struct kva_report *r, const struct kva_data *d)
{
    json_int_t lo = 0, hi = 0;

    for (int i = 0; i < d->n_tasks; i++) {
        const char *gen = d->tasks[i].gen_json;
        json_t *spec = json_loads(gen ? gen : "{}", 0, NULL);
        json_int_t n = json_integer_value(json_object_get(spec, "max_new_tokens"));

        json_decref(spec);
        if (n <= 0)
            return "";
        lo = lo == 0 || n < lo ? n : lo;
        hi = n > hi ? n : hi;
    }
    if (hi == 0)
        return "";
    return lo == hi
               ? kva_arena_printf(&r->arena, " (answers of at most %lld tokens)",
                                  (long long)hi)
               : kva_arena_printf(&r->arena, " (answers of at most %lld to %lld tokens)",
                                  (long long)lo, (long long)hi);
}

/* What the suites call their results, e.g. "short": each label once, in order. */
static enum kva_status labels(struct kva_report *r, const struct kva_data *d,
                              struct kva_error *err)
{
    const char **l = kva_arena_alloc(&r->arena, (size_t)d->n_runs + 1, sizeof *l);
    struct kva_buf s;
    int n = 0, m = 0;
    bool any = false;

    if (!l)
        return KVA_FAIL(err, KVA_ENOMEM, "report: out of memory");
    for (int i = 0; i < d->n_runs; i++) {
        const char *one = d->runs[i].label;

        l[n] = kva_report_clean(&r->arena, one && one[0] ? one : "no label");
        if (!l[n++])
            return KVA_FAIL(err, KVA_ENOMEM, "report: out of memory");
        any |= one && one[0];
    }
    if (n)
        qsort(l, (size_t)n, sizeof *l, cmp_label);
    kva_buf_init(&s, 0);
    kva_buf_puts(&s, "");
    for (int i = 0; any && i < n; i++)
        if (m == 0 || strcmp(l[i], l[m - 1]) != 0) {
            kva_buf_printf(&s, "%s%s", m ? ", " : "", l[i]);
            l[m++] = l[i];
        }
    r->labels = l;
    r->limit = answer_limit(r, d);
    r->n_label = m;
    r->label = s.failed ? NULL : kva_arena_strdup(&r->arena, s.data ? s.data : "");
    kva_buf_release(&s);
    if (!r->label || !r->limit)
        return KVA_FAIL(err, KVA_ENOMEM, "report: out of memory");
    return KVA_OK;
}

enum kva_status kva_report_build(const struct kva_data *data,
                                 const struct kva_report_opts *opts,
                                 struct kva_report **out, struct kva_error *err)
{
    struct kva_report *r = kva_calloc(1, sizeof *r);
    struct kva_cells c = {0};
    enum kva_status rc;

    *out = NULL;
    if (!r)
        return KVA_FAIL(err, KVA_ENOMEM, "report: out of memory");
    kva_arena_init(&r->arena);
    KVA_GO(defaults(r, opts, err));
    if (data->n_cells == 0 || data->n_outcomes == 0) {
        rc = KVA_FAIL(err, KVA_EMISSING,
                      data->n_cells
                          ? "%d cells are planned but no outcome is stored yet: run the "
                            "suite"
                          : "the database holds no results yet: run a suite first",
                      data->n_cells);
        goto out;
    }
    KVA_GO(labels(r, data, err));
    KVA_GO(kva_cells_prepare(r, data, &c, err));
    if (c.n_left_out == data->n_cells) {
        rc = KVA_FAIL(err, KVA_EMISSING, "--only %s leaves no cell of %d", r->opts.only,
                      data->n_cells);
        goto out;
    }
    KVA_GO(kva_boards_build(r, data, &c, err));
    KVA_GO(kva_boards_compute(r, data, &c, err));
    KVA_GO(kva_tables_build(r, data, &c, err));
    if (!r->opts.one_view)
        KVA_GO(kva_figures_build(r, data, &c, err));
    r->title = data->n_models == 1
                   ? kva_arena_printf(&r->arena, "kvaudit: %s, %.10s",
                                      kva_report_clean(&r->arena, data->models[0].name),
                                      r->generated)
                   : kva_arena_printf(&r->arena, "kvaudit: %d models, %.10s",
                                      data->n_models, r->generated);
    if (!r->title)
        rc = KVA_FAIL(err, KVA_ENOMEM, "report: out of memory");
out:
    kva_cells_release(&c);
    if (rc == KVA_OK)
        *out = r;
    else
        kva_report_free(r);
    return rc;
}

enum kva_status kva_report_start(const struct kva_report_opts *opts, const char *title,
                                 struct kva_report **out, struct kva_error *err)
{
    struct kva_report *r = kva_calloc(1, sizeof *r);

    *out = r;
    if (!r)
        return KVA_FAIL(err, KVA_ENOMEM, "report: out of memory");
    kva_arena_init(&r->arena);
    if (opts)
        r->opts = *opts;
    r->opts.view = NULL;
    r->opts.one_view = false;
    KVA_TRY(defaults(r, NULL, err));
    r->view = KVA_VIEW_PAPER;
    r->title = kva_report_clean(&r->arena, title);
    r->label = r->limit = "";
    return r->title ? KVA_OK : KVA_FAIL(err, KVA_ENOMEM, "report: out of memory");
}

void kva_report_free(struct kva_report *r)
{
    if (!r)
        return;
    kva_arena_release(&r->arena);
    free(r);
}
