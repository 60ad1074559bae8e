"""Causal models must not see what follows; bidirectional ones must, padded or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch

from maskwright.audit.compare import Check
from maskwright.audit.contents import two_endings
from maskwright.audit.rule import Rule, bidirectional, causal
from maskwright.audit.subject import Subject
from maskwright.audit.trial import MaskForm, Trial

LENGTH, CHANGED = 7, 5  # tokens from CHANGED on are other ones


def future(subject: Subject) -> Iterator[Check]:
    """Earlier tokens of a causal model do not change with later ones."""
    return _later(subject, "other later tokens", "agree")


def backward(subject: Subject) -> Iterator[Check]:
    """Earlier tokens of a bidirectional model do change with later ones."""
    return _later(subject, "other later tokens must be seen", "differ")


def _later(subject: Subject, name: str, must: Literal["agree", "differ"]) -> Iterator[Check]:
    row, changed = two_endings(subject, LENGTH, CHANGED)
    if torch.equal(row, changed):  # a vocabulary without a choice
        return
    layouts: list[tuple[int, MaskForm]] = [(0, "int"), (0, "none"), (3, "int")]
    for n_pads, mask in layouts:
        one, two = (Trial((ids,), n_pads=n_pads, mask=mask) for ids in (row, changed))
        told = f"{name}, {n_pads} padded slots, mask {mask}"
        yield Check(told, one, two, [(0, 0)], until=CHANGED, must=must)


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
