/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cmd_compare.c - `kvaudit compare A B`: paired win, tie and loss of two selections. */
#include "runner/cmd_compare.h"

#include <stdlib.h>
#include <string.h>

static struct kva_compare_args opt;

const struct kva_opt *kva_cmd_compare_options(void)
{
    static const struct kva_opt table[] = {
        {"gate", 0, KVA_OPT_STR, &opt.gate, "FILE",
         "judge B against A by the rules of FILE; exit 1 when one is broken", 0, 0},
        {"format", 'f', KVA_OPT_STR, &opt.format, "FORMAT",
         "text, json, csv or markdown (default text)", 0, 0},
        {0},
    };

    return table;
}

/* ---- loading ---- */

/* The files of a side: those of its db= conditions, else those of --db. */
static int paths_of(const struct kva_select *s, const char **path)
{
    int n = 0;

    for (int i = 0; i < s->n; i++)
        if (s->term[i].key == KVA_SELECT_DB)
            path[n++] = s->term[i].value;
    for (int i = 0; n == 0 && i < kva_common.db.n && i < KVA_SELECT_MAX; i++)
        path[i] = kva_common.db.v[i];
    if (n == 0)
        n = kva_common.db.n < KVA_SELECT_MAX ? kva_common.db.n : KVA_SELECT_MAX;
    if (n == 0)
        path[n++] = kva_db_default();
    return n;
}

static enum kva_status load(const char *const *path, int n, struct kva_data *out,
                            struct kva_error *err)
{
    struct kva_db *db[KVA_SELECT_MAX] = {NULL};
    enum kva_status rc = KVA_OK;

    for (int i = 0; i < n; i++)
        KVA_GO(kva_db_open(path[i], KVA_DB_READ, &db[i], err));
    KVA_GO(kva_data_load(db, n, out, err));
out:
    for (int i = 0; i < n; i++)
        kva_db_close(db[i]);
    return rc;
}

enum kva_status kva_compare_load(const char *a, const char *b,
                                 struct kva_compare_sides *out, struct kva_error *err)
{
    const char *path[2][KVA_SELECT_MAX], *text[2] = {a, b};
    int n[2];

    memset(out, 0, sizeof *out);
    for (int i = 0; i < 2; i++) {
        if (text[i])
            KVA_TRY(kva_select_parse(text[i], &out->select[i], err));
        n[i] = paths_of(&out->select[i], path[i]);
    }
    out->shared = n[0] == n[1];
    for (int i = 0; i < n[0] && out->shared; i++)
        out->shared = strcmp(path[0][i], path[1][i]) == 0;
    for (int i = 0; i < (out->shared ? 1 : 2); i++) {
        KVA_TRY(load(path[i], n[i], &out->data[i], err));
        out->loaded[i] = true;
    }
    for (int i = 0; i < 2; i++) {
        struct kva_data *d = &out->data[out->shared ? 0 : i];

        out->mark[2 * i] = kva_calloc((size_t)d->n_cells + 1, sizeof(bool));
        out->mark[2 * i + 1] = kva_calloc((size_t)d->n_runs + 1, sizeof(bool));
        if (!out->mark[2 * i] || !out->mark[2 * i + 1])
            return KVA_FAIL(err, KVA_ENOMEM, "out of memory");
        KVA_TRY(kva_select_apply(&out->select[i], d, out->mark[2 * i],
                                 out->mark[2 * i + 1], err));
        out->side[i] = (struct kva_compare_side){
            .data = d,
            .cell = out->mark[2 * i],
            .run =
                out->select[i].named & 1u << KVA_SELECT_RUN ? out->mark[2 * i + 1] : NULL,
            .label = text[i] ? text[i] : kva_db_default()};
    }
    return KVA_OK;
}

void kva_compare_sides_release(struct kva_compare_sides *s)
{
    for (int i = 0; i < 2; i++) {
        kva_select_release(&s->select[i]);
        if (s->loaded[i])
            kva_data_release(&s->data[i]);
    }
    for (int i = 0; i < 4; i++)
        free(s->mark[i]);
    memset(s, 0, sizeof *s);
}

/* ---- the command ---- */

static int compare(const struct kva_compare_args *args)
{
    struct kva_compare_sides sides;
    struct kva_error err = {0};
    enum kva_status rc;

    KVA_GO(kva_compare_load(args->a, args->b, &sides, &err));
out:
    kva_compare_sides_release(&sides);
    return rc == KVA_OK ? 0 : kva_command_fail(&err);
}

int kva_cmd_compare(int argc, char **argv)
{
    if (argc > 2)
        return kva_command_usage("compare", "A and B, and nothing more: '%s'", argv[2]);
    opt.a = argc > 0 ? argv[0] : NULL;
    opt.b = argc > 1 ? argv[1] : NULL;
    if (opt.gate)
        return kva_cmd_compare_gate(&opt);
    if (argc < 2)
        return kva_command_usage("compare",
                                 "name two selections, A and B, such as method=snapkv "
                                 "method=tova");
    return compare(&opt);
}
