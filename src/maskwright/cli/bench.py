"""`maskwright bench`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from jsonargparse import Namespace
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from maskwright.cli.options import Parser
from maskwright.cli.terminal import working

if TYPE_CHECKING:
    from maskwright.training.bench.measure import Measurement
    from maskwright.training.bench.report import BenchReport

_LABELS = {
    "random": "stock, random order",
    "grouped": "stock, grouped by length",
    "packed": "packed, random order",
}
_BAR = 40
_BUSY = 0.5  # threads


def build_parser() -> Parser:
    """MODEL and DATA, and a few options."""
    parser = Parser("bench")
    parser.usage = "maskwright bench MODEL DATA [options]"
    add = parser.add_argument
    add("model", metavar="MODEL", help="a local folder, a hub name, or a model type with random weights, e.g. bert")
    add("data", metavar="DATA", help="texts, one a line; JSONL, CSV, TSV or Parquet; a task's folder; or 'sample'")
    add("--task", type=str | None, default=None, help="the known task that DATA is the folder or zip of, e.g. tnews")
    add("--text_column", type=str, default="text", help="column of the text, if DATA is a table")
    add("--tokenizer", type=str | None, default=None, help="tokenizer folder or hub name (default: the model's)")
    add("--max_length", type=int | None, default=None, help="longest text in tokens (default: the model's)")
    add("--batch_size", type=int, default=16, help="rows a step; lowered where the time would not do")
    add("--bf16", action="store_true", help="compute in bfloat16 (weights stay float32)")
    add("--seconds", type=float, default=50.0, help="about how long to measure")
    add("--seed", type=int, default=0, help="seed of the choice and order of texts")
    add("--json", action="store_true", help="print the result as JSON on stdout, all else on stderr")
    return parser


def run(options: Namespace) -> int:
    """Measure, then say in words or JSON what packing would save."""
    with working():
        from maskwright.training.bench.report import run_bench

        console = Console(stderr=True)
        with console.status("importing") as status:
            report = run_bench(
                options.model,
                options.data,
                task=options.task,
                text_column=options.text_column,
                tokenizer=options.tokenizer,
                max_length=options.max_length,
                batch_size=options.batch_size,
                bf16=options.bf16,
                seconds=options.seconds,
                seed=options.seed,
                on_stage=status.update,
            )
    if options.json:
        print(json.dumps(asdict(report), ensure_ascii=False))
    else:
        _print(report)
    return 0


def _print(report: BenchReport) -> None:
    console = Console()
    lengths, result = report.lengths, report.measurement
    console.print(
        f"[bold]model[/]    {escape(report.model)}: {result.n_parameters / 1e6:.1f}M parameters, {result.dtype}"
    )
    versions = ", ".join(f"{name} {report.environment[name]}" for name in ("maskwright", "torch", "transformers"))
    console.print(f"[bold]machine[/]  {result.device}, threads: {result.n_threads}; {versions}")
    sampled = "" if lengths.n_texts == report.n_texts_in_data else f"{lengths.n_texts:,} of "
    console.print(f"[bold]texts[/]    {sampled}{report.n_texts_in_data:,} from {escape(report.data)}")
    console.print(
        f"         tokens: mean {lengths.mean:.0f}, median {lengths.median:.0f}, 95% up to {lengths.p95:.0f}, "
        f"longest {lengths.longest}; {lengths.n_truncated} cut to {lengths.max_length}\n"
    )
    most = max(n for _, _, n in lengths.histogram)
    for low, high, n in lengths.histogram:
        console.print(f"  {low:>5}-{high:<5} {'█' * round(_BAR * n / most)} {n}", highlight=False)
    console.print(
        f"\n[bold]padding[/]  in batches of {report.batch_size}: {report.padding['random']:.1%} of the slots in random "
        f"order, {report.padding['grouped']:.1%} grouped by length\n"
    )
    console.print(_figures(report.measurement))
    where = " on the GPU" if result.device == "cuda" else ""
    console.print(
        f"\nMedians of {result.n_rounds['train']} (training) and {result.n_rounds['embed']} (embedding) passes, the "
        f"three variants in turn, over the same {result.n_tokens:,} tokens in {result.n_batches} batches of "
        f"{result.batch_size}. Padding does not count as tokens. Peak memory{where} is of a process of its own with "
        "the largest batch.\n"
    )
    if result.batch_size < report.batch_size:
        console.print(
            f"To keep to the time, batches have {result.batch_size} rows in place of {report.batch_size}; larger ones "
            "hold more padding, so packing would save more. A larger --seconds measures them.\n"
        )
    if report.load_before > _BUSY:
        console.print(
            f"[yellow]Other programs kept {report.load_before:.1f} threads busy when this began: do not rely on the "
            "times. Measure again on a quiet machine.[/]\n"
        )
    console.print(f"[bold]{report.verdict}[/]")


def _figures(result: Measurement) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for heading in ("train ms/step", "tokens/s", "peak MB", "embed ms/step", "tokens/s", "peak MB"):
        table.add_column(heading, justify="right")
    for variant, label in _LABELS.items():
        figures = (result.train[variant], result.embed[variant])
        cells = ((f"{f.step_s * 1e3:,.1f}", f"{f.tokens_per_s:,.0f}", f"{f.peak_bytes / 2**20:,.0f}") for f in figures)
        table.add_row(label, *(cell for row in cells for cell in row))
    return table
