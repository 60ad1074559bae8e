"""A small encoder written by hand, right in every respect, for faults to be planted in by subclassing a part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

OWN: dict[str, Any] = {"vocab_size": 61, "pad_id": 0, "direction": "bidirectional"}
"""What `run_audit` must be told about it."""
OWN_CAUSAL = {**OWN, "direction": "causal"}
WIDTH = 22


class Attention(nn.Module):
    """One head; nothing is read from slots that are not kept, and a query with nothing to attend to gets zeros."""

    def __init__(self, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def allowed(self, keep: Tensor) -> Tensor:
        """[B, L, L] bool, True = the query may attend to the key."""
        allowed = keep[:, None, :].expand(-1, keep.shape[1], -1)
        return allowed.tril() if self.causal else allowed

    def weights(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """[B, L, L] from scores, zero where nothing may be attended to."""
        lowest = torch.finfo(scores.dtype).min
        return scores.masked_fill(~allowed, lowest).softmax(-1).masked_fill(~allowed, 0)

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        """[B, L, D] and bool [B, L], True = takes part."""
        hidden = hidden.masked_fill(~keep[..., None], 0)
        scores = self.query(hidden) @ self.key(hidden).transpose(1, 2) / WIDTH**0.5
        return self.weights(scores, self.allowed(keep)) @ self.value(hidden)


class Layer(nn.Module):
    """Attention and a feed-forward part, each added to what came in."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention
        self.feed = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 37), nn.GELU(), nn.Linear(37, WIDTH))

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        """[B, L, D] and bool [B, L], True = takes part."""
        hidden = hidden + self.attention(hidden, keep)
        return hidden + self.feed(hidden)


class Encoder(nn.Module):
    """Two layers without positions, so that the side of padding cannot matter; gives hidden states [B, L, D].

    Args:
        first, second: what makes the attention of the layers.
        middle: a module between them, called with hidden states and `keep`.
        pool: a module that makes [B, D] of hidden states and `keep`; then that is given back.
    """

    def __init__(
        self,
        first: Callable[[], nn.Module] = Attention,
        second: Callable[[], nn.Module] = Attention,
        middle: Callable[[], nn.Module] | None = None,
        pool: Callable[[], nn.Module] | None = None,
        seed: int = 3,
    ) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(61, WIDTH)
        self.layers = nn.ModuleList([Layer(first()), Layer(second())])
        self.middle = middle() if middle else None
        self.pool = pool() if pool else None
        self.eval()

    def keep(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Bool [B, L], True = takes part, of a mask of any dtype."""
        if attention_mask is None:
            return torch.ones(input_ids.shape, dtype=torch.bool)
        return attention_mask != 0

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        """Ids [B, L] and a mask [B, L], not zero = takes part."""
        keep = self.keep(input_ids, attention_mask)
        hidden = self.layers[0](self.embed(input_ids), keep)
        if self.middle is not None:
            hidden = self.middle(hidden, keep)
        hidden = self.layers[1](hidden, keep)
        return hidden if self.pool is None else self.pool(hidden, keep)
