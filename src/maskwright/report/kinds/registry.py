"""All kinds of record, in the order in which a folder is tried and a page shows them."""

from __future__ import annotations

from pathlib import Path

from maskwright.report.kinds.audit import AUDIT
from maskwright.report.kinds.base import Kind
from maskwright.report.kinds.finetuning import FINETUNING
from maskwright.report.kinds.gap import GAP
from maskwright.report.kinds.pretraining import PRETRAINING
from maskwright.report.kinds.sweep import SWEEP

KINDS: tuple[Kind, ...] = (SWEEP, GAP, AUDIT, PRETRAINING, FINETUNING)


def kind_of(folder: Path) -> Kind | None:
    """The kind of record that a folder holds, if any.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "gap.json").write_text("{}", "utf-8")
        >>> kind_of(folder).name
        'gap measurement'
    """
    return next((kind for kind in KINDS if kind.recognise(folder)), None)
