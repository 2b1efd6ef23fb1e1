/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mem.h - address ranges that are reserved first, committed from the bottom and given
 * back.
 *
 * All sizes are multiples of the system page (kva_mem_granule). Internal to kernels/. */
#ifndef KVA_CPU_MEM_H
#define KVA_CPU_MEM_H

#include <stddef.h>

size_t kva_mem_granule(void);
/* Address space without memory: any access faults until it is committed. NULL: refused.
 */
void *kva_mem_reserve(size_t bytes);
/* Makes [at, at + bytes) readable and writable; 0 on success. Zeroed, resident at first
 * touch. */
int kva_mem_commit(void *at, size_t bytes);
/* Gives the memory back; the resident set falls at once and any later access faults. */
void kva_mem_decommit(void *at, size_t bytes);
/* Gives the memory back but leaves the range usable: it reads as zeros again. */
void kva_mem_clear(void *at, size_t bytes);
void kva_mem_release(void *at, size_t bytes); /* NULL allowed */

#endif
