# SPDX-License-Identifier: GPL-3.0-or-later
"""What Python's str.upper() makes of every code point that it changes: python3 upper.py > upper.txt

A line is FIRST LAST STEP DELTA (hexadecimal, DELTA decimal): each STEP-th code point of FIRST..LAST
is moved by DELTA; or C = U [U [U]]: a code point whose upper case is several.
"""
import platform
import unicodedata

runs, many = [], []
for c in range(0x110000):
    u = chr(c).upper() if not 0xD800 <= c < 0xE000 else chr(c)
    if u == chr(c):
        continue
    if len(u) > 1:
        many.append((c, [ord(x) for x in u]))
        continue
    delta = ord(u) - c
    last = runs[-1] if runs else None
    if last and last[3] == delta and c - last[1] in (1, 2) and last[2] in (0, c - last[1]):
        last[1], last[2] = c, c - last[1]
    else:
        runs.append([c, c, 0, delta])
print(f"# Python {platform.python_version()}, Unicode {unicodedata.unidata_version}")
for first, last, step, delta in runs:
    print(f"{first:x} {last:x} {step or 1} {delta}")
for c, upper in many:
    print(f"{c:x} = {' '.join(f'{u:x}' for u in upper)}")
