"""How far into a text padding reaches, in a model that mixes neighbouring tokens."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from maskwright.audit.compare import LEAK64
from maskwright.audit.finding import FARTHEST
from maskwright.audit.locate import Called, recorded
from maskwright.audit.subject import Subject
from maskwright.audit.trial import Trial

N_PADS = 3


def reach_of(subject: Subject) -> int | None:
    """Tokens from the border of the padding to the farthest one that it changes, in the first module that it changes.

    Further on attention spreads the change to all of them.

    Returns:
        At most `FARTHEST`, which is the length of the text that is looked at; None where padding changes nothing.

    Example:
        >>> from transformers import FNetConfig, FNetModel
        >>> config = FNetConfig(vocab_size=61, hidden_size=8, num_hidden_layers=1, intermediate_size=11)
        >>> reach_of(Subject(FNetModel(config)))
        31
    """
    n = min(FARTHEST, subject.longest - N_PADS)
    if n < 1:
        return None
    alone = Trial(subject.sequences(n))
    other = int(subject.sequences(1, seed=5)[0][0])
    padded = alone.but(n_pads=N_PADS)
    with subject.cast_to(torch.float64):
        plain, *others = [recorded(subject, trial) for trial in (alone, padded, padded.but(fill=other))]
    for label, call in plain.items():
        found = [first for calls in others if label in calls for first in _first_changed(call, calls[label])]
        if found:
            return n - min(found)
    return None


def _first_changed(a: Called, b: Called) -> Iterator[int]:
    """The first token that differs, of every output that has one."""
    for name in a.outputs.tokens.keys() & b.outputs.tokens.keys():
        one, two = (call.outputs.tokens[name][0].double().flatten(1) for call in (a, b))
        if one.shape != two.shape:
            continue
        differs = ((one - two).abs() > LEAK64 * one.square().mean().sqrt()).any(1)
        if bool(differs.any()):
            yield int(differs.nonzero()[0])
