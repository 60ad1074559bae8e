"""One call of a model, described: which sequences, how they lie in the batch, and how mask and positions are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

Side = Literal["right", "left"]
MaskForm = Literal["int", "bool", "float", "inverted", "none", "4d bool", "4d additive"]
Positions = Literal["default", "of tokens"]
Part = Literal["input", "decoder"]


@dataclass(frozen=True, eq=False)
class Trial:
    """Sequences of token ids and how they are laid out. Two trials of the same sequences should agree on them.

    Attributes:
        sequences: int64 `[n]` each.
        order: the sequences that each row of the batch holds, one after the other; () = one a row.
        side: where padding stands.
        n_pads: slots more than the longest row needs.
        hole: (before which token of every sequence, how many) padded slots stand in its middle.
        fill: id in padded slots; None = the model's pad id.
        pad_value: instead, a number that stands everywhere in the embeddings of padded slots.
        as_embeddings: whether embeddings of the ids are handed over, not the ids.
        mask: how the keep mask is handed over; "none" = not at all. The 4-D forms keep the sequences of a row apart.
        positions: "of tokens" hands over position_ids that count the tokens of each sequence.
        part: "decoder" = the sequences are those that an encoder-decoder's decoder reads; its encoder reads the same
            few tokens in every call.
        options: further arguments of the call, e.g. use_cache; `settings` change the model before it (see `Subject`).
    """

    sequences: tuple[Tensor, ...]
    order: tuple[tuple[int, ...], ...] = ()
    side: Side = "right"
    n_pads: int = 0
    hole: tuple[int, int] = (0, 0)
    fill: int | None = None
    pad_value: float | None = None
    as_embeddings: bool = False
    mask: MaskForm = "int"
    positions: Positions = "default"
    part: Part = "input"
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """The sequences of each row."""
        return self.order or tuple((i,) for i in range(len(self.sequences)))

    def but(self, **changes: Any) -> Trial:
        """The same with changes."""
        return replace(self, **changes)


@dataclass(frozen=True, eq=False)
class Laid:
    """A trial as tensors.

    Attributes:
        ids: int64 `[B, L]`.
        sequence: int64 `[B, L]`, the sequence of each slot, -1 = padding.
        position: int64 `[B, L]`, the token's place in its sequence, 0 = padding.
        places: sequence -> (row, first slot); `slots` has all of them.
    """

    ids: Tensor
    sequence: Tensor
    position: Tensor
    places: Mapping[int, tuple[int, int]]

    @property
    def keep(self) -> Tensor:
        """bool `[B, L]`, True = a token."""
        return self.sequence >= 0

    def slots(self, sequence: int) -> Tensor:
        """int64 `[n]`, where the tokens of a sequence stand in its row."""
        row, _ = self.places[sequence]
        return (self.sequence[row] == sequence).nonzero()[:, 0]

    @property
    def blocks(self) -> Tensor:
        """bool `[B, L, L]`, True = may attend: the same sequence, and a token."""
        return (self.sequence[:, :, None] == self.sequence[:, None, :]) & self.keep[:, None, :]


def lay(trial: Trial, pad_id: int) -> Laid:
    """Rows padded to one width.

    Example:
        >>> laid = lay(Trial((torch.tensor([7, 8]), torch.tensor([9])), side="left"), pad_id=0)
        >>> laid.ids.tolist(), laid.places[1]
        ([[7, 8], [0, 9]], (1, 1))
        >>> lay(Trial((torch.tensor([7, 8, 9]),), hole=(1, 2)), pad_id=0).ids.tolist()
        [[7, 0, 0, 8, 9]]
    """
    at, n_missing = trial.hole
    lengths = [sum(len(trial.sequences[i]) + n_missing for i in row) for row in trial.rows]
    shape = (len(trial.rows), max(lengths) + trial.n_pads)
    ids = torch.full(shape, pad_id if trial.fill is None else trial.fill)
    sequence, position = torch.full(shape, -1), torch.zeros(shape, dtype=torch.long)
    places = {}
    for number, (row, length) in enumerate(zip(trial.rows, lengths, strict=True)):
        start = shape[1] - length if trial.side == "left" else 0
        for index in row:
            n = len(trial.sequences[index])
            places[index] = (number, start)
            count = torch.arange(n)
            slots = start + count + n_missing * (count >= at)
            ids[number, slots] = trial.sequences[index]
            sequence[number, slots] = index
            position[number, slots] = count
            start += n + n_missing
    return Laid(ids, sequence, position, places)
