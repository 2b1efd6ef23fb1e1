#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""table.py - what tests/device/run.sh measured, as Markdown.

    table.py [DEVICE.json] [--into README.md]

Without a file every figure is "not measured". --into replaces what stands between the lines
`<!-- device: begin -->` and `<!-- device: end -->`; else the text goes to standard output.

A share is the time the work takes at the card's own measured ceilings, max(bytes / copy, FLOP /
product), divided by the time it took. Targets are those of stage K7 (kernels.md 9)."""
import argparse
import json
import sys

NONE = "not measured"
BEGIN, END = "<!-- device: begin -->", "<!-- device: end -->"
MIB = 1 << 20
# measure, numerics, tokens, entries of a KV head, sessions, target: (what, bound)
ROWS = [
    ("prefill", "bf16", 4096, 4096, 1, None),
    ("prefill", "bf16", 32768, 32768, 1, ("seconds", 3.7)),
    ("decode", "bf16", 4096, 4096, 1, ("share", 0.35)),
    ("decode", "bf16", 32768, 32768, 1, ("share", 0.35)),
    ("decode, evicted", "bf16", 4096, 2048, 1, ("share", 0.35)),
    ("decode, evicted", "bf16", 32768, 2048, 1, ("share", 0.35)),
    ("decode, wave", "bf16", 32768, 2048, 8, None),
    ("score, knorm", "bf16", 32768, 2048, 1, None),
    ("score, snapkv", "bf16", 32768, 2048, 1, None),
    ("select, knorm", "bf16", 32768, 2048, 1, None),
    ("keep and trim, knorm", "bf16", 32768, 2048, 1, None),
    ("prefill", "f32", 4096, 4096, 1, None),
    ("prefill", "f32", 32768, 32768, 1, None),
    ("decode", "f32", 32768, 32768, 1, None),
    ("decode, evicted", "f32", 32768, 2048, 1, None),
]


class Result:
    """The lines of the file, sorted by what they are."""

    def __init__(self, data):
        self.data = data
        self.parts = {p["part"]: p for p in data.get("parts", [])}
        self.device = None
        self.rate = {}
        self.measures = {}
        self.memory = []
        self.models = []
        for line in self.lines("device"):
            if "device" in line:
                self.device = line
            elif "yardstick" in line:
                self.rate[line["yardstick"]] = line["rate"]
        for line in self.lines("synthetic"):
            if "model" in line:
                self.models.append(line["model"])
            elif "measure" in line and self.models:
                key = (line["measure"], self.models[-1]["numerics"], line["tokens"],
                       line["entries"], line["sessions"])
                self.measures.setdefault(key, line)
            elif "memory" in line and self.models:
                self.memory.append((self.models[-1]["numerics"], line))

    def lines(self, part):
        return self.parts.get(part, {}).get("lines", [])

    def share(self, line, numerics):
        """Of the ceilings; None where the yardsticks are missing."""
        product = self.rate.get("f32" if numerics == "f32" else "bf16")
        if "copy" not in self.rate or not product or not line["seconds"]:
            return None
        floor = max(line["bytes"] / self.rate["copy"], line["flop"] / product)
        return floor / line["seconds"]


def seconds(x):
    return f"{x:.3f} s" if x >= 1 else f"{x * 1e3:.2f} ms" if x >= 1e-3 else f"{x * 1e6:.1f} us"


def verdict(target, line, share):
    if target is None:
        return "", ""
    what, bound = target
    if what == "seconds":
        text, met = f"<= {bound:g} s", line is not None and line["seconds"] <= bound
    else:
        text, met = f">= {bound:.0%}", share is not None and share >= bound
    if line is None or (what == "share" and share is None):
        return text, NONE
    return text, "met" if met else "missed"


def machine(r):
    d = r.device
    if d is None:
        return [f"- card: {NONE}"]
    out = [f"- card: {d['device']}, compute capability {d['capability']}, {d['processors']} SMs, "
           f"{d['memory'] / 2**30:.0f} GiB, L2 {d['l2'] / MIB:.0f} MiB; driver {d['driver']}, "
           f"runtime {d['runtime']}"]
    name = {"copy": ("copy", "TB/s"), "bf16": ("bf16 product", "TFLOP/s"),
            "f32": ("f32 product", "TFLOP/s")}
    got = [f"{name[k][0]} {v / 1e12:.3g} {name[k][1]}" for k, v in r.rate.items() if k in name]
    out.append(f"- ceilings measured on it: {', '.join(got) or NONE}")
    out.append(f"- program: {r.data.get('program') or NONE}; {r.data.get('date')}, "
               f"{r.data.get('seconds')} s")
    for m in r.models:
        out.append(f"- random weights of the shape {m['shape']}, {m['layers']} layers, "
                   f"{m['weights'] / 1e9:.2f} GB read a step, numerics {m['numerics']}")
    return out


def told(part):
    """What a part's lines say, in one cell."""
    lines = part.get("lines", [])
    tests = [x for x in lines if "test" in x]
    if tests:
        return (f"{sum(x['passed'] for x in tests)} passed, {sum(x['failed'] for x in tests)} failed, "
                f"{sum(x['skipped'] for x in tests)} skipped in {len(tests)} programs")
    for x in lines:
        if "golden" in x:
            return (f"{x['tokens']} tokens, largest difference of -log p {x['off_ref']:g} to ref, "
                    f"{x['off_f32']:g} to f32")
        if "quickstart" in x:
            return (f"{x['quickstart']}: {x['pairs']} outcomes, same score {x['same_score']}, same "
                    f"entries {x['same_kept']}, there -log p within {x['off_nll']:g}")
    measures = sum("measure" in x for x in lines)
    return f"{measures} measures" if measures else part.get("why", "").replace("|", "/")[-120:]


def parts(r):
    out = ["| part | result | seconds | what |", "|---|---|---:|---|"]
    for name in ("device", "parity", "golden", "synthetic", "quickstart", "sanitizer"):
        p = r.parts.get(name)
        if p is None:
            out.append(f"| {name} | {NONE} | | |")
        else:
            out.append(f"| {name} | {p['status']} | {p['seconds']:.1f} | {told(p)} |")
    return out


def measures(r):
    out = ["| measure | numerics | tokens | entries | sessions | time | share of the ceilings | "
           "target | verdict |", "|---|---|---:|---:|---:|---:|---:|---|---|"]
    rows = list(ROWS)
    named = {row[:5] for row in rows}
    rows += [(*k, None) for k in r.measures if k not in named]
    for *key, target in rows:
        line = r.measures.get(tuple(key))
        share = r.share(line, key[1]) if line else None
        want, said = verdict(target, line, share)
        out.append(f"| {key[0]} | {key[1]} | {key[2]:,} | {key[3]:,} | {key[4]} | "
                   f"{seconds(line['seconds']) if line else NONE} | "
                   f"{NONE if share is None else f'{share:.1%}'} | {want} | {said} |")
    return out


def memory(r):
    """The device's own count beside the store's books, over each eviction."""
    out = ["| tokens | numerics | given back by the books | by the device | difference | allowed | "
           "verdict |", "|---:|---|---:|---:|---:|---:|---|"]
    full, n = None, 0
    for numerics, line in r.memory:
        if line["memory"] == "full":
            full = line
        elif line["memory"] == "evicted" and full and full["tokens"] == line["tokens"]:
            books = full["committed"] - line["committed"]
            seen = full["held"] - line["held"]
            allowed = max(2 * MIB, 0.02 * full["committed"])
            out.append(f"| {line['tokens']:,} | {numerics} | {books / MIB:,.1f} MiB | "
                       f"{seen / MIB:,.1f} MiB | {(seen - books) / MIB:+,.1f} MiB | "
                       f"{allowed / MIB:,.1f} MiB | "
                       f"{'met' if abs(seen - books) <= allowed else 'missed'} |")
            full, n = None, n + 1
    if n == 0:
        out.append(f"| {NONE} | | | | | | |")
    return out


def text(data):
    r = Result(data)
    return "\n".join([*machine(r), "", *parts(r), "", *measures(r), "", *memory(r)]) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("file", nargs="?")
    p.add_argument("--into")
    a = p.parse_args()
    data = {}
    if a.file:
        with open(a.file, encoding="utf-8") as f:
            data = json.load(f)
        if data.get("schema") != "kvaudit/device-1":
            sys.exit(f"{a.file}: schema {data.get('schema')}, wanted kvaudit/device-1")
    out = text(data)
    if not a.into:
        sys.stdout.write(out)
        return
    with open(a.into, encoding="utf-8") as f:
        old = f.read()
    if old.count(BEGIN) != 1 or old.count(END) != 1:
        sys.exit(f"{a.into}: the lines {BEGIN} and {END} are not there once each")
    head, rest = old.split(BEGIN)
    with open(a.into, "w", encoding="utf-8") as f:
        f.write(head + BEGIN + "\n" + out + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
