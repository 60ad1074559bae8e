"""What is masked or hidden in a batch, drawn in the main process from (seed, step, micro-step, rank) alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from maskwright.encoders.droptoken import IGNORED
from maskwright.objectives.corruption import Corruption
from maskwright.objectives.units import Unit, choose, token_units, units_of

Batch = dict[str, Tensor]
EVAL_RATE = 0.15


class Draw(Protocol):
    """A batch of ids -> the same with labels (-100 = no target), and whatever else the objective needs."""

    def __call__(self, batch: Batch, rate: float, generator: torch.Generator) -> Batch:
        """`batch` has input_ids and attention_mask `[B, L]`, and word_ids where units are words."""


@dataclass(frozen=True)
class MaskedDraw:
    """MLM: corrupted ids, labels."""

    corruption: Corruption
    special_ids: Tensor

    def __call__(self, batch: Batch, rate: float, generator: torch.Generator) -> Batch:
        """Corrupt."""
        batch = dict(batch)
        words = batch.pop("word_ids", None)
        may_mask = batch["attention_mask"].bool() & ~torch.isin(batch["input_ids"], self.special_ids)
        corrupt = replace(self.corruption, rate=rate)
        batch["input_ids"], batch["labels"] = corrupt(batch["input_ids"], may_mask, generator, words)
        return batch


@dataclass(frozen=True)
class HiddenDraw:
    """MAE: which tokens are hidden (in exact number), and which of them are predicted.

    Attributes:
        unit: what is hidden together.
        target_share: of the hidden tokens; in evaluation all of them are predicted.
    """

    special_ids: Tensor
    unit: Unit = "token"
    target_share: float = 1.0

    def __call__(self, batch: Batch, rate: float, generator: torch.Generator) -> Batch:
        """Hide."""
        batch = dict(batch)
        words = batch.pop("word_ids", None)
        ids = batch["input_ids"]
        may_hide = batch["attention_mask"].bool() & ~torch.isin(ids, self.special_ids)
        hidden = choose(units_of(self.unit, may_hide, words, generator), rate, generator, exact=True)
        targets = hidden
        if self.target_share < 1:
            targets = choose(token_units(hidden), self.target_share, generator, exact=True)
        return batch | {"hidden": hidden, "labels": torch.where(targets, ids, IGNORED)}
