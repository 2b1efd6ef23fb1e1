/* SPDX-License-Identifier: GPL-3.0-or-later */
/* names.c - names fit for people: cleaned strings, short method names, budgets.
 *
 * A stored method is the canonical spec with every parameter, such as
 *   snapkv:group=after,kernel=5,pool=avg,recent=0,sinks=0,window=64+uniform
 * Its short form drops the parameters that every method of the same parts has with the
 * same value, and the allocator `uniform`, the default of the grammar. Two different
 * specs never get the same short form: what differs is exactly what is kept. */
#include "reports/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *kva_report_clean(struct kva_arena *a, const char *s)
{
    struct kva_buf b;
    char *copy = NULL;

    kva_buf_init(&b, 0);
    kva_utf8_clean(s ? s : "", s ? strlen(s) : 0, &b);
    if (!b.failed) {
        struct kva_buf c;

        kva_buf_init(&c, 0);
        for (size_t i = 0; i < b.len; i++) {
            unsigned char ch = (unsigned char)b.data[i];

            if (ch == '\t' || ch == '\n')
                kva_buf_putc(&c, ' ');
            else if (ch < 0x20 || ch == 0x7f)
                kva_buf_puts(&c, "\xef\xbf\xbd");
            else if (ch == 0xc2 && i + 1 < b.len && (unsigned char)b.data[i + 1] < 0xa0) {
                kva_buf_puts(&c, "\xef\xbf\xbd"); /* C1 controls drive terminals too */
                i++;
            } else
                kva_buf_putc(&c, (char)ch);
        }
        if (!c.failed)
            copy = kva_arena_strdup(a, c.data ? c.data : "");
        kva_buf_release(&c);
    }
    kva_buf_release(&b);
    return copy;
}

const char *kva_report_slug(struct kva_arena *a, const char *s)
{
    char *out = kva_arena_alloc(a, strlen(s) + 1, 1);
    size_t n = 0;

    if (!out)
        return NULL;
    for (; *s; s++) {
        char c = *s;

        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            out[n++] = c;
        else if (n && out[n - 1] != '-')
            out[n++] = '-';
    }
    while (n && out[n - 1] == '-')
        n--;
    out[n] = 0;
    return out;
}

const char *kva_report_budget(struct kva_arena *a, const char *kind, double budget)
{
    if (strcmp(kind, "dense") == 0)
        return "all";
    if (strcmp(kind, "keep") == 0)
        return kva_arena_printf(a, "%.10g %%", round(budget * 1e6) / 1e4);
    if (strcmp(kind, "tokens") == 0)
        return kva_arena_printf(a, "%.0f tokens", budget);
    return kva_arena_printf(a, "%.0f bytes", budget);
}

const char *kva_badge_text(enum kva_badge b)
{
    static const char *const text[] = {"DENSE", "PHYSICAL", "UNVERIFIED", "MASKED",
                                       "OVER",  "BROKEN",   "-"};

    return text[b];
}

const char *kva_arm_badge_text(const struct kva_arm *a, enum kva_badge b)
{
    return a->role == KVA_ARM_BLIND ? "BLIND" : kva_badge_text(b);
}

/* ---- short method names ---- */

/* name[:k=v,...] of a spec, pointing into it. */
struct part {
    const char *name;
    size_t n_name;
    const char *params; /* behind the colon; NULL: none */
    size_t n_params;
};

enum { MAX_PARTS = 8 };

static int split_spec(const char *spec, struct part *part)
{
    int n = 0;

    while (*spec && n < MAX_PARTS) {
        size_t len = strcspn(spec, "+"), name = strcspn(spec, ":+");

        if (n == MAX_PARTS - 1)
            len = strlen(spec);
        part[n].name = spec;
        part[n].n_name = name;
        part[n].params = name < len ? spec + name + 1 : NULL;
        part[n].n_params = name < len ? len - name - 1 : 0;
        n++;
        spec += len;
        spec += *spec == '+';
    }
    return n;
}

static bool same_parts(const struct part *a, int na, const struct part *b, int nb)
{
    if (na != nb)
        return false;
    for (int i = 0; i < na; i++)
        if (a[i].n_name != b[i].n_name || memcmp(a[i].name, b[i].name, a[i].n_name) != 0)
            return false;
    return true;
}

/* Does the comma list hold this k=v? */
static bool has_param(const struct part *p, const char *kv, size_t n)
{
    const char *s = p->params, *end = s + p->n_params;

    while (s && s < end) {
        const char *comma = memchr(s, ',', (size_t)(end - s));
        size_t len = comma ? (size_t)(comma - s) : (size_t)(end - s);

        if (len == n && memcmp(s, kv, n) == 0)
            return true;
        s += len + 1;
    }
    return false;
}

static bool shared_by_all(const char *const *spec, int n, const struct part *mine,
                          int n_mine, int which, const char *kv, size_t len)
{
    struct part other[MAX_PARTS];

    for (int j = 0; j < n; j++) {
        int m = split_spec(spec[j], other);

        if (same_parts(mine, n_mine, other, m) && !has_param(&other[which], kv, len))
            return false;
    }
    return true;
}

static void short_name(const char *const *spec, int n, int i, struct kva_buf *out)
{
    struct part mine[MAX_PARTS];
    int m = split_spec(spec[i], mine);

    for (int k = 0; k < m; k++) {
        const char *s = mine[k].params, *end = s ? s + mine[k].n_params : NULL;
        bool any = false;
        struct kva_buf kept;

        kva_buf_init(&kept, 0);
        while (s && s < end) {
            const char *comma = memchr(s, ',', (size_t)(end - s));
            size_t len = comma ? (size_t)(comma - s) : (size_t)(end - s);

            if (!shared_by_all(spec, n, mine, m, k, s, len)) {
                kva_buf_putc(&kept, any ? ',' : ':');
                kva_buf_add(&kept, s, len);
                any = true;
            }
            s += len + 1;
        }
        if (k > 0 && k == m - 1 && !any && mine[k].n_name == 7 &&
            memcmp(mine[k].name, "uniform", 7) == 0) {
            kva_buf_release(&kept);
            continue;
        }
        if (k > 0)
            kva_buf_putc(out, '+');
        kva_buf_add(out, mine[k].name, mine[k].n_name);
        if (kept.len)
            kva_buf_add(out, kept.data, kept.len);
        out->failed |= kept.failed;
        kva_buf_release(&kept);
    }
}

enum kva_status kva_report_short_names(struct kva_arena *a, const char *const *spec,
                                       int n, const char **out, struct kva_error *err)
{
    for (int i = 0; i < n; i++) {
        struct kva_buf b;
        bool bad;

        kva_buf_init(&b, 0);
        short_name(spec, n, i, &b);
        bad = b.failed;
        out[i] = bad ? NULL : kva_report_clean(a, b.data ? b.data : spec[i]);
        kva_buf_release(&b);
        if (!out[i])
            return KVA_FAIL(err, KVA_ENOMEM, "method names: out of memory");
    }
    /* hostile or unusual specs may still collide: then the whole spec is the name */
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(spec[i], spec[j]) != 0 && strcmp(out[i], out[j]) == 0) {
                out[i] = kva_report_clean(a, spec[i]);
                out[j] = kva_report_clean(a, spec[j]);
                if (!out[i] || !out[j])
                    return KVA_FAIL(err, KVA_ENOMEM, "method names: out of memory");
            }
    return KVA_OK;
}

const char *kva_report_day(struct kva_arena *a, int64_t ms)
{
    time_t s = (time_t)(ms / 1000);
    char text[32] = "";
    struct tm tm;

    if (ms > 0 && gmtime_r(&s, &tm))
        (void)strftime(text, sizeof text, "%Y-%m-%d", &tm);
    return kva_arena_strdup(a, text);
}
