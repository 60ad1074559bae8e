"""A kind of task, as the functions that differ from one kind to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from maskwright.data.encode import EncodedSplit
from maskwright.data.tasks.base import Example, TaskData
from maskwright.training.loss import StepLoss


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a row of tokens may be, and how many tokens neighbouring windows of a paragraph share."""

    max_length: int
    doc_stride: int = 128


@dataclass(frozen=True, slots=True)
class Predicted:
    """Examples with what a model said of them.

    Attributes:
        data: labels and metrics; its splits are not read.
        names: the model's labels in the order of its outputs; none for tasks without fixed labels.
        examples: the examples, in order.
        encoded: their rows, as the kind's `encode` made them.
        outputs: one array `[rows, ...]` for each of the kind's `outputs`; what lies beyond a row's own width is never
            read.
        threshold: probability from which a label counts, for multi-label tasks.
    """

    data: TaskData
    names: Sequence[str]
    examples: Sequence[Example]
    encoded: Dataset
    outputs: tuple[NDArray[np.generic], ...]
    threshold: float = 0.5


@dataclass(frozen=True, slots=True)
class TaskKind:
    """One kind of task.

    Attributes:
        auto_model: transformers' class for the model with its head.
        pipeline_tag: the hub's name of what such a model does.
        outputs: names of the model outputs that predictions are made of.
        head: a task's data -> values of the model's configuration.
        encode: examples to rows of token ids.
        collator: rows to a padded batch.
        loss: the loss of a step, for transformers' `compute_loss_func`.
        restrict: hooks on a model that keep what is no candidate (padding) from ever being the answer.
        score: the task's metrics by name, given gold answers.
        probabilities: `[N, C]`, which calibration compares with the gold labels; None where there are none.
        records: one record an example, for people: `id`, the answer, probabilities.
        answers: one answer an example, as official submissions write it.
    """

    auto_model: Any
    pipeline_tag: str
    outputs: tuple[str, ...]
    head: Callable[[TaskData], dict[str, Any]]
    encode: Callable[[Sequence[Example], PreTrainedTokenizerBase, Limits, TaskData], EncodedSplit]
    collator: Callable[[PreTrainedTokenizerBase], Callable[[Any], dict[str, Any]]]
    loss: type[StepLoss]
    restrict: Callable[[PreTrainedModel], None]
    score: Callable[[Predicted], dict[str, float]]
    probabilities: Callable[[Predicted], NDArray[np.float64] | None]
    records: Callable[[Predicted], Iterator[dict[str, Any]]]
    answers: Callable[[Predicted], list[str | int]]


def guid(row: int, example: Example) -> str | int:
    """An example's own id, else its index."""
    return row if example.guid is None else example.guid
