"""The bundled sample."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from maskwright.data.sample import load_sample


def test_the_sample_is_whole():
    task = load_sample()
    assert {split: len(examples) for split, examples in task.splits.items()} == {
        "train": 14298,
        "dev": 1651,
        "test": 1775,
    }
    assert task.name == "docs_topic"
    assert task.n_labels == 25
    assert all(example.text.strip() for examples in task.splits.values() for example in examples)


def test_the_sample_is_the_original(shared_data: Path):
    task = load_sample()
    for split, examples in task.splits.items():
        with (shared_data / "docs_topic" / f"{split}.jsonl").open(encoding="utf-8") as lines:
            original = [json.loads(line) for line in lines]
        assert [{"text": e.text, "label": task.labels[e.label]} for e in examples] == original


def test_the_limit_keeps_the_first_and_all_labels():
    few, whole = load_sample(limit=200), load_sample()
    assert few.labels == whole.labels
    assert all(few.splits[split] == whole.splits[split][:200] for split in whole.splits)


def test_the_sample_is_small_and_names_its_sources():
    folder = files("maskwright") / "resources" / "docs_topic"
    assert sum(len(file.read_bytes()) for file in folder.iterdir()) < 2_000_000
    notice = (folder / "NOTICE.txt").read_text(encoding="utf-8")
    for part in (
        "JavaGuide",
        "fd4c37a",
        "d2l-zh",
        "e6b18cc",
        "zh-hans.react.dev",
        "f6cda05",
        "Apache License 2.0",
        "Creative Commons Attribution 4.0",
    ):
        assert part in notice
