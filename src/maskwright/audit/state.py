"""A model is left as it was: attributes, hooks, buffers, gradients, configuration; and so is torch's randomness."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from maskwright.errors import InputError


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Whatever happens to the model within, it is undone; randomness within is seeded, and not felt outside.

    Attributes of modules are put back (modes, hooks, tables of parameters and buffers), and what stands in buffers;
    what stands in weights is not looked at.

    Raises:
        InputError: a model that holds no numbers (meta device, lazy modules).

    Example:
        >>> model = nn.Dropout(0.5)
        >>> with untouched(model):
        ...     _ = model.eval()
        >>> model.training
        True
    """
    tensors = [*model.parameters(), *model.buffers()]
    if any(is_lazy(tensor) for tensor in tensors):
        raise InputError("its lazy modules have no weights yet: call it once before", "model")
    if any(tensor.is_meta for tensor in tensors):
        raise InputError("its weights are on the meta device and hold no numbers: load them before", "model")
    holders = [vars(holder) for holder in (*model.modules(), *_configs(model.modules()))]
    tables = [table for held in holders for table in (held, *_tables(held))]
    before = [dict(table) for table in tables]
    gradients = [(parameter, parameter.requires_grad, parameter.grad) for parameter in model.parameters()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    devices = sorted({tensor.device.index for tensor in tensors if tensor.device.type == "cuda"})
    try:
        with torch.random.fork_rng(devices):
            torch.manual_seed(0)
            yield
    finally:
        for table, content in zip(tables, before, strict=True):
            table.clear()
            table.update(content)
        for parameter, wanted, gradient in gradients:
            parameter.requires_grad_(wanted)
            parameter.grad = gradient
        for buffer, value in buffers:
            _put_back(buffer, value)


def _tables(held: dict[str, Any]) -> list[dict[Any, Any]]:
    """A module's own tables: of parameters, buffers, parts and hooks."""
    return [value for name, value in held.items() if isinstance(value, dict) and name.startswith("_")]


def _put_back(buffer: Tensor, value: Tensor) -> None:
    if buffer.shape == value.shape and torch.equal(buffer, value):
        return
    if buffer.shape != value.shape or buffer.is_inference():
        buffer.data = value
    else:
        with torch.no_grad():
            buffer.copy_(value)


def _configs(modules: Iterable[nn.Module]) -> list[Any]:
    configs: list[Any] = [getattr(module, "config", None) for module in modules]
    found = {id(config): config for config in configs if hasattr(config, "sub_configs")}
    for config in list(found.values()):
        parts = (getattr(config, name, None) for name in config.sub_configs)
        found |= {id(part): part for part in parts if part is not None}
    return list(found.values())
