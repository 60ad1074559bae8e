"""What padding is, how much of it there is, and on which side it stands must change no real token."""

from __future__ import annotations

from collections.abc import Iterator

from maskwright.audit.compare import Check
from maskwright.audit.configured import window_of
from maskwright.audit.rule import Rule, has_embeddings
from maskwright.audit.subject import Subject
from maskwright.audit.trial import Positions, Trial

LENGTHS = (7, 5)
BEYOND = 5  # padded slots more than a window of attention is wide


def amount(subject: Subject) -> Iterator[Check]:
    """A row alone and unpadded, against the same row with more and more padding."""
    first, second = subject.sequences(*_lengths(subject))
    alone = Trial((first,))
    room = subject.longest - len(first)
    amounts = {n for n in (1, 3, 11, window_of(subject.config) + BEYOND) if n <= room}
    for n_pads in sorted(amounts):
        yield Check(f"{n_pads} padded slots against none", alone, alone.but(n_pads=n_pads), [(0, 0)])
    both = Trial((first, second))
    yield Check("a short row beside a long one against alone", Trial((second,)), both, [(0, 1)])


def side(subject: Subject) -> Iterator[Check]:
    """Padding on the left against padding on the right; positions are handed over where the model takes them."""
    given: Positions = "of tokens" if subject.takes("position_ids") else "default"
    trial = Trial(subject.sequences(*_lengths(subject)), n_pads=_room(subject, 2), positions=given)
    left = trial.but(side="left")
    yield Check("padding on the left against on the right", trial, left, [(0, 0), (1, 1)], outputs="tokens")


def content(subject: Subject) -> Iterator[Check]:
    """Other ids in padded slots."""
    trial = Trial(subject.sequences(*_lengths(subject)), n_pads=_room(subject, 3))
    other = int(subject.sequences(1, seed=5)[0][0])
    yield Check("another id in padded slots", trial, trial.but(fill=other), [(0, 0), (1, 1)])


def values(subject: Subject) -> Iterator[Check]:
    """Large numbers in the embeddings of padded slots."""
    zeros = _with_embeddings(subject)
    yield Check("embeddings of 1e4 in padded slots against 0", zeros, zeros.but(pad_value=1e4), [(0, 0), (1, 1)])


def not_a_number(subject: Subject) -> Iterator[Check]:
    """NaN in the embeddings of padded slots."""
    zeros = _with_embeddings(subject)
    nan = zeros.but(pad_value=float("nan"))
    yield Check("embeddings that are NaN in padded slots", zeros, nan, [(0, 0), (1, 1)])


def _with_embeddings(subject: Subject) -> Trial:
    n_pads = _room(subject, 3)
    return Trial(subject.sequences(*_lengths(subject)), n_pads=n_pads, pad_value=0.0)


def _lengths(subject: Subject) -> tuple[int, int]:
    return (min(LENGTHS[0], subject.longest), min(LENGTHS[1], max(1, subject.longest - 1)))


def _room(subject: Subject, n_pads: int) -> int:
    """So many padded slots, or as many as there are positions for."""
    return max(0, min(n_pads, subject.longest - LENGTHS[0]))


RULES = (
    Rule(
        "padding-amount",
        "How much padding a row has changes none of its tokens.",
        "IndicBERT issue 20: real tokens change tenfold with padding; huggingface/transformers 17463",
        amount,
    ),
    Rule(
        "padding-side",
        "On which side padding stands changes no token, once positions count tokens.",
        "UKPLab/sentence-transformers 3208; huggingface/transformers 35909",
        side,
    ),
    Rule(
        "padding-content",
        "The id that stands in padded slots changes no real token.",
        "MobileBERT in transformers 5.23: the pad id reaches the last real token",
        content,
    ),
    Rule(
        "padding-values",
        "Large numbers in the embeddings of padded slots change no real token.",
        "huggingface/transformers 17306, 17437: a finite bias that large scores overcome",
        values,
        has_embeddings,
        may_refuse=True,
    ),
    Rule(
        "padding-nan",
        "A NaN in a padded slot reaches no real token.",
        "pytorch/pytorch 101967: 0 x NaN",
        not_a_number,
        has_embeddings,
        may_refuse=True,
    ),
)
