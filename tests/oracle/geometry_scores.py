#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""geometry_scores.py > geometry_scores.jsonl - scores of kvpress 0.5.5 for what the kept
sets do not cover: lagkv with cross scoring, the four types of cur, keydiff, knorm, on keys and
values that any program can make. The library runs, none of its code is here.

Entry (head h, token t, channel c), side 0 keys and 1 values, is
    u = i * 2654435761 mod 2^32,  i = ((side * 2 + h) * 300 + t) * 8 + c
    x = ((u ^ u >> 15) * 2246822519 mod 2^32 >> 20) / 1024 - 2
exact in float. Two heads of 8 channels."""
import json
import platform
import sys
from importlib.metadata import version

import torch
from kvpress import CURPress, KeyDiffPress, KnormPress, LagKVPress, QFilterPress

HEADS, DIM = 2, 8


def rows(side, n):
    i = torch.arange(HEADS).view(-1, 1, 1) + side * HEADS
    i = (i * 300 + torch.arange(n).view(1, -1, 1)) * DIM + torch.arange(DIM)
    u = i * 2654435761 & 0xFFFFFFFF
    u = (u ^ u >> 15) * 2246822519 & 0xFFFFFFFF
    return ((u >> 20).to(torch.float32) / 1024 - 2).unsqueeze(0)


class Layer:
    layer_idx = 0


def main():
    print(json.dumps({"versions": {p: version(p) for p in ("kvpress", "torch", "transformers")},
                      "python": platform.python_version()}))
    filters = rows(1, 300)[0, :, 299]
    qfilter = QFilterPress()
    qfilter.q_filters = filters.unsqueeze(0)
    cases = [("knorm", KnormPress(), 70), ("keydiff", KeyDiffPress(), 70),
             ("qfilter", qfilter, 70)]
    for n in (69, 84):
        cases += [("lagkv:cross=%d,lag=16,sinks=4" % cross,
                   LagKVPress(n_sink=4, lag_size=16, cross_scoring=bool(cross)), n)
                  for cross in (0, 1)]
        cases += [("cur:type=%s,window=16" % ours, CURPress(leverage_type=theirs), n)
                  for ours, theirs in (("product", "kv_product"), ("key", "key"),
                                       ("value", "value"), ("mean", "kv_avg"))]
    for name, press, n in cases:
        s = press.score(Layer(), None, rows(0, n), rows(1, n), None, {})[0]
        json.dump({"method": name, "n": n,
                   "scores": [[float("%.7g" % v) for v in head] for head in s.tolist()]},
                  sys.stdout, separators=(",", ":"))
        print()


main()
