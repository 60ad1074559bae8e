"""What padding is, how much of it there is, and on which side it stands must change no real token."""

from __future__ import annotations

from collections.abc import Iterator

from maskwright.audit.compare import Check
from maskwright.audit.subject import Subject
from maskwright.audit.trial import Trial

LENGTHS = (7, 5)


def amount(subject: Subject) -> Iterator[Check]:
    """A row alone and unpadded, against the same row with more and more padding."""
    first, second = subject.sequences(*LENGTHS)
    alone = Trial((first,))
    for n_pads in (1, 3, 11):
        padded = alone.but(n_pads=n_pads)
        yield Check(f"{n_pads} padded slots against none", alone, padded, [(0, 0)])
    both = Trial((first, second))
    yield Check("a short row beside a long one against alone", Trial((second,)), both, [(0, 1)])


def side(subject: Subject) -> Iterator[Check]:
    """Padding on the left against padding on the right."""
    trial = Trial(subject.sequences(*LENGTHS), n_pads=2)
    yield Check("padding on the left against on the right", trial, trial.but(side="left"), [(0, 0), (1, 1)])


def content(subject: Subject) -> Iterator[Check]:
    """Other ids in padded slots."""
    trial = Trial(subject.sequences(*LENGTHS), n_pads=3)
    other = int(subject.sequences(1, seed=5)[0][0])
    yield Check("another id in padded slots", trial, trial.but(fill=other), [(0, 0), (1, 1)])
