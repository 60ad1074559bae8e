"""A sweep's summary as files: JSON, CSV, Markdown, and plots of what there is to plot."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from maskwright.training.runs import write_json
from maskwright.training.sweep.compare import CONFIDENCE
from maskwright.training.sweep.plot import draw_differences, draw_drop_rates
from maskwright.training.sweep.summary import LEVEL, Row, Summary, in_words, label_of, unit_of

# File -> its heading, and what draws it and says whether there was anything to draw.
PLOTS = {
    "differences.png": ("Intervals of the differences", draw_differences),
    "drop_rate.png": ("Score against drop rate", draw_drop_rates),
}


def write_summary(root: Path, summary: Summary) -> None:
    """Write summary.json, summary.csv, summary.md, and of differences.png and drop_rate.png what has data."""
    write_json(root / "summary.json", summary)
    with (root / "summary.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(summary["rows"][0]))
        writer.writeheader()
        writer.writerows(summary["rows"])
    drawn = [name for name, (_, draw) in PLOTS.items() if draw(summary, root / name)]
    for name in set(PLOTS).difference(drawn):
        (root / name).unlink(missing_ok=True)
    (root / "summary.md").write_text(as_markdown(summary, drawn), encoding="utf-8")


def as_markdown(summary: Summary, plots: Sequence[str] = ()) -> str:
    """The summary for people: findings in words, scores, differences, cost, `plots` (of PLOTS), and what failed."""
    rows: list[Row] = summary["rows"]
    units = {task: unit_of([row for row in rows if row["task"] == task]) for task in summary["tasks"]}
    parts = [f"# Sweep: {len(summary['tasks'])} tasks, {len(summary['variants'])} variants", ""]
    parts += [f"- {_plain(sentence)}" for sentence in in_words(summary)]
    parts += ["", f"{summary['n_done']} of {summary['n_cells']} cells done, {summary['n_failed']} failed.", ""]
    parts += ["## Scores", "", f"On {summary['split']}: mean ± standard deviation over seeds (number of seeds).", ""]
    by_place = {(row["task"], row["variant"]): row for row in rows}
    heads = [f"{task} ({_metric(rows, task)})" for task in summary["tasks"]]
    scores = [
        [variant, *(score_text(by_place[task, variant], units[task]) for task in summary["tasks"])]
        for variant in summary["variants"]
    ]
    parts += [_table(["variant", *heads], scores), "", f"## Differences to {_plain(summary['baseline'])}", ""]
    parts += [
        f"From pairs of the same seed, with a {CONFIDENCE:.0%} interval; p of a paired t-test, and corrected by Holm "
        f"for all comparisons of this table. A difference counts if the corrected p is below {LEVEL:g}.",
        "",
    ]
    compared = [row for row in rows if row["variant"] != summary["baseline"]]
    parts += [
        _table(
            ["task", "variant", "difference", "interval", "p", "p (Holm)", "verdict"],
            [[row["task"], row["variant"], *difference_texts(row, units[row["task"]])] for row in compared],
        )
    ]
    totals = [
        [str(total[name]) for name in ("variant", "win", "tie", "loss", "untested")] for total in summary["totals"]
    ]
    parts += [
        "",
        "## Over all tasks",
        "",
        _table(["variant", "better", "no difference", "worse", "not tested"], totals),
    ]
    parts += ["", "## Cost", "", _cost_note(summary), ""]
    parts += [_table(["task", "variant", "training s", "real tokens/s", "speed"], [_cost(row) for row in rows])]
    for name in plots:
        heading, _ = PLOTS[name]
        parts += ["", f"## {heading}", "", f"![{heading}]({name})"]
    if failures := grouped_failures(summary):
        parts += ["", "## Failed", ""]
        parts += [f"- {_plain(name)}: {_plain(error)}" for name, error in failures]
    return "\n".join(parts) + "\n"


def score_text(row: Row, unit: float) -> str:
    """Mean ± standard deviation (number of seeds), or "-" for what was not run."""
    if row["mean"] is None:
        return "-"
    spread = "" if row["std"] is None else f" ± {unit * row['std']:.2f}"
    return f"{unit * row['mean']:.2f}{spread} ({row['n_seeds']})"


def difference_texts(row: Row, unit: float) -> list[str]:
    """Difference, its interval, p, corrected p and verdict, "-" for what there is none of."""
    if row["difference"] is None:
        return ["-", "-", "-", "-", row["verdict"]]
    interval = "-" if row["low"] is None else f"{unit * row['low']:+.2f} to {unit * row['high']:+.2f}"
    p_values = ["-" if row[name] is None else f"{row[name]:.3f}" for name in ("p", "p_holm")]
    return [f"{unit * row['difference']:+.2f}", interval, *p_values, row["verdict"]]


def grouped_failures(summary: Summary) -> list[tuple[str, str]]:
    """Which cells failed and why, cells with the same reason together."""
    by_error: dict[str, list[str]] = {}
    for cell in summary["cells"]:
        if cell["status"] == "failed":
            by_error.setdefault(cell["error"], []).append(f"{cell['task']}, {label_of(cell)}, seed {cell['seed']}")
    return [
        (names[0] if len(names) == 1 else f"{names[0]}, and {len(names) - 1} more", error)
        for error, names in by_error.items()
    ]


def _cost(row: Row) -> list[str]:
    train_s = "-" if row["train_s"] is None else f"{row['train_s']:.1f}"
    rate = "-" if row["tokens_per_s"] is None else f"{row['tokens_per_s']:,.0f}"
    speed = "-" if row["speedup"] is None else f"{row['speedup']:.2f}x"
    return [row["task"], row["variant"], train_s, rate, speed]


def _cost_note(summary: Summary) -> str:
    note = (
        "Wall-clock of training, evaluation while training included; speed is the baseline's time over the variant's."
    )
    if summary["processes"] > 1:
        note += f" Up to {summary['processes']} cells ran at once and slowed one another: small ratios say little."
    return note


def _metric(rows: Sequence[Row], task: str) -> str:
    return next((row["metric"] for row in rows if row["task"] == task and row["metric"]), "no result")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(_plain(cell) for cell in line)} |" for line in lines)


def _plain(text: str) -> str:
    # Error messages may hold anything.
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
