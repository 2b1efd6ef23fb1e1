/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_cheats.c - each lie planted in the engine is caught by the claim it breaks, and by
 * an exit code of 1; without one the same suite passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "runner/cheats.h"
#include "runner/commands.h"

enum kva_cheat kva_cheat_planted;
void (*kva_cheat_evicting)(struct kva_session *s, const struct kva_keep *keep);

/* Entries of the retrieval model are large beside their positions, as those of real
 * models are; answers of the tiny model run to their limit, so that caches grow by more
 * than a page of every KV head. */
#define SUITE(model, task)                                                               \
    "{\"schema\": 1, \"name\": \"cheats\", \"models\": [\"" model "\"],\n"               \
    " \"methods\": [\"snapkv:window=8\", \"keydiff\"], \"tasks\": [\"" task "\"],\n"     \
    " \"schedules\": [\"oneshot\", \"block:24+decode:4\"],\n"                            \
    " \"exclude\": [{\"method\": \"snapkv*\", \"schedule\": \"block*\"}],\n"             \
    " \"budgets\": [{\"keep\": 0.5}], \"blind\": false, \"defaults\": {\"n\": 2}}\n"
static const char RETRIEVAL[] = SUITE("builtin:retrieval", "ruler/niah_single_2@300");
static const char TINY[] = SUITE("builtin:tiny-llama", "jsonl:items.jsonl");

static char dir[64];

static void path_of(char out[128], const char *name)
{
    snprintf(out, 128, "%s/%s", dir, name);
}

static int make_files(void **state)
{
    char path[128];
    FILE *f;

    (void)state;
    snprintf(dir, sizeof dir, "/tmp/kvaudit-cheats-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    path_of(path, "items.jsonl");
    f = fopen(path, "w");
    if (f == NULL)
        return -1;
    for (int k = 0; k < 2; k++) {
        fputs("{\"context\":\"", f);
        for (int i = 0; i < 151; i++)
            fputc(97 + (i * (7 + k) + i / 5) % 26, f);
        fprintf(f,
                "\",\"question\":\"%s\",\"answers\":[\"qz th\"],\"max_new_tokens\":64}\n",
                k == 0 ? " which one? " : " and where is it then? ");
    }
    return fclose(f);
}

static int remove_files(void **state)
{
    static const char *const names[] = {"suite.json",   "items.jsonl",  "audit.db",
                                        "audit.db-wal", "audit.db-shm", "audit.db.lock"};
    char path[128];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        path_of(path, names[i]);
        (void)unlink(path);
    }
    return rmdir(dir);
}

/* Claims of the physical rows that were refuted, "K1 MASK_ONLY;K3 ...". */
static void refuted(const char *db, char out[400])
{
    sqlite3 *h = NULL;
    sqlite3_stmt *st = NULL;

    out[0] = '\0';
    assert_int_equal(sqlite3_open(db, &h), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(h,
                           "SELECT DISTINCT claim || ' ' || coalesce(reason, '') FROM "
                           "an_claim WHERE impl = 'physical' AND verdict = 'REFUTED' AND "
                           "claim LIKE 'K%' ORDER BY 1",
                           -1, &st, NULL),
        SQLITE_OK);
    while (sqlite3_step(st) == SQLITE_ROW) {
        size_t n = strlen(out);

        snprintf(out + n, 400 - n, "%s;", (const char *)sqlite3_column_text(st, 0));
    }
    sqlite3_finalize(st);
    sqlite3_close(h);
}

static void audit(const char *text, enum kva_cheat cheat, int *code, char found[400])
{
    char suite[128], db[128];
    const char *dbs[1] = {db};
    char *argv[] = {suite, NULL};
    FILE *f;

    path_of(suite, "suite.json");
    path_of(db, "audit.db");
    (void)unlink(db);
    f = fopen(suite, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
    assert_non_null(freopen("/dev/null", "w", stdout));
    kva_common.quiet = 1;
    kva_common.db = (struct kva_opt_list){dbs, 1};
    kva_cheat_planted = cheat;
    *code = kva_cmd_audit(1, argv);
    kva_cheat_planted = KVA_CHEAT_NONE;
    refuted(db, found);
}

/* The claim breaks with the lie, and only with it. */
static void is_caught(const char *text, enum kva_cheat cheat, const char *claim)
{
    char honest[400], found[400];
    int code;

    audit(text, KVA_CHEAT_NONE, &code, honest);
    assert_null(strstr(honest, claim));
    audit(text, cheat, &code, found);
    if (strstr(found, claim) == NULL)
        fail_msg("refuted are '%s', not '%s'", found, claim);
    assert_int_equal(code, 1);
}

static void an_honest_engine_passes(void **state)
{
    char found[400];
    int code;

    (void)state;
    audit(RETRIEVAL, KVA_CHEAT_NONE, &code, found);
    assert_string_equal(found, "");
    assert_int_equal(code, 0);
}

static void a_mask_called_physical_is_caught(void **state)
{
    (void)state;
    is_caught(RETRIEVAL, KVA_CHEAT_MASK, "K1 MASK_ONLY");
}

static void more_than_the_budget_is_caught(void **state)
{
    (void)state;
    is_caught(RETRIEVAL, KVA_CHEAT_HOLD, "K1 BYTES_OVER");
}

static void a_look_at_the_question_is_caught(void **state)
{
    (void)state;
    is_caught(RETRIEVAL, KVA_CHEAT_QUESTION, "K5 QUERY_LEAK");
}

static void a_dense_prefill_called_block_is_caught(void **state)
{
    (void)state;
    is_caught(RETRIEVAL, KVA_CHEAT_DENSE, "K6 DENSE_PREFILL");
}

static void growth_while_answering_is_caught(void **state)
{
    (void)state;
    is_caught(TINY, KVA_CHEAT_GROW, "K8 BUDGET_GROWTH");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_honest_engine_passes),
        cmocka_unit_test(a_mask_called_physical_is_caught),
        cmocka_unit_test(more_than_the_budget_is_caught),
        cmocka_unit_test(a_look_at_the_question_is_caught),
        cmocka_unit_test(a_dense_prefill_called_block_is_caught),
        cmocka_unit_test(growth_while_answering_is_caught),
    };

    return cmocka_run_group_tests(tests, make_files, remove_files);
}
