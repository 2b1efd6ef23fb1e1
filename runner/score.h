/* SPDX-License-Identifier: GPL-3.0-or-later */
/* score.h - one line of given predictions, scored: what `kvaudit score` does to each. */
#ifndef KVA_SCORE_H
#define KVA_SCORE_H

#include "metrics/metric.h"

struct kva_score_opts {
    const struct kva_metric *metric;
    bool kvpress; /* post-processing of kvpress, else that of the official scorers */
    int post;     /* enum kva_post for all lines; < 0: as profile and data set say */
    const char *dataset; /* LongBench set of lines that name none; NULL: no set */
};
struct kva_scored {
    double score;
    bool no_answer; /* no references, or a null among them: 0 (tasks-ruler.md 11.3) */
};

/* The line is a JSON object: `prediction` (or `pred`), `answers` (or `outputs`; a list of
 * texts or one text), and where they apply `all_classes` (or `classes`) and `dataset`.
 *
 * Appends the answering object and a line feed: `line`, then `id` and `_id` as they came
 * in, `score`, and `how` and `extracted` where the metric reads an answer out of the
 * output. A line that cannot be scored is answered too, with `error` in place of `score`;
 * the same text is then in err with KVA_EFORMAT. */
enum kva_status kva_score_line(const struct kva_score_opts *o, long number,
                               const char *line, size_t n, struct kva_buf *out,
                               struct kva_scored *scored, struct kva_error *err);

#endif
