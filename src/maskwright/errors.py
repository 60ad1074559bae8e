"""Every error maskwright raises on purpose; each says what was wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence


class MaskwrightError(Exception):
    """Base of all deliberate errors; the command line prints it in one line and exits with code 2."""


class InputError(MaskwrightError, ValueError):
    """Data, a file or an argument that cannot be used; `where` is `file:line`, a file, or an argument's name."""

    def __init__(self, message: str, where: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where


class EmptyRowError(MaskwrightError, ValueError):
    """Rows without a single kept token, or with a query that may attend to nothing, named by index."""

    def __init__(self, rows: Sequence[int], hint: str, what: str = "no token is kept") -> None:
        shown = ", ".join(map(str, rows[:8])) + (", …" if len(rows) > 8 else "")
        super().__init__(f"{what} in row{'s' if len(rows) > 1 else ''} {shown}: {hint}")
        self.rows = list(rows)


class MaskError(MaskwrightError, ValueError):
    """A mask of the wrong shape, dtype or values."""


class UnsupportedModelError(MaskwrightError, TypeError):
    """A model whose packed output could not be exact; the message says why."""


class PackingError(MaskwrightError, RuntimeError):
    """A packed model was called in a way packing cannot serve exactly."""
