"""A tiny fine-tuning run with dropout, DropToken, accumulation and token budgets; as a script, it kills itself."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from maskwright.data.tasks.base import Example, TaskData
from maskwright.training.config import FinetuneConfig
from maskwright.training.finetune import run_finetune
from maskwright.training.wordpiece import train_wordpiece

WORDS = ["red", "green", "blue", "round", "square", "flat", "loud", "quiet"]


def data() -> TaskData:
    texts = [" ".join(WORDS[(i * j) % 8] for j in range(1, 3 + i % 17)) for i in range(61)]
    examples = [Example(text, None, i % 3, f"made:{i}") for i, text in enumerate(texts)]
    splits = {"train": examples, "dev": examples[:13]}
    return TaskData("made", "single_label_classification", splits, labels=("a", "b", "c"))


def config(folder: Path, **changes: Any) -> FinetuneConfig:
    if not (folder / "tokenizer").exists():
        train_wordpiece(WORDS * 3, vocab_size=60, max_length=32).save_pretrained(folder / "tokenizer")
    options: dict[str, Any] = {
        "from_config": "bert",
        "config_overrides": {
            "hidden_size": 22,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 37,
            "max_position_embeddings": 32,
        },
        "tokenizer": str(folder / "tokenizer"),
        "train_file": "given in memory",
        "drop_rate": 0.2,
        "max_tokens_per_batch": 70,
        "gradient_accumulation_steps": 2,
        "learning_rate": 1e-2,
        "num_train_epochs": 3,
        "save_strategy": "steps",
        "save_steps": 2,
        "save_total_limit": None,
        "load_best_model_at_end": False,
        "logging_steps": 1,
        "report_to": [],
        "training_arguments": {"disable_tqdm": True, "use_cpu": True},
    }
    return FinetuneConfig(**{**options, **changes})


def fine_tuned(root: Path) -> Path:
    """A run directory under `root`: labels a, b, c; 32 positions."""
    run_finetune(config(root, output_dir=str(root / "run"), num_train_epochs=1), data())
    return root / "run"


class KillAt(TrainerCallback):
    """kill -9 at the end of a step, before anything else happens there."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    root, out, step = sys.argv[1:]
    run_finetune(config(Path(root), output_dir=out), data(), callbacks=[KillAt(int(step))])
