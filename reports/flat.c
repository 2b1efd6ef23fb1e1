/* SPDX-License-Identifier: GPL-3.0-or-later */
/* flat.c - stored rows as JSON lines or CSV, for programs.
 *
 *   outcomes  one line per (cell, sample, rep)
 *   cells     one line per cell: identity, planned and finished, mean score and nats
 *   memory    one line per outcome and exec (shared, alone) with bytes
 *   timing    one line per outcome that ran alone, nanoseconds
 *   heads     one line per (cell, kind of span, layer, KV head): mean survival
 *
 * Every line begins with the columns that name the cell. Scores are 0..1, missing values
 * null or empty. Order: as loaded, which is by labels and not by file. */
#include "reports/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    struct kva_buf *out, head;
    bool csv, first_row, first;
};

static void key(struct writer *w, const char *name)
{
    if (w->csv) {
        kva_buf_puts(w->out, w->first ? "" : ",");
        if (w->first_row)
            kva_buf_printf(&w->head, "%s%s", w->first ? "" : ",", name);
    } else {
        kva_buf_printf(w->out, "%s\"%s\":", w->first ? "{" : ",", name);
    }
    w->first = false;
}

static void text(struct writer *w, const char *name, const char *s)
{
    key(w, name);
    if (w->csv)
        kva_csv_field(w->out, s ? s : "");
    else if (s)
        kva_json_string(w->out, s);
    else
        kva_buf_puts(w->out, "null");
}

static void real(struct writer *w, const char *name, double v)
{
    key(w, name);
    if (!w->csv)
        kva_json_number(w->out, v);
    else if (isfinite(v))
        kva_buf_printf(w->out, "%.17g", v);
}

/* Negative: not known. */
static void whole(struct writer *w, const char *name, int64_t v)
{
    key(w, name);
    if (v >= 0)
        kva_buf_printf(w->out, "%lld", (long long)v);
    else if (!w->csv)
        kva_buf_puts(w->out, "null");
}

static void begin(struct writer *w)
{
    w->first = true;
}

static void end(struct writer *w)
{
    kva_buf_puts(w->out, w->csv ? "\n" : "}\n");
    if (w->csv && w->first_row) {
        /* the header is known after the first row: it goes in front of it */
        struct kva_buf row = *w->out;

        kva_buf_init(w->out, 0);
        kva_buf_printf(w->out, "%s\n", w->head.data ? w->head.data : "");
        if (row.data)
            kva_buf_add(w->out, row.data, row.len);
        w->out->failed |= row.failed || w->head.failed;
        kva_buf_release(&row);
    }
    w->first_row = false;
}

struct flat {
    struct kva_report *r;
    const struct kva_data *d;
    struct kva_cells c;
    struct writer w;
};

static const char *cleaned(const struct flat *f, const char *s)
{
    const char *copy = s ? kva_report_clean(&f->r->arena, s) : NULL;

    f->r->nomem |= s && !copy;
    return copy;
}

static void name_cell(struct flat *f, int cell)
{
    const struct kva_data_cell *c = &f->d->cells[cell];
    const struct kva_data_task *t = &f->d->tasks[c->task];
    struct writer *w = &f->w;
    char hex[65];

    kva_hex(c->digest, 32, hex);
    begin(w);
    text(w, "cell", hex);
    text(w, "model", cleaned(f, f->d->models[c->model].name));
    text(w, "task", cleaned(f, f->c.label[c->task]));
    whole(w, "context", t->ctx > 0 ? t->ctx : -1);
    text(w, "metric", t->metric);
    text(w, "method", cleaned(f, c->method));
    text(w, "budget_kind", c->budget_kind);
    real(w, "budget", c->budget);
    text(w, "schedule", c->schedule);
    text(w, "enforce", c->enforce);
    text(w, "visibility", c->visibility);
    text(w, "numerics", c->numerics);
    text(w, "kv", c->kv);
    text(w, "sampling", cleaned(f, kva_data_sampling(c)));
}

static void name_outcome(struct flat *f, const struct kva_data_outcome *o)
{
    const struct kva_data_sample *s = &f->d->samples[o->sample];
    char hex[65];

    name_cell(f, o->cell);
    kva_hex(s->digest, 32, hex);
    text(&f->w, "sample", hex);
    whole(&f->w, "index", s->idx);
    whole(&f->w, "rep", o->rep);
}

static void outcome_line(struct flat *f, const struct kva_data_outcome *o)
{
    const struct kva_data_sample *s = &f->d->samples[o->sample];
    struct writer *w = &f->w;
    char fnv[20];

    name_outcome(f, o);
    text(w, "cluster", s->cluster);
    text(w, "status", o->status);
    text(w, "stop", o->stop);
    real(w, "score", o->score);
    real(w, "gold_nll", o->gold_nll);
    whole(w, "n_ctx", o->n_ctx);
    whole(w, "n_question", o->n_question);
    whole(w, "n_gen", o->n_gen);
    whole(w, "n_cut", o->n_cut);
    (void)snprintf(fnv, sizeof fnv, "%016llx", (unsigned long long)o->kept_fnv);
    text(w, "kept_fnv", fnv);
    real(w, "span_e", o->span_e);
    real(w, "span_payload", o->span_payload);
    real(w, "span_d", o->span_d);
    text(w, "error", cleaned(f, o->error));
    end(w);
}

static void memory_line(struct flat *f, const struct kva_data_outcome *o,
                        const struct kva_db_memory *m)
{
    struct writer *w = &f->w;

    name_outcome(f, o);
    text(w, "exec", m->exec == KVA_EXEC_ALONE ? "alone" : "shared");
    whole(w, "kv_dense_bytes", m->kv_dense_bytes);
    whole(w, "kv_budget_bytes", m->kv_budget_bytes);
    whole(w, "kv_live_bytes", m->kv_live_bytes);
    whole(w, "kv_alloc_bytes", m->kv_alloc_bytes);
    whole(w, "kv_meta_bytes", m->kv_meta_bytes);
    whole(w, "kv_peak_bytes", m->kv_peak_bytes);
    whole(w, "kv_end_bytes", m->kv_end_bytes);
    whole(w, "kv_local_bytes", m->kv_local_bytes);
    whole(w, "state_bytes", m->state_bytes);
    whole(w, "kv_committed_bytes", m->kv_committed_bytes);
    whole(w, "scratch_peak_bytes", m->scratch_peak_bytes);
    whole(w, "weight_bytes", m->weight_bytes);
    whole(w, "dev_delta_bytes", m->dev_delta_bytes);
    whole(w, "dev_peak_bytes", m->dev_peak_bytes);
    whole(w, "host_peak_bytes", m->host_peak_bytes);
    whole(w, "entries_kept", m->entries_kept);
    whole(w, "entries_masked", m->entries_masked);
    whole(w, "audit", m->audit);
    end(w);
}

static void timing_line(struct flat *f, const struct kva_data_outcome *o)
{
    const struct kva_db_timing *t = &o->timing;
    struct writer *w = &f->w;

    name_outcome(f, o);
    whole(w, "n_ctx", o->n_ctx);
    whole(w, "n_gen", o->n_gen);
    whole(w, "prefill_ns", t->prefill_ns);
    whole(w, "score_ns", t->score_ns);
    whole(w, "evict_ns", t->evict_ns);
    whole(w, "question_ns", t->question_ns);
    whole(w, "ttft_ns", t->ttft_ns);
    whole(w, "decode_ns", t->decode_ns);
    whole(w, "decode_p50_ns", t->decode_p50_ns);
    whole(w, "decode_p99_ns", t->decode_p99_ns);
    end(w);
}

static void cell_line(struct flat *f, int cell)
{
    const struct kva_data *d = f->d;
    struct writer *w = &f->w;
    double score = 0, nll = 0;
    int n = 0, n_nll = 0, ok = 0;
    int from = f->c.first_outcome[cell], to = f->c.first_outcome[cell + 1];

    for (int o = from; o < to; o++)
        ok += strcmp(d->outcomes[o].status, "ok") == 0;
    for (int k = f->c.first[cell]; k < f->c.first[cell + 1]; k++) {
        const struct kva_obs *ob = &f->c.obs[k];

        if (ob->n_ok) {
            score += ob->score;
            n++;
        }
        if (!isnan(ob->nll)) {
            nll += ob->nll;
            n_nll++;
        }
    }
    name_cell(f, cell);
    whole(w, "planned", d->cells[cell].n_expected);
    whole(w, "outcomes", to - from);
    whole(w, "ok", ok);
    whole(w, "samples", n);
    real(w, "score", n ? score / n : (double)NAN);
    real(w, "gold_nll", n_nll ? nll / n_nll : (double)NAN);
    whole(w, "oracle", d->cells[cell].oracle);
    text(w, "spec", cleaned(f, d->cells[cell].spec_json));
    end(w);
}

static void head_lines(struct flat *f, const struct kva_data_heads *h)
{
    static const char *const kind[KVA_HEAD_KINDS] = {"E", "P", "D", "X", "all"};

    for (int k = 0; k < KVA_HEAD_KINDS; k++)
        for (int l = 0; h->n[k] && l < h->n_layer; l++)
            for (int i = 0; i < h->n_kv_head; i++) {
                size_t at =
                    ((size_t)k * (size_t)h->n_layer + (size_t)l) * (size_t)h->n_kv_head +
                    (size_t)i;

                name_cell(f, h->cell);
                text(&f->w, "span", kind[k]);
                whole(&f->w, "layer", l);
                whole(&f->w, "kv_head", i);
                whole(&f->w, "n", h->n[k]);
                real(&f->w, "survival", (double)h->sum[at] / 4294967296.0 / h->n[k]);
                end(&f->w);
            }
}

static void lines(struct flat *f, const char *what)
{
    const struct kva_data *d = f->d;
    bool cells = strcmp(what, "cells") == 0, heads = strcmp(what, "heads") == 0;

    for (int i = 0; cells && i < d->n_cells; i++)
        if (!f->c.left_out[i])
            cell_line(f, i);
    for (int i = 0; heads && i < d->n_heads; i++)
        if (!f->c.left_out[d->heads[i].cell])
            head_lines(f, &d->heads[i]);
    for (int i = 0; !cells && !heads && i < d->n_outcomes; i++) {
        const struct kva_data_outcome *o = &d->outcomes[i];

        if (f->c.left_out[o->cell])
            continue;
        if (strcmp(what, "outcomes") == 0) {
            outcome_line(f, o);
        } else if (strcmp(what, "timing") == 0) {
            if (o->has_timing)
                timing_line(f, o);
        } else {
            if (o->has_memory)
                memory_line(f, o, &o->memory);
            if (o->has_alone && o->memory.exec != KVA_EXEC_ALONE)
                memory_line(f, o, &o->alone);
        }
    }
}

enum kva_status kva_report_flat(const struct kva_data *data,
                                const struct kva_report_opts *opts, const char *what,
                                bool csv, struct kva_buf *out, struct kva_error *err)
{
    static const char *const words[] = {"outcomes", "cells", "memory",
                                        "timing",   "heads", NULL};
    struct flat f = {.d = data};
    struct kva_report *r = NULL;
    const char *near = kva_nearest(what, words);
    enum kva_status rc = KVA_OK;
    int k = 0;

    while (words[k] && strcmp(words[k], what) != 0)
        k++;
    if (!words[k])
        return KVA_FAIL(err, KVA_EINVALID,
                        "no export '%s'%s%s%s; outcomes, cells, memory, timing, heads",
                        what, near ? ", did you mean " : "", near ? near : "",
                        near ? "?" : "");
    if (data->n_cells == 0)
        return KVA_FAIL(err, KVA_EMISSING,
                        "the database holds no results yet: run a suite first");
    f.w = (struct writer){.out = out, .csv = csv, .first_row = true};
    kva_buf_init(&f.w.head, 0);
    KVA_GO(kva_report_start(opts, "export", &r, err));
    f.r = r;
    KVA_GO(kva_cells_prepare(r, data, &f.c, err));
    if (f.c.n_left_out == data->n_cells)
        rc = KVA_FAIL(err, KVA_EMISSING, "--only %s leaves no cell of %d", opts->only,
                      data->n_cells);
    else
        lines(&f, what);
    if (rc == KVA_OK && r->nomem)
        rc = KVA_FAIL(err, KVA_ENOMEM, "export: out of memory");
    if (rc == KVA_OK)
        rc = kva_buf_status(out, err);
out:
    kva_cells_release(&f.c);
    kva_buf_release(&f.w.head);
    kva_report_free(r);
    return rc;
}
