/* SPDX-License-Identifier: GPL-3.0-or-later */
/* env_row.h - the environment row of a run; `row` points into the same struct. */
#ifndef KVA_ENV_ROW_H
#define KVA_ENV_ROW_H

#include "db/db.h"
#include "kernels/kernels.h"

struct kva_env_row {
    struct kva_db_env row;
    char host[256], cpu[256], gpu[128], driver[16], runtime[16], detail[2048];
};
/* backend: NULL is "cpu"; ops: a table of it, or NULL when none is open: then nothing is
 * known of instructions and device. */
enum kva_status kva_env_row(const char *backend, const struct kva_ops *ops, int threads,
                            struct kva_env_row *e, struct kva_error *err);
/* "NVIDIA H200 (9.0), 139.8 GiB, CUDA driver 13.0, runtime 13.0" */
void kva_device_text(const struct kva_device *d, char *out, size_t n);

#endif
