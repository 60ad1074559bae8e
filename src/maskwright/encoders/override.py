"""Replacing a module's `forward` on the instance, and putting it back.

Forward hooks would be the public way, but some callers, sentence-transformers among them, call `model.forward` itself,
which runs no hooks; and a hook cannot run a module several times. Overrides survive copying and pickling.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

_PREVIOUS = "_maskwright_previous_forward"


def override(module: nn.Module, forward: Callable[..., Any], *context: Any) -> None:
    """Let `module(...)` run `forward(module, *context, ...)`, with the signature of the module's own forward."""
    previous = module.__dict__.get("forward")  # another library's override, such as accelerate's
    if previous is not None:
        object.__setattr__(module, _PREVIOUS, previous)
    replacement = partial(forward, module, *context)
    signature = inspect.signature(type(module).forward)
    replacement.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    module.forward = replacement


def restore(module: nn.Module) -> None:
    """Undo `override`."""
    module.__dict__.pop("forward", None)
    previous = module.__dict__.pop(_PREVIOUS, None)
    if previous is not None:
        module.forward = previous


def stock(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Call the forward that `override` replaced."""
    previous = module.__dict__.get(_PREVIOUS)
    return type(module).forward(module, *args, **kwargs) if previous is None else previous(*args, **kwargs)
