"""The batches that `maskwright bench` times: the same texts in random order and grouped by length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Batches = list[list[int]]

_MEGABATCH = 50  # transformers groups by length within so many batches


@dataclass(frozen=True, slots=True)
class Workload:
    """The same texts, by index, cut into batches in two ways."""

    random: Batches
    grouped: Batches

    @property
    def rows(self) -> list[int]:
        """Every text of a pass, once."""
        return [row for batch in self.random for row in batch]


@dataclass(frozen=True, slots=True)
class StepCost:
    """Seconds of a stock training step: so much in any case (the optimizer), and so much for each slot."""

    fixed_s: float
    slot_s: float

    def step_s(self, n_slots: float) -> float:
        """Seconds of a step over so many slots."""
        return self.fixed_s + self.slot_s * n_slots


def fit_workload(lengths: Sequence[int], batch_size: int, cost: StepCost, pass_s: float) -> tuple[int, int]:
    """Rows a batch and batches a pass, so that a pass in random order takes about `pass_s` seconds.

    A pass has 2 to 16 batches; the batch is halved until two of them fit, or hold two rows.

    Example:
        >>> cost = StepCost(fixed_s=0.1, slot_s=0.001)
        >>> fit_workload([50] * 100, batch_size=16, cost=cost, pass_s=5)
        (16, 5)
        >>> fit_workload([500] * 100, batch_size=16, cost=cost, pass_s=5)
        (4, 2)
    """
    longest = float(np.quantile(lengths, 0.95))
    batch_size = max(1, min(batch_size, len(lengths) // 2))
    while batch_size > 2 and 2 * cost.step_s(batch_size * longest) > pass_s:
        batch_size //= 2
    n_batches = min(max(2, int(pass_s / cost.step_s(batch_size * longest))), 16)
    return batch_size, min(n_batches, len(lengths) // batch_size)


def draw_workload(lengths: Sequence[int], batch_size: int, n_batches: int, seed: int) -> Workload:
    """Some batches of a length-grouped epoch, short to long, and the same texts in random order.

    Example:
        >>> work = draw_workload([3, 9, 4, 8], batch_size=2, n_batches=2, seed=0)
        >>> sorted(map(sorted, work.grouped))
        [[0, 2], [1, 3]]
        >>> sorted(work.rows)
        [0, 1, 2, 3]
    """
    rng = np.random.default_rng(seed)
    n_rows = min(len(lengths), _MEGABATCH * batch_size) // batch_size * batch_size
    epoch = _cut(sorted(rng.permutation(len(lengths))[:n_rows].tolist(), key=lengths.__getitem__), batch_size)
    # The middle of each of n_batches equal parts, so that short and long batches are all represented.
    grouped = [epoch[int((i + 0.5) * len(epoch) / n_batches)] for i in range(n_batches)]
    rows = rng.permutation([row for batch in grouped for row in batch])
    return Workload(_cut(rows.tolist(), batch_size), grouped)


def count_slots(batches: Batches, lengths: Sequence[int]) -> int:
    """The slots of the batches, each padded to its longest row.

    Example:
        >>> count_slots([[0, 1], [2]], [2, 6, 4])
        16
    """
    return sum(len(batch) * max(lengths[row] for row in batch) for batch in batches)


def _cut(rows: list[int], batch_size: int) -> Batches:
    return [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]
