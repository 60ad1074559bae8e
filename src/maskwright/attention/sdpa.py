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
    pieces = []
    for bucket in plan.buckets:
        qb, kb, vb = (bucket.take(t).transpose(1, 2) for t in (q, k, v))
        bias = bucket.bias(q.dtype, window)
        result = scaled_dot_product_attention(qb, kb, vb, attn_mask=bias, dropout_p=rate, scale=scale)
        pieces.append(bucket.drop_padding(result.transpose(1, 2).flatten(0, 1)))
    order = torch.cat([bucket.tokens for bucket in plan.buckets])
    return torch.cat(pieces).index_select(0, order.argsort())
