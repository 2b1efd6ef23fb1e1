/* SPDX-License-Identifier: GPL-3.0-or-later */
/* text.c - code points and white space as the official scorers see them. */
#include "metrics/text.h"

uint32_t kva_text_decode(const char *s, size_t n, size_t *len)
{
    const unsigned char *u = (const unsigned char *)s;
    int k = kva_utf8_len(s, n);

    *len = k > 1 ? (size_t)k : 1;
    switch (k) {
    case 1:
        return u[0];
    case 2:
        return (u[0] & 0x1fU) << 6 | (u[1] & 0x3fU);
    case 3:
        return (u[0] & 0x0fU) << 12 | (u[1] & 0x3fU) << 6 | (u[2] & 0x3fU);
    case 4:
        return (u[0] & 0x07U) << 18 | (u[1] & 0x3fU) << 12 | (u[2] & 0x3fU) << 6 |
               (u[3] & 0x3fU);
    default:
        return 0xfffdU;
    }
}

static bool in(uint32_t c, uint32_t lo, uint32_t hi)
{
    return c >= lo && c <= hi;
}

bool kva_text_is_space(uint32_t c)
{
    return in(c, 0x09, 0x0d) || in(c, 0x1c, 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || in(c, 0x2000, 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}
