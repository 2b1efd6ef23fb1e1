/* SPDX-License-Identifier: GPL-3.0-or-later */
/* page.h - a strict reader of the page: balanced tags, quoted attributes, unique ids. */
#ifndef KVA_TESTS_REPORTS_PAGE_H
#define KVA_TESTS_REPORTS_PAGE_H

#include "tests/reports/fixture.h"

#include <ctype.h>

struct scan {
    char *open[64];
    int depth;
    struct kva_map ids;
    char *href[4096];
    int n_href;
};

static inline void check_attribute(struct scan *s, const char *name, size_t n,
                                   const char *v, size_t nv)
{
    bool is_new;
    struct kva_error err = {0};

    assert_null(memchr(v, '<', nv));
    if (n == 2 && memcmp(name, "id", 2) == 0) {
        assert_int_equal(kva_map_put(&s->ids, v, nv, 1, &is_new, &err), KVA_OK);
        if (!is_new)
            print_error("id twice: %.*s\n", (int)nv, v);
        assert_true(is_new);
    }
    if ((n == 4 && memcmp(name, "href", 4) == 0) ||
        (n == 3 && memcmp(name, "src", 3) == 0)) {
        assert_true(nv < 4 || memcmp(v, "http", 4) != 0);
        assert_true(nv < 2 || memcmp(v, "//", 2) != 0);
        if (nv && v[0] == '#' && s->n_href < 4096)
            s->href[s->n_href++] = strndup(v + 1, nv - 1);
    }
}

/* Tags balance, attributes are quoted, ids are unique, local links have a target. */
static inline void check_page(const char *html)
{
    struct scan s = {.depth = 0};
    const char *p = strchr(html + 1, '<'); /* behind the doctype */
    int64_t one;

    kva_map_init(&s.ids);
    assert_memory_equal(html, "<!DOCTYPE html>", 15);
    while (p && *p == '<') {
        bool close = p[1] == '/';
        const char *name = p + 1 + close, *q = name + strcspn(name, " />\n");
        size_t n = (size_t)(q - name);
        bool empty = false;

        while (*q != '>') {
            const char *key, *val;
            size_t nk;

            assert_int_not_equal(*q, 0);
            if (isspace((unsigned char)*q)) {
                q++;
                continue;
            }
            if (*q == '/') {
                empty = true;
                q++;
                continue;
            }
            key = q;
            nk = strcspn(q, "= />");
            q += nk;
            assert_int_equal(*q, '='); /* a value, always quoted */
            assert_int_equal(q[1], '"');
            val = q + 2;
            q = strchr(val, '"');
            assert_non_null(q);
            check_attribute(&s, key, nk, val, (size_t)(q - val));
            q++;
        }
        if (close) {
            assert_true(s.depth > 0);
            s.depth--;
            if (strlen(s.open[s.depth]) != n || memcmp(s.open[s.depth], name, n) != 0)
                print_error("open %s, closed %.*s\n", s.open[s.depth], (int)n, name);
            assert_true(strlen(s.open[s.depth]) == n &&
                        memcmp(s.open[s.depth], name, n) == 0);
            free(s.open[s.depth]);
        } else if (!empty) {
            assert_true(s.depth < 64);
            s.open[s.depth++] = strndup(name, n);
        }
        p = q + 1;
        if (!close && ((n == 6 && memcmp(name, "script", 6) == 0) ||
                       (n == 5 && memcmp(name, "style", 5) == 0)))
            p = strstr(p, name[1] == 'c' ? "</script>" : "</style>");
        else
            p = strchr(p, '<');
    }
    assert_int_equal(s.depth, 0);
    for (int i = 0; i < s.n_href; i++) {
        if (!kva_map_get(&s.ids, s.href[i], strlen(s.href[i]), &one))
            print_error("link to nothing: #%s\n", s.href[i]);
        assert_true(kva_map_get(&s.ids, s.href[i], strlen(s.href[i]), &one));
        free(s.href[i]);
    }
    kva_map_release(&s.ids);
}

#endif
