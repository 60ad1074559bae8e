"""Ways to plant a fault in a module: its `forward` is wrapped on the instance, hooks and signature stay."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .models import MASK, attention


def wrap(module: nn.Module, around: Callable[[Callable[..., Any], dict[str, Any]], Any]) -> None:
    """Let `around(forward, arguments)` stand for the module's forward; it calls `forward(**arguments)` itself."""
    forward = module.forward
    signature = inspect.signature(forward)
    rest = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), None)

    @functools.wraps(forward)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        arguments = dict(signature.bind(*args, **kwargs).arguments)
        arguments |= arguments.pop(rest, {}) if rest else {}
        return around(forward, arguments)

    module.forward = wrapped


def change_argument(module: nn.Module, name: str, new: Callable[[Any], Any]) -> None:
    """Hand `new(value)` to the module instead of an argument; a missing one is None."""
    wrap(module, lambda forward, given: forward(**{**given, name: new(given.get(name))}))


def change_output(module: nn.Module, new: Callable[[Tensor, dict[str, Any]], Tensor]) -> None:
    """Give back `new(output, arguments)`; of a tuple or a model's output its first element is changed."""

    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        found = forward(**given)
        if isinstance(found, Tensor):
            return new(found, given)
        if isinstance(found, tuple):
            return (new(found[0], given), *found[1:])
        first = next(iter(found))
        found[first] = new(found[first], given)
        return found

    wrap(module, around)


def visible(mask: Tensor) -> Tensor:
    """What a mask of any form lets through: bool, True = may attend."""
    if mask.is_floating_point():
        return mask == 0
    return mask.bool()


def in_form(allowed: Tensor, mask: Tensor) -> Tensor:
    """Put a bool mask (True = may attend) into the form of another."""
    if not mask.is_floating_point():
        return allowed.to(mask.dtype)
    return torch.zeros(allowed.shape, dtype=mask.dtype).masked_fill(~allowed, torch.finfo(mask.dtype).min)


def edit_mask(model: nn.Module, layer: int, new: Callable[[Tensor], Tensor | None]) -> None:
    """Change what a layer's attention may see; `new` takes bool, True = may attend, and None drops the mask.

    Where no mask arrives (nothing is padded), none is made.
    """

    def edited(mask: Tensor | None) -> Tensor | None:
        if mask is None:
            return None
        allowed = new(visible(mask))
        return None if allowed is None else in_form(allowed, mask)

    change_argument(attention(model, layer), MASK.get(model.config.model_type, "attention_mask"), edited)


def drop_mask(*layers: int) -> Callable[[nn.Module], None]:
    """A plant: these layers' attention gets no mask."""

    def plant(model: nn.Module) -> None:
        for layer in layers:
            edit_mask(model, layer, lambda allowed: None)

    return plant


def invert_mask(*layers: int) -> Callable[[nn.Module], None]:
    """A plant: these layers' attention sees what it should not, and nothing else."""

    def plant(model: nn.Module) -> None:
        for layer in layers:
            edit_mask(model, layer, lambda allowed: ~allowed)

    return plant
