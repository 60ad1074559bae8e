"""Class weights: balanced as scikit-learn has it, a step however it is cut, with label smoothing as torch has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import one_step
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor

from maskwright.data.collate import PaddingCollator
from maskwright.encoders.pack import pack
from maskwright.training.loss import StepLoss, balanced_weights
from maskwright.training.trainer import PackedTrainer, step_share

WEIGHTS = torch.tensor([0.3, 2.0, 1.0, 0.7, 4.0])


def test_balanced_is_what_scikit_learn_calls_so():
    labels = np.random.default_rng(2).choice(5, 997, p=[0.5, 0.3, 0.1, 0.07, 0.03])
    expected = compute_class_weight("balanced", classes=np.arange(5), y=labels)
    found = balanced_weights(torch.tensor(labels), 5)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    assert float(found[torch.tensor(labels)].mean()) == pytest.approx(1)


def test_a_class_without_examples_weighs_nothing():
    assert balanced_weights(torch.tensor([0, 0, 2]), 3).tolist() == pytest.approx([0.75, 0.0, 1.5])


def loop(logits, labels, weights, smoothing):
    """The mean over examples, each weighing as its class; smoothing spreads over the classes by their weights."""
    total = 0.0
    for row, label in zip(logits, labels, strict=True):
        logs = row - np.log(np.exp(row).sum())
        total -= (1 - smoothing) * weights[label] * logs[label]
        total -= smoothing / len(row) * sum(w * x for w, x in zip(weights, logs, strict=True))
    return total / sum(weights[label] for label in labels)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_weighted_mean(smoothing):
    logits, labels = torch.randn(13, 5), torch.arange(13) % 5
    found = StepLoss(smoothing, class_weights=WEIGHTS)({"logits": logits}, labels)
    expected = loop(logits.double().numpy(), labels.tolist(), WEIGHTS.double().tolist(), smoothing)
    assert float(found) == pytest.approx(expected, rel=1e-5)
    by_torch = torch.nn.functional.cross_entropy(logits, labels, WEIGHTS, label_smoothing=smoothing)
    torch.testing.assert_close(found, by_torch)


def test_weights_of_one_change_nothing():
    logits, labels = torch.randn(13, 5), torch.arange(13) % 5
    plain = StepLoss()({"logits": logits}, labels)
    torch.testing.assert_close(StepLoss(class_weights=torch.ones(5))({"logits": logits}, labels), plain)


def step(folder: Path, **options: int) -> PackedTrainer:
    budget = options.pop("max_tokens", None)
    trainer = PackedTrainer(
        pack(one_step.tiny_model()),
        one_step.one_step_arguments(folder, options.get("rows", 23), options.get("accumulate", 1)),
        max_tokens_per_batch=budget,
        class_weights=WEIGHTS,
        train_dataset=one_step.ragged_dataset(),
        data_collator=PaddingCollator(one_step.tiny_tokenizer()),
    )
    trainer.train()
    return trainer


def expected_weights() -> tuple[float, dict[str, Tensor]]:
    model = one_step.tiny_model().double()
    batch = PaddingCollator(one_step.tiny_tokenizer())([dict(row) for row in one_step.ragged_dataset()])
    labels = batch.pop("labels")
    loss = torch.nn.CrossEntropyLoss(WEIGHTS.double())(model(**batch).logits, labels)
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= one_step.RATE * parameter.grad
    return loss.item(), model.state_dict()


CUTS = [{}, {"rows": 5, "accumulate": 5}, {"max_tokens": 60, "accumulate": 99}]


@pytest.mark.parametrize("cut", CUTS, ids=["one", "rows", "budget"])
def test_a_step_is_normalised_by_the_weights_of_all_its_examples(cut, tmp_path):
    loss, weights = expected_weights()
    trainer = step(tmp_path, **cut)
    assert trainer.state.log_history[0]["loss"] == pytest.approx(loss, abs=1e-5)
    for name, want in weights.items():
        torch.testing.assert_close(trainer.model.state_dict()[name].double(), want, rtol=0, atol=2e-6, msg=name)


def test_how_far_a_run_has_come():
    assert [step_share(i, 3) for i in range(3)] == [0.0, 0.5, 1.0]
    assert step_share(0, 1) == 0.0
