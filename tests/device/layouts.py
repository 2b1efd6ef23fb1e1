#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""layouts.py - what follows from the address and launch formulas of the kernels, by count.

    layouts.py [--into README.md]

Nothing here is measured. Blocks and loads of the skinny product (kernels/cuda/skinny.cu,
weight.h); the worst number of ways of a bank conflict in shared memory; how much of the 32-byte
sectors that a warp touches it uses. The formulas are those of the sources, written down a second
time: a change there is a change here. --into replaces what stands between the lines
`<!-- layouts: begin -->` and `<!-- layouts: end -->`."""
import argparse

BEGIN, END = "<!-- layouts: begin -->", "<!-- layouts: end -->"
SMS, WARPS, REGISTERS = 132, 4, 65536
MODELS = {  # matrix: (outputs, inputs)
    "Llama-3.1-8B": {"q, o": (4096, 4096), "k, v": (1024, 4096), "gate, up": (14336, 4096),
                     "down": (4096, 14336), "head": (128256, 4096)},
    "SmolLM2-135M": {"q, o": (576, 576), "k, v": (192, 576), "gate, up": (1536, 576),
                     "down": (576, 1536), "head": (49152, 576)},
}
# kind: (bits of a value, bytes of a scale record, super)
KINDS = {"F32": (32, 0, False), "F16, BF16": (16, 0, False), "Q4_0": (4, 16, False),
         "Q4_1": (4, 32, False), "Q4_K": (4, 16, True), "Q8_0, Q5_0": (8, 16, False),
         "Q5_1": (8, 32, False), "Q5_K": (8, 16, True), "Q6_K": (8, 16, True)}
# blocks that the registers of sm_90 leave on a processor, least over the kinds (make cuda-report)
MOST_REGISTERS = {(1, 2): 145, (1, 1): 70, (4, 2): 130, (4, 1): 114, (8, 4): 208, (8, 2): 119}


def shape(out, rows):
    """(blocks, resident blocks of a processor): product() and spread() of skinny.cu."""
    mt, r = (8, 4) if rows > 4 else (4, 2) if rows > 1 else (1, 2)
    tiles = -(-rows // mt)
    if 2 * -(-out // (4 * r)) * tiles <= SMS:
        r //= 2
    registers = -(-MOST_REGISTERS[mt, r] // 8) * 8 * 32 * WARPS
    return -(-out // (4 * r)) * tiles, REGISTERS // registers


def ways(words, wide=1):
    """The most different words of one bank that lanes ask for at once. `words`: the first word of
    each lane; `wide` words a lane, which go in 32 / wide lanes at a time."""
    most = 1
    for at in range(0, len(words), 32 // wide):
        banks = {}
        for w in words[at:at + 32 // wide]:
            for i in range(wide):
                banks.setdefault((w + i) % 32, set()).add(w + i)
        most = max(most, max(len(b) for b in banks.values()))
    return most


def sectors(lanes):
    """Bytes used of those fetched or sent: (address, bytes) of each lane."""
    used = {a + i for a, n in lanes for i in range(n)}
    return len(used) / (32 * len({b // 32 for b in used}))


LANES = range(32)


def matrix(pitch):
    """ldmatrix: eight rows of four words, an instruction's four groups one by one."""
    return max(ways([r * pitch // 2 for r in range(8)], 4), 1)


def banks():
    """(kernel, access, where, ways)"""
    for d in (64, 96, 128, 256):
        yield "attend_*", f"matrix loads of K, V, Q, D = {d}", "inner", matrix(d + 8)
    for d in (64, 128, 256):
        word = (d + 8) // 2
        yield ("attend_context", f"positions in the padding, key by key, D = {d}", "inner",
               ways([l % 4 * 2 * word for l in LANES]))
        yield ("attend_context", f"positions in the padding, a lane a row, D = {d}", "a tile",
               ways([l * word for l in LANES]))
        yield ("attend_answer", f"a warp's sums, D = {d}", "the end",
               ways([l // 4 * (d + 2) + l % 4 * 2 for l in LANES]))
        yield "attend_plain", f"K, a lane an entry, D = {d}", "inner", ways(
            [l * (d + 1) for l in LANES])
    for keys in (32, 64):
        yield ("attend_sums", f"weights stored, {keys} keys", "inner",
               ways([l // 4 * (keys + 4) + l % 4 * 2 for l in LANES]))
        yield ("attend_sums", f"weights added, {keys} keys", "inner",
               ways([u for u in LANES]))
    yield "skinny", "sums of the warps stored, read", "the end", max(
        ways(list(range(4))), ways(list(LANES)))
    for n in (32, 64, 128):
        wide = n + 4
        at = [(l // 8 % 4, l % 8) for l in LANES]
        yield ("window, project", f"a tile of {n} rows stored", "inner",
               ways([d * wide + r for r, d in at]))
        yield ("window, project", f"rows and columns of a tile of {n} read, 16 bytes", "inner",
               max(ways([l // 16 * 4 for l in LANES], 4), ways([l % 16 * 4 for l in LANES], 4)))
    yield "window", "sums of a column, stored, 16 bytes", "32 rows", ways(
        [l // 16 * 64 + l % 16 * 4 for l in LANES], 4)
    yield "window", "sums of a column, read", "32 rows", ways(list(LANES))
    yield "topk", "bins cleared, sent", "a digit", ways(list(LANES))
    yield "topk", "bins added up, four a thread", "a digit", ways([4 * l for l in LANES])


def reads():
    """(kernel, access, share of the sectors)"""
    row = lambda n, each: [(each * l, each) for l in range(min(32, n // each))]
    for d in (64, 128):
        yield "kv append, read", f"f32 rows, four a lane, D = {d}", sectors(row(4 * d, 16))
        yield "kv append, read", f"f16 rows, four a lane, D = {d}", sectors(row(2 * d, 8))
        entry = [(2 * d * 7 * (l // 8) + 16 * (l % 8), 16) for l in LANES]
        yield "kv move", f"words of four scattered entries, D = {d}, f16", sectors(entry)
    yield "kv move", "a dimension no multiple of 8: halves", sectors(
        [(140 * 7 * (l // 8) + 2 * (l % 8), 2) for l in LANES])
    yield "kv move", "positions, survivors scattered / in a row", (
        sectors([(128 * l, 4) for l in range(4)]), sectors([(4 * l, 4) for l in range(4)]))
    yield "kv copy", "pages", sectors([(16 * l, 16) for l in LANES])
    for d in (64, 128):
        yield "window", f"keys and queries, rows of {d} dims", sectors(
            [(4 * (d * (l // 8 % 4) + l % 8), 4) for l in LANES])
    yield "window", "weights of values, rows at odd addresses", sectors(
        [(4 * (1001 * (l // 8 % 4) + l % 8 + 1), 4) for l in LANES])
    yield "window", "values", sectors([(4 * l, 4) for l in LANES])
    yield "window", "mean and max, written", sectors([(4 * l, 4) for l in LANES])
    yield "window", "rows of weights, written, a store", sectors(
        [(4 * (1024 * (l // 16) + l % 16 * 4), 4) for l in LANES])


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for r in rows:
        yield "| " + " | ".join(str(c) for c in r) + " |"


def load(bits):
    return 8 if bits == 16 else 16


def percent(x):
    return " / ".join(percent(y) for y in x) if isinstance(x, tuple) else f"{100 * x:.0f} %"


def loads():
    """Values: lanes of one output take consecutive words; lane groups, four outputs a row apart."""
    for name, (bits, record, sup) in KINDS.items():
        n, chunk = load(bits), bits * 32  # bytes
        near = 8 * n
        used = sectors([(chunk * 3 * (l // 8) + n * (l % 8), n) for l in LANES])
        # what a lane loads of an output's chunk, and how much of a record its eight lanes share
        yield (name, f"{chunk // 8 // n} x {n}", n, f"4 x {near}", percent(used),
               f"{record // 16} x 16" if record else "", 4 if sup else "")


def tables():
    yield from table(
        ["weights", "loads of a lane and chunk, bytes", "aligned to", "a warp's load, bytes",
         "of its sectors", "scales", "super"], loads())
    yield ""
    rows = []
    for model, matrices in MODELS.items():
        for name, (out, _) in matrices.items():
            cells = []
            for n in (1, 4, 8):
                blocks, resident = shape(out, n)
                cells += [blocks, f"{blocks / (SMS * resident):.2f}"]
            rows.append([f"{model} {name}", out] + cells)
    yield from table(["matrix", "outputs", "1 row: blocks", "waves", "4 rows: blocks", "waves",
                      "8 rows: blocks", "waves"], rows)
    yield ""
    merged = {}
    for kernel, what, where, n in banks():
        merged.setdefault((kernel, what.split(", D =")[0].split(", 32 keys")[0].split(
            ", 64 keys")[0], where), []).append(n)
    yield from table(["kernel", "shared memory", "how often", "ways"],
                     [(k, w, o, max(n)) for (k, w, o), n in merged.items()])
    yield ""
    yield from table(["kernel", "global memory", "of its sectors"],
                     [(k, w, percent(s)) for k, w, s in reads()])


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--into", metavar="README.md")
    into = p.parse_args().into
    text = "\n".join(tables())
    if not into:
        print(text)
        return
    with open(into, encoding="utf-8") as f:
        old = f.read()
    before, rest = old.split(BEGIN)
    after = rest.split(END)[1]
    with open(into, "w", encoding="utf-8") as f:
        f.write(before + BEGIN + "\n" + text + "\n" + END + after)


if __name__ == "__main__":
    main()
