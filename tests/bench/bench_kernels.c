/* SPDX-License-Identifier: GPL-3.0-or-later */
/* bench_kernels.c - speed of the CPU backend per instruction set, as text lines.
 *
 *   bench_kernels [isa...]
 *
 * Best of several runs, one thread, random numbers. Shapes are those of SmolLM2-135M with
 * Q4_1 layers and a Q8_0 head. Peak is a register loop of fused multiply-adds measured in
 * the same sitting: only shares of it compare across machines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cpu/cpu.h"

#define LAYERS 30
#define D      576
#define VOCAB  49152

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void stop(const char *what)
{
    fprintf(stderr, "bench_kernels: %s\n", what);
    exit(1);
}

static void *memory(size_t bytes)
{
    void *p = kva_aligned(bytes);

    if (!p)
        stop("out of memory");
    return p;
}

static float *random_floats(struct kva_rng *r, size_t n)
{
    float *x = memory(n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = (float)(kva_rng_unit(r) - 0.5);
    return x;
}

static struct kva_weight *random_weight(struct kva_ops *ops, struct kva_rng *r,
                                        enum kva_type type, int out, int in,
                                        uint8_t **data)
{
    const struct kva_type_info *t = kva_type_get((uint32_t)type);
    size_t count = (size_t)out * (size_t)in / (size_t)t->block_elements;
    struct kva_weight *w;

    *data = memory(count * (size_t)t->block_bytes);
    for (size_t i = 0; i < count * (size_t)t->block_bytes; i++)
        (*data)[i] = (uint8_t)kva_rng_next(r);
    for (size_t b = 0; b < count; b++) {
        uint16_t h = kva_f32_to_f16(0.02f);

        memcpy(*data + b * (size_t)t->block_bytes, &h, 2);
        if (type == KVA_Q4_1)
            memcpy(*data + b * (size_t)t->block_bytes + 2, &h, 2);
    }
    if (ops->weight_new(ops, type, *data, out, in, NULL, &w, NULL) != KVA_OK)
        stop("cannot pack a weight");
    return w;
}

static double measured_peak(const struct kva_cpu_kernels *k)
{
    volatile double sink = 0;
    double best = 0;

    for (int i = 0; i < 8; i++) {
        long loops = 2000000;
        double t = now();

        sink = sink + k->peak(loops);
        t = now() - t;
        t = (double)loops * k->peak_flops / t * 1e-9;
        best = t > best ? t : best;
    }
    return best;
}

static const int shape[4][2] = {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}};

struct model {
    struct kva_weight *w[LAYERS][4], *head;
    uint8_t *data[LAYERS][4], *head_data;
};

static void layers(struct kva_ops *ops, const struct model *m, int n, const float *x,
                   int rows, float *y)
{
    for (int l = 0; l < n; l++)
        for (int i = 0; i < 4; i++)
            ops->matmul(ops, m->w[l][i], x, rows, y, shape[i][0]);
}

static void products(struct kva_ops *ops, const struct model *m, double peak,
                     struct kva_rng *r)
{
    const int rows[] = {1, 2, 4, 8, 12, 24, 64, 128, 256, 512};
    float *x = random_floats(r, (size_t)512 * 1536), *y = memory((size_t)512 * VOCAB * 4);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int n = rows[i] <= 24 ? LAYERS : 4;
        double flop = 2.0 * 3538944 * n * rows[i], best = 1e9;

        for (int k = 0; k < 7; k++) {
            double t = now();

            layers(ops, m, n, x, rows[i], y);
            t = now() - t;
            best = t < best ? t : best;
        }
        printf("%-6s product m=%-3d %7.1f GFLOP/s  %5.1f %% of peak  %6.0f tok/s\n",
               ops->isa, rows[i], flop / best * 1e-9, flop / best * 1e-7 / peak,
               rows[i] * (double)n / LAYERS / best);
    }
    for (int rows_n = 1; rows_n <= 24; rows_n += 23) {
        double best = 1e9, head = 1e9;

        for (int k = 0; k < 9; k++) {
            double t = now(), h;

            layers(ops, m, LAYERS, x, rows_n, y);
            h = now();
            ops->matmul(ops, m->head, x, rows_n, y, VOCAB);
            h = now() - h;
            t = now() - t;
            best = t < best ? t : best;
            head = h < head ? h : head;
        }
        printf("%-6s whole model, %d row(s): %.2f ms (head %.2f), %.0f tok/s\n", ops->isa,
               rows_n, best * 1e3, head * 1e3, rows_n / best);
    }
    free(x);
    free(y);
}

static void bench_products(struct kva_ops *ops, double peak)
{
    struct kva_rng r = {1};
    struct model *m = memory(sizeof *m);

    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < 4; i++)
            m->w[l][i] = random_weight(ops, &r, KVA_Q4_1, shape[i][0], shape[i][1],
                                       &m->data[l][i]);
    m->head = random_weight(ops, &r, KVA_Q8_0, VOCAB, D, &m->head_data);
    products(ops, m, peak, &r);
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < 4; i++) {
            ops->weight_free(ops, m->w[l][i]);
            free(m->data[l][i]);
        }
    ops->weight_free(ops, m->head);
    free(m->head_data);
    free(m);
}

/* `layers` caches of n entries, three KV heads of 64, pages in scattered order */
struct caches {
    struct kva_kv_view v[LAYERS];
    int32_t len[3];
    uint8_t sorted[3];
};

static void caches_make(struct caches *c, struct kva_rng *r, int n)
{
    int per_head = (n + KVA_PAGE - 1) / KVA_PAGE, pages = 3 * per_head;

    for (int h = 0; h < 3; h++) {
        c->len[h] = n;
        c->sorted[h] = 1;
    }
    for (int l = 0; l < LAYERS; l++) {
        struct kva_kv_view *v = &c->v[l];
        size_t values;
        int32_t *table = memory((size_t)pages * 4), *pos = memory((size_t)pages * 128);
        uint16_t *half;

        *v = (struct kva_kv_view){
            .kv_heads = 3, .dim_k = 64, .dim_v = 64, .type = KVA_F16};
        v->page_bytes = (size_t)KVA_PAGE * 128 * 2;
        values = (size_t)pages * v->page_bytes / 2;
        half = memory(values * 2);
        for (size_t i = 0; i < values; i++)
            half[i] = kva_f32_to_f16((float)(kva_rng_unit(r) - 0.5));
        for (int i = 0; i < pages; i++)
            table[i] = i;
        for (int i = pages - 1; i > 0; i--) {
            int j = (int)kva_rng_below(r, (uint64_t)i + 1), t = table[i];

            table[i] = table[j];
            table[j] = t;
        }
        for (int i = 0; i < pages; i++)
            for (int s = 0; s < KVA_PAGE; s++)
                pos[table[i] * KVA_PAGE + s] = i % per_head * KVA_PAGE + s;
        v->base = (uint8_t *)half;
        v->table = table;
        v->pos = pos;
        v->table_cap = per_head;
        v->len = c->len;
        v->sorted = c->sorted;
    }
}

static double attend_time(struct kva_ops *ops, const struct caches *c, int n_layers,
                          int rows, int first, const float *q, float *out)
{
    int32_t pos[256];
    double best = 1e9;

    for (int i = 0; i < rows; i++)
        pos[i] = first + i;
    for (int k = 0; k < 7; k++) {
        double t = now();

        for (int l = 0; l < n_layers; l++) {
            struct kva_attn a = {&c->v[l], q,   pos, rows, 9, 576,
                                 0.125f,   out, 576, NULL, 0};

            ops->attend(ops, &a, 1);
        }
        t = now() - t;
        best = t < best ? t : best;
    }
    return best;
}

static void bench_attend(struct kva_ops *ops, double peak)
{
    const int lens[] = {512, 4096};
    struct kva_rng r = {2};
    float *q = random_floats(&r, 256 * 576), *out = memory(256 * 576 * 4);

    for (int i = 0; i < 2; i++) {
        struct caches c;
        int n = lens[i];
        double t, pairs = 0;

        caches_make(&c, &r, n);
        t = attend_time(ops, &c, LAYERS, 1, n - 1, q, out);
        printf("%-6s attend decode, %d entries: %.2f ms/token, %.1f GB/s of cache\n",
               ops->isa, n, t * 1e3, 90.0 * n * 256 / t * 1e-9);
        for (int k = 0; k < 256; k++)
            pairs += n - 255 + k;
        t = attend_time(ops, &c, 2, 256, n - 256, q, out);
        printf("%-6s attend prefill, rows %d..%d: %.1f GFLOP/s, %.1f %% of peak\n",
               ops->isa, n - 256, n - 1, pairs * 2 * 9 * 256 / t * 1e-9,
               pairs * 2 * 9 * 256 / t * 1e-7 / peak);
    }
    free(q);
    free(out);
}

static void bench_rest(struct kva_ops *ops)
{
    struct kva_rng r = {3};
    size_t n = (size_t)256 * 1536;
    float *x = random_floats(&r, 3 * 4096 * 64), *y = random_floats(&r, n * 2);
    float *q = random_floats(&r, 64 * 576), *m = memory(9 * 4096 * 4);
    int32_t *pos = memory(3 * 4096 * 4), q_pos[64], argmax, target = 5;
    const size_t off[] = {0, 4096, 8192, 12288};
    const struct kva_rows rows = {x, off, 3, 64};
    size_t a_off[9];
    double t, nll;
    bool finite;

    for (int i = 0; i < 9; i++)
        a_off[i] = (size_t)i * 4096;
    for (int i = 0; i < 3 * 4096; i++)
        pos[i] = i % 4096;
    for (int i = 0; i < 64; i++)
        q_pos[i] = 4032 + i;
    t = now();
    ops->silu_mul(ops, y, y + n, n, y);
    printf("%-6s silu %.2f ns/element\n", ops->isa, (now() - t) / (double)n * 1e9);
    t = now();
    for (int i = 0; i < 100; i++)
        ops->rmsnorm(ops, y + n, q, 1e-5f, 256, 576, y);
    printf("%-6s rmsnorm %.2f ns/element\n", ops->isa,
           (now() - t) / 100 / 256 / 576 * 1e9);
    t = now();
    for (int i = 0; i < 10; i++)
        ops->rope(ops, y, 960, 256, 12, 64, y + n, 32);
    printf("%-6s rope %.2f us/row of 12 heads\n", ops->isa, (now() - t) / 10 / 256 * 1e6);
    t = now();
    for (int i = 0; i < 10; i++)
        ops->logits_stats(ops, y, VOCAB, 1, NULL, &argmax, &nll, &finite);
    printf("%-6s argmax of %d: %.1f us\n", ops->isa, VOCAB, (now() - t) / 10 * 1e6);
    t = now();
    for (int i = 0; i < 10; i++)
        ops->logits_stats(ops, y, VOCAB, 1, &target, &argmax, &nll, &finite);
    printf("%-6s argmax and nll of %d: %.1f us\n", ops->isa, VOCAB,
           (now() - t) / 10 * 1e6);
    t = now();
    ops->window_mean(ops, q, q_pos, 64, 9, &rows, pos, 0.125f, m, a_off);
    printf("%-6s window_mean 64 x 4096, 9 heads: %.2f ms/layer\n", ops->isa,
           (now() - t) * 1e3);
    t = now();
    ops->row_norm(ops, &rows, m);
    printf("%-6s row_norm 3 x 4096 x 64: %.2f ms/layer\n", ops->isa, (now() - t) * 1e3);
    t = now();
    ops->row_mean(ops, &rows, 1, m);
    ops->row_cosine(ops, &rows, m, m + 256);
    printf("%-6s row_mean and row_cosine: %.2f ms/layer\n", ops->isa, (now() - t) * 1e3);
    free(x);
    free(y);
    free(q);
    free(m);
    free(pos);
}

int main(int argc, char **argv)
{
    const char *const *isas = kva_cpu_isas();

    for (int i = 0; isas[i]; i++) {
        struct kva_ops *ops;
        double peak;
        int wanted = argc < 2;

        for (int a = 1; a < argc; a++)
            wanted = wanted || strcmp(argv[a], isas[i]) == 0;
        setenv("KVAUDIT_CPU", isas[i], 1);
        if (!wanted)
            continue;
        if (kva_ops_open("cpu", "f32", 1, &ops, NULL) != KVA_OK)
            stop("cannot open the backend");
        peak = measured_peak(((struct kva_cpu *)ops->impl)->k);
        printf("%-6s peak %.1f GFLOP/s (register loop)\n", isas[i], peak);
        bench_products(ops, peak);
        bench_attend(ops, peak);
        bench_rest(ops);
        kva_ops_close(ops);
    }
    return 0;
}
