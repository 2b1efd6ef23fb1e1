/* SPDX-License-Identifier: GPL-3.0-or-later */
/* kva_hash.c - FNV-1a 64, SplitMix64, SHA-256 and SHA-1 (FIPS 180-4), hexadecimal. */
#include "kva.h"

#include <string.h>

/* h = (h ^ byte) * 0x100000001b3 for each byte (models.md 9.2) */
uint64_t kva_fnv1a64_more(uint64_t h, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3ULL;
    return h;
}

uint64_t kva_fnv1a64(const void *bytes, size_t n)
{
    return kva_fnv1a64_more(KVA_FNV_OFFSET, bytes, n);
}

uint64_t kva_fnv1a64_str(const char *s)
{
    return kva_fnv1a64(s, strlen(s));
}

uint64_t kva_mix64(uint64_t z)
{
    z += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

uint64_t kva_rng_next(struct kva_rng *r)
{
    uint64_t z = kva_mix64(r->x);

    r->x += 0x9E3779B97F4A7C15ULL;
    return z;
}

/* 128-bit product with rejection: m = next * n is accepted if its low half is at least
 * (2^64 - n) mod n, the result is its high half (tasks-ruler.md 7). */
uint64_t kva_rng_below(struct kva_rng *r, uint64_t n)
{
    __extension__ unsigned __int128 m;
    uint64_t least = (0 - n) % n;

    do {
        m = kva_rng_next(r);
        m *= n;
    } while ((uint64_t)m < least);
    return (uint64_t)(m >> 64);
}

double kva_rng_unit(struct kva_rng *r)
{
    return (double)(kva_rng_next(r) >> 11) * 0x1p-53;
}

/* ---- SHA-256 ---- */

static const uint32_t K256[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

static uint32_t rotr(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void sha256_block(uint32_t *state, const uint8_t *p)
{
    uint32_t w[64], s[8];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];

        w[i] = w[i - 16] + w[i - 7] + (rotr(a, 7) ^ rotr(a, 18) ^ a >> 3) +
               (rotr(b, 17) ^ rotr(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t t1 = s[7] + (rotr(s[4], 6) ^ rotr(s[4], 11) ^ rotr(s[4], 25)) +
                      ((s[4] & s[5]) ^ (~s[4] & s[6])) + K256[i] + w[i];
        uint32_t t2 = (rotr(s[0], 2) ^ rotr(s[0], 13) ^ rotr(s[0], 22)) +
                      ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));

        memmove(s + 1, s, 7 * sizeof s[0]);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void kva_sha256_init(struct kva_sha256 *h)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memset(h, 0, sizeof *h);
    memcpy(h->state, start, sizeof start);
}

/* Both functions cut their input into blocks of 64 bytes. */
static void add_blocks(uint32_t *state, uint64_t *n_bytes, uint8_t *block,
                       void (*compress)(uint32_t *, const uint8_t *), const void *bytes,
                       size_t n)
{
    const uint8_t *p = bytes;
    size_t have = (size_t)(*n_bytes % 64);

    *n_bytes += n;
    if (have) {
        size_t take = 64 - have < n ? 64 - have : n;

        memcpy(block + have, p, take);
        p += take;
        n -= take;
        if (have + take < 64)
            return;
        compress(state, block);
    }
    for (; n >= 64; p += 64, n -= 64)
        compress(state, p);
    if (n)
        memcpy(block, p, n);
}

/* ... and end it with a bit, zeros and the length in bits; the bytes written. */
static size_t last_bytes(uint64_t n_bytes, uint8_t tail[72])
{
    uint64_t bits = n_bytes * 8;
    size_t have = (size_t)(n_bytes % 64);
    size_t pad = have < 56 ? 56 - have : 120 - have;

    memset(tail, 0, 72);
    tail[0] = 0x80;
    for (int i = 0; i < 8; i++)
        tail[pad + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    return pad + 8;
}

void kva_sha256_add(struct kva_sha256 *h, const void *bytes, size_t n)
{
    add_blocks(h->state, &h->n_bytes, h->block, sha256_block, bytes, n);
}

void kva_sha256_end(struct kva_sha256 *h, uint8_t out[32])
{
    uint8_t tail[72];

    kva_sha256_add(h, tail, last_bytes(h->n_bytes, tail));
    for (int i = 0; i < 32; i++)
        out[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

void kva_sha256_of(const void *bytes, size_t n, uint8_t out[32])
{
    struct kva_sha256 h;

    kva_sha256_init(&h);
    kva_sha256_add(&h, bytes, n);
    kva_sha256_end(&h, out);
}

/* ---- SHA-1 ---- */

static uint32_t rotl(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

static void sha1_block(uint32_t *state, const uint8_t *p)
{
    static const uint32_t K[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t w[80], s[5];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 80; i++) {
        uint32_t choose = (s[1] & s[2]) | (~s[1] & s[3]), odd = s[1] ^ s[2] ^ s[3];
        uint32_t most = (s[1] & s[2]) | (s[1] & s[3]) | (s[2] & s[3]);
        uint32_t f = i < 20 ? choose : i >= 40 && i < 60 ? most : odd;
        uint32_t t = rotl(s[0], 5) + f + s[4] + K[i / 20] + w[i];

        s[4] = s[3];
        s[3] = s[2];
        s[2] = rotl(s[1], 30);
        s[1] = s[0];
        s[0] = t;
    }
    for (int i = 0; i < 5; i++)
        state[i] += s[i];
}

void kva_sha1_init(struct kva_sha1 *h)
{
    static const uint32_t start[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
                                      0xc3d2e1f0};

    memset(h, 0, sizeof *h);
    memcpy(h->state, start, sizeof start);
}

void kva_sha1_add(struct kva_sha1 *h, const void *bytes, size_t n)
{
    add_blocks(h->state, &h->n_bytes, h->block, sha1_block, bytes, n);
}

void kva_sha1_end(struct kva_sha1 *h, uint8_t out[20])
{
    uint8_t tail[72];

    kva_sha1_add(h, tail, last_bytes(h->n_bytes, tail));
    for (int i = 0; i < 20; i++)
        out[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

void kva_hex(const uint8_t *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = '\0';
}
