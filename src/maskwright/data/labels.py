"""Labels as strings, the order they are numbered in, and their lookup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from maskwright.errors import InputError


def label_text(value: object) -> str:
    """A label as the string people write in a data file: ``True`` is "true", ``3.0`` is "3".

    Example:
        >>> label_text(True), label_text(3.0), label_text("news")
        ('true', '3', 'news')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def sort_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Distinct labels, whole numbers first in numeric order, then the others in code point order.

    Example:
        >>> sort_labels(["10", "b", "9", "a", "10"])
        ('9', '10', 'a', 'b')
    """

    def key(label: str) -> tuple[bool, int, str]:
        try:
            return False, int(label), label
        except ValueError:
            return True, 0, label

    return tuple(sorted(set(labels), key=key))


class LabelIndex:
    """Label string to class index; an unknown label is an `InputError` that names the known ones."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._index = {label: index for index, label in enumerate(labels)}

    def __call__(self, label: str, where: str) -> int:
        if label not in self._index:
            known = list(self._index)
            shown = ", ".join(known[:20]) + (f", … ({len(known)} in all)" if len(known) > 20 else "")
            raise InputError(f"unknown label {label!r}; the labels are {shown}", where)
        return self._index[label]
