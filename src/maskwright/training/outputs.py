"""What a model says of rows of token ids, computed in batches sorted by length and given back in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from tqdm.auto import tqdm
from transformers import PreTrainedModel

from maskwright.training.ordering import batches_by_length

_INPUTS = ("input_ids", "token_type_ids")


def predict_outputs(
    model: PreTrainedModel,
    collate: Callable[[Any], dict[str, Any]],
    dataset: Dataset,
    names: Sequence[str] = ("logits",),
    max_tokens: int = 4096,
    *,
    bf16: bool = False,
    progress: bool = False,
) -> tuple[NDArray[np.float32], ...]:
    """The named outputs `[N, ...]` of a model for all rows, in evaluation mode.

    Args:
        model: called with a batch's inputs by name.
        collate: rows to a batch.
        dataset: `input_ids`, perhaps `token_type_ids`, and `length`; other columns are not read.
        names: outputs of two axes; rows of different width are filled up with -inf.
        max_tokens: slots of one batch.
        bf16: compute in bfloat16.
        progress: show a bar on anything over two seconds.
    """
    inputs = dataset.select_columns([name for name in _INPUTS if name in dataset.column_names])
    found: list[list[NDArray[np.float32]]] = [[] for _ in range(len(dataset))]
    bar = tqdm(total=len(dataset), unit="row", delay=2, disable=not progress)
    model.eval()
    with bar, torch.inference_mode(), torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
        for rows in batches_by_length(dataset["length"], max_tokens):
            columns = inputs[rows]
            batch = collate([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
            output = model(**{name: part.to(model.device) for name, part in batch.items()})
            arrays = [output[name].float().cpu().numpy() for name in names]
            for row, *parts in zip(rows, *arrays, strict=True):
                found[row] = parts
            bar.update(len(rows))
    return tuple(_stack([parts[i] for parts in found]) for i in range(len(names)))


def _stack(rows: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    stacked = np.full((len(rows), max(map(len, rows), default=0)), -np.inf, np.float32)
    for i, row in enumerate(rows):
        stacked[i, : len(row)] = row
    return stacked
