/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cuda_select.c - selection on the device: choose and share of struct kva_ops.
 *
 * The host makes a list of cells, sent in one upload; scores are used where they lie;
 * what comes back is one download. Positions decide only between cells, and where each
 * cell's are consecutive, as after a context, the first of them says all. */
#include "kernels/cuda/cuda.h"

#include "kernels/cuda/topk.h"

#include <stdlib.h>
#include <string.h>

static void lost(struct kva_cuda *cu, const char *what, size_t n)
{
    struct kva_error err = {0};

    (void)KVA_FAIL(&err, KVA_ENOMEM, "selection: %s of %zu", what, n);
    kva_cuda_fail(cu, &err);
}

/* Cells of a contest, without what they want. NULL: none, or no memory. */
static struct kva_dev_cell *cells_new(struct kva_cuda *cu, const struct kva_contest *c)
{
    struct kva_dev_cell *cell =
        c->cells > 0 ? kva_calloc((size_t)c->cells, sizeof *cell) : NULL;

    if (c->cells < 1)
        return NULL;
    if (cell == NULL) {
        lost(cu, "cells", (size_t)c->cells);
        return NULL;
    }
    for (int i = 0; i < c->cells; i++) {
        int n = (int)(c->off[i + 1] - c->off[i]);

        cell[i] = (struct kva_dev_cell){.first = c->off[i] - c->off[0],
                                        .n = n,
                                        .lead = c->lead[i],
                                        .rest = n - c->lead[i] - c->tail[i]};
    }
    return cell;
}

static int most_rest(const struct kva_dev_cell *cell, int cells)
{
    int most = 0;

    for (int i = 0; i < cells; i++)
        most = cell[i].rest > most ? cell[i].rest : most;
    return most;
}

static const float *scores_in(struct kva_cuda *cu, const struct kva_contest *c)
{
    return kva_cuda_in(cu, c->s + c->off[0], c->off[c->cells] - c->off[0]);
}

/* ---- choose ---- */

/* Where the lists begin when they follow each other without gaps. */
static bool in_one_piece(const struct kva_dev_cell *cell, int cells, const size_t *to,
                         size_t *begin)
{
    bool any = false;

    for (int i = 0; i < cells; i++) {
        if (cell[i].n == 0)
            continue;
        if (!any)
            *begin = to[i];
        any = true;
        if (to[i] != *begin + cell[i].to)
            return false;
    }
    return true;
}

static void cuda_choose(struct kva_ops *ops, const struct kva_contest *c, const int *b,
                        const size_t *to, int32_t *rank)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    struct kva_dev_cell *cell = cells_new(cu, c);
    struct kva_dev_contest x = {.cells = c->cells};
    struct kva_dev_cut *cut;
    int32_t *host = NULL, *slot;
    bool one = true, piece; /* no cell loses more than one */
    size_t n = 0, begin = 0;

    if (cell == NULL)
        return;
    for (int i = 0; i < c->cells; i++) {
        if (b[i] == 0)
            cell[i] = (struct kva_dev_cell){0};
        cell[i].to = n;
        cell[i].want = b[i] - (cell[i].n - cell[i].rest);
        one = one && cell[i].rest - cell[i].want <= 1;
        n += (size_t)b[i];
    }
    piece = in_one_piece(cell, c->cells, to, &begin);
    if (!piece)
        host = kva_calloc(n, sizeof *host);
    if (!piece && host == NULL)
        lost(cu, "lists", n);
    if (n == 0 || cu->failed)
        goto out;
    x.most = most_rest(cell, c->cells);
    x.cell = kva_cuda_list(cu, cell, (size_t)c->cells * sizeof *cell);
    x.s = scores_in(cu, c);
    cut = kva_cuda_scratch(cu, (size_t)c->cells * sizeof *cut);
    slot = kva_cuda_result(cu, piece ? rank + begin : host, n * sizeof *slot);
    if (!cu->failed) {
        (one ? kva_dev_topk_victim : kva_dev_topk_cut)(&x, cut, cu->stream);
        kva_dev_topk_list(&x, cut, slot, cu->stream);
    }
    kva_cuda_done(cu);
    for (int i = 0; !piece && i < c->cells; i++)
        if (b[i] > 0)
            memcpy(rank + to[i], host + cell[i].to, (size_t)b[i] * sizeof *rank);
out:
    free(host);
    free(cell);
}

/* ---- share ---- */

static bool consecutive(const int32_t *pos, int n)
{
    return n == 0 || pos[n - 1] - pos[0] == n - 1;
}

/* Positions, in the cells where that is enough. */
static bool positions_in_cells(const struct kva_contest *c, struct kva_dev_cell *cell)
{
    for (int i = 0; i < c->cells; i++) {
        if (!consecutive(c->pos + c->off[i], cell[i].n))
            return false;
        cell[i].pos = cell[i].n > 0 ? c->pos[c->off[i]] : 0;
    }
    return true;
}

/* The best of those that compete in each group, as `start` wants them, to
 * counts[2 * cells + groups] (topk.h). */
static void share(struct kva_cuda *cu, const struct kva_contest *c,
                  struct kva_dev_cell *cell, bool reserved, int groups,
                  const struct kva_dev_cut *start, uint32_t *counts)
{
    const size_t cells = (size_t)c->cells, held = c->off[cells] - c->off[0],
                 starts = (size_t)groups * sizeof *start,
                 work_bytes = KVA_SHARE_COUNTS(cells, groups) * sizeof *counts;
    struct kva_dev_contest x = {.cells = c->cells, .most = most_rest(cell, c->cells)};
    bool near = positions_in_cells(c, cell);
    struct kva_cuda_list l[2] = {{cell, cells * sizeof *cell, NULL},
                                 {start, starts, NULL}};
    struct kva_dev_cut *cut = NULL, *state;
    uint32_t *work;

    kva_cuda_lists(cu, l, 2);
    x.cell = l[0].device;
    x.s = scores_in(cu, c);
    if (!near)
        x.pos = kva_cuda_list(cu, c->pos + c->off[0], held * sizeof *c->pos);
    if (reserved)
        cut = kva_cuda_scratch(cu, cells * sizeof *cut);
    state = kva_cuda_scratch(cu, (KVA_SHARE_PASSES + 1) * starts);
    work = kva_cuda_scratch(cu, work_bytes);
    if (!cu->failed) {
        kva_rt_move(cu->rt, state, l[1].device, starts);
        kva_rt_fill(cu->rt, work, 0, work_bytes);
        if (reserved)
            kva_dev_topk_cut(&x, cut, cu->stream);
        kva_dev_share(&x, groups, cut, state, work, cu->stream);
        kva_rt_download(cu->rt, counts, work + KVA_SHARE_ABOVE(groups),
                        (2 * cells + (size_t)groups) * sizeof *counts);
    }
    kva_cuda_done(cu);
}

/* What is certain of a group: its reserve stays, or all of it, and then, or where nobody
 * asks, none of its entries competes. Else how many of them are wanted. */
static struct kva_dev_cut enter(struct kva_dev_cell *cell, int cells, const int *reserve,
                                uint64_t total, int *b)
{
    uint64_t ahead = 0, open = 0;

    for (int i = 0; i < cells && total > 0; i++) {
        int r = reserve[i] < 0 ? 0 : reserve[i];

        cell[i].want = r > cell[i].rest ? cell[i].rest : r;
        b[i] = cell[i].n - cell[i].rest + cell[i].want;
        ahead += (uint64_t)b[i];
        open += (uint64_t)(cell[i].rest - cell[i].want);
    }
    if (ahead < total && total - ahead < open)
        return (struct kva_dev_cut){0, (uint32_t)(total - ahead), 0};
    for (int i = 0; i < cells; i++) {
        if (ahead < total)
            b[i] = cell[i].n;
        cell[i].rest = cell[i].want = 0;
    }
    return (struct kva_dev_cut)KVA_SHARE_NONE;
}

/* Joins what a group's cut says to what was certain. */
static void leave(const uint32_t *above, const uint32_t *level, uint32_t equal, int cells,
                  int *b)
{
    for (int i = 0; i < cells; i++) {
        uint32_t more = level[i] < equal ? level[i] : equal;

        b[i] += (int)(above[i] + more);
        equal -= more;
    }
}

static void cuda_share(struct kva_ops *ops, const struct kva_contest *c,
                       const int *reserve, int groups, const uint64_t *total, int *b)
{
    struct kva_cuda *cu = kva_cuda_of(ops);
    struct kva_dev_cell *cell = cells_new(cu, c);
    const size_t cells = (size_t)c->cells;
    const int each = c->cells / groups;
    struct kva_dev_cut *start = kva_calloc((size_t)groups, sizeof *start);
    uint32_t *counts = kva_calloc(2 * cells + (size_t)groups, sizeof *counts);
    bool open = false, reserved = false;

    if (cell == NULL)
        goto out;
    if (start == NULL || counts == NULL || c->off[cells] - c->off[0] >= UINT32_MAX) {
        lost(cu, "counts", cells);
        goto out;
    }
    for (int g = 0; g < groups; g++) {
        start[g] =
            enter(cell + g * each, each, reserve + g * each, total[g], b + g * each);
        open = open || !start[g].found;
    }
    if (!open)
        goto out;
    for (int i = 0; i < c->cells; i++)
        reserved = reserved || cell[i].want > 0;
    share(cu, c, cell, reserved, groups, start, counts);
    for (int g = 0; g < groups; g++)
        leave(counts + g * each, counts + cells + g * each, counts[2 * cells + (size_t)g],
              each, b + g * each);
out:
    free(counts);
    free(start);
    free(cell);
}

void kva_cuda_select_table(struct kva_ops *ops)
{
    ops->choose = cuda_choose;
    ops->share = cuda_share;
}
