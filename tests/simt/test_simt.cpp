/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_simt.cpp - the emulator itself: it tells of every kind of mistake that it says it
 * tells of, at the line where it was made, and of none in kernels that have none. */
#include "kernels/cuda/shim.cuh"
#include "tests/simt/parity.h"

#include <sys/wait.h>

/* Runs a launch in one order with its messages held back; the first of them. */
template <typename F> static const char *told(F launch, int order = 0)
{
    kva_simt_quiet(true);
    parity_order(order);
    launch();
    parity_order(0);
    kva_simt_quiet(false);
    return kva_simt_errors() > 0 ? kva_simt_first() : "";
}
/* Told in every order, with the file and the line of `mark`. */
#define CHECK_TOLD(launch, words, mark)                                                  \
    for (int o_ = 0; o_ < SIMT_ORDERS; o_++) {                                           \
        const char *text_ = told([&] { launch; }, o_);                                   \
        char at_[200];                                                                   \
        snprintf(at_, sizeof at_, "%s:%d: ", __FILE__, (mark));                          \
        if (strstr(text_, words) == nullptr || strstr(text_, at_) != text_)              \
            FAIL("order %d told \"%s\", not \"%s%s\"", o_, text_, at_, words);           \
    }

/* ---- mistakes of warp operations ---- */

static int mark; /* the line of the mistake: __LINE__ of the statement that makes it */
#define HERE (mark = __LINE__)

KVA_KERNEL(32) outside_own_mask(int *out)
{
    unsigned mask = threadIdx.x == 5 ? 0xffffffdfu : KVA_FULL;

    out[threadIdx.x] = (int)__ballot_sync((HERE, mask), 1);
}
KVA_KERNEL(32) alone_outside(int *out)
{
    if (threadIdx.x == 5)
        out[5] = (int)__ballot_sync((HERE, 0x1fu), 1);
}
TEST(a_lane_outside_its_own_mask_is_told)
{
    int out[32];

    for (int o = 0; o < SIMT_ORDERS; o++)
        CHECK(*told([&] { KVA_LAUNCH(outside_own_mask, 1, 32, 0, nullptr, out); }, o));
    CHECK_TOLD(KVA_LAUNCH(alone_outside, 1, 32, 0, nullptr, out),
               "lane 5 is not in its own mask 0000001f", mark);
}

KVA_KERNEL(32) names_ended(float *out)
{
    if (threadIdx.x >= 20)
        return;
    out[threadIdx.x] = __shfl_xor_sync((HERE, KVA_FULL), (float)threadIdx.x, 1);
}
TEST(a_mask_naming_a_lane_that_has_ended_is_told)
{
    float out[32];

    CHECK_TOLD(KVA_LAUNCH(names_ended, 1, 32, 0, nullptr, out), "has ended", mark);
}

KVA_KERNEL(20) names_missing(float *out)
{
    out[threadIdx.x] = __shfl_xor_sync((HERE, KVA_FULL), (float)threadIdx.x, 1);
}
TEST(a_mask_naming_lanes_the_block_does_not_have_is_told)
{
    float out[32];

    CHECK_TOLD(KVA_LAUNCH(names_missing, 1, 20, 0, nullptr, out), "do not exist", mark);
}

KVA_KERNEL(32) two_operations(int *out)
{
    if (threadIdx.x < 16)
        out[threadIdx.x] = (int)__ballot_sync(KVA_FULL, 1);
    else
        out[threadIdx.x] = __shfl_sync(KVA_FULL, (int)threadIdx.x, 3);
}
KVA_KERNEL(32) two_masks(int *out)
{
    out[threadIdx.x] = (int)__ballot_sync(threadIdx.x < 16 ? KVA_FULL : 0xffff8000u, 1);
}
KVA_KERNEL(32) two_lines(int *out)
{
    if (threadIdx.x < 16)
        out[threadIdx.x] = __shfl_sync(KVA_FULL, (int)threadIdx.x, 3);
    else
        out[threadIdx.x] = __shfl_sync(KVA_FULL, (int)threadIdx.x, 4);
}
TEST(two_warp_operations_masks_or_places_that_meet_are_told)
{
    int out[32];

    for (int o = 0; o < SIMT_ORDERS; o++) {
        kva_simt_quiet(true);
        parity_order(o);
        KVA_LAUNCH(two_operations, 1, 32, 0, nullptr, out);
        CHECK(kva_simt_errors() > 0);
        KVA_LAUNCH(two_masks, 1, 32, 0, nullptr, out);
        CHECK(kva_simt_errors() > 0);
        KVA_LAUNCH(two_lines, 1, 32, 0, nullptr, out);
        CHECK(kva_simt_errors() > 0);
        kva_simt_quiet(false);
    }
    parity_order(0);
    const char *text = told([&] { KVA_LAUNCH(two_operations, 1, 32, 0, nullptr, out); });
    CHECK(strstr(text, "meets operation"));
    text = told([&] { KVA_LAUNCH(two_masks, 1, 32, 0, nullptr, out); });
    CHECK(strstr(text, "for lanes"));
}

KVA_KERNEL(32) from_outside(int *out)
{
    if (threadIdx.x < 8)
        out[threadIdx.x] = __shfl_sync((HERE, 0xffu), (int)threadIdx.x, 9);
}
TEST(a_shuffle_from_a_lane_outside_the_mask_is_told)
{
    int out[32] = {0};

    CHECK_TOLD(KVA_LAUNCH(from_outside, 1, 32, 0, nullptr, out), "not in the mask", mark);
}

/* ---- barriers ---- */

KVA_KERNEL(64) two_barriers(int *out)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = 1;
}
TEST(barriers_of_two_places_that_meet_are_told)
{
    int out[64];

    for (int o = 0; o < SIMT_ORDERS; o++)
        CHECK(strstr(told([&] { KVA_LAUNCH(two_barriers, 1, 64, 0, nullptr, out); }, o),
                     "meets the barrier of"));
}

KVA_KERNEL(64) barrier_and_warp(int *out)
{
    if (threadIdx.x == 7)
        __syncthreads();
    out[threadIdx.x] = (int)__ballot_sync((HERE, KVA_FULL), 1);
}
TEST(a_deadlock_is_told_with_the_place_and_the_next_launch_is_sound)
{
    int out[64];

    for (int o = 0; o < SIMT_ORDERS; o++) {
        const char *text =
            told([&] { KVA_LAUNCH(barrier_and_warp, 1, 64, 0, nullptr, out); }, o);

        CHECK(strstr(text, "deadlock: thread"));
        CHECK(strstr(text, __FILE__));
    }
    CHECK(strstr(told([&] { KVA_LAUNCH(from_outside, 1, 32, 0, nullptr, out); }),
                 "reads lane 9"));
}

KVA_KERNEL(96) ends_before_barrier(int *out)
{
    if (threadIdx.x % 3 == 0)
        return;
    __syncthreads();
    out[threadIdx.x] = (int)threadIdx.x;
}
TEST(a_barrier_waits_only_for_threads_that_have_not_ended)
{
    auto run = [] {
        std::vector<int> out(96, -1);

        KVA_LAUNCH(ends_before_barrier, 1, 96, 0, nullptr, out.data());
        return out;
    };
    auto out = in_orders(run);

    for (int i = 0; i < 96; i++)
        CHECK_INT(out[(size_t)i], i % 3 ? i : -1);
}

/* ---- asynchronous copies ---- */

enum copy_fault { SOUND, NO_WAIT, NO_COMMIT, WAIT_TOO_FEW, NO_BARRIER, CROOKED };

KVA_KERNEL(32) copies(const float *in, float *out, int fault)
{
    KVA_SHARED(uint4, tile, 64);
    float *f = (float *)tile;
    int t = (int)threadIdx.x;

    kva_async16(tile + t, in + 4 * t + (fault == CROOKED ? 1 : 0));
    kva_async_commit();
    kva_async16(tile + 32 + t, in + 128 + 4 * t);
    if (fault != NO_COMMIT)
        kva_async_commit();
    if (fault == WAIT_TOO_FEW)
        kva_async_wait<1>();
    else if (fault != NO_WAIT)
        kva_async_wait<0>();
    if (fault != NO_BARRIER)
        __syncthreads();
    out[t] = f[255 - t];
    __syncthreads();
    if (fault == WAIT_TOO_FEW)
        kva_async_wait<0>();
}
static std::vector<float> copied(int fault, const char **text = nullptr)
{
    alignas(16) float in[260];
    std::vector<float> out(32);

    for (int i = 0; i < 260; i++)
        in[i] = (float)i;
    if (text)
        *text =
            told([&] { KVA_LAUNCH(copies, 1, 32, 0, nullptr, in, out.data(), fault); });
    else
        KVA_LAUNCH(copies, 1, 32, 0, nullptr, in, out.data(), fault);
    return out;
}
TEST(asynchronous_copies_arrive_at_their_wait_and_unwaited_ones_are_told)
{
    auto out = in_orders([] { return copied(SOUND); });
    const char *text;

    for (int i = 0; i < 32; i++)
        CHECK_INT(out[(size_t)i], 255 - i);
    (void)copied(NO_WAIT, &text);
    CHECK(strstr(text, "2 asynchronous copies were never waited for"));
    (void)copied(NO_COMMIT, &text);
    CHECK(strstr(text, "1 asynchronous copies were never waited for"));
    CHECK(isnan(copied(WAIT_TOO_FEW)[0])); /* reads poison */
    CHECK(isnan(copied(NO_BARRIER)[0]));
#ifndef __SANITIZE_UNDEFINED__
    (void)copied(CROOKED, &text);
    CHECK(strstr(text, "not aligned"));
#endif
}

/* Refilled while others may still read it; they have when it is waited for. */
KVA_KERNEL(64) refilled(const float *in, float *out, bool barrier)
{
    KVA_SHARED(uint4, tile, 16);
    float *f = (float *)tile;
    int t = (int)threadIdx.x;

    f[t] = -1;
    __syncthreads();
    out[t] = f[63 - t];
    if (barrier)
        __syncthreads();
    if (t < 16)
        kva_async16(tile + t, in + 4 * t);
    kva_async_commit();
    __syncthreads();
    kva_async_wait<0>();
    __syncthreads();
    out[64 + t] = f[t];
}
TEST(an_asynchronous_copy_may_land_before_its_wait)
{
    auto run = [](bool barrier) {
        std::vector<float> in = random_floats(64), out(128);

        KVA_LAUNCH(refilled, 1, 64, 0, nullptr, in.data(), out.data(), barrier);
        CHECK(memcmp(&out[64], in.data(), 64 * sizeof(float)) == 0);
        out.resize(64);
        return out;
    };
    auto good = in_orders([&] { return run(true); });

    CHECK(run(false) == good);
    parity_order(SIMT_SHUFFLE_B);
    auto bad = run(false);
    parity_order(0);
    CHECK(bad != good);
}

/* ---- shared memory ---- */

KVA_KERNEL(32) reads_unwritten(float *out)
{
    KVA_SHARED(float, part, 64);
    KVA_DYN_SHARED(float, more);

    part[threadIdx.x] = 1;
    more[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = part[threadIdx.x + 32];
    out[32 + threadIdx.x] = more[threadIdx.x + 32];
}
TEST(shared_memory_nobody_wrote_reads_as_nan_in_every_block)
{
    float out[64];

    KVA_LAUNCH(reads_unwritten, 3, 32, 64 * sizeof(float), nullptr, out);
    for (float f : out)
        CHECK(isnan(f));
}

KVA_KERNEL(32) overruns(int dynamic, int n)
{
    KVA_SHARED(float, part, 40);
    KVA_DYN_SHARED(float, more);

    if ((int)threadIdx.x < n)
        (dynamic ? more : part)[8 + threadIdx.x] = 1; /* 40 floats each */
    if (n > 32 && threadIdx.x == 0)
        (dynamic ? more : part)[40] = 1;
}
/* True when the overrun is told: by the emulator, or by the sanitizer, which ends the
 * child with the kernel's name in its report. */
static bool overrun_told(int dynamic)
{
#ifdef __SANITIZE_ADDRESS__
    char text[8192] = "";
    int to[2], status = 0;

    CHECK(pipe(to) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(to[1], 2);
        KVA_LAUNCH(overruns, 1, 32, 160, nullptr, dynamic, 33);
        _exit(0);
    }
    close(to[1]);
    for (ssize_t n, at = 0;
         (n = read(to[0], text + at, sizeof text - 1 - (size_t)at)) > 0;)
        at += n;
    close(to[0]);
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) != 0 &&
           strstr(text, "heap-buffer-overflow") && strstr(text, "overruns");
#else
    return strstr(told([&] { KVA_LAUNCH(overruns, 1, 32, 160, nullptr, dynamic, 33); }),
                  "wrote byte 160 of 160 bytes of shared memory");
#endif
}
TEST(writes_past_static_and_dynamic_shared_memory_are_told)
{
    KVA_LAUNCH(overruns, 1, 32, 160, nullptr, 0, 32); /* to the last element */
    KVA_LAUNCH(overruns, 1, 32, 160, nullptr, 1, 32);
    CHECK_INT(kva_simt_errors(), 0);
    CHECK(overrun_told(0));
    CHECK(overrun_told(1));
}

/* ---- launches ---- */

KVA_KERNEL(1024) nothing(void)
{
}
KVA_KERNEL(32) launches(void)
{
    KVA_LAUNCH(nothing, 1, 1, 0, nullptr);
}
KVA_KERNEL(32) much_static(float *out)
{
    KVA_SHARED(float, a, 8000);
    KVA_SHARED(float, b, 8000);

    a[threadIdx.x] = b[threadIdx.x] = 0;
    out[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
}
TEST(launches_a_device_would_refuse_are_told)
{
    float out[32];

    CHECK(
        strstr(told([] { KVA_LAUNCH(nothing, 0, 32, 0, nullptr); }), "0 x 1 x 1 blocks"));
    CHECK(strstr(told([] { KVA_LAUNCH(nothing, 1, 0, 0, nullptr); }), "0 threads"));
    CHECK(strstr(told([] { KVA_LAUNCH(nothing, 1, 1025, 0, nullptr); }), "1025 threads"));
    CHECK(strstr(told([] { KVA_LAUNCH(nothing, dim3(1, 65536), 32, 0, nullptr); }),
                 "65536"));
    CHECK(strstr(told([] { KVA_LAUNCH(nothing, 1, 32, 233 << 10, nullptr); }),
                 "bytes shared"));
    CHECK(strstr(told([] { KVA_LAUNCH(launches, 1, 1, 0, nullptr); }),
                 "from within a kernel"));
    CHECK(strstr(told([&] { KVA_LAUNCH(much_static, 1, 32, 0, nullptr, out); }),
                 "64000 bytes of static shared memory"));
    KVA_LAUNCH(nothing, 1, 32, 48 << 10, nullptr);
    KVA_SHARED_LIMIT(nothing, 99 << 10);
    KVA_LAUNCH(nothing, dim3(3, 2, 2), 1024, 99 << 10, nullptr);
    CHECK_INT(kva_simt_errors(), 0);
}

struct holder {
    float *out;
    bool flag;
};
KVA_KERNEL(1) writes_one(holder h)
{
    *h.out = 1;
}
TEST(arguments_that_no_device_reaches_are_told)
{
    static float in_program;
    float on_stack;
    std::vector<float> heap(1);

    kva_simt_any_memory(false);
    bool stack =
        strstr(told([&] {
                   KVA_LAUNCH(writes_one, 1, 1, 0, nullptr, holder{&on_stack, true});
               }),
               "points to the stack");
    bool program =
        strstr(told([] {
                   KVA_LAUNCH(writes_one, 1, 1, 0, nullptr, holder{&in_program, true});
               }),
               "the program's own memory");
    KVA_LAUNCH(writes_one, 1, 1, 0, nullptr, holder{heap.data(), false});
    int mistakes = kva_simt_errors();
    kva_simt_any_memory(true);
    CHECK(stack && program && heap[0] == 1);
    CHECK_INT(mistakes, 0);
}

/* ---- orders ---- */

/* 8 pairs of warps, so that no two orders are alike by chance */
KVA_KERNEL(512) neighbours(const float *in, float *out, int barrier)
{
    KVA_SHARED(float, part, 512);

    part[threadIdx.x] = in[threadIdx.x];
    if (barrier)
        __syncthreads();
    out[threadIdx.x] = part[threadIdx.x ^ 33];
}
TEST(a_missing_barrier_shows_in_every_order_and_orders_differ)
{
    std::vector<float> in = random_floats(512);
    std::vector<std::vector<float>> got;

    for (int o = 0; o < SIMT_ORDERS; o++) {
        std::vector<float> out(512);
        int wrong = 0;

        parity_order(o);
        KVA_LAUNCH(neighbours, 1, 512, 0, nullptr, in.data(), out.data(), 0);
        for (size_t i = 0; i < 512; i++)
            wrong += memcmp(&out[i], &in[i ^ 33], 4) != 0;
        CHECK(wrong > 0);
        for (const auto &before : got)
            CHECK(memcmp(before.data(), out.data(), 512 * 4) != 0);
        got.push_back(out);
    }
    parity_order(0);
    auto sound = in_orders([&] {
        std::vector<float> out(512);

        KVA_LAUNCH(neighbours, 1, 512, 0, nullptr, in.data(), out.data(), 1);
        return out;
    });
    for (size_t i = 0; i < 512; i++)
        CHECK(sound[i] == in[i ^ 33]);
}

KVA_KERNEL(32) last_block(int *out)
{
    if (threadIdx.x == 0)
        *out = (int)(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
}
TEST(blocks_run_in_another_order_in_each)
{
    int last[SIMT_ORDERS];

    for (int o = 0; o < SIMT_ORDERS; o++) {
        parity_order(o);
        KVA_LAUNCH(last_block, dim3(5, 3, 4), 32, 0, nullptr, &last[o]);
    }
    parity_order(0);
    CHECK_INT(last[SIMT_FORWARD], 59);
    CHECK_INT(last[SIMT_BACKWARD], 0);
    CHECK(last[SIMT_SHUFFLE_A] != last[SIMT_SHUFFLE_B]);
}

/* ---- clean kernels ---- */

/* Sums of rows: warps, then one warp over their parts. */
KVA_KERNEL(1024) row_sums(const float *x, float *y, int n)
{
    KVA_SHARED(float, part, 32);
    float s = 0;
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;

    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        s += x[(size_t)blockIdx.x * (size_t)n + (size_t)i];
    for (int o = 16; o; o >>= 1)
        s += __shfl_down_sync(KVA_FULL, s, o);
    if (lane == 0)
        part[warp] = s;
    __syncthreads();
    if (warp == 0) {
        s = lane < (int)blockDim.x / 32 ? part[lane] : 0;
        for (int o = 16; o; o >>= 1)
            s += __shfl_xor_sync(KVA_FULL, s, o);
        if (lane == 0)
            y[blockIdx.x] = s;
    }
}
TEST(a_sound_reduction_is_the_same_in_four_orders_for_up_to_1024_threads)
{
    for (int threads : {32, 64, 96, 256, 1024}) {
        const int rows = 5, n = 1100;
        std::vector<float> x = random_floats((size_t)(rows * n));
        auto y = in_orders([&] {
            std::vector<float> out((size_t)rows);

            KVA_LAUNCH(row_sums, rows, threads, 0, nullptr, x.data(), out.data(), n);
            return out;
        });

        for (int r = 0; r < rows; r++) {
            double s = 0;

            for (int i = 0; i < n; i++)
                s += (double)x[(size_t)(r * n + i)];
            CHECK_NEAR(y[(size_t)r], s, 1e-4);
        }
    }
}

/* Sixteen pairs of lanes, each with operations of its own, some ahead of others. */
KVA_KERNEL(64) pairs(int *out)
{
    unsigned lane = threadIdx.x % 32, mask = 3u << (lane & ~1u);
    int v = (int)threadIdx.x, rounds = 1 + (int)(lane / 2) % 5;

    for (int i = 0; i < rounds; i++)
        v += __shfl_xor_sync(mask, v, 1);
    __syncwarp();
    unsigned odd = __ballot_sync(KVA_FULL, v & 1);
    out[threadIdx.x] = v * 64 + __popc(odd) +
                       (__any_sync(KVA_FULL, lane == 3) ? 0 : 1000000) +
                       (__all_sync(KVA_FULL, lane < 32) ? 0 : 1000000);
}
TEST(sub_warps_run_apart)
{
    auto out = in_orders([] {
        std::vector<int> v(64);

        KVA_LAUNCH(pairs, 1, 64, 0, nullptr, v.data());
        return v;
    });

    for (int t = 0; t < 64; t++) {
        int odd = 0, want = 0;

        for (int l = 0; l < 32; l++) { /* after round r both hold the sum times 2^(r-1) */
            int pair = (t & ~31) + (l & ~1), v = (2 * pair + 1) << (l / 2 % 5);

            odd += v & 1;
            if (pair + (l & 1) == t)
                want = v;
        }
        CHECK_INT(out[(size_t)t], want * 64 + odd);
    }
}

KVA_KERNEL(256) count(unsigned *bins, const int *of, int n, unsigned *most)
{
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < n;
         i += (int)(gridDim.x * blockDim.x)) {
        unsigned before = atomicAdd(&bins[of[i]], 1u);

        atomicMax(most, before);
        atomicOr(&bins[15], 1u << of[i]);
    }
}
TEST(atomics_on_integers_give_the_same_counts_in_every_order)
{
    std::vector<int> of(3000);
    unsigned want[16] = {0};

    for (int &i : of) {
        i = random_below(15);
        want[i]++;
        want[15] |= 1u << i;
    }
    auto bins = in_orders([&] {
        std::vector<unsigned> b(17);

        KVA_LAUNCH(count, 4, 256, 0, nullptr, b.data(), of.data(), 3000, &b[16]);
        return b;
    });
    unsigned most = 0;
    for (size_t i = 0; i < 16; i++)
        CHECK_INT(bins[i], want[i]);
    for (size_t i = 0; i < 15; i++)
        most = want[i] > most ? want[i] : most;
    CHECK_INT(bins[16], most - 1);
}

KVA_KERNEL(32) shuffles(int *out)
{
    int lane = (int)threadIdx.x;

    out[lane] = __shfl_sync(KVA_FULL, 100 + lane, 33); /* modulo the warp */
    out[32 + lane] = __shfl_up_sync(KVA_FULL, 100 + lane, 3);
    out[64 + lane] = __shfl_down_sync(KVA_FULL, 100 + lane, 3);
    out[96 + lane] = (int)(__shfl_xor_sync(KVA_FULL, 1e9 + lane, 21) - 1e9); /* 8 bytes */
}
TEST(shuffles_move_what_the_manual_says)
{
    auto v = in_orders([] {
        std::vector<int> out(128);

        KVA_LAUNCH(shuffles, 1, 32, 0, nullptr, out.data());
        return out;
    });

    for (int l = 0; l < 32; l++) {
        CHECK_INT(v[(size_t)l], 101);
        CHECK_INT(v[(size_t)(32 + l)], 100 + (l < 3 ? l : l - 3));
        CHECK_INT(v[(size_t)(64 + l)], 100 + (l > 28 ? l : l + 3));
        CHECK_INT(v[(size_t)(96 + l)], l ^ 21);
    }
}

KVA_KERNEL(60) where(int *out)
{
    size_t i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);

    out[i] = (int)kva_simt_lane() +
             100 * (int)(threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z);
}
TEST(threads_of_three_dimensions_are_numbered_x_first)
{
    std::vector<int> out(60);

    KVA_LAUNCH(where, 1, dim3(5, 4, 3), 0, nullptr, out.data());
    for (int i = 0; i < 60; i++)
        CHECK_INT(out[(size_t)i],
                  i % 32 + 100 * (i % 5 + 10 * (i / 5 % 4) + 100 * (i / 20)));
}

/* ---- numbers ---- */

TEST(every_half_survives_the_way_to_float_and_back)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float f = kva_half_float((uint16_t)h);

        if (isnan(f)) {
            CHECK((h & 0x7fff) > 0x7c00);
            CHECK(isnan(kva_half_float(kva_float_half(f))));
            continue;
        }
        CHECK_INT(kva_float_half(f), h);
        int e = (int)(h >> 10 & 31);
        double want = e == 31
                          ? HUGE_VAL
                          : ldexp((e ? 1024 : 0) + (double)(h & 1023), (e ? e : 1) - 25);
        CHECK((double)f == (h & 0x8000 ? -want : want));
    }
}

TEST(floats_round_to_the_nearest_half_and_ties_to_even)
{
    CHECK_INT(kva_float_half(65519.996f), 0x7bff);
    CHECK_INT(kva_float_half(65520.0f), 0x7c00);
    CHECK_INT(kva_float_half(-1e30f), 0xfc00);
    CHECK_INT(kva_float_half(0x1p-25f), 0); /* tie of 0 and the least */
    CHECK_INT(kva_float_half(0x1.000002p-25f), 1);
    CHECK_INT(kva_float_half(0x1.8p-24f), 2);        /* tie, to even */
    CHECK_INT(kva_float_half(0x1.ff8p-15f), 0x03ff); /* largest subnormal */
    CHECK_INT(kva_float_half(0x1.ffcp-15f), 0x0400); /* tie, to the least normal */
    CHECK_INT(kva_float_half(-0.0f), 0x8000);
    for (int i = 0; i < 20000; i++) { /* no half is nearer */
        float f = kva_bits_float((uint32_t)(0x33000000u + random_bits() % 0x14800000u));
        uint16_t h = kva_float_half(f);
        double e = fabs((double)kva_half_float(h) - (double)f);

        if (h >= 0x7bff)
            continue;
        for (int d = -1; d <= 1; d += 2) {
            double other = fabs((double)kva_half_float((uint16_t)(h + d)) - (double)f);

            CHECK(h == 0 || e < other || (e == other && h % 2 == 0));
        }
    }
}

/* C[16][8] = A[16][16] B[16][8], fragments by the table of the PTX manual. */
KVA_KERNEL(32) tensor(const uint16_t *A, const uint16_t *B, float *C)
{
    int l = (int)threadIdx.x, g = l / 4, t = l % 4;
    auto pair = [](uint16_t low, uint16_t high) {
        return (uint32_t)low | (uint32_t)high << 16;
    };
    uint32_t a[4], b[2];
    float d[4];

    for (int i = 0; i < 4; i++) {
        int row = g + (i & 1 ? 8 : 0), k = 2 * t + (i & 2 ? 8 : 0);

        a[i] = pair(A[row * 16 + k], A[row * 16 + k + 1]);
    }
    for (int i = 0; i < 2; i++) {
        int k = 2 * t + 8 * i;

        b[i] = pair(B[k * 8 + g], B[(k + 1) * 8 + g]);
    }
    for (int i = 0; i < 4; i++)
        d[i] = C[(g + (i & 2 ? 8 : 0)) * 8 + 2 * t + (i & 1)];
    kva_mma_f16(d, a, b);
    for (int i = 0; i < 4; i++)
        C[(g + (i & 2 ? 8 : 0)) * 8 + 2 * t + (i & 1)] = d[i];
}
TEST(the_tensor_operation_is_a_plain_product)
{
    uint16_t A[256], B[128];
    float C0[128], want[128];

    for (uint16_t &h : A)
        h = kva_float_half(random_float());
    for (uint16_t &h : B)
        h = kva_float_half(random_float());
    for (int i = 0; i < 128; i++) {
        double s = (double)(C0[i] = random_float());

        for (int k = 0; k < 16; k++)
            s += (double)kva_half_float(A[i / 8 * 16 + k]) *
                 (double)kva_half_float(B[k * 8 + i % 8]);
        want[i] = (float)s;
    }
    auto C = in_orders([&] {
        std::vector<float> c(C0, C0 + 128);

        KVA_LAUNCH(tensor, 1, 32, 0, nullptr, A, B, c.data());
        return c;
    });
    CHECK_CLOSE(C.data(), want, 128, 1e-6);
}

int main(int argc, char **argv)
{
    kva_simt_any_memory(true); /* the emulator itself is asked, by the shortest code */
    return parity_main(argc, argv);
}
