"""Random keep masks: which tokens survive DropToken."""

from __future__ import annotations

import torch
from torch import Tensor


def sample_kept(keep: Tensor, may_drop: Tensor, drop_rate: float, generator: torch.Generator) -> Tensor:
    """Drop each droppable token with probability `drop_rate`, independently.

    Args:
        keep: bool `[B, L]`, True = takes part.
        may_drop: bool `[B, L]`, True = an ordinary token; special tokens are False and always survive.
        drop_rate: probability in [0, 1).
        generator: a CPU generator, so that a seed draws the same tokens on every device.

    Returns:
        bool `[B, L]`: `keep` less the dropped tokens. A row never loses its last token: where all would go, its first
        kept token stays.

    Source: DropToken, the MAE view of masked language modelling applied to fine-tuning.
    """
    survives = torch.rand(keep.shape, generator=generator).to(keep.device) >= drop_rate
    return keep_survivors(keep, may_drop, survives)


def keep_survivors(keep: Tensor, may_drop: Tensor, survives: Tensor) -> Tensor:
    """bool `[B, L]`: `keep` less the droppable tokens that do not survive, given what was drawn for each slot.

    A row never loses its last token: where all would go, its first kept token stays.

    Args:
        keep, may_drop: see `sample_kept`.
        survives: bool `[B, L]`, the draws.
    """
    kept = keep & (survives | ~may_drop)
    emptied = keep.any(1) & ~kept.any(1)
    first = keep.to(torch.uint8).argmax(1)
    kept[emptied, first[emptied]] = True
    return kept
