/* SPDX-License-Identifier: GPL-3.0-or-later */
/* records.h - a data file of the user as numbered records: JSON objects, one a line, or
 * the elements of one JSON list.
 *
 * Opening a file reads it once: where each record stands, a checksum of each, the SHA-256
 * of all. A record is read from the file again and parsed when it is asked for, so a file
 * costs memory by its records, not by its bytes. Nothing is skipped but blank lines: what
 * cannot be parsed is a record too, and its failure names FILE:LINE. Thread-safe once
 * open. */
#ifndef KVA_TASKS_RECORDS_H
#define KVA_TASKS_RECORDS_H

#include "tasks/internal.h"

struct kva_record_place {
    uint64_t begin, n, fnv; /* bytes in the file; FNV-1a of them */
    int line;               /* from 1 */
};
struct kva_records {
    struct kva_buf path;
    int fd;
    struct kva_record_place *place;
    size_t n, cap;
    char sha256[65];
};
/* The user's data set `set` (kva_data_find). KVA_EIO when it is nowhere or cannot be
 * read, KVA_EFORMAT when it holds no records or a list that does not end. Release it
 * either way. */
enum kva_status kva_records_open(struct kva_records *r, const struct kva_task_opts *opts,
                                 const char *set, const char *file,
                                 struct kva_error *err);
void kva_records_release(struct kva_records *r);
/* Adds path, file (its usual name), sha256 and the number of records to a json_t. */
int kva_records_describe(const struct kva_records *r, const char *file, void *source);

struct kva_record {
    const struct kva_records *of;
    int line;
    void *json; /* json_t, an object */
};
/* KVA_EFORMAT "FILE:LINE: reason" when the record is no JSON object, is no UTF-8, has a
 * lone surrogate or a field twice, or is no longer what it was when the file was opened.
 * Release it either way. */
enum kva_status kva_record_read(const struct kva_records *r, size_t index,
                                struct kva_record *rec, struct kva_error *err);
void kva_record_release(struct kva_record *rec);
/* KVA_EFORMAT "FILE:LINE: ...". */
enum kva_status kva_record_fail(const struct kva_record *rec, struct kva_error *err,
                                const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fields; texts are copies in the arena, byte for byte. Absent and null are the same:
 * with `needed` a failure, else NULL and 0.
 * n NULL: the text may hold no NUL. */
enum kva_status kva_record_text(const struct kva_record *rec, const char *key,
                                bool needed, struct kva_arena *arena, const char **out,
                                size_t *n, struct kva_error *err);
/* A list of texts without NULs. */
enum kva_status kva_record_texts(const struct kva_record *rec, const char *key,
                                 bool needed, struct kva_arena *arena,
                                 const char *const **out, int *n, struct kva_error *err);
enum kva_status kva_record_whole(const struct kva_record *rec, const char *key,
                                 int64_t *out, struct kva_error *err);
/* The fields of the list that are there (texts or whole numbers) and, with `bucket`,
 * {"bucket": ...} as a JSON object: kva_item.labels. */
enum kva_status kva_record_labels(const struct kva_record *rec, const char *const *keys,
                                  const char *bucket, struct kva_arena *arena,
                                  const char **out, struct kva_error *err);

#endif
