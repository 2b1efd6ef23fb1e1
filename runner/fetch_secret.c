/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fetch_secret.c - the hub's token, and the filter that keeps it and its like out of
 * messages, logs and databases (reports.md 10.2). */
#include "runner/fetch.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void read_token(const char *path, struct kva_buf *out)
{
    kva_buf_init(out, 1 << 16);
    if (kva_read_file(path, 1 << 14, out, NULL) != KVA_OK)
        out->len = 0;
}

const char *kva_hub_token(void)
{
    static char token[512];
    static bool done;
    const char *own = getenv("HF_TOKEN"), *path = getenv("HF_TOKEN_PATH");
    const char *hf = getenv("HF_HOME"), *home = getenv("HOME"), *from = own;
    struct kva_buf file, at;
    size_t n;

    if (done)
        return token[0] ? token : NULL;
    kva_buf_init(&file, 0);
    kva_buf_init(&at, 1 << 14);
    if (!own || !*own) {
        if (path && *path)
            kva_buf_puts(&at, path);
        else if (hf && *hf)
            kva_buf_printf(&at, "%s/token", hf);
        else if (home && *home)
            kva_buf_printf(&at, "%s/.cache/huggingface/token", home);
        if (at.len > 0 && !at.failed)
            read_token(at.data, &file);
        from = file.len ? file.data : "";
    }
    from += strspn(from, " \t\r\n");
    n = strcspn(from, " \t\r\n");
    if (n < sizeof token) {
        memcpy(token, from, n);
        token[n] = '\0';
    }
    kva_buf_release(&file);
    kva_buf_release(&at);
    done = true;
    return token[0] ? token : NULL;
}

/* Names of URL parameters whose value is nobody's business. */
static bool secret_name(const char *p, size_t n)
{
    static const char *const parts[] = {"token",  "sig",        "secret", "password",
                                        "passwd", "credential", "auth"};
    static const char *const whole[] = {"key", "api_key", "apikey", "access_key"};

    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (strlen(whole[i]) == n && strncasecmp(p, whole[i], n) == 0)
            return true;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t m = strlen(parts[i]);

        for (size_t at = 0; at + m <= n; at++)
            if (strncasecmp(p + at, parts[i], m) == 0)
                return true;
    }
    return false;
}

static size_t word_len(const char *p)
{
    size_t n = 0;

    while (isalnum((unsigned char)p[n]) || p[n] == '_' || p[n] == '-' || p[n] == '.')
        n++;
    return n;
}

/* Length of "?name=" or "&name=" at p when name is a secret's, else 0. */
static size_t secret_parameter(const char *p)
{
    size_t n;

    if (*p != '?' && *p != '&')
        return 0;
    n = word_len(p + 1);
    return n && p[1 + n] == '=' && secret_name(p + 1, n) ? n + 2 : 0;
}

/* Length of "user:word@" behind "://", 0 without it. */
static size_t user_info(const char *p)
{
    size_t n = strcspn(p, "/?# \t\n\"'<>");
    const char *at = NULL;

    for (size_t i = 0; i < n; i++)
        if (p[i] == '@')
            at = p + i;
    return at ? (size_t)(at - p) + 1 : 0;
}

/* "hf_" and at least eight letters or digits. */
static size_t hub_token(const char *p)
{
    size_t n = 3;

    if (strncmp(p, "hf_", 3) != 0)
        return 0;
    while (isalnum((unsigned char)p[n]))
        n++;
    return n >= 11 ? n : 0;
}

void kva_secret_hide(const char *text, struct kva_buf *out)
{
    const char *token = kva_hub_token();
    size_t n = token ? strlen(token) : 0, len;
    bool inside = false; /* the last byte belongs to a word */

    for (const char *p = text; *p;) {
        if (n >= 6 && strncmp(p, token, n) == 0) {
            kva_buf_puts(out, "hf_***");
            p += n;
        } else if (!inside && (len = hub_token(p)) > 0) {
            kva_buf_puts(out, "hf_***");
            p += len;
        } else if ((len = secret_parameter(p)) > 0) {
            kva_buf_add(out, p, len);
            kva_buf_puts(out, "***");
            p += len;
            p += strcspn(p, "&# \t\n\"'\\<>,;)");
        } else if (strncmp(p, "://", 3) == 0) {
            kva_buf_puts(out, "://");
            p += 3;
            if ((len = user_info(p)) > 0)
                kva_buf_puts(out, "***@");
            p += len;
        } else {
            kva_buf_putc(out, *p++);
        }
        inside = p > text && isalnum((unsigned char)p[-1]);
    }
}

void kva_secret_hide_in(char *text, size_t n)
{
    struct kva_buf b;

    kva_buf_init(&b, 1 << 20);
    kva_secret_hide(text, &b);
    if (b.failed)
        snprintf(text, n, "(out of memory)");
    else
        snprintf(text, n, "%s", b.data ? b.data : "");
    kva_buf_release(&b);
}
