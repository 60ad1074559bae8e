"""`maskwright tasks`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from maskwright.cli.options import Parser
from maskwright.cli.terminal import count, working

if TYPE_CHECKING:
    from maskwright.data.tasks.registry import OnDisk

_WIDE = 110  # columns from which there is room for a description
_SPLITS = ("train", "dev", "test")


def build_parser() -> Parser:
    """Where to look for the tasks' files, and `--json`."""
    parser = Parser("tasks")
    parser.add_argument(
        "--data", type=str, default=None, help="a task's folder or zip, or a folder of such, to look in"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list, one object a task")
    return parser


def run(options: Namespace) -> int:
    """Print the tasks, and with `--data` what is there of each."""
    with working():
        from maskwright.data.tasks.registry import describe_tasks, folders_of_tasks, tasks_on_disk

        found = {} if options.data is None else tasks_on_disk(options.data)
    tasks = describe_tasks()
    if options.json:
        if options.data is not None:
            tasks = [
                task | {"on_disk": asdict(found[task["name"]]) if task["name"] in found else None} for task in tasks
            ]
        print(json.dumps(tasks, ensure_ascii=False))
        return 0
    console = Console()
    console.print(_table(tasks, is_wide=console.width >= _WIDE))
    console.print("\nSizes are the official numbers of rows; in cloze a row has several blanks.")
    if options.data is None:
        console.print("`maskwright tasks --data FOLDER` also says which of them are there.")
        return 0
    if not found:
        nearer = " or ".join(str(folder) for folder in folders_of_tasks(options.data))
        hint = f"; look in {nearer}" if nearer else ""
        console.print(f"\nNone of them is in {escape(options.data + hint)}.", soft_wrap=True)  # paths stay whole
        return 0
    console.print()
    console.print(_disk_table(options.data, found))
    return 0


def _table(tasks: list[dict[str, Any]], *, is_wide: bool) -> Table:
    table = Table(box=None, padding=(0, 2 if is_wide else 1, 0, 0))
    for heading in ("task", "", "kind"):
        table.add_column(heading, no_wrap=True)
    for heading in ("labels", *_SPLITS):
        table.add_column(heading, no_wrap=True, justify="right")
    table.add_column("metrics", max_width=21)
    if is_wide:
        table.add_column("what it asks", ratio=1)
    for task in tasks:
        sizes = [f"{task['sizes'][split]:,}" if split in task["sizes"] else "-" for split in _SPLITS]
        row = [task["name"], task["language"], task["kind"], str(task["n_labels"] or "-"), *sizes]
        table.add_row(*row, ", ".join(task["metrics"]), *([escape(task["description"])] if is_wide else []))
    return table


def _disk_table(folder: str, found: Mapping[str, OnDisk]) -> Table:
    table = Table(title=f"In {escape(folder)}", title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("task", no_wrap=True)
    table.add_column("examples")
    table.add_column("skipped or mended")
    for name, disk in found.items():
        if disk.error is not None:
            table.add_row(name, f"[red]{escape(disk.error)}[/red]", "")
        else:
            table.add_row(name, count(disk.n_examples), escape(count({**disk.skipped, **disk.mended})))
    return table
