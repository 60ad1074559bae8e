"""What became of every cell, kept in files so that a sweep can be stopped and gone on with at any moment."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from maskwright.errors import InputError
from maskwright.training.sweep.plan import Cell, differences, material

Record = dict[str, Any]
Status = Literal["done", "failed"]
JOB = "cell.json"
_WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "checkpoint-*")


def read_record(path: Path) -> Record | None:
    """The record in a file, or None where there is none.

    Raises:
        InputError: the file is there but holds no record.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read ({error}); remove it to have its cell run again", str(path)) from error
    if not isinstance(record, dict) or "status" not in record:
        raise InputError("is no record of a cell; remove it to have its cell run again", str(path))
    return record


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record whole or not at all, whatever stops the process in between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, path)


def new_record(cell: Mapping[str, Any], evaluation: str | None, status: Status, **found: Any) -> Record:
    """A record of a cell, given by its job (see `job_of`), or of one of its further evaluations."""
    return {
        "task": cell["task"],
        "variant": cell["variant"],
        "evaluation": evaluation,
        "seed": cell["seed"],
        "status": status,
        "options": cell["options"],
        **found,
    }


def job_of(cell: Cell) -> dict[str, Any]:
    """A cell as plain values: what the process that runs it reads."""
    evaluations = {name: asdict(evaluation) for name, evaluation in cell.evaluations.items()}
    job = {"name": cell.name, "task": cell.task, "variant": cell.variant, "seed": cell.seed, "options": cell.options}
    job |= {"split": cell.split, "metric": cell.metric, "keep_models": cell.keep_models}
    return {**job, "config": asdict(cell.config), "evaluations": evaluations}


def is_done(record: Record | None) -> bool:
    """Whether a record tells of a finished run or evaluation."""
    return record is not None and record["status"] == "done"


def has_weights(folder: Path) -> bool:
    """Whether a run directory still holds its final model and results."""
    return (folder / "results.json").exists() and any(folder.glob("model*.safetensors"))


def drop_weights(folder: Path) -> None:
    """Remove model and checkpoints, which take gigabytes; what tells of the run stays."""
    for pattern in _WEIGHTS:
        for path in folder.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def unfinished(cell: Cell, root: Path) -> bool:
    """Whether the cell or one of its further evaluations is still to be done."""
    return not all(is_done(read_record(cell.record(root, name))) for name in (None, *cell.evaluations))


def changes(cell: Cell, root: Path) -> list[str]:
    """What keeps a finished cell from being taken as it is: options that are no longer those it was run with."""
    found: list[str] = []
    folder = cell.folder(root)
    plain = read_record(cell.record(root))
    if not is_done(plain):
        return found
    assert plain is not None
    found += differences(plain.get("config", material(cell.config)), material(cell.config))
    for name, evaluation in cell.evaluations.items():
        record = read_record(cell.record(root, name))
        if record is None and not has_weights(folder):
            found.append(f"evaluation {name} is new, and the model was not kept")
        elif record is not None and is_done(record):
            before = record.get("config", asdict(evaluation))
            found += [
                f"evaluation {name}, {key}: {before.get(key)} -> {value}"
                for key, value in asdict(evaluation).items()
                if before.get(key) != value
            ]
    return found


def forget(cell: Cell, root: Path) -> None:
    """Remove all that is kept of a cell."""
    for name in (None, *cell.evaluations):
        cell.record(root, name).unlink(missing_ok=True)
    shutil.rmtree(cell.folder(root), ignore_errors=True)


def make_ready(cell: Cell, root: Path) -> Path:
    """Leave in the cell's folder its job and nothing of a run with other options; gives the job's file."""
    folder = cell.folder(root)
    job, path = job_of(cell), folder / JOB
    try:
        before = json.loads(path.read_text(encoding="utf-8"))["config"]
    except (OSError, ValueError, KeyError):
        before = None
    if before is None or differences(before, job["config"]):
        forget(cell, root)
    for name in (None, *cell.evaluations):
        record = cell.record(root, name)
        if not is_done(read_record(record)):
            record.unlink(missing_ok=True)
    write_record(path, job)
    return path


def metric_of(metrics: Mapping[str, float], split: str, metric: str | None) -> tuple[str, float]:
    """The name and value of a metric on a split: the one asked for, else the task's first.

    Raises:
        InputError: the split was not evaluated, or has no such metric.

    Example:
        >>> metric_of({"dev_loss": 0.7, "dev_accuracy": 0.5, "dev_f1": 0.4}, "dev", None)
        ('accuracy', 0.5)
    """
    prefix = f"{split}_"
    found = {name.removeprefix(prefix): value for name, value in metrics.items() if name.startswith(prefix)}
    named = {name: value for name, value in found.items() if name != "loss"}
    if not found or (metric is None and not named):
        raise InputError("no labelled example was evaluated", f"split {split}")
    if metric is None:
        return next(iter(named.items()))
    if metric not in found:
        raise InputError(f"no metric '{metric}'; there are {', '.join(named)}", f"split {split}")
    return metric, found[metric]
