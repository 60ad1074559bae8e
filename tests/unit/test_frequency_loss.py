"""The loss of guessing by frequency, against the cross entropy of such a guess, and where runs tell it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tiny_pretraining
from maskwright.training.pretrain.frequency import frequency_loss, is_hardly_better
from maskwright.training.pretrain.run import run_pretrain

SPECIAL = (0, 2, 41)


@given(st.lists(st.lists(st.integers(0, 36), max_size=13), max_size=7))
def test_it_is_the_cross_entropy_of_the_tokens_own_frequencies(rows: list[list[int]]) -> None:
    ids = torch.tensor([i for row in rows for i in row if i not in SPECIAL], dtype=torch.long)
    found = frequency_loss(rows, SPECIAL)
    if not len(ids):
        assert found is None
        return
    guess = torch.zeros(37, dtype=torch.float64).index_add_(0, ids, torch.ones(len(ids), dtype=torch.float64))
    logits = guess.log().expand(len(ids), -1)
    assert found == pytest.approx(float(torch.nn.functional.cross_entropy(logits, ids)), abs=1e-12)


@pytest.mark.parametrize("objective", ["mlm", "mae"])
def test_a_run_tells_it_at_every_evaluation_and_warns_of_a_model_no_better(
    objective: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    still = {"learning_rate": 1e-9, "max_steps": 5, "num_train_epochs": 1}
    result = run_pretrain(tiny_pretraining.config(tmp_path, objective, output_dir=str(tmp_path / "run"), **still))
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text("utf-8").splitlines()]
    told = {line["eval_frequency_loss"] for line in lines if "eval_loss" in line}
    assert told == {result.frequency_loss}
    assert result.eval_loss is not None
    assert result.frequency_loss is not None
    assert is_hardly_better(result.eval_loss, result.frequency_loss)
    assert f"guessing tokens by frequency scores {result.frequency_loss:.2f}" in caplog.text
    card = (tmp_path / "run" / "README.md").read_text("utf-8")
    assert f"| the same of guessing by frequency | {result.frequency_loss:.4f} |" in card


def test_a_loss_well_below_is_no_cause_for_warning() -> None:
    assert not is_hardly_better(6.0, 6.73)
    assert is_hardly_better(6.7, 6.73)
