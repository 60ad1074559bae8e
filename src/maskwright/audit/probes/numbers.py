"""Everything is a number: rows of padding alone, narrow dtypes; and no gradient reaches padding."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, get_args

import torch
from torch import Tensor, nn

from maskwright.audit.backward import gradients, total
from maskwright.audit.calling import InapplicableError
from maskwright.audit.compare import Check, Difference, Measure
from maskwright.audit.rule import Rule
from maskwright.audit.subject import Subject
from maskwright.audit.trial import Side, Trial, lay

LENGTHS = (7, 5)
NARROW = (torch.float16, torch.bfloat16)


def empty_row(subject: Subject) -> Iterator[Check | Measure]:
    """A row of padding alone beside others: they stay as they are, and it holds numbers."""
    full = Trial(subject.sequences(*LENGTHS))
    nothing = full.but(sequences=(*full.sequences, torch.zeros(0, dtype=torch.long)))
    yield Check("a row of padding alone beside others", full, nothing, [(0, 0), (1, 1)])
    run = partial(_all_finite, trial=nothing)
    yield Measure("a row of padding alone holds numbers", run, "softmax-over-nothing", trials=(nothing,))
    run = partial(_finite_gradients, trial=nothing)
    yield Measure("gradients of the rows beside it are numbers", run, "softmax-over-nothing")


def narrow(subject: Subject) -> Iterator[Measure]:
    """float16 and bfloat16 with padding, on the left too: there causal queries in padded slots see nothing at all."""
    for dtype in NARROW:
        for side in get_args(Side):
            trial = Trial(subject.sequences(*LENGTHS), n_pads=3, side=side, settings={"dtype": dtype})
            name = f"{str(dtype).removeprefix('torch.')} with padding on the {side}"
            yield Measure(name, partial(_finite, trial=trial), "overflow", trials=(trial,))


def gradient(subject: Subject) -> Iterator[Measure]:
    """The gradient of the real tokens' outputs with respect to padded slots' embeddings."""
    trial = Trial(subject.sequences(*LENGTHS), n_pads=3)
    yield Measure("gradient into padded slots", partial(_into_padding, trial=trial), "gradient-into-padding")


def _finite(subject: Subject, trial: Trial) -> Difference:
    outputs = subject(trial)
    values = [v for kind in (outputs.tokens, outputs.rows) for by in kind.values() for v in by.values()]
    return _number(values)


def _all_finite(subject: Subject, trial: Trial) -> Difference:
    with torch.no_grad():
        return _number(list(subject.raw(lay(trial, subject.pad_id), trial).values()))


def _number(values: list[Tensor]) -> Difference:
    bad = any(bool(value.isnan().any()) for value in values)
    return Difference(float("inf") if bad else 0.0, "", not bad, len(values))


def _finite_gradients(subject: Subject, trial: Trial) -> Difference:
    _, found = gradients(subject, trial, only=range(len(LENGTHS)))
    bad = not all(bool(gradient.isfinite().all()) for gradient in found)
    return Difference(float("inf") if bad else 0.0, "gradient", not bad, len(found))


def _tables(subject: Subject) -> list[nn.Module]:
    return [module for module in subject.model.modules() if isinstance(module, nn.Embedding)]


def has_table(subject: Subject) -> str | None:
    """Whether there are embeddings whose gradient can be asked for."""
    return None if _tables(subject) else "it has no table of embeddings"


def _into_padding(subject: Subject, trial: Trial) -> Difference:
    laid = lay(trial, subject.pad_id)
    leaves: list[Tensor] = []

    def cut(_: nn.Module, __: Any, states: Tensor) -> Tensor:
        if leaves or states.ndim < 3 or states.shape[:2] != laid.ids.shape:
            return states
        leaves.append(states.detach().requires_grad_())
        return leaves[0]

    handles = [table.register_forward_hook(cut) for table in _tables(subject)]
    try:
        with torch.enable_grad():
            outputs = subject.sorted_out(subject.raw(laid, trial), laid, trial)
            if not leaves:
                raise InapplicableError("its tables give no states [B, L, D]", "gradient")
            (found,) = torch.autograd.grad(total(outputs), leaves[0])
    finally:
        for handle in handles:
            handle.remove()
    real, padded = found[laid.keep], found[~laid.keep]
    if not bool(found.isfinite().all()):
        return Difference(float("inf"), "gradient", False, 1)
    return Difference(float(padded.abs().max() / real.square().mean().sqrt().clamp(min=1e-30)), "gradient", True, 1)


RULES = (
    Rule(
        "empty-row",
        "A row of padding alone changes no other row and holds numbers, both ways, or is refused by an error.",
        "pytorch/pytorch 24816, huggingface/transformers 44163: NaN for an all-padded row",
        empty_row,
        may_refuse=True,
    ),
    Rule(
        "narrow-dtypes",
        "In float16 and bfloat16 padded rows stay numbers.",
        "huggingface/transformers 17306, 17437: finfo.min plus a negative score",
        narrow,
        may_refuse=True,
    ),
    Rule(
        "gradient",
        "No gradient of real tokens' outputs reaches padded slots.",
        "the pad row of an embedding table that trains",
        gradient,
        has_table,
        may_refuse=True,
    ),
)
