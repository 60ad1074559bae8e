"""Run what is left of a sweep, and sum up what there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import yaml

from maskwright.errors import InputError
from maskwright.training.runs import environment, write_json
from maskwright.training.sweep.config import SweepConfig
from maskwright.training.sweep.plan import Cell, plan
from maskwright.training.sweep.progress import Progress
from maskwright.training.sweep.records import (
    Record,
    changes,
    forget,
    job_of,
    make_ready,
    metric_of,
    new_record,
    read_record,
    unfinished,
    write_record,
)
from maskwright.training.sweep.summary import Summary, label_of, summarise
from maskwright.training.sweep.workers import Ended, locked, run_jobs
from maskwright.training.sweep.write import write_summary

CONFIG = "sweep.yaml"


def run_sweep(
    config: SweepConfig, tell: Callable[[str], None] = print, on_state: Callable[[str], None] = lambda _: None
) -> Summary:
    """Run every cell that is not finished, each once and in a process of its own, then sum up.

    A cell that breaks is recorded as failed and breaks nothing else; the next call tries it again. A cell that was cut
    short goes on from its last checkpoint. The folder can be left at any moment and gone on with by the same call.

    Args:
        config: the whole sweep.
        tell: takes a line for every cell that ends.
        on_state: takes a line that says what is at work and how long it may take, whenever that changes.

    Returns:
        The summary, as `summarise` describes it, which is also written to the folder (see `write_summary`).

    Raises:
        InputError: options that cannot be used; finished cells whose options have changed (without `allow_changes`);
            or another sweep at work in the folder.
    """
    root, cells = Path(config.output_dir), plan(config)
    with locked(root) as lock:
        _settle_changes(cells, root, config.allow_changes)
        text = yaml.safe_dump(asdict(replace(config, allow_changes=False)), sort_keys=False, allow_unicode=True)
        (root / CONFIG).write_text(text, encoding="utf-8")
        write_json(root / "environment.json", environment())
        _run_cells(cells, root, config.processes, lock, tell, on_state)
        on_state("summing up")
        return sum_up(config, tell)


def sum_up(config: SweepConfig, tell: Callable[[str], None] = print) -> Summary:
    """Sum up the cells that have been run and write the tables and the plot anew; nothing is run.

    Raises:
        InputError: no cell was run; a record that cannot be read, or that lacks the metric asked for.
    """
    root, cells = Path(config.output_dir), plan(config)
    if not (root / "cells").is_dir():
        raise InputError("holds no cell of a sweep; run it first, without --summary", str(root))
    for cell in cells:
        if changed := changes(cell, root):
            tell(f"note: {cell.name} was run with other options: {'; '.join(changed)}")
    records = [
        _as_asked(record, cell)
        for cell in cells
        for name in (None, *cell.evaluations)
        if (record := read_record(cell.record(root, name))) is not None
    ]
    labels = [
        label_of({"variant": variant, "evaluation": name})
        for variant in config.variants
        for name in (None, *config.evaluations)
    ]
    summary = summarise(records, baseline=str(config.baseline), tasks=list(config.tasks), variants=labels)
    progress = Progress.of(cells, root)
    summary |= {"n_cells": len(cells), "n_done": progress.n_done, "n_failed": progress.n_failed}
    summary |= {"split": config.split, "processes": config.processes}
    write_summary(root, summary)
    return summary


def _settle_changes(cells: Sequence[Cell], root: Path, allow_changes: bool) -> None:
    changed = {cell: found for cell in cells if (found := changes(cell, root))}
    if changed and not allow_changes:
        some = [f"{cell.name} ({'; '.join(found)})" for cell, found in list(changed.items())[:3]]
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise InputError(
            f"finished cells have other options now: {', '.join(some)}{more}. Undo that, name another output_dir, or "
            "run them again with --allow_changes",
            str(root),
        )
    for cell in changed:
        forget(cell, root)


def _run_cells(
    cells: Sequence[Cell],
    root: Path,
    n_at_once: int,
    lock: int,
    tell: Callable[[str], None],
    on_state: Callable[[str], None],
) -> None:
    left = [cell for cell in cells if unfinished(cell, root)]
    progress = replace(Progress.of(cells, root, n_at_once), n_failed=0)  # those that failed are tried again
    if len(left) < len(cells):
        tell(f"{len(cells) - len(left)} of {len(cells)} cells are done already")
    by_job: dict[Path, Cell] = {}

    def jobs() -> Any:
        for cell in left:
            job = make_ready(cell, root)
            by_job[job] = cell
            yield job

    with closing(run_jobs(jobs(), n_at_once, lock)) as events:
        for event in events:
            if isinstance(event, Ended):
                cell = by_job[event.job]
                found = _records_after(cell, root, event)
                tell(progress.ended(cell, found, event.wall_s))
            else:
                progress.started(by_job[event])
            on_state(progress.state())


def _records_after(cell: Cell, root: Path, ended: Ended) -> list[Record]:
    """The records of a cell whose process has ended; what it could not write itself is written as failed."""
    found = []
    for name in (None, *cell.evaluations):
        path = cell.record(root, name)
        record = read_record(path)
        if record is None:
            record = new_record(job_of(cell), name, "failed", error=ended.reason)
            write_record(path, record)
        found.append(record)
    return found


def _as_asked(record: Record, cell: Cell) -> Record:
    # Which metric counts, and which options tell variants apart, may have been asked otherwise when the cell was run.
    record = {**record, "options": cell.options}
    if record["status"] == "done":
        metric, value = metric_of(record["metrics"], cell.split, cell.metric)
        record |= {"metric": metric, "value": value}
    return record
