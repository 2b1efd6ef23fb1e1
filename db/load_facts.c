/* SPDX-License-Identifier: GPL-3.0-or-later */
/* load_facts.c - outcomes of one file and what hangs on them: scores, bytes, times,
 * survival of spans. Child rows are found by outcome_id; the copy of an outcome that is
 * shown brings its own. */
#include "db/load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Repetitions are few; arrays are made as long as the largest number. */
#define MOST_REPS (1 << 20)

static bool is_terminal(const char *status)
{
    return strcmp(status, "ok") == 0 || strcmp(status, "truncated") == 0 ||
           strcmp(status, "skipped") == 0;
}

static bool same_double(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* The same (cell, sample, rep) in two files: equal counts once, a terminal row beats a
 * failed one, two different terminal rows cannot both be true. */
static enum kva_status meet(struct kva_loader *ld, struct outcome_row *old,
                            const struct outcome_row *neu, bool *replace)
{
    bool t_old = is_terminal(old->o.status), t_new = is_terminal(neu->o.status);

    *replace = t_new && !t_old;
    if (!t_old || !t_new)
        return KVA_OK;
    if (strcmp(old->o.status, neu->o.status) == 0 &&
        same_double(old->o.score, neu->o.score) && old->has_gen == neu->has_gen &&
        memcmp(old->gen_sha256, neu->gen_sha256, 32) == 0)
        return KVA_OK;
    return KVA_FAIL(
        ld->err, KVA_ECONFLICT,
        "%s: cell %s sample %d rep %d differs from the outcome in another file "
        "(%s %.6f against %s %.6f)",
        ld->db->path, AT(ld->cells, struct kva_data_cell, neu->o.cell)->slug,
        AT(ld->samples, struct sample_row, neu->o.sample)->s.idx, neu->o.rep,
        neu->o.status, neu->o.score, old->o.status, old->o.score);
}

enum kva_status kva_load_outcome(struct kva_loader *ld, sqlite3_stmt *st)
{
    struct outcome_row r, *slot;
    int64_t rep = sqlite3_column_int64(st, 3);
    int32_t key[3];
    bool is_new, replace = false;
    int pos;

    memset(&r, 0, sizeof r);
    r.o.outcome_id = sqlite3_column_int64(st, 0);
    r.o.db = ld->db_index;
    r.o.cell = kva_load_local(ld, L_CELL, sqlite3_column_int64(st, 1));
    r.o.sample = kva_load_local(ld, L_SAMPLE, sqlite3_column_int64(st, 2));
    if (r.o.cell < 0 || r.o.sample < 0)
        return KVA_FAIL(ld->err, KVA_EDB, "%s: an outcome without its cell or sample",
                        ld->db->path);
    r.o.run = kva_load_local(ld, L_RUN, sqlite3_column_int64(st, 14));
    if (r.o.run < 0)
        return KVA_FAIL(ld->err, KVA_EDB, "%s: an outcome without its run", ld->db->path);
    r.o.rep = (int)rep;
    r.o.status = kva_load_word(ld, st, 4);
    r.o.score = sqlite3_column_type(st, 5) == SQLITE_NULL ? (double)NAN
                                                          : sqlite3_column_double(st, 5);
    /* the schema forbids it, but a reader's SQLite does not check */
    if (rep < 0 || rep > MOST_REPS || r.o.score < 0 || r.o.score > 1)
        return KVA_FAIL(ld->err, KVA_EDAMAGED,
                        "%s: outcome %lld has rep %lld and score %g: examine the file "
                        "with `kvaudit doctor --db`",
                        ld->db->path, (long long)r.o.outcome_id, (long long)rep,
                        r.o.score);
    r.o.gold_nll = r.o.span_e = r.o.span_payload = r.o.span_d = r.o.span_x = r.o.stage1 =
        NAN;
    r.o.wrong_needle = -1;
    r.o.n_ctx = sqlite3_column_int(st, 6);
    r.o.n_question = sqlite3_column_int(st, 7);
    r.o.n_gen = sqlite3_column_int(st, 8);
    r.o.n_cut = sqlite3_column_int(st, 9);
    r.o.kept_fnv = (uint64_t)sqlite3_column_int64(st, 10);
    r.o.flags = sqlite3_column_int(st, 15);
    r.o.stop = kva_load_word(ld, st, 11);
    r.has_gen = sqlite3_column_type(st, 12) != SQLITE_NULL;
    kva_load_digest(st, 12, r.gen_sha256);
    memcpy(&r.o.gen_key, r.gen_sha256, sizeof r.o.gen_key);
    r.o.error = kva_load_text(ld, st, 13, false);
    if (!r.o.status)
        return kva_load_no_memory(ld);
    key[0] = r.o.cell;
    key[1] = r.o.sample;
    key[2] = r.o.rep;
    KVA_TRY(kva_load_place(ld, &ld->outcome_of, -1, 0, key, sizeof key, ld->outcomes.n,
                           &pos, &is_new));
    if (is_new && !ADD(ld->outcomes, struct outcome_row))
        return kva_load_no_memory(ld);
    slot = AT(ld->outcomes, struct outcome_row, pos);
    if (!is_new)
        KVA_TRY(meet(ld, slot, &r, &replace));
    if (is_new || replace)
        *slot = r;
    ld->row_id[ld->n_row] = r.o.outcome_id;
    ld->row_of[ld->n_row] = pos;
    if (is_new || replace)
        ld->row_fate[ld->n_row++] = TAKEN;
    else if (is_terminal(slot->o.status) && is_terminal(r.o.status))
        ld->row_fate[ld->n_row++] = EQUAL;
    else
        ld->row_fate[ld->n_row++] = LOST;
    return KVA_OK;
}

/* The row an outcome_id of this file went to; *fresh: this file's copy is the one that
 * was taken. NULL when the row lost against another file's. */
static struct outcome_row *row_of(struct kva_loader *ld, int64_t id, bool *fresh)
{
    int lo = 0, hi = ld->n_row;

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;

        if (ld->row_id[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == ld->n_row || ld->row_id[lo] != id || ld->row_fate[lo] == LOST)
        return NULL;
    *fresh = ld->row_fate[lo] == TAKEN;
    return AT(ld->outcomes, struct outcome_row, ld->row_of[lo]);
}

enum kva_status kva_load_gold(struct kva_loader *ld, sqlite3_stmt *st)
{
    bool fresh;
    struct outcome_row *r = row_of(ld, sqlite3_column_int64(st, 0), &fresh);

    if (r && (fresh || isnan(r->o.gold_nll))) /* versions ascend: the newest stays */
        r->o.gold_nll = sqlite3_column_double(st, 1);
    return KVA_OK;
}

/* Versions ascend: the newest stays. */
enum kva_status kva_load_extracted(struct kva_loader *ld, sqlite3_stmt *st)
{
    bool fresh;
    struct outcome_row *r = row_of(ld, sqlite3_column_int64(st, 0), &fresh);

    if (!r || (!fresh && r->o.extracted))
        return KVA_OK;
    r->o.extracted = kva_load_text(ld, st, 1, true);
    return r->o.extracted ? KVA_OK : kva_load_no_memory(ld);
}

static uint64_t in_units(double v)
{
    return (uint64_t)llround(v * UNIT);
}

/* Every other metric: the newest version of each outcome, summed per cell. */
enum kva_status kva_load_second(struct kva_loader *ld, sqlite3_stmt *st)
{
    bool fresh;
    struct outcome_row *r = row_of(ld, sqlite3_column_int64(st, 0), &fresh);
    const char *metric = (const char *)sqlite3_column_text(st, 1);
    double value = sqlite3_column_double(st, 2);
    char key[96];
    struct second_row *s;
    int64_t at;
    size_t len;

    if (!r || !fresh || isnan(r->o.score))
        return KVA_OK;
    if (strcmp(metric, "wrong_needle") == 0) {
        r->o.wrong_needle = value > 0;
        return KVA_OK;
    }
    if (strcmp(metric, "protected") == 0) {
        r->o.is_protected = value > 0;
        return KVA_OK;
    }
    if (strcmp(metric, "stage1") == 0) {
        r->o.stage1 = value;
        return KVA_OK;
    }
    if (!(value >= 0 && value <= 1)) /* not a score */
        return KVA_OK;
    len = (size_t)snprintf(key, sizeof key, "%d %.60s", r->o.cell, metric);
    if (!kva_map_get(&ld->second_of, key, len, &at)) {
        at = ld->seconds.n;
        if (!(s = ADD(ld->seconds, struct second_row)))
            return kva_load_no_memory(ld);
        s->s.cell = r->o.cell;
        s->s.metric = kva_load_text(ld, st, 1, true);
        if (!s->s.metric)
            return kva_load_no_memory(ld);
        KVA_TRY(kva_map_put(&ld->second_of, key, len, at, NULL, ld->err));
    }
    s = AT(ld->seconds, struct second_row, at);
    s->s.n++;
    s->sum += in_units(value);
    s->own += in_units(r->o.score);
    return KVA_OK;
}

enum kva_status kva_load_memory(struct kva_loader *ld, sqlite3_stmt *st)
{
    bool fresh, alone = strcmp((const char *)sqlite3_column_text(st, 1), "alone") == 0;
    struct outcome_row *r = row_of(ld, sqlite3_column_int64(st, 0), &fresh);
    struct kva_db_memory m = {.exec = alone ? KVA_EXEC_ALONE : KVA_EXEC_SHARED};

    if (!r || (alone ? r->o.has_alone : r->has_shared))
        return KVA_OK;
    m.kv_dense_bytes = sqlite3_column_int64(st, 2);
    m.kv_budget_bytes = sqlite3_column_int64(st, 3);
    m.kv_live_bytes = sqlite3_column_int64(st, 4);
    m.kv_alloc_bytes = sqlite3_column_int64(st, 5);
    m.kv_meta_bytes = sqlite3_column_int64(st, 6);
    m.kv_peak_bytes = sqlite3_column_int64(st, 7);
    m.kv_end_bytes = sqlite3_column_int64(st, 8);
    m.kv_local_bytes = sqlite3_column_int64(st, 9);
    m.state_bytes = sqlite3_column_int64(st, 10);
    m.kv_committed_bytes = sqlite3_column_int64(st, 11);
    m.scratch_peak_bytes = kva_load_int(st, 12, -1);
    m.weight_bytes = kva_load_int(st, 13, -1);
    m.dev_delta_bytes = kva_load_int(st, 14, -1);
    m.dev_peak_bytes = kva_load_int(st, 15, -1);
    m.host_peak_bytes = kva_load_int(st, 16, -1);
    m.entries_kept = sqlite3_column_int64(st, 17);
    m.entries_masked = sqlite3_column_int64(st, 18);
    m.audit = sqlite3_column_int(st, 19);
    if (alone) {
        r->o.alone = m;
        r->o.has_alone = true;
    } else {
        r->has_shared = true;
    }
    if (!alone || !r->has_shared)
        r->o.memory = m;
    r->o.has_memory = true;
    return KVA_OK;
}

enum kva_status kva_load_timing(struct kva_loader *ld, sqlite3_stmt *st)
{
    bool fresh;
    struct outcome_row *r = row_of(ld, sqlite3_column_int64(st, 0), &fresh);
    static const char MONOTONIC[] = "monotonic";
    const char *clock = (const char *)sqlite3_column_text(st, 9);

    if (!r || r->o.has_timing)
        return KVA_OK;
    r->o.has_timing = true;
    r->o.timing.exec = KVA_EXEC_ALONE;
    r->o.timing.prefill_ns = kva_load_int(st, 1, -1);
    r->o.timing.score_ns = kva_load_int(st, 2, -1);
    r->o.timing.evict_ns = kva_load_int(st, 3, -1);
    r->o.timing.question_ns = kva_load_int(st, 4, -1);
    r->o.timing.ttft_ns = kva_load_int(st, 5, -1);
    r->o.timing.decode_ns = kva_load_int(st, 6, -1);
    r->o.timing.decode_p50_ns = kva_load_int(st, 7, -1);
    r->o.timing.decode_p99_ns = kva_load_int(st, 8, -1);
    r->o.timing.clock =
        strcmp(clock, MONOTONIC) == 0 ? MONOTONIC : kva_load_text(ld, st, 9, true);
    return r->o.timing.clock ? KVA_OK : kva_load_no_memory(ld);
}

/* ---- survival of spans ---- */

/* What a stored span counts as for this outcome's sample. */
static int kind_of(const struct kva_loader *ld, const struct outcome_row *r,
                   const char *name)
{
    const struct sample_row *s = AT(ld->samples, struct sample_row, r->o.sample);
    char id[16];

    kva_load_group(name, id);
    for (int k = 0; k < s->n_span; k++)
        if (strcmp(s->span[k].id, id) == 0)
            return s->span[k].kind;
    return kva_load_letter(id);
}

/* The open outcome's means over spans go to its cell's sums. */
enum kva_status kva_load_close_spans(struct kva_loader *ld)
{
    struct outcome_row *r = ld->open.row;
    int hc = ld->open.n_layer * ld->open.n_kv_head;
    struct kva_data_heads *h;
    int64_t at;

    ld->open.row = NULL;
    if (!r)
        return KVA_OK;
    if (!kva_map_get(&ld->heads_of, &r->o.cell, sizeof r->o.cell, &at)) {
        at = ld->heads.n;
        if (!(h = ADD(ld->heads, struct kva_data_heads)))
            return kva_load_no_memory(ld);
        h->cell = r->o.cell;
        h->n_layer = ld->open.n_layer;
        h->n_kv_head = ld->open.n_kv_head;
        h->sum = kva_arena_alloc(&ld->d->arena, (size_t)(KVA_HEAD_KINDS * hc) + 1,
                                 sizeof *h->sum);
        if (!h->sum)
            return kva_load_no_memory(ld);
        KVA_TRY(
            kva_map_put(&ld->heads_of, &r->o.cell, sizeof r->o.cell, at, NULL, ld->err));
    }
    h = AT(ld->heads, struct kva_data_heads, at);
    if (h->n_layer != ld->open.n_layer || h->n_kv_head != ld->open.n_kv_head)
        return KVA_FAIL(ld->err, KVA_EDB,
                        "%s: heads of cell %s: %d x %d and %d x %d heads", ld->db->path,
                        AT(ld->cells, struct kva_data_cell, h->cell)->slug, h->n_layer,
                        h->n_kv_head, ld->open.n_layer, ld->open.n_kv_head);
    for (int k = 0; k < KVA_HEAD_KINDS; k++) {
        if (ld->open.n[k] == 0)
            continue;
        h->n[k]++;
        for (int i = 0; i < hc; i++)
            h->sum[k * hc + i] += in_units(ld->open.acc[k * hc + i] / ld->open.n[k]);
    }
    return KVA_OK;
}

static enum kva_status open_spans(struct kva_loader *ld, struct outcome_row *r,
                                  int layers, int heads)
{
    int n = KVA_HEAD_KINDS * layers * heads;

    KVA_TRY(kva_load_close_spans(ld));
    if (n > ld->open.cap) {
        free(ld->open.acc);
        ld->open.cap = 0;
        ld->open.acc = kva_calloc((size_t)n, sizeof *ld->open.acc);
        if (!ld->open.acc)
            return kva_load_no_memory(ld);
        ld->open.cap = n;
    }
    memset(ld->open.acc, 0, (size_t)n * sizeof *ld->open.acc);
    memset(ld->open.n, 0, sizeof ld->open.n);
    ld->open.row = r;
    ld->open.n_layer = layers;
    ld->open.n_kv_head = heads;
    return KVA_OK;
}

/* Rows come outcome by outcome: memory grows with cells and heads, not with outcomes. */
enum kva_status kva_load_span(struct kva_loader *ld, sqlite3_stmt *st)
{
    bool fresh;
    struct outcome_row *r = row_of(ld, sqlite3_column_int64(st, 0), &fresh);
    const uint8_t *kept = sqlite3_column_blob(st, 3);
    int layers = sqlite3_column_int(st, 4), heads = sqlite3_column_int(st, 5), k;
    double n_tok = sqlite3_column_double(st, 2), sum = 0, *acc;

    if (!r || !fresh || layers <= 0 || heads <= 0)
        return KVA_OK;
    k = kind_of(ld, r, (const char *)sqlite3_column_text(st, 1));
    if (k == KVA_SPAN_KINDS)
        return KVA_OK;
    if (ld->open.row != r || ld->open.n_layer != layers || ld->open.n_kv_head != heads)
        KVA_TRY(open_spans(ld, r, layers, heads));
    acc = ld->open.acc + k * layers * heads;
    for (int i = 0; i < layers * heads; i++) {
        double held = (kept[2 * i] + 256 * kept[2 * i + 1]) / n_tok;

        acc[i] += held;
        sum += held;
    }
    ld->open.n[k]++;
    r->span[k] += sum / (layers * heads);
    r->n_span[k]++;
    return KVA_OK;
}

/* One layer's bitmap of a traced outcome: the share of the tokens each head holds. */
enum kva_status kva_load_kept(struct kva_loader *ld, sqlite3_stmt *st)
{
    bool fresh;
    struct outcome_row *r = row_of(ld, sqlite3_column_int64(st, 0), &fresh);
    int layer = sqlite3_column_int(st, 1), heads = sqlite3_column_int(st, 2),
        n_tok = sqlite3_column_int(st, 3), layers = sqlite3_column_int(st, 5);
    const uint8_t *bits = sqlite3_column_blob(st, 4);
    int row = (n_tok + 7) / 8;

    if (!r || !fresh || layer < 0 || heads <= 0 || n_tok <= 0)
        return KVA_OK;
    if (ld->open.row != r || ld->open.n_layer != layers || ld->open.n_kv_head != heads)
        KVA_TRY(open_spans(ld, r, layers, heads));
    for (int h = 0; h < heads; h++) {
        int held = 0;

        for (int i = 0; i < row; i++)
            held += __builtin_popcount(bits[h * row + i]);
        ld->open.acc[(KVA_HEAD_ALL * layers + layer) * heads + h] = (double)held / n_tok;
    }
    ld->open.n[KVA_HEAD_ALL] = 1;
    return KVA_OK;
}

enum kva_status kva_load_count(struct kva_loader *ld, sqlite3_stmt *st)
{
    size_t n = (size_t)sqlite3_column_int64(st, 0);

    free(ld->row_of);
    free(ld->row_id);
    free(ld->row_fate);
    ld->row_of = kva_calloc(n, sizeof *ld->row_of);
    ld->row_id = kva_calloc(n, sizeof *ld->row_id);
    ld->row_fate = kva_calloc(n, 1);
    ld->n_row = 0;
    return ld->row_of && ld->row_id && ld->row_fate ? KVA_OK : kva_load_no_memory(ld);
}
