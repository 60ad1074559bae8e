"""What a pretrained model has to beat: guessing by frequency."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

_HARDLY = 0.95


def frequency_loss(rows: Iterable[Sequence[int]], special_ids: Iterable[int]) -> float | None:
    """Nats a token of the best guess that never looks at the context: the entropy of the tokens, without special ones.

    None where there is no ordinary token. In hindsight, of these very rows: of few rows it is lower than of a corpus.

    Example:
        >>> round(frequency_loss([[2, 7, 8, 3], [2, 8, 7, 3]], special_ids=[2, 3]), 4)  # two tokens, equally often
        0.6931
    """
    counts = np.zeros(0, dtype=np.int64)
    for ids in rows:
        of_row = np.bincount(ids, minlength=len(counts))
        of_row[: len(counts)] += counts
        counts = of_row
    counts[[i for i in special_ids if i < len(counts)]] = 0
    if not counts.any():
        return None
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def is_hardly_better(loss: float, by_frequency: float) -> bool:
    """Whether a masked loss shows next to nothing learned from context."""
    return loss > _HARDLY * by_frequency
