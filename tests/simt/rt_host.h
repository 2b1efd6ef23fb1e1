/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rt_host.h - what a test may ask of the device in ordinary memory (rt_host.cpp). */
#ifndef KVA_RT_HOST_H
#define KVA_RT_HOST_H

#include <stdbool.h>
#include <stddef.h>

#ifndef KVA_HOST_SIMT /* a real device tells none of it */
static const bool kva_rt_is_host = false;
static inline void kva_rt_host_size(size_t bytes)
{
    (void)bytes;
}
static inline size_t kva_rt_host_used(void)
{
    return 0;
}
static inline size_t kva_rt_host_waits(void)
{
    return 0;
}
static inline void kva_rt_host_look(bool on)
{
    (void)on;
}
#else
static const bool kva_rt_is_host = true;
#ifdef __cplusplus
extern "C" {
#endif

/* The device has this many bytes from now on (default 64 GiB); 0: there is no device. */
void kva_rt_host_size(size_t bytes);
/* Bytes in use now: what mem_info counts, and the most there ever were. */
size_t kva_rt_host_used(void);
size_t kva_rt_host_peak(void);
/* Another program on the device holds this many bytes from now on; the driver counts them
 * as it counts ours. */
void kva_rt_host_others(size_t bytes);
/* Whether the driver has ranges whose memory comes and goes (default true). */
void kva_rt_host_ranges(bool available);
/* Lets the host touch memory of the device, or no longer: for a test that compares what
 * only kernels may read. */
void kva_rt_host_look(bool on);
/* Host-side waits since the start: downloads and syncs. */
size_t kva_rt_host_waits(void);
/* All that the host asked of the device since the start. */
struct kva_rt_host_traffic {
    size_t waits, uploads, up_bytes, downloads, down_bytes;
};
struct kva_rt_host_traffic kva_rt_host_traffic(void);

#ifdef __cplusplus
}
#endif
#endif
#endif
