"""The tasks maskwright knows by name, and how to load one from where it lies."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from maskwright.data.archive import Entry, find_file, location, open_folder
from maskwright.data.labels import label_text
from maskwright.data.tasks.base import Example, TaskData
from maskwright.data.tasks.clue import CLUE
from maskwright.data.tasks.english import ENGLISH
from maskwright.data.tasks.spec import Candidate, Notes, TaskSpec, json_lines, take
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

    notes = Notes(names=dict(spec.label_names))
    with _opened(spec, Path(path)) as (folder, files):
        missing = [split for split in splits or () if split not in files]
        if missing:
            raise InputError(
                f"no file of the split {missing[0]!r}; looked for {_shown(spec.files[missing[0]])}", location(folder)
            )
        names_file = find_file(folder, ["labels.json"])
        if names_file is not None and spec.name_field:
            for where, row in json_lines(names_file):
                notes.names[label_text(take(row, "label", object, where))] = take(row, spec.name_field, str, where)
        wanted = {split: found for split, found in files.items() if splits is None or split in splits}
        examples = {split: _draw(spec.reader(spec, split, found, notes), limit) for split, found in wanted.items()}
    return TaskData(
        name=name,
        problem=spec.problem,
        splits=examples,
        labels=spec.labels,
        label_names=notes.names,
        metrics=spec.metrics,
        skipped=notes.skipped,
        mended=notes.mended,
        files={split: tuple(file.name for file in found) for split, found in wanted.items()},
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
            "labels": list(spec.labels),
            "n_labels": len(spec.labels),
            "metrics": list(spec.metrics),
            "sizes": dict(spec.sizes),
            "files": {split: _shown(names).split(", ") for split, names in spec.files.items()},
            "problem": spec.problem,
            "description": spec.description,
        }
        for spec in TASKS.values()
    ]


@dataclass(frozen=True, slots=True)
class OnDisk:
    """What of a task lies on disk: where, how many examples a split, what was left out; or why it cannot be read."""

    place: str
    n_examples: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    mended: dict[str, int] = field(default_factory=dict)
    error: str | None = None


def tasks_on_disk(path: str | os.PathLike[str]) -> dict[str, OnDisk]:
    """The known tasks at `path`, by name: the task's own folder or zip, or a folder of such.

    Every file is read, so that counts are those that training would see.

    Raises:
        InputError: nothing is at `path`.

    Example:
        >>> import tempfile
        >>> tasks_on_disk(tempfile.mkdtemp())
        {}
    """
    root = Path(path)
    if not root.exists():
        raise InputError("no such file or folder", str(path))
    found = {}
    for spec in TASKS.values():
        own = root.stem in {spec.name, f"{spec.name}_public"}
        place = next((child for child in (*_children(spec, root), *([root] if own else [])) if child.exists()), None)
        if place is None:
            continue
        try:
            data = load_task(spec.name, place)
        except InputError as error:
            found[spec.name] = OnDisk(str(place), error=str(error))
            continue
        counts = {split: len(examples) for split, examples in data.splits.items()}
        found[spec.name] = OnDisk(str(place), counts, dict(data.skipped), dict(data.mended))
    return found


def folders_of_tasks(path: str | os.PathLike[str]) -> list[Path]:
    """The folders just below `path` that hold known tasks, by name: where somebody may have meant to look.

    Example:
        >>> import tempfile
        >>> root = Path(tempfile.mkdtemp())
        >>> (root / "clue" / "tnews").mkdir(parents=True)
        >>> [folder.name for folder in folders_of_tasks(root)]
        ['clue']
    """
    folders = sorted(folder for folder in Path(path).iterdir() if folder.is_dir()) if Path(path).is_dir() else []
    specs = TASKS.values()
    return [folder for folder in folders if any(child.exists() for spec in specs for child in _children(spec, folder))]


def _children(spec: TaskSpec, path: Path) -> list[Path]:
    return [path / spec.name, path / f"{spec.name}_public", path / f"{spec.name}_public.zip"]


@contextmanager
def _opened(spec: TaskSpec, path: Path) -> Iterator[tuple[Entry, dict[str, list[Entry]]]]:
    for place in (*(child for child in _children(spec, path) if child.exists()), path):
        with open_folder(place) as folder:
            found = {split: _find(folder, candidates) for split, candidates in spec.files.items()}
            files = {split: parts for split, parts in found.items() if parts}
            if files:
                yield folder, files
                return
    raise InputError(
        f"no file of the task {spec.name!r}; looked for {', '.join(map(_shown, spec.files.values()))}, here and in "
        f"{spec.name}/, {spec.name}_public/ and {spec.name}_public.zip",
        str(path),
    )


def _find(folder: Entry, candidates: Sequence[Candidate]) -> list[Entry]:
    """The files of the first candidate all of whose parts are there."""
    for candidate in candidates:
        names = [candidate] if isinstance(candidate, str) else candidate
        parts = [part for name in names if (part := find_file(folder, [name])) is not None]
        if len(parts) == len(names):
            return parts
    return []


def _shown(candidates: Sequence[Candidate]) -> str:
    return ", ".join(name if isinstance(name, str) else " + ".join(name) for name in candidates)


def _draw(examples: list[Example], limit: int | None) -> list[Example]:
    # Official files may be sorted by label, so the first rows would not do.
    if limit is None or limit >= len(examples):
        return examples
    return [examples[i] for i in sorted(random.Random(0).sample(range(len(examples)), limit))]
