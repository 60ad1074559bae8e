"""`maskwright families`."""

from __future__ import annotations

import json
from collections import Counter

from jsonargparse import Namespace
from rich.console import Console
from rich.table import Table

from maskwright.cli.options import Parser
from maskwright.cli.terminal import working

_COLOURS = {"exact": "green", "adapted": "cyan", "refused": "red"}


def build_parser() -> Parser:
    """`--json` alone."""
    parser = Parser("families")
    parser.add_argument("--json", action="store_true", help="print a JSON list of model_type, verdict and note")
    return parser


def run(options: Namespace) -> int:
    """Print the table."""
    with working():
        from maskwright.encoders.families import FAMILIES

    families = FAMILIES.values()
    if options.json:
        rows = [{"model_type": row.model_type, "verdict": row.verdict, "note": row.note} for row in families]
        print(json.dumps(rows))
        return 0
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("model type", "verdict", "how, or why not"):
        table.add_column(heading)
    for row in families:
        table.add_row(row.model_type, f"[{_COLOURS[row.verdict]}]{row.verdict}[/]", row.note)
    console = Console()
    console.print(table)
    counts: Counter[str] = Counter(row.verdict for row in families)
    console.print("\n" + ", ".join(f"{counts[verdict]} {verdict}" for verdict in _COLOURS))
    console.print("A type that is not listed is probed on random tokens before it is packed.")
    return 0
