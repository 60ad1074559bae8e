"""A task with fixed file names and labels, as one row of a table, and how its files become examples."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from maskwright.data.archive import Entry, location
from maskwright.data.labels import LabelIndex, label_text
from maskwright.data.rows import Row, Rows, json_rows, read_lines, tab_rows
from maskwright.data.tasks.base import Example, Problem
from maskwright.errors import InputError

T = TypeVar("T")
Texts = tuple[str, str | None]
Candidate = str | tuple[str, ...]


class SkipRow(Exception):
    """Raised by a task's `texts` for a row the format itself calls unusable; the argument is the reason counted."""


@dataclass(frozen=True, slots=True)
class Notes:
    """What reading a task finds besides its examples: counts by reason, and the labels' readable names."""

    skipped: Counter[str] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)
    names: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task: where its files are, what its labels are, and how files become examples.

    `files` maps a split to candidates, the best first: a file name, or several names that make up the split together.
    `reader(spec, split, files, notes)` gives the examples of a split. `label_field` names the label, `name_field` its
    readable name. Rows labelled with one of `skip_labels` are left out and counted. `sizes` are the official numbers
    of rows. `submission` is the official name of a file of predictions without ``_predict.json`` (default: the task's
    name), `older_submission` that of predictions for the split "test1.0".
    """

    name: str
    kind: Literal["sentence", "pair", "coreference", "keywords", "reading", "cloze", "choice"]
    language: Literal["zh", "en"]
    description: str
    files: Mapping[str, tuple[Candidate, ...]]
    reader: Callable[[TaskSpec, str, Sequence[Entry], Notes], list[Example]]
    labels: tuple[str, ...] = ()
    problem: Problem = "single_label_classification"
    metrics: tuple[str, ...] = ("accuracy", "f1_macro")
    label_field: str = "label"
    name_field: str | None = None
    label_names: Mapping[str, str] = field(default_factory=dict)
    skip_labels: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)
    submission: str | None = None
    older_submission: str | None = None

    def submission_file(self, files: Sequence[str]) -> str:
        """The official name of the file with predictions for the split that was read from `files`."""
        is_older = self.older_submission is not None and "test1.0.json" in files
        stem = self.older_submission if is_older else self.submission or self.name
        return f"{stem}_predict.json"


def by_row(
    read: Callable[[Entry], Rows], texts: Callable[[Row, str], Texts]
) -> Callable[[TaskSpec, str, Sequence[Entry], Notes], list[Example]]:
    """Reader of files with one example a row.

    Args:
        read: file -> rows.
        texts: (row, where) -> text and second text; raises `SkipRow` for a row to leave out.
    """

    def reader(spec: TaskSpec, split: str, files: Sequence[Entry], notes: Notes) -> list[Example]:
        return [example for file in files for example in _read_rows(spec, split, read(file), texts, notes)]

    return reader


def may_lack_labels(split: str) -> bool:
    """Whether a split is one that official data publish without labels."""
    return split.startswith("test")


def take(row: Row, name: str, kind: type[T], where: str) -> T:
    """The field `name` of a row, checked to be there and to be a `kind`."""
    if name not in row:
        raise InputError(f"no field {name!r}; the fields are {', '.join(row)}", where)
    value: Any = row[name]
    if not isinstance(value, kind):
        raise InputError(f"field {name!r} holds a {type(value).__name__}, a {kind.__name__} is expected", where)
    return value


def json_lines(file: Entry) -> Rows:
    """Reader of a JSON Lines file."""
    return json_rows(read_lines(file), location(file))


def tab_table(file: Entry) -> Rows:
    """Reader of a tab-separated file with a header line."""
    return tab_rows(read_lines(file), location(file))


def json_document(file: Entry, kind: type[T]) -> T:
    """A file that is one JSON value, checked to be a `kind`.

    Raises:
        InputError: a file that cannot be read, malformed JSON, half a character, or another kind of value.
    """
    text = "\n".join(read_lines(file))
    try:
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise InputError(
            f"malformed JSON: {error.msg} at column {error.colno}", f"{location(file)}:{error.lineno}"
        ) from None
    except UnicodeEncodeError:
        raise InputError(
            "an escape like \\ud83d is half a character, which is no text; remove it", location(file)
        ) from None
    if not isinstance(value, kind):
        raise InputError(
            f"one JSON {kind.__name__} is expected, the file holds a {type(value).__name__}", location(file)
        )
    return value


def _read_rows(
    spec: TaskSpec, split: str, rows: Rows, texts: Callable[[Row, str], Texts], notes: Notes
) -> list[Example]:
    index = LabelIndex(spec.labels)
    examples = []
    for where, row in rows:
        label = _label(spec, row, split, where)
        if label in spec.skip_labels:
            notes.skipped[f"label {label!r}"] += 1
            continue
        try:
            text, text_pair = texts(row, where)
        except SkipRow as reason:
            notes.skipped[str(reason)] += 1
            continue
        if not text.strip() or (text_pair is not None and not text_pair.strip()):
            notes.skipped["empty text"] += 1
            continue
        class_index = None if label is None else index(label, where)
        guid = row.get("id", row.get("idx"))
        examples.append(Example(text, text_pair, class_index, where, None if guid is None else str(guid)))
        if label is not None and spec.name_field in row:
            notes.names.setdefault(label, str(row[spec.name_field]))
    return examples


def _label(spec: TaskSpec, row: Row, split: str, where: str) -> str | None:
    value = row.get(spec.label_field)
    if value is None and not may_lack_labels(split):
        raise InputError(f"no field {spec.label_field!r}; only the split 'test' may lack labels", where)
    return None if value is None else label_text(value)
