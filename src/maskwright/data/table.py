"""The user's own tables as a task: named columns, a label vocabulary from the training split."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, cast

from maskwright.data.labels import LabelIndex, label_text, sort_labels
from maskwright.data.rows import Row, read_rows
from maskwright.data.tasks.base import Example, Problem, TaskData
from maskwright.errors import InputError

__all__ = ["load_table", "read_rows"]

PathLike = str | os.PathLike[str]
Label = int | tuple[int, ...] | float | None
UNLABELLED_SPLITS = ("test", "predict")
METRICS: dict[Problem, tuple[str, ...]] = {
    "single_label_classification": ("accuracy", "f1_macro"),
    "multi_label_classification": ("f1_macro", "accuracy"),
    "regression": ("spearman", "pearson", "mse"),
}


def load_table(
    path: PathLike | Mapping[str, PathLike],
    text_column: str = "text",
    text_pair_column: str | None = None,
    label_column: str = "label",
    problem: Problem | Literal["auto"] = "auto",
    labels: Sequence[str] | None = None,
) -> TaskData:
    """Read the user's JSON Lines, CSV, TSV or Parquet files as one task.

    `path` is one file, which becomes the split "train", or a mapping from split to file. With `problem="auto"`, lists
    as labels (JSON Lines, Parquet) mean multi-label, numbers of which one is written as a fraction mean regression,
    and everything else one class a row. Classes are numbered in `sort_labels` order of the training split's labels,
    or as given in `labels`. Only the splits "test" and "predict" may hold rows without a label, or no label column.

    Raises:
        InputError: a file `read_rows` refuses, a missing column, an empty text, a missing or unknown label, with
            file and line; or a `problem` that does not fit the labels.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "mood.csv"
        >>> _ = file.write_text("text,label\\nfine,good\\nawful,bad\\n", encoding="utf-8")
        >>> task = load_table(file)
        >>> task.labels, task.splits["train"][0].label
        (('bad', 'good'), 1)
    """
    files = path if isinstance(path, Mapping) else {"train": path}
    if not files:
        raise InputError("no file given", "path")
    rows = {split: list(read_rows(Path(file))) for split, file in files.items()}
    for split, found in rows.items():
        _check_columns(found, split, text_column, text_pair_column, label_column)

    known = rows.get("train") or next(iter(rows.values()))
    gold = [(where, row[label_column]) for where, row in known if not _is_blank(row.get(label_column))]
    chosen = _guess_problem(value for _, value in gold) if problem == "auto" else problem
    if chosen not in METRICS:
        raise InputError(f"{problem!r} is none of auto, {', '.join(METRICS)}", "problem")
    if chosen == "regression":
        vocabulary: tuple[str, ...] = ()
    elif labels is not None:
        vocabulary = tuple(labels)
    else:
        vocabulary = sort_labels(label for where, value in gold for label in _classes(value, chosen, where))

    index = LabelIndex(vocabulary)
    return TaskData(
        name=Path(next(iter(files.values()))).stem,
        problem=chosen,
        splits={
            split: [
                Example(
                    text=_text(row, text_column, where),
                    text_pair=_text(row, text_pair_column, where) if text_pair_column else None,
                    label=_label(row.get(label_column), chosen, index, split, where),
                    where=where,
                    guid=label_text(row["id"]) if row.get("id") is not None else None,
                )
                for where, row in found
            ]
            for split, found in rows.items()
        },
        labels=vocabulary,
        metrics=METRICS[chosen],
    )


def _check_columns(rows: list[tuple[str, Row]], split: str, text: str, text_pair: str | None, label: str) -> None:
    wanted = [text, *([text_pair] if text_pair else []), *([] if split in UNLABELLED_SPLITS else [label])]
    for where, row in rows:
        for column in wanted:
            if column not in row:
                raise InputError(f"no column {column!r}; the columns are {', '.join(row)}", where)


def _text(row: Row, column: str, where: str) -> str:
    value = row[column]
    if value is not None and not isinstance(value, str):
        raise InputError(f"column {column!r} holds a {type(value).__name__}, text is expected", where)
    if not value or not value.strip():
        raise InputError(f"column {column!r} holds an empty text; remove the row or fill it in", where)
    return value


def _label(value: object, problem: Problem, index: LabelIndex, split: str, where: str) -> Label:
    if _is_blank(value):
        if split in UNLABELLED_SPLITS:
            return None
        raise InputError(f"no label; only the splits {' and '.join(UNLABELLED_SPLITS)} may lack labels", where)
    if problem == "regression":
        return _number(value, where)
    classes = tuple(index(label, where) for label in _classes(value, problem, where))
    return tuple(sorted(set(classes))) if problem == "multi_label_classification" else classes[0]


def _classes(value: object, problem: Problem, where: str) -> list[str]:
    is_list = isinstance(value, list)
    if is_list != (problem == "multi_label_classification"):
        expected = "one label" if is_list else "a list of labels (JSON Lines or Parquet)"
        raise InputError(f"the label is {value!r}, {expected} is expected in {problem.replace('_', '-')}", where)
    return [label_text(label) for label in (cast("list[object]", value) if is_list else [value])]


def _number(value: object, where: str) -> float:
    try:
        number = float(value) if isinstance(value, (str, int, float)) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"the label is {value!r}, a finite number is expected in regression", where)
    return number


def _guess_problem(values: Iterable[object]) -> Problem:
    is_fraction = False
    is_number = True
    for value in values:
        if isinstance(value, list):
            return "multi_label_classification"
        if isinstance(value, float):
            is_fraction = True
        elif isinstance(value, str):
            try:
                is_fraction |= not float(value).is_integer() or "." in value
            except (ValueError, OverflowError):
                is_number = False
        elif isinstance(value, bool) or not isinstance(value, int):
            is_number = False
    return "regression" if is_number and is_fraction else "single_label_classification"


def _is_blank(value: object) -> bool:
    return value is None or value == ""
