"""Loading models and tokenizers: safetensors only, no code from the hub, every failure in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from maskwright.data.tasks.base import TaskData
from maskwright.errors import InputError
from maskwright.training.kinds.table import KINDS, problem_of_config

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a local folder or hub name.

    Raises:
        InputError: the folder has no tokenizer, or the hub cannot be reached.
    """
    folder = _local_folder(name, "tokenizer")
    if folder and not any(
        (folder / file).exists() for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt")
    ):
        raise InputError(f"{folder} has no tokenizer.json (or vocab.txt)", where="tokenizer")
    with _one_line_errors(name, "tokenizer"):
        return AutoTokenizer.from_pretrained(name)


def load_encoder(name: str, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """An encoder without a task head, in evaluation mode.

    Raises:
        InputError: the folder lacks a configuration or weights, or the hub cannot be reached.
    """
    check_model(name)
    with _one_line_errors(name, "model"):
        return AutoModel.from_pretrained(name, use_safetensors=True, dtype=dtype).eval()


def load_fine_tuned(name: str) -> PreTrainedModel:
    """A task model as fine-tuned, with the head its configuration names, in float32 and evaluation mode.

    Raises:
        InputError: see `load_encoder`; or the folder holds an encoder that has no trained head.
    """
    check_model(name)
    with _one_line_errors(name, "model"):
        kind = KINDS[problem_of_config(AutoConfig.from_pretrained(name))]
        model, report = kind.auto_model.from_pretrained(
            name, use_safetensors=True, dtype=torch.float32, output_loading_info=True
        )
    if missing := sorted(report["missing_keys"]):
        raise InputError(f"{name} has no trained head ({missing[0]} is missing); fine-tune it first", where="model")
    kind.restrict(model)
    return model.eval()


def new_task_model(
    data: TaskData,
    tokenizer: PreTrainedTokenizerBase,
    *,
    model: str | None = None,
    from_config: str | None = None,
    overrides: dict[str, Any] | None = None,
) -> PreTrainedModel:
    """A model with a fresh head for a task, its labels in the configuration; what is no candidate never wins.

    Args:
        data: gives problem and labels.
        tokenizer: gives vocabulary size and pad id to a random start.
        model: pretrained encoder, a local folder or hub name.
        from_config: instead of `model`, a config.json (or its folder) or a model type, for random weights.
        overrides: values to change in the configuration.

    Raises:
        InputError: see `load_encoder`; an unknown model type; or one that has no head for this kind of task.
    """
    kind = KINDS[data.problem]
    head = kind.head(data)
    if from_config:
        config = _random_config(from_config, {**head, **_vocabulary(tokenizer), **(overrides or {})})
        with _one_line_errors(from_config, "from_config"):
            found = kind.auto_model.from_config(config, dtype=torch.float32)
    else:
        assert model is not None
        check_model(model)
        with _one_line_errors(model, "model"):
            config = AutoConfig.from_pretrained(model, **head, **(overrides or {}))
            found = kind.auto_model.from_pretrained(
                model, config=config, use_safetensors=True, dtype=torch.float32, ignore_mismatched_sizes=True
            )
    kind.restrict(found)
    return found


def new_masked_lm(
    tokenizer: PreTrainedTokenizerBase,
    *,
    model: str | None = None,
    from_config: str | None = None,
    overrides: dict[str, Any] | None = None,
) -> PreTrainedModel:
    """A masked-LM model in float32: a checkpoint to go on from, or a random start.

    Raises:
        InputError: see `load_encoder`; an unknown model type; or a checkpoint whose vocabulary is not the tokenizer's.
    """
    if from_config:
        config = _random_config(from_config, {**_vocabulary(tokenizer), **(overrides or {})})
        with _one_line_errors(from_config, "from_config"):
            return AutoModelForMaskedLM.from_config(config, dtype=torch.float32)
    assert model is not None
    check_model(model)
    with _one_line_errors(model, "model"):
        config = AutoConfig.from_pretrained(model, **(overrides or {}))
        found = AutoModelForMaskedLM.from_pretrained(model, config=config, use_safetensors=True, dtype=torch.float32)
    if len(tokenizer) > config.vocab_size:
        message = (
            f"the tokenizer has {len(tokenizer)} tokens, the model {config.vocab_size}; they do not belong together"
        )
        raise InputError(message, where="tokenizer")
    return found


def position_limit(model: nn.Module) -> int | None:
    """The longest row of tokens a model has positions for, or None where positions are relative."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa-like models count positions from padding_idx + 1.
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    return None


def resolve_max_length(asked: int | None, model: nn.Module, tokenizer: PreTrainedTokenizerBase) -> int:
    """The length limit in tokens: the one asked for, else the model's and tokenizer's own, at most 512.

    Raises:
        InputError: more was asked for than the model has positions.
    """
    limit = position_limit(model)
    if asked is None:
        return min(n for n in (limit, tokenizer.model_max_length, 512) if n is not None)
    if limit is not None and asked > limit:
        raise InputError(f"{asked} is more than the {limit} positions this model has", where="max_length")
    return asked


def check_model(name: str) -> None:
    """Raises: InputError, if a local folder lacks what a model needs, naming the file."""
    folder = _local_folder(name, "model")
    if folder is None:
        return
    if not (folder / "config.json").exists():
        raise InputError(f"{folder} has no config.json, so it is not a model folder", where="model")
    if not any((folder / file).exists() for file in _WEIGHTS):
        other = sorted(path.name for path in folder.glob("*.bin"))
        hint = f"; {other[0]} is a pickle, which is not read: convert it to safetensors" if other else ""
        raise InputError(f"{folder} has no model.safetensors{hint}", where="model")


def _local_folder(name: str, where: str) -> Path | None:
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise InputError(f"{name} is a file; name the folder that holds config.json", where=where)
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError(f"no such folder: {name}", where=where)
    return None


def _random_config(source: str, values: dict[str, Any]) -> PreTrainedConfig:
    if Path(source).exists():
        with _one_line_errors(source, "from_config"):
            return AutoConfig.from_pretrained(source, **values)
    try:
        return AutoConfig.for_model(source, **values)
    except ValueError as error:
        message = f"'{source}' is neither a config.json nor a model type that transformers knows"
        raise InputError(message, where="from_config") from error


def _vocabulary(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    ids = {"bos_token_id": "bos_token_id", "eos_token_id": "eos_token_id", "pad_token_id": "pad_token_id"}
    known = {key: getattr(tokenizer, name) for key, name in ids.items()}
    return {"vocab_size": len(tokenizer)} | {key: value for key, value in known.items() if value is not None}


@contextmanager
def _one_line_errors(name: str, where: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, ImportError) as error:
        if isinstance(error, InputError):
            raise
        is_hub = not Path(name).expanduser().exists()
        advice = " (neither a local folder, nor to be had from the hub)" if is_hub else ""
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InputError(f"cannot load {name}{advice}: {reason}", where=where) from error
