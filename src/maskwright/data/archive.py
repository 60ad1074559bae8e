"""A task's files, whether they lie in a folder or still in the zip they were downloaded in."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath

from maskwright.errors import InputError

Entry = Path | zipfile.Path
"""A folder or file: `/`, `.name`, `.is_file()`, `.iterdir()` and `.read_bytes()` work on both kinds."""


@contextmanager
def open_folder(path: str | os.PathLike[str]) -> Iterator[Entry]:
    """The folder at `path`, or the contents of the zip at `path`, read in place without extraction, while open.

    A zip whose only content is one folder (``cmnli_public/``) is opened at that folder.

    Raises:
        InputError: nothing is there, the file is no zip, or a member's name points outside the archive.

    Example:
        >>> with open_folder(".") as folder:
        ...     folder.is_dir()
        True
    """
    path = Path(path)
    if path.is_dir():
        yield path
        return
    if not path.exists():
        raise InputError("no such file or folder", str(path))
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        raise InputError("neither a folder nor a zip archive", str(path)) from None
    with archive:
        for member in archive.namelist():
            _refuse_escape(member, path)
        root = zipfile.Path(archive)
        entries = [entry for entry in root.iterdir() if not entry.name.startswith((".", "__MACOSX"))]
        yield entries[0] if len(entries) == 1 and entries[0].is_dir() else root


def find_file(folder: Entry, names: Iterable[str]) -> Entry | None:
    """The first of `names` that is a file in `folder`."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def location(entry: Entry) -> str:
    """How messages name a file: its path, or ``archive.zip!member``."""
    return f"{entry.root.filename}!{entry.at}" if isinstance(entry, zipfile.Path) else str(entry)


def _refuse_escape(member: str, archive: Path) -> None:
    # Windows' rules see both kinds of slash, drives and roots; a name harmless under them is harmless everywhere.
    name = PureWindowsPath(member)
    if name.drive or name.root or ".." in name.parts:
        raise InputError(f"member {member!r} points outside the archive; refused, do not trust this file", str(archive))
