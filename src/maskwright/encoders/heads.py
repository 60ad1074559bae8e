"""A task model's own head on states that were computed elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from maskwright.encoders.override import stock
from maskwright.encoders.pack import encoder_of, packing_of
from maskwright.errors import InputError


def vocabulary_logits(model: nn.Module, states: Tensor) -> Tensor:
    """A packed masked-LM model's logits for states `[N, D]` of any tokens: `[N, V]`.

    The model's own forward runs, with an encoder that gives back `states`: whatever the family does between the two
    (dense layers, norms, factorised embeddings, biases) is done, and for these tokens alone.

    Raises:
        InputError: the model is not packed.
    """
    packing = packing_of(model)
    if packing is None:
        raise InputError("is not packed; call maskwright.pack(model) first", "model")
    inner, _ = encoder_of(model)
    packing.ready_states = states[None]
    try:
        ids = torch.zeros(1, len(states), dtype=torch.long, device=states.device)
        logits: Tensor = stock(inner, input_ids=ids, return_dict=True).logits
    finally:
        packing.ready_states = None
    return logits[0]
