/* SPDX-License-Identifier: GPL-3.0-or-later */
/* pool.c - a few threads that split outputs, never a sum.
 *
 * Items are handed out by a counter, so which thread computes which is open; results
 * cannot depend on it, since every item writes its own outputs. Helpers start at the
 * first run that wants them: before that the process may fork. Both sides spin for some
 * 50 us between products, then sleep. A helper that cannot start (no memory, no thread)
 * is simply missing. */
#include <immintrin.h>
#include <stdlib.h>

#include "kernels/cpu/cpu.h"

#define SPINS 1000

struct helper {
    struct kva_cpu_pool *pool;
    void *scratch;
};

static void work(struct kva_cpu_pool *p, void *scratch)
{
    for (;;) {
        int item = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);

        if (item >= p->items)
            return;
        p->fn(p->ctx, item, scratch);
    }
}

static void *helper_main(void *arg)
{
    struct helper h = *(struct helper *)arg;
    struct kva_cpu_pool *p = h.pool;
    unsigned seen = 0;

    free(arg);
    for (;;) {
        for (int i = 0; i < SPINS && atomic_load(&p->round) == seen; i++)
            _mm_pause();
        if (atomic_load(&p->round) == seen) {
            pthread_mutex_lock(&p->lock);
            while (atomic_load(&p->round) == seen)
                pthread_cond_wait(&p->wake, &p->lock);
            pthread_mutex_unlock(&p->lock);
        }
        seen++;
        if (atomic_load(&p->quit))
            return NULL;
        work(p, h.scratch);
        if (atomic_fetch_sub(&p->busy, 1) == 1) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->done);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

static void start(struct kva_cpu_pool *p)
{
    p->started = 0;
    for (int i = 1; i < p->threads; i++) {
        struct helper *h = kva_calloc(1, sizeof *h);

        p->scratch[i] = h ? kva_aligned(KVA_CPU_SCRATCH) : NULL;
        if (!p->scratch[i]) {
            free(h);
            return;
        }
        h->pool = p;
        h->scratch = p->scratch[i];
        if (pthread_create(&p->id[i], NULL, helper_main, h) != 0) {
            free(h);
            return;
        }
        p->started++;
    }
}

static void next_round(struct kva_cpu_pool *p)
{
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->round, 1);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

enum kva_status kva_cpu_pool_init(struct kva_cpu_pool *p, int threads,
                                  struct kva_error *err)
{
    p->threads = threads;
    p->started = -1;
    p->scratch[0] = kva_aligned(KVA_CPU_SCRATCH);
    if (!p->scratch[0])
        return KVA_FAIL(err, KVA_ENOMEM, "scratch memory of the kernels");
    if (pthread_mutex_init(&p->lock, NULL) != 0 ||
        pthread_cond_init(&p->wake, NULL) != 0 || pthread_cond_init(&p->done, NULL) != 0)
        return KVA_FAIL(err, KVA_ENOMEM, "locks of the thread pool");
    return KVA_OK;
}

void kva_cpu_pool_release(struct kva_cpu_pool *p)
{
    if (p->started > 0) {
        atomic_store(&p->quit, 1);
        next_round(p);
        for (int i = 1; i <= p->started; i++)
            pthread_join(p->id[i], NULL);
    }
    for (int i = 0; i < KVA_CPU_THREADS; i++)
        free(p->scratch[i]);
}

void kva_cpu_pool_run(struct kva_cpu_pool *p, int items, bool alone,
                      void (*fn)(void *ctx, int item, void *scratch), void *ctx)
{
    if (p->threads > 1 && !alone && items > 1 && p->started < 0)
        start(p);
    if (alone || items <= 1 || p->started <= 0) {
        for (int i = 0; i < items; i++)
            fn(ctx, i, p->scratch[0]);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    p->items = items;
    atomic_store(&p->next, 0);
    atomic_store(&p->busy, p->started);
    next_round(p);
    work(p, p->scratch[0]);
    for (int i = 0; i < SPINS && atomic_load(&p->busy) > 0; i++)
        _mm_pause();
    if (atomic_load(&p->busy) > 0) {
        pthread_mutex_lock(&p->lock);
        while (atomic_load(&p->busy) > 0)
            pthread_cond_wait(&p->done, &p->lock);
        pthread_mutex_unlock(&p->lock);
    }
}
