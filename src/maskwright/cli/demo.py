"""`maskwright demo`."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse import Namespace
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from maskwright.cli.demo_audit import audit_demo, show_audits
from maskwright.cli.options import Parser
from maskwright.cli.terminal import working

if TYPE_CHECKING:
    from maskwright.training.demo import DemoResult


def build_parser() -> Parser:
    """Where the results go; the job itself is fixed."""
    parser = Parser("demo")
    parser.add_argument("--output_dir", type=str, default="demo", help="where everything is written")
    parser.add_argument("--json", action="store_true", help="print the result as JSON on stdout, all else on stderr")
    return parser


def run(options: Namespace) -> int:
    """Run the job and print what it came to."""
    screen, folder = Console(stderr=True), Path(options.output_dir)
    with working():
        from maskwright.training.demo import N_STAGES, run_demo

        number = itertools.count(1)

        def tell(line: str) -> None:
            screen.print(f"[bold]{next(number)}/{N_STAGES + 1} {line}[/bold]")

        result = run_demo(folder, tell=tell)
        tell("auditing the packed model, and the same with a fault planted: one layer forgets the mask")
        audits = audit_demo(folder)
    if options.json:
        audited = {"audit": [found.to_dict() for found in audits]}
        print(json.dumps(result.to_dict() | audited, ensure_ascii=False))
        return 0
    console = Console()
    console.print(_pretraining(result))
    console.print(_fine_tuning(result))
    console.print(_worth(result))
    for sample in result.samples:
        mark = "right" if sample["gold"] == sample["predicted"] else f"gold: {sample['gold']}"
        console.print(
            f"[bold]{escape(sample['predicted'])}[/bold] {sample['probability']:.0%} ({escape(mark)})  "
            f"{escape(' '.join(sample['text'].split())[:40])}…"
        )
    show_audits(console, audits, folder)
    console.print(
        f"\nAll in {escape(result.folder)}/: tokenizer, pretrained-mlm, pretrained-mae, packed (models that "
        "from_pretrained loads), packed-after-mae, packed-from-random, packed-droptoken, stock, predictions.jsonl, "
        f"demo.json, audit. `maskwright report {escape(result.folder)}` shows it as one page."
    )
    return 0


def _table(title: str, *columns: str) -> Table:
    table = Table("run", title=title, title_justify="left")
    for name in columns:
        table.add_column(name, justify="right")
    return table


def _pretraining(result: DemoResult) -> Table:
    guess = result.pretrained["mlm"].frequency_loss
    beside = "" if guess is None else f" (guessing by frequency: {guess:.2f})"
    table = _table(f"Pretraining, from random weights, equal time{beside}", "masked loss", "tokens/s", "steps", "time")
    names = {"mlm": "MLM, 15% masked", "mae": "MAE, 75% removed"}
    for objective, done in result.pretrained.items():
        loss = "-" if done.eval_loss is None else f"{done.eval_loss:.2f}"
        row = (loss, f"{done.tokens_per_s:,.0f}", f"{done.n_steps:,}", f"{done.train_s:.0f} s")
        table.add_row(names[objective], *row)
    return table


def _fine_tuning(result: DemoResult) -> Table:
    table = _table(
        "Fine-tuning to 25 topics of Chinese documentation (real tokens, padding not counted)",
        "accuracy",
        "tokens/s",
        "padding avoided",
        "speed",
        "time",
    )
    runs = {"MLM, packed": result.packed, "MAE, packed": result.after_mae}
    runs |= {"random weights": result.from_random}
    runs |= {"MLM, DropToken 0.1": result.dropped, "MLM, not packed": result.stock}
    for name, done in runs.items():
        accuracy = done.metrics.get("test_accuracy")
        table.add_row(
            name,
            f"{accuracy:.1%}" if accuracy is not None else f"({done.n_steps} steps)",
            f"{done.tokens_per_s:,.0f}",
            f"{done.padding_avoided:.0%}",
            f"{done.tokens_per_s / result.stock.tokens_per_s:.2f}x",
            f"{done.train_s:.0f} s",
        )
    return table


def _worth(result: DemoResult) -> str:
    """What the pretraining was worth, in points of accuracy; a minute of it is for show."""
    scratch, *pretrained = (
        100 * run.metrics["test_accuracy"] for run in (result.from_random, result.packed, result.after_mae)
    )
    gains = " and ".join(f"{value - scratch:+.1f} points" for value in pretrained)
    return (
        f"MLM and MAE against random weights: {gains}, of which 2 or so are noise. Pretraining for a minute shows "
        "how it is done, not what it is worth."
    )
