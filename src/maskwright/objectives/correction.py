"""The embedding correction: an input table that is what a masked language model saw on average while pretraining."""

from __future__ import annotations

from torch import Tensor

from maskwright.errors import InputError
from maskwright.objectives.corruption import BERT_SHARES, Shares


def expected_embeddings(
    table: Tensor, mask_id: int, rate: float = 0.15, shares: Shares = BERT_SHARES, keep_ids: Tensor | None = None
) -> Tensor:
    """`[V, D]` -> `[V, D]`: `E[i] <- (1 - r) E[i] + r (a E[mask] + b E[i] + c mean(E))`, mean over all rows.

    Args:
        table: the input embeddings.
        mask_id: the row of [MASK].
        rate: r, the share of tokens that were chosen.
        shares: (a, b, c): became [MASK], stayed, became a random token.
        keep_ids: rows that stay as they are: tokens that are never chosen (special tokens, padding, [MASK] itself).

    Computed in float64, given back in the table's dtype.

    Raises:
        InputError: a rate outside [0, 1], shares that do not add up to 1, or a mask id outside the table.

    Example:
        >>> import torch
    >>> table = torch.tensor([[0.0], [1.0], [8.0]])
        >>> expected_embeddings(table, mask_id=2, rate=0.5, shares=Shares(1.0, 0.0, 0.0))
        tensor([[4.0000],
                [4.5000],
                [8.0000]])

    Source: masked language modelling seen as Dropout on embeddings: fine-tune with what pretraining saw on average.
    """
    if not 0 <= rate <= 1:
        raise InputError(f"must be in [0, 1], got {rate}", "rate")
    if min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
        raise InputError(f"must be non-negative and add up to 1, got {tuple(shares)}", "shares")
    if not 0 <= mask_id < len(table):
        raise InputError(f"{mask_id} is not a row of a table of {len(table)}", "mask_id")
    wide = table.detach().double()
    replaced = shares.mask * wide[mask_id] + shares.keep * wide + shares.random * wide.mean(0)
    expected = (1 - rate) * wide + rate * replaced
    if keep_ids is not None and len(keep_ids):
        expected[keep_ids] = wide[keep_ids]
    return expected.to(table.dtype)
