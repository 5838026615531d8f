#!/usr/bin/env python3
"""Writes codings.h: digests of decoded blocks of GGUF's types, and of numbers of 8 bits, for bytes computed by a formula.

    pip install torch gguf
    python3 t/golden/codings.py | clang-format-14 > t/golden/codings.h

The bytes are those of splitmix64 from the seed 1. A digest is FNV-1a over the bits of the f32 values; NaN counts as 0x7fc00000.
"""
import warnings

import gguf
import numpy as np
import torch

warnings.filterwarnings("ignore")
BLOCKS = 64


def random_bytes(n):
    state, out = 1, bytearray()
    while len(out) < n:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        out += (z ^ z >> 31).to_bytes(8, "little")
    return np.frombuffer(bytes(out[:n]), dtype=np.uint8)


def digest(values):
    values = np.ascontiguousarray(values, dtype=np.float32).ravel()
    bits = np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))
    h = 0xCBF29CE484222325
    for word in bits.tolist():
        h = (h ^ word) * 0x100000001B3 % 2**64
    return h


print("/* codings.h - digests of decoded values, made by codings.py. A plain table; any thread. */\n#ifndef RILLE_T_CODINGS_H\n"
      "#define RILLE_T_CODINGS_H\n\n#include <stdint.h>\n\nstatic const struct {\n    const char *name;\n    uint64_t digest;\n} golden[] = {")
for t in gguf.GGMLQuantizationType:
    elements, size = gguf.GGML_QUANT_SIZES[t]
    if elements == 1:
        continue
    try:
        values = gguf.dequantize(random_bytes(BLOCKS * size).reshape(BLOCKS, size), t)
    except NotImplementedError:
        continue
    print(f'    {{"{t.name}", 0x{digest(values):016x}}},')
for name, dtype in (("F8_E4M3", torch.float8_e4m3fn), ("F8_E5M2", torch.float8_e5m2), ("F8_E4M3FNUZ", torch.float8_e4m3fnuz),
                    ("F8_E5M2FNUZ", torch.float8_e5m2fnuz), ("F8_E8M0", torch.float8_e8m0fnu)):
    values = torch.arange(256, dtype=torch.uint8).view(dtype).float().numpy()
    print(f'    {{"{name}", 0x{digest(values):016x}}},')
print("};\n\n#endif")
