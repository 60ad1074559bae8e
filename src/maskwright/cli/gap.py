"""`maskwright gap`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse import Namespace
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from maskwright.cli.options import Parser
from maskwright.cli.terminal import working

if TYPE_CHECKING:
    from maskwright.training.gap.report import GapReport

NOISES = ("mlm", "mae", "droptoken")
BOUNDARIES = ("blank_line", "line", "file")
_HELP = """The average of the model's states over many draws of noise stands for the networks that were pretrained; the
model without noise is what people fine-tune. With mlm noise, the model with corrected embeddings is compared too.
Distances are in units of the spread of the averaged states: 1 = as far off as the states are from their mean."""


def build_parser() -> Parser:
    """MODEL, TEXT, noise and sizes."""
    parser = Parser("gap")
    parser.usage = "maskwright gap MODEL TEXT [TEXT ...] [options]"
    parser.description = f"{parser.description}\n\n{_HELP}"
    add = parser.add_argument
    own = "(default: the run's own, if maskwright pretrained it; else"
    add("model", metavar="MODEL", type=str, help="local folder or hub name; of a task model the encoder is measured")
    add("text", metavar="TEXT", nargs="+", type=str, help="files, globs or folders of text, JSONL or Parquet")
    add("--noise", choices=NOISES, help=f"tokens replaced, a fixed share hidden, each dropped {own} mlm)")
    add("--rates", nargs="+", type=float, default=[0.15, 0.3, 0.5, 0.75], help="of the noise")
    add("--shares", type=float, nargs=3, help=f"for mlm: became [MASK], stayed, became random {own} 0.8 0.1 0.1)")
    add("--draws", type=int, default=64, help="draws of noise for each text and rate")
    add("--texts", type=int, default=200, help="texts at most, drawn at random")
    add("--boundary", choices=BOUNDARIES, default="blank_line", help="where documents of plain text end")
    add("--text_column", type=str, default="text", help="of JSONL and Parquet")
    add(
        "--max_length", type=int | None, default=None, help="tokens of a text at most (default: the model's, up to 128)"
    )
    add("--max_tokens_per_batch", type=int, default=4096, help="real tokens; changes speed and memory only")
    add("--seed", type=int, default=0, help="of texts, noise and intervals")
    add("--output", type=str, default="gap", help="folder of gap.json, gap.md and gap.png")
    add("--json", action="store_true", help="print the result as JSON on stdout, all else on stderr")
    return parser


def run(options: Namespace) -> int:
    """Measure, write the files, and say what it comes to."""
    with working():
        from maskwright.training.gap.report import run_gap
        from maskwright.training.gap.write import write_report

        report = run_gap(
            options.model,
            options.text,
            noise=options.noise,
            rates=options.rates,
            shares=options.shares,
            n_draws=options.draws,
            n_texts=options.texts,
            boundary=options.boundary,
            text_column=options.text_column,
            max_length=options.max_length,
            max_tokens=options.max_tokens_per_batch,
            seed=options.seed,
        )
        write_report(report, Path(options.output))
    if options.json:
        print(json.dumps(report.to_dict(), ensure_ascii=False))
    else:
        _print(report, options.output)
    return 0


def _print(report: GapReport, output: str) -> None:
    console = Console()
    console.print(
        f"[bold]{escape(report.model)}[/] under {report.noise}: {report.n_texts} texts, {report.n_tokens:,} tokens, "
        f"{report.n_draws} draws a text and rate\n",
        highlight=False,
    )
    references = list(dict.fromkeys(row.reference for row in report.rows))
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(" / ".join(references) if len(references) > 1 else "")
    rates = list(dict.fromkeys(row.rate for row in report.rows))
    for rate in rates:
        table.add_column(f"{rate:g}", justify="right")
    all_tokens = [row for row in report.rows if row.tokens == "all"]
    cells = {(row.where, row.rate, row.reference): f"{row.distance:.3f}" for row in all_tokens}
    for where in dict.fromkeys(row.where for row in all_tokens):
        table.add_row(where, *(" / ".join(cells.get((where, rate, r), "-") for r in references) for rate in rates))
    console.print(table)
    for sentence in report.summary:
        console.print(f"\n{escape(sentence)}", highlight=False)
    console.print(f"\nwrote gap.json, gap.md and gap.png to {escape(output)}", highlight=False)
