"""A model's own dropout switched on for a while, and nothing else of what training mode does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from maskwright.encoders.pack import packing_of
from maskwright.errors import InputError

# What else models do in training mode, and the value that keeps them from it.
_SILENT: dict[str, Any] = {"gradient_checkpointing": False, "layerdrop": 0.0}


@contextmanager
def dropout_on(model: nn.Module) -> Iterator[None]:
    """Evaluation mode but for dropout, attention dropout included; afterwards the model is as it was.

    Hugging Face attention takes its dropout rate from a module it holds or from a number, and applies it if the
    attention module itself is in training mode: switching on `nn.Dropout` modules alone leaves it off. So training
    mode is set on dropout modules, on those that hold one, and on those that hold a dropout rate, whichever attention
    is in use (eager, sdpa, packed). Batch norms, layer drop, gradient checkpointing and DropToken stay off.

    Args:
        model: any model; its dropout draws from torch's global generator.

    Raises:
        InputError: every dropout rate in the model is 0, so that nothing would be random.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> model = BertModel(BertConfig(vocab_size=61, hidden_size=22, num_attention_heads=2)).eval()
        >>> with dropout_on(model):
        ...     states = [model(torch.tensor([[7, 8, 9]])).last_hidden_state for _ in range(2)]
        >>> torch.equal(*states), model.training
        (False, False)
    """
    if not has_dropout(model):
        raise InputError("all its dropout rates are 0, so that no two passes would differ", "model")
    silenced = [
        (module, name, getattr(module, name))
        for module in model.modules()
        for name in _SILENT
        if getattr(module, name, None)
    ]
    packing = packing_of(model)
    rate = 0.0 if packing is None else packing.drop_rate
    with evaluating(model):
        try:
            for module in model.modules():
                module.training = _needs_training(module)
            for module, name, _ in silenced:
                setattr(module, name, _SILENT[name])
            if packing is not None:
                packing.drop_rate = 0.0
            yield
        finally:
            for module, name, value in silenced:
                setattr(module, name, value)
            if packing is not None:
                packing.drop_rate = rate


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while; afterwards every module is in the mode it was in.

    Example:
        >>> model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(3).eval())
        >>> with evaluating(model):
        ...     model[0].training
        False
        >>> model[0].training, model[1].training
        (True, False)
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def has_dropout(model: nn.Module) -> bool:
    """Whether any dropout in a model has a rate above 0.

    Example:
        >>> has_dropout(nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.1))), has_dropout(nn.Dropout(0.0))
        (True, False)
    """
    return any(rate > 0 for module in model.modules() for rate in _rates(module))


def _needs_training(module: nn.Module) -> bool:
    return bool(_rates(module)) or any(_is_dropout(child) for child in module.children())


def _is_dropout(module: nn.Module) -> bool:
    return isinstance(module, _DropoutNd)


def _rates(module: nn.Module) -> list[float]:
    """A dropout module's rate, or the dropout rates that another module keeps as plain numbers."""
    if isinstance(module, _DropoutNd):
        return [module.p]
    return [value for name, value in vars(module).items() if "dropout" in name and type(value) is float]
