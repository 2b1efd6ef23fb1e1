/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_topk.cpp - selection on the device against the order of methods/rank.c: exact,
 * ties included, per KV head, per layer and over all. */
#include "kernels/cuda/topk.h"
#include "tests/simt/parity.h"

#include <algorithm>
extern "C" {
#include "methods/rank.h"
}

namespace
{

struct scores {
    std::vector<size_t> off;
    std::vector<float> s;
    std::vector<int32_t> pos;
    std::vector<uint8_t> rank;
    int cells() const
    {
        return (int)off.size() - 1;
    }
    size_t n(int c) const
    {
        return off[(size_t)c + 1] - off[(size_t)c];
    }
    struct kva_dev_scores dev(bool ranks = true, bool positions = true) const
    {
        return {s.data(), positions ? pos.data() : nullptr, ranks ? rank.data() : nullptr,
                off.data(), cells()};
    }
};

/* Scores with heavy ties, both zeros, NaN and infinities; positions in no order. */
scores make(const std::vector<size_t> &n, int values)
{
    scores x;

    x.off.push_back(0);
    for (size_t m : n) {
        size_t first = x.off.back();

        x.off.push_back(first + m);
        for (size_t j = 0; j < m; j++) {
            int v = random_below(values);

            x.s.push_back(v == 0   ? -0.0f
                          : v == 1 ? NAN
                          : v == 2 ? 0.0f
                          : v == 3 ? -INFINITY
                          : v == 4 ? INFINITY
                                   : (float)(v - values / 2) * 0.37f);
            x.pos.push_back((int32_t)j * 3);
            x.rank.push_back(random_below(9) == 0 ? (random_below(2) ? 2 : 0) : 1);
        }
        for (size_t j = m; j > 1; j--)
            std::swap(x.pos[first + j - 1], x.pos[first + (size_t)random_below((int)j)]);
    }
    return x;
}

/* What stays of cells c0 .. c1 - 1 when their m best do: slots of each cell. */
void reference(const scores &x, bool ranks, int c0, int c1, size_t m,
               std::vector<std::vector<int32_t>> &keep)
{
    struct entry {
        int rank;
        uint64_t key;
        int cell, slot;
    };
    std::vector<entry> all;

    for (int c = c0; c < c1; c++)
        for (size_t j = 0; j < x.n(c); j++) {
            size_t at = x.off[(size_t)c] + j;
            int rank = ranks ? x.rank[at] : 1;
            /* the score of a protected entry does not count, nor that of one that must go
             */
            float s = rank != 1 ? 0 : std::isnan(x.s[at]) ? -INFINITY : x.s[at];

            all.push_back({rank, kva_rank_key(s, x.pos[at]), c, (int)j});
        }
    std::stable_sort(all.begin(), all.end(), [](const entry &a, const entry &b) {
        return a.rank != b.rank ? a.rank > b.rank
               : a.key != b.key ? a.key > b.key
                                : a.cell < b.cell;
    });
    for (size_t i = 0; i < all.size() && i < m; i++)
        keep[(size_t)all[i].cell].push_back(all[i].slot);
    for (int c = c0; c < c1; c++)
        std::sort(keep[(size_t)c].begin(), keep[(size_t)c].end());
}

/* Offsets of the kept lists, then the lists. */
std::vector<int64_t> select(const struct kva_dev_scores &x, const int32_t *first,
                            int groups, const size_t *m)
{
    std::vector<struct kva_cut_at> cut((size_t)x.cells);
    std::vector<size_t> to((size_t)x.cells + 1);
    std::vector<int64_t> out;

    kva_dev_topk_cut(&x, first, groups, m, cut.data(), NULL);
    kva_dev_topk_offsets(cut.data(), x.cells, to.data(), NULL);
    for (int c = 0; c < x.cells; c++)
        CHECK_INT(to[(size_t)c + 1] - to[(size_t)c], cut[(size_t)c].count);
    std::vector<int32_t> slot(to.back(), -1);
    kva_dev_topk_list(&x, cut.data(), to.data(), slot.data(), NULL);
    out.assign(to.begin(), to.end());
    out.insert(out.end(), slot.begin(), slot.end());
    return out;
}

void compare(const std::vector<int64_t> &got,
             const std::vector<std::vector<int32_t>> &want)
{
    size_t cells = want.size();

    for (size_t c = 0; c < cells; c++) {
        CHECK_INT(got[c + 1] - got[c], want[c].size());
        for (size_t i = 0; i < want[c].size(); i++)
            CHECK_INT(got[cells + 1 + (size_t)got[c] + i], want[c][i]);
    }
}

} // namespace

/* kernels.md 3.4f */
TEST(worked_selection)
{
    scores x = {{0, 5}, {3, 1, 3, 2, 3}, {0, 1, 2, 3, 4}, {1, 1, 1, 1, 1}};
    auto best = [&](size_t m) {
        auto v = in_orders([&] { return select(x.dev(), NULL, 1, &m); });

        return std::vector<int64_t>(v.begin() + 2, v.end());
    };

    CHECK(best(2) == (std::vector<int64_t>{2, 4}));
    CHECK(best(5) == (std::vector<int64_t>{0, 1, 2, 3, 4}));
    CHECK(best(9) == (std::vector<int64_t>{0, 1, 2, 3, 4}));
    CHECK(best(0).empty());
    x.rank[1] = 2;
    CHECK(best(2) == (std::vector<int64_t>{1, 4}));
    x.rank[4] = 0;
    CHECK(best(3) == (std::vector<int64_t>{0, 1, 2}));
    x.pos = {9, 1, 2, 3, 4}; /* newest by position, not by slot */
    CHECK(best(2) == (std::vector<int64_t>{0, 1}));
}

TEST(each_cell_keeps_what_the_methods_order_says)
{
    const std::vector<size_t> cells = {1, 31, 0, 32, 33, 257, 1000, 64};

    for (int values : {1, 8, 40, 100000})
        for (int round = 0; round < 2; round++) {
            scores x = make(cells, values);
            std::vector<std::vector<int32_t>> want(cells.size());
            std::vector<size_t> m;

            for (size_t c = 0; c < cells.size(); c++) {
                m.push_back((size_t)random_below((int)cells[c] + 3));
                reference(x, round == 0, (int)c, (int)c + 1, m[c], want);
            }
            compare(in_orders([&] {
                        return select(x.dev(round == 0), NULL, x.cells(), m.data());
                    }),
                    want);
        }
}

/* A sorted cell may leave its positions away. */
TEST(slots_stand_for_ascending_positions)
{
    scores x = make({700}, 9);
    size_t m = 313;

    for (size_t j = 0; j < 700; j++)
        x.pos[j] = (int32_t)j + 5;
    CHECK(select(x.dev(), NULL, 1, &m) == select(x.dev(true, false), NULL, 1, &m));
}

TEST(layers_and_the_whole_keep_what_the_methods_order_says)
{
    const std::vector<size_t> cells = {40, 1, 200, 33, 0, 64, 300, 31};
    const std::vector<std::vector<int32_t>> groupings = {
        {0, 4, 8}, {0, 8}, {0, 1, 5, 8}, {0, 0, 8}};

    for (int values : {1, 7, 30, 100000})
        for (const auto &first : groupings) {
            scores x = make(cells, values);
            std::vector<std::vector<int32_t>> want(cells.size());
            std::vector<size_t> m;

            for (size_t g = 0; g + 1 < first.size(); g++) {
                size_t held = x.off[(size_t)first[g + 1]] - x.off[(size_t)first[g]];

                m.push_back((size_t)random_below((int)held + 2));
                reference(x, true, first[g], first[g + 1], m[g], want);
            }
            compare(in_orders([&] {
                        return select(x.dev(), first.data(), (int)m.size(), m.data());
                    }),
                    want);
        }
}

/* The counts of a group are the budgets that methods/ gives the KV heads of a flat
 * ranking, and a cell's list is what it keeps of them. */
TEST(a_group_gives_the_budgets_of_the_flat_ranking)
{
    for (int round = 0; round < 6; round++) {
        const std::vector<size_t> cells = {50, 90, 31, 64};
        scores x = make(cells, round < 3 ? 12 : 100000);
        std::vector<int> none(cells.size()), b(cells.size());
        size_t total = 20 + (size_t)random_below(180);

        for (size_t c = 0; c < cells.size(); c++)
            for (size_t j = 0; j < cells[c]; j++) {
                float &s = x.s[x.off[c] + j];

                s = std::isfinite(s) ? s
                                     : -INFINITY; /* as kva_method_score leaves them */
                x.pos[x.off[c] + j] = (int32_t)j;
            }
        struct kva_scores sc = {};
        sc.layers = 1;
        sc.kv_heads = (int)cells.size();
        sc.off = x.off.data();
        sc.s = x.s.data();
        sc.pos = x.pos.data();
        CHECK_OK(kva_rank_flat(&sc, 0, sc.kv_heads, total, none.data(), KVA_NORM_NONE,
                               b.data(), err));
        const int32_t first[2] = {0, sc.kv_heads};
        auto got = select(x.dev(false), first, 1, &total);
        for (size_t c = 0; c < cells.size(); c++)
            CHECK_INT(got[c + 1] - got[c], b[c]);
    }
}

/* kernels.md 3.4g */
TEST(the_victim_is_the_least_and_the_oldest_of_equals)
{
    for (int values : {1, 8, 100000}) {
        scores x = make({1, 31, 0, 32, 700, 3}, values);

        x.rank[x.off[5]] = x.rank[x.off[5] + 1] = x.rank[x.off[5] + 2] = 2;
        auto got = in_orders([&] {
            std::vector<int32_t> v((size_t)x.cells(), -2);
            struct kva_dev_scores d = x.dev();

            kva_dev_topk_victim(&d, v.data(), NULL);
            return v;
        });
        for (int c = 0; c < x.cells(); c++) {
            std::vector<std::vector<int32_t>> keep((size_t)x.cells());
            size_t held = x.n(c), open = 0;

            for (size_t j = 0; j < held; j++)
                open += x.rank[x.off[(size_t)c] + j] < 2;
            if (open == 0) {
                CHECK_INT(got[(size_t)c], -1);
                continue;
            }
            reference(x, true, c, c + 1, held - 1, keep); /* who is missing? */
            keep[(size_t)c].push_back(got[(size_t)c]);
            std::sort(keep[(size_t)c].begin(), keep[(size_t)c].end());
            for (size_t j = 0; j < held; j++)
                CHECK_INT(keep[(size_t)c][j], j);
        }
    }
}

PARITY_MAIN
