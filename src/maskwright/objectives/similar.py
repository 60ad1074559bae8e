"""Similar words in the place of [MASK] (MacBERT): the encoder is fed no artificial token."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maskwright.errors import InputError

# Ids of a unit -> as many ids that mean nearly the same, or None.
Similar = Callable[[tuple[int, ...], torch.Generator], Sequence[int] | None]


def thesaurus(tokenizer: Any, entries: Mapping[str, Sequence[str]]) -> Similar:
    """A `similar` from words and their near-synonyms; only those of as many tokens as the word can take its place."""
    table: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for word, others in entries.items():
        key = tuple(tokenizer.convert_tokens_to_ids(tokenizer.tokenize(word)))
        same = [tuple(tokenizer.convert_tokens_to_ids(tokenizer.tokenize(other))) for other in others]
        table.setdefault(key, []).extend(ids for ids in same if len(ids) == len(key) and ids != key)

    def similar(ids: tuple[int, ...], generator: torch.Generator) -> Sequence[int] | None:
        known = table.get(ids)
        return known[int(torch.randint(len(known), (), generator=generator))] if known else None

    return similar


def read_thesaurus(path: Path) -> dict[str, list[str]]:
    """A JSON file of one object, word -> list of near-synonyms.

    Raises:
        InputError: no such file, or anything else in it.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read as JSON: {error}", str(path)) from None
    if not isinstance(entries, dict) or not all(_is_words(others) for others in entries.values()):
        raise InputError('must hold one object: {"word": ["similar", "words"], ...}', str(path))
    return entries


def _is_words(others: Any) -> bool:
    return isinstance(others, list) and all(isinstance(word, str) for word in others)


def nearest(table: Tensor, allowed: Tensor, n: int = 10) -> Similar:
    """A `similar` for single tokens: one of the `n` nearest by cosine in an embedding table `[V, D]`.

    Args:
        allowed: int64, the ids that may be given back (`ordinary_ids`).
    """
    unit_rows = torch.nn.functional.normalize(table.detach().float(), dim=1)
    known: dict[int, Tensor] = {}

    def similar(ids: tuple[int, ...], generator: torch.Generator) -> Sequence[int] | None:
        if len(ids) > 1:
            return None
        (token,) = ids
        if token not in known:
            closeness = unit_rows[allowed] @ unit_rows[token]
            closeness[allowed == token] = -2
            known[token] = allowed[closeness.topk(min(n, len(allowed) - 1)).indices]
        return [int(known[token][torch.randint(len(known[token]), (), generator=generator)])]

    return similar
