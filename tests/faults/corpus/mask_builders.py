"""Builders of attention masks, `(keep bool [B, L]) -> [B, 1, L, L]` or what broadcasts to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .case import Case, fault

Builder = Callable[..., Tensor]
MASK: dict[str, Any] = {"kind": "mask"}
CAUSAL: dict[str, Any] = {"kind": "mask", "direction": "causal"}


def keys(keep: Tensor) -> Tensor:
    """Bool, True = may attend; a row without tokens attends to everything, so that softmax gives numbers."""
    return (keep | ~keep.any(1, keepdim=True))[:, None, None, :].expand(-1, 1, keep.shape[1], -1)


def additive(keep: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """0 and half of the dtype's lowest number, which leaves room for negative scores."""
    return torch.zeros(keys(keep).shape, dtype=dtype).masked_fill(~keys(keep), torch.finfo(dtype).min / 2)


def causal(keep: Tensor) -> Tensor:
    length = keep.shape[1]
    allowed = keys(keep) & torch.ones(length, length, dtype=torch.bool).tril()
    return allowed | ~allowed.any(-1, keepdim=True)


def inverted(keep: Tensor) -> Tensor:
    return ~keys(keep) if not keep.all() else keys(keep)


def ones_added(keep: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """1 and 0 where 0 and a large negative number were meant."""
    return keys(keep).to(dtype)


def queries(keep: Tensor) -> Tensor:
    """The mask stands along the queries."""
    return keys(keep).transpose(-1, -2)


def minus_one(keep: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(keys(keep).shape, dtype=dtype).masked_fill(~keys(keep), -4.0)


def infinite(keep: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """A row without tokens has nothing but minus infinity."""
    return torch.zeros(keep.shape, dtype=dtype).masked_fill(~keep, float("-inf"))[:, None, None, :]


def of_row_zero(keep: Tensor) -> Tensor:
    return keys(keep)[:1].expand(len(keep), -1, -1, -1)


def one_too_many(keep: Tensor) -> Tensor:
    """As many slots as there are tokens, and one more."""
    return keys(torch.arange(keep.shape[1])[None] <= keep.sum(1, keepdim=True))


def from_the_left(keep: Tensor) -> Tensor:
    """The first n slots, on whichever side padding stands."""
    return keys(torch.arange(keep.shape[1])[None] < keep.sum(1, keepdim=True))


def large_in_half(keep: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """(1 - keep) * -1e9 in the dtype: 0 times minus infinity."""
    return (~keys(keep)).to(dtype) * torch.tensor([-1e9], dtype=dtype)


def twice_the_lowest(keep: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Two masks added to each other."""
    lowest = torch.zeros(keep.shape, dtype=dtype).masked_fill(~keep, torch.finfo(dtype).min)
    return (lowest + lowest)[:, None, None, :]


def upper(keep: Tensor) -> Tensor:
    """triu for tril."""
    return causal(keep).transpose(-1, -2) & keys(keep) | ~keys(keep)


def ahead(keep: Tensor) -> Tensor:
    """The diagonal is off by one."""
    length = keep.shape[1]
    allowed = keys(keep) & torch.ones(length, length, dtype=torch.bool).tril(1)
    return allowed | ~allowed.any(-1, keepdim=True)


def case(
    name: str, wrong: Builder, right: Builder, rules: str, cause: str, report: str, audit: dict[str, Any] = MASK
) -> Case:
    return fault(
        name, "mask", "mask", report, lambda faulty: wrong if faulty else right, rules=rules, cause=cause, audit=audit
    )


KEYS = "mask-keys mask-strength"
CASES = [
    case("mask-inverted", inverted, keys, KEYS, "polarity", "transformers 38094"),
    case(
        "mask-of-ones-added", ones_added, additive, "mask-values " + KEYS, "mask-form bias-on-kept", "speculators 691"
    ),
    case("mask-on-queries", queries, keys, KEYS, "mask-axis", "nn.MultiheadAttention: keys and queries"),
    case(
        "mask-of-minus-four",
        minus_one,
        additive,
        "mask-strength mask-keys mask-values",
        "bias-overcome",
        "a bias too weak to hide anything",
    ),
    case(
        "mask-infinite-on-an-empty-row",
        infinite,
        additive,
        "mask-empty-row",
        "softmax-over-nothing empty-row",
        "pytorch 24816",
    ),
    case("mask-of-row-zero", of_row_zero, keys, KEYS, "rows-mixed unknown", "ReProver 34"),
    case("mask-one-slot-too-many", one_too_many, keys, KEYS, "unknown mask-never-arrives", "a length off by one"),
    case("mask-of-the-first-n-slots", from_the_left, keys, KEYS, "slots-counted unknown", "transformers 35909"),
    case(
        "mask-zero-times-infinity",
        large_in_half,
        additive,
        "mask-narrow-dtypes mask-values",
        "overflow",
        "transformers 17306",
    ),
    case(
        "mask-twice-the-lowest",
        twice_the_lowest,
        additive,
        "mask-narrow-dtypes mask-empty-row",
        "overflow softmax-over-nothing",
        "transformers 17437",
    ),
    case("mask-causal-transposed", upper, causal, KEYS, "no-causal-mask mask-axis", "triu for tril", CAUSAL),
    case("mask-causal-one-ahead", ahead, causal, KEYS, "no-causal-mask", "a diagonal off by one", CAUSAL),
    case("mask-causal-forgotten", keys, causal, KEYS, "no-causal-mask", "transformers 48745", CAUSAL),
]
