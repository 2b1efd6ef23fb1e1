/* SPDX-License-Identifier: GPL-3.0-or-later */
/* parts.c - times of parts between marks, added up when their marks are long past. */
#include "runner/parts.h"

#include <string.h>

static void mark(struct kva_parts *p, enum kva_part part)
{
    int at = (p->first + p->n++) % KVA_MARKS;

    p->ops->mark(p->ops, at);
    p->part[at] = part;
}

/* The oldest part ends where the next one began. */
static void add_oldest(struct kva_parts *p)
{
    int next = (p->first + 1) % KVA_MARKS;
    int64_t ns = p->ops->between(p->ops, p->first, next);

    p->ns[p->part[p->first]] += ns > 0 ? (uint64_t)ns : 0;
    p->first = next;
    p->n--;
}

void kva_parts_begin(struct kva_parts *p, struct kva_ops *ops, enum kva_part part)
{
    memset(p, 0, sizeof *p);
    p->ops = ops;
    mark(p, part);
}

void kva_parts_enter(struct kva_parts *p, enum kva_part part)
{
    if (p == NULL || p->ops == NULL)
        return;
    if (p->n == KVA_MARKS)
        add_oldest(p);
    mark(p, part);
}

void kva_parts_end(struct kva_parts *p)
{
    kva_parts_enter(p, KVA_PART_NONE);
    while (p->n > 1)
        add_oldest(p);
    p->ops = NULL;
}

static const char *const clocks[] = {"monotonic", "events"};

const char *kva_parts_clock(const struct kva_ops *ops)
{
    return clocks[ops->device != NULL];
}

const char *kva_parts_clock_named(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof clocks / sizeof *clocks; i++)
        if (strcmp(name, clocks[i]) == 0)
            return clocks[i];
    return NULL;
}
