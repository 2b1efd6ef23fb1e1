/* SPDX-License-Identifier: GPL-3.0-or-later */
/* route.cpp - launches of the emulator's build go to rt_cuda.c, as on a device, and come
 * back from cudaLaunchKernel one by one. Those on no stream (tests of launchers) run at
 * once. */
#include "kernels/cuda/rt.h"
#include "tests/cudart/cudart.h"
#include "tests/simt/simt.h"

#include <map>
#include <string>
#include <vector>

namespace
{

struct known {
    std::string name;
    std::vector<size_t> size;
    kva_simt_held how;
};
std::map<const void *, known> kernels;

void run(void *with, const unsigned grid[3], const unsigned block[3], size_t shared,
         void *const *arg)
{
    kva_simt_held h = static_cast<known *>(with)->how;

    h.grid = dim3(grid[0], grid[1], grid[2]);
    h.block = dim3(block[0], block[1], block[2]);
    h.shared = shared;
    h.run_each(&h, arg);
}

bool route(const kva_simt_held *h)
{
    const unsigned grid[3] = {h->grid.x, h->grid.y, h->grid.z},
                   block[3] = {h->block.x, h->block.y, h->block.z};
    const void *kernel = (const void *)h->kernel;

    if (h->stream == nullptr)
        return false;
    if (kernels.find(kernel) == kernels.end()) {
        known &k = kernels[kernel];

        k.name = h->name;
        k.size.assign(h->size, h->size + h->n);
        k.how = *h;
        k.how.name = k.name.c_str();
        kva_cudart_kernel c = {k.name.c_str(), run, &k, h->n, k.size.data()};

        kva_cudart_register(kernel, &c);
    }
    kva_rt_launch(h->stream, kernel, grid, block, h->shared, h->arg, h->size, h->n);
    return true;
}

struct routed {
    routed()
    {
        kva_simt_hold = route;
    }
} now;

} // namespace
