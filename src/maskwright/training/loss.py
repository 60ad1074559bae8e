"""The loss of one optimizer step, normalised over the whole step however it is cut into batches."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def summed_loss(logits: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """The sum of the losses of all labels, in float32.

    Shapes: class indices, int `[B]` or `[B, L]` against logits `[B, C]` or `[B, L, C]`, -100 counting nothing: cross
    entropy. Floats of the logits' own shape `[B, C]`: binary cross entropy (multi-label). Floats `[B]` against
    `[B, 1]`: squared error (regression).

    Example:
        >>> summed_loss(torch.zeros(2, 1), torch.tensor([1.0, 2.0]))
        tensor(5.)
    """
    logits = logits.float()
    if not labels.is_floating_point():
        flat = logits.reshape(-1, logits.shape[-1])
        return F.cross_entropy(flat, labels.reshape(-1), reduction="sum", label_smoothing=label_smoothing)
    if labels.ndim == logits.ndim:
        return F.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
    return F.mse_loss(logits.squeeze(-1), labels, reduction="sum")


class StepLoss:
    """transformers' `compute_loss_func`: the summed loss over the number of labels in the whole optimizer step.

    A model's own loss is a mean over its batch, so that an example in a small batch would weigh more than one in a
    large batch; dividing by the step's own count gives every example the same weight.
    """

    def __init__(self, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def __call__(self, outputs: dict[str, Tensor], labels: Tensor, num_items_in_batch: Tensor | None = None) -> Tensor:
        count = labels.ne(-100).sum() if num_items_in_batch is None else num_items_in_batch
        return summed_loss(outputs["logits"], labels, self.label_smoothing) / torch.as_tensor(count).clamp(min=1)
