/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_failures.cpp - each call of CUDA fails once, in turn: either the answer is right
 * all the same, or the error names what failed and nothing is launched after it. Nothing
 * leaks, nothing crashes; also when the device is gone from there on, and where memory is
 * refused. */
#include "tests/cudart/steps.h"

#include <string>

namespace
{

enum { N = 200 };

struct outcome {
    enum kva_status rc;
    std::string text;
    bool right;
    int after; /* work accepted between the failure and the close */
};

/* Some of all that the backend asks of a runtime. What the caller of a refused call would
 * do (end) is done here, too. */
enum kva_status episode(kva_rt *rt, bool *right, struct kva_error *err)
{
    const size_t chunk = kva_rt_granule(rt);
    std::vector<uint32_t> a(N), want(N), got(N), big((size_t)700 << 10, 3);
    std::vector<int32_t> list(N);
    enum kva_status rc = KVA_OK;
    kva_rt_range r = {};
    kva_rt_event *e0 = kva_rt_event_new(rt), *e1 = kva_rt_event_new(rt);
    uint32_t *x = (uint32_t *)kva_rt_alloc(rt, N * 4, false);
    uint32_t *y = (uint32_t *)kva_rt_alloc(rt, N * 4, true);
    uint32_t *z = (uint32_t *)kva_rt_alloc(rt, big.size() * 4, false);
    int *flag = kva_rt_flag_new(rt);
    size_t unused, total;

    *right = false;
    if (!e0 || !e1 || !x || !y || !z || !flag) {
        rc = kva_rt_status(rt, err) == KVA_OK ? KVA_FAIL(err, KVA_ENOMEM, "refused")
                                              : err->code;
        goto out;
    }
    rc = kva_rt_reserve(rt, 3 * chunk, chunk, &r, err);
    if (rc == KVA_OK)
        rc = kva_rt_commit(rt, &r, 0, 2 * chunk, err);
    if (rc != KVA_OK)
        goto out;
    kva_rt_mem_info(rt, &unused, &total);
    for (int i = 0; i < N; i++)
        a[(size_t)i] = want[(size_t)i] = (uint32_t)(i * i);
    kva_rt_upload(rt, x, a.data(), N * 4);
    kva_rt_fill(rt, y, 0, N * 4);
    kva_rt_upload(rt, z, big.data(), big.size() * 4);
    kva_rt_upload(rt, z, big.data(), big.size() * 4); /* the next pieces of the ring */
    kva_rt_event_mark(rt, e0);
    for (int step = 0; step < 5; step++) {
        kva_rt_gather(rt, true);
        for (int i = 0; i < N; i++)
            list[(size_t)i] = (i * 7 + step) % N;
        kva_rt_upload(rt, r.base, list.data(), N * 4);
        kva_rt_fill(rt, y, step, 4);
        run_pick(rt, x, (int32_t *)(void *)r.base, N, y);
        kva_rt_move(rt, x, y, (size_t)(N - step) * 4);
        kva_rt_gather(rt, false);
    }
    kva_rt_event_mark(rt, e1);
    (void)kva_rt_event_between(rt, e0, e1);
    kva_rt_decommit(rt, &r, chunk, chunk);
    kva_rt_download(rt, got.data(), x, N * 4);
    rc = kva_rt_sync(rt, err);
    {
        std::vector<uint32_t> sum(N, 0);

        for (int step = 0; step < 5; step++) {
            memset(&sum[0], step, 4);
            for (int i = 0; i < N; i++)
                sum[(size_t)i] += want[(size_t)((i * 7 + step) % N)];
            for (int i = 0; i < N - step; i++)
                want[(size_t)i] = sum[(size_t)i];
        }
    }
    *right = got == want;
out:
    kva_rt_event_free(rt, e0);
    kva_rt_event_free(rt, e1);
    kva_rt_release(rt, &r);
    kva_rt_flag_free(rt, flag);
    kva_rt_free(rt, x);
    kva_rt_free(rt, y);
    kva_rt_free(rt, z);
    return rc == KVA_OK ? kva_rt_status(rt, err) : rc;
}

outcome attempt(enum kva_cudart_plan plan, int k)
{
    struct kva_error e = {};
    outcome o = {};
    kva_rt *rt = nullptr;

    kva_cudart_fail(plan, k);
    o.rc = kva_rt_open(&rt, &e);
    if (o.rc == KVA_OK)
        o.rc = episode(rt, &o.right, &e);
    o.after = kva_cudart_after();
    kva_rt_close(rt);
    o.text = e.text;
    if (kva_cudart_leaks() != 0 || kva_rt_host_used() != 0)
        FAIL("call %d, %s: something leaks", k, kva_cudart_failed());
    return o;
}

/* What an error says when this call failed; NULL: it need not be told. */
const char *words_for(const std::string &call)
{
    static const struct {
        const char *call, *words;
    } all[] = {
        {"cudaGetDeviceCount", "no CUDA device: unknown error"},
        {"cudaSetDevice", "choosing the device"},
        {"cudaGetDeviceProperties", "device properties"},
        {"cudaStreamCreateWithFlags", "stream"},
        {"cudaMallocHost", "pinned memory"},
        {"cudaHostAlloc", "refused"},
        {"cudaEventCreate", "event"},
        {"cudaEventCreateWithFlags", "event"},
        {"cudaEventDestroy", "event"},
        {"cudaMalloc", "allocating"},
        {"cudaMallocManaged", "allocating"},
        {"cudaFree", "freeing"},
        {"cudaFreeHost", "freeing"},
        {"cudaMemGetInfo", "memory of the device"},
        {"cudaMemcpyAsync", "copy"},
        {"cudaMemsetAsync", "fill"},
        {"cudaLaunchKernel", "a launch"},
        {"cudaGraphLaunch", "a graph"},
        {"cudaEventRecord", "event"},
        {"cudaEventSynchronize", "a "}, /* graph, kernel or copy */
        {"cudaStreamSynchronize", "a kernel or copy"},
        {"cudaEventElapsedTime", "time between events"},
        {"cuMemAddressReserve", "reserving"},
        {"cuMemCreate", "committing"},
        {"cuMemMap", "committing"},
        {"cuMemSetAccess", "committing"},
        {"cuMemUnmap", "unmapping"},
        {"cuMemRelease", "releasing"},
        {"cuMemAddressFree", "giving address space back"},
    };

    for (const auto &a : all)
        if (call == a.call)
            return a.words;
    return nullptr;
}

/* Calls whose failure another way makes up for: versions nobody computes with, a driver
 * without ranges, graphs, and what only closes. */
bool made_up_for(const std::string &call)
{
    return call == "cudaDriverGetVersion" || call == "cudaRuntimeGetVersion" ||
           call == "cudaGetDriverEntryPointByVersion" ||
           call == "cuMemGetAllocationGranularity" || call == "cudaStreamDestroy" ||
           call == "cudaEventDestroy" || call == "cudaFreeHost" ||
           call == "cudaMallocHost" || call == "cudaEventCreateWithFlags" ||
           call == "cudaStreamSynchronize" || call == "cudaEventSynchronize" ||
           (call.compare(0, 9, "cudaGraph") == 0 && call != "cudaGraphLaunch");
}

} // namespace

TEST(without_a_failure_the_answer_is_right)
{
    outcome o = attempt(KVA_CUDART_ONCE, 0);

    CHECK_INT(o.rc, KVA_OK);
    CHECK(o.right);
}

TEST(each_call_that_fails_is_told_and_nothing_is_launched_after_it)
{
    int told = 0, k = 1;

    for (;; k++) {
        outcome o = attempt(KVA_CUDART_ONCE, k);

        if (kva_cudart_failed() == nullptr)
            break;
        std::string call = kva_cudart_failed();
        const char *words = words_for(call);

        if (o.rc == KVA_OK) {
            if (!made_up_for(call) || !o.right)
                FAIL("call %d, %s, failed and nobody was told", k, call.c_str());
            continue;
        }
        told++;
        if (words == nullptr || o.text.find(words) == std::string::npos)
            FAIL("call %d, %s: said \"%s\"", k, call.c_str(), o.text.c_str());
        if (o.after != 0)
            FAIL("call %d, %s: %d pieces of work after it", k, call.c_str(), o.after);
    }
    printf("%d calls, %d told\n", k - 1, told);
    CHECK(k > 80 && told > 50);
}

TEST(a_device_that_is_lost_at_any_call_is_told_and_nothing_is_launched_after_it)
{
    for (int k = 1;; k++) {
        outcome o = attempt(KVA_CUDART_LOST, k);

        if (kva_cudart_failed() == nullptr)
            break;
        if (o.after != 0)
            FAIL("call %d, %s: work after it", k, kva_cudart_failed());
        if (o.rc == KVA_OK && (!o.right || !made_up_for(kva_cudart_failed())))
            FAIL("call %d, %s: nobody was told", k, kva_cudart_failed());
    }
}

TEST(memory_refused_anywhere_is_told_or_done_without)
{
    int told = 0, k = 1;

    for (;; k++) {
        outcome o = attempt(KVA_CUDART_NO_ROOM, k);

        if (kva_cudart_failed() == nullptr)
            break;
        if (o.rc == KVA_OK) {
            CHECK(o.right && made_up_for(kva_cudart_failed()));
            continue;
        }
        told++;
        if (o.rc != KVA_ENOMEM || o.after != 0)
            FAIL("allocation %d, %s: %s", k, kva_cudart_failed(), o.text.c_str());
    }
    printf("%d allocations, %d told\n", k - 1, told);
    CHECK(k > 8 && told >= 7);
}

PARITY_MAIN
