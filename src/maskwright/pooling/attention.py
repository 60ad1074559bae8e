"""Pooling whose weights are learned."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from maskwright.core.layout import EmptyRows, Layout
from maskwright.core.segments import segment_softmax, segment_sum
from maskwright.pooling.select import pooled_tokens


class AttentionPooling(nn.Module):
    """A weighted mean whose weights are a softmax over learned scores of the tokens: `score . tanh(project(h))`.

    Shapes, polarity and errors as in `maskwright.pooling.mean`.

    Args:
        width: D, of the tokens' states.
        hidden_width: of the layer that scores; None = D.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> pool = AttentionPooling(4)
        >>> pool(torch.randn(2, 3, 4), torch.tensor([[1, 1, 0], [1, 1, 1]])).shape
        torch.Size([2, 4])

    Source: Yang et al. 2016, Hierarchical Attention Networks for Document Classification.
    """

    def __init__(self, width: int, hidden_width: int | None = None) -> None:
        super().__init__()
        self.project = nn.Linear(width, hidden_width or width)
        self.score = nn.Linear(hidden_width or width, 1, bias=False)

    def forward(
        self, hidden: Tensor, keep: Tensor | Layout, *, exclude: Tensor | None = None, empty: EmptyRows = "raise"
    ) -> Tensor:
        """`[B, L, D]` with keep `[B, L]`, or `[T, D]` with a Layout -> `[B, D]`."""
        tokens, layout, _ = pooled_tokens(hidden, keep, exclude, empty)
        weights = segment_softmax(self.score(torch.tanh(self.project(tokens))), layout)
        return segment_sum(tokens.to(weights.dtype) * weights, layout).to(hidden.dtype)
