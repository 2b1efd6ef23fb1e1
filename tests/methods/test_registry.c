/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_registry.c - every line of methods.def is a complete descriptor with a file and a
 * test, and says what tests/golden/methods/registry.txt says: what a method declares is
 * part of a cell's identity and of what is refused. KVA_GOLDEN=1 writes that file anew.
 */
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

/* ---- the golden table ---- */

static void put_flag(struct kva_buf *b, bool set, const char *name)
{
    if (set)
        kva_buf_printf(b, " %s", name);
}

static void put_params(struct kva_buf *b, const struct kva_param *p)
{
    for (; p != NULL && p->name != NULL; p++) {
        kva_buf_printf(b, "    %s", p->name);
        if (p->type == KVA_PARAM_FILE) {
            kva_buf_printf(b, " file\n");
            continue;
        }
        if (p->type == KVA_PARAM_CHOICE) {
            kva_buf_printf(b, " %s", p->choices[(int)p->def]);
            for (int i = 0; p->choices[i] != NULL; i++)
                kva_buf_printf(b, "%c%s", i > 0 ? '|' : ' ', p->choices[i]);
        } else {
            kva_buf_printf(b, " %.10g %s %.10g..%.10g", p->def,
                           p->type == KVA_PARAM_INT ? "int" : "real", p->min, p->max);
        }
        if (p->def_block < p->def || p->def_block > p->def)
            kva_buf_printf(b, ", block %.10g", p->def_block);
        put_flag(b, p->odd, "odd");
        kva_buf_printf(b, "\n");
    }
}

static void put_needs(struct kva_buf *b, unsigned needs)
{
    const char *const names[] = {"keys", "values", "queries", "raw_keys", "lend", "host"};

    for (int i = 0; i < 6; i++)
        put_flag(b, needs >> i & 1, names[i]);
}

static void put_scorer(struct kva_buf *b, const struct kva_scorer *s)
{
    const struct kva_method m = parse(s->name, ONESHOT);

    kva_buf_printf(b, "scorer %s version %d:", s->name, s->version);
    put_needs(b, s->needs);
    put_flag(b, s->nonneg, "nonneg");
    put_flag(b, s->comparable, "comparable");
    put_flag(b, s->positional, "positional");
    put_flag(b, s->question_aware, "question_aware");
    put_flag(b, s->budget_dependent, "budget_dependent");
    put_flag(b, s->oneshot_only, "oneshot_only");
    put_flag(b, s->attention, "attention");
    put_flag(b, kva_method_rotates(&m), "rotates");
    if (s->window != NULL)
        kva_buf_printf(b, " window %d", s->window(&m.scorer_params));
    if (s->table_kind != NULL)
        kva_buf_printf(b, " table %s", s->table_kind);
    kva_buf_printf(b, "\n");
    put_params(b, s->params);
}

static void put_wrapper(struct kva_buf *b, const struct kva_wrapper *w)
{
    kva_buf_printf(b, "wrapper %s version %d:", w->name, w->version);
    put_needs(b, w->needs);
    put_flag(b, w->nonneg, "nonneg");
    put_flag(b, w->comparable, "comparable");
    put_flag(b, w->keeps_unit, "keeps_unit");
    put_flag(b, w->same_positions, "same_positions");
    kva_buf_printf(b, "\n");
    put_params(b, w->params);
}

static void put_allocator(struct kva_buf *b, const struct kva_allocator *a)
{
    kva_buf_printf(b, "allocator %s version %d:", a->name, a->version);
    put_needs(b, a->needs);
    put_flag(b, a->even, "even");
    put_flag(b, a->compares_heads, "compares_heads");
    put_flag(b, a->compares_layers, "compares_layers");
    put_flag(b, a->cross_layer, "cross_layer");
    put_flag(b, a->nonneg, "nonneg");
    put_flag(b, a->table_optional, "table_optional");
    if (a->n_stat > 0)
        kva_buf_printf(b, " stats %d", a->n_stat);
    if (a->table_kind != NULL)
        kva_buf_printf(b, " table %s", a->table_kind);
    kva_buf_printf(b, "\n");
    put_params(b, a->params);
}

static void every_method_declares_what_the_golden_table_says(void **state)
{
    const char *path = "tests/golden/methods/registry.txt";
    struct kva_buf got, want;

    (void)state;
    kva_buf_init(&got, 0);
    kva_buf_init(&want, 0);
    for (int i = 0; kva_scorers()[i] != NULL; i++)
        put_scorer(&got, kva_scorers()[i]);
    for (int i = 0; kva_wrappers()[i] != NULL; i++)
        put_wrapper(&got, kva_wrappers()[i]);
    for (int i = 0; kva_allocators()[i] != NULL; i++)
        put_allocator(&got, kva_allocators()[i]);
    for (const struct kva_method_alias *a = kva_method_aliases(); a->name != NULL; a++)
        kva_buf_printf(&got, "alias %s = %s\n", a->name, a->text);
    if (getenv("KVA_GOLDEN") != NULL)
        assert_ok(kva_write_file(path, got.data, got.len, &test_error));
    assert_ok(kva_read_file(path, 1 << 20, &want, &test_error));
    assert_string_equal(got.data, want.data);
    kva_buf_release(&got);
    kva_buf_release(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_declares_what_the_golden_table_says),
        cmocka_unit_test(every_scorer_is_complete),
        cmocka_unit_test(every_allocator_is_complete),
        cmocka_unit_test(every_wrapper_is_complete),
        cmocka_unit_test(the_first_methods_stand_in_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
