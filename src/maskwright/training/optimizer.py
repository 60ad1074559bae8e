"""Layer-wise learning-rate decay: the nearer a weight is to the input, the less it moves."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from maskwright.encoders.layers import layer_lists
from maskwright.encoders.pack import encoder_of
from maskwright.errors import InputError


def heights(model: nn.Module) -> dict[str, int]:
    """How many steps below the head every parameter stands, by name: the exponent of its learning rate's decay.

    The head, a pooler and norms after the last layer: 0; the last of n layers: 1; the first: n; all embeddings, and
    what stands between them and the first layer: n + 1.

    Raises:
        InputError: the encoder has no list of layers, or its layers share their weights (ALBERT).

    Example:
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> config = BertConfig(vocab_size=61, hidden_size=22, num_attention_heads=2, num_hidden_layers=3)
        >>> found = heights(BertForSequenceClassification(config))
        >>> found["classifier.weight"], found["bert.encoder.layer.0.output.dense.bias"]
        (0, 3)

    Source: Howard and Ruder 2018 (discriminative fine-tuning); the scheme by layer as in ELECTRA and BEiT.
    """
    base: PreTrainedModel = encoder_of(model)[1]
    layers, n_layers = layer_lists(base), base.config.num_hidden_layers
    if not layers:
        raise InputError(
            f"{base.config.model_type} has no list of {n_layers} layers, each with weights of its own; leave it at 1",
            "layer_decay",
        )
    of_layer = {id(p): n_layers - i for each in layers for i, layer in enumerate(each) for p in layer.parameters()}
    embedded = {id(p) for module in base.modules() if isinstance(module, nn.Embedding) for p in module.parameters()}
    found: dict[int, int] = {}
    below = True
    for name, parameter in base.named_parameters():
        if id(parameter) in of_layer:
            found[id(parameter)], below = of_layer[id(parameter)], False
        else:
            is_embedding = below or id(parameter) in embedded or "embed" in name
            found[id(parameter)] = n_layers + 1 if is_embedding and not name.startswith("pooler.") else 0
    return {name: found.get(id(parameter), 0) for name, parameter in model.named_parameters()}


def decayed_groups(
    model: nn.Module, learning_rate: float, layer_decay: float, weight_decay: float, decayed: Collection[str]
) -> list[dict[str, Any]]:
    """Parameter groups for a torch optimizer, the head's first: lr = learning_rate * layer_decay ** height.

    Args:
        model: any model with a transformers encoder inside.
        learning_rate: the head's.
        layer_decay: factor from a layer to the one below it, in (0, 1].
        weight_decay: of the parameters in `decayed`; 0 for all others.
        decayed: names of parameters.

    Raises:
        InputError: see `heights`.
    """
    groups: dict[tuple[int, bool], list[nn.Parameter]] = {}
    at = heights(model)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups.setdefault((at[name], name not in decayed), []).append(parameter)
    return [
        {
            "params": parameters,
            "lr": learning_rate * layer_decay**height,
            "weight_decay": 0.0 if is_plain else weight_decay,
        }
        for (height, is_plain), parameters in sorted(groups.items(), key=lambda group: group[0])
    ]
