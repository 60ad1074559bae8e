"""The trained model of a cell, evaluated once more by averaging its predictions over noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from maskwright.data.tasks.base import TaskData
from maskwright.encoders.pack import pack
from maskwright.objectives.averaging import to_logits
from maskwright.training.average import Sampling, average_outputs
from maskwright.training.config import FinetuneConfig
from maskwright.training.kinds.base import Limits, Predicted
from maskwright.training.kinds.table import KINDS
from maskwright.training.models import load_fine_tuned, load_tokenizer, resolve_max_length
from maskwright.training.outputs import predict_outputs
from maskwright.training.sweep.config import Evaluation
from maskwright.training.texts import DEV, TEST, labelled


def evaluate_again(config: FinetuneConfig, data: TaskData, folder: Path, evaluation: Evaluation) -> dict[str, float]:
    """The scores of a run's final model by prediction averaging, on every labelled held-out split.

    Args:
        config: the run's options.
        data: its examples.
        folder: its directory, with the weights.
        evaluation: how to average.

    Raises:
        InputError: a model or options that cannot be used.
    """
    model, tokenizer = load_fine_tuned(str(folder)), load_tokenizer(str(folder))
    if torch.cuda.is_available():
        model.cuda()
    if config.packed:
        pack(model)
    kind = KINDS[data.problem]
    limits = Limits(resolve_max_length(config.max_length, model, tokenizer), config.doc_stride)
    scores: dict[str, float] = {}
    for split in (DEV, TEST):
        if not (examples := labelled(data, split)):
            continue
        rows, collate = kind.encode(examples, tokenizer, limits, data).dataset, kind.collator(tokenizer)
        outputs: tuple[NDArray[np.generic], ...]
        if evaluation.averaging == "weight":
            outputs = predict_outputs(model, collate, rows, kind.outputs, bf16=config.bf16)
        else:
            sampling = Sampling(
                samples=evaluation.samples,
                noise=evaluation.noise,
                drop_rate=evaluation.drop_rate,
                seed=config.seed,
            )
            averaged = average_outputs(
                model,
                tokenizer.all_special_ids,
                collate,
                rows,
                kind.outputs,
                data.problem,
                sampling,
                bf16=config.bf16,
            )
            outputs = tuple(to_logits(each.mean, data.problem) for each in averaged)
        found = kind.score(Predicted(data, data.labels, examples, rows, outputs))
        scores |= {f"{split}_{name}": value for name, value in found.items()}
    return scores
