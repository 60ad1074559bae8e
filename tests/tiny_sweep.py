"""A tiny sweep over made files; as a script it runs one, to be killed by a test."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tiny_run
from maskwright.training.sweep.config import SweepConfig
from maskwright.training.sweep.run import run_sweep

OF_THE_SWEEP = ("output_dir", "overwrite_output_dir", "resume_from_checkpoint", "seed")


def base(folder: Path) -> dict[str, Any]:
    """Options of a cell on files in `folder`; checkpoints every two steps."""
    data = tiny_run.data()
    files = {}
    for split, examples in data.splits.items():
        files[split] = folder / f"{split}.jsonl"
        rows = [{"text": example.text, "label": data.labels[int(str(example.label))]} for example in examples]
        files[split].write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    paths = {"train_file": str(files["train"]), "validation_file": str(files["dev"])}
    options = asdict(tiny_run.config(folder, **paths))
    return {name: value for name, value in options.items() if name not in OF_THE_SWEEP}


def config(folder: Path, **changes: Any) -> SweepConfig:
    """One task, two variants, two seeds, in `folder`/sweep."""
    options: dict[str, Any] = {
        "output_dir": str(folder / "sweep"),
        "base": base(folder),
        "tasks": {"made": {}},
        "variants": {"plain": {"drop_rate": 0.0}, "drop": {"drop_rate": 0.3}},
        "seeds": [3, 5],
    }
    return SweepConfig(**{**options, **changes})


if __name__ == "__main__":
    run_sweep(config(Path(sys.argv[1]), output_dir=sys.argv[2]))
