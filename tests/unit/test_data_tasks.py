"""Known tasks: real files with their known sizes, and the rules of each format on small ones."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from maskwright.data.tasks.coreference import marked_spans
from maskwright.data.tasks.registry import TASKS, describe_tasks, load_task

SIZES = {
    "clue_mini": {
        "tnews": {"train": 9259, "dev": 1986, "test": 1993},
        "iflytek": {"train": 4384, "dev": 1966, "test": 1707},
        "afqmc": {"train": 10000, "dev": 2000, "test": 2000},
        "ocnli": {"train": 10000 - 15, "dev": 3000 - 50, "test": 3000},
        "cluewsc2020": {"train": 996, "dev": 249, "test": 290},
        "csl": {"train": 2520, "dev": 615, "test": 500},
        "eprstmt": {"train": 160, "dev": 160, "test": 610},
        "bustm": {"train": 160, "dev": 160, "test": 1772},
        "chnsenticorp": {"train": 9600, "dev": 1200, "test": 1200},
    },
    "english": {
        "sst2": {"train": 6920, "dev": 872, "test": 1821},
        "trec": {"train": 5452, "test": 500},
        "cola": {"train": 8551, "dev": 527, "test": 516},
        "mrpc": {"train": 4076, "test": 1725},
    },
}
UNLABELLED = {"ocnli", "cluewsc2020", "csl"}


@pytest.mark.parametrize(("folder", "name"), [(folder, name) for folder, tasks in SIZES.items() for name in tasks])
def test_real_data_has_its_known_size(shared_data: Path, folder: str, name: str):
    task = load_task(name, shared_data / folder)
    assert {split: len(examples) for split, examples in task.splits.items()} == SIZES[folder][name]
    assert task.skipped == ({"label '-'": 65} if name == "ocnli" else {})
    for split, examples in task.splits.items():
        assert all(example.text.strip() for example in examples)
        if split == "test" and name in UNLABELLED:
            assert {example.label for example in examples} == {None}
            assert len({example.guid for example in examples}) == len(examples)
        else:
            assert {example.label for example in examples} <= set(range(task.n_labels))
    assert {example.label for example in task.splits["train"]} == set(range(task.n_labels))
    pairs = {"afqmc", "ocnli", "csl", "bustm", "mrpc"}
    assert {e.text_pair is not None for examples in task.splits.values() for e in examples} == {name in pairs}


def test_real_labels_carry_their_names(shared_data: Path):
    tnews = load_task("tnews", shared_data / "clue_mini" / "tnews", splits=["dev"])
    assert tnews.labels[5] == "106"
    assert tnews.label_names["116"] == "news_game"
    first = tnews.splits["dev"][0]
    assert (tnews.labels[first.label], first.text[:4]) == ("116", "王者荣耀")
    iflytek = load_task("iflytek", shared_data / "clue_mini", splits=["dev"])
    assert set(iflytek.label_names) == set(iflytek.labels)
    assert iflytek.labels[9:11] == ("9", "10")


def test_real_quotes_and_accents_are_kept(shared_data: Path):
    mrpc = load_task("mrpc", shared_data / "english", splits=["train"]).splits["train"][0]
    assert mrpc.text == (
        'Amrozi accused his brother, whom he called "the witness", of deliberately distorting his evidence.'
    )
    assert mrpc.label == 1
    trec = load_task("trec", shared_data / "english", splits=["train"]).splits["train"]
    assert any("sisterðcity" in example.text for example in trec)


def write(path: Path, *rows: dict) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


PAIR = {"sentence1": "a", "sentence2": "b"}


@pytest.mark.parametrize("place", [".", "cmnli", "cmnli_public"])
def test_the_folder_may_be_given_or_the_one_that_holds_it(tmp_path: Path, place: str):
    file = write(tmp_path / place / "dev.json", {**PAIR, "label": "neutral"})
    (example,) = load_task("cmnli", tmp_path).splits["dev"]
    assert example.where == f"{file}:1"
    assert load_task("cmnli", file.parent).splits["dev"] == [example]


@pytest.mark.parametrize("prefix", ["", "cmnli_public/"])
def test_a_zip_may_be_given_or_the_folder_that_holds_it(tmp_path: Path, prefix: str):
    path = tmp_path / "cmnli_public.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{prefix}train.json", json.dumps({**PAIR, "label": "-"}))
        archive.writestr(f"{prefix}dev.json", json.dumps({**PAIR, "label": "entailment"}))
    for given in (path, tmp_path):
        task = load_task("cmnli", given)
        assert task.skipped == Counter({"label '-'": 1})
        assert task.splits["train"] == []
        assert task.splits["dev"][0].where == f"{path}!{prefix}dev.json:1"


def test_the_largest_training_set_and_the_labelled_test_are_chosen(tmp_path: Path):
    for size in ("3k", "10k", "50k"):
        write(tmp_path / f"train.{size}.json", {**PAIR, "sentence1": size, "label": "neutral"})
    write(tmp_path / "test.json", {**PAIR, "id": 3})
    task = load_task("ocnli", tmp_path)
    assert task.splits["train"][0].text == "50k"
    assert (task.splits["test"][0].label, task.splits["test"][0].guid) == (None, "3")
    write(tmp_path / "test_labeled.json", {**PAIR, "label": "neutral"})
    assert load_task("ocnli", tmp_path).splits["test"][0].label == 1


def test_an_empty_text_in_official_data_is_counted(tmp_path: Path):
    write(tmp_path / "train.json", {**PAIR, "label": "0"}, {**PAIR, "sentence2": " ", "label": "0"})
    task = load_task("afqmc", tmp_path)
    assert len(task.splits["train"]) == 1
    assert task.skipped == {"empty text": 1}


def test_the_limit_draws_the_same_examples_in_file_order(tmp_path: Path):
    write(tmp_path / "train.json", *({**PAIR, "sentence1": str(i), "label": str(i // 500)} for i in range(1000)))
    drawn = load_task("afqmc", tmp_path, limit=40).splits["train"]
    assert drawn == load_task("afqmc", tmp_path, limit=40).splits["train"]
    assert [int(e.text) for e in drawn] == sorted({int(e.text) for e in drawn})
    assert len(drawn) == 40
    assert {example.label for example in drawn} == {0, 1}
    assert len(load_task("afqmc", tmp_path, limit=2000).splits["train"]) == 1000


def span_row(text: str, first: tuple[str, int], second: tuple[str, int]) -> dict:
    target = {"span1_text": first[0], "span1_index": first[1], "span2_text": second[0], "span2_index": second[1]}
    return {"text": text, "target": target}


@pytest.mark.parametrize(
    ("text", "first", "second", "marked"),
    [
        ("abcdef", ("bc", 1), ("e", 4), "a_bc_d[e]f"),
        ("abcdef", ("e", 4), ("bc", 1), "a[bc]d_e_f"),
        ("abcdef", ("ab", 0), ("cd", 2), "_ab_[cd]ef"),
        ("abcdef", ("def", 3), ("c", 2), "ab[c]_def_"),
        ("abcdef", ("bcde", 1), ("c", 2), "a_b[c]de_f"),
    ],
)
def test_spans_are_marked_wherever_they_stand(text: str, first: tuple, second: tuple, marked: str):
    assert marked_spans(span_row(text, first, second), "a:1") == (marked, None)


def test_real_spans_are_marked(shared_data: Path):
    texts = [example.text for example in load_task("cluewsc2020", shared_data / "clue_mini").splits["train"]]
    assert texts[0] == "为什么要出现一个身穿军装的高大男人？就像一片_树叶_飘入了树林，[他]走到了我的家人中间。"


def test_a_span_that_is_not_at_its_index_is_counted(tmp_path: Path):
    rows = [span_row("abc", ("a", 0), ("b", start)) for start in (2, -2, 1)]
    write(tmp_path / "train.json", *({**row, "label": "true"} for row in rows))
    task = load_task("cluewsc2020", tmp_path)
    assert [example.text for example in task.splits["train"]] == ["_a_[b]c"]
    assert task.skipped == {"span not at its index": 2}


def test_every_task_is_described():
    described = {task["name"]: task for task in describe_tasks()}
    assert list(described) == list(TASKS)
    assert described["tnews"]["n_labels"] == 15
    assert json.loads(json.dumps(described)) == described
