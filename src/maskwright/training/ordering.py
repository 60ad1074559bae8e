"""Inference batches: examples of like length together, up to a token budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray


def batches_by_length(lengths: Sequence[int] | NDArray[np.int64], max_tokens: int) -> Iterator[NDArray[np.int64]]:
    """Indices of examples, the longest first, cut so that no batch, even padded, holds more than `max_tokens` slots.

    An example longer than the budget is a batch of its own.

    Example:
        >>> [batch.tolist() for batch in batches_by_length([3, 9, 2, 4], 10)]
        [[1], [3, 0], [2]]
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    ranked = np.asarray(lengths)[order]
    start = 0
    while start < len(order):
        stop = start + max(1, max_tokens // max(1, int(ranked[start])))
        yield order[start:stop]
        start = stop
