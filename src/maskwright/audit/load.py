"""A model to audit, from a folder, the hub, or a Python file."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoConfig, AutoModel, PreTrainedModel

from maskwright.errors import InputError


def load_model(name: str, *, allow_pickle: bool = False, trust_remote_code: bool = False) -> nn.Module:
    """A task model, encoder or decoder as its configuration names it, or a SentenceTransformer.

    Args:
        name: a folder or hub name.
        allow_pickle: also read weights that are no safetensors; torch unpickles tensors and nothing else.
        trust_remote_code: run the Python code that comes with the model.

    Raises:
        InputError: neither a model folder nor to be had from the hub, or it asks for what is not allowed.
    """
    folder = Path(name).expanduser()
    if folder.is_file() or (not folder.exists() and (name.startswith((".", "/", "~")) or name.count("/") > 1)):
        raise InputError(f"no such folder: {name}", "model")
    where = str(folder) if folder.is_dir() else name
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    weights: dict[str, Any] = {"use_safetensors": None if allow_pickle else True, "dtype": torch.float32}
    try:
        if (folder / "modules.json").exists():
            return _sentence_transformer(where, options, weights)
        config = AutoConfig.from_pretrained(where, **options)
        model: nn.Module = _class_of(config).from_pretrained(where, **options, **weights)
    except InputError:
        raise
    except Exception as error:  # a damaged file may raise anything, in transformers, safetensors or torch
        raise InputError(f"cannot load {name}: {_told(error)}", "model") from error
    return model


def _class_of(config: Any) -> Any:
    """The class that a configuration names: its own code's, or transformers'."""
    if named := next((key for key in getattr(config, "auto_map", None) or {} if key.startswith("AutoModel")), None):
        return getattr(transformers, named, AutoModel)
    found = getattr(transformers, str((config.architectures or [""])[0]), None)
    return found if isinstance(found, type) and issubclass(found, PreTrainedModel) else AutoModel


def _told(error: Exception) -> str:
    """The error's first line that says something, and what lifts a refusal."""
    text = str(error)
    reason = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    if "trust_remote_code" in text:
        return "it comes with Python code of its own: read it, and give --trust_remote_code to run it"
    if "model.safetensors" in text:
        return f"{reason} (only safetensors are read unless --allow_pickle is given)"
    return reason


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
    except (Exception, SystemExit) as error:  # it is somebody's code: whatever it raises belongs into the message
        raise InputError(f"cannot be run: {type(error).__name__}: {error}", str(file)) from error
    if not hasattr(module, name):
        raise InputError(f"defines no '{name}'", str(file))
    return getattr(module, name)


def _sentence_transformer(name: str, options: dict[str, Any], weights: dict[str, Any]) -> nn.Module:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise InputError("needs sentence-transformers: pip install 'maskwright[sentence-transformers]'", name) from None
    model: nn.Module = SentenceTransformer(name, device="cpu", model_kwargs=weights, **options)
    return model
