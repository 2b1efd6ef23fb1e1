/* SPDX-License-Identifier: GPL-3.0-or-later */
/* device.h - the file of tests/device/run.sh ("kvaudit/device-1"), read and checked. */
#ifndef KVA_REPORTS_DEVICE_H
#define KVA_REPORTS_DEVICE_H

#include "reports/internal.h"

enum {
    KVA_DEVICE_CARD,
    KVA_DEVICE_PARITY,
    KVA_DEVICE_GOLDEN,
    KVA_DEVICE_SYNTHETIC,
    KVA_DEVICE_QUICKSTART,
    KVA_DEVICE_SANITIZER,
    KVA_DEVICE_PARTS
};
extern const char *const kva_device_part[KVA_DEVICE_PARTS + 1]; /* ends with NULL */

/* Random weights of a real shape, as one run of the part "synthetic" says. */
struct kva_device_model {
    const char *shape, *backend, *numerics;
    int layers;
    double weight_bytes; /* read a step */
};
/* One time; a rate of the model above it. Bytes and FLOP are those of the work. */
struct kva_device_time {
    const struct kva_device_model *model;
    const char *name;
    int tokens, entries, sessions; /* entries: of a KV head */
    double seconds, bytes, flop;   /* NaN: not measured */
};
/* The device's own count beside the store's books over one eviction. */
struct kva_device_eviction {
    const struct kva_device_model *model;
    int tokens;
    double books, seen; /* bytes given back */
    double allowed;     /* of difference: 2 MiB or 2 % of what was held, the larger */
};
struct kva_device_part {
    const char *status; /* NULL: the file has no such part */
    const char *says;   /* what its lines come to; "" */
    const char *why;    /* it is not ok: the end of its log; "" */
    double seconds, limit;
    int programs, failing;       /* parity, sanitizer: test programs */
    int passed, failed, skipped; /* their tests */
    bool racecheck;              /* sanitizer: the tool ran */
};
/* All strings are clean and live in the report's arena; NULL and NaN: not measured. */
struct kva_device {
    const char *program, *date;
    double seconds;
    const char *card, *capability;
    double processors, memory, l2, driver, runtime;
    double copy, bf16, f32; /* ceilings: bytes (read and written) or FLOP a second */
    struct kva_device_part part[KVA_DEVICE_PARTS];
    struct kva_device_model *model;
    int n_model;
    struct kva_device_time *time;
    int n_time;
    struct kva_device_eviction *eviction;
    int n_eviction;
};

/* Strict: a key, part, status or line that the schema does not know, a missing or twofold
 * one, a negative number or one of another type is KVA_EFORMAT with its place. `name` is
 * the file's, for messages. */
enum kva_status kva_device_read(struct kva_report *r, const char *json, size_t n,
                                const char *name, struct kva_device *d,
                                struct kva_error *err);

#endif
