/* SPDX-License-Identifier: GPL-3.0-or-later */
/* registry.c - the tables of scorers, wrappers and allocators, made from methods.def. */
#include "methods/method.h"

#define SCORER(name)    extern const struct kva_scorer kva_score_##name;
#define WRAPPER(name)   extern const struct kva_wrapper kva_wrap_##name;
#define ALLOCATOR(name) extern const struct kva_allocator kva_alloc_##name;
#include "methods/methods.def"
#undef SCORER
#undef WRAPPER
#undef ALLOCATOR

static const struct kva_scorer *const scorers[] = {
#define SCORER(name) &kva_score_##name,
#define WRAPPER(name)
#define ALLOCATOR(name)
#include "methods/methods.def"
#undef SCORER
#undef WRAPPER
#undef ALLOCATOR
    NULL};

static const struct kva_wrapper *const wrappers[] = {
#define SCORER(name)
#define WRAPPER(name) &kva_wrap_##name,
#define ALLOCATOR(name)
#include "methods/methods.def"
#undef SCORER
#undef WRAPPER
#undef ALLOCATOR
    NULL};

static const struct kva_allocator *const allocators[] = {
#define SCORER(name)
#define WRAPPER(name)
#define ALLOCATOR(name) &kva_alloc_##name,
#include "methods/methods.def"
#undef SCORER
#undef WRAPPER
#undef ALLOCATOR
    NULL};

const struct kva_scorer *const *kva_scorers(void)
{
    return scorers;
}

const struct kva_wrapper *const *kva_wrappers(void)
{
    return wrappers;
}

const struct kva_allocator *const *kva_allocators(void)
{
    return allocators;
}
