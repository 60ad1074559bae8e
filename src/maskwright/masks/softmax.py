"""Softmax under a mask rule: exact zeros where blocked, never NaN, forward and backward."""

from __future__ import annotations

import torch
from torch import Tensor

from maskwright.core.layout import EmptyRows
from maskwright.errors import MaskError
from maskwright.masks.algebra import Rule


def apply(scores: Tensor, rule: Rule, *, empty: EmptyRows = "raise") -> Tensor:
    """Scores `[B, ..., Q, K]` or `[Q, K]` with -inf where the rule blocks, whatever stood there.

    Queries that may attend to nothing get scores of 0 (a softmax of them is finite, and means nothing): always where
    their slot holds no token, else only under `empty="zero"`.

    Raises:
        MaskError: sizes of scores and rule differ.
        EmptyRowError: a real query may attend to nothing and `empty` is "raise".

    Example:
        >>> from maskwright import masks
        >>> apply(torch.ones(2, 2), masks.causal())
        tensor([[1., -inf],
                [1., 1.]])
    """
    return _filled(scores, rule, empty)[0]


def masked_softmax(scores: Tensor, rule: Rule, *, empty: EmptyRows = "raise") -> Tensor:
    """Softmax over the keys the rule allows: `[B, ..., Q, K]` or `[Q, K]` -> the same shape, exact zeros elsewhere.

    Queries that may attend to nothing give zeros: always where their slot holds no token, else only under
    `empty="zero"`. What stands in a blocked slot, NaN included, changes nothing and gets no gradient.

    Raises:
        MaskError: sizes of scores and rule differ.
        EmptyRowError: a real query may attend to nothing and `empty` is "raise".

    Example:
        >>> from maskwright import masks
        >>> masked_softmax(torch.tensor([[[1.0, 1.0, float("nan")]]]), masks.padding(lengths=[2], length=3))
        tensor([[[0.5000, 0.5000, 0.0000]]])
    """
    filled, allowed = _filled(scores, rule, empty)
    return torch.where(allowed, torch.softmax(filled, -1), 0.0)


def masked_log_softmax(scores: Tensor, rule: Rule, *, empty: EmptyRows = "raise") -> Tensor:
    """The logarithm of `masked_softmax`: -inf where the rule blocks, without gradient.

    Raises:
        MaskError: sizes of scores and rule differ.
        EmptyRowError: a real query may attend to nothing and `empty` is "raise".

    Example:
        >>> from maskwright import masks
        >>> masked_log_softmax(torch.zeros(2, 2), masks.causal())
        tensor([[ 0.0000,    -inf],
                [-0.6931, -0.6931]])
    """
    filled, allowed = _filled(scores, rule, empty)
    return torch.where(allowed, torch.log_softmax(filled, -1), float("-inf"))


def _filled(scores: Tensor, rule: Rule, empty: EmptyRows) -> tuple[Tensor, Tensor]:
    """The scores as `apply` gives them, and the rule as bool that broadcasts to them."""
    allowed = _allowed(scores, rule, empty)
    filled = torch.where(allowed, scores, float("-inf"))
    return torch.where(allowed.any(-1, keepdim=True), filled, 0.0), allowed


def _allowed(scores: Tensor, rule: Rule, empty: EmptyRows) -> Tensor:
    """The rule as bool that broadcasts to the scores; True = may attend."""
    if not isinstance(rule, Rule):
        raise MaskError(
            f"expected a Mask, got {type(rule).__name__}: a bare tensor does not say what its values mean; "
            "maskwright.masks.read(tensor, convention=...) makes a Mask of it"
        )
    if scores.ndim < 2 or not scores.is_floating_point():
        raise MaskError(f"scores must be floats [B, ..., Q, K] or [Q, K], got {scores.dtype} {tuple(scores.shape)}")
    if empty not in ("raise", "zero"):
        raise MaskError(f"empty must be 'raise' or 'zero', got {empty!r}")
    allowed = rule.to_bool(scores.shape[-2], scores.shape[-1]).to(scores.device)
    if empty == "raise":
        rule.check_queries(~allowed.any(-1))
    if allowed.ndim == 2:
        return allowed
    if scores.ndim < 3 or scores.shape[0] != len(allowed):
        raise MaskError(f"the rule is for {len(allowed)} rows, scores are {tuple(scores.shape)}: want [B, ..., Q, K]")
    return allowed.view(len(allowed), *(1,) * (scores.ndim - 3), *allowed.shape[1:])
