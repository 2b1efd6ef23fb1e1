/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nightly_past.c - what the gate would have said in other nights: the narrowest interval
 * of a failure, verdicts that flip, the history figure (reports.md 7.5, 7.6). */
#include "runner/nightly.h"

#include <stdlib.h>
#include <string.h>

/* gate, digest, what */
static size_t row_key(const struct kva_regress_row *row, char out[64])
{
    size_t n = strlen(row->what);

    out[0] = (char)row->gate;
    memcpy(out + 1, row->digest, 32);
    n = n < 31 ? n : 31;
    memcpy(out + 33, row->what, n);
    return 33 + n;
}

static enum kva_status add_night(struct kva_past *p, const struct kva_regress *r,
                                 const struct kva_data *now, struct kva_error *err)
{
    struct kva_past_night *grown = kva_realloc(p->night, (size_t)p->n + 1, sizeof *grown);
    const char *commit;

    if (!grown)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    p->night = grown;
    grown += p->n++;
    memset(grown, 0, sizeof *grown);
    kva_map_init(&grown->failed);
    grown->ms = kva_data_when(now, &commit);
    grown->commit = kva_arena_strdup(&p->arena, commit);
    if (!grown->commit)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
    for (int i = 0; i < r->n_row; i++) {
        const struct kva_regress_row *row = &r->row[i];
        char key[64];
        int64_t was = 0;

        if (row->scale > 1 || row->verdict == KVA_REGRESS_MISSING ||
            row->verdict == KVA_REGRESS_INCOMPARABLE)
            continue;
        (void)kva_map_get(&grown->failed, key, row_key(row, key), &was);
        KVA_TRY(kva_map_put(&grown->failed, key, row_key(row, key),
                            was || row->verdict == KVA_REGRESS_FAIL ||
                                row->verdict == KVA_REGRESS_QUARANTINED,
                            NULL, err));
    }
    return kva_history_add(&p->history, r, now, err);
}

static enum kva_status judge(struct kva_past *p, const char *db,
                             const struct kva_data *base,
                             const struct kva_regress_opts *o, struct kva_error *err)
{
    const char *selector = kva_arena_printf(&p->arena, "db=%s", db);
    struct kva_night n;
    struct kva_regress r;
    enum kva_status rc;

    memset(&n, 0, sizeof n);
    kva_regress_init(&r, o);
    if (!selector) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "out of memory");
        goto out;
    }
    KVA_GO(kva_night_load(selector, &n, err));
    KVA_GO(kva_regress_add(&r, base, n.data, "base", 1, err));
    KVA_GO(kva_regress_decide(&r, NULL, 0, 0, err));
    KVA_GO(add_night(p, &r, n.data, err));
out:
    kva_regress_release(&r);
    kva_night_release(&n);
    return rc;
}

static int by_time(const void *x, const void *y)
{
    const struct kva_past_night *a = x, *b = y;

    if (a->ms != b->ms)
        return a->ms < b->ms ? -1 : 1;
    return strcmp(a->commit, b->commit);
}

enum kva_status kva_past_load(const char *const *db, int n, const struct kva_data *base,
                              const struct kva_regress *r, const struct kva_data *now,
                              struct kva_past *p, struct kva_error *err)
{
    struct kva_regress_opts o = r->opts;

    memset(p, 0, sizeof *p);
    kva_arena_init(&p->arena);
    kva_history_init(&p->history);
    o.allow_removed = true; /* another suite is no failure of an old night */
    for (int i = 0; i < n; i++)
        KVA_TRY(judge(p, db[i], base, &o, err));
    KVA_TRY(add_night(p, r, now, err));
    qsort(p->night, (size_t)p->n, sizeof *p->night, by_time);
    return kva_history_close(&p->history, err);
}

void kva_past_release(struct kva_past *p)
{
    for (int i = 0; i < p->n; i++)
        kva_map_release(&p->night[i].failed);
    free(p->night);
    kva_history_release(&p->history);
    kva_arena_release(&p->arena);
    memset(p, 0, sizeof *p);
}

void kva_past_narrow(const struct kva_past *p, const struct kva_regress_row *row,
                     const struct kva_past_night **good,
                     const struct kva_past_night **fails)
{
    char key[64];
    size_t n = row_key(row, key);
    int64_t failed;

    *good = *fails = NULL;
    /* backwards from the newest: the failures that have lasted until now */
    for (int i = p->n - 1; i >= 0; i--) {
        if (!kva_map_get(&p->night[i].failed, key, n, &failed))
            continue;
        if (!failed) {
            *good = &p->night[i];
            return;
        }
        *fails = &p->night[i];
    }
}

int kva_past_flips(const struct kva_past *p, const struct kva_regress_row *row, int last,
                   int *seen)
{
    char key[64];
    size_t n = row_key(row, key);
    int64_t failed, was = 0;
    int flips = 0;

    *seen = 0;
    for (int i = p->n > last ? p->n - last : 0; i < p->n; i++) {
        if (!kva_map_get(&p->night[i].failed, key, n, &failed))
            continue;
        flips += *seen > 0 && failed != was;
        was = failed;
        (*seen)++;
    }
    return flips;
}
