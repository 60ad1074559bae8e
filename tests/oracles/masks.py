"""Masks and masked attention by definition: Python loops over single pairs, NumPy in float64, no shared formula."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

MayAttend = Callable[[int, int, int], bool]  # (row, query, key)


def padding(lengths: Sequence[int], length: int, side: str) -> MayAttend:
    def may(row: int, query: int, key: int) -> bool:
        n = lengths[row]
        return key in (range(n) if side == "right" else range(length - n, length))

    return may


def causal(row: int, query: int, key: int) -> bool:
    return not key > query


def prefix(n: int) -> MayAttend:
    return lambda row, query, key: key in range(n) or key in range(query + 1)


def window(left: int, right: int) -> MayAttend:
    return lambda row, query, key: key in range(query - left, query + right + 1)


def documents(ids: Sequence[Sequence[int]]) -> MayAttend:
    return lambda row, query, key: ids[row][query] == ids[row][key]


def hidden(columns: Sequence[Sequence[bool]]) -> MayAttend:
    return lambda row, query, key: not columns[row][key]


def table(may: MayAttend, n_rows: int, n_queries: int, n_keys: int) -> np.ndarray:
    """bool `[B, Q, K]`, True = may attend."""
    return np.array(
        [[[may(b, q, k) for k in range(n_keys)] for q in range(n_queries)] for b in range(n_rows)], dtype=bool
    )


def softmax(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """`[B, H, Q, K]` scores and `[B, Q, K]` -> probabilities; zeros where a query may attend to nothing."""
    out = np.zeros(scores.shape)
    for b, h, q in np.ndindex(scores.shape[:3]):
        keys = [k for k in range(scores.shape[3]) if allowed[b, q, k]]
        if keys:
            highest = max(scores[b, h, q, k] for k in keys)
            powers = [math.exp(scores[b, h, q, k] - highest) for k in keys]
            for k, power in zip(keys, powers, strict=True):
                out[b, h, q, k] = power / math.fsum(powers)
    return out


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """`[B, H, Q, d]`, `[B, H, K, d]` twice, `[B, Q, K]` -> `[B, H, Q, d]`."""
    out = np.zeros((*q.shape[:3], v.shape[3]))
    scores = np.zeros((*q.shape[:3], k.shape[2]))
    for b, h, i, j in np.ndindex(scores.shape):
        scores[b, h, i, j] = sum(x * y for x, y in zip(q[b, h, i], k[b, h, j], strict=True)) / math.sqrt(q.shape[3])
    probabilities = softmax(scores, allowed)
    for b, h, i in np.ndindex(q.shape[:3]):
        for j in range(k.shape[2]):
            if probabilities[b, h, i, j]:  # what stands in a blocked slot is never looked at
                out[b, h, i] += probabilities[b, h, i, j] * v[b, h, j]
    return out
