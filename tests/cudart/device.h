/* SPDX-License-Identifier: GPL-3.0-or-later */
/* device.h - inside of the stand-in: memory, streams and planted failures, shared by the
 * files that look like CUDA (runtime.cpp, graph.cpp, driver.cpp, cublaslt.cpp). */
#ifndef KVA_CUDART_DEVICE_H
#define KVA_CUDART_DEVICE_H

#include "tests/cudart/cudart.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <stdint.h>
#include <string>
#include <vector>

namespace dev
{

/* Ends the program: a call no device forgives. */
[[noreturn]] __attribute__((format(printf, 2, 3))) void stop(const char *call,
                                                             const char *fmt, ...);

/* ---- failures: the number a call must return, 0 to go on ---- */
int enter(const char *call, bool takes_memory = false);

/* ---- memory ---- */
enum place { HOST, PINNED, DEVICE, MANAGED, MAPPED };
const size_t GRANULE = (size_t)2 << 20;

void *take(size_t bytes, place where); /* NULL: there is no room */
void give(const char *call, void *p, bool pinned);
/* Where `bytes` at p lie, all of them in one piece; HOST: nowhere of ours. */
place where(const void *p, size_t bytes);
inline bool on_device(const void *p, size_t bytes)
{
    place at = where(p, bytes);

    return at == DEVICE || at == MANAGED || at == MAPPED;
}
/* Whether p lies in address space that ever was the device's or pinned. */
bool ours(const void *p);
bool count(size_t bytes); /* takes so many; false: there is no room */
void uncount(size_t bytes);
size_t free_bytes();
size_t total_bytes();

/* Ranges: address space, and pieces mapped into it. */
void *reserve(size_t bytes);
void unreserve(const char *call, void *p, size_t bytes);
void map(const char *call, void *p, size_t bytes);
void unmap(const char *call, void *p, size_t bytes);
void grant(const char *call, void *p, size_t bytes);

/* ---- streams ---- */
struct event {
    bool timing, recorded, passed;
    int64_t ns;
    struct stream *of;
    uint64_t at; /* of the stream's work */
};
struct work {
    const char *name;
    std::function<void()> run;
};
struct stream {
    std::deque<work> held;
    uint64_t given, done;
};
/* counts: it is work of the device, not only a mark. */
void give_work(stream *s, const char *name, std::function<void()> run,
               bool counts = true);
void wait_for(stream *s, uint64_t until);
void wait_for_all();
void lose_work(); /* a wait failed: what was queued is never done */
bool idle();
extern stream *first_stream; /* the default one */
void stream_open(stream *s);
void stream_close(stream *s);

/* ---- what an address in an argument of a kernel may be ---- */
void check_arguments(const char *name, const void *bytes, size_t n);

/* Handles that are alive, by kind. */
void born(const char *kind, const void *p);
void died(const char *call, const char *kind, const void *p);
bool alive(const char *kind, const void *p);

} // namespace dev

#endif
