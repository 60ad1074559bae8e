"""Masks that somebody else made: read under a named convention, refused where their meaning is not certain."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from maskwright.core.layout import as_keep
from maskwright.errors import MaskError
from maskwright.masks.mask import Mask
from maskwright.masks.rules import documents, padding

Convention = Literal["attention_mask", "key_padding_mask", "allowed", "blocked", "additive", "cu_seqlens"]

# What a value means under each convention; the legend of every error here.
CONVENTIONS: dict[str, str] = {
    "attention_mask": "[B, K], 1 = a token (transformers, mw.pack)",
    "key_padding_mask": "[B, K], True = ignore (torch.nn.MultiheadAttention)",
    "allowed": "[Q, K], [B, Q, K] or [B, 1, Q, K], 1/True = may attend (scaled_dot_product_attention)",
    "blocked": "the same shapes, 1/True = may not attend (attn_mask of torch.nn.MultiheadAttention)",
    "additive": "the same shapes, floats added to scores: 0 = may attend, -inf or very negative = blocked",
    "cu_seqlens": "[N + 1], integers from 0 up: the borders of packed documents (varlen kernels)",
}

# Above this a bias shifts a probability but does not block: softmax in float32 still sees it.
_BLOCKS = -1e4


def read(tensor: Tensor, convention: Convention | None = None) -> Mask:
    """A Mask from a tensor, under the convention it was made for. Left out, only what has one reading is accepted.

    Raises:
        MaskError: the tensor does not fit the convention, or has several readings; the message names them.

    Example:
        >>> torch_style = torch.triu(torch.ones(3, 3, dtype=torch.bool), diagonal=1)
        >>> read(torch_style, "blocked").to_bool().long()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 1, 1]])
        >>> read(torch_style)
        Traceback (most recent call last):
        ...
        maskwright.errors.MaskError: a torch.bool mask [3, 3] can be read as ...
    """
    if not isinstance(tensor, Tensor):
        raise MaskError(f"expected a tensor, got {type(tensor).__name__}")
    if convention is None:
        convention = _only_reading(tensor)
    if convention not in CONVENTIONS:
        raise MaskError(f"unknown convention {convention!r}. {_legend(*CONVENTIONS)}")
    if convention == "cu_seqlens":
        return documents(cu_seqlens=tensor)
    if convention in ("attention_mask", "key_padding_mask"):
        if tensor.ndim != 2:
            raise MaskError(f"{_name(tensor)} is not an {convention}. {_legend(convention)}")
        keep = as_keep(tensor)
        return padding(attention_mask=keep if convention == "attention_mask" else ~keep)
    pairs = _pairs(tensor, convention)
    if convention == "additive":
        return _of_pairs(_from_additive(pairs))
    return _of_pairs(_from_flags(pairs, convention))


def _only_reading(tensor: Tensor) -> Convention:
    """The convention of a tensor that can have only one.

    Raises:
        MaskError: it can have several.
    """
    if tensor.is_floating_point() and tensor.ndim in (2, 3, 4) and bool((tensor < 0).any()):
        return "additive"
    readings = {2: ["attention_mask", "key_padding_mask", "allowed", "blocked"], 1: ["cu_seqlens"]}
    possible = readings.get(tensor.ndim, ["allowed", "blocked"])
    if tensor.is_floating_point():
        possible = [*possible, "additive"]
    raise MaskError(f"{_name(tensor)} can be read as {' or '.join(possible)}: say convention=. {_legend(*possible)}")


def _pairs(tensor: Tensor, convention: str) -> Tensor:
    """`[Q, K]`, `[B, Q, K]` or `[B, 1, Q, K]` -> `[Q, K]` or `[B, Q, K]`."""
    if tensor.ndim not in (2, 3, 4):
        raise MaskError(f"{_name(tensor)} says nothing of pairs. {_legend(convention)}")
    if tensor.ndim == 4:
        if tensor.shape[1] != 1:
            if not bool((tensor == tensor[:, :1]).all()):
                raise MaskError(f"{_name(tensor)} differs from head to head, which a Mask does not")
            tensor = tensor[:, :1]
        tensor = tensor[:, 0]
    if tensor.shape[-1] == 1 and tensor.shape[-2] > 1:
        raise MaskError(
            f"{_name(tensor)} has one key for {tensor.shape[-2]} queries: broadcast over keys, it would mask queries, "
            "not keys. Padding of keys is [B, 1, 1, K]: move the axis, or read the [B, K] mask it came from"
        )
    return tensor


def _from_flags(pairs: Tensor, convention: str) -> Tensor:
    flags = pairs != 0
    if pairs.dtype != torch.bool and not bool((pairs == flags.to(pairs.dtype)).all()):
        raise MaskError(f"{_name(pairs)} holds other values than 0 and 1. {_legend(convention, 'additive')}")
    other = "blocked" if convention == "allowed" else "allowed"
    allowed = flags if convention == "allowed" else ~flags
    future = torch.ones(allowed.shape[-2:], dtype=torch.bool, device=allowed.device).triu(1)
    if allowed.shape[-1] == allowed.shape[-2] > 1 and bool((allowed == future).all()):
        raise MaskError(
            f"read as {convention}, this triangle lets each position see only later ones, and the last see nothing: "
            f"it is a causal mask of the other polarity, convention='{other}'. {_legend('allowed', 'blocked')}"
        )
    return allowed


def _from_additive(bias: Tensor) -> Tensor:
    if not bias.is_floating_point():
        raise MaskError(f"{_name(bias)} cannot be additive: that takes floats. {_legend('allowed', 'blocked')}")
    allowed, blocked = bias == 0, bias <= _BLOCKS
    odd = ~(allowed | blocked)
    if bool(odd.any()):
        value = bias[odd][0].item()
        hint = "0/1 flags: say 'allowed' or 'blocked'" if value == 1 else "a bias that shifts scores and blocks nothing"
        raise MaskError(f"{_name(bias)} is not an additive mask: it holds {value:g} ({hint}). {_legend('additive')}")
    return allowed


def _of_pairs(allowed: Tensor) -> Mask:
    queries, keys = allowed.shape[-2:]
    if queries == 1:  # about keys alone
        by_row = allowed.reshape(-1, keys)
        return Mask(
            lambda b, q, k: by_row[b, k],
            "as read",
            n_rows=len(by_row),
            n_keys=keys,
            uses_query=False,
            absent=~by_row,
            device=allowed.device,
        )
    if allowed.ndim == 2:  # alike for all rows
        return Mask(lambda b, q, k: allowed[q, k], "as read", None, queries, keys, device=allowed.device)
    return Mask(lambda b, q, k: allowed[b, q, k], "as read", len(allowed), queries, keys, device=allowed.device)


def _name(tensor: Tensor) -> str:
    return f"a {tensor.dtype} mask {list(tensor.shape)}"


def _legend(*conventions: str) -> str:
    return "; ".join(f"{name}: {CONVENTIONS[name]}" for name in conventions)
