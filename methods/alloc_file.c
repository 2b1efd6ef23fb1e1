/* SPDX-License-Identifier: GPL-3.0-or-later */
/* alloc_file.c - budgets from a file: for ablations, and to replay those of others.
 *
 * The file (kind "budgets") has one number for each KV head. as=budgets: whole numbers
 * that sum to the budget of the cell, refused otherwise; what a KV head cannot hold is
 * handed on. as=shares: any numbers that are not negative, of which the budgets are in
 * proportion. */
#include "methods/method.h"

#include <math.h>
#include <stdlib.h>

#include "methods/layers.h"

enum { AS, PROFILE };
enum { AS_BUDGETS, AS_SHARES };

static const char *const as_names[] = {"budgets", "shares", NULL};

static const struct kva_param params_table[] = {
    {.name = "as",
     .help = "what the numbers are: entries, or shares of the total",
     .type = KVA_PARAM_CHOICE,
     .choices = as_names},
    {.name = "profile", .help = "file of budgets (kind budgets)", .type = KVA_PARAM_FILE},
    {.name = NULL},
};

static enum kva_status check(const struct kva_alloc_in *in, int c, bool whole,
                             struct kva_error *err)
{
    const struct kva_table *t = in->table;
    double sum = 0;

    if (t == NULL)
        return KVA_FAIL(err, KVA_EINVALID, "file needs a file: profile=PATH");
    if (t->columns != 1)
        return KVA_FAIL(err, KVA_EINVALID,
                        "file: %d columns instead of one number for each KV head",
                        t->columns);
    for (int i = 0; i < c; i++) {
        double x = t->data[i];

        if (!isfinite(x) || x < 0 || (whole && (x < 1 || x > INT32_MAX || x > floor(x))))
            return KVA_FAIL(
                err, KVA_EINVALID, "file: %g for KV head %d of layer %d is no %s", x,
                i % t->kv_heads, i / t->kv_heads, whole ? "number of entries" : "share");
        sum += x;
    }
    if (whole && (sum > (double)in->total || sum < (double)in->total))
        return KVA_FAIL(err, KVA_EINVALID,
                        "file: the budgets sum to %.0f entries, the budget of the cell "
                        "is %llu; as=shares divides it in proportion",
                        sum, (unsigned long long)in->total);
    return KVA_OK;
}

static enum kva_status allocate(const struct kva_alloc_in *in,
                                const struct kva_params *params, int *b,
                                struct kva_error *err)
{
    int c = in->scores->layers * in->scores->kv_heads, *n, *lo;
    bool whole = (int)params->value[AS] == AS_BUDGETS;
    enum kva_status rc = KVA_OK;

    KVA_TRY(check(in, c, whole, err));
    n = kva_alloc_held(in);
    lo = kva_calloc((size_t)c, sizeof *lo);
    if (n == NULL || lo == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "budgets of %d KV heads", c);
    } else if (whole) {
        for (int i = 0; i < c; i++)
            b[i] = in->table->data[i] < n[i] ? (int)in->table->data[i] : n[i];
        kva_alloc_settle(in->total, n, c, b);
    } else {
        rc = kva_alloc_shares(in->table->data, in->total, lo, n, c, b, err);
    }
    free(n);
    free(lo);
    return rc;
}

const struct kva_allocator kva_alloc_file = {
    .name = "file",
    .summary = "budgets or shares of the KV heads from a file",
    .source = "control: replays the budgets of another run",
    .storage = "ours",
    .version = 1,
    .table_kind = "budgets",
    .params = params_table,
    .allocate = allocate,
};
