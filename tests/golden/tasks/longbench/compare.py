#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""compare.py - LongBench items against the public Python packages.

    python3 compare.py KVAUDIT MODEL.gguf LONGBENCH_DIR

LONGBENCH_DIR holds NAME.jsonl and prompts.json (the 16 templates). Needs transformers and kvpress; the
tokenizer is read out of the GGUF file by transformers.

official: the steps of LongBench's pred.py (prompt, middle cut with the tokenizer's decode) give the same
          text as context + question of `longbench/NAME@L`.
kvpress:  KVPressTextGenerationPipeline.preprocess on our context, question and answer prefix decodes to the
          same texts as the ids we feed, chat template split included.

Output: compare.txt. Where ids differ, white space before a digit is cut otherwise: transformers' reading of a
GGUF file has no step that sets digits apart first, which the model's own tokenizer (pre `smollm`) has. The
decoded texts are equal. The two prompts cut to 3,500 tokens that differ were counted with such ids.
"""
import json
import os
import subprocess
import sys
from importlib.metadata import version

import transformers
from kvpress.pipeline import KVPressTextGenerationPipeline
from transformers import AutoTokenizer

kvaudit, model, data = sys.argv[1:4]
prompts = json.load(open(os.path.join(data, "prompts.json"), encoding="utf-8"))
tok = AutoTokenizer.from_pretrained(os.path.dirname(model), gguf_file=os.path.basename(model))


def generate(task, *more):
    out = subprocess.run([kvaudit, "generate", task, "-n", "3", "--data", "longbench=" + data, *more],
                         stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


def official_prompt(name, record, limit):
    prompt = "".join(prompts[name][k] for k in ("ctx", "mid", "q", "pre")).format(**record)
    ids = tok(prompt, add_special_tokens=False).input_ids
    if len(ids) <= limit:
        return prompt, False
    half = int(limit / 2)
    how = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    return tok.decode(ids[:half], **how) + tok.decode(ids[-half:], **how), True


print(f"transformers {transformers.__version__}, kvpress {version('kvpress')}, {os.path.basename(model)}")
for limit in (3500, 1201):
    same = cut = n = 0
    for name in prompts:
        records = [json.loads(line) for line in open(os.path.join(data, name + ".jsonl"), encoding="utf-8")]
        for item in generate(f"longbench/{name}@{limit}", "--tokenizer", model):
            want, was_cut = official_prompt(name, records[item["idx"]], limit)
            got = item["context"] + item["question"] + item["answer_prefix"]
            n, cut, same = n + 1, cut + was_cut, same + (want == got)
            if want != got:
                print(f"  official {name}@{limit} item {item['idx']}: {len(want)} and {len(got)} characters")
    print(f"official @{limit}: {same} of {n} prompts equal, {cut} of them cut")


class Self:
    tokenizer = tok


same = same_ids = n = 0
for name in prompts:
    for item in generate(f"longbench/{name}", "--profile", "kvpress", "--tokens", model):
        d = KVPressTextGenerationPipeline.preprocess(Self, item["context"], [item["question"]],
                                                     item["answer_prefix"], 10**9)
        theirs = [d["context_ids"][0].tolist(), d["questions_ids"][0][0].tolist()]
        ours = [item["context_ids"], item["question_ids"]]
        n += 1
        same_ids += theirs == ours
        same += [tok.decode(x) for x in theirs] == [tok.decode(x) for x in ours]
print(f"kvpress: {same} of {n} texts equal, {same_ids} of {n} also in every id")
