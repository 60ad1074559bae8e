"""Tasks whose fields are the texts: one sentence, or a pair."""

from __future__ import annotations

from collections.abc import Callable

from maskwright.data.rows import Row
from maskwright.data.tasks.spec import Texts, take


def sentence(name: str = "sentence") -> Callable[[Row, str], Texts]:
    """The field `name` alone."""
    return lambda row, where: (take(row, name, str, where), None)


def pair(first: str = "sentence1", second: str = "sentence2") -> Callable[[Row, str], Texts]:
    """The fields `first` and `second` as text and second text."""
    return lambda row, where: (take(row, first, str, where), take(row, second, str, where))
