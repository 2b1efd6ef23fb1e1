/* SPDX-License-Identifier: GPL-3.0-or-later */
/* write.c - a report as a directory: all of it appears at once or not at all.
 *
 * Everything is written into DIR.tmp-PID beside DIR, every file synced, then renamed. An
 * old DIR is exchanged in one step (RENAME_EXCHANGE) and only then removed; a failure at
 * any point leaves it as it was. */
#include "reports/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum kva_status put(const char *dir, const char *name, const char *bytes, size_t n,
                           struct kva_error *err)
{
    struct kva_buf path;
    enum kva_status rc;

    kva_buf_init(&path, 0);
    kva_buf_printf(&path, "%s/%s", dir, name);
    rc = kva_buf_status(&path, err);
    if (rc == KVA_OK)
        rc = kva_write_file(path.data, bytes, n, err);
    kva_buf_release(&path);
    return rc;
}

enum kva_status kva_report_figures(const struct kva_report *r, const char *dir,
                                   struct kva_error *err)
{
    struct kva_error first = {0};
    bool missing = false, hung = false; /* one that hung will hang again */

    KVA_TRY(kva_mkdirs(dir, err));
    for (int i = 0; i < r->n_figure; i++) {
        const struct kva_figure *f = &r->figure[i];
        char name[512];
        enum kva_status rc;
        struct kva_error why = {0};

        (void)snprintf(name, sizeof name, "%s.tsv", f->id);
        KVA_TRY(put(dir, name, f->tsv, strlen(f->tsv), err));
        (void)snprintf(name, sizeof name, "%s.gp", f->id);
        KVA_TRY(put(dir, name, f->gp, strlen(f->gp), err));
        if (f->empty || missing || hung)
            continue;
        rc = kva_gnuplot_run(dir, name, &hung, &why);
        if (rc == KVA_ETOOL) {
            missing = true;
            first = why;
        } else if (rc != KVA_OK) { /* one drawing less is no reason to lose the report */
            if (r->opts.require_figures)
                return KVA_FAIL(err, rc, "%s", why.text);
            kva_log(KVA_LOG_WARN, "%s%s", why.text,
                    hung ? "; the other figures are not drawn" : "");
        }
    }
    if (missing)
        return KVA_FAIL(err, KVA_ETOOL, "%s; their sources and data were written",
                        first.text);
    return KVA_OK;
}

/* Removes a directory made here: two levels, no links followed. */
static void remove_tree(const char *dir, int depth)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    while (d && (e = readdir(d)) != NULL) {
        struct kva_buf path;
        struct stat st;

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        kva_buf_init(&path, 0);
        kva_buf_printf(&path, "%s/%s", dir, e->d_name);
        if (!path.failed && lstat(path.data, &st) == 0) {
            if (S_ISDIR(st.st_mode) && depth < 4)
                remove_tree(path.data, depth + 1);
            else
                (void)unlink(path.data);
        }
        kva_buf_release(&path);
    }
    if (d)
        (void)closedir(d);
    (void)rmdir(dir);
}

static enum kva_status sync_dir(const char *dir, struct kva_error *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum kva_status rc = KVA_OK;

    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL))
        rc = KVA_FAIL(err, KVA_EIO, "%s: cannot sync: %s", dir, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

/* Each table as CSV, Markdown, LaTeX and JSON. */
static enum kva_status put_tables(const struct kva_report *r, const char *dir,
                                  struct kva_error *err)
{
    static const char *const ext[] = {"csv", "md", "tex", "json"};

    for (int i = 0; i < 4 * r->n_tab; i++) {
        const struct kva_tab *t = &r->tab[i / 4];
        struct kva_buf b;
        char name[512];
        enum kva_status rc;

        kva_buf_init(&b, 0);
        if (i % 4 == 0)
            kva_csv_table(t, true, &b);
        else if (i % 4 == 1)
            kva_markdown_table(t, &b);
        else if (i % 4 == 2)
            kva_latex_table(t, &b);
        else
            kva_json_table(t, &b);
        (void)snprintf(name, sizeof name, "%s.%s", t->id, ext[i % 4]);
        rc = kva_buf_status(&b, err);
        if (rc == KVA_OK)
            rc = put(dir, name, b.data, b.len, err);
        kva_buf_release(&b);
        KVA_TRY(rc);
    }
    return KVA_OK;
}

static enum kva_status fill(const struct kva_report *r, const char *dir,
                            struct kva_error *err)
{
    struct kva_buf b, sub;
    struct kva_error why = {0};
    enum kva_status rc;

    kva_buf_init(&b, 0);
    kva_buf_init(&sub, 0);
    kva_buf_printf(&sub, "%s/figures", dir);
    KVA_GO(kva_buf_status(&sub, err));
    rc = kva_report_figures(r, sub.data, &why);
    if (rc == KVA_ETOOL && !r->opts.require_figures)
        kva_log(KVA_LOG_WARN, "%s", why.text);
    else if (rc != KVA_OK) {
        rc = KVA_FAIL(err, rc, "%s", why.text);
        goto out;
    }
    KVA_GO(kva_report_html(r, sub.data, &b, err));
    if (b.len > 8u << 20)
        kva_log(KVA_LOG_WARN,
                "index.html has %zu MiB; --only KEY=GLOB narrows the report",
                b.len >> 20);
    KVA_GO(put(dir, "index.html", b.data, b.len, err));
    KVA_GO(sync_dir(sub.data, err));
    b.len = 0;
    KVA_GO(kva_json_tables(r, true, &b, err));
    KVA_GO(put(dir, "report.json", b.data, b.len, err));
    sub.len = 0;
    kva_buf_printf(&sub, "%s/tables", dir);
    KVA_GO(kva_buf_status(&sub, err));
    KVA_GO(kva_mkdirs(sub.data, err));
    KVA_GO(put_tables(r, sub.data, err));
    KVA_GO(sync_dir(sub.data, err));
    KVA_GO(sync_dir(dir, err));
out:
    kva_buf_release(&b);
    kva_buf_release(&sub);
    return rc;
}

/* tmp takes the place of dir. */
static enum kva_status swap_in(const char *tmp, const char *dir, bool exists,
                               struct kva_error *err)
{
    if (!exists) {
        if (rename(tmp, dir) != 0)
            return KVA_FAIL(err, KVA_EIO, "%s: cannot create: %s", dir, strerror(errno));
        return KVA_OK;
    }
    if (renameat2(AT_FDCWD, tmp, AT_FDCWD, dir, RENAME_EXCHANGE) == 0) {
        remove_tree(tmp, 0); /* the old report */
        return KVA_OK;
    }
    /* file systems without exchange: the old one steps aside and comes back on failure */
    if (errno == EINVAL || errno == ENOSYS) {
        struct kva_buf aside;
        enum kva_status rc;

        kva_buf_init(&aside, 0);
        kva_buf_printf(&aside, "%s.old-%ld", dir, (long)getpid());
        rc = kva_buf_status(&aside, err);
        if (rc == KVA_OK && rename(dir, aside.data) != 0)
            rc = KVA_FAIL(err, KVA_EIO, "%s: cannot replace: %s", dir, strerror(errno));
        else if (rc == KVA_OK && rename(tmp, dir) != 0) {
            rc = KVA_FAIL(err, KVA_EIO, "%s: cannot replace: %s", dir, strerror(errno));
            (void)rename(aside.data, dir);
        } else if (rc == KVA_OK) {
            remove_tree(aside.data, 0);
        }
        kva_buf_release(&aside);
        return rc;
    }
    return KVA_FAIL(err, KVA_EIO, "%s: cannot replace: %s", dir, strerror(errno));
}

/* Is this a report, or something else that --force must not delete? */
static bool is_report(const char *dir)
{
    struct kva_buf path;
    bool yes;

    kva_buf_init(&path, 0);
    kva_buf_printf(&path, "%s/report.json", dir);
    yes = !path.failed && access(path.data, F_OK) == 0;
    kva_buf_release(&path);
    if (!yes &&
        rmdir(dir) == 0) { /* an empty directory may go; make it again for the swap */
        yes = mkdir(dir, 0777) == 0;
    }
    return yes;
}

enum kva_status kva_report_write(const struct kva_report *r, const char *dir, bool force,
                                 struct kva_error *err)
{
    struct kva_buf tmp, clean;
    struct stat st;
    bool exists, made = false;
    enum kva_status rc;

    kva_buf_init(&tmp, 0);
    kva_buf_init(&clean, 0);
    kva_buf_puts(&clean, dir);
    while (clean.len > 1 && !clean.failed && clean.data[clean.len - 1] == '/')
        clean.data[--clean.len] = 0;
    KVA_GO(kva_buf_status(&clean, err));
    exists = lstat(clean.data, &st) == 0;
    if (exists && !force) {
        rc = KVA_FAIL(err, KVA_EINVALID, "%s exists; --force replaces it", clean.data);
        goto out;
    }
    if (exists && (!S_ISDIR(st.st_mode) || !is_report(clean.data))) {
        rc = KVA_FAIL(err, KVA_EINVALID,
                      "%s exists and is no report of kvaudit: not replaced", clean.data);
        goto out;
    }
    kva_buf_printf(&tmp, "%s.tmp-%ld", clean.data, (long)getpid());
    KVA_GO(kva_buf_status(&tmp, err));
    KVA_GO(kva_mkdirs(tmp.data, err));
    made = true;
    KVA_GO(fill(r, tmp.data, err));
    KVA_GO(swap_in(tmp.data, clean.data, exists, err));
    made = false;
    {
        char *slash = strrchr(clean.data, '/');

        if (slash == clean.data)
            slash[1] = 0;
        else if (slash)
            *slash = 0;
        rc = sync_dir(slash ? clean.data : ".", err);
    }
out:
    if (made)
        remove_tree(tmp.data, 0);
    kva_buf_release(&tmp);
    kva_buf_release(&clean);
    return rc;
}
