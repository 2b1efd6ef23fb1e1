/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fetch_progress.c - how far a download is: a live line on a terminal, else one line
 * every 10 % or 30 seconds. Standard error alone. */
#include "runner/commands.h"
#include "runner/fetch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NONE, PLAIN, BAR };

bool kva_fetch_progress_known(const char *mode)
{
    return strcmp(mode, "auto") == 0 || strcmp(mode, "bar") == 0 ||
           strcmp(mode, "plain") == 0 || strcmp(mode, "none") == 0;
}

void kva_fetch_progress_begin(struct kva_fetch_progress *p, const char *mode,
                              const char *name, int64_t from)
{
    const char *no = getenv("NO_COLOR");
    bool live = isatty(STDERR_FILENO) && !kva_common.no_color && !(no && *no);

    memset(p, 0, sizeof *p);
    p->name = name;
    p->from = from;
    p->begin_ns = p->last_ns = kva_now_ns();
    p->last_tenth = -1;
    if (kva_common.quiet || strcmp(mode, "none") == 0)
        p->mode = NONE;
    else if (strcmp(mode, "bar") == 0 || (strcmp(mode, "auto") == 0 && live))
        p->mode = BAR;
    else
        p->mode = PLAIN;
}

static void line(const struct kva_fetch_progress *p, int64_t bytes, int64_t total,
                 uint64_t now)
{
    double s = (double)(now - p->begin_ns) * 1e-9;
    double rate = s > 0.05 ? (double)(bytes - p->from) / s : 0;
    char of[64] = "", left[32] = "";

    if (total > 0)
        snprintf(of, sizeof of, " of %.1f MB (%.0f %%)", (double)total / 1e6,
                 100.0 * (double)bytes / (double)total);
    if (total > bytes && rate > 0)
        snprintf(left, sizeof left, ", %.0f s left", (double)(total - bytes) / rate);
    fprintf(stderr, "%skvaudit: %s: %.1f MB%s, %.1f MB/s%s%s", p->mode == BAR ? "\r" : "",
            p->name, (double)bytes / 1e6, of, rate / 1e6, left,
            p->mode == BAR ? "\033[K" : "\n");
    fflush(stderr);
}

void kva_fetch_progress_at(struct kva_fetch_progress *p, int64_t bytes, int64_t total)
{
    uint64_t now = kva_now_ns();
    double since = (double)(now - p->last_ns) * 1e-9;
    int tenth = total > 0 ? (int)(10.0 * (double)bytes / (double)total) : -1;

    if (p->mode == NONE || (p->mode == BAR && p->shown && since < 0.1) ||
        (p->mode == PLAIN && since < 30 && tenth <= p->last_tenth))
        return;
    line(p, bytes, total, now);
    p->last_ns = now;
    p->last_tenth = tenth;
    p->shown = true;
}

void kva_fetch_progress_end(struct kva_fetch_progress *p)
{
    if (p->mode == BAR && p->shown)
        fputc('\n', stderr);
}
