"""Labels and probabilities of a fine-tuned model, row for row."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from maskwright.data.collate import PaddingCollator
from maskwright.data.encode import encode_examples
from maskwright.data.table import load_table
from maskwright.data.tasks.base import Example, Problem, TaskData
from maskwright.data.tasks.registry import load_task
from maskwright.encoders.pack import pack
from maskwright.errors import InputError
from maskwright.training.config import PredictConfig
from maskwright.training.metrics import decide, probabilities, score
from maskwright.training.models import load_fine_tuned, load_tokenizer, resolve_max_length
from maskwright.training.ordering import batches_by_length
from maskwright.training.texts import draw, is_labelled

_INPUT = "predict"


@dataclass(frozen=True, slots=True)
class PredictResult:
    """What a prediction run came to; `metrics` is empty where the examples have no gold labels."""

    output: str
    n_rows: int
    n_truncated: int
    metrics: dict[str, float] = field(default_factory=dict)


def run_predict(config: PredictConfig) -> PredictResult:
    """Predict a task's split or a file of one's own into JSONL or CSV, the rows in their order.

    Raises:
        InputError: a model, file or option that cannot be used, in one line; or a task whose labels are not the
            model's.
    """
    model = load_fine_tuned(config.model)
    tokenizer = load_tokenizer(config.model)
    problem = problem_of(model)
    names = label_names(model)
    data, split = _examples(config, problem, names)
    examples = draw(data.splits[split], config.limit)
    if torch.cuda.is_available():
        model.cuda()
    if config.packed:
        pack(model)
    max_length = resolve_max_length(config.max_length, model, tokenizer)
    encoded = encode_examples(examples, tokenizer, max_length, problem, len(names))
    logits = predict_logits(
        model, tokenizer, encoded.dataset, config.max_tokens_per_batch, bf16=config.bf16, progress=True
    )
    metrics: dict[str, float] = {}
    if is_labelled(examples):
        gold = np.asarray(encoded.dataset["labels"])
        metrics = score(data.metrics, logits, gold, problem, config.threshold)
    write_predictions(Path(config.output), examples, logits, names, problem, config.threshold)
    return PredictResult(config.output, len(examples), encoded.n_truncated, metrics)


def predict_logits(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    dataset: Dataset,
    max_tokens: int = 4096,
    *,
    bf16: bool = False,
    progress: bool = False,
) -> NDArray[np.float32]:
    """Logits `[N, C]` of encoded examples (see `encode_examples`), in their order, computed sorted by length."""
    collate = PaddingCollator(tokenizer)
    lengths = dataset["length"]
    inputs = dataset.remove_columns([name for name in ("labels", "length") if name in dataset.column_names])
    logits = np.empty((len(dataset), model.config.num_labels), dtype=np.float32)
    bar = tqdm(total=len(dataset), unit="row", delay=2, disable=not progress)
    model.eval()
    with bar, torch.inference_mode(), torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
        for rows in batches_by_length(lengths, max_tokens):
            columns = inputs[rows]
            batch = collate([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
            output = model(**{name: part.to(model.device) for name, part in batch.items()})
            logits[rows] = output.logits.float().cpu().numpy()
            bar.update(len(rows))
    return logits


def problem_of(model: PreTrainedModel) -> Problem:
    """What a fine-tuned model's labels are, from its configuration."""
    known = model.config.problem_type or (
        "regression" if model.config.num_labels == 1 else "single_label_classification"
    )
    return cast(Problem, known)


def label_names(model: PreTrainedModel) -> list[str]:
    """The model's labels in the order of its outputs."""
    return [model.config.id2label[i] for i in range(model.config.num_labels)]


def write_predictions(
    path: Path,
    examples: Sequence[Example],
    logits: NDArray[np.float32],
    names: Sequence[str],
    problem: Problem,
    threshold: float = 0.5,
) -> None:
    """One row an example: `id`, `label` (or `labels`, or `value`), and a probability per class.

    JSONL keeps probabilities as an object by label; CSV has a column `p(LABEL)` each, and joins several labels by "|".
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    records = _records(examples, logits, names, problem, threshold)
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            return
        flat = [_flat(record) for record in records]
        writer = csv.DictWriter(file, fieldnames=list(flat[0]))
        writer.writeheader()
        writer.writerows(flat)


def _examples(config: PredictConfig, problem: Problem, names: Sequence[str]) -> tuple[TaskData, str]:
    if config.input is not None:
        data = load_table(
            {_INPUT: config.input},
            text_column=config.text_column,
            text_pair_column=config.text_pair_column,
            label_column=config.label_column,
            problem=problem,
            labels=names,
        )
        return data, _INPUT
    data = load_task(str(config.task), str(config.data), splits=[config.split])
    known = [data.label_names.get(label, label) for label in data.labels]
    if known != list(names):
        raise InputError(
            f"{config.model} predicts {len(names)} labels ({', '.join(names[:3])}, …), which are not those of the task "
            f"{config.task} ({', '.join(known[:3])}, …)",
            where="model",
        )
    return data, config.split


def _records(
    examples: Sequence[Example], logits: NDArray[np.float32], names: Sequence[str], problem: Problem, threshold: float
) -> Iterator[dict[str, Any]]:
    answers = decide(logits, problem, threshold)
    shares = None if problem == "regression" else probabilities(logits, problem)
    for row, (example, answer) in enumerate(zip(examples, answers, strict=True)):
        record: dict[str, Any] = {"id": row if example.guid is None else example.guid}
        if problem == "multi_label_classification":
            record["labels"] = [name for name, on in zip(names, answer, strict=True) if on]
        elif problem == "regression":
            record["value"] = float(answer)
        else:
            record["label"] = names[int(answer)]
        if shares is not None:
            record["probabilities"] = {name: round(float(p), 6) for name, p in zip(names, shares[row], strict=True)}
        yield record


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    shares = record.pop("probabilities", {})
    if "labels" in record:
        record["labels"] = "|".join(record["labels"])
    return record | {f"p({name})": share for name, share in shares.items()}
