"""Masked language modelling's corruption: which tokens are targets, and what stands in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from maskwright.data.collate import PaddingCollator
from maskwright.encoders.droptoken import IGNORED
from maskwright.errors import InputError
from maskwright.objectives.similar import Similar
from maskwright.objectives.units import Unit, choose, units_of
from maskwright.objectives.words import Segment, Words, ordinary_ids


class Shares(NamedTuple):
    """What becomes of a chosen unit: [MASK] (or a similar word), itself, or random tokens. They add up to 1."""

    mask: float = 0.8
    keep: float = 0.1
    random: float = 0.1


BERT_SHARES = Shares()


@dataclass(frozen=True)
class Corruption:
    """The parts of masked language modelling that do not change from batch to batch.

    Units: `rate` is the expected share of maskable tokens that become targets; `shares` add up to 1.

    Attributes:
        mask_id: the id of [MASK].
        random_ids: int64, the ids that random replacements are drawn from.
        rate, shares: see above.
        exact: the number of targets in a row is fixed, not drawn (`maskwright.objectives.units.choose`).
        unit: what is chosen, and replaced, as one.
        similar: ids of a unit -> as many ids that mean nearly the same, or None; takes [MASK]'s share (MacBERT), with
            random tokens where it knows none.
    """

    mask_id: int
    random_ids: Tensor
    rate: float = 0.15
    shares: Shares = BERT_SHARES
    exact: bool = False
    unit: Unit = "token"
    similar: Similar | None = None

    def __post_init__(self) -> None:
        if min(self.shares) < 0 or abs(sum(self.shares) - 1) > 1e-6:
            raise InputError(f"must be non-negative and add up to 1, got {tuple(self.shares)}", "shares")
        if not 0 < self.rate <= 1:
            raise InputError(f"must be above 0 and at most 1, got {self.rate}", "rate")
        if self.shares.random > 0 and len(self.random_ids) == 0:
            raise InputError("the vocabulary holds no ordinary token to draw from", "random_ids")

    def __call__(
        self, input_ids: Tensor, may_mask: Tensor, generator: torch.Generator, word_ids: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Ids `[B, L]` -> (corrupted ids `[B, L]`, labels `[B, L]`: the original id of targets, -100 elsewhere).

        Args:
            may_mask: bool `[B, L]`, True = an ordinary token; special tokens and padding are False.
            word_ids: int64 `[B, L]`, -1 = none; needed unless the unit is a token.
        """
        units = units_of(self.unit, may_mask, word_ids, generator)
        chosen = choose(units, self.rate, generator, exact=self.exact)
        labels = torch.where(chosen, input_ids, IGNORED)
        fate = torch.rand(units.shape, generator=generator, dtype=torch.float64).gather(1, units.clamp(min=0))
        is_mask = chosen & (fate < self.shares.mask)
        is_random = chosen & (fate >= self.shares.mask + self.shares.keep)
        corrupted = input_ids.clone()
        if self.similar is None:
            corrupted[is_mask] = self.mask_id
        else:
            is_random |= is_mask & ~_put_similar(self.similar, corrupted, input_ids, units, is_mask, generator)
        if len(self.random_ids):
            drawn = torch.randint(len(self.random_ids), input_ids.shape, generator=generator)
            corrupted = torch.where(is_random, self.random_ids[drawn], corrupted)
        return corrupted, labels


def _put_similar(
    similar: Similar, corrupted: Tensor, input_ids: Tensor, units: Tensor, where: Tensor, generator: torch.Generator
) -> Tensor:
    """Write similar words into `corrupted`; bool `[B, L]`, True = one was known."""
    done = torch.zeros_like(where)
    for row in range(len(where)):
        for unit in units[row][where[row]].unique():
            slots = (units[row] == unit).nonzero().squeeze(1)
            ids = tuple(input_ids[row, slots].tolist())
            other = similar(ids, generator)
            if other is not None and len(other) == len(ids):
                corrupted[row, slots] = torch.tensor(other, dtype=corrupted.dtype)
                done[row, slots] = True
    return done


class MaskedCorruption:
    """A data collator for masked language modelling: pads examples, chooses targets, corrupts them.

    Ragged batches, whole words of any tokenizer (and of Chinese, by a segmenter), spans and n-grams. Special and unused
    tokens are never targets, and never drawn as random replacements. Every rank and every data-loader worker draws from
    a generator of its own.

    Args:
        tokenizer: must have a [MASK] token.
        rate: expected share of ordinary tokens that become targets.
        shares: (mask, keep, random); (1, 0, 0) is the simplified masked language model.
        unit: "token", "whole_word", "span" or "ngram".
        exact: fix the number of targets in a row instead of drawing it.
        segment: Chinese word segmenter, as `maskwright.objectives.words.chinese_words()` gives.
        similar: replaces by similar words instead of [MASK] (`maskwright.objectives.similar`).
        seed, rank: fix the draws.
        pad_to_multiple_of: as in transformers' collators.

    Raises:
        InputError: a tokenizer without [MASK], or rates and shares that make no sense.

    Example:
        >>> from transformers import BertTokenizer
        >>> tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
        >>> tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(tokens)})
        >>> collate = MaskedCorruption(tokenizer, rate=0.5, shares=(1.0, 0.0, 0.0), exact=True)
        >>> batch = collate([{"input_ids": [2, 5, 5, 3]}, {"input_ids": [2, 5, 3]}])
        >>> (batch["labels"] != -100).sum(1)
        tensor([1, 1])
        >>> batch["attention_mask"][1]
        tensor([1, 1, 1, 0])

    Source: Devlin et al. 2019, BERT; Joshi et al. 2020, SpanBERT; Cui et al. 2020, MacBERT.
    """

    def __init__(
        self,
        tokenizer: Any,
        rate: float = 0.15,
        *,
        shares: Sequence[float] = BERT_SHARES,
        unit: Unit = "token",
        exact: bool = False,
        segment: Segment | None = None,
        similar: Similar | None = None,
        seed: int = 0,
        rank: int = 0,
        pad_to_multiple_of: int | None = None,
    ) -> None:
        if tokenizer.mask_token_id is None:
            raise InputError("has no [MASK] token: add one, and train its embedding", "tokenizer")
        self._pad = PaddingCollator(tokenizer, pad_to_multiple_of)
        self.corruption = Corruption(
            tokenizer.mask_token_id, ordinary_ids(tokenizer), rate, Shares(*shares), exact, unit, similar
        )
        self.words = None if unit == "token" else Words(tokenizer, segment)
        self._special = torch.tensor(sorted(tokenizer.all_special_ids))
        self._seeds = (seed, rank)
        self._generator: tuple[int | None, torch.Generator] | None = None

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """Examples with `input_ids` (and `word_ids`) -> input_ids, attention_mask and labels, `[B, L]`."""
        rows = [{name: value for name, value in example.items() if name != "labels"} for example in examples]
        if self.words is not None:
            rows = [row if "word_ids" in row else row | {"word_ids": self.words(row["input_ids"])} for row in rows]
        batch = self._pad(rows)
        ids, words = batch["input_ids"], batch.pop("word_ids", None)
        may_mask = batch["attention_mask"].bool() & ~torch.isin(ids, self._special)
        batch["input_ids"], batch["labels"] = self.corruption(ids, may_mask, self.generator, words)
        return batch

    @property
    def generator(self) -> torch.Generator:
        """The generator of this process: one of its own for every rank and data-loader worker."""
        worker = get_worker_info()
        key = None if worker is None else worker.seed
        if self._generator is None or self._generator[0] != key:
            self._generator = (key, stream(*self._seeds, *(() if worker is None else (worker.id, worker.seed))))
        return self._generator[1]

    def state_dict(self) -> dict[str, Tensor]:
        """What a resumed run needs to draw what it would have drawn (of the main process)."""
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a `state_dict`."""
        self.generator.set_state(state["generator"])


def stream(*numbers: int) -> torch.Generator:
    """A CPU generator whose draws follow from the numbers alone, and are unrelated for different ones."""
    import numpy as np

    (seed,) = np.random.SeedSequence([number & (2**63 - 1) for number in numbers]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(seed))
