"""Whether two calls agree, and whether a difference is rounding or a leak: the same again in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from maskwright.audit.finding import Severity, Verdict
from maskwright.audit.subject import Outputs, Subject
from maskwright.audit.trial import Trial

QUIET = 2e-6  # float32 rounding of a few operations; whatever is larger is repeated in float64
LEAK64 = 1e-9  # rounding in float64 stays far below
APART32 = 1e-4  # float32 outputs that are further apart are different ones, where float64 is not asked
NOISE32 = 1e-3  # what float32 alone may be forgiven where float64 gives no number


@dataclass(frozen=True, eq=False)
class Check:
    """Two trials whose outputs must be equal, or must differ, on some sequences.

    Attributes:
        name: what is compared with what.
        pairs: (sequence of a, sequence of b) to compare.
        until: compare only the first so many tokens of each; None = all.
        must: "agree", or "differ" where the model is meant to react.
        outputs: "tokens", "rows" or "both".
        cause: what a failure can only mean, by its name; "" = to be found out.
    """

    name: str
    a: Trial
    b: Trial
    pairs: Sequence[tuple[int, int]]
    until: int | None = None
    must: Literal["agree", "differ"] = "agree"
    outputs: Literal["tokens", "rows", "both"] = "both"
    cause: str = ""

    def measure(self, subject: Subject) -> Difference:
        """Run both, and say how far they are apart."""
        return difference(self, subject(self.a), subject(self.b))


@dataclass(frozen=True, eq=False)
class Measure:
    """Anything else that ought to be zero: a gradient, or a number that is none.

    Attributes:
        name: what is measured.
        run: subject -> the number.
        cause: what a failure means, by its name.
        severity: of a failure; None = by its size.
        trials: calls that show where it fails: one in which a NaN arises, or two that part.
    """

    name: str
    run: Callable[[Any], Difference]
    cause: str
    severity: Severity | None = None
    trials: tuple[Trial, ...] = ()

    def measure(self, subject: Any) -> Difference:
        """The effect."""
        return self.run(subject)


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest relative difference, in which output; `is_finite` False = one side is not a number there."""

    effect: float = 0.0
    output: str = ""
    is_finite: bool = True
    n_compared: int = 0


def difference(check: Check, a: Outputs, b: Outputs) -> Difference:
    """Largest absolute difference over the root mean square of a's values, over all outputs that both have."""
    worst = Difference()
    n = 0
    for kind in ("tokens", "rows"):
        if check.outputs not in (kind, "both") or (kind == "rows" and check.until is not None):
            continue
        ones, others = getattr(a, kind), getattr(b, kind)
        for name in ones.keys() & others.keys():
            for first, second in check.pairs:
                x, y = ones[name].get(first), others[name].get(second)
                if x is None or y is None:
                    continue
                if kind == "tokens":
                    x, y = x[: check.until], y[: check.until]
                if x.shape != y.shape or not x.numel():
                    continue
                n += 1
                found = _relative(x, y, name)
                if not found.is_finite or (worst.is_finite and found.effect > worst.effect):
                    worst = found
    return Difference(worst.effect, worst.output, worst.is_finite, n)


def _relative(x: Tensor, y: Tensor, name: str) -> Difference:
    x, y = x.double(), y.double()
    same_infinity = torch.isinf(x) & (x == y)  # logits masked on purpose
    x, y = x.masked_fill(same_infinity, 0), y.masked_fill(same_infinity, 0)
    if not bool(x.isfinite().all() and y.isfinite().all()):
        return Difference(float("inf"), name, is_finite=False)
    scale = x.square().mean().sqrt().clamp(min=1e-12)
    return Difference(float((x - y).abs().max() / scale), name)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A check's verdict with the differences it rests on; `exact` is None where float64 was not needed."""

    verdict: Verdict
    single: Difference
    exact: Difference | None = None

    @property
    def severity(self) -> Severity:
        """By the effect on real tokens."""
        if self.verdict != "fail":
            return "none"
        effect = self.single.effect
        return "high" if effect > 0.1 or not self.single.is_finite else "medium" if effect > 1e-3 else "low"


def judge(check: Check | Measure, subject: Any) -> Outcome:
    """Run a check, and again in float64 where that is needed."""
    single = check.measure(subject)
    must_differ = isinstance(check, Check) and check.must == "differ"
    if not single.n_compared:
        return Outcome("not applicable", single)
    if not must_differ and single.effect <= QUIET:
        return Outcome("pass", single)
    try:
        with subject.cast_to(torch.float64):
            double = check.measure(subject)
    except RuntimeError:  # code that casts to float32 on its way; what float32 said must do
        double = Difference(float("inf"), is_finite=False)
    if must_differ:
        return Outcome("pass" if double.effect > LEAK64 and single.is_finite else "fail", single, double)
    if not double.is_finite and single.is_finite:  # a bias that overflows in float64 alone is no leak
        return Outcome("noise" if single.effect <= NOISE32 else "fail", single, double)
    return Outcome("noise" if double.effect <= LEAK64 else "fail", single, double)
