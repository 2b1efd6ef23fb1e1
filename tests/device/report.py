#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""report.py - what the compiler says of every device kernel, and what the roofline allows.

    report.py [--jobs N] [--keep DIR] [--roofline FILE] FILE.cu ...
    report.py --ptxas TEXT --ptx FILE ... [--roofline FILE]     (stored output, no compiler)

Each file is compiled for sm_80 and sm_90 with `ptxas -v`; registers, stack, spills and static
shared memory come from there, threads of a block from `.maxntid` of the PTX. Occupancy is the
share of an SM's warps that fit by registers, shared memory and blocks (limits: CUDA C++
Programming Guide, table "Technical Specifications per Compute Capability").

The roofline file names every kernel with the bytes and FLOP of one job at Llama-3.1-8B shapes; time = max(bytes / bandwidth, FLOP / rate of the unit), kernels.md 8.

A line whose job is "-" tells the dynamic shared memory of a variant and nothing else. A kernel that
has some shows "?" in variants that no line is about.

Exit 0; 1 when a kernel has stack or spills or no line in the roofline, or a line has no kernel; 2 on
misuse; 3 when a file does not compile."""
import argparse
import ast
import concurrent.futures
import math
import os
import re
import subprocess
import sys
import tempfile

# per SM: registers, shared bytes, blocks, warps; shared bytes the system takes of each block
LIMITS = {
    "sm_80": {"regs": 65536, "shared": 167936, "blocks": 32, "warps": 64, "own": 1024},
    "sm_90": {"regs": 65536, "shared": 233472, "blocks": 32, "warps": 64, "own": 1024},
}
# H200: copy measured with CUDA 13, bf16 product measured, f32 and double FMA by the datasheet
BANDWIDTH = 4.3e12
RATES = {"tensor": 790e12, "fma": 67e12, "double": 34e12}
SHAPE = {  # Llama-3.1-8B at 32k; N entries kept, T rows of a chunk, e and w bytes of cache, weight
    "L": 32, "H": 4096, "F": 14336, "V": 128256, "Hq": 32, "Hkv": 8, "G": 4, "D": 128, "P": 32,
    "n": 32768, "N": 2048, "T": 1024, "W": 32, "e": 2, "w": 2,
}
FUNCTIONS = {"ceil": math.ceil, "max": max, "min": min}


def value(text):
    """An arithmetic expression over SHAPE; names it does not know are errors."""
    ops = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
           ast.Div: lambda a, b: a / b, ast.Pow: lambda a, b: a**b}

    def walk(x):
        if isinstance(x, ast.Expression):
            return walk(x.body)
        if isinstance(x, ast.Constant) and isinstance(x.value, (int, float)):
            return x.value
        if isinstance(x, ast.Name) and x.id in SHAPE:
            return SHAPE[x.id]
        if isinstance(x, ast.BinOp) and type(x.op) in ops:
            return ops[type(x.op)](walk(x.left), walk(x.right))
        if isinstance(x, ast.Call) and isinstance(x.func, ast.Name) and x.func.id in FUNCTIONS:
            return FUNCTIONS[x.func.id](*[walk(a) for a in x.args])
        raise ValueError(f"cannot evaluate \"{text}\"")

    return walk(ast.parse(text, mode="eval"))


def up(x, unit):
    return -(-x // unit) * unit


def occupancy(arch, regs, shared, threads):
    """Blocks an SM holds, and its warps in per cent."""
    m = LIMITS[arch]
    warps = up(threads, 32) // 32
    # a warp takes registers in units of 256; the four schedulers hold equally many warps
    by_regs = m["regs"] // up(regs * 32, 256) // 4 * 4 // warps if regs else m["blocks"]
    by_shared = m["shared"] // up(shared + m["own"], 128)
    blocks = min(m["blocks"], m["warps"] // warps, by_regs, by_shared)
    return blocks, 100 * blocks * warps // m["warps"]


class Kernel:
    def __init__(self):
        self.threads = 0
        self.arch = {}  # arch -> regs, smem, stack, spill


def parse_ptxas(text, source, kernels):
    now = arch = None
    for line in text.splitlines():
        m = re.search(r"Compiling entry function '(\S+)' for '(sm_\d+)'", line)
        if m:
            arch = m[2]
            now = kernels.setdefault((source, m[1]), Kernel())
            now.arch[arch] = {"regs": 0, "smem": 0, "stack": 0, "spill": 0}
            continue
        m = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads",
                      line)
        if m and now is not None:
            # of the kernel or of a function it calls, whose frame is the kernel's burden, too
            now.arch[arch]["stack"] += int(m[1])
            now.arch[arch]["spill"] += int(m[2]) + int(m[3])
        m = re.search(r"Used (\d+) registers", line)
        if m and now is not None:
            now.arch[arch]["regs"] = int(m[1])
            s = re.search(r"(\d+) bytes smem", line)
            now.arch[arch]["smem"] = int(s[1]) if s else 0


def parse_ptx(text, source, kernels):
    for m in re.finditer(r"\.entry\s+(\w+)\s*\(.*?\)\s*([^{]*)\{", text, re.S):
        t = re.search(r"\.(?:maxntid|reqntid)\s+(\d+)(?:,\s*(\d+))?(?:,\s*(\d+))?", m[2])
        if t and (source, m[1]) in kernels:
            kernels[source, m[1]].threads = int(t[1]) * int(t[2] or 1) * int(t[3] or 1)


def compile_one(path, keep):
    with tempfile.TemporaryDirectory() as scratch:
        where = keep or scratch
        stem = os.path.splitext(os.path.basename(path))[0]
        command = [
            os.environ.get("NVCC", "nvcc"), "-std=c++17", "-I.", "-O3", "-fmad=false",
            "-gencode",
            "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=[sm_90,compute_90]",
            "-Xptxas", "-v", "--keep", "--keep-dir", scratch, "-c", "-o",
            os.path.join(scratch, stem + ".o"), path]
        r = subprocess.run(command, capture_output=True, text=True)
        text = r.stdout + r.stderr
        ptx = []
        for f in sorted(os.listdir(scratch)):
            if f.endswith(".ptx"):
                with open(os.path.join(scratch, f), encoding="utf-8") as g:
                    ptx.append(g.read())
        if keep:
            os.makedirs(where, exist_ok=True)
            with open(os.path.join(where, stem + ".ptxas"), "w", encoding="utf-8") as g:
                g.write(text)
        return path, r.returncode, text, ptx


def demangle(names):
    try:
        r = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                           check=True)
        plain = r.stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        plain = names
    out = {}
    for mangled, name in zip(names, plain):
        # "void attend<128, true>(args)" without type and arguments
        depth, end = 0, len(name)
        for i, c in enumerate(name):
            depth += (c == "<") - (c == ">")
            if c == "(" and depth == 0 and not name.startswith("(anonymous", i):
                end = i
                break
        name = name[:end].replace("(anonymous namespace)::", "")
        depth = 0
        for i in range(len(name) - 1, -1, -1):
            depth += (name[i] == ">") - (name[i] == "<")
            if name[i] == " " and depth == 0:
                name = name[i + 1:]
                break
        out[mangled] = re.sub(r"\((?:int|bool|unsigned int)\)", "", name)
    return out


def read_roofline(path):
    """Rows: job, kernel, variant, unit, launches, shared, bytes, flop, note."""
    rows = []
    with open(path, encoding="utf-8") as f:
        for at, line in enumerate(f, 1):
            if line.startswith("#") or not line.strip():
                continue
            part = line.rstrip("\n").split("\t")
            if part[0] == "job":
                continue
            if len(part) != 9:
                sys.exit(f"{path}:{at}: {len(part)} columns, 9 are wanted")
            row = dict(zip(("job", "kernel", "variant", "unit", "launches", "shared", "bytes",
                            "flop", "note"), part))
            if row["unit"] not in RATES:
                sys.exit(f"{path}:{at}: unit \"{row['unit']}\", known: {', '.join(RATES)}")
            try:
                for k in ("launches", "shared", "bytes", "flop"):
                    row[k] = value(row[k])
            except (ValueError, SyntaxError) as e:
                sys.exit(f"{path}:{at}: {e}")
            row["at"] = f"{path}:{at}"
            rows.append(row)
    return rows


def floor_seconds(row):
    return max(row["bytes"] / BANDWIDTH, row["flop"] / RATES[row["unit"]])


def human(x, units):
    for scale, unit in units:
        if x >= scale:
            return f"{x / scale:.3g} {unit}"
    return f"{x / units[-1][0]:.3g} {units[-1][1]}" if x else "0"


def amount(x, unit):
    return human(x, [(1e12, "T" + unit), (1e9, "G" + unit), (1e6, "M" + unit), (1e3, "k" + unit),
                     (1, unit)])


def seconds(x):
    return human(x, [(1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")])


def matches(row, name):
    """Base name equal, and the variant's words all among the template arguments."""
    base, _, args = name.partition("<")
    return base == row["kernel"] and (row["variant"] in ("", "*") or
                                      args.rstrip(">").replace(" ", "") == row["variant"])


def print_kernels(kernels, names, dynamic):
    """Returns the complaints."""
    bad = []
    print("| kernel | source | threads | registers 80/90 | spills | stack | static shared | "
          "dynamic shared | blocks an SM 80/90 | occupancy 80/90 |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for (source, mangled), k in sorted(kernels.items(), key=lambda x: (x[0][0], names[x[0][1]])):
        name = names[mangled]
        a = [k.arch.get(x) for x in ("sm_80", "sm_90")]
        more = dynamic.get(name, 0)

        def pair(f):
            return " / ".join("-" if x is None else str(f(i, x)) for i, x in enumerate(a))

        def occ(i, x, which):
            if not k.threads or more is None:
                return "?"
            blocks, share = occupancy(("sm_80", "sm_90")[i], x["regs"], x["smem"] + more, k.threads)
            return blocks if which == 0 else f"{share} %"

        spill = max(x["spill"] for x in a if x)
        stack = max(x["stack"] for x in a if x)
        smem = max(x["smem"] for x in a if x)
        print(f"| `{name}` | {os.path.basename(source)} | {k.threads or '?'} | "
              f"{pair(lambda i, x: x['regs'])} | {spill} | {stack} | {smem} | {'?' if more is None else more or ''} | "
              f"{pair(lambda i, x: occ(i, x, 0))} | {pair(lambda i, x: occ(i, x, 1))} |")
        if spill or stack:
            bad.append(f"{source}: {name}: {stack} bytes of stack, {spill} bytes of spills")
        for i, x in enumerate(a):
            if x and k.threads and more is not None and occ(i, x, 0) == 0:
                bad.append(f"{source}: {name}: no block fits an SM of sm_{(80, 90)[i]}")
    return bad


def print_roofline(rows):
    print()
    print("Llama-3.1-8B, 32,768 tokens, on one H200 (4.3 TB/s copied, 790 TFLOP/s bf16 products "
          "measured; 67 TFLOP/s f32, 34 double by the datasheet); all launches of the job together:")
    print()
    print("| job | kernel | launches | bytes | FLOP | unit | bound by | roofline allows | note |")
    print("|---|---|---:|---:|---:|---|---|---:|---|")
    for r in rows:
        if r["job"] == "-":
            continue
        memory = r["bytes"] / BANDWIDTH >= r["flop"] / RATES[r["unit"]]
        print(f"| {r['job']} | `{r['kernel']}` | {r['launches']:,.0f} | {amount(r['bytes'], 'B')} | "
              f"{amount(r['flop'], 'FLOP')} | {r['unit']} | {'memory' if memory else r['unit']} | "
              f"{seconds(floor_seconds(r))} | {r['note']} |")


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--keep", help="folder for the compiler's own output")
    p.add_argument("--roofline")
    p.add_argument("--ptxas", help="stored output of ptxas -v instead of compiling")
    p.add_argument("--ptx", nargs="*", default=[])
    p.add_argument("files", nargs="*")
    a = p.parse_args()
    if not a.files and not a.ptxas:
        p.error("no .cu file")
    return a


def gather(a):
    kernels = {}
    if a.ptxas:
        with open(a.ptxas, encoding="utf-8") as f:
            parse_ptxas(f.read(), a.ptxas, kernels)
        for path in a.ptx:
            with open(path, encoding="utf-8") as f:
                parse_ptx(f.read(), a.ptxas, kernels)
        return kernels
    with concurrent.futures.ThreadPoolExecutor(max(1, a.jobs)) as pool:
        for path, code, text, ptx in pool.map(lambda f: compile_one(f, a.keep), a.files):
            if code:
                print(text, file=sys.stderr)
                print(f"report: {path} does not compile", file=sys.stderr)
                sys.exit(3)
            parse_ptxas(text, path, kernels)
            for p in ptx:
                parse_ptx(p, path, kernels)
    return kernels


def main():
    a = arguments()
    rows = read_roofline(a.roofline) if a.roofline else []
    kernels = gather(a)
    names = demangle([m for _, m in kernels])
    dynamic = {}
    bad = []
    for r in rows:
        hits = [n for n in names.values() if matches(r, n)]
        # library products have no kernel of ours
        if not hits and r["kernel"] != "cublasLt":
            bad.append(f"{r['at']}: no source has a kernel {r['kernel']} {r['variant']}")
        for n in hits:
            dynamic[n] = max(dynamic.get(n, 0), int(r["shared"]))
    rooms = {r["kernel"] for r in rows if r["shared"]}
    known = {r["kernel"] for r in rows if r["job"] != "-"}
    for (source, mangled) in sorted(kernels):
        name = names[mangled]
        base = name.partition("<")[0]
        if base in rooms:
            dynamic.setdefault(name, None)
        if rows and base not in known:
            bad.append(f"{source}: {name} has no line in {a.roofline}")
            known.add(base)
    bad += print_kernels(kernels, names, dynamic)
    if rows:
        print_roofline(rows)
    hot = sum(1 for n in names.values() if any(matches(r, n) for r in rows))
    print()
    print(f"{len(kernels)} kernels, {hot} of them in the roofline; "
          f"{'no stack, no spills' if not bad else f'{len(bad)} complaints'}")
    for b in bad:
        print(f"report: {b}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
