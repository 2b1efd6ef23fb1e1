/* SPDX-License-Identifier: GPL-3.0-or-later */
/* exec_memory.c - the byte record of a cell and the audit bits of reports.md 5.2.
 *
 * Every number comes from the store's own counters (ruling R11): taken after the last
 * prefill decision and trim, before the next token; growth while answering is
 * kv_end_bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/cheats.h"
#include "runner/exec_internal.h"

size_t kva_page_cap(const struct kva_model_info *info, const struct kva_keep *keep,
                    int even, int extra)
{
    int kvheads = info->layers * info->kv_heads;
    size_t pages = 0;

    for (int c = 0; c < kvheads; c++) {
        size_t held = keep != NULL ? keep->off[c + 1] - keep->off[c] : (size_t)even;

        pages += (held + (size_t)extra + KVA_PAGE - 1) / KVA_PAGE;
    }
    return pages;
}

int kva_extra_tokens(const struct kva_cell *cell, int n_ids, int n_gold, int max_new)
{
    /* masks hold on, unions may */
    bool frees = cell->schedule.decode > 0 && !kva_enforce_hides(cell->enforce) &&
                 cell->enforce != KVA_UNION && !KVA_CHEATS(KVA_CHEAT_GROW);
    int answer = frees ? cell->schedule.decode + 1 : max_new;

    if (answer > max_new)
        answer = max_new;
    return n_ids + (n_gold > answer ? n_gold : answer);
}

uint64_t kva_cell_total(const struct kva_unit_run *u, const struct kva_cell *cell,
                        int tokens)
{
    int kvheads = u->info->layers * u->info->kv_heads;
    uint64_t row = (uint64_t)(u->info->head_dim + u->info->v_dim) *
                   (u->unit->kv == KVA_F32 || strcmp(cell->numerics, "ref") == 0 ? 4 : 2);
    uint64_t held = (uint64_t)tokens * (uint64_t)kvheads, t;

    if (cell->budget.kind == KVA_BUDGET_DENSE)
        return held;
    t = kva_budget_total(&cell->budget, tokens, kvheads, row);
    return t < held ? t : held;
}

bool kva_even_shares(const struct kva_method *m)
{
    return strcmp(m->allocator->name, "uniform") == 0 &&
           (m->wrapper == NULL || m->wrapper->resize == NULL);
}

/* Pages of `total` entries in KV heads that each hold `grow` more: of even shares, or of
 * any split, sum ceil(x/P) <= (sum x + heads (P - 1)) / P. */
static size_t split_cap(const struct kva_unit_run *u, const struct kva_cell *cell,
                        uint64_t total, int grow)
{
    uint64_t heads = (uint64_t)(u->info->layers * u->info->kv_heads);

    if (kva_even_shares(&cell->method))
        return kva_page_cap(u->info, NULL, (int)((total + heads - 1) / heads), grow);
    return (size_t)((total + heads * (uint64_t)(grow + KVA_PAGE - 1)) / KVA_PAGE);
}

size_t kva_moving_cap(const struct kva_unit_run *u, const struct kva_cell *cell,
                      uint64_t total, int n, int extra)
{
    size_t cap, read, whole = kva_page_cap(u->info, NULL, n, extra);
    int layer = (n + KVA_PAGE - 1) / KVA_PAGE;

    if (kva_enforce_hides(cell->enforce) || cell->enforce == KVA_UNION ||
        (cell->method.wrapper != NULL && cell->method.wrapper->resize != NULL))
        return whole;
    cap = split_cap(u, cell, total, extra);
    read = cell->schedule.kind == KVA_LAYERWISE
               ? split_cap(u, cell, total, 0) + (size_t)(layer * u->info->kv_heads)
               : split_cap(u, cell, total, cell->schedule.block);
    cap = cap > read ? cap : read;
    return cap < whole ? cap : whole;
}

/* Pages the kept entries need at least: what bit 2 allows. */
static uint64_t pages_needed(const struct kva_unit_run *u,
                             const struct kva_kvstore *store)
{
    int H = u->info->kv_heads;
    uint64_t pages = 0;

    for (int c = 0; c < u->info->layers * H; c++)
        pages +=
            ((uint64_t)kva_kvstore_live(store, c / H, c % H) + KVA_PAGE - 1) / KVA_PAGE;
    return pages;
}

bool kva_keeps_state(const struct kva_cell *cell)
{
    return cell->method.scorer != NULL &&
           (cell->schedule.decode > 0 || cell->schedule.kind == KVA_BLOCK ||
            cell->schedule.kind == KVA_CHUNKED);
}

uint64_t kva_state_bytes(const struct kva_unit_run *u, const struct kva_cell *cell,
                         const struct kva_session *s)
{
    struct kva_collect want = kva_method_collect(&cell->method);
    int window = 0;

    (void)kva_method_needs(&cell->method, &window);
    return kva_session_want_bytes(s, &want) +
           (uint64_t)u->info->layers * (uint64_t)window *
               ((uint64_t)(u->info->heads * u->info->head_dim) * sizeof(float) +
                sizeof(int32_t));
}

void kva_audit_add(struct kva_db_memory *m, int bit)
{
    m->audit = (m->audit > 0 ? m->audit : 0) | bit;
}

void kva_memory_fill(const struct kva_unit_run *u, struct kva_run_cell *c, int n_cut,
                     uint64_t before_alloc, struct kva_db_memory *m)
{
    const struct kva_kvstore *store = kva_session_store(c->session);
    const struct kva_kvshape *shape = kva_kvstore_shape(store);
    uint64_t kvheads = (uint64_t)(shape->layers * shape->kv_heads);
    uint64_t budget_total = c->budget_total;
    struct kva_kv_bytes b;
    struct kva_error bad = {0};

    c->state_bytes =
        kva_keeps_state(c->cell) ? kva_state_bytes(u, c->cell, c->session) : 0;
    kva_kvstore_bytes(store, &b);
    m->kv_dense_bytes = (int64_t)((uint64_t)n_cut * kvheads * b.row_bytes);
    m->kv_budget_bytes = (int64_t)(budget_total * b.row_bytes);
    m->kv_live_bytes = (int64_t)b.live_bytes;
    m->kv_alloc_bytes = (int64_t)b.alloc_bytes;
    m->kv_meta_bytes = (int64_t)(b.meta_bytes + c->state_bytes);
    m->kv_peak_bytes = (int64_t)(b.peak_bytes + c->state_bytes);
    m->kv_end_bytes = (int64_t)(b.alloc_bytes + b.meta_bytes + c->state_bytes);
    m->kv_committed_bytes = (int64_t)b.committed_bytes;
    m->weight_bytes = (int64_t)u->info->weight_bytes;
    m->scratch_peak_bytes =
        (int64_t)(kva_model_scratch_bytes(u->model) + c->scratch_bytes);
    m->dev_delta_bytes = m->dev_peak_bytes = m->host_peak_bytes = -1;
    m->entries_kept = (int64_t)b.entries_kept;
    m->entries_masked = (int64_t)b.entries_masked;
    m->audit = 0;
    if (c->cell->enforce != KVA_PHYSICAL)
        return;
    if (b.live_bytes > budget_total * b.row_bytes)
        m->audit |= 1;
    if (b.alloc_bytes > pages_needed(u, store) * KVA_PAGE * b.row_bytes)
        m->audit |= 2;
    if (b.entries_masked > 0)
        m->audit |= 4;
    if (before_alloc > pages_needed(u, store) * KVA_PAGE * b.row_bytes &&
        b.alloc_bytes >= before_alloc)
        m->audit |= 8;
    if (kva_kvstore_check(store, &bad) != KVA_OK)
        m->audit |= 32;
    /* the driver gives nothing back: only a cap that is the budget proves anything */
    if (m->audit == 0 && c->cell->method.scorer != NULL && !kva_prefills_own(c->cell) &&
        !kva_kvstore_resident(store))
        m->audit = -1;
}

void kva_memory_end(const struct kva_unit_run *u, struct kva_run_cell *c,
                    struct kva_db_memory *m)
{
    struct kva_session *s = c->session;
    const struct kva_kvshape *shape = kva_kvstore_shape(kva_session_store(s));
    uint64_t kvheads = (uint64_t)(shape->layers * shape->kv_heads), allowed;
    struct kva_kv_bytes b;

    if (kva_keeps_state(c->cell))
        c->state_bytes = kva_state_bytes(u, c->cell, s);
    kva_kvstore_bytes(kva_session_store(s), &b);
    m->kv_end_bytes = (int64_t)(b.alloc_bytes + b.meta_bytes + c->state_bytes);
    if ((int64_t)(b.peak_bytes + c->state_bytes) > m->kv_peak_bytes)
        m->kv_peak_bytes = (int64_t)(b.peak_bytes + c->state_bytes);
    if (c->cell->enforce != KVA_PHYSICAL)
        return;
    allowed = (uint64_t)m->entries_kept +
              (uint64_t)(c->n_before + c->n_ids + c->n_gen) * kvheads;
    if (c->cell->schedule.decode > 0)
        allowed = c->budget_total + (uint64_t)c->cell->schedule.decode * kvheads;
    if (b.entries_kept > allowed)
        kva_audit_add(m, 64);
}

static uint64_t available_bytes(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    char line[128];
    uint64_t kb = 0;

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "MemAvailable:", 13) == 0)
            kb = strtoull(line + 13, NULL, 10);
    if (f != NULL)
        (void)fclose(f);
    return kb * 1024;
}

int kva_wave_limit(const struct kva_unit_run *u, int most)
{
    int tokens = (int)u->prompt.context.n, jobs = u->opts->jobs > 0 ? u->opts->jobs : 1;
    uint64_t element = u->unit->kv == KVA_F32 ? 4 : 2, avail = available_bytes(), fit;
    uint64_t cell;

    for (int q = 0; q < (kva_unit_talks(u) ? u->unit->n_idx : 1); q++) {
        int most_new = u->items[q].max_new_tokens, total = u->items[q].max_total;

        if (total > 0 && most_new > total)
            most_new = total;
        tokens += (int)u->questions[q].ids.n + most_new;
    }
    cell = kva_page_cap(u->info, NULL, tokens, 0) * KVA_PAGE *
           (uint64_t)(u->info->head_dim + u->info->v_dim) * element;
    if (avail == 0 || cell == 0)
        return most;
    fit = avail / 2 / (uint64_t)jobs / cell;
    return fit >= (uint64_t)most ? most : fit < 1 ? 1 : (int)fit;
}
