"""Sweeps: every task's scores by variant, against drop rate and against speed, with the tests of the summary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maskwright.report.blocks import Chart, Part, Point, Section, Series, Table
from maskwright.report.curves import in_order
from maskwright.report.kinds.base import Kind, folded_values
from maskwright.report.kinds.runs import drawn
from maskwright.report.pictures import pictures
from maskwright.report.records import Reader, Source, rows_of, table_of
from maskwright.report.values import count, number, show

_MISSING = "summary.json is missing: the sweep is going on, or was stopped; its cells are shown without statistics."
_COLUMNS = {
    "n_seeds": "seeds",
    "mean": "mean",
    "std": "std",
    "difference": "difference",
    "low": "from",
    "high": "to",
    "p": "p",
    "p_holm": "p (Holm)",
    "verdict": "verdict",
    "train_s": "training (s)",
    "tokens_per_s": "real tokens/s",
    "speedup": "speed ratio",
    "token_ratio": "tokens/s ratio",
}
_VERDICTS = {
    "win": "better",
    "loss": "worse",
    "tie": "no difference beyond noise",
    "untested": "not tested",
    "not_run": "not run",
}
_TEST = "Paired t-test over seeds against the baseline, corrected by Holm's method over all rows, level 0.05."
_ERRORS = "one standard deviation over seeds"


def section(sources: Sequence[Source]) -> Section:
    """All sweeps of the page."""
    words, notes, parts = [], [], []
    for source in sources:
        reader = Reader(source)
        summary = reader.json("summary.json", _MISSING)
        rows = rows_of(summary.get("rows"))
        cells = rows_of(summary.get("cells")) or _written_cells(reader)
        totals = rows_of(summary.get("totals"))
        baseline = str(summary.get("baseline", ""))
        named = f"{source.name}: " if len(sources) > 1 else ""
        first, *others = _words(totals, cells, baseline)
        words += [named + first, *others]
        by_task: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            if number(row.get("mean")) is not None:
                by_task[show(row.get("task"))].append(row)
        parts += [
            Part(f"{named}Scores by task and variant", _tables(rows, totals, baseline)),
            *(
                Part(f"{named}{task}", drawn(_charts(task, of_task, cells, baseline)))
                for task, of_task in by_task.items()
            ),
            Part(f"{named}Pictures", pictures(reader)),
            Part(f"{named}Cells", _cell_tables(cells)),
            Part(
                f"{named}Configuration and environment",
                [
                    *folded_values("Sweep options", reader.yaml("sweep.yaml")),
                    *folded_values("Environment", reader.json("environment.json")),
                ],
            ),
        ]
        notes += reader.notes
    return Section("Sweep", words, notes, parts)


def _written_cells(reader: Reader) -> list[dict[str, Any]]:
    return [reader.json(f"cells/{path.name}") for path in sorted((reader.folder / "cells").glob("*.json"))]


def _words(totals: Sequence[dict[str, Any]], cells: Sequence[dict[str, Any]], baseline: str) -> list[str]:
    tasks, seeds = {show(cell.get("task")) for cell in cells}, {show(cell.get("seed")) for cell in cells}
    variants = {_variant(cell) for cell in cells}
    failed = sum(cell.get("status") == "failed" for cell in cells)
    words = [
        f"{count(len(tasks), 'task')}, {count(len(variants), 'variant')}, {count(len(seeds), 'seed')}: "
        f"{count(len(cells), 'cell')}{f', {failed} of them failed' if failed else ''}."
    ]
    for total in totals:
        tested = [
            f"{word} on {count(n, 'task')}"
            for key, word in _VERDICTS.items()
            if (n := int(number(total.get(key)) or 0))
        ]
        if tested:
            words.append(f"{show(total.get('variant'))} against {baseline}: {', '.join(tested)}.")
    return words


def _tables(rows: Sequence[dict[str, Any]], totals: Sequence[dict[str, Any]], baseline: str) -> list[Table]:
    if not rows:
        return []
    used = [key for key in _COLUMNS if any(row.get(key) is not None for row in rows)]
    values = [[row.get("task"), row.get("variant"), *(row.get(key) for key in used)] for row in rows]
    note = f"Differences, with their 95% intervals, and ratios are to {baseline or 'the baseline'}. {_TEST}"
    table = Table("Scores", ["task", "variant", *(_COLUMNS[key] for key in used)], values, note=note)
    used_verdicts = [key for key in _VERDICTS if any(key in total for total in totals)]
    if not used_verdicts:
        return [table]
    tallies = [[total.get("variant"), *(total.get(key) for key in used_verdicts)] for total in totals]
    return [table, Table("Tasks by verdict", ["variant", *(_VERDICTS[key] for key in used_verdicts)], tallies)]


def _charts(
    task: str, rows: Sequence[dict[str, Any]], cells: Sequence[dict[str, Any]], baseline: str
) -> Iterable[Chart]:
    metric = next(
        (show(cell["metric"]) for cell in cells if show(cell.get("task")) == task and cell.get("metric")), "score"
    )
    against_rate = _against_rate(rows, cells, task, baseline)
    n_rated = sum(len(series.points) for series in against_rate)
    if len({point.x for series in against_rate for point in series.points}) > 1:
        yield Chart(f"{task}: {metric} against drop rate", "DropToken rate", metric, against_rate, errors=_ERRORS)
    else:
        n_rated = 0
    if n_rated < len(rows):
        yield _by_variant(f"{task}: {metric} by variant", metric, [(row, *_spread(row)) for row in rows], _ERRORS)
    differences = [
        (row, difference, number(row.get("low")), number(row.get("high")))
        for row in rows
        if (difference := number(row.get("difference"))) is not None
    ]
    title = f"{task}: difference to {baseline}"
    yield _by_variant(title, f"difference in {metric}", differences, "the 95% interval", zero=True)
    speeds = [
        Series(show(row.get("variant")), [Point(speed, *_spread(row))])
        for row in rows
        if (speed := number(row.get("tokens_per_s"))) is not None
    ]
    yield Chart(f"{task}: speed against {metric}", "real tokens/s", metric, speeds, joined=False, errors=_ERRORS)


def _by_variant(
    title: str,
    x_label: str,
    values: Sequence[tuple[dict[str, Any], float, float | None, float | None]],
    errors: str,
    *,
    zero: bool = False,
) -> Chart:
    points = [Point(value, float(i), low, high) for i, (_, value, low, high) in enumerate(values)]
    names = [show(row.get("variant")) for row, *_ in values]
    series = [Series("mean over seeds", points)]
    return Chart(title, x_label, "variant", series, joined=False, errors=errors, zero=zero, categories=names)


def _against_rate(
    rows: Sequence[dict[str, Any]], cells: Sequence[dict[str, Any]], task: str, baseline: str
) -> list[Series]:
    """One line for variants that differ in their drop rate alone; the baseline's rate is 0 where it names none."""
    options = {_variant(cell): table_of(cell.get("options")) for cell in cells if show(cell.get("task")) == task}
    lines: dict[str, list[Point]] = defaultdict(list)
    for row in rows:
        variant = show(row.get("variant"))
        own = options.get(variant, {})
        rate = number(own.get("drop_rate", 0.0 if variant == baseline else None))
        if rate is not None:
            rest = {name: value for name, value in own.items() if name != "drop_rate"}
            evaluation = variant.partition(", ")[2]
            name = " ".join(filter(None, [", ".join(f"{k}={show(v)}" for k, v in rest.items()), evaluation]))
            lines[name or "mean over seeds"].append(Point(rate, *_spread(row)))
    return [Series(name, in_order(points)) for name, points in lines.items()]


def _spread(row: Mapping[str, Any]) -> tuple[float, float | None, float | None]:
    mean, std = number(row.get("mean")) or 0.0, number(row.get("std"))
    return (mean, None, None) if std is None else (mean, mean - std, mean + std)


def _variant(cell: Mapping[str, Any]) -> str:
    evaluation = cell.get("evaluation")
    return show(cell.get("variant")) + (f", {evaluation}" if evaluation else "")


def _cell_tables(cells: Sequence[dict[str, Any]]) -> list[Table]:
    failed = [cell for cell in cells if cell.get("status") == "failed"]
    names = ("task", "variant", "evaluation", "seed", "status", "metric", "value", "train_s", "tokens_per_s", "options")
    used = [name for name in names if any(cell.get(name) is not None for cell in cells)]
    tables = []
    if failed:
        rows = [[cell.get("task"), _variant(cell), cell.get("seed"), cell.get("error")] for cell in failed]
        tables.append(Table("Failed cells", ["task", "variant", "seed", "error"], rows))
    if cells:
        rows = [[cell.get(name) for name in used] for cell in cells]
        tables.append(Table("All cells", [name.replace("_", " ") for name in used], rows, folded=True))
    return tables


def recognise(folder: Path) -> bool:
    """Whether there is a summary, or cells that were run."""
    return (folder / "summary.json").is_file() or any((folder / "cells").glob("*.json"))


SWEEP = Kind("sweep", "summary.json or cells/*.json", recognise, section)
