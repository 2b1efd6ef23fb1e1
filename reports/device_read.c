/* SPDX-License-Identifier: GPL-3.0-or-later */
/* device_read.c - reads what tests/device/run.sh measured (its README.md has the keys).
 *
 * One table says which lines a part may hold and which keys a line has; the file is
 * checked against it before anything is used. */
#include "reports/device.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

const char *const kva_device_part[KVA_DEVICE_PARTS + 1] = {
    "device", "parity", "golden", "synthetic", "quickstart", "sanitizer", NULL};

static const char *const STATUS[] = {"ok",          "failed",      "no device", "absent",
                                     "out of time", "not reached", "skipped",   NULL};

/* KEY=TYPE must be there, KEY?TYPE may; s text, n number >= 0 or null, t true, o an
 * object and a an array, checked by themselves. The first key tells a line's kind. */
static const char *const TOP = "schema=s program=s date=s seconds=n parts=a";
static const char *const PART = "part=s status=s exit=n seconds=n limit=n why=s lines=a";
static const char *const MODEL = "shape=s layers=n backend=s numerics=s isa=s seed=n "
                                 "weights=n seconds=n";
#define TEST_KEYS "test=s passed=n failed=n skipped=n exit=n ms=n"
static const struct {
    int part;
    const char *keys;
} LINES[] = {
    {KVA_DEVICE_CARD, "device=s capability=s processors=n memory=n free=n l2=n driver=n "
                      "runtime=n"},
    {KVA_DEVICE_CARD, "yardstick=s rate=n bytes?n side?n"},
    {KVA_DEVICE_PARITY, TEST_KEYS},
    {KVA_DEVICE_SANITIZER, TEST_KEYS},
    {KVA_DEVICE_SANITIZER, "tool=s"},
    {KVA_DEVICE_GOLDEN, "golden=s tokens=n off_ref=n off_f32=n"},
    {KVA_DEVICE_QUICKSTART,
     "quickstart=s cpu=n cuda=n pairs=n same_score=n same_kept=n off_nll=n"},
    {KVA_DEVICE_SYNTHETIC, "model=o"},
    {KVA_DEVICE_SYNTHETIC,
     "measure=s tokens=n entries=n sessions=n seconds=n bytes=n flop=n"},
    {KVA_DEVICE_SYNTHETIC, "memory=s tokens=n held=n committed=n alloc=n live=n"},
    {KVA_DEVICE_SYNTHETIC, "done=t"},
};
enum { N_LINES = sizeof LINES / sizeof LINES[0], MAX_KEY = 16 };

struct reader {
    struct kva_report *r;
    struct kva_device *d;
    const char *name; /* of the file */
    char place[64];   /* "parts[2].lines[3]", "" at the top */
};

/* A text that could not be copied is no fault of the file. */
#define WRONG(x, err, ...)                                                               \
    wrong(x,                                                                             \
          (x)->r->nomem ? KVA_FAIL(err, KVA_ENOMEM, "report: out of memory")             \
                        : KVA_FAIL(err, KVA_EFORMAT, __VA_ARGS__),                       \
          err)

/* The file and the place in it, before what is wrong there. */
static enum kva_status wrong(const struct reader *x, enum kva_status rc,
                             struct kva_error *err)
{
    if (x->place[0])
        kva_context(err, "%s", x->place);
    kva_context(err, "%s", x->name);
    return rc;
}

/* A text of the file, fit for a terminal. */
static const char *clean(struct reader *x, const char *s)
{
    const char *c = kva_report_clean(&x->r->arena, s);

    x->r->nomem |= c == NULL;
    return c ? c : "";
}

static double number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static const char *text(struct reader *x, const json_t *o, const char *key)
{
    return clean(x, json_string_value(json_object_get(o, key)));
}

/* The next KEY=TYPE of a list; false at its end. */
static bool next_key(const char **keys, char key[MAX_KEY], bool *must, char *type)
{
    size_t n = strcspn(*keys, "=?");

    if (!**keys)
        return false;
    memcpy(key, *keys, n);
    key[n] = 0;
    *must = (*keys)[n] == '=';
    *type = (*keys)[n + 1];
    *keys += n + 2;
    *keys += **keys == ' ';
    return true;
}

static bool lists(const char *keys, const char *word)
{
    char key[MAX_KEY], type;
    bool must;

    while (next_key(&keys, key, &must, &type))
        if (strcmp(key, word) == 0)
            return true;
    return false;
}

static const char *mismatch(const json_t *v, char type)
{
    switch (type) {
    case 's':
        return json_is_string(v) ? NULL : "is no text";
    case 'a':
        return json_is_array(v) ? NULL : "is no list";
    case 'o':
        return json_is_object(v) ? NULL : "is no object";
    case 't':
        return json_is_true(v) ? NULL : "is not true";
    default:
        if (json_is_null(v))
            return NULL;
        if (!json_is_number(v))
            return "is no number";
        if (json_number_value(v) < 0)
            return "is negative";
        return json_number_value(v) > 1e18 ? "is larger than 1e18" : NULL;
    }
}

static enum kva_status check(struct reader *x, json_t *o, const char *keys,
                             struct kva_error *err)
{
    char key[MAX_KEY], type;
    bool must;
    const char *k;
    json_t *v;

    if (!json_is_object(o))
        return WRONG(x, err, "an object is wanted here");
    for (const char *at = keys; next_key(&at, key, &must, &type);) {
        const json_t *value = json_object_get(o, key);
        const char *bad = value ? mismatch(value, type) : NULL;

        if (!value && must)
            return WRONG(x, err, "\"%s\" is missing", key);
        if (bad)
            return WRONG(x, err, "\"%s\" %s", key, bad);
    }
    json_object_foreach(o, k, v)
    {
        (void)v;
        if (!lists(keys, k))
            return WRONG(x, err, "unknown key \"%s\"", clean(x, k));
    }
    return KVA_OK;
}

static int find(const char *const *words, const char *word)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

/* ---- lines ---- */

static enum kva_status check_line(struct reader *x, int part, json_t *line,
                                  struct kva_error *err)
{
    for (int i = 0; i < N_LINES; i++) {
        const char *at = LINES[i].keys;
        char key[MAX_KEY], type;
        bool must;

        (void)next_key(&at, key, &must, &type);
        if (LINES[i].part != part || !json_object_get(line, key))
            continue;
        KVA_TRY(check(x, line, LINES[i].keys, err));
        if (type == 'o')
            return check(x, json_object_get(line, key), MODEL, err);
        return KVA_OK;
    }
    return WRONG(x, err, "no such line is known of the part \"%s\"",
                 kva_device_part[part]);
}

static enum kva_status read_card(struct reader *x, const json_t *line,
                                 struct kva_error *err)
{
    static const char *const known[] = {"copy", "bf16", "f32", NULL};
    struct kva_device *d = x->d;
    double *const rate[] = {&d->copy, &d->bf16, &d->f32};
    const char *which = json_string_value(json_object_get(line, "yardstick"));
    int i = which ? find(known, which) : -1;

    if (which) {
        if (i < 0)
            return WRONG(x, err, "unknown yardstick \"%s\"", clean(x, which));
        if (!isnan(*rate[i]))
            return WRONG(x, err, "the yardstick \"%s\" is here twice", which);
        if (number(line, "rate") > 0)
            *rate[i] = number(line, "rate");
        return KVA_OK;
    }
    if (d->card)
        return WRONG(x, err, "a second device");
    d->card = text(x, line, "device");
    d->capability = text(x, line, "capability");
    d->processors = number(line, "processors");
    d->memory = number(line, "memory");
    d->l2 = number(line, "l2");
    d->driver = number(line, "driver");
    d->runtime = number(line, "runtime");
    return KVA_OK;
}

/* A count; lines of the script hold them as numbers. */
static enum kva_status count(struct reader *x, const json_t *o, const char *key, int *out,
                             struct kva_error *err)
{
    double v = number(o, key);

    if (!(v >= 0 && v <= INT32_MAX && v == floor(v)))
        return WRONG(x, err, "\"%s\" is no count", key);
    *out = (int)v;
    return KVA_OK;
}

static enum kva_status read_model(struct reader *x, const json_t *o,
                                  struct kva_error *err)
{
    struct kva_device_model m = {.shape = text(x, o, "shape"),
                                 .backend = text(x, o, "backend"),
                                 .numerics = text(x, o, "numerics"),
                                 .weight_bytes = number(o, "weights")};

    KVA_TRY(count(x, o, "layers", &m.layers, err));
    x->d->model[x->d->n_model++] = m;
    return KVA_OK;
}

static enum kva_status read_time(struct reader *x, const json_t *line,
                                 const struct kva_device_model *m, struct kva_error *err)
{
    struct kva_device_time t = {.model = m,
                                .name = text(x, line, "measure"),
                                .seconds = number(line, "seconds"),
                                .bytes = number(line, "bytes"),
                                .flop = number(line, "flop")};

    KVA_TRY(count(x, line, "tokens", &t.tokens, err));
    KVA_TRY(count(x, line, "entries", &t.entries, err));
    KVA_TRY(count(x, line, "sessions", &t.sessions, err));
    for (int i = 0; i < x->d->n_time; i++) {
        const struct kva_device_time *o = &x->d->time[i];

        if (o->model == m && strcmp(o->name, t.name) == 0 && o->tokens == t.tokens &&
            o->entries == t.entries && o->sessions == t.sessions)
            return WRONG(x, err, "\"%s\" of %d tokens is here twice", t.name, t.tokens);
    }
    x->d->time[x->d->n_time++] = t;
    return KVA_OK;
}

/* Before an eviction ("full") and after it ("evicted"); other lines are about neither. */
static enum kva_status read_memory(struct reader *x, const json_t *line,
                                   const struct kva_device_model *m, const json_t **full,
                                   struct kva_error *err)
{
    const char *which = json_string_value(json_object_get(line, "memory"));
    struct kva_device_eviction e = {.model = m};
    double before;

    KVA_TRY(count(x, line, "tokens", &e.tokens, err));
    if (strcmp(which, "full") == 0)
        *full = line;
    if (strcmp(which, "evicted") != 0 || !*full ||
        number(*full, "tokens") != number(line, "tokens"))
        return KVA_OK;
    before = number(*full, "committed");
    e.books = before - number(line, "committed");
    e.seen = number(*full, "held") - number(line, "held");
    e.allowed = fmax(2 << 20, 0.02 * before);
    *full = NULL;
    if (!isnan(e.books) && !isnan(e.seen))
        x->d->eviction[x->d->n_eviction++] = e;
    return KVA_OK;
}

static enum kva_status read_synthetic(struct reader *x, const json_t *line,
                                      const json_t **full, struct kva_error *err)
{
    const struct kva_device_model *m =
        x->d->n_model ? &x->d->model[x->d->n_model - 1] : NULL;
    const json_t *model = json_object_get(line, "model");

    if (model) {
        *full = NULL;
        return read_model(x, model, err);
    }
    if (!m && !json_object_get(line, "done"))
        return WRONG(x, err, "a figure before its model");
    if (json_object_get(line, "measure"))
        return read_time(x, line, m, err);
    return json_object_get(line, "memory") ? read_memory(x, line, m, full, err) : KVA_OK;
}

static enum kva_status read_tests(struct reader *x, const json_t *line,
                                  struct kva_device_part *p, struct kva_error *err)
{
    const char *tool = json_string_value(json_object_get(line, "tool"));
    int n[4];

    if (tool) {
        p->racecheck |= strcmp(tool, "racecheck") == 0;
        return KVA_OK;
    }
    KVA_TRY(count(x, line, "passed", &n[0], err));
    KVA_TRY(count(x, line, "failed", &n[1], err));
    KVA_TRY(count(x, line, "skipped", &n[2], err));
    KVA_TRY(count(x, line, "exit", &n[3], err));
    p->programs++;
    p->failing += n[3] != 0 || n[1] != 0;
    p->passed += n[0];
    p->failed += n[1];
    p->skipped += n[2];
    return KVA_OK;
}

static const char *known_or(double v, const char *format, struct kva_report *r)
{
    const char *s = "not measured";

    if (!isnan(v))
        s = strcmp(format, "g") == 0 ? kva_arena_printf(&r->arena, "%.3g", v)
                                     : kva_arena_printf(&r->arena, "%.0f", v);
    r->nomem |= s == NULL;
    return s;
}

/* What the only line of such a part comes to. */
static const char *sentence(struct reader *x, int part, const json_t *line)
{
    struct kva_report *r = x->r;

    if (part == KVA_DEVICE_GOLDEN)
        return kva_arena_printf(
            &r->arena, "%s: %s tokens, largest difference of -log p %s to ref, %s to f32",
            text(x, line, "golden"), known_or(number(line, "tokens"), "", r),
            known_or(number(line, "off_ref"), "g", r),
            known_or(number(line, "off_f32"), "g", r));
    return kva_arena_printf(
        &r->arena,
        "%s: %s outcomes, same score %s, same entries %s, there -log p within %s",
        text(x, line, "quickstart"), known_or(number(line, "pairs"), "", r),
        known_or(number(line, "same_score"), "", r),
        known_or(number(line, "same_kept"), "", r),
        known_or(number(line, "off_nll"), "g", r));
}

/* ---- parts ---- */

static enum kva_status read_lines(struct reader *x, int at, int part, const json_t *lines,
                                  struct kva_error *err)
{
    struct kva_device_part *p = &x->d->part[part];
    size_t n = json_array_size(lines);
    const json_t *full = NULL;

    if (part == KVA_DEVICE_SYNTHETIC) {
        struct kva_arena *a = &x->r->arena;

        x->d->model = kva_arena_alloc(a, n + 1, sizeof *x->d->model);
        x->d->time = kva_arena_alloc(a, n + 1, sizeof *x->d->time);
        x->d->eviction = kva_arena_alloc(a, n + 1, sizeof *x->d->eviction);
        if (!x->d->model || !x->d->time || !x->d->eviction)
            return KVA_FAIL(err, KVA_ENOMEM, "report: out of memory");
    }
    for (size_t i = 0; i < n; i++) {
        json_t *line = json_array_get(lines, i);

        (void)snprintf(x->place, sizeof x->place, "parts[%d].lines[%zu]", at, i);
        KVA_TRY(check_line(x, part, line, err));
        if (part == KVA_DEVICE_CARD)
            KVA_TRY(read_card(x, line, err));
        else if (part == KVA_DEVICE_SYNTHETIC)
            KVA_TRY(read_synthetic(x, line, &full, err));
        else if (part == KVA_DEVICE_PARITY || part == KVA_DEVICE_SANITIZER)
            KVA_TRY(read_tests(x, line, p, err));
        else {
            p->says = sentence(x, part, line);
            x->r->nomem |= p->says == NULL;
        }
    }
    return KVA_OK;
}

/* The part's lines in one sentence. */
static void sum_up(struct reader *x, int part)
{
    struct kva_device_part *p = &x->d->part[part];
    const char *s = p->says ? p->says : "";

    if (p->programs)
        s = kva_arena_printf(&x->r->arena,
                             "%d passed, %d failed, %d skipped in %d programs", p->passed,
                             p->failed, p->skipped, p->programs);
    else if (part == KVA_DEVICE_SYNTHETIC && x->d->n_time)
        s = kva_arena_printf(&x->r->arena, "%d times, %d evictions", x->d->n_time,
                             x->d->n_eviction);
    x->r->nomem |= s == NULL;
    p->says = s;
}

static enum kva_status read_part(struct reader *x, int at, json_t *o,
                                 struct kva_error *err)
{
    const char *name, *status;
    int part;

    (void)snprintf(x->place, sizeof x->place, "parts[%d]", at);
    KVA_TRY(check(x, o, PART, err));
    name = text(x, o, "part");
    status = text(x, o, "status");
    part = find(kva_device_part, name);
    if (part < 0)
        return WRONG(x, err, "unknown part \"%s\"", name);
    if (find(STATUS, status) < 0)
        return WRONG(x, err, "unknown status \"%s\"", status);
    if (x->d->part[part].status)
        return WRONG(x, err, "the part \"%s\" is here twice", name);
    x->d->part[part].status = status;
    x->d->part[part].seconds = number(o, "seconds");
    x->d->part[part].limit = number(o, "limit");
    KVA_TRY(read_lines(x, at, part, json_object_get(o, "lines"), err));
    x->d->part[part].why = text(x, o, "why");
    sum_up(x, part);
    return KVA_OK;
}

static void nothing(struct kva_device *d)
{
    *d = (struct kva_device){0};
    d->seconds = d->processors = d->memory = d->l2 = d->driver = d->runtime = (double)NAN;
    d->copy = d->bf16 = d->f32 = (double)NAN;
    for (int i = 0; i < KVA_DEVICE_PARTS; i++)
        d->part[i].seconds = d->part[i].limit = (double)NAN;
}

enum kva_status kva_device_read(struct kva_report *r, const char *json, size_t n,
                                const char *name, struct kva_device *d,
                                struct kva_error *err)
{
    struct reader x = {.r = r, .d = d, .name = kva_report_clean(&r->arena, name)};
    json_error_t je;
    json_t *root = NULL;
    const char *schema;
    enum kva_status rc = KVA_OK;

    nothing(d);
    if (!json)
        return KVA_OK;
    if (!x.name)
        return KVA_FAIL(err, KVA_ENOMEM, "report: out of memory");
    root = json_loadb(json, n, JSON_REJECT_DUPLICATES, &je);
    if (!root) {
        rc = KVA_FAIL(err, KVA_EFORMAT, "%s:%d:%d: %s", x.name, je.line, je.column,
                      clean(&x, je.text));
        goto out;
    }
    schema = json_string_value(json_object_get(root, "schema"));
    if (!schema || strcmp(schema, "kvaudit/device-1") != 0) {
        rc = KVA_FAIL(err, KVA_EFORMAT,
                      "%s: the schema is \"%s\", \"kvaudit/device-1\" is wanted "
                      "(tests/device/run.sh writes it)",
                      x.name, schema ? clean(&x, schema) : "");
        goto out;
    }
    KVA_GO(check(&x, root, TOP, err));
    d->program = text(&x, root, "program");
    d->date = text(&x, root, "date");
    d->seconds = number(root, "seconds");
    for (size_t i = 0; i < json_array_size(json_object_get(root, "parts")); i++)
        KVA_GO(read_part(&x, (int)i, json_array_get(json_object_get(root, "parts"), i),
                         err));
out:
    json_decref(root);
    return rc;
}
