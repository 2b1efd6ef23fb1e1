/* SPDX-License-Identifier: GPL-3.0-or-later */
/* yardstick.h - how fast this machine is just now: two fixed pieces of work whose time
 * stands beside every sitting of timed runs (reports.md 7.3), so that times of two nights
 * can be divided by it. */
#ifndef KVA_YARDSTICK_H
#define KVA_YARDSTICK_H

#include "kva.h"

/* A change of the work needs another number: times of two versions do not compare. It is
 * stored as `work` of the phases calib_gemm and calib_copy. */
#define KVA_YARDSTICK_VERSION 1

/* ns of one 192 x 192 x 192 product in fp32, and of copying 16 MiB. KVA_ENOMEM. */
enum kva_status kva_yardstick(int64_t *gemm_ns, int64_t *copy_ns, struct kva_error *err);

/* The processor's temperature (whole degrees) and the clock of the core this thread is
 * on, from /sys; -1 where that does not say. */
int kva_machine_temp(void);
int kva_machine_clock_mhz(void);

#endif
