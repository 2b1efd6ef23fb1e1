# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands on standard input, `key value` lines and an empty line as the answer.

The protocol of bench_engine.c: a peer stays loaded while the program under test is measured
in between (A B B A). Standard output of the libraries goes to standard error.
"""
import os
import sys


def serve(commands):
    """commands: name -> function of words, returning a dict of results."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        words = line.split()
        if not words:
            continue
        for key, value in commands[words[0]](*words[1:]).items():
            print(key, value, file=out)
        print(file=out, flush=True)


def read_ids(path):
    with open(path) as f:
        return [int(word) for word in f.read().split()]


def median(values):
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


WARM = 8  # unmeasured decode steps, as in bench_engine.c
