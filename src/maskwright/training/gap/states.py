"""All layers' states of the kept tokens, and how they would be with other embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from torch import Tensor, nn

from maskwright import pooling
from maskwright.core.layout import Layout
from maskwright.encoders.inputs import layout_of, named, pack_inputs
from maskwright.encoders.pack import encoder_of, packing_of
from maskwright.errors import InputError


class States(NamedTuple):
    """`layers` are `[T, D]`, embeddings first; `pooled` are of the last layer, by name, `[B, D]`."""

    layers: tuple[Tensor, ...]
    pooled: dict[str, Tensor]
    layout: Layout


def states_of(model: nn.Module, input_ids: Tensor, keep: Tensor) -> States:
    """A packed model's states. Shapes: input_ids int64 `[B, L]`; keep bool `[B, L]`, True = takes part.

    Raises:
        InputError: the model is not packed.
        EmptyRowError: a row keeps no token.
    """
    packing = packing_of(model)
    if packing is None:
        raise InputError("is not packed; call maskwright.pack(model) first", "model")
    _, base = encoder_of(model)
    given = {"input_ids": input_ids, "attention_mask": keep, "output_hidden_states": True}
    inputs = named(base, (), given)
    layout = layout_of(inputs)
    outputs = base(**pack_inputs(base, packing.family, inputs, layout))
    last = outputs.last_hidden_state.flatten(0, 1)
    pooled = {"mean": pooling.mean(last, layout), "cls": pooling.first(last, layout)}
    return States(tuple(states.flatten(0, 1) for states in outputs.hidden_states), pooled, layout)


def embedding_table(model: nn.Module) -> nn.Parameter:
    """The input embeddings `[V, D]` of the encoder in a model."""
    table: nn.Parameter = encoder_of(model)[1].get_input_embeddings().weight
    return table


@contextmanager
def embeddings_replaced(model: nn.Module, table: Tensor) -> Iterator[None]:
    """For a while, another input table `[V, D]`."""
    weight = embedding_table(model)
    own = weight.data
    weight.data = table
    try:
        yield
    finally:
        weight.data = own
