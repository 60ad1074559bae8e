"""How a module wants to be called: which arguments by name, which by place, and which ones besides ids and mask."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from maskwright.audit.trial import Laid
from maskwright.errors import InputError


class InapplicableError(InputError):
    """A trial that this model cannot be asked to run: no fault in it."""


def _zeros(laid: Laid) -> Tensor:
    return torch.zeros_like(laid.ids)


# What a module may need besides, and what stands for "nothing special" there.
_NEUTRAL: dict[str, Callable[[Laid], Tensor]] = {
    **dict.fromkeys(("token_type_ids", "segment_ids", "token_types", "segments", "langs", "lang_ids"), _zeros),
    "position_ids": lambda laid: laid.position,
    "bbox": lambda laid: _zeros(laid)[..., None].expand(-1, -1, 4),
}
_ALWAYS = frozenset({"bbox"})  # also where the signature says that it may be left out: BROS refuses that
_NO_MASK = frozenset({*_NEUTRAL, "labels", "inputs_embeds", "head_mask"})


class Calling:
    """The signature of a module's forward, read once.

    Args:
        model: any module.
        by_name: whether arguments that the signature leaves open go by name, as transformers models take them.
    """

    def __init__(self, model: nn.Module, *, by_name: bool) -> None:
        try:
            found = list(inspect.signature(model.forward).parameters.values())
        except (TypeError, ValueError):  # compiled code tells nothing about itself
            found = []
        kinds = {parameter.kind for parameter in found}
        self.any_name = inspect.Parameter.VAR_KEYWORD in kinds
        self.any_place = inspect.Parameter.VAR_POSITIONAL in kinds or not found
        self.by_name = self.any_name and (by_name or not self.any_place)
        self.parameters = {
            parameter.name: parameter
            for parameter in found
            if parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        }
        self._places = [p.name for p in self.parameters.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY]

    def names(self, argument: str) -> bool:
        """Whether an argument can be given by this name."""
        return argument in self.parameters or self.any_name

    @property
    def ids_name(self) -> str | None:
        """What the module calls its ids: that name, or its first argument; None = by place."""
        if "input_ids" in self.parameters:
            return "input_ids"
        if self._places and self.parameters[self._places[0]].default is inspect.Parameter.empty:
            return self._places[0]
        return "input_ids" if self.by_name else None

    @property
    def mask_name(self) -> str | None:
        """What the module calls its mask: that name, or its second argument; None = by place, or none is taken."""
        if "attention_mask" in self.parameters:
            return "attention_mask"
        second = self._places[1] if len(self._places) > 1 else None
        if second is not None and second not in _NO_MASK:
            return second
        return "attention_mask" if self.by_name else None

    def bound(self, given: Mapping[str, Any], laid: Laid) -> tuple[list[Any], dict[str, Any]]:
        """Arguments by place and by name for `given` (`input_ids` or `inputs_embeds`, `attention_mask`, ...).

        A mask is left out where the module has no place for one.

        Raises:
            InapplicableError: it needs a mask, and the trial is without one.
            InputError: it needs an argument that cannot be made up.
        """
        places: list[Any] = []
        named = dict(given)
        for argument, name in (("input_ids", self.ids_name), ("attention_mask", self.mask_name)):
            if argument not in named:
                continue
            value = named.pop(argument)
            if name is not None:
                named[name] = value
            elif argument == "input_ids" or self.any_place:
                places.append(value)
        for name, parameter in list(self.parameters.items())[len(places) :]:
            if name in named or (parameter.default is not inspect.Parameter.empty and name not in _ALWAYS):
                continue
            if name == self.mask_name:
                raise InapplicableError("it cannot be called without a mask", "forward")
            if name not in _NEUTRAL:
                reason = f"it needs '{name}', which cannot be made up"
                raise InputError(
                    f"{reason}: wrap it in a module that is called as (input_ids, attention_mask)", "forward"
                )
            named[name] = _NEUTRAL[name](laid)
        by_place = [name for name, p in self.parameters.items() if p.kind is p.POSITIONAL_ONLY and name in named]
        return [*places, *(named.pop(name) for name in by_place)], named
