"""Batches by real tokens rather than by rows, and what padding costs without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, cycle, islice

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import get_length_grouped_indices

from maskwright.errors import InputError

Indices = npt.NDArray[np.int64]
TRIALS = 4


class TokenBudgetBatches(Sampler[list[int]]):
    """A batch sampler whose batches hold at most `max_tokens` real tokens, in random order and membership.

    Each epoch the rows are permuted anew and cut greedily: a batch is closed where the next row would exceed the
    budget or `max_rows`. A row longer than the budget is a batch of its own. Inside a batch rows stand longest first;
    order inside a batch means nothing to training and helps a packed encoder. With `shuffle=False` the rows are taken
    longest first instead, which suits evaluation.

    Everything follows from (`seed`, `epoch`); call `set_epoch` before each epoch. The number of batches is the same
    in every epoch, so schedules can count on `len`: it is the largest of a few trial epochs; a permutation that needs
    more is drawn again, and where one needs fewer its largest batches are halved.

    Rank r of `world_size` takes batches r, r + world_size, …; all ranks have equally many. To that end the largest
    batches are halved until the number divides, so every row comes exactly once; only when every batch is down to one
    row do the first batches come again to fill up. With `drop_last` the surplus batches are left out instead, other
    ones each epoch.

    Args:
        lengths: real tokens of each row, at least 1.
        max_tokens: budget of one batch on one rank, in real tokens.
        max_rows: most rows of one batch.

    Raises:
        InputError: no rows, a row without a token, or an argument out of range.

    Example:
        >>> batches = TokenBudgetBatches([5, 3, 9, 2, 4], max_tokens=10)
        >>> sorted(index for batch in batches for index in batch)
        [0, 1, 2, 3, 4]
    """

    def __init__(
        self,
        lengths: Sequence[int],
        max_tokens: int,
        *,
        seed: int = 0,
        max_rows: int | None = None,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        self._lengths = _checked(lengths)
        if max_tokens < 1:
            raise InputError(f"at least 1 token is needed, not {max_tokens}", "max_tokens")
        if max_rows is not None and max_rows < 1:
            raise InputError(f"at least 1 row is needed, not {max_rows}", "max_rows")
        if not 0 <= rank < world_size:
            raise InputError(f"rank {rank} is not one of {world_size}", "rank")
        self._max_tokens = max_tokens
        self._max_rows = max_rows or len(self._lengths)
        self._seed = seed
        self._shuffle = shuffle
        self._rank = rank
        self._world_size = world_size
        self._epoch = 0

        n_batches = max(len(self._cut(self._order(trial, 0))) for trial in range(TRIALS if shuffle else 1))
        self._most = n_batches
        self._n_batches = n_batches - n_batches % world_size if drop_last else n_batches + -n_batches % world_size
        if self._n_batches == 0:
            raise InputError(f"{n_batches} batches do not reach all {world_size} ranks; lower max_tokens", "max_tokens")

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose batches the next iteration gives."""
        self._epoch = epoch

    def __len__(self) -> int:
        return self._n_batches // self._world_size

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self._batches()[self._rank :: self._world_size]:
            yield batch.tolist()

    def _batches(self) -> list[Indices]:
        for draw in count():
            batches = self._cut(self._order(self._epoch, draw))
            if len(batches) <= self._most:
                break
        batches = _halve_largest(batches, max(self._n_batches, self._most), self._lengths)
        batches = list(islice(cycle(batches), self._n_batches))
        return [batch[np.argsort(-self._lengths[batch], kind="stable")] for batch in batches]

    def _order(self, epoch: int, draw: int) -> Indices:
        if not self._shuffle:
            return np.argsort(-self._lengths, kind="stable")
        return np.random.default_rng([self._seed, epoch, draw]).permutation(len(self._lengths))

    def _cut(self, order: Indices) -> list[Indices]:
        ends = np.cumsum(self._lengths[order])
        batches = []
        start = taken = 0
        while start < len(order):
            fits = int(np.searchsorted(ends, taken + self._max_tokens, side="right"))
            stop = min(max(fits, start + 1), start + self._max_rows)
            batches.append(order[start:stop])
            start, taken = stop, int(ends[stop - 1])
        return batches


def padding_stats(lengths: Sequence[int], batch_size: int, seed: int = 0) -> dict[str, float]:
    """What batches of `batch_size` rows, each padded to its longest, compute per real token.

    Returns `n_rows`, `real_tokens`, and, in random order and in length-grouped order (transformers'
    ``group_by_length``), `random_slots` and `grouped_slots` (real and padded slots together) and their ratios to the
    real tokens, `random_ratio` and `grouped_ratio`: 1.0 means no padding, 2.0 that every second slot is padding.

    Raises:
        InputError: no rows, a row without a token, or a `batch_size` below 1.

    Example:
        >>> padding_stats([3, 3, 3, 3], batch_size=2)["random_ratio"]
        1.0
    """
    checked = _checked(lengths)
    if batch_size < 1:
        raise InputError(f"at least 1 row is needed, not {batch_size}", "batch_size")
    generator = torch.Generator().manual_seed(seed)
    orders = {
        "random": torch.randperm(len(checked), generator=generator).tolist(),
        "grouped": get_length_grouped_indices(checked.tolist(), batch_size, generator=generator),
    }
    real = int(checked.sum())
    stats: dict[str, float] = {"n_rows": len(checked), "real_tokens": real}
    for name, order in orders.items():
        batches = [checked[order[i : i + batch_size]] for i in range(0, len(order), batch_size)]
        slots = sum(int(batch.max()) * len(batch) for batch in batches)
        stats |= {f"{name}_slots": slots, f"{name}_ratio": slots / real}
    return stats


def _checked(lengths: Sequence[int]) -> Indices:
    array = np.asarray(lengths, np.int64)
    if not len(array):
        raise InputError("there are no rows to batch", "lengths")
    if (array < 1).any():
        raise InputError(f"row {int((array < 1).argmax())} has no token", "lengths")
    return array


def _halve_largest(batches: list[Indices], n_batches: int, lengths: Indices) -> list[Indices]:
    batches = list(batches)
    while len(batches) < n_batches:
        sizes = [int(lengths[batch].sum()) if len(batch) > 1 else 0 for batch in batches]
        largest = int(np.argmax(sizes))
        if not sizes[largest]:
            break
        whole = batches[largest]
        batches[largest : largest + 1] = [whole[: len(whole) // 2], whole[len(whole) // 2 :]]
    return batches
