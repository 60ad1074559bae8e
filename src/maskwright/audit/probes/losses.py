"""A loss is the mean (or the sum) over target tokens, and over nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from maskwright.audit.compare import LEAK64, Difference, Measure
from maskwright.audit.finding import Severity
from maskwright.audit.function import Function, amount, apart
from maskwright.audit.predicted import IGNORED, batch, summed_cross_entropy, unused
from maskwright.audit.rule import rules_of

LARGE = 1e4


def suspected(function: Function, default: str) -> str:
    """What is wrong with the mean, by experiments; `default` where they show nothing."""
    try:
        with function.cast_to(torch.float64), torch.no_grad():
            if _moved_by(function, 7.0).effect > LEAK64:
                return "ignored-counted"
            if _widened(function).effect > LEAK64:
                return "slots-in-the-mean"
            if _uneven(function).effect > LEAK64:
                return "mean-of-means" if _uneven(function, with_ends=False).effect > LEAK64 else "not-cross-entropy"
            return default
    except Exception:  # the rule that asked shows what it raises
        return default


def ignored(function: Function) -> Iterator[Measure]:
    """Logits whose labels are ignored."""
    for value in (7.0, LARGE):
        yield Measure(f"logits of {value:g} where labels are -100", partial(_moved_by, value=value), "ignored-counted")
    yield Measure("gradient of logits whose labels are -100", _gradient_of_ignored, "ignored-counted")


def not_a_number(function: Function) -> Iterator[Measure]:
    """NaN and infinity where labels are ignored."""
    is_counted = suspected(function, "") == "ignored-counted"
    cause = "ignored-counted" if is_counted else "zero-times-nan"
    severity: Severity | None = None if is_counted else "low"  # padding seldom holds such numbers
    for value in (float("nan"), float("inf")):
        run = partial(_moved_by, value=value)
        yield Measure(f"logits of {value} where labels are -100", run, cause, severity)
        try:
            backwards = cause if run(function).effect > LEAK64 else "nan-in-gradient"
        except Exception:  # the measure shows what it raises
            backwards = cause
        run = partial(_gradient_beside, value=value)
        yield Measure(f"gradients beside logits of {value}", run, backwards, severity)


def padding(function: Function) -> Iterator[Measure]:
    """More slots, and more rows, without a target."""
    cause = suspected(function, "slots-in-the-mean")
    yield Measure("more slots without a target", _widened, cause)
    yield Measure("one more row without a target", _one_more_row, cause)


def mean(function: Function) -> Iterator[Measure]:
    """Parts of a batch with different numbers of targets."""
    cause = suspected(function, "mean-of-means")
    yield Measure("rows of 5, 3 and 1 targets, weighted by them, add up to their batch", _uneven, cause)
    yield Measure("two batches of 8 and 1 targets, accumulated by them, are as one", _accumulated, cause)


def order(function: Function) -> Iterator[Measure]:
    """Rows in another order."""
    yield Measure("rows in another order", _turned, "rows-mixed")


def nothing(function: Function) -> Iterator[Measure]:
    """No target at all."""
    try:
        is_number = bool(_of_nothing(function).isfinite())
    except Exception:  # the measure shows it
        is_number = False
    cause = "ignored-counted" if is_number else "mean-over-nothing"
    severity: Severity | None = None if is_number else "medium"  # such batches are rare
    yield Measure("a batch without a target has a loss of 0", _is_zero, cause, severity)


def cross_entropy(function: Function) -> Iterator[Measure]:
    """Against the definition."""
    cause = suspected(function, "not-cross-entropy")
    for with_ends in (False, True):
        name = (
            f"cross entropy by its definition, over targets {'with labels 0 and V - 1 too' if with_ends else 'alone'}"
        )
        yield Measure(name, partial(_against_definition, with_ends=with_ends), cause)


def large(function: Function) -> Iterator[Measure]:
    """Large logits, and narrow dtypes."""
    yield Measure(f"logits up to {3 * LARGE:g} give a number", partial(_is_number, scale=LARGE), "unstable-loss")
    for dtype in (torch.float16, torch.bfloat16):
        name = f"logits in {str(dtype).removeprefix('torch.')}, against float64"
        yield Measure(name, partial(_narrow, dtype=dtype), "unstable-loss")


def _moved_by(function: Function, value: float) -> Difference:
    logits, labels = batch(function)
    moved = logits.masked_fill(unused(labels)[..., None], value)
    return apart(function(logits, labels), function(moved, labels))


def _gradient(function: Function, logits: Tensor, labels: Tensor) -> Tensor:
    logits = logits.clone().requires_grad_()
    with torch.enable_grad():
        (found,) = torch.autograd.grad(function(logits, labels), logits)
    return found


def _gradient_of_ignored(function: Function) -> Difference:
    logits, labels = batch(function)
    found, free = _gradient(function, logits, labels), unused(labels)
    if not bool(found.isfinite().all()):
        return Difference(float("inf"), "gradient", False, 1)
    scale = found[~free].square().mean().sqrt().clamp(min=1e-30)
    return Difference(float(found[free].abs().max() / scale), "gradient", True, 1)


def _gradient_beside(function: Function, value: float) -> Difference:
    logits, labels = batch(function)
    moved = logits.masked_fill(unused(labels)[..., None], value)
    return apart(_gradient(function, logits, labels), _gradient(function, moved, labels))


def _widened(function: Function) -> Difference:
    return apart(function(*batch(function)), function(*batch(function, n_more=7)))


def _one_more_row(function: Function) -> Difference:
    logits, labels = batch(function)
    more = torch.cat([logits, logits[:1]]), torch.cat([labels, torch.full_like(labels[:1], IGNORED)])
    return apart(function(logits, labels), function(*more))


def _parts(function: Function, *cuts: int, with_ends: bool = True) -> Difference:
    """The batch against parts of so many rows: their losses weighted by targets, or plainly summed."""
    logits, labels = batch(function, with_ends=with_ends)
    whole, n = function(logits, labels), int((labels != IGNORED).sum())
    parts = zip(logits.split(cuts), labels.split(cuts), strict=True)
    found = [(function(some, of), int((of != IGNORED).sum())) for some, of in parts]
    mean = torch.stack([loss * count for loss, count in found]).sum() / n
    total = torch.stack([loss for loss, _ in found]).sum()
    return min(apart(whole, mean), apart(whole, total), key=lambda difference: difference.effect)


def _uneven(function: Function, *, with_ends: bool = True) -> Difference:
    return _parts(function, 1, 1, 1, with_ends=with_ends)


def _accumulated(function: Function) -> Difference:
    return _parts(function, 2, 1)


def _turned(function: Function) -> Difference:
    logits, labels = batch(function)
    return apart(function(logits, labels), function(logits.roll(1, 0), labels.roll(1, 0)))


def _of_nothing(function: Function) -> Tensor:
    logits, labels = batch(function)
    found: Tensor = function(logits, torch.full_like(labels, IGNORED))
    return found


def _is_zero(function: Function) -> Difference:
    return apart(torch.ones(()), 1 + _of_nothing(function))


def _definitions(logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """What a cross entropy may be: a mean or a sum, of a token's own slot or the one before."""
    found: dict[str, float] = {}
    for shifted in (False, True):
        total = summed_cross_entropy(logits, labels, shifted=shifted)
        n = int((labels[:, 1:] if shifted else labels).ne(IGNORED).sum())
        found |= {f"sum {shifted}": total, f"mean {shifted}": total / n}
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in found.items()}


def _form(function: Function) -> str | None:
    """Which of them it is where every slot is a target; None = none."""
    with function.cast_to(torch.float64), torch.no_grad():
        logits, labels = batch(function, with_ends=False)
        full = labels.masked_fill(labels == IGNORED, 3)
        found = function(logits, full)
        definitions = _definitions(logits, full)
    return next((name for name, value in definitions.items() if apart(value, found).effect < 1e-6), None)


def _against_definition(function: Function, with_ends: bool) -> Difference:
    logits, labels = batch(function, with_ends=with_ends)
    form = _form(function) or ""  # a cross entropy, as the rule has asked already
    return apart(_definitions(logits, labels)[form], function(logits, labels))


def _is_number(function: Function, scale: float) -> Difference:
    logits, labels = batch(function, scale=scale)
    finite = bool(function(logits, labels).isfinite() and _gradient(function, logits, labels).isfinite().all())
    return amount(0.0) if finite else Difference(float("inf"), "", False, 1)


def _narrow(function: Function, dtype: torch.dtype) -> Difference:
    with function.cast_to(dtype):
        logits, labels = batch(function, scale=9.0)
        found = function(logits, labels)
        with function.cast_to(torch.float64):
            exact = function(logits.double(), labels)
    error = apart(exact, found)
    return error if error.effect > 16 * torch.finfo(dtype).eps else amount(0.0)


def _claims_cross_entropy(function: Function) -> str | None:
    try:
        return None if _form(function) else "it is no cross entropy where every label is a target"
    except Exception:  # the other rules show it
        return "it cannot be called where every label is a target"


_rule = rules_of("loss")

RULES = (
    _rule(
        "ignored",
        "Labels of -100 count neither in the loss nor in its gradient.",
        "huggingface/transformers 2759: another id than -100 is ignored",
        ignored,
    ),
    _rule("nan", "Nor does a NaN or infinity in their logits.", "pytorch/pytorch 101967: 0 x NaN", not_a_number),
    _rule(
        "padding",
        "More padding, in slots or in rows, changes nothing.",
        "huggingface/transformers 2759: the loss of padding is counted",
        padding,
    ),
    _rule(
        "mean",
        "The loss is a mean over target tokens (or their sum): parts, weighted by their targets, add up.",
        "meta-pytorch/torchtune 1875: a mean of means under gradient accumulation",
        mean,
    ),
    _rule("order", "The order of rows changes nothing.", "[B, L] taken for [L, B]", order),
    _rule(
        "nothing",
        "A batch without a target has a loss of 0, or raises an error that says so.",
        "pytorch/pytorch 116349: NaN, as torch's own cross_entropy gives",
        nothing,
        may_refuse=True,
    ),
    _rule(
        "cross-entropy",
        "What is the cross entropy where every slot is a target is so everywhere, and -100 alone is ignored.",
        "a weighted or shifted loss under ignored labels; label 0 taken for padding",
        cross_entropy,
        _claims_cross_entropy,
    ),
    _rule(
        "range",
        "Large logits, and those in float16 and bfloat16, give a number near the true one.",
        "the logarithm of a softmax",
        large,
        may_refuse=True,
    ),
)
