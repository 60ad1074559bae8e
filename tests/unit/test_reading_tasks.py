"""CMRC2018, ChID and C3: real files with their known sizes, and the rules of each format on small ones."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from maskwright.data.tasks.base import Answer, ChoiceExample
from maskwright.data.tasks.reading import find_answer
from maskwright.data.tasks.registry import load_task, tasks_on_disk
from maskwright.errors import InputError

SIZES = {
    "chid": {"train": 1806, "dev": 600},
    "c3": {"train": 11869, "dev": 3816, "test": 3892},
    "cmrc2018": {"dev": 3219, "trial": 1002},
}


def message(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def dump(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", SIZES)
def test_real_data_has_its_known_size(shared_data: Path, name: str):
    task = load_task(name, shared_data / "clue_mini")
    assert {split: len(examples) for split, examples in task.splits.items()} == SIZES[name]
    assert task.skipped == {}
    assert task.mended == ({"wrong answer offset": 8} if name == "cmrc2018" else {})
    for examples in task.splits.values():
        assert len({example.guid for example in examples}) == len(examples)
        assert all(example.label is not None for example in examples)


def test_real_answers_stand_where_they_are_said_to(shared_data: Path):
    for examples in load_task("cmrc2018", shared_data / "clue_mini").splits.values():
        for example in examples:
            answer = example.label
            assert isinstance(answer, Answer)
            assert answer.start is not None
            assert example.text[answer.start :].startswith(answer.text)
            assert answer.text in answer.accepted


def test_real_choices_are_ragged_and_their_labels_among_them(shared_data: Path):
    counts = {"chid": {7}, "c3": {2, 3, 4}}
    for name, expected in counts.items():
        examples = load_task(name, shared_data / "clue_mini", splits=["dev"]).splits["dev"]
        assert all(isinstance(example, ChoiceExample) for example in examples)
        assert {len(example.choices) for example in examples} == expected
        assert {example.label for example in examples} == set(range(max(expected)))
    c3 = load_task("c3", shared_data / "clue_mini", splits=["dev"]).splits["dev"]
    assert c3[0].choices[c3[0].label] == "工作"
    assert c3[-1].where.split("/")[-1].startswith("m-dev.json:")


def squad(*questions: dict, context: str = "去年3月下雨，今年3月下雪。") -> dict:
    return {"data": [{"paragraphs": [{"context": context, "qas": list(questions)}]}]}


def question(*answers: tuple[str, int], name: str = "Q1") -> dict:
    return {"id": name, "question": "何时？", "answers": [{"text": text, "answer_start": at} for text, at in answers]}


@pytest.mark.parametrize(
    ("answers", "start", "text", "n_mended"),
    [
        ([("3月", 2)], 2, "3月", 0),
        ([("3月", 9)], 9, "3月", 0),
        ([("3月", 8)], 9, "3月", 1),  # off by one: the nearest place
        ([("3月", -1)], 2, "3月", 1),
        ([("3月", 4), ("下雪", 11)], 2, "3月", 1),
        ([("4月", 2), ("下雪", 11)], 11, "下雪", 0),
    ],
)
def test_an_answer_is_found_at_its_offset_or_nearest_to_it(
    tmp_path: Path, answers: list, start: int, text: str, n_mended: int
):
    dump(tmp_path / "train.json", squad(question(*answers)))
    task = load_task("cmrc2018", tmp_path)
    (example,) = task.splits["train"]
    assert example.label == Answer(text, start, tuple(answer for answer, _ in answers))
    assert task.mended.total() == n_mended
    assert (example.text_pair, example.guid) == ("何时？", "Q1")


def test_a_question_without_its_answer_in_the_text_is_no_training_example_but_is_scored(tmp_path: Path):
    for split in ("train", "dev"):
        dump(tmp_path / f"{split}.json", squad(question(("4月", 2)), question(("3月", 2), name="Q2")))
    task = load_task("cmrc2018", tmp_path)
    assert [example.guid for example in task.splits["train"]] == ["Q2"]
    assert [example.label.start for example in task.splits["dev"]] == [None, 2]
    assert task.skipped == {"answer not in its text": 1}
    assert task.mended == {"answer not in its text, kept for scoring": 1}


@pytest.mark.parametrize("answers", [[], [("", -1)], [("FAKE_ANSWER_1", -1), ("FAKE_ANSWER_2", -1)]])
def test_the_published_test_has_no_answers(tmp_path: Path, answers: list):
    dump(tmp_path / "test.json", squad(question(*answers)))
    (example,) = load_task("cmrc2018", tmp_path).splits["test"]
    assert example.label is None


def test_an_answer_may_be_written_as_a_number(tmp_path: Path):
    entry = {"id": 7, "question": "几？", "answers": [{"text": 3, "answer_start": 2}]}
    dump(tmp_path / "train.json", squad(entry))
    (example,) = load_task("cmrc2018", tmp_path).splits["train"]
    assert (example.label, example.guid) == (Answer("3", 2, ("3",)), "7")


def test_overlapping_places_are_all_seen():
    assert find_answer("aaaa", "aaa", 1) == 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"data": [', "{}:1: malformed JSON: Expecting value at column 11"),
        ('{\n"data": ]', "{}:2: malformed JSON: Expecting value at column 9"),
        ("[]", "{}: one JSON dict is expected, the file holds a list"),
        ('{"data": "\\ud83d"}', "{}: an escape like \\ud83d is half a character, which is no text; remove it"),
        ("{}", "{}: no field 'data'; the fields are "),
        (json.dumps(squad({"question": "a"})), "{}: no field 'id'; the fields are question"),
        (json.dumps(squad({"id": "Q"})), "{}:Q: no field 'question'; the fields are id"),
        (json.dumps(squad(question())), "{}:Q1: no answer; only the split 'test' may lack answers"),
    ],
)
def test_malformed_paragraphs(tmp_path: Path, content: str, expected: str):
    file = tmp_path / "dev.json"
    file.write_text(content, encoding="utf-8")
    assert message(lambda: load_task("cmrc2018", tmp_path)) == expected.format(file)


def test_every_blank_is_an_example(tmp_path: Path):
    row = {"content": ["甲#idiom000001#乙#idiom000002#丙", "无"], "candidates": ["一", "二", "三"]}
    dump(tmp_path / "train.json", row)
    dump(tmp_path / "train_answer.json", {"#idiom000001#": 2, "#idiom000002#": 0})
    first, second = load_task("chid", tmp_path).splits["train"]
    assert (first.label, second.label) == (2, 0)
    assert (first.guid, second.guid) == ("#idiom000001#", "#idiom000002#")
    assert first.text[slice(*first.blank)] == "#idiom000001#"
    assert first.other_blanks == (second.blank,)
    assert first.choices == ("一", "二", "三")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (None, "{}: no dev_answer.json beside it; only the split 'test' may lack answers"),
        ({}, "{}:1: the answer to #idiom000001# is None, an index below 2 is expected"),
        ({"#idiom000001#": 2}, "{}:1: the answer to #idiom000001# is 2, an index below 2 is expected"),
    ],
)
def test_blanks_without_answers(tmp_path: Path, answers: dict | None, expected: str):
    file = dump(tmp_path / "dev.json", {"content": ["甲#idiom000001#"], "candidates": ["一", "二"]})
    if answers is not None:
        dump(tmp_path / "dev_answer.json", answers)
    assert message(lambda: load_task("chid", tmp_path)) == expected.format(file)
    file.rename(tmp_path / "test1.1.json")
    assert load_task("chid", tmp_path).splits["test"][0].label is None


def c3(*questions: dict, name: str = "1-1") -> list:
    return [["男：你好。", "女：再见。"], list(questions), name]


GOOD = {"question": "谁？", "choice": ["男", "女"], "answer": "女"}


def test_both_halves_make_a_split_and_half_of_one_is_none(tmp_path: Path):
    dump(tmp_path / "d-train.json", [c3(GOOD, {**GOOD, "answer": "男"})])
    assert message(lambda: load_task("c3", tmp_path)).startswith(
        f"{tmp_path}: no file of the task 'c3'; looked for d-train.json + m-train.json, "
    )
    dump(tmp_path / "m-train.json", [c3(GOOD, name="m2")])
    task = load_task("c3", tmp_path)
    assert [example.label for example in task.splits["train"]] == [1, 0, 1]
    assert [example.guid for example in task.splits["train"]] == ["d-train-1-1-0", "d-train-1-1-1", "m-train-m2-0"]
    assert task.splits["train"][0].text == "男：你好。\n女：再见。"
    assert task.files == {"train": ("d-train.json", "m-train.json")}


def test_the_official_test_has_ids_and_no_answers(tmp_path: Path):
    entry = {"question": "谁？", "choice": ["男", "女"], "id": 17}
    dump(tmp_path / "test1.0.json", [c3(entry)])
    dump(tmp_path / "test1.1.json", [c3({**entry, "id": 18})])
    task = load_task("c3", tmp_path)
    assert {split: examples[0].guid for split, examples in task.splits.items()} == {"test": "18", "test1.0": "17"}
    assert task.splits["test"][0].label is None


def test_unusable_questions_are_counted(tmp_path: Path):
    bad = [{**GOOD, "choice": ["女"]}, {**GOOD, "answer": "谁"}]
    dump(tmp_path / "d-dev.json", [c3(*bad, GOOD), [[" "], [GOOD], "x"]])
    dump(tmp_path / "m-dev.json", [])
    task = load_task("c3", tmp_path)
    assert len(task.splits["dev"]) == 1
    assert task.skipped == {"fewer than two choices": 1, "answer is no choice": 1, "empty text": 1}


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([["a"]], "{}:1: [[paragraphs], [questions], id] is expected"),
        ([c3(GOOD), c3("a")], "{}:2: a question is a str, a dict is expected"),
        ([c3({"question": "a"})], "{}:1: no field 'choice'; the fields are question"),
        ([c3({**GOOD, "answer": ""})], "{}:1: no answer; only the split 'test' may lack answers"),
    ],
)
def test_malformed_choices(tmp_path: Path, entries: list, expected: str):
    file = dump(tmp_path / "d-dev.json", entries)
    dump(tmp_path / "m-dev.json", [])
    assert message(lambda: load_task("c3", tmp_path)) == expected.format(file)


@pytest.mark.parametrize("prefix", ["", "chid_public/"])
def test_answers_are_found_inside_a_zip(tmp_path: Path, prefix: str):
    with zipfile.ZipFile(tmp_path / "chid_public.zip", "w") as archive:
        archive.writestr(f"{prefix}dev.json", '{"content": ["#idiom1#"], "candidates": ["a", "b"]}')
        archive.writestr(f"{prefix}dev_answer.json", '{"#idiom1#": 1}')
    assert [example.label for example in load_task("chid", tmp_path).splits["dev"]] == [1]


@pytest.mark.parametrize("name", ["cmrc2018", "chid", "c3"])
@pytest.mark.parametrize("member", ["../dev.json", "a/../../dev.json", "/etc/dev.json", "..\\dev.json", "C:\\dev.json"])
def test_a_zip_with_an_escaping_path_is_refused(tmp_path: Path, name: str, member: str):
    path = tmp_path / f"{name}_public.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("dev.json", "{}")
        archive.writestr(member, "{}")
    assert "points outside the archive; refused" in message(lambda: load_task(name, tmp_path))


def test_what_is_on_disk_is_counted_and_what_is_broken_is_named(tmp_path: Path):
    (tmp_path / "cmrc2018").mkdir()
    dump(tmp_path / "cmrc2018" / "dev.json", squad(question(("3月", 8))))
    (tmp_path / "tnews_public").mkdir()
    (tmp_path / "tnews_public" / "dev.json").write_text("{", encoding="utf-8")
    found = tasks_on_disk(tmp_path)
    assert list(found) == ["tnews", "cmrc2018"]
    assert found["cmrc2018"].n_examples == {"dev": 1}
    assert found["cmrc2018"].mended == {"wrong answer offset": 1}
    assert str(found["tnews"].error).startswith(f"{tmp_path / 'tnews_public' / 'dev.json'}:1: malformed JSON")
    assert list(tasks_on_disk(tmp_path / "cmrc2018")) == ["cmrc2018"]
    assert tasks_on_disk(tmp_path / "tnews_public").keys() == {"tnews"}
