"""Fine-tuning runs: scores, curves, speed against score, score against drop rate, reliability."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from maskwright.report.blocks import Chart, Part, Point, Section, Series, Table
from maskwright.report.kinds.base import Kind
from maskwright.report.kinds.runs import (
    Run,
    counts_table,
    curves,
    drawn,
    notes,
    of_split,
    options_part,
    pictures_part,
    read_run,
)
from maskwright.report.records import Source, rows_of, table_of
from maskwright.report.values import count, duration, number, show

_TIMING = ("_runtime", "_per_second", "_steps", "_model_preparation_time")
_LOWER_IS_BETTER = re.compile(r"_(loss|mse|mae)$")


def section(sources: Sequence[Source]) -> Section:
    """All fine-tuning runs of the page."""
    runs = [read_run(source) for source in sources]
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[_data(run)].append(run)
    scores = dict.fromkeys(name for run in runs for name in _scores(run))
    held_out = dict.fromkeys(
        name for run in runs for record in run.logged for name in record if name.startswith("eval_")
    )
    watched = [name for name in held_out if not name.endswith(_TIMING)]
    parts = [
        Part("Results", [_results(runs, scores), *drawn(_comparisons(groups))]),
        Part(
            "Curves",
            drawn(
                [
                    curves("Training loss", "loss", "loss", runs),
                    *(curves(f"Held-out {_plain(name)}", _plain(name), name, runs) for name in watched),
                ]
            ),
        ),
        _calibration(runs),
        pictures_part(runs),
        Part("Data", [_examples(runs)]),
        options_part(runs),
    ]
    return Section("Fine-tuning", _words(runs, groups), notes(runs), parts)


def _words(runs: Sequence[Run], groups: dict[str, list[Run]]) -> list[str]:
    unfinished = sum(not run.results for run in runs)
    words = [f"{count(len(runs), 'fine-tuning run')}{f', {unfinished} of them not finished' if unfinished else ''}."]
    for data, members in groups.items():
        key = _score_key(members)
        scored = [(run, value) for run in members if (value := _scores(run).get(key)) is not None]
        if not scored:
            continue
        if len(scored) == 1:
            words.append(
                f"On {data}, {scored[0][0].name} reaches {_plain(key)} {show(scored[0][1])}{_cost(*scored[0])}."
            )
            continue
        lower = _LOWER_IS_BETTER.search(key) is not None
        order = sorted(scored, key=lambda pair: pair[1], reverse=not lower)
        (best, top), (worst, bottom) = order[0], order[-1]
        words.append(
            f"On {data}, {_plain(key)} lies between {show(bottom)} ({worst.name}) and {show(top)} ({best.name}, best)."
        )
        fast = [(run, speed) for run, _ in scored if (speed := number(run.results.get("tokens_per_s")))]
        if len(fast) > 1:
            (slow, low), *_, (quick, high) = sorted(fast, key=lambda pair: pair[1])
            words.append(
                f"{quick.name} trains on {high:,.0f} real tokens a second, {high / low:.2g} times those of {slow.name}."
            )
        words.append("A run's score also depends on its seed: small differences between single runs mean little.")
    return words


def _cost(run: Run, _: float) -> str:
    seconds = number(run.results.get("train_s"))
    speed = number(run.results.get("tokens_per_s"))
    time = f" after {duration(seconds)} of training" if seconds else ""
    return time + (f" at {speed:,.0f} real tokens a second" if speed else "")


def _results(runs: Sequence[Run], scores: Iterable[str]) -> Table:
    columns: dict[str, Any] = {
        "state": lambda run: run.state,
        "data": _data,
        "drop rate": lambda run: run.config.get("drop_rate"),
        "seed": lambda run: run.config.get("seed"),
    }
    for name in scores:
        columns[_plain(name)] = lambda run, name=name: _scores(run).get(name)
    columns |= {
        "real tokens/s": lambda run: number(run.results.get("tokens_per_s")),
        "padding avoided": lambda run: number(run.results.get("padding_avoided")),
        "training (s)": lambda run: number(run.results.get("train_s")),
        "steps": lambda run: run.results.get("n_steps"),
        "real tokens": lambda run: run.results.get("n_tokens"),
    }
    return counts_table(runs, columns, "Runs")


def _examples(runs: Sequence[Run]) -> Table:
    columns = {
        "examples": lambda run: of_split(run.results.get("n_examples")),
        "cut to fit": lambda run: of_split(run.results.get("n_truncated")),
        "longest text (tokens)": lambda run: run.results.get("max_length"),
        "skipped": lambda run: of_split(run.results.get("skipped")),
    }
    return counts_table(runs, columns, "Examples")


def _comparisons(groups: dict[str, list[Run]]) -> Iterable[Chart]:
    for data, runs in groups.items():
        key = _score_key(runs)
        scored = [(run, value) for run in runs if (value := _scores(run).get(key)) is not None]
        if len(scored) < 2:
            continue
        where = f" on {data}" if len(groups) > 1 else ""
        by_rate: dict[float, list[float]] = defaultdict(list)
        for run, value in scored:
            by_rate[number(run.config.get("drop_rate")) or 0.0].append(value)
        if len(by_rate) > 1:
            title = f"{_plain(key)} against drop rate{where}"
            points = [_mean(rate, values) for rate, values in sorted(by_rate.items())]
            errors = "one standard deviation over runs"
            yield Chart(title, "DropToken rate", _plain(key), [Series("mean of runs", points)], errors=errors)
        speeds = [(run, number(run.results.get("tokens_per_s")), value) for run, value in scored]
        series = [Series(run.name, [Point(speed, value)]) for run, speed, value in speeds if speed is not None]
        yield Chart(f"Speed against {_plain(key)}{where}", "real tokens/s", _plain(key), series, joined=False)


def _mean(rate: float, values: Sequence[float]) -> Point:
    mean = fmean(values)
    if len(values) < 2:
        return Point(rate, mean)
    return Point(rate, mean, mean - stdev(values), mean + stdev(values))


def _calibration(runs: Sequence[Run]) -> Part:
    by_split: dict[str, list[tuple[Run, dict[str, Any]]]] = defaultdict(list)
    for run in runs:
        for split, values in table_of(run.results.get("calibration")).items():
            by_split[split].append((run, table_of(values)))
    rows = [
        [run.name, split, *(number(values.get(name)) for name in ("ece", "brier", "nll"))]
        for split, members in by_split.items()
        for run, values in members
    ]
    charts, bins = [], []
    for split, members in by_split.items():
        series = []
        for run, values in members:
            filled = [row for row in rows_of(values.get("bins")) if number(row.get("n"))]
            pairs = [(number(row.get("confidence")), number(row.get("accuracy"))) for row in filled]
            series.append(Series(run.name, [Point(x, y) for x, y in pairs if x is not None and y is not None]))
            names = ("low", "high", "n", "confidence", "accuracy")
            bins += [[run.name, split, *(row.get(name) for name in names)] for row in filled]
        charts.append(
            Chart(
                f"Reliability on {split}", "mean confidence", "share correct", series, diagonal="perfectly calibrated"
            )
        )
    if not rows:
        return Part("Calibration", [])
    columns = ["run", "split", "calibration error (ECE)", "Brier score", "negative log-likelihood"]
    table = Table("Calibration", columns, rows, note="Lower is better in all three.")
    columns = ["run", "split", "from", "to", "examples", "mean confidence", "share correct"]
    return Part("Calibration", [table, *drawn(charts), Table("Reliability bins", columns, bins, folded=True)])


def _scores(run: Run) -> dict[str, float]:
    values = {name: number(value) for name, value in table_of(run.results.get("metrics")).items()}
    return {name: value for name, value in values.items() if value is not None and not name.endswith(_TIMING)}


def _score_key(runs: Sequence[Run]) -> str:
    """The score that most runs have, the first such one; a loss only where there is nothing else."""
    names = dict.fromkeys(name for run in runs for name in _scores(run))
    return max(
        names, key=lambda name: (not name.endswith("_loss"), sum(name in _scores(run) for run in runs)), default=""
    )


def _data(run: Run) -> str:
    told = run.config.get("task") or run.config.get("train_file")
    return Path(str(told)).name if told else "data not named"


def _plain(name: str) -> str:
    return name.removeprefix("eval_").replace("_", " ")


FINETUNING = Kind(
    "fine-tuning run",
    "metrics.jsonl or results.json",
    lambda folder: any((folder / name).is_file() for name in ("metrics.jsonl", "results.json")),
    section,
)
