"""Records as runs, sweeps and gap measurements leave them, made by hand; sizes are small primes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HOSTILE = "<script>document.title='run'</script>\"'&"
"""Text that a page without escaping would run, or break at."""


def finetuning(folder: Path, *, drop_rate: float = 0.0, seed: int = 3, accuracy: float = 0.5, n_logs: int = 7) -> Path:
    """A finished run that was evaluated twice and has two bins of calibration."""
    folder.mkdir(parents=True)
    lines: list[dict[str, Any]] = [{"step": 11 * i, "epoch": i / 5, "loss": 3.0 / i} for i in range(1, n_logs + 1)]
    lines += [{"step": 29, "eval_loss": 1.25, "eval_accuracy": 0.375, "eval_runtime": 0.1}]
    lines += [{"step": 73, "eval_loss": 1.125, "eval_accuracy": accuracy, "eval_runtime": 0.1}]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    config = f"task: tnews\ndrop_rate: {drop_rate}\nseed: {seed}\noutput_dir: {folder.name}\npacked: true\n"
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    _write(folder / "environment.json", {"python": "3.11.7", "torch": "2.13.0"})
    bins = [
        {"low": 0.0, "high": 0.5, "n": 13, "confidence": 0.4, "accuracy": 0.25},
        {"low": 0.5, "high": 0.75, "n": 0, "confidence": None, "accuracy": None},
        {"low": 0.75, "high": 1.0, "n": 17, "confidence": 0.9, "accuracy": 0.8},
    ]
    results = {
        "output_dir": folder.name,
        "metrics": {"dev_loss": 1.125, "dev_accuracy": accuracy},
        "n_steps": 77,
        "n_tokens": 12345,
        "tokens_per_s": 1000.0 + 1000 * drop_rate,
        "padding_avoided": 0.61,
        "train_s": 81.5,
        "n_examples": {"train": 101, "dev": 31},
        "n_truncated": {"train": 2, "dev": 0},
        "max_length": 64,
        "skipped": {"label '-'": 5},
        "calibration": {"dev": {"ece": 0.11, "brier": 0.23, "nll": 1.31, "bins": bins}},
    }
    _write(folder / "results.json", results)
    return folder


def pretraining(folder: Path, objective: str = "mae") -> Path:
    """A finished run of 60 steps of 100 tokens, at 50 then 100 then 200 tokens a second."""
    folder.mkdir(parents=True)
    lines: list[dict[str, Any]] = []
    for i, speed in enumerate((50.0, 100.0, 200.0), 1):
        lines.append({"step": 20 * i, "loss": 9.0 - i, "tokens_per_s": speed, "gemm_share": 0.1 * i})
        lines.append({"step": 20 * i, "eval_loss": 8.5 - i, "eval_perplexity": 100.0})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    config = f"objective: {objective}\nrate: 0.75\nresume_from_checkpoint: true\n"
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    results = {"objective": objective, "eval_loss": 5.5, "frequency_loss": 6.75, "n_steps": 60, "n_tokens": 6000}
    results |= {"tokens_per_s": 85.7, "train_s": 70.0}
    _write(folder / "results.json", {**results, "n_rows": {"train": 97, "validation": 3}})
    return folder


def sweep(folder: Path) -> Path:
    """Two tasks, three drop rates, three seeds; one variant is significantly worse on one task; one cell failed."""
    folder.mkdir(parents=True)
    means = {"tnews": (0.5, 0.53, 0.47), "csl": (0.8, 0.81, 0.8)}
    rows, cells = [], []
    for task, values in means.items():
        for variant, rate, mean in zip(("plain", "tenth", "half"), (0.0, 0.1, 0.5), values, strict=True):
            p = None if variant == "plain" else 0.001 if mean == 0.47 else 0.5
            row = {"task": task, "variant": variant, "n_seeds": 3, "mean": mean, "std": 0.01}
            row |= {"difference": mean - values[0] if p else None, "p": p, "p_holm": p and min(1, 4 * p)}
            row |= {"tokens_per_s": 1000 * (1 + rate), "speedup": 1 + rate, "train_s": 100.0 - 181 * rate}
            row |= {"low": mean - values[0] - 0.02, "high": mean - values[0] + 0.02} if p else {}
            rows.append(row)
            for seed in range(3):
                cell = {"task": task, "variant": variant, "evaluation": None, "seed": seed, "status": "done"}
                options = {} if variant == "plain" else {"drop_rate": rate}
                cell |= {"metric": "accuracy", "value": mean + 0.01 * (seed - 1), "options": options}
                cells.append(cell)
    cells[-1] |= {"status": "failed", "value": None, "error": f"csl.json:7: unknown label '{HOSTILE}'"}
    totals = [
        {"variant": "tenth", "win": 0, "tie": 2, "loss": 0, "untested": 0, "not_run": 0},
        {"variant": "half", "win": 0, "tie": 1, "loss": 1, "untested": 0, "not_run": 0},
    ]
    summary = {"baseline": "plain", "tasks": list(means), "variants": ["plain", "tenth", "half"], "rows": rows}
    _write(folder / "summary.json", {**summary, "totals": totals, "cells": cells})
    return folder


def gap(folder: Path) -> Path:
    """Two references, two rates, two layers and the mean."""
    folder.mkdir(parents=True)
    rows = [
        {
            "noise": "mlm",
            "rate": rate,
            "reference": reference,
            "where": where,
            "distance": d,
            "low": d - 0.05,
            "high": d + 0.05,
        }
        for rate in (0.15, 0.5)
        for i, reference in enumerate(("plain", "corrected"))
        for j, where in enumerate(("layer 0", "layer 1", "mean"))
        if (d := rate + 0.1 * i + 0.01 * j)
    ]
    _write(folder / "gap.json", {"model": "tiny", "noise": "mlm", "n_texts": 19, "n_draws": 23, "rows": rows})
    return folder


def audit(folder: Path) -> Path:
    """A model with a property of its design; one with a rule of which two checks fail, and an allowed failure."""
    folder.mkdir(parents=True)
    passed = {"rule": "padding-side", "check": "right against none", "verdict": "pass", "effect": 0.0, "allowed": None}
    failed = {
        "rule": "padding-side",
        "check": "left against right",
        "verdict": "fail",
        "severity": "high",
        "effect": 0.37,
    }
    failed |= {"module": "embeddings", "reason": f"positions count {HOSTILE}", "fix": "pass positions", "allowed": None}
    failed |= {"cause": "slots-counted", "script": f"import torch\nprint('{HOSTILE}')\n"}
    worse = {**failed, "check": "left against none", "effect": float("inf")}
    design = {**passed, "rule": "packing", "check": "packed", "verdict": "architectural"}
    design |= {"module": "conv", "reach": 3, "reason": "a convolution"}
    allowed = {**failed, "rule": "holes", "check": "holes against none", "allowed": "never used"}
    other = {**design, "rule": "holes", "reach": None}
    subjects = [
        {"subject": "first", "is_clean": True, "seconds": 1.5, "findings": [passed, design, other]},
        {"subject": "second", "is_clean": False, "seconds": 2.5, "findings": [passed, failed, worse, allowed]},
    ]
    _write(folder / "audit.json", subjects)
    return folder


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")
