"""`maskwright finetune`."""

from __future__ import annotations

from jsonargparse import Namespace

from maskwright.cli.options import Parser, config_parser, read_config
from maskwright.cli.terminal import calibration, count, show, working
from maskwright.training.config import FinetuneConfig


def build_parser() -> Parser:
    """One option a field of `FinetuneConfig`."""
    return config_parser("finetune", FinetuneConfig)


def run(options: Namespace) -> int:
    """Fine-tune as told, then print the summary."""
    config = read_config(FinetuneConfig, options)
    with working():
        from maskwright.training.finetune import run_finetune

        result = run_finetune(config)
    rows = {name.replace("_", " "): f"{value:.4f}" for name, value in result.metrics.items()}
    rows |= {f"{split} calibration": calibration(found) for split, found in result.calibration.items()}
    rows |= {
        "steps": f"{result.n_steps:,}",
        "real tokens/s": f"{result.tokens_per_s:,.0f}",
        "padding avoided": f"{result.padding_avoided:.1%}" if config.packed else "none (not packed)",
        "time": f"{result.train_s:.1f} s",
        "examples": count(result.n_examples),
    }
    if any(result.n_truncated.values()):
        rows[f"cut to {result.max_length} tokens"] = count(result.n_truncated)
    if result.skipped:
        rows["skipped"] = count(result.skipped)
    if result.mended:
        rows["mended"] = count(result.mended)
    rows["written to"] = f"{result.output_dir} (model, config.yaml, metrics.jsonl, README.md)"
    show("Fine-tuned", rows, as_json=options.json, result=result.to_dict())
    return 0
