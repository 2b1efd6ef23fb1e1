# SPDX-License-Identifier: GPL-3.0-or-later
"""Digests of dequantised random blocks, computed by the `gguf` package (gguf-py 0.19.0).

    python tests/oracle/quant_digests.py > tests/golden/kernels/dequant.txt

64 blocks per type from a SplitMix64 stream seeded with the type id; the top exponent bit of every
half-precision scale (of every value, for F16/BF16/F32) is cleared, so all scales are finite.
A line: type id, type name, number of elements, FNV-1a-64 of the little-endian float32 results.
"""
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

MASK = (1 << 64) - 1
BLOCKS = 64
# byte offsets of the high bytes of 16-bit scales within a block
SCALES = {T.Q8_0: [1], T.Q4_0: [1], T.Q4_1: [1, 3], T.Q5_0: [1], T.Q5_1: [1, 3], T.Q4_K: [1, 3],
          T.Q5_K: [1, 3], T.Q6_K: [209], T.F16: [1], T.BF16: [1], T.F32: [3]}


def stream(seed, n):
    x, out = seed, bytearray()
    while len(out) < n:
        x = (x + 0x9E3779B97F4A7C15) & MASK
        z = x
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        out += (z ^ (z >> 31)).to_bytes(8, "little")
    return out[:n]


for t in sorted(SCALES, key=int):
    elements, size = GGML_QUANT_SIZES[t]
    raw = stream(int(t), BLOCKS * size)
    for b in range(BLOCKS):
        for at in SCALES[t]:
            raw[b * size + at] &= 0xBF
    data = np.frombuffer(bytes(raw), dtype=np.uint8).reshape(BLOCKS, size)
    y = np.ascontiguousarray(dequantize(data, t), dtype="<f4")
    h = 0xCBF29CE484222325
    for byte in y.tobytes():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    print(int(t), t.name, y.size, f"{h:016x}")
