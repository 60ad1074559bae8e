"""Where two calls part: the first module, in the order of computation, whose outputs differ."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from maskwright.audit.compare import LEAK64, Check, difference
from maskwright.audit.subject import Outputs, Subject, named_tensors
from maskwright.audit.trial import Trial, lay


def first_module(check: Check, subject: Subject) -> str | None:
    """The dotted name of the first module to finish with other outputs on the compared sequences; None = none seen.

    Modules finish inside out, so it is the innermost one. Outputs that are not `[B, L, ...]` or `[B, ...]` are passed
    over.
    """
    a, b = recorded(subject, check.a), recorded(subject, check.b)
    for name, outputs in a:
        other = next((found for found_name, found in b if found_name == name), None)
        if other is not None and difference(check, outputs, other).effect > LEAK64:
            return name
    return None


def recorded(subject: Subject, trial: Trial) -> list[tuple[str, Outputs]]:
    """(name, outputs) of every module, in the order in which they finish; `name#2` is a module's second call."""
    laid = lay(trial, subject.pad_id)
    found: list[tuple[str, Outputs]] = []
    calls: dict[str, int] = {}

    def note(name: str, output: Any) -> None:
        calls[name] = calls.get(name, 0) + 1
        label = name if calls[name] == 1 else f"{name}#{calls[name]}"
        outputs = subject.sorted_out(_detached(named_tensors(output)), laid, trial)
        if outputs.n_values:
            found.append((label, outputs))

    with torch.no_grad(), subject.set_to(trial.settings), _hooks(subject.model, note):
        subject.raw(laid, trial)
    return found


@contextmanager
def _hooks(model: nn.Module, note: Any) -> Iterator[None]:
    handles = [
        module.register_forward_hook(lambda _, __, output, name=name: note(name, output))
        for name, module in model.named_modules()
        if name
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _detached(outputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in outputs.items()}
