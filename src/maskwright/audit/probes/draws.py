"""How a masked-LM collator draws: anew in every call, differently in every worker, and again from the same seed."""

from __future__ import annotations

import copy
import multiprocessing
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from maskwright.audit.compare import Difference, Measure
from maskwright.audit.corrupted import IGNORED, ROWS, Example, collated, examples_of, seeded
from maskwright.audit.function import Function, amount
from maskwright.audit.rule import Rule


def draws(function: Function) -> Iterator[Measure]:
    """Each call draws anew."""
    yield Measure("other targets in another call", _same_again, "draws-repeat")


def seeds(function: Function) -> Iterator[Measure]:
    """Equal seeds repeat."""
    yield Measure("equal seeds give equal targets", _unrepeatable, "seed-ignored")


def workers(function: Function) -> Iterator[Measure]:
    """Workers of a data loader draw differently."""
    yield Measure("two workers of a data loader draw other targets", _alike, "workers-alike")


def _rows(function: Function) -> list[Example]:
    """Examples of one length, for collators that can do with no others."""
    rows = examples_of(function)(ROWS, 29, 29)
    return [row for row in rows if len(row.words) == len(rows[0].words)]


def _same_again(function: Function) -> Difference:
    rows = _rows(function)
    with seeded(3):
        first, *others = [collated(function, rows) for _ in range(5)]
    return amount(float(any(torch.equal(first.labels, other.labels) for other in others)), int(first.is_target.any()))


def _unrepeatable(function: Function) -> Difference:
    rows = _rows(function)
    found = []
    for _ in range(2):
        fresh = Function(copy.deepcopy(function.call), "collator", function.name, function.tokenizer)
        with seeded(5):
            found.append(collated(fresh, rows))
    one, two = found
    return amount(float(not torch.equal(one.labels, two.labels) or not torch.equal(one.inputs, two.inputs)))


def _alike(function: Function) -> Difference:
    rows = _rows(function)
    given = [{name: list(value) for name, value in row.features.items()} for row in rows]
    context = "fork" if "fork" in multiprocessing.get_all_start_methods() else None
    fresh = copy.deepcopy(function.call)
    with seeded(7), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about forks and about the number of cores
        rows_twice: Any = given * 2  # a list is data enough
        loader: DataLoader[Any] = DataLoader(
            rows_twice, len(given), collate_fn=fresh, num_workers=2, multiprocessing_context=context, timeout=60
        )
        one, two = [torch.as_tensor(batch["labels"]) for batch in loader]
    return amount(float(torch.equal(one, two)), int((one != IGNORED).any()))


RULES = (
    Rule(
        "collator-draws",
        "Every call draws anew.",
        "RoBERTa: static against dynamic masking; a seed that is set in every call",
        draws,
        kind="collator",
    ),
    Rule(
        "collator-seeds",
        "Equal seeds of torch, NumPy and Python, or the collator's own, repeat its draws.",
        "numpy.random.default_rng() in a collator",
        seeds,
        kind="collator",
        may_refuse=True,
    ),
    Rule(
        "collator-workers",
        "Two workers of a data loader draw differently.",
        "pytorch/pytorch 5059: every worker draws the same numbers",
        workers,
        kind="collator",
        may_refuse=True,
    ),
)
