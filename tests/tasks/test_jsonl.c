/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_jsonl.c - records of the user: what is read, and how each mistake is named. */
#include "tests/tasks/tasks_test.h"

#include <unistd.h>

static char dir[] = "/tmp/kva_jsonl_XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int drop_dir(void **state)
{
    char path[64];

    (void)state;
    snprintf(path, sizeof path, "%s/x.jsonl", dir);
    unlink(path);
    return rmdir(dir);
}

static void write_file(const void *bytes, size_t n)
{
    struct kva_error err = {0};
    char path[64];

    snprintf(path, sizeof path, "%s/x.jsonl", dir);
    if (kva_write_file(path, bytes, n, &err) != KVA_OK)
        fail_msg("%s", err.text);
}

static struct kva_task *open_lines(const char *text)
{
    write_file(text, strlen(text));
    return open_with("jsonl:x.jsonl", &(struct kva_task_opts){.base_dir = dir});
}

static void a_minimal_record_gets_the_defaults(void **state)
{
    struct kva_task *task = open_lines(
        "\n{\"context\":\"a b c\",\"question\":\"q? \",\"answers\":[\"x\",\"y\"]}\r\n"
        "  \n"
        "{\"context\":\"d\",\"question\":\"r\",\"answers\":[\"z\"],\"answer_prefix\":\"A:"
        " \","
        "\"gold\":\" zz\",\"max_new_tokens\":7,\"seed\":3,\"turns\":null}");
    const struct kva_task_info *info = kva_task_info(task);
    struct kva_arena arena;
    struct kva_item it;

    (void)state;
    kva_arena_init(&arena);
    assert_string_equal(info->suite, "jsonl");
    assert_string_equal(info->name, "x.jsonl");
    assert_string_equal(info->metric, "match_all");
    assert_int_equal(info->n_available, 2);
    assert_int_equal(info->ctx, 0);
    assert_int_equal(info->max_new_tokens, 64);
    assert_false(info->binary);
    assert_false(info->has_depth);
    it = item_of(task, 0, &kva_tok_ws, &arena);
    assert_string_equal(it.context, "a b c");
    assert_int_equal(it.context_len, 5);
    assert_string_equal(it.answer_prefix, "");
    assert_string_equal(it.gold, " x, y");
    assert_int_equal(it.max_new_tokens, 64);
    assert_int_equal(it.n_context, 3);
    assert_int_equal(it.n_question, 1);
    assert_true(it.fill == 0 && it.depth == -1);
    it = item_of(task, 1, &kva_tok_ws, &arena);
    assert_string_equal(it.gold, " zz");
    assert_int_equal(it.max_new_tokens, 7);
    assert_int_equal(it.n_answers, 1);
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void token_ids_stand_in_place_of_text(void **state)
{
    struct kva_task *task = open_lines("{\"context_ids\":[5,6,7,8],\"question_ids\":[9],"
                                       "\"answers\":[\"x\"],\"metric\":\"match_part\","
                                       "\"spans\":[{\"id\":\"E0\",\"kind\":\"E\",\"tok\":"
                                       "[1,3],\"payload\":[{\"what\":\"value\","
                                       "\"tok\":[2,3]}]}]}");
    struct kva_arena arena;
    struct kva_item it;

    (void)state;
    kva_arena_init(&arena);
    assert_true(kva_task_info(task)->binary);
    assert_true(kva_task_info(task)->has_depth);
    assert_string_equal(kva_task_info(task)->metric, "match_part");
    it = item_of(task, 0, NULL, &arena);
    assert_int_equal(it.n_context_ids, 4);
    assert_int_equal(it.context_ids[3], 8);
    assert_int_equal(it.n_question, 1);
    assert_range(it.spans[0].t0, it.spans[0].t1, 1, 3);
    assert_true(it.depth == 0.25);
    assert_int_equal(span_named(&it, "P0")->t0, 2);
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void generated_records_are_read_back_as_they_were(void **state)
{
    static const char *const text[] = {"ruler/niah_multikey_1@700",
                                       "ruler/vt@900",
                                       "niah/needle:haystack=noise,values=2@600",
                                       "ruler/niah_single_2@512",
                                       "mt/kv@300",
                                       "mt/many_shot@300",
                                       "mt/find@100"};

    (void)state;
    for (size_t t = 0; t < sizeof text / sizeof text[0]; t++) {
        struct kva_task *made = open_task(text[t]), *read;
        struct kva_arena arena;
        struct kva_buf lines;
        struct kva_error err = {0};

        kva_arena_init(&arena);
        kva_buf_init(&lines, 0);
        for (int idx = 0; idx < 3; idx++) {
            struct kva_item it = item_of(made, idx, &kva_tok_ws, &arena);

            assert_int_equal(kva_task_record(made, &it, &kva_tok_ws, &lines, &err),
                             KVA_OK);
            kva_buf_putc(&lines, '\n');
        }
        read = open_lines(lines.data);
        assert_int_equal(kva_task_info(read)->n_available, 3);
        assert_int_equal(kva_task_info(read)->has_depth, kva_task_info(made)->has_depth);
        assert_int_equal(kva_task_info(read)->binary, kva_task_info(made)->binary);
        for (int idx = 0; idx < 3; idx++) {
            struct kva_item a = item_of(made, idx, &kva_tok_ws, &arena);
            struct kva_item b = item_of(read, idx, &kva_tok_ws, &arena);

            assert_string_equal(a.context, b.context);
            assert_string_equal(a.question, b.question);
            assert_string_equal(a.answer_prefix, b.answer_prefix);
            assert_string_equal(a.gold, b.gold);
            assert_int_equal(a.max_new_tokens, b.max_new_tokens);
            assert_int_equal(a.n_context, b.n_context);
            assert_int_equal(a.n_question, b.n_question);
            assert_true(a.depth == b.depth);
            assert_int_equal(a.n_spans, b.n_spans);
            for (int i = 0; i < a.n_spans; i++) {
                const struct kva_span *x = &a.spans[i], *y = span_named(&b, x->id);

                assert_int_equal(x->kind, y->kind);
                assert_int_equal(x->queried, y->queried);
                assert_string_equal(x->role, y->role);
                assert_string_equal(x->match, y->match);
                assert_range(y->b0, y->b1, x->b0, x->b1);
                assert_range(y->t0, y->t1, x->t0, x->t1);
                assert_int_equal(x->bucket, y->bucket);
            }
        }
        kva_buf_release(&lines);
        kva_arena_release(&arena);
        kva_task_close(made);
        kva_task_close(read);
    }
}

/* Everything a record can hold, written and read back twice: equal bytes. */
static void a_record_with_every_member_is_read_back_as_it_was(void **state)
{
    static const char full[] =
        "{\"context\":\"a b c d e\",\"question\":\"q\",\"answer_prefix\":\" p\","
        "\"answers\":[\"x\"],\"gold\":\" g\",\"metric\":\"match_all\","
        "\"more_metrics\":[\"match_part\"],\"classes\":[\"u\",\"v\"],"
        "\"post\":\"first_line\",\"guess_floor\":0.25,\"decoys\":[\"w\"],"
        "\"max_new_tokens\":9,\"max_total\":99,\"feed\":{\"raw\":true,\"no_bos\":true,"
        "\"suffix\":\"\"},\"stops\":[\"\\n\",\"###\"],\"eos_text\":\"\\n\","
        "\"min_one\":true,\"loop_guard\":true,\"no_haystack\":true,\"was_cut\":true,"
        "\"labels\":{\"level\":5,\"_id\":\"k\"},\"spans\":["
        "{\"id\":\"E0.0\",\"kind\":\"E\",\"role\":\"entry\",\"byte\":[0,3],"
        "\"payload\":[{\"what\":\"value\",\"byte\":[2,3]}]},"
        "{\"id\":\"D0.0\",\"kind\":\"D\",\"match\":\"E0.0\",\"level\":2,\"byte\":[4,7],"
        "\"dtok\":-1,\"guard\":8},"
        "{\"id\":\"X0\",\"kind\":\"X\",\"role\":\"example\",\"byte\":[8,9]}]}";
    struct kva_task *task = open_lines(full);
    struct kva_arena arena;
    struct kva_buf made[2];
    struct kva_item it;

    (void)state;
    kva_arena_init(&arena);
    for (int round = 0; round < 2; round++) {
        struct kva_error err = {0};

        it = item_of(task, 0, &kva_tok_ws, &arena);
        kva_buf_init(&made[round], 0);
        assert_int_equal(kva_task_record(task, &it, &kva_tok_ws, &made[round], &err),
                         KVA_OK);
        kva_task_close(task);
        task = open_lines(made[round].data);
    }
    assert_string_equal(made[0].data, made[1].data);
    assert_string_equal(it.more_metrics[0], "match_part");
    assert_null(it.more_metrics[1]);
    assert_true(it.n_classes == 2 && it.n_decoys == 1 && it.n_stops == 2);
    assert_int_equal(it.post, KVA_POST_FIRST_LINE);
    assert_true(it.guess_floor == 0.25);
    assert_int_equal(it.max_total, 99);
    assert_true(it.feed.raw && it.feed.no_bos && it.min_one && it.loop_guard);
    assert_string_equal(it.feed.suffix, "");
    assert_string_equal(it.eos_text, "\n");
    assert_string_equal(it.labels, "{\"level\":5,\"_id\":\"k\"}");
    assert_true(it.was_cut && it.no_haystack);
    assert_string_equal(span_named(&it, "P0.0")->match, "E0.0");
    assert_true(span_named(&it, "X0")->kind == 'X');
    assert_int_equal(span_named(&it, "D0.0")->dtok, -1);
    assert_int_equal(span_named(&it, "D0.0")->guard, 8);
    kva_buf_release(&made[0]);
    kva_buf_release(&made[1]);
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void every_turn_of_a_record_is_a_sample_on_its_context(void **state)
{
    struct kva_task *task = open_lines(
        "{\"context\":\"one 11 two 22 three 33\",\"metric\":\"match_part\","
        "\"max_new_tokens\":5,\"turns\":["
        "{\"question\":\"one?\",\"answers\":[\"11\"],\"spans\":[\"E0\"]},"
        "{\"question\":\"two?\",\"answers\":[\"22\"],\"answer_prefix\":\"It is \","
        "\"max_new_tokens\":7,\"spans\":[\"E1\"]},"
        "{\"question\":\"all?\",\"answers\":[\"33\"],\"spans\":[\"E0\",\"E1\"]}],"
        "\"spans\":[{\"id\":\"E0\",\"kind\":\"E\",\"byte\":[0,6],\"payload\":"
        "[{\"what\":\"value\",\"byte\":[4,6]}]},"
        "{\"id\":\"E1.0\",\"kind\":\"E\",\"byte\":[7,13]},"
        "{\"id\":\"E1.1\",\"kind\":\"E\",\"byte\":[14,22]}]}\n"
        "{\"context\":\"x\",\"question\":\"q\",\"answers\":[\"a\"],"
        "\"metric\":\"match_part\"}");
    const struct kva_task_info *info = kva_task_info(task);
    struct kva_arena arena;
    struct kva_item it;

    (void)state;
    kva_arena_init(&arena);
    assert_int_equal(info->n_available, 4);
    assert_int_equal(info->turns, 1); /* the records have one and three */
    for (int t = 0; t < 3; t++) {
        it = item_of(task, t, &kva_tok_ws, &arena);
        assert_string_equal(it.context, "one 11 two 22 three 33");
        assert_int_equal(it.turn, t);
        assert_int_equal(it.max_new_tokens, t == 1 ? 7 : 5);
        assert_string_equal(it.answer_prefix, t == 1 ? "It is " : "");
        assert_string_equal(it.gold, t == 0 ? " 11" : t == 1 ? "22" : " 33");
        assert_true(span_named(&it, "E0")->queried == (t != 1));
        assert_true(span_named(&it, "P0")->queried == (t != 1));
        assert_true(span_named(&it, "E1.0")->queried == (t != 0));
        assert_true(span_named(&it, "E1.1")->queried == (t != 0));
        assert_true((it.depth == 0) == (t == 0));
    }
    it = item_of(task, 3, &kva_tok_ws, &arena);
    assert_string_equal(it.context, "x");
    assert_int_equal(it.turn, 0);
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void records_of_as_many_turns_each_say_how_many(void **state)
{
    struct kva_task *task =
        open_lines("{\"context_ids\":[1,2],\"turns\":[{\"question_ids\":[3],\"answers\":"
                   "[\"a\"]},{\"question_ids\":[4,5],\"answers\":[\"b\"]}]}\n"
                   "{\"context\":\"c\",\"answer_prefix\":\"A:\",\"turns\":[{\"question\":"
                   "\"q\",\"answers\":[\"a\"]},{\"question\":\"r\",\"answers\":[\"b\"],"
                   "\"gold\":\" g\"}]}");
    struct kva_arena arena;
    struct kva_item it;

    (void)state;
    kva_arena_init(&arena);
    assert_int_equal(kva_task_info(task)->turns, 2);
    it = item_of(task, 1, NULL, &arena);
    assert_int_equal(it.n_question, 2);
    assert_int_equal(it.question_ids[1], 5);
    it = item_of(task, 3, &kva_tok_ws, &arena);
    assert_string_equal(it.question, "r");
    assert_string_equal(it.answer_prefix, "A:");
    assert_string_equal(it.gold, " g");
    kva_arena_release(&arena);
    kva_task_close(task);
}

static void mistakes_are_named_with_file_and_line(void **state)
{
#define OK   "{\"context\":\"abcd\",\"question\":\"q\",\"answers\":[\"x\"]}\n"
#define REST "\"context\":\"abcd\",\"question\":\"q\",\"answers\":[\"x\"]"
    static const char *const row[][2] = {
        {OK "\n{\"context\":", ":3: "},
        {OK "[1]", ":2: not a JSON object"},
        {"{" REST ",\"anwsers\":[]}",
         ":1: unknown field \"anwsers\"; did you mean answers?"},
        {"{" REST ",\"temperature\":0}", ":1: unknown field \"temperature\""},
        {"{" REST ",\"question\":\"r\"}", ":1: duplicate object key"},
        {"{\"context\":\"a\",\"answers\":[\"x\"]}", ":1: no \"question\""},
        {"{\"question\":\"a\",\"answers\":[\"x\"]}", ":1: no \"context\""},
        {"{\"context\":\"\",\"question\":\"a\",\"answers\":[\"x\"]}",
         ":1: \"context\" is empty"},
        {"{\"context\":7,\"question\":\"a\",\"answers\":[\"x\"]}",
         ":1: \"context\" is not a text"},
        {"{\"context\":\"a\",\"question\":\"a\"}", ":1: \"answers\" is not a list with"},
        {"{\"context\":\"a\",\"question\":\"a\",\"answers\":[]}",
         ":1: \"answers\" is not a list"},
        {"{\"context\":\"a\",\"question\":\"a\",\"answers\":[\"x\",\"\"]}",
         ":1: answers[1] is not a text, or is empty"},
        {"{" REST ",\"metric\":\"rouge\"}", ":1: unknown metric \"rouge\""},
        {OK "{" REST ",\"metric\":\"match_part\"}",
         ":2: metric match_part, but the first record has match_all"},
        {"{" REST ",\"max_new_tokens\":0}",
         ":1: \"max_new_tokens\" is not a whole number"},
        {"{" REST ",\"max_new_tokens\":1.5}",
         ":1: \"max_new_tokens\" is not a whole number"},
        {"{" REST ",\"gold\":\"\"}", ":1: \"gold\" is empty"},
        {"{" REST ",\"more_metrics\":[\"rouge\"]}", ":1: unknown metric \"rouge\""},
        {"{" REST ",\"post\":\"last_line\"}", ":1: \"post\" is none, first_line"},
        {"{" REST ",\"guess_floor\":2}", ":1: \"guess_floor\" is not a number"},
        {"{" REST ",\"stops\":[]}", ":1: \"stops\" is not a list"},
        {"{" REST ",\"feed\":{\"rwa\":true}}", ":1: unknown field \"rwa\" in feed"},
        {"{" REST ",\"min_one\":1}", ":1: \"min_one\" is not true or false"},
        {"{" REST ",\"labels\":3}", ":1: \"labels\" is not an object"},
        {"{" REST ",\"max_total\":0}", ":1: \"max_total\" is not a whole number"},
        {"{" REST ",\"turns\":[]}", ":1: \"turns\" is not a list with at least one turn"},
        {"{" REST ",\"turns\":[{}]}",
         ":1: \"question\" stands in the turns, not beside them"},
        {"{\"context\":\"c\",\"turns\":[3]}", ":1: turn 1: not an object"},
        {"{\"context\":\"c\",\"turns\":[{\"question\":\"q\",\"answers\":[\"x\"]},"
         "{\"question\":\"q\"}]}",
         ":1: turn 2: \"answers\" is not a list with at least one text"},
        {"{\"context\":\"c\",\"turns\":[{\"question\":\"q\",\"answer\":[\"x\"]}]}",
         ":1: turn 1: unknown field \"answer\"; did you mean answers?"},
        {"{\"context\":\"c\",\"turns\":[{\"question\":\"q\",\"answers\":[\"x\"],"
         "\"context\":\"d\"}]}",
         ":1: turn 1: unknown field \"context\""},
        {"{\"context\":\"c\",\"turns\":[{\"question\":\"q\",\"answers\":[\"x\"],"
         "\"spans\":[\"E0\"]}]}",
         ":1: turn 1: spans[0] is no E span of the record"},
        {"{\"context\":\"c\",\"turns\":[{\"question\":\"q\",\"answers\":[\"x\"],"
         "\"spans\":\"E0\"}]}",
         ":1: turn 1: \"spans\" is not a list of ids"},
        {"{\"context\":\"c\",\"metric\":\"match_part\",\"turns\":[{\"question\":\"q\","
         "\"answers\":[\"x\"]},{\"question\":\"q\",\"answers\":[\"x\"],\"metric\":"
         "\"match_all\"}]}",
         ":1: turn 2: metric match_all, but the first record has match_part"},
        {"{" REST ",\"context_ids\":[1]}", ":1: token ids stand in place of context"},
        {"{\"context_ids\":[1],\"answers\":[\"x\"]}",
         ":1: \"question_ids\" is not a list"},
        {"{\"context_ids\":[1,-1],\"question_ids\":[1],\"answers\":[\"x\"]}",
         ":1: \"context_ids\"[1] is not a token id"},
        {"{" REST ",\"spans\":{}}", ":1: \"spans\" is not a list"},
        {"{" REST ",\"spans\":[{\"id\":\"E0\",\"kind\":\"E\",\"byte\":[1,5]}]}",
         ":1: a span's \"byte\" does not lie in the context (0 to 4)"},
        {"{" REST ",\"spans\":[{\"id\":\"E0\",\"kind\":\"E\",\"byte\":[2,2]}]}",
         ":1: a span's \"byte\" does not lie in the context (0 to 4)"},
        {"{" REST ",\"spans\":[{\"id\":\"E0\",\"kind\":\"E\",\"tok\":[0,1]}]}",
         ":1: a span's \"byte\" is not [begin, end]"},
        {"{" REST ",\"spans\":[{\"id\":\"E0\",\"kind\":\"Q\",\"byte\":[0,1]}]}",
         ":1: a span's \"kind\" is E, D or X"},
        {"{" REST
         ",\"spans\":[{\"id\":\"E123456789012345\",\"kind\":\"E\",\"byte\":[0,1]}]}",
         ":1: a span's \"id\" is not a text of 1 to 15 bytes"},
        {"{" REST ",\"spans\":[{\"id\":\"A0\",\"kind\":\"E\",\"byte\":[0,1]}]}",
         ":1: span id \"A0\" does not begin with E"},
        {"{" REST ",\"spans\":[{\"id\":\"E0\",\"kind\":\"E\",\"byte\":[0,1]},"
         "{\"id\":\"E0\",\"kind\":\"E\",\"byte\":[1,2]}]}",
         ":1: two spans have the id E0"},
        {"{" REST
         ",\"spans\":[{\"id\":\"E0\",\"kind\":\"E\",\"byte\":[0,1],\"size\":3}]}",
         ":1: unknown field \"size\" in a span"},
        {"{" REST ",\"spans\":[{\"id\":\"E0\",\"kind\":\"E\",\"byte\":[0,1],\"payload\":"
         "[{\"what\":\"thing\",\"byte\":[0,1]}]}]}",
         ":1: a payload's \"what\" is value or key"},
        {"{\"context\":\"a\\u0000b\",\"question\":\"a\",\"answers\":[\"x\"]}", ":1: "},
        {"{\"context\":\"\xff\",\"question\":\"a\",\"answers\":[\"x\"]}", ":1: "},
        {"", ": no records"},
        {"\n \n", ": no records"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        const char *got;
        char head[100];

        write_file(row[i][0], strlen(row[i][0]));
        got = refusal("jsonl:x.jsonl", &(struct kva_task_opts){.base_dir = dir});
        snprintf(head, sizeof head, "EFORMAT: %s/x.jsonl%s", dir, row[i][1]);
        if (strncmp(got, head, strlen(head)) != 0)
            fail_msg("%s\n  gives %s\n  not   %s", row[i][0], got, head);
    }
    assert_non_null(strstr(refusal("jsonl:no/such.jsonl", NULL), "EIO: no/such.jsonl: "));
}

static void the_description_holds_the_hash_and_only_the_source_the_path(void **state)
{
    struct kva_task *task = open_lines(OK);
    struct kva_arena arena;
    const char *gen, *source;
    uint8_t digest[32];
    char hex[65];

    (void)state;
    kva_arena_init(&arena);
    kva_sha256_of(OK, strlen(OK), digest);
    kva_hex(digest, 32, hex);
    gen = kva_task_gen_json(task, &arena);
    source = kva_task_source_json(task, &arena);
    assert_non_null(strstr(gen, hex));
    assert_non_null(strstr(source, hex));
    assert_null(strstr(gen, "x.jsonl"));
    assert_non_null(strstr(source, "\"path\":\"x.jsonl\""));
    kva_arena_release(&arena);
    kva_task_close(task);
}

/* Any bytes give a task or a message, never a crash. */
static void damaged_records_are_refused_or_read(void **state)
{
    struct kva_task *made = open_task("ruler/niah_multikey_1@420");
    struct kva_rng rng = {7};
    struct kva_error err = {0};
    struct kva_arena arena;
    struct kva_buf line;
    struct kva_item it;
    int read = 0;

    (void)state;
    kva_arena_init(&arena);
    kva_buf_init(&line, 0);
    it = item_of(made, 0, &kva_tok_ws, &arena);
    assert_int_equal(kva_task_record(made, &it, &kva_tok_ws, &line, &err), KVA_OK);
    for (int round = 0; round < 400; round++) {
        char *copy = malloc(line.len);
        struct kva_task *task;

        assert_non_null(copy);
        memcpy(copy, line.data, line.len);
        for (int k = 0; k < 1 + round % 4; k++)
            copy[kva_rng_below(&rng, line.len)] =
                (char)(round % 2 ? kva_rng_below(&rng, 256)
                                 : ' ' + kva_rng_below(&rng, 95));
        write_file(copy, round % 5 ? line.len : kva_rng_below(&rng, line.len));
        free(copy);
        err = (struct kva_error){0};
        if (kva_task_open("jsonl:x.jsonl", &(struct kva_task_opts){.base_dir = dir},
                          &task, &err) == KVA_OK) {
            kva_arena_reset(&arena);
            item_of(task, 0, &kva_tok_by, &arena);
            read++;
        } else {
            assert_true(err.text[0] && !strchr(err.text, '\n'));
        }
        kva_task_close(task);
    }
    assert_in_range(read, 20, 380);
    kva_buf_release(&line);
    kva_arena_release(&arena);
    kva_task_close(made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_minimal_record_gets_the_defaults),
        TEST(token_ids_stand_in_place_of_text),
        TEST(generated_records_are_read_back_as_they_were),
        TEST(a_record_with_every_member_is_read_back_as_it_was),
        TEST(every_turn_of_a_record_is_a_sample_on_its_context),
        TEST(records_of_as_many_turns_each_say_how_many),
        TEST(mistakes_are_named_with_file_and_line),
        TEST(the_description_holds_the_hash_and_only_the_source_the_path),
        TEST(damaged_records_are_refused_or_read),
    };

    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
