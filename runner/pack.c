/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pack.c - results and samples as bytes between a worker and the parent.
 *
 * Both ends are the same program on the same machine: structs travel as they are, what
 * they point to follows with its length. */
#include "runner/pack.h"
#include "runner/parts.h"

#include <stdlib.h>
#include <string.h>

static void put_bytes(struct kva_buf *b, const void *p, size_t n)
{
    uint64_t len = p != NULL ? n : UINT64_MAX;

    kva_buf_add(b, &len, sizeof len);
    if (p != NULL)
        kva_buf_add(b, p, n);
}

static void put_str(struct kva_buf *b, const char *s)
{
    put_bytes(b, s, s != NULL ? strlen(s) + 1 : 0);
}

static bool get_raw(const char **at, const char *end, void *out, size_t n)
{
    if ((size_t)(end - *at) < n)
        return false;
    memcpy(out, *at, n);
    *at += n;
    return true;
}

/* A fresh copy of the next byte string; *p NULL when NULL was packed. */
static bool get_bytes(const char **at, const char *end, void *out_ptr, size_t *n)
{
    void *copy = NULL;
    uint64_t len;

    if (!get_raw(at, end, &len, sizeof len))
        return false;
    if (len != UINT64_MAX) {
        if (len > (uint64_t)(end - *at))
            return false;
        copy = kva_calloc(len > 0 ? (size_t)len : 1, 1);
        if (copy == NULL)
            return false;
        memcpy(copy, *at, (size_t)len);
        *at += len;
    }
    memcpy(out_ptr, &copy, sizeof copy);
    if (n != NULL)
        *n = len == UINT64_MAX ? 0 : (size_t)len;
    return true;
}

void kva_result_pack(const struct kva_result *r, struct kva_buf *out)
{
    size_t heads = (size_t)(r->layers * r->kv_heads);

    kva_buf_add(out, r, sizeof *r);
    put_str(out, r->error);
    put_str(out, r->text);
    put_str(out, r->timing.clock);
    put_bytes(out, r->ids, (size_t)r->n_gen * sizeof *r->ids);
    put_bytes(out, r->bits,
              r->bits != NULL ? heads * (((size_t)r->bits_tok + 7) / 8) : 0);
    for (int i = 0; i < r->n_scores; i++)
        put_str(out, r->scores[i].extracted);
    for (int i = 0; i < r->n_spans; i++) {
        kva_buf_add(out, &r->spans[i], sizeof r->spans[i]);
        put_bytes(out, r->spans[i].kept, heads * sizeof(uint16_t));
    }
}

bool kva_result_unpack(const char **at, const char *end, struct kva_result *r)
{
    struct kva_result_span *spans;
    char *clock = NULL;
    int n_spans, n_scores;

    if (!get_raw(at, end, r, sizeof *r))
        return false;
    n_spans = r->n_spans;
    n_scores = r->n_scores;
    r->n_scores = 0;
    r->error = r->text = NULL;
    r->timing.clock = NULL;
    r->ids = NULL;
    r->bits = NULL;
    r->spans = NULL;
    r->n_spans = 0;
    if (!get_bytes(at, end, &r->error, NULL) || !get_bytes(at, end, &r->text, NULL) ||
        !get_bytes(at, end, &clock, NULL))
        return false;
    r->timing.clock = kva_parts_clock_named(clock);
    free(clock);
    if (!get_bytes(at, end, &r->ids, NULL) || !get_bytes(at, end, &r->bits, NULL))
        return false;
    while (r->n_scores < n_scores) {
        struct kva_result_score *score = &r->scores[r->n_scores];

        score->extracted = NULL;
        r->n_scores++;
        if (!get_bytes(at, end, &score->extracted, NULL))
            return false;
    }
    spans = kva_calloc((size_t)n_spans + 1, sizeof *spans);
    if (spans == NULL)
        return false;
    r->spans = spans;
    for (int i = 0; i < n_spans; i++) {
        if (!get_raw(at, end, &spans[i], sizeof spans[i]))
            return false;
        spans[i].kept = NULL;
        r->n_spans = i + 1;
        if (!get_bytes(at, end, &spans[i].kept, NULL))
            return false;
    }
    return true;
}

void kva_sample_pack(const struct kva_sample_row *s, struct kva_buf *out)
{
    kva_buf_add(out, s, sizeof *s);
    put_str(out, s->refs_json);
    put_str(out, s->meta_json);
}

bool kva_sample_unpack(const char **at, const char *end, struct kva_sample_row *s)
{
    if (!get_raw(at, end, s, sizeof *s))
        return false;
    s->refs_json = s->meta_json = NULL;
    return get_bytes(at, end, &s->refs_json, NULL) &&
           get_bytes(at, end, &s->meta_json, NULL);
}
