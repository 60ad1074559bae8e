"""A task with fixed file names and labels, as one row of a table, and how a file of it becomes examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from maskwright.data.archive import Entry, location
from maskwright.data.labels import LabelIndex, label_text
from maskwright.data.rows import Row, Rows, json_rows, read_lines, tab_rows
from maskwright.data.tasks.base import Example
from maskwright.errors import InputError

T = TypeVar("T")
Texts = tuple[str, str | None]
UNLABELLED_SPLIT = "test"


class SkipRow(Exception):
    """Raised by a task's `texts` for a row the format itself calls unusable; the argument is the reason counted."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task: where its files are, what its labels are, and how a row becomes a text or a pair.

    `files` maps a split to candidate names, the best first. `texts(row, where)` gives the texts of a row or raises
    `SkipRow`. `label_field` names the label, `name_field` its readable name. Rows labelled with one of `skip_labels`
    are left out and counted. `sizes` are the official numbers of rows, `None` where unknown or absent.
    """

    name: str
    kind: Literal["sentence", "pair", "coreference", "keywords"]
    language: Literal["zh", "en"]
    description: str
    labels: tuple[str, ...]
    files: Mapping[str, tuple[str, ...]]
    texts: Callable[[Row, str], Texts]
    read: Callable[[Entry], Rows]
    metrics: tuple[str, ...] = ("accuracy", "f1_macro")
    label_field: str = "label"
    name_field: str | None = None
    label_names: Mapping[str, str] = field(default_factory=dict)
    skip_labels: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)


def read_examples(
    spec: TaskSpec, split: str, file: Entry, skipped: Counter[str], names: dict[str, str]
) -> list[Example]:
    """The examples of one file; adds to `skipped` what is left out and to `names` the labels' readable names.

    Only the split "test" may be unlabelled. Empty texts are left out and counted.

    Raises:
        InputError: a malformed row, a missing field, an unknown or missing label, with file and line.
    """
    index = LabelIndex(spec.labels)
    examples = []
    for where, row in spec.read(file):
        label = _label(spec, row, split, where)
        if label in spec.skip_labels:
            skipped[f"label {label!r}"] += 1
            continue
        try:
            text, text_pair = spec.texts(row, where)
        except SkipRow as reason:
            skipped[str(reason)] += 1
            continue
        if not text.strip() or (text_pair is not None and not text_pair.strip()):
            skipped["empty text"] += 1
            continue
        class_index = None if label is None else index(label, where)
        guid = row.get("id", row.get("idx"))
        examples.append(Example(text, text_pair, class_index, where, None if guid is None else str(guid)))
        if label is not None and spec.name_field in row:
            names.setdefault(label, str(row[spec.name_field]))
    return examples


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


def _label(spec: TaskSpec, row: Row, split: str, where: str) -> str | None:
    value = row.get(spec.label_field)
    if value is None and split != UNLABELLED_SPLIT:
        raise InputError(f"no field {spec.label_field!r}; only the split {UNLABELLED_SPLIT!r} may lack labels", where)
    return None if value is None else label_text(value)
