"""The command line: verbs, options, exit codes, and what lands on which stream."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import tiny_run
from maskwright._version import __version__
from maskwright.cli import main as cli
from maskwright.cli.options import Parser, config_parser, read_config
from maskwright.training.config import FinetuneConfig


def read(*words: str) -> FinetuneConfig:
    return read_config(FinetuneConfig, config_parser("finetune", FinetuneConfig).parse_args(list(words)))


BASE = ("--model", "m", "--train_file", "t.csv")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_run.fine_tuned(tmp_path_factory.mktemp("tiny"))


def test_no_words_print_the_overview(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert "finetune" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"maskwright {__version__}\n"


def test_options_override_the_file_and_dotted_ones_reach_into_it(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("learning_rate: 1.0e-4\nseed: 7\ntraining_arguments:\n  adam_beta2: 0.98\n", encoding="utf-8")
    config = read("--config", str(file), *BASE, "--seed", "8", "--training_arguments.adam_beta1", "0.8")
    assert config.learning_rate == 1e-4
    assert config.seed == 8
    assert config.training_arguments == {"adam_beta2": 0.98, "adam_beta1": 0.8}


@pytest.mark.parametrize(("word", "value"), [("true", True), ("runs/checkpoint-5", "runs/checkpoint-5")])
def test_resume_takes_a_yes_or_a_path(word: str, value: bool | str) -> None:
    assert read(*BASE, "--resume_from_checkpoint", word).resume_from_checkpoint == value


def test_defaults_of_lists_are_not_shared() -> None:
    first, second = read(*BASE), read(*BASE)
    first.report_to.append("wandb")
    assert second.report_to == ["tensorboard"]


def test_every_option_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        config_parser("finetune", FinetuneConfig).parse_args(["--help"])
    out = capsys.readouterr().out
    assert all(f"--{name} " in out for name in FinetuneConfig.__dataclass_fields__)


def test_print_config_is_read_back(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        read(*BASE, "--learning_rate", "0.25", "--print_config")
    assert stop.value.code == 0
    file = tmp_path / "run.yaml"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    assert read("--config", str(file)).learning_rate == 0.25


def test_ctrl_c_is_130_and_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    verb = SimpleNamespace(build_parser=lambda: Parser("finetune"), run=interrupted)
    monkeypatch.setitem(sys.modules, "maskwright.cli.finetune", verb)
    assert cli.main(["finetune"]) == 130
    assert "--resume_from_checkpoint true" in capsys.readouterr().err


def test_json_alone_is_on_stdout(run_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "red round"}\n{"text": "quiet"}\n', encoding="utf-8")
    out = tmp_path / "out.jsonl"
    words = ["predict", "--model", str(run_folder), "--input", str(texts), "--output", str(out), "--json"]
    assert cli.main(words) == 0
    assert json.loads(capfd.readouterr().out)["n_rows"] == 2
    assert len(out.read_text("utf-8").splitlines()) == 2
