/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_longbench.c - templates, prompts of every set and profile, the middle cut, how
 * answers end, and records that cannot be used. */
#include "tests/tasks/data_test.h"

#include "tasks/longbench.h"

#include <jansson.h>

static const char *const profiles[] = {"official", "criticalkv", "kvpress"};

static void sha_hex(const void *bytes, size_t n, char out[65])
{
    uint8_t digest[32];

    kva_sha256_of(bytes, n, digest);
    kva_hex(digest, sizeof digest, out);
}

/* A task of the test's directory, or of `dir`. */
static struct kva_task *open_set(const char *text, const char *profile, const char *dir)
{
    struct kva_task_data data[] = {{"longbench", dir ? dir : data_dir},
                                   {"longbench_v2", data_dir}};

    return open_with(
        text, &(struct kva_task_opts){.data = data, .n_data = 2, .profile = profile});
}

/* The record of tests/golden/tasks/longbench/make.py. */
static void put_record(const char *name)
{
    const char *end = strcmp(name, "trec") == 0       ? "\\nType:"
                      : strcmp(name, "triviaqa") == 0 ? "\\nAnswer:\\n"
                      : strcmp(name, "samsum") == 0   ? "\\nSummary: "
                                                      : "";
    struct kva_buf line;
    char file[64];

    kva_buf_init(&line, 0);
    kva_buf_puts(&line, "{\"context\":\"");
    for (int i = 0; i < 40; i++)
        kva_buf_printf(&line,
                       "%d: caf\\u00e9 \xe2\x82\xac"
                       "5 \xf0\x9f\x98\x80 {input}\\r\\n",
                       i);
    kva_buf_printf(&line,
                   "\",\"input\":\"Which {context} is it?%s\",\"answers\":[\"Food\","
                   "\"Date\"],\"all_classes\":[\"Date\",\"Food\"],\"length\":4000,"
                   "\"dataset\":\"%s\",\"language\":\"en\",\"_id\":\"0a\"}\n",
                   end, name);
    snprintf(file, sizeof file, "%s.jsonl", name);
    put_data(file, line.data);
    kva_buf_release(&line);
}

/* ---- templates ---- */

static void hash_of_set(const struct kva_longbench_set *set, char out[65])
{
    const char *const part[] = {set->ctx, set->mid, set->q, set->pre};
    struct kva_buf all;

    kva_buf_init(&all, 0);
    for (int i = 0; i < 4; i++)
        kva_buf_add(&all, part[i], strlen(part[i]) + 1);
    sha_hex(all.data, all.len, out);
    kva_buf_release(&all);
}

static void templates_equal_the_shared_copy_byte_for_byte(void **state)
{
    const char *dir = shared_dir("longbench");
    char path[600];
    json_t *all;

    (void)state;
    if (!dir)
        skip();
    snprintf(path, sizeof path, "%s/prompts.json", dir);
    all = json_load_file(path, 0, NULL);
    assert_int_equal(json_object_size(all), KVA_LONGBENCH_SETS);
    for (int i = 0; i < KVA_LONGBENCH_SETS; i++) {
        const struct kva_longbench_set *set = &kva_longbench_sets[i];
        json_t *t = json_object_get(all, set->name);

#define SAME(part)                                                                       \
    assert_string_equal(set->part, json_string_value(json_object_get(t, #part)))
        SAME(ctx);
        SAME(mid);
        SAME(q);
        SAME(pre);
    }
    json_decref(all);
}

static void the_table_knows_sixteen_sets_and_thirteen_of_e(void **state)
{
    int n = 0, n_e = 0, sets_e = 0;
    bool e;

    (void)state;
    for (int i = 0; i < KVA_LONGBENCH_SETS; i++) {
        n += kva_longbench_sets[i].n;
        n_e += kva_longbench_sets[i].n_e;
        sets_e += kva_longbench_sets[i].n_e > 0;
    }
    assert_int_equal(n, 3750);
    assert_int_equal(sets_e, 13);
    assert_int_equal(n_e, 13 * 300 - 150 - 76 - 6);
    assert_string_equal(kva_longbench_find("trec_e", &e)->name, "trec");
    assert_true(e);
    assert_string_equal(kva_longbench_find("passage_retrieval_en", &e)->name,
                        "passage_retrieval_en");
    assert_false(e);
    assert_null(kva_longbench_find("qmsum_e", &e));
    assert_null(kva_longbench_find("trec_", &e));
    assert_null(kva_longbench_find("", &e));
}

/* ---- prompts ---- */

/* A prompt that is cut to `limit` bytes against its row; rows without limit come first.
 */
static void check_prompt(const char *name, const char *profile, int limit,
                         char *const *want)
{
    static char uncut[65]; /* hash of the whole context */
    struct kva_arena arena;
    struct kva_task *task;
    char text[80], hex[65];

    kva_arena_init(&arena);
    snprintf(text, sizeof text, limit ? "longbench/%s@%d" : "longbench/%s", name, limit);
    task = open_set(text, profile, NULL);
    if (strcmp(want[0], "refused") == 0) {
        assert_non_null(strstr(item_refusal(task, 0, &kva_tok_by),
                               "question_longer_than_half_window"));
    } else {
        struct kva_item it = item_of(task, 0, &kva_tok_by, &arena);
        json_t *prefix = json_loads(want[2], JSON_DECODE_ANY, NULL);

        sha_hex(it.context, it.context_len, hex);
        if (strcmp(hex, want[0]) != 0)
            fail_msg("%s %s: context %.200s...", text, profile, it.context);
        if (limit == 0)
            memcpy(uncut, hex, sizeof uncut);
        assert_int_equal(it.was_cut, strcmp(hex, uncut) != 0);
        sha_hex(it.question, strlen(it.question), hex);
        if (strcmp(hex, want[1]) != 0)
            fail_msg("%s %s: question %s", text, profile, it.question);
        assert_string_equal(it.answer_prefix, json_string_value(prefix));
        assert_int_equal(it.n_context, it.context_len);
        assert_int_equal(it.n_question, strlen(it.question) + strlen(it.answer_prefix));
        json_decref(prefix);
    }
    kva_task_close(task);
    kva_arena_release(&arena);
}

static void prompts_of_every_set_and_profile_follow_the_rules(void **state)
{
    struct kva_buf file;
    int templates = 0, prompts = 0, refused = 0;

    (void)state;
    kva_buf_init(&file, 0);
    assert_int_equal(
        kva_read_file("tests/golden/tasks/longbench/expected.tsv", 0, &file, NULL),
        KVA_OK);
    for (char *line = file.data, *next; line && *line; line = next) {
        char *cell[6] = {line}, hex[65];
        int n = 1;
        bool e;

        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        for (char *tab = strchr(line, '\t'); tab && n < 6; tab = strchr(tab, '\t')) {
            *tab++ = '\0';
            cell[n++] = tab;
        }
        if (strcmp(cell[0], "template") == 0) {
            hash_of_set(kva_longbench_find(cell[1], &e), hex);
            assert_string_equal(hex, cell[2]);
            templates++;
            continue;
        }
        assert_int_equal(n, 6);
        put_record(cell[0]);
        check_prompt(cell[0], cell[1], (int)strtol(cell[2], NULL, 10), cell + 3);
        refused += strcmp(cell[3], "refused") == 0;
        prompts++;
    }
    assert_int_equal(templates, 16);
    assert_int_equal(prompts, 16 * 3 * 6);
    assert_true(refused > 0);
    kva_buf_release(&file);
}

/* kvpress takes "Type:" off the end of the input, but not "Answer:" and "Summary:", which
 * white space follows. */
static void kvpress_gives_two_cues_twice(void **state)
{
    static const char *const row[][3] = {{"trec", "Which {context} is it?\n", "Type:"},
                                         {"triviaqa", "is it?\nAnswer:\n", "Answer:"},
                                         {"samsum", "is it?\nSummary: ", "Summary:"}};
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    for (int i = 0; i < 3; i++) {
        char text[40];
        struct kva_task *task;
        struct kva_item it;

        put_record(row[i][0]);
        snprintf(text, sizeof text, "longbench/%s", row[i][0]);
        task = open_set(text, "kvpress", NULL);
        it = item_of(task, 0, &kva_tok_ws, &arena);
        assert_true(ends_with(it.question, row[i][1]));
        assert_string_equal(it.answer_prefix, row[i][2]);
        kva_task_close(task);
    }
    kva_arena_release(&arena);
}

/* ---- the middle cut ---- */

static void assert_cut(const struct kva_tok_api *tok, const char *prompt, int max_length,
                       const char *want)
{
    size_t n = strlen(prompt), head, tail;
    struct kva_arena arena;
    struct kva_buf left;

    kva_arena_init(&arena);
    kva_buf_init(&left, 0);
    assert_int_equal(
        kva_longbench_cut(tok, prompt, n, max_length, &arena, &head, &tail, NULL),
        KVA_OK);
    kva_buf_add(&left, prompt, head);
    kva_buf_add(&left, prompt + tail, n - tail);
    assert_string_equal(left.data, want);
    kva_buf_release(&left);
    kva_arena_release(&arena);
}

static void the_cut_keeps_half_the_length_at_each_end(void **state)
{
    struct pairs p = {.lead = 1}; /* BOS */
    struct kva_tok_api bos = pairs_api(&p);

    (void)state;
    assert_cut(&kva_tok_by, "0123456789", 10, "0123456789");
    assert_cut(&kva_tok_by, "0123456789", 11, "0123456789");
    assert_cut(&kva_tok_by, "0123456789", 9, "01236789"); /* odd: one more is lost */
    assert_cut(&kva_tok_by, "0123456789", 8, "01236789");
    assert_cut(&kva_tok_by, "0123456789", 2, "09");
    assert_cut(&kva_tok_by, "0123456789", 1, "");
    assert_cut(&kva_tok_ws, "aa bb  cc dd ee", 5, "aa bb  cc dd ee");
    assert_cut(&kva_tok_ws, "aa bb  cc dd ee", 4, "aa bbdd ee");
    assert_cut(&kva_tok_ws, "aa bb  cc dd ee", 3, "aaee");
    assert_cut(&kva_tok_ws, " aa bb cc ", 2, " aacc ");
    /* BOS is one of the head's tokens, and counts */
    assert_cut(&bos, "aa bb cc dd", 5, "aa bb cc dd");
    assert_cut(&bos, "aa bb cc dd", 4, "aa cc dd");
    assert_cut(&bos, "aa bb cc dd", 2, " dd");
}

/* The inner edges of a cut through characters of two to four bytes. */
static void a_character_cut_at_an_edge_becomes_replacement_characters(void **state)
{
    struct kva_task *task;
    struct kva_arena arena;
    struct kva_item it;
    const char *ctx = "Please complete the code given below. \n";
    int n_ctx = (int)strlen(ctx), n_q = (int)strlen("Next line of code:\n");

    (void)state;
    kva_arena_init(&arena);
    put_data("lcc.jsonl",
             "{\"context\":\"\xf0\x9f\x98\x80XXXXXXXXXXXXXXXXXXXX\xe2\x82\xac"
             "YYYYYYYYYYYYYYYYYYYYY\",\"input\":\"\",\"answers\":[\"x\"]}\n");
    for (int k = 0; k <= 4; k++) { /* k bytes of the first character stay */
        char text[40], want[200];
        int half = n_ctx + k;

        snprintf(text, sizeof text, "longbench/lcc@%d", 2 * half);
        task = open_set(text, NULL, NULL);
        it = item_of(task, 0, &kva_tok_by, &arena);
        assert_true(it.was_cut);
        /* the tail has 39 + k bytes: 19 of the question, 20 + k Y and what precedes */
        assert_int_equal(half - n_q - 21, k - 1);
        snprintf(want, sizeof want, "%s%s%sYYYYYYYYYYYYYYYYYYYY%s", ctx,
                 k == 0   ? ""
                 : k == 4 ? "\xf0\x9f\x98\x80"
                          : "\xef\xbf\xbd",
                 k == 2   ? "\xef\xbf\xbd"
                 : k == 3 ? "\xef\xbf\xbd\xef\xbf\xbd"
                 : k == 4 ? "\xe2\x82\xac"
                          : "",
                 k >= 1 ? "Y" : "");
        assert_string_equal(it.context, want);
        assert_string_equal(it.question, "Next line of code:\n");
        kva_task_close(task);
    }
    kva_arena_release(&arena);
}

/* ---- how an item is fed, ends and is scored ---- */

struct way {
    const char *task, *profile;
    bool raw, no_bos;
    const char *suffix, *eos;
    bool min_one;
    enum kva_post post;
    int max_new;
    const char *more, *gold;
};

static void profiles_differ_in_template_ends_and_what_is_scored(void **state)
{
    static const struct way rows[] = {
        {"hotpotqa", "official", 0, 0, "", NULL, 0, KVA_POST_NONE, 32, NULL, " Food"},
        {"hotpotqa", "criticalkv", 0, 0, "", NULL, 0, KVA_POST_NONE, 32, NULL, " Food"},
        {"hotpotqa", "kvpress", 0, 0, NULL, NULL, 0, KVA_POST_STRIP, 52, NULL, " Food"},
        {"hotpotqa_e", "kvpress", 0, 0, NULL, NULL, 0, KVA_POST_NONE, 52, NULL, " Food"},
        {"trec", "official", 1, 0, "", NULL, 0, KVA_POST_FIRST_LINE, 64, NULL, " Food"},
        {"trec", "criticalkv", 1, 1, "", NULL, 0, KVA_POST_FIRST_LINE, 64, NULL, " Food"},
        {"trec", "kvpress", 0, 0, NULL, NULL, 0, KVA_POST_STRIP_FIRST_LINE, 84, NULL,
         " Food"},
        {"trec_e", "kvpress", 0, 0, NULL, NULL, 0, KVA_POST_FIRST_LINE, 84, NULL,
         " Food"},
        {"triviaqa", "official", 1, 0, "", NULL, 0, KVA_POST_FIRST_LINE, 32, NULL,
         "Food"},
        {"samsum", "official", 1, 0, "", "\n", 1, KVA_POST_FIRST_LINE, 128, NULL, "Food"},
        {"samsum", "criticalkv", 1, 1, "", "\n", 0, KVA_POST_FIRST_LINE, 128, NULL,
         "Food"},
        {"samsum", "kvpress", 0, 0, NULL, NULL, 0, KVA_POST_STRIP_FIRST_LINE, 148, NULL,
         " Food"},
        {"passage_count", "official", 0, 0, "", NULL, 0, KVA_POST_NONE, 32, NULL, "Food"},
        {"passage_retrieval_en", "kvpress", 0, 0, NULL, NULL, 0, KVA_POST_STRIP, 52, NULL,
         "Food"},
        {"lcc", "official", 1, 0, "", NULL, 0, KVA_POST_NONE, 64, "code_sim_indel",
         "Food"},
        {"repobench-p", "criticalkv", 1, 1, "", NULL, 0, KVA_POST_NONE, 64,
         "code_sim_indel", "Food"},
        {"repobench-p_e", "kvpress", 0, 0, NULL, NULL, 0, KVA_POST_NONE, 84,
         "code_sim_indel", "Food"},
    };
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct way *w = &rows[i];
        struct kva_task *task;
        struct kva_item it;
        char text[60];
        bool e;

        put_record(kva_longbench_find(w->task, &e)->name);
        if (e) {
            char from[100], to[100];

            snprintf(from, sizeof from, "%s/%.*s.jsonl", data_dir,
                     (int)strlen(w->task) - 2, w->task);
            snprintf(to, sizeof to, "%s/%s.jsonl", data_dir, w->task);
            assert_int_equal(rename(from, to), 0);
        }
        snprintf(text, sizeof text, "longbench/%s", w->task);
        task = open_set(text, w->profile, NULL);
        it = item_of(task, 0, &kva_tok_ws, &arena);
        assert_string_equal(kva_task_info(task)->profile, w->profile);
        assert_int_equal(it.feed.raw, w->raw);
        assert_int_equal(it.feed.no_bos, w->no_bos);
        assert_int_equal(it.feed.suffix == NULL, w->suffix == NULL);
        assert_int_equal(it.eos_text != NULL, w->eos != NULL);
        assert_int_equal(it.min_one, w->min_one);
        assert_int_equal(it.post, w->post);
        assert_int_equal(it.max_new_tokens, w->max_new);
        assert_int_equal(kva_task_info(task)->max_new_tokens, w->max_new);
        assert_int_equal(it.more_metrics != NULL, w->more != NULL);
        if (w->more)
            assert_string_equal(it.more_metrics[0], w->more);
        assert_string_equal(it.gold, w->gold);
        assert_int_equal(it.n_answers, 2);
        assert_int_equal(it.n_classes, 2);
        assert_string_equal(it.labels, e ? "{\"_id\":\"0a\",\"length\":4000,\"language\":"
                                           "\"en\",\"bucket\":\"4-8k\"}"
                                         : "{\"_id\":\"0a\",\"length\":4000,\"language\":"
                                           "\"en\"}");
        assert_int_equal(it.n_stops, 0);
        assert_false(it.loop_guard || it.max_total);
        kva_task_close(task);
    }
    kva_arena_release(&arena);
}

static void a_given_number_of_new_tokens_is_kept(void **state)
{
    struct kva_task_data data = {"longbench", data_dir};
    struct kva_task *task;

    (void)state;
    put_record("trec");
    task = open_with("longbench/trec", &(struct kva_task_opts){.data = &data,
                                                               .n_data = 1,
                                                               .profile = "kvpress",
                                                               .max_new_tokens = 7});
    assert_int_equal(kva_task_info(task)->max_new_tokens, 7);
    assert_true(kva_task_info(task)->guess_floor == 1.0 / 50);
    assert_string_equal(kva_task_info(task)->domain, "few-shot");
    assert_false(kva_task_info(task)->binary);
    assert_int_equal(kva_task_info(task)->n_available, 1);
    assert_int_equal(kva_task_info(task)->ctx, 0);
    kva_task_close(task);
}

static void records_of_e_fall_into_three_buckets(void **state)
{
    static const char *const want[] = {"0-4k", "4-8k", "4-8k", "8k+"};
    struct kva_arena arena;
    struct kva_task *task;

    (void)state;
    kva_arena_init(&arena);
    put_data("lcc_e.jsonl",
             "{\"context\":\"a\",\"input\":\"\",\"answers\":[\"x\"],\"length\":3999}\n"
             "{\"context\":\"a\",\"input\":\"\",\"answers\":[\"x\"],\"length\":4000}\n"
             "{\"context\":\"a\",\"input\":\"\",\"answers\":[\"x\"],\"length\":7999}\n"
             "{\"context\":\"a\",\"input\":\"\",\"answers\":[\"x\"],\"length\":8000}\n"
             "{\"context\":\"a\",\"input\":\"\",\"answers\":[\"x\"]}\n");
    task = open_set("longbench/lcc_e", NULL, NULL);
    for (int i = 0; i < 4; i++)
        assert_non_null(strstr(item_of(task, i, &kva_tok_ws, &arena).labels, want[i]));
    assert_true(
        ends_with(item_refusal(task, 4, &kva_tok_ws), "lcc_e.jsonl:5: no \"length\""));
    kva_task_close(task);
    kva_arena_release(&arena);
}

/* ---- bad input ---- */

static void a_record_that_cannot_be_used_is_an_item_that_says_why(void **state)
{
    static const char *const row[][2] = {
        {"{\"input\":\"q\",\"answers\":[\"x\"],\"all_classes\":[\"x\"]}",
         "no \"context\""},
        {"{\"context\":\"c\",\"answers\":[\"x\"],\"all_classes\":[\"x\"]}",
         "no \"input\""},
        {"{\"context\":\"c\",\"input\":\"q\",\"all_classes\":[\"x\"]}", "no \"answers\""},
        {"{\"context\":\"c\",\"input\":\"q\",\"answers\":[],\"all_classes\":[\"x\"]}",
         "\"answers\" holds no text"},
        {"{\"context\":\"c\",\"input\":\"q\",\"answers\":[\"\"],\"all_classes\":[\"x\"]}",
         "\"answers\" holds no text"},
        {"{\"context\":\"c\",\"input\":\"q\",\"answers\":\"x\",\"all_classes\":[\"x\"]}",
         "\"answers\" is not a list of at most 100000 texts"},
        {"{\"context\":\"c\",\"input\":\"q\",\"answers\":[\"x\"],\"all_classes\":null}",
         "no \"all_classes\""},
        {"{\"context\":\"c\",\"input\":\"a\\u0000\",\"answers\":[\"x\"]}",
         "\"input\" holds a NUL"},
        {"{\"context\":\"c\",\"input\":\"q\",\"answers\":[\"x\"],\"all_classes\":[\"x\"],"
         "\"dataset\":\"lcc\"}",
         "a record of \"lcc\", not of trec"},
        {"[\"c\"]", "not a JSON object"},
        {"{\"context\":\"c", "premature end of input near '\"c' (byte 13)"},
    };
    struct kva_arena arena;
    struct kva_buf file;
    struct kva_task *task;
    struct kva_item it;
    size_t n = sizeof row / sizeof row[0];

    (void)state;
    kva_arena_init(&arena);
    kva_buf_init(&file, 0);
    for (size_t i = 0; i < n; i++)
        kva_buf_printf(&file, "%s\n", row[i][0]);
    kva_buf_puts(&file, "{\"context\":\"a\\u0000b\",\"input\":\"q\",\"answers\":[\"\","
                        "\"x\"],\"all_classes\":[\"x\"],\"dataset\":\"trec_e\"}\n");
    put_data("trec.jsonl", file.data);
    task = open_set("longbench/trec", NULL, NULL);
    assert_int_equal(kva_task_info(task)->n_available, n + 1);
    for (size_t i = 0; i < n; i++) {
        char want[200];

        snprintf(want, sizeof want, "trec.jsonl:%zu: %s", i + 1, row[i][1]);
        if (!ends_with(item_refusal(task, (int)i, &kva_tok_ws), want))
            fail_msg("\"%s\" is not \"%s\"", item_refusal(task, (int)i, &kva_tok_ws),
                     want);
    }
    /* a NUL in the context is text like any other, an empty answer among others too */
    it = item_of(task, (int)n, &kva_tok_ws, &arena);
    assert_memory_equal(it.context + it.context_len - 4, "a\0b\n", 4);
    assert_int_equal(it.n_answers, 2);
    assert_string_equal(it.gold, " x");
    kva_task_close(task);
    kva_buf_release(&file);
    kva_arena_release(&arena);
}

static void texts_that_open_nothing_are_refused(void **state)
{
    static const char *const row[][2] = {
        {"longbench/dureader", "EINVALID: task longbench/dureader is Chinese"},
        {"longbench/passage_retrieval_zh@3500", "is Chinese"},
        {"longbench/hotpotqa_E", "did you mean longbench/hotpotqa"},
        {"longbench/trec:keys=2", "unknown parameter \"keys\""},
        {"longbench/musique_e", "EINVALID: unknown task"},
        {"longbench/lcc@0", "is not a length in tokens"},
    };
    struct kva_task_data data = {"longbench", "/nonexistent/dir"};
    const struct kva_task_opts opts = {.data = &data, .n_data = 1};

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        if (!strstr(refusal(row[i][0], &opts), row[i][1]))
            fail_msg("%s: %s", row[i][0], refusal(row[i][0], &opts));
    assert_string_equal(refusal("longbench/trec", &opts),
                        "EIO: data set \"longbench\": no file /nonexistent/dir; name it "
                        "with --data longbench=PATH or in the suite's \"data\"");
}

/* ---- descriptions ---- */

static void what_changes_an_item_changes_the_description(void **state)
{
    static const char *const text[] = {"longbench/trec", "longbench/trec@900",
                                       "longbench/trec_e"};
    const char *gen[8];
    int n = 0;
    struct kva_arena arena;

    (void)state;
    kva_arena_init(&arena);
    put_record("trec");
    put_data("trec_e.jsonl", "{}");
    for (int t = 0; t < 3; t++)
        for (int p = 0; p < (t ? 1 : 3); p++) {
            struct kva_task *task = open_set(text[t], profiles[p], NULL);

            gen[n++] = kva_task_gen_json(task, &arena);
            assert_non_null(strstr(kva_task_source_json(task, &arena),
                                   "\"complete\":false,\"file\":\"trec"));
            kva_task_close(task);
        }
    put_data("trec.jsonl", "{}\n");
    struct kva_task *task = open_set(text[0], NULL, NULL);
    gen[n++] = kva_task_gen_json(task, &arena);
    kva_task_close(task);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(gen[i], gen[j]);
    assert_non_null(strstr(gen[0], "\"sha256\""));
    assert_null(strstr(gen[0], data_dir)); /* a file that moves is the same task */
    kva_arena_release(&arena);
}

/* ---- LongBench v2 ---- */

static void v2_reads_a_list_and_strips_its_fields(void **state)
{
    struct kva_arena arena;
    struct kva_task *task;
    struct kva_item it;

    (void)state;
    kva_arena_init(&arena);
    put_data(
        "data.json",
        "[\n{\"_id\":\"66\",\"domain\":\"Law\",\"sub_domain\":\"x\",\"difficulty\":"
        "\"easy\",\"length\":\"short\",\"question\":\" Why $C_A$? \",\"choice_A\":\"one"
        "\\n\",\"choice_B\":\"\\u00a0two\",\"choice_C\":\"three\",\"choice_D\":\"four\","
        "\"answer\":\"C\",\"context\":\"\\n\\u3000Text $Q$.\\t\"},\n{\"answer\":\"E\"}]");
    task = open_set("longbench/v2", NULL, NULL);
    it = item_of(task, 0, &kva_tok_ws, &arena);
    assert_string_equal(it.context,
                        "Please read the following text and answer the question "
                        "below.\n\n<text>\nText $Q$.");
    assert_string_equal(
        it.question,
        "\n</text>\n\nWhat is the correct answer to this question: Why $C_A$?\nChoices:\n"
        "(A) one\n(B) two\n(C) three\n(D) four\n\nFormat your response as follows: \"The "
        "correct answer is (insert answer here)\".");
    assert_string_equal(it.answer_prefix, "");
    assert_string_equal(it.answers[0], "C");
    assert_string_equal(it.gold, " The correct answer is (C)");
    assert_string_equal(it.metric, "choice");
    assert_string_equal(it.labels,
                        "{\"_id\":\"66\",\"domain\":\"Law\",\"sub_domain\":\"x\","
                        "\"difficulty\":\"easy\",\"length\":\"short\"}");
    assert_true(it.guess_floor == 0.25);
    assert_int_equal(it.max_new_tokens, 128);
    assert_true(kva_task_info(task)->binary);
    assert_int_equal(kva_task_info(task)->n_available, 2);
    assert_true(
        ends_with(item_refusal(task, 1, &kva_tok_ws), "data.json:3: no \"context\""));
    kva_task_close(task);
    task = open_set("longbench/v2@250", NULL, NULL);
    assert_non_null(
        strstr(item_refusal(task, 0, &kva_tok_by), "question_longer_than_half_window"));
    kva_task_close(task);
    assert_non_null(
        strstr(refusal("longbench/v2", &(struct kva_task_opts){.profile = "kvpress"}),
               "LongBench v2 has the profile official only, not kvpress"));
    kva_arena_release(&arena);
}

/* ---- the shared samples ---- */

/* ctx + mid + q + pre with the fields of the record's line filled in. */
static void official_prompt(const struct kva_longbench_set *set, json_t *rec,
                            struct kva_buf *out)
{
    json_t *context = json_object_get(rec, "context");

    kva_longbench_fill(out, set->ctx, "{context}", json_string_value(context),
                       json_string_length(context));
    kva_buf_puts(out, set->mid);
    kva_longbench_fill(out, set->q, "{input}",
                       json_string_value(json_object_get(rec, "input")),
                       json_string_length(json_object_get(rec, "input")));
    kva_buf_puts(out, set->pre);
}

static void check_shared(const struct kva_longbench_set *set, const char *dir,
                         int *records)
{
    struct kva_arena arena;
    struct kva_buf file, prompt;
    char path[600], text[64];

    kva_arena_init(&arena);
    kva_buf_init(&file, 0);
    kva_buf_init(&prompt, 0);
    snprintf(path, sizeof path, "%s/%s.jsonl", dir, set->name);
    assert_int_equal(kva_read_file(path, 0, &file, NULL), KVA_OK);
    for (int p = 0; p < 3; p++) {
        struct kva_task *whole, *cut;
        const char *line = file.data;

        snprintf(text, sizeof text, "longbench/%s", set->name);
        whole = open_set(text, profiles[p], dir);
        snprintf(text, sizeof text, "longbench/%s@3501", set->name);
        cut = open_set(text, profiles[p], dir);
        for (int i = 0; i < kva_task_info(whole)->n_available; i++) {
            const char *end = strchr(line, '\n');
            json_t *rec = json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, NULL);
            struct kva_item it = item_of(whole, i, &kva_tok_ws, &arena);
            size_t n = it.context_len, m = strlen(it.question);
            const char *question;

            prompt.len = 0;
            official_prompt(set, rec, &prompt);
            if (p == 0) {
                assert_int_equal(n + m, prompt.len);
                assert_memory_equal(it.context, prompt.data, n);
                assert_memory_equal(it.question, prompt.data + n, m);
            }
            assert_false(it.was_cut);
            question = it.question;
            it = item_of(cut, i, &kva_tok_ws, &arena);
            assert_string_equal(it.question, question);
            if (it.was_cut)
                assert_in_range(it.n_context + it.n_question, 3498, 3502);
            *records += p == 0;
            line = end + 1;
            json_decref(rec);
            kva_arena_reset(&arena);
        }
        kva_task_close(whole);
        kva_task_close(cut);
    }
    kva_buf_release(&file);
    kva_buf_release(&prompt);
    kva_arena_release(&arena);
}

static void every_shared_record_becomes_an_item(void **state)
{
    const char *found = shared_dir("longbench");
    char dir[512];
    int records = 0;

    (void)state;
    if (!found)
        skip();
    snprintf(dir, sizeof dir, "%s", found);
    for (int i = 0; i < KVA_LONGBENCH_SETS; i++)
        check_shared(&kva_longbench_sets[i], dir, &records);
    assert_int_equal(records, 187);
}

static void exhausted_memory_is_reported_and_nothing_leaks(void **state)
{
    struct kva_task_data data[] = {{"longbench", data_dir}, {"longbench_v2", data_dir}};
    const struct kva_task_opts opts = {.data = data, .n_data = 2};
    static const char *const text[] = {"longbench/trec@900", "longbench/v2"};

    (void)state;
    put_record("trec");
    put_data("data.json", "[{\"question\":\"q\",\"choice_A\":\"a\",\"choice_B\":\"b\","
                          "\"choice_C\":\"c\",\"choice_D\":\"d\",\"answer\":\"A\","
                          "\"context\":\"c\"}]");
    for (int t = 0; t < 2; t++)
        for (long k = 1, done = 0; !done; k++) {
            struct kva_error err = {0};
            struct kva_task *task;
            struct kva_arena arena;
            struct kva_item it;
            enum kva_status rc;

            kva_arena_init(&arena);
            kva_alloc_fail_at(k);
            rc = kva_task_open(text[t], &opts, &task, &err);
            if (rc == KVA_OK)
                rc = kva_task_item(task, 0, &kva_tok_by, &arena, &it, &err);
            kva_alloc_fail_at(0);
            assert_true(rc == KVA_OK || (rc == KVA_ENOMEM && err.text[0]));
            done = rc == KVA_OK;
            kva_task_close(task);
            kva_arena_release(&arena);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(templates_equal_the_shared_copy_byte_for_byte),
        TEST(the_table_knows_sixteen_sets_and_thirteen_of_e),
        TEST(prompts_of_every_set_and_profile_follow_the_rules),
        TEST(kvpress_gives_two_cues_twice),
        TEST(the_cut_keeps_half_the_length_at_each_end),
        TEST(a_character_cut_at_an_edge_becomes_replacement_characters),
        TEST(profiles_differ_in_template_ends_and_what_is_scored),
        TEST(a_given_number_of_new_tokens_is_kept),
        TEST(records_of_e_fall_into_three_buckets),
        TEST(a_record_that_cannot_be_used_is_an_item_that_says_why),
        TEST(texts_that_open_nothing_are_refused),
        TEST(what_changes_an_item_changes_the_description),
        TEST(v2_reads_a_list_and_strips_its_fields),
        TEST(every_shared_record_becomes_an_item),
        TEST(exhausted_memory_is_reported_and_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, make_data_dir, drop_data_dir);
}
