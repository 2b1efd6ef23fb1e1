/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_shard.c - who measures what: the worked example, random plans, real plans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "runner/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t lcg = 42;

static uint32_t rnd(uint32_t n)
{
    lcg = lcg * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(lcg >> 33) % n;
}

static void worked_example_of_the_document(void **state)
{
    static const double cost[6] = {9, 7, 6, 5, 4, 3};
    static const int want[6] = {0, 1, 2, 2, 1, 0}; /* {9,3} {7,4} {6,5} */
    struct kva_shard_item items[6];

    (void)state;
    memset(items, 0, sizeof items);
    for (int i = 0; i < 6; i++) {
        items[i].idx = i;
        items[i].cost = cost[i];
    }
    assert_int_equal(kva_shard_assign(items, 6, 3, KVA_BALANCE_COST, NULL), KVA_OK);
    for (int i = 0; i < 6; i++)
        assert_int_equal(items[i].shard, want[i]);
}

static void equal_costs_go_by_key_and_ties_to_the_lowest_shard(void **state)
{
    struct kva_shard_item items[4];

    (void)state;
    memset(items, 0, sizeof items);
    items[0].model[0] = 2; /* last */
    items[1].task[31] = 1; /* third */
    items[2].idx = 7;      /* second */
    for (int i = 0; i < 4; i++)
        items[i].cost = 5;
    assert_int_equal(kva_shard_assign(items, 4, 3, KVA_BALANCE_COST, NULL), KVA_OK);
    assert_int_equal(items[3].shard, 0);
    assert_int_equal(items[2].shard, 1);
    assert_int_equal(items[1].shard, 2);
    assert_int_equal(items[0].shard, 0);
    assert_int_equal(kva_shard_assign(items, 4, 2, KVA_BALANCE_MOD, NULL), KVA_OK);
    assert_int_equal(items[3].shard, 0);
    assert_int_equal(items[2].shard, 1);
    assert_int_equal(items[1].shard, 0);
    assert_int_equal(items[0].shard, 1);
}

static void cost_is_the_formula_of_the_document(void **state)
{
    (void)state;
    assert_true(kva_shard_cost(3, 32768, 128) == 3 * (65536.0 + 5120));
    assert_true(kva_shard_cost(1, 4096, 0) == 4096 * 1.125);
}

/* No shard is above the mean by more than the last item it was given. */
static void random_plans_balance_and_do_not_depend_on_order(void **state)
{
    (void)state;
    for (int trial = 0; trial < 40; trial++) {
        size_t m = rnd(200);
        struct kva_shard_item *a = kva_calloc(m + 1, sizeof *a),
                              *b = kva_calloc(m + 1, sizeof *b);

        assert_non_null(a);
        assert_non_null(b);
        for (size_t i = 0; i < m; i++) {
            a[i].model[0] = (uint8_t)rnd(2);
            a[i].task[0] = (uint8_t)rnd(4);
            a[i].idx = (int)i;
            a[i].cost = 1 + rnd(6) * 100;
        }
        for (int n = 1; n <= 16; n++) {
            double load[16] = {0}, sum = 0, most = 0, largest = 0;

            memcpy(b, a, m * sizeof *a);
            for (size_t i = m; i > 1; i--) { /* shuffled */
                size_t j = rnd((uint32_t)i);
                struct kva_shard_item t = b[i - 1];

                b[i - 1] = b[j];
                b[j] = t;
            }
            assert_int_equal(kva_shard_assign(a, m, n, KVA_BALANCE_COST, NULL), KVA_OK);
            assert_int_equal(kva_shard_assign(b, m, n, KVA_BALANCE_COST, NULL), KVA_OK);
            for (size_t i = 0; i < m; i++) {
                assert_in_range(b[i].shard, 0, n - 1);
                assert_int_equal(b[i].shard, a[b[i].idx].shard);
                load[b[i].shard] += b[i].cost;
                sum += b[i].cost;
                largest = b[i].cost > largest ? b[i].cost : largest;
            }
            for (int s = 0; s < n; s++)
                most = load[s] > most ? load[s] : most;
            assert_true(most <= sum / n + largest);
        }
        free(a);
        free(b);
    }
}

static void words_of_the_command_line(void **state)
{
    static const struct {
        const char *text, *why;
    } bad[] = {{"3", "wants I/N"},       {"", "wants I/N"},
               {"a/2", "wants I/N"},     {"1/2/3", "wants I/N"},
               {"1/", "wants I/N"},      {"/2", "wants I/N"},
               {"0/0", "N is 1 to"},     {"0/-3", "N is 1 to"},
               {"0/10001", "N is 1 to"}, {"4/4", "the last of 4"},
               {"-1/4", "count from 0"}, {"00000000000000000001/2", "wants I/N"}};
    struct kva_shard s = {0};
    enum kva_balance b;
    struct kva_error err;

    (void)state;
    assert_int_equal(kva_shard_parse("3/7", &s, NULL), KVA_OK);
    assert_int_equal(s.i, 3);
    assert_int_equal(s.n, 7);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memset(&err, 0, sizeof err);
        assert_int_equal(kva_shard_parse(bad[i].text, &s, &err), KVA_EINVALID);
        if (strstr(err.text, bad[i].why) == NULL)
            fail_msg("%s: %s", bad[i].text, err.text);
    }
    assert_int_equal(kva_balance_parse(NULL, &b, NULL), KVA_OK);
    assert_int_equal(b, KVA_BALANCE_COST);
    assert_int_equal(kva_balance_parse("mod", &b, NULL), KVA_OK);
    assert_int_equal(b, KVA_BALANCE_MOD);
    assert_int_equal(kva_balance_parse("Cost", &b, NULL), KVA_EINVALID);
}

/* ---- plans ---- */

struct plan {
    struct kva_suite s;
    struct kva_plan p;
};

static void make(const char *text, struct kva_db *db, int i, int n,
                 enum kva_balance balance, struct plan *x)
{
    struct kva_buf report;
    struct kva_error err = {0};

    kva_buf_init(&report, 0);
    if (kva_suite_parse(text, "suite.json", ".", NULL, &x->s, &report, &err) != KVA_OK)
        fail_msg("%s%s", report.data ? report.data : "", err.text);
    kva_buf_release(&report);
    x->s.shard = (struct kva_shard){i, n, balance};
    if (kva_plan_new(&x->s, db, 1, &x->p, &err) != KVA_OK)
        fail_msg("%s", err.text);
}

static void drop(struct plan *x)
{
    kva_plan_release(&x->p);
    kva_suite_release(&x->s);
}

/* Two families (f16 and f32 caches), repetitions, timed samples, two lengths. */
static const char SUITE[] =
    "{\"schema\":1,\"models\":[\"builtin:tiny-llama\"],\"methods\":[\"keydiff\","
    "\"knorm\"]"
    ","
    "\"tasks\":[\"ruler/niah_single_1@256\",\"ruler/vt@512\",\"ruler/vt@256\"],"
    "\"budgets\":[\"keep=0.5\"],\"kv\":[\"f16\",\"f32\"],"
    "\"defaults\":{\"n\":5,\"reps\":2,\"perf\":1},"
    "\"overrides\":[{\"when\":{\"task\":\"ruler/vt\"},\"set\":{\"n\":3}}]}";

/* Everything a job is known by, whatever plan it stands in. */
static uint64_t name_of(const struct kva_plan *p, const struct kva_unit *u,
                        const struct kva_job *j)
{
    uint64_t h;

    memcpy(&h, p->cells[j->cell].digest, sizeof h);
    return (h ^ (uint64_t)u->idx[j->question] << 3 ^ (uint64_t)j->rep << 1 ^ j->perf) *
           0x9e3779b97f4a7c15u;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static size_t collect(const struct kva_plan *p, uint64_t *out)
{
    size_t n = 0;

    for (int u = 0; u < p->n_units; u++)
        for (int j = 0; j < p->units[u].n_jobs; j++)
            out[n++] = name_of(p, &p->units[u], &p->units[u].jobs[j]);
    return n;
}

static void shards_of_a_suite_are_the_whole_each_job_once(void **state)
{
    uint64_t whole[1024], parts[1024];
    struct plan x;
    size_t n_whole;
    int64_t planned;

    (void)state;
    make(SUITE, NULL, 0, 0, KVA_BALANCE_COST, &x);
    n_whole = collect(&x.p, whole);
    planned = x.p.n_planned;
    assert_int_equal(x.p.n_contexts, 5 + 3 + 3);
    assert_int_equal(x.p.n_mine, 11);
    assert_int_equal(n_whole, (size_t)(planned + x.p.n_perf_todo));
    drop(&x);
    qsort(whole, n_whole, sizeof whole[0], ascending);
    for (int balance = 0; balance < 2; balance++)
        for (int n = 1; n <= 16; n++) {
            size_t have = 0;
            int64_t sum = 0;
            int contexts = 0, empty = 0;

            for (int i = 0; i < n; i++) {
                make(SUITE, NULL, i, n, (enum kva_balance)balance, &x);
                have += collect(&x.p, parts + have);
                sum += x.p.n_planned;
                contexts += x.p.n_mine;
                empty += x.p.n_planned == 0;
                assert_int_equal(x.p.n_cells, 2 * 3 * 2 + 3 * 2 * 2);
                drop(&x);
            }
            assert_int_equal(have, n_whole);
            assert_int_equal(sum, planned);
            assert_int_equal(contexts, 11);
            assert_int_equal(empty, n > 11 ? n - 11 : 0);
            qsort(parts, have, sizeof parts[0], ascending);
            assert_memory_equal(parts, whole, n_whole * sizeof whole[0]);
        }
}

static void all_jobs_of_a_context_stay_together(void **state)
{
    struct plan x;

    (void)state;
    for (int i = 0; i < 3; i++) {
        make(SUITE, NULL, i, 3, KVA_BALANCE_COST, &x);
        for (int u = 0; u < x.p.n_units; u += 2) {
            /* both families of a context stand side by side */
            assert_int_equal(x.p.units[u].idx[0], x.p.units[u + 1].idx[0]);
            assert_int_equal(x.p.units[u].task, x.p.units[u + 1].task);
            assert_int_not_equal(x.p.units[u].kv, x.p.units[u + 1].kv);
            assert_int_equal(x.p.units[u].n_jobs,
                             4 * 2 + (x.p.units[u].idx[0] == 0 ? 3 : 0));
        }
        drop(&x);
    }
}

static void assignment_does_not_look_at_the_database(void **state)
{
    char path[] = "/tmp/kva_shard_XXXXXX", wal[64];
    int fd = mkstemp(path);
    struct kva_db *db;
    struct kva_error err = {0};
    struct kva_db_env env = {.backend = "cpu",
                             .host = "h",
                             .cpu_model = "c",
                             .compiler = "g",
                             .cflags = "",
                             .git_commit = "",
                             .detail_json = "{}"};
    struct kva_db_run run = {
        .uuid = "u", .argv_json = "[]", .config_json = "{}", .shard_n = 1};
    struct plan x, y;
    int64_t run_id;
    int stored;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    assert_int_equal(kva_db_open(path, KVA_DB_WRITE, &db, &err), KVA_OK);
    assert_int_equal(kva_db_put_env(db, &env, &run.env_id, &err), KVA_OK);
    assert_int_equal(kva_db_start_run(db, &run, &run_id, &err), KVA_OK);
    make(SUITE, db, 0, 3, KVA_BALANCE_COST, &x);
    assert_int_equal(kva_plan_write(&x.p, db, run_id, &err), KVA_OK);
    /* the first unit of this shard is done */
    for (int j = 0; j < x.p.units[0].n_jobs; j++) {
        const struct kva_unit *u = &x.p.units[0];
        struct kva_db_sample s = {.task_id = x.p.tasks[u->task].task_id,
                                  .idx = u->idx[0],
                                  .cluster = "c",
                                  .refs_json = "[]",
                                  .meta_json = "{}"};
        struct kva_db_outcome o = {.cell_id = x.p.cells[u->jobs[j].cell].cell_id,
                                   .run_id = run_id,
                                   .rep = u->jobs[j].rep,
                                   .status = "skipped",
                                   .error = "here only to be there"};

        if (u->jobs[j].perf)
            continue;
        assert_int_equal(kva_db_put_sample(db, &s, &o.sample_id, &err), KVA_OK);
        if (kva_db_put_outcomes(db, &o, 1, &stored, &err) != KVA_OK)
            fail_msg("%s", err.text);
    }
    make(SUITE, db, 0, 3, KVA_BALANCE_COST, &y);
    assert_int_equal(y.p.n_mine, x.p.n_mine);
    assert_int_equal(y.p.n_planned, x.p.n_planned);
    assert_int_equal(y.p.n_units, x.p.n_units - 1);
    for (int t = 0; t < x.p.n_tasks; t++)
        assert_memory_equal(x.p.tasks[t].mine, y.p.tasks[t].mine, 3);
    drop(&x);
    drop(&y);
    kva_db_close(db);
    unlink(path);
    snprintf(wal, sizeof wal, "%s.lock", path);
    unlink(wal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_example_of_the_document),
        cmocka_unit_test(equal_costs_go_by_key_and_ties_to_the_lowest_shard),
        cmocka_unit_test(cost_is_the_formula_of_the_document),
        cmocka_unit_test(random_plans_balance_and_do_not_depend_on_order),
        cmocka_unit_test(words_of_the_command_line),
        cmocka_unit_test(shards_of_a_suite_are_the_whole_each_job_once),
        cmocka_unit_test(all_jobs_of_a_context_stay_together),
        cmocka_unit_test(assignment_does_not_look_at_the_database),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
