"""A run's options as transformers' TrainingArguments."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from transformers import TrainingArguments

from maskwright.errors import InputError


def shared_arguments(config: Any) -> dict[str, Any]:
    """The fields of a config dataclass that TrainingArguments knows by the same name.

    Raises:
        InputError: an unknown name in the config's `training_arguments`.
    """
    known = set(inspect.signature(TrainingArguments).parameters)
    for name in config.training_arguments:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            raise InputError(f"transformers has no training argument '{name}'{hint}", where="training_arguments")
    values = {name: value for name, value in asdict(config).items() if name in known}
    values.pop("resume_from_checkpoint")
    if not values["activation_checkpointing"]:
        del values["activation_checkpointing"]
    return values


def new_arguments(values: Mapping[str, Any], further: Mapping[str, Any]) -> TrainingArguments:
    """TrainingArguments with what every run of ours sets, and the user's `further` ones on top.

    Raises:
        InputError: values that transformers refuses.
    """
    ours = {
        "dataloader_pin_memory": torch.cuda.is_available(),
        "average_tokens_across_devices": True,
        "use_cpu": not torch.accelerator.is_available(),  # it refuses bf16 on a CPU that is not asked for
    }
    try:
        return TrainingArguments(**{**values, **ours, **further})
    except (ValueError, TypeError) as error:
        raise InputError(" ".join(str(error).split()), where="training_arguments") from error
