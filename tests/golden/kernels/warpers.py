# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ids stay after temperature, top-k and top-p: the warpers of transformers.

warpers.py > warpers.txt, in an environment with torch and transformers. A case is three
lines: "temperature top_k top_p", the logits as float32 bit patterns, the ids that stay.
Cases in which the mass of a run is within 1e-5 of top_p are left out, and the k-th
largest logit is never one of equals: there the rules differ by design (transformers
keeps all equals of the k-th)."""
import random
import struct

import torch
import transformers
from transformers import (TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper)

print(f"# torch {torch.__version__}, transformers {transformers.__version__}")
draw = random.Random(20261129)
HOW = [(0.6, 0, 0.95), (0.6, 20, 0.95), (1.0, 0, 0.5), (1.0, 5, 1.0), (1.5, 40, 0.8),
       (0.3, 0, 0.99), (2.0, 1, 0.9), (0.7, 3, 0.3), (1.0, 0, 1.0), (0.1, 0, 0.999)]
n_cases = 0
for temperature, k, p in HOW:
    for n in (7, 64, 300):
        while True:
            z = torch.tensor([draw.gauss(0, 3) for _ in range(n)], dtype=torch.float32)
            if len(set(z.tolist())) < n:
                continue
            s = TemperatureLogitsWarper(temperature)(None, z[None])
            if k:
                s = TopKLogitsWarper(min(k, n))(None, s)
            run = torch.softmax(s[0].double(), 0).sort(descending=True)[0].cumsum(0)
            if p < 1 and (run - p).abs().min() < 1e-5:
                continue
            if p < 1:
                s = TopPLogitsWarper(p)(None, s)
            break
        stays = [i for i in range(n) if s[0, i] > -float("inf")]
        print(temperature, k, p)
        print(" ".join("%08x" % struct.unpack("<I", struct.pack("<f", f))[0] for f in z.tolist()))
        print(" ".join(map(str, stays)))
        n_cases += 1
