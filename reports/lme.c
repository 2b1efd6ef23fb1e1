/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lme.c - results as lm-evaluation-harness writes them, for its viewers.
 *
 * Keys of EvalResults and SampleResult in lm_eval/result_schema.py (0.4.13): one run of
 * the harness is one model, so each (model, method, budget, ...) gets a directory with
 *   results_DATE.json         results, configs, versions, n-shot, higher_is_better,
 *                             n-samples, config, git_hash, date, ...
 *   samples_TASK_DATE.jsonl   one finished outcome a line
 * DATE is the start of the last run in the database. Hashes are those of the harness:
 * SHA-256 of the document as JSON with indent 2, of the prompt argument, of the target.
 * Prompts are not in the database; the argument names the sample, and `kvaudit report
 * --sample` shows its prompt. Standard errors are s/sqrt(n) over samples. */
#include "reports/internal.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct lme {
    struct kva_report *r;
    const struct kva_data *d;
    struct kva_db *const *dbs;
    struct kva_cells c;
    char date[48];
    int64_t started_ms;
    const char *commit;
};

static const char *clean(const struct lme *l, const char *s)
{
    const char *copy = kva_report_clean(&l->r->arena, s);

    l->r->nomem |= !copy;
    return copy ? copy : "";
}

/* What the harness's sanitize_task_name does: everything but letters, digits and _. */
static const char *file_word(const struct lme *l, const char *s)
{
    char *copy = kva_arena_strdup(&l->r->arena, s);

    l->r->nomem |= !copy;
    for (char *p = copy; p && *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
              (*p >= '0' && *p <= '9')))
            *p = '_';
    return copy ? copy : "";
}

static bool same_run(const struct lme *l, int a, int b)
{
    const struct kva_data_cell *x = &l->d->cells[a], *y = &l->d->cells[b];

    return x->model == y->model && x->budget == y->budget &&
           strcmp(x->method, y->method) == 0 &&
           strcmp(x->budget_kind, y->budget_kind) == 0 &&
           strcmp(x->schedule, y->schedule) == 0 && strcmp(x->enforce, y->enforce) == 0 &&
           strcmp(x->visibility, y->visibility) == 0 &&
           strcmp(x->numerics, y->numerics) == 0 && strcmp(x->kv, y->kv) == 0 &&
           strcmp(l->c.variant[a], l->c.variant[b]) == 0;
}

/* First cell of the run that holds `cell`. */
static int leader(const struct lme *l, int cell)
{
    for (int i = 0; i < cell; i++)
        if (!l->c.left_out[i] && same_run(l, i, cell))
            return i;
    return cell;
}

static void set(struct lme *l, json_t *o, const char *key, json_t *v)
{
    if (!v || json_object_set_new(o, key, v) != 0)
        l->r->nomem = true;
}

static void hash_of(const char *s, char hex[65])
{
    uint8_t digest[32];

    kva_sha256_of(s, strlen(s), digest);
    kva_hex(digest, 32, hex);
}

/* The first answer, or all of them as JSON when there are several. */
static const char *target_of(const struct lme *l, const struct kva_data_sample *s)
{
    json_t *refs = json_loads(s->refs_json ? s->refs_json : "[]", 0, NULL);
    const char *one =
        json_array_size(refs) == 1 ? json_string_value(json_array_get(refs, 0)) : NULL;
    const char *out = clean(l, one ? one : s->refs_json ? s->refs_json : "");

    json_decref(refs);
    return out;
}

/* ---- samples ---- */

static enum kva_status sample_line(struct lme *l, const struct kva_data_outcome *o,
                                   const char *metric, struct kva_buf *out,
                                   struct kva_error *err)
{
    const struct kva_data_sample *s = &l->d->samples[o->sample];
    const char *target = target_of(l, s);
    char hex[65], doc_hash[65], prompt_hash[65], target_hash[65];
    char doc[160], prompt[96];
    struct kva_buf text, tidy;
    enum kva_status rc;

    kva_hex(s->digest, 32, hex);
    (void)snprintf(doc, sizeof doc, "{\n  \"sample\": \"%s\",\n  \"index\": %d\n}", hex,
                   s->idx);
    (void)snprintf(prompt, sizeof prompt, "kvaudit:sample:%s", hex);
    hash_of(doc, doc_hash);
    hash_of(prompt, prompt_hash);
    hash_of(target, target_hash);
    kva_buf_init(&text, 0);
    kva_buf_init(&tidy, 0);
    KVA_GO(kva_db_generation(l->dbs[o->db], o->outcome_id, &text, err));
    kva_utf8_clean(text.data ? text.data : "", text.len, &tidy);
    kva_buf_puts(&tidy, "");
    KVA_GO(kva_buf_status(&tidy, err));
    kva_buf_printf(out, "{\"doc_id\":%d,\"doc\":{\"sample\":\"%s\",\"index\":%d},",
                   s->idx, hex, s->idx);
    kva_buf_puts(out, "\"target\":");
    kva_json_string(out, target);
    kva_buf_printf(
        out, ",\"arguments\":{\"gen_args_0\":{\"arg_0\":\"%s\",\"arg_1\":{}}},", prompt);
    kva_buf_puts(out, "\"resps\":[[");
    kva_json_string(out, tidy.data);
    kva_buf_puts(out, "]],\"filtered_resps\":[");
    kva_json_string(out, tidy.data);
    kva_buf_puts(out, "],\"filter\":\"none\",\"metrics\":[");
    kva_json_string(out, metric);
    kva_buf_puts(out, isnan(o->gold_nll) ? "]," : ",\"gold_nll\"],");
    kva_json_string(out, metric);
    kva_buf_putc(out, ':');
    kva_json_number(out, o->score);
    if (!isnan(o->gold_nll)) {
        kva_buf_puts(out, ",\"gold_nll\":");
        kva_json_number(out, o->gold_nll);
    }
    kva_buf_printf(
        out, ",\"doc_hash\":\"%s\",\"prompt_hash\":\"%s\",\"target_hash\":\"%s\"}\n",
        doc_hash, prompt_hash, target_hash);
out:
    kva_buf_release(&text);
    kva_buf_release(&tidy);
    return rc;
}

static enum kva_status put(const char *dir, const char *name, const struct kva_buf *b,
                           struct kva_error *err)
{
    struct kva_buf path;
    enum kva_status rc;

    kva_buf_init(&path, 0);
    kva_buf_printf(&path, "%s/%s", dir, name);
    rc = kva_buf_status(&path, err);
    if (rc == KVA_OK)
        rc = kva_write_file(path.data, b->data ? b->data : "", b->len, err);
    kva_buf_release(&path);
    return rc;
}

static enum kva_status samples(struct lme *l, int cell, const char *task, const char *dir,
                               struct kva_error *err)
{
    const char *metric = clean(l, l->d->tasks[l->d->cells[cell].task].metric);
    const char *name = kva_arena_printf(&l->r->arena, "samples_%s_%s.jsonl",
                                        file_word(l, task), l->date);
    struct kva_buf b;
    enum kva_status rc = KVA_OK;

    if (!name)
        return KVA_FAIL(err, KVA_ENOMEM, "export: out of memory");
    kva_buf_init(&b, 0);
    for (int o = l->c.first_outcome[cell]; o < l->c.first_outcome[cell + 1]; o++)
        if (strcmp(l->d->outcomes[o].status, "ok") == 0)
            KVA_GO(sample_line(l, &l->d->outcomes[o], metric, &b, err));
    KVA_GO(kva_buf_status(&b, err));
    rc = put(dir, name, &b, err);
out:
    kva_buf_release(&b);
    return rc;
}

/* ---- results ---- */

static void metric_of(struct lme *l, json_t *into, const char *metric, const double *x,
                      int n)
{
    const char *mean = kva_arena_printf(&l->r->arena, "%s,none", metric);
    const char *se = kva_arena_printf(&l->r->arena, "%s_stderr,none", metric);

    if (!mean || !se || n == 0) {
        l->r->nomem |= !mean || !se;
        return;
    }
    set(l, into, mean, json_real(kva_stat_mean(x, (size_t)n)));
    set(l, into, se,
        n < 2 ? json_string("N/A")
              : json_real(kva_stat_sd(x, (size_t)n) / sqrt((double)n)));
}

static enum kva_status task_results(struct lme *l, int cell, const char *task,
                                    json_t *root, struct kva_error *err)
{
    const struct kva_data_cell *c = &l->d->cells[cell];
    const struct kva_data_task *t = &l->d->tasks[c->task];
    const char *metric = clean(l, t->metric);
    int cap = l->c.first[cell + 1] - l->c.first[cell], n = 0, m = 0;
    double *x = kva_calloc((size_t)cap * 2 + 1, sizeof *x);
    json_t *one = json_object(), *config = json_object(), *counts = json_object();
    json_t *better = json_object(), *gen = json_loads(t->gen_json, 0, NULL);
    char hex[65];

    if (!x || !one || !config || !counts || !better) {
        free(x);
        json_decref(one);
        json_decref(config);
        json_decref(counts);
        json_decref(better);
        json_decref(gen);
        return KVA_FAIL(err, KVA_ENOMEM, "export: out of memory");
    }
    for (int k = l->c.first[cell]; k < l->c.first[cell + 1]; k++) {
        if (l->c.obs[k].n_ok)
            x[n++] = l->c.obs[k].score;
        if (!isnan(l->c.obs[k].nll))
            x[cap + m++] = l->c.obs[k].nll;
    }
    set(l, one, "name", json_string(task));
    set(l, one, "alias", json_string(task));
    set(l, one, "sample_len", json_integer(n));
    metric_of(l, one, metric, x, n);
    metric_of(l, one, "gold_nll", x + cap, m);
    set(l, better, metric, json_true());
    set(l, better, "gold_nll", json_false());
    set(l, counts, "original",
        json_integer(kva_planned_samples(l->d, l->c.first_outcome, cell)));
    set(l, counts, "effective", json_integer(n));
    kva_hex(t->digest, 32, hex);
    set(l, config, "task", json_string(task));
    set(l, config, "dataset_name", json_string(clean(l, t->name)));
    set(l, config, "output_type", json_string("generate_until"));
    if (gen)
        set(l, config, "metadata", gen);
    set(l, json_object_get(root, "results"), task, one);
    set(l, json_object_get(root, "configs"), task, config);
    set(l, json_object_get(root, "versions"), task, json_null());
    set(l, json_object_get(root, "n-shot"), task, json_integer(0));
    set(l, json_object_get(root, "higher_is_better"), task, better);
    set(l, json_object_get(root, "n-samples"), task, counts);
    set(l, json_object_get(root, "task_hashes"), task, json_string(hex));
    set(l, json_object_get(root, "group_subtasks"), task, json_array());
    free(x);
    return KVA_OK;
}

static json_t *head_of(struct lme *l, int cell)
{
    static const char *const maps[] = {"results",   "group_subtasks", "configs",
                                       "versions",  "n-shot",         "higher_is_better",
                                       "n-samples", "task_hashes"};
    const struct kva_data_cell *c = &l->d->cells[cell];
    const char *model = clean(l, l->d->models[c->model].name);
    json_t *root = json_object(), *config = json_object(), *args = json_object();

    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        set(l, root, maps[i], json_object());
    set(l, args, "method", json_string(clean(l, c->method)));
    set(l, args, "budget_kind", json_string(c->budget_kind));
    set(l, args, "budget", json_real(c->budget));
    set(l, args, "schedule", json_string(c->schedule));
    set(l, args, "enforce", json_string(c->enforce));
    set(l, args, "visibility", json_string(c->visibility));
    set(l, args, "numerics", json_string(c->numerics));
    set(l, args, "kv", json_string(c->kv));
    set(l, args, "sampling", json_string(clean(l, kva_data_sampling(c))));
    set(l, config, "model", json_string("kvaudit"));
    set(l, config, "model_args", args);
    set(l, config, "model_dtype", json_string(clean(l, l->d->models[c->model].wtype)));
    set(l, root, "config", config);
    set(l, root, "git_hash", json_string(clean(l, l->commit)));
    set(l, root, "date", json_real((double)l->started_ms / 1000));
    set(l, root, "model_source", json_string("kvaudit"));
    set(l, root, "model_name", json_string(model));
    set(l, root, "model_name_sanitized", json_string(file_word(l, model)));
    return root;
}

/* "toy__snapkv_keep_0_25"; a number follows when another run has that name. */
static const char *dir_of(struct lme *l, const char *dir, int cell, int number)
{
    const struct kva_data_cell *c = &l->d->cells[cell];
    char budget[64] = "";

    if (strcmp(c->budget_kind, "dense") != 0)
        (void)snprintf(budget, sizeof budget, "_%s_%.10g", c->budget_kind, c->budget);
    return kva_arena_printf(&l->r->arena, "%s/%02d_%.100s__%.80s%s", dir, number,
                            file_word(l, clean(l, l->d->models[c->model].name)),
                            file_word(l, l->c.name[cell]), file_word(l, budget));
}

static enum kva_status one_run(struct lme *l, const char *dir, int first, int number,
                               struct kva_error *err)
{
    const char *at = dir_of(l, dir, first, number);
    const char *name = kva_arena_printf(&l->r->arena, "results_%s.json", l->date);
    json_t *root = head_of(l, first);
    struct kva_buf b;
    char *dump = NULL;
    enum kva_status rc;

    kva_buf_init(&b, 0);
    if (!at || !name || !root) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "export: out of memory");
        goto out;
    }
    KVA_GO(kva_mkdirs(at, err));
    for (int i = first; i < l->d->n_cells; i++) {
        const char *task = l->c.label[l->d->cells[i].task];

        if (l->c.left_out[i] || (i != first && leader(l, i) != first))
            continue;
        KVA_GO(task_results(l, i, task, root, err));
        KVA_GO(samples(l, i, task, at, err));
    }
    dump = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    if (!dump || l->r->nomem) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "export: out of memory");
        goto out;
    }
    kva_buf_puts(&b, dump);
    kva_buf_putc(&b, '\n');
    KVA_GO(kva_buf_status(&b, err));
    rc = put(at, name, &b, err);
out:
    json_decref(root);
    free(dump);
    kva_buf_release(&b);
    return rc;
}

static void when(struct lme *l)
{
    time_t s;
    struct tm tm;

    l->commit = "";
    for (int i = 0; i < l->d->n_runs; i++)
        if (l->d->runs[i].started_ms >= l->started_ms) {
            l->started_ms = l->d->runs[i].started_ms;
            l->commit = l->d->runs[i].git_commit;
        }
    s = (time_t)(l->started_ms / 1000);
    if (!gmtime_r(&s, &tm) ||
        strftime(l->date, sizeof l->date, "%Y-%m-%dT%H-%M-%S", &tm) == 0)
        (void)snprintf(l->date, sizeof l->date, "1970-01-01T00-00-00");
    (void)snprintf(l->date + strlen(l->date), sizeof l->date - strlen(l->date), ".%06d",
                   (int)(l->started_ms % 1000) * 1000);
}

enum kva_status kva_report_lme(const struct kva_data *data, struct kva_db *const *dbs,
                               const struct kva_report_opts *opts, const char *dir,
                               bool force, struct kva_error *err)
{
    struct lme l = {.d = data, .dbs = dbs};
    struct stat st;
    enum kva_status rc;
    int number = 0;

    if (data->n_outcomes == 0)
        return KVA_FAIL(err, KVA_EMISSING,
                        "the database holds no results yet: run a suite first");
    if (lstat(dir, &st) == 0 && !force)
        return KVA_FAIL(err, KVA_EINVALID, "%s exists; --force writes into it", dir);
    KVA_GO(kva_report_start(opts, "export", &l.r, err));
    KVA_GO(kva_cells_prepare(l.r, data, &l.c, err));
    when(&l);
    for (int i = 0; i < data->n_cells; i++)
        if (!l.c.left_out[i] && leader(&l, i) == i)
            KVA_GO(one_run(&l, dir, i, number++, err));
    if (number == 0)
        rc = KVA_FAIL(err, KVA_EMISSING, "--only %s leaves no cell of %d", opts->only,
                      data->n_cells);
out:
    kva_cells_release(&l.c);
    kva_report_free(l.r);
    return rc;
}
