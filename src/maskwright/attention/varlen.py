"""Packed attention on CUDA: torch's variable-length flash attention, no further package needed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maskwright.attention.buckets import Plan

varlen_attn: Any
try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # a torch built without it
    varlen_attn = None


def usable(q: Tensor, plan: Plan, window: int | None, rate: float) -> bool:
    """Whether the kernel serves this call exactly: half precision, no dropout, and windows only without holes."""
    return (
        varlen_attn is not None
        and q.is_cuda
        and torch.cuda.get_device_capability(q.device)[0] >= 8
        and q.dtype in (torch.float16, torch.bfloat16)
        and rate == 0
        and (window is None or plan.spans is plan.buckets)
    )


def varlen(q: Tensor, k: Tensor, v: Tensor, plan: Plan, scale: float, window: int | None = None) -> Tensor:
    """`[T, H, d]` -> `[T, H, d]`; without holes, distance in slots is distance in positions, so windows are exact."""
    offsets, longest = plan.layout.offsets, plan.max_length
    reach = -1 if window is None else window
    out: Tensor = varlen_attn(q, k, v, offsets, offsets, longest, longest, scale=scale, window_size=(reach, reach))
    return out
