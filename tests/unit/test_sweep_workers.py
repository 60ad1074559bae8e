"""What processes of a sweep are given, and how long the rest is said to take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from maskwright.training.sweep.config import SweepConfig
from maskwright.training.sweep.plan import plan
from maskwright.training.sweep.progress import Progress
from maskwright.training.sweep.records import write_record
from maskwright.training.sweep.workers import environment


def test_processes_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(7)), raising=False)
    assert [environment(0, n)["OMP_NUM_THREADS"] for n in (1, 2, 3, 11)] == ["7", "3", "2", "1"]
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert environment(0, 2)["OMP_NUM_THREADS"] == "5"


def test_processes_take_one_gpu_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert [environment(slot, 5)["CUDA_VISIBLE_DEVICES"] for slot in range(5)] == ["0", "1", "2", "0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,5,11")
    assert [environment(slot, 3)["CUDA_VISIBLE_DEVICES"] for slot in range(3)] == ["7", "5", "11"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert environment(1, 2)["CUDA_VISIBLE_DEVICES"] == "7,5,11"


def test_the_rest_is_estimated_by_task_from_what_was_measured(tmp_path: Path) -> None:
    options: dict[str, Any] = {"variants": {"a": {}, "b": {}}, "seeds": [3], "output_dir": str(tmp_path)}
    config = SweepConfig(base={"model": "m", "data": "d"}, tasks={"csl": {}, "tnews": {}}, **options)
    cells = plan(config)
    assert Progress.of(cells, tmp_path, 2).eta_s() is None
    record = {"status": "done", "evaluation": None, "metric": "accuracy", "value": 0.5}
    write_record(cells[0].record(tmp_path), record | {"train_s": 100.0})  # csl, a
    write_record(cells[2].record(tmp_path), {"status": "failed", "error": "none left"})  # tnews, a
    progress = Progress.of(cells, tmp_path, 2)
    assert (progress.n_done, progress.n_failed, len(progress.left)) == (1, 1, 3)
    assert progress.eta_s() == 300.0 / 2  # tnews has not been timed, so csl stands in
    progress.started(cells[3])
    line = progress.ended(cells[3], [record], 20.0)
    assert line == "tnews, b, seed 3: accuracy 0.5000 (20 s)"
    assert progress.eta_s() == (100.0 + 20.0) / 2
    assert progress.state() == "2 of 4 cells done, 1 failed, 2 left, about 60 s to go; running: -"
