# SPDX-License-Identifier: GPL-3.0-or-later
"""peer_llamacpp.py MODEL IDS FLASH: llama.cpp through llama-cpp-python, one thread.

f16 cache, batches of 512, no logits but the last; FLASH 0 or 1 chooses its attention.
Commands as in bench_engine.c: info, prefill N, decode K.
"""
import sys
import time

import llama_cpp
import numpy as np

import line_server

model, ids, flash = sys.argv[1], line_server.read_ids(sys.argv[2]), sys.argv[3] == "1"
llm = llama_cpp.Llama(
    model_path=model, n_ctx=len(ids) + 512, n_threads=1, n_threads_batch=1, n_batch=512,
    n_ubatch=512, flash_attn=flash, verbose=False)
vocab = llm.n_vocab()


def greedy():
    logits = llama_cpp.llama_get_logits_ith(llm.ctx, -1)
    return int(np.argmax(np.ctypeslib.as_array(logits, shape=(vocab,))))


def info():
    used = [word.split(" = ")[0].split(": ")[-1].strip()
            for word in llama_cpp.llama_print_system_info().decode().split("|")
            if word.strip().endswith("= 1")]
    return {"version": "llama-cpp-python " + llama_cpp.__version__, "features": " ".join(used)}


def prefill(n):
    llm.reset()
    start = time.monotonic()
    llm.eval(ids[:int(n)])
    greedy()
    return {"seconds": time.monotonic() - start}


def decode(k):
    held = llm.n_tokens
    times = []
    for i in range(line_server.WARM + int(k)):
        token = greedy()
        start = time.monotonic()
        llm.eval([token])
        greedy()
        if i >= line_server.WARM:
            times.append(time.monotonic() - start)
    llm.n_tokens = held
    llm.eval(ids[:0])
    return {"seconds": line_server.median(times)}


line_server.serve({"info": info, "prefill": prefill, "decode": decode})
