"""The loss of one optimizer step, normalised over the whole step however it is cut into batches."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from maskwright.objectives.rdrop import IGNORED, summed_divergence


def summed_loss(
    logits: Tensor, labels: Tensor, label_smoothing: float = 0.0, class_weights: Tensor | None = None
) -> Tensor:
    """The sum of the losses of all labels, in float32.

    Shapes: class indices, int `[B]` or `[B, L]` against logits `[B, C]` or `[B, L, C]`, -100 counting nothing: cross
    entropy. Floats of the logits' own shape `[B, C]`: binary cross entropy (multi-label). Floats `[B]` against
    `[B, 1]`: squared error (regression). `class_weights` `[C]` weigh the cross entropy.

    Example:
        >>> summed_loss(torch.zeros(2, 1), torch.tensor([1.0, 2.0]))
        tensor(5.)
    """
    logits = logits.float()
    if not labels.is_floating_point():
        flat, gold = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
        return F.cross_entropy(flat, gold, class_weights, reduction="sum", label_smoothing=label_smoothing)
    if labels.ndim == logits.ndim:
        return F.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
    return F.mse_loss(logits.squeeze(-1), labels, reduction="sum")


class StepLoss:
    """transformers' `compute_loss_func`: the summed loss over the number of labels in the whole optimizer step.

    A model's own loss is a mean over its batch, so that an example in a small batch would weigh more than one in a
    large batch; dividing by the step's own count gives every example the same weight.

    Outputs of twice as many rows as labels are two passes over the same batch (R-Drop): the loss is then the mean of
    the two, plus `rdrop_alpha` times their divergence. With `class_weights`, every example counts as much as the
    weight of its gold class, in both parts, and the step's weights take the place of its count.

    Args:
        label_smoothing: share of probability spread over all classes.
        rdrop_alpha: factor of the divergence.
        class_weights: float `[C]`, for class indices only.

    Source: Liang et al. 2021, R-Drop: Regularized Dropout for Neural Networks.
    """

    def __init__(
        self, label_smoothing: float = 0.0, *, rdrop_alpha: float = 0.0, class_weights: Tensor | None = None
    ) -> None:
        self.label_smoothing = label_smoothing
        self.rdrop_alpha = rdrop_alpha
        self.class_weights = class_weights

    def count(self, labels: Tensor) -> Tensor:
        """What a batch's labels add to the divisor of its step: their number, or the sum of their classes' weights."""
        if self.class_weights is None:
            return labels.ne(IGNORED).sum()
        return self.class_weights.to(labels.device)[labels[labels.ne(IGNORED)]].sum()

    def __call__(
        self, outputs: Mapping[str, Tensor], labels: Tensor, num_items_in_batch: Tensor | None = None
    ) -> Tensor:
        count = torch.as_tensor(self.count(labels) if num_items_in_batch is None else num_items_in_batch)
        logits = outputs["logits"]
        weights = None if self.class_weights is None else self.class_weights.to(logits.device)
        if len(logits) == len(labels):
            total = summed_loss(logits, labels, self.label_smoothing, weights)
        else:
            first, second = logits.chunk(2)
            both = labels.repeat(2, *(1,) * (labels.ndim - 1))
            total = summed_loss(logits, both, self.label_smoothing, weights) / 2
            total = total + self.rdrop_alpha * summed_divergence(first, second, labels, weights)
        return total / (count.clamp(min=1) if weights is None else torch.where(count > 0, count, 1))


def balanced_weights(labels: Tensor, n_classes: int) -> Tensor:
    """`[N]` class indices -> float32 `[C]`: weights under which all classes that occur count the same in all.

    A class's weight is N / (classes that occur * its examples), so that the mean over examples is 1 (scikit-learn's
    "balanced"). Classes that do not occur weigh 0.

    Example:
        >>> balanced_weights(torch.tensor([0, 0, 0, 1]), 2)
        tensor([0.6667, 2.0000])
    """
    counts = torch.bincount(labels, minlength=n_classes)
    weights = len(labels) / (int((counts > 0).sum()) * counts.double())
    return torch.where(counts > 0, weights, 0.0).float()
