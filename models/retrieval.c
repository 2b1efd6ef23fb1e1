/* SPDX-License-Identifier: GPL-3.0-or-later */
/* retrieval.c - `builtin:retrieval`, a two-layer llama whose weights are computed.
 *
 * It copies the value behind a queried key and follows variable chains, by places in
 * layer 0 (what stands 2, 3, 4, 6 tokens back) and matches in layer 1. Every entry below
 * is retrieval-model.md 3 and 4, in its notation: W[row, column], dims of the residual
 * named as there, SD[0..49] the content dims of a head. All weights are computed in
 * double and rounded to f32 once; what is not named is zero. The answer is a function of
 * which cache entries were kept, nothing else. */
#include "models/builtin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 256, HEADS = 6, KV_HEADS = 2, HD = 64, FFN = 128, VOCAB = 32768, CODE = 48 };
enum { NQ = HEADS * HD, NKV = KV_HEADS * HD };

/* residual layout */
enum {
    CONST_ = 0,
    TYPE = 1,
    ASK = 2,
    COL = 3,
    NAME = 4,
    EQF = 5,
    BOSF = 6,
    USE = 7,
    END = 8,
    VALF = 9,
    NSINK = 10,
    VSINK = 11,
    OWN = 16,
    SLOT_A = 64,
    SLOT_B = 112,
    DN = 160,
    DV = 208,
};
/* content dims of a head */
enum { GATE = 62, SINK = 63 };

static int sd(int j)
{
    return j < 25 ? 7 + j : 14 + j;
}

/* ids: 0 <bos>, 1 <eos>, 2 is, 3 are, 4 ?, 5 :, 6 =; values 256.., names 12288.., words
 * 14336.. */
static bool is_value(int id)
{
    return id >= 256 && id < 12288;
}

static bool is_name(int id)
{
    return id >= 12288 && id < 14336;
}

static double norm_of(int id)
{
    uint64_t h = kva_mix64(kva_fnv1a64_str("retrieval.norm") + (uint64_t)id);

    return 0.9 + 0.2 * (double)(h >> 40) / 16777216.0;
}

static void fill_row(float *row, int id)
{
    uint64_t h = kva_mix64(kva_fnv1a64_str("retrieval.code") + (uint64_t)id);
    double s = norm_of(id);

    row[CONST_] = 256.0f;
    row[TYPE] = is_value(id) ? (float)s : -1.0f;
    row[ASK] = id >= 2 && id <= 4;
    row[COL] = id == 5;
    row[NAME] = is_name(id);
    row[EQF] = id == 6;
    row[BOSF] = id == 0;
    row[VALF] = is_value(id);
    if (id == 1)
        row[END] = row[VALF] = 16.0f;
    if (id < 2)
        return;
    for (int j = 0; j < CODE; j++) {
        row[OWN + j] = (float)((h >> j & 1) ? s : -s);
        if (is_name(id))
            row[DV + j] = row[OWN + j];
    }
}

static const double place_weight[7] = {40, 40, 30, 20, 20, 20, 20};

/* Column `col` of one head's rows becomes P(m), the query that scores w_i cos(f_i
 * (distance - m)). */
static void place(float *q, int head, int col, int m)
{
    for (int i = 0; i < 7; i++) {
        double f = exp2(-2.5 * i), r = 8.0 * place_weight[i];

        q[(size_t)(HD * head + i) * DIM + (size_t)col] = (float)(r * cos(f * m));
        q[(size_t)(HD * head + i + 32) * DIM + (size_t)col] = (float)(-r * sin(f * m));
    }
}

/* P(a) - P(b), each entry rounded once. */
static void place_difference(float *q, int head, int col, int a, int b)
{
    for (int i = 0; i < 7; i++) {
        double f = exp2(-2.5 * i), r = 8.0 * place_weight[i];

        q[(size_t)(HD * head + i) * DIM + (size_t)col] =
            (float)(r * (cos(f * a) - cos(f * b)));
        q[(size_t)(HD * head + i + 32) * DIM + (size_t)col] =
            (float)(-r * (sin(f * a) - sin(f * b)));
    }
}

/* W[row, col] of a matrix with rows of DIM, of NQ (o) or of FFN (down) */
#define AT(w, row, col)   ((w)[(size_t)(row)*DIM + (size_t)(col)])
#define AT_O(w, row, col) ((w)[(size_t)(row)*NQ + (size_t)(col)])
#define AT_D(w, row, col) ((w)[(size_t)(row)*FFN + (size_t)(col)])

static void fill_places(struct kva_retrieval_layer *l)
{
    for (int g = 0; g < KV_HEADS; g++) {
        for (int i = 0; i < 7; i++)
            AT(l->k, HD * g + i, CONST_) = 1.0f;
        for (int j = 0; j < CODE; j++)
            AT(l->k, HD * g + sd(j), OWN + j) = 0.25f;
        AT(l->k, HD * g + SINK, BOSF) = 4.0f;
    }
    for (int j = 0; j < CODE; j++) {
        AT(l->v, j, OWN + j) = 1.0f;
        AT(l->v, HD + 16 + j, OWN + j) = -1.0f;
    }
    AT(l->v, 48, EQF) = 1.0f;

    place(l->q, 0, CONST_, 3);
    place(l->q, 1, CONST_, 3);
    place_difference(l->q, 1, VALF, 2, 3);
    place(l->q, 2, CONST_, 2);
    place_difference(l->q, 2, VALF, 1, 2);
    place(l->q, 3, ASK, 6);
    place(l->q, 5, ASK, 6);
    place(l->q, 4, COL, 4);
    for (int n = 3; n < HEADS; n++)
        AT(l->q, HD * n + SINK, CONST_) = 32.0f;

    for (int j = 0; j < CODE; j++) {
        AT_O(l->o, SLOT_A + j, j) = 1.0f;
        AT_O(l->o, SLOT_B + j, HD + j) = 1.0f;
        AT_O(l->o, DN + j, HD * (j < 24 ? 3 : 5) + 16 + j) = -1.0f;
        AT_O(l->o, DV + j, HD * 4 + 16 + j) = -1.0f;
    }
    AT_O(l->o, USE, 2 * HD + 48) = 1.0f;
}

static void fill_match_attention(struct kva_retrieval_layer *l)
{
    for (int j = 0; j < CODE; j++) {
        AT(l->k, sd(j), SLOT_A + j) = 1.0f;
        AT(l->k, HD + sd(j), OWN + j) = 1.0f;
        AT(l->v, j, OWN + j) = 1.0f;
        AT(l->v, HD + 16 + j, SLOT_B + j) = 1.0f;
    }
    AT(l->k, GATE, TYPE) = 0.25f;
    AT(l->k, SINK, BOSF) = 4.0f;
    AT(l->k, HD + GATE, USE) = 0.25f;
    AT(l->k, HD + SINK, BOSF) = 4.0f;
    AT(l->v, 48, BOSF) = 1.0f;
    AT(l->v, HD, BOSF) = 1.0f;

    for (int n = 0; n < 2; n++) {
        for (int j = 0; j < CODE; j++) {
            AT(l->q, HD * n + sd(j), DN + j) = 24.0f;
            AT(l->q, HD * (3 + n) + sd(j), DV + j) = 24.0f;
        }
        AT(l->q, HD * n + GATE, ASK) = 1920.0f;
        AT(l->q, HD * n + SINK, ASK) = 432.0f;
        AT(l->q, HD * (3 + n) + GATE, NAME) = AT(l->q, HD * (3 + n) + GATE, COL) =
            2880.0f;
        AT(l->q, HD * (3 + n) + SINK, NAME) = AT(l->q, HD * (3 + n) + SINK, COL) = 384.0f;
    }
    for (int j = 0; j < CODE; j++) {
        AT(l->q, HD * 2 + sd(j), SLOT_A + j) = (float)(4.0 / 3.0);
        AT(l->q, HD * 5 + sd(j), OWN + j) = (float)(4.0 / 3.0);
        AT_O(l->o, SLOT_A + j, HD * (j < 24 ? 0 : 1) + j) = 8.0f;
        AT_O(l->o, SLOT_B + j, HD * (j < 24 ? 3 : 4) + 16 + j) = 8.0f;
        AT_O(l->o, DN + j, HD * 2 + j) = 1.0f;
        AT_O(l->o, DV + j, HD * 5 + 16 + j) = 1.0f;
    }
    for (int n = 0; n < 2; n++) {
        AT_O(l->o, NSINK, HD * n + 48) = 0.5f;
        AT_O(l->o, VSINK, HD * (3 + n)) = 0.5f;
    }
}

/* silu(32 * flag) * slot / 32 is the slot where the flag is 1 and exactly 0 where it is
 * 0. */
static void fill_match_ffn(struct kva_retrieval_layer *l)
{
    for (int r = 0; r < CODE; r++) {
        AT(l->gate, r, ASK) = 32.0f;
        AT(l->gate, CODE + r, NAME) = AT(l->gate, CODE + r, COL) = 32.0f;
        AT(l->up, r, SLOT_A + r) = 1.0f;
        AT(l->up, CODE + r, SLOT_B + r) = 1.0f;
        AT_D(l->down, OWN + r, r) = AT_D(l->down, OWN + r, CODE + r) = 1.0f / 32.0f;
    }
    AT(l->gate, 96, ASK) = 32.0f;
    AT(l->gate, 97, NAME) = AT(l->gate, 97, COL) = 32.0f;
    AT(l->up, 96, NSINK) = 1.0f;
    AT(l->up, 97, VSINK) = 1.0f;
    AT_D(l->down, END, 96) = AT_D(l->down, END, 97) = 1.0f / 32.0f;
}

static float *carve(float **at, size_t n)
{
    float *p = *at;

    *at += n;
    return p;
}

enum kva_status kva_retrieval_build(struct kva_retrieval *r, struct kva_error *err)
{
    const size_t layer = (size_t)DIM * (NQ + NKV + NKV + NQ + FFN + FFN + FFN) + DIM;
    float *at;

    memset(r, 0, sizeof *r);
    r->n = (size_t)VOCAB * DIM + DIM + KVA_RETRIEVAL_LAYERS * layer;
    r->block = kva_aligned(r->n * sizeof *r->block);
    if (!r->block)
        return KVA_FAIL(err, KVA_ENOMEM,
                        "out of memory for the weights of builtin:retrieval");
    at = r->block;
    r->tok_embd = carve(&at, (size_t)VOCAB * DIM);
    r->out_norm = carve(&at, DIM);
    for (int i = 0; i < KVA_RETRIEVAL_LAYERS; i++) {
        struct kva_retrieval_layer *l = &r->layer[i];

        l->q = carve(&at, (size_t)NQ * DIM);
        l->k = carve(&at, (size_t)NKV * DIM);
        l->v = carve(&at, (size_t)NKV * DIM);
        l->o = carve(&at, (size_t)DIM * NQ);
        l->gate = carve(&at, (size_t)FFN * DIM);
        l->up = carve(&at, (size_t)FFN * DIM);
        l->down = carve(&at, (size_t)DIM * FFN);
        l->norm = carve(&at, DIM);
        for (int d = 0; d < DIM; d++)
            l->norm[d] = d == CONST_ ? 1.0f / 16.0f : 16.0f;
    }
    for (int id = 0; id < VOCAB; id++)
        fill_row(r->tok_embd + (size_t)id * DIM, id);
    for (int j = 0; j < CODE; j++)
        r->out_norm[OWN + j] = 1.5f;
    r->out_norm[END] = 30.0f;
    r->out_norm[VALF] = 40.0f;
    fill_places(&r->layer[0]);
    fill_match_attention(&r->layer[1]);
    fill_match_ffn(&r->layer[1]);
    return KVA_OK;
}

enum kva_status kva_retrieval_arch(const struct kva_retrieval *r, double theta,
                                   struct kva_ops *ops, struct kva_arch *a,
                                   struct kva_error *err)
{
    const float *inv;

    kva_arch_init(a, "llama");
    a->dim = DIM;
    a->heads = HEADS;
    a->kv_heads = KV_HEADS;
    a->head_dim = a->v_dim = HD;
    a->ffn = FFN;
    a->vocab = VOCAB;
    a->ctx_train = 131072;
    a->eps = 1e-5f;
    a->score_scale = 0.125f;
    a->out_norm = ops->constant(ops, r->out_norm, DIM);
    a->layer = kva_arena_alloc(&a->arena, KVA_RETRIEVAL_LAYERS, sizeof *a->layer);
    if (!a->layer)
        return KVA_FAIL(err, KVA_ENOMEM, "out of memory for builtin:retrieval");
    a->layers = KVA_RETRIEVAL_LAYERS;
    KVA_TRY(kva_arch_inv_freq(a, theta > 0.0 ? theta : 0x1p80, HD, 1.0, NULL, &inv, err));
    for (int i = 0; i < KVA_RETRIEVAL_LAYERS; i++) {
        const struct kva_retrieval_layer *w = &r->layer[i];
        struct kva_layer *l = &a->layer[i];
        const struct {
            const float *data;
            int out, in;
            struct kva_weight **to;
        } m[] = {
            {w->q, NQ, DIM, &l->q},        {w->k, NKV, DIM, &l->k},
            {w->v, NKV, DIM, &l->v},       {w->o, DIM, NQ, &l->o},
            {w->gate, FFN, DIM, &l->gate}, {w->up, FFN, DIM, &l->up},
            {w->down, DIM, FFN, &l->down},
        };

        l->ffn = FFN;
        l->n_rot = HD;
        l->inv_freq = inv;
        l->mscale = 1.0f;
        l->attn_norm = l->ffn_norm = ops->constant(ops, w->norm, DIM);
        for (size_t j = 0; j < sizeof m / sizeof m[0]; j++)
            KVA_TRY(ops->weight_new(ops, KVA_F32, m[j].data, m[j].out, m[j].in, NULL,
                                    m[j].to, err));
    }
    KVA_TRY(
        ops->weight_new(ops, KVA_F32, r->tok_embd, VOCAB, DIM, NULL, &a->tok_embd, err));
    a->lm_head = a->tok_embd;
    return kva_arch_check(a, err);
}
