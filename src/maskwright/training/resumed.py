"""Callbacks that go on where they stood, in a run that goes on from a checkpoint.

transformers keeps their state in every checkpoint, and by default does not read it back. Where it is told to, it puts
new objects in their places, which those who hold the old ones do not see.
"""

from __future__ import annotations

from typing import Any

from transformers import EarlyStoppingCallback, TrainerControl, TrainerState, TrainingArguments


def take_up(callback: Any, state: TrainerState) -> None:
    """When training begins: give a callback with ExportableState what the checkpoint kept of it, if there is one."""
    kept = state.stateful_callbacks.setdefault(type(callback).__name__, callback.state())
    if state.global_step:  # else a new run, and `kept` what it has itself given
        for name, value in kept["attributes"].items():
            setattr(callback, name, value)


class EarlyStopping(EarlyStoppingCallback):
    """transformers' own; evaluations without progress before an interruption count."""

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Checks the options as transformers does."""
        super().on_train_begin(args, state, control, **_)
        take_up(self, state)
