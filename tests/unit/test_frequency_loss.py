"""The loss of guessing by frequency, against a loop that leaves out token after token, and where runs tell it."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tiny_pretraining
from maskwright.training.pretrain.frequency import frequency_loss, is_hardly_better
from maskwright.training.pretrain.run import run_pretrain

SPECIAL = (0, 2, 36)


@given(st.lists(st.lists(st.integers(0, 36), max_size=13), max_size=7))
def test_it_is_the_mean_over_tokens_each_left_out_in_turn(rows: list[list[int]]) -> None:
    ids = [i for row in rows for i in row if i not in SPECIAL]
    found = frequency_loss(rows, 37, SPECIAL)
    if not ids:
        assert found is None
        return
    losses = []
    for place, token in enumerate(ids):
        others = Counter(ids[:place] + ids[place + 1 :])
        weights = {i: others[i] + 0.1 for i in range(37) if i not in SPECIAL}
        losses.append(-math.log(weights[token] / sum(weights.values())))
    assert found == pytest.approx(sum(losses) / len(losses), rel=1e-12)


def test_few_rows_do_not_flatter_it() -> None:
    """Tokens all alike drawn: the loss of many is their entropy; of few it is higher, where their entropy is lower."""
    draws = np.random.default_rng(7).integers(3, 103, size=10_007).tolist()
    many, few = frequency_loss([draws], 103, (0, 1, 2)), frequency_loss([draws[:53]], 103, (0, 1, 2))
    assert many == pytest.approx(math.log(100), abs=0.02)
    assert few is not None
    assert few > math.log(100)


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
