"""Calibration against scikit-learn and against loops over bins."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from maskwright.training.calibration import calibrate

RNG = np.random.default_rng(11)


def case(n=997, c=5, sharpness=2.0):
    logits = RNG.normal(size=(n, c)) * sharpness
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return shares, RNG.integers(0, c, n)


def loops(shares, gold, n_bins=15):
    """ECE and bins by walking through the intervals."""
    total, bins = 0.0, []
    for i in range(n_bins):
        low, high = i / n_bins, (i + 1) / n_bins
        inside = [
            (max(row), int(list(row).index(max(row)) == g))
            for row, g in zip(shares.tolist(), gold.tolist(), strict=True)
            if low < max(row) <= high
        ]
        if inside:
            confidence = math.fsum(p for p, _ in inside) / len(inside)
            accuracy = sum(right for _, right in inside) / len(inside)
            total += len(inside) / len(gold) * abs(confidence - accuracy)
            bins.append((low, high, len(inside), confidence, accuracy))
    return total, bins


@pytest.mark.parametrize("c", [2, 5])
def test_it_is_what_loops_and_scikit_learn_find(c):
    shares, gold = case(c=c)
    found = calibrate(shares, gold)
    ece, bins = loops(shares, gold)
    assert found.ece == pytest.approx(ece)
    for each, want in zip(found.bins, bins, strict=True):
        assert (each.low, each.high, each.n, each.confidence, each.accuracy) == pytest.approx(want)
    assert found.nll == pytest.approx(log_loss(gold, shares))
    if c == 2:
        assert found.brier == pytest.approx(brier_score_loss(gold, shares[:, 1]))
    else:
        by_hand = sum((shares[i, j] - (gold[i] == j)) ** 2 for i in range(997) for j in range(c)) / 997
        assert found.brier == pytest.approx(by_hand)


def test_each_label_is_an_answer_of_its_own():
    shares, gold = RNG.uniform(size=(101, 3)), RNG.integers(0, 2, (101, 3)).astype(float)
    found = calibrate(shares, gold)
    flat, hits = shares.ravel(), gold.ravel()
    assert found.brier == pytest.approx(brier_score_loss(hits, flat))
    assert found.nll == pytest.approx(log_loss(hits, flat))
    ece, _ = loops(np.stack([1 - flat, flat], 1), hits.astype(int))
    assert found.ece == pytest.approx(ece)
    assert sum(each.n for each in found.bins) == 303


def test_honest_probabilities_are_well_calibrated_and_sharpened_ones_are_not():
    logits = RNG.normal(size=(40_009, 3)) * 1.5
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    gold = (RNG.uniform(size=(40_009, 1)) > shares.cumsum(1)).sum(1)
    honest = calibrate(shares, gold)
    sharp = calibrate(shares**3 / (shares**3).sum(1, keepdims=True), gold)
    assert honest.ece < 0.01 < 0.1 < sharp.ece
    assert honest.nll < sharp.nll
    assert honest.brier < sharp.brier


def test_an_edge_belongs_to_the_bin_below_it():
    """A quarter is exact in binary."""
    found = calibrate(np.array([[0.75, 0.25], [1.0, 0.0], [0.76, 0.24]]), np.array([0, 0, 0]), n_bins=4)
    assert [(each.low, each.high, each.n) for each in found.bins] == [(0.5, 0.75, 1), (0.75, 1.0, 2)]


def test_a_certain_mistake_costs_much_and_is_finite():
    found = calibrate(np.array([[1.0, 0.0]]), np.array([1]))
    assert (found.ece, found.brier) == (1.0, 1.0)
    assert 700 < found.nll < 800
    assert json.loads(json.dumps(found.to_dict()))["bins"][0]["accuracy"] == 0.0
