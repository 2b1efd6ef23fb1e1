#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""make.py - expected prompts of LongBench, written apart from the program.

    python3 make.py PROMPTS.JSON > expected.tsv     (prompts.json: the 16 templates, cut in four)

One synthetic record (record() below, the same in test_longbench.c) goes through the rules of the three
profiles in plain Python strings; the middle cut works on bytes, one token a byte, and decodes both ends
with errors="replace". Columns: set, profile, max_length (0: none), SHA-256 of context and of question,
answer prefix as JSON. Rows "template": SHA-256 of ctx, mid, q, pre with a NUL behind each.
Made with Python 3.11.2.
"""
import hashlib
import json
import sys

CUE = {"trec": "Type:", "triviaqa": "Answer:", "samsum": "Summary:"}
END = {"trec": "\nType:", "triviaqa": "\nAnswer:\n", "samsum": "\nSummary: "}


def record(name):
    body = "".join("%d: caf\u00e9 \u20ac5 \U0001f600 {input}\r\n" % i for i in range(40))
    return {"context": body, "input": "Which {context} is it?" + END.get(name, "")}


def sha(b):
    return hashlib.sha256(b).hexdigest()


def split(name, t, profile, r):
    ctx = t["ctx"].replace("{context}", r["context"], 1)
    if profile == "kvpress":
        text = r["input"].removesuffix(CUE.get(name, ""))
        return ctx + t["mid"], t["q"].replace("{input}", text, 1), CUE.get(name, t["pre"])
    mid = t["mid"].lstrip(" ") if profile == "criticalkv" else t["mid"]
    return ctx, mid + t["q"].replace("{input}", r["input"], 1) + t["pre"], ""


def cut(context, rest, limit):
    """The official middle cut; None where it would reach into what follows the context."""
    whole = (context + rest).encode()
    if not limit or len(whole) <= limit:
        return context
    half = limit // 2
    text = whole[:half].decode(errors="replace") + whole[len(whole) - half:].decode(errors="replace")
    return None if len(rest.encode()) > half else text[:len(text) - len(rest)]


prompts = json.load(open(sys.argv[1], encoding="utf-8"))
for name, t in prompts.items():
    print("template", name, sha("".join(t[k] + "\0" for k in ("ctx", "mid", "q", "pre")).encode()), sep="\t")
for name, t in prompts.items():
    for profile in ("official", "criticalkv", "kvpress"):
        context, question, prefix = split(name, t, profile, record(name))
        for limit in (0, 700, 1001, 1102, 1203, 1304):
            left = cut(context, question + prefix, limit)
            print(name, profile, limit, sha(left.encode()) if left is not None else "refused",
                  sha(question.encode()), json.dumps(prefix), sep="\t")
