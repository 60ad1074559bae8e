"""A tiny pretraining run with dropout and accumulation; as a script, it kills itself, or runs on several ranks."""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

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


def _end(what: str) -> list[TrainerCallback]:
    """ "5": killed after step 5; "writing 4": killed amid its checkpoint; "full 4": no room for that checkpoint."""
    kind, _, step = what.rpartition(" ")
    if not kind:
        return [KillAt(int(step))]
    if kind == "full":
        return [_FullDiskAt(int(step))]
    save = torch.save

    def save_or_die(value: Any, file: Any, *args: Any, **options: Any) -> None:
        if f"checkpoint-{step}" in str(file):
            os.kill(os.getpid(), signal.SIGKILL)
        save(value, file, *args, **options)

    torch.save = save_or_die
    return []


class _FullDiskAt(TrainerCallback):
    """From a step on no file may grow beyond a few kilobytes, as if the disk were full."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step:
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))


if __name__ == "__main__":
    root, out, objective, end = sys.argv[1:]
    run_pretrain(config(Path(root), objective, output_dir=out), callbacks=_end(end))
