"""From the numbers of a chart to the shapes of an SVG drawing, whose colours are left to the style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from maskwright.report.blocks import Chart, Point
from maskwright.report.values import show

# Coprime, so that 210 series go by before colour, dash and marker repeat together.
N_COLOURS, N_DASHES, N_MARKERS = 7, 5, 6
WIDTH, _TOP, _RIGHT, _BOTTOM = 400, 26, 16, 42
_PLOT_HEIGHT, _ROW_HEIGHT, _LONGEST_NAME = 190, 26, 20
_LEAST_SPAN = 0.05  # of an axis, as a share of its largest value
_MANY = 30  # points of a line beyond which only some carry a marker


class Tick(NamedTuple):
    """A place on an axis and its label."""

    at: float
    label: str


class Mark(NamedTuple):
    """A marker: its outline, its place, and what it says when pointed at."""

    path: str
    x: float
    y: float
    tip: str


class Shape(NamedTuple):
    """A series: line, error bars and markers, with its number and those of its colour and dash."""

    name: str
    number: int
    colour: int
    dash: int
    line: str
    bars: list[str]
    marks: list[Mark]


@dataclass(frozen=True)
class Drawing:
    """A chart as shapes, in a box of `WIDTH` by `height`; the plot itself lies within left, top, right and bottom."""

    height: float
    left: float
    top: float
    right: float
    bottom: float
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    shapes: list[Shape]
    guide: str


@dataclass(frozen=True)
class Axis:
    """A linear scale from `low`..`high` to `start`..`stop`."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """Where a value stands."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.stop - self.start), 2)


def draw(chart: Chart) -> Drawing:
    """Lay a chart out.

    Example:
        >>> from maskwright.report.blocks import Series
        >>> drawing = draw(Chart("loss", "step", "nats", [Series("a", [Point(0, 1.0), Point(10, 3.0)])]))
        >>> [tick.label for tick in drawing.x_ticks]
        ['0', '2', '4', '6', '8', '10']
    """
    by_row = bool(chart.categories)
    points = [point for series in chart.series for point in series.points]
    spread = [end for point in points for end in (point.low, point.high) if end is not None]
    xs, ys = [point.x for point in points], [point.y for point in points]
    (xs if by_row else ys).extend(spread)
    if chart.zero:
        (xs if by_row else ys).append(0.0)
    if chart.diagonal:
        xs = ys = [*xs, *ys, 0.0, 1.0]
    height = _TOP + _BOTTOM + (_ROW_HEIGHT * len(chart.categories) if by_row else _PLOT_HEIGHT)
    x_low, x_high = _range(xs)
    y_low, y_high = (-0.5, len(chart.categories) - 0.5) if by_row else _range(ys)
    y_values = _ticks(y_low, y_high, whole=False)
    if by_row:
        y_names = [shortened(name) for name in chart.categories]
        y_ticks_at = [float(row) for row in range(len(chart.categories))]
    else:
        y_names, y_ticks_at = labels(y_values), y_values
    left = 16 + 7.4 * max(map(len, y_names), default=1)
    x = Axis(x_low, x_high, left, WIDTH - _RIGHT)
    # Rows are read from the top, values from the bottom.
    y = Axis(y_low, y_high, _TOP, height - _BOTTOM) if by_row else Axis(y_low, y_high, height - _BOTTOM, _TOP)
    x_values = _ticks(x_low, x_high, whole=all(value == round(value) for value in xs))
    guide = ""
    if chart.diagonal:
        guide = f"M{x(x_low)} {y(y_low)}L{x(x_high)} {y(y_high)}"
    elif chart.zero:
        guide = f"M{x(0)} {y(y_low)}V{y(y_high)}" if by_row else f"M{x(x_low)} {y(0)}H{x(x_high)}"
    return Drawing(
        height=height,
        left=left,
        top=_TOP,
        right=WIDTH - _RIGHT,
        bottom=height - _BOTTOM,
        x_ticks=[Tick(x(at), label) for at, label in zip(x_values, labels(x_values), strict=True)],
        y_ticks=[Tick(y(at), label) for at, label in zip(y_ticks_at, y_names, strict=True)],
        shapes=[_shape(chart, number, x, y) for number in range(len(chart.series))],
        guide=guide,
    )


def describe(chart: Chart) -> str:
    """The chart in words, for those who do not see it.

    Example:
        >>> from maskwright.report.blocks import Series
        >>> describe(Chart("Loss", "step", "loss", [Series("a", [Point(0, 3.0), Point(10, 1.0)])]))
        'loss against step. a: 2 points, from 3 at 0 to 1 at 10, lowest 1, highest 3.'
    """
    if chart.categories:
        rows = [
            f"{chart.categories[int(point.y)]}: {show(point.x)}" for series in chart.series for point in series.points
        ]
        return f"{chart.x_label} of each {chart.y_label}. {'; '.join(rows)}."
    words = [f"{chart.y_label} against {chart.x_label}."]
    for series in chart.series:
        values = [point.y for point in series.points]
        if len(values) == 1:
            words.append(f"{series.name}: {show(values[0])} at {show(series.points[0].x)}.")
        elif values:
            first, last = series.points[0], series.points[-1]
            words.append(
                f"{series.name}: {len(values)} points, from {show(first.y)} at {show(first.x)} to {show(last.y)} at "
                f"{show(last.x)}, lowest {show(min(values))}, highest {show(max(values))}."
            )
    return " ".join(words)


def shortened(name: str) -> str:
    """A name short enough for an axis; the table beside the chart has all of it."""
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def labels(values: Sequence[float]) -> list[str]:
    """The labels of ticks, all with as many decimals as their distance needs.

    Example:
        >>> labels([0.0, 0.2, 0.4]), labels([0, 500000, 1000000]), labels([0, 5000])
        (['0.0', '0.2', '0.4'], ['0', '0.5M', '1M'], ['0', '5,000'])
    """
    step = values[1] - values[0] if len(values) > 1 else 1.0
    if max(map(abs, values)) >= 1e6:
        return [f"{value / 1e6:.6g}M" if value else "0" for value in values]
    if max(map(abs, values)) >= 1e5:
        return [f"{value / 1e3:.6g}k" if value else "0" for value in values]
    if step < 1e-4:
        return [f"{value:.3g}" for value in values]
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [f"{value:,.{decimals}f}" for value in values]


def marker(number: int, x: float, y: float, size: float = 4.0) -> str:
    """The outline of a series' marker: circle, square, triangle, diamond, cross or inverted triangle.

    Example:
        >>> marker(1, 10, 20)
        'M6.5 16.5h7v7h-7z'
    """
    s = size
    b = 0.875 * s
    return (
        f"M{x - s:g} {y:g}a{s:g} {s:g} 0 1 0 {2 * s:g} 0a{s:g} {s:g} 0 1 0 {-2 * s:g} 0z",
        f"M{x - b:g} {y - b:g}h{2 * b:g}v{2 * b:g}h{-2 * b:g}z",
        f"M{x:g} {y - s - 0.5:g}l{s + 0.5:g} {2 * s:g}h{-2 * s - 1:g}z",
        f"M{x:g} {y - s - 1:g}l{s + 1:g} {s + 1:g}l{-s - 1:g} {s + 1:g}l{-s - 1:g} {-s - 1:g}z",
        f"M{x - b:g} {y - b:g}l{2 * b:g} {2 * b:g}m0 {-2 * b:g}l{-2 * b:g} {2 * b:g}",
        f"M{x:g} {y + s + 0.5:g}l{s + 0.5:g} {-2 * s:g}h{-2 * s - 1:g}z",
    )[number % N_MARKERS]


def _shape(chart: Chart, number: int, x: Axis, y: Axis) -> Shape:
    series = chart.series[number]
    places = [(x(point.x), y(point.y)) for point in series.points]
    line = "M" + "L".join(f"{a} {b}" for a, b in places) if chart.joined and len(places) > 1 else ""
    bars = []
    for point, (a, b) in zip(series.points, places, strict=True):
        if point.low is None or point.high is None:
            continue
        if chart.categories:
            low, high = x(point.low), x(point.high)
            bars.append(f"M{low} {b - 4:g}v8m0 -4H{high}m0 -4v8")
        else:
            low, high = y(point.low), y(point.high)
            bars.append(f"M{a - 4:g} {low}h8m-4 0V{high}m-4 0h8")
    every = 1 if not chart.joined or len(places) <= _MANY else -(-len(places) // 8)
    marks = [
        Mark(marker(number, *places[i]), *places[i], _tip(chart, series.name, series.points[i]))
        for i in range(number % every, len(places), every)
    ]
    return Shape(series.name, number, number % N_COLOURS, number % N_DASHES, line, bars, marks)


def _tip(chart: Chart, name: str, point: Point) -> str:
    interval = "" if point.low is None else f" ({show(point.low)} to {show(point.high)})"
    if chart.categories:
        return f"{chart.categories[int(point.y)]}: {show(point.x)}{interval}"
    return f"{name}: {show(point.y)}{interval} at {show(point.x)}"


def _range(values: Sequence[float]) -> tuple[float, float]:
    """From the lowest to the highest value, with some air; never so close that a difference of no account looks big."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    least = _LEAST_SPAN * max(abs(low), abs(high)) or 1.0
    air = max(0.04 * (high - low), (least - (high - low)) / 2)
    return (low if low == 0 else low - air), high + air


def _ticks(low: float, high: float, *, whole: bool) -> list[float]:
    """Two to seven round values between the two; for `whole` numbers, none between them."""
    rough = (high - low) / 6
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    step = max(step, 1.0) if whole else step
    return [round(step * i, 12) for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
