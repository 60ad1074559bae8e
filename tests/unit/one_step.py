"""One optimizer step over 23 ragged examples, cut into batches in whatever way is asked; also the body of a rank.

Run as a script, `one_step.py OUT key=value ...` does it under torch.distributed and rank 0 saves the weights.
"""

from __future__ import annotations

import os
import socket
import subprocess
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


def tiny_config(dropout: float = 0.0, **options: Any) -> BertConfig:
    return BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=22,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=37,
        max_position_embeddings=31,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        **options,
    )


def tiny_model(problem: str = PROBLEMS[0], *, dropout: float = 0.0) -> BertForSequenceClassification:
    torch.manual_seed(3)
    n_labels = 1 if problem == "regression" else N_LABELS
    return BertForSequenceClassification(tiny_config(dropout, num_labels=n_labels, problem_type=problem))


def one_step_arguments(folder: Path | str, rows: int, accumulate: int, **options: Any) -> TrainingArguments:
    """One step of plain gradient descent, so that weights show the gradient."""
    return TrainingArguments(
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
        **options,
    )


def run_on_two_ranks(*command: str) -> None:
    """`python COMMAND` twice, under torch.distributed (gloo); both must end well."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(2):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        env = {**os.environ, **{key: str(value) for key, value in place.items()}, "OMP_NUM_THREADS": "1"}
        options: dict[str, Any] = {"env": env, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        ranks.append(subprocess.Popen([sys.executable, *command], **options))
    logs = [rank.communicate(timeout=180)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(logs)


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
    args = one_step_arguments(folder, rows, accumulate)
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
