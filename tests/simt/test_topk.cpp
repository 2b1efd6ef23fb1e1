/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_topk.cpp - selection on the device against the order of methods/rank.c: exact,
 * ties included, per KV head and over many of them. */
#include "kernels/cuda/topk.h"
#include "tests/simt/parity.h"

#include <algorithm>
extern "C" {
#include "methods/rank.h"
}

namespace
{

/* Cells of scores, of which the first lead and the last tail are protected. */
struct scores {
    std::vector<size_t> off = {0};
    std::vector<float> s;
    std::vector<int32_t> pos;
    std::vector<int> lead, tail;
    int cells() const
    {
        return (int)off.size() - 1;
    }
    int n(int c) const
    {
        return (int)(off[(size_t)c + 1] - off[(size_t)c]);
    }
    int rest(int c) const
    {
        return n(c) - lead[(size_t)c] - tail[(size_t)c];
    }
    void add(const std::vector<float> &v, int first, int last)
    {
        off.push_back(off.back() + v.size());
        s.insert(s.end(), v.begin(), v.end());
        for (size_t j = 0; j < v.size(); j++)
            pos.push_back((int32_t)j);
        lead.push_back(first);
        tail.push_back(last);
    }
};

float score(int values)
{
    int v = random_below(values);

    return v == 0   ? -0.0f
           : v == 1 ? NAN
           : v == 2 ? 0.0f
           : v == 3 ? -INFINITY
           : v == 4 ? INFINITY
                    : (float)(v - values / 2) * 0.37f;
}

/* Scores with heavy ties, both zeros, NaN and infinities; ascending positions, of each
 * cell from another one on. */
scores make(const std::vector<size_t> &n, int values, bool gaps = true)
{
    scores x;

    for (size_t m : n) {
        std::vector<float> v(m);
        int32_t at = random_below(40);

        for (float &s : v)
            s = score(values);
        int lead = random_below(3) ? random_below((int)m / 4 + 1) : 0;
        int tail = random_below(3) ? random_below((int)m / 4 + 1) : 0;
        x.add(v, lead, random_below(8) == 0 ? (int)m - lead : tail);
        for (size_t j = x.off[x.off.size() - 2]; j < x.off.back(); j++)
            x.pos[j] = at += gaps ? 1 + random_below(2) : 1;
    }
    return x;
}

uint64_t key(const scores &x, size_t at)
{
    return kva_rank_key(std::isnan(x.s[at]) ? -INFINITY : x.s[at], x.pos[at]);
}

/* What stays of a cell: indices, ascending. */
std::vector<int32_t> kept(const scores &x, int c, int b)
{
    size_t first = x.off[(size_t)c], lead = (size_t)x.lead[(size_t)c];
    std::vector<uint64_t> keys;
    std::vector<int32_t> keep;
    int m = b - x.n(c) + x.rest(c);

    for (int j = 0; j < x.rest(c); j++)
        keys.push_back(key(x, first + lead + (size_t)j));
    struct kva_cut cut = {UINT64_MAX, 0};
    if (m > 0)
        cut = kva_rank_cut(keys.data(), keys.size(), (size_t)m);
    for (int j = 0; j < x.n(c); j++) {
        bool open = j >= x.lead[(size_t)c] && j < x.n(c) - x.tail[(size_t)c];

        if (!open || (m > 0 && key(x, first + (size_t)j) >= cut.key))
            keep.push_back(j);
    }
    CHECK_INT(keep.size(), b);
    return keep;
}

/* The cells with how many of the rest stay. */
struct contest {
    std::vector<struct kva_dev_cell> cell;
    struct kva_dev_contest dev;
    contest(const scores &x, const std::vector<int> &want, bool positions)
    {
        size_t to = 0;

        dev = {x.s.data(), positions ? x.pos.data() : nullptr, nullptr, x.cells(), 0};
        for (int c = 0; c < x.cells(); c++) {
            int32_t first = x.n(c) > 0 ? x.pos[x.off[(size_t)c]] : 0;

            cell.push_back({x.off[(size_t)c], to, x.n(c), x.lead[(size_t)c], x.rest(c),
                            want[(size_t)c], first, 0});
            to += (size_t)(x.n(c) - x.rest(c) + std::min(want[(size_t)c], x.rest(c)));
            dev.most = std::max(dev.most, x.rest(c));
        }
        dev.cell = cell.data();
        total = to;
    }
    size_t total;
};

typedef void find_cut(const struct kva_dev_contest *, struct kva_dev_cut *, void *);

/* The lists of all cells, one behind the other; nothing is written behind them. */
std::vector<int32_t> lists(const scores &x, const std::vector<int> &want, find_cut *find,
                           bool positions = true)
{
    contest d(x, want, positions);
    std::vector<struct kva_dev_cut> cut((size_t)x.cells());
    std::vector<int32_t> slot(2 * d.total + 64, -1);

    find(&d.dev, cut.data(), NULL);
    kva_dev_topk_list(&d.dev, cut.data(), slot.data(), NULL);
    for (size_t i = d.total; i < slot.size(); i++)
        CHECK_INT(slot[i], -1);
    slot.resize(d.total);
    return slot;
}

std::vector<int32_t> wanted_lists(const scores &x, const std::vector<int> &want)
{
    std::vector<int32_t> all;

    for (int c = 0; c < x.cells(); c++) {
        auto one = kept(x, c, x.n(c) - x.rest(c) + std::min(want[(size_t)c], x.rest(c)));

        all.insert(all.end(), one.begin(), one.end());
    }
    return all;
}

/* Budgets of one ranking a group: how many of each cell's rest stay. want[g] 0: nothing
 * of group g competes. */
std::vector<uint32_t> budgets(const scores &x, const std::vector<int> &reserve,
                              const std::vector<uint32_t> &want, bool positions)
{
    contest d(x, reserve, positions);
    const size_t cells = (size_t)x.cells(), groups = want.size(), each = cells / groups;
    std::vector<struct kva_dev_cut> ahead(cells), state((KVA_SHARE_PASSES + 1) * groups);
    std::vector<uint32_t> counts(KVA_SHARE_COUNTS(cells, groups)), out;
    bool any = std::any_of(reserve.begin(), reserve.end(), [](int r) { return r > 0; });

    for (size_t c = 0; c < cells; c++)
        if (want[c / each] == 0)
            d.cell[c].rest = d.cell[c].want = 0;
    for (size_t g = 0; g < groups; g++)
        state[g] = want[g] > 0 ? kva_dev_cut{0, want[g], 0} : kva_dev_cut KVA_SHARE_NONE;
    if (any)
        kva_dev_topk_cut(&d.dev, ahead.data(), NULL);
    kva_dev_share(&d.dev, (int)groups, any ? ahead.data() : NULL, state.data(),
                  counts.data(), NULL);
    const uint32_t *got = counts.data() + KVA_SHARE_ABOVE(groups);
    for (size_t g = 0; g < groups; g++) {
        uint32_t left = got[2 * cells + g];

        for (size_t c = g * each; c < (g + 1) * each; c++) {
            uint32_t level = std::min(left, got[cells + c]);

            out.push_back((uint32_t)std::min(d.cell[c].want, d.cell[c].rest) + got[c] +
                          level);
            left -= level;
        }
    }
    return out;
}

/* Of the group's cells c0 .. c1 - 1. */
std::vector<uint32_t> wanted_budgets(const scores &x, const std::vector<int> &reserve,
                                     uint32_t want, int c0, int c1)
{
    struct entry {
        uint64_t key;
        int cell;
    };
    std::vector<entry> all;
    std::vector<uint32_t> b((size_t)(c1 - c0));

    for (int c = c0; c < c1 && want > 0; c++) {
        std::vector<uint64_t> keys;
        size_t ahead = (size_t)std::min(reserve[(size_t)c], x.rest(c));

        for (int j = 0; j < x.rest(c); j++)
            keys.push_back(key(x, x.off[(size_t)c] + (size_t)(x.lead[(size_t)c] + j)));
        std::sort(keys.rbegin(), keys.rend());
        b[(size_t)(c - c0)] = (uint32_t)ahead;
        for (size_t i = ahead; i < keys.size(); i++)
            all.push_back({keys[i], c - c0});
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const entry &a, const entry &e) { return a.key > e.key; });
    CHECK(want <= all.size());
    for (uint32_t i = 0; i < want; i++)
        b[(size_t)all[i].cell]++;
    return b;
}

std::vector<uint32_t> wanted_budgets(const scores &x, const std::vector<int> &reserve,
                                     uint32_t want)
{
    return wanted_budgets(x, reserve, want, 0, x.cells());
}

uint32_t open_entries(const scores &x, const std::vector<int> &reserve)
{
    uint32_t n = 0;

    for (int c = 0; c < x.cells(); c++)
        n += (uint32_t)(x.rest(c) - std::min(reserve[(size_t)c], x.rest(c)));
    return n;
}

} // namespace

/* kernels.md 3.4f */
TEST(worked_selection)
{
    scores x;
    auto best = [&](int m) {
        return in_orders([&] { return lists(x, {m}, kva_dev_topk_cut); });
    };

    x.add({3, 1, 3, 2, 3}, 0, 0);
    CHECK(best(2) == (std::vector<int32_t>{2, 4}));
    CHECK(best(5) == (std::vector<int32_t>{0, 1, 2, 3, 4}));
    CHECK(best(9) == (std::vector<int32_t>{0, 1, 2, 3, 4}));
    CHECK(best(0).empty());
    x.lead[0] = 2;
    CHECK(best(1) == (std::vector<int32_t>{0, 1, 4}));
    x.tail[0] = 1;
    CHECK(best(1) == (std::vector<int32_t>{0, 1, 2, 4}));
    CHECK(best(0) == (std::vector<int32_t>{0, 1, 4}));
}

TEST(each_cell_keeps_what_the_methods_order_says)
{
    const std::vector<size_t> cells = {1, 31, 0, 32, 33, 257, 2500, 64};

    for (int values : {1, 8, 40, 100000})
        for (int round = 0; round < 3; round++) {
            scores x = make(cells, values);
            std::vector<int> want;

            for (int c = 0; c < x.cells(); c++)
                want.push_back(round == 2 ? x.rest(c) - (x.rest(c) > 0)
                                          : random_below(x.rest(c) + 3));
            CHECK(in_orders([&] { return lists(x, want, kva_dev_topk_cut); }) ==
                  wanted_lists(x, want));
        }
}

/* kernels.md 3.4g */
TEST(the_victim_is_the_least_and_the_oldest_of_equals)
{
    const std::vector<size_t> cells = {1, 31, 0, 32, 700, 3, 513, 64};

    for (int values : {1, 8, 100000}) {
        scores x = make(cells, values);
        std::vector<int> want;

        for (int c = 0; c < x.cells(); c++)
            want.push_back(x.rest(c) - (c % 3 != 2 && x.rest(c) > 0));
        CHECK(in_orders([&] { return lists(x, want, kva_dev_topk_victim); }) ==
              wanted_lists(x, want));
    }
}

/* One ranking over all cells, blocks of which share the work. */
TEST(one_ranking_gives_the_budgets_of_the_methods_order)
{
    const std::vector<size_t> cells = {40, 1, 9000, 33, 0, 64, 300, 17000};

    for (int values : {1, 7, 30, 100000})
        for (int round = 0; round < 4; round++) {
            scores x = make(cells, values, round % 2 == 0);
            std::vector<int> reserve(cells.size());

            for (int c = 0; round > 0 && c < x.cells(); c++)
                reserve[(size_t)c] =
                    round == 3 ? x.n(c) + 7 : random_below(x.rest(c) / 4 + 1);
            if (round == 3) /* two cells compete, of the others all stay */
                reserve[1] = reserve[2] = 0;
            uint32_t open = open_entries(x, reserve);
            if (open < 2)
                continue;
            uint32_t want = 1 + (uint32_t)random_below((int)open - 1);

            CHECK(in_orders([&] {
                      return budgets(x, reserve, {want}, round % 2 == 0);
                  }) == wanted_budgets(x, reserve, want));
        }
}

/* A ranking of each group, some of which nobody asks for; parts of a cell in several
 * blocks. */
TEST(groups_are_ranked_apart)
{
    const std::vector<size_t> cells = {40, 9000, 33, 0, 64, 300, 8193, 1, 5, 31, 700, 2};

    for (int groups : {1, 2, 3, 4, 6, 12})
        for (int round = 0; round < 2; round++) {
            scores x = make(cells, round ? 9 : 100000, round == 0);
            const int each = x.cells() / groups;
            std::vector<int> reserve(cells.size());
            std::vector<uint32_t> want, all;

            for (int c = 0; round > 0 && c < x.cells(); c++)
                reserve[(size_t)c] = random_below(x.rest(c) / 4 + 1);
            for (int g = 0; g < groups; g++) {
                uint32_t open = 0;

                for (int c = g * each; c < (g + 1) * each; c++)
                    open +=
                        (uint32_t)(x.rest(c) - std::min(reserve[(size_t)c], x.rest(c)));
                want.push_back(open < 2 || (groups > 2 && g == 1)
                                   ? 0
                                   : 1 + (uint32_t)random_below((int)open - 1));
                auto one =
                    wanted_budgets(x, reserve, want.back(), g * each, (g + 1) * each);
                all.insert(all.end(), one.begin(), one.end());
            }
            CHECK(in_orders([&] { return budgets(x, reserve, want, round == 0); }) ==
                  all);
        }
}

/* Of entries equal in score and position the lower cells' stay. */
TEST(cells_tie_in_ascending_order)
{
    scores x;
    std::vector<int> none(4);

    for (int c = 0; c < 4; c++)
        x.add({2, 1, 2, 1}, 0, 0);
    for (bool positions : {true, false}) {
        auto got = [&](uint32_t want) {
            return in_orders([&] { return budgets(x, none, {want}, positions); });
        };

        CHECK(got(2) == (std::vector<uint32_t>{1, 1, 0, 0}));
        CHECK(got(5) == (std::vector<uint32_t>{2, 1, 1, 1}));
        CHECK(got(11) == (std::vector<uint32_t>{3, 3, 3, 2}));
        CHECK(got(15) == (std::vector<uint32_t>{4, 4, 4, 3}));
    }
    x.tail[0] = 2; /* the first cell's best of the rest is older now */
    CHECK(budgets(x, none, {3}, true) == (std::vector<uint32_t>{0, 1, 1, 1}));
    CHECK(budgets(x, none, {4}, true) == (std::vector<uint32_t>{1, 1, 1, 1}));
}

/* Those budgets are what the methods give the KV heads of a flat ranking. */
TEST(a_ranking_gives_the_budgets_of_the_methods)
{
    for (int round = 0; round < 8; round++) {
        const std::vector<size_t> cells = {50, 90, 31, 64};
        scores x = make(cells, round < 4 ? 12 : 100000, false);
        std::vector<int> reserve(cells.size()), b(cells.size());
        struct kva_scores sc = {};
        int32_t newest = *std::max_element(x.pos.begin(), x.pos.end());
        uint64_t total = 0;

        sc.layers = 1;
        sc.kv_heads = (int)cells.size();
        sc.off = x.off.data();
        sc.s = x.s.data();
        sc.pos = x.pos.data();
        sc.protect.sinks = round % 2 ? 4 : 0;
        sc.protect.recent = round % 3 ? 40 : 0;
        for (float &s : x.s) /* as kva_method_score leaves them */
            s = std::isfinite(s) ? s : -INFINITY;
        for (int c = 0; c < x.cells(); c++) {
            kva_rank_protected(&sc, c, newest, &x.lead[(size_t)c], &x.tail[(size_t)c]);
            reserve[(size_t)c] = round % 4 < 2 ? 0 : random_below(20);
            total +=
                (uint64_t)(x.n(c) - x.rest(c) + std::min(reserve[(size_t)c], x.rest(c)));
        }
        uint32_t want = 1 + (uint32_t)random_below((int)open_entries(x, reserve) - 1);
        total += want;
        CHECK_OK(
            kva_rank_flat(&sc, 1, &total, reserve.data(), KVA_NORM_NONE, b.data(), err));
        auto got = budgets(x, reserve, {want}, round % 2);
        for (int c = 0; c < x.cells(); c++)
            CHECK_INT(x.n(c) - x.rest(c) + (int)got[(size_t)c], b[(size_t)c]);
    }
}

PARITY_MAIN
