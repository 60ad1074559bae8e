"""Where two calls part: the module whose outputs differ though its inputs agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from maskwright.audit.compare import LEAK64, Check, difference
from maskwright.audit.subject import Outputs, Subject, named_tensors
from maskwright.audit.trial import Trial, lay


@dataclass(frozen=True, eq=False)
class Called:
    """One call of a module.

    Attributes:
        label: its dotted name, "" = the model itself; `name#2` is its second call.
        caller: label of the call that made it; None for the model itself.
        inputs, outputs: what it took and gave, by token and by row.
        takes_nan, gives_nan: whether anything at all in them is NaN.
    """

    label: str
    caller: str | None
    inputs: Outputs
    outputs: Outputs
    takes_nan: bool
    gives_nan: bool

    @property
    def name(self) -> str:
        """The module's dotted name."""
        return self.label.split("#")[0]


def first_module(check: Check, subject: Subject) -> str | None:
    """The label of the call where the outputs on the compared sequences begin to differ; None = nowhere.

    Modules finish inside out. Where already the inputs of the innermost one differ (an output projection, behind
    attention that is no module of its own), it is the caller that made them so.
    """
    a, b = recorded(subject, check.a), recorded(subject, check.b)
    for label, one in a.items():
        if (other := b.get(label)) is not None and _differ(check, one.outputs, other.outputs):
            return _culprit(one, a, lambda call: call.label in b and _differ(check, call.inputs, b[call.label].inputs))
    return None


def first_nan(trial: Trial, subject: Subject) -> str | None:
    """The label of the call that makes the first NaN of what has none; None = there is none."""
    calls = recorded(subject, trial)
    made = next((call for call in calls.values() if call.gives_nan), None)
    return None if made is None else _culprit(made, calls, lambda call: call.takes_nan)


def _culprit(call: Called, calls: dict[str, Called], is_passed_on: Callable[[Called], bool]) -> str:
    while call.caller in calls and is_passed_on(call):
        call = calls[call.caller]
    return call.label


def _differ(check: Check, one: Outputs, other: Outputs) -> bool:
    return difference(check, one, other).effect > LEAK64


def recorded(subject: Subject, trial: Trial) -> dict[str, Called]:
    """Every module's calls by label, in the order in which they finish."""
    laid = lay(trial, subject.pad_id)
    found: dict[str, Called] = {}
    counts: dict[str, int] = {}
    open_calls: list[tuple[str, dict[str, Tensor]]] = []

    def begin(name: str, inputs: dict[str, Tensor]) -> None:
        counts[name] = counts.get(name, 0) + 1
        open_calls.append((name if counts[name] == 1 else f"{name}#{counts[name]}", inputs))

    def end(name: str, outputs: dict[str, Tensor]) -> None:
        label, inputs = open_calls.pop()
        while label.split("#")[0] != name:  # calls that raised, and were caught
            label, inputs = open_calls.pop()
        caller = open_calls[-1][0] if open_calls else None
        taken = subject.sorted_out({k: v for k, v in inputs.items() if _is_of_tokens(v, laid.ids)}, laid, trial)
        given = subject.sorted_out(outputs, laid, trial)
        found[label] = Called(label, caller, taken, given, _any_nan(inputs.values()), _any_nan(outputs.values()))

    with torch.no_grad(), subject.set_to(trial.settings), _hooks(subject.model, begin, end):
        subject.raw(laid, trial)
    return found


def _is_of_tokens(value: Tensor, ids: Tensor) -> bool:
    """`[B, L, ...]`, `[B, D]` or a decoder's `[B, T, D]`; not masks `[B, 1, L, L]`, which differ as the slots do."""
    return value.shape[:2] == ids.shape or (value.ndim in (2, 3) and len(value) == len(ids))


def _any_nan(values: Iterable[Tensor]) -> bool:
    return any(bool(value.isnan().any()) for value in values)


@contextmanager
def _hooks(
    model: nn.Module, begin: Callable[[str, dict[str, Tensor]], None], end: Callable[[str, dict[str, Tensor]], None]
) -> Iterator[None]:
    handles = []
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(_before(name, begin), with_kwargs=True))
        handles.append(module.register_forward_hook(_after(name, end)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _before(name: str, begin: Callable[[str, dict[str, Tensor]], None]) -> Callable[[Any, Any, Any], None]:
    def hook(_: nn.Module, places: tuple[Any, ...], named: dict[str, Any]) -> None:
        given = {str(i): value for i, value in enumerate(places)} | named
        whole = {k: v.double() for k, v in given.items() if type(v) is Tensor and not v.is_floating_point()}
        begin(name, _detached(named_tensors(given) | whole))

    return hook


def _after(name: str, end: Callable[[str, dict[str, Tensor]], None]) -> Callable[[Any, Any, Any], None]:
    return lambda _, __, output: end(name, _detached(named_tensors(output)))


def _detached(outputs: dict[str, Tensor]) -> dict[str, Tensor]:
    # A subclass may refuse what a tensor does, as the mask that packing carries along.
    return {name: value.detach().cpu() for name, value in outputs.items() if type(value) in (Tensor, nn.Parameter)}
