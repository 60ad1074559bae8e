"""What a page is made of: tables, charts, pictures and cards, in parts, in one section for each kind of record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Point(NamedTuple):
    """One plotted number; `low` and `high` are the ends of its error bar."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """The points of one name; `thinned` says, where not all are drawn, out of how many they are."""

    name: str
    points: Sequence[Point]
    thinned: int | None = None


@dataclass(frozen=True)
class Chart:
    """Points and lines over two axes.

    Attributes:
        title: what it shows.
        x_label, y_label: quantity and unit of the axes.
        series: one colour, dash and marker each.
        joined: lines between the points of a series.
        errors: what the error bars are, in words, where there are any.
        zero: a line at value 0, which then is always in view.
        diagonal: name of a line x = y to compare with; empty = there is none.
        categories: names of the rows of a chart whose y is a row's number; error bars then lie along x.
        note: a sentence below it.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    joined: bool = True
    errors: str = ""
    zero: bool = False
    diagonal: str = ""
    categories: Sequence[str] = ()
    note: str = ""

    @property
    def has_bars(self) -> bool:
        """Whether any point has an error bar."""
        return any(point.low is not None for series in self.series for point in series.points)


@dataclass(frozen=True)
class Table:
    """Rows of values; numbers stay numbers, so that they sort as such. `folded`: shown when asked for."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    folded: bool = False


@dataclass(frozen=True)
class Picture:
    """An image file's text as a data URI, with what it shows."""

    title: str
    uri: str


@dataclass(frozen=True)
class Card:
    """What is to be said of one thing: named facts, and under them, folded, a text as it stands in a file."""

    title: str
    facts: Sequence[tuple[str, str]]
    code: str = ""
    code_title: str = ""


Block = Chart | Table | Picture | Card


@dataclass(frozen=True)
class Part:
    """Blocks under one heading."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Section:
    """All that a page says of the records of one kind.

    Attributes:
        title: the heading.
        summary: sentences.
        notes: what was missing or broken in the records, in sentences.
        parts: tables, charts, pictures and cards.
    """

    title: str
    summary: Sequence[str]
    notes: Sequence[str] = ()
    parts: Sequence[Part] = field(default_factory=list)
