"""Ways to run a model that should change nothing: without dropout, checkpointed, compiled, packed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from maskwright.encoders.pack import pack, packing_of, unpack
from maskwright.errors import InputError


@contextmanager
def changed_by(model: nn.Module, settings: Mapping[str, Any]) -> Iterator[None]:
    """Apply those of `settings` that are known here, and undo them.

    Args:
        model: the whole model.
        settings: `no_dropout`, `checkpointing` and `packed` are True or False; `compiled` names a backend of
            torch.compile. Others are passed over.

    Raises:
        InputError: checkpointing or packing of a model that knows neither.
        UnsupportedModelError: a family that cannot be packed.

    Example:
        >>> model = nn.Dropout(0.3)
        >>> with changed_by(model, {"no_dropout": True}):
        ...     model.p
        0.0
        >>> model.p
        0.3
    """
    ways: dict[str, Callable[[Any], Any]] = {
        "no_dropout": lambda wanted: _without_dropout(model),
        "checkpointing": lambda wanted: _checkpointed(model),
        "packed": lambda wanted: _packed(model),
        "compiled": lambda backend: _compiled(model, backend),
    }
    with ExitStack() as stack:
        for name, way in ways.items():
            if settings.get(name):
                stack.enter_context(way(settings[name]))
        yield


@contextmanager
def _without_dropout(model: nn.Module) -> Iterator[None]:
    """Every rate of dropout at 0: of modules, of numbers that modules hold, and of configurations; buffers restored."""
    holders: dict[int, Any] = {}
    for module in model.modules():
        holders[id(module)] = module
        if (config := getattr(module, "config", None)) is not None:
            holders[id(config)] = config
    changed = [
        (holder, name, value)
        for holder in holders.values()
        for name, value in vars(holder).items()
        if isinstance(value, float) and value and _is_a_rate(holder, name)
    ]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    for holder, name, _ in changed:
        setattr(holder, name, 0.0)
    try:
        yield
    finally:
        for holder, name, value in changed:
            setattr(holder, name, value)
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def _is_a_rate(holder: Any, name: str) -> bool:
    known = any(part in name for part in ("dropout", "drop_prob", "layerdrop", "drop_rate", "jitter_noise"))
    return known or (name == "p" and "Drop" in type(holder).__name__)


@contextmanager
def _checkpointed(model: nn.Module) -> Iterator[None]:
    """As `activation_checkpointing_enable` does it, without the hooks that it leaves behind."""
    again = partial(checkpoint, use_reentrant=False)
    changed = [
        (vars(module), dict(vars(module))) for module in model.modules() if hasattr(module, "gradient_checkpointing")
    ]
    if not changed:
        raise InputError("knows no gradient checkpointing", type(model).__name__)
    for held, _ in changed:
        held.update(gradient_checkpointing=True, _gradient_checkpointing_func=again)
    try:
        yield
    finally:
        for held, before in changed:
            for name in ("gradient_checkpointing", "_gradient_checkpointing_func"):
                if name in before:
                    held[name] = before[name]
                else:
                    held.pop(name, None)


@contextmanager
def _packed(model: nn.Module) -> Iterator[None]:
    if packing_of(model) is not None:
        raise InputError("is packed already", type(model).__name__)
    pack(model)
    try:
        yield
    finally:
        unpack(model)


@contextmanager
def _compiled(model: nn.Module, backend: str) -> Iterator[None]:
    before = model._compiled_call_impl
    model.compile(backend=backend, dynamic=False)
    try:
        yield
    finally:
        model._compiled_call_impl = before
        torch.compiler.reset()
