"""What a supervised task is once read: examples, labels, and what was skipped or mended and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

Problem = Literal[
    "single_label_classification",
    "multi_label_classification",
    "regression",
    "multiple_choice",
    "question_answering",
]


@dataclass(frozen=True, slots=True)
class Answer:
    """The gold answer to a question about a paragraph.

    `text` stands in the paragraph at character `start`; `start` is None where no accepted text stands there.
    `accepted` are all texts that count as right, as written by different people.
    """

    text: str
    start: int | None
    accepted: tuple[str, ...]


Label = int | tuple[int, ...] | float | Answer | None


@dataclass(frozen=True, slots=True)
class Example:
    """One text or pair with its gold answer.

    `label` is a class index, a tuple of class indices (multi-label), a float (regression), an `Answer` (question about
    a paragraph; `text` is the paragraph, `text_pair` the question), or None (unlabelled).
    `where` is `file:line`; `guid` is the file's own id where it has one.
    """

    text: str
    text_pair: str | None
    label: Label
    where: str
    guid: str | None = None


@dataclass(frozen=True, slots=True)
class ChoiceExample(Example):
    """A text with several `choices`, of which `label` is the index of the right one.

    The choices answer the question `text_pair`; or, where that is None, they fill the blank of `text`: the characters
    from `blank[0]` to before `blank[1]`. `other_blanks` are gaps of the same text that other examples ask for.
    """

    choices: tuple[str, ...] = ()
    blank: tuple[int, int] | None = None
    other_blanks: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class TaskData:
    """The splits of one task.

    `skipped` counts what was left out by kind of reason, e.g. ``{"label '-'": 12}``; `mended` what could be repaired.
    `files` names the files a split came from.
    """

    name: str
    problem: Problem
    splits: dict[str, list[Example]]
    labels: tuple[str, ...] = ()
    label_names: dict[str, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = ("accuracy",)
    skipped: Counter[str] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def n_labels(self) -> int:
        """Width of the task head: classes, or 1 for regression."""
        return 1 if self.problem == "regression" else len(self.labels)
