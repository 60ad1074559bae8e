"""Packed attention the slow, plain way (unpack, dense masked softmax, pack), to test the fast kernels against."""

from __future__ import annotations

import torch
from torch import Tensor

from maskwright.attention.buckets import Plan


def dense_reference(q: Tensor, k: Tensor, v: Tensor, plan: Plan, scale: float, window: int | None = None) -> Tensor:
    """`[T, H, d]` -> `[T, H, d]`, computing every slot of the padded batch and masking attention columns."""
    layout = plan.layout
    queries, keys, values = (layout.unpack(t).transpose(1, 2) for t in (q, k, v))
    scores = queries @ keys.transpose(-1, -2) * scale
    allowed = layout.keep[:, None, None, :]
    if window is not None:
        slot = torch.arange(layout.length, device=q.device)
        allowed = allowed & ((slot[:, None] - slot[None, :]).abs() <= window)
    blocked = torch.finfo(scores.dtype).min
    probs = torch.softmax(torch.where(allowed, scores, blocked), -1)
    return layout.pack((probs @ values).transpose(1, 2))
