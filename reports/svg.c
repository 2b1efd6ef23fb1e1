/* SPDX-License-Identifier: GPL-3.0-or-later */
/* svg.c - makes gnuplot's SVG fit for a page that holds several and has two themes.
 *
 * Every file of gnuplot defines the same ids, so each id and each reference to it gets a
 * prefix. Black becomes currentColor, the colour attribute of groups and the empty
 * background go, so the drawing follows the theme. The prolog and the fixed size go; the
 * titles of plots ("gnuplot_plot_1", shown as tooltips) too. Only markup is rewritten,
 * never text: a method may be called anything.
 *
 * Most of gnuplot's bytes say what holds anyway: groups without content, attributes equal
 * to those of the group around, hundredths of a pixel. They go too, which leaves about a
 * third. */
#include "reports/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct span {
    const char *s;
    size_t n;
};

/* Attributes that elements inside take over; the drawing starts with these values. */
enum { FILL, STROKE, WIDTH, CAP, JOIN, SIZE, ANCHOR, N_STYLE };
static const char *const STYLE[N_STYLE] = {
    "fill",      "stroke",     "stroke-width", "stroke-linecap", "stroke-linejoin",
    "font-size", "text-anchor"};
static const char *const START[N_STYLE] = {"none",  "currentColor", "0.96", "butt",
                                           "miter", "13.00",        "start"};

enum { MAX_DEPTH = 32, MAX_ATTR = 24 };

/* An open group. Its tag is written when something is drawn in it; a label's group, which
 * only moves it, becomes part of the label. */
struct group {
    struct span style[N_STYLE];
    size_t from; /* of its attributes in `tags` */
    bool is_open, has_tag, is_label;
};
struct writer {
    const char *svg, *end, *prefix;
    struct kva_buf *out, tags;
    struct group group[MAX_DEPTH];
    int depth;
    bool in_defs;
};

static bool starts(const char *s, const char *end, const char *word)
{
    size_t n = strlen(word);

    return (size_t)(end - s) >= n && memcmp(s, word, n) == 0;
}

static const char *find(const char *s, const char *end, const char *word)
{
    return memmem(s, (size_t)(end - s), word, strlen(word));
}

static bool is(struct span a, const char *word)
{
    return a.n == strlen(word) && memcmp(a.s, word, a.n) == 0;
}

static bool same(struct span a, struct span b)
{
    return a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}

static struct span words(const char *s)
{
    return (struct span){s, strlen(s)};
}

/* ---- values ---- */

/* A number in tenths of a pixel, small ones (scales) in hundredths, no idle zeros. */
static const char *number(const char *s, const char *end, struct kva_buf *out)
{
    char text[40], shown[48];
    size_t n = 0;
    double v;

    while (s < end && n < sizeof text - 1 &&
           (strchr("+-.", *s) || (*s >= '0' && *s <= '9')))
        text[n++] = *s++;
    text[n] = 0;
    v = strtod(text, NULL);
    (void)snprintf(shown, sizeof shown, fabs(v) >= 10 ? "%.1f" : "%.2f", v);
    n = strlen(shown);
    while (n && shown[n - 1] == '0')
        shown[--n] = 0;
    if (n && shown[n - 1] == '.')
        shown[--n] = 0;
    kva_buf_puts(out, strcmp(shown, "-0") == 0 ? "0" : shown);
    return s;
}

/* Numbers shortened, blanks only where they part two numbers. */
static void numbers(struct span v, struct kva_buf *out)
{
    const char *s = v.s, *end = v.s + v.n;
    bool digit = false, blank = false;

    while (s < end) {
        if ((*s >= '0' && *s <= '9') || *s == '.' ||
            (*s == '-' && s + 1 < end && ((s[1] >= '0' && s[1] <= '9') || s[1] == '.'))) {
            if (digit && blank)
                kva_buf_putc(out, ' ');
            s = number(s, end, out);
            digit = true;
            blank = false;
        } else if (*s == ' ' || *s == '\n') {
            blank = true;
            s++;
        } else {
            digit = blank = false;
            kva_buf_putc(out, *s++);
        }
    }
}

static bool colour(struct span v, struct kva_buf *out)
{
    int c[3];
    char text[40];

    if (v.n >= sizeof text || !starts(v.s, v.s + v.n, "rgb("))
        return false;
    memcpy(text, v.s, v.n);
    text[v.n] = 0;
    if (sscanf(text, "rgb(%d,%d,%d)", &c[0], &c[1], &c[2]) != 3)
        return false;
    kva_buf_printf(out, "#%02x%02x%02x", (unsigned)c[0] & 255, (unsigned)c[1] & 255,
                   (unsigned)c[2] & 255);
    return true;
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

static void plain_value(struct span v, const char *prefix, struct kva_buf *out)
{
    for (size_t i = 0; i < v.n;) { /* gnuplot mixes both quotes */
        size_t k = i;

        while (k < v.n && v.s[k] != '"')
            k++;
        prefixed_url(v.s + i, k - i, prefix, out);
        if (k < v.n) {
            kva_buf_puts(out, "&quot;");
            k++;
        }
        i = k;
    }
}

/* ---- attributes ---- */

struct attr {
    struct span name, value;
};

static int style_of(struct span name)
{
    for (int k = 0; k < N_STYLE; k++)
        if (is(name, STYLE[k]))
            return k;
    return -1;
}

/* Does the page need it? */
static bool wanted(struct attr a)
{
    if (is(a.name, "font-family") || is(a.name, "class"))
        return false;
    if (is(a.name, "color"))
        return memchr(a.value.s, '(', a.value.n) != NULL;
    return !(is(a.name, "id") && starts(a.value.s, a.value.s + a.value.n, "gnuplot_"));
}

static struct span effective(struct attr a)
{
    return is(a.value, "black") ? words("currentColor") : a.value;
}

static void put_attr(struct attr a, const char *prefix, struct kva_buf *out)
{
    struct span v = effective(a);

    if (a.name.n > 6 && memcmp(a.name.s, "xlink:", 6) == 0) {
        a.name.s += 6;
        a.name.n -= 6;
    }
    kva_buf_putc(out, ' ');
    kva_buf_add(out, a.name.s, a.name.n);
    kva_buf_puts(out, "=\"");
    if (is(a.name, "id"))
        kva_buf_printf(out, "%s-", prefix);
    if (is(a.name, "href") && v.n && v.s[0] == '#') {
        kva_buf_printf(out, "#%s-", prefix);
        kva_buf_add(out, v.s + 1, v.n - 1);
    } else if (is(a.name, "d") || is(a.name, "points") || is(a.name, "transform") ||
               is(a.name, "stroke-width") || is(a.name, "font-size")) {
        numbers(v, out);
    } else if (!colour(v, out)) {
        plain_value(v, prefix, out);
    }
    kva_buf_putc(out, '"');
}

/* Reads NAME=QvalueQ pairs up to the end of the tag; the text is well formed: gnuplot
 * wrote it. Returns what follows the tag. */
static const char *read_attrs(const char *s, const char *end, struct attr *a, int *n,
                              bool *closed)
{
    *n = 0;
    *closed = false;
    while (s < end && *s != '>') {
        struct attr x = {.name = {s, 0}};
        char quote;

        if (*s == ' ' || *s == '\n' || *s == '\t' || *s == '\r') {
            s++;
            continue;
        }
        if (*s == '/') {
            *closed = true;
            s++;
            continue;
        }
        while (s < end && *s != '=' && *s != ' ' && *s != '>')
            s++;
        x.name.n = (size_t)(s - x.name.s);
        while (s < end && (*s == ' ' || *s == '='))
            s++;
        if (s >= end || (*s != '"' && *s != '\''))
            continue;
        quote = *s++;
        x.value.s = s;
        while (s < end && *s != quote)
            s++;
        x.value.n = (size_t)(s - x.value.s);
        s += s < end;
        if (*n < MAX_ATTR)
            a[(*n)++] = x;
    }
    return s < end ? s + 1 : end;
}

static const struct attr *attr_of(const struct attr *a, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (is(a[i].name, name))
            return &a[i];
    return NULL;
}

/* ---- groups ---- */

static void open_group(struct writer *w, const struct attr *a, int n)
{
    struct group *g;

    if (w->depth + 1 >= MAX_DEPTH) { /* gnuplot nests four deep */
        w->out->failed = true;
        return;
    }
    g = &w->group[w->depth + 1];
    *g = w->group[w->depth++];
    g->from = w->tags.len;
    g->is_open = g->has_tag = false;
    g->is_label = attr_of(a, n, "font-size") != NULL;
    for (int i = 0; i < n; i++) {
        int k = style_of(a[i].name);

        if (!wanted(a[i]) || (k >= 0 && same(g->style[k], effective(a[i]))) ||
            (g->is_label && is(a[i].name, "stroke"))) /* the style sheet: none */
            continue;
        if (k >= 0)
            g->style[k] = effective(a[i]);
        put_attr(a[i], w->prefix, &w->tags);
        g->has_tag = true;
    }
}

static void close_group(struct writer *w)
{
    struct group *g = &w->group[w->depth];

    if (w->depth == 0)
        return;
    if (g->is_open && g->has_tag)
        kva_buf_puts(w->out, "</g>");
    w->tags.len = g->from;
    w->depth--;
}

/* Something is drawn: the groups around it are written, but for `own` of the last. */
static void flush_groups(struct writer *w, int own)
{
    for (int i = 1; i <= w->depth - own; i++) {
        struct group *g = &w->group[i];
        size_t to = i < w->depth ? w->group[i + 1].from : w->tags.len;

        if (!g->is_open && g->has_tag) {
            kva_buf_puts(w->out, "<g");
            kva_buf_add(w->out, w->tags.data + g->from, to - g->from);
            kva_buf_putc(w->out, '>');
        }
        g->is_open = true;
    }
}

/* ---- elements ---- */

/* A polygon that is a rectangle says so in half the bytes. */
static bool rectangle(const struct attr *points, struct kva_buf *out)
{
    double p[8];
    char text[160], more;

    if (points->value.n >= sizeof text)
        return false;
    memcpy(text, points->value.s, points->value.n);
    text[points->value.n] = 0;
    if (sscanf(text, "%lf,%lf %lf,%lf %lf,%lf %lf,%lf %c", &p[0], &p[1], &p[2], &p[3],
               &p[4], &p[5], &p[6], &p[7], &more) != 8 ||
        p[1] != p[3] || p[2] != p[4] || p[5] != p[7] || p[6] != p[0])
        return false;
    (void)snprintf(text, sizeof text, "M%.2f,%.2fH%.2fV%.2fH%.2f", p[0], p[1], p[2], p[5],
                   p[0]);
    kva_buf_puts(out, " d=\"");
    numbers(words(text), out);
    kva_buf_putc(out, '"');
    return true;
}

/* A path that only moves draws nothing. */
static bool draws(struct span d)
{
    int m = 0;

    for (size_t i = 0; i < d.n; i++) {
        m += d.s[i] == 'M';
        if ((d.s[i] >= 'A' && d.s[i] <= 'Z' && d.s[i] != 'M') ||
            (d.s[i] >= 'a' && d.s[i] <= 'z'))
            return true;
    }
    return m != 1;
}

/* Markers that the figure does not use stay out. */
static bool used(const struct writer *w, const struct attr *id)
{
    char ref[64];

    (void)snprintf(ref, sizeof ref, "#%.*s'", (int)id->value.n, id->value.s);
    if (find(w->svg, w->end, ref))
        return true;
    ref[strlen(ref) - 1] = ')';
    return find(w->svg, w->end, ref) != NULL;
}

static void put_element(struct writer *w, struct span name, const struct attr *a, int n,
                        bool closed)
{
    const struct attr *points = is(name, "polygon") ? attr_of(a, n, "points") : NULL;
    struct kva_buf box;
    bool rect;

    kva_buf_init(&box, 0);
    rect = points && rectangle(points, &box);
    kva_buf_putc(w->out, '<');
    if (rect)
        kva_buf_puts(w->out, "path");
    else
        kva_buf_add(w->out, name.s, name.n);
    for (int i = 0; i < n; i++) {
        int k = w->in_defs ? -1 : style_of(a[i].name);

        if (wanted(a[i]) && !(rect && &a[i] == points) &&
            (k < 0 || !same(w->group[w->depth].style[k], effective(a[i]))))
            put_attr(a[i], w->prefix, w->out);
    }
    if (rect)
        kva_buf_add(w->out, box.data, box.len);
    w->out->failed |= box.failed;
    kva_buf_release(&box);
    kva_buf_puts(w->out, closed ? "/>" : ">");
}

/* A tag from < to >; returns what follows. */
static const char *element(struct writer *w, const char *s)
{
    struct span name = {s + 1, 0};
    struct attr a[MAX_ATTR];
    const struct attr *at;
    bool closed;
    int n;

    while (s < w->end && *s != '>' && *s != ' ' && *s != '\n' && *s != '\t' &&
           !(*s == '/' && s > name.s))
        s++;
    name.n = (size_t)(s - name.s);
    s = read_attrs(s, w->end, a, &n, &closed);
    if (is(name, "g") && !closed) {
        open_group(w, a, n);
        return s;
    }
    if (is(name, "/g")) {
        close_group(w);
        return s;
    }
    if (is(name, "/svg"))
        return s;
    w->in_defs = is(name, "defs") || (w->in_defs && !is(name, "/defs"));
    if ((at = attr_of(a, n, "d")) != NULL && !draws(at->value))
        return s;
    if (w->in_defs && (at = attr_of(a, n, "id")) != NULL && closed && !used(w, at))
        return s;
    if (is(name, "text") && w->group[w->depth].is_label && !w->group[w->depth].is_open) {
        struct group *g = &w->group[w->depth];

        flush_groups(w, 1);
        kva_buf_puts(w->out, "<text");
        kva_buf_add(w->out, w->tags.data ? w->tags.data + g->from : "",
                    w->tags.len - g->from);
        kva_buf_putc(w->out, '>');
        g->is_open = true;
        g->has_tag = false;
        return s;
    }
    flush_groups(w, 0);
    put_element(w, name, a, n, closed);
    return s;
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

static const char *text(struct writer *w, const char *s)
{
    const char *lt = memchr(s, '<', (size_t)(w->end - s));
    size_t len = (size_t)((lt ? lt : w->end) - s);
    bool blank = true;

    for (size_t i = 0; i < len && blank; i++)
        blank = s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r';
    if (!blank)
        kva_buf_add(w->out, s, len);
    return s + len;
}

enum kva_status kva_svg_inline(const char *svg, size_t n, const char *prefix,
                               const char *title, struct kva_buf *out,
                               struct kva_error *err)
{
    struct writer w = {.svg = svg, .end = svg + n, .prefix = prefix, .out = out};
    const char *end = w.end, *s = find(svg, end, "<svg"), *box, *box_end, *after;

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
    kva_buf_puts(out, "\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"0.96\" "
                      "font-size=\"13\">");
    for (int k = 0; k < N_STYLE; k++)
        w.group[0].style[k] = words(START[k]);
    kva_buf_init(&w.tags, 0);
    s = after + 1;
    while (s < end) {
        const char *next;

        if (*s != '<')
            s = text(&w, s);
        else if ((next = skip_element(s, end, "<title", "</title>")) != NULL ||
                 (next = skip_element(s, end, "<desc", "</desc>")) != NULL ||
                 (next = skip_element(s, end, "<!--", "-->")) != NULL ||
                 (next = skip_element(s, end, "<rect x=\"0\" y=\"0\"", "/>")) != NULL ||
                 (next = skip_element(s, end, "<filter", "</filter>")) != NULL)
            s = next;
        else
            s = element(&w, s);
    }
    kva_buf_puts(out, "</svg>\n");
    out->failed |= w.tags.failed;
    kva_buf_release(&w.tags);
    return kva_buf_status(out, err);
}
