"""Whether two variants differ beyond the noise of their seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from maskwright.errors import InputError

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Comparison:
    """Mean difference over pairs, its 95 % interval and the p-value of the paired t-test (two-sided).

    `low`, `high` and `p` are None where the pairs do not tell how much they scatter: a single pair, or differences
    that are all the same. Where all are zero, p is 1.
    """

    n_pairs: int
    difference: float
    low: float | None = None
    high: float | None = None
    p: float | None = None


def paired(values: Sequence[float], baseline: Sequence[float]) -> Comparison:
    """Compare values with those of the baseline, pair by pair (the same seed).

    Raises:
        InputError: no pair, or not as many values as baseline values.

    Example:
        >>> found = paired([0.62, 0.66, 0.64], [0.60, 0.61, 0.63])
        >>> round(found.difference, 4), round(found.p, 3)
        (0.0267, 0.157)
        >>> paired([0.6], [0.5]).p is None
        True
    """
    if not values or len(values) != len(baseline):
        raise InputError(f"{len(values)} values cannot be paired with {len(baseline)}", "values")
    differences = np.asarray(values, np.float64) - np.asarray(baseline, np.float64)
    n, mean = len(differences), float(differences.mean())
    if n == 1:
        return Comparison(n, mean)
    error = float(differences.std(ddof=1)) / n**0.5
    # Equal up to rounding: scores on few examples move in steps, so seeds may well agree to the digit.
    if error <= 1e-9 * max(1.0, abs(mean)):
        return Comparison(n, 0.0, p=1.0) if abs(mean) <= 1e-9 else Comparison(n, mean)
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, n - 1))
    return Comparison(n, mean, mean - reach, mean + reach, p)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number by Holm's step-down method, in the order given.

    The probability that even one true null hypothesis is rejected stays below the level, whatever the dependence.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]

    Source:
        Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected
