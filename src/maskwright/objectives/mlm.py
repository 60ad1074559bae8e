"""Masked language modelling that computes the vocabulary head for target tokens only, in bounded memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from maskwright.encoders.droptoken import IGNORED
from maskwright.encoders.heads import vocabulary_logits
from maskwright.encoders.pack import packed_states
from maskwright.errors import InputError

CHUNK = 1024


def target_loss(model: nn.Module, states: Tensor, targets: Tensor, chunk: int | None = CHUNK) -> Tensor:
    """The summed cross entropy of target tokens under a masked-LM model's own head.

    With more than `chunk` targets, logits are formed and thrown away a chunk at a time, forward and again backward: at
    a vocabulary of 30,522, 8,192 targets at once would take 1 GB for the logits and as much for each of their copies.

    Shapes: states `[N, D]`, targets int64 `[N]`; -> a scalar, float32 at least.
    """

    def summed(states: Tensor, targets: Tensor) -> Tensor:
        logits = vocabulary_logits(model, states)
        return cross_entropy(logits.to(torch.promote_types(logits.dtype, torch.float32)), targets, reduction="sum")

    if chunk is None or len(targets) <= chunk:
        return summed(states, targets)
    parts = zip(states.split(chunk), targets.split(chunk), strict=True)
    return torch.stack([checkpoint(summed, s, t, use_reentrant=False) for s, t in parts]).sum()


def masked_lm_loss(
    model: nn.Module, labels: Tensor, chunk: int | None = CHUNK, **inputs: Tensor
) -> tuple[Tensor, Tensor]:
    """(summed loss, number of targets) of a packed masked-LM model, the same as its own forward on all positions.

    Args:
        model: packed by `maskwright.pack`.
        labels: int64 `[B, L]`, -100 = no target.
        chunk: targets whose logits are held at once; None = all.
        inputs: the model's other arguments, padded.

    Raises:
        InputError: no target at all.
    """
    states, layout = packed_states(model, **inputs)
    packed = layout.pack(labels)
    chosen = (packed != IGNORED).nonzero().squeeze(1)
    if not len(chosen):
        raise InputError("hold no target: every label is -100 or padding", "labels")
    return target_loss(model, states.index_select(0, chosen), packed[chosen], chunk), chosen.new_tensor(len(chosen))
