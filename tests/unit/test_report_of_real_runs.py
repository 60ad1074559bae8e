"""The report of runs that were really made: their files are those it looks for."""

from __future__ import annotations

import json
from pathlib import Path

import html_tree
import tiny_pretraining
import tiny_run
from maskwright.report.page import write_report
from maskwright.training.pretrain.run import run_pretrain


def captions(folder: Path) -> set[str]:
    page = html_tree.parse((folder / "page.html").read_text(encoding="utf-8"))
    return {figure.one("figcaption").text for figure in page.all("figure") if list(figure.all("svg", "chart"))}


def test_a_real_fine_tuning_run_is_recognised_and_shown(tmp_path: Path) -> None:
    tiny_run.fine_tuned(tmp_path)
    report = write_report([tmp_path / "run"], tmp_path / "page.html")
    assert (report.records, report.notes) == ({"fine-tuning run": 1}, [])
    assert {"Training loss", "Held-out loss", "Held-out accuracy"} <= captions(tmp_path)
    result = json.loads((tmp_path / "run" / "results.json").read_text(encoding="utf-8"))
    page = html_tree.parse((tmp_path / "page.html").read_text(encoding="utf-8"))
    (runs,) = [table for table in page.all("table") if table.one("caption").text == "Runs"]
    assert result["metrics"]["dev_accuracy"] in runs.rows()[0]


def test_a_real_pretraining_run_is_recognised_and_shown(tmp_path: Path) -> None:
    run_pretrain(tiny_pretraining.config(tmp_path, "mae", output_dir=str(tmp_path / "mae"), max_steps=5))
    report = write_report([tmp_path / "mae"], tmp_path / "page.html")
    assert (report.records, report.notes) == ({"pretraining run": 1}, [])
    against = {f"Held-out masked loss{against}" for against in ("", " against tokens", " against time")}
    assert against | {"Training loss", "Speed"} <= captions(tmp_path)
