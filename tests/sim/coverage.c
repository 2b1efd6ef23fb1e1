/* SPDX-License-Identifier: GPL-3.0-or-later */
/* coverage.c - how often the 95 % intervals hold the truth and how often a "win" is
 * chance, over drawn scores (sim.h). Prints metrics/coverage.md: `make simulate`.
 *
 *   coverage [TRIALS]   of a single arm (default 4000); pairs and tests take a quarter */
#include "tests/sim/sim.h"

#include <stdio.h>

enum { REPLICATES = 600, SEED = 20260801 };

struct average {
    double sum, min, at;
    int n;
};

static void add(struct average *a, double v, double p)
{
    if (a->n == 0 || v < a->min) {
        a->min = v;
        a->at = p;
    }
    a->sum += v;
    a->n++;
}

static void show(const struct average *a)
{
    printf(" %.1f (%.1f at %.2f) |", 100 * a->sum / a->n, 100 * a->min, a->at);
}

static const int sizes[] = {20, 50, 200};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static void single_arms(int trials)
{
    printf("\n## One arm, one task\n\n| scores | n = 20 | n = 50 | n = 200 |\n"
           "|---|---|---|---|\n");
    for (int s = 0; s < SIM_SHAPES; s++) {
        printf("| %s |", sim_names[s]);
        for (int k = 0; k < N_SIZES; k++) {
            struct average a = {0};

            for (int p = 5; p <= 95; p += 5) {
                struct sim_case c = {s, 1, sizes[k], 1, p / 100.0, SIM_LOWER, SIM_KEEP};

                add(&a, sim_run(&c, trials, 1, false, false, SEED + (uint32_t)p).single,
                    c.p);
            }
            show(&a);
        }
        printf("\n");
    }
    (void)fflush(stdout);
}

/* One line a shape and size: single arm (suites and clusters), ratio, difference. */
static void pairs(const char *title, int tasks, int questions, double keep, int trials)
{
    printf("\n## %s\n\n| scores | n | %sratio | difference |\n|---|---|%s---|---|\n",
           title, tasks * questions > 1 ? "one arm | " : "",
           tasks * questions > 1 ? "---|" : "");
    for (int s = 0; s < SIM_SHAPES; s++)
        for (int k = 0; k < N_SIZES; k++) {
            struct average one = {0}, ratio = {0}, diff = {0};

            for (int p = 5; p <= 95; p += 10) {
                struct sim_case c = {s,         tasks,     sizes[k], questions,
                                     p / 100.0, SIM_LOWER, keep};
                struct sim_result r =
                    sim_run(&c, trials, REPLICATES, true, false, SEED + (uint32_t)p);

                add(&one, r.single, c.p);
                if (r.defined >= 0.99 * trials)
                    add(&ratio, r.ratio, c.p);
                add(&diff, r.diff, c.p);
            }
            printf("| %s | %d |", sim_names[s], sizes[k]);
            if (tasks * questions > 1)
                show(&one);
            show(&ratio);
            show(&diff);
            printf("\n");
            (void)fflush(stdout);
        }
}

static void nats(int trials)
{
    printf("\n## Nats retention: gains over the blind run, true value 0.80\n\n"
           "| tasks | n = 20 | n = 50 | n = 200 |\n|---|---|---|---|\n");
    for (int tasks = 1; tasks <= SIM_MAX_TASKS; tasks += 4) {
        printf("| %d |", tasks);
        for (int k = 0; k < N_SIZES; k++)
            printf(" %.1f |", 100 * sim_nats(tasks, sizes[k], trials, REPLICATES, SEED));
        printf("\n");
    }
    (void)fflush(stdout);
}

static void false_wins(int trials)
{
    static const struct {
        const char *name;
        int tasks, questions;
    } kinds[] = {{"one task", 1, 1}, {"5 tasks", 5, 1}, {"4 questions a context", 1, 4}};

    printf("\n## Chance differences called significant at 0.05, equal arms\n\n"
           "| scores | n |");
    for (size_t m = 0; m < 3; m++)
        printf(" %s |", kinds[m].name);
    printf(" tables of 8 equal methods with any loser |\n|---|---|---|---|---|---|\n");
    for (int s = 0; s < SIM_SHAPES; s++)
        for (int k = 0; k < N_SIZES; k++) {
            printf("| %s | %d |", sim_names[s], sizes[k]);
            for (size_t m = 0; m < 3; m++) {
                struct average a = {0};

                for (int p = 15; p <= 95; p += 20) {
                    struct sim_case c = {
                        s, kinds[m].tasks, sizes[k], kinds[m].questions, p / 100.0,
                        1, SIM_KEEP};

                    add(&a,
                        sim_run(&c, trials, REPLICATES, false, true, SEED + (uint32_t)p)
                            .p_below,
                        c.p);
                }
                printf(" %.1f |", 100 * a.sum / a.n);
            }
            printf(" %.1f |\n",
                   100 * sim_ranks(s, sizes[k], trials / 4, REPLICATES, SEED));
            (void)fflush(stdout);
        }
}

/* Differences as large as a table calls visible. */
static void powers(int trials)
{
    static const struct {
        int tasks, questions;
        bool together;
    } kinds[] = {{1, 1, false}, {5, 1, false}, {1, 4, false}, {1, 4, true}};

    printf(
        "\n## Differences of the smallest visible size that are found\n\n"
        "Power in %%, 80 is promised; in brackets the size that a trial's data call "
        "visible over the true one, on average. p = 0.6, half of the scores drawn anew. "
        "McNemar's exact test needs more than the normal approximation says where few "
        "samples are right or wrong.\n\n"
        "Reports measure the spread over contexts (`kva_boot.mde`). Plans know only the "
        "share of questions that differ; they count contexts, as if the questions of one "
        "moved together (last column), which is never too small: the square of a mean is "
        "at most the mean of the squares.\n\n"
        "| scores | n | one task | 5 tasks | n contexts of 4 questions | the same, "
        "planned |\n|---|---|---|---|---|---|\n");
    for (int s = 0; s < SIM_SHAPES; s++)
        for (int k = 0; k < N_SIZES; k++) {
            printf("| %s | %d |", sim_names[s], sizes[k]);
            for (size_t m = 0; m < sizeof kinds / sizeof kinds[0]; m++) {
                struct sim_case c = {
                    s, kinds[m].tasks, sizes[k], kinds[m].questions, 0.6, 1, 0.5};
                struct sim_power r =
                    sim_power(&c, kinds[m].together, trials, REPLICATES, SEED);

                if (isnan(r.found))
                    printf(" |");
                else if (kinds[m].together)
                    printf(" %.1f |", 100 * r.found);
                else
                    printf(" %.1f (%.2f) |", 100 * r.found, r.mde);
            }
            printf("\n");
            (void)fflush(stdout);
        }
}

int main(int argc, char **argv)
{
    int64_t trials = 4000;

    if (argc > 1 &&
        (!kva_parse_i64(argv[1], &trials) || trials < 100 || trials > 1000000))
        return 2;
    printf(
        "# What the intervals and tests hold\n\n"
        "Made by `make simulate` (tests/sim/coverage.c): %d trials for one arm, %d for "
        "pairs and tests, %d bootstrap replicates or flips, seed %d. Coverage in %% of "
        "95 %% intervals: average over the true mean p, in brackets the least and its "
        "p. p runs from 0.05 to 0.95, for one arm in steps of 0.05, else of 0.10. A "
        "share of 95 %% in %d trials has a standard error of %.1f, an average a third "
        "of it or less.\n\n"
        "Scores: binary; quarters (four values asked for); ridge Beta(6p, 6(1-p)); "
        "bathtub Beta(p/2, (1-p)/2); spiked: half of the samples all or nothing, the "
        "others ridge. A second arm keeps a sample's score or draws it anew from mean "
        "0.8 p. A ratio is not defined for a dense score under 0.05: p counts for it "
        "where "
        "99 %% of the trials have one.\n\n"
        "20 right-or-wrong samples of close arms differ in one or two samples or in "
        "none. An interval that holds the truth then must be wide, so these hold it "
        "more often than 95 %%.\n",
        (int)trials, (int)trials / 4, REPLICATES, SEED, (int)trials / 4,
        100 * sqrt(0.95 * 0.05 / ((double)trials / 4)));
    single_arms((int)trials);
    pairs("Two arms, one task, 30 % of the scores drawn anew (true ratio 0.94)", 1, 1,
          SIM_KEEP, (int)trials / 4);
    pairs("Two arms, one task, all scores drawn anew (true ratio 0.80)", 1, 1, 0,
          (int)trials / 4);
    pairs("Suite of 5 tasks, n samples each", 5, 1, SIM_KEEP, (int)trials / 4);
    pairs("One task, n contexts of 4 questions", 1, 4, SIM_KEEP, (int)trials / 4);
    nats((int)trials / 4);
    false_wins((int)trials / 4);
    powers((int)trials / 4);
    return 0;
}
