"""How the rows of a packed batch are grouped for attention: rows of similar length run as one small dense batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from maskwright.core.layout import Layout

# A bucket takes rows up to this much longer than its shortest: little padding inside it, and few kernels.
_STRETCH, _SLACK = 1.15, 3


@dataclass(frozen=True, eq=False)
class Bucket:
    """`n` rows of similar length as a dense block.

    Attributes:
        start: where the block begins in the spread sequence (see `Buckets`), in slots.
        valid: bool `[n, length]`, True = a real token; None when all are.
        positions: int64 `[n, length]`, original positions.
    """

    n: int
    length: int
    start: int
    valid: Tensor | None
    positions: Tensor
    _biases: dict[tuple[int | None, torch.dtype], Tensor | None] = field(default_factory=dict)

    def block(self, spread: Tensor) -> Tensor:
        """`[S, ...]` -> `[n, length, ...]`, a view."""
        return spread.narrow(0, self.start, self.n * self.length).view(self.n, self.length, *spread.shape[1:])

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


@dataclass(frozen=True, eq=False)
class Buckets:
    """The T packed tokens spread over the S slots of all buckets, one after the other (S - T slots are padding).

    Attributes:
        gather: int64 `[S]`, the token behind each slot; padding repeats one of its row's own. None: slots are tokens.
        slots: int64 `[T]`, the slot of each token. None: slots are tokens.
        padding: int64 `[S - T]`, the slots without a token; None when there are none.
    """

    items: list[Bucket]
    gather: Tensor | None
    slots: Tensor | None
    padding: Tensor | None
    _scratch: dict[str, Tensor] = field(default_factory=dict)
    _by_head: dict[int, Buckets] = field(default_factory=dict)

    def by_head(self, n_heads: int) -> Buckets:
        """The same for `[T * H, ...]`, every head a row of its own: blocks are `[n * H, L, ...]`, as bmm takes them."""
        if n_heads not in self._by_head:
            head = torch.arange(n_heads, device=self.items[0].positions.device)[:, None]
            blocks = []
            for item in self.items:
                token = torch.arange(item.start, item.start + item.n * item.length, device=head.device)
                if self.gather is not None:
                    token = self.gather[token]
                token = (token.view(item.n, 1, item.length) * n_heads + head).flatten(0, 1)
                valid = None if item.valid is None else item.valid.repeat_interleave(n_heads, 0)
                blocks.append((token, valid, item.positions.repeat_interleave(n_heads, 0)))
            n_tokens = sum(item.n * item.length for item in self.items) if self.slots is None else len(self.slots)
            self._by_head[n_heads] = _assemble(blocks, n_tokens * n_heads)
        return self._by_head[n_heads]

    def spread(self, packed: Tensor) -> Tensor:
        """`[T, ...]` -> `[S, ...]`; one copy for all buckets, or none where tokens stand as the buckets need them."""
        return packed if self.gather is None else packed.index_select(0, self.gather)

    def collect(self, spread: Tensor) -> Tensor:
        """`[S, ...]` -> `[T, ...]`, the inverse."""
        return spread if self.slots is None else spread.index_select(0, self.slots)

    def spread_briefly(self, **packed: Tensor) -> list[Tensor]:
        """`spread` of each without a graph, into the workspace of its name: valid until the name is used again."""
        if self.gather is None:
            return list(packed.values())
        return [
            torch.index_select(t.detach(), 0, self.gather, out=self.workspace(name, t)) for name, t in packed.items()
        ]

    def spread_gradient(self, grad: Tensor) -> Tensor:
        """`[T, ...]` -> `[S, ...]` with zeros in padding: what `collect` passes back. As brief as `spread_briefly`."""
        (spread,) = self.spread_briefly(grad=grad)
        return spread if self.padding is None else spread.index_fill_(0, self.padding, 0)

    def workspace(self, name: str, like: Tensor) -> Tensor:
        """An uninitialised `[S, ...]` tensor whose content goes through `collect` before the next layer asks for it.

        All layers share one: fresh memory for each would cost more in page faults than the copies themselves. Where
        `collect` copies nothing, its result would be the workspace, so each call gets a tensor of its own.
        """
        if self.gather is None:
            return torch.empty_like(like, memory_format=torch.contiguous_format)
        space = self._scratch.get(name)
        if space is None or space.shape[1:] != like.shape[1:] or space.dtype != like.dtype:
            space = self._scratch[name] = like.new_empty(len(self.gather), *like.shape[1:])
        return space

    def scratch(self, name: str, like: Tensor) -> Tensor:
        """An uninitialised contiguous tensor like `like` (of one bucket), valid until the name is used again."""
        space = self._scratch.get(name)
        if space is None or space.numel() < like.numel() or space.dtype != like.dtype:
            space = self._scratch[name] = like.new_empty(like.numel())
        return space[: like.numel()].view(like.shape)


class Plan:
    """What attention needs to know of a batch beyond its Layout; built once, shared by all layers."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    @cached_property
    def max_length(self) -> int:
        """The longest row's kept tokens."""
        return max(self.layout.row_lengths)

    @cached_property
    def buckets(self) -> Buckets:
        """The rows' kept tokens side by side: for attention that knows positions only from its inputs."""
        starts = self.layout.offsets[:-1].long()
        blocks = []
        for rows in group_rows(self.layout.row_lengths):
            lengths = [self.layout.row_lengths[row] for row in rows]
            slot = torch.arange(max(lengths), device=starts.device)
            last = torch.tensor(lengths, device=starts.device)[:, None] - 1
            token = starts[rows][:, None] + torch.minimum(slot, last)
            blocks.append((token, None if min(lengths) == max(lengths) else slot <= last, self.layout.positions[token]))
        return _assemble(blocks, self.layout.n_tokens)

    @cached_property
    def spans(self) -> Buckets:
        """Every row from its first to its last kept token, holes included but invalid.

        Distances between slots then are distances between original positions: for models that count slots.
        """
        layout = self.layout
        ends = layout.offsets.long()
        first, last = layout.positions[ends[:-1]], layout.positions[ends[1:] - 1]
        widths: list[int] = (last - first + 1).tolist()
        if widths == layout.row_lengths:
            return self.buckets
        token_at = torch.zeros(layout.n_rows * layout.length, dtype=torch.int64, device=ends.device)
        token_at[layout.index] = torch.arange(layout.n_tokens, device=ends.device)
        blocks = []
        for rows in group_rows(widths):
            row = torch.tensor(rows, device=ends.device)[:, None]
            wanted = first[row] + torch.arange(max(widths[r] for r in rows), device=ends.device)
            position = torch.minimum(wanted, last[row])
            slot = row * layout.length + position
            valid = (wanted <= last[row]) & layout.keep.flatten()[slot]
            token = torch.where(valid, token_at[slot], ends[row])
            blocks.append((token, None if bool(valid.all()) else valid, position))
        return _assemble(blocks, layout.n_tokens)


def _assemble(blocks: Iterable[tuple[Tensor, Tensor | None, Tensor]], n_tokens: int) -> Buckets:
    """Buckets from (token `[n, L]`, valid `[n, L]` or None, position `[n, L]`) of each."""
    blocks, items, start = list(blocks), [], 0
    for token, valid, position in blocks:
        items.append(Bucket(token.shape[0], token.shape[1], start, valid, position))
        start += token.numel()
    gather = torch.cat([token.flatten() for token, _, _ in blocks])
    tokens = torch.arange(n_tokens, device=gather.device)
    if start == n_tokens and torch.equal(gather, tokens):
        return Buckets(items, None, None, None)
    every = torch.ones((), dtype=torch.bool, device=gather.device)
    valid = torch.cat([(every.expand(t.shape) if v is None else v).flatten() for t, v, _ in blocks])
    slots = torch.empty_like(tokens)
    slots[gather[valid]] = valid.nonzero().squeeze(1)
    padding = (~valid).nonzero().squeeze(1) if start > n_tokens else None
    return Buckets(items, gather, slots, padding)


def group_rows(lengths: list[int]) -> list[list[int]]:
    """Rows in buckets of similar length, longest first; rows without tokens belong to none.

    Longest first, because that is how token-budget batches come: their tokens then need no moving.
    """
    groups: list[list[int]] = []
    longest = 0
    for row in sorted((row for row, n in enumerate(lengths) if n), key=lengths.__getitem__, reverse=True):
        if not groups or longest > max(_STRETCH * lengths[row], lengths[row] + _SLACK):
            groups.append([])
            longest = lengths[row]
        groups[-1].append(row)
    return groups
