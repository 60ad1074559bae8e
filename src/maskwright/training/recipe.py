"""How a sentence-transformers folder turns token states into a vector, read from its own files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import torch
from huggingface_hub import snapshot_download
from safetensors.torch import load_file
from torch import Tensor, nn

from maskwright.errors import InputError
from maskwright.training.config import Pooling

_ACTIVATIONS = {"Tanh": nn.Tanh, "Identity": nn.Identity, "ReLU": nn.ReLU, "GELU": nn.GELU}
_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What follows the encoder. `folder` holds the encoder and tokenizer; `head` maps pooled `[B, D]` onward."""

    folder: str
    pooling: Pooling = "mean"
    head: tuple[nn.Module, ...] = ()
    normalize: bool = False
    max_length: int | None = None
    lower_case: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None

    def prompt(self, name: str | None) -> str:
        """The text to put before every text: the named prompt, else the folder's default, else nothing.

        Raises:
            InputError: the folder has no prompt of that name.
        """
        name = name or self.default_prompt
        if name is None:
            return ""
        if name not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise InputError(f"the model has no prompt '{name}'; it has {known}", where="prompt_name")
        return self.prompts[name]


def read_recipe(name: str) -> Recipe:
    """The recipe of a local folder or hub name; mean pooling for one that is not of sentence-transformers.

    Raises:
        InputError: the folder does something between tokens and vector that is not done here.
    """
    folder = Path(name).expanduser()
    if not folder.is_dir():
        if name.startswith((".", "/", "~")) or name.count("/") > 1:
            raise InputError(f"no such folder: {name}", where="model")
        folder = download(name)
    if not (folder / "modules.json").exists():
        return Recipe(str(folder))
    modules = [(row["type"].rpartition(".")[2], folder / row["path"]) for row in _json(folder / "modules.json")]
    kinds = [kind for kind, _ in modules]
    head_kinds = kinds[2 : -1 if kinds[-1] == "Normalize" else None]
    if kinds[:2] != ["Transformer", "Pooling"] or any(kind != "Dense" for kind in head_kinds):
        raise InputError(
            f"{name} chains {' + '.join(kinds)}; done here are Transformer + Pooling [+ Dense ...] [+ Normalize]",
            where="model",
        )
    (_, encoder), (_, pooling) = modules[:2]
    limits = _json(encoder / "sentence_bert_config.json", optional=True)
    texts = _json(folder / "config_sentence_transformers.json", optional=True)
    recipe = Recipe(
        str(encoder),
        pooling=_pooling(_json(pooling / "config.json"), name),
        head=tuple(_dense(path, name) for kind, path in modules if kind == "Dense"),
        normalize=kinds[-1] == "Normalize",
        max_length=limits.get("max_seq_length"),
        lower_case=bool(limits.get("do_lower_case")),
        prompts=texts.get("prompts", {}),
        default_prompt=texts.get("default_prompt_name"),
    )
    if not _json(pooling / "config.json").get("include_prompt", True) and any(recipe.prompts.values()):
        raise InputError(f"{name} leaves its prompts out of pooling, which is not done here", where="model")
    return recipe


def _pooling(config: dict[str, Any], name: str) -> Pooling:
    modes = config.get("pooling_mode")
    if modes is None:
        flags = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens"}
        known = [mode for mode, flag in flags.items() if config.get(flag)]
        others = [key for key, on in config.items() if key.startswith("pooling_mode_") and on is True]
        modes = known if len(others) == len(known) else others
    modes = [modes] if isinstance(modes, str) else list(modes)
    for mode in get_args(Pooling):
        if modes == [mode]:
            return mode
    raise InputError(f"{name} pools by {' + '.join(modes)}; done here are mean, cls and max", where="model")


def _dense(folder: Path, name: str) -> nn.Module:
    config = _json(folder / "config.json")
    activation = config.get("activation_function", "Tanh").rpartition(".")[2]
    names = [config.get("module_input_name"), config.get("module_output_name")]
    if (
        activation not in _ACTIVATIONS
        or config.get("use_residual")
        or any(n and n != "sentence_embedding" for n in names)
    ):
        raise InputError(f"{name}: its Dense module (activation {activation}) is not done here", where="model")
    if not (folder / "model.safetensors").exists():
        raise InputError(f"{folder} has no model.safetensors", where="model")
    weights = load_file(folder / "model.safetensors")
    linear = nn.Linear(config["in_features"], config["out_features"], bias=config.get("bias", True))
    linear.load_state_dict({key.removeprefix("linear."): value for key, value in weights.items()})
    return nn.Sequential(linear, _ACTIVATIONS[activation]()).eval()


def download(name: str) -> Path:
    """A hub name's configuration, tokenizer and safetensors, as a local folder.

    Raises:
        InputError: it cannot be had.
    """
    try:
        return Path(snapshot_download(name, allow_patterns=list(_FILES), ignore_patterns=["onnx/*", "openvino/*"]))
    except (OSError, ValueError) as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        message = f"cannot load {name} (neither a local folder, nor to be had from the hub): {reason}"
        raise InputError(message, where="model") from error


def _json(path: Path, *, optional: bool = False) -> Any:
    if optional and not path.exists():
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", where=str(path)) from error


def apply_head(pooled: Tensor, head: tuple[nn.Module, ...]) -> Tensor:
    """Pooled vectors `[B, D]` through a recipe's dense layers: `[B, E]`."""
    with torch.autocast(pooled.device.type, enabled=False):
        for module in head:
            pooled = module.to(pooled.device)(pooled.float())
    return pooled
