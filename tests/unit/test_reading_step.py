"""Steps on questions and choices: the same however examples are cut, and what is padding has no part in them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import one_step
import pytest
import torch
from datasets import Dataset
from torch import Tensor, nn
from transformers import BertForMultipleChoice, BertForQuestionAnswering

from maskwright.encoders.pack import pack
from maskwright.training.kinds.candidates import CandidateLoss, lower
from maskwright.training.kinds.choice import CHOICE
from maskwright.training.kinds.span import SPAN, SpanLoss
from maskwright.training.trainer import PackedTrainer

N_EXAMPLES = 19
KINDS = {"choice": CHOICE, "span": SPAN}
CUTS = {
    "one batch": {},
    "rows of 5, ragged tail": {"rows": 5, "accumulate": 4},
    "token budget": {"max_tokens": 90, "accumulate": 99},
    "token budget, stock model": {"max_tokens": 90, "accumulate": 99, "packed": False},
}


def dataset(name: str) -> Dataset:
    rng = np.random.default_rng(11)

    def ids(longest: int) -> list[int]:
        return [2, *rng.integers(5, one_step.VOCABULARY, rng.integers(1, longest)).tolist(), 3]

    if name == "choice":
        rows = [[ids(17) for _ in range(rng.integers(2, 6))] for _ in range(N_EXAMPLES)]
        labels = [int(rng.integers(len(row))) for row in rows]
        lengths = [sum(map(len, row)) for row in rows]
        columns = {"labels": labels, "n_choices": [len(row) for row in rows]}
        return Dataset.from_dict({"input_ids": rows, "length": lengths, **columns})
    windows = [ids(29) for _ in range(N_EXAMPLES)]
    ends = [int(rng.integers(len(row))) for row in windows]
    starts = [int(rng.integers(end + 1)) for end in ends]
    lengths = [len(row) for row in windows]
    positions = {"start_positions": starts, "end_positions": ends}
    return Dataset.from_dict({"input_ids": windows, "length": lengths, **positions})


def model_of(name: str) -> nn.Module:
    torch.manual_seed(3)
    config = one_step.tiny_config(initializer_range=0.2)
    return {"choice": BertForMultipleChoice, "span": BertForQuestionAnswering}[name](config)


def example_loss(name: str, model: nn.Module, row: dict[str, Any]) -> Tensor:
    """The loss of one example, each of its texts run alone, without padding: minus the log of softmax by hand."""

    def surprise(logits: Tensor, gold: int) -> Tensor:
        return torch.log(torch.exp(logits).sum()) - logits[gold]

    if name == "choice":
        logits = torch.cat([model(input_ids=torch.tensor([[ids]])).logits[0] for ids in row["input_ids"]])
        return surprise(logits, row["labels"])
    out = model(input_ids=torch.tensor([row["input_ids"]]))
    return (
        surprise(out.start_logits[0], row["start_positions"]) + surprise(out.end_logits[0], row["end_positions"])
    ) / 2


@cache
def expected_step(name: str) -> tuple[float, dict[str, Tensor]]:
    model = model_of(name).double()
    loss = sum(example_loss(name, model, row) for row in dataset(name)) / N_EXAMPLES
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= one_step.RATE * parameter.grad
    return loss.item(), model.state_dict()


def train(
    name: str,
    folder: Path,
    *,
    max_tokens: int | None = None,
    rows: int = N_EXAMPLES,
    accumulate: int = 1,
    packed: bool = True,
    drop_rate: float = 0.0,
    **options: Any,
) -> PackedTrainer:
    kind, model = KINDS[name], model_of(name)
    kind.restrict(model)
    if packed:
        pack(model, drop_rate=drop_rate, special_ids=[0, 2, 3])
    smoothing = {name: options.pop(name) for name in ("label_smoothing_factor",) if name in options}
    trainer = PackedTrainer(
        model,
        one_step.one_step_arguments(folder, rows, accumulate, **smoothing),
        max_tokens_per_batch=max_tokens,
        train_dataset=dataset(name),
        eval_dataset=dataset(name),
        data_collator=kind.collator(one_step.tiny_tokenizer()),
        loss=kind.loss,
        **options,
    )
    trainer.train()
    return trainer


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("cut", CUTS)
def test_a_step_is_the_same_however_its_examples_are_cut(name: str, cut: str, tmp_path: Path) -> None:
    loss, weights = expected_step(name)
    trainer = train(name, tmp_path, **CUTS[cut])
    assert trainer.state.log_history[0]["loss"] == pytest.approx(loss, abs=1e-5)
    start = model_of(name).state_dict()
    moved = max((weights[key] - start[key].double()).abs().max().item() for key in weights)
    assert moved > 1e-3
    for key, want in weights.items():
        torch.testing.assert_close(trainer.model.state_dict()[key].double(), want, rtol=0, atol=1e-5, msg=key)


@pytest.mark.parametrize("name", KINDS)
def test_evaluation_has_the_loss_of_the_unpadded_texts(name: str, tmp_path: Path) -> None:
    trainer = train(name, tmp_path, max_tokens=90, accumulate=99)
    model = trainer.model.double()
    expected = sum(example_loss(name, model, row).item() for row in dataset(name)) / N_EXAMPLES
    trainer.model.float()
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_two_ways_of_dropping_tokens_keep_the_loss_finite(name: str, tmp_path: Path) -> None:
    """R-Drop with DropToken: each pass drops other tokens, and answers stay."""
    trainer = train(name, tmp_path, max_tokens=90, accumulate=99, drop_rate=0.5, rdrop_alpha=2.0)
    assert 0 < trainer.state.log_history[0]["loss"] < 100
    assert all(parameter.isfinite().all() for parameter in trainer.model.parameters())


@pytest.mark.parametrize("packed", [True, False])
def test_a_padded_choice_never_wins(packed: bool) -> None:
    """Even where every real choice has a logit lower than any a padded one would have had."""
    model = model_of("choice").eval()
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.fill_(-1e6)
    CHOICE.restrict(model)
    if packed:
        pack(model)
    rows = [dict(row) for row in dataset("choice")]
    batch = CHOICE.collator(one_step.tiny_tokenizer())(rows)
    batch.pop("labels")
    with torch.no_grad():
        logits = model(**batch).logits
    n_choices = torch.tensor([len(row["input_ids"]) for row in rows])
    is_padded = torch.arange(logits.shape[1]) >= n_choices[:, None]
    assert is_padded.any()
    assert (logits.softmax(-1)[is_padded] == 0).all()
    assert (logits.argmax(-1) < n_choices).all()
    assert (logits[~is_padded] == -1e6).all()


def smoothed(logits: np.ndarray, gold: int, share: float) -> float:
    """Cross entropy with the label smoothed evenly over the finite logits, one at a time."""
    real = [x for x in logits if x > -1e30]
    log_total = np.log(sum(np.exp(x) for x in real))
    return sum((share / len(real) + (1 - share) * (x == logits[gold])) * (log_total - x) for x in real)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.7])
def test_label_smoothing_is_over_the_candidates_alone(share: float) -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(size=(7, 5))
    n_real = [5, 2, 3, 4, 2, 5, 3]
    gold = [int(rng.integers(n)) for n in n_real]
    keep = torch.arange(5) < torch.tensor(n_real)[:, None]
    logits = lower(torch.tensor(values, dtype=torch.float32), keep).requires_grad_()
    loss = CandidateLoss(share)({"logits": logits}, torch.tensor(gold))
    rows = np.where(keep.numpy(), values, -np.inf)
    assert loss.item() == pytest.approx(
        np.mean([smoothed(row, g, share) for row, g in zip(rows, gold, strict=True)]), rel=1e-5
    )
    loss.backward()
    assert logits.grad.isfinite().all()
    assert (logits.grad[~keep] == 0).all()


def test_the_step_may_count_more_examples_than_the_batch_has() -> None:
    start, end = torch.randn(3, 7), torch.randn(3, 7)
    labels = torch.tensor([[0, 1], [2, 2], [3, 6]])
    outputs = {"start_logits": start, "end_logits": end}
    whole = nn.functional.cross_entropy(start, labels[:, 0]) + nn.functional.cross_entropy(end, labels[:, 1])
    torch.testing.assert_close(SpanLoss()(outputs, labels), whole / 2)
    torch.testing.assert_close(SpanLoss()(outputs, labels, torch.tensor(12)), whole / 4)
    smooth: Callable[..., Tensor] = SpanLoss(0.3)
    torch.testing.assert_close(smooth(outputs, labels, torch.tensor(12)), smooth(outputs, labels) / 2)


def test_tokens_dropped_in_one_of_two_passes_are_candidates_in_neither() -> None:
    first, second = torch.randn(2, 5), torch.randn(2, 5)
    keep = torch.tensor([[True, True, False, True, True], [True, True, True, True, True]])
    labels = torch.tensor([0, 4])
    passes = torch.cat([lower(first, keep), second])
    both = torch.cat([lower(first, keep), lower(second, keep)])
    loss = CandidateLoss(0.1, rdrop_alpha=1.0)
    assert loss({"logits": passes}, labels) == loss({"logits": both}, labels)
    assert loss({"logits": passes}, labels) < 100
