"""A run killed in mid-training and gone on with ends in the very weights of one that was never stopped."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback

import tiny_run
from maskwright.errors import InputError
from maskwright.training.finetune import FinetuneResult, run_finetune
from maskwright.training.runs import last_whole_checkpoint


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def whole(root: Path) -> FinetuneResult:
    return run_finetune(tiny_run.config(root, output_dir=str(root / "whole")), tiny_run.data())


def kill_at(step: int, root: Path, out: Path) -> None:
    tiny_run.config(root)
    command = [sys.executable, tiny_run.__file__, str(root), str(out), str(step)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (out / "model.safetensors").exists()


def weights(folder: str | Path) -> bytes:
    return (Path(folder) / "model.safetensors").read_bytes()


def kill_in_second_epoch(out: Path, root: Path, whole: FinetuneResult) -> Path:
    """Killed at a step with no checkpoint of its own; the last checkpoint, which lies inside the second epoch."""
    step = whole.n_steps // 3 + 2 + (whole.n_steps // 3 + 1) % 2
    kill_at(step, root, out)
    last = last_whole_checkpoint(out)
    assert last == out / f"checkpoint-{step - 1}"
    return last


def go_on(out: Path, root: Path) -> FinetuneResult:
    return run_finetune(tiny_run.config(root, output_dir=str(out), resume_from_checkpoint=True), tiny_run.data())


def test_a_killed_run_goes_on_to_the_same_weights(root: Path, whole: FinetuneResult) -> None:
    out = root / "killed"
    last = kill_in_second_epoch(out, root, whole)
    state = json.loads((last / "trainer_state.json").read_text("utf-8"))
    kept = state["stateful_callbacks"]["Throughput"]["attributes"]
    again = go_on(out, root)
    assert again.n_steps == whole.n_steps
    assert again.train_s > kept["train_s"] > kept["steps_s"] > 0
    assert weights(out) == weights(whole.output_dir)
    assert again.metrics == whole.metrics
    assert (again.n_tokens, again.padding_avoided) == (whole.n_tokens, whole.padding_avoided)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == list(range(1, whole.n_steps + 1))


def test_a_checkpoint_cut_off_by_the_kill_is_left_aside(
    root: Path, whole: FinetuneResult, caplog: pytest.LogCaptureFixture
) -> None:
    out = root / "cut-off"
    state = kill_in_second_epoch(out, root, whole) / "trainer_state.json"
    state.write_bytes(state.read_bytes()[:100])
    with caplog.at_level(logging.WARNING, "maskwright"):
        go_on(out, root)
    assert "incomplete" in caplog.text
    assert weights(out) == weights(whole.output_dir)


def test_a_checkpoint_without_counts_begins_them_at_nought(root: Path, whole: FinetuneResult) -> None:
    """As transformers' own Trainer leaves it."""
    out = root / "uncounted"
    path = kill_in_second_epoch(out, root, whole) / "trainer_state.json"
    state = json.loads(path.read_text("utf-8"))
    del state["stateful_callbacks"]["Throughput"]
    path.write_text(json.dumps(state), encoding="utf-8")
    began = time.perf_counter()
    again = go_on(out, root)
    assert 0 < again.train_s < time.perf_counter() - began
    assert 0 < again.n_tokens < whole.n_tokens


def test_evaluations_without_progress_count_across_an_interruption(root: Path) -> None:
    class Interrupted(TrainerCallback):
        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.epoch == 2:
                raise KeyboardInterrupt

    options = {"learning_rate": 0.0, "eval_strategy": "epoch", "save_strategy": "epoch", "num_train_epochs": 7}
    options |= {"load_best_model_at_end": True, "early_stopping_patience": 2, "output_dir": str(root / "patience")}
    with pytest.raises(KeyboardInterrupt):
        run_finetune(tiny_run.config(root, **options), tiny_run.data(), callbacks=[Interrupted()])
    again = run_finetune(tiny_run.config(root, **options, resume_from_checkpoint=True), tiny_run.data())
    state = json.loads((root / "patience" / f"checkpoint-{again.n_steps}" / "trainer_state.json").read_text("utf-8"))
    assert state["epoch"] == 3  # the first evaluation is the best, and one after it was seen before the interruption


def test_another_seed_ends_in_other_weights(root: Path, whole: FinetuneResult) -> None:
    other = run_finetune(tiny_run.config(root, output_dir=str(root / "seed"), seed=1), tiny_run.data())
    assert weights(other.output_dir) != weights(whole.output_dir)


def test_a_used_folder_is_not_trained_over_by_mistake(root: Path, whole: FinetuneResult) -> None:
    with pytest.raises(InputError, match="already holds a run; resume_from_checkpoint=true goes on"):
        run_finetune(tiny_run.config(root, output_dir=whole.output_dir), tiny_run.data())


def test_going_on_from_nothing_starts_from_the_beginning(
    root: Path, whole: FinetuneResult, caplog: pytest.LogCaptureFixture
) -> None:
    config = tiny_run.config(root, output_dir=str(root / "fresh"), resume_from_checkpoint=True)
    with caplog.at_level(logging.WARNING, "maskwright"):
        result = run_finetune(config, tiny_run.data())
    assert "starting from the beginning" in caplog.text
    assert weights(result.output_dir) == weights(whole.output_dir)


def test_a_named_checkpoint_must_be_whole(root: Path, tmp_path: Path) -> None:
    config = tiny_run.config(root, output_dir=str(tmp_path / "out"), resume_from_checkpoint=str(tmp_path))
    with pytest.raises(InputError, match="not a whole checkpoint"):
        run_finetune(config, tiny_run.data())
