"""Pooling functions, `(hidden [B, L, D], keep bool [B, L]) -> [B, D]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .case import Case, fault

Pool = Callable[[Tensor, Tensor], Tensor]
POOL: dict[str, Any] = {"kind": "pooling"}
PADDED = "pooling-amount pooling-side pooling-holes pooling-content pooling-nan pooling-empty-row"


def mean(hidden: Tensor, keep: Tensor) -> Tensor:
    total = hidden.masked_fill(~keep[..., None], 0).sum(1, dtype=torch.promote_types(hidden.dtype, torch.float32))
    return (total / keep.sum(1, keepdim=True).clamp(min=1)).to(hidden.dtype)


def maximum(hidden: Tensor, keep: Tensor) -> Tensor:
    largest = hidden.masked_fill(~keep[..., None], float("-inf")).amax(1)
    return largest.masked_fill(~keep.any(1, keepdim=True), 0)


def first(hidden: Tensor, keep: Tensor) -> Tensor:
    chosen = hidden[torch.arange(len(hidden)), keep.long().argmax(1)]
    return chosen.masked_fill(~keep.any(1, keepdim=True), 0)


def last(hidden: Tensor, keep: Tensor) -> Tensor:
    place = (keep.long() * torch.arange(1, keep.shape[1] + 1)).argmax(1)
    return hidden[torch.arange(len(hidden)), place].masked_fill(~keep.any(1, keepdim=True), 0)


def attention(hidden: Tensor, keep: Tensor) -> Tensor:
    """Weights by softmax of the first feature over tokens."""
    hidden = hidden.masked_fill(~keep[..., None], 0)
    scores = hidden[..., 0].to(torch.promote_types(hidden.dtype, torch.float32))
    weights = scores.masked_fill(~keep, torch.finfo(scores.dtype).min).softmax(1).masked_fill(~keep, 0)
    return torch.einsum("bl,bld->bd", weights, hidden.to(weights.dtype)).to(hidden.dtype)


def mean_of_slots(hidden: Tensor, keep: Tensor) -> Tensor:
    return hidden.mean(1)


def sum_over_slots(hidden: Tensor, keep: Tensor) -> Tensor:
    """Only the numerator is masked."""
    return hidden.masked_fill(~keep[..., None], 0).mean(1)


def mean_of_the_hidden(hidden: Tensor, keep: Tensor) -> Tensor:
    return mean(hidden, ~keep if not keep.all() else keep)


def mean_by_product(hidden: Tensor, keep: Tensor) -> Tensor:
    """Multiplied by 0 and 1."""
    return (hidden * keep[..., None]).sum(1) / keep.sum(1, keepdim=True).clamp(min=1)


def mean_of_the_first_count(hidden: Tensor, keep: Tensor) -> Tensor:
    """The first n slots, n being how many are kept."""
    count = keep.sum(1, keepdim=True)
    return mean(hidden, torch.arange(keep.shape[1])[None] < count)


def mean_over_nothing(hidden: Tensor, keep: Tensor) -> Tensor:
    return hidden.masked_fill(~keep[..., None], 0).sum(1) / keep.sum(1, keepdim=True)


def mean_by_the_longest(hidden: Tensor, keep: Tensor) -> Tensor:
    """Every row is divided by the length of the longest."""
    return hidden.masked_fill(~keep[..., None], 0).sum(1) / keep.sum(1).max().clamp(min=1)


def mean_in_half(hidden: Tensor, keep: Tensor) -> Tensor:
    """A running sum in the dtype of the states."""
    total = torch.zeros_like(hidden[:, 0])
    for slot in hidden.masked_fill(~keep[..., None], 0).unbind(1):
        total = total + slot
    return total / keep.sum(1, keepdim=True).clamp(min=1)


def zero_wins(hidden: Tensor, keep: Tensor) -> Tensor:
    return hidden.masked_fill(~keep[..., None], 0).amax(1)


def maximum_of_nothing(hidden: Tensor, keep: Tensor) -> Tensor:
    return hidden.masked_fill(~keep[..., None], float("-inf")).amax(1)


def slot_zero(hidden: Tensor, keep: Tensor) -> Tensor:
    return hidden[:, 0]


def last_slot(hidden: Tensor, keep: Tensor) -> Tensor:
    return hidden[:, -1]


def sum_minus_one(hidden: Tensor, keep: Tensor) -> Tensor:
    return hidden[torch.arange(len(hidden)), keep.sum(1) - 1].masked_fill(~keep.any(1, keepdim=True), 0)


def before_the_first_pad(hidden: Tensor, keep: Tensor) -> Tensor:
    place = ((~keep).long().argmax(1) - 1) % keep.shape[1]
    return hidden[torch.arange(len(hidden)), place].masked_fill(~keep.any(1, keepdim=True), 0)


def weak_attention(hidden: Tensor, keep: Tensor) -> Tensor:
    """Minus ten is added where nothing should count."""
    scores = hidden[..., 0] - 10 * (~keep).to(hidden.dtype)
    return torch.einsum("bl,bld->bd", scores.softmax(1), hidden)


def attention_over_nothing(hidden: Tensor, keep: Tensor) -> Tensor:
    hidden = hidden.masked_fill(~keep[..., None], 0)
    weights = hidden[..., 0].masked_fill(~keep, float("-inf")).softmax(1)
    return torch.einsum("bl,bld->bd", weights, hidden)


def whitened_by_the_batch(hidden: Tensor, keep: Tensor) -> Tensor:
    """The mean of the batch's vectors is taken off."""
    pooled = mean(hidden, keep)
    return pooled - 0.1 * pooled.mean(0, keepdim=True)


class Leaky(torch.autograd.Function):
    """The mean over tokens, whose backward pass is that of the mean over slots."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, keep: Tensor) -> Tensor:
        ctx.shape = hidden.shape
        return mean(hidden, keep)

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor, None]:
        return given[0][:, None].expand(ctx.shape) / ctx.shape[1], None


def leaky(hidden: Tensor, keep: Tensor) -> Tensor:
    return Leaky.apply(hidden, keep)


def case(name: str, wrong: Pool, right: Pool, rules: str, cause: str, report: str) -> Case:
    return fault(
        name,
        "pooling",
        "pooling",
        report,
        lambda faulty: wrong if faulty else right,
        rules=rules,
        cause=cause,
        audit=POOL,
    )


CASES = [
    case("pool-mean-of-slots", mean_of_slots, mean, PADDED, "pooling", "transformers 17463"),
    case("pool-mean-divided-by-slots", sum_over_slots, mean, PADDED, "pooling", "transformers 17463"),
    case("pool-mean-inverted", mean_of_the_hidden, mean, PADDED, "polarity pooling", "transformers 38094"),
    case(
        "pool-mean-by-product", mean_by_product, mean, "pooling-nan pooling-content", "zero-times-nan", "pytorch 101967"
    ),
    case(
        "pool-mean-of-the-first-n-slots",
        mean_of_the_first_count,
        mean,
        PADDED,
        "pooling row-selection",
        "composer seq_length_warmup",
    ),
    case("pool-mean-over-nothing", mean_over_nothing, mean, "pooling-empty-row", "empty-row", "transformers 44163"),
    case(
        "pool-mean-by-the-longest",
        mean_by_the_longest,
        mean,
        "pooling-neighbours pooling-amount pooling-tokens",
        "rows-mixed",
        "transformers 17463",
    ),
    case("pool-mean-in-half", mean_in_half, mean, "pooling-narrow-dtypes", "narrow-sum", "sums in half precision"),
    case(
        "pool-max-over-zeros", zero_wins, maximum, "pooling-negative pooling-amount", "zero-wins-max", "allennlp 4739"
    ),
    case(
        "pool-max-of-nothing",
        maximum_of_nothing,
        maximum,
        "pooling-empty-row",
        "empty-row",
        "sentence-transformers: max over an empty row",
    ),
    case("pool-slot-zero", slot_zero, first, PADDED, "first-slot", "sentence-transformers 3208"),
    case("pool-last-slot", last_slot, last, PADDED, "row-selection pooling", "transformers 35909"),
    case("pool-last-by-sum-minus-one", sum_minus_one, last, PADDED, "row-selection", "composer seq_length_warmup"),
    case("pool-last-before-the-first-pad", before_the_first_pad, last, PADDED, "row-selection", "transformers 24265"),
    case(
        "pool-attention-minus-ten",
        weak_attention,
        attention,
        PADDED,
        "bias-overcome pooling",
        "a bias too weak to hide anything",
    ),
    case(
        "pool-attention-over-nothing",
        attention_over_nothing,
        attention,
        "pooling-empty-row",
        "empty-row softmax-over-nothing",
        "pytorch 24816",
    ),
    case(
        "pool-whitened-by-the-batch",
        whitened_by_the_batch,
        mean,
        "pooling-neighbours pooling-amount",
        "rows-mixed",
        "ReProver 34",
    ),
    case(
        "pool-gradient-into-padding",
        leaky,
        mean,
        "pooling-gradient",
        "gradient-into-padding",
        "a backward pass that forgets the mask",
    ),
]
