"""Scores of predictions against gold labels, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn import metrics as sk

from maskwright.data.tasks.base import Problem
from maskwright.errors import InputError

Array = NDArray[np.generic]

_CLASSES: dict[str, Callable[[Array, Array], float]] = {
    "accuracy": sk.accuracy_score,
    "f1": lambda gold, guess: sk.f1_score(gold, guess, average="binary" if gold.ndim == 1 else "micro"),
    "f1_macro": lambda gold, guess: sk.f1_score(gold, guess, average="macro", zero_division=0),
    "f1_micro": lambda gold, guess: sk.f1_score(gold, guess, average="micro", zero_division=0),
    "matthews_correlation": sk.matthews_corrcoef,
}
_VALUES: dict[str, Callable[[Array, Array], float]] = {
    "pearson": lambda gold, guess: stats.pearsonr(gold, guess).statistic,
    "spearman": lambda gold, guess: stats.spearmanr(gold, guess).statistic,
    "mse": sk.mean_squared_error,
    "mae": sk.mean_absolute_error,
}


def decide(logits: Array, problem: Problem, threshold: float = 0.5) -> Array:
    """Logits `[B, C]` as answers: class indices `[B]`, 0/1 per label `[B, C]`, or values `[B]`."""
    if problem == "regression":
        return np.asarray(logits).reshape(len(logits))
    if problem == "multi_label_classification":
        return np.asarray(probabilities(logits, problem) >= threshold).astype(np.int64)
    return np.asarray(logits).argmax(-1)


def probabilities(logits: Array, problem: Problem) -> NDArray[np.float64]:
    """Logits `[B, C]` as probabilities `[B, C]` in float64: over the classes, or each label on its own."""
    wide = np.asarray(logits, dtype=np.float64)
    if problem == "multi_label_classification":
        return np.exp(-np.logaddexp(0, -wide))
    exp = np.exp(wide - wide.max(-1, keepdims=True))
    return exp / exp.sum(-1, keepdims=True)


def score(
    names: Sequence[str], logits: Array, gold: Array, problem: Problem, threshold: float = 0.5
) -> dict[str, float]:
    """The named scores of logits `[B, C]` against gold answers shaped as `decide` gives them.

    Raises:
        InputError: a name that is no score for this kind of problem.

    Example:
        >>> score(["accuracy"], np.array([[0.0, 1.0], [2.0, 1.0]]), np.array([1, 1]), "single_label_classification")
        {'accuracy': 0.5}
    """
    table = _VALUES if problem == "regression" else _CLASSES
    if unknown := [name for name in names if name not in table]:
        raise InputError(f"no score for {problem} is called '{unknown[0]}'; there are {', '.join(table)}", "metrics")
    guess = decide(logits, problem, threshold)
    return {name: float(table[name](np.asarray(gold), guess)) for name in names}
