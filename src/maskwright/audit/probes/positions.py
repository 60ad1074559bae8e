"""Positions that are handed over must mean what the model's own mean."""

from __future__ import annotations

from collections.abc import Iterator

from maskwright.audit.compare import Check
from maskwright.audit.rule import Rule, takes_positions
from maskwright.audit.subject import Subject
from maskwright.audit.trial import Trial

LENGTHS = (7, 7)  # nothing is padded, for positions in padded slots are nobody's business
PAIRS = [(0, 0), (1, 1)]


def offset(subject: Subject) -> Iterator[Check]:
    """Positions counted from where the family starts, against none."""
    trial = Trial(subject.sequences(*LENGTHS))
    name = f"positions from {subject.first_position} on against none"
    yield Check(name, trial, trial.but(positions="of tokens"), PAIRS, cause="position-offset")


RULES = (
    Rule(
        "position-offset",
        "Positions handed over as the family counts them are the positions it takes by itself.",
        "huggingface/transformers 47525, UKPLab/sentence-transformers 3879: RoBERTa counted from 0",
        offset,
        takes_positions,
        may_refuse=True,
    ),
)
