"""What a run can be told: plain dataclasses, read from YAML and the command line, free of torch and transformers.

Options that transformers' `TrainingArguments` also has carry its names and meanings.
"""

# ruff: noqa: RUF009 - `option` makes a dataclass field
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from maskwright.errors import InputError

Problem = Literal["auto", "single_label_classification", "multi_label_classification", "regression"]
Pooling = Literal["mean", "cls", "max"]
Interval = Literal["no", "steps", "epoch"]
ClassWeights = Literal["none", "balanced"]
Averaging = Literal["weight", "model"]
Noise = Literal["dropout", "droptoken"]


def option(default: Any, help: str, *, many: bool = False) -> Any:
    """A dataclass field with its one-line description, which the command line shows; `many` takes several words."""
    metadata = {"help": help, "many": many}
    if isinstance(default, list | dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(kw_only=True)
class TextOptions:
    """Where examples come from: a known task's folder or zip, or files of one's own."""

    task: str | None = option(None, "a known task, e.g. tnews, afqmc, sst2 (with `data`)")
    data: str | None = option(None, "the task's folder or zip as downloaded")
    text_column: str = option("text", "column of the text in your own files")
    text_pair_column: str | None = option(None, "column of the second text, if examples are pairs")
    label_column: str = option("label", "column of the gold label in your own files")
    max_length: int | None = option(None, "longest text in tokens, special tokens included (default: the model's)")
    doc_stride: int = option(128, "tokens that neighbouring windows of a long paragraph share, in span reading")

    def check_text_options(self, files: str, has_files: bool) -> None:
        """Raises: InputError, unless exactly one source of examples is named and its parts are there."""
        if bool(self.task) == has_files:
            raise InputError(f"name either a task (with its data) or {files}", where="task")
        if self.task and not self.data:
            raise InputError(f"task '{self.task}' needs its folder or zip: data=PATH", where="data")
        if self.max_length is not None and self.max_length < 3:
            raise InputError(f"must be 3 or more to leave room for a token, got {self.max_length}", where="max_length")
        if self.doc_stride < 0:
            raise InputError(f"must be 0 or more, got {self.doc_stride}", where="doc_stride")


@dataclass(kw_only=True)
class RunOptions:
    """Where a run goes, what it starts from, and what its optimizer does: the same for every kind of training."""

    output_dir: str = option("run", "the run directory: final model, checkpoints, metrics, resolved config")
    overwrite_output_dir: bool = option(False, "start afresh in an output_dir that already holds a run")
    resume_from_checkpoint: bool | str = option(False, "true: go on from the last whole checkpoint; or a path")

    model: str | None = option(None, "checkpoint to start from: a local folder or a hub name")
    from_config: str | None = option(None, "start at random from a config.json, or a model type such as bert")
    config_overrides: dict[str, Any] = option({}, "values to change in the model's configuration")
    tokenizer: str | None = option(None, "tokenizer folder or hub name (default: the model's)")

    gradient_accumulation_steps: int = option(1, "batches summed into one optimizer step")
    max_steps: int = option(-1, "optimizer steps in all; overrides num_train_epochs if positive")
    lr_scheduler_type: str = option(
        "linear", "schedule, by transformers' name: linear, cosine, warmup_stable_decay, ..."
    )
    lr_scheduler_kwargs: dict[str, Any] = option({}, "options of the schedule, e.g. {num_decay_steps: 1000}")
    weight_decay: float = option(0.01, "decay of all weights but biases and norms")
    max_grad_norm: float = option(1.0, "gradient norm above which gradients are scaled down")
    optim: str = option("adamw_torch_fused", "optimizer, by transformers' name")
    bf16: bool = option(False, "compute in bfloat16 (weights stay float32)")
    activation_checkpointing: bool = option(False, "recompute activations in the backward pass to save memory")
    seed: int = option(42, "seed of every random choice")
    save_total_limit: int | None = option(1, "checkpoints kept, besides the best")
    logging_steps: int = option(50, "steps between logged losses")
    report_to: list[str] = option(["tensorboard"], "loggers, e.g. tensorboard, wandb; [] for none")
    training_arguments: dict[str, Any] = option({}, "any further TrainingArguments, by name")

    def check_run_options(self) -> None:
        """Raises: InputError, unless there is exactly one start, with a tokenizer."""
        if (self.model is None) == (self.from_config is None):
            raise InputError("name either a model, or from_config for a random start", where="model")
        if self.from_config and not self.tokenizer:
            raise InputError("a random start needs a tokenizer: tokenizer=FOLDER", where="tokenizer")


@dataclass(kw_only=True)
class FinetuneConfig(TextOptions, RunOptions):
    """One fine-tuning run.

    Units: `max_length` and `max_tokens_per_batch` count tokens; rates lie in [0, 1); `eval_steps` and the like count
    optimizer steps.

    Raises:
        InputError: options that contradict one another, by name.

    Example:
        >>> FinetuneConfig(model="my/encoder", task="tnews", data="tnews_public.zip", output_dir="run").drop_rate
        0.0
    """

    train_file: str | None = option(None, "training examples: JSONL, CSV, TSV or Parquet")
    validation_file: str | None = option(None, "held-out examples, evaluated while training")
    test_file: str | None = option(None, "examples evaluated once at the end, if labelled")
    problem: Problem = option("auto", "what the labels are; auto: worked out from the training file")
    train_split: str = option("train", "the task's split to train on")
    dev_split: str = option("dev", "the task's split to evaluate on while training")
    limit_train: int | None = option(None, "use only so many training examples, the same ones every time")
    limit_eval: int | None = option(None, "use only so many examples of every other split")

    packed: bool = option(True, "compute real tokens only (same result, less work)")
    drop_rate: float = option(0.0, "DropToken: share of tokens left out of every training step")
    final_drop_rate: float | None = option(None, "DropToken's rate at the end; it changes evenly from `drop_rate`")
    max_tokens_per_batch: int | None = option(None, "batch by a token budget instead of a number of rows")

    per_device_train_batch_size: int = option(32, "rows a step and device, without a token budget")
    per_device_eval_batch_size: int = option(64, "rows a step and device in evaluation")
    num_train_epochs: float = option(3.0, "passes over the training examples")
    learning_rate: float = option(3e-5, "peak learning rate")
    warmup_steps: float = option(0.1, "steps of linear warm-up, or below 1 their share of all steps")
    layer_decay: float = option(1.0, "factor of the learning rate from a layer to the one below it; the head's is full")
    label_smoothing_factor: float = option(0.0, "share of probability spread over all classes")
    class_weights: ClassWeights = option("none", "balanced: every class counts the same in the training loss, in all")
    rdrop_alpha: float = option(0.0, "R-Drop: weight of the divergence between two passes over every batch; 0 = off")
    correct_embeddings: bool = option(False, "start from embeddings as masked pretraining saw them on average")

    eval_strategy: Interval = option("epoch", "when to evaluate")
    eval_steps: int | None = option(None, "steps between evaluations, with eval_strategy=steps")
    save_strategy: Interval = option("epoch", "when to write a checkpoint")
    save_steps: int = option(500, "steps between checkpoints, with save_strategy=steps")
    load_best_model_at_end: bool = option(True, "give back the best evaluated weights, not the last")
    metric_for_best_model: str | None = option(None, "what 'best' means (default: the task's first metric)")
    early_stopping_patience: int | None = option(None, "stop after so many evaluations without a better one")

    def __post_init__(self) -> None:
        self.check_text_options("a train_file", has_files=self.train_file is not None)
        self.check_run_options()
        if not 0 <= self.drop_rate < 1:
            raise InputError(f"must be in [0, 1), got {self.drop_rate}", where="drop_rate")
        if self.final_drop_rate is not None and not 0 <= self.final_drop_rate < 1:
            raise InputError(f"must be in [0, 1), got {self.final_drop_rate}", where="final_drop_rate")
        if (self.drop_rate or self.final_drop_rate is not None) and not self.packed:
            raise InputError("DropToken is done by packing; leave packed on", where="drop_rate")
        if not 0 < self.layer_decay <= 1:
            raise InputError(f"must be above 0 and at most 1, got {self.layer_decay}", where="layer_decay")
        if not self.rdrop_alpha >= 0:
            raise InputError(f"must be 0 or more, got {self.rdrop_alpha}", where="rdrop_alpha")
        if self.correct_embeddings and self.from_config:
            raise InputError("random weights never saw [MASK]; name a pretrained model", where="correct_embeddings")
        if self.max_tokens_per_batch is not None and self.max_tokens_per_batch < 1:
            raise InputError(f"must be positive, got {self.max_tokens_per_batch}", where="max_tokens_per_batch")
        if self.early_stopping_patience is not None and self.eval_strategy == "no":
            raise InputError("early stopping needs evaluations: eval_strategy=epoch", where="early_stopping_patience")


@dataclass(kw_only=True)
class PredictConfig(TextOptions):
    """Labels and probabilities for a task's split or a file of one's own.

    Raises:
        InputError: options that contradict one another, by name.
    """

    model: str = option("run", "a fine-tuned model's folder (a run directory) or hub name")
    input: str | None = option(None, "your own file: JSONL, CSV, TSV or Parquet")
    split: str = option("test", "the task's split to predict")
    output: str = option("predictions.jsonl", "where predictions go; .jsonl or .csv says the format")
    submission: bool | str = option(False, "also write the benchmark's own file, into this folder (true: submission)")
    threshold: float = option(0.5, "probability from which a label counts, for multi-label models")
    averaging: Averaging = option("weight", "weight: one pass without noise; model: the mean over `samples` noisy ones")
    samples: int = option(16, "noisy passes over every text, with averaging=model")
    noise: Noise = option("dropout", "what differs between them: the model's own dropout, or tokens left out")
    drop_rate: float = option(0.1, "share of tokens left out of every pass, with noise=droptoken")
    seed: int = option(0, "seed of the noise")
    max_tokens_per_batch: int = option(4096, "tokens computed at once")
    limit: int | None = option(None, "predict only so many examples, the same ones every time")
    packed: bool = option(True, "compute real tokens only (same result, less work)")
    bf16: bool = option(False, "compute in bfloat16")

    def __post_init__(self) -> None:
        self.check_text_options("an input file", has_files=self.input is not None)
        if Path(self.output).suffix not in {".jsonl", ".csv"}:
            raise InputError(f"must end in .jsonl or .csv, got '{self.output}'", where="output")
        if self.submission and not self.task:
            raise InputError("only a known task has an official format; name the task", where="submission")
        if self.samples < 2:
            raise InputError(f"must be 2 or more, got {self.samples}", where="samples")
        if not 0 <= self.drop_rate < 1:
            raise InputError(f"must be in [0, 1), got {self.drop_rate}", where="drop_rate")


@dataclass(kw_only=True)
class EmbedConfig:
    """One vector a text.

    A sentence-transformers folder brings its own pooling, normalisation, length limit and prompts; the options left
    at their defaults follow it.

    Raises:
        InputError: options that contradict one another, by name.
    """

    model: str = option("", "encoder: a local folder, a sentence-transformers folder, or a hub name")
    input: str = option("", "text file, one text a line; or JSONL, CSV, TSV, Parquet with `text_column`")
    output: str = option("embeddings.npy", "where vectors go; .npy or .parquet says the format")
    text_column: str = option("text", "column of the text, for tables")
    pooling: Pooling | None = option(None, "how tokens become one vector (default: the folder's, else mean)")
    normalize: bool | None = option(None, "scale every vector to length 1 (default: the folder's, else no)")
    prompt_name: str | None = option(None, "which of the folder's prompts to put before every text")
    max_length: int | None = option(None, "longest text in tokens (default: the folder's, else the model's)")
    max_tokens_per_batch: int = option(4096, "tokens computed at once")
    packed: bool = option(True, "compute real tokens only (same result, less work)")
    bf16: bool = option(False, "bfloat16 weights and computation; pooling stays in float32")

    def __post_init__(self) -> None:
        if not self.model:
            raise InputError("name an encoder", where="model")
        if not self.input:
            raise InputError("name the file of texts", where="input")
        if Path(self.output).suffix not in {".npy", ".parquet"}:
            raise InputError(f"must end in .npy or .parquet, got '{self.output}'", where="output")
