"""Files to rows: every row comes with the `file:line` it stands on."""

from __future__ import annotations

import codecs
import csv
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from maskwright.data.archive import Entry, location
from maskwright.errors import InputError

Row = dict[str, Any]
Rows = Iterator[tuple[str, Row]]


def read_rows(path: str | Entry, format: str | None = None) -> Rows:
    """Yield ``(where, row)`` from a table, `where` being ``file:line`` (in Parquet: ``file:row``, from 1).

    Formats, told by the file's ending unless `format` names one: ``jsonl`` and ``json`` (one object a line), ``csv``
    (header line, RFC 4180 quoting), ``tsv`` (header line, no quoting: a quote is a letter), ``parquet``.
    Text is UTF-8, with or without a byte order mark. Blank lines are passed over.

    Raises:
        InputError: unknown ending, missing or empty file, wrong encoding, a malformed line; with file and line.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.jsonl"
        >>> _ = file.write_text('{"text": "hello", "label": 1}', encoding="utf-8")
        >>> next(row for where, row in read_rows(file))
        {'text': 'hello', 'label': 1}
    """
    entry = Path(path) if isinstance(path, str) else path
    format = format or entry.name.rpartition(".")[2].lower()
    if format not in _READERS:
        raise InputError(f"unknown kind of file; the supported endings are .{', .'.join(_READERS)}", location(entry))
    return _READERS[format](entry)


def read_lines(file: Entry, encoding: str = "utf-8") -> Iterator[str]:
    """The lines of a text file without their ends; errors as for `read_rows`."""
    return decode_lines(io.BytesIO(_read_bytes(file)), location(file), encoding)


def decode_lines(stream: Iterable[bytes], name: str, encoding: str = "utf-8") -> Iterator[str]:
    """Decode lines of bytes, which end at line feeds only, dropping a byte order mark and the lines' ends."""
    offset = 0
    for number, line in enumerate(stream, 1):
        start = len(codecs.BOM_UTF8) if number == 1 and line.startswith(codecs.BOM_UTF8) else 0
        try:
            yield line[start:].decode(encoding).rstrip("\r\n")
        except UnicodeDecodeError as error:
            at = offset + start + error.start
            raise InputError(
                f"byte 0x{error.object[error.start]:02x} at offset {at} is not UTF-8; save the file as UTF-8",
                f"{name}:{number}",
            ) from None
        offset += len(line)


def json_rows(lines: Iterable[str], name: str) -> Rows:
    """Rows of JSON Lines."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(
                f"malformed JSON: {error.msg} at column {error.colno}; one JSON object a line is expected", where
            ) from None
        if not isinstance(row, dict):
            raise InputError(f"one JSON object a line is expected, this line holds a {type(row).__name__}", where)
        if "\\u" in line and _has_lone_surrogate(row):
            raise InputError("an escape like \\ud83d is half a character, which is no text; remove it", where)
        yield where, row


def tab_rows(lines: Iterable[str], name: str, columns: Sequence[str] | None = None) -> Rows:
    """Rows of tab-separated values; without `columns` the first line names them."""
    numbered = ((number, line.split("\t")) for number, line in enumerate(lines, 1) if line)
    return _named(numbered, name, columns)


def _has_lone_surrogate(row: Row) -> bool:
    # JSON lets such an escape through; a tokenizer would fail on it without saying where.
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _csv_rows(lines: Iterable[str], name: str) -> Rows:
    reader = csv.reader((line + "\n" for line in lines), strict=True)

    def numbered() -> Iterator[tuple[int, list[str]]]:
        number = 1  # a quoted field may run over several lines: a row stands where it starts
        try:
            for fields in reader:
                if fields:
                    yield number, fields
                number = reader.line_num + 1
        except csv.Error as error:
            raise InputError(f"malformed CSV: {error}", f"{name}:{number}") from None

    return _named(numbered(), name, None)


def _named(numbered: Iterable[tuple[int, list[str]]], name: str, columns: Sequence[str] | None) -> Rows:
    for number, fields in numbered:
        if columns is None:
            columns = fields
            if len(set(columns)) < len(columns):
                raise InputError(f"the header names a column twice: {', '.join(columns)}", f"{name}:{number}")
        elif len(fields) != len(columns):
            raise InputError(
                f"{len(fields)} fields where {len(columns)} are expected ({', '.join(columns)})", f"{name}:{number}"
            )
        else:
            yield f"{name}:{number}", dict(zip(columns, fields, strict=True))


def _parquet_rows(file: Entry) -> Rows:
    name = location(file)
    try:
        table = pq.read_table(pa.BufferReader(_read_bytes(file)))
    except (pa.ArrowException, OSError) as error:
        raise InputError("not a Parquet file, or a damaged one", name) from error
    for number, row in enumerate(chain.from_iterable(batch.to_pylist() for batch in table.to_batches()), 1):
        yield f"{name}:{number}", row


def _read_bytes(file: Entry) -> bytes:
    # The whole file at once: a reader left in mid-file by an error would keep it open.
    if not file.is_file():
        raise InputError("no such file", location(file))
    try:
        content = file.read_bytes()
    except (OSError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"cannot be read: {error}", location(file)) from error
    if not content:
        raise InputError("the file is empty", location(file))
    return content


def _text(parse: Callable[[Iterable[str], str], Rows]) -> Callable[[Entry], Rows]:
    return lambda file: parse(read_lines(file), location(file))


def _not_empty(read: Callable[[Entry], Rows]) -> Callable[[Entry], Rows]:
    def rows(file: Entry) -> Rows:
        found = False
        for found_row in read(file):
            found = True
            yield found_row
        if not found:
            raise InputError("the file holds no rows", location(file))

    return rows


_READERS: dict[str, Callable[[Entry], Rows]] = {
    "jsonl": _not_empty(_text(json_rows)),
    "json": _not_empty(_text(json_rows)),
    "csv": _not_empty(_text(_csv_rows)),
    "tsv": _not_empty(_text(tab_rows)),
    "parquet": _not_empty(_parquet_rows),
}
