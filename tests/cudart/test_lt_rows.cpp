/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_lt_rows.cpp - context products through the backend's table, by lt_cuda.c: what is
 * filled up to whole buckets shows nowhere. The stand-in's algorithms give different
 * bits, so rows that took another one would, too. */
#include "kernels/cuda/lt.h"
#include "tests/cudart/cudart.h"
#include "tests/simt/table.h"

namespace
{

struct form {
    kva_type type;
    int out, in, stride;
};
/* rows of x that start at odd addresses; rows of y that do, and such that lie apart */
const form forms[] = {
    {KVA_F32, 24, 33, 24},   {KVA_F32, 17, 64, 17},  {KVA_BF16, 40, 50, 43},
    {KVA_BF16, 16, 256, 24}, {KVA_Q4_1, 48, 96, 51}, {KVA_Q8_0, 33, 32, 36},
    {KVA_Q6_K, 20, 512, 20},
};

} // namespace

TEST(a_context_row_has_the_same_bits_wherever_it_stands_and_nothing_else_is_written)
{
    const int rows = 200;

    for (const char *numerics : {"f32", "bf16"}) {
        table b(numerics);
        kva_ops *ops = b.ops;

        ops->context = true;
        for (const form &f : forms) {
            file_weight w = random_weight(f.type, f.out, f.in);
            kva_weight *d = load(ops, w);
            size_t width = (size_t)f.stride, room = (rows + KVA_LT_ROWS) * width;
            on_device x(ops, random_floats((size_t)(rows * f.in)));
            std::vector<float> before(room, 7.0f), all, y;

            on_device whole(ops, before);
            ops->matmul(ops, d, x.p, rows, whole.p, f.stride);
            all = whole.read();
            for (size_t i = 0; i < room; i++)
                CHECK((all[i] == 7.0f) ==
                      (i / width >= rows || (int)(i % width) >= f.out));
            for (int n : {1, 2, 63, 64, 65, 128, 130, 199}) {
                int at = random_below(rows - n + 1);
                on_device part(ops, before);

                ops->matmul(ops, d, x.p + (size_t)(at * f.in), n,
                            part.p + (size_t)at * width, f.stride);
                y = part.read();
                for (size_t i = 0; i < room; i++) {
                    int row = (int)(i / width);
                    float want = row >= at && row < at + n ? all[i] : 7.0f;

                    if (memcmp(&y[i], &want, sizeof want) != 0)
                        FAIL("%s, %d x %d: row %d of %d rows from %d", numerics, f.out,
                             f.in, row, n, at);
                }
            }
            ops->weight_free(ops, d);
        }
        ops->context = false;
        CHECK_OK(ops->sync(ops, err));
    }
}

TEST(more_rows_than_a_call_may_have_are_several_calls)
{
    const int rows = KVA_LT_MOST + 3, in = 8, out = 4;
    table b("f32");
    kva_ops *ops = b.ops;
    int before = kva_cudart_lt.products;

    ops->context = true;
    file_weight w = random_weight(KVA_F32, out, in);
    kva_weight *d = load(ops, w);
    on_device x(ops, random_floats((size_t)(rows * in)));
    on_device y(ops, std::vector<float>((size_t)(rows * out), NAN)),
        one(ops, {0, 0, 0, 0});

    ops->matmul(ops, d, x.p, rows, y.p, out);
    CHECK_INT(kva_cudart_lt.products - before, 2);
    for (int r : {0, KVA_LT_MOST - 1, KVA_LT_MOST, rows - 1}) {
        ops->matmul(ops, d, x.p + r * in, 1, one.p, out);
        CHECK(memcmp(one.read().data(), y.read().data() + r * out, 16) == 0);
    }
    ops->weight_free(ops, d);
    ops->context = false;
}

TEST(a_failure_of_the_library_is_told_when_somebody_waits)
{
    table b("f32");
    kva_ops *ops = b.ops;
    struct kva_error e = {};
    file_weight w = random_weight(KVA_F32, 4, 8);
    kva_weight *d = load(ops, w);
    on_device x(ops, random_floats(8)), y(ops, {7, 7, 7, 7});

    kva_cudart_lt.only = 1 << 1;
    ops->context = true;
    ops->matmul(ops, d, x.p, 1, y.p, 4);
    ops->context = false;
    kva_cudart_lt.only = 0;
    CHECK_INT(ops->sync(ops, &e), KVA_EUNSUPPORTED);
    CHECK(strstr(e.text, "m 4 k 8 of f32 that sums in one piece") != nullptr);
    ops->weight_free(ops, d);
}

PARITY_MAIN
