"""maskwright: a token that is padded, masked or dropped changes nothing and costs nothing.

Names are loaded on first use, so that the command line can print its help without importing torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from maskwright._version import __version__

if TYPE_CHECKING:
    from maskwright import masks, pooling
    from maskwright.audit.runner import run_audit
    from maskwright.core.layout import Layout
    from maskwright.encoders.pack import pack, unpack
    from maskwright.masks.softmax import masked_log_softmax, masked_softmax
    from maskwright.objectives.corruption import MaskedCorruption
    from maskwright.objectives.mae import MaskedAutoencoder
    from maskwright.training.correct import correct_embeddings
    from maskwright.training.in_memory import predict

_MODULES = ("masks", "pooling")
_HOMES = {
    "Layout": "maskwright.core.layout",
    "MaskedAutoencoder": "maskwright.objectives.mae",
    "MaskedCorruption": "maskwright.objectives.corruption",
    "correct_embeddings": "maskwright.training.correct",
    "masked_log_softmax": "maskwright.masks.softmax",
    "masked_softmax": "maskwright.masks.softmax",
    "pack": "maskwright.encoders.pack",
    "predict": "maskwright.training.in_memory",
    "run_audit": "maskwright.audit.runner",
    "unpack": "maskwright.encoders.pack",
}

__all__ = [
    "Layout",
    "MaskedAutoencoder",
    "MaskedCorruption",
    "__version__",
    "correct_embeddings",
    "masked_log_softmax",
    "masked_softmax",
    "masks",
    "pack",
    "pooling",
    "predict",
    "run_audit",
    "unpack",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"maskwright.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'maskwright' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
