"""The loss and gradient of an optimizer step do not depend on how its examples are cut into batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import one_step
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from maskwright.data.collate import PaddingCollator
from maskwright.training.loss import StepLoss, summed_loss

CUTS = {
    "one batch": {},
    "rows of 5, ragged tail": {"rows": 5, "accumulate": 5},
    "token budget": {"max_tokens": 60, "accumulate": 99},
    "token budget, stock model": {"max_tokens": 60, "accumulate": 99, "packed": False},
}


def mean_loss(logits: NDArray[np.float64], labels: NDArray[np.generic], problem: str) -> float:
    """The mean loss over all labels, one label at a time, in float64."""
    total, count = 0.0, 0
    for row, label in zip(logits, labels, strict=True):
        if problem == "regression":
            total, count = total + (float(row[0]) - float(label)) ** 2, count + 1
        elif problem == "multi_label_classification":
            for x, on in zip(row, label, strict=True):
                p = 1 / (1 + np.exp(-x))
                total, count = total - np.log(p if on else 1 - p), count + 1
        else:
            total, count = total - np.log(np.exp(row[label]) / np.exp(row).sum()), count + 1
    return total / count


def expected_step(problem: str) -> tuple[float, dict[str, Tensor]]:
    """Loss by the oracle and weights after one step, from a float64 stock model on the whole padded batch."""
    dataset = one_step.ragged_dataset(problem)
    batch = PaddingCollator(one_step.tiny_tokenizer())([dict(row) for row in dataset])
    labels = batch.pop("labels")
    model = one_step.tiny_model(problem).double()
    logits = model(**batch).logits
    loss = mean_loss(logits.detach().numpy(), labels.numpy(), problem)
    labels = labels.double() if labels.is_floating_point() else labels
    criterion = {
        "regression": lambda: ((logits[:, 0] - labels) ** 2).mean(),
        "multi_label_classification": lambda: torch.nn.BCEWithLogitsLoss()(logits, labels),
        "single_label_classification": lambda: torch.nn.CrossEntropyLoss()(logits, labels),
    }[problem]()
    assert criterion.item() == pytest.approx(loss, rel=1e-9)
    criterion.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= one_step.RATE * parameter.grad
    return loss, model.state_dict()


def assert_same_weights(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    start = one_step.tiny_model().state_dict()
    for name, want in expected.items():
        torch.testing.assert_close(found[name].double(), want, rtol=0, atol=2e-6, msg=name)
    moved = (found["classifier.weight"] - start["classifier.weight"]).abs().max() if "classifier.weight" in start else 0
    assert float(moved) > 1e-3


@pytest.mark.parametrize("cut", CUTS)
def test_a_step_is_the_same_however_its_examples_are_cut(cut: str, tmp_path: Path) -> None:
    loss, weights = expected_step("single_label_classification")
    trainer = one_step.step(tmp_path, **CUTS[cut])  # type: ignore[arg-type]
    assert trainer.state.log_history[0]["loss"] == pytest.approx(loss, abs=1e-5)
    assert trainer.state.global_step == 1
    assert_same_weights(trainer.model.state_dict(), weights)


@pytest.mark.parametrize("problem", one_step.PROBLEMS[1:])
def test_multi_label_and_regression_steps_too(problem: str, tmp_path: Path) -> None:
    loss, weights = expected_step(problem)
    trainer = one_step.step(tmp_path, max_tokens=60, accumulate=99, problem=problem)
    assert trainer.state.log_history[0]["loss"] == pytest.approx(loss, abs=1e-5)
    for name, want in weights.items():
        torch.testing.assert_close(trainer.model.state_dict()[name].double(), want, rtol=0, atol=2e-6, msg=name)


def test_two_ranks_make_the_step_of_one(tmp_path: Path) -> None:
    out = tmp_path / "weights.safetensors"
    one_step.run_on_two_ranks(one_step.__file__, str(out), "max_tokens=40", "accumulate=99")
    assert_same_weights(load_file(out), expected_step("single_label_classification")[1])


def test_a_label_of_minus_100_counts_nothing() -> None:
    logits, labels = torch.randn(2, 3, 5), torch.tensor([[1, -100, 4], [-100, -100, 0]])
    alone = sum(summed_loss(logits[i, j][None], labels[i, j][None]) for i, j in [(0, 0), (0, 2), (1, 2)])
    torch.testing.assert_close(summed_loss(logits, labels), alone)
    torch.testing.assert_close(StepLoss()({"logits": logits}, labels), alone / 3)


def test_half_precision_logits_are_summed_in_float32() -> None:
    logits = torch.randn(4000, 5, generator=torch.Generator().manual_seed(0)).bfloat16()
    labels = torch.zeros(4000, dtype=torch.long)
    assert summed_loss(logits, labels).dtype == torch.float32
    expected = mean_loss(logits.double().numpy(), labels.numpy(), "single_label_classification")
    assert float(StepLoss()({"logits": logits}, labels)) == pytest.approx(expected, rel=1e-5)


def test_random_draws_follow_from_seed_step_and_rank_alone(tmp_path: Path) -> None:
    trainer = one_step.step(tmp_path)
    draws = []
    for seed, global_step in [(42, 5), (42, 5), (42, 6), (43, 5)]:
        trainer.args.seed = seed
        trainer.state.global_step = 0
        trainer._seed_micro_step()
        trainer.state.global_step = global_step
        trainer._seed_micro_step()
        draws.append(torch.rand(3).tolist())
    assert draws[0] == draws[1]
    assert draws[0] != draws[2]
    assert draws[0] != draws[3]
