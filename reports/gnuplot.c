/* SPDX-License-Identifier: GPL-3.0-or-later */
/* gnuplot.c - gnuplot as a child process: no shell, no user's start-up files (-d), locale
 * C, a minute at most; what it says on stderr goes into the error. */
#include "reports/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOT_FOUND 127

uint64_t kva_gnuplot_timeout_ns = 60ULL * 1000000000ULL;

/* In the child: only calls that are safe after fork. */
static void child(const char *dir, const char *file, int err_fd, char **env)
{
    char prog[] = "gnuplot", quiet[] = "-d";
    char *argv[4] = {prog, quiet, NULL, NULL};
    union {
        const char *in;
        char *out;
    } name = {.in = file};
    int null = open("/dev/null", O_RDWR);

    (void)setpgid(0, 0); /* what it starts ends with it */

    argv[2] = name.out;
    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(null, STDOUT_FILENO);
    }
    (void)dup2(err_fd, STDERR_FILENO);
    if (chdir(dir) != 0)
        _exit(126);
    environ = env;
    (void)execvp(prog, argv);
    _exit(errno == ENOENT ? NOT_FOUND : 126);
}

/* Reads until end of file or the deadline; true: ended by itself. */
static bool drain(int fd, struct kva_buf *said, uint64_t deadline)
{
    char bytes[1024];

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now = kva_now_ns();
        ssize_t n;

        if (now >= deadline)
            return false;
        if (poll(&p, 1, (int)((deadline - now) / 1000000) + 1) < 0 && errno != EINTR)
            return true;
        if (!(p.revents & (POLLIN | POLLHUP)))
            continue;
        n = read(fd, bytes, sizeof bytes);
        if (n == 0 || (n < 0 && errno != EINTR))
            return true;
        if (n > 0 && said->len < 400)
            kva_buf_add(said, bytes, (size_t)n);
    }
}

/* Waits until the deadline; true: the child ended by itself. */
static bool ends(pid_t pid, int *status, uint64_t deadline)
{
    const struct timespec nap = {.tv_nsec = 5000000};

    for (;;) {
        pid_t got = waitpid(pid, status, WNOHANG);

        if (got == pid || (got < 0 && errno != EINTR))
            return true;
        if (kva_now_ns() >= deadline)
            return false;
        (void)nanosleep(&nap, NULL);
    }
}

static void one_line(struct kva_buf *b)
{
    for (size_t i = 0; i < b->len; i++)
        if ((unsigned char)b->data[i] < 0x20)
            b->data[i] = ' ';
}

enum kva_status kva_gnuplot_run(const char *dir, const char *file, bool *hung,
                                struct kva_error *err)
{
    static char lang[] = "LC_ALL=C";
    char path[4096], home[] = "HOME=/nonexistent", fonts[4096];
    char *env[6] = {lang, path, home, NULL, NULL, NULL};
    const char *p = getenv("PATH"), *fc = getenv("FONTCONFIG_FILE");
    struct kva_buf said;
    int fd[2], status = 0, n = 3;
    uint64_t deadline;
    bool ended;
    pid_t pid;
    enum kva_status rc = KVA_OK;

    *hung = false;
    path[0] = fonts[0] = 0;
    (void)strncat(path, "PATH=", sizeof path - 1);
    (void)strncat(path, p ? p : "/usr/bin:/bin", sizeof path - strlen(path) - 1);
    if (fc) {
        (void)strncat(fonts, "FONTCONFIG_FILE=", sizeof fonts - 1);
        (void)strncat(fonts, fc, sizeof fonts - strlen(fonts) - 1);
        env[n++] = fonts;
    }
    if (pipe2(fd, O_CLOEXEC) != 0)
        return KVA_FAIL(err, KVA_EIO, "gnuplot: no pipe: %s", strerror(errno));
    pid = fork();
    if (pid < 0) {
        (void)close(fd[0]);
        (void)close(fd[1]);
        return KVA_FAIL(err, KVA_EIO, "gnuplot: cannot start a process: %s",
                        strerror(errno));
    }
    if (pid == 0)
        child(dir, file, fd[1], env);
    (void)close(fd[1]);
    kva_buf_init(&said, 0);
    deadline = kva_now_ns() + kva_gnuplot_timeout_ns;
    ended = drain(fd[0], &said, deadline) && ends(pid, &status, deadline);
    (void)close(fd[0]);
    *hung = !ended;
    if (!ended) {
        (void)kill(-pid, SIGKILL);
        (void)kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    one_line(&said);
    if (!ended)
        rc = KVA_FAIL(err, KVA_EIO, "gnuplot took more than %d s for %s: killed",
                      (int)(kva_gnuplot_timeout_ns / 1000000000), file);
    else if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
        rc = KVA_FAIL(err, KVA_ETOOL, "gnuplot is not installed: no figures");
    else if (said.data && strstr(said.data, KVA_GNUPLOT_OLD))
        rc = KVA_FAIL(err, KVA_ETOOL, KVA_GNUPLOT_OLD ": no figures");
    else if (WIFSIGNALED(status))
        rc = KVA_FAIL(err, KVA_EIO, "gnuplot was killed by signal %d on %s",
                      WTERMSIG(status), file);
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        rc = KVA_FAIL(err, KVA_EIO, "gnuplot failed on %s: %s", file,
                      said.data ? said.data : "");
    kva_buf_release(&said);
    return rc;
}
