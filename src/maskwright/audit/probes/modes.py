"""Ways to run a model that cost more or less and must compute the same: training mode, checkpointing, torch.compile."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from maskwright.audit.backward import gradients
from maskwright.audit.compare import QUIET, Check, Difference, Measure, difference
from maskwright.audit.rule import Rule, is_transformers
from maskwright.audit.subject import Outputs, Subject
from maskwright.audit.trial import Trial

LENGTHS = (7, 5)
PAIRS = [(0, 0), (1, 1)]
BACKEND = "inductor"
TRAINING = {"training": True, "no_dropout": True}
_DRAWS = "it draws random numbers in training mode whatever its dropout rates"


def _trial(subject: Subject) -> Trial:
    return Trial(subject.sequences(*LENGTHS), n_pads=3)


def draws_nothing(subject: Subject) -> str | None:
    """Whether training mode without dropout is a matter of the inputs alone."""
    if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in subject.model.modules()):
        return "its batch normalisation is meant to be another in training mode"
    trial = _trial(subject).but(settings=TRAINING)
    try:
        effect = Check("the same call twice", trial, trial, PAIRS).measure(subject).effect
    except Exception:  # the check itself will say so
        return None
    return _DRAWS if effect > QUIET else None


def training(subject: Subject) -> Iterator[Check]:
    """Training mode with all dropout at 0 against evaluation mode."""
    trial = _trial(subject)
    name = "training mode without dropout against evaluation mode"
    yield Check(name, trial, trial.but(settings=TRAINING), PAIRS, cause="training-path")


def checkpointing(subject: Subject) -> Iterator[Measure]:
    """Outputs and gradients in training mode, with gradient checkpointing and without."""
    trial = _trial(subject).but(settings=TRAINING)
    run = partial(_checkpointed, trial=trial)
    other = trial.but(settings={**TRAINING, "checkpointing": True})
    yield Measure("outputs and gradients with checkpointing", run, "checkpointing-path", trials=(trial, other))


def _checkpointed(subject: Subject, trial: Trial) -> Difference:
    plain, ones = gradients(subject, trial)
    again, others = gradients(subject, trial.but(settings={**TRAINING, "checkpointing": True}))
    # As if all gradients were one sequence's output, so that they have one scale.
    flat = [Outputs(rows={"gradient": {0: _flat(found)}}) for found in (ones, others)]
    with torch.no_grad():
        outputs = difference(Check("", trial, trial, PAIRS), plain, again)
        backward = difference(Check("", trial, trial, [(0, 0)]), *flat)
    n = outputs.n_compared + backward.n_compared
    worst = max((outputs, backward), key=lambda found: found.effect)
    return Difference(worst.effect, worst.output, outputs.is_finite and backward.is_finite, n)


def _flat(found: list[Tensor]) -> Tensor:
    return torch.cat([gradient.flatten() for gradient in found]) if found else torch.zeros(0)


def compiled(subject: Subject) -> Iterator[Measure]:
    """torch.compile against eager execution, with padding and without."""
    for n_pads in (0, 3):
        trial = Trial(subject.sequences(*LENGTHS), n_pads=n_pads)
        check = Check("", trial, trial.but(settings={"compiled": BACKEND}), PAIRS)
        yield Measure(f"torch.compile, {n_pads} padded slots", check.measure, "compiled-otherwise")


RULES = (
    Rule(
        "training-mode",
        "Without dropout, training mode computes what evaluation mode computes.",
        "pytorch/pytorch 124464: functional dropout that follows no mode; masks that are set up in training alone",
        training,
        draws_nothing,
        may_refuse=True,
    ),
    Rule(
        "checkpointing",
        "Gradient checkpointing changes neither outputs nor gradients.",
        "layers that are handed their arguments by place when checkpointed, and lose the mask",
        checkpointing,
        lambda subject: is_transformers(subject) or draws_nothing(subject),
        may_refuse=True,
    ),
    Rule(
        "compile",
        "torch.compile changes nothing, where it builds.",
        "masks that depend on data, traced as constants",
        compiled,
        may_refuse=True,
        by_default=False,
    ),
)
