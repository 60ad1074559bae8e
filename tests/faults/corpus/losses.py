"""Losses, `(logits [B, L, V], labels [B, L]) -> scalar`, where -100 means no target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax, nll_loss

from .case import Case, fault

Loss = Callable[[Tensor, Tensor], Tensor]
LOSS: dict[str, Any] = {"kind": "loss"}
IGNORED = "loss-ignored loss-padding loss-mean loss-cross-entropy loss-nothing loss-nan"
MEAN = "loss-padding loss-mean loss-cross-entropy"


def wide(logits: Tensor) -> Tensor:
    """In float32 or better."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def right(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean cross entropy of the targets, selected first; 0 where there is none."""
    target = labels != -100
    return cross_entropy(wide(logits[target]), labels[target], reduction="sum") / target.sum().clamp(min=1)


def each(logits: Tensor, labels: Tensor) -> Tensor:
    """The loss of each slot [B, L], 0 where there is no target."""
    target = labels != -100
    clean = wide(logits).masked_fill(~target[..., None], 0)
    return cross_entropy(clean.transpose(1, 2), labels, reduction="none").masked_fill(~target, 0)


def over_slots(logits: Tensor, labels: Tensor) -> Tensor:
    return each(logits, labels).mean()


def mean_of_rows(logits: Tensor, labels: Tensor) -> Tensor:
    return (each(logits, labels).sum(1) / (labels != -100).sum(1).clamp(min=1)).mean()


def divided_by_rows(logits: Tensor, labels: Tensor) -> Tensor:
    """The sum divided by B and the largest number of targets."""
    return each(logits, labels).sum() / (len(labels) * (labels != -100).sum(1).max().clamp(min=1))


def other_value(logits: Tensor, labels: Tensor) -> Tensor:
    """-100 becomes 0, and 0 is a label like any other."""
    return cross_entropy(wide(logits).flatten(0, 1), labels.clamp(min=0).flatten())


def padding_is_zero(logits: Tensor, labels: Tensor) -> Tensor:
    """Labels of 0 are ignored, besides those of -100."""
    return right(logits, labels.masked_fill(labels == 0, -100))


def plain(logits: Tensor, labels: Tensor) -> Tensor:
    """A mean over nothing is no number."""
    target = labels != -100
    return cross_entropy(wide(logits[target]), labels[target], reduction="sum") / target.sum()


def by_product(logits: Tensor, labels: Tensor) -> Tensor:
    """0 x NaN is NaN."""
    target = labels != -100
    every = cross_entropy(wide(logits).flatten(0, 1), labels.clamp(min=0).flatten(), reduction="none")
    return (every * target.flatten()).sum() / target.sum().clamp(min=1)


def smoothed_over_slots(logits: Tensor, labels: Tensor) -> Tensor:
    """Label smoothing whose uniform part is a mean over all slots."""
    return right(logits, labels) - 0.1 * log_softmax(wide(logits), -1).mean()


def smoothed(logits: Tensor, labels: Tensor) -> Tensor:
    target = labels != -100
    uniform = log_softmax(wide(logits[target]), -1).mean(-1).sum() / target.sum().clamp(min=1)
    return right(logits, labels) - 0.1 * uniform


def regular(logits: Tensor, labels: Tensor) -> Tensor:
    """A penalty on the size of all logits, ignored ones too."""
    return right(logits, labels) + 1e-3 * wide(logits).square().mean()


def log_of_softmax(logits: Tensor, labels: Tensor) -> Tensor:
    target = labels != -100
    odds = logits[target].softmax(-1).log()
    return nll_loss(odds, labels[target], reduction="sum") / target.sum().clamp(min=1)


def first_row_counts_more(logits: Tensor, labels: Tensor) -> Tensor:
    """Rows are weighted by their place, as an unfinished loop over a batch does."""
    weight = torch.linspace(1.2, 0.8, len(labels))[:, None]
    return (each(logits, labels) * weight).sum() / (labels != -100).sum().clamp(min=1)


def gradient_everywhere(logits: Tensor, labels: Tensor) -> Tensor:
    ignored = wide(logits).masked_fill((labels != -100)[..., None], 0).mean()
    return right(logits, labels) + ignored - ignored.detach()


def case(name: str, wrong: Loss, rules: str, cause: str, report: str, twin: Loss = right) -> Case:
    return fault(
        name, "loss", "loss", report, lambda faulty: wrong if faulty else twin, rules=rules, cause=cause, audit=LOSS
    )


CASES = [
    case("loss-mean-over-slots", over_slots, MEAN, "slots-in-the-mean", "a mean that counts ignored labels"),
    case("loss-mean-of-row-means", mean_of_rows, MEAN, "mean-of-means", "transformers: gradient accumulation"),
    case(
        "loss-divided-by-the-longest-row",
        divided_by_rows,
        MEAN,
        "slots-in-the-mean mean-of-means",
        "a mean over B x the longest",
    ),
    case(
        "loss-ignored-become-zero",
        other_value,
        IGNORED,
        "ignored-counted slots-in-the-mean",
        "labels clamped and counted",
    ),
    case(
        "loss-ignores-label-zero",
        padding_is_zero,
        "loss-cross-entropy loss-mean",
        "not-cross-entropy unknown",
        "ignore_index 0 besides -100",
    ),
    case("loss-mean-of-nothing", plain, "loss-nothing", "mean-over-nothing", "NaN where no label is left"),
    case("loss-by-product", by_product, "loss-nan", "zero-times-nan", "pytorch 101967"),
    case(
        "loss-smoothed-over-slots",
        smoothed_over_slots,
        IGNORED,
        "ignored-counted",
        "label smoothing counts ignored slots",
        smoothed,
    ),
    case("loss-penalty-on-ignored", regular, IGNORED, "ignored-counted", "a penalty on all logits"),
    case("loss-log-of-softmax", log_of_softmax, "loss-range", "unstable-loss", "log of softmax in half precision"),
    case(
        "loss-weighted-by-place",
        first_row_counts_more,
        "loss-order loss-mean loss-padding",
        "rows-mixed mean-of-means",
        "rows weighted by their place",
    ),
    case(
        "loss-gradient-everywhere",
        gradient_everywhere,
        "loss-ignored",
        "ignored-counted gradient-into-padding",
        "a gradient to ignored logits",
    ),
]
