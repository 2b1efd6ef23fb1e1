/* SPDX-License-Identifier: GPL-3.0-or-later */
/* calibrate.h - what is measured of a model once and read by methods as a file.
 *
 * Each function reads a text through the model and fills a struct kva_table of the kind
 * its method asks for; kva_table_write makes the file. */
#ifndef KVA_CALIBRATE_H
#define KVA_CALIBRATE_H

#include "models/model.h"

/* Ids of `count` sequences of `tokens` each, [count][tokens]: consecutive pieces of the
 * text, each behind BOS where the model has one. The caller frees *ids. KVA_EINVALID when
 * the text (valid UTF-8) is too short or a sequence longer than the model's context. */
enum kva_status kva_calibrate_ids(struct kva_model *m, const char *text, size_t n,
                                  int count, int tokens, int32_t **ids,
                                  struct kva_error *err);

/* Filters of the method qfilter (qfilter.c). The published recipe: 20 sequences of 2048
 * tokens, 3000 queries of each head. */
struct kva_qfilter_opts {
    int sequences, tokens;
    int rows; /* queries of each head that are used, evenly spaced; a multiple of
                 `sequences`, at most sequences * tokens */
    void (*progress)(void *ctx, int done, int all); /* sequences; NULL: silent */
    void *ctx;
};
/* Table of kind "qfilter", one row of head_dim numbers a KV head. Holds rows * layers *
 * heads * head_dim floats meanwhile. KVA_EINTERRUPTED between sequences. */
enum kva_status kva_qfilter_calibrate(struct kva_model *m, const char *text, size_t n,
                                      const struct kva_qfilter_opts *opts,
                                      struct kva_table *out, struct kva_error *err);

#endif
