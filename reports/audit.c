/* SPDX-License-Identifier: GPL-3.0-or-later */
/* audit.c - T-AUDIT: verdicts by claim, bytes of each implementation, what a loss is made
 * of (reports.md 5.3, analysis.md 6.3). Formats the rows an audit has stored. */
#include "reports/internal.h"

#include <math.h>
#include <string.h>

/* The rows of one cell under one implementation. */
struct audited {
    const struct kva_data_claim *row;
    int n;
};

static const struct kva_data_claim *find(const struct audited *a, const char *claim)
{
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->row[i].claim, claim) == 0)
            return &a->row[i];
    return NULL;
}

static struct kva_val number(const struct audited *a, const char *name)
{
    const struct kva_data_claim *c = find(a, name);
    struct kva_val v = kva_val_number(c ? c->value : (double)NAN);

    if (c) {
        v.lo = c->lo;
        v.hi = c->hi;
    }
    return v;
}

static int next(const struct kva_data *d, int at, struct audited *a)
{
    int i = at;

    while (i < d->n_claims && d->claims[i].cell == d->claims[at].cell &&
           strcmp(d->claims[i].impl, d->claims[at].impl) == 0)
        i++;
    *a = (struct audited){d->claims + at, i - at};
    return i;
}

enum { A_MODEL, A_METHOD, A_KEEP, A_IMPL, A_NAMES };
#define NAMES                                                                            \
    {"model", "model", "", KVA_COL_TEXT, 0, false, 9, false, ""},                        \
        {"method", "method", "", KVA_COL_TEXT, 0, false, 0, false, "short name"},        \
        {"keep", "keep", "", KVA_COL_TEXT, 0, false, 0, false, "nominal budget"},        \
    {                                                                                    \
        "enforce", "held as", "", KVA_COL_TEXT, 0, false, 0, false, "enforcement"        \
    }

static struct kva_row *named_row(struct kva_report *r, struct kva_tab *t,
                                 const struct kva_data *d, const struct kva_cells *c,
                                 const struct audited *a)
{
    const struct kva_data_cell *cell = &d->cells[a->row->cell];
    struct kva_row *row = kva_tab_row(r, t);
    const char *keep = kva_report_budget(&r->arena, cell->budget_kind, cell->budget);

    if (!row)
        return NULL;
    if (strcmp(cell->schedule, "oneshot") != 0)
        keep = kva_arena_printf(&r->arena, "%s %s", keep, cell->schedule);
    if (d->n_models > 1)
        row->cell[A_MODEL] =
            kva_val_text(kva_report_clean(&r->arena, d->models[cell->model].name));
    row->cell[A_METHOD] = kva_val_text(c->name[a->row->cell]);
    row->cell[A_METHOD].title = kva_report_clean(&r->arena, cell->method);
    row->cell[A_KEEP] = kva_val_text(keep);
    row->cell[A_IMPL] = kva_val_text(kva_report_clean(&r->arena, a->row->impl));
    row->group = t->n_row > 1 && a->row > d->claims && a->row[-1].cell != a->row->cell;
    return row;
}

/* ---- verdicts ---- */

enum { G_K1 = A_NAMES, G_HEADLINE = G_K1 + 8, G_REASON, G_COLS };
static const struct kva_col GRID[G_COLS] = {
    NAMES,
    {"K1", "K1", "", KVA_COL_TEXT, 0, false, 1, false, "held bytes are the nominal ones"},
    {"K2", "K2", "", KVA_COL_TEXT, 0, false, 3, false, "the share kept is the one named"},
    {"K3", "K3", "", KVA_COL_TEXT, 0, false, 1, false,
     "masked and physical caches of one set say the same"},
    {"K4", "K4", "", KVA_COL_TEXT, 0, false, 2, false,
     "the published score stands at the nominal bytes"},
    {"K5", "K5", "", KVA_COL_TEXT, 0, false, 1, false, "the question was not seen"},
    {"K6", "K6", "", KVA_COL_TEXT, 0, false, 3, false,
     "a block is read on the cache that was cut before it"},
    {"K7", "K7", "", KVA_COL_TEXT, 0, false, 2, false, "the peak is the one claimed"},
    {"K8", "K8", "", KVA_COL_TEXT, 0, false, 2, false,
     "while answering the cache grows as the policy says"},
    {"verdict", "verdict", "", KVA_COL_TEXT, 0, false, 0, false, "the worst of K1 to K8"},
    {"reason", "reason", "", KVA_COL_TEXT, 0, false, 4, false, "codes of what failed"},
};

static const char *reasons(struct kva_report *r, const struct audited *a)
{
    struct kva_buf out;
    const char *text;

    kva_buf_init(&out, 0);
    for (int i = 0; i < a->n; i++)
        if (a->row[i].claim[0] == 'K' && a->row[i].reason)
            kva_buf_printf(&out, "%s%s", out.len ? ", " : "", a->row[i].reason);
    text = kva_report_clean(&r->arena, out.len ? out.data : "");
    r->nomem |= out.failed || !text;
    kva_buf_release(&out);
    return text;
}

/* A reason is told once, with the first row it holds for; undecided ones always. */
static void tell(struct kva_report *r, struct kva_tab *t, const char *name,
                 const struct audited *a, const char **told, int *n_told, int cap)
{
    for (int i = 0; i < a->n; i++) {
        const struct kva_data_claim *c = &a->row[i];
        bool open = strcmp(c->verdict, "UNDECIDED") == 0,
             untested = strcmp(c->verdict, "UNTESTED") == 0;
        const char *key = kva_arena_printf(&r->arena, "%s %s %s",
                                           untested ? a->row->impl : c->claim, c->verdict,
                                           c->reason ? c->reason
                                           : c->note ? c->note
                                                     : "");
        bool known = false;

        if (c->claim[0] != 'K' || !c->note || !c->note[0] ||
            strcmp(c->verdict, "UPHELD") == 0 || strcmp(c->verdict, "N/A") == 0)
            continue;
        r->nomem |= !key;
        for (int k = 0; key && k < *n_told && !open; k++)
            known = known || strcmp(told[k], key) == 0;
        if (known || !key)
            continue;
        if (*n_told < cap)
            told[(*n_told)++] = key;
        if (untested)
            kva_tab_note(r, t, "UNTESTED: %s: %s.", c->impl, c->note);
        else
            kva_tab_note(r, t, "%s %s%s%s: %s, %s: %s.", c->claim, c->verdict,
                         c->reason ? " " : "", c->reason ? c->reason : "", name, c->impl,
                         c->note);
    }
}

/* What decisions said beside what they kept, once for each cell. */
static void tell_facts(struct kva_report *r, struct kva_tab *t, const char *name,
                       const struct audited *a)
{
    const struct kva_data_claim *fell = find(a, "fell_back"), *stage = find(a, "stage1");

    if (strcmp(a->row->impl, "physical") != 0)
        return;
    if (fell)
        kva_tab_note(r, t,
                     "%s fell back to uniform shares in %.0f %% of its samples: the rule "
                     "of the allocator does not fit this budget.",
                     name, 100 * fell->value);
    if (stage)
        kva_tab_note(
            r, t,
            "%s: stage 1 holds more than half of the attention in %.1f %% of the "
            "KV heads, as CriticalKV assumes.",
            name, 100 * stage->value);
}

static void grid_table(struct kva_report *r, const struct kva_data *d,
                       const struct kva_cells *c)
{
    struct kva_tab *t = kva_tab_add(r, "audit", KVA_VIEW_AUDIT, GRID, G_COLS);
    struct audited a;
    const char *told[64];
    int n_told = 0;

    if (!t)
        return;
    t->heading = "Audit";
    t->caption = "Claims of each method, as published (mask) and as held here";
    for (int at = 0, end; at < d->n_claims; at = end) {
        struct kva_row *row;
        const char *name;

        end = next(d, at, &a);
        if (c->left_out[a.row->cell] || !(row = named_row(r, t, d, c, &a)))
            continue;
        for (int k = 0; k < 8; k++) {
            char id[3] = {'K', (char)('1' + k), 0};
            const struct kva_data_claim *one = find(&a, id);

            row->cell[G_K1 + k] =
                kva_val_text(one ? kva_report_clean(&r->arena, one->verdict) : "");
            if (one && one->note)
                row->cell[G_K1 + k].title = kva_report_clean(&r->arena, one->note);
        }
        if (find(&a, "headline"))
            row->cell[G_HEADLINE] =
                kva_val_text(kva_report_clean(&r->arena, find(&a, "headline")->verdict));
        row->cell[G_HEADLINE].strong = true;
        row->cell[G_REASON] = kva_val_text(reasons(r, &a));
        name = kva_arena_printf(&r->arena, "%s at %s", row->cell[A_METHOD].text,
                                row->cell[A_KEEP].text);
        tell(r, t, name, &a, told, &n_told, 64);
        tell_facts(r, t, name, &a);
    }
    kva_tab_note(r, t,
                 "K1 bytes, K2 share kept, K3 mask = physical, K4 score at the "
                 "nominal bytes, K5 no look at the question, K6 block by block, K7 "
                 "peak, K8 growth while answering.");
}

/* ---- bytes ---- */

enum {
    B_KEPT = A_NAMES,
    B_HELD,
    B_NOMINAL,
    B_ALLOC,
    B_META,
    B_PACKED,
    B_MASKED,
    B_PEAK,
    B_VERDICT,
    B_SCORE,
    B_NATS,
    B_PUBLISHED,
    B_COLS
};
static const struct kva_col BYTES[B_COLS] = {
    NAMES,
    {"live_share", "live", "%", KVA_COL_PERCENT, 1, false, 1, false,
     "entries that can be read, of the full cache"},
    {"effective", "effective", "%", KVA_COL_PERCENT, 1, false, 0, false,
     "bytes held, metadata included, of the full cache"},
    {"nominal_bytes", "nominal", "", KVA_COL_BYTES, 0, false, 2, false, "bytes claimed"},
    {"held_bytes", "held", "", KVA_COL_BYTES, 0, false, 1, false, "pages in use"},
    {"meta_bytes", "meta", "", KVA_COL_BYTES, 0, false, 3, false,
     "positions, tables, what is kept between steps"},
    {"packed_bytes", "packed", "", KVA_COL_BYTES, 0, false, 5, false,
     "the same entries in pages of one entry"},
    {"entries_masked", "hidden", "", KVA_COL_INT, 0, false, 4, false,
     "entries stored but unreadable"},
    {"peak_bytes", "peak", "", KVA_COL_BYTES, 0, false, 2, false,
     "largest cache from the first token of the prompt to the last of the answer"},
    {"k1", "K1", "", KVA_COL_TEXT, 0, false, 1, false, "verdict on the bytes"},
    {"score", "score", "%", KVA_COL_PERCENT, 1, false, 1, false, "mean over samples"},
    {"nats", "nats", "", KVA_COL_REAL, 3, false, 6, false, "answer nats"},
    {"published", "published as", "", KVA_COL_TEXT, 0, false, 7, false,
     "what the published code of the method holds"},
};

static void bytes_table(struct kva_report *r, const struct kva_data *d,
                        const struct kva_cells *c)
{
    static const char *const facts[] = {"share.live",     "share.held", "bytes.nominal",
                                        "bytes.held",     "bytes.meta", "bytes.packed",
                                        "entries.masked", "bytes.peak", NULL,
                                        "score",          "nats",       NULL};
    struct kva_tab *t = kva_tab_add(r, "audit-bytes", KVA_VIEW_AUDIT, BYTES, B_COLS);
    struct audited a;

    if (!t)
        return;
    t->heading = "Audit";
    t->caption = "Bytes claimed and bytes held";
    for (int at = 0, end; at < d->n_claims; at = end) {
        struct kva_row *row;

        end = next(d, at, &a);
        if (c->left_out[a.row->cell] || !find(&a, "bytes.held") ||
            !(row = named_row(r, t, d, c, &a)))
            continue;
        for (int k = 0; k < B_COLS - A_NAMES; k++)
            if (facts[k])
                row->cell[A_NAMES + k] = number(&a, facts[k]);
        if (find(&a, "published") && find(&a, "published")->note)
            row->cell[B_PUBLISHED] =
                kva_val_text(kva_report_clean(&r->arena, find(&a, "published")->note));
        if (find(&a, "K1"))
            row->cell[B_VERDICT] =
                kva_val_text(kva_report_clean(&r->arena, find(&a, "K1")->verdict));
    }
    kva_tab_note(r, t,
                 "One-shot prefill needs the whole cache before the first eviction: its "
                 "peak falls with block, chunked and layerwise schedules only. Caches "
                 "that were pruned are not comparable with MLPerf's closed division.");
}

/* ---- what a loss is made of ---- */

enum {
    S_TOTAL = A_NAMES,
    S_STORAGE,
    S_OVERSHOOT,
    S_UNIFORMITY,
    S_N_TOTAL,
    S_N_STORAGE,
    S_N_OVERSHOOT,
    S_N_UNIFORMITY,
    S_MARGIN,
    S_N_MARGIN,
    S_COLS
};
#define POINTS(id, label, weight, help)                                                  \
    {                                                                                    \
        id, label, "points", KVA_COL_PERCENT, 1, true, weight, false, help               \
    }
#define NATS(id, label, weight, help)                                                    \
    {                                                                                    \
        id, label, "nats", KVA_COL_REAL, 3, true, weight, false, help                    \
    }
static const struct kva_col SPLIT[S_COLS] = {
    NAMES,
    POINTS("total", "total", 1, "masked as published less uniform at the nominal bytes"),
    POINTS("storage", "storage", 1, "masked less physical, the same sets"),
    POINTS("overshoot", "overshoot", 1, "what entries beyond the budget were worth"),
    POINTS("uniformity", "uniformity", 1, "what unequal KV heads were worth"),
    NATS("total_nats", "total", 3, "the same in answer nats: less is better"),
    NATS("storage_nats", "storage", 3, ""),
    NATS("overshoot_nats", "overshoot", 3, ""),
    NATS("uniformity_nats", "uniformity", 2, ""),
    POINTS("margin_qa", "question", 2, "having seen the question, less not having"),
    NATS("margin_qa_nats", "question", 3, "the same in answer nats"),
};

static void split_table(struct kva_report *r, const struct kva_data *d,
                        const struct kva_cells *c)
{
    static const char *const facts[] = {
        "score.total",     "score.storage", "score.overshoot", "score.uniformity",
        "nats.total",      "nats.storage",  "nats.overshoot",  "nats.uniformity",
        "margin_qa.score", "margin_qa.nats"};
    struct kva_tab *t = NULL;
    struct audited a;

    for (int at = 0, end; at < d->n_claims; at = end) {
        struct kva_row *row;

        end = next(d, at, &a);
        if (c->left_out[a.row->cell] || strcmp(a.row->impl, "physical") != 0 ||
            !find(&a, "score.storage"))
            continue;
        if (!t && !(t = kva_tab_add(r, "audit-split", KVA_VIEW_AUDIT, SPLIT, S_COLS)))
            return;
        t->heading = "Audit";
        t->caption = "What is lost between the published score and equal bytes, "
                     "with paired 95 % intervals";
        if (!(row = named_row(r, t, d, c, &a)))
            return;
        row->group = false;
        for (int k = 0; k < S_COLS - A_NAMES; k++)
            row->cell[A_NAMES + k] = number(&a, facts[k]);
    }
    if (t)
        kva_tab_note(r, t,
                     "total = storage + overshoot + uniformity. Points of the score "
                     "and nats of the gold answer, same samples in all arms.");
}

void kva_audit_tables(struct kva_report *r, const struct kva_data *d,
                      const struct kva_cells *c)
{
    if (d->n_claims == 0)
        return;
    grid_table(r, d, c);
    bytes_table(r, d, c);
    split_table(r, d, c);
}
