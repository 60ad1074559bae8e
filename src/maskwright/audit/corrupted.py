"""What a masked-LM collator makes of examples: drawn once, laid beside the examples it was given."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maskwright.audit.function import Function
from maskwright.errors import InputError

IGNORED = -100
N_BATCHES = 40
ROWS = 16  # in a batch
LONGEST = 31  # words of an example
SHORT = 13
N_WORDS = 97  # that examples are made of
_MARKS = ("##", "▁", "Ġ", "</w>")


@dataclass(frozen=True, eq=False)
class Batch:
    """One batch, all `[B, L]`.

    Attributes:
        original: int64, the examples' ids as they stand in `inputs`; the pad id elsewhere.
        keep: bool, True = a token of an example.
        special: bool, True = one of the tokenizer's special tokens.
        words: int64, the word that a token belongs to, -1 = none or not known.
        inputs, labels: int64, as the collator gave them; labels -100 = no target.
        attention_mask: the same, or None.
        n_cut: tokens of the examples that found no slot.
    """

    original: Tensor
    keep: Tensor
    special: Tensor
    words: Tensor
    inputs: Tensor
    labels: Tensor
    attention_mask: Tensor | None
    n_cut: int

    @property
    def is_target(self) -> Tensor:
        """bool `[B, L]`."""
        return self.labels != IGNORED

    @property
    def ordinary(self) -> Tensor:
        """bool `[B, L]`, True = may become a target."""
        return self.keep & ~self.special


@dataclass(frozen=True, eq=False)
class Example:
    """Features as a tokenizer gives them, and the word of each token (-1 = none)."""

    features: dict[str, Any]
    words: list[int]


class Examples:
    """Texts of random words from a tokenizer's vocabulary, encoded by it.

    Args:
        tokenizer: a transformers tokenizer.
        with_offsets: give `offset_mapping` too, which transformers' whole-word masking asks for.

    Raises:
        InputError: no ordinary word can be made from its vocabulary.
    """

    def __init__(self, tokenizer: Any, *, with_offsets: bool = False) -> None:
        self.tokenizer, self.with_offsets = tokenizer, with_offsets and tokenizer.is_fast
        self.random = random.Random(0)
        self.words = self._words()
        if not self.words:
            raise InputError("no ordinary word can be made from its vocabulary", "tokenizer")

    def __call__(self, n: int, shortest: int = 1, longest: int = LONGEST) -> list[Example]:
        """Examples of so many words."""
        texts = [" ".join(self.random.choices(self.words, k=self.random.randint(shortest, longest))) for _ in range(n)]
        encoded = self.tokenizer(texts, return_offsets_mapping=self.with_offsets)
        found = []
        for row in range(n):
            features = {name: values[row] for name, values in encoded.items()}
            words = encoded.word_ids(row) if self.tokenizer.is_fast else [None] * len(features["input_ids"])
            found.append(Example(features, [-1 if word is None else word for word in words]))
        return found

    def _words(self) -> list[str]:
        special = set(self.tokenizer.all_special_ids)
        ordinary = [i for i in range(len(self.tokenizer)) if i not in special]
        pieces = self.tokenizer.convert_ids_to_tokens(self.random.sample(ordinary, min(len(ordinary), 4 * N_WORDS)))
        for mark in _MARKS:
            pieces = [piece.replace(mark, "") for piece in pieces if piece is not None]
        joined = ["".join(self.random.choices(pieces, k=2 + number % 2)) for number in range(N_WORDS)] if pieces else []
        found = []
        for word in [*joined, *pieces]:
            ids = self.tokenizer(word, add_special_tokens=False)["input_ids"]
            if word.strip() == word and 0 < len(ids) <= 5 and not special & set(ids):
                found.append(word)
        return found[:N_WORDS]


def drawn(function: Function, beside: int = 0) -> list[Batch]:
    """`N_BATCHES` batches of `ROWS` examples, drawn once for all rules.

    Args:
        function: a collator.
        beside: words of an example that stands beside shorter ones in every batch, 0 = none.
    """

    def draw() -> list[Batch]:
        longest = SHORT if beside else LONGEST
        with seeded(1):
            examples = examples_of(function)
            long = examples(1, beside, beside) if beside and pads(function) else []
            batches = islice(given(function, longest=longest), N_BATCHES)
            return [collated(function, rows + long) for rows in batches]

    found: list[Batch] = function.once(f"drawn beside {beside}", draw)
    return found


def examples_of(function: Function) -> Examples:
    """Examples for a collator, always the same."""
    offsets = wants_offsets(function.call)
    found: Examples = function.once("examples", lambda: Examples(function.tokenizer, with_offsets=offsets))
    return found


def pads(function: Function) -> bool:
    """Whether a collator can do with rows of different lengths at all."""

    def tried() -> bool:
        try:
            with seeded(1):
                collated(function, examples_of(function)(2, 1, 1) + examples_of(function)(1, 7, 7))
        except Exception:  # the rule about rows of different lengths shows what it raises
            return False
        return True

    found: bool = function.once("pads", tried)
    return found


def given(function: Function, *, longest: int = LONGEST, shortest: int = 1) -> Iterator[list[Example]]:
    """Batches of `ROWS` examples without end: of different lengths, or of one where the collator does not pad."""
    examples = examples_of(function)
    by_length: dict[int, list[Example]] = {}
    while True:
        if pads(function):
            yield examples(ROWS, shortest, longest)
            continue
        for example in examples(4 * ROWS, SHORT, SHORT):
            rows = by_length.setdefault(len(example.words), [])
            rows.append(example)
            if len(rows) == ROWS:
                yield by_length.pop(len(example.words))


def collated(function: Function, examples: Sequence[Example]) -> Batch:
    """What the collator makes of the examples; of rows that it cuts, the first tokens are taken to be left."""
    given = [{name: list(value) for name, value in example.features.items()} for example in examples]
    batch = function(given)
    inputs, labels = batch["input_ids"], batch["labels"]
    pad_id = function.tokenizer.pad_token_id or 0
    width = inputs.shape[1]
    rows = [torch.tensor(example.features["input_ids"])[:width] for example in examples]
    n_cut = sum(len(example.words) for example in examples) - sum(map(len, rows))
    sides = []
    for starts in ([0] * len(rows), [width - len(row) for row in rows]):
        original, words = torch.full_like(inputs, pad_id), torch.full_like(inputs, -1)
        keep = torch.zeros(inputs.shape, dtype=torch.bool)
        for number, (row, start) in enumerate(zip(rows, starts, strict=True)):
            slots = slice(start, start + len(row))
            original[number, slots], keep[number, slots] = row, True
            words[number, slots] = torch.tensor(examples[number].words[:width])
        sides.append((original, keep, words))
    # On which side it pads is seen from the ids, most of which stay as they are; what it says itself may be wrong.
    original, keep, words = max(sides, key=lambda side: int((side[0] == inputs).sum()))
    special = torch.isin(original, torch.tensor(function.tokenizer.all_special_ids)) & keep
    return Batch(original, keep, special, words, inputs, labels, batch.get("attention_mask"), n_cut)


def wants_offsets(collator: Any) -> bool:
    """Whether it is transformers' whole-word masking, or built like it."""
    return bool(getattr(collator, "whole_word_mask", False))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The global streams of torch, NumPy and Python begin anew, and go on afterwards as if nothing had been drawn."""
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
