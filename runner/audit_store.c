/* SPDX-License-Identifier: GPL-3.0-or-later */
/* audit_store.c - verdicts, the numbers beside them and leaks as rows of the database. */
#include <sqlite3.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/audit.h"

static struct kva_db_value real(double v)
{
    return isnan(v) ? (struct kva_db_value){.type = KVA_DB_NULL} : kva_db_real(v);
}

static enum kva_status put_claim(struct kva_db *db, int64_t run, int64_t cell,
                                 const struct kva_audit_row *r, const char *method,
                                 const char *claim, const char *verdict,
                                 const struct kva_claim_result *v, struct kva_error *err)
{
    struct kva_db_value row[] = {kva_db_int(run),
                                 kva_db_int(cell),
                                 kva_db_text(method),
                                 kva_db_text(kva_arm_enforce(r->arm)),
                                 kva_db_text(claim),
                                 kva_db_text(verdict),
                                 kva_db_text(v->reason),
                                 real(v->value),
                                 real(v->threshold),
                                 real(v->lo),
                                 real(v->hi),
                                 kva_db_text(v->note[0] != '\0' ? v->note : NULL)};

    return kva_db_put_row(db, "an_claim",
                          "run_id,cell_id,method,impl,claim,verdict,reason,value,"
                          "threshold,ci_lo,ci_hi,note",
                          row, sizeof row / sizeof *row, NULL, err);
}

/* How the published code of the method holds its cache: the allocator says it where it
 * shapes the cache, else the wrapper, else the scorer. */
static const char *published(const struct kva_method *m)
{
    if (strcmp(m->allocator->name, "uniform") != 0)
        return m->allocator->storage;
    if (m->wrapper != NULL)
        return m->wrapper->storage;
    return m->scorer->storage;
}

static enum kva_status put_row(struct kva_db *db, int64_t run, const struct kva_plan *p,
                               const struct kva_audit_row *r, struct kva_error *err)
{
    const struct kva_cell *c = &p->cells[r->cell];
    struct kva_claim_result none = kva_claim_note(r->headline, "%s", "");

    for (int k = 0; k < KVA_CLAIMS; k++)
        KVA_TRY(put_claim(db, run, c->cell_id, r, c->method.spec, kva_claim_ids[k],
                          kva_finding_text(r->claim[k].verdict), &r->claim[k], err));
    for (int k = 0; k < r->n_fact; k++) {
        struct kva_claim_result v = none;

        v.value = r->fact[k].value;
        v.lo = r->fact[k].lo;
        v.hi = r->fact[k].hi;
        memcpy(v.note, r->fact[k].note, sizeof r->fact[k].note);
        KVA_TRY(put_claim(db, run, c->cell_id, r, c->method.spec, r->fact[k].name, "-",
                          &v, err));
    }
    snprintf(none.note, sizeof none.note, "%s",
             published(&c->method) != NULL ? published(&c->method) : "");
    KVA_TRY(
        put_claim(db, run, c->cell_id, r, c->method.spec, "published", "-", &none, err));
    none.note[0] = '\0';
    return put_claim(db, run, c->cell_id, r, c->method.spec, "headline",
                     kva_finding_text(r->headline), &none, err);
}

/* Id of a row by its digest; 0: not in this file (a probe in other numerics). */
static enum kva_status id_of(struct kva_db *db, const char *sql, const uint8_t digest[32],
                             int64_t *id, struct kva_error *err)
{
    sqlite3 *h = kva_db_handle(db);
    sqlite3_stmt *st = NULL;

    *id = 0;
    if (sqlite3_prepare_v2(h, sql, -1, &st, NULL) != SQLITE_OK)
        return KVA_FAIL(err, KVA_EDB, "%s: %s", kva_db_path(db), sqlite3_errmsg(h));
    sqlite3_bind_blob(st, 1, digest, 32, SQLITE_STATIC);
    if (sqlite3_step(st) == SQLITE_ROW)
        *id = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return KVA_OK;
}

static enum kva_status put_leak(struct kva_db *db, int64_t run,
                                const struct kva_probes *p,
                                const struct kva_probe_leak *l, struct kva_error *err)
{
    int64_t cell, sample;

    KVA_TRY(id_of(db, "SELECT cell_id FROM cell WHERE digest=?",
                  p->plan.cells[l->cell].digest, &cell, err));
    KVA_TRY(id_of(db, "SELECT sample_id FROM sample WHERE digest=?", l->sample, &sample,
                  err));
    if (cell == 0 || sample == 0)
        return KVA_OK;
    struct kva_db_value row[] = {kva_db_int(run),        kva_db_int(sample),
                                 kva_db_int(cell),       kva_db_text(l->variant),
                                 kva_db_int(l->heads),   kva_db_int(l->changed),
                                 kva_db_real(l->jaccard)};
    return kva_db_put_row(db, "an_leak",
                          "run_id,sample_id,cell_id,variant,kvheads,changed,jaccard", row,
                          sizeof row / sizeof *row, NULL, err);
}

enum kva_status kva_audit_store(const struct kva_audit *a, const struct kva_plan *plan,
                                const struct kva_probes *probes, struct kva_db *db,
                                int64_t run_id, struct kva_error *err)
{
    enum kva_status rc = KVA_OK;

    KVA_TRY(kva_db_begin(db, err));
    for (int i = 0; i < a->n_row; i++)
        KVA_GO(put_row(db, run_id, plan, &a->row[i], err));
    for (int i = 0; probes != NULL && i < probes->n_leak; i++)
        KVA_GO(put_leak(db, run_id, probes, &probes->leak[i], err));
    KVA_GO(kva_db_commit(db, err));
    return KVA_OK;
out:
    kva_db_rollback(db);
    return rc;
}
