"""The gap's estimators against closed forms (all draws enumerated, weighted by their probability), pairs, and truth."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from maskwright.errors import InputError
from maskwright.objectives.gap import DrawSums, TextTerms, distances, interval, resample

W = np.random.default_rng(0).normal(size=(3, 2))
KEEP_RATES = [0.25, 0.5, 0.85]


def enumerated(f, x, m, p, n_draws):
    """(probability, the n_draws vectors f(x ε + m (1 - ε))) of every sequence of draws of ε, one bit a token."""
    outcomes = []
    for bits in itertools.product([0, 1], repeat=len(x)):
        kept = np.array(bits)[:, None]
        outcomes.append((np.prod(np.where(kept, p, 1 - p)), f(np.where(kept, x, m))))
    for sequence in itertools.product(outcomes, repeat=n_draws):
        yield math.prod(weight for weight, _ in sequence), [value for _, value in sequence]


def expected_terms(f, x, m, p, reference, n_draws):
    """The expectation, over everything that can be drawn, of the terms of one text of one vector."""
    gap = squares = noise = 0.0
    for weight, values in enumerated(f, x, m, p, n_draws):
        sums = DrawSums(1, len(reference))
        for value in values:
            sums.add(torch.tensor([0]), torch.from_numpy(value)[None])
        terms = TextTerms.of(sums, torch.tensor([0]), 1, {"g": torch.from_numpy(reference)[None]})
        gap, squares = gap + weight * terms.gaps["g"].item(), squares + weight * terms.squares.item()
        noise += weight * terms.noise.item()
    return gap, squares, noise


@pytest.mark.parametrize("p", KEEP_RATES)
@pytest.mark.parametrize("n_draws", [2, 3])
def test_a_linear_model_is_at_its_average(p, n_draws):
    """f(y) = sum of y W over tokens: E f(x ε + m (1 - ε)) is f at the expected input, and not f(x)."""

    def f(y):
        return (y @ W).sum(0)

    x, m = np.array([[1.0, -2.0, 0.5], [0.3, 1.7, 2.0]]), np.array([[0.7, 0.1, -1.1]])
    corrected, plain = f(p * x + (1 - p) * m), f(x)
    gap, squares, noise = expected_terms(f, x, m, p, corrected, n_draws)
    assert abs(gap) < 1e-12
    assert squares == pytest.approx((corrected**2).sum(), abs=1e-12)
    # Each token's part varies by p (1 - p) times its square, and the mean of S draws by 1 / S of that.
    assert noise == pytest.approx(p * (1 - p) * (((x - m) @ W) ** 2).sum() / n_draws, abs=1e-12)
    gap, _, _ = expected_terms(f, x, m, p, plain, n_draws)
    assert gap == pytest.approx(((1 - p) ** 2) * (((m - x) @ W).sum(0) ** 2).sum(), abs=1e-12)


@pytest.mark.parametrize("p", KEEP_RATES)
@pytest.mark.parametrize("n_draws", [2, 3])
def test_a_square_is_off_by_the_bernoulli_moments(p, n_draws):
    """All moments of ε are p: E (xε/p)² = x²/p, which is x² (1/p - 1) from x²: a share of 1 - p of the average."""
    x = np.array([[1.3]])
    gap, squares, _ = expected_terms(lambda y: (y[0] / p) ** 2, x, 0 * x, p, (x[0]) ** 2, n_draws)
    assert gap == pytest.approx((1.3**2 * (1 / p - 1)) ** 2, abs=1e-12)
    one = torch.ones(1, dtype=torch.float64)
    terms = TextTerms(one, one[:, None], squares * one, 0 * one, {"g": gap * one})
    assert distances(terms, torch.ones(1, 1, dtype=torch.float64), "norm")["g"].item() == pytest.approx(1 - p)


@pytest.mark.parametrize("p", KEEP_RATES)
def test_a_square_of_mixed_inputs_is_off_by_their_variance(p):
    """E (xε + m(1-ε))² - (px + (1-p)m)² = p (1-p) (x - m)²."""
    x, m = np.array([[1.3]]), np.array([[-0.4]])
    corrected = (p * x[0] + (1 - p) * m[0]) ** 2
    gap, _, _ = expected_terms(lambda y: y[0] ** 2, x, m, p, corrected, 2)
    assert gap == pytest.approx((p * (1 - p) * 1.7**2) ** 2, abs=1e-12)


def pairs(values, reference):
    """The mean of (y_s - g)·(y_t - g) over pairs s ≠ t: the definition, without a mean or a variance."""
    n = len(values)
    products = [(values[s] - reference) @ (values[t] - reference) for s in range(n) for t in range(n) if s != t]
    return math.fsum(products) / len(products)


def drawn(generator, counts, width):
    """Per vector, its draws: other numbers of draws, other means and spreads."""
    centres = 2 * generator.normal(size=(len(counts), width))
    parts = enumerate(zip(centres, counts, strict=True))
    return [centre + (0.3 + i) * generator.normal(size=(n, width)) for i, (centre, n) in parts]


def sums_of(values, width):
    sums = DrawSums(len(values), width)
    flat = [(i, v) for i, of_one in enumerate(values) for v in of_one]
    for start in range(0, len(flat), 5):  # several batches
        part = flat[start : start + 5]
        sums.add(torch.tensor([i for i, _ in part]), torch.tensor(np.array([v for _, v in part])))
    return sums


def test_it_is_the_mean_over_pairs_of_draws():
    values = drawn(np.random.default_rng(2), [2, 3, 7, 13], 5)
    reference = np.random.default_rng(3).normal(size=(4, 5))
    found = sums_of(values, 5).squared_distance(torch.from_numpy(reference))
    wanted = [pairs(v, g) for v, g in zip(values, reference, strict=True)]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
    squares = TextTerms.of(sums_of(values, 5), torch.tensor([0, 0, 1, 1]), 2, {}).squares
    origin = [pairs(v, np.zeros(5)) for v in values]
    np.testing.assert_allclose(squares.numpy(), [origin[0] + origin[1], origin[2] + origin[3]], rtol=1e-12)


def test_sums_add_up():
    values = drawn(np.random.default_rng(4), [3, 5], 7)
    halves = sums_of([values[0][:1], values[1][:4]], 7) + sums_of([values[0][1:], values[1][4:]], 7)
    whole = sums_of(values, 7)
    for name in ("count", "total", "squares"):
        torch.testing.assert_close(getattr(halves, name), getattr(whole, name))


def test_two_draws_are_enough_to_be_right_on_average():
    """7,919 repetitions with 2 draws: the estimate is at the truth within its error; the plain one is far off."""
    generator = np.random.default_rng(5)
    centre, reference, n = np.array([1.0, 0.0, -1.0]), np.array([1.1, 0.0, -1.0]), 7919
    values = centre + generator.normal(size=(n, 2, 3))
    found = sums_of(list(values), 3).squared_distance(torch.from_numpy(reference).expand(n, 3)).numpy()
    assert abs(found.mean() - 0.01) < 4 * found.std() / math.sqrt(n)
    naive = ((values.mean(1) - reference) ** 2).sum(1)
    assert naive.mean() > 1


def test_vectors_with_fewer_than_two_draws_do_not_count():
    generator = np.random.default_rng(6)
    values = drawn(generator, [4, 1, 0, 3], 2)
    reference = torch.from_numpy(generator.normal(size=(4, 2)))
    terms = TextTerms.of(sums_of(values, 2), torch.tensor([0, 0, 1, 1]), 3, {"g": reference})
    assert terms.n.tolist() == [1, 1, 0]
    assert terms.gaps["g"][0].item() == pytest.approx(pairs(values[0], reference[0].numpy()))
    assert terms.gaps["g"][2].item() == terms.squares[2].item() == 0


def made(seed, n_texts, n_draws, off, width=3):
    """Terms of texts of 1 to 5 tokens with unit spread, draws with a spread of 1, and a reference that is `off`."""
    generator = np.random.default_rng(seed)
    rows = np.repeat(np.arange(n_texts), generator.integers(1, 6, n_texts))
    centres = 5 + generator.normal(size=(len(rows), width))  # a common part that must not matter
    values = centres[:, None] + generator.normal(size=(len(rows), n_draws, width))
    step = generator.normal(size=centres.shape)
    reference = centres + off * math.sqrt(width) * step / np.linalg.norm(step, axis=1, keepdims=True)
    sums = sums_of(list(values), width)
    return TextTerms.of(sums, torch.from_numpy(rows), n_texts, {"g": torch.from_numpy(reference)})


def test_spread_is_that_of_the_expectations_without_noise():
    """Unit variance in 3 dimensions about any centre; the noise of 2 draws would add half as much again."""
    per_vector = [
        terms.spread.sum().item() / terms.n.sum().item() for terms in (made(s, 101, 2, 0.0) for s in range(23))
    ]
    assert abs(np.mean(per_vector) - 3) < 4 * np.std(per_vector) / math.sqrt(23) + 3 / 300
    assert np.std(per_vector) < 0.3


@pytest.mark.parametrize("off", [0.0, 0.3])
def test_intervals_hold_the_truth(off):
    """In 199 repetitions of 53 texts and 5 draws. Where the truth is 0 the interval begins at 0."""
    inside = 0
    for seed in range(199):
        terms = made(seed, 53, 5, off)
        found = interval(distances(terms, resample(53, 499, seed))["g"])
        assert found.low <= found.high
        inside += found.low <= off <= found.high
    assert 0.88 * 199 <= inside <= 199


def test_the_common_part_matters_to_the_norm_only():
    terms = made(0, 997, 7, 0.3)
    weights = torch.ones(1, 997, dtype=torch.float64)
    assert distances(terms, weights)["g"].item() == pytest.approx(0.3, abs=0.03)
    assert distances(terms, weights, "norm")["g"].item() == pytest.approx(0.3 * math.sqrt(3 / (75 + 3)), abs=0.01)


def test_texts_are_joined_and_resampled_whole():
    one, two = made(1, 7, 3, 0.5), made(2, 5, 3, 0.5)
    joined = TextTerms.joined([one, two])
    assert joined.n.tolist() == [*one.n.tolist(), *two.n.tolist()]
    weights = resample(12, 101, seed=3)
    assert (weights[0] == 1).all()
    assert (weights.sum(1) == 12).all()
    assert len({tuple(row) for row in weights.tolist()}) > 95
    assert torch.equal(weights, resample(12, 101, seed=3))
    row = weights[17]
    by_hand = (row @ joined.gaps["g"] / (row @ joined.spread)).clamp(min=0).sqrt()
    torch.testing.assert_close(distances(joined, weights)["g"][17], by_hand)


def test_what_has_no_scale_is_not_a_number():
    values = [np.full((3, 2), 1.7) for _ in range(5)]
    terms = TextTerms.of(sums_of(values, 2), torch.arange(5), 5, {"g": torch.zeros(5, 2)})
    assert distances(terms, torch.ones(1, 5, dtype=torch.float64))["g"].isnan().all()
    with pytest.raises(InputError, match="two at least, got 1"):
        resample(1, 10, 0)
