"""Answers and probabilities of a fine-tuned model, row for row."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from maskwright.data.collate import PaddingCollator
from maskwright.data.table import load_table
from maskwright.data.tasks.base import Example, Problem, TaskData
from maskwright.data.tasks.registry import load_task
from maskwright.encoders.pack import pack
from maskwright.errors import InputError
from maskwright.objectives.averaging import Averaged, to_logits
from maskwright.training.average import Sampling, average_outputs, with_spread
from maskwright.training.calibration import calibration_of
from maskwright.training.config import PredictConfig
from maskwright.training.kinds.base import Limits, Predicted, TaskKind
from maskwright.training.kinds.classify import class_records
from maskwright.training.kinds.table import KINDS, problem_of_config
from maskwright.training.models import load_fine_tuned, load_tokenizer, resolve_max_length
from maskwright.training.outputs import predict_outputs
from maskwright.training.records import write_records
from maskwright.training.submission import write_submission
from maskwright.training.texts import draw, is_labelled

log = logging.getLogger(__name__)
_INPUT = "predict"


@dataclass(frozen=True, slots=True)
class PredictResult:
    """What a prediction run came to; `metrics` and `calibration` are empty where the examples have no gold labels."""

    output: str
    n_rows: int
    n_truncated: int
    metrics: dict[str, float] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    submission: str | None = None
    calibration: dict[str, Any] = field(default_factory=dict)


def run_predict(config: PredictConfig) -> PredictResult:
    """Predict a task's split or a file of one's own into JSONL or CSV, the rows in their order.

    Raises:
        InputError: a model, file or option that cannot be used, in one line; or a task that is not the model's.
    """
    model = load_fine_tuned(config.model)
    tokenizer = load_tokenizer(config.model)
    problem = problem_of(model)
    kind = KINDS[problem]
    names = label_names(model)
    data, split = _examples(config, problem, names)
    examples = draw(data.splits[split], config.limit)
    if not examples:
        raise InputError(f"there is no example in the split '{split}'", config.data or config.input)
    if torch.cuda.is_available():
        model.cuda()
    if config.packed:
        pack(model)
    limits = Limits(resolve_max_length(config.max_length, model, tokenizer), config.doc_stride)
    encoded = kind.encode(examples, tokenizer, limits, data)
    collate = kind.collator(tokenizer)
    options: dict[str, Any] = {"max_tokens": config.max_tokens_per_batch, "bf16": config.bf16, "progress": True}
    averaged: tuple[Averaged, ...] = ()
    outputs: tuple[NDArray[np.floating], ...]
    if config.averaging == "model":
        ids, sampling = tokenizer.all_special_ids, _sampling(config)
        averaged = average_outputs(model, ids, collate, encoded.dataset, kind.outputs, problem, sampling, **options)
        outputs = tuple(to_logits(each.mean, problem) for each in averaged)
    else:
        outputs = predict_outputs(model, collate, encoded.dataset, kind.outputs, **options)
    predicted = Predicted(data, names, examples, encoded.dataset, outputs, config.threshold)
    metrics, calibration = {}, None
    if is_labelled(examples):
        metrics, calibration = kind.score(predicted), calibration_of(predicted)
    write_records(Path(config.output), with_spread(kind.records(predicted), averaged))
    submission = _submit(config, kind, predicted, split) if config.submission else None
    return PredictResult(
        config.output,
        len(examples),
        encoded.n_truncated,
        metrics,
        dict(data.skipped),
        submission,
        calibration or {},
    )


def predict_logits(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    dataset: Dataset,
    max_tokens: int = 4096,
    *,
    bf16: bool = False,
    progress: bool = False,
) -> NDArray[np.float32]:
    """Logits `[N, C]` of encoded examples (see `encode_examples`), in their order, computed sorted by length."""
    collate = PaddingCollator(tokenizer)
    return predict_outputs(model, collate, dataset, ("logits",), max_tokens, bf16=bf16, progress=progress)[0]


def problem_of(model: PreTrainedModel) -> Problem:
    """What a fine-tuned model does, from its configuration."""
    return problem_of_config(model.config)


def label_names(model: PreTrainedModel) -> list[str]:
    """The model's labels in the order of its outputs."""
    return [model.config.id2label[i] for i in range(model.config.num_labels)]


def write_predictions(
    path: Path,
    examples: Sequence[Example],
    logits: NDArray[np.float32],
    names: Sequence[str],
    problem: Problem,
    threshold: float = 0.5,
) -> None:
    """One row an example: `id`, `label` (or `labels`, or `value`), and a probability per class; see `write_records`."""
    write_records(path, class_records(examples, logits, names, problem, threshold))


def _sampling(config: PredictConfig) -> Sampling:
    return Sampling(samples=config.samples, noise=config.noise, drop_rate=config.drop_rate, seed=config.seed)


def _examples(config: PredictConfig, problem: Problem, names: Sequence[str]) -> tuple[TaskData, str]:
    if config.input is not None:
        if problem in {"multiple_choice", "question_answering"}:
            raise InputError(f"{config.model} is for {problem.replace('_', ' ')}; name a task and its data", "input")
        data = load_table(
            {_INPUT: config.input},
            text_column=config.text_column,
            text_pair_column=config.text_pair_column,
            label_column=config.label_column,
            problem=problem,
            labels=names,
        )
        return data, _INPUT
    data = load_task(str(config.task), str(config.data), splits=[config.split])
    if KINDS[data.problem] is not KINDS[problem]:
        raise InputError(
            f"{config.model} is for {problem.replace('_', ' ')}, the task {config.task} for "
            f"{data.problem.replace('_', ' ')}",
            where="model",
        )
    known = [data.label_names.get(label, label) for label in data.labels]
    if known and known != list(names):
        raise InputError(
            f"{config.model} predicts {len(names)} labels ({', '.join(names[:3])}, …), which are not those of the task "
            f"{config.task} ({', '.join(known[:3])}, …)",
            where="model",
        )
    return data, config.split


def _submit(config: PredictConfig, kind: TaskKind, predicted: Predicted, split: str) -> str:
    data = predicted.data
    missing = len(data.splits[split]) - len(predicted.examples) + sum(data.skipped.values())
    if missing:
        log.warning("the submission lacks %d examples of the split %s (skipped, or over the limit)", missing, split)
    folder = Path(config.submission if isinstance(config.submission, str) else "submission")
    answers = kind.answers(predicted)
    return str(write_submission(folder, str(config.task), data.files[split], predicted.examples, answers))
