/* SPDX-License-Identifier: GPL-3.0-or-later */
/* chat.c - chat templates as data (models.md 7.2).
 *
 * Only one shape is ever needed: one user message that ends with the question, and the
 * opening of the answer. A family is therefore a prefix, a suffix and a flag: context
 * text  = prefix + (trim ? left-trimmed context : context) question text = question +
 * suffix + answer prefix Dates are pinned (26 Jul 2024; 2025-08-05 for harmony): a prompt
 * must not change overnight. Families of models that can think come in two forms,
 * thinking off being the plain name. */
#include "models/model.h"

#include <string.h>

#define CHATML_SUFFIX "<|im_end|>\n<|im_start|>assistant\n"
#define CHATML_TURN   "<|im_end|>\n<|im_start|>user\n"
#define LLAMA3_SUFFIX "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
#define LLAMA3_USER   "<|start_header_id|>user<|end_header_id|>\n\n"
#define LLAMA3_TURN   "<|eot_id|>" LLAMA3_USER
#define HARMONY_PREFIX                                                                   \
    "<|start|>system<|message|>You are ChatGPT, a large language model trained by "      \
    "OpenAI.\n"                                                                          \
    "Knowledge cutoff: 2024-06\nCurrent date: 2025-08-05\n\nReasoning: medium\n\n"       \
    "# Valid channels: analysis, commentary, final. Channel must be included for every " \
    "message.<|end|><|start|>user<|message|>"
#define HARMONY_SUFFIX "<|end|><|start|>assistant"
#define HARMONY_TURN   "<|end|><|start|>user<|message|>"

static const struct kva_chat families[] = {
    {"none", "", "\n", false, "\n"},
    {"llama3", "<|begin_of_text|>" LLAMA3_USER, LLAMA3_SUFFIX, true, LLAMA3_TURN},
    {"llama3.1",
     "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
     "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul "
     "2024\n\n<|eot_id|>" LLAMA3_USER,
     LLAMA3_SUFFIX, true, LLAMA3_TURN},
    {"chatml", "<|im_start|>user\n", CHATML_SUFFIX, false, CHATML_TURN},
    {"qwen2.5",
     "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
     "assistant."
     "<|im_end|>\n<|im_start|>user\n",
     CHATML_SUFFIX, false, CHATML_TURN},
    {"smollm2",
     "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by "
     "Hugging Face"
     "<|im_end|>\n<|im_start|>user\n",
     CHATML_SUFFIX, false, CHATML_TURN},
    {"qwen3", "<|im_start|>user\n", CHATML_SUFFIX "<think>\n\n</think>\n\n", false,
     CHATML_TURN},
    {"qwen3-think", "<|im_start|>user\n", CHATML_SUFFIX, false, CHATML_TURN},
    {"qwen3.5", "<|im_start|>user\n", CHATML_SUFFIX "<think>\n\n</think>\n\n", true,
     CHATML_TURN},
    {"qwen3.5-think", "<|im_start|>user\n", CHATML_SUFFIX "<think>\n", true, CHATML_TURN},
    {"mistral3", "<s>[INST] ", "[/INST]", false, "</s>[INST] "},
    {"gemma", "<bos><start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n", true,
     "<end_of_turn>\n<start_of_turn>user\n"},
    {"harmony", HARMONY_PREFIX, HARMONY_SUFFIX, false, HARMONY_TURN},
    {"harmony-final", HARMONY_PREFIX, HARMONY_SUFFIX "<|channel|>final<|message|>", false,
     HARMONY_TURN},
    {"olmo2", "<|endoftext|><|user|>\n", "\n<|assistant|>\n", false,
     "<|endoftext|>\n<|user|>\n"},
    {"olmo3",
     "<|im_start|>system\nYou are a helpful function-calling AI assistant. You do not "
     "currently "
     "have access to any functions. "
     "<functions></functions><|im_end|>\n<|im_start|>user\n",
     CHATML_SUFFIX, false, CHATML_TURN},
};
enum { FAMILIES = sizeof families / sizeof *families };

const struct kva_chat *kva_chat_by_name(const char *family)
{
    for (int i = 0; family && i < FAMILIES; i++)
        if (strcmp(families[i].family, family) == 0)
            return &families[i];
    return NULL;
}

const char *const *kva_chat_names(void)
{
    static const char *const names[] = {
        "none",    "llama3",        "llama3.1", "chatml",        "qwen2.5",  "smollm2",
        "qwen3",   "qwen3-think",   "qwen3.5",  "qwen3.5-think", "mistral3", "gemma",
        "harmony", "harmony-final", "olmo2",    "olmo3",         NULL};
    _Static_assert(sizeof names / sizeof *names == FAMILIES + 1, "one name per family");
    return names;
}

/* Markers in order; the first row whose texts all occur decides. Rows with `arch` count
 * for that architecture only. */
static const struct {
    const char *marker, *also, *arch, *family;
} markers[] = {
    {"<|channel|>", "<|start|>", NULL, "harmony"},
    {"<start_of_turn>", NULL, NULL, "gemma"},
    {"<|start_header_id|>", "Cutting Knowledge Date", NULL, "llama3.1"},
    {"<|start_header_id|>", NULL, NULL, "llama3"},
    {"[INST]", NULL, NULL, "mistral3"},
    {"<functions>", NULL, NULL, "olmo3"},
    {"<|im_start|>", NULL, "qwen35", "qwen3.5"},
    {"<|im_start|>", "SmolLM", NULL, "smollm2"},
    {"<|im_start|>", "created by Alibaba Cloud", NULL, "qwen2.5"},
    {"<|im_start|>", "enable_thinking", NULL, "qwen3"},
    {"<|im_start|>", NULL, NULL, "chatml"},
    {"<|user|>", "<|assistant|>", NULL, "olmo2"},
};

static bool holds(const char *text, size_t n, const char *marker)
{
    return !marker || memmem(text, n, marker, strlen(marker)) != NULL;
}

const struct kva_chat *kva_chat_detect(const char *text, size_t n, const char *arch)
{
    for (size_t i = 0; text && i < sizeof markers / sizeof *markers; i++) {
        if (markers[i].arch && (!arch || strcmp(arch, markers[i].arch) != 0))
            continue;
        if (holds(text, n, markers[i].marker) && holds(text, n, markers[i].also))
            return kva_chat_by_name(markers[i].family);
    }
    kva_log(KVA_LOG_WARN,
            text && n > 0
                ? "the file's chat template is of no known family; prompts are fed raw"
                : "the file has no chat template; prompts are fed raw");
    return &families[0];
}
