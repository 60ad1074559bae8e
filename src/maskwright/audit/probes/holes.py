"""Masked slots in the middle of a row are as masked slots anywhere: nothing, once positions count tokens."""

from __future__ import annotations

from collections.abc import Iterator

from maskwright.audit.compare import APART32, Check
from maskwright.audit.contents import two_contents
from maskwright.audit.rule import Rule, takes_positions
from maskwright.audit.subject import Subject
from maskwright.audit.trial import Trial

LENGTHS = (7, 7)  # no padded slots but those of the holes
PAIRS = [(0, 0), (1, 1)]
AT, WIDTH, WIDE = 5, 2, 11


def content(subject: Subject) -> Iterator[Check]:
    """Other ids in holes."""
    ones, others = two_contents(subject, Trial(subject.sequences(*LENGTHS), hole=(AT, WIDTH)))
    yield Check(f"another token in a hole of {WIDTH} slots", ones, others, PAIRS)


def can_be_removed(subject: Subject) -> str | None:
    """Whether the model takes positions, and nothing that stands in holes matters to it."""
    if (reason := takes_positions(subject)) is not None:
        return reason
    try:
        leaks = any(check.measure(subject).effect > APART32 for check in content(subject))
    except Exception:  # the check itself will say so
        return None
    return "what stands in holes matters, see holes" if leaks else None


def removed(subject: Subject) -> Iterator[Check]:
    """A row with a hole against the row without those slots."""
    whole = Trial(subject.sequences(*LENGTHS), positions="of tokens")
    for n in (WIDTH, WIDE):
        name = f"a hole of {n} slots against none"
        yield Check(name, whole, whole.but(hole=(AT, n)), PAIRS, outputs="tokens", cause="slots-counted")


RULES = (
    Rule(
        "holes",
        "What stands in masked slots in the middle of a row changes no token.",
        "huggingface/transformers 42820: masks that are skipped unless padding stands at the end",
        content,
        may_refuse=True,
    ),
    Rule(
        "holes-removed",
        "Masked slots in the middle of a row may be taken out, once positions count tokens.",
        "transformers 5.23: T5, MPNet, DeBERTa and RoFormer measure distances in slots",
        removed,
        can_be_removed,
        may_refuse=True,
    ),
)
