"""What several noisy predictions of one model come to: their mean, their spread, and how much they disagree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, xlogy

from maskwright.data.tasks.base import Problem
from maskwright.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Averaged:
    """Predictions for N texts.

    Shapes: `mean` and `spread` float64 `[N, C]`: probabilities and their standard deviation over the samples (of one
    pass without noise: 0); in regression the values, `[N, 1]`. `mutual_information` `[N]`; None in regression.

    Units: mutual information in nats.
    """

    mean: Array
    spread: Array
    mutual_information: Array | None


def summarise(samples: Array, problem: Problem) -> Averaged:
    """`[S, N, C]` probabilities (or values `[S, N, 1]`) of S noisy passes -> their summary.

    The spread has S - 1 in its denominator, so that it does not grow with S.

    Args:
        samples: S is 2 or more.
        problem: says what the last axis holds.

    Raises:
        InputError: fewer than two samples.

    Example:
        >>> found = summarise(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), "single_label_classification")
        >>> found.mean.tolist(), found.mutual_information.round(4).tolist()
        ([[0.5, 0.5]], [0.6931])
    """
    if len(samples) < 2:
        raise InputError(f"2 or more are needed to average, got {len(samples)}", "samples")
    information = None if problem == "regression" else mutual_information(samples, problem)
    return Averaged(samples.mean(0), samples.std(0, ddof=1), information)


def mutual_information(samples: Array, problem: Problem) -> Array:
    """`[S, N, C]` probabilities -> `[N]`: what knowing the model's noise would tell about the answer, in nats.

    The entropy of the mean less the mean entropy (BALD): 0 where all passes agree, however unsure they are. Of several
    labels, each of which is there or not, it is the sum of the labels' own.

    Example:
        >>> mutual_information(np.array([[[0.5, 0.5]], [[0.5, 0.5]]]), "single_label_classification").tolist()
        [0.0]

    Source: Houlsby et al. 2011, Bayesian Active Learning for Classification and Preference Learning.
    """
    entropy = _label_entropies if problem == "multi_label_classification" else _class_entropies
    # Rounding must not make it negative.
    information: Array = np.maximum(entropy(samples.mean(0)) - entropy(samples).mean(0), 0.0)
    return information


def to_logits(mean: Array, problem: Problem) -> Array:
    """Mean probabilities `[N, C]` (or values) as logits whose softmax, or sigmoid by label, they are.

    Scores, thresholds and files that start from logits then serve averaged predictions too.

    Example:
        >>> to_logits(np.array([[0.5]]), "multi_label_classification").tolist()
        [[0.0]]
    """
    if problem == "regression":
        return mean
    tiny = np.finfo(np.float64).tiny
    if problem == "multi_label_classification":
        return logit(np.clip(mean, tiny, 1 - np.finfo(np.float64).epsneg))
    return np.log(np.maximum(mean, tiny))


def dropout_variance(weights: Array, inputs: Array, rate: float) -> float:
    """The variance of `w . (x e / p)`, where each e is 1 with probability p = 1 - rate: a linear unit under dropout.

    Its mean is `w . x`, so model and weight averaging agree on a linear unit. On the square of one they differ by this
    variance, sum of p (1 - p) (w x / p)^2: the part of model averaging that switching dropout off leaves out.

    Example:
        >>> dropout_variance(np.array([1.0]), np.array([3.0]), 0.5)
        9.0
    """
    kept = 1 - rate
    return float((kept * rate * (weights * inputs / kept) ** 2).sum())


def _class_entropies(probabilities: Array) -> Array:
    return -xlogy(probabilities, probabilities).sum(-1)


def _label_entropies(probabilities: Array) -> Array:
    return _class_entropies(np.stack([probabilities, 1 - probabilities], -1)).sum(-1)
