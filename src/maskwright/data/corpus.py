"""Raw text for pretraining: which files, how they are packed, where a document ends, and which lines are no good."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import json
import logging
import lzma
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, Protocol, get_args

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset, Features, IterableDataset, List, Value

from maskwright.errors import InputError

log = logging.getLogger(__name__)

Boundary = Literal["blank_line", "line", "file"]

_COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
_KINDS = {".txt": "text", ".text": "text", ".md": "text", ".jsonl": "jsonl", ".json": "jsonl", ".parquet": "parquet"}


@dataclass
class Report:
    """What reading a corpus met. `bad` holds the first `shown` lines that could not be used, as (file:line, reason)."""

    n_documents: int = 0
    n_bad: int = 0
    bad: list[tuple[str, str]] = field(default_factory=list)
    shown: int = 20

    def add_bad(self, where: str, reason: str) -> None:
        """Count a line that cannot be used."""
        self.n_bad += 1
        if len(self.bad) < self.shown:
            self.bad.append((where, reason))


class TextSource(Protocol):
    """Where documents come from: files (`Corpus`) or a dataset (`maskwright.data.hub.HubCorpus`)."""

    def table(self, cache: Path | None = None) -> Dataset:
        """All of them: columns `text`, and `bad`: None, or (place, reason) of what could not be used."""

    def stream(self) -> IterableDataset:
        """Column `text`, read as it is asked for; what cannot be used is named in a warning."""


@dataclass(frozen=True)
class Corpus:
    """Documents of text files, in the order of their names.

    Attributes:
        files: what `find_files` gave.
        text_column: of JSONL and Parquet rows; a row is a document.
        boundary: where documents of plain text end: at a blank line (a paragraph a line), at every line, or with the
            file.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.txt").write_text("One.\\nStill one.\\n\\nTwo.\\n", encoding="utf-8")
        >>> list(Corpus(find_files([str(folder)])).documents())
        ['One.\\nStill one.', 'Two.']
    """

    files: tuple[Path, ...]
    text_column: str = "text"
    boundary: Boundary = "blank_line"

    def __post_init__(self) -> None:
        if self.boundary not in get_args(Boundary):
            raise InputError(f"must be one of {', '.join(get_args(Boundary))}, got '{self.boundary}'", "boundary")

    def documents(self, report: Report | None = None, files: Sequence[Path] | None = None) -> Iterator[str]:
        """Non-empty texts; lines that cannot be used are counted in `report` and left out.

        Raises:
            InputError: a file that cannot be opened or unpacked, with its name and what is wrong.
        """
        report = Report() if report is None else report
        for file in self.files if files is None else files:
            try:
                for text in self._documents_of(file, report):
                    report.n_documents += 1
                    yield text
            except (OSError, EOFError, lzma.LZMAError, pa.ArrowException) as error:
                raise InputError(
                    f"cannot be read: {' '.join(str(error).split()) or type(error).__name__}", str(file)
                ) from None

    def table(self, cache: Path | None = None) -> Dataset:
        """See `TextSource`; read again when a file's size or time has changed.

        Raises:
            InputError: no document.
        """
        if next(self.documents(), None) is None:
            raise InputError("the corpus holds no document", "corpus")
        stamps = tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in self.files)
        return Dataset.from_generator(
            _rows,
            features=Features({"text": Value("string"), "bad": List(Value("string"))}),
            gen_kwargs={"corpus": self, "stamps": stamps},
            cache_dir=None if cache is None else str(cache),
        )

    def stream(self) -> IterableDataset:
        """See `TextSource`; a file is a shard."""
        return IterableDataset.from_generator(_stream, gen_kwargs={"files": list(self.files), "corpus": (self,)})

    def _documents_of(self, file: Path, report: Report) -> Iterator[str]:
        kind = kind_of(file)
        if kind == "parquet":
            texts = self._parquet(file, report)
        elif kind == "jsonl":
            texts = self._jsonl(file, report)
        else:
            texts = self._text(file, report)
        return (text for text in texts if text.strip())

    def _text(self, file: Path, report: Report) -> Iterator[str]:
        paragraphs: list[str] = []
        for _, line in _lines(file, report):
            if self.boundary == "line":
                yield line
            elif self.boundary == "blank_line" and not line.strip():
                yield "\n".join(paragraphs)
                paragraphs = []
            else:
                paragraphs.append(line)
        yield "\n".join(paragraphs)

    def _jsonl(self, file: Path, report: Report) -> Iterator[str]:
        for where, line in _lines(file, report):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                report.add_bad(where, f"malformed JSON: {error.msg} at column {error.colno}")
                continue
            text = row.get(self.text_column) if isinstance(row, dict) else None
            if not isinstance(text, str):
                report.add_bad(where, f"no text in column '{self.text_column}'")
                continue
            yield text

    def _parquet(self, file: Path, report: Report) -> Iterator[str]:
        with pq.ParquetFile(file) as table:
            names = table.schema_arrow.names
            if self.text_column not in names:
                raise InputError(f"has no column '{self.text_column}', only {', '.join(names)}", str(file))
            number = 0
            for batch in table.iter_batches(columns=[self.text_column]):
                for value in batch.column(0):
                    number += 1
                    text: Any = value.as_py()
                    if isinstance(text, str):
                        yield text
                    else:
                        report.add_bad(f"{file}:{number}", f"no text in column '{self.text_column}'")


def _rows(corpus: Corpus, stamps: Any) -> Iterator[dict[str, Any]]:
    report = Report(shown=sys.maxsize)
    for text in corpus.documents(report):
        yield {"text": text, "bad": None}
    for where_reason in report.bad:
        yield {"text": "", "bad": list(where_reason)}


def _stream(files: list[Path], corpus: tuple[Corpus]) -> Iterator[dict[str, str]]:
    report = Report()
    n_told = 0
    for text in corpus[0].documents(report, files):
        for where, reason in report.bad[n_told:]:
            log.warning("%s: %s (left out)", where, reason)
        n_told = len(report.bad)
        yield {"text": text}


def find_files(names: Sequence[str]) -> tuple[Path, ...]:
    """Files, globs and folders (with all they hold) as files, sorted, each once.

    Raises:
        InputError: a name that matches nothing, or a file of unknown kind.
    """
    found: dict[Path, None] = {}
    for name in names:
        path = Path(name).expanduser()
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file() and kind_of(file) is not None)
        elif path.is_file():
            if kind_of(path) is None:
                endings = ", ".join(_KINDS)
                raise InputError(
                    f"unknown kind of file; the endings are {endings}, alone or with .gz .xz .bz2 .zst", name
                )
            files = [path]
        else:
            files = sorted(Path(match) for match in glob.glob(str(path), recursive=True) if Path(match).is_file())
        if not files:
            raise InputError("no such file, or nothing in it that is text, JSONL or Parquet", name)
        found |= dict.fromkeys(files)
    return tuple(found)


def kind_of(file: Path) -> str | None:
    """ "text", "jsonl" or "parquet" by a file's ending, that of its compression aside; None for other files."""
    name = file.name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return _KINDS.get(Path(name).suffix)


def open_binary(file: Path) -> IO[bytes]:
    """A file's bytes, unpacked as its ending says."""
    opener: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
    ending = file.suffix.lower()
    if ending == ".zst":
        return io.BufferedReader(pa.CompressedInputStream(pa.OSFile(str(file)), "zstd"))
    unpacked: IO[bytes] = opener.get(ending, open)(file, "rb")
    return unpacked


def _lines(file: Path, report: Report) -> Iterator[tuple[str, str]]:
    """(file:line, text) of every line that is UTF-8; the others are counted."""
    with open_binary(file) as stream:
        for number, line in enumerate(iter(stream.readline, b""), 1):
            where = f"{file}:{number}"
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                report.add_bad(where, f"byte 0x{error.object[error.start]:02x} is not UTF-8")
                continue
            yield where, text.rstrip("\r\n")
