"""`maskwright tasks`: every task, and what is on disk, readable on a narrow and a wide terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tiny_tasks
from maskwright.cli import main as cli
from maskwright.data.tasks.registry import TASKS


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_and_cuts_no_word_short(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert cli.main(["tasks"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    assert "…" not in out
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    for spec in TASKS.values():
        assert all(f" {size:,} " in rows[spec.name] for size in spec.sizes.values() if size != spec.sizes.get("trial"))
        assert f" {spec.language} " in rows[spec.name]
        assert f" {spec.kind} " in rows[spec.name]
    assert ("topic of a news" in out) == (width == 120)


def test_what_is_on_disk_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny_tasks.write_zip(tmp_path, "chid")
    (tmp_path / "tnews").mkdir()
    (tmp_path / "tnews" / "dev.json").write_text("[bold]", encoding="utf-8")
    assert cli.main(["tasks", "--data", str(tmp_path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "train 14 · dev 14 · test 14" in out
    assert "malformed JSON" in out


def test_json_has_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny_tasks.write_zip(tmp_path, "cmrc2018")
    assert cli.main(["tasks", "--data", str(tmp_path), "--json"]) == 0
    tasks = {task["name"]: task for task in json.loads(capsys.readouterr().out)}
    assert list(tasks) == list(TASKS)
    assert tasks["cmrc2018"]["on_disk"]["n_examples"] == {"train": 7, "dev": 7, "test": 7, "trial": 7}
    assert tasks["c3"]["on_disk"] is None
    assert tasks["tnews"]["labels"][:2] == ["100", "101"]
    assert cli.main(["tasks", "--json"]) == 0
    assert "on_disk" not in json.loads(capsys.readouterr().out)[0]


def test_an_empty_folder_and_none_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tasks", "--data", str(tmp_path)]) == 0
    assert f"None of them is in {tmp_path}." in capsys.readouterr().out
    for name in ("chinese", "english", "none"):
        (tmp_path / name).mkdir()
    tiny_tasks.write_zip(tmp_path / "english", "cmrc2018")
    (tmp_path / "chinese" / "tnews").mkdir()
    assert cli.main(["tasks", "--data", str(tmp_path)]) == 0
    assert f"look in {tmp_path}/chinese or {tmp_path}/english." in capsys.readouterr().out
    (tmp_path / "none").rmdir()
    assert cli.main(["tasks", "--data", str(tmp_path / "none")]) == 2
    assert "no such file or folder" in capsys.readouterr().err
