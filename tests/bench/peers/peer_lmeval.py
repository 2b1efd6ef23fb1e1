# SPDX-License-Identifier: GPL-3.0-or-later
"""peer_lmeval.py MODEL TEXT: RULER samples from lm-eval's generators, and its tokenizer.

Commands: info; tokenise PASSES, answered with the seconds for the whole TEXT each time;
samples TASK L N, answered with the seconds for N samples. Only the tasks whose data lm-eval makes
by itself: essays and question files come from the network.
"""
import importlib.metadata
import os
import random
import sys
import time

import tokenizers
import transformers

import line_server

path = sys.argv[1]
with open(sys.argv[2]) as f:
    text = f.read()
transformers.logging.set_verbosity_error()
folder, name = os.path.dirname(path), os.path.basename(path)
tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)


def info():
    return {"version": "lm-eval " + importlib.metadata.version("lm_eval"),
            "features": f"tokenizers {tokenizers.__version__}, 1 thread"}


def tokenise(passes):
    start = time.perf_counter()
    for _ in range(int(passes)):
        tokenizer(text)
    return {"seconds": f"{(time.perf_counter() - start) / int(passes):.6f}"}


def niah(haystack, key, value, length, n):
    from lm_eval.tasks.ruler import niah_utils, prepare_niah
    return list(prepare_niah.generate_samples(
        prepare_niah.get_haystack(type_haystack=haystack), max_seq_length=length,
        template=niah_utils.TEMPLATE, type_haystack=haystack, type_needle_k=key,
        type_needle_v=value, num_samples=n, TOKENIZER=tokenizer))


def vt(length, n):
    from lm_eval.tasks.ruler import vt_utils
    example = vt_utils.sys_vartrack_w_noise_random(
        tokenizer=tokenizer, num_samples=1, max_seq_length=500, incremental=5)[0]
    return vt_utils.sys_vartrack_w_noise_random(
        tokenizer=tokenizer, num_samples=n, max_seq_length=length, icl_example=example)


def cwe(length, n):
    from lm_eval.tasks.ruler import cwe_utils
    return cwe_utils.sys_word_pair_random(
        num_samples=n, max_seq_length=length, tokenizer=tokenizer)


def fwe(length, n):
    from lm_eval.tasks.ruler import fwe_utils
    return fwe_utils.sys_kwext(tokenizer=tokenizer, max_seq_length=length, num_samples=n)


TASKS = {
    "niah_single_1": lambda length, n: niah("repeat", "words", "numbers", length, n),
    "niah_multikey_2": lambda length, n: niah("needle", "words", "numbers", length, n),
    "niah_multikey_3": lambda length, n: niah("needle", "uuids", "uuids", length, n),
    "vt": vt, "cwe": cwe, "fwe": fwe,
}


def samples(task, length, n):
    random.seed(42)
    start = time.perf_counter()
    made = TASKS[task](int(length), int(n))
    seconds = time.perf_counter() - start
    assert len(made) == int(n)
    return {"seconds": f"{seconds:.6f}"}


line_server.serve({"info": info, "tokenise": tokenise, "samples": samples})
