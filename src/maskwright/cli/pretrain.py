"""`maskwright pretrain`."""

from __future__ import annotations

from jsonargparse import Namespace

from maskwright.cli.options import Parser, config_parser, read_config
from maskwright.cli.terminal import count, show, working
from maskwright.training.pretrain.config import PretrainConfig


def build_parser() -> Parser:
    """One option a field of `PretrainConfig`."""
    return config_parser("pretrain", PretrainConfig)


def run(options: Namespace) -> int:
    """Pretrain as told, then print the summary."""
    config = read_config(PretrainConfig, options)
    with working():
        from maskwright.training.pretrain.run import run_pretrain

        result = run_pretrain(config)
    rows = {"objective": f"{config.objective}, rate {config.rate}"}
    if result.eval_loss is not None:
        rows["held-out masked loss"] = f"{result.eval_loss:.4f} (at a rate of 0.15)"
    if result.frequency_loss is not None:
        rows["guessing by frequency"] = f"{result.frequency_loss:.4f}"
    rows |= {
        "steps": f"{result.n_steps:,}",
        "real tokens/s": f"{result.tokens_per_s:,.0f}",
        "time": f"{result.train_s:.1f} s",
        "documents": "streamed, not counted" if result.n_documents is None else f"{result.n_documents:,}",
    }
    if result.n_rows:
        rows["rows"] = count(result.n_rows)
    if result.n_bad_lines:
        rows["lines left out"] = f"{result.n_bad_lines:,} (the first are named above)"
    rows["written to"] = f"{result.output_dir} (model, config.yaml, metrics.jsonl, README.md)"
    show("Pretrained", rows, as_json=options.json, result=result.to_dict())
    return 0
