/* SPDX-License-Identifier: GPL-3.0-or-later */
/* registry.c - the tables of scorers and allocators, made from methods.def. */
#include "methods/method.h"

#define SCORER(name)    extern const struct kva_scorer kva_score_##name;
#define ALLOCATOR(name) extern const struct kva_allocator kva_alloc_##name;
#include "methods/methods.def"
#undef SCORER
#undef ALLOCATOR

static const struct kva_scorer *const scorers[] = {
#define SCORER(name) &kva_score_##name,
#define ALLOCATOR(name)
#include "methods/methods.def"
#undef SCORER
#undef ALLOCATOR
    NULL};

static const struct kva_allocator *const allocators[] = {
#define SCORER(name)
#define ALLOCATOR(name) &kva_alloc_##name,
#include "methods/methods.def"
#undef SCORER
#undef ALLOCATOR
    NULL};

const struct kva_scorer *const *kva_scorers(void)
{
    return scorers;
}

const struct kva_allocator *const *kva_allocators(void)
{
    return allocators;
}
