/* SPDX-License-Identifier: GPL-3.0-or-later */
/* compare.c - the steps of a comparison: join the sides, pair, judge, tabulate. */
#include "reports/compare_internal.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum kva_status defaults(struct kva_compare_opts *o, struct kva_error *err)
{
    if (!(o->alpha > 0))
        o->alpha = 0.05;
    if (o->replicates == 0)
        o->replicates = 10000;
    if (o->width <= 0)
        o->width = 100;
    if (o->match == 0)
        o->match = o->free & (KVA_COMPARE_METHOD | KVA_COMPARE_ENFORCE)
                       ? KVA_COMPARE_NOMINAL | KVA_COMPARE_BYTES
                       : KVA_COMPARE_NOMINAL;
    if (o->replicates < 1)
        return KVA_FAIL(err, KVA_EINVALID, "a bootstrap needs at least one replicate");
    if (o->nats && o->missing_zero)
        return KVA_FAIL(err, KVA_EINVALID,
                        "a failed outcome has no answer nats that could be set to zero: "
                        "--missing zero goes with the score");
    return KVA_OK;
}

/* Where nothing meets: the pair that agrees in most, and what it differs in. */
static enum kva_status none_meets(const struct kva_sides *j, const struct kva_cells *c,
                                  unsigned free_keys, struct kva_error *err)
{
    static const char *const name[] = {"model",
                                       "method",
                                       "task",
                                       "budget",
                                       "enforce",
                                       "schedule",
                                       "visibility",
                                       "numerics",
                                       "kv",
                                       "sampling",
                                       "the rest of the suite's settings"};
    char list[200] = "";
    unsigned best = ~0u;
    bool same = j->n[0] == j->n[1];

    for (int i = 0; i < j->n[0] && same; i++)
        same = j->cell[0][i] == j->cell[1][i];
    if (same)
        return KVA_FAIL(err, KVA_EINVALID,
                        "A and B select the same %d cells, and no cell is compared with "
                        "itself",
                        j->n[0]);
    for (int i = 0; i < j->n[0]; i++)
        for (int k = 0; k < j->n[1]; k++) {
            const struct kva_data_cell *x = &j->d.cells[j->cell[0][i]];
            const struct kva_data_cell *y = &j->d.cells[j->cell[1][k]];
            unsigned differs =
                (x->model != y->model ? 1u : 0) |
                (strcmp(x->method, y->method) != 0 ? 2u : 0) |
                (x->task != y->task ? 4u : 0) | (x->budget != y->budget ? 8u : 0) |
                (strcmp(x->enforce, y->enforce) != 0 ? 16u : 0) |
                (strcmp(x->schedule, y->schedule) != 0 ? 32u : 0) |
                (strcmp(x->visibility, y->visibility) != 0 ? 64u : 0) |
                (strcmp(x->numerics, y->numerics) != 0 ? 128u : 0) |
                (strcmp(x->kv, y->kv) != 0 ? 256u : 0) |
                (strcmp(kva_data_sampling(x), kva_data_sampling(y)) != 0 ? 512u : 0) |
                (strcmp(c->rest[j->cell[0][i]], c->rest[j->cell[1][k]]) != 0 ? 1024u : 0);

            differs &= ~free_keys;
            if (x != y && differs &&
                __builtin_popcount(differs) < __builtin_popcount(best))
                best = differs;
        }
    for (int k = 0; k < 11; k++)
        if (best != ~0u && best & 1u << k) {
            (void)strncat(list, list[0] ? ", " : "; the nearest differ in ", 26);
            (void)strncat(list, name[k], 40);
        }
    return KVA_FAIL(err, KVA_EMISSING,
                    "no cell of A (%d) has a partner among those of B (%d)%s", j->n[0],
                    j->n[1], list);
}

static bool not_cpu(const struct kva_data *d)
{
    for (int i = 0; i < d->n_outcomes; i++) {
        int run = d->outcomes[i].run;

        if (run >= 0 && run < d->n_runs && d->runs[run].backend &&
            strcmp(d->runs[run].backend, "cpu") != 0)
            return true;
    }
    return false;
}

static enum kva_status duel(struct kva_compare *x, const struct kva_sides *j, int *valid,
                            struct kva_error *err)
{
    *valid = 0;
    for (int m = 0; m < 2; m++) {
        struct kva_duels *u = &x->duels[m];

        if (!(x->opts->match & (m ? KVA_COMPARE_BYTES : KVA_COMPARE_NOMINAL)))
            continue;
        KVA_TRY(kva_duels_pair(x->d, x->c, j->cell[0], j->n[0], j->cell[1], j->n[1],
                               x->opts->free, m == 1, u, err));
        KVA_TRY(kva_duels_judge(x->r, x->d, x->c, u, &x->rules, err));
        KVA_TRY(kva_tally_count(u, x->opts->ties, &x->tally[m], err));
        KVA_TRY(kva_tally_mean(x->d, x->c, u, NULL, 0, &x->rules, &x->tally[m], err));
        x->done[m] = true;
        *valid += u->n - x->tally[m].invalid;
    }
    if (x->duels[0].n + x->duels[1].n == 0)
        return none_meets(j, x->c, x->opts->free, err);
    return KVA_OK;
}

enum kva_status kva_compare_build(const struct kva_compare_side side[2],
                                  const struct kva_compare_opts *opts,
                                  struct kva_report **out, int *valid,
                                  struct kva_error *err)
{
    struct kva_report *r = kva_calloc(1, sizeof *r);
    struct kva_compare_opts o = *opts;
    struct kva_compare x = {.r = r, .opts = &o};
    struct kva_sides j = {0};
    struct kva_cells c = {0};
    enum kva_status rc;

    *out = NULL;
    if (!r)
        return KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
    kva_arena_init(&r->arena);
    KVA_GO(defaults(&o, err));
    r->opts = (struct kva_report_opts){.view = "pairs",
                                       .seed = o.seed,
                                       .replicates = o.replicates,
                                       .alpha = o.alpha,
                                       .color = o.color,
                                       .width = o.width,
                                       .one_view = true};
    r->view = KVA_VIEW_PAIRS;
    r->label = r->limit = "";
    x.rules =
        (struct kva_duel_rules){.free = o.free,
                                .measure = o.nats ? KVA_MEASURE_NATS : KVA_MEASURE_SCORE,
                                .epsilon = o.epsilon,
                                .alpha = o.alpha,
                                .seed = o.seed,
                                .replicates = o.replicates};
    for (int s = 0; s < 2; s++) {
        x.label[s] = kva_report_clean(&r->arena, side[s].label);
        if (!x.label[s]) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
            goto out;
        }
    }
    KVA_GO(kva_sides_join(side, o.missing_zero, &j, err));
    x.d = &j.d;
    x.c = &c;
    x.n_cells[0] = j.n[0];
    x.n_cells[1] = j.n[1];
    x.other_backend = not_cpu(&j.d);
    KVA_GO(kva_cells_prepare(r, &j.d, &c, err));
    KVA_GO(duel(&x, &j, valid, err));
    KVA_GO(kva_compare_tables(&x, err));
    if (r->nomem)
        rc = KVA_FAIL(err, KVA_ENOMEM, "compare: out of memory");
out:
    kva_duels_release(&x.duels[0]);
    kva_duels_release(&x.duels[1]);
    kva_cells_release(&c);
    kva_sides_release(&j);
    if (rc == KVA_OK)
        *out = r;
    else
        kva_report_free(r);
    return rc;
}

static const struct kva_tab *table_named(const struct kva_report *r, const char *id)
{
    for (int i = 0; i < r->n_tab; i++)
        if (strcmp(r->tab[i].id, id) == 0)
            return &r->tab[i];
    return NULL;
}

enum kva_status kva_compare_json(const struct kva_report *r, struct kva_buf *out,
                                 struct kva_error *err)
{
    static const char *const member[] = {"tallies", "pairs", "pairs_bytes", "means",
                                         "lone"};

    kva_buf_puts(out,
                 "{\"schema\":\"kvaudit.compare/1\",\"version\":\"" KVA_VERSION "\",\n");
    kva_buf_puts(out, r->json_head);
    for (size_t k = 0; k < sizeof member / sizeof member[0]; k++) {
        const struct kva_tab *t = table_named(r, member[k]);

        kva_buf_printf(out, ",\n\"%s\":[", member[k]);
        for (int i = 0; t && i < t->n_row; i++) {
            kva_buf_puts(out, i ? ",\n  " : "\n  ");
            kva_json_row(t, &t->row[i], out);
        }
        kva_buf_putc(out, ']');
    }
    kva_buf_puts(out, ",\n");
    kva_json_strings("words", r->footer, r->n_footer, out);
    kva_buf_puts(out, "}\n");
    return kva_buf_status(out, err);
}
