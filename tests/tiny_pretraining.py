"""A tiny pretraining run with dropout and accumulation; as a script, it kills itself, or runs on several ranks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from maskwright.training.pretrain.config import PretrainConfig
from maskwright.training.pretrain.run import run_pretrain
from maskwright.training.wordpiece import train_wordpiece
from tiny_run import WORDS, KillAt


def config(folder: Path, objective: str, **changes: Any) -> PretrainConfig:
    if not (folder / "tokenizer").exists():
        train_wordpiece(WORDS * 3, vocab_size=60, max_length=32).save_pretrained(folder / "tokenizer")
    if not (folder / "corpus.txt").exists():
        texts = [" ".join(WORDS[(i * j + j) % 8] for j in range(1, 6 + i % 23)) for i in range(101)]
        (folder / "corpus.txt").write_text("\n\n".join(texts), encoding="utf-8")
    options: dict[str, Any] = {
        "objective": objective,
        "corpus": [str(folder / "corpus.txt")],
        "from_config": "bert",
        "config_overrides": {
            "hidden_size": 22,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 37,
            "max_position_embeddings": 32,
        },
        "tokenizer": str(folder / "tokenizer"),
        "max_length": 32,
        "validation_share": 0.1,
        "cache_dir": str(folder / "cache"),
        "max_tokens_per_batch": 150,
        "gradient_accumulation_steps": 2,
        "learning_rate": 1e-2,
        "num_train_epochs": 2,
        "eval_steps": 3,
        "save_steps": 2,
        "save_total_limit": None,
        "logging_steps": 1,
        "report_to": [],
        "training_arguments": {"disable_tqdm": True, "use_cpu": True},
    }
    return PretrainConfig(**{**options, **changes})


if __name__ == "__main__":
    root, out, objective, step = sys.argv[1:]
    run_pretrain(config(Path(root), objective, output_dir=out), callbacks=[KillAt(int(step))])
