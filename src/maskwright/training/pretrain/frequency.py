"""What a pretrained model has to beat: guessing by frequency."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

_HARDLY = 0.95
_SMOOTHING = 0.1


def frequency_loss(rows: Iterable[Sequence[int]], vocab_size: int, special_ids: Iterable[int]) -> float | None:
    """Nats a token of a guess that never looks at the context: each token from the frequency of all others of the rows.

    Leaving the token itself out keeps the guess from knowing the answer, as the entropy of few rows would. A tenth of
    an occurrence is added for every ordinary token. None where the rows hold none.

    Example:
        >>> rows = [[2, 7, 8, 3], [2, 8, 7, 3]]  # two tokens twice: of the three others, one is the same
        >>> round(frequency_loss(rows, vocab_size=9, special_ids=[2, 3]), 3)  # -log((1 + 0.1) / (3 + 7 * 0.1))
        1.213
    """
    counts = np.bincount(np.fromiter(chain.from_iterable(rows), dtype=np.int64), minlength=vocab_size)
    is_ordinary = np.ones(vocab_size, dtype=bool)
    is_ordinary[list(special_ids)] = False
    counts = counts[is_ordinary]
    n_tokens, seen = counts.sum(), counts[counts > 0]
    if not len(seen):
        return None
    shares = (seen - 1 + _SMOOTHING) / (n_tokens - 1 + _SMOOTHING * len(counts))
    return float(-(seen * np.log(shares)).sum() / n_tokens)


def is_hardly_better(loss: float, by_frequency: float) -> bool:
    """Whether a masked loss shows next to nothing learned from context."""
    return loss > _HARDLY * by_frequency
