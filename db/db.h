/* SPDX-License-Identifier: GPL-3.0-or-later */
/* db.h - results in one SQLite file: identity by digest, outcomes that can only improve.
 *
 * One process writes (the runner's parent). Rows are found by a 32-byte SHA-256 of
 * canonical JSON, so files of several machines agree (reports.md 3.2). Everything that
 * can change a generated token is in the cell's digest; metrics and the environment are
 * not (ruling R24). All strings UTF-8. Errors: KVA_EDB with SQLite's words and the
 * statement's purpose; a foreign file (application_id) and a newer schema are refused
 * without touching the file. */
#ifndef KVA_DB_H
#define KVA_DB_H

#include "kva.h"

#define KVA_DB_SCHEMA 2
#define KVA_DB_APP_ID 1263944020 /* "KVAT" */

struct kva_db;
/* A file of an older schema: writing keeps a copy (PATH.v1.bak) and brings it up to date;
 * reading leaves it alone and shows a private copy that was brought up to date. */
enum kva_db_mode {
    KVA_DB_READ,        /* mode=ro: never writes next to the file but SQLite's -shm */
    KVA_DB_WRITE,       /* creates the file when missing */
    KVA_DB_READ_COPY,   /* a private copy: SQLite drops the CHECK constraints of files
                           that it opens read-only, and cannot examine them there */
    KVA_DB_WRITE_DELETE /* rollback journal: the one process on a network file system */
};
/* Write mode: creation under flock(<path>.lock), WAL, synchronous FULL, foreign keys,
 * busy timeout 10 s; refuses network file systems by statfs. */
enum kva_status kva_db_open(const char *path, enum kva_db_mode mode, struct kva_db **db,
                            struct kva_error *err);
void kva_db_close(struct kva_db *db);
/* Closes. A file that this handle made, that holds no run and that nobody else has open
 * goes, with what lies beside it: nothing is left of a command that could not begin. */
void kva_db_drop_unused(struct kva_db *db);
const char *kva_db_path(const struct kva_db *db);
/* The schema version the file had when it was opened; 0: it was new. */
int kva_db_file_version(const struct kva_db *db);
/* integrity_check and foreign_key_check; KVA_EDAMAGED. */
enum kva_status kva_db_check(struct kva_db *db, struct kva_error *err);
/* WAL checkpoint (truncate), at the end of a run. */
enum kva_status kva_db_checkpoint(struct kva_db *db, struct kva_error *err);
/* Many puts in one commit (a plan of thousands of cells and samples). Every put outside a
 * batch commits by itself. Batches do not nest; rollback without a batch does nothing. */
enum kva_status kva_db_begin(struct kva_db *db, struct kva_error *err);
enum kva_status kva_db_commit(struct kva_db *db, struct kva_error *err);
void kva_db_rollback(struct kva_db *db);
/* The connection, borrowed, for reading views and an_* tables. */
struct sqlite3;
struct sqlite3 *kva_db_handle(struct kva_db *db);

/* ---- canonical JSON (3.2) ---- */
/* json: any JSON text; out: an initialised buffer, the canonical form is appended.
 * KVA_EFORMAT on duplicate keys, NaN, bad syntax. */
enum kva_status kva_json_canonical(const char *json, struct kva_buf *out,
                                   struct kva_error *err);
enum kva_status kva_json_digest(const char *json, uint8_t digest[32],
                                struct kva_error *err);

/* ---- identity rows: found by digest or inserted; *id is local to the file ---- */
struct kva_db_env {
    uint8_t digest[32], perf_digest[32];
    const char *backend, *host, *cpu_model, *compiler, *cflags, *git_commit, *detail_json;
    int cpu_logical, git_dirty;
    int64_t ram_bytes;
    /* NULL, 0: no GPU; then nothing of them is known */
    const char *gpu_name, *driver, *cuda_runtime;
    int gpu_count;
    int64_t gpu_bytes; /* of one of them */
};
struct kva_db_model {
    uint8_t digest[32], tokenizer_sha256[32], template_sha256[32];
    const char *name, *arch, *wtype, *detail_json;
    int64_t file_bytes;
    int n_layer, n_head, n_kv_head, d_k, d_v, n_ctx_train;
};
struct kva_db_method {
    uint8_t digest[32];
    const char *name; /* the canonical spec */
    int impl_version;
    int oracle; /* uses information not available at inference */
    const char *params_json;
};
struct kva_db_task {
    uint8_t digest[32];
    const char *suite, *name, *domain, *metric, *gen_json, *source_json;
    int ctx_target;      /* 0: none */
    int64_t n_available; /* -1: unlimited */
    int metric_version, binary;
    double guess_floor;
};
struct kva_db_sample {
    uint8_t digest[32];
    int64_t task_id;
    int idx;
    const char *cluster;   /* hex of the context digest */
    const char *refs_json; /* answers */
    const char *meta_json; /* spans with bytes and tokens, gold ids, depth, fill, prompt
                              lengths */
};
struct kva_db_cell {
    uint8_t digest[32], dense_key[32];
    const char *slug;
    int64_t model_id, method_id, task_id;
    const char *budget_kind; /* dense|keep|tokens|bytes */
    double budget;           /* keep: fraction; tokens; bytes; dense: 1 */
    const char *schedule, *enforce, *visibility, *numerics, *kv;
    const char *spec_json;
};
struct kva_db_run {
    const char *uuid, *label, *argv_json, *config_json;
    int64_t env_id, started_ms;
    uint8_t config_sha256[32];
    int shard_i, shard_n;
};
enum kva_status kva_db_put_env(struct kva_db *, const struct kva_db_env *, int64_t *id,
                               struct kva_error *);
enum kva_status kva_db_put_model(struct kva_db *, const struct kva_db_model *,
                                 int64_t *id, struct kva_error *);
enum kva_status kva_db_put_method(struct kva_db *, const struct kva_db_method *,
                                  int64_t *id, struct kva_error *);
/* KVA_ECONFLICT when the file's scores of this task are of another metric or version:
 * rescore first. */
enum kva_status kva_db_put_task(struct kva_db *, const struct kva_db_task *, int64_t *id,
                                struct kva_error *);
/* A sample with the same (task, idx) but another digest is KVA_ECONFLICT. */
enum kva_status kva_db_put_sample(struct kva_db *, const struct kva_db_sample *,
                                  int64_t *id, struct kva_error *);
enum kva_status kva_db_put_cell(struct kva_db *, const struct kva_db_cell *, int64_t *id,
                                struct kva_error *);
/* Runs of this boot whose process is gone become 'killed' first (3.7 rule 3). */
enum kva_status kva_db_start_run(struct kva_db *, const struct kva_db_run *, int64_t *id,
                                 struct kva_error *);
/* How many runs beside this one have not ended, those of dead processes not counted, and
 * the process of one of them. */
enum kva_status kva_db_running(struct kva_db *, int64_t run_id, int *n, int64_t *pid,
                               struct kva_error *);
/* Merges an object (RFC 7396) into the details of the run's environment: what is known
 * only when it ends. Its digests stay. */
enum kva_status kva_db_note_env(struct kva_db *db, int64_t run_id, const char *json,
                                struct kva_error *err);
enum kva_status kva_db_end_run(struct kva_db *, int64_t run_id, const char *status,
                               int exit_code, struct kva_error *);
enum kva_status kva_db_put_plan(struct kva_db *, int64_t run_id, int64_t cell_id,
                                int n_sample, int n_rep, struct kva_error *);
enum kva_status kva_db_event(struct kva_db *, int64_t run_id, const char *level,
                             const char *msg, struct kva_error *);

/* ---- outcomes ---- */
/* outcome.flags: what happened on the way to an outcome that its cell does not say. */
enum { KVA_DB_FELL_BACK = 1 /* an allocator could not do what its rule asks for */ };
enum kva_db_exec { KVA_EXEC_SHARED, KVA_EXEC_ALONE };
struct kva_db_memory {
    enum kva_db_exec exec;
    int64_t kv_dense_bytes, kv_budget_bytes, kv_live_bytes, kv_alloc_bytes, kv_meta_bytes;
    int64_t kv_peak_bytes, kv_end_bytes, kv_local_bytes, state_bytes, kv_committed_bytes;
    int64_t scratch_peak_bytes, weight_bytes, dev_delta_bytes, dev_peak_bytes,
        host_peak_bytes; /* -1: not known */
    int64_t entries_kept, entries_masked;
    int audit; /* bits of reports.md 5.2 (kva_db_audit_text); -1: UNVERIFIED */
};
/* "bit 2: ..., bit 16: ..." of the bits that are set, what each says. */
void kva_db_audit_text(int audit, char *out, size_t n);
struct kva_db_timing {
    enum kva_db_exec exec;
    int64_t prefill_ns, score_ns, evict_ns, question_ns, ttft_ns, decode_ns,
        decode_p50_ns, decode_p99_ns; /* -1: not measured */
    const char *clock;                /* "monotonic" */
};
struct kva_db_score {
    const char *metric; /* "match_all", "gold_nll" */
    int version;
    double value;          /* gold_nll: nats per token */
    const char *extracted; /* NULL: none */
};
struct kva_db_span_kept {
    const char *span; /* "E0" */
    int n_tok, layers, kv_heads;
    const uint16_t *kept; /* [layers][kv_heads] tokens of the span still held */
};
struct kva_db_outcome {
    bool alone_only; /* only adds its ALONE rows to a stored ok outcome; stores nothing
                        else */
    int64_t cell_id, sample_id, run_id;
    int rep;
    const char *status; /* ok|oom|timeout|error|nonfinite|truncated|skipped */
    double score;       /* only with ok; the task's metric */
    int n_ctx, n_question, n_gen,
        n_cut; /* n_cut: tokens before the last prefill decision */
    uint64_t kept_fnv;
    int flags;          /* KVA_DB_FELL_BACK, ...; of failed outcomes too */
    const char *stop;   /* eos|length|stop|repeat, NULL when failed */
    const char *error;  /* NULL when ok */
    const char *text;   /* the generation; NULL when failed */
    const int32_t *ids; /* n_gen */
    const struct kva_db_score *scores;
    int n_scores;
    const struct kva_db_memory *memory; /* any count of exec rows */
    int n_memory;
    const struct kva_db_timing *timing;
    int n_timing;
    const struct kva_db_span_kept *spans;
    int n_spans;
    /* traced bitmaps, one per layer, or NULL: n_head * ((n_tok+7)/8) bytes each */
    const uint8_t *const *kept_bits;
    int kept_layers, kept_heads, kept_tok;
};
/* One transaction for all of them (outcomes of one wave that finish in the same step).
 * Terminal rows already there win; *stored counts what was written. Memory/timing rows of
 * exec ALONE are added to an existing ok outcome (perf cells). */
enum kva_status kva_db_put_outcomes(struct kva_db *, const struct kva_db_outcome *o,
                                    int n, int *stored, struct kva_error *);
/* Wall time of one unit, for the ETA and the dry run's estimate. */
enum kva_status kva_db_put_unit_time(struct kva_db *, int64_t run_id, int64_t model_id,
                                     int64_t task_id, int idx, int n_cells, int n_ctx,
                                     int n_rows, int64_t ns, struct kva_error *);

/* New scores of a task's stored generations, in one transaction: the score rows gain
 * (metric, version), outcome.score and the task's metric follow. Generations stay. */
struct kva_db_rescored {
    int64_t outcome_id;
    double value;          /* 0..1 */
    const char *extracted; /* NULL: none */
};
enum kva_status kva_db_rescore(struct kva_db *, int64_t task_id, const char *metric,
                               int version, bool binary, const struct kva_db_rescored *r,
                               int n, struct kva_error *err);

/* The same for a metric beside the task's own: score rows alone. */
enum kva_status kva_db_put_scores(struct kva_db *, const char *metric, int version,
                                  const struct kva_db_rescored *r, int n,
                                  struct kva_error *err);

/* ---- merging (3.8) ---- */
enum kva_db_on_conflict {
    KVA_DB_CONFLICT_ERROR, /* nothing of this input is stored but merge_conflict rows */
    KVA_DB_CONFLICT_KEEP,  /* what is stored stays */
    KVA_DB_CONFLICT_AS_REP /* the other outcome gets the next free rep; draws of a sampled
                              cell are kept as with KEEP */
};
/* n = n_new + n_better + n_known + n_conflict */
struct kva_db_merged {
    int64_t n, n_new, n_better, /* replaced a failed outcome */
        n_known, n_conflict;
};
/* Adds everything a result file holds, in one transaction; the file is only read (an
 * older one through a copy). Merging it again changes nothing, and apart from conflicts
 * the order of several files changes no report. KVA_ECONFLICT: differing outcomes under
 * CONFLICT_ERROR (m tells how many), another text of a sample, another metric of a task.
 * KVA_EINVALID: the file is the database itself. */
enum kva_status kva_db_merge(struct kva_db *, const char *path,
                             enum kva_db_on_conflict how, struct kva_db_merged *m,
                             struct kva_error *err);

/* ---- instruments ---- */
struct kva_db_value {
    enum { KVA_DB_NULL, KVA_DB_INT, KVA_DB_REAL, KVA_DB_TEXT, KVA_DB_BLOB } type;
    int64_t i;
    double r;
    const void *p;
    size_t n;
};
static inline struct kva_db_value kva_db_int(int64_t i)
{
    return (struct kva_db_value){.type = KVA_DB_INT, .i = i};
}
static inline struct kva_db_value kva_db_real(double r) /* NaN: NULL */
{
    return (struct kva_db_value){.type = r != r ? KVA_DB_NULL : KVA_DB_REAL, .r = r};
}
static inline struct kva_db_value kva_db_text(const char *s) /* NULL: NULL */
{
    return (struct kva_db_value){.type = s ? KVA_DB_TEXT : KVA_DB_NULL, .p = s};
}
static inline struct kva_db_value kva_db_blob(const void *p, size_t n) /* NULL: NULL */
{
    return (struct kva_db_value){.type = p ? KVA_DB_BLOB : KVA_DB_NULL, .p = p, .n = n};
}
/* Inserts or replaces one row of an an_* table or perf_rep; columns: "run_id,layer,...",
 * one value each. Put the rows of one sample into one batch. *id (may be NULL): rowid of
 * an_profile. */
enum kva_status kva_db_put_row(struct kva_db *, const char *table, const char *columns,
                               const struct kva_db_value *v, int n, int64_t *id,
                               struct kva_error *err);

/* What took how long on machines of this perf_digest, for estimates. alone: cells that
 * ran alone, n_ctx of prompt and n_gen tokens; else whole units, n_gen the rows behind
 * the context. Units without a known context length are left out. *rows is the caller's
 * to free, NULL when there are none. */
struct kva_db_time {
    double n_ctx, n_gen, ns;
};
enum kva_status kva_db_times(struct kva_db *, const uint8_t model[32],
                             const uint8_t perf_digest[32], bool alone,
                             struct kva_db_time **rows, size_t *n, struct kva_error *);
/* Samples of (model, task) measured both from a full cache and a compressed one, and how
 * many of them have another score. */
enum kva_status kva_db_discordant(struct kva_db *, const uint8_t model[32],
                                  const uint8_t task[32], int64_t *pairs, int64_t *differ,
                                  struct kva_error *);
/* Size of the file over its outcomes; -1 with fewer than 100 of them. */
enum kva_status kva_db_bytes_per_outcome(struct kva_db *, double *bytes,
                                         struct kva_error *);
/* Timed repetitions of a cell in the run that has most of them. */
enum kva_status kva_db_perf_reps(struct kva_db *, const uint8_t cell[32], int *n,
                                 struct kva_error *);
/* What unit_time says about speed, for estimates: mean ns per cell of a unit of (model,
 * task); task NULL: mean ns per cell and n_ctx (1 + n_ctx/32768) over all tasks of the
 * model. -1: no history. */
enum kva_status kva_db_unit_rate(struct kva_db *, const uint8_t model[32],
                                 const uint8_t *task, double *ns, struct kva_error *);

/* What is there for a cell and sample: 0 nothing, 1 terminal (ok, truncated, skipped), 2
 * failed (retry while attempts < max). has_perf: an ALONE timing row exists, or
 * there is nothing to time (truncated, skipped). Digests,
 * because ids may not exist yet. */
struct kva_db_state {
    int state, attempts;
    bool has_perf;
    bool ok; /* status ok */
    bool truncated;
    bool audit_bad; /* a memory row under enforce physical failed its audit */
};
/* Loads all states of a database into a map for planning: key = cell digest (32) + sample
 * task digest (32) + idx (int32 LE) + rep (int32 LE). */
struct kva_db_states;
enum kva_status kva_db_load_states(struct kva_db *, struct kva_db_states **out,
                                   struct kva_error *);
void kva_db_states_free(struct kva_db_states *);
struct kva_db_state kva_db_state_of(const struct kva_db_states *, const uint8_t cell[32],
                                    const uint8_t task[32], int idx, int rep);

/* ---- reading (reports) ---- */
/* Everything reports need, joined and sorted by digest-independent keys (labels), strings
 * owned by the data. Several databases may be loaded into one; the same outcome in two
 * files counts once, a conflicting one is KVA_ECONFLICT. */
struct kva_data_model {
    char *name, *arch, *wtype;
    uint8_t digest[32];
    int n_layer, n_kv_head, d_k, d_v;
    int64_t file_bytes;
};
struct kva_data_task {
    char *suite, *name, *domain, *metric, *gen_json;
    uint8_t digest[32];
    int ctx;
    bool binary;
    double guess_floor;
};
struct kva_data_sample {
    uint8_t digest[32];
    int task, idx;
    char *cluster, *meta_json, *refs_json;
    double depth; /* -1 */
    int turn;     /* number of the question on its context, from 0 */
};
struct kva_data_cell {
    uint8_t digest[32], dense_key[32];
    char *slug, *method, *budget_kind, *schedule, *enforce, *visibility, *numerics, *kv,
        *spec_json;
    char *sampling;  /* how answers are drawn, "t0.6-p0.95"; NULL: greedy */
    int model, task; /* indexes */
    bool oracle;
    double budget;
    int n_expected;
};
/* As patterns name it. */
static inline const char *kva_data_sampling(const struct kva_data_cell *c)
{
    return c->sampling ? c->sampling : "greedy";
}
struct kva_data_outcome {
    int cell, sample, rep;
    int run; /* index of the run that measured it */
    int64_t outcome_id;
    int db;
    char *status, *stop, *error;
    double score;    /* NaN unless ok */
    double gold_nll; /* NaN when not measured */
    int n_ctx, n_question, n_gen, n_cut, flags;
    uint64_t kept_fnv;
    bool has_memory, has_alone,
        has_timing;              /* timing rows are read from exec ALONE only */
    struct kva_db_memory memory; /* exec SHARED, or ALONE when only that exists */
    struct kva_db_memory alone;
    struct kva_db_timing timing;
    /* Survival of labelled spans (tasks-ruler.md 8.6): tokens held over tokens, mean over
     * layers and KV heads, then over the queried evidence (E), its payload values (P),
     * the distractors matched to it (D), the worked example (X). NaN: none. */
    double span_e, span_payload, span_d, span_x;
    char *extracted;  /* what the task's metric read out of a sampled answer; else NULL */
    uint64_t gen_key; /* starts the SHA-256 of the answer's token ids; 0: no answer */
    signed char wrong_needle; /* of a failure: 1 another needle's value, 0 an invented
                                 one; -1: not known */
    bool is_protected;        /* all evidence lies where the method never evicts */
    double stage1; /* share of KV heads whose first stage holds more than half of the
                      scores; NaN: no such wrapper */
};
enum kva_span_kind { KVA_SPAN_E, KVA_SPAN_P, KVA_SPAN_D, KVA_SPAN_X, KVA_SPAN_KINDS };
/* Counted per head besides: all entries, of outcomes whose kept bitmaps were traced. */
enum { KVA_HEAD_ALL = KVA_SPAN_KINDS, KVA_HEAD_KINDS };
/* Survival per (layer, KV head) of one cell: sum over its n[kind] outcomes that have such
 * spans. In units of 2^-32, so that the sum is the same in any order. */
struct kva_data_heads {
    int cell, n_layer, n_kv_head;
    int n[KVA_HEAD_KINDS];
    uint64_t *sum; /* [kind][layer][head] */
};
/* Another metric of a cell's outcomes beside the task's own (word_match, ...): its mean
 * and the mean of the task's metric over the same n outcomes. */
struct kva_data_second {
    int cell;
    char *metric;
    int n;
    double mean, own;
};
/* A row of the newest audit of a cell (an_claim): a verdict on K1..K8, or a number beside
 * them ("bytes.held", ...) whose verdict is "-". NaN: no number. */
struct kva_data_claim {
    int cell;
    char *method, *impl, *claim, *verdict, *reason, *note; /* reason, note: may be NULL */
    double value, threshold, lo, hi;
};
struct kva_data_run {
    char *uuid, *status, *label, *config_json, *git_commit, *cpu_model, *cflags,
        *compiler;
    char *argv_json; /* the command that ran it, a JSON list of strings */
    int64_t started_ms, ended_ms;
    char *backend;                          /* "cpu", "cuda" */
    char *gpu_name, *driver, *cuda_runtime; /* NULL: none */
    int64_t gpu_bytes;                      /* 0: none */
    char *env_json; /* of the machine: "isa", "threads" and what else counts */
    int64_t ram_bytes;
    int cpu_logical, git_dirty, shard_i, shard_n;
    uint8_t config_sha256[32];
    uint8_t perf_digest[32]; /* of what may change speed: times compare only when equal */
};
/* One timed repetition (perf_rep). phase: "ttft", "decode" (ns for `work` tokens),
 * "evict" (scores and eviction), "total" (prompt to last token); of the yardsticks
 * "calib_gemm" and "calib_copy". ord: place in the sitting, over both arms. */
struct kva_data_perf {
    int cell, run, rep, ord;
    char *phase;
    int64_t ns, work;
};
struct kva_data {
    struct kva_data_model *models;
    int n_models;
    struct kva_data_task *tasks;
    int n_tasks;
    struct kva_data_sample *samples;
    int n_samples;
    struct kva_data_cell *cells;
    int n_cells;
    struct kva_data_outcome *outcomes;
    int n_outcomes; /* sorted by cell, sample */
    struct kva_data_heads *heads;
    int n_heads; /* sorted by cell; cells without span rows have none */
    struct kva_data_second *seconds;
    int n_seconds; /* sorted by cell, metric */
    struct kva_data_claim *claims;
    int n_claims; /* sorted by cell, impl, claim */
    struct kva_data_run *runs;
    int n_runs;
    struct kva_data_perf *perfs;
    int n_perfs; /* sorted by cell, phase, run, rep */
    struct kva_arena arena;
};
enum kva_status kva_data_load(struct kva_db *const *dbs, int n, struct kva_data *out,
                              struct kva_error *err);
void kva_data_release(struct kva_data *d);
/* Generated text of an outcome (from its own database), appended to an initialised
 * buffer; KVA_EMISSING when there is none. */
enum kva_status kva_db_generation(struct kva_db *, int64_t outcome_id,
                                  struct kva_buf *text, struct kva_error *);
/* Traced bitmap of one layer, appended to bits; false when not traced. */
bool kva_db_kept_bits(struct kva_db *, int64_t outcome_id, int layer, int *heads,
                      int *n_tok, struct kva_buf *bits);

#endif
