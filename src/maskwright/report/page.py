"""The page itself: folders in, one HTML file out, which loads nothing and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from maskwright._version import __version__
from maskwright.errors import InputError
from maskwright.report.blocks import Card, Chart, Picture, Section, Table
from maskwright.report.charts import describe, draw, marker
from maskwright.report.kinds.base import Kind
from maskwright.report.kinds.registry import KINDS, kind_of
from maskwright.report.records import Source
from maskwright.report.values import number, show_column


@dataclass(frozen=True)
class Report:
    """What was written.

    Attributes:
        output: the page.
        records: how many of each kind it shows.
        notes: what was missing or broken, in sentences.
    """

    output: str
    records: dict[str, int]
    notes: list[str]


def write_report(
    folders: Sequence[str | Path], output: str | Path = "report.html", *, title: str | None = None
) -> Report:
    """One static HTML page of all the records in `folders`, each as far as it is there.

    Args:
        folders: run, sweep and gap folders; or folders of such folders.
        output: the file to write; folders above it are made.
        title: of the page (default: from the folders' names).

    Raises:
        InputError: no folder, one that holds no record of a known kind, or an output that cannot be written.

    Example:
        >>> import json, pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> row = {"noise": "mae", "rate": 0.75, "reference": "plain", "where": "mean", "distance": 0.1}
        >>> _ = (folder / "gap.json").write_text(json.dumps({"model": "m", "rows": [row]}), "utf-8")
        >>> write_report([folder], folder / "report.html").records
        {'gap measurement': 1}
    """
    found = find_records(folders)
    sections = [kind.section(sources) for kind, sources in found.items()]
    names = [source.name for sources in found.values() for source in sources]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    folders_shown = [source.folder for sources in found.values() for source in sources]
    newest = max(path.stat().st_mtime for folder in folders_shown for path in _record_files(folder))
    html = _render(title or f"Report: {shown}", sections, datetime.fromtimestamp(newest, UTC))
    path = Path(output)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}; name a file for the page", str(path)) from error
    records = {kind.name: len(sources) for kind, sources in found.items()}
    return Report(str(path), records, [note for section in sections for note in section.notes])


def find_records(folders: Sequence[str | Path]) -> dict[Kind, list[Source]]:
    """The records in the folders by kind, named by as much of their paths as tells them apart.

    Raises:
        InputError: no folder, or one that holds no record of a known kind.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp()) / "mine"
        >>> folder.mkdir()
        >>> _ = (folder / "metrics.jsonl").write_text("", "utf-8")
        >>> [(kind.name, sources[0].name) for kind, sources in find_records([folder.parent]).items()]
        [('fine-tuning run', 'mine')]
    """
    if not folders:
        raise InputError("name one or more folders of runs, sweeps or measurements", "RUN")
    kinds: dict[Path, Kind] = {}
    for given in map(Path, folders):
        if not given.is_dir():
            raise InputError("is no folder" if given.exists() else "there is no such folder", str(given))
        kind = kind_of(given)
        inside = [given] if kind else sorted(path for path in given.iterdir() if path.is_dir() and kind_of(path))
        if not inside:
            files = "; ".join(f"{kind.files} ({kind.name})" for kind in KINDS)
            raise InputError(f"holds no record, nor does a folder right in it; looked for {files}", str(given))
        for path in inside:
            found = kind_of(path)
            assert found is not None
            kinds[path.resolve()] = found
    by_kind: dict[Kind, list[Source]] = defaultdict(list)
    for (path, kind), name in zip(kinds.items(), _names(list(kinds)), strict=True):
        by_kind[kind].append(Source(name, path))
    return {kind: by_kind[kind] for kind in KINDS if kind in by_kind}


def _render(title: str, sections: Sequence[Section], newest: datetime) -> str:
    """The page's HTML."""
    environment = Environment(
        loader=PackageLoader("maskwright.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = (_source(environment, name) for name in ("style.css", "script.js"))
    ids = itertools.count(1)
    environment.filters |= {"texts": _texts, "number": number, "draw": draw, "describe": describe, "numbers": numbers}
    environment.tests |= {
        "table": lambda block: isinstance(block, Table),
        "chart": lambda block: isinstance(block, Chart),
        "picture": lambda block: isinstance(block, Picture),
        "card": lambda block: isinstance(block, Card),
    }
    environment.globals |= {"new_id": lambda: f"b{next(ids)}", "marker": marker}
    return environment.get_template("page.html").render(
        title=title,
        sections=[
            Section(
                section.title, section.summary, tuple(section.notes), [part for part in section.parts if part.blocks]
            )
            for section in sections
        ],
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}",
        newest=newest.strftime("%Y-%m-%d %H:%M UTC"),
        version=__version__,
    )


def numbers(chart: Chart) -> Table:
    """Every plotted number of a chart.

    Example:
        >>> from maskwright.report.blocks import Point, Series
        >>> numbers(Chart("Loss", "step", "loss", [Series("a", [Point(1, 2.5)])])).rows
        [['a', 1, 2.5]]
    """
    errors = ["low", "high"] if chart.has_bars else []
    if chart.categories:
        columns = [chart.y_label, chart.x_label, *errors]
        rows = [
            [chart.categories[int(point.y)], point.x, *point[2 : 2 + len(errors)]]
            for series in chart.series
            for point in series.points
        ]
    else:
        columns = ["line", chart.x_label, chart.y_label, *errors]
        rows = [
            [series.name, point.x, point.y, *point[2 : 2 + len(errors)]]
            for series in chart.series
            for point in series.points
        ]
    return Table(f"Numbers of “{chart.title}”", columns, rows, folded=True)


def _texts(table: Table) -> list[list[str]]:
    """The table's values as they are shown, row by row."""
    columns = [show_column(column) for column in zip(*table.rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def _record_files(folder: Path) -> list[Path]:
    return [path for pattern in ("*.json", "*.jsonl", "*.yaml", "cells/*.json") for path in folder.glob(pattern)]


def _names(paths: Sequence[Path]) -> list[str]:
    """The last parts of each path that no other path ends with."""
    for n_parts in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-n_parts:]) for path in paths]
        if max(Counter(names).values()) == 1:
            break
    return names


def _source(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
