"""Where an encoder keeps its layers."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel


def layer_lists(base: PreTrainedModel) -> list[nn.ModuleList]:
    """The encoder's lists of layers, one module a layer: one list, or several where a family keeps attention and
    feed-forward apart (XLM); none where layers share their weights (ALBERT) or stand otherwise.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=61, hidden_size=22, num_attention_heads=2, num_hidden_layers=3)
        >>> [len(layers) for layers in layer_lists(BertModel(config))]
        [3]
    """
    n_layers = base.config.num_hidden_layers
    if getattr(base.config, "num_hidden_groups", n_layers) < n_layers:
        return []
    found: dict[str, nn.ModuleList] = {}
    for name, module in base.named_modules():
        is_inside = any(name.startswith(f"{outer}.") for outer in found)
        if isinstance(module, nn.ModuleList) and len(module) == n_layers and not is_inside:
            found[name] = module
    return list(found.values())
