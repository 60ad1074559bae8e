"""How long a run has trained, the time before an interruption included."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class Clock(TrainerCallback):
    """Notes at every checkpoint how long training took up to it, and reads that back where a run goes on from one.

    `before_s` is the time up to the checkpoint gone on from; work that was lost with an interruption does not count.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before_s = 0.0
        self._began = time.perf_counter()

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._began = time.perf_counter()
        if state.global_step == 0:
            self.path.unlink(missing_ok=True)
        elif self.path.exists():
            lines = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines() if line[-1] == "}"]
            self.before_s = next((line["train_s"] for line in lines[::-1] if line["step"] == state.global_step), 0.0)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        line = {"step": state.global_step, "train_s": self.before_s + time.perf_counter() - self._began}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
