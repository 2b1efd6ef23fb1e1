/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kva_text.c - UTF-8, edit distance, numbers, files and directories. */
#include "kva.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- UTF-8 ---- */

/* Length of the sequence at s; when invalid, 0 and in *bad the length of the maximal
 * subpart: the longest prefix that could begin a valid sequence, at least 1 (Unicode 3.9,
 * practice U+FFFD). */
static int utf8_scan(const unsigned char *s, size_t n, size_t *bad)
{
    unsigned char lead = n ? s[0] : 0, lo = 0x80, hi = 0xbf;
    size_t len, i;

    *bad = 1;
    if (n == 0)
        return 0;
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    len = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    /* second byte: no overlong form, no surrogate, nothing above U+10FFFF */
    if (lead == 0xe0)
        lo = 0xa0;
    else if (lead == 0xed)
        hi = 0x9f;
    else if (lead == 0xf0)
        lo = 0x90;
    else if (lead == 0xf4)
        hi = 0x8f;
    for (i = 1; i < len; i++) {
        if (i >= n || s[i] < lo || s[i] > hi) {
            *bad = i;
            return 0;
        }
        lo = 0x80;
        hi = 0xbf;
    }
    return (int)len;
}

int kva_utf8_len(const char *s, size_t n)
{
    size_t bad;

    return utf8_scan((const unsigned char *)s, n, &bad);
}

int kva_utf8_columns(const char *s)
{
    int n = 0;

    for (; s && *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

size_t kva_utf8_clean(const char *s, size_t n, struct kva_buf *out)
{
    size_t count = 0, from = 0, i = 0, bad;

    while (i < n) {
        int len = utf8_scan((const unsigned char *)s + i, n - i, &bad);

        if (len) {
            i += (size_t)len;
            continue;
        }
        kva_buf_add(out, s + from, i - from);
        kva_buf_puts(out, "\xef\xbf\xbd");
        i += bad;
        from = i;
        count++;
    }
    kva_buf_add(out, s + from, n - from);
    return count;
}

/* ---- words and numbers ---- */

/* Levenshtein inside a band of 9 around the diagonal: outside it the distance is above 9
 * anyway. row[d] is the distance of a[0..i) and b[0..i + d - 9). Returns at most 10. */
int kva_edit_distance(const char *a, const char *b)
{
    enum { W = 9, FAR = W + 1 };
    size_t n = strlen(a), m = strlen(b);
    int row[2 * W + 3], above;

    if ((n > m ? n - m : m - n) > W)
        return FAR;
    for (int d = 0; d < 2 * W + 3; d++)
        row[d] = d >= W && d <= 2 * W ? d - W : FAR;
    for (size_t i = 1; i <= n; i++) {
        int left = FAR;

        for (int d = 0; d <= 2 * W; d++) {
            long j = (long)i + d - W;
            int best;

            above = row[d + 1];
            if (j < 0 || j > (long)m)
                best = FAR;
            else if (j == 0)
                best = i < FAR ? (int)i : FAR;
            else {
                best = row[d] + (a[i - 1] != b[j - 1]);
                if (left + 1 < best)
                    best = left + 1;
                if (above + 1 < best)
                    best = above + 1;
                if (best > FAR)
                    best = FAR;
            }
            row[d] = left = best;
        }
    }
    return row[(long)m - (long)n + W];
}

const char *kva_nearest(const char *word, const char *const *words)
{
    int limit = (int)(strlen(word) / 2), best;
    const char *found = NULL;

    if (limit > 3)
        limit = 3;
    best = limit + 1;
    for (; *words; words++) {
        int d = kva_edit_distance(word, *words);

        if (d < best) {
            best = d;
            found = *words;
        }
    }
    return found;
}

bool kva_parse_i64(const char *s, int64_t *out)
{
    const char *digits = s + (*s == '-' || *s == '+');
    long long v;

    if (digits[0] == '\0' || digits[strspn(digits, "0123456789")] != '\0')
        return false;
    errno = 0;
    v = strtoll(s, NULL, 10);
    if (errno)
        return false;
    *out = v;
    return true;
}

bool kva_parse_f64(const char *s, double *out)
{
    locale_t c;
    char *end;
    double v;

    /* only digits, point, exponent: no blanks, hexadecimal, "inf" or "nan" */
    if (s[0] == '\0' || s[strspn(s, "0123456789+-.eE")] != '\0')
        return false;
    c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c == (locale_t)0)
        return false;
    v = strtod_l(s, &end, c);
    freelocale(c);
    if (end == s || *end != '\0' || !isfinite(v))
        return false;
    *out = v;
    return true;
}

/* ---- files ---- */

enum kva_status kva_read_file(const char *path, size_t ceiling_bytes, struct kva_buf *out,
                              struct kva_error *err)
{
    enum kva_status rc = KVA_OK;
    size_t total = 0, ceiling = ceiling_bytes ? ceiling_bytes : (size_t)1 << 30;
    char *block = NULL;
    int fd;
    enum { BLOCK = 1 << 16 };

    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return KVA_FAIL(err, KVA_EIO, "%s: %s", path, strerror(errno));
    block = kva_calloc(BLOCK, 1);
    if (!block) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "%s: out of memory", path);
        goto out;
    }
    for (;;) {
        ssize_t n = read(fd, block, BLOCK);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            rc = KVA_FAIL(err, KVA_EIO, "%s: %s", path, strerror(errno));
            goto out;
        }
        if (n == 0)
            break;
        total += (size_t)n;
        if (total > ceiling) {
            rc = KVA_FAIL(err, KVA_EFORMAT, "%s: larger than %zu bytes", path, ceiling);
            goto out;
        }
        kva_buf_add(out, block, (size_t)n);
    }
    kva_buf_add(out, "", 0);
    rc = kva_buf_status(out, err);
out:
    free(block);
    close(fd);
    return rc;
}

static enum kva_status write_all(int fd, const char *path, const void *bytes, size_t n,
                                 struct kva_error *err)
{
    const char *p = bytes;

    while (n) {
        ssize_t w = write(fd, p, n);

        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return KVA_FAIL(err, KVA_EIO, "%s: %s", path, strerror(errno));
        p += w;
        n -= (size_t)w;
    }
    if (fsync(fd) != 0)
        return KVA_FAIL(err, KVA_EIO, "%s: %s", path, strerror(errno));
    return KVA_OK;
}

/* Makes the rename itself durable. A directory that cannot be synced is no failure: the
 * content is complete under either name. `path` is overwritten. */
static void sync_parent(char *path)
{
    int fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

enum kva_status kva_write_file(const char *path, const void *bytes, size_t n,
                               struct kva_error *err)
{
    enum kva_status rc = KVA_OK;
    struct kva_buf tmp;
    struct stat old;
    int fd = -1;
    bool made = false;

    kva_buf_init(&tmp, 1 << 16);
    kva_buf_printf(&tmp, "%s.%ld.tmp", path, (long)getpid());
    KVA_GO(kva_buf_status(&tmp, err));
    fd = open(tmp.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        rc = KVA_FAIL(err, KVA_EIO, "%s: %s", path, strerror(errno));
        goto out;
    }
    made = true;
    if (stat(path, &old) == 0 && S_ISREG(old.st_mode))
        (void)fchmod(fd, old.st_mode & 07777);
    KVA_GO(write_all(fd, path, bytes, n, err));
    if (close(fd) != 0) {
        fd = -1;
        rc = KVA_FAIL(err, KVA_EIO, "%s: %s", path, strerror(errno));
        goto out;
    }
    fd = -1;
    if (rename(tmp.data, path) != 0) {
        rc = KVA_FAIL(err, KVA_EIO, "%s: %s", path, strerror(errno));
        goto out;
    }
    made = false;
    sync_parent(tmp.data);
out:
    if (fd >= 0)
        close(fd);
    if (made)
        (void)unlink(tmp.data);
    kva_buf_release(&tmp);
    return rc;
}

enum kva_status kva_mkdirs(const char *path, struct kva_error *err)
{
    enum kva_status rc = KVA_OK;
    struct kva_buf b;
    struct stat st;

    kva_buf_init(&b, 1 << 16);
    kva_buf_puts(&b, path);
    KVA_GO(kva_buf_status(&b, err));
    for (char *p = b.data; *p; p++) {
        char was = p[1];

        if (*p == '/' || (was != '/' && was != '\0'))
            continue;
        p[1] = '\0';
        if (mkdir(b.data, 0777) != 0 && errno != EEXIST) {
            rc = KVA_FAIL(err, KVA_EIO, "%s: %s", b.data, strerror(errno));
            goto out;
        }
        p[1] = was;
    }
    if (stat(path, &st) != 0)
        rc = KVA_FAIL(err, KVA_EIO, "%s: %s", path, strerror(errno));
    else if (!S_ISDIR(st.st_mode))
        rc = KVA_FAIL(err, KVA_EIO, "%s: not a directory", path);
out:
    kva_buf_release(&b);
    return rc;
}

enum kva_status kva_cache_dir(struct kva_buf *out, struct kva_error *err)
{
    const char *own = getenv("KVAUDIT_CACHE"), *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");

    if (own && *own)
        kva_buf_puts(out, own);
    else if (xdg && *xdg == '/') /* a relative path there is to be ignored */
        kva_buf_printf(out, "%s/kvaudit", xdg);
    else if (home && *home)
        kva_buf_printf(out, "%s/.cache/kvaudit", home);
    else
        return KVA_FAIL(err, KVA_EINVALID,
                        "no cache directory: set KVAUDIT_CACHE, XDG_CACHE_HOME or HOME");
    return kva_buf_status(out, err);
}
