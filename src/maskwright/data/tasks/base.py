"""What a supervised task is once read: examples, labels, and what was skipped and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

Problem = Literal["single_label_classification", "multi_label_classification", "regression"]


@dataclass(frozen=True, slots=True)
class Example:
    """One text or pair with its gold answer.

    `label` is a class index, a tuple of class indices (multi-label), a float (regression), or None (unlabelled).
    `where` is `file:line`; `guid` is the file's own id where it has one.
    """

    text: str
    text_pair: str | None
    label: int | tuple[int, ...] | float | None
    where: str
    guid: str | None = None


@dataclass(slots=True)
class TaskData:
    """The splits of one task. `skipped` counts lines left out by kind of reason, e.g. ``{"label '-'": 12}``."""

    name: str
    problem: Problem
    splits: dict[str, list[Example]]
    labels: tuple[str, ...] = ()
    label_names: dict[str, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = ("accuracy",)
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def n_labels(self) -> int:
        """Width of the task head: classes, or 1 for regression."""
        return 1 if self.problem == "regression" else len(self.labels)
