/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mem.c - reserve, commit and give back address ranges (kernels.md 2.3, CPU row of the
 * table). */
#include "kernels/cpu/mem.h"

#include <sys/mman.h>
#include <unistd.h>

size_t kva_mem_granule(void)
{
    long n = sysconf(_SC_PAGESIZE);

    return n > 0 ? (size_t)n : 4096;
}

void *kva_mem_reserve(size_t bytes)
{
    void *p =
        mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

int kva_mem_commit(void *at, size_t bytes)
{
    return bytes ? mprotect(at, bytes, PROT_READ | PROT_WRITE) : 0;
}

/* Neither call can fail for a range that was committed, except when the system cannot
 * split its own record of the mapping; the memory then merely stays. */
void kva_mem_decommit(void *at, size_t bytes)
{
    if (bytes) {
        (void)madvise(at, bytes, MADV_DONTNEED);
        (void)mprotect(at, bytes, PROT_NONE);
    }
}

void kva_mem_clear(void *at, size_t bytes)
{
    if (bytes)
        (void)madvise(at, bytes, MADV_DONTNEED);
}

void kva_mem_release(void *at, size_t bytes)
{
    if (at)
        (void)munmap(at, bytes);
}
