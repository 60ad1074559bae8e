"""One vector a row: from padded states and the mask of what exists, or from packed states without unpacking them."""

from __future__ import annotations

import torch
from torch import Tensor

from maskwright.core.layout import EmptyRows, Layout
from maskwright.core.segments import accumulation_dtype, segment_first, segment_last, segment_max, segment_sum
from maskwright.errors import MaskError
from maskwright.pooling.select import check_rows, pooled_tokens, ranks


def mean(hidden: Tensor, keep: Tensor | Layout, *, exclude: Tensor | None = None, empty: EmptyRows = "raise") -> Tensor:
    """The mean over each row's kept tokens, accumulated in float32 at least, in the dtype of `hidden`.

    Every function of this module takes either form, with equal results:

    Shapes: hidden `[B, L, D]` with keep `[B, L]` (1/True = takes part, an attention_mask), or hidden `[T, D]` with a
    Layout; exclude bool `[B, L]`, True = kept, but left out of the result (special tokens, a prompt); -> `[B, D]`.

    Raises:
        MaskError: shapes that do not fit, or a mask of other values than 0 and 1.
        EmptyRowError: a row has nothing to pool and `empty` is "raise"; under "zero" its vector is 0.

    Example:
        >>> from maskwright import pooling
        >>> hidden = torch.tensor([[[3.0], [1.0], [7.0], [0.0], [0.0]]])
        >>> pooling.mean(hidden, torch.tensor([[1, 1, 1, 0, 0]]))
        tensor([[3.6667]])
    """
    tokens, layout, _ = pooled_tokens(hidden, keep, exclude, empty)
    totals = segment_sum(tokens, layout)
    return (totals / layout.lengths.clamp(min=1)[:, None].to(totals.dtype)).to(hidden.dtype)


def mean_sqrt_length(
    hidden: Tensor, keep: Tensor | Layout, *, exclude: Tensor | None = None, empty: EmptyRows = "raise"
) -> Tensor:
    """The sum over each row's kept tokens divided by the square root of their number. Shapes, errors: as `mean`.

    Example:
        >>> from maskwright import pooling
        >>> pooling.mean_sqrt_length(torch.tensor([[[3.0], [5.0], [0.0]]]), torch.tensor([[1, 1, 0]]))
        tensor([[5.6569]])

    Source: Cer et al. 2018, Universal Sentence Encoder.
    """
    tokens, layout, _ = pooled_tokens(hidden, keep, exclude, empty)
    totals = segment_sum(tokens, layout)
    return (totals / layout.lengths.clamp(min=1).to(totals.dtype).sqrt()[:, None]).to(hidden.dtype)


def weighted_mean(
    hidden: Tensor,
    keep: Tensor | Layout,
    weights: Tensor | None = None,
    *,
    exclude: Tensor | None = None,
    empty: EmptyRows = "raise",
) -> Tensor:
    """The weighted mean over each row's kept tokens. Shapes, errors: as `mean`.

    Args:
        weights: non-negative, `[B, L]` or packed `[T]`; None = 1, 2, 3, ... along each row's kept tokens, as for causal
            models, whose later tokens have seen more. A row whose weights are all 0 counts as empty.

    Example:
        >>> from maskwright import pooling
        >>> pooling.weighted_mean(torch.tensor([[[0.0], [3.0], [6.0]]]), torch.tensor([[0, 1, 1]]))
        tensor([[5.]])

    Source: Muennighoff 2022, SGPT.
    """
    tokens, layout, at = pooled_tokens(hidden, keep, exclude, empty)
    if weights is None:
        weights = ranks(layout)
    elif weights.shape != hidden.shape[:-1]:
        raise MaskError(f"weights must be {list(hidden.shape[:-1])}, got {list(weights.shape)}")
    else:
        weights = weights.flatten() if at is None else weights.flatten().index_select(0, at)
    wide = accumulation_dtype(hidden.dtype)
    weights = weights.to(wide)[:, None]
    if bool((weights < 0).any()):
        raise MaskError("weights must not be negative")
    totals = segment_sum(weights, layout)
    some = totals > 0
    check_rows(some[:, 0], empty)
    sums = segment_sum(tokens.to(wide) * weights, layout)
    return torch.where(some, sums / totals.where(some, 1), 0).to(hidden.dtype)


def max(hidden: Tensor, keep: Tensor | Layout, *, exclude: Tensor | None = None, empty: EmptyRows = "raise") -> Tensor:
    """The maximum over each row's kept tokens. Shapes, errors: as `mean`.

    Example:
        >>> from maskwright import pooling
        >>> hidden = torch.tensor([[[-3.0], [-1.0], [-7.0], [0.0], [0.0]]])
        >>> pooling.max(hidden, torch.tensor([[1, 1, 1, 0, 0]]))
        tensor([[-1.]])
    """
    tokens, layout, _ = pooled_tokens(hidden, keep, exclude, empty)
    return segment_max(tokens, layout)


def first(
    hidden: Tensor, keep: Tensor | Layout, *, exclude: Tensor | None = None, empty: EmptyRows = "raise"
) -> Tensor:
    """Each row's first kept token: [CLS] pooling, right under any padding side. Shapes, errors: as `mean`.

    Example:
        >>> from maskwright import pooling
        >>> pooling.first(torch.tensor([[[0.0], [5.0], [6.0]]]), torch.tensor([[0, 1, 1]]))
        tensor([[5.]])
    """
    tokens, layout, _ = pooled_tokens(hidden, keep, exclude, empty)
    return segment_first(tokens, layout)


def last(hidden: Tensor, keep: Tensor | Layout, *, exclude: Tensor | None = None, empty: EmptyRows = "raise") -> Tensor:
    """Each row's last kept token, right under any padding side and with holes. Shapes, errors: as `mean`.

    Example:
        >>> from maskwright import pooling
        >>> pooling.last(torch.tensor([[[5.0], [6.0], [0.0]]]), torch.tensor([[1, 1, 0]]))
        tensor([[6.]])
    """
    tokens, layout, _ = pooled_tokens(hidden, keep, exclude, empty)
    return segment_last(tokens, layout)
