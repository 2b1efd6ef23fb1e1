/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ops.c - opens the CPU backend: numerics, instruction set, threads; owns weights. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

static bool has_baseline(void)
{
    return __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

static bool has(const char *isa)
{
    if (!has_baseline())
        return false;
    if (strcmp(isa, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (strcmp(isa, "avx2") == 0)
        return __builtin_cpu_supports("avx2");
    return true;
}

/* Tables by what the machine has; index = how many of the wider ones are missing. */
static const char *const isas[4][4] = {
    {"avx512", "avx2", "scalar", NULL},
    {"avx2", "scalar", NULL, NULL},
    {"scalar", NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL},
};

const char *const *kva_cpu_isas(void)
{
    __builtin_cpu_init();
    return isas[!has_baseline()                ? 3
                : has("avx512") && has("avx2") ? 0
                : has("avx2")                  ? 1
                                               : 2];
}

static const struct kva_cpu_kernels *kernels_named(const char *name)
{
    static const struct kva_cpu_kernels *const all[] = {&kva_cpu_avx512, &kva_cpu_avx2,
                                                        &kva_cpu_scalar};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

static enum kva_status choose(const char *numerics, const struct kva_cpu_kernels **k,
                              struct kva_error *err)
{
    const char *const *have = kva_cpu_isas(), *want = getenv("KVAUDIT_CPU");

    if (!have[0])
        return KVA_FAIL(err, KVA_EUNSUPPORTED,
                        "this processor lacks FMA and F16C, which every kernel needs");
    *k = kernels_named(have[0]);
    if (want && *want) {
        bool found = false;

        if (!kernels_named(want))
            return KVA_FAIL(err, KVA_EINVALID,
                            "KVAUDIT_CPU=%s: expected scalar, avx2 or avx512", want);
        for (int i = 0; have[i]; i++)
            found = found || strcmp(have[i], want) == 0;
        if (!found)
            return KVA_FAIL(err, KVA_EINVALID,
                            "KVAUDIT_CPU=%s: this machine has no such instructions",
                            want);
        *k = kernels_named(want);
    }
    if (strcmp(numerics, "ref") == 0)
        *k = &kva_cpu_scalar;
    return KVA_OK;
}

static void weight_free(struct kva_ops *ops, struct kva_weight *w)
{
    (void)ops;
    if (!w)
        return;
    free(w->row_of);
    free(w->packed);
    free(w);
}

static size_t weight_bytes(const struct kva_weight *w)
{
    return w->owned_bytes;
}

static enum kva_status weight_new(struct kva_ops *ops, enum kva_type type,
                                  const void *data, int out, int in,
                                  const int32_t *row_of, struct kva_weight **weight,
                                  struct kva_error *err)
{
    const struct kva_type_info *t = kva_type_get((uint32_t)type);
    struct kva_weight *w;
    enum kva_status rc = KVA_OK;

    *weight = NULL;
    if (!t)
        return KVA_FAIL(err, KVA_EUNSUPPORTED, "weight type %s",
                        kva_type_name((uint32_t)type));
    if (out < 1 || in < 1 || out > INT32_MAX - 64 || in % t->block_elements != 0)
        return KVA_FAIL(err, KVA_EINVALID, "weight of %d x %d in blocks of %d", out, in,
                        t->block_elements);
    w = kva_calloc(1, sizeof *w);
    if (!w)
        return KVA_FAIL(err, KVA_ENOMEM, "weight of %d x %d", out, in);
    w->type = type;
    w->out = out;
    w->in = in;
    w->panels = (out + 15) / 16;
    w->data = data;
    w->row_bytes = (size_t)(in / t->block_elements) * (size_t)t->block_bytes;
    w->owned_bytes = sizeof *w;
    if (row_of) {
        w->row_of = kva_calloc((size_t)out, sizeof *row_of);
        if (!w->row_of) {
            rc = KVA_FAIL(err, KVA_ENOMEM, "row order of %d rows", out);
            goto out;
        }
        for (int o = 0; o < out; o++) {
            if (row_of[o] < 0 || row_of[o] >= out) {
                rc = KVA_FAIL(err, KVA_EINVALID, "row %d of a weight of %d rows",
                              row_of[o], out);
                goto out;
            }
            w->row_of[o] = row_of[o];
        }
        w->owned_bytes += (size_t)out * sizeof *row_of;
    }
    if (strcmp(ops->numerics, "f32") == 0)
        KVA_GO(kva_cpu_pack(w, err));
    *weight = w;
    w = NULL;
out:
    weight_free(ops, w);
    return rc;
}

/* Of kernels/cuda, where the program was linked with it. */
extern enum kva_status kva_cuda_open(const char *numerics, struct kva_ops **ops,
                                     struct kva_error *err) __attribute__((weak));

static void cpu_close(struct kva_ops *ops)
{
    struct kva_cpu *cpu = ops->impl;

    kva_cpu_pool_release(&cpu->pool);
    free(cpu);
}

enum kva_status kva_ops_open(const char *backend, const char *numerics, int threads,
                             struct kva_ops **ops, struct kva_error *err)
{
    const struct kva_cpu_kernels *k = NULL;
    struct kva_cpu *cpu;
    bool ref = strcmp(numerics, "ref") == 0;
    enum kva_status rc;

    *ops = NULL;
    if (strcmp(backend, "cuda") == 0) {
        if (kva_cuda_open)
            return kva_cuda_open(numerics, ops, err);
        return KVA_FAIL(err, KVA_EUNSUPPORTED,
                        "this program has no CUDA backend: make cuda");
    }
    if (strcmp(backend, "cpu") != 0)
        return KVA_FAIL(err, KVA_EINVALID, "backend %s: expected cpu or cuda", backend);
    if (strcmp(numerics, "bf16") == 0)
        return KVA_FAIL(err, KVA_EUNSUPPORTED,
                        "numerics bf16: backend cpu has ref and f32; bf16 products are "
                        "those of a device (--backend cuda)");
    if (!ref && strcmp(numerics, "f32") != 0)
        return KVA_FAIL(err, KVA_EINVALID, "numerics %s: expected ref or f32", numerics);
    if (threads < 1)
        return KVA_FAIL(err, KVA_EINVALID, "%d threads", threads);
    KVA_TRY(choose(numerics, &k, err));
    cpu = kva_calloc(1, sizeof *cpu);
    if (!cpu)
        return KVA_FAIL(err, KVA_ENOMEM, "backend cpu");
    cpu->k = k;
    cpu->ops.backend = "cpu";
    cpu->ops.numerics = ref ? "ref" : "f32";
    cpu->ops.isa = k->name;
    cpu->ops.chunk = 256;
    cpu->ops.threads = threads < KVA_CPU_THREADS ? threads : KVA_CPU_THREADS;
    cpu->ops.impl = cpu;
    cpu->ops.close = cpu_close;
    cpu->ops.weight_new = weight_new;
    cpu->ops.weight_free = weight_free;
    cpu->ops.weight_bytes = weight_bytes;
    kva_cpu_memory_table(&cpu->ops);
    if (ref)
        kva_cpu_ref_table(&cpu->ops);
    else
        kva_cpu_f32_table(&cpu->ops);
    rc = kva_cpu_pool_init(&cpu->pool, cpu->ops.threads, err);
    if (rc != KVA_OK) {
        free(cpu);
        return rc;
    }
    *ops = &cpu->ops;
    return KVA_OK;
}

void kva_ops_close(struct kva_ops *ops)
{
    if (ops)
        ops->close(ops);
}

enum kva_status kva_ops_reason(struct kva_ops *ops, enum kva_status rc,
                               struct kva_error *err)
{
    struct kva_error why = {0};

    if (rc != KVA_ENOMEM || ops->sync(ops, &why) == KVA_OK)
        return rc;
    if (err != NULL)
        *err = why;
    return why.code;
}
