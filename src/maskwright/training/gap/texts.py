"""The texts of a measurement: drawn from a corpus, different from one another, long enough to be worth noise."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from transformers import PreTrainedTokenizerBase

from maskwright.data.corpus import Corpus, Report
from maskwright.errors import InputError
from maskwright.training.embed import tokenize

log = logging.getLogger(__name__)

N_SEARCHED, FEW_TEXTS = 100_000, 20


@dataclass(frozen=True, slots=True)
class Texts:
    """`ids` of each text, special tokens included; `n_truncated` were cut to fit, `n_too_short` were left out."""

    ids: list[list[int]]
    n_truncated: int
    n_too_short: int


def read_texts(
    corpus: Corpus, tokenizer: PreTrainedTokenizerBase, *, n_texts: int, max_length: int, seed: int
) -> Texts:
    """At most `n_texts` different documents of the first 100,000, drawn at random; bad lines are named in warnings.

    Args:
        corpus: where they come from.
        tokenizer: adds the special tokens.
        n_texts: 2 or more.
        max_length: tokens of a text at most, special ones included.
        seed: of the choice.

    Raises:
        InputError: a file that cannot be read, numbers that are too small, or fewer than two texts of two ordinary
            tokens, without which there is nothing to compare.
    """
    if n_texts < 2:
        raise InputError(f"an interval over texts needs two at least, got {n_texts}", "texts")
    if max_length < tokenizer.num_special_tokens_to_add() + 2:
        raise InputError(f"{max_length} leaves no room for two tokens beside the special ones", "max_length")
    report = Report()
    found = sample(islice(corpus.documents(report), N_SEARCHED), n_texts, seed)
    for where, reason in report.bad:
        log.warning("%s: %s (left out)", where, reason)
    if len(found) < 2:
        raise InputError(f"two different documents are needed at least, found {len(found)}", "texts")
    tokens = tokenize(tokenizer, found, max_length)
    rows = [tokens.ids[end - n : end].tolist() for end, n in zip(tokens.ends, tokens.lengths, strict=True)]
    special = set(tokenizer.all_special_ids)
    ids = [row for row in rows if sum(token not in special for token in row) >= 2]
    if len(ids) < 2:
        raise InputError("two texts of two ordinary tokens are needed at least", "texts")
    if len(ids) < FEW_TEXTS:
        log.warning("only %d texts: intervals over so few are too narrow", len(ids))
    return Texts(ids, tokens.n_truncated, len(rows) - len(ids))


def sample(texts: Iterable[str], size: int, seed: int) -> list[str]:
    """A random sample of the different ones among `texts`, without holding them all.

    Example:
        >>> sorted(sample(["a", "b", "a"], size=5, seed=0))
        ['a', 'b']

    Source: Vitter 1985, Random sampling with a reservoir.
    """
    rng = random.Random(seed)
    kept: list[str] = []
    seen: set[int] = set()
    for text in texts:
        if hash(text) in seen:
            continue
        seen.add(hash(text))
        if len(kept) < size:
            kept.append(text)
        elif (place := rng.randrange(len(seen))) < size:
            kept[place] = text
    return kept
