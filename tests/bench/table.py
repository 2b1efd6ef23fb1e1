# SPDX-License-Identifier: GPL-3.0-or-later
"""table.py - rows with targets and verdicts, as Markdown and as TSV; facts of the machine."""
import os
import re
import subprocess

UNMEASURED = "not measured"
PEERS = (("llama", "llama.cpp, 1 thread"), ("torch1", "torch f32, 1 thread"),
         ("torch2", "torch f32, 2 threads"), ("kvpress", "kvpress"), ("lmeval", "lm-eval"))


def figure(value):
    """Three digits, more where the integer part has them."""
    if value is None:
        return UNMEASURED
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


class Row:
    def __init__(self, name, unit, ours):
        self.name, self.unit, self.ours = name, unit, ours
        self.peers = {}
        self.target = self.verdict = ""

    def decide(self, met, text):
        self.verdict = f"{'met' if met else 'missed'} ({text})"

    def reach(self, value, target, unit, most=False):
        """A figure of our own against a target; without one it is only told."""
        text = f"{value:.2f} {unit}" if value < 10 else f"{value:.1f} {unit}"
        if target is None:
            self.verdict = text
            return
        self.target = f"{'<=' if most else '>='} {target:g} {unit}"
        self.decide(value <= target if most else value >= target, text)

    def against(self, peer, target):
        """Times the peer's figure."""
        value, name = self.peers.get(peer), dict(PEERS)[peer].split(",")[0]
        if target is not None:
            self.target = f">= {target:g}x {name}"
        if isinstance(value, float):
            self.reach(self.ours / value, target, "x " + name)
            if target is not None:
                self.target = f">= {target:g}x {name}"
        else:
            self.verdict = UNMEASURED


class Table:
    HEAD = ["measure", "unit", "kvaudit", *(title for _, title in PEERS), "target", "verdict"]

    def __init__(self):
        self.rows, self.notes = [], []

    def add(self, row):
        self.rows.append(row)

    def note(self, text):
        self.notes.append(text)

    def cells(self, row, form):
        return [row.name, row.unit, form(row.ours),
                *(form(row.peers[key]) if key in row.peers else "" for key, _ in PEERS),
                row.target, row.verdict]

    def markdown(self, facts):
        lines = [f"- {key}: {value}" for key, value in facts] + [""]
        lines.append("| " + " | ".join(self.HEAD) + " |")
        lines.append("|---|---|" + "---:|" * (1 + len(PEERS)) + "---|---|")
        lines += ["| " + " | ".join(self.cells(row, figure)) + " |" for row in self.rows]
        lines += [""] + [f"- {note}" for note in self.notes]
        return "\n".join(lines) + "\n"

    def tsv(self, facts):
        def raw(value):
            return UNMEASURED if value is None else str(value)
        lines = [f"# {key}\t{value}" for key, value in facts]
        lines.append("\t".join(self.HEAD))
        lines += ["\t".join(self.cells(row, raw)) for row in self.rows]
        lines += [f"# {note}" for note in self.notes]
        return "\n".join(lines) + "\n"


def read(path, pattern, default="unknown"):
    try:
        with open(path) as f:
            found = re.search(pattern, f.read(), re.M)
    except OSError:
        return default
    return found.group(1).strip() if found else default


def machine(isa, cores, load, about):
    cpu = read("/proc/cpuinfo", r"^model name\s*:\s*(.*)$")
    family = read("/proc/cpuinfo", r"^cpu family\s*:\s*(.*)$")
    number = read("/proc/cpuinfo", r"^model\s*:\s*(.*)$")
    flags = set(read("/proc/cpuinfo", r"^flags\s*:\s*(.*)$", "").split())
    wide = [name for name, flag in (("AVX2", "avx2"), ("FMA", "fma"), ("AVX-512", "avx512f"),
                                    ("AVX-512 VNNI", "avx512_vnni"), ("AMX", "amx_tile"))
            if flag in flags]
    system = read("/etc/os-release", r'^PRETTY_NAME="?(.*?)"?$')
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True).stdout
    return [("machine", f"{cpu} (family {family}, model {number}), {cores} cores, "
                        f"{', '.join(wide)}; load average at the start {load:.1f}"),
            ("instruction set in use", isa),
            ("system", f"{system}, Linux {os.uname().release}"),
            ("compiler", compiler.splitlines()[0] if compiler else "unknown"),
            ("program", "; ".join(line.strip() for line in about.splitlines() if line.strip()))]
