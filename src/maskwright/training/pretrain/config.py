"""What a pretraining run can be told; free of torch and transformers."""

# ruff: noqa: RUF009 - `option` makes a dataclass field
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from maskwright.errors import InputError
from maskwright.training.config import option

Objective = Literal["mlm", "mae"]
Unit = Literal["token", "whole_word", "span", "ngram"]
Boundary = Literal["blank_line", "line", "file"]
Decoder = Literal["layers", "cross_attention"]


@dataclass(kw_only=True)
class PretrainConfig:
    """One pretraining run.

    Units: lengths and budgets count tokens; rates lie in (0, 1]; steps are optimizer steps.

    Raises:
        InputError: options that contradict one another, by name.

    Example:
        >>> PretrainConfig(corpus=["books/*.txt.xz"], model="my/encoder", objective="mae").rate
        0.75
    """

    output_dir: str = option("run", "the run directory: final model, checkpoints, metrics, resolved config")
    overwrite_output_dir: bool = option(False, "start afresh in an output_dir that already holds a run")
    resume_from_checkpoint: bool | str = option(False, "true: go on from the last whole checkpoint; or a path")
    allow_changes: bool = option(False, "go on even though options differ from the run's own")

    objective: Objective = option(
        "mlm", "mlm: [MASK] in the encoder; mae: hidden tokens removed, a decoder predicts them"
    )
    rate: float | None = option(None, "share of tokens masked or hidden (default: 0.15 for mlm, 0.75 for mae)")
    final_rate: float | None = option(None, "rate at the end; it changes evenly from `rate` (default: the same)")
    shares: list[float] = option([0.8, 0.1, 0.1], "of masked tokens: become [MASK], stay, random (mlm)", many=True)
    unit: Unit = option("token", "what is masked together")
    chinese_words: bool = option(False, "whole words of Chinese by jieba, for unit=whole_word, span or ngram")
    decoder: Decoder = option("cross_attention", "mae: what predicts hidden tokens from visible ones")
    decoder_layers: int = option(1, "mae: layers of the decoder")
    target_share: float = option(0.2, "mae: share of the hidden tokens that are predicted")

    corpus: list[str] = option(
        [], "text, JSONL or Parquet: files, globs, folders; plain, .gz, .xz, .bz2 or .zst", many=True
    )
    text_column: str = option("text", "column of the text, in JSONL and Parquet")
    boundary: Boundary = option("blank_line", "where documents of plain text end")
    cross_documents: bool = option(False, "join documents to full rows instead of ending a row with its document")
    max_length: int = option(128, "longest row in tokens, special tokens included")
    shortest: int = option(5, "rows of fewer tokens are left out")
    validation_share: float = option(0.01, "share of documents held out, by their content")
    n_processes: int | None = option(None, "processes that tokenise (default: one, with the tokenizer's own threads)")
    cache_dir: str | None = option(None, "where tokenised rows are kept (default: datasets' cache)")

    model: str | None = option(None, "masked-LM checkpoint to go on from: a local folder or a hub name")
    from_config: str | None = option(None, "start at random from a config.json, or a model type such as bert")
    config_overrides: dict[str, Any] = option({}, "values to change in the model's configuration")
    tokenizer: str | None = option(None, "tokenizer folder or hub name (default: the model's)")

    max_tokens_per_batch: int = option(8192, "real tokens of a batch and device")
    gradient_accumulation_steps: int = option(1, "batches summed into one optimizer step")
    num_train_epochs: float = option(1.0, "passes over the corpus")
    max_steps: int = option(-1, "optimizer steps in all; overrides num_train_epochs if positive")
    max_minutes: float | None = option(None, "stop after so many minutes of training (the schedule is cut short)")
    learning_rate: float = option(1e-4, "peak learning rate")
    lr_scheduler_type: str = option(
        "linear", "schedule, by transformers' name: linear, cosine, warmup_stable_decay, ..."
    )
    lr_scheduler_kwargs: dict[str, Any] = option({}, "options of the schedule, e.g. {num_decay_steps: 1000}")
    warmup_steps: float = option(0.05, "steps of linear warm-up, or below 1 their share of all steps")
    weight_decay: float = option(0.01, "decay of all weights but biases and norms")
    adam_beta2: float = option(0.98, "decay of the second moment")
    max_grad_norm: float = option(1.0, "gradient norm above which gradients are scaled down")
    optim: str = option("adamw_torch_fused", "optimizer, by transformers' name")
    bf16: bool = option(False, "compute in bfloat16 (weights stay float32)")
    activation_checkpointing: bool = option(False, "recompute activations in the backward pass to save memory")
    head_chunk: int = option(1024, "targets whose logits are held at once")
    seed: int = option(42, "seed of every random choice")

    eval_steps: int = option(500, "steps between evaluations of the masked loss, at a rate of 0.15")
    save_steps: int = option(1000, "steps between checkpoints")
    save_total_limit: int | None = option(1, "checkpoints kept")
    logging_steps: int = option(50, "steps between logged losses")
    report_to: list[str] = option(["tensorboard"], "loggers, e.g. tensorboard, wandb; [] for none")
    training_arguments: dict[str, Any] = option({}, "any further TrainingArguments, by name")

    def __post_init__(self) -> None:
        if not self.corpus:
            raise InputError("name files, globs or folders of text", where="corpus")
        if (self.model is None) == (self.from_config is None):
            raise InputError("name either a model, or from_config for a random start", where="model")
        if self.from_config and not self.tokenizer:
            raise InputError("a random start needs a tokenizer: tokenizer=FOLDER", where="tokenizer")
        if self.rate is None:
            self.rate = 0.15 if self.objective == "mlm" else 0.75
        for name in ("rate", "final_rate", "target_share"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1:
                raise InputError(f"must be above 0 and at most 1, got {value}", where=name)
        if len(self.shares) != 3 or min(self.shares) < 0 or abs(sum(self.shares) - 1) > 1e-6:
            raise InputError(f"must be three shares that add up to 1, got {self.shares}", where="shares")
        if self.chinese_words and self.unit == "token":
            raise InputError("words matter only for unit=whole_word, span or ngram", where="chinese_words")
        if not 0 <= self.validation_share < 1:
            raise InputError(f"must be in [0, 1), got {self.validation_share}", where="validation_share")

    def rate_at(self, progress: float) -> float:
        """The rate when `progress` (0 to 1) of all steps are done."""
        assert self.rate is not None
        last = self.rate if self.final_rate is None else self.final_rate
        return self.rate + (last - self.rate) * min(max(progress, 0.0), 1.0)
