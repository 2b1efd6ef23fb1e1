/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_list.c - `kvaudit list [KIND]`: what this program knows and what a database holds.
 */
#include "runner/commands.h"

#include "db/db.h"
#include "methods/method.h"
#include "metrics/metric.h"
#include "reports/report.h"
#include "models/model.h"
#include "tasks/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const struct kva_opt *kva_cmd_list_options(void)
{
    static const struct kva_opt table[] = {{0}};

    return table;
}

/* A table of text: rows of `width` strings, columns aligned, last column ragged. Owns its
 * strings. */
struct table {
    char **cells;
    int n, cap, width;
    bool nomem;
};

static void put(struct table *t, const char *s)
{
    if (t->n == t->cap) {
        char **grown = kva_realloc(t->cells, (size_t)t->cap + 64, sizeof grown[0]);

        if (!grown) {
            t->nomem = true;
            return;
        }
        t->cells = grown;
        t->cap += 64;
    }
    t->cells[t->n] = strdup(s ? s : "");
    if (!t->cells[t->n])
        t->nomem = true;
    else
        t->n++;
}

static void print_table(struct table *t, struct kva_buf *out)
{
    int w[16] = {0};

    for (int i = 0; i < t->n; i++) {
        int len = kva_utf8_columns(t->cells[i]), c = i % t->width;

        w[c] = len > w[c] ? len : w[c];
    }
    for (int i = 0; i < t->n; i++) {
        bool last = i % t->width == t->width - 1;

        if (last)
            kva_buf_printf(out, "%s\n", t->cells[i]);
        else
            kva_buf_printf(out, "%s%*s  ", t->cells[i],
                           w[i % t->width] - kva_utf8_columns(t->cells[i]), "");
        free(t->cells[i]);
    }
    free(t->cells);
    if (t->nomem)
        out->failed = true;
    *t = (struct table){.width = t->width};
}

/* Each kind fills both forms; `rows` NULL: only JSON is wanted. */
struct listing {
    struct kva_buf *out; /* text */
    json_t *items;       /* JSON */
};

/* ---- models ---- */

static enum kva_status list_models(struct listing *l, struct kva_error *err)
{
    static const char *const builtin[][2] = {
        {"builtin:retrieval",
         "computed weights that copy the value behind a key; no file"},
        {"builtin:tiny-llama",
         "2 layers of fixed pseudo-random weights, for tests; no file"},
    };
    const struct kva_model_entry *e;
    struct table t = {.width = 3};
    size_t n;

    KVA_TRY(kva_models_known(&e, &n, err));
    for (int i = 0; i < 2; i++) {
        put(&t, builtin[i][0]);
        put(&t, "builtin");
        put(&t, builtin[i][1]);
        json_array_append_new(l->items, json_pack("{s:s, s:s, s:b, s:s}", "name",
                                                  builtin[i][0], "kind", "builtin",
                                                  "present", 1, "note", builtin[i][1]));
    }
    for (size_t i = 0; i < n; i++) {
        struct kva_buf path;
        bool here;
        char text[256];
        enum kva_status rc;

        kva_buf_init(&path, 0);
        rc = kva_models_path(&e[i], &path, err);
        if (rc != KVA_OK) {
            kva_buf_release(&path);
            return rc;
        }
        here = access(path.data, R_OK) == 0;
        snprintf(text, sizeof text, "%s; %.1f MB, %s", e[i].note ? e[i].note : "",
                 (double)e[i].bytes / 1e6,
                 e[i].licence ? e[i].licence : "licence unknown");
        put(&t, e[i].name);
        put(&t, here ? "present" : "not fetched");
        put(&t, text);
        json_array_append_new(
            l->items,
            json_pack("{s:s, s:s, s:b, s:s, s:I, s:s, s:s?, s:s}", "name", e[i].name,
                      "kind", e[i].kind, "present", here, "path", path.data, "bytes",
                      (json_int_t)e[i].bytes, "sha256", e[i].sha256, "licence",
                      e[i].licence, "note", e[i].note ? e[i].note : ""));
        kva_buf_release(&path);
    }
    print_table(&t, l->out);
    kva_buf_puts(l->out, "any GGUF file of a supported architecture: give its path\n");
    return KVA_OK;
}

/* ---- methods ---- */

static void param_value(const struct kva_param *p, double v, char out[32])
{
    if (p->type == KVA_PARAM_FILE)
        snprintf(out, 32, "PATH");
    else if (p->type == KVA_PARAM_CHOICE)
        snprintf(out, 32, "%s", p->choices[(int)v]);
    else
        snprintf(out, 32, "%.10g", v);
}

static void list_params(const struct kva_param *p, struct kva_buf *out, json_t *json)
{
    for (; p && p->name; p++) {
        char def[32], block[32], min[32], max[32];
        json_t *choices = json_array();

        param_value(p, p->def, def);
        param_value(p, p->def_block, block);
        snprintf(min, sizeof min, "%.10g", p->min);
        snprintf(max, sizeof max, "%.10g", p->max);
        if (kva_common.verbose) {
            kva_buf_printf(out, "    %s=%s", p->name, def);
            if (strcmp(def, block) != 0)
                kva_buf_printf(out, " (block schedules: %s)", block);
            kva_buf_printf(out, "  %s", p->help);
            if (p->type == KVA_PARAM_CHOICE) {
                kva_buf_puts(out, "; one of");
                for (int i = 0; p->choices[i]; i++)
                    kva_buf_printf(out, " %s", p->choices[i]);
            } else if (p->type != KVA_PARAM_FILE) {
                kva_buf_printf(out, "; %s..%s%s", min, max, p->odd ? ", odd" : "");
            }
            kva_buf_putc(out, '\n');
        }
        for (int i = 0; p->type == KVA_PARAM_CHOICE && p->choices[i]; i++)
            json_array_append_new(choices, json_string(p->choices[i]));
        json_array_append_new(json, json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:o}",
                                              "name", p->name, "help", p->help, "default",
                                              def, "default_block", block, "min", p->min,
                                              "max", p->max, "choices", choices));
    }
}

/* One part of a method as the listing shows it. */
struct part {
    const char *kind, *name, *summary, *source, *storage, *deviates, *table_kind;
    unsigned needs;
    int version;
    const struct kva_param *params;
    const char *collect; /* sums of the prompt it wants with its defaults; NULL: none */
};

/* Appends `text` in lines of at most 90 columns, later ones indented by six. */
static void put_wrapped(struct kva_buf *out, const char *head, const char *text)
{
    int column = 4 + (int)strlen(head);

    kva_buf_printf(out, "    %s", head);
    while (*text != '\0') {
        int n = (int)strcspn(text, " ");

        if (column + 1 + n > 90) {
            kva_buf_puts(out, "\n     ");
            column = 5;
        }
        kva_buf_printf(out, " %.*s", n, text);
        column += 1 + n;
        text += n;
        text += *text == ' ';
    }
    kva_buf_putc(out, '\n');
}

/* What a scorer has collected while the prompt is read. */
static const char *collected(const struct kva_scorer *s)
{
    static const char *const names[] = {NULL, "column sums", "chunk sums",
                                        "query statistics", "replay of the prompt"};
    struct kva_params params = {{0}};
    struct kva_collect want = {.kind = KVA_COLLECT_NONE};

    if (s->collect == NULL)
        return NULL;
    for (int i = 0; s->params != NULL && s->params[i].name != NULL; i++)
        params.value[i] = s->params[i].def;
    s->collect(&params, &want);
    return names[want.kind];
}

/* "keys, queries, column sums"; JSON: the same as a list. */
static void list_needs(const struct part *p, struct kva_buf *text, json_t *json)
{
    static const struct {
        unsigned bit;
        const char *name;
    } words[] = {{KVA_NEEDS_KEYS, "keys"},
                 {KVA_NEEDS_VALUES, "values"},
                 {KVA_NEEDS_QUERIES, "last queries"},
                 {KVA_NEEDS_RAW_KEYS, "keys before rotation"},
                 {KVA_NEEDS_LEND, "projections of the model"}};
    const char *more[2] = {p->collect, p->table_kind != NULL ? "a file" : NULL};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (p->needs & words[i].bit)
            json_array_append_new(json, json_string(words[i].name));
    for (int i = 0; i < 2; i++)
        if (more[i] != NULL)
            json_array_append_new(json, json_string(more[i]));
    for (size_t i = 0; i < json_array_size(json); i++)
        kva_buf_printf(text, "%s%s", i > 0 ? ", " : "",
                       json_string_value(json_array_get(json, i)));
    if (json_array_size(json) == 0)
        kva_buf_puts(text, "scores only");
}

static const char *storage_text(const char *storage)
{
    if (storage == NULL)
        return "not stated";
    return strcmp(storage, "ours") == 0 ? "nothing, there is none" : storage;
}

static void list_part(struct listing *l, const struct part *p)
{
    json_t *params = json_array(), *needs = json_array();
    struct kva_buf text;

    kva_buf_init(&text, 0);
    kva_buf_printf(l->out, "  %-18s %s\n", p->name, p->summary);
    list_params(p->params, l->out, params);
    list_needs(p, &text, needs);
    if (kva_common.verbose && p->source != NULL) {
        put_wrapped(l->out, "needs:", text.data != NULL ? text.data : "");
        put_wrapped(l->out, "published code holds:", storage_text(p->storage));
        put_wrapped(l->out, "source:", p->source);
        if (p->deviates != NULL)
            put_wrapped(l->out, "differs:", p->deviates);
        kva_buf_printf(l->out, "    version %d\n", p->version);
    }
    kva_buf_release(&text);
    json_array_append_new(
        l->items, json_pack("{s:s, s:s, s:s, s:s?, s:s?, s:s?, s:i, s:o, s:o}", "name",
                            p->name, "kind", p->kind, "summary", p->summary, "source",
                            p->source, "storage", p->storage, "deviates", p->deviates,
                            "version", p->version, "needs", needs, "params", params));
}

static void list_aliases(struct listing *l)
{
    kva_buf_puts(l->out, "aliases (written out before anything is stored):\n");
    for (const struct kva_method_alias *a = kva_method_aliases(); a->name; a++) {
        kva_buf_printf(l->out, "  %-18s %s\n", a->name, a->text);
        json_array_append_new(l->items, json_pack("{s:s, s:s, s:s}", "name", a->name,
                                                  "kind", "alias", "summary", a->text));
    }
}

static enum kva_status list_methods(struct listing *l, struct kva_error *err)
{
    (void)err;
    kva_buf_puts(l->out, "scorers:\n");
    for (const struct kva_scorer *const *at = kva_scorers(); *at; at++) {
        const struct kva_scorer *s = *at;

        list_part(l, &(struct part){"scorer", s->name, s->summary, s->source, s->storage,
                                    s->deviates, s->table_kind, s->needs, s->version,
                                    s->params, collected(s)});
    }
    if (*kva_wrappers() != NULL)
        kva_buf_puts(l->out, "wrappers (scorer+wrapper):\n");
    for (const struct kva_wrapper *const *at = kva_wrappers(); *at; at++) {
        const struct kva_wrapper *w = *at;

        list_part(l, &(struct part){"wrapper", w->name, w->summary, w->source, w->storage,
                                    w->deviates, NULL, w->needs, w->version, w->params,
                                    NULL});
    }
    kva_buf_puts(l->out, "allocators (scorer+allocator; default uniform):\n");
    for (const struct kva_allocator *const *at = kva_allocators(); *at; at++) {
        const struct kva_allocator *a = *at;

        list_part(l, &(struct part){"allocator", a->name, a->summary, a->source,
                                    a->storage, a->deviates, a->table_kind, a->needs,
                                    a->version, a->params, NULL});
    }
    list_aliases(l);
    kva_buf_puts(l->out, "references:\n");
    list_part(l, &(struct part){.kind = "reference",
                                .name = "dense",
                                .summary = "the full cache",
                                .version = 1});
    list_part(l,
              &(struct part){.kind = "reference",
                             .name = "blind",
                             .summary = "the question without its context; never ranked",
                             .version = 1});
    return KVA_OK;
}

/* ---- tasks, metrics, views ---- */

static enum kva_status list_tasks(struct listing *l, struct kva_error *err)
{
    struct table t = {.width = 3};
    size_t n;
    const struct kva_task_desc *d = kva_tasks(&n);

    (void)err;
    for (size_t i = 0; i < n; i++) {
        char name[128];
        bool user = strcmp(d[i].suite, "jsonl") == 0;

        snprintf(name, sizeof name, user ? "jsonl:PATH" : "%s/%s", d[i].suite, d[i].name);
        put(&t, name);
        put(&t, d[i].metric);
        put(&t, d[i].summary);
        if (kva_common.verbose) {
            put(&t, "");
            put(&t, "");
            put(&t, d[i].source);
        }
        json_array_append_new(
            l->items, json_pack("{s:s, s:s, s:s, s:s?, s:s, s:i, s:i}", "suite",
                                d[i].suite, "name", d[i].name, "summary", d[i].summary,
                                "source", d[i].source, "metric", d[i].metric, "version",
                                d[i].version, "max_new_tokens", d[i].max_new_tokens));
    }
    print_table(&t, l->out);
    return KVA_OK;
}

static enum kva_status list_metrics(struct listing *l, struct kva_error *err)
{
    struct table t = {.width = 3};

    (void)err;
    for (const struct kva_metric *const *m = kva_metrics(); *m; m++) {
        char version[32];

        snprintf(version, sizeof version, "version %d", (*m)->version);
        put(&t, (*m)->name);
        put(&t, version);
        put(&t, (*m)->summary);
        json_array_append_new(l->items, json_pack("{s:s, s:s, s:s?, s:i, s:b}", "name",
                                                  (*m)->name, "summary", (*m)->summary,
                                                  "source", (*m)->source, "version",
                                                  (*m)->version, "binary", (*m)->binary));
    }
    print_table(&t, l->out);
    return KVA_OK;
}

static enum kva_status list_views(struct listing *l, struct kva_error *err)
{
    struct table t = {.width = 2};

    (void)err;
    for (const struct kva_view *v = kva_views; v->name; v++) {
        put(&t, v->name);
        put(&t, v->summary);
        json_array_append_new(
            l->items, json_pack("{s:s, s:s}", "name", v->name, "summary", v->summary));
    }
    print_table(&t, l->out);
    return KVA_OK;
}

/* ---- runs ---- */

/* The key of the run's suite; NULL: greedy. */
static json_t *sampling_of(const struct kva_data_run *r)
{
    json_t *suite = json_loads(r->config_json, 0, NULL);
    json_t *v = json_incref(json_object_get(suite, "sampling"));

    json_decref(suite);
    return v;
}

static void run_row(const struct kva_data_run *r, struct table *t, struct listing *l)
{
    json_t *sampling = sampling_of(r);
    char *drawn = sampling ? json_dumps(sampling, JSON_COMPACT | JSON_ENCODE_ANY |
                                                      JSON_REAL_PRECISION(10))
                           : NULL;
    time_t secs = (time_t)(r->started_ms / 1000);
    struct tm tm;
    char when[32] = "", took[32] = "";

    if (gmtime_r(&secs, &tm))
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    if (r->ended_ms > 0)
        snprintf(took, sizeof took, "%.1f s",
                 (double)(r->ended_ms - r->started_ms) / 1000);
    put(t, r->uuid);
    put(t, when);
    put(t, r->status);
    put(t, took);
    put(t, r->git_commit);
    put(t, r->label);
    put(t, drawn ? drawn : "greedy");
    json_array_append_new(
        l->items,
        json_pack("{s:s, s:s, s:I, s:I, s:s?, s:s?, s:s?, s:s?, s:o}", "uuid", r->uuid,
                  "status", r->status, "started_ms", (json_int_t)r->started_ms,
                  "ended_ms", (json_int_t)r->ended_ms, "label", r->label, "commit",
                  r->git_commit, "cpu", r->cpu_model, "device", r->gpu_name, "sampling",
                  sampling ? sampling : json_string("greedy")));
    free(drawn);
}

static enum kva_status list_runs(struct listing *l, struct kva_error *err)
{
    struct kva_db *db = NULL;
    struct kva_data data;
    struct table t = {.width = 7};
    enum kva_status rc;

    KVA_TRY(kva_db_open(kva_db_default(), KVA_DB_READ, &db, err));
    rc = kva_data_load(&db, 1, &data, err);
    if (rc == KVA_OK) {
        for (int i = 0; i < data.n_runs; i++)
            run_row(&data.runs[i], &t, l);
        print_table(&t, l->out);
        kva_data_release(&data);
    }
    kva_db_close(db);
    return rc;
}

/* ---- entry ---- */

static const struct kind {
    const char *name;
    enum kva_status (*list)(struct listing *, struct kva_error *);
} KINDS[] = {{"models", list_models},   {"methods", list_methods}, {"tasks", list_tasks},
             {"metrics", list_metrics}, {"views", list_views},     {"runs", list_runs}};
#define N_KINDS (sizeof KINDS / sizeof KINDS[0])

static enum kva_status emit_json(const struct kind *k, json_t *items,
                                 struct kva_error *err)
{
    json_t *o = json_pack("{s:s, s:s, s:O}", "schema", "kvaudit.list/1", "kind", k->name,
                          "items", items);
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    enum kva_status rc;

    json_decref(o);
    if (!text)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    rc = kva_command_out(text, strlen(text), err);
    if (rc == KVA_OK)
        rc = kva_command_out("\n", 1, err);
    free(text);
    return rc;
}

static int list_one(const struct kind *k)
{
    struct kva_buf out;
    struct listing l = {&out, json_array()};
    struct kva_error err = {0};
    enum kva_status rc;

    kva_buf_init(&out, 0);
    rc = k->list(&l, &err);
    if (rc == KVA_OK)
        rc = kva_buf_status(&out, &err);
    if (rc == KVA_OK)
        rc = kva_common.json ? emit_json(k, l.items, &err)
                             : kva_command_out(out.data ? out.data : "", out.len, &err);
    json_decref(l.items);
    kva_buf_release(&out);
    return rc == KVA_OK ? 0 : kva_command_fail(&err);
}

/* Without a kind: how many there are of each; runs are not counted, a database may be
 * absent. */
static int counts(void)
{
    for (size_t i = 0; i + 1 < N_KINDS; i++) {
        struct kva_buf out;
        struct listing l = {&out, json_array()};
        struct kva_error err = {0};

        kva_buf_init(&out, 0);
        if (KINDS[i].list(&l, &err) != KVA_OK) {
            kva_buf_release(&out);
            json_decref(l.items);
            return kva_command_fail(&err);
        }
        printf("%-8s %3zu   kvaudit list %s\n", KINDS[i].name, json_array_size(l.items),
               KINDS[i].name);
        kva_buf_release(&out);
        json_decref(l.items);
    }
    return 0;
}

int kva_cmd_list(int argc, char **argv)
{
    const char *names[N_KINDS + 1], *near;

    if (argc > 1)
        return kva_command_usage("list", "one kind at a time, not '%s'", argv[1]);
    if (argc == 0) {
        if (kva_common.json)
            return kva_command_usage("list", "--json needs a kind");
        return counts();
    }
    for (size_t i = 0; i < N_KINDS; i++) {
        names[i] = KINDS[i].name;
        if (strcmp(argv[0], KINDS[i].name) == 0)
            return list_one(&KINDS[i]);
    }
    names[N_KINDS] = NULL;
    near = kva_nearest(argv[0], names);
    if (near)
        return kva_command_usage("list", "unknown kind '%s'; did you mean '%s'?", argv[0],
                                 near);
    return kva_command_usage("list", "unknown kind '%s'; 'kvaudit list' names them",
                             argv[0]);
}
