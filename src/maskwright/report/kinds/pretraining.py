"""Pretraining runs: masked loss against steps, tokens and time; speed; the share of the machine that was used."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maskwright.report.blocks import Part, Section
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
from maskwright.report.records import Source
from maskwright.report.values import count, number, show

_TOKENS, _SECONDS = "num_input_tokens_seen", "training seconds"
_ESTIMATED = "Tokens and time of a step are worked out from the run's mean tokens a step and its logged speed."


def section(sources: Sequence[Source]) -> Section:
    """All pretraining runs of the page."""
    runs = [read_run(source) for source in sources]
    placed = [dataclasses.replace(run, logged=along(run.logged, _tokens_a_step(run))) for run in runs]
    million = [dataclasses.replace(run, logged=[_in_units(record) for record in run.logged]) for run in placed]
    name, unit = "Held-out masked loss", "nats a token"
    later = [
        curves(f"{name} against tokens", unit, "eval_loss", million, _TOKENS, "real tokens (millions)"),
        curves(f"{name} against time", unit, "eval_loss", million, _SECONDS, "training time (min)"),
    ]
    charts = [
        curves("Training loss", unit, "loss", runs),
        curves(name, unit, "eval_loss", runs),
        *(dataclasses.replace(chart, note=_ESTIMATED) for chart in later),
        curves("Speed", "real tokens/s", "tokens_per_s", runs),
        curves("Share of the machine's matrix-product rate", "share", "gemm_share", runs),
    ]
    parts = [
        Part("Results", [_results(runs)]),
        Part("Curves", drawn(charts)),
        pictures_part(runs),
        options_part(runs),
    ]
    return Section("Pretraining", _words(runs), notes(runs), parts)


def along(logged: Sequence[dict[str, Any]], tokens_a_step: float | None) -> list[dict[str, Any]]:
    """The log with tokens seen and seconds trained in every line, as far as they can be told.

    Tokens are transformers' own count where it was logged. Seconds add up tokens over speed from line to line.

    Example:
        >>> lines = [{"step": 10, "tokens_per_s": 50.0}, {"step": 20, "tokens_per_s": 100.0}]
        >>> along([*lines, {"step": 20, "eval_loss": 3.0}], 100.0)[2]
        {'step': 20, 'eval_loss': 3.0, 'num_input_tokens_seen': 2000.0, 'training seconds': 30.0}
    """
    placed, tokens, seconds = [], 0.0, 0.0
    for record in logged:
        line = dict(record)
        step, speed = number(line.get("step")), number(line.get("tokens_per_s"))
        seen = number(line.get(_TOKENS))
        if seen is None and tokens_a_step is not None and step is not None:
            seen = line[_TOKENS] = step * tokens_a_step
        if seen is not None and speed:
            seconds += (seen - tokens) / speed
            tokens = seen
        if seen is not None and seconds:
            line[_SECONDS] = seconds
        placed.append(line)
    return placed


def _tokens_a_step(run: Run) -> float | None:
    """None where it cannot be told."""
    n_tokens, n_steps = number(run.results.get("n_tokens")), number(run.results.get("n_steps"))
    return n_tokens / n_steps if n_tokens and n_steps else None


def _in_units(record: dict[str, Any]) -> dict[str, Any]:
    scales = {_TOKENS: 1e6, _SECONDS: 60.0}
    return {name: value / scales[name] if name in scales else value for name, value in record.items()}


def _words(runs: Sequence[Run]) -> list[str]:
    unfinished = sum(not run.results for run in runs)
    words = [f"{count(len(runs), 'pretraining run')}{f', {unfinished} of them not finished' if unfinished else ''}."]
    for run in runs:
        loss, speed = _held_out(run), number(run.results.get("tokens_per_s"))
        if loss is not None:
            at = f" after {run.last_step:,} steps" if run.last_step else ""
            fast = f", at {speed:,.0f} real tokens a second" if speed else ""
            guess = number(run.results.get("frequency_loss"))
            beside = "" if guess is None else f" (guessing by frequency: {show(guess)})"
            told = f"held-out masked loss {show(loss)} nats a token{beside}{at}{fast}."
            words.append(f"{run.name} ({_objective(run)}): {told}")
    if len(runs) > 1:
        words.append("Losses compare only between runs with the same vocabulary and held-out text.")
    return words


def _objective(run: Run) -> str:
    told = run.config.get("objective") or run.results.get("objective")
    rate = number(run.config.get("rate"))
    return (
        f"{str(told).upper() if told else 'objective not known'}{f' at rate {show(rate)}' if rate is not None else ''}"
    )


def _held_out(run: Run) -> float | None:
    final = number(run.results.get("eval_loss"))
    logged = [value for record in run.logged if (value := number(record.get("eval_loss"))) is not None]
    return final if final is not None else logged[-1] if logged else None


def _results(runs: Sequence[Run]) -> Any:
    columns = {
        "state": lambda run: run.state,
        "objective": _objective,
        "held-out loss": _held_out,
        "guessing by frequency": lambda run: number(run.results.get("frequency_loss")),
        "real tokens/s": lambda run: number(run.results.get("tokens_per_s")),
        "training (s)": lambda run: number(run.results.get("train_s")),
        "steps": lambda run: run.results.get("n_steps"),
        "real tokens": lambda run: run.results.get("n_tokens"),
        "documents": lambda run: run.results.get("n_documents"),
        "rows": lambda run: of_split(run.results.get("n_rows")),
        "bad lines": lambda run: run.results.get("n_bad_lines"),
        "parameters": lambda run: run.results.get("n_parameters"),
    }
    return counts_table(runs, columns, "Runs")


def recognise(folder: Path) -> bool:
    """Whether options or results name an objective."""
    for name, pattern in (("config.yaml", r"^objective:"), ("results.json", r'^  "objective":')):
        path = folder / name
        if path.is_file() and re.search(pattern, path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE):
            return True
    return False


PRETRAINING = Kind("pretraining run", "config.yaml or results.json with an objective", recognise, section)
