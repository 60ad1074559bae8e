"""Gradients of a call: of some of its sequences' outputs, with respect to what the caller names."""

from __future__ import annotations

from collections.abc import Container, Sequence

import torch
from torch import Tensor

from maskwright.audit.calling import InapplicableError
from maskwright.audit.subject import Outputs, Subject
from maskwright.audit.trial import Trial, lay


def total(outputs: Outputs, only: Container[int] | None = None) -> Tensor:
    """One number made of all outputs that need a gradient, or of those of some sequences.

    They are weighted unevenly, for the plain sum of a LayerNorm's outputs has no gradient at all.
    """
    found = [
        value
        for kind in (outputs.tokens, outputs.rows)
        for by_sequence in kind.values()
        for sequence, value in by_sequence.items()
        if value.requires_grad and (only is None or sequence in only)
    ]
    parts = [(v.double() * torch.arange(1, v.numel() + 1).view(v.shape).sin()).sum() for v in found]
    return torch.stack(parts).sum() if parts else torch.zeros(())


def weights_of(subject: Subject) -> list[Tensor]:
    """Parameters that stand for all others: vectors (biases, scales), of which every layer has some; else every one."""
    wanted: list[Tensor] = [p for p in subject.model.parameters() if p.is_floating_point()]
    return [p for p in wanted if p.ndim == 1] or wanted


def _differentiated(value: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    try:
        return torch.autograd.grad(value, list(weights), allow_unused=True)
    except RuntimeError as error:  # states that are changed in place, operations without a derivative
        raise InapplicableError(f"cannot be differentiated: {' '.join(str(error).split())[:200]}", "model") from error


def gradients(subject: Subject, trial: Trial, only: Container[int] | None = None) -> tuple[Outputs, list[Tensor]]:
    """A trial's outputs, and gradients of those of `only` with respect to `weights_of`; 0 where there is none."""
    weights: Sequence[Tensor] = weights_of(subject)
    wanted_before = [w.requires_grad for w in weights]
    try:
        for weight in weights:
            weight.requires_grad_(True)
        with torch.enable_grad(), subject.set_to(trial.settings):
            laid = lay(trial, subject.pad_id)
            outputs = subject.sorted_out(subject.raw(laid, trial), laid, trial)
            value = total(outputs, only)
            if not value.requires_grad:
                return outputs, []
            found = _differentiated(value, weights)
    finally:
        for weight, before in zip(weights, wanted_before, strict=True):
            weight.requires_grad_(before)
    return outputs, [torch.zeros_like(w) if g is None else g for w, g in zip(weights, found, strict=True)]
