"""A row's result must not depend on the rows beside it, nor on its place among them."""

from __future__ import annotations

from collections.abc import Iterator

from maskwright.audit.compare import Check
from maskwright.audit.rule import Rule
from maskwright.audit.subject import Subject
from maskwright.audit.trial import Trial

LENGTHS = (7, 5, 3)


def neighbours(subject: Subject) -> Iterator[Check]:
    """The same row beside others, of the same lengths."""
    ours, others = subject.sequences(*LENGTHS), subject.sequences(*LENGTHS, seed=3)
    one, two = Trial(ours), Trial((ours[0], *others[1:]))
    yield Check("other neighbours in the batch", one, two, [(0, 0)])


def order(subject: Subject) -> Iterator[Check]:
    """The batch in another order."""
    trial = Trial(subject.sequences(*LENGTHS))
    turned = trial.but(order=((2,), (0,), (1,)))
    yield Check("rows in another order", trial, turned, [(i, i) for i in range(3)])


def equal_lengths(subject: Subject) -> Iterator[Check]:
    """A row alone against beside rows of its length: nothing is padded."""
    ours = subject.sequences(*[LENGTHS[0]] * 3)
    for mask in ("int", "none"):
        alone = Trial(ours[:1], mask=mask)
        name = f"alone against beside two of its length, {'a' if mask == 'int' else 'no'} mask"
        yield Check(name, alone, alone.but(sequences=ours), [(0, 0)])


def repeated(subject: Subject) -> Iterator[Check]:
    """The very same call twice."""
    trial = Trial(subject.sequences(*LENGTHS))
    yield Check("the same call twice", trial, trial, [(i, i) for i in range(3)])


RULES = (
    Rule(
        "neighbours",
        "The other rows of a batch change nothing.",
        "ReProver issue 34: four batch sizes, four rankings",
        neighbours,
    ),
    Rule(
        "repeatable",
        "The same call in evaluation mode gives the same numbers.",
        "pytorch/pytorch 124464: functional dropout left on",
        repeated,
    ),
    Rule(
        "batch-size",
        "How many rows there are changes nothing, where none is padded.",
        "ReProver issue 34: four batch sizes, four rankings",
        equal_lengths,
    ),
    Rule("row-order", "The order of the rows changes nothing.", "ReProver issue 34", order),
)
