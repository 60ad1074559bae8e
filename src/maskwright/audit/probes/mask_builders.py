"""A mask made from which tokens exist: exactly those keys are attended to, whoever applies it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from maskwright.audit.compare import Difference, Measure
from maskwright.audit.function import Function, amount
from maskwright.audit.rule import rules_of

LENGTH = 11
STRONG = 1e3  # a score that a bias must overcome
NARROW = (torch.float16, torch.bfloat16)
# Slots of tokens in each row: padding on the right, on the left, on both sides with holes, none.
ROWS = {
    "padding on the right": (range(7), range(5), range(1)),
    "padding on the left": (range(4, 11), range(6, 11), range(10, 11)),
    "holes": ((1, 2, 5, 6, 9), (0, 4, 10), range(2, 9)),
    "no padding": (range(11), range(11), range(11)),
}


def keeps(rows: Any) -> Tensor:
    """bool `[B, L]`, True = a token."""
    keep = torch.zeros(len(rows), LENGTH, dtype=torch.bool)
    for number, slots in enumerate(rows):
        keep[number, list(slots)] = True
    return keep


def built(function: Function, keep: Tensor) -> Tensor | None:
    """The mask, in the dtype of the function's numbers where it lets itself be told."""
    mask: Tensor | None = function(keep.to(function.keep_dtype))
    return mask


def expected(function: Function, keep: Tensor) -> Tensor:
    """bool `[B, 1, L, L]`, True = may attend."""
    allowed = keep[:, None, None, :].expand(-1, 1, LENGTH, LENGTH)
    return allowed.tril() if function.direction == "causal" else allowed


def applied(mask: Tensor | None, scores: Tensor) -> Tensor:
    """Attention's weights: a bool mask selects, any other is added."""
    if mask is None:
        return scores.softmax(-1)
    return (scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask).softmax(-1)


def allowed_by(mask: Tensor) -> Tensor:
    """bool, True = may attend: what a bool mask says, or the upper half of what an additive one adds.

    Example:
        >>> allowed_by(torch.tensor([0.0, -4.0, 0.0])).tolist()
        [True, False, True]
    """
    if mask.dtype == torch.bool:
        return mask
    added = mask.double().clamp(min=-1e4)  # -inf beside the lowest number of a dtype
    return added >= (added.min() + added.max()) / 2


def suspected(function: Function, keep: Tensor) -> str:
    """Why other keys are attended to than should be."""
    try:
        mask, right = built(function, keep), expected(function, keep)
    except Exception:  # the rule that asked shows what it raises
        return "unknown"
    if mask is None:
        return "mask-never-arrives"
    if mask.dtype != torch.bool and {1} <= set(mask.unique().tolist()) <= {0, 1}:
        return "mask-form"
    allowed = allowed_by(mask).broadcast_to(right.shape)
    if torch.equal(allowed, keep[:, None, :, None].expand_as(right)) and not keep.all():
        return "mask-axis"
    here = keep[:, None, :, None].expand_as(right)  # what a padded query may see is nobody's business
    if mask.dtype != torch.bool and bool(right[here].all()) and bool((mask > -STRONG).all()):  # there is none to block
        return "bias-on-kept" if mask.any() else "unknown"
    keys = keep[:, None, None, :].expand_as(right)
    guesses = {
        "polarity": (~keys).tril() if function.direction == "causal" else ~keys,
        "mask-never-arrives": torch.ones_like(right).tril()
        if function.direction == "causal"
        else torch.ones_like(right),
        "causal-mask": keys.tril(),
        "no-causal-mask": keys,
    }
    for cause, guess in guesses.items():
        if bool((allowed == guess)[here].all()) and not bool((guess == right)[here].all()):
            return cause
    is_wrong, ahead = (allowed != right) & here, torch.ones_like(right).triu(1)
    if mask.dtype != torch.bool and not is_wrong.any():  # the right keys, by wrong numbers
        added = mask.broadcast_to(right.shape)
        if bool((added[here & ~right] > -2 * STRONG).any()):
            return "bias-overcome"
        return "bias-on-kept" if bool(added[here & right].any()) else "unknown"
    if is_wrong.any() and not is_wrong[~(ahead & keys)].any():  # nothing else than some tokens that follow
        return "no-causal-mask" if function.direction == "causal" else "causal-mask"
    return "rows-mixed" if is_wrong.any() and _is_right_alone(function, keep) else "unknown"


def _is_right_alone(function: Function, keep: Tensor) -> bool:
    """Whether the mask of every row is right where there is no other row."""
    for row in keep.split(1):
        mask = built(function, row)
        right, here = expected(function, row), row[:, None, :, None]
        if mask is None or bool(((allowed_by(mask) != right) & here).any()):
            return False
    return True


def forms(function: Function) -> Iterator[Measure]:
    """dtype, and kept keys left alone."""
    yield Measure("it is bool, or additive in a floating-point dtype", _is_known_form, "mask-form")
    if _dtype(function) not in (torch.bool, None):
        found = suspected(function, keeps(ROWS["padding on the right"]))
        cause = found if found in ("mask-form", "polarity") else "bias-on-kept"
        yield Measure("an additive mask adds 0 where it allows", _added, cause)


def keys(function: Function) -> Iterator[Measure]:
    """Which keys are attended to."""
    for name, rows in ROWS.items():
        keep = keeps(rows)
        cause = suspected(function, keep)
        yield Measure(f"keys attended to, {name}", partial(_weights, keep=keep), cause)


def strong(function: Function) -> Iterator[Measure]:
    """Large scores of blocked keys."""
    keep = keeps(ROWS["padding on the right"])
    found = suspected(function, keep)
    cause = "bias-overcome" if found in ("unknown", "bias-on-kept") else found
    yield Measure(f"blocked keys with scores of {STRONG:g}", partial(_weights, keep=keep, strong=True), cause)


def nothing(function: Function) -> Iterator[Measure]:
    """Queries with nothing to attend to."""
    keep = keeps(ROWS["padding on the right"])
    keep[1] = False
    yield Measure("a row without tokens gives numbers", partial(_numbers, keep=keep), "softmax-over-nothing")
    left = keeps(ROWS["padding on the left"])
    yield Measure("padding on the left gives numbers", partial(_numbers, keep=left), "softmax-over-nothing")


def narrow(function: Function) -> Iterator[Measure]:
    """Scores below zero in float16 and bfloat16."""
    keep = keeps(ROWS["padding on the left"])
    keep[1] = False
    try:
        is_number = _numbers(function, keep).is_finite
    except Exception:  # the measure shows it
        is_number = True
    cause = "overflow" if is_number else "softmax-over-nothing"
    for dtype in NARROW if function.takes_dtype else (_dtype(function),):
        assert dtype is not None  # as the rule has asked already
        run = partial(_numbers_in, keep=keep, dtype=dtype)
        yield Measure(f"negative scores in {str(dtype).removeprefix('torch.')} give numbers", run, cause)


def _is_known_form(function: Function) -> Difference:
    mask = built(function, keeps(ROWS["padding on the right"]))
    return amount(float(mask is not None and mask.dtype != torch.bool and not mask.is_floating_point()))


def _added(function: Function) -> Difference:
    keep = keeps(ROWS["padding on the right"])
    mask = built(function, keep)
    if mask is None:
        return amount(0.0)
    right = expected(function, keep) & keep[:, None, :, None]
    return amount(float(mask.broadcast_to(right.shape)[right].double().abs().max()))


def _scores(keep: Tensor, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(len(keep), 1, LENGTH, LENGTH, generator=generator, dtype=torch.float64).to(dtype)


def _weights(function: Function, keep: Tensor, *, strong: bool = False) -> Difference:
    """Of queries that are tokens."""
    right, scores, mask = expected(function, keep), _scores(keep, function.dtype), built(function, keep)
    if mask is None and function.direction == "causal" and bool(keep.all()):
        return amount(0.0, n_compared=0)  # left to attention's is_causal
    if strong:
        scores = scores.masked_fill(~right, STRONG)
    found = applied(mask, scores)
    wanted = scores.masked_fill(~right, -torch.inf).softmax(-1)
    difference = (found - wanted)[keep[:, None, :, None].expand_as(right)].abs().max()
    is_number = bool(difference.isfinite())
    return Difference(float(difference) if is_number else float("inf"), "weights", is_number, 1)


def _numbers(function: Function, keep: Tensor, shift: float = 0.0) -> Difference:
    """Of all queries: what padded ones give is read by the next layer."""
    mask, scores = built(function, keep), _scores(keep, function.dtype) + shift
    if mask is not None and mask.dtype == torch.bool:  # added to nothing: torch's own attention takes it
        states = scores[..., :3].contiguous()
        found = scaled_dot_product_attention(states, states, states, attn_mask=mask.broadcast_to(scores.shape))
    else:
        found = applied(mask, scores)
    return amount(0.0) if bool(found.isfinite().all()) else Difference(float("inf"), "weights", False, 1)


def _numbers_in(function: Function, keep: Tensor, dtype: torch.dtype) -> Difference:
    with function.cast_to(dtype):
        return _numbers(function, keep, shift=-64.0)


def _dtype(function: Function) -> torch.dtype | None:
    """Of the mask; None = there is none, or it raises."""
    try:
        return getattr(built(function, keeps(ROWS["padding on the right"])), "dtype", None)
    except Exception:  # the rules about keys show it
        return None


def _can_be_narrow(function: Function) -> str | None:
    is_narrow = function.takes_dtype or _dtype(function) in NARROW
    return None if is_narrow else f"its mask is {str(_dtype(function)).removeprefix('torch.')}"


_rule = rules_of("mask")

RULES = (
    _rule(
        "values",
        "A mask is bool, True = may attend, or it is added: 0 where it allows, very low elsewhere.",
        "vllm-project/speculators 691: bool added as 1 and 0",
        forms,
    ),
    _rule(
        "keys",
        "Tokens attend to exactly the tokens of their row, and in a causal mask to none that follow.",
        "huggingface/transformers 38094: an inverted mask; 42820: a causal one where nothing is padded",
        keys,
    ),
    _rule("strength", "No score overcomes it.", "huggingface/transformers 17306: finite biases", strong),
    _rule(
        "empty-row",
        "Where there is nothing to attend to, softmax gives numbers, or the builder raises.",
        "pytorch/pytorch 24816, 103749; huggingface/transformers 45491: softmax over nothing",
        nothing,
        may_refuse=True,
    ),
    _rule(
        "narrow-dtypes",
        "In float16 and bfloat16 it leaves room for negative scores.",
        "huggingface/transformers 17306, 17437: finfo.min plus a negative score",
        narrow,
        _can_be_narrow,
        may_refuse=True,
    ),
)
