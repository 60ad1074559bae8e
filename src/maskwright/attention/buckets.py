"""How the rows of a packed batch are grouped for attention: rows of similar length run as one small dense batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from maskwright.core.layout import Layout

# A bucket takes rows up to this much longer than its shortest: little padding inside it, and few kernels.
_STRETCH, _SLACK = 1.15, 3


@dataclass(frozen=True, eq=False)
class Bucket:
    """`n` rows of similar length as a dense `[n, length]` block.

    Shapes: `gather` int64 `[n * length]`, the packed token behind each slot (slots without a token repeat one of the
    row's own); `valid` bool `[n, length]`, True = a real token, None when all are; `start`, the first packed token when
    the block is one contiguous piece of the sequence, else None; `positions` int64 `[n, length]`, original positions.
    """

    n: int
    length: int
    gather: Tensor
    valid: Tensor | None
    start: int | None
    positions: Tensor
    _biases: dict[tuple[int | None, torch.dtype], Tensor | None] = field(default_factory=dict)

    @cached_property
    def slots(self) -> Tensor | None:
        """int64: the flat slots that hold a real token; None when all do."""
        return None if self.valid is None else self.valid.flatten().nonzero().squeeze(1)

    @cached_property
    def tokens(self) -> Tensor:
        """int64: the packed token of each valid slot, in slot order."""
        return self.gather if self.slots is None else self.gather.index_select(0, self.slots)

    def take(self, packed: Tensor) -> Tensor:
        """`[T, ...]` -> `[n, length, ...]`; a view where the block is contiguous."""
        if self.start is not None:
            return packed.narrow(0, self.start, self.n * self.length).view(self.n, self.length, *packed.shape[1:])
        return packed.index_select(0, self.gather).view(self.n, self.length, *packed.shape[1:])

    def put(self, packed: Tensor, block: Tensor) -> None:
        """Write `[n, length, ...]` into the rows of `[T, ...]` it came from, in place."""
        flat = block.reshape(self.n * self.length, *block.shape[2:])
        if self.start is not None:
            packed.narrow(0, self.start, self.n * self.length).copy_(flat)
        else:
            packed.index_copy_(0, self.tokens, self.drop_padding(flat))

    def drop_padding(self, flat: Tensor) -> Tensor:
        """`[n * length, ...]` -> the valid slots only."""
        return flat if self.slots is None else flat.index_select(0, self.slots)

    def bias(self, dtype: torch.dtype, window: int | None = None) -> Tensor | None:
        """Additive `[n, 1, 1 or length, length]`: 0 = may attend, -inf = blocked; None when all may attend.

        `window` bounds |query position - key position|, in original positions. A slot without a token carries the
        position of its row's last token, so that its own (unused) softmax never runs over nothing.
        """
        key = (window, dtype)
        if key not in self._biases:
            allowed = None if self.valid is None else self.valid[:, None, None, :]
            if window is not None:
                distance = (self.positions[:, :, None] - self.positions[:, None, :]).abs()
                near = (distance <= window)[:, None]
                allowed = near if allowed is None else near & allowed
            self._biases[key] = None if allowed is None else additive(allowed, dtype)
        return self._biases[key]


def additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """A bool mask (True = may attend) as a bias: 0 where allowed, -inf elsewhere."""
    zero = torch.zeros((), dtype=dtype, device=allowed.device)
    return torch.where(allowed, zero, float("-inf"))


class Plan:
    """What attention needs to know of a batch beyond its Layout; built once, shared by all layers."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    @cached_property
    def max_length(self) -> int:
        """The longest row's kept tokens."""
        return max(self.layout.row_lengths)

    @cached_property
    def buckets(self) -> list[Bucket]:
        """The rows' kept tokens side by side: for attention that knows positions only from its inputs."""
        offsets = [0]
        for n in self.layout.row_lengths:
            offsets.append(offsets[-1] + n)
        return [self._compact(rows, offsets) for rows in group_rows(self.layout.row_lengths)]

    def _compact(self, rows: list[int], offsets: list[int]) -> Bucket:
        layout = self.layout
        lengths = [layout.row_lengths[row] for row in rows]
        n, length = len(rows), max(lengths)
        device = layout.index.device
        starts = torch.tensor([offsets[row] for row in rows], device=device)
        if min(lengths) == length:
            contiguous = all(offsets[row] == offsets[rows[0]] + i * length for i, row in enumerate(rows))
            gather = (starts[:, None] + torch.arange(length, device=device)).flatten()
            start, valid = (offsets[rows[0]] if contiguous else None), None
        else:
            slot = torch.arange(length, device=device)
            last = torch.tensor(lengths, device=device)[:, None] - 1
            gather = (starts[:, None] + torch.minimum(slot, last)).flatten()
            start, valid = None, slot <= last
        return Bucket(n, length, gather, valid, start, layout.positions[gather].view(n, length))

    @cached_property
    def spans(self) -> list[Bucket]:
        """Every row from its first to its last kept token, holes included but invalid.

        Distances between slots then are distances between original positions: for models that count slots.
        """
        layout = self.layout
        if not layout.n_tokens:
            return []
        ends = layout.offsets.long()
        first, last = layout.positions[ends[:-1]], layout.positions[ends[1:] - 1]
        widths: list[int] = (last - first + 1).tolist()
        if widths == layout.row_lengths:
            return self.buckets
        token = torch.zeros(layout.n_rows * layout.length, dtype=torch.int64, device=layout.index.device)
        token[layout.index] = torch.arange(layout.n_tokens, device=token.device)
        return [self._span(rows, widths, first, last, token) for rows in group_rows(widths)]

    def _span(self, rows: list[int], widths: list[int], first: Tensor, last: Tensor, token: Tensor) -> Bucket:
        layout, device = self.layout, token.device
        n, width = len(rows), max(widths[row] for row in rows)
        row = torch.tensor(rows, device=device)[:, None]
        wanted = first[row] + torch.arange(width, device=device)
        position = torch.minimum(wanted, last[row])
        slot = row * layout.length + position
        valid = (wanted <= last[row]) & layout.keep.flatten()[slot]
        gather = torch.where(valid, token[slot], layout.offsets.long()[row]).flatten()
        return Bucket(n, width, gather, None if bool(valid.all()) else valid, None, position)


def group_rows(lengths: list[int]) -> list[list[int]]:
    """Rows in buckets of similar length, shortest first; rows without tokens belong to none."""
    groups: list[list[int]] = []
    shortest = 0
    for row in sorted((row for row, n in enumerate(lengths) if n), key=lengths.__getitem__):
        if not groups or lengths[row] > max(_STRETCH * shortest, shortest + _SLACK):
            groups.append([])
            shortest = lengths[row]
        groups[-1].append(row)
    return groups
