"""Fine-tune an encoder on a task, from options to a run directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from transformers import EvalPrediction, TrainerCallback, TrainingArguments, set_seed

from maskwright.data.encode import EncodedSplit
from maskwright.data.tasks.base import Example, TaskData
from maskwright.encoders.pack import pack
from maskwright.errors import InputError
from maskwright.training import runs
from maskwright.training.arguments import new_arguments, shared_arguments
from maskwright.training.calibration import calibration_of
from maskwright.training.config import FinetuneConfig
from maskwright.training.correct import correct_in_memory
from maskwright.training.kinds.base import Limits, Predicted
from maskwright.training.kinds.table import KINDS
from maskwright.training.models import load_tokenizer, new_task_model, resolve_max_length
from maskwright.training.regularisers import regularisers
from maskwright.training.resumed import EarlyStopping
from maskwright.training.texts import DEV, TEST, TRAIN, labelled, training_data
from maskwright.training.trainer import PackedTrainer


@dataclass(frozen=True, slots=True)
class FinetuneResult:
    """What a run came to.

    Units: `tokens_per_s` counts real tokens over training steps alone; `padding_avoided` is the share of the padded
    batches' slots that were not computed (0 for a stock model); `train_s` includes evaluation and saving. All are of
    the whole run and all ranks, resumed or not; work lost with an interruption is left out.
    """

    output_dir: str
    metrics: dict[str, float]
    n_steps: int
    n_tokens: int
    tokens_per_s: float
    padding_avoided: float
    train_s: float
    n_examples: dict[str, int]
    n_truncated: dict[str, int]
    max_length: int
    skipped: dict[str, int] = field(default_factory=dict)
    mended: dict[str, int] = field(default_factory=dict)
    best_checkpoint: str | None = None
    calibration: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def run_finetune(
    config: FinetuneConfig, data: TaskData | None = None, callbacks: Sequence[TrainerCallback] = ()
) -> FinetuneResult:
    """Train as told, and leave in `output_dir` a model that `from_pretrained` loads, with all that led to it.

    Args:
        config: the whole run; see `FinetuneConfig`.
        data: examples at hand, instead of those the config names.
        callbacks: transformers callbacks to run besides our own.

    Raises:
        InputError: data, options, model or output directory that cannot be used, in one line.
    """
    folder = Path(config.output_dir)
    data = training_data(config) if data is None else data
    tokenizer = load_tokenizer(config.tokenizer or str(config.model))
    args = training_arguments(config, data)
    checkpoint = runs.prepare_run(folder, overwrite=config.overwrite_output_dir, resume=config.resume_from_checkpoint)

    set_seed(config.seed)
    model = new_task_model(
        data, tokenizer, model=config.model, from_config=config.from_config, overrides=config.config_overrides
    )
    if config.correct_embeddings:
        correct_in_memory(model, tokenizer, str(config.model))
    max_length = resolve_max_length(config.max_length, model, tokenizer)
    if config.packed:
        pack(model, drop_rate=config.drop_rate, special_ids=tokenizer)
    splits = {TRAIN: data.splits[TRAIN]}
    splits |= {split: examples for split in (DEV, TEST) if (examples := labelled(data, split))}
    kind, limits = KINDS[data.problem], Limits(max_length, config.doc_stride)
    encoded = {split: kind.encode(examples, tokenizer, limits, data) for split, examples in splits.items()}
    scorers = {split: Scorer(data, splits[split], encoded[split]) for split in splits}

    trainer = PackedTrainer(
        model,
        args,
        max_tokens_per_batch=config.max_tokens_per_batch,
        train_dataset=encoded[TRAIN].dataset,
        eval_dataset=encoded[DEV].dataset if DEV in encoded else None,
        processing_class=tokenizer,
        data_collator=kind.collator(tokenizer),
        compute_metrics=scorers.get(DEV),
        loss=kind.loss,
        **regularisers(config, data, model),
        callbacks=[runs.MetricsLog(folder / "metrics.jsonl"), *_early_stopping(config, args), *callbacks],
    )
    is_main = trainer.is_world_process_zero()
    if is_main:
        runs.write_config(folder, config)
    output = trainer.train(resume_from_checkpoint=checkpoint)
    metrics: dict[str, float] = {}
    calibration: dict[str, dict[str, Any]] = {}
    for split in (split for split in (DEV, TEST) if split in encoded):
        trainer.compute_metrics = scorers[split]
        metrics |= _final_metrics(trainer, split, encoded[split].dataset)
        if (measured := scorers[split].calibration()) is not None:
            calibration[split] = measured
    trainer.save_model(config.output_dir)

    seen = trainer.throughput
    result = FinetuneResult(
        output_dir=config.output_dir,
        metrics=metrics,
        n_steps=output.global_step,
        n_tokens=seen.n_tokens,
        tokens_per_s=seen.tokens_per_s,
        padding_avoided=seen.padding_share if config.packed else 0.0,
        train_s=seen.train_s,
        n_examples={split: len(examples) for split, examples in splits.items()},
        n_truncated={split: part.n_truncated for split, part in encoded.items()},
        max_length=max_length,
        skipped=dict(data.skipped),
        mended=dict(data.mended),
        best_checkpoint=trainer.state.best_model_checkpoint,
        calibration=calibration,
    )
    if is_main:
        runs.write_json(folder / "results.json", result.to_dict())
        use = {"pipeline_tag": kind.pipeline_tag, "auto_model": kind.auto_model.__name__}
        runs.write_model_card(folder, config, result.to_dict(), **use)
    return result


def training_arguments(config: FinetuneConfig, data: TaskData) -> TrainingArguments:
    """The options as transformers' TrainingArguments.

    Raises:
        InputError: an unknown name in `training_arguments`, or values that transformers refuses.
    """
    values = shared_arguments(config)
    if labelled(data, DEV):
        values["metric_for_best_model"] = config.metric_for_best_model or data.metrics[0]
        values["greater_is_better"] = values["metric_for_best_model"] not in {"loss", "mse", "mae"}
        if config.early_stopping_patience is not None:
            values["load_best_model_at_end"] = True
    else:
        values |= {"eval_strategy": "no", "load_best_model_at_end": False, "metric_for_best_model": None}
    if values["eval_strategy"] == "no" or values["save_strategy"] == "no":
        values["load_best_model_at_end"] = False
    return new_arguments(values, config.training_arguments)


class Scorer:
    """The task's metrics on one split as transformers' `compute_metrics`, and its calibration when last evaluated."""

    def __init__(self, data: TaskData, examples: Sequence[Example], encoded: EncodedSplit) -> None:
        self.data, self.examples, self.encoded = data, examples, encoded
        self._last: Predicted | None = None

    def __call__(self, prediction: EvalPrediction) -> dict[str, float]:
        found = prediction.predictions
        outputs = tuple(map(np.asarray, found if isinstance(found, tuple) else (found,)))
        self._last = Predicted(self.data, self.data.labels, self.examples, self.encoded.dataset, outputs)
        return KINDS[self.data.problem].score(self._last)

    def calibration(self) -> dict[str, Any] | None:
        """Of the last evaluation, as plain values; None before one, and where there are no probabilities."""
        return None if self._last is None else calibration_of(self._last)


def _early_stopping(config: FinetuneConfig, args: TrainingArguments) -> list[TrainerCallback]:
    if config.early_stopping_patience is None:
        return []
    if not args.load_best_model_at_end:
        raise InputError("early stopping needs labelled held-out examples and checkpoints", "early_stopping_patience")
    return [EarlyStopping(config.early_stopping_patience)]


def _final_metrics(trainer: PackedTrainer, split: str, dataset: Any) -> dict[str, float]:
    scores = trainer.evaluate(dataset, metric_key_prefix=split)
    timing = ("_runtime", "_per_second", "_steps", "epoch")
    return {name: value for name, value in scores.items() if not name.endswith(timing)}
