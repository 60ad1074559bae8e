"""Files of a record, read as far as they go: a run may be going on, or have been stopped amid a line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

_ABSENT = object()


class Source(NamedTuple):
    """A folder and the name it has on the page."""

    name: str
    folder: Path


class Reader:
    """Reads the files of one source and keeps, as `notes`, what could not be read.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "metrics.jsonl").write_text('{"step": 1}\\n{"st', "utf-8")
        >>> reader = Reader(Source("mine", folder))
        >>> reader.lines("metrics.jsonl"), reader.notes
        ([{'step': 1}], ['mine: metrics.jsonl ends amid line 2; the lines before it are shown.'])
    """

    def __init__(self, source: Source) -> None:
        self.name, self.folder = source
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep a sentence about this source."""
        self.notes.append(f"{self.name}: {text}")

    def json(self, file: str, missing: str = "") -> dict[str, Any]:
        """The file's object; empty where it is absent (noted as `missing`, unless that is empty) or broken."""
        return self._object(file, json.loads, missing)

    def yaml(self, file: str, missing: str = "") -> dict[str, Any]:
        """The same of a YAML file."""
        return self._object(file, yaml.safe_load, missing)

    def objects(self, file: str) -> list[dict[str, Any]]:
        """The objects of a JSON list."""
        value = self._parsed(file, json.loads, "")
        if not isinstance(value, list):
            self.note(f"{file} cannot be read: it is cut off, or is no list.")
        return rows_of(value)

    def lines(self, file: str, missing: str = "") -> list[dict[str, Any]]:
        """The file's objects, one a line; lines that cannot be read are left out."""
        text = self._text(file, missing)
        if text is None:
            return []
        written = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        records, broken = [], []
        for number, line in written:
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if isinstance(record, dict):
                records.append(record)
            else:
                broken.append(number)
        if broken == [written[-1][0]] if written else False:
            self.note(f"{file} ends amid line {broken[0]}; the lines before it are shown.")
        elif broken:
            shown = ", ".join(map(str, broken[:5])) + (", …" if len(broken) > 5 else "")
            self.note(f"{file}: {len(broken)} of {len(written)} lines cannot be read and are left out (line {shown}).")
        return records

    def _object(self, file: str, parse: Callable[[str], Any], missing: str) -> dict[str, Any]:
        value = self._parsed(file, parse, missing)
        if value is _ABSENT:
            return {}
        if not isinstance(value, dict):
            self.note(f"{file} cannot be read: it is cut off, or is no object of named values.")
            return {}
        return {str(name): item for name, item in value.items()}

    def _parsed(self, file: str, parse: Callable[[str], Any], missing: str) -> Any:
        text = self._text(file, missing)
        if text is None:
            return _ABSENT
        try:
            return parse(text)
        except (ValueError, yaml.YAMLError, RecursionError):
            return None

    def _text(self, file: str, missing: str) -> str | None:
        try:
            return (self.folder / file).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            if missing:
                self.note(missing)
        except OSError as error:
            self.note(f"{file} cannot be read: {error.strerror}.")
        return None


def rows_of(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; anything else holds none.

    Example:
        >>> rows_of([{"a": 1}, 2]), rows_of(None)
        ([{'a': 1}], [])
    """
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def table_of(value: Any) -> dict[str, Any]:
    """The object itself; anything else is an empty one.

    Example:
        >>> table_of({"a": 1}), table_of([1])
        ({'a': 1}, {})
    """
    return value if isinstance(value, dict) else {}
