/* SPDX-License-Identifier: GPL-3.0-or-later */
/* doctor_db.h - `doctor --db FILE`: is a result file whole? */
#ifndef KVA_DOCTOR_DB_H
#define KVA_DOCTOR_DB_H

#include "kva.h"

/* Prints identity, size, log, runs, and what SQLite's integrity check, the references and
 * the answers' digests say (json: one object). The file is only read. KVA_EDAMAGED (exit
 * code 4): something is broken; all of it has been printed. */
enum kva_status kva_doctor_db(const char *path, bool json, struct kva_error *err);

#endif
