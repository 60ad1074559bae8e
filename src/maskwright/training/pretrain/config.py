"""What a pretraining run can be told; free of torch and transformers."""

# ruff: noqa: RUF009 - `option` makes a dataclass field
from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from maskwright.errors import InputError
from maskwright.training.config import RunOptions, option

Objective = Literal["mlm", "mae"]
Unit = Literal["token", "whole_word", "span", "ngram"]
Boundary = Literal["blank_line", "line", "file"]
Decoder = Literal["layers", "cross_attention", "mask_later"]


@dataclass(kw_only=True)
class PretrainConfig(RunOptions):
    """One pretraining run.

    Units: lengths and budgets count tokens; rates lie in (0, 1]; steps are optimizer steps.

    Raises:
        InputError: options that contradict one another, by name.

    Example:
        >>> PretrainConfig(corpus=["books/*.txt.xz"], model="my/encoder", objective="mae").rate
        0.75
    """

    allow_changes: bool = option(False, "go on even though options differ from the run's own")

    objective: Objective = option(
        "mlm", "mlm: [MASK] in the encoder; mae: hidden tokens removed, a decoder predicts them"
    )
    rate: float | None = option(None, "share of tokens masked or hidden (default: 0.15 for mlm, 0.75 for mae)")
    final_rate: float | None = option(None, "rate at the end; it changes evenly from `rate` (default: the same)")
    shares: list[float] = option([0.8, 0.1, 0.1], "of masked tokens: become [MASK], stay, random (mlm)", many=True)
    unit: Unit = option("token", "what is masked together")
    chinese_words: bool = option(False, "whole words of Chinese by jieba, for unit=whole_word, span or ngram")
    thesaurus: str | None = option(None, "JSON of {word: [similar words]} that take the place of [MASK] (MacBERT; mlm)")
    nearest: int | None = option(None, "one of so many nearest tokens of `model` takes the place of [MASK] (mlm)")
    decoder: Decoder = option(
        "cross_attention",
        "mae: what predicts hidden tokens; layers: new ones over all tokens; cross_attention: new ones from hidden to "
        "visible tokens; mask_later: the encoder's own last ones, which [MASK] enters",
    )
    decoder_layers: int = option(1, "mae: layers of the decoder")
    target_share: float = option(0.2, "mae: share of the hidden tokens that are predicted")

    corpus: list[str] = option(
        [], "text, JSONL or Parquet: files, globs, folders; plain, .gz, .xz, .bz2 or .zst", many=True
    )
    dataset_name: str | None = option(None, "instead of a corpus: a hub dataset, or a folder that `datasets` loads")
    dataset_config_name: str | None = option(None, "which of the dataset's configurations")
    dataset_split: str = option("train", "which of the dataset's splits")
    streaming: bool = option(False, "read text while training, for what fits neither memory nor disk; needs max_steps")
    shuffle_buffer: int = option(10000, "streaming: rows that are read ahead, and batches drawn from")
    text_column: str = option("text", "column of the text, in JSONL, Parquet and datasets")
    boundary: Boundary = option("blank_line", "where documents of plain text end")
    cross_documents: bool = option(False, "join documents to full rows instead of ending a row with its document")
    max_length: int = option(128, "longest row in tokens, special tokens included")
    shortest: int = option(5, "rows of fewer tokens are left out")
    validation_share: float = option(0.01, "share of documents held out, by their content")
    n_processes: int | None = option(None, "processes that tokenise (default: one, with the tokenizer's own threads)")
    cache_dir: str | None = option(None, "where tokenised rows are kept (default: datasets' cache)")

    max_tokens_per_batch: int = option(8192, "real tokens of a batch and device")
    num_train_epochs: float = option(1.0, "passes over the corpus")
    max_minutes: float | None = option(
        None, "stop after so many minutes of training, anew when resumed (the schedule is cut short)"
    )
    learning_rate: float = option(1e-4, "peak learning rate")
    warmup_steps: float = option(0.05, "steps of linear warm-up, or below 1 their share of all steps")
    adam_beta2: float = option(0.98, "decay of the second moment")
    head_chunk: int = option(1024, "targets whose logits are held at once")

    eval_steps: int = option(500, "steps between evaluations of the masked loss: 15% of held-out tokens, all hidden")
    save_steps: int = option(1000, "steps between checkpoints")

    def __post_init__(self) -> None:
        if bool(self.corpus) == (self.dataset_name is not None):
            raise InputError("name files, globs or folders of text, or else a dataset_name", where="corpus")
        self.check_run_options()
        self._check_streaming()
        self._check_replacement()
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

    def _check_streaming(self) -> None:
        if self.streaming and self.max_steps < 1:
            raise InputError("streaming never comes to an end by itself: set max_steps", where="max_steps")
        if self.streaming and self.cross_documents:
            raise InputError("streamed rows end with their document; leave it off", where="cross_documents")
        if self.shuffle_buffer < 1:
            raise InputError(f"must be 1 or more, got {self.shuffle_buffer}", where="shuffle_buffer")

    def _check_replacement(self) -> None:
        chosen = [name for name in ("thesaurus", "nearest") if getattr(self, name) is not None]
        if chosen and self.objective != "mlm":
            raise InputError("replaces [MASK], which only objective=mlm uses", where=chosen[0])
        if len(chosen) == 2:
            raise InputError("choose one of thesaurus and nearest", where="nearest")
        if self.nearest is not None and (self.model is None or self.unit != "token"):
            raise InputError("nearest tokens need trained embeddings (model=...) and unit=token", where="nearest")
        if self.nearest is not None and self.nearest < 1:
            raise InputError(f"must be 1 or more, got {self.nearest}", where="nearest")

    def rate_at(self, progress: float) -> float:
        """The rate at `progress`: 0 in the first step, 1 in the last."""
        assert self.rate is not None
        last = self.rate if self.final_rate is None else self.final_rate
        return self.rate + (last - self.rate) * min(max(progress, 0.0), 1.0)
