/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Weights of every type on the device: exact values, and products whose rows do not know
 * of each other. */
#include "kernels/cuda/products.h"
#include "tests/simt/weights.h"

struct weight : file_weight {
    std::vector<uint8_t> memory; /* values, scales */
    std::vector<uint32_t> super;
    kva_dev_weight d;
};

static weight make(kva_type type, int out, int in)
{
    weight w;

    (file_weight &)w = random_weight(type, out, in);

    kva_dev_kind kind = kva_dev_kind_of(type);
    int chunks = (in + KVA_CHUNK - 1) / KVA_CHUNK;
    kva_dev_row_bytes bytes = kva_dev_row_size(kind, chunks);
    size_t row = w.file.size() / (size_t)out, scales = (size_t)out * bytes.values;

    w.memory.resize(scales + (size_t)out * bytes.scales);
    w.super.resize((size_t)out * bytes.super / 4);
    for (size_t o = 0; o < (size_t)out; o++)
        kva_dev_row_lay(type, w.file.data() + o * row, in,
                        w.memory.data() + o * bytes.values,
                        w.memory.data() + scales + o * bytes.scales,
                        w.super.data() + o * bytes.super / 4);
    w.d = {(int)kind,     out, in, chunks, w.memory.data(), w.memory.data() + scales,
           w.super.data()};
    return w;
}

static std::vector<double> reference(const weight &w, const std::vector<float> &x,
                                     int rows)
{
    std::vector<double> y((size_t)rows * (size_t)w.out);

    for (int r = 0; r < rows; r++)
        for (int o = 0; o < w.out; o++)
            for (int i = 0; i < w.in; i++)
                y[(size_t)(r * w.out + o)] += (double)x[(size_t)(r * w.in + i)] *
                                              (double)w.value[(size_t)(o * w.in + i)];
    return y;
}

static std::vector<float> product(const weight &w, const float *x, int rows)
{
    std::vector<float> y((size_t)rows * (size_t)w.out, NAN);

    kva_dev_skinny(&w.d, x, rows, y.data(), w.out, nullptr);
    return y;
}

static bool same(const float *a, const float *b, size_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

TEST(unpacked_rows_are_the_values_of_the_file_bit_for_bit)
{
    for (kva_type type : all_types)
        for (int in : row_lengths(type)) {
            weight w = make(type, 7, in);
            size_t n = (size_t)in;

            auto all = in_orders([&] {
                std::vector<float> y(7 * n, NAN);

                kva_dev_dequant(&w.d, 0, 7, y.data(), nullptr);
                return y;
            });
            if (!same(all.data(), w.value.data(), 7 * n))
                FAIL("%s, %d inputs", kva_type_name(type), in);

            std::vector<float> some(3 * n, NAN);
            kva_dev_dequant(&w.d, 2, 3, some.data(), nullptr);
            CHECK(same(some.data(), w.value.data() + 2 * n, 3 * n));
        }
}

TEST(bf16_rows_are_the_nearest_ties_to_even)
{
    for (kva_type type : all_types) {
        weight w = make(type, 3, 256);
        std::vector<uint16_t> y(3 * 256), z(3 * 256);

        kva_dev_dequant_bf16(&w.d, 0, 3, y.data(), nullptr);
        kva_dev_to_bf16(w.value.data(), y.size(), y.size(), z.data(), nullptr);
        for (size_t i = 0; i < y.size(); i++) {
            uint32_t below = kva_bits(w.value[i]) & 0xffff0000u, above = below + 0x10000u;
            double v = w.value[i], a = fabs(v - (double)kva_bits_float(below)),
                   b = fabs((double)kva_bits_float(above) - v);
            bool up = b < a || (a == b && (below >> 16 & 1));

            CHECK_INT(y[i], (up ? above : below) >> 16);
            CHECK_INT(z[i], y[i]);
        }
    }
    const std::vector<float> odd = {NAN,     INFINITY, -INFINITY,
                                    3.4e38f, -0.0f,    kva_bits_float(0x7f800001u)};
    std::vector<uint16_t> y(6);

    kva_dev_to_bf16(odd.data(), 6, 6, y.data(), nullptr);
    CHECK((y[0] & 0x7fff) > 0x7f80);
    CHECK_INT(y[1], 0x7f80);
    CHECK_INT(y[2], 0xff80);
    CHECK_INT(y[3], 0x7f80); /* beyond the largest bf16: 3.3895e38 */
    CHECK_INT(y[4], 0x8000);
    CHECK((y[5] & 0x7fff) > 0x7f80);
}

TEST(embedding_is_a_scaled_row)
{
    const std::vector<int32_t> ids = {4, 0, 4, 6};

    for (kva_type type : all_types) {
        int in = row_lengths(type).back();
        weight w = make(type, 7, in);
        auto x = in_orders([&] {
            std::vector<float> y(4 * (size_t)in, NAN);

            kva_dev_embed(&w.d, ids.data(), 4, 1.75f, y.data(), nullptr);
            return y;
        });

        for (int r = 0; r < 4; r++)
            for (int i = 0; i < in; i++)
                CHECK(x[(size_t)(r * in + i)] ==
                      1.75f * w.value[(size_t)(ids[(size_t)r] * in + i)]);
    }
}

TEST(a_product_is_the_sum_of_its_products)
{
    for (kva_type type : all_types)
        for (int in : row_lengths(type)) {
            weight w = make(type, 19, in);
            std::vector<float> x = random_floats((size_t)(17 * in));
            std::vector<double> want = reference(w, x, 17);
            auto y = in_orders([&] { return product(w, x.data(), 17); });

            CHECK_CLOSE(y.data(), want.data(), y.size(), 2e-6);
        }
}

TEST(a_row_alone_is_the_row_in_a_wave)
{
    for (kva_type type : all_types) {
        int in = row_lengths(type).back(), out = 9;
        weight w = make(type, out, in);
        std::vector<float> x = random_floats((size_t)(41 * in));
        std::vector<float> all = product(w, x.data(), 41);

        for (int rows : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33}) {
            int first = random_below(41 - rows + 1);
            std::vector<float> y = product(w, x.data() + (size_t)(first * in), rows);

            if (!same(y.data(), all.data() + (size_t)(first * out), y.size()))
                FAIL("%s: rows %d..%d of 41", kva_type_name(type), first,
                     first + rows - 1);
        }
    }
}

TEST(an_output_does_not_depend_on_the_number_of_outputs)
{
    for (kva_type type : all_types) {
        int in = row_lengths(type).back();
        weight w = make(type, 21, in), few = w;
        std::vector<float> x = random_floats((size_t)(5 * in));
        std::vector<float> all = product(w, x.data(), 5);

        few.d.out = few.out = 3;
        std::vector<float> y = product(few, x.data(), 5);
        for (int r = 0; r < 5; r++)
            CHECK(same(&y[(size_t)(r * 3)], &all[(size_t)(r * 21)], 3));
    }
    /* so many that blocks take more of them */
    for (kva_type type : all_types) {
        weight w = make(type, 1100, 256), few = w;
        std::vector<float> x = random_floats(5 * 256);

        few.d.out = few.out = 19;
        for (int rows : {1, 2, 5}) {
            std::vector<float> all = product(w, x.data(), rows);
            std::vector<float> y = product(few, x.data(), rows);

            for (int r = 0; r < rows; r++)
                CHECK(same(&y[(size_t)(r * 19)], &all[(size_t)(r * 1100)], 19));
        }
    }
}

TEST(a_row_of_nan_stays_alone_and_nothing_beyond_x_is_used)
{
    for (kva_type type : all_types)
        for (int in : row_lengths(type)) {
            weight w = make(type, 6, in);
            std::vector<float> x = random_floats((size_t)(9 * in));
            std::vector<float> clean = product(w, x.data(), 9);

            for (int i = 0; i < in; i++)
                x[(size_t)(4 * in + i)] = NAN;
            std::vector<float> y = product(w, x.data(), 9);
            for (int r = 0; r < 9; r++)
                for (int o = 0; o < 6; o++) {
                    float f = y[(size_t)(r * 6 + o)];

                    CHECK(r == 4 ? f != f : f == clean[(size_t)(r * 6 + o)]);
                }
        }
}

TEST(rows_of_x_that_are_not_aligned_give_the_same_bits)
{
    for (kva_type type : all_types) {
        int in = row_lengths(type).back();
        weight w = make(type, 6, in);
        std::vector<float> x = random_floats((size_t)(9 * in) + 1), moved = x;
        std::vector<float> y = product(w, x.data(), 9);

        memmove(moved.data() + 1, x.data(), (size_t)(9 * in) * sizeof(float));
        std::vector<float> z = product(w, moved.data() + 1, 9);
        CHECK(same(y.data(), z.data(), y.size()));
    }
}

TEST(what_lies_between_rows_of_y_stays)
{
    weight w = make(KVA_Q4_1, 10, 64);
    std::vector<float> x = random_floats(5 * 64), y(5 * 13, 7.0f);
    std::vector<float> want = product(w, x.data(), 5);

    kva_dev_skinny(&w.d, x.data(), 5, y.data(), 13, nullptr);
    for (int r = 0; r < 5; r++)
        for (int o = 0; o < 13; o++)
            CHECK(y[(size_t)(r * 13 + o)] ==
                  (o < 10 ? want[(size_t)(r * 10 + o)] : 7.0f));
}

/* three rows of y in an address range of 16 GiB, of which a few pages are touched */
TEST(offsets_beyond_four_gigabytes_are_reached)
{
    const int stride = 1 << 30;
    size_t bytes = ((size_t)4 * stride + 4096) * sizeof(float);
    float *y = (float *)parity_range(bytes);
    weight w = make(KVA_Q8_0, 4, 32);
    std::vector<float> x = random_floats(5 * 32), want = product(w, x.data(), 5);

    if (y == nullptr) {
        printf("SKIP: no address range of 16 GiB\n");
        return;
    }
    kva_dev_skinny(&w.d, x.data(), 5, y, stride, nullptr);
    bool good = true;
    for (size_t r = 0; r < 5; r++)
        good = good && same(y + r * (size_t)stride, &want[r * 4], 4);
    parity_range_free(y, bytes);
    CHECK(good);
}

TEST(the_cpu_gives_the_same_within_rounding)
{
    kva_ops *ops = nullptr;

    CHECK_OK(kva_ops_open("cpu", "f32", 1, &ops, err));
    for (kva_type type : all_types) {
        int in = row_lengths(type).back();
        weight w = make(type, 19, in);
        std::vector<float> x = random_floats((size_t)(9 * in)), y(9 * 19);
        kva_weight *cpu = nullptr;

        CHECK_OK(ops->weight_new(ops, type, w.file.data(), 19, in, nullptr, &cpu, err));
        ops->matmul(ops, cpu, x.data(), 9, y.data(), 19);
        CHECK_CLOSE(product(w, x.data(), 9).data(), y.data(), y.size(), 4e-6);
        ops->weight_free(ops, cpu);
    }
    kva_ops_close(ops);
}

PARITY_MAIN
