"""The statistics of sweeps, against scipy's own test, closed forms, and Holm's procedure carried out step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from maskwright.errors import InputError
from maskwright.training.sweep.compare import holm, paired


@pytest.mark.parametrize("n", [2, 3, 5, 7])
def test_the_paired_test_is_scipys(n: int) -> None:
    random = np.random.default_rng(n)
    values, baseline = random.normal(0.6, 0.02, n), random.normal(0.59, 0.02, n)
    found, known = paired(values.tolist(), baseline.tolist()), stats.ttest_rel(values, baseline)
    interval = known.confidence_interval(0.95)
    assert found.n_pairs == n
    assert found.p == pytest.approx(known.pvalue, rel=1e-9)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-9)


def test_the_paired_test_by_hand() -> None:
    # Differences 1 and 3: mean 2, standard error 1, t = 2. With one degree of freedom t is Cauchy-distributed.
    assert paired([2.0, 5.0], [1.0, 2.0]).p == pytest.approx(1 - 2 / math.pi * math.atan(2))
    # Differences 1, 2 and 6: mean 3, variance 7. With two degrees of freedom the tail is 1 - t / sqrt(t² + 2).
    t = 3 / math.sqrt(7 / 3)
    assert paired([1.0, 2.0, 6.0], [0.0, 0.0, 0.0]).p == pytest.approx(1 - t / math.sqrt(t * t + 2))


def test_it_is_pairs_that_are_compared() -> None:
    # The seeds scatter far more than the variants differ, but alike in both.
    baseline = [0.10, 0.50, 0.90]
    found = paired([0.111, 0.509, 0.910], baseline)
    assert found.p is not None
    assert found.p < 0.01
    unpaired = paired([0.910, 0.111, 0.509], baseline)
    assert unpaired.p is not None
    assert unpaired.p > 0.5


def test_one_pair_tests_nothing() -> None:
    found = paired([0.7], [0.6])
    assert found.difference == pytest.approx(0.1)
    assert (found.low, found.high, found.p) == (None, None, None)


def test_differences_that_do_not_scatter() -> None:
    same = paired([0.5, 0.6, 0.7], [0.5, 0.6, 0.7])
    assert (same.difference, same.p) == (0.0, 1.0)
    assert (same.low, same.high) == (None, None)  # equal so far is no certainty
    shifted = paired([0.6, 0.7, 0.8], [0.5, 0.6, 0.7])
    assert shifted.difference == pytest.approx(0.1)
    assert shifted.p is None  # not 0: that no scatter was seen is no proof that there is none


def test_what_cannot_be_paired_is_refused() -> None:
    with pytest.raises(InputError, match="2 values cannot be paired with 3"):
        paired([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(InputError):
        paired([], [])


def test_holm_by_hand() -> None:
    # Sorted .005 .010 .030 .040, times 4 3 2 1: .020 .030 .060 .040; never below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


def rejected(p_values: list[float], level: float) -> set[int]:
    """Holm's procedure itself: from the smallest p on, reject while p <= level / hypotheses left; then stop."""
    found: set[int] = set()
    left = set(range(len(p_values)))
    while left:
        smallest = min(left, key=lambda i: (p_values[i], i))
        if p_values[smallest] > level / len(left):
            break
        found.add(smallest)
        left.remove(smallest)
    return found


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=7), st.floats(0.01, 0.99))
def test_a_corrected_p_is_below_the_level_just_where_holms_procedure_rejects(
    p_values: list[float], level: float
) -> None:
    corrected = holm(p_values)
    if min(abs(p - level) for p in corrected) > 1e-9:  # rounding decides at the level itself
        assert {i for i, p in enumerate(corrected) if p <= level} == rejected(p_values, level)
