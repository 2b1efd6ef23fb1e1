/* SPDX-License-Identifier: GPL-3.0-or-later */
/* svg.c - makes gnuplot's SVG fit for a page that holds several and has two themes.
 *
 * Every file of gnuplot defines the same ids, so each id and each reference to it gets a
 * prefix. Black becomes currentColor, the colour attribute of groups and the empty
 * background go, so the drawing follows the theme. The prolog and the fixed size go; the
 * titles of plots ("gnuplot_plot_1", shown as tooltips) too. Only markup is rewritten,
 * never text: a method may be called anything. */
#include "reports/internal.h"

#include <stdio.h>
#include <string.h>

static bool starts(const char *s, const char *end, const char *word)
{
    size_t n = strlen(word);

    return (size_t)(end - s) >= n && memcmp(s, word, n) == 0;
}

static const char *find(const char *s, const char *end, const char *word)
{
    return memmem(s, (size_t)(end - s), word, strlen(word));
}

static void prefixed_url(const char *s, size_t n, const char *prefix, struct kva_buf *out)
{
    const char *end = s + n, *at;

    while ((at = find(s, end, "url(#")) != NULL) {
        kva_buf_add(out, s, (size_t)(at - s) + 5);
        kva_buf_printf(out, "%s-", prefix);
        s = at + 5;
    }
    kva_buf_add(out, s, (size_t)(end - s));
}

/* One attribute name=QvalueQ; the text is well formed: gnuplot wrote it. */
static void attribute(const char *name, size_t n_name, const char *value, size_t n_value,
                      const char *prefix, struct kva_buf *out)
{
    bool black = n_value == 5 && memcmp(value, "black", 5) == 0;

    if (n_name == 11 && memcmp(name, "font-family", 11) == 0)
        return;
    if (n_name == 5 && memcmp(name, "color", 5) == 0 &&
        (black || memchr(value, '(', n_value) == NULL))
        return;
    if (n_name == 5 && memcmp(name, "class", 5) == 0)
        return;
    if (n_name > 6 && memcmp(name, "xlink:", 6) == 0) {
        name += 6;
        n_name -= 6;
    }
    kva_buf_putc(out, ' ');
    kva_buf_add(out, name, n_name);
    kva_buf_puts(out, "=\"");
    if (n_name == 2 && memcmp(name, "id", 2) == 0)
        kva_buf_printf(out, "%s-", prefix);
    if (n_name == 4 && memcmp(name, "href", 4) == 0 && n_value && value[0] == '#') {
        kva_buf_printf(out, "#%s-", prefix);
        kva_buf_add(out, value + 1, n_value - 1);
    } else if (black) {
        kva_buf_puts(out, "currentColor");
    } else {
        for (size_t i = 0; i < n_value;) { /* gnuplot mixes both quotes */
            size_t k = i;

            while (k < n_value && value[k] != '"')
                k++;
            prefixed_url(value + i, k - i, prefix, out);
            if (k < n_value) {
                kva_buf_puts(out, "&quot;");
                k++;
            }
            i = k;
        }
    }
    kva_buf_putc(out, '"');
}

/* A tag from < to >; returns what follows. */
static const char *tag(const char *s, const char *end, const char *prefix,
                       struct kva_buf *out)
{
    const char *name = s;

    while (s < end && *s != '>' && *s != ' ' && *s != '\n' && *s != '\t' &&
           !(*s == '/' && s > name + 1))
        s++;
    kva_buf_add(out, name, (size_t)(s - name));
    while (s < end && *s != '>') {
        const char *key, *key_end, *value;
        char quote;

        while (s < end && (*s == ' ' || *s == '\n' || *s == '\t' || *s == '\r'))
            s++;
        if (s < end && *s == '/') {
            kva_buf_putc(out, '/');
            s++;
            continue;
        }
        if (s >= end || *s == '>')
            break;
        key = s;
        while (s < end && *s != '=' && *s != ' ' && *s != '>')
            s++;
        key_end = s;
        while (s < end && (*s == ' ' || *s == '='))
            s++;
        if (s >= end || (*s != '"' && *s != '\''))
            continue;
        quote = *s++;
        value = s;
        while (s < end && *s != quote)
            s++;
        attribute(key, (size_t)(key_end - key), value, (size_t)(s - value), prefix, out);
        s += s < end;
    }
    kva_buf_putc(out, '>');
    return s < end ? s + 1 : end;
}

/* Behind the element's end tag when s starts it, else NULL. */
static const char *skip_element(const char *s, const char *end, const char *open,
                                const char *close)
{
    const char *at;

    if (!starts(s, end, open))
        return NULL;
    at = find(s, end, close);
    return at ? at + strlen(close) : NULL;
}

enum kva_status kva_svg_inline(const char *svg, size_t n, const char *prefix,
                               const char *title, struct kva_buf *out,
                               struct kva_error *err)
{
    const char *end = svg + n, *s = find(svg, end, "<svg"), *box, *box_end, *after;

    if (!s)
        return KVA_FAIL(err, KVA_EFORMAT, "figure %s: not an SVG", prefix);
    box = find(s, end, "viewBox=\"");
    after = memchr(s, '>', (size_t)(end - s));
    if (!box || !after || box > after)
        return KVA_FAIL(err, KVA_EFORMAT, "figure %s: an SVG without a size", prefix);
    box += 9;
    box_end = memchr(box, '"', (size_t)(end - box));
    kva_buf_puts(out, "<svg viewBox=\"");
    kva_buf_add(out, box, (size_t)(box_end - box));
    kva_buf_puts(out, "\" role=\"img\" aria-label=\"");
    kva_report_escape(out, title);
    kva_buf_puts(out, "\">");
    s = after + 1;
    while (s < end) {
        const char *next;

        if (*s != '<') {
            const char *lt = memchr(s, '<', (size_t)(end - s));
            size_t len = (size_t)((lt ? lt : end) - s);
            bool blank = true;

            for (size_t i = 0; i < len && blank; i++)
                blank = s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r';
            if (!blank)
                kva_buf_add(out, s, len);
            s += len;
            continue;
        }
        if ((next = skip_element(s, end, "<title", "</title>")) != NULL ||
            (next = skip_element(s, end, "<desc", "</desc>")) != NULL ||
            (next = skip_element(s, end, "<!--", "-->")) != NULL ||
            (next = skip_element(s, end, "<rect x=\"0\" y=\"0\"", "/>")) != NULL ||
            (next = skip_element(s, end, "<filter", "</filter>")) != NULL) {
            s = next;
            continue;
        }
        s = tag(s, end, prefix, out);
    }
    kva_buf_putc(out, '\n');
    return kva_buf_status(out, err);
}
