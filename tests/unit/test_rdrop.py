"""R-Drop: its value and gradient against explicit sums in float64, and one step of it however the step is cut."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import one_step
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from maskwright.data.collate import PaddingCollator
from maskwright.encoders.pack import pack
from maskwright.objectives.rdrop import summed_divergence, symmetric_kl, twice
from maskwright.training.loss import StepLoss
from maskwright.training.trainer import PackedTrainer

ALPHA = 0.7
BUDGETED = {"max_tokens": 60, "accumulate": 99}


def softmax(row):
    exps = [math.exp(x) for x in row]
    return [e / math.fsum(exps) for e in exps]


def kl(p, q):
    return math.fsum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def both_ways(p, q):
    return (kl(p, q) + kl(q, p)) / 2


def oracle(first, second, labels, problem, alpha, weights=None):
    """The mean over all labels of (cross entropies of two passes) / 2 + alpha * divergence, one label at a time."""
    total = count = 0.0
    for a, b, label in zip(first, second, labels, strict=True):
        if problem == "regression":
            total += ((a[0] - label) ** 2 + (b[0] - label) ** 2) / 2 + alpha * (a[0] - b[0]) ** 2
            count += 1
        elif problem == "multi_label_classification":
            for x, y, on in zip(a, b, label, strict=True):
                p, q = softmax([x, 0.0]), softmax([y, 0.0])
                gold = 0 if on else 1
                total += -(math.log(p[gold]) + math.log(q[gold])) / 2 + alpha * both_ways(p, q)
                count += 1
        else:
            p, q, weight = softmax(a), softmax(b), 1.0 if weights is None else weights[label]
            total += weight * (-(math.log(p[label]) + math.log(q[label])) / 2 + alpha * both_ways(p, q))
            count += weight
    return total / count


def labels_of(problem, rng, n=7, c=5):
    if problem == "regression":
        return rng.normal(size=n)
    return rng.integers(0, 2, (n, c)).astype(float) if problem.startswith("multi") else rng.integers(0, c, n)


WEIGHTED = [*((problem, False) for problem in one_step.PROBLEMS), ("single_label_classification", True)]


@pytest.mark.parametrize(("problem", "weighted"), WEIGHTED)
def test_value_and_gradient_are_those_of_the_formula(problem, weighted):
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(2, 7, 1 if problem == "regression" else 5)) * 2
    labels = labels_of(problem, rng)
    weights = rng.uniform(0.2, 3.0, 5) if weighted else None
    loss = StepLoss(rdrop_alpha=ALPHA, class_weights=None if weights is None else torch.tensor(weights).float())
    stacked = torch.tensor(logits.reshape(14, -1), dtype=torch.float32, requires_grad=True)
    gold = torch.tensor(labels, dtype=torch.long if labels.dtype.kind == "i" else torch.float32)
    found = loss({"logits": stacked}, gold)
    found.backward()
    assert found.item() == pytest.approx(oracle(*logits, labels, problem, ALPHA, weights), rel=1e-5)
    step = 1e-5
    for index in np.ndindex(logits.shape):
        values = []
        for sign in (1, -1):
            moved = logits.copy()
            moved[index] += sign * step
            values.append(oracle(*moved, labels, problem, ALPHA, weights))
        slope = (values[0] - values[1]) / (2 * step)
        row = index[0] * 7 + index[1]
        assert float(stacked.grad[row, index[2]]) == pytest.approx(slope, abs=2e-6), index


def test_by_token_only_labelled_ones_count():
    first, second = torch.randn(2, 3, 5), torch.randn(2, 3, 5)
    labels = torch.tensor([[1, -100, 4], [-100, -100, 0]])
    alone = sum(symmetric_kl(first[i, j], second[i, j]) for i, j in [(0, 0), (0, 2), (1, 2)])
    torch.testing.assert_close(summed_divergence(first, second, labels), alone)


def test_a_padded_choice_adds_nothing_and_breaks_no_gradient():
    lowest = torch.finfo(torch.float32).min
    first = torch.tensor([[0.3, -1.0, lowest]], requires_grad=True)
    second = torch.tensor([[1.1, 0.4, lowest]], requires_grad=True)
    apart = symmetric_kl(first, second)
    apart.sum().backward()
    torch.testing.assert_close(apart, symmetric_kl(first[:, :2], second[:, :2]))
    assert torch.isfinite(first.grad).all()
    assert first.grad[0, 2] == 0


def test_only_tensors_that_lead_with_the_rows_are_repeated():
    found = twice({"input_ids": torch.ones(3, 2), "scale": torch.tensor(2.0), "positions": torch.ones(1, 2), "x": None})
    assert found["input_ids"].shape == (6, 2)
    assert found["positions"].shape == (1, 2)
    assert found["scale"] == 2
    assert found["x"] is None


def apart(module, args, output: Tensor) -> Tensor:
    """Noise that depends on a row and its pass alone: the second pass's logits are turned and shrunk."""
    n = len(output) // 2
    return torch.cat([output[:n], 0.6 * output[n:] + 0.5 * output[n:].flip(-1) + 0.3])


def step(
    folder: Path | str,
    *,
    max_tokens: int | None = None,
    rows: int = one_step.N_EXAMPLES,
    accumulate: int = 1,
    problem: str = one_step.PROBLEMS[0],
    packed: bool = True,
    weights: Tensor | None = None,
) -> PackedTrainer:
    model = one_step.tiny_model(problem)
    model.classifier.register_forward_hook(apart)
    if packed:
        pack(model)
    trainer = PackedTrainer(
        model,
        one_step.one_step_arguments(folder, rows, accumulate),
        max_tokens_per_batch=max_tokens,
        rdrop_alpha=ALPHA,
        class_weights=weights,
        train_dataset=one_step.ragged_dataset(problem),
        data_collator=PaddingCollator(one_step.tiny_tokenizer()),
    )
    trainer.train()
    return trainer


def expected_step(problem: str, weights: Tensor | None = None) -> tuple[float, dict[str, Tensor]]:
    """The oracle's loss, and weights after one step of a float64 model called twice in separate passes."""
    batch = PaddingCollator(one_step.tiny_tokenizer())([dict(row) for row in one_step.ragged_dataset(problem)])
    labels = batch.pop("labels")
    model = one_step.tiny_model(problem).double()
    first = model(**batch).logits
    second = model(**batch).logits
    second = 0.6 * second + 0.5 * second.flip(-1) + 0.3
    each = None if weights is None else weights.double()
    loss = oracle(
        first.tolist(), second.tolist(), labels.tolist(), problem, ALPHA, None if each is None else each.tolist()
    )
    if problem == "regression":
        gold = labels.double()[:, None]
        terms = (((first - gold) ** 2 + (second - gold) ** 2) / 2 + ALPHA * (first - second) ** 2).mean()
    elif problem == "multi_label_classification":
        gold = labels.double()
        p, q = torch.sigmoid(first), torch.sigmoid(second)
        ce = sum(-(gold * x.log() + (1 - gold) * (1 - x).log()) for x in (p, q)) / 2
        there, back = p * (p / q).log(), (1 - p) * ((1 - p) / (1 - q)).log()
        again, over = q * (q / p).log(), (1 - q) * ((1 - q) / (1 - p)).log()
        terms = (ce + ALPHA * (there + back + again + over) / 2).mean()
    else:
        p, q = first.softmax(-1), second.softmax(-1)
        rows = torch.arange(len(labels))
        ce = -(p[rows, labels].log() + q[rows, labels].log()) / 2
        both = ((p * (p / q).log()).sum(-1) + (q * (q / p).log()).sum(-1)) / 2
        share = torch.ones(len(labels)).double() if each is None else each[labels]
        terms = (share * (ce + ALPHA * both)).sum() / share.sum()
    assert terms.item() == pytest.approx(loss, rel=1e-9)
    terms.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= one_step.RATE * parameter.grad
    return loss, model.state_dict()


def assert_weights(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    for name, want in expected.items():
        torch.testing.assert_close(found[name].double(), want, rtol=0, atol=3e-6, msg=name)


@pytest.mark.parametrize("problem", one_step.PROBLEMS)
@pytest.mark.parametrize(
    "cut",
    [{}, {"rows": 5, "accumulate": 5}, BUDGETED, BUDGETED | {"packed": False}],
    ids=["one", "rows", "budget", "stock"],
)
def test_a_step_is_the_same_however_it_is_cut_and_as_two_passes(cut, problem, tmp_path):
    loss, weights = expected_step(problem)
    trainer = step(tmp_path, problem=problem, **cut)
    assert trainer.state.log_history[0]["loss"] == pytest.approx(loss, abs=2e-5)
    assert_weights(trainer.model.state_dict(), weights)


CLASS_WEIGHTS = torch.tensor([0.3, 2.0, 1.0, 0.7, 4.0])


@pytest.mark.parametrize("cut", [{}, BUDGETED], ids=["one", "budget"])
def test_class_weights_too(cut, tmp_path):
    loss, weights = expected_step(one_step.PROBLEMS[0], CLASS_WEIGHTS)
    trainer = step(tmp_path, weights=CLASS_WEIGHTS, **cut)
    assert trainer.state.log_history[0]["loss"] == pytest.approx(loss, abs=2e-5)
    assert_weights(trainer.model.state_dict(), weights)


def test_two_ranks_make_the_step_of_one(tmp_path):
    out = tmp_path / "weights.safetensors"
    one_step.run_on_two_ranks(__file__, str(out))
    assert_weights(load_file(out), expected_step(one_step.PROBLEMS[0], CLASS_WEIGHTS)[1])


def passes_of(model: torch.nn.Module) -> list[Tensor]:
    seen: list[Tensor] = []
    model.register_forward_pre_hook(lambda module, args, kwargs: seen.append(kwargs["input_ids"]), with_kwargs=True)
    return seen


def test_both_passes_are_one_batch_and_evaluation_is_one_pass(tmp_path):
    model = pack(one_step.tiny_model(dropout=0.3))
    seen = passes_of(model)
    trainer = PackedTrainer(
        model,
        one_step.one_step_arguments(tmp_path, 23, 1),
        rdrop_alpha=ALPHA,
        train_dataset=one_step.ragged_dataset(),
        eval_dataset=one_step.ragged_dataset(),
        data_collator=PaddingCollator(one_step.tiny_tokenizer()),
    )
    trainer.train()
    (batch,) = seen
    assert len(batch) == 46
    assert torch.equal(batch[:23], batch[23:])
    seen.clear()
    trainer.evaluate()
    assert sum(map(len, seen)) == 23


def test_the_passes_differ_by_dropout_and_by_dropped_tokens():
    for options in ({"dropout": 0.3}, {}):
        model = pack(one_step.tiny_model(**options), drop_rate=0.0 if options else 0.3, special_ids=[0, 2, 3]).train()
        batch = PaddingCollator(one_step.tiny_tokenizer())([dict(row) for row in one_step.ragged_dataset()])
        del batch["labels"]
        first, second = model(**twice(batch)).logits.chunk(2)
        # A row of one or two words may keep them all.
        assert ((first - second).abs().amax(-1) > 1e-5).float().mean() > 0.7


def test_alpha_0_of_two_equal_passes_is_the_plain_loss():
    logits, labels = torch.randn(7, 5), torch.arange(7) % 5
    plain = StepLoss()({"logits": logits}, labels)
    torch.testing.assert_close(StepLoss(rdrop_alpha=0.0)({"logits": torch.cat([logits, logits])}, labels), plain)


if __name__ == "__main__":
    out = sys.argv[1]
    trained = step(Path(out).parent, max_tokens=40, accumulate=99, weights=CLASS_WEIGHTS)
    if trained.is_world_process_zero():
        save_file({name: value.contiguous() for name, value in trained.model.state_dict().items()}, out)
    torch.distributed.destroy_process_group()
