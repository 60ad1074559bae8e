"""The other side of encoder-decoders: futures, padding and cross-attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .case import Case, fault
from .models import on
from .plant import change_argument, in_form, visible

SELF = {"bart": "decoder.layers.{}.self_attn", "t5": "decoder.block.{}.layer.0.SelfAttention"}
CROSS = {"bart": "decoder.layers.{}.encoder_attn", "t5": "decoder.block.{}.layer.1.EncDecAttention"}
MASK = {"bart": "attention_mask", "t5": "mask"}


def part(model: Any, table: dict[str, str], layer: int) -> nn.Module:
    return model.get_submodule(table[model.config.model_type].format(layer))


def changed(table: dict[str, str], layer: int, new: Callable[[Tensor], Tensor | None]) -> Callable[[Any], None]:
    """A plant: the mask of a decoder's attention is changed where there is one; nothing is causal without one."""

    def plant(model: Any) -> None:
        module = part(model, table, layer)
        if table is SELF:
            module.is_causal = False

        def edited(mask: Tensor | None) -> Tensor | None:
            found = None if mask is None else new(visible(mask))
            return None if found is None else in_form(found, mask)

        change_argument(module, MASK[model.config.model_type], edited)

    return plant


def padding_only(allowed: Tensor) -> Tensor:
    return allowed.any(-2, keepdim=True).expand_as(allowed)


def causal_only(allowed: Tensor) -> Tensor:
    return torch.ones_like(allowed).tril()


def padding_visible(model: Any) -> None:
    """A decoder's mask is rebuilt from its length, so that its own padding is lost from it."""
    module = part(model, SELF, 1)

    def edited(mask: Tensor | None) -> Tensor | None:
        return None if mask is None else in_form(causal_only(visible(mask)), mask)

    change_argument(module, MASK[model.config.model_type], edited)


def case(name: str, kind: str, plant: Callable[[Any], None], table: dict[str, str], layer: int, **more: Any) -> Case:
    module = table[kind].format(layer).replace(".", r"\.")
    if kind == "t5":
        module += "|" + module.rpartition(r"\.")[0]
    return fault(name, kind, "decoder", more.pop("report"), on(kind, plant), module=module, **more)


LOOKS_AHEAD = {"rules": "decoder-future future", "cause": "no-causal-mask", "report": "transformers 48745"}
SEES_PADDING = {
    "rules": "cross-attention padding-amount padding-content padding-values padding-side holes holes-removed",
    "cause": "mask-never-arrives",
    "report": "encoder padding is visible to the decoder",
}
OWN_PADDING = {"rules": "decoder-padding", "cause": "mask-never-arrives", "report": "transformers 35909"}
CASES = [
    case("bart-decoder-sees-the-future", "bart", changed(SELF, 0, padding_only), SELF, 0, **LOOKS_AHEAD),
    case("t5-decoder-sees-the-future", "t5", changed(SELF, 1, padding_only), SELF, 1, **LOOKS_AHEAD),
    case(
        "bart-cross-attention-sees-padding", "bart", changed(CROSS, 1, lambda allowed: None), CROSS, 1, **SEES_PADDING
    ),
    case("t5-cross-attention-sees-padding", "t5", changed(CROSS, 0, lambda allowed: None), CROSS, 0, **SEES_PADDING),
    case(
        "bart-cross-attention-inverted",
        "bart",
        changed(CROSS, 0, torch.logical_not),
        CROSS,
        0,
        **{**SEES_PADDING, "cause": "polarity"},
    ),
    case("bart-decoder-padding-visible", "bart", padding_visible, SELF, 1, **OWN_PADDING),
]
