"""Models whose tokens are right, and the vector they make of them is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .case import Case, fault
from .models import on
from .own import OWN, WIDTH, Encoder
from .plant import change_output, wrap

RULES = "padding-amount padding-content padding-side padding-values row-selection row-end holes holes-removed"
MEAN, PLACE, FIRST, ZEROS = "pooling", "row-selection pooling", "first-slot pooling", "zero-wins-max pooling"


def pooler_means_slots(model: Any) -> None:
    """The pooler takes the mean of all slots for the first token."""
    wrap(model.pooler, lambda forward, given: forward(given["hidden_states"].mean(1, keepdim=True)))


def head_takes_the_last_slot(model: Any) -> None:
    def around(forward: Callable[..., Any], given: dict[str, Any]) -> Any:
        return forward(given["features"].flip(1))

    wrap(model.classifier, around)


def score_of_the_last_slot(model: Any) -> None:
    """A decoder's classification head takes the last slot, whatever is padded."""

    def last(logits: Tensor, _: Any) -> Tensor:
        return logits[:, -1:].expand_as(logits)

    change_output(model.score, last)


def mean_score(model: Any) -> None:
    """The mean over all slots."""
    change_output(model.score, lambda logits, _: logits.mean(1, keepdim=True).expand_as(logits))


class Pool(nn.Module):
    """Pooling of hidden states [B, L, D] by `keep`, and a projection."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(WIDTH, WIDTH)

    def pooled(self, hidden: Tensor, keep: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, hidden: Tensor, keep: Tensor) -> Tensor:
        return self.out(self.pooled(hidden, keep))


class Mean(Pool):
    def pooled(self, hidden: Tensor, keep: Tensor) -> Tensor:
        return hidden.masked_fill(~keep[..., None], 0).sum(1) / keep.sum(1, keepdim=True).clamp(min=1)


class MeanOfSlots(Pool):
    def pooled(self, hidden: Tensor, keep: Tensor) -> Tensor:
        return hidden.masked_fill(~keep[..., None], 0).mean(1)


class Max(Pool):
    def pooled(self, hidden: Tensor, keep: Tensor) -> Tensor:
        filled = hidden.masked_fill(~keep[..., None], torch.finfo(hidden.dtype).min).amax(1)
        return filled.masked_fill(~keep.any(1, keepdim=True), 0)


class MaxOverZeros(Pool):
    def pooled(self, hidden: Tensor, keep: Tensor) -> Tensor:
        return (hidden.masked_fill(~keep[..., None], 0) - 2).masked_fill(~keep[..., None], 0).amax(1)


class ShiftedMax(Max):
    def pooled(self, hidden: Tensor, keep: Tensor) -> Tensor:
        return super().pooled(hidden - 2, keep)


class First(Pool):
    def pooled(self, hidden: Tensor, keep: Tensor) -> Tensor:
        return hidden[torch.arange(len(hidden)), keep.long().argmax(1)]


class SlotZero(Pool):
    def pooled(self, hidden: Tensor, keep: Tensor) -> Tensor:
        return hidden[:, 0]


class Last(Pool):
    def pooled(self, hidden: Tensor, keep: Tensor) -> Tensor:
        place = (keep.long() * torch.arange(1, keep.shape[1] + 1)).argmax(1)
        return hidden[torch.arange(len(hidden)), place]


class SumMinusOne(Pool):
    def pooled(self, hidden: Tensor, keep: Tensor) -> Tensor:
        return hidden[torch.arange(len(hidden)), keep.sum(1) - 1]


class BeforeFirstPad(Pool):
    """The slot before the first padded one; where there is none, argmax is 0, and the first token is taken."""

    def pooled(self, hidden: Tensor, keep: Tensor) -> Tensor:
        return hidden[torch.arange(len(hidden)), ((~keep).long().argmax(1) - 1).clamp(min=0)]


def own(name: str, right: type[Pool], wrong: type[Pool], cause: str, report: str) -> Case:
    return fault(
        name,
        "own module",
        "pooled",
        report,
        lambda faulty: Encoder(pool=wrong if faulty else right),
        rules=RULES,
        module="pool|",
        cause=cause,
        audit=OWN,
    )


def head(
    name: str, kind: str, plant: Callable[[Any], None], which: str, module: str, report: str, cause: str = MEAN
) -> Case:
    return fault(name, kind, "pooled", report, on(kind, plant, which), rules=RULES, module=module, cause=cause)


CASES = [
    head("bert-pooler-means-slots", "bert", pooler_means_slots, "", "pooler", "transformers 17463"),
    head("xlm-roberta-pooler-means-slots", "xlm-roberta", pooler_means_slots, "", "pooler", "transformers 17463"),
    head(
        "electra-head-takes-the-last-slot",
        "electra",
        head_takes_the_last_slot,
        "ElectraForSequenceClassification",
        r"classifier(\.\w+)?",
        "sentence-transformers 3208, mirrored",
        PLACE,
    ),
    head(
        "gpt2-head-takes-the-last-slot",
        "gpt2",
        score_of_the_last_slot,
        "GPT2ForSequenceClassification",
        "score|",
        "transformers 35909",
        PLACE,
    ),
    head(
        "llama-head-means-slots", "llama", mean_score, "LlamaForSequenceClassification", "score|", "transformers 17463"
    ),
    own("own-mean-of-slots", Mean, MeanOfSlots, MEAN, "transformers 17463"),
    own("own-max-over-zeros", ShiftedMax, MaxOverZeros, ZEROS, "allennlp 4739"),
    own("own-slot-zero", First, SlotZero, FIRST, "sentence-transformers 3208"),
    own("own-last-by-sum-minus-one", Last, SumMinusOne, PLACE, "composer seq_length_warmup"),
    own("own-slot-before-the-first-pad", Last, BeforeFirstPad, PLACE, "transformers 24265"),
]
