"""One vector a row from packed token states, without unpacking them."""

from __future__ import annotations

from torch import Tensor

from maskwright.core.layout import Layout
from maskwright.core.segments import segment_first, segment_max, segment_sum


def mean(packed: Tensor, layout: Layout) -> Tensor:
    """The mean over each row's kept tokens: `[T, D]` -> `[B, D]`, accumulated in float32 at least, same dtype out.

    Example:
        >>> import torch, maskwright as mw
        >>> layout = mw.Layout.from_mask(torch.tensor([[1, 1, 1, 0, 0]]))
        >>> mean(torch.tensor([[3.0], [1.0], [7.0]]), layout)
        tensor([[3.6667]])
    """
    totals = segment_sum(packed, layout)
    return (totals / layout.lengths[:, None].to(totals.dtype)).to(packed.dtype)


def max(packed: Tensor, layout: Layout) -> Tensor:
    """The maximum over each row's kept tokens: `[T, D]` -> `[B, D]`."""
    return segment_max(packed, layout)


def first(packed: Tensor, layout: Layout) -> Tensor:
    """Each row's first kept token ([CLS] pooling, right under any padding side): `[T, D]` -> `[B, D]`."""
    return segment_first(packed, layout)
