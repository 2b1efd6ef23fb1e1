/* SPDX-License-Identifier: GPL-3.0-or-later */
/* db_internal.h - what the files of db/ share: the handle, statements, typed parameters.
 */
#ifndef KVA_DB_INTERNAL_H
#define KVA_DB_INTERNAL_H

#include "db/db.h"

#include <jansson.h>
#include <sqlite3.h>

/* Why a text was not read: Jansson leaves no message when its allocations fail. */
bool kva_json_no_memory(const json_error_t *why);

/* Statements prepared on first use and kept until the file is closed: name, SQL. */
#define KVA_DB_STMT_MAP(X)                                                               \
    X(FIND_ENV, "SELECT env_id FROM env WHERE digest=?")                                 \
    X(FIND_MODEL, "SELECT model_id FROM model WHERE digest=?")                           \
    X(FIND_METHOD, "SELECT method_id FROM method WHERE digest=?")                        \
    X(FIND_TASK, "SELECT task_id, metric, metric_version FROM task WHERE digest=?")      \
    X(FIND_SAMPLE, "SELECT sample_id FROM sample WHERE digest=?")                        \
    X(FIND_CELL, "SELECT cell_id FROM cell WHERE digest=?")                              \
    X(FIND_RUN, "SELECT run_id FROM run WHERE uuid=?")                                   \
    X(ADD_ENV,                                                                           \
      "INSERT INTO env(digest,perf_digest,backend,host,cpu_model,cpu_logical,"           \
      "ram_bytes,compiler,cflags,git_commit,git_dirty,detail_json,gpu_name,"             \
      "gpu_count,gpu_bytes,driver,cuda_runtime) "                                        \
      "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT(digest) DO NOTHING")        \
    X(ADD_MODEL, "INSERT INTO model(digest,name,arch,wtype,file_bytes,n_layer,n_head,"   \
                 "n_kv_head,d_k,d_v,n_ctx_train,tokenizer_sha256,template_sha256,"       \
                 "detail_json) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?) "                     \
                 "ON CONFLICT(digest) DO NOTHING")                                       \
    X(ADD_METHOD, "INSERT INTO method(digest,name,impl_version,oracle,params_json) "     \
                  "VALUES(?,?,?,?,?) ON CONFLICT(digest) DO NOTHING")                    \
    X(ADD_TASK, "INSERT INTO task(digest,suite,name,domain,ctx_target,n_available,"      \
                "metric,metric_version,metric_kind,guess_floor,gen_json,source_json) "   \
                "VALUES(?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT(digest) DO NOTHING")        \
    X(ADD_SAMPLE, "INSERT INTO sample(digest,task_id,idx,cluster,refs_json,meta_json) "  \
                  "VALUES(?,?,?,?,?,?) ON CONFLICT(digest) DO NOTHING")                  \
    X(ADD_CELL, "INSERT INTO cell(digest,dense_key,slug,model_id,method_id,task_id,"     \
                "budget_kind,budget,schedule,enforce,visibility,numerics,kv,spec_json) " \
                "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT(digest) DO NOTHING")    \
    X(ADD_RUN, "INSERT INTO run(uuid,env_id,started_ms,status,shard_i,shard_n,pid,"      \
               "pid_start,boot_id,label,argv_json,config_json,config_sha256) "           \
               "VALUES(?,?,?,'running',?,?,?,?,?,?,?,?,?)")                              \
    X(RUNNING, "SELECT run_id, pid, pid_start, boot_id, host FROM run "                  \
               "JOIN env USING(env_id) WHERE status='running'")                          \
    X(HOST_OF_ENV, "SELECT host FROM env WHERE env_id=?")                                \
    X(NOTE_ENV, "UPDATE env SET detail_json=json_patch(detail_json,?) WHERE env_id="     \
                "(SELECT env_id FROM run WHERE run_id=?)")                               \
    X(END_RUN,                                                                           \
      "UPDATE run SET status=?, exit_code=?, ended_ms=max(started_ms,?) WHERE run_id=?") \
    X(PUT_PLAN, "INSERT INTO plan(run_id,cell_id,n_sample,n_rep) VALUES(?,?,?,?) "       \
                "ON CONFLICT(run_id,cell_id) DO UPDATE SET n_sample=excluded.n_sample, " \
                "n_rep=excluded.n_rep")                                                  \
    X(EVENT, "INSERT INTO event(run_id,ts_ms,level,msg) VALUES(?,?,?,?)")                \
    X(UNIT_TIME, "INSERT INTO unit_time(run_id,model_id,task_id,idx,n_cells,n_ctx,"      \
                 "n_rows,ns) VALUES(?,?,?,?,?,?,?,?)")                                   \
    X(OUTCOME, "INSERT INTO outcome(cell_id,sample_id,rep,run_id,status,score,n_ctx,"    \
               "n_question,n_gen,n_cut,kept_fnv,stop,gen_sha256,finished_ms,error,"      \
               "flags) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) "                         \
               "ON CONFLICT(cell_id,sample_id,rep) DO UPDATE SET "                       \
               "run_id=excluded.run_id, attempt=outcome.attempt+1, "                     \
               "status=excluded.status, score=excluded.score, n_ctx=excluded.n_ctx, "    \
               "n_question=excluded.n_question, n_gen=excluded.n_gen, "                  \
               "n_cut=excluded.n_cut, kept_fnv=excluded.kept_fnv, stop=excluded.stop, "  \
               "gen_sha256=excluded.gen_sha256, finished_ms=excluded.finished_ms, "      \
               "error=excluded.error, flags=excluded.flags "                             \
               "WHERE outcome.status NOT IN('ok','truncated','skipped') "                \
               "RETURNING outcome_id, attempt")                                          \
    X(OLD_OUTCOME, "SELECT outcome_id, status, gen_sha256 FROM outcome "                 \
                   "WHERE cell_id=? AND sample_id=? AND rep=?")                          \
    X(CLEAR_GENERATION, "DELETE FROM generation WHERE outcome_id=?")                     \
    X(CLEAR_SCORE, "DELETE FROM score WHERE outcome_id=?")                               \
    X(CLEAR_TIMING, "DELETE FROM timing WHERE outcome_id=?")                             \
    X(CLEAR_MEMORY, "DELETE FROM memory WHERE outcome_id=?")                             \
    X(CLEAR_KEPT, "DELETE FROM kept WHERE outcome_id=?")                                 \
    X(CLEAR_SPANS, "DELETE FROM span_kept WHERE outcome_id=?")                           \
    X(GENERATION, "INSERT INTO generation(outcome_id,text,token_ids) VALUES(?,?,?)")     \
    X(SCORE, "INSERT OR REPLACE INTO score(outcome_id,metric,version,value,extracted) "  \
             "VALUES(?,?,?,?,?)")                                                        \
    X(MEMORY, "INSERT INTO memory(outcome_id,exec,kv_dense_bytes,kv_budget_bytes,"       \
              "kv_live_bytes,kv_alloc_bytes,kv_meta_bytes,kv_peak_bytes,kv_end_bytes,"   \
              "kv_local_bytes,state_bytes,kv_committed_bytes,scratch_peak_bytes,"        \
              "weight_bytes,dev_delta_bytes,dev_peak_bytes,host_peak_bytes,"             \
              "entries_kept,entries_masked,audit) "                                      \
              "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) "                         \
              "ON CONFLICT(outcome_id,exec) DO NOTHING")                                 \
    X(TIMING, "INSERT INTO timing(outcome_id,exec,prefill_ns,score_ns,evict_ns,"         \
              "question_ns,ttft_ns,decode_ns,decode_p50_ns,decode_p99_ns,clock) "        \
              "VALUES(?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT(outcome_id,exec) DO NOTHING")   \
    X(SPAN, "INSERT INTO span_kept(outcome_id,span,n_tok,n_layer,n_kv_head,kept) "       \
            "VALUES(?,?,?,?,?,?)")                                                       \
    X(KEPT, "INSERT INTO kept(outcome_id,layer,n_head,n_tok,bits) VALUES(?,?,?,?,?)")    \
    X(RESCORE, "UPDATE outcome SET score=? WHERE outcome_id=? AND status='ok'")          \
    X(TASK_METRIC, "UPDATE task SET metric=?, metric_version=?, metric_kind=? "          \
                   "WHERE task_id=?")                                                    \
    X(TEXT_OF, "SELECT text FROM generation WHERE outcome_id=?")                         \
    X(BITS_OF, "SELECT n_head, n_tok, bits FROM kept WHERE outcome_id=? AND layer=?")    \
    X(BEGIN, "BEGIN IMMEDIATE")                                                          \
    X(BEGIN_READ, "BEGIN")                                                               \
    X(COMMIT, "COMMIT")                                                                  \
    X(ROLLBACK, "ROLLBACK")                                                              \
    X(SAVE, "SAVEPOINT kva")                                                             \
    X(RELEASE, "RELEASE kva")                                                            \
    X(UNDO, "ROLLBACK TO kva")

enum kva_db_stmt {
#define KVA_X(name, sql) KVA_DB_##name,
    KVA_DB_STMT_MAP(KVA_X)
#undef KVA_X
        KVA_DB_N_STMT
};

struct kva_db {
    sqlite3 *handle;
    char *path;
    bool writable;
    bool made;     /* the file was not there before */
    bool batch;    /* inside kva_db_begin */
    int version;   /* of the schema when the file was opened; 0: it was empty */
    bool migrated; /* the handle is a private copy of an older file */
    sqlite3_stmt *stmt[KVA_DB_N_STMT];
    uint64_t since, commit_ns; /* of the open transaction; of all that were committed */
    int64_t n_commit;
    sqlite3_stmt *row; /* the last statement of kva_db_put_row and its text */
    char *row_sql;
};

/* Maps SQLite's result to a status: a full or failing disk is KVA_EIO, memory KVA_ENOMEM,
 * a violated UNIQUE constraint KVA_ECONFLICT, everything else KVA_EDB. */
enum kva_status kva_db_fail(struct kva_db *db, int sqlite_rc, const char *what,
                            struct kva_error *err);
int kva_db_bind_values(sqlite3_stmt *st, const struct kva_db_value *v,
                       int n); /* SQLite's rc */
/* A clean statement with its parameters bound; `st` is valid until the next use of
 * `which`. */
enum kva_status kva_db_bind(struct kva_db *db, enum kva_db_stmt which,
                            const struct kva_db_value *v, int n, sqlite3_stmt **st,
                            struct kva_error *err);
/* Runs a statement; a first result row's leading integers go to a and b (may be NULL) and
 * *found. */
enum kva_status kva_db_run(struct kva_db *db, enum kva_db_stmt which,
                           const struct kva_db_value *v, int n, bool *found, int64_t *a,
                           struct kva_error *err);
/* Opens a transaction, or a savepoint when the caller has one; ends it by status. */
enum kva_status kva_db_enter(struct kva_db *db, struct kva_error *err);
enum kva_status kva_db_leave(struct kva_db *db, enum kva_status rc,
                             struct kva_error *err);
/* Statements without parameters or rows. */
enum kva_status kva_db_exec(struct kva_db *db, const char *sql, struct kva_error *err);
extern const char kva_db_views_text[]; /* views.sql */

/* file:PATH and a query such as "?mode=ro", with the path's reserved characters escaped,
 * appended to an initialised buffer. */
enum kva_status kva_db_uri(const char *path, const char *query, struct kva_buf *out,
                           struct kva_error *err);
/* How a file is opened to read it. SQLite reads one that has a log only where it can put
 * an index of the log beside it; where the directory cannot be written and no log lies
 * there (nor a journal, of a writer that was killed) the file is taken as it is: who
 * wrote it has closed it. */
const char *kva_db_read_query(const char *path);

/* ---- migrate.c: `version` is the file's, lower than KVA_DB_SCHEMA ---- */
/* Keeps a copy beside the file, then changes it. The caller holds <path>.lock. */
enum kva_status kva_db_migrate(struct kva_db *db, int version, struct kva_error *err);
/* Puts a private copy of the present schema in the place of the open file. */
enum kva_status kva_db_migrate_copy(struct kva_db *db, int version,
                                    struct kva_error *err);
/* Copies everything a handle shows into `schema` of another connection. */
enum kva_status kva_db_copy(struct kva_db *db, sqlite3 *to, const char *schema,
                            struct kva_error *err);

/* statfs, replaced by tests of file systems that are not there. */
struct statfs;
extern int (*kva_db_statfs)(const char *path, struct statfs *out);
/* Name of a network file system of struct statfs.f_type on which WAL does not work, or
 * NULL. */
const char *kva_db_network_fs(long f_type);

/* kva_db_run with the parameters written in place. */
#define KVA_DB_RUN(db, which, found, a, err, ...)                                        \
    kva_db_run((db), (which), (const struct kva_db_value[]){__VA_ARGS__},                \
               (int)(sizeof((const struct kva_db_value[]){__VA_ARGS__}) /                \
                     sizeof(struct kva_db_value)),                                       \
               (found), (a), (err))

#endif
