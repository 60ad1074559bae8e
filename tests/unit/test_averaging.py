"""What averages come to: closed forms from the Bernoulli moments, and loops over samples, texts and classes."""

from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest

from maskwright.errors import InputError
from maskwright.objectives.averaging import dropout_variance, mutual_information, summarise, to_logits
from maskwright.training.metrics import decide, probabilities

CLASSES, LABELS = "single_label_classification", "multi_label_classification"


def exact_mean(f, x, rate):
    """E f(x e / p) over all 2^n masks."""
    p, total = 1 - rate, 0.0
    for mask in itertools.product([0, 1], repeat=len(x)):
        weight = math.prod(p if e else rate for e in mask)
        total += weight * f([a * e / p for a, e in zip(x, mask, strict=True)])
    return total


X, W = [1.3, -0.7, 2.9, 0.4, -1.1, 0.6, 3.1], [0.5, -1.9, 0.3, 0.8, -1.2, 2.3, 0.1]


def unit(x):
    return math.fsum(w * a for w, a in zip(W, x, strict=True))


@pytest.mark.parametrize("rate", [0.1, 0.37, 0.8])
def test_on_a_linear_model_model_and_weight_averaging_agree(rate):
    assert exact_mean(unit, X, rate) == pytest.approx(unit(X), abs=1e-12)


@pytest.mark.parametrize("rate", [0.1, 0.37, 0.8])
def test_on_a_square_they_differ_by_the_variance(rate):
    p = 1 - rate
    gap = exact_mean(lambda x: x[0] ** 2, X[:1], rate) - X[0] ** 2
    assert gap == pytest.approx(p * (1 - p) * X[0] ** 2 / p**2, rel=1e-12)
    assert gap == pytest.approx(dropout_variance(np.ones(1), np.array(X[:1]), rate), rel=1e-12)
    gap = exact_mean(lambda x: unit(x) ** 2, X, rate) - unit(X) ** 2
    assert gap == pytest.approx(dropout_variance(np.array(W), np.array(X), rate), rel=1e-12)


def test_with_squared_loss_the_mean_is_the_best_prediction():
    """No constant is nearer, on average over all masks, to f(x e / p) than E f."""
    mean = exact_mean(lambda x: unit(x) ** 2, X, 0.3)
    risks = [
        exact_mean(lambda x, guess=guess: (unit(x) ** 2 - guess) ** 2, X, 0.3)
        for guess in (mean, mean - 0.01, mean + 0.01, unit(X) ** 2)
    ]
    assert risks[0] == min(risks)
    assert risks[3] - risks[0] == pytest.approx((mean - unit(X) ** 2) ** 2)


def entropy(row):
    return -math.fsum(p * math.log(p) for p in row if p > 0)


def draws(problem, s=5, n=3, c=4):
    return probabilities(np.random.default_rng(1).normal(size=(s, n, c)) * 3, problem)


@pytest.mark.parametrize("problem", [CLASSES, LABELS])
def test_summaries_are_those_of_loops(problem):
    samples = draws(problem)
    found = summarise(samples, problem)
    for n in range(3):
        for c in range(4):
            each = samples[:, n, c].tolist()
            assert found.mean[n, c] == pytest.approx(statistics.fmean(each))
            assert found.spread[n, c] == pytest.approx(statistics.stdev(each))
        mean = [statistics.fmean(samples[:, n, c].tolist()) for c in range(4)]
        if problem == CLASSES:
            expected = entropy(mean) - statistics.fmean(entropy(row) for row in samples[:, n].tolist())
        else:
            expected = sum(
                entropy([mean[c], 1 - mean[c]])
                - statistics.fmean(entropy([p, 1 - p]) for p in samples[:, n, c].tolist())
                for c in range(4)
            )
        assert found.mutual_information[n] == pytest.approx(expected)


def test_mutual_information_by_its_other_definition():
    """The mean KL divergence from each sample to the mean."""
    samples = draws(CLASSES)
    mean = samples.mean(0)
    kl = (samples * np.log(samples / mean)).sum(-1).mean(0)
    np.testing.assert_allclose(mutual_information(samples, CLASSES), kl, rtol=1e-10)


def test_certainty_and_total_disagreement():
    split = np.array([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]])
    assert mutual_information(split, CLASSES)[0] == pytest.approx(math.log(3))
    assert mutual_information(np.repeat(split[:1], 3, 0), CLASSES)[0] == 0
    unsure = np.full((3, 1, 2), 0.1)
    assert mutual_information(unsure, LABELS)[0] == pytest.approx(0, abs=1e-15)


def test_values_have_no_mutual_information():
    found = summarise(np.array([[[1.0]], [[2.0]]]), "regression")
    assert (found.mean.tolist(), found.mutual_information) == ([[1.5]], None)
    assert found.spread[0, 0] == pytest.approx(math.sqrt(0.5))


def test_one_sample_is_no_average():
    with pytest.raises(InputError, match="samples: 2 or more"):
        summarise(np.ones((1, 3, 2)), CLASSES)


@pytest.mark.parametrize("problem", [CLASSES, LABELS])
def test_means_come_back_from_their_logits(problem):
    mean = draws(problem).mean(0)
    np.testing.assert_allclose(probabilities(to_logits(mean, problem), problem), mean, rtol=1e-12)
    edges = np.array([[1.0, 0.0]])
    assert np.isfinite(to_logits(edges, problem)).all()
    assert decide(to_logits(edges, problem), problem).tolist() == ([0] if problem == CLASSES else [[1, 0]])
    assert to_logits(edges, "regression") is edges
