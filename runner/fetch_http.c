/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fetch_http.c - one URL into one partial file with libcurl (reports.md 10.2).
 *
 * PART holds the first bytes of the file and PART.json what they belong to, written
 * before the first byte, so a kill at any moment leaves something to go on with. A resume
 * asks for the rest under If-Range with the strong ETag of before: who ignores either
 * answers 200, and everything starts over. Bytes are hashed as they are written. */
#include "runner/fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* WORDS: bytes taken of a body that is not the file (an error page, a redirect's): there
 * are servers that never end it. */
enum { TRIES = 6, REDIRECTS = 5, WORDS = 1 << 16 };

enum verdict { GO_ON, DONE, AGAIN, OVER, FAILED };
/* AGAIN: after a pause, resuming. OVER: at once, from the first byte. */

struct xfer {
    const struct kva_http_job *j;
    CURL *curl;
    struct curl_slist *lines; /* of the request */
    struct kva_http_head head;
    char at[4096]; /* the address of this hop */
    char why[CURL_ERROR_SIZE];
    int fd;
    int64_t have, total; /* bytes in the part; of the whole, -1 */
    struct kva_sha256 hash;
    char etag[128], modified[64]; /* what the part belongs to */
    bool begun, over, tls;        /* tls: the address is https */
    bool endless;                 /* enough was read of a body that is not the file */
    enum kva_status rc;
    struct kva_error *err;
    struct kva_fetch_progress progress;
};

/* ---- the part and its notes ---- */

static bool notes_path(const char *part, char *out, size_t n)
{
    return snprintf(out, n, "%s.json", part) < (int)n;
}

void kva_http_forget(const char *part)
{
    char notes[4200];

    if (notes_path(part, notes, sizeof notes))
        (void)unlink(notes);
    (void)unlink(part);
}

static enum kva_status start_over(struct xfer *x)
{
    x->have = 0;
    x->etag[0] = x->modified[0] = '\0';
    x->total = x->j->bytes;
    kva_sha256_init(&x->hash);
    if (ftruncate(x->fd, 0) != 0 || lseek(x->fd, 0, SEEK_SET) != 0)
        return KVA_FAIL(x->err, KVA_EIO, "cannot write %s: %s", x->j->part,
                        strerror(errno));
    return KVA_OK;
}

static enum kva_status write_notes(struct xfer *x)
{
    struct kva_buf url;
    char notes[4200];
    json_t *o;
    char *text;
    enum kva_status rc;

    kva_buf_init(&url, 1 << 20);
    kva_secret_hide(x->j->url, &url);
    o = json_pack("{s:s, s:s, s:s, s:I}", "url", url.data ? url.data : "", "etag",
                  x->etag, "last_modified", x->modified, "total", (json_int_t)x->total);
    text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    if (!text)
        rc = KVA_FAIL(x->err, KVA_EIO, "the notes of %s cannot be written", x->j->part);
    else if (!notes_path(x->j->part, notes, sizeof notes))
        rc = KVA_FAIL(x->err, KVA_EIO, "%s: the path is too long", x->j->part);
    else
        rc = kva_write_file(notes, text, strlen(text), x->err);
    free(text);
    json_decref(o);
    kva_buf_release(&url);
    return rc;
}

/* True when the notes are of this address; etag and total come from them. */
static bool read_notes(struct xfer *x)
{
    struct kva_buf text, url;
    char notes[4200];
    json_t *o = NULL;
    const char *was, *etag, *modified;
    bool same = false;

    kva_buf_init(&text, 1 << 20);
    kva_buf_init(&url, 1 << 20);
    kva_secret_hide(x->j->url, &url);
    if (notes_path(x->j->part, notes, sizeof notes) &&
        kva_read_file(notes, 1 << 16, &text, NULL) == KVA_OK)
        o = json_loadb(text.data, text.len, 0, NULL);
    was = json_string_value(json_object_get(o, "url"));
    etag = json_string_value(json_object_get(o, "etag"));
    modified = json_string_value(json_object_get(o, "last_modified"));
    if (was && etag && url.data && strcmp(was, url.data) == 0 && kva_http_strong(etag)) {
        int64_t total = json_integer_value(json_object_get(o, "total"));

        snprintf(x->etag, sizeof x->etag, "%s", etag);
        snprintf(x->modified, sizeof x->modified, "%s", modified ? modified : "");
        if (total > 0 && (x->j->bytes < 0 || total == x->j->bytes)) {
            x->total = total;
            same = true;
        }
    }
    json_decref(o);
    kva_buf_release(&text);
    kva_buf_release(&url);
    return same;
}

/* Opens the part and hashes what is there, if it can be gone on with. */
static enum kva_status open_part(struct xfer *x)
{
    enum { CHUNK = 1 << 18 };
    char *chunk;
    ssize_t got;

    KVA_TRY(kva_mkdirs_of(x->j->part, x->err));
    x->fd = open(x->j->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (x->fd < 0)
        return KVA_FAIL(x->err, KVA_EIO, "cannot write %s: %s", x->j->part,
                        strerror(errno));
    if (!read_notes(x))
        return start_over(x);
    chunk = kva_calloc(CHUNK, 1);
    if (!chunk)
        return KVA_FAIL(x->err, KVA_ENOMEM, "out of memory");
    kva_sha256_init(&x->hash);
    while ((got = read(x->fd, chunk, CHUNK)) > 0 && !kva_interrupted) {
        kva_sha256_add(&x->hash, chunk, (size_t)got);
        x->have += got;
    }
    free(chunk);
    if (got < 0)
        return KVA_FAIL(x->err, KVA_EIO, "cannot read %s: %s", x->j->part,
                        strerror(errno));
    if (x->have > x->total)
        return start_over(x);
    if (x->have > 0)
        kva_log(KVA_LOG_INFO, "%s: %lld bytes are here already", x->j->name,
                (long long)x->have);
    return KVA_OK;
}

/* ---- addresses ---- */

static bool is_loopback(const char *host)
{
    int a, b, c, d, end = 0;

    if (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0)
        return true;
    return sscanf(host, "%3d.%3d.%3d.%3d%n", &a, &b, &c, &d, &end) == 4 && a == 127 &&
           host[end] == '\0';
}

/* https everywhere, http to this machine or when allowed. NULL: fine, else the reason.
 * *quiet: nobody on the way can read what is said. */
static const char *refuse_address(const char *url, bool allow_http, bool *tls,
                                  bool *quiet)
{
    CURLU *u = curl_url();
    char *scheme = NULL, *host = NULL;
    const char *why = NULL;

    if (!u || curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK ||
        curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        curl_url_get(u, CURLUPART_HOST, &host, 0) != CURLUE_OK) {
        why = "it is not an address";
    } else {
        *tls = strcmp(scheme, "https") == 0;
        *quiet = *tls || is_loopback(host);
        if (!*tls && strcmp(scheme, "http") != 0)
            why = "only https is fetched from";
        else if (!*quiet && !allow_http)
            why = "http can be read and changed on its way; --allow-http takes it anyway";
    }
    curl_free(scheme);
    curl_free(host);
    curl_url_cleanup(u);
    return why;
}

static bool same_origin(const char *a, const char *b)
{
    static const CURLUPart parts[] = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
    CURLU *u = curl_url(), *v = curl_url();
    bool same = u && v && curl_url_set(u, CURLUPART_URL, a, 0) == CURLUE_OK &&
                curl_url_set(v, CURLUPART_URL, b, 0) == CURLUE_OK;

    for (int i = 0; same && i < 3; i++) {
        char *p = NULL, *q = NULL;

        same = curl_url_get(u, parts[i], &p, CURLU_DEFAULT_PORT) == CURLUE_OK &&
               curl_url_get(v, parts[i], &q, CURLU_DEFAULT_PORT) == CURLUE_OK &&
               strcasecmp(p, q) == 0;
        curl_free(p);
        curl_free(q);
    }
    curl_url_cleanup(u);
    curl_url_cleanup(v);
    return same;
}

/* ---- callbacks ---- */

/* Where a redirect leads, and whether it may. */
static enum kva_status follow(struct xfer *x)
{
    CURLU *u = curl_url();
    char *next = NULL;
    const char *why = "it is not an address";
    bool tls = false, quiet;

    if (u && curl_url_set(u, CURLUPART_URL, x->at, 0) == CURLUE_OK &&
        x->head.location[0] &&
        curl_url_set(u, CURLUPART_URL, x->head.location, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_URL, &next, 0) == CURLUE_OK &&
        strlen(next) < sizeof x->at)
        why = refuse_address(next, x->j->o->allow_http, &tls, &quiet);
    if (!why && x->tls && !tls && !x->j->o->allow_http)
        why = "from https only https is followed";
    if (next)
        kva_log(KVA_LOG_DEBUG, "%s: redirected to %s", x->j->name, next);
    if (why)
        x->rc = KVA_FAIL(x->err, KVA_ENETWORK, "%s: redirected to %.200s: %s", x->j->name,
                         next ? next : x->head.location, why);
    else
        snprintf(x->at, sizeof x->at, "%s", next);
    curl_free(next);
    curl_url_cleanup(u);
    return x->rc;
}

static size_t on_header(char *line, size_t one, size_t n, void *ctx)
{
    struct xfer *x = ctx;

    (void)one;
    kva_http_header(&x->head, line, n);
    if (n > 5 && strncmp(line, "HTTP/", 5) == 0)
        kva_log(KVA_LOG_DEBUG, "%s: HTTP %ld", x->j->name, x->head.status);
    if (n > 9 && strncasecmp(line, "location:", 9) == 0 && x->head.status / 100 == 3 &&
        follow(x) != KVA_OK)
        return 0;
    return n;
}

/* The first byte of a body that counts: is it the byte that was asked for? */
static enum kva_status begin_body(struct xfer *x)
{
    const struct kva_http_head *h = &x->head;
    int64_t total = h->status == 206 ? h->total : h->length;

    x->begun = true;
    if (h->status == 206) {
        bool other = kva_http_strong(h->etag) && strcmp(h->etag, x->etag) != 0;

        if (h->first != x->have || other ||
            (h->total >= 0 && x->total >= 0 && h->total != x->total)) {
            kva_log(KVA_LOG_INFO, "%s: the server sent another part than asked for",
                    x->j->name);
            x->over = true;
            return KVA_OK;
        }
    } else {
        if (x->have > 0)
            kva_log(KVA_LOG_INFO, "%s: starts over, the server sends all of it",
                    x->j->name);
        KVA_TRY(start_over(x));
    }
    if (total >= 0 && x->j->bytes >= 0 && total != x->j->bytes)
        return KVA_FAIL(x->err, KVA_EFORMAT,
                        "%s: the server has %lld bytes, %lld expected", x->j->name,
                        (long long)total, (long long)x->j->bytes);
    x->total = total >= 0 ? total : x->total;
    if (h->status == 200) {
        snprintf(x->etag, sizeof x->etag, "%s", h->etag);
        snprintf(x->modified, sizeof x->modified, "%s", h->last_modified);
    }
    if (x->total >= 0)
        KVA_TRY(kva_fetch_space(x->j->part, x->total - x->have, x->err));
    return write_notes(x);
}

static size_t on_body(char *bytes, size_t one, size_t n, void *ctx)
{
    struct xfer *x = ctx;

    (void)one;
    if (x->head.status != 200 && x->head.status != 206)
        return n; /* words about a failure */
    if (!x->begun) {
        x->rc = begin_body(x);
        if (x->rc != KVA_OK || x->over)
            return 0;
    }
    if (x->j->bytes >= 0 && x->have + (int64_t)n > x->j->bytes) {
        x->rc = KVA_FAIL(x->err, KVA_EFORMAT, "%s: longer than the %lld bytes expected",
                         x->j->name, (long long)x->j->bytes);
        return 0;
    }
    for (size_t at = 0; at < n;) {
        ssize_t put = write(x->fd, bytes + at, n - at);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0) {
            x->rc = KVA_FAIL(x->err, KVA_EIO, "cannot write %s: %s", x->j->part,
                             strerror(errno));
            return 0;
        }
        kva_sha256_add(&x->hash, bytes + at, (size_t)put);
        at += (size_t)put;
        x->have += put;
    }
    return n;
}

static int on_progress(void *ctx, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up)
{
    struct xfer *x = ctx;

    (void)total, (void)up_total, (void)up;
    if (x->begun)
        kva_fetch_progress_at(&x->progress, x->have, x->total);
    x->endless = !x->begun && now > WORDS;
    return x->endless || kva_interrupted != 0;
}

/* ---- one try ---- */

#define SET(option, value)                                                               \
    do {                                                                                 \
        if (curl_easy_setopt(x->curl, option, value) != CURLE_OK)                        \
            return KVA_FAIL(x->err, KVA_ENETWORK, "libcurl refused " #option);           \
    } while (0)

static enum kva_status set_options(struct xfer *x, const char *url, bool head)
{
    const struct kva_fetch_opts *o = x->j->o;
    bool quiet = false;
    const char *why = refuse_address(url, o->allow_http, &x->tls, &quiet), *ca;
    const char *schemes = x->tls && !o->allow_http ? "https" : "http,https";

    if (why)
        return KVA_FAIL(x->err, KVA_EINVALID, "%s: %s", url, why);
    if (snprintf(x->at, sizeof x->at, "%s", url) >= (int)sizeof x->at)
        return KVA_FAIL(x->err, KVA_EINVALID, "%s: the address is too long", x->j->name);
    curl_easy_reset(x->curl);
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PROTOCOLS_STR, schemes);
    SET(CURLOPT_REDIR_PROTOCOLS_STR, schemes);
    SET(CURLOPT_FOLLOWLOCATION, head ? 0L : 1L);
    SET(CURLOPT_MAXREDIRS, (long)REDIRECTS);
    SET(CURLOPT_NOBODY, head ? 1L : 0L);
    SET(CURLOPT_CONNECTTIMEOUT, 20L);
    SET(CURLOPT_LOW_SPEED_LIMIT, 1024L);
    SET(CURLOPT_LOW_SPEED_TIME, (long)o->stall_s);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_USERAGENT, "kvaudit/" KVA_VERSION);
    SET(CURLOPT_ERRORBUFFER, x->why);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, x);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, x);
    SET(CURLOPT_XFERINFOFUNCTION, on_progress);
    SET(CURLOPT_XFERINFODATA, x);
    SET(CURLOPT_NOPROGRESS, 0L);
    ca = getenv("SSL_CERT_FILE");
    if (ca && *ca)
        SET(CURLOPT_CAINFO, ca);
    if (x->j->token && quiet) {
        SET(CURLOPT_XOAUTH2_BEARER, x->j->token);
        SET(CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        SET(CURLOPT_UNRESTRICTED_AUTH, 0L);
    }
    return KVA_OK;
}

static enum kva_status set_range(struct xfer *x)
{
    char range[64], line[192];

    curl_slist_free_all(x->lines);
    x->lines = NULL;
    if (x->have == 0)
        return KVA_OK;
    snprintf(range, sizeof range, "%lld-", (long long)x->have);
    snprintf(line, sizeof line, "If-Range: %s", x->etag);
    x->lines = curl_slist_append(NULL, line);
    if (!x->lines)
        return KVA_FAIL(x->err, KVA_ENOMEM, "out of memory");
    SET(CURLOPT_RANGE, range);
    SET(CURLOPT_HTTPHEADER, x->lines);
    return KVA_OK;
}

static bool may_pass(CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return true;
    default:
        return false;
    }
}

static enum verdict fail(struct xfer *x, enum kva_status rc)
{
    x->rc = rc;
    return FAILED;
}

/* What an answer without a body that counts means. */
static enum verdict judge_status(struct xfer *x)
{
    long s = x->head.status;
    const char *name = x->j->name;

    snprintf(x->why, sizeof x->why, "HTTP %ld", s);
    if (s == 408 || s == 425 || s == 429 || s >= 500)
        return AGAIN;
    if (s == 416 && x->have > 0)
        return x->have == x->total || (x->total < 0 && x->have == x->head.total) ? DONE
                                                                                 : OVER;
    if ((s == 401 || s == 403) && x->j->licence_page)
        return fail(x, KVA_FAIL(x->err, KVA_ENETWORK,
                                "%s: HTTP %ld: access is refused %s. Accept the licence "
                                "at %s and set HF_TOKEN to a token that may read it",
                                name, s,
                                x->j->token ? "to the token that is set (HF_TOKEN)"
                                            : "without a token (HF_TOKEN)",
                                x->j->licence_page));
    if (s == 401 || s == 403)
        return fail(x, KVA_FAIL(x->err, KVA_ENETWORK,
                                "%s: HTTP %ld: access is refused; HF_TOKEN goes to the "
                                "hub only, and a licence may have to be accepted at the "
                                "page of the file",
                                name, s));
    if (s == 404 || s == 410)
        return fail(x, KVA_FAIL(x->err, KVA_ENETWORK,
                                "%s: HTTP %ld: there is no such file", name, s));
    return fail(x, KVA_FAIL(x->err, KVA_ENETWORK, "%s: HTTP %ld", name, s));
}

static enum verdict judge(struct xfer *x, CURLcode code)
{
    int64_t want = x->total >= 0 ? x->total : x->j->bytes;

    if (x->rc != KVA_OK)
        return FAILED;
    if (kva_interrupted)
        return fail(x,
                    KVA_FAIL(x->err, KVA_EINTERRUPTED,
                             "%s: interrupted; the same command goes on from %lld bytes",
                             x->j->name, (long long)x->have));
    if (x->over)
        return OVER;
    if (code != CURLE_OK && !x->endless) {
        if (!x->why[0])
            snprintf(x->why, sizeof x->why, "%s", curl_easy_strerror(code));
        if (may_pass(code))
            return AGAIN;
        return fail(x, KVA_FAIL(x->err, KVA_ENETWORK, "%s: %s", x->j->name, x->why));
    }
    if (x->head.status != 200 && x->head.status != 206)
        return judge_status(x);
    if (!x->begun) { /* an empty body */
        x->rc = begin_body(x);
        if (x->rc != KVA_OK)
            return FAILED;
        if (x->over)
            return OVER;
    }
    if (want >= 0 && x->have < want) {
        snprintf(x->why, sizeof x->why, "the body ended after %lld of %lld bytes",
                 (long long)x->have, (long long)want);
        return AGAIN;
    }
    return DONE;
}

static enum verdict try_get(struct xfer *x)
{
    CURLcode code;

    kva_http_head_init(&x->head);
    x->begun = x->over = x->endless = false;
    x->why[0] = '\0';
    if (x->have > 0 && !kva_http_strong(x->etag) && (x->rc = start_over(x)) != KVA_OK)
        return FAILED;
    if ((x->rc = set_options(x, x->j->url, false)) != KVA_OK ||
        (x->rc = set_range(x)) != KVA_OK)
        return FAILED;
    kva_log(KVA_LOG_DEBUG, "GET %s from byte %lld", x->j->url, (long long)x->have);
    code = curl_easy_perform(x->curl);
    return judge(x, code);
}

/* ---- trying again ---- */

double kva_http_wait(int k, int max_s, double unit, int64_t asked_s)
{
    double wait = k < 30 ? (double)(1 << k) : 1e9, asked;

    wait = wait < max_s ? wait : max_s;
    wait *= 0.5 + unit;
    asked = (double)(asked_s < 300 ? asked_s : 300);
    return wait > asked ? wait : asked;
}

static void pause_for(double seconds)
{
    uint64_t end = kva_now_ns() + (uint64_t)(seconds * 1e9);

    while (!kva_interrupted && kva_now_ns() < end) {
        struct timespec t = {0, 20000000};

        nanosleep(&t, NULL);
    }
}

static enum kva_status try_until_done(struct xfer *x, enum verdict (*once)(struct xfer *))
{
    struct kva_rng r = {kva_now_ns() ^ (uint64_t)getpid() << 32};
    int again = 0, over = 0;

    for (;;) {
        enum verdict v = once(x);
        curl_off_t asked = 0;
        double wait;

        if (v == DONE)
            return KVA_OK;
        if (v == FAILED)
            return x->rc;
        if (v == OVER && over++ < TRIES) {
            KVA_TRY(start_over(x));
            continue;
        }
        if (again >= TRIES || v == OVER)
            return KVA_FAIL(
                x->err, KVA_ENETWORK, "%s: %s; given up after %d tries", x->j->name,
                v == OVER ? "the server never sends what is asked for" : x->why,
                again + over + (v == AGAIN));
        (void)curl_easy_getinfo(x->curl, CURLINFO_RETRY_AFTER, &asked);
        wait = kva_http_wait(again++, x->j->o->max_wait_s, kva_rng_unit(&r), asked);
        kva_log(KVA_LOG_WARN, "%s: %s; trying again in %.1f s (%d of %d)", x->j->name,
                x->why, wait, again, TRIES);
        pause_for(wait);
    }
}

static enum kva_status begin(struct xfer *x, const struct kva_http_job *j,
                             struct kva_error *err)
{
    static bool ready;

    memset(x, 0, sizeof *x);
    x->j = j;
    x->err = err;
    x->fd = -1;
    x->total = j->bytes;
    if (!ready && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return KVA_FAIL(err, KVA_ENETWORK, "libcurl cannot be started");
    ready = true;
    x->curl = curl_easy_init();
    if (!x->curl)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    return KVA_OK;
}

static void end(struct xfer *x)
{
    curl_easy_cleanup(x->curl);
    curl_slist_free_all(x->lines);
    if (x->fd >= 0)
        close(x->fd);
}

enum kva_status kva_http_get(const struct kva_http_job *j, struct kva_http_got *got,
                             struct kva_error *err)
{
    struct xfer x;
    uint8_t sha[32];
    enum kva_status rc;

    KVA_GO(begin(&x, j, err));
    KVA_GO(open_part(&x));
    if (j->bytes >= 0)
        KVA_GO(kva_fetch_space(j->part, j->bytes - x.have, err));
    kva_fetch_progress_begin(&x.progress, j->o->progress, j->name, x.have);
    if (x.have == 0 || x.have != x.total) /* else only the name is missing */
        rc = try_until_done(&x, try_get);
    kva_fetch_progress_end(&x.progress);
    if (rc != KVA_OK)
        goto out;
    if (fsync(x.fd) != 0)
        KVA_GO(KVA_FAIL(err, KVA_EIO, "cannot write %s: %s", j->part, strerror(errno)));
    kva_sha256_end(&x.hash, sha);
    kva_hex(sha, 32, got->sha256);
    got->bytes = x.have;
out:
    if (rc != KVA_OK && x.fd >= 0 && x.have == 0)
        kva_http_forget(j->part);
    end(&x);
    return rc;
}

/* ---- what the hub says of a file ---- */

/* Redirects are followed inside the hub only: the store behind it knows no commit. */
static enum verdict try_ask(struct xfer *x)
{
    char url[4096];
    CURLcode code;

    if (snprintf(url, sizeof url, "%s", x->j->url) >= (int)sizeof url)
        return fail(x, KVA_FAIL(x->err, KVA_EINVALID, "%s: too long", x->j->name));
    for (int hop = 0; hop <= REDIRECTS; hop++) {
        char *next = NULL;

        kva_http_head_init(&x->head);
        x->why[0] = '\0';
        if ((x->rc = set_options(x, url, true)) != KVA_OK)
            return FAILED;
        kva_log(KVA_LOG_DEBUG, "HEAD %s", url);
        code = curl_easy_perform(x->curl);
        if (code != CURLE_OK || x->rc != KVA_OK || kva_interrupted)
            return judge(x, code);
        if (x->head.status < 400 && x->head.hub_commit[0])
            return DONE;
        (void)curl_easy_getinfo(x->curl, CURLINFO_REDIRECT_URL, &next);
        if (x->head.status < 300 || !next || !same_origin(url, next))
            break;
        if (snprintf(url, sizeof url, "%s", next) >= (int)sizeof url)
            break;
    }
    if (x->head.status >= 400)
        return judge_status(x);
    return fail(x,
                KVA_FAIL(x->err, KVA_ENETWORK,
                         "%s: HTTP %ld, and no word of commit and hash: is this a hub?",
                         x->j->name, x->head.status));
}

enum kva_status kva_http_ask(const struct kva_http_job *j, struct kva_http_head *head,
                             struct kva_error *err)
{
    struct xfer x;
    enum kva_status rc = begin(&x, j, err);

    if (rc == KVA_OK)
        rc = try_until_done(&x, try_ask);
    *head = x.head;
    end(&x);
    return rc;
}
