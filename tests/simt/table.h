/* SPDX-License-Identifier: GPL-3.0-or-later */
/* table.h - the table of the device backend, floats in its memory, weights of a file. */
#ifndef KVA_SIMT_TABLE_H
#define KVA_SIMT_TABLE_H

#include "kernels/cuda/cuda.h"
#include "tests/simt/weights.h"

struct table {
    kva_ops *ops = nullptr;

    explicit table(const char *numerics)
    {
        CHECK_OK(kva_cuda_open(numerics, &ops, err));
    }
    ~table()
    {
        kva_ops_close(ops);
    }
    table(const table &) = delete;
    table &operator=(const table &) = delete;
};

struct on_device {
    kva_ops *ops;
    float *p;
    size_t n;

    on_device(kva_ops *o, const std::vector<float> &v)
        : ops(o), p((float *)o->alloc(o, v.size() * sizeof(float), KVA_MEM_DEVICE)),
          n(v.size())
    {
        CHECK(p != nullptr);
        ops->copy(ops, p, v.data(), n * sizeof(float));
    }
    ~on_device()
    {
        ops->release(ops, p, KVA_MEM_DEVICE);
    }
    on_device(const on_device &) = delete;
    on_device &operator=(const on_device &) = delete;
    std::vector<float> read() const
    {
        std::vector<float> v(n);

        ops->copy(ops, v.data(), p, n * sizeof(float));
        return v;
    }
};

inline kva_weight *load(kva_ops *ops, const file_weight &w,
                        const int32_t *row_of = nullptr)
{
    kva_weight *d = nullptr;

    CHECK_OK(ops->weight_new(ops, w.type, w.file.data(), w.out, w.in, row_of, &d, err));
    return d;
}

#endif
