/* SPDX-License-Identifier: GPL-3.0-or-later */
/* view.h - one layer of one store as a kernel sees it; passed by value.
 *
 * Entry j of KV head h lies in page id = table[h * table_cap + j / 32], slot j % 32: its
 * key at base + id * page_bytes + slot * dim_k * e, its value behind the page's 32 keys
 * at base + id * page_bytes + 32 * dim_k * e + slot * dim_v * e, its position at pos[id *
 * 32 + slot], e = 2 (f16) or 4. Only slots below len[h] may be read; table entries behind
 * them are -1, positions behind them stale. Offsets are 64 bits wide. */
#ifndef KVA_CUDA_VIEW_H
#define KVA_CUDA_VIEW_H

#include <stddef.h>
#include <stdint.h>

struct kva_dev_view {
    uint8_t *base; /* of page 0 */
    size_t page_bytes;
    const int32_t *pos;    /* [pages][32] */
    const int32_t *table;  /* [kv_heads][table_cap] */
    const int32_t *len;    /* [kv_heads] entries held */
    const uint8_t *sorted; /* [kv_heads] 1 while positions ascend with the slot */
    const uint32_t *live;  /* bit s of live[page] = readable; NULL: all are */
    int table_cap, kv_heads, dim_k, dim_v;
    int f16;     /* 1: f16, 0: f32 */
    int longest; /* largest len, known to the host */
};

#endif
