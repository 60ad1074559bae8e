"""Mask later: [MASK] enters before one of the encoder's last layers; the layers before it see visible tokens only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from maskwright.core.layout import Layout
from maskwright.encoders.layers import layer_lists
from maskwright.encoders.override import override, restore
from maskwright.encoders.pack import encoder_of, packed_states
from maskwright.errors import InputError, UnsupportedModelError


def layers_of(model: nn.Module) -> nn.ModuleList:
    """The encoder's layers, in order.

    Raises:
        UnsupportedModelError: they are shared, or not in one list.
    """
    base = encoder_of(model)[1]
    lists = layer_lists(base)
    if len(lists) != 1:
        n = base.config.num_hidden_layers
        raise UnsupportedModelError(f"{base.config.model_type} has no list of {n} layers that [MASK] could enter amid")
    return lists[0]


def check_late(model: nn.Module, n_late: int) -> None:
    """Raises: InputError, unless there are layers before the last `n_late`."""
    n = len(layers_of(model))
    if n_late >= n:
        raise InputError(f"must be below the encoder's {n} layers for decoder='mask_later', got {n_late}", "n_layers")


def late_states(
    model: nn.Module, n_late: int, mask: Tensor, input_ids: Tensor, keep: Tensor, hidden: Tensor, **inputs: Any
) -> tuple[Tensor, Layout]:
    """The last states of all kept tokens `[T, D]` and their Layout; hidden ones take part in `n_late` layers only.

    Args:
        model: packed.
        n_late: layers that see every token.
        mask: `[D]`, what stands for a hidden token's embedding; positions are added as to any other.
        input_ids, keep, hidden: `[B, L]`; keep True = a token, hidden True = [MASK] takes its place.
        inputs: the encoder's other arguments.

    Raises:
        UnsupportedModelError: layers that give back more than states.

    Source: Liao et al. 2022, Mask More and Mask Later.
    """
    layers = layers_of(model)
    n_early = len(layers) - n_late
    visible = keep & ~hidden
    early = _states_before(layers, n_early, model, input_ids=input_ids, attention_mask=visible, **inputs)
    table = encoder_of(model)[1].get_input_embeddings()
    embedded = torch.where(hidden[..., None], mask.to(table.weight.dtype), table(input_ids))
    where = Layout.from_mask(keep).pack(visible).nonzero().squeeze(1)

    def enter(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        states = args[0]  # [1, T, D], or [B, L, D] where no slot is padded
        entered = states.flatten(0, 1).index_copy(0, where, early.to(states.dtype))
        return (entered.view_as(states), *args[1:])

    handle = layers[n_early].register_forward_pre_hook(enter)
    try:
        with _skipped(layers[:n_early]):
            return packed_states(model, inputs_embeds=embedded, attention_mask=keep, **inputs)
    finally:
        handle.remove()


class _ReachedError(Exception):
    """Ends a forward pass where its result is known."""


def _states_before(layers: nn.ModuleList, n: int, model: nn.Module, **inputs: Any) -> Tensor:
    """What layer n is given, `[T, D]`; it and what follows are not computed."""
    found: list[Tensor] = []

    def check(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if not isinstance(output, Tensor):
            raise UnsupportedModelError(
                f"{type(module).__name__} gives back more than states; [MASK] cannot enter late"
            )

    def stop(module: nn.Module, args: tuple[Any, ...]) -> None:
        found.append(args[0].flatten(0, 1))
        raise _ReachedError

    handles = [layers[n - 1].register_forward_hook(check), layers[n].register_forward_pre_hook(stop)]
    try:
        packed_states(model, **inputs)
    except _ReachedError:
        return found[0]
    finally:
        for handle in handles:
            handle.remove()
    raise AssertionError("the layer was never reached")


@contextmanager
def _skipped(layers: nn.ModuleList) -> Iterator[None]:
    """Layers that hand on what they are given."""
    for layer in layers:
        override(layer, _hand_on)
    try:
        yield
    finally:
        for layer in layers:
            restore(layer)


def _hand_on(layer: nn.Module, states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return states
