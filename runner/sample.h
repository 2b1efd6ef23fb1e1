/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sample.h - `report --sample ID`: one prompt, its answers, and which entries stayed. */
#ifndef KVA_SAMPLE_H
#define KVA_SAMPLE_H

#include "db/db.h"

/* id: TASK#IDX, such as ruler/niah_single_1@512#3, or the first hex digits (8 or more) of
 * a sample digest. The prompt is regenerated from the stored generator description and
 * the digest is checked: KVA_ECONFLICT when it differs, KVA_EINVALID when no sample or
 * several match. */
enum kva_status kva_cmd_report_sample(const char *id, struct kva_db *const *dbs,
                                      int n_dbs, const struct kva_data *data,
                                      struct kva_error *err);

#endif
