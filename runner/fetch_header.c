/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fetch_header.c - response headers, line by line (RFC 9110): what a resume and a hub
 * file need of them. Anything malformed counts as absent. */
#include "runner/fetch.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Digits alone, up to 18 of them; -1 otherwise. *end is behind them. */
static int64_t whole(const char *p, const char **end)
{
    int64_t v = 0;
    int n = 0;

    for (; p[n] >= '0' && p[n] <= '9'; n++) {
        if (n == 18)
            return -1;
        v = v * 10 + (p[n] - '0');
    }
    *end = p + n;
    return n ? v : -1;
}

bool kva_http_range(const char *text, int64_t *first, int64_t *last, int64_t *total)
{
    const char *p = text;

    *first = *last = *total = -1;
    if (strncasecmp(p, "bytes ", 6) != 0)
        return false;
    p += 6;
    if (*p == '*') {
        p++;
    } else {
        *first = whole(p, &p);
        if (*first < 0 || *p != '-')
            goto bad;
        *last = whole(p + 1, &p);
        if (*last < *first)
            goto bad;
    }
    if (*p++ != '/')
        goto bad;
    if (p[0] == '*' && p[1] == '\0' && *first >= 0)
        return true;
    *total = whole(p, &p);
    if (*total >= 0 && *p == '\0' && *last < *total)
        return true;
bad:
    *first = *last = *total = -1;
    return false;
}

bool kva_http_strong(const char *etag)
{
    size_t n = strlen(etag);

    if (n < 3 || etag[0] != '"' || etag[n - 1] != '"')
        return false;
    for (size_t i = 1; i < n - 1; i++)
        if ((unsigned char)etag[i] <= ' ' || etag[i] == '"' || etag[i] == 127)
            return false;
    return true;
}

/* W/"abc" and "abc" are abc. */
static void bare(const char *etag, char *out, size_t n)
{
    size_t len;

    if (strncmp(etag, "W/", 2) == 0)
        etag += 2;
    len = strlen(etag);
    if (len >= 2 && etag[0] == '"' && etag[len - 1] == '"') {
        etag++;
        len -= 2;
    }
    if (len >= n)
        len = 0;
    memcpy(out, etag, len);
    out[len] = '\0';
}

void kva_http_head_init(struct kva_http_head *h)
{
    memset(h, 0, sizeof *h);
    h->length = h->first = h->last = h->total = h->hub_size = h->now.size = -1;
}

static void status_line(struct kva_http_head *h, const char *line)
{
    struct kva_http_head was = *h;
    const char *p = strchr(line, ' '), *end;

    kva_http_head_init(h);
    memcpy(h->hub_commit, was.hub_commit, sizeof h->hub_commit);
    memcpy(h->hub_etag, was.hub_etag, sizeof h->hub_etag);
    h->hub_size = was.hub_size;
    if (p) {
        int64_t status = whole(p + 1, &end);

        h->status = status >= 100 && status <= 999 ? (long)status : 0;
    }
}

static void end_of_headers(struct kva_http_head *h)
{
    if (!h->now.commit[0])
        return;
    memcpy(h->hub_commit, h->now.commit, sizeof h->hub_commit);
    bare(h->now.etag[0] ? h->now.etag : h->etag, h->hub_etag, sizeof h->hub_etag);
    h->hub_size = h->now.size >= 0                          ? h->now.size
                  : h->now.etag[0] == 0 && h->status == 200 ? h->length
                                                            : -1;
}

/* A value that does not fit is absent. */
static void keep(char *out, size_t n, const char *value)
{
    size_t len = strlen(value);

    if (len >= n)
        len = 0;
    memcpy(out, value, len);
    out[len] = '\0';
}

static int64_t number(const char *value)
{
    const char *end;
    int64_t v = whole(value, &end);

    return v >= 0 && *end == '\0' ? v : -1;
}

void kva_http_header(struct kva_http_head *h, const char *bytes, size_t n)
{
    char line[8192], *value;

    while (n && (bytes[n - 1] == '\n' || bytes[n - 1] == '\r' || bytes[n - 1] == ' '))
        n--;
    if (n == 0) {
        end_of_headers(h);
        return;
    }
    if (n >= sizeof line || memchr(bytes, '\0', n))
        return;
    memcpy(line, bytes, n);
    line[n] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0) {
        status_line(h, line);
        return;
    }
    value = strchr(line, ':');
    if (!value)
        return;
    *value++ = '\0';
    value += strspn(value, " \t");
    if (strcasecmp(line, "etag") == 0)
        keep(h->etag, sizeof h->etag, value);
    else if (strcasecmp(line, "last-modified") == 0)
        keep(h->last_modified, sizeof h->last_modified, value);
    else if (strcasecmp(line, "location") == 0)
        keep(h->location, sizeof h->location, value);
    else if (strcasecmp(line, "content-length") == 0)
        h->length = number(value);
    else if (strcasecmp(line, "content-range") == 0)
        (void)kva_http_range(value, &h->first, &h->last, &h->total);
    else if (strcasecmp(line, "x-repo-commit") == 0)
        keep(h->now.commit, sizeof h->now.commit, value);
    else if (strcasecmp(line, "x-linked-etag") == 0)
        keep(h->now.etag, sizeof h->now.etag, value);
    else if (strcasecmp(line, "x-linked-size") == 0)
        h->now.size = number(value);
}
