"""Which tokens of a padded batch exist, and where they stand: the one primitive everything else is built on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from maskwright.errors import EmptyRowError, MaskError

EmptyRows = Literal["raise", "zero"]


@dataclass(frozen=True, eq=False)
class Layout:
    """The kept tokens of a `[B, L]` batch, in row order, as a packed `[T]` sequence.

    Shapes: `index` int64 `[T]`, the flat slot (`row * L + position`) of each kept token; `lengths` int64 `[B]`, the
    kept tokens of each row. Everything else follows from these.

    Example:
        >>> import torch
        >>> layout = Layout.from_mask(torch.tensor([[1, 1, 0], [0, 1, 1]]))
        >>> layout.pack(torch.tensor([[3, 1, 0], [0, 4, 5]]))
        tensor([3, 1, 4, 5])
        >>> layout.unpack(torch.tensor([3, 1, 4, 5]), fill=-1)
        tensor([[ 3,  1, -1],
                [-1,  4,  5]])
    """

    n_rows: int
    length: int
    index: Tensor
    lengths: Tensor

    @classmethod
    def from_mask(cls, attention_mask: Tensor, *, empty: EmptyRows = "raise") -> Layout:
        """Read a `[B, L]` mask in which 1/True means the token takes part.

        Args:
            attention_mask: bool, or any number type holding only 0 and 1.
            empty: what to do about a row that keeps nothing: "raise", or "zero" to let it have no tokens.

        Raises:
            MaskError: not 2-D, or values other than 0 and 1 (an additive mask, say).
            EmptyRowError: a row keeps no token and `empty` is "raise".
        """
        keep = as_keep(attention_mask)
        n_rows, length = keep.shape
        lengths = keep.sum(1)
        layout = cls(n_rows, length, keep.flatten().nonzero().squeeze(1), lengths)
        if empty == "raise" and 0 in layout.row_lengths:
            rows = [row for row, n in enumerate(layout.row_lengths) if n == 0]
            raise EmptyRowError(rows, "its attention_mask is all 0; drop such rows, or give them one token")
        return layout

    @property
    def n_tokens(self) -> int:
        """T, the number of kept tokens."""
        return self.index.shape[0]

    @cached_property
    def row_lengths(self) -> list[int]:
        """`lengths` as Python numbers: the one transfer from the device that planning a batch needs."""
        lengths: list[int] = self.lengths.tolist()
        return lengths

    @cached_property
    def offsets(self) -> Tensor:
        """int32 `[B + 1]`: row b is `packed[offsets[b]:offsets[b + 1]]` (the field's `cu_seqlens`)."""
        zero = self.lengths.new_zeros(1)
        return torch.cat([zero, self.lengths.cumsum(0)]).to(torch.int32)

    @cached_property
    def rows(self) -> Tensor:
        """int64 `[T]`: the row of each kept token."""
        return torch.div(self.index, self.length, rounding_mode="floor")

    @cached_property
    def positions(self) -> Tensor:
        """int64 `[T]`: the slot of each kept token within its row."""
        return self.index - self.rows * self.length

    @cached_property
    def keep(self) -> Tensor:
        """bool `[B, L]`: True where the token takes part."""
        keep = torch.zeros(self.n_rows * self.length, dtype=torch.bool, device=self.index.device)
        return keep.index_fill_(0, self.index, True).view(self.n_rows, self.length)

    @cached_property
    def with_ends(self) -> tuple[Tensor, Tensor]:
        """(packed tokens, flat slots), int64: every kept token at its slot, and masked row ends filled.

        A masked first slot gets its row's first kept token, a masked last slot the last one. Every row must keep one.
        """
        offsets = self.offsets.long()
        tokens, slots = [torch.arange(self.n_tokens, device=self.index.device)], [self.index]
        for slot, token in ((0, offsets[:-1]), (self.length - 1, offsets[1:] - 1)):
            rows = (~self.keep[:, slot]).nonzero().squeeze(1)
            tokens.append(token[rows])
            slots.append(rows * self.length + slot)
        return torch.cat(tokens), torch.cat(slots)

    @property
    def is_full(self) -> bool:
        """Whether every slot is kept, so that packing only reshapes."""
        return self.n_tokens == self.n_rows * self.length

    def pack(self, padded: Tensor) -> Tensor:
        """`[B, L, ...]` -> `[T, ...]`: the kept slots, in row order.

        Raises:
            MaskError: the leading axes are not `[B, L]`.
        """
        if padded.shape[:2] != (self.n_rows, self.length):
            want, got = (self.n_rows, self.length), tuple(padded.shape)
            raise MaskError(f"pack expects a tensor [B, L, ...] with [B, L] = {want}, got {got}")
        flat = padded.reshape(self.n_rows * self.length, *padded.shape[2:])
        return flat if self.is_full else flat.index_select(0, self.index)

    def unpack(self, packed: Tensor, fill: float = 0) -> Tensor:
        """`[T, ...]` -> `[B, L, ...]`, with `fill` in the slots that are not kept.

        Raises:
            MaskError: the leading axis is not T.
        """
        if packed.shape[0] != self.n_tokens:
            raise MaskError(f"unpack expects a tensor [T, ...] with T = {self.n_tokens}, got {tuple(packed.shape)}")
        if not self.is_full:
            slots = packed.new_full((self.n_rows * self.length, *packed.shape[1:]), fill)
            packed = slots.index_copy(0, self.index, packed)
        return packed.view(self.n_rows, self.length, *packed.shape[1:])


def as_keep(attention_mask: Tensor) -> Tensor:
    """A `[B, L]` 0/1 mask of any dtype as bool, True = takes part.

    Raises:
        MaskError: not 2-D, or values other than 0 and 1.
    """
    if attention_mask.ndim != 2:
        raise MaskError(
            f"an attention_mask must be [B, L] with 1 = takes part, got shape {tuple(attention_mask.shape)}; "
            "4-D masks say which pairs may attend, which packing cannot honour"
        )
    if attention_mask.dtype == torch.bool:
        return attention_mask
    keep = attention_mask != 0
    if not bool((attention_mask == keep.to(attention_mask.dtype)).all()):
        raise MaskError(
            "an attention_mask must hold only 0 and 1 (1 = takes part); this one holds other values, "
            "like an additive mask (0 and very negative)"
        )
    return keep
