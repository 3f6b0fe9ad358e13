#!/usr/bin/env python3
"""Writes tests/data/quants.json: random blocks of GGUF's formats and the values that the PyPI package `gguf` reads in them.

    pip install gguf numpy
    make_quants.py > tests/data/quants.json
"""
import json

import gguf
import numpy as np

rng = np.random.default_rng(6)
out = {}
for kind in (gguf.GGMLQuantizationType.Q4_K, gguf.GGMLQuantizationType.Q6_K, gguf.GGMLQuantizationType.BF16,
             gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.Q8_0):
    values, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (256 // values * 2, size), dtype=np.uint8)
    scale = rng.normal(0, 0.01, (len(blocks), 2)).astype(np.float16).view(np.uint8)
    if kind == gguf.GGMLQuantizationType.Q6_K:
        blocks[:, 208:210] = scale[:, :2]
    elif kind == gguf.GGMLQuantizationType.BF16:
        blocks = (rng.normal(0, 1, len(blocks)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8).reshape(-1, 2)
    elif kind in (gguf.GGMLQuantizationType.Q4_K, gguf.GGMLQuantizationType.Q4_1):
        blocks[:, :4] = scale
    else:
        blocks[:, :2] = scale[:, :2]
    numbers = gguf.quants.dequantize(blocks.reshape(-1), kind)
    out[kind.name] = {"bytes": blocks.tobytes().hex(), "values": [float(f"{x:.9g}") for x in numbers]}
print(json.dumps(out))
