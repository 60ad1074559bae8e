"""One cell of a sweep: trained, evaluated, recorded."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from maskwright.data.tasks.base import TaskData
from maskwright.errors import InputError, MaskwrightError
from maskwright.training.config import FinetuneConfig
from maskwright.training.finetune import run_finetune
from maskwright.training.runs import last_whole_checkpoint
from maskwright.training.sweep.config import Evaluation, check_known
from maskwright.training.sweep.evaluate import evaluate_again
from maskwright.training.sweep.plan import record_file
from maskwright.training.sweep.records import (
    Record,
    drop_weights,
    has_weights,
    is_done,
    metric_of,
    new_record,
    read_record,
    write_record,
)
from maskwright.training.texts import labelled, training_data


def run_job(path: Path) -> bool:
    """Run the cell whose job (see `make_ready`) lies in its run directory; see `run_cell`."""
    return run_cell(json.loads(path.read_text(encoding="utf-8")), path.parent, path.parents[3])


def run_cell(job: dict[str, Any], folder: Path, records: Path) -> bool:
    """Train and evaluate one cell, leave a record of each in `records`, and say whether all went well.

    What is already done is not done again: training goes on from a checkpoint in `folder`, or is left out where its
    record and model are there. The weights are removed once nothing needs them, unless the job says `keep_models`.
    """

    def attempt(evaluation: str | None, work: Callable[[], Record]) -> bool:
        path = records / record_file(job["name"], evaluation)
        try:
            found = work()
            metric, value = metric_of(found["metrics"], job["split"], job["metric"])
            write_record(path, new_record(job, evaluation, "done", metric=metric, value=value, **found))
        except MaskwrightError as error:
            reason = str(error)
        except Exception as error:  # whatever breaks a cell must break this cell alone
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"
        else:
            return True
        write_record(path, new_record(job, evaluation, "failed", error=" ".join(reason.split())))
        return False

    plain_path = records / record_file(job["name"])
    plain = read_record(plain_path)
    if not (is_done(plain) and has_weights(folder)) and not attempt(None, lambda: _train(job, folder)):
        return False
    plain = read_record(plain_path)
    assert plain is not None
    training = {name: plain[name] for name in ("train_s", "tokens_per_s")}
    well = True
    for name, evaluation in job["evaluations"].items():
        if not is_done(read_record(records / record_file(job["name"], name))):
            well &= attempt(name, partial(_evaluate, job, folder, evaluation, training))
    if well and not job["keep_models"]:
        drop_weights(folder)
    return well


def _train(job: dict[str, Any], folder: Path) -> Record:
    config = FinetuneConfig(**job["config"])
    if has_weights(folder):
        result = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    else:
        data = training_data(config)
        _check_split(data, job["split"], job["metric"])
        resume = last_whole_checkpoint(folder) is not None
        config = replace(config, output_dir=str(folder), resume_from_checkpoint=resume, overwrite_output_dir=not resume)
        result = run_finetune(config, data).to_dict()
    return {name: result[name] for name in ("metrics", "train_s", "tokens_per_s")} | {"config": job["config"]}


def _check_split(data: TaskData, split: str, metric: str | None) -> None:
    # Hours of training are too long to wait for this.
    if not labelled(data, split):
        there = ", ".join(name for name in data.splits if labelled(data, name))
        raise InputError(f"no labelled example to compare on; those of {there} are labelled", f"split {split}")
    if metric is not None:
        check_known(metric, data.metrics, "metrics")


def _evaluate(job: dict[str, Any], folder: Path, evaluation: dict[str, Any], training: Record) -> Record:
    began = time.perf_counter()
    config = FinetuneConfig(**job["config"])
    metrics = evaluate_again(config, training_data(config), folder, Evaluation(**evaluation))
    return {"metrics": metrics, "eval_s": time.perf_counter() - began, "config": evaluation} | training
