/* SPDX-License-Identifier: GPL-3.0-or-later */
/* states.c - what a file already holds, for planning; and single reads (a text, a
 * bitmap).
 *
 * The work list is computed, never stored: what the suite asks for minus what is terminal
 * here. Keys are digests, because a planned cell may have no row yet. */
#include "db/db_internal.h"

#include <stdlib.h>
#include <string.h>

#define KEY_BYTES 72 /* cell 32, task 32, idx and rep int32 little-endian */

struct kva_db_states {
    struct kva_map map; /* key -> state | attempts << 2 | four flags << 40 */
};

static void make_key(uint8_t key[KEY_BYTES], const void *cell, const void *task,
                     int32_t idx, int32_t rep)
{
    memcpy(key, cell, 32);
    memcpy(key + 32, task, 32);
    for (int i = 0; i < 4; i++) {
        key[64 + i] = (uint8_t)((uint32_t)idx >> 8 * i);
        key[68 + i] = (uint8_t)((uint32_t)rep >> 8 * i);
    }
}

enum kva_status kva_db_load_states(struct kva_db *db, struct kva_db_states **out,
                                   struct kva_error *err)
{
    static const char SQL[] =
        "SELECT c.digest, t.digest, s.idx, o.rep, o.status "
        "IN('ok','truncated','skipped'), "
        "o.attempt, o.status IN('truncated','skipped') OR EXISTS(SELECT 1 FROM timing g "
        "WHERE g.outcome_id=o.outcome_id AND g.exec='alone'), o.status='ok', "
        "o.status='truncated', "
        "c.enforce='physical' AND EXISTS(SELECT 1 FROM memory m WHERE "
        "m.outcome_id=o.outcome_id AND m.audit>0) FROM outcome o JOIN cell c "
        "USING(cell_id) JOIN sample s "
        "USING(sample_id) "
        "JOIN task t ON t.task_id=s.task_id";
    struct kva_db_states *states = kva_calloc(1, sizeof *states);
    sqlite3_stmt *st = NULL;
    enum kva_status rc = KVA_OK;
    int sq;

    *out = NULL;
    if (!states)
        return KVA_FAIL(err, KVA_ENOMEM, "%s: loading states: out of memory", db->path);
    kva_map_init(&states->map);
    sq = sqlite3_prepare_v2(db->handle, SQL, -1, &st, NULL);
    while (rc == KVA_OK && sq == SQLITE_OK && (sq = sqlite3_step(st)) == SQLITE_ROW) {
        uint8_t key[KEY_BYTES];
        int64_t value = sqlite3_column_int(st, 4) ? 1 : 2;

        value |= sqlite3_column_int64(st, 5) << 2;
        for (int b = 0; b < 4; b++)
            value |= (int64_t)(sqlite3_column_int(st, 6 + b) != 0) << (40 + b);
        make_key(key, sqlite3_column_blob(st, 0), sqlite3_column_blob(st, 1),
                 sqlite3_column_int(st, 2), sqlite3_column_int(st, 3));
        rc = kva_map_put(&states->map, key, sizeof key, value, NULL, err);
        sq = SQLITE_OK;
    }
    if (rc == KVA_OK && sq != SQLITE_DONE)
        rc = kva_db_fail(db, sq, "loading states", err);
    sqlite3_finalize(st);
    if (rc != KVA_OK) {
        kva_db_states_free(states);
        return rc;
    }
    *out = states;
    return KVA_OK;
}

void kva_db_states_free(struct kva_db_states *states)
{
    if (states)
        kva_map_release(&states->map);
    free(states);
}

struct kva_db_state kva_db_state_of(const struct kva_db_states *states,
                                    const uint8_t cell[32], const uint8_t task[32],
                                    int idx, int rep)
{
    struct kva_db_state s = {0};
    uint8_t key[KEY_BYTES];
    int64_t value;

    make_key(key, cell, task, idx, rep);
    if (kva_map_get(&states->map, key, sizeof key, &value)) {
        s.state = (int)(value & 3);
        s.attempts = (int)(value >> 2 & 0xfffffff);
        s.has_perf = value >> 40 & 1;
        s.ok = value >> 41 & 1;
        s.truncated = value >> 42 & 1;
        s.audit_bad = value >> 43 & 1;
    }
    return s;
}

enum kva_status kva_db_generation(struct kva_db *db, int64_t outcome_id,
                                  struct kva_buf *out, struct kva_error *err)
{
    struct kva_db_value key = kva_db_int(outcome_id);
    sqlite3_stmt *st;
    enum kva_status rc = KVA_OK;
    int sq;

    KVA_TRY(kva_db_bind(db, KVA_DB_TEXT_OF, &key, 1, &st, err));
    sq = sqlite3_step(st);
    if (sq == SQLITE_ROW) {
        const void *s = sqlite3_column_text(st, 0);

        kva_buf_add(out, s ? s : "", (size_t)sqlite3_column_bytes(st, 0));
        rc = kva_buf_status(out, err);
    } else if (sq == SQLITE_DONE) {
        rc = KVA_FAIL(err, KVA_EMISSING, "%s: outcome %lld has no generated text",
                      db->path, (long long)outcome_id);
    } else {
        rc = kva_db_fail(db, sq, "reading a generation", err);
    }
    sqlite3_reset(st);
    return rc;
}

bool kva_db_kept_bits(struct kva_db *db, int64_t outcome_id, int layer, int *heads,
                      int *n_tok, struct kva_buf *bits)
{
    struct kva_db_value key[] = {kva_db_int(outcome_id), kva_db_int(layer)};
    sqlite3_stmt *st;
    bool found;

    if (kva_db_bind(db, KVA_DB_BITS_OF, key, 2, &st, NULL) != KVA_OK)
        return false;
    found = sqlite3_step(st) == SQLITE_ROW;
    if (found) {
        *heads = sqlite3_column_int(st, 0);
        *n_tok = sqlite3_column_int(st, 1);
        kva_buf_add(bits, sqlite3_column_blob(st, 2),
                    (size_t)sqlite3_column_bytes(st, 2));
        found = !bits->failed;
    }
    sqlite3_reset(st);
    return found;
}
