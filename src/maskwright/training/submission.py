"""The file that a benchmark wants: its own name, ids and answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from maskwright.data.tasks.base import Example
from maskwright.data.tasks.registry import TASKS
from maskwright.errors import InputError


def write_submission(
    folder: Path, task: str, files: Sequence[str], examples: Sequence[Example], answers: Sequence[str | int]
) -> Path:
    """Write CLUE's file for a task's predictions, and say where it is.

    A classification task has a line ``{"id": 0, "label": "0"}`` an example; a task of reading has one JSON object from
    id to answer: a text, or the index of a choice. An example without an id is known by its place in the file.

    Args:
        folder: where the file goes; made if need be.
        task: a known task's name.
        files: names of the files the examples come from: older tests have another name.
        examples: in the order of the file.
        answers: one an example: the label as data files write it, the text, or the index of the choice.

    Raises:
        InputError: two examples with the same id.

    Example:
        >>> import tempfile
        >>> example = Example("a", None, None, "test.json:1", guid="7")
        >>> path = write_submission(Path(tempfile.mkdtemp()), "tnews", ["test1.0.json"], [example], ["101"])
        >>> path.name, path.read_text(encoding="utf-8")
        ('tnews10_predict.json', '{"id": 7, "label": "101"}\\n')
    """
    spec = TASKS[task]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / spec.submission_file(files)
    ids = [str(row) if example.guid is None else example.guid for row, example in enumerate(examples)]
    if twice := [name for name, times in Counter(ids).items() if times > 1]:
        raise InputError(
            f"the id {twice[0]} is that of {ids.count(twice[0])} examples; they cannot be told apart", task
        )
    if spec.problem in {"multiple_choice", "question_answering"}:
        text = json.dumps(dict(zip(ids, answers, strict=True)), ensure_ascii=False, indent=2) + "\n"
    else:
        rows = [{"id": int(i) if i.isdecimal() else i, "label": label} for i, label in zip(ids, answers, strict=True)]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path
