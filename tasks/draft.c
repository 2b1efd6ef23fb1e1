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
    kva_arena_init(&d->ranges);
}

void kva_draft_release(struct kva_draft *d)
{
    kva_buf_release(&d->text);
    kva_arena_release(&d->ranges);
    free(d->unit);
    free(d->planted);
    free(d->entry);
    free(d->keep_out);
    free(d->step);
    *d = (struct kva_draft){0};
}

void kva_draft_clear(struct kva_draft *d)
{
    d->text.len = 0;
    d->n_units = d->n_planted = d->n_entries = d->n_keep_out = d->n_steps = 0;
    d->hay = d->example = (struct kva_slice){0, 0};
    kva_arena_reset(&d->ranges);
    d->begin = d->end = NULL;
    d->n_tokens = 0;
}

static enum kva_status reserve(void **list, size_t *cap, size_t need, size_t size,
                               struct kva_error *err)
{
    void *grown;

    if (need <= *cap)
        return KVA_OK;
    need += need / 2 + 16;
    grown = kva_realloc(*list, need, size);
    if (!grown)
        return KVA_FAIL(err, KVA_ENOMEM, "context: out of memory");
    *list = grown;
    *cap = need;
    return KVA_OK;
}

static enum kva_status push(struct kva_slice **list, size_t *n, size_t *cap,
                            struct kva_slice at, struct kva_error *err)
{
    KVA_TRY(reserve((void **)list, cap, *n + 1, sizeof **list, err));
    (*list)[(*n)++] = at;
    return KVA_OK;
}

enum kva_status kva_draft_add_unit(struct kva_draft *d, struct kva_slice at,
                                   struct kva_error *err)
{
    return push(&d->unit, &d->n_units, &d->cap_units, at, err);
}

enum kva_status kva_draft_add_planted(struct kva_draft *d, struct kva_slice at,
                                      struct kva_error *err)
{
    return push(&d->planted, &d->n_planted, &d->cap_planted, at, err);
}

enum kva_status kva_draft_add_keep_out(struct kva_draft *d, struct kva_slice at,
                                       struct kva_error *err)
{
    return push(&d->keep_out, &d->n_keep_out, &d->cap_keep_out, at, err);
}

enum kva_status kva_draft_add_step(struct kva_draft *d, struct kva_slice at,
                                   struct kva_error *err)
{
    return push(&d->step, &d->n_steps, &d->cap_steps, at, err);
}

enum kva_status kva_draft_add_entry(struct kva_draft *d, const struct kva_entry *entry,
                                    struct kva_error *err)
{
    KVA_TRY(reserve((void **)&d->entry, &d->cap_entries, d->n_entries + 1,
                    sizeof *d->entry, err));
    d->entry[d->n_entries++] = *entry;
    return KVA_OK;
}

struct kva_slice kva_draft_add(struct kva_draft *d, const char *text, size_t n)
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

    KVA_TRY(
        reserve((void **)&d->unit, &d->cap_units, d->n_units + n, sizeof *d->unit, err));
    KVA_TRY(reserve((void **)&d->planted, &d->cap_planted, d->n_planted + n_plants,
                    sizeof *d->planted, err));
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
            d->unit[d->n_units++] = kva_draft_add(d, text, len);
        }
        if (p == n_plants)
            break;
        if (!first)
            kva_buf_putc(&d->text, gap);
        first = false;
        d->planted[d->n_planted++] =
            kva_draft_add(d, plants[p].text, strlen(plants[p].text));
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
