"""A text and several choices, one of them right; examples may have different numbers of choices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn
from transformers import AutoModelForMultipleChoice, PreTrainedModel, PreTrainedTokenizerBase

from maskwright.data.collate_reading import ChoiceCollator, is_choice
from maskwright.data.encode import EncodedSplit
from maskwright.data.encode_choices import encode_choices
from maskwright.data.tasks.base import ChoiceExample, Example, TaskData
from maskwright.training.kinds.base import Limits, Predicted, TaskKind, guid
from maskwright.training.kinds.candidates import CandidateLoss, lower
from maskwright.training.metrics import probabilities, score


def _head(data: TaskData) -> dict[str, Any]:
    return {}


def _encode(
    examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, limits: Limits, data: TaskData
) -> EncodedSplit:
    return encode_choices(examples, tokenizer, limits.max_length)


def restrict_to_choices(model: PreTrainedModel) -> None:
    """Padded choices (see `ChoiceCollator`) get the lowest logit, so that they never win; on a model in place."""
    model.register_forward_hook(_lower_padded_choices, with_kwargs=True)


def _lower_padded_choices(module: nn.Module, args: Any, inputs: dict[str, Any], outputs: Any) -> Any:
    if "attention_mask" in inputs:
        outputs["logits"] = lower(outputs["logits"], is_choice(inputs["attention_mask"]))
    return outputs


def choice_logits(predicted: Predicted) -> NDArray[np.float64]:
    """Logits `[N, C]`, -inf where an example has fewer choices than C."""
    logits = np.array(predicted.outputs[0], np.float64)
    n_choices = np.asarray(predicted.encoded["n_choices"])
    logits[np.arange(logits.shape[1]) >= n_choices[:, None]] = -np.inf
    return logits


def _score(predicted: Predicted) -> dict[str, float]:
    gold = np.asarray(predicted.encoded["labels"])
    return score(predicted.data.metrics, choice_logits(predicted), gold, "single_label_classification")


def _probabilities(predicted: Predicted) -> NDArray[np.float64]:
    return probabilities(choice_logits(predicted), "single_label_classification")


def _records(predicted: Predicted) -> Iterator[dict[str, Any]]:
    """`id`, `choice` (its index), `answer` (its text), and the probability of each choice by its index."""
    logits = choice_logits(predicted)
    shares = probabilities(logits, "single_label_classification")
    for row, (example, best) in enumerate(zip(predicted.examples, logits.argmax(-1).tolist(), strict=True)):
        assert isinstance(example, ChoiceExample)
        yield {
            "id": guid(row, example),
            "choice": best,
            "answer": example.choices[best],
            "probabilities": {str(i): round(float(shares[row, i]), 6) for i in range(len(example.choices))},
        }


def _answers(predicted: Predicted) -> list[str | int]:
    return [int(best) for best in choice_logits(predicted).argmax(-1)]


CHOICE = TaskKind(
    auto_model=AutoModelForMultipleChoice,
    pipeline_tag="multiple-choice",
    outputs=("logits",),
    head=_head,
    encode=_encode,
    collator=ChoiceCollator,
    loss=CandidateLoss,
    restrict=restrict_to_choices,
    score=_score,
    probabilities=_probabilities,
    records=_records,
    answers=_answers,
)
