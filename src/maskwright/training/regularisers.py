"""The options of a run that regularise it, checked, as the trainer takes them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from maskwright.data.tasks.base import TaskData
from maskwright.errors import InputError
from maskwright.objectives.dropout import has_dropout
from maskwright.training.config import FinetuneConfig
from maskwright.training.loss import balanced_weights
from maskwright.training.texts import TRAIN


def regularisers(config: FinetuneConfig, data: TaskData, model: nn.Module) -> dict[str, Any]:
    """Keyword arguments of `PackedTrainer`.

    Args:
        config: the run.
        data: the task, whose training labels give balanced weights.
        model: the model to be trained.

    Raises:
        InputError: R-Drop where no two passes would differ, or class weights where examples have no class.
    """
    drops_tokens = bool(config.drop_rate or config.final_drop_rate)
    if config.rdrop_alpha and not drops_tokens and not has_dropout(model):
        message = (
            "all dropout rates of this model are 0, so that both passes would be the same; give a drop_rate, or a rate "
            "in config_overrides"
        )
        raise InputError(message, "rdrop_alpha")
    return {
        "final_drop_rate": config.final_drop_rate,
        "rdrop_alpha": config.rdrop_alpha,
        "layer_decay": config.layer_decay,
        "class_weights": _class_weights(data) if config.class_weights == "balanced" else None,
    }


def _class_weights(data: TaskData) -> Tensor:
    if data.problem != "single_label_classification":
        raise InputError(f"need one class an example, and this is {data.problem.replace('_', ' ')}", "class_weights")
    labels = [example.label for example in data.splits[TRAIN]]
    return balanced_weights(torch.tensor(labels), data.n_labels)
