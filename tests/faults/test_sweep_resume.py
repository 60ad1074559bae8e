"""Sweeps that are killed, interrupted, changed or broken in the middle."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import yaml

import tiny_sweep
from maskwright.cli.main import main
from maskwright.errors import InputError
from maskwright.training.sweep.cell import run_job
from maskwright.training.sweep.plan import plan
from maskwright.training.sweep.records import make_ready
from maskwright.training.sweep.run import run_sweep
from maskwright.training.sweep.workers import locked

OF_THE_CLOCK = ("train_s", "tokens_per_s", "speedup", "token_ratio", "eval_s")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweeps")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Sums over several threads differ in their last digits."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
    torch.set_num_threads(n_threads)


@pytest.fixture(scope="module")
def whole(root: Path) -> dict[str, Any]:
    """An uninterrupted sweep; its cells are run here, one after the other, which is faster than in processes."""
    config = tiny_sweep.config(root, output_dir=str(root / "whole"))
    for cell in plan(config):
        assert run_job(make_ready(cell, root / "whole"))
    return run_sweep(config, tell=lambda _: None)


def table(summary: dict[str, Any]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in OF_THE_CLOCK} for row in summary["rows"]]


def start(root: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, tiny_sweep.__file__, str(root), str(out)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def wait_for(what: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not what():
        assert process.poll() is None, "the sweep ended before it could be stopped"
        time.sleep(0.005)


def amid_the_second_cell(out: Path) -> bool:
    """One cell done, the next one beyond its first checkpoint."""
    folder = out / "cells" / "made" / "drop" / "3"
    return (out / "cells" / "made-plain-3.json").exists() and any(folder.glob("checkpoint-*/trainer_state.json"))


def no_longer_at_work(out: Path) -> None:
    with locked(out):  # every process of the sweep holds the folder's lock as long as it lives
        pass


def test_a_sweep_killed_amid_a_cell_ends_with_the_table_of_one_that_was_not(root: Path, whole: dict[str, Any]) -> None:
    out = root / "killed"
    process = start(root, out)
    wait_for(lambda: amid_the_second_cell(out), process)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    no_longer_at_work(out)
    first, second = out / "cells" / "made-plain-3.json", out / "cells" / "made-drop-3.json"
    assert not second.exists()
    finished = first.read_bytes(), first.stat().st_mtime_ns

    lines: list[str] = []
    summary = run_sweep(tiny_sweep.config(root, output_dir=str(out), processes=2), tell=lines.append)
    assert table(summary) == table(whole)
    assert [row["n_seeds"] for row in summary["rows"]] == [2, 2]
    assert lines[0] == "1 of 4 cells are done already"
    assert (first.read_bytes(), first.stat().st_mtime_ns) == finished

    # The cell went on from its checkpoint, and counted on.
    folder, uncut = (path / "cells" / "made" / "drop" / "3" for path in (out, root / "whole"))
    assert yaml.safe_load((folder / "config.yaml").read_text("utf-8"))["resume_from_checkpoint"] is True
    n_tokens = [json.loads((path / "results.json").read_text("utf-8"))["n_tokens"] for path in (folder, uncut)]
    assert n_tokens[0] == n_tokens[1]


def test_nothing_is_left_to_do_afterwards(root: Path, whole: dict[str, Any]) -> None:
    lines: list[str] = []
    again = run_sweep(tiny_sweep.config(root, output_dir=str(root / "whole")), tell=lines.append)
    assert lines == ["4 of 4 cells are done already"]
    assert again["rows"] == whole["rows"]


def test_changed_options_of_finished_cells_are_refused_and_named(root: Path, whole: dict[str, Any]) -> None:
    changed = tiny_sweep.config(
        root, output_dir=str(root / "whole"), variants={"plain": {}, "drop": {"drop_rate": 0.3}}
    )
    with pytest.raises(InputError) as error:
        run_sweep(changed, tell=lambda _: None)  # base says drop_rate 0.2, which "plain" had set to 0
    assert "made-plain-3 (drop_rate: 0.0 -> 0.2), made-plain-5 (drop_rate: 0.0 -> 0.2)" in str(error.value)
    assert "--allow_changes" in str(error.value)
    assert "made-drop" not in str(error.value)


def test_two_sweeps_do_not_share_a_folder(root: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maskwright.training.sweep.workers._PATIENCE_S", 0.2)
    with locked(root / "whole"), pytest.raises(InputError, match="another sweep is at work"):
        run_sweep(tiny_sweep.config(root, output_dir=str(root / "whole")), tell=lambda _: None)


def test_ctrl_c_stops_the_cells_and_says_how_to_go_on(root: Path) -> None:
    out, file = root / "stopped", root / "stopped.yaml"
    config = tiny_sweep.config(root, output_dir=str(out))
    options = {name: getattr(config, name) for name in ("output_dir", "base", "tasks", "variants", "seeds")}
    file.write_text(yaml.safe_dump(options, sort_keys=False), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "maskwright.cli.main", "sweep", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A suite that runs in the background of a script ignores Ctrl-C, and so would what it starts.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    wait_for(lambda: (out / "cells" / "made" / "plain" / "3" / "log.txt").exists(), process)
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate()
    assert process.returncode == 130
    assert printed == ""
    assert "stopped; the same command goes on from here" in said
    assert "Traceback" not in said
    no_longer_at_work(out)
    assert list((out / "cells").glob("*.json")) == []


def test_a_cell_that_breaks_breaks_nothing_else_and_is_tried_again(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = tiny_sweep.base(root) | {"num_train_epochs": 1, "save_strategy": "no"}
    overrides = base["config_overrides"]
    broken = {"config_overrides": overrides | {"num_attention_heads": 5}}  # 22 is no multiple of 5
    file = tmp_path / "broken.yaml"
    options: dict[str, Any] = {"output_dir": str(tmp_path / "out"), "base": base, "tasks": {"made": {}}, "seeds": [3]}
    options["variants"] = {"fine": {}, "broken": broken}
    file.write_text(yaml.safe_dump(options, sort_keys=False), encoding="utf-8")

    assert main(["sweep", str(file), "--json"]) == 1
    printed = capsys.readouterr()
    summary = json.loads(printed.out)
    assert [(cell["variant"], cell["status"]) for cell in summary["cells"]] == [("fine", "done"), ("broken", "failed")]
    (line,) = [line for line in printed.err.splitlines() if line.startswith("made, broken, seed 3: FAILED: ")]
    assert "hidden size (22) is not a multiple" in line
    assert (summary["n_done"], summary["n_failed"]) == (1, 1)

    finished = (tmp_path / "out" / "cells" / "made-fine-3.json").stat().st_mtime_ns
    command = ["sweep", str(file), f"--variants.broken.config_overrides={json.dumps(overrides)}"]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "1 of 2 cells are done already" in printed.err
    assert "made, broken, seed 3: accuracy" in printed.err
    assert "2 of 2 cells done" in printed.out
    assert (tmp_path / "out" / "cells" / "made-fine-3.json").stat().st_mtime_ns == finished


def test_a_cell_whose_process_is_killed_is_a_failed_cell(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    seen: list[str] = []

    def kill_it(state: str) -> None:
        seen.append(state)
        if len(seen) == 1:
            for child in psutil.Process().children():
                child.kill()

    one = {"variants": {"plain": {}}, "seeds": [3]}
    summary = run_sweep(tiny_sweep.config(root, output_dir=str(out), **one), tell=lambda _: None, on_state=kill_it)
    (cell,) = summary["cells"]
    assert cell["status"] == "failed"
    assert "ended by SIGKILL (out of memory?); see" in cell["error"]
    assert seen[0].startswith("0 of 1 cells done, 1 left; running: made-plain-3")
    assert seen[1].startswith("0 of 1 cells done, 1 failed, 0 left")
