"""What the page has to know of a kind of record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maskwright.report.blocks import Section, Table
from maskwright.report.records import Source
from maskwright.report.values import show


def folded_values(title: str, values: Mapping[str, Any]) -> list[Table]:
    """Options or versions as a folded table; none where nothing was told.

    Example:
        >>> folded_values("Environment", {"torch": "2.13.0"})[0].rows, folded_values("Environment", {})
        ([['torch', '2.13.0']], [])
    """
    rows = [[name, show(value)] for name, value in values.items()]
    return [Table(title, ["name", "value"], rows, folded=True)] if rows else []


class Kind(NamedTuple):
    """One kind of record.

    To add one, write a file beside this one and a row in `registry.py`.

    Attributes:
        name: of one record.
        files: by which it is recognised, for people.
        recognise: whether a folder holds one; looks at names, opens as little as it can.
        section: all records of the kind together, as one section of the page.
    """

    name: str
    files: str
    recognise: Callable[[Path], bool]
    section: Callable[[Sequence[Source]], Section]
