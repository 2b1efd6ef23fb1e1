/* SPDX-License-Identifier: GPL-3.0-or-later */
/* control.h - what a test asks of the emulator (simt.h), in C as in C++. */
#ifndef KVA_SIMT_CONTROL_H
#define KVA_SIMT_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a clean run does not say; test programs print it. */
#define KVA_SIMT_LIMITS                                                                  \
    "emulated: blocks and streams run one after another, so no weak memory between "     \
    "blocks, no bank conflicts, occupancy or speed; no grid-wide barrier, clusters, "    \
    "wgmma, TMA; __launch_bounds__ is not checked; expf and fused operations differ "    \
    "from a device's in last bits"

/* Orders of threads and blocks. In SHUFFLE_B each warp runs as far as it comes before
 * another one moves, and asynchronous copies land when they are started. */
enum kva_simt_order {
    SIMT_FORWARD,
    SIMT_BACKWARD,
    SIMT_SHUFFLE_A,
    SIMT_SHUFFLE_B,
    SIMT_ORDERS
};

void kva_simt_set_order(enum kva_simt_order order);
/* Mistakes since the last call; the first 8 are told on standard error. */
int kva_simt_errors(void);
void kva_simt_quiet(bool quiet);
/* Whether arguments of kernels may point to the stack and into the program (default: no).
 */
void kva_simt_any_memory(bool any);
/* The text of the first of them, "file:line: ...", which later ones follow from; kept
 * until the next mistake. */
const char *kva_simt_first(void);
/* The bug that KVA_MUTANT in the environment plants (KVA_MUT of the shim); 0: none. */
int kva_simt_mutant(void);
/* Switches between threads since the start: what a test costs. */
uint64_t kva_simt_switches(void);

#ifdef __cplusplus
}
#endif
#endif
