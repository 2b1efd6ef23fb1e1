/* SPDX-License-Identifier: GPL-3.0-or-later */
/* post.c - what benchmarks do to an output before they score it
 * (tasks-longbench-math.md A.6, tasks-ruler.md 11.3). */
#include "metrics/text.h"

#include <string.h>

const char *const kva_post_names[] = {
    "none", "first_line", "strip", "strip_first_line", "no_control", NULL};

enum kva_status kva_post_apply(enum kva_post post, const char *text, size_t n,
                               struct kva_buf *out, struct kva_error *err)
{
    size_t b = 0, len;

    switch (post) {
    case KVA_POST_NONE:
        break;
    case KVA_POST_FIRST_LINE:
        while (b < n && text[b] == '\n')
            b++;
        break;
    case KVA_POST_STRIP:
    case KVA_POST_STRIP_FIRST_LINE:
        while (b < n && kva_text_is_space(kva_text_decode(text + b, n - b, &len)))
            b += len;
        break;
    case KVA_POST_NO_CONTROL:
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)text[i] >= 0x20)
                kva_buf_putc(out, text[i]);
        return kva_buf_status(out, err);
    }
    if (post == KVA_POST_FIRST_LINE || post == KVA_POST_STRIP_FIRST_LINE) {
        const char *end = memchr(text + b, '\n', n - b);

        if (end)
            n = (size_t)(end - text);
    }
    kva_buf_add(out, text + b, n - b);
    return kva_buf_status(out, err);
}
