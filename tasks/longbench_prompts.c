/* SPDX-License-Identifier: GPL-3.0-or-later */
/* longbench_prompts.c - the 16 English and code data sets of LongBench and its v2.
 *
 * Templates byte for byte (THUDM/LongBench, MIT: LongBench/config/dataset2prompt.json,
 * prompts/0shot.txt), cut in four. Oddities ("asconcisely", blanks before line feeds and
 * at the ends) are the benchmark's. */
#include "tasks/longbench.h"

#include <string.h>

const struct kva_longbench_set kva_longbench_sets[KVA_LONGBENCH_SETS] = {
    {.name = "narrativeqa",
     .domain = "single-doc QA",
     .n = 200,
     .ctx = "You are given a story, which can be either a novel or a movie script, and a "
            "question. Answer the question asconcisely as you can, using a single phrase "
            "if possible. Do not provide any explanation.\n\n"
            "Story: {context}\n\n",
     .mid = "Now, answer the question based on the story asconcisely as you can, using a "
            "single phrase if possible. Do not provide any explanation.\n\n",
     .q = "Question: {input}\n\n",
     .pre = "Answer:",
     .cue = ""},
    {.name = "qasper",
     .domain = "single-doc QA",
     .n = 200,
     .n_e = 224,
     .ctx = "You are given a scientific article and a question. Answer the question as "
            "concisely as you can, using a single phrase or sentence if possible. If the "
            "question cannot be answered based on the information in the article, write "
            "\"unanswerable\". If the question is a yes/no question, answer \"yes\", "
            "\"no\", or \"unanswerable\". Do not provide any explanation.\n\n"
            "Article: {context}\n\n",
     .mid = " Answer the question based on the above article as concisely as you can, "
            "using a single phrase or sentence if possible. If the question cannot be "
            "answered based on the information in the article, write \"unanswerable\". "
            "If the question is a yes/no question, answer \"yes\", \"no\", or "
            "\"unanswerable\". Do not provide any explanation.\n\n",
     .q = "Question: {input}\n\n",
     .pre = "Answer:",
     .cue = ""},
    {.name = "multifieldqa_en",
     .domain = "single-doc QA",
     .n = 150,
     .n_e = 150,
     .ctx = "Read the following text and answer briefly.\n\n"
            "{context}\n\n",
     .mid = "Now, answer the following question based on the above text, only give me "
            "the answer and do not output any other words.\n\n",
     .q = "Question: {input}\n",
     .pre = "Answer:",
     .cue = ""},
    {.name = "hotpotqa",
     .domain = "multi-doc QA",
     .n = 200,
     .n_e = 300,
     .ctx = "Answer the question based on the given passages. Only give me the answer "
            "and do not output any other words.\n\n"
            "The following are given passages.\n"
            "{context}\n\n",
     .mid = "Answer the question based on the given passages. Only give me the answer "
            "and do not output any other words.\n\n",
     .q = "Question: {input}\n",
     .pre = "Answer:",
     .cue = ""},
    {.name = "2wikimqa",
     .domain = "multi-doc QA",
     .n = 200,
     .n_e = 300,
     .ctx = "Answer the question based on the given passages. Only give me the answer "
            "and do not output any other words.\n\n"
            "The following are given passages.\n"
            "{context}\n\n",
     .mid = "Answer the question based on the given passages. Only give me the answer "
            "and do not output any other words.\n\n",
     .q = "Question: {input}\n",
     .pre = "Answer:",
     .cue = ""},
    {.name = "musique",
     .domain = "multi-doc QA",
     .n = 200,
     .ctx = "Answer the question based on the given passages. Only give me the answer "
            "and do not output any other words.\n\n"
            "The following are given passages.\n"
            "{context}\n\n",
     .mid = "Answer the question based on the given passages. Only give me the answer "
            "and do not output any other words.\n\n",
     .q = "Question: {input}\n",
     .pre = "Answer:",
     .cue = ""},
    {.name = "gov_report",
     .domain = "summarization",
     .n = 200,
     .n_e = 300,
     .ctx = "You are given a report by a government agency. Write a one-page summary of "
            "the report.\n\n"
            "Report:\n"
            "{context}\n\n",
     .mid = "",
     .q = "Now, write a one-page summary of the report.\n\n",
     .pre = "Summary:",
     .cue = ""},
    {.name = "qmsum",
     .domain = "summarization",
     .n = 200,
     .ctx = "You are given a meeting transcript and a query containing a question or "
            "instruction. Answer the query in one or more sentences.\n\n"
            "Transcript:\n"
            "{context}\n\n",
     .mid = "Now, answer the query based on the above meeting transcript in one or more "
            "sentences.\n\n",
     .q = "Query: {input}\n",
     .pre = "Answer:",
     .cue = ""},
    {.name = "multi_news",
     .domain = "summarization",
     .n = 200,
     .n_e = 294,
     .ctx = "You are given several news passages. Write a one-page summary of all news. "
            "\n\n"
            "News:\n"
            "{context}\n\n",
     .mid = "",
     .q = "Now, write a one-page summary of all the news.\n\n",
     .pre = "Summary:",
     .cue = ""},
    {.name = "trec",
     .domain = "few-shot",
     .n = 200,
     .n_e = 300,
     .ctx = "Please determine the type of the question below. Here are some examples of "
            "questions.\n\n"
            "{context}\n",
     .mid = "",
     .q = "{input}",
     .pre = "",
     .cue = "Type:",
     .first_line = true,
     .plain = true,
     .guess_floor = 1.0 / 50},
    {.name = "triviaqa",
     .domain = "few-shot",
     .n = 200,
     .n_e = 300,
     .ctx = "Answer the question based on the given passage. Only give me the answer and "
            "do not output any other words. The following are some examples.\n\n"
            "{context}\n\n",
     .mid = "",
     .q = "{input}",
     .pre = "",
     .cue = "Answer:",
     .first_line = true,
     .plain = true},
    {.name = "samsum",
     .domain = "few-shot",
     .n = 200,
     .n_e = 300,
     .ctx = "Summarize the dialogue into a few short sentences. The following are some "
            "examples.\n\n"
            "{context}\n\n",
     .mid = "",
     .q = "{input}",
     .pre = "",
     .cue = "Summary:",
     .first_line = true,
     .plain = true},
    {.name = "passage_count",
     .domain = "synthetic",
     .n = 200,
     .n_e = 300,
     .ctx = "There are some paragraphs below sourced from Wikipedia. Some of them may be "
            "duplicates. Please carefully read these paragraphs and determine how many "
            "unique paragraphs there are after removing duplicates. In other words, how "
            "many non-repeating paragraphs are there in total?\n\n"
            "{context}\n\n",
     .mid = "",
     .q = "Please enter the final count of unique paragraphs after removing duplicates. "
          "The output format should only contain the number, such as 1, 2, 3, and so on."
          "\n\n",
     .pre = "The final answer is: ",
     .cue = ""},
    {.name = "passage_retrieval_en",
     .domain = "synthetic",
     .n = 200,
     .n_e = 300,
     .ctx = "Here are 30 paragraphs from Wikipedia, along with an abstract. Please "
            "determine which paragraph the abstract is from.\n\n"
            "{context}\n\n",
     .mid = "The following is an abstract.\n\n",
     .q = "{input}\n\n"
          "Please enter the number of the paragraph that the abstract is from. The "
          "answer format must be like \"Paragraph 1\", \"Paragraph 2\", etc.\n\n",
     .pre = "The answer is: ",
     .cue = "",
     .guess_floor = 1.0 / 30},
    {.name = "lcc",
     .domain = "code",
     .n = 500,
     .n_e = 300,
     .ctx = "Please complete the code given below. \n"
            "{context}",
     .mid = "",
     .q = "",
     .pre = "Next line of code:\n",
     .cue = "",
     .plain = true},
    {.name = "repobench-p",
     .domain = "code",
     .n = 500,
     .n_e = 300,
     .ctx = "Please complete the code given below. \n"
            "{context}",
     .mid = "",
     .q = "{input}",
     .pre = "Next line of code:\n",
     .cue = "",
     .plain = true},
};

const char kva_longbench_v2_head[] =
    "Please read the following text and answer the question below.\n\n<text>\n";
const char kva_longbench_v2_tail[] =
    "\n</text>\n\n"
    "What is the correct answer to this question: $Q$\n"
    "Choices:\n"
    "(A) $C_A$\n"
    "(B) $C_B$\n"
    "(C) $C_C$\n"
    "(D) $C_D$\n\n"
    "Format your response as follows: \"The correct answer is (insert answer here)\".";

const struct kva_longbench_set *kva_longbench_find(const char *name, bool *e)
{
    for (size_t i = 0; i < KVA_LONGBENCH_SETS; i++) {
        const struct kva_longbench_set *set = &kva_longbench_sets[i];
        size_t n = strlen(set->name);

        if (strncmp(name, set->name, n) != 0)
            continue;
        *e = strcmp(name + n, "_e") == 0;
        if (name[n] == '\0' || (*e && set->n_e))
            return set;
    }
    return NULL;
}
