/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_registry.c - every line of methods.def is a complete descriptor with a file and a
 * test. */
#include "tests/methods/methods_test.h"

#include <ctype.h>

static void check_file(const char *form, const char *name)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof path, "methods/%s_%s.c", form, name);
    f = fopen(path, "r");
    if (f == NULL)
        fail_msg("%s is missing", path);
    fclose(f);
    snprintf(path, sizeof path, "tests/methods/test_%s_%s.c", form, name);
    f = fopen(path, "r");
    if (f == NULL)
        fail_msg("%s is missing", path);
    fclose(f);
}

static void check_name(const char *name)
{
    assert_true(name[0] != '\0');
    for (; *name != '\0'; name++)
        assert_true(islower((unsigned char)*name) || isdigit((unsigned char)*name) ||
                    *name == '_');
}

/* Words of method.h, separated by "; ". */
static void check_storage(const char *name, const char *storage)
{
    const char *const words[] = {"uniform",    "layer", "ragged",
                                 "query head", "mask",  "ours"};
    size_t n = sizeof words / sizeof words[0], i, len;

    if (storage == NULL)
        fail_msg("%s does not say what its published code holds (.storage)", name);
    for (;; storage += len + 2) {
        len = strcspn(storage, ";");
        for (i = 0; i < n; i++)
            if (len == strlen(words[i]) && strncmp(storage, words[i], len) == 0)
                break;
        if (i == n)
            fail_msg("%s: storage \"%s\" is none of the words of method.h", name,
                     storage);
        if (storage[len] == '\0')
            return;
        assert_int_equal(storage[len + 1], ' ');
    }
}

static void check_words(const char *name, const char *summary, const char *source,
                        const char *storage, const char *deviates, int version)
{
    check_name(name);
    assert_non_null(summary);
    assert_true(strlen(summary) > 0 && strlen(summary) <= 72);
    assert_true(source != NULL && source[0] != '\0');
    check_storage(name, storage);
    assert_true(deviates == NULL || strlen(deviates) > 20);
    assert_true(version >= 1);
}

static void check_params(const struct kva_param *p)
{
    int n = 0;

    for (; p != NULL && p[n].name != NULL; n++) {
        int choices = 0;

        check_name(p[n].name);
        assert_true(p[n].help != NULL && p[n].help[0] != '\0');
        for (int i = 0; i < n; i++)
            assert_string_not_equal(p[i].name, p[n].name);
        if (p[n].type == KVA_PARAM_CHOICE) {
            while (p[n].choices[choices] != NULL)
                choices++;
            assert_true(p[n].def < choices && p[n].def_block < choices);
        } else if (p[n].type != KVA_PARAM_FILE) {
            assert_true(p[n].min < p[n].max);
            assert_true(p[n].def >= p[n].min && p[n].def <= p[n].max);
            assert_true(p[n].def_block >= p[n].min && p[n].def_block <= p[n].max);
            assert_true(!p[n].odd ||
                        ((int)p[n].def % 2 == 1 && (int)p[n].def_block % 2 == 1));
        }
    }
    assert_true(n <= KVA_MAX_PARAMS);
}

static void every_scorer_is_complete(void **state)
{
    const struct kva_scorer *const *all = kva_scorers();

    (void)state;
    for (int i = 0; all[i] != NULL; i++) {
        check_words(all[i]->name, all[i]->summary, all[i]->source, all[i]->storage,
                    all[i]->deviates, all[i]->version);
        check_params(all[i]->params);
        check_file("score", all[i]->name);
        assert_non_null(all[i]->score);
        assert_int_equal((all[i]->needs & KVA_NEEDS_QUERIES) != 0,
                         all[i]->window != NULL);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(all[i]->name, all[j]->name);
        parse(all[i]->name, ONESHOT);
        if (!all[i]->oneshot_only)
            parse(all[i]->name, BLOCK128);
    }
}

static void every_allocator_is_complete(void **state)
{
    const struct kva_allocator *const *all = kva_allocators();

    (void)state;
    for (int i = 0; all[i] != NULL; i++) {
        bool norm = false;

        check_words(all[i]->name, all[i]->summary, all[i]->source, all[i]->storage,
                    all[i]->deviates, all[i]->version);
        check_params(all[i]->params);
        check_file("alloc", all[i]->name);
        assert_non_null(all[i]->allocate);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(all[i]->name, all[j]->name);
        for (const struct kva_param *p = all[i]->params; p != NULL && p->name != NULL;
             p++)
            norm = norm || strcmp(p->name, "norm") == 0;
        /* non-negative scores are read as shares of their KV head */
        assert_true(norm || !all[i]->compares_heads || all[i]->nonneg);
    }
}

static void every_wrapper_is_complete(void **state)
{
    const struct kva_wrapper *const *all = kva_wrappers();

    (void)state;
    for (int i = 0; all[i] != NULL; i++) {
        check_words(all[i]->name, all[i]->summary, all[i]->source, all[i]->storage,
                    all[i]->deviates, all[i]->version);
        check_params(all[i]->params);
        check_file("wrap", all[i]->name);
        assert_true(all[i]->rescore != NULL || all[i]->promote != NULL ||
                    all[i]->pick != NULL || all[i]->pick_layer != NULL);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(all[i]->name, all[j]->name);
    }
}

static void the_first_methods_stand_in_their_order(void **state)
{
    const char *const scorers[] = {"random",    "streaming", "knorm", "keydiff",
                                   "valuediff", "tova",      "snapkv"};

    (void)state;
    for (size_t i = 0; i < 7; i++)
        assert_string_equal(kva_scorers()[i]->name, scorers[i]);
    assert_string_equal(kva_allocators()[0]->name, "uniform");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scorer_is_complete),
        cmocka_unit_test(every_allocator_is_complete),
        cmocka_unit_test(every_wrapper_is_complete),
        cmocka_unit_test(the_first_methods_stand_in_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
