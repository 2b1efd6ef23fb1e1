/* SPDX-License-Identifier: GPL-3.0-or-later */
/* official.h - RULER's official dialects: what the driver (official.c) and the five
 * generators share.
 *
 * Upstream is five scripts, each a process that draws from one global random state, finds
 * a size with calls of its generator, and then writes sample after sample. So sample i
 * depends on the seed, on the tokenizer (which steers the search and the retries) and on
 * all samples before it. A generator here is one call gen(u): text for u haystack units
 * from a state that it advances. The driver owns search, retries and checkpoints.
 *
 * Dialects: r2024 is github.com/NVIDIA/RULER at e40fae1 (2024-10-10), r2025 at c3f5e3b
 * (2026-07-22). Oddities are kept; tasks-ruler.md 3.4, 6, 11 list them. */
#ifndef KVA_TASKS_OFFICIAL_H
#define KVA_TASKS_OFFICIAL_H

#include "tasks/internal.h"
#include "tasks/mt19937.h"

#include <pthread.h>

/* What a script remembers between two calls of its generator. */
struct kva_official_state {
    struct kva_mt py, np; /* `random`, `np.random` */
    uint32_t n_shuffled;  /* qa, r2024: how often the list of all documents was shuffled
                           * in place */
};

/* What one call writes. */
struct kva_official_prompt {
    struct kva_draft
        draft; /* text: context, question, answer prefix; parts as for spans */
    size_t n_context, n_question; /* bytes of the first two, cut as kvpress cuts: the
                                   * question ends with the blank before the prefix */
    struct kva_arena arena;       /* of all texts below */
    struct kva_buf scratch;
    struct kva_plant *plants; /* in the order of the text */
    size_t n_plants;
    const char **answers, **forbidden, **decoys;
    int n_answers, n_decoys;
    size_t n_forbidden;
    size_t count_from; /* r2024 vt: the length counts what stands behind the example,
                        * and the run's `extra` */
    const char *tail;  /* r2024: counted in the search, not part of the prompt; or NULL */
    const char *gold;  /* answers as the task prints them, without the leading blank */
    double guess_floor;
    bool whole_units, no_haystack;
    bool too_small; /* upstream raises an exception: u is too small to build anything */
    bool unlucky;   /* upstream raises one by chance (names drawn twice): its retry draws
                     * anew */
};

struct kva_official_call {
    size_t units;
    int idx;        /* sample; the search uses 0 */
    bool searching; /* a probe of the search */
    bool example;   /* vt: for the worked example */
    bool full;      /* an item is made of it: the parts for spans are wanted */
};

/* A search and its samples (tasks-ruler.md 3.4). */
struct kva_official_fit {
    int64_t limit, max_new; /* tokens */
    size_t step;            /* inc */
    size_t cap;             /* the most units there are; 0: any number */
    bool cap_early; /* r2024 essays: the cap is tested before the step, not behind it */
    bool cwe;       /* r2025: first probe of 4096 units, bound floor(L / per) 2 */
    bool one_draw;  /* fwe: a retry has the random numbers of the first try */
};

enum { KVA_OFFICIAL_EXAMPLE = 500 }; /* L of vt's worked example */
struct kva_official;
struct kva_official_run;

struct kva_official_kind {
    const char *domain;
    /* Sets name, haystack, words of the task, data and fit of o. What it put into o->data
     * is closed with the task, also after a failure. */
    enum kva_status (*open)(struct kva_task *task, struct kva_official *o,
                            const struct kva_task_request *req, struct kva_error *err);
    void (*close)(void *data);
    /* One call of upstream's generator: advances *state, writes p, which is empty before.
     * Of run only o and example may be used: other threads read them too. */
    enum kva_status (*gen)(const struct kva_official_run *run,
                           const struct kva_official_call *call,
                           struct kva_official_state *state,
                           struct kva_official_prompt *p, struct kva_error *err);
    /* Finds run->units. NULL: kva_official_search with o->fit. */
    enum kva_status (*search)(struct kva_official_run *run, struct kva_error *err);
    int (*describe)(const struct kva_task *task, const void *data, void *gen,
                    void *source);
};
extern const struct kva_official_kind kva_official_niah, kva_official_vt,
    kva_official_fwe, kva_official_cwe, kva_official_qa;

/* An opened task of an official dialect. */
struct kva_official {
    const struct kva_official_kind *kind;
    void *data; /* the kind's */
    bool r2024;
    uint64_t seed;
    int ctx;                     /* L */
    struct kva_official_fit fit; /* the kind changes what differs from the defaults */
    const char *label;           /* for messages */
    pthread_mutex_t lock;        /* of the runs */
    struct kva_official_run *runs;
};

struct kva_official_sample {
    struct kva_official_state before; /* of the call that made it */
    size_t units, length;             /* length: tokens with max_new */
};
/* What is known of the task under one tokenizer. */
struct kva_official_run {
    struct kva_official *o;
    struct kva_official_run *next;
    char *tok_id;
    const struct kva_tok_api *tok; /* of the call that holds the lock */
    struct kva_official_state now; /* behind the last sample */
    struct kva_official_prompt last;
    bool searched, capped;     /* capped: there are no more units */
    size_t units, first_total; /* tokens of the search's first probe, with max_new */
    struct kva_buf example;    /* vt: worked example with its answer */
    size_t extra;              /* tokens of that, counted beside every probe */
    struct kva_official_sample *sample;
    size_t n_samples, cap_samples;
    struct kva_error failed; /* why there are no samples */
};

/* ---- official.c, for the generators' own searches ---- */

/* One call of gen, its text in run->last, and the tokens of that text; `tail` counts the
 * tail too. */
enum kva_status kva_official_probe(struct kva_official_run *run,
                                   const struct kva_official_call *call, bool tail,
                                   size_t *n_tokens, struct kva_error *err);
enum kva_status kva_official_count(struct kva_official_run *run, const char *text,
                                   size_t n, size_t *n_tokens, struct kva_error *err);
enum kva_status kva_official_search(struct kva_official_run *run,
                                    const struct kva_official_fit *fit, bool example,
                                    size_t *units, struct kva_error *err);
/* Sample idx of `units`, of fewer where that is too long; advances run->now. */
enum kva_status kva_official_retry(struct kva_official_run *run,
                                   const struct kva_official_fit *fit, bool example,
                                   int idx, size_t units, struct kva_official_sample *out,
                                   struct kva_error *err);
/* KVA_EINVALID "task T does not fit in L with tokenizer X (needs at least N)". */
enum kva_status kva_official_too_long(const struct kva_official_run *run, bool example,
                                      size_t need, struct kva_error *err);

/* ---- official.c, for writing prompts ---- */

/* The order in which upstream shuffles n things with a fresh generator of the seed: thing
 * order[i] comes i-th. From the arena. */
enum kva_status kva_official_order(const struct kva_official *o, size_t n,
                                   struct kva_arena *arena, uint32_t **order,
                                   struct kva_error *err);
/* The text so far is the context; with what follows it, the question. */
void kva_official_end_context(struct kva_official_prompt *p);
void kva_official_end_question(struct kva_official_prompt *p);
/* Python's str() of a list of strings, behind a blank: " ['a', 'b']". */
enum kva_status kva_official_list_tail(struct kva_official_prompt *p,
                                       struct kva_error *err);
enum kva_status kva_official_no_memory(const struct kva_official *o,
                                       struct kva_error *err);
/* Sets task->name and stream_name: the task, or "task:key=value" for what differs. */
enum kva_status kva_official_name(struct kva_task *task, const char *param,
                                  struct kva_error *err);

#endif
