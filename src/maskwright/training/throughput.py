"""What a run's training steps took, over all ranks, the time before an interruption included."""

from __future__ import annotations

import time
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from maskwright.training.resumed import take_up


class Throughput(TrainerCallback, ExportableState):
    """Counts kept in every checkpoint: a run that goes on from one counts on. Work lost with an interruption is not in.

    Attributes:
        n_tokens: real tokens of all ranks.
        n_slots: the slots that their padded batches would hold.
        steps_s: seconds in optimizer steps alone.
        train_s: seconds of training, evaluation and saving included; complete when training has ended.
    """

    def __init__(self) -> None:
        self.n_tokens = self.n_slots = 0
        self.steps_s = self.train_s = 0.0
        self._train_began = self._step_began = 0.0

    @property
    def tokens_per_s(self) -> float:
        """Real (unpadded) tokens a second, evaluation and saving left out."""
        return self.n_tokens / self.steps_s if self.steps_s else 0.0

    @property
    def padding_share(self) -> float:
        """Share in [0, 1) of the padded batches' slots that held no token."""
        return 1 - self.n_tokens / self.n_slots if self.n_slots else 0.0

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        train_s = self.train_s + time.perf_counter() - self._train_began
        counts = {"n_tokens": self.n_tokens, "n_slots": self.n_slots, "steps_s": self.steps_s, "train_s": train_s}
        return {"args": {}, "attributes": counts}

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Take up the counts of the checkpoint that training goes on from."""
        self._train_began = time.perf_counter()
        take_up(self, state)

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Of an optimizer step, not of a micro-step."""
        self._step_began = time.perf_counter()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Gradients are applied."""
        self.steps_s += time.perf_counter() - self._step_began

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Everything is saved."""
        self.train_s += time.perf_counter() - self._train_began
