/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pool.c - one pipe to each worker with unit numbers, one back with messages.
 *
 * Message: type (1 byte), length (8 bytes), payload. 'S' a sample; 'R' a count and that
 * many results (one commit); 'P' the rows of a sitting; 'F' a status and a text: the unit
 * as a whole failed; 'U' the unit ended. */
#include "runner/pool.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/pack.h"

struct worker {
    pid_t pid; /* 0: none, or a thread */
    pthread_t thread;
    bool threaded;
    int to, from; /* -1 when closed */
    int unit;     /* being run, or -1 */
    struct kva_buf in;
};

struct pool {
    struct kva_plan *plan;
    bool perf;
    const struct kva_pool_events *ev;
    struct worker *w;
    int n;
    int next;           /* next unit to hand out */
    bool device;        /* a thread instead of processes */
    bool **got;         /* [unit][job] reported */
    volatile int *stop; /* shared with the workers */
    struct kva_exec_opts exec;
    struct kva_error *err;
};

/* ---- worker side ---- */

struct pipe_out {
    int fd;
};

static bool write_all(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;

    while (n > 0) {
        ssize_t k = write(fd, p, n);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static enum kva_status send_msg(int fd, char type, const struct kva_buf *b,
                                struct kva_error *err)
{
    uint64_t len = b->len;

    KVA_TRY(kva_buf_status(b, err));
    if (!write_all(fd, &type, 1) || !write_all(fd, &len, sizeof len) ||
        !write_all(fd, b->data, b->len))
        return KVA_FAIL(err, KVA_EIO, "the parent process is gone");
    return KVA_OK;
}

static enum kva_status out_sample(void *ctx, const struct kva_sample_row *s,
                                  struct kva_error *err)
{
    struct kva_buf b;
    enum kva_status rc;

    kva_buf_init(&b, 0);
    kva_sample_pack(s, &b);
    rc = send_msg(((struct pipe_out *)ctx)->fd, 'S', &b, err);
    kva_buf_release(&b);
    return rc;
}

static enum kva_status out_results(void *ctx, const struct kva_result *r, int n,
                                   struct kva_error *err)
{
    struct kva_buf b;
    enum kva_status rc;

    kva_buf_init(&b, 0);
    kva_buf_add(&b, &n, sizeof n);
    for (int i = 0; i < n; i++)
        kva_result_pack(&r[i], &b);
    rc = send_msg(((struct pipe_out *)ctx)->fd, 'R', &b, err);
    kva_buf_release(&b);
    return rc;
}

static enum kva_status out_perf(void *ctx, const struct kva_perf_row *rows, int n,
                                struct kva_error *err)
{
    struct kva_buf b;
    enum kva_status rc;

    kva_buf_init(&b, 0);
    kva_buf_add(&b, rows, (size_t)n * sizeof *rows);
    rc = send_msg(((struct pipe_out *)ctx)->fd, 'P', &b, err);
    kva_buf_release(&b);
    return rc;
}

static bool send_end(int fd, int unit, enum kva_status rc, const struct kva_error *why,
                     int64_t ns, int64_t rows)
{
    struct kva_buf b;
    bool ok = true;

    kva_buf_init(&b, 0);
    if (rc != KVA_OK) {
        kva_buf_add(&b, &rc, sizeof rc);
        kva_buf_add(&b, why->text, strlen(why->text) + 1);
        ok = send_msg(fd, 'F', &b, NULL) == KVA_OK;
        b.len = 0;
    }
    kva_buf_add(&b, &unit, sizeof unit);
    kva_buf_add(&b, &ns, sizeof ns);
    kva_buf_add(&b, &rows, sizeof rows);
    ok = ok && send_msg(fd, 'U', &b, NULL) == KVA_OK;
    kva_buf_release(&b);
    return ok;
}

static void worker_loop(struct pool *p, int in, int out)
{
    struct pipe_out po = {out};
    struct kva_sink sink = {&po, out_sample, out_results, out_perf};
    int unit;

    while (read(in, &unit, sizeof unit) == (ssize_t)sizeof unit) {
        struct kva_error why = {0};
        uint64_t t0 = kva_now_ns();
        int64_t rows = 0;
        enum kva_status rc =
            kva_exec_unit(p->plan, unit, p->perf, &p->exec, &sink, &rows, &why);

        if (!send_end(out, unit, rc, &why, (int64_t)(kva_now_ns() - t0), rows))
            break;
    }
}

static void own_process(void)
{
    /* the parent decides when to stop; a dead parent must not leave us behind */
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* freed blocks go back at once, so that the resident set witnesses the store */
    (void)mallopt(M_MMAP_THRESHOLD, 256 * 1024);
    (void)mallopt(M_TRIM_THRESHOLD, 256 * 1024);
}

/* What a thread needs to know; its own, since the parent's stack goes on. */
struct thread_start {
    struct pool *p;
    int in, out;
};

static void *worker_thread(void *start)
{
    struct thread_start s = *(struct thread_start *)start;

    free(start);
    worker_loop(s.p, s.in, s.out);
    (void)close(s.in);
    (void)close(s.out);
    return NULL;
}

/* ---- parent side ---- */

static int jobs_of(const struct pool *p, int unit)
{
    const struct kva_unit *u = &p->plan->units[unit];
    int n = 0;

    for (int i = 0; i < u->n_jobs; i++)
        n += u->jobs[i].perf == p->perf && !p->got[unit][i];
    return n;
}

static enum kva_status spawn_thread(struct pool *p, struct worker *w, int in, int out,
                                    struct kva_error *err)
{
    struct thread_start *s = kva_calloc(1, sizeof *s);

    if (s == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "a worker thread");
    *s = (struct thread_start){p, in, out};
    if (pthread_create(&w->thread, NULL, worker_thread, s) != 0) {
        free(s);
        return KVA_FAIL(err, KVA_EIO, "a worker thread cannot be started");
    }
    w->threaded = true;
    return KVA_OK;
}

static enum kva_status spawn(struct pool *p, struct worker *w, struct kva_error *err)
{
    int to[2], from[2];

    if (pipe(to) != 0)
        return KVA_FAIL(err, KVA_EIO, "pipe: %s", strerror(errno));
    if (pipe(from) != 0) {
        (void)close(to[0]);
        (void)close(to[1]);
        return KVA_FAIL(err, KVA_EIO, "pipe: %s", strerror(errno));
    }
    if (p->device) {
        w->to = to[1];
        w->from = from[0];
        w->unit = -1;
        w->in.len = 0;
        if (spawn_thread(p, w, to[0], from[1], err) == KVA_OK)
            return KVA_OK;
        for (int i = 0; i < 2; i++) {
            (void)close(to[i]);
            (void)close(from[i]);
        }
        w->to = w->from = -1;
        return err ? err->code : KVA_EIO;
    }
    w->pid = fork();
    if (w->pid == 0) {
        for (int i = 0; i < p->n; i++) { /* other workers' ends */
            if (p->w[i].pid > 0 && &p->w[i] != w) {
                (void)close(p->w[i].to);
                (void)close(p->w[i].from);
            }
        }
        (void)close(to[1]);
        (void)close(from[0]);
        own_process();
        worker_loop(p, to[0], from[1]);
        _exit(0);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    w->to = to[1];
    w->from = from[0];
    w->unit = -1;
    w->in.len = 0;
    if (w->pid < 0) {
        (void)close(w->to);
        (void)close(w->from);
        w->to = w->from = -1;
        return KVA_FAIL(err, KVA_EIO, "fork: %s", strerror(errno));
    }
    return KVA_OK;
}

static void hang_up(struct worker *w)
{
    if (w->to >= 0)
        (void)close(w->to);
    w->to = -1;
}

/* Hands the worker its next unit, or hangs up so that it ends. */
static void feed(struct pool *p, struct worker *w)
{
    while (p->next < p->plan->n_units &&
           (jobs_of(p, p->next) == 0 ||
            (p->ev->skip != NULL && p->ev->skip(p->ev->ctx, p->next))))
        p->next++;
    if (*p->stop != 0 || p->next >= p->plan->n_units) {
        hang_up(w);
        return;
    }
    w->unit = p->next++;
    if (!write_all(w->to, &w->unit, sizeof w->unit))
        hang_up(w);
}

static void mark(struct pool *p, const struct kva_result *r)
{
    const struct kva_unit *u = &p->plan->units[r->unit];

    for (int i = 0; i < u->n_jobs; i++)
        if (u->jobs[i].cell == r->cell && u->jobs[i].question == r->question &&
            u->jobs[i].rep == r->rep && u->jobs[i].perf == p->perf)
            p->got[r->unit][i] = true;
}

static enum kva_status take_results(struct pool *p, const char *at, const char *end)
{
    struct kva_result *r;
    int n = 0, have = 0;
    enum kva_status rc = KVA_OK;

    memcpy(&n, at, sizeof n);
    at += sizeof n;
    r = kva_calloc((size_t)n + 1, sizeof *r);
    if (r == NULL)
        return KVA_FAIL(p->err, KVA_ENOMEM, "%d results", n);
    for (; have < n; have++)
        if (!kva_result_unpack(&at, end, &r[have])) {
            rc = KVA_FAIL(p->err, KVA_EFORMAT, "a worker sent a broken result");
            goto out;
        }
    KVA_GO(p->ev->results(p->ev->ctx, r, n, p->err));
    for (int i = 0; i < n; i++)
        mark(p, &r[i]);
out:
    for (int i = 0; i < have; i++)
        kva_result_release(&r[i]);
    free(r);
    return rc;
}

/* What a unit did not report becomes failures with this reason. */
static enum kva_status fail_rest(struct pool *p, int unit, enum kva_status code,
                                 const char *text)
{
    const struct kva_unit *u = &p->plan->units[unit];
    struct kva_error why = {.code = code};

    snprintf(why.text, sizeof why.text, "%s", text);
    for (int i = 0; i < u->n_jobs; i++) {
        struct kva_result r = {.unit = unit,
                               .question = u->jobs[i].question,
                               .idx = u->idx[u->jobs[i].question],
                               .cell = u->jobs[i].cell,
                               .rep = u->jobs[i].rep,
                               .perf = p->perf};
        enum kva_status rc;

        if (u->jobs[i].perf != p->perf || p->got[unit][i])
            continue;
        kva_result_fail(&r, &why);
        rc = p->ev->results(p->ev->ctx, &r, 1, p->err);
        kva_result_release(&r);
        p->got[unit][i] = true;
        KVA_TRY(rc);
    }
    return KVA_OK;
}

static enum kva_status take_sample(struct pool *p, const char *at, const char *end)
{
    struct kva_sample_row s = {0};
    enum kva_status rc;

    if (!kva_sample_unpack(&at, end, &s))
        rc = KVA_FAIL(p->err, KVA_EFORMAT, "a worker sent a broken sample");
    else
        rc = p->ev->sample(p->ev->ctx, &s, p->err);
    kva_sample_row_release(&s);
    return rc;
}

static enum kva_status take_perf(struct pool *p, const char *at, const char *end)
{
    size_t n = (size_t)(end - at) / sizeof(struct kva_perf_row);
    struct kva_perf_row *rows = kva_calloc(n + 1, sizeof *rows);
    enum kva_status rc;

    if (rows == NULL)
        return KVA_FAIL(p->err, KVA_ENOMEM, "%zu repetitions", n);
    memcpy(rows, at, n * sizeof *rows);
    rc = p->ev->perf(p->ev->ctx, rows, (int)n, p->err);
    free(rows);
    return rc;
}

static enum kva_status take(struct pool *p, struct worker *w, char type, const char *at,
                            const char *end)
{
    struct {
        int unit;
        int64_t ns, rows;
    } u = {0};
    enum kva_status code;

    switch (type) {
    case 'S':
        return take_sample(p, at, end);
    case 'R':
        return take_results(p, at, end);
    case 'P':
        return take_perf(p, at, end);
    case 'F':
        memcpy(&code, at, sizeof code);
        return code == KVA_EINTERRUPTED ? KVA_OK
                                        : fail_rest(p, w->unit, code, at + sizeof code);
    default:
        memcpy(&u.unit, at, sizeof u.unit);
        memcpy(&u.ns, at + sizeof u.unit, sizeof u.ns);
        memcpy(&u.rows, at + sizeof u.unit + sizeof u.ns, sizeof u.rows);
        w->unit = -1;
        KVA_TRY(p->ev->unit_done(p->ev->ctx, u.unit, u.ns, u.rows,
                                 p->plan->units[u.unit].n_jobs - jobs_of(p, u.unit),
                                 p->err));
        feed(p, w);
        return KVA_OK;
    }
}

#define HEADER (1 + sizeof(uint64_t))

static enum kva_status drain(struct pool *p, struct worker *w)
{
    size_t at = 0;

    while (w->in.len - at >= HEADER) {
        const char *m = w->in.data + at;
        uint64_t len;

        memcpy(&len, m + 1, sizeof len);
        if (w->in.len - at - HEADER < len)
            break;
        KVA_TRY(take(p, w, m[0], m + HEADER, m + HEADER + len));
        at += HEADER + (size_t)len;
    }
    if (at > 0) {
        memmove(w->in.data, w->in.data + at, w->in.len - at);
        w->in.len -= at;
    }
    return KVA_OK;
}

/* The worker closed its pipe: it ended, or died with a unit in hand. */
static enum kva_status reap(struct pool *p, struct worker *w)
{
    int st = 0, unit = w->unit;
    char text[128];

    hang_up(w);
    if (w->threaded)
        (void)pthread_join(w->thread, NULL);
    else
        (void)waitpid(w->pid, &st, 0);
    w->threaded = false;
    (void)close(w->from);
    w->from = -1;
    w->pid = 0;
    w->unit = -1;
    if (unit < 0 || *p->stop != 0)
        return KVA_OK;
    if (WIFSIGNALED(st))
        snprintf(text, sizeof text, "the worker process was killed by signal %d",
                 WTERMSIG(st));
    else
        snprintf(text, sizeof text, "the worker process ended with status %d",
                 WEXITSTATUS(st));
    KVA_TRY(fail_rest(p, unit, KVA_EIO, text));
    KVA_TRY(spawn(p, w, p->err));
    feed(p, w);
    return KVA_OK;
}

static enum kva_status hear(struct pool *p, struct worker *w)
{
    char chunk[65536];
    ssize_t k = read(w->from, chunk, sizeof chunk);

    if (k < 0 && errno == EINTR)
        return KVA_OK;
    if (k <= 0)
        return reap(p, w);
    kva_buf_add(&w->in, chunk, (size_t)k);
    KVA_TRY(kva_buf_status(&w->in, p->err));
    return drain(p, w);
}

static enum kva_status listen_all(struct pool *p)
{
    struct pollfd fds[64];

    for (;;) {
        int n = 0, who[64];

        if (kva_interrupted != 0)
            *p->stop = 1;
        for (int i = 0; i < p->n; i++)
            if (p->w[i].from >= 0) {
                fds[n] = (struct pollfd){.fd = p->w[i].from, .events = POLLIN};
                who[n++] = i;
            }
        if (n == 0)
            return KVA_OK;
        if (poll(fds, (nfds_t)n, 200) < 0 && errno != EINTR)
            return KVA_FAIL(p->err, KVA_EIO, "poll: %s", strerror(errno));
        for (int i = 0; i < n; i++)
            if ((fds[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
                KVA_TRY(hear(p, &p->w[who[i]]));
        if (p->ev->tick != NULL)
            p->ev->tick(p->ev->ctx);
    }
}

static enum kva_status pool_alloc(struct pool *p)
{
    p->w = kva_calloc((size_t)p->n, sizeof *p->w);
    p->got = kva_calloc((size_t)p->plan->n_units + 1, sizeof *p->got);
    if (p->w == NULL || p->got == NULL)
        return KVA_FAIL(p->err, KVA_ENOMEM, "%d workers", p->n);
    for (int i = 0; i < p->n; i++) {
        p->w[i].to = p->w[i].from = -1;
        kva_buf_init(&p->w[i].in, 0);
    }
    for (int u = 0; u < p->plan->n_units; u++) {
        p->got[u] = kva_calloc((size_t)p->plan->units[u].n_jobs + 1, 1);
        if (p->got[u] == NULL)
            return KVA_FAIL(p->err, KVA_ENOMEM, "%d units", p->plan->n_units);
    }
    return KVA_OK;
}

enum kva_status kva_pool_run(struct kva_plan *plan, int jobs, bool perf,
                             const struct kva_exec_opts *exec,
                             const struct kva_pool_events *events, struct kva_error *err)
{
    struct pool p = {.plan = plan, .perf = perf, .ev = events, .exec = *exec, .err = err};
    void *shared = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    enum kva_status rc;

    if (shared == MAP_FAILED)
        return KVA_FAIL(err, KVA_ENOMEM, "a page shared with the workers");
    p.stop = shared;
    p.exec.stop = p.stop;
    p.device = plan->suite->backend != NULL && strcmp(plan->suite->backend, "cuda") == 0;
    p.n = p.device || jobs < 1 ? 1 : jobs > 64 ? 64 : jobs;
    (void)signal(SIGPIPE, SIG_IGN);
    KVA_GO(pool_alloc(&p));
    for (int i = 0; i < p.n; i++) {
        KVA_GO(spawn(&p, &p.w[i], err));
        feed(&p, &p.w[i]);
    }
    KVA_GO(listen_all(&p));
    if (*p.stop != 0)
        rc = KVA_FAIL(err, KVA_EINTERRUPTED, "stopped by signal %d", kva_interrupted);
out:
    *p.stop = 1;
    for (int i = 0; p.w != NULL && i < p.n; i++) {
        hang_up(&p.w[i]);
        if (p.w[i].from >= 0)
            (void)close(p.w[i].from);
        if (p.w[i].threaded)
            (void)pthread_join(p.w[i].thread, NULL);
        if (p.w[i].pid > 0) {
            (void)kill(p.w[i].pid, SIGKILL);
            (void)waitpid(p.w[i].pid, NULL, 0);
        }
        kva_buf_release(&p.w[i].in);
    }
    for (int u = 0; p.got != NULL && u < plan->n_units; u++)
        free(p.got[u]);
    free(p.got);
    free(p.w);
    (void)munmap(shared, sizeof(int));
    return rc;
}
