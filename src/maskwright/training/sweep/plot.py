"""Pictures of a sweep, one panel a task: score against drop rate, and differences to the baseline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maskwright.training.sweep.summary import NULL, Summary, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Told apart without colour too, by their marks.
_STYLES = (("#2166ac", "o"), ("#b2182b", "s"), ("#4d4d4d", "^"), ("#7b3294", "D"))
_COLUMNS = 3
Line = list[tuple[float, float, float]]


def draw_drop_rates(summary: Summary, path: Path) -> bool:
    """Draw the plot, unless no two variants of a task differ in `drop_rate` alone; says whether it did."""
    panels = {task: found for task in summary["tasks"] if (found := lines_of(summary, task))}
    if not panels:
        return False
    figure, axes = _panels(len(panels), 2.7)
    for place, (task, lines) in zip(axes, panels.items(), strict=True):
        _draw_lines(place, task, _metric(summary, task), lines)
    figure.savefig(path)
    return True


def draw_differences(summary: Summary, path: Path) -> bool:
    """Draw every tested difference with its interval, unless there is none; says whether it did.

    Filled marks are differences that count, hollow ones those that do not.
    """
    tested = [row for row in summary["rows"] if row["low"] is not None]
    panels = {task: rows for task in summary["tasks"] if (rows := [row for row in tested if row["task"] == task])}
    if not panels:
        return False
    figure, axes = _panels(len(panels), 1.1 + 0.28 * max(map(len, panels.values())))
    for place, (task, rows) in zip(axes, panels.items(), strict=True):
        unit = unit_of([row for row in summary["rows"] if row["task"] == task])
        metric = _metric(summary, task)
        _draw_intervals(place, task, f"{metric}, points" if unit == 100 else metric, unit, rows)
    figure.suptitle(f"Difference to {summary['baseline']}, mean and 95% interval", fontsize=10)
    figure.savefig(path)
    return True


def lines_of(summary: Mapping[str, Any], task: str) -> dict[str, Line]:
    """A task's points (drop rate, mean, standard deviation) in order of the rate, one line a set of other options.

    Lines of a single rate are left out; a standard deviation of one seed is 0. The name of a line tells what its
    options have in common that is not common to all.
    """
    cells: Sequence[Mapping[str, Any]] = [
        cell for cell in summary["cells"] if cell["task"] == task and cell["evaluation"] is None
    ]
    others = {
        cell["variant"]: json.dumps({k: v for k, v in cell["options"].items() if k != "drop_rate"}, sort_keys=True)
        for cell in cells
    }
    lines: dict[str, Line] = {}
    for row in summary["rows"]:
        if (
            row["task"] == task
            and row["variant"] in others
            and row["mean"] is not None
            and row["drop_rate"] is not None
        ):
            point = (float(row["drop_rate"]), row["mean"], row["std"] or 0.0)
            lines.setdefault(others[row["variant"]], []).append(point)
    kept = {key: sorted(line) for key, line in lines.items() if len({rate for rate, _, _ in line}) > 1}
    options = {key: json.loads(key) for key in kept}
    return {_line_name(options[key], list(options.values())): line for key, line in kept.items()}


def _line_name(own: Mapping[str, Any], every: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{k}={v}" for k, v in own.items() if any(other.get(k) != v for other in every))


def _metric(summary: Summary, task: str) -> str:
    return next(row["metric"] for row in summary["rows"] if row["task"] == task and row["metric"])


def _panels(n: int, height: float) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    n_columns = min(_COLUMNS, n)
    n_rows = ceil(n / n_columns)
    figure = Figure(figsize=(0.6 + 3.2 * n_columns, 0.4 + height * n_rows), layout="constrained", dpi=150)
    axes = list(figure.subplots(n_rows, n_columns, squeeze=False).flat)
    for place in axes[n:]:
        place.remove()
    return figure, axes[:n]


def _label(axes: Axes, task: str, x: str, y: str) -> None:
    axes.set_title(task, fontsize=10)
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)
    axes.tick_params(labelsize=8)


def _draw_lines(axes: Axes, task: str, metric: str, lines: Mapping[str, Line]) -> None:
    for number, (name, line) in enumerate(lines.items()):
        colour, mark = _STYLES[number % len(_STYLES)]
        rates, means, errors = zip(*line, strict=True)
        axes.errorbar(rates, means, errors, color=colour, marker=mark, markersize=4, capsize=3, label=name or None)
    _label(axes, task, "drop rate", f"{metric}, mean ± std")
    axes.grid(color="#dddddd", linewidth=0.6)
    if len(lines) > 1:
        axes.legend(fontsize=7, frameon=False)


def _draw_intervals(axes: Axes, task: str, metric: str, unit: float, rows: Sequence[Mapping[str, Any]]) -> None:
    colour, mark = _STYLES[0]
    for place, row in enumerate(rows):
        middle, low, high = (unit * row[key] for key in ("difference", "low", "high"))
        fill = "white" if row["verdict"] == NULL else colour
        axes.errorbar(
            middle,
            place,
            xerr=[[middle - low], [high - middle]],
            color=colour,
            marker=mark,
            markersize=5,
            markerfacecolor=fill,
            capsize=3,
        )
    axes.axvline(0, color="#4d4d4d", linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(rows)), [row["variant"] for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    _label(axes, task, metric, "")
