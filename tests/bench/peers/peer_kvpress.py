# SPDX-License-Identifier: GPL-3.0-or-later
"""peer_kvpress.py MODEL SAMPLES: whole outcomes through kvpress's own pipeline.

SAMPLES holds the JSON lines of `kvaudit generate`: the same contexts, questions and answer
prefixes. Commands: info; outcome PRESS KEEP INDEX MAX_NEW, answered with its seconds and answer.
kvpress runs every cell of a sample by itself, prefill included.
"""
import importlib.metadata
import json
import os
import sys
import time

import kvpress
import torch
import transformers

import line_server

PRESSES = {"snapkv": kvpress.SnapKVPress, "keydiff": kvpress.KeyDiffPress,
           "tova": kvpress.TOVAPress, "knorm": kvpress.KnormPress,
           "streaming": kvpress.StreamingLLMPress}

path = sys.argv[1]
with open(sys.argv[2]) as f:
    samples = [json.loads(line) for line in f]
transformers.logging.set_verbosity_error()
folder, name = os.path.dirname(path), os.path.basename(path)
model = transformers.AutoModelForCausalLM.from_pretrained(
    folder, gguf_file=name, dtype=torch.float32)
tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
pipe = transformers.pipeline("kv-press-text-generation", model=model, tokenizer=tokenizer,
                             device="cpu")


def info():
    return {"version": "kvpress " + importlib.metadata.version("kvpress"),
            "features": f"torch f32, {torch.get_num_threads()} threads"}


def threads(n):
    torch.set_num_threads(int(n))
    return {}


def outcome(press, keep, index, max_new):
    s = samples[int(index)]
    start = time.monotonic()
    result = pipe(s["context"], question=s["question"], answer_prefix=s["answer_prefix"],
                  press=PRESSES[press](compression_ratio=1.0 - float(keep)),
                  max_new_tokens=int(max_new))
    return {"seconds": time.monotonic() - start, "answer": json.dumps(result["answer"])}


line_server.serve({"info": info, "threads": threads, "outcome": outcome})
