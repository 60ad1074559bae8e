"""What the sections of training runs share: reading a run folder, and its tables of options and versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maskwright.report.blocks import Block, Chart, Part, Series, Table
from maskwright.report.curves import curve, not_numbers
from maskwright.report.pictures import pictures
from maskwright.report.records import Reader, Source, table_of
from maskwright.report.values import number, show


@dataclass(frozen=True)
class Run:
    """A run folder as far as it is there; what is missing is empty, and noted in `reader`."""

    name: str
    config: dict[str, Any]
    logged: list[dict[str, Any]]
    results: dict[str, Any]
    environment: dict[str, Any]
    reader: Reader

    @property
    def last_step(self) -> int:
        """The last step that was logged; 0 where none was."""
        return int(max((number(record.get("step")) or 0 for record in self.logged), default=0))

    @property
    def state(self) -> str:
        """In two or three words."""
        return "finished" if self.results else f"at step {self.last_step:,}" if self.last_step else "nothing logged"


def read_run(source: Source) -> Run:
    """Read what there is."""
    reader = Reader(source)
    return Run(
        name=source.name,
        logged=reader.lines("metrics.jsonl", "metrics.jsonl is missing: there are no curves."),
        results=reader.json("results.json", "results.json is missing: the run is going on, or was stopped."),
        config=reader.yaml("config.yaml", "config.yaml is missing: its options are not known."),
        environment=reader.json("environment.json"),
        reader=reader,
    )


def curves(title: str, y_label: str, key: str, runs: Sequence[Run], x: str = "step", x_label: str = "step") -> Chart:
    """One value of every run's log; values that are no numbers are noted."""
    series: list[Series] = []
    for run in runs:
        lost = not_numbers(run.logged, key)
        if lost:
            more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
            run.reader.note(f"{key} is not a finite number at step {show(lost[0])}{more}.")
        series.append(curve(run.name, run.logged, key, x))
    return Chart(title, x_label, y_label, [one for one in series if one.points])


def drawn(charts: Iterable[Chart]) -> list[Block]:
    """Those that have something to show."""
    return [chart for chart in charts if any(series.points for series in chart.series)]


def options_part(runs: Sequence[Run]) -> Part:
    """What the runs were told, and with which versions: what differs in one table, all of it in folded ones."""
    configs = {run.name: run.config for run in runs}
    tables: list[Block] = []
    if len(runs) > 1:
        # Where a run writes to says nothing of what it does.
        differing = {name: value for name, value in _merged(configs).items() if name != "output_dir" and _differ(value)}
        if differing:
            tables.append(_by_run("Options that differ", configs, differing, folded=False))
    tables.append(_by_run("All options", configs, _merged(configs), folded=True))
    environments = {run.name: run.environment for run in runs}
    tables.append(_by_run("Environment", environments, _merged(environments), folded=True))
    return Part("Configuration and environment", [table for table in tables if isinstance(table, Table) and table.rows])


def pictures_part(runs: Sequence[Run]) -> Part:
    """The drawings that lie in the folders."""
    return Part("Pictures", [picture for run in runs for picture in pictures(run.reader)])


def counts_table(runs: Sequence[Run], columns: Mapping[str, Callable[[Run], Any]], title: str) -> Table:
    """One row a run; columns in which no run has a value are left out."""
    values = {name: [of(run) for run in runs] for name, of in columns.items()}
    used = {name: column for name, column in values.items() if any(value is not None for value in column)}
    rows = [[run.name, *(column[i] for column in used.values())] for i, run in enumerate(runs)]
    return Table(title, ["run", *used], rows)


def notes(runs: Sequence[Run]) -> list[str]:
    """What the readers of all runs noted, each thing once."""
    return list(dict.fromkeys(note for run in runs for note in run.reader.notes))


def of_split(value: Any) -> str | None:
    """`{"train": 1200, "dev": 30}` as `train 1,200 · dev 30`."""
    parts = [f"{name} {show(n)}" for name, n in table_of(value).items()]
    return " · ".join(parts) or None


def _merged(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for table in tables.values() for name in table)
    return {name: [table.get(name) for table in tables.values()] for name in names}


def _differ(values: Sequence[Any]) -> bool:
    return len({show(value) for value in values}) > 1


def _by_run(
    title: str, tables: Mapping[str, Mapping[str, Any]], values: Mapping[str, Sequence[Any]], *, folded: bool
) -> Table:
    return Table(title, ["option", *tables], [[name, *map(show, row)] for name, row in values.items()], folded=folded)
