/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mt19937.c - Mersenne Twister as Python and NumPy seed and read it.
 *
 * M. Matsumoto, T. Nishimura, "Mersenne Twister: a 623-dimensionally equidistributed
 * uniform pseudorandom number generator", 1998; seeding init_genrand and init_by_array of
 * the 2002 revision. How CPython's random.py turns words into numbers: tasks-ruler.md 4.
 */
#include "tasks/mt19937.h"

#include <stdlib.h>
#include <string.h>

enum { N = KVA_MT_WORDS, M = 397 };

static void init_genrand(struct kva_mt *m, uint32_t seed)
{
    m->word[0] = seed;
    for (uint32_t i = 1; i < N; i++) {
        uint32_t before = m->word[i - 1];

        m->word[i] = 1812433253U * (before ^ before >> 30) + i;
    }
    m->at = N;
}

void kva_np_seed(struct kva_mt *m, uint32_t seed)
{
    init_genrand(m, seed);
}

/* init_by_array with the seed's 32-bit words, lowest first. */
void kva_py_seed(struct kva_mt *m, uint64_t seed)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t len = key[1] ? 2 : 1, i = 1, j = 0;
    uint32_t *w = m->word;

    init_genrand(m, 19650218U);
    for (int k = 0; k < N; k++) {
        w[i] = (w[i] ^ (w[i - 1] ^ w[i - 1] >> 30) * 1664525U) + key[j] + j;
        if (++i == N) {
            w[0] = w[N - 1];
            i = 1;
        }
        j = (j + 1) % len;
    }
    for (int k = 0; k < N - 1; k++) {
        w[i] = (w[i] ^ (w[i - 1] ^ w[i - 1] >> 30) * 1566083941U) - i;
        if (++i == N) {
            w[0] = w[N - 1];
            i = 1;
        }
    }
    w[0] = 0x80000000U;
    m->at = N;
}

static uint32_t twist(uint32_t high, uint32_t low)
{
    uint32_t y = (high & 0x80000000U) | (low & 0x7fffffffU);

    return y >> 1 ^ (y & 1 ? 0x9908b0dfU : 0);
}

static void refill(struct kva_mt *m)
{
    uint32_t *w = m->word;

    for (int i = 0; i < N - M; i++)
        w[i] = w[i + M] ^ twist(w[i], w[i + 1]);
    for (int i = N - M; i < N - 1; i++)
        w[i] = w[i + M - N] ^ twist(w[i], w[i + 1]);
    w[N - 1] = w[M - 1] ^ twist(w[N - 1], w[0]);
    m->at = 0;
}

uint32_t kva_mt_next(struct kva_mt *m)
{
    uint32_t y;

    if (m->at >= N)
        refill(m);
    y = m->word[m->at++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680U;
    y ^= y << 15 & 0xefc60000U;
    return y ^ y >> 18;
}

/* ---- Python ---- */

double kva_py_random(struct kva_mt *m)
{
    uint32_t a = kva_mt_next(m) >> 5, b = kva_mt_next(m) >> 6;

    return (a * 67108864.0 + b) * (1.0 / 9007199254740992.0);
}

/* getrandbits: words from the least significant up, of the last one its high bits. */
static uint64_t bits(struct kva_mt *m, int k)
{
    uint64_t low;

    if (k <= 32)
        return kva_mt_next(m) >> (32 - k);
    low = kva_mt_next(m);
    return low | (uint64_t)(kva_mt_next(m) >> (64 - k)) << 32;
}

uint64_t kva_py_below(struct kva_mt *m, uint64_t n)
{
    int k = 64 - __builtin_clzll(n);
    uint64_t x;

    do
        x = bits(m, k);
    while (x >= n);
    return x;
}

int64_t kva_py_randint(struct kva_mt *m, int64_t lo, int64_t hi)
{
    return lo + (int64_t)kva_py_below(m, (uint64_t)(hi - lo) + 1);
}

void kva_py_shuffle(struct kva_mt *m, uint32_t *x, size_t n)
{
    for (size_t i = n; i-- > 1;) {
        size_t j = kva_py_below(m, i + 1);
        uint32_t t = x[i];

        x[i] = x[j];
        x[j] = t;
    }
}

/* Python remembers what was drawn in a set when that is smaller than a list of all. */
static bool uses_list(size_t n, size_t k)
{
    size_t size = 21, power = 1;

    if (k > 5) {
        while (power < 3 * k)
            power *= 4;
        size += power;
    }
    return n <= size;
}

enum kva_status kva_py_sample(struct kva_mt *m, size_t n, size_t k, uint32_t *out,
                              struct kva_error *err)
{
    bool list = uses_list(n, k);
    /* the list of what is left, or one bit for each that was drawn */
    uint32_t *pool = kva_calloc(list ? n + 1 : n / 32 + 1, sizeof *pool);

    if (!pool)
        return KVA_FAIL(err, KVA_ENOMEM, "sample: out of memory");
    for (size_t i = 0; list && i < n; i++)
        pool[i] = (uint32_t)i;
    for (size_t i = 0; i < k; i++) {
        uint32_t j;

        if (list) {
            j = (uint32_t)kva_py_below(m, n - i);
            out[i] = pool[j];
            pool[j] = pool[n - i - 1];
            continue;
        }
        do
            j = (uint32_t)kva_py_below(m, n);
        while (pool[j / 32] >> j % 32 & 1);
        pool[j / 32] |= 1U << j % 32;
        out[i] = j;
    }
    free(pool);
    return KVA_OK;
}

void kva_py_choices(struct kva_mt *m, char first, int letters, size_t k, char *out)
{
    for (size_t i = 0; i < k; i++)
        out[i] = (char)(first + (int)(kva_py_random(m) * letters));
}

void kva_py_uuid4(struct kva_mt *m, char out[37])
{
    uint8_t b[16], *at = b;
    uint32_t w[4];
    char hex[33];
    size_t from = 0, to = 0;

    for (int i = 0; i < 4; i++)
        w[i] = kva_mt_next(m);
    for (int i = 3; i >= 0; i--)
        for (int shift = 24; shift >= 0; shift -= 8)
            *at++ = (uint8_t)(w[i] >> shift);
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    kva_hex(b, sizeof b, hex);
    while (from < 32) {
        if (from == 8 || from == 12 || from == 16 || from == 20)
            out[to++] = '-';
        out[to++] = hex[from++];
    }
    out[to] = '\0';
}

/* ---- NumPy ---- */

int64_t kva_np_randint(struct kva_mt *m, int64_t lo, int64_t hi)
{
    uint32_t range = (uint32_t)(hi - 1 - lo), mask = range, x;

    if (range == 0)
        return lo;
    for (int shift = 1; shift < 32; shift *= 2)
        mask |= mask >> shift;
    do
        x = kva_mt_next(m) & mask;
    while (x > range);
    return lo + x;
}
