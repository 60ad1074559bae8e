"""Score against drop rate, with error bars, one panel a task."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maskwright.training.sweep.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Told apart without colour too, by their marks.
_STYLES = (("#2166ac", "o"), ("#b2182b", "s"), ("#4d4d4d", "^"), ("#7b3294", "D"))
_COLUMNS = 3
Line = list[tuple[float, float, float]]


def draw_drop_rates(summary: Summary, path: Path) -> bool:
    """Draw the plot, unless no two variants of a task differ in `drop_rate` alone; says whether it did."""
    from matplotlib.figure import Figure

    panels = {task: found for task in summary["tasks"] if (found := lines_of(summary, task))}
    if not panels:
        return False
    n_columns = min(_COLUMNS, len(panels))
    n_rows = ceil(len(panels) / n_columns)
    figure = Figure(figsize=(0.6 + 3.2 * n_columns, 0.4 + 2.7 * n_rows), layout="constrained", dpi=150)
    axes = figure.subplots(n_rows, n_columns, squeeze=False).flat
    for place, (task, lines) in zip(axes, panels.items(), strict=False):
        metric = next(row["metric"] for row in summary["rows"] if row["task"] == task and row["metric"])
        _draw_one(place, task, metric, lines)
    for place in list(figure.axes)[len(panels) :]:
        place.remove()
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


def _draw_one(axes: Axes, task: str, metric: str, lines: Mapping[str, Line]) -> None:
    for number, (name, line) in enumerate(lines.items()):
        colour, mark = _STYLES[number % len(_STYLES)]
        rates, means, errors = zip(*line, strict=True)
        axes.errorbar(rates, means, errors, color=colour, marker=mark, markersize=4, capsize=3, label=name or None)
    axes.set_title(task, fontsize=10)
    axes.set_xlabel("drop rate", fontsize=8)
    axes.set_ylabel(f"{metric}, mean ± std", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(color="#dddddd", linewidth=0.6)
    if len(lines) > 1:
        axes.legend(fontsize=7, frameon=False)
