"""The three kinds of noise that a gap is measured for: [MASK], hidden tokens, dropped tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol, get_args

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from maskwright.core.sampling import sample_kept
from maskwright.errors import InputError
from maskwright.objectives.correction import expected_embeddings
from maskwright.objectives.corruption import Corruption, Shares
from maskwright.objectives.units import choose, token_units
from maskwright.objectives.words import ordinary_ids

NoiseKind = Literal["mlm", "mae", "droptoken"]


class Drawn(NamedTuple):
    """S draws of one text, all `[S, L]`.

    `visible` True = the encoder sees the token; `intact` True = and sees it as it is, not another in its place.
    """

    input_ids: Tensor
    visible: Tensor
    intact: Tensor


class Noise(Protocol):
    """What pretraining does to a text before the encoder sees it; never to special tokens."""

    def draw(self, ids: Tensor, rate: float, generator: torch.Generator) -> Drawn:
        """Ids `[S, L]`, S times the same text -> S independent draws.

        Raises:
            InputError: a rate that makes no sense for this noise.
        """

    def expected(self, table: Tensor, rate: float) -> Tensor | None:
        """The embeddings `[V, D]` that such draws see on average; None where every token that is seen is as it was."""


@dataclass(frozen=True)
class MaskedNoise:
    """Masked language modelling: chosen tokens become [MASK], stay, or become random ones."""

    corruption: Corruption
    special_ids: Tensor

    def draw(self, ids: Tensor, rate: float, generator: torch.Generator) -> Drawn:
        """See `Noise`."""
        corrupted, _ = replace(self.corruption, rate=rate)(ids, ~torch.isin(ids, self.special_ids), generator)
        return Drawn(corrupted, torch.ones_like(ids, dtype=torch.bool), corrupted == ids)

    def expected(self, table: Tensor, rate: float) -> Tensor | None:
        """See `Noise`."""
        keep = self.special_ids[self.special_ids < len(table)].to(table.device)
        return expected_embeddings(table, self.corruption.mask_id, rate, self.corruption.shares, keep)


@dataclass(frozen=True)
class HiddenNoise:
    """Masked autoencoding: a fixed share of a text's tokens is removed."""

    special_ids: Tensor

    def draw(self, ids: Tensor, rate: float, generator: torch.Generator) -> Drawn:
        """See `Noise`."""
        check_below_one(rate)
        hidden = choose(token_units(~torch.isin(ids, self.special_ids)), rate, generator, exact=True)
        return Drawn(ids, ~hidden, ~hidden)

    def expected(self, table: Tensor, rate: float) -> Tensor | None:
        """See `Noise`."""
        return None


@dataclass(frozen=True)
class DroppedNoise:
    """DropToken: each token is removed with a probability."""

    special_ids: Tensor

    def draw(self, ids: Tensor, rate: float, generator: torch.Generator) -> Drawn:
        """See `Noise`."""
        check_below_one(rate)
        everything = torch.ones_like(ids, dtype=torch.bool)
        kept = sample_kept(everything, ~torch.isin(ids, self.special_ids), rate, generator)
        return Drawn(ids, kept, kept)

    def expected(self, table: Tensor, rate: float) -> Tensor | None:
        """See `Noise`."""
        return None


def noise_of(kind: NoiseKind, tokenizer: PreTrainedTokenizerBase, shares: Shares) -> Noise:
    """The noise of that name for a tokenizer's special tokens.

    Raises:
        InputError: an unknown name, a tokenizer without [MASK] for "mlm", or shares that do not add up to 1.
    """
    if kind not in get_args(NoiseKind):
        raise InputError(f"must be one of {', '.join(get_args(NoiseKind))}, got '{kind}'", "noise")
    special = torch.tensor(sorted(tokenizer.all_special_ids), dtype=torch.long)
    if kind == "mae":
        return HiddenNoise(special)
    if kind == "droptoken":
        return DroppedNoise(special)
    if tokenizer.mask_token_id is None:
        raise InputError("has no [MASK] token: measure --noise mae or droptoken", "tokenizer")
    return MaskedNoise(Corruption(tokenizer.mask_token_id, ordinary_ids(tokenizer), shares=shares), special)


def check_below_one(rate: float) -> None:
    """Raises: InputError, unless 0 < rate < 1: some tokens are hidden, and some are left to be seen."""
    if not 0 < rate < 1:
        raise InputError(f"must be above 0 and below 1, got {rate}", "rates")
