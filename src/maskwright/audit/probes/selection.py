"""What a row is judged by: a result of a row must be read from its own tokens, wherever padding stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from maskwright.audit.compare import APART32, Check
from maskwright.audit.configured import special_ids_of
from maskwright.audit.rule import Rule
from maskwright.audit.subject import Subject
from maskwright.audit.trial import Positions, Trial

LENGTHS = (7, 5)
PAIRS = [(0, 0), (1, 1)]
N_PADS = 3


def gives_rows(subject: Subject) -> str | None:
    """Whether there is a result by row, a vector each."""
    if subject.direction == "encoder-decoder":
        return "its results by row are the decoder's tokens"
    try:
        found = subject(Trial(subject.sequences(*LENGTHS))).rows.values()
    except Exception as error:  # two rows may be too many for a head without a pad id
        return f"two rows of different lengths are refused: {' '.join(str(error).split())[:200]}"
    if not found or any(value.ndim > 1 for by_sequence in found for value in by_sequence.values()):
        return "it gives no vector by row"
    return None


def side(subject: Subject) -> Iterator[Check]:
    """Results by row with padding on the left: of other ids there, and against padding on the right."""
    given: Positions = "of tokens" if subject.takes("position_ids") else "default"
    right = Trial(subject.sequences(*LENGTHS), n_pads=N_PADS, positions=given)
    left = right.but(side="left")
    other = int(subject.sequences(1, seed=5)[0][0])
    content = Check("another id in padded slots on the left", left, left.but(fill=other), PAIRS, outputs="rows")
    pools_first = _pools_first(subject.inner)
    reads_first = content.measure(subject).effect > APART32 or pools_first
    reads_all = replace(content, a=right, b=right.but(fill=other)).measure(subject).effect > APART32
    by_design = _is_stock(subject) and reads_first and (pools_first or subject.direction == "bidirectional")
    cause = "first-slot" if by_design else "pooling" if reads_all else "row-selection"
    yield replace(content, cause=cause)
    moved = Check("padding on the left against on the right", right, left, PAIRS, outputs="rows", cause=cause)
    hole = Check("a hole of 2 slots against none", right, right.but(hole=(3, 2)), PAIRS, outputs="rows", cause=cause)
    for check in (moved, hole):
        tokens = replace(check, outputs="tokens").measure(subject)
        # Where tokens count slots, or are not given back, a row may change with them and yet be read rightly.
        if tokens.effect < APART32 and (tokens.n_compared or subject.takes("position_ids")):
            yield check


def _is_stock(subject: Subject) -> bool:
    """Of transformers itself: BERT's own pooler and its like are documented to need padding on the right."""
    return subject.model is subject.inner and type(subject.inner).__module__.startswith("transformers.")


def _pools_first(inner: Any) -> bool:
    """Whether a pooler `[B, L, D] -> [B, D]` looks at slot 0 alone (ESM makes all padding equal before)."""
    try:
        states = torch.ones(1, 2, inner.config.hidden_size, dtype=inner.dtype, device=inner.device)
        with torch.no_grad():
            other = torch.cat([states[:, :1], -states[:, 1:]], 1)
            return torch.equal(inner.pooler(states), inner.pooler(other))
    except Exception:  # no pooler, or one that wants more
        return False


def eos_is_pad(subject: Subject) -> str | None:
    """Whether a causal model with results by row pads with the id that ends its texts."""
    if subject.direction != "causal":
        return f"it is meant to be {subject.direction or 'unknown'}"
    if not subject.has_pad or special_ids_of(subject.config).get("eos") != subject.pad_id:
        return "its pad id is not its eos id"
    return gives_rows(subject)


def end(subject: Subject) -> Iterator[Check]:
    """The last token that the mask keeps must matter, also where it or one before it is the eos id."""
    (row,) = subject.sequences(LENGTHS[0])
    last, other = _two(subject)
    eos = torch.tensor([subject.pad_id])
    for name, one, two in (
        ("a text with its eos id against without", torch.cat([row, eos]), row),
        ("another last token behind an eos id", torch.cat([row, eos, last]), torch.cat([row, eos, other])),
    ):
        yield Check(name, Trial((one,)), Trial((two,)), [(0, 0)], must="differ", outputs="rows", cause="eos-as-pad")


def _two(subject: Subject) -> tuple[Tensor, Tensor]:
    first, second = subject.ordinary[:1], subject.ordinary[-1:]
    return first, second


RULES = (
    Rule(
        "row-selection",
        "A row's result is read from its own tokens, on whichever side padding stands.",
        "UKPLab/sentence-transformers 3208: the first slot under left padding; huggingface/transformers 35909",
        side,
        gives_rows,
        may_refuse=True,
    ),
    Rule(
        "row-end",
        "The last token that the mask keeps matters to a causal model's result, also if it is the id of padding.",
        "huggingface/transformers 24265, 35352: pad == eos",
        end,
        eos_is_pad,
        may_refuse=True,
    ),
)
