/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rt_cuda.c - rt.h by the CUDA runtime; ranges by the driver's virtual memory calls.
 *
 * The driver is asked for through cudaGetDriverEntryPointByVersion, so nothing links
 * libcuda and the program starts without a driver. Uploads are copied into a ring of
 * pinned memory first, which the device reads on its own: a piece of the ring is used
 * again when the event behind its last copy has passed. */
#include "kernels/cuda/queue.h"
#include "kernels/cuda/rt.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <stdlib.h>
#include <string.h>

enum { PIECES = 8 };
static const size_t PIECE_BYTES = (size_t)2 << 20;

struct driver { /* NULL: the driver lacks it */
    PFN_cuMemGetAllocationGranularity_v10020 granularity;
    PFN_cuMemAddressReserve_v10020 reserve;
    PFN_cuMemAddressFree_v10020 unreserve;
    PFN_cuMemCreate_v10020 create;
    PFN_cuMemRelease_v10020 release;
    PFN_cuMemMap_v10020 map;
    PFN_cuMemUnmap_v10020 unmap;
    PFN_cuMemSetAccess_v10020 access;
};

struct kva_rt {
    struct kva_rt_info info;
    cudaStream_t stream;
    struct driver driver;
    CUmemAllocationProp prop; /* of chunks */
    size_t granule;           /* 0: no virtual memory calls */
    uint8_t *ring;            /* pinned, PIECES pieces */
    cudaEvent_t passed[PIECES];
    bool marked[PIECES];
    int piece;
    size_t used; /* of the piece */
    struct kva_error fault;
    bool failed;
    struct kva_queue queue; /* while this is `gatherer` */
    struct kva_replays replays;
    struct kva_rt *next; /* of `opened` */
};

struct kva_rt_event {
    cudaEvent_t e;
};

/* Launches know their stream only. */
static struct kva_rt *opened, *gatherer; /* all of them; the one that gathers */
/* Longer uploads are no lists: they go out by themselves. */
static const size_t HELD_UPLOAD = (size_t)256 << 10;

/* Keeps the first failure; true while there is none. */
static bool fine(struct kva_rt *rt, cudaError_t rc, const char *what)
{
    if (rc != cudaSuccess && !rt->failed) {
        rt->failed = true;
        (void)KVA_FAIL(&rt->fault, rc == cudaErrorMemoryAllocation ? KVA_ENOMEM : KVA_EIO,
                       "CUDA: %s: %s", what, cudaGetErrorString(rc));
    }
    return !rt->failed;
}

static bool fine_driver(struct kva_rt *rt, CUresult rc, const char *what)
{
    if (rc != CUDA_SUCCESS && !rt->failed) {
        rt->failed = true;
        (void)KVA_FAIL(&rt->fault, KVA_EIO, "CUDA driver: %s: error %d", what, (int)rc);
    }
    return !rt->failed;
}

enum { MOST_ARGS = 32 };
static void flush(struct kva_rt *rt); /* what is held goes out */
/* True when the copy or fill was held. */
static bool hold(struct kva_rt *rt, enum kva_queue_kind kind, void *to, const void *from,
                 int byte, size_t bytes);
static struct kva_replayer replayer(struct kva_rt *rt);

/* ---- opening ---- */

static void find(const char *name, void *fn)
{
    enum cudaDriverEntryPointQueryResult got;
    void *p = NULL;

    if (cudaGetDriverEntryPointByVersion(name, &p, 10020, cudaEnableDefault, &got) !=
            cudaSuccess ||
        got != cudaDriverEntryPointSuccess)
        p = NULL;
    memcpy(fn, &p, sizeof p);
}

static void find_driver(struct kva_rt *rt, int device)
{
    struct driver *d = &rt->driver;

    find("cuMemGetAllocationGranularity", &d->granularity);
    find("cuMemAddressReserve", &d->reserve);
    find("cuMemAddressFree", &d->unreserve);
    find("cuMemCreate", &d->create);
    find("cuMemRelease", &d->release);
    find("cuMemMap", &d->map);
    find("cuMemUnmap", &d->unmap);
    find("cuMemSetAccess", &d->access);
    (void)cudaGetLastError();
    rt->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    rt->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    rt->prop.location.id = device;
    if (!d->granularity || !d->reserve || !d->unreserve || !d->create || !d->release ||
        !d->map || !d->unmap || !d->access ||
        d->granularity(&rt->granule, &rt->prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) !=
            CUDA_SUCCESS)
        rt->granule = 0;
}

static cudaError_t describe(struct kva_rt *rt, int device)
{
    struct cudaDeviceProp prop;
    cudaError_t rc = cudaGetDeviceProperties(&prop, device);

    if (rc != cudaSuccess)
        return rc;
    memcpy(rt->info.name, prop.name, sizeof rt->info.name - 1);
    rt->info.name[sizeof rt->info.name - 1] = '\0';
    rt->info.major = prop.major;
    rt->info.minor = prop.minor;
    rt->info.processors = prop.multiProcessorCount;
    rt->info.total_bytes = prop.totalGlobalMem;
    rt->info.shared_bytes = prop.sharedMemPerBlockOptin;
    rt->info.l2_bytes = prop.l2CacheSize > 0 ? (size_t)prop.l2CacheSize : 0;
    (void)cudaDriverGetVersion(&rt->info.driver);
    (void)cudaRuntimeGetVersion(&rt->info.runtime);
    return cudaSuccess;
}

enum kva_status kva_rt_open(struct kva_rt **out, struct kva_error *err)
{
    struct kva_rt *rt;
    cudaError_t rc;
    int n = 0;

    *out = NULL;
    (void)cudaGetLastError(); /* of whoever tried before */
    rc = cudaGetDeviceCount(&n);
    if (rc != cudaSuccess || n < 1)
        return KVA_FAIL(err, KVA_EUNSUPPORTED, "no CUDA device: %s",
                        rc != cudaSuccess ? cudaGetErrorString(rc) : "none is visible");
    rt = kva_calloc(1, sizeof *rt);
    if (rt == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "CUDA runtime");
    if (fine(rt, cudaSetDevice(0), "choosing the device") &&
        fine(rt, describe(rt, 0), "device properties") &&
        fine(rt, cudaStreamCreateWithFlags(&rt->stream, cudaStreamNonBlocking), "stream"))
        (void)fine(rt, cudaMallocHost((void **)&rt->ring, PIECES * PIECE_BYTES),
                   "pinned memory");
    for (int i = 0; i < PIECES && !rt->failed; i++)
        (void)fine(rt, cudaEventCreateWithFlags(&rt->passed[i], cudaEventDisableTiming),
                   "event");
    if (rt->failed) {
        (void)KVA_FAIL(err, rt->fault.code, "%s", rt->fault.text);
        kva_rt_close(rt);
        return err ? err->code : KVA_EIO;
    }
    if (rt->info.major < 8) {
        (void)KVA_FAIL(err, KVA_EUNSUPPORTED,
                       "no CUDA device: %s has compute capability %d.%d, 8.0 is needed",
                       rt->info.name, rt->info.major, rt->info.minor);
        kva_rt_close(rt);
        return KVA_EUNSUPPORTED;
    }
    find_driver(rt, 0);
    rt->next = opened;
    opened = rt;
    *out = rt;
    return KVA_OK;
}

void kva_rt_close(struct kva_rt *rt)
{
    struct kva_replayer by;

    if (rt == NULL)
        return;
    kva_rt_gather(rt, false);
    for (struct kva_rt **at = &opened; *at != NULL; at = &(*at)->next)
        if (*at == rt) {
            *at = rt->next;
            break;
        }
    if (rt->stream)
        (void)cudaStreamSynchronize(rt->stream);
    by = replayer(rt);
    kva_replays_release(&rt->replays, &by);
    kva_queue_release(&rt->queue);
    for (int i = 0; i < PIECES; i++)
        if (rt->passed[i])
            (void)cudaEventDestroy(rt->passed[i]);
    if (rt->ring)
        (void)cudaFreeHost(rt->ring);
    if (rt->stream)
        (void)cudaStreamDestroy(rt->stream);
    free(rt);
}

void *kva_rt_stream(struct kva_rt *rt)
{
    return rt->stream;
}

const struct kva_rt_info *kva_rt_info(const struct kva_rt *rt)
{
    return &rt->info;
}

enum kva_status kva_rt_status(struct kva_rt *rt, struct kva_error *err)
{
    if (fine(rt, cudaPeekAtLastError(), "a launch"))
        return KVA_OK;
    return KVA_FAIL(err, rt->fault.code, "%s", rt->fault.text);
}

enum kva_status kva_rt_sync(struct kva_rt *rt, struct kva_error *err)
{
    flush(rt);
    /* after a failure, too: memory is given back behind this, and what was launched
     * before the failure may still use it */
    (void)fine(rt, cudaStreamSynchronize(rt->stream), "a kernel or copy");
    return kva_rt_status(rt, err);
}

void kva_rt_mem_info(struct kva_rt *rt, size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *total_bytes = 0;
    (void)fine(rt, cudaMemGetInfo(free_bytes, total_bytes), "memory of the device");
}

/* ---- memory and copies ---- */

void *kva_rt_alloc(struct kva_rt *rt, size_t bytes, bool shared)
{
    void *p = NULL;
    cudaError_t rc;

    if (rt->failed)
        return NULL;
    bytes = bytes > 0 ? bytes : 1;
    rc = shared ? cudaMallocManaged(&p, bytes, cudaMemAttachGlobal)
                : cudaMalloc(&p, bytes);
    if (rc == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError(); /* the caller's business */
        return NULL;
    }
    return fine(rt, rc, "allocating") ? p : NULL;
}

void kva_rt_free(struct kva_rt *rt, void *p)
{
    if (p == NULL)
        return;
    flush(rt);
    (void)fine(rt, cudaFree(p), "freeing");
}

int *kva_rt_flag_new(struct kva_rt *rt)
{
    int *p = NULL;

    if (rt->failed ||
        cudaHostAlloc((void **)&p, sizeof *p, cudaHostAllocMapped) != cudaSuccess) {
        (void)cudaGetLastError();
        return NULL;
    }
    *p = 0;
    return p;
}

void kva_rt_flag_free(struct kva_rt *rt, int *flag)
{
    if (flag == NULL)
        return;
    (void)kva_rt_sync(rt, NULL); /* a kernel may be about to set it */
    (void)fine(rt, cudaFreeHost(flag), "freeing");
}

/* The next piece of the ring, once the device has read what it held. */
static bool next_piece(struct kva_rt *rt)
{
    if (!fine(rt, cudaEventRecord(rt->passed[rt->piece], rt->stream), "event"))
        return false;
    rt->marked[rt->piece] = true;
    rt->piece = (rt->piece + 1) % PIECES;
    rt->used = 0;
    return !rt->marked[rt->piece] ||
           fine(rt, cudaEventSynchronize(rt->passed[rt->piece]), "a kernel or copy");
}

static void upload_now(struct kva_rt *rt, void *to, const void *from, size_t bytes)
{
    const uint8_t *at = from;
    uint8_t *out = to;

    while (bytes > 0 && !rt->failed) {
        size_t room = PIECE_BYTES - rt->used, n = bytes < room ? bytes : room;
        uint8_t *via = rt->ring + (size_t)rt->piece * PIECE_BYTES + rt->used;

        if (room == 0 || (n < bytes && n < PIECE_BYTES && bytes <= PIECE_BYTES)) {
            if (!next_piece(rt))
                return;
            continue;
        }
        memcpy(via, at, n);
        if (!fine(rt, cudaMemcpyAsync(out, via, n, cudaMemcpyHostToDevice, rt->stream),
                  "copy to the device"))
            return;
        rt->used += (n + 63) / 64 * 64;
        if (rt->used > PIECE_BYTES)
            rt->used = PIECE_BYTES;
        at += n;
        out += n;
        bytes -= n;
    }
}

static void move_now(struct kva_rt *rt, void *to, const void *from, size_t bytes)
{
    (void)fine(rt, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, rt->stream),
               "copy on the device");
}

static void fill_now(struct kva_rt *rt, void *to, int byte, size_t bytes)
{
    (void)fine(rt, cudaMemsetAsync(to, byte & 255, bytes, rt->stream), "fill");
}

void kva_rt_upload(struct kva_rt *rt, void *to, const void *from, size_t bytes)
{
    if (bytes == 0 || rt->failed)
        return;
    if (bytes > HELD_UPLOAD)
        flush(rt);
    else if (hold(rt, KVA_QUEUE_UPLOAD, to, from, 0, bytes))
        return;
    upload_now(rt, to, from, bytes);
}

void kva_rt_download(struct kva_rt *rt, void *to, const void *from, size_t bytes)
{
    if (bytes == 0 || rt->failed)
        return;
    flush(rt);
    if (fine(rt, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, rt->stream),
             "copy from the device"))
        (void)fine(rt, cudaStreamSynchronize(rt->stream), "a kernel or copy");
}

void kva_rt_move(struct kva_rt *rt, void *to, const void *from, size_t bytes)
{
    if (bytes > 0 && !rt->failed && !hold(rt, KVA_QUEUE_MOVE, to, from, 0, bytes))
        move_now(rt, to, from, bytes);
}

void kva_rt_fill(struct kva_rt *rt, void *to, int byte, size_t bytes)
{
    if (bytes > 0 && !rt->failed && !hold(rt, KVA_QUEUE_FILL, to, NULL, byte, bytes))
        fill_now(rt, to, byte, bytes);
}

/* ---- gathering ---- */

static void launch_now(struct kva_rt *rt, const struct kva_queue_item *it, void **arg)
{
    (void)fine(rt,
               cudaLaunchKernel(it->kernel, (dim3){it->grid[0], it->grid[1], it->grid[2]},
                                (dim3){it->block[0], it->block[1], it->block[2]}, arg,
                                it->shared, rt->stream),
               "a launch");
}

/* The arguments of a kernel as the runtime takes them. */
static void **arguments(const struct kva_queue *q, const struct kva_queue_item *it,
                        void *arg[MOST_ARGS])
{
    for (size_t i = 0; i < it->n_args; i++)
        arg[i] = q->data + q->offset[it->arg + i];
    return arg;
}

static void issue(void *ctx, const struct kva_queue *q)
{
    struct kva_rt *rt = ctx;
    void *arg[MOST_ARGS];

    for (size_t i = 0; i < q->n && !rt->failed; i++) {
        const struct kva_queue_item *it = &q->item[i];

        if (it->kind == KVA_QUEUE_KERNEL)
            launch_now(rt, it, arguments(q, it, arg));
        else if (it->kind == KVA_QUEUE_UPLOAD)
            upload_now(rt, it->to, q->data + it->at, it->bytes);
        else if (it->kind == KVA_QUEUE_MOVE)
            move_now(rt, it->to, it->from, it->bytes);
        else
            fill_now(rt, it->to, it->byte, it->bytes);
    }
}

struct graph {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t *node; /* one an item, each behind the one before */
    cudaEvent_t done;      /* of the last launch */
    bool launched;
};

static void graph_destroy(void *ctx, void *graph)
{
    struct graph *g = graph;

    if (g->launched)
        (void)fine(ctx, cudaEventSynchronize(g->done), "a graph");
    if (g->exec)
        (void)cudaGraphExecDestroy(g->exec);
    if (g->graph)
        (void)cudaGraphDestroy(g->graph);
    if (g->done)
        (void)cudaEventDestroy(g->done);
    (void)cudaGetLastError(); /* no launch's: those are kept at once */
    free(g->node);
    free(g);
}

static struct cudaKernelNodeParams kernel_of(const struct kva_queue *q,
                                             const struct kva_queue_item *it,
                                             void *arg[MOST_ARGS])
{
    struct cudaKernelNodeParams p = {
        .gridDim = {it->grid[0], it->grid[1], it->grid[2]},
        .blockDim = {it->block[0], it->block[1], it->block[2]},
        .sharedMemBytes = (unsigned)it->shared,
        .kernelParams = arguments(q, it, arg)};

    memcpy(&p.func, &it->kernel, sizeof p.func);
    return p;
}

static struct cudaMemsetParams fill_of(const struct kva_queue_item *it)
{
    return (struct cudaMemsetParams){.dst = it->to,
                                     .elementSize = 1,
                                     .value = (unsigned)it->byte & 255,
                                     .width = it->bytes,
                                     .height = 1};
}

static cudaError_t add_node(struct graph *g, const struct kva_replay *r, size_t i)
{
    const struct kva_queue_item *it = &r->made.item[i];
    const cudaGraphNode_t *behind = i > 0 ? &g->node[i - 1] : NULL;
    const size_t n = i > 0;
    void *arg[MOST_ARGS];

    if (it->kind == KVA_QUEUE_KERNEL) {
        struct cudaKernelNodeParams p = kernel_of(&r->made, it, arg);

        return cudaGraphAddKernelNode(&g->node[i], g->graph, behind, n, &p);
    }
    if (it->kind == KVA_QUEUE_FILL) {
        struct cudaMemsetParams p = fill_of(it);

        return cudaGraphAddMemsetNode(&g->node[i], g->graph, behind, n, &p);
    }
    if (it->kind == KVA_QUEUE_UPLOAD)
        return cudaGraphAddMemcpyNode1D(&g->node[i], g->graph, behind, n, it->to,
                                        r->host + r->slot[i], it->bytes,
                                        cudaMemcpyHostToDevice);
    return cudaGraphAddMemcpyNode1D(&g->node[i], g->graph, behind, n, it->to, it->from,
                                    it->bytes, cudaMemcpyDeviceToDevice);
}

static void *graph_build(void *ctx, const struct kva_replay *r)
{
    struct graph *g = kva_calloc(1, sizeof *g);
    cudaError_t rc;

    if (g == NULL)
        return NULL;
    g->node = kva_calloc(r->made.n, sizeof *g->node);
    rc = g->node ? cudaGraphCreate(&g->graph, 0) : cudaErrorMemoryAllocation;
    for (size_t i = 0; i < r->made.n && rc == cudaSuccess; i++)
        rc = add_node(g, r, i);
    if (rc == cudaSuccess)
        rc = cudaEventCreateWithFlags(&g->done, cudaEventDisableTiming);
    if (rc == cudaSuccess)
        rc = cudaGraphInstantiate(&g->exec, g->graph, 0);
    if (rc != cudaSuccess) {
        (void)cudaGetLastError(); /* the queue goes out item by item */
        graph_destroy(ctx, g);
        return NULL;
    }
    return g;
}

static bool graph_patch(void *ctx, struct kva_replay *r, size_t i)
{
    const struct kva_queue_item *it = &r->made.item[i];
    struct graph *g = r->graph;
    void *arg[MOST_ARGS];
    cudaError_t rc;

    (void)ctx;
    if (it->kind == KVA_QUEUE_KERNEL) {
        struct cudaKernelNodeParams p = kernel_of(&r->made, it, arg);

        rc = cudaGraphExecKernelNodeSetParams(g->exec, g->node[i], &p);
    } else if (it->kind == KVA_QUEUE_FILL) {
        struct cudaMemsetParams p = fill_of(it);

        rc = cudaGraphExecMemsetNodeSetParams(g->exec, g->node[i], &p);
    } else if (it->kind == KVA_QUEUE_UPLOAD) {
        rc = cudaGraphExecMemcpyNodeSetParams1D(g->exec, g->node[i], it->to,
                                                r->host + r->slot[i], it->bytes,
                                                cudaMemcpyHostToDevice);
    } else {
        rc = cudaGraphExecMemcpyNodeSetParams1D(g->exec, g->node[i], it->to, it->from,
                                                it->bytes, cudaMemcpyDeviceToDevice);
    }
    if (rc != cudaSuccess)
        (void)cudaGetLastError();
    return rc == cudaSuccess;
}

static void graph_launch(void *ctx, struct kva_replay *r)
{
    struct kva_rt *rt = ctx;
    struct graph *g = r->graph;

    if (!rt->failed && fine(rt, cudaGraphLaunch(g->exec, rt->stream), "a graph"))
        g->launched = fine(rt, cudaEventRecord(g->done, rt->stream), "event");
}

static void graph_wait(void *ctx, struct kva_replay *r)
{
    struct graph *g = r->graph;

    if (g->launched)
        (void)fine(ctx, cudaEventSynchronize(g->done), "a graph");
}

static void *host_new(void *ctx, size_t bytes)
{
    void *p = NULL;

    (void)ctx;
    if (cudaMallocHost(&p, bytes) == cudaSuccess)
        return p;
    (void)cudaGetLastError();
    return NULL;
}

static void host_free(void *ctx, void *p)
{
    (void)fine(ctx, cudaFreeHost(p), "freeing");
}

static struct kva_replayer replayer(struct kva_rt *rt)
{
    return (struct kva_replayer){.ctx = rt,
                                 .host_new = host_new,
                                 .host_free = host_free,
                                 .build = graph_build,
                                 .patch = graph_patch,
                                 .launch = graph_launch,
                                 .wait = graph_wait,
                                 .destroy = graph_destroy,
                                 .issue = issue};
}

static void flush(struct kva_rt *rt)
{
    const struct kva_replayer by = replayer(rt);

    if (rt == gatherer && rt->queue.n > 0)
        kva_replays_flush(&rt->replays, &by, &rt->queue);
}

static bool hold(struct kva_rt *rt, enum kva_queue_kind kind, void *to, const void *from,
                 int byte, size_t bytes)
{
    if (rt != gatherer)
        return false;
    if (kva_queue_copy(&rt->queue, kind, to, from, byte, bytes))
        return true;
    flush(rt);
    return false;
}

void kva_rt_launch(void *stream, const void *kernel, const unsigned grid[3],
                   const unsigned block[3], size_t shared, const void *const *arg,
                   const size_t *size, size_t n)
{
    struct kva_rt *rt = opened;
    void *plain[MOST_ARGS];
    cudaError_t rc;

    while (rt != NULL && rt->stream != stream)
        rt = rt->next;
    if (rt != NULL && n > MOST_ARGS)
        (void)fine(rt, cudaErrorInvalidValue, "arguments of a launch");
    if (n > MOST_ARGS || (rt != NULL && rt->failed))
        return;
    if (rt != NULL && rt == gatherer) {
        if (kva_queue_kernel(&rt->queue, kernel, NULL, grid, block, shared, arg, size, n))
            return;
        flush(rt);
    }
    /* the arguments are read, whatever the type says */
    memcpy(plain, arg, n * sizeof *plain);
    rc = cudaLaunchKernel(kernel, (dim3){grid[0], grid[1], grid[2]},
                          (dim3){block[0], block[1], block[2]}, plain, shared, stream);
    /* kept here: an allocation that is refused clears the runtime's own note of it */
    if (rt != NULL)
        (void)fine(rt, rc, "a launch");
    if (stream == NULL) /* nobody's but a test's, which reads the result at once */
        (void)cudaDeviceSynchronize();
}

void kva_rt_gather(struct kva_rt *rt, bool on)
{
    if (on && gatherer == NULL && !rt->failed)
        gatherer = rt;
    if (on || gatherer != rt)
        return;
    flush(rt);
    gatherer = NULL;
}

bool kva_rt_gathering(const struct kva_rt *rt)
{
    return gatherer == rt;
}

const struct kva_replays *kva_rt_replays(const struct kva_rt *rt)
{
    return &rt->replays;
}

/* ---- ranges ---- */

size_t kva_rt_granule(struct kva_rt *rt)
{
    return rt->granule > 0 ? rt->granule : (size_t)2 << 20;
}

static enum kva_status refused(CUresult rc, const char *what, size_t bytes,
                               struct kva_error *err)
{
    return KVA_FAIL(err, rc == CUDA_ERROR_OUT_OF_MEMORY ? KVA_ENOMEM : KVA_EIO,
                    "CUDA driver: %s of %zu bytes: error %d", what, bytes, (int)rc);
}

enum kva_status kva_rt_reserve(struct kva_rt *rt, size_t bytes, size_t chunk,
                               struct kva_rt_range *r, struct kva_error *err)
{
    CUdeviceptr at = 0;
    CUresult rc;

    memset(r, 0, sizeof *r);
    r->bytes = bytes;
    r->chunk = chunk;
    r->resident = rt->granule > 0;
    if (!r->resident) {
        r->base = kva_rt_alloc(rt, bytes, false);
        return r->base ? KVA_OK
                       : KVA_FAIL(err, KVA_ENOMEM, "%zu bytes of the device", bytes);
    }
    r->handle = kva_calloc(bytes / chunk, sizeof *r->handle);
    if (r->handle == NULL)
        return KVA_FAIL(err, KVA_ENOMEM, "handles of %zu chunks", bytes / chunk);
    rc = rt->driver.reserve(&at, bytes, 0, 0, 0);
    if (rc != CUDA_SUCCESS) {
        free(r->handle);
        memset(r, 0, sizeof *r);
        return refused(rc, "reserving", bytes, err);
    }
    r->base = (uint8_t *)(uintptr_t)at;
    return KVA_OK;
}

/* The newest chunk goes. */
static void drop_chunk(struct kva_rt *rt, struct kva_rt_range *r)
{
    CUdeviceptr at;

    r->committed -= r->chunk;
    at = (CUdeviceptr)(uintptr_t)(r->base + r->committed);
    (void)fine_driver(rt, rt->driver.unmap(at, r->chunk), "unmapping");
    (void)fine_driver(rt, rt->driver.release(r->handle[r->committed / r->chunk]),
                      "releasing");
}

enum kva_status kva_rt_commit(struct kva_rt *rt, struct kva_rt_range *r, size_t from,
                              size_t bytes, struct kva_error *err)
{
    CUmemAccessDesc access = {.location = rt->prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const size_t end = from + bytes;
    CUresult rc = CUDA_SUCCESS;

    if (from != r->committed || bytes % r->chunk != 0 || bytes > r->bytes - from)
        return KVA_FAIL(err, KVA_EIO, "commit of %zu bytes at %zu", bytes, from);
    if (!r->resident) {
        r->committed = end;
        return KVA_OK;
    }
    while (rc == CUDA_SUCCESS && r->committed < end) {
        CUdeviceptr at = (CUdeviceptr)(uintptr_t)(r->base + r->committed);
        CUmemGenericAllocationHandle h;

        rc = rt->driver.create(&h, r->chunk, &rt->prop, 0);
        if (rc != CUDA_SUCCESS)
            break;
        rc = rt->driver.map(at, r->chunk, 0, h, 0);
        if (rc != CUDA_SUCCESS) {
            (void)rt->driver.release(h);
            break;
        }
        r->handle[r->committed / r->chunk] = h;
        r->committed += r->chunk;
    }
    if (rc == CUDA_SUCCESS)
        rc = rt->driver.access((CUdeviceptr)(uintptr_t)(r->base + from), bytes, &access,
                               1);
    if (rc == CUDA_SUCCESS)
        return KVA_OK;
    while (r->committed > from)
        drop_chunk(rt, r);
    return refused(rc, "committing", bytes, err);
}

void kva_rt_decommit(struct kva_rt *rt, struct kva_rt_range *r, size_t from, size_t bytes)
{
    (void)bytes;
    (void)kva_rt_sync(rt, NULL);
    if (!r->resident) {
        r->committed = from;
        return;
    }
    while (r->committed > from)
        drop_chunk(rt, r);
}

void kva_rt_release(struct kva_rt *rt, struct kva_rt_range *r)
{
    if (r->base == NULL)
        return;
    kva_rt_decommit(rt, r, 0, r->committed);
    if (r->resident)
        (void)fine_driver(rt,
                          rt->driver.unreserve((CUdeviceptr)(uintptr_t)r->base, r->bytes),
                          "giving address space back");
    else
        kva_rt_free(rt, r->base);
    free(r->handle);
    memset(r, 0, sizeof *r);
}

/* ---- events ---- */

struct kva_rt_event *kva_rt_event_new(struct kva_rt *rt)
{
    struct kva_rt_event *e = kva_calloc(1, sizeof *e);

    if (e != NULL && (rt->failed || !fine(rt, cudaEventCreate(&e->e), "event"))) {
        free(e);
        e = NULL;
    }
    return e;
}

void kva_rt_event_free(struct kva_rt *rt, struct kva_rt_event *e)
{
    if (e != NULL)
        (void)fine(rt, cudaEventDestroy(e->e), "event");
    free(e);
}

void kva_rt_event_mark(struct kva_rt *rt, struct kva_rt_event *e)
{
    flush(rt);
    if (!rt->failed)
        (void)fine(rt, cudaEventRecord(e->e, rt->stream), "event");
}

int64_t kva_rt_event_between(struct kva_rt *rt, struct kva_rt_event *a,
                             struct kva_rt_event *b)
{
    float ms = 0.0f;

    if (rt->failed || !fine(rt, cudaEventSynchronize(b->e), "a kernel or copy"))
        return 0;
    (void)fine(rt, cudaEventElapsedTime(&ms, a->e, b->e), "time between events");
    return (int64_t)((double)ms * 1e6);
}
