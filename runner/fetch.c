/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fetch.c - one item into its cache: what is here first, then a transfer, then proof of
 * size and hash, and only then a name (reports.md 10). */
#include "runner/fetch.h"
#include "runner/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

bool kva_fetch_offline(void)
{
    return kva_env_flag("KVAUDIT_OFFLINE") || kva_env_flag("HF_HUB_OFFLINE");
}

enum kva_status kva_fetch_space(const char *path, int64_t bytes, struct kva_error *err)
{
    char dir[4096];
    char *slash;
    struct statvfs v;
    double have, want = 1.05 * (double)bytes;

    snprintf(dir, sizeof dir, "%s", path);
    slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = '\0';
    if (statvfs(slash ? dir : ".", &v) != 0)
        return KVA_OK; /* unknown is not full; a write will tell */
    have = (double)v.f_bavail * (double)v.f_frsize;
    if (have < want)
        return KVA_FAIL(err, KVA_EIO, "%s has %.1f MB free, %.1f MB are needed", dir,
                        have / 1e6, want / 1e6);
    return KVA_OK;
}

/* ---- a second name for a cached file ---- */

static enum kva_status copy(const char *from, const char *to, struct kva_error *err)
{
    enum { CHUNK = 1 << 18 };
    FILE *in = fopen(from, "rbe"), *out = fopen(to, "wbxe");
    char *chunk = kva_calloc(CHUNK, 1);
    size_t got;
    enum kva_status rc = KVA_OK;

    if (!in || !out || !chunk) {
        rc = KVA_FAIL(err, chunk ? KVA_EIO : KVA_ENOMEM, "cannot copy %s to %s: %s", from,
                      to, strerror(errno));
        goto out;
    }
    while ((got = fread(chunk, 1, CHUNK, in)) > 0)
        if (fwrite(chunk, 1, got, out) != got)
            break;
    if (ferror(in) || ferror(out) || fflush(out) != 0 || fsync(fileno(out)) != 0)
        rc =
            KVA_FAIL(err, KVA_EIO, "cannot copy %s to %s: %s", from, to, strerror(errno));
out:
    if (in)
        (void)fclose(in);
    if (out && fclose(out) != 0 && rc == KVA_OK)
        rc = KVA_FAIL(err, KVA_EIO, "cannot write %s: %s", to, strerror(errno));
    free(chunk);
    return rc;
}

enum kva_status kva_fetch_place(const char *from, const char *target,
                                struct kva_error *err)
{
    char real[4096], tmp[4096];
    struct stat a, b;
    enum kva_status rc = KVA_OK;

    if (!realpath(from, real))
        return KVA_FAIL(err, KVA_EIO, "%s: %s", from, strerror(errno));
    if (stat(real, &a) == 0 && lstat(target, &b) == 0 && a.st_ino == b.st_ino &&
        a.st_dev == b.st_dev)
        return KVA_OK; /* rename between two names of one file would leave both */
    KVA_TRY(kva_mkdirs_of(target, err));
    if (snprintf(tmp, sizeof tmp, "%s.%ld.tmp", target, (long)getpid()) >=
        (int)sizeof tmp)
        return KVA_FAIL(err, KVA_EINVALID, "%.100s...: the path is too long", target);
    (void)unlink(tmp);
    if (link(real, tmp) != 0)
        rc = copy(real, tmp, err);
    if (rc == KVA_OK && rename(tmp, target) != 0)
        rc = KVA_FAIL(err, KVA_EIO, "cannot write %s: %s", target, strerror(errno));
    if (rc != KVA_OK)
        (void)unlink(tmp);
    return rc == KVA_OK ? kva_sync_dir_of(target, err) : rc;
}

/* ---- transfer, proof, name ---- */

/* job.part into `blob`, or into the directory of blobs under its SHA-256 when `blob` is
 * NULL. A file that is not what it should be is thrown away and fetched once more. */
static enum kva_status bring(struct kva_http_job *job, const char *dir, const char *blob,
                             const char *sha256, const char *etag,
                             struct kva_http_got *got, struct kva_error *err)
{
    char named[4200];
    struct kva_error first = {0};

    for (int fresh = 0; fresh < 2; fresh++) {
        struct kva_error one = {0};
        char sha1[41] = "", again[65];
        enum kva_status rc = kva_http_get(job, got, &one);

        if (rc == KVA_OK && job->bytes >= 0 && got->bytes != job->bytes)
            rc = KVA_FAIL(&one, KVA_EFORMAT, "%s: %lld bytes came, %lld expected",
                          job->name, (long long)got->bytes, (long long)job->bytes);
        if (rc == KVA_OK && sha256 && strcmp(got->sha256, sha256) != 0)
            rc = KVA_FAIL(&one, KVA_EFORMAT,
                          "%s: SHA-256 %.16s... came, %.16s... expected", job->name,
                          got->sha256, sha256);
        if (rc == KVA_OK && etag && strlen(etag) == 64 && strcmp(got->sha256, etag) != 0)
            rc = KVA_FAIL(&one, KVA_EFORMAT,
                          "%s: SHA-256 %.16s... came, the hub says %.16s...", job->name,
                          got->sha256, etag);
        if (rc == KVA_OK && etag && strlen(etag) == 40) {
            rc = kva_file_hashes(job->part, again, sha1, &one);
            if (rc == KVA_OK && strcmp(sha1, etag) != 0)
                rc = KVA_FAIL(&one, KVA_EFORMAT,
                              "%s: git hash %.12s... came, the hub says %.12s...",
                              job->name, sha1, etag);
        }
        if (rc == KVA_EFORMAT && fresh == 0) {
            kva_log(KVA_LOG_WARN, "%s; thrown away, fetching it once more", one.text);
            kva_http_forget(job->part);
            first = one;
            continue;
        }
        if (rc != KVA_OK) {
            if (rc == KVA_EFORMAT)
                kva_http_forget(job->part);
            return KVA_FAIL(err, rc, "%s", one.text);
        }
        if (!blob) {
            if (snprintf(named, sizeof named, "%s/%s", dir, got->sha256) >=
                (int)sizeof named)
                return KVA_FAIL(err, KVA_EINVALID, "%.100s...: the path is too long",
                                dir);
            blob = named;
        }
        if (rename(job->part, blob) != 0)
            return KVA_FAIL(err, KVA_EIO, "cannot rename to %s: %s", blob,
                            strerror(errno));
        kva_http_forget(job->part);
        kva_fetch_remember(blob, got->sha256, sha1);
        return kva_sync_dir_of(blob, err);
    }
    return KVA_FAIL(err, first.code, "%s", first.text);
}

/* KVA_OK: it is there and right. KVA_EIO: it is not there. KVA_EFORMAT: it is another
 * file, said aloud when it will be replaced. */
static enum kva_status look(const char *path, const struct kva_fetch_item *it,
                            const char *etag, struct kva_error *err)
{
    if (access(path, F_OK) != 0)
        return KVA_FAIL(err, KVA_EIO, "%s is not at %s", it->name, path);
    return kva_fetch_verify(path, it->bytes, it->sha256, etag, err);
}

/* ---- own cache ---- */

/* Unpinned files are found again by a link named after the address. */
static void url_key(const char *url, char out[40])
{
    uint8_t sum[32];
    char hex[65];

    kva_sha256_of(url, strlen(url), sum);
    kva_hex(sum, 16, hex);
    snprintf(out, 40, "url-%.32s", hex);
}

static enum kva_status own_locked(const struct kva_fetch_item *it,
                                  const struct kva_fetch_opts *o, const char *cache,
                                  const char *key, const char *at, const char **status,
                                  struct kva_error *err)
{
    struct kva_http_job job = {
        .url = it->url, .name = it->name, .o = o, .bytes = it->bytes};
    struct kva_http_got got;
    struct kva_error bad = {0};
    char dir[4096], part[4200], to[80];
    enum kva_status rc = look(at, it, NULL, &bad);

    if (rc == KVA_OK)
        return KVA_OK; /* another process brought it meanwhile */
    if (rc == KVA_EFORMAT)
        kva_log(KVA_LOG_WARN, "%s; it is replaced", bad.text);
    if (snprintf(dir, sizeof dir, "%s/blobs", cache) >= (int)sizeof dir)
        return KVA_FAIL(err, KVA_EINVALID, "%.100s...: the path is too long", cache);
    snprintf(part, sizeof part, "%s/%s.part", dir, key);
    job.part = part;
    *status = "fetched";
    KVA_TRY(bring(&job, dir, it->sha256 ? at : NULL, it->sha256, NULL, &got, err));
    if (it->sha256)
        return KVA_OK;
    snprintf(to, sizeof to, "../blobs/%s", got.sha256);
    return kva_symlink_put(to, at, err);
}

static enum kva_status own_file(const struct kva_fetch_item *it,
                                const struct kva_fetch_opts *o, struct kva_buf *path,
                                const char **status, struct kva_error *err)
{
    struct kva_buf cache;
    struct kva_error bad = {0};
    char key[80], lock[4200];
    int fd = -1;
    enum kva_status rc;

    kva_buf_init(&cache, 4096);
    KVA_GO(kva_cache_dir(&cache, err));
    if (it->sha256)
        snprintf(key, sizeof key, "%s", it->sha256);
    else
        url_key(it->url, key);
    kva_buf_printf(path, "%s/%s/%s", cache.data, it->sha256 ? "blobs" : "by-url", key);
    KVA_GO(kva_buf_status(path, err));
    rc = look(path->data, it, NULL, &bad);
    if (rc == KVA_OK || o->offline) {
        if (rc != KVA_OK)
            rc = KVA_FAIL(err, rc, "%s; nothing is downloaded offline", bad.text);
        goto out;
    }
    snprintf(lock, sizeof lock, "%s/locks/%s.lock", cache.data, key);
    KVA_GO(kva_fetch_lock(lock, &fd, err));
    rc = own_locked(it, o, cache.data, key, path->data, status, err);
out:
    if (fd >= 0)
        close(fd);
    kva_buf_release(&cache);
    return rc;
}

/* ---- hub ---- */

static void escape(const char *text, const char *keep, struct kva_buf *out)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (strchr(plain, *p) || strchr(keep, *p))
            kva_buf_putc(out, (char)*p);
        else
            kva_buf_printf(out, "%%%02X", *p);
    }
}

struct hub {
    struct kva_buf root, folder, dir, url, page;
    char commit[41], etag[128];
    int64_t bytes;
};

static enum kva_status hub_places(const struct kva_fetch_item *it, struct hub *h,
                                  struct kva_error *err)
{
    const char *end = getenv("HF_ENDPOINT");
    size_t n;

    if (!end || !*end)
        end = "https://huggingface.co";
    n = strlen(end);
    while (n > 0 && end[n - 1] == '/')
        n--;
    kva_buf_printf(&h->page, "%.*s/%s", (int)n, end, it->repo);
    kva_buf_printf(&h->url, "%.*s/%s/resolve/", (int)n, end, it->repo);
    escape(it->rev, "", &h->url);
    kva_buf_putc(&h->url, '/');
    escape(it->path, "/", &h->url);
    KVA_TRY(kva_hub_root(&h->root, err));
    KVA_TRY(kva_hub_folder(it->repo, &h->folder, err));
    kva_buf_printf(&h->dir, "%s/%s", h->root.data, h->folder.data);
    KVA_TRY(kva_buf_status(&h->page, err));
    KVA_TRY(kva_buf_status(&h->url, err));
    return kva_buf_status(&h->dir, err);
}

/* The snapshot of a commit that is known here; its blob's name says what it should be. */
static enum kva_status hub_here(const struct kva_fetch_item *it, struct hub *h,
                                struct kva_buf *path, struct kva_error *err)
{
    char to[4096];
    const char *slash;
    ssize_t n;

    if (!kva_hub_commit(h->dir.data, it->rev, h->commit)) {
        kva_buf_printf(path, "%s/snapshots/%s/%s", h->dir.data, it->rev, it->path);
        return KVA_FAIL(err, KVA_EIO, "%s is not here: no commit in %s/refs/%s", it->name,
                        h->dir.data, it->rev);
    }
    kva_buf_printf(path, "%s/snapshots/%s/%s", h->dir.data, h->commit, it->path);
    KVA_TRY(kva_buf_status(path, err));
    n = readlink(path->data, to, sizeof to - 1);
    to[n > 0 ? n : 0] = '\0';
    slash = strrchr(to, '/');
    return look(path->data, it, slash && kva_hash_name(slash + 1) ? slash + 1 : NULL,
                err);
}

static enum kva_status hub_locked(const struct kva_fetch_item *it,
                                  const struct kva_http_job *ask, const struct hub *h,
                                  const char **status, struct kva_error *err)
{
    struct kva_http_job job = *ask;
    struct kva_fetch_item known = *it;
    struct kva_http_got got;
    struct kva_error bad = {0};
    char blob[4300], part[4400];
    enum kva_status rc;

    snprintf(blob, sizeof blob, "%s/blobs/%s", h->dir.data, h->etag);
    snprintf(part, sizeof part, "%s.part", blob);
    known.bytes = it->bytes >= 0 ? it->bytes : h->bytes;
    rc = look(blob, &known, h->etag, &bad);
    if (rc == KVA_OK)
        return KVA_OK;
    if (rc == KVA_EFORMAT)
        kva_log(KVA_LOG_WARN, "%s; it is replaced", bad.text);
    job.part = part;
    job.bytes = known.bytes;
    *status = "fetched";
    return bring(&job, NULL, blob, it->sha256, h->etag, &got, err);
}

static enum kva_status hub_ask(const struct kva_fetch_item *it, struct kva_http_job *job,
                               struct hub *h, struct kva_error *err)
{
    struct kva_http_head head;

    KVA_TRY(kva_http_ask(job, &head, err));
    if (strlen(head.hub_commit) != 40 ||
        strspn(head.hub_commit, "0123456789abcdef") != 40 ||
        !kva_hash_name(head.hub_etag))
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: the hub names no commit, or no hash of the file", it->name);
    if (strlen(it->rev) == 40 && kva_hash_name(it->rev) &&
        strcmp(it->rev, head.hub_commit) != 0)
        return KVA_FAIL(err, KVA_EFORMAT, "%s: the hub answers with commit %.12s...",
                        it->name, head.hub_commit);
    memcpy(h->commit, head.hub_commit, sizeof h->commit);
    memcpy(h->etag, head.hub_etag, sizeof h->etag);
    h->bytes = head.hub_size;
    if (it->sha256 && strlen(h->etag) == 64 && strcmp(it->sha256, h->etag) != 0)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s: the hub has SHA-256 %.16s..., %.16s... expected", it->name,
                        h->etag, it->sha256);
    if (it->bytes >= 0 && h->bytes >= 0 && it->bytes != h->bytes)
        return KVA_FAIL(err, KVA_EFORMAT, "%s: the hub has %lld bytes, %lld expected",
                        it->name, (long long)h->bytes, (long long)it->bytes);
    return KVA_OK;
}

static enum kva_status hub_file(const struct kva_fetch_item *it,
                                const struct kva_fetch_opts *o, struct kva_buf *path,
                                const char **status, struct kva_error *err)
{
    struct hub h = {.bytes = -1};
    struct kva_http_job job = {.name = it->name, .o = o, .bytes = -1};
    struct kva_error bad = {0};
    char lock[4400];
    int fd = -1;
    enum kva_status rc;

    kva_buf_init(&h.root, 4096);
    kva_buf_init(&h.folder, 4096);
    kva_buf_init(&h.dir, 4096);
    kva_buf_init(&h.url, 4096);
    kva_buf_init(&h.page, 4096);
    KVA_GO(hub_places(it, &h, err));
    rc = hub_here(it, &h, path, &bad);
    /* a branch may have moved on, unless the hash says what is wanted */
    if (o->offline || (rc == KVA_OK && (it->sha256 || strcmp(it->rev, h.commit) == 0))) {
        if (rc != KVA_OK)
            rc = KVA_FAIL(err, rc, "%s; nothing is downloaded offline", bad.text);
        goto out;
    }
    job.url = h.url.data;
    job.token = kva_hub_token();
    job.licence_page = h.page.data;
    KVA_GO(hub_ask(it, &job, &h, err));
    snprintf(lock, sizeof lock, "%s/.locks/%s/%s.lock", h.root.data, h.folder.data,
             h.etag);
    KVA_GO(kva_fetch_lock(lock, &fd, err));
    KVA_GO(hub_locked(it, &job, &h, status, err));
    KVA_GO(kva_hub_link(h.dir.data, it->rev, h.commit, it->path, h.etag, err));
    path->len = 0;
    kva_buf_printf(path, "%s/snapshots/%s/%s", h.dir.data, h.commit, it->path);
    rc = kva_buf_status(path, err);
out:
    if (fd >= 0)
        close(fd);
    kva_buf_release(&h.root);
    kva_buf_release(&h.folder);
    kva_buf_release(&h.dir);
    kva_buf_release(&h.url);
    kva_buf_release(&h.page);
    return rc;
}

enum kva_status kva_fetch_file(const struct kva_fetch_item *it,
                               const struct kva_fetch_opts *o, struct kva_buf *path,
                               const char **status, struct kva_error *err)
{
    *status = "present";
    return it->url ? own_file(it, o, path, status, err)
                   : hub_file(it, o, path, status, err);
}
