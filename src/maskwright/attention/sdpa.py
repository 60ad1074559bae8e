"""Packed attention from public parts only: any device, dtype and dropout; what the special kernels fall back to."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from maskwright.attention.buckets import Plan


def bucketed_sdpa(
    q: Tensor, k: Tensor, v: Tensor, plan: Plan, scale: float, window: int | None = None, rate: float = 0.0
) -> Tensor:
    """`[T, H, d]` -> `[T, H, d]`, one scaled_dot_product_attention call per bucket."""
    buckets = plan.buckets
    spread = [buckets.spread(t) for t in (q, k, v)]
    pieces = []
    for bucket in buckets.items:
        qb, kb, vb = (bucket.block(t).transpose(1, 2) for t in spread)
        bias = bucket.bias(q.dtype, window)
        result = scaled_dot_product_attention(qb, kb, vb, attn_mask=bias, dropout_p=rate, scale=scale)
        pieces.append(result.transpose(1, 2).flatten(0, 1))
    return buckets.collect(torch.cat(pieces))
