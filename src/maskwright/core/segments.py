"""Reductions over the rows of a packed sequence, without unpacking it. Rows without tokens give 0."""

from __future__ import annotations

import torch
from torch import Tensor

from maskwright.core.layout import Layout


def segment_sum(packed: Tensor, layout: Layout) -> Tensor:
    """`[T, D]` -> `[B, D]`: the sum of each row's tokens, accumulated in float32 at least."""
    wide = packed.to(accumulation_dtype(packed.dtype))
    return wide.new_zeros(layout.n_rows, packed.shape[1]).index_add(0, layout.rows, wide)


def segment_max(packed: Tensor, layout: Layout) -> Tensor:
    """`[T, D]` -> `[B, D]`: the maximum over each row's tokens."""
    if layout.n_tokens == 0:
        return _nothing(packed, layout)
    rows = layout.rows[:, None].expand_as(packed)
    return packed.new_zeros(layout.n_rows, packed.shape[1]).scatter_reduce(0, rows, packed, "amax", include_self=False)


def segment_first(packed: Tensor, layout: Layout) -> Tensor:
    """`[T, ...]` -> `[B, ...]`: each row's first kept token."""
    return _token_of_each_row(packed, layout, layout.offsets[:-1].long())


def segment_last(packed: Tensor, layout: Layout) -> Tensor:
    """`[T, ...]` -> `[B, ...]`: each row's last kept token."""
    return _token_of_each_row(packed, layout, layout.offsets[1:].long() - 1)


def segment_softmax(packed: Tensor, layout: Layout) -> Tensor:
    """`[T, D]` -> `[T, D]`: a softmax over each row's tokens, in float32 at least."""
    wide = packed.to(accumulation_dtype(packed.dtype))
    highest = segment_max(wide.detach(), layout).index_select(0, layout.rows)
    shares = (wide - highest).exp()
    return shares / segment_sum(shares, layout).index_select(0, layout.rows)


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which sums of `dtype` are formed: float32 for the half precisions."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _token_of_each_row(packed: Tensor, layout: Layout, tokens: Tensor) -> Tensor:
    if 0 not in layout.row_lengths:
        return packed.index_select(0, tokens)
    if layout.n_tokens == 0:
        return _nothing(packed, layout)
    chosen = packed.index_select(0, tokens.clamp(0, layout.n_tokens - 1))
    return torch.where((layout.lengths > 0).view(-1, *(1,) * (packed.ndim - 1)), chosen, 0)


def _nothing(packed: Tensor, layout: Layout) -> Tensor:
    """Zeros for every row of a batch without tokens, still part of the graph."""
    return packed.sum(0, keepdim=True).expand(layout.n_rows, *packed.shape[1:])
