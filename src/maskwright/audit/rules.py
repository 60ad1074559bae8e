"""The catalogue: every rule with its law, a public report of it being broken, and how to mend it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from maskwright.audit.compare import Check
from maskwright.audit.probes import direction, padding, rows
from maskwright.audit.subject import Subject

Applies = Callable[[Subject], str | None]


def always(subject: Subject) -> None:
    """Applies to every subject."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One law.

    Attributes:
        name: as reports and `--allow` call it.
        law: what must hold, in a sentence.
        report: a public report of a model or library that broke it.
        checks: subject -> the comparisons that test it.
        applies: subject -> None, or why the law does not bind it.
    """

    name: str
    law: str
    report: str
    checks: Callable[[Subject], Iterable[Check]]
    applies: Applies = always


def _bidirectional(subject: Subject) -> str | None:
    return None if subject.direction == "bidirectional" else f"it is meant to be {subject.direction or 'unknown'}"


def _causal(subject: Subject) -> str | None:
    return None if subject.direction == "causal" else f"it is meant to be {subject.direction or 'unknown'}"


RULES = {
    rule.name: rule
    for rule in (
        Rule(
            "padding-amount",
            "How much padding a row has changes none of its tokens.",
            "IndicBERT issue 20: real tokens change tenfold with padding; huggingface/transformers 17463",
            padding.amount,
        ),
        Rule(
            "padding-content",
            "The id that stands in padded slots changes no real token.",
            "MobileBERT in transformers 5.23: the pad id reaches the last real token",
            padding.content,
        ),
        Rule(
            "neighbours",
            "The other rows of a batch change nothing.",
            "ReProver issue 34: four batch sizes, four rankings",
            rows.neighbours,
        ),
        Rule("row-order", "The order of the rows changes nothing.", "ReProver issue 34", rows.order),
        Rule(
            "repeatable",
            "The same call in evaluation mode gives the same numbers.",
            "pytorch/pytorch 124464: functional dropout left on",
            rows.repeated,
        ),
        Rule(
            "future",
            "A causal model's tokens do not change with what follows them.",
            "huggingface/transformers 48745: several families see the future",
            direction.future,
            _causal,
        ),
        Rule(
            "backward-attention",
            "A bidirectional model's tokens do change with what follows them, padded or not.",
            "huggingface/transformers 42820: an encoder turns causal when nothing is padded",
            direction.backward,
            _bidirectional,
        ),
    )
}
"""Every rule by its name."""
