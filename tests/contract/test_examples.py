"""The examples run, and do what they say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_decoder_with_both_masks_learns_to_reverse(capsys: pytest.CaptureFixture[str]) -> None:
    share = runpy.run_path(str(EXAMPLES / "encoder_decoder.py"))["main"]()
    assert share > 0.95
    assert "rows reversed without a mistake" in capsys.readouterr().out


def test_the_time_major_rnn_pools_each_row_as_if_alone(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "time_major_rnn.py"))["main"]()
    lines = capsys.readouterr().out.splitlines()
    differs = {line.split(" differs")[0].split(": ")[1].strip(): float(line.split()[-1]) for line in lines[:3]}
    assert differs["plain mean"] > 0.01
    assert differs["masked mean"] == differs["last state"] == 0


def test_every_example_is_tested() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES.glob("*.py") if path.name not in tested] == []
