"""What is no candidate, such as a padded choice, never wins and takes no share of the loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from maskwright.training.loss import StepLoss


def lower(logits: Tensor, keep: Tensor) -> Tensor:
    """Logits with the lowest value of their type wherever `keep` (bool, of the same shape) is False.

    Example:
        >>> lower(torch.zeros(2), torch.tensor([True, False])).softmax(0)
        tensor([1., 0.])
    """
    return torch.where(keep.to(logits.device), logits, torch.finfo(logits.dtype).min)


class CandidateLoss(StepLoss):
    """A `StepLoss` over logits some of which are no candidates: those take no share of label smoothing either.

    A token that one of R-Drop's two passes dropped is a candidate in neither, or their divergence would be endless.
    """

    def __init__(self, label_smoothing: float = 0.0, **options: Any) -> None:
        super().__init__(0.0, **options)
        self.smoothed_share = label_smoothing

    def __call__(
        self, outputs: Mapping[str, Tensor], labels: Tensor, num_items_in_batch: Tensor | None = None
    ) -> Tensor:
        """The loss of labels `[B]` or `[B, 2]` against logits `[B, C]` or `[B, 2, C]`."""
        logits = outputs["logits"]
        is_candidate = logits > torch.finfo(logits.dtype).min
        n_passes = len(logits) // len(labels)  # two under R-Drop
        if n_passes == 2:
            is_candidate = is_candidate.unflatten(0, (2, -1)).all(0).repeat(2, *(1,) * (logits.ndim - 1))
        logits = lower(logits.float(), is_candidate)
        loss = super().__call__({"logits": logits}, labels, num_items_in_batch)
        if not self.smoothed_share:
            return loss
        gold = labels.repeat(n_passes, *(1,) * (labels.ndim - 1))
        surprise = -F.log_softmax(logits, -1)
        even = torch.where(is_candidate, surprise, 0).sum(-1) / is_candidate.sum(-1)
        excess = (even - surprise.gather(-1, gold[..., None]).squeeze(-1)).sum() / n_passes
        count = torch.as_tensor(labels.numel() if num_items_in_batch is None else num_items_in_batch)
        return loss + self.smoothed_share * excess / count.clamp(min=1)
