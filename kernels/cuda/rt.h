/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rt.h - what the backend needs of a device: one stream, memory, copies, events, replays.
 *
 * rt_cuda.c is the CUDA runtime and driver; tests/simt/rt_host.cpp the same in ordinary
 * memory, where everything happens at once. The first failure is kept and every later
 * call does nothing: kva_rt_status hands it out. Nothing waits unless it says so. */
#ifndef KVA_CUDA_RT_H
#define KVA_CUDA_RT_H

#include "kva.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Shared memory of a block, static and dynamic together, that no kernel exceeds: what
 * devices of 8.6 and 8.9 lend, the least of 8.0 or later. */
#define KVA_SHARED_MOST (99 * 1024)

struct kva_rt;

struct kva_rt_info {
    char name[128];
    int major, minor, processors; /* 9, 0, 132 */
    int driver, runtime;          /* 13000 */
    size_t total_bytes, l2_bytes;
    size_t shared_bytes; /* most shared memory of a block that asks */
};

/* Device 0 (CUDA_VISIBLE_DEVICES chooses). Without one: KVA_EUNSUPPORTED, "no CUDA
 * device: " and the runtime's own words. */
enum kva_status kva_rt_open(struct kva_rt **rt, struct kva_error *err);
void kva_rt_close(struct kva_rt *rt); /* waits; NULL allowed */
void *kva_rt_stream(struct kva_rt *rt);
const struct kva_rt_info *kva_rt_info(const struct kva_rt *rt);
/* The first failure since the start, launches included, without waiting. */
enum kva_status kva_rt_status(struct kva_rt *rt, struct kva_error *err);
/* Waits for all that was queued. */
enum kva_status kva_rt_sync(struct kva_rt *rt, struct kva_error *err);
/* Free and total bytes of the device, as the driver counts them. */
void kva_rt_mem_info(struct kva_rt *rt, size_t *free_bytes, size_t *total_bytes);

/* ---- memory: 256-byte aligned, not cleared. shared: the host may use it after a sync.
 * NULL: refused (which is no failure of the device). Freeing may wait. */
void *kva_rt_alloc(struct kva_rt *rt, size_t bytes, bool shared);
void kva_rt_free(struct kva_rt *rt, void *p);
/* An int of the host's that kernels may set and the host reads after a sync; 0 at first.
 */
int *kva_rt_flag_new(struct kva_rt *rt); /* NULL: refused */
void kva_rt_flag_free(struct kva_rt *rt, int *flag);

/* ---- copies, in the order of the stream. `upload` has read `from` when it returns (it
 * goes through a pinned ring and waits only while the ring is full); `download` waits. */
void kva_rt_upload(struct kva_rt *rt, void *to, const void *from, size_t bytes);
void kva_rt_download(struct kva_rt *rt, void *to, const void *from, size_t bytes);
void kva_rt_move(struct kva_rt *rt, void *to, const void *from, size_t bytes);
void kva_rt_fill(struct kva_rt *rt, void *to, int byte, size_t bytes);

/* ---- address ranges whose memory comes and goes (kernels.md 2.3). `resident` false: the
 * driver lacks the calls, all bytes were taken at once and decommit gives nothing back.
 */
struct kva_rt_range {
    uint8_t *base;
    size_t bytes, chunk, committed;
    bool resident;
    unsigned long long
        *handle; /* [bytes / chunk] the driver's, of the committed chunks */
};
size_t kva_rt_granule(struct kva_rt *rt);
/* Commits and decommits will be multiples of `chunk`, itself one of the granule; each
 * chunk is one object of the driver. */
enum kva_status kva_rt_reserve(struct kva_rt *rt, size_t bytes, size_t chunk,
                               struct kva_rt_range *r, struct kva_error *err);
/* [from, from + bytes); from = the end of what is committed. */
enum kva_status kva_rt_commit(struct kva_rt *rt, struct kva_rt_range *r, size_t from,
                              size_t bytes, struct kva_error *err);
/* The end of what is committed. Waits. */
void kva_rt_decommit(struct kva_rt *rt, struct kva_rt_range *r, size_t from,
                     size_t bytes);
void kva_rt_release(struct kva_rt *rt, struct kva_rt_range *r); /* waits */

/* ---- events: device time between two marks of the stream. */
struct kva_rt_event;
struct kva_rt_event *kva_rt_event_new(struct kva_rt *rt); /* NULL: refused */
void kva_rt_event_free(struct kva_rt *rt, struct kva_rt_event *e);
void kva_rt_event_mark(struct kva_rt *rt, struct kva_rt_event *e);
/* Nanoseconds from a to b; waits for b. */
int64_t kva_rt_event_between(struct kva_rt *rt, struct kva_rt_event *a,
                             struct kva_rt_event *b);

/* ---- gathering (queue.h): between on and off, launches and copies are held until
 * somebody waits; a queue like an earlier one is replayed as a graph. Not for work that
 * goes to the stream by itself (libraries). Off: what is held goes out. */
void kva_rt_gather(struct kva_rt *rt, bool on);
bool kva_rt_gathering(const struct kva_rt *rt);
struct kva_replays;
const struct kva_replays *kva_rt_replays(const struct kva_rt *rt); /* counts */
/* What KVA_LAUNCH becomes on a device. */
void kva_rt_launch(void *stream, const void *kernel, const unsigned grid[3],
                   const unsigned block[3], size_t shared, const void *const *arg,
                   const size_t *size, size_t n);

#ifdef __cplusplus
}
#endif
#endif
