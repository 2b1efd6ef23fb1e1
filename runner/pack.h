/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pack.h - wire form of samples and results; unpacked ones are released by their own
 * release. */
#ifndef KVA_PACK_H
#define KVA_PACK_H

#include "runner/exec.h"

/* Appends; check the buffer's status once. */
void kva_result_pack(const struct kva_result *r, struct kva_buf *out);
void kva_sample_pack(const struct kva_sample_row *s, struct kva_buf *out);
/* False when the bytes end early; what was read so far is released by the caller. */
bool kva_result_unpack(const char **at, const char *end, struct kva_result *r);
bool kva_sample_unpack(const char **at, const char *end, struct kva_sample_row *s);

#endif
