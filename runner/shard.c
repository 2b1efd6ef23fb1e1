/* SPDX-License-Identifier: GPL-3.0-or-later */
/* shard.c - contexts to shards: longest processing time first, or in turn
 * (reports.md 9.2). */
#include "runner/shard.h"

#include <stdlib.h>
#include <string.h>

#define MOST_SHARDS 10000

enum kva_status kva_shard_parse(const char *text, struct kva_shard *s,
                                struct kva_error *err)
{
    const char *slash = strchr(text, '/');
    char part[16];
    int64_t i, n;

    if (slash == NULL || slash - text >= (ptrdiff_t)sizeof part)
        return KVA_FAIL(err, KVA_EINVALID,
                        "--shard wants I/N, such as 0/4 for the first of four, not '%s'",
                        text);
    memcpy(part, text, (size_t)(slash - text));
    part[slash - text] = '\0';
    if (!kva_parse_i64(part, &i) || !kva_parse_i64(slash + 1, &n))
        return KVA_FAIL(err, KVA_EINVALID,
                        "--shard wants I/N, such as 0/4 for the first of four, not '%s'",
                        text);
    if (n < 1 || n > MOST_SHARDS)
        return KVA_FAIL(err, KVA_EINVALID, "--shard %s: N is 1 to %d", text, MOST_SHARDS);
    if (i < 0 || i >= n)
        return KVA_FAIL(err, KVA_EINVALID,
                        "--shard %s: shards count from 0, the last of %lld is %lld/%lld",
                        text, (long long)n, (long long)n - 1, (long long)n);
    s->i = (int)i;
    s->n = (int)n;
    return KVA_OK;
}

const char *kva_balance_name(enum kva_balance b)
{
    return b == KVA_BALANCE_MOD ? "mod" : "cost";
}

enum kva_status kva_balance_parse(const char *text, enum kva_balance *b,
                                  struct kva_error *err)
{
    *b = KVA_BALANCE_COST;
    if (text == NULL || strcmp(text, "cost") == 0)
        return KVA_OK;
    *b = KVA_BALANCE_MOD;
    if (strcmp(text, "mod") == 0)
        return KVA_OK;
    return KVA_FAIL(err, KVA_EINVALID, "--balance is cost or mod, not '%s'", text);
}

double kva_shard_cost(int jobs, double n_ctx, int max_new_tokens)
{
    return jobs * (n_ctx * (1 + n_ctx / 32768) + 40.0 * max_new_tokens);
}

static int by_key(const void *a, const void *b)
{
    const struct kva_shard_item *x = *(struct kva_shard_item *const *)a,
                                *y = *(struct kva_shard_item *const *)b;
    int c = memcmp(x->model, y->model, sizeof x->model);

    if (c == 0)
        c = memcmp(x->task, y->task, sizeof x->task);
    return c != 0 ? c : (x->idx > y->idx) - (x->idx < y->idx);
}

static int by_cost(const void *a, const void *b)
{
    double x = (*(struct kva_shard_item *const *)a)->cost,
           y = (*(struct kva_shard_item *const *)b)->cost;
    int c = (x < y) - (x > y);

    return c != 0 ? c : by_key(a, b);
}

enum kva_status kva_shard_assign(struct kva_shard_item *items, size_t n_items, int n,
                                 enum kva_balance balance, struct kva_error *err)
{
    struct kva_shard_item **order = kva_calloc(n_items + 1, sizeof(void *));
    double *load = kva_calloc((size_t)n, sizeof *load);
    enum kva_status rc = KVA_OK;

    if (order == NULL || load == NULL) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "sharing out %zu contexts", n_items);
        goto out;
    }
    for (size_t k = 0; k < n_items; k++)
        order[k] = &items[k];
    qsort(order, n_items, sizeof(void *), balance == KVA_BALANCE_MOD ? by_key : by_cost);
    for (size_t k = 0; k < n_items; k++) {
        int least = (int)(k % (size_t)n);

        if (balance == KVA_BALANCE_COST) {
            least = 0;
            for (int s = 1; s < n; s++)
                least = load[s] < load[least] ? s : least;
        }
        load[least] += order[k]->cost;
        order[k]->shard = least;
    }
out:
    free(order);
    free(load);
    return rc;
}
