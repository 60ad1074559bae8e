"""A question about a paragraph, answered by a span of it: the best one over all windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AutoModelForQuestionAnswering, PreTrainedModel, PreTrainedTokenizerBase

from maskwright.data.collate_reading import WindowCollator
from maskwright.data.encode import EncodedSplit
from maskwright.data.encode_windows import encode_windows
from maskwright.data.tasks.base import Answer, Example, TaskData
from maskwright.errors import InputError
from maskwright.training.answers import exact_match, overlap_f1
from maskwright.training.kinds.base import Limits, Predicted, TaskKind, guid
from maskwright.training.kinds.candidates import CandidateLoss, lower

MAX_ANSWER_TOKENS = 64
_METRICS = {"em": exact_match, "f1": overlap_f1}


class SpanLoss(CandidateLoss):
    """The loss of an answer's start and of its end, each one label: their sum over both and half the examples."""

    def __call__(
        self, outputs: Mapping[str, Tensor], labels: Tensor, num_items_in_batch: Tensor | None = None
    ) -> Tensor:
        """The loss of labels `[B, 2]` against start and end logits `[B, L]`."""
        both = torch.stack([outputs["start_logits"], outputs["end_logits"]], 1)
        return super().__call__({"logits": both}, labels, num_items_in_batch)


def _head(data: TaskData) -> dict[str, Any]:
    return {"num_labels": 2}


def _encode(
    examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, limits: Limits, data: TaskData
) -> EncodedSplit:
    return encode_windows(examples, tokenizer, limits.max_length, limits.doc_stride)


def restrict_to_tokens(model: PreTrainedModel) -> None:
    """Padded slots get the lowest logits, so that no answer starts or ends there; on a model in place."""
    model.register_forward_hook(_lower_padding, with_kwargs=True)


def _lower_padding(module: nn.Module, args: Any, inputs: dict[str, Any], outputs: Any) -> Any:
    if "attention_mask" in inputs:
        for name in ("start_logits", "end_logits"):
            outputs[name] = lower(outputs[name], inputs["attention_mask"].bool())
    return outputs


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to before `end` of a paragraph, and the sum of the two logits that chose them."""

    text: str
    start: int
    end: int
    score: float


def best_span(start: NDArray[Any], end: NDArray[Any], max_tokens: int = MAX_ANSWER_TOKENS) -> tuple[int, int, float]:
    """The first and last token of the best span of at most `max_tokens`, and its score: the sum of its two logits.

    Shapes: `start` and `end` are `[N]`, logits of one window's paragraph tokens.

    Example:
        >>> best_span(np.array([0.0, 5, 1]), np.array([9.0, 0, 2]))
        (0, 0, 9.0)
    """
    width = min(max_tokens, len(end))
    padded = np.concatenate([end, np.full(width - 1, -np.inf)])
    reach = np.lib.stride_tricks.sliding_window_view(padded, width)  # [N, width]: the ends a start may have
    totals = start + reach.max(1)
    first = int(totals.argmax())
    return first, first + int(reach[first].argmax()), float(totals[first])


def answer_spans(predicted: Predicted) -> list[Span]:
    """The best span of every question, over all windows of its paragraph."""
    starts, ends = (np.asarray(array, np.float64) for array in predicted.outputs[:2])
    best: list[Span | None] = [None] * len(predicted.examples)
    columns = predicted.encoded.select_columns(["example", "first", "bounds"])
    for row, window in enumerate(columns):
        bounds = np.reshape(window["bounds"], (-1, 2))
        tokens = slice(window["first"], window["first"] + len(bounds))
        first, last, total = best_span(starts[row, tokens], ends[row, tokens])
        index = window["example"]
        so_far = best[index]
        if so_far is None or total > so_far.score:
            begin, stop = int(bounds[first, 0]), int(bounds[last, 1])
            best[index] = Span(predicted.examples[index].text[begin:stop], begin, stop, total)
    return [span for span in best if span is not None]


def _score(predicted: Predicted) -> dict[str, float]:
    if unknown := [name for name in predicted.data.metrics if name not in _METRICS]:
        raise InputError(f"no score of answers is called '{unknown[0]}'; there are {', '.join(_METRICS)}", "metrics")
    pairs = [
        (example.label.accepted, span.text)
        for example, span in zip(predicted.examples, answer_spans(predicted), strict=True)
        if isinstance(example.label, Answer)
    ]
    return {
        name: sum(_METRICS[name](accepted, answer) for accepted, answer in pairs) / len(pairs)
        for name in predicted.data.metrics
    }


def _probabilities(predicted: Predicted) -> None:
    """Scores of spans are no probabilities."""


def _records(predicted: Predicted) -> Iterator[dict[str, Any]]:
    """`id`, `answer`, the characters of the paragraph it stands at (`start`, `end`), and its `score`."""
    for row, (example, span) in enumerate(zip(predicted.examples, answer_spans(predicted), strict=True)):
        place = {"start": span.start, "end": span.end, "score": round(span.score, 6)}
        yield {"id": guid(row, example), "answer": span.text} | place


def _answers(predicted: Predicted) -> list[str | int]:
    return [span.text for span in answer_spans(predicted)]


SPAN = TaskKind(
    auto_model=AutoModelForQuestionAnswering,
    pipeline_tag="question-answering",
    outputs=("start_logits", "end_logits"),
    head=_head,
    encode=_encode,
    collator=WindowCollator,
    loss=SpanLoss,
    restrict=restrict_to_tokens,
    score=_score,
    probabilities=_probabilities,
    records=_records,
    answers=_answers,
)
