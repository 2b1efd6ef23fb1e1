/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_lt.cpp - lt_cuda.c against the stand-in's products, which do what the descriptors
 * say: a wrong transposition, type, leading dimension, alignment or workspace shows. */
#include "kernels/cuda/lt.h"
#include "tests/cudart/steps.h"

#include <string>

namespace
{

struct library {
    kva_lt *lt = nullptr;

    library()
    {
        CHECK_OK(kva_lt_open(&lt, err));
    }
    ~library()
    {
        kva_lt_close(lt);
    }
    library(const library &) = delete;
    library &operator=(const library &) = delete;
};

float bf16(uint16_t h)
{
    return kva_bits_float((uint32_t)h << 16);
}

struct sizes {
    int m, n, k;
    bool bf16;
    int w_gap = 0, x_gap = 0, y_gap = 0; /* elements between a row's end and the next */
    size_t shift = 0;                    /* bytes by which operands begin off 256 */
};

int buckets(int rows)
{
    return (rows + KVA_LT_ROWS - 1) / KVA_LT_ROWS * KVA_LT_ROWS;
}

/* One product on the device, its Y as it came back, NaN where nothing was written. Rows
 * of x behind the n are 0, of y there may be rubbish. */
struct product {
    kva_rt *rt;
    sizes s;
    std::vector<float> w, x; /* as numbers */
    std::vector<uint8_t> w_bytes, x_bytes;
    uint8_t *dw, *dx, *dy;
    void *room;
    size_t y_bytes;

    static std::vector<uint8_t> bytes_of(std::vector<float> &v, bool half)
    {
        std::vector<uint8_t> out(v.size() * (half ? 2 : 4));

        for (size_t i = 0; i < v.size(); i++) {
            uint32_t u = kva_bits(v[i]);

            if (half) {
                uint16_t h = (uint16_t)(u >> 16);

                v[i] = bf16(h);
                memcpy(&out[2 * i], &h, 2);
            } else {
                memcpy(&out[4 * i], &u, 4);
            }
        }
        return out;
    }
    product(kva_rt *r, const sizes &sz, kva_lt *lt) : rt(r), s(sz)
    {
        w = random_floats((size_t)s.m * (size_t)(s.k + s.w_gap));
        x = random_floats((size_t)s.n * (size_t)(s.k + s.x_gap));
        x.resize(rows() * (size_t)(s.k + s.x_gap));
        w_bytes = bytes_of(w, s.bf16);
        x_bytes = bytes_of(x, s.bf16);
        y_bytes = rows() * (size_t)(s.m + s.y_gap) * 4;
        dw = (uint8_t *)kva_rt_alloc(rt, w_bytes.size() + s.shift, false);
        dx = (uint8_t *)kva_rt_alloc(rt, x_bytes.size() + s.shift, false);
        dy = (uint8_t *)kva_rt_alloc(rt, y_bytes + s.shift, false);
        room = kva_rt_alloc(rt, kva_lt_workspace(lt), false);
        CHECK(dw && dx && dy && room);
        kva_rt_upload(rt, dw + s.shift, w_bytes.data(), w_bytes.size());
        kva_rt_upload(rt, dx + s.shift, x_bytes.data(), x_bytes.size());
        kva_rt_fill(rt, dy, 0xff, y_bytes + s.shift);
    }
    ~product()
    {
        kva_rt_free(rt, dw);
        kva_rt_free(rt, dx);
        kva_rt_free(rt, dy);
        kva_rt_free(rt, room);
    }
    size_t rows() const
    {
        return (size_t)buckets(s.n) + KVA_LT_ROWS;
    }
    struct kva_lt_product ask(int first, int rows) const
    {
        struct kva_lt_product p = {};
        size_t each = s.bf16 ? 2 : 4;

        p.m = s.m;
        p.n = buckets(rows);
        p.k = s.k;
        p.bf16 = s.bf16;
        p.w = dw + s.shift;
        p.x = dx + s.shift + (size_t)first * (size_t)(s.k + s.x_gap) * each;
        p.y = (float *)(void *)(dy + s.shift) + (size_t)first * (size_t)(s.m + s.y_gap);
        p.w_stride = s.k + s.w_gap;
        p.x_stride = s.k + s.x_gap;
        p.y_stride = s.m + s.y_gap;
        p.workspace = room;
        return p;
    }
    /* The product of `count` rows from `first` on. */
    enum kva_status multiply(kva_lt *lt, int first, int count, struct kva_error *err)
    {
        struct kva_lt_product p = ask(first, count);

        return kva_lt_product(lt, &p, kva_rt_stream(rt), err);
    }
    std::vector<float> result()
    {
        std::vector<float> y(y_bytes / 4);

        kva_rt_download(rt, y.data(), dy + s.shift, y_bytes);
        CHECK_OK(kva_rt_status(rt, err));
        return y;
    }
    void check(kva_lt *lt)
    {
        CHECK_OK(multiply(lt, 0, s.n, err));
        check();
    }
    void check()
    {
        std::vector<float> y = result();

        for (int j = 0; j < s.n; j++)
            for (int i = 0; i < s.m + s.y_gap; i++) {
                float got = y[(size_t)j * (size_t)(s.m + s.y_gap) + (size_t)i];
                double want = 0, most = 0;

                if (i >= s.m) {
                    CHECK_INT(kva_bits(got), 0xffffffffu);
                    continue;
                }
                for (int l = 0; l < s.k; l++) {
                    double t =
                        (double)w[(size_t)i * (size_t)(s.k + s.w_gap) + (size_t)l] *
                        (double)x[(size_t)j * (size_t)(s.k + s.x_gap) + (size_t)l];

                    want += t;
                    most += fabs(t);
                }
                CHECK_NEAR(got, want, most * 2e-6 + 1e-30);
            }
    }
};

int choices(kva_lt *lt)
{
    int n = 0;

    for (const char *c = kva_lt_choices(lt); *c; c++)
        n += *c == '\n';
    return n;
}

} // namespace

TEST(products_are_those_of_a_double_reference)
{
    static const sizes all[] = {
        {64, 33, 128, false},
        {64, 33, 128, true},
        {7, 5, 3, false, 2, 1, 4},
        {7, 5, 3, true, 2, 1, 4, 48},
        {1, 1, 1, false, 0, 0, 0, 16},
        {130, 17, 300, false, 12, 0, 6},
        {96, 40, 576, true, 192},
        {48, 9, 65, false, 0, 7, 0, 16},
        {33, 600, 64, false, 0, 0, 31, 16},
        {16, 3, 96, true, 0, 0, 0, 32},
        {32, 6, 128, false, 0, 0, 0, 16},
        {32, 6, 128, true, 0, 0, 0, 80},
    };
    runtime rt;
    library l;
    int before = kva_cudart_lt.products;

    for (const sizes &s : all) {
        product p(rt, s, l.lt);

        p.check(l.lt);
    }
    CHECK_INT(kva_cudart_lt.products - before, 12);
    CHECK_INT(choices(l.lt), 12);
    CHECK(strstr(kva_lt_choices(l.lt), "m 64 k 128 bf16: algorithm ") != nullptr);
    CHECK(strstr(kva_lt_choices(l.lt), "m 64 k 128 f32: algorithm ") != nullptr);
}

TEST(a_row_has_the_same_bits_alone_and_among_many)
{
    for (int half = 0; half < 2; half++) {
        runtime rt;
        library l, other; /* which sees few rows first */
        product p(rt, {40, 700, 256, half == 1}, l.lt);
        std::vector<float> y, again;

        CHECK_OK(p.multiply(l.lt, 0, 700, err));
        y = p.result();
        kva_rt_fill(rt, p.dy, 0xff, p.y_bytes);
        for (int at = 0, n; at < 700; at += n) {
            n = at < 3 ? 1 : 1 + random_below(300);
            n = n < 700 - at ? n : 700 - at;
            CHECK_OK(p.multiply(other.lt, at, n, err));
        }
        again = p.result();
        CHECK(memcmp(y.data(), again.data(), (size_t)700 * 40 * 4) == 0);
        CHECK_INT(choices(l.lt), 1);
    }
}

TEST(another_shape_has_an_algorithm_of_its_own_and_keeps_it)
{
    runtime rt;
    library l;
    int algo[2] = {0, 0};

    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 2; i++) {
            /* the same strides */
            product p(rt, {24, 6, i ? 192 : 128, false, i ? 0 : 64, i ? 0 : 64}, l.lt);

            p.check(l.lt);
            if (round == 0)
                algo[i] = kva_cudart_lt.last_algo;
            CHECK_INT(kva_cudart_lt.last_algo, algo[i]);
        }
    CHECK(algo[0] != algo[1]);
    CHECK_INT(choices(l.lt), 2);
}

TEST(where_the_library_has_no_algorithm_that_sums_in_one_piece_the_shape_is_named)
{
    runtime rt;
    library l;
    product p(rt, {72, 4, 64, true}, l.lt);
    struct kva_error e = {};

    kva_cudart_lt.none_at_m = 72;
    CHECK_INT(p.multiply(l.lt, 0, 4, &e), KVA_EUNSUPPORTED);
    CHECK(strstr(e.text, "m 72 k 64 of bf16") && strstr(e.text, "(0 offered)"));
    kva_cudart_lt.none_at_m = 0;
    kva_cudart_lt.only = 1 << 1;
    e = {};
    CHECK_INT(p.multiply(l.lt, 0, 4, &e), KVA_EUNSUPPORTED);
    CHECK(strstr(e.text, "no algorithm for m 72 k 64 of bf16 that sums in one piece") !=
          nullptr);
    kva_cudart_lt.only = 0;
    p.check(l.lt);
}

TEST(what_was_offered_and_is_not_fit_is_told)
{
    runtime rt;
    library l;
    product p(rt, {72, 4, 64, true}, l.lt);
    struct kva_error e = {};

    kva_cudart_lt.only = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 8;
    CHECK_INT(p.multiply(l.lt, 0, 4, &e), KVA_EUNSUPPORTED);
    for (const char *part : {"64 to 4096 rows (", " offered: ", "1 of tile 64: 4 pieces",
                             "3 of tile 48: not for 64 rows", "4 of tile 24: state ",
                             "8 of tile 40: not for 4096 rows"})
        if (strstr(e.text, part) == nullptr)
            FAIL("\"%s\" is not in: %s", part, e.text);
    kva_cudart_lt.only = 0;
    CHECK_INT(choices(l.lt), 0);
}

TEST(where_nothing_is_offered_for_many_rows_the_list_for_few_is_asked)
{
    runtime rt;
    library l;
    product p(rt, {72, 70, 64, true}, l.lt);

    kva_cudart_lt.silent_from = 512;
    CHECK_OK(p.multiply(l.lt, 0, 70, err));
    kva_cudart_lt.silent_from = 0;
    p.check();
    CHECK_INT(choices(l.lt), 1);
}

TEST(rows_come_in_buckets_at_aligned_addresses)
{
    runtime rt;
    library l;
    product p(rt, {72, 4, 64, false}, l.lt);
    int before = kva_cudart_lt.products;

    for (int n : {0, 1, 63, 65, 100, -64, KVA_LT_MOST + KVA_LT_ROWS}) {
        struct kva_lt_product ask = p.ask(0, 4);
        struct kva_error e = {};

        ask.n = n;
        CHECK_INT(kva_lt_product(l.lt, &ask, kva_rt_stream(rt), &e), KVA_EINVALID);
    }
    for (int i = 0; i < 3; i++) {
        struct kva_lt_product ask = p.ask(0, 4);
        struct kva_error e = {};

        (i == 0 ? ask.w : i == 1 ? ask.x : (const void *&)ask.y) = p.dx + 8;
        CHECK_INT(kva_lt_product(l.lt, &ask, kva_rt_stream(rt), &e), KVA_EINVALID);
    }
    CHECK_INT(kva_cudart_lt.products, before);
}

TEST(many_shapes_are_remembered)
{
    runtime rt;
    library l;

    for (int round = 0; round < 2; round++)
        for (int m = 1; m <= 70; m++) {
            product p(rt, {m, 2, 8, false}, l.lt);

            p.check(l.lt);
        }
    CHECK_INT(choices(l.lt), 70);
}

TEST(each_call_of_the_library_that_fails_is_told_and_leaves_nothing)
{
    runtime rt;
    library none;
    int k = 1, told = 0;

    for (int plan = 0; plan < 3; plan++)
        for (k = 1;; k++) {
            kva_lt *lt = nullptr;
            struct kva_error e = {};
            enum kva_status rc = KVA_OK;
            std::string call;

            {
                product p(rt, {20, 3, 16, false}, none.lt);

                kva_cudart_fail((enum kva_cudart_plan)plan, k);
                rc = kva_lt_open(&lt, &e);
                if (rc == KVA_OK)
                    rc = p.multiply(lt, 0, 3, &e);
                kva_lt_close(lt);
                call = kva_cudart_failed() ? kva_cudart_failed() : "";
                kva_cudart_fail(KVA_CUDART_ONCE, 0);
                if (rc == KVA_OK)
                    p.check();
            }
            if (call.empty())
                break;
            told += rc != KVA_OK;
            /* another algorithm serves where one cannot be asked about; what closes may
             * fail */
            if (rc == KVA_OK && call.find("Destroy") == std::string::npos &&
                call.find("AlgoConfig") == std::string::npos &&
                call != "cublasLtMatmulAlgoCheck")
                FAIL("call %d, %s: nobody was told", k, call.c_str());
            if (rc != KVA_OK && strncmp(e.text, "cuBLASLt", 8) != 0)
                FAIL("call %d, %s: said \"%s\"", k, call.c_str(), e.text);
        }
    CHECK(told > 40);
    CHECK_OK(kva_rt_sync(rt, err));
}

PARITY_MAIN
