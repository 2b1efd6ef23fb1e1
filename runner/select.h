/* SPDX-License-Identifier: GPL-3.0-or-later */
/* select.h - which cells a word of the command line names.
 *
 *     selector = FILE | KEY=VALUE { "," KEY=VALUE }
 *
 * KEY is one of kva_select_keys. A word without '=' is db=WORD. Different keys must all
 * hold; a key given twice names alternatives (method=snapkv,method=tova). Values are
 * globs, case matters. What they are compared with:
 *     model       its name, or the start of its SHA-256
 *     method      a specification, alias or short form: the parts must be the stored ones
 *                 (allocator `uniform` unless written), parameters that are written must
 *                 have the stored value; where the method with all its defaults is
 *                 stored, only that one. With * ? or [ a glob on the stored text
 *     task        suite/name, name, either with @ctx, or the start of its digest
 *     budget      0.1, 10%, keep0.1, keep=0.1; 2048, tokens2048, tokens=2048; dense
 *     run         start of the UUID, the label, or `last`: the newest run. Only outcomes
 *                 of these runs count
 *     sampling    greedy, t0.6-p0.95
 *     db          file to read; not a property of a cell
 *     others      the stored text
 * Blind cells are selected by method=blind alone: they are no method and never ranked.
 * The parameters of a method or task keep their commas: in
 * `method=snapkv:window=32,kernel=7,task=vt` only what starts with a key begins a new
 * condition. */
#ifndef KVA_SELECT_H
#define KVA_SELECT_H

#include "db/db.h"
#include "kva.h"

enum kva_select_key {
    KVA_SELECT_MODEL,
    KVA_SELECT_METHOD,
    KVA_SELECT_TASK,
    KVA_SELECT_BUDGET,
    KVA_SELECT_ENFORCE,
    KVA_SELECT_SCHEDULE,
    KVA_SELECT_VISIBILITY,
    KVA_SELECT_NUMERICS,
    KVA_SELECT_KV,
    KVA_SELECT_SAMPLING,
    KVA_SELECT_SUITE,
    KVA_SELECT_DB,
    KVA_SELECT_RUN,
    KVA_SELECT_KEYS
};
extern const char *const kva_select_keys[KVA_SELECT_KEYS + 1]; /* NULL-terminated */

enum { KVA_SELECT_MAX = 32 };
struct kva_select {
    char *text;     /* as given, owned */
    char *copy;     /* what the values point into, owned */
    unsigned named; /* bit per key */
    struct {
        enum kva_select_key key;
        const char *value;
    } term[KVA_SELECT_MAX];
    int n;
};
/* KVA_EINVALID with the nearest known key, an empty value, or too many conditions.
 * Methods without a glob are parsed, so that a misspelt one is named. Release in any
 * case. */
enum kva_status kva_select_parse(const char *text, struct kva_select *s,
                                 struct kva_error *err);
void kva_select_release(struct kva_select *s);
/* Do both name the same values of this key? (Neither names it: true.) */
bool kva_select_same(const struct kva_select *a, const struct kva_select *b,
                     enum kva_select_key key);
/* Marks cells (n_cells) and runs (n_runs) of `d`. KVA_EMISSING when a condition holds for
 * no cell or run, naming what is there, or when no cell meets all of them. */
enum kva_status kva_select_apply(const struct kva_select *s, const struct kva_data *d,
                                 bool *cell, bool *run, struct kva_error *err);
/* Is the stored canonical method what `text` means? Both under the cell's schedule. */
bool kva_select_method(const char *text, const char *stored, const char *schedule);

#endif
