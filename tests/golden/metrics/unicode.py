#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""unicode.py - what Python's str says of every code point, as ranges.

    python3 tests/golden/metrics/unicode.py > tests/golden/metrics/unicode.txt

Lines: `lower FIRST LAST STEP DELTA` (str.lower() of every STEP-th code point is DELTA
higher), `alnum`, `digit` and `space FIRST LAST` (str.isalnum, str.isdecimal, str.isspace),
`cased` and `ignorable FIRST LAST` (seen through the final-sigma rule of str.lower),
`unassigned FIRST LAST` (in this version of Unicode; a later one may know it).
Hexadecimal, DELTA decimal; what is in no line is left alone and in no class.
"""
import sys
import unicodedata

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ranges(name, member):
    first = last = None
    for c in POINTS:
        if not member(chr(c)):
            continue
        if last is not None and c == last + 1:
            last = c
            continue
        if first is not None:
            print(f"{name} {first:x} {last:x}")
        first = last = c
    print(f"{name} {first:x} {last:x}")


def lower():
    pairs = [(c, ord(low) - c) for c in POINTS
             for low in [chr(c).lower()] if len(low) == 1 and low != chr(c)]
    runs = []
    for c, delta in pairs:
        if runs:
            first, last, step, d = runs[-1]
            gap = c - last
            if d == delta and gap in (1, 2) and step in (0, gap):
                runs[-1] = (first, c, gap, d)
                continue
        runs.append((c, c, 0, delta))
    for first, last, step, delta in runs:
        print(f"lower {first:x} {last:x} {step or 1} {delta}")


def final(text):
    return "\u03c2" in text.lower()


def ignorable(c):  # the letter in front of it still counts
    return final("a" + c + "\u03a3") and not final(c + "\u03a3")


def cased(c):  # counts itself
    return final(c + "\u03a3")


print(f"# made by tests/golden/metrics/unicode.py with Python {sys.version.split()[0]}, "
      f"Unicode {unicodedata.unidata_version}")
lower()
ranges("alnum", str.isalnum)
ranges("digit", str.isdecimal)
ranges("space", str.isspace)
ranges("cased", cased)
ranges("ignorable", ignorable)
ranges("unassigned", lambda c: unicodedata.category(c) == "Cn")
