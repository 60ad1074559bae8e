"""States to pool, laid out as a batch, and what the usual faults of pooling would make of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from maskwright.audit.compare import LEAK64
from maskwright.audit.function import Function

LENGTHS = (7, 5, 3)
Side = Literal["right", "left"]


def states(function: Function, *lengths: int, seed: int = 0, shift: float = 0.0) -> list[Tensor]:
    """Random states `[n, D]` of each row, the same for a seed whatever the dtype; `shift` is their mean."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(n, function.width, generator=generator, dtype=torch.float64) for n in lengths]
    return [(row + shift).to(function.dtype) for row in drawn]


def laid(
    rows: Sequence[Tensor], *, side: Side = "right", n_pads: int = 0, hole: int = 0, fill: float | None = 0.0
) -> tuple[Tensor, Tensor]:
    """(hidden `[B, L, D]`, keep bool `[B, L]`) of rows `[n, D]`, padded to one width.

    Args:
        side: where padding stands. n_pads: slots more than the longest row needs.
        hole: padded slots behind each row's first token.
        fill: what stands in padded slots; None = random numbers.

    Example:
        >>> laid([torch.ones(2, 1), torch.ones(1, 1)], side="left")[1].tolist()
        [[True, True], [False, True]]
    """
    longest = max(len(row) for row in rows)
    shape = (len(rows), longest + hole + n_pads)
    keep = torch.zeros(shape, dtype=torch.bool)
    for number, row in enumerate(rows):
        start = 0 if side == "right" else shape[1] - len(row) - hole
        slots = start + torch.arange(len(row))
        keep[number, slots + hole * (torch.arange(len(row)) > 0)] = True
    hidden = rows[0].new_empty(*shape, rows[0].shape[1])
    noise = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    hidden.copy_(noise if fill is None else torch.full_like(noise, fill))
    hidden[keep] = torch.cat(list(rows))
    return hidden, keep


def pooled(function: Function, hidden: Tensor, keep: Tensor) -> Tensor:
    """The vectors `[B, D]`."""
    result: Tensor = function(hidden, keep.to(function.keep_dtype))
    return result


def suspected(function: Function) -> str:
    """The cause of a pooled vector that padding changes, by comparison with what the usual faults would give."""
    try:
        with function.cast_to(torch.float64), torch.no_grad():
            return _suspected(function)
    except Exception:  # the rule that asked shows what it raises
        return "pooling"


def _suspected(function: Function) -> str:
    rows = states(function, *LENGTHS)
    others = [rows[0], *states(function, *LENGTHS[1:], seed=3)]
    if not torch.equal(pooled(function, *laid(rows))[0], pooled(function, *laid(others))[0]):
        return "rows-mixed"
    left, kept_left = laid(rows, side="left", n_pads=2, fill=None)
    right, kept_right = laid(rows, n_pads=2, fill=None)
    got, other = pooled(function, left, kept_left), pooled(function, right, kept_right)
    negative, kept = laid(states(function, *LENGTHS, shift=-9.0), n_pads=2)
    ends = torch.tensor(LENGTHS) - 1
    holed, kept_holed = laid(rows, hole=2)
    by_slot = kept_holed * torch.arange(1, holed.shape[1] + 1, dtype=holed.dtype)
    weighted = (holed * by_slot[..., None]).sum(1) / by_slot.sum(1)[:, None]
    guesses = (
        ("pooling", got, left.mean(1)),
        ("first-slot", got, left[:, 0]),
        ("row-selection", other, right[:, -1]),
        ("row-selection", got, left[torch.arange(len(rows)), ends]),
        ("slots-counted", pooled(function, holed, kept_holed), weighted),
        ("mask-never-arrives", got, pooled(function, left, torch.ones_like(kept_left))),
        ("polarity", got, pooled(function, torch.where(kept_left[..., None], 2 * left, left), kept_left)),
        ("zero-wins-max", pooled(function, negative, kept), negative[:, -1]),
    )
    for cause, found, formula in guesses:
        if found.shape == formula.shape and bool(((found - formula).abs() <= LEAK64).all()):
            return cause
    return "pooling"
