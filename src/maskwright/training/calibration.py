"""Whether probabilities mean what they say: expected calibration error, Brier score, negative log-likelihood."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maskwright.training.kinds.base import Predicted
from maskwright.training.kinds.table import KINDS

N_BINS = 15


@dataclass(frozen=True, slots=True)
class Bin:
    """Answers whose confidence lies in (low, high]: how many, their mean confidence, and the share that is right."""

    low: float
    high: float
    n: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """How well probabilities fit the gold answers; all three scores are 0 at best.

    Units: `ece` in [0, 1]; `brier` as scikit-learn has it: for two classes, or yes/no labels, the mean of
    (p - gold)^2, in [0, 1]; for more classes its sum over the classes, in [0, 2]; `nll` in nats an answer. `bins` are
    those that hold answers.
    """

    ece: float
    brier: float
    nll: float
    bins: tuple[Bin, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"bins": [asdict(each) for each in self.bins]}


def calibrate(probabilities: NDArray[np.floating], gold: NDArray[np.generic], n_bins: int = N_BINS) -> Calibration:
    """Compare probabilities with gold answers.

    Args:
        probabilities: `[N, C]`, over classes, or of each label on its own.
        gold: class indices `[N]`; or 0/1 by label `[N, C]`, each of which is then an answer of its own.
        n_bins: equal widths of confidence, the probability of the answer given.

    Example:
        >>> found = calibrate(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1]))
        >>> found.ece, found.brier, found.bins[0].n
        (0.25, 0.3125, 2)

    Source: Naeini et al. 2015 and Guo et al. 2017 (ECE); Brier 1950.
    """
    shares, right = np.asarray(probabilities, dtype=np.float64), np.asarray(gold)
    if right.ndim == 2:
        shares, right = np.stack([1 - shares.ravel(), shares.ravel()], 1), right.ravel().astype(np.int64)
    rows = np.arange(len(right))
    one_hot = np.zeros_like(shares)
    one_hot[rows, right] = 1
    squares = ((shares - one_hot) ** 2).sum(1).mean()
    bins = _bins(shares.max(1), shares.argmax(1) == right, n_bins)
    return Calibration(
        ece=sum(each.n * abs(each.confidence - each.accuracy) for each in bins) / len(right),
        brier=float(squares / 2 if shares.shape[1] == 2 else squares),
        nll=float(-np.log(np.maximum(shares[rows, right], np.finfo(np.float64).tiny)).mean()),
        bins=bins,
    )


def calibration_of(predicted: Predicted) -> dict[str, Any] | None:
    """The calibration of predictions for labelled examples, as plain values; None where there are no probabilities."""
    shares = KINDS[predicted.data.problem].probabilities(predicted)
    return None if shares is None else calibrate(shares, np.asarray(predicted.encoded["labels"])).to_dict()


def _bins(confidence: NDArray[np.float64], right: NDArray[np.bool_], n_bins: int) -> tuple[Bin, ...]:
    edges = np.linspace(0, 1, n_bins + 1)
    # (low, high]: an edge belongs to the bin below it, and 0 to the first.
    of = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, n_bins - 1)
    found = []
    for i in np.unique(of).tolist():
        inside = of == i
        mean, share = float(confidence[inside].mean()), float(right[inside].mean())
        found.append(Bin(float(edges[i]), float(edges[i + 1]), int(inside.sum()), mean, share))
    return tuple(found)
