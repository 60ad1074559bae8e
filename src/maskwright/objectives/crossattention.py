"""A decoder that looks from the tokens to be predicted to the visible ones, and computes nothing else."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from maskwright.core.layout import Layout


class CrossDecoder(nn.Module):
    """Layers of cross-attention and feed-forward over the targets alone; positions turn queries and keys (rotary).

    Rotary and not learned, since a decoder must find the neighbours of a hidden token before it can learn from them. Of
    two small encoders (4 x 128, Chinese text, a rate of 0.15) the one with learned positions was still at the
    frequencies of words after 1500 steps, the one with rotary ones had left them after 500, as MLM had.

    Args:
        width: D, of the encoder's states.
        n_heads, inner_width, n_layers: as in the encoder.

    Source: Su et al. 2021, RoFormer.
    """

    def __init__(self, width: int, n_heads: int, inner_width: int, n_layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(width, n_heads, inner_width) for _ in range(n_layers))
        self.n_pairs = width // n_heads // 2

    @classmethod
    def like(cls, config: Any, n_layers: int) -> CrossDecoder:
        """Of the width and heads of a transformers configuration."""
        inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
        return cls(config.hidden_size, config.num_attention_heads, inner, n_layers)

    def forward(self, mask: Tensor, states: Tensor, visible: Layout, targets: Layout) -> Tensor:
        """Mask embedding `[D]`, visible states `[T, D]` -> states of the targets `[N, D]`, in the Layouts' order."""
        turns = self._turns(targets.positions), self._turns(visible.positions)
        queries = mask.expand(targets.n_tokens, -1)
        for layer in self.layers:
            queries = layer(queries, states, visible, targets, *turns)
        return queries

    def _turns(self, positions: Tensor) -> Tensor:
        """Angles in radians, `[T, pairs]`: of pair i, position / 10000^(i / pairs)."""
        pairs = torch.arange(self.n_pairs, device=positions.device)
        return positions[:, None] * 10_000.0 ** (-pairs / self.n_pairs)


class _Layer(nn.Module):
    """Post-norm, as in BERT: attention, then feed-forward."""

    def __init__(self, width: int, n_heads: int, inner_width: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query, self.key_value = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner_width), nn.Linear(inner_width, width)
        self.after_attention, self.after_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(
        self, queries: Tensor, seen: Tensor, visible: Layout, targets: Layout, turns: Tensor, seen_turns: Tensor
    ) -> Tensor:
        q = self._heads(self._turned(self.query(queries), turns), targets)
        key, value = self.key_value(seen).chunk(2, -1)
        key, value = self._heads(self._turned(key, seen_turns), visible), self._heads(value, visible)
        allowed = None if _is_dense(visible) else _dense_keep(visible)[:, None, None, :]
        mixed = scaled_dot_product_attention(q, key, value, attn_mask=allowed).transpose(1, 2).flatten(2)
        attended = self.out(_from_dense(mixed, targets))
        queries = self.after_attention(queries + attended)
        fed: Tensor = self.after_feed_forward(queries + self.down(gelu(self.up(queries))))
        return fed

    def _turned(self, packed: Tensor, turns: Tensor) -> Tensor:
        """`[T, D]` with the pairs of numbers of every head turned by their angles; an odd last number stays."""
        n_pairs = turns.shape[1]
        cos, sin = (f(turns).to(packed.dtype)[:, None] for f in (torch.cos, torch.sin))
        heads = packed.view(len(packed), self.n_heads, -1)
        a, b, rest = heads.tensor_split((n_pairs, 2 * n_pairs), dim=-1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos, rest), -1).flatten(1)

    def _heads(self, packed: Tensor, layout: Layout) -> Tensor:
        """`[T, D]` -> `[B, H, longest row, d]`, rows filled at their ends."""
        dense = _to_dense(packed, layout)
        return dense.view(*dense.shape[:2], self.n_heads, -1).transpose(1, 2)


def _is_dense(layout: Layout) -> bool:
    return min(layout.row_lengths) == max(layout.row_lengths)


def _slots(layout: Layout) -> Tensor:
    """int64 `[T]`: each token's slot among rows moved together to the front."""
    longest = max(layout.row_lengths)
    within = torch.arange(layout.n_tokens, device=layout.index.device) - layout.offsets.long()[layout.rows]
    return layout.rows * longest + within


def _to_dense(packed: Tensor, layout: Layout) -> Tensor:
    longest = max(layout.row_lengths)
    if not _is_dense(layout):
        packed = packed.new_zeros(layout.n_rows * longest, packed.shape[1]).index_copy(0, _slots(layout), packed)
    return packed.view(layout.n_rows, longest, packed.shape[1])


def _dense_keep(layout: Layout) -> Tensor:
    """bool `[B, longest row]`."""
    longest = max(layout.row_lengths)
    return torch.arange(longest, device=layout.index.device) < layout.lengths[:, None]


def _from_dense(dense: Tensor, layout: Layout) -> Tensor:
    flat = dense.flatten(0, 1)
    return flat if _is_dense(layout) else flat.index_select(0, _slots(layout))
