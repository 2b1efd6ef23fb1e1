/* SPDX-License-Identifier: GPL-3.0-or-later */
/* draft.c - a context under construction: haystack units with needles between them.
 *
 * Byte ranges are noted while the text is written, never found again afterwards. */
#include "tasks/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void kva_draft_init(struct kva_draft *d)
{
    *d = (struct kva_draft){0};
    kva_buf_init(&d->text, 0);
}

void kva_draft_release(struct kva_draft *d)
{
    kva_buf_release(&d->text);
    free(d->unit);
    free(d->planted);
    *d = (struct kva_draft){0};
}

void kva_draft_clear(struct kva_draft *d)
{
    d->text.len = 0;
    d->n_units = d->n_planted = 0;
    d->hay = (struct kva_slice){0, 0};
}

static enum kva_status reserve(struct kva_slice **list, size_t *cap, size_t need,
                               struct kva_error *err)
{
    struct kva_slice *grown;

    if (need <= *cap)
        return KVA_OK;
    need += need / 2 + 16;
    grown = kva_realloc(*list, need, sizeof **list);
    if (!grown)
        return KVA_FAIL(err, KVA_ENOMEM, "context: out of memory");
    *list = grown;
    *cap = need;
    return KVA_OK;
}

static struct kva_slice append(struct kva_draft *d, const char *text, size_t n)
{
    size_t b0 = d->text.len;

    kva_buf_add(&d->text, text, n);
    return (struct kva_slice){b0, b0 + n};
}

enum kva_status kva_draft_place(struct kva_draft *d, const struct kva_units *units,
                                size_t n, const struct kva_plant *plants, size_t n_plants,
                                bool lines, bool keep_empty, struct kva_error *err)
{
    const char gap = lines ? '\n' : ' ';
    bool first = true;
    size_t next = 0;

    KVA_TRY(reserve(&d->unit, &d->cap_units, d->n_units + n, err));
    KVA_TRY(reserve(&d->planted, &d->cap_planted, d->n_planted + n_plants, err));
    d->hay.b0 = d->text.len;
    for (size_t p = 0; p <= n_plants; p++) {
        size_t stop = p < n_plants && plants[p].place < n ? plants[p].place : n;
        bool empty = next >= stop;

        /* one piece: the units up to the plant; an empty one may still leave its blank */
        if (empty && keep_empty && !lines) {
            if (!first)
                kva_buf_putc(&d->text, gap);
            first = false;
        }
        for (; next < stop; next++) {
            const char *text;
            size_t len;

            if (!first)
                kva_buf_putc(&d->text, gap);
            first = false;
            units->unit(units->ctx, next, &text, &len);
            d->unit[d->n_units++] = append(d, text, len);
        }
        if (p == n_plants)
            break;
        if (!first)
            kva_buf_putc(&d->text, gap);
        first = false;
        d->planted[d->n_planted++] = append(d, plants[p].text, strlen(plants[p].text));
    }
    d->hay.b1 = d->text.len;
    return kva_buf_status(&d->text, err);
}

static int by_u(const void *a, const void *b)
{
    const struct kva_plant *x = a, *y = b;

    return (x->u > y->u) - (x->u < y->u);
}

void kva_plants_arrange(struct kva_plant *plants, size_t n_plants, size_t n, bool lines)
{
    double slots = (double)(lines ? n + 1 : n);

    qsort(plants, n_plants, sizeof *plants, by_u);
    for (size_t i = 0; i < n_plants; i++)
        plants[i].place = (size_t)floor(plants[i].u * slots);
}
