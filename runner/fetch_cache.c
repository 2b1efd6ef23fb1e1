/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fetch_cache.c - where fetched files lie, locks, links and hashes computed once.
 *
 * The hub's cache is shared with other programs; its layout is the documented one
 * (huggingface/hub-docs, docs/hub/local-cache.md): models--org--repo/{blobs,refs,
 * snapshots}, blobs named by ETag, snapshots/COMMIT/PATH a relative symlink into blobs,
 * locks beside it. What kvaudit alone remembers lies in its own cache. */
#include "runner/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- places ---- */

enum kva_status kva_hub_root(struct kva_buf *out, struct kva_error *err)
{
    const char *cache = getenv("HF_HUB_CACHE"), *hf = getenv("HF_HOME");
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache && *cache)
        kva_buf_puts(out, cache);
    else if (hf && *hf)
        kva_buf_printf(out, "%s/hub", hf);
    else if (xdg && *xdg == '/')
        kva_buf_printf(out, "%s/huggingface/hub", xdg);
    else if (home && *home)
        kva_buf_printf(out, "%s/.cache/huggingface/hub", home);
    else
        return KVA_FAIL(
            err, KVA_EINVALID,
            "no hub cache: set HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME or HOME");
    return kva_buf_status(out, err);
}

enum kva_status kva_hub_folder(const char *repo, struct kva_buf *out,
                               struct kva_error *err)
{
    bool data = strncmp(repo, "datasets/", 9) == 0;

    kva_buf_puts(out, data ? "datasets--" : "models--");
    for (const char *p = data ? repo + 9 : repo; *p; p++) {
        if (*p == '/')
            kva_buf_puts(out, "--");
        else
            kva_buf_putc(out, *p);
    }
    return kva_buf_status(out, err);
}

static bool is_hex(const char *s, size_t n)
{
    return strlen(s) == n && strspn(s, "0123456789abcdef") == n;
}

bool kva_hash_name(const char *name)
{
    return is_hex(name, 64) || is_hex(name, 40);
}

bool kva_hub_commit(const char *dir, const char *rev, char commit[41])
{
    char path[4096];
    struct kva_buf text;
    bool known = is_hex(rev, 40);

    if (known) {
        memcpy(commit, rev, 41);
        return true;
    }
    kva_buf_init(&text, 4096);
    if (snprintf(path, sizeof path, "%s/refs/%s", dir, rev) < (int)sizeof path &&
        kva_read_file(path, 256, &text, NULL) == KVA_OK) {
        text.data[strcspn(text.data, " \r\n")] = '\0';
        known = is_hex(text.data, 40);
        if (known)
            memcpy(commit, text.data, 41);
    }
    kva_buf_release(&text);
    return known;
}

enum kva_status kva_mkdirs_of(const char *path, struct kva_error *err)
{
    char dir[4096];
    char *slash;

    if (snprintf(dir, sizeof dir, "%s", path) >= (int)sizeof dir)
        return KVA_FAIL(err, KVA_EINVALID, "%.100s...: the path is too long", path);
    slash = strrchr(dir, '/');
    if (!slash || slash == dir)
        return KVA_OK;
    *slash = '\0';
    return kva_mkdirs(dir, err);
}

enum kva_status kva_sync_dir_of(const char *path, struct kva_error *err)
{
    char dir[4096];
    char *slash;
    int fd;

    if (snprintf(dir, sizeof dir, "%s", path) >= (int)sizeof dir)
        return KVA_FAIL(err, KVA_EINVALID, "%.100s...: the path is too long", path);
    slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = '\0';
    fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd); /* some file systems cannot; the file itself is synced */
        close(fd);
    }
    return KVA_OK;
}

enum kva_status kva_symlink_put(const char *to, const char *at, struct kva_error *err)
{
    char tmp[4096], was[4096];
    ssize_t n = readlink(at, was, sizeof was - 1);

    if (n >= 0 && (size_t)n == strlen(to) && memcmp(was, to, (size_t)n) == 0)
        return KVA_OK;
    KVA_TRY(kva_mkdirs_of(at, err));
    if (snprintf(tmp, sizeof tmp, "%s.%ld.tmp", at, (long)getpid()) >= (int)sizeof tmp)
        return KVA_FAIL(err, KVA_EINVALID, "%.100s...: the path is too long", at);
    (void)unlink(tmp);
    if (symlink(to, tmp) != 0 || rename(tmp, at) != 0) {
        int e = errno;

        (void)unlink(tmp);
        return KVA_FAIL(err, KVA_EIO, "cannot link %s: %s", at, strerror(e));
    }
    return KVA_OK;
}

enum kva_status kva_hub_link(const char *dir, const char *rev, const char *commit,
                             const char *path, const char *etag, struct kva_error *err)
{
    struct kva_buf to, at;
    enum kva_status rc;

    kva_buf_init(&to, 1 << 14);
    kva_buf_init(&at, 1 << 14);
    if (strcmp(rev, commit) != 0) {
        kva_buf_printf(&at, "%s/refs/%s", dir, rev);
        KVA_GO(kva_buf_status(&at, err));
        KVA_GO(kva_mkdirs_of(at.data, err));
        KVA_GO(kva_write_file(at.data, commit, strlen(commit), err));
        at.len = 0;
    }
    for (const char *p = path; *p; p++)
        if (*p == '/')
            kva_buf_puts(&to, "../");
    kva_buf_printf(&to, "../../blobs/%s", etag);
    kva_buf_printf(&at, "%s/snapshots/%s/%s", dir, commit, path);
    KVA_GO(kva_buf_status(&to, err));
    KVA_GO(kva_buf_status(&at, err));
    rc = kva_symlink_put(to.data, at.data, err);
out:
    kva_buf_release(&to);
    kva_buf_release(&at);
    return rc;
}

/* ---- locks ---- */

/* Whoever held the lock may have removed its file: then it locks nobody out any more. */
static bool still_there(int fd, const char *path)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

enum kva_status kva_fetch_lock(const char *path, int *fd, struct kva_error *err)
{
    struct timespec nap = {0, 50000000};
    bool said = false;

    *fd = -1;
    KVA_TRY(kva_mkdirs_of(path, err));
    while (!kva_interrupted) {
        if (*fd < 0)
            *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (*fd < 0)
            return KVA_FAIL(err, KVA_EIO, "cannot open the lock %s: %s", path,
                            strerror(errno));
        if (flock(*fd, LOCK_EX | LOCK_NB) == 0) {
            if (still_there(*fd, path))
                return KVA_OK;
            close(*fd);
            *fd = -1;
            continue;
        }
        if (errno != EWOULDBLOCK && errno != EINTR) {
            int e = errno;

            close(*fd);
            *fd = -1;
            return KVA_FAIL(err, KVA_EIO, "cannot lock %s: %s", path, strerror(e));
        }
        if (!said)
            kva_log(KVA_LOG_WARN, "another process has %s; waiting for it", path);
        said = true;
        nanosleep(&nap, NULL);
    }
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return KVA_FAIL(err, KVA_EINTERRUPTED, "interrupted while waiting for %s", path);
}

/* ---- hashes, computed once ---- */

/* Both hashes of a file in one pass. sha1 is that of a git blob: of "blob SIZE\0" and the
 * bytes. */
enum kva_status kva_file_hashes(const char *path, char sha256[65], char *sha1,
                                struct kva_error *err)
{
    enum { CHUNK = 1 << 18 };
    FILE *f = fopen(path, "rbe");
    char *chunk = kva_calloc(CHUNK, 1), head[40];
    struct kva_sha256 h;
    struct kva_sha1 g;
    struct stat st;
    uint8_t sum[32];
    size_t got;
    enum kva_status rc = KVA_OK;

    if (!f || !chunk || fstat(fileno(f), &st) != 0) {
        rc = chunk ? KVA_FAIL(err, KVA_EIO, "%s: %s", path, strerror(errno))
                   : KVA_FAIL(err, KVA_ENOMEM, "out of memory");
        goto out;
    }
    kva_sha256_init(&h);
    kva_sha1_init(&g);
    snprintf(head, sizeof head, "blob %lld", (long long)st.st_size);
    kva_sha1_add(&g, head, strlen(head) + 1);
    while ((got = fread(chunk, 1, CHUNK, f)) > 0) {
        kva_sha256_add(&h, chunk, got);
        if (sha1)
            kva_sha1_add(&g, chunk, got);
        if (kva_interrupted) {
            rc = KVA_FAIL(err, KVA_EINTERRUPTED, "interrupted");
            goto out;
        }
    }
    if (ferror(f)) {
        rc = KVA_FAIL(err, KVA_EIO, "reading %s: %s", path, strerror(errno));
        goto out;
    }
    kva_sha256_end(&h, sum);
    kva_hex(sum, 32, sha256);
    if (sha1) {
        kva_sha1_end(&g, sum);
        kva_hex(sum, 20, sha1);
    }
out:
    if (f)
        (void)fclose(f);
    free(chunk);
    return rc;
}

/* <cache>/verified/<name made of the path>: "INODE SIZE MTIME_NS SHA256 SHA1-or--" */
static enum kva_status memory_path(const char *path, struct kva_buf *out)
{
    char real[4096], hex[65];
    uint8_t sum[32];

    if (!realpath(path, real))
        return KVA_EIO;
    kva_sha256_of(real, strlen(real), sum);
    kva_hex(sum, 16, hex);
    KVA_TRY(kva_cache_dir(out, NULL));
    kva_buf_printf(out, "/verified/%s", hex);
    return kva_buf_status(out, NULL);
}

static void stamp(const struct stat *st, char *out, size_t n)
{
    snprintf(out, n, "%llu %lld %lld%09ld ", (unsigned long long)st->st_ino,
             (long long)st->st_size, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

/* A memory that cannot be written costs time, nothing else. */
void kva_fetch_remember(const char *path, const char *sha256, const char *sha1)
{
    struct kva_buf at;
    struct stat st;
    char text[256], when[96];

    kva_buf_init(&at, 1 << 14);
    if (stat(path, &st) == 0 && memory_path(path, &at) == KVA_OK &&
        kva_mkdirs_of(at.data, NULL) == KVA_OK) {
        stamp(&st, when, sizeof when);
        snprintf(text, sizeof text, "%s%s %s\n", when, sha256, sha1[0] ? sha1 : "-");
        (void)kva_write_file(at.data, text, strlen(text), NULL);
    }
    kva_buf_release(&at);
}

static bool recall(const char *path, const struct stat *st, char sha256[65],
                   char sha1[41])
{
    struct kva_buf at, text;
    char when[96];
    size_t n;
    bool found = false;

    kva_buf_init(&at, 1 << 14);
    kva_buf_init(&text, 4096);
    stamp(st, when, sizeof when);
    n = strlen(when);
    sha1[0] = '\0';
    if (memory_path(path, &at) == KVA_OK && access(at.data, R_OK) == 0 &&
        kva_read_file(at.data, 512, &text, NULL) == KVA_OK && text.len > n + 65 &&
        memcmp(text.data, when, n) == 0) {
        memcpy(sha256, text.data + n, 64);
        sha256[64] = '\0';
        snprintf(sha1, 41, "%.40s", text.data + n + 65);
        sha1[strcspn(sha1, "-\n")] = '\0';
        found = is_hex(sha256, 64);
    }
    kva_buf_release(&at);
    kva_buf_release(&text);
    return found;
}

enum kva_status kva_fetch_verify(const char *path, int64_t bytes, const char *sha256,
                                 const char *etag, struct kva_error *err)
{
    bool git = etag && is_hex(etag, 40), lfs = etag && is_hex(etag, 64);
    char sha[65], sha1[41] = "";
    struct stat st;

    if (stat(path, &st) != 0)
        return KVA_FAIL(err, KVA_EIO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return KVA_FAIL(err, KVA_EFORMAT, "%s is not a file", path);
    if (bytes >= 0 && st.st_size != bytes)
        return KVA_FAIL(err, KVA_EFORMAT, "%s has %lld bytes, %lld expected", path,
                        (long long)st.st_size, (long long)bytes);
    if (!sha256 && !git && !lfs)
        return KVA_OK;
    if (!recall(path, &st, sha, sha1) || (git && !sha1[0])) {
        KVA_TRY(kva_file_hashes(path, sha, git ? sha1 : NULL, err));
        kva_fetch_remember(path, sha, sha1);
    }
    if (lfs && !sha256)
        sha256 = etag;
    if (sha256 && strcmp(sha, sha256) != 0)
        return KVA_FAIL(err, KVA_EFORMAT, "%s has SHA-256 %.16s..., %.16s... expected",
                        path, sha, sha256);
    if (lfs && strcmp(sha, etag) != 0)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s has SHA-256 %.16s..., its name says %.16s...", path, sha,
                        etag);
    if (git && strcmp(sha1, etag) != 0)
        return KVA_FAIL(err, KVA_EFORMAT,
                        "%s has git hash %.12s..., its name says %.12s...", path, sha1,
                        etag);
    return KVA_OK;
}
