/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tables.h - finding a table, a row and a cell of a built report. */
#ifndef KVA_TESTS_REPORTS_TABLES_H
#define KVA_TESTS_REPORTS_TABLES_H

#include "tests/reports/fixture.h"

/* The first table whose id ends so; NULL: none. */
static inline const struct kva_tab *tab(const struct kva_report *r, const char *id_end)
{
    size_t m = strlen(id_end);

    for (int i = 0; i < r->n_tab; i++) {
        size_t n = strlen(r->tab[i].id);

        if (n >= m && strcmp(r->tab[i].id + n - m, id_end) == 0)
            return &r->tab[i];
    }
    return NULL;
}

static inline const struct kva_val *cell(const struct kva_tab *t, int row, const char *id)
{
    assert_non_null(t);
    assert_true(row < t->n_row);
    for (int c = 0; c < t->n_col; c++)
        if (strcmp(t->col[c].id, id) == 0)
            return &t->row[row].cell[c];
    fail_msg("%s has no column %s", t->id, id);
    return NULL;
}

static inline double number(const struct kva_tab *t, int row, const char *id)
{
    return cell(t, row, id)->v;
}

static inline const char *word(const struct kva_tab *t, int row, const char *id)
{
    return cell(t, row, id)->text;
}

static inline bool noted(const struct kva_tab *t, const char *what)
{
    for (int i = 0; i < t->n_note; i++)
        if (strstr(t->note[i], what))
            return true;
    return false;
}

#endif
