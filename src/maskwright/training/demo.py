"""The main job in small: a tokenizer, two pretrainings, fine-tuning on the bundled sample, predictions, the cost."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from maskwright.data.encode import encode_examples
from maskwright.data.sample import load_sample
from maskwright.data.tasks.base import Example, TaskData
from maskwright.encoders.pack import pack
from maskwright.training.config import FinetuneConfig
from maskwright.training.finetune import FinetuneResult, run_finetune
from maskwright.training.metrics import probabilities
from maskwright.training.models import load_fine_tuned, load_tokenizer
from maskwright.training.predict import label_names, predict_logits, write_predictions
from maskwright.training.pretrain.config import Objective, PretrainConfig
from maskwright.training.pretrain.run import PretrainResult, run_pretrain
from maskwright.training.runs import write_json
from maskwright.training.texts import TEST, TRAIN, draw
from maskwright.training.wordpiece import SPECIAL_TOKENS, train_wordpiece

_MODEL = {
    "num_hidden_layers": 3,
    "hidden_size": 192,
    "num_attention_heads": 3,
    "intermediate_size": 384,
    "max_position_embeddings": 256,
    # From random weights, a mean over tokens learns within minutes what a [CLS] token would take hours to.
    "classifier_pooling": "mean",
    "cls_token_id": SPECIAL_TOKENS.index("[CLS]"),
    "sep_token_id": SPECIAL_TOKENS.index("[SEP]"),
    "bos_token_id": SPECIAL_TOKENS.index("[CLS]"),
    "eos_token_id": SPECIAL_TOKENS.index("[SEP]"),
}
# MAE wants about a third of MLM's: what 2e-3 made of it was fine-tuned to 17% of the topics right, 3e-4 to 53%.
_LEARNING_RATES: dict[Objective, float] = {"mlm": 1e-3, "mae": 3e-4}
_LENGTH = 256
N_STAGES = 8


@dataclass(frozen=True, slots=True)
class DemoSize:
    """How much work the demo is: examples, minutes of each pretraining, epochs of fine-tuning, stock steps."""

    n_train: int = 4000
    n_test: int = 1000
    minutes: float = 1.0
    num_train_epochs: float = 1
    stock_steps: int = 30
    vocab_size: int = 8000


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo found.

    `speedup` is the packed run's real tokens a second over the stock run's, each over its own steps of the same job.
    """

    folder: str
    pretrained: dict[str, PretrainResult]
    packed: FinetuneResult
    after_mae: FinetuneResult
    from_random: FinetuneResult
    dropped: FinetuneResult
    stock: FinetuneResult
    samples: list[dict[str, Any]]

    @property
    def speedup(self) -> float:
        """Packed over stock, real tokens a second."""
        return self.packed.tokens_per_s / self.stock.tokens_per_s

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"speedup": self.speedup}


def run_demo(folder: Path, size: DemoSize | None = None, tell: Callable[[str], None] = print) -> DemoResult:
    """Train a tokenizer, pretrain two encoders and fine-tune them on the bundled sample; all lands in `folder`.

    The stock run has the very start and batches of the packed one, padded and computed as transformers does, for as
    many steps as it takes to measure its speed.

    Args:
        folder: where `tokenizer/`, the run directories and predictions go.
        size: how much work.
        tell: takes a line a stage, of which there are `N_STAGES`.
    """
    size = size or DemoSize()
    data = load_sample()
    data.splits = {TRAIN: draw(data.splits[TRAIN], size.n_train), TEST: draw(data.splits[TEST], size.n_test)}
    tell(f"tokenizer: WordPiece from {len(data.splits[TRAIN]):,} paragraphs")
    tokenizer = train_wordpiece((example.text for example in data.splits[TRAIN]), size.vocab_size, _LENGTH)
    tokenizer.save_pretrained(folder / "tokenizer")

    tell(f"pretraining on its text, {size.minutes:g} min: masked language modelling, 15% masked")
    mlm = run_pretrain(_pretraining(folder, "mlm", size, data.splits[TRAIN]))
    tell(f"the same time for a masked autoencoder: 75% of the tokens removed, {size.minutes:g} min")
    mae = run_pretrain(_pretraining(folder, "mae", size, data.splits[TRAIN]))

    tell(f"fine-tuning what the MLM left, packed: {data.n_labels} topics")
    packed = run_finetune(_config(folder, "packed", size, "mlm"), data)
    tell("the same from what the MAE left, and from random weights")
    after_mae = run_finetune(_config(folder, "packed-after-mae", size, "mae"), data)
    from_random = run_finetune(_config(folder, "packed-from-random", size, None), data)
    tell("the same from the MLM with DropToken, a tenth of the tokens left out")
    dropped = run_finetune(_config(folder, "packed-droptoken", size, "mlm", drop_rate=0.1), data)
    tell(f"the same job unpacked, its first {size.stock_steps} steps")
    stock_config = _config(folder, "stock", size, "mlm", packed=False)
    no_test = TaskData(data.name, data.problem, {TRAIN: data.splits[TRAIN]}, data.labels, metrics=data.metrics)
    stock = run_finetune(stock_config, no_test, callbacks=[_StopAfter(size.stock_steps)])

    tell("predicting held-out paragraphs")
    samples = _predict(folder, data, data.splits[TEST])
    pretrained = {"mlm": mlm, "mae": mae}
    result = DemoResult(str(folder), pretrained, packed, after_mae, from_random, dropped, stock, samples)
    write_json(folder / "demo.json", result.to_dict())
    return result


def _pretraining(folder: Path, objective: Objective, size: DemoSize, examples: list[Example]) -> PretrainConfig:
    corpus = folder / "corpus.jsonl"
    lines = (json.dumps({"text": example.text}, ensure_ascii=False) + "\n" for example in examples)
    corpus.write_text("".join(lines), encoding="utf-8")
    return PretrainConfig(
        objective=objective,
        corpus=[str(corpus)],
        from_config="modernbert",
        config_overrides=_MODEL,
        tokenizer=str(folder / "tokenizer"),
        output_dir=str(folder / f"pretrained-{objective}"),
        overwrite_output_dir=True,
        cache_dir=str(folder / "cache"),
        validation_share=0.05,
        max_length=_LENGTH,
        max_tokens_per_batch=1024,
        learning_rate=_LEARNING_RATES[objective],
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=20,
        max_minutes=size.minutes,
        num_train_epochs=100,
        eval_steps=10**6,
        save_steps=10**6,
    )


def _config(folder: Path, name: str, size: DemoSize, start: Objective | None, **changes: Any) -> FinetuneConfig:
    begin: dict[str, Any] = {"from_config": "modernbert", "tokenizer": str(folder / "tokenizer")}
    if start is not None:
        begin = {"model": str(folder / f"pretrained-{start}")}
    return FinetuneConfig(
        **begin,
        config_overrides=_MODEL,
        train_file="the bundled docs_topic sample",
        output_dir=str(folder / name),
        overwrite_output_dir=True,
        max_length=_LENGTH,
        per_device_train_batch_size=16,
        num_train_epochs=size.num_train_epochs,
        learning_rate=1e-3,
        save_strategy="no",
        logging_steps=100,
        **changes,
    )


def _predict(folder: Path, data: TaskData, examples: list[Example], n_shown: int = 5) -> list[dict[str, Any]]:
    model = pack(load_fine_tuned(str(folder / "packed")))
    tokenizer = load_tokenizer(str(folder / "packed"))
    encoded = encode_examples(examples, tokenizer, _LENGTH, data.problem, data.n_labels)
    logits = predict_logits(model, tokenizer, encoded.dataset)
    names = label_names(model)
    write_predictions(folder / "predictions.jsonl", examples, logits, names, data.problem)
    shares = probabilities(logits, data.problem)
    return [
        {
            "text": example.text,
            "gold": data.labels[int(str(example.label))],
            "predicted": names[int(row.argmax())],
            "probability": float(row.max()),
        }
        for example, row in list(zip(examples, shares, strict=True))[:n_shown]
    ]


class _StopAfter(TrainerCallback):
    """Ends training after some steps, its schedule still that of the whole job."""

    def __init__(self, n_steps: int) -> None:
        self.n_steps = n_steps

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if state.global_step >= self.n_steps:
            control.should_training_stop = True
