"""The distances as a picture: over the layers, one line a rate, references by line style."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from maskwright.training.gap.words import PLACES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from maskwright.training.gap.report import GapRow

# Dark to light along one scale, and a mark each: told apart in grey, and by people who do not see red from green.
_COLOURS, _MARKS = "viridis", "osD^vP*X"
_LINES = {"plain": "-", "corrected": (0, (4, 2))}
_TITLES = {"all": "all tokens", "intact": "tokens that a draw leaves as they are"}
_AVERAGED = {"mlm": "masked", "mae": "with tokens hidden", "droptoken": "with tokens dropped"}


def draw(rows: Sequence[GapRow], path: Path) -> None:
    """Save the picture; a panel for all tokens, and one for those left intact where there are such rows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kinds = list(dict.fromkeys(row.tokens for row in rows))
    figure = Figure(figsize=(1.8 + 4.6 * len(kinds), 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for axes, kind in zip(panels, kinds, strict=True):
        _panel(axes, [row for row in rows if row.tokens == kind])
        if len(kinds) > 1:
            axes.set_title(_TITLES[kind], fontsize=10)
    panels[0].set_ylabel(f"distance from the average {_AVERAGED[rows[0].noise]}\n(1 = the spread of its states)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, title="rate", loc="outside right upper", frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)


def _panel(axes: Axes, rows: Sequence[GapRow]) -> None:
    from matplotlib import colormaps

    wheres = list(dict.fromkeys(row.where for row in rows))
    layers = [where for where in wheres if where not in PLACES]
    step = max(1.0, len(layers) / 7)  # between the pooled vectors, wide enough for their names
    slots = {where: float(i) for i, where in enumerate(layers)}
    slots |= {where: len(layers) - 1 + step * (i + 1) for i, where in enumerate(w for w in wheres if w in PLACES)}
    rates = sorted({row.rate for row in rows})
    references = list(dict.fromkeys(row.reference for row in rows))
    for i, rate in enumerate(rates):
        colour = colormaps[_COLOURS](0.88 * i / max(1, len(rates) - 1))
        for reference in references:
            of_line = [row for row in rows if (row.rate, row.reference) == (rate, reference)]
            shift = 0.06 * (i - (len(rates) - 1) / 2)
            for pooled in (False, True):
                part = [row for row in of_line if (row.where in PLACES) == pooled]
                axes.errorbar(
                    [slots[row.where] + shift for row in part],
                    [row.distance for row in part],
                    [[row.distance - row.low for row in part], [row.high - row.distance for row in part]],
                    linestyle="none" if pooled else _LINES[reference],
                    marker=_MARKS[i % len(_MARKS)],
                    markerfacecolor=colour if reference == "plain" else "white",
                    markersize=5,
                    color=colour,
                    linewidth=1.5,
                    elinewidth=1,
                    capsize=2,
                    label=None if pooled else f"{rate:g}, {reference}" if len(references) > 1 else f"{rate:g}",
                )
    every = 1 + len(layers) // 16
    named = {where: x for where, x in slots.items() if where in PLACES or x % every == 0}
    axes.set_xticks(list(named.values()), [_tick(where) for where in named])
    axes.set_xlabel("layer (0 = embeddings)")
    axes.set_ylim(bottom=-0.02 * axes.get_ylim()[1])
    axes.grid(alpha=0.3)


def _tick(where: str) -> str:
    return {"mean": "mean", "cls": "[CLS]"}.get(where, where.removeprefix("layer "))
