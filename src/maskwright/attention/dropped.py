"""Packed attention with attention dropout: the probabilities are formed, so that exact dropout can act on them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maskwright.attention.buckets import Plan

_DRAWS = 2**16


class BucketedDropout(torch.autograd.Function):
    """`[T, H, d]` -> `[T, H, d]` with each attention probability dropped at `rate` and the rest scaled by 1/(1-rate).

    One node, softmax in place, and a one-byte keep mask: about a third of the memory traffic of the math path that
    scaled_dot_product_attention takes for dropout on CPU. Draws from torch's global generator, as that path does, but
    16 bits a probability: `rate` is rounded to a multiple of 2**-16, and kept ones are scaled by the rounded rate.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)  # keeps float64; autocast would cut to bfloat16
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, plan: Plan, scale: float, window: int | None, rate: float
    ) -> Tensor:
        dropped_in = round(rate * _DRAWS)  # of _DRAWS
        ctx.scale_kept = _DRAWS / (_DRAWS - dropped_in)
        heads = plan.buckets.by_head(q.shape[1])
        spread = heads.spread_briefly(q=q.flatten(0, 1), k=k.flatten(0, 1), v=v.flatten(0, 1))
        out = heads.workspace("out", v.flatten(0, 1))
        saved: list[Tensor] = []
        for bucket, block in zip(plan.buckets.items, heads.items, strict=True):
            qb, kb, vb = (block.block(t) for t in spread)
            scores = qb.new_empty(block.n, block.length, block.length)
            torch.baddbmm(scores, qb, kb.transpose(1, 2), beta=0, alpha=scale, out=scores)
            bias = bucket.bias(q.dtype, window)
            if bias is not None:
                scores.view(bucket.n, -1, bucket.length, bucket.length).add_(bias)
            probs = torch.softmax(scores, -1, out=scores)
            kept = _draw_kept(probs, dropped_in)
            dropped = torch.mul(probs, kept, out=heads.scratch("probs", probs))
            torch.bmm(dropped, vb, out=block.block(out)).mul_(ctx.scale_kept)
            saved += [probs, kept]
        ctx.save_for_backward(q, k, v, *saved)
        ctx.plan, ctx.scale = plan, scale
        return heads.collect(out).view_as(v)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, *saved = ctx.saved_tensors
        heads = ctx.plan.buckets.by_head(q.shape[1])
        spread = heads.spread_briefly(q=q.flatten(0, 1), k=k.flatten(0, 1), v=v.flatten(0, 1))
        grad = heads.spread_gradient(grads[0].flatten(0, 1))
        into = [heads.workspace(f"d{name}", t) for name, t in zip("qkv", spread, strict=True)]
        for i, block in enumerate(heads.items):
            probs, kept = saved[2 * i : 2 * i + 2]
            qb, kb, vb, g, dq, dk, dv = (block.block(t) for t in (*spread, grad, *into))
            dropped = torch.mul(probs, kept, out=heads.scratch("probs", probs))
            torch.bmm(dropped.transpose(1, 2), g, out=dv).mul_(ctx.scale_kept)
            dprobs = torch.bmm(g, vb.transpose(1, 2), out=heads.scratch("dprobs", probs)).mul_(kept)
            # `dropped` has done its work, and its memory takes the result.
            dscores = torch._softmax_backward_data(dprobs, probs, -1, probs.dtype, grad_input=dropped)
            torch.bmm(dscores, kb, out=dq).mul_(ctx.scale * ctx.scale_kept)
            torch.bmm(dscores.transpose(1, 2), qb, out=dk).mul_(ctx.scale * ctx.scale_kept)
        into = [heads.collect(t).view_as(like) for t, like in zip(into, (q, k, v), strict=True)]
        return (*into, None, None, None, None)


def _draw_kept(probs: Tensor, dropped_in: int) -> Tensor:
    """bool like `probs`, True = kept, False with probability `dropped_in / _DRAWS`.

    Four draws from each 64-bit number: on CPU, bernoulli_ spends five times as long, more than the products here.
    """
    n = probs.numel()
    words = torch.empty((n + 3) // 4, dtype=torch.int64, device=probs.device).random_(-(2**63), None)
    return (words.view(torch.int16)[:n] >= dropped_in - _DRAWS // 2).view(probs.shape)
