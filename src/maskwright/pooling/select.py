"""What a pooling function may see: kept tokens less the excluded ones, packed. Masked slots are never read."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from maskwright.core.layout import EmptyRows, Layout
from maskwright.errors import EmptyRowError, MaskError


def pooled_tokens(
    hidden: Tensor, keep: Tensor | Layout, exclude: Tensor | None, empty: EmptyRows
) -> tuple[Tensor, Layout, Tensor | None]:
    """(states `[T, D]` of the tokens that are pooled, their Layout, where they stood in `hidden`, None = everywhere).

    Padded states are packed first: reading kept slots alone is faster than multiplying all of them by a mask, and what
    stands in the others, NaN included, cannot reach a result or a gradient.

    Raises:
        MaskError: shapes that do not fit one another, or a mask of other values than 0 and 1.
        EmptyRowError: a row has nothing to pool and `empty` is "raise".
    """
    if not isinstance(keep, (Tensor, Layout)):
        raise MaskError(f"keep must be a [B, L] tensor (1/True = takes part) or a Layout, got {type(keep).__name__}")
    if not hidden.is_floating_point():
        raise MaskError(f"hidden must be floats, got {hidden.dtype}")
    wanted = [keep.n_tokens] if isinstance(keep, Layout) else list(keep.shape)
    if list(hidden.shape[:-1]) != wanted:
        packed = isinstance(keep, Layout)
        form = "hidden [T, D] with a Layout of T tokens" if packed else "hidden [B, L, D] with keep [B, L]"
        raise MaskError(f"pooling takes {form}; got hidden {list(hidden.shape)} for {wanted}")
    if exclude is not None and (exclude.dtype != torch.bool or exclude.shape != hidden.shape[:-1]):
        got = f"{exclude.dtype} {list(exclude.shape)}"
        raise MaskError(f"exclude must be bool {wanted}, True = left out; got {got}")
    if isinstance(keep, Layout):
        layout, at = keep, None
    else:
        layout = Layout.from_mask(keep, empty="zero")
        at = None if layout.is_full else layout.index
        hidden = layout.pack(hidden)
        exclude = None if exclude is None else layout.pack(exclude)
    if exclude is not None:
        chosen = (~exclude).nonzero().squeeze(1)
        lengths = torch.zeros_like(layout.lengths).index_add_(0, layout.rows, (~exclude).to(layout.lengths.dtype))
        layout = Layout(layout.n_rows, layout.length, layout.index[chosen], lengths)
        hidden, at = hidden.index_select(0, chosen), chosen if at is None else at[chosen]
    check_rows(layout.lengths > 0, empty)
    return hidden, layout, at


def check_rows(has_some: Tensor, empty: EmptyRows) -> None:
    """Raises: EmptyRowError naming the rows where `has_some` (bool `[B]`) is False, if `empty` is "raise"."""
    if empty not in ("raise", "zero"):
        raise MaskError(f"empty must be 'raise' or 'zero', got {empty!r}")
    if empty == "raise" and not bool(has_some.all()):
        hint = "nothing is left to pool; drop such rows, or empty='zero' gives them a vector of zeros"
        raise EmptyRowError((~has_some).nonzero().flatten().tolist(), hint)


def ranks(layout: Layout) -> Tensor:
    """int64 `[T]`: 1, 2, 3, ... along each row's tokens."""
    return torch.arange(1, layout.n_tokens + 1, device=layout.index.device) - layout.offsets.long()[layout.rows]


def special_tokens(ids: Tensor, special_ids: Sequence[int]) -> Tensor:
    """For `exclude`: where a special token stands. Ids `[B, L]` or `[T]` -> bool of that shape, True = special.

    Example:
        >>> import torch
        >>> special_tokens(torch.tensor([[101, 7, 102]]), [101, 102])
        tensor([[ True, False,  True]])
    """
    return torch.isin(ids, torch.tensor(list(special_ids), dtype=ids.dtype, device=ids.device))


def first_tokens(keep: Tensor | Layout, n: int | Tensor) -> Tensor:
    """For `exclude`: the first `n` kept tokens of each row (a prompt), under any padding side.

    Args:
        keep: `[B, L]`, 1/True = takes part, or a Layout.
        n: one number, or int64 `[B]`.

    Returns: bool `[B, L]` or `[T]`.

    Example:
        >>> import torch
        >>> first_tokens(torch.tensor([[0, 0, 1, 1, 1]]), 2)
        tensor([[False, False,  True,  True, False]])
    """
    layout = keep if isinstance(keep, Layout) else Layout.from_mask(keep, empty="zero")
    many = torch.as_tensor(n, device=layout.index.device)
    among_first = ranks(layout) <= (many if many.ndim == 0 else many[layout.rows])
    return among_first if isinstance(keep, Layout) else layout.unpack(among_first)
