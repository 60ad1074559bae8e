"""Curves of what a run logged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from maskwright.report.blocks import Point, Series
from maskwright.report.values import number

MOST_POINTS = 120
"""Points of a curve that are drawn; more would not be told apart."""


def curve(name: str, logged: Iterable[dict[str, Any]], y: str, x: str = "step") -> Series:
    """What was logged under `y` against `x`; of two values at one x the later counts.

    A longer curve keeps its first and last value, and the lowest and highest of every stretch: no spike is lost.

    Example:
        >>> curve("a", [{"step": 1, "loss": 2.0}, {"step": 2}, {"step": 3, "loss": 1.5}], "loss").points
        [Point(x=1.0, y=2.0, low=None, high=None), Point(x=3.0, y=1.5, low=None, high=None)]
    """
    values: dict[float, float] = {}
    for record in logged:
        at, value = number(record.get(x)), number(record.get(y))
        if at is not None and value is not None:
            values[at] = value
    points = [Point(at, values[at]) for at in sorted(values)]
    if len(points) <= MOST_POINTS:
        return Series(name, points)
    return Series(name, _thin(points), thinned=len(points))


def in_order(points: Iterable[Point]) -> list[Point]:
    """The points from left to right.

    Example:
        >>> [point.x for point in in_order([Point(2, 1.0), Point(1, 1.0)])]
        [1, 2]
    """
    return sorted(points, key=lambda point: point.x)


def not_numbers(logged: Iterable[dict[str, Any]], y: str) -> list[Any]:
    """The steps at which `y` was logged and is no finite number."""
    return [record.get("step") for record in logged if y in record and number(record[y]) is None]


def _thin(points: Sequence[Point]) -> list[Point]:
    inner = points[1:-1]
    n_stretches = (MOST_POINTS - 2) // 2
    bounds = [len(inner) * i // n_stretches for i in range(n_stretches + 1)]
    kept = {points[0], points[-1]}
    for start, stop in pairwise(bounds):
        stretch = inner[start:stop]
        kept |= {min(stretch, key=lambda point: point.y), max(stretch, key=lambda point: point.y)}
    return in_order(kept)
