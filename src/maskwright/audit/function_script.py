"""A check of a function as a script in plain torch: its calls, and what they give."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import PurePath
from typing import Any

import torch
from torch import Tensor, nn

from maskwright.audit.compare import Measure
from maskwright.audit.function import Function

MOST_CALLS = 5
LONGEST = 1000  # numbers of a tensor that are written down
FEATURES = 3  # of states that are shown, where the function takes any number of them
_ARGUMENTS = {"pooling": ("hidden", "keep"), "loss": ("logits", "labels"), "mask": ("keep",)}


def function_script(check: Measure, function: Function) -> str:
    """Python source that makes the calls of a check, the largest first, and prints what they give; "" for collators."""
    if function.kind not in _ARGUMENTS:
        return ""
    with function.recorded() as calls, suppress(Exception):  # the script is to show what a call raises
        check.run(function)
    name, source = _imported(function)
    lines: list[str] = []
    known: dict[str, Tensor] = {}
    calls = sorted(calls[-MOST_CALLS:], key=lambda call: -call[0][0].numel())
    for number, (arguments, options) in enumerate(calls):
        names = [f"{argument}{number}" for argument in _ARGUMENTS[function.kind]]
        for argument, value in zip(names, arguments, strict=True):
            shown = _narrowed(value.detach(), function) if argument.startswith("hidden") else value.detach()
            lines.append(f"{argument} = {_spelled(shown, known)}")
            known[argument] = shown
        if arguments[0].requires_grad:
            lines.append(f"x{number} = {names[0]}.clone().requires_grad_()")
            lines.append(f"{name}({', '.join([f'x{number}', *names[1:]])}).sin().sum().backward()")
            lines.append(f"print(x{number}.grad)")
        else:
            given = [*names, *(f"{key}={value}" for key, value in options.items())]
            lines.append(f"print({name}({', '.join(given)}))")
    body = "\n".join(lines)
    odd = sorted(set(re.findall(r"\b(?:inf|nan)\b", body)))
    numbers = f"from math import {', '.join(odd)}\n\n" if odd else ""
    seed = "torch.manual_seed(0)\n" if "torch.randn" in body else ""
    return f"# {check.name}\n{numbers}import torch\n{source}\n\n{seed}{body}\n"


def _imported(function: Function) -> tuple[str, str]:
    """(the name it is called by, the lines that bring it)."""
    file, _, name = function.name.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        return "call", "\ncall = ...  # your function"
    is_made = type(function.call).__name__ == name
    return "made" if is_made else name, f"from {PurePath(file).stem} import {name}" + (
        f"\n\nmade = {name}()" if is_made else ""
    )


def _narrowed(hidden: Tensor, function: Function) -> Tensor:
    has_weights = isinstance(function.call, nn.Module) and any(True for _ in function.call.parameters())
    return hidden if has_weights else hidden[..., :FEATURES]


def _spelled(value: Tensor, known: dict[str, Tensor]) -> str:
    """The tensor as source text: by an earlier one where it comes of that one, else number by number."""
    if not value.is_floating_point():
        if same := next((name for name, other in known.items() if _is_same(value, other)), None):
            return same
        if value.dtype == torch.bool and torch.equal(value, torch.arange(value.shape[1]) < value.sum(1)[:, None]):
            return f"torch.arange({value.shape[1]}) < torch.tensor({value.sum(1)[:, None].tolist()})"
        dtype = "" if value.dtype == torch.int64 else f", dtype={value.dtype}"
        return f"torch.tensor({value.long().tolist()}{dtype})"
    for name, other in known.items():
        if other.is_floating_point() and (how := _made_of(value, other)):
            return name + how
    dtype = "" if value.dtype == torch.float32 else f", dtype={value.dtype}"
    if value.numel() <= LONGEST:
        return f"torch.tensor({_written(value.tolist())}{dtype})"
    mean, scale = round(float(value.double().mean())), float(f"{value.double().std():.1g}")
    factor, shift = f"{scale:g} * " if scale != 1 else "", f" + {mean}" if abs(mean) > scale / 2 else ""
    drawn = f"{factor}torch.randn({list(value.shape)}){shift}"
    return f"({drawn}).to({value.dtype})" if dtype else drawn


def _made_of(value: Tensor, other: Tensor) -> str:
    """What makes it of another tensor: a part, another order, another dtype, one number in some slots; "" = nothing."""
    if value.dtype != other.dtype:
        return f".to({value.dtype})" if torch.equal(value, other.to(value.dtype)) else ""
    n, width = value.shape[:2]
    for row in range(len(other) - n + 1):
        for start in range(other.shape[1] - width + 1):
            if torch.equal(value, other[row : row + n, start : start + width]):
                return f"[{row}:{row + n}, {start}:{start + width}]"
    if value.shape != other.shape:
        return ""
    order = [next((i for i, row in enumerate(other) if torch.equal(row, one)), -1) for one in value]
    if -1 not in order:
        return f"[{order}]"
    slots = (value != other).any(-1)
    changed = value[slots].flatten()
    if not bool((changed == changed[0]).all() or changed.isnan().all()):
        return ""
    return f".masked_fill(torch.tensor({slots.long().tolist()}).bool()[..., None], {float(changed[0]):g})"


def _is_same(value: Tensor, other: Tensor) -> bool:
    return value.dtype == other.dtype and torch.equal(value, other)


def _written(numbers: Any) -> str:
    if isinstance(numbers, list):
        return f"[{', '.join(map(_written, numbers))}]"
    text = f"{numbers:.2g}"
    return text if re.search("[.ein]", text) else f"{text}."
