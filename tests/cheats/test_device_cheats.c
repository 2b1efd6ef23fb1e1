/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_device_cheats.c - what a cell on a device might hide, its kernels emulated: rows
 * that were evicted from the device and lie on the host are found, another program that
 * moves the driver's counter leaves the bytes unverified, and an honest cell passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runner/cheats.h"
#include "runner/exec.h"
#include "tests/simt/rt_host.h"

enum kva_cheat kva_cheat_planted;
void (*kva_cheat_evicting)(struct kva_session *s, const struct kva_keep *keep);

/* One prompt of 160 bytes, a token each. */
static char item[64];

static int make_item(void **state)
{
    FILE *f;

    (void)state;
    snprintf(item, sizeof item, "/tmp/kvaudit-device-cheats-%d.jsonl", (int)getpid());
    f = fopen(item, "w");
    if (f == NULL)
        return -1;
    fputs("{\"context\":\"", f);
    for (int i = 0; i < 150; i++)
        fputc(97 + (i * 7 + i / 5) % 26, f);
    fputs("\",\"question\":\" which? \",\"answers\":[\"qz\"]}\n", f);
    return fclose(f);
}

static int remove_item(void **state)
{
    (void)state;
    return unlink(item);
}

enum { CELLS = 8 };
struct heard {
    int n, evicting; /* calls */
    struct kva_db_memory memory[CELLS];
    bool evicts[CELLS];
    const struct kva_plan *plan;
};
static struct heard heard;

static enum kva_status on_sample(void *ctx, const struct kva_sample_row *s,
                                 struct kva_error *err)
{
    (void)ctx;
    (void)s;
    (void)err;
    return KVA_OK;
}

static enum kva_status on_results(void *ctx, const struct kva_result *r, int n,
                                  struct kva_error *err)
{
    (void)ctx;
    (void)err;
    for (int i = 0; i < n; i++) {
        assert_string_equal(r[i].status, "ok");
        assert_true(r[i].has_memory && heard.n < CELLS);
        heard.evicts[heard.n] =
            heard.plan->cells[r[i].cell].budget.kind != KVA_BUDGET_DENSE;
        heard.memory[heard.n++] = r[i].memory;
    }
    return KVA_OK;
}

/* The verdict on the one cell that evicts; the dense one must stay clean. */
static const struct kva_db_memory *run(void (*evicting)(struct kva_session *,
                                                        const struct kva_keep *))
{
    const struct kva_sink sink = {NULL, on_sample, on_results, NULL};
    struct kva_exec_opts opts = {0};
    struct kva_suite_opts none = {0};
    struct kva_suite suite = {0};
    struct kva_plan plan = {0};
    struct kva_error err = {0};
    struct kva_buf report;
    char text[400];
    int64_t rows = 0;
    int which = -1;

    heard = (struct heard){.plan = &plan};
    kva_buf_init(&report, 0);
    snprintf(text, sizeof text,
             "{\"schema\":1,\"name\":\"t\",\"models\":[\"builtin:tiny-llama\"],"
             "\"methods\":[\"streaming\"],\"tasks\":[\"jsonl:%s\"],\"blind\":false,"
             "\"budgets\":[{\"keep\":0.1}],\"perf\":1,"
             "\"defaults\":{\"n\":1,\"max_new_tokens\":2}}",
             item);
    assert_int_equal(kva_suite_parse(text, "t", ".", &none, &suite, &report, &err),
                     KVA_OK);
    suite.backend = "cuda";
    assert_int_equal(kva_plan_new(&suite, NULL, 1, &plan, &err), KVA_OK);
    kva_cheat_evicting = evicting;
    if (kva_exec_unit(&plan, 0, true, &opts, &sink, &rows, &err) != KVA_OK)
        fail_msg("%s", err.text);
    kva_cheat_evicting = NULL;
    for (int i = 0; i < heard.n; i++)
        if (heard.evicts[i])
            which = i;
    assert_true(which >= 0);
    kva_plan_release(&plan);
    kva_suite_release(&suite);
    kva_buf_release(&report);
    return &heard.memory[which];
}

/* ---- rows on the host ---- */

enum { PAGE = 4096, MOST = 100000 };
static void *held[MOST];
static int n_held;

/* A row on a page of its own, as memory that a device reads by itself is kept. */
static void hold(const float *row, int n)
{
    assert_true(n_held < MOST && (size_t)n * sizeof *row <= PAGE);
    held[n_held] = aligned_alloc(PAGE, PAGE);
    assert_non_null(held[n_held]);
    memset(held[n_held], 1, PAGE);
    memcpy(held[n_held++], row, (size_t)n * sizeof *row);
}

static void offload(struct kva_session *s, const struct kva_keep *keep)
{
    struct kva_kvstore *store = kva_session_store(s);
    const struct kva_kvshape *shape = kva_kvstore_shape(store);

    heard.evicting++;
    for (int c = 0; c < keep->layers * keep->kv_heads; c++) {
        const int layer = c / keep->kv_heads, head = c % keep->kv_heads,
                  n = kva_kvstore_live(store, layer, head);
        const size_t dk = (size_t)shape->dim_k, dv = (size_t)shape->dim_v;
        float *k = calloc((size_t)n * dk, sizeof *k),
              *v = calloc((size_t)n * dv, sizeof *v);
        size_t at = keep->off[c];

        assert_true(k != NULL && v != NULL);
        assert_int_equal(kva_kvstore_gather(store, layer, head, k, v, NULL), KVA_OK);
        for (int r = 0; r < n; r++) {
            if (at < keep->off[c + 1] && keep->rank[at] == r) {
                at++;
                continue;
            }
            hold(k + (size_t)r * dk, shape->dim_k);
            hold(v + (size_t)r * dv, shape->dim_v);
        }
        free(k);
        free(v);
    }
}

/* What the process holds is the program's own, or nothing can be told from it. */
static void witnessed(void)
{
#ifdef __SANITIZE_ADDRESS__
    print_message("SKIP: the sanitizer's memory is the process's\n");
    skip();
#endif
}

static void an_honest_cell_passes(void **state)
{
    const struct kva_db_memory *m;

    (void)state;
    witnessed();
    m = run(NULL);
    assert_int_equal(m->audit, 0);
    assert_true(m->dev_delta_bytes > 0 && m->kv_alloc_bytes * 4 < m->kv_dense_bytes);
    assert_true(m->dev_peak_bytes >= m->dev_delta_bytes);
    assert_int_equal(kva_rt_host_used(), 0);
}

static void rows_kept_on_the_host_are_caught(void **state)
{
    const struct kva_db_memory *m;

    (void)state;
    witnessed();
    m = run(offload);
    print_message("%d rows on the host in %d looks\n", n_held, heard.evicting);
    assert_true(n_held > 1000);
    assert_int_equal(m->audit, 16);
    /* the run that warms and the one that counts are looked at twice before it is said */
    assert_int_equal(heard.evicting, 4);
    while (n_held > 0)
        free(held[--n_held]);
}

/* ---- other programs ---- */

static void another_program(struct kva_session *s, const struct kva_keep *keep)
{
    (void)s;
    (void)keep;
    kva_rt_host_others((size_t)50 * 1024 * 1024 * (size_t)++heard.evicting);
}

static void another_program_once(struct kva_session *s, const struct kva_keep *keep)
{
    (void)s;
    (void)keep;
    if (heard.evicting++ == 0)
        kva_rt_host_others((size_t)50 << 20);
}

static void a_shared_device_leaves_the_bytes_unverified(void **state)
{
    const struct kva_db_memory *m;

    (void)state;
    witnessed();
    m = run(another_program);
    assert_int_equal(m->audit, -1);
    assert_int_equal(heard.evicting, 4);
    kva_rt_host_others(0);
}

static void what_happens_once_is_looked_at_again(void **state)
{
    const struct kva_db_memory *m;

    (void)state;
    witnessed();
    m = run(another_program_once);
    assert_int_equal(m->audit, 0);
    assert_int_equal(heard.evicting, 3);
    kva_rt_host_others(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_honest_cell_passes),
        cmocka_unit_test(rows_kept_on_the_host_are_caught),
        cmocka_unit_test(a_shared_device_leaves_the_bytes_unverified),
        cmocka_unit_test(what_happens_once_is_looked_at_again),
    };

    return cmocka_run_group_tests(tests, make_item, remove_item);
}
