/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nightly_hints.c - where to look after a gate failed: the commits between, those that
 * touch what the failing gate rests on, and a command that finds the one
 * (reports.md 7.6).
 *
 * git is run without a shell; a commit that is not plain hexadecimal is never passed on.
 */
#include "runner/child.h"
#include "runner/nightly.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_PATHS   256
#define MAX_COMMITS 20 /* shown */

static bool is_commit(const char *s)
{
    size_t n = s ? strlen(s) : 0;

    return n >= 7 && n <= 64 && strspn(s, "0123456789abcdef") == n;
}

/* Lines of `git log --oneline A..B -- paths`; false: git cannot say, `why` is appended.
 */
static bool git_log(const struct kva_hints *h, const char *from, const char *to,
                    const char *const *paths, int n_paths, struct kva_buf *lines)
{
    const char *argv[MAX_PATHS + 16];
    struct kva_error err = {0};
    char range[140];
    int n = 0, status = 0;

    (void)snprintf(range, sizeof range, "%s..%s", from, to);
    argv[n++] = "git";
    if (h->repo) {
        argv[n++] = "-C";
        argv[n++] = h->repo;
    }
    argv[n++] = "--no-pager";
    argv[n++] = "log";
    argv[n++] = "--oneline";
    argv[n++] = "--no-decorate";
    argv[n++] = "--no-color";
    argv[n++] = range;
    argv[n++] = "--";
    for (int i = 0; i < n_paths; i++)
        argv[n++] = paths[i];
    argv[n] = NULL;
    return kva_child_run(argv, NULL, lines, true, &status, &err) == KVA_OK && status == 0;
}

/* ---- path groups ---- */

struct paths {
    const char *v[MAX_PATHS];
    int n;
    json_t *root;
};

static void add_all(struct paths *p, json_t *list)
{
    json_t *v;
    size_t i;

    json_array_foreach(list, i, v)
    {
        const char *s = json_string_value(v);
        bool known = !s || s[0] == '-';

        for (int k = 0; k < p->n && !known; k++)
            known = strcmp(p->v[k], s) == 0;
        if (!known && p->n < MAX_PATHS)
            p->v[p->n++] = s;
    }
}

/* The files behind one row: its gate's, and those of each part of its method. */
static void row_paths(struct paths *p, const struct kva_regress_row *row)
{
    json_t *methods = json_object_get(p->root, "methods");

    add_all(p, json_object_get(json_object_get(p->root, "gates"),
                               kva_regress_gate_names[row->gate]));
    for (const char *s = row->method; *s;) {
        size_t n = strcspn(s, "+"), name = strcspn(s, ":+");
        char part[64];

        (void)snprintf(part, sizeof part, "%.*s", (int)name, s);
        add_all(p, json_object_get(methods, part));
        s += n;
        s += *s == '+';
    }
}

static enum kva_status read_paths(const struct kva_gate_file *g, struct paths *p,
                                  struct kva_error *err)
{
    struct kva_buf text;
    json_error_t je;
    enum kva_status rc;

    memset(p, 0, sizeof *p);
    if (!g->paths)
        return KVA_OK;
    kva_buf_init(&text, 0);
    KVA_GO(kva_read_file(g->paths, 1 << 20, &text, err));
    p->root = json_loadb(text.data, text.len, 0, &je);
    if (!p->root)
        rc = KVA_FAIL(err, KVA_EINVALID, "%s:%d:%d: %s", g->paths, je.line, je.column,
                      je.text);
out:
    kva_buf_release(&text);
    return rc;
}

/* ---- what is said ---- */

static void day_of(int64_t ms, char out[16])
{
    time_t t = (time_t)(ms / 1000);
    struct tm tm;

    out[0] = '\0';
    if (gmtime_r(&t, &tm))
        (void)strftime(out, 16, "%Y-%m-%d", &tm);
}

/* The first lines as text and all of them as a JSON list; returns how many. */
static int show_lines(const char *lines, struct kva_buf *text, json_t *list)
{
    int n = 0;

    for (const char *s = lines; *s;) {
        size_t len = strcspn(s, "\n");

        if (n < MAX_COMMITS && text)
            kva_buf_printf(text, "  %.*s\n", (int)(len < 100 ? len : 100), s);
        if (list)
            (void)json_array_append_new(list, json_stringn(s, len));
        n++;
        s += len;
        s += *s == '\n';
    }
    if (n > MAX_COMMITS && text)
        kva_buf_printf(text, "  ... and %d more\n", n - MAX_COMMITS);
    return n;
}

static void say_commits(const struct kva_hints *h, const char *from, const char *to,
                        const struct paths *p, struct kva_buf *text, json_t *json)
{
    struct kva_buf all, some, shown;
    json_t *commits = json_array(), *touching = json_array();
    int n;

    kva_buf_init(&all, 4 << 20);
    kva_buf_init(&some, 4 << 20);
    kva_buf_init(&shown, 0);
    if (!git_log(h, from, to, NULL, 0, &all)) {
        kva_buf_puts(text,
                     "git knows no way from one to the other here (--repo DIR names "
                     "the sources).\n");
    } else {
        n = show_lines(all.data ? all.data : "", &shown, commits);
        kva_buf_printf(text, "%d commit%s between, git log --oneline %s..%s:\n%s", n,
                       n == 1 ? "" : "s", from, to, shown.data ? shown.data : "");
        if (p->n && n && git_log(h, from, to, p->v, p->n, &some)) {
            shown.len = 0;
            if (shown.data)
                shown.data[0] = '\0';
            n = show_lines(some.data ? some.data : "", &shown, touching);
            kva_buf_printf(text, "%d of them touch%s what the failures rest on:\n%s", n,
                           n == 1 ? "es" : "", shown.data ? shown.data : "");
        }
    }
    if (json) {
        (void)json_object_set(json, "commits", commits);
        (void)json_object_set(json, "touching", touching);
    }
    json_decref(commits);
    json_decref(touching);
    kva_buf_release(&all);
    kva_buf_release(&some);
    kva_buf_release(&shown);
}

static void say_command(const struct kva_hints *h, const struct kva_regress_row *row,
                        const char *from, const char *to, struct kva_buf *text,
                        json_t *json)
{
    char *real = realpath(h->gate_path, NULL), hex[65];
    json_t *list = json_array();
    struct kva_buf line;

    kva_buf_init(&line, 0);
    kva_buf_printf(&line, "git bisect start %s %s", to, from);
    (void)json_array_append_new(list, json_string(line.data ? line.data : ""));
    kva_buf_printf(text,
                   "To find the commit (work on copies of the gate file and the base "
                   "outside the tree):\n  %s\n",
                   line.data ? line.data : "");
    line.len = 0;
    kva_hex(row->digest, 32, hex);
    kva_buf_puts(&line, "git bisect run kvaudit compare --gate ");
    kva_shell_quote(real ? real : h->gate_path, &line);
    kva_buf_printf(&line, " --bisect-step %.16s --gates %s", hex,
                   kva_regress_gate_names[row->gate]);
    (void)json_array_append_new(list, json_string(line.data ? line.data : ""));
    kva_buf_printf(text, "  %s\n", line.data ? line.data : "");
    text->failed |= line.failed;
    if (json)
        (void)json_object_set(json, "commands", list);
    json_decref(list);
    kva_buf_release(&line);
    free(real);
}

static const struct kva_regress_row *worst_cell(const struct kva_regress *r)
{
    for (int i = 0; i < r->n_row; i++) {
        const struct kva_regress_row *row = &r->row[i];

        if (row->verdict == KVA_REGRESS_FAIL && strcmp(row->what, "suite") != 0 &&
            strcmp(row->what, "cell") != 0)
            return row;
    }
    return NULL;
}

/* Other nights may know a shorter way: both ends move inwards. */
static void narrow(const struct kva_hints *h, const struct kva_regress_row *row,
                   const char **from, const char **to, struct kva_buf *text)
{
    const struct kva_past_night *good, *fails;
    char day[16];

    if (!h->past || !row)
        return;
    kva_past_narrow(h->past, row, &good, &fails);
    if (good) {
        day_of(good->ms, day);
        kva_buf_printf(text, "%s last held on %s (commit %s)", row->slug, day,
                       good->commit);
        if (is_commit(good->commit))
            *from = good->commit;
    }
    if (fails) {
        day_of(fails->ms, day);
        kva_buf_printf(text, "%s failed since %s (commit %s)", good ? " and" : row->slug,
                       day, fails->commit);
        if (is_commit(fails->commit))
            *to = fails->commit;
    }
    if (good || fails)
        kva_buf_puts(text, ".\n");
}

enum kva_status kva_hints_make(const struct kva_regress *r, const struct kva_hints *h,
                               struct kva_buf *text, json_t **json, struct kva_error *err)
{
    const struct kva_regress_row *row = worst_cell(r);
    const char *from = h->base_commit, *to = h->now_commit;
    struct paths p;
    json_t *o = json_object();
    bool any = false;
    enum kva_status rc = KVA_OK;

    memset(&p, 0, sizeof p);
    for (int i = 0; i < r->n_row; i++)
        any |= r->row[i].verdict == KVA_REGRESS_FAIL;
    if (!any)
        goto out;
    KVA_GO(read_paths(h->file, &p, err));
    for (int i = 0; i < r->n_row && p.root; i++)
        if (r->row[i].verdict == KVA_REGRESS_FAIL)
            row_paths(&p, &r->row[i]);
    kva_buf_printf(text, "\nBase: commit %s. New: commit %s.\n", from, to);
    narrow(h, row, &from, &to, text);
    (void)json_object_set_new(o, "base", json_string(from));
    (void)json_object_set_new(o, "new", json_string(to));
    if (!is_commit(from) || !is_commit(to)) {
        kva_buf_puts(text, "One of the commits is not known: no hints.\n");
    } else if (strcmp(from, to) == 0) {
        kva_buf_puts(text, "Both are the same commit: look at the machine, the data or "
                           "changes that were not committed.\n");
    } else {
        say_commits(h, from, to, &p, text, o);
        if (row)
            say_command(h, row, from, to, text, o);
    }
    rc = kva_buf_status(text, err);
    if (rc == KVA_OK && json)
        *json = json_incref(o);
out:
    json_decref(p.root);
    json_decref(o);
    return rc;
}

/* The cells of times that failed, each once: how many, and the first `most` of them. */
static int slow_cells(const struct kva_regress *r, const struct kva_data *now, int *cell,
                      int most)
{
    int n = 0;

    for (int i = 0; i < now->n_cells; i++) {
        bool slow = false;

        for (int k = 0; k < r->n_row && !slow; k++)
            slow = r->row[k].gate == KVA_REGRESS_TIME &&
                   r->row[k].verdict == KVA_REGRESS_FAIL &&
                   memcmp(r->row[k].digest, now->cells[i].digest,
                          sizeof r->row[k].digest) == 0;
        if (slow && n < most)
            cell[n] = i;
        n += slow;
    }
    return n;
}

enum kva_status kva_hints_again(const struct kva_regress *r, const struct kva_data *now,
                                const struct kva_gate_file *g,
                                const struct kva_compare_args *args, struct kva_buf *text,
                                struct kva_error *err)
{
    enum { MOST = 8 }; /* more: the whole suite */
    static const char *const once[] = {"pin", "junit", "github", "figures", NULL};
    const char *const side[] = {args->a, args->b};
    int cell[MOST], n = slow_cells(r, now, cell, MOST);

    if (n == 0 || args->night.confirm.n > 0)
        return KVA_OK;
    kva_buf_puts(text,
                 "\nA time counts as slower once it is so again, at best on another "
                 "machine of this kind:\n  kvaudit run ");
    kva_shell_quote(g->suite ? g->suite : "SUITE", text);
    for (int i = 0; n <= MOST && i < n; i++) {
        struct kva_buf only;

        kva_buf_init(&only, 0);
        kva_night_only(now, cell[i], &only);
        kva_buf_puts(text, " --only ");
        kva_shell_quote(only.data ? only.data : "", text);
        text->failed |= only.failed;
        kva_buf_release(&only);
    }
    kva_buf_puts(text, " --db again.db\n  kvaudit compare");
    for (int i = 0; i < 2; i++)
        if (side[i]) {
            kva_buf_putc(text, ' ');
            kva_shell_quote(side[i], text);
        }
    kva_options_words(kva_cmd_compare_options(), once, text);
    for (int i = 0; i < kva_common.db.n; i++) {
        kva_buf_puts(text, " --db ");
        kva_shell_quote(kva_common.db.v[i], text);
    }
    kva_buf_puts(text, " --confirm again.db\n");
    return kva_buf_status(text, err);
}

enum kva_status kva_hints_quarantine(const struct kva_regress *r,
                                     const struct kva_hints *h, struct kva_buf *text,
                                     struct kva_error *err)
{
    const struct kva_past *past = h->past;
    const char *from = NULL, *to = NULL;
    struct paths p;
    int n = 0;

    KVA_TRY(read_paths(h->file, &p, err));
    for (int i = past->n > 10 ? past->n - 10 : 0; i < past->n; i++) {
        if (!from && is_commit(past->night[i].commit))
            from = past->night[i].commit;
        if (is_commit(past->night[i].commit))
            to = past->night[i].commit;
    }
    for (int i = 0; i < r->n_row; i++) {
        const struct kva_regress_row *row = &r->row[i];
        int seen, flips = kva_past_flips(past, row, 10, &seen);
        struct kva_buf log;
        bool known;

        if (flips < 3 || row->scale > 1 ||
            (row->exact_cpu && row->gate != KVA_REGRESS_TIME))
            continue;
        kva_buf_init(&log, 1 << 20);
        p.n = 0;
        row_paths(&p, row);
        known = from && to && p.n > 0 &&
                (strcmp(from, to) == 0 || git_log(h, from, to, p.v, p.n, &log));
        if (!known || log.len == 0) {
            kva_buf_printf(text,
                           "quarantine? %s gate of %s (%s): flipped %d times in %d "
                           "nights%s\n",
                           kva_regress_gate_names[row->gate], row->slug, row->what, flips,
                           seen,
                           known ? ", its sources did not change"
                                 : "; whether its sources changed is not known");
            n++;
        }
        kva_buf_release(&log);
    }
    json_decref(p.root);
    if (n == 0)
        kva_buf_puts(text, "No verdict flipped 3 times in the last 10 nights.\n");
    return kva_buf_status(text, err);
}
