"""One optimizer step over 23 ragged examples, cut into batches in whatever way is asked; also the body of a rank.

Run as a script, `one_step.py OUT key=value ...` does it under torch.distributed and rank 0 saves the weights.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from safetensors.torch import save_file
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer, TrainingArguments

from maskwright.data.collate import PaddingCollator
from maskwright.encoders.pack import pack
from maskwright.training.trainer import PackedTrainer

N_EXAMPLES, N_LABELS, VOCABULARY, RATE = 23, 5, 61, 0.5
PROBLEMS = ("single_label_classification", "multi_label_classification", "regression")


def tiny_model(problem: str = PROBLEMS[0], *, dropout: float = 0.0) -> BertForSequenceClassification:
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=22,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=37,
        max_position_embeddings=31,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        num_labels=1 if problem == "regression" else N_LABELS,
        problem_type=problem,
    )
    return BertForSequenceClassification(config)


def tiny_tokenizer() -> BertTokenizer:
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(VOCABULARY - 5))]
    return BertTokenizer(vocab={name: i for i, name in enumerate(names)}, model_max_length=31)


def ragged_dataset(problem: str = PROBLEMS[0]) -> Dataset:
    rng = np.random.default_rng(7)
    ids = [[2, *rng.integers(5, VOCABULARY, n).tolist(), 3] for n in rng.integers(1, 29, N_EXAMPLES)]
    labels: list[Any] = rng.integers(0, N_LABELS, N_EXAMPLES).tolist()
    if problem == "multi_label_classification":
        labels = rng.integers(0, 2, (N_EXAMPLES, N_LABELS)).astype(float).tolist()
    elif problem == "regression":
        labels = rng.normal(size=N_EXAMPLES).tolist()
    return Dataset.from_dict({"input_ids": ids, "length": [len(row) for row in ids], "labels": labels})


def step(
    folder: Path | str,
    *,
    max_tokens: int | None = None,
    rows: int = N_EXAMPLES,
    accumulate: int = 1,
    problem: str = PROBLEMS[0],
    packed: bool = True,
) -> PackedTrainer:
    """One step of plain gradient descent over all examples; `accumulate` must cover all batches of the epoch."""
    model = tiny_model(problem)
    if packed:
        pack(model)
    args = TrainingArguments(
        output_dir=str(folder),
        optim="sgd",
        learning_rate=RATE,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        max_steps=1,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=accumulate,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = PackedTrainer(
        model,
        args,
        max_tokens_per_batch=max_tokens,
        train_dataset=ragged_dataset(problem),
        data_collator=PaddingCollator(tiny_tokenizer()),
    )
    trainer.train()
    return trainer


if __name__ == "__main__":
    out, *words = sys.argv[1:]
    options = {key: int(value) for key, value in (word.split("=") for word in words)}
    trained = step(Path(out).parent, **options)
    if trained.is_world_process_zero():
        save_file({name: value.contiguous() for name, value in trained.model.state_dict().items()}, out)
    torch.distributed.destroy_process_group()
