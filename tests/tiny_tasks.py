"""Every CLUE task, made up and tiny, in its official format: files of a few rows each, and a tokenizer for them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maskwright.training.wordpiece import train_wordpiece

HAN = "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏"
N_ROWS = 7
Files = dict[str, str]


def text(seed: int, length: int = 9) -> str:
    return "".join(HAN[(seed * 7 + i * (seed % 5 + 1)) % len(HAN)] for i in range(length))


def _lines(row: Callable[[int], dict[str, Any]], label: Callable[[int], Any], tests: tuple[str, ...]) -> Files:
    def dump(rows: list[dict[str, Any]]) -> str:
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    labelled = dump([row(i) | {"label": label(i)} for i in range(N_ROWS)])
    unlabelled = dump([row(i) | {"id": 10 + i} for i in range(N_ROWS)])
    return {"train.json": labelled, "dev.json": labelled} | dict.fromkeys(tests, unlabelled)


def _pairs(label: Callable[[int], str]) -> Files:
    return _lines(lambda i: {"sentence1": text(i), "sentence2": text(i + 1)}, label, ("test.json",))


def _coreference(i: int) -> dict[str, Any]:
    words = text(i)
    span = {"span1_text": words[:2], "span1_index": 0, "span2_text": words[4], "span2_index": 4}
    return {"text": words, "target": span}


def _squad(prefix: str, is_test: bool = False) -> str:
    questions = []
    for i in range(N_ROWS):
        context = text(i, 40)
        answer = {"text": context[5:8], "answer_start": 5}
        answers = [{"text": "FAKE_ANSWER_1", "answer_start": -1}] if is_test else [answer]
        name = f"{prefix}_{i}"
        questions.append({"context": context, "qas": [{"id": name, "question": text(i, 4), "answers": answers}]})
    return json.dumps({"version": "v1.0", "data": [{"paragraphs": questions}]}, ensure_ascii=False)


def _cloze(first: int) -> tuple[str, str]:
    rows, answers = [], {}
    for i in range(N_ROWS):
        tags = [f"#idiom{first + 2 * i + j:06}#" for j in range(2)]
        candidates = [text(i + j, 4) for j in range(3 + i % 2)]
        rows.append({"content": [f"{text(i)}{tags[0]}{text(i, 5)}{tags[1]}"], "candidates": candidates})
        answers |= {tag: j for j, tag in enumerate(tags)}
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), json.dumps(answers)


def _choices(is_test: bool = False) -> str:
    entries = []
    for i in range(N_ROWS):
        choices = [text(i + j, 3) for j in range(2 + i % 3)]
        gold = {"id": 30 + i} if is_test else {"answer": choices[i % 2]}
        entries.append([[text(i), text(i + 3)], [{"question": text(i, 4), "choice": choices} | gold], f"1-{i}"])
    return json.dumps(entries, ensure_ascii=False)


def official(task: str) -> Files:
    """The files of a task's zip, by name."""
    if task in {"tnews", "iflytek"}:
        tests = ("test.json", "test1.0.json") if task == "tnews" else ("test.json",)
        return _lines(lambda i: {"sentence": text(i, 12)}, lambda i: str(100 + i % 3), tests)
    if task == "afqmc":
        return _pairs(lambda i: str(i % 2))
    if task in {"ocnli", "cmnli"}:
        return _pairs(lambda i: ("entailment", "neutral", "contradiction")[i % 3])
    if task == "cluewsc2020":
        return _lines(_coreference, lambda i: ("false", "true")[i % 2], ("test.json", "test1.0.json"))
    if task == "csl":
        return _lines(lambda i: {"keyword": [text(i, 2)], "abst": text(i)}, lambda i: str(i % 2), ("test.json",))
    if task == "cmrc2018":
        return {f"{split}.json": _squad(split.upper(), split == "test") for split in ("train", "dev", "trial", "test")}
    if task == "chid":
        (train, train_gold), (dev, dev_gold), (test, _) = _cloze(0), _cloze(100), _cloze(200)
        files = {"train.json": train, "train_answer.json": train_gold, "dev.json": dev, "dev_answer.json": dev_gold}
        return files | {"test1.0.json": _cloze(300)[0], "test1.1.json": test}
    halves = {f"{half}-{split}.json": _choices() for half in "dm" for split in ("train", "dev")}
    return halves | {"test1.0.json": _choices(True), "test1.1.json": _choices(True)}


def write_zip(folder: Path, task: str) -> Path:
    """``TASK_public.zip`` as downloaded."""
    path = folder / f"{task}_public.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in official(task).items():
            archive.writestr(name, content)
    return path


def write_tokenizer(folder: Path) -> Path:
    train_wordpiece(list(HAN) * 3, vocab_size=60, max_length=32).save_pretrained(folder / "tokenizer")
    return folder / "tokenizer"
