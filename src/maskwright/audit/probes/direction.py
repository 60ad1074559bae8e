"""Causal models must not see what follows; bidirectional ones must, padded or not."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from maskwright.audit.compare import Check
from maskwright.audit.rule import Rule, bidirectional, causal
from maskwright.audit.subject import Subject
from maskwright.audit.trial import Trial

LENGTH, CHANGED = 7, 5  # tokens from CHANGED on are other ones


def _pairs(subject: Subject) -> tuple[Trial, Trial]:
    (row,) = subject.sequences(LENGTH)
    (other,) = subject.sequences(LENGTH, seed=1)
    changed = torch.cat([row[:CHANGED], torch.where(other == row, row.roll(1), other)[CHANGED:]])
    return Trial((row,)), Trial((changed,))


def future(subject: Subject) -> Iterator[Check]:
    """Earlier tokens of a causal model do not change with later ones."""
    one, two = _pairs(subject)
    if torch.equal(one.sequences[0], two.sequences[0]):  # a vocabulary without a choice
        return
    for n_pads in (0, 3):
        for given in ("int", "none") if n_pads == 0 else ("int",):
            a, b = one.but(n_pads=n_pads, mask=given), two.but(n_pads=n_pads, mask=given)
            name = f"other later tokens, {n_pads} padded slots, mask {given}"
            yield Check(name, a, b, [(0, 0)], until=CHANGED)


def backward(subject: Subject) -> Iterator[Check]:
    """Earlier tokens of a bidirectional model do change with later ones."""
    one, two = _pairs(subject)
    if torch.equal(one.sequences[0], two.sequences[0]):  # a vocabulary without a choice
        return
    for n_pads in (0, 3):
        for given in ("int", "none") if n_pads == 0 else ("int",):
            a, b = one.but(n_pads=n_pads, mask=given), two.but(n_pads=n_pads, mask=given)
            name = f"other later tokens must be seen, {n_pads} padded slots, mask {given}"
            yield Check(name, a, b, [(0, 0)], until=CHANGED, must="differ")


RULES = (
    Rule(
        "future",
        "A causal model's tokens do not change with what follows them.",
        "huggingface/transformers 48745: several families see the future",
        future,
        causal,
    ),
    Rule(
        "backward-attention",
        "A bidirectional model's tokens do change with what follows them, padded or not.",
        "huggingface/transformers 42820: an encoder turns causal when nothing is padded",
        backward,
        bidirectional,
    ),
)
