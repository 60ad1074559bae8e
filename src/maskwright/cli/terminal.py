"""What a verb shows: a clean screen while it works, a table or JSON at the end."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table


@contextlib.contextmanager
def working() -> Iterator[None]:
    """Progress and our own warnings go to stderr; the libraries' chatter goes nowhere.

    stdout is kept for the result, so that `--json` can be piped.
    """
    from datasets.utils import logging as datasets_logging
    from transformers.utils import logging as transformers_logging

    verbosity = transformers_logging.get_verbosity()
    handler = RichHandler(console=Console(stderr=True), show_time=False, show_path=False)
    logger = logging.getLogger("maskwright")
    logger.addHandler(handler)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    datasets_logging.disable_progress_bar()
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning)
            warnings.filterwarnings("ignore", category=UserWarning, module=r"torch\..*")
            yield
    finally:
        datasets_logging.enable_progress_bar()
        transformers_logging.enable_progress_bar()
        transformers_logging.set_verbosity(verbosity)
        logger.removeHandler(handler)


def show(title: str, rows: Mapping[str, str], *, as_json: bool, result: Mapping[str, Any]) -> None:
    """The result: `rows` as a table for people, or `result` as one JSON object."""
    if as_json:
        print(json.dumps(result, ensure_ascii=False))
        return
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in rows.items():
        table.add_row(f"[bold]{name}[/bold]", value)
    Console().print(table)


def count(counts: Mapping[str, int]) -> str:
    """`{"train": 1200, "dev": 30}` as `train 1,200 · dev 30`."""
    return " · ".join(f"{name} {n:,}" for name, n in counts.items())


def calibration(scores: Mapping[str, Any]) -> str:
    """The three scores of a calibration in one line."""
    return f"ECE {scores['ece']:.4f} · Brier {scores['brier']:.4f} · NLL {scores['nll']:.4f}"
