"""The demo in miniature: all its runs, predictions, and where they were written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from maskwright.cli import demo as verb
from maskwright.cli.demo_audit import audit_demo, show_audits
from maskwright.cli.main import main
from maskwright.report.page import write_report
from maskwright.training import demo
from maskwright.training.demo import DemoResult, DemoSize, run_demo
from maskwright.training.wordpiece import train_wordpiece

SMALL = DemoSize(n_train=48, n_test=11, minutes=0.01, num_train_epochs=1, stock_steps=2, vocab_size=600)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DemoResult, list[str]]:
    """One run of the demo, its folder and the lines it told."""
    folder = tmp_path_factory.mktemp("demo")
    lines: list[str] = []
    return folder, run_demo(folder, SMALL, tell=lines.append), lines


def test_all_runs_and_predictions(done: tuple[Path, DemoResult, list[str]]) -> None:
    folder, result, lines = done
    assert len(lines) == demo.N_STAGES
    assert {name: run.objective for name, run in result.pretrained.items()} == {"mlm": "mlm", "mae": "mae"}
    assert all(run.n_steps >= 1 and run.eval_loss > 0 for run in result.pretrained.values())
    fine_tuned = (result.packed, result.after_mae, result.from_random, result.dropped, result.stock)
    assert [run.n_steps for run in fine_tuned] == [3, 3, 3, 3, 2]
    assert result.packed.n_tokens == result.dropped.n_tokens
    assert result.packed.padding_avoided > 0.2
    assert result.stock.padding_avoided == 0
    assert 0 <= result.packed.metrics["test_accuracy"] <= 1
    assert len((folder / "predictions.jsonl").read_text("utf-8").splitlines()) == 11
    assert json.loads((folder / "demo.json").read_text("utf-8"))["speedup"] == pytest.approx(result.speedup)
    assert (folder / "packed" / "model.safetensors").exists()


def test_the_stock_run_takes_the_very_batches_of_the_packed_one(tmp_path: Path) -> None:
    result = run_demo(tmp_path, DemoSize(48, 11, 0.01, 1, 3, 600), tell=lambda _: None)
    assert result.stock.n_tokens == result.packed.n_tokens
    logs = [
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text("utf-8").splitlines()]
        for name in ("packed", "stock")
    ]
    losses = [next(line["train_loss"] for line in log if "train_loss" in line) for log in logs]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


def test_the_verb_prints_a_table_or_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "DemoSize", lambda: SMALL)
    assert main(["demo", "--output_dir", str(tmp_path / "a")]) == 0
    printed, told = capsys.readouterr()
    steps = [f"{i}/{demo.N_STAGES + 1} " for i in range(1, demo.N_STAGES + 2)]
    assert [line[:4] for line in told.splitlines() if line[1:2] == "/"] == steps
    assert all(
        word in printed
        for word in (
            "MLM, packed",
            "MAE, 75% removed",
            "DropToken 0.1",
            "not packed",
            "MLM and MAE against random weights",
            "predictions.jsonl",
        )
    )
    options = verb.build_parser().parse_args(["--output_dir", str(tmp_path / "b"), "--json"])
    assert verb.run(options) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["packed"]["n_steps"] == 3
    assert [audited["is_clean"] for audited in result["audit"]] == [True, False]


def test_the_last_step_audits_the_model_and_a_fault_planted_in_it(
    done: tuple[Path, DemoResult, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = done[0]
    audits = audit_demo(folder)
    assert json.loads((folder / "audit" / "audit.json").read_text("utf-8")) == [one.to_dict() for one in audits]
    sound, planted = audits
    assert sound.is_clean
    assert len({finding.rule for finding in sound if finding.verdict == "pass"}) > 10
    assert all(finding.module.startswith("model.layers.1.attn") for finding in planted.failures)
    capsys.readouterr()
    exec(compile(planted.failures[0].script, "script", "exec"), {})
    assert max(float(line) for line in capsys.readouterr().out.split()) > 1e-4
    show_audits(Console(width=200), audits, folder)
    printed = capsys.readouterr().out
    assert "packed: clean" in printed
    assert "where: model.layers.1.attn" in printed
    report = write_report([folder], folder / "report.html")
    assert report.records == {"audit": 1, "pretraining run": 2, "fine-tuning run": 5}


def test_wordpiece_splits_chinese_and_knows_its_special_tokens() -> None:
    tokenizer = train_wordpiece(["中文 words words", "中文 word"] * 3, vocab_size=80, max_length=64)
    assert tokenizer.tokenize("Words中文") == ["words", "中", "文"]
    assert tokenizer("中")["input_ids"][::2] == [tokenizer.cls_token_id, tokenizer.sep_token_id] == [2, 3]
    assert (tokenizer.pad_token_id, tokenizer.model_max_length) == (0, 64)
