/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nightly_bisect.c - `kvaudit compare --gate FILE --bisect-step CELL`, for git bisect run
 * (reports.md 7.6): builds the tree that git checked out, measures one cell with it and
 * judges it.
 *
 * The program that judges is this one, the program that measures is the one just built.
 * Exit codes are git's: 0 good, 1 bad, 125 cannot be tested (does not build, does not
 * measure, another cell by now, undecidable), 128 wrong use, which ends the bisection. */
#include "runner/child.h"
#include "runner/nightly.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GOOD = 0, BAD = 1, SKIP = 125, STOP = 128 };

static int say(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int say(int code, const char *fmt, ...)
{
    va_list ap;

    fputs("kvaudit: bisect: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return code;
}

/* The cell that slug or digest names; -1 none, -2 several. */
static int find_cell(const struct kva_data *d, const char *name)
{
    int found = -1;

    for (int i = 0; i < d->n_cells; i++) {
        char hex[65];

        kva_hex(d->cells[i].digest, 32, hex);
        if (strcmp(d->cells[i].slug, name) != 0 &&
            (strlen(name) < 12 || strncmp(hex, name, strlen(name)) != 0))
            continue;
        if (found >= 0)
            return -2;
        found = i;
    }
    return found;
}

/* The text of a pattern in a selector, where a comma ends it: it becomes `?`. */
static void add_pattern(struct kva_buf *out, const char *s)
{
    for (; *s; s++)
        kva_buf_putc(out, *s == ',' ? '?' : *s);
}

void kva_night_only(const struct kva_data *d, int cell, struct kva_buf *out)
{
    const struct kva_data_cell *c = &d->cells[cell];
    const struct kva_data_task *t = &d->tasks[c->task];

    kva_buf_puts(out, "model=*");
    add_pattern(out, d->models[c->model].name);
    kva_buf_puts(out, "*,method=");
    add_pattern(out, c->method);
    if (strcmp(t->suite, "jsonl") != 0) {
        kva_buf_printf(out, ",task=%s/", t->suite);
        add_pattern(out, t->name);
        kva_buf_putc(out, '*');
        if (t->ctx)
            kva_buf_printf(out, ",ctx=%d", t->ctx);
    }
    if (strcmp(c->method, "dense") != 0 && strcmp(c->method, "blind") != 0)
        kva_buf_printf(out, ",budget=%s=%.10g,enforce=%s,visibility=%s,schedule=%s",
                       c->budget_kind, c->budget, c->enforce, c->visibility, c->schedule);
    if (c->sampling) { /* older programs do not know the key */
        kva_buf_puts(out, ",sampling=");
        add_pattern(out, c->sampling);
    }
}

static bool build(const struct kva_gate_file *g, const char *repo)
{
    static const char *const make[] = {"make", "-j2", NULL};
    const char *const *argv = g->build ? g->build : make;
    struct kva_error err = {0};
    int status = 0;

    return kva_child_run(argv, repo, NULL, false, &status, &err) == KVA_OK && status == 0;
}

static bool measure(const struct kva_gate_file *g, const char *repo, const char *only,
                    const char *db)
{
    const char *program = g->program ? g->program : "build/kvaudit";
    const char *argv[] = {program, "run",        NULL,   "--only",       only, "--db",
                          db,      "--progress", "none", "--keep-going", "-q", NULL};
    struct kva_error err = {0};
    char *suite = realpath(g->suite, NULL);
    int status = 0;
    bool ok;

    argv[2] = suite ? suite : g->suite;
    ok = kva_child_run(argv, repo, NULL, false, &status, &err) == KVA_OK && status == 0;
    free(suite);
    return ok;
}

static int judge(const struct kva_gate_file *g, const struct kva_data *base, int cell,
                 const char *db, struct kva_error *err)
{
    struct kva_regress_opts o = g->opts;
    struct kva_regress r;
    struct kva_night now;
    char hex[65], selector[4200];
    int code = SKIP;
    enum kva_status rc;

    kva_hex(base->cells[cell].digest, 32, hex);
    o.only = hex;
    o.allow_removed = true; /* the cell has another meaning here: nothing to judge */
    memset(&now, 0, sizeof now);
    kva_regress_init(&r, &o);
    (void)snprintf(selector, sizeof selector, "db=%s", db);
    KVA_GO(kva_night_load(selector, &now, err));
    KVA_GO(kva_regress_add(&r, base, now.data, "base", 1, err));
    KVA_GO(kva_regress_decide(&r, NULL, 0, 0, err));
    for (int i = 0; i < r.n_row; i++)
        fprintf(stderr, "kvaudit: bisect: %s, %s gate: %s\n",
                kva_regress_verdict_names[r.row[i].verdict],
                kva_regress_gate_names[r.row[i].gate], r.row[i].message);
    code = kva_regress_exit(&r);
    code = code == 5 ? SKIP : code ? BAD : GOOD;
out:
    kva_regress_release(&r);
    kva_night_release(&now);
    return code;
}

static void clean(const char *dir, const char *db)
{
    static const char *const tail[] = {"", "-wal", "-shm", ".lock", "-journal"};
    char path[4200];

    for (size_t i = 0; i < sizeof tail / sizeof tail[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", db, tail[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

int kva_bisect_step(const struct kva_gate_file *g, const char *name, const char *base,
                    const char *repo)
{
    const char *tmp = getenv("TMPDIR");
    const char *selector = kva_night_selector((struct kva_arena *)(uintptr_t)&g->arena, g,
                                              base      ? base
                                              : g->base ? g->base
                                                        : "");
    struct kva_error err = {0};
    struct kva_night was;
    struct kva_buf only;
    char dir[4096], db[4120];
    int cell, code = STOP;

    memset(&was, 0, sizeof was);
    kva_buf_init(&only, 0);
    (void)snprintf(dir, sizeof dir, "%s/kvaudit-bisect-XXXXXX",
                   tmp && *tmp ? tmp : "/tmp");
    if (!g->suite || (!base && !g->base)) {
        say(STOP, "%s: \"bisect\": {\"suite\": ...} and \"base\" are needed", g->path);
        goto out;
    }
    if (!selector || kva_night_load(selector, &was, &err) != KVA_OK) {
        say(STOP, "the base cannot be read: %s", err.text);
        goto out;
    }
    cell = find_cell(was.data, name);
    if (cell < 0) {
        say(STOP,
            cell == -1 ? "the base has no cell %s"
                       : "%s names several cells; give its digest",
            name);
        goto out;
    }
    kva_night_only(was.data, cell, &only);
    if (only.failed || !mkdtemp(dir)) {
        say(STOP, "no temporary directory: %s", strerror(errno));
        goto out;
    }
    (void)snprintf(db, sizeof db, "%s/step.db", dir);
    code = SKIP;
    if (!build(g, repo))
        say(SKIP, "this commit does not build");
    else if (!measure(g, repo, only.data, db))
        say(SKIP, "this commit does not measure %s", only.data);
    else
        code = judge(g, was.data, cell, db, &err);
    if (err.code)
        say(SKIP, "%s", err.text);
    clean(dir, db);
out:
    kva_buf_release(&only);
    kva_night_release(&was);
    return code;
}
