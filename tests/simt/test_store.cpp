/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_store.cpp - a store whose pages lie on the device beside one in ordinary memory:
 * the same random operations, the same bytes, lists and refusals; what kernels would see
 * of it; memory that is really given back. And the launchers of kv.cu alone, far beyond 4
 * GiB. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kv.h"
#include "tests/simt/parity.h"
#include "tests/simt/rt_host.h"

#include <algorithm>
#include <fcntl.h>
#include <string>
#include <unistd.h>

namespace
{

enum { P = KVA_PAGE };

struct backend {
    kva_ops *ops;
    backend()
    {
        struct kva_error e = {};

        if (kva_ops_open("cuda", "f32", 1, &ops, &e) != KVA_OK)
            FAIL("%s", e.text);
    }
    ~backend()
    {
        kva_ops_close(ops);
    }
    kva_cuda *cu() const
    {
        return kva_cuda_of(ops);
    }
};

/* While it lives the host may read what is the device's. */
struct looking {
    looking()
    {
        kva_rt_host_look(true);
    }
    ~looking()
    {
        kva_rt_host_look(false);
    }
};

/* A store in ordinary memory and one on the device. */
struct twins {
    kva_kvstore *s[2] = {};
    ~twins()
    {
        kva_kvstore_free(s[0]);
        kva_kvstore_free(s[1]);
    }
};

struct owned_keep {
    std::vector<int32_t> rank;
    std::vector<size_t> off;
    kva_keep k;
};

/* Random lists: of each KV head at least `least` and at most live - spare ranks. */
owned_keep lists(const kva_kvstore *s, int least, int spare, int share)
{
    const kva_kvshape *h = kva_kvstore_shape(s);
    owned_keep o;

    o.off.push_back(0);
    for (int c = 0; c < h->layers * h->kv_heads; c++) {
        int live = kva_kvstore_live(s, c / h->kv_heads, c % h->kv_heads), n = 0;

        for (int r = 0; r < live; r++) {
            bool must = n < least && live - r <= least - n;

            if (n + spare < live && (must || random_below(100) < share)) {
                o.rank.push_back(r);
                n++;
            }
        }
        o.off.push_back(o.rank.size());
    }
    o.k = {h->layers, h->kv_heads, o.rank.data(), o.off.data()};
    return o;
}

/* Everything that both say of themselves, and every byte they hold. */
void compare(const twins &t, const backend &b, const char *after)
{
    const kva_kvshape *h = kva_kvstore_shape(t.s[0]);
    struct kva_kv_bytes bytes[2];

    for (int i = 0; i < 2; i++) {
        CHECK_OK(kva_kvstore_check(t.s[i], err));
        kva_kvstore_bytes(t.s[i], &bytes[i]);
    }
    if (memcmp(&bytes[0], &bytes[1], sizeof bytes[0]) != 0)
        FAIL("after %s: another byte account", after);
    if (kva_kvstore_kept_fnv(t.s[0]) != kva_kvstore_kept_fnv(t.s[1]))
        FAIL("after %s: other entries", after);
    for (int layer = 0; layer < h->layers; layer++) {
        struct kva_kv_view v;
        struct kva_dev_view d;

        for (int head = 0; head < h->kv_heads; head++) {
            size_t n = (size_t)kva_kvstore_live(t.s[0], layer, head);
            std::vector<float> k[2], val[2];

            for (int i = 0; i < 2; i++) {
                k[i].resize(n * (size_t)h->dim_k);
                val[i].resize(n * (size_t)h->dim_v);
                CHECK_OK(kva_kvstore_gather(t.s[i], layer, head, k[i].data(),
                                            val[i].data(), err));
            }
            if (n > 0 && (memcmp(k[0].data(), k[1].data(), k[0].size() * 4) != 0 ||
                          memcmp(val[0].data(), val[1].data(), val[0].size() * 4) != 0))
                FAIL("after %s: layer %d head %d holds other numbers", after, layer,
                     head);
        }
        /* all heads at once, from some rank on */
        std::vector<int> first;
        std::vector<size_t> off(1);
        std::vector<float> all[2];

        for (int head = 0; head < h->kv_heads; head++) {
            int n = kva_kvstore_live(t.s[0], layer, head);

            first.push_back(random_below(n + 1));
            off.push_back(off.back() + (size_t)(n - first.back()));
        }
        for (int i = 0; i < 2; i++) {
            all[i].resize(off.back() * (size_t)h->dim_v);
            CHECK_OK(kva_kvstore_gather_layer(t.s[i], layer, first.data(), off.data(),
                                              NULL, all[i].data(), err));
        }
        if (!all[0].empty() &&
            memcmp(all[0].data(), all[1].data(), all[0].size() * 4) != 0)
            FAIL("after %s: layer %d holds other values", after, layer);
        /* the mirror, which only kernels read, is the host's books */
        kva_kvstore_view(t.s[1], layer, &v);
        d = kva_cuda_view(b.cu(), &v);
        kva_cuda_done(b.cu());
        CHECK_OK(b.ops->sync(b.ops, err));
        looking look;

        for (int head = 0; head < h->kv_heads; head++) {
            CHECK_INT(d.len[head], v.len[head]);
            CHECK_INT(d.sorted[head], v.sorted[head]);
            for (int j = 0; j < v.len[head]; j++) {
                size_t row = (size_t)head * (size_t)v.table_cap + (size_t)(j / P);
                size_t at = (size_t)v.table[row] * P + (size_t)(j % P);

                if (d.table[row] != v.table[row])
                    FAIL("after %s: layer %d head %d: page %d of the table is stale",
                         after, layer, head, j / P);
                if (d.pos[at] != v.pos[at])
                    FAIL("after %s: layer %d head %d: slot %d at position %d, not %d",
                         after, layer, head, j, d.pos[at], v.pos[at]);
                if (v.live && d.live[v.table[row]] != v.live[v.table[row]])
                    FAIL("after %s: another mask", after);
            }
        }
    }
}

struct driver { /* one episode of random operations */
    backend &b;
    kva_kvshape shape;
    kva_kv_mode mode;
    size_t cap;
    twins t;
    int32_t next = 0;
    int refused = 0;

    void append(int n)
    {
        size_t kw = (size_t)(shape.kv_heads * shape.dim_k) + (size_t)random_below(5),
               vw = (size_t)(shape.kv_heads * shape.dim_v);
        std::vector<int32_t> pos;

        for (int i = 0; i < n; i++) {
            next += 1 + random_below(2);
            pos.push_back(next);
        }
        for (int layer = 0; layer < shape.layers; layer++) {
            std::vector<float> k = random_floats(kw * (size_t)n, 3),
                               v = random_floats(vw * (size_t)n, 3);
            enum kva_status rc[2];

            for (int i = 0; i < 2; i++) {
                struct kva_error e = {};

                rc[i] = kva_kvstore_append(t.s[i], layer, k.data(), (int)kw, v.data(),
                                           (int)vw, pos.data(), n, &e);
            }
            CHECK_INT(rc[1], rc[0]);
            if (rc[0] == KVA_EBUDGET) {
                refused++;
                return;
            }
            CHECK_INT(rc[0], KVA_OK);
        }
    }

    void fork()
    {
        owned_keep k = lists(t.s[0], 1, 0, 60);
        bool all = random_below(3) == 0;

        for (int i = 0; i < 2; i++) {
            kva_kvstore *d = NULL;

            CHECK_OK(kva_kvstore_fork(t.s[i], all ? NULL : &k.k, cap, mode, &d, err));
            kva_kvstore_free(t.s[i]);
            t.s[i] = d;
        }
    }

    void renumber()
    {
        int layer = random_below(shape.layers), head = random_below(shape.kv_heads);
        int n = kva_kvstore_live(t.s[0], layer, head);
        std::vector<float> k = random_floats((size_t)n * (size_t)shape.dim_k, 2);
        std::vector<int32_t> pos;

        for (int i = 0; i < n; i++)
            pos.push_back(i);
        for (int i = 0; i < 2 && mode == KVA_KV_PHYSICAL; i++)
            CHECK_OK(
                kva_kvstore_renumber(t.s[i], layer, head, k.data(), pos.data(), err));
    }

    const char *step()
    {
        int what = random_below(20);

        if (what < 10)
            return append(1 + random_below(random_below(3) ? 3 : 50)), "append";
        if (what < 13) {
            owned_keep k = lists(t.s[0], 1, 0, 30 + random_below(70));

            for (int i = 0; i < 2; i++)
                CHECK_OK(kva_kvstore_keep(t.s[i], &k.k, err));
            return "keep";
        }
        if (what < 15) {
            owned_keep k = lists(t.s[0], 0, 1, random_below(30));

            for (int i = 0; i < 2; i++)
                CHECK_OK(kva_kvstore_replace(t.s[i], &k.k, err));
            return "replace";
        }
        if (what == 15) {
            int32_t pos = next - random_below(20);

            for (int i = 0; i < 2; i++)
                CHECK_OK(kva_kvstore_rewind(t.s[i], pos, err));
            return "rewind";
        }
        if (what == 16)
            return fork(), "fork";
        if (what == 17)
            return renumber(), "renumber";
        for (int i = 0; i < 2; i++)
            CHECK_OK(kva_kvstore_trim(t.s[i], err));
        return "trim";
    }

    /* Empty heads cannot be kept from; the first operation fills them. */
    void run(int steps)
    {
        for (int i = 0; i < 2; i++)
            CHECK_OK(kva_kvstore_new(i ? b.ops : NULL, &shape, cap, mode, &t.s[i], err));
        for (int i = 0; i < steps; i++) {
            bool held = true;
            std::string what;

            for (int c = 0; c < shape.layers * shape.kv_heads; c++)
                held = held && kva_kvstore_live(t.s[0], c / shape.kv_heads,
                                                c % shape.kv_heads) > 0;
            if (held)
                what = step();
            else
                append(20), what = "append";
            /* several operations in a row must not disturb each other's queued moves */
            if (random_below(3) > 0)
                compare(t, b, what.c_str());
        }
        append((int)cap * P);
        CHECK(refused > 0);
        compare(t, b, "all of it");
    }
};

/* True when the system would not let anybody read the byte, not even a kernel. */
bool faults(const void *p)
{
    looking look;
    int fd[2];
    bool bad;

    if (pipe(fd) != 0)
        return false;
    bad = write(fd[1], p, 1) < 0;
    close(fd[0]);
    close(fd[1]);
    return bad;
}

} // namespace

TEST(random_operations_leave_the_same_bytes_as_in_ordinary_memory)
{
    static const kva_kvshape shapes[] = {
        {2, 2, 64, 64, KVA_F16},
        {1, 3, 128, 96, KVA_F16},
        {2, 1, 5, 7, KVA_F16}, /* no multiple of anything */
        {1, 1, 64, 12, KVA_F16},
        {1, 2, 16, 8, KVA_F32}};
    backend b;

    for (const kva_kvshape &shape : shapes)
        for (int o = 0; o < PARITY_ORDERS; o++) {
            driver d = {b,
                        shape,
                        o == 2 ? KVA_KV_MASK : KVA_KV_PHYSICAL,
                        (size_t)(shape.layers * shape.kv_heads * 6),
                        {}};

            parity_order(o);
            d.run(40);
        }
    parity_order(0);
}

/* The pages of the two KV heads take turns: when one of them goes, some of the other's
 * move to where those were, down into another chunk. */
TEST(pages_that_a_trim_moves_take_rows_and_positions_along)
{
    backend b;
    kva_kvshape shape = {1, 2, 128, 128, KVA_F16};
    const int n = 256, rounds = 16;
    std::vector<float> x = random_floats((size_t)(n * 512 + rounds));
    std::vector<int32_t> pos((size_t)n), rank = {5};
    twins t;

    for (int i = 0; i < 2; i++) {
        CHECK_OK(kva_kvstore_new(i ? b.ops : NULL, &shape, 1024, KVA_KV_PHYSICAL, &t.s[i],
                                 err));
        for (int round = 0; round < rounds; round++) {
            for (int j = 0; j < n; j++)
                pos[(size_t)j] = 3 * (round * n + j);
            CHECK_OK(kva_kvstore_append(t.s[i], 0, x.data() + round, 512,
                                        x.data() + 256 + round, 512, pos.data(), n, err));
        }
    }
    for (int j = n * rounds / 4; j < n * rounds; j++)
        rank.push_back(j);
    std::vector<size_t> off = {0, 1, rank.size()};
    kva_keep keep = {1, 2, rank.data(), off.data()};
    struct kva_kv_bytes full, less;

    kva_kvstore_bytes(t.s[1], &full);
    for (kva_kvstore *s : t.s) {
        CHECK_OK(kva_kvstore_keep(s, &keep, err));
        CHECK_OK(kva_kvstore_trim(s, err));
    }
    kva_kvstore_bytes(t.s[1], &less);
    CHECK(less.committed_bytes + (2 << 20) <= full.committed_bytes);
    compare(t, b, "trim");
}

TEST(the_cap_is_hard_and_a_refused_append_changes_nothing)
{
    backend b;
    kva_kvshape shape = {1, 2, 64, 64, KVA_F16};
    std::vector<float> x = random_floats(33 * 128);
    std::vector<int32_t> pos;
    struct kva_kv_bytes before, after;
    twins t;

    for (int i = 0; i < 33; i++)
        pos.push_back(i);
    CHECK_OK(kva_kvstore_new(b.ops, &shape, 2, KVA_KV_PHYSICAL, &t.s[0], err));
    kva_kvstore_bytes(t.s[0], &before);
    CHECK_INT(
        kva_kvstore_append(t.s[0], 0, x.data(), 128, x.data(), 128, pos.data(), 33, NULL),
        KVA_EBUDGET);
    kva_kvstore_bytes(t.s[0], &after);
    CHECK(memcmp(&before, &after, sizeof before) == 0);
    CHECK_OK(
        kva_kvstore_append(t.s[0], 0, x.data(), 128, x.data(), 128, pos.data(), 32, err));
}

TEST(trim_gives_memory_back_and_the_device_counter_says_so)
{
    backend b;
    kva_kvshape shape = {1, 2, 128, 128, KVA_F16};
    const int n = 256;
    std::vector<float> x = random_floats((size_t)n * 256);
    std::vector<int32_t> pos, rank;
    std::vector<size_t> off = {0, 1, 2};
    struct kva_kv_bytes full, less;
    struct kva_kv_view v;
    size_t used[3], none = kva_rt_host_used();
    twins t;

    for (int i = 0; i < n * 16; i++)
        pos.push_back(i);
    CHECK_OK(kva_kvstore_new(b.ops, &shape, 1024, KVA_KV_PHYSICAL, &t.s[0], err));
    used[0] = kva_rt_host_used();
    CHECK(used[0] - none < 1024); /* a reserved range is no memory */
    for (int i = 0; i < 16; i++)
        CHECK_OK(kva_kvstore_append(t.s[0], 0, x.data(), 256, x.data(), 256, &pos[i * n],
                                    n, err));
    CHECK_OK(b.ops->sync(b.ops, err));
    kva_kvstore_bytes(t.s[0], &full);
    used[1] = kva_rt_host_used();
    CHECK(full.committed_bytes >= 4u << 20);
    /* rows and their positions, and one block of scratch */
    CHECK(used[1] - used[0] >= full.committed_bytes);
    CHECK(used[1] - used[0] <=
          full.committed_bytes + full.committed_bytes / 50 + (3 << 20));

    kva_kvstore_view(t.s[0], 0, &v);
    CHECK(!faults(v.base + full.committed_bytes - 1));
    rank = {7, 9};
    kva_keep keep = {1, 2, rank.data(), off.data()};

    CHECK_OK(kva_kvstore_keep(t.s[0], &keep, err));
    CHECK_OK(kva_kvstore_trim(t.s[0], err));
    kva_kvstore_bytes(t.s[0], &less);
    used[2] = kva_rt_host_used();
    CHECK_INT(less.committed_bytes, 2 << 20);
    CHECK(used[1] - used[2] >= full.committed_bytes - less.committed_bytes);
    CHECK(faults(v.base + less.committed_bytes));
    CHECK(!faults(v.base + less.committed_bytes - 1));
    kva_kvstore_free(t.s[0]);
    t.s[0] = NULL;
    CHECK(kva_rt_host_used() <= none + (2 << 20)); /* scratch stays */
}

TEST(without_ranges_the_cap_is_taken_at_once_and_nothing_is_claimed)
{
    kva_kvshape shape = {1, 1, 64, 64, KVA_F16};
    twins t;

    kva_rt_host_ranges(false);
    {
        backend b;
        size_t none = kva_rt_host_used();

        CHECK_OK(kva_kvstore_new(b.ops, &shape, 256, KVA_KV_PHYSICAL, &t.s[0], err));
        kva_rt_host_ranges(true);
        CHECK(kva_rt_host_used() - none >= 2u << 20);
        CHECK(!kva_kvstore_resident(t.s[0]));
        kva_kvstore_free(t.s[0]);
        t.s[0] = NULL;
    }
}

TEST(what_the_driver_counts_is_the_pages_and_what_the_table_holds_beside_them)
{
    backend b;
    kva_kvshape shape = {2, 2, 64, 64, KVA_F16};
    kva_kv_bytes bytes;
    std::vector<float> x = random_floats(900 * 128);
    std::vector<int32_t> pos;
    twins t;
    uint64_t own0, own, used0 = b.ops->memory_used(b.ops, &own0), used;
    void *p;

    CHECK_OK(kva_kvstore_new(b.ops, &shape, 4096, KVA_KV_PHYSICAL, &t.s[0], err));
    p = b.ops->alloc(b.ops, (size_t)3 << 20, KVA_MEM_DEVICE);
    for (int i = 0; i < 900; i++)
        pos.push_back(i);
    CHECK_OK(kva_kvstore_append(t.s[0], 0, x.data(), 128, x.data(), 128, pos.data(), 900,
                                err));
    kva_kvstore_bytes(t.s[0], &bytes);
    used = b.ops->memory_used(b.ops, &own);
    CHECK(own - own0 >= (size_t)3 << 20);
    /* the driver of a device rounds up, this one does not */
    CHECK(used - used0 <= bytes.committed_bytes + (own - own0));
    CHECK(used - used0 + ((size_t)2 << 20) >= bytes.committed_bytes + (own - own0));
    /* moved rows belong to the part that asked for them */
    int32_t rank[] = {1, 2, 3, 1, 2};
    size_t off[] = {0, 1, 3, 4, 5};
    kva_keep keep = {2, 2, rank, off};
    CHECK_OK(
        kva_kvstore_append(t.s[0], 1, x.data(), 128, x.data(), 128, pos.data(), 4, err));
    CHECK_OK(kva_kvstore_keep(t.s[0], &keep, err));
    const uint64_t switches = kva_simt_switches();
    b.ops->mark(b.ops, 0);
    CHECK_OK(kva_rt_sync(b.cu()->rt, err)); /* which sends nothing on by itself */
#ifdef KVA_POISON /* refilling what left has sent them on before */
    CHECK(kva_simt_switches() >= switches);
#else
    CHECK(kva_simt_switches() > switches);
#endif
    kva_kvstore_free(t.s[0]);
    t.s[0] = NULL;
    b.ops->release(b.ops, p, KVA_MEM_DEVICE);
    used = b.ops->memory_used(b.ops, &own);
    CHECK_NEAR((double)(used - used0), (double)(own - own0), 2 << 20); /* scratch stays */
}

TEST(the_most_in_use_is_seen_before_memory_is_given_back)
{
    backend b;
    kva_kvshape shape = {1, 8, 128, 128, KVA_F32};
    std::vector<float> x = random_floats(900 * 1024);
    std::vector<int32_t> pos, rank;
    kva_kv_bytes bytes;
    uint64_t own, used0, most, now = 0;
    twins t;

    for (int i = 0; i < 1800; i++)
        pos.push_back(i);
    for (int h = 0; h < 8; h++)
        for (int i = 0; i < 40; i++)
            rank.push_back(10 * i);
    size_t off[9];
    for (size_t h = 0; h <= 8; h++)
        off[h] = 40 * h;
    kva_keep keep = {1, 8, rank.data(), off};
    CHECK_OK(kva_kvstore_new(b.ops, &shape, 4096, KVA_KV_PHYSICAL, &t.s[0], err));
    used0 = b.ops->memory_used(b.ops, &own);
    (void)b.ops->memory_most(b.ops, true);
    for (int round = 0; round < 2; round++) { /* seen anew each time */
        CHECK_OK(kva_kvstore_append(t.s[0], 0, x.data(), 1024, x.data(), 1024,
                                    pos.data() + 900 * round, 900 - 80 * round, err));
        kva_kvstore_bytes(t.s[0], &bytes);
        CHECK_OK(kva_kvstore_keep(t.s[0], &keep, err));
        CHECK_OK(kva_kvstore_trim(t.s[0], err));
        now = b.ops->memory_used(b.ops, &own);
        most = b.ops->memory_most(b.ops, true);
        CHECK(most - used0 >= bytes.committed_bytes);
        CHECK(most - used0 <= bytes.committed_bytes + ((size_t)16 << 20)); /* scratch */
        CHECK(now + bytes.committed_bytes / 2 < most);
    }
    CHECK(b.ops->memory_most(b.ops, false) == now);
}

TEST(a_full_device_and_numbers_that_are_not_finite_are_reported)
{
    backend b;
    kva_kvshape shape = {1, 1, 64, 64, KVA_F16};
    std::vector<float> x(64, 1.0f);
    int32_t pos[] = {0, 1};
    struct kva_kv_view v;
    twins t;

    CHECK_OK(kva_kvstore_new(b.ops, &shape, 8, KVA_KV_PHYSICAL, &t.s[0], err));
    kva_rt_host_size(kva_rt_host_used() + 1);
    enum kva_status rc =
        kva_kvstore_append(t.s[0], 0, x.data(), 64, x.data(), 64, pos, 1, NULL);
    kva_rt_host_size((size_t)64 << 30);
    CHECK_INT(rc, KVA_ENOMEM);
    kva_kvstore_view(t.s[0], 0, &v);
    CHECK_OK(kva_kvstore_append(t.s[0], 0, x.data(), 64, x.data(), 64, pos, 1, err));
    CHECK(b.ops->pages->sound(v.pages));
    x[63] = 65520.0f; /* the first number that rounds to an infinite half */
    CHECK_OK(kva_kvstore_append(t.s[0], 0, x.data(), 64, x.data(), 64, pos + 1, 1, err));
    CHECK(!b.ops->pages->sound(v.pages));
}

TEST(a_machine_without_a_device_says_so)
{
    kva_ops *ops;
    struct kva_error e = {};

    kva_rt_host_size(0);
    enum kva_status rc = kva_ops_open("cuda", "f32", 1, &ops, &e);
    kva_rt_host_size((size_t)64 << 30);
    CHECK_INT(rc, KVA_EUNSUPPORTED);
    CHECK(strncmp(e.text, "no CUDA device: ", 16) == 0);
    CHECK_INT(kva_ops_open("cuda", "ref", 1, &ops, NULL), KVA_EINVALID);
}

TEST(pages_far_beyond_four_gigabytes_are_reached)
{
    const size_t page = 8192, reserved = (size_t)12 << 30;
    const std::vector<int> far = {700001, 1400003}; /* bytes 5.3e9 and 10.7e9 */
    std::vector<int32_t> pos((size_t)(far[1] + 1) * P, -1), first = {31, 0},
                                                            at = {40, 41};
    std::vector<int32_t> pages = {3, far[0], far[1], 5};
    std::vector<int> bad = {0};
    void *base = parity_range(reserved);

    CHECK(base != nullptr);
    kva_dev_pages p = {(uint8_t *)base, page, pos.data(), 64, 64, 1};
    std::vector<float> k = random_floats(2 * 128), v = random_floats(2 * 128), out(128),
                       w(128);
    kva_dev_append a = {k.data(), v.data(),     128,          128,       2,         2,
                        2,        first.data(), pages.data(), at.data(), bad.data()};

    kva_kv_append(p, a, NULL);
    CHECK_INT(bad[0], 0);
    CHECK_INT(pos[(size_t)far[0] * P], 41);
    kva_kv_copy(p, &far[0], &far[1], 1, NULL);
    const uint16_t *row = (const uint16_t *)((uint8_t *)base + (size_t)far[1] * page);

    for (int i = 0; i < 64; i++) {
        CHECK_INT(row[i], kva_f32_to_f16(k[128 + (size_t)i]));
        CHECK_INT(row[P * 64 + i], kva_f32_to_f16(v[128 + (size_t)i]));
    }
    std::vector<kva_dev_read> one = {{0, -1, 0, 0, 1}};

    kva_kv_read(p, one.data(), &far[1], 1, 1, out.data(), w.data(), NULL);
    for (int i = 0; i < 64; i++)
        CHECK_INT(kva_f32_to_f16(out[(size_t)i]), row[i]);
    parity_range_free(base, reserved);
}

/* Numbers four at a time where all is aligned, else one by one: the same bytes. Rows are
 * read back from any slot on, and a poisoned part of a page is NaN in keys and values. */
TEST(rows_go_in_and_out_at_any_address_and_any_distance)
{
    const int dk = 8, dv = 12, n = 70, cap = 3;
    const int32_t pages[cap] = {2, 0, 1}, first = 0;

    for (bool f16 : {true, false}) {
        const size_t row = (size_t)(dk + dv), page = P * row * (f16 ? 2 : 4);
        std::vector<uint8_t> all;

        for (size_t odd = 0; odd < 4; odd++)
            for (size_t apart : {row, row + 1, row + 4}) {
                std::vector<float> x((size_t)n * (row + 4) + 4), k, v;
                std::vector<uint4> room(cap * page / 16);
                std::vector<int32_t> at(cap * P, -1), pos, list = on_heap(pages);
                std::vector<int32_t> zero = {first}, bad = {0};
                uint8_t *base = (uint8_t *)room.data();

                memset(base, 0, cap * page);
                for (int t = 0; t < n; t++) {
                    pos.push_back(7 * t);
                    for (size_t i = 0; i < row; i++)
                        x[(size_t)t * apart + odd + i] = (float)(t * 24 + (int)i);
                }
                kva_dev_pages p = {base, page, at.data(), dk, dv, f16};
                kva_dev_append a = {x.data() + odd,
                                    x.data() + odd + dk,
                                    (int)apart,
                                    (int)apart,
                                    1,
                                    n,
                                    cap,
                                    zero.data(),
                                    list.data(),
                                    pos.data(),
                                    bad.data()};

                auto read = [&](int from, int m, float *k, float *v) {
                    std::vector<kva_dev_read> one = {{0, -1, 0, from, m}};

                    kva_kv_read(p, one.data(), list.data(), 1, m, k, v, NULL);
                };

                kva_kv_append(p, a, NULL);
                CHECK_INT(bad[0], 0);
                if (all.empty())
                    all.assign(base, base + cap * page);
                CHECK(memcmp(base, all.data(), cap * page) == 0);

                const int from = 33, m = n - from;
                k.assign((size_t)(m * dk) + 4, NAN);
                v.assign((size_t)(m * dv) + 4, NAN);
                read(from, m, k.data() + odd, v.data() + odd);
                for (int t = 0; t < m; t++) {
                    for (int i = 0; i < dk; i++)
                        CHECK(k[odd + (size_t)(t * dk + i)] ==
                              (float)((from + t) * 24 + i));
                    for (int i = 0; i < dv; i++)
                        CHECK(v[odd + (size_t)(t * dv + i)] ==
                              (float)((from + t) * 24 + dk + i));
                    CHECK_INT(
                        at[(size_t)pages[(from + t) / P] * P + (size_t)((from + t) % P)],
                        7 * (from + t));
                }
                kva_kv_poison(p, pages[0], 3, 31, NULL);
                std::vector<float> rest(32 * (size_t)dv), keys(32 * (size_t)dk);
                read(0, 32, keys.data(), rest.data());
                for (int t = 0; t < 32; t++) {
                    for (int i = 0; i < dk; i++)
                        CHECK((t >= 3 && t < 31) == isnan(keys[(size_t)(t * dk + i)]));
                    for (int i = 0; i < dv; i++)
                        CHECK((t >= 3 && t < 31) == isnan(rest[(size_t)(t * dv + i)]));
                }
            }
    }
}

TEST(staging_serves_the_hosts_pointers_and_leaves_the_devices_alone)
{
    backend b;
    kva_ops *ops = b.ops;
    const size_t m = 5;

    for (size_t width : {37, 1101, 4400}) { /* the last ones take several blocks a row */
        std::vector<float> x = random_floats(9 * width), y(m * width), z(9 * width, 0.0f);
        int32_t row[m] = {8, 0, 3, 3, 1};
        float *d = (float *)ops->alloc(ops, 9 * width * 4, KVA_MEM_DEVICE);
        float *s = (float *)ops->alloc(ops, m * width * 4, KVA_MEM_SHARED);

        ops->copy(ops, d, x.data(), 9 * width * 4);
        for (int o = 0; o < PARITY_ORDERS; o++) {
            size_t waits = kva_rt_host_waits();

            parity_order(o);
            ops->rows_get(ops, d, width, row, m, s);
            CHECK_INT(kva_rt_host_waits(), waits); /* nothing waited */
            ops->rows_get(ops, x.data(), width, row, m, y.data());
            CHECK_OK(ops->sync(ops, err));
            CHECK(memcmp(s, y.data(), m * width * 4) == 0);
            for (size_t j = 0; j < m; j++)
                CHECK(memcmp(&y[j * width], &x[(size_t)row[j] * width], width * 4) == 0);
            ops->rows_put(ops, s + width, width, row, 2, z.data()); /* an inner address */
            CHECK(memcmp(&z[8 * width], &y[width], width * 4) == 0);
            CHECK(memcmp(&z[0], &y[2 * width], width * 4) == 0);
        }
        parity_order(0);
        const float *c = ops->constant(ops, x.data(), width);

        CHECK(c != x.data());
        CHECK(kva_cuda_owns(b.cu(), c + width - 1));
        CHECK(!kva_cuda_owns(b.cu(), x.data()));
        ops->copy(ops, y.data(), c, width * 4);
        CHECK(memcmp(y.data(), x.data(), width * 4) == 0);
        ops->release(ops, d, KVA_MEM_DEVICE);
        ops->release(ops, s, KVA_MEM_SHARED);
        CHECK(!kva_cuda_owns(b.cu(), d));
        ops->release(ops, NULL, KVA_MEM_DEVICE);
    }
}

PARITY_MAIN
