"""One vector a row from its tokens' states: padded `[B, L, D]` with a keep mask, or packed `[T, D]` with a Layout.

Example:
    >>> import torch, maskwright as mw
    >>> hidden, keep = torch.tensor([[[3.0], [1.0], [7.0], [0.0]]]), torch.tensor([[1, 1, 1, 0]])
    >>> mw.pooling.mean(hidden, keep)
    tensor([[3.6667]])
    >>> layout = mw.Layout.from_mask(keep)
    >>> mw.pooling.mean(layout.pack(hidden), layout)
    tensor([[3.6667]])
"""

from maskwright.pooling.attention import AttentionPooling
from maskwright.pooling.reduce import first, last, max, mean, mean_sqrt_length, weighted_mean
from maskwright.pooling.select import first_tokens, special_tokens

__all__ = [
    "AttentionPooling",
    "first",
    "first_tokens",
    "last",
    "max",
    "mean",
    "mean_sqrt_length",
    "special_tokens",
    "weighted_mean",
]
