"""A row's pooled vector is made of its tokens, and of nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from maskwright.audit.compare import LEAK64, Difference, Measure
from maskwright.audit.finding import Severity
from maskwright.audit.function import Function, amount, apart
from maskwright.audit.pooled import LENGTHS, Side, laid, pooled, states, suspected
from maskwright.audit.rule import rules_of

LONG = 1031  # tokens; float16 and bfloat16 sums that are rounded at every step go astray long before
ULPS = 8


def amounts(function: Function) -> Iterator[Measure]:
    """More and more padding, against the row alone."""
    cause = suspected(function)
    for n_pads in (0, 1, 3, 11):
        name = f"a batch with {n_pads} more padded slots than it needs, against each row alone"
        yield Measure(name, partial(_against_alone, n_pads=n_pads), cause)


def sides(function: Function) -> Iterator[Measure]:
    """Padding on the left, against the row alone."""
    run = partial(_against_alone, side="left", n_pads=2, fill=None)
    yield Measure("padding on the left, against each row alone", run, suspected(function))


def holes(function: Function) -> Iterator[Measure]:
    """Padded slots amid the tokens."""
    run = partial(_against_alone, hole=2, fill=None)
    yield Measure("padded slots between the tokens, against each row alone", run, suspected(function))


def content(function: Function) -> Iterator[Measure]:
    """What stands in padded slots."""
    cause = suspected(function)
    for fill in (3.0, 1e4, 1e30, -1e30):
        is_huge = abs(fill) > 1e4 and not _leaks(function, 1e4)
        name = f"{fill:g} in padded slots against 0"
        yield Measure(name, partial(_refilled, fill=fill), "bias-overcome" if is_huge else cause)


def negative(function: Function) -> Iterator[Measure]:
    """Features that are all below zero."""
    run = partial(_against_alone, n_pads=2, shift=-9.0)
    yield Measure("features that are all negative, against each row alone", run, suspected(function))


def not_a_number(function: Function) -> Iterator[Measure]:
    """NaN and infinity in padded slots."""
    is_product = not _leaks(function, 3.0)
    cause = "zero-times-nan" if is_product else suspected(function)
    severity: Severity | None = "low" if is_product else None  # padding seldom holds such numbers
    for fill in (float("nan"), float("inf")):
        yield Measure(f"{fill} in padded slots against 0", partial(_refilled, fill=fill), cause, severity)


def neighbours(function: Function) -> Iterator[Measure]:
    """The batch in another order, and other rows beside one."""
    yield Measure("rows in another order", _turned, "rows-mixed")
    yield Measure("other neighbours in the batch", _beside_others, "rows-mixed")


def tokens(function: Function) -> Iterator[Measure]:
    """A row's own tokens must count."""
    found = suspected(function)
    cause = found if found in ("polarity", "first-slot", "row-selection", "zero-wins-max") else "tokens-ignored"
    for side in ("right", "left"):
        name = f"other tokens in a row with padding on the {side} change its vector"
        yield Measure(name, partial(_unmoved, side=side), cause)


def gradient(function: Function) -> Iterator[Measure]:
    """No gradient into padded slots."""
    found = suspected(function)
    cause = "gradient-into-padding" if found == "pooling" and not _leaks(function, 3.0) else found
    for side in ("right", "left"):
        yield Measure(f"gradient into padded slots on the {side}", partial(_into_padding, side=side), cause)


def empty_row(function: Function) -> Iterator[Measure]:
    """A row without tokens."""
    yield Measure("a row without tokens holds numbers", _of_nothing, "empty-row")
    yield Measure("a row without tokens changes no other", _beside_nothing, "rows-mixed")
    yield Measure("gradients beside a row without tokens are numbers", _gradient_beside_nothing, "empty-row")


def narrow(function: Function) -> Iterator[Measure]:
    """A long row in float16 and bfloat16, against float64."""
    for dtype in (torch.float16, torch.bfloat16):
        name = f"a row of {LONG} tokens in {str(dtype).removeprefix('torch.')}, against float64"
        yield Measure(name, partial(_rounded, dtype=dtype), "narrow-sum")


def _alone(function: Function, rows: Sequence[Tensor]) -> Tensor:
    return torch.cat([pooled(function, *laid([row])) for row in rows])


def _against_alone(
    function: Function,
    *,
    side: Side = "right",
    n_pads: int = 0,
    hole: int = 0,
    fill: float | None = 0.0,
    shift: float = 0.0,
) -> Difference:
    rows = states(function, *LENGTHS, shift=shift)
    return apart(_alone(function, rows), pooled(function, *laid(rows, side=side, n_pads=n_pads, hole=hole, fill=fill)))


def _refilled(function: Function, fill: float) -> Difference:
    rows = states(function, *LENGTHS)
    zeros, filled = laid(rows, n_pads=3), laid(rows, n_pads=3, fill=fill)
    return apart(pooled(function, *zeros), pooled(function, *filled))


def _leaks(function: Function, fill: float) -> bool:
    try:
        with function.cast_to(torch.float64):
            return _refilled(function, fill).effect > LEAK64
    except Exception:  # the rule that asked shows what it raises
        return False


def _turned(function: Function) -> Difference:
    hidden, keep = laid(states(function, *LENGTHS))
    order = torch.tensor([2, 0, 1])
    return apart(pooled(function, hidden, keep)[order], pooled(function, hidden[order], keep[order]))


def _beside_others(function: Function) -> Difference:
    ours, others = states(function, *LENGTHS), states(function, *LENGTHS, seed=3)
    one, two = laid(ours), laid([ours[0], *others[1:]])
    return apart(pooled(function, *one)[0], pooled(function, *two)[0])


def _unmoved(function: Function, side: Side) -> Difference:
    one = laid(states(function, *LENGTHS), side=side, n_pads=2)
    two = laid(states(function, *LENGTHS, seed=3), side=side, n_pads=2)
    moved = (pooled(function, *one) - pooled(function, *two)).abs().amax(1)
    return amount(float((~(moved > LEAK64)).double().mean()))


def _into_padding(function: Function, side: Side) -> Difference:
    hidden, keep = laid(states(function, *LENGTHS), side=side, n_pads=2, fill=None)
    found = _gradient(function, hidden, keep)
    if not bool(found.isfinite().all()):
        return Difference(float("inf"), "gradient", False, 1)
    return Difference(
        float(found[~keep].abs().max() / found.square().mean().sqrt().clamp(min=1e-30)), "gradient", True, 1
    )


def _gradient(function: Function, hidden: Tensor, keep: Tensor) -> Tensor:
    hidden = hidden.clone().requires_grad_()
    with torch.enable_grad():
        vectors = pooled(function, hidden, keep)
        if not vectors.requires_grad:  # a vector of nothing; the rule about tokens shows it
            return torch.zeros_like(hidden)
        # Weighted unevenly: a plain sum may have no gradient at all behind a normalisation.
        weights = torch.arange(1, vectors.numel() + 1).view(vectors.shape).sin().to(vectors.dtype)
        (found,) = torch.autograd.grad((vectors * weights).sum(), hidden)
    return found


def _with_nothing(function: Function) -> tuple[Tensor, Tensor]:
    hidden, keep = laid(states(function, *LENGTHS), n_pads=1)
    keep[-1] = False
    return hidden, keep


def _of_nothing(function: Function) -> Difference:
    found = pooled(function, *_with_nothing(function))[-1]
    return amount(0.0) if bool(found.isfinite().all()) else Difference(float("inf"), "", False, 1)


def _beside_nothing(function: Function) -> Difference:
    full = pooled(function, *laid(states(function, *LENGTHS), n_pads=1))[:-1]
    return apart(full, pooled(function, *_with_nothing(function))[:-1])


def _gradient_beside_nothing(function: Function) -> Difference:
    found = _gradient(function, *_with_nothing(function))
    return amount(0.0) if bool(found.isfinite().all()) else Difference(float("inf"), "gradient", False, 1)


def _rounded(function: Function, dtype: torch.dtype) -> Difference:
    with function.cast_to(dtype):  # weights stay rounded for the reference within
        hidden, keep = laid(states(function, LONG, 3, shift=1.0))
        found = pooled(function, hidden, keep)
        with function.cast_to(torch.float64):
            exact = pooled(function, hidden.double(), keep)
    error = apart(exact, found)
    return error if error.effect > ULPS * torch.finfo(dtype).eps else amount(0.0)


_rule = rules_of("pooling")

RULES = (
    _rule(
        "amount",
        "How much padding a row has changes nothing in its vector.",
        "huggingface/transformers 17463: a plain mean over slots",
        amounts,
    ),
    _rule(
        "side",
        "On which side padding stands changes nothing.",
        "UKPLab/sentence-transformers 3208: the first slot under left padding; composer: mask sum minus one",
        sides,
    ),
    _rule(
        "holes",
        "Nor do padded slots between the tokens.",
        "huggingface/transformers 35909: arithmetic with the number of pads",
        holes,
    ),
    _rule(
        "content",
        "What stands in padded slots changes nothing, however large it is.",
        "huggingface/transformers 17463; -1e9 added instead of filled in",
        content,
    ),
    _rule(
        "negative",
        "Padding changes nothing where all features are negative.",
        "allenai/allennlp 4739: zeros of padding win the maximum",
        negative,
    ),
    _rule(
        "nan",
        "Nor does a NaN or an infinity in padded slots.",
        "pytorch/pytorch 101967: 0 x NaN; the mean of sentence-transformers 6",
        not_a_number,
    ),
    _rule(
        "neighbours",
        "The other rows of a batch, and their order, change nothing.",
        "ReProver issue 34: four batch sizes, four rankings",
        neighbours,
    ),
    _rule("tokens", "A row's own tokens make its vector.", "masks that are taken the wrong way round", tokens),
    _rule("gradient", "No gradient reaches padded slots.", "pytorch/pytorch 101967", gradient),
    _rule(
        "empty-row",
        "A row without tokens gives numbers, or an error that says so.",
        "sentence-transformers 6: the maximum of an empty row is -inf",
        empty_row,
        may_refuse=True,
    ),
    _rule(
        "narrow-dtypes",
        "Long rows are summed exactly enough in float16 and bfloat16.",
        "huggingface/transformers 17306: half precision",
        narrow,
        may_refuse=True,
    ),
)
