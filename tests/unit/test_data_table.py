"""The user's own tables: kinds of problem, vocabularies, pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maskwright.data.table import load_table


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def labelled(path: Path, *labels: Any) -> Path:
    return write(path, [{"text": f"text {i}", "label": label} for i, label in enumerate(labels)])


@pytest.mark.parametrize(
    ("labels", "problem", "vocabulary", "coded"),
    [
        (["b", "a", "b"], "single_label_classification", ("a", "b"), [1, 0, 1]),
        ([10, 9, 10], "single_label_classification", ("9", "10"), [1, 0, 1]),
        ([True, False], "single_label_classification", ("false", "true"), [1, 0]),
        (["10", "2", "x"], "single_label_classification", ("2", "10", "x"), [1, 0, 2]),
        ([0.5, 2, -1.0], "regression", (), [0.5, 2.0, -1.0]),
        ([["b", "a"], [], ["b", "b"]], "multi_label_classification", ("a", "b"), [(0, 1), (), (1,)]),
    ],
)
def test_the_problem_is_told_by_the_labels(tmp_path: Path, labels: list, problem: str, vocabulary: tuple, coded: list):
    task = load_table(labelled(tmp_path / "mine.jsonl", *labels))
    assert (task.name, task.problem, task.labels) == ("mine", problem, vocabulary)
    assert [example.label for example in task.splits["train"]] == coded
    assert task.n_labels == (len(vocabulary) or 1)


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        (["0.5", "1"], "regression"),
        (["1.0", "2.0"], "regression"),
        (["1e-3", "2"], "regression"),
        (["1", "2"], "single_label_classification"),
        (["0.5", "high"], "single_label_classification"),
        (["a|b", "b"], "single_label_classification"),
    ],
)
def test_the_problem_is_told_by_csv_cells(tmp_path: Path, cells: list[str], problem: str):
    file = tmp_path / "a.csv"
    file.write_text("text,label\n" + "".join(f"t,{cell}\n" for cell in cells), encoding="utf-8")
    assert load_table(file).problem == problem


def test_the_problem_may_be_given(tmp_path: Path):
    file = labelled(tmp_path / "a.jsonl", 1, 3)
    assert [e.label for e in load_table(file, problem="regression").splits["train"]] == [1.0, 3.0]
    file = labelled(tmp_path / "b.jsonl", 1.0, 3.0)
    assert load_table(file, problem="single_label_classification").labels == ("1", "3")


def test_columns_pairs_and_ids(tmp_path: Path):
    row = {"id": 7, "q": "question", "a": "answer", "gold": "yes"}
    task = load_table(write(tmp_path / "a.jsonl", [row]), "q", "a", "gold")
    (example,) = task.splits["train"]
    assert (example.text, example.text_pair, example.label, example.guid) == ("question", "answer", 0, "7")
    assert example.where == f"{tmp_path / 'a.jsonl'}:1"


def test_the_vocabulary_comes_from_train(tmp_path: Path):
    files = {
        "dev": labelled(tmp_path / "dev.jsonl", "b"),
        "train": labelled(tmp_path / "train.jsonl", "c", "b", "a"),
        "test": labelled(tmp_path / "test.jsonl", None, "a"),
        "predict": write(tmp_path / "predict.jsonl", [{"text": "x"}]),
    }
    task = load_table(files)
    assert task.labels == ("a", "b", "c")
    labels = {split: [example.label for example in examples] for split, examples in task.splits.items()}
    assert labels == {"dev": [1], "train": [2, 1, 0], "test": [None, 0], "predict": [None]}


def test_the_vocabulary_may_be_given(tmp_path: Path):
    task = load_table(labelled(tmp_path / "a.jsonl", "b"), labels=["z", "b"])
    assert task.labels == ("z", "b")
    assert task.splits["train"][0].label == 1


def test_parquet_lists_are_multi_label(tmp_path: Path):
    rows = [{"text": "a", "label": ["x", "y"]}, {"text": "b", "label": ["y"]}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    task = load_table(tmp_path / "a.parquet")
    assert [example.label for example in task.splits["train"]] == [(0, 1), (1,)]
