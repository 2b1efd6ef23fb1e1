/* SPDX-License-Identifier: GPL-3.0-or-later */
/* queue.h - launches and copies held back, so that a step like the last one is replayed.
 *
 * While a runtime gathers, what would go to the stream becomes an item of a queue:
 * kernels with their arguments, uploads with their bytes, copies and fills on the device.
 * At the first wait the queue is flushed. A queue of the same kinds and kernels as an
 * earlier one is a replay of that one's graph: only items that say something new are
 * patched, uploaded bytes go to where the graph reads them, and the whole is one launch.
 * Nothing a kernel computes knows of it.
 *
 * An upload's place in the graph's own host memory is a power of two of bytes, so lists
 * may grow; one that outgrows its place asks for a new graph. A queue is built into a
 * graph when it comes for the second time: the first goes out item by item.
 *
 * What a graph is belongs to the runtime (struct kva_replayer): rt_cuda.c builds CUDA
 * graphs, the emulator keeps copies of the items, so that a patch forgotten shows. */
#ifndef KVA_CUDA_QUEUE_H
#define KVA_CUDA_QUEUE_H

#include "kva.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kva_queue_kind {
    KVA_QUEUE_KERNEL,
    KVA_QUEUE_UPLOAD,
    KVA_QUEUE_MOVE,
    KVA_QUEUE_FILL
};

struct kva_queue_item {
    enum kva_queue_kind kind;
    /* a kernel: its address, what else the runtime needs to run it, and its shape */
    const void *kernel, *extra;
    unsigned grid[3], block[3];
    size_t shared;
    size_t arg, n_args; /* offsets of its arguments: offset[arg .. arg + n_args) */
    /* a copy or fill */
    void *to;
    const void *from;
    int byte;
    /* arguments or uploaded bytes: data[at .. at + bytes); the length of a copy or fill
     */
    size_t at, bytes;
};

struct kva_queue {
    struct kva_queue_item *item;
    size_t n, cap;
    uint8_t *data; /* pieces aligned to 16 bytes */
    size_t used, data_cap;
    size_t *offset; /* in data */
    size_t n_offsets, offset_cap;
};

/* False: out of memory, the queue is as before. `from` of an upload is read now. */
bool kva_queue_kernel(struct kva_queue *q, const void *kernel, const void *extra,
                      const unsigned grid[3], const unsigned block[3], size_t shared,
                      const void *const *arg, const size_t *size, size_t n);
bool kva_queue_copy(struct kva_queue *q, enum kva_queue_kind kind, void *to,
                    const void *from, int byte, size_t bytes);
void kva_queue_clear(struct kva_queue *q);
void kva_queue_release(struct kva_queue *q);

/* One graph and the queue it stands for. */
struct kva_replay {
    struct kva_queue made;
    size_t *slot, *room; /* [made.n] uploads: where in `host`, how many bytes there */
    uint8_t *host;       /* the graph reads uploads from here */
    void *graph;         /* the runtime's */
    uint64_t last;       /* the flush that used it */
};

struct kva_replayer {
    void *ctx;
    /* memory that the device may read at any time; NULL: none */
    void *(*host_new)(void *ctx, size_t bytes);
    void (*host_free)(void *ctx, void *p);
    void *(*build)(void *ctx, const struct kva_replay *r); /* NULL: refused */
    bool (*patch)(void *ctx, struct kva_replay *r,
                  size_t i); /* item i of r->made is new */
    void (*launch)(void *ctx, struct kva_replay *r);
    void (*wait)(void *ctx, struct kva_replay *r);       /* for its last launch */
    void (*destroy)(void *ctx, void *graph);             /* waits */
    void (*issue)(void *ctx, const struct kva_queue *q); /* item by item */
};

enum { KVA_REPLAYS = 16 };
struct kva_replays {
    struct kva_replay *kept[KVA_REPLAYS]; /* the least recently used goes */
    int n;
    uint64_t flushes, replayed, built, patched; /* counted since the start */
    uint64_t seen[KVA_REPLAYS];                 /* shapes that came once, a ring */
};
/* Sends the queue on and empties it. */
void kva_replays_flush(struct kva_replays *rs, const struct kva_replayer *by,
                       struct kva_queue *q);
void kva_replays_release(struct kva_replays *rs, const struct kva_replayer *by);

#ifdef __cplusplus
}
#endif
#endif
