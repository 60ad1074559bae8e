"""The run directory: what was asked, what happened, and what is needed to go on or to use the result."""

from __future__ import annotations

import json
import logging
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from safetensors import SafetensorError
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from maskwright.errors import InputError
from maskwright.training.config import FinetuneConfig

log = logging.getLogger(__name__)

_STATE = "trainer_state.json"  # transformers writes it last, so its presence tells a whole checkpoint
_OURS = ("config.yaml", "environment.json", "metrics.jsonl", "results.json", "README.md", "runs")


def prepare_run(folder: Path, *, overwrite: bool, resume: bool | str) -> str | None:
    """Make the run directory ready and say which checkpoint to go on from, if any.

    Raises:
        InputError: the folder already holds a run and neither going on nor overwriting was asked for; or the
            checkpoint named is not a whole one.
    """
    if isinstance(resume, str):
        if not _is_whole(Path(resume)):
            raise InputError(
                f"{resume} is not a whole checkpoint ({_STATE} is missing or cut off)", "resume_from_checkpoint"
            )
        return resume
    if resume:
        checkpoint = last_whole_checkpoint(folder)
        if checkpoint is None:
            log.warning("%s holds no whole checkpoint: starting from the beginning", folder)
        return None if checkpoint is None else str(checkpoint)
    used = any((folder / name).exists() for name in ("config.yaml", "config.json")) or any(folder.glob("checkpoint-*"))
    if used and not overwrite:
        advice = "resume_from_checkpoint=true goes on, overwrite_output_dir=true starts afresh"
        raise InputError(f"{folder} already holds a run; {advice}", where="output_dir")
    if used:
        for path in [*folder.glob("checkpoint-*"), *(folder / name for name in _OURS)]:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return None


def last_whole_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that was written to its end; those cut off by a crash are named in a warning."""
    steps = [path for path in folder.glob("checkpoint-*") if path.name.rpartition("-")[2].isdigit()]
    for path in sorted(steps, key=lambda path: int(path.name.rpartition("-")[2]), reverse=True):
        if _is_whole(path):
            return path
        log.warning("%s is incomplete (the run stopped while writing it): left aside", path)
    return None


def _is_whole(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / _STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


@contextmanager
def named_failures(place: Path) -> Iterator[None]:
    """Around writing weights.

    Raises:
        InputError: the disk is full, or cannot be written for another reason; with what is still there to go on from.
    """
    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "PytorchStreamWriter" not in str(error):
            raise
        folder = place.parent if place.name.startswith("checkpoint-") else place
        last = last_whole_checkpoint(folder)
        kept = "no earlier checkpoint is there" if last is None else f"{last.name} is whole"
        free = shutil.disk_usage(folder).free / 2**20
        reason = " ".join(str(error).split()).split(" Exception raised")[0]
        raise InputError(
            f"cannot be written ({reason}; {free:,.0f} MiB are free); {kept}. Make room, then go on with "
            "resume_from_checkpoint=true",
            str(place),
        ) from error


@contextmanager
def whole_or_nothing(checkpoint: Path) -> Iterator[None]:
    """`named_failures` for a checkpoint: what there is of it is removed."""
    with named_failures(checkpoint):
        try:
            yield
        except (OSError, SafetensorError, RuntimeError):
            shutil.rmtree(checkpoint, ignore_errors=True)
            raise


def write_config(folder: Path, config: Any) -> None:
    """`config.yaml`, which `--config` of the same verb takes back, and `environment.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(asdict(config), sort_keys=False, allow_unicode=True)
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    write_json(folder / "environment.json", environment())


def write_json(path: Path, value: Any) -> None:
    """One JSON value, readable by people."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def environment() -> dict[str, str]:
    """Versions that a repetition of the run would need."""
    packages = ("maskwright", "torch", "transformers", "accelerate", "datasets", "tokenizers", "numpy")
    versions = {name: version(name) for name in packages}
    return {"python": sys.version.split()[0], "platform": platform.system(), "machine": platform.machine()} | versions


class MetricsLog(TrainerCallback):
    """Writes every logged value to `metrics.jsonl`, one line a log, with its step and epoch."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Keep what was logged up to the step the run goes on from; later lines will be written again."""
        if not state.is_world_process_zero:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        kept = [line for line in lines if line.endswith("}") and json.loads(line)["step"] <= state.global_step]
        self.path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        if state.is_world_process_zero:
            record = {"step": state.global_step, "epoch": state.epoch} | (logs or {})
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")


def write_model_card(
    folder: Path,
    config: FinetuneConfig,
    result: dict[str, Any],
    *,
    pipeline_tag: str = "text-classification",
    auto_model: str = "AutoModelForSequenceClassification",
) -> None:
    """`README.md`: what the model is, how it scored, how to use it, how to make it again.

    `pipeline_tag` is the hub's name of what the model does, `auto_model` transformers' class that loads it.
    """
    source = config.model or f"random weights ({config.from_config})"
    data = f"task `{config.task}`" if config.task else f"`{Path(str(config.train_file)).name}`"
    scores = [(name, value) for name, value in result["metrics"].items() if isinstance(value, float)]
    rows = "\n".join(f"| {name} | {value:.4f} |" for name, value in scores) or "| none | |"
    if pipeline_tag == "text-classification":
        use = f'from transformers import pipeline\n\nclassify = pipeline("{pipeline_tag}", model="{folder.name}")'
        predict = f"`maskwright predict --model {folder.name} --input texts.jsonl` writes labels and probabilities."
    else:
        use = f'from transformers import {auto_model}\n\nmodel = {auto_model}.from_pretrained("{folder.name}")'
        options = f"--task {config.task} --data PATH --submission true"
        predict = f"`maskwright predict --model {folder.name} {options}` writes answers and the official file."
    card = f"""---
library_name: transformers
pipeline_tag: {pipeline_tag}
---
# {folder.name}

Fine-tuned with maskwright from {source} on {data}.

| metric | value |
|---|---|
{rows}

Training: {result["n_steps"]} steps, {result["n_tokens"]} real tokens, packed: {config.packed}, \
DropToken rate {config.drop_rate}, seed {config.seed}.

## Use

```python
{use}
```

{predict}
`maskwright finetune --config config.yaml --output_dir again` makes it again; versions are in `environment.json`.
"""
    (folder / "README.md").write_text(card, encoding="utf-8")
