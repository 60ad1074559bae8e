"""From the arguments of a padded call to those of a packed one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from maskwright.attention.buckets import Plan
from maskwright.attention.carrier import PlanCarrier
from maskwright.core.layout import Layout
from maskwright.encoders.families import Family
from maskwright.errors import PackingError

# Arguments that ask for more than the kept tokens' states.
_REFUSED = {
    "encoder_hidden_states": "it has no cross-attention",
    "encoder_attention_mask": "it has no cross-attention",
    "past_key_values": "an encoder keeps no cache",
    "cache": "an encoder keeps no cache",
    "entity_ids": "entities stand outside the token axis",
    "lengths": "give an attention_mask instead",
    "sequence_id": "give one text a row",
    "pixel_values": "images stand outside the token axis",
}


@cache
def _parameters(forward: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(forward).parameters)[1:]


def parameters(module: nn.Module) -> tuple[str, ...]:
    """Names of the arguments of a module's forward, without self."""
    return _parameters(type(module).forward)


def named(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Positional and keyword arguments of a call, all by name; those left at None are left out."""
    given = dict(zip(parameters(module), args, strict=False)) | kwargs
    return {name: value for name, value in given.items() if value is not None}


def layout_of(inputs: dict[str, Any]) -> Layout:
    """The layout a call's attention_mask asks for; all tokens take part where there is none.

    Raises:
        PackingError: neither input_ids nor inputs_embeds is given.
        MaskError, EmptyRowError: see `Layout.from_mask`.
    """
    tokens = inputs.get("input_ids", inputs.get("inputs_embeds"))
    if tokens is None:
        raise PackingError("a packed model needs input_ids or inputs_embeds")
    mask = inputs.get("attention_mask")
    if mask is None:
        mask = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
    layout = Layout.from_mask(mask.to(tokens.device))
    if tokens.shape[:2] != (layout.n_rows, layout.length):
        raise PackingError(
            f"attention_mask {tuple(mask.shape)} does not fit the inputs {tuple(tokens.shape[:2])} [B, L]"
        )
    return layout


def pack_inputs(base: Any, family: Family, inputs: dict[str, Any], layout: Layout) -> dict[str, Any]:
    """The arguments for one packed row `[1, T]`: every per-token tensor gathered, each token at its original position.

    Raises:
        PackingError: an argument that a packed call could not honour.
    """
    if inputs.get("output_attentions") or (base.config.output_attentions and "output_attentions" not in inputs):
        raise PackingError("a packed model forms no attention matrix; call maskwright.unpack(model) to look at one")
    for name, why in _REFUSED.items():
        if name in inputs:
            raise PackingError(f"a packed model takes no {name}: {why}")
    inputs.pop("attention_mask", None)
    takes = parameters(base)
    if family.embed_first and "inputs_embeds" not in inputs:
        inputs["inputs_embeds"] = base.embeddings(
            input_ids=inputs.pop("input_ids"), attention_mask=layout.keep, position_ids=inputs.get("position_ids")
        )
    if runs_unpacked(family, layout):
        carrier = PlanCarrier.of(Plan(layout), next(base.parameters()).dtype)
        return inputs | {"attention_mask": carrier, "return_dict": True}
    if "position_ids" in takes and "position_ids" not in inputs:
        inputs["position_ids"] = default_positions(base, family, inputs, layout)
    packed = {name: _packed(name, value, layout) for name, value in inputs.items()}
    dtype = next(base.parameters()).dtype
    carrier = PlanCarrier.of(Plan(layout), dtype, plain=family.plain_mask)
    if family.plain_mask and family.rule is None:
        packed["plan_carrier"] = carrier
    return packed | {"attention_mask": carrier, "return_dict": True}


def runs_unpacked(family: Family, layout: Layout) -> bool:
    """Whether a batch without a masked slot stays `[B, L]`: then even positions are embedded once, not once a row."""
    return layout.is_full and family.rule is None and not family.plain_mask and not family.embed_first


def _packed(name: str, value: Any, layout: Layout) -> Any:
    if not isinstance(value, Tensor) or value.ndim == 0:
        return value
    if value.ndim >= 2 and value.shape[1] == layout.length and value.shape[0] in (1, layout.n_rows):
        whole = value if value.shape[0] == layout.n_rows else value.expand(layout.n_rows, *value.shape[1:])
        return layout.pack(whole)[None]
    raise PackingError(
        f"cannot pack the argument {name} of shape {tuple(value.shape)}: "
        f"expected [B, L, ...] = [{layout.n_rows}, {layout.length}, ...]"
    )


def default_positions(base: Any, family: Family, inputs: dict[str, Any], layout: Layout) -> Tensor:
    """The position ids `[B, L]` that the stock model would number its slots with."""
    slots = torch.arange(layout.length, device=layout.index.device).expand(layout.n_rows, -1)
    if family.positions != "from_pad":
        return slots
    pad = base.config.pad_token_id
    if "input_ids" not in inputs:
        return slots + pad + 1
    real = (inputs["input_ids"] != pad).long()
    return real.cumsum(1) * real + pad
