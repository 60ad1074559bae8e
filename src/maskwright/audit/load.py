"""A model to audit, from a folder, the hub, or a Python file."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoConfig, AutoModel

from maskwright.errors import InputError


def load_model(name: str) -> nn.Module:
    """A task model, encoder or decoder as its configuration names it, or a SentenceTransformer; from safetensors only.

    Raises:
        InputError: neither a model folder nor to be had from the hub.
    """
    folder = Path(name).expanduser()
    if folder.is_file() or (not folder.exists() and (name.startswith((".", "/", "~")) or name.count("/") > 1)):
        raise InputError(f"no such folder: {name}", "model")
    try:
        if (folder / "modules.json").exists():
            return _sentence_transformer(name)
        config = AutoConfig.from_pretrained(name)
        architecture = getattr(transformers, (config.architectures or [""])[0], AutoModel)
        model: nn.Module = architecture.from_pretrained(name, use_safetensors=True, dtype=torch.float32)
    except (OSError, ValueError, ImportError) as error:
        if isinstance(error, InputError):
            raise
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InputError(f"cannot load {name}: {reason}", "model") from error
    return model


def load_callable(where: str) -> Any:
    """`file.py:name` -> what is called so there; the file is run.

    Raises:
        InputError: no such file, it raises, or there is no such name in it.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.py"
        >>> _ = file.write_text("def f():\\n    return 3\\n", encoding="utf-8")
        >>> load_callable(f"{file}:f")()
        3
    """
    path, _, name = where.rpartition(":")
    file = Path(path).expanduser()
    if not path or not file.is_file():
        raise InputError(f"must be file.py:name, and the file must be there, got '{where}'", "python")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # it is somebody's code: whatever it raises belongs into the message
        raise InputError(f"cannot be run: {type(error).__name__}: {error}", str(file)) from error
    if not hasattr(module, name):
        raise InputError(f"defines no '{name}'", str(file))
    return getattr(module, name)


def _sentence_transformer(name: str) -> nn.Module:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise InputError("needs sentence-transformers: pip install 'maskwright[sentence-transformers]'", name) from None
    model: nn.Module = SentenceTransformer(name, device="cpu")
    return model
