/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cudart.h - what a test asks of the CUDA stand-in; together with tests/simt/rt_host.h,
 * which it implements, too.
 *
 * The stand-in is exactly the functions of the runtime, the driver and cuBLASLt that
 * kernels/cuda/rt_cuda.c and lt_cuda.c call, compiled against the toolkit's headers and
 * linked in place of its libraries. It is strict and late: what a stream was given is
 * done when somebody waits for it and not before; pinned memory is read at that moment;
 * memory of the device faults when the host touches it, when it was freed, and where
 * nothing is mapped; a wrong release ends the program with the name of the call.
 *
 * Not modelled: KVA_CUDART_LIMITS. */
#ifndef KVA_CUDART_H
#define KVA_CUDART_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVA_CUDART_LIMITS                                                                \
    "stand-in for CUDA: one device, one thread; streams run one after another and only " \
    "when waited for; a kernel that faults ends the program instead of its stream; no "  \
    "capture, no peer or host registration, no contexts; which graph updates and which " \
    "cuBLASLt algorithms a driver offers, and its rounding, are assumptions"

/* ---- the machine: before a runtime is opened ---- */
struct kva_cudart_machine {
    int devices, major; /* 1, 9 */
    bool old_driver;    /* older than the runtime */
    bool ranges;        /* virtual memory calls (true) */
    bool granularity;   /* and the device supports them (true) */
};
extern struct kva_cudart_machine kva_cudart_machine;

/* ---- planted failures ---- */
enum kva_cudart_plan {
    KVA_CUDART_ONCE,   /* call k fails, later ones do not */
    KVA_CUDART_LOST,   /* from call k on all fail: the device is gone */
    KVA_CUDART_NO_ROOM /* the k-th call that takes memory finds none, once */
};
/* k counts from now, from 1; 0: none fails. */
void kva_cudart_fail(enum kva_cudart_plan plan, int k);
/* The call that failed so; NULL: none, there are fewer. */
const char *kva_cudart_failed(void);
/* Kernels, copies, fills, graphs and products that were accepted after it. */
int kva_cudart_after(void);
/* Graph launches since the start. */
int kva_cudart_graphs(void);
/* Pieces of work handed to the device since the start: each node of a graph is one. */
int kva_cudart_work(void);

/* What was never given back, each told on standard error. */
int kva_cudart_leaks(void);

/* ---- kernels: `run` does one, each argument by its address ---- */
struct kva_cudart_kernel {
    const char *name;
    void (*run)(void *with, const unsigned grid[3], const unsigned block[3],
                size_t shared, void *const *arg);
    void *with;
    size_t n;
    const size_t *size; /* [n] bytes of the arguments; kept */
};
void kva_cudart_register(const void *kernel, const struct kva_cudart_kernel *k);

/* ---- cuBLASLt ---- */
struct kva_cudart_lt {
    int none_at_m;   /* no algorithm for this many outputs (0: none such) */
    int products;    /* counted */
    int last_algo;   /* of the last product */
    unsigned only;   /* algorithms that are offered, by bits (0: all) */
    int silent_from; /* none is offered for so many rows or more (0: always some) */
};
extern struct kva_cudart_lt kva_cudart_lt;

#ifdef __cplusplus
}
#endif
#endif
