/* SPDX-License-Identifier: GPL-3.0-or-later */
/* child.c - another program as a child process, without a shell (child.h). */
#include "runner/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOT_FOUND 127

static void child(const char *const *argv, const char *dir, int out, bool quiet)
{
    union {
        const char *const *in;
        char *const *out;
    } args = {.in = argv};
    int null = open("/dev/null", O_RDWR);

    if (null >= 0)
        (void)dup2(null, STDIN_FILENO);
    (void)dup2(out, STDOUT_FILENO);
    if (quiet && null >= 0)
        (void)dup2(null, STDERR_FILENO);
    (void)signal(SIGXFSZ, SIG_DFL);
    if (dir && chdir(dir) != 0)
        _exit(126);
    (void)execvp(argv[0], args.out);
    _exit(errno == ENOENT ? NOT_FOUND : 126);
}

enum kva_status kva_child_run(const char *const *argv, const char *dir,
                              struct kva_buf *out, bool quiet, int *status,
                              struct kva_error *err)
{
    int fd[2] = {-1, -1}, ended;
    char bytes[4096];
    pid_t pid;

    if (out && pipe2(fd, O_CLOEXEC) != 0)
        return KVA_FAIL(err, KVA_EIO, "%s: no pipe: %s", argv[0], strerror(errno));
    pid = fork();
    if (pid < 0) {
        if (out) {
            (void)close(fd[0]);
            (void)close(fd[1]);
        }
        return KVA_FAIL(err, KVA_EIO, "%s: cannot start a process: %s", argv[0],
                        strerror(errno));
    }
    if (pid == 0)
        child(argv, dir, out ? fd[1] : STDERR_FILENO, quiet);
    if (out) {
        ssize_t n;

        (void)close(fd[1]);
        while ((n = read(fd[0], bytes, sizeof bytes)) > 0 || (n < 0 && errno == EINTR))
            if (n > 0 && !out->failed)
                kva_buf_add(out, bytes, (size_t)n);
        (void)close(fd[0]);
    }
    while (waitpid(pid, &ended, 0) < 0 && errno == EINTR)
        ;
    *status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
    if (*status == NOT_FOUND)
        return KVA_FAIL(err, KVA_ETOOL, "%s is not installed", argv[0]);
    return KVA_OK;
}
