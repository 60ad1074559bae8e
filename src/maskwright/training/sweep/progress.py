"""How far a sweep is, and how long the rest may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from maskwright.training.sweep.plan import Cell
from maskwright.training.sweep.records import Record, is_done, read_record


@dataclass(slots=True)
class Progress:
    """Cells done, failed and left. `seconds` holds how long cells took, by task, from which the rest is estimated."""

    n_cells: int
    n_at_once: int
    n_done: int = 0
    n_failed: int = 0
    left: list[Cell] = field(default_factory=list)
    running: list[Cell] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def of(cls, cells: Sequence[Cell], root: Path, n_at_once: int = 1) -> Progress:
        """Where a sweep stands by its records; a cell of which any part failed counts as failed, and is left too."""
        progress = cls(len(cells), n_at_once)
        for cell in cells:
            records = [read_record(cell.record(root, name)) for name in (None, *cell.evaluations)]
            if all(is_done(record) for record in records):
                progress.n_done += 1
                progress._note(
                    cell, sum((record or {}).get("eval_s", 0.0) for record in records) + _train_s(records[0])
                )
                continue
            progress.n_failed += any(record is not None and not is_done(record) for record in records)
            progress.left.append(cell)
        return progress

    def started(self, cell: Cell) -> None:
        """A cell is at work."""
        self.running.append(cell)

    def ended(self, cell: Cell, records: Sequence[Record], wall_s: float) -> str:
        """A cell has ended, with these records; gives the line that says so."""
        self.running.remove(cell)
        self.left.remove(cell)
        failed = [record for record in records if not is_done(record)]
        self.n_done += not failed
        self.n_failed += bool(failed)
        if not failed:
            self._note(cell, wall_s)
        what = f"{cell.task}, {cell.variant}, seed {cell.seed}"
        if failed:
            return f"{what}: FAILED: {failed[0]['error']}"
        scores = ", ".join(f"{record['evaluation'] or record['metric']} {record['value']:.4f}" for record in records)
        return f"{what}: {scores} ({in_time(wall_s)})"

    def state(self) -> str:
        """Counts, the time left, and what is at work."""
        counts = f"{self.n_done} of {self.n_cells} cells done"
        if self.n_failed:
            counts += f", {self.n_failed} failed"
        rest = "" if (eta := self.eta_s()) is None else f", about {in_time(eta)} to go"
        return f"{counts}, {len(self.left)} left{rest}; running: {', '.join(cell.name for cell in self.running) or '-'}"

    def eta_s(self) -> float | None:
        """Seconds that the cells left may take, or None before any has been timed."""
        if not self.seconds:
            return None
        by_task = {task: mean(values) for task, values in self.seconds.items()}
        some = mean(by_task.values())
        return sum(by_task.get(cell.task, some) for cell in self.left) / self.n_at_once

    def _note(self, cell: Cell, seconds: float) -> None:
        self.seconds.setdefault(cell.task, []).append(seconds)


def in_time(seconds: float) -> str:
    """Seconds as people say them.

    Example:
        >>> in_time(42), in_time(600), in_time(7260)
        ('42 s', '10 min', '2 h 01 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"


def _train_s(record: Record | None) -> float:
    return float((record or {}).get("train_s") or 0.0)
