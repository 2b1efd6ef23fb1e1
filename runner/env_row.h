/* SPDX-License-Identifier: GPL-3.0-or-later */
/* env_row.h - the environment row of a run; `row` points into the same struct. */
#ifndef KVA_ENV_ROW_H
#define KVA_ENV_ROW_H

#include "db/db.h"

struct kva_env_row {
    struct kva_db_env row;
    char host[256], cpu[256], detail[1024];
};
/* backend: NULL is "cpu"; isa: what runs there, instructions or the device's name. */
enum kva_status kva_env_row(const char *backend, const char *isa, int threads,
                            struct kva_env_row *e, struct kva_error *err);

#endif
