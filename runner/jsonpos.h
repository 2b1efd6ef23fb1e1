/* SPDX-License-Identifier: GPL-3.0-or-later */
/* jsonpos.h - where each value of a JSON text stands: JSON pointer -> line and column. */
#ifndef KVA_JSONPOS_H
#define KVA_JSONPOS_H

#include "kva.h"

struct kva_jsonpos_at {
    int line, col;         /* of the value, from 1; columns count characters */
    int key_line, key_col; /* of its key; 0 in arrays and at the root */
};
struct kva_jsonpos {
    struct kva_map map; /* pointer -> index into at */
    struct kva_jsonpos_at *at;
    size_t n, cap;
    /* keys that occur twice in one object: pointer and where the second one stands */
    struct kva_jsonpos_dup {
        char *pointer;
        int line, col, first_line;
    } * dups;
    size_t n_dups;
};

/* `text` must be valid JSON (parsed before). Pointers are RFC 6901: "/budgets/1/keep", ""
 * = root. */
enum kva_status kva_jsonpos_scan(const char *text, size_t n, struct kva_jsonpos *p,
                                 struct kva_error *err);
/* The position of the pointer, else of its nearest ancestor that the text has. */
struct kva_jsonpos_at kva_jsonpos_find(const struct kva_jsonpos *p, const char *pointer);
void kva_jsonpos_release(struct kva_jsonpos *p);
/* Ends a message about the text: what stands in the report from `start` on becomes one
 * line, control characters of the text blanks. */
void kva_jsonpos_line(struct kva_buf *report, size_t start);

#endif
