"""What the report reads out of records, and says of those that are partial, broken or none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import made_records
from maskwright.errors import InputError
from maskwright.report.blocks import Card, Chart, Point, Section, Table
from maskwright.report.kinds.registry import KINDS, kind_of
from maskwright.report.kinds.runs import read_run
from maskwright.report.page import find_records, write_report
from maskwright.report.records import Source


def section(*folders: Path) -> Section:
    """The one section of a report of folders of one kind."""
    ((kind, sources),) = find_records(folders).items()
    return kind.section(sources)


def chart(section: Section, title: str) -> Chart:
    blocks = [block for part in section.parts for block in part.blocks]
    (found,) = [block for block in blocks if isinstance(block, Chart) and block.title == title]
    return found


def table(section: Section, title: str) -> Table:
    blocks = [block for part in section.parts for block in part.blocks]
    (found,) = [block for block in blocks if isinstance(block, Table) and block.title == title]
    return found


def test_each_kind_is_recognised_as_itself(tmp_path: Path) -> None:
    made = {
        "sweep": made_records.sweep(tmp_path / "a"),
        "gap measurement": made_records.gap(tmp_path / "b"),
        "audit": made_records.audit(tmp_path / "e"),
        "pretraining run": made_records.pretraining(tmp_path / "c"),
        "fine-tuning run": made_records.finetuning(tmp_path / "d"),
    }
    assert set(made) == {kind.name for kind in KINDS}
    for name, folder in made.items():
        kind = kind_of(folder)
        assert kind is not None
        assert kind.name == name


def test_a_pretraining_run_that_has_just_begun_is_one(tmp_path: Path) -> None:
    made_records.pretraining(tmp_path / "run")
    for name in ("results.json", "metrics.jsonl"):
        (tmp_path / "run" / name).unlink()
    found = section(tmp_path / "run")
    assert found.title == "Pretraining"
    assert table(found, "Runs").rows[0][:2] == ["run", "nothing logged"]
    assert [note.split(" is ")[0] for note in found.notes] == ["run: metrics.jsonl", "run: results.json"]


def test_scores_against_drop_rate_are_means_with_standard_deviations(tmp_path: Path) -> None:
    values = {0.0: [0.5], 0.25: [0.3, 0.7, 0.6]}
    folders = [
        made_records.finetuning(tmp_path / f"{rate}-{i}", drop_rate=rate, seed=i, accuracy=value)
        for rate, of_rate in values.items()
        for i, value in enumerate(of_rate)
    ]
    (one,) = chart(section(*folders), "dev accuracy against drop rate").series
    mean, std = np.mean(values[0.25]), np.std(values[0.25], ddof=1)
    assert one.points[0] == Point(0.0, 0.5)
    assert one.points[1] == pytest.approx((0.25, mean, mean - std, mean + std))


def test_speed_against_score_has_one_point_a_run(tmp_path: Path) -> None:
    folders = [made_records.finetuning(tmp_path / name, drop_rate=r) for name, r in (("a", 0.0), ("b", 0.5))]
    found = chart(section(*folders), "Speed against dev accuracy")
    assert [(one.name, *one.points) for one in found.series] == [("a", Point(1000, 0.5)), ("b", Point(1500, 0.5))]
    assert not found.joined


def test_runs_on_different_tasks_are_not_compared(tmp_path: Path) -> None:
    folders = [made_records.finetuning(tmp_path / name, drop_rate=r) for name, r in (("a", 0.0), ("b", 0.5))]
    config = folders[1] / "config.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("tnews", "csl"), encoding="utf-8")
    titles = [block.title for part in section(*folders).parts for block in part.blocks if isinstance(block, Chart)]
    assert not [title for title in titles if "against" in title]


def test_reliability_leaves_out_empty_bins(tmp_path: Path) -> None:
    found = section(made_records.finetuning(tmp_path / "a"))
    (one,) = chart(found, "Reliability on dev").series
    assert one.points == [Point(0.4, 0.25), Point(0.9, 0.8)]
    assert table(found, "Reliability bins").rows[1][-3:] == [17, 0.9, 0.8]
    assert table(found, "Calibration").rows == [["a", "dev", 0.11, 0.23, 1.31]]


def test_pretraining_time_adds_up_tokens_over_speed(tmp_path: Path) -> None:
    found = section(made_records.pretraining(tmp_path / "a"))
    (one,) = chart(found, "Held-out masked loss against time").series
    seconds = [2000 / 50, 2000 / 50 + 2000 / 100, 2000 / 50 + 2000 / 100 + 2000 / 200]
    assert [point.x * 60 for point in one.points] == pytest.approx(seconds)
    (one,) = chart(found, "Held-out masked loss against tokens").series
    assert [point.x * 1e6 for point in one.points] == pytest.approx([2000, 4000, 6000])


def test_a_run_that_does_not_know_its_tokens_is_not_placed_in_time(tmp_path: Path) -> None:
    folder = made_records.pretraining(tmp_path / "a")
    (folder / "results.json").unlink()
    titles = [block.title for part in section(folder).parts for block in part.blocks if isinstance(block, Chart)]
    assert "Held-out masked loss" in titles
    assert not [title for title in titles if "against" in title]


def test_a_pretraining_stands_beside_guessing_by_frequency(tmp_path: Path) -> None:
    found = section(made_records.pretraining(tmp_path / "a"))
    assert "held-out masked loss 5.5 nats a token (guessing by frequency: 6.75)" in " ".join(found.summary)
    results = table(found, "Runs")
    assert results.rows[0][results.columns.index("guessing by frequency")] == 6.75


def test_a_sweep_is_drawn_against_its_drop_rates_and_said_in_words(tmp_path: Path) -> None:
    found = section(made_records.sweep(tmp_path / "sweep"))
    (one,) = chart(found, "tnews: accuracy against drop rate").series
    assert [point[:2] for point in one.points] == [(0.0, 0.5), (0.1, 0.53), (0.5, 0.47)]
    assert one.points[1][2:] == pytest.approx((0.52, 0.54))
    assert found.summary == [
        "2 tasks, 3 variants, 3 seeds: 18 cells, 1 of them failed.",
        "tenth against plain: no difference beyond noise on 2 tasks.",
        "half against plain: worse on 1 task, no difference beyond noise on 1 task.",
    ]
    assert table(found, "Failed cells").rows == [
        ["csl", "half", 2, f"csl.json:7: unknown label '{made_records.HOSTILE}'"]
    ]


def test_a_sweep_without_drop_rates_is_drawn_by_variant(tmp_path: Path) -> None:
    path = made_records.sweep(tmp_path / "sweep") / "summary.json"
    summary = json.loads(path.read_text(encoding="utf-8"))
    for cell in summary["cells"]:
        cell["options"] = {}
    path.write_text(json.dumps(summary), encoding="utf-8")
    found = chart(section(path.parent), "csl: accuracy by variant")
    assert list(found.categories) == ["plain", "tenth", "half"]
    assert [point.x for point in found.series[0].points] == [0.8, 0.81, 0.8]


def test_a_sweep_that_is_going_on_shows_its_cells(tmp_path: Path) -> None:
    folder = made_records.sweep(tmp_path / "sweep")
    cells = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["cells"]
    (folder / "summary.json").unlink()
    (folder / "cells").mkdir()
    for i, cell in enumerate(cells[:5]):
        (folder / "cells" / f"{i}.json").write_text(json.dumps(cell), encoding="utf-8")
    found = section(folder)
    assert len(table(found, "All cells").rows) == 5
    assert "summary.json is missing" in found.notes[0]


def test_the_gap_is_drawn_by_layer_and_by_rate(tmp_path: Path) -> None:
    found = section(made_records.gap(tmp_path / "gap"))
    lines = {one.name: [point.y for point in one.points] for one in chart(found, "mlm: distance by layer").series}
    assert lines["corrected, rate 0.5"] == pytest.approx([0.6, 0.61])
    assert len(lines) == 4
    lines = {one.name: one.points for one in chart(found, "mlm: distance of the mean over tokens").series}
    assert lines["plain"][0] == pytest.approx((0.15, 0.17, 0.12, 0.22))


def test_an_audit_names_what_failed_and_what_was_allowed(tmp_path: Path) -> None:
    found = section(made_records.audit(tmp_path / "audit"))
    assert found.summary == ["first: 3 checks, none failed.", "second: 4 checks, failed are padding-side."]
    verdicts = [
        ["padding-side", "pass", "fail"],
        ["packing", "architectural", None],
        ["holes", "architectural", "allowed"],
    ]
    assert table(found, "Verdicts by rule").rows == verdicts
    failed, worse = table(found, "Failed checks").rows
    assert failed[:5] == ["second", "padding-side", "left against right", "fail", "high"]
    assert worse[5] == "infinite"
    properties = table(found, "Properties of the design")
    (row,) = properties.rows
    assert dict(zip(properties.columns, row, strict=True)) == {
        "model": "first",
        "what is so by design": "a convolution",
        "first seen in": "conv",
        "reach (tokens)": 3,
        "rules that show it": "packing, holes",
    }
    assert len(table(found, "All checks").rows) == 7


def test_a_card_says_where_why_and_what_to_do_about_the_worst_check_of_a_rule(tmp_path: Path) -> None:
    found = section(made_records.audit(tmp_path / "audit"))
    (card,) = found.parts[1].blocks
    assert isinstance(card, Card)
    assert card.title == "second: padding-side"
    facts = dict(card.facts)
    assert facts["check"] == "left against none"
    assert (facts["module"], facts["cause"], facts["what to do"]) == ("embeddings", "slots-counted", "pass positions")
    assert facts["also"] == "1 other check of this rule failed"
    assert "reach (tokens)" not in facts
    assert card.code.startswith("import torch\n")


@pytest.mark.parametrize(
    ("file", "content", "note"),
    [
        ("metrics.jsonl", '{"step": 1, "loss": 2.0}\n{"step": 2, "lo', "ends amid line 2"),
        (
            "metrics.jsonl",
            '{"step": 1}\nnoise\n[1]\n{"step": 2}\n',
            "2 of 4 lines cannot be read and are left out (line 2, 3)",
        ),
        ("metrics.jsonl", '{"step": 5, "loss": NaN}\n', "loss is not a finite number at step 5"),
        ("results.json", '{"metrics": {"dev_acc', "results.json cannot be read"),
        ("results.json", "[1, 2]", "results.json cannot be read"),
        ("config.yaml", "task: [unclosed", "config.yaml cannot be read"),
        ("environment.json", "\x00\xff", "environment.json cannot be read"),
    ],
)
def test_a_broken_file_is_named_and_the_rest_is_shown(tmp_path: Path, file: str, content: str, note: str) -> None:
    folder = made_records.finetuning(tmp_path / "run")
    (folder / file).write_text(content, encoding="latin-1")
    report = write_report([folder], tmp_path / "page.html")
    assert [said for said in report.notes if note in said]
    assert "Runs" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("value", [None, [], "text", 3, {"a": [1]}, [{"a": 1}, 5], {"dev": {"bins": [3]}}])
def test_records_of_other_shapes_never_stop_a_page(tmp_path: Path, value: object) -> None:
    run, sweep, gap, audit = folders = [tmp_path / name for name in ("run", "sweep", "gap", "audit")]
    for folder in folders:
        folder.mkdir()
    (audit / "audit.json").write_text(json.dumps([value, {"subject": value, "findings": value}]), encoding="utf-8")
    names = ("metrics", "calibration", "n_examples", "n_tokens", "tokens_per_s", "train_s", "skipped", "n_steps")
    (run / "results.json").write_text(json.dumps(dict.fromkeys(names, value)), encoding="utf-8")
    (run / "metrics.jsonl").write_text(json.dumps({"step": value, "loss": value, "eval_x": value}), encoding="utf-8")
    names = ("rows", "cells", "totals", "baseline", "tasks")
    (sweep / "summary.json").write_text(json.dumps(dict.fromkeys(names, value)), encoding="utf-8")
    (gap / "gap.json").write_text(json.dumps({"rows": value, "model": value, "summary": value}), encoding="utf-8")
    report = write_report(folders, tmp_path / "page.html")
    assert sum(report.records.values()) == 4


def test_a_folder_of_records_stands_for_them_all(tmp_path: Path) -> None:
    made_records.finetuning(tmp_path / "runs" / "a")
    made_records.finetuning(tmp_path / "runs" / "b")
    (tmp_path / "runs" / "tokenizer").mkdir()
    (sources,) = find_records([tmp_path / "runs", tmp_path / "runs" / "a"]).values()
    assert [source.name for source in sources] == ["a", "b"]


def test_equal_names_are_told_apart_by_the_folders_above(tmp_path: Path) -> None:
    folders = [made_records.finetuning(tmp_path / above / "run") for above in ("x", "y")]
    (sources,) = find_records(folders).values()
    assert [source.name for source in sources] == ["x/run", "y/run"]


def test_a_folder_without_records_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"looked for summary\.json .*gap\.json .*results\.json") as error:
        write_report([tmp_path], tmp_path / "page.html")
    assert error.value.where == str(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        write_report([tmp_path / "nowhere"])
    with pytest.raises(InputError, match="name one or more"):
        write_report([])


def test_a_page_that_cannot_be_written_is_an_error_of_one_line(tmp_path: Path) -> None:
    folder = made_records.gap(tmp_path / "gap")
    with pytest.raises(InputError, match=r"cannot be written: Is a directory; name a file"):
        write_report([folder], tmp_path)


def test_an_unreadable_run_is_still_a_run(tmp_path: Path) -> None:
    run = read_run(Source("gone", tmp_path))
    assert (run.state, run.last_step) == ("nothing logged", 0)
    assert len(run.reader.notes) == 3
