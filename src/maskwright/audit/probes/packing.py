"""Texts that share a row must not see each other, by every way in which a row can say where they end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, get_args, get_type_hints

import torch

from maskwright.audit.compare import Check
from maskwright.audit.rule import Rule, takes_blocks, takes_positions
from maskwright.audit.subject import Subject
from maskwright.audit.trial import Trial

LENGTHS = (7, 5)
PAIRS = [(0, 0), (1, 1)]


def blocks(subject: Subject) -> Iterator[Check]:
    """A 4-D block mask with positions that start anew."""
    apart = Trial(subject.sequences(*LENGTHS))
    for form in ("4d bool", "4d additive"):
        packed = apart.but(order=((0, 1),), mask=form, positions="of tokens")
        yield Check(f"two texts in a row, {form} block mask", apart, packed, PAIRS, outputs="tokens")


def _no_cache(subject: Subject) -> dict[str, bool]:
    """transformers looks for packed rows only where no cache is asked for."""
    return {"use_cache": False} if subject.direction == "causal" else {}


def positions(subject: Subject) -> Iterator[Check]:
    """Positions that start anew, and nothing else."""
    apart = Trial(subject.sequences(*LENGTHS))
    for mask in ("none", "int"):
        packed = apart.but(order=((0, 1),), mask=mask, positions="of tokens", options=_no_cache(subject))
        name = f"two texts in a row, positions alone, {'an all-ones' if mask == 'int' else 'no'} mask"
        yield Check(name, apart, packed, PAIRS, outputs="tokens")


def lengths(subject: Subject) -> Iterator[Check]:
    """Cumulative lengths, as kernels for packed rows take them, and positions that start anew."""
    apart = Trial(subject.sequences(*LENGTHS))
    ends = torch.tensor([0, LENGTHS[0], sum(LENGTHS)], dtype=torch.int32)
    given: dict[str, Any] = {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends}
    given |= {"max_length_q": max(LENGTHS), "max_length_k": max(LENGTHS)}
    packed = apart.but(order=((0, 1),), mask="none", positions="of tokens", options=given | _no_cache(subject))
    yield Check(
        "two texts in a row, cumulative lengths", apart, packed, PAIRS, outputs="tokens", cause="packing-ignored"
    )


def documents_lengths(subject: Subject) -> str | None:
    """Whether forward's signature names cumulative lengths. (No family keeps texts apart by token types.)"""
    if (reason := takes_positions(subject)) is not None:
        return reason
    hints = get_type_hints(type(subject.inner).forward, include_extras=True)
    named = set(hints) | {name for hint in hints.values() for part in get_args(hint) for name in _fields(part)}
    return None if "cu_seq_lens_q" in named else "its signature names no cu_seq_lens_q"


def _fields(part: Any) -> Iterable[str]:
    return getattr(part, "__annotations__", ())


RULES = (
    Rule(
        "packing-blocks",
        "Texts in one row under a block mask are as in rows of their own.",
        "huggingface/transformers 46634: packed documents attend to each other",
        blocks,
        lambda subject: takes_positions(subject) or takes_blocks(subject),
        may_refuse=True,
    ),
    Rule(
        "packing-positions",
        "Texts in one row whose positions start anew are as in rows of their own.",
        "huggingface/transformers 46634; encoders of 5.23 on sdpa and eager",
        positions,
        takes_positions,
        may_refuse=True,
    ),
    Rule(
        "packing-lengths",
        "Texts in one row whose cumulative lengths are handed over are as in rows of their own.",
        "huggingface/transformers: cu_seq_lens_q is read by flash attention alone",
        lengths,
        documents_lengths,
        may_refuse=True,
    ),
)
