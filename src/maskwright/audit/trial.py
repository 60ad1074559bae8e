"""One call of a model, described: which sequences, how they lie in the batch, and how the mask is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

Side = Literal["right", "left"]
MaskForm = Literal["int", "bool", "float", "inverted", "none", "4d bool", "4d additive"]


@dataclass(frozen=True, eq=False)
class Trial:
    """Sequences of token ids and how they are laid out. Two trials of the same sequences should agree on them.

    Attributes:
        sequences: int64 `[n]` each.
        order: the sequence that each row of the batch holds.
        side: where padding stands.
        n_pads: slots more than the longest row needs.
        fill: id in padded slots; None = the model's pad id.
        mask: how the keep mask is handed over; "none" = not at all.
        options: further arguments of the call, e.g. use_cache; `settings` change the model before it (see `Subject`).
    """

    sequences: tuple[Tensor, ...]
    order: tuple[int, ...] = ()
    side: Side = "right"
    n_pads: int = 0
    fill: int | None = None
    mask: MaskForm = "int"
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[int, ...]:
        """The sequence of each row."""
        return self.order or tuple(range(len(self.sequences)))

    def but(self, **changes: Any) -> Trial:
        """The same with changes."""
        return replace(self, **changes)


@dataclass(frozen=True, eq=False)
class Laid:
    """A trial as tensors: ids int64 `[B, L]`, keep bool `[B, L]` (True = a token), and where each row's text starts."""

    ids: Tensor
    keep: Tensor
    starts: tuple[int, ...]


def lay(trial: Trial, pad_id: int) -> Laid:
    """Rows padded to one width.

    Example:
        >>> laid = lay(Trial((torch.tensor([7, 8]), torch.tensor([9])), side="left"), pad_id=0)
        >>> laid.ids.tolist(), laid.starts
        ([[7, 8], [0, 9]], (0, 1))
    """
    rows = [trial.sequences[i] for i in trial.rows]
    width = max(map(len, rows)) + trial.n_pads
    ids = torch.full((len(rows), width), pad_id if trial.fill is None else trial.fill)
    keep = torch.zeros(ids.shape, dtype=torch.bool)
    starts = tuple(width - len(row) if trial.side == "left" else 0 for row in rows)
    for number, (row, start) in enumerate(zip(rows, starts, strict=True)):
        ids[number, start : start + len(row)] = row
        keep[number, start : start + len(row)] = True
    return Laid(ids, keep, starts)
