/* SPDX-License-Identifier: GPL-3.0-or-later */
/* progress.c - a bar, plain lines or JSON events about a run.
 *
 * ETA = predicted cost of what is left * (observed / predicted) / jobs, the ratio an
 * exponentially weighted mean over units with alpha 0.1; shown after 5 outcomes. No mean
 * over all outcomes: contexts differ by orders of magnitude. Cells that run alone share
 * no prefill and have one worker: they have a ratio of their own, until the first of them
 * that of the others. */
#include "runner/progress.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum mode { NONE, BAR, PLAIN, EVENTS };
enum { NS = 1000000000 };

struct kva_progress {
    enum mode mode;
    FILE *out;
    int64_t total, done, ok, err, skip;
    double cost_left[2], ns_per_cost[2]; /* shared, alone; 0: no unit has finished */
    int jobs, last_step;                 /* 5 % steps already printed */
    uint64_t started, last_draw;
    bool drawn; /* the bar's line is on the screen */
    char slug[160];
    int idx;
};

/* Predicted cost of the unit's jobs of one kind. */
static double cost_of(const struct kva_unit *u, bool alone)
{
    int n = 0;

    for (int j = 0; j < u->n_jobs; j++)
        n += u->jobs[j].perf == alone;
    return u->n_jobs > 0 ? u->cost * n / u->n_jobs : 0;
}

static bool is_set(const char *name)
{
    const char *v = getenv(name);

    return v && v[0];
}

static enum mode automatic(void)
{
    const char *term = getenv("TERM");

    if (!isatty(STDERR_FILENO) || !term || strcmp(term, "dumb") == 0 || getenv("CI") ||
        is_set("NO_COLOR"))
        return PLAIN;
    return BAR;
}

enum kva_status kva_progress_new(const char *mode, int64_t total,
                                 const struct kva_plan *plan, int jobs,
                                 struct kva_progress **p, struct kva_error *err)
{
    static const char *const names[] = {"none", "bar", "plain", "json", "auto", NULL};
    struct kva_progress *made;
    int m = 4;

    if (mode)
        for (m = 0; names[m] && strcmp(names[m], mode) != 0; m++)
            ;
    if (!names[m]) {
        const char *near = kva_nearest(mode, names);

        return KVA_FAIL(err, KVA_EINVALID, "unknown progress mode '%s'; %s%s%s", mode,
                        near ? "did you mean '" : "one of auto, bar, plain, json, none",
                        near ? near : "", near ? "'?" : "");
    }
    made = kva_calloc(1, sizeof *made);
    if (!made)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    made->mode = m == 4 ? automatic() : (enum mode)m;
    made->out = stderr;
    made->total = total;
    made->jobs = jobs > 0 ? jobs : 1;
    for (int u = 0; plan && u < plan->n_units; u++)
        for (int k = 0; k < 2; k++)
            made->cost_left[k] += cost_of(&plan->units[u], k);
    made->started = made->last_draw = kva_now_ns();
    *p = made;
    return KVA_OK;
}

void kva_progress_free(struct kva_progress *p)
{
    free(p);
}

void kva_progress_stream(struct kva_progress *p, FILE *to)
{
    p->out = to;
}

void kva_duration_text(double seconds, char out[24])
{
    long s = seconds < 0 || seconds > 3e8 ? 0 : (long)(seconds + 0.5);

    if (s >= 3600)
        snprintf(out, 24, "%ldh%02ldm", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(out, 24, "%ldm%02lds", s / 60, s % 60);
    else
        snprintf(out, 24, "%lds", s);
}

static void eta_text(const struct kva_progress *p, char out[24])
{
    const double *rate = p->ns_per_cost;
    double alone = rate[1] > 0 ? rate[1] : rate[0];

    if (p->done >= p->total)
        snprintf(out, 24, "0s");
    else if (p->done < 5 || alone <= 0 || (p->cost_left[0] > 0 && rate[0] <= 0))
        snprintf(out, 24, "-");
    else
        kva_duration_text(
            (p->cost_left[0] * rate[0] / p->jobs + p->cost_left[1] * alone) / NS, out);
}

static int percent(const struct kva_progress *p)
{
    return p->total > 0 ? (int)(100 * p->done / p->total) : 100;
}

static int width(const struct kva_progress *p)
{
    struct winsize w;

    if (ioctl(fileno(p->out), TIOCGWINSZ, &w) == 0 && w.ws_col > 20)
        return w.ws_col;
    return 80;
}

/* `[ 37%] 248/670 ok 241 err 2 skip 5 | 3.1 outcomes/s | ETA 2m16s | slug #12` */
static void status_line(const struct kva_progress *p, char *out, size_t n)
{
    char eta[24];
    double secs = (double)(kva_now_ns() - p->started) / NS;

    eta_text(p, eta);
    snprintf(out, n,
             "[%3d%%] %lld/%lld ok %lld err %lld skip %lld | %.1f outcomes/s | ETA %s",
             percent(p), (long long)p->done, (long long)p->total, (long long)p->ok,
             (long long)p->err, (long long)p->skip,
             secs > 0 ? (double)p->done / secs : 0.0, eta);
    if (p->done > 0) {
        size_t len = strlen(out);

        snprintf(out + len, n - len, " | %s #%d", p->slug, p->idx);
    }
}

static void clear(struct kva_progress *p)
{
    if (p->drawn)
        fputs("\r\033[K", p->out);
    p->drawn = false;
}

static void draw(struct kva_progress *p)
{
    char line[512];

    status_line(p, line, sizeof line);
    if (p->mode == BAR) {
        size_t n = strlen(line);

        while (kva_utf8_columns(line) >= width(p)) /* a letter's bytes go together */
            line[--n] = '\0';
        clear(p);
        fputs(line, p->out);
        fflush(p->out);
        p->drawn = true;
    } else {
        fprintf(p->out, "%s\n", line);
    }
    p->last_draw = kva_now_ns();
}

/* Slugs hold ids of suite files: anything but control bytes and quotes stands as it is.
 */
static void quoted(FILE *out, const char *s)
{
    fputc('"', out);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

void kva_progress_outcome(struct kva_progress *p, const char *status, const char *slug,
                          int idx)
{
    p->done++;
    if (strcmp(status, "ok") == 0)
        p->ok++;
    else if (strcmp(status, "truncated") == 0 || strcmp(status, "skipped") == 0)
        p->skip++;
    else
        p->err++;
    snprintf(p->slug, sizeof p->slug, "%s", slug);
    p->idx = idx;
    if (p->mode == EVENTS) {
        fprintf(p->out, "{\"event\":\"outcome\",\"status\":");
        quoted(p->out, status);
        fputs(",\"cell\":", p->out);
        quoted(p->out, slug);
        fprintf(p->out, ",\"idx\":%d,\"done\":%lld,\"total\":%lld}\n", idx,
                (long long)p->done, (long long)p->total);
    }
    kva_progress_tick(p);
}

void kva_progress_unit(struct kva_progress *p, const struct kva_unit *u, bool alone,
                       int64_t ns)
{
    double cost = cost_of(u, alone), ratio = cost > 0 ? (double)ns / cost : 0;
    double *rate = &p->ns_per_cost[alone], *left = &p->cost_left[alone];

    if (ratio > 0)
        *rate = *rate > 0 ? 0.9 * *rate + 0.1 * ratio : ratio;
    *left = *left > cost ? *left - cost : 0;
}

void kva_progress_tick(struct kva_progress *p)
{
    uint64_t since = kva_now_ns() - p->last_draw;
    int step = percent(p) / 5;

    if (p->mode == BAR && since >= NS / 5)
        draw(p);
    if (p->mode == PLAIN && (since >= 30ull * NS || step > p->last_step)) {
        p->last_step = step;
        draw(p);
    }
}

void kva_progress_log(struct kva_progress *p, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (p->mode == EVENTS) {
        fputs("{\"event\":\"log\",\"text\":", p->out);
        quoted(p->out, text);
        fputs("}\n", p->out);
        return;
    }
    clear(p);
    fprintf(p->out, "kvaudit: %s\n", text);
}

void kva_progress_end(struct kva_progress *p)
{
    if (p->mode == BAR) {
        draw(p);
        fputc('\n', p->out);
        p->drawn = false;
    } else if (p->mode == EVENTS) {
        fprintf(
            p->out,
            "{\"event\":\"end\",\"done\":%lld,\"total\":%lld,\"ok\":%lld,\"err\":%lld,"
            "\"skip\":%lld}\n",
            (long long)p->done, (long long)p->total, (long long)p->ok, (long long)p->err,
            (long long)p->skip);
    } else if (p->mode == PLAIN && p->done < p->total) {
        draw(p);
    }
    fflush(p->out);
}
