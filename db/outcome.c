/* SPDX-License-Identifier: GPL-3.0-or-later */
/* outcome.c - storing outcomes: an upsert that can only improve.
 *
 * ok, truncated and skipped are terminal: what is stored stays, what comes later is
 * dropped. oom, timeout, error and nonfinite are replaced by the next attempt, with
 * everything that hung on them. The one thing a stored ok outcome still gains is the
 * measurement of a cell run alone, provided that run produced the same tokens. */
#include "db/db_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INT(x)  kva_db_int(x)
#define TEXT(x) kva_db_text(x)

static struct kva_db_value known(int64_t x) /* -1: NULL */
{
    return x == -1 ? (struct kva_db_value){.type = KVA_DB_NULL} : kva_db_int(x);
}

static const char *exec_name(enum kva_db_exec exec)
{
    return exec == KVA_EXEC_ALONE ? "alone" : "shared";
}

static bool is_ok(const struct kva_db_outcome *o)
{
    return strcmp(o->status, "ok") == 0;
}

static enum kva_status validate(const struct kva_db_outcome *o, struct kva_error *err)
{
    if (!o->status)
        return KVA_FAIL(err, KVA_EINVALID, "an outcome without a status");
    if (is_ok(o) && !(o->score >= 0 && o->score <= 1))
        return KVA_FAIL(err, KVA_EINVALID,
                        "the score %g of an ok outcome is not in [0, 1]", o->score);
    if (is_ok(o) && !o->stop)
        return KVA_FAIL(err, KVA_EINVALID, "an ok outcome without the reason it stopped");
    for (int i = 0; i < o->n_scores; i++)
        if (!isfinite(o->scores[i].value))
            return KVA_FAIL(err, KVA_EINVALID, "the value of metric %s is not finite",
                            o->scores[i].metric);
    return KVA_OK;
}

/* Token ids as u32 little-endian (the byte order of every supported machine). Without ids
 * the text stands in. */
static void generation_digest(const struct kva_db_outcome *o, uint8_t out[32])
{
    if (o->ids || !o->text)
        kva_sha256_of(o->ids, o->ids ? sizeof *o->ids * (size_t)o->n_gen : 0, out);
    else
        kva_sha256_of(o->text, strlen(o->text), out);
}

void kva_db_audit_text(int audit, char *out, size_t n)
{
    static const char *const says[] = {
        "more is live than the budget",
        "pages beyond those of the kept entries",
        "entries are masked, not gone",
        "the eviction freed no page",
        "a device's driver or the process's resident set counts more than the account",
        "rows and index disagree",
        "the cache grew while answering",
    };
    size_t at = 0;

    if (n > 0)
        out[0] = '\0';
    for (size_t i = 0; audit > 0 && i < sizeof says / sizeof *says && at < n; i++)
        if (audit >> i & 1)
            at += (size_t)snprintf(out + at, n - at, "%sbit %d: %s", at > 0 ? ", " : "",
                                   1 << i, says[i]);
}

static enum kva_status put_memory(struct kva_db *db, int64_t id,
                                  const struct kva_db_memory *m, struct kva_error *err)
{
    return KVA_DB_RUN(
        db, KVA_DB_MEMORY, NULL, NULL, err, INT(id), TEXT(exec_name(m->exec)),
        INT(m->kv_dense_bytes), INT(m->kv_budget_bytes), INT(m->kv_live_bytes),
        INT(m->kv_alloc_bytes), INT(m->kv_meta_bytes), INT(m->kv_peak_bytes),
        INT(m->kv_end_bytes), INT(m->kv_local_bytes), INT(m->state_bytes),
        INT(m->kv_committed_bytes), known(m->scratch_peak_bytes), known(m->weight_bytes),
        known(m->dev_delta_bytes), known(m->dev_peak_bytes), known(m->host_peak_bytes),
        INT(m->entries_kept), INT(m->entries_masked), INT(m->audit));
}

static enum kva_status put_timing(struct kva_db *db, int64_t id,
                                  const struct kva_db_timing *t, struct kva_error *err)
{
    return KVA_DB_RUN(db, KVA_DB_TIMING, NULL, NULL, err, INT(id),
                      TEXT(exec_name(t->exec)), known(t->prefill_ns), known(t->score_ns),
                      known(t->evict_ns), known(t->question_ns), known(t->ttft_ns),
                      known(t->decode_ns), known(t->decode_p50_ns),
                      known(t->decode_p99_ns), TEXT(t->clock ? t->clock : "monotonic"));
}

static enum kva_status put_generation(struct kva_db *db, int64_t id,
                                      const struct kva_db_outcome *o,
                                      struct kva_error *err)
{
    struct kva_buf clean;
    enum kva_status rc;

    if (!o->text)
        return KVA_OK;
    /* a cut multi-byte sequence must not make the file unreadable for stricter programs
     */
    kva_buf_init(&clean, 0);
    (void)kva_utf8_clean(o->text, strlen(o->text), &clean);
    rc = kva_buf_status(&clean, err);
    if (rc == KVA_OK)
        rc = KVA_DB_RUN(db, KVA_DB_GENERATION, NULL, NULL, err, INT(id),
                        TEXT(clean.data ? clean.data : ""),
                        kva_db_blob(o->ids, sizeof *o->ids * (size_t)o->n_gen));
    kva_buf_release(&clean);
    return rc;
}

static enum kva_status put_traces(struct kva_db *db, int64_t id,
                                  const struct kva_db_outcome *o, struct kva_error *err)
{
    size_t row_bytes = (size_t)o->kept_heads * (((size_t)o->kept_tok + 7) / 8);

    for (int i = 0; i < o->n_spans; i++) {
        const struct kva_db_span_kept *s = &o->spans[i];
        size_t bytes = sizeof *s->kept * (size_t)s->layers * (size_t)s->kv_heads;

        KVA_TRY(KVA_DB_RUN(db, KVA_DB_SPAN, NULL, NULL, err, INT(id), TEXT(s->span),
                           INT(s->n_tok), INT(s->layers), INT(s->kv_heads),
                           kva_db_blob(s->kept, bytes)));
    }
    for (int l = 0; o->kept_bits && l < o->kept_layers; l++)
        if (o->kept_bits[l])
            KVA_TRY(KVA_DB_RUN(db, KVA_DB_KEPT, NULL, NULL, err, INT(id), INT(l),
                               INT(o->kept_heads), INT(o->kept_tok),
                               kva_db_blob(o->kept_bits[l], row_bytes)));
    return KVA_OK;
}

/* Everything that hangs on a new or replaced outcome. */
static enum kva_status put_children(struct kva_db *db, int64_t id,
                                    const struct kva_db_outcome *o, struct kva_error *err)
{
    if (is_ok(o)) {
        KVA_TRY(put_generation(db, id, o, err));
        for (int i = 0; i < o->n_scores; i++)
            KVA_TRY(KVA_DB_RUN(db, KVA_DB_SCORE, NULL, NULL, err, INT(id),
                               TEXT(o->scores[i].metric), INT(o->scores[i].version),
                               kva_db_real(o->scores[i].value),
                               TEXT(o->scores[i].extracted)));
    }
    for (int i = 0; i < o->n_memory; i++)
        KVA_TRY(put_memory(db, id, &o->memory[i], err));
    for (int i = 0; i < o->n_timing; i++)
        KVA_TRY(put_timing(db, id, &o->timing[i], err));
    return put_traces(db, id, o, err);
}

static enum kva_status clear_children(struct kva_db *db, int64_t id,
                                      struct kva_error *err)
{
    static const enum kva_db_stmt CLEAR[] = {KVA_DB_CLEAR_GENERATION, KVA_DB_CLEAR_SCORE,
                                             KVA_DB_CLEAR_TIMING,     KVA_DB_CLEAR_MEMORY,
                                             KVA_DB_CLEAR_KEPT,       KVA_DB_CLEAR_SPANS};

    for (size_t i = 0; i < sizeof CLEAR / sizeof CLEAR[0]; i++)
        KVA_TRY(KVA_DB_RUN(db, CLEAR[i], NULL, NULL, err, INT(id)));
    return KVA_OK;
}

/* Adds the rows measured alone to a stored ok outcome; *added tells whether any was new.
 */
static enum kva_status add_alone(struct kva_db *db, const struct kva_db_outcome *o,
                                 const uint8_t digest[32], bool *added,
                                 struct kva_error *err)
{
    struct kva_db_value key[] = {INT(o->cell_id), INT(o->sample_id), INT(o->rep)};
    sqlite3_stmt *st;
    int64_t id = 0;
    bool stored_ok = false, same = false, any = false;

    for (int i = 0; i < o->n_memory; i++)
        any |= o->memory[i].exec == KVA_EXEC_ALONE;
    for (int i = 0; i < o->n_timing; i++)
        any |= o->timing[i].exec == KVA_EXEC_ALONE;
    if (!any || !is_ok(o))
        return KVA_OK;
    KVA_TRY(kva_db_bind(db, KVA_DB_OLD_OUTCOME, key, 3, &st, err));
    if (sqlite3_step(st) == SQLITE_ROW) {
        id = sqlite3_column_int64(st, 0);
        stored_ok = strcmp((const char *)sqlite3_column_text(st, 1), "ok") == 0;
        same = sqlite3_column_bytes(st, 2) == 32 &&
               memcmp(sqlite3_column_blob(st, 2), digest, 32) == 0;
    }
    sqlite3_reset(st);
    if (!stored_ok)
        return KVA_OK;
    if (!same)
        return KVA_FAIL(
            err, KVA_ECONFLICT,
            "%s: cell %lld sample %lld rep %d run alone produced other tokens than "
            "the stored outcome",
            db->path, (long long)o->cell_id, (long long)o->sample_id, o->rep);
    for (int i = 0; i < o->n_memory; i++)
        if (o->memory[i].exec == KVA_EXEC_ALONE) {
            KVA_TRY(put_memory(db, id, &o->memory[i], err));
            *added |= sqlite3_changes(db->handle) > 0;
        }
    for (int i = 0; i < o->n_timing; i++)
        if (o->timing[i].exec == KVA_EXEC_ALONE) {
            KVA_TRY(put_timing(db, id, &o->timing[i], err));
            *added |= sqlite3_changes(db->handle) > 0;
        }
    return KVA_OK;
}

static enum kva_status put_one(struct kva_db *db, const struct kva_db_outcome *o,
                               int *stored, struct kva_error *err)
{
    struct kva_db_value null = {.type = KVA_DB_NULL};
    uint8_t digest[32];
    bool ok = is_ok(o), won = false, added = false;
    struct kva_db_value v[16];
    sqlite3_stmt *st;
    int64_t id = 0, attempt = 0;
    int rc;

    generation_digest(o, digest);
    if (o->alone_only) {
        KVA_TRY(add_alone(db, o, digest, &added, err));
        *stored += added;
        return KVA_OK;
    }
    v[0] = INT(o->cell_id);
    v[1] = INT(o->sample_id);
    v[2] = INT(o->rep);
    v[3] = INT(o->run_id);
    v[4] = TEXT(o->status);
    v[5] = ok ? kva_db_real(o->score) : null;
    v[6] = INT(o->n_ctx);
    v[7] = INT(o->n_question);
    v[8] = INT(o->n_gen);
    v[9] = INT(o->n_cut);
    v[10] = INT((int64_t)o->kept_fnv);
    v[11] = ok ? TEXT(o->stop) : null;
    v[12] = ok ? kva_db_blob(digest, 32) : null;
    v[13] = INT(kva_wall_ms());
    v[14] = ok ? null : TEXT(o->error);
    v[15] = INT(o->flags);
    KVA_TRY(kva_db_bind(db, KVA_DB_OUTCOME, v, 16, &st, err));
    rc = sqlite3_step(st);
    if (rc == SQLITE_ROW) {
        won = true;
        id = sqlite3_column_int64(st, 0);
        attempt = sqlite3_column_int64(st, 1);
        rc = sqlite3_step(st);
    }
    if (rc != SQLITE_DONE) {
        enum kva_status status = kva_db_fail(db, rc, "storing an outcome", err);

        sqlite3_reset(st);
        return status;
    }
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    if (!won) {
        KVA_TRY(add_alone(db, o, digest, &added, err));
    } else {
        if (attempt > 1)
            KVA_TRY(clear_children(db, id, err));
        KVA_TRY(put_children(db, id, o, err));
    }
    *stored += won || added;
    return KVA_OK;
}

enum kva_status kva_db_put_outcomes(struct kva_db *db, const struct kva_db_outcome *o,
                                    int n, int *stored, struct kva_error *err)
{
    enum kva_status rc = KVA_OK;
    int count = 0;

    for (int i = 0; i < n; i++)
        KVA_TRY(validate(&o[i], err));
    KVA_TRY(kva_db_enter(db, err));
    for (int i = 0; i < n && rc == KVA_OK; i++)
        rc = put_one(db, &o[i], &count, err);
    rc = kva_db_leave(db, rc, err);
    if (stored)
        *stored = rc == KVA_OK ? count : 0;
    return rc;
}
