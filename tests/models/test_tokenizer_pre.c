/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_tokenizer_pre.c - pieces of every pre-tokenizer against the published pipeline. */
#include "models/tokenizer_internal.h"
#include "tests/models/reference.h"

#include <jansson.h>

static void check_row(const char *line)
{
    struct kva_error err = {0};
    json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
    assert_non_null(row);
    const char *pre = json_string_value(json_object_get(row, "pre"));
    const char *text = json_string_value(json_object_get(row, "text"));
    json_t *want = json_object_get(row, "pieces");
    struct presplit *p;
    struct pre_facts facts;
    assert_int_equal(kva_presplit_new(pre, strlen(pre), &p, &facts, &err), KVA_OK);
    struct pieces out = {0}, spare = {0};
    if (kva_presplit_run(p, text, strlen(text), &out, &spare, &err) != KVA_OK)
        fail_msg("%s", err.text);
    bool same = out.n == json_array_size(want);
    size_t at = 0;
    for (size_t i = 0; same && i < out.n; i++) {
        same = out.begin[i] == at;
        at += (size_t)json_integer_value(json_array_get(want, i));
        same = same && out.end[i] == at;
    }
    if (!same) {
        print_message("%s", line);
        for (size_t i = 0; i < out.n; i++)
            print_message("[%.*s]", (int)(out.end[i] - out.begin[i]),
                          text + out.begin[i]);
        fail_msg("pieces differ");
    }
    kva_pieces_release(&out);
    kva_pieces_release(&spare);
    kva_presplit_free(p);
    json_decref(row);
}

static int warnings;

static void count_warnings(enum kva_log_level level, const char *text, void *ctx)
{
    (void)text;
    (void)ctx;
    warnings += level == KVA_LOG_WARN;
}

static void pieces_equal_those_of_the_published_pipeline(void **state)
{
    (void)state;
    FILE *f = fopen("tests/golden/models/pieces.jsonl", "r");
    assert_non_null(f);
    char *line = NULL;
    size_t cap = 0;
    int rows = 0;
    kva_log_set(count_warnings, NULL, KVA_LOG_WARN);
    for (; getline(&line, &cap, f) > 0; rows++)
        check_row(line);
    kva_log_set(NULL, NULL, KVA_LOG_WARN);
    assert_true(rows >= 150);
    free(line);
    fclose(f);
}

static enum kva_status make(const char *name, struct pre_facts *facts,
                            struct kva_error *err)
{
    struct presplit *p;
    enum kva_status rc = kva_presplit_new(name, name ? strlen(name) : 0, &p, facts, err);
    if (rc != KVA_OK)
        assert_null(p);
    kva_presplit_free(p);
    return rc;
}

static void aliases_share_the_facts_of_their_family(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool ignore_merges, add_bos;
    } want[] = {{"llama-bpe", true, true},   {"llama3", true, true},
                {"llama-v3", true, true},    {"falcon3", true, true},
                {"pixtral", true, true},     {"lfm2", true, true},
                {"dbrx", false, false},      {"smaug-bpe", false, false},
                {"gpt-4o", true, false},     {"llama4", true, false},
                {"tekken", true, true},      {"smollm", false, false},
                {"starcoder", false, false}, {"refact", false, false},
                {"command-r", false, false}, {"exaone", false, false},
                {"codeshell", false, false}, {"gpt-2", false, false},
                {"olmo", false, false},      {"mpt", false, false},
                {"jais", false, false}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct pre_facts facts;
        assert_int_equal(make(want[i].name, &facts, NULL), KVA_OK);
        assert_int_equal(facts.ignore_merges, want[i].ignore_merges);
        assert_int_equal(facts.add_bos, want[i].add_bos);
    }
}

static void a_missing_name_warns_and_uses_the_generic_splitter(void **state)
{
    (void)state;
    struct pre_facts facts;
    warnings = 0;
    kva_log_set(count_warnings, NULL, KVA_LOG_WARN);
    assert_int_equal(make(NULL, &facts, NULL), KVA_OK);
    assert_int_equal(make("default", &facts, NULL), KVA_OK);
    kva_log_set(NULL, NULL, KVA_LOG_WARN);
    assert_int_equal(warnings, 2);
}

static void names_that_need_normalisation_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen2", "deepseek-r1-qwen", "megrez", "qwen35"};
    for (int i = 0; i < 4; i++) {
        struct kva_error err = {0};
        struct pre_facts facts;
        assert_int_equal(make(names[i], &facts, &err), KVA_EUNSUPPORTED);
        assert_non_null(strstr(err.text, names[i]));
        assert_non_null(strstr(err.text, "NFC"));
    }
}

static void unknown_names_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "", "gpt", "gpt-2 olmo", "GPT-2",
        "a-very-long-name-that-no-file-has-ever-used-xxxxxxxx"};
    for (int i = 0; i < 5; i++) {
        struct kva_error err = {0};
        struct pre_facts facts;
        assert_int_equal(make(names[i], &facts, &err), KVA_EUNSUPPORTED);
        assert_non_null(strstr(err.text, "is not known"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_equal_those_of_the_published_pipeline),
        cmocka_unit_test(aliases_share_the_facts_of_their_family),
        cmocka_unit_test(a_missing_name_warns_and_uses_the_generic_splitter),
        cmocka_unit_test(names_that_need_normalisation_are_refused),
        cmocka_unit_test(unknown_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
