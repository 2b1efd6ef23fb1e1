/* SPDX-License-Identifier: GPL-3.0-or-later */
/* plan.h - from a suite file to cells, units of work and what is left to do.
 *
 * suite.c reads the JSON (reports.md 8.1 in the form of ruling R22) and reports every
 * error of the file with line, column and JSON pointer. plan.c opens models and tasks,
 * expands cells, computes digests and groups the work into units: one (model, context)
 * with one or more questions and all cells that want it. Everything is owned by the plan.
 */
#ifndef KVA_PLAN_H
#define KVA_PLAN_H

#include "db/db.h"
#include "methods/method.h"
#include "models/model.h"
#include "runner/fetch.h"
#include "runner/sampling.h"
#include "runner/shard.h"
#include "tasks/task.h"

/* Only DENSE and PHYSICAL rank (R10).
 *   MASK                   nothing is freed, evicted entries are skipped
 *   FAKEKEY                nothing is freed, the keys of evicted entries are overwritten
 *                          (kernels.md 7). The published fake key is -1e5 Y / |Y|^2 with
 *                          q.Y > 0 for the queries asked. Where logits have no soft-cap
 *                          and the Y found puts that logit 104 or more below the largest,
 *                          its weight underflows to exactly 0 in f32: the same sums as
 *                          MASK. So the store masks, under this name, and holds the
 *                          mask's bytes; the search for Y, which can fail or fall short,
 *                          is not emulated. Under a soft-cap c the logit is -c and the
 *                          value leaks (kva_fakekey_leak): refused.
 *   PADDED, UNION, QHEAD   physical, in the layout of published caches */
enum kva_enforce {
    KVA_DENSE,
    KVA_PHYSICAL,
    KVA_MASK,
    KVA_FAKEKEY,
    KVA_PADDED,
    KVA_UNION,
    KVA_QHEAD
};
enum kva_visibility { KVA_AGNOSTIC, KVA_AWARE, KVA_FULL };
const char *kva_enforce_name(enum kva_enforce e);
bool kva_enforce_find(const char *name, enum kva_enforce *e); /* false: not built */
/* The store holds every entry and hides what is evicted: MASK, FAKEKEY. */
bool kva_enforce_hides(enum kva_enforce e);
/* KVA_EUNSUPPORTED when a model cannot be held so; softcap: of its attention logits, 0:
 * none (kva_model_attn_softcap). */
enum kva_status kva_enforce_check(enum kva_enforce e, float softcap,
                                  struct kva_error *err);
const char *kva_visibility_name(enum kva_visibility v);

/* Timed repetitions a cell may ask for: the rank test needs six an arm (reports.md 7.3).
 */
#define KVA_PERF_REPS_LEAST 6

/* ---- suite: what the file says, nothing opened yet ---- */

struct kva_suite_model {
    char *id; /* as written: "builtin:retrieval", a name of configs/models.json, or a path
               */
    char *path; /* what kva_model_open takes, when it can be found; else NULL */
    char *chat; /* family or NULL */
    char *
        why_missing; /* message naming where it was looked for and `kvaudit fetch NAME` */
    bool by_name;    /* of configs/models.json, which says where its file comes from */
    struct kva_fetch_item *source; /* or the suite does */
};
struct kva_suite_task {
    char *id; /* "ruler/niah_single_1@512" */
    struct kva_task_opts opts;
};
/* One cell before digests; indexes into the suite's lists. */
struct kva_suite_cell {
    int model, task;
    char *method_id;   /* label: the id given in the file, else the spec */
    char *method_text; /* as written */
    struct kva_budget budget;
    char *schedule;
    enum kva_enforce enforce;
    enum kva_visibility visibility;
    char *numerics, *kv;
    struct kva_sampling sampling;
    int n, reps, perf, perf_reps, max_attempts;
    uint64_t seed;
    int arm; /* of an audit, enum kva_arm_kind; 0: as the file says */
};
struct kva_suite {
    char *dir; /* what relative paths of the file stand on */
    char *path, *name,
        *text;  /* text: the resolved suite as canonical JSON, --set applied */
    char *note; /* "label" of the file, e.g. "short" */
    struct kva_suite_model *models;
    int n_models;
    struct kva_suite_task *tasks;
    int n_tasks;
    struct kva_suite_cell *cells;
    int n_cells;
    int duplicates_dropped;
    int *excluded;
    int n_excluded;         /* cells removed by each `exclude` object */
    int limit;              /* --limit, 0: none */
    struct kva_shard shard; /* the part to plan; set it before kva_plan_new */
    const char *backend;    /* of every model, as kva_ops_open; NULL: cpu; likewise */
    struct kva_arena arena;
};
struct kva_suite_opts {
    const char *const *set;
    int n_set; /* "defaults.n=10", "methods=keydiff" */
    const char *const *only;
    int n_only;                       /* "model=smol*,method=snap*" */
    int limit;                        /* 0: none */
    const struct kva_task_data *data; /* over the file's "data"; absolute paths */
    int n_data;
};
/* All errors of the file are written to `report` (one line each, FILE:LINE:COL: POINTER:
 * message), then KVA_EINVALID. */
enum kva_status kva_suite_load(const char *path, const struct kva_suite_opts *opts,
                               struct kva_suite *s, struct kva_buf *report,
                               struct kva_error *err);
/* The same from text; `dir` resolves relative paths. */
enum kva_status kva_suite_parse(const char *text, const char *name, const char *dir,
                                const struct kva_suite_opts *opts, struct kva_suite *s,
                                struct kva_buf *report, struct kva_error *err);
void kva_suite_release(struct kva_suite *s);

/* Where models live: configs/models.json of the installation or the source tree, then the
 * cache. */
enum kva_status kva_models_resolve(const char *id, const char *dir, char **path,
                                   char **chat, struct kva_arena *arena,
                                   struct kva_error *err);

/* ---- plan ---- */

struct kva_cell {
    int model, task; /* indexes into the plan */
    char *method_id;
    struct kva_method method; /* dense and blind included */
    struct kva_budget budget;
    struct kva_schedule schedule;
    enum kva_enforce enforce;
    enum kva_visibility visibility;
    char *numerics; /* "f32", "ref"; on a device "f32", "bf16" */
    enum kva_type kv;
    struct kva_sampling sampling;
    int n, perf, perf_reps, max_attempts;
    int reps; /* of sampled answers: draws */
    uint64_t seed;
    int arm; /* of the suite's cell */
    uint8_t digest[32], dense_key[32], method_digest[32];
    char *slug, *spec_json, *params_json;
    int64_t planned; /* outcomes, of this shard */
    int64_t cell_id; /* set when the rows were written */
};
enum { KVA_NUMERICS = 3 };
struct kva_plan_model {
    struct kva_suite_model *suite;
    /* opened per numerics on demand; [0] f32, [1] ref, [2] bf16 */
    struct kva_model *open[KVA_NUMERICS];
    uint8_t digest[32];
    int64_t model_id;
};
/* Whichever of the numerics is open: for facts and tokens; NULL: none. */
struct kva_model *kva_plan_any_model(const struct kva_plan_model *m);
struct kva_plan_task {
    struct kva_suite_task *suite;
    struct kva_task *task;
    int model; /* lengths are fitted with this model's tokenizer */
    uint8_t digest[32];
    char *gen_json; /* with tokenizer, chat family and profile */
    double n_ctx;   /* tokens of its longest context; 2048 where it does not say */
    int *context;   /* [sample index] number of its context, ascending by first sample */
    bool *mine;     /* [sample index] belongs to this shard; NULL: all do */
    int64_t task_id;
};
/* Counting and mapping through a model's tokenizer and chat split. */
struct kva_tok_model {
    const struct kva_model *model;
    char id[80];
};
void kva_tok_api_model(struct kva_tok_model *tm, const struct kva_model *m,
                       struct kva_tok_api *api);

/* One job inside a unit: cell x question (x rep). perf: run it alone and time it;
 * repeat: then time it perf_reps times more (exec_perf.c). */
struct kva_job {
    int cell, question, rep;
    bool perf, repeat;
};
struct kva_unit {
    int model, task;
    int numerics; /* index into kva_plan_model.open */
    enum kva_type kv;
    int *idx; /* sample indexes: questions of one context */
    int n_idx;
    struct kva_job *jobs; /* what is left to do, shared ones first */
    int n_jobs;
    double cost; /* reports.md 9.2, for balance and ETA */
};
struct kva_plan {
    struct kva_suite *suite;
    struct kva_plan_model *models;
    int n_models;
    struct kva_plan_task *tasks;
    int n_tasks;
    struct kva_cell *cells;
    int n_cells;
    struct kva_unit *units;
    int n_units;            /* sample-major order; only units with jobs */
    int n_contexts, n_mine; /* (model, task, context) of the suite, and of this shard */
    int64_t n_planned, n_done, n_retriable, n_todo,
        n_perf_todo; /* outcomes (and perf runs) */
    struct kva_arena arena;
};
/* Opens models and tasks, expands, subtracts what `db` (may be NULL) already has. A
 * missing model file is KVA_EIO with the fetch hint. threads: inside one step. */
enum kva_status kva_plan_new(struct kva_suite *s, struct kva_db *db, int threads,
                             struct kva_plan *p, struct kva_error *err);
void kva_plan_release(struct kva_plan *p);
/* Inserts model, method, task and cell rows and the plan of a run. */
enum kva_status kva_plan_write(struct kva_plan *p, struct kva_db *db, int64_t run_id,
                               struct kva_error *err);
/* What a database holds of the plan, whichever run measured it. */
struct kva_plan_verdict {
    int64_t absent, failed, truncated; /* outcomes */
    int64_t retriable;                 /* absent, or failed with attempts left */
    int64_t audit_failed;              /* outcomes under physical */
};
enum kva_status kva_plan_verdict(const struct kva_plan *p, struct kva_db *db,
                                 struct kva_plan_verdict *v, struct kva_error *err);
/* Human dry run (cells, outcomes, estimates of forecast.h) or its JSON. */
enum kva_status kva_plan_print(const struct kva_plan *p, struct kva_db *db, int threads,
                               bool probe, bool json, struct kva_buf *out,
                               struct kva_error *err);

#endif
