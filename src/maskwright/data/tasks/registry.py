"""The tasks maskwright knows by name, and how to load one from where it lies."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from maskwright.data.archive import Entry, find_file, location, open_folder
from maskwright.data.labels import label_text
from maskwright.data.tasks.base import Example, TaskData
from maskwright.data.tasks.clue import CLUE
from maskwright.data.tasks.english import ENGLISH
from maskwright.data.tasks.spec import TaskSpec, json_lines, read_examples, take
from maskwright.errors import InputError

TASKS: Mapping[str, TaskSpec] = MappingProxyType({spec.name: spec for spec in (*CLUE, *ENGLISH)})
"""Every known task by its name."""


def load_task(
    name: str,
    path: str | os.PathLike[str],
    *,
    splits: Sequence[str] | None = None,
    limit: int | None = None,
) -> TaskData:
    """Read a known task from its folder or zip as downloaded.

    `path` is that folder or zip, or the folder that holds ``NAME/``, ``NAME_public/`` or ``NAME_public.zip``.
    `splits` picks some of train, dev and test (default: those whose files are there). `limit` keeps at most so many
    examples a split, drawn without replacement, the same ones every time, in file order.

    Raises:
        InputError: unknown task or split, no file of it at `path`, a malformed row or an unknown label.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "dev.json").write_text('{"sentence1": "a", "sentence2": "b", "label": "-"}', "utf-8")
        >>> task = load_task("cmnli", folder)
        >>> task.splits, dict(task.skipped)
        ({'dev': []}, {"label '-'": 1})
    """
    if name not in TASKS:
        raise InputError(f"unknown task {name!r}; the known ones are {', '.join(TASKS)}", "name")
    spec = TASKS[name]
    unknown = [split for split in splits or () if split not in spec.files]
    if unknown:
        raise InputError(f"task {name!r} has no split {unknown[0]!r}, only {', '.join(spec.files)}", "splits")
    if limit is not None and limit < 1:
        raise InputError(f"at least 1 example a split is needed, not {limit}", "limit")

    skipped: Counter[str] = Counter()
    names = dict(spec.label_names)
    with _opened(spec, Path(path)) as (folder, files):
        missing = [split for split in splits or () if split not in files]
        if missing:
            looked_for = ", ".join(spec.files[missing[0]])
            raise InputError(f"no file of the split {missing[0]!r}; looked for {looked_for}", location(folder))
        names_file = find_file(folder, ["labels.json"])
        if names_file is not None and spec.name_field:
            for where, row in json_lines(names_file):
                names[label_text(take(row, "label", object, where))] = take(row, spec.name_field, str, where)
        examples = {
            split: _draw(read_examples(spec, split, file, skipped, names), limit)
            for split, file in files.items()
            if splits is None or split in splits
        }
    return TaskData(
        name=name,
        problem="single_label_classification",
        splits=examples,
        labels=spec.labels,
        label_names=names,
        metrics=spec.metrics,
        skipped=skipped,
    )


def describe_tasks() -> list[dict[str, Any]]:
    """One plain record a task, for a table or JSON: name, kind, language, labels, metrics, sizes, files, description.

    Example:
        >>> describe_tasks()[0]["name"]
        'tnews'
    """
    return [
        {
            "name": spec.name,
            "kind": spec.kind,
            "language": spec.language,
            "n_labels": len(spec.labels),
            "metrics": list(spec.metrics),
            "sizes": dict(spec.sizes),
            "files": {split: list(names) for split, names in spec.files.items()},
            "description": spec.description,
        }
        for spec in TASKS.values()
    ]


@contextmanager
def _opened(spec: TaskSpec, path: Path) -> Iterator[tuple[Entry, dict[str, Entry]]]:
    children = [path / spec.name, path / f"{spec.name}_public", path / f"{spec.name}_public.zip"]
    for place in (*(child for child in children if child.exists()), path):
        with open_folder(place) as folder:
            found = {split: find_file(folder, names) for split, names in spec.files.items()}
            files = {split: file for split, file in found.items() if file is not None}
            if files:
                yield folder, files
                return
    looked_for = ", ".join(name for names in spec.files.values() for name in names)
    raise InputError(
        f"no file of the task {spec.name!r}; looked for {looked_for}, here and in "
        f"{spec.name}/, {spec.name}_public/ and {spec.name}_public.zip",
        str(path),
    )


def _draw(examples: list[Example], limit: int | None) -> list[Example]:
    # Official files may be sorted by label, so the first rows would not do.
    if limit is None or limit >= len(examples):
        return examples
    return [examples[i] for i in sorted(random.Random(0).sample(range(len(examples)), limit))]
