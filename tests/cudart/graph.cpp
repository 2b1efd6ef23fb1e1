/* SPDX-License-Identifier: GPL-3.0-or-later */
/* graph.cpp - graphs of kernels, copies and fills, instantiated, updated, launched.
 *
 * An instance keeps what its nodes say; a launch takes a copy of that, so an update
 * reaches later launches only. What pinned memory holds is read when the launch runs.
 * Nodes run when all that they depend on has, among these the newest first: a missing
 * dependency shows. An update may not change a node's kind, its kernel or the kind of
 * memory it copies; a copy's direction neither. */
#include "tests/cudart/inside.h"

#include <algorithm>
#include <string.h>

using namespace dev;

namespace
{

struct node {
    enum { KERNEL, COPY, FILL } kind;
    cudaError_t made; /* what CUDA says of its parameters */
    held_kernel k;
    void *to;
    const void *from;
    size_t bytes;
    int byte;
    enum cudaMemcpyKind direction;
    std::vector<size_t> behind;
};
struct graph {
    std::vector<std::unique_ptr<node>> nodes;
};
struct exec {
    std::vector<node> nodes;
    std::map<cudaGraphNode_t, size_t> index;
    std::vector<size_t> order;
};
int launches;

graph *graph_of(const char *call, cudaGraph_t g)
{
    if (!alive("graph", g))
        stop(call, "no graph");
    return reinterpret_cast<graph *>(g);
}

exec *exec_of(const char *call, cudaGraphExec_t e)
{
    if (!alive("executable graph", e))
        stop(call, "no executable graph");
    return reinterpret_cast<exec *>(e);
}

void run(const node &n)
{
    if (n.kind == node::KERNEL)
        run_kernel(n.k);
    else if (n.kind == node::COPY)
        memcpy(n.to, n.from, n.bytes);
    else
        memset(n.to, n.byte, n.bytes);
}

const char *name_of(const node &n)
{
    return n.kind == node::KERNEL ? n.k.of->name
           : n.kind == node::COPY ? "a copy of a graph"
                                  : "a fill of a graph";
}

node kernel_node(const struct cudaKernelNodeParams *p)
{
    node n = {};

    n.kind = node::KERNEL;
    n.made = p->extra != nullptr ? cudaErrorInvalidValue
                                 : hold_kernel(p->func, p->gridDim, p->blockDim,
                                               p->sharedMemBytes, p->kernelParams, &n.k);
    return n;
}

node copy_node(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    node n = {};

    n.kind = node::COPY;
    n.to = to;
    n.from = from;
    n.bytes = bytes;
    n.direction = kind;
    if (bytes == 0 || !copy_allowed(to, from, bytes, kind))
        n.made = cudaErrorInvalidValue;
    else if (kind == cudaMemcpyHostToDevice && where(from, bytes) != PINNED)
        stop("a copy of a graph", "pageable memory would be read at any time");
    return n;
}

node fill_node(const struct cudaMemsetParams *p)
{
    node n = {};

    n.kind = node::FILL;
    n.to = p->dst;
    n.bytes = p->width;
    n.byte = (int)p->value;
    if (p->elementSize != 1 || p->height != 1 || p->width == 0 || p->value > 255 ||
        !on_device(p->dst, p->width))
        n.made = cudaErrorInvalidValue;
    return n;
}

cudaError_t add(const char *call, cudaGraphNode_t *out, cudaGraph_t graph_,
                const cudaGraphNode_t *behind, size_t n, node now)
{
    graph *g = graph_of(call, graph_);

    if (now.made != cudaSuccess)
        return said(now.made);
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;

        while (at < g->nodes.size() &&
               reinterpret_cast<cudaGraphNode_t>(g->nodes[at].get()) != behind[i])
            at++;
        if (at == g->nodes.size())
            return said(cudaErrorInvalidValue);
        now.behind.push_back(at);
    }
    g->nodes.push_back(std::make_unique<node>(std::move(now)));
    *out = reinterpret_cast<cudaGraphNode_t>(g->nodes.back().get());
    return cudaSuccess;
}

/* A node of the instance becomes `now`, if an update may do that. */
cudaError_t update(const char *call, cudaGraphExec_t exec_, cudaGraphNode_t node_,
                   node now)
{
    exec *e = exec_of(call, exec_);
    auto at = e->index.find(node_);
    auto moved = [](const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
        return where(a, a_bytes) != where(b, b_bytes);
    };

    if (at == e->index.end())
        stop(call, "the node is none of the graph's");
    node &was = e->nodes[at->second];

    if (now.made != cudaSuccess)
        return said(now.made);
    if (was.kind != now.kind || (now.kind == node::KERNEL && was.k.of != now.k.of) ||
        (now.kind != node::KERNEL && moved(was.to, was.bytes, now.to, now.bytes)) ||
        (now.kind == node::COPY && (was.direction != now.direction ||
                                    moved(was.from, was.bytes, now.from, now.bytes))))
        return said(cudaErrorInvalidValue);
    now.behind = was.behind;
    was = std::move(now);
    return cudaSuccess;
}

} // namespace

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t *out, unsigned flags)
{
    CALL(false);
    if (flags != 0)
        return said(cudaErrorInvalidValue);
    auto *g = new graph();

    born("graph", g);
    *out = reinterpret_cast<cudaGraph_t>(g);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    cudaError_t rc = entered(__func__);

    died(__func__, "graph", g);
    delete reinterpret_cast<graph *>(g);
    return rc;
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *out, cudaGraph_t g,
                                   const cudaGraphNode_t *behind, size_t n,
                                   const struct cudaKernelNodeParams *p)
{
    CALL(false);
    return add(__func__, out, g, behind, n, kernel_node(p));
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *out, cudaGraph_t g,
                                     const cudaGraphNode_t *behind, size_t n, void *to,
                                     const void *from, size_t bytes,
                                     enum cudaMemcpyKind kind)
{
    CALL(false);
    return add(__func__, out, g, behind, n, copy_node(to, from, bytes, kind));
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *out, cudaGraph_t g,
                                   const cudaGraphNode_t *behind, size_t n,
                                   const struct cudaMemsetParams *p)
{
    CALL(false);
    return add(__func__, out, g, behind, n, fill_node(p));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph_,
                                 unsigned long long flags)
{
    graph *g = graph_of(__func__, graph_);

    CALL(true);
    if (flags != 0)
        return said(cudaErrorInvalidValue);
    auto *e = new exec();
    std::vector<bool> done(g->nodes.size(), false);

    for (size_t i = 0; i < g->nodes.size(); i++) {
        e->index[reinterpret_cast<cudaGraphNode_t>(g->nodes[i].get())] = i;
        e->nodes.push_back(*g->nodes[i]);
    }
    while (e->order.size() < e->nodes.size())
        for (size_t i = e->nodes.size(); i-- > 0;)
            if (!done[i] &&
                std::all_of(e->nodes[i].behind.begin(), e->nodes[i].behind.end(),
                            [&](size_t b) { return done[b]; })) {
                done[i] = true;
                e->order.push_back(i);
                break;
            }
    born("executable graph", e);
    *out = reinterpret_cast<cudaGraphExec_t>(e);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e)
{
    cudaError_t rc = entered(__func__);

    died(__func__, "executable graph", e);
    delete reinterpret_cast<exec *>(e);
    return rc;
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t at,
                                             const struct cudaKernelNodeParams *p)
{
    CALL(false);
    return update(__func__, e, at, kernel_node(p));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t e, cudaGraphNode_t at,
                                               void *to, const void *from, size_t bytes,
                                               enum cudaMemcpyKind kind)
{
    CALL(false);
    return update(__func__, e, at, copy_node(to, from, bytes, kind));
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t at,
                                             const struct cudaMemsetParams *p)
{
    CALL(false);
    return update(__func__, e, at, fill_node(p));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec_, cudaStream_t stream)
{
    exec *e = exec_of(__func__, exec_);
    dev::stream *s = stream_of(__func__, stream);

    CALL(false);
    launches++;
    for (size_t i : e->order) {
        auto n = std::make_shared<node>(e->nodes[i]);

        give_work(s, name_of(*n), [n] { run(*n); });
    }
    return cudaSuccess;
}

} // extern "C"

int kva_cudart_graphs(void)
{
    return launches;
}
