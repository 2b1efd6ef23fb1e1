/* SPDX-License-Identifier: GPL-3.0-or-later */
/* gate_file.c - reading and pinning of gate files (gate_file.h). */
#include "runner/gate_file.h"

#include "runner/jsonpos.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS  86400000LL
#define MAX_PTR 256

struct reader {
    struct kva_gate_file *g;
    const char *name, *dir;
    struct kva_jsonpos pos;
    struct kva_buf *report;
    int n_errors;
    bool nomem;
};

/* ---- errors and values ---- */

static void bad(struct reader *x, const char *ptr, bool at_key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void bad(struct reader *x, const char *ptr, bool at_key, const char *fmt, ...)
{
    struct kva_jsonpos_at at = kva_jsonpos_find(&x->pos, ptr);
    bool key = at_key && at.key_line;
    size_t start = x->report->len;
    va_list ap;

    kva_buf_printf(x->report, "%s:%d:%d: %s%s", x->name, key ? at.key_line : at.line,
                   key ? at.key_col : at.col, ptr, ptr[0] ? ": " : "");
    va_start(ap, fmt);
    kva_buf_vprintf(x->report, fmt, ap);
    va_end(ap);
    kva_jsonpos_line(x->report, start);
    x->n_errors++;
}

static const char *join(char out[MAX_PTR], const char *base, const char *key)
{
    int n = snprintf(out, MAX_PTR, "%s/", base);

    for (; *key && n < MAX_PTR - 3; key++) {
        if (*key == '~' || *key == '/') {
            out[n++] = '~';
            out[n++] = *key == '~' ? '0' : '1';
        } else {
            out[n++] = *key;
        }
    }
    out[n < MAX_PTR ? n : MAX_PTR - 1] = '\0';
    return out;
}

static const char *keep(struct reader *x, const char *s)
{
    const char *copy = s ? kva_arena_strdup(&x->g->arena, s) : NULL;

    x->nomem |= s && !copy;
    return copy;
}

/* false: not an object, which was said. */
static bool check_keys(struct reader *x, json_t *o, const char *ptr,
                       const char *const *known)
{
    const char *key;
    json_t *v;

    if (!json_is_object(o)) {
        bad(x, ptr, false, "must be an object");
        return false;
    }
    json_object_foreach(o, key, v)
    {
        char at[MAX_PTR];
        int i = 0;

        while (known[i] && strcmp(known[i], key) != 0)
            i++;
        if (known[i] || strncmp(key, "//", 2) == 0)
            continue;
        {
            const char *near = kva_nearest(key, known);

            bad(x, join(at, ptr, key), true, "unknown key%s%s%s",
                near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        }
    }
    return true;
}

static void number(struct reader *x, json_t *o, const char *ptr, const char *key,
                   double lo, double hi, double *out)
{
    json_t *v = json_object_get(o, key);
    char at[MAX_PTR];

    if (!v)
        return;
    if (!json_is_number(v) || !(json_number_value(v) >= lo && json_number_value(v) <= hi))
        bad(x, join(at, ptr, key), false, "must be a number from %.6g to %.6g", lo, hi);
    else
        *out = json_number_value(v);
}

static void flag(struct reader *x, json_t *o, const char *ptr, const char *key, bool *out)
{
    json_t *v = json_object_get(o, key);
    char at[MAX_PTR];

    if (v && !json_is_boolean(v))
        bad(x, join(at, ptr, key), false, "must be true or false");
    else if (v)
        *out = json_is_true(v);
}

/* NULL: absent or wrong. */
static const char *string(struct reader *x, json_t *o, const char *ptr, const char *key,
                          bool required)
{
    json_t *v = json_object_get(o, key);
    char at[MAX_PTR];

    if (!v && required)
        bad(x, ptr, false, "'%s' is missing", key);
    if (!v)
        return NULL;
    if (!json_is_string(v) || !json_string_value(v)[0]) {
        bad(x, join(at, ptr, key), false, "must be a text that is not empty");
        return NULL;
    }
    return keep(x, json_string_value(v));
}

static const char *path(struct reader *x, const char *p)
{
    const char *full;

    if (!p || p[0] == '/' || !x->dir || !x->dir[0])
        return p;
    full = kva_arena_printf(&x->g->arena, "%s/%s", x->dir, p);
    x->nomem |= !full;
    return full;
}

/* A text or a list of them, NULL-terminated; NULL: absent or wrong. */
static const char **strings(struct reader *x, json_t *o, const char *ptr, const char *key,
                            int *n)
{
    json_t *v = json_object_get(o, key), *one;
    size_t count = json_is_array(v) ? json_array_size(v) : 1, i;
    const char **out = kva_arena_alloc(&x->g->arena, count + 1, sizeof *out);
    char at[MAX_PTR];

    *n = 0;
    x->nomem |= !out;
    if (!v || !out)
        return NULL;
    for (i = 0; i < count; i++) {
        one = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_string(one) || !json_string_value(one)[0]) {
            bad(x, join(at, ptr, key), false, "must be a text or a list of texts");
            *n = 0;
            return NULL;
        }
        out[(*n)++] = keep(x, json_string_value(one));
    }
    return out;
}

bool kva_parse_day(const char *s, int64_t *day)
{
    static const int before[12] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    static const int length[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t y, m, d;
    bool leap;

    if (strlen(s) != 10 || s[4] != '-' || s[7] != '-')
        return false;
    for (int i = 0; i < 10; i++)
        if (i != 4 && i != 7 && (s[i] < '0' || s[i] > '9'))
            return false;
    y = (s[0] - '0') * 1000 + (s[1] - '0') * 100 + (s[2] - '0') * 10 + s[3] - '0';
    m = (s[5] - '0') * 10 + s[6] - '0';
    d = (s[8] - '0') * 10 + s[9] - '0';
    leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    if (y < 1970 || m < 1 || m > 12 || d < 1 || d > length[m - 1] + (leap && m == 2))
        return false;
    /* leap days of the years 1..y-1, those up to 1969 taken off */
    *day = (y - 1970) * 365 + ((y - 1) / 4 - (y - 1) / 100 + (y - 1) / 400 - 477) +
           before[m - 1] + (leap && m > 2) + d - 1;
    return true;
}

static bool day(struct reader *x, json_t *o, const char *ptr, const char *key,
                const char **text, int64_t *out)
{
    char at[MAX_PTR];

    *text = string(x, o, ptr, key, true);
    if (!*text)
        return false;
    if (!kva_parse_day(*text, out)) {
        bad(x, join(at, ptr, key), false, "must be a day, YYYY-MM-DD, not '%s'", *text);
        return false;
    }
    return true;
}

static int gate_of(const char *name)
{
    for (int i = 0; name && kva_regress_gate_names[i]; i++)
        if (strcmp(kva_regress_gate_names[i], name) == 0)
            return i;
    return -1;
}

/* ---- sections ---- */

static void read_gates(struct reader *x, json_t *root)
{
    const char **name;
    int n;

    if (!json_object_get(root, "gates"))
        return;
    name = strings(x, root, "", "gates", &n);
    memset(x->g->opts.gate, 0, sizeof x->g->opts.gate);
    if (name && n == 0)
        bad(x, "/gates", false, "names no gate");
    for (int i = 0; i < n; i++) {
        int g = gate_of(name[i]);

        if (g < 0)
            bad(x, "/gates", false, "'%s' is no gate: score, time, memory", name[i]);
        else
            x->g->opts.gate[g] = true;
    }
}

static void read_score(struct reader *x, json_t *o)
{
    static const char *const keys[] = {"alpha",
                                       "warn_p",
                                       "task_points",
                                       "suite_points",
                                       "exact",
                                       "allow_removed",
                                       "non_inferiority_points",
                                       "replicates",
                                       "seed",
                                       NULL};
    struct kva_regress_opts *g = &x->g->opts;
    double task = 100 * g->task_drop, suite = 100 * g->suite_drop, ni = 0;
    double replicates = g->replicates, seed = 0;

    if (!o || !check_keys(x, o, "/score", keys))
        return;
    number(x, o, "/score", "alpha", 1e-6, 0.5, &g->alpha);
    number(x, o, "/score", "warn_p", 0, 1, &g->warn_p);
    number(x, o, "/score", "task_points", 0, 100, &task);
    number(x, o, "/score", "suite_points", 0, 100, &suite);
    number(x, o, "/score", "non_inferiority_points", 0, 100, &ni);
    number(x, o, "/score", "replicates", 100, 1e6, &replicates);
    number(x, o, "/score", "seed", 0, 9007199254740991.0, &seed);
    flag(x, o, "/score", "exact", &g->exact);
    flag(x, o, "/score", "allow_removed", &g->allow_removed);
    g->task_drop = task / 100;
    g->suite_drop = suite / 100;
    g->non_inferiority = ni / 100;
    g->replicates = (int)replicates;
    g->seed = (uint64_t)seed;
}

static void read_time(struct reader *x, json_t *o)
{
    static const char *const keys[] = {"p",        "min_reps", "tau_cpu",
                                       "tau_cuda", "min_ms",   NULL};
    struct kva_regress_opts *g = &x->g->opts;
    double reps = g->min_reps;

    if (!o || !check_keys(x, o, "/time", keys))
        return;
    number(x, o, "/time", "p", 1e-6, 0.5, &g->time_p);
    number(x, o, "/time", "min_reps", 2, 10000, &reps);
    number(x, o, "/time", "tau_cpu", 0, 10, &g->tau_cpu);
    number(x, o, "/time", "tau_cuda", 0, 10, &g->tau_cuda);
    number(x, o, "/time", "min_ms", 0, 1e6, &g->min_ms);
    g->min_reps = (int)reps;
}

static void read_memory(struct reader *x, json_t *o)
{
    static const char *const keys[] = {"peak_bytes", "peak_share", NULL};
    double bytes = (double)x->g->opts.peak_bytes;

    if (!o || !check_keys(x, o, "/memory", keys))
        return;
    number(x, o, "/memory", "peak_bytes", 0, 1e15, &bytes);
    number(x, o, "/memory", "peak_share", 0, 10, &x->g->opts.peak_share);
    x->g->opts.peak_bytes = (int64_t)bytes;
}

static void read_baselines(struct reader *x, json_t *o)
{
    static const char *const keys[] = {"db", "run", "commit", "note", NULL};
    struct kva_gate_file *g = x->g;
    const char *name;
    json_t *v;

    if (!o)
        return;
    if (!json_is_object(o)) {
        bad(x, "/baselines", false, "must be an object of names");
        return;
    }
    g->baseline =
        kva_arena_alloc(&g->arena, json_object_size(o) + 1, sizeof *g->baseline);
    if (!g->baseline) {
        x->nomem = true;
        return;
    }
    json_object_foreach(o, name, v)
    {
        struct kva_gate_baseline *b = &g->baseline[g->n_baseline];
        char at[MAX_PTR];

        if (strncmp(name, "//", 2) == 0)
            continue;
        join(at, "/baselines", name);
        if (!check_keys(x, v, at, keys))
            continue;
        b->name = keep(x, name);
        b->db = path(x, string(x, v, at, "db", true));
        b->run = strings(x, v, at, "run", &b->n_run);
        b->commit = string(x, v, at, "commit", false);
        b->note = string(x, v, at, "note", false);
        g->n_baseline++;
    }
}

static void read_entry(struct reader *x, json_t *v, size_t i)
{
    static const char *const keys[] = {"cell",  "gate",   "since", "expires",
                                       "owner", "reason", NULL};
    struct kva_gate_file *g = x->g;
    struct kva_gate_entry *e = &g->entry[g->n_entry];
    struct kva_jsonpos_at pos;
    const char *gate;
    int64_t since = 0, expires = 0;
    char at[MAX_PTR], sub[MAX_PTR];

    (void)snprintf(at, sizeof at, "/quarantine/%zu", i);
    if (!check_keys(x, v, at, keys))
        return;
    e->q.cell = string(x, v, at, "cell", true);
    gate = string(x, v, at, "gate", true);
    e->q.owner = string(x, v, at, "owner", true);
    e->q.reason = string(x, v, at, "reason", true);
    if (gate && gate_of(gate) < 0)
        bad(x, join(sub, at, "gate"), false, "'%s' is no gate: score, time, memory",
            gate);
    else if (gate)
        e->q.gate = (enum kva_regress_gate)gate_of(gate);
    if (day(x, v, at, "since", &e->since, &since) &
        day(x, v, at, "expires", &e->expires, &expires)) {
        if (expires < since)
            bad(x, join(sub, at, "expires"), false, "lies before 'since'");
        e->q.expires_ms = (expires + 1) * DAY_MS;
    }
    pos = kva_jsonpos_find(&x->pos, at);
    e->at = kva_arena_printf(&g->arena, "%s:%d:%d: %s", x->name, pos.line, pos.col, at);
    x->nomem |= !e->at;
    g->n_entry++;
}

static void read_quarantine(struct reader *x, json_t *o)
{
    struct kva_gate_file *g = x->g;

    if (!o)
        return;
    if (!json_is_array(o)) {
        bad(x, "/quarantine", false, "must be a list");
        return;
    }
    g->entry = kva_arena_alloc(&g->arena, json_array_size(o) + 1, sizeof *g->entry);
    x->nomem |= !g->entry;
    for (size_t i = 0; g->entry && i < json_array_size(o); i++)
        read_entry(x, json_array_get(o, i), i);
}

static void read_bisect(struct reader *x, json_t *o)
{
    static const char *const keys[] = {"suite", "program", "build", "paths", NULL};
    int n;

    if (!o || !check_keys(x, o, "/bisect", keys))
        return;
    x->g->suite = path(x, string(x, o, "/bisect", "suite", false));
    x->g->program = string(x, o, "/bisect", "program", false);
    x->g->build = strings(x, o, "/bisect", "build", &n);
    if (x->g->build && n == 0)
        bad(x, "/bisect/build", false, "names no program");
    x->g->paths = path(x, string(x, o, "/bisect", "paths", false));
}

static void read_names(struct reader *x, json_t *root)
{
    static const char *const key[] = {"base", "anchor"};
    const char **to[] = {&x->g->base, &x->g->anchor};
    char at[MAX_PTR];

    for (int i = 0; i < 2; i++) {
        *to[i] = string(x, root, "", key[i], false);
        /* the first night has no base yet; an anchor is there once it was pinned */
        if (*to[i] && i == 1 && !kva_gate_file_find(x->g, *to[i]))
            bad(x, join(at, "", key[i]), false, "no baseline has the name '%s'", *to[i]);
    }
}

static void read_all(struct reader *x)
{
    static const char *const keys[] = {"schema", "gates",      "base",   "anchor",
                                       "score",  "time",       "memory", "baselines",
                                       "bisect", "quarantine", NULL};
    json_t *root = x->g->root, *schema = json_object_get(root, "schema");

    for (size_t i = 0; i < x->pos.n_dups; i++) {
        size_t start = x->report->len;

        kva_buf_printf(x->report, "%s:%d:%d: %s: is there twice (first on line %d)",
                       x->name, x->pos.dups[i].line, x->pos.dups[i].col,
                       x->pos.dups[i].pointer, x->pos.dups[i].first_line);
        kva_jsonpos_line(x->report, start);
        x->n_errors++;
    }
    if (!check_keys(x, root, "", keys))
        return;
    if (!schema)
        bad(x, "", false, "'schema' is missing; this program reads schema 1");
    else if (json_integer_value(schema) != 1)
        bad(x, "/schema", false, "is unknown; this program reads schema 1");
    read_gates(x, root);
    read_score(x, json_object_get(root, "score"));
    read_time(x, json_object_get(root, "time"));
    read_memory(x, json_object_get(root, "memory"));
    read_baselines(x, json_object_get(root, "baselines"));
    read_names(x, root);
    read_quarantine(x, json_object_get(root, "quarantine"));
    read_bisect(x, json_object_get(root, "bisect"));
}

enum kva_status kva_gate_file_parse(const char *text, const char *name, const char *dir,
                                    struct kva_gate_file *g, struct kva_buf *report,
                                    struct kva_error *err)
{
    struct reader x = {.g = g, .name = name, .dir = dir, .report = report};
    json_error_t je;
    enum kva_status rc = KVA_OK;

    memset(g, 0, sizeof *g);
    kva_arena_init(&g->arena);
    kva_regress_defaults(&g->opts);
    g->path = keep(&x, name);
    g->root = json_loads(text, 0, &je);
    if (!g->root) {
        size_t start = report->len;

        if (json_error_code(&je) == json_error_out_of_memory)
            return KVA_FAIL(err, KVA_ENOMEM, "out of memory while reading %s", name);
        kva_buf_printf(report, "%s:%d:%d: %s", name, je.line, je.column, je.text);
        kva_jsonpos_line(report, start);
        return KVA_FAIL(err, KVA_EINVALID, "%s: 1 error", name);
    }
    KVA_GO(kva_jsonpos_scan(text, strlen(text), &x.pos, err));
    read_all(&x);
    if (x.nomem)
        rc = KVA_FAIL(err, KVA_ENOMEM, "out of memory while reading %s", name);
    else if (x.n_errors)
        rc = KVA_FAIL(err, KVA_EINVALID, "%s: %d error%s", name, x.n_errors,
                      x.n_errors == 1 ? "" : "s");
out:
    kva_jsonpos_release(&x.pos);
    return rc;
}

enum kva_status kva_gate_file_load(const char *file, struct kva_gate_file *g,
                                   struct kva_buf *report, struct kva_error *err)
{
    const char *slash = strrchr(file, '/');
    struct kva_buf text, dir;
    enum kva_status rc;

    memset(g, 0, sizeof *g);
    kva_buf_init(&text, 0);
    kva_buf_init(&dir, 0);
    kva_buf_puts(&dir, "");
    if (slash)
        kva_buf_add(&dir, file, slash == file ? 1 : (size_t)(slash - file));
    KVA_GO(kva_buf_status(&dir, err));
    KVA_GO(kva_read_file(file, 16 << 20, &text, err));
    if (memchr(text.data, '\0', text.len)) {
        rc = KVA_FAIL(err, KVA_EINVALID, "%s: is not a text file", file);
        goto out;
    }
    rc = kva_gate_file_parse(text.data, file, dir.data, g, report, err);
out:
    kva_buf_release(&text);
    kva_buf_release(&dir);
    return rc;
}

void kva_gate_file_release(struct kva_gate_file *g)
{
    json_decref(g->root);
    kva_arena_release(&g->arena);
    memset(g, 0, sizeof *g);
}

const struct kva_gate_baseline *kva_gate_file_find(const struct kva_gate_file *g,
                                                   const char *name)
{
    for (int i = 0; i < g->n_baseline; i++)
        if (strcmp(g->baseline[i].name, name) == 0)
            return &g->baseline[i];
    return NULL;
}

/* ---- pinning ---- */

/* The database as the file names it: relative where it lies beside or below the file. */
static char *relative(const char *file, const char *db)
{
    char *at = realpath(db, NULL), *gate = realpath(file, NULL), *slash;
    size_t n;

    if (!at || !gate) {
        free(at);
        free(gate);
        return NULL;
    }
    slash = strrchr(gate, '/');
    n = (size_t)(slash - gate) + 1;
    if (strncmp(at, gate, n) == 0)
        memmove(at, at + n, strlen(at + n) + 1);
    free(gate);
    return at;
}

enum kva_status kva_gate_file_pin(struct kva_gate_file *g, const char *name,
                                  const char *db, const char *const *run, int n_run,
                                  const char *commit, struct kva_error *err)
{
    char *where = relative(g->path, db), *text = NULL;
    json_t *runs = json_array(), *b, *all = json_object_get(g->root, "baselines");
    struct kva_buf out;
    enum kva_status rc = KVA_OK;

    kva_buf_init(&out, 0);
    for (int i = 0; i < n_run; i++)
        (void)json_array_append_new(runs, json_string(run[i]));
    b = json_pack("{s:s?,s:o,s:s?}", "db", where, "run", runs, "commit", commit);
    if (!where || !b) {
        rc = KVA_FAIL(err, where ? KVA_ENOMEM : KVA_EIO, "cannot pin %s: %s", db,
                      where ? "out of memory" : "no such file");
        json_decref(b);
        goto out;
    }
    if (!commit)
        json_object_del(b, "commit");
    if (!all) {
        all = json_object();
        if (json_object_set_new(g->root, "baselines", all) != 0)
            all = NULL;
    }
    if (!all || json_object_set_new(all, name, b) != 0) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "cannot pin %s: out of memory", name);
        goto out;
    }
    text = json_dumps(g->root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    if (!text) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "cannot pin %s: out of memory", name);
        goto out;
    }
    kva_buf_puts(&out, text);
    kva_buf_putc(&out, '\n');
    KVA_GO(kva_buf_status(&out, err));
    rc = kva_write_file(g->path, out.data, out.len, err);
out:
    kva_buf_release(&out);
    free(text);
    free(where);
    return rc;
}
