"""Reductions over the rows of a packed sequence, without unpacking it."""

from __future__ import annotations

import torch
from torch import Tensor

from maskwright.core.layout import Layout


def segment_sum(packed: Tensor, layout: Layout) -> Tensor:
    """`[T, D]` -> `[B, D]`: the sum of each row's tokens, accumulated in float32 at least; empty rows give 0."""
    wide = packed.to(accumulation_dtype(packed.dtype))
    return wide.new_zeros(layout.n_rows, packed.shape[1]).index_add(0, layout.rows, wide)


def segment_max(packed: Tensor, layout: Layout) -> Tensor:
    """`[T, D]` -> `[B, D]`: the maximum over each row's tokens; empty rows give 0."""
    if layout.n_tokens == 0:
        return packed.new_zeros(layout.n_rows, packed.shape[1])
    return torch.segment_reduce(packed, "max", lengths=layout.lengths, initial=None, unsafe=True).where(
        (layout.lengths > 0)[:, None], torch.zeros((), dtype=packed.dtype, device=packed.device)
    )


def segment_first(packed: Tensor, layout: Layout) -> Tensor:
    """`[T, ...]` -> `[B, ...]`: each row's first kept token. Every row must keep one."""
    return packed.index_select(0, layout.offsets[:-1].long())


def segment_last(packed: Tensor, layout: Layout) -> Tensor:
    """`[T, ...]` -> `[B, ...]`: each row's last kept token. Every row must keep one."""
    return packed.index_select(0, layout.offsets[1:].long() - 1)


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which sums of `dtype` are formed: float32 for the half precisions."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
