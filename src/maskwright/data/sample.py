"""The bundled sample: paragraphs of Chinese documentation and which of 25 topics they are about."""

from __future__ import annotations

import lzma
from importlib.resources import files

from maskwright.data.labels import LabelIndex, sort_labels
from maskwright.data.rows import decode_lines, json_rows
from maskwright.data.tasks.base import Example, TaskData

SPLITS = ("train", "dev", "test")


def load_sample(limit: int | None = None) -> TaskData:
    """The task "docs_topic", at most the first `limit` examples a split (they are in random order).

    Sources and licences are in the `NOTICE.txt` beside the data.

    Example:
        >>> task = load_sample(limit=100)
        >>> len(task.splits["train"]), task.n_labels
        (100, 25)
    """
    folder = files("maskwright") / "resources" / "docs_topic"
    rows = {}
    for split in SPLITS:
        name = f"{split}.jsonl.xz"
        with (folder / name).open("rb") as packed, lzma.open(packed) as stream:
            rows[split] = list(json_rows(decode_lines(stream, name), name))
    labels = sort_labels(row["label"] for _, row in rows["train"])
    index = LabelIndex(labels)
    return TaskData(
        name="docs_topic",
        problem="single_label_classification",
        splits={
            split: [Example(row["text"], None, index(row["label"], where), where) for where, row in found[:limit]]
            for split, found in rows.items()
        },
        labels=labels,
        metrics=("accuracy", "f1_macro"),
    )
