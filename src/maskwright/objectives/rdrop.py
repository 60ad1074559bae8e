"""R-Drop: every example passes twice under independent dropout, and the two outputs are drawn together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

IGNORED = -100


def twice(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A batch of B rows as one of 2B rows: row b comes again as row B + b, to be dropped from independently.

    Args:
        inputs: a model's arguments, `input_ids` among them; tensors that lead with its B rows are repeated, all else
            is handed on.

    Example:
        >>> twice({"input_ids": torch.tensor([[5, 6], [7, 0]])})["input_ids"].tolist()
        [[5, 6], [7, 0], [5, 6], [7, 0]]
    """
    n_rows = len(inputs["input_ids"])
    return {
        name: torch.cat([value, value]) if isinstance(value, Tensor) and value.ndim and len(value) == n_rows else value
        for name, value in inputs.items()
    }


def symmetric_kl(first: Tensor, second: Tensor) -> Tensor:
    """Logits `[..., C]` of two passes -> `[...]`: KL divergence averaged over both directions, in nats.

    (KL(p|q) + KL(q|p)) / 2 = sum of (p - q) (log p - log q) / 2. A class that has no probability in either pass (a
    padded choice, say, with the lowest logit) adds nothing.

    Example:
        >>> symmetric_kl(torch.tensor([0.0, 0.0]), torch.tensor([0.0, 0.0]))
        tensor(0.)

    Source: Liang et al. 2021, R-Drop: Regularized Dropout for Neural Networks.
    """
    logs = first.log_softmax(-1), second.log_softmax(-1)
    return ((logs[0].exp() - logs[1].exp()) * (logs[0] - logs[1])).sum(-1) / 2


def symmetric_bernoulli_kl(first: Tensor, second: Tensor) -> Tensor:
    """Logits of single yes/no answers, any shape -> the same shape: their KL averaged over both directions, in nats.

    For two answers, the formula of `symmetric_kl` comes down to (p - q) (logit p - logit q) / 2.

    Example:
        >>> symmetric_bernoulli_kl(torch.tensor([1.0]), torch.tensor([1.0]))
        tensor([0.])
    """
    return (first.sigmoid() - second.sigmoid()) * (first - second) / 2


def summed_divergence(first: Tensor, second: Tensor, labels: Tensor, class_weights: Tensor | None = None) -> Tensor:
    """How far the outputs of two passes are apart, summed over all labels, in float32.

    Shapes: class indices, int `[B]` or `[B, L]` against logits `[B, C]` or `[B, L, C]`, -100 counting nothing:
    symmetric KL. Floats of the logits' own shape `[B, C]` (multi-label): symmetric KL of each label. Floats `[B]`
    against `[B, 1]` (regression): the squared difference, which is the KL of two normal distributions under which
    squared error is the negative log-likelihood.

    Args:
        first, second: logits of the two passes.
        labels: gold answers, which say what kind of logits these are.
        class_weights: `[C]`, the weight of an example by its gold class; None = 1.

    Example:
        >>> summed_divergence(torch.zeros(2, 1), torch.ones(2, 1), torch.tensor([0.5, 1.5]))
        tensor(2.)
    """
    first, second = first.float(), second.float()
    if labels.is_floating_point():
        if labels.ndim == first.ndim:
            return symmetric_bernoulli_kl(first, second).sum()
        return F.mse_loss(first, second, reduction="sum")
    counts = labels.ne(IGNORED)
    apart = symmetric_kl(first, second)
    if class_weights is not None:
        apart = apart * class_weights[labels.where(counts, 0)]
    return apart.where(counts, 0).sum()
