"""One cell: what it leaves behind, what it does not do twice, and how it fails."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tiny_sweep
from maskwright.errors import InputError
from maskwright.training.average import Sampling, average_outputs
from maskwright.training.models import load_fine_tuned
from maskwright.training.sweep import cell as cell_module
from maskwright.training.sweep.cell import run_job
from maskwright.training.sweep.evaluate import evaluate_again
from maskwright.training.sweep.plan import Cell, plan
from maskwright.training.sweep.records import changes, has_weights, make_ready, read_record, unfinished
from maskwright.training.sweep.run import run_sweep, sum_up
from maskwright.training.sweep.workers import Ended

SHORT = {"num_train_epochs": 1, "save_strategy": "no"}


def config(folder: Path, **changes: Any) -> Any:
    return tiny_sweep.config(
        folder, **{"base": tiny_sweep.base(folder) | SHORT, "variants": {"drop": {"drop_rate": 0.3}}, **changes}
    )


def first(folder: Path, **changes: Any) -> Cell:
    return plan(config(folder, **changes))[0]


def run(cell: Cell, root: Path) -> bool:
    return run_job(make_ready(cell, root))


def record_of(cell: Cell, root: Path, evaluation: str | None = None) -> dict[str, Any]:
    record = read_record(cell.record(root, evaluation))
    assert record is not None
    return record


def must_not_train(*_: Any, **__: Any) -> Any:
    raise AssertionError("trained again")


AVERAGED = {"evaluations": {"mean": {"samples": 3}, "plain": {"averaging": "weight"}}}


def test_a_cell_leaves_its_record_and_no_weights(tmp_path: Path) -> None:
    cell = first(tmp_path)
    assert unfinished(cell, tmp_path)
    assert run(cell, tmp_path)
    record = record_of(cell, tmp_path)
    results = json.loads((cell.folder(tmp_path) / "results.json").read_text("utf-8"))
    assert {
        name: record[name] for name in ("task", "variant", "evaluation", "seed", "status", "options", "metric")
    } == {
        "task": "made",
        "variant": "drop",
        "evaluation": None,
        "seed": 3,
        "status": "done",
        "options": {"drop_rate": 0.3},
        "metric": "accuracy",
    }
    assert record["value"] == record["metrics"]["dev_accuracy"] == results["metrics"]["dev_accuracy"]
    assert record["train_s"] == results["train_s"] > 0
    assert record["tokens_per_s"] == results["tokens_per_s"] > 0
    assert not unfinished(cell, tmp_path)
    assert not has_weights(cell.folder(tmp_path))
    assert list(cell.folder(tmp_path).glob("*.safetensors")) == []
    assert (cell.folder(tmp_path) / "metrics.jsonl").exists()


def test_further_evaluations_and_kept_models(tmp_path: Path) -> None:
    cell = first(tmp_path, keep_models=True, **AVERAGED)
    assert run(cell, tmp_path)
    plain, mean, weight = (record_of(cell, tmp_path, name) for name in (None, "mean", "plain"))
    assert load_fine_tuned(str(cell.folder(tmp_path))).config.num_labels == 3
    assert mean["evaluation"] == "mean"
    assert mean["train_s"] == plain["train_s"]
    assert mean["eval_s"] > 0
    # One pass without noise is what training's own evaluation is.
    assert weight["value"] == plain["value"]
    summary = sum_up(config(tmp_path, output_dir=str(tmp_path), seeds=[3], **AVERAGED), tell=must_not_train)
    assert summary["variants"] == ["drop", "drop, mean", "drop, plain"]
    assert [row["n_seeds"] for row in summary["rows"]] == [1, 1, 1]


def test_an_evaluation_that_fails_is_done_later_without_training_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def broken(*inputs: Any) -> Any:
        asked.append(inputs[-1].averaging)
        if asked == ["model"]:
            raise MemoryError("no room\nat all")
        return evaluate_again(*inputs)

    cell = first(tmp_path, **AVERAGED)
    monkeypatch.setattr(cell_module, "evaluate_again", broken)
    assert not run(cell, tmp_path)
    assert asked == ["model", "weight"]
    failed = record_of(cell, tmp_path, "mean")
    assert (failed["status"], failed["error"]) == ("failed", "MemoryError: no room at all")
    assert [record_of(cell, tmp_path, name)["status"] for name in (None, "plain")] == ["done", "done"]
    assert unfinished(cell, tmp_path)
    assert changes(cell, tmp_path) == []
    written = cell.record(tmp_path).stat().st_mtime_ns
    monkeypatch.setattr(cell_module, "run_finetune", must_not_train)
    assert run(cell, tmp_path)
    assert asked == ["model", "weight", "model"]  # what was done is not done again
    assert cell.record(tmp_path).stat().st_mtime_ns == written
    assert not unfinished(cell, tmp_path)
    assert not has_weights(cell.folder(tmp_path))


def test_an_evaluation_is_done_as_asked_and_its_noise_follows_the_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sampling] = []

    def noted(*inputs: Any, **options: Any) -> Any:
        asked.append(inputs[6])
        return average_outputs(*inputs, **options)

    monkeypatch.setattr("maskwright.training.sweep.evaluate.average_outputs", noted)
    kinds = {"tokens": {"samples": 2, "noise": "droptoken", "drop_rate": 0.5}, "weight": {"averaging": "weight"}}
    assert run(first(tmp_path, seeds=[7], evaluations=kinds), tmp_path)
    assert asked == [Sampling(samples=2, noise="droptoken", drop_rate=0.5, seed=7)]


def test_a_split_without_labels_is_refused_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_module, "run_finetune", must_not_train)
    cell = first(tmp_path, split="test")
    assert not run(cell, tmp_path)
    record = record_of(cell, tmp_path)
    assert record["error"] == "split test: no labelled example to compare on; those of train, dev are labelled"


def test_a_metric_it_does_not_have_is_refused_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_module, "run_finetune", must_not_train)
    cell = first(tmp_path, metrics={"made": "f1_makro"})
    assert not run(cell, tmp_path)
    record = record_of(cell, tmp_path)
    assert record["error"] == "metrics: unknown 'f1_makro'; did you mean 'f1_macro'?"


def test_what_counts_may_be_asked_anew_without_running_anything(tmp_path: Path) -> None:
    cell = first(tmp_path)
    assert run(cell, tmp_path)
    record = record_of(cell, tmp_path)
    summary = sum_up(config(tmp_path, output_dir=str(tmp_path), seeds=[3], metrics={"made": "f1_macro"}))
    assert (summary["rows"][0]["metric"], summary["rows"][0]["mean"]) == ("f1_macro", record["metrics"]["dev_f1_macro"])


def test_changes_of_a_finished_cell_are_named(tmp_path: Path) -> None:
    assert run(first(tmp_path, evaluations={"mean": {"samples": 2}}), tmp_path)
    other = {"base": tiny_sweep.base(tmp_path) | SHORT | {"learning_rate": 0.5, "logging_steps": 7}}
    assert changes(first(tmp_path, **other), tmp_path) == ["learning_rate: 0.01 -> 0.5"]
    more = first(tmp_path, evaluations={"mean": {"samples": 3}, "new": {}})
    assert changes(more, tmp_path) == [
        "evaluation mean, samples: 2 -> 3",
        "evaluation new is new, and the model was not kept",
    ]


def in_this_process(jobs: Iterable[Path], *_: Any) -> Iterator[Path | Ended]:
    for job in jobs:
        yield job
        yield Ended(job, 0 if run_job(job) else 1, 1.0)


def test_changed_cells_are_run_again_where_that_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maskwright.training.sweep.run.run_jobs", in_this_process)
    one = {"seeds": [3], "output_dir": str(tmp_path)}
    run_sweep(config(tmp_path, **one), tell=print)
    changed = {**one, "variants": {"drop": {"drop_rate": 0.4}}}
    with pytest.raises(InputError, match=r"made-drop-3 \(drop_rate: 0.3 -> 0.4\)"):
        run_sweep(config(tmp_path, **changed))
    assert record_of(first(tmp_path), tmp_path)["options"] == {"drop_rate": 0.3}
    summary = run_sweep(config(tmp_path, allow_changes=True, **changed))
    assert record_of(first(tmp_path), tmp_path)["config"]["drop_rate"] == 0.4
    assert (summary["n_done"], summary["rows"][0]["drop_rate"]) == (1, 0.4)


def test_a_run_with_other_options_is_not_gone_on_with(tmp_path: Path) -> None:
    cell = first(tmp_path)
    make_ready(cell, tmp_path)
    checkpoint = cell.folder(tmp_path) / "checkpoint-2"
    checkpoint.mkdir()
    make_ready(cell, tmp_path)
    assert checkpoint.exists()
    make_ready(first(tmp_path, variants={"drop": {"drop_rate": 0.4}}), tmp_path)
    assert not checkpoint.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_a_broken_record_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "made-drop-3.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"made-drop-3\.json: .*remove it"):
        read_record(path)
