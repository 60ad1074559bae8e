"""One text or pair, and a class, several classes, or a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from maskwright.data.collate import PaddingCollator
from maskwright.data.encode import EncodedSplit, encode_examples
from maskwright.data.tasks.base import Example, Problem, TaskData
from maskwright.training.kinds.base import Limits, Predicted, TaskKind, guid
from maskwright.training.loss import StepLoss
from maskwright.training.metrics import decide, probabilities, score


def _head(data: TaskData) -> dict[str, Any]:
    # A name may stand for the number that the files hold; readers of predictions want the name.
    names = [data.label_names.get(label, label) for label in data.labels] or ["value"]
    return {
        "num_labels": data.n_labels,
        "problem_type": data.problem,
        "id2label": dict(enumerate(names)),
        "label2id": {name: i for i, name in enumerate(names)},
    }


def _encode(
    examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, limits: Limits, data: TaskData
) -> EncodedSplit:
    return encode_examples(examples, tokenizer, limits.max_length, data.problem, data.n_labels)


def _restrict(model: PreTrainedModel) -> None:
    """Every class is a candidate."""


def _score(predicted: Predicted) -> dict[str, float]:
    gold = np.asarray(predicted.encoded["labels"])
    (logits,) = predicted.outputs
    return score(predicted.data.metrics, logits, gold, predicted.data.problem, predicted.threshold)


def _probabilities(predicted: Predicted) -> NDArray[np.float64] | None:
    problem = predicted.data.problem
    return None if problem == "regression" else probabilities(predicted.outputs[0], problem)


def class_records(
    examples: Sequence[Example],
    logits: NDArray[np.generic],
    names: Sequence[str],
    problem: Problem,
    threshold: float = 0.5,
) -> Iterator[dict[str, Any]]:
    """For each example `id`, `label` (or `labels`, or `value`), and the probability of each class by its name."""
    answers = decide(logits, problem, threshold)
    shares = None if problem == "regression" else probabilities(logits, problem)
    for row, (example, answer) in enumerate(zip(examples, answers, strict=True)):
        record: dict[str, Any] = {"id": guid(row, example)}
        if problem == "multi_label_classification":
            record["labels"] = [name for name, on in zip(names, answer, strict=True) if on]
        elif problem == "regression":
            record["value"] = float(answer)
        else:
            record["label"] = names[int(answer)]
        if shares is not None:
            record["probabilities"] = {name: round(float(p), 6) for name, p in zip(names, shares[row], strict=True)}
        yield record


def _records(predicted: Predicted) -> Iterator[dict[str, Any]]:
    (logits,) = predicted.outputs
    return class_records(predicted.examples, logits, predicted.names, predicted.data.problem, predicted.threshold)


def _answers(predicted: Predicted) -> list[str | int]:
    (logits,) = predicted.outputs
    return [predicted.data.labels[int(index)] for index in np.asarray(logits).argmax(-1)]


CLASSIFICATION = TaskKind(
    auto_model=AutoModelForSequenceClassification,
    pipeline_tag="text-classification",
    outputs=("logits",),
    head=_head,
    encode=_encode,
    collator=PaddingCollator,
    loss=StepLoss,
    restrict=_restrict,
    score=_score,
    probabilities=_probabilities,
    records=_records,
    answers=_answers,
)
