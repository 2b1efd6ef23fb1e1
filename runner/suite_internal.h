/* SPDX-License-Identifier: GPL-3.0-or-later */
/* suite_internal.h - state of reading one suite file (suite.c, suite_values.c,
 * suite_expand.c).
 *
 * A wrong value is reported with its JSON pointer and replaced by a harmless one, so that
 * one run finds all errors of the file. Out of memory is remembered in `nomem` and ends
 * the reading. */
#ifndef KVA_SUITE_INTERNAL_H
#define KVA_SUITE_INTERNAL_H

#include "runner/jsonpos.h"
#include "runner/plan.h"

#include <jansson.h>

#define SX_PTR       256
#define SX_MAX_CELLS 200000

struct sx_method {
    char *id, *text, *ptr;
    bool dense, blind;
    char **spec; /* canonical, per schedule; NULL where it is not valid */
};
struct sx_budget {
    struct kva_budget b;
    char text[32];
};
struct sx_axis {
    char **v;
    int n;
};
struct sx_sampling {
    struct kva_sampling s;
    int draws; /* `samples` of the file */
    char text[KVA_SAMPLING_TEXT], ptr[SX_PTR];
};
/* What overrides and includes may set; -1: not set. draws: of the cell's sampling. */
struct sx_set {
    int n, reps, perf, perf_reps, max_attempts, draws;
};
enum { SX_DENSE = -1, SX_BLIND = -2 };
struct sx_cell {
    int model, method /* or SX_DENSE, SX_BLIND */, task;
    struct kva_budget budget;
    int schedule, numerics, kv, sampling; /* indexes into the axes */
    enum kva_enforce enforce;
    enum kva_visibility visibility;
    struct sx_set set;
    bool kept; /* by --only */
};

/* Collected, then written in the order of the file; what came from an argument first
 * (line 0). */
struct sx_error {
    int line, col, order;
    char *text;
};

struct sx {
    const char *name, *dir;
    const struct kva_suite_opts *opts;
    struct kva_suite *s;
    json_t *root;
    struct kva_jsonpos pos;
    struct sx_error *errors;
    int n_errors, cap_errors;
    bool quiet; /* count errors, keep none */
    bool nomem;
    char (*set_ptr)[SX_PTR]; /* pointer written by each --set */

    uint64_t seed;
    struct sx_set def;
    int max_new_tokens;
    char *profile, *dialect, *haystack, *words;
    struct kva_task_data *data; /* in the suite's arena */
    int n_data;
    struct sx_method *methods;
    int n_methods;
    struct sx_budget *budgets;
    int n_budgets;
    struct sx_axis schedules, enforce, visibility, numerics, kv;
    struct sx_sampling *sampling;
    int n_sampling;
    bool dense, blind;

    struct sx_cell *cells;
    int n_cells, cap_cells;
};

/* ---- suite_values.c ---- */
void kva_sx_bad(struct sx *x, const char *ptr, bool at_key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* What another module found wrong with the value. */
void kva_sx_bad_because(struct sx *x, const char *ptr, const struct kva_error *why);
/* An error in a command line argument: "--only X: ..." */
void kva_sx_bad_arg(struct sx *x, const char *option, const char *arg, const char *fmt,
                    ...) __attribute__((format(printf, 4, 5)));
/* Writes the collected errors and frees them. */
void kva_sx_report(struct sx *x, struct kva_buf *report);
/* base + "/" + key, escaped, cut at SX_PTR */
void kva_sx_join(char out[SX_PTR], const char *base, const char *key);
void kva_sx_join_at(char out[SX_PTR], const char *base, size_t i);
char *kva_sx_str(struct sx *x, const char *s);
void *kva_sx_alloc(struct sx *x, size_t count,
                   size_t size); /* never NULL for long: check x->nomem */
/* Reports every key of `o` that is not in the NULL-terminated list; keys starting with //
 * pass. */
void kva_sx_keys(struct sx *x, json_t *o, const char *ptr, const char *const *known);
/* Value of `key` as a whole number in [min, max]; `def` when absent or wrong. */
int64_t kva_sx_int(struct sx *x, json_t *o, const char *ptr, const char *key, int64_t min,
                   int64_t max, int64_t def);
/* The key perf_reps: 0, or at least KVA_PERF_REPS_LEAST. */
int kva_sx_perf_reps(struct sx *x, json_t *o, const char *ptr, int def);
/* A string, NULL when absent or wrong. */
char *kva_sx_string(struct sx *x, json_t *o, const char *ptr, const char *key);
bool kva_sx_flag(struct sx *x, json_t *o, const char *ptr, const char *key, bool def);
/* One budget; false when it was reported. */
bool kva_sx_budget(struct sx *x, json_t *v, const char *ptr, struct kva_budget *b);
/* "greedy", or {temperature, top_p, top_k, samples}. */
void kva_sx_sampling(struct sx *x, json_t *v, const char *ptr, struct sx_sampling *s);
/* A list of strings or a single one. */
struct sx_axis kva_sx_strings(struct sx *x, json_t *v, const char *ptr);
/* `*` and `?` only. */
bool kva_sx_glob(const char *pattern, const char *s);
/* "512" behind '@' of a task id, else 0; *base_len: bytes before the '@'. */
int kva_sx_task_ctx(const char *id, size_t *base_len);
bool kva_sx_task_match(const char *pattern, const char *id);
const char *kva_sx_type(json_t *v); /* "a string", "a list", ... */

/* ---- suite_expand.c ---- */
void kva_sx_expand(struct sx *x);

#endif
