"""Packed attention with attention dropout: the probabilities are formed, so that exact dropout can act on them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maskwright.attention.buckets import Plan


class BucketedDropout(torch.autograd.Function):
    """`[T, H, d]` -> `[T, H, d]` with each attention probability dropped at `rate` and the rest scaled by 1/(1-rate).

    One node, softmax in place, and a one-byte keep mask: about a third of the memory traffic of the math path that
    scaled_dot_product_attention takes for dropout on CPU. Draws from torch's global generator, as that path does.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)  # keeps float64; autocast would cut to bfloat16
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, plan: Plan, scale: float, window: int | None, rate: float
    ) -> Tensor:
        buckets = plan.buckets
        spread = [buckets.spread_briefly(name, t) for name, t in (("q", q), ("k", k), ("v", v))]
        out = buckets.workspace("out", v)
        saved: list[Tensor] = []
        for bucket in buckets.items:
            qb, kb, vb = (_heads_first(bucket.block(t)) for t in spread)
            scores = qb.new_empty(len(qb), bucket.length, bucket.length)
            torch.baddbmm(scores, qb, kb.transpose(1, 2), beta=0, alpha=scale, out=scores)
            bias = bucket.bias(q.dtype, window)
            if bias is not None:
                scores.view(bucket.n, -1, bucket.length, bucket.length).add_(bias)
            probs = torch.softmax(scores, -1, out=scores)
            kept = torch.empty_like(probs, dtype=torch.bool).bernoulli_(1 - rate)
            result = torch.bmm(probs * kept, vb).mul_(1 / (1 - rate))
            bucket.block(out).copy_(_tokens_first(result, bucket.n))
            saved += [probs, kept]
        ctx.save_for_backward(q, k, v, *saved)
        ctx.plan, ctx.scale, ctx.rate = plan, scale, rate
        return buckets.collect(out)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        buckets = ctx.plan.buckets
        grad, (q, k, v, *saved) = buckets.spread_gradient(grads[0]), ctx.saved_tensors
        spread = [buckets.spread_briefly(name, t) for name, t in (("q", q), ("k", k), ("v", v))]
        into = [buckets.workspace(name, grads[0]) for name in ("dq", "dk", "dv")]
        for i, bucket in enumerate(buckets.items):
            probs, kept = saved[2 * i : 2 * i + 2]
            qb, kb, vb, g = (_heads_first(bucket.block(t)) for t in (*spread, grad))
            g = g * (1 / (1 - ctx.rate))
            dv = torch.bmm((probs * kept).transpose(1, 2), g)
            dscores = torch._softmax_backward_data(torch.bmm(g, vb.transpose(1, 2)).mul_(kept), probs, -1, probs.dtype)
            dq = torch.bmm(dscores, kb).mul_(ctx.scale)
            dk = torch.bmm(dscores.transpose(1, 2), qb).mul_(ctx.scale)
            for whole, block in zip(into, (dq, dk, dv), strict=True):
                bucket.block(whole).copy_(_tokens_first(block, bucket.n))
        return (*(buckets.collect(t) for t in into), None, None, None, None)


def _heads_first(block: Tensor) -> Tensor:
    """`[n, L, H, d]` -> contiguous `[n * H, L, d]`, the shape in which batched products run fastest."""
    n, length, heads, width = block.shape
    return block.transpose(1, 2).reshape(n * heads, length, width)


def _tokens_first(block: Tensor, n: int) -> Tensor:
    """`[n * H, L, d]` -> `[n, L, H, d]`."""
    return block.view(n, -1, *block.shape[1:]).transpose(1, 2)
