"""A sweep's options: what its cells are, and what is refused before anything is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from maskwright.cli.main import main
from maskwright.cli.options import read_config
from maskwright.cli.sweep import build_parser
from maskwright.errors import InputError
from maskwright.training.config import FinetuneConfig
from maskwright.training.sweep.config import SweepConfig, study
from maskwright.training.sweep.plan import differences, material, plan


def sweep(**changes: Any) -> SweepConfig:
    options: dict[str, Any] = {
        "base": {"model": "m", "data": "CLUE", "learning_rate": 1e-4, "max_length": 64},
        "tasks": {"tnews": None, "mine": {"train_file": "t.csv", "max_length": 32}},
        "variants": {"plain": None, "drop": {"drop_rate": 0.1, "max_length": 16}},
    }
    return SweepConfig(**{**options, **changes})


def read(*words: str) -> SweepConfig:
    return read_config(SweepConfig, build_parser().parse_args(list(words)))


def test_every_task_meets_every_variant_with_every_seed_seeds_outermost() -> None:
    names = [cell.name for cell in plan(sweep(seeds=[7, 11]))]
    first = ["tnews-plain-7", "tnews-drop-7", "mine-plain-7", "mine-drop-7"]
    assert names == [*first, *(name.replace("-7", "-11") for name in first)]


def test_later_options_win() -> None:
    cells = {cell.name: cell for cell in plan(sweep(seeds=[7]))}
    assert {name: cell.config.max_length for name, cell in cells.items()} == {
        "tnews-plain-7": 64,
        "tnews-drop-7": 16,
        "mine-plain-7": 32,
        "mine-drop-7": 16,
    }
    assert cells["tnews-plain-7"].config.task == "tnews"
    assert cells["mine-plain-7"].config.task is None
    assert all(cell.config.learning_rate == 1e-4 and cell.config.seed == 7 for cell in cells.values())


def test_a_cell_tells_its_value_of_whatever_tells_variants_apart() -> None:
    cells = {cell.name: cell for cell in plan(sweep(seeds=[7]))}
    assert cells["tnews-plain-7"].options == {"drop_rate": 0.0, "max_length": 64}
    assert cells["mine-drop-7"].options == {"drop_rate": 0.1, "max_length": 16, "train_file": "t.csv"}


def test_values_are_brought_to_their_types_as_on_the_command_line() -> None:
    (cell, *_) = plan(sweep(base={"model": "m", "data": "d", "learning_rate": "3e-5", "num_train_epochs": 2}))
    assert cell.config.learning_rate == 3e-5
    assert isinstance(cell.config.num_train_epochs, float)


def test_a_no_that_yaml_reads_as_false_is_a_no(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        "base: {model: m, data: d, save_strategy: no, packed: no}\ntasks: {csl: }\nvariants: {a: }\n", "utf-8"
    )
    (cell, *_) = plan(read(str(file)))
    assert cell.config.save_strategy == "no"
    assert cell.config.packed is False


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": {}}, "tasks: there are none"),
        ({"variants": {}}, "variants: there are none"),
        ({"base": {"lerning_rate": 1}}, "base: unknown 'lerning_rate'; did you mean 'learning_rate'?"),
        ({"variants": {"a": {"drop_rat": 1}}}, "variants.a: unknown 'drop_rat'; did you mean 'drop_rate'?"),
        ({"base": {"seed": 1}}, "base: the sweep sets seed by itself"),
        ({"tasks": {"t": {"output_dir": "x"}}}, "tasks.t: the sweep sets output_dir by itself"),
        ({"tasks": {"a/b": {}}}, "tasks: 'a/b' becomes a folder's name"),
        ({"variants": {"..": {}}}, "variants: '..' becomes a folder's name"),
        ({"variants": {"Drop": {}, "drop": {}}}, "'Drop' and 'drop' are one folder on some systems"),
        ({"baseline": "plan"}, "baseline: unknown 'plan'; did you mean 'plain'?"),
        ({"metrics": {"tnew": "f1"}}, "metrics: unknown 'tnew'; did you mean 'tnews'?"),
        ({"seeds": []}, "seeds: must be one or more different numbers"),
        ({"seeds": [1, 2, 1]}, "seeds: must be one or more different numbers"),
        ({"processes": 0}, "processes: must be 1 or more"),
        ({"evaluations": {"e": {"sample": 3}}}, "evaluations.e: unknown 'sample'; did you mean 'samples'?"),
        ({"evaluations": {"e": {"samples": 1}}}, "evaluations.e: samples: must be a whole number from 2, got 1"),
        ({"evaluations": {"e": {"noise": "hiss"}}}, "noise: must be dropout or droptoken, got 'hiss'"),
    ],
)
def test_a_config_that_cannot_be_used(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        sweep(**changes)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"variants": {"a": {"drop_rate": 1.0}}}, "task tnews, variant a: drop_rate: must be in [0, 1)"),
        ({"base": {"data": "d"}}, "task tnews, variant plain: model: name either a model"),
        ({"variants": {"a": {"max_length": "long"}}}, "task tnews, variant a: Parser key"),
        (
            {"tasks": {"csl": {}, "csl-a": {"task": "csl"}}, "variants": {"a-b": {}, "b": {}}},
            "variants: two cells would be called csl-a-b-1",
        ),
    ],
)
def test_cells_that_cannot_be_run(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        plan(sweep(**changes))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_changes_are_found_and_immaterial_ones_are_not() -> None:
    options = material(FinetuneConfig(model="m", train_file="t", logging_steps=7))
    assert "logging_steps" not in options
    assert differences(options, {**options, "learning_rate": 1.0}) == ["learning_rate: 3e-05 -> 1.0"]
    assert differences(options, {**options, "logging_steps": 11, "report_to": []}) == []
    # A record of an earlier version lacks an option that is new since; nothing has changed.
    older = {name: value for name, value in options.items() if name != "label_smoothing_factor"}
    assert differences(older, options) == []
    assert differences(older, {**options, "label_smoothing_factor": 0.5}) == ["label_smoothing_factor: 0.0 -> 0.5"]


SHIPPED = ("averaging", "correction", "droptoken")


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_study_is_a_plan(name: str) -> None:
    config = read(name, "--data", "CLUE", "--model", "m")
    cells = plan(config)
    assert len(cells) == 6 * len(config.variants) * 5
    assert {cell.config.model for cell in cells} == {"m"}
    assert {cell.config.data for cell in cells} == {"CLUE"}


def test_the_shipped_studies_are_those_of_the_issue() -> None:
    assert {path.stem for path in study("droptoken").parent.iterdir()} == set(SHIPPED)
    rates = [options["drop_rate"] for options in read("droptoken").variants.values() if options]
    assert rates == [0, 0.05, 0.1, 0.15, 0.3, 0.5]
    cells = plan(read("correction", "--model", "m", "--data", "d"))
    corrected = {cell.variant: cell.config.correct_embeddings for cell in cells}
    assert corrected == {"plain": False, "corrected": True}
    kinds = [read("averaging").evaluation(name).noise for name in read("averaging").evaluations]
    assert kinds == ["dropout", "droptoken"]


def test_a_file_and_dotted_overrides(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    options: dict[str, Any] = {"base": {"model": "m", "bf16": True}, "tasks": {"tnews": {"data": "d"}, "csl": None}}
    options["variants"] = {"plain": None, "drop0.1": {"drop_rate": 0.1}}
    file.write_text(yaml.safe_dump(options, sort_keys=False), encoding="utf-8")
    config = read(
        *(str(file), "--base.learning_rate", "1e-4", "--tasks.tnews.limit_train", "200", "--seeds", "7", "11"),
        *("--variants.drop0.1.drop_rate=0.2", "--tasks.csl.max_length", "16"),
    )
    assert config.base == {"model": "m", "bf16": True, "learning_rate": 1e-4}
    assert config.tasks == {"tnews": {"data": "d", "limit_train": 200}, "csl": {"max_length": 16}}
    assert config.variants == {"plain": {}, "drop0.1": {"drop_rate": 0.2}}
    assert (config.seeds, config.baseline) == ([7, 11], "plain")


def test_print_config_shows_nested_overrides_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        read("droptoken", "--tasks.tnews.limit_train", "200", "--print_config")
    file = tmp_path / "again.yaml"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    assert read(str(file)).tasks["tnews"] == {"limit_train": 200}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["droptok"], "droptok: neither a file nor one of the studies averaging, correction, droptoken"),
        (["droptoken", "--tasks.tnew.x", "1"], "--tasks.tnew: there is no 'tnew', only iflytek"),
        (["droptoken", "--tasks.tnews.x"], "--tasks.tnews.x: a value is missing"),
        (["droptoken", "--model", "m"], "data: task 'iflytek' needs its folder or zip"),
        (["droptoken", "--model", "m", "--data", "d", "--summary"], "holds no cell of a sweep; run it first"),
    ],
)
def test_bad_use_is_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *words]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
