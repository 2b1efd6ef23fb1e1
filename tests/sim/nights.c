/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nights.c - prints reports/nights.md: how often the nightly gate fails on nothing, and
 * how often it finds the smallest drop it claims to find. `make simulate` writes the
 * table. */
#include "nights.h"

int main(void)
{
    static const int sizes[] = {100, 200, 500};
    static const double shares[] = {0.05, 0.1, 0.2};
    int comparisons = CELLS + METHODS;

    printf(
        "# Simulated nights\n\n"
        "Made by `make simulate` (tests/sim/nights.c, seeds 1 and up). A night: %d tasks "
        "x %d methods and their\nsuites, %d comparisons of scores, %d times of %d "
        "repetitions that scatter by 3 %%, all three gates.\n\n"
        "Nothing changed but noise:\n\n"
        "| samples a cell | samples that differ | nights | nights with a failing gate |\n"
        "|---:|---:|---:|---:|\n",
        TASKS, METHODS, comparisons, CELLS, REPS);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            int nights = i == 1 && k == 1 ? 1000 : 100;
            struct nights_count c = nights_run(nights, sizes[i], shares[k], 0, 1);

            printf("| %d | %.0f %% | %d | %d |\n", sizes[i], 100 * shares[k], nights,
                   c.failing);
            (void)fflush(stdout);
        }
    printf(
        "\nOne cell loses the smallest drop that the gate finds with probability 0.8 at "
        "its own adjusted level\n(`kva_regress_mde`: one-sided exact McNemar at 0.05 / "
        "%d), 1,000 nights each:\n\n"
        "| samples a cell | samples that differ | smallest drop, points | found |\n"
        "|---:|---:|---:|---:|\n",
        comparisons);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            double mde = kva_regress_mde(sizes[i], shares[k], 0.05, comparisons);
            struct nights_count c;

            if (isnan(mde)) {
                printf("| %d | %.0f %% | none | - |\n", sizes[i], 100 * shares[k]);
                continue;
            }
            c = nights_run(1000, sizes[i], shares[k], mde, (uint64_t)(2 + 3 * i + k));
            printf("| %d | %.0f %% | %.1f | %.1f %% |\n", sizes[i], 100 * shares[k],
                   100 * mde, (double)c.found / 10);
            (void)fflush(stdout);
        }
    return 0;
}
