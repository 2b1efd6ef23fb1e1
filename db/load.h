/* SPDX-License-Identifier: GPL-3.0-or-later */
/* load.h - what the files that read results share: load.c (order of the steps, sorting),
 * load_rows.c (identity rows), load_facts.c (outcomes and what hangs on them). */
#ifndef KVA_DB_LOAD_H
#define KVA_DB_LOAD_H

#include "db/db_internal.h"

/* While loading. Arrays grow by doubling and are copied into the arena when their size is
 * known. */
struct list {
    void *data;
    int n, cap;
};

struct outcome_row {
    struct kva_data_outcome o; /* cell, sample: positions in the joined lists */
    uint8_t gen_sha256[32];
    bool has_gen, has_shared;
    double span[KVA_SPAN_KINDS]; /* sums of survival */
    int n_span[KVA_SPAN_KINDS];
};

/* What a span of a sample counts as: an E that is asked for, its payload, its matched D,
 * the example; KVA_SPAN_KINDS: an E nobody asked for and what belongs to it. */
struct span_row {
    char id[16];
    int kind;
};
struct sample_row {
    struct kva_data_sample s;
    struct span_row *span; /* from meta_json; n_span 0: ids alone tell */
    int n_span;
};

struct second_row {
    struct kva_data_second s;
    uint64_t sum, own; /* units of 2^-32: the same in any order */
};

struct task_row {
    struct kva_data_task t;
    int metric_version;
};

enum { N_WORDS = 16 };

struct kva_loader {
    struct kva_data *d;
    struct kva_error *err;
    struct list models, tasks, samples, cells, outcomes, runs, heads, seconds, claims,
        perfs;
    struct kva_map model_of, task_of, sample_of, cell_of, outcome_of, run_of, heads_of,
        second_of; /* key -> position */
    struct kva_arena scratch;
    struct { /* spans of the outcome being read, per kind and (layer, head) */
        struct outcome_row *row;
        double *acc;
        int n[KVA_HEAD_KINDS], n_layer, n_kv_head, cap;
    } open;
    struct kva_map local[5]; /* this file's ids -> position, by L_* */
    int *row_of; /* per outcome of this file in id order: position in outcomes */
    int64_t *row_id;
    uint8_t *row_fate; /* what became of it */
    int n_row;
    char *words[N_WORDS]; /* statuses and stops */
    struct kva_db *db;
    int db_index;
};
enum { L_MODEL, L_TASK, L_SAMPLE, L_CELL, L_RUN, L_KINDS };
/* EQUAL: another file's copy is shown, measurements it lacks are still taken from this
 * one */
enum { LOST, TAKEN, EQUAL };

void *kva_load_add(struct list *l, size_t size); /* NULL: out of memory */
#define ADD(list, type)   ((type *)kva_load_add(&(list), sizeof(type)))
#define AT(list, type, i) (&((type *)(list).data)[i])

#define UNIT 4294967296.0 /* 2^32 */

/* One row of a query; a status other than KVA_OK ends the reading. */
typedef enum kva_status (*kva_load_fn)(struct kva_loader *ld, sqlite3_stmt *st);

enum kva_status kva_load_no_memory(struct kva_loader *ld);
/* A column's text in the arena; NULL stays NULL unless `need`. */
char *kva_load_text(struct kva_loader *ld, sqlite3_stmt *st, int col, bool need);
/* Few distinct words, many rows: one copy each. */
char *kva_load_word(struct kva_loader *ld, sqlite3_stmt *st, int col);
void kva_load_digest(sqlite3_stmt *st, int col, uint8_t out[32]);
int64_t kva_load_int(sqlite3_stmt *st, int col, int64_t none);
/* Position of a key among all files' rows; *is_new when it was not there. which >= 0: the
 * file's own id leads there too. */
enum kva_status kva_load_place(struct kva_loader *ld, struct kva_map *all, int which,
                               int64_t local_id, const void *key, size_t len, int n,
                               int *pos, bool *is_new);
int kva_load_local(struct kva_loader *ld, int which, int64_t id); /* -1: none */
/* "D5.2" belongs to the group "D5": parts of one span are one span. */
void kva_load_group(const char *id, char out[16]);
/* KVA_SPAN_*, or KVA_SPAN_KINDS for ids of another letter. */
int kva_load_letter(const char *id);

/* ---- rows, in the order of the reading ---- */
enum kva_status kva_load_model(struct kva_loader *ld, sqlite3_stmt *st);
enum kva_status kva_load_task(struct kva_loader *ld, sqlite3_stmt *st);
enum kva_status kva_load_sample(struct kva_loader *ld, sqlite3_stmt *st);
enum kva_status kva_load_cell(struct kva_loader *ld, sqlite3_stmt *st);
enum kva_status kva_load_run(struct kva_loader *ld, sqlite3_stmt *st);
enum kva_status kva_load_count(struct kva_loader *ld, sqlite3_stmt *st);
enum kva_status kva_load_outcome(struct kva_loader *ld, sqlite3_stmt *st);
enum kva_status kva_load_gold(struct kva_loader *ld, sqlite3_stmt *st);
enum kva_status kva_load_extracted(struct kva_loader *ld, sqlite3_stmt *st);
enum kva_status kva_load_second(struct kva_loader *ld, sqlite3_stmt *st);
enum kva_status kva_load_memory(struct kva_loader *ld, sqlite3_stmt *st);
enum kva_status kva_load_timing(struct kva_loader *ld, sqlite3_stmt *st);
enum kva_status kva_load_span(struct kva_loader *ld, sqlite3_stmt *st);
enum kva_status kva_load_kept(struct kva_loader *ld, sqlite3_stmt *st);
enum kva_status kva_load_claim(struct kva_loader *ld, sqlite3_stmt *st);
enum kva_status kva_load_perf(struct kva_loader *ld, sqlite3_stmt *st);
/* The last outcome's spans are summed; after the last row of a file. */
enum kva_status kva_load_close_spans(struct kva_loader *ld);

#endif
