/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_chat.c - family texts, detection by markers, rendering against the reference
 * renderer. */
#include "tests/models/reference.h"

#include <jansson.h>

static const char *family_of(const char *template_text, const char *arch)
{
    return kva_chat_detect(template_text, strlen(template_text), arch)->family;
}

static char logged[512];
static int warnings;

static void keep_warning(enum kva_log_level level, const char *text, void *ctx)
{
    (void)ctx;
    if (level == KVA_LOG_WARN) {
        warnings++;
        snprintf(logged, sizeof logged, "%s", text);
    }
}

static void markers_decide_in_order(void **state)
{
    (void)state;
    static const struct {
        const char *text, *arch, *family;
    } want[] = {
        {"<|start|>x<|channel|>", "gpt-oss", "harmony"},
        {"<start_of_turn>user", "gemma3", "gemma"},
        {"<|start_header_id|>", "llama", "llama3"},
        {"<|start_header_id|> Cutting Knowledge Date: December 2023", "llama",
         "llama3.1"},
        {"[INST] [/INST]", "llama", "mistral3"},
        {"<functions> <|im_start|>", "olmo2", "olmo3"},
        {"<|im_start|> named SmolLM, trained", "llama", "smollm2"},
        {"<|im_start|> created by Alibaba Cloud", "qwen2", "qwen2.5"},
        {"<|im_start|> enable_thinking", "qwen3", "qwen3"},
        {"<|im_start|> enable_thinking", "qwen35", "qwen3.5"},
        {"<|im_start|>", NULL, "chatml"},
        {"<|user|> <|assistant|>", "olmo2", "olmo2"},
        {"<|im_start|> <start_of_turn>", "llama", "gemma"},
    };
    warnings = 0;
    kva_log_set(keep_warning, NULL, KVA_LOG_WARN);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_string_equal(family_of(want[i].text, want[i].arch), want[i].family);
    kva_log_set(NULL, NULL, KVA_LOG_WARN);
    assert_int_equal(warnings, 0);
}

static void nothing_known_means_none_with_a_warning(void **state)
{
    (void)state;
    warnings = 0;
    kva_log_set(keep_warning, NULL, KVA_LOG_WARN);
    assert_string_equal(family_of("{{ messages }}", "llama"), "none");
    assert_non_null(strstr(logged, "no known family"));
    assert_string_equal(family_of("<|channel|> alone", "llama"), "none");
    assert_string_equal(family_of("<|user|> alone", "llama"), "none");
    assert_string_equal(kva_chat_detect(NULL, 0, "llama")->family, "none");
    assert_non_null(strstr(logged, "no chat template"));
    kva_log_set(NULL, NULL, KVA_LOG_WARN);
    assert_int_equal(warnings, 4);
}

static void every_name_leads_to_its_family(void **state)
{
    (void)state;
    int n = 0;
    for (const char *const *name = kva_chat_names(); *name; name++, n++) {
        const struct kva_chat *c = kva_chat_by_name(*name);
        assert_non_null(c);
        assert_string_equal(c->family, *name);
        assert_non_null(c->prefix);
        assert_non_null(c->suffix);
    }
    assert_int_equal(n, 16);
    assert_null(kva_chat_by_name("llama4"));
    assert_null(kva_chat_by_name(NULL));
}

/* Between an answer and the next question stand what ends a turn and the same opening of
 * a user turn that stands before the first. */
static void the_next_turn_opens_as_the_first_one_did(void **state)
{
    static const struct {
        const char *name, *end, *user;
    } t[] = {{"llama3.1", "<|eot_id|>", "<|start_header_id|>user<|end_header_id|>\n\n"},
             {"smollm2", "<|im_end|>\n", "<|im_start|>user\n"},
             {"qwen3", "<|im_end|>\n", "<|im_start|>user\n"},
             {"mistral3", "</s>", "[INST] "},
             {"gemma", "<end_of_turn>\n", "<start_of_turn>user\n"},
             {"harmony-final", "<|end|>", "<|start|>user<|message|>"},
             {"olmo2", "<|endoftext|>\n", "<|user|>\n"}};
    (void)state;
    for (const char *const *name = kva_chat_names(); *name; name++)
        assert_non_null(kva_chat_by_name(*name)->turn);
    assert_string_equal(kva_chat_by_name("none")->turn, "\n");
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        const struct kva_chat *c = kva_chat_by_name(t[i].name);
        size_t n = strlen(t[i].end), prefix = strlen(c->prefix), user = strlen(t[i].user);
        assert_memory_equal(c->turn, t[i].end, n);
        assert_string_equal(c->turn + n, t[i].user);
        assert_string_equal(c->prefix + prefix - user, t[i].user);
    }
}

static void family(const char *name, const char *prefix, const char *suffix, bool trim)
{
    const struct kva_chat *c = kva_chat_by_name(name);
    assert_non_null(c);
    assert_string_equal(c->prefix, prefix);
    assert_string_equal(c->suffix, suffix);
    assert_int_equal(c->trim, trim);
}

static void families_read_as_documented(void **state)
{
    (void)state;
    const char *chatml = "<|im_end|>\n<|im_start|>assistant\n";
    family("none", "", "\n", false);
    family("llama3", "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n",
           "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", true);
    family("llama3.1",
           "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting "
           "Knowledge Date: "
           "December 2023\nToday Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user"
           "<|end_header_id|>\n\n",
           "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", true);
    family("qwen2.5",
           "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a "
           "helpful assistant."
           "<|im_end|>\n<|im_start|>user\n",
           chatml, false);
    family("qwen3", "<|im_start|>user\n",
           "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", false);
    family("qwen3-think", "<|im_start|>user\n", chatml, false);
    family("qwen3.5", "<|im_start|>user\n",
           "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", true);
    family("qwen3.5-think", "<|im_start|>user\n",
           "<|im_end|>\n<|im_start|>assistant\n<think>\n", true);
    family("mistral3", "<s>[INST] ", "[/INST]", false);
    family("gemma", "<bos><start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n",
           true);
    family("harmony",
           "<|start|>system<|message|>You are ChatGPT, a large language model trained by "
           "OpenAI.\n"
           "Knowledge cutoff: 2024-06\nCurrent date: 2025-08-05\n\nReasoning: "
           "medium\n\n# Valid "
           "channels: analysis, commentary, final. Channel must be included for every "
           "message.<|end|>"
           "<|start|>user<|message|>",
           "<|end|><|start|>assistant", false);
    assert_string_equal(kva_chat_by_name("harmony-final")->suffix,
                        "<|end|><|start|>assistant<|channel|>final<|message|>");
    family("olmo2", "<|endoftext|><|user|>\n", "\n<|assistant|>\n", false);
}

/* One user message through prefix and suffix. */
static void render(const struct kva_chat *c, const char *content, struct kva_buf *out)
{
    kva_buf_puts(out, c->prefix);
    kva_buf_puts(out, content);
    kva_buf_puts(out, c->suffix);
}

static void one_user_message_renders_as_the_reference_does(void **state)
{
    (void)state;
    FILE *f = fopen(reference_file("oracle/chat-smollm2.jsonl"), "r");
    assert_non_null(f);
    const char *path = smollm2_path();
    struct kva_tokenizer *t = path ? smollm2_tokenizer() : NULL;
    if (!t)
        print_message("SKIP (ids only): models/" SMOLLM2_FILE
                      " is not in the cache directory\n");
    char *line = NULL;
    size_t cap = 0;
    int rendered = 0;
    while (getline(&line, &cap, f) > 0) {
        json_t *row = json_loads(line, 0, NULL);
        json_t *messages = json_object_get(row, "messages");
        json_t *first = json_array_get(messages, 0);
        const char *text = json_string_value(json_object_get(row, "text"));
        if (json_array_size(messages) == 1 &&
            strcmp(json_string_value(json_object_get(first, "role")), "user") == 0 &&
            json_is_true(json_object_get(row, "add_generation_prompt"))) {
            struct kva_buf got;
            kva_buf_init(&got, 0);
            render(kva_chat_by_name("smollm2"),
                   json_string_value(json_object_get(first, "content")), &got);
            assert_string_equal(got.data, text);
            kva_buf_release(&got);
            rendered++;
        }
        /* ids of every row: control tokens are recognised inside user text too */
        json_t *want = json_object_get(row, "ids_parse_special");
        struct kva_tokens ids = {0};
        if (t) {
            assert_int_equal(
                kva_tokenizer_encode(t, text, strlen(text), true, &ids, NULL), KVA_OK);
            assert_int_equal(ids.n, json_array_size(want));
            for (size_t i = 0; i < ids.n; i++)
                assert_int_equal(ids.id[i], json_integer_value(json_array_get(want, i)));
        }
        kva_tokens_release(&ids);
        json_decref(row);
    }
    assert_int_equal(rendered, 2);
    free(line);
    fclose(f);
    kva_tokenizer_free(t);
}

static void the_real_file_is_recognised(void **state)
{
    (void)state;
    const char *path = smollm2_path();
    if (!path) {
        print_message("SKIP: models/" SMOLLM2_FILE " is not in the cache directory\n");
        skip();
    }
    struct kva_gguf *g;
    const char *text;
    size_t n;
    assert_int_equal(kva_gguf_open(path, &g, NULL), KVA_OK);
    assert_true(kva_gguf_str(g, "tokenizer.chat_template", &text, &n));
    assert_string_equal(kva_chat_detect(text, n, "llama")->family, "smollm2");
    kva_gguf_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markers_decide_in_order),
        cmocka_unit_test(nothing_known_means_none_with_a_warning),
        cmocka_unit_test(the_next_turn_opens_as_the_first_one_did),
        cmocka_unit_test(every_name_leads_to_its_family),
        cmocka_unit_test(families_read_as_documented),
        cmocka_unit_test(one_user_message_renders_as_the_reference_does),
        cmocka_unit_test(the_real_file_is_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
