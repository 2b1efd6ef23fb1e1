/* SPDX-License-Identifier: GPL-3.0-or-later */
/* canonical.c - one spelling for each JSON value, and its SHA-256 (reports.md 3.2).
 *
 * Keys sorted bytewise, no white space, duplicates refused. A number that is whole and
 * below 2^53 in magnitude prints as an integer (1, 1.0 and 1e0 are one value), any other
 * with %.17g; larger whole numbers are therefore distinguished only as doubles are.
 * Strings are escaped where JSON requires it: quote, backslash, control characters (\b \t
 * \n \f \r, else \u00xx). */
#include "db/db_internal.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CEILING_BYTES (256u << 20)

static enum kva_status put(json_t *v, struct kva_buf *out, struct kva_error *err);

static void put_number(double x, struct kva_buf *out)
{
    char text[40];

    if (x == floor(x) && fabs(x) < 9007199254740992.0)
        (void)snprintf(text, sizeof text, "%lld", (long long)x);
    else
        (void)snprintf(text, sizeof text, "%.17g", x);
    for (char *p = text; *p; p++)
        if (*p == ',') /* a library may have set the locale */
            *p = '.';
    kva_buf_puts(out, text);
}

static void put_string(const char *s, size_t n, struct kva_buf *out)
{
    static const char SHORT[] = "btn_fr"; /* 0x08 .. 0x0d */

    kva_buf_putc(out, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c == '"' || c == '\\') {
            kva_buf_putc(out, '\\');
            kva_buf_putc(out, (char)c);
        } else if (c >= 8 && c <= 13 && c != 11) {
            kva_buf_putc(out, '\\');
            kva_buf_putc(out, SHORT[c - 8]);
        } else if (c < 0x20) {
            kva_buf_printf(out, "\\u%04x", (unsigned)c);
        } else {
            kva_buf_putc(out, (char)c);
        }
    }
    kva_buf_putc(out, '"');
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum kva_status put_object(json_t *v, struct kva_buf *out, struct kva_error *err)
{
    size_t n = json_object_size(v), i = 0;
    const char **keys = kva_calloc(n, sizeof *keys);
    enum kva_status rc = KVA_OK;

    if (!keys)
        return KVA_FAIL(err, KVA_ENOMEM, "canonical JSON: out of memory");
    for (void *it = json_object_iter(v); it; it = json_object_iter_next(v, it))
        keys[i++] = json_object_iter_key(it);
    qsort(keys, n, sizeof *keys, by_bytes);
    kva_buf_putc(out, '{');
    for (i = 0; i < n && rc == KVA_OK; i++) {
        if (i)
            kva_buf_putc(out, ',');
        put_string(keys[i], strlen(keys[i]), out);
        kva_buf_putc(out, ':');
        rc = put(json_object_get(v, keys[i]), out, err);
    }
    kva_buf_putc(out, '}');
    free(keys);
    return rc;
}

static enum kva_status put(json_t *v, struct kva_buf *out, struct kva_error *err)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return put_object(v, out, err);
    case JSON_ARRAY:
        kva_buf_putc(out, '[');
        for (size_t i = 0; i < json_array_size(v); i++) {
            if (i)
                kva_buf_putc(out, ',');
            KVA_TRY(put(json_array_get(v, i), out, err));
        }
        kva_buf_putc(out, ']');
        return KVA_OK;
    case JSON_STRING:
        put_string(json_string_value(v), json_string_length(v), out);
        return KVA_OK;
    case JSON_INTEGER:
    case JSON_REAL:
        if (!isfinite(json_number_value(v)))
            return KVA_FAIL(err, KVA_EFORMAT, "canonical JSON: a number is not finite");
        put_number(json_number_value(v), out);
        return KVA_OK;
    case JSON_TRUE:
    case JSON_FALSE:
        kva_buf_puts(out, json_is_true(v) ? "true" : "false");
        return KVA_OK;
    case JSON_NULL:
        break;
    }
    kva_buf_puts(out, "null");
    return KVA_OK;
}

bool kva_json_no_memory(const json_error_t *why)
{
    return why->text[0] == '\0' || json_error_code(why) == json_error_out_of_memory;
}

enum kva_status kva_json_canonical(const char *json, struct kva_buf *out,
                                   struct kva_error *err)
{
    json_error_t at;
    json_t *v = json_loads(json,
                           JSON_REJECT_DUPLICATES | JSON_DECODE_ANY |
                               JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL,
                           &at);
    enum kva_status rc;

    if (!v && kva_json_no_memory(&at))
        return KVA_FAIL(err, KVA_ENOMEM, "canonical JSON: out of memory");
    if (!v)
        return KVA_FAIL(err, KVA_EFORMAT, "JSON line %d column %d: %s", at.line,
                        at.column, at.text);
    rc = put(v, out, err);
    json_decref(v);
    return rc == KVA_OK ? kva_buf_status(out, err) : rc;
}

enum kva_status kva_json_digest(const char *json, uint8_t digest[32],
                                struct kva_error *err)
{
    struct kva_buf text;
    enum kva_status rc;

    kva_buf_init(&text, CEILING_BYTES);
    rc = kva_json_canonical(json, &text, err);
    if (rc == KVA_OK)
        kva_sha256_of(text.data, text.len, digest);
    kva_buf_release(&text);
    return rc;
}
