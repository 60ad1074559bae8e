"""A mask rule, lowered to what each library expects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from maskwright.core.layout import Layout
from maskwright.errors import MaskError
from maskwright.masks.algebra import EmptyQueries, Rule
from maskwright.masks.draw import Panel, draw, text

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch.nn.attention.flex_attention import BlockMask

Implementation = Literal["eager", "sdpa", "flex_attention"]


class Mask(Rule):
    """A rule that says who may attend to whom, and cannot be read the wrong way round.

    Made by the functions of `maskwright.masks`, combined with `&` (both allow), `|` (either allows) and `~` (the
    opposite), and lowered by the `to_...` methods, each of which names its shape and polarity. Sizes that the rule
    itself does not know are given as `n_queries` and `n_keys` (left out: as many as the other).

    A query that may attend to nothing has no softmax. Lowerings for someone else's softmax let it attend to everything
    where its slot holds no token, so that what it computes is finite and nobody reads it; where it is a real token, or
    the whole row is empty, they raise EmptyRowError. `empty="open"` opens those too.

    Example:
        >>> from maskwright import masks
        >>> mask = masks.padding(lengths=[3, 2]) & masks.causal()
        >>> mask.to_bool().long()
        tensor([[[1, 0, 0],
                 [1, 1, 0],
                 [1, 1, 1]],
        <BLANKLINE>
                [[1, 0, 0],
                 [1, 1, 0],
                 [1, 1, 0]]])
    """

    def to_sdpa(
        self, n_queries: int | None = None, n_keys: int | None = None, *, empty: EmptyQueries = "raise"
    ) -> Tensor:
        """bool `[B or 1, 1, Q, K]`, True = may attend: `attn_mask` of torch's scaled_dot_product_attention.

        Raises:
            EmptyRowError: a real query may attend to nothing and `empty` is "raise".
        """
        allowed = self.allowed(n_queries, n_keys, empty)
        return allowed.view(-1, 1, *allowed.shape[-2:])

    def to_additive(
        self,
        dtype: torch.dtype,
        n_queries: int | None = None,
        n_keys: int | None = None,
        *,
        empty: EmptyQueries = "raise",
    ) -> Tensor:
        """`[B or 1, 1, Q, K]` to add to scores: 0 = may attend, a quarter of the dtype's lowest value = blocked.

        A quarter, so that two of them and any score up to half the dtype's range still add up to a finite number: the
        lowest value itself plus a negative score overflows to -inf, and a row of -inf is NaN after softmax.

        Raises:
            MaskError: a dtype without fractions.
            EmptyRowError: a real query may attend to nothing and `empty` is "raise".
        """
        if not dtype.is_floating_point:
            raise MaskError(f"an additive mask needs a floating-point dtype, got {dtype}")
        allowed = self.to_sdpa(n_queries, n_keys, empty=empty)
        blocked = torch.tensor(torch.finfo(dtype).min / 4, dtype=dtype, device=allowed.device)
        return torch.where(allowed, torch.zeros_like(blocked), blocked)

    def to_attention_mask(self) -> Tensor:
        """int64 `[B, K]`, 1 = takes part: what transformers' models take, and `mw.pack` packs by.

        Raises:
            MaskError: the rule depends on the query.
        """
        return self._of_keys("attention_mask").long()

    def to_transformers(
        self,
        attn_implementation: Implementation,
        dtype: torch.dtype = torch.float32,
        n_queries: int | None = None,
        *,
        empty: EmptyQueries = "raise",
    ) -> Tensor | BlockMask:
        """The `[B, 1, Q, K]` mask that a transformers model with this attention hands on unchanged.

        bool (True = may attend) for "sdpa"; additive in the model's `dtype` for "eager", which adds it to the scores,
        so that a bool mask there is silently wrong; a BlockMask for "flex_attention".

        Raises:
            MaskError: another implementation.
            EmptyRowError: a real query may attend to nothing and `empty` is "raise".
        """
        if attn_implementation == "sdpa":
            return self.to_sdpa(n_queries, empty=empty)
        if attn_implementation == "eager":
            return self.to_additive(dtype, n_queries, empty=empty)
        if attn_implementation == "flex_attention":
            return self.to_block_mask(n_queries)
        raise MaskError(
            f"no 4-D mask is known for attn_implementation={attn_implementation!r}: "
            "use 'eager', 'sdpa' or 'flex_attention', or the 2-D to_attention_mask()"
        )

    def to_key_padding(self, *, empty: EmptyQueries = "raise") -> Tensor:
        """bool `[B, K]`, True = ignore: `key_padding_mask` of torch.nn.MultiheadAttention and its Transformer layers.

        Raises:
            MaskError: the rule depends on the query: lower that part with `to_attn_mask`.
            EmptyRowError: a row has no key at all (torch would give NaN) and `empty` is "raise".
        """
        keep = self._of_keys("key_padding_mask")
        nothing = ~keep.any(1, keepdim=True)
        if empty == "raise":
            self.check_queries(nothing)
        return ~(keep | nothing)

    def to_attn_mask(
        self,
        n_heads: int | None = None,
        n_queries: int | None = None,
        n_keys: int | None = None,
        *,
        empty: EmptyQueries = "raise",
    ) -> Tensor:
        """bool `[Q, K]`, or `[B * H, Q, K]` where rows differ, True = ignore: `attn_mask` of nn.MultiheadAttention.

        Raises:
            MaskError: rows differ and `n_heads` is not given.
            EmptyRowError: a real query may attend to nothing and `empty` is "raise".
        """
        blocked = ~self.allowed(n_queries, n_keys, empty)
        if self.n_rows is None:
            return blocked
        if n_heads is None:
            raise MaskError("rows differ, so attn_mask is [B * H, Q, K]: say n_heads=")
        return blocked.repeat_interleave(n_heads, 0)

    def to_block_mask(
        self, n_queries: int | None = None, n_keys: int | None = None, block_size: int = 128
    ) -> BlockMask:
        """FlexAttention's BlockMask; queries that may attend to nothing give zeros there."""
        from torch.nn.attention.flex_attention import create_block_mask

        rule = self.bound(n_queries, n_keys)
        ask = rule.predicate
        return create_block_mask(
            lambda b, h, q, k: ask(b, q, k),
            rule.n_rows,
            None,
            rule.n_queries,  # type: ignore[arg-type]
            rule.n_keys,  # type: ignore[arg-type]
            device=str(self.device or "cpu"),
            BLOCK_SIZE=block_size,
        )

    def to_cu_seqlens(self) -> Tensor:
        """int32 `[N + 1]`: where each sequence begins and ends once absent slots are left out, as varlen kernels take.

        Of padding: the rows, in the order in which `mw.Layout` packs them. Of documents: the documents, row after row.

        Raises:
            MaskError: the rule is neither of the two, or a document is in several pieces.
        """
        if self.document_ids is not None:
            ids = self.document_ids.reshape(-1, self.document_ids.shape[-1])
            starts = torch.ones_like(ids, dtype=torch.bool)
            starts[:, 1:] = ids[:, 1:] != ids[:, :-1]
            if int(starts.sum()) != sum(len(row.unique()) for row in ids):
                raise MaskError("cu_seqlens needs each document in one piece, and one comes back after another")
            bounds = starts.flatten().nonzero().flatten()
            return torch.cat([bounds, bounds.new_tensor([ids.numel()])]).to(torch.int32)
        return Layout.from_mask(self._of_keys("cu_seqlens"), empty="zero").offsets

    def draw(
        self,
        tokens: Sequence[str] | None = None,
        path: str | Path | None = None,
        *,
        row: int = 0,
        title: str | None = None,
        font: str | None = None,
    ) -> Figure:
        """A picture of one row's mask with `tokens` on both axes; saved where `path` is given.

        Raises: as `maskwright.masks.draw`, which also draws several masks side by side.
        """
        return draw([Panel(title or self.legend, self, tokens, row)], path, font=font)

    def text(self, tokens: Sequence[str] | None = None, *, row: int = 0, title: str | None = None) -> str:
        """The same in characters, for a terminal."""
        return text(Panel(title or self.legend, self, tokens, row))

    def _of_keys(self, convention: str) -> Tensor:
        """bool `[B, K]`, True = takes part; only for rules about keys alone."""
        if self.uses_query or self.n_keys is None:
            raise MaskError(
                f"the rule '{self.legend}' depends on the query, which a {convention} cannot say; "
                "lower it with to_sdpa, to_additive or to_attn_mask, or lower its padding alone"
            )
        allowed = self.to_bool(n_queries=1)
        return allowed[:, 0] if allowed.ndim == 3 else allowed
