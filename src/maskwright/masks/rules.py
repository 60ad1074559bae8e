"""The rules themselves: padding, causal, prefix, sliding window, documents, hidden columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from maskwright.core.layout import as_keep
from maskwright.errors import MaskError
from maskwright.masks.mask import Mask

Side = Literal["right", "left"]


def padding(
    *,
    attention_mask: Tensor | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    ids: Tensor | None = None,
    pad_id: int | None = None,
    batch_first: bool | None = None,
    length: int | None = None,
    side: Side = "right",
) -> Mask:
    """Nobody attends to padding. From exactly one of:

    Args:
        attention_mask: `[B, L]`, 1/True = a token, as transformers' tokenizers give it.
        lengths: `[B]`, tokens in each row, of `length` slots (the longest row's), padded on `side`.
        ids: `[B, L]` if `batch_first`, else `[L, B]`; slots equal to `pad_id` are padding wherever they stand. Where
            the end-of-text token is also the pad token, use one of the others: ids alone cannot tell them apart.
        batch_first: must be said with `ids`; False reads an `attention_mask` as `[L, B]`.

    Raises:
        MaskError: none or several are given, or a tensor of another shape or other values.

    Example:
        >>> import torch
        >>> ids = torch.tensor([[3, 1, 7, 0, 0], [3, 4, 5, 6, 7]])
        >>> padding(ids=ids, pad_id=0, batch_first=True).to_attention_mask()
        tensor([[1, 1, 1, 0, 0],
                [1, 1, 1, 1, 1]])
    """
    given = [
        name
        for name, value in (("attention_mask", attention_mask), ("lengths", lengths), ("ids", ids))
        if value is not None
    ]
    if len(given) != 1:
        raise MaskError(f"padding needs exactly one of attention_mask, lengths, ids; got {given or 'none'}")
    if lengths is not None:
        return _of_keys(_keep_from_lengths(lengths, length, side), "padding")
    if attention_mask is not None:
        keep = as_keep(attention_mask)
        return _of_keys(keep.t() if batch_first is False else keep, "padding")
    assert ids is not None
    if pad_id is None or batch_first is None:
        raise MaskError("padding from ids needs pad_id= and batch_first= (True: [B, L]; False: [L, B], time-major)")
    if ids.ndim != 2 or ids.is_floating_point() or ids.dtype == torch.bool:
        raise MaskError(f"ids must be integers [B, L] or [L, B], got {ids.dtype} of shape {tuple(ids.shape)}")
    return _of_keys((ids if batch_first else ids.t()) != pad_id, "padding")


def causal(*, offset: int = 0) -> Mask:
    """No position sees a later one (the sequence mask): key <= query + offset.

    Args:
        offset: where query 0 stands among the keys: the number of keys already in a cache.

    Example:
        >>> causal().to_bool(3).long()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 1, 1]])
    """
    return Mask(lambda b, q, k: k <= q + offset, "causal")


def prefix(lengths: int | Tensor | Sequence[int]) -> Mask:
    """Causal but for the first `lengths` slots of each row, which everybody sees (a prefix LM).

    Args:
        lengths: one number for all rows, or `[B]`.

    Example:
        >>> prefix(2).to_bool(4).long()
        tensor([[1, 1, 0, 0],
                [1, 1, 0, 0],
                [1, 1, 1, 0],
                [1, 1, 1, 1]])
    """
    if isinstance(lengths, int):
        return Mask(lambda b, q, k: (k < lengths) | (k <= q), f"prefix of {lengths}")
    each = _counts(lengths, "prefix")
    return Mask(lambda b, q, k: (k < each[b]) | (k <= q), "prefix", n_rows=len(each), device=each.device)


def sliding_window(left: int | None, right: int | None) -> Mask:
    """Keys at most `left` slots before the query and at most `right` after it; None = no bound on that side.

    `sliding_window(w, w)` is the local attention of an encoder, `sliding_window(w, 0)` that of a causal model.

    Raises:
        MaskError: a negative reach.

    Example:
        >>> sliding_window(1, 0).to_bool(4).long()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [0, 1, 1, 0],
                [0, 0, 1, 1]])
    """
    if min(left or 0, right or 0) < 0:
        raise MaskError(f"a window reaches 0 or more slots to each side, got left={left}, right={right}")
    before, after = (10**9 if reach is None else reach for reach in (left, right))
    return Mask(lambda b, q, k: (k >= q - before) & (k <= q + after), f"window {left}, {right}")


def documents(*, ids: Tensor | None = None, cu_seqlens: Tensor | Sequence[int] | None = None) -> Mask:
    """Packed documents do not see one another (block-diagonal). From exactly one of:

    Args:
        ids: integers `[B, L]`, or `[L]` for one row: the document of each slot.
        cu_seqlens: `[N + 1]`, rising from 0 to L: document i is slots `cu_seqlens[i]` to `cu_seqlens[i + 1] - 1`.

    Raises:
        MaskError: neither or both are given, or they are not of that form.

    Example:
        >>> documents(cu_seqlens=[0, 1, 3]).to_bool().long()
        tensor([[1, 0, 0],
                [0, 1, 1],
                [0, 1, 1]])
    """
    if (ids is None) == (cu_seqlens is None):
        raise MaskError("documents needs exactly one of ids, cu_seqlens")
    if cu_seqlens is not None:
        bounds = _counts(cu_seqlens, "cu_seqlens")
        if len(bounds) < 2 or int(bounds[0]) != 0 or bool((bounds.diff() < 0).any()):
            raise MaskError(f"cu_seqlens must rise from 0 to the length, got {bounds.tolist()}")
        ids = torch.repeat_interleave(torch.arange(len(bounds) - 1, device=bounds.device), bounds.diff())
    assert ids is not None
    if ids.ndim not in (1, 2) or ids.is_floating_point() or ids.dtype == torch.bool:
        raise MaskError(f"document ids must be integers [B, L] or [L], got {ids.dtype} of shape {tuple(ids.shape)}")
    length, of = ids.shape[-1], ids
    if of.ndim == 1:
        return Mask(
            lambda b, q, k: of[q] == of[k], "documents", None, length, length, document_ids=of, device=of.device
        )
    return Mask(
        lambda b, q, k: of[b, q] == of[b, k], "documents", len(of), length, length, document_ids=of, device=of.device
    )


def hide_columns(hidden: Tensor) -> Mask:
    """Nobody attends to hidden tokens: MAE and DropToken as attention masking, the same columns in all layers.

    Args:
        hidden: bool `[B, L]`, True = hidden. `mw.pack` given the rest as `attention_mask` computes the same for the
            visible tokens, and nothing for the hidden ones.

    Example:
        >>> import torch
        >>> hide_columns(torch.tensor([[False, True, False]])).to_bool()[0].long()
        tensor([[1, 0, 1],
                [1, 0, 1],
                [1, 0, 1]])
    """
    if hidden.dtype != torch.bool or hidden.ndim != 2:
        raise MaskError(f"hidden must be bool [B, L], True = hidden; got {hidden.dtype} of shape {tuple(hidden.shape)}")
    return _of_keys(~hidden, "columns hidden")


def _of_keys(keep: Tensor, legend: str) -> Mask:
    """The rule that keys are attended to where `keep` (bool `[B, K]`) is True."""
    return Mask(
        lambda b, q, k: keep[b, k],
        legend,
        n_rows=keep.shape[0],
        n_keys=keep.shape[1],
        uses_query=False,
        absent=~keep,
        device=keep.device,
    )


def _keep_from_lengths(lengths: Tensor | Sequence[int], length: int | None, side: Side) -> Tensor:
    counts = _counts(lengths, "lengths")
    longest = int(counts.max()) if len(counts) else 0
    if length is not None and longest > length:
        raise MaskError(f"row {int(counts.argmax())} has {longest} tokens, more than length={length}")
    slot = torch.arange(longest if length is None else length, device=counts.device)
    if side == "left":
        slot = slot.flip(0)
    elif side != "right":
        raise MaskError(f"side must be 'right' or 'left' (where the padding stands), got {side!r}")
    return slot < counts[:, None]


def _counts(values: Tensor | Sequence[int], name: str) -> Tensor:
    counts = torch.as_tensor(values)
    if counts.ndim != 1 or counts.is_floating_point() or counts.dtype == torch.bool or bool((counts < 0).any()):
        raise MaskError(f"{name} must be non-negative integers in one dimension, got {values!r}")
    return counts.long()
