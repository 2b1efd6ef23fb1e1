/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tiny.c - the deterministic tiny `llama` of models.md 9.2, written as a GGUF file in
 * memory.
 *
 *     u(name, i) = (mix(FNV1a64(name) + i) >> 40) / 8388608 - 1        in [-1, 1)
 *     weight i   = (float)(a * u), norm weights (float)(1 + 0.25 u), i in file order
 *
 * L 3, d 64, ff 96, H 4, Hkv 2, head 16, eps 1e-5, theta 5e5, tied output, rope_freqs in
 * the file, rows of Q and K in file order (interleaved rotation). It goes through the
 * ordinary loader, so that un-permutation and factors are exercised without any file.
 * Vocabulary: the 260 entries of models.md 6.7: bytes 0..255 in the printable form of
 * byte-level BPE, two control tokens (256 begin, 257 end), "th", "the"; merges "t h", "th
 * e". */
#include "models/builtin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_LAYERS = 3,
    DIM = 64,
    FFN = 96,
    HEADS = 4,
    KV_HEADS = 2,
    HEAD_DIM = 16,
    VOCAB = 260
};

double kva_tiny_unit(const char *name, uint64_t i)
{
    return (double)(kva_mix64(kva_fnv1a64_str(name) + i) >> 40) / 8388608.0 - 1.0;
}

/* Code point of a byte in byte-level BPE: printable ones stand for themselves, the others
 * follow from 256 on in ascending order. */
static int byte_code_point(int b)
{
    int next = 256;

    for (int i = 0; i <= b; i++) {
        bool own = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;

        if (i == b)
            return own ? b : next;
        next += !own;
    }
    return b;
}

static void put_vocabulary(struct kva_gguf_writer *w)
{
    static const char *const rest[] = {"<|begin|>", "<|end|>", "th", "the"};
    static const char *const merges[] = {"t h", "th e"};
    const size_t merge_len[] = {3, 4};
    char text[256][4];
    const char *s[VOCAB];
    size_t len[VOCAB];
    int32_t type[VOCAB];

    for (int b = 0; b < 256; b++) {
        int c = byte_code_point(b);

        if (c < 128) {
            text[b][0] = (char)c;
            len[b] = 1;
        } else {
            text[b][0] = (char)(0xC0 | c >> 6);
            text[b][1] = (char)(0x80 | (c & 63));
            len[b] = 2;
        }
        s[b] = text[b];
        type[b] = 1;
    }
    for (int i = 0; i < 4; i++) {
        s[256 + i] = rest[i];
        len[256 + i] = strlen(rest[i]);
        type[256 + i] = i < 2 ? 3 : 1;
    }
    kva_gguf_put_str(w, "tokenizer.ggml.model", "gpt2", 4);
    kva_gguf_put_str(w, "tokenizer.ggml.pre", "gpt-2", 5);
    kva_gguf_put_strs(w, "tokenizer.ggml.tokens", s, len, VOCAB);
    kva_gguf_put_i32s(w, "tokenizer.ggml.token_type", type, VOCAB);
    kva_gguf_put_strs(w, "tokenizer.ggml.merges", merges, merge_len, 2);
    kva_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 256);
    kva_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 257);
    kva_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", true);
}

struct builder {
    struct kva_gguf_writer *w;
    const char *skip;
    float *data; /* large enough for the largest tensor */
};

/* scale 0: a norm. */
static void put_tensor(const struct builder *b, const char *name, double scale,
                       uint64_t ne0, uint64_t ne1)
{
    const uint64_t ne[2] = {ne0, ne1};
    uint64_t n = ne0 * (ne1 ? ne1 : 1);

    if (b->skip && strcmp(b->skip, name) == 0)
        return;
    for (uint64_t i = 0; i < n; i++) {
        double u = kva_tiny_unit(name, i);

        b->data[i] = (float)(scale != 0.0 ? scale * u : 1.0 + 0.25 * u);
    }
    kva_gguf_put_tensor(b->w, name, KVA_F32, ne, ne1 ? 2 : 1, b->data);
}

static void put_layer(const struct builder *b, int il)
{
    static const struct {
        const char *name;
        uint64_t ne0, ne1; /* ne1 = 0: a norm */
    } t[] = {
        {"attn_norm", DIM, 0},
        {"attn_q", DIM, HEADS * HEAD_DIM},
        {"attn_k", DIM, KV_HEADS * HEAD_DIM},
        {"attn_v", DIM, KV_HEADS * HEAD_DIM},
        {"attn_output", HEADS * HEAD_DIM, DIM},
        {"ffn_norm", DIM, 0},
        {"ffn_gate", DIM, FFN},
        {"ffn_up", DIM, FFN},
        {"ffn_down", FFN, DIM},
    };
    char name[64];

    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        snprintf(name, sizeof name, "blk.%d.%s.weight", il, t[i].name);
        put_tensor(b, name, t[i].ne1 ? 2.4 / sqrt((double)t[i].ne0) : 0.0, t[i].ne0,
                   t[i].ne1);
    }
}

enum kva_status kva_tiny_build(const struct kva_tiny_opts *opts, struct kva_buf *out,
                               struct kva_error *err)
{
    static const float factors[HEAD_DIM / 2] = {1, 1, 1, 1.5f, 2.5f, 6, 8, 8};
    static const struct kva_tiny_opts none;
    const uint64_t ne_factors[1] = {HEAD_DIM / 2};
    struct builder b = {0};
    enum kva_status rc;

    if (!opts)
        opts = &none;
    b.skip = opts->skip;
    KVA_GO(kva_gguf_writer_new(&b.w, err));
    b.data = kva_calloc((size_t)VOCAB * DIM, sizeof *b.data);
    if (!b.data) {
        rc = KVA_FAIL(err, KVA_ENOMEM, "out of memory for the tiny model");
        goto out;
    }
    kva_gguf_put_str(b.w, "general.architecture", "llama", 5);
    kva_gguf_put_str(b.w, "general.name", "tiny-llama", 10);
    kva_gguf_put_u32(b.w, "llama.block_count", N_LAYERS);
    kva_gguf_put_u32(b.w, "llama.context_length",
                     opts->ctx_train ? opts->ctx_train : 8192);
    kva_gguf_put_u32(b.w, "llama.embedding_length", DIM);
    kva_gguf_put_u32(b.w, "llama.feed_forward_length", FFN);
    kva_gguf_put_u32(b.w, "llama.attention.head_count", HEADS);
    kva_gguf_put_u32(b.w, "llama.attention.head_count_kv", KV_HEADS);
    kva_gguf_put_f32(b.w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    kva_gguf_put_u32(b.w, "llama.rope.dimension_count", HEAD_DIM);
    kva_gguf_put_f32(b.w, "llama.rope.freq_base", 5e5f);
    put_vocabulary(b.w);
    if (opts->extra)
        opts->extra(b.w, opts->ctx);
    put_tensor(&b, "token_embd.weight", 1.5, DIM, VOCAB);
    put_tensor(&b, "output_norm.weight", 0.0, DIM, 0);
    if (!b.skip || strcmp(b.skip, "rope_freqs.weight") != 0)
        kva_gguf_put_tensor(b.w, "rope_freqs.weight", KVA_F32, ne_factors, 1, factors);
    for (int i = 0; i < N_LAYERS; i++)
        put_layer(&b, i);
    KVA_GO(kva_gguf_finish(b.w, out, err));
out:
    free(b.data);
    kva_gguf_writer_free(b.w);
    return rc;
}
