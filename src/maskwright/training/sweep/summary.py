"""What a sweep came to: mean and scatter of every variant, its difference to the baseline, and what that is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from maskwright.training.sweep.compare import Comparison, holm, paired
from maskwright.training.sweep.records import Record, is_done

Row = dict[str, Any]
Summary = dict[str, Any]
LEVEL = 0.05
LOWER_IS_BETTER = frozenset({"loss", "mse", "mae"})

BASELINE, NOT_RUN, UNTESTED = "baseline", "no result", "fewer than 2 seeds, no test"
BETTER, WORSE, NULL = "better", "worse", "no difference beyond noise"
SAME_STEP = "the same difference in every seed, no test"


def label_of(record: Mapping[str, Any]) -> str:
    """What a record's results are listed under: its variant, or "VARIANT, EVALUATION".

    Example:
        >>> label_of({"variant": "plain", "evaluation": "dropout16"})
        'plain, dropout16'
    """
    return f"{record['variant']}, {record['evaluation']}" if record["evaluation"] else str(record["variant"])


def summarise(records: Sequence[Record], *, baseline: str, tasks: Sequence[str], variants: Sequence[str]) -> Summary:
    """The sweep's records as one row a task and variant.

    Units: metrics as the tasks give them; `train_s` seconds; `tokens_per_s` real tokens; `speedup` and `token_ratio`
    are over the baseline's, above 1 = faster, from the seeds that both have.

    Args:
        records: of every cell and further evaluation.
        baseline: the label that the others are compared with.
        tasks: names, in the order of the rows.
        variants: labels (see `label_of`), in the order of the rows.

    Example:
        >>> cell = {"task": "t", "evaluation": None, "status": "done", "metric": "accuracy", "options": {}}
        >>> cell |= {"train_s": 9.0, "tokens_per_s": 100.0}
        >>> values = {"plain": [0.5, 0.6], "drop": [0.6, 0.7]}
        >>> records = [
        ...     cell | {"variant": name, "seed": seed, "value": value}
        ...     for name, both in values.items()
        ...     for seed, value in enumerate(both)
        ... ]
        >>> row = summarise(records, baseline="plain", tasks=["t"], variants=["plain", "drop"])["rows"][1]
        >>> round(row["difference"], 3), row["verdict"]
        (0.1, 'the same difference in every seed, no test')
    """
    done: dict[tuple[str, str], dict[int, Record]] = {}
    for record in records:
        if is_done(record):
            done.setdefault((record["task"], label_of(record)), {})[record["seed"]] = record
    rows = [
        _row(task, variant, done.get((task, variant), {}), done.get((task, baseline), {}), variant == baseline)
        for task in tasks
        for variant in variants
    ]
    tested = [row for row in rows if row["p"] is not None]
    for row, corrected in zip(tested, holm([row["p"] for row in tested]), strict=True):
        row["p_holm"] = corrected
        if corrected < LEVEL:
            row["verdict"] = BETTER if _is_gain(row) else WORSE
    totals = [_total(variant, [row for row in rows if row["variant"] == variant]) for variant in variants]
    return {
        "baseline": baseline,
        "tasks": list(tasks),
        "variants": list(variants),
        "rows": rows,
        "totals": [total for total in totals if total["variant"] != baseline],
        "cells": [{name: value for name, value in record.items() if name != "config"} for record in records],
    }


def in_words(summary: Mapping[str, Any]) -> list[str]:
    """The findings, one sentence a variant; a null result is called one."""
    compared = [row["verdict"] for row in summary["rows"] if row["variant"] != summary["baseline"]]
    if compared and set(compared) == {UNTESTED}:
        return ["Fewer than 2 seeds: no difference can be told from noise."]
    return [_sentence(total, summary) for total in summary["totals"]]


def _row(task: str, variant: str, own: dict[int, Record], base: dict[int, Record], is_baseline: bool) -> Row:
    values = [record["value"] for record in own.values()]
    both = sorted(own.keys() & base.keys())
    pairs = [(own[seed], base[seed]) for seed in both]
    found: Comparison | None = None
    if pairs and not is_baseline:
        found = paired([a["value"] for a, _ in pairs], [b["value"] for _, b in pairs])
    some = next(iter(own.values()), {})
    return {
        "task": task,
        "variant": variant,
        "metric": some.get("metric"),
        "drop_rate": some.get("options", {}).get("drop_rate"),
        "n_seeds": len(values),
        "mean": mean(values) if values else None,
        "std": stdev(values) if len(values) > 1 else None,
        "n_pairs": 0 if found is None else found.n_pairs,
        "difference": None if found is None else found.difference,
        "low": None if found is None else found.low,
        "high": None if found is None else found.high,
        "p": None if found is None else found.p,
        "p_holm": None,
        "verdict": _verdict(found, is_baseline, bool(values)),
        "train_s": _mean_of("train_s", own.values()),
        "tokens_per_s": _mean_of("tokens_per_s", own.values()),
        "speedup": _ratio([(b.get("train_s"), a.get("train_s")) for a, b in pairs]),
        "token_ratio": _ratio([(a.get("tokens_per_s"), b.get("tokens_per_s")) for a, b in pairs]),
        "eval_s": _mean_of("eval_s", own.values()),
    }


def _verdict(found: Comparison | None, is_baseline: bool, is_run: bool) -> str:
    if not is_run or (found is None and not is_baseline):
        return NOT_RUN
    if found is None:
        return BASELINE
    if found.p is not None:
        return NULL  # until the correction says otherwise
    return UNTESTED if found.n_pairs == 1 else SAME_STEP


def _is_gain(row: Row) -> bool:
    return bool((row["difference"] < 0) == (row["metric"] in LOWER_IS_BETTER) and row["difference"] != 0)


def _mean_of(name: str, records: Any) -> float | None:
    values = [record[name] for record in records if record.get(name) is not None]
    return mean(values) if values else None


def _ratio(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    known = [(above, below) for above, below in pairs if above and below]
    return sum(above for above, _ in known) / sum(below for _, below in known) if known else None


def _total(variant: str, rows: Sequence[Row]) -> dict[str, Any]:
    verdicts = [row["verdict"] for row in rows]
    return {
        "variant": variant,
        "win": verdicts.count(BETTER),
        "tie": verdicts.count(NULL),
        "loss": verdicts.count(WORSE),
        "untested": verdicts.count(UNTESTED) + verdicts.count(SAME_STEP),
        "not_run": verdicts.count(NOT_RUN),
        "gains": sum(row["difference"] is not None and _is_gain(row) for row in rows),
        "drops": sum(bool(row["difference"]) and not _is_gain(row) for row in rows),
    }


def _sentence(total: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    rows = [row for row in summary["rows"] if row["variant"] == total["variant"]]
    said = {
        BETTER: "better",
        WORSE: "worse",
        NULL: f"{NULL}{_reach([row for row in rows if row['verdict'] == NULL], summary)}",
        UNTESTED: "too few seeds to test",
        SAME_STEP: SAME_STEP,
        NOT_RUN: NOT_RUN,
    }
    parts = []
    for verdict, words in said.items():
        tasks = [row["task"] for row in rows if row["verdict"] == verdict]
        if tasks:
            everywhere = len(rows) > 1 and len(tasks) == len(rows)
            which = "each" if verdict in (BETTER, WORSE) else "any"
            parts.append(f"{words} on {f'{which} of the {len(rows)} tasks' if everywhere else ', '.join(tasks)}")
    return f"{total['variant']} against {summary['baseline']}: {'; '.join(parts)}."


def _reach(rows: Sequence[Row], summary: Mapping[str, Any]) -> str:
    """How large a difference null results leave possible: an absence of evidence is not evidence of absence."""
    ends = [
        _scale(row["task"], summary) * max(abs(row["low"]), abs(row["high"])) for row in rows if row["low"] is not None
    ]
    return f" (one of up to {max(ends):.2f} remains possible)" if ends else ""


def unit_of(rows: Sequence[Row]) -> float:
    """What a task's scores are multiplied by for people: 100 for shares, 1 for anything that is not one.

    Example:
        >>> unit_of([{"mean": 0.61, "metric": "accuracy"}]), unit_of([{"mean": 0.61, "metric": "mse"}])
        (100.0, 1.0)
    """
    known = [row for row in rows if row["mean"] is not None]
    is_share = all(-1 <= row["mean"] <= 1 and row["metric"] not in LOWER_IS_BETTER for row in known)
    return 100.0 if is_share else 1.0


def _scale(task: str, summary: Mapping[str, Any]) -> float:
    return unit_of([row for row in summary["rows"] if row["task"] == task])
