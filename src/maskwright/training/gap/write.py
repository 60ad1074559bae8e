"""A report as files: gap.json, gap.md, gap.png."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from maskwright.training.gap.chart import draw
from maskwright.training.gap.report import GapReport, GapRow
from maskwright.training.gap.words import number


def write_report(report: GapReport, folder: Path) -> None:
    """Write the three files, in place of older ones."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report.to_dict(), ensure_ascii=False, indent=1)
    (folder / "gap.json").write_text(text + "\n", encoding="utf-8")
    (folder / "gap.md").write_text(page(report), encoding="utf-8")
    draw(report.rows, folder / "gap.png")


def page(report: GapReport) -> str:
    """The report in Markdown."""
    facts = [f"{report.n_texts} texts, {report.n_tokens:,} tokens", f"{report.n_draws} draws a text and rate"]
    facts += [f"longest text {report.max_length} tokens, {report.n_truncated} cut", f"seed {report.seed}"]
    if report.n_too_short:
        facts.append(f"{report.n_too_short} too short")
    if report.shares is not None:
        facts.append("[MASK], same, random: " + ", ".join(f"{share:g}" for share in report.shares))
    facts += [f"{name} {report.environment[name]}" for name in ("maskwright", "torch", "transformers")]
    parts = [
        f"# Gap of {report.model} under {report.noise}",
        ", ".join(facts),
        "\n".join(f"- {sentence}" if i else f"{sentence}\n" for i, sentence in enumerate(report.summary)),
        "![distance by layer](gap.png)",
        table([row for row in report.rows if row.tokens == "all"]),
    ]
    intact = [row for row in report.rows if row.tokens == "intact"]
    if intact:
        parts += ["Each token over the draws that leave it as it is:", table(intact)]
    parts.append(
        "Root mean square distance between the vectors of the average over draws and of the model without noise, as a "
        "multiple of the root mean square distance of the averaged vectors from their mean; in brackets the 95% "
        "interval over texts and draws. Layer 0 is the embeddings."
    )
    return "\n\n".join(parts) + "\n"


def table(rows: Sequence[GapRow]) -> str:
    """A line for each place, a column for each rate and reference."""
    columns = list(dict.fromkeys((row.rate, row.reference) for row in rows))
    several = len({reference for _, reference in columns}) > 1
    cells = {(row.where, row.rate, row.reference): number(row.distance, row.low, row.high) for row in rows}
    head = [f"{rate:g}, {reference}" if several else f"{rate:g}" for rate, reference in columns]
    lines = ["| | " + " | ".join(head) + " |", "|---|" + "---|" * len(head)]
    for where in dict.fromkeys(row.where for row in rows):
        lines.append(f"| {where} | " + " | ".join(cells.get((where, *column), "") for column in columns) + " |")
    return "\n".join(lines)
