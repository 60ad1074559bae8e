"""Predictions as the mean over noisy passes of one model (model averaging), or one pass without noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from torch import Tensor
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from maskwright.core.sampling import keep_survivors
from maskwright.data.collate import PaddingCollator
from maskwright.data.tasks.base import Problem
from maskwright.errors import InputError
from maskwright.objectives.averaging import Averaged, summarise
from maskwright.objectives.corruption import stream
from maskwright.objectives.dropout import dropout_on, evaluating
from maskwright.training.config import Averaging, Noise
from maskwright.training.metrics import probabilities
from maskwright.training.ordering import batches_by_length
from maskwright.training.outputs import predict_outputs

Indices = NDArray[np.int64]
_INPUTS = ("input_ids", "token_type_ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How to average over noisy passes.

    Attributes:
        samples: S, the passes over every text, 2 or more.
        noise: "dropout": the model's own, attention dropout included; "droptoken": tokens left out, drawn for every
            text and sample on its own, so that batches and packing change nothing.
        drop_rate: DropToken's probability, in (0, 1).
        seed: of the noise; torch's global generator stays as it was.

    Raises:
        InputError: fewer than two samples, or a rate out of range.
    """

    samples: int = 16
    noise: Noise = "dropout"
    drop_rate: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise InputError(f"2 or more are needed to average, got {self.samples}", "samples")
        if self.noise not in ("dropout", "droptoken"):
            raise InputError(f"'{self.noise}' is neither dropout nor droptoken", "noise")
        if self.noise == "droptoken" and not 0 < self.drop_rate < 1:
            raise InputError(f"must be above 0 and below 1, got {self.drop_rate}", "drop_rate")


def average_probabilities(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    dataset: Dataset,
    problem: Problem,
    *,
    averaging: Averaging = "model",
    samples: int = 16,
    noise: Noise = "dropout",
    drop_rate: float = 0.1,
    seed: int = 0,
    max_tokens: int = 4096,
    bf16: bool = False,
    progress: bool = False,
) -> Averaged:
    """Mean, spread and mutual information of a classifier's or regressor's predictions, in the examples' order.

    Args:
        model: any Hugging Face model whose outputs have `logits` `[B, C]`, packed or not; its mode stays as it is.
        tokenizer: its tokenizer.
        dataset: as `encode_examples` gives it.
        problem: what the logits mean; in regression the mean is of the value.
        averaging: "weight": one pass in evaluation mode, as anyone would predict; "model": the mean over noisy passes.
        samples, noise, drop_rate, seed: see `Sampling`.
        max_tokens: padded slots in a batch at most. All samples of a text run in one batch where they fit.
        bf16: compute in bfloat16.
        progress: show a bar, once it takes more than two seconds.

    Raises:
        InputError: see `Sampling`; or a model without dropout.

    Source: Gal and Ghahramani 2016, Dropout as a Bayesian Approximation.
    """
    if averaging not in ("weight", "model"):
        raise InputError(f"'{averaging}' is neither weight nor model", "averaging")
    collate = PaddingCollator(tokenizer)
    if averaging == "weight":
        with evaluating(model):
            (logits,) = predict_outputs(model, collate, dataset, ("logits",), max_tokens, bf16=bf16, progress=progress)
        mean = _shares(logits, problem)
        return Averaged(mean, np.zeros_like(mean), None if problem == "regression" else np.zeros(len(mean)))
    sampling = Sampling(samples=samples, noise=noise, drop_rate=drop_rate, seed=seed)
    (averaged,) = average_outputs(
        model,
        tokenizer.all_special_ids,
        collate,
        dataset,
        ("logits",),
        problem,
        sampling,
        max_tokens=max_tokens,
        bf16=bf16,
        progress=progress,
    )
    return averaged


def average_outputs(
    model: PreTrainedModel,
    special_ids: Sequence[int],
    collate: Callable[[Any], dict[str, Any]],
    dataset: Dataset,
    names: Sequence[str],
    problem: Problem,
    sampling: Sampling,
    *,
    max_tokens: int = 4096,
    bf16: bool = False,
    progress: bool = False,
) -> tuple[Averaged, ...]:
    """The summary of each named output of a model over noisy passes, for any kind of task.

    Args:
        model: called with a batch's inputs by name; it stays in the mode it is in.
        special_ids: tokens that DropToken leaves alone.
        collate: rows to a batch.
        dataset: `input_ids`, perhaps `token_type_ids`, and `length`; other columns are not read.
        names: outputs of two axes, logits that `probabilities` understands. Rows of different width are filled up with
            probability 0.
        problem: what the logits mean.
        sampling: the noise.
        max_tokens, bf16, progress: see `average_probabilities`.

    Raises:
        InputError: dropout is the noise, and the model has none.
    """
    inputs = dataset.select_columns([name for name in _INPUTS if name in dataset.column_names])
    lengths = np.asarray(dataset["length"])
    found: list[list[Averaged]] = [[] for _ in names]
    order: list[Indices] = []
    bar = tqdm(total=len(lengths) * sampling.samples, unit="row", delay=2, disable=not progress)
    autocast = torch.autocast(model.device.type, torch.bfloat16, enabled=bf16)
    with bar, torch.inference_mode(), autocast, _noisy(model, sampling):
        for texts in batches_by_length(lengths * sampling.samples, max_tokens):
            columns = inputs[texts]
            rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            drawn: list[list[NDArray[np.float32]]] = [[] for _ in names]
            place = np.repeat(np.arange(len(texts)), sampling.samples)
            number = np.tile(np.arange(sampling.samples), len(texts))
            at_once = max(1, max_tokens // int(lengths[texts].max()))
            for start in range(0, len(place), at_once):
                part = slice(start, start + at_once)
                batch = collate([rows[i] for i in place[part]])
                if sampling.noise == "droptoken":
                    drop_tokens(batch, texts[place[part]], number[part], special_ids, sampling)
                output = model(**{name: value.to(model.device) for name, value in batch.items()})
                for name, each in zip(names, drawn, strict=True):
                    each.append(output[name].float().cpu().numpy())
                bar.update(len(batch["input_ids"]))
            for each, summaries in zip(drawn, found, strict=True):
                shares = _shares(np.concatenate(each), problem)
                samples = shares.reshape(len(texts), sampling.samples, -1).swapaxes(0, 1)
                summaries.append(summarise(samples, problem))
            order.append(texts)
    return tuple(_in_order(summaries, np.concatenate(order)) for summaries in found)


def with_spread(records: Iterable[dict[str, Any]], averaged: Sequence[Averaged]) -> Iterator[dict[str, Any]]:
    """Records of examples, with `spread` (shaped as their `probabilities`, or one value) and `mutual_information`.

    Where nothing was averaged, or more than one output (an answer's start and end), records stay as they are.
    """
    if len(averaged) != 1:
        yield from records
        return
    (summary,) = averaged
    for row, record in enumerate(records):
        spread = [round(value, 6) for value in summary.spread[row].tolist()]
        names = record.get("probabilities")
        doubt: dict[str, Any] = {"spread": spread[0] if names is None else dict(zip(names, spread, strict=False))}
        if summary.mutual_information is not None:
            doubt["mutual_information"] = round(float(summary.mutual_information[row]), 6)
        yield record | doubt


def drop_tokens(
    batch: dict[str, Tensor], texts: Indices, numbers: Indices, special_ids: Sequence[int], sampling: Sampling
) -> None:
    """Clear the `attention_mask` of dropped tokens; a row's draw follows from seed, text and sample number alone.

    Args:
        batch: `input_ids` and `attention_mask` `[B, L]` or `[B, C, L]` (1 = takes part); the mask is replaced.
        texts, numbers: `[B]`: of which text a row is which sample.
        special_ids: never dropped.
        sampling: rate and seed.
    """
    mask = batch["attention_mask"]
    keep = mask.bool().view(-1, mask.shape[-1])
    special = torch.isin(batch["input_ids"], torch.tensor(sorted(special_ids))).view_as(keep)
    # Only real tokens take draws, so the width of the batch does not matter.
    counts = mask.flatten(1).sum(1).tolist()
    draws = [
        torch.rand(n, generator=stream(sampling.seed, text, number))
        for n, text, number in zip(counts, texts.tolist(), numbers.tolist(), strict=True)
    ]
    survives = torch.zeros_like(keep)
    survives[keep] = torch.cat(draws) >= sampling.drop_rate
    batch["attention_mask"] = keep_survivors(keep, ~special, survives).view_as(mask).to(mask.dtype)


@contextmanager
def _noisy(model: PreTrainedModel, sampling: Sampling) -> Iterator[None]:
    """Evaluation mode, with dropout (drawing from a generator of its own) if that is the noise."""
    if sampling.noise == "droptoken":
        with evaluating(model):
            yield
        return
    devices = [model.device] if model.device.type == "cuda" else []
    with dropout_on(model), torch.random.fork_rng(devices):
        torch.manual_seed(sampling.seed)
        yield


def _shares(logits: NDArray[np.float32], problem: Problem) -> NDArray[np.float64]:
    return logits.astype(np.float64) if problem == "regression" else probabilities(logits, problem)


def _in_order(summaries: Sequence[Averaged], order: Indices) -> Averaged:
    """The summaries of batches, joined, text i at row i."""
    width = max(each.mean.shape[1] for each in summaries)
    mean, spread = np.zeros((2, len(order), width))
    information = np.zeros(len(order))
    start = 0
    for each in summaries:
        rows, own = order[start : start + len(each.mean)], each.mean.shape[1]
        mean[rows, :own], spread[rows, :own] = each.mean, each.spread
        if each.mutual_information is not None:
            information[rows] = each.mutual_information
        start += len(rows)
    return Averaged(mean, spread, None if summaries[0].mutual_information is None else information)
