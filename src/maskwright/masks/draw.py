"""Masks as pictures: rows attend to columns, several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from maskwright.errors import InputError, MaskError
from maskwright.masks.algebra import Rule
from maskwright.masks.fonts import font_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Blue on grey: told apart by people who do not see red from green, and in a black-and-white print.
ATTENDS, BLOCKED, EDGE, INK = "#2166ac", "#e8e8e8", "#ffffff", "#222222"
_CELL, _SMALLEST, _LARGEST, _TEXT_PT = 0.30, 2.2, 6.0, 7.5  # inches and points


@dataclass(frozen=True)
class Panel:
    """One mask of a picture.

    Attributes:
        title: above it.
        rule: the mask.
        tokens: labels of the keys, and of the queries where there are as many; None = slot numbers.
        row: which row of the batch.

    Example:
        >>> from maskwright import masks
        >>> panel = Panel("row 0", masks.padding(lengths=[2, 3]), ["a", "b", "[PAD]"])
        >>> panel.row
        0
    """

    title: str
    rule: Rule
    tokens: Sequence[str] | None = None
    row: int = 0


def draw(panels: Sequence[Panel], path: str | Path | None = None, *, font: str | None = None) -> Figure:
    """The panels side by side, and saved where `path` (.png, .svg or .pdf) is given.

    Args:
        font: a font file or the name of an installed font; None = the first that has every character.

    Raises:
        MaskError: labels that do not fit the mask, a row that it does not have, no panel.
        InputError: no installed font has the characters of the labels, or the path's ending is not known.

    Example:
        >>> from maskwright import masks
        >>> padding = masks.padding(lengths=[3, 5])
        >>> panels = [masks.Panel("padding", padding), masks.Panel("both", padding & masks.causal())]
        >>> figure = draw(panels)
        >>> len(figure.axes)
        2
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    if not panels:
        raise MaskError("nothing to draw: give at least one panel")
    if path is not None and Path(path).suffix not in (".png", ".svg", ".pdf"):
        raise InputError("a picture is .png, .svg or .pdf", str(path))
    shown = [written_out(panel) for panel in panels]
    family = font_for("".join(label for panel in panels for label in panel.tokens or ()), font)
    sides = [min(max(_CELL * max(allowed.shape), _SMALLEST), _LARGEST) for allowed in shown]
    figure = Figure(figsize=(sum(sides) + 1.0 * len(sides) + 0.2, max(sides) + 1.5), layout="constrained", dpi=150)
    figure.get_layout_engine().set(rect=(0, 0, 1, 0.97))  # type: ignore[union-attr, call-arg]
    axes = figure.subplots(1, len(panels), squeeze=False, width_ratios=sides)[0]
    for place, panel, allowed, side in zip(axes, panels, shown, sides, strict=True):
        _draw_one(place, panel, allowed, side, family)
    legend = [
        Patch(facecolor=ATTENDS, label="True: row may attend to column"),
        Patch(facecolor=BLOCKED, edgecolor="#999999", label="False: blocked"),
    ]
    figure.legend(
        handles=legend, loc="outside lower center", ncols=2 if sum(sides) > 4 else 1, frameon=False, fontsize=8
    )
    if path is not None:
        figure.savefig(path)
    return figure


def text(panel: Panel) -> str:
    """The mask for a terminal: one line a query, █ = may attend, · = blocked; columns carry the rows' numbers.

    Example:
        >>> from maskwright import masks
        >>> print(text(Panel("causal", masks.causal(), ["我", "们"])))
        causal (row attends to column: █ yes, · no)
             0 1
        我 0 █ ·
        们 1 █ █
    """
    from rich.cells import cell_len

    allowed = written_out(panel)
    queries, keys = allowed.shape
    labels = list(panel.tokens) if panel.tokens is not None and len(panel.tokens) == queries else [""] * queries
    digits = len(str(max(queries, keys) - 1))
    width = max(map(cell_len, labels))
    margin = " " * (width + 1 + digits + 1)
    header = [margin + " ".join(f"{key:>{digits}}"[digit] for key in range(keys)) for digit in range(digits)]
    lines = [
        f"{label}{' ' * (width - cell_len(label))} {query:>{digits}} {' '.join('█' if cell else '·' for cell in cells)}"
        for query, (label, cells) in enumerate(zip(labels, allowed.tolist(), strict=True))
    ]
    return "\n".join([f"{panel.title} (row attends to column: █ yes, · no)", *header, *lines])


def written_out(panel: Panel) -> Tensor:
    """bool `[Q, K]` of the panel's row, True = may attend.

    Raises:
        MaskError: labels that do not fit the mask, or a row that it does not have.
    """
    n_tokens = None if panel.tokens is None else len(panel.tokens)
    allowed = panel.rule.to_bool(n_keys=n_tokens)
    if allowed.ndim == 3:
        if not 0 <= panel.row < len(allowed):
            raise MaskError(f"row {panel.row} of a mask of {len(allowed)} rows")
        allowed = allowed[panel.row]
    return allowed.to("cpu", torch.bool)


def _draw_one(axes: Axes, panel: Panel, allowed: Tensor, side: float, family: list[str]) -> None:
    from matplotlib.colors import ListedColormap

    queries, keys = allowed.shape
    axes.imshow(allowed.numpy(), cmap=ListedColormap([BLOCKED, ATTENDS]), vmin=0, vmax=1, interpolation="nearest")
    if max(queries, keys) <= 64:  # beyond, lines between cells would hide the cells
        axes.set_xticks([x - 0.5 for x in range(1, keys)], minor=True)
        axes.set_yticks([y - 0.5 for y in range(1, queries)], minor=True)
        axes.grid(which="minor", color=EDGE, linewidth=0.8)
    labels = panel.tokens
    step = max(1, -(-max(queries, keys) * _TEXT_PT * 1.25 // (72 * side)))
    for axis, count, set_ticks in (("x", keys, axes.set_xticks), ("y", queries, axes.set_yticks)):
        at = list(range(0, count, int(step)))
        named = labels if labels is not None and len(labels) == count else [str(i) for i in range(count)]
        shown = [_label(named[i], i, numbered=step > 1) for i in at]
        turned = axis == "x" and (count > 20 or max(map(len, shown)) > 2)
        set_ticks(at, shown, fontsize=_TEXT_PT, fontfamily=family, color=INK, rotation=90 if turned else 0)
    axes.tick_params(which="both", length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    axes.set_xlabel("attended to (key)", fontsize=8, color=INK)
    axes.set_ylabel("attending (query)", fontsize=8, color=INK)
    axes.set_title(panel.title, fontsize=10, color=INK)
    for spine in axes.spines.values():
        spine.set_color("#999999")


def _label(token: str, slot: int, *, numbered: bool) -> str:
    """A token short enough for an axis; with its slot where not every slot has a label. `$` would start a formula."""
    short = (token if len(token) <= 12 else token[:11] + "…").replace("$", r"\$")
    return f"{slot} {short}" if numbered and short != str(slot) else short
