"""Packed attention on CPU: aten's flash kernels per bucket, forward and backward, in one autograd node."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maskwright.attention.buckets import Plan

# The kernels behind scaled_dot_product_attention on CPU. Calling them directly keeps the log-sum-exp, so that all
# buckets share one autograd node: per-bucket SDPA calls cost an index_select backward (a full-size zero tensor) each.
_forward = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
_backward = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward", None)
available = _forward is not None and _backward is not None


class BucketedFlash(torch.autograd.Function):
    """`[T, H, d]` queries, keys and values -> `[T, H, d]`, each token attending within its row."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, plan: Plan, scale: float, window: int | None) -> Tensor:
        buckets = plan.buckets
        spread = buckets.spread_briefly(q=q, k=k, v=v)
        out = buckets.workspace("out", v)
        saved: list[Tensor] = []
        for bucket in buckets.items:
            block = [bucket.block(t).transpose(1, 2) for t in spread]
            bias = bucket.bias(q.dtype, window)
            result, lse = _forward(*block, 0.0, False, attn_mask=bias, scale=scale)  # type: ignore[misc]
            bucket.block(out).copy_(result.transpose(1, 2))
            saved += [result, lse]
        ctx.save_for_backward(q, k, v, *saved)
        ctx.plan, ctx.scale, ctx.window = plan, scale, window
        return buckets.collect(out)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        buckets = ctx.plan.buckets
        grad, (q, k, v, *saved) = buckets.spread_gradient(grads[0]), ctx.saved_tensors
        spread = buckets.spread_briefly(q=q, k=k, v=v)
        into = [buckets.workspace(name, grads[0]) for name in ("dq", "dk", "dv")]
        for i, bucket in enumerate(buckets.items):
            block = [bucket.block(t).transpose(1, 2) for t in (grad, *spread)]
            bias = bucket.bias(grad.dtype, ctx.window)
            blocks = _backward(  # type: ignore[misc]
                *block, *saved[2 * i : 2 * i + 2], 0.0, False, attn_mask=bias, scale=ctx.scale
            )
            for whole, block in zip(into, blocks, strict=True):
                bucket.block(whole).copy_(block.transpose(1, 2))
        return (*(buckets.collect(t) for t in into), None, None, None)
