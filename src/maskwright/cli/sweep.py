"""`maskwright sweep`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import Namespace
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from maskwright.cli.options import Parser, config_parser, read_config
from maskwright.cli.terminal import working
from maskwright.errors import InputError
from maskwright.training.sweep.config import SweepConfig, study

_HELP = """CONFIG is a YAML file of the options below, or the name of a study that comes with maskwright: averaging,
correction or droptoken (`maskwright sweep droptoken --print_config` shows it, as a start for your own).

Options of cells can be changed on the command line too: --base.learning_rate 1e-4, --tasks.tnews.limit_train 2000,
--variants.drop.drop_rate 0.2. The same command again goes on where it stopped."""

_TABLES = ("tasks", "variants", "evaluations")
_NESTED = re.compile(rf"--({'|'.join(_TABLES)})\.(.+)\.([^.]+)")  # names may have dots, options have none
_INTERRUPTED = 130
_COLOURS = {"better": "green", "worse": "red"}


class _SweepParser(Parser):
    """Takes CONFIG as the first word, and options of one task, variant or evaluation."""

    def parse_args(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Namespace:
        words = list(sys.argv[1:] if args is None else args)
        if words and not words[0].startswith("-"):
            words[:1] = ["--config", str(study(words[0]))]
        words, changes = _split_nested(words)
        if changes:
            # Only whole tables can be handed over, so those of the file are read first.
            found = super().parse_args([word for word in words if not word.startswith("--print_config")])
            for table in dict.fromkeys(table for table, *_ in changes):
                value = {str(name): dict(entry or {}) for name, entry in found[table].items()}
                for place, name, option, text in changes:
                    if place == table:
                        if name not in value:
                            raise InputError(f"there is no '{name}', only {', '.join(value)}", f"--{table}.{name}")
                        value[name][option] = yaml.safe_load(text)
                words += [f"--{table}", json.dumps(value)]
        return super().parse_args(words, *rest, **options)


def build_parser() -> Parser:
    """CONFIG, and one option a field of `SweepConfig`."""
    parser = config_parser("sweep", SweepConfig, _SweepParser)
    parser.usage = "maskwright sweep CONFIG [options]"
    parser.description = f"{parser.description}\n\n{_HELP}"
    parser.add_argument("--summary", action="store_true", help="sum up what has been run, and run nothing")
    return parser


def run(options: Namespace) -> int:
    """Run what is left of the sweep, then print what it came to; 1 if a cell failed."""
    config = read_config(SweepConfig, options)
    screen = Console(stderr=True)
    try:
        with working():
            from maskwright.training.sweep.run import run_sweep, sum_up

            def tell(line: str) -> None:
                screen.print(escape(line), highlight=False, soft_wrap=True)

            if options.summary:
                summary = sum_up(config, tell)
            else:
                with screen.status("starting") as status:
                    summary = run_sweep(config, tell, lambda line: status.update(escape(line)))
    except KeyboardInterrupt:
        screen.print("\nmaskwright: stopped; the same command goes on from here", highlight=False)
        return _INTERRUPTED
    if options.json:
        print(json.dumps(summary, ensure_ascii=False))
    else:
        _print(summary, Path(config.output_dir))
    return 1 if summary["n_failed"] else 0


def _split_nested(words: Sequence[str]) -> tuple[list[str], list[tuple[str, str, str, str]]]:
    """The words without `--TABLE.NAME.OPTION VALUE`, and those as (table, name, option, text of the value)."""
    kept: list[str] = []
    changes = []
    rest = iter(words)
    for word in rest:
        path, is_joined, joined = word.partition("=")
        if (match := _NESTED.fullmatch(path)) is None:
            kept.append(word)
            continue
        if (text := joined if is_joined else next(rest, None)) is None:
            raise InputError("a value is missing", word)
        changes.append((match[1], match[2], match[3], text))
    return kept, changes


def _print(summary: dict[str, Any], folder: Path) -> None:
    from maskwright.training.sweep.summary import in_words, unit_of
    from maskwright.training.sweep.write import difference_texts, grouped_failures, score_text

    console = Console()
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("task", "variant"):
        table.add_column(heading)
    for heading in ("mean ± std (seeds)", "difference", "p (Holm)", "speed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for task in summary["tasks"]:
        rows = [row for row in summary["rows"] if row["task"] == task]
        unit = unit_of(rows)
        for number, row in enumerate(rows):
            difference, _, _, p_holm, verdict = difference_texts(row, unit)
            style = _COLOURS.get(verdict)
            speed = "-" if row["speedup"] is None else f"{row['speedup']:.2f}x"
            table.add_row(
                escape(task) if number == 0 else "",
                escape(row["variant"]),
                score_text(row, unit),
                f"[{style}]{difference}[/]" if style else difference,
                p_holm,
                speed,
                end_section=number == len(rows) - 1,
            )
    console.print(table)
    console.print()
    for sentence in in_words(summary):
        console.print(escape(sentence), highlight=False)
    failures = grouped_failures(summary)
    for name, error in failures:
        console.print(f"[red]failed:[/] {escape(name)}: {escape(error)}", highlight=False)
    if failures:
        console.print("The same command tries what failed again.")
    left = summary["n_cells"] - summary["n_done"] - summary["n_failed"]
    counts = f"{summary['n_done']} of {summary['n_cells']} cells done" + (f", {left} not run" if left else "")
    console.print(f"\n{counts}; all in {escape(str(folder))}/: summary.md, summary.csv, summary.json, cells/")
