"""Experiments on one subject: what a call, or one module in it, reacts to."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from maskwright.audit.compare import LEAK64, Check, difference
from maskwright.audit.probes import rows
from maskwright.audit.subject import Outputs, Subject, named_tensors
from maskwright.audit.trial import Laid, Trial, lay


class Facts:
    """What is true of all calls of a subject, found out when it is asked for; to be asked in float64."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    @cached_property
    def repeats(self) -> bool:
        """Whether equal calls agree, as far as they give numbers."""
        return self._keeps(rows.repeated(self.subject))

    @cached_property
    def keeps_rows_apart(self) -> bool:
        """Whether neither the other rows of a batch nor their order matter, as far as they give numbers."""
        return self._keeps([*rows.neighbours(self.subject), *rows.order(self.subject)])

    def _keeps(self, checks: Iterable[Check]) -> bool:
        try:
            found = [check.measure(self.subject) for check in checks]
        except Exception:  # too few positions, or no rows of different lengths
            return True
        return all(one.effect <= LEAK64 or not one.is_finite for one in found)


def reacts(subject: Subject, trial: Trial, sequence: int, *, first_to_last: bool) -> bool:
    """Whether the first token of a sequence reacts to its last one, or the last one to the first."""
    row = trial.sequences[sequence]
    if len(row) < 2:
        return False
    changed = -1 if first_to_last else 0
    others = list(trial.sequences)
    others[sequence] = row.clone()
    others[sequence][changed] = next(i for i in subject.ordinary.tolist() if i != int(row[changed]))
    one, two = subject(trial), subject(trial.but(sequences=tuple(others)))
    watched = -1 - changed
    pairs = [(one.tokens[name][sequence][watched], two.tokens[name][sequence][watched]) for name in one.tokens]
    return any(float((a.double() - b.double()).abs().max()) > LEAK64 for a, b in pairs)


def ignores_positions(subject: Subject, trial: Trial) -> bool:
    """Whether position_ids are taken and change nothing, where they are others than those of the slots."""
    if not subject.takes("position_ids"):
        return False
    left = trial.but(side="left", n_pads=max(2, trial.n_pads), positions="default")
    pairs = [(i, i) for i in range(len(trial.sequences))]
    return Check("", left, left.but(positions="of tokens"), pairs).measure(subject).effect <= LEAK64


def module_sees(subject: Subject, module: str, trial: Trial, sequence: int) -> tuple[bool, bool]:
    """Whether a module's output at one token reacts to its input in padded slots, and at the sequence's other tokens.

    Where attention is causal the token is the last one, else the first.
    """
    laid = lay(trial, subject.pad_id)
    own = laid.sequence == sequence
    watched = len(trial.sequences[sequence]) - 1 if subject.direction == "causal" else 0
    place = torch.zeros_like(own)
    row, _ = laid.places[sequence]
    place[row, torch.arange(own.shape[1])[laid.slots(sequence)][watched]] = True
    plain = _given_by(subject, module, trial, laid, None)
    found = []
    for slots in (~laid.keep, own & ~place):
        other = _given_by(subject, module, trial, laid, slots)
        found.append(_reaction(plain, other, sequence, watched) > LEAK64)
    return found[0], found[1]


def _reaction(plain: Outputs, other: Outputs, sequence: int, watched: int) -> float:
    effects = [0.0]
    for name in plain.tokens.keys() & other.tokens.keys():
        one, two = (found.tokens[name][sequence][watched].double() for found in (plain, other))
        effects.append(float((one - two).abs().max()) if one.numel() else 0.0)
    if not plain.tokens:
        effects.append(difference(Check("", _NOTHING, _NOTHING, [(sequence, sequence)]), plain, other).effect)
    return max(effects)


_NOTHING = Trial(())


def _given_by(subject: Subject, module: str, trial: Trial, laid: Laid, slots: Tensor | None) -> Outputs:
    """What the module gives in its last call, with its input states `[B, L, D]` disturbed in some slots."""
    found: dict[str, Tensor] = {}

    def disturb(_: nn.Module, places: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return tuple(map(changed, places)), {name: changed(value) for name, value in named.items()}

    def changed(value: Any) -> Any:
        is_states = isinstance(value, Tensor) and value.is_floating_point() and value.ndim > 2
        if slots is None or not is_states or value.shape[:2] != laid.ids.shape:
            return value
        flat = value.flatten(2)
        noise = torch.linspace(1, 2, flat.shape[-1], dtype=value.dtype, device=value.device)
        return torch.where(slots.to(value.device)[..., None], noise - noise * flat, flat).view(value.shape)

    def keep(_: nn.Module, __: Any, output: Any) -> None:
        found.update(named_tensors(output))

    part = subject.model.get_submodule(module)
    handles = [part.register_forward_pre_hook(disturb, with_kwargs=True), part.register_forward_hook(keep)]
    try:
        with torch.no_grad(), subject.set_to(trial.settings):
            subject.raw(laid, trial)
    finally:
        for handle in handles:
            handle.remove()
    return subject.sorted_out({name: value.cpu() for name, value in found.items()}, laid, trial)
