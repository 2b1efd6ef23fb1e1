# SPDX-License-Identifier: GPL-3.0-or-later
"""Statistics as scipy and statsmodels compute them, for tests/metrics/test_stats_outside.c.

    python -m venv /tmp/v && /tmp/v/bin/pip install scipy==1.17.1 statsmodels==0.15.0
    /tmp/v/bin/python tests/oracle/stats/make.py > tests/oracle/stats/stats.jsonl

A line: {"kind": ..., inputs ..., "want": number or list}. The first one holds the versions. The
Pareto front and the sign flip have no function in either package: the front is counted by the
definition (nobody is at least as good in both and better in one), the sign flip by
scipy.stats.permutation_test(permutation_type="samples"), which is exact below its n_resamples.
"""
import json
import platform

import numpy as np
import scipy
import scipy.stats as st
import statsmodels
import statsmodels.api as sm
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

RNG = np.random.default_rng(20260801)
BIG = 200_000  # resamples of the references that can only be approached


def put(kind, want, **given):
    def plain(x):
        if isinstance(x, (np.ndarray, list, tuple)):
            return [plain(v) for v in x]
        if isinstance(x, (np.floating, float)):
            return float(x)
        return int(x) if isinstance(x, (np.integer, int)) else x

    print(json.dumps({"kind": kind, **{k: plain(v) for k, v in given.items()},
                      "want": plain(want)}))


def rounded(x, digits):
    return np.round(x, digits) + 0.0  # no minus zero


def proportions():
    for k, n in ((0, 1), (1, 1), (0, 20), (1, 20), (10, 20), (19, 20), (20, 20), (3, 7), (50, 200),
                 (199, 200), (500, 500), (12.5, 20), (977, 1300)):
        put("wilson", proportion_confint(k, n, alpha=0.05, method="wilson"), k=k, n=n)
    for b, c in ((0, 0), (1, 0), (5, 0), (6, 0), (9, 2), (2, 9), (7, 7), (88, 2), (93, 22), (30, 45),
                 (250, 210), (1000, 900)):
        exact = mcnemar([[0, b], [c, 0]], exact=True).pvalue if b + c else 1.0
        put("mcnemar", exact, b=b, c=c)
        # mid-p: the observed table counts half on both sides (Fagerland et al. 2013)
        n, k = b + c, min(b, c)
        mid = min(1.0, 2 * st.binom.cdf(k, n, 0.5) - st.binom.pmf(k, n, 0.5)) if n else 1.0
        put("mcnemar_mid", mid, b=b, c=c)
        put("signtest", st.binomtest(b, b + c, 0.5).pvalue if b + c else 1.0, wins=b, losses=c)


def means():
    for n in (2, 3, 8, 20, 57, 200):
        x = rounded(RNG.beta(0.7, 0.5, n), 4)
        r = st.ttest_1samp(x, 0).confidence_interval(0.95)
        put("t", [r.low, r.high], x=x)
        y = rounded(RNG.beta(1.5, 1.0, n + 3), 4)
        r = st.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
        put("welch", [r.low, r.high], x=x, y=y)


def clusters():
    """A mean difference over contexts with several questions: least squares on a constant with
    cluster-robust covariance. The suite interval has no function anywhere: its formula
    (metrics/stats_basic.c) is written a second time, on numpy and scipy."""
    for contexts in (4, 9, 30):
        which = np.sort(RNG.integers(0, contexts, 3 * contexts))
        d = rounded(RNG.normal(0, 0.2, contexts)[which] + RNG.normal(0.1, 0.2, which.size), 5)
        fit = sm.OLS(d, np.ones_like(d)).fit(cov_type="cluster", use_t=True,
                                             cov_kwds={"groups": which})
        put("linear_clusters", fit.conf_int(0.05)[0], d=d, cluster=which)
    for sizes in ([20], [8, 30], [50, 20, 7]):
        x = [rounded(RNG.beta(0.8, 0.4, n), 4) for n in sizes]
        which = [np.sort(RNG.integers(0, max(3, n // 3), n)) for n in sizes]
        put("suite", effective_wilson(x, which), x=x, cluster=which)
        put("suite", effective_wilson(x, [np.arange(n) for n in sizes]), x=x)


def effective_wilson(x, which, w=0.1):
    v, df = [], []
    for xs, ids in zip(x, which):
        n, m, names = len(xs), xs.mean(), np.unique(ids)
        c = len(names)
        off = np.array([(xs[ids == k] - m).sum() for k in names])
        v.append(c / (c - 1 + 2 * w) * ((off ** 2).sum() + w * (n / c) ** 2
                                        * (m ** 2 + (1 - m) ** 2)) / n ** 2)
        df.append(c - 1)
    v, df = np.array(v), np.array(df)
    a = np.mean([xs.mean() for xs in x])
    n = a * (1 - a) / (v.sum() / len(x) ** 2)
    z = st.t.ppf(0.975, v.sum() ** 2 / (v ** 2 / df).sum())
    mid = (a + z * z / (2 * n)) / (1 + z * z / n)
    half = z * (a * (1 - a) / n + z * z / (4 * n * n)) ** 0.5 / (1 + z * z / n)
    return [mid - half, mid + half]


def wilcoxon():
    put("wilcoxon", st.wilcoxon([3, -1, 2, 5, -2, 4, 4, 1, 6], method=exact_signed(
        [3, -1, 2, 5, -2, 4, 4, 1, 6])).pvalue, d=[3, -1, 2, 0, 5, -2, 4, 4, 1, 6])
    for n in (5, 9, 14):  # without ties scipy's table is exact
        d = rounded(RNG.normal(0.4, 1, n), 6)
        put("wilcoxon", st.wilcoxon(d, method="exact").pvalue, d=d)
    for n in (6, 12, 17):  # ties: every sign pattern
        d = rounded(RNG.normal(0.5, 1, n), 0)
        put("wilcoxon", st.wilcoxon(d[d != 0], method=exact_signed(d)).pvalue, d=d)
    for n in (60, 140):
        d = rounded(RNG.normal(0.2, 1, n), 6)
        put("wilcoxon", st.wilcoxon(d, method="approx", correction=True).pvalue, d=d)
        d = rounded(RNG.normal(0.2, 2, n), 0)
        put("wilcoxon", st.wilcoxon(d, zero_method="wilcox", method="approx",
                                    correction=True).pvalue, d=d)


def exact_signed(d):
    """All sign patterns of the nonzero differences: exact with ties too."""
    n = int(np.count_nonzero(d))
    return st.PermutationMethod(n_resamples=2 ** n)


def mann_whitney():
    for na, nb in ((3, 3), (4, 4), (5, 5), (6, 6), (7, 12), (15, 20)):
        a, b = rounded(RNG.normal(0, 1, na), 6), rounded(RNG.normal(0.8, 1, nb), 6)
        put("mannwhitney", st.mannwhitneyu(a, b, method="exact").pvalue, a=a, b=b)
    for na, nb in ((4, 5), (6, 7), (8, 8)):  # ties: every assignment
        a, b = RNG.integers(0, 5, na), RNG.integers(1, 6, nb)
        put("mannwhitney", st.mannwhitneyu(a, b, method=st.PermutationMethod(
            n_resamples=10 ** 6)).pvalue, a=a, b=b)
    for na, nb in ((30, 40), (80, 25)):
        a, b = RNG.integers(0, 12, na), RNG.integers(1, 13, nb)
        put("mannwhitney", st.mannwhitneyu(a, b, method="asymptotic",
                                           use_continuity=True).pvalue, a=a, b=b)


def sign_flips():
    def mean(x, axis):
        return np.mean(x, axis=axis)

    for n in (5, 10, 14, 18):
        d = rounded(RNG.choice([0, 0.25, -0.25, 0.5, 1, -1, 0.75], n), 2)
        r = st.permutation_test((d,), mean, permutation_type="samples", n_resamples=np.inf,
                                vectorized=True)
        put("signflip", r.pvalue, d=d)
    d = rounded(RNG.normal(0.25, 1, 60), 4)  # approached: want and its standard error
    r = st.permutation_test((d,), mean, permutation_type="samples", n_resamples=BIG,
                            vectorized=True, batch=2000, rng=np.random.default_rng(1))
    put("signflip_mc", r.pvalue, d=d, se=(r.pvalue * (1 - r.pvalue) / BIG) ** 0.5)


def many():
    for p in ([.001, .008, .039, .041, .042, .06, .074, .205], [0.5], [0.04, 0.04, 0.04],
              rounded(RNG.uniform(0, 1, 40) ** 3, 9)):
        put("bh", multipletests(p, method="fdr_bh")[1], p=p)
        put("holm", multipletests(p, method="holm")[1], p=p)


def bootstraps():
    """Percentile intervals of a ratio and a difference of means, paired."""
    for n, sharp in ((40, 2.0), (120, 0.6)):
        dense = rounded(np.clip(RNG.beta(4 * sharp, sharp, n), 0, 1), 3)
        method = rounded(np.clip(dense - RNG.beta(1, 5, n), 0, 1), 3)
        for name, f in (("ratio", lambda x, y, axis: x.mean(axis) / y.mean(axis)),
                        ("diff", lambda x, y, axis: x.mean(axis) - y.mean(axis))):
            r = st.bootstrap((method, dense), f, paired=True, vectorized=True, batch=2000,
                             n_resamples=BIG, method="percentile",
                             rng=np.random.default_rng(2))
            put("boot_" + name, [r.confidence_interval.low, r.confidence_interval.high],
                a=method, b=dense, se=r.standard_error)


def power():
    """Samples for a paired difference in proportions, normal approximation: the sample size of
    statsmodels' NormalIndPower for one sample of standard deviation sqrt(pi - d^2)."""
    solver = sm.stats.NormalIndPower(ddof=0)
    for pi in (0.05, 0.1, 0.2):
        for effect in (0.01, 0.02, 0.03, 0.05):
            size = effect / (pi - effect ** 2) ** 0.5
            n = solver.solve_power(effect_size=size, alpha=0.05, power=0.8, ratio=0,
                                   alternative="two-sided")
            put("required_n", n, effect=effect, discordant=pi)


def effects():
    """The smallest visible difference: means of 8 draws a problem, F1-like scores, four questions a
    context (its mean is the unit)."""
    solver = sm.stats.NormalIndPower(ddof=0)
    draws = [RNG.binomial(8, RNG.beta(0.5, 0.5, 100)) / 8 for _ in range(2)]
    dense = rounded(RNG.beta(3, 2, 60), 4)
    f1 = [rounded(np.clip(dense + RNG.normal(0, 0.05, 60), 0, 1), 4), dense]
    ids = RNG.permutation(np.repeat(np.arange(30), 4))
    some = [(RNG.uniform(0, 1, 120) < RNG.beta(2, 2, 30)[ids]) * 1.0 for _ in range(2)]
    for (a, b), which in ((draws, None), (f1, None), (some, ids)):
        d = a - b
        if which is not None:
            d = np.array([d[which == k].mean() for k in np.unique(which)])
        size = solver.solve_power(nobs1=len(d), alpha=0.05, power=0.8, ratio=0,
                                  alternative="two-sided")
        put("mde", size * d.std(ddof=1), a=a, b=b, **({} if which is None else {"cluster": which}))


def fronts():
    for x, y in (([100, 50, 50, 25, 30, 100], [90, 85, 80, 60, 58, 90]),
                 (RNG.integers(1, 20, 40), RNG.integers(1, 20, 40))):
        x, y = np.asarray(x), np.asarray(y)
        worse = [bool(np.any((x <= x[i]) & (y >= y[i]) & ((x < x[i]) | (y > y[i]))))
                 for i in range(len(x))]
        put("pareto", [int(not w) for w in worse], x=x, y=y)


if __name__ == "__main__":
    print(json.dumps({"kind": "versions", "python": platform.python_version(),
                      "numpy": np.__version__, "scipy": scipy.__version__,
                      "statsmodels": statsmodels.__version__}))
    proportions()
    means()
    wilcoxon()
    mann_whitney()
    sign_flips()
    many()
    bootstraps()
    power()
    fronts()
    clusters()
    effects()
