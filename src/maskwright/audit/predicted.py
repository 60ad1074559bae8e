"""Logits and labels to compute a loss of, and what the cross entropy of them is by its definition."""

from __future__ import annotations

import torch
from torch import Tensor

from maskwright.audit.function import Function

IGNORED = -100
LENGTH, VOCAB = 13, 31
TARGETS = ((1, 2, 4, 7, 8), (2, 3, 5), (3,))  # slots of each row; behind them nothing but ignored ones


def batch(function: Function, n_more: int = 0, scale: float = 1.0, *, with_ends: bool = True) -> tuple[Tensor, Tensor]:
    """(logits `[3, L, V]`, labels `[3, L]`).

    Args:
        n_more: slots without a target at the end of each row.
        scale: of the logits.
        with_ends: the first and the last id of the vocabulary are among the labels.
    """
    generator = torch.Generator().manual_seed(0)
    logits = scale * torch.randn(len(TARGETS), LENGTH + 7, VOCAB, generator=generator, dtype=torch.float64)
    ids = torch.randint(1, VOCAB - 1, (len(TARGETS), LENGTH + 7), generator=generator)
    if with_ends:
        ids[0, TARGETS[0][-1]], ids[1, TARGETS[1][-1]] = 0, VOCAB - 1
    labels = torch.full_like(ids, IGNORED)
    for row, slots in enumerate(TARGETS):
        labels[row, list(slots)] = ids[row, list(slots)]
    width = LENGTH + n_more
    return logits[:, :width].to(function.dtype), labels[:, :width]


def unused(labels: Tensor) -> Tensor:
    """bool `[B, L]`, True = logits that predict no target, neither in its own slot nor, shifted, in the one before."""
    ahead = torch.nn.functional.pad(labels, (0, 1), value=IGNORED)[:, 1:]
    return (labels == IGNORED) & (ahead == IGNORED)


def summed_cross_entropy(logits: Tensor, labels: Tensor, *, shifted: bool) -> float:
    """By its definition, in float64: the logarithm of the sum of exponentials less the target's logit, summed."""
    if shifted:
        logits, labels = logits[:, :-1], labels[:, 1:]
    total = 0.0
    for scores, label in zip(logits.double().flatten(0, 1), labels.flatten(), strict=True):
        if int(label) != IGNORED:
            top = float(scores.max())
            total += top + float((scores - top).exp().sum().log()) - float(scores[int(label)])
    return total
