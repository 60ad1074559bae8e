"""The attention function that transformers calls in a packed model, registered under the name "maskwright"."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from maskwright.attention import flash, varlen
from maskwright.attention.buckets import Plan
from maskwright.attention.carrier import PlanCarrier
from maskwright.attention.dropped import BucketedDropout
from maskwright.attention.sdpa import bucketed_sdpa
from maskwright.errors import PackingError

NAME = "maskwright"


def attend(
    q: Tensor, k: Tensor, v: Tensor, plan: Plan, scale: float, window: int | None = None, rate: float = 0.0
) -> Tensor:
    """Self-attention within each row of a packed batch: `[T, H, d]` -> `[T, H, d]`.

    Args:
        k, v: may have fewer heads than q (grouped queries).
        scale: factor on the scores.
        window: largest |query position - key position| that may attend, in original positions; None = no bound.
        rate: attention dropout.
    """
    if k.shape[1] != q.shape[1]:
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    if varlen.usable(q, plan, window, rate):
        return varlen.varlen(q, k, v, plan, scale, window)
    if q.device.type != "cpu" or not flash.available:
        return bucketed_sdpa(q, k, v, plan, scale, window, rate)
    # CPU kernels are slower in half precision than in float32, and less exact.
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
    if rate:
        return BucketedDropout.apply(q, k, v, plan, scale, window, rate).to(dtype)
    return flash.BucketedFlash.apply(q, k, v, plan, scale, window).to(dtype)


# Arguments by which some models change the scores.
_UNSUPPORTED = ("position_bias", "s_aux", "softcap", "head_mask")
_counters: list[list[int]] = []


@contextmanager
def counting() -> Iterator[list[int]]:
    """Count calls of packed attention while the block runs: `[n_calls]`."""
    calls = [0]
    _counters.append(calls)
    try:
        yield calls
    finally:
        _counters.remove(calls)


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' attention interface: `[1, H, T, d]` in, `[1, T, H, d]` and no weights out.

    A batch without a masked slot may also come as it is, `[B, H, L, d]`.

    Raises:
        PackingError: called without a packed batch, or with an extra bias that would be ignored.
    """
    plan = plan_of(kwargs.get("plan_carrier", attention_mask), module)
    for calls in _counters:
        calls[0] += 1
    for name in _UNSUPPORTED:
        if kwargs.get(name) is not None:
            raise PackingError(f"{type(module).__name__} passes {name}, which packed attention would ignore")
    whole_batch = plan.layout.is_full and len(query) == plan.layout.n_rows and sliding_window is None
    if whole_batch and dropout == 0 and query.dtype in (torch.float32, torch.float64):
        grouped = key.shape[1] != query.shape[1]  # nothing is masked: what stock would call is exact and copies least
        whole = scaled_dot_product_attention(query, key, value, scale=scaling, enable_gqa=grouped)
        return whole.transpose(1, 2).contiguous(), None
    q, k, v = (t.transpose(1, 2).flatten(0, 1) for t in (query, key, value))
    scale = q.shape[-1] ** -0.5 if scaling is None else scaling
    # transformers passes the half width of a bidirectional window plus one (flash attention's convention).
    window = None if sliding_window is None else sliding_window - 1
    result = attend(q, k, v, plan, scale, window, dropout)
    return result.view(len(query), -1, *result.shape[1:]), None


def plan_of(attention_mask: Tensor | None, module: torch.nn.Module) -> Plan:
    """The plan that a packed model's layers find in place of their mask.

    Raises:
        PackingError: there is none, because the layer was called around the packed model's own call.
    """
    if not isinstance(attention_mask, PlanCarrier):
        raise PackingError(
            f"{type(module).__name__} of a packed model was called without a packed batch; call the whole model "
            "(not its forward method or a submodule), or maskwright.unpack(model) first"
        )
    return attention_mask.plan


AttentionInterface.register(NAME, packed_attention)
