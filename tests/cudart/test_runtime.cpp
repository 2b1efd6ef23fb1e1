/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_runtime.cpp - rt_cuda.c against the stand-in: its pinned ring, ranges, events and
 * graphs do what rt.h says although everything happens as late as it may. */
#include "tests/cudart/steps.h"

#include <functional>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

typedef std::vector<uint32_t> words;

words random_words(size_t n)
{
    words w(n);

    for (uint32_t &x : w)
        x = (uint32_t)random_bits();
    return w;
}

/* Memory of the host at an address whose lower half cannot be taken for a small number,
 * as those of a sanitizer's heap can. */
uint32_t *host_words()
{
    void *p = mmap((void *)0x200050000000, 4096, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    CHECK(p != MAP_FAILED);
    return (uint32_t *)p;
}

words download(kva_rt *rt, const void *from, size_t n)
{
    words w(n);

    kva_rt_download(rt, w.data(), from, n * 4);
    CHECK_OK(kva_rt_status(rt, err));
    return w;
}

/* What a child says on standard error before it dies; empty: it did not die. */
std::string dying_words(const std::function<void()> &f)
{
    char text[4096];
    size_t n = 0;
    ssize_t got;
    int fd[2], status = 0;

    CHECK(pipe(fd) == 0);
    fflush(nullptr);
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(fd[1], 2);
        close(fd[0]);
        f();
        _exit(0);
    }
    close(fd[1]);
    while (n < sizeof text - 1 && (got = read(fd[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    close(fd[0]);
    CHECK(waitpid(pid, &status, 0) == pid);
    text[n] = '\0';
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : text;
}
/* A sanitizer may be the first to see it, in words of its own. */
#ifdef __SANITIZE_ADDRESS__
#define SAYS(said, words)                                                                \
    ((said).find(words) != std::string::npos ||                                          \
     (said).find("Sanitizer") != std::string::npos)
#else
#define SAYS(said, words) ((said).find(words) != std::string::npos)
#endif
#define CHECK_DIES(words, code)                                                          \
    do {                                                                                 \
        std::string said_ = dying_words([&] { code; });                                  \
        if (!SAYS(said_, words))                                                         \
            FAIL("%s: said \"%s\"", #code, said_.c_str());                               \
    } while (0)

} // namespace

TEST(uploads_have_read_their_source_when_they_return_however_many_there_are)
{
    runtime rt;
    /* some 60 MB through a ring of 16, no wait of ours; each piece from one buffer */
    const size_t sizes[] = {1,      3,      64,      5000,    70000,
                            262144, 262145, 2097152, 2097153, 5000000};
    size_t room = (size_t)70 << 20, at = 0;
    uint8_t *d = (uint8_t *)kva_rt_alloc(rt, room, false);
    std::vector<uint8_t> from(5000000), want(room, 0);
    std::vector<uint8_t> got(room);

    CHECK(d != nullptr);
    kva_rt_fill(rt, d, 0, room);
    while (at + 5000000 < room - 100) {
        size_t n = sizes[random_below(10)];

        for (size_t i = 0; i < n; i += 61)
            from[i] = (uint8_t)random_bits();
        from[n - 1] = (uint8_t)random_bits();
        memcpy(&want[at], from.data(), n);
        kva_rt_upload(rt, d + at, from.data(), n);
        memset(from.data(), 0xee, n);
        at += n;
    }
    kva_rt_download(rt, got.data(), d, room);
    CHECK_OK(kva_rt_status(rt, err));
    CHECK(got == want);
    kva_rt_free(rt, d);
}

TEST(work_happens_in_the_order_it_was_asked_for)
{
    runtime rt;
    const int n = 300;
    words a = random_words(n), b = random_words(n), want(n);
    uint32_t *x = (uint32_t *)kva_rt_alloc(rt, n * 4, false),
             *y = (uint32_t *)kva_rt_alloc(rt, n * 4, false);

    kva_rt_upload(rt, x, a.data(), n * 4);
    kva_rt_fill(rt, y, 0x101, n * 4); /* a byte, as memset takes it */
    run_axpy(rt, n, 3, x, 5, y);
    kva_rt_move(rt, x, y, n * 4);
    kva_rt_upload(rt, y, b.data(), n * 4);
    run_axpy(rt, n, 7, x, 1, y);
    for (int i = 0; i < n; i++)
        want[(size_t)i] = 7 * (3 * a[(size_t)i] + 5 * 0x01010101u) + b[(size_t)i];
    CHECK(download(rt, y, n) == want);
    kva_rt_free(rt, x);
    kva_rt_free(rt, y);
}

TEST(an_upload_too_long_to_be_held_comes_behind_what_is_held)
{
    runtime rt;
    const size_t n = 100000;
    words a = random_words(n), b = random_words(n), want(n);
    uint32_t *x = (uint32_t *)kva_rt_alloc(rt, n * 4, false),
             *y = (uint32_t *)kva_rt_alloc(rt, n * 4, false);

    kva_rt_upload(rt, x, a.data(), n * 4);
    kva_rt_fill(rt, y, 0, n * 4);
    for (int step = 0; step < 3; step++) {
        kva_rt_gather(rt, true);
        run_axpy(rt, (int)n, 1, x, 1, y);
        kva_rt_upload(rt, x, (step % 2 ? a : b).data(), n * 4);
        run_axpy(rt, (int)n, 2, x, 1, y);
        kva_rt_gather(rt, false);
    }
    for (size_t i = 0; i < n; i++)
        want[i] = a[i] + 2 * b[i] + b[i] + 2 * a[i] + a[i] + 2 * b[i];
    CHECK(download(rt, y, n) == want);
    kva_rt_free(rt, x);
    kva_rt_free(rt, y);
}

TEST(memory_of_the_device_is_the_devices)
{
    runtime rt;
    words a = random_words(8);
    uint32_t *x = (uint32_t *)kva_rt_alloc(rt, 32, false),
             *s = (uint32_t *)kva_rt_alloc(rt, 32, true),
             *gone = (uint32_t *)kva_rt_alloc(rt, 32, false);

    CHECK((uintptr_t)x % 256 == 0 && (uintptr_t)s % 256 == 0);
    kva_rt_upload(rt, s, a.data(), 32);
    CHECK_DIES("touched by the host", *(volatile uint32_t *)x);
    CHECK_DIES("touched by the host", *(volatile uint32_t *)s); /* before a sync */
    CHECK_OK(kva_rt_sync(rt, err));
    CHECK(memcmp(s, a.data(), 32) == 0);
    s[0] = 99;
    run_axpy(rt, 8, 1, s, 0, x);
    CHECK_DIES("address of the host", run_axpy(rt, 8, 1, host_words(), 0, x));
    kva_rt_free(rt, gone);
    CHECK_DIES("was freed", run_axpy(rt, 8, 1, gone, 0, x));
    CHECK_DIES("cudaFree", kva_rt_free(rt, gone));
    CHECK_DIES("in axpy: memory of the device that was freed, or what lies behind",
               run_axpy(rt, 5000, 1, x, 0, x);
               (void)kva_rt_sync(rt, nullptr));
    CHECK_INT(download(rt, x, 1)[0], 99);
    kva_rt_free(rt, x);
    kva_rt_free(rt, s);
    CHECK_INT(kva_rt_host_used(), 0);
}

TEST(ranges_give_memory_back_and_take_it_again)
{
    runtime rt;
    const size_t chunk = 2 * kva_rt_granule(rt);
    kva_rt_range r;
    struct kva_error e = {};
    words a = random_words(chunk / 4);

    CHECK_OK(kva_rt_reserve(rt, 5 * chunk, chunk, &r, err));
    CHECK(r.resident && r.base != nullptr);
    CHECK_INT(kva_rt_host_used(), 0);
    for (int round = 0; round < 3; round++) {
        CHECK_OK(kva_rt_commit(rt, &r, 0, 2 * chunk, err));
        CHECK_OK(kva_rt_commit(rt, &r, 2 * chunk, 2 * chunk, err));
        CHECK_INT(kva_rt_host_used(), 4 * chunk);
        CHECK_INT(kva_rt_commit(rt, &r, 4 * chunk, 2 * chunk, &e), KVA_EIO);
        /* a copy across two chunks, and one that decommit must let happen */
        kva_rt_upload(rt, r.base + chunk / 2, a.data(), chunk);
        CHECK(download(rt, r.base + chunk / 2, chunk / 4) == a);
        kva_rt_fill(rt, r.base + 3 * chunk, 1, chunk);
        kva_rt_decommit(rt, &r, chunk, 3 * chunk);
        CHECK_INT(r.committed, chunk);
        CHECK_INT(kva_rt_host_used(), chunk);
        CHECK_DIES("", kva_rt_fill(rt, r.base + chunk, 0, 4);
                   _exit(kva_rt_status(rt, nullptr) == KVA_OK ? 0 : 7));
        CHECK_DIES("axpy: a part of a range where nothing is mapped",
                   run_axpy(rt, 4, 1, (uint32_t *)(void *)(r.base + chunk), 0,
                            (uint32_t *)(void *)r.base);
                   (void)kva_rt_sync(rt, nullptr));
        kva_rt_decommit(rt, &r, 0, chunk);
    }
    CHECK_OK(kva_rt_commit(rt, &r, 0, 3 * chunk, err));
    kva_rt_host_size(kva_rt_host_used() + chunk);
    CHECK_INT(kva_rt_commit(rt, &r, 3 * chunk, 2 * chunk, &e), KVA_ENOMEM);
    CHECK_INT(r.committed, 3 * chunk); /* the chunk that was found is given back */
    CHECK_INT(kva_rt_host_used(), 3 * chunk);
    kva_rt_host_size((size_t)64 << 30);
    kva_rt_release(rt, &r);
    CHECK(r.base == nullptr);
    CHECK_INT(kva_rt_host_used(), 0);
    kva_rt_release(rt, &r);
    CHECK_OK(kva_rt_sync(rt, err));
}

TEST(a_driver_or_a_device_without_ranges_takes_all_at_once)
{
    for (int which = 0; which < 2; which++) {
        (which ? kva_cudart_machine.ranges : kva_cudart_machine.granularity) = false;
        {
            runtime rt;
            kva_rt_range r;
            struct kva_error e = {};
            size_t chunk = kva_rt_granule(rt);

            CHECK_OK(kva_rt_reserve(rt, 4 * chunk, chunk, &r, err));
            CHECK(!r.resident);
            CHECK_INT(kva_rt_host_used(), 4 * chunk);
            CHECK_OK(kva_rt_commit(rt, &r, 0, 4 * chunk, err));
            kva_rt_fill(rt, r.base, 5, 4 * chunk);
            CHECK_INT(download(rt, r.base + 4 * chunk - 4, 1)[0], 0x05050505);
            kva_rt_decommit(rt, &r, chunk, 3 * chunk);
            CHECK_INT(r.committed, chunk);
            CHECK_INT(kva_rt_host_used(), 4 * chunk);
            kva_rt_release(rt, &r);
            kva_rt_host_size(chunk);
            CHECK_INT(kva_rt_reserve(rt, 4 * chunk, chunk, &r, &e), KVA_ENOMEM);
            kva_rt_host_size((size_t)64 << 30);
            CHECK_OK(kva_rt_sync(rt, err));
        }
        kva_cudart_machine.ranges = kva_cudart_machine.granularity = true;
    }
}

TEST(without_a_device_that_will_do_the_reason_is_told)
{
    struct kva_error e = {};
    kva_rt *rt;

    kva_cudart_machine.devices = 0;
    CHECK_INT(kva_rt_open(&rt, &e), KVA_EUNSUPPORTED);
    CHECK(strcmp(e.text, "no CUDA device: no CUDA-capable device is detected") == 0);
    kva_cudart_machine.devices = 1;
    e = {};
    kva_cudart_machine.old_driver = true;
    CHECK_INT(kva_rt_open(&rt, &e), KVA_EUNSUPPORTED);
    CHECK(strcmp(e.text, "no CUDA device: CUDA driver version is insufficient for CUDA "
                         "runtime version") == 0);
    kva_cudart_machine.old_driver = false;
    e = {};
    kva_cudart_machine.major = 7;
    CHECK_INT(kva_rt_open(&rt, &e), KVA_EUNSUPPORTED);
    CHECK(strcmp(e.text, "no CUDA device: stand-in has compute capability 7.0, 8.0 is "
                         "needed") == 0);
    kva_cudart_machine.major = 9;
    runtime after; /* what was noted of the earlier ones is no failure of this one */

    CHECK_OK(kva_rt_status(after, err));
    CHECK_INT(kva_rt_info(after)->major, 9);
    CHECK(kva_rt_info(after)->driver > 0);
}

TEST(a_refused_launch_is_told_although_an_allocation_was_refused_in_between)
{
    runtime rt;
    struct kva_error e = {};
    uint32_t *x = (uint32_t *)kva_rt_alloc(rt, 256, false);
    int before;

    kva_rt_fill(rt, x, 0, 256);
    run_axpy(rt, 0, 1, x, 1, x); /* no block */
    CHECK(kva_rt_alloc(rt, (size_t)1 << 50, false) == nullptr);
    before = kva_cudart_work();
    run_axpy(rt, 64, 1, x, 1, x);
    kva_rt_fill(rt, x, 1, 256);
    CHECK_INT(kva_rt_sync(rt, &e), KVA_EIO);
    CHECK(strcmp(e.text, "CUDA: a launch: invalid configuration argument") == 0);
    CHECK_INT(kva_cudart_work(), before); /* nothing was launched after it */
    kva_rt_free(rt, x);
}

TEST(an_allocation_that_is_refused_is_no_failure_of_the_device)
{
    runtime rt;

    CHECK(kva_rt_alloc(rt, (size_t)1 << 50, false) == nullptr);
    CHECK(kva_rt_alloc(rt, (size_t)1 << 50, true) == nullptr);
    void *p = kva_rt_alloc(rt, 0, true);

    CHECK(p != nullptr);
    kva_rt_free(rt, p);
    kva_rt_free(rt, nullptr);
    CHECK_OK(kva_rt_sync(rt, err));
}

TEST(events_tell_the_time_between_them_and_what_is_held_goes_out_first)
{
    runtime rt;
    uint32_t *x = (uint32_t *)kva_rt_alloc(rt, 256, false);
    kva_rt_event *a = kva_rt_event_new(rt), *b = kva_rt_event_new(rt);

    CHECK(a && b);
    kva_rt_gather(rt, true);
    kva_rt_event_mark(rt, a);
    kva_rt_fill(rt, x, 0, 256);
    for (int i = 0; i < 200; i++)
        run_axpy(rt, 64, 1, x, 1, x);
    kva_rt_event_mark(rt, b);
    CHECK(kva_cudart_work() >= 200);
    CHECK(kva_rt_event_between(rt, a, b) > 0);
    kva_rt_gather(rt, false);
    kva_rt_event_mark(rt, b);
    kva_rt_event_free(rt, b); /* while it is on its way */
    kva_rt_event_free(rt, a);
    kva_rt_event_free(rt, nullptr);
    kva_rt_free(rt, x);
    CHECK_OK(kva_rt_sync(rt, err));
}

/* ---- replays: random steps of a few shapes against plain loops ---- */

namespace
{

enum { N = 96, ARRAYS = 4 };

struct pair { /* arrays of the device, some managed, and what they should hold */
    kva_rt *rt;
    uint32_t *d[ARRAYS];
    words w[ARRAYS];

    explicit pair(kva_rt *r) : rt(r)
    {
        for (int i = 0; i < ARRAYS; i++) {
            d[i] = (uint32_t *)kva_rt_alloc(rt, N * 4, i == ARRAYS - 1);
            CHECK(d[i] != nullptr);
            w[i] = random_words(N);
            kva_rt_upload(rt, d[i], w[i].data(), N * 4);
        }
    }
    ~pair()
    {
        for (uint32_t *p : d)
            kva_rt_free(rt, p);
    }
    void equal()
    {
        for (int i = 0; i < ARRAYS; i++)
            CHECK(download(rt, d[i], N) == w[i]);
    }
    /* Item `kind` on random places, done to both. `list` is the device's. */
    void item(int kind, int32_t *list, int longest)
    {
        int x = random_below(ARRAYS), y = (x + 1 + random_below(ARRAYS - 1)) % ARRAYS;
        int n = 1 + random_below(N / 2), at = random_below(N / 2);
        uint32_t f = (uint32_t)random_bits();

        if (kind == 0) {
            run_axpy(rt, n, f, d[x], 3, d[y] + at);
            for (int i = 0; i < n; i++)
                w[y][(size_t)(at + i)] = f * w[x][(size_t)i] + 3 * w[y][(size_t)(at + i)];
        } else if (kind == 1) {
            int m = 1 + random_below(longest);
            std::vector<int32_t> rows((size_t)m);

            for (int32_t &r : rows)
                r = random_below(N);
            kva_rt_upload(rt, list, rows.data(), (size_t)m * 4);
            run_pick(rt, d[x], list, m, d[y]);
            for (int i = 0; i < m; i++)
                w[y][(size_t)i] += w[x][(size_t)rows[(size_t)i]];
        } else if (kind == 2) {
            kva_rt_move(rt, d[y] + at, d[x], (size_t)n * 4);
            memcpy(&w[y][(size_t)at], w[x].data(), (size_t)n * 4);
        } else {
            int byte = random_below(512) - 256;

            kva_rt_fill(rt, d[y] + at, byte, (size_t)n * 4);
            memset(&w[y][(size_t)at], byte, (size_t)n * 4);
        }
    }
};

} // namespace

TEST(random_steps_replayed_as_graphs_do_what_plain_loops_do)
{
    runtime rt;
    pair p(rt);
    int32_t *list = (int32_t *)kva_rt_alloc(rt, N * 4, false);
    std::vector<std::vector<int>> shapes;
    const kva_replays *counts = kva_rt_replays(rt);

    /* More shapes than graphs are kept. The first, half of all steps, are kernels alone,
     * which can always be patched: a copy to another array or a longer list asks for a
     * new graph. */
    for (int s = 0; s < 20; s++) {
        shapes.emplace_back();
        for (int i = 0, n = 1 + random_below(6); i < n; i++)
            shapes.back().push_back(s < 4 ? 0 : random_below(4));
    }
    for (int step = 0; step < 1500; step++) {
        const auto &shape = shapes[(size_t)random_below(1 + random_below(20))];

        kva_rt_gather(rt, true);
        for (int kind : shape)
            p.item(kind, list, step < 300 ? 8 : N);
        kva_rt_gather(rt, false);
        if (random_below(10) == 0)
            p.equal();
        if (random_below(50) == 0)
            p.item(random_below(4), list, N); /* plain, between graphs */
    }
    p.equal();
    CHECK(counts->replayed > 500);
    CHECK(kva_cudart_graphs() > 500);
    CHECK_OK(kva_rt_sync(rt, err));
    kva_rt_free(rt, list);
}

TEST(a_graph_launched_twice_at_once_reads_what_each_step_uploaded)
{
    runtime rt;
    pair p(rt);
    int32_t *list = (int32_t *)kva_rt_alloc(rt, N * 4, false);

    for (int step = 0; step < 40; step++) { /* nobody waits for any of them */
        kva_rt_gather(rt, true);
        p.item(1, list, 16);
        p.item(1, list, 16);
        kva_rt_gather(rt, false);
    }
    CHECK(kva_rt_replays(rt)->replayed >= 30);
    p.equal();
    kva_rt_free(rt, list);
}

TEST(closing_does_what_is_held_and_leaves_nothing)
{
    kva_rt *rt = nullptr, *other = nullptr;
    words a = random_words(N);
    uint32_t *x;

    CHECK_OK(kva_rt_open(&rt, err));
    CHECK_OK(kva_rt_open(&other, err));
    x = (uint32_t *)kva_rt_alloc(other, N * 4, false);
    kva_rt_gather(rt, true);
    kva_rt_gather(other, true); /* one at a time: this one does not gather */
    CHECK(kva_rt_gathering(rt) && !kva_rt_gathering(other));
    kva_rt_fill(other, x, 1, N * 4);
    run_axpy(other, N, 1, x, 1, x);
    CHECK_INT(download(other, x, 1)[0], 0x02020202);
    run_axpy(rt, N, 1, x, 1, x);
    kva_rt_close(rt);
    CHECK(!kva_rt_gathering(other));
    CHECK_INT(download(other, x, 1)[0], 0x04040404);
    kva_rt_free(other, x);
    kva_rt_close(other);
    kva_rt_close(nullptr);
    CHECK_INT(kva_cudart_leaks(), 0);
}

PARITY_MAIN
