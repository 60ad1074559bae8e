"""What a sweep's records come to, against values worked out by hand, and how that is written down."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from scipy import stats

from maskwright.training.sweep.plot import draw_differences, draw_drop_rates, lines_of
from maskwright.training.sweep.summary import Summary, in_words, summarise
from maskwright.training.sweep.write import as_markdown, write_summary

SCORES = {
    # differences .03 .05 .04: beyond noise
    ("far", "plain"): {2: 0.60, 3: 0.61, 5: 0.62},
    ("far", "drop"): {2: 0.63, 3: 0.66, 5: 0.66},
    # differences .02 -.02 .01: noise
    ("near", "plain"): {2: 0.70, 3: 0.72, 5: 0.71},
    ("near", "drop"): {2: 0.72, 3: 0.70, 5: 0.72},
}
RATES = {"plain": 0.0, "drop": 0.1}


def record(task: str, variant: str, seed: int, value: float, **changes: Any) -> dict[str, Any]:
    fields = {"metric": "accuracy", "value": value, "metrics": {"dev_accuracy": value}, "config": {"model": "m"}}
    cost = {"train_s": 20.0 if variant == "plain" else 16.0, "tokens_per_s": 300.0 if variant == "plain" else 390.0}
    place = {"task": task, "variant": variant, "evaluation": None, "seed": seed, "status": "done"}
    return {**place, "options": {"drop_rate": RATES.get(variant, 0.0)}, **fields, **cost, **changes}


def records() -> list[dict[str, Any]]:
    return [record(*place, seed, value) for place, values in SCORES.items() for seed, value in values.items()]


def summary_of(found: list[dict[str, Any]], **changes: Any) -> Summary:
    order = {"baseline": "plain", "tasks": ["far", "near"], "variants": ["plain", "drop"]}
    counts = {"n_cells": len(found), "n_done": len(found), "n_failed": 0, "split": "dev", "processes": 1}
    return summarise(found, **{**order, **changes}) | counts


def row(summary: Summary, task: str, variant: str) -> dict[str, Any]:
    (found,) = [row for row in summary["rows"] if (row["task"], row["variant"]) == (task, variant)]
    return found


def test_means_differences_and_tests() -> None:
    summary = summary_of(records())
    far, near = row(summary, "far", "drop"), row(summary, "near", "drop")
    assert (far["n_seeds"], far["mean"], far["std"]) == (3, pytest.approx(0.65), pytest.approx(0.0173205, rel=1e-5))
    assert far["difference"] == pytest.approx(0.04)
    for found in (far, near):
        own, base = (list(SCORES[found["task"], name].values()) for name in ("drop", "plain"))
        assert found["p"] == pytest.approx(stats.ttest_rel(own, base).pvalue)
    # Two comparisons: the smaller p counts twice; the larger stays, being above that.
    assert far["p_holm"] == pytest.approx(2 * far["p"])
    assert near["p_holm"] == pytest.approx(near["p"])
    assert (far["verdict"], near["verdict"]) == ("better", "no difference beyond noise")
    assert row(summary, "far", "plain")["p"] is None


def test_the_correction_counts_every_comparison_of_the_sweep() -> None:
    more = [record("far", f"v{i}", seed, SCORES["far", "plain"][seed] + 0.001 * (seed - i))
            for i in range(3, 7) for seed in (2, 3, 5)]  # fmt: skip
    summary = summary_of([*records(), *more], variants=["plain", "drop", "v3", "v4", "v5", "v6"])
    far = row(summary, "far", "drop")
    assert far["p"] < 0.05
    assert far["p_holm"] == pytest.approx(6 * far["p"])
    assert far["verdict"] == "no difference beyond noise"


def test_win_tie_loss_and_words() -> None:
    summary = summary_of(records())
    (total,) = summary["totals"]
    assert {key: total[key] for key in ("win", "tie", "loss", "untested")} == {
        "win": 1,
        "tie": 1,
        "loss": 0,
        "untested": 0,
    }
    # The interval of the tie: .0033 ± 4.303 * .0120
    assert in_words(summary) == [
        "drop against plain: better on far; no difference beyond noise (one of up to 5.50 remains possible) on near."
    ]
    far = [item for item in records() if item["task"] == "far"]
    both = summary_of([*far, *(item | {"task": "near"} for item in far)])
    assert in_words(both) == ["drop against plain: better on each of the 2 tasks."]
    swapped = summary_of(records(), baseline="drop")
    assert [total["loss"] for total in swapped["totals"]] == [1]
    assert in_words(swapped)[0].startswith("plain against drop: worse on far;")


def test_of_errors_lower_is_better() -> None:
    found = [item | {"metric": "mse"} for item in records()]
    assert row(summary_of(found), "far", "drop")["verdict"] == "worse"
    assert summary_of(found)["totals"][0]["drops"] == 2


def test_all_null_is_said_in_so_many_words() -> None:
    found = [item for item in records() if item["task"] == "near"]
    found += [item | {"task": "far"} for item in found]
    assert in_words(summary_of(found)) == [
        "drop against plain: no difference beyond noise (one of up to 5.50 remains possible) on any of the 2 tasks."
    ]


def test_runs_that_came_out_the_same_promise_nothing() -> None:
    same = [item | {"value": 0.5} for item in records()]
    assert row(summary_of(same), "far", "drop")["p_holm"] == 1.0
    assert in_words(summary_of(same)) == ["drop against plain: no difference beyond noise on any of the 2 tasks."]


def test_one_seed_gives_no_p_and_says_so() -> None:
    summary = summary_of([item for item in records() if item["seed"] == 2])
    found = row(summary, "far", "drop")
    assert (found["std"], found["p"], found["p_holm"]) == (None, None, None)
    assert found["difference"] == pytest.approx(0.03)
    assert in_words(summary) == ["Fewer than 2 seeds: no difference can be told from noise."]
    partly = [item for item in records() if item["seed"] == 2 or item["task"] == "far"]
    assert in_words(summary_of(partly)) == ["drop against plain: better on far; too few seeds to test on near."]


def test_only_seeds_that_both_have_are_compared() -> None:
    found = [item for item in records() if (item["task"], item["variant"], item["seed"]) != ("far", "plain", 5)]
    compared = row(summary_of(found), "far", "drop")
    assert (compared["n_seeds"], compared["n_pairs"]) == (3, 2)
    assert compared["difference"] == pytest.approx((0.03 + 0.05) / 2)


def test_what_failed_or_was_not_run_is_no_result() -> None:
    failed = {"status": "failed", "error": "out of <memory> | really"}
    found = [record("near", "drop", item["seed"], 0.0) | failed if (item["task"], item["variant"]) == ("near", "drop")
             else item for item in records()]  # fmt: skip
    summary = summary_of(found)
    assert row(summary, "near", "drop")["verdict"] == "no result"
    assert "no result on near" in in_words(summary)[0]
    page = as_markdown(summary)
    assert "- near, drop, seed 2, and 2 more: out of &lt;memory> \\| really" in page


def test_a_further_evaluation_counts_as_a_variant() -> None:
    averaged = [item | {"evaluation": "dropout16", "eval_s": 7.0} for item in records() if item["variant"] == "drop"]
    summary = summary_of([*records(), *averaged], variants=["plain", "drop", "plain, dropout16", "drop, dropout16"])
    assert row(summary, "far", "drop, dropout16")["difference"] == pytest.approx(0.04)
    assert row(summary, "far", "drop, dropout16")["eval_s"] == 7.0
    assert row(summary, "far", "plain, dropout16")["verdict"] == "no result"


def test_cost_is_over_the_baselines() -> None:
    found = row(summary_of(records()), "far", "drop")
    assert (found["train_s"], found["tokens_per_s"]) == (16.0, 390.0)
    assert found["speedup"] == pytest.approx(20 / 16)
    assert found["token_ratio"] == pytest.approx(390 / 300)


def test_the_files(tmp_path: Path) -> None:
    write_summary(tmp_path, summary_of(records()))
    summary = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    assert [set(cell) & {"config", "value"} for cell in summary["cells"]] == [{"value"}] * 12
    with (tmp_path / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(line["task"], line["variant"]) for line in rows] == [
        ("far", "plain"), ("far", "drop"), ("near", "plain"), ("near", "drop")]  # fmt: skip
    assert float(rows[1]["mean"]) == pytest.approx(0.65)
    assert rows[0]["p"] == ""
    page = (tmp_path / "summary.md").read_text("utf-8")
    assert "| drop | 65.00 ± 1.73 (3) | 71.33 ± 1.15 (3) |" in page
    assert "| far | drop | +4.00 | +1.52 to +6.48 | 0.020 | 0.040 | better |" in page
    assert "| far | drop | 16.0 | 390 | 1.25x |" in page
    assert "![Score against drop rate](drop_rate.png)" in page
    assert "![Intervals of the differences](differences.png)" in page
    for name in ("drop_rate.png", "differences.png"):
        assert (tmp_path / name).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_differences_are_drawn_in_points_and_filled_where_they_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    monkeypatch.setattr(Axes, "errorbar", lambda axes, x, y, **style: drawn.append((x, style)))
    assert draw_differences(summary_of(records()), tmp_path / "differences.png")
    (far, style), (near, other) = drawn
    assert (far, near) == (pytest.approx(4.0), pytest.approx(1 / 3))
    assert [float(end) for (end,) in style["xerr"]] == pytest.approx([2.484, 2.484], abs=1e-3)
    assert (style["markerfacecolor"], other["markerfacecolor"]) == (style["color"], "white")
    one_seed = [item for item in records() if item["seed"] == 1]
    assert not draw_differences(summary_of(one_seed), tmp_path / "none.png")


def test_the_plot_shows_means_and_deviations_by_rate(tmp_path: Path) -> None:
    summary = summary_of(records())
    ((name, line),) = lines_of(summary, "far").items()
    assert name == ""
    assert [value for point in line for value in point] == pytest.approx(
        [0.0, 0.61, 0.01, 0.1, 0.65, 0.0173205], rel=1e-5
    )
    one_rate = [item | {"options": {"drop_rate": 0.1}} for item in records()]
    assert not draw_drop_rates(summary_of(one_rate), tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


def test_variants_that_differ_otherwise_are_lines_of_their_own() -> None:
    other = [
        item | {"variant": f"{item['variant']}-b", "options": {**item["options"], "model": "b"}} for item in records()
    ]
    found = [item | {"options": {**item["options"], "model": "a"}} for item in records()]
    lines = lines_of(summary_of([*found, *other], variants=["plain", "drop", "plain-b", "drop-b"]), "far")
    assert set(lines) == {"model=a", "model=b"}
