"""Attention as loops over rows, heads and queries, in float64 NumPy; softmax by explicit exponentials."""

from __future__ import annotations

import numpy as np


def attend(q, k, v, lengths, positions, scale, window=None):
    """`[T, H, d]` arrays -> `[T, H, d]`: every query over the keys of its own row."""
    out = np.zeros_like(q)
    start = 0
    for length in lengths:
        for head in range(q.shape[1]):
            for i in range(start, start + length):
                weights = []
                for j in range(start, start + length):
                    near = window is None or abs(positions[i] - positions[j]) <= window
                    weights.append(np.exp(scale * float(q[i, head] @ k[j, head])) if near else 0.0)
                for j, weight in zip(range(start, start + length), weights, strict=True):
                    out[i, head] += weight / sum(weights) * v[j, head]
        start += length
    return out
