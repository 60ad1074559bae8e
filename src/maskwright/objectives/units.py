"""What is masked together: tokens, whole words, spans of words; and which of them, at a rate or in exact number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from maskwright.errors import InputError

Unit = Literal["token", "whole_word", "span", "ngram"]

# SpanBERT: lengths in words from a geometric distribution with p = 0.2, cut at 10. MacBERT: 1 to 4 words.
SPAN_LENGTHS = tuple(0.2 * 0.8**n for n in range(10))
NGRAM_LENGTHS = (0.4, 0.3, 0.2, 0.1)


def token_units(may_mask: Tensor) -> Tensor:
    """int64 `[B, L]`: every token that may be masked (bool `[B, L]`) by itself, numbered along the row; else -1."""
    return torch.where(may_mask, may_mask.long().cumsum(1) - 1, -1)


def word_units(may_mask: Tensor, word_ids: Tensor) -> Tensor:
    """int64 `[B, L]`: tokens of one word together, as far as they may be masked and stand side by side; else -1.

    Args:
        word_ids: int64 `[B, L]`; equal numbers side by side are one word, -1 is none.
    """
    previous = torch.nn.functional.pad(word_ids, (1, 0), value=-2)[:, :-1]
    was_maskable = torch.nn.functional.pad(may_mask, (1, 0), value=False)[:, :-1]
    begins = may_mask & ((word_ids != previous) | ~was_maskable)
    return torch.where(may_mask, begins.long().cumsum(1) - 1, -1)


def span_units(words: Tensor, lengths: Sequence[float], generator: torch.Generator) -> Tensor:
    """int64 `[B, L]`: the row's words cut into spans of random lengths; spans end where words may not be masked.

    Args:
        words: units `[B, L]` as `word_units` gives them.
        lengths: probabilities of spans of 1, 2, 3, ... words.

    Source: Joshi et al. 2020, SpanBERT; Cui et al. 2020, MacBERT (n-grams).
    """
    n_words = int(words.max()) + 1 if words.numel() else 0
    if n_words <= 0:
        return words
    shares = torch.tensor(lengths, dtype=torch.float64).expand(words.shape[0], -1)
    drawn = torch.multinomial(shares, n_words, replacement=True, generator=generator) + 1
    ends = drawn.cumsum(1)  # span i of a row holds the words below ends[i] that no earlier span holds
    spans = torch.searchsorted(ends, words.clamp(min=0), right=True)
    return word_units(words >= 0, torch.where(words >= 0, spans, -1))


def units_of(unit: Unit, may_mask: Tensor, word_ids: Tensor | None, generator: torch.Generator) -> Tensor:
    """int64 `[B, L]`: what is masked together, by name.

    Raises:
        InputError: the unit is made of words and no word ids are given.
    """
    if unit == "token":
        return token_units(may_mask)
    if word_ids is None:
        raise InputError(f"masking by {unit} needs word_ids", "word_ids")
    words = word_units(may_mask, word_ids)
    if unit == "whole_word":
        return words
    return span_units(words, SPAN_LENGTHS if unit == "span" else NGRAM_LENGTHS, generator)


def choose(units: Tensor, rate: float, generator: torch.Generator, *, exact: bool) -> Tensor:
    """bool `[B, L]`, True = chosen; whole units only.

    Each unit is chosen with probability `rate`, independently. With `exact`, a row of n maskable tokens has
    `max(1, round(rate * n))` chosen: exactly where units are single tokens; else whole units in random order, the last
    of them with the probability that makes the expected number exact.

    Raises:
        InputError: a rate outside (0, 1].
    """
    if not 0 < rate <= 1:
        raise InputError(f"must be above 0 and at most 1, got {rate}", "rate")
    maskable = units >= 0
    draws = torch.rand(units.shape, generator=generator, dtype=torch.float64)
    by_unit = units.clamp(min=0)
    if not exact:
        return maskable & (draws < rate).gather(1, by_unit)
    sizes = torch.zeros(units.shape, dtype=torch.float64).scatter_add_(1, by_unit, maskable.double())
    n_tokens = maskable.sum(1, keepdim=True)
    budget = (n_tokens * rate).round().clamp(min=1).minimum(n_tokens.double())
    order = draws.masked_fill(sizes == 0, 2.0).argsort(1)
    size = sizes.gather(1, order)
    before = size.cumsum(1) - size
    last = torch.rand(units.shape, generator=generator, dtype=torch.float64)
    taken = (size > 0) & (before + size * last < budget)
    return maskable & torch.zeros_like(maskable).scatter(1, order, taken).gather(1, by_unit)
