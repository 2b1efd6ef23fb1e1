/* SPDX-License-Identifier: GPL-3.0-or-later */
/* stats_pass.c - scores of k samples a problem (tasks-longbench-math.md B.3).
 *
 *   avg@k    mean over problems of c/n, the estimate of pass@1
 *   pass@j   mean over problems of 1 - C(n-c, j) / C(n, j), unbiased (arXiv 2107.03374)
 *   maj@k    score of the most frequent answer class; classes are those of math_equal.c
 *
 * C(n-c, j) / C(n, j) = prod_{i = n-c+1 .. n} (1 - j/i): nothing overflows. */
#include "metrics/math.h"

#include <math.h>
#include <stdlib.h>

double kva_stat_avg_at(const int *correct, const int *samples, size_t problems)
{
    double sum = 0;

    for (size_t i = 0; i < problems; i++) {
        if (samples[i] < 1 || correct[i] < 0 || correct[i] > samples[i])
            return (double)NAN;
        sum += (double)correct[i] / samples[i];
    }
    return problems ? sum / (double)problems : (double)NAN;
}

double kva_stat_pass_at(const int *correct, const int *samples, size_t problems, int j)
{
    double sum = 0;

    for (size_t i = 0; i < problems; i++) {
        double none = 1;

        if (j < 1 || samples[i] < j || correct[i] < 0 || correct[i] > samples[i])
            return (double)NAN;
        for (int k = samples[i] - correct[i] + 1; k <= samples[i]; k++)
            none *= k <= j ? 0 : 1 - (double)j / k;
        sum += 1 - none;
    }
    return problems ? sum / (double)problems : (double)NAN;
}

/* One class: its first sample's answer stands for it. */
struct class
{
    const struct kva_math_value *value;
    int first, votes;
};

/* Sample i of k that answers `answer` joins its class, or makes one. */
static void cast(struct kva_math *m, struct class *class, int *n_classes, int i,
                 struct kva_math_span answer)
{
    const struct kva_math_value *v;
    int c = 0;

    m->work = MATH_WORK;
    v = kva_math_read(m, answer);
    for (; c < *n_classes; c++) {
        m->work = MATH_WORK;
        if (kva_math_equal(m, v, class[c].value))
            break;
    }
    if (c == *n_classes)
        class[(*n_classes)++] = (struct class){v, i, 0};
    class[c].votes++;
}

/* answer NULL: of outputs; else n is not read. */
static enum kva_status vote(const char *const *output, const size_t *n,
                            const char *const *answer, int k, int *winner, int *votes,
                            struct kva_error *err)
{
    struct class *class = kva_calloc((size_t)(k > 0 ? k : 1), sizeof *class);
    struct kva_arena arena;
    struct kva_math m;
    int n_classes = 0;
    enum kva_status rc = KVA_OK;

    *winner = -1;
    *votes = 0;
    kva_arena_init(&arena);
    kva_math_init(&m, &arena);
    if (!class)
        KVA_GO(KVA_FAIL(err, KVA_ENOMEM, "no memory for %d answers", k));
    for (int i = 0; i < k && !m.nomem; i++) {
        if (answer && answer[i])
            cast(&m, class, &n_classes, i, kva_math_span_of(answer[i]));
        if (!answer) {
            struct kva_math_answer found = kva_math_extract(&m, output[i], n[i]);

            if (found.how != KVA_MATH_NONE)
                cast(&m, class, &n_classes, i, found.answer);
        }
    }
    KVA_GO(kva_math_status(&m, err));
    for (int c = 0; c < n_classes; c++)
        if (class[c].votes > *votes) {
            *votes = class[c].votes;
            *winner = class[c].first;
        }
out:
    kva_arena_release(&arena);
    free(class);
    return rc;
}

enum kva_status kva_stat_majority(const char *const *output, const size_t *n, int k,
                                  int *winner, int *votes, struct kva_error *err)
{
    return vote(output, n, NULL, k, winner, votes, err);
}

enum kva_status kva_stat_vote(const char *const *answer, int k, int *winner, int *votes,
                              struct kva_error *err)
{
    return vote(NULL, NULL, answer, k, winner, votes, err);
}
