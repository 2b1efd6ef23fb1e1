# SPDX-License-Identifier: GPL-3.0-or-later
"""peer_torch.py MODEL IDS: f32 forward passes of transformers on the dequantised file.

Commands as in bench_engine.c: info, threads N, prefill N, decode K.
"""
import os
import sys
import time

import torch
import transformers

import line_server

path, ids = sys.argv[1], line_server.read_ids(sys.argv[2])
transformers.logging.set_verbosity_error()
model = transformers.AutoModelForCausalLM.from_pretrained(
    os.path.dirname(path), gguf_file=os.path.basename(path), dtype=torch.float32)
model.eval()
cache = None
last = None


def info():
    return {"version": f"torch {torch.__version__}, transformers {transformers.__version__}",
            "features": torch.backends.cpu.get_cpu_capability()}


def threads(n):
    torch.set_num_threads(int(n))
    return {}


def forward(tokens):
    global last
    with torch.inference_mode():
        out = model(input_ids=torch.tensor([tokens]), past_key_values=cache, use_cache=True,
                    logits_to_keep=1)
    last = int(out.logits[0, -1].argmax())


def prefill(n):
    global cache
    cache = transformers.DynamicCache()
    start = time.monotonic()
    forward(ids[:int(n)])
    return {"seconds": time.monotonic() - start}


def decode(k):
    times = []
    held = cache.get_seq_length()
    for i in range(line_server.WARM + int(k)):
        start = time.monotonic()
        forward([last])
        if i >= line_server.WARM:
            times.append(time.monotonic() - start)
    cache.crop(held)
    return {"seconds": line_server.median(times)}


line_server.serve({"info": info, "threads": threads, "prefill": prefill, "decode": decode})
